//! A soak: readers, scans, writes and deletes for minutes, and each second what the engine counts against what the machine sees.
//!
//! ```text
//! readers ×N   get … get, scan 50        writers ×2   put … put, delete      once a second: memory counted, resident,
//!                                                                            admission limit, longest write
//! ```
//! It asks for no speed. Its bars: memory is counted, and stays within the limit; no writer is stopped; admission has no cliff.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde::Serialize;

use crate::base::clock;
use crate::base::machine;
use crate::base::random::Random;
use crate::run::engine::{Engine, EngineError};
use crate::run::phase::{Phase, Total, Watch};
use crate::workloads::keys::{KeyOrder, Keys};
use crate::workloads::values::Values;

/// What a process takes beside what the store counts: code and allocator, stacks and buffers of some thirty threads, the lab's
/// own values, the figures of tables and trees.
pub const CONSTANT_BYTES: u64 = 32 << 20;

/// Resident memory may be above what is counted, the constant aside, by this factor.
pub const RATIO_MAX: f64 = 1.1;

/// A write that takes longer is a stop.
pub const STOP: Duration = Duration::from_secs(1);

/// The admission limit changes at most by this factor between two seconds.
pub const SLOPE_MAX: f64 = 2.0;

/// Every so many reads one scans, every so many writes one deletes.
const SCAN_EVERY: u64 = 16;
const SCAN_LENGTH: usize = 50;
const DELETE_EVERY: u64 = 8;
const WRITERS: usize = 2;

/// An engine that says what it holds in memory, and how fast it lets writers in.
pub trait Accountable: Engine {
    /// What it counts now.
    fn account(&self) -> Account;
}

/// What an engine counts.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Account {
    /// Bytes by class.
    pub classes: Vec<(String, u64)>,
    /// Their sum.
    pub counted_bytes: u64,
    /// The budget.
    pub limit_bytes: u64,
    /// How fast writers are let in, bytes a second; `None` without a limit.
    pub admission_bytes_per_sec: Option<f64>,
}

/// What to do.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct SoakPlan {
    /// How long.
    pub seconds: f64,
    /// Threads that read.
    pub readers: usize,
    /// Records that may exist.
    pub records: u64,
    /// Length of a key.
    pub key_bytes: usize,
    /// Length of a value.
    pub value_bytes: usize,
    /// Decides on keys and operations.
    pub seed: u64,
}

/// One second of it.
#[derive(Clone, Debug, Serialize)]
pub struct Second {
    /// When it was looked at, seconds since the begin.
    pub at: f64,
    /// How long the look took, in seconds: on a busy machine the figures are of some moment within.
    pub took: f64,
    /// What the engine counted.
    pub account: Account,
    /// Resident memory of the process that is its own, and that of mapped files; `None` where the system does not say.
    pub resident: Option<machine::Resident>,
    /// The longest write that ended in this second, or has not ended yet.
    pub longest_write_us: u64,
    /// Reads and scans.
    pub reads: u64,
    /// Writes and deletes.
    pub writes: u64,
}

/// One bar, and whether it was met.
#[derive(Clone, Debug, Serialize)]
pub struct Verdict {
    /// What is measured.
    pub what: &'static str,
    /// What was found, for people.
    pub found: String,
    /// The bar, for people.
    pub bar: String,
    /// Whether it was met; `None` if nothing could be measured.
    pub holds: Option<bool>,
}

/// What came of it.
#[derive(Clone, Debug, Serialize)]
pub struct SoakReport {
    /// What was done.
    pub plan: SoakPlan,
    /// Second by second.
    pub seconds: Vec<Second>,
    /// The bars.
    pub verdicts: Vec<Verdict>,
}

impl SoakReport {
    /// The report as JSON, indented.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string_pretty(self)
    }
}

/// What the threads tell the one that watches.
#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    reads: AtomicU64,
    writes: AtomicU64,
    longest_write_us: AtomicU64,
    /// When each writer's write began, microseconds since the begin and one; 0 between two writes.
    writing_since: [AtomicU64; WRITERS],
    error: Mutex<Option<EngineError>>,
}

