//! Looking for compactions: between the pure picker and the open jobs. The only place that turns `Blocked` into a yield, or into work
//! thrown away, and a permit into open jobs.
//!
//! ```text
//! decide ─► permit ─► pick ─► Run ─► (move by metadata | space? claim, open)
//!                         └► Blocked by less urgent jobs ─► they let go
//! ```

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use super::begin::begin;
use super::covered::drop_covered_tables;
use super::grouping::adjust_groups;
use super::install::{change_tree, tree_view};
use super::pressure::L0Debt;
use super::scheduling::{ask_to_let_go, decide_now};
use crate::base::class::{Class, L0Permit, Permit};
use crate::base::error::{Error, Result};
use crate::base::units::JobId;
use crate::compaction::commit::{set_bounds, set_levels};
use crate::compaction::picker::{Candidate, Pick, Rejected, Why, candidates, pick_among};
use crate::compaction::placement::Picked;
use crate::compaction::strategy::{Strategy, Trigger};
use crate::compaction::tree_view::TreeView;
use crate::db::store::failing::REST;
use crate::db::store::keyspace_state::KeyspaceState;
use crate::db::store::open_job::OpenJob;
use crate::db::store::state::{Store, TreeState};
use crate::scheduler::conflict::{Holder, OnConflict};
use crate::scheduler::decide::{Aside, Directive};

/// Opens jobs while the schedule permits and the trees want it.
pub fn look_for_work(store: &Store) -> Result<()> {
    loop {
        let (directive, on_conflict) = directive(store);
        note_l0_waits(store, &directive);
        if directive.permits_nothing() {
            return Ok(());
        }
        let mut opened = false;
        let mut failure = None;
        for keyspace in in_turn(store) {
            // What one tree suffers from must not keep the others waiting.
            match look_in(store, &keyspace, &directive, on_conflict) {
                Ok(begun) => {
                    opened = begun;
                    if !begun && directive.l0_place {
                        // Whatever keeps it, it is not the place.
                        keyspace.note_l0_wait(None);
                    }
                }
                Err(error) => {
                    failure = failure.or(Some(error));
                    keyspace.note_l0_wait(None);
                }
            }
            if opened {
                store.background.lock().begun_last = Some(keyspace.id);
                break;
            }
        }
        if !opened {
            return failure.map_or(Ok(()), Err);
        }
        // For the other workers, and for writers that wait for L0, which a move may have emptied.
        store.background.wake();
    }
}

/// Notes since when the first level of each tree is due and waits for a place, and for nothing else: `l0_wait` begins then. Where there
/// is a place, and no gate, the tree is looked at next, and what begins takes the note along.
fn note_l0_waits(store: &Store, directive: &Directive) {
    if directive.l0_place && !directive.gated.contains(&Class::L0ToL1) {
        return;
    }
    let now = store.clock.now();
    for keyspace in store.keyspaces.load().by_name.values() {
        let is_gated = directive.gates(keyspace.id, Class::L0ToL1);
        if is_gated || !directive.l0_place {
            // One that waits goes on to until there is a place: to ask each time what would be picked is much work for many trees.
            let waits = !is_gated && (keyspace.l0_waits() || wants_l0(store, directive, keyspace));
            keyspace.note_l0_wait(waits.then_some(now));
        }
    }
}

/// True if a compaction of a tree's first level would begin if there were a place for it. One that has a job open is being served.
fn wants_l0(store: &Store, directive: &Directive, keyspace: &KeyspaceState) -> bool {
    if keyspace.l0_runs() == 0 || directive.l0_open.contains(&keyspace.id) {
        return false;
    }
    let strategy = keyspace.strategy.load_full();
    let tree = store.tree();
    let Some(view) = tree_view(store, &tree, keyspace.id) else { return false };
    let wanted = &*wanted_now(store, &view, &strategy.strategy, directive, keyspace);
    let classes = vec![Class::IntraL0, Class::L0ToL1];
    let permit = Permit { classes, ..permit_now(store, directive, keyspace) };
    matches!(pick_among(&view, wanted, &permit).0, Pick::Run(picked) if picked.compaction.class.is_l0())
}

/// The keyspaces, those after the one that had the last turn first: one that always wants more than there are places for does not
/// keep the others from any.
fn in_turn(store: &Store) -> Vec<Arc<KeyspaceState>> {
    let last = store.background.lock().begun_last;
    let mut all: Vec<Arc<KeyspaceState>> = store.keyspaces.load().by_name.values().cloned().collect();
    let next = all.iter().position(|keyspace| Some(keyspace.id) == last).map_or(0, |at| at + 1);
    all.rotate_left(next);
    all
}

