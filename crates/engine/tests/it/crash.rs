//! The crash sweep: the machine loses its power, or the process is killed, before every call that changes the disk, and
//! again while the store recovers from that.
//!
//! ```text
//! workload ── the disk before each call ──► crash(policy) ──► open ──► prefix? verify, orphans ──► write ──► crash ──► open
//!                                     └──► while it opens, the disk before each call ──► crash(policy) ──► open ──► prefix?
//! ```
//! What a crash leaves equals the state after the first P commits, all keyspaces together, and P is no less than what
//! was promised: the last synced commit after a power cut, the last acknowledged one after a kill (`docs/durability.md`,
//! C1-C4). The layer `crash` of `cargo xtask trust`, which takes every point with two of the eight policies, in turn; the short form
//! takes some.

mod oracle;
mod workload;

use std::path::Path;
use std::sync::Arc;

use evenkeel::testing::{CrashPolicy, SimulatedFileSystem};
use evenkeel::{Db, Durability, WriteBatch};

use super::trust::{Layer, layer};
use oracle::{Damage, Oracle, digest, digests};
use workload::{DIR, Happened, Workload, copy_dir, open, open_at};

const CALLS: u64 = 6600;

/// Problems that are told.
const PROBLEMS_MAX: usize = 10;

/// How much of the sweep is run.
#[derive(Clone, Copy)]
struct Extent {
    /// Every how many-th point.
    stride: u64,
    /// Policies for each.
    policies: usize,
    /// Every how many-th of those points is crashed again during its recovery.
    nested_stride: u64,
    /// Every how many-th call of the recovery.
    nested_call_stride: u64,
}

impl Extent {
    fn of(layer: Layer) -> Extent {
        if layer.is_full() {
            Extent { stride: 1, policies: 2, nested_stride: 60, nested_call_stride: 7 }
        } else {
            let stride = if cfg!(debug_assertions) { 13 } else { 5 };
            Extent { stride, policies: 2, nested_stride: 24, nested_call_stride: 5 }
        }
    }

    /// The policies for a point: all of them take turns.
    fn policies(self, point: u64) -> impl Iterator<Item = CrashPolicy> {
        (0..self.policies).map(move |i| {
            let turn = (point / self.stride) as usize * self.policies + i;
            CrashPolicy::ALL[turn % CrashPolicy::ALL.len()]
        })
    }
}

#[derive(Default)]
struct Tally {
    points: u64,
    opens: u64,
    nested: u64,
    lost: u64,
    holes: u64,
    unopenable: u64,
    first: Vec<String>,
}

impl Tally {
    /// Counts what went wrong, and remembers the first few.
    fn note(&mut self, outcome: Result<usize, Damage>, point: &str) -> Option<usize> {
        let (count, what) = match outcome {
            Ok(prefix) => return Some(prefix),
            Err(Damage::Lost(what)) => (&mut self.lost, what),
            Err(Damage::Hole(what)) => (&mut self.holes, what),
            Err(Damage::Unopenable(what)) => (&mut self.unopenable, what),
        };
        *count += 1;
        if self.first.len() < PROBLEMS_MAX {
            self.first.push(format!("{point}: {what}"));
        }
        None
    }
}

/// Opens what a crash has left, and checks everything about it.
fn reopened(fs: &SimulatedFileSystem, oracle: &Oracle, least: usize) -> Result<(Db, usize), Damage> {
    let db = open(fs).map_err(|e| Damage::Unopenable(format!("open: {e}")))?;
    let found = digests(&db).map_err(|e| Damage::Unopenable(format!("scan: {e}")))?;
    let prefix =
        if oracle.alive.is_empty() && oracle.tried == 0 { 0 } else { oracle.check(&found, least)? };
    db.verify().map_err(|e| Damage::Unopenable(format!("verify: {e}")))?;
    check_orphans(fs, &db)?;
    Ok((db, prefix))
}

/// Checkpoints that have come back are there, and one under way is there or not; what is there is whole. The newest is opened
/// while it is made, and after that where `look` says so.
fn check_copies(fs: &SimulatedFileSystem, oracle: &Oracle, look: bool) -> Result<(), Damage> {
    use evenkeel::fs::FileSystem;
    for (i, wanted) in oracle.copies.iter().enumerate() {
        let dir = copy_dir(i);
        let newest = i + 1 == oracle.copies.len();
        let is_there = fs.exists(Path::new(&dir)).map_err(|e| Damage::Unopenable(format!("{dir}: {e}")))?;
        if !is_there {
            if newest && oracle.copying {
                continue;
            }
            return Err(Damage::Lost(format!("the checkpoint {dir} is gone")));
        }
        if !newest || !(look || oracle.copying) {
            continue;
        }
        let unopenable = |what: &str, e: evenkeel::Error| Damage::Unopenable(format!("{dir}: {what}: {e}"));
        let copy = open_at(fs, &dir, Arc::default()).map_err(|e| unopenable("open", e))?;
        let found = digests(&copy).map_err(|e| unopenable("scan", e))?;
        if found != *wanted {
            return Err(Damage::Hole(format!("the checkpoint {dir} holds {found:?} instead of {wanted:?}")));
        }
        copy.verify().map_err(|e| unopenable("verify", e))?;
    }
    Ok(())
}

