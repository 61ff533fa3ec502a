//! `keel lab cell`: one cell of an experiment over the design space, in a store of its own. What `keel lab run` starts, and what
//! shows a figure again.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use evenkeel::fs::{DiskFileSystem, FileSystem};
use evenkeel::inspect;
use evenkeel::metrics::HeatMetrics;
use evenkeel::strategy::{catalog, time_text};
use evenkeel::{Db, Event, Options};
use evenkeel_lab::base::clock;
use evenkeel_lab::base::machine::Meter;
use evenkeel_lab::design_space::cells::Measured;
use evenkeel_lab::design_space::heat_cell::{GroupShape, Shape};
use evenkeel_lab::design_space::measure::{Costs, measure};
use evenkeel_lab::design_space::point::Point;
use evenkeel_lab::experiments::find_point;
use evenkeel_lab::run::engine::Group;
use evenkeel_lab::verdicts::rounds::seed_of;

use crate::escape::unescape;
use crate::evenkeel_engine::{EvenkeelEngine, groups};
use crate::failure::Failure;
use crate::files::{self, Place};
use crate::output::Output;
use crate::store::set_options;

/// Shown below the help.
pub const EXAMPLES: &str = "\
Examples:
  keel lab cell lo+1-10M --part 8 --dir lab-cell
  keel lab cell tsa-4M-ttl50-deletes100 --writing-seconds 20 --dir lab-cell
  keel lab cell ltg-2M-heat --part 8 --set filter_heat=0 --dir lab-cell

`keel lab list --json` has the names of all cells, docs/lab.md what their figures are.";

/// See `keel lab cell --help`.
#[derive(clap::Args, Debug)]
pub struct CellArgs {
    /// The cell: a strategy, how much is written, and what differs from the preset `cds`.
    #[arg(value_name = "CELL")]
    name: String,
    /// Where its store is made, and removed at the end: the disk that is measured.
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// Decides on keys and operations.
    #[arg(long, value_name = "N", default_value_t = seed_of(1))]
    seed: u64,
    /// Data, buffer and cache divided by N.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    part: u64,
    /// How long writing takes with lo+1, for the cells whose deletes have a part of that time.
    #[arg(long, value_name = "S", value_parser = evenkeel_lab::run::arguments::positive_seconds)]
    writing_seconds: Option<f64>,
    /// An option of the engine that is to differ from the cell's, for instance filter_heat=0. May be given several times.
    #[arg(long = "set", value_name = "OPTION=VALUE")]
    set: Vec<String>,
}

/// How long events may take to be told.
const TOLD_WITHIN: Duration = Duration::from_secs(10);

impl CellArgs {
    /// Does it.
    pub fn run(&self) -> Result<(), Failure> {
        let point = find_point(&self.name).ok_or_else(|| {
            Failure::usage(format!("there is no cell {}; `keel lab list --json` has their names", self.name))
        })?;
        let point = point.scaled(self.part);
        let strategy = strategy(&point, self.writing_seconds)?;
        let cannot = |error| Failure::work(format!("cannot work in {}: {error}", self.dir.display()));
        if !matches!(files::look(&self.dir).map_err(cannot)?, Place::Nothing | Place::EmptyDirectory) {
            return Err(Failure::usage(format!("{} is not empty; give another --dir", self.dir.display())));
        }
        let options = self.options(&point, &strategy)?;
        let measured = run(&self.dir, &point, options, self.seed);
        files::remove_all_if_there(&self.dir).map_err(cannot)?;
        let text = serde_json::to_string_pretty(&measured?)
            .map_err(|error| Failure::work(format!("the figures are no JSON: {error}")))?;
        Output::new().line(&text)
    }

    fn options(&self, point: &Point, strategy: &str) -> Result<Options, Failure> {
        let mut options = Options { strategy: Some(strategy.to_owned()), ..Options::default() };
        for (name, value) in point.options() {
            options.set(name, &value)?;
        }
        set_options(&mut options, &self.set)?;
        Ok(options)
    }
}

/// The strategy's line: that of the catalogue, with the deletes' time and the preset's sizes.
pub fn strategy(point: &Point, writing_seconds: Option<f64>) -> Result<String, Failure> {
    let row = catalog().iter().find(|row| row.name == point.strategy);
    let text = row
        .map(|row| match point.heat() {
            Some(load) => load.line(point.strategy, row.text, point.ratio),
            None => row.text.to_owned(),
        })
        .ok_or_else(|| Failure::work(format!("strategy {} is not in the catalogue", point.strategy)))?;
    let text = match (point.ttl_percent, writing_seconds) {
        (0, _) => text,
        (_, None) => {
            return Err(Failure::usage(
                "this cell's deletes have a part of the writing time: add --writing-seconds S",
            ));
        }
        (percent, Some(seconds)) => {
            let ms = (seconds * 10.0 * f64::from(percent)).max(1.0) as u64;
            let words = text.split(',').map(|word| match word.split_once("ttl:") {
                Some((before, _)) => format!("{before}ttl:{}", time_text(ms)),
                None => word.to_owned(),
            });
            words.collect::<Vec<_>>().join(",")
        }
    };
    Ok(format!("{text}; {}", point.sizes()))
}