fn directive(store: &Store) -> (Directive, OnConflict) {
    let mut state = store.background.lock();
    let before = decide_now(store, &mut state);
    let (directive, on_conflict) = (state.directive.clone(), state.policy.on_conflict);
    drop(state);
    // The monitor finds nothing new, and wakes nobody.
    if directive.frees_more_than(&before) {
        store.background.wake();
    }
    (directive, on_conflict)
}

/// What came of a look.
enum Looked {
    Begun,
    Nothing,
    /// There is no space for what was picked, which is of this class.
    Refused(Class),
}

/// Looks for work in one tree; true if some was begun.
fn look_in(
    store: &Store,
    keyspace: &Arc<KeyspaceState>,
    directive: &Directive,
    on_conflict: OnConflict,
) -> Result<bool> {
    drop_covered_tables(store, keyspace)?;
    let strategy = keyspace.strategy.load_full();
    if strategy.strategy.has_trigger(|trigger| matches!(trigger, Trigger::SpaceAmp { .. })) {
        keyspace.estimate_space_amp();
    }
    let mut tree = store.tree();
    let tree = &mut *tree;
    // Not while a compaction by hand counts on its levels and groups.
    if !tree.by_hand.contains_key(&keyspace.id) {
        adjust_levels(store, tree, keyspace, &strategy.strategy)?;
        adjust_groups(store, tree, keyspace, &strategy.strategy)?;
    }
    let (mut permit, mut is_refused) = (permit_now(store, directive, keyspace), false);
    loop {
        match look_once(store, tree, keyspace, &strategy.strategy, directive, on_conflict, &permit)? {
            Looked::Begun => return Ok(true),
            Looked::Nothing => break,
            Looked::Refused(class) => {
                // What comes before it all the same may be smaller, or only move. Nothing else: that would have to make way for it, and be
                // begun again, and again in vain.
                is_refused = true;
                permit.classes.retain(|permitted| *permitted < class);
            }
        }
    }
    if is_refused {
        there_is_no_space(store, keyspace);
    }
    Ok(false)
}

/// The same, once, for what is permitted.
fn look_once(
    store: &Store,
    tree: &mut TreeState,
    keyspace: &Arc<KeyspaceState>,
    strategy: &Strategy,
    directive: &Directive,
    on_conflict: OnConflict,
    permit: &Permit,
) -> Result<Looked> {
    let Some(view) = tree_view(store, tree, keyspace.id) else {
        return Ok(Looked::Nothing);
    };
    let wanted = &*wanted_now(store, &view, strategy, directive, keyspace);
    // Where what is in L0's way is thrown away, L0 is looked at first: else what was more urgent would be begun again, and again in vain.
    let first = (on_conflict == OnConflict::Discard).then(|| pick_among(&view, wanted, &only_l0(permit)));
    let first = first.filter(|(pick, _)| match pick {
        Pick::Run(_) => true,
        Pick::Blocked { want, by, .. } => is_deeper(store, by, want.compaction.class),
        Pick::Nothing => false,
    });
    let (picked, rejected) = first.unwrap_or_else(|| pick_among(&view, wanted, permit));
    match picked {
        Pick::Run(picked) => begin_if_there_is_space(store, tree, keyspace, *picked, &rejected, permit.l0),
        Pick::Blocked { want, by, less_urgent } => {
            let class = want.compaction.class;
            if make_way(store, on_conflict, class, &by, &less_urgent) {
                return Ok(Looked::Nothing);
            }
            // Nobody lets go for it: what it would have come before need not wait as well.
            let mut permit = permit.clone();
            permit.classes.retain(|permitted| *permitted != class);
            match pick_among(&view, wanted, &permit) {
                (Pick::Run(picked), rejected) => {
                    begin_if_there_is_space(store, tree, keyspace, *picked, &rejected, permit.l0)
                }
                _ => Ok(Looked::Nothing),
            }
        }
        Pick::Nothing => {
            // In shape: groups that fit a changed strategy are marked as shaped for it.
            if let Some(committed) = set_bounds(view.version, view.claims, strategy)? {
                change_tree(store, tree, keyspace, committed.edit)?;
            }
            Ok(Looked::Nothing)
        }
    }
}

/// What may be picked in a keyspace: what the schedule permits, without tables of what has failed and rests.
pub fn permit_now(store: &Store, directive: &Directive, keyspace: &KeyspaceState) -> Permit {
    let resting = store.background.lock().failing.resting(keyspace.id, store.clock.now());
    Permit { resting, ..directive.permit_for(keyspace.id) }
}