/// The directory holds what the store needs, and nothing else.
fn check_orphans(fs: &SimulatedFileSystem, db: &Db) -> Result<(), Damage> {
    use evenkeel::fs::FileSystem;
    let names = fs.list(Path::new(DIR)).map_err(|e| Damage::Unopenable(format!("list: {e}")))?;
    let count =
        |end: &str, start: &str| names.iter().filter(|n| n.ends_with(end) && n.starts_with(start)).count();
    let found = [count(".sst", ""), count("", "MANIFEST-"), count("", "OPTIONS-"), count(".dbtmp", "")];
    let wanted = [db.metrics().files_live as usize, 1, 1, 0];
    if found == wanted {
        Ok(())
    } else {
        Err(Damage::Unopenable(format!(
            "tables, manifests, options, temporaries: {found:?} instead of {wanted:?}; {names:?}"
        )))
    }
}

/// After the check: the store takes writes, and a second crash leaves them and everything else.
fn lives_on(fs: &SimulatedFileSystem, db: Db, seed: u64, policy: CrashPolicy) -> Result<(), Damage> {
    let unopenable = |what: &str, e: evenkeel::Error| Damage::Unopenable(format!("{what}: {e}"));
    let mut wanted = digests(&db).map_err(|e| unopenable("scan", e))?;
    let mut batch = WriteBatch::new();
    for (name, sum) in &mut wanted {
        let keyspace = db.keyspace(name).ok_or_else(|| Damage::Hole(format!("`{name}` is gone")))?;
        if keyspace.no_wal() {
            // All it holds now is in tables, and stays.
            continue;
        }
        batch.put_in(&keyspace, b"after", b"the crash");
        *sum ^= digest(b"after", b"the crash");
    }
    db.write_with(batch, Durability::Sync).map_err(|e| unopenable("write", e))?;
    let again = if seed.is_multiple_of(2) {
        let again = fs.crash(seed, policy);
        drop(db);
        again
    } else {
        db.flush().map_err(|e| unopenable("flush", e))?;
        db.close().map_err(|e| unopenable("close", e))?;
        fs.crash(seed, policy)
    };
    let db = open(&again).map_err(|e| unopenable("second open", e))?;
    let found = digests(&db).map_err(|e| unopenable("second scan", e))?;
    db.verify().map_err(|e| unopenable("second verify", e))?;
    check_orphans(&again, &db)?;
    if found == wanted {
        Ok(())
    } else {
        Err(Damage::Lost("what was written after the crash is not there".to_owned()))
    }
}

/// Crashes a recovery before each of its calls.
fn nested(
    before: &SimulatedFileSystem,
    oracle: &Oracle,
    least: usize,
    extent: Extent,
    at: &str,
    tally: &mut Tally,
) {
    let fs = before.process_kill();
    fs.record_states();
    let Ok(db) = open(&fs) else { return };
    let states = fs.take_states();
    drop(db);
    for (call, state) in states {
        if call % extent.nested_call_stride != 0 {
            continue;
        }
        let policy = CrashPolicy::ALL[(call / extent.nested_call_stride) as usize % CrashPolicy::ALL.len()];
        tally.nested += 1;
        tally.opens += 1;
        let outcome = reopened(&state.crash(call, policy), oracle, least).map(|(_, prefix)| prefix);
        tally.note(outcome, &format!("{at}, then call {call} of recovery, {policy:?}"));
    }
}

/// Everything that can come of one point of the workload.
fn sweep_point(
    seed: u64,
    call: u64,
    disk: &SimulatedFileSystem,
    oracle: &Oracle,
    extent: Extent,
    tally: &mut Tally,
) {
    tally.points += 1;
    let nest = (tally.points).is_multiple_of(extent.nested_stride);
    for policy in extent.policies(call) {
        let at = format!("call {call}, {policy:?}");
        let crashed = disk.crash(seed ^ call, policy);
        let copy = crashed.process_kill();
        tally.opens += 2;
        let copies = check_copies(&crashed, oracle, tally.points.is_multiple_of(16)).map(|()| 0);
        tally.note(copies, &at);
        let outcome = reopened(&crashed, oracle, oracle.promised);
        let Some((db, prefix)) = split(outcome, &at, tally) else { continue };
        let outcome = lives_on(&crashed, db, call, policy).map(|()| prefix);
        tally.note(outcome, &format!("{at}, second crash"));
        if nest {
            // All that is there is durable, so recovery must find the same however often it is cut short.
            nested(&copy, oracle, prefix, extent, &at, tally);
        }
    }
    let at = format!("call {call}, kill");
    let killed = disk.process_kill();
    tally.opens += 2;
    let outcome = reopened(&killed, oracle, oracle.acked);
    let Some((db, prefix)) = split(outcome, &at, tally) else { return };
    let outcome = lives_on(&killed, db, call, CrashPolicy::DropUnsynced).map(|()| prefix);
    tally.note(outcome, &format!("{at}, then a power cut"));
    if nest {
        nested(disk, oracle, oracle.promised, extent, &at, tally);
    }
}

