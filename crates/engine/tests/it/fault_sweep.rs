//! The fault sweep: the i-th read, write, sync, open, creation, rename or link fails, for every i until none is left to fail, once
//! and from then on (`docs/durability.md`, C3, C8, C9).
//!
//! ```text
//! workload ─ call i fails ─► whatever is answered is right, or an error ─► faults end: reads are right again
//!                 │                      └─► a failed read is always told          │
//!                 └──────────────────── kill, power cut ◄──────────────────────────┘ ─► open: nothing promised is lost
//! ```
//! The layer `fault` of `cargo xtask trust`, which takes every i; `cargo test` takes some.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use evenkeel::testing::{
    CrashPolicy, Fault, FaultError, FaultKind, ManualClock, Random, SimulatedFileSystem,
};
use evenkeel::{Db, Durability, Error, Event, KeyspaceOptions, Result, ScanRange, WriteBatch};

use super::failures::{Content, builder};
use super::faults::scanned_down;
use super::trust::{Attempt, Layer, layer};

const KINDS: [FaultKind; 8] = [
    FaultKind::Read,
    FaultKind::Write,
    FaultKind::Sync,
    FaultKind::SyncLosing,
    FaultKind::Open,
    FaultKind::Create,
    FaultKind::Entry,
    FaultKind::Link,
];
const KEYS: u64 = 90;
const OPERATIONS: u64 = 420;

/// Every how many-th call fails in the short form.
const STRIDE: u64 = if cfg!(debug_assertions) { 41 } else { 7 };

/// What became of one key, in order: the value, or none, and whether the write was acknowledged.
type Lives = Vec<(usize, Option<Vec<u8>>, bool)>;

/// What the store was told, kept outside of it.
#[derive(Default)]
struct Truth {
    /// What is visible.
    content: Content,
    lives: BTreeMap<Vec<u8>, Lives>,
    tried: usize,
    /// Writes up to this one survive a power cut.
    promised: usize,
}

impl Truth {
    fn wrote(&mut self, key: Vec<u8>, value: Option<Vec<u8>>, outcome: &Result<()>, sync: bool) {
        self.tried += 1;
        self.lives.entry(key.clone()).or_default().push((self.tried, value.clone(), outcome.is_ok()));
        if outcome.is_ok() {
            match value {
                Some(value) => drop(self.content.insert(key, value)),
                None => drop(self.content.remove(&key)),
            }
            if sync {
                self.promised = self.tried;
            }
        }
    }

    /// What a key may hold: what the last safe write made of it, or any write after that, but for those that no failure
    /// excuses: a write that was acknowledged hides all before it if nothing was lost.
    fn may_hold(&self, key: &[u8], safe: usize, loses: bool) -> BTreeSet<Option<Vec<u8>>> {
        let lives = self.lives.get(key).map_or(&[][..], |lives| lives);
        let is_safe = |life: &&(usize, Option<Vec<u8>>, bool)| life.2 && (life.0 <= safe || !loses);
        let last = lives.iter().rfind(is_safe);
        let after = last.map_or(0, |life| life.0);
        let mut may: BTreeSet<_> = lives.iter().filter(|life| life.0 > after).map(|l| l.1.clone()).collect();
        may.insert(last.and_then(|life| life.1.clone()));
        may
    }
}

/// One run with one fault.
struct Run {
    fs: SimulatedFileSystem,
    clock: Arc<ManualClock>,
    random: Random,
    truth: Truth,
    db: Option<Db>,
    /// Errors that callers or listeners were told.
    told: Arc<AtomicU64>,
    has_met_the_fault: bool,
}

impl Run {
    fn new(seed: u64) -> Run {
        Run {
            fs: SimulatedFileSystem::new(),
            clock: Arc::default(),
            random: Random::new(seed),
            truth: Truth::default(),
            db: None,
            told: Arc::default(),
            has_met_the_fault: false,
        }
    }

    /// Notes an error; anything but what a failing disk is told by is a bug.
    fn tell<T>(&self, outcome: Result<T>) -> Option<T> {
        match outcome {
            Ok(value) => Some(value),
            Err(error) => {
                let kind = error.kind();
                assert!(["Io", "Poisoned"].contains(&kind), "{kind}: {error}");
                assert!(!error.to_string().contains("panic"), "{error}");
                assert!(self.fs.faults_fired() > 0, "nothing has failed yet: {error}");
                self.told.fetch_add(1, Ordering::Relaxed);
                None
            }
        }
    }

