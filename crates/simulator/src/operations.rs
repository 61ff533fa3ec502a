//! What is done to the store, operation by operation: a workload of the lab, a file of operations, a recorded trace.
//!
//! Each can be gone through several times and is the same every time: the first time shows how often keys come, the second draws
//! the sample. The validation gives the real store the very same operations.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;

use evenkeel::trace::{Action, Change, Trace};
use evenkeel_lab::run::driver::Dataset;
use evenkeel_lab::workloads::catalog::filler;
use evenkeel_lab::workloads::distribution::Distribution;
use evenkeel_lab::workloads::generator::{BATCH, Generator, Op, Shared};
use evenkeel_lab::workloads::keys::Keys;
use evenkeel_lab::workloads::records::Records;
use evenkeel_lab::workloads::text_operations::{TextOperation, TextOperations};
use evenkeel_lab::workloads::values::Values;
use evenkeel_lab::workloads::workload::{Limit, OpKind, Workload};

/// Operations unless somebody says how many.
pub const OPS: u64 = 1_000_000;
/// Operations a second unless somebody says otherwise: what the clock of a workload goes by.
pub const OPS_PER_SEC: f64 = 10_000.0;

/// What one operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What<'a> {
    /// Writes a value.
    Put(&'a [u8]),
    /// Writes a value of which only the length is known.
    PutOfLength(u64),
    /// Deletes the key.
    Delete,
    /// Deletes the keys from this one to below the other.
    DeleteTo(&'a [u8]),
    /// Reads the key.
    Get,
    /// Seeks the key and reads on.
    Scan,
    /// What came before was preparation: here the store comes to rest, and its figures begin.
    Measure,
}

/// One operation.
#[derive(Clone, Copy, Debug)]
pub struct Operation<'a> {
    /// Milliseconds since the first one.
    pub at_ms: u64,
    /// To which key.
    pub key: &'a [u8],
    /// What it does.
    pub what: What<'a>,
}

