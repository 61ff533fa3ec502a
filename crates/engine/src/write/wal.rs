//! The write-ahead log: a chain of log files, shared by all keyspaces.
//!
//! ```text
//! 7.log sealed ◄─ 9.log retiring (synced and sealed by the lane) ◄─ 12.log current      15.log prepared
//! ```
//! The commit leader appends; it never makes, syncs or unlinks a file in `os` mode: the next file is made ahead, and a
//! full one is retired to it. Each file names its predecessor, whose number is lower. A file whose every write is in tables is
//! recycled. The first log of an opening is small and each next one twice as long, up to the capacity: a small store takes
//! little disk, and opening it little time.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use crate::base::error::{Error, Result};
use crate::base::locks::{Mutex, MutexGuard};
use crate::base::units::{MIB, SeqNo};
use crate::storage::file_name::FileName;
use crate::storage::file_system::{FileSystem, LogFile};
use crate::storage::record::{FRAME_LEN, LogHeader, LogKind, Predecessor};
use crate::storage::record_writer::{LogSync, RecordWriter};

/// Logs kept for reuse.
const RECYCLED_MAX: usize = 8;
/// Logs made ahead of a busy writer: who makes them may be held up for longer than one of them lasts.
const PREPARED_MAX: usize = 3;
/// Spare logs go when the current one has lasted so many times as long as the one before, and this long at least.
const IDLE_FACTOR: u32 = 4;
const IDLE_LEAST: Duration = Duration::from_secs(1);
/// Logs of an earlier process kept for reuse.
const ADOPTED_MAX: usize = 1;
/// The first log of an opening has this capacity, if that is below the chain's.
const FIRST_LOG_BYTES: u64 = 4 * MIB;

/// What the leader and the lane share.
#[derive(Debug)]
pub struct WalFiles {
    fs: Arc<dyn FileSystem>,
    dir: PathBuf,
    capacity: u64,
    next_number: Box<dyn NextNumber>,
    state: Mutex<Files>,
    /// Held during `maintain` and `close`: logs are sealed, and so durable, in the order of the chain, whoever does it.
    maintaining: Mutex<()>,
    /// Logs made, and for how many of them the name is on the disk. Who makes a log does not wait for that, who promises its
    /// contents does.
    made: AtomicU64,
    named: Mutex<u64>,
}

/// Gives out file numbers, each once.
pub trait NextNumber: Send + Sync + std::fmt::Debug {
    /// The next number.
    fn next_number(&self) -> u64;
}

#[derive(Debug, Default)]
struct Files {
    /// The capacity of the log made next.
    next_capacity: u64,
    /// Logs made ahead, oldest first.
    prepared: VecDeque<(u64, Box<dyn LogFile>)>,
    /// Full logs on their way to be sealed, oldest first.
    retiring: VecDeque<RecordWriter>,
    /// The one of them that the lane has in hands.
    sealing: Option<u64>,
    /// Every log that holds writes, oldest first, the current one last: number, last sequence (known once full), bytes.
    live: VecDeque<LiveLog>,
    recyclable: Vec<PathBuf>,
    removable: Vec<PathBuf>,
    /// Logs are removed when they are not needed, instead of being used again.
    never_recycles: bool,
    pace: Pace,
    /// Writers seem to have gone.
    idle: bool,
    /// A log has been filled since this store was opened.
    has_filled: bool,
}

/// How fast logs are filled, as the lane sees it.
#[derive(Debug, Default)]
struct Pace {
    current: u64,
    /// When the current log was first seen.
    since: Duration,
    /// How long the one before was.
    before: Duration,
}

impl Pace {
    /// True if writers seem to have gone.
    fn is_idle(&mut self, current: u64, now: Duration) -> bool {
        let lasts = now.saturating_sub(self.since);
        if current != self.current {
            *self = Pace { current, since: now, before: lasts };
            return false;
        }
        lasts >= (self.before * IDLE_FACTOR).max(IDLE_LEAST)
    }
}

