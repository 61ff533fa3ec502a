//! The world of the twin test: the production picker, placement, closure, claims, commit and Version over tables whose
//! entries are kept in memory, beside a plain map that always knows the answer. The Rust twin of the design's model.
//!
//! One thread steps everything in an order drawn from a seed: writers, flushes of several memtables, jobs of random and of
//! catalogue shapes, prefix commits, yields, discards, moves by metadata, group edits, strategy switches, crashes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::catalog::{CATALOG, strategy};
use super::claims::Claims;
use super::closure::TablePos;
use super::commit::{CommitPart, Committed, commit_part, end_job, flush, move_tables, recover};
use super::compaction::{Compaction, SlotPlace};
use super::picker::{Pick, manual, pick};
use super::placement::{Direction, Drafted, Picked, Plan, draft_at};
use super::strategy::{CutRule, SizeRule, Strategy};
use super::tree_view::{Ids, TreeView};
use crate::base::class::{Class, Permit};
use crate::base::coding::Decoder;
use crate::base::key_range::{KeyRange, after};
use crate::base::units::{GroupId, JobId, SeqNo, TableId};
use crate::table::meta::{Born, TableMeta};
use crate::version::check::{check, check_order};
use crate::version::edit::{EditStep, VersionEdit};
use crate::version::picture::draw_full;
use crate::version::picture_parse::fabricated_meta;
use crate::version::run::TableRef;
use crate::version::version::Version;

/// How many keys there are.
pub const KEYS: usize = 32;
const GROUP_EDITOR: JobId = JobId(u64::MAX);

/// A sequence and a value; no value is a tombstone.
type Entry = (u64, Option<u64>);
/// Entries by key, newest first.
type Entries = Vec<Vec<Entry>>;
type Answers = BTreeMap<usize, u64>;

/// A rule that is switched off, to show that the test can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    Nothing,
    /// Tombstones are dropped whatever lies below.
    Tombstones,
    /// Outputs span gaps between inputs.
    Gaps,
}

/// What has happened; every one must, over enough seeds.
#[derive(Clone, Debug, Default)]
pub struct Stats(pub BTreeMap<&'static str, u64>);

impl Stats {
    pub fn count(&mut self, what: &'static str) {
        *self.0.entry(what).or_default() += 1;
    }
}

/// Small random numbers, the same for the same seed (splitmix64).
pub struct Chance(pub u64);

impl Chance {
    pub fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % n.max(1) as u64) as usize
    }

    pub fn once_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub fn one_of<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        items.get(self.below(items.len()))
    }
}

/// A running attempt at a compaction.
struct Running {
    compaction: Arc<Compaction>,
    /// The next key to merge.
    next: usize,
    /// Sealed outputs since the last commit, by slot.
    outputs: Vec<Vec<Arc<TableMeta>>>,
    /// The output being filled, and its slot.
    part: (usize, Vec<(usize, Vec<Entry>)>),
    /// Keys below this one are sealed.
    sealed: usize,
    /// Keys below this one are committed.
    committed: usize,
}

/// Everything.
pub struct World {
    pub chance: Chance,
    pub version: Version,
    pub claims: Claims,
    pub stats: Stats,
    broken: Broken,
    strategy: Strategy,
    ids: Ids,
    cursors: BTreeMap<usize, Box<[u8]>>,
    tables: Vec<Entries>,
    running: BTreeMap<JobId, Running>,
    next_job: u64,
    memtables: VecDeque<Entries>,
    seq: u64,
    answers: Answers,
    snapshots: BTreeMap<u64, Answers>,
    manifest: Vec<Vec<u8>>,
}

pub fn key(i: usize) -> [u8; 3] {
    [b'k', b'a' + (i / 26) as u8, b'a' + (i % 26) as u8]
}

/// The number of keys below `bound`.
fn index_of(bound: &[u8]) -> usize {
    (0..KEYS).position(|i| &key(i)[..] >= bound).unwrap_or(KEYS)
}

fn no_entries() -> Entries {
    vec![Vec::new(); KEYS]
}

pub fn small_strategy(chance: &mut Chance) -> Strategy {
    let row = chance.one_of(CATALOG).unwrap();
    let mut strategy = strategy(row.name).unwrap();
    strategy.size = SizeRule { l0_bytes: 300, level_base_bytes: 200, level_ratio: 3 };
    strategy.cut = CutRule { table_bytes: 60 };
    strategy
}

