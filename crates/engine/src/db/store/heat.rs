//! What a keyspace's reads teach: operations are counted as they come, and when there were enough of them, not more often than the
//! options say, the keyspace's predictor learns from its tables.
//!
//! The thread that looks each second does this (`learning.rs`), under a lock of its own that no reader and no writer takes.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use crate::base::locks::{Mutex, MutexGuard};
use crate::base::units::TableId;
use crate::compaction::strategy::{Layout, Strategy};
use crate::hotness::access_window::{AccessWindow, Counting, Looks, Operations};
use crate::hotness::predictor::{HeatSample, Learning, Predictor};
use crate::hotness::read_profile::ReadProfile;
use crate::hotness::temperature::{HYSTERESIS, Member, Quality, Theta, quality};
use crate::observe::json::{Object, list};
use crate::options::Options;
use crate::table::access::SAMPLING;
use crate::version::edit::{EditStep, VersionEdit};
use crate::version::run::TableRef;
use crate::version::version::Version;

/// When there is a lesson, and what it is about.
#[derive(Clone, Copy, Debug)]
pub struct LessonRule {
    /// What makes a table hot.
    counting: Counting,
    /// A predictor learns after so many operations (the paper's W, but of slices that fade).
    operations: u64,
    /// Or after so many compactions (Z) and a part of the operations; 0: however many there are.
    compactions: u64,
    /// And after so long at least.
    time: Duration,
    /// So many bits of filters go by reads.
    filters: f32,
}

impl LessonRule {
    /// As the options say.
    pub fn of(options: &Options) -> LessonRule {
        let time = Duration::from_secs(options.heat_seconds.into());
        LessonRule {
            counting: options.heat_counts,
            operations: options.heat_operations.into(),
            compactions: options.heat_compactions.into(),
            time,
            filters: options.filter_heat,
        }
    }
}

/// Each table is taken to have been asked for so many times more than was counted, to tell filters apart by: chance tells most of few.
const LOOKS_ASSUMED: f64 = 2.0;
/// What is foretold of a table counts as much as so many looks that were counted: chance tells most of few.
const LOOKS_FORETOLD: f64 = 2.0;
/// Groups are divided anew after so many parts of compactions, or the end of one, if there is no lesson before.
const DIVIDE_EVERY: u64 = 8;
/// Compactions are followed by a lesson if this part of the usual operations was counted: what is learnt fades with each.
const OPERATIONS_PART: u64 = 8;
/// A table teaches if it was there for this part of a slice.
const SLICE_MIN: f64 = 0.25;
/// A slice counts for so much of itself after the next.
const KEEP: f64 = 0.5;
/// What the quality of predictions is measured by: the foretold hottest tenth of each level's bytes.
const HOTTEST: Theta = Theta::Relative(0.9);

/// A keyspace's reads, and what they taught.
#[derive(Debug)]
pub struct Heat {
    gets: AtomicU64,
    scans: AtomicU64,
    lessons: Mutex<Lessons>,
    /// Lessons since the store was opened.
    learnt: AtomicU64,
    /// The lesson that groups were last divided by.
    divided_by: AtomicU64,
    /// Parts of compactions installed since then.
    installed: AtomicU64,
    /// Compactions ended since the last lesson.
    compactions: AtomicU64,
    /// What groups by heat have gone through.
    pub turns: GroupTurns,
    /// Which keys are asked for, for the filters of new tables.
    profile: Mutex<Option<Arc<ReadProfile>>>,
}

/// What has become of groups by heat since the store was opened.
#[derive(Debug, Default)]
pub struct GroupTurns {
    splits: AtomicU64,
    joins: AtomicU64,
    to_hot: AtomicU64,
    to_cold: AtomicU64,
}

impl GroupTurns {
    /// Counts the groups that an edit makes of a tree; how many were split, joined, and turned hot and cold.
    pub fn note(&self, before: &Version, edit: &VersionEdit) -> [u64; 4] {
        let mut counts = [0; 4];
        for step in &edit.steps {
            let turn = match step {
                EditStep::SplitGroup { .. } => 0,
                EditStep::MergeGroups { .. } => 1,
                EditStep::SetRunBound { group, run_bound } => {
                    let found = before.find_group(*group);
                    let was = found.and_then(|(level, at)| before.levels.get(level)?.groups.get(at));
                    // A group that was just split off differs from what it was part of.
                    let falls = was.is_none_or(|group| group.run_bound > *run_bound);
                    if falls && *run_bound == 1 { 2 } else { 3 }
                }
                _ => continue,
            };
            counts[turn] += 1;
        }
        for (counter, count) in [&self.splits, &self.joins, &self.to_hot, &self.to_cold].iter().zip(counts) {
            counter.fetch_add(count, Ordering::Relaxed);
        }
        counts
    }
}

