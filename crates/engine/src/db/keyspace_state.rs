//! What one keyspace is in memory: the view that readers take, and its settings.
//!
//! A view is one consistent picture, immutable: swapped whole when a memtable fills up or a tree changes. Readers load it without
//! a lock; whoever swaps it holds `swapping`, so that a memtable switch and an install do not lose each other's change.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use arc_swap::ArcSwap;

use crate::base::units::{KeyspaceId, SeqNo};
use crate::compaction::strategy::Strategy;
use crate::version::version::Version;
use crate::write::memtable::Memtable;

/// All there is to read of a keyspace at a moment.
#[derive(Clone, Debug)]
pub struct ReadView {
    /// Takes the writes.
    pub active: Arc<Memtable>,
    /// Waiting to be flushed, newest first.
    pub immutable: Vec<Arc<Memtable>>,
    /// The tables.
    pub version: Arc<Version>,
}

/// A keyspace's strategy, and what the user called it.
#[derive(Clone, Debug)]
pub struct NamedStrategy {
    /// A name of the catalogue, or a strategy line.
    pub text: String,
    /// What it says, with the sizes of the options.
    pub strategy: Strategy,
}

/// One keyspace.
#[derive(Debug)]
pub struct KeyspaceState {
    /// Its id.
    pub id: KeyspaceId,
    /// Its name.
    pub name: String,
    /// Its memtables are flushed at this size.
    pub memtable_bytes: u64,
    /// What readers see.
    pub view: ArcSwap<ReadView>,
    /// Its strategy; swapping it is all that changing it takes.
    pub strategy: ArcSwap<NamedStrategy>,
    /// Runs in L0: what writers look at. Stored with each new tree.
    l0_runs: AtomicUsize,
    swapping: Mutex<()>,
    /// What it held when it was dropped, and the last sequence then: for snapshots that are older.
    dropped: OnceLock<(SeqNo, Arc<ReadView>)>,
}

impl KeyspaceState {
    /// A keyspace with this view.
    pub fn new(
        id: KeyspaceId,
        name: String,
        memtable_bytes: u64,
        view: ReadView,
        strategy: NamedStrategy,
    ) -> KeyspaceState {
        let l0_runs = AtomicUsize::new(l0_runs(&view.version));
        KeyspaceState {
            l0_runs,
            id,
            name,
            memtable_bytes,
            view: ArcSwap::from_pointee(view),
            strategy: ArcSwap::from_pointee(strategy),
            swapping: Mutex::new(()),
            dropped: OnceLock::new(),
        }
    }

    /// Replaces the view by a changed copy.
    pub fn update_view(&self, change: impl FnOnce(&mut ReadView)) {
        let _swapping = self.swapping.lock().unwrap_or_else(PoisonError::into_inner);
        let mut view = ReadView::clone(&self.view.load());
        change(&mut view);
        self.view.store(Arc::new(view));
    }

    /// A view that holds everything up to `at`, for a snapshot: of a keyspace dropped since, what it held.
    pub fn view_for_snapshot(&self, at: SeqNo) -> Arc<ReadView> {
        match self.dropped.get() {
            Some((last, view)) if at <= *last => Arc::clone(view),
            _ => self.view.load_full(),
        }
    }

    /// The keyspace was dropped: it reads as empty, except for snapshots up to `last`, if there are any.
    pub fn drop_contents(&self, last: Option<SeqNo>) {
        if let Some(last) = last {
            self.dropped.get_or_init(|| (last, self.view.load_full()));
        }
        let (_, empty) = Memtable::new(b"", 0);
        self.update_view(|view| {
            *view = ReadView { active: empty, immutable: Vec::new(), version: Arc::default() }
        });
    }

    /// Runs in L0.
    #[inline]
    pub fn l0_runs(&self) -> usize {
        self.l0_runs.load(Ordering::Relaxed)
    }

    /// Notes the runs in L0 of a new tree.
    pub fn set_l0_runs(&self, version: &Version) {
        self.l0_runs.store(l0_runs(version), Ordering::Relaxed);
    }

    /// Sequence of the oldest write that is not in tables; `None` if all are.
    pub fn oldest_unflushed(&self) -> Option<SeqNo> {
        let view = self.view.load();
        view.immutable.iter().rev().chain([&view.active]).find_map(|m| m.first_seq())
    }
}

fn l0_runs(version: &Version) -> usize {
    version.levels.first().map_or(0, |level| level.groups.iter().map(|g| g.run_count()).max().unwrap_or(0))
}
