//! `keel shell`: commands line by line from stdin, each answered on stdout once the store has acknowledged it.
//!
//! Scripts and crash tests drive the store through this, so an answer is a promise: it is flushed after the engine's
//! acknowledgement and never before. Lines of a batch are not answered; its `commit` is, once for the whole.

use std::collections::HashMap;
use std::io::{self, BufRead};
use std::time::Duration;

use evenkeel::background::Paused;
use evenkeel::trace::RunningTrace;
use evenkeel::{Error, Keyspace, Snapshot, WriteBatch};
use evenkeel_lab::base::clock;

use crate::device::DeviceArgs;
use crate::escape::{self, escape};
use crate::failure::Failure;
use crate::output::Output;
use crate::shell_command::{Command, parse};
use crate::store::{EngineArgs, Store, Target, range};
use crate::tracing::{TraceArgs, told};

/// See `keel shell --help`.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    trace: TraceArgs,
    #[command(flatten)]
    engine: EngineArgs,
    #[command(flatten)]
    device: DeviceArgs,
}

/// Shown below the help.
pub const EXAMPLES: &str = "\
Commands, one a line:
  put K V  get K  del K               answered by `ok`, `value V` or `none`
  delrange A B                        every key from A to below B
  batch, those lines, commit          one `ok` for the whole
  scan [FROM [TO]]  rscan [FROM [TO]] K<TAB>V lines, then `end N`
  snapshot NAME  get@NAME K  scan@NAME [FROM [TO]]  release NAME
  flush  pause  resume  compact [A B]  strategy NAME  schedule NAME  option NAME VALUE  use KEYSPACE
  stats  verify  sleep MS  quit
Bytes outside printable ASCII, and blanks, are \\xNN, a backslash \\\\, the empty string \\e.
An error answers `error KIND message`, and the shell goes on; the exit code says only whether all lines were taken. It is
1 if the last batch has no commit, or if nobody reads the answers.

Example:
  printf 'put apple 3\\nget apple\\n' | keel shell --db shop.db
  keel shell --db shop.db --trace today.trace < commands    records what the store was asked, to be replayed";

impl Args {
    /// Does it.
    pub fn run(&self, target: &Target) -> Result<(), Failure> {
        self.trace.check()?;
        let engine = self.engine.answering().on(self.device.emulated()?);
        let store = Store::open_or_create(target, &engine)?;
        let traced = self.trace.start(&store.db)?;
        let mut shell =
            Shell { store, snapshots: HashMap::new(), batch: None, paused: None, out: Output::new() };
        let mut input = io::stdin().lock();
        let mut line = Vec::new();
        let (mut quit, mut read_lines) = (false, 0u64);
        while !quit {
            line.clear();
            let read = input
                .read_until(b'\n', &mut line)
                .map_err(|error| Failure::work(format!("cannot read stdin: {error}")))?;
            if read == 0 {
                break;
            }
            read_lines += 1;
            quit = shell.take(&line).map_err(|failure| {
                failure.unread(|| format!("nobody reads the answers: stopped at line {read_lines}"))
            })?;
        }
        let Shell { store, snapshots, batch, mut out, .. } = shell;
        drop(snapshots);
        // The trace is only told about once all answers are given.
        let recorded = traced.map(RunningTrace::end);
        store.close()?;
        if let Some(recorded) = recorded {
            told(&recorded?);
        }
        if batch.is_some() {
            return Err(Failure::work("the last batch has no `commit`, and is not written"));
        }
        if quit { out.line("ok") } else { Ok(()) }
    }
}

struct Shell {
    store: Store,
    snapshots: HashMap<String, Snapshot>,
    batch: Option<Batch>,
    paused: Option<Paused>,
    out: Output,
}

/// A batch under construction.
#[derive(Default)]
struct Batch {
    writes: WriteBatch,
    /// The first line that was wrong; the batch answers with it and writes nothing.
    error: Option<Error>,
}

/// What a command answers, besides the lines it prints on its way.
type Answer = Result<String, Trouble>;

/// What stops a command: the store's error is an answer, a closed stdout ends the shell.
enum Trouble {
    Error(Error),
    Failure(Failure),
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Trouble {
        Trouble::Error(error)
    }
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Trouble {
        Trouble::Failure(failure)
    }
}

impl Shell {
    /// Takes a line; true if it was `quit`.
    fn take(&mut self, line: &[u8]) -> Result<bool, Failure> {
        let command = match parse(line) {
            Ok(None) => return Ok(false),
            Ok(Some(Command::Quit)) => return Ok(true),
            Ok(Some(command)) => Ok(command),
            Err(error) => Err(error),
        };
        let answer = match (&mut self.batch, command) {
            (_, Ok(Command::Commit)) => self.commit(),
            (Some(batch), command) => {
                let added = command.and_then(|command| batch.add(&mut self.store, command));
                if let Err(error) = added {
                    batch.error.get_or_insert(error);
                }
                return Ok(false);
            }
            (None, Ok(Command::Batch)) => {
                self.batch = Some(Batch::default());
                return Ok(false);
            }
            (None, Ok(command)) => self.execute(command),
            (None, Err(error)) => Err(error.into()),
        };
        match answer {
            Ok(answer) => self.out.line(&answer)?,
            Err(Trouble::Error(error)) => {
                let message = escape::one_line(&error.to_string());
                self.out.line(&format!("error {} {message}", error.kind()))?;
            }
            Err(Trouble::Failure(failure)) => return Err(failure),
        }
        Ok(false)
    }

