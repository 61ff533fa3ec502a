//! A drawn tree made into a Version, with fabricated tables: tests and simulators draw the tree they mean.
//!
//! The drawing is that of `picture.rs`. What it leaves out is filled in: `T` means `T4`; ids of runs and groups count up
//! from 1 in the order of the drawing; a table has 100 bytes and 10 entries, and newer sequences the earlier it is read.

use std::sync::Arc;

use super::edit::{EditStep, RunPlace, VersionEdit};
use super::run::TableRef;
use super::version::Version;
use crate::base::units::{GroupId, RunId, SeqNo, TableId};
use crate::table::access::Access;
use crate::table::key_sample::KeySample;
use crate::table::meta::{Attachment, Born, KeyHistogram, TableMeta};

/// The facts of a table that no file stands behind.
pub fn fabricated_meta(id: u64, smallest: &[u8], largest: &[u8]) -> TableMeta {
    TableMeta {
        id: TableId(id),
        unique_id: id,
        bytes: 100,
        checksum: 0,
        entries: 10,
        keys: 10,
        seqs: (SeqNo(0), SeqNo(0)),
        tombstones: 0,
        range_tombstones: 0,
        dense_blocks: 0,
        oldest_tombstone_ms: None,
        created_ms: 0,
        smallest: smallest.into(),
        largest: largest.into(),
        end: None,
        key_histogram: KeyHistogram::default(),
        born: Born::Merge,
        blocks: 0,
        key_sample: KeySample::default(),
        access: Access::default(),
        attachment: Attachment::default(),
    }
}

/// The tree that `drawing` shows, or a sentence that says what is wrong with it.
pub fn parse(drawing: &str) -> Result<Version, String> {
    let mut levels = Vec::new();
    for line in drawing.lines().map(str::trim).filter(|l| !l.is_empty()) {
        let wrong = |what: String| format!("{line}: {what}");
        let (name, rest) = line.split_once(' ').unwrap_or((line, ""));
        if name != format!("L{}", levels.len()) {
            return Err(wrong(format!("expected level L{}", levels.len())));
        }
        levels.push(parse_level(rest).map_err(wrong)?);
    }
    number(&mut levels);
    build(&levels)
}

#[derive(Default)]
struct DrawnGroup {
    id: u64,
    run_bound: u32,
    lo: Vec<u8>,
    runs: Vec<DrawnRun>,
}

#[derive(Default)]
struct DrawnRun {
    id: u64,
    tables: Vec<TableRef>,
}

fn parse_level(line: &str) -> Result<Vec<DrawnGroup>, String> {
    let mut groups: Vec<DrawnGroup> = Vec::new();
    for token in tokens(line)? {
        if let Some(group) = parse_group(&token)? {
            groups.push(group);
            continue;
        }
        let group = groups.last_mut().ok_or("a level starts with a group, T or L")?;
        match token.as_str() {
            "|" => group.runs.push(DrawnRun::default()),
            _ => {
                if group.runs.is_empty() {
                    group.runs.push(DrawnRun::default());
                }
                let Some(run) = group.runs.last_mut() else { continue };
                match token.strip_prefix('#').and_then(|t| t.strip_suffix(':')) {
                    Some(id) => run.id = number_in(id)?,
                    None if token == "()" => {}
                    None => run.tables.push(parse_table(&token)?),
                }
            }
        }
    }
    Ok(groups)
}

/// Words, where a bracket holds its blanks together.
fn tokens(line: &str) -> Result<Vec<String>, String> {
    let mut out: Vec<String> = Vec::new();
    let mut open = false;
    for word in line.split_whitespace() {
        match out.last_mut().filter(|_| open) {
            Some(last) => {
                last.push(' ');
                last.push_str(word);
            }
            None => out.push(word.to_owned()),
        }
        open = (open || word.contains('[')) && !word.ends_with(']');
    }
    if open { Err("a bracket is not closed".to_owned()) } else { Ok(out) }
}

fn parse_group(token: &str) -> Result<Option<DrawnGroup>, String> {
    let (head, range) = match token.split_once('{') {
        Some((head, range)) => (head, range.strip_suffix('}').ok_or("a range is not closed")?),
        None => (token, ".."),
    };
    let (shape, id) = head.split_once('@').unwrap_or((head, "0"));
    let run_bound = match (shape, shape.strip_prefix('T')) {
        ("L", _) => 1,
        ("T", _) => 4,
        (_, Some(n)) => number_in(n)? as u32,
        _ => return Ok(None),
    };
    let (lo, _) = range.split_once("..").ok_or_else(|| format!("{range} is no range"))?;
    Ok(Some(DrawnGroup { id: number_in(id)?, run_bound, lo: key(lo)?, runs: Vec::new() }))
}

