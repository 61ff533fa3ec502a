//! How far simulations are from a real store: every named strategy and some composed by chance, on several mixes.

use std::path::Path;

use evenkeel::Options;
use evenkeel::strategy::{catalog, with_sizes};
use evenkeel_lab::base::random::Random;
use evenkeel_lab::run::driver::Dataset;
use evenkeel_lab::workloads::catalog::{YCSB, find};
use evenkeel_lab::workloads::distribution::Distribution;
use evenkeel_lab::workloads::keys::KeyOrder;
use evenkeel_lab::workloads::workload::{Limit, Mix, OpKind, Workload};
use serde::Serialize;

use crate::compose::by_chance;
use crate::operations::WorkloadOperations;
use crate::real_store::{self, Counted};
use crate::run::{Setting, simulate};
use crate::tape::{Sampling, Tape};

/// Strategies composed by chance.
pub const BY_CHANCE: usize = 50;
/// The errors that may be, in the median and at worst.
pub const BARS: (f64, f64) = (0.10, 0.25);
/// Records, unless somebody says how many.
pub const RECORDS: u64 = 60_000;
/// Below so many bytes written by compactions per byte written there is too little to compare.
const LEAST: f64 = 0.2;
const VALUE_BYTES: usize = 100;
const SEED: u64 = 42;

/// A mix that is run.
#[derive(Clone, Copy, Debug)]
pub struct ValidationMix {
    /// The workload; its name is that of the mix.
    pub workload: Workload,
    /// Nothing in the simulator was chosen by what comes out here.
    pub held_out: bool,
    /// Operations for each record.
    pub ops_per_record: u64,
}

/// All mixes: two that the simulator was built with, two that it was not.
pub fn mixes() -> Vec<ValidationMix> {
    let named = |name: &str, ops_per_record| {
        find(name).map(|workload| ValidationMix { workload: *workload, held_out: false, ops_per_record })
    };
    let held_out = |name, mix, distribution| ValidationMix {
        workload: Workload { name, mix, distribution, limit: Limit::Ops(0), ..YCSB },
        held_out: true,
        ops_per_record: 3,
    };
    let zipfian_deletes = Mix::of(&[(OpKind::Update, 70), (OpKind::Insert, 20), (OpKind::Delete, 10)]);
    let latest_inserts = Mix::of(&[(OpKind::Insert, 50), (OpKind::Update, 50)]);
    let built_with = [named("fillrandom", 1), named("overwrite", 3)];
    let others = [
        held_out("zipfian with deletes", zipfian_deletes, Distribution::Zipfian),
        held_out("latest with inserts", latest_inserts, Distribution::Latest),
    ];
    built_with.into_iter().flatten().chain(others).collect()
}

/// The store's options: a tree of three levels and some hundred tables.
///
/// # Errors
/// Never: the options are constants.
pub fn options() -> Result<Options, String> {
    let mut options = Options::default();
    let small = [
        ("memtable_bytes", "128KiB"),
        ("table_bytes", "64KiB"),
        ("level_base_bytes", "512KiB"),
        ("cache_bytes", "4MiB"),
        ("workers", "1"),
        // The store makes values smaller by what is in them, of which a simulation knows nothing.
        ("compression", "none"),
    ];
    for (name, value) in small {
        options.set(name, value).map_err(|error| error.to_string())?;
    }
    Ok(options)
}

/// Every named strategy, then those composed by chance.
pub fn strategies(options: &Options, by_chance_count: usize) -> Vec<String> {
    let mut random = Random::new(SEED);
    let composed = (0..by_chance_count).map(|_| by_chance(&mut random, options));
    catalog().iter().map(|row| row.name.to_owned()).chain(composed).collect()
}

/// A mix with its operations and their tape.
#[derive(Debug)]
pub struct Prepared {
    mix: ValidationMix,
    operations: WorkloadOperations,
    tape: Tape,
    options: Options,
}

impl Prepared {
    /// The mix on so many records.
    ///
    /// # Errors
    /// If there are no keys for so many.
    pub fn new(mix: ValidationMix, records: u64, sample: u64) -> Result<Prepared, String> {
        let options = options()?;
        let workload = mix.workload;
        let data = Dataset {
            records,
            key_bytes: 16,
            value_bytes: VALUE_BYTES.into(),
            order: KeyOrder::Random,
            seed: SEED,
            deleted: false,
        };
        let ops = Some(records * mix.ops_per_record);
        // All happens within a moment: no trigger fires because of the clock, here as in the store.
        let operations =
            WorkloadOperations::new(workload, workload.distribution, data, ops, f64::INFINITY, SEED)?;
        let sampling = Sampling { sample, table_bytes: options.table_bytes, compressed: 1.0 };
        let tape = Tape::draw(&operations, &options, sampling)?;
        Ok(Prepared { mix, operations, tape, options })
    }

