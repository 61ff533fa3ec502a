//! The table of steps that CI runs, and the loop that runs them: each with its name and time, up to the first that fails.
//!
//! ```text
//! lock fmt tidy packages licences deny │ clippy clippy-plain docs │ test-debug test-release loom loom-db shuttle asan memcheck instructions
//!              seconds                        minutes                         minutes
//! ```
//!
//! What fails fast stands first. A step runs cargo, is a layer of `cargo xtask trust`, or is a check written here.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::instructions;
use crate::packages;
use crate::tidy::tree;
use crate::trust::layers::{self, Layer};
use crate::trust::run::{self as trust, run_layer};

/// One step.
pub struct Step {
    /// What it is called on the command line.
    pub name: &'static str,
    /// What it makes sure of.
    pub about: &'static str,
    action: Action,
}

/// How a step is done.
enum Action {
    /// Cargo with these words and these variables in its environment.
    Cargo { args: &'static [&'static str], env: &'static [(&'static str, &'static str)] },
    /// A layer of `cargo xtask trust`, as short as in `cargo test`.
    Layer(Layer),
    /// A check of our own.
    Check(fn(&Path) -> Outcome),
}

/// What a step comes to; an error is a sentence.
type Outcome = Result<Done, String>;

/// How a step ended well.
pub enum Done {
    /// It was done; what is worth saying about it.
    Yes(String),
    /// It could not be done here, and why.
    Skipped(String),
}

const fn cargo(
    name: &'static str,
    about: &'static str,
    args: &'static [&'static str],
    env: &'static [(&'static str, &'static str)],
) -> Step {
    Step { name, about, action: Action::Cargo { args, env } }
}

const fn check(name: &'static str, about: &'static str, check: fn(&Path) -> Outcome) -> Step {
    Step { name, about, action: Action::Check(check) }
}

const fn layer(layer: Layer) -> Step {
    Step { name: layer.name, about: layer.about, action: Action::Layer(layer) }
}

/// All steps, in the order of `cargo xtask ci`.
pub const STEPS: &[Step] = &[
    check("lock", "Cargo.lock says what the manifests say", lock),
    cargo("fmt", "the code is formatted", &["fmt", "--all", "--check"], &[]),
    check("tidy", "floors, circles, headers, lengths, words", tidy),
    check("packages", "the library takes in at most 20 packages and builds no C", core_packages),
    check("licences", "every package comes from crates.io under a licence that deny.toml allows", licences),
    check("deny", "cargo-deny agrees: licences, bans, sources", deny),
    cargo(
        "clippy",
        "no warning in anything, tests and the feature `testing` included",
        &["clippy", "--workspace", "--all-targets", "--features", "evenkeel/testing", "--", "-D", "warnings"],
        &[],
    ),
    cargo(
        "clippy-plain",
        "no warning in what is shipped, without the feature `testing`",
        &["clippy", "--workspace", "--lib", "--bins", "--", "-D", "warnings"],
        &[],
    ),
    cargo(
        "docs",
        "the documentation builds and its links lead somewhere",
        &["doc", "--workspace", "--no-deps"],
        &[("RUSTDOCFLAGS", "-D warnings")],
    ),
    cargo("test-debug", "all tests, with every invariant checked", &["test"], &[]),
    check(
        "test-release",
        "all tests optimised, with zstd, and the tree's model for a million steps",
        test_release,
    ),
    layer(layers::LOOM),
    layer(layers::LOOM_DB),
    layer(layers::SHUTTLE),
    layer(layers::ASAN),
    layer(layers::MEMCHECK),
    check("instructions", "no operation takes more instructions than is recorded", instruction_counts),
];

/// The recorded counts of instructions.
const RECORDED: &str = "crates/engine/instructions.toml";

/// The project's root.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}

