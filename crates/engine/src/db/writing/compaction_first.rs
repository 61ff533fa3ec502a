//! Compaction before writes, where the option `compaction_first` asks for it: a write waits while a memtable is on its way to
//! the tree, or a compaction is due or open, in any keyspace, and so finds every tree in the shape that its strategy wants.
//!
//! ```text
//! memtable full ─► flush ─► the tree has changed ─► looked for work ─► jobs ... ─► nothing is due ─► writes go on
//! └────────────────────────────────── writes wait ──────────────────────────────────┘
//! ```
//! A flush counts, because what is due is known when it is in the tree: so each one meets the tree that the last one left. What
//! cannot get done is not waited for: a paused background, flushes and compactions that fail.

use crate::base::error::{Error, Result};
use crate::db::background::control::{Fails, step_all, wait_until};
use crate::db::jobs::stepping;
use crate::db::store::state::Store;
use crate::observe::counters::StallReason;

/// Waits until no memtable is to be flushed and no compaction is due or open.
///
/// # Errors
/// `Poisoned` if the store is closed or read-only meanwhile; nothing was written.
pub fn wait_for_compactions(store: &Store) -> Result<()> {
    if !is_due(store) {
        return Ok(());
    }
    let _wait = store.slow.wait_for_room();
    store.counters.stalls.add(1);
    let stall = store.counters.stall(StallReason::Compactions, store.clock.now());
    let is_over = || {
        stall.lasts(store.clock.now());
        !is_due(store)
    };
    let outcome = if store.background.threaded {
        match wait_until(store, Fails::Nothing, is_over) {
            // Paused between two looks.
            Err(Error::Paused) => Ok(()),
            outcome => outcome,
        }
    } else {
        let mut choose = stepping::by_schedule();
        while !is_over() && step_all(store, &mut choose) {}
        store.check_writable()
    };
    stall.lasts(store.clock.now());
    outcome
}

/// True if a flush or a compaction is under way, or to come, and can get done.
fn is_due(store: &Store) -> bool {
    if store.background.pauses() > 0 || store.check_settled().is_err() {
        return false;
    }
    let memtable = store.keyspaces.load().by_name.values().any(|k| !k.view.load().immutable.is_empty());
    let state = store.background.lock();
    let flush = (memtable || !state.flush.is_free()) && state.failed_flush.error().is_none();
    let compaction = state.look_for_work || state.looking > 0 || !state.jobs.is_empty();
    flush || (compaction && state.compaction_error.is_none())
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use super::is_due;
    use crate::base::units::KIB;
    use crate::db::database::Db;
    use crate::db::keyspace::Keyspace;
    use crate::db::opening::builder::Builder;
    use crate::options::Options;
    use crate::storage::fault::{Fault, FaultError, FaultKind};
    use crate::storage::simulated::SimulatedFileSystem;
    use crate::storage::simulated_crash::CrashPolicy;

    fn builder(fs: &SimulatedFileSystem, compaction_first: bool) -> Builder {
        let options = Options {
            memtable_bytes: 64 * KIB,
            table_bytes: 64 * KIB,
            level_base_bytes: 256 * KIB,
            memory_bytes: 64 << 20,
            strategy: Some("lo+1".to_owned()),
            compaction_first,
            ..Options::default()
        };
        Db::builder(Path::new("/db")).file_system(Arc::new(fs.clone())).options(options)
    }

    fn put(keyspace: &Keyspace, i: u64) {
        let key = i.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
        keyspace.put(&key, &[7; 500]).unwrap();
    }

    fn waits(db: &Db) -> u64 {
        let reasons = db.metrics().stalls_by_reason;
        reasons.iter().find(|(reason, ..)| reason == "compactions").unwrap().1
    }

    /// With the option no write ever gets in beside a compaction that is due; without it many do.
    #[test]
    fn a_write_finds_every_tree_in_shape() {
        for compaction_first in [true, false] {
            let db = builder(&SimulatedFileSystem::new(), compaction_first).without_threads().open().unwrap();
            let keyspace = db.keyspace("default").unwrap();
            let mut beside = 0_u64;
            for i in 0..4000 {
                put(&keyspace, i);
                beside += u64::from(is_due(&keyspace.handle.store));
            }
            let metrics = db.metrics();
            if compaction_first {
                assert!(metrics.compactions > 4, "there was something to wait for");
                // The last write of a memtable finds the one before in the tree, and L0 merged.
                assert!(beside <= metrics.flushes + 1, "{beside}");
                assert!(metrics.keyspaces[0].levels[0].runs <= 2);
            } else {
                assert!(beside > 10 * metrics.flushes, "{beside}");
            }
            assert_eq!(waits(&db) > 0, compaction_first);
        }
    }

    #[test]
    fn it_holds_from_the_moment_it_is_set() {
        let db = builder(&SimulatedFileSystem::new(), false).without_threads().open().unwrap();
        let keyspace = db.keyspace("default").unwrap();
        (0..2000).for_each(|i| put(&keyspace, i));
        db.set_option("compaction_first", "true").unwrap();
        put(&keyspace, 2000);
        assert!(!is_due(&keyspace.handle.store));
        assert_eq!(waits(&db), 1);
    }

    /// Beside threads, and where nothing would end a wait: all writes come through.
    #[test]
    fn nobody_waits_for_what_cannot_get_done() {
        let fs = SimulatedFileSystem::new();
        let db = builder(&fs, true).open().unwrap();
        let keyspace = db.keyspace("default").unwrap();
        (0..4000).for_each(|i| put(&keyspace, i));
        assert!(waits(&db) > 0);
        let paused = db.pause_background().unwrap();
        (4000..4050).for_each(|i| put(&keyspace, i));
        drop(paused);
        db.wait_idle().unwrap();
        fs.inject(Fault {
            kind: FaultKind::Write,
            path_contains: ".sst".into(),
            nth: 0,
            error: FaultError::Enospc,
            sticky: true,
        });
        (4050..4180).for_each(|i| put(&keyspace, i));
        fs.clear_faults();
    }

    /// There nothing gets done, and whoever writes is told so.
    #[test]
    fn a_store_that_was_opened_on_a_full_disk_refuses_writes() {
        let fs = SimulatedFileSystem::new();
        let db = builder(&fs, true).without_threads().open().unwrap();
        (0..2000).for_each(|i| put(&db.keyspace("default").unwrap(), i));
        let killed = fs.crash(1, CrashPolicy::KeepAll);
        killed.set_free_space(Some(0));
        let db = builder(&killed, true).open().unwrap();
        assert_eq!(db.put(b"a", b"b").unwrap_err().kind(), "NoSpace");
    }
}
