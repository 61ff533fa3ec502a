//! Why the store does what it does now, in words: open jobs, what else would be done and why it is not, what comes next, the
//! debt, and how near writers are to being held back.
//!
//! `gather` looks, under the tree lock; `lines` is pure, so that what people read can be tested as text.

use std::cmp::Reverse;
use std::time::Duration;

use super::job_state::{JobState, job_state};
use crate::base::error::{Error, Result, escaped};
use crate::base::units::JobId;
use crate::compaction::cost_model::{debt_by_level, distance, reshaping_bytes};
use crate::compaction::picker::{Pick, attempt, candidates};
use crate::compaction::regroup::{GroupHeat, group_heats};
use crate::compaction::strategy::Strategy;
use crate::db::jobs::install::tree_view;
use crate::db::jobs::pressure::L0Debt;
use crate::db::jobs::scheduling::would_decide;
use crate::db::jobs::search::{permit_now, wanted_now};
use crate::db::store::decisions::{because, words_of};
use crate::db::store::keyspace_state::KeyspaceState;
use crate::db::store::state::Store;
use crate::observe::words::{bytes, count, duration};
use crate::version::version::Version;

/// Groups of a level that are told of.
const GROUPS_SHOWN: usize = 6;
/// A group's first key is cut to so many columns.
const KEY_SHOWN: usize = 30;

/// What is to be explained.
#[derive(Clone, Debug, Default)]
pub struct Explanation {
    /// The keyspace.
    pub keyspace: String,
    /// Its strategy, as it was given.
    pub strategy: String,
    /// The schedule, as it was given.
    pub schedule: String,
    /// What is under way, most urgent first.
    pub jobs: Vec<JobState>,
    /// What the picker would do, most urgent first.
    pub wanted: Vec<Wanted>,
    /// Bytes of debt that each level's triggers ask for, and that bring the tree into shape.
    pub debt: (Vec<u64>, u64),
    /// Bytes that stand where the strategy would not have them.
    pub distance: u64,
    /// The rate that the schedule leaves background work, bytes per second; `None` without a limit.
    pub rate: Option<u64>,
    /// Open jobs that have places: of the keyspace, and of others.
    pub placed: [u64; 2],
    /// L0 beside what its strategy wants there, and may have.
    pub l0: L0Debt,
    /// Memtables waiting for their flush, and the number in memory at which writers wait.
    pub memtables: (u64, u64),
    /// How fast writes of the keyspace, and of all, are let in, bytes per second; `None` without a limit.
    pub admission: [Option<f64>; 2],
    /// True if a flush is under way.
    pub flushing: bool,
    /// Callers that wait for background work now.
    pub waiting: u64,
    /// Why background work rests.
    pub failures: Vec<String>,
    /// The failure that made the store read-only.
    pub poisoned: Option<String>,
    /// The groups of each level by heat.
    pub groups: Vec<(usize, Vec<GroupHeat>)>,
    /// Snapshots: how many, age of the oldest, bytes it may pin.
    pub snapshots: (u64, Duration, u64),
}

/// A group that should be compacted.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Level, score and trigger.
    pub what: String,
    /// What comes of it.
    pub verdict: Verdict,
}

/// Why a candidate is done, or not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Verdict {
    /// It can start: the bytes it takes.
    Next(u64),
    /// Open jobs hold what it needs.
    Blocked(Vec<JobId>),
    /// The schedule holds its class back while the load is high.
    HeldBack,
    /// Open jobs have all places.
    NoPlace,
    /// Nothing that could be done helps it now.
    #[default]
    Nothing,
}