/// What is known of tables' heat: counted, as far as enough was, and foretold.
#[derive(Debug)]
pub struct Known<'a>(&'a Lessons);

impl Known<'_> {
    /// The share of gets that looks into a table of this level.
    pub fn heat(&self, level: usize, table: &TableRef) -> Option<f64> {
        let known = self.0.known.get(&table.id()).copied();
        known.or_else(|| self.0.foretold(level, table))
    }
}

#[derive(Debug)]
struct Lessons {
    counting: Counting,
    window: AccessWindow,
    /// Gets that asked for a key within a table's bounds, whatever heat is made of.
    asked: AccessWindow,
    predictor: Predictor,
    /// The heat of the tables that were counted in the last lesson, by that and by what is foretold of them.
    known: HashMap<TableId, f64>,
    /// Operations counted when the last slice ended, and when that was.
    ended: (u64, Duration),
    quality: Option<Quality>,
}

/// How hot a keyspace's tables are, and how well that is foretold.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HeatMetrics {
    /// How often something was learnt since the store was opened.
    pub lessons: u64,
    /// Operations counted since the store was opened, an estimate: gets that reached the tables, scans if they count.
    pub operations: u64,
    /// Operations that the predictor has learnt from, before the store was opened too.
    pub learnt_from: u64,
    /// Of the bytes, the part that was foretold to be hot: about the hottest tenth of each level. 0 until that is known.
    pub hot_bytes: f64,
    /// Of the looks into tables, the part that went there.
    pub hot_reads: f64,
    /// Groups that are kept as hot ones, in levels by heat.
    pub hot_groups: u64,
    /// Groups that are kept as cold ones.
    pub cold_groups: u64,
    /// Of the bytes in levels by heat, the part in hot groups; 0 without such levels.
    pub leveled_bytes: f64,
    /// Of the looks into tables of such levels, the part into those of hot groups, as far as they were counted; 0 before that.
    pub leveled_reads: f64,
    /// Groups that were split, joined, and turned hot and cold since the store was opened.
    pub group_turns: [u64; 4],
    /// By level, the part of the heat's variance that its model explains, at most 1; `None` where there is no telling.
    pub explained: Vec<Option<f64>>,
}

impl HeatMetrics {
    /// As programs read it.
    pub(crate) fn to_json(&self) -> String {
        let explained =
            |part: &Option<f64>| part.map_or_else(|| "null".to_owned(), |part| format!("{part:.3}"));
        let object = Object::new().raw("lessons", self.lessons).raw("operations", self.operations);
        let object = object.raw("learnt_from", self.learnt_from);
        let object = object.fraction("hot_bytes", self.hot_bytes).fraction("hot_reads", self.hot_reads);
        let object = object.raw("explained", list(self.explained.iter().map(explained)));
        let object = object.raw("hot_groups", self.hot_groups).raw("cold_groups", self.cold_groups);
        let [splits, joins, to_hot, to_cold] = self.group_turns;
        let object = object.fraction("leveled_bytes", self.leveled_bytes);
        let object = object.fraction("leveled_reads", self.leveled_reads).raw("splits", splits);
        object.raw("joins", joins).raw("turned_hot", to_hot).raw("turned_cold", to_cold).end()
    }
}

impl Default for Heat {
    fn default() -> Heat {
        let predictor = Predictor::new(Learning::default());
        let lessons = Lessons::new(Counting::default(), predictor, (0, Duration::ZERO));
        Heat {
            gets: AtomicU64::new(0),
            scans: AtomicU64::new(0),
            lessons: Mutex::new(lessons),
            learnt: AtomicU64::new(0),
            divided_by: AtomicU64::new(0),
            installed: AtomicU64::new(0),
            compactions: AtomicU64::new(0),
            turns: GroupTurns::default(),
            profile: Mutex::default(),
        }
    }
}

impl Heat {
    /// Counts a get that was sampled.
    pub fn note_get(&self) {
        self.gets.fetch_add(u64::from(SAMPLING), Ordering::Relaxed);
    }

    /// Counts a scan that was sampled.
    pub fn note_scan(&self) {
        self.scans.fetch_add(u64::from(SAMPLING), Ordering::Relaxed);
    }

    /// An edit makes tables part of the tree: from now on they are counted.
    pub fn note_tables(&self, edit: &VersionEdit) {
        let now = self.stream();
        for step in &edit.steps {
            if let EditStep::AddTable { table, .. } = step {
                table.meta.access.begin(now);
            }
        }
    }

