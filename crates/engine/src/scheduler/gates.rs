//! What may not start, or not go on, while the load is high; and the bursts that merge L0 all the same before it grows too tall.

use std::collections::{BTreeMap, BTreeSet};

use super::classifier::Load;
use crate::base::class::Class;
use crate::base::error::{Error, Result};
use crate::base::units::KeyspaceId;

/// DLC §6.3: tables in L0 at which a burst begins.
pub const BURST_RUNS: u32 = 20;
/// DLC §6.3, "part and full": so many merges within L0, then one to L1.
pub const BURST_PARTS: u32 = 4;
/// DLC §4.1: only one low-level compaction runs at high load.
pub const DEEP_AT_HIGH: u32 = 1;

/// What is done to a class at high load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Open jobs are set aside, all of the class, and none starts.
    Pause,
    /// None starts. One of L0 that is open commits what it has and lets go.
    NoStart,
    /// At most so many run; others are set aside.
    Max(u32),
}

impl Act {
    /// Another job of the class may start beside fewer than these.
    pub fn starts_beside(self) -> usize {
        match self {
            Act::Pause | Act::NoStart => 0,
            Act::Max(most) => most as usize,
        }
    }

    /// So many of the class go on and the others are set aside; `None`: all go on.
    pub fn goes_on(self) -> Option<usize> {
        match self {
            Act::Pause => Some(0),
            Act::NoStart => None,
            Act::Max(most) => Some(most as usize),
        }
    }
}

/// The gates of a schedule: what is done to each class at high load, one act at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gates([Option<Act>; Class::ALL.len()]);

impl Gates {
    /// For these classes, and for no other.
    pub fn of(acts: &[(Class, Act)]) -> Gates {
        let mut gates = Gates::default();
        acts.iter().for_each(|(class, act)| gates.set(*class, Some(*act)));
        gates
    }

    /// What is done to a class.
    pub fn on(&self, class: Class) -> Option<Act> {
        self.0[class as usize]
    }

    /// Changes that.
    pub fn set(&mut self, class: Class, act: Option<Act>) {
        self.0[class as usize] = act;
    }

    /// All there are, by class.
    pub fn acts(&self) -> impl Iterator<Item = (Class, Act)> {
        Class::ALL.into_iter().zip(self.0).filter_map(|(class, act)| Some((class, act?)))
    }
}

/// When L0 is merged in spite of a gate (DLC §5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burst {
    /// From so many runs on.
    pub runs: Option<u32>,
    /// Or from so many bytes on.
    pub bytes: Option<u64>,
    /// So many merges of flushed tables among themselves before all of L0 goes down, and flushed tables alone count; `None`: all goes down
    /// at once.
    pub parts: Option<u32>,
}

/// The option `l0_limit` is at most this.
pub const RUNS_MAX: u32 = 100_000;

impl Burst {
    /// Refuses one that never comes, or always.
    pub fn check(&self) -> Result<()> {
        match (self.runs, self.bytes) {
            (None, None) => Err(Error::invalid("a burst needs burst-runs or burst-bytes, or it never comes")),
            (Some(0 | 1), _) | (_, Some(0)) => {
                Err(Error::invalid("a burst is from 2 runs or 1 byte on: there would be nothing to merge"))
            }
            (Some(runs), _) if runs > RUNS_MAX => {
                Err(Error::invalid(format!("burst-runs is at most {RUNS_MAX}: L0 never has more")))
            }
            _ if self.parts.is_some_and(|parts| parts > RUNS_MAX) => {
                Err(Error::invalid(format!("parts is at most {RUNS_MAX}: each leaves a run in L0")))
            }
            _ => Ok(()),
        }
    }

    fn is_due(&self, l0: &L0Backlog) -> bool {
        let (runs, bytes) = match self.parts {
            Some(_) => (l0.flush_born, l0.flush_born_bytes),
            None => (l0.runs, l0.bytes),
        };
        self.runs.is_some_and(|most| runs >= most) || self.bytes.is_some_and(|most| bytes >= most)
    }
}

/// L0 of a keyspace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct L0Backlog {
    /// Runs.
    pub runs: u32,
    /// Their bytes.
    pub bytes: u64,
    /// Runs that flushes made, outputs of merges left out.
    pub flush_born: u32,
    /// Their bytes.
    pub flush_born_bytes: u64,
    /// Runs that parts of bursts made.
    pub part_born: u32,
    /// Open jobs that take tables of it.
    pub jobs: u32,
}