/// Looks at a keyspace.
pub fn gather(store: &Store, keyspace: &KeyspaceState) -> Result<Explanation> {
    let strategy = keyspace.strategy.load_full();
    let directive = would_decide(store, &store.background.lock());
    let (permit, rate) = (permit_now(store, &directive, keyspace), directive.plan.rate);
    let (wanted, debts, distance, groups) = {
        let tree = store.tree();
        let Some(view) = tree_view(store, &tree, keyspace.id) else {
            return Err(Error::invalid(format!("keyspace `{}` was dropped", keyspace.name)));
        };
        let read_as = wanted_now(store, &view, &strategy.strategy, &directive, keyspace);
        let wanted = candidates(&view, &read_as).into_iter().take(12).map(|candidate| {
            let verdict = match attempt(&view, &read_as, &permit, &candidate) {
                Pick::Run(picked) => Verdict::Next(picked.compaction.input_bytes),
                Pick::Blocked { by, .. } => Verdict::Blocked(by),
                Pick::Nothing if permit.allows(candidate.class) => Verdict::Nothing,
                Pick::Nothing if directive.lacks_place(keyspace.id, candidate.class) => Verdict::NoPlace,
                Pick::Nothing => Verdict::HeldBack,
            };
            Wanted { what: words_of(&candidate), verdict }
        });
        let wanted = wanted.collect::<Vec<_>>();
        let (version, strategy) = (view.version, &strategy.strategy);
        let debts = (debt_by_level(version, strategy), reshaping_bytes(version, strategy));
        (wanted, debts, distance(version, strategy), groups_of(keyspace, version, strategy))
    };
    let options = store.options.load();
    let metrics = super::metrics::metrics(store);
    let state = store.background.lock();
    let failed = state.compaction_error.iter().chain(state.failing.errors());
    let failed = state.failed_flush.error().into_iter().chain(failed);
    let mut failures: Vec<String> = failed.map(ToString::to_string).collect();
    failures.dedup();
    let placed = |is_own: bool| {
        let jobs = state.jobs.iter().filter(|job| job.aside.is_none());
        jobs.filter(|job| (job.keyspace.id == keyspace.id) == is_own).count() as u64
    };
    let placed = [placed(true), placed(false)];
    let (flushing, schedule) = (!state.flush.is_free(), state.policy_text.clone());
    drop(state);
    let age = metrics.now_ms.saturating_sub(metrics.snapshots.oldest_since_ms);
    let waiting = keyspace.view.load().immutable.len() as u64;
    Ok(Explanation {
        keyspace: keyspace.name.clone(),
        strategy: strategy.text.clone(),
        schedule,
        jobs: job_state(store).into_iter().filter(|job| job.keyspace == keyspace.id).collect(),
        wanted,
        debt: debts,
        distance,
        groups,
        rate,
        placed,
        l0: L0Debt::of(store, keyspace),
        memtables: (waiting, u64::from(options.memtables)),
        admission: [keyspace.gate.limit(), store.admission.gate.limit()],
        flushing,
        waiting: store.background.waiting_callers(),
        failures,
        // That it is only looked at is no failure.
        poisoned: store.poisoned.get().filter(|_| !store.read_only).cloned(),
        snapshots: (metrics.snapshots.count, Duration::from_millis(age), metrics.snapshots.pinned_bytes),
    })
}

/// The groups of levels by heat.
fn groups_of(
    keyspace: &KeyspaceState,
    version: &Version,
    strategy: &Strategy,
) -> Vec<(usize, Vec<GroupHeat>)> {
    keyspace.heat.tell(|known| {
        let of = |level| group_heats(version, strategy, level, &|table| known.heat(level, table));
        let all = (0..version.levels.len()).map(|level| (level, of(level)));
        all.filter(|(_, groups)| !groups.is_empty()).collect()
    })
}

/// The explanation in lines that fit 80 columns, but for texts of the user and of errors.
pub fn lines(e: &Explanation) -> Vec<String> {
    let mut out = vec![format!("Keyspace {}, strategy {}, schedule {}", e.keyspace, e.strategy, e.schedule)];
    if let Some(cause) = &e.poisoned {
        out.push(format!("The store is read-only: {cause}. Close and reopen it."));
    }
    out.extend(
        e.failures.iter().map(|failure| format!("Background work failed and is tried again: {failure}")),
    );
    out.push(String::new());
    out.extend(writers(e));
    out.push(String::new());
    out.extend(jobs(e));
    out.push(String::new());
    out.extend(wanted(e));
    out.extend(debt(e));
    e.groups.iter().for_each(|(level, groups)| out.extend(heat_lines(*level, groups)));
    let (snapshots, age, pinned) = e.snapshots;
    if snapshots > 0 {
        let (open, age, pinned) = (count(snapshots, "snapshot"), duration(age), bytes(pinned));
        out.push(format!("{open} open, the oldest for {age}: {pinned} may be kept for it"));
    }
    out
}