    fn open(&mut self) -> Option<()> {
        let told = Arc::clone(&self.told);
        let builder = builder(&self.fs, &self.clock).listener(Arc::new(move |event: &Event| {
            told.fetch_add(u64::from(matches!(event, Event::BackgroundError { .. })), Ordering::Relaxed);
        }));
        self.db = self.tell(builder.open());
        self.db.is_some().then_some(())
    }

    fn db(&self) -> &Db {
        self.db.as_ref().expect("open")
    }

    /// The workload; it goes on after errors, as an application would that hopes.
    fn work(&mut self) {
        if self.open().is_none() {
            return;
        }
        for n in 0..OPERATIONS {
            self.operation(n);
            if self.fs.faults_fired() > 0 && !std::mem::replace(&mut self.has_met_the_fault, true) {
                // Later flushes would save what the fault has lost.
                self.check_disks();
            }
            if n == OPERATIONS / 2 && !self.reopen() {
                return;
            }
        }
        self.check_reads();
    }

    fn operation(&mut self, n: u64) {
        match self.random.below(100) {
            0..50 => self.put(n),
            50..56 => self.delete(),
            56..64 => self.get(),
            64..67 => self.check_reads(),
            67..72 => {
                let made = if self.random.one_in(2) { self.db().flush() } else { self.db().sync() };
                if self.tell(made).is_some() {
                    self.truth.promised = self.truth.tried;
                }
            }
            72..75 => self.change(n),
            _ => {
                self.clock.advance(Duration::from_millis(200));
                let pick = self.random.next_u64() as usize;
                self.db().step(&mut |jobs| (!jobs.is_empty()).then(|| jobs[pick % jobs.len()].0));
            }
        }
    }

    /// What is not a write and not a read.
    fn change(&mut self, n: u64) {
        let outcome = match self.random.below(5) {
            0 => self.db().compact_range(ScanRange::all()),
            1 => self.db().set_strategy(["tier", "1-leveling", "lo+1"][n as usize % 3]),
            2 if self.db().keyspace("other").is_some() => self.db().drop_keyspace("other"),
            2 => self.db().create_keyspace("other", KeyspaceOptions::default()).map(drop),
            3 => self.db().checkpoint(format!("/copy-{n}")).map(drop),
            _ => self.db().set_option("memtables", "3"),
        };
        self.tell(outcome);
    }

    fn key(&mut self) -> Vec<u8> {
        format!("{:03}", self.random.below(KEYS)).into_bytes()
    }

    fn put(&mut self, n: u64) {
        let (key, value) = (self.key(), format!("{n:0>100}").into_bytes());
        let mut batch = WriteBatch::new();
        batch.put(&key, &value);
        self.write(batch, key, Some(value));
    }

    fn delete(&mut self) {
        let key = self.key();
        let mut batch = WriteBatch::new();
        match self.random.one_in(3) {
            true => batch.delete_range(&key, &[&key[..], b"\0"].concat()),
            false => batch.delete(&key),
        };
        self.write(batch, key, None);
    }

    fn write(&mut self, batch: WriteBatch, key: Vec<u8>, value: Option<Vec<u8>>) {
        let sync = self.random.one_in(6);
        let outcome = self.db().write_with(batch, if sync { Durability::Sync } else { Durability::Os });
        self.truth.wrote(key.clone(), value, &outcome, sync);
        self.tell(outcome);
        // Seen if and only if it was acknowledged.
        self.check(&key);
    }

    fn get(&mut self) {
        let key = self.key();
        self.check(&key);
    }

    fn check(&self, key: &[u8]) {
        if let Some(found) = self.tell(self.db().get(key)) {
            assert_eq!(found.as_deref(), self.truth.content.get(key).map(|v| &v[..]), "{key:?}");
        }
    }

    /// Everything, up and down.
    fn check_reads(&self) {
        let up = self.db().scan(ScanRange::all()).and_then(Iterator::collect::<Result<Content>>);
        if let Some(up) = self.tell(up) {
            assert_eq!(up, self.truth.content, "a scan");
        }
        if let Some(down) = self.tell(scanned_down(self.db())) {
            assert_eq!(down, self.truth.content, "a scan down");
        }
    }

    /// Closes and opens; false if that fails, which is told.
    fn reopen(&mut self) -> bool {
        let closed = self.db.take().expect("open").close();
        let closed_well = self.tell(closed).is_some();
        if closed_well {
            self.truth.promised = self.truth.tried;
            return self.open().is_some();
        }
        false
    }

