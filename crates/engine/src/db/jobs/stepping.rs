//! Stepping compactions: which open job is next, one step of it, and what becomes of it.
//!
//! ```text
//! look for work ─► open jobs ─► those not set aside, in the schedule's order ─► limiter ─► step ... ─► commit parts ─► end
//! ```

use std::sync::Arc;
use std::time::Duration;

use super::deletes::look_again_ms;
use super::install::{install_part, release_job};
use super::pressure::let_drain;
use super::search::look_for_work;
use crate::base::class::Class;
use crate::base::error::{Error, Result};
use crate::base::locks::MutexGuard;
use crate::base::units::JobId;
use crate::db::store::background::{BackgroundState, STEP_BYTES};
use crate::db::store::decisions::{Cost, Outcome};
use crate::db::store::failing::REST;
use crate::db::store::keyspace_state::KeyspaceState;
use crate::db::store::open_job::{OpenJob, Watched};
use crate::db::store::state::Store;
use crate::execution::compaction_job::CompactionJob;
use crate::execution::merge_loop::Progress;
use crate::observe::counters::CompactionKind;
use crate::observe::event::{DiscardedFor, Event};
use crate::scheduler::conflict::LetsGo;
use crate::scheduler::decide::Aside;
use crate::scheduler::order::Turn;
use crate::version::run::TableRef;

/// Finished tables are committed in parts of this many, so that little is lost and space comes back early.
const TABLES_PER_PART: usize = 8;

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
    let (mut state, otherwise) = look_if_wanted(store, now);
    let runnable = runnable(&state);
    let Some(chosen) = choose(&runnable) else { return otherwise };
    let outcome = granted(&mut state, now, chosen, &runnable);
    if state.policy.plans() {
        hold_drains(store, &state, now, &runnable, outcome.ok());
    }
    let chosen = match outcome {
        Ok(chosen) => chosen,
        Err(when) => return Stepped::Wait(when),
    };
    let Some(taken) = take(store, &mut state, chosen, now) else { return Stepped::Idle };
    drop(state);
    if taken.discards {
        step_ended(store, 0);
        throw_away(store, &taken.keyspace, taken.id, taken.job);
    } else {
        run(store, taken);
    }
    Stepped::Worked
}

/// Looks for work if that is wanted; the lock again, and what to answer where there is nothing to step. After a failure the look rests;
/// jobs that are open go on.
fn look_if_wanted(store: &Store, now: Duration) -> (MutexGuard<'_, BackgroundState>, Stepped) {
    let mut state = store.background.lock();
    state.look_for_work |= state.failing.is_due(now);
    if state.directive.waited_for != store.background.jobs_are_waited_for() {
        state.look_for_work = true;
    }
    if state.rests_ms.as_ref().is_some_and(|rest| !rest.contains(&store.clock.wall_ms())) {
        (state.rests_ms, state.look_for_work) = (None, true);
    }
    if !state.look_for_work {
        return (state, Stepped::Idle);
    }
    if now < state.retry_at {
        let until = state.retry_at;
        return (state, Stepped::Wait(until));
    }
    state.look_for_work = false;
    state.looking += 1;
    // What failed is tried again, or not wanted any more.
    state.compaction_error = None;
    state.refused.clear();
    drop(state);
    if let Err(error) = look_for_work(store) {
        failed(store, error);
    }
    let rests_ms = look_again_ms(store).map(|at| store.clock.wall_ms()..at);
    state = store.background.lock();
    state.failing.looked(now);
    state.rests_ms = rests_ms;
    state.looking -= 1;
    if state.jobs.is_empty() {
        store.background.tell_none_due();
    }
    (state, Stepped::Idle)
}

/// A job in the hands of who steps it, and what of it must be known without the lock.
struct Taken {
    id: JobId,
    class: Class,
    keyspace: Arc<KeyspaceState>,
    job: Box<CompactionJob>,
    discards: bool,
    sliced: bool,
    l0_share: f64,
    /// Syncs that had ended before.
    syncs: u64,
}

