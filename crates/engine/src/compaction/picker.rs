//! What to compact next, as a pure function: candidates by score, seeds by granularity and movement, then place, close
//! and check (`docs/compaction.md`). No strategy has a picker of its own.
//!
//! 1. [`candidates`]: each group whose triggers fire, or that has more runs than its layout allows; most urgent first.
//! 2. [`pick`]: for each candidate its plans in order; the first whose closure no open job holds wins. One that open jobs
//!    hold is answered as `Blocked`, with those that are to let go: deeper ones that were less urgent.
//! 3. [`manual`]: the same for a range that a user wants compacted.

use std::ops::Range;
use std::sync::Arc;

use super::closure::TablePos;
use super::compaction::Compaction;
use super::deadline::Deadlines;
use super::due::asking;
use super::granularity::{FreeTables, SEEDS_MAX, Seed, seeds, whole_runs};
use super::layout::{RunFigures, answers, excess, longest_window, windows};
use super::level_sizes::{group_runs_max, surplus_levels};
use super::movement::Surroundings;
use super::placement::{Direction, Drafted, Picked, Plan, draft};
use super::strategy::{Granularity, Strategy, Trigger};
use super::tree_view::TreeView;
use super::trigger::{Figures, first_firing, score};
use crate::base::class::{Class, L0Permit, Permit};
use crate::base::key_range::KeyRange;
use crate::base::units::{GroupId, JobId, SeqNo, TableId};
use crate::table::meta::Born;
use crate::version::group::Group;
use crate::version::run::{SortedRun, TableRef};

/// So many times the runs that start a compaction of L0 are merged among themselves while the next level is busy.
const INTRA_L0_FACTOR: usize = 2;

/// The answer of the picker.
#[derive(Clone, Debug)]
pub enum Pick {
    /// Do this.
    Run(Box<Picked>),
    /// This should be done, but open jobs hold what it needs.
    Blocked {
        /// What should be done.
        want: Box<Picked>,
        /// The jobs in its way.
        by: Vec<JobId>,
        /// Those of them that serve a deeper level which is less urgent. If all do, they should let go; else it is the others' turn.
        less_urgent: Vec<JobId>,
    },
    /// The tree is in shape, or nothing that may start helps.
    Nothing,
}

/// Why a group should be compacted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Why {
    /// A trigger fired.
    Trigger(Trigger),
    /// It has more runs than its layout allows.
    Excess,
    /// The level above has no room in it.
    Room,
    /// Its level is one too many.
    Surplus,
}

/// A group that should be compacted.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// The level.
    pub level: usize,
    /// The group's index there.
    pub group: usize,
    /// The group.
    pub group_id: GroupId,
    /// Why.
    pub why: Why,
    /// The normalised score, 1 or more.
    pub urgency: f64,
    /// Whose urgency the work has.
    pub class: Class,
}

/// So many rejected candidates are told of with a decision.
pub const REJECTED_MAX: usize = 8;

/// A candidate that was not chosen.
#[derive(Clone, Debug, PartialEq)]
pub struct Rejected {
    /// What it is.
    pub candidate: Candidate,
    /// Why another was.
    pub because: Because,
}

/// Why a candidate was not chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Because {
    /// Open jobs hold what it needs.
    Blocked(Vec<JobId>),
    /// The schedule had no worker free for its class.
    NotPermitted,
    /// Nothing that could start would have helped it.
    Nothing,
    /// The chosen one was more urgent.
    LessUrgent,
}

