//! A trace of a running store: begun, written by a thread of its own, ended.
//!
//! Whatever goes wrong with the file ends the trace, with an event, and never an operation of the store. The end of the store
//! is the end of its trace.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::base::clock::spawn;
use crate::base::error::{Error, Result};
use crate::db::files::trace_file::{Keys, Kind, TraceWriter};
use crate::db::store::state::Store;
use crate::db::store::tracing::{Recording, Written};
use crate::observe::event::Event;
use crate::observe::json::Object;
use crate::storage::file_name::FileName;

/// What a trace has recorded.
#[derive(Clone, Debug)]
pub struct Summary {
    /// Its file.
    pub path: PathBuf,
    /// How many operations of each kind.
    pub operations: Vec<(Kind, u64)>,
    /// Operations that are not in it, because what was to be written had no room in memory.
    pub missed: u64,
    /// How long was recorded, in nanoseconds.
    pub nanos: u64,
    /// The file's length.
    pub bytes: u64,
}

impl Summary {
    /// An object of JSON on one line.
    pub fn to_json(&self) -> String {
        let kinds = self.operations.iter().fold(Object::new(), |o, (kind, n)| o.raw(kind.name(), n));
        let object = Object::new().text("path", &self.path.display().to_string());
        let object = object.raw("operations", kinds.end()).raw("missed", self.missed);
        object.fraction("seconds", self.nanos as f64 / 1e9).raw("bytes", self.bytes).end()
    }
}

/// Begins a trace into a new file.
///
/// # Errors
/// `InvalidArgument` if the file exists, has a name of the store's own files, or a trace runs already; `ReadOnly`, `Io`, `NoSpace`.
pub fn start(store: &Arc<Store>, path: &Path, keys: Keys) -> Result<Arc<Recording>> {
    if store.read_only {
        return Err(Error::ReadOnly { dir: store.dir.clone() });
    }
    let name = path.file_name().and_then(|name| name.to_str());
    if name.is_some_and(|name| FileName::parse(name).is_some()) {
        return Err(Error::invalid(format!(
            "{} is a name of a store's own files; give the trace another",
            path.display()
        )));
    }
    let file = TraceWriter::create(&*store.fs, path, keys, store.clock.wall_ms())?;
    let recording = Arc::new(Recording::new(path.to_path_buf(), keys, &store.memory));
    let begun = store.trace.start(&recording).and_then(|()| {
        // The store closes after it says so; either it sees the recording or this sees that it closes.
        if store.closed.load(Ordering::SeqCst) {
            return Err(Error::closed());
        }
        let (store, recording) = (Arc::clone(store), Arc::clone(&recording));
        spawn("keel-trace", move || write_all(store, &recording, file))
    });
    if let Err(error) = begun {
        store.trace.stop(&recording);
        recording.finished(Err(error.clone()));
        // One that nobody will ever write to; if it stays, it is empty.
        let _ = store.fs.remove(path);
        return Err(error);
    }
    Ok(recording)
}

/// Ends a trace, and answers what is in it.
pub fn end(store: &Store, recording: &Arc<Recording>) -> Result<Summary> {
    store.trace.stop(recording);
    let Written { nanos, bytes } = recording.end()?;
    let operations = Kind::ALL.into_iter().zip(recording.counts()).filter(|(_, n)| *n > 0).collect();
    Ok(Summary { path: recording.path.clone(), operations, missed: recording.missed(), nanos, bytes })
}

/// The store closes. How its trace ended is told to whoever began it.
pub fn close(store: &Store) {
    if let Some(recording) = store.trace.current() {
        let _ = end(store, &recording);
    }
}

fn write_all(store: Arc<Store>, recording: &Arc<Recording>, file: TraceWriter) {
    let written = catch_unwind(AssertUnwindSafe(|| write(&store, recording, file)));
    let outcome =
        written.unwrap_or_else(|_| Err(Error::invalid("the trace's thread panicked; please report it")));
    if let Err(error) = &outcome {
        store.trace.stop(recording);
        store.event(&Event::NotWritten { file: "trace", error: error.to_string() });
    }
    // Whoever waits for the end may close the store next, and its lock must not live on here.
    drop(store);
    recording.finished(outcome);
}

fn write(store: &Store, recording: &Recording, mut file: TraceWriter) -> Result<Written> {
    let mut named = BTreeSet::new();
    loop {
        let (chunks, last) = recording.take();
        let keyspaces = store.keyspaces.load_full();
        let unnamed = keyspaces.by_name.values().filter(|keyspace| named.insert(keyspace.id.0));
        file.keyspaces(unnamed.map(|keyspace| (keyspace.id.0, keyspace.name.as_str())))?;
        for chunk in chunks {
            file.operations(&chunk)?;
            recording.written(chunk.len());
        }
        if last {
            let nanos = recording.nanos();
            let bytes = file.end(nanos, recording.missed())?;
            return Ok(Written { nanos, bytes });
        }
    }
}
