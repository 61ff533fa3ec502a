//! A store whose background one thread steps, with a clock that the test moves, beside what it should hold: a seed gives the same
//! history each time.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use evenkeel::testing::{ManualClock, Random, SimulatedFileSystem};
use evenkeel::{CompressionRule, Db, DiscardedFor, Event, Metrics, Options, ScanRange, schedule};

/// What the device can do, as the store is told.
pub const T: u64 = 1_000_000;
pub const KEYS: u64 = 3000;
pub const VALUE: usize = 100;
/// Four runs in L0 ask for a compaction, and there are deep levels.
pub const STRATEGY: &str = "when=saturation how=runs:1 much=file which=least-overlap-parent; L0: when=runs how=runs:4 much=runs; size: sizes=fixed";
/// An operation of the driver moves about a key and a value.
pub const TICK: Duration = Duration::from_millis(10);

pub fn options(schedule: &str) -> Options {
    Options {
        schedule: schedule.to_owned(),
        device_bytes_per_sec: T,
        memtable_bytes: 8 << 10,
        memtables: 4,
        table_bytes: 4 << 10,
        block_bytes: 512,
        // What is written here packs to next to nothing, and there would be little to schedule.
        compression: CompressionRule::None,
        level_base_bytes: 32 << 10,
        level_ratio: 3,
        strategy: Some(STRATEGY.to_owned()),
        l0_trigger: 4,
        l0_limit: 200,
        cache_bytes: 32 << 10,
        memory_bytes: 1 << 20,
        reserve_bytes: 0,
        slow_us: 0,
        workers: 2,
        ..Options::default()
    }
}

/// Every preset, with a rate where one is needed.
pub fn presets() -> Vec<String> {
    let name = |(form, _): &(&str, &str)| form.split('[').next().unwrap().replace("RATE", "200kB");
    schedule::catalog().iter().map(name).collect()
}

/// Bytes that work of these classes has read and written.
pub fn moved(metrics: &Metrics, classes: &[&str]) -> u64 {
    let of = metrics.io.iter().filter(|(class, ..)| classes.contains(&class.as_str()));
    of.map(|(_, read, written)| read + written).sum()
}

/// What readers on other threads may find: of each key the last value that is written, or one that is being written.
pub struct Written {
    /// The number of the last put that has begun.
    begun: AtomicU64,
    /// For each key the number of the last put that has returned.
    last: Vec<AtomicU64>,
}

impl Written {
    /// What a read of this key that begins now finds at least.
    pub fn least(&self, key: u64) -> u64 {
        self.last[key as usize].load(Ordering::Acquire)
    }

    /// Panics unless the key has had this value since `least` was asked for.
    pub fn check(&self, key: u64, least: u64, value: &[u8]) {
        let (number, of) = std::str::from_utf8(value).unwrap().split_at(VALUE - 6);
        let (number, of) = (number.parse::<u64>().unwrap(), of.parse::<u64>().unwrap());
        let most = self.begun.load(Ordering::Acquire);
        assert!(of == key && (least..=most).contains(&number), "{key}: {number} of {of}, {least} to {most}");
    }
}

pub struct World {
    pub fs: SimulatedFileSystem,
    pub clock: Arc<ManualClock>,
    pub db: Db,
    pub model: BTreeMap<Vec<u8>, Vec<u8>>,
    pub written: Arc<Written>,
    random: Random,
    /// Which job is stepped; without it the one that the schedule puts first.
    pub chance: Option<Random>,
    pub events: Arc<Mutex<Vec<Event>>>,
}

impl World {
    pub fn new(schedule: &str, seed: u64) -> World {
        World::with(options(schedule), seed)
    }

    pub fn with(options: Options, seed: u64) -> World {
        let clock = Arc::new(ManualClock::default());
        let events: Arc<Mutex<Vec<Event>>> = Arc::default();
        let told = Arc::clone(&events);
        let fs = SimulatedFileSystem::new();
        let db = Db::builder(Path::new("/store"))
            .options(options)
            .file_system(Arc::new(fs.clone()))
            .clock(Arc::clone(&clock) as _)
            .listener(Arc::new(move |event: &Event| told.lock().unwrap().push(event.clone())))
            .without_threads()
            .logs_in_steps()
            .open()
            .unwrap();
        let last = (0..KEYS).map(|_| AtomicU64::new(0)).collect();
        let written = Arc::new(Written { begun: AtomicU64::new(0), last });
        let (model, random) = (BTreeMap::new(), Random::new(seed));
        let mut world = World { fs, clock, db, model, written, random, chance: None, events };
        // Every key is there from the beginning, so that gets find something.
        for key in 0..KEYS {
            world.put_key(key);
            world.step();
        }
        world
    }