    /// Nothing fails any more: what is read is right, what is opened is whole.
    fn check_after(&mut self) {
        self.fs.clear_faults();
        if let Some(db) = &self.db {
            let healed: Content =
                db.scan(ScanRange::all()).unwrap().collect::<Result<_>>().expect("a read that does not fail");
            assert_eq!(healed, self.truth.content, "after the faults");
        }
        self.check_disks();
        self.db = None;
    }

    /// What a kill or a power cut would leave now is whole.
    fn check_disks(&self) {
        let killed = (self.fs.process_kill(), false);
        let cuts = [CrashPolicy::DropUnsynced, CrashPolicy::RandomBlocks, CrashPolicy::KeepAll];
        let cuts = cuts.map(|policy| (self.fs.crash(self.truth.tried as u64, policy), true));
        for (fs, loses) in [killed].into_iter().chain(cuts) {
            let again = builder(&fs, &self.clock).open();
            let again =
                again.unwrap_or_else(|error| panic!("cannot be opened (power cut: {loses}): {error}"));
            let found: Content = again.scan(ScanRange::all()).unwrap().collect::<Result<_>>().unwrap();
            for number in 0..KEYS {
                let key = format!("{number:03}").into_bytes();
                let may = self.truth.may_hold(&key, self.truth.promised, loses);
                let holds = found.get(&key).cloned();
                assert!(may.contains(&holds), "{key:?} holds {holds:?} (power cut: {loses}), not {may:?}");
            }
            again.verify().unwrap();
            again.put(b"after", b"it").unwrap();
            again.close().unwrap();
        }
    }
}

/// What a sweep came to.
#[derive(Default)]
struct Tally {
    runs: u64,
    injected: u64,
    told: u64,
    harmless: u64,
}

/// One fault; false if there are not so many calls that it would have met one.
fn inject(seed: u64, kind: FaultKind, nth: u64, sticky: bool, tally: &mut Tally) -> bool {
    let mut run = Run::new(seed);
    run.fs.inject(Fault { kind, path_contains: String::new(), nth, error: FaultError::Eio, sticky });
    run.work();
    let fired = run.fs.faults_fired();
    let told = run.told.load(Ordering::Relaxed);
    if kind == FaultKind::Read && fired > 0 {
        assert!(told > 0, "a read failed and nobody was told");
    }
    run.check_after();
    tally.runs += 1;
    tally.injected += u64::from(fired > 0);
    tally.told += u64::from(fired > 0 && told > 0);
    tally.harmless += u64::from(fired > 0 && told == 0);
    fired > 0
}

fn sweep(layer: Layer, seed: u64, attempt: &mut Attempt, tally: &mut Tally) {
    let stride = if layer.is_full() { 1 } else { STRIDE };
    let all = KINDS.len() as u64 * 2;
    for (i, kind) in (0..).zip(KINDS) {
        for (j, sticky) in [(0, false), (1, true)] {
            layer.progress(i * 2 + j, all);
            let mut nth = seed % stride;
            while {
                attempt.doing(format_args!("{kind:?} {nth} fails, sticky: {sticky}"));
                inject(seed, kind, nth, sticky, tally)
            } {
                nth += stride;
            }
        }
    }
}

#[test]
fn a_call_that_fails_is_told_and_loses_nothing() {
    let layer = layer("fault");
    let (seeds, mut tally) = (layer.seeds(1), Tally::default());
    for seed in &seeds {
        let mut attempt = layer.attempt(*seed);
        sweep(layer, *seed, &mut attempt, &mut tally);
    }
    let Tally { runs, injected, told, harmless } = tally;
    layer.report(format_args!(
        "seeds={} runs={runs} injected={injected} told={told} harmless={harmless} lost=0 wrong=0",
        seeds.len()
    ));
    assert!(injected > 20 && told > harmless, "{injected} {told} {harmless}");
}

/// A truth that would let anything pass would show nothing.
#[test]
fn the_truth_of_the_sweep_knows_what_may_be() {
    let mut truth = Truth::default();
    let failed = || Err(Error::InvalidArgument(String::new()));
    let value = |text: &str| Some(text.as_bytes().to_vec());
    truth.wrote(b"k".to_vec(), value("1"), &Ok(()), true);
    truth.wrote(b"k".to_vec(), value("2"), &Ok(()), false);
    truth.wrote(b"k".to_vec(), None, &failed(), false);
    assert_eq!(truth.content[&b"k"[..]], b"2");
    assert_eq!(truth.may_hold(b"k", truth.promised, false), BTreeSet::from([value("2"), None]));
    assert_eq!(truth.may_hold(b"k", truth.promised, true), BTreeSet::from([value("1"), value("2"), None]));
    assert_eq!(truth.may_hold(b"other", truth.promised, true), BTreeSet::from([None]));
}
