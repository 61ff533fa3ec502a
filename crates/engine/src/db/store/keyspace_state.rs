//! What one keyspace is in memory: the view that readers take, and its settings.
//!
//! A view is one consistent picture, immutable: swapped whole when a memtable fills up or a tree changes. Readers load it without
//! a lock; whoever swaps it holds `swapping`, so that a memtable switch and an install do not lose each other's change.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, Weak};
use std::time::Duration;

use arc_swap::ArcSwap;

use super::gate::{DrainMeter, Gate};
use super::heat::Heat;
use super::snapshots::{Kept, Snapshots};
use crate::base::locks::{Mutex, others_may_go_on};
use crate::base::units::{KeyspaceId, SeqNo};
use crate::compaction::due::Expiring;
use crate::compaction::duplicates::space_amplification;
use crate::compaction::strategy::Strategy;
use crate::hotness::access_window::Operations;
use crate::options::TableStyle;
use crate::version::version::Version;
use crate::write::memtable::{Memtable, full_from};

/// The name of the keyspace that always exists.
pub const DEFAULT_NAME: &str = "default";

/// How often it is found out what a time for deletes asks for: a tenth of a second is little of any.
const EXPIRING_EVERY: Duration = Duration::from_millis(100);

/// At which size a keyspace's memtables are flushed.
#[derive(Clone, Copy, Debug)]
pub struct MemtableBytes {
    /// Its own, which holds whatever the store's is.
    pub own: Option<u64>,
    /// The store's.
    pub of_store: u64,
}

impl MemtableBytes {
    /// The one that counts.
    pub fn get(self) -> u64 {
        self.own.unwrap_or(self.of_store)
    }
}

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

impl ReadView {
    /// True if everything is in tables.
    pub fn is_flushed(&self) -> bool {
        self.immutable.is_empty() && self.active.is_empty()
    }

    /// Bytes that wait to be flushed.
    pub fn waiting_bytes(&self) -> u64 {
        self.immutable.iter().map(|memtable| memtable.bytes()).sum()
    }

    /// Bytes in memtables, with the active one.
    pub fn bytes_in_memory(&self) -> u64 {
        self.waiting_bytes() + self.active.bytes()
    }
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
    /// Its writes do not go to the log.
    pub no_wal: bool,
    /// How its tables are written where it differs from the store's settings.
    pub style: TableStyle,
    /// What readers see.
    pub view: ArcSwap<ReadView>,
    /// Its strategy; swapping it is all that changing it takes.
    pub strategy: ArcSwap<NamedStrategy>,
    /// Its memtables are flushed at this size; always, or until the store's changes.
    memtable_bytes: AtomicU64,
    /// The size of its own, if it has one.
    pub memtable_bytes_own: Option<u64>,
    /// Where its writers wait for their turn.
    pub gate: Gate,
    /// What its reads teach.
    pub heat: Heat,
    /// How fast its L0 drains.
    pub l0_drain: DrainMeter,
    /// Runs and bytes in L0: what admission looks at. Stored with each new tree.
    l0_runs: AtomicUsize,
    l0_bytes: AtomicU64,
    /// Since when L0 is due and waits for a place, and for nothing else.
    l0_waits_since: Mutex<Option<Duration>>,
    /// What its time for deletes asks for, and when that was found out.
    expiring: Mutex<Option<(Duration, Expiring)>>,
    /// Bytes of memtables that have become immutable.
    sealed_bytes: AtomicU64,
    swapping: Mutex<()>,
    /// What was last looked at for tables under range tombstones: the tree, and the snapshots open then.
    covered_checked: Mutex<Option<(Weak<Version>, Vec<SeqNo>)>>,
    /// Superseded bytes per other byte, of which tree.
    space_amp: Mutex<(Weak<Version>, f64)>,
    /// What it held when it was dropped, for snapshots up to that sequence; kept as long as one of them is open.
    dropped: OnceLock<(SeqNo, Weak<ReadView>)>,
}

impl KeyspaceState {
    /// A keyspace with this view.
    pub fn new(
        id: KeyspaceId,
        name: String,
        memtable: MemtableBytes,
        no_wal: bool,
        style: TableStyle,
        view: ReadView,
        strategy: NamedStrategy,
    ) -> KeyspaceState {
        // What was there before counts from now on, wherever it moves.
        view.version.tables().for_each(|(_, table)| table.meta.access.begin(Operations::default()));
        KeyspaceState {
            gate: Gate::default(),
            heat: Heat::default(),
            l0_drain: DrainMeter::of_l0(),
            l0_runs: AtomicUsize::new(l0_runs(&view.version)),
            l0_bytes: AtomicU64::new(l0_bytes(&view.version)),
            l0_waits_since: Mutex::new(None),
            expiring: Mutex::new(None),
            sealed_bytes: AtomicU64::new(0),
            id,
            name,
            no_wal,
            memtable_bytes: AtomicU64::new(memtable.get()),
            memtable_bytes_own: memtable.own,
            style,
            view: ArcSwap::from_pointee(view),
            strategy: ArcSwap::from_pointee(strategy),
            swapping: Mutex::new(()),
            covered_checked: Mutex::new(None),
            space_amp: Mutex::new((Weak::new(), 0.0)),
            dropped: OnceLock::new(),
        }
    }

    /// Replaces the view by a changed copy.
    pub fn update_view(&self, change: impl FnOnce(&mut ReadView)) {
        // The old one goes when others may change it again: a whole version may go with it.
        let _old = {
            let _swapping = self.swapping.lock().unwrap_or_else(PoisonError::into_inner);
            let mut view = ReadView::clone(&self.view.load());
            change(&mut view);
            others_may_go_on();
            self.view.swap(Arc::new(view))
        };
    }

