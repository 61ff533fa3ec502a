//! `keel bench --operations FILE`: runs a text file of operations in its order, and checks the answers if asked to.

use std::io::{self, BufRead, BufReader};
use std::path::Path;

use evenkeel_lab::results::document::Document;
use evenkeel_lab::results::report;
use evenkeel_lab::run::driver::Dataset;
use evenkeel_lab::run::replay::{self, Answers};

use super::{Args, Notes, Workspace, close, look};
use crate::failure::Failure;
use crate::files::{self, Place};
use crate::progress::BenchProgress;
use crate::stoppable::{Stoppable, failed};
use crate::store::Target;
use crate::tracing::TracedMeasurement;

const BUFFER_BYTES: usize = 1 << 20;

/// Runs `file`.
pub fn run(args: &Args, file: &Path, target: &Target) -> Result<(), Failure> {
    replay::check(&args.load).map_err(Failure::usage)?;
    args.options.options()?;
    let input = open(file)?;
    let place = Workspace::choose(target, args.keep)?;
    if args.check && look(&place.dir)? == Place::Store {
        return Err(Failure::usage("--check needs an empty store; give another --db"));
    }
    let mut notes = Notes::read(&place.dir)?;
    let known = notes.0.get(&target.keyspace).copied();
    let before = args.before(&place, known, &notes)?;
    if let Some(known) = known {
        // Whatever happens now, the store no longer holds just the records that the note says.
        notes.0.insert(target.keyspace.clone(), Dataset { deleted: true, ..known });
        notes.write(&place.dir)?;
    }
    args.result.prepare(&place.dir)?;
    let (engine, config, sole) = args.open(target, &place, before)?;
    let progress = BenchProgress::default();
    args.trace.check()?;
    let traced = TracedMeasurement::new(&progress, &args.trace, &engine.db);
    let answers = args.check.then_some(&engine as &dyn Answers);
    let done = replay::run(&Stoppable(&engine), input, answers, &traced);
    progress.clear();
    traced.end()?;
    let (data, outcome) = done.map_err(|error| match evenkeel_sys::was_interrupted() {
        true => failed(&error),
        false => Failure::work(format!("{}: {error}", file.display())),
    })?;
    let plan = replay::plan(data, args.run.seed);
    let mut document = Document::new(&engine, &plan, &outcome, config);
    document.config.set_device(args.device.told());
    if !sole {
        // Other data share the directory: only the engine knows what is live.
        document.amplification.space = outcome.figures.space_amplification;
    }
    close(engine)?;
    args.result.print(|| document.to_json(), || report::text(&document))?;
    place.leave()
}

fn open(file: &Path) -> Result<Box<dyn BufRead + Send>, Failure> {
    if file == Path::new("-") {
        return Ok(Box::new(BufReader::with_capacity(BUFFER_BYTES, io::stdin())));
    }
    match files::open(file) {
        Ok((file, _)) => Ok(Box::new(BufReader::with_capacity(BUFFER_BYTES, file))),
        Err(error) => Err(Failure::work(format!("cannot read {}: {error}", file.display()))),
    }
}
