//! A run of a comparison as a process: this command again for evenkeel, `keel-peers` for the others, with the same flags.
//!
//! What the user typed is passed on as it is, but for the flags of comparisons and of engines; so a flag that says what to
//! measure reaches every engine, or is refused by it, and is never dropped on the way.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use evenkeel_lab::results::comparison::{Run, disturbance};
use evenkeel_lab::results::document::Document;
use evenkeel_lab::results::settings::{Common, Settings};

use crate::child;
use crate::device::DeviceArgs;
use crate::failure::Failure;
use crate::store::EngineArgs;

/// Flags that say how to compare, where to, or are an engine's own; with whether a value follows.
const NOT_PASSED_ON: [(&str, bool); 16] = [
    ("--engine", true),
    ("--settings", true),
    ("--rounds", true),
    ("--peers", true),
    ("--json", true),
    ("--report", true),
    ("--db", true),
    ("--keyspace", true),
    ("--keep", false),
    ("--sync", true),
    ("--strategy", true),
    ("--schedule", true),
    ("--set", true),
    ("--device", true),
    ("--device-latency-us", true),
    ("--device-size", true),
];

/// A run is repeated at most so often because it was disturbed; then it counts, and is marked.
pub const REPEATS_MAX: u32 = 2;

/// A process that measures one engine.
#[derive(Clone, Debug)]
pub struct Process {
    program: PathBuf,
    arguments: Vec<OsString>,
}

/// Why a process gave no document.
pub struct Broken {
    message: String,
    usage: bool,
}

impl Broken {
    /// As the failure of the whole command.
    pub fn of(self, engine: &str) -> Failure {
        let message = match self.message.starts_with(engine) {
            true => self.message,
            false => format!("{engine}: {}", self.message),
        };
        if self.usage { Failure::usage(message) } else { Failure::work(message) }
    }
}

/// The least disturbed of the attempts, the first that is not; repeated at most so often.
pub fn least_disturbed(
    settings: Settings,
    repeats_max: u32,
    mut attempt: impl FnMut(u32) -> Result<Document, Failure>,
) -> Result<Run, Failure> {
    let mut best: Option<Run> = None;
    for repeats in 0..=repeats_max {
        let mut document = attempt(repeats)?;
        document.config.engine.insert("settings".to_owned(), settings.name().into());
        let run = Run { settings: settings.name().to_owned(), repeats, document };
        let calm = !run.disturbed();
        let disturbed = |run: &Run| disturbance(&run.document);
        best = match best.take() {
            Some(known) if disturbed(&known) <= disturbed(&run) => Some(Run { repeats, ..known }),
            _ => Some(run),
        };
        if calm {
            break;
        }
    }
    best.ok_or_else(|| Failure::work("there was no run"))
}

impl Process {
    /// What it is started with, but for the directory.
    pub fn arguments(&self) -> Vec<String> {
        self.arguments.iter().map(|word| word.to_string_lossy().into_owned()).collect()
    }

    /// What is started.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// Has it say whether it can do what is asked, in a directory that is not there yet.
    pub fn check(&self, dir: &Path) -> Result<(), Broken> {
        let mut asked = self.clone();
        asked.arguments.push("--only-check".into());
        match asked.output(dir)? {
            output if output.status.success() => Ok(()),
            output => Err(asked.failed(&output)),
        }
    }

    /// Runs it in a directory, and expects that it dies of a signal.
    pub fn run_to_death(&self, dir: &Path) -> Result<(), Broken> {
        match self.output(dir)? {
            output if output.status.code().is_none() => Ok(()),
            output => Err(self.failed(&output)),
        }
    }