/// Why the groups of a level are hot, or cold; the largest of them.
fn heat_lines(level: usize, groups: &[GroupHeat]) -> Vec<String> {
    let hot = groups.iter().filter(|group| group.is_hot);
    let (known, unknown): (Vec<_>, Vec<_>) = hot.partition(|group| group.heat.is_some());
    let because = match (known.len(), unknown.len()) {
        (_, 0) => " because they are read",
        (0, _) => ": reads not known yet",
        _ => ": read, or not known yet",
    };
    let (hot, all) = (known.len() + unknown.len(), count(groups.len() as u64, "group"));
    let mut out = vec![format!("L{level} by heat: {all} of keys, {hot} of them leveled{because}")];
    let mut largest: Vec<&GroupHeat> = groups.iter().collect();
    largest.sort_by_key(|group| Reverse(group.bytes));
    largest.truncate(GROUPS_SHOWN);
    largest.sort_by(|a, b| a.range.lo.cmp(&b.range.lo));
    for group in largest {
        let kind = if group.is_hot { "hot, from" } else { "cold, from" };
        let from =
            if group.range.lo.is_empty() { "the first key".to_owned() } else { escaped(&group.range.lo) };
        let from = if from.len() > KEY_SHOWN {
            format!("{}…", from.get(..KEY_SHOWN).unwrap_or_default())
        } else {
            from
        };
        out.push(format!("  {kind} {from}: {} in {}", bytes(group.bytes), count(group.runs as u64, "run")));
        let why = match group.heat {
            None => "nothing is known of its reads yet".to_owned(),
            Some(heat) => format!(
                "{:.2} looks a get; {:.0} % of it is in tables with {:.4} or more",
                heat,
                group.votes * 100.0,
                group.from.max(0.0)
            ),
        };
        out.push(format!("    {why}"));
    }
    out
}

/// Bytes to write until no trigger fires.
fn owed(e: &Explanation) -> u64 {
    e.debt.0.iter().copied().fold(e.debt.1, u64::saturating_add)
}

/// The debt, its parts, and how long it takes at the schedule's rate.
fn debt(e: &Explanation) -> Vec<String> {
    let all = owed(e);
    let mut out = vec![format!("Debt: {} to write until no trigger fires", bytes(all))];
    let levels = e.debt.0.iter().enumerate().filter(|(_, debt)| **debt > 0);
    let parts: Vec<String> = levels.map(|(level, debt)| format!("L{level} {}", bytes(*debt))).collect();
    if !parts.is_empty() {
        out.push(format!("  {}", parts.join(", ")));
    }
    if e.debt.1 > 0 {
        let (distance, reshaping) = (bytes(e.distance), bytes(e.debt.1));
        out.push(format!(
            "  {reshaping} for its shape: {distance} are where the strategy would not have them"
        ));
    }
    if let Some(rate) = e.rate.filter(|_| all > 0) {
        // What is written was read before, and both count.
        let takes = 2.0 * all as f64 / rate.max(1) as f64;
        let takes = Duration::try_from_secs_f64(takes).unwrap_or(Duration::MAX);
        out.push(format!("  {} holds it to {}/s: about {}", e.schedule, bytes(rate), duration(takes)));
    }
    out
}

fn writers(e: &Explanation) -> Vec<String> {
    let (waiting, memtables) = e.memtables;
    let mut out = Vec::new();
    let held = e.l0.slows() || e.admission.iter().any(Option::is_some);
    out.push(format!("Writers: {}", if held { "held back" } else { "nothing holds them back" }));
    if e.waiting > 0 {
        let verb = if e.waiting == 1 { "waits" } else { "wait" };
        let callers = count(e.waiting, "caller");
        out.push(format!("  {callers} {verb} for background work, or for the end of it"));
    }
    out.push(format!("  L0 has {}, {} wanted; {}", count(e.l0.runs, "run"), e.l0.wanted, room_of(&e.l0)));
    let flush = if e.flushing { ", a flush is under way" } else { "" };
    let free = memtables.saturating_sub(waiting + 1);
    out.push(format!("  {} for a flush{flush}; {free} of {memtables} free", waits(waiting)));
    let reasons = ["Writes of this keyspace are let in", "For memory, writes of all keyspaces are let in"];
    for (rate, what) in e.admission.iter().zip(reasons) {
        out.extend(rate.map(|rate| format!("  {what} at {}/s", bytes(rate as u64))));
    }
    if e.l0.fills() {
        out.push("  Compactions run at the clients' priority, for L0".to_owned());
    }
    out
}