    /// Runs one strategy, simulated and in a store in `dir`, which is new.
    ///
    /// # Errors
    /// The store's or the simulation's.
    pub fn compare(&self, strategy: &str, dir: &Path) -> Result<Comparison, String> {
        let resolved = with_sizes(strategy, &self.options).map_err(|error| error.to_string())?;
        let outcome = simulate(&self.tape, &resolved, Setting::default())?;
        let real = real_store::run(&self.operations, strategy, &self.options, dir)?;
        Ok(Comparison {
            mix: self.mix.workload.name,
            held_out: self.mix.held_out,
            strategy: strategy.to_owned(),
            real: Figures::of_store(&real),
            simulated: Figures {
                write_amplification: outcome.write_amplification,
                space_amplification: outcome.space_amplification.last,
                jobs: outcome.jobs,
                moves: outcome.moves,
                runs: outcome.runs.last as u64,
                flushes: outcome.flushes,
            },
        })
    }
}

/// What is compared.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Figures {
    /// Bytes that compactions wrote for each byte that users wrote.
    pub write_amplification: f64,
    /// Superseded bytes per other byte at the end.
    pub space_amplification: f64,
    /// Compactions.
    pub jobs: u64,
    /// Moves by metadata.
    pub moves: u64,
    /// Runs at the end.
    pub runs: u64,
    /// Flushes.
    pub flushes: u64,
}

impl Figures {
    fn of_store(real: &Counted) -> Figures {
        Figures {
            write_amplification: real.write_amplification(),
            space_amplification: real.space_amplification,
            jobs: real.jobs,
            moves: real.moves,
            runs: real.runs,
            flushes: real.flushes,
        }
    }
}

/// One strategy on one mix.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// The mix.
    pub mix: &'static str,
    /// See [`ValidationMix::held_out`].
    pub held_out: bool,
    /// The strategy.
    pub strategy: String,
    /// In the store.
    pub real: Figures,
    /// In the simulation.
    pub simulated: Figures,
}

impl Comparison {
    /// How far the simulated write amplification is from the real one, of that; `None` where compactions hardly wrote.
    pub fn error(&self) -> Option<f64> {
        let (real, simulated) = (self.real.write_amplification, self.simulated.write_amplification);
        (real.max(simulated) >= LEAST).then(|| simulated / real.max(1e-9) - 1.0)
    }
}

/// What the comparisons of one mix, or of all, come to.
#[derive(Clone, Debug, Serialize)]
pub struct Verdict {
    /// Which mix.
    pub mix: String,
    /// See [`ValidationMix::held_out`].
    pub held_out: bool,
    /// Strategies that could be compared, and those that hardly wrote.
    pub compared: usize,
    /// See `compared`.
    pub left_out: usize,
    /// Error in the median, without its sign.
    pub median: f64,
    /// At worst.
    pub worst: f64,
    /// The strategy of the worst.
    pub worst_strategy: String,
    /// Error of the space amplification in the median: the difference, in bytes per byte.
    pub space_median: f64,
    /// Both bars are met.
    pub holds: bool,
}

impl Verdict {
    /// Of these comparisons; `None` if there is nothing to compare.
    pub fn of(mix: &str, held_out: bool, comparisons: &[&Comparison]) -> Option<Verdict> {
        let mut errors: Vec<(f64, &str)> =
            comparisons.iter().filter_map(|c| Some((c.error()?.abs(), c.strategy.as_str()))).collect();
        errors.sort_by(|a, b| a.0.total_cmp(&b.0));
        let space = |c: &&Comparison| (c.simulated.space_amplification - c.real.space_amplification).abs();
        let mut spaces: Vec<f64> = comparisons.iter().map(space).collect();
        spaces.sort_by(f64::total_cmp);
        let (median, (worst, strategy)) = (errors.get(errors.len() / 2)?.0, *errors.last()?);
        Some(Verdict {
            mix: mix.to_owned(),
            held_out,
            compared: errors.len(),
            left_out: comparisons.len() - errors.len(),
            median,
            worst,
            worst_strategy: strategy.to_owned(),
            space_median: spaces.get(spaces.len() / 2).copied().unwrap_or(0.0),
            holds: median <= BARS.0 && worst <= BARS.1,
        })
    }
}

/// A verdict for each mix and for all together.
pub fn verdicts(comparisons: &[Comparison]) -> Vec<Verdict> {
    let mut out = Vec::new();
    for mix in mixes() {
        let of_mix: Vec<&Comparison> = comparisons.iter().filter(|c| c.mix == mix.workload.name).collect();
        out.extend(Verdict::of(mix.workload.name, mix.held_out, &of_mix));
    }
    out.extend(Verdict::of("all", false, &comparisons.iter().collect::<Vec<_>>()));
    out
}