    fn output(&self, dir: &Path) -> Result<Output, Broken> {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).arg("--db").arg(dir).args(["--json", "-"]).stdin(Stdio::null());
        child::output(&mut command).map_err(|error| Broken {
            message: format!("cannot start {}: {error}", self.program.display()),
            usage: false,
        })
    }

    /// What a process said that did not do what it was started for.
    fn failed(&self, output: &Output) -> Broken {
        let said = String::from_utf8_lossy(&output.stderr);
        // The last line says why; what is before it are notes. A parser's words go on with how to get help.
        let parsed = said.lines().find(|line| line.starts_with("error: "));
        let last = parsed.or(said.trim_end().lines().last()).unwrap_or_default();
        let message = last.split_once(": ").map_or(last, |(_, message)| message);
        Broken {
            message: match message {
                "" => format!("{} ended with {}", self.program.display(), output.status),
                message => message.to_owned(),
            },
            usage: output.status.code() == Some(2),
        }
    }

    /// Runs it in a directory that is not there yet, or holds a store that it is told to use.
    pub fn run(&self, dir: &Path) -> Result<Document, Broken> {
        let output = self.output(dir)?;
        if !output.status.success() {
            return Err(self.failed(&output));
        }
        serde_json::from_slice(&output.stdout).map_err(|error| Broken {
            message: format!("{} gave no document: {error}", self.program.display()),
            usage: false,
        })
    }
}

/// This command again, with these words.
pub fn again(words: &[String]) -> Result<Process, Failure> {
    let program = std::env::current_exe()
        .map_err(|error| Failure::work(format!("cannot find this command to start it again: {error}")))?;
    Ok(Process { program, arguments: words.iter().map(OsString::from).collect() })
}

/// What the user typed and every process gets.
pub fn typed() -> Vec<OsString> {
    passed_on(std::env::args_os().skip(1))
}

/// The process that measures evenkeel.
pub fn ours(
    mut arguments: Vec<OsString>,
    settings: Settings,
    set: &[String],
    own: &[String],
    options: &EngineArgs,
    device: &DeviceArgs,
) -> Result<Process, Failure> {
    let program = std::env::current_exe()
        .map_err(|error| Failure::work(format!("cannot find this command to start it again: {error}")))?;
    let mut flag = |name: &str, value: &str| arguments.extend([OsString::from(name), OsString::from(value)]);
    for (name, value) in
        [("--sync", &options.sync), ("--strategy", &options.strategy), ("--schedule", &options.schedule)]
    {
        if let Some(value) = value {
            flag(name, value);
        }
    }
    if let Some(bytes_per_sec) = device.bytes_per_sec() {
        flag("--device", &bytes_per_sec.to_string());
    }
    if let Some(latency) = device.latency_us() {
        flag("--device-latency-us", &latency.to_string());
    }
    if options.sync.as_deref() == Some("no-wal") {
        // The default keyspace has a log.
        flag("--keyspace", "bench");
    }
    for (name, value) in in_our_words(&common(set, settings)?, settings) {
        flag("--set", &format!("{name}={value}"));
    }
    own.iter().for_each(|assignment| flag("--set", assignment));
    Ok(Process { program, arguments })
}

/// The process that measures another engine.
pub fn peer(
    program: &Path,
    mut arguments: Vec<OsString>,
    engine: &str,
    settings: Settings,
    set: &[String],
    options: &EngineArgs,
) -> Process {
    let mut flag = |name: &str, value: &str| arguments.extend([OsString::from(name), OsString::from(value)]);
    flag("--engine", engine);
    flag("--settings", settings.name());
    if let Some(sync) = &options.sync {
        flag("--sync", sync);
    }
    set.iter().for_each(|assignment| flag("--set", assignment));
    Process { program: program.to_owned(), arguments }
}

fn common(set: &[String], settings: Settings) -> Result<Common, Failure> {
    let mut common = Common::default();
    for (name, value) in set.iter().filter_map(|assignment| assignment.split_once('=')) {
        common.set(name.trim(), value.trim()).map_err(Failure::usage)?;
        Common::check(name.trim(), settings).map_err(Failure::usage)?;
    }
    Ok(common)
}