/// Every group that should be compacted: upkeep last, else the highest score first.
pub fn candidates(view: &TreeView<'_>, strategy: &Strategy) -> Vec<Candidate> {
    let mut out = Vec::new();
    let surplus = surplus_levels(&strategy.size, view.version);
    let deepest = view.deepest();
    for (level, found) in view.version.levels.iter().enumerate() {
        let all = view.figures(strategy, level);
        for (index, figures) in all.iter().enumerate() {
            let Some(group) = found.groups.get(index).filter(|_| figures.runs > 0) else { continue };
            let layout = view.policy(strategy, level).layout;
            let policy = view.policy(strategy, level).of_group(group);
            let candidate = |why, urgency| Candidate {
                level,
                group: index,
                group_id: group.id,
                why,
                urgency,
                class: class_of(level, why, level >= deepest),
            };
            let leaves_it_to_another = |trigger: Trigger| {
                matches!(trigger, Trigger::Saturation(_)) && answers(layout, found, &all, index).is_empty()
            };
            let score_of = |trigger: Trigger| match trigger {
                _ if trigger.is_about_tables() => asking(view, strategy, trigger, level, index).1,
                _ => Some(score(trigger, figures))
                    .filter(|score| *score < 1.0 || !leaves_it_to_another(trigger))
                    .unwrap_or(0.0),
            };
            let fired = first_firing(&policy.triggers, score_of);
            out.extend(fired.map(|(trigger, score)| candidate(Why::Trigger(trigger), score)));
            // A deadline is not put off because something else comes before it in the list.
            let ttl = policy.ttl_ms().map(|ttl_ms| Trigger::TombstoneTtl { ttl_ms });
            let ttl = ttl.filter(|ttl| fired.is_some_and(|(first, _)| first != *ttl));
            let late = ttl.map(|ttl| (ttl, score_of(ttl))).filter(|(_, score)| *score >= 1.0);
            out.extend(late.map(|(ttl, score)| candidate(Why::Trigger(ttl), score)));
            // A trigger on runs, or on what they have in common, that takes whole runs also mends their number.
            let mends = matches!(fired, Some((Trigger::Runs | Trigger::Duplicates { .. }, _)))
                && matches!(policy.granularity, Granularity::Runs | Granularity::Level);
            // What has to leave the level is not merged there first.
            if (1..=surplus).contains(&level) {
                out.push(candidate(Why::Surplus, 1.0));
            } else if excess(figures.runs as usize, group_runs_max(strategy, view.version, level, group)) > 0
                && (!mends || figures.max_runs == 1)
            {
                out.push(candidate(Why::Excess, score(Trigger::Runs, figures)));
            }
        }
    }
    out.sort_by(|a, b| {
        let upkeep = |c: &Candidate| c.class == Class::Upkeep;
        let by_class = upkeep(a).cmp(&upkeep(b));
        by_class.then(b.urgency.total_cmp(&a.urgency)).then(a.class.cmp(&b.class)).then(a.level.cmp(&b.level))
    });
    out
}

/// What to do next within `permit`.
///
/// Called under the tree's lock. For `Run`: keep `picked.ids`; a trivial move is committed at once
/// (`commit::move_tables`), otherwise `picked.before` is applied and the compaction claimed in the same step. `Blocked`
/// comes before lesser work that could run, so that its holders can be told to yield; who decides to wait instead asks
/// again with a permit without `want`'s class.
pub fn pick(view: &TreeView<'_>, strategy: &Strategy, permit: &Permit) -> Pick {
    pick_among(view, strategy, permit).0
}

/// The same, and what else was considered: at most [`REJECTED_MAX`] candidates, the most urgent first.
pub fn pick_among(view: &TreeView<'_>, strategy: &Strategy, permit: &Permit) -> (Pick, Vec<Rejected>) {
    let mut rejected = Vec::new();
    let mut reject = |candidate: &Candidate, because: Because| {
        if rejected.len() < REJECTED_MAX {
            rejected.push(Rejected { candidate: candidate.clone(), because });
        }
    };
    let all = candidates(view, strategy);
    let mut waiting = None;
    for (i, candidate) in all.iter().enumerate() {
        match attempt(view, strategy, permit, candidate) {
            Pick::Run(picked) => {
                all.iter().skip(i + 1).for_each(|other| reject(other, Because::LessUrgent));
                return (Pick::Run(picked), rejected);
            }
            Pick::Blocked { want, by, .. } => {
                reject(candidate, Because::Blocked(by.clone()));
                let is_less = |job: &&JobId| {
                    let holder = view.claims.compaction(**job);
                    holder.is_some_and(|holder| gives_way(holder, want.compaction.class, candidate.urgency))
                };
                let less_urgent: Vec<JobId> = by.iter().filter(is_less).copied().collect();
                let comes_first = !less_urgent.is_empty();
                let blocked = Pick::Blocked { want, by, less_urgent };
                if comes_first {
                    return (blocked, rejected);
                }
                waiting = waiting.or(Some(blocked));
            }
            Pick::Nothing if !permit.allows(candidate.class) => reject(candidate, Because::NotPermitted),
            Pick::Nothing => reject(candidate, Because::Nothing),
        }
    }
    (waiting.unwrap_or(Pick::Nothing), rejected)
}

