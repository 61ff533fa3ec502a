//! Manifest records: what the store is, one record per change, applied whole or not at all.
//!
//! A manifest begins with a snapshot (every keyspace with its tree as one edit) and goes on with changes. Which strategy made
//! a change is not in it (I8). A record is tagged fields, so that later formats can add some; an unknown tag is an
//! error, because what it says may matter.
//!
//! ```text
//! record = field*        field = tag u8 | length varint | body
//! ```

use crate::base::coding::{Decoder, put_bytes, put_varint};
use crate::base::units::{COUNT_MAX, GroupId, KeyspaceId, SeqNo};
use crate::version::edit::VersionEdit;
use crate::version::edit_codec::BadEdit;

/// The next number of each kind that has never been given out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NextIds {
    /// Of files, whatever their kind.
    pub file: u64,
    /// Of runs.
    pub run: u64,
    /// Of groups.
    pub group: u64,
    /// Of keyspaces.
    pub keyspace: u64,
}

/// A keyspace comes into being, with an empty tree or, in a snapshot, with the one that an edit of the same record gives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyspaceCreated {
    /// Its id, never used before.
    pub id: KeyspaceId,
    /// Its name.
    pub name: String,
    /// The group of its first level; `None` in a snapshot, whose edit makes all levels.
    pub l0_group: Option<GroupId>,
    /// Its writes do not go to the log.
    pub no_wal: bool,
}

/// A change of the store.
#[derive(Clone, Debug, Default)]
pub struct ManifestRecord {
    /// Keyspaces that come into being, before anything else of the record.
    pub created: Vec<KeyspaceCreated>,
    /// Keyspaces that go, with all their tables.
    pub dropped: Vec<KeyspaceId>,
    /// Changes of trees.
    pub edits: Vec<(KeyspaceId, VersionEdit)>,
    /// Ids given out so far.
    pub next: NextIds,
    /// Every sequence number up to here has been given out.
    pub last_seq: SeqNo,
    /// Logs with a lower number are no longer needed.
    pub wal_from: u64,
    /// Written when the store was closed: the logs that hold writes, and their lengths when they were ended. Nothing of them
    /// may be missing then. Every later manifest begins with logs of its own, so only the last record says it.
    pub sealed_logs: Vec<(u64, u64)>,
    /// The number of the OPTIONS file in force from here on.
    pub options_file: Option<u64>,
}

const CREATED: u8 = 1;
const DROPPED: u8 = 2;
const EDIT: u8 = 3;
const COUNTERS: u8 = 4;
const SEALED_LOGS: u8 = 5;
const OPTIONS_FILE: u8 = 6;

/// The flag of a keyspace without a log.
const NO_WAL: u64 = 1;

