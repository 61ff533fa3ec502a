//! Which cause made operations slow, and when: a small chart of the last ten minutes, and words with what to do about it.
//! Pure: seconds in, lines out.

use std::time::Duration;

use crate::observe::slow::{Second, SlowOperation, Surroundings};
use crate::observe::waits::Cause;
use crate::observe::words::{bytes, count, duration, utc};

/// Columns of the chart, and seconds of each.
const COLUMNS: usize = 60;
const COLUMN_SECONDS: u64 = 10;
const SHADES: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Less than this in ten minutes is no reason to change anything.
const ADVISED_NANOS: u64 = 10_000_000;

/// What a store that is only looked at says.
pub fn nothing_of_a_store_at_rest() -> Vec<String> {
    let lines = [
        "What made operations slow is known only to the process that did them, and none",
        "was asked. LOG tells of each second with slow operations, in lines that begin",
        "`Slow:`; ask again while a process has the store open, without --read-only.",
    ];
    lines.map(str::to_owned).into()
}

/// The report on what is remembered at the second `now`.
pub fn lines(seconds: &[Second], last: &[SlowOperation], threshold_us: u64, now: u64) -> Vec<String> {
    if threshold_us == 0 {
        return vec!["Slow operations are not measured: set slow_us above 0".to_owned()];
    }
    let slow: Vec<&Second> = seconds.iter().filter(|s| s.operations > 0).collect();
    let threshold = duration(Duration::from_micros(threshold_us));
    if slow.is_empty() {
        return vec![format!("No operation took {threshold} or longer in the last ten minutes")];
    }
    let (operations, nanos) = sum(&slow);
    let total: u64 = nanos.iter().sum();
    let took = duration(Duration::from_nanos(total));
    let mut out = vec![format!(
        "{} of {threshold} or more in {} of the last ten minutes, {took} together",
        count(operations, "operation"),
        count(slow.len() as u64, "second"),
    )];
    out.push(String::new());
    out.extend(chart(seconds, now));
    let mut causes = Cause::ALL.map(|cause| (nanos[cause as usize], cause));
    causes.sort_by(|a, b| b.cmp(a));
    for (spent, cause) in causes.into_iter().filter(|(spent, _)| spent.saturating_mul(50) >= total.max(1)) {
        out.push(String::new());
        out.extend(about(cause, spent, total, seconds));
    }
    if let Some(worst) = last.iter().max_by_key(|op| op.nanos.iter().sum::<u64>()) {
        out.push(String::new());
        out.push("The slowest remembered:".to_owned());
        out.extend(operation(worst));
    }
    out
}

fn sum(seconds: &[&Second]) -> (u64, [u64; 5]) {
    let mut nanos = [0u64; 5];
    for second in seconds {
        nanos.iter_mut().zip(second.nanos).for_each(|(sum, n)| *sum = sum.saturating_add(n));
    }
    (seconds.iter().map(|s| s.operations).sum(), nanos)
}

/// A row a cause, then what the files were doing; all rows of causes on one scale.
fn chart(seconds: &[Second], now: u64) -> Vec<String> {
    let column = |s: &Second| {
        let age = now.saturating_sub(s.at) / COLUMN_SECONDS;
        COLUMNS.checked_sub(1 + usize::try_from(age).unwrap_or(COLUMNS))
    };
    let row = |value: &dyn Fn(&Second) -> u64| {
        let mut cells = [0u64; COLUMNS];
        for second in seconds {
            if let Some(cell) = column(second).and_then(|c| cells.get_mut(c)) {
                *cell = cell.saturating_add(value(second));
            }
        }
        cells
    };
    let causes: Vec<_> = Cause::ALL.iter().map(|c| (c.name(), row(&|s| s.nanos[*c as usize]))).collect();
    let most = causes.iter().flat_map(|(_, cells)| cells).copied().max().unwrap_or(0);
    let mut out: Vec<String> = causes
        .iter()
        .filter(|(_, cells)| cells.iter().any(|n| *n > 0))
        .map(|(name, cells)| format!("{name:>12} {}", shades(cells, most)))
        .collect();
    let scale = format!("-10 min{:>width$}", "now", width = COLUMNS - 7);
    out.push(format!("{:>12} {scale}", ""));
    if most > 0 {
        let took = duration(Duration::from_nanos(most));
        out.push(format!("{:>12} █ is {took} of waiting in ten seconds", ""));
    }
    let device: [(&str, fn(&Surroundings) -> u64); 3] = [
        ("client I/O", |a| a.client_bytes + a.wal_bytes),
        ("flush", |a| a.flush_bytes),
        ("compaction", |a| a.compaction_bytes),
    ];
    let device = device.map(|(name, value)| (name, row(&|s| value(&s.around))));
    let most = device.iter().flat_map(|(_, cells)| cells).copied().max().unwrap_or(0);
    if most > 0 {
        out.extend(device.iter().map(|(name, cells)| format!("{name:>12} {}", shades(cells, most))));
        out.push(format!("{:>12} █ is {}/s over ten seconds", "", bytes(most / COLUMN_SECONDS)));
    }
    out
}

