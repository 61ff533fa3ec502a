//! The write-ahead log: a chain of log files, shared by all keyspaces.
//!
//! ```text
//! 7.log sealed ◄─ 9.log retiring (synced and sealed by the lane) ◄─ 12.log current      15.log prepared
//! ```
//! The commit leader appends; it never makes, syncs or unlinks a file in `os` mode: the next file is prepared by the lane, and a
//! full one is retired to it. Each file names its predecessor, whose number is lower. A file whose every write is in tables is
//! recycled. The first log of an opening is small and each next one twice as long, up to the capacity: a small store takes
//! little disk, and opening it little time.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::base::error::{Error, Result};
use crate::base::units::{MIB, SeqNo};
use crate::storage::file_name::FileName;
use crate::storage::file_system::{FileSystem, LogFile};
use crate::storage::record::{FRAME_LEN, LogHeader, LogKind, Predecessor};
use crate::storage::record_writer::{LogSync, RecordWriter};

/// Logs kept for reuse.
const RECYCLED_MAX: usize = 2;
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
    /// Held during `maintain`: logs are sealed, and so durable, in the order of the chain, whoever does it.
    maintaining: Mutex<()>,
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
    prepared: Option<(u64, Box<dyn LogFile>)>,
    /// Full logs on their way to be sealed, oldest first.
    retiring: VecDeque<RecordWriter>,
    /// The one of them that the lane has in hands.
    sealing: Option<u64>,
    /// Every log that holds writes, oldest first, the current one last: number, last sequence (known once full), bytes.
    live: VecDeque<LiveLog>,
    recyclable: Vec<PathBuf>,
    removable: Vec<PathBuf>,
}

#[derive(Debug)]
struct LiveLog {
    number: u64,
    last_seq: Option<SeqNo>,
    bytes: u64,
    sync: Arc<LogSync>,
}

impl Files {
    fn next_to_seal(&mut self) -> Option<RecordWriter> {
        let full = self.retiring.pop_front()?;
        self.sealing = Some(full.id());
        Some(full)
    }

