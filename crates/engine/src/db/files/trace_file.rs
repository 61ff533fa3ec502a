//! A trace: operations of a store in a file (`docs/file_format.md`). Both directions of the format, and nothing else.
//!
//! ```text
//! record log of kind 3:  header │ about │ keyspaces │ operations │ operations │ … │ end │ seal
//! ```
//! A chunk of operations is what one stripe of threads has gathered, so chunks overlap in time. Whoever reads gets all
//! operations by the time at which they began.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::path::Path;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::inspect_log::open_log;
use crate::base::class::IoClass;
use crate::base::coding::{Decoder, put_bytes, put_varint};
use crate::base::error::{Error, Result};
use crate::base::key::Kind as EntryKind;
use crate::storage::file_system::FileSystem;
use crate::storage::record::{LogHeader, LogKind};
use crate::storage::record_reader::{RecordReader, Tail};
use crate::storage::record_writer::RecordWriter;
use crate::write::batch::WriteBatch;

/// An operation that takes more bytes is not recorded, but counted as missed.
pub const OPERATION_BYTES_MAX: usize = 8 << 20;

/// The format that this code writes, and the only one it reads.
const VERSION: u64 = 1;

// What a record holds: its first byte.
const ABOUT: u8 = 1;
const KEYSPACES: u8 = 2;
const OPERATIONS: u8 = 3;
const END: u8 = 4;

// What an operation does.
const WRITE: u8 = 1;
const GET: u8 = 2;
const SCAN: u8 = 3;

/// A record beside the operations is shorter than this; so is what stands before an operation's own bytes.
const SLACK_BYTES: usize = 1 << 20;

/// How keys are written into a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keys {
    /// As they are.
    Plain,
    /// As 16 hexadecimal digits: a hash with a seed of the trace's own, which is kept nowhere. Equal keys stay equal and an
    /// empty key stays empty; order, prefixes and lengths are lost. Hides keys from a reader, not from one who can try out
    /// seeds.
    Hashed,
}

/// A kind of operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A write of one put.
    Put,
    /// A write of one delete.
    Delete,
    /// A write of one range delete.
    DeleteRange,
    /// A write of several changes.
    Batch,
    /// A get.
    Get,
    /// A get of several keys, or of none.
    MultiGet,
    /// A seek, and the moves after it.
    Scan,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 7] =
        [Kind::Put, Kind::Delete, Kind::DeleteRange, Kind::Batch, Kind::Get, Kind::MultiGet, Kind::Scan];

    /// The stable name.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Put => "put",
            Kind::Delete => "delete",
            Kind::DeleteRange => "delete_range",
            Kind::Batch => "batch",
            Kind::Get => "get",
            Kind::MultiGet => "multi_get",
            Kind::Scan => "scan",
        }
    }
}

/// The bytes of one operation, but for who did it and when.
#[derive(Debug)]
pub struct Described {
    /// Its kind.
    pub kind: Kind,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// How operations are described: with keys as they are, or hashed with a seed.
#[derive(Clone, Copy, Debug)]
pub struct Describer(Option<u64>);

impl Describer {
    /// For a new trace.
    pub fn new(keys: Keys) -> Describer {
        // The system's chance comes by way of the keys of the standard library's hasher.
        Describer((keys == Keys::Hashed).then(|| RandomState::new().hash_one(0u64)))
    }

    fn key(self, out: &mut Vec<u8>, key: &[u8]) {
        match self.0.filter(|_| !key.is_empty()) {
            None => put_bytes(out, key),
            Some(seed) => put_bytes(out, format!("{:016x}", xxh3_64_with_seed(key, seed)).as_bytes()),
        }
    }

    /// A write. One that takes too many bytes is described in part.
    pub fn write(self, batch: &WriteBatch) -> Described {
        let mut bytes = vec![WRITE];
        put_varint(&mut bytes, batch.len() as u64);
        let mut kind = Kind::Batch;
        for entry in batch.entries().map_while(|entry| entry) {
            bytes.push(entry.kind as u8);
            put_varint(&mut bytes, entry.keyspace.0);
            self.key(&mut bytes, entry.key);
            kind = match entry.kind {
                EntryKind::Delete => Kind::Delete,
                EntryKind::RangeDelete => {
                    self.key(&mut bytes, entry.value);
                    Kind::DeleteRange
                }
                _ => {
                    put_varint(&mut bytes, entry.value.len() as u64);
                    Kind::Put
                }
            };
            if bytes.len() > OPERATION_BYTES_MAX {
                break;
            }
        }
        Described { kind: if batch.len() == 1 { kind } else { Kind::Batch }, bytes }
    }

