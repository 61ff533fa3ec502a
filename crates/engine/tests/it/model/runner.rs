//! Runs a list of operations against a store on the simulated disk and against the model, side by side.
//!
//! Every answer is compared. Options are drawn anew at each open, so that a tree meets table, block and level sizes it was not
//! made with.

use std::collections::{BTreeSet, VecDeque};
use std::path::Path;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use evenkeel::background::CancelToken;
use evenkeel::fs::FileSystem as _;
use evenkeel::testing::{Clock as _, ManualClock, Random, SimulatedFileSystem};
use evenkeel::{
    Builder, CompactOptions, Db, Durability, Event, KeyspaceOptions, Options, Result, ScanRange, Snapshot,
    WriteBatch,
};

use super::operations::{Bounds, Effect, End, KEYS, NAMES, Operation, SCHEDULES, Write, key, value};
use super::reading::{Held, check_range, expected, range_of};
use super::reference::{Change, Entry, Moment, Reference, Space};
use super::sets::{DEVICE, OPERATION, OptionSet, STRATEGIES, Totals, take};
use super::sizes::{COMPRESSIONS, PREFIXES, options};

/// The keyspace without a log.
const UNLOGGED: &str = NAMES[3];

/// How long nothing happens where background work has to wait for its time.
const TICK: Duration = Duration::from_millis(20);

/// After so many of them there is room for every write.
const TICKS_TO_ROOM: u64 = 5_000;

/// More steps than any backlog of these sizes needs.
const STEPS_TO_REST: u64 = 20_000;

/// Events kept for a failure's report.
const EVENTS_KEPT: usize = 24;

/// A store, its model, and what readers hold open.
pub struct Runner {
    set: OptionSet,
    fs: SimulatedFileSystem,
    clock: Arc<ManualClock>,
    durability: Durability,
    db: Option<Db>,
    is_paused: bool,
    model: Reference,
    snapshots: Vec<(Snapshot, Moment)>,
    held: Vec<Held>,
    written: u64,
    events: Arc<Mutex<VecDeque<Event>>>,
    pub totals: Totals,
}

impl Runner {
    /// An empty store.
    pub fn new(set: OptionSet, seed: u64) -> Runner {
        let mut runner = Runner {
            set,
            fs: SimulatedFileSystem::new(),
            clock: Arc::default(),
            durability: Durability::Os,
            db: None,
            is_paused: false,
            model: Reference::default(),
            snapshots: Vec::new(),
            held: Vec::new(),
            written: 0,
            events: Arc::default(),
            totals: Totals::default(),
        };
        runner.model.create(NAMES[0], set.strategy, false);
        runner.open(seed, Some(set.strategy));
        runner.model.opened();
        runner
    }

    pub fn db(&self) -> &Db {
        self.db.as_ref().expect("the store is open")
    }

    /// One operation, and every answer compared.
    pub fn run(&mut self, operation: &Operation) {
        self.clock.advance(OPERATION);
        match operation {
            Operation::Write { writes, sync } => self.write(writes, *sync),
            Operation::Get { space, key } => self.get(*space, &[*key], false),
            Operation::MultiGet { space, keys } => self.get(*space, keys, true),
            Operation::Scan { space, bounds, seed } => self.scan(self.name(*space), *bounds, *seed),
            Operation::Snapshot => {
                self.snapshots.push((self.db().snapshot(), self.model.now.clone()));
                if self.snapshots.len() > 6 {
                    self.snapshots.remove(0);
                }
            }
            Operation::DropSnapshot { at } => drop(take(&mut self.snapshots, *at)),
            Operation::ReadSnapshot { at, space, key, bounds, seed } => {
                self.read_snapshot(*at, *space, *key, *bounds, *seed);
            }
            Operation::HoldCursor { space, bounds } if self.held.len() < 8 => {
                let name = self.name(*space);
                let cursor = self.db().keyspace(name).unwrap().cursor(range_of(*bounds).0).unwrap();
                self.held.push(Held::new(cursor, self.model.content(name), *bounds));
            }
            Operation::HoldCursor { .. } => {}
            Operation::MoveHeld { at, moves, seed } => {
                let count = self.held.len().max(1);
                if let Some(held) = self.held.get_mut(at % count) {
                    held.moves(*moves, *seed);
                }
            }
            Operation::DropHeld { at } => drop(take(&mut self.held, *at)),
            Operation::Create { .. } | Operation::Drop { .. } | Operation::SetStrategy { .. } => {
                self.keyspaces(operation);
            }
            Operation::Check { verify } => self.check(*verify),
            Operation::Copy { seed } => self.copy(*seed),
            Operation::Look { seed } => self.look(*seed),
            Operation::Reopen { end, seed } => self.reopen(*end, *seed),
            _ => self.background(operation),
        }
    }