#[derive(Debug)]
struct LiveLog {
    number: u64,
    last_seq: Option<SeqNo>,
    bytes: u64,
    sync: Arc<LogSync>,
    /// Its length once it was ended.
    sealed_len: Option<u64>,
}

/// Why something is not in the log.
#[derive(Debug)]
pub enum LogError {
    /// Nothing was written, and the log is as it was: it may be tried again.
    Refused(Error),
    /// Nobody knows what the disk holds; the store must not go on writing.
    Failed(Error),
}

impl Files {
    /// Whether a log is to be made ahead: one for a store that has filled none yet or does nothing, more for a busy one.
    fn lacks_prepared(&self) -> bool {
        self.prepared.len() < if self.idle || !self.has_filled { 1 } else { PREPARED_MAX }
    }

    /// If writers seem to have gone, what is spare is let go.
    fn rest(&mut self, dir: &Path, now: Duration) {
        let current = self.live.back().map_or(0, |log| log.number);
        self.idle = self.pace.is_idle(current, now);
        if self.idle {
            self.removable.append(&mut self.recyclable);
            let beyond_one = self.prepared.drain(self.prepared.len().min(1)..);
            self.removable.extend(beyond_one.map(|(number, _)| FileName::Wal(number).path(dir)));
        }
    }

    fn next_to_seal(&mut self) -> Option<RecordWriter> {
        let full = self.retiring.pop_front()?;
        self.sealing = Some(full.id());
        Some(full)
    }

    fn sealed(&mut self, number: u64, len: u64) {
        if let Some(log) = self.live.iter_mut().find(|log| log.number == number) {
            log.sealed_len = Some(len);
        }
    }

    /// A log that holds nothing any more.
    fn let_go(&mut self, path: PathBuf, recycled_max: usize) {
        if self.recyclable.len() < recycled_max && !self.never_recycles {
            self.recyclable.push(path);
        } else {
            self.removable.push(path);
        }
    }
}

impl WalFiles {
    /// For logs of at most `capacity` bytes in `dir`, but for a batch that needs more.
    pub fn new(
        fs: Arc<dyn FileSystem>,
        dir: PathBuf,
        capacity: u64,
        next_number: Box<dyn NextNumber>,
    ) -> Arc<WalFiles> {
        let files = Files { next_capacity: capacity.min(FIRST_LOG_BYTES), ..Files::default() };
        Arc::new(WalFiles {
            fs,
            dir,
            capacity,
            next_number,
            state: Mutex::new(files),
            maintaining: Mutex::new(()),
            made: AtomicU64::new(0),
            named: Mutex::new(0),
        })
    }

    /// Makes logs ahead of the writers, and gives back the memory of full ones. Not quick, but it does not wait for the device.
    ///
    /// # Errors
    /// If the next log cannot be made now. Nothing has changed then.
    pub fn prepare(&self) -> Result<()> {
        drop(self.memory_of_full());
        while self.lock().lacks_prepared() {
            let made = self.make(0)?;
            self.lock().prepared.push_back(made);
        }
        Ok(())
    }

    /// What made appends to the full logs fast, to be dropped, which takes a while, before they are sealed: a sync takes write access to
    /// each page that is mapped from all cores, one by one. Not dropped here, as a leader who has filled another log wants the lock.
    pub fn memory_of_full(&self) -> Vec<Box<dyn Send>> {
        self.lock().retiring.iter_mut().filter_map(RecordWriter::take_memory).collect()
    }

    /// The lane's part: unlinks logs no longer needed, and seals one full log. True if more are to be sealed: the lane has others to
    /// sync as well, and where writers fill logs faster than the device syncs them there is always one more. `now` is the clock's.
    ///
    /// # Errors
    /// The sync of a log has failed; that is final.
    pub fn maintain(&self, now: Duration) -> Result<bool> {
        let _maintaining = self.maintaining.lock().unwrap_or_else(PoisonError::into_inner);
        self.lock().rest(&self.dir, now);
        // A guard in the loop's head would be held until the loop's end, and writers wait for the lock.
        let removable = std::mem::take(&mut self.lock().removable);
        for path in removable {
            // What cannot be removed is below the manifest's `wal_from`: the next open takes it for reuse.
            let _ = self.fs.remove(&path);
        }
        // Outside the lock: the leader takes it at each rotation.
        let Some(mut full) = self.lock().next_to_seal() else { return Ok(false) };
        let sealed = self.sync_names().and_then(|()| full.seal());
        let mut state = self.lock();
        state.sealing = None;
        state.sealed(full.id(), sealed.map_err(in_doubt)?);
        Ok(!state.retiring.is_empty())
    }

