//! Does one operation on an engine: the one place that knows what each kind of operation is made of.
//!
//! Every loop that starts operations, closed or open, calls [`Executor::execute`] and times it from outside.

use crate::engine::{Engine, EngineError};
use crate::generator::{Op, Shared};
use crate::workload::OpKind;

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
            OpKind::Scan => self.scan(op),
            OpKind::ReadModifyWrite => Ok(self.read(op)? + self.write(op)?),
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
        self.wrong_reads += u64::from(found.is_some() == self.shared.workload.missing);
        Ok((op.key.len() + found.unwrap_or(0)) as u64)
    }

    fn write(&self, op: &Op) -> Result<u64, EngineError> {
        let value = self.shared.values.at(op.value_at);
        self.engine.put(&op.key, value)?;
        Ok((op.key.len() + value.len()) as u64)
    }

    fn scan(&mut self, op: &Op) -> Result<u64, EngineError> {
        let scanned = self.engine.scan(&op.key, op.entries as usize)?;
        // A scan starts at a record that exists, so it reads that one at least.
        self.wrong_reads += u64::from(scanned.entries == 0);
        Ok(scanned.bytes)
    }
}