    /// What it has learnt.
    pub fn predictor(&self) -> Predictor {
        self.lessons().predictor.clone()
    }

    /// Goes on from what was learnt before.
    pub fn resume(&self, predictor: Predictor) {
        self.lessons().predictor = predictor;
    }

    /// What it tells of itself and of a tree; by this way of counting.
    pub fn metrics(&self, counting: Counting, version: &Version, strategy: &Strategy) -> HeatMetrics {
        let lessons = self.lessons();
        let (mut groups, mut bytes, mut looks) = ([0; 2], [0; 2], [0.0; 2]);
        for (level, found) in version.levels.iter().enumerate() {
            let Layout::ByHeat(rule) = strategy.levels.get(level, version.levels.len()).layout else {
                continue;
            };
            for group in &found.groups {
                let [hot, cold] = if rule.is_hot(group) { [1, 0] } else { [0, 1] };
                groups = [groups[0] + hot, groups[1] + cold];
                bytes = [bytes[0] + hot * group.bytes(), bytes[1] + cold * group.bytes()];
                let tables = group.runs.iter().flat_map(|run| &run.tables);
                let counted: f64 = tables.filter_map(|table| lessons.window.heat(table.id())).sum();
                looks = [looks[0] + hot as f64 * counted, looks[1] + cold as f64 * counted];
            }
        }
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let GroupTurns { splits, joins, to_hot, to_cold } = &self.turns;
        let quality = lessons.quality.unwrap_or_default();
        let learnt = lessons.predictor.learnt();
        let all_looks = looks[0] + looks[1];
        HeatMetrics {
            lessons: count(&self.learnt),
            operations: self.operations(counting),
            learnt_from: learnt.gets,
            hot_bytes: quality.hot_bytes,
            hot_reads: quality.hot_reads,
            hot_groups: groups[0],
            cold_groups: groups[1],
            leveled_bytes: bytes[0] as f64 / (bytes[0] + bytes[1]).max(1) as f64,
            leveled_reads: if all_looks > 0.0 { looks[0] / all_looks } else { 0.0 },
            group_turns: [splits, joins, to_hot, to_cold].map(count),
            explained: (0..learnt.levels.len()).map(|level| lessons.predictor.model(level)?.r2).collect(),
        }
    }

    /// Learns from the tables if a slice is over. True if it did.
    pub fn look(&self, version: &Version, rule: LessonRule, now: Duration) -> bool {
        let counting = rule.counting;
        let operations = self.operations(counting);
        let mut lessons = self.lessons();
        if lessons.counting != counting {
            // Counters of another kind go on from where they are.
            *lessons = Lessons::new(counting, lessons.predictor.clone(), (operations, now));
        }
        let (before, at) = lessons.ended;
        let new = operations.saturating_sub(before);
        let compacted = rule.compactions > 0 && self.compactions.load(Ordering::Relaxed) >= rule.compactions;
        let enough = if compacted { rule.operations / OPERATIONS_PART } else { rule.operations };
        if new < enough.max(1) || now.saturating_sub(at) < rule.time {
            return false;
        }
        self.compactions.store(0, Ordering::Relaxed);
        lessons.ended = (operations, now);
        lessons.learn(version, new, self.stream());
        let profile = (rule.filters > 0.0)
            .then(|| lessons.profile(version, rule.filters, new as f64 / (1.0 - KEEP)))
            .flatten();
        *self.profile.lock().unwrap_or_else(PoisonError::into_inner) = profile.map(Arc::new);
        self.learnt.fetch_add(1, Ordering::Release);
        true
    }

    /// Takes tables to be so hot, by their smallest key.
    #[cfg(any(test, feature = "testing"))]
    pub fn pretend(&self, version: &Version, heat: &dyn Fn(&[u8]) -> Option<f64>) {
        let tables = version.tables().filter_map(|(_, t)| Some((t.id(), heat(&t.meta.smallest)?)));
        let known: HashMap<TableId, f64> = tables.collect();
        let mut lessons = self.lessons();
        lessons.window.pretend(known.clone());
        lessons.known = known;
        self.learnt.fetch_add(1, Ordering::Release);
    }

