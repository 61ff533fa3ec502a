//! Single tables that ask to be compacted: those of a trigger on tables, and the plans that serve them.
//!
//! Above the deepest level such a table goes down like any other, and its granularity says with which others. At the deepest level
//! there is no further down: it is rewritten where it is, together with what lies under it in its group, so that its tombstones and
//! what they deleted go. [`next_due_ms`] is when a clock alone will make some table ask, so that an idle store can be woken.

use std::time::Duration;

use super::closure::TablePos;
use super::deadline::Deadlines;
use super::granularity::FreeTables;
use super::level_sizes::merged_share;
use super::strategy::{Strategy, Trigger};
use super::tree_view::TreeView;
use super::trigger::{Surroundings, part_of, table_score};
use crate::base::units::{SeqNo, TableId};
use crate::version::run::SortedRun;
use crate::version::version::Version;

/// The tables of a group that no open job has and that a trigger asks for, by run, newest run first; and the highest score.
pub fn asking(
    view: &TreeView<'_>,
    strategy: &Strategy,
    trigger: Trigger,
    level: usize,
    group: usize,
) -> (FreeTables, f64) {
    let Some(found) = view.group(level, group) else { return (FreeTables::new(), 0.0) };
    let deadlines = Deadlines::of(strategy, view.version);
    let mut around = Surroundings {
        version: view.version,
        level,
        group: found,
        run: 0,
        deepest: view.deepest(),
        deadlines: deadlines.as_ref(),
        oldest_snapshot: view.oldest_snapshot,
        now_ms: view.now_ms,
    };
    let mut highest: f64 = 0.0;
    let mut out = FreeTables::new();
    for (run, tables) in found.runs.iter().enumerate() {
        around.run = run;
        let mut asks = Vec::new();
        if !may_ask(trigger, tables, &around) {
            out.push(asks);
            continue;
        }
        for (table, seen) in tables.tables.iter().enumerate() {
            let score = table_score(trigger, seen, &around);
            if score >= 1.0 && view.claims.holder(seen.id()).is_none() {
                highest = highest.max(score);
                asks.push(TablePos { level, group, run, table });
            }
        }
        out.push(asks);
    }
    (out, highest)
}

/// False if no table of the run asks, as far as its totals tell.
fn may_ask(trigger: Trigger, run: &SortedRun, around: &Surroundings<'_>) -> bool {
    let totals = run.totals();
    match trigger {
        Trigger::Staleness { limit_ms } => {
            totals.oldest_arrival_ms.is_some_and(|since| since.saturating_add(limit_ms) <= around.now_ms)
        }
        Trigger::TombstoneTtl { .. } => {
            let due_ms = around.deadlines.map(|due| due.level(around.level));
            let oldest = totals.oldest_delete_ms.zip(due_ms);
            oldest.is_some_and(|(since, due)| since.saturating_add(due) <= around.now_ms)
        }
        Trigger::TombstoneDensity { limit } => part_of(totals.densest, limit) >= 1.0,
        // Under the oldest run of the deepest level there is nothing that a read could be spared.
        Trigger::ReadHeat { .. } => around.level < around.deepest || around.run + 1 < around.group.runs.len(),
        _ => true,
    }
}

/// What the time for deletes asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Expiring {
    /// Bytes to read, with what they are merged with.
    pub bytes: u64,
    /// In what time, so that each of them is done in its own.
    pub within: Duration,
}

/// The tables that are due to leave their level because of their deletes and that nobody `has`: each is to be done so long after it was due.
pub fn expiring(
    version: &Version,
    strategy: &Strategy,
    oldest_snapshot: SeqNo,
    now_ms: u64,
    work_ms: u64,
    has: impl Fn(TableId) -> bool,
) -> Expiring {
    let Some(deadlines) = Deadlines::of(strategy, version) else { return Expiring::default() };
    let levels = version.levels.len();
    let deepest = version.deepest().unwrap_or(0);
    let (mut bytes, mut bytes_per_ms) = (0.0, 0.0);
    for (level, found) in version.levels.iter().enumerate() {
        if strategy.levels.get(level, levels).ttl_ms().is_none() {
            continue;
        }
        let due_ms = deadlines.level(level);
        let share = merged_share(strategy, version, level);
        for run in found.runs() {
            // The earliest first: the rate is the most, over all deadlines, of the bytes due by then over the time until then.
            let (mut so_far, mut most) = (0.0, 0.0_f64);
            for (since_ms, table) in run.by_delete() {
                let due_at_ms = since_ms.saturating_add(due_ms);
                if due_at_ms > now_ms {
                    break;
                }
                let is_settled = level < deepest || table.meta.seqs.1 <= oldest_snapshot;
                if is_settled && !has(table.id()) {
                    so_far += table.bytes() as f64 * (1.0 + share);
                    let left_ms = due_at_ms.saturating_add(work_ms).saturating_sub(now_ms);
                    most = most.max(so_far / left_ms.max(1) as f64);
                }
            }
            bytes += so_far;
            bytes_per_ms += most;
        }
    }
    if bytes <= 0.0 {
        return Expiring::default();
    }
    Expiring { bytes: bytes as u64, within: Duration::from_secs_f64(bytes / bytes_per_ms / 1000.0) }
}

/// When the next table asks though nothing changes but the time, wall milliseconds; it may be past, if jobs or snapshots hold it.
pub fn next_due_ms(version: &Version, strategy: &Strategy) -> Option<u64> {
    let deadlines = Deadlines::of(strategy, version);
    let deepest = version.deepest()?;
    let mut next: Option<u64> = None;
    for (level, found) in version.levels.iter().enumerate() {
        let stays_ms =
            strategy.levels.get(level, version.levels.len()).triggers.iter().find_map(|t| match t {
                Trigger::Staleness { limit_ms } if level < deepest || level == 0 => Some(*limit_ms),
                _ => None,
            });
        if stays_ms.is_none() && deadlines.is_none() {
            continue;
        }
        for table in found.tables() {
            let moves = stays_ms.map(|limit| table.entered_level_ms.saturating_add(limit));
            let expires = deadlines
                .as_ref()
                .and_then(|due| table.oldest_delete_ms().map(|since| since.saturating_add(due.level(level))));
            next = [next, moves, expires].into_iter().flatten().min();
        }
    }
    next
}