/// Runs the steps in order, up to the first that fails.
pub fn run(steps: &[&Step], root: &Path) -> Result<(), String> {
    let start = Instant::now();
    let mut summary = Vec::new();
    for step in steps {
        println!("==> {}: {}", step.name, step.about);
        let began = Instant::now();
        let outcome = match &step.action {
            Action::Cargo { args, env } => run_cargo(root, args, env),
            Action::Layer(layer) => trust_layer(root, layer),
            Action::Check(check) => check(root),
        };
        let took = seconds(began.elapsed());
        let line = match outcome {
            Ok(Done::Yes(note)) if note.is_empty() => format!("{:<14} {took}", step.name),
            Ok(Done::Yes(note)) => format!("{:<14} {took}  {note}", step.name),
            Ok(Done::Skipped(why)) => format!("{:<14} SKIPPED: {why}", step.name),
            Err(why) => return Err(format!("step {} failed after {}: {why}", step.name, took.trim())),
        };
        println!("<== {line}\n");
        summary.push(line);
    }
    if steps.len() > 1 {
        println!("{}\n{:<14} {}", summary.join("\n"), "all", seconds(start.elapsed()));
    }
    Ok(())
}

fn seconds(time: Duration) -> String {
    format!("{:7.1} s", time.as_secs_f64())
}

/// Cargo, the same that runs this.
fn cargo_command(root: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root);
    command
}

fn run_cargo(root: &Path, args: &[&str], env: &[(&str, &str)]) -> Outcome {
    let line = format!("cargo {}", args.join(" "));
    let settings: Vec<String> = env.iter().map(|(name, value)| format!("{name}=\"{value}\" ")).collect();
    println!("    {}{line}", settings.concat());
    let status = cargo_command(root).args(args).envs(env.iter().copied()).status();
    match status {
        Ok(status) if status.success() => Ok(Done::Yes(String::new())),
        Ok(status) => Err(format!("`{line}` ended with {status}")),
        Err(error) => Err(format!("`{line}` cannot be started: {error}")),
    }
}

/// What cargo prints on its standard output.
fn cargo_output(root: &Path, args: &[&str]) -> Result<String, String> {
    let line = format!("cargo {}", args.join(" "));
    let output = cargo_command(root).args(args).stderr(Stdio::inherit()).output();
    match output {
        Ok(output) if output.status.success() => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        Ok(output) => Err(format!("`{line}` ended with {}", output.status)),
        Err(error) => Err(format!("`{line}` cannot be started: {error}")),
    }
}

fn lock(root: &Path) -> Outcome {
    cargo_output(root, &["metadata", "--locked", "--format-version", "1"])?;
    Ok(Done::Yes(String::new()))
}

fn tidy(root: &Path) -> Outcome {
    let sources = tree::read(root).map_err(|error| format!("the files cannot be read: {error}"))?;
    let findings = tree::check(&sources);
    for finding in &findings {
        println!("{finding}");
    }
    match findings.len() {
        0 => Ok(Done::Yes(format!("{} files", sources.len()))),
        n => Err(format!("{n} findings, listed above")),
    }
}

fn core_packages(root: &Path) -> Outcome {
    let args = [
        "tree",
        "-p",
        "evenkeel",
        "-e",
        "normal,build",
        "--prefix",
        "none",
        "--locked",
        "--format",
        "{p}|{l}",
    ];
    let count = packages::check_core(&cargo_output(root, &args)?)?;
    Ok(Done::Yes(format!("{count} packages")))
}

fn licences(root: &Path) -> Outcome {
    let deny =
        std::fs::read_to_string(root.join("deny.toml")).map_err(|error| format!("deny.toml: {error}"))?;
    let args = [
        "tree",
        "--workspace",
        "--all-features",
        "-e",
        "normal,build,dev",
        "--target",
        "all",
        "--prefix",
        "none",
        "--locked",
        "--format",
        "{p}|{l}",
    ];
    let count = packages::check_licences(&cargo_output(root, &args)?, &deny)?;
    Ok(Done::Yes(format!("{count} packages")))
}

/// The feature `zstd` is off by default so that nobody needs a C compiler; so this step does without where there is none.
/// The profile is `release` but for the optimisation at link time, which takes longer than the tests.
fn test_release(root: &Path) -> Outcome {
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let there = Command::new(&compiler).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    let has_compiler = there.is_ok_and(|status| status.success());
    let mut args = vec!["test", "--profile", "trust"];
    if has_compiler {
        args.extend(["--features", "keel/zstd"]);
    }
    run_cargo(root, &args, &[("EVENKEEL_TWIN_SEEDS", "1000"), ("EVENKEEL_TWIN_STEPS", "1000")])?;
    Ok(Done::Yes(if has_compiler {
        String::new()
    } else {
        format!("there is no C compiler `{}`: zstd was NOT tested", compiler.to_string_lossy())
    }))
}

