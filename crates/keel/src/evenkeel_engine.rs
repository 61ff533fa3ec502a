//! Evenkeel as the lab sees it. The engine's figures are read from its metrics' JSON, by the names below.

use std::path::PathBuf;
use std::sync::Arc;

use evenkeel::fs::Device;
use evenkeel::{Db, Keyspace, ScanRange, WriteBatch};
use evenkeel_lab::run::engine::{Change, Engine, EngineError, Figures, Group, Scanned};
use evenkeel_lab::run::replay::Answers;
use serde_json::Value;

use crate::files;

/// An open store under measurement.
pub struct EvenkeelEngine {
    /// The store.
    pub db: Db,
    /// The keyspace that is measured.
    pub keyspace: Keyspace,
    /// Its directory.
    pub dir: PathBuf,
    /// What it is on, if that is emulated.
    pub device: Option<Arc<Device>>,
}

impl Engine for EvenkeelEngine {
    fn name(&self) -> &'static str {
        "evenkeel"
    }

    fn version(&self) -> String {
        env!("CARGO_PKG_VERSION").to_owned()
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), EngineError> {
        Ok(self.keyspace.put(key, value)?)
    }

    fn get(&self, key: &[u8]) -> Result<Option<usize>, EngineError> {
        Ok(self.keyspace.get(key)?.map(|value| value.len()))
    }

    fn scan(&self, from: &[u8], limit: usize) -> Result<Scanned, EngineError> {
        let mut cursor = self.keyspace.cursor(ScanRange::all())?;
        let mut scanned = Scanned::default();
        cursor.seek(from)?;
        while cursor.valid() {
            scanned.entries += 1;
            scanned.bytes += (cursor.key().len() + cursor.value().len()) as u64;
            if scanned.entries >= limit as u64 {
                break;
            }
            cursor.next()?;
        }
        Ok(scanned)
    }

    fn read_all(&self) -> Result<Scanned, EngineError> {
        let _aside = self.device.as_ref().map(Device::stand_aside);
        self.scan(b"", usize::MAX)
    }

    fn scan_down(&self, from: &[u8], limit: usize) -> Result<Scanned, EngineError> {
        let mut cursor = self.keyspace.cursor(ScanRange::all())?;
        let mut scanned = Scanned::default();
        cursor.seek_for_prev(from)?;
        while cursor.valid() {
            scanned.entries += 1;
            scanned.bytes += (cursor.key().len() + cursor.value().len()) as u64;
            if scanned.entries >= limit as u64 {
                break;
            }
            cursor.prev()?;
        }
        Ok(scanned)
    }

    fn scan_between(&self, from: &[u8], to: &[u8]) -> Result<Scanned, EngineError> {
        let mut scanned = Scanned::default();
        self.each_between(from, Some(to), |key, value| {
            scanned.entries += 1;
            scanned.bytes += (key.len() + value.len()) as u64;
        })?;
        Ok(scanned)
    }

    fn delete(&self, key: &[u8]) -> Result<(), EngineError> {
        Ok(self.keyspace.delete(key)?)
    }

    fn delete_range(&self, from: &[u8], to: &[u8]) -> Result<(), EngineError> {
        Ok(self.keyspace.delete_range(from, to)?)
    }

    fn write(&self, changes: &[Change<'_>]) -> Result<(), EngineError> {
        let mut batch = WriteBatch::new();
        for change in changes {
            match change {
                Change::Put(key, value) => batch.put_in(&self.keyspace, key, value),
                Change::Delete(key) => batch.delete_in(&self.keyspace, key),
            }
        }
        Ok(self.db.write(batch)?)
    }

    fn wait_idle(&self) -> Result<(), EngineError> {
        Ok(self.db.wait_idle()?)
    }

    fn figures(&self) -> Figures {
        // Figures that cannot be read are unknown; `keel stats` says what is wrong with them.
        let figures = serde_json::from_str(&self.db.metrics().to_json())
            .map_or_else(|_| Figures::default(), |json| figures(&json, self.keyspace.name()));
        let disk_late_seconds = self.device.as_ref().map(|device| device.late().as_secs_f64());
        Figures { disk_late_seconds, ..figures }
    }

    fn groups(&self) -> Vec<Group> {
        groups(&self.db, self.keyspace.name())
    }

    fn disk_bytes(&self) -> u64 {
        files::disk_bytes(&self.dir)
    }
}

/// The groups of a keyspace's levels by heat; none if they cannot be read.
pub fn groups(db: &Db, keyspace: &str) -> Vec<Group> {
    let report = db.control(&format!("levels {keyspace}")).unwrap_or_default();
    let report: Value = serde_json::from_str(&report).unwrap_or_default();
    let levels = report["levels"].as_array().into_iter().flatten();
    let of_level = |level: &Value| {
        let number = level["level"].as_u64().unwrap_or(0);
        let list = level["group_list"].as_array().cloned().unwrap_or_default();
        list.into_iter().filter_map(move |group| {
            serde_json::from_value(group).ok().map(|group| Group { level: number, ..group })
        })
    };
    levels.flat_map(of_level).collect()
}

