//! `keel trace replay FILE`: the operations of a trace, done again on a store, and measured.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use evenkeel::fs::Device;
use evenkeel::trace::{Action, Change, End, Keys, Operation, Trace};
use evenkeel::{Db, KeyspaceOptions, ScanRange, WriteBatch};
use evenkeel_lab::base::clock;
use evenkeel_lab::base::provenance::Provenance;
use evenkeel_lab::results::document::Document;
use evenkeel_lab::results::report::{self, Run};
use evenkeel_lab::run::driver::{Dataset, Plan};
use evenkeel_lab::run::engine::{Engine as _, EngineError, Scanned};
use evenkeel_lab::run::recorded::{self, Pace, Recorded, Replay, TRACE};
use evenkeel_lab::workloads::keys::KeyOrder;
use evenkeel_lab::workloads::values::Values;
use evenkeel_lab::workloads::workload::OpKind;

use super::read;
use crate::device::DeviceArgs;
use crate::evenkeel_engine::EvenkeelEngine;
use crate::failure::Failure;
use crate::files::Place;
use crate::output::note;
use crate::progress::BenchProgress;
use crate::store::{EngineArgs, Target, create_db};
use crate::verb::bench::{ResultArgs, engine_config, look, outdate_notes};

/// More threads than this must be asked for.
const THREADS_MAX: usize = 64;

/// See `keel trace replay --help`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The trace.
    file: PathBuf,
    /// Divide the recorded times by this.
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = factor, conflicts_with = "as_fast_as_possible")]
    speed: f64,
    /// Do each operation as soon as a thread is free for it.
    #[arg(long)]
    as_fast_as_possible: bool,
    /// Threads that do the operations; as many as were recorded (64 at most) unless said.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=4096))]
    threads: Option<u16>,
    /// Allow writing made-up values into a store that exists.
    #[arg(long)]
    use_existing: bool,
    #[command(flatten)]
    result: ResultArgs,
    #[command(flatten)]
    device: DeviceArgs,
    #[command(flatten)]
    engine: EngineArgs,
}

/// Shown below the help.
pub const HELP: &str = "\
A latency is from the time at which an operation was due to its end. Values are made up in the recorded lengths. Keyspaces
are those of the recorded names, and are made where they are missing. One thread keeps the order; several may let operations
that lie close together change places. With hashed keys a scan begins anywhere, and a range delete deletes one key.

--db is made if it does not exist. Replay onto a copy (keel checkpoint, then --use-existing) to begin
with what the recorded store held.";

impl Args {
    /// Does it.
    pub fn run(&self, target: &Target) -> Result<(), Failure> {
        let trace = read(&self.file)?;
        if let End::Damaged(error) = &trace.end {
            note(&format!("keel: {error}; replaying the operations before it"));
        }
        let Some(dir) = target.db.clone() else {
            return Err(Failure::usage("say which store: --db DIR"));
        };
        self.engine.options()?;
        if look(&dir)? == Place::Store {
            if !self.use_existing {
                return Err(Failure::work(format!(
                    "{} is a store already; give another --db, or --use-existing to write made-up values into it",
                    dir.display()
                )));
            }
            outdate_notes(&dir)?;
        }
        self.result.prepare(&dir)?;
        let began_ms = clock::wall_ms();
        let device = self.device.emulated()?;
        let db = create_db(target, &self.engine.answering().on(device.clone()))?;
        let document = self.replay(&db, &dir, device, trace);
        db.close()?;
        let mut document = document?;
        document.config.set_device(self.device.told());
        document.provenance = Some(Provenance::here(began_ms, &dir));
        self.result.print(|| document.to_json(), || report::text(&document))?;
        self.result.report(Run::new("", document))
    }