impl World {
    pub fn new(seed: u64, broken: Broken) -> World {
        let mut chance = Chance(seed);
        let strategy = small_strategy(&mut chance);
        let version = Version::empty(GroupId(1), 4);
        let mut world = World {
            ids: Ids::above(&version),
            version,
            claims: Claims::default(),
            stats: Stats::default(),
            broken,
            strategy,
            cursors: BTreeMap::new(),
            tables: Vec::new(),
            running: BTreeMap::new(),
            next_job: 1,
            memtables: VecDeque::from([no_entries()]),
            seq: 0,
            answers: Answers::new(),
            snapshots: BTreeMap::new(),
            manifest: Vec::new(),
            chance,
        };
        world.log(&VersionEdit::snapshot_of(&world.version));
        for _ in 0..world.chance.below(4) {
            let group = world.ids.group();
            world
                .edit(VersionEdit {
                    steps: vec![EditStep::AddLevel { group, run_bound: 1 }],
                    ..VersionEdit::default()
                })
                .unwrap();
        }
        world
    }

    /// One random action, then every check.
    pub fn step(&mut self) -> Result<(), String> {
        match self.chance.below(100) {
            0..34 => self.write(),
            34..44 => self.flush_oldest()?,
            44..54 => self.start_random()?,
            54..64 => self.start_picked()?,
            64..89 => self.step_some_job()?,
            89..91 => self.end_some_job()?,
            91..93 => drop(self.snapshots.insert(self.seq, self.answers.clone())),
            93..95 => self.release_snapshot(),
            95..97 => self.edit_group()?,
            97 => self.strategy = small_strategy(&mut self.chance),
            98 => self.memtables.push_back(no_entries()),
            _ => self.crash_perhaps()?,
        }
        self.check()
    }

    fn write(&mut self) {
        for _ in 0..=self.chance.below(5) {
            let k = self.chance.below(KEYS);
            self.seq += 1;
            let value = (!self.chance.once_in(3)).then_some(self.seq);
            self.memtables.back_mut().unwrap()[k].insert(0, (self.seq, value));
            match value {
                Some(v) => drop(self.answers.insert(k, v)),
                None => drop(self.answers.remove(&k)),
            }
        }
    }

    /// Of each stripe between snapshots only the newest entry stays (I5).
    fn retained(&self, entries: &[Entry]) -> Vec<Entry> {
        let mut out: Vec<Entry> = Vec::new();
        let mut last = None;
        for entry in entries {
            let stripe = self.snapshots.range(entry.0..).next().map(|(s, _)| *s);
            if last != Some(stripe) {
                out.push(*entry);
                last = Some(stripe);
            }
        }
        out
    }

    fn make_table(&mut self, part: &[(usize, Vec<Entry>)], born: Born) -> Arc<TableMeta> {
        let id = self.tables.len() as u64;
        let mut entries = no_entries();
        for (k, list) in part {
            entries[*k] = list.clone();
        }
        self.tables.push(entries);
        let all = || part.iter().flat_map(|(_, list)| list);
        let mut meta = fabricated_meta(id, &key(part.first().unwrap().0), &key(part.last().unwrap().0));
        meta.entries = all().count() as u64;
        meta.keys = part.len() as u64;
        meta.bytes = meta.entries * 10;
        meta.seqs = (SeqNo(all().map(|e| e.0).min().unwrap()), SeqNo(all().map(|e| e.0).max().unwrap()));
        meta.tombstones = all().filter(|e| e.1.is_none()).count() as u64;
        meta.born = born;
        Arc::new(meta)
    }

    fn flush_oldest(&mut self) -> Result<(), String> {
        if self.memtables.len() == 1 {
            self.memtables.push_back(no_entries());
        }
        let Some(memtable) = self.memtables.pop_front() else { return Ok(()) };
        let mut parts: Vec<Vec<(usize, Vec<Entry>)>> = Vec::new();
        let mut open = false;
        for (k, entries) in memtable.iter().enumerate() {
            let cut = self.version.levels[0].groups.iter().any(|g| *g.range.lo == key(k));
            if entries.is_empty() {
                open &= !cut;
                continue;
            }
            if !open || cut || self.chance.once_in(8) {
                parts.push(Vec::new());
                open = true;
            }
            let kept = self.retained(entries);
            parts.last_mut().unwrap().push((k, kept));
        }
        let tables: Vec<_> = parts.iter().map(|p| self.make_table(p, Born::Flush)).collect();
        self.stats.count("flush");
        let mut ids = self.ids;
        let done = flush(&self.version, &self.claims, &mut ids, tables, SeqNo(self.seq), 0);
        self.ids = ids;
        self.install(done.map_err(|e| e.to_string())?);
        Ok(())
    }

