//! Looking for compactions and stepping them: between the pure picker and the stepped jobs. The only place that turns
//! `Blocked` into a yield, and a permit into open jobs.
//!
//! ```text
//! decide ─► permit ─► pick ─► Run ─► (move by metadata | space? claim, open) ─► step ... ─► commit parts ─► end
//!                         └► Blocked by less urgent jobs ─► they yield, and commit what they have
//! ```

use std::sync::Arc;
use std::time::Duration;

use super::background::{BackgroundState, OpenJob, STEP_BYTES, Watched};
use super::covered::drop_covered_tables;
use super::decisions::{Cost, Outcome};
use super::deletes::look_again_ms;
use super::install::{install_part, publish_version, record_change, release_job, tree_view};
use super::job_begin::begin;
use super::keyspace_state::KeyspaceState;
use super::state::{Store, TreeState};
use crate::base::class::{Class, Permit};
use crate::base::error::{Error, Result};
use crate::base::units::JobId;
use crate::compaction::commit::{set_bounds, set_levels};
use crate::compaction::picker::{Pick, pick_among};
use crate::compaction::strategy::{Strategy, Trigger};
use crate::execution::compaction_job::CompactionJob;
use crate::execution::merge_loop::Progress;
use crate::observe::counters::CompactionKind;
use crate::observe::event::Event;
use crate::scheduler::policy::{Backlog, Sample, decide, next_to_step};
use crate::version::manifest::ManifestRecord;

/// Finished tables are committed in parts of this many, so that little is lost and space comes back early.
const TABLES_PER_PART: usize = 8;

/// After a failure compactions rest this long.
const RETRY_AFTER: Duration = Duration::from_millis(500);

/// A job that has been paused this long lets go of its claims if others want them.
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// What a call of `step` came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stepped {
    /// Something was done.
    Worked,
    /// Nothing can be done before this time, unless something changes.
    Wait(Duration),
    /// There is nothing to do.
    Idle,
}

