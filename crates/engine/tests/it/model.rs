//! One random operation sequence under every strategy and schedule: each answer must be the model's, whatever the tree looks like
//! and whenever background work may run.
//!
//! ```text
//! seed ─► operations ─┬─► store under `full`            ═ model ?
//!                     ├─► store under `lo+1`            ═ model ?
//!                     ├─► store under `lo+1` and `silk` ═ model ?
//!                     └─► ...                                      ─► a table of what was reached, which must be enough
//! ```
//! The layer `metamorphic` of `cargo xtask trust`, which has seeds and length.

mod operations;
mod reading;
mod reference;
mod runner;
mod sets;
mod sizes;

use self::operations::generate;
use self::runner::Runner;
use self::sets::{OPTION_SETS, OptionSet, Totals};
use super::trust::{Layer, layer};

/// Operations of a history.
const OPERATIONS: usize = if cfg!(debug_assertions) { 8_000 } else { 10_000 };

fn run(layer: Layer, seed: u64, set: OptionSet) -> Totals {
    let mut attempt = layer.attempt(seed);
    let mut runner = Runner::new(set, seed);
    for (at, operation) in generate(seed, OPERATIONS).iter().enumerate() {
        attempt.doing(format_args!("under {}, operation {at}: {operation:?}", set.name));
        runner.run(operation);
    }
    attempt.doing(format_args!("under {}, at the end", set.name));
    runner.count();
    runner.totals
}

fn table(rows: &[(&str, Totals)]) -> String {
    let mut out = String::from(
        "\nunder        flushes  merges   moves preempts  yields resumes discards prefixes  levels  scans of trimmed  \
         ranges  covered  switches  reopens  crashes  copies  looks\n",
    );
    for (name, t) in rows {
        out += &format!(
            "{name:<10} {:>9} {:>7} {:>7} {:>8} {:>7} {:>7} {:>8} {:>8} {:>7} {:>17} {:>7} {:>8} {:>9} {:>8} {:>8} {:>7} {:>6}\n",
            t.flushes,
            t.merges,
            t.moves,
            t.preempts,
            t.yields,
            t.resumes,
            t.discards,
            t.prefix_commits,
            t.levels,
            t.trimmed_scans,
            t.range_deletes,
            t.covered,
            t.switches + t.schedules,
            t.reopens,
            t.crashes,
            t.copies,
            t.looks
        );
    }
    out
}

/// A history has met everything that it is there for.
fn check(seed: u64, rows: &[(&str, Totals)]) {
    let table = table(rows);
    println!("seed {seed}, {OPERATIONS} operations{table}");
    for (name, t) in rows {
        let modes = t.unlogged.min(t.refused).min(t.interval_syncs);
        assert!(modes >= 3, "`{name}` with seed {seed}: {t:?}");
        let few = t.flushes < 100 || t.merges < 40 || t.levels < 3 || t.trimmed_scans == 0;
        let few = few || t.range_deletes < 100 || t.covered == 0 || t.copies.min(t.looks) < 3;
        let few = few || t.preempts.min(t.yields).min(t.resumes) == 0 || t.switches.min(t.schedules) == 0;
        assert!(!few && t.pauses > 0, "`{name}` with seed {seed} has reached too little:{table}");
        assert!(t.loads > 0, "`{name}` with seed {seed} has loaded nothing");
        let turned = *name != "ltg" || t.group_turns.iter().all(|turns| *turns > 0);
        assert!(turned, "`{name}` with seed {seed} has never made groups of each kind: {t:?}");
        assert_eq!(t.failed, 0, "`{name}` with seed {seed} has failed jobs:{table}");
    }
    let (reopens, crashes) = (sum(rows, |t| t.reopens), sum(rows, |t| t.crashes));
    assert!(crashes > 0 && crashes * 2 >= reopens, "half of all reopens are crashes:{table}");
    assert!(sum(rows, |t| t.moves) > 0, "{table}");
}

fn sum(rows: &[(&str, Totals)], of: impl Fn(&Totals) -> u64) -> u64 {
    rows.iter().map(|(_, totals)| of(totals)).sum()
}

#[test]
fn every_strategy_gives_the_answers_of_the_model() {
    let layer = layer("metamorphic");
    let seeds = layer.seeds(if layer.is_full() { 4 } else { 1 });
    let mut all: Vec<(&str, Totals)> = Vec::new();
    for (i, seed) in (0..).zip(&seeds) {
        let mut rows = Vec::new();
        for (j, set) in (0..).zip(OPTION_SETS) {
            let sets = OPTION_SETS.len() as u64;
            layer.progress(i * sets + j, seeds.len() as u64 * sets);
            rows.push((set.name, run(layer, *seed, set)));
        }
        if layer.has_usual_seeds() {
            let mut attempt = layer.attempt(*seed);
            attempt.doing("the counts of what was reached");
            check(*seed, &rows);
        }
        all.extend(rows);
    }
    layer.report(format_args!(
        "seeds={} operations={} option_sets={} flushes={} merges={} moves={} preempts={} yields={} resumes={} discards={} \
         switches={} schedules={} pauses={} crashes={} reopens={} differences=0",
        seeds.len(),
        OPERATIONS * all.len(),
        OPTION_SETS.len(),
        sum(&all, |t| t.flushes),
        sum(&all, |t| t.merges),
        sum(&all, |t| t.moves),
        sum(&all, |t| t.preempts),
        sum(&all, |t| t.yields),
        sum(&all, |t| t.resumes),
        sum(&all, |t| t.discards),
        sum(&all, |t| t.switches),
        sum(&all, |t| t.schedules),
        sum(&all, |t| t.pauses),
        sum(&all, |t| t.crashes),
        sum(&all, |t| t.reopens),
    ));
    assert!(!layer.has_usual_seeds() || sum(&all, |t| t.discards) > 0, "no work was thrown away");
}