/// True if an open job should let go for work of this class and urgency. One that was more urgent when it began would be so again as
/// soon as it has let go, begin anew, and be sent away: for ever, a table of a few keys each time.
fn gives_way(holder: &Compaction, want: Class, urgency: f64) -> bool {
    want.is_ahead_of(holder.class) && (holder.class == Class::Upkeep || urgency > holder.urgency)
}

/// What a candidate comes to.
pub fn attempt(view: &TreeView<'_>, strategy: &Strategy, permit: &Permit, candidate: &Candidate) -> Pick {
    let plans = plans(view, strategy, permit, candidate);
    let first = try_plans(view, strategy, permit, &plans);
    let down = plans.first().is_some_and(|p| p.to == Direction::Down);
    match first {
        // The next level is busy with earlier runs: meanwhile the newer ones can be merged among themselves. That writes every
        // byte once more, so it waits until twice as many have gathered as start a compaction downward.
        Pick::Blocked { ref by, .. } if candidate.level == 0 && down && permit.allows(Class::IntraL0) => {
            let holders = || by.iter().filter_map(|job| view.claims.compaction(*job));
            // One merge within L0 after the other, each in the way of the next one down, would keep the way out shut for ever.
            let one_goes_down = holders().any(|holder| holder.class == Class::L0ToL1);
            if !one_goes_down || holders().any(|holder| Class::L0ToL1.is_ahead_of(holder.class)) {
                return first;
            }
            let least = INTRA_L0_FACTOR * view.policy(strategy, 0).layout.max_runs().max(2) as usize;
            let reason = "merges flushes while older ones move down";
            let intra = free_window(view, candidate, |_| true).filter(|w| w.len() >= least);
            let intra = intra.and_then(|w| collapse_plan(view, candidate, w, Class::IntraL0, reason.into()));
            match try_plans(view, strategy, permit, intra.as_slice()) {
                Pick::Run(picked) => Pick::Run(picked),
                _ => first,
            }
        }
        other => other,
    }
}

/// The first plan that can run now and is small enough; else the smallest that can run; else the first that is blocked.
fn try_plans(view: &TreeView<'_>, strategy: &Strategy, permit: &Permit, plans: &[Plan]) -> Pick {
    let mut smallest: Option<Box<Picked>> = None;
    let mut blocked = None;
    for plan in plans {
        match draft(view, strategy, plan) {
            Drafted::Illegal => {}
            Drafted::Ready(picked)
                if picked.compaction.tables().any(|t| permit.resting.contains(&t.id())) => {}
            Drafted::Full { level, group } => return make_room(view, strategy, permit, level, group),
            Drafted::Ready(picked) => {
                let mut by = view.claims.blockers(&picked.compaction);
                if by.is_empty() {
                    by = all_that_may(view, permit, picked.compaction.class);
                }
                if !by.is_empty() {
                    blocked = blocked.or(Some(Pick::Blocked { want: picked, by, less_urgent: Vec::new() }));
                } else if picked.compaction.input_bytes <= permit.max_bytes {
                    return Pick::Run(picked);
                } else if smallest
                    .as_ref()
                    .is_none_or(|s| s.compaction.input_bytes > picked.compaction.input_bytes)
                {
                    smallest = Some(picked);
                }
            }
        }
    }
    match smallest {
        Some(picked) => Pick::Run(picked),
        None => blocked.unwrap_or(Pick::Nothing),
    }
}

/// The jobs that bring the first level down, if there are as many as may.
fn all_that_may(view: &TreeView<'_>, permit: &Permit, class: Class) -> Vec<JobId> {
    let Some(most) = permit.l0_down_max.filter(|_| class == Class::L0ToL1) else { return Vec::new() };
    let mut open = view.claims.of_class(class);
    if open.len() < most as usize {
        open.clear();
    }
    open
}

/// The target of a move has no room for another run: it is compacted first.
fn make_room(view: &TreeView<'_>, strategy: &Strategy, permit: &Permit, level: usize, group: usize) -> Pick {
    let Some(group_id) = view.group(level, group).map(|g| g.id) else { return Pick::Nothing };
    let (why, urgency) = (Why::Room, 1.0);
    attempt(view, strategy, permit, &Candidate { level, group, group_id, why, urgency, class: Class::Deep })
}