    /// A get of these keys.
    pub fn get(self, keyspace: u64, keys: &[&[u8]]) -> Described {
        let mut bytes = vec![GET];
        put_varint(&mut bytes, keyspace);
        put_varint(&mut bytes, keys.len() as u64);
        keys.iter().for_each(|key| self.key(&mut bytes, key));
        Described { kind: if keys.len() == 1 { Kind::Get } else { Kind::MultiGet }, bytes }
    }

    /// A scan that read so many entries.
    pub fn scan(self, keyspace: u64, from: &[u8], entries: u64, down: bool) -> Described {
        let mut bytes = vec![SCAN];
        put_varint(&mut bytes, keyspace);
        bytes.push(u8::from(down));
        put_varint(&mut bytes, entries);
        self.key(&mut bytes, from);
        Described { kind: Kind::Scan, bytes }
    }
}

/// Appends an operation to a chunk: who did it, when it began (nanoseconds since the trace did), and how long it took.
pub fn put_operation(chunk: &mut Vec<u8>, thread: u64, start_nanos: u64, nanos: u64, described: &[u8]) {
    put_varint(chunk, thread);
    put_varint(chunk, start_nanos);
    put_varint(chunk, nanos);
    chunk.extend_from_slice(described);
}

/// Writes a trace.
#[derive(Debug)]
pub struct TraceWriter(RecordWriter);

impl TraceWriter {
    /// Begins a trace in a new file.
    ///
    /// # Errors
    /// `InvalidArgument` if there is a file of this name; `Io`, `NoSpace`.
    pub fn create(fs: &dyn FileSystem, path: &Path, keys: Keys, began_ms: u64) -> Result<TraceWriter> {
        if fs.exists(path)? {
            return Err(Error::invalid(format!(
                "{} exists; give the trace another name, or remove it",
                path.display()
            )));
        }
        let id = RandomState::new().hash_one(began_ms);
        let header = LogHeader { kind: LogKind::Trace, id, predecessor: None, first_seq: 0, allocated: 0 };
        let mut about = vec![ABOUT];
        put_varint(&mut about, VERSION);
        put_varint(&mut about, began_ms);
        about.push(u8::from(keys == Keys::Hashed));
        let file = fs.create(path, IoClass::Manifest)?;
        let begun = RecordWriter::on_file(file, path, &header).and_then(|mut writer| {
            writer.append(&[&about])?;
            Ok(TraceWriter(writer))
        });
        begun.inspect_err(|_| {
            // What is left of it would be in the way of the next.
            let _ = fs.remove(path);
        })
    }

    /// Names keyspaces.
    pub fn keyspaces<'a>(&mut self, names: impl Iterator<Item = (u64, &'a str)>) -> Result<()> {
        let mut record = vec![KEYSPACES];
        for (id, name) in names {
            put_varint(&mut record, id);
            put_bytes(&mut record, name.as_bytes());
        }
        if record.len() > 1 {
            self.0.append(&[&record])?;
        }
        Ok(())
    }

    /// Appends a chunk of operations.
    pub fn operations(&mut self, chunk: &[u8]) -> Result<()> {
        self.0.append(&[&[OPERATIONS], chunk]).map(drop)
    }

    /// Ends the trace after so many nanoseconds, durably, with how many operations are not in it. Answers the file's length.
    pub fn end(mut self, nanos: u64, missed: u64) -> Result<u64> {
        let mut record = vec![END];
        put_varint(&mut record, nanos);
        put_varint(&mut record, missed);
        self.0.append(&[&record])?;
        self.0.seal()
    }
}

/// A trace that was read: all operations, in the order in which they began.
#[derive(Clone, Debug)]
pub struct Trace {
    /// When it began, milliseconds since 1970.
    pub began_ms: u64,
    /// How its keys are written.
    pub keys: Keys,
    /// The names of the keyspaces by their numbers.
    pub keyspaces: BTreeMap<u64, String>,
    /// How long was recorded, in nanoseconds: to its end, or to that of its last operation if it has no end.
    pub nanos: u64,
    /// Operations that the recording could not keep up with, and that are not in it; `None` if it has no end that says so.
    pub missed: Option<u64>,
    /// How the file ends.
    pub end: End,
    /// The file's length in bytes.
    pub file_bytes: u64,
    /// Chunks of operations, one after the other.
    bytes: Vec<u8>,
    /// When each operation began, and where it is.
    places: Vec<(u64, usize)>,
}

