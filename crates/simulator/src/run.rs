//! One simulation: a tape through a tree, and what came of it.

use evenkeel::plan::summarise;
use evenkeel::strategy::Strategy;
use evenkeel_lab::base::clock;

use crate::figures::Outcome;
use crate::reading::Reading;
use crate::tape::Tape;
use crate::tree::Tree;

/// So many values of what changes over time are kept.
const POINTS: usize = 240;

/// How compactions keep up with writes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// After each flush all that is due is done before anything else is written (CDS §5).
    BeforeWrites,
    /// For each byte that users write compactions move so many, read or written. Where L0 reaches its limit writers wait.
    Ratio(f64),
}

/// What a simulation needs beside tape and strategy.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// How compactions keep up.
    pub pace: Pace,
    /// Compaction threads: how many jobs of a class may be open at once.
    pub workers: usize,
    /// Runs that L0 may have before writers wait.
    pub l0_limit: usize,
}

impl Default for Setting {
    fn default() -> Setting {
        Setting { pace: Pace::BeforeWrites, workers: 1, l0_limit: 20 }
    }
}

/// Simulates a strategy.
///
/// # Errors
/// If the engine refuses an edit that it has decided on itself: a mistake that is worth a report.
pub fn simulate(tape: &Tape, strategy: &Strategy, setting: Setting) -> Result<Outcome, String> {
    let began = clock::now();
    let mut outcome = Outcome { strategy: strategy.levels_text(), ..Outcome::default() };
    let mut tree = Tree::new(tape, strategy, setting.workers);
    go(tape, strategy, setting, &mut tree, &mut outcome)
        .map_err(|error| format!("{}: {error}", outcome.strategy))?;
    outcome.user_bytes = tape.user_bytes();
    outcome.count(&tree.tally);
    let version = tree.version();
    outcome.levels = version.levels.len();
    outcome.table_bytes = version.bytes();
    outcome.tables = version.tables().count() as u64;
    outcome.tombstones = version.tables().map(|(_, table)| table.meta.tombstones).sum();
    outcome.picture = summarise(version);
    outcome.seconds = began.elapsed().as_secs_f64();
    Ok(outcome)
}

fn go(
    tape: &Tape,
    strategy: &Strategy,
    setting: Setting,
    tree: &mut Tree<'_>,
    outcome: &mut Outcome,
) -> evenkeel::Result<()> {
    let mut reading = Reading::default();
    let every = tape.measured().len().div_ceil(POINTS).max(1);
    for (number, memtable) in tape.memtables.iter().enumerate() {
        let measured = number.checked_sub(tape.measured_from);
        if measured == Some(0) {
            tree.settle()?;
            tree.tally.begin_measuring();
        }
        tree.flush(memtable)?;
        match setting.pace {
            Pace::BeforeWrites => tree.settle()?,
            Pace::Ratio(ratio) => {
                tree.work(ratio * memtable.user_bytes as f64)?;
                while l0_runs(tree) >= setting.l0_limit {
                    outcome.stalls += 1;
                    let before = l0_runs(tree);
                    tree.work(memtable.user_bytes as f64)?;
                    if l0_runs(tree) >= before && tree.is_idle() {
                        break;
                    }
                }
            }
        }
        let Some(measured) = measured else { continue };
        let version = tree.version();
        reading.read(tape, number, version, tree.contents(), strategy, tree.now_ms());
        let runs = version.levels.iter().flat_map(|l| &l.groups).map(|g| g.runs.len()).sum::<usize>();
        outcome.runs.note(runs as f64);
        outcome.space_amplification.note(tree.space_amplification());
        outcome.flushes += 1;
        if measured % every == 0 {
            outcome.runs_over_time.push(runs as u32);
        }
    }
    tree.settle()?;
    outcome.space_amplification.last = tree.space_amplification();
    outcome.pages_per_get = reading.pages_per_get();
    outcome.runs_per_seek = reading.runs_per_seek();
    Ok(())
}

fn l0_runs(tree: &Tree<'_>) -> usize {
    tree.version().levels.first().map_or(0, |l| l.groups.iter().map(|g| g.runs.len()).max().unwrap_or(0))
}