/// A store's operations.
pub trait Operations {
    /// Goes through all of them.
    ///
    /// # Errors
    /// What is wrong with their description, or what `each` says.
    fn go(&self, each: &mut dyn FnMut(&Operation<'_>) -> Result<(), String>) -> Result<(), String>;

    /// What they are, for people.
    fn name(&self) -> String;

    /// Bytes of keys and values in the store at the end, about; `None` if nobody knows before.
    fn data_bytes(&self) -> Option<u64> {
        None
    }
}

/// A workload of the lab, after its records have been written.
#[derive(Clone, Debug)]
pub struct WorkloadOperations {
    workload: Workload,
    distribution: Distribution,
    data: Dataset,
    ops: u64,
    ops_per_sec: f64,
    seed: u64,
}

impl WorkloadOperations {
    /// `ops` operations of a workload on these records; as many as it has of itself, or [`OPS`], if none is said.
    ///
    /// # Errors
    /// If it cannot be simulated: what to use instead.
    pub fn new(
        workload: Workload,
        distribution: Distribution,
        data: Dataset,
        ops: Option<u64>,
        ops_per_sec: f64,
        seed: u64,
    ) -> Result<WorkloadOperations, String> {
        if workload.writer {
            return Err(format!(
                "{} has a writer as fast as it can be, and a simulation is not of speed; readrandomwriterandom reads beside writes",
                workload.name
            ));
        }
        Keys::new(data.key_bytes, data.order, data.seed, data.records)?;
        let ops = match workload.limit {
            Limit::AllInserted => data.records,
            Limit::OnePass => ops.unwrap_or_else(|| workload.one_pass(data.records)),
            Limit::Ops(usual) => ops.unwrap_or(usual),
            Limit::Seconds(_) => ops.unwrap_or(OPS),
        };
        Ok(WorkloadOperations { workload, distribution, data, ops, ops_per_sec, seed })
    }

    fn phase(&self, workload: &Workload, ops: u64, from: u64, each: Each<'_>) -> Result<(), String> {
        let data = &self.data;
        let keys = Keys::new(data.key_bytes, data.order, data.seed, data.records)?;
        let values = Values::new(data.value_bytes, data.seed);
        let records = Records::new(if workload.fills() { 0 } else { data.records });
        let shared = Shared {
            workload,
            keys: &keys,
            values: &values,
            records: &records,
            distribution: if workload.fills() { workload.distribution } else { self.distribution },
            inserts: workload.inserts(ops),
            seed: self.seed,
        };
        let mut generator = Generator::new(&shared, 0);
        let mut batch = Vec::new();
        let mut done = 0;
        while done < ops {
            generator.draw(BATCH.min(ops - done), &mut batch);
            for op in &batch {
                let at_ms = ((from + done) as f64 * 1000.0 / self.ops_per_sec) as u64;
                tell(op, at_ms, &values, each)?;
                if op.kind == OpKind::Insert && !workload.fills() {
                    records.acknowledge(op.record);
                }
                done += 1;
            }
        }
        Ok(())
    }
}

type Each<'e> = &'e mut dyn FnMut(&Operation<'_>) -> Result<(), String>;

/// One of the lab's operations, as reads and writes of keys.
fn tell(op: &Op, at_ms: u64, values: &Values, each: Each<'_>) -> Result<(), String> {
    let mut key = |what: What<'_>| each(&Operation { at_ms, key: &op.key, what });
    match op.kind {
        OpKind::Read => key(What::Get),
        OpKind::Update | OpKind::Insert => key(What::Put(values.at(op.value))),
        OpKind::ReadModifyWrite => {
            key(What::Get)?;
            key(What::Put(values.at(op.value)))
        }
        OpKind::Scan | OpKind::ScanDown => key(What::Scan),
        OpKind::Delete => key(What::Delete),
        OpKind::DeleteRange => key(What::DeleteTo(&op.end)),
        OpKind::Transaction => op.parts.iter().try_for_each(|part| {
            if part.kind == OpKind::Insert {
                // What a transaction inserts it deletes first.
                each(&Operation { at_ms, key: &part.key, what: What::Delete })?;
            }
            tell(part, at_ms, values, each)
        }),
    }
}

impl Operations for WorkloadOperations {
    fn go(&self, each: Each<'_>) -> Result<(), String> {
        if self.workload.fills() {
            return self.phase(&self.workload, self.data.records, 0, each);
        }
        self.phase(filler(self.data.order), self.data.records, 0, each)?;
        let at_ms = (self.data.records as f64 * 1000.0 / self.ops_per_sec) as u64;
        each(&Operation { at_ms, key: &[], what: What::Measure })?;
        self.phase(&self.workload, self.ops, self.data.records, each)
    }

    fn name(&self) -> String {
        self.workload.name.to_owned()
    }

    fn data_bytes(&self) -> Option<u64> {
        let records =
            self.data.records + if self.workload.fills() { 0 } else { self.workload.inserts(self.ops) };
        Some(records * (self.data.key_bytes + self.data.value_bytes.mean()) as u64)
    }
}

/// A file of operations as text.
#[derive(Clone, Debug)]
pub struct TextFile {
    /// Where.
    pub path: PathBuf,
    /// What its clock goes by.
    pub ops_per_sec: f64,
}

impl Operations for TextFile {
    #[expect(clippy::disallowed_methods, reason = "a file of operations is none of a store's files")]
    fn go(&self, each: Each<'_>) -> Result<(), String> {
        let named = |what: String| format!("{}: {what}", self.path.display());
        let file = std::fs::File::open(&self.path).map_err(|error| named(error.to_string()))?;
        let mut operations = TextOperations::new(BufReader::with_capacity(1 << 20, file));
        while let Some((line, operation)) = next_of(&mut operations).map_err(named)? {
            let at_ms = (line as f64 * 1000.0 / self.ops_per_sec) as u64;
            let (key, what) = match operation {
                TextOperation::Insert(key, value) | TextOperation::Update(key, value) => {
                    (key, What::Put(value))
                }
                TextOperation::Delete(key) => (key, What::Delete),
                TextOperation::DeleteRange(from, to) => (from, What::DeleteTo(to)),
                TextOperation::Read(key) => (key, What::Get),
                TextOperation::Scan(from, _) => (from, What::Scan),
            };
            each(&Operation { at_ms, key, what })?;
        }
        Ok(())
    }

    fn name(&self) -> String {
        self.path.display().to_string()
    }
}

fn next_of<R: BufRead>(from: &mut TextOperations<R>) -> Result<Option<(u64, TextOperation<'_>)>, String> {
    from.next()
}

/// The operations of a recorded trace, on one keyspace of it.
#[derive(Debug)]
pub struct Recorded {
    /// The trace.
    pub trace: Trace,
    /// Only what was done to the keyspace of this name.
    pub keyspace: String,
}

impl Operations for Recorded {
    fn go(&self, each: Each<'_>) -> Result<(), String> {
        let ours = |keyspace: u64| self.trace.keyspace_name(keyspace) == self.keyspace;
        for operation in self.trace.iter() {
            let at_ms = operation.start_nanos / 1_000_000;
            match operation.action {
                Action::Write(changes) => {
                    for change in changes {
                        let (keyspace, key, what) = match change {
                            Change::Put { keyspace, key, value_bytes } => {
                                (keyspace, key, What::PutOfLength(value_bytes))
                            }
                            Change::Delete { keyspace, key } => (keyspace, key, What::Delete),
                            Change::DeleteRange { keyspace, from, to } => {
                                (keyspace, from, What::DeleteTo(to))
                            }
                        };
                        if ours(keyspace) {
                            each(&Operation { at_ms, key, what })?;
                        }
                    }
                }
                Action::Get { keyspace, keys } if ours(keyspace) => {
                    for key in keys {
                        each(&Operation { at_ms, key, what: What::Get })?;
                    }
                }
                Action::Scan { keyspace, from, .. } if ours(keyspace) => {
                    each(&Operation { at_ms, key: from, what: What::Scan })?;
                }
                Action::Get { .. } | Action::Scan { .. } => {}
            }
        }
        Ok(())
    }

    fn name(&self) -> String {
        "trace".to_owned()
    }
}
