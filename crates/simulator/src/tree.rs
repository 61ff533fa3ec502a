//! The simulated tree: a `Version` of the engine, changed by the engine's own decisions and edits; only the work is not done.
//!
//! ```text
//! memtable ─► flush ─► look for work ─► pick ─► move by metadata, or a job with claims ─► merge of samples ─► commit
//!                          ▲                                                                   │
//!                          └───────────────────────────────────────────────────────────────────┘
//! ```
//! Which classes may be picked beside open jobs, and which open job comes first, is the engine's rule too. A job is carried out
//! at once and whole: there are no prefixes of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use evenkeel::Result;
use evenkeel::plan::{
    Born, Claims, Class, CommitPart, Committed, Compaction, GroupId, Ids, JobId, Order, Permit, Pick, Picked,
    SeqNo, TableId, TableMeta, TableRef, TreeView, Trigger, Turn, Version, commit_part, end_job, flush,
    move_tables, next_to_step, permitted, pick, set_bounds, set_levels,
};
use evenkeel::strategy::Strategy;

use crate::contents::{Contents, Facts, Sums};
use crate::figures::{Job, Tally};
use crate::merge::Merger;
use crate::tape::{Memtable, Tape};

/// A decided compaction that holds its claims.
#[derive(Debug)]
struct Open {
    id: JobId,
    class: Class,
    compaction: Arc<Compaction>,
    /// Bytes to move until it is done.
    left_bytes: f64,
}

/// A tree under one strategy.
#[derive(Debug)]
pub struct Tree<'a> {
    tape: &'a Tape,
    strategy: &'a Strategy,
    workers: usize,
    version: Version,
    claims: Claims,
    ids: Ids,
    cursors: BTreeMap<usize, Box<[u8]>>,
    contents: Contents,
    merger: Merger,
    jobs: Vec<Open>,
    last_job: u64,
    /// First inputs of jobs that let go once: the next time they do not.
    let_go: BTreeSet<TableId>,
    now_ms: u64,
    /// Bytes of the newest entry of each key, 0 if that is a delete.
    newest: Vec<u64>,
    live_bytes: u64,
    put_bytes: u64,
    /// What it has cost.
    pub tally: Tally,
}