/// `stays`: the level is the deepest that holds data, so tables that ask are rewritten there.
fn class_of(level: usize, why: Why, stays: bool) -> Class {
    let rewrites = |trigger: Trigger| match trigger {
        Trigger::Staleness { .. } => false,
        trigger => trigger.is_about_tables() || matches!(trigger, Trigger::SpaceAmp { .. }),
    };
    match (level, why) {
        (0, Why::Excess) => Class::IntraL0,
        (0, Why::Trigger(trigger)) if stays && rewrites(trigger) => Class::IntraL0,
        (0, _) => Class::L0ToL1,
        (_, Why::Trigger(Trigger::TombstoneDensity { .. } | Trigger::ReadHeat { .. })) if stays => {
            Class::Upkeep
        }
        (_, Why::Excess | Why::Surplus) => Class::Upkeep,
        _ => Class::Deep,
    }
}

/// The ways to serve a candidate, best first.
fn plans(view: &TreeView<'_>, strategy: &Strategy, permit: &Permit, candidate: &Candidate) -> Vec<Plan> {
    let Some(group) = view.group(candidate.level, candidate.group) else { return Vec::new() };
    let why = match candidate.why {
        Why::Trigger(trigger) => trigger.word(),
        Why::Excess => "excess runs",
        Why::Room => "room for the level above",
        Why::Surplus => "a level too many",
    };
    let reason: Arc<str> = format!("{why}, score {:.2} at L{}", candidate.urgency, candidate.level).into();
    let l0_intra = match permit.l0 {
        L0Permit::IntraOnly { flush_born } if candidate.level == 0 => Some(flush_born),
        _ => None,
    };
    if let Some(flush_born) = l0_intra {
        let usable = |run: usize| !flush_born || is_flush_born(group, run);
        let window = free_window(view, candidate, usable).filter(|_| permit.allows(Class::IntraL0));
        return window
            .and_then(|w| collapse_plan(view, candidate, w, Class::IntraL0, reason))
            .into_iter()
            .collect();
    }
    if !permit.allows(candidate.class) {
        return Vec::new();
    }
    let stays = candidate.level >= view.deepest();
    if let Why::Trigger(trigger) = candidate.why
        && trigger.is_about_tables()
    {
        return plans_for_asking(view, strategy, candidate, trigger, &reason);
    }
    let runs = run_figures(view, candidate);
    let collapse = match candidate.why {
        Why::Trigger(Trigger::SpaceAmp { .. }) if stays => Some(runs.len().saturating_sub(1)),
        Why::Excess => {
            Some(excess(runs.len(), group_runs_max(strategy, view.version, candidate.level, group)))
        }
        _ if collapses_in_place(view, strategy, candidate) => Some(runs.len().saturating_sub(1)),
        _ => None,
    };
    let Some(excess) = collapse else { return down_plans(view, strategy, candidate, None, &reason) };
    let figures: Vec<RunFigures<'_>> = runs.iter().map(|(_, f)| *f).collect();
    let to_positions = |w: Range<usize>| Some(runs.get(w.start)?.0..runs.get(w.end - 1)?.0 + 1);
    let plan = |w| collapse_plan(view, candidate, to_positions(w)?, candidate.class, Arc::clone(&reason));
    windows(&figures, excess).into_iter().filter_map(plan).collect()
}

/// The last level merges its runs where they are until it is full; then a level is born below.
fn collapses_in_place(view: &TreeView<'_>, strategy: &Strategy, candidate: &Candidate) -> bool {
    let last = candidate.level > 0 && candidate.level + 1 == view.version.levels.len();
    let bytes = |figures: &Figures| figures.bytes < figures.capacity_bytes && figures.runs > 1;
    last && matches!(candidate.why, Why::Trigger(Trigger::Runs) | Why::Room)
        && view.figures(strategy, candidate.level).get(candidate.group).is_some_and(bytes)
}