/// The common settings as evenkeel's options.
fn in_our_words(common: &Common, settings: Settings) -> Vec<(&'static str, String)> {
    let memory = [
        ("memtable_bytes", common.memtable_bytes),
        ("memtables", common.memtables),
        ("cache_bytes", common.cache_bytes),
        // Room for one memtable that is being allocated, and for what else grows.
        ("memory_bytes", common.memory_bytes() + common.memtable_bytes + (64 << 20)),
    ];
    let alike = [
        ("block_bytes", common.block_bytes),
        ("filter_bits", common.filter_bits),
        // Flushes have a thread of their own.
        ("workers", common.background_threads - 1),
    ];
    let numbers = |rows: &[(&'static str, u64)]| -> Vec<(&'static str, String)> {
        rows.iter().map(|(name, value)| (*name, value.to_string())).collect()
    };
    let mut words = numbers(&memory);
    if settings == Settings::Equal {
        words.extend(numbers(&alike));
        words.push(("compression", "none".to_owned()));
    }
    words
}

/// The command that measures the other engines: as named, or where it is built.
pub fn find_peers(named: Option<&Path>) -> Result<PathBuf, Failure> {
    let from_environment =
        || std::env::var_os("KEEL_PEERS").filter(|path| !path.is_empty()).map(PathBuf::from);
    let path = named.map(Path::to_owned).or_else(from_environment).unwrap_or_else(|| {
        Path::new("peers/target/release").join(format!("keel-peers{}", std::env::consts::EXE_SUFFIX))
    });
    // A name without a folder would be looked for among the system's commands.
    let path = if path.components().count() == 1 { Path::new(".").join(path) } else { path };
    if path.is_file() {
        return Ok(path);
    }
    Err(Failure::work(format!(
        "{} is not there: other engines are built apart, by `apt-get install clang libclang-dev` and `cd peers && cargo \
         build --release`; or say where it is with --peers or KEEL_PEERS",
        path.display()
    )))
}

/// The arguments of the user that every process gets.
fn passed_on(arguments: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut passed = Vec::new();
    let mut arguments = arguments;
    while let Some(argument) = arguments.next() {
        let text = argument.to_string_lossy();
        let flag = NOT_PASSED_ON.iter().find(|(name, _)| {
            text.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
        });
        match flag {
            Some((name, true)) if argument == OsStr::new(name) => drop(arguments.next()),
            Some(_) => {}
            None => passed.push(argument),
        }
    }
    passed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_says_what_to_measure_is_passed_on() {
        let typed = "--db d bench ycsb-a --engine evenkeel --engine=fjall --records 10k --rate=5k --settings both --keep \
                     --rounds 5 --sync os --set cache_bytes=1MiB --set=workers=2 --json - --settingsx 7 --device 1M --device-latency-us=5 --device-size 1G --seed 1";
        let passed = passed_on(typed.split_whitespace().map(OsString::from));
        assert_eq!(
            passed.join(OsStr::new(" ")),
            "bench ycsb-a --records 10k --rate=5k --settingsx 7 --seed 1"
        );
    }

    #[test]
    fn equal_settings_are_all_in_our_words() {
        let set = ["background_threads=3".to_owned(), "memtable_bytes=8MiB".to_owned()];
        let Err(Failure::Usage(refused)) = common(&set, Settings::Recommended) else { panic!("it is taken") };
        assert!(refused.contains("background_threads") && refused.contains("--settings equal"), "{refused}");
        let common = common(&set, Settings::Equal).unwrap();
        let equal = in_our_words(&common, Settings::Equal);
        for (name, value) in &equal {
            let mut options = evenkeel::Options::default();
            options.set(name, value).unwrap();
        }
        assert!(
            equal.contains(&("workers", "2".to_owned()))
                && equal.contains(&("compression", "none".to_owned()))
        );
        assert!(
            in_our_words(&common, Settings::Recommended)
                .iter()
                .all(|(name, _)| name.starts_with("mem") || *name == "cache_bytes")
        );
    }

    #[test]
    fn a_command_that_is_not_there_says_how_to_build_it() {
        let Err(Failure::Work(message)) = find_peers(Some(Path::new("none/keel-peers"))) else {
            panic!("it is there")
        };
        for part in ["none/keel-peers", "apt-get install clang", "cargo build --release", "KEEL_PEERS"] {
            assert!(message.contains(part), "no `{part}` in {message}");
        }
    }
}
