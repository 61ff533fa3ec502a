//! Numbers of a store's files, each given out once, and the random ids of its tables.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use xxhash_rust::xxh3::xxh3_64;

use crate::base::units::TableId;
use crate::execution::output::TableIds;
use crate::version::version_set::{Ids, VersionSet};
use crate::write::wal::NextNumber;

/// Table ids of a store; `salt` tells its files' random ids from those of another store.
pub fn table_ids(versions: &VersionSet, salt: u64) -> Box<dyn TableIds> {
    Box::new(FileIds { ids: Arc::clone(versions.ids()), salt })
}

/// Numbers of a store's logs.
pub fn log_numbers(versions: &VersionSet) -> Box<dyn NextNumber> {
    Box::new(FileIds { ids: Arc::clone(versions.ids()), salt: 0 })
}

/// File numbers, and random ids made of them.
#[derive(Debug)]
struct FileIds {
    ids: Arc<Ids>,
    salt: u64,
}

impl TableIds for FileIds {
    fn next_table(&self) -> TableId {
        self.ids.table()
    }

    fn unique_id(&self) -> u64 {
        // Told apart by number within a store and by salt between stores: not a secret.
        static CALLS: AtomicU64 = AtomicU64::new(0);
        let calls = CALLS.fetch_add(1, Ordering::Relaxed);
        xxh3_64(&[self.salt.to_le_bytes(), calls.to_le_bytes()].concat())
    }
}

impl NextNumber for FileIds {
    fn next_number(&self) -> u64 {
        self.ids.file()
    }
}
