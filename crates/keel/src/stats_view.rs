//! The figures for people: what to look at first, then a screenful of tables. Made of the engine's JSON.

use evenkeel_lab::results::report::{bytes, count, micros, rate, seconds};
use serde_json::Value;

use crate::answer::{array, float, number, text};
use crate::escape::one_line;

/// Below this many lookups the cache's share of hits says nothing.
const LOOKUPS_MIN: u64 = 10_000;
/// A snapshot this old is worth a look.
const SNAPSHOT_MS: u64 = 10 * 60 * 1000;
/// A level so full, with so much debt, is worth a look.
const FULL_PERCENT: u64 = 150;
const DEBT_MIN: u64 = 1 << 20;

/// The figures of a store, as of `now_ms`.
pub fn view(figures: &Value, now_ms: u64) -> String {
    let mut out = String::new();
    first(&mut out, figures, now_ms);
    out.push('\n');
    work(&mut out, figures);
    out.push('\n');
    for keyspace in array(figures, "/keyspaces") {
        tree(&mut out, keyspace);
        out.push('\n');
    }
    files(&mut out, figures);
    latencies(&mut out, figures);
    out
}

/// What happened between two figures, one line a second or so.
pub fn change(before: &Value, now: &Value, elapsed: f64) -> String {
    let per_sec =
        |path: &str| number(now, path).saturating_sub(number(before, path)) as f64 / elapsed.max(1e-3);
    let rate_of = |path: &str| bytes(per_sec(path) as u64);
    let jobs = ["intra-l0", "l0-to-l1", "deep", "upkeep"];
    let moved: f64 =
        jobs.iter().map(|c| per_sec(&format!("/io/{c}/read")) + per_sec(&format!("/io/{c}/written"))).sum();
    let stalled = (float(now, "/stalls/seconds") - float(before, "/stalls/seconds")) / elapsed.max(1e-3);
    format!(
        "{:>7}/s {:>10}/s {:>10}/s {:>10}/s {:>10}/s {:>4} {:>5} {:>6}",
        rate(per_sec("/writes")),
        rate_of("/user_bytes"),
        rate_of("/io/client/read"),
        rate_of("/io/flush/written"),
        bytes(moved as u64),
        number(now, "/levels/0/runs"),
        format!("{:.0} %", (stalled * 100.0).max(0.0)),
        rate(per_sec("/slow/count")),
    )
}

/// The head of the lines of [`change`].
pub const CHANGE_HEAD: &str =
    "   writes   user bytes  client read        flush   compaction   L0 stall   slow";

fn first(out: &mut String, figures: &Value, now_ms: u64) {
    let found = findings(figures, now_ms);
    if found.is_empty() {
        out.push_str("Nothing stands out.\n");
        return;
    }
    out.push_str("Look at first\n");
    for finding in found {
        out.push_str(&format!("  ! {finding}\n"));
    }
}

/// What is out of the ordinary, the worst first, each with what to do.
fn findings(f: &Value, now_ms: u64) -> Vec<String> {
    let mut out = Vec::new();
    let n = |path: &str| number(f, path);
    if n("/background_errors") > 0 {
        let failures = some(n("/background_errors"), "failure", "failures");
        out.push(format!("{failures} of background work; LOG says which"));
    }
    if n("/jobs/refused") > 0 {
        let refused = some(n("/jobs/refused"), "compaction", "compactions");
        out.push(format!("{refused} refused for want of disk space"));
    }
    if n("/stalls/count") > 0 {
        let waited = seconds(float(f, "/stalls/seconds"));
        out.push(format!(
            "writers waited {}, {waited}, {}",
            some(n("/stalls/count"), "time", "times"),
            stall_reason(f)
        ));
    }
    if n("/slow/recent") > 0 {
        // Some stand for those of which only a sample is timed.
        let slow = some(n("/slow/recent"), "slow operation", "slow operations");
        let cause = slow_cause(f);
        out.push(format!("about {slow} lately, mostly {cause}: `keel explain --slow`"));
    }
    out.extend(array(f, "/keyspaces").filter_map(|keyspace| lag(f, keyspace)));
    let since = n("/snapshots/oldest_since_ms");
    if since > 0 && now_ms.saturating_sub(since) > SNAPSHOT_MS {
        let minutes = now_ms.saturating_sub(since) / 60_000;
        let pinned = bytes(n("/snapshots/pinned_bytes"));
        out.push(format!("the oldest snapshot is {minutes} min old and may pin {pinned}"));
    }
    let (hits, misses) = (n("/cache/hits"), n("/cache/misses"));
    if hits + misses > LOOKUPS_MIN && hits * 2 < hits + misses {
        out.push(format!(
            "the cache finds {} of its blocks; raise cache_bytes",
            percent(hits, hits + misses)
        ));
    }
    for keyspace in array(f, "/keyspaces") {
        for level in array(keyspace, "/levels").filter(|l| number(l, "/entries") > 10_000) {
            let (dels, all) = (number(level, "/tombstones"), number(level, "/entries"));
            if dels * 3 > all {
                let (name, at) = (text(keyspace, "/name"), number(level, "/level"));
                out.push(format!("L{at} of {name}: {} of the entries are tombstones", percent(dels, all)));
            }
        }
    }
    if n("/log_failures") > 0 {
        out.push("LOG or STATS could not be written; is the disk full?".to_owned());
    }
    out
}

