//! What writers need next, made ready before they come to it: logs, and memory of their memtables. So no write waits while the
//! system allocates blocks or clears pages. On a thread of its own, which never waits for the device: if it does not keep up, a writer
//! makes the log itself, and touches the memory.

use crate::db::store::state::Store;
use crate::observe::event::Event;

/// Makes ready what is missing.
pub fn make_ready(store: &Store) {
    if store.check_writable().is_err() || store.check_settled().is_err() {
        return;
    }
    // First: it is used up sooner than a log.
    for keyspace in store.keyspaces.load().by_name.values() {
        let active = &keyspace.view.load().active;
        if !active.is_empty() && active.wants_touching() {
            active.touch_ahead();
        }
    }
    // Tried again at the next call; until then writers make the log they need, or fail.
    if let Err(error) = store.wal_files.prepare() {
        store.event(&Event::BackgroundError { error: error.to_string() });
    }
}
