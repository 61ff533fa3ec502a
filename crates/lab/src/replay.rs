//! Runs a file of operations in its order, by one thread, and checks the answers against a map where that is asked for.
//!
//! The text is read and understood between the operations, outside of their latencies.

use std::collections::BTreeMap;
use std::io::BufRead;

use crate::catalog::YCSB;
use crate::clock;
use crate::closed_loop::{Phase, Total, Watch};
use crate::driver::{Dataset, Outcome, own_and_others};
use crate::engine::{Engine, EngineError, Figures};
use crate::keys::KeyOrder;
use crate::machine;
use crate::recorder::{Latencies, Recorder, Window, Windows};
use crate::text_operations::{TextOperation, TextOperations};
use crate::workload::{Limit, Mix, OpKind, Workload};

/// What a run of a file is called, and that it is over when the file is.
pub const OPERATIONS: Workload = Workload {
    name: "operations",
    what: "a file of operations",
    mix: Mix::of(&[]),
    limit: Limit::Ops(0),
    ..YCSB
};

/// So many operations between two words on how far it is.
const LOOK_EVERY: u64 = 256;

/// An engine whose answers can be seen whole. Only checking asks for it.
pub trait Answers {
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
    input: impl BufRead,
    answers: Option<&dyn Answers>,
    watch: &dyn Watch,
) -> Result<(Dataset, Outcome), EngineError> {
    let mut model = answers.map(|answers| Model { answers, map: BTreeMap::new() });
    let before = machine::cpu();
    let start = clock::now();
    let passed = pass(engine, TextOperations::new(input), model.as_mut(), watch)?;
    if let Some(model) = &model {
        model.check_all()?;
    }
    watch.begin(Phase::Settle, Total::Open);
    let idle = clock::now();
    engine.wait_idle()?;
    let idle_seconds = idle.elapsed().as_secs_f64();
    watch.end();
    let cpu = own_and_others(before, start.elapsed().as_secs_f64());
    let (figures, disk_bytes) = (engine.figures(), engine.disk_bytes());
    let live = engine.scan(b"", usize::MAX)?;
    let outcome = Outcome {
        fill: None,
        ops: passed.ops,
        seconds: passed.seconds,
        latencies: passed.latencies,
        windows: passed.windows,
        samples: passed.samples,
        wrong_reads: 0,
        idle_seconds,
        figures,
        disk_bytes,
        records: live.entries,
        live_bytes: live.bytes,
        cpu_seconds: cpu.map(|(own, _)| own),
        others_cores: cpu.map(|(_, others)| others),
        peak_rss_bytes: machine::peak_rss_bytes(),
    };
    Ok((passed.written.dataset(live.entries), outcome))
}

/// What going through the file gave.
struct Passed {
    ops: u64,
    seconds: f64,
    latencies: Latencies,
    windows: Vec<Window>,
    samples: BTreeMap<u64, Figures>,
    written: Written,
}

/// Runs all operations.
fn pass<E: Engine>(
    engine: &E,
    mut operations: TextOperations<impl BufRead>,
    mut model: Option<&mut Model<'_>>,
    watch: &dyn Watch,
) -> Result<Passed, EngineError> {
    watch.begin(Phase::Measure, Total::Open);
    let windows = Windows::new(1);
    let start = clock::now();
    let mut recorder = Recorder::new(&windows, 0, start);
    let mut samples = BTreeMap::new();
    let (mut last, mut second, mut ops) = (engine.figures(), 0, 0);
    let mut written = Written::default();
    while let Some((line, operation)) = operations.next()? {
        let at_line = |error: EngineError| format!("line {line}: {error}");
        let began = clock::now();
        let bytes = execute(engine, operation).map_err(at_line)?;
        let ended = clock::now();
        recorder.record(kind(operation), began, ended, bytes);
        written.add(operation);
        if let Some(model) = &mut model {
            model.check(operation).map_err(at_line)?;
        }
        ops += 1;
        let now_second = ended.duration_since(start).as_secs();
        if now_second > second {
            let now = engine.figures();
            samples.insert(second, now.since(&last));
            (last, second) = (now, now_second);
        }
        if ops % LOOK_EVERY == 0 {
            watch.advance(ops, ops);
        }
    }
    let latencies = recorder.finish();
    let seconds = start.elapsed().as_secs_f64();
    samples.insert(second, engine.figures().since(&last));
    Ok(Passed { ops, seconds, latencies, windows: windows.into_rows(), samples, written })
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
