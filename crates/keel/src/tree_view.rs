//! The tree as a picture in a terminal: a bar a level, filled against its target, with its runs, where the tombstones are,
//! and what compactions hold.

use evenkeel_lab::report::{bytes, count};
use serde_json::Value;

/// Runs that are listed below a level.
const RUNS_SHOWN: usize = 6;
/// A run's keys are cut to this many characters.
const KEY_CHARS: usize = 14;

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
    let name = text(report, "keyspace");
    out.push_str(&format!("{}  {}\n\n", style.paint(Colour::Bold, name), text(report, "strategy")));
    memory(&mut out, report, style);
    let levels: Vec<&Value> = list(report, "levels").collect();
    if levels.iter().all(|level| number(level, "tables") == 0) {
        out.push_str("\nno tables yet\n");
        return out;
    }
    for level in levels {
        draw_level(&mut out, level, style);
    }
    jobs(&mut out, report, style);
    if report.to_string().contains("\"heat\":[0.") && has_tombstones(report) {
        out.push_str("\nTombstones along a run: · none  ░ some  ▒ a third  ▓ half  █ nearly all\n");
    }
    out
}

fn has_tombstones(report: &Value) -> bool {
    list(report, "levels").any(|level| number(level, "tombstones") > 0)
}

fn memory(out: &mut String, report: &Value, style: Style) {
    let (full, memtables) = (number(report, "memtable_bytes"), &report["memtables"]);
    let active = number(memtables, "active_bytes");
    let waiting = match number(memtables, "waiting") {
        0 => String::new(),
        n => format!(", {n} waiting ({})", bytes(number(memtables, "waiting_bytes"))),
    };
    let bar = style.bar(active, 0, full);
    out.push_str(&format!("mem {bar} {:>10} of {}{waiting}\n", bytes(active), bytes(full)));
}

fn draw_level(out: &mut String, level: &Value, style: Style) {
    let [held, busy, target, debt] =
        ["bytes", "busy_bytes", "target_bytes", "debt_bytes"].map(|name| number(level, name));
    let bar = style.bar(held, busy, target);
    let (runs, max) = (number(level, "runs"), number(level, "max_runs"));
    let shape = if max == 1 { "leveled".to_owned() } else { format!("tiered, {runs} of {max} runs") };
    let full = if target == 0 { String::new() } else { format!(" of {}", bytes(target)) };
    let tables = match number(level, "tables") {
        1 => "1 table".to_owned(),
        n => format!("{} tables", count(n)),
    };
    out.push_str(&format!(
        "L{:<2} {bar} {:>10}{full}, {tables}, {shape}\n",
        number(level, "level"),
        bytes(held)
    ));
    let mut notes = Vec::new();
    if debt > 0 {
        notes.push(style.paint(Colour::Yellow, &format!("{} want to move", bytes(debt))));
    }
    let (dels, entries) = (number(level, "tombstones"), number(level, "entries"));
    if dels > 0 {
        let share = 100.0 * dels as f64 / entries.max(1) as f64;
        let age = level["tombstone_oldest_seconds"].as_u64();
        let age = age.map_or_else(String::new, |s| format!(", the oldest for {}", age_words(s)));
        notes.push(format!("{share:.1} % tombstones{age}"));
    }
    if !notes.is_empty() {
        out.push_str(&format!("      {}\n", notes.join("; ")));
    }
    let listed: Vec<&Value> = list(level, "run_list").collect();
    // One run over the whole level says nothing that the level does not, but for its keys.
    for run in listed.iter().take(RUNS_SHOWN) {
        draw_run(out, run, style);
    }
    if runs as usize > RUNS_SHOWN {
        out.push_str(&format!("      and {} older runs\n", runs as usize - RUNS_SHOWN));
    }
}

