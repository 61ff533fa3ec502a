//! What open jobs hold (I3): input tables, runs with an input or a slot, and groups.
//!
//! A table belongs to at most one job. A run that some job has an input or a slot in stays, even empty, and is never
//! fused. A group is shared by the jobs with an input or slot in it, and taken whole by an edit of its range or bound.
//! There is no test on rectangles of keys and levels: convexity already refuses what would go wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::compaction::{Compaction, Slot, SlotPlace};
use crate::base::class::Class;
use crate::base::error::{Error, Result};
use crate::base::units::{GroupId, IdMap, JobId, RunId, TableId};
use crate::version::check::OpenClaim;
use crate::version::edit::{EditStep, VersionEdit};
use crate::version::run::TableRef;

/// Everything that open jobs hold in one tree.
#[derive(Clone, Debug, Default)]
pub struct Claims {
    open: BTreeMap<JobId, Arc<Compaction>>,
    /// Input tables that are not consumed yet.
    tables: IdMap<TableId, JobId>,
    runs: IdMap<RunId, Vec<JobId>>,
    groups: IdMap<GroupId, Hold>,
}

#[derive(Clone, Debug)]
enum Hold {
    Shared(Vec<JobId>),
    Exclusive(JobId),
}

impl Claims {
    /// Takes what `compaction` needs, all or nothing.
    pub fn claim(&mut self, job: JobId, compaction: Arc<Compaction>) -> Result<()> {
        if self.open.contains_key(&job) {
            return Err(Error::invalid(format!("job {job} has a claim already")));
        }
        if let Some(holder) = self.blockers(&compaction).first() {
            return Err(Error::invalid(format!("job {holder} holds what job {job} wants")));
        }
        self.tables.extend(compaction.tables().map(|t| (t.id(), job)));
        for run in held_runs(&compaction) {
            self.runs.entry(run).or_default().push(job);
        }
        for group in held_groups(&compaction) {
            if let Hold::Shared(jobs) = self.groups.entry(group).or_insert_with(|| Hold::Shared(Vec::new())) {
                jobs.push(job);
            }
        }
        self.open.insert(job, compaction);
        Ok(())
    }

    /// Takes a group for an edit of its range or bound; refused while any job has an input or slot in it.
    pub fn claim_group(&mut self, job: JobId, group: GroupId) -> Result<()> {
        if let Some(holder) = self.group_holders(group).first() {
            return Err(Error::invalid(format!("group {group} is in use by job {holder}")));
        }
        self.groups.insert(group, Hold::Exclusive(job));
        Ok(())
    }

    /// After a commit of the job: the inputs it dropped are no longer held, nor kept by its compaction.
    pub fn committed(&mut self, edit: &VersionEdit) {
        let mut jobs = BTreeSet::new();
        for step in &edit.steps {
            if let EditStep::DropTable { table } = step {
                jobs.extend(self.tables.remove(table));
            }
        }
        for job in jobs {
            let Some(compaction) = self.open.get_mut(&job) else { continue };
            let mut rest = Compaction::clone(compaction);
            // Runs stay, even without tables: the job has a place in them.
            rest.inputs.iter_mut().for_each(|run| run.tables.retain(|t| self.tables.contains_key(&t.id())));
            *compaction = Arc::new(rest);
        }
    }

    /// Gives back everything a job holds.
    pub fn release(&mut self, job: JobId) -> Option<Arc<Compaction>> {
        self.groups.retain(|_, hold| match hold {
            Hold::Exclusive(holder) => *holder != job,
            Hold::Shared(jobs) => {
                jobs.retain(|j| *j != job);
                !jobs.is_empty()
            }
        });
        let compaction = self.open.remove(&job)?;
        self.tables.retain(|_, holder| *holder != job);
        self.runs.retain(|_, jobs| {
            jobs.retain(|j| *j != job);
            !jobs.is_empty()
        });
        Some(compaction)
    }

