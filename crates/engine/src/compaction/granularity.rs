//! How much one compaction takes: the seeds, best first, from which compactions are closed (CDS §3.1.3).
//!
//! A single table (or several) is taken from the oldest run that has a free one: what lies above it stays legal to leave,
//! while a table of a newer run would drag everything under it along. New granularities are one arm in [`seeds`].

use super::closure::TablePos;
use super::movement::{Surroundings, order};
use super::strategy::{Granularity, LevelPolicy, Movement};
use crate::version::run::TableRef;
use crate::version::version::Version;

/// More seeds than these are not tried: each costs a closure.
pub const SEEDS_MAX: usize = 64;

/// Tables to start from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seed {
    /// The tables.
    pub tables: Vec<TablePos>,
    /// Where the round-robin goes on after this seed, if it chose it.
    pub cursor: Option<Box<[u8]>>,
}

/// The free tables of a group, by run; newest run first.
pub type FreeTables = Vec<Vec<TablePos>>;

/// The seeds for one group, best first, or for several between which the movement chooses. `groups` holds the free tables of every
/// group of the level, and `among` says which the candidate is about, ascending.
pub fn seeds(
    policy: &LevelPolicy,
    groups: &[FreeTables],
    among: &[usize],
    around: &Surroundings<'_>,
) -> Vec<Seed> {
    let all = |groups: &[&FreeTables]| {
        let tables: Vec<TablePos> = groups.iter().copied().flatten().flatten().copied().collect();
        let seed = Seed { tables, cursor: None };
        if seed.tables.is_empty() { Vec::new() } else { vec![seed] }
    };
    let own: Vec<&FreeTables> = among.iter().filter_map(|group| groups.get(*group)).collect();
    match policy.granularity {
        Granularity::Level => all(&groups.iter().collect::<Vec<_>>()),
        Granularity::Runs => all(own.get(..1).unwrap_or_default()),
        Granularity::File => by_movement(policy, &own, around, 0),
        Granularity::Files { bytes } => by_movement(policy, &own, around, bytes),
    }
}

/// One seed a table in the movement's order, each with its next neighbours up to `bytes`.
fn by_movement(
    policy: &LevelPolicy,
    own: &[&FreeTables],
    around: &Surroundings<'_>,
    bytes: u64,
) -> Vec<Seed> {
    let oldest = own.iter().filter_map(|runs| runs.iter().rev().find(|tables| !tables.is_empty()));
    let run: Vec<TablePos> = oldest.map(Vec::as_slice).collect::<Vec<_>>().concat();
    let table = |index: usize| run.get(index).and_then(|pos| pos.get(around.version));
    let turns = policy.movement.first() == Some(&Movement::RoundRobin);
    let seed = |first: usize| {
        let end = first + several(&run, &table, first, bytes);
        let last = table(end - 1).and_then(|t| t.bounds.hi.clone());
        Seed {
            tables: run.get(first..end).unwrap_or_default().to_vec(),
            cursor: turns.then(|| last.map_or_else(Box::default, |key| Box::from(&*key))),
        }
    };
    order(&policy.movement, &run, around, SEEDS_MAX).into_iter().map(seed).collect()
}

/// How many neighbours from `first` on stay within `bytes`; at least one.
fn several<'v>(
    run: &[TablePos],
    table: &dyn Fn(usize) -> Option<&'v TableRef>,
    first: usize,
    bytes: u64,
) -> usize {
    let mut sum = table(first).map_or(0, TableRef::bytes);
    let mut count = 1;
    while let (Some(a), Some(b), Some(t)) =
        (run.get(first + count - 1), run.get(first + count), table(first + count))
    {
        sum += t.bytes();
        if a.group != b.group || a.table + 1 != b.table || sum > bytes {
            break;
        }
        count += 1;
    }
    count
}

/// All tables of neighbouring runs of a group.
pub fn whole_runs(
    version: &Version,
    level: usize,
    group: usize,
    runs: std::ops::Range<usize>,
) -> Vec<TablePos> {
    let Some(found) = version.levels.get(level).and_then(|l| l.groups.get(group)) else { return Vec::new() };
    let tables = |run: usize| found.runs.get(run).map_or(0, |r| r.tables.len());
    runs.flat_map(|run| (0..tables(run)).map(move |table| TablePos { level, group, run, table })).collect()
}
