//! The same operations on a real store, with compactions before writes: what simulations are held against.

use std::path::Path;

use evenkeel::{Db, Error, Metrics, Options};

use crate::operations::{Operation, Operations, What};

/// The store comes to rest so many times while a memtable fills, so that no second flush finds compactions waiting.
const RESTS_PER_MEMTABLE: u64 = 8;

/// What the store counted.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counted {
    /// Bytes of keys and values that were written.
    pub user_bytes: u64,
    /// Bytes of tables that compactions wrote.
    pub written_bytes: u64,
    /// Bytes that they read.
    pub read_bytes: u64,
    /// Compactions.
    pub jobs: u64,
    /// Flushes.
    pub flushes: u64,
    /// Moves by metadata.
    pub moves: u64,
    /// Superseded bytes per other byte at the end, by reading everything.
    pub space_amplification: f64,
    /// Runs at the end.
    pub runs: u64,
    /// Bytes of tables at the end.
    pub table_bytes: u64,
    /// Entries at the end.
    pub entries: u64,
}

impl Counted {
    /// Bytes that compactions wrote for each byte that users wrote.
    pub fn write_amplification(&self) -> f64 {
        self.written_bytes as f64 / self.user_bytes.max(1) as f64
    }
}

/// Does `operations` on a new store in `dir`.
///
/// # Errors
/// The store's, in words.
pub fn run(
    operations: &dyn Operations,
    strategy: &str,
    options: &Options,
    dir: &Path,
) -> Result<Counted, String> {
    let wrong = |error: Error| format!("{strategy}: {error}");
    // Background work is done where it is waited for, so that the same operations give the same tree.
    let db = Db::builder(dir).options(options.clone()).without_threads().open().map_err(wrong)?;
    db.set_strategy(strategy).map_err(wrong)?;
    let rest_bytes = options.memtable_bytes / RESTS_PER_MEMTABLE;
    let mut since_rest = 0;
    let mut before = Counted::default();
    operations.go(&mut |operation| {
        if operation.what == What::Measure {
            db.flush().and_then(|()| db.wait_idle()).map_err(wrong)?;
            before = counted(&db.metrics());
            return Ok(());
        }
        since_rest += execute(&db, operation).map_err(wrong)?;
        if since_rest >= rest_bytes {
            since_rest = 0;
            db.wait_idle().map_err(wrong)?;
        }
        Ok(())
    })?;
    db.flush().and_then(|()| db.wait_idle()).map_err(wrong)?;
    let metrics = db.metrics();
    let mut after = counted(&metrics).since(&before);
    let keyspace = db.keyspace("default").ok_or("the store has no default keyspace")?;
    after.space_amplification = keyspace.measure_space().map_err(wrong)?.amplification();
    let levels = metrics.keyspaces.iter().flat_map(|k| &k.levels);
    after.table_bytes = levels.clone().map(|l| l.bytes).sum();
    after.entries = levels.clone().map(|l| l.entries).sum();
    after.runs = levels.map(|l| l.runs).sum();
    db.close().map_err(wrong)?;
    Ok(after)
}

/// Does one operation; answers the bytes that were written.
fn execute(db: &Db, operation: &Operation<'_>) -> evenkeel::Result<u64> {
    let key = operation.key;
    match operation.what {
        What::Put(value) => {
            db.put(key, value)?;
            Ok((key.len() + value.len()) as u64)
        }
        What::PutOfLength(bytes) => {
            db.put(key, &vec![0; bytes as usize])?;
            Ok(key.len() as u64 + bytes)
        }
        What::Delete => db.delete(key).map(|()| key.len() as u64),
        What::DeleteTo(end) => db.delete_range(key, end).map(|()| (key.len() + end.len()) as u64),
        What::Get => db.get(key).map(|_| 0),
        What::Scan => db.scan(evenkeel::ScanRange::new(Some(key), None))?.next().transpose().map(|_| 0),
        What::Measure => Ok(0),
    }
}

fn counted(metrics: &Metrics) -> Counted {
    Counted {
        user_bytes: metrics.user_bytes,
        written_bytes: metrics.compaction_bytes_written,
        read_bytes: metrics.compaction_bytes_read,
        jobs: metrics.compactions,
        flushes: metrics.flushes,
        moves: metrics.moves,
        ..Counted::default()
    }
}

impl Counted {
    fn since(self, before: &Counted) -> Counted {
        Counted {
            user_bytes: self.user_bytes - before.user_bytes,
            written_bytes: self.written_bytes - before.written_bytes,
            read_bytes: self.read_bytes - before.read_bytes,
            jobs: self.jobs - before.jobs,
            flushes: self.flushes - before.flushes,
            moves: self.moves - before.moves,
            ..self
        }
    }
}