fn trust_layer(root: &Path, layer: &Layer) -> Outcome {
    match run_layer(layer, None, None, root)? {
        trust::Outcome::Right(line) => Ok(Done::Yes(line)),
        trust::Outcome::Skipped(why) => Ok(Done::Skipped(why)),
        trust::Outcome::Wrong { last, .. } => {
            last.iter().for_each(|line| println!("{line}"));
            Err("it says what is printed above".to_owned())
        }
    }
}

/// Counts, and compares with what is recorded for this architecture.
fn instruction_counts(root: &Path) -> Outcome {
    if !instructions::can_count() {
        return Ok(Done::Skipped("valgrind is not installed (apt-get install valgrind)".to_owned()));
    }
    let recorded = recorded_instructions(root)?;
    let architecture = std::env::consts::ARCH;
    let Some(recorded) = recorded.iter().find(|section| section.architecture == architecture) else {
        return Ok(Done::Skipped(format!(
            "no counts are recorded for {architecture}: record them with --record"
        )));
    };
    let (table, worse) = instructions::compare(&recorded.counts, &instructions::count(&counted(root)?)?);
    print!("{table}");
    let compiler = compiler()?;
    if compiler != recorded.compiler {
        println!("recorded with {}, counted with {compiler}", recorded.compiler);
    }
    instructions::judge(&worse)?;
    Ok(Done::Yes(String::new()))
}

/// Counts, and records that.
///
/// # Errors
/// Why that cannot be done here.
pub fn record_instructions(root: &Path) -> Result<(), String> {
    if !instructions::can_count() {
        return Err("valgrind is not installed (apt-get install valgrind)".to_owned());
    }
    let counts = instructions::count(&counted(root)?)?;
    let recorded = recorded_instructions(root)?;
    let section = instructions::Section {
        architecture: std::env::consts::ARCH.to_owned(),
        compiler: compiler()?,
        counts,
    };
    let before = recorded.iter().find(|old| old.architecture == section.architecture);
    let (table, _) = instructions::compare(before.map_or(&[], |old| &old.counts), &section.counts);
    print!("{table}");
    let text = instructions::recorded(recorded, section);
    std::fs::write(root.join(RECORDED), text).map_err(|error| format!("{RECORDED}: {error}"))
}

fn recorded_instructions(root: &Path) -> Result<Vec<instructions::Section>, String> {
    let text = match std::fs::read_to_string(root.join(RECORDED)) {
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
        text => text.map_err(|error| format!("{RECORDED}: {error}"))?,
    };
    instructions::parse(&text).map_err(|what| format!("{RECORDED}: {what}"))
}

/// Builds the program that is counted, and says where it is.
fn counted(root: &Path) -> Result<PathBuf, String> {
    let args = [
        "build",
        "--release",
        "-p",
        "evenkeel",
        "--example",
        "instructions",
        "--message-format",
        "json-render-diagnostics",
    ];
    let messages = cargo_output(root, &args)?;
    let program =
        messages.lines().rev().find_map(|line| line.split_once("\"executable\":\"")?.1.split('"').next());
    program
        .map(PathBuf::from)
        .ok_or_else(|| "cargo does not say where the program is that it built".to_owned())
}

/// `rustc 1.95.0`.
fn compiler() -> Result<String, String> {
    let output =
        Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into())).arg("--version").output();
    let output = output.map_err(|error| format!("rustc cannot be started: {error}"))?;
    let said = String::from_utf8_lossy(&output.stdout);
    Ok(said.split_whitespace().take(2).collect::<Vec<_>>().join(" "))
}

fn deny(root: &Path) -> Outcome {
    let quiet =
        cargo_command(root).args(["deny", "--version"]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !quiet.is_ok_and(|status| status.success()) {
        return Ok(Done::Skipped(
            "cargo-deny is not installed (cargo install --locked cargo-deny)".to_owned(),
        ));
    }
    run_cargo(root, &["deny", "check", "licenses", "bans", "sources"], &[])
}
