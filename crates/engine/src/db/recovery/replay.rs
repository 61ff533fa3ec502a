//! Opening: what the manifest and the log say, made into a store again.
//!
//! ```text
//! lock ─► manifest ─► replay logs above each keyspace's `flushed_through` into tables ─► settle (`db/recovery/settling.rs`):
//!                                                       new log ─► new manifest, CURRENT ─► remove what nothing refers to
//! ```
//! Nothing old is appended to, and no number is used twice. CURRENT is the one step that counts: a crash before it leaves the old
//! state, whole; recovery then sees the same files and does the same again. Where there is no space for tables, what was replayed
//! stays in memory until there is.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use super::inline_flush::flush_inline;
use crate::base::class::{Class, IoClass};
use crate::base::error::{Error, Result};
use crate::base::units::{COUNT_MAX, KeyspaceId, SeqNo, TableId};
use crate::compaction::commit::recover;
use crate::db::store::logged_deletes::recovered_since_ms;
use crate::execution::output::{JobContext, OutputShape};
use crate::observe::event::Event;
use crate::options::{Options, TableStyle};
use crate::storage::file_name::FileName;
use crate::storage::file_system::FileSystem;
use crate::storage::record::LogKind;
use crate::storage::record_reader::{LogToRead, RecordReader, Tail};
use crate::table::meta::Born;
use crate::version::manifest::ManifestRecord;
use crate::version::version_set::VersionSet;
use crate::write::batch::{BATCH_BYTES_MAX, NO_KEYSPACE, decode_batch};
use crate::write::memtable::{Memtable, MemtableWriter};

/// Of a sequence that no store gets to.
const TOO_HIGH: &str = "a sequence is out of range";

/// What replaying needs to know of the settings.
#[derive(Debug)]
pub struct ReplaySettings {
    /// Of the store.
    pub options: Options,
    /// How keyspaces' tables are written where it differs.
    pub styles: BTreeMap<KeyspaceId, TableStyle>,
    /// Of a look beside a writer: the last sequence of the manifest that was read, and that of the manifest after the logs were.
    /// A bulk load in between is in the logs, as a mark, and not in the trees.
    pub looks: Option<(SeqNo, SeqNo)>,
    /// In what time deletes are to be gone, where they are.
    pub ttl_ms: BTreeMap<KeyspaceId, u64>,
}

/// What came of a replay.
#[derive(Debug)]
pub struct Replayed {
    /// The last sequence recovered.
    pub last_seq: SeqNo,
    /// The logs that are no longer needed once everything replayed is in tables that a manifest knows.
    pub logs: Vec<u64>,
    /// What there was no space for as tables, by keyspace, oldest first.
    pub unflushed: BTreeMap<KeyspaceId, Vec<Arc<Memtable>>>,
}

/// Replays the logs into `versions`, in memory and in new table files.
pub fn replay_logs(
    context: &Arc<JobContext>,
    versions: &mut VersionSet,
    settings: &ReplaySettings,
    event: &dyn Fn(&Event),
) -> Result<Replayed> {
    let numbers = log_numbers(&*context.fs, &context.dir)?;
    check_all_there(context, versions, &numbers)?;
    let flushed = versions.trees().iter().map(|(id, tree)| (*id, tree.flushed_through)).collect();
    let mut replay = Replay::new(context, settings, versions, flushed);
    replay.chain(&numbers, event)?;
    replay.flush_all()?;
    let last = replay.last_seq.unwrap_or_default();
    let unflushed = replay.unflushed;
    Ok(Replayed { last_seq: last.max(versions.last_seq()), logs: numbers, unflushed })
}

/// Replays as much of the logs as is whole into tables of `versions`; the last sequence of it.
///
/// # Errors
/// `Io`, `NoSpace`; no damage.
pub fn replay_whole(
    context: &Arc<JobContext>,
    versions: &mut VersionSet,
    settings: &ReplaySettings,
) -> Result<SeqNo> {
    let numbers = log_numbers(&*context.fs, &context.dir)?;
    let flushed = versions.trees().iter().map(|(id, tree)| (*id, tree.flushed_through)).collect();
    let mut replay = Replay::new(context, settings, versions, flushed);
    match replay.chain(&numbers, &|_| ()) {
        Err(Error::Corruption { .. }) => {}
        outcome => outcome?,
    }
    replay.flush_all()?;
    if !replay.unflushed.is_empty() {
        return Err(Error::NoSpace { context: "write what the logs hold to tables".to_owned() });
    }
    Ok(replay.last_seq.unwrap_or_default())
}

