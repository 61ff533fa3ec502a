//! Does one kind of operation so many times on a small store, for `cargo xtask instructions` to count the instructions of: those of
//! a run less those of a shorter one, so that opening, filling and closing cancel out.
//!
//! Everything but the files is fixed: keys and values come from seeds, the clock stands still, and no thread runs beside. Nothing
//! is made ready in the counted loops, which do the operation and look at what it answers.

use std::hint::black_box;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use evenkeel::testing::{ManualClock, Random};
use evenkeel::{Db, Result, ScanRange};

/// Records that are there before.
const RECORDS: usize = 20_000;
/// Keys of none of them: enough for puts of new keys only.
const ABSENT: usize = 40_000;
/// Runs that the records are flushed to: all of them lie in the first level, as nothing is compacted.
const RUNS: usize = 4;
const VALUE_BYTES: usize = 100;

type Key = [u8; 16];

/// An operation: how it is called, whether the records lie in tables, and how it is done.
type Operation = (&'static str, bool, fn(&Prepared, usize) -> Result<usize>);

const OPERATIONS: [Operation; 5] = [
    ("get_hit_memtable", false, |store, times| store.get(&store.present, times)),
    ("get_hit_table", true, |store, times| store.get(&store.present, times)),
    ("get_miss", true, |store, times| store.get(&store.absent, times).map(|found| times - found)),
    ("put", true, Prepared::put),
    ("next", true, Prepared::next),
];

/// A store with its records, and the keys to come.
struct Prepared {
    db: Db,
    present: Vec<Key>,
    absent: Vec<Key>,
    value: Vec<u8>,
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let asked = match &args[..] {
        [name, times] => OPERATIONS.iter().find(|row| row.0 == name).zip(times.parse().ok()),
        _ => None,
    };
    let Some((operation, times)) = asked else {
        let names = OPERATIONS.map(|row| row.0).join("|");
        eprintln!("usage: instructions {names} TIMES");
        return ExitCode::from(2);
    };
    match run(operation, times) {
        Ok(done) if done == times => ExitCode::SUCCESS,
        Ok(done) => {
            eprintln!("instructions: {done} of {times} operations answered as they should");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("instructions: {error}");
            ExitCode::FAILURE
        }
    }
}

/// How many operations answered as they should.
fn run((_, in_tables, operation): &Operation, times: usize) -> std::result::Result<usize, String> {
    let directory = tempfile::tempdir().map_err(|error| format!("a temporary directory: {error}"))?;
    let done = Prepared::new(directory.path(), *in_tables).and_then(|store| {
        let done = operation(&store, times)?;
        store.db.close()?;
        Ok(done)
    });
    done.map_err(|error| error.to_string())
}

impl Prepared {
    fn new(directory: &Path, in_tables: bool) -> Result<Prepared> {
        // Far from what would slow writers or start a compaction.
        let db = Db::builder(directory)
            .set("l0_trigger", "100")
            .set("l0_limit", "1000")
            .clock(Arc::new(ManualClock::default()))
            .without_threads()
            .open()?;
        let mut random = Random::new(1);
        let mut key = |_| {
            let mut key = Key::default();
            random.fill(&mut key);
            key
        };
        let present: Vec<Key> = (0..RECORDS).map(&mut key).collect();
        let absent = (0..ABSENT).map(&mut key).collect();
        let mut value = vec![0; VALUE_BYTES];
        random.fill(&mut value);
        let store = Prepared { db, present, absent, value };
        for part in store.present.chunks(RECORDS / RUNS) {
            part.iter().try_for_each(|key| store.db.put(key, &store.value))?;
            if in_tables {
                store.db.flush()?;
            }
        }
        // What is read at first only is read now: blocks, filters, indexes.
        store.get(&store.present, RECORDS)?;
        store.get(&store.absent, ABSENT)?;
        Ok(store)
    }

    /// How many were found.
    fn get(&self, keys: &[Key], times: usize) -> Result<usize> {
        let mut found = 0;
        for key in keys.iter().cycle().take(times) {
            found += usize::from(black_box(self.db.get(key)?).is_some());
        }
        Ok(found)
    }

    /// How many new keys were put.
    fn put(&self, times: usize) -> Result<usize> {
        let new = self.absent.get(..times).unwrap_or(&self.absent);
        new.iter().try_for_each(|key| self.db.put(key, &self.value))?;
        Ok(new.len())
    }

    /// Steps of one scan after the other.
    fn next(&self, times: usize) -> Result<usize> {
        let mut cursor = self.db.cursor(ScanRange::all())?;
        for _ in 0..times {
            if !cursor.valid() {
                cursor.seek_to_first()?;
            }
            black_box((cursor.key(), cursor.value()));
            cursor.next()?;
        }
        Ok(times)
    }
}