impl ManifestRecord {
    /// The record's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for created in &self.created {
            let mut body = Vec::new();
            put_varint(&mut body, created.id.0);
            put_bytes(&mut body, created.name.as_bytes());
            put_varint(&mut body, created.l0_group.map_or(0, |group| group.0));
            if created.no_wal {
                put_varint(&mut body, NO_WAL);
            }
            field(&mut out, CREATED, &body);
        }
        for id in &self.dropped {
            let mut body = Vec::new();
            put_varint(&mut body, id.0);
            field(&mut out, DROPPED, &body);
        }
        for (id, edit) in &self.edits {
            let mut body = Vec::new();
            put_varint(&mut body, id.0);
            edit.encode(&mut body);
            field(&mut out, EDIT, &body);
        }
        let mut body = Vec::new();
        let next = self.next;
        for n in [next.file, next.run, next.group, next.keyspace, self.last_seq.0, self.wal_from] {
            put_varint(&mut body, n);
        }
        field(&mut out, COUNTERS, &body);
        if !self.sealed_logs.is_empty() {
            let mut body = Vec::new();
            for (log, len) in &self.sealed_logs {
                put_varint(&mut body, *log);
                put_varint(&mut body, *len);
            }
            field(&mut out, SEALED_LOGS, &body);
        }
        if let Some(number) = self.options_file {
            let mut body = Vec::new();
            put_varint(&mut body, number);
            field(&mut out, OPTIONS_FILE, &body);
        }
        out
    }

    /// Reads a record; the error says what is wrong with it.
    pub fn decode(bytes: &[u8]) -> Result<ManifestRecord, BadEdit> {
        let mut record = ManifestRecord::default();
        let mut fields = Decoder::new(bytes);
        while !fields.is_empty() {
            let (tag, body) =
                fields.u8().zip(fields.bytes()).ok_or_else(|| damaged("a field is cut short"))?;
            record.read_field(tag, Decoder::new(body))?;
        }
        Ok(record)
    }

    fn read_field(&mut self, tag: u8, mut body: Decoder<'_>) -> Result<(), BadEdit> {
        match tag {
            CREATED => self.created.push(keyspace_created(&mut body)?),
            DROPPED => {
                let id = body.varint().ok_or_else(|| damaged("a keyspace id is malformed"))?;
                self.dropped.push(KeyspaceId(id));
            }
            EDIT => {
                let id = KeyspaceId(body.varint().ok_or_else(|| damaged("a keyspace id is malformed"))?);
                let edit = VersionEdit::decode(&mut body)?;
                if edit.flushed_through.is_some_and(|seq| seq.0 > COUNT_MAX) {
                    return Err(damaged("a sequence is out of range"));
                }
                self.edits.push((id, edit));
            }
            COUNTERS => self.read_counters(&mut body).ok_or_else(|| damaged("the counters are malformed"))?,
            SEALED_LOGS => {
                while !body.is_empty() {
                    let log = body.varint().zip(body.varint());
                    self.sealed_logs.push(log.ok_or_else(|| damaged("the list of ended logs is malformed"))?);
                }
            }
            OPTIONS_FILE => {
                let number = count(&mut body).ok_or_else(|| damaged("the number of OPTIONS is malformed"))?;
                self.options_file = Some(number);
            }
            _ => return Err(BadEdit::Unknown(format!("field {tag} is of a newer format"))),
        }
        if body.is_empty() { Ok(()) } else { Err(damaged(format!("field {tag} has bytes left over"))) }
    }

    fn read_counters(&mut self, body: &mut Decoder<'_>) -> Option<()> {
        self.next =
            NextIds { file: count(body)?, run: count(body)?, group: count(body)?, keyspace: count(body)? };
        self.last_seq = SeqNo(count(body)?);
        self.wal_from = count(body)?;
        Some(())
    }
}

/// A number of those that are given out one after another, as high as one can be.
fn count(from: &mut Decoder<'_>) -> Option<u64> {
    from.varint().filter(|count| *count <= COUNT_MAX)
}

fn keyspace_created(body: &mut Decoder<'_>) -> Result<KeyspaceCreated, BadEdit> {
    let malformed = || damaged("a keyspace record is malformed");
    let id = KeyspaceId(count(body).ok_or_else(malformed)?);
    let name = String::from_utf8(body.bytes().ok_or_else(malformed)?.to_vec()).map_err(|_| malformed())?;
    let l0_group = Some(GroupId(body.varint().ok_or_else(malformed)?)).filter(|group| group.0 != 0);
    let flags = if body.is_empty() { 0 } else { body.varint().ok_or_else(malformed)? };
    if flags & !NO_WAL != 0 {
        return Err(BadEdit::Unknown(format!("keyspace `{name}` has the unknown flags {flags}")));
    }
    Ok(KeyspaceCreated { id, name, l0_group, no_wal: flags & NO_WAL != 0 })
}

fn damaged(what: impl Into<String>) -> BadEdit {
    BadEdit::Damaged(what.into())
}

fn field(out: &mut Vec<u8>, tag: u8, body: &[u8]) {
    out.push(tag);
    put_bytes(out, body);
}