    fn log(&mut self, edit: &VersionEdit) {
        let mut bytes = Vec::new();
        edit.encode(&mut bytes);
        self.manifest.push(bytes);
    }

    fn install(&mut self, done: Committed) {
        for step in &done.edit.steps {
            match step {
                EditStep::FuseRuns { .. } => self.stats.count("fuse"),
                EditStep::TrimTable { .. } => self.stats.count("trim"),
                EditStep::AddLevel { .. } => self.stats.count("level born"),
                _ => {}
            }
        }
        self.log(&done.edit);
        self.claims.committed(&done.edit);
        self.cursors.extend(done.edit.cursors.iter().cloned());
        self.version = done.version;
    }

    fn edit(&mut self, edit: VersionEdit) -> Result<(), String> {
        let version = self.version.apply(&edit).map_err(|e| e.to_string())?;
        self.install(Committed { edit, version });
        Ok(())
    }

    // ---- jobs

    /// A random seed with a random place, closed by the production closure.
    fn start_random(&mut self) -> Result<(), String> {
        let level = self.chance.below(self.version.levels.len());
        let groups = &self.version.levels[level].groups;
        let group = self.chance.below(groups.len());
        let runs = groups[group].runs.clone();
        let run = self.chance.below(runs.len());
        let Some(found) = runs.get(run).filter(|r| !r.tables.is_empty()) else { return Ok(()) };
        let mut seed = BTreeSet::new();
        let mut whole = |run: usize, n: usize| {
            seed.extend((0..n).map(|table| TablePos { level, group, run, table }));
        };
        let same_level = self.chance.once_in(3);
        if self.chance.once_in(3) {
            runs.iter().enumerate().take(if same_level { run + 1 } else { runs.len() }).for_each(|(r, f)| {
                whole(r, f.tables.len());
            });
        } else if self.chance.once_in(2) {
            whole(run, found.tables.len());
        } else {
            seed.insert(TablePos { level, group, run, table: self.chance.below(found.tables.len()) });
        }
        let levels = self.version.levels.len();
        let (to, target) = if same_level {
            (Direction::Collapse { group, run }, level)
        } else {
            let target = if levels < 5 { level + 1 + self.chance.below(2) } else { level + 1 };
            (Direction::Down, target.min(levels))
        };
        if target >= 6 {
            return Ok(());
        }
        let plan = Plan {
            class: Class::Deep,
            reason: "chance".to_owned(),
            level,
            seed: seed.into_iter().collect(),
            to,
            cursor: None,
            may_move: true,
        };
        let salt = self.chance.below(1 << 20);
        let place = |index: usize, group: &crate::version::group::Group| {
            let mut chance = Chance((salt + index) as u64);
            let some = group.runs.get(chance.below(group.runs.len()));
            match (to, some) {
                (Direction::Collapse { run, .. }, _) => Some(SlotPlace::Collapse(group.runs.get(run)?.id)),
                (Direction::Down, None) => Some(SlotPlace::First),
                (Direction::Down, Some(run)) if chance.once_in(2) => Some(SlotPlace::Into(run.id)),
                (Direction::Down, Some(run)) => Some(SlotPlace::Above(run.id)),
            }
        };
        let (strategy, cursors) = (self.strategy.clone(), self.cursors.clone());
        let view = self.view(&cursors);
        let Drafted::Ready(picked) = draft_at(&view, &strategy, &plan, target, &place) else { return Ok(()) };
        let by = self.claims.blockers(&picked.compaction);
        self.take(if by.is_empty() { Pick::Run(picked) } else { Pick::Blocked { want: picked, by } }, true)
    }

    fn view<'a>(&'a self, cursors: &'a BTreeMap<usize, Box<[u8]>>) -> TreeView<'a> {
        TreeView { version: &self.version, claims: &self.claims, cursors, ids: self.ids, now_ms: 0 }
    }

    fn start_picked(&mut self) -> Result<(), String> {
        let (strategy, cursors) = (self.strategy.clone(), self.cursors.clone());
        let by_hand = self.chance.once_in(10);
        let level = self.chance.below(self.version.levels.len());
        let (a, b) = (self.chance.below(KEYS), self.chance.below(KEYS));
        let range = KeyRange::new(&key(a.min(b)), Some(&key(a.max(b))));
        let before = TableId(self.tables.len() as u64);
        let picked = {
            let view = self.view(&cursors);
            if by_hand {
                manual(&view, &strategy, &range, level, before)
            } else {
                pick(&view, &strategy, &Permit::everything())
            }
        };
        self.take(picked, false)
    }