    fn background(&mut self, operation: &Operation) {
        match operation {
            Operation::Flush { space } => {
                let name = self.name(*space);
                let keyspace = self.db().keyspace(name).unwrap();
                self.in_time(|| keyspace.flush()).unwrap();
                self.model.flushed(name);
            }
            Operation::CompactRange { space, bounds } => {
                let keyspace = self.db().keyspace(self.name(*space)).unwrap();
                match keyspace.compact_range(range_of(*bounds).0) {
                    // It goes on as a job like others, when its time comes.
                    Err(error) if error.kind() == "Idle" => {}
                    outcome => outcome.unwrap(),
                }
            }
            Operation::CompactLevels { space, from, one, cancel_after } => {
                self.compact_levels(*space, *from, *one, *cancel_after);
            }
            Operation::BulkLoad { space, first, count, finish } => {
                self.bulk_load(*space, *first, *count, *finish);
            }
            Operation::Sync => {
                self.db().sync().unwrap();
                self.model.synced();
            }
            Operation::Step { steps, compactions, seed } => self.step(*steps, *compactions, *seed),
            Operation::Yield { before, after, seed } => {
                self.step(*before, true, *seed);
                self.db().request_yields();
                self.step(*after, true, !*seed);
            }
            Operation::PileUp { space, flushes, seed } => self.pile_up(*space, *flushes, *seed),
            Operation::WaitIdle => {
                self.come_to_rest();
                assert_eq!(self.db().metrics().jobs_open, 0, "idle");
            }
            Operation::SetSchedule { to } => {
                self.db().set_schedule(to.map_or(self.set.schedule, |to| SCHEDULES[to])).unwrap();
                self.totals.schedules += 1;
            }
            Operation::Pause { space, writes, seed } => self.pause(*space, *writes, *seed),
            Operation::Advance { ms } => {
                self.clock.advance(Duration::from_millis(*ms));
                self.flip_heat();
            }
            _ => unreachable!("not of the background: {operation:?}"),
        }
    }

    fn compact_levels(&mut self, space: usize, from: usize, one: bool, cancel_after: Option<u64>) {
        let keyspace = self.db().keyspace(self.name(space)).unwrap();
        let (token, told) = (CancelToken::new(), AtomicU64::new(0));
        let options = CompactOptions::new().from_level(from).cancel(&token).progress(move |progress| {
            assert!(progress.done_bytes <= progress.total_bytes, "{progress:?}");
            if Some(told.fetch_add(1, Ordering::Relaxed)) == cancel_after {
                token.cancel();
            }
        });
        match keyspace.compact(if one { options.to_level(from + 1) } else { options }) {
            Ok(report) => assert!(!report.cancelled || cancel_after.is_some()),
            Err(error) if error.kind() == "Idle" => {}
            Err(error) => assert!(error.to_string().starts_with("there is no level"), "{error}"),
        }
    }

    fn bulk_load(&mut self, space: usize, first: u64, count: u64, finish: bool) {
        let name = self.name(space);
        let keys: BTreeSet<Vec<u8>> = (first..(first + count).min(KEYS)).map(key).collect();
        let mut load = self.db().keyspace(name).unwrap().bulk_load().unwrap();
        let mut entries: Vec<Entry> = Vec::new();
        for key in keys {
            self.written += 1;
            let value = value(self.written, 40);
            load.put(&key, &value).unwrap();
            entries.push((self.model.spaces[name].incarnation, Rc::from(key), Change::Put(Rc::from(value))));
        }
        if !finish {
            return;
        }
        match load.finish() {
            // It could not wait for what is before it, and has done nothing.
            Err(error) if error.kind() == "Idle" => return,
            outcome => outcome.unwrap(),
        };
        self.model.load(name, entries);
        self.totals.loads += 1;
    }