/// Tables that ask go down, or are rewritten where there is no further down, the most urgent first.
fn plans_for_asking(
    view: &TreeView<'_>,
    strategy: &Strategy,
    candidate: &Candidate,
    trigger: Trigger,
    reason: &Arc<str>,
) -> Vec<Plan> {
    let (level, group) = (candidate.level, candidate.group);
    let (asking, _) = asking(view, strategy, trigger, level, group);
    let moves = level < view.deepest() || matches!(trigger, Trigger::Staleness { .. });
    if moves {
        return down_plans(view, strategy, candidate, Some(asking), reason);
    }
    let runs = view.group(level, group).map(|g| g.runs.as_slice()).unwrap_or_default();
    let Some(run) = runs.iter().rposition(|run| !run.tables.is_empty()) else { return Vec::new() };
    let mut tables: Vec<TablePos> = asking.into_iter().flatten().collect();
    tables.sort_by_key(|pos| pos.get(view.version).and_then(TableRef::oldest_delete_ms).unwrap_or(u64::MAX));
    let plan = |pos: TablePos| Plan {
        class: candidate.class,
        reason: Arc::clone(reason),
        urgency: candidate.urgency,
        level,
        seed: vec![pos],
        to: Direction::Collapse { group, run },
        cursor: None,
        may_move: false,
    };
    tables.into_iter().take(SEEDS_MAX).map(plan).collect()
}

/// One plan a seed. `asking`: the tables that a movement may choose from, by run, if not all.
fn down_plans(
    view: &TreeView<'_>,
    strategy: &Strategy,
    candidate: &Candidate,
    asking: Option<FreeTables>,
    reason: &Arc<str>,
) -> Vec<Plan> {
    let level = candidate.level;
    let Some(found) = view.version.levels.get(level) else { return Vec::new() };
    let Some(group) = found.groups.get(candidate.group) else { return Vec::new() };
    let policy = view.policy(strategy, level).of_group(group);
    let free = |group: usize| -> FreeTables {
        let runs = found.groups.get(group).map_or(0, |g| g.runs.len());
        (0..runs).map(|run| view.free_tables(level, group, run)).collect()
    };
    let mut groups: Vec<FreeTables> = (0..found.groups.len()).map(free).collect();
    if let (Some(asking), true, Some(own)) =
        (asking, policy.granularity.needs_movement(), groups.get_mut(candidate.group))
    {
        *own = asking;
    }
    let cursor = view.cursors.get(&level).map(|key| &**key);
    let due = Deadlines::of(strategy, view.version).map(|due| view.now_ms.saturating_sub(due.level(level)));
    let around = Surroundings { version: view.version, level, cursor, due_before_ms: due.unwrap_or(0) };
    let plan = |seed: Seed| Plan {
        class: candidate.class,
        reason: Arc::clone(reason),
        urgency: candidate.urgency,
        level,
        seed: seed.tables,
        to: Direction::Down,
        cursor: seed.cursor,
        may_move: true,
    };
    let among = match candidate.why {
        Why::Trigger(Trigger::Saturation(_)) => {
            let layout = view.policy(strategy, level).layout;
            answers(layout, found, &view.figures(strategy, level), candidate.group)
        }
        _ => vec![candidate.group],
    };
    seeds(&policy, &groups, &among, &around).into_iter().map(plan).collect()
}

/// The group's runs that hold tables: position and figures.
fn run_figures<'a>(view: &TreeView<'a>, candidate: &Candidate) -> Vec<(usize, RunFigures<'a>)> {
    let Some(group) = view.group(candidate.level, candidate.group) else { return Vec::new() };
    let runs = group.runs.iter().enumerate().filter(|(_, run)| !run.tables.is_empty());
    let figures = |(at, run): (usize, &'a Arc<SortedRun>)| {
        (at, RunFigures { run, busy: view.is_busy(candidate.level, candidate.group, at) })
    };
    runs.map(figures).collect()
}

/// The longest stretch of neighbouring runs that no open job has a table of.
fn free_window(
    view: &TreeView<'_>,
    candidate: &Candidate,
    usable: impl Fn(usize) -> bool,
) -> Option<Range<usize>> {
    let runs = run_figures(view, candidate);
    let free = |i: usize| runs.get(i).is_some_and(|(at, f)| !f.busy && usable(*at));
    let window = longest_window(runs.len(), free)?;
    Some(runs.get(window.start)?.0..runs.get(window.end - 1)?.0 + 1)
}