fn run(dir: &Path, point: &Point, options: Options, seed: u64) -> Result<Measured, Failure> {
    let (job_us, refused) = (Arc::<Mutex<Vec<u64>>>::default(), Arc::new(AtomicBool::new(false)));
    let (heard, told) = (Arc::clone(&job_us), Arc::clone(&refused));
    let listen = move |event: &Event| match event {
        Event::CompactionEnded { micros, yielded: false, .. } => {
            heard.lock().unwrap_or_else(PoisonError::into_inner).push(*micros);
        }
        Event::DirectRefused { .. } => told.store(true, Ordering::Relaxed),
        _ => {}
    };
    let strategy = options.strategy.clone().unwrap_or_default();
    let db = Db::builder(dir).options(options).listener(Arc::new(listen)).open()?;
    let keyspace =
        db.keyspace("default").ok_or_else(|| Failure::work("the store has no default keyspace"))?;
    let engine = EvenkeelEngine { db, keyspace, dir: dir.to_owned(), device: None };
    let meter = Meter::start();
    let mut figures = measure(&engine, &|| costs(&engine.db, &job_us), point, seed)
        .map_err(|error| Failure::work(error.to_string()))?;
    let others_cores = meter.used().and_then(|used| used.others_cores);
    let EvenkeelEngine { db, keyspace, .. } = engine;
    drop(keyspace);
    db.close()?;
    figures.insert("filter_bits".to_owned(), filter_bits(dir)?);
    Ok(Measured { strategy, figures, others_cores, direct_io: !refused.load(Ordering::Relaxed) })
}

/// Bits of filters for each entry in the tables of a closed store, which are read from end to end.
fn filter_bits(dir: &Path) -> Result<f64, Failure> {
    let (fs, mut bytes, mut entries) = (DiskFileSystem::new(), 0, 0);
    for name in fs.list(dir)?.iter().filter(|name| name.ends_with(".sst")) {
        let report = inspect::table(&fs, &dir.join(name), &mut |_| Ok(()))?;
        (bytes, entries) = (bytes + report.filter_bytes, entries + report.entries);
    }
    Ok(bytes as f64 * 8.0 / entries.max(1) as f64)
}

fn costs(db: &Db, job_us: &Mutex<Vec<u64>>) -> Costs {
    let m = db.metrics();
    // Events are told by a thread of their own.
    let asked = clock::now();
    let job_us = loop {
        let told = job_us.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if told.len() as u64 >= m.compactions || asked.elapsed() > TOLD_WITHIN {
            break told;
        }
        clock::pause(Duration::from_millis(1));
    };
    let mut by_level = BTreeMap::new();
    for kind in &m.compactions_by_kind {
        let (jobs, bytes) = by_level.entry(kind.level as usize).or_insert((0, 0));
        *jobs += kind.count;
        *bytes += kind.bytes_read + kind.bytes_written;
    }
    let levels = || m.keyspaces.iter().flat_map(|keyspace| &keyspace.levels);
    Costs {
        read_bytes: m.compaction_bytes_read,
        written_bytes: m.compaction_bytes_written,
        user_bytes: m.user_bytes,
        job_us,
        moves: m.moves,
        cpu_seconds: m.costs.cpu_seconds,
        client_bytes: m.io.iter().filter(|(class, ..)| class == "client").map(|(_, read, _)| read).sum(),
        part_misses: [m.filter_misses, m.index_misses],
        rewrites: m.costs.rewrites_per_entry,
        tombstones: m.costs.tombstones,
        space: m.costs.space_amplification,
        flushes: m.flushes,
        by_level,
        levels: levels().filter(|level| level.tables > 0).count() as u64,
        runs: levels().map(|level| level.runs).sum(),
        heat: shape(db, &m.keyspaces.first().map(|keyspace| keyspace.heat.clone()).unwrap_or_default()),
    }
}

/// What reads have taught, and the groups that the tree has.
fn shape(db: &Db, heat: &HeatMetrics) -> Shape {
    let key = |text: &str| unescape(text.as_bytes()).unwrap_or_default();
    let group = |group: Group| GroupShape {
        from: key(&group.from),
        to: Some(key(&group.to)).filter(|to| !to.is_empty()),
        bytes: group.bytes,
        runs: group.runs,
        is_hot: group.is_hot,
    };
    Shape {
        lessons: heat.lessons,
        explained: heat.explained.clone(),
        leveled_reads: heat.leveled_reads,
        turns: heat.group_turns,
        groups: groups(db, "default").into_iter().map(group).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_lab::experiments::STUDIES;

    /// What the preset asks for is what the engine takes, for every cell and however little of it is run.
    #[test]
    fn every_cell_is_a_strategy_and_options_that_the_engine_takes() {
        for point in STUDIES.iter().flat_map(|study| (study.points)()) {
            for part in [1, 8, 1_000_000] {
                let point = point.scaled(part);
                let line = strategy(&point, Some(20.0)).ok().unwrap();
                evenkeel::strategy::parse(&line).unwrap_or_else(|error| panic!("{line}: {error}"));
                let mut options = evenkeel::Options::default();
                for (name, value) in point.options() {
                    options.set(name, &value).unwrap();
                }
                assert!(options.compaction_first && options.direct_reads && options.workers == 1);
            }
        }
    }

    #[test]
    fn the_time_of_deletes_is_a_part_of_the_writing_time() {
        let point = find_point("tsa-4M-ttl50-deletes100").unwrap();
        assert!(strategy(&point, None).is_err());
        let line = strategy(&point, Some(20.0)).ok().unwrap();
        assert!(line.starts_with("when=ttl:10s,saturation how=runs:1 much=file which=expired,"), "{line}");
        assert!(
            line.ends_with("; size: l0=20971520 base=209715200 ratio=10 table=2097152 sizes=fixed cut=size")
        );
    }
}
