//! Where a compaction's output goes, and the compaction made of it: place, close, check, and write it all down.
//!
//! Moving down, per target group (`docs/compaction.md`): an empty group → first run; one run allowed → into the oldest; with
//! `fill`, into the newest while that stays within its share; else on top while there is room, or where the arrival can be
//! fused with the newest; else the target has to be compacted first. Below the last level a new one is born. Within a
//! level, neighbouring runs collapse into the oldest of them.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::closure::{SlotIndex, TablePos, Target, close, slot_index};
use super::compaction::{Compaction, InputRun, Slot, SlotPlace};
use super::legality;
use super::level_sizes::{goal_bytes, level_below};
use super::strategy::{Align, Layout, Strategy};
use super::tree_view::{Ids, TreeView};
use crate::base::class::Class;
use crate::base::key_range::KeyRange;
use crate::base::units::GroupId;
use crate::version::edit::{EditStep, VersionEdit};
use crate::version::group::Group;
use crate::version::run::TableRef;
use crate::version::version::Version;

/// What is to be compacted, before anything is known of its place and closure.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Whose urgency it has.
    pub class: Class,
    /// Why, one line for people.
    pub reason: Arc<str>,
    /// How urgent it is: a score, 1 or more.
    pub urgency: f64,
    /// The level of the seed.
    pub level: usize,
    /// The tables to start from.
    pub seed: Vec<TablePos>,
    /// Down to the next level, or together into a run of the seed's group (its index there).
    pub to: Direction,
    /// Where the round-robin goes on.
    pub cursor: Option<Box<[u8]>>,
    /// False to rewrite even what could be moved by metadata.
    pub may_move: bool,
}

/// Where a plan's output goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Into the next level.
    Down,
    /// Into this run, the oldest of the merged neighbours.
    Collapse {
        /// The group's index in its level.
        group: usize,
        /// The run's position in the group.
        run: usize,
    },
}

/// A decision, ready to be claimed.
#[derive(Clone, Debug)]
pub struct Picked {
    /// The work.
    pub compaction: Compaction,
    /// To apply before the work starts, together with the claim under the tree's lock; often empty.
    pub before: VersionEdit,
    /// The numbers that are free after this decision.
    pub ids: Ids,
}

/// What became of a plan.
#[derive(Clone, Debug)]
pub enum Drafted {
    /// It can be done; open jobs may still stand in its way.
    Ready(Box<Picked>),
    /// A group of the target level has to be compacted first.
    Full {
        /// The level.
        level: usize,
        /// The group's index there.
        group: usize,
    },
    /// There is no legal way.
    Illegal,
}

/// The output's place in each group of the target level that the inputs touch, by the group's index.
type Places = BTreeMap<usize, (SlotPlace, SlotIndex)>;

enum Place {
    At(SlotPlace),
    Full,
}

/// Places, closes and checks a plan.
pub fn draft(view: &TreeView<'_>, strategy: &Strategy, plan: &Plan) -> Drafted {
    let version = view.version;
    let seed: Vec<&TableRef> = plan.seed.iter().filter_map(|pos| pos.get(version)).collect();
    let range = hull(seed.iter().copied());
    let target_level = match plan.to {
        Direction::Down => level_below(&strategy.size, version, plan.level),
        Direction::Collapse { .. } => plan.level,
    };
    let groups = version.levels.get(target_level).map_or(1, |l| l.groups_over(&range).1.len().max(1));
    let arrival = seed.iter().map(|t| t.bytes()).sum::<u64>() / groups as u64;
    let full = Cell::new(None);
    let place = |index: usize, group: &Group| match plan.to {
        Direction::Collapse { run, .. } => group.runs.get(run).map(|r| SlotPlace::Collapse(r.id)),
        Direction::Down => match place_down(view, strategy, target_level, group, arrival, &range) {
            Place::At(place) => Some(place),
            Place::Full => {
                full.set(Some(index));
                None
            }
        },
    };
    match (draft_at(view, strategy, plan, target_level, &place), full.get()) {
        (Drafted::Illegal, Some(group)) => Drafted::Full { level: target_level, group },
        (drafted, _) => drafted,
    }
}