/// One step of compaction work: looks for work if a tree has changed, then steps the job that `choose` names among the
/// runnable ones (index into the open jobs, and class).
pub fn step(store: &Store, choose: &mut dyn FnMut(&[(usize, Class)]) -> Option<usize>) -> Stepped {
    if store.check_writable().is_err() || store.check_settled().is_err() {
        return Stepped::Idle;
    }
    let Some(_step) = store.background.begin_step() else { return Stepped::Idle };
    let now = store.clock.now();
    let mut state = store.background.lock();
    let mut otherwise = Stepped::Idle;
    if state.look_at_ms.is_some_and(|at| at <= store.clock.wall_ms()) {
        (state.look_at_ms, state.look_for_work) = (None, true);
    }
    if state.look_for_work && now < state.retry_at {
        // Only the look for work rests after a failure; jobs that are open go on.
        otherwise = Stepped::Wait(state.retry_at);
    } else if state.look_for_work {
        state.look_for_work = false;
        state.looking += 1;
        // What failed is tried again, or not wanted any more.
        state.compaction_error = None;
        drop(state);
        if let Err(error) = look_for_work(store) {
            failed(store, error);
        }
        let look_at_ms = look_again_ms(store);
        state = store.background.lock();
        state.look_at_ms = look_at_ms;
        state.looking -= 1;
        if state.jobs.is_empty() {
            store.background.tell_none_due();
        }
    }
    let runnable: Vec<(usize, Class)> = state
        .jobs
        .iter()
        .enumerate()
        .filter(|(_, j)| j.job.is_some() && !j.waiting)
        .map(|(i, j)| (i, j.class))
        .collect();
    let Some(chosen) = choose(&runnable) else { return otherwise };
    let chosen = match granted(&mut state, now, chosen, &runnable) {
        Ok(chosen) => chosen,
        Err(when) => return Stepped::Wait(when),
    };
    let fresh = state.jobs.get(chosen).is_some_and(|job| !job.started);
    set_others_aside(store, &mut state, chosen, &runnable);
    let syncs = state.syncs_done;
    let again = state.jobs.get(chosen).is_some_and(|open| lost_before(&state, open));
    let Some(open) = state.jobs.get_mut(chosen) else { return Stepped::Idle };
    let Some(mut job) = open.job.take() else { return Stepped::Idle };
    if open.yield_requested {
        // One that let go in vain before gets on by a step first: else it could be picked and sent away for ever.
        if !(fresh && again) {
            job.request_yield(open.sliced || again);
        }
    }
    let open = &state.jobs[chosen];
    let (id, class, sliced, keyspace) = (open.id, open.class, open.sliced, Arc::clone(&open.keyspace));
    let l0_share = open.l0_share;
    drop(state);

    let cpu = evenkeel_sys::thread_cpu_time();
    let outcome = job.step(STEP_BYTES);
    let outcome = match outcome {
        Ok((Progress::TableDone, moved)) if sliced || job.ready_parts() >= TABLES_PER_PART => {
            match job.take_commit(false, false).map(|part| install_part(store, &keyspace, id, part)) {
                None => Ok((Progress::TableDone, moved)),
                Some(Ok(())) => {
                    let_go(store, &keyspace, id, &mut job);
                    Ok((Progress::TableDone, moved))
                }
                Some(Err(error)) => Err(error),
            }
        }
        other => other,
    };
    store.counters.cpu_nanos[class as usize]
        .add((evenkeel_sys::thread_cpu_time().saturating_sub(cpu)).as_nanos() as u64);
    store.counters.step_us.add((store.clock.now().saturating_sub(now)).as_micros() as u64);
    if let (Ok((_, moved)), true) = (&outcome, l0_share > 0.0) {
        keyspace.l0_drain.drained(store.clock.now(), *moved as f64 * l0_share);
    }
    match outcome {
        Ok((Progress::Finished, moved)) => {
            charge(store, moved);
            end(store, &keyspace, id, job);
        }
        Ok((progress, moved)) => put_back(store, id, job, progress, moved, syncs),
        Err(error) => discard(store, &keyspace, id, job, error),
    }
    Stepped::Worked
}

/// The job to step: the chosen one if the rate allows it now, else one that lets go, which moves a key or so: whoever asked it to
/// does not wait for the rate. Or when to ask again.
fn granted(
    state: &mut BackgroundState,
    now: Duration,
    chosen: usize,
    runnable: &[(usize, Class)],
) -> Result<usize, Duration> {
    if lets_go(state, chosen) {
        return Ok(chosen);
    }
    match state.limiter.grant(now, STEP_BYTES) {
        Ok(_) => Ok(chosen),
        Err(when) => runnable.iter().map(|(i, _)| *i).find(|i| lets_go(state, *i)).ok_or(when),
    }
}

/// True if this job yields at its next step.
fn lets_go(state: &BackgroundState, index: usize) -> bool {
    let asked = state.jobs.get(index).filter(|job| job.yield_requested);
    asked.is_some_and(|job| job.started || !lost_before(state, job))
}

/// True if this work was begun before, and let go in vain.
fn lost_before(state: &BackgroundState, open: &OpenJob) -> bool {
    open.seed.is_some_and(|seed| state.lost_work.contains(&seed))
}

/// Has a job that goes on hold no longer what its last commit consumed, so that those files can go.
fn let_go(store: &Store, keyspace: &KeyspaceState, id: JobId, job: &mut CompactionJob) {
    let rest = store.tree().claims.get(&keyspace.id).and_then(|claims| claims.compaction(id).cloned());
    if let Some(rest) = rest {
        if let Some(open) = store.background.lock().jobs.iter_mut().find(|open| open.id == id) {
            open.compaction = Arc::clone(&rest);
        }
        job.let_go(rest);
        store.lane.poke();
    }
}

