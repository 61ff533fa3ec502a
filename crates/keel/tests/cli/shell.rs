//! `keel shell`: the grammar, line by line, and that answers come when they are due.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::Keel;

/// A running shell that is asked one line at a time.
pub struct Shell {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Shell {
    pub fn start(keel: &Keel, args: &[&str]) -> Shell {
        let mut command = keel.command(&[&["shell"], args].concat());
        command.arg("--db").arg(keel.db());
        Shell::spawn(command)
    }

    /// Starts whatever runs a shell.
    pub fn spawn(mut command: Command) -> Shell {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Shell { child, input, output }
    }

    pub fn say(&mut self, line: &str) {
        writeln!(self.input, "{line}").unwrap();
    }

    /// Sends a line and waits for its answer, which must come without another line.
    pub fn ask(&mut self, line: &str) -> String {
        self.say(line);
        let mut answer = String::new();
        self.output.read_line(&mut answer).unwrap();
        answer.trim_end_matches('\n').to_owned()
    }

    /// Waits for its end, which it must have been asked for.
    pub fn wait(mut self) {
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a conversation: lines sent, and all that is answered.
fn check(keel: &Keel, lines: &str, answers: &str) {
    let done = keel.feed(&["shell"], lines.as_bytes());
    assert_eq!(done.out, answers, "{done:?}");
    assert_eq!((done.code, done.err.as_str()), (0, ""));
}

#[test]
fn records_and_scans() {
    let keel = Keel::new();
    check(
        &keel,
        "put a 1\nput b\\x20c two\\x0alines\nput \\e \\e\n\nget a\nget b\\x20c\nget \\e\nget none\ndel a\nget a\n",
        "ok\nok\nok\nvalue 1\nvalue two\\x0alines\nvalue \\e\nnone\nok\nnone\n",
    );
    check(&keel, "put b 2\nput c 3", "ok\nok\n");
    check(&keel, "scan\n", "\\e\t\\e\nb\t2\nb\\x20c\ttwo\\x0alines\nc\t3\nend 4\n");
    check(&keel, "scan b\nscan b c\nscan d\nscan c b\n", {
        "b\t2\nb\\x20c\ttwo\\x0alines\nc\t3\nend 3\nb\t2\nb\\x20c\ttwo\\x0alines\nend 2\nend 0\nend 0\n"
    });
    check(&keel, "rscan \\e b\\x20c\nrscan c\n", "b\t2\n\\e\t\\e\nend 2\nc\t3\nend 1\n");
}

#[test]
fn batches_are_answered_once_and_whole() {
    let keel = Keel::new();
    keel.ok(&["keyspace", "create", "other"]);
    check(&keel, "batch\nput a 1\nput b 2\ndel a\ncommit\nget a\nget b\n", "ok\nnone\nvalue 2\n");
    check(&keel, "batch\nput c 3\nuse other\nput c 4\ncommit\nget c\nuse default\nget c\n", {
        "ok\nvalue 4\nok\nvalue 3\n"
    });
    check(
        &keel,
        "batch\nput r1 1\nput r2 2\ndelrange r1 r3\nput r2 3\ncommit\nget r1\nget r2\n",
        "ok\nnone\nvalue 3\n",
    );
    check(&keel, "batch\ncommit\n", "ok\n");
    // One wrong line, and nothing of the batch is written.
    for wrong in ["put x", "get a", "batch", "use nowhere", "delrange a", "nonsense"] {
        let lines = format!("batch\nput d 5\n{wrong}\nput e 6\ncommit\nget d\nget e\n");
        let done = keel.feed(&["shell"], lines.as_bytes());
        let answers: Vec<&str> = done.out.lines().collect();
        assert_eq!(answers.len(), 3, "{wrong}: {done:?}");
        assert!(answers[0].starts_with("error InvalidArgument "), "{wrong}: {done:?}");
        assert_eq!(answers[1..], ["none", "none"], "{wrong}");
    }
    // A batch without commit is not written, and that is said.
    for end in ["", "quit\n"] {
        let done = keel.feed(&["shell"], format!("get f\nbatch\nput f 7\n{end}").as_bytes());
        assert_eq!(done.out, "none\n");
        done.fails(1, &["no `commit`", "not written"]);
    }
    check(&keel, "get f\n", "none\n");
}

#[test]
fn ranges_are_deleted_at_once() {
    let keel = Keel::new();
    let lines = "put a 1\nput b 2\nput c 3\nput d 4\nsnapshot s\ndelrange b d\nput c 5\nscan\nrscan\nscan@s b d\nget b\nget@s b\n";
    check(&keel, lines, {
        "ok\nok\nok\nok\nok\nok\nok\na\t1\nc\t5\nd\t4\nend 3\nd\t4\nc\t5\na\t1\nend 3\nb\t2\nc\t3\nend 2\nnone\nvalue 2\n"
    });
    // In tables, after another open, and compacted: the same.
    check(&keel, "flush\nscan\ncompact\nscan\nverify\n", {
        "ok\na\t1\nc\t5\nd\t4\nend 3\nok\na\t1\nc\t5\nd\t4\nend 3\nok\n"
    });
    // Empty ranges are legal.
    check(
        &keel,
        "delrange d d\ndelrange d a\nscan d\ndelrange \\e \\xff\nscan\n",
        "ok\nok\nd\t4\nend 1\nok\nend 0\n",
    );
}

#[test]
fn snapshots_keep_what_was() {
    let keel = Keel::new();
    keel.ok(&["keyspace", "create", "other"]);
    check(
        &keel,
        "put a 1\nsnapshot s\nput a 2\nput b 3\nget@s a\nget@s b\nscan@s\nscan@s b\nscan\nrelease s\n",
        "ok\nok\nok\nok\nvalue 1\nnone\na\t1\nend 1\nend 0\na\t2\nb\t3\nend 2\nok\n",
    );
    check(&keel, "use other\nput a x\nsnapshot t\nput a y\nget@t a\nuse default\nget@t a\n", {
        "ok\nok\nok\nok\nvalue x\nok\nvalue 2\n"
    });
    let done = keel.feed(&["shell"], b"get@s a\nrelease s\nsnapshot s\nsnapshot s\n");
    let kinds: Vec<&str> = done.out.lines().map(|l| l.rsplitn(2, "Argument ").last().unwrap()).collect();
    assert_eq!(kinds, ["error Invalid", "error Invalid", "ok", "error Invalid"], "{done:?}");
}

#[test]
fn the_store_s_own_verbs() {
    let keel = Keel::new();
    check(
        &keel,
        "put a 1\nflush\ncompact\ncompact a b\nstrategy full\nschedule fixed:10MiB\nschedule unlimited\nsleep 1\nverify\nget a\nquit\nput b 2\n",
        "ok\nok\nok\nok\nok\nok\nok\nok\nok\nvalue 1\nok\n",
    );
    check(&keel, "get b\n", "none\n");
    let stats = keel.feed(&["shell"], b"stats\n").ok();
    assert_eq!(stats.lines().count(), 1);
    assert!(
        serde_json::from_str::<serde_json::Value>(&stats).unwrap()["files"]["live"].is_number(),
        "{stats}"
    );
}

#[test]
fn an_error_is_an_answer_and_the_shell_goes_on() {
    let keel = Keel::new();
    for (line, answer) in [
        ("put a", "error InvalidArgument "),
        ("fly", "error InvalidArgument "),
        ("get \\q", "error InvalidArgument "),
        ("commit", "error InvalidArgument "),
        ("use nowhere", "error InvalidArgument "),
        ("strategy no-such", "error InvalidArgument "),
        ("delrange a", "error InvalidArgument "),
        ("schedule silky", "error InvalidArgument "),
    ] {
        let done = keel.feed(&["shell"], format!("{line}\nget a\n").as_bytes());
        let (first, rest) = done.out.split_once('\n').unwrap();
        assert!(first.starts_with(answer), "{line}: {done:?}");
        assert_eq!((rest, done.code), ("none\n", 0), "{line}");
    }
}

#[test]
fn each_answer_comes_before_the_next_line_is_needed() {
    let keel = Keel::new();
    let mut shell =
        Shell::start(&keel, &["--sync", "sync", "--strategy", "full", "--set", "memtable_bytes=1MiB"]);
    for i in 0..50 {
        assert_eq!(shell.ask(&format!("put k{i} {i}")), "ok");
    }
    shell.say("batch");
    shell.say("put x 1");
    assert_eq!(shell.ask("commit"), "ok");
    // Acknowledged is kept, whatever happens to the process.
    shell.child.kill().unwrap();
    shell.child.wait().unwrap();
    assert_eq!(keel.ok(&["get", "x"]), "1\n");
    assert_eq!(keel.ok(&["scan"]).lines().count(), 51);
}

#[test]
fn a_closed_stdin_is_the_end() {
    let keel = Keel::new();
    assert_eq!(keel.feed(&["shell"], b"").ok(), "");
    assert_eq!(keel.feed(&["shell"], b"put a 1").ok(), "ok\n");
}

#[test]
fn background_work_is_paused_and_resumed() {
    let keel = Keel::new();
    let lines = "put a 1\npause\npause\nput b 2\nflush\ncompact\nget b\nresume\nresume\nflush\ncompact\nget a\nquit\n";
    let out = keel.feed(&["shell"], lines.as_bytes()).ok();
    let answers: Vec<&str> = out.lines().collect();
    let kinds: Vec<String> =
        answers.iter().map(|line| line.split(' ').take(2).collect::<Vec<_>>().join(" ")).collect();
    let want = [
        "ok",
        "ok",
        "error InvalidArgument",
        "ok",
        "error Paused",
        "error Paused",
        "value 2",
        "ok",
        "error InvalidArgument",
        "ok",
        "ok",
        "value 1",
        "ok",
    ];
    assert_eq!(kinds, want, "{out}");
}

#[test]
fn a_shell_that_nobody_listens_to_says_where_it_stopped() {
    let keel = Keel::new();
    let mut command = keel.command(&["shell", "--db"]);
    command.arg(keel.db()).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    writeln!(input, "put a 1").unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    output.read_line(&mut String::new()).unwrap();
    drop(output);
    writeln!(input, "put b 2").unwrap();
    // It may be gone before it has read this.
    let _ = writeln!(input, "put c 3");
    drop(input);
    crate::done(child.wait_with_output().unwrap()).fails(1, &["nobody reads the answers", "line 2"]);
    assert_eq!(keel.run(&["get", "c"]).code, 1);
}