fn draw_run(out: &mut String, run: &Value, style: Style) {
    let keys = format!("{} .. {}", cut(text(run, "from")), cut(text(run, "to")));
    let heat: String = list(run, "heat").map(|share| shade(share.as_f64().unwrap_or(0.0))).collect();
    let heat = if number(run, "tombstones") == 0 { String::new() } else { format!("  {heat}") };
    let jobs: Vec<String> = list(run, "jobs").map(|job| format!("job {job}")).collect();
    let jobs = match jobs.is_empty() {
        true => String::new(),
        false => format!("  {}", style.paint(Colour::Cyan, &jobs.join(" "))),
    };
    let (size, id) = (bytes(number(run, "bytes")), format!("run {}", number(run, "run")));
    out.push_str(format!("      {id:<9} {size:>10}  {keys}{heat}{jobs}").trim_end());
    out.push('\n');
}

fn jobs(out: &mut String, report: &Value, style: Style) {
    let open: Vec<&Value> = list(report, "jobs").collect();
    if open.is_empty() {
        return;
    }
    out.push('\n');
    for job in open {
        let (from, to) = (number(job, "level"), number(job, "output_level"));
        let id = style.paint(Colour::Cyan, &format!("job {}", number(job, "job")));
        let (class, size, state) = (text(job, "class"), bytes(number(job, "bytes")), text(job, "state"));
        let age = age_words(number(job, "seconds"));
        out.push_str(&format!("{id}  {class}, L{from} to L{to}, {size}, for {age}, {state}\n"));
        out.push_str(&format!("      because of {}\n", text(job, "reason")));
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
        s if s <= 0.0 => '·',
        s if s < 0.3 => '░',
        s if s < 0.5 => '▒',
        s if s < 0.9 => '▓',
        _ => '█',
    }
}

fn cut(key: &str) -> String {
    match key.chars().count() {
        n if n <= KEY_CHARS => key.to_owned(),
        _ => key.chars().take(KEY_CHARS - 1).collect::<String>() + "…",
    }
}

fn age_words(s: u64) -> String {
    match s {
        0..60 => format!("{s} s"),
        60..3600 => format!("{} min", s / 60),
        3600..86_400 => format!("{} h", s / 3600),
        _ => format!("{} days", s / 86_400),
    }
}

fn number(value: &Value, name: &str) -> u64 {
    value.get(name).and_then(Value::as_u64).unwrap_or(0)
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or("")
}

fn list<'a>(value: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    value.get(name).and_then(Value::as_array).into_iter().flatten()
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
                    {"run": 8, "tables": 1, "bytes": 1000, "tombstones": 0, "from": "a-key-that-is-long", "to": "b",
                     "heat": [0.0], "jobs": [7]}]},
                {"level": 1, "max_runs": 1, "runs": 1, "tables": 1, "bytes": 90000, "busy_bytes": 0,
                 "target_bytes": 40000, "debt_bytes": 50000, "entries": 100, "tombstones": 0, "run_list": []}],
            "jobs": [{"job": 7, "class": "l0-to-l1", "level": 0, "output_level": 1, "bytes": 1000, "seconds": 3,
                      "state": "running", "reason": "runs, score 1.00 at L0"}],
        })
    }

    #[test]
    fn a_tree_is_drawn_within_80_columns() {
        let expected = "\
default  1-leveling

mem ██████████··········      512 B of 1.0 KiB, 1 waiting (1.0 KiB)
L0  ██████████▒▒▒▒▒·····    2.9 KiB of 3.9 KiB, 2 tables, tiered, 2 of 4 runs
      25.0 % tombstones, the oldest for 1 min
      run 9        2.0 KiB  apple .. zebra  ░
      run 8         1000 B  a-key-that-is… .. b  job 7
L1  ███████████████████▶   87.9 KiB of 39.1 KiB, 1 table, leveled
      48.8 KiB want to move

job 7  l0-to-l1, L0 to L1, 1000 B, for 3 s, running
      because of runs, score 1.00 at L0

Tombstones along a run: · none  ░ some  ▒ a third  ▓ half  █ nearly all
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