/// The order of the schedule.
pub fn by_schedule(store: &Store) -> impl FnMut(&[(usize, Class)]) -> Option<usize> {
    let order = store.background.lock().policy.order;
    move |runnable| next_to_step(order, runnable.iter().copied())
}

fn set_others_aside(store: &Store, state: &mut BackgroundState, chosen: usize, runnable: &[(usize, Class)]) {
    let class = state.jobs.get(chosen).map(|j| j.class);
    for (i, other) in runnable {
        let Some(job) = state.jobs.get_mut(*i) else { continue };
        if *i == chosen {
            if std::mem::take(&mut job.set_aside) {
                store.counters.jobs_resumed.add(1);
            }
        } else if Some(*other) > class && job.started && !std::mem::replace(&mut job.set_aside, true) {
            store.counters.jobs_preempted.add(1);
        }
    }
    if let Some(job) = state.jobs.get_mut(chosen) {
        job.started = true;
        job.stepped_at = store.clock.now();
    }
}

fn charge(store: &Store, moved: u64) {
    store.background.lock().limiter.charge(moved);
}

fn put_back(store: &Store, id: JobId, job: Box<CompactionJob>, progress: Progress, moved: u64, syncs: u64) {
    let mut state = store.background.lock();
    state.limiter.charge(moved);
    // A sync that ended while the job was being stepped has nobody else to tell.
    let waiting = progress == Progress::Waiting && state.syncs_done == syncs;
    if let Some(open) = state.jobs.iter_mut().find(|j| j.id == id) {
        if let Some(watch) = &open.watch {
            watch.note(|watched| note_job(watched, &job));
        }
        open.read_bytes = job.bytes_read();
        open.job = Some(job);
        open.waiting = waiting;
    }
}

/// Tells whoever asked for this job, if anybody did.
fn tell_watch(store: &Store, id: JobId, note: impl FnOnce(&mut Watched)) {
    let state = store.background.lock();
    if let Some(watch) = state.jobs.iter().find(|j| j.id == id).and_then(|j| j.watch.as_ref()) {
        watch.note(note);
    }
}

fn note_job(watched: &mut Watched, job: &CompactionJob) {
    watched.bytes_read = job.bytes_read();
    watched.bytes_written = job.bytes_written();
    watched.tables_written = job.tables_committed();
}

/// A job has done all it will: commits the rest and lets go of the claims.
fn end(store: &Store, keyspace: &KeyspaceState, id: JobId, mut job: Box<CompactionJob>) {
    let yielded = job.has_yielded();
    let part = job.take_commit(!yielded, true);
    let in_vain = part.is_none();
    let outcome = match part {
        Some(part) => install_part(store, keyspace, id, part),
        None => Ok(()),
    };
    if let Err(error) = outcome {
        return discard(store, keyspace, id, job, error);
    }
    let (lost, removed) = job.abandon();
    store.counters.wasted_bytes.add(lost);
    let written = job.bytes_written();
    let read = job.compaction().input_bytes;
    tell_watch(store, id, |watched| note_job(watched, &job));
    let compaction = Arc::clone(job.compaction());
    drop(job);
    if !yielded {
        // Before the job goes from the list of open jobs: whoever waits until there are none counts it.
        store.counters.compactions.add(1);
        store.counters.compaction_bytes_read.add(read);
        store.counters.compaction_bytes_written.add(written);
    }
    let open = close_job(store, keyspace, id);
    let seed = open.as_ref().and_then(|open| open.seed);
    let took = open.as_ref().map(|open| store.clock.now().saturating_sub(open.picked_at)).unwrap_or_default();
    let kind = CompactionKind { level: compaction.target_level, trigger: trigger_word(&compaction.reason) };
    store.counters.compaction_bytes.add(kind, read, written);
    let cost = Cost { read, written, time: Some(took) };
    store.decisions.ended(id, Outcome::Done { cost, yielded });
    store.event(&Event::CompactionEnded {
        job: id,
        keyspace: keyspace.id,
        class: compaction.class,
        levels: (compaction.level, compaction.target_level),
        bytes_read: read,
        bytes_written: written,
        micros: took.as_micros() as u64,
        yielded,
    });
    if yielded {
        store.counters.jobs_yielded.add(1);
        store.event(&Event::Yielded { job: id });
        if let (Some(seed), true) = (seed, lost > 0 || in_vain) {
            store.background.lock().lost_work.insert(seed);
        }
    } else {
        let mut state = store.background.lock();
        state.failures_in_a_row = 0;
        if let Some(seed) = seed {
            state.lost_work.remove(&seed);
        }
        store.counters.compaction_us.add(took.as_micros() as u64);
    }
    if let Err(error) = removed {
        failed(store, error);
    }
    store.background.work_changed();
}