/// Where the logs of a store are not what they should be.
#[derive(Clone, Debug)]
pub struct BrokenLog {
    /// The first log of which not all can be taken; perhaps it is missing.
    pub number: u64,
    /// Up to here it can.
    pub end: u64,
    /// What is wrong.
    pub error: Error,
}

/// Goes through the logs as [`replay_logs`] does, and writes nothing.
///
/// # Errors
/// None of damage, which is the answer.
pub fn check_logs(
    context: &Arc<JobContext>,
    versions: &mut VersionSet,
    settings: &ReplaySettings,
) -> Result<Option<BrokenLog>> {
    let numbers = log_numbers(&*context.fs, &context.dir)?;
    let missing = check_all_there(context, versions, &numbers);
    // What is of no keyspace goes nowhere.
    let mut replay = Replay::new(context, settings, versions, BTreeMap::new());
    match missing.and_then(|()| replay.chain(&numbers, &|_| ())) {
        Ok(()) => Ok(None),
        Err(error) => {
            let Error::Corruption { file, offset, .. } = &error else { return Err(error) };
            let name = file.file_name().and_then(|name| FileName::parse(name.to_str()?));
            let Some(FileName::Wal(number)) = name else { return Err(error) };
            // Damage at the beginning is of the log as a whole: how far it can be read, it is.
            let end = if *offset == 0 { u64::MAX } else { *offset };
            Ok(Some(BrokenLog { number, end, error }))
        }
    }
}

/// Every log that holds a write is there.
fn check_all_there(context: &JobContext, versions: &VersionSet, numbers: &[u64]) -> Result<()> {
    let wal_from = versions.wal_from();
    let begun = Some(wal_from).filter(|number| *number > 0);
    let mut needed = begun.into_iter().chain(versions.sealed_logs().filter(|number| *number >= wal_from));
    match needed.find(|number| !numbers.contains(number)) {
        None => Ok(()),
        Some(missing) => {
            let path = FileName::Wal(missing).path(&context.dir);
            Err(Error::corruption(path, 0, "this log file is missing"))
        }
    }
}

/// Writes a memtable to tables, and the tables to its tree in memory. After an error nothing has changed.
pub fn flush_replayed(
    context: &Arc<JobContext>,
    versions: &mut VersionSet,
    settings: &ReplaySettings,
    id: KeyspaceId,
    memtable: &Arc<Memtable>,
) -> Result<()> {
    let (options, none) = (&settings.options, TableStyle::default());
    let style = settings.styles.get(&id).unwrap_or(&none);
    let shape = OutputShape {
        class: Class::Flush,
        born: Born::Flush,
        table_bytes: options.table_bytes,
        filter_bits: options.filter_bits,
        filter_bits_above: options.filter_bits,
        reads: None,
        // An open waits for it.
        compression: style.compression_at(0, true, options),
        prefix_rule: style.prefix_rule(options),
        direct: options.direct_flush,
        oldest_tombstone_ms: memtable.oldest_tombstone_ms(),
        cache: None,
    };
    flush_inline(context, versions, id, memtable, shape).map(drop)
}

/// Takes out of the trees what only the jobs of the last process kept there: empty runs.
pub fn tidy_trees(versions: &mut VersionSet) -> Result<()> {
    let ids: Vec<KeyspaceId> = versions.trees().keys().copied().collect();
    for id in ids {
        let Some(tree) = versions.trees().get(&id) else { continue };
        let edit = recover(&tree.version)?.edit;
        let record = ManifestRecord { edits: vec![(id, edit)], ..ManifestRecord::default() };
        versions.apply_unrecorded(&record)?;
    }
    Ok(())
}

