//! What deletes have left behind: for each keyspace and place the oldest delete of which there is a trace, and by when it has to be
//! gone. A place is the memory, a log that is not let go of yet, or a level with its tombstones and trimmed tables.

use std::sync::Arc;

use crate::db::jobs::deletes::shortest_ttl_ms;
use crate::db::store::keyspace_state::KeyspaceState;
use crate::db::store::logged_deletes::deadlines;
use crate::db::store::state::Store;
use crate::observe::json::{Object, list};
use crate::version::run::TableRef;

/// Traces of deletes in one place.
struct Place {
    name: String,
    tombstones: u64,
    /// Tables that show no tombstone of theirs, but may hold what a delete has taken already.
    trimmed: u64,
    since_ms: Option<u64>,
}

/// The answer to `audit-deletes`.
pub fn deletes_json(store: &Store) -> String {
    let keyspaces = store.keyspaces.load();
    let of = |keyspace: &Arc<KeyspaceState>| keyspace_json(store, keyspace);
    Object::new().raw("keyspaces", list(keyspaces.by_name.values().map(of))).end()
}

fn keyspace_json(store: &Store, keyspace: &KeyspaceState) -> String {
    let now_ms = store.clock.wall_ms();
    let ttl_ms = deadlines(keyspace).map(|due| due.ttl_ms);
    let places = places(keyspace);
    let oldest = places.iter().filter_map(|place| place.since_ms).min();
    let number = |n: Option<u64>| n.map_or("null".to_owned(), |n| n.to_string());
    let left = |since: Option<u64>| {
        let by = since.zip(ttl_ms).map(|(since, ttl)| since.saturating_add(ttl));
        by.map_or("null".to_owned(), |by| (i128::from(by) - i128::from(now_ms)).to_string())
    };
    let age = |since: Option<u64>| number(since.map(|since| now_ms.saturating_sub(since)));
    let rows = places.iter().map(|place| {
        let object = Object::new().text("place", &place.name).raw("tombstones", place.tombstones);
        let object = object.raw("trimmed_tables", place.trimmed);
        object.raw("oldest_age_ms", age(place.since_ms)).raw("left_ms", left(place.since_ms)).end()
    });
    let object = Object::new().text("keyspace", &keyspace.name).raw("ttl_ms", number(ttl_ms));
    let object = object.raw("shortest_ttl_ms", shortest_ttl_ms(store, keyspace));
    let object = object.raw("oldest_age_ms", age(oldest)).raw("left_ms", left(oldest));
    object.raw("places", list(rows)).end()
}

fn places(keyspace: &KeyspaceState) -> Vec<Place> {
    let view = keyspace.view.load_full();
    let memtables = || [&view.active].into_iter().chain(&view.immutable);
    let memory = Place {
        name: "memory and log".to_owned(),
        tombstones: memtables().filter(|m| m.oldest_tombstone_ms().is_some()).count() as u64,
        trimmed: 0,
        since_ms: memtables().filter_map(|m| m.oldest_tombstone_ms()).min(),
    };
    let levels = view.version.levels.iter().enumerate().map(|(level, found)| {
        let tables = || found.tables();
        Place {
            name: format!("L{level}"),
            tombstones: tables().map(|t| t.meta.tombstones + t.meta.range_tombstones).sum(),
            trimmed: tables().filter(|t| t.under_deletes_ms.is_some()).count() as u64,
            since_ms: tables().filter_map(TableRef::oldest_delete_ms).min(),
        }
    });
    std::iter::once(memory).chain(levels).filter(|place| place.since_ms.is_some()).collect()
}