    /// Bytes appended that no sync has covered yet.
    pub fn unsynced_bytes(&self) -> u64 {
        self.lock().live.iter().map(|log| log.sync.unsynced_bytes()).sum()
    }

    /// Makes durable every write at or before the call.
    ///
    /// # Errors
    /// Any is final, a full disk too: nobody knows what the disk holds. It is never `NoSpace`, which refuses and changes nothing.
    pub fn sync(&self) -> Result<()> {
        let logs: Vec<_> = self.lock().live.iter().map(|log| Arc::clone(&log.sync)).collect();
        self.sync_names().map_err(in_doubt)?;
        logs.iter().try_for_each(|log| log.sync().map(drop)).map_err(in_doubt)
    }

    /// The number of the oldest log that holds a write at or above `oldest_unflushed`; `None` there means that none does.
    pub fn oldest_needed(&self, oldest_unflushed: Option<SeqNo>) -> u64 {
        let state = self.lock();
        let needed = |log: &&LiveLog| match (log.last_seq, oldest_unflushed) {
            (None, _) => true,
            (Some(last), Some(oldest)) => last >= oldest,
            (Some(_), None) => false,
        };
        state.live.iter().find(needed).map_or(0, |log| log.number)
    }

    /// The number of the log that holds the write with this sequence; for one that is to come, the log in use.
    pub fn log_of(&self, seq: SeqNo) -> u64 {
        let state = self.lock();
        let holds = |log: &&LiveLog| log.last_seq.is_none_or(|last| last >= seq);
        state.live.iter().find(holds).or(state.live.back()).map_or(0, |log| log.number)
    }

    /// The number of the oldest log that holds writes.
    pub fn oldest_live(&self) -> u64 {
        self.lock().live.front().map_or(0, |log| log.number)
    }

    /// Whether logs that are not needed are used again; where what was in them has to go, they are removed, those that wait to be
    /// used included. True if that is a change.
    pub fn set_recycling(&self, recycles: bool) -> bool {
        let mut state = self.lock();
        let changed = std::mem::replace(&mut state.never_recycles, !recycles) == recycles;
        if changed && !recycles {
            let mut spare = std::mem::take(&mut state.recyclable);
            spare.extend(state.prepared.drain(..).map(|(number, _)| FileName::Wal(number).path(&self.dir)));
            state.removable.append(&mut spare);
        }
        changed
    }

    /// Lets go of the logs before `number`, which the manifest no longer asks for.
    pub fn release_before(&self, number: u64) {
        let mut unsealed = Vec::new();
        let mut state = self.lock();
        while state.live.front().is_some_and(|log| log.number < number && log.last_seq.is_some()) {
            let Some(number) = state.live.front().map(|log| log.number) else { break };
            if state.sealing == Some(number) {
                break;
            }
            // What nobody needs is not sealed first: under load that spares the device much.
            let full = state.retiring.iter().position(|full| full.id() == number);
            unsealed.extend(full.and_then(|at| state.retiring.remove(at)));
            let path = FileName::Wal(number).path(&self.dir);
            state.let_go(path, RECYCLED_MAX);
            state.live.pop_front();
        }
    }

    /// A log that an earlier process left and recovery has emptied: to be recycled or removed.
    pub fn adopt(&self, number: u64) {
        self.lock().let_go(FileName::Wal(number).path(&self.dir), ADOPTED_MAX);
    }

    /// Removes the logs that hold nothing, when the store closes. One that cannot be removed is left to the next opening.
    pub fn remove_spare(&self) {
        let mut state = self.lock();
        let mut spare = std::mem::take(&mut state.recyclable);
        spare.append(&mut state.removable);
        spare.extend(state.prepared.drain(..).map(|(number, _)| FileName::Wal(number).path(&self.dir)));
        for path in spare {
            let _ = self.fs.remove(&path);
        }
    }

