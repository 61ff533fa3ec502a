//! `keel demo`: the same bursts under a few schedules, on an emulated device, in a temporary directory. What is run and how it is
//! told is `evenkeel_lab::demo`.
//!
//! ```text
//! fill, overwrite as fast as it goes, settle ─► W* ─► a checkpoint for each schedule ─► on the device: bursts, settle ─► table, page
//! ```

/// What is seen meanwhile.
mod progress;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use evenkeel::fs::Device;
use evenkeel::{Builder, Db, Options};
use evenkeel_lab::base::clock;
use evenkeel_lab::base::device::Device as Told;
use evenkeel_lab::base::provenance::Provenance;
use evenkeel_lab::demo::{Chosen, Demo, SCHEDULES, SECONDS, Shown, Size, THREADS, WORKLOAD, picture, short};
use evenkeel_lab::results::document::Document;
use evenkeel_lab::results::sustained::Sustained;
use evenkeel_lab::run::arguments::positive_seconds;
use evenkeel_lab::run::driver::{self, Dataset, Outcome, Plan};
use evenkeel_lab::run::engine::{Engine as _, Figures};
use evenkeel_lab::run::phase::Watch;
use evenkeel_lab::workloads::catalog::{filler, find};
use evenkeel_lab::workloads::workload::Workload;

use self::progress::DemoProgress;
use super::bench::{ResultArgs, Workspace, close, engine_config, usual_place, write_report};
use crate::child::catch_interrupts;
use crate::device::file_system;
use crate::evenkeel_engine::EvenkeelEngine;
use crate::failure::Failure;
use crate::files;
use crate::stoppable::{Stoppable, failed};
use crate::store::{EngineArgs, Target};

/// The schedules' latencies, beside the page.
const PICTURE: &str = "demo.svg";

/// Shown below the help.
pub const EXAMPLES: &str = "\
Examples:
  keel demo
  keel demo --report result        then open result/report.html
  keel demo --seconds 48           six peaks instead of two
  keel demo --json demo.json

It fills a store once, finds out what a device of 64 MiB a second sustains of writes, and offers peaks above that and valleys
below to copies of the store, each under another schedule. The page is left in the temporary directory unless --report says
where, with the schedules' latencies as a picture; the stores are removed. docs/scheduling.md describes the schedules.";

/// See `keel demo --help`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// How long each schedule is measured; a peak and its valley take 8 seconds.
    #[arg(long, value_name = "S", value_parser = positive_seconds, default_value_t = SECONDS)]
    seconds: f64,
    /// Data, memtables, cache and device divided by N: to see that it works, not to be quoted.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1000))]
    part: u64,
    /// Decides on keys, values and operations.
    #[arg(long, value_name = "N", default_value_t = 42)]
    seed: u64,
    /// Leave the stores in place; where they are is printed at the end.
    #[arg(long)]
    keep: bool,
    #[command(flatten)]
    result: ResultArgs,
}

impl Args {
    /// Does it.
    pub fn run(&self, target: &Target) -> Result<(), Failure> {
        if target.db.is_some() || target.keyspace != "default" {
            return Err(Failure::usage("the demo makes its own stores; leave --db and --keyspace away"));
        }
        catch_interrupts();
        let place = Workspace::choose(target, self.keep)?;
        self.result.prepare(&place.dir)?;
        let stage =
            Stage { dir: &place.dir, size: Size::part(self.part), seed: self.seed, seconds: self.seconds };
        let progress = DemoProgress::start(self.seconds);
        let demo = stage.play(&progress);
        progress.finish();
        let demo = match demo {
            Err(_) if evenkeel_sys::was_interrupted() => {
                return Err(Failure::work("interrupted"));
            }
            demo => demo?,
        };
        self.result.print(|| serde_json::to_string_pretty(&demo), || demo.text())?;
        let page = self.result.report.clone().unwrap_or_else(|| usual_place("demo"));
        write_report(&demo.report(), &page)?;
        files::write_whole(&page.join(PICTURE), &picture(&demo))
            .map_err(|error| Failure::work(format!("cannot write into {}: {error}", page.display())))?;
        place.leave()
    }
}

/// Those of the demo's schedules that the engine has.
fn schedules() -> Vec<&'static str> {
    let known = |name: &str| evenkeel::schedule::catalog().iter().any(|(form, _)| short(form) == name);
    SCHEDULES.iter().copied().filter(|schedule| known(short(schedule))).collect()
}

/// Where and how all is run.
struct Stage<'a> {
    dir: &'a Path,
    size: Size,
    seed: u64,
    seconds: f64,
}

