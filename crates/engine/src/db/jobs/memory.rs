//! The memory budget, enforced: `memory_bytes` over memtables, block cache, tables' indexes and filters, cursors, jobs, batches.
//!
//! ```text
//! memory_bytes  │ memtables │ jobs, cursors, batches │ indexes, filters │ blocks … │
//!                └─ grows ──────────────────────────►                  ◄─ yields ──┘
//! ```
//! The cache has what the others leave, at most `cache_bytes`: it is cut before the others grow. When memtables hold half of
//! what may be theirs, the largest is flushed early, and writers are slowed (`admission.rs`).

use crate::base::units::KeyspaceId;
use crate::db::store::commit_state::CommitState;
use crate::db::store::state::Store;
use crate::observe::memory::MemoryClass;

/// Memory in use at one moment, in bytes by class, and the limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryMetrics {
    /// Memtables: active, waiting, being flushed, held by readers, and spare memory for the next.
    pub memtables: u64,
    /// Data blocks in the cache, those that readers still have, and memory that the next will fill.
    pub blocks: u64,
    /// Indexes and filters of open tables, and pieces of them that scans and jobs read ahead.
    pub tables: u64,
    /// Cursors: pinned blocks and own buffers.
    pub cursors: u64,
    /// Buffers of open jobs, paused ones included.
    pub jobs: u64,
    /// Large batches on their way.
    pub batches: u64,
    /// Option `memory_bytes`.
    pub limit: u64,
}

impl MemoryMetrics {
    /// All classes together.
    pub fn total(&self) -> u64 {
        self.blocks + self.yields_to()
    }

    /// What blocks yield to.
    fn yields_to(&self) -> u64 {
        self.memtables + self.tables + self.cursors + self.jobs + self.batches
    }

    /// What may be the memtables'. Never nothing: a store that has less memory than its readers take still takes writes.
    pub fn for_memtables(&self) -> u64 {
        let others = self.tables + self.cursors + self.jobs + self.batches;
        self.limit.saturating_sub(others).max(self.limit / 8)
    }
}

/// Memory in use now.
pub fn in_use(store: &Store) -> MemoryMetrics {
    let (budget, cache) = (&store.memory, store.tables.block_cache());
    MemoryMetrics {
        memtables: budget.used(MemoryClass::Memtables),
        blocks: cache.block_bytes(),
        tables: cache.table_bytes(),
        cursors: budget.cursors(),
        jobs: budget.used(MemoryClass::Jobs),
        batches: budget.used(MemoryClass::Batches),
        limit: store.options.load().memory_bytes,
    }
}

/// Gives the cache what the others leave.
pub fn fit_cache(store: &Store) {
    let (budget, options) = (&store.memory, store.options.load());
    let others = budget.used(MemoryClass::Memtables)
        + budget.used(MemoryClass::Jobs)
        + budget.used(MemoryClass::Batches)
        + budget.cursors();
    let capacity = options.cache_bytes.min(options.memory_bytes.saturating_sub(others));
    let cache = store.tables.block_cache();
    if cache.capacity() != capacity {
        cache.set_capacity(capacity);
    }
}

/// For the flush lane, which never waits for the commit lock: whoever has it may be waiting for a flush, and a leader who has it
/// looks by itself each time a memtable has grown by a part.
pub fn flush_early(store: &Store) {
    if let Some(largest) = largest_for_memory(store)
        && let Some(mut commit) = store.try_commit_state()
    {
        switch_early(store, &mut commit, largest);
    }
}

/// The same for the leader; it wakes the lane.
pub fn flush_early_as_leader(store: &Store, commit: &mut CommitState) {
    if let Some(largest) = largest_for_memory(store) {
        switch_early(store, commit, largest);
        store.background.wake_flusher();
    }
}

/// When memtables hold half of what may be theirs and none is on its way to a table: the keyspace that has the largest.
fn largest_for_memory(store: &Store) -> Option<KeyspaceId> {
    let memory = in_use(store);
    if memory.memtables < memory.for_memtables() / 2 {
        return None;
    }
    let keyspaces = store.keyspaces.load();
    if keyspaces.by_name.values().any(|k| !k.view.load().immutable.is_empty()) {
        return None;
    }
    let active = || keyspaces.by_name.values().map(|k| (k.view.load().active.bytes(), k.id));
    let (bytes, largest) = active().max_by_key(|(bytes, _)| *bytes)?;
    // Readers may hold what was flushed: then the sum stays high, and nothing is won by flushing crumbs. Many keyspaces that have
    // little each are no crumbs together.
    let all: u64 = active().map(|(bytes, _)| bytes).sum();
    (bytes >= memory.for_memtables() / 16 || all >= memory.memtables / 2).then_some(largest)
}

fn switch_early(store: &Store, commit: &mut CommitState, largest: KeyspaceId) {
    if let Some(open) = commit.memtable(largest)
        && !open.writer.table().is_empty()
    {
        open.switch(store.clock.now());
        store.counters.early_flushes.add(1);
    }
}