    fn pile_up(&mut self, space: usize, flushes: u64, seed: u64) {
        let mut random = Random::new(seed);
        for _ in 0..flushes {
            for _ in 0..4 {
                let mut writes: Vec<Write> =
                    (0..20).map(|_| (space, random.below(KEYS), Effect::Put(40))).collect();
                let (from, width) = (random.below(KEYS), random.below(12));
                writes.insert(10, (space, from, Effect::DeleteTo(Some(from + width))));
                self.write(&writes, false);
            }
            self.step(12, false, 0);
        }
        for _ in 0..3 {
            self.step(2 + random.below(10), true, random.next_u64());
            self.db().request_yields();
            self.step(8, true, random.next_u64());
            self.scan(self.name(space), Bounds::All, random.next_u64());
        }
    }

    /// Writes go on beside a background that stands still, as far as there is room.
    fn pause(&mut self, space: usize, writes: u64, seed: u64) {
        let paused = self.db().pause_background().unwrap();
        let mut random = Random::new(seed);
        let flushes = self.db().metrics().flushes;
        self.is_paused = true;
        for _ in 0..writes {
            self.write(&[(space, random.below(KEYS), Effect::Put(20))], false);
            self.step(2, true, random.next_u64());
        }
        self.scan(self.name(space), Bounds::All, seed);
        assert_eq!(self.db().metrics().flushes, flushes, "a flush during a pause");
        paused.resume();
        self.is_paused = false;
        self.totals.pauses += 1;
    }

    /// Background work ends, as time goes on: no tree is worked on for ever.
    fn come_to_rest(&self) {
        let mut steps = 0;
        loop {
            while self.db().step(&mut |runnable: &[(usize, _)]| runnable.first().map(|(job, _)| *job)) {
                steps += 1;
                if steps > STEPS_TO_REST {
                    self.panic_at_work();
                }
            }
            if self.db().wait_idle().is_ok() {
                return;
            }
            steps += 1;
            if steps > STEPS_TO_REST {
                self.panic_at_work();
            }
            self.clock.advance(TICK);
        }
    }

    fn panic_at_work(&self) -> ! {
        for name in self.db().keyspaces() {
            let keyspace = self.db().keyspace(&name).unwrap();
            eprintln!("{name}, {}:\n{}", keyspace.strategy_text(), keyspace.picture());
        }
        let last: Vec<String> = self.events.lock().unwrap().iter().map(ToString::to_string).collect();
        panic!("background work goes on and on, the last:\n{}", last.join("\n"));
    }

    fn keyspaces(&mut self, operation: &Operation) {
        match operation {
            Operation::SetStrategy { space, to } => {
                let name = self.name(*space);
                let text = to.map_or(self.set.strategy, |to| STRATEGIES[to]);
                self.db().keyspace(name).unwrap().set_strategy(text).unwrap();
                self.model.spaces.get_mut(name).unwrap().strategy = text.to_owned();
                self.totals.switches += 1;
            }
            Operation::Create { space } => {
                let (name, strategy) = (NAMES[*space], self.set.strategy);
                let options = KeyspaceOptions {
                    strategy: Some(strategy.to_owned()),
                    memtable_bytes: Some(4096),
                    compression: (*space == 2).then(|| COMPRESSIONS[3].parse().unwrap()),
                    prefix_filter: (*space == 3).then(|| PREFIXES[3].parse().unwrap()),
                    no_wal: name == UNLOGGED,
                };
                let created = self.db().create_keyspace(name, options);
                assert_eq!(created.is_ok(), !self.model.spaces.contains_key(name), "{created:?}");
                if created.is_ok() {
                    self.model.create(name, strategy, name == UNLOGGED);
                }
            }
            Operation::Drop { space } => {
                let name = NAMES[*space];
                let dropped = self.db().drop_keyspace(name);
                assert_eq!(
                    dropped.is_ok(),
                    *space != 0 && self.model.spaces.contains_key(name),
                    "{dropped:?}"
                );
                if dropped.is_ok() {
                    self.model.drop_space(name);
                }
            }
            _ => unreachable!("not of keyspaces: {operation:?}"),
        }
    }

