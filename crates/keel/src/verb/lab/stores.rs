//! Settled stores: each system's is filled once, waits until it is idle, and is closed; each cell works on a copy.
//!
//! Evenkeel's copies are checkpoints, which share the tables; others' are copies of the directory, on the disk before anybody
//! measures. All are in the page cache then: what nobody has read for minutes may not be, and a copy is, a checkpoint is not.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use evenkeel_lab::results::settings::OURS;
use serde_json::json;

use crate::child;
use crate::failure::Failure;
use crate::files;
use crate::verb::bench::NOTE;
use crate::verb::bench::process::Process;

/// The filled stores below a directory.
pub struct Stores {
    dir: PathBuf,
}

impl Stores {
    /// Below `out`.
    pub fn below(out: &Path) -> Stores {
        Stores { dir: out.join("stores") }
    }

    /// True if the store of this name is there as asked for.
    pub fn has(&self, name: &str, asked: &serde_json::Value) -> bool {
        let noted = files::read(&self.note(name)).ok().flatten();
        noted.and_then(|text| serde_json::from_str::<serde_json::Value>(&text).ok()).as_ref() == Some(asked)
    }

    /// Fills it, unless it is there as asked for.
    pub fn fill(&self, name: &str, engine: &str, process: &Process, program: &str) -> Result<(), Failure> {
        self.fill_and(name, engine, process, program, &[])
    }

    /// The same; a store of ours is then worked on by the verb with these words, if there are any.
    pub fn fill_and(
        &self,
        name: &str,
        engine: &str,
        process: &Process,
        program: &str,
        verb: &[String],
    ) -> Result<(), Failure> {
        let asked = asked(process, program);
        if self.has(name, &asked) {
            return Ok(());
        }
        self.remove(name)?;
        let cannot = |error| Failure::work(format!("cannot write into {}: {error}", self.dir.display()));
        files::make_dir(&self.dir).map_err(cannot)?;
        process.run(&self.store(name)).map_err(|error| error.of(engine))?;
        if !verb.is_empty() {
            self.keel(name, verb.iter().map(OsStr::new))?;
        }
        files::write_whole(&self.note(name), &(asked.to_string() + "\n")).map_err(cannot)
    }

    /// Runs a verb on a store of ours.
    fn keel<'a>(&self, name: &str, words: impl IntoIterator<Item = &'a OsStr>) -> Result<(), Failure> {
        let store = self.store(name);
        let failed = |why: String| Failure::work(format!("cannot work on {}: {why}", store.display()));
        let keel = std::env::current_exe().map_err(|error| failed(error.to_string()))?;
        let mut command = Command::new(keel);
        command.arg("--db").arg(&store).args(words).stdin(Stdio::null());
        let output = child::output(&mut command).map_err(|error| failed(error.to_string()))?;
        let said = || failed(String::from_utf8_lossy(&output.stderr).trim().to_owned());
        output.status.success().then_some(()).ok_or_else(said)
    }

    /// Makes `target` a copy of the store that is in the page cache.
    pub fn copy(&self, name: &str, engine: &str, target: &Path) -> Result<(), Failure> {
        self.copy_cold(name, engine, target)?;
        files::warm_dir(target)
            .map_err(|error| Failure::work(format!("cannot read {}: {error}", target.display())))
    }

    fn copy_cold(&self, name: &str, engine: &str, target: &Path) -> Result<(), Failure> {
        let store = self.store(name);
        let failed = |why: String| Failure::work(format!("cannot copy {}: {why}", store.display()));
        if engine != OURS {
            return files::copy_dir(&store, target).map_err(|error| failed(error.to_string()));
        }
        self.keel(name, [OsStr::new("checkpoint"), target.as_os_str()])?;
        // What the bench put into it is no part of a store.
        let noted = files::read(&store.join(NOTE)).map_err(|error| failed(error.to_string()))?;
        let text = noted.ok_or_else(|| failed(format!("it has no {NOTE}")))?;
        files::write(&target.join(NOTE), &text).map_err(|error| failed(error.to_string()))
    }

    /// True if it was filled before, whatever it was filled with.
    pub fn is_there(&self, name: &str) -> bool {
        self.note(name).is_file()
    }

    /// Removes a store, if it is there.
    pub fn remove(&self, name: &str) -> Result<(), Failure> {
        let store = self.store(name);
        files::remove_file_if_there(&self.note(name))
            .and_then(|()| files::remove_all_if_there(&store))
            .map_err(|error| Failure::work(format!("cannot remove {}: {error}", store.display())))
    }

    /// Removes all of them.
    pub fn remove_all(&self) -> Result<(), Failure> {
        files::remove_all_if_there(&self.dir)
            .map_err(|error| Failure::work(format!("cannot remove {}: {error}", self.dir.display())))
    }

    fn store(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Beside the store; written when it is settled.
    fn note(&self, name: &str) -> PathBuf {
        self.dir.join(format!("{name}.json"))
    }
}

/// What a store is filled with, and by which program.
pub fn asked(process: &Process, program: &str) -> serde_json::Value {
    json!({ "arguments": process.arguments(), "program": program })
}
