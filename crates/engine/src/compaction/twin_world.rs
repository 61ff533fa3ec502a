//! The world of the twin test: the production picker, placement, closure, claims, commit and Version over tables whose
//! entries are kept in memory, beside a plain map that always knows the answer. The Rust twin of the design's model.
//!
//! One thread steps everything in an order drawn from a seed: writers, flushes of several memtables, jobs of random and of
//! catalogue shapes, prefix commits, yields, discards, moves by metadata, group edits, strategy switches, crashes, range deletes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::bulk::load;
use super::catalog::{CATALOG, Row, name_of, strategy};
use super::claims::Claims;
use super::commit::{Committed, drop_covered, flush, recover, set_levels};
use super::picker::{Pick, pick};
use super::strategy::{CutRule, SizeRule, Sizes, Strategy};
use super::tree_view::Ids;
use super::twin_jobs::Running;
use crate::base::class::Permit;
use crate::base::coding::Decoder;
use crate::base::key_range::after;
use crate::base::units::{GroupId, JobId, SeqNo, TableId};
use crate::table::key_sample::Sampler;
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

/// A sequence and what was written then.
pub type Entry = (u64, What);

/// What an entry says of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    Put(u64),
    Delete,
    /// A range tombstone lies over the key. It is no entry, but it is in the bounds.
    Range,
}

/// Entries by key, newest first.
pub type Entries = Vec<Vec<Entry>>;
pub type Answers = BTreeMap<usize, u64>;

/// A rule that is switched off, to show that the test can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    Nothing,
    /// Range tombstones are dropped whatever lies below.
    Ranges,
    /// Range tombstones drop tables that a snapshot still sees.
    Covered,
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

/// Everything.
pub struct World {
    pub chance: Chance,
    pub version: Version,
    pub claims: Claims,
    pub stats: Stats,
    pub broken: Broken,
    pub strategy: Strategy,
    pub ids: Ids,
    pub cursors: BTreeMap<usize, Box<[u8]>>,
    pub tables: Vec<Entries>,
    pub running: BTreeMap<JobId, Running>,
    pub next_job: u64,
    pub memtables: VecDeque<Entries>,
    pub seq: u64,
    /// When each sequence was written, wall milliseconds.
    pub times: Vec<u64>,
    pub now_ms: u64,
    pub answers: Answers,
    pub snapshots: BTreeMap<u64, Answers>,
    pub manifest: Vec<Vec<u8>>,
}

pub fn key(i: usize) -> [u8; 3] {
    [b'k', b'a' + (i / 26) as u8, b'a' + (i % 26) as u8]
}

/// The number of keys below `bound`.
pub fn index_of(bound: &[u8]) -> usize {
    (0..KEYS).position(|i| &key(i)[..] >= bound).unwrap_or(KEYS)
}

pub fn no_entries() -> Entries {
    vec![Vec::new(); KEYS]
}

/// Strategies beyond the catalogue: what its rows leave out of the design space.
const MORE: [&str; 6] = [
    "when=saturation,runs how=runs:2:fill much=files:100 which=least-overlap-grandparent,oldest",
    "when=saturation-count how=runs:1 much=runs; L0: when=runs how=runs:2 much=file which=round-robin",
    "when=runs how=runs:3 much=file which=coldest-write; last: how=runs:2 much=level",
    "when=runs,saturation how=by-heat:2:5:share=0.5:groups=3 much=files:100 which=round-robin; \
     L0: how=runs:2 much=runs; last: how=by-heat:1:2:coldest=0.5:least=0",
    "when=runs,saturation how=by-heat:1:3:coldest=0.6:groups=4:least=1 much=runs; L0: how=runs:4; last: how=runs:1",
    "when=runs,saturation how=runs:1 much=level; L1: when=saturation how=runs:5 much=runs",
];

