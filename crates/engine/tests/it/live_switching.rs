//! Strategies changed under a thread that keeps writing: every ordered pair of CDS Table 2, 1-leveling and ltg, with the store's own
//! threads, and every answer held against what may be right at that moment.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use evenkeel::testing::{Random, SimulatedFileSystem};
use evenkeel::{Db, Options, ScanRange, WriteBatch, strategy};

use super::switching::{every_pair, options, picture, strategy_of};

const KEYS: usize = 600;
/// Writes between a change and its check, all of them while answers are looked at.
const WRITES: u64 = 700;

/// What is known of a key: its versions are numbered, and a version's number says whether it is a delete.
#[derive(Default)]
struct Known {
    /// No version above this one was ever asked for.
    begun: AtomicU64,
    /// No version below this one is the newest.
    acknowledged: AtomicU64,
}

/// The store, what it should hold, and how far the writer is.
struct Shared {
    db: Db,
    keys: Vec<Known>,
    written: AtomicU64,
    /// Held by the writer for each write, and by whoever wants the store to stand still.
    writing: Mutex<()>,
    ends: AtomicBool,
}

fn key(number: usize) -> Vec<u8> {
    format!("{number:04}").into_bytes()
}

fn is_delete(number: usize, version: u64) -> bool {
    (version * 31 + number as u64 * 7).is_multiple_of(6)
}

fn value(version: u64) -> Vec<u8> {
    format!("{version:0>90}").into_bytes()
}

fn version_of(value: &[u8]) -> u64 {
    std::str::from_utf8(value).unwrap().parse().unwrap()
}

impl Shared {
    /// Writes two keys at once, again and again.
    fn write(&self) {
        let mut random = Random::new(9);
        while !self.ends.load(Ordering::Relaxed) {
            let turn = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
            let mut batch = WriteBatch::new();
            let first = random.below(KEYS as u64) as usize;
            let chosen = [first, (first + KEYS / 2) % KEYS];
            for number in chosen {
                let version = self.keys[number].begun.fetch_add(1, Ordering::SeqCst) + 1;
                match is_delete(number, version) {
                    true => batch.delete(&key(number)),
                    false => batch.put(&key(number), &value(version)),
                }
            }
            self.db.write(batch).unwrap();
            for number in chosen {
                let known = &self.keys[number];
                known.acknowledged.store(known.begun.load(Ordering::SeqCst), Ordering::SeqCst);
            }
            self.written.fetch_add(1, Ordering::SeqCst);
            drop(turn);
        }
    }

    fn acknowledged(&self, number: usize) -> u64 {
        self.keys[number].acknowledged.load(Ordering::SeqCst)
    }

    /// Panics if no version from the one acknowledged before the question to the one begun by now gives this answer.
    fn judge(&self, number: usize, before: u64, answer: Option<&[u8]>, say: &dyn Fn(&str) -> String) {
        let now = self.keys[number].begun.load(Ordering::SeqCst);
        let right = match answer.map(version_of) {
            Some(version) => (before..=now).contains(&version) && !is_delete(number, version),
            None => (before..=now).any(|version| version == 0 || is_delete(number, version)),
        };
        let found = answer.map(version_of);
        assert!(right, "{}", say(&format!("key {number} is {found:?}, not of {before} to {now}")));
    }

    fn look(&self, random: &mut Random, say: &dyn Fn(&str) -> String) {
        let number = random.below(KEYS as u64) as usize;
        let before = self.acknowledged(number);
        let answer = self.db.get(&key(number)).unwrap();
        self.judge(number, before, answer.as_deref(), say);
    }

    fn look_at_all(&self, say: &dyn Fn(&str) -> String) {
        let before: Vec<u64> = (0..KEYS).map(|number| self.acknowledged(number)).collect();
        let found: std::collections::BTreeMap<Vec<u8>, Vec<u8>> =
            self.db.scan(ScanRange::all()).unwrap().map(|record| record.unwrap()).collect();
        for (number, before) in before.into_iter().enumerate() {
            self.judge(number, before, found.get(&key(number)).map(Vec::as_slice), say);
        }
        assert!(found.len() <= KEYS);
    }

    fn distance(&self) -> u64 {
        self.db.metrics().keyspaces[0].distance_bytes
    }
}

#[test]
fn every_pair_of_table_2_and_two_more_is_switched_while_writes_go_on() {
    let table_2 = strategy::catalog().iter().take(9).map(|row| row.name);
    let names: Vec<&str> = table_2.chain(["1-leveling", "ltg"]).collect();
    let pairs = every_pair(names.len());
    assert_eq!(pairs.len(), 110);
    let builder = Db::builder(Path::new("/store")).options(Options { workers: 2, ..options(Some(names[0])) });
    let db = builder.file_system(Arc::new(SimulatedFileSystem::new())).open().unwrap();
    let shared = Shared {
        db,
        keys: (0..KEYS).map(|_| Known::default()).collect(),
        written: AtomicU64::new(0),
        writing: Mutex::new(()),
        ends: AtomicBool::new(false),
    };
    let (mut looks, mut apart) = (0u64, 0);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| shared.write());
        // Whatever is found wrong, the writer ends, and so does the test.
        let _end = End(&shared.ends);
        let mut random = Random::new(21);
        let mut look_until = |target: u64, say: &dyn Fn(&str) -> String| {
            while shared.written.load(Ordering::SeqCst) < target {
                assert!(!writer.is_finished(), "the writer has ended");
                shared.look(&mut random, say);
                looks += 1;
            }
        };
        look_until(WRITES, &|what| format!("before all: {what}"));
        for (from, to) in &pairs {
            let say =
                |what: &str| format!("{} to {}: {what}\n{}", names[*from], names[*to], picture(&shared.db));
            assert_eq!(strategy_of(&shared.db), names[*from]);
            let began = shared.written.load(Ordering::SeqCst);
            shared.db.set_strategy(names[*to]).unwrap();
            let pivot = key(began as usize % KEYS);
            shared.db.pretend_heat(&|key| Some(f64::from(u8::from(key < &pivot[..]))));
            apart += u64::from(shared.distance() > 0);
            look_until(began + WRITES / 2, &say);
            shared.look_at_all(&say);
            look_until(began + WRITES, &say);
            let still = shared.writing.lock().unwrap();
            shared.db.wait_idle().unwrap();
            assert_eq!(shared.distance(), 0, "{}", say("rests out of shape"));
            shared.look_at_all(&say);
            drop(still);
        }
    });
    let m = shared.db.metrics();
    println!("LIVE {looks} looks, {apart} of 110 with a way to go at once, {} compactions", m.compactions);
    assert!(m.compactions > 110 && looks > 110);
    shared.db.verify().unwrap();
}

/// Ends the writer however the thread that looks leaves.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
