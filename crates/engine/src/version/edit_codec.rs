//! An edit as bytes: the payload of a manifest record.
//!
//! `[steps: varint] step*  [flags: u8] [flushed_through: varint]  [cursors: varint] (level: varint, key: bytes)*`
//! A step is its kind (one byte, see `kinds`) and its fields in the order of [`EditStep`]. Decoding trusts nothing: no
//! allocation is sized by a number from the bytes, and a kind that this version does not know is told apart from damage,
//! because a newer version may have written it.

use std::fmt;
use std::sync::Arc;

use super::edit::{EditStep, RunPlace, VersionEdit};
use super::run::TableRef;
use super::version::Version;
use crate::base::coding::{Decoder, put_bytes, put_varint};
use crate::base::key_range::KeyRange;
use crate::base::units::{GroupId, RunId, SeqNo, TableId};
use crate::table::meta::TableMeta;

/// Why bytes are no edit. The caller knows the file and the offset and makes the engine's error of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BadEdit {
    /// The bytes are damaged.
    Damaged(String),
    /// A newer version wrote something this one does not know.
    Unknown(String),
}

impl fmt::Display for BadEdit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadEdit::Damaged(what) | BadEdit::Unknown(what) => f.write_str(what),
        }
    }
}

/// The numbers of the step kinds; part of the file format, never reused.
mod kinds {
    pub const ADD_LEVEL: u8 = 1;
    pub const REMOVE_LAST_LEVEL: u8 = 2;
    pub const ADD_RUN: u8 = 3;
    pub const REMOVE_RUN: u8 = 4;
    pub const ADD_TABLE: u8 = 5;
    pub const TRIM_TABLE: u8 = 6;
    pub const DROP_TABLE: u8 = 7;
    pub const FUSE_RUNS: u8 = 8;
    pub const SPLIT_GROUP: u8 = 9;
    pub const MERGE_GROUPS: u8 = 10;
    pub const SET_RUN_BOUND: u8 = 11;
    pub const INSERT_LEVEL: u8 = 12;
    pub const REMOVE_LEVEL: u8 = 13;
    pub const TRIM_UNDER_DELETES: u8 = 14;
}

impl VersionEdit {
    /// The edit that makes `version` out of `Version::default()`, the tree without levels: a snapshot record.
    pub fn snapshot_of(version: &Version) -> VersionEdit {
        let mut edit = VersionEdit::default();
        for (i, level) in version.levels.iter().enumerate() {
            let Some(first) = level.groups.first() else { continue };
            edit.steps.push(EditStep::AddLevel { group: first.id, run_bound: first.run_bound });
            for pair in level.groups.windows(2) {
                let [left, right] = pair else { continue };
                let (at, new_group) = (right.range.lo.clone(), right.id);
                // The group is still empty here, so no run of this number comes to be.
                edit.steps.push(EditStep::SplitGroup {
                    group: left.id,
                    at: Box::from(&*at),
                    new_group,
                    new_run: RunId(0),
                });
                edit.steps.push(EditStep::SetRunBound { group: right.id, run_bound: right.run_bound });
            }
            for group in &level.groups {
                for run in &group.runs {
                    let place = RunPlace::Oldest;
                    edit.steps.push(EditStep::AddRun { level: i, group: group.id, run: run.id, place });
                    let add = |t: &TableRef| EditStep::AddTable { run: run.id, table: t.clone() };
                    edit.steps.extend(run.tables.iter().map(add));
                }
            }
        }
        edit
    }

    /// Appends the edit's bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.steps.len() as u64);
        for step in &self.steps {
            encode_step(step, out);
        }
        out.push(u8::from(self.flushed_through.is_some()));
        if let Some(seq) = self.flushed_through {
            put_varint(out, seq.0);
        }
        put_varint(out, self.cursors.len() as u64);
        for (level, key) in &self.cursors {
            put_varint(out, *level as u64);
            put_bytes(out, key);
        }
    }

    /// Reads what `encode` wrote, and leaves `from` behind it.
    pub fn decode(from: &mut Decoder<'_>) -> Result<VersionEdit, BadEdit> {
        let short = || BadEdit::Damaged("the edit ends too early".to_owned());
        let mut edit = VersionEdit::default();
        for i in 1..=from.varint().ok_or_else(short)? {
            let kind = from.u8().ok_or_else(short)?;
            if !(kinds::ADD_LEVEL..=kinds::TRIM_UNDER_DELETES).contains(&kind) {
                return Err(BadEdit::Unknown(format!("edit step {i} has the unknown kind {kind}")));
            }
            let damaged = || BadEdit::Damaged(format!("edit step {i} of kind {kind} is damaged"));
            edit.steps.push(decode_step(kind, from).ok_or_else(damaged)?);
        }
        edit.flushed_through = match from.u8().ok_or_else(short)? {
            0 => None,
            1 => Some(SeqNo(from.varint().ok_or_else(short)?)),
            flags => return Err(BadEdit::Unknown(format!("the edit has the unknown flags {flags}"))),
        };
        for _ in 0..from.varint().ok_or_else(short)? {
            let level = from.varint().and_then(|n| usize::try_from(n).ok()).ok_or_else(short)?;
            edit.cursors.push((level, from.bytes().ok_or_else(short)?.into()));
        }
        Ok(edit)
    }
}