    /// Which keys are asked for, if filters go by that.
    pub fn read_profile(&self) -> Option<Arc<ReadProfile>> {
        self.profile.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Tells of tables' heat.
    pub fn tell<R>(&self, hear: impl FnOnce(Known<'_>) -> R) -> R {
        hear(Known(&self.lessons()))
    }

    /// A part of a compaction was installed: there are tables that nobody has read. At its end a group may have one run that had
    /// several, and can be split.
    pub fn note_installed(&self, ends: bool) {
        self.installed.fetch_add(if ends { DIVIDE_EVERY } else { 1 }, Ordering::Relaxed);
        self.compactions.fetch_add(ends.into(), Ordering::Relaxed);
    }

    /// Tells of tables' heat if groups should be divided by it now: after a lesson, and after compactions. Nothing before the
    /// first lesson since the store was opened, and while it is learning.
    pub fn tell_if_due<R>(&self, hear: impl FnOnce(Known<'_>) -> R) -> Option<R> {
        let learnt = self.learnt.load(Ordering::Acquire);
        let is_new = learnt != self.divided_by.load(Ordering::Relaxed);
        if learnt == 0 || !(is_new || self.installed.load(Ordering::Relaxed) >= DIVIDE_EVERY) {
            return None;
        }
        let lessons = self.lessons.try_lock().ok()?;
        self.divided_by.store(learnt, Ordering::Relaxed);
        self.installed.store(0, Ordering::Relaxed);
        Some(hear(Known(&lessons)))
    }

    fn operations(&self, counting: Counting) -> u64 {
        counting.operations(self.stream())
    }

    fn stream(&self) -> Operations {
        Operations { gets: self.gets.load(Ordering::Relaxed), scans: self.scans.load(Ordering::Relaxed) }
    }

    fn lessons(&self) -> MutexGuard<'_, Lessons> {
        self.lessons.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lessons {
    fn new(counting: Counting, predictor: Predictor, ended: (u64, Duration)) -> Lessons {
        Lessons {
            counting,
            window: AccessWindow::new(KEEP),
            asked: AccessWindow::new(KEEP),
            predictor,
            known: HashMap::new(),
            ended,
            quality: None,
        }
    }

    fn learn(&mut self, version: &Version, operations: u64, now: Operations) {
        let counting = self.counting;
        let now = counting.operations(now);
        let counter = |table: &TableRef, count: &dyn Fn(Looks) -> u64| {
            let access = &table.meta.access;
            (table.id(), count(access.looks()), now.saturating_sub(counting.operations(access.before())))
        };
        self.window
            .end_slice(operations, version.tables().map(|(_, t)| counter(t, &|looks| counting.looks(looks))));
        self.asked
            .end_slice(operations, version.tables().map(|(_, t)| counter(t, &|looks| looks.candidates)));
        let enough = operations as f64 * SLICE_MIN;
        let samples: Vec<Vec<HeatSample<'_>>> = version
            .levels
            .iter()
            .map(|level| level.tables().map(|table| sample(&self.window, table, enough)).collect())
            .collect();
        // First what was foretold of these tables, then what they teach.
        self.quality = quality_of(&self.predictor, version, &samples).or(self.quality);
        self.predictor.train(operations, &samples);
        let tables = version.tables().map(|(level, table)| (table.id(), self.weighed(level, table)));
        self.known = tables.filter_map(|(id, heat)| Some((id, heat?))).collect();
    }

    fn foretold(&self, level: usize, table: &TableRef) -> Option<f64> {
        self.predictor.predict_near(level, &table.meta.key_spread())
    }

    /// What was counted of a table, as if some looks more had been, among as many operations as foretold.
    fn weighed(&self, level: usize, table: &TableRef) -> Option<f64> {
        let (counted, operations) = self.window.counted(table.id())?;
        let looks = LOOKS_FORETOLD * f64::from(SAMPLING);
        let among = self.foretold(level, table).filter(|heat| *heat > 0.0).map(|heat| looks / heat);
        Some(among.map_or(counted, |among| (counted * operations + looks) / (operations + among)))
    }

    /// Which keys are asked for, by the gets that come to the oldest runs of the deepest level: those hold most keys, each once.
    fn profile(&self, version: &Version, span: f32, operations: f64) -> Option<ReadProfile> {
        let deepest = version.levels.iter().rfind(|level| !level.is_empty())?;
        let tables =
            || deepest.groups.iter().filter_map(|group| group.runs.last()).flat_map(|run| &run.tables);
        let looks = |table: &TableRef| {
            // As many as if all had been there as long.
            Some(self.asked.heat(table.id())? * operations / f64::from(SAMPLING))
        };
        let entries = |table: &TableRef| table.meta.entries.saturating_sub(table.consumed) as f64;
        let (count, all) = tables().fold((0.0, 0.0), |(n, sum), table| (n + 1.0, sum + entries(table)));
        // Of new tables nothing is known yet: they are as the mean of the others.
        let (seen, of) = tables()
            .filter_map(|table| Some((looks(table)?, entries(table))))
            .fold((0.0, 0.0), |(looks, of), (more, entries)| (looks + more, of + entries));
        let usual = if of > 0.0 { seen / of } else { 0.0 };
        let weigh = |table: &TableRef| {
            let assumed = LOOKS_ASSUMED * entries(table) * count / f64::max(all, 1.0);
            looks(table).unwrap_or(usual * entries(table)) + assumed
        };
        let asked = tables().map(|table| (table.meta.key_spread(), weigh(table)));
        (seen > 0.0).then(|| ReadProfile::of(asked, span)).flatten()
    }
}

/// What a table teaches, if it was there for so many operations.
fn sample<'v>(window: &AccessWindow, table: &'v TableRef, enough: f64) -> HeatSample<'v> {
    let counted = window.counted(table.id()).filter(|(_, operations)| *operations >= enough);
    HeatSample { table: table.meta.key_spread(), heat: counted.map(|(heat, _)| heat) }
}

/// Of each level the hottest part, as foretold, against what its tables turned out to be.
fn quality_of(predictor: &Predictor, version: &Version, samples: &[Vec<HeatSample<'_>>]) -> Option<Quality> {
    let mut found = Vec::new();
    for (index, (level, samples)) in version.levels.iter().zip(samples).enumerate() {
        let foretold = |(table, sample): (&TableRef, &HeatSample<'_>)| Member {
            bytes: table.bytes(),
            heat: predictor.predict(index, &sample.table),
        };
        let members: Vec<Member> = level.tables().zip(samples).map(foretold).collect();
        let band = HOTTEST.band(&members, HYSTERESIS);
        for (member, sample) in members.iter().zip(samples) {
            if let (Some(_), Some(heat)) = (member.heat, sample.heat) {
                found.push((band.vote(&[*member], None), member.bytes, heat));
            }
        }
    }
    quality(found)
}

#[cfg(test)]
#[path = "filter_heat_tests.rs"]
mod filter_tests;

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use crate::db::database::Db;
    use crate::db::reading::scan::ScanRange;
    use crate::storage::simulated::SimulatedFileSystem;

    /// What reads from the file is worth being counted, whatever is sampled.
    #[test]
    fn a_get_that_reads_from_a_file_is_counted_in_any_case() {
        let fs = Arc::new(SimulatedFileSystem::new());
        let builder = Db::builder(Path::new("/s")).file_system(fs).set("cache_bytes", "0");
        let db = builder.without_threads().open().unwrap();
        for i in 0..1000u32 {
            db.put(&i.to_be_bytes(), &[1; 1000]).unwrap();
        }
        db.flush().unwrap();
        for i in 0..999u32 {
            db.get(&(i * 7 % 1000).to_be_bytes()).unwrap();
        }
        let view = db.keyspace("default").unwrap().state().view.load_full();
        let probes: u64 = view.version.tables().map(|(_, t)| t.meta.access.looks().probes).sum();
        assert_eq!(probes, 999);
    }

    /// A get that the filter answers reads no block of the table, and is no access.
    #[test]
    fn a_table_that_a_filter_keeps_a_get_from_was_not_looked_into() {
        let fs = Arc::new(SimulatedFileSystem::new());
        let db = Db::builder(Path::new("/s")).file_system(fs).without_threads().open().unwrap();
        for i in 0..1000u32 {
            db.put(&(2 * i).to_be_bytes(), b"v").unwrap();
        }
        db.flush().unwrap();
        let keyspace = db.keyspace("default").unwrap();
        let looks = || {
            let view = keyspace.state().view.load();
            let looks = view.version.tables().map(|(_, t)| t.meta.access.looks());
            looks.fold((0, 0, 0), |sum, l| (sum.0 + l.candidates, sum.1 + l.probes, sum.2 + l.entered))
        };
        let read = |odd: u32| {
            for i in 0..50_000u32 {
                db.get(&(2 * (i % 999) + odd).to_be_bytes()).unwrap();
            }
        };
        read(1);
        let (candidates, probes, _) = looks();
        assert!((40_000..60_000).contains(&candidates), "{candidates}");
        assert!(probes < candidates / 20, "{probes} of {candidates}");
        read(0);
        let (candidates, probes, entered) = looks();
        assert!((40_000..60_000).contains(&probes) && candidates > 80_000, "{probes} of {candidates}");
        assert_eq!(entered, 0);
        for _ in 0..20_000 {
            let mut cursor = db.cursor(ScanRange::all()).unwrap();
            cursor.seek_to_first().unwrap();
        }
        let (after, _, entered) = looks();
        assert!((15_000..25_000).contains(&entered), "{entered}");
        assert_eq!(after, candidates, "a scan is no get");
    }
}