/// Refuses a directory without CURRENT that was a store: it has a table, or a log that holds a write. What an open that did not
/// finish has left has neither, because CURRENT is durable before the first write is taken.
pub fn check_never_used(fs: &dyn FileSystem, dir: &Path) -> Result<()> {
    for name in fs.list(dir)? {
        let used = match FileName::parse(&name) {
            Some(FileName::Table(_)) => true,
            Some(FileName::Wal(number)) => open_log(fs, dir, number, 0)?.next()?.is_some(),
            _ => false,
        };
        if used {
            let what = format!("it is missing, but {name} is there: this was a store");
            return Err(Error::corruption(FileName::Current.path(dir), 0, what));
        }
    }
    Ok(())
}

/// Makes the directory's own name durable. Where we may not, whoever made it in a place that is not ours has seen to that.
pub fn sync_name(fs: &dyn FileSystem, dir: &Path) -> Result<()> {
    let not_ours = |kind| matches!(kind, ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem);
    match dir.parent().map_or(Ok(()), |parent| fs.sync_dir(parent)) {
        Err(Error::Io { source, .. }) if not_ours(source.kind()) => Ok(()),
        outcome => outcome,
    }
}

/// Every table of the trees is there. Looked at before anything is changed: with a manifest that is not of these files, those
/// that nothing refers to are perhaps what is missing, and must not be removed.
pub fn check_tables(fs: &dyn FileSystem, dir: &Path, versions: &VersionSet) -> Result<()> {
    let names = fs.list(dir)?;
    let there: BTreeSet<FileName> = names.iter().filter_map(|name| FileName::parse(name)).collect();
    let missing = |id: &TableId| !there.contains(&FileName::Table(id.0));
    match live_tables(versions).into_iter().find(missing) {
        None => Ok(()),
        Some(id) => Err(Error::corruption(FileName::Table(id.0).path(dir), 0, "this file is missing")),
    }
}

fn live_tables(versions: &VersionSet) -> BTreeSet<TableId> {
    let tables = versions.trees().values().flat_map(|tree| tree.version.tables());
    tables.map(|(_, table)| table.id()).collect()
}

/// Removes tables, manifests and temporary files that nothing refers to. Names that are not ours are left alone. What cannot be
/// removed is in nobody's way, and tried again by the next open.
///
/// # Errors
/// The first failure, when the others have been removed.
pub fn remove_orphans(
    fs: &dyn FileSystem,
    dir: &Path,
    versions: &VersionSet,
    options: Option<u64>,
) -> Result<()> {
    let live = live_tables(versions);
    let mut outcome = Ok(());
    for name in fs.list(dir)? {
        let orphan = match FileName::parse(&name) {
            Some(FileName::Table(n)) => !live.contains(&TableId(n)),
            Some(FileName::Manifest(n)) => Some(n) != versions.manifest_number(),
            Some(FileName::Options(n)) => Some(n) != options,
            Some(FileName::Temp(_)) => true,
            _ => false,
        };
        if orphan {
            outcome = outcome.and(fs.remove(&dir.join(&name)));
        }
    }
    outcome
}

/// One more than the highest number of any file: none is used twice, not even of a file that never was installed.
pub fn next_file_number(fs: &dyn FileSystem, dir: &Path) -> Result<u64> {
    let names = fs.list(dir)?.into_iter().filter_map(|name| FileName::parse(&name));
    match names.max_by_key(|name| name.number()).and_then(|name| Some((name, name.number()?))) {
        Some((name, number)) if number > COUNT_MAX => {
            let what = "no store gives out so high a number: move this file away";
            Err(Error::corruption(name.path(dir), 0, what))
        }
        Some((_, number)) => Ok(number + 1),
        None => Ok(1),
    }
}

fn log_numbers(fs: &dyn FileSystem, dir: &Path) -> Result<Vec<u64>> {
    let number = |name: String| match FileName::parse(&name)? {
        FileName::Wal(n) => Some(n),
        _ => None,
    };
    let mut numbers: Vec<u64> = fs.list(dir)?.into_iter().filter_map(number).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// Opens a log to read it; it is known to have been durable up to `promised`.
pub fn open_log(fs: &dyn FileSystem, dir: &Path, number: u64, promised: u64) -> Result<RecordReader> {
    let log = LogToRead {
        kind: LogKind::Wal,
        id: number,
        promised,
        payload_max: (BATCH_BYTES_MAX + 1024) as u32,
        class: IoClass::Wal,
    };
    RecordReader::open(fs.open(&FileName::Wal(number).path(dir))?, log)
}

struct Replay<'a> {
    context: &'a Arc<JobContext>,
    settings: &'a ReplaySettings,
    versions: &'a mut VersionSet,
    /// The last write replayed, or skipped because it is in tables.
    last_seq: Option<SeqNo>,
    /// The last log that is a link of the chain.
    previous: Option<u64>,
    /// Logs without a whole header: prepared and not begun, or begun and lost with their first page.
    headless: BTreeSet<u64>,
    memtables: BTreeMap<KeyspaceId, (MemtableWriter, Arc<Memtable>)>,
    /// Once there is no space for tables: full memtables, oldest first.
    unflushed: BTreeMap<KeyspaceId, Vec<Arc<Memtable>>>,
    flushed: BTreeMap<KeyspaceId, SeqNo>,
}