/// What a burst does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Merges flushed tables into one that no other part takes.
    Part,
    /// Brings L0 down.
    Full,
}

/// What is remembered of bursts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BurstState {
    of: BTreeMap<KeyspaceId, Progress>,
    /// Bursts of parts so far, and full ones.
    pub begun: [u64; 2],
    /// Those that the last look began.
    pub begun_now: Vec<(KeyspaceId, Phase)>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Progress {
    phase: Option<Phase>,
    /// Its job has been seen.
    begun: bool,
    /// Parts since L0 was brought down.
    parts: u32,
}

impl BurstState {
    /// Begins bursts and ends them. Where writers are slowed all of L0 goes down, and no part begins.
    pub fn look(
        &mut self,
        burst: Option<&Burst>,
        load: Load,
        l0: &[(KeyspaceId, L0Backlog)],
        slowed: &[KeyspaceId],
    ) {
        self.begun_now.clear();
        let Some(burst) = burst else {
            self.of.clear();
            return;
        };
        let known: BTreeMap<KeyspaceId, &L0Backlog> = l0.iter().map(|(id, l0)| (*id, l0)).collect();
        if load != Load::High {
            // L0 goes down by itself: outputs of parts, which no other part takes, are counted until they are gone.
            self.of.retain(|id, _| known.get(id).is_some_and(|l0| l0.runs > l0.flush_born));
            self.of.values_mut().for_each(|progress| (progress.phase, progress.begun) = (None, false));
            return;
        }
        self.of.retain(|id, _| known.contains_key(id));
        let slowed: BTreeSet<KeyspaceId> = slowed.iter().copied().collect();
        for (id, backlog) in l0 {
            // After a restart, or a change of the schedule, what L0 has of parts is all that tells of them.
            let progress =
                self.of.entry(*id).or_insert(Progress { parts: backlog.part_born, ..Progress::default() });
            progress.end(burst, backlog);
            let phase = progress.next(burst);
            // A part is a job of its own: one that had begun before takes flushed runs as well, and lets them go first.
            let has_room = phase == Phase::Full || backlog.jobs == 0 && !slowed.contains(id);
            if progress.phase.is_none() && has_room && burst.is_due(backlog) {
                *progress = match phase {
                    Phase::Part => Progress { phase: Some(phase), begun: false, parts: progress.parts + 1 },
                    Phase::Full => Progress { phase: Some(phase), begun: false, parts: 0 },
                };
                self.begun[phase as usize] += 1;
                self.begun_now.push((*id, phase));
            }
        }
    }

    /// The bursts under way.
    pub fn under_way(&self) -> impl Iterator<Item = (KeyspaceId, Phase)> {
        self.of.iter().filter_map(|(id, progress)| Some((*id, progress.phase?)))
    }
}

impl Progress {
    /// A burst is over when its job has ended, or nothing is left for it.
    fn end(&mut self, burst: &Burst, l0: &L0Backlog) {
        if self.phase.is_none() && l0.runs <= l0.flush_born {
            // Whatever has brought L0 down: of no part before is anything left.
            self.parts = 0;
        }
        if l0.jobs > 0 {
            self.begun = true;
        } else if self.begun || !burst.is_due(l0) {
            (self.phase, self.begun) = (None, false);
        }
    }

    fn next(&self, burst: &Burst) -> Phase {
        match burst.parts {
            Some(parts) if self.parts < parts => Phase::Part,
            _ => Phase::Full,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Or each restart would have four more parts, and reads as many more runs.
    #[test]
    fn parts_are_counted_across_a_restart() {
        let burst = Burst { runs: Some(20), bytes: None, parts: Some(4) };
        let first_phase = |part_born| {
            let l0 = L0Backlog { runs: 20 + part_born, flush_born: 20, part_born, ..L0Backlog::default() };
            let mut state = BurstState::default();
            state.look(Some(&burst), Load::High, &[(KeyspaceId(0), l0)], &[]);
            state.begun_now.first().map(|(_, phase)| *phase)
        };
        let [part, full] = [Some(Phase::Part), Some(Phase::Full)];
        assert_eq!([0, 1, 2, 3, 4, 5].map(first_phase), [part, part, part, part, full, full]);
    }
}