fn parse_table(token: &str) -> Result<TableRef, String> {
    let wrong = || format!("{token} is no table");
    let (id, inside) = token.strip_suffix(']').and_then(|t| t.split_once('[')).ok_or_else(wrong)?;
    let mut words = inside.split(' ');
    let keys = words.next().ok_or_else(wrong)?;
    let (keys, end) = keys.split_once("..").map_or((keys, None), |(keys, end)| (keys, Some(end)));
    let (smallest, largest) = keys.split_once('-').map_or((keys, None), |(s, l)| (s, Some(l)));
    let (smallest, visible) = smallest.split_once('/').unwrap_or((smallest, smallest));
    let mut meta = fabricated_meta(number_in(id)?, &key(smallest)?, &key(largest.unwrap_or(smallest))?);
    if let Some(end) = end {
        meta.end = Some(key(end)?.into());
        meta.range_tombstones = 1;
    }
    if largest.is_none() {
        // Nothing but range tombstones.
        meta.end.as_ref().ok_or_else(wrong)?;
        (meta.entries, meta.keys) = (0, 0);
    }
    let (mut consumed, mut entered, mut under) = (0, 0, None);
    for word in words {
        let (name, value) = word.split_once('=').ok_or_else(wrong)?;
        match name {
            "bytes" => meta.bytes = number_in(value)?,
            "entries" => meta.entries = number_in(value)?,
            "keys" => meta.keys = number_in(value)?,
            "ranges" => meta.range_tombstones = number_in(value)?,
            "dels" => meta.tombstones = number_in(value)?,
            "dense" => meta.dense_blocks = number_in(value)?,
            "blocks" => meta.blocks = number_in(value)?,
            "deleted" => meta.oldest_tombstone_ms = Some(number_in(value)?),
            "under" => under = Some(number_in(value)?),
            "reads" => meta.access.add(number_in(value)?, 0),
            "read" => meta.access.add(0, number_in(value)?),
            "made" => meta.created_ms = number_in(value)?,
            "consumed" => consumed = number_in(value)?,
            "at" => entered = number_in(value)?,
            "seqs" => {
                let (lo, hi) = value.split_once("..").ok_or_else(wrong)?;
                meta.seqs = (SeqNo(number_in(lo)?), SeqNo(number_in(hi)?));
            }
            "born" => {
                meta.born = match value {
                    "flush" => Born::Flush,
                    "merge" => Born::Merge,
                    "burst" => Born::Burst,
                    "load" => Born::Load,
                    _ => return Err(wrong()),
                }
            }
            _ => return Err(wrong()),
        }
    }
    let mut table = TableRef::whole(Arc::new(meta), entered);
    table.bounds.lo = key(visible)?.into();
    table.consumed = consumed;
    table.under_deletes_ms = under;
    Ok(table)
}

fn number_in(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("{text} is no number"))
}

fn key(text: &str) -> Result<Vec<u8>, String> {
    if text == "\\e" {
        return Ok(Vec::new());
    }
    let (body, plus) = text.strip_suffix('+').map_or((text, false), |t| (t, true));
    let mut out = Vec::new();
    let mut rest = body.bytes();
    while let Some(b) = rest.next() {
        if b != b'\\' {
            out.push(b);
            continue;
        }
        let code: Vec<u8> = rest.by_ref().take(3).collect();
        let digits = code.strip_prefix(b"x").and_then(|d| std::str::from_utf8(d).ok());
        let byte = digits.and_then(|d| u8::from_str_radix(d, 16).ok());
        out.push(byte.ok_or_else(|| format!("{text} is no key"))?);
    }
    out.extend(plus.then_some(0));
    Ok(out)
}

/// Fills in ids and sequences that the drawing leaves out.
fn number(levels: &mut [Vec<DrawnGroup>]) {
    let groups = || levels.iter().flatten();
    let mut next_group = groups().map(|g| g.id).max().unwrap_or(0);
    let mut next_run = groups().flat_map(|g| &g.runs).map(|r| r.id).max().unwrap_or(0);
    let mut rank = groups().map(|g| g.runs.len() as u64).sum::<u64>();
    for group in levels.iter_mut().flatten() {
        if group.id == 0 {
            next_group += 1;
            group.id = next_group;
        }
        for run in &mut group.runs {
            if run.id == 0 {
                next_run += 1;
                run.id = next_run;
            }
            for table in &mut run.tables {
                if table.meta.seqs.1 == SeqNo(0) {
                    let seqs = (SeqNo(rank * 10 - 9), SeqNo(rank * 10));
                    Arc::make_mut(&mut table.meta).seqs = seqs;
                }
            }
            rank -= 1;
        }
    }
}

fn build(levels: &[Vec<DrawnGroup>]) -> Result<Version, String> {
    let mut edit = VersionEdit::default();
    for (level, groups) in levels.iter().enumerate() {
        let Some(first) = groups.first() else { return Err(format!("L{level} has no group")) };
        edit.steps.push(EditStep::AddLevel { group: GroupId(first.id), run_bound: first.run_bound });
        let mut left = GroupId(first.id);
        for group in groups.iter().skip(1) {
            let (at, new_group) = (group.lo.clone().into(), GroupId(group.id));
            edit.steps.push(EditStep::SplitGroup { group: left, at, new_group, new_run: RunId(0) });
            edit.steps.push(EditStep::SetRunBound { group: new_group, run_bound: group.run_bound });
            left = new_group;
        }
        for group in groups {
            for run in &group.runs {
                let (id, place) = (RunId(run.id), RunPlace::Oldest);
                edit.steps.push(EditStep::AddRun { level, group: GroupId(group.id), run: id, place });
                let add = |t: &TableRef| EditStep::AddTable { run: id, table: t.clone() };
                edit.steps.extend(run.tables.iter().map(add));
            }
        }
    }
    Version::default().apply(&edit).map_err(|e| e.to_string())
}

#[cfg(test)]
#[path = "picture_tests.rs"]
mod tests;