impl<'a> Tree<'a> {
    /// An empty tree.
    pub fn new(tape: &'a Tape, strategy: &'a Strategy, workers: usize) -> Tree<'a> {
        let version = Version::empty(GroupId(1), strategy.levels.get(0, 1).layout.max_runs());
        let with_key_samples = strategy.has_trigger(|t| matches!(t, Trigger::Duplicates { .. }));
        Tree {
            tape,
            strategy,
            workers,
            ids: Ids::above(&version),
            version,
            claims: Claims::default(),
            cursors: BTreeMap::new(),
            contents: Contents::new(with_key_samples),
            merger: Merger::default(),
            jobs: Vec::new(),
            last_job: 0,
            let_go: BTreeSet::new(),
            now_ms: 0,
            newest: vec![0; tape.keys],
            live_bytes: 0,
            put_bytes: 0,
            tally: Tally::default(),
        }
    }

    /// The tree as it is.
    pub fn version(&self) -> &Version {
        &self.version
    }

    /// What tables hold.
    pub fn contents(&self) -> &Contents {
        &self.contents
    }

    /// Superseded bytes of keys and values per byte that is seen.
    pub fn space_amplification(&self) -> f64 {
        match self.live_bytes {
            0 if self.put_bytes == 0 => 0.0,
            0 => f64::from(u16::MAX),
            live => (self.put_bytes.saturating_sub(live)) as f64 / live as f64,
        }
    }

    /// Sampled bytes of keys and values that are seen.
    pub fn live_bytes(&self) -> u64 {
        self.live_bytes
    }

    /// True if no job is open.
    pub fn is_idle(&self) -> bool {
        self.jobs.is_empty()
    }

    /// Milliseconds since the first operation.
    pub fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// A memtable becomes the newest run of the first level.
    ///
    /// # Errors
    /// If the engine refuses the edit, which would be a mistake of this crate.
    pub fn flush(&mut self, memtable: &Memtable) -> Result<()> {
        self.now_ms = memtable.at_ms.max(self.now_ms + 1);
        let sums = Sums::of(&memtable.entries);
        for entry in &memtable.entries {
            let bytes = if entry.delete { 0 } else { entry.user_bytes() };
            let before = std::mem::replace(&mut self.newest[entry.key as usize], bytes);
            self.live_bytes = self.live_bytes + bytes - before;
        }
        self.put_bytes += sums.put_bytes;
        let sizes = &self.tape.sizes;
        let bytes = sizes.in_table(0, memtable.keys as f64, memtable.key_value_bytes as f64);
        let count = (bytes / self.strategy.cut.table_bytes as f64).ceil().max(1.0) as usize;
        let bytes = bytes + sizes.table_bytes * count as f64;
        self.tally.flushed(bytes as u64, count as u64);
        if memtable.entries.is_empty() {
            return Ok(());
        }
        let exact = memtable.keys as f64 / sums.entries.max(1) as f64;
        let mut tables = Vec::with_capacity(count);
        for part in memtable.entries.chunks(memtable.entries.len().div_ceil(count)) {
            let part_sums = Sums::of(part);
            let share = part_sums.entries as f64 / sums.entries.max(1) as f64;
            let facts = Facts {
                bytes: (bytes * share) as u64,
                entries: (part_sums.entries as f64 * exact) as u64,
                tombstones: (part_sums.tombstones as f64 * exact) as u64,
                oldest_tombstone_ms: memtable.first_delete_ms,
                born: Born::Flush,
                now_ms: self.now_ms,
            };
            let mut list = self.contents.list();
            list.extend_from_slice(part);
            tables.push(self.contents.add(list, facts, self.tape));
        }
        let through = tables.iter().map(|t| t.seqs.1).max().unwrap_or(SeqNo(0));
        let mut ids = self.ids;
        let done = flush(&self.version, &self.claims, &mut ids, tables, through, self.now_ms)?;
        self.ids = ids;
        self.install(done);
        Ok(())
    }

    /// Carries out all that is due.
    ///
    /// # Errors
    /// As for [`Tree::flush`].
    pub fn settle(&mut self) -> Result<()> {
        self.work(f64::INFINITY).map(drop)
    }

    /// Moves at most so many bytes for what is due; answers what is left of them.
    ///
    /// # Errors
    /// As for [`Tree::flush`].
    pub fn work(&mut self, mut budget_bytes: f64) -> Result<f64> {
        loop {
            self.look_for_work()?;
            let open = self
                .jobs
                .iter()
                .enumerate()
                .map(|(at, job)| (at, Turn { class: job.class, served: 0, left: 0, due: Duration::MAX }));
            let Some(chosen) = next_to_step(Order::Strict, open) else { return Ok(0.0) };
            let Some(job) = self.jobs.get_mut(chosen) else { return Ok(0.0) };
            let moved = job.left_bytes.min(budget_bytes);
            job.left_bytes -= moved;
            budget_bytes -= moved;
            if job.left_bytes > 0.0 {
                return Ok(0.0);
            }
            self.finish(chosen)?;
        }
    }

    /// Opens jobs while they are permitted and the tree wants them.
    fn look_for_work(&mut self) -> Result<()> {
        loop {
            self.adjust_levels()?;
            let open: Vec<Class> = self.jobs.iter().map(|job| job.class).collect();
            let classes = permitted(&open, self.workers);
            if classes.is_empty() {
                return Ok(());
            }
            let permit = Permit { classes, ..Permit::everything() };
            let space_amp = self.space_amplification();
            let view = TreeView {
                version: &self.version,
                claims: &self.claims,
                cursors: &self.cursors,
                ids: self.ids,
                now_ms: self.now_ms,
                oldest_snapshot: SeqNo::MAX,
                space_amp,
            };
            self.tally.decisions += 1;
            match pick(&view, self.strategy, &permit) {
                Pick::Run(picked) => self.begin(*picked)?,
                Pick::Blocked { by, less_urgent, .. } => {
                    if !self.yield_all(&by, &less_urgent)? {
                        return Ok(());
                    }
                }
                Pick::Nothing => {
                    if let Some(done) = set_bounds(&self.version, &self.claims, self.strategy)? {
                        self.install(done);
                    }
                    return Ok(());
                }
            }
        }
    }

    fn adjust_levels(&mut self) -> Result<()> {
        loop {
            let mut ids = self.ids;
            match set_levels(&self.version, &self.claims, self.strategy, &mut ids)? {
                None => return Ok(()),
                Some(done) => {
                    self.ids = ids;
                    self.install(done);
                }
            }
        }
    }

    /// Moves by metadata, or claims and opens a job.
    fn begin(&mut self, picked: Picked) -> Result<()> {
        self.ids = picked.ids;
        if picked.compaction.trivial_move {
            let done = move_tables(&self.version, &self.claims, &picked, self.now_ms)?;
            self.tally.moved(&picked.compaction);
            self.install(done);
            return Ok(());
        }
        if !picked.before.steps.is_empty() {
            self.version = self.version.apply(&picked.before)?;
        }
        self.last_job += 1;
        let (id, compaction) = (JobId(self.last_job), Arc::new(picked.compaction));
        self.claims.claim(id, Arc::clone(&compaction))?;
        // What is read is written again, about.
        let left_bytes = 2.0 * compaction.input_bytes as f64;
        self.jobs.push(Open { id, class: compaction.class, compaction, left_bytes });
        Ok(())
    }

    /// Less urgent jobs let go of what more urgent work needs; false if some do not.
    fn yield_all(&mut self, by: &[JobId], less_urgent: &[JobId]) -> Result<bool> {
        let seed = |job: &Open| job.compaction.tables().next().map(TableRef::id);
        let may = |job: &Open| {
            less_urgent.contains(&job.id) && seed(job).is_none_or(|seed| !self.let_go.contains(&seed))
        };
        let holders: Vec<&Open> = self.jobs.iter().filter(|job| by.contains(&job.id)).collect();
        if holders.is_empty() || !holders.iter().all(|job| may(job)) {
            return Ok(false);
        }
        let seeds: Vec<TableId> = holders.iter().filter_map(|job| seed(job)).collect();
        self.let_go.extend(seeds);
        for id in by {
            let done = end_job(&self.version, &self.claims, *id)?;
            self.claims.release(*id);
            self.install(done);
        }
        self.jobs.retain(|job| !by.contains(&job.id));
        Ok(true)
    }

    /// Does a job's work.
    fn finish(&mut self, chosen: usize) -> Result<()> {
        let Open { id, compaction, .. } = self.jobs.remove(chosen);
        let taken: u64 = compaction.tables().map(|t| Sums::of(self.contents.of(t.id())).put_bytes).sum();
        self.put_bytes -= taken;
        // A job takes some time, so that tables differ in their age.
        self.now_ms += 1;
        let oldest_tombstone_ms = compaction.tables().filter_map(|t| t.meta.oldest_tombstone_ms).min();
        let merged = self.merger.merge(&compaction, &mut self.contents, &self.tape.sizes);
        let mut outputs: Vec<Vec<Arc<TableMeta>>> = vec![Vec::new(); compaction.slots.len()];
        let (mut written, tables_out) = (0, merged.len());
        for output in merged {
            let bytes = output.sums.table_bytes(&self.tape.sizes, compaction.target_level) as u64;
            written += bytes;
            self.put_bytes += output.sums.put_bytes;
            let facts = Facts {
                bytes,
                entries: output.sums.entries,
                tombstones: output.sums.tombstones,
                oldest_tombstone_ms,
                born: Born::Merge,
                now_ms: self.now_ms,
            };
            let meta = self.contents.add(output.entries, facts, self.tape);
            if let Some(slot) = outputs.get_mut(output.slot) {
                slot.push(meta);
            }
        }
        let part = CommitPart { outputs, cut: None, consumed: Vec::new(), ends: true };
        let done = commit_part(&self.version, &self.claims, id, &part, self.now_ms)?;
        self.claims.release(id);
        self.install(done);
        if let Some(seed) = compaction.tables().next() {
            self.let_go.remove(&seed.id());
        }
        self.tally.done(Job {
            level: compaction.level,
            target_level: compaction.target_level,
            class: compaction.class,
            read_bytes: compaction.input_bytes,
            written_bytes: written,
            tables: (compaction.tables().count() + tables_out) as u64,
        });
        Ok(())
    }

    fn install(&mut self, done: Committed) {
        done.edit.move_cursors(&mut self.cursors);
        self.version = done.version;
    }
}