impl Stage<'_> {
    fn play(&self, progress: &DemoProgress) -> Result<Demo, Failure> {
        let load = Chosen::by(self.prepare(progress)?);
        let (schedules, mut runs) = (schedules(), Vec::new());
        for schedule in &schedules {
            progress.next(short(schedule), schedules.len() - runs.len());
            let document = self.show(schedule, &load, progress)?;
            progress.shown(short(schedule), &document);
            runs.push(Shown { schedule: (*schedule).to_owned(), document });
        }
        let l0_limit = u64::from(self.options()?.l0_limit);
        Ok(Demo::new(load, runs, l0_limit, self.size))
    }

    /// The settled store with a checkpoint for each schedule; what the device sustains of it.
    fn prepare(&self, progress: &DemoProgress) -> Result<Sustained, Failure> {
        let schedules = schedules();
        progress.next("preparing", schedules.len() + 1);
        let dir = self.dir.join("store");
        let engine = self.open(&dir, Db::builder(&dir), None)?;
        self.drive(&engine, filler(WORKLOAD.order), None, progress)?;
        close(engine)?;
        let device = Device::new(self.size.quick_device_bytes_per_sec(), Duration::ZERO)?;
        let engine = self.open(&dir, Db::builder(&dir), Some(&device))?;
        let overwrite = find("overwrite").ok_or_else(|| Failure::work("there is no workload overwrite"))?;
        self.drive(&engine, overwrite, Some(self.size.overwrites()), progress)?;
        let before = engine.figures();
        self.drive(&engine, overwrite, Some(self.size.overwrites()), progress)?;
        let moved_per_byte = moved(&before, &engine.figures())
            .ok_or_else(|| Failure::work("the engine does not say what it has moved"))?;
        for schedule in schedules {
            engine.db.checkpoint(self.copy(schedule))?;
        }
        close(engine)?;
        Ok(Sustained { device_bytes_per_sec: self.size.device_bytes_per_sec(), moved_per_byte })
    }

    fn drive(
        &self,
        engine: &EvenkeelEngine,
        workload: &Workload,
        ops: Option<u64>,
        watch: &dyn Watch,
    ) -> Result<Outcome, Failure> {
        let plan = Plan { workload, ops, filled: !workload.fills(), threads: 1, ..self.plan(workload) };
        driver::run(&Stoppable(engine), &plan, watch).map_err(|error| failed(&error))
    }

    fn plan<'a>(&self, workload: &'a Workload) -> Plan<'a> {
        Plan {
            workload,
            data: self.data(),
            filled: true,
            ops: None,
            seconds: None,
            warm_seconds: None,
            settles: true,
            threads: THREADS,
            distribution: workload.distribution,
            seed: self.seed,
            load: None,
        }
    }

    /// The bursts under a schedule.
    fn show(&self, schedule: &str, load: &Chosen, progress: &DemoProgress) -> Result<Document, Failure> {
        let (began_ms, dir) = (clock::wall_ms(), self.copy(schedule));
        let bytes_per_sec = self.size.device_bytes_per_sec();
        let device = Device::new(bytes_per_sec, Duration::ZERO)?;
        let builder = Db::builder(&dir).set("schedule", schedule);
        let engine = self.open(&dir, builder, Some(&device))?;
        let config = engine_config(&EngineArgs::default(), &engine.db.options(), &engine.keyspace);
        let load = load.load();
        let plan = Plan { seconds: Some(self.seconds), load: Some(&load), ..self.plan(&WORKLOAD) };
        let outcome = driver::run(&Stoppable(&engine), &plan, progress)
            .map_err(|error| Failure::work(format!("{schedule}: {error}")))?;
        let mut document = Document::new(&engine, &plan, &outcome, config);
        document.config.set_device(Told::Emulated { bytes_per_sec, latency_us: 0 });
        document.provenance = Some(Provenance::here(began_ms, self.dir));
        close(engine)?;
        Ok(document)
    }

    fn data(&self) -> Dataset {
        self.size.data(self.seed)
    }

    fn copy(&self, schedule: &str) -> PathBuf {
        self.dir.join(short(schedule))
    }

    fn options(&self) -> Result<Options, Failure> {
        let mut options = Options::default();
        for (name, value) in self.size.options() {
            options.set(name, &value)?;
        }
        Ok(options)
    }

    fn open(
        &self,
        dir: &Path,
        builder: Builder,
        device: Option<&Arc<Device>>,
    ) -> Result<EvenkeelEngine, Failure> {
        files::make_dir(self.dir)
            .map_err(|error| Failure::work(format!("cannot make {}: {error}", self.dir.display())))?;
        let builder = match device {
            Some(device) => builder.file_system(file_system(device)),
            None => builder,
        };
        let options = self.size.options();
        let set = |builder: Builder, (name, value): &(&str, String)| builder.set(name, value);
        let db = options.iter().fold(builder, set).open()?;
        let keyspace =
            db.keyspace("default").ok_or_else(|| Failure::work("the store has no default keyspace"))?;
        Ok(EvenkeelEngine { db, keyspace, dir: dir.to_owned(), device: device.cloned() })
    }
}

/// What was moved for each byte written between two looks.
fn moved(before: &Figures, after: &Figures) -> Option<f64> {
    let since = |now: Option<u64>, then: Option<u64>| Some(now?.saturating_sub(then?));
    let change = Figures {
        user_bytes: since(after.user_bytes, before.user_bytes),
        internal_bytes: since(after.internal_bytes, before.internal_bytes),
        ..Figures::default()
    };
    change.moved_per_user_byte()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_is_what_the_engine_has() {
        for name in ["unlimited", "silk", "dlc-burst-part"] {
            assert!(schedules().iter().any(|schedule| short(schedule) == name), "no {name}");
        }
        for schedule in schedules() {
            crate::store::check_schedule(schedule).ok().unwrap_or_else(|| panic!("{schedule}"));
        }
        let stage = Stage { dir: Path::new("none"), size: Size::part(1000), seed: 1, seconds: 1.0 };
        assert!(stage.options().is_ok_and(|options| options.device_bytes_per_sec > 0));
        let names: std::collections::BTreeSet<_> = SCHEDULES.iter().map(|s| stage.copy(s)).collect();
        assert_eq!(names.len(), SCHEDULES.len(), "each has a store of its own");
    }

    #[test]
    fn what_was_moved_is_a_difference() {
        let figures = |user, internal| Figures {
            user_bytes: Some(user),
            internal_bytes: Some(internal),
            ..Figures::default()
        };
        assert_eq!(moved(&figures(10, 100), &figures(20, 300)), Some(20.0));
        assert_eq!(moved(&figures(10, 100), &figures(10, 300)), None);
    }
}