/// How far compactions lag behind in a keyspace, if they do, and what holds them back.
fn lag(f: &Value, keyspace: &Value) -> Option<String> {
    let share = |level: &&Value| number(level, "/bytes") * 100 / number(level, "/target_bytes").max(1);
    let owing = |level: &&Value| number(level, "/debt_bytes") > 0 && number(level, "/target_bytes") > 0;
    let fullest = array(keyspace, "/levels").filter(owing).max_by_key(share);
    let (debt, tables) = (number(keyspace, "/debt_bytes"), number(f, "/table_bytes"));
    let name = text(keyspace, "/name");
    let behind = match fullest {
        Some(level) if share(&level) >= FULL_PERCENT && debt >= DEBT_MIN => {
            format!("L{} of {name} is {} % full", number(level, "/level"), share(&level))
        }
        _ if debt > tables / 4 && debt > 64 << 20 => format!("compactions of {name} lag behind"),
        _ => return None,
    };
    let rate = f.pointer("/schedule/limit_bytes_per_sec").and_then(Value::as_u64).filter(|rate| *rate > 0);
    let brake = rate.map_or_else(String::new, |rate| format!(" at {}/s", bytes(rate)));
    Some(format!("{behind}, {} of debt{brake}: `keel explain`", bytes(debt)))
}

fn stall_reason(f: &Value) -> String {
    let reasons = f.pointer("/stalls/by_reason").and_then(Value::as_object);
    let worst = reasons
        .and_then(|r| r.iter().max_by(|a, b| float(a.1, "/seconds").total_cmp(&float(b.1, "/seconds"))));
    match worst.map(|(name, _)| name.as_str()) {
        Some("backlog") => "mostly for flushes and compactions".to_owned(),
        Some("compactions") => "mostly because compactions go first".to_owned(),
        Some("memory") => "mostly for memory".to_owned(),
        Some(other) => format!("mostly because of {other}"),
        None => "see LOG".to_owned(),
    }
}

fn slow_cause(f: &Value) -> String {
    let causes = f.pointer("/slow/seconds").and_then(Value::as_object);
    let worst = causes.and_then(|c| c.iter().max_by(|a, b| float(a.1, "").total_cmp(&float(b.1, ""))));
    worst.map_or_else(String::new, |(name, _)| name.clone())
}

