//! The tree as a picture in a terminal: a bar a level, filled against its target, with its runs, where the tombstones are,
//! and what compactions hold.

use evenkeel_lab::results::report::{bytes, count};
use serde_json::Value;

use crate::answer::{array, number, text};
use crate::escape::{escape, one_line, unescape};

/// Runs that are listed below a level.
const RUNS_SHOWN: usize = 6;
/// Groups by heat that are listed below a level.
const GROUPS_SHOWN: usize = 12;
/// Columns beside a group's keys.
const GROUP_COLUMNS: usize = 23 + 4 + 13 + 18;
/// A run's keys are cut to what the line leaves them, but to no less and no more than this many columns.
const KEY_COLUMNS: [usize; 2] = [8, 28];
/// Columns before a run's keys, and what stands between them.
const RUN_COLUMNS: usize = 28 + 4;
/// Jobs that are named beside a run.
const JOBS_SHOWN: usize = 2;

/// How it is drawn.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    /// With colours.
    pub coloured: bool,
    /// The terminal's columns.
    pub columns: usize,
}

/// Draws the engine's answer to `levels`.
pub fn draw(report: &Value, style: Style) -> String {
    let mut out = String::new();
    let name = one_line(text(report, "/keyspace"));
    out.push_str(&format!("{}  {}\n\n", style.paint(Colour::Bold, &name), text(report, "/strategy")));
    memory(&mut out, report, style);
    let distance = number(report, "/distance_bytes");
    if distance > 0 {
        let words = format!("{} to go to the strategy's shape", bytes(distance));
        out.push_str(&format!("    {}\n", style.paint(Colour::Yellow, &words)));
    }
    let levels: Vec<&Value> = array(report, "/levels").collect();
    if levels.iter().all(|level| number(level, "/tables") == 0) {
        out.push_str("\nno tables yet\n");
        return out;
    }
    for level in levels {
        draw_level(&mut out, level, style);
    }
    jobs(&mut out, report, style);
    let mut legend = Vec::new();
    if out.contains('▒') {
        legend.push("▒ held by a job");
    }
    if out.contains('▶') {
        legend.push("▶ more than fits");
    }
    if !legend.is_empty() {
        out.push_str(&format!("\nBars: {}\n", legend.join(", ")));
    }
    if array(report, "/levels")
        .flat_map(|level| array(level, "/run_list"))
        .any(|run| number(run, "/tombstones") > 0)
    {
        out.push_str("\nTombstones along a run: . none  - some  + a third  * half  # nearly all\n");
    }
    out
}

fn memory(out: &mut String, report: &Value, style: Style) {
    let (full, memtables) = (number(report, "/memtable_bytes"), &report["memtables"]);
    let active = number(memtables, "/active_bytes");
    let waiting = match number(memtables, "/waiting") {
        0 => String::new(),
        n => format!(", {n} waiting ({})", bytes(number(memtables, "/waiting_bytes"))),
    };
    let bar = style.bar(active, 0, full);
    out.push_str(&format!("mem {bar} {:>10} of {}{waiting}\n", bytes(active), bytes(full)));
}

fn draw_level(out: &mut String, level: &Value, style: Style) {
    let [held, busy, target, debt] =
        ["/bytes", "/busy_bytes", "/target_bytes", "/debt_bytes"].map(|path| number(level, path));
    let (runs, max) = (number(level, "/runs"), number(level, "/max_runs"));
    // Where runs are counted, bytes say nothing about when it is full.
    let counted = text(level, "/full_by") == "runs";
    let bar = match counted {
        true => style.bar(runs * held.max(1), runs * busy, max * held.max(1)),
        false => style.bar(held, busy, target),
    };
    let groups: Vec<&Value> = array(level, "/group_list").collect();
    let hot = groups.iter().filter(|group| group["is_hot"] == true).count();
    let shape = match (groups.len(), max) {
        (0, 1) => "leveled".to_owned(),
        (0, _) => format!("{runs} of {max} runs"),
        (all, _) => format!("{hot} hot, {} cold", all - hot),
    };
    let full = if target == 0 || counted { String::new() } else { format!(" of {}", bytes(target)) };
    let tables = match number(level, "/tables") {
        1 => "1 table".to_owned(),
        n => format!("{} tables", count(n)),
    };
    out.push_str(&format!(
        "L{:<2} {bar} {:>10}{full}, {tables}, {shape}\n",
        number(level, "/level"),
        bytes(held)
    ));
    let mut notes = Vec::new();
    if debt > 0 {
        notes.push(
            style.paint(Colour::Yellow, &format!("{} of debt: to write until it is in shape", bytes(debt))),
        );
    }
    let (dels, entries) = (number(level, "/tombstones"), number(level, "/entries"));
    if dels > 0 {
        let share = 100.0 * dels as f64 / entries.max(1) as f64;
        let age = level["tombstone_oldest_seconds"].as_u64();
        let age = age.map_or_else(String::new, |s| format!(", the oldest for {}", age_words(s)));
        notes.push(format!("{share:.1} % tombstones{age}"));
    }
    if !notes.is_empty() {
        out.push_str(&format!("      {}\n", notes.join("; ")));
    }
    groups.iter().take(GROUPS_SHOWN).for_each(|group| draw_group(out, group, style));
    if groups.len() > GROUPS_SHOWN {
        out.push_str(&format!("      and {} more groups\n", groups.len() - GROUPS_SHOWN));
    }
    let listed: Vec<&Value> = array(level, "/run_list").collect();
    // One run over the whole level says nothing that the level does not, but for its keys.
    for run in listed.iter().take(RUNS_SHOWN) {
        draw_run(out, run, style);
    }
    if runs as usize > RUNS_SHOWN {
        out.push_str(&format!("      and {} older runs\n", runs as usize - RUNS_SHOWN));
    }
}