/// A job failed or is not wanted any more: its uncommitted work goes.
pub fn discard(
    store: &Store,
    keyspace: &KeyspaceState,
    id: JobId,
    mut job: Box<CompactionJob>,
    error: Error,
) {
    let (bytes, removed) = job.abandon();
    drop(job);
    // Before it goes from the list of open jobs, which is what is waited for.
    tell_watch(store, id, |watched| watched.failed = Some(error.clone()));
    close_job(store, keyspace, id);
    store.counters.wasted_bytes.add(bytes);
    store.decisions.ended(id, Outcome::Discarded(bytes));
    store.event(&Event::Discarded { job: id, bytes });
    // That its keyspace was dropped is no failure: the others' compactions go on at once.
    if store.tree().versions.trees().contains_key(&keyspace.id) {
        store.counters.jobs_discarded.add(1);
        failed(store, error);
    } else {
        store.background.work_changed();
    }
    if let Err(error) = removed {
        failed(store, error);
    }
}

/// What asked for a compaction, in a word for figures: the trigger of its reason.
fn trigger_word(reason: &str) -> String {
    match reason {
        _ if reason.starts_with("asked for") => "manual".to_owned(),
        _ if reason.starts_with("merges flushes") => "intra-l0".to_owned(),
        _ => reason.split([',', ' ']).next().unwrap_or_default().to_owned(),
    }
}

/// Gives back a job's claims, and takes it off the list.
fn close_job(store: &Store, keyspace: &KeyspaceState, id: JobId) -> Option<OpenJob> {
    let released = release_job(store, keyspace, id);
    if let Err(error) = released {
        failed(store, error);
    }
    let mut state = store.background.lock();
    let at = state.jobs.iter().position(|j| j.id == id)?;
    state.look_for_work = true;
    // The job's inputs are pinned no more.
    store.lane.poke();
    Some(state.jobs.remove(at))
}

fn failed(store: &Store, error: Error) {
    store.event(&Event::BackgroundError { error: error.to_string() });
    let mut state = store.background.lock();
    state.compaction_error = Some(error);
    state.failures_in_a_row += 1;
    state.retry_at = store.clock.now() + RETRY_AFTER;
    state.look_for_work = true;
    drop(state);
    store.background.tell_waiting();
}