fn work(out: &mut String, f: &Value) {
    let n = |path: &str| number(f, path);
    let line = |out: &mut String, name: &str, text: String| out.push_str(&format!("{name:<12} {text}\n"));
    let groups = n("/writes") as f64 / n("/commit_groups").max(1) as f64;
    let user = bytes(n("/user_bytes"));
    line(
        out,
        "writes",
        format!("{} of {user}, {groups:.1} a commit, {} syncs", count(n("/writes")), count(n("/wal/syncs"))),
    );
    let (flushes, compactions, moves) =
        (n("/flushes/count"), n("/compactions/count"), n("/compactions/moves"));
    line(
        out,
        "background",
        format!("flushes {}, compactions {}, moves {}", count(flushes), count(compactions), count(moves)),
    );
    let (open, paused) = (n("/jobs/open"), n("/jobs/paused"));
    let limit = f.pointer("/schedule/limit_bytes_per_sec").and_then(Value::as_u64);
    let limit = limit.map_or_else(String::new, |rate| format!(" at {}/s", bytes(rate)));
    line(
        out,
        "now",
        format!("compactions open {open}, set aside {paused}; schedule {}{limit}", text(f, "/schedule/name")),
    );
    if let Some(load) = load(f) {
        line(out, "load", load);
    }
    let jobs = ["preempted", "resumed", "yielded", "discarded"].map(|what| n(&format!("/jobs/{what}")));
    if jobs.iter().any(|n| *n > 0) {
        let [aside, on, go, lost] = jobs.map(count);
        line(out, "jobs", format!("set aside {aside}: gone on {on}, let go {go}, thrown away {lost}"));
    }
    let a = ["write", "read", "space"].map(|kind| float(f, &format!("/amplification/{kind}")));
    line(out, "amplified", format!("write {:.2}, read {:.2}, space {:.2}", a[0], a[1], a[2]));
    line(out, "compaction", costs(f));
    let (hits, misses) = (n("/cache/hits"), n("/cache/misses"));
    let share = percent(hits, hits + misses);
    line(
        out,
        "cache",
        format!("{} of {}, {share} found", bytes(n("/cache/bytes")), bytes(n("/cache/capacity"))),
    );
    let (snapshots, pinned) = (n("/snapshots/count"), bytes(n("/snapshots/pinned_bytes")));
    line(
        out,
        "snapshots",
        if snapshots == 0 { "none".to_owned() } else { format!("{snapshots}, may pin {pinned}") },
    );
    let identity = match text(f, "/identity") {
        "" => "without a name",
        name => name,
    };
    line(
        out,
        "store",
        format!("{identity}, sequence {}, open {}", count(n("/sequence")), age(float(f, "/uptime_seconds"))),
    );
}

/// What the schedule makes of the clients' load, if it looks at it.
fn load(f: &Value) -> Option<String> {
    let rate = |path: &str| f.pointer(&format!("/schedule/{path}")).and_then(Value::as_u64);
    let client = bytes(rate("client_bytes_per_sec")?);
    let of = rate("device_bytes_per_sec").map_or_else(String::new, |speed| format!(" of {}/s", bytes(speed)));
    let load = match text(f, "/schedule/load") {
        "" => String::new(),
        load => format!("{load}, "),
    };
    let bursts = number(f, "/schedule/bursts/part") + number(f, "/schedule/bursts/whole");
    let delayed = count(number(f, "/schedule/flushes_delayed"));
    Some(format!("{load}{client}/s{of}; bursts {}, flushes delayed {delayed}", count(bursts)))
}

/// What compaction costs, as far as it is known.
fn costs(f: &Value) -> String {
    let known = |path: &str| f.pointer(&format!("/costs/{path}")).and_then(Value::as_f64);
    let mut out = format!("rewrites an entry {:.2} times", known("rewrites_per_entry").unwrap_or(0.0));
    out += &format!(", {:.0} % of the CPU", 100.0 * known("cpu_share").unwrap_or(0.0));
    if let Some(space) = known("space_amplification") {
        out += &format!("; {:.0} % superseded", 100.0 * space / (1.0 + space));
    }
    if let Some(pages) = known("pages_per_get") {
        out += &format!("; {pages:.2} pages a get");
    }
    out
}

/// The exact space of a keyspace, in words.
pub fn space(answer: &Value) -> String {
    let part = |what: &str| {
        let (entries, size) =
            (number(answer, &format!("/{what}")), number(answer, &format!("/{what}_bytes")));
        format!("{} of {}", some(entries, "entry", "entries"), bytes(size))
    };
    let tombstones = some(number(answer, "/tombstones"), "tombstone", "tombstones");
    let amplification = float(answer, "/amplification");
    format!(
        "seen {}; superseded {}; {tombstones}; space amplification {amplification:.3}",
        part("seen"),
        part("superseded")
    )
}

fn age(s: f64) -> String {
    match s as u64 {
        s @ 0..60 => format!("{s} s"),
        s @ 60..3600 => format!("{} min", s / 60),
        s @ 3600..86_400 => format!("{} h {} min", s / 3600, s / 60 % 60),
        s => format!("{} days", s / 86_400),
    }
}

