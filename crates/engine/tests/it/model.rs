//! One random operation sequence under every strategy: each answer must be the model's, whatever the tree looks like.
//!
//! ```text
//! seed ─► operations ─┬─► store under `full`  ═ model ?
//!                     ├─► store under `lo+1`  ═ model ?
//!                     └─► ...                            ─► a table of what was reached, which must be enough
//! ```
//! `EVENKEEL_MODEL_OPS` and `EVENKEEL_MODEL_SEEDS` (a count, or `first..end`) make it longer.

mod operations;
mod reading;
mod reference;
mod runner;
mod sizes;

use std::ops::Range;

use self::operations::generate;
use self::runner::{Runner, STRATEGIES, Totals};

/// Says where a run failed.
struct Where {
    seed: u64,
    strategy: &'static str,
    at: usize,
    operation: String,
}

impl Drop for Where {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let Where { seed, strategy, at, operation } = self;
            eprintln!("\nseed {seed}, strategy {strategy}, operation {at}: {operation}\n");
        }
    }
}

fn run(seed: u64, count: usize, strategy: &'static str) -> Totals {
    let mut place = Where { seed, strategy, at: 0, operation: "open".to_owned() };
    let mut runner = Runner::new(strategy, seed);
    for (at, operation) in generate(seed, count).iter().enumerate() {
        place.at = at;
        place.operation = format!("{operation:?}");
        runner.run(operation);
    }
    runner.count();
    runner.totals
}

fn table(rows: &[(&str, Totals)]) -> String {
    let mut out = String::from(
        "\nstrategy    flushes  merges   moves  yields  prefixes  discarded  levels  scans of trimmed  most trimmed  ranges  covered  reopens  crashes  copies  looks\n",
    );
    for (name, t) in rows {
        out += &format!(
            "{name:<10} {:>8} {:>7} {:>7} {:>7} {:>9} {:>10} {:>7} {:>17} {:>13} {:>7} {:>8} {:>8} {:>8} {:>7} {:>6}\n",
            t.flushes,
            t.merges,
            t.moves,
            t.yields,
            t.prefix_commits,
            t.discarded,
            t.levels,
            t.trimmed_scans,
            t.trimmed_most,
            t.range_deletes,
            t.covered,
            t.reopens,
            t.crashes,
            t.copies,
            t.looks
        );
    }
    out
}

fn seeds() -> Range<u64> {
    let Ok(text) = std::env::var("EVENKEEL_MODEL_SEEDS") else { return 1..2 };
    match text.split_once("..") {
        Some((first, end)) => first.parse().unwrap()..end.parse().unwrap(),
        None => 1..text.parse::<u64>().unwrap() + 1,
    }
}

#[test]
fn every_strategy_gives_the_answers_of_the_model() {
    let count = std::env::var("EVENKEEL_MODEL_OPS").map_or(12_000, |text| text.parse().unwrap());
    for seed in seeds() {
        let rows: Vec<_> =
            STRATEGIES.iter().map(|strategy| (*strategy, run(seed, count, strategy))).collect();
        let table = table(&rows);
        println!("seed {seed}, {count} operations{table}");
        for (name, t) in &rows {
            let modes = t.unlogged.min(t.refused).min(t.interval_syncs);
            assert!(modes >= 5, "`{name}` with seed {seed}: {t:?}");
            let few = t.flushes.min(t.merges).min(t.yields) < 100 || t.levels < 3 || t.trimmed_scans == 0;
            let few = few || t.range_deletes < 100 || t.covered == 0 || t.copies.min(t.looks) < 10;
            assert!(!few, "`{name}` with seed {seed} has reached too little:{table}");
            assert!(t.loads > 0, "`{name}` with seed {seed} has loaded nothing");
            let turned = *name != "ltg" || t.group_turns.iter().all(|turns| *turns > 0);
            assert!(turned, "`{name}` with seed {seed} has never made groups of each kind: {t:?}");
            assert_eq!(t.discarded, 0, "`{name}` with seed {seed} has failed jobs:{table}");
        }
        let (reopens, crashes) =
            rows.iter().fold((0, 0), |sum, (_, t)| (sum.0 + t.reopens, sum.1 + t.crashes));
        assert!(crashes > 0 && crashes * 2 >= reopens, "half of all reopens are crashes:{table}");
    }
}