fn is_flush_born(group: &Group, run: usize) -> bool {
    group.runs.get(run).is_some_and(|r| r.tables.iter().all(|t| t.meta.born == Born::Flush))
}

/// All tables of the runs at these positions, into the oldest of them.
fn collapse_plan(
    view: &TreeView<'_>,
    candidate: &Candidate,
    runs: Range<usize>,
    class: Class,
    reason: Arc<str>,
) -> Option<Plan> {
    let (level, group) = (candidate.level, candidate.group);
    let to = Direction::Collapse { group, run: runs.end.checked_sub(1)? };
    let seed = whole_runs(view.version, level, group, runs);
    let urgency = candidate.urgency;
    Some(Plan { class, reason, urgency, level, seed, to, cursor: None, may_move: false })
}

/// What a user wants compacted.
#[derive(Clone, Debug)]
pub struct Wish {
    /// These keys.
    pub range: KeyRange,
    /// Nothing goes further down than to this level; `None`: to the deepest that holds data, whose runs are merged.
    pub to_level: Option<usize>,
    /// What was written by then; what came later stays where it is.
    pub until: SeqNo,
    /// At the deepest level, tables older than this one are rewritten for the sake of their tombstones.
    pub before: TableId,
}

/// What a wish takes at `level`: everything there goes to the next level; at the deepest level that holds data, its runs are
/// merged and tombstones are rewritten away. Called for each level downward, until it answers `Nothing`.
pub fn manual(view: &TreeView<'_>, strategy: &Strategy, wish: &Wish, level: usize) -> Pick {
    let Some(deepest) = view.version.deepest() else { return Pick::Nothing };
    if wish.to_level.is_some_and(|to| level >= to) {
        return Pick::Nothing;
    }
    let permit = Permit::everything();
    let class = if level == 0 { Class::L0ToL1 } else { Class::Deep };
    let (reason, urgency): (Arc<str>, f64) = (format!("asked for at L{level}").into(), 1.0);
    let Some(found) = view.version.levels.get(level).filter(|_| level <= deepest) else {
        return Pick::Nothing;
    };
    let old = |table: &TableRef| table.meta.seqs.0 <= wish.until;
    let groups = found.groups.iter().enumerate().map(|(group, g)| {
        let runs = g.runs.iter().enumerate();
        let tables = |(run, r): (usize, &Arc<SortedRun>)| {
            let of_run = r.overlapping_range(&wish.range).filter(|i| r.tables.get(*i).is_some_and(old));
            of_run.map(|table| TablePos { level, group, run, table }).collect::<Vec<_>>()
        };
        runs.flat_map(tables).collect::<Vec<TablePos>>()
    });
    if level < deepest {
        let seed: Vec<TablePos> = groups.flatten().collect();
        if seed.is_empty() {
            return Pick::Nothing;
        }
        let deletes = |pos: &TablePos| pos.get(view.version).is_some_and(has_tombstones);
        let may_move = !seed.iter().any(deletes);
        let plan = Plan { class, reason, urgency, level, seed, to: Direction::Down, cursor: None, may_move };
        return try_plans(view, strategy, &permit, &[plan]);
    }
    let class = if level == 0 { Class::IntraL0 } else { Class::Deep };
    for (group, all) in groups.enumerate() {
        let (Some(newest), Some(oldest)) = (all.iter().map(|p| p.run).min(), all.iter().map(|p| p.run).max())
        else {
            continue;
        };
        let worth = |pos: &TablePos| {
            let table = pos.get(view.version);
            newest < oldest || table.is_some_and(|t| has_tombstones(t) && t.id() < wish.before)
        };
        let seed: Vec<TablePos> = all.into_iter().filter(worth).collect();
        if !seed.is_empty() {
            let to = Direction::Collapse { group, run: oldest };
            let plan = Plan { class, reason, urgency, level, seed, to, cursor: None, may_move: false };
            return try_plans(view, strategy, &permit, &[plan]);
        }
    }
    Pick::Nothing
}

fn has_tombstones(table: &TableRef) -> bool {
    table.meta.tombstones + table.meta.range_tombstones > 0
}

#[cfg(test)]
#[path = "picker_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "picker_primitives_tests.rs"]
mod primitives_tests;
