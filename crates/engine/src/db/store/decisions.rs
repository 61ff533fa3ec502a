//! The last compactions that were decided: why, instead of what, what they were to cost, and what they did.
//!
//! Kept while the store is open. Nothing of a tree is held here, so no file lives longer for it.

use std::collections::VecDeque;
use std::sync::PoisonError;
use std::time::Duration;

use crate::base::class::Class;
use crate::base::locks::{Mutex, MutexGuard};
use crate::base::units::{JobId, KeyspaceId};
use crate::compaction::compaction::Compaction;
use crate::compaction::duplicates::merged_bytes;
use crate::compaction::picker::{Because, Candidate, Rejected, Why};
use crate::observe::json::{Object, list, quoted};
use crate::observe::words::{bytes, count, duration, utc};

/// Decisions remembered.
const KEPT: usize = 256;
/// The seconds of a job are foretold by the speed of this many before it.
const PACE_OF: usize = 8;

/// What a compaction reads and writes, and how long it takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Bytes of input.
    pub read: u64,
    /// Bytes of output.
    pub written: u64,
    /// From the pick to the end; `None` where nobody can tell yet.
    pub time: Option<Duration>,
}

/// What became of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is under way.
    Open,
    /// Tables changed their place by metadata.
    Moved,
    /// It has done all it will; `yielded` if it let go of the rest.
    Done {
        /// What it took.
        cost: Cost,
        /// For more urgent work.
        yielded: bool,
    },
    /// So many bytes of it were thrown away: for a more urgent one, or because nobody wants it any more.
    Discarded(u64),
    /// It failed, and lost so many bytes of work.
    Failed(u64),
}

/// A decision.
#[derive(Clone, Debug)]
pub struct Decision {
    /// The job's number; moves by metadata have one too.
    pub job: JobId,
    /// Whose tree.
    pub keyspace: KeyspaceId,
    /// When, wall milliseconds.
    pub at_ms: u64,
    /// Whose urgency it had.
    pub class: Class,
    /// From which level, to which.
    pub levels: (usize, usize),
    /// Runs and tables of its input.
    pub inputs: (usize, usize),
    /// The trigger and its score.
    pub reason: String,
    /// The score.
    pub score: f64,
    /// What else was considered, and why it was not that.
    pub rejected: Vec<(String, String)>,
    /// What it was to cost.
    pub predicted: Cost,
    /// What became of it.
    pub outcome: Outcome,
}

/// Those of a store.
#[derive(Debug, Default)]
pub struct Decisions(Mutex<VecDeque<Decision>>);

impl Decisions {
    /// Remembers a decision. Answers the bytes that it is to write.
    pub fn note(
        &self,
        at_ms: u64,
        job: JobId,
        keyspace: KeyspaceId,
        compaction: &Compaction,
        rejected: &[Rejected],
    ) -> u64 {
        let tables: Vec<_> = compaction.tables().collect();
        let moved = compaction.trivial_move;
        let written = if moved { 0 } else { merged_bytes(&tables) };
        let read = if moved { 0 } else { compaction.input_bytes };
        let mut all = self.lock();
        let time = if moved { None } else { pace(&all).map(|pace| time_at(read + written, pace)) };
        if all.len() == KEPT {
            all.pop_front();
        }
        all.push_back(Decision {
            job,
            keyspace,
            at_ms,
            class: compaction.class,
            levels: (compaction.level, compaction.target_level),
            inputs: (compaction.inputs.len(), tables.len()),
            reason: compaction.reason.clone(),
            score: compaction.urgency,
            rejected: rejected.iter().map(|r| (words_of(&r.candidate), why_not(&r.because))).collect(),
            predicted: Cost { read, written, time },
            outcome: if moved { Outcome::Moved } else { Outcome::Open },
        });
        written
    }

    /// A job has ended so.
    pub fn ended(&self, job: JobId, outcome: Outcome) {
        let mut all = self.lock();
        if let Some(decision) = all.iter_mut().rfind(|decision| decision.job == job) {
            decision.outcome = outcome;
        }
    }

    /// The last `n` decisions about a keyspace, oldest first.
    pub fn last(&self, keyspace: KeyspaceId, n: usize) -> Vec<Decision> {
        let all = self.lock();
        let mut last: Vec<Decision> =
            all.iter().rev().filter(|d| d.keyspace == keyspace).take(n).cloned().collect();
        last.reverse();
        last
    }