/// Anything above nothing shows.
fn shades(cells: &[u64], most: u64) -> String {
    let top = SHADES.len() as u64 - 1;
    let shade = |n: &u64| (u128::from(*n) * u128::from(top)).div_ceil(u128::from(most.max(1))) as usize;
    cells
        .iter()
        .map(|n| SHADES.get(shade(n)).copied().unwrap_or(' '))
        .collect::<String>()
        .trim_end()
        .to_owned()
}

/// What a cause cost, when most, what went on then, and what to do.
fn about(cause: Cause, spent: u64, total: u64, seconds: &[Second]) -> Vec<String> {
    let share = spent.saturating_mul(100) / total.max(1);
    let took = duration(Duration::from_nanos(spent));
    let mut out = vec![format!("{share} % {}: {took} {}", cause.name(), meaning(cause))];
    let Some(worst) = seconds.iter().max_by_key(|s| s.nanos[cause as usize]) else { return out };
    let (at, then) = (utc(worst.at * 1000), duration(Duration::from_nanos(worst.nanos[cause as usize])));
    let at = at.get(11..19).unwrap_or_default();
    out.push(format!("  worst at {at} UTC, {then} in that second:"));
    out.extend(around(&worst.around));
    if spent >= ADVISED_NANOS {
        out.push(format!("  so: {}", advice(cause, &worst.around)));
    }
    out
}

fn around(a: &Surroundings) -> [String; 2] {
    let moved = [a.client_bytes + a.wal_bytes, a.flush_bytes, a.compaction_bytes].map(bytes);
    let [clients, flushes, compactions] = moved;
    let (runs, misses, cores) =
        (count(a.l0_runs, "run"), a.cache_misses, a.background_cpu_nanos as f64 / 1e9);
    [
        format!("  clients moved {clients}/s, flushes {flushes}/s, compactions {compactions}/s;"),
        format!("  L0 had {runs}, the cache missed {misses} times, background threads used {cores:.1} cores"),
    ]
}

fn meaning(cause: Cause) -> &'static str {
    match cause {
        Cause::Queue => "behind other writers",
        Cause::Sync => "for the log to be on the disk",
        Cause::Stall => "held back for flushes and compactions",
        Cause::Read => "for blocks that were not in the cache",
        Cause::Cpu => "computing, or waiting for a core",
    }
}

fn advice(cause: Cause, around: &Surroundings) -> &'static str {
    let background =
        around.flush_bytes + around.compaction_bytes > 4 * (around.client_bytes + around.wal_bytes);
    match cause {
        Cause::Queue => "one writer leads at a time: make batches larger, or writers fewer",
        Cause::Sync => "each commit waits for the disk: write in batches, or see durability `os`",
        Cause::Stall => "background work lags behind: see `keel explain`; try more workers or memtables",
        Cause::Read if background => {
            "compactions shared the device: try `keel schedule set --db DIR silk`, or more cache"
        }
        Cause::Read => "the working set is larger than the cache: raise cache_bytes",
        Cause::Cpu if around.background_cpu_nanos > 500_000_000 => {
            "background threads took the cores: fewer workers, or a limited schedule"
        }
        Cause::Cpu => "something else kept the cores busy: look at other processes, or at large values",
    }
}

fn operation(op: &SlowOperation) -> [String; 2] {
    let total: u64 = op.nanos.iter().sum();
    let parts = Cause::ALL.iter().filter(|c| op.nanos[**c as usize] > 0);
    let parts: Vec<String> = parts
        .map(|c| format!("{} {}", duration(Duration::from_nanos(op.nanos[*c as usize])), c.name()))
        .collect();
    let reads = if op.block_reads > 0 {
        format!(", {}", count(op.block_reads.into(), "block read"))
    } else {
        String::new()
    };
    let took = duration(Duration::from_nanos(total));
    [
        format!("  a {} at {} took {took}:", op.op.name(), utc(op.ended_ms)),
        format!("  {}{reads}", parts.join(", ")),
    ]
}

#[cfg(test)]
#[path = "slow_report_tests.rs"]
mod tests;