/// A group by heat: how it is kept, and how much it is read.
fn draw_group(out: &mut String, group: &Value, style: Style) {
    let (heat, colour) = if group["is_hot"] == true { ("hot", Colour::Red) } else { ("cold", Colour::Cyan) };
    let [least, most] = KEY_COLUMNS;
    let room = (style.columns.saturating_sub(GROUP_COLUMNS) / 2).clamp(least, most);
    let end = |path: &str| match text(group, path) {
        "" => "…".to_owned(),
        bound => key(bound, room),
    };
    let looks =
        group["looks_per_get"].as_f64().map_or_else(String::new, |looks| format!(", {looks:.2} looks a get"));
    let runs = format!("{} of {}", number(group, "/runs"), number(group, "/max_runs"));
    out.push_str(&format!(
        "      {} {:>10}  {} .. {}  {runs} runs{looks}\n",
        style.paint(colour, &format!("{heat:<4}")),
        bytes(number(group, "/bytes")),
        end("/from"),
        end("/to"),
    ));
}

fn draw_run(out: &mut String, run: &Value, style: Style) {
    let heat: String = array(run, "/heat").map(|share| shade(share.as_f64().unwrap_or(0.0))).collect();
    let heat = if number(run, "/tombstones") == 0 { String::new() } else { format!("  {heat}") };
    let mut held: Vec<String> =
        array(run, "/jobs").take(JOBS_SHOWN).map(|job| format!("job {job}")).collect();
    if array(run, "/jobs").count() > JOBS_SHOWN {
        held.push("…".to_owned());
    }
    let held = held.join(" ");
    let beside = heat.chars().count() + if held.is_empty() { 0 } else { held.chars().count() + 2 };
    let [least, most] = KEY_COLUMNS;
    let room = (style.columns.saturating_sub(RUN_COLUMNS + beside) / 2).clamp(least, most);
    let keys = format!("{} .. {}", key(text(run, "/from"), room), key(text(run, "/to"), room));
    let jobs = match held.is_empty() {
        true => String::new(),
        false => format!("  {}", style.paint(Colour::Cyan, &held)),
    };
    let (size, id) = (bytes(number(run, "/bytes")), format!("run {}", number(run, "/run")));
    out.push_str(format!("      {id:<9} {size:>10}  {keys}{heat}{jobs}").trim_end());
    out.push('\n');
}

fn jobs(out: &mut String, report: &Value, style: Style) {
    let open: Vec<&Value> = array(report, "/jobs").collect();
    if open.is_empty() {
        return;
    }
    out.push('\n');
    for job in open {
        let (from, to) = (number(job, "/level"), number(job, "/output_level"));
        let id = style.paint(Colour::Cyan, &format!("job {}", number(job, "/job")));
        let class = text(job, "/class");
        let size = match number(job, "/read_bytes") {
            0 => bytes(number(job, "/bytes")),
            read => format!("{} of {} read", bytes(read), bytes(number(job, "/bytes"))),
        };
        let age = age_words(number(job, "/seconds"));
        out.push_str(&format!("{id}  {class}, L{from} to L{to}, {size}, for {age}\n"));
        out.push_str(&format!("      {}; {}\n", text(job, "/because"), text(job, "/state")));
    }
}

#[derive(Clone, Copy)]
enum Colour {
    Bold,
    Green,
    Yellow,
    Red,
    Cyan,
}