    fn take(&mut self, picked: Pick, random: bool) -> Result<(), String> {
        match picked {
            Pick::Nothing => Ok(()),
            Pick::Blocked { by, .. } => {
                self.stats.count("blocked");
                match self.chance.below(3) {
                    0 => self.end(by[0], true),
                    1 => self.end(by[0], false),
                    _ => Ok(()),
                }
            }
            Pick::Run(picked) => self.start(*picked, random),
        }
    }

    fn start(&mut self, picked: Picked, random: bool) -> Result<(), String> {
        self.ids = picked.ids;
        if picked.compaction.trivial_move && !self.chance.once_in(4) {
            self.stats.count("move");
            let done = move_tables(&self.version, &self.claims, &picked, 0).map_err(|e| e.to_string())?;
            self.install(done);
            return Ok(());
        }
        self.edit(picked.before)?;
        self.stats.count(match picked.compaction.slots.first().map(|s| s.place) {
            Some(SlotPlace::Into(_)) => "into",
            Some(SlotPlace::Above(_)) => "above",
            Some(SlotPlace::First) => "first",
            Some(SlotPlace::Collapse(_)) => "collapse",
            None => return Err("a compaction without a slot".to_owned()),
        });
        self.stats.count(if random { "random job" } else { "picked job" });
        let compaction = Arc::new(picked.compaction);
        self.legal_by_keys(&compaction)?;
        let job = JobId(self.next_job);
        self.next_job += 1;
        self.claims.claim(job, Arc::clone(&compaction)).map_err(|e| e.to_string())?;
        let next = index_of(&compaction.range.lo);
        let outputs = vec![Vec::new(); compaction.slots.len()];
        let running =
            Running { compaction, next, outputs, part: (0, Vec::new()), sealed: next, committed: next };
        self.running.insert(job, running);
        Ok(())
    }

    /// Convexity by definition, key by key, without the production code.
    fn legal_by_keys(&self, compaction: &Compaction) -> Result<(), String> {
        if super::closure::broken::CONVEXITY.get() {
            return Ok(());
        }
        let inputs: BTreeSet<TableId> = compaction.tables().map(TableRef::id).collect();
        for k in index_of(&compaction.range.lo)..KEYS {
            let slot = compaction.slots.iter().find(|s| s.range.contains(&key(k)));
            let (mut seen, mut passed) = (false, false);
            for (level, run) in self.version.runs_at(&key(k)) {
                let at = slot.map(|s| s.place);
                passed |= level > compaction.target_level || at == Some(SlotPlace::Above(run.id));
                let table = run.table_for(&key(k)).map(TableRef::id);
                let is_input = table.is_some_and(|t| inputs.contains(&t));
                if is_input && (passed || slot.is_none()) {
                    return Err(format!("key {k}: input {table:?} lies below the slot of {compaction:?}"));
                }
                if seen && !passed && !is_input && table.is_some() {
                    return Err(format!("key {k}: {table:?} lies between the inputs of {compaction:?}"));
                }
                seen |= is_input;
                passed |= at == Some(SlotPlace::Into(run.id)) || at == Some(SlotPlace::Collapse(run.id));
            }
        }
        Ok(())
    }

    fn some_job(&mut self) -> Option<JobId> {
        let jobs: Vec<JobId> = self.running.keys().copied().collect();
        self.chance.one_of(&jobs).copied()
    }

    fn step_some_job(&mut self) -> Result<(), String> {
        let Some(job) = self.some_job() else { return Ok(()) };
        let Some(mut running) = self.running.remove(&job) else { return Ok(()) };
        let mut finished = false;
        for _ in 0..=self.chance.below(8) {
            finished = self.merge_key(&mut running);
            if finished {
                break;
            }
        }
        let commit = finished || self.chance.once_in(6);
        self.running.insert(job, running);
        if finished {
            self.stats.count("finished");
            self.commit(job, true, true)?;
        } else if commit {
            self.stats.count("prefix");
            self.commit(job, false, false)?;
        }
        Ok(())
    }