/// How a trace ends.
#[derive(Clone, Debug)]
pub enum End {
    /// Cleanly: nothing is missing.
    Clean,
    /// Whoever recorded it was killed, or its disk was full: operations after this offset were never written.
    Cut {
        /// The good length in bytes.
        offset: u64,
    },
    /// The file is damaged, and read up to there.
    Damaged(Error),
}

/// A recorded operation.
#[derive(Clone, Debug)]
pub struct Operation<'a> {
    /// The thread that did it, by a small number.
    pub thread: u64,
    /// When it began, in nanoseconds since the trace did.
    pub start_nanos: u64,
    /// How long it took, in nanoseconds. A scan's time is from its seek to the end of its last move.
    pub nanos: u64,
    /// What it was.
    pub action: Action<'a>,
}

/// What an operation was. Keyspaces are numbers: [`Trace::keyspace_name`] knows their names.
#[derive(Clone, Debug)]
pub enum Action<'a> {
    /// Changes that were made together.
    Write(Vec<Change<'a>>),
    /// A get, of several keys at once perhaps.
    Get {
        /// Where.
        keyspace: u64,
        /// Which keys.
        keys: Vec<&'a [u8]>,
    },
    /// A seek, and the moves after it.
    Scan {
        /// Where.
        keyspace: u64,
        /// The key that was sought; empty for the first one of all.
        from: &'a [u8],
        /// How many entries the cursor stood on.
        entries: u64,
        /// True if it went to smaller keys.
        down: bool,
    },
}

/// A change of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Change<'a> {
    /// A put of a value of this length.
    Put { keyspace: u64, key: &'a [u8], value_bytes: u64 },
    /// A delete.
    Delete { keyspace: u64, key: &'a [u8] },
    /// A delete of all keys from `from` to below `to`.
    DeleteRange { keyspace: u64, from: &'a [u8], to: &'a [u8] },
}

impl Operation<'_> {
    /// Its kind.
    pub fn kind(&self) -> Kind {
        match &self.action {
            Action::Write(changes) => match changes[..] {
                [Change::Put { .. }] => Kind::Put,
                [Change::Delete { .. }] => Kind::Delete,
                [Change::DeleteRange { .. }] => Kind::DeleteRange,
                _ => Kind::Batch,
            },
            Action::Get { keys, .. } if keys.len() == 1 => Kind::Get,
            Action::Get { .. } => Kind::MultiGet,
            Action::Scan { .. } => Kind::Scan,
        }
    }
}

impl Trace {
    /// Reads the trace at `path` into memory: about the file's size, and 16 bytes an operation. One that is cut or damaged is
    /// read up to there, and says so.
    ///
    /// # Errors
    /// `Io` if it cannot be read, `InvalidArgument` if it is no trace, `Unsupported` for a newer format.
    pub fn read(fs: &dyn FileSystem, path: &Path) -> Result<Trace> {
        let file = fs.open(path)?;
        let no_trace = |what: &str| Error::invalid(format!("{} is no trace: {what}", path.display()));
        let payload_max = (OPERATION_BYTES_MAX + SLACK_BYTES) as u32;
        let mut reader = match open_log(&file, path, LogKind::Trace, payload_max) {
            Ok(reader) if reader.header().is_some() => reader,
            Ok(_) | Err(Error::Corruption { .. }) => return Err(no_trace("it does not begin like one")),
            Err(error) => return Err(error),
        };
        let mut trace = match reader.next()? {
            Some(record) => match about(record.payload) {
                Some((VERSION, trace)) => trace,
                Some((version, _)) => {
                    let path = path.display();
                    return Err(Error::Unsupported(format!(
                        "{path} is of trace format {version}, which this version does not know"
                    )));
                }
                None => return Err(no_trace("it does not say what it is")),
            },
            None => return Err(no_trace("it ends before it begins")),
        };
        trace.file_bytes = file.len();
        if let Err(error) = trace.read_records(&mut reader, path) {
            trace.end = End::Damaged(error);
        }
        // Stable: what began together stays as it was written.
        trace.places.sort_by_key(|(start, _)| *start);
        Ok(trace)
    }

    fn read_records(&mut self, reader: &mut RecordReader, path: &Path) -> Result<()> {
        while let Some(record) = reader.next()? {
            let broken = |what| Error::corruption(path, record.offset, what);
            let mut rest = Decoder::new(record.payload);
            match rest.u8() {
                Some(KEYSPACES) => {
                    self.read_names(&mut rest).ok_or_else(|| broken("names of keyspaces are cut short"))?;
                }
                Some(OPERATIONS) => {
                    self.read_chunk(rest.rest()).ok_or_else(|| broken("an operation is malformed"))?;
                }
                Some(END) => {
                    let nanos = rest.varint().ok_or_else(|| broken("the end is cut short"))?;
                    self.nanos = self.nanos.max(nanos);
                    self.missed = rest.varint();
                }
                _ => return Err(broken("a record of an unknown kind")),
            }
        }
        self.end = match reader.tail() {
            // Behind the end there is the seal alone.
            Some(_) if self.missed.is_some() => End::Clean,
            Some(Tail::Sealed { len }) => End::Cut { offset: len },
            Some(Tail::Torn { offset } | Tail::End { offset }) => End::Cut { offset },
            None => End::Cut { offset: 0 },
        };
        Ok(())
    }

