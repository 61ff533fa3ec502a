//! What readers see while others write is one order of all writes, and one that time allows: a write that was acknowledged before
//! another began comes before it, for every reader, and in what a kill leaves.
//!
//! ```text
//! writer t   n-th batch: count t := n, and half of the time a transfer between shared accounts
//!            before it begins it notes what the others have acknowledged: those come before it
//! readers    a snapshot shows counts c: acknowledged before ≤ c ≤ begun after; what c's batches noted ≤ c; the sum stays
//! killer     the disk as a kill would leave it, opened: the same
//! ```

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use evenkeel::testing::{Random, SimulatedFileSystem};
use evenkeel::{Cursor, Db, Options, ScanRange, Snapshot, WriteBatch};

use super::side_by_side::tiny;
use super::trust::layer;

const WRITERS: usize = 4;
const ACCOUNTS: u64 = 8;
const START: u64 = 1000;

type Counts = [u64; WRITERS];

/// What writers have told so far.
#[derive(Default)]
struct Told {
    begun: [AtomicU64; WRITERS],
    acknowledged: [AtomicU64; WRITERS],
    /// Of each writer's batches, what had been acknowledged when it began.
    before: [Mutex<Vec<Counts>>; WRITERS],
    /// One transfer at a time: it reads what it changes.
    transfers: Mutex<()>,
}

fn now(counters: &[AtomicU64; WRITERS]) -> Counts {
    std::array::from_fn(|t| counters[t].load(Ordering::SeqCst))
}

fn count_key(writer: usize) -> Vec<u8> {
    format!("count {writer}").into_bytes()
}

fn account_key(account: u64) -> Vec<u8> {
    format!("account {account}").into_bytes()
}

fn number(value: &[u8]) -> u64 {
    std::str::from_utf8(value).unwrap().trim_start_matches('0').parse().unwrap_or(0)
}

/// Long, so that memtables fill.
fn value(number: u64) -> Vec<u8> {
    format!("{number:0>120}").into_bytes()
}

fn options() -> Options {
    Options { workers: 2, ..tiny() }
}

impl Told {
    fn write(&self, db: &Db, writer: usize, batches: u64, seed: u64, over: &AtomicBool) {
        let mut random = Random::new(seed + writer as u64);
        for n in 1..=batches {
            if over.load(Ordering::Acquire) {
                return;
            }
            let mut batch = WriteBatch::new();
            batch.put(&count_key(writer), &value(n));
            batch.put(format!("filler {}", random.below(500)).as_bytes(), &value(n));
            // A transfer begins when it has its turn: from then on nobody else changes what it reads.
            let turn = random.one_in(2).then(|| self.transfers.lock().unwrap());
            self.before[writer].lock().unwrap().push(now(&self.acknowledged));
            self.begun[writer].store(n, Ordering::SeqCst);
            if turn.is_some() {
                let (from, to) = (random.below(ACCOUNTS), random.below(ACCOUNTS));
                let [has, gets] = [from, to].map(|a| number(&db.get(&account_key(a)).unwrap().unwrap()));
                if from != to && has > 0 {
                    let amount = 1 + random.below(has);
                    batch.put(&account_key(from), &value(has - amount));
                    batch.put(&account_key(to), &value(gets + amount));
                }
            }
            db.write(batch).unwrap();
            self.acknowledged[writer].store(n, Ordering::SeqCst);
            drop(turn);
        }
    }

    /// What was seen is an order that time allows.
    fn check(&self, seen: &Seen, least: &Counts, most: &Counts) {
        assert_eq!(seen.sum, ACCOUNTS * START, "half of a transfer");
        for (t, count) in seen.counts.into_iter().enumerate() {
            assert!((least[t]..=most[t]).contains(&count), "writer {t}: {count} of {least:?} to {most:?}");
            if let Some(last) = count.checked_sub(1) {
                let before = self.before[t].lock().unwrap()[last as usize];
                let holds = before.iter().zip(&seen.counts).all(|(before, count)| before <= count);
                assert!(
                    holds,
                    "batch {count} of writer {t} began after {before:?}, seen is {:?}",
                    seen.counts
                );
            }
        }
    }

    fn read(&self, db: &Db, seed: u64, over: &AtomicBool) -> u64 {
        let mut random = Random::new(seed);
        let mut reads = 0;
        while !over.load(Ordering::Acquire) {
            let least = now(&self.acknowledged);
            let snapshot = db.snapshot();
            let most = now(&self.begun);
            let way = random.below(3);
            let seen = Seen::of(&snapshot, way);
            self.check(&seen, &least, &most);
            assert_eq!(seen, Seen::of(&snapshot, way + 1), "a snapshot changes");
            reads += 1;
        }
        reads
    }

