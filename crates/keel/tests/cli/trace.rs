//! What the kernel was asked, in which order: `keel shell --sync sync` under strace.
//!
//! ```text
//! put      … fdatasync(log) returns 0 ─► write(stdout, "ok")
//! flush    fdatasync(table) ─► fsync(directory) ─► write(manifest) ─► fdatasync(manifest) ─► "ok"
//! compact  the same for its outputs ─► unlink(inputs)
//! ```
//! One command is sent after the answer to the one before, so what lies between two answers belongs to the second. A log is
//! written through a mapping, which makes no system call: that the sync covers the write shows by its beginning after the
//! command came; that nothing is acknowledged and then lost is the simulated disk's test.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::shell::Shell;
use crate::{Keel, read_file};

const CALLS: &str = "trace=open,openat,creat,write,pwrite64,pwritev,pwritev2,fdatasync,fsync,rename,renameat,renameat2,\
                     unlink,unlinkat,msync,sync_file_range";

/// A system call: when it began and ended, by line of the trace.
#[derive(Debug)]
struct Call {
    begun: usize,
    ended: usize,
    name: String,
    /// All of its arguments as strace prints them, with the path of each descriptor.
    args: String,
    /// What it returned, for instance `0` or `-1 EIO (…)`.
    result: String,
}

impl Call {
    fn is(&self, names: &[&str], path: &str) -> bool {
        names.contains(&self.name.as_str()) && self.args.contains(path)
    }

    fn is_sync(&self, path: &str) -> bool {
        self.is(&["fdatasync", "fsync"], path) && self.result == "0"
    }

    fn is_write(&self, path: &str) -> bool {
        self.is(&["write", "pwrite64", "pwritev", "pwritev2"], path)
    }

    fn is_unlink(&self, path: &str) -> bool {
        self.is(&["unlink", "unlinkat"], path)
    }

    fn is_ok(&self) -> bool {
        self.name == "write" && self.args.starts_with("1<") && self.args.contains("\"ok\\n\"")
    }

    /// The number in the name of the table that the call is about.
    fn table(&self) -> Option<String> {
        let end = self.args.find(".sst")?;
        let digits: String = self.args[..end].chars().rev().take_while(char::is_ascii_digit).collect();
        Some(digits.chars().rev().collect())
    }
}

/// Reads a trace of several threads: `PID name(args) = result`, possibly in two lines, `<unfinished ...>` and `resumed>`.
fn parse(trace: &str) -> Vec<Call> {
    let mut calls: Vec<Call> = Vec::new();
    let mut open: Vec<(&str, usize)> = Vec::new();
    for (at, line) in trace.lines().enumerate() {
        let Some((pid, rest)) = line.trim().split_once(' ') else { continue };
        let rest = rest.trim_start();
        let (text, result) = rest.rsplit_once(" = ").unwrap_or((rest, ""));
        if let Some((_, more)) = rest.split_once(" resumed>") {
            // What is resumed without having begun was passed over.
            let Some(place) = open.iter().position(|(p, _)| *p == pid) else { continue };
            let call = &mut calls[open.swap_remove(place).1];
            call.ended = at;
            call.args += more.rsplit_once(')').map_or(more, |(more, _)| more);
            call.result = result.to_owned();
            continue;
        }
        // Libraries and settings of the system are none of our files.
        if rest.starts_with("open") && !rest.contains("/db/") {
            continue;
        }
        // Signals and ends of threads have no parenthesis behind a name.
        let Some((name, args)) =
            text.split_once('(').filter(|(n, _)| n.chars().all(|c| c.is_alphanumeric() || c == '_'))
        else {
            continue;
        };
        let unfinished = args.contains("<unfinished ...>");
        if unfinished {
            open.push((pid, calls.len()));
        }
        let args = args.trim_end().trim_end_matches("<unfinished ...>").trim_end_matches(')');
        let ended = if unfinished { usize::MAX } else { at };
        calls.push(Call {
            begun: at,
            ended,
            name: name.to_owned(),
            args: args.to_owned(),
            result: result.to_owned(),
        });
    }
    calls
}

/// The first call that passes, begun after line `after`.
#[track_caller]
fn next<'a>(calls: &'a [Call], after: usize, what: &str, pass: impl Fn(&Call) -> bool) -> &'a Call {
    let found = calls.iter().filter(|c| c.begun > after && c.ended != usize::MAX).find(|c| pass(c));
    found.unwrap_or_else(|| panic!("no {what} after line {after} of\n{}", show(calls)))
}

fn show(calls: &[Call]) -> String {
    calls.iter().fold(String::new(), |mut out, c| {
        let _ = writeln!(out, "{:5}..{:<5} {}({}) = {}", c.begun, c.ended, c.name, c.args, c.result);
        out
    })
}

/// True if strace is here and may trace.
pub fn can_trace() -> bool {
    let quiet = |command: &mut Command| command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    quiet(Command::new("strace").args(["-o", "/dev/null", "true"])).is_ok_and(|status| status.success())
}

/// Runs a shell under strace and sends it lines, each after the answer to the one before. The trace, once it has ended.
fn traced(keel: &Keel, lines: &[&str]) -> String {
    let file = keel.path("trace.txt");
    let mut command = Command::new("strace");
    command.args(["-f", "-y", "-s", "32", "-e", CALLS, "-o"]).arg(&file).arg(env!("CARGO_BIN_EXE_keel"));
    command.args(["shell", "--sync", "sync", "--set", "workers=1", "--db"]).arg(keel.db());
    let mut shell = Shell::spawn(command);
    for line in lines {
        assert_eq!(shell.ask(line), "ok", "{line}");
    }
    shell.wait();
    read_file(Path::new(&file))
}