    /// Merges one key; true if there was none left.
    fn merge_key(&mut self, running: &mut Running) -> bool {
        let k = running.next;
        let compaction = Arc::clone(&running.compaction);
        if k >= KEYS || !compaction.range.is_below_end(&key(k)) {
            self.seal(running);
            return true;
        }
        let covering: Vec<TableId> =
            compaction.tables().filter(|t| t.bounds.contains(&key(k))).map(TableRef::id).collect();
        if covering.is_empty() && self.broken != Broken::Gaps {
            self.seal(running);
        }
        let mut entries: Vec<Entry> =
            covering.iter().flat_map(|t| self.tables[t.0 as usize][k].iter().copied()).collect();
        entries.sort_by_key(|e| std::cmp::Reverse(e.0));
        let mut entries = self.retained(&entries);
        let unseen = |seq: u64| self.snapshots.keys().next().is_none_or(|oldest| seq <= *oldest);
        let droppable = !compaction.may_have_older(&key(k)) || self.broken == Broken::Tombstones;
        if droppable && entries.last().is_some_and(|(seq, value)| value.is_none() && unseen(*seq)) {
            entries.pop();
            self.stats.count("dropped tombstone");
        }
        if !entries.is_empty() {
            let slot = compaction.slots.iter().position(|s| s.range.contains(&key(k))).unwrap_or_default();
            if running.part.0 != slot {
                self.seal(running);
                running.part.0 = slot;
            }
            running.part.1.push((k, entries));
        }
        running.next = k + 1;
        if self.chance.once_in(5) {
            self.seal(running);
        }
        false
    }

    fn seal(&mut self, running: &mut Running) {
        let (slot, part) = (running.part.0, std::mem::take(&mut running.part.1));
        if !part.is_empty() {
            let meta = self.make_table(&part, Born::Merge);
            running.outputs[slot].push(meta);
        }
        running.sealed = running.next;
    }

    /// Commits what is sealed.
    fn commit(&mut self, job: JobId, finished: bool, ends: bool) -> Result<(), String> {
        let Some(running) = self.running.get_mut(&job) else { return Ok(()) };
        let n = running.outputs.len();
        let outputs = std::mem::replace(&mut running.outputs, vec![Vec::new(); n]);
        let sealed = running.sealed;
        running.committed = sealed;
        let compaction = Arc::clone(&running.compaction);
        // Both are cuts between the last sealed key and the next one.
        let cut: Box<[u8]> = match sealed {
            0 => key(0).into(),
            _ if self.chance.once_in(2) => after(&key(sealed - 1)),
            _ if sealed < KEYS => key(sealed).into(),
            _ => after(&key(sealed - 1)),
        };
        let below = |t: &TableRef| -> u64 {
            self.tables[t.id().0 as usize].iter().take(sealed).map(|e| e.len() as u64).sum()
        };
        let consumed = compaction.tables().map(|t| (t.id(), below(t))).collect();
        let part = CommitPart { outputs, cut: (!finished).then_some(cut), consumed, ends };
        let done = commit_part(&self.version, &self.claims, job, &part, 0).map_err(|e| e.to_string())?;
        self.install(done);
        if ends {
            self.claims.release(job);
            self.running.remove(&job);
        }
        Ok(())
    }

    fn end_some_job(&mut self) -> Result<(), String> {
        let Some(job) = self.some_job() else { return Ok(()) };
        let committing = self.chance.once_in(2);
        self.end(job, committing)
    }

    /// Yields (commits what is there) or discards.
    fn end(&mut self, job: JobId, committing: bool) -> Result<(), String> {
        if committing {
            self.stats.count("yield");
            let Some(mut running) = self.running.remove(&job) else { return Ok(()) };
            if self.chance.once_in(2) {
                self.seal(&mut running);
            }
            self.running.insert(job, running);
            return self.commit(job, false, true);
        }
        self.stats.count("discard");
        let done = end_job(&self.version, &self.claims, job).map_err(|e| e.to_string())?;
        self.install(done);
        self.claims.release(job);
        self.running.remove(&job);
        Ok(())
    }

    // ---- everything else

    fn release_snapshot(&mut self) {
        let seqs: Vec<u64> = self.snapshots.keys().copied().collect();
        if let Some(seq) = self.chance.one_of(&seqs) {
            self.snapshots.remove(seq);
        }
    }