    fn kill(&self, fs: &SimulatedFileSystem, over: &AtomicBool) -> u64 {
        let mut kills = 0;
        while !over.load(Ordering::Acquire) {
            let least = now(&self.acknowledged);
            let killed = Arc::new(fs.process_kill());
            let most = now(&self.begun);
            let builder = Db::builder(Path::new("/store")).options(options()).file_system(killed);
            let db = builder.without_threads().open().unwrap();
            self.check(&Seen::of(&db.snapshot(), kills), &least, &most);
            kills += 1;
        }
        kills
    }
}

/// Counts of the writers, and the sum of all accounts.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    counts: Counts,
    sum: u64,
}

impl Seen {
    /// By gets, upward or downward.
    fn of(snapshot: &Snapshot, way: u64) -> Seen {
        let mut seen = Seen { counts: [0; WRITERS], sum: 0 };
        match way % 3 {
            0 => {
                let get = |key: &[u8]| snapshot.get(key).unwrap().map_or(0, |value| number(&value));
                seen.counts = std::array::from_fn(|t| get(&count_key(t)));
                seen.sum = (0..ACCOUNTS).map(|account| get(&account_key(account))).sum();
            }
            1 => {
                let mut cursor = snapshot.cursor(ScanRange::all()).unwrap();
                cursor.seek_to_first().unwrap();
                while cursor.valid() {
                    seen.note(&cursor);
                    cursor.next().unwrap();
                }
            }
            _ => {
                let mut cursor = snapshot.cursor(ScanRange::all()).unwrap();
                cursor.seek_to_last().unwrap();
                while cursor.valid() {
                    seen.note(&cursor);
                    cursor.prev().unwrap();
                }
            }
        }
        seen
    }

    fn note(&mut self, cursor: &Cursor) {
        let key = std::str::from_utf8(cursor.key()).unwrap();
        if let Some(writer) = key.strip_prefix("count ") {
            self.counts[writer.parse::<usize>().unwrap()] = number(cursor.value());
        } else if key.starts_with("account ") {
            self.sum += number(cursor.value());
        }
    }
}

/// C1, C2, C4 (`docs/durability.md`): batches are whole, readers agree on their order, and what was acknowledged is there.
#[test]
fn everybody_sees_one_order_that_time_allows() {
    let layer = layer("order");
    let batches = if layer.is_full() { 30_000 * layer.soak() } else { 2_000 };
    let seed = layer.seeds(1)[0];
    let mut attempt = layer.attempt(seed);
    attempt.doing("four writers, two readers, and kills");
    let fs = SimulatedFileSystem::new();
    let builder = Db::builder(Path::new("/store")).options(options()).file_system(Arc::new(fs.clone()));
    let db = builder.open().unwrap();
    let mut first = WriteBatch::new();
    for account in 0..ACCOUNTS {
        first.put(&account_key(account), &value(START));
    }
    db.write(first).unwrap();
    let (told, over) = (Told::default(), AtomicBool::new(false));
    // Whoever panics ends it for all.
    let ends = |work: &dyn Fn() -> u64| {
        let _ends = EndsIt(&over);
        work()
    };
    let (reads, kills) = std::thread::scope(|scope| {
        let (told, db, fs, over, ends) = (&told, &db, &fs, &over, &ends);
        let readers = [0, 1].map(|r| scope.spawn(move || ends(&|| told.read(db, seed + r, over))));
        let killer = scope.spawn(move || ends(&|| told.kill(fs, over)));
        let writers: Vec<_> =
            (0..WRITERS).map(|t| scope.spawn(move || told.write(db, t, batches, seed, over))).collect();
        let done = writers.into_iter().map(std::thread::ScopedJoinHandle::join).filter(Result::is_ok).count();
        over.store(true, Ordering::Release);
        assert_eq!(done, WRITERS, "a writer failed");
        let reads: u64 = readers.map(|reader| reader.join().unwrap()).iter().sum();
        (reads, killer.join().unwrap())
    });
    let metrics = db.metrics();
    layer.report(format_args!(
        "writers={WRITERS} batches={} snapshots={reads} kills={kills} flushes={} merges={} lost=0 wrong=0",
        now(&told.acknowledged).iter().sum::<u64>(),
        metrics.flushes,
        metrics.compactions,
    ));
    assert!(reads > 20 && kills > 2 && metrics.flushes > 10, "{reads} reads, {kills} kills");
}

/// Says that it is over when it is dropped.
struct EndsIt<'a>(&'a AtomicBool);

impl Drop for EndsIt<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}