#[test]
fn nothing_is_acknowledged_or_removed_before_its_sync() {
    if !can_trace() {
        let loud = "SKIP: strace is not here or may not trace; the order of system calls is NOT TESTED";
        writeln!(std::io::stdout(), "{loud}").unwrap();
        return;
    }
    let keel = Keel::new();
    let script = [
        "put a 1", "put b 2", "flush", "put b 3", "put c 4", "del a", "flush", "compact", "put d 5",
        "put e 6", "quit",
    ];
    let trace = traced(&keel, &script);
    let calls = parse(&trace);
    let answers: Vec<&Call> = calls.iter().filter(|c| c.is_ok()).collect();
    assert_eq!(answers.len(), script.len(), "{}", show(&calls));

    let writes = check_acknowledgements(&calls, &answers, &script);
    let (made, removed) = check_tables(&calls);
    assert!(made >= 3 && removed >= 2, "{made} tables made, {removed} removed:\n{}", show(&calls));
    assert_eq!(keel.ok(&["dump"]), "b\t3\nc\t4\nd\t5\ne\t6\n");
    writeln!(
        std::io::stdout(),
        "TRACE calls={} acknowledged_writes={writes} each after its log's sync, tables_made={made} tables_removed={removed} \
         in the order data, directory, manifest, unlink",
        calls.len()
    )
    .unwrap();
}

/// Between an answer and the one before it lies a whole sync of the log, for a write, or of the manifest, for a flush or
/// compaction that made a table.
fn check_acknowledgements(calls: &[Call], answers: &[&Call], script: &[&str]) -> usize {
    let mut before = 0;
    let mut writes = 0;
    for (answer, line) in answers.iter().zip(script) {
        let file = match line.split(' ').next() {
            Some("put" | "del") => ".log>",
            Some("flush" | "compact") => "MANIFEST-",
            _ => continue,
        };
        let sync = next(calls, before, &format!("sync of {file} for `{line}`"), |c| c.is_sync(file));
        assert!(sync.ended < answer.begun, "`{line}` is answered before {sync:?}:\n{}", show(calls));
        writes += usize::from(file == ".log>");
        before = answer.ended;
    }
    writes
}

/// For each table made: its data, then the directory, then the manifest that names it. For each table removed: a manifest
/// that is on the disk and was written after every table made before. Answers how many were made and removed.
fn check_tables(calls: &[Call]) -> (usize, usize) {
    let directory = |c: &Call| c.is(&["fsync", "fdatasync"], "/db>") && c.result == "0";
    let manifest = |c: &Call| c.is_write("MANIFEST-");
    let made: Vec<&Call> = calls
        .iter()
        .filter(|c| c.name.starts_with("open") && c.args.contains("O_CREAT") && c.table().is_some())
        .collect();
    let mut named_by = Vec::new();
    for create in &made {
        let number = create.table().expect("filtered for it");
        let name = format!("{number}.sst");
        let last_write =
            calls.iter().filter(|c| c.is_write(&name)).map(|c| c.ended).max().expect("a table has bytes");
        let data =
            next(calls, last_write, &format!("sync of {name} behind its last byte"), |c| c.is_sync(&name));
        let entry = next(calls, data.ended, "sync of the directory", directory);
        // Nothing else goes on, so the first record since the table was begun is the one that names it.
        let record = next(calls, create.ended, "record in the manifest", manifest);
        assert!(record.begun > entry.ended, "{record:?} before {entry:?}:\n{}", show(calls));
        let durable = next(calls, record.ended, "sync of the manifest", |c| c.is_sync("MANIFEST-"));
        named_by.push((create.begun, record.begun, durable.ended));
    }
    let removed: Vec<&Call> = calls.iter().filter(|c| c.is_unlink(".sst") && c.result == "0").collect();
    for unlink in &removed {
        let newest = named_by
            .iter()
            .filter(|(made, ..)| *made < unlink.begun)
            .max()
            .expect("outputs before inputs go");
        assert!(newest.2 < unlink.begun, "{unlink:?} before the manifest of {newest:?}:\n{}", show(calls));
    }
    (made.len(), removed.len())
}

#[test]
fn a_trace_of_two_threads_is_read_as_it_happened() {
    let calls = parse(
        "10 fdatasync(4</d/000003.log> <unfinished ...>\n\
         11 write(1<pipe:[7]>, \"ok\\n\", 3) = 3\n\
         10 <... fdatasync resumed>)         = 0\n\
         11 --- SIGCHLD {si_signo=SIGCHLD} ---\n\
         11 +++ exited with 0 +++\n",
    );
    assert_eq!(calls.len(), 2, "{}", show(&calls));
    assert!(calls[0].is_sync(".log>") && calls[1].is_ok());
    assert_eq!((calls[0].begun, calls[0].ended, calls[1].begun), (0, 2, 1));
    // This is the order that must never be.
    let caught = std::panic::catch_unwind(|| check_acknowledgements(&calls, &[&calls[1]], &["put a 1"]));
    assert!(caught.is_err());
}
