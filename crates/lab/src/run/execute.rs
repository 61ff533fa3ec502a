//! Does one operation on an engine: the one place that knows what each kind of operation is made of.
//!
//! Every loop that starts operations, closed or open, calls [`Executor::execute`] and times it from outside.

use crate::run::engine::{Change, Engine, EngineError};
use crate::workloads::generator::{Expected, Op, Shared};
use crate::workloads::workload::{OpKind, Workload};

/// Why an engine cannot run a workload; asked before anything is written.
///
/// # Errors
/// What it cannot do.
pub fn check<E: Engine>(engine: &E, workload: &Workload) -> Result<(), String> {
    let able = engine.abilities();
    let transaction = &workload.transaction;
    let batches = workload.mix.has(OpKind::Transaction) && transaction.updates + transaction.replaces > 0;
    let needs = [
        (workload.mix.has(OpKind::DeleteRange), able.delete_range, "deletes of ranges"),
        (batches, able.batches, "batches"),
        (workload.mix.has(OpKind::ScanDown), able.scan_down, "scans downward"),
    ];
    match needs.into_iter().find(|(needed, able, _)| *needed && !able) {
        Some((.., what)) => Err(format!(
            "{} has no {what}, which {} needs; choose another workload, or another engine",
            engine.name(),
            workload.name
        )),
        None => Ok(()),
    }
}

/// Does the operations of one thread and judges their answers.
pub struct Executor<'a, E> {
    engine: &'a E,
    shared: &'a Shared<'a>,
    wrong_reads: u64,
}

impl<'a, E: Engine> Executor<'a, E> {
    /// For a thread that draws from `shared`.
    pub fn new(engine: &'a E, shared: &'a Shared<'a>) -> Executor<'a, E> {
        Executor { engine, shared, wrong_reads: 0 }
    }

    /// Reads that found nothing although the record exists, or something although it does not.
    pub fn wrong_reads(&self) -> u64 {
        self.wrong_reads
    }

    /// Does `op`; the bytes of keys and values it moved.
    ///
    /// # Errors
    /// The engine's.
    pub fn execute(&mut self, op: &Op) -> Result<u64, EngineError> {
        match op.kind {
            OpKind::Read => self.read(op),
            OpKind::Update | OpKind::Insert => self.write(op),
            OpKind::Scan | OpKind::ScanDown => self.scan(op),
            OpKind::ReadModifyWrite => Ok(self.read(op)? + self.write(op)?),
            OpKind::Delete => {
                self.engine.delete(&op.key)?;
                Ok(op.key.len() as u64)
            }
            OpKind::DeleteRange => {
                self.engine.delete_range(&op.key, &op.end)?;
                Ok((op.key.len() + op.end.len()) as u64)
            }
            OpKind::Transaction => self.transaction(op),
        }
    }

    /// Tells the other threads what `op` did. Called once it is done and timed.
    pub fn acknowledge(&self, op: &Op) {
        if op.kind == OpKind::Insert && !self.shared.workload.fills() {
            self.shared.records.acknowledge(op.record);
        }
    }

    fn read(&mut self, op: &Op) -> Result<u64, EngineError> {
        let found = self.engine.get(&op.key)?;
        self.judge(op, found.is_some());
        Ok((op.key.len() + found.unwrap_or(0)) as u64)
    }

    fn write(&self, op: &Op) -> Result<u64, EngineError> {
        let value = self.shared.values.at(op.value);
        self.engine.put(&op.key, value)?;
        Ok((op.key.len() + value.len()) as u64)
    }

    fn scan(&mut self, op: &Op) -> Result<u64, EngineError> {
        let limit = op.entries as usize;
        let scanned = match op.kind {
            OpKind::ScanDown => self.engine.scan_down(&op.key, limit)?,
            _ => self.engine.scan(&op.key, limit)?,
        };
        // A scan that starts at a record that exists reads that one at least.
        self.judge(op, scanned.entries > 0);
        Ok(scanned.bytes)
    }

    /// Reads first, then writes all at once.
    fn transaction(&mut self, op: &Op) -> Result<u64, EngineError> {
        let values = self.shared.values;
        let mut changes = Vec::with_capacity(op.parts.len());
        let mut bytes = 0;
        for part in &op.parts {
            match part.kind {
                OpKind::Read => bytes += self.read(part)?,
                OpKind::Insert => {
                    changes.push(Change::Delete(&part.key));
                    changes.push(Change::Put(&part.key, values.at(part.value)));
                }
                OpKind::Update => changes.push(Change::Put(&part.key, values.at(part.value))),
                _ => bytes += self.scan(part)?,
            }
        }
        if !changes.is_empty() {
            self.engine.write(&changes)?;
        }
        let moved = |change: &Change<'_>| match change {
            Change::Put(key, value) => key.len() + value.len(),
            Change::Delete(key) => key.len(),
        };
        Ok(bytes + changes.iter().map(|change| moved(change) as u64).sum::<u64>())
    }

    fn judge(&mut self, op: &Op, found: bool) {
        let wrong = match op.expected {
            Expected::Present => !found && !self.shared.records.doomed(op.record),
            Expected::Absent => found,
            Expected::Unknown => false,
        };
        self.wrong_reads += u64::from(wrong);
    }
}