    fn commit(&mut self) -> Answer {
        let Some(batch) = self.batch.take() else {
            return Err(
                Error::InvalidArgument("there is no batch to commit; `batch` begins one".to_owned()).into()
            );
        };
        if let Some(error) = batch.error {
            return Err(error.into());
        }
        self.store.db.write(batch.writes)?;
        ok()
    }

    fn execute(&mut self, command: Command) -> Answer {
        let keyspace = &self.store.keyspace;
        match command {
            Command::Put(key, value) => keyspace.put(&key, &value)?,
            Command::Del(key) => keyspace.delete(&key)?,
            Command::DelRange(from, to) => keyspace.delete_range(&from, &to)?,
            Command::Get(key) => return Ok(value(keyspace.get(&key)?.as_deref())),
            Command::Scan { from, to, reverse } => {
                let scan = keyspace.scan(range(from.as_ref(), to.as_ref()))?;
                return if reverse { print(&mut self.out, scan.rev()) } else { print(&mut self.out, scan) };
            }
            Command::Snapshot(name) => {
                if self.snapshots.contains_key(&name) {
                    let what = format!("there is a snapshot `{name}` already; `release {name}` first");
                    return Err(Error::InvalidArgument(what).into());
                }
                self.snapshots.insert(name, self.store.db.snapshot());
            }
            Command::GetAt(name, key) => {
                let found = snapshot(&self.snapshots, &name)?.get_in(keyspace, &key)?;
                return Ok(value(found.as_deref()));
            }
            Command::ScanAt(name, from, to) => {
                let range = range(from.as_ref(), to.as_ref());
                let scan = snapshot(&self.snapshots, &name)?.scan_in(keyspace, range)?;
                return print(&mut self.out, scan);
            }
            Command::Release(name) => {
                snapshot(&self.snapshots, &name)?;
                self.snapshots.remove(&name);
            }
            Command::Flush => keyspace.flush()?,
            Command::Pause => {
                if self.paused.is_some() {
                    let what = "background work is paused already; `resume` lets it go on";
                    return Err(Error::InvalidArgument(what.to_owned()).into());
                }
                self.paused = Some(self.store.db.pause_background()?);
            }
            Command::Resume => match self.paused.take() {
                Some(paused) => paused.resume(),
                None => {
                    return Err(Error::InvalidArgument("background work is not paused".to_owned()).into());
                }
            },
            Command::Compact(from, to) => keyspace.compact_range(range(from.as_ref(), to.as_ref()))?,
            Command::Strategy(text) => keyspace.set_strategy(&text)?,
            Command::Schedule(text) => self.store.db.set_schedule(&text)?,
            Command::Option(name, value) => self.store.db.set_option(&name, &value)?,
            Command::Use(name) => self.store.keyspace = find(&self.store, &name)?,
            Command::Stats => return Ok(self.store.figures()?.to_string()),
            Command::Verify => {
                self.store.db.verify()?;
            }
            Command::Sleep(millis) => clock::pause(Duration::from_millis(millis)),
            // Taken care of before a command gets here.
            Command::Batch | Command::Commit | Command::Quit => {}
        }
        ok()
    }
}

impl Batch {
    fn add(&mut self, store: &mut Store, command: Command) -> Result<(), Error> {
        match command {
            Command::Put(key, value) => self.writes.put_in(&store.keyspace, &key, &value),
            Command::Del(key) => self.writes.delete_in(&store.keyspace, &key),
            Command::DelRange(from, to) => self.writes.delete_range_in(&store.keyspace, &from, &to),
            Command::Use(name) => store.keyspace = find(store, &name)?,
            _ => {
                let what =
                    "a batch takes put, del, delrange and use until its commit; this one is not written";
                return Err(Error::InvalidArgument(what.to_owned()));
            }
        }
        Ok(())
    }
}

fn ok() -> Answer {
    Ok("ok".to_owned())
}

fn value(value: Option<&[u8]>) -> String {
    value.map_or_else(|| "none".to_owned(), |value| format!("value {}", escape::escaped(value)))
}

fn find(store: &Store, name: &str) -> Result<Keyspace, Error> {
    let found = store.db.keyspace(name).ok_or_else(|| {
        let there = store.db.keyspaces().join(" ");
        Error::InvalidArgument(format!("there is no keyspace `{name}`; there are: {there}"))
    })?;
    store.check_mode(&found)?;
    Ok(found)
}

fn snapshot<'a>(snapshots: &'a HashMap<String, Snapshot>, name: &str) -> Result<&'a Snapshot, Error> {
    let missing =
        || Error::InvalidArgument(format!("there is no snapshot `{name}`; `snapshot {name}` takes one"));
    snapshots.get(name).ok_or_else(missing)
}

fn print(out: &mut Output, scan: impl Iterator<Item = evenkeel::Result<(Vec<u8>, Vec<u8>)>>) -> Answer {
    let mut count = 0u64;
    let mut line = Vec::new();
    for record in scan {
        let (key, value) = record?;
        line.clear();
        escape(&key, &mut line);
        line.push(b'\t');
        escape(&value, &mut line);
        line.push(b'\n');
        out.bytes(&line)?;
        count += 1;
    }
    Ok(format!("end {count}"))
}
