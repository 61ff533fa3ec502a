//! Writing a record log, for the write-ahead log (a `LogFile`) and the manifest (a `WritableFile`) alike.
//!
//! ```text
//! append ── header on the stack, bytes handed to the file ──► appended
//! LogSync::sync ── covers what was appended before it began ──► synced ──► the promise in later records
//! seal ── sync, seal record, sync ──► nothing more
//! ```
//!
//! One thread appends; any thread may sync meanwhile. A failed append or sync is final: everything after it is
//! `Poisoned`, because nobody can know what the disk holds now.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError};

use crate::base::error::{Error, Result};
use crate::base::locks::Mutex;
use crate::storage::file_system::{LogFile, Syncer, WritableFile};
use crate::storage::record::{FRAME_LEN, LogHeader, RecordKind, frame};

/// Parts that an append passes on without touching the heap, the frame among them.
const PARTS_ON_STACK: usize = 8;

/// The heap that a writer over a plain file keeps for its next record.
const SCRATCH_KEPT: usize = 1 << 20;

/// Appends records to a log.
#[derive(Debug)]
pub struct RecordWriter {
    file: Sink,
    id: u64,
    sealed: bool,
    sync: Arc<LogSync>,
}

#[derive(Debug)]
enum Sink {
    Log(Box<dyn LogFile>),
    /// The scratch joins a record's parts, so that a record is one append.
    File(Box<dyn WritableFile>, Vec<u8>),
}

impl RecordWriter {
    /// Begins a log of fixed capacity with its header record, which notes that capacity. `path` is for messages.
    pub fn on_log(file: Box<dyn LogFile>, path: &Path, header: &LogHeader) -> Result<RecordWriter> {
        let syncer = file.syncer();
        let header = LogHeader { allocated: file.len() + file.remaining(), ..header.clone() };
        RecordWriter::begin(Sink::Log(file), syncer, path, &header)
    }

    /// Begins a log that grows, with its header record. `path` is for messages.
    pub fn on_file(file: Box<dyn WritableFile>, path: &Path, header: &LogHeader) -> Result<RecordWriter> {
        let syncer = file.syncer();
        RecordWriter::begin(Sink::File(file, Vec::new()), syncer, path, header)
    }

    fn begin(file: Sink, syncer: Arc<dyn Syncer>, path: &Path, header: &LogHeader) -> Result<RecordWriter> {
        let sync = Arc::new(LogSync {
            syncer,
            path: path.to_path_buf(),
            appended: AtomicU64::new(0),
            synced: AtomicU64::new(0),
            failed: OnceLock::new(),
            syncing: Mutex::new(()),
        });
        let mut writer = RecordWriter { file, id: header.id, sealed: false, sync };
        writer.write(RecordKind::Header, &[&header.encode()])?;
        Ok(writer)
    }

    /// Appends one record, its payload given in parts, and returns the log's new length. The bytes are with the kernel
    /// then; `syncer` makes them durable. `NoSpace` before a byte is written if a log of fixed capacity is full.
    pub fn append(&mut self, parts: &[&[u8]]) -> Result<u64> {
        self.write(RecordKind::Data, parts)
    }

    /// Bytes of payload that still fit into a single record, with space for the seal left over.
    pub fn remaining(&self) -> u64 {
        match &self.file {
            // The seal is a frame and a word.
            Sink::Log(file) => file.remaining().saturating_sub(2 * FRAME_LEN as u64 + 8),
            Sink::File(..) => u64::MAX,
        }
    }

    /// Hands out what memory is held to make appends fast: little more will come. Dropping it takes a while.
    pub fn take_memory(&mut self) -> Option<Box<dyn Send>> {
        let Sink::Log(file) = &mut self.file else { return None };
        file.take_memory()
    }

    /// Bytes in the log so far.
    pub fn len(&self) -> u64 {
        self.sync.appended.load(Ordering::Relaxed)
    }

    /// The log's id.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The handle that makes the log durable.
    pub fn syncer(&self) -> Arc<LogSync> {
        Arc::clone(&self.sync)
    }

    /// Ends the log: syncs it, states its length in a last record, and syncs that. Returns the length, the last record
    /// included. From then on any damage to it can be told from a torn end.
    pub fn seal(&mut self) -> Result<u64> {
        self.sync.sync()?;
        let len = self.append_seal()?;
        self.sync.sync_by(true)?;
        Ok(len)
    }

    /// The middle step of `seal`, for a caller that syncs on another thread before and after it. Refused while bytes
    /// are not synced: a power cut could then keep the seal and lose what it vouches for.
    pub fn append_seal(&mut self) -> Result<u64> {
        let len = self.len();
        if self.sync.synced_through() < len {
            return Err(Error::invalid("a log is sealed only when all of it is synced"));
        }
        let end = self.write(RecordKind::Seal, &[&len.to_le_bytes()])?;
        self.sealed = true;
        Ok(end)
    }

