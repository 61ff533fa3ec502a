//! Opening the store a command line names, and saying clearly why it cannot be opened.
//!
//! Verbs that read never create a store, and no verb creates one among files that are not a store's: a wrong `--db` must
//! not leave traces.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use clap::Args;
use evenkeel::{Db, Durability, Keyspace, KeyspaceOptions, Options, ScanRange};

use crate::escape::unescape;
use crate::failure::Failure;
use crate::files::{Place, look};

/// Which store and which part of it: flags of every verb.
#[derive(Args, Debug)]
pub struct Target {
    /// Directory of the store.
    #[arg(long, global = true, value_name = "DIR", help_heading = "Store")]
    pub db: Option<PathBuf>,
    /// Keyspace (column family) to work on.
    #[arg(long, global = true, value_name = "NAME", default_value = "default", help_heading = "Store")]
    pub keyspace: String,
}

/// How the store is opened: flags of the verbs that write.
#[derive(Args, Debug, Default)]
pub struct EngineArgs {
    /// When a write counts as done: `sync` (on disk) or `os` (handed to the operating system).
    #[arg(long, value_name = "MODE", help_heading = "Engine")]
    pub sync: Option<String>,
    /// How the tree is compacted: a name of `keel strategy list`, or a strategy's text.
    #[arg(long, value_name = "NAME", help_heading = "Engine")]
    pub strategy: Option<String>,
    /// When background work may run: `unlimited`, or `fixed:RATE` in bytes per second, like fixed:50MiB.
    #[arg(long, value_name = "NAME", help_heading = "Engine")]
    pub schedule: Option<String>,
    /// An option of the engine, for instance memtable_bytes=4MiB. May be given several times.
    #[arg(long = "set", value_name = "OPTION=VALUE", help_heading = "Engine")]
    pub set: Vec<String>,
}

impl EngineArgs {
    /// The engine's options, or what is wrong with the flags.
    pub fn options(&self) -> Result<Options, Failure> {
        let mut options = Options::default();
        if let Some(mode) = &self.sync {
            options.durability = parse_durability(mode)?;
        }
        if let Some(strategy) = &self.strategy {
            check_strategy(strategy)?;
        }
        if let Some(schedule) = &self.schedule {
            check_schedule(schedule)?;
            options.schedule.clone_from(schedule);
        }
        for assignment in &self.set {
            let Some((name, value)) = assignment.split_once('=') else {
                return Err(Failure::usage(format!("--set takes OPTION=VALUE, not `{assignment}`")));
            };
            options.set(name.trim(), value.trim()).map_err(|error| {
                let known: Vec<&str> = Options::names().iter().map(|option| option.name).collect();
                match known.contains(&name.trim()) {
                    true => Failure::usage(format!("--set {assignment}: {error}")),
                    false => Failure::usage(format!(
                        "--set {assignment}: {error} The options are: {}",
                        known.join(" ")
                    )),
                }
            })?;
        }
        Ok(options)
    }
}

fn parse_durability(mode: &str) -> Result<Durability, Failure> {
    mode.parse::<Durability>().map_err(|error| Failure::usage(format!("--sync {mode}: {error}")))
}

/// Refuses a strategy that does not exist or cannot be read.
pub fn check_strategy(text: &str) -> Result<(), Failure> {
    match evenkeel::strategy::parse(text) {
        Ok(_) => Ok(()),
        Err(error) => Err(Failure::usage(format!(
            "strategy `{text}`: {error}; `keel strategy list` shows what there is"
        ))),
    }
}

fn check_schedule(text: &str) -> Result<(), Failure> {
    evenkeel::schedule::check(text).map_err(|error| Failure::usage(error.to_string()))
}

/// An open store and the keyspace to work on.
pub struct Store {
    /// The store.
    pub db: Db,
    /// The part of it that was asked for.
    pub keyspace: Keyspace,
}

impl Store {
    /// Opens a store that exists, to look at it.
    pub fn open(target: &Target) -> Result<Store, Failure> {
        Store::open_with(target, &EngineArgs::default())
    }

    /// Opens a store that exists, to write to it.
    pub fn open_with(target: &Target, args: &EngineArgs) -> Result<Store, Failure> {
        let db = open_db(target, args.options()?)?;
        let keyspace = find_keyspace(&db, &target.keyspace)?;
        Store::settle(db, keyspace, args)
    }

