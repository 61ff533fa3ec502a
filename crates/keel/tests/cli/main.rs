//! The command, end to end: every test runs the binary as a script would. One suite a file.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking, in its helpers too")]

/// `compact` by level and interrupted, `load --sorted`.
mod background;
/// `bench`.
mod bench;
/// Comparisons of `bench`.
mod comparison;
/// `demo`.
mod demo;
/// `--device`.
mod device;
/// Durability modes.
mod durability;
/// Wrong calls, wrong directories, help.
mod errors;
/// CSV and NDJSON.
mod formats;
/// `kill -9` during loads.
#[cfg(unix)]
mod kill;
/// `kill -9` at the n-th call of a kind.
#[cfg(target_os = "linux")]
mod kill_calls;
/// `kill -9` amid preemptions.
#[cfg(unix)]
mod kill_preempted;
/// `lab`.
mod lab;
/// `stats`, `levels`, `explain`, `schedule`: of a store at rest and of one that another process has open.
mod observe;
/// `checkpoint`, `inspect`, `--read-only`.
mod operations;
/// Power cuts of a real file system.
#[cfg(target_os = "linux")]
mod power_cut;
/// `trace`.
mod record_replay;
/// `repair`.
mod repair;
/// What a store remembers of what it was opened with.
mod settings;
/// `shell`.
mod shell;
/// `sim`.
mod sim;
/// The order of system calls.
#[cfg(target_os = "linux")]
mod trace;
/// Seeds, figures and progress of the layers that `cargo xtask trust` runs.
#[cfg(unix)]
#[path = "../../../engine/tests/it/trust.rs"]
mod trust;
/// `load` and `dump`.
mod tsv;
/// `put get delete scan`, keyspaces, strategies and what inspects a store.
mod verbs;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A directory for one test, and the command in it.
struct Keel {
    dir: tempfile::TempDir,
}

/// What the command left behind.
#[derive(Debug)]
struct Done {
    code: i32,
    out: String,
    err: String,
}

impl Keel {
    fn new() -> Keel {
        Keel { dir: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn db(&self) -> PathBuf {
        self.path("db")
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.path(name);
        write_file(&path, content.as_ref());
        path.to_str().unwrap().to_owned()
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_keel"));
        command.args(args).env("TMPDIR", self.dir.path());
        command
    }

    /// Runs `keel ARGS`.
    fn bare(&self, args: &[&str]) -> Done {
        done(self.command(args).stdin(Stdio::null()).output().unwrap())
    }

    /// Runs `keel --db DIR ARGS`.
    fn run(&self, args: &[&str]) -> Done {
        self.feed(args, b"")
    }

    /// Runs `keel --db DIR ARGS` with this on stdin.
    fn feed(&self, args: &[&str], input: &[u8]) -> Done {
        let mut child = self
            .command(&[])
            .arg("--db")
            .arg(self.db())
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let input = input.to_vec();
        // The command may end before it has read everything.
        let feeder = std::thread::Builder::new().spawn(move || drop(stdin.write_all(&input))).unwrap();
        let output = child.wait_with_output().unwrap();
        feeder.join().unwrap();
        done(output)
    }

    /// Runs it, expects success, and gives stdout.
    fn ok(&self, args: &[&str]) -> String {
        self.run(args).ok()
    }
}

impl Done {
    #[track_caller]
    fn ok(self) -> String {
        assert_eq!((self.code, self.err.as_str()), (0, ""), "{self:?}");
        self.out
    }

    /// The same of a comparison, which says where its report is.
    #[track_caller]
    fn compared(self) -> String {
        let told = self.err.starts_with("keel: the report is ") && self.err.lines().count() == 1;
        assert!(self.code == 0 && told, "{self:?}");
        self.out
    }

    /// Expects this exit code and a one-line message that holds all of `parts`.
    #[track_caller]
    fn fails(&self, code: i32, parts: &[&str]) {
        assert_eq!(self.code, code, "{self:?}");
        assert_eq!(self.err.trim_end().lines().count(), 1, "{self:?}");
        assert!(self.err.starts_with("keel: "), "{self:?}");
        for part in parts {
            assert!(self.err.contains(part), "no `{part}` in {self:?}");
        }
    }
}

fn done(output: Output) -> Done {
    Done {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

/// What a command says that gets a signal once it is under way.
#[cfg(unix)]
fn signalled(command: &mut Command, signal: &str, under_way: impl Fn() -> bool) -> Done {
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    while !under_way() {
        assert!(child.try_wait().unwrap().is_none(), "it ended before it was under way");
        std::thread::yield_now();
    }
    let sent = Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    done(child.wait_with_output().unwrap())
}

#[expect(clippy::disallowed_methods, reason = "the test's own input")]
fn write_file(path: &Path, content: &[u8]) {
    std::fs::write(path, content).unwrap();
}

#[expect(clippy::disallowed_methods, reason = "the command's output")]
fn read_file(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

#[expect(clippy::disallowed_methods, reason = "damages a store on purpose")]
fn read_bytes(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap()
}

#[expect(clippy::disallowed_methods, reason = "damages a store on purpose")]
fn remove_file(path: &Path) {
    std::fs::remove_file(path).unwrap();
}

#[expect(clippy::disallowed_methods, reason = "looks at what the command left")]
fn list(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(dir)
        .unwrap()
        .map(|e| e.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

#[expect(clippy::disallowed_methods, reason = "the test's own directory")]
fn make_dir(path: &Path) {
    std::fs::create_dir_all(path).unwrap();
}