    /// Bytes in logs that hold writes.
    pub fn live_bytes(&self) -> u64 {
        self.lock().live.iter().map(|log| log.bytes).sum()
    }

    /// Makes the next log, of at least this capacity.
    fn make(&self, at_least: u64) -> Result<(u64, Box<dyn LogFile>)> {
        let number = self.next_number.next_number();
        let (capacity, recycle) = {
            let mut state = self.lock();
            (state.next_capacity.max(at_least), state.recyclable.pop())
        };
        let path = FileName::Wal(number).path(&self.dir);
        let made = self.fs.create_log(&path, capacity, recycle.as_deref());
        let mut state = self.lock();
        let file = match made {
            Ok(file) => file,
            Err(error) => {
                // In no list any more, and space may be what is missing.
                state.removable.extend(recycle);
                return Err(error);
            }
        };
        state.next_capacity = capacity.saturating_mul(2).min(self.capacity);
        drop(state);
        // Before anybody can write to it.
        self.made.fetch_add(1, Ordering::Release);
        Ok((number, file))
    }

    /// Puts the names of all logs on the disk.
    fn sync_names(&self) -> Result<()> {
        // Held meanwhile: whoever comes second may promise only when the first is done.
        let mut named = self.named.lock().unwrap_or_else(PoisonError::into_inner);
        let made = self.made.load(Ordering::Acquire);
        if *named < made {
            self.fs.sync_dir(&self.dir)?;
            *named = made;
        }
        Ok(())
    }

    /// A log that was made ahead, if one may follow log `after` and has this room. The others are recycled: numbers
    /// rise along the chain, and the leader may have made a log itself since this one was given its number.
    fn take_prepared(&self, after: u64, room: u64) -> Option<(u64, Box<dyn LogFile>)> {
        let mut state = self.lock();
        while let Some((number, file)) = state.prepared.pop_front() {
            if number > after && file.remaining() >= room {
                return Some((number, file));
            }
            state.let_go(FileName::Wal(number).path(&self.dir), RECYCLED_MAX);
        }
        None
    }

    fn lock(&self) -> MutexGuard<'_, Files> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What an append had to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Appended {
    /// A copy into the current log.
    Here,
    /// A log made ahead was begun.
    Rotated,
    /// So was one that the writer had to make itself, because none was there, or none so large.
    RotatedLate,
}

/// The commit leader's side of the log.
#[derive(Debug)]
pub struct Wal {
    files: Arc<WalFiles>,
    /// `None` until the chain has begun.
    writer: Option<RecordWriter>,
    last_seq: SeqNo,
}

impl Wal {
    /// The chain before its first log; it takes no write before `begin`.
    pub fn new(files: Arc<WalFiles>) -> Wal {
        Wal { files, writer: None, last_seq: SeqNo(0) }
    }

    /// Begins the chain with a new log, if that has not been done, and answers its number; `first_seq` is the sequence that
    /// the next write will have.
    pub fn begin(&mut self, first_seq: SeqNo) -> Result<u64, LogError> {
        if let Some(writer) = &self.writer {
            return Ok(writer.id());
        }
        let (number, file) = self.files.make(0).map_err(LogError::Refused)?;
        let (writer, live) = start(&self.files, number, file, None, first_seq)?;
        self.files.lock().live.push_back(live);
        self.writer = Some(writer);
        self.last_seq = SeqNo(first_seq.0.saturating_sub(1));
        Ok(number)
    }

    /// Appends a batch whose last entry has sequence `last`. Sequences may be left out: those of writes that are not logged.
    #[inline]
    pub fn append(&mut self, encoded: &[u8], last: SeqNo) -> Result<Appended, LogError> {
        let full = self.writer.as_ref().is_none_or(|writer| writer.remaining() < encoded.len() as u64);
        let appended = if full { self.rotate(encoded.len() as u64)? } else { Appended::Here };
        let Some(writer) = &mut self.writer else { return Err(LogError::Refused(not_begun())) };
        if let Err(error) = writer.append(&[encoded]) {
            // What was refused before a byte was written has left the log as it was.
            let whole = writer.syncer().check().is_ok();
            return Err(if whole { LogError::Refused(error) } else { LogError::Failed(in_doubt(error)) });
        }
        self.last_seq = last;
        Ok(appended)
    }

