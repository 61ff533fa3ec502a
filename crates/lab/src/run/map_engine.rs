//! A map in memory as an engine, for tests.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::run::engine::{Abilities, Change, Engine, EngineError, Figures, Scanned};
use crate::run::replay::Answers;

/// A map in memory that can be told to fail, and to be able to do less.
#[derive(Default)]
pub struct MapEngine {
    /// What is in it.
    pub map: Mutex<BTreeMap<Vec<u8>, Vec<u8>>>,
    /// Calls of `write`.
    pub batches: AtomicU64,
    /// Puts fail from this many records on.
    pub fail_after: Option<usize>,
    /// What is put is gone.
    pub forgets: bool,
    /// What it says it can do; everything unless told otherwise.
    pub able: Option<Abilities>,
}

impl Engine for MapEngine {
    fn name(&self) -> &'static str {
        "map"
    }

    fn version(&self) -> String {
        "0".to_owned()
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), EngineError> {
        let mut map = self.map.lock().unwrap();
        if self.fail_after.is_some_and(|n| map.len() >= n) {
            return Err("full".into());
        }
        if !self.forgets {
            map.insert(key.to_vec(), value.to_vec());
        }
        Ok(())
    }

    fn get(&self, key: &[u8]) -> Result<Option<usize>, EngineError> {
        Ok(self.map.lock().unwrap().get(key).map(Vec::len))
    }

    fn scan(&self, from: &[u8], limit: usize) -> Result<Scanned, EngineError> {
        let map = self.map.lock().unwrap();
        Ok(sum(map.range(from.to_vec()..).take(limit)))
    }

    fn scan_down(&self, from: &[u8], limit: usize) -> Result<Scanned, EngineError> {
        let map = self.map.lock().unwrap();
        Ok(sum(map.range(..=from.to_vec()).rev().take(limit)))
    }

    fn scan_between(&self, from: &[u8], to: &[u8]) -> Result<Scanned, EngineError> {
        Ok(sum(self.map.lock().unwrap().range(from.to_vec()..to.to_vec())))
    }

    fn delete(&self, key: &[u8]) -> Result<(), EngineError> {
        self.map.lock().unwrap().remove(key);
        Ok(())
    }

    fn delete_range(&self, from: &[u8], to: &[u8]) -> Result<(), EngineError> {
        self.map.lock().unwrap().retain(|key, _| &key[..] < from || &key[..] >= to);
        Ok(())
    }

    fn write(&self, changes: &[Change<'_>]) -> Result<(), EngineError> {
        self.batches.fetch_add(1, Ordering::Relaxed);
        let mut map = self.map.lock().unwrap();
        for change in changes {
            match change {
                Change::Put(key, value) => map.insert(key.to_vec(), value.to_vec()),
                Change::Delete(key) => map.remove(*key),
            };
        }
        Ok(())
    }

    fn abilities(&self) -> Abilities {
        self.able.unwrap_or(Abilities::ALL)
    }

    fn wait_idle(&self) -> Result<(), EngineError> {
        Ok(())
    }

    fn figures(&self) -> Figures {
        let records = Some(self.map.lock().unwrap().len() as u64);
        Figures { flush_bytes: records, stalls: records, ..Figures::default() }
    }

    fn disk_bytes(&self) -> u64 {
        4096
    }
}

fn sum<'a>(records: impl Iterator<Item = (&'a Vec<u8>, &'a Vec<u8>)>) -> Scanned {
    records.fold(Scanned::default(), |sum, (key, value)| Scanned {
        entries: sum.entries + 1,
        bytes: sum.bytes + (key.len() + value.len()) as u64,
    })
}

impl Answers for MapEngine {
    fn value(&self, key: &[u8]) -> Result<Option<Vec<u8>>, EngineError> {
        Ok(self.map.lock().unwrap().get(key).cloned())
    }

    fn between(&self, from: &[u8], to: Option<&[u8]>) -> Result<Vec<(Vec<u8>, Vec<u8>)>, EngineError> {
        let map = self.map.lock().unwrap();
        let all = map.range(from.to_vec()..).take_while(|(key, _)| to.is_none_or(|to| &key[..] < to));
        Ok(all.map(|(key, value)| (key.clone(), value.clone())).collect())
    }
}