    /// The decision with this number, if it is remembered.
    pub fn find(&self, job: JobId) -> Option<Decision> {
        self.lock().iter().rfind(|decision| decision.job == job).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Decision>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Bytes and time of the last jobs that ended.
fn pace(all: &VecDeque<Decision>) -> Option<(u64, Duration)> {
    let done = all.iter().rev().filter_map(|decision| match decision.outcome {
        Outcome::Done { cost: Cost { read, written, time: Some(time) }, .. } => Some((read + written, time)),
        _ => None,
    });
    let sum = done.take(PACE_OF).fold((0, Duration::ZERO), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    Some(sum).filter(|(moved, _)| *moved > 0)
}

fn time_at(moved: u64, (of, took): (u64, Duration)) -> Duration {
    took.mul_f64(moved as f64 / of as f64)
}

/// A candidate in words.
pub fn words_of(candidate: &Candidate) -> String {
    let why = match candidate.why {
        Why::Trigger(trigger) => format!("its trigger `{}`", trigger.word()),
        Why::Excess => "more runs than its layout allows".to_owned(),
        Why::Room => "room for the level above".to_owned(),
        Why::Surplus => "a level too many".to_owned(),
    };
    format!("L{} ({}): {why}, score {:.2}", candidate.level, candidate.class, candidate.urgency)
}

/// A reason as the end of a sentence.
pub fn because(reason: &str) -> String {
    match reason.starts_with("merges ") {
        true => format!("it {reason}"),
        false => format!("because of {reason}"),
    }
}

fn why_not(because: &Because) -> String {
    match because {
        Because::Blocked(by) => {
            let by: Vec<String> = by.iter().map(ToString::to_string).collect();
            format!("job {} held what it needs", by.join(", "))
        }
        Because::NotPermitted => "the schedule had no worker free for it, or held it back".to_owned(),
        Because::Nothing => "nothing that could start would have helped it".to_owned(),
        Because::LessUrgent => "it was less urgent".to_owned(),
    }
}

impl Decision {
    /// One line.
    pub fn line(&self) -> String {
        let (from, to) = self.levels;
        let what = match self.outcome {
            Outcome::Open => format!("under way, takes {}", bytes(self.predicted.read)),
            Outcome::Moved => "moved by metadata".to_owned(),
            Outcome::Done { cost, yielded } => {
                let how = if yielded { "yielded: " } else { "" };
                format!("{how}{} to {}", bytes(cost.read), bytes(cost.written))
            }
            Outcome::Discarded(lost) => format!("thrown away, {} lost", bytes(lost)),
            Outcome::Failed(lost) => format!("failed, {} lost", bytes(lost)),
        };
        format!("job {}, {}, L{from} to L{to}, {what}: {}", self.job, self.class, self.reason)
    }

    /// All there is to say, in lines.
    pub fn lines(&self) -> Vec<String> {
        let ((from, to), (runs, tables)) = (self.levels, self.inputs);
        let inputs = format!("{} of {}", count(tables as u64, "table"), count(runs as u64, "run"));
        let mut out = vec![
            format!("Job {}, {}, L{from} to L{to}, decided at {}", self.job, self.class, utc(self.at_ms)),
            format!("  {}, with {inputs}", because(&self.reason)),
        ];
        out.push(if self.rejected.is_empty() {
            "  Nothing else was to be done".to_owned()
        } else {
            "  Instead of, most urgent first:".to_owned()
        });
        for (what, why) in &self.rejected {
            out.extend([format!("    {what}"), format!("      {why}")]);
        }
        let cost = |cost: &Cost| {
            let time = cost.time.map_or_else(String::new, |time| format!(" in {}", duration(time)));
            format!("{} read, {} written{time}", bytes(cost.read), bytes(cost.written))
        };
        if self.outcome != Outcome::Moved {
            out.push(format!("  Predicted: {}", cost(&self.predicted)));
        }
        out.push(match &self.outcome {
            Outcome::Open => "  It is under way".to_owned(),
            Outcome::Moved => "  Moved by metadata alone: nothing was read or written".to_owned(),
            Outcome::Done { cost: real, yielded: false } => format!("  Real: {}", cost(real)),
            Outcome::Done { cost: real, yielded: true } => {
                format!("  Real: {}; it yielded, and left the rest", cost(real))
            }
            Outcome::Discarded(lost) => {
                format!("  It made way for a more urgent one: {} of work were thrown away", bytes(*lost))
            }
            Outcome::Failed(lost) => format!("  It failed: {} of work were thrown away", bytes(*lost)),
        });
        out
    }

    /// As JSON.
    pub fn to_json(&self) -> String {
        let cost = |cost: &Cost| {
            let micros = cost.time.map_or("null".to_owned(), |time| time.as_micros().to_string());
            Object::new().raw("read", cost.read).raw("written", cost.written).raw("micros", micros).end()
        };
        let (outcome, real) = match &self.outcome {
            Outcome::Open => ("open", None),
            Outcome::Moved => ("moved", None),
            Outcome::Done { cost, yielded } => (if *yielded { "yielded" } else { "done" }, Some(cost)),
            Outcome::Discarded(_) => ("discarded", None),
            Outcome::Failed(_) => ("failed", None),
        };
        let rejected = self
            .rejected
            .iter()
            .map(|(what, why)| Object::new().text("candidate", what).text("because", why).end());
        let object = Object::new().raw("job", self.job).raw("at_ms", self.at_ms);
        let object = object.text("class", &self.class.to_string()).raw("level", self.levels.0);
        let object = object.raw("output_level", self.levels.1).text("reason", &self.reason);
        let object = object.raw("runs", self.inputs.0).raw("tables", self.inputs.1);
        let object = object.fraction("score", self.score).raw("rejected", list(rejected));
        let object = object.raw("predicted", cost(&self.predicted)).text("outcome", outcome);
        let object = object.raw("real", real.map_or("null".to_owned(), cost));
        object.raw("lines", list(self.lines().iter().map(|line| quoted(line)))).end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decision(outcome: Outcome) -> Decision {
        let predicted = Cost { read: 4 << 20, written: 3 << 20, time: Some(Duration::from_millis(700)) };
        Decision {
            job: JobId(7),
            keyspace: KeyspaceId(0),
            at_ms: 1500,
            class: Class::L0ToL1,
            levels: (0, 1),
            inputs: (5, 6),
            reason: "runs, score 1.00 at L0".to_owned(),
            score: 1.0,
            rejected: vec![(
                "L1 (deep): its trigger `saturation`, score 1.10".to_owned(),
                "it was less urgent".to_owned(),
            )],
            predicted,
            outcome,
        }
    }

    #[test]
    fn all_is_said_of_a_decision() {
        let cost = Cost { read: 4 << 20, written: 2 << 20, time: Some(Duration::from_millis(600)) };
        let done = decision(Outcome::Done { cost, yielded: false });
        let lines = done.lines();
        let expected = [
            "Job 7, l0-to-l1, L0 to L1, decided at 1970-01-01T00:00:01.500Z",
            "  because of runs, score 1.00 at L0, with 6 tables of 5 runs",
            "  Instead of, most urgent first:",
            "    L1 (deep): its trigger `saturation`, score 1.10",
            "      it was less urgent",
            "  Predicted: 4.0 MiB read, 3.0 MiB written in 700.0 ms",
            "  Real: 4.0 MiB read, 2.0 MiB written in 600.0 ms",
        ];
        assert_eq!(lines, expected);
        assert!(lines.iter().all(|line| line.chars().count() <= 80), "{lines:#?}");
        assert_eq!(done.line(), "job 7, l0-to-l1, L0 to L1, 4.0 MiB to 2.0 MiB: runs, score 1.00 at L0");
        let json = done.to_json();
        let real = r#""outcome":"done","real":{"read":4194304,"written":2097152,"micros":600000}"#;
        assert!(json.contains(real) && json.contains(r#""because":"it was less urgent""#), "{json}");
        let moved = decision(Outcome::Moved).lines();
        assert!(moved.last().unwrap().contains("by metadata alone") && !moved.join("").contains("Predicted"));
    }

    #[test]
    fn time_is_foretold_from_the_pace_of_the_last() {
        let mut all = VecDeque::new();
        assert_eq!(pace(&all), None);
        for i in 1..=20u64 {
            let time = Some(Duration::from_secs(if i > 12 { 1 } else { 100 }));
            let cost = Cost { read: 60, written: 40, time };
            all.push_back(decision(Outcome::Done { cost, yielded: false }));
            all.push_back(decision(Outcome::Open));
        }
        let pace = pace(&all).unwrap();
        assert_eq!(time_at(250, pace), Duration::from_millis(2500));
    }
}