/// Every strategy that the twin knows, with sizes of a few tables. Rows of the catalogue that are the same are one.
pub fn strategies() -> Vec<(String, Strategy)> {
    let first = |row: &&Row| name_of(&row.text.parse::<Strategy>().unwrap()) == Some(row.name);
    let named = CATALOG.iter().filter(first).map(|row| row.name).chain(MORE);
    let small = |name: &str, sizes: Sizes| {
        let mut strategy = strategy(name).unwrap();
        strategy.size =
            SizeRule { l0_bytes: 300, l0_bytes_max: 600, level_base_bytes: 200, level_ratio: 3, sizes };
        strategy.cut = CutRule { table_bytes: 60, ..CutRule::default() };
        (format!("{name}, {sizes:?}"), strategy)
    };
    let fixed = ["lo+1", "tier", "1-leveling", "l-leveling"].map(|name| small(name, Sizes::Fixed));
    named.map(|name| small(name, Sizes::Dynamic)).chain(fixed).collect()
}

pub fn small_strategy(chance: &mut Chance) -> Strategy {
    chance.one_of(&strategies()).unwrap().1.clone()
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
            times: vec![0],
            now_ms: 1,
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
            0..31 => self.write(),
            31..33 => self.bulk_load()?,
            33 => self.drop_covered()?,
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

    pub fn write(&mut self) {
        for _ in 0..=self.chance.below(5) {
            let k = self.chance.below(KEYS);
            self.next_seq();
            if self.chance.once_in(12) {
                self.delete_range(k);
                continue;
            }
            let what = if self.chance.once_in(3) { What::Delete } else { What::Put(self.seq) };
            self.memtables.back_mut().unwrap()[k].insert(0, (self.seq, what));
            match what {
                What::Put(v) => drop(self.answers.insert(k, v)),
                _ => drop(self.answers.remove(&k)),
            }
        }
    }

    fn next_seq(&mut self) {
        self.seq += 1;
        self.times.push(self.now_ms);
    }

    /// Deletes a few keys from `k` on, or many.
    fn delete_range(&mut self, k: usize) {
        let width = if self.chance.once_in(4) { KEYS } else { 6 };
        let end = (k + 1 + self.chance.below(width)).min(KEYS);
        for k in k..end {
            self.memtables.back_mut().unwrap()[k].insert(0, (self.seq, What::Range));
            self.answers.remove(&k);
        }
        self.stats.count("range delete");
    }

    /// Of each stripe between snapshots only the newest entry stays, if no range tombstone of the stripe is newer, and the newest
    /// range tombstone (I5).
    pub fn retained(&self, entries: &[Entry]) -> Vec<Entry> {
        let mut out: Vec<Entry> = Vec::new();
        let (mut last, mut last_range) = (None, None);
        for entry in entries {
            let stripe = self.snapshots.range(entry.0..).next().map(|(s, _)| *s);
            if entry.1 == What::Range && last_range != Some(stripe) {
                out.push(*entry);
                (last, last_range) = (Some(stripe), Some(stripe));
            } else if entry.1 != What::Range && last != Some(stripe) {
                out.push(*entry);
                last = Some(stripe);
            }
        }
        out
    }

    /// Tables of which nobody sees anything go by metadata, as far as no job has them.
    fn drop_covered(&mut self) -> Result<(), String> {
        let covered = |table: &TableRef| {
            let (oldest, newest) = (table.meta.seqs.0.0, table.meta.seqs.1.0);
            let hides = |entry: &Entry| {
                entry.1 == What::Range
                    && entry.0 > newest
                    && (self.broken == Broken::Covered
                        || self.snapshots.range(oldest..entry.0).next().is_none())
            };
            let is_over = |k: usize| {
                let key = key(k);
                let mut tables = self.version.tables_at(&key);
                tables.any(|t| self.tables[t.id().0 as usize][k].iter().any(&hides))
            };
            (0..KEYS).filter(|k| table.bounds.contains(&key(*k))).all(is_over)
        };
        let covered: BTreeSet<TableId> =
            self.version.tables().map(|(_, t)| t).filter(|t| covered(t)).map(TableRef::id).collect();
        let done = drop_covered(&self.version, &self.claims, &covered).map_err(|e| e.to_string())?;
        if !done.edit.steps.is_empty() {
            self.stats.count("covered");
        }
        self.install(done);
        Ok(())
    }

    pub fn make_table(&mut self, part: &[(usize, Vec<Entry>)], born: Born) -> Arc<TableMeta> {
        let id = self.tables.len() as u64;
        let mut entries = no_entries();
        for (k, list) in part {
            entries[*k] = list.clone();
        }
        self.tables.push(entries);
        let all = || part.iter().flat_map(|(_, list)| list);
        let first = key(part.first().unwrap().0);
        let with_entries = part.iter().filter(|(_, list)| list.iter().any(|e| e.1 != What::Range));
        let last_entry = with_entries.clone().next_back().map(|(k, _)| *k);
        let mut meta = fabricated_meta(id, &first, &last_entry.map_or(first, key));
        let end = after(&key(part.last().unwrap().0));
        meta.end = (last_entry.is_none() || end > after(&meta.largest)).then_some(end);
        meta.entries = all().filter(|e| e.1 != What::Range).count() as u64;
        meta.keys = with_entries.count() as u64;
        meta.range_tombstones = all().count() as u64 - meta.entries;
        meta.bytes = all().count() as u64 * 10;
        meta.seqs = (SeqNo(all().map(|e| e.0).min().unwrap()), SeqNo(all().map(|e| e.0).max().unwrap()));
        meta.tombstones = all().filter(|e| e.1 == What::Delete).count() as u64;
        let deletes = all().filter(|e| !matches!(e.1, What::Put(_)));
        meta.oldest_tombstone_ms = deletes.map(|e| self.times[e.0 as usize]).min();
        let blocks: Vec<Vec<Entry>> = all()
            .copied()
            .filter(|e| e.1 != What::Range)
            .collect::<Vec<_>>()
            .chunks(3)
            .map(<[_]>::to_vec)
            .collect();
        let is_dense =
            |block: &&Vec<Entry>| block.iter().filter(|e| e.1 == What::Delete).count() * 2 >= block.len();
        (meta.blocks, meta.dense_blocks) =
            (blocks.len() as u64, blocks.iter().filter(is_dense).count() as u64);
        let mut sampler = Sampler::default();
        for (k, list) in part {
            let newest = list.iter().find(|e| e.1 != What::Range);
            newest
                .iter()
                .for_each(|e| sampler.add(Chance(*k as u64).below(usize::MAX) as u64, e.1 == What::Delete));
        }
        meta.key_sample = sampler.sample();
        meta.created_ms = self.now_ms;
        self.stats.count(if meta.entries == 0 { "table of ranges" } else { "table" });
        meta.born = born;
        Arc::new(meta)
    }

    pub fn flush_oldest(&mut self) -> Result<(), String> {
        if self.memtables.len() == 1 {
            self.memtables.push_back(no_entries());
        }
        let Some(memtable) = self.memtables.pop_front() else { return Ok(()) };
        let mut parts: Vec<Vec<(usize, Vec<Entry>)>> = Vec::new();
        let mut open = false;
        for (k, entries) in memtable.iter().enumerate() {
            let cut = self.version.levels[0].groups.iter().any(|g| index_of(&g.range.lo) == k);
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
        let done = flush(&self.version, &self.claims, &mut ids, tables, SeqNo(self.seq), self.now_ms);
        self.ids = ids;
        self.install(done.map_err(|e| e.to_string())?);
        Ok(())
    }

    /// Sorted records straight into the tree, newer than everything: what is in memory over their keys is flushed first.
    pub fn bulk_load(&mut self) -> Result<(), String> {
        let mut parts: Vec<Vec<usize>> = Vec::new();
        let mut next = self.chance.below(KEYS);
        for _ in 0..=self.chance.below(4) {
            let last = next + self.chance.below(6);
            let keys: Vec<usize> = (next..=last).filter(|k| *k < KEYS).collect();
            next = last + 1 + self.chance.below(4);
            parts.extend((!keys.is_empty()).then_some(keys));
        }
        let covers = |k: usize| parts.iter().any(|p| p[0] <= k && k <= p[p.len() - 1]);
        let in_memory =
            |m: &Entries| m.iter().enumerate().any(|(k, entries)| covers(k) && !entries.is_empty());
        while self.memtables.iter().any(in_memory) {
            self.flush_oldest()?;
        }
        self.next_seq();
        let seq = self.seq;
        let mut tables = Vec::new();
        for keys in &parts {
            let part: Vec<(usize, Vec<Entry>)> =
                keys.iter().map(|k| (*k, vec![(seq, What::Put(seq))])).collect();
            tables.push(self.make_table(&part, Born::Load));
        }
        let mut ids = self.ids;
        let done = load(&self.version, &self.claims, &self.strategy, &mut ids, tables, 0);
        let done = match done {
            // Where L0 has several groups a table may fit into none.
            Err(_) if self.version.levels[0].groups.len() > 1 => return Ok(()),
            done => done.map_err(|e| e.to_string())?,
        };
        self.ids = ids;
        if !self.running.is_empty() {
            self.stats.count("load under jobs");
        }
        let deeper = |step: &EditStep| matches!(step, EditStep::AddRun { level, .. } if *level > 0);
        if done.edit.steps.iter().any(deeper) {
            self.stats.count("load below L0");
        }
        self.install(done);
        self.answers.extend(parts.iter().flatten().map(|k| (*k, seq)));
        Ok(())
    }

    pub fn log(&mut self, edit: &VersionEdit) {
        let mut bytes = Vec::new();
        edit.encode(&mut bytes);
        self.manifest.push(bytes);
    }

    pub fn install(&mut self, done: Committed) {
        for step in &done.edit.steps {
            match step {
                EditStep::FuseRuns { .. } => self.stats.count("fuse"),
                EditStep::TrimTable { .. } => self.stats.count("trim"),
                EditStep::AddLevel { .. } => self.stats.count("level born"),
                EditStep::InsertLevel { .. } => self.stats.count("level inserted"),
                EditStep::RemoveLevel { .. } => self.stats.count("level removed"),
                _ => {}
            }
        }
        self.log(&done.edit);
        self.claims.committed(&done.edit);
        done.edit.move_cursors(&mut self.cursors);
        self.version = done.version;
    }

    pub fn edit(&mut self, edit: VersionEdit) -> Result<(), String> {
        let version = self.version.apply(&edit).map_err(|e| e.to_string())?;
        self.install(Committed { edit, version });
        Ok(())
    }

    pub fn release_snapshot(&mut self) {
        let seqs: Vec<u64> = self.snapshots.keys().copied().collect();
        if let Some(seq) = self.chance.one_of(&seqs) {
            self.snapshots.remove(seq);
        }
    }

    /// Splits or merges groups by metadata, where no job is at work and where it is possible.
    pub fn edit_group(&mut self) -> Result<(), String> {
        if self.chance.once_in(2) {
            return self.regroup();
        }
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
    pub fn crash_perhaps(&mut self) -> Result<(), String> {
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
            self.shape()?;
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

    /// What the engine does before each look for work.
    pub fn set_levels(&mut self) -> Result<(), String> {
        let mut ids = self.ids;
        while let Some(done) =
            set_levels(&self.version, &self.claims, &self.strategy, &mut ids).map_err(|e| e.to_string())?
        {
            self.ids = ids;
            if !self.running.is_empty() {
                self.stats.count("levels changed under jobs");
            }
            self.install(done);
        }
        Ok(())
    }

    pub fn get(&self, k: usize, at: u64) -> Option<u64> {
        let newest = |entries: &[Entry]| {
            entries.iter().find(|e| e.0 <= at).map(|e| match e.1 {
                What::Put(value) => Some(value),
                What::Delete | What::Range => None,
            })
        };
        if let Some(value) = self.memtables.iter().rev().find_map(|m| newest(&m[k])) {
            return value;
        }
        let key = key(k);
        let mut tables = self.version.tables_at(&key);
        tables.find_map(|t| newest(&self.tables[t.id().0 as usize][k])).flatten()
    }

    /// A look-up that its tables take note of.
    pub fn read(&mut self, k: usize) {
        let key = key(k);
        for table in self.version.tables_at(&key) {
            table.meta.access.add(1, self.now_ms);
        }
    }

    pub fn check(&self) -> Result<(), String> {
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