/// Takes the chosen job, and has it let go at this step if somebody asked for that. One that let go in vain before gets on by a step first:
/// else it could be picked and sent away for ever.
fn take(store: &Store, state: &mut BackgroundState, chosen: usize, now: Duration) -> Option<Taken> {
    let yields = lets_go(state, chosen);
    let again = state.jobs.get(chosen).is_some_and(|open| lost_before(state, open));
    let syncs = state.syncs_done;
    let open = state.jobs.get_mut(chosen)?;
    if let Some(since) = open.waits_since.take().filter(|_| open.class.is_l0()) {
        store.counters.l0_wait_us.add(now.saturating_sub(since).as_micros() as u64);
    }
    open.stepped_at = now;
    let mut job = open.job.take()?;
    state.limiter.step_begins();
    let discards = open.lets_go == Some(LetsGo::Discards);
    if yields && !discards {
        job.request_yield(open.sliced || open.lets_go == Some(LetsGo::KeepsAll) || again);
    }
    Some(Taken {
        id: open.id,
        class: open.class,
        keyspace: Arc::clone(&open.keyspace),
        job,
        discards,
        sliced: open.sliced,
        l0_share: open.l0_share,
        syncs,
    })
}

/// A step of it: what it moved is counted, finished tables are committed in parts, and it is put back or ends.
fn run(store: &Store, taken: Taken) {
    let began = store.clock.now();
    let Taken { id, class, keyspace, mut job, sliced, l0_share, syncs, .. } = taken;
    let (cpu_before, moved_before) = (evenkeel_sys::thread_cpu_time(), job.bytes_moved());
    let outcome = job.step(STEP_BYTES);
    let on_disk = job.bytes_moved().saturating_sub(moved_before);
    let outcome = outcome.and_then(|(progress, moved)| {
        let is_enough = sliced || job.ready_parts() >= TABLES_PER_PART;
        if progress == Progress::TableDone
            && is_enough
            && let Some(part) = job.take_commit(false, false)
        {
            install_part(store, &keyspace, id, part)?;
            let_go(store, &keyspace, id, &mut job);
        }
        Ok((progress, moved))
    });
    // Before the job goes from the list of open jobs, which is what is waited for.
    let cpu = count_cpu(store, class, cpu_before);
    store.counters.step_us.add((store.clock.now().saturating_sub(began)).as_micros() as u64);
    if let (Ok((_, moved)), true) = (&outcome, l0_share > 0.0) {
        keyspace.l0_drain.drained(store.clock.now(), *moved as f64 * l0_share);
    }
    match outcome {
        Ok((Progress::Finished, _)) => {
            step_ended(store, on_disk);
            end(store, &keyspace, id, job);
            // Most jobs install all they have made when they end.
            count_cpu(store, class, cpu);
        }
        Ok((progress, _)) => put_back(store, id, job, progress, on_disk, syncs),
        Err(error) => {
            step_ended(store, on_disk);
            discard(store, &keyspace, id, job, error);
        }
    }
}