    fn read_names(&mut self, rest: &mut Decoder<'_>) -> Option<()> {
        while !rest.is_empty() {
            let (id, name) = (rest.varint()?, rest.bytes()?);
            self.keyspaces.insert(id, String::from_utf8_lossy(name).into_owned());
        }
        Some(())
    }

    /// Takes the operations up to one that is malformed.
    fn read_chunk(&mut self, chunk: &[u8]) -> Option<()> {
        let (base, mut rest) = (self.bytes.len(), Decoder::new(chunk));
        self.bytes.extend_from_slice(chunk);
        while !rest.is_empty() {
            let at = base + chunk.len() - rest.rest().len();
            let Operation { start_nanos, nanos, .. } = operation(&mut rest)?;
            self.nanos = self.nanos.max(start_nanos.saturating_add(nanos));
            self.places.push((start_nanos, at));
        }
        Some(())
    }

    /// How many operations there are.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// When operation `n` began, in nanoseconds since the trace did.
    pub fn start_nanos(&self, n: usize) -> Option<u64> {
        self.places.get(n).map(|(start, _)| *start)
    }

    /// Operation `n`, counted in the order in which they began.
    pub fn get(&self, n: usize) -> Option<Operation<'_>> {
        let (_, at) = self.places.get(n)?;
        operation(&mut Decoder::new(self.bytes.get(*at..)?))
    }

    /// The operations, in the order in which they began.
    pub fn iter(&self) -> impl Iterator<Item = Operation<'_>> {
        (0..self.len()).filter_map(|n| self.get(n))
    }

    /// The name of a keyspace; one that was gone before its name was noted is called by its number.
    pub fn keyspace_name(&self, keyspace: u64) -> String {
        self.keyspaces.get(&keyspace).cloned().unwrap_or_else(|| format!("keyspace-{keyspace}"))
    }
}

/// The format's version, and a trace without operations. Only the version means something if it is another one.
fn about(payload: &[u8]) -> Option<(u64, Trace)> {
    let mut rest = Decoder::new(payload);
    let version = rest.u8().filter(|kind| *kind == ABOUT).and_then(|_| rest.varint())?;
    let began_ms = rest.varint()?;
    let keys = if rest.u8()? == 0 { Keys::Plain } else { Keys::Hashed };
    let trace = Trace {
        began_ms,
        keys,
        keyspaces: BTreeMap::new(),
        nanos: 0,
        missed: None,
        end: End::Clean,
        file_bytes: 0,
        bytes: Vec::new(),
        places: Vec::new(),
    };
    Some((version, trace))
}

fn operation<'a>(rest: &mut Decoder<'a>) -> Option<Operation<'a>> {
    let (thread, start_nanos, nanos) = (rest.varint()?, rest.varint()?, rest.varint()?);
    let action = match rest.u8()? {
        WRITE => Action::Write((0..rest.varint()?).map(|_| change(rest)).collect::<Option<_>>()?),
        GET => {
            let keyspace = rest.varint()?;
            let keys = (0..rest.varint()?).map(|_| rest.bytes()).collect::<Option<_>>()?;
            Action::Get { keyspace, keys }
        }
        SCAN => {
            let (keyspace, down) = (rest.varint()?, rest.u8()? != 0);
            let entries = rest.varint()?;
            Action::Scan { keyspace, from: rest.bytes()?, entries, down }
        }
        _ => return None,
    };
    Some(Operation { thread, start_nanos, nanos, action })
}

fn change<'a>(rest: &mut Decoder<'a>) -> Option<Change<'a>> {
    let kind = EntryKind::from_u8(rest.u8()?)?;
    let (keyspace, key) = (rest.varint()?, rest.bytes()?);
    Some(match kind {
        EntryKind::Put => Change::Put { keyspace, key, value_bytes: rest.varint()? },
        EntryKind::Delete => Change::Delete { keyspace, key },
        EntryKind::RangeDelete => Change::DeleteRange { keyspace, from: key, to: rest.bytes()? },
        _ => return None,
    })
}