    fn replay(
        &self,
        db: &Db,
        dir: &Path,
        device: Option<Arc<Device>>,
        trace: Trace,
    ) -> Result<Document, Failure> {
        let keyspace = crate::store::find_keyspace(db, "default")?;
        let engine = EvenkeelEngine { db: db.clone(), keyspace, dir: dir.to_path_buf(), device };
        let mut config = engine_config(&self.engine, &db.options(), &engine.keyspace);
        config.insert("trace".to_owned(), self.file.display().to_string().into());
        let profile = Profile::of(&trace);
        let threads = self.threads.map_or(profile.threads.len().clamp(1, THREADS_MAX), usize::from);
        let (hashed, missed) = (trace.keys == Keys::Hashed, trace.missed);
        let replayer = Replayer {
            engines: profile.engines(&engine, &trace)?,
            values: Values::new(profile.value_bytes_max as usize, 1),
            trace,
            db: db.clone(),
        };
        let pace = if self.as_fast_as_possible { Pace::AsFastAsPossible } else { Pace::Speed(self.speed) };
        let progress = BenchProgress::default();
        let done = recorded::run(&engine, &replayer, pace, threads, &progress);
        progress.clear();
        let (outcome, replay) = done.map_err(|error| Failure::work(error.to_string()))?;
        let data = Dataset { records: outcome.records, ..profile.dataset() };
        let plan = Plan {
            workload: &TRACE,
            data,
            filled: true,
            ops: None,
            seconds: None,
            warm_seconds: None,
            settles: true,
            threads,
            distribution: TRACE.distribution,
            seed: 0,
            load: None,
        };
        let replay = Replay { hashed, missed, ..replay };
        Ok(Document::of_replay(&engine, &plan, &outcome, replay, config))
    }
}

/// What the operations of a trace have in common.
#[derive(Default)]
struct Profile {
    threads: BTreeSet<u64>,
    keyspaces: BTreeSet<u64>,
    puts: u64,
    key_bytes: u64,
    value_bytes: u64,
    value_bytes_max: u64,
}

impl Profile {
    fn of(trace: &Trace) -> Profile {
        let mut profile = Profile::default();
        for operation in trace.iter() {
            profile.threads.insert(operation.thread);
            match operation.action {
                Action::Get { keyspace, .. } | Action::Scan { keyspace, .. } => {
                    profile.keyspaces.insert(keyspace);
                }
                Action::Write(changes) => changes.iter().for_each(|change| profile.add(change)),
            }
        }
        profile
    }

    fn add(&mut self, change: &Change<'_>) {
        let (Change::Put { keyspace, .. }
        | Change::Delete { keyspace, .. }
        | Change::DeleteRange { keyspace, .. }) = change;
        self.keyspaces.insert(*keyspace);
        if let Change::Put { key, value_bytes, .. } = change {
            self.puts += 1;
            self.key_bytes += key.len() as u64;
            self.value_bytes += value_bytes;
            self.value_bytes_max = self.value_bytes_max.max(*value_bytes);
        }
    }

    /// What the records look like in the mean.
    fn dataset(&self) -> Dataset {
        let mean = |bytes: u64| bytes.checked_div(self.puts).unwrap_or(0) as usize;
        Dataset {
            records: 0,
            key_bytes: mean(self.key_bytes),
            value_bytes: mean(self.value_bytes).into(),
            order: KeyOrder::Random,
            seed: 0,
            deleted: true,
        }
    }

    /// The keyspaces of the recorded names, by their recorded numbers; those that are missing are made.
    fn engines(
        &self,
        engine: &EvenkeelEngine,
        trace: &Trace,
    ) -> Result<HashMap<u64, EvenkeelEngine>, Failure> {
        let EvenkeelEngine { db, dir, device, .. } = engine;
        let named = |id: &u64| {
            let name = trace.keyspace_name(*id);
            let keyspace = match db.keyspace(&name) {
                Some(keyspace) => keyspace,
                None => {
                    let made = db.create_keyspace(&name, KeyspaceOptions::default())?;
                    note(&format!("keel: made the keyspace `{name}`"));
                    made
                }
            };
            Ok((*id, EvenkeelEngine { db: db.clone(), keyspace, dir: dir.clone(), device: device.clone() }))
        };
        self.keyspaces.iter().map(named).collect()
    }
}

/// A trace, and the store that its operations go to.
struct Replayer {
    trace: Trace,
    engines: HashMap<u64, EvenkeelEngine>,
    values: Values,
    db: Db,
}

impl Replayer {
    fn engine(&self, keyspace: u64) -> Result<&EvenkeelEngine, EngineError> {
        self.engines.get(&keyspace).ok_or_else(|| format!("there is no keyspace {keyspace}").into())
    }

