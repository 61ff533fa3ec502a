//! Opening the store a command line names, and saying clearly why it cannot be opened.
//!
//! Verbs that read never create a store, and no verb creates one among files that are not a store's: a wrong `--db` must
//! not leave traces.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use evenkeel::fs::{Device, DiskFileSystem, FileSystem as _};
use evenkeel::{Builder, Db, Durability, Error, Event, Keyspace, KeyspaceOptions, Options, ScanRange};
use evenkeel_lab::base::clock;

use crate::device;
use crate::escape::{one_line, unescape};
use crate::failure::Failure;
use crate::files::{Place, look};
use crate::output::{Output, note};

/// Which store and which part of it: flags of every verb.
#[derive(Args, Debug)]
pub struct Target {
    /// Directory of the store, where the verb works on one.
    #[arg(long, global = true, value_name = "DIR", help_heading = "Store")]
    pub db: Option<PathBuf>,
    /// Keyspace (column family) to work on, where the verb works on one.
    #[arg(long, global = true, value_name = "NAME", default_value = "default", help_heading = "Store")]
    pub keyspace: String,
}

impl Target {
    /// Refuses `--keyspace` with a verb that is about no single one.
    pub fn without_keyspace(&self, verb: &str) -> Result<(), Failure> {
        match self.keyspace.as_str() {
            "default" => Ok(()),
            _ => Err(Failure::usage(format!("`keel {verb}` takes no --keyspace"))),
        }
    }
}

/// How the store is opened: flags of the verbs that write. They hold for this command; a store that it makes remembers them.
#[derive(Args, Clone, Debug, Default)]
pub struct EngineArgs {
    /// When a write counts as done: `os` (handed to the operating system), `interval:MS` (so, and on disk soon after MS
    /// milliseconds), `sync` (on disk), or `no-wal` (in memory; for keyspaces without a log, and the only one for them).
    #[arg(long, value_name = "MODE", help_heading = "Engine")]
    pub sync: Option<String>,
    /// How the tree is compacted: a name of `keel strategy list`, or a strategy's text.
    #[arg(long, value_name = "NAME", help_heading = "Engine")]
    pub strategy: Option<String>,
    /// When background work may run: a name of `keel schedule list`, with its rate or knobs, like fixed:50MiB or silk.
    #[arg(long, value_name = "NAME", help_heading = "Engine")]
    pub schedule: Option<String>,
    /// An option of the engine, for instance memtable_bytes=4MiB. May be given several times. All these hold for this command
    /// only: `keel option set`, `strategy set` and `schedule set` change a store for good. One that is made here remembers them.
    #[arg(long = "set", value_name = "OPTION=VALUE", help_heading = "Engine")]
    pub set: Vec<String>,
    /// What is said is for good.
    #[arg(skip)]
    pub remember: bool,
    /// The store answers at its control socket meanwhile, unless `--set` says otherwise: for verbs that take long.
    #[arg(skip)]
    pub answers: bool,
    /// What the files lie on, if not the disk as it is.
    #[arg(skip)]
    pub device: Option<Arc<Device>>,
}

/// Flags of the verbs that only look.
#[derive(Args, Debug, Default)]
pub struct ReadArgs {
    /// Look at the store without opening it for writing: takes no lock, changes no byte, and works beside a process that has it open.
    #[arg(long, help_heading = "Store")]
    pub read_only: bool,
}

impl ReadArgs {
    /// Opens a store that exists, to look at one keyspace of it.
    pub fn open(&self, target: &Target) -> Result<Store, Failure> {
        let db = self.open_db(target)?;
        let keyspace = find_keyspace(&db, &target.keyspace)?;
        Ok(Store { db, keyspace, no_wal: false })
    }

    /// Opens a store that exists, to look at it.
    ///
    /// Nothing of it is changed, so no work is begun and no file comes or goes. Unless it was said that it is to be read beside
    /// its writer, there must be none, which would know better.
    pub fn open_db(&self, target: &Target) -> Result<Db, Failure> {
        let dir = existing(target)?;
        if !self.read_only && is_held(dir) {
            let hint = "--read-only shows it as it is now".to_owned();
            return Err(Failure::Locked { hint, dir: dir.to_path_buf() });
        }
        let builder = Db::builder(dir).create_if_missing(false).listener(Arc::new(tell_failure));
        match builder.clone().read_only(true).open() {
            // Its log does not fit into memory, or its tables into the table of open files: a writer needs neither.
            Err(error) if !self.read_only && is_too_large(&error) => Ok(builder.open()?),
            Err(error @ Error::Limit { .. }) => Err(Failure::work(format!(
                "{error}; `keel option set --db DIR memory_bytes SIZE` raises it, and any verb that writes empties the log"
            ))),
            opened => Ok(opened?),
        }
    }
}

