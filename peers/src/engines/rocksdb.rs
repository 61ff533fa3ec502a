//! RocksDB, as it is, with recycled log files, or with one of its ways to keep compactions from being felt.
//!
//! `recommended` follows its tuning guide ("Setup Options and Basic Tuning" in its wiki); `equal` sets the common options
//! and leaves all else at RocksDB's defaults.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use evenkeel_lab::run::engine::{Change, Engine, EngineError, Figures, Scanned};
use rocksdb::{
    BlockBasedOptions, Cache, DB, DBCompressionType, Env, Options, ReadOptions, WaitForCompactOptions,
    WriteBatch, WriteOptions,
};
use serde_json::Value;

use crate::account::{Account, crate_version, disk_bytes};
use crate::asked::{Asked, Durability};

/// Log files that are kept to be written over.
const RECYCLED_LOGS: usize = 4;

/// What flushes and compactions may write in a second: three quarters of SILK's device.
const RATE_LIMIT: i64 = 150_000_000;
/// The most that a limit that is tuned may come to: that device.
const RATE_LIMIT_MAX: i64 = 200_000_000;
/// RocksDB's defaults for both.
const REFILL_US: i64 = 100_000;
const FAIRNESS: i32 = 10;

/// Which RocksDB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// As it is.
    Plain,
    /// Old log files are written over, not made anew, and are synced steadily.
    Recycle,
    /// The threads of flushes and compactions have low priority for CPU and I/O.
    LowPriority,
    /// Flushes and compactions write no more than so much.
    RateLimited,
    /// The same, the limit following what there is to do.
    AutoTuned,
}

/// An open database.
pub struct RocksDb {
    db: DB,
    variant: Variant,
    write: WriteOptions,
    read: ReadOptions,
    dir: PathBuf,
    account: Account,
}

/// Opens one in an empty directory.
pub fn open(asked: &Asked, variant: Variant) -> Result<(RocksDb, BTreeMap<String, Value>), EngineError> {
    let mut told: Vec<(&str, Value)> = Vec::new();
    let mut options = options(asked, &mut told);
    match variant {
        Variant::Plain => {}
        Variant::Recycle => {
            options.set_recycle_log_file_num(RECYCLED_LOGS);
            options.set_wal_bytes_per_sync(512 << 10);
            told.push(("recycle_log_file_num", RECYCLED_LOGS.into()));
            told.push(("wal_bytes_per_sync", (512 << 10).into()));
        }
        Variant::LowPriority => {
            let mut env = Env::new()?;
            env.lower_thread_pool_cpu_priority();
            env.lower_thread_pool_io_priority();
            env.lower_high_priority_thread_pool_cpu_priority();
            env.lower_high_priority_thread_pool_io_priority();
            options.set_env(&env);
            told.push(("background_threads_cpu_and_io_priority", "low".into()));
        }
        Variant::RateLimited => {
            options.set_ratelimiter(RATE_LIMIT, REFILL_US, FAIRNESS);
            told.push(("rate_limiter_bytes_per_sec", RATE_LIMIT.into()));
        }
        Variant::AutoTuned => {
            options.set_auto_tuned_ratelimiter(RATE_LIMIT_MAX, REFILL_US, FAIRNESS);
            told.push(("rate_limiter_bytes_per_sec", RATE_LIMIT_MAX.into()));
            told.push(("rate_limiter_auto_tuned", true.into()));
        }
    }
    let account = Account::new();
    let db = DB::open(&options, &asked.dir)?;
    if variant == Variant::Recycle {
        // It switches off what does not go together without an error.
        let kept = effective(&asked.dir, "recycle_log_file_num")?;
        if kept.as_deref() != Some(&RECYCLED_LOGS.to_string()) {
            return Err(format!("RocksDB made recycle_log_file_num={RECYCLED_LOGS} {kept:?}").into());
        }
    }
    let mut write = WriteOptions::default();
    write.set_sync(asked.durability == Durability::Sync);
    write.disable_wal(asked.durability == Durability::NoWal);
    let engine =
        RocksDb { db, variant, write, read: ReadOptions::default(), dir: asked.dir.clone(), account };
    Ok((engine, asked.config(&told)))
}

fn options(asked: &Asked, told: &mut Vec<(&str, Value)>) -> Options {
    let common = &asked.common;
    let mut options = Options::default();
    let mut table = BlockBasedOptions::default();
    options.create_if_missing(true);
    options.set_write_buffer_size(common.memtable_bytes as usize);
    options.set_max_write_buffer_number(common.memtables as i32);
    table.set_block_cache(&Cache::new_lru_cache(common.cache_bytes as usize));
    told.extend([
        ("write_buffer_size", common.memtable_bytes.into()),
        ("max_write_buffer_number", common.memtables.into()),
        ("block_cache", common.cache_bytes.into()),
    ]);
    let (block_bytes, bits, jobs, compression) = if asked.equal() {
        (common.block_bytes, common.filter_bits, common.background_threads, DBCompressionType::None)
    } else {
        let cores = std::thread::available_parallelism().map_or(2, usize::from) as u64;
        table.set_cache_index_and_filter_blocks(true);
        table.set_pin_l0_filter_and_index_blocks_in_cache(true);
        options.set_level_compaction_dynamic_level_bytes(true);
        options.set_bytes_per_sync(1 << 20);
        told.extend([
            ("cache_index_and_filter_blocks", true.into()),
            ("pin_l0_filter_and_index_blocks_in_cache", true.into()),
            ("level_compaction_dynamic_level_bytes", true.into()),
            ("bytes_per_sync", (1 << 20).into()),
        ]);
        (16 << 10, 10, cores.max(2), DBCompressionType::Lz4)
    };
    table.set_block_size(block_bytes as usize);
    table.set_bloom_filter(bits as f64, false);
    options.set_max_background_jobs(jobs as i32);
    options.set_compression_type(compression);
    options.set_block_based_table_factory(&table);
    told.extend([
        ("block_size", block_bytes.into()),
        ("bloom_bits_per_key", bits.into()),
        ("max_background_jobs", jobs.into()),
        ("compression", format!("{compression:?}").to_lowercase().into()),
    ]);
    options
}