/// Counts what this thread has used since, and answers what it has used now.
pub fn count_cpu(store: &Store, class: Class, since: Duration) -> Duration {
    let now = evenkeel_sys::thread_cpu_time();
    store.counters.cpu_nanos[class as usize].add(now.saturating_sub(since).as_nanos() as u64);
    now
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

/// A plan that has these jobs wait would not if writers needed what those of L0 do: how long they wait is no measure of how fast L0
/// drains. Where one is granted a step it drains, and where nothing is limited the others wait for work alone, which is a measure.
fn hold_drains(
    store: &Store,
    state: &BackgroundState,
    now: Duration,
    runnable: &[(usize, Class)],
    granted: Option<usize>,
) {
    let in_hands = || state.jobs.iter().filter(|job| job.job.is_none() && job.class.is_l0());
    let drains = |of: &OpenJob| in_hands().any(|job| job.keyspace.id == of.keyspace.id);
    for (i, _) in runnable.iter().filter(|(_, class)| class.is_l0()) {
        let Some(job) = state.jobs.get(*i) else { continue };
        if granted == Some(*i) || granted.is_some() && state.limiter.rate().is_none() {
            let_drain(store, &job.keyspace, now);
        } else if granted.is_none() && !drains(job) {
            job.keyspace.l0_drain.hold(now, true);
        }
    }
}

/// True if this job yields at its next step.
fn lets_go(state: &BackgroundState, index: usize) -> bool {
    let asked = state.jobs.get(index).filter(|job| job.lets_go.is_some());
    asked.is_some_and(|job| job.waits_since.is_none() || !lost_before(state, job))
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

/// Jobs that may be stepped, in the order of the schedule: those that are to let go first. One that more urgent ones have set aside is
/// among them only while one of those waits for a sync: in its place, not beside it.
fn runnable(state: &BackgroundState) -> Vec<(usize, Class)> {
    let jobs = || state.jobs.iter().enumerate().filter(|(_, job)| job.job.is_some() && !job.waiting);
    let runs = |job: &OpenJob| job.lets_go.is_some() || job.aside.is_none();
    let mut chosen: Vec<(usize, &OpenJob)> = jobs().filter(|(_, job)| runs(job)).collect();
    let placed = state.jobs.iter().filter(|job| job.aside.is_none()).count();
    let in_hands = state.jobs.iter().filter(|job| job.job.is_none()).count();
    if chosen.is_empty() && (in_hands < placed || placed == 0) {
        chosen = jobs().filter(|(_, job)| job.aside == Some(Aside::Place)).collect();
    }
    chosen.sort_by_key(|(i, job)| {
        let turn = Turn { class: job.class, served: job.served, left: job.bytes_left(), due: job.due };
        (job.lets_go.is_none(), state.policy.order.key(&turn), *i)
    });
    chosen.into_iter().map(|(i, job)| (i, job.class)).collect()
}

/// The order of the schedule, in which runnable jobs come.
pub fn by_schedule() -> impl FnMut(&[(usize, Class)]) -> Option<usize> {
    |runnable| runnable.first().map(|(i, _)| *i)
}

/// A step that was taken has ended, and its job is not put back.
fn step_ended(store: &Store, moved: u64) {
    store.background.lock().limiter.step_ended(moved);
}

fn put_back(store: &Store, id: JobId, job: Box<CompactionJob>, progress: Progress, moved: u64, syncs: u64) {
    let mut state = store.background.lock();
    state.limiter.step_ended(moved);
    // A sync that ended while the job was being stepped has nobody else to tell.
    let waiting = progress == Progress::Waiting && state.syncs_done == syncs;
    if let Some(open) = state.jobs.iter_mut().find(|j| j.id == id) {
        if let Some(watch) = &open.watch {
            watch.note(|watched| note_job(watched, &job));
        }
        open.read_bytes = job.bytes_read();
        open.served = open.served.saturating_add(moved);
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
    // With the table that is open, which is thrown away.
    let written = job.bytes_written();
    let (lost, removed) = job.abandon();
    store.counters.wasted_bytes.add(lost);
    let read = if yielded { job.bytes_read() } else { job.compaction().input_bytes };
    tell_watch(store, id, |watched| {
        note_job(watched, &job);
        watched.is_whole = !yielded;
    });
    let compaction = Arc::clone(job.compaction());
    drop(job);
    // Before the job goes from the list of open jobs: whoever waits until there are none counts it.
    store.counters.compactions.add(u64::from(!yielded));
    count_moved(store, read, written);
    let open = close_job(store, keyspace, id, if yielded { Ended::Yielded } else { Ended::Otherwise });
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
        store.event(&Event::Yielded { job: id });
        if let Some(seed) = seed {
            let is_there = keyspace.view.load().version.tables().any(|(_, table)| table.id() == seed);
            let mut state = store.background.lock();
            if !is_there {
                // It is used up, and comes never again.
                state.lost_work.remove(&seed);
            } else if lost > 0 || in_vain {
                state.lost_work.insert(seed);
            }
        }
    } else {
        let mut state = store.background.lock();
        state.failures_in_a_row = 0;
        seed.into_iter().for_each(|seed| state.failing.succeeded(seed));
        // Each of its tables may have been the first of a job that yielded, and none comes again.
        compaction.tables().for_each(|table| {
            state.failing.succeeded(table.id());
            state.lost_work.remove(&table.id());
        });
        store.counters.compaction_us.add(took.as_micros() as u64);
    }
    if let Err(error) = removed {
        failed(store, error);
    }
    store.background.work_changed();
}

/// The schedule throws the job's uncommitted work away, for a more urgent one (SILK §5.2.2).
fn throw_away(store: &Store, keyspace: &KeyspaceState, id: JobId, job: Box<CompactionJob>) {
    let removed = give_up(store, id, job, DiscardedFor::Preemption);
    close_job(store, keyspace, id, Ended::Discarded);
    if let Err(error) = removed {
        failed(store, error);
    }
    store.background.work_changed();
}

/// What a job had not committed goes, and is counted and told as work thrown away.
///
/// # Errors
/// A file that cannot be removed: it is an orphan, which the next open removes.
pub fn give_up(store: &Store, id: JobId, job: Box<CompactionJob>, why: DiscardedFor) -> Result<()> {
    let (bytes, removed) = abandon(store, job);
    store.decisions.ended(id, Outcome::Discarded(bytes));
    store.event(&Event::Discarded { job: id, bytes, why });
    removed
}

/// Counts what a job has moved, and what is lost of it: how much that is, and whether its files could be removed.
fn abandon(store: &Store, mut job: Box<CompactionJob>) -> (u64, Result<()>) {
    count_moved(store, job.bytes_read(), job.bytes_written());
    let (bytes, removed) = job.abandon();
    store.counters.wasted_bytes.add(bytes);
    (bytes, removed)
}

/// A job failed or is not wanted any more: its uncommitted work goes.
pub fn discard(store: &Store, keyspace: &KeyspaceState, id: JobId, job: Box<CompactionJob>, error: Error) {
    let compaction = Arc::clone(job.compaction());
    let (bytes, removed) = abandon(store, job);
    // Before it goes from the list of open jobs, which is what is waited for.
    tell_watch(store, id, |watched| watched.failed = Some(error.clone()));
    // That its keyspace was dropped is no failure: the others' compactions go on at once.
    let is_wanted = store.tree().versions.trees().contains_key(&keyspace.id);
    let rests = is_wanted && {
        let (of, inputs) = ((keyspace.id, compaction.class), compaction.tables().map(TableRef::id));
        store.background.lock().failing.note(of, inputs, store.clock.now(), &error)
    };
    close_job(store, keyspace, id, Ended::Otherwise);
    store.decisions.ended(id, Outcome::Failed(bytes));
    let why = if is_wanted { DiscardedFor::Failure } else { DiscardedFor::Drop };
    store.event(&Event::Discarded { job: id, bytes, why });
    if is_wanted {
        store.counters.jobs_failed.add(1);
        if rests { tell_failure(store, error) } else { failed(store, error) }
    } else {
        store.background.work_changed();
    }
    if let Err(error) = removed {
        // An orphan, which the next open removes; the failure itself has been counted.
        store.event(&Event::BackgroundError { error: error.to_string() });
    }
}

/// What a job has read and written, whatever became of it.
fn count_moved(store: &Store, read: u64, written: u64) {
    store.counters.compaction_bytes_read.add(read);
    store.counters.compaction_bytes_written.add(written);
}

/// What asked for a compaction, in a word for figures: the trigger of its reason.
fn trigger_word(reason: &str) -> String {
    match reason {
        _ if reason.starts_with("asked for") => "manual".to_owned(),
        _ if reason.starts_with("merges flushes") => "intra-l0".to_owned(),
        _ => reason.split([',', ' ']).next().unwrap_or_default().to_owned(),
    }
}

/// How a job ended, for the sums: each time one was set aside it has gone on, let go, been thrown away, or still is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ended {
    Yielded,
    Discarded,
    Otherwise,
}

/// Gives back a job's claims, and takes it off the list.
fn close_job(store: &Store, keyspace: &KeyspaceState, id: JobId, how: Ended) -> Option<OpenJob> {
    let released = release_job(store, keyspace, id);
    if let Err(error) = released {
        failed(store, error);
    }
    let mut state = store.background.lock();
    let at = state.jobs.iter().position(|j| j.id == id)?;
    state.look_for_work = true;
    if !state.refused.is_empty() {
        // There may be space now, or other work; and nobody is told of a refusal that is none any more.
        state.retry_at = Duration::ZERO;
    }
    // The job's inputs are pinned no more.
    store.lane.poke();
    let open = state.jobs.remove(at);
    match how {
        Ended::Yielded => store.counters.jobs_yielded.add(1),
        Ended::Discarded => store.counters.jobs_discarded.add(1),
        // It came to its end, or failed, in the step in which it was set aside.
        Ended::Otherwise if open.paused => {
            store.counters.jobs_resumed.add(1);
            store.event(&Event::Resumed { job: id });
        }
        Ended::Otherwise => {}
    }
    Some(open)
}

/// All compactions rest for a while: nobody knows what is to blame.
fn failed(store: &Store, error: Error) {
    let mut state = store.background.lock();
    state.retry_at = store.clock.now() + REST;
    // It is no refusal's any more.
    state.refused.clear();
    drop(state);
    tell_failure(store, error);
}

/// What has failed rests by itself, and the others are looked for at once.
fn tell_failure(store: &Store, error: Error) {
    store.event(&Event::BackgroundError { error: error.to_string() });
    let mut state = store.background.lock();
    state.compaction_error = Some(error);
    state.refused.clear();
    state.failures_in_a_row += 1;
    state.look_for_work = true;
    drop(state);
    store.background.tell_waiting();
}