/// Says what a store goes on without: options that are gone, for instance.
fn tell_failure(event: &Event) {
    if let Event::BackgroundError { error } = event {
        note(&format!("keel: {}", one_line(error)));
    }
}

/// True if a store is too large to be held as it is.
fn is_too_large(error: &Error) -> bool {
    match error {
        Error::Limit { .. } => true,
        // ENFILE, EMFILE: too many open files.
        Error::Io { source, .. } => matches!(source.raw_os_error(), Some(23 | 24)),
        _ => false,
    }
}

/// Whoever only looks has let go of a store's lock after so long.
const LOOK: Duration = Duration::from_millis(20);

/// True if a process has the store open. Where that cannot be told, as in a directory of somebody else, nobody of us has.
fn is_held(dir: &Path) -> bool {
    let lock = dir.join("LOCK");
    let fs = DiskFileSystem::new();
    let is_locked = || matches!(fs.lock(&lock), Err(Error::Locked { .. }));
    if !fs.exists(&lock).unwrap_or(false) || !is_locked() {
        return false;
    }
    // Who only looks, as we do here, has it for a moment.
    clock::pause(LOOK);
    is_locked()
}

/// Flags of the verbs that change something and have nothing to show for it.
#[derive(Args, Debug, Default)]
pub struct WriteArgs {
    /// Print the result as JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub engine: EngineArgs,
}

impl WriteArgs {
    /// Closes the store, and says that all went well to whoever wants JSON.
    pub fn done(&self, store: Store) -> Result<(), Failure> {
        store.close()?;
        done(self.json)
    }
}

/// Says that all went well to whoever wants JSON.
pub fn done(json: bool) -> Result<(), Failure> {
    if json { Output::new().line("{\"ok\":true}") } else { Ok(()) }
}

impl EngineArgs {
    /// The same, for a verb that takes long.
    pub fn answering(&self) -> EngineArgs {
        let said = self.set.iter().any(|set| set.trim_start().starts_with("control_socket"));
        EngineArgs { answers: !said, ..self.clone() }
    }

    /// The same on a device.
    pub fn on(&self, device: Option<Arc<Device>>) -> EngineArgs {
        EngineArgs { device, ..self.clone() }
    }

    /// What the flags say of the engine's options, by name, or what is wrong with them. An option that no flag names is what the
    /// store remembers.
    pub fn options(&self) -> Result<Vec<(String, String)>, Failure> {
        let mut options = Options::default();
        let mut named = Vec::new();
        if let Some(mode) = &self.sync {
            // What has no log has none whatever the store's default is.
            if parse_durability(mode)? != Durability::NoWal {
                named.push(("durability".to_owned(), mode.clone()));
            }
        }
        if let Some(strategy) = &self.strategy {
            check_strategy(strategy)?;
        }
        if let Some(schedule) = &self.schedule {
            check_schedule(schedule)?;
            named.push(("schedule".to_owned(), schedule.clone()));
        }
        let flags = named.len();
        for (name, value) in set_options(&mut options, &self.set)? {
            if name == "schedule" {
                check_schedule(&value)?;
            }
            // Of two `--set` the last one holds: other engines' child processes add the user's to what all have in common.
            if named.iter().take(flags).any(|(other, _)| *other == name) {
                return Err(Failure::usage(format!("{name} is said twice: leave out one of them")));
            }
            named.push((name, value));
        }
        Ok(named)
    }
}

/// Sets options as `--set OPTION=VALUE` says; answers names and values.
pub fn set_options(options: &mut Options, set: &[String]) -> Result<Vec<(String, String)>, Failure> {
    let one = |assignment: &String| {
        let Some((name, value)) = assignment.split_once('=') else {
            return Err(Failure::usage(format!("--set takes OPTION=VALUE, not `{assignment}`")));
        };
        let (name, value) = (name.trim(), value.trim());
        options.set(name, value).map_err(|error| Failure::usage(format!("--set {assignment}: {error}")))?;
        Ok((name.to_owned(), value.to_owned()))
    };
    set.iter().map(one).collect()
}

impl EngineArgs {
    /// True for `--sync no-wal`.
    fn no_wal(&self) -> bool {
        self.sync.as_deref() == Some("no-wal")
    }
}

fn parse_durability(mode: &str) -> Result<Durability, Failure> {
    mode.parse::<Durability>().map_err(|error| Failure::usage(format!("--sync {mode}: {error}")))
}

/// Refuses a strategy that does not exist or cannot be read.
pub fn check_strategy(text: &str) -> Result<(), Failure> {
    match evenkeel::strategy::parse(text) {
        Ok(_) => Ok(()),
        Err(error) => Err(Failure::usage(format!("{error}; `keel strategy list` shows what there is"))),
    }
}

