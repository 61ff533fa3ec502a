//! What must be true of every simulation, and how far a few are from a real store.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use evenkeel::Options;
use evenkeel::plan::{Claims, check};
use evenkeel::strategy::with_sizes;
use evenkeel_lab::base::random::Random;
use evenkeel_lab::run::driver::Dataset;
use evenkeel_lab::workloads::catalog::find;
use evenkeel_lab::workloads::keys::KeyOrder;
use evenkeel_lab::workloads::workload::{Mix, OpKind, Workload};
use evenkeel_simulator::compose::by_chance;
use evenkeel_simulator::figures::Outcome;
use evenkeel_simulator::operations::WorkloadOperations;
use evenkeel_simulator::run::{Pace, Setting, simulate};
use evenkeel_simulator::tape::{Sampling, Tape};
use evenkeel_simulator::tree::Tree;
use evenkeel_simulator::validation::{Prepared, Verdict, mixes, options};

const RECORDS: u64 = 40_000;

fn tape(workload: &str, ops: u64, ops_per_sec: f64, options: &Options) -> Tape {
    drawn(*find(workload).unwrap(), RECORDS, ops, ops_per_sec, options, 1)
}

fn drawn(workload: Workload, records: u64, ops: u64, ops_per_sec: f64, options: &Options, seed: u64) -> Tape {
    let data = Dataset {
        records,
        key_bytes: 16,
        value_bytes: 100.into(),
        order: KeyOrder::Random,
        seed,
        deleted: false,
    };
    let operations =
        WorkloadOperations::new(workload, workload.distribution, data, Some(ops), ops_per_sec, seed).unwrap();
    let sampling = Sampling { sample: 24, table_bytes: options.table_bytes, compressed: 1.0 };
    Tape::draw(&operations, options, sampling).unwrap()
}

fn outcome(tape: &Tape, strategy: &str, options: &Options) -> Outcome {
    simulate(tape, &with_sizes(strategy, options).unwrap(), Setting::default()).unwrap()
}

#[test]
fn a_simulation_is_the_same_every_time_and_adds_up() {
    let options = options().unwrap();
    let tape = tape("overwrite", 80_000, 1e6, &options);
    let [one, other] = [0; 2].map(|_| outcome(&tape, "lo+1", &options));
    let text = |o: &Outcome| serde_json::to_string(&Outcome { seconds: 0.0, ..o.clone() }).unwrap();
    assert_eq!(text(&one), text(&other));
    let sum =
        |of: fn(&evenkeel_simulator::figures::LevelJobs) -> u64| one.by_level.iter().map(of).sum::<u64>();
    assert_eq!((sum(|l| l.jobs), sum(|l| l.written_bytes)), (one.jobs, one.written_bytes));
    assert_eq!(one.user_bytes, 80_000 * 116);
    assert!(one.flush_bytes > one.user_bytes && one.written_bytes > one.flush_bytes, "{one:?}");
    assert!(one.job_bytes_p50 <= one.job_bytes_most && one.runs.most >= one.runs.mean);
    assert!(!one.runs_over_time.is_empty() && one.pages_per_get >= 3.0);
}

#[test]
fn no_key_is_lost_and_every_tree_is_whole_under_any_strategy() {
    let options = options().unwrap();
    let tape = tape("cds", 40_000, 1e6, &options);
    let mut random = Random::new(7);
    let named = evenkeel::strategy::catalog().iter().map(|row| row.name.to_owned());
    let composed = (0..60).map(|_| by_chance(&mut random, &options));
    for name in named.chain(composed) {
        let strategy = with_sizes(&name, &options).unwrap();
        let mut tree = Tree::new(&tape, &strategy, 2);
        let mut newest = vec![None; tape.keys];
        for memtable in &tape.memtables {
            tree.flush(memtable).unwrap();
            tree.settle().unwrap();
            memtable.entries.iter().for_each(|e| newest[e.key as usize] = Some((e.seq, e.delete)));
        }
        check(tree.version(), &Claims::default().open_claims()).unwrap();
        for (key, expected) in newest.iter().enumerate() {
            let bytes = (key as u32).to_be_bytes();
            let found = tree.version().tables_at(&bytes).find_map(|table| {
                let entries = tree.contents().of(table.id());
                let at = entries.binary_search_by_key(&(key as u32), |e| e.key).ok()?;
                Some((entries[at].seq, entries[at].delete))
            });
            let gone = expected.is_none_or(|(_, delete)| delete);
            let same = found == *expected || (gone && found.is_none_or(|(_, delete)| delete));
            assert!(same, "{name}: key {key} is {found:?}, not {expected:?}");
        }
    }
}

#[test]
fn tiering_writes_less_and_keeps_more_than_leveling() {
    let options = options().unwrap();
    let tape = tape("overwrite", 120_000, 1e6, &options);
    let [tier, leveling, full] = ["tier", "lo+1", "full"].map(|name| outcome(&tape, name, &options));
    assert!(2.0 * tier.write_amplification < leveling.write_amplification, "{tier:?} {leveling:?}");
    assert!(tier.space_amplification.mean > 2.0 * leveling.space_amplification.mean);
    assert!(tier.pages_per_get > leveling.pages_per_get);
    assert!(full.job_bytes_most > 4 * leveling.job_bytes_most && full.jobs < leveling.jobs);
}