fn encode_step(step: &EditStep, out: &mut Vec<u8>) {
    match step {
        EditStep::AddLevel { group, run_bound } => {
            put_kind(out, kinds::ADD_LEVEL, &[group.0, u64::from(*run_bound)]);
        }
        EditStep::RemoveLastLevel => put_kind(out, kinds::REMOVE_LAST_LEVEL, &[]),
        EditStep::InsertLevel { level, group, run_bound } => {
            put_kind(out, kinds::INSERT_LEVEL, &[*level as u64, group.0, u64::from(*run_bound)]);
        }
        EditStep::RemoveLevel { level } => put_kind(out, kinds::REMOVE_LEVEL, &[*level as u64]),
        EditStep::AddRun { level, group, run, place } => {
            let (place, anchor) = match place {
                RunPlace::Newest => (0, 0),
                RunPlace::Oldest => (1, 0),
                RunPlace::Above(run) => (2, run.0),
                RunPlace::Below(run) => (3, run.0),
            };
            put_kind(out, kinds::ADD_RUN, &[*level as u64, group.0, run.0, place, anchor]);
        }
        EditStep::RemoveRun { run } => put_kind(out, kinds::REMOVE_RUN, &[run.0]),
        EditStep::AddTable { run, table } => {
            put_kind(out, kinds::ADD_TABLE, &[run.0]);
            encode_table(table, out);
        }
        EditStep::TrimTable { table, bounds, consumed, under_deletes_ms } => {
            match under_deletes_ms {
                None => put_kind(out, kinds::TRIM_TABLE, &[table.0, *consumed]),
                Some(ms) => put_kind(out, kinds::TRIM_UNDER_DELETES, &[table.0, *consumed, *ms]),
            }
            encode_range(bounds, out);
        }
        EditStep::DropTable { table } => put_kind(out, kinds::DROP_TABLE, &[table.0]),
        EditStep::FuseRuns { newer, older } => put_kind(out, kinds::FUSE_RUNS, &[newer.0, older.0]),
        EditStep::SplitGroup { group, at, new_group, new_run } => {
            put_kind(out, kinds::SPLIT_GROUP, &[group.0, new_group.0, new_run.0]);
            put_bytes(out, at);
        }
        EditStep::MergeGroups { left, right } => put_kind(out, kinds::MERGE_GROUPS, &[left.0, right.0]),
        EditStep::SetRunBound { group, run_bound } => {
            put_kind(out, kinds::SET_RUN_BOUND, &[group.0, u64::from(*run_bound)]);
        }
    }
}

fn put_kind(out: &mut Vec<u8>, kind: u8, numbers: &[u64]) {
    out.push(kind);
    for n in numbers {
        put_varint(out, *n);
    }
}