    /// The keyspace of this number, or the default one while there is none.
    fn name(&self, space: usize) -> &'static str {
        if self.model.spaces.contains_key(NAMES[space]) { NAMES[space] } else { NAMES[0] }
    }

    fn write(&mut self, writes: &[Write], sync: bool) {
        let mut batch = WriteBatch::new();
        let mut entries: Vec<Entry> = Vec::new();
        for (space, number, effect) in writes {
            let name = self.name(*space);
            let keyspace = self.db().keyspace(name).unwrap();
            let key = key(*number);
            self.written += 1;
            let change = match effect {
                Effect::Put(length) => {
                    let value = value(self.written, *length);
                    batch.put_in(&keyspace, &key, &value);
                    Change::Put(Rc::from(value))
                }
                Effect::Delete => {
                    batch.delete_in(&keyspace, &key);
                    Change::Delete
                }
                Effect::DeleteTo(to) => {
                    let end = to.map_or(vec![0xff], super::operations::key);
                    batch.delete_range_in(&keyspace, &key, &end);
                    self.totals.range_deletes += u64::from(key < end);
                    if key >= end {
                        // No write at all.
                        continue;
                    }
                    Change::DeleteTo(Rc::from(end))
                }
            };
            entries.push((self.model.spaces[name].incarnation, Rc::from(key), change));
        }
        // What deletes nothing is no write of the keyspace.
        let unlogged_space = self.model.spaces.values().find(|space| space.no_wal).map(|s| s.incarnation);
        let unlogged = entries.iter().filter(|(space, ..)| Some(*space) == unlogged_space).count();
        if unlogged > 0 && (sync || unlogged < entries.len()) {
            // No promise that a log alone could keep, and no batch over both kinds of keyspace.
            let durability = if sync { Durability::Sync } else { Durability::Os };
            let refused = self.in_time(|| self.db().write_with(batch.clone(), durability)).unwrap_err();
            assert_eq!(refused.kind(), "InvalidArgument", "{refused}");
            self.totals.refused += 1;
            return;
        }
        let written = self.in_time(|| self.commit(&batch, writes[0].0, &entries, sync));
        if matches!(&written, Err(error) if error.kind() == "Paused" && self.is_paused) {
            // There is no room, and nobody makes any now.
            return;
        }
        written.unwrap();
        self.model.write(entries);
        if unlogged == 0 && (sync || self.durability == Durability::Sync) {
            self.model.synced();
        }
        self.totals.unlogged += u64::from(unlogged > 0);
    }

    /// A write of one entry is made by the call that is for it.
    fn commit(&self, batch: &WriteBatch, space: usize, entries: &[Entry], sync: bool) -> Result<()> {
        let keyspace = || self.db().keyspace(self.name(space)).unwrap();
        match (entries, sync) {
            (_, true) => self.db().write_with(batch.clone(), Durability::Sync),
            ([(_, key, Change::Put(value))], _) => keyspace().put(key, value),
            ([(_, key, Change::DeleteTo(end))], _) => keyspace().delete_range(key, end),
            ([(_, key, Change::Delete)], _) => keyspace().delete(key),
            _ => self.db().write(batch.clone()),
        }
    }

    /// A call that may have to wait for background work, which a schedule may let go on only as time does.
    fn in_time<T>(&self, mut call: impl FnMut() -> Result<T>) -> Result<T> {
        for _ in 0..TICKS_TO_ROOM {
            match call() {
                Err(error) if error.kind() == "Idle" => self.clock.advance(TICK),
                outcome => return outcome,
            }
        }
        let why = self.db().control("explain default");
        panic!("{TICK:?} have passed {TICKS_TO_ROOM} times, and it still waits: {why:?}");
    }

    fn get(&self, space: usize, numbers: &[u64], at_once: bool) {
        let name = self.name(space);
        let keyspace = self.db().keyspace(name).unwrap();
        let keys: Vec<Vec<u8>> = numbers.iter().copied().map(key).collect();
        let got = if at_once {
            keyspace.multi_get(&keys.iter().map(Vec::as_slice).collect::<Vec<_>>()).unwrap()
        } else {
            keys.iter().map(|key| keyspace.get(key).unwrap()).collect()
        };
        assert_eq!(got.len(), keys.len());
        for (key, got) in keys.iter().zip(&got) {
            let want = self.model.content(name).get(&key[..]);
            assert_eq!(got.as_deref(), want.map(|value| &value[..]), "{key:?} in {name}");
        }
    }

    fn scan(&mut self, name: &str, bounds: Bounds, seed: u64) {
        let keyspace = self.db().keyspace(name).unwrap();
        let trimmed = keyspace.trimmed_tables();
        let range = range_of(bounds).0;
        let want = expected(self.model.content(name), bounds);
        check_range(&want, || keyspace.scan(range.clone()), || keyspace.cursor(range.clone()), seed);
        self.totals.trimmed_scans += u64::from(trimmed >= 10);
        self.totals.trimmed_most = self.totals.trimmed_most.max(trimmed);
    }

    fn read_snapshot(&self, at: usize, space: usize, number: u64, bounds: Bounds, seed: u64) {
        let Some((snapshot, moment)) = self.snapshots.get(at % self.snapshots.len().max(1)) else { return };
        let name = self.name(space);
        let keyspace = self.db().keyspace(name).unwrap();
        // A keyspace made since holds nothing as of then.
        let content = moment.get(&self.model.spaces[name].incarnation).cloned().unwrap_or_default();
        let key = key(number);
        let got = snapshot.get_in(&keyspace, &key).unwrap();
        assert_eq!(got.as_deref(), content.get(&key[..]).map(|v| &v[..]), "{key:?} in {name} at a snapshot");
        let range = range_of(bounds).0;
        let scan = || snapshot.scan_in(&keyspace, range.clone());
        check_range(&expected(&content, bounds), scan, || snapshot.cursor_in(&keyspace, range.clone()), seed);
    }

    fn step(&mut self, steps: u64, compactions: bool, seed: u64) {
        let mut random = Random::new(seed);
        for _ in 0..steps {
            self.db().step(&mut |runnable: &[(usize, _)]| {
                let drawn = random.below(runnable.len() as u64) as usize;
                runnable.get(drawn).filter(|_| compactions).map(|(job, _)| *job)
            });
        }
    }

    /// Everything in every keyspace, both ways, and the numbers.
    fn check(&mut self, verify: bool) {
        let names: Vec<String> = self.model.spaces.keys().cloned().collect();
        assert_eq!(self.db().keyspaces(), names);
        for (i, name) in names.iter().enumerate() {
            self.scan(name, Bounds::All, self.written + i as u64);
        }
        let metrics = self.db().metrics();
        assert_eq!(metrics.sequence, self.model.sequence, "the last sequence");
        let levels = metrics.keyspaces.iter().flat_map(|k| {
            assert_eq!(k.strategy, self.model.spaces[&k.name].strategy, "the strategy of {}", k.name);
            k.levels.iter().rposition(|level| level.tables > 0)
        });
        self.totals.levels = levels.map(|deepest| deepest + 1).chain([self.totals.levels]).max().unwrap_or(0);
        if verify {
            self.db().verify().unwrap();
        }
    }

    /// A checkpoint is the store as of now, whatever is in memtables, and a store that takes writes.
    fn copy(&mut self, seed: u64) {
        let target = Path::new("/copies/one");
        let report = self.in_time(|| self.db().checkpoint(target)).unwrap();
        assert_eq!(report.sequence, self.model.sequence);
        let copy = self.builder(target, options(seed)).without_threads().open().unwrap();
        self.check_twin(&copy, true);
        self.in_time(|| copy.put(b"of the copy", b"alone")).unwrap();
        copy.close().unwrap();
        for name in self.fs.list(target).unwrap() {
            self.fs.remove(&target.join(name)).unwrap();
        }
        self.fs.remove_dir(target).unwrap();
        self.totals.copies += 1;
    }

    /// Somebody else who looks sees the store as of now, and leaves no trace.
    fn look(&mut self, seed: u64) {
        let calls = self.fs.call_count();
        let seen = self.builder(Path::new("/store"), options(seed)).read_only(true).open().unwrap();
        self.check_twin(&seen, false);
        assert_eq!(seen.put(b"k", b"v").unwrap_err().kind(), "ReadOnly");
        drop(seen);
        assert_eq!(self.fs.call_count(), calls, "a look changes nothing");
        self.totals.looks += 1;
    }

    /// `unlogged`: if it holds what only memory has, too.
    fn check_twin(&self, twin: &Db, unlogged: bool) {
        let names: Vec<String> = self.model.spaces.keys().cloned().collect();
        assert_eq!(twin.keyspaces(), names);
        let has_unlogged = names.iter().any(|name| name == UNLOGGED);
        let sequence = twin.metrics().sequence;
        assert!(
            sequence == self.model.sequence || (has_unlogged && !unlogged && sequence < self.model.sequence)
        );
        for name in names.iter().filter(|name| unlogged || *name != UNLOGGED) {
            let keyspace = twin.keyspace(name).unwrap();
            assert_eq!(keyspace.strategy_text(), self.model.spaces[name].strategy);
            let got = keyspace.scan(ScanRange::all()).unwrap();
            let got: Vec<(Vec<u8>, Vec<u8>)> = got.collect::<Result<_>>().unwrap();
            let want = self.model.content(name);
            let equal =
                got.iter().map(|(k, v)| (&k[..], &v[..])).eq(want.iter().map(|(k, v)| (&k[..], &v[..])));
            assert!(equal, "{name} has {} entries instead of {}", got.len(), want.len());
        }
        twin.verify().unwrap();
    }

    fn builder(&self, dir: &Path, options: Options) -> Builder {
        let builder = Db::builder(dir).options(options).file_system(Arc::new(self.fs.clone()));
        builder.clock(Arc::clone(&self.clock) as _)
    }

    fn reopen(&mut self, end: End, seed: u64) {
        self.check(false);
        self.count();
        self.snapshots.clear();
        self.held.clear();
        match end {
            End::Close => self.db.take().expect("the store is open").close().unwrap(),
            End::KillProcess => {
                self.fs = self.fs.process_kill();
                // All that is logged is with the kernel.
                self.model.synced();
            }
            End::LosePower(policy) => self.fs = self.fs.crash(seed, policy),
        }
        self.db = None;
        self.totals.reopens += 1;
        self.totals.crashes += u64::from(!matches!(end, End::Close));
        self.open(seed, None);
        if !matches!(end, End::Close) {
            let found = self.found();
            let sequence = self.db().metrics().sequence;
            self.model.crashed(&found, sequence).unwrap();
        }
        self.model.opened();
        self.check(true);
    }

    /// What the store holds.
    fn found(&self) -> Moment {
        let content = |(name, space): (&String, &Space)| {
            let entries = self.db().keyspace(name).unwrap().scan(ScanRange::all()).unwrap();
            let entries = entries.map(|entry| entry.map(|(key, value)| (Rc::from(key), Rc::from(value))));
            (space.incarnation, Rc::new(entries.collect::<Result<_>>().unwrap()))
        };
        self.model.spaces.iter().map(content).collect()
    }

    fn open(&mut self, seed: u64, strategy: Option<&str>) {
        let mut options = Options { device_bytes_per_sec: DEVICE, ..options(seed) };
        options.strategy = strategy.map(str::to_owned);
        options.schedule = self.set.schedule.to_owned();
        self.durability = options.durability;
        let builder =
            Db::builder(Path::new("/store")).options(options).file_system(Arc::new(self.fs.clone()));
        let events = Arc::clone(&self.events);
        let builder = builder.listener(Arc::new(move |event| {
            if let Event::BackgroundError { error } = event {
                panic!("no disk fails here: {error}");
            }
            let mut events = events.lock().unwrap();
            events.push_back(event.clone());
            if events.len() > EVENTS_KEPT {
                events.pop_front();
            }
        }));
        self.db = Some(builder.clock(Arc::clone(&self.clock) as _).without_threads().open().unwrap());
    }

    /// Each second the other half of the keys is the one that is read.
    fn flip_heat(&self) {
        let lower_is_hot = self.clock.now().as_secs().is_multiple_of(2);
        self.db().pretend_heat(&|key| Some(f64::from(u8::from((key < b"user:0400") == lower_is_hot))));
    }

    /// Adds the counters of this open to the totals.
    pub fn count(&mut self) {
        let metrics = self.db().metrics();
        self.totals.add(&metrics);
    }
}