    /// A log that holds nothing any more.
    fn let_go(&mut self, path: PathBuf, recycled_max: usize) {
        if self.recyclable.len() < recycled_max {
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
        })
    }

    /// The lane's part: prepares the next log, seals full ones, unlinks what is no longer needed.
    ///
    /// # Errors
    /// A failed sync of a log; the store must not go on writing.
    pub fn maintain(&self) -> Result<()> {
        let _maintaining = self.maintaining.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            // One at a time and outside the lock: the leader takes it at each rotation.
            let Some(mut full) = self.lock().next_to_seal() else { break };
            let sealed = full.seal();
            self.lock().sealing = None;
            sealed.map_err(in_doubt)?;
        }
        for path in std::mem::take(&mut self.lock().removable) {
            // What cannot be removed is below the manifest's `wal_from`: the next open takes it for reuse.
            let _ = self.fs.remove(&path);
        }
        if self.lock().prepared.is_none() {
            let prepared = self.make(0)?;
            self.lock().prepared = Some(prepared);
        }
        Ok(())
    }

    /// Makes durable every write at or before the call.
    ///
    /// # Errors
    /// Any is final, a full disk too: nobody knows what the disk holds. It is never `NoSpace`, which refuses and changes nothing.
    pub fn sync(&self) -> Result<()> {
        let logs: Vec<_> = self.lock().live.iter().map(|log| Arc::clone(&log.sync)).collect();
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

    /// Lets go of the logs before `number`, which the manifest no longer asks for.
    pub fn release_before(&self, number: u64) {
        let mut state = self.lock();
        while state.live.front().is_some_and(|log| log.number < number && log.last_seq.is_some()) {
            // A log that is still being sealed is needed until then: its successor says it may be torn.
            let Some(log) = state.live.front() else { break };
            if state.sealing == Some(log.number) || state.retiring.iter().any(|r| r.id() == log.number) {
                break;
            }
            let path = FileName::Wal(log.number).path(&self.dir);
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
        let prepared = state.prepared.take().map(|(number, _)| FileName::Wal(number).path(&self.dir));
        let spare: Vec<PathBuf> = state.recyclable.drain(..).chain(prepared).collect();
        for path in spare.into_iter().chain(state.removable.drain(..).collect::<Vec<_>>()) {
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
            let capacity = state.next_capacity.max(at_least);
            state.next_capacity = capacity.saturating_mul(2).min(self.capacity);
            (capacity, state.recyclable.pop())
        };
        let path = FileName::Wal(number).path(&self.dir);
        let file = self.fs.create_log(&path, capacity, recycle.as_deref())?;
        self.fs.sync_dir(&self.dir)?;
        Ok((number, file))
    }

    /// The log that the lane has prepared, if it may follow log `after` and has this room. Another one is recycled: numbers
    /// rise along the chain, and the leader may have made a log itself since this one was given its number.
    fn take_prepared(&self, after: u64, room: u64) -> Option<(u64, Box<dyn LogFile>)> {
        let mut state = self.lock();
        let (number, file) = state.prepared.take()?;
        if number > after && file.remaining() >= room {
            return Some((number, file));
        }
        state.let_go(FileName::Wal(number).path(&self.dir), RECYCLED_MAX);
        None
    }

    fn lock(&self) -> MutexGuard<'_, Files> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The commit leader's side of the log.
#[derive(Debug)]
pub struct Wal {
    files: Arc<WalFiles>,
    writer: RecordWriter,
    last_seq: SeqNo,
}

impl Wal {
    /// Begins the chain with a new log; `first_seq` is the sequence that its first write will have.
    pub fn begin(files: Arc<WalFiles>, first_seq: SeqNo) -> Result<Wal> {
        let (number, file) = files.make(0)?;
        let writer = start(&files, number, file, None, first_seq)?;
        Ok(Wal { files, writer, last_seq: SeqNo(first_seq.0.saturating_sub(1)) })
    }

    /// The number of the log being written.
    pub fn number(&self) -> u64 {
        self.writer.id()
    }

    /// Appends a batch whose last entry has sequence `last`; true if a new log was begun for it.
    #[inline]
    pub fn append(&mut self, encoded: &[u8], last: SeqNo) -> Result<bool> {
        let rotate = self.writer.remaining() < encoded.len() as u64;
        if rotate {
            self.rotate(encoded.len() as u64)?;
        }
        self.writer.append(&[encoded])?;
        self.last_seq = last;
        Ok(rotate)
    }

    /// Makes everything appended durable.
    pub fn sync(&self) -> Result<()> {
        self.files.sync()
    }

    /// Ends the log cleanly: recovery then knows that nothing is missing.
    pub fn close(&mut self) -> Result<()> {
        loop {
            let Some(mut full) = self.files.lock().retiring.pop_front() else { break };
            full.seal()?;
        }
        self.writer.seal().map(drop)
    }

    #[cold]
    fn rotate(&mut self, needed: u64) -> Result<()> {
        // Room for the log's header record and the batch's frame beside the batch.
        let room = needed.saturating_add(16 * FRAME_LEN as u64);
        let (number, file) = match self.files.take_prepared(self.writer.id(), room) {
            Some(prepared) => prepared,
            None => self.files.make(room)?,
        };
        // Full, and perhaps not synced: said so, and sealed by the lane.
        let predecessor = Predecessor { id: self.writer.id(), sealed_len: None };
        if let Some(current) = self.files.lock().live.back_mut() {
            current.last_seq = Some(self.last_seq);
            current.bytes = self.writer.len();
        }
        let writer = start(&self.files, number, file, Some(predecessor), self.last_seq.next())?;
        let full = std::mem::replace(&mut self.writer, writer);
        self.files.lock().retiring.push_back(full);
        Ok(())
    }
}

/// A full disk that a sync finds has lost what an append had taken: it must not look like the refusal of an append.
fn in_doubt(error: Error) -> Error {
    match error {
        Error::NoSpace { .. } => Error::Poisoned { cause: error.to_string() },
        other => other,
    }
}

fn start(
    files: &Arc<WalFiles>,
    number: u64,
    file: Box<dyn LogFile>,
    predecessor: Option<Predecessor>,
    first_seq: SeqNo,
) -> Result<RecordWriter> {
    let header =
        LogHeader { kind: LogKind::Wal, id: number, predecessor, first_seq: first_seq.0, allocated: 0 };
    let path = FileName::Wal(number).path(&files.dir);
    let bytes = file.remaining();
    let writer = RecordWriter::on_log(file, &path, &header)?;
    files.lock().live.push_back(LiveLog { number, last_seq: None, bytes, sync: writer.syncer() });
    Ok(writer)
}