/// Closes and checks a plan for any target level, with the output's place in each group (by its index) given.
pub fn draft_at(
    view: &TreeView<'_>,
    strategy: &Strategy,
    plan: &Plan,
    target_level: usize,
    place: &dyn Fn(usize, &Group) -> Option<SlotPlace>,
) -> Drafted {
    let places: RefCell<Places> = RefCell::default();
    let slot = |index: usize, _: GroupId| {
        if let Some((_, at)) = places.borrow().get(&index) {
            return Some(*at);
        }
        let group = view.group(target_level, index)?;
        let place = place(index, group)?;
        let at = slot_index(group, place, None)?;
        places.borrow_mut().insert(index, (place, at));
        Some(at)
    };
    let target = Target { level: target_level, slot: &slot };
    let Some(inputs) = close(view.version, &plan.seed, &target).filter(|inputs| !inputs.is_empty()) else {
        return Drafted::Illegal;
    };
    if legality::check(view.version, &inputs, &target).is_err() {
        debug_assert!(false, "the closure of {plan:?} is not legal");
        return Drafted::Illegal;
    }
    Drafted::Ready(Box::new(write_down(view, strategy, plan, target_level, &inputs, &places.into_inner())))
}

/// Architecture §5 "Place", for one target group.
fn place_down(
    view: &TreeView<'_>,
    strategy: &Strategy,
    level: usize,
    group: &Group,
    arrival: u64,
    range: &KeyRange,
) -> Place {
    let Some(top) = group.runs.first() else { return Place::At(SlotPlace::First) };
    let on_top = Place::At(SlotPlace::Above(top.id));
    let Some(newest) = group.runs.iter().find(|r| !r.tables.is_empty()) else { return on_top };
    let layout = view.policy(strategy, level).layout.of_group(group);
    let (max, fill) = (layout.max_runs(), matches!(layout, Layout::Runs { fill: true, .. }));
    if max == 1 {
        // Where there are more runs, from an earlier strategy, what lies over the same keys comes together: into the newest
        // it would be rewritten again when the runs are merged.
        let oldest = group.runs.iter().rfind(|r| !r.tables.is_empty()).unwrap_or(newest);
        return Place::At(SlotPlace::Into(oldest.id));
    }
    // What is to be merged once there are too many runs is not made larger.
    let room = view.lasting_runs(group) <= max as usize;
    if fill
        && room
        && newest.bytes() + arrival <= group_capacity(view, strategy, level, group) / u64::from(max)
    {
        return Place::At(SlotPlace::Into(newest.id));
    }
    let fuses = newest.overlapping(range).is_empty() && !view.claims.holds_run(newest.id, None);
    if view.lasting_runs(group) < max as usize || fuses { on_top } else { Place::Full }
}

/// The level's capacity in the group's share of its bytes, at least an equal share.
fn group_capacity(view: &TreeView<'_>, strategy: &Strategy, level: usize, group: &Group) -> u64 {
    let capacity = goal_bytes(&strategy.size, view.version, level);
    let Some(found) = view.version.levels.get(level) else { return capacity };
    let equal = capacity / found.groups.len().max(1) as u64;
    let share = u128::from(capacity) * u128::from(group.bytes()) / u128::from(found.bytes().max(1));
    equal.max(share as u64)
}

fn write_down(
    view: &TreeView<'_>,
    strategy: &Strategy,
    plan: &Plan,
    target_level: usize,
    inputs: &BTreeSet<TablePos>,
    places: &Places,
) -> Picked {
    let version = view.version;
    let mut ids = view.ids;
    let mut before = VersionEdit::default();
    let mut levels = version.levels.len();
    let slots: Vec<Slot> = if target_level < levels {
        let groups = places.iter().filter_map(|(index, (place, _))| {
            let group = view.group(target_level, *index)?;
            let run = match place {
                SlotPlace::Into(run) | SlotPlace::Collapse(run) => *run,
                SlotPlace::Above(_) | SlotPlace::First => ids.run(),
            };
            Some(Slot { group: group.id, range: group.range.clone(), place: *place, run })
        });
        groups.collect()
    } else {
        levels += 1;
        let run_bound = strategy.levels.get(target_level, levels).layout.max_runs();
        let group = ids.group();
        before.steps.push(EditStep::AddLevel { group, run_bound });
        vec![Slot { group, range: KeyRange::all(), place: SlotPlace::First, run: ids.run() }]
    };
    let runs = input_runs(version, inputs);
    let tables = || runs.iter().flat_map(|r| &r.tables);
    let fits_one_slot = |t: &TableRef| slots.iter().any(|s| s.range.covers(&t.bounds));
    let compaction = Compaction {
        class: plan.class,
        reason: plan.reason.as_ref().to_owned(),
        urgency: plan.urgency,
        level: plan.level,
        target_level,
        range: hull(tables()),
        trivial_move: plan.may_move
            && target_level != plan.level
            && runs.len() == 1
            && tables().all(fits_one_slot),
        older: older(version, target_level, places, &hull(tables())),
        input_bytes: tables().map(TableRef::bytes).sum(),
        table_bytes: strategy.cut.table_bytes,
        ends_below: ends_below(version, strategy, target_level, &hull(tables())),
        filter_bits: strategy.filter_bits_at(target_level, levels, false),
        filter_bits_above: strategy.filter_bits_at(target_level, levels, true),
        cursor: plan.cursor.clone().map(|key| (plan.level, key)),
        inputs: runs,
        slots,
    };
    Picked { compaction, before, ids }
}

