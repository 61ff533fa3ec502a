//! Strategies changed on a live store: every one to every other while writes go on, and back from a crash in the
//! middle of the change with a third.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use evenkeel::testing::{CrashPolicy, ManualClock, Random, SimulatedFileSystem};
use evenkeel::{CompressionRule, Db, Durability, Options, ScanRange, strategy};

const DIR: &str = "/store";
const KEYS: u64 = 500;
/// More steps than any backlog of these sizes needs.
const STEPS_TO_REST: u64 = 50_000;

pub fn options(strategy: Option<&str>) -> Options {
    Options {
        strategy: strategy.map(str::to_owned),
        memtable_bytes: 4 << 10,
        table_bytes: 2 << 10,
        block_bytes: 512,
        // What is written here packs to next to nothing, and there would be no way to go.
        compression: CompressionRule::None,
        level_base_bytes: 8 << 10,
        level_ratio: 3,
        l0_trigger: 3,
        l0_limit: 12,
        cache_bytes: 64 << 10,
        memory_bytes: 1 << 20,
        reserve_bytes: 0,
        workers: 2,
        ..Options::default()
    }
}

/// A store on one thread beside the map that knows what it holds.
struct Pair {
    fs: SimulatedFileSystem,
    clock: Arc<ManualClock>,
    db: Db,
    model: BTreeMap<Vec<u8>, Vec<u8>>,
    random: Random,
    written: u64,
}

fn open(fs: &SimulatedFileSystem, clock: &Arc<ManualClock>, options: Options) -> evenkeel::Result<Db> {
    let builder = Db::builder(Path::new(DIR)).options(options).file_system(Arc::new(fs.clone()));
    builder.clock(Arc::clone(clock) as _).without_threads().open()
}

impl Pair {
    fn new(seed: u64, strategy: &str) -> Pair {
        let (fs, clock) = (SimulatedFileSystem::new(), Arc::new(ManualClock::default()));
        let db = open(&fs, &clock, options(Some(strategy))).unwrap();
        Pair { fs, clock, db, model: BTreeMap::new(), random: Random::new(seed), written: 0 }
    }

    /// Writes, with steps of the background and looks between them.
    fn live(&mut self, operations: u64, durability: Durability) {
        // Where groups are by heat, other keys are read each time.
        let (pivot, lower_is_hot) = (self.random.below(KEYS), self.random.one_in(2));
        let pivot = format!("{pivot:04}").into_bytes();
        self.db.pretend_heat(&|key| Some(f64::from(u8::from((key < &pivot[..]) == lower_is_hot))));
        for _ in 0..operations {
            let key = format!("{:04}", self.random.below(KEYS)).into_bytes();
            let mut batch = evenkeel::WriteBatch::new();
            match self.random.below(8) {
                0 => {
                    batch.delete(&key);
                    self.model.remove(&key);
                }
                1 if self.random.one_in(6) => {
                    let end = format!("{:04}", self.random.below(KEYS)).into_bytes();
                    batch.delete_range(&key, &end);
                    self.model.retain(|k, _| *k < key || *k >= end);
                }
                _ => {
                    let value = format!("{:0>90}", self.written).into_bytes();
                    batch.put(&key, &value);
                    self.model.insert(key, value);
                }
            }
            self.db.write_with(batch, durability).unwrap();
            self.written += 1;
            for _ in 0..self.random.below(3) {
                self.step();
            }
            if self.random.one_in(60) {
                self.db.request_yields();
            }
            let key = format!("{:04}", self.random.below(KEYS)).into_bytes();
            assert_eq!(self.db.get(&key).unwrap().as_deref(), self.model.get(&key).map(Vec::as_slice));
        }
        self.clock.advance(Duration::from_millis(20));
    }

    fn step(&mut self) -> bool {
        let pick = self.random.next_u64() as usize;
        self.db.step(&mut |jobs| (!jobs.is_empty()).then(|| jobs[pick % jobs.len()].0))
    }

    /// Does all there is to do, and looks at the distance after each step.
    fn settle(&mut self, say: &dyn Fn(&Db, &str) -> String) -> Vec<u64> {
        let mut seen = vec![self.distance()];
        for _ in 0..STEPS_TO_REST {
            if !self.step() {
                assert_eq!(self.distance(), 0, "{}", say(&self.db, "rests out of shape"));
                return seen;
            }
            let now = self.distance();
            if seen.last() != Some(&now) {
                seen.push(now);
            }
        }
        panic!("{}", say(&self.db, "does not come to rest"));
    }

    fn distance(&self) -> u64 {
        self.db.metrics().keyspaces[0].distance_bytes
    }

    fn check_all(&self, say: &dyn Fn(&Db, &str) -> String) {
        let found = content(&self.db);
        assert!(found == self.model, "{}", say(&self.db, "holds something else than was written"));
    }
}

fn content(db: &Db) -> BTreeMap<Vec<u8>, Vec<u8>> {
    db.scan(ScanRange::all()).unwrap().map(|record| record.unwrap()).collect()
}

pub fn picture(db: &Db) -> String {
    db.keyspace("default").unwrap().picture()
}

pub fn strategy_of(db: &Db) -> String {
    db.keyspace("default").unwrap().strategy_text()
}

fn names() -> Vec<&'static str> {
    strategy::catalog().iter().map(|row| row.name).collect()
}

/// A walk that begins at 0 and goes from each of `n` to each other exactly once.
pub fn every_pair(n: usize) -> Vec<(usize, usize)> {
    let mut left: Vec<Vec<usize>> = (0..n).map(|from| (0..n).filter(|to| *to != from).collect()).collect();
    let (mut stack, mut tour) = (vec![0], Vec::new());
    while let Some(at) = stack.last().copied() {
        match left[at].pop() {
            Some(next) => stack.push(next),
            None => tour.extend(stack.pop()),
        }
    }
    tour.reverse();
    tour.windows(2).map(|pair| (pair[0], pair[1])).collect()
}

