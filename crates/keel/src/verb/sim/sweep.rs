//! `keel sim --sweep`: many composed strategies on all cores, with the named ones, and the Pareto front of them.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use evenkeel::Options;
use evenkeel::strategy::catalog;
use evenkeel_lab::base::clock;
use evenkeel_simulator::compose::space;
use evenkeel_simulator::page::page;
use evenkeel_simulator::run::Setting;
use evenkeel_simulator::sweep::{Point, some_of, sweep};
use evenkeel_simulator::tape::Tape;
use evenkeel_simulator::text;

use super::object;
use crate::failure::Failure;
use crate::files;
use crate::output::{Output, note};
use crate::progress::CountBar;
use crate::verb::bench;

/// Composed strategies unless somebody says how many.
const COUNT: &str = "2000";
const EVERY: &str = "all";

/// The flags of a sweep.
#[derive(clap::Args, Debug)]
pub struct SweepArgs {
    /// Simulate all named strategies and so many composed ones (2000 unless said; `all` is the whole space), and show which of them
    /// nothing beats in write, read and space amplification.
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = COUNT, value_parser = wanted,
        conflicts_with_all = ["strategies", "files"])]
    pub sweep: Option<usize>,
    /// Write a page with plots (report.html) and all points (sweep.json) into this directory.
    #[arg(long, value_name = "DIR", requires = "sweep")]
    report: Option<PathBuf>,
    /// How many threads simulate; as many as there are cores unless said.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024), requires = "sweep")]
    threads: Option<u16>,
}

impl SweepArgs {
    /// A directory that cannot be written is told before the work, not after it.
    pub fn check(&self) -> Result<(), Failure> {
        let Some(dir) = &self.report else { return Ok(()) };
        if bench::look(dir)? == files::Place::Store {
            return Err(Failure::usage(format!(
                "{} is a store; give another directory to --report",
                dir.display()
            )));
        }
        files::make_dir(dir).map_err(|error| Failure::work(format!("cannot make {}: {error}", dir.display())))
    }

    /// Does it.
    pub fn run(
        &self,
        wanted: usize,
        tape: &Tape,
        options: &Options,
        setting: Setting,
        seed: u64,
        json: bool,
    ) -> Result<(), Failure> {
        let mut strategies: Vec<String> = catalog().iter().map(|row| row.name.to_owned()).collect();
        strategies.extend(some_of(space(options), wanted, seed));
        let threads = self.threads.map_or_else(cores, usize::from);
        evenkeel_sys::catch_interrupt();
        let stop = AtomicBool::new(false);
        let bar = CountBar::start(strategies.len() as u64, "strategies");
        let began = clock::now();
        let done = |done: usize| {
            bar.advance_to(done as u64);
            if evenkeel_sys::was_interrupted() {
                stop.store(true, Ordering::Relaxed);
            }
        };
        let points = sweep(tape, &strategies, options, setting, threads, &done, &stop);
        bar.finish();
        let points = points.map_err(Failure::work)?;
        if points.len() < strategies.len() {
            note(&format!("keel: interrupted after {} of {} strategies", points.len(), strategies.len()));
        }
        self.report(tape, &points)?;
        if json {
            return Output::new().line(&document(tape, &points).to_string());
        }
        let seconds = began.elapsed().as_secs_f64();
        let operations: u64 = points.iter().map(|p| p.outcome.table_operations).sum();
        let rate = operations as f64 / seconds.max(1e-9);
        let pace = format!(
            "\n{} strategies in {seconds:.1} s by {threads} threads, {:.2} M table operations a second\n",
            points.len(),
            rate / 1e6
        );
        Output::new().text(&(text::about(tape, options) + "\n" + &text::sweep(&points) + &pace))
    }

    fn report(&self, tape: &Tape, points: &[Point]) -> Result<(), Failure> {
        let Some(dir) = &self.report else { return Ok(()) };
        let write = |name: &str, text: String| {
            let path = dir.join(name);
            files::write(&path, &text)
                .map_err(|error| Failure::work(format!("cannot write {}: {error}", path.display())))
        };
        write("report.html", page(tape, points))?;
        write("sweep.json", document(tape, points).to_string() + "\n")?;
        note(&format!("keel: the report is {}", dir.join("report.html").display()));
        Ok(())
    }
}

fn document(tape: &Tape, points: &[Point]) -> serde_json::Value {
    let objects: Vec<serde_json::Value> = points
        .iter()
        .map(|point| {
            let mut object = object(&point.name, &point.outcome);
            object["on_front"] = point.on_front.into();
            object
        })
        .collect();
    serde_json::json!({ "workload": tape.name, "ops": tape.ops, "strategies": objects })
}

/// How many cores this process may use.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn wanted(text: &str) -> Result<usize, String> {
    match text {
        EVERY => Ok(usize::MAX),
        number => number
            .parse()
            .ok()
            .filter(|n| *n > 0)
            .ok_or_else(|| format!("give a number of strategies, for instance {COUNT}, or {EVERY}")),
    }
}