impl Style {
    fn paint(self, colour: Colour, text: &str) -> String {
        let code = match colour {
            Colour::Bold => 1,
            Colour::Red => 31,
            Colour::Green => 32,
            Colour::Yellow => 33,
            Colour::Cyan => 36,
        };
        if self.coloured { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    /// `held` against `target`, the part that jobs have shaded; an arrow where there is more than fits.
    fn bar(self, held: u64, busy: u64, target: u64) -> String {
        let width = (self.columns / 4).min(40);
        let eighths = |n: u64| (u128::from(n) * 8 * width as u128 / u128::from(target.max(1))) as usize;
        let all = if target == 0 { 0 } else { eighths(held) };
        // Anything shows.
        let all = if held > 0 { all.max(1) } else { 0 };
        let (over, all) = (all > width * 8, all.min(width * 8));
        let shaded = (eighths(busy).min(all)).div_ceil(8).min(all / 8);
        const PARTS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
        let mut bar = "█".repeat(all / 8 - shaded) + &"▒".repeat(shaded) + PARTS[all % 8];
        let used = all.div_ceil(8);
        if over {
            bar.pop();
            bar.push('▶');
        }
        let colour = match held.saturating_mul(100) / target.max(1) {
            _ if over => Colour::Red,
            75.. => Colour::Yellow,
            _ => Colour::Green,
        };
        format!("{}{}", self.paint(colour, &bar), "·".repeat(width - used))
    }
}

fn shade(share: f64) -> char {
    match share {
        s if s <= 0.0 => '.',
        s if s < 0.3 => '-',
        s if s < 0.5 => '+',
        s if s < 0.9 => '*',
        _ => '#',
    }
}

/// A key in at most so many columns: what is a letter, a digit or printable ASCII as it is, the rest escaped; never cut within
/// a character or an escape.
fn key(escaped: &str, columns: usize) -> String {
    let Ok(bytes) = unescape(escaped.as_bytes()) else { return escaped.chars().take(columns).collect() };
    if bytes.is_empty() {
        return escaped.to_owned();
    }
    let mut pieces: Vec<(String, usize)> = Vec::new();
    for chunk in bytes.utf8_chunks() {
        pieces.extend(chunk.valid().chars().map(|c| match c {
            '!'..='~' if c != '\\' => (c.to_string(), 1),
            // Letters of wide scripts take two columns.
            c if !c.is_ascii() && c.is_alphanumeric() => (c.to_string(), 1 + usize::from(c >= '\u{1100}')),
            c => hex(c.to_string().as_bytes()),
        }));
        pieces.extend(chunk.invalid().iter().map(|byte| hex(&[*byte])));
    }
    if pieces.iter().map(|(_, width)| width).sum::<usize>() <= columns {
        return pieces.into_iter().map(|(text, _)| text).collect();
    }
    let mut used = 0;
    let fits = |(_, width): &&(String, usize)| {
        used += width;
        used < columns
    };
    pieces.iter().take_while(fits).map(|(text, _)| text.as_str()).collect::<String>() + "…"
}

fn hex(bytes: &[u8]) -> (String, usize) {
    let mut text = Vec::new();
    escape(bytes, &mut text);
    // Escaped bytes are ASCII.
    (String::from_utf8_lossy(&text).into_owned(), text.len())
}

fn age_words(s: u64) -> String {
    match s {
        0..60 => format!("{s} s"),
        60..3600 => format!("{} min", s / 60),
        3600..86_400 => format!("{} h", s / 3600),
        _ => format!("{} days", s / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Style = Style { coloured: false, columns: 80 };

    fn report() -> Value {
        serde_json::json!({
            "keyspace": "default", "strategy": "1-leveling", "memtable_bytes": 1024,
            "memtables": {"active_bytes": 512, "waiting": 1, "waiting_bytes": 1024},
            "levels": [
                {"level": 0, "max_runs": 4, "runs": 2, "tables": 2, "bytes": 3000, "busy_bytes": 1000,
                 "target_bytes": 4000, "debt_bytes": 0, "entries": 100, "tombstones": 25, "tombstone_oldest_seconds": 90,
                 "run_list": [
                    {"run": 9, "tables": 1, "bytes": 2000, "tombstones": 25, "from": "apple", "to": "zebra",
                     "heat": [0.25], "jobs": []},
                    {"run": 8, "tables": 1, "bytes": 1000, "tombstones": 0, "from": "user:a-key-that-is-much-longer-than-that", "to": "b",
                     "heat": [0.0], "jobs": [7]}]},
                {"level": 1, "max_runs": 1, "runs": 1, "tables": 1, "bytes": 90000, "busy_bytes": 0,
                 "target_bytes": 40000, "debt_bytes": 50000, "entries": 100, "tombstones": 0, "run_list": []}],
            "jobs": [{"job": 7, "class": "l0-to-l1", "level": 0, "output_level": 1, "bytes": 1000, "seconds": 3,
                      "read_bytes": 500, "state": "running", "because": "because of runs, score 1.00 at L0"}],
        })
    }

    #[test]
    fn a_tree_is_drawn_within_80_columns() {
        let expected = "\
default  1-leveling

mem ██████████··········      512 B of 1.0 KiB, 1 waiting (1.0 KiB)
L0  ██████████▒▒▒▒▒·····    2.9 KiB of 3.9 KiB, 2 tables, 2 of 4 runs
      25.0 % tombstones, the oldest for 1 min
      run 9        2.0 KiB  apple .. zebra  -
      run 8         1000 B  user:a-key-that-is-… .. b  job 7
L1  ███████████████████▶   87.9 KiB of 39.1 KiB, 1 table, leveled
      48.8 KiB of debt: to write until it is in shape

job 7  l0-to-l1, L0 to L1, 500 B of 1000 B read, for 3 s
      because of runs, score 1.00 at L0; running

Bars: ▒ held by a job, ▶ more than fits

Tombstones along a run: . none  - some  + a third  * half  # nearly all
";
        let drawn = draw(&report(), PLAIN);
        assert_eq!(drawn, expected);
        assert!(drawn.lines().all(|line| line.chars().count() <= 80));
    }

    #[test]
    fn colours_are_added_and_nothing_else() {
        let coloured = draw(&report(), Style { coloured: true, ..PLAIN });
        let mut plain = String::new();
        for (i, piece) in coloured.split("\x1b[").enumerate() {
            plain.push_str(if i == 0 { piece } else { piece.split_once('m').unwrap().1 });
        }
        assert_ne!(coloured, plain);
        assert_eq!(plain, draw(&report(), PLAIN));
    }

    #[test]
    fn a_level_whose_runs_are_counted_is_full_when_they_are() {
        let mut report = report();
        report["levels"][1] = serde_json::json!({
            "level": 1, "max_runs": 4, "runs": 2, "tables": 3, "bytes": 90000, "busy_bytes": 0,
            "target_bytes": 40000, "full_by": "runs", "debt_bytes": 0, "run_list": []});
        let drawn = draw(&report, PLAIN);
        assert!(drawn.contains("L1  ██████████··········   87.9 KiB, 3 tables, 2 of 4 runs\n"), "{drawn}");
    }

    #[test]
    fn groups_by_heat_are_listed_with_how_much_they_are_read() {
        let mut report = report();
        report["levels"][1]["group_list"] = serde_json::json!([
            {"is_hot": true, "from": "", "to": "user:500", "runs": 1, "max_runs": 1, "bytes": 4096, "looks_per_get": 0.75},
            {"is_hot": false, "from": "user:500", "to": "", "runs": 3, "max_runs": 4, "bytes": 8192, "looks_per_get": null}]);
        let drawn = draw(&report, PLAIN);
        for line in [
            "1 table, 1 hot, 1 cold\n",
            "      hot     4.0 KiB  … .. user:500  1 of 1 runs, 0.75 looks a get\n",
            "      cold    8.0 KiB  user:500 .. …  3 of 4 runs\n",
        ] {
            assert!(drawn.contains(line), "no {line}in\n{drawn}");
        }
        assert!(drawn.lines().all(|line| line.chars().count() <= 80), "{drawn}");
    }

    #[test]
    fn keys_are_readable_and_never_cut_within_an_escape() {
        assert_eq!(key("user:123", 20), "user:123");
        assert_eq!(key("\\xd0\\xba\\xd0\\xb8-\\xe2\\x80\\xae", 20), "ки-\\xe2\\x80\\xae");
        assert_eq!(key("a\\x20b\\\\c", 20), "a\\x20b\\\\c");
        assert_eq!(key("\\x00\\xff\\x1b", 10), "\\x00\\xff…");
        assert_eq!(key("\\x00\\xff\\x1b", 12), "\\x00\\xff\\x1b");
        assert_eq!(key("\\e", 8), "\\e");
    }

    #[test]
    fn bars_show_anything_and_never_more_than_they_can() {
        let bar = |held, target| PLAIN.bar(held, 0, target);
        assert_eq!(bar(0, 100), "·".repeat(20));
        assert_eq!(bar(1, 1_000_000), format!("▏{}", "·".repeat(19)));
        assert_eq!(bar(100, 100), "█".repeat(20));
        for (held, busy, target) in [(5, 9, 0), (u64::MAX, u64::MAX, 1), (99, 99, 100), (1, 1, 100)] {
            assert_eq!(PLAIN.bar(held, busy, target).chars().count(), 20, "{held} {busy} {target}");
        }
    }
}
