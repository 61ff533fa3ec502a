//! An engine that refuses to go on once somebody wants the command to end, so that it ends soon and cleans up after itself.
//! Who uses it catches interrupts.

use evenkeel_lab::run::engine::{Abilities, Change, Engine, EngineError, Figures, Group, Scanned};
use evenkeel_lab::run::soak::{Account, Accountable};

use crate::evenkeel_engine::EvenkeelEngine;
use crate::failure::Failure;
use crate::progress::{Waited, idle_or_interrupted};

/// See the file's header.
pub struct Stoppable<'a>(pub &'a EvenkeelEngine);

impl Stoppable<'_> {
    fn engine(&self) -> Result<&EvenkeelEngine, EngineError> {
        if evenkeel_sys::was_interrupted() { Err(INTERRUPTED.into()) } else { Ok(self.0) }
    }
}

const INTERRUPTED: &str = "interrupted";

/// What a run on it failed of: the interrupt, whatever came of that, or the engine.
pub fn failed(error: &EngineError) -> Failure {
    match evenkeel_sys::was_interrupted() {
        true => Failure::work(INTERRUPTED),
        false => Failure::work(error.to_string()),
    }
}

impl Accountable for Stoppable<'_> {
    fn account(&self) -> Account {
        self.0.account()
    }
}

impl Engine for Stoppable<'_> {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn version(&self) -> String {
        self.0.version()
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), EngineError> {
        self.engine()?.put(key, value)
    }

    fn get(&self, key: &[u8]) -> Result<Option<usize>, EngineError> {
        self.engine()?.get(key)
    }

    fn scan(&self, from: &[u8], limit: usize) -> Result<Scanned, EngineError> {
        self.engine()?.scan(from, limit)
    }

    fn read_all(&self) -> Result<Scanned, EngineError> {
        self.engine()?.read_all()
    }

    fn scan_down(&self, from: &[u8], limit: usize) -> Result<Scanned, EngineError> {
        self.engine()?.scan_down(from, limit)
    }

    fn scan_between(&self, from: &[u8], to: &[u8]) -> Result<Scanned, EngineError> {
        self.engine()?.scan_between(from, to)
    }

    fn delete(&self, key: &[u8]) -> Result<(), EngineError> {
        self.engine()?.delete(key)
    }

    fn delete_range(&self, from: &[u8], to: &[u8]) -> Result<(), EngineError> {
        self.engine()?.delete_range(from, to)
    }

    fn write(&self, changes: &[Change<'_>]) -> Result<(), EngineError> {
        self.engine()?.write(changes)
    }

    fn abilities(&self) -> Abilities {
        self.0.abilities()
    }

    fn wait_idle(&self) -> Result<(), EngineError> {
        match idle_or_interrupted(&self.engine()?.db) {
            Ok(Waited::Done) => Ok(()),
            _ if evenkeel_sys::was_interrupted() => Err(INTERRUPTED.into()),
            // The engine says itself what is wrong.
            _ => self.0.wait_idle(),
        }
    }

    fn figures(&self) -> Figures {
        self.0.figures()
    }

    fn groups(&self) -> Vec<Group> {
        self.0.groups()
    }

    fn disk_bytes(&self) -> u64 {
        self.0.disk_bytes()
    }
}