    /// The end of a range delete. Hashed keys have no order, so only the first key goes.
    fn end<'a>(&self, from: &[u8], to: &'a [u8]) -> std::borrow::Cow<'a, [u8]> {
        match self.trace.keys {
            Keys::Plain => to.into(),
            Keys::Hashed => [from, b"\0"].concat().into(),
        }
    }

    fn change(&self, n: u64, change: &Change<'_>) -> Result<(OpKind, u64), EngineError> {
        match *change {
            Change::Put { keyspace, key, value_bytes } => {
                self.engine(keyspace)?.put(key, self.values.of_length(n, value_bytes as usize))?;
                Ok((OpKind::Update, key.len() as u64 + value_bytes))
            }
            Change::Delete { keyspace, key } => {
                self.engine(keyspace)?.delete(key)?;
                Ok((OpKind::Delete, key.len() as u64))
            }
            Change::DeleteRange { keyspace, from, to } => {
                self.engine(keyspace)?.delete_range(from, &self.end(from, to))?;
                Ok((OpKind::DeleteRange, (from.len() + to.len()) as u64))
            }
        }
    }

    fn batch(&self, n: u64, changes: &[Change<'_>]) -> Result<(OpKind, u64), EngineError> {
        let (mut batch, mut bytes) = (WriteBatch::new(), 0);
        for (i, change) in (0..).zip(changes) {
            match *change {
                Change::Put { keyspace, key, value_bytes } => {
                    let value = self.values.of_length(n + i, value_bytes as usize);
                    batch.put_in(&self.engine(keyspace)?.keyspace, key, value);
                    bytes += key.len() as u64 + value_bytes;
                }
                Change::Delete { keyspace, key } => {
                    batch.delete_in(&self.engine(keyspace)?.keyspace, key);
                    bytes += key.len() as u64;
                }
                Change::DeleteRange { keyspace, from, to } => {
                    batch.delete_range_in(&self.engine(keyspace)?.keyspace, from, &self.end(from, to));
                    bytes += (from.len() + to.len()) as u64;
                }
            }
        }
        self.db.write(batch)?;
        Ok((OpKind::Transaction, bytes))
    }

    fn reads(&self, keyspace: u64, keys: &[&[u8]]) -> Result<(OpKind, u64), EngineError> {
        let keyspace = &self.engine(keyspace)?.keyspace;
        let found = match keys {
            [key] => keyspace.get(key)?.map_or(0, |value| value.len()),
            keys => keyspace.multi_get(keys)?.iter().flatten().map(|value| value.len()).sum(),
        };
        Ok((OpKind::Read, (keys.iter().map(|key| key.len()).sum::<usize>() + found) as u64))
    }
}

impl Recorded for Replayer {
    type Operation<'a> = Operation<'a>;

    fn operations(&self) -> u64 {
        self.trace.len() as u64
    }

    fn start_nanos(&self, n: u64) -> u64 {
        self.trace.start_nanos(n as usize).unwrap_or(0)
    }

    fn nanos(&self) -> u64 {
        self.trace.nanos
    }

    fn get(&self, n: u64) -> Result<Operation<'_>, EngineError> {
        self.trace.get(n as usize).ok_or_else(|| "the trace is over".into())
    }

    fn execute(&self, n: u64, operation: &Operation<'_>) -> Result<(OpKind, u64), EngineError> {
        match &operation.action {
            Action::Write(changes) => match &changes[..] {
                [change] => self.change(n, change),
                changes => self.batch(n, changes),
            },
            Action::Get { keyspace, keys } => self.reads(*keyspace, keys),
            Action::Scan { keyspace, from, entries, down } => {
                let (engine, limit) = (self.engine(*keyspace)?, *entries as usize);
                match down {
                    true => Ok((OpKind::ScanDown, engine.scan_down(from, limit)?.bytes)),
                    false => Ok((OpKind::Scan, engine.scan(from, limit)?.bytes)),
                }
            }
        }
    }

    fn live(&self) -> Result<Scanned, EngineError> {
        let mut live = Scanned::default();
        for name in self.db.keyspaces() {
            let Some(keyspace) = self.db.keyspace(&name) else { continue };
            let mut cursor = keyspace.cursor(ScanRange::all().fill_cache(false))?;
            cursor.seek_to_first()?;
            while cursor.valid() {
                live.entries += 1;
                live.bytes += (cursor.key().len() + cursor.value().len()) as u64;
                cursor.next()?;
            }
        }
        Ok(live)
    }
}

/// A number above 0 that times can be divided by.
fn factor(text: &str) -> Result<f64, String> {
    let factor = text.parse::<f64>().ok().filter(|factor| *factor >= 1e-6 && *factor <= 1e6);
    factor.ok_or_else(|| "give a number from 0.000001 to 1000000; 2 is twice as fast".to_owned())
}