/// Opens jobs while the schedule permits and the trees want it.
fn look_for_work(store: &Store) -> Result<()> {
    loop {
        let permit = permit(store);
        if permit.classes.is_empty() {
            return Ok(());
        }
        let mut opened = false;
        let mut failure = None;
        for keyspace in store.keyspaces.load().by_name.values() {
            // What one tree suffers from must not keep the others waiting.
            match look_in(store, keyspace, &permit) {
                Ok(begun) => opened = begun,
                Err(error) => failure = failure.or(Some(error)),
            }
            if opened {
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

fn permit(store: &Store) -> Permit {
    let now = store.clock.now();
    let mut state = store.background.lock();
    let backlog = Backlog {
        open: state.jobs.iter().map(|j| j.class).collect(),
        workers: store.options.load().workers as usize,
    };
    let (memory, directive) = decide(&state.policy, state.policy_state, Sample { now }, &backlog);
    state.policy_state = memory;
    state.limiter.set_rate(now, directive.bytes_per_sec);
    directive.permit
}

/// Looks for work in one tree; true if some was begun.
fn look_in(store: &Store, keyspace: &Arc<KeyspaceState>, permit: &Permit) -> Result<bool> {
    drop_covered_tables(store, keyspace)?;
    let strategy = keyspace.strategy.load_full();
    if strategy.strategy.has_trigger(|trigger| matches!(trigger, Trigger::SpaceAmp { .. })) {
        keyspace.estimate_space_amp();
    }
    let mut tree = store.tree();
    let tree = &mut *tree;
    adjust_levels(store, tree, keyspace, &strategy.strategy)?;
    let Some(view) = tree_view(store, tree, keyspace.id) else {
        return Ok(false);
    };
    let (picked, rejected) = pick_among(&view, &strategy.strategy, permit);
    match picked {
        Pick::Run(picked) => {
            let begun = begin(store, tree, keyspace, *picked, &rejected, None)?;
            if begun.is_none() {
                // Looked for again when there may be space. Writers that wait for this must not wait for ever.
                let mut state = store.background.lock();
                state.retry_at = store.clock.now() + RETRY_AFTER;
                state.look_for_work = true;
                let context = format!("compact keyspace `{}`", keyspace.name);
                state.compaction_error = Some(Error::NoSpace { context });
            }
            Ok(begun.is_some())
        }
        Pick::Blocked { by, less_urgent, .. } => {
            request_yields(store, &by, &less_urgent);
            Ok(false)
        }
        Pick::Nothing => {
            // In shape: groups that fit a changed strategy are marked as shaped for it.
            let Some(committed) = set_bounds(view.version, view.claims, &strategy.strategy)? else {
                return Ok(false);
            };
            let edits = vec![(keyspace.id, committed.edit)];
            record_change(store, tree, ManifestRecord { edits, ..ManifestRecord::default() })?;
            publish_version(tree, keyspace);
            Ok(false)
        }
    }
}

/// Lets a level be born or go where dynamic sizes want it; not while a compaction by hand counts its levels.
fn adjust_levels(
    store: &Store,
    tree: &mut TreeState,
    keyspace: &KeyspaceState,
    strategy: &Strategy,
) -> Result<()> {
    if tree.by_hand.contains_key(&keyspace.id) {
        return Ok(());
    }
    while let Some(view) = tree_view(store, tree, keyspace.id) {
        let mut ids = view.ids;
        let Some(committed) = set_levels(view.version, view.claims, strategy, &mut ids)? else { break };
        tree.versions.ids().run_and_group_at_least(ids.next_run, ids.next_group);
        let edits = vec![(keyspace.id, committed.edit)];
        record_change(store, tree, ManifestRecord { edits, ..ManifestRecord::default() })?;
        publish_version(tree, keyspace);
    }
    Ok(())
}

/// Asks the jobs `by` to let go, if each is less urgent than what they are in the way of, or has been set aside for long.
fn request_yields(store: &Store, by: &[JobId], less_urgent: &[JobId]) {
    let now = store.clock.now();
    let mut state = store.background.lock();
    let forgotten = |job: &OpenJob| job.job.is_some() && now.saturating_sub(job.stepped_at) >= PAUSE_MAX;
    let holders = || state.jobs.iter().filter(|job| by.contains(&job.id));
    // Work that only waits, as a merge within L0 does for one out of it, must not send away what it waits for.
    if holders().all(|job| less_urgent.contains(&job.id) || forgotten(job)) {
        state.jobs.iter_mut().filter(|job| by.contains(&job.id)).for_each(|job| job.yield_requested = true);
    }
}
