//! The verbs, in the order of `keel --help`. Each file holds a verb's flags and what it does.

mod audit;
pub mod bench;
mod checkpoint;
mod compact;
mod delete;
mod demo;
mod dump;
mod explain;
mod get;
mod inspect;
mod keyspace;
mod lab;
mod levels;
mod load;
mod option;
mod put;
mod repair;
mod scan;
mod schedule;
mod shell;
mod sim;
mod soak;
mod stats;
mod strategy;
mod trace;
mod verify;

use clap::Subcommand;

use crate::failure::Failure;
use crate::store::Target;

/// The flags of a verb with several actions, such as `keel option list`.
#[derive(clap::Args, Debug)]
pub struct ActionArgs<A: Subcommand> {
    #[command(subcommand)]
    action: A,
    /// Print JSON.
    #[arg(long, global = true)]
    json: bool,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Write a record; creates the store if there is none.
    #[command(after_help = put::EXAMPLES)]
    Put(put::Args),
    /// Print a record's value.
    #[command(after_help = get::EXAMPLES)]
    Get(get::Args),
    /// Delete a record.
    #[command(after_help = delete::EXAMPLES)]
    Delete(delete::Args),
    /// Print records in key order.
    #[command(after_help = scan::EXAMPLES)]
    Scan(scan::Args),
    /// Write the records of a file, or of stdin.
    #[command(after_help = load::EXAMPLES)]
    Load(load::Args),
    /// Print all records so that `load` can read them again.
    #[command(after_help = dump::EXAMPLES)]
    Dump(dump::Args),
    /// Print the engine's figures.
    #[command(after_help = stats::EXAMPLES)]
    Stats(stats::Args),
    /// Print the tree as a picture.
    #[command(after_help = levels::EXAMPLES)]
    Levels(levels::Args),
    /// Compact a range of keys, or everything.
    #[command(after_help = compact::EXAMPLES)]
    Compact(compact::Args),
    /// Read every byte of the store and check it.
    #[command(after_help = verify::EXAMPLES)]
    Verify(verify::Args),
    /// Set apart what is damaged, so that the store opens again.
    #[command(after_help = repair::EXAMPLES)]
    Repair(repair::Args),
    /// Make a copy of the store as of now, sharing its tables.
    #[command(after_help = checkpoint::EXAMPLES)]
    Checkpoint(checkpoint::Args),
    /// Show what a single file of a store holds.
    #[command(after_help = inspect::EXAMPLES)]
    Inspect(inspect::Args),
    /// Take commands line by line from stdin.
    #[command(after_help = shell::EXAMPLES)]
    Shell(shell::Args),
    /// Say why the store does what it does, or why operations were slow.
    #[command(after_help = explain::EXAMPLES)]
    Explain(explain::Args),
    /// Show what deletes have left behind, and by when it is gone.
    #[command(after_help = audit::EXAMPLES)]
    Audit(audit::Args),
    /// List, show or change how the tree is compacted.
    #[command(after_help = strategy::EXAMPLES)]
    Strategy(strategy::Args),
    /// List or change the options of a store.
    #[command(after_help = option::EXAMPLES)]
    Option(option::Args),
    /// List, show or change when background work may run.
    #[command(after_help = schedule::EXAMPLES)]
    Schedule(schedule::Args),
    /// List, create or drop keyspaces (column families).
    #[command(after_help = keyspace::EXAMPLES)]
    Keyspace(keyspace::Args),
    /// Record the operations of a running store, and replay them.
    #[command(after_help = trace::EXAMPLES)]
    Trace(trace::Args),
    /// Show in two minutes what a schedule does for latency under bursts.
    #[command(after_help = demo::EXAMPLES)]
    Demo(demo::Args),
    /// Measure a workload on this machine.
    #[command(after_help = bench::EXAMPLES)]
    Bench(Box<bench::Args>),
    /// Simulate what strategies cost, from metadata alone.
    #[command(after_help = sim::EXAMPLES)]
    Sim(Box<sim::Args>),
    /// Reproduce experiments and judge their claims.
    #[command(after_help = lab::EXAMPLES)]
    Lab(lab::Args),
}

impl Verb {
    /// Does it.
    pub fn run(&self, target: &Target) -> Result<(), Failure> {
        match self {
            Verb::Put(args) => args.run(target),
            Verb::Get(args) => args.run(target),
            Verb::Delete(args) => args.run(target),
            Verb::Scan(args) => args.run(target),
            Verb::Load(args) => args.run(target),
            Verb::Dump(args) => args.run(target),
            Verb::Stats(args) => args.run(target),
            Verb::Levels(args) => args.run(target),
            Verb::Compact(args) => args.run(target),
            Verb::Verify(args) => args.run(target),
            Verb::Repair(args) => args.run(target),
            Verb::Checkpoint(args) => args.run(target),
            Verb::Inspect(args) => args.run(target),
            Verb::Shell(args) => args.run(target),
            Verb::Explain(args) => args.run(target),
            Verb::Audit(args) => args.run(target),
            Verb::Schedule(args) => args.run(target),
            Verb::Strategy(args) => args.run(target),
            Verb::Option(args) => args.run(target),
            Verb::Keyspace(args) => args.run(target),
            Verb::Trace(args) => args.run(target),
            Verb::Demo(args) => args.run(target),
            Verb::Bench(args) => args.run(target),
            Verb::Sim(args) => args.run(target),
            Verb::Lab(args) => args.run(target),
        }
    }
}