/// An option as RocksDB wrote it down after it had its say.
fn effective(dir: &Path, name: &str) -> Result<Option<String>, EngineError> {
    let mut newest: Option<PathBuf> = None;
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        let is_options = path.file_name().is_some_and(|file| file.to_string_lossy().starts_with("OPTIONS-"));
        if is_options && newest.as_ref().is_none_or(|known| *known < path) {
            newest = Some(path);
        }
    }
    let Some(path) = newest else { return Ok(None) };
    let text = std::fs::read_to_string(path)?;
    let value = text.lines().find_map(|line| line.trim().strip_prefix(name)?.strip_prefix('='));
    Ok(value.map(str::to_owned))
}

type Cursor<'db> = rocksdb::DBRawIterator<'db>;

/// What a scan comes to from where its cursor stands.
fn walk<'db>(
    mut cursor: Cursor<'db>,
    limit: usize,
    step: impl Fn(&mut Cursor<'db>),
) -> Result<Scanned, EngineError> {
    let mut scanned = Scanned::default();
    while let Some((key, value)) = cursor.item() {
        scanned.entries += 1;
        scanned.bytes += (key.len() + value.len()) as u64;
        if scanned.entries >= limit as u64 {
            break;
        }
        step(&mut cursor);
    }
    cursor.status()?;
    Ok(scanned)
}

impl Engine for RocksDb {
    fn name(&self) -> &'static str {
        match self.variant {
            Variant::Plain => "rocksdb",
            Variant::Recycle => "rocksdb-recycle",
            Variant::LowPriority => "rocksdb-low-priority",
            Variant::RateLimited => "rocksdb-rate-limited",
            Variant::AutoTuned => "rocksdb-auto-tuned",
        }
    }

    fn version(&self) -> String {
        // The crate's version names RocksDB's own behind the plus.
        let version = crate_version("librocksdb-sys");
        version.split_once('+').map_or(version.clone(), |(_, own)| own.to_owned())
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), EngineError> {
        self.account.wrote(key.len() + value.len());
        Ok(self.db.put_opt(key, value, &self.write)?)
    }

    fn get(&self, key: &[u8]) -> Result<Option<usize>, EngineError> {
        Ok(self.db.get_pinned_opt(key, &self.read)?.map(|value| value.len()))
    }

    fn scan(&self, from: &[u8], limit: usize) -> Result<Scanned, EngineError> {
        let mut cursor = self.db.raw_iterator();
        cursor.seek(from);
        walk(cursor, limit, Cursor::next)
    }

    fn scan_down(&self, from: &[u8], limit: usize) -> Result<Scanned, EngineError> {
        let mut cursor = self.db.raw_iterator();
        cursor.seek_for_prev(from);
        walk(cursor, limit, Cursor::prev)
    }

    fn scan_between(&self, from: &[u8], to: &[u8]) -> Result<Scanned, EngineError> {
        let mut read = ReadOptions::default();
        read.set_iterate_upper_bound(to);
        let mut cursor = self.db.raw_iterator_opt(read);
        cursor.seek(from);
        walk(cursor, usize::MAX, Cursor::next)
    }

    fn delete(&self, key: &[u8]) -> Result<(), EngineError> {
        self.account.wrote(key.len());
        Ok(self.db.delete_opt(key, &self.write)?)
    }

    fn delete_range(&self, from: &[u8], to: &[u8]) -> Result<(), EngineError> {
        self.account.wrote(from.len() + to.len());
        let mut batch = WriteBatch::default();
        batch.delete_range(from, to);
        Ok(self.db.write_opt(batch, &self.write)?)
    }

    fn write(&self, changes: &[Change<'_>]) -> Result<(), EngineError> {
        let mut batch = WriteBatch::default();
        for change in changes {
            match change {
                Change::Put(key, value) => {
                    self.account.wrote(key.len() + value.len());
                    batch.put(key, value);
                }
                Change::Delete(key) => {
                    self.account.wrote(key.len());
                    batch.delete(key);
                }
            }
        }
        Ok(self.db.write_opt(batch, &self.write)?)
    }

    fn wait_idle(&self) -> Result<(), EngineError> {
        Ok(self.db.wait_for_compact(&WaitForCompactOptions::default())?)
    }

    fn figures(&self) -> Figures {
        let files = self.db.property_int_value("rocksdb.num-files-at-level0");
        Figures {
            write_amplification: self.account.write_amplification(),
            l0_runs: files.ok().flatten(),
            ..Figures::default()
        }
    }

    fn disk_bytes(&self) -> u64 {
        disk_bytes(&self.dir)
    }
}