    /// Opens a store, or creates it.
    pub fn open_or_create(target: &Target, args: &EngineArgs) -> Result<Store, Failure> {
        let db = create_db(target, args.options()?)?;
        let keyspace = find_keyspace(&db, &target.keyspace)?;
        Store::settle(db, keyspace, args)
    }

    /// Opens a store, or creates it, and its keyspace as well.
    pub fn open_or_create_all(target: &Target, args: &EngineArgs) -> Result<Store, Failure> {
        let db = create_db(target, args.options()?)?;
        let keyspace = match db.keyspace(&target.keyspace) {
            Some(keyspace) => keyspace,
            None => db.create_keyspace(&target.keyspace, KeyspaceOptions::default())?,
        };
        Store::settle(db, keyspace, args)
    }

    /// A strategy on the command line is for the keyspace on the command line, whatever the store remembers.
    fn settle(db: Db, keyspace: Keyspace, args: &EngineArgs) -> Result<Store, Failure> {
        if let Some(strategy) = &args.strategy {
            keyspace.set_strategy(strategy)?;
        }
        Ok(Store { db, keyspace })
    }

    /// The engine's figures.
    pub fn figures(&self) -> Result<serde_json::Value, Failure> {
        let json = self.db.metrics().to_json();
        serde_json::from_str(&json)
            .map_err(|error| Failure::work(format!("the engine's figures are not JSON: {error}")))
    }

    /// Closes the store; what could not be kept is an error here.
    pub fn close(self) -> Result<(), Failure> {
        drop(self.keyspace);
        self.db.close().map_err(Failure::from)
    }
}

/// The keyspace of this name.
pub fn find_keyspace(db: &Db, name: &str) -> Result<Keyspace, Failure> {
    db.keyspace(name).ok_or_else(|| {
        let there = db.keyspaces().join(" ");
        Failure::work(format!(
            "there is no keyspace `{name}` (there are: {there}); `keel keyspace create` makes one"
        ))
    })
}

/// Opens the store itself; it must exist.
pub fn open_db(target: &Target, mut options: Options) -> Result<Db, Failure> {
    let dir = directory(target)?;
    options.create_if_missing = false;
    let missing = |what: &str| {
        Err(Failure::work(format!(
            "{} {what}; `keel put --db {0} KEY VALUE` or `keel load --db {0} FILE` creates a store",
            dir.display()
        )))
    };
    match place(dir)? {
        Place::Nothing => missing("does not exist"),
        Place::EmptyDirectory => missing("is an empty directory, not a store"),
        Place::OtherFiles => Err(Failure::work(format!(
            "{} is not a store: it holds other files only; `keel put --db NEW_DIR KEY VALUE` creates a store elsewhere",
            dir.display()
        ))),
        Place::NoDirectory => Err(no_directory(dir)),
        Place::Store => Ok(Db::open(dir, options)?),
    }
}

/// Opens the store itself, or creates it.
pub fn create_db(target: &Target, mut options: Options) -> Result<Db, Failure> {
    let dir = directory(target)?;
    options.create_if_missing = true;
    match place(dir)? {
        Place::Nothing | Place::EmptyDirectory | Place::Store => Ok(Db::open(dir, options)?),
        Place::OtherFiles => Err(Failure::work(format!(
            "{} is not a store and holds other files; give --db a new or empty directory",
            dir.display()
        ))),
        Place::NoDirectory => Err(no_directory(dir)),
    }
}

fn directory(target: &Target) -> Result<&Path, Failure> {
    target.db.as_deref().ok_or_else(|| Failure::usage("say which store: --db DIR"))
}

fn place(dir: &Path) -> Result<Place, Failure> {
    look(dir).map_err(|error| Failure::work(format!("cannot look into {}: {error}", dir.display())))
}

fn no_directory(dir: &Path) -> Failure {
    Failure::work(format!("{} is not a directory; give --db the directory of a store", dir.display()))
}

/// The bytes of an argument: as typed, or unescaped.
pub fn bytes(argument: &OsStr, escaped: bool) -> Result<Vec<u8>, Failure> {
    let bytes = argument.as_encoded_bytes();
    if !escaped {
        return Ok(bytes.to_vec());
    }
    unescape(bytes).map_err(|what| Failure::usage(format!("`{}`: {what}", argument.to_string_lossy())))
}

/// The range of two optional bounds.
pub fn range(from: Option<&Vec<u8>>, to: Option<&Vec<u8>>) -> ScanRange {
    ScanRange::new(from.map(Vec::as_slice), to.map(Vec::as_slice))
}
