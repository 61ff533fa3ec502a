//! A get: memtables from the newest, then the tables in read order; the first entry found is the answer, or the first range
//! tombstone over the key that is newer than it.
//!
//! The view is taken first and the visible sequence second, so a view can only be older than the sequence, never miss what
//! the sequence promises of a single key. The tables that cover the key are located first and the lines of their filters
//! prefetched together: four cold filters cost one memory latency instead of four.

use std::ops::Deref;
use std::sync::atomic::Ordering;

use evenkeel_arena::PinnedValue as MemtableValue;

use crate::base::class::IoClass;
use crate::base::error::Result;
use crate::base::key::Trailer;
use crate::base::locks::others_may_go_on;
use crate::base::units::SeqNo;
use crate::db::store::keyspace_state::{KeyspaceState, ReadView};
use crate::db::store::state::Store;
use crate::merge::visible_iterator::is_put;
use crate::table::access::{Access, SAMPLING, sampled};
use crate::table::filter::hash_key;
use crate::table::reader::{PinnedValue, ReadStats, TableProbe, TableReader};

/// A value as the store holds it: a slice of a block or a memtable, pinned for as long as this lives. Copy what is to be kept for
/// long (`to_vec`): a slice of a memtable keeps all of its memory, 64 MiB unless set otherwise, beside what the store counts.
#[derive(Clone, Debug)]
pub struct Value(Pinned);

#[derive(Clone, Debug)]
enum Pinned {
    Memtable(MemtableValue),
    Table(PinnedValue),
}

impl Deref for Value {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Pinned::Memtable(value) => value,
            Pinned::Table(value) => value,
        }
    }
}

impl AsRef<[u8]> for Value {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl PartialEq<[u8]> for Value {
    fn eq(&self, other: &[u8]) -> bool {
        **self == *other
    }
}

impl PartialEq<&[u8]> for Value {
    fn eq(&self, other: &&[u8]) -> bool {
        **self == **other
    }
}

/// Tables probed with their filter lines in flight together.
const TOGETHER: usize = 16;

/// The newest value of `key`.
#[inline]
pub fn get(store: &Store, keyspace: &KeyspaceState, key: &[u8]) -> Result<Option<Value>> {
    let view = keyspace.view.load();
    others_may_go_on();
    let at = SeqNo(store.visible.load(Ordering::Acquire));
    get_at(store, keyspace, &view, key, at)
}

/// The value of `key` as of `at`, in a view that holds everything up to `at`.
#[inline]
pub fn get_at(
    store: &Store,
    keyspace: &KeyspaceState,
    view: &ReadView,
    key: &[u8],
    at: SeqNo,
) -> Result<Option<Value>> {
    if store.client_ops.is_counting() {
        return find_and_count(store, keyspace, view, key, at);
    }
    find(store, keyspace, view, key, at)
}

#[cold]
fn find_and_count(
    store: &Store,
    keyspace: &KeyspaceState,
    view: &ReadView,
    key: &[u8],
    at: SeqNo,
) -> Result<Option<Value>> {
    let found = find(store, keyspace, view, key, at)?;
    let value = found.as_ref().map_or(0, |value| value.len());
    store.client_ops.add_get((key.len() + value) as u64);
    Ok(found)
}

fn find(
    store: &Store,
    keyspace: &KeyspaceState,
    view: &ReadView,
    key: &[u8],
    at: SeqNo,
) -> Result<Option<Value>> {
    for memtable in [&view.active].into_iter().chain(&view.immutable) {
        let covered = memtable.ranges().covering(key, at);
        if let Some((trailer, value)) = memtable.get(key, at) {
            if sampled() {
                memtable.note_answers(SAMPLING.into());
            }
            return answer(trailer, covered, Pinned::Memtable(value));
        }
        // Whatever is older is under it too.
        if covered > SeqNo(0) {
            return Ok(None);
        }
    }
    get_in_tables(store, keyspace, view, key, at)
}

fn get_in_tables(
    store: &Store,
    keyspace: &KeyspaceState,
    view: &ReadView,
    key: &[u8],
    at: SeqNo,
) -> Result<Option<Value>> {
    let hash = hash_key(key);
    let mut stats = ReadStats::default();
    let counted = sampled();
    if counted {
        note_get(keyspace);
    }
    let mut covering = view.version.tables_at(key);
    loop {
        let mut probes: [Option<(&TableReader, &Access, TableProbe)>; TOGETHER] = [const { None }; TOGETHER];
        let mut n = 0;
        for (place, table) in probes.iter_mut().zip(covering.by_ref()) {
            let (reader, access) = (store.tables.reader(&table.meta, IoClass::Client)?, &table.meta.access);
            *place = Some((reader, access, reader.probe(key, hash)));
            n += 1;
        }
        for (reader, access, probe) in probes.iter().flatten() {
            if counted {
                access.note(store.clock.wall_ms());
            }
            let covered = reader.ranges().and_then(|ranges| ranges.newest(key, at)).unwrap_or_default();
            if reader.may_contain(probe, IoClass::Client)? {
                let reads = stats.block_reads;
                let found = reader.get_probed(probe, key, Trailer::seek(at), IoClass::Client, &mut stats)?;
                if stats.block_reads > reads {
                    access.note_probe_of_file();
                } else if counted {
                    access.note_probe();
                }
                if let Some((trailer, value)) = found {
                    return answer(trailer, covered, Pinned::Table(value));
                }
            }
            if covered > SeqNo(0) {
                return Ok(None);
            }
        }
        if n < TOGETHER {
            return Ok(None);
        }
    }
}

#[cold]
fn note_get(keyspace: &KeyspaceState) {
    keyspace.heat.note_get();
}

#[inline]
fn answer(trailer: Trailer, covered: SeqNo, value: Pinned) -> Result<Option<Value>> {
    Ok((is_put(trailer)? && trailer.seq() > covered).then_some(Value(value)))
}