#[test]
fn compactions_that_fall_behind_leave_more_runs() {
    let options = options().unwrap();
    let tape = tape("overwrite", 80_000, 1e6, &options);
    let strategy = with_sizes("1-leveling", &options).unwrap();
    let of = |pace| simulate(&tape, &strategy, Setting { pace, ..Setting::default() }).unwrap();
    let (ahead, behind) = (of(Pace::BeforeWrites), of(Pace::Ratio(6.0)));
    assert!(behind.runs.mean > ahead.runs.mean + 1.0, "{:?} {:?}", ahead.runs, behind.runs);
    assert_eq!(ahead.stalls, 0);
    assert!(of(Pace::Ratio(1.0)).stalls > 0);
}

#[test]
fn the_clock_makes_tables_move_and_deletes_go() {
    let options = options().unwrap();
    let stale = "when=saturation,staleness:10s how=runs:1 much=file which=oldest";
    let ttl = "when=saturation,ttl:60s how=runs:1 much=file which=expired";
    // 120 000 operations take an eighth of a second, or twenty minutes.
    // What is soon at the bottom supersedes nothing for long.
    let space = [1e6, 1e2].map(|rate| {
        let tape = tape("overwrite", 80_000, rate, &options);
        outcome(&tape, stale, &options).space_amplification.mean
    });
    assert!(space[1] < space[0] * 0.8, "{space:?}");
    let left = [1e6, 1e1].map(|rate| outcome(&tape("cds", 80_000, rate, &options), ttl, &options).tombstones);
    assert!(left[1] < left[0] * 2 / 3, "{left:?}");
}

/// CDS §5.2.4: fewer tombstones are left for somewhat more data moved, and not for several times as much.
#[test]
fn moving_tombstones_first_costs_little_where_deletes_are_even() {
    let options = options().unwrap();
    let mix = Mix::of(&[(OpKind::Insert, 91), (OpKind::Delete, 9)]);
    let workload = Workload { mix, ..*find("overwrite").unwrap() };
    for size in ["sizes=dynamic", "sizes=fixed cut=size"] {
        let (mut written, mut left) = ([0.0; 2], [0; 2]);
        for seed in 1..=4 {
            let tape = drawn(workload, 1000, 200_000, 1e6, &options, seed);
            for (at, name) in ["lo+1", "tsd"].into_iter().enumerate() {
                let line = evenkeel::strategy::parse(name).unwrap().levels_text();
                let sized = format!("{line}; size: l0=512KiB base=5MiB ratio=10 table=64KiB {size}");
                let outcome = outcome(&tape, &sized, &options);
                written[at] += outcome.write_amplification / 4.0;
                left[at] += outcome.tombstones;
            }
        }
        println!("TSD {size}: written {written:?}, tombstones {left:?}");
        assert!(written[1] < 1.2 * written[0] && left[1] < left[0], "{size}: {written:?}, {left:?}");
    }
}

#[test]
fn dynamic_sizes_keep_space_amplification_low_however_full_the_last_level_is() {
    let options = options().unwrap();
    let tape = tape("overwrite", 160_000, 1e6, &options);
    let strategy =
        "when=saturation how=runs:1 much=file which=least-overlap-parent; L0: when=runs how=runs:4 much=runs";
    let of = |sizes: &str| {
        let size = "size: l0=512KiB base=3MiB ratio=10 table=64KiB";
        outcome(&tape, &format!("{strategy}; {size} sizes={sizes}"), &options)
    };
    let (fixed, dynamic) = (of("fixed"), of("dynamic"));
    let [f, d] = [&fixed, &dynamic].map(|o| o.space_amplification.mean);
    assert!(d < 0.25 && d < f, "fixed {f}, dynamic {d}");
}

#[test]
fn outputs_aligned_with_the_next_level_are_written_less_often() {
    let options = options().unwrap();
    let tape = tape("overwrite", 160_000, 1e6, &options);
    let strategy =
        "when=saturation how=runs:1 much=file which=least-overlap-parent; L0: when=runs how=runs:4 much=runs";
    let of = |cut: &str| {
        let size = "size: l0=512KiB base=512KiB ratio=10 table=64KiB";
        outcome(&tape, &format!("{strategy}; {size} cut={cut}"), &options).write_amplification
    };
    let (size, next) = (of("size"), of("next"));
    assert!(next < size, "by size {size}, aligned {next}");
}

/// A small part of `keel sim --validate`; both sides do their work on one thread, so it comes out the same every time.
#[test]
fn simulations_are_close_to_a_real_store() {
    let dir = tempfile::tempdir().unwrap();
    let mut comparisons = Vec::new();
    for mix in mixes() {
        let prepared = Prepared::new(mix, 8_000, 64).unwrap();
        for (number, name) in ["full", "lo+1", "tier"].into_iter().enumerate() {
            let store = dir.path().join(format!("{}-{number}", mix.workload.name));
            comparisons.push(prepared.compare(name, &store).unwrap());
        }
    }
    let verdict = Verdict::of("all", false, &comparisons.iter().collect::<Vec<_>>()).unwrap();
    assert!(verdict.compared >= 10 && verdict.median <= 0.10 && verdict.worst <= 0.30, "{verdict:?}");
}