/// Refuses a schedule that does not exist or cannot be read.
pub fn check_schedule(text: &str) -> Result<(), Failure> {
    evenkeel::schedule::check(text).map_err(|error| Failure::usage(error.to_string()))
}

/// An open store and the keyspace to work on.
pub struct Store {
    /// The store.
    pub db: Db,
    /// The part of it that was asked for.
    pub keyspace: Keyspace,
    /// Only keyspaces without a log are to be written to.
    no_wal: bool,
}

impl Store {
    /// Opens a store that exists, to write to it.
    pub fn open(target: &Target, args: &EngineArgs) -> Result<Store, Failure> {
        let db = open_db(target, args)?;
        let keyspace = find_keyspace(&db, &target.keyspace)?;
        Store::settle(db, keyspace, args)
    }

    /// Opens a store, or creates it.
    pub fn open_or_create(target: &Target, args: &EngineArgs) -> Result<Store, Failure> {
        let db = create_db(target, args)?;
        let keyspace = find_keyspace(&db, &target.keyspace)?;
        Store::settle(db, keyspace, args)
    }

    /// Opens a store, or creates it, and its keyspace as well.
    pub fn open_or_create_all(target: &Target, args: &EngineArgs) -> Result<Store, Failure> {
        let db = create_db(target, args)?;
        let keyspace = match db.keyspace(&target.keyspace) {
            Some(keyspace) => keyspace,
            None => {
                let strategy = args.strategy.clone();
                let options =
                    KeyspaceOptions { strategy, no_wal: args.no_wal(), ..KeyspaceOptions::default() };
                db.create_keyspace(&target.keyspace, options)?
            }
        };
        Store::settle(db, keyspace, args)
    }

    /// A strategy on the command line is for the keyspace on the command line. That of the default one was given to the open.
    fn settle(db: Db, keyspace: Keyspace, args: &EngineArgs) -> Result<Store, Failure> {
        if let Some(strategy) = args.strategy.as_ref().filter(|text| **text != keyspace.strategy_text()) {
            keyspace.set_strategy_for_now(strategy)?;
        }
        let store = Store { db, keyspace, no_wal: args.no_wal() };
        store.check_mode(&store.keyspace).map_err(Failure::from)?;
        match args.sync.as_deref().filter(|_| store.keyspace.no_wal() && !store.no_wal) {
            None => Ok(store),
            Some(mode) => Err(Failure::work(format!(
                "--sync {mode}: keyspace `{}` has no log, so only `--sync no-wal` can be promised",
                store.keyspace.name()
            ))),
        }
    }

    /// Refuses a keyspace with a log where `--sync no-wal` was asked for.
    pub fn check_mode(&self, keyspace: &Keyspace) -> Result<(), Error> {
        if self.no_wal && !keyspace.no_wal() {
            return Err(Error::InvalidArgument(format!(
                "--sync no-wal: keyspace `{}` has a log; `keel keyspace create --no-wal NAME` makes one without",
                keyspace.name()
            )));
        }
        Ok(())
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
pub fn open_db(target: &Target, args: &EngineArgs) -> Result<Db, Failure> {
    let options = args.options()?;
    Ok(builder(existing(target)?, target, args, &options).create_if_missing(false).open()?)
}

/// The directory of the store, which must exist.
pub fn existing(target: &Target) -> Result<&Path, Failure> {
    let dir = directory(target)?;
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
        Place::Store => Ok(dir),
    }
}

/// Opens the store itself, or creates it.
pub fn create_db(target: &Target, args: &EngineArgs) -> Result<Db, Failure> {
    let dir = directory(target)?;
    let options = args.options()?;
    match place(dir)? {
        Place::Nothing | Place::EmptyDirectory | Place::Store => {
            Ok(builder(dir, target, args, &options).open()?)
        }
        Place::OtherFiles => Err(Failure::work(format!(
            "{} is not a store and holds other files; give --db a new or empty directory",
            dir.display()
        ))),
        Place::NoDirectory => Err(no_directory(dir)),
    }
}

/// The default keyspace's strategy is given to the open; that of another one is set when it is found.
fn builder(dir: &Path, target: &Target, args: &EngineArgs, options: &[(String, String)]) -> Builder {
    let strategy = args.strategy.clone().filter(|_| target.keyspace == "default");
    let builder =
        Db::builder(dir).options(Options { strategy, ..Options::default() }).remember(args.remember);
    let builder = if args.answers { builder.control_socket(true) } else { builder };
    let builder = match &args.device {
        Some(device) => builder.file_system(device::file_system(device)),
        None => builder,
    };
    options.iter().fold(builder, |builder, (name, value)| builder.set(name, value))
}

pub fn directory(target: &Target) -> Result<&Path, Failure> {
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
