//! Runs a file of operations in its order, by one thread, and checks the answers against a map where that is asked for.
//!
//! The text is read and understood between the operations, outside of their latencies.

use std::collections::BTreeMap;
use std::io::BufRead;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::base::clock;
use crate::base::machine::Meter;
use crate::run::driver::{Dataset, Outcome, Plan, at_rest};
use crate::run::driver_cost::{DriverCost, Nothing, of_closed};
use crate::run::engine::{Engine, EngineError};
use crate::run::load_arguments::LoadArgs;
use crate::run::phase::{Attendant, Control, Measured, Part, Phase, Total, Unwatched, Watch, joined};
use crate::run::recorder::{Recorder, Windows};
use crate::workloads::catalog::YCSB;
use crate::workloads::distribution::Distribution;
use crate::workloads::keys::KeyOrder;
use crate::workloads::text_operations::{TextOperation, TextOperations};
use crate::workloads::workload::{Limit, Mix, OpKind, Workload};

/// What a run of a file is called, and that it is over when the file is.
pub const OPERATIONS: Workload = Workload {
    name: "operations",
    what: "a file of operations",
    mix: Mix::of(&[]),
    limit: Limit::Ops(0),
    distribution: Distribution::Sequential,
    ..YCSB
};

/// Operations over which the cost of the lab itself is taken.
const COST_LINES: usize = 1 << 14;

/// Refuses a load.
///
/// # Errors
/// What to leave away, or what of it makes no sense.
pub fn check(load: &LoadArgs) -> Result<(), String> {
    match load.load()? {
        Some(_) => {
            Err("a file of operations runs one after the other; leave --rate and --shape away".to_owned())
        }
        None => Ok(()),
    }
}

/// What was done to records that a file left, as a plan, for the document.
pub fn plan(data: Dataset, seed: u64) -> Plan<'static> {
    Plan {
        workload: &OPERATIONS,
        data,
        filled: true,
        ops: None,
        seconds: None,
        warm_seconds: None,
        settles: true,
        threads: 1,
        distribution: OPERATIONS.distribution,
        seed,
        load: None,
    }
}

/// An engine whose answers can be seen whole. Only checking asks for it.
pub trait Answers: Sync {
    /// The value of a record.
    fn value(&self, key: &[u8]) -> Result<Option<Vec<u8>>, EngineError>;

    /// All records from `from` to before `to`, or to the end.
    fn between(&self, from: &[u8], to: Option<&[u8]>) -> Result<Vec<(Vec<u8>, Vec<u8>)>, EngineError>;
}

/// Runs the operations of `input` on an engine. With `answers`, which must be the same engine and empty, every read is
/// compared with a map that takes the same operations, and everything at the end.
///
/// # Errors
/// The first error of the text, of the engine or of an answer, each with the number of its line.
pub fn run<E: Engine>(
    engine: &E,
    input: impl BufRead + Send,
    answers: Option<&dyn Answers>,
    watch: &dyn Watch,
) -> Result<(Dataset, Outcome), EngineError> {
    let mut model = answers.map(|answers| Model { answers, map: BTreeMap::new() });
    let driver = own_cost()?;
    let meter = Meter::start();
    let (measured, written) = measure(engine, TextOperations::new(input), model.as_mut(), watch)?;
    if let Some(model) = &model {
        model.check_all()?;
    }
    let outcome = at_rest(engine, measured, &meter, driver, true, watch, || engine.read_all())?;
    Ok((written.dataset(outcome.records), outcome))
}

/// What reading, timing and recording costs, on an engine that does nothing.
fn own_cost() -> Result<DriverCost, EngineError> {
    let text: String = (0..COST_LINES).map(|i| format!("U key{i:08} {:0100}\n", 0)).collect();
    let (measured, _) = measure(&Nothing, TextOperations::new(text.as_bytes()), None, &Unwatched)?;
    of_closed(&measured)
}

/// Runs all operations in a thread of their own, while this one shows progress and looks at the engine each second.
fn measure<E: Engine>(
    engine: &E,
    operations: TextOperations<impl BufRead + Send>,
    model: Option<&mut Model<'_>>,
    watch: &dyn Watch,
) -> Result<(Measured, Written), EngineError> {
    watch.begin(Phase::Measure, Total::Open);
    let windows = Windows::new(1);
    let start = clock::now();
    let (control, done) = (&Control::new(1), &AtomicU64::new(0));
    let attendant =
        Attendant { engine, control, watch, start, stop_after: None, by_time: false, windows: &windows };
    let recorder = Recorder::new(&windows, 0, start);
    let (result, samples) = std::thread::scope(|scope| {
        let thread = scope.spawn(move || {
            let _leaving = control.leaving();
            work(engine, operations, model, recorder, done)
        });
        let samples = attendant.attend(|| done.load(Ordering::Relaxed));
        (thread.join(), samples)
    });
    let (part, written) = joined(result)?;
    let mut measured = Measured::new(start.elapsed().as_secs_f64(), windows.into_recorded(), samples);
    measured.add(part);
    Ok((measured, written))
}