impl Shared {
    /// Ends everything if something went wrong; the first failure is told.
    fn check(&self, done: Result<(), EngineError>) {
        if let Err(error) = done {
            self.error.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
            self.stop.store(true, Ordering::Relaxed);
        }
    }

    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// Runs it.
///
/// # Errors
/// The first failure of an operation; keys that are too short for the records.
pub fn run(
    engine: &(impl Accountable + Sync),
    plan: SoakPlan,
    watch: &dyn Watch,
) -> Result<SoakReport, EngineError> {
    let keys = Keys::new(plan.key_bytes, KeyOrder::Random, plan.seed, plan.records)?;
    let values = Values::new(plan.value_bytes, plan.seed);
    let shared = Shared::default();
    let begin = clock::now();
    let micros = || begin.elapsed().as_micros() as u64 + 1;
    watch.begin(Phase::Measure, Total::Millis((plan.seconds * 1000.0) as u64));
    let seconds = std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (shared, keys, values) = (&shared, &keys, &values);
            scope.spawn(move || {
                let random = Random::for_thread(plan.seed, writer);
                write(engine, shared, keys, values, random, plan.records, writer, micros);
            });
        }
        for reader in 0..plan.readers {
            let (shared, keys) = (&shared, &keys);
            let random = Random::for_thread(plan.seed, WRITERS + reader);
            scope.spawn(move || read(engine, shared, keys, random, plan.records));
        }
        let mut seconds = Vec::new();
        while !shared.is_over() {
            let left = plan.seconds - begin.elapsed().as_secs_f64();
            clock::pause(Duration::from_secs_f64(left.clamp(0.0, 1.0)));
            seconds.push(look(engine, &shared, &|| begin.elapsed()));
            watch.advance(begin.elapsed().as_millis() as u64, shared.reads.load(Ordering::Relaxed));
            if begin.elapsed().as_secs_f64() >= plan.seconds {
                shared.stop.store(true, Ordering::Relaxed);
            }
        }
        seconds
    });
    watch.end();
    match shared.error.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(error) => Err(error),
        None => Ok(SoakReport { verdicts: judge(&plan, &seconds), plan, seconds }),
    }
}

#[expect(clippy::too_many_arguments, reason = "what one thread needs, once")]
fn write(
    engine: &impl Accountable,
    shared: &Shared,
    keys: &Keys,
    values: &Values,
    mut random: Random,
    records: u64,
    writer: usize,
    micros: impl Fn() -> u64,
) {
    let (mut key, mut at) = (Vec::new(), values.draw(&mut random));
    let Some(since) = shared.writing_since.get(writer) else { return };
    for i in 1_u64.. {
        if shared.is_over() {
            return;
        }
        keys.present(random.below(records), &mut key);
        let begun = micros();
        since.store(begun, Ordering::Relaxed);
        let done = match i.is_multiple_of(DELETE_EVERY) {
            true => engine.delete(&key),
            false => engine.put(&key, values.at(at)),
        };
        since.store(0, Ordering::Relaxed);
        shared.longest_write_us.fetch_max(micros() - begun, Ordering::Relaxed);
        shared.writes.fetch_add(1, Ordering::Relaxed);
        shared.check(done);
        at = values.after(at, &mut random);
    }
}

fn read(engine: &impl Accountable, shared: &Shared, keys: &Keys, mut random: Random, records: u64) {
    let mut key = Vec::new();
    for i in 1_u64.. {
        if shared.is_over() {
            return;
        }
        keys.present(random.below(records), &mut key);
        let done = match i.is_multiple_of(SCAN_EVERY) {
            true => engine.scan(&key, SCAN_LENGTH).map(drop),
            false => engine.get(&key).map(drop),
        };
        shared.reads.fetch_add(1, Ordering::Relaxed);
        shared.check(done);
    }
}