    fn write(&mut self, kind: RecordKind, parts: &[&[u8]]) -> Result<u64> {
        self.sync.check()?;
        if self.sealed {
            return Err(Error::invalid("the log is sealed"));
        }
        let bytes = parts.iter().map(|part| part.len() as u64).sum::<u64>();
        let Ok(len) = u32::try_from(bytes) else {
            return Err(Error::Limit { what: "record", bytes, max: u64::from(u32::MAX) });
        };
        let offset = self.len();
        let record_len = FRAME_LEN as u64 + bytes;
        if let Sink::Log(file) = &self.file
            && file.remaining() < record_len
        {
            return Err(Error::NoSpace { context: format!("append to {}", self.sync.path.display()) });
        }
        let frame = frame(kind, parts, len, self.id, offset, self.sync.synced_through());
        self.file.append(&frame, parts).map_err(|error| self.sync.fail(error))?;
        // Released, so that whoever syncs through this length has also seen the bytes.
        self.sync.appended.store(offset + record_len, Ordering::Release);
        Ok(offset + record_len)
    }
}

impl Sink {
    fn append(&mut self, frame: &[u8], parts: &[&[u8]]) -> Result<()> {
        match self {
            Sink::Log(file) => {
                let mut on_stack: [&[u8]; PARTS_ON_STACK] = [&[]; PARTS_ON_STACK];
                on_stack[0] = frame;
                match on_stack.get_mut(1..=parts.len()) {
                    Some(rest) => {
                        rest.copy_from_slice(parts);
                        file.append(&on_stack[..=parts.len()])
                    }
                    None => file.append(&[&[frame], parts].concat()),
                }
            }
            Sink::File(file, scratch) => {
                scratch.clear();
                scratch.extend_from_slice(frame);
                parts.iter().for_each(|part| scratch.extend_from_slice(part));
                // An append that finds no space says so here. Out of a sync nobody could tell what of it is on the disk.
                let result = file.append(scratch).and_then(|()| file.flush());
                if scratch.capacity() > SCRATCH_KEPT {
                    *scratch = Vec::new();
                }
                result
            }
        }
    }
}

/// Makes a log durable and knows how far it is.
#[derive(Debug)]
pub struct LogSync {
    syncer: Arc<dyn Syncer>,
    path: PathBuf,
    /// Bytes handed to the file. Stored by the writer alone.
    appended: AtomicU64,
    /// Bytes known to be durable; at most `appended`.
    synced: AtomicU64,
    /// The first failure of an append or a sync.
    failed: OnceLock<Error>,
    /// Held during a sync. A kernel reports a lost write once; were two syncs under way, the other one would hear
    /// nothing of it and promise what is not there.
    syncing: Mutex<()>,
}

impl LogSync {
    /// Returns when everything appended before the call is durable, with the length of which that is now known.
    pub fn sync(&self) -> Result<u64> {
        self.sync_by(false)
    }

    /// The last sync of a log is done also where others have synced all of it.
    fn sync_by(&self, at_end: bool) -> Result<u64> {
        let wanted = self.appended.load(Ordering::Acquire);
        let _syncing = self.syncing.lock().unwrap_or_else(PoisonError::into_inner);
        self.check()?;
        let synced = self.synced.load(Ordering::Acquire);
        if synced >= wanted && !at_end {
            return Ok(synced);
        }
        // More may have come while we waited for our turn; this sync covers it.
        let covered = self.appended.load(Ordering::Acquire);
        let done = if at_end { self.syncer.sync_at_end() } else { self.syncer.sync() };
        done.map_err(|error| self.fail(error))?;
        // An append that failed meanwhile does not undo what this sync has done: its bytes lie beyond.
        self.synced.store(covered, Ordering::Release);
        Ok(covered)
    }

    /// The length up to which the log is known to be durable.
    pub fn synced_through(&self) -> u64 {
        self.synced.load(Ordering::Acquire)
    }

    /// Bytes appended that no sync has covered yet.
    pub fn unsynced_bytes(&self) -> u64 {
        self.appended.load(Ordering::Acquire).saturating_sub(self.synced_through())
    }

    /// `Poisoned` after a failed append or sync.
    pub fn check(&self) -> Result<()> {
        match self.failed.get() {
            None => Ok(()),
            Some(cause) => Err(Error::Poisoned { cause: format!("{}: {cause}", self.path.display()) }),
        }
    }

    fn fail(&self, error: Error) -> Error {
        self.failed.get_or_init(|| error.clone());
        error
    }
}