fn work<E: Engine>(
    engine: &E,
    mut operations: TextOperations<impl BufRead>,
    mut model: Option<&mut Model<'_>>,
    mut recorder: Recorder<'_>,
    done: &AtomicU64,
) -> Result<(Part, Written), EngineError> {
    let mut written = Written::default();
    let cpu = evenkeel_sys::thread_cpu_time();
    while let Some((line, operation)) = operations.next()? {
        let at_line = |error: EngineError| format!("line {line}: {error}");
        let began = clock::now();
        let bytes = execute(engine, operation).map_err(at_line)?;
        recorder.record(kind(operation), began, clock::now(), bytes);
        written.add(operation);
        if let Some(model) = &mut model {
            model.check(operation).map_err(at_line)?;
        }
        done.fetch_add(1, Ordering::Relaxed);
    }
    let cpu = evenkeel_sys::thread_cpu_time().saturating_sub(cpu);
    let ops = done.load(Ordering::Relaxed);
    Ok((Part { ops, wrong_reads: 0, latencies: recorder.finish(), cpu }, written))
}

fn execute<E: Engine>(engine: &E, operation: TextOperation<'_>) -> Result<u64, EngineError> {
    let bytes = match operation {
        TextOperation::Insert(key, value) | TextOperation::Update(key, value) => {
            engine.put(key, value)?;
            key.len() + value.len()
        }
        TextOperation::Delete(key) => {
            engine.delete(key)?;
            key.len()
        }
        TextOperation::DeleteRange(from, to) => {
            engine.delete_range(from, to)?;
            from.len() + to.len()
        }
        TextOperation::Read(key) => key.len() + engine.get(key)?.unwrap_or(0),
        TextOperation::Scan(from, to) => engine.scan_between(from, to)?.bytes as usize,
    };
    Ok(bytes as u64)
}

fn kind(operation: TextOperation<'_>) -> OpKind {
    match operation {
        TextOperation::Insert(..) => OpKind::Insert,
        TextOperation::Update(..) => OpKind::Update,
        TextOperation::Delete(..) => OpKind::Delete,
        TextOperation::DeleteRange(..) => OpKind::DeleteRange,
        TextOperation::Read(..) => OpKind::Read,
        TextOperation::Scan(..) => OpKind::Scan,
    }
}

/// How much was written, for means.
#[derive(Default)]
struct Written {
    records: u64,
    key_bytes: u64,
    value_bytes: u64,
}

impl Written {
    fn add(&mut self, operation: TextOperation<'_>) {
        if let TextOperation::Insert(key, value) | TextOperation::Update(key, value) = operation {
            self.records += 1;
            self.key_bytes += key.len() as u64;
            self.value_bytes += value.len() as u64;
        }
    }

    /// What the file's records look like in the mean.
    fn dataset(&self, records: u64) -> Dataset {
        let mean = |bytes: u64| bytes.checked_div(self.records).unwrap_or(0) as usize;
        Dataset {
            records,
            key_bytes: mean(self.key_bytes),
            value_bytes: mean(self.value_bytes).into(),
            order: KeyOrder::Random,
            seed: 0,
            deleted: true,
        }
    }
}

/// A map that takes the same operations as the engine.
struct Model<'a> {
    answers: &'a dyn Answers,
    map: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Model<'_> {
    fn check(&mut self, operation: TextOperation<'_>) -> Result<(), EngineError> {
        match operation {
            TextOperation::Insert(key, value) | TextOperation::Update(key, value) => {
                self.map.insert(key.to_vec(), value.to_vec());
            }
            TextOperation::Delete(key) => {
                self.map.remove(key);
            }
            TextOperation::DeleteRange(from, to) => {
                self.map.retain(|key, _| &key[..] < from || &key[..] >= to);
            }
            TextOperation::Read(key) => {
                let (found, expected) = (self.answers.value(key)?, self.map.get(key));
                if found.as_ref() != expected {
                    let key = String::from_utf8_lossy(key);
                    let [found, expected] = [found.as_ref(), expected].map(shown);
                    return Err(format!("`{key}` gave {found}, and should give {expected}").into());
                }
            }
            TextOperation::Scan(from, to) => return self.compare(from, Some(to)),
        }
        Ok(())
    }

    fn check_all(&self) -> Result<(), EngineError> {
        self.compare(b"", None).map_err(|error| format!("at the end: {error}").into())
    }

    fn compare(&self, from: &[u8], to: Option<&[u8]>) -> Result<(), EngineError> {
        let found = self.answers.between(from, to)?;
        let expected =
            self.map.range(from.to_vec()..).take_while(|(key, _)| to.is_none_or(|to| &key[..] < to));
        let expected: Vec<_> = expected.collect();
        let differs = (0..found.len().max(expected.len()))
            .find(|i| found.get(*i).map(|(key, value)| (key, value)) != expected.get(*i).copied());
        match differs {
            None => Ok(()),
            Some(i) => {
                let found = found.get(i).map(|(key, _)| key);
                let [found, expected] = [found, expected.get(i).map(|(key, _)| *key)].map(shown);
                let place = i + 1;
                Err(format!(
                    "record {place} of the scan is {found} or has another value, and should be {expected}"
                )
                .into())
            }
        }
    }
}

fn shown(bytes: Option<&Vec<u8>>) -> String {
    bytes.map_or_else(
        || "nothing".to_owned(),
        |bytes| {
            let text: String = String::from_utf8_lossy(bytes).chars().take(40).collect();
            format!("`{text}`")
        },
    )
}

#[cfg(test)]
#[path = "replay_tests.rs"]
mod tests;