fn tree(out: &mut String, k: &Value) {
    let (name, strategy) = (text(k, "/name"), text(k, "/strategy"));
    let memory = bytes(number(k, "/memtable_bytes"));
    let waiting = number(k, "/immutable_memtables");
    let name = one_line(name);
    out.push_str(&format!("{name}: {strategy}; memtables {memory}, {waiting} waiting\n"));
    out.push_str("  level runs tables      bytes     target   full     entries deleted       debt\n");
    for level in array(k, "/levels") {
        let [held, target, debt] = ["/bytes", "/target_bytes", "/debt_bytes"].map(|path| number(level, path));
        let full = if target == 0 { String::new() } else { percent(held, target) };
        let (entries, dels) = (number(level, "/entries"), number(level, "/tombstones"));
        out.push_str(&format!(
            "  L{:<4}{:>5} {:>6} {:>10} {:>10} {:>6} {:>11} {:>7} {:>10}\n",
            number(level, "/level"),
            number(level, "/runs"),
            number(level, "/tables"),
            bytes(held),
            bytes(target),
            full,
            count(entries),
            percent(dels, entries),
            bytes(debt),
        ));
    }
    let heat = |what: &str| k.pointer(&format!("/heat/{what}")).and_then(Value::as_f64).unwrap_or(0.0);
    if heat("hot_bytes") > 0.0 {
        let [reads, held] =
            ["hot_reads", "hot_bytes"].map(|part| percent((heat(part) * 1e6) as u64, 1_000_000));
        out.push_str(&format!(
            "  of its looks into tables {reads} went to the {held} of bytes foretold to be hot\n"
        ));
    }
    // What `keel explain` calls the debt is the column's sum and this.
    let (distance, debt) = (number(k, "/distance_bytes"), number(k, "/debt_bytes"));
    if distance > 0 {
        let (distance, debt) = (bytes(distance), bytes(debt));
        out.push_str(&format!("  with {distance} not as the strategy wants it, {debt} of debt in all\n"));
    }
}

/// Bytes by class, where there were any.
fn files(out: &mut String, f: &Value) {
    let Some(classes) = f.pointer("/io").and_then(Value::as_object) else { return };
    let used: Vec<_> =
        ["client", "wal", "manifest", "test", "flush", "intra-l0", "l0-to-l1", "deep", "upkeep"]
            .iter()
            .filter_map(|name| Some((*name, classes.get(*name)?)))
            .filter(|(_, io)| number(io, "/read") + number(io, "/written") > 0)
            .collect();
    if used.is_empty() {
        return;
    }
    out.push_str("files            read     written         cpu\n");
    for (name, io) in used {
        let cpu = f.pointer(&format!("/cpu_seconds/{name}")).and_then(Value::as_f64);
        let cpu = cpu.map_or_else(String::new, seconds);
        let (read, written) = (bytes(number(io, "/read")), bytes(number(io, "/written")));
        out.push_str(format!("  {name:<8} {read:>10} {written:>11} {cpu:>11}").trim_end());
        out.push('\n');
    }
    out.push('\n');
}

fn latencies(out: &mut String, f: &Value) {
    let names = ["get", "write", "scan", "flush", "flush_wait", "compaction", "l0_wait", "step"];
    let timed = |name: &&str| number(f, &format!("/latency_us/{name}/count")) > 0;
    let timed: Vec<_> = names.iter().filter(|name| timed(name)).collect();
    if timed.is_empty() {
        return;
    }
    out.push_str("latency         timed      median         p99         max\n");
    for name in timed {
        let at = |what: &str| float(f, &format!("/latency_us/{name}/{what}"));
        let n = count(number(f, &format!("/latency_us/{name}/count")));
        let (p50, p99, max) = (micros(at("p50")), micros(at("p99")), micros(at("max")));
        out.push_str(&format!("  {name:<10} {n:>8} {p50:>11} {p99:>11} {max:>11}\n"));
    }
    out.push_str("  (get, write and scan: one in 64 is timed)\n");
}

/// `1 time`, `3 times`.
fn some(n: u64, one: &str, more: &str) -> String {
    format!("{} {}", count(n), if n == 1 { one } else { more })
}