fn look(engine: &impl Accountable, shared: &Shared, elapsed: &dyn Fn() -> Duration) -> Second {
    let at = elapsed();
    let now_us = at.as_micros() as u64 + 1;
    let account = engine.account();
    let unfinished = shared.writing_since.iter().map(|since| since.load(Ordering::Relaxed));
    let pending = unfinished.filter(|since| *since > 0).map(|since| now_us.saturating_sub(since)).max();
    Second {
        at: at.as_secs_f64(),
        took: (elapsed() - at).as_secs_f64(),
        account,
        resident: machine::resident(),
        longest_write_us: shared.longest_write_us.swap(0, Ordering::Relaxed).max(pending.unwrap_or(0)),
        reads: shared.reads.swap(0, Ordering::Relaxed),
        writes: shared.writes.swap(0, Ordering::Relaxed),
    }
}

/// The bars.
fn judge(plan: &SoakPlan, seconds: &[Second]) -> Vec<Verdict> {
    vec![within_limit(plan, seconds), counted(seconds), no_stop(seconds), slope(seconds)]
}

fn within_limit(plan: &SoakPlan, seconds: &[Second]) -> Verdict {
    let fullest = seconds.iter().max_by_key(|s| s.account.counted_bytes);
    let (most, limit) = fullest.map_or((0, 0), |s| (s.account.counted_bytes, s.account.limit_bytes));
    // A block for each thread that may just be reading or writing one.
    let slack = (plan.readers + WRITERS) as u64 * (64 << 10);
    Verdict {
        what: "memory counted",
        found: format!("{} at most", mib(most)),
        bar: format!("{} and a block per thread", mib(limit)),
        holds: fullest.map(|_| most <= limit + slack),
    }
}

fn counted(seconds: &[Second]) -> Verdict {
    fn ratio(s: &Second) -> Option<(f64, &Second)> {
        let own = s.resident?.anonymous_bytes.saturating_sub(CONSTANT_BYTES);
        Some((own as f64 / s.account.counted_bytes.max(1) as f64, s))
    }
    let worst = seconds.iter().filter_map(ratio).max_by(|a, b| a.0.total_cmp(&b.0));
    let found = match worst {
        Some((ratio, s)) => format!(
            "{ratio:.3}: {} resident where {} were counted, at {:.0} s",
            mib(s.resident.map_or(0, |r| r.anonymous_bytes)),
            mib(s.account.counted_bytes),
            s.at
        ),
        None => "this system does not say".to_owned(),
    };
    Verdict {
        what: "resident, less the constant, over counted",
        found,
        bar: format!("{RATIO_MAX} (the constant is {})", mib(CONSTANT_BYTES)),
        holds: worst.map(|(ratio, _)| ratio <= RATIO_MAX),
    }
}

fn no_stop(seconds: &[Second]) -> Verdict {
    let longest = seconds.iter().map(|s| s.longest_write_us).max();
    let stops = seconds.iter().filter(|s| u128::from(s.longest_write_us) > STOP.as_micros()).count();
    Verdict {
        what: "longest stop of a writer",
        found: format!(
            "{stops} stops; the longest write took {:.1} ms",
            longest.unwrap_or(0) as f64 / 1000.0
        ),
        bar: format!("no write over {} s", STOP.as_secs()),
        holds: longest.map(|_| stops == 0),
    }
}

fn slope(seconds: &[Second]) -> Verdict {
    let limits: Vec<(f64, f64, f64)> = seconds
        .iter()
        .filter_map(|s| Some((s.at, s.at + s.took, s.account.admission_bytes_per_sec?)))
        .collect();
    let fold = |pair: &[(f64, f64, f64)]| match pair {
        // Two looks are a second and a little apart.
        [(then, _, before), (_, now, after)] if now - then < 3.0 => {
            (after / before).max(before / after) / (now - then - 1.0).max(0.0).exp2()
        }
        _ => 1.0,
    };
    let steepest = limits.windows(2).map(fold).fold(1.0, f64::max);
    let least = limits.iter().map(|(_, _, limit)| *limit).reduce(f64::min);
    Verdict {
        what: "slope of admission",
        found: match least {
            Some(least) => format!(
                "{steepest:.2} times from one second to the next; a limit in {} of {} seconds, {}/s at least",
                limits.len(),
                seconds.len(),
                mib(least as u64)
            ),
            None => "no second with a limit".to_owned(),
        },
        bar: format!("{SLOPE_MAX} times, never 0"),
        holds: Some(steepest <= SLOPE_MAX + 0.01 && least.is_none_or(|least| least > 0.0)),
    }
}