enum LogOutcome {
    /// It holds no write and is no link of the chain: prepared, or begun by an open that did not finish.
    Unused,
    /// Read to its end.
    Whole,
    /// The log `after`, which comes before it, has lost its end or all of itself: recovery ends there.
    Stop { after: u64 },
}

impl<'a> Replay<'a> {
    /// Of the keyspaces in `flushed`, what is above the sequence there.
    fn new(
        context: &'a Arc<JobContext>,
        settings: &'a ReplaySettings,
        versions: &'a mut VersionSet,
        flushed: BTreeMap<KeyspaceId, SeqNo>,
    ) -> Replay<'a> {
        Replay {
            context,
            settings,
            versions,
            last_seq: None,
            previous: None,
            headless: BTreeSet::new(),
            memtables: BTreeMap::new(),
            unflushed: BTreeMap::new(),
            flushed,
        }
    }

    /// One log after the other.
    fn chain(&mut self, numbers: &[u64], event: &dyn Fn(&Event)) -> Result<()> {
        let wal_from = self.versions.wal_from();
        let mut chain = numbers.iter().copied().filter(|n| *n >= wal_from);
        while let Some(number) = chain.next() {
            if let LogOutcome::Stop { after } = self.log(number, event)? {
                event(&Event::TornTail {
                    file: FileName::Wal(after).path(&self.context.dir).display().to_string(),
                    offset: 0,
                });
                return std::iter::once(number)
                    .chain(chain)
                    .try_for_each(|later| self.check_unpromised(after, later));
            }
        }
        Ok(())
    }

    fn open_log(&self, number: u64) -> Result<RecordReader> {
        let promised = self.versions.sealed_len(number).unwrap_or(0);
        open_log(&*self.context.fs, &self.context.dir, number, promised)
    }

    fn log(&mut self, number: u64, event: &dyn Fn(&Event)) -> Result<LogOutcome> {
        let path = FileName::Wal(number).path(&self.context.dir);
        let mut reader = self.open_log(number)?;
        let Some(header) = reader.header().cloned() else {
            self.headless.insert(number);
            return Ok(LogOutcome::Unused);
        };
        let first = SeqNo(header.first_seq);
        if first.0 > COUNT_MAX {
            return Err(Error::corruption(&path, 0, TOO_HIGH));
        }
        match (header.predecessor, self.previous) {
            (Some(before), Some(previous)) if before.id == previous => {}
            // What is before it is in tables.
            (Some(before), None) if before.id < self.versions.wal_from() => {}
            (Some(before), _) if self.headless.contains(&before.id) => {
                return Ok(LogOutcome::Stop { after: before.id });
            }
            (Some(before), _) => {
                let path = FileName::Wal(before.id).path(&self.context.dir);
                let what = format!("this log file, which {number:06}.log follows, is missing");
                return Err(Error::corruption(path, 0, what));
            }
            (None, Some(_)) => {
                // Begun by an open that did not finish; such a log takes no write.
                return match reader.next()? {
                    None => Ok(LogOutcome::Unused),
                    Some(record) => {
                        Err(Error::corruption(&path, record.offset, "this log belongs to another chain"))
                    }
                };
            }
            (None, None) => {}
        }
        if let (Some(last), Some(previous)) = (self.last_seq, self.previous)
            && first != last.next()
        {
            return Ok(LogOutcome::Stop { after: previous });
        }
        self.last_seq.get_or_insert(SeqNo(first.0.saturating_sub(1)));
        while let Some(record) = reader.next()? {
            let offset = record.offset;
            self.batch(record.payload).map_err(|what| match what {
                Malformed::Batch(what) => Error::corruption(&path, offset, what),
                Malformed::Error(error) => error,
            })?;
        }
        if let Some(Tail::Torn { offset }) = reader.tail() {
            event(&Event::TornTail { file: path.display().to_string(), offset });
        }
        self.previous = Some(number);
        Ok(LogOutcome::Whole)
    }

    /// Logs are synced oldest first: if anything of a later one is known to have been durable, all of `torn` was too, and
    /// what it lost it did not lose in a crash.
    fn check_unpromised(&self, torn: u64, later: u64) -> Result<()> {
        let mut reader = self.open_log(later)?;
        while reader.next()?.is_some() {}
        if reader.promised() == 0 {
            return Ok(());
        }
        let what = format!("it has lost its end, though {later:06}.log was durable after it");
        Err(Error::corruption(FileName::Wal(torn).path(&self.context.dir), 0, what))
    }

    fn batch(&mut self, payload: &[u8]) -> Result<(), Malformed> {
        let (mut seq, entries) = decode_batch(payload).ok_or(Malformed::Batch("a batch is cut short"))?;
        if seq.0 > COUNT_MAX {
            return Err(Malformed::Batch(TOO_HIGH));
        }
        // Sequences between two batches belong to keyspaces without a log.
        if self.last_seq.is_some_and(|last| seq <= last) {
            return Err(Malformed::Batch("a batch does not follow the one before"));
        }
        for entry in entries {
            let entry = entry.ok_or(Malformed::Batch("a batch is malformed"))?;
            if entry.keyspace == NO_KEYSPACE {
                self.check_seen(seq)?;
            }
            // A keyspace that is not there was dropped after this write.
            if self.flushed.get(&entry.keyspace).is_some_and(|flushed| seq > *flushed) {
                let memtable_bytes = self.settings.options.memtable_bytes;
                let memtable = self.memtables.entry(entry.keyspace);
                let (writer, table) =
                    memtable.or_insert_with(|| Memtable::new(b"", memtable_bytes, &self.context.memory));
                writer.insert(entry.key, seq, entry.kind, entry.value, || {
                    let ttl_ms = self.settings.ttl_ms.get(&entry.keyspace).copied();
                    recovered_since_ms(self.context.clock.wall_ms(), ttl_ms)
                });
                debug_assert_eq!(table.last_seq(), seq);
            }
            seq = seq.next();
        }
        self.last_seq = Some(SeqNo(seq.0 - 1));
        let full: Vec<KeyspaceId> = self
            .memtables
            .iter()
            .filter(|(_, (_, table))| table.bytes() >= self.settings.options.memtable_bytes)
            .map(|(id, _)| *id)
            .collect();
        full.into_iter().try_for_each(|id| self.flush(id)).map_err(Malformed::Error)
    }

    /// The manifest's last sequence is at least that of a bulk load's mark once the load is recorded, or has failed.
    fn check_seen(&self, mark: SeqNo) -> Result<(), Malformed> {
        match self.settings.looks {
            Some((before, after)) if before < mark && mark <= after => {
                let context = format!("read beside a bulk load that ended meanwhile, at sequence {mark}");
                Err(Malformed::Error(Error::io(context, ErrorKind::ResourceBusy.into())))
            }
            _ => Ok(()),
        }
    }

    fn flush_all(&mut self) -> Result<()> {
        let ids: Vec<KeyspaceId> = self.memtables.keys().copied().collect();
        ids.into_iter().try_for_each(|id| self.flush(id))
    }

    /// Writes a keyspace's memtable to tables, or keeps it: after the first that found no space, all that follow.
    fn flush(&mut self, id: KeyspaceId) -> Result<()> {
        let Some((_, memtable)) = self.memtables.remove(&id) else { return Ok(()) };
        if self.unflushed.is_empty() {
            match flush_replayed(self.context, self.versions, self.settings, id, &memtable) {
                Err(Error::NoSpace { .. }) => {}
                outcome => return outcome,
            }
        }
        self.unflushed.entry(id).or_default().push(memtable);
        Ok(())
    }
}

enum Malformed {
    Batch(&'static str),
    Error(Error),
}