    pub fn put(&mut self) {
        let key = self.random.below(KEYS);
        self.put_key(key);
    }

    fn put_key(&mut self, number: u64) {
        let n = self.written.begun.fetch_add(1, Ordering::AcqRel) + 1;
        let key = format!("{number:06}").into_bytes();
        let value = format!("{n:0>0$}{number:06}", VALUE - 6).into_bytes();
        // A writer who waits for what only time brings waits here.
        let mut waits = 0;
        while let Err(error) = self.db.put(&key, &value) {
            waits += 1;
            assert!(error.kind() == "Idle" && waits < 100_000, "{error}");
            self.clock.advance(TICK);
        }
        self.model.insert(key, value);
        self.written.last[number as usize].store(n, Ordering::Release);
    }

    pub fn get(&mut self) {
        let key = format!("{:06}", self.random.below(KEYS)).into_bytes();
        assert_eq!(self.db.get(&key).unwrap().as_deref(), self.model.get(&key).map(Vec::as_slice));
    }

    pub fn step(&mut self) -> bool {
        let chance = &mut self.chance;
        self.db.step(&mut |jobs| match chance {
            None => jobs.first().map(|(job, _)| *job),
            Some(_) if jobs.is_empty() => None,
            Some(random) => Some(jobs[random.below(jobs.len() as u64) as usize].0),
        })
    }

    /// Ten milliseconds with so many puts and gets, and as many steps of the background as it wants.
    pub fn tick(&mut self, puts: u64, gets: u64) {
        (0..puts).for_each(|_| self.put());
        (0..gets).for_each(|_| self.get());
        for _ in 0..400 {
            if !self.step() {
                break;
            }
        }
        self.clock.advance(TICK);
    }

    /// Clients use more than the device has, by every estimator: gets find little in so small a cache.
    pub fn high(&mut self, ticks: u64) {
        (0..ticks).for_each(|_| self.tick(10, 110));
    }

    pub fn low(&mut self, ticks: u64) {
        (0..ticks).for_each(|_| self.tick(1, 1));
    }

    pub fn metrics(&self) -> Metrics {
        let metrics = self.db.metrics();
        adds_up(&metrics);
        metrics
    }

    /// Time goes on, and nobody asks for anything, until all work is done.
    pub fn settle(&self) {
        for _ in 0..20_000 {
            if self.db.wait_idle().is_ok() {
                return;
            }
            self.clock.advance(TICK);
        }
        panic!("not settled: {}", self.db.control("explain default").unwrap());
    }

    pub fn finish(mut self) -> Metrics {
        self.settle();
        (0..100).for_each(|_| self.get());
        let found: BTreeMap<Vec<u8>, Vec<u8>> =
            self.db.scan(ScanRange::all()).unwrap().map(Result::unwrap).collect();
        assert_eq!(found, self.model);
        self.db.verify().unwrap();
        let metrics = self.metrics();
        assert_eq!((metrics.jobs_open, metrics.jobs_paused, metrics.jobs_failed), (0, 0, 0));
        assert_eq!(preemptions_told(&self.events.lock().unwrap()), preemptions(&metrics));
        self.db.close().unwrap();
        metrics
    }
}

/// Set aside, gone on with, let go, thrown away.
fn preemptions(m: &Metrics) -> [u64; 4] {
    [m.jobs_preempted, m.jobs_resumed, m.jobs_yielded, m.jobs_discarded]
}

/// The same, as the listener was told.
fn preemptions_told(events: &[Event]) -> [u64; 4] {
    let mut told = [0; 4];
    for event in events {
        match event {
            Event::Preempted { .. } => told[0] += 1,
            Event::Resumed { .. } => told[1] += 1,
            Event::Yielded { .. } => told[2] += 1,
            Event::Discarded { why: DiscardedFor::Preemption, .. } => told[3] += 1,
            _ => {}
        }
    }
    told
}

pub fn adds_up(m: &Metrics) {
    let [preempted, ended @ ..] = preemptions(m);
    assert_eq!(preempted, ended.iter().sum::<u64>() + m.jobs_paused, "{ended:?} {}", m.jobs_paused);
}