#[test]
fn every_strategy_follows_every_other_on_a_live_store() {
    let names = names();
    let pairs = every_pair(names.len());
    assert_eq!(pairs.len(), names.len() * (names.len() - 1));
    let mut pair = Pair::new(15, names[0]);
    pair.live(400, Durability::Os);
    let (mut apart, mut far) = (0, 0);
    for (from, to) in &pairs {
        let say =
            |db: &Db, what: &str| format!("{} to {}: {what}\n{}", names[*from], names[*to], picture(db));
        pair.live(30, Durability::Os);
        let cost = pair.db.keyspace("default").unwrap().strategy_cost(names[*to]).unwrap();
        pair.db.set_strategy(names[*to]).unwrap();
        assert_eq!(pair.distance(), cost.distance_bytes, "what was said is what there is to go");
        assert!(cost.reshaping_bytes >= cost.distance_bytes && cost.debt_bytes >= cost.reshaping_bytes);
        apart += u64::from(cost.distance_bytes > 0);
        far = far.max(cost.distance_bytes);
        pair.live(60, Durability::Os);
        pair.settle(&say);
        pair.check_all(&say);
    }
    let m = pair.db.metrics();
    println!(
        "SWITCHES {} pairs, {apart} with a way to go, at most {far} bytes, {} compactions",
        pairs.len(),
        m.compactions
    );
    assert!(apart * 4 >= pairs.len() as u64, "{apart} of {}", pairs.len());
    pair.db.verify().unwrap();
}

/// Tiering to each strategy, one job at a time and no writes: nothing takes the tree away from its shape. No key is written
/// twice, so that no merge makes the last level smaller and a level one too many.
#[test]
fn the_distance_falls_step_by_step() {
    let mut all = 0;
    for (seed, name) in names().into_iter().enumerate() {
        let mut pair = Pair::new(seed as u64, "tier");
        pair.db.set_option("workers", "1").unwrap();
        for i in 0..900u64 {
            let key = format!("{:04}", i * 7919 % 900).into_bytes();
            pair.db.put(&key, &[b'v'; 90]).unwrap();
            pair.model.insert(key, vec![b'v'; 90]);
            pair.step();
        }
        let say = |db: &Db, what: &str| format!("tier to {name}: {what}\n{}", picture(db));
        pair.settle(&say);
        // A memtable that is flushed in the middle would be a write.
        pair.db.flush().unwrap();
        pair.settle(&say);
        pair.db.set_strategy(name).unwrap();
        let seen = pair.settle(&say);
        assert!(seen.is_sorted_by(|a, b| a > b), "{}", say(&pair.db, &format!("{seen:?}")));
        all += u64::from(seen.len() > 3);
        pair.check_all(&say);
    }
    assert!(all >= 4, "only {all} ways of several steps");
}

#[test]
fn a_crash_in_the_middle_of_a_change_and_a_third_strategy_after_it() {
    let names = names();
    let policies = [CrashPolicy::DropUnsynced, CrashPolicy::KeepAll, CrashPolicy::RandomBlocks];
    let mut under_way = 0;
    for (i, (from, to)) in every_pair(names.len()).into_iter().enumerate().step_by(names.len() / 2) {
        let mut pair = Pair::new(1000 + i as u64, names[from]);
        pair.live(300, Durability::Sync);
        pair.db.set_strategy(names[to]).unwrap();
        pair.live(20, Durability::Sync);
        let mut steps = 0;
        while steps < i % 50 && pair.step() {
            steps += 1;
        }
        under_way += u64::from(pair.distance() > 0 || pair.db.metrics().jobs_open > 0);
        let third = names[(from + to + 1) % names.len()];
        for policy in policies {
            let crashed = pair.fs.crash(i as u64, policy);
            let as_set = open(&crashed, &pair.clock, options(None)).unwrap();
            assert_eq!(strategy_of(&as_set), names[to], "the answer came when it was durable");
            drop(as_set);
            let db = open(&crashed, &pair.clock, options(Some(third))).unwrap();
            assert_eq!(strategy_of(&db), third);
            let (model, random) = (pair.model.clone(), Random::new(7));
            let mut after =
                Pair { fs: crashed, clock: Arc::clone(&pair.clock), db, model, random, written: 0 };
            let say = |db: &Db, what: &str| {
                format!("{} to {}, {policy:?}, {third}: {what}\n{}", names[from], names[to], picture(db))
            };
            after.check_all(&say);
            after.live(40, Durability::Sync);
            after.settle(&say);
            after.check_all(&say);
        }
    }
    assert!(under_way >= 4, "only {under_way} crashes met work");
}

#[test]
fn a_crash_while_the_change_is_made_leaves_one_or_the_other() {
    let mut pair = Pair::new(3, "tier");
    pair.live(300, Durability::Sync);
    pair.fs.record_states();
    pair.db.set_strategy("lo+1").unwrap();
    let states = pair.fs.take_states();
    let mut found = BTreeMap::new();
    for (call, disk) in &states {
        for policy in CrashPolicy::ALL {
            let crashed = disk.crash(*call, policy);
            let db = open(&crashed, &pair.clock, options(None)).unwrap();
            *found.entry(strategy_of(&db)).or_insert(0) += 1;
            assert!(content(&db) == pair.model, "call {call}, {policy:?}");
        }
    }
    assert!(states.len() >= 4 && found.keys().all(|name| name == "tier" || name == "lo+1"), "{found:?}");
    assert_eq!(found.len(), 2, "{found:?}");
}