/// The strategy as it is to be read now: L0 waits less for more of it while clients rest, and not at all where the schedule has it merged,
/// or writers are slowed for what no trigger asks for.
pub fn wanted_now<'a>(
    store: &Store,
    view: &TreeView<'_>,
    strategy: &'a Strategy,
    directive: &Directive,
    keyspace: &KeyspaceState,
) -> Cow<'a, Strategy> {
    // What only has too many runs is merged within L0, and stays there.
    let asks = |candidate: &Candidate| candidate.level == 0 && matches!(candidate.why, Why::Trigger(_));
    let waits = || !candidates(view, strategy).iter().any(asks);
    let none_goes_down = || view.claims.of_class(Class::L0ToL1).is_empty();
    let is_stuck = || none_goes_down() && L0Debt::of(store, keyspace).slows();
    let anyway = || directive.l0_anyway_in(keyspace.id).is_some() || is_stuck();
    if anyway() && waits() {
        Cow::Owned(strategy.with_eager_l0())
    } else if directive.plan.rests {
        Cow::Owned(strategy.with_early_l0())
    } else {
        Cow::Borrowed(strategy)
    }
}

fn begin_if_there_is_space(
    store: &Store,
    tree: &mut TreeState,
    keyspace: &Arc<KeyspaceState>,
    picked: Picked,
    rejected: &[Rejected],
    l0: L0Permit,
) -> Result<Looked> {
    let class = picked.compaction.class;
    let begun = begin(store, tree, keyspace, picked, rejected, l0, None)?;
    Ok(if begun.is_some() { Looked::Begun } else { Looked::Refused(class) })
}

/// Looked for again when there may be space. Writers that wait for this must not wait for ever.
fn there_is_no_space(store: &Store, keyspace: &KeyspaceState) {
    let mut state = store.background.lock();
    state.retry_at = store.clock.now() + REST;
    state.look_for_work = true;
    // A failure of which nobody knows whose it is goes before.
    if state.compaction_error.is_none() || !state.refused.is_empty() {
        let context = format!("compact keyspace `{}`", keyspace.name);
        state.compaction_error = Some(Error::NoSpace { context });
        state.refused.push(keyspace.id);
    }
}

/// Lets a level be born or go where dynamic sizes want it.
fn adjust_levels(
    store: &Store,
    tree: &mut TreeState,
    keyspace: &KeyspaceState,
    strategy: &Strategy,
) -> Result<()> {
    while let Some(view) = tree_view(store, tree, keyspace.id) {
        let mut ids = view.ids;
        let Some(committed) = set_levels(view.version, view.claims, strategy, &mut ids)? else { break };
        tree.versions.ids().run_and_group_at_least(ids.next_run, ids.next_group);
        change_tree(store, tree, keyspace, committed.edit)?;
    }
    Ok(())
}

fn only_l0(permit: &Permit) -> Permit {
    let mut permit = permit.clone();
    permit.classes.retain(|class| *class <= Class::L0ToL1);
    permit
}

/// True if all these jobs serve deeper levels than work of class `want` does.
fn is_deeper(store: &Store, by: &[JobId], want: Class) -> bool {
    let state = store.background.lock();
    state.jobs.iter().filter(|job| by.contains(&job.id)).all(|job| want.is_ahead_of(job.class))
}

/// Has the jobs `by` let go, if the schedule wants that of all of them; true if they do.
fn make_way(
    store: &Store,
    on_conflict: OnConflict,
    want: Class,
    by: &[JobId],
    less_urgent: &[JobId],
) -> bool {
    let now = store.clock.now();
    let holder = |job: &OpenJob| Holder {
        class: job.class,
        is_less_urgent: less_urgent.contains(&job.id),
        is_gated: job.aside == Some(Aside::Gate),
        idle: if job.job.is_some() { now.saturating_sub(job.stepped_at) } else { Duration::ZERO },
    };
    let mut state = store.background.lock();
    let jobs: Vec<&mut OpenJob> = state.jobs.iter_mut().filter(|job| by.contains(&job.id)).collect();
    let holders: Vec<Holder> = jobs.iter().map(|job| holder(job)).collect();
    let Some(ways) = on_conflict.make_way(want, &holders) else { return false };
    jobs.into_iter().zip(ways).for_each(|(job, how)| ask_to_let_go(store, job, how));
    drop(state);
    // They may be set aside, and all workers asleep.
    store.background.wake();
    true
}