    /// Ends the log in use and begins the next.
    ///
    /// # Errors
    /// As of an append.
    pub fn begin_next(&mut self) -> Result<(), LogError> {
        self.rotate(0).map(drop)
    }

    /// Makes everything appended durable.
    pub fn sync(&self) -> Result<()> {
        self.files.sync()
    }

    /// Ends all logs cleanly: recovery then knows that nothing is missing. Answers each one's number and length.
    pub fn close(&mut self) -> Result<Vec<(u64, u64)>> {
        // Who is sealing a full log comes first: were a later one sealed before it, a power cut could tear the middle of the chain.
        let _maintaining = self.files.maintaining.lock().unwrap_or_else(PoisonError::into_inner);
        self.files.sync_names()?;
        loop {
            let Some(mut full) = self.files.lock().retiring.pop_front() else { break };
            let len = full.seal()?;
            self.files.lock().sealed(full.id(), len);
        }
        if let Some(writer) = &mut self.writer {
            let len = writer.seal()?;
            self.files.lock().sealed(writer.id(), len);
        }
        let files = self.files.lock();
        Ok(files.live.iter().filter_map(|log| Some((log.number, log.sealed_len?))).collect())
    }

    #[cold]
    fn rotate(&mut self, needed: u64) -> Result<Appended, LogError> {
        let Some(current) = &self.writer else { return Err(LogError::Refused(not_begun())) };
        // Room for the log's header record and the batch's frame beside the batch.
        let room = needed.saturating_add(16 * FRAME_LEN as u64);
        let (appended, (number, file)) = match self.files.take_prepared(current.id(), room) {
            Some(prepared) => (Appended::Rotated, prepared),
            None => (Appended::RotatedLate, self.files.make(room).map_err(LogError::Refused)?),
        };
        // Full, and perhaps not synced: said so, and sealed by the lane.
        let predecessor = Predecessor { id: current.id(), sealed_len: None };
        let bytes = current.len();
        let (next, live) = start(&self.files, number, file, Some(predecessor), self.last_seq.next())?;
        // At once: a full log that is not on its way to be sealed yet would look like one that may be recycled.
        let mut files = self.files.lock();
        if let Some(log) = files.live.back_mut() {
            (log.last_seq, log.bytes) = (Some(self.last_seq), bytes);
        }
        files.retiring.extend(self.writer.replace(next));
        files.has_filled = true;
        files.live.push_back(live);
        Ok(appended)
    }
}

fn not_begun() -> Error {
    Error::NoSpace { context: "begin the log of a store that was opened on a full disk".to_owned() }
}

/// A full disk that a sync finds has lost what an append had taken: it must not look like the refusal of an append.
fn in_doubt(error: Error) -> Error {
    match error {
        Error::NoSpace { .. } => Error::Poisoned { cause: error.to_string() },
        other => other,
    }
}

/// Writes a log's first record; the log is not part of the chain yet.
fn start(
    files: &Arc<WalFiles>,
    number: u64,
    file: Box<dyn LogFile>,
    predecessor: Option<Predecessor>,
    first_seq: SeqNo,
) -> Result<(RecordWriter, LiveLog), LogError> {
    let header =
        LogHeader { kind: LogKind::Wal, id: number, predecessor, first_seq: first_seq.0, allocated: 0 };
    let path = FileName::Wal(number).path(&files.dir);
    let bytes = file.remaining();
    let writer = RecordWriter::on_log(file, &path, &header).map_err(LogError::Failed)?;
    let live = LiveLog { number, last_seq: None, bytes, sync: writer.syncer(), sealed_len: None };
    Ok((writer, live))
}

#[cfg(test)]
#[path = "wal_tests.rs"]
mod tests;