/// `None` for damage; the kind is known to be one of `kinds`.
fn decode_step(kind: u8, from: &mut Decoder<'_>) -> Option<EditStep> {
    Some(match kind {
        kinds::ADD_LEVEL => EditStep::AddLevel { group: group_id(from)?, run_bound: small(from)? },
        kinds::REMOVE_LAST_LEVEL => EditStep::RemoveLastLevel,
        kinds::INSERT_LEVEL => EditStep::InsertLevel {
            level: usize::try_from(from.varint()?).ok()?,
            group: group_id(from)?,
            run_bound: small(from)?,
        },
        kinds::REMOVE_LEVEL => EditStep::RemoveLevel { level: usize::try_from(from.varint()?).ok()? },
        kinds::ADD_RUN => {
            let level = usize::try_from(from.varint()?).ok()?;
            let (group, run) = (group_id(from)?, run_id(from)?);
            let place = match (from.varint()?, run_id(from)?) {
                (0, RunId(0)) => RunPlace::Newest,
                (1, RunId(0)) => RunPlace::Oldest,
                (2, anchor) => RunPlace::Above(anchor),
                (3, anchor) => RunPlace::Below(anchor),
                _ => return None,
            };
            EditStep::AddRun { level, group, run, place }
        }
        kinds::REMOVE_RUN => EditStep::RemoveRun { run: run_id(from)? },
        kinds::ADD_TABLE => EditStep::AddTable { run: run_id(from)?, table: decode_table(from)? },
        kinds::TRIM_TABLE => {
            let (table, consumed) = (table_id(from)?, from.varint()?);
            EditStep::TrimTable { table, consumed, under_deletes_ms: None, bounds: decode_range(from)? }
        }
        kinds::TRIM_UNDER_DELETES => {
            let (table, consumed, ms) = (table_id(from)?, from.varint()?, from.varint()?);
            EditStep::TrimTable { table, consumed, under_deletes_ms: Some(ms), bounds: decode_range(from)? }
        }
        kinds::DROP_TABLE => EditStep::DropTable { table: table_id(from)? },
        kinds::FUSE_RUNS => EditStep::FuseRuns { newer: run_id(from)?, older: run_id(from)? },
        kinds::SPLIT_GROUP => {
            let (group, new_group, new_run) = (group_id(from)?, group_id(from)?, run_id(from)?);
            EditStep::SplitGroup { group, at: from.bytes()?.into(), new_group, new_run }
        }
        kinds::MERGE_GROUPS => EditStep::MergeGroups { left: group_id(from)?, right: group_id(from)? },
        kinds::SET_RUN_BOUND => EditStep::SetRunBound { group: group_id(from)?, run_bound: small(from)? },
        _ => return None,
    })
}

/// The facts, then 0 for a table seen whole, or the part that is seen: 1, or 2 with the age of the deletes it lay under.
fn encode_table(table: &TableRef, out: &mut Vec<u8>) {
    table.meta.encode(out);
    put_varint(out, table.entered_level_ms);
    let whole = table.consumed == 0 && table.bounds == table.meta.bounds();
    out.push(match table.under_deletes_ms {
        Some(_) => 2,
        None => u8::from(!whole),
    });
    if let Some(ms) = table.under_deletes_ms {
        put_varint(out, ms);
    }
    if !whole || table.under_deletes_ms.is_some() {
        put_varint(out, table.consumed);
        encode_range(&table.bounds, out);
    }
}

fn decode_table(from: &mut Decoder<'_>) -> Option<TableRef> {
    let meta = Arc::new(TableMeta::decode(from)?);
    let entered_level_ms = from.varint()?;
    match from.u8()? {
        0 => Some(TableRef::whole(meta, entered_level_ms)),
        part @ (1 | 2) => {
            let under_deletes_ms = if part == 2 { Some(from.varint()?) } else { None };
            let consumed = from.varint()?;
            Some(TableRef { meta, bounds: decode_range(from)?, consumed, entered_level_ms, under_deletes_ms })
        }
        _ => None,
    }
}

fn encode_range(range: &KeyRange, out: &mut Vec<u8>) {
    put_bytes(out, &range.lo);
    out.push(u8::from(range.hi.is_some()));
    if let Some(hi) = &range.hi {
        put_bytes(out, hi);
    }
}

fn decode_range(from: &mut Decoder<'_>) -> Option<KeyRange> {
    let lo = from.bytes()?;
    match from.u8()? {
        0 => Some(KeyRange::new(lo, None)),
        1 => Some(KeyRange::new(lo, Some(from.bytes()?))),
        _ => None,
    }
}

fn small(from: &mut Decoder<'_>) -> Option<u32> {
    u32::try_from(from.varint()?).ok()
}

fn table_id(from: &mut Decoder<'_>) -> Option<TableId> {
    from.varint().map(TableId)
}

fn run_id(from: &mut Decoder<'_>) -> Option<RunId> {
    from.varint().map(RunId)
}

fn group_id(from: &mut Decoder<'_>) -> Option<GroupId> {
    from.varint().map(GroupId)
}

#[cfg(test)]
#[path = "edit_codec_tests.rs"]
mod tests;