fn split(outcome: Result<(Db, usize), Damage>, at: &str, tally: &mut Tally) -> Option<(Db, usize)> {
    match outcome {
        Ok(found) => Some(found),
        Err(damage) => {
            tally.note(Err(damage), at);
            None
        }
    }
}

#[test]
fn a_crash_before_any_call_leaves_a_prefix() {
    let layer = layer("crash");
    let (seeds, extent, mut tally) = (layer.seeds(1), Extent::of(layer), Tally::default());
    for seed in &seeds {
        let mut attempt = layer.attempt(*seed);
        let happened = sweep(layer, *seed, extent, &mut tally);
        attempt.doing(tally.first.first().map_or("", |first| first));
        assert!(tally.first.is_empty(), "seed {seed}:\n{}", tally.first.join("\n"));
        if seeds.len() == 1 && layer.has_usual_seeds() {
            check_reach(&happened);
        }
    }
    layer.report(format_args!(
        "seeds={} points={} policies={} opens={} nested={} lost={} holes={} unopenable={}",
        seeds.len(),
        tally.points,
        extent.policies + 1,
        tally.opens,
        tally.nested,
        tally.lost,
        tally.holes,
        tally.unopenable
    ));
    assert!(tally.nested > 0 && tally.points >= CALLS / extent.stride, "{}", tally.points);
}

/// Everything that can come of one life.
fn sweep(layer: Layer, seed: u64, extent: Extent, tally: &mut Tally) -> Happened {
    let fs = SimulatedFileSystem::new();
    fs.record_states();
    let mut seen = |oracle: &Oracle| {
        for (call, disk) in fs.take_states() {
            // The first few say enough.
            if call % extent.stride == 0 && tally.first.len() < PROBLEMS_MAX {
                sweep_point(seed, call, &disk, oracle, extent, tally);
            }
            if call % 64 == 0 {
                layer.progress(call, CALLS);
            }
        }
    };
    let mut workload = Workload::new(&fs, seed, &mut seen);
    workload.run(CALLS).unwrap_or_else(|error| panic!("the workload itself failed: {error}; seed {seed}"));
    workload.happened.clone()
}

/// A life in which little happens shows little.
fn check_reach(happened: &Happened) {
    let h = happened;
    println!("{h:?}");
    assert!(h.flushes.min(h.merges) >= 20 && h.loads >= 5 && h.loads_dropped >= 1, "{h:?}");
    assert!(h.prefix_commits >= 10 && h.wal_rotations >= 5 && h.manifest_rotations >= 2, "{h:?}");
    assert!(h.created >= 3 && h.dropped.min(h.reopened).min(h.oversized).min(h.syncs) >= 1, "{h:?}");
    assert!(h.interval_syncs >= 5 && h.unlogged >= 30 && h.copies >= 3 && h.yields > 0, "{h:?}");
    assert!(h.deletes >= 1 && h.range_deletes >= 50, "{h:?}");
}

/// The same with a machine that really stops: the engine sees its calls fail, and neither panics nor hangs.
#[test]
fn a_machine_that_stops_under_the_engine_leaves_a_prefix() {
    const SEED: u64 = 0x5EA_0001;
    let mut tally = Tally::default();
    for nth in (1..CALLS).step_by(if cfg!(debug_assertions) { 211 } else { 23 }) {
        let fs = SimulatedFileSystem::new();
        fs.crash_after(nth);
        let mut seen = |_: &Oracle| {};
        let mut workload = Workload::new(&fs, SEED, &mut seen);
        let ended = workload.run(CALLS);
        assert!(ended.is_err() && fs.has_crashed(), "call {nth}: {ended:?}");
        let oracle = workload.oracle.clone();
        for policy in [CrashPolicy::DropUnsynced, CrashPolicy::KeepAll, CrashPolicy::RandomBlocks] {
            let crashed = fs.crash(nth, policy);
            let outcome = reopened(&crashed, &oracle, oracle.promised).map(|(_, prefix)| prefix);
            tally.note(outcome, &format!("call {nth}, {policy:?}"));
        }
    }
    assert!(tally.first.is_empty(), "seed {SEED:#x}:\n{}", tally.first.join("\n"));
}