/// `12 %`, `0.4 %`; of nothing it is nothing.
fn percent(part: u64, whole: u64) -> String {
    let share = 100.0 * part as f64 / whole.max(1) as f64;
    if part > 0 && share < 1.0 { format!("{share:.1} %") } else { format!("{share:.0} %") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quiet() -> Value {
        serde_json::json!({
            "keyspaces": [{"name": "default", "strategy": "1-leveling", "levels": [
                {"level": 0, "runs": 1, "tables": 2, "bytes": 1048576, "target_bytes": 4194304, "entries": 20000,
                 "tombstones": 40, "debt_bytes": 0}]}],
        })
    }

    #[test]
    fn what_stands_out_comes_first_and_says_what_to_do() {
        assert!(view(&quiet(), 0).starts_with("Nothing stands out.\n"), "{}", view(&quiet(), 0));
        let mut busy = quiet();
        busy["background_errors"] = 2.into();
        busy["stalls"] = serde_json::json!({"count": 3, "seconds": 1.5, "by_reason": {
            "backlog": {"count": 2, "seconds": 1.4}, "memory": {"count": 1, "seconds": 0.1}}});
        busy["slow"] = serde_json::json!({"count": 9999, "recent": 1234, "seconds": {"queue": 0.1, "block-read": 2.0, "cpu": 0.0}});
        busy["cache"] = serde_json::json!({"hits": 1000, "misses": 19000});
        busy["snapshots"] = serde_json::json!({"count": 1, "oldest_since_ms": 1, "pinned_bytes": 2048});
        busy["keyspaces"][0]["levels"][0]["tombstones"] = 15000.into();
        busy["schedule"] = serde_json::json!({"name": "fixed:1KiB", "limit_bytes_per_sec": 1024, "load": "high",
            "client_bytes_per_sec": 1023 << 20, "device_bytes_per_sec": 1023 << 20, "bursts": {"part": 99, "whole": 9}});
        busy["keyspaces"][0]["debt_bytes"] = (23 << 20).into();
        let levels = busy["keyspaces"][0]["levels"].as_array_mut().unwrap();
        levels.push(serde_json::json!({"level": 1, "bytes": 3260, "target_bytes": 1000, "debt_bytes": 1}));
        busy["jobs"] = serde_json::json!({"refused": 1, "preempted": 9999, "resumed": 9998, "discarded": 1});
        busy["log_failures"] = 1.into();
        busy["io"] = serde_json::json!({"wal": {"written": 4096}});
        let found = findings(&busy, 1_200_001);
        let expected = [
            "2 failures of background work; LOG says which",
            "1 compaction refused for want of disk space",
            "writers waited 3 times, 1.50 s, mostly for flushes and compactions",
            "about 1 234 slow operations lately, mostly block-read: `keel explain --slow`",
            "L1 of default is 326 % full, 23.0 MiB of debt at 1.0 KiB/s: `keel explain`",
            "the oldest snapshot is 20 min old and may pin 2.0 KiB",
            "the cache finds 5 % of its blocks; raise cache_bytes",
            "L0 of default: 75 % of the entries are tombstones",
            "LOG or STATS could not be written; is the disk full?",
        ];
        assert_eq!(found, expected);
        let shown = view(&busy, 1_200_001);
        assert!(shown.lines().all(|line| line.chars().count() <= 80 && !line.ends_with(' ')), "{shown}");
        assert!(shown.contains("set aside 9 999: gone on 9 998, let go 0, thrown away 1"), "{shown}");
        assert!(
            shown.contains("high, 1023.0 MiB/s of 1023.0 MiB") && shown.contains("bursts 108"),
            "{shown}"
        );
    }

    #[test]
    fn heat_is_told_once_it_is_known() {
        let mut read = quiet();
        read["keyspaces"][0]["heat"] = serde_json::json!({"hot_bytes": 0.0, "hot_reads": 0.0});
        assert!(!view(&read, 0).contains("foretold"));
        read["keyspaces"][0]["heat"] = serde_json::json!({"hot_bytes": 0.1, "hot_reads": 0.873});
        let told = "  of its looks into tables 87 % went to the 10 % of bytes foretold to be hot\n";
        assert!(view(&read, 0).contains(told), "{}", view(&read, 0));
    }

    #[test]
    fn what_is_long_past_does_not_stand_out() {
        let mut slow = quiet();
        slow["slow"] = serde_json::json!({"count": 64, "recent": 0, "seconds": {"cpu": 1.0}});
        assert!(findings(&slow, 0).is_empty());
        assert!(view(&slow, 0).contains("without a name, sequence"));
    }

    #[test]
    fn changes_stand_below_their_heads() {
        let now = serde_json::json!({
            "writes": 99_000_000, "user_bytes": 1023 << 20, "stalls": {"seconds": 9.0}, "slow": {"count": 999_999},
            "io": {"client": {"read": 1023 << 20}, "flush": {"written": 1023 << 20}, "deep": {"read": 1023 << 20}},
            "levels": [{"runs": 1000}],
        });
        for now in [now, quiet()] {
            let line = change(&quiet(), &now, 1.0);
            assert_eq!(line.chars().count(), CHANGE_HEAD.chars().count(), "{line}");
        }
        assert!(CHANGE_HEAD.chars().count() <= 80);
    }

    #[test]
    fn levels_are_a_table() {
        let row = "  L0       1      2    1.0 MiB    4.0 MiB   25 %      20 000   0.2 %        0 B\n";
        assert!(view(&quiet(), 0).contains(row), "{}", view(&quiet(), 0));
    }
}