    /// A view that holds everything up to `at`, for a snapshot: of a keyspace dropped since, what it held.
    pub fn view_for_snapshot(&self, at: SeqNo) -> Arc<ReadView> {
        // The view first: whoever sees the empty one sees why.
        let view = self.view.load_full();
        others_may_go_on();
        match self.dropped.get() {
            Some((last, held)) if at <= *last => held.upgrade().unwrap_or(view),
            _ => view,
        }
    }

    /// The keyspace was dropped: it reads as empty, except for those of these snapshots that are open.
    pub fn drop_contents(&self, snapshots: &Snapshots) {
        // The caller lets nobody change it meanwhile. What only this has goes when the list of snapshots is free again.
        let held = self.view.load_full();
        let (_, empty) = Memtable::new(b"", 0, held.active.memory());
        snapshots.take_from_others(|last| {
            let kept = last.map(|last| {
                self.dropped.get_or_init(|| (last, Arc::downgrade(&held)));
                Arc::clone(&held) as Kept
            });
            self.update_view(|view| {
                *view = ReadView { active: empty, immutable: Vec::new(), version: Arc::default() }
            });
            kept
        });
        self.set_l0(&Version::default());
    }

    /// Its memtables are flushed at this size.
    #[inline]
    pub fn memtable_bytes(&self) -> u64 {
        self.memtable_bytes.load(Ordering::Relaxed)
    }

    /// True if a memtable of so many bytes is full.
    pub fn is_full(&self, bytes: u64) -> bool {
        bytes >= full_from(self.memtable_bytes())
    }

    /// Changes the size at which its memtables are flushed; the active one follows.
    pub fn set_memtable_bytes(&self, bytes: u64) {
        self.memtable_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Runs in L0.
    #[inline]
    pub fn l0_runs(&self) -> usize {
        self.l0_runs.load(Ordering::Relaxed)
    }

    /// Runs and bytes in L0.
    pub fn l0(&self) -> (u64, u64) {
        (self.l0_runs() as u64, self.l0_bytes.load(Ordering::Relaxed))
    }

    /// A memtable of so many bytes has become immutable, and is so in the view.
    pub fn sealed(&self, bytes: u64) {
        self.sealed_bytes.fetch_add(bytes, Ordering::Release);
    }

    /// Bytes that have come into its memtables. Never too many, but while one becomes immutable for a moment too few.
    pub fn ingested(&self) -> u64 {
        let sealed = self.sealed_bytes.load(Ordering::Acquire);
        sealed + self.view.load().active.bytes()
    }

    /// Notes what is in L0 of a new tree.
    pub fn set_l0(&self, version: &Version) {
        self.l0_runs.store(l0_runs(version), Ordering::Relaxed);
        self.l0_bytes.store(l0_bytes(version), Ordering::Relaxed);
    }

    /// L0 is due at this time, and waits for a place alone; or it does not. Answers since when it has until now.
    pub fn note_l0_wait(&self, waits: Option<Duration>) -> Option<Duration> {
        let mut since = self.l0_waits_since.lock().unwrap_or_else(PoisonError::into_inner);
        let before = *since;
        *since = waits.map(|now| before.unwrap_or(now));
        before
    }

    /// True if L0 is noted to wait for a place.
    pub fn l0_waits(&self) -> bool {
        self.l0_waits_since.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// What its time for deletes asks for, found out again each tenth of a second: many tables may have to be looked at for it.
    pub fn expiring(&self, now: Duration, find: impl FnOnce() -> Expiring) -> Expiring {
        let mut known = self.expiring.lock().unwrap_or_else(PoisonError::into_inner);
        match *known {
            Some((since, expiring)) if now.saturating_sub(since) < EXPIRING_EVERY => expiring,
            _ => {
                let expiring = find();
                *known = Some((now, expiring));
                expiring
            }
        }
    }

    /// True if this tree has not been looked at for tables under range tombstones with these snapshots; from then on it has.
    pub fn take_covered_check(&self, version: &Arc<Version>, snapshots: &[SeqNo]) -> bool {
        let mut checked = self.covered_checked.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((last, open)) = &*checked
            && last.as_ptr() == Arc::as_ptr(version)
            && open == snapshots
        {
            return false;
        }
        *checked = Some((Arc::downgrade(version), snapshots.to_vec()));
        true
    }

    /// Superseded bytes per other byte, as last estimated.
    pub fn space_amp(&self) -> f64 {
        self.space_amp.lock().unwrap_or_else(PoisonError::into_inner).1
    }

    /// Estimates how much of its tree is superseded, unless that is known.
    pub fn estimate_space_amp(&self) -> f64 {
        let version = Arc::clone(&self.view.load().version);
        let mut known = self.space_amp.lock().unwrap_or_else(PoisonError::into_inner);
        if known.0.as_ptr() != Arc::as_ptr(&version) {
            *known = (Arc::downgrade(&version), space_amplification(&version));
        }
        known.1
    }

    /// Sequence of the oldest write that is in the log and not in tables; `None` if all are in tables, or none is in the log.
    pub fn oldest_logged(&self) -> Option<SeqNo> {
        if self.no_wal {
            return None;
        }
        let view = self.view.load();
        view.immutable.iter().rev().chain([&view.active]).find_map(|m| m.first_seq())
    }
}

fn l0_runs(version: &Version) -> usize {
    version.levels.first().map_or(0, |level| level.groups.iter().map(|g| g.run_count()).max().unwrap_or(0))
}

fn l0_bytes(version: &Version) -> u64 {
    version.levels.first().map_or(0, crate::version::level::Level::bytes)
}