fn room_of(l0: &L0Debt) -> String {
    match l0.slack {
        u64::MAX => "nobody is slowed for it".to_owned(),
        slack => {
            let used = u128::from(l0.debt) * 100 / u128::from(slack.max(1));
            format!("{used} % of its room is used (writers slow from 50 %)")
        }
    }
}

fn waits(memtables: u64) -> String {
    format!("{} wait{}", count(memtables, "memtable"), if memtables == 1 { "s" } else { "" })
}

fn jobs(e: &Explanation) -> Vec<String> {
    if e.jobs.is_empty() {
        return vec!["Under way: no compaction".to_owned()];
    }
    let mut out = vec![format!("Under way: {}", count(e.jobs.len() as u64, "compaction"))];
    for job in &e.jobs {
        let (from, to) = job.levels;
        let age = duration(job.open_for);
        out.push(format!("  job {}, {}, L{from} to L{to}, {}, for {age}", job.id, job.class, progress(job)));
        let due = job.due_in.map_or_else(String::new, |due| format!(", to be done in {}", duration(due)));
        out.push(format!("    {}; {}{due}", because(&job.reason), job.state));
    }
    out
}

/// How much of its input a job has read.
fn progress(job: &JobState) -> String {
    match job.read_bytes {
        0 => bytes(job.bytes),
        read => format!("{} of {} read", bytes(read), bytes(job.bytes)),
    }
}

fn wanted(e: &Explanation) -> Vec<String> {
    if e.wanted.is_empty() {
        return vec![match (e.jobs.is_empty(), owed(e)) {
            (false, _) => "Wanted: nothing beyond what is under way".to_owned(),
            (true, 0) => "Wanted: nothing, the tree is in shape".to_owned(),
            (true, _) => "Wanted: nothing that could begin now".to_owned(),
        }];
    }
    let mut out = vec!["Wanted, most urgent first:".to_owned()];
    let mut first = true;
    for wanted in &e.wanted {
        let verdict = match &wanted.verdict {
            Verdict::Next(size) if std::mem::take(&mut first) => format!("next, takes {}", bytes(*size)),
            Verdict::Next(size) => format!("could start after that, takes {}", bytes(*size)),
            Verdict::Blocked(by) => {
                let by: Vec<String> = by.iter().map(ToString::to_string).collect();
                format!("waits for job {}, which holds what it needs", by.join(", "))
            }
            Verdict::HeldBack => format!("held back by {} while the load is high", e.schedule),
            Verdict::NoPlace => format!("waits for a worker: {}", who_is_busy(e)),
            Verdict::Nothing => "nothing that may start would help it now".to_owned(),
        };
        out.push(format!("  {}", wanted.what));
        out.push(format!("    {verdict}"));
    }
    out
}

/// Whose work has the places.
fn who_is_busy(e: &Explanation) -> String {
    let theirs = |jobs| format!("other keyspaces' work ({})", count(jobs, "job"));
    match (e.placed, e.rate) {
        ([0, 0], _) => "the jobs that are set aside have all places".to_owned(),
        ([_, 0], Some(_)) => format!("all are busy, at the rate of {}", e.schedule),
        ([_, 0], None) => "all are busy with work as urgent".to_owned(),
        ([0, jobs], _) => format!("all are busy with {}", theirs(jobs)),
        ([_, jobs], _) => format!("all are busy, also with {}", theirs(jobs)),
    }
}

#[cfg(test)]
#[path = "explain_tests.rs"]
mod tests;