/// Where tables of the level below the target, or of the last one, end within `range`, if outputs are to be aligned with them.
/// Where that level has several runs, none of them says where to end.
fn ends_below(version: &Version, strategy: &Strategy, target: usize, range: &KeyRange) -> Vec<Arc<[u8]>> {
    let below = match strategy.cut.align {
        Align::Size => return Vec::new(),
        Align::Next => level_below(&strategy.size, version, target),
        Align::Last => version.deepest().unwrap_or(0),
    };
    let Some(level) = version.levels.get(below).filter(|_| below > target) else { return Vec::new() };
    let groups = level.groups_over(range).1.iter().filter(|g| g.run_count() == 1);
    let tables = groups.flat_map(|g| &g.runs).flat_map(|r| r.overlapping(range));
    tables.filter_map(|t| t.bounds.hi.clone()).filter(|end| range.is_below_end(end)).collect()
}

/// The inputs by run, in read order.
fn input_runs(version: &Version, inputs: &BTreeSet<TablePos>) -> Vec<InputRun> {
    let mut out: Vec<InputRun> = Vec::new();
    for pos in inputs {
        let Some(group) = version.levels.get(pos.level).and_then(|l| l.groups.get(pos.group)) else {
            continue;
        };
        let (Some(run), Some(table)) = (group.runs.get(pos.run), pos.get(version)) else { continue };
        match out.last_mut().filter(|last| last.run == run.id) {
            Some(last) => last.tables.push(table.clone()),
            None => out.push(InputRun {
                level: pos.level,
                group: group.id,
                run: run.id,
                tables: vec![table.clone()],
            }),
        }
    }
    out
}

/// Where older data than the output may lie (I4): below its place in its groups, and in every deeper level. What open
/// jobs are moving counts where it is now, and can only go further down.
fn older(version: &Version, target_level: usize, places: &Places, range: &KeyRange) -> Vec<KeyRange> {
    let Some(target) = version.levels.get(target_level) else { return Vec::new() };
    let same_level = places.iter().flat_map(|(index, (_, at))| {
        target.groups.get(*index).into_iter().flat_map(|g| g.runs.iter().skip(at.below))
    });
    let deeper = version.levels.iter().skip(target_level + 1);
    let deeper = deeper.flat_map(|l| l.groups_over(range).1).flat_map(|g| &g.runs);
    let mut found: Vec<&KeyRange> =
        same_level.chain(deeper).flat_map(|r| r.overlapping(range)).map(|t| &t.bounds).collect();
    found.sort_by(|a, b| a.lo.cmp(&b.lo));
    let mut out: Vec<KeyRange> = Vec::new();
    for next in found {
        match out.last_mut().filter(|last| last.is_below_end(&next.lo)) {
            Some(last) => *last = last.hull(next),
            None => out.push(next.clone()),
        }
    }
    out
}

/// The smallest range around all tables.
pub fn hull<'t>(tables: impl IntoIterator<Item = &'t TableRef>) -> KeyRange {
    let mut bounds = tables.into_iter().map(|t| &t.bounds);
    let Some(first) = bounds.next() else { return KeyRange::new(b"", Some(b"")) };
    bounds.fold(first.clone(), |all, next| if all.covers(next) { all } else { all.hull(next) })
}