    /// Splits or merges groups by metadata, where no job is at work and where it is possible.
    fn edit_group(&mut self) -> Result<(), String> {
        let level = self.chance.below(self.version.levels.len());
        let groups = self.version.levels[level].groups.clone();
        let at = self.chance.below(groups.len());
        let group = &groups[at];
        let busy = !self.claims.group_holders(group.id).is_empty();
        if self.claims.claim_group(GROUP_EDITOR, group.id).is_err() {
            self.stats.count("group edit refused");
            return if busy { Ok(()) } else { Err("a free group was refused".to_owned()) };
        }
        if busy {
            return Err(format!("group {} was edited under a job", group.id));
        }
        let neighbour = groups.get(at + 1).filter(|_| self.chance.once_in(2));
        let step = match neighbour {
            Some(right) if self.claims.claim_group(GROUP_EDITOR, right.id).is_ok() => {
                EditStep::MergeGroups { left: group.id, right: right.id }
            }
            Some(_) => EditStep::SetRunBound { group: group.id, run_bound: 1 + self.chance.below(4) as u32 },
            None => {
                let (at, new_group) = (key(self.chance.below(KEYS)).into(), self.ids.group());
                EditStep::SplitGroup { group: group.id, at, new_group, new_run: self.ids.run() }
            }
        };
        let edit = VersionEdit { steps: vec![step], ..VersionEdit::default() };
        // Not every group can be split or merged; the tree says so and stays as it is.
        if self.edit(edit).is_ok() {
            self.stats.count("group edit");
        }
        self.claims.release(GROUP_EDITOR);
        Ok(())
    }

    /// Open jobs vanish; the tree is what the manifest says.
    fn crash_perhaps(&mut self) -> Result<(), String> {
        if !self.chance.once_in(4) {
            return Ok(());
        }
        self.stats.count("crash");
        let mut again = Version::default();
        for record in &self.manifest {
            let edit = VersionEdit::decode(&mut Decoder::new(record)).map_err(|e| e.to_string())?;
            again = again.apply(&edit).map_err(|e| e.to_string())?;
        }
        if draw_full(&again) != draw_full(&self.version) {
            return Err(format!("the manifest says\n{}", draw_full(&again)));
        }
        self.running.clear();
        self.claims = Claims::default();
        self.snapshots.clear();
        self.version = again;
        let done = recover(&self.version).map_err(|e| e.to_string())?;
        self.install(done);
        self.manifest.clear();
        self.log(&VersionEdit::snapshot_of(&self.version));
        Ok(())
    }

    /// Everything ends, and nothing comes in: the picker must come to rest. Answers the number of jobs.
    pub fn settle(&mut self, strategy: &Strategy) -> Result<usize, String> {
        while let Some(job) = self.running.keys().next().copied() {
            self.end(job, false)?;
        }
        self.strategy = strategy.clone();
        for jobs in 0..1000 {
            let cursors = self.cursors.clone();
            let Pick::Run(picked) = pick(&self.view(&cursors), strategy, &Permit::everything()) else {
                return Ok(jobs);
            };
            self.start(*picked, false)?;
            while !self.running.is_empty() {
                self.step_some_job()?;
            }
            self.check()?;
        }
        Err("the picker does not come to rest".to_owned())
    }

    fn get(&self, k: usize, at: u64) -> Option<u64> {
        let newest = |entries: &[Entry]| entries.iter().find(|e| e.0 <= at).map(|e| e.1);
        if let Some(value) = self.memtables.iter().rev().find_map(|m| newest(&m[k])) {
            return value;
        }
        let key = key(k);
        let tables = self.version.runs_at(&key).filter_map(|(_, run)| run.table_for(&key));
        tables.into_iter().find_map(|t| newest(&self.tables[t.id().0 as usize][k])).flatten()
    }

    fn check(&self) -> Result<(), String> {
        check(&self.version, &self.claims.open_claims())?;
        let keys: Vec<[u8; 3]> = (0..KEYS).map(key).collect();
        let entries = |t: TableId, key: &[u8]| -> Vec<SeqNo> {
            self.tables[t.0 as usize][index_of(key)].iter().map(|e| SeqNo(e.0)).collect()
        };
        check_order(&self.version, keys.iter().map(|k| &k[..]), entries)?;
        let now = [(self.seq, &self.answers)];
        for (at, answers) in self.snapshots.iter().map(|(s, a)| (*s, a)).chain(now) {
            for k in 0..KEYS {
                let (got, want) = (self.get(k, at), answers.get(&k).copied());
                if got != want {
                    return Err(format!("key {k} at {at}: {got:?}, not {want:?}"));
                }
            }
        }
        Ok(())
    }
}