    /// The jobs that stand in the way of `compaction`, ascending.
    pub fn blockers(&self, compaction: &Compaction) -> Vec<JobId> {
        let tables = compaction.tables().filter_map(|t| self.holder(t.id()));
        let groups = held_groups(compaction).into_iter().filter_map(|g| match self.groups.get(&g) {
            Some(Hold::Exclusive(job)) => Some(*job),
            _ => None,
        });
        let mut out: Vec<JobId> = tables.chain(groups).collect();
        out.sort_unstable();
        out.dedup();
        out
    }

    /// The job that has this table as an input.
    pub fn holder(&self, table: TableId) -> Option<JobId> {
        self.tables.get(&table).copied()
    }

    /// The jobs of a class, ascending.
    pub fn of_class(&self, class: Class) -> Vec<JobId> {
        self.open.iter().filter(|(_, compaction)| compaction.class == class).map(|(job, _)| *job).collect()
    }

    /// True if a job other than `except` has an input or slot in this run.
    pub fn holds_run(&self, run: RunId, except: Option<JobId>) -> bool {
        self.runs.get(&run).is_some_and(|jobs| jobs.iter().any(|j| Some(*j) != except))
    }

    /// The jobs that hold a group, shared or whole.
    pub fn group_holders(&self, group: GroupId) -> Vec<JobId> {
        match self.groups.get(&group) {
            None => Vec::new(),
            Some(Hold::Exclusive(job)) => vec![*job],
            Some(Hold::Shared(jobs)) => jobs.clone(),
        }
    }

    /// The places that open jobs have in a group.
    pub fn slots_in(&self, group: GroupId) -> impl Iterator<Item = &Slot> {
        let jobs = match self.groups.get(&group) {
            Some(Hold::Shared(jobs)) => jobs.as_slice(),
            _ => &[],
        };
        let compactions = jobs.iter().filter_map(|j| self.open.get(j));
        compactions.flat_map(move |c| c.slots.iter().filter(move |s| s.group == group))
    }

    /// An open job's compaction.
    pub fn compaction(&self, job: JobId) -> Option<&Arc<Compaction>> {
        self.open.get(&job)
    }

    /// True if no job is open.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// The open jobs, ascending.
    pub fn jobs(&self) -> impl Iterator<Item = (JobId, &Arc<Compaction>)> {
        self.open.iter().map(|(job, compaction)| (*job, compaction))
    }

    /// What `version::check` wants to know.
    pub fn open_claims(&self) -> Vec<OpenClaim> {
        let claim = |(job, compaction): (&JobId, &Arc<Compaction>)| OpenClaim {
            job: *job,
            tables: compaction.tables().map(TableRef::id).filter(|t| self.holder(*t) == Some(*job)).collect(),
            runs: held_runs(compaction),
        };
        self.open.iter().map(claim).collect()
    }
}

/// Runs with an input or a slot, each once.
pub fn held_runs(compaction: &Compaction) -> Vec<RunId> {
    let inputs = compaction.inputs.iter().map(|i| i.run);
    let slots = compaction.slots.iter().flat_map(|slot| {
        let anchor = match slot.place {
            SlotPlace::Into(run) | SlotPlace::Above(run) | SlotPlace::Collapse(run) => Some(run),
            SlotPlace::First => None,
        };
        [Some(slot.run), anchor].into_iter().flatten()
    });
    let mut out: Vec<RunId> = inputs.chain(slots).collect();
    out.sort_unstable();
    out.dedup();
    out
}

/// Groups with an input or a slot, each once.
fn held_groups(compaction: &Compaction) -> Vec<GroupId> {
    let inputs = compaction.inputs.iter().map(|i| i.group);
    let mut out: Vec<GroupId> = inputs.chain(compaction.slots.iter().map(|s| s.group)).collect();
    out.sort_unstable();
    out.dedup();
    out
}