impl EvenkeelEngine {
    fn each_between(
        &self,
        from: &[u8],
        to: Option<&[u8]>,
        mut each: impl FnMut(&[u8], &[u8]),
    ) -> Result<(), EngineError> {
        let mut cursor = self.keyspace.cursor(ScanRange::new(Some(from), to))?;
        cursor.seek_to_first()?;
        while cursor.valid() {
            each(cursor.key(), cursor.value());
            cursor.next()?;
        }
        Ok(())
    }
}

impl Answers for EvenkeelEngine {
    fn value(&self, key: &[u8]) -> Result<Option<Vec<u8>>, EngineError> {
        Ok(self.keyspace.get(key)?.map(|value| value.to_vec()))
    }

    fn between(&self, from: &[u8], to: Option<&[u8]>) -> Result<Vec<(Vec<u8>, Vec<u8>)>, EngineError> {
        let mut all = Vec::new();
        self.each_between(from, to, |key, value| all.push((key.to_vec(), value.to_vec())))?;
        Ok(all)
    }
}

/// Classes of bytes but for what clients read.
const INTERNAL: [&str; 7] = ["wal", "manifest", "flush", "intra-l0", "l0-to-l1", "deep", "upkeep"];

/// The figures by their names in the engine's JSON; levels, memtables and debt are those of the keyspace that is measured.
fn figures(json: &Value, keyspace: &str) -> Figures {
    let number = |path: &str| json.pointer(path).and_then(Value::as_f64);
    let whole = |path: &str| json.pointer(path).and_then(Value::as_u64);
    let sum = |paths: &[&str]| paths.iter().map(|path| whole(path)).sum::<Option<u64>>();
    let io = |class: &str| {
        let (read, written) = (format!("/io/{class}/read"), format!("/io/{class}/written"));
        sum(&[read.as_str(), written.as_str()])
    };
    let of_keyspace = |one: &&Value| one.get("name").and_then(Value::as_str) == Some(keyspace);
    let keyspaces = json.get("keyspaces").and_then(Value::as_array);
    let mine = keyspaces.and_then(|all| all.iter().find(of_keyspace));
    let levels = mine.and_then(|keyspace| keyspace.get("levels"));
    let of_mine = |name: &str| mine.and_then(|keyspace| keyspace.get(name)).and_then(Value::as_u64);
    Figures {
        write_amplification: number("/amplification/write"),
        read_amplification: number("/amplification/read"),
        space_amplification: number("/amplification/space"),
        compactions: whole("/compactions/count"),
        compaction_bytes_read: whole("/compactions/bytes_read"),
        compaction_bytes_written: whole("/compactions/bytes_written"),
        compactions_moved: whole("/compactions/moved"),
        wasted_bytes: whole("/compactions/wasted_bytes"),
        stalls: whole("/stalls/count"),
        stall_seconds: number("/stalls/seconds"),
        user_bytes: whole("/user_bytes"),
        internal_bytes: INTERNAL.iter().map(|class| io(class)).sum::<Option<u64>>(),
        client_read_bytes: whole("/io/client/read"),
        client_estimate: number("/schedule/client_bytes_per_sec"),
        flushes_delayed: whole("/schedule/flushes_delayed"),
        jobs_open: whole("/jobs/open"),
        memtables_full: of_mine("immutable_memtables"),
        debt_bytes: of_mine("debt_bytes"),
        monitor_cpu_seconds: number("/schedule/monitor_cpu_seconds"),
        flush_bytes: whole("/io/flush/written"),
        l0_bytes: sum(&["/io/intra-l0/written", "/io/l0-to-l1/written"]),
        deep_bytes: sum(&["/io/deep/written", "/io/upkeep/written"]),
        l0_runs: levels.and_then(|levels| levels.pointer("/0/runs")).and_then(Value::as_u64),
        level_bytes: levels.and_then(Value::as_array).map(|levels| by_level(levels)),
        internal_limit: number("/schedule/limit_bytes_per_sec"),
        disk_late_seconds: None,
    }
}

/// Bytes in the first three levels, and in all below.
fn by_level(levels: &[Value]) -> [u64; 4] {
    let mut bytes = [0; 4];
    for (i, level) in levels.iter().enumerate() {
        bytes[i.min(3)] += level.get("bytes").and_then(Value::as_u64).unwrap_or(0);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_unknown() {
        assert_eq!(figures(&serde_json::json!({}), "default"), Figures::default());
        let json = serde_json::json!({
            "amplification": {"write": 4.5}, "compactions": {"count": 3},
            "io": {"deep": {"written": 10}, "upkeep": {"written": 1}, "intra-l0": {"written": 5}},
            "keyspaces": [{"name": "other"}, {"name": "default", "debt_bytes": 7, "immutable_memtables": 1, "levels": [
                {"runs": 2, "bytes": 1}, {"bytes": 20}, {"bytes": 300}, {"bytes": 4000}, {"bytes": 50000},
            ]}],
        });
        let seen = figures(&json, "default");
        assert_eq!((seen.write_amplification, seen.compactions), (Some(4.5), Some(3)));
        assert_eq!((seen.deep_bytes, seen.l0_bytes, seen.flush_bytes), (Some(11), None, None));
        assert_eq!((seen.l0_runs, seen.level_bytes), (Some(2), Some([1, 20, 300, 54_000])));
        assert_eq!((seen.debt_bytes, seen.memtables_full), (Some(7), Some(1)));
    }
}
