//! The twin's jobs: what is picked or drawn from chance is claimed, merged key by key, committed in prefixes, and ends
//! by finishing, yielding or being discarded.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::closure::{TablePos, broken};
use super::commit::{CommitPart, commit_part, end_job, move_tables};
use super::compaction::{Compaction, SlotPlace};
use super::duplicates::space_amplification;
use super::picker::{Pick, Wish, manual, pick};
use super::placement::{Direction, Drafted, Picked, Plan, draft_at};
use super::strategy::Trigger;
use super::tree_view::TreeView;
use super::twin_world::{Broken, Chance, Entry, KEYS, What, World, index_of, key};
use crate::base::class::{Class, L0Permit, Permit};
use crate::base::key_range::{KeyRange, after};
use crate::base::units::{JobId, SeqNo, TableId};
use crate::table::meta::{Born, TableMeta};
use crate::version::group::Group;
use crate::version::run::TableRef;

/// A running attempt at a compaction.
pub struct Running {
    pub compaction: Arc<Compaction>,
    /// The next key to merge.
    pub next: usize,
    /// Sealed outputs since the last commit, by slot.
    pub outputs: Vec<Vec<Arc<TableMeta>>>,
    /// The output being filled, and its slot.
    pub part: (usize, Vec<(usize, Vec<Entry>)>),
    /// Keys below this one are sealed.
    pub sealed: usize,
    /// Keys below this one are committed.
    pub committed: usize,
}

impl World {
    /// A random seed with a random place, closed by the production closure.
    pub fn start_random(&mut self) -> Result<(), String> {
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
            reason: "chance".into(),
            urgency: 1.0,
            level,
            seed: seed.into_iter().collect(),
            to,
            cursor: None,
            may_move: true,
        };
        let salt = self.chance.below(1 << 20);
        let place = |index: usize, group: &Group| {
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
        self.take(
            if by.is_empty() {
                Pick::Run(picked)
            } else {
                Pick::Blocked { want: picked, by, less_urgent: Vec::new() }
            },
            true,
        )
    }

    pub fn view<'a>(&'a self, cursors: &'a BTreeMap<usize, Box<[u8]>>) -> TreeView<'a> {
        let oldest_snapshot = self.snapshots.keys().next().map_or(SeqNo::MAX, |seq| SeqNo(*seq));
        let asks = self.strategy.has_trigger(|trigger| matches!(trigger, Trigger::SpaceAmp { .. }));
        TreeView {
            version: &self.version,
            claims: &self.claims,
            cursors,
            ids: self.ids,
            now_ms: self.now_ms,
            oldest_snapshot,
            space_amp: if asks { space_amplification(&self.version) } else { 0.0 },
        }
    }

    pub fn start_picked(&mut self) -> Result<(), String> {
        if self.chance.once_in(4) {
            self.shape_levels()?;
        } else {
            self.set_levels()?;
        }
        let (strategy, cursors) = (self.strategy.clone(), self.cursors.clone());
        let by_hand = self.chance.once_in(10);
        let level = self.chance.below(self.version.levels.len());
        let (a, b) = (self.chance.below(KEYS), self.chance.below(KEYS));
        let range = KeyRange::new(&key(a.min(b)), Some(&key(a.max(b))));
        let until = if self.chance.once_in(2) { SeqNo::MAX } else { SeqNo(self.seq / 2) };
        let to_level = self.chance.once_in(3).then(|| self.chance.below(6));
        let wish = Wish { range, to_level, until, before: TableId(self.tables.len() as u64) };
        let mut permit = Permit::everything();
        if self.chance.once_in(4) {
            permit.max_bytes = 100;
            permit.l0 = L0Permit::IntraOnly { flush_born: self.chance.once_in(2) };
        }
        let picked = {
            let view = self.view(&cursors);
            if by_hand { manual(&view, &strategy, &wish, level) } else { pick(&view, &strategy, &permit) }
        };
        self.take(picked, false)
    }

    pub fn take(&mut self, picked: Pick, random: bool) -> Result<(), String> {
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

    pub fn start(&mut self, picked: Picked, random: bool) -> Result<(), String> {
        self.ids = picked.ids;
        if picked.compaction.trivial_move && !self.chance.once_in(4) {
            self.stats.count("move");
            let done =
                move_tables(&self.version, &self.claims, &picked, self.now_ms).map_err(|e| e.to_string())?;
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
        if self.running.len() >= 3 {
            self.stats.count("three jobs open");
        }
        Ok(())
    }

    /// Convexity (I2) and older data (I4) by definition, key by key, without the production code.
    pub fn legal_by_keys(&self, compaction: &Compaction) -> Result<(), String> {
        if broken::CONVEXITY.get() {
            return Ok(());
        }
        let inputs: BTreeSet<TableId> = compaction.tables().map(TableRef::id).collect();
        for k in index_of(&compaction.range.lo)..KEYS {
            let slot = compaction.slots.iter().find(|s| s.range.contains(&key(k)));
            let (mut seen, mut passed, mut older) = (false, false, false);
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
                older |= passed && table.is_some();
                seen |= is_input;
                passed |= at == Some(SlotPlace::Into(run.id)) || at == Some(SlotPlace::Collapse(run.id));
            }
            if seen && older != compaction.may_have_older(&key(k)) {
                return Err(format!("key {k}: older data below is {older}, not so in {compaction:?}"));
            }
        }
        Ok(())
    }

    pub fn some_job(&mut self) -> Option<JobId> {
        let jobs: Vec<JobId> = self.running.keys().copied().collect();
        self.chance.one_of(&jobs).copied()
    }

    pub fn step_some_job(&mut self) -> Result<(), String> {
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
    pub fn merge_key(&mut self, running: &mut Running) -> bool {
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
        let spent = !compaction.may_have_older(&key(k));
        while let Some((_, what)) = entries.last().copied().filter(|(seq, _)| unseen(*seq)) {
            let (broken, name) = match what {
                What::Put(_) => break,
                What::Delete => (Broken::Tombstones, "dropped tombstone"),
                What::Range => (Broken::Ranges, "dropped range tombstone"),
            };
            if !spent && self.broken != broken {
                break;
            }
            entries.pop();
            self.stats.count(name);
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

    pub fn seal(&mut self, running: &mut Running) {
        let (slot, part) = (running.part.0, std::mem::take(&mut running.part.1));
        if !part.is_empty() {
            let meta = self.make_table(&part, Born::Merge);
            running.outputs[slot].push(meta);
        }
        running.sealed = running.next;
    }

    /// Commits what is sealed.
    pub fn commit(&mut self, job: JobId, finished: bool, ends: bool) -> Result<(), String> {
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
            let lists = self.tables[t.id().0 as usize].iter().take(sealed);
            lists.flatten().filter(|e| e.1 != What::Range).count() as u64
        };
        let consumed = compaction.tables().map(|t| (t.id(), below(t))).collect();
        let part = CommitPart { outputs, cut: (!finished).then_some(cut), consumed, ends };
        let done =
            commit_part(&self.version, &self.claims, job, &part, self.now_ms).map_err(|e| e.to_string())?;
        self.install(done);
        if ends {
            self.claims.release(job);
            self.running.remove(&job);
        }
        Ok(())
    }

    pub fn end_some_job(&mut self) -> Result<(), String> {
        let Some(job) = self.some_job() else { return Ok(()) };
        let committing = self.chance.once_in(2);
        self.end(job, committing)
    }

    /// Yields (commits what is there) or discards.
    pub fn end(&mut self, job: JobId, committing: bool) -> Result<(), String> {
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
}