/// The report, for people.
pub fn text(report: &SoakReport) -> String {
    let mut out = format!(
        "soak: {:.0} s, {} readers, {WRITERS} writers, {} records of {} + {} bytes\n\n",
        report.plan.seconds,
        report.plan.readers,
        report.plan.records,
        report.plan.key_bytes,
        report.plan.value_bytes
    );
    out += "second   counted  resident     files     limit/s   longest write     reads    writes\n";
    let every = (report.seconds.len() / 20).max(1);
    for second in report.seconds.iter().step_by(every) {
        let resident =
            |of: fn(&machine::Resident) -> u64| second.resident.map_or("?".into(), |r| mib(of(&r)));
        out += &format!(
            "{:>6.0} {:>9} {:>9} {:>9} {:>11} {:>12.1} ms {:>9} {:>9}\n",
            second.at,
            mib(second.account.counted_bytes),
            resident(|r| r.anonymous_bytes),
            resident(|r| r.file_bytes),
            second.account.admission_bytes_per_sec.map_or("none".into(), |limit| mib(limit as u64)),
            second.longest_write_us as f64 / 1000.0,
            second.reads,
            second.writes
        );
    }
    if let Some(last) = report.seconds.last() {
        let classes = last.account.classes.iter().map(|(name, bytes)| format!("{name} {}", mib(*bytes)));
        out += &format!("\nin the last second: {}\n", classes.collect::<Vec<_>>().join(", "));
    }
    out.push('\n');
    for verdict in &report.verdicts {
        let holds = match verdict.holds {
            Some(true) => "pass",
            Some(false) => "FAIL",
            None => "unknown",
        };
        out += &format!("{holds:<8}{}: {} (bar: {})\n", verdict.what, verdict.found, verdict.bar);
    }
    out
}

fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(at: f64, counted: u64, resident: u64, limit: Option<f64>, longest_write_us: u64) -> Second {
        Second {
            at,
            took: 0.0,
            account: Account {
                counted_bytes: counted,
                limit_bytes: 500 << 20,
                admission_bytes_per_sec: limit,
                ..Account::default()
            },
            resident: Some(machine::Resident { anonymous_bytes: resident, file_bytes: 0 }),
            longest_write_us,
            reads: 1,
            writes: 1,
        }
    }

    fn holds(seconds: &[Second]) -> Vec<bool> {
        let plan =
            SoakPlan { seconds: 3.0, readers: 2, records: 10, key_bytes: 16, value_bytes: 100, seed: 1 };
        judge(&plan, seconds).iter().map(|verdict| verdict.holds.unwrap()).collect()
    }

    #[test]
    fn each_bar_is_judged() {
        let (c, r) = (400 << 20, (400 << 20) + CONSTANT_BYTES);
        let calm =
            [second(1.0, c, r, Some(1e6), 5), second(2.0, c, r, Some(2e6), 5), second(3.0, c, r, None, 5)];
        assert_eq!(holds(&calm), [true; 4]);
        let mut too_much = calm.to_vec();
        too_much[1].account.counted_bytes = 501 << 20;
        assert_eq!(holds(&too_much), [false, true, true, true]);
        let mut uncounted = calm.to_vec();
        uncounted[1] = second(2.0, c, r + (45 << 20), Some(2e6), 5);
        assert_eq!(holds(&uncounted), [true, false, true, true]);
        let mut stopped = calm.to_vec();
        stopped[2].longest_write_us = 1_000_001;
        assert_eq!(holds(&stopped), [true, true, false, true]);
        let mut cliff = calm.to_vec();
        cliff[1].account.admission_bytes_per_sec = Some(4e5);
        assert_eq!(holds(&cliff), [true, true, true, false]);
    }
}
