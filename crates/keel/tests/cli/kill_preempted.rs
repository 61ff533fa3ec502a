//! `kill -9` amid preemptions: clients come and go, jobs are set aside and gone on with, and the process dies. The store then
//! holds exactly the first lines, and once it is open again no file that nobody needs.
//!
//! ```text
//!       ┌──────────────────── until there are enough preemptions ───────────────────┐
//! shell ┴─► write ─► rest, so that jobs run ─► come back, so that they are set aside ┴─► kill -9
//! dump: the first P lines?  ─►  open: what the dead process was making is gone, and each table is one of the tree's
//! ```
//! The store is asked for its preemptions before it is killed: a life without any would show nothing. How long something takes decides
//! nothing: who wants a job to run, or to be set aside, asks again until it is.

use crate::kill::{Truth, dump, generated, lines};
use crate::shell::Shell;
use crate::{Keel, list};

const KILLS: usize = 6;
const SEED: u64 = 82;
/// Preemptions of each life.
const PREEMPTED: u64 = 3;

/// Of three levels, the last of which is never full, on a device so slow that a job takes many steps.
const SIZES: [&str; 10] = [
    "memtable_bytes=16KiB",
    "memtables=4",
    "table_bytes=16KiB",
    "level_ratio=1000",
    "l0_trigger=4",
    "l0_limit=200",
    "compression=none",
    "wal_bytes_max=1MiB",
    "reserve_bytes=0",
    "device_bytes_per_sec=1MiB",
];
/// At first all fits into the level below L0, and later next to nothing: from then on there is a deep job, which takes seconds.
const FILLED: &str = "level_base_bytes=64MiB";
const TOO_FULL: &str = "level_base_bytes=64KiB";
/// Lines that come before each life.
const FILL: usize = 4000;

/// Whole levels at a time: deep jobs are long enough to be set aside, and have parts to commit on their way.
const STRATEGY: &str =
    "when=saturation how=runs:1 much=level; L0: when=runs how=runs:4 much=runs; size: sizes=fixed";
/// The same where L0 is left alone, whose jobs are set aside for no load.
const DEEP: &str =
    "when=saturation how=runs:1 much=level; L0: when=runs how=runs:100 much=runs; size: sizes=fixed";
/// What wants nothing done about the tables that the other one leaves.
const AT_REST: &str = "when=runs how=runs:100 much=runs; size: sizes=fixed";

/// Any read makes the load high, and deep jobs are set aside; a rest makes it low.
const SCHEDULE: &str = "silk:estimator=op-bytes,low=2KiB,high=4KiB,jobs=1";
/// What a life waits for.
const ENOUGH: [fn(&Jobs) -> bool; 2] = [leaves_some_paused, has_committed_parts];

/// Lines of a batch: there is one between two rests.
const BATCH: usize = 20;
/// Lines that are on their way when the process is killed.
const UNANSWERED: usize = 20;

/// Rounds of one life, many times as many as it takes.
const ROUNDS_MAX: usize = 80;
/// Looks of one rest for a job that runs, and of clients that are back for enough of what they wait for.
const RESTS_MAX: usize = 40;
const RETURNS_MAX: usize = 20;

/// What a store tells of its jobs.
#[derive(Debug)]
struct Jobs {
    open: u64,
    paused: u64,
    preempted: u64,
    prefix_commits: u64,
}

impl Jobs {
    fn of(shell: &mut Shell) -> Jobs {
        let stats = stats(shell);
        let figure = |path: &str| stats.pointer(path).and_then(serde_json::Value::as_u64).unwrap();
        Jobs {
            open: figure("/jobs/open"),
            paused: figure("/jobs/paused"),
            preempted: figure("/jobs/preempted"),
            prefix_commits: figure("/compactions/prefix_commits"),
        }
    }
}

fn leaves_some_paused(jobs: &Jobs) -> bool {
    jobs.preempted >= PREEMPTED && jobs.paused > 0
}

fn has_committed_parts(jobs: &Jobs) -> bool {
    jobs.preempted >= PREEMPTED && jobs.prefix_commits > 0
}

fn stats(shell: &mut Shell) -> serde_json::Value {
    serde_json::from_str(&shell.ask("stats")).unwrap()
}

fn tables(keel: &Keel) -> Vec<String> {
    list(&keel.db()).into_iter().filter(|name| name.ends_with(".sst")).collect()
}

fn start(keel: &Keel, base: &str, strategy: &str, schedule: &str) -> Shell {
    let sizes = SIZES.iter().chain([&base]).flat_map(|size| ["--set", *size]).collect::<Vec<_>>();
    Shell::start(keel, &[&sizes[..], &["--strategy", strategy, "--schedule", schedule]].concat())
}

/// A process that has the store open, and the lines that it was given.
struct Life<'a> {
    shell: Shell,
    lines: &'a [&'a [u8]],
    written: usize,
}

impl Life<'_> {
    /// Sends the next lines, and waits for no answer.
    fn say(&mut self, count: usize) {
        let next = self.lines.get(self.written..self.written + count).expect("there are too few lines");
        for line in next {
            // Blanks within a value are escaped, the one between key and value is not.
            let line = std::str::from_utf8(line).unwrap().replace(' ', "\\x20").replace('\t', " ");
            self.shell.say(&format!("put {line}"));
        }
        self.written += count;
    }

    fn ok(&mut self, command: &str) {
        assert_eq!(self.shell.ask(command), "ok", "{command}");
    }

    /// Writes so many lines, a batch after the other.
    fn write(&mut self, lines: usize) {
        for _ in 0..lines / BATCH {
            self.shell.say("batch");
            self.say(BATCH);
            self.ok("commit");
        }
    }

    /// Clients write, rest and come back, until the store tells of enough.
    fn until(&mut self, enough: fn(&Jobs) -> bool) -> Jobs {
        for round in 0..ROUNDS_MAX {
            self.write(BATCH);
            // Nobody asks for anything: what was set aside goes on, and what may not begin at high load does.
            let mut jobs = Jobs::of(&mut self.shell);
            for _ in 0..RESTS_MAX {
                if jobs.open > jobs.paused {
                    break;
                }
                self.ok("sleep 2");
                jobs = Jobs::of(&mut self.shell);
            }
            // They come back to each stage of it.
            self.ok(&format!("sleep {}", round % 5 * 10));
            for _ in 0..RETURNS_MAX {
                (0..10).for_each(|_| drop(self.shell.ask("get package-00000001")));
                jobs = Jobs::of(&mut self.shell);
                if jobs.open == 0 || enough(&jobs) {
                    break;
                }
            }
            if enough(&jobs) {
                return jobs;
            }
        }
        panic!("no job was preempted as it should be: {:?}", Jobs::of(&mut self.shell));
    }
}

/// Opens the store to be written to, with nothing to compact, and answers what tables are there then: the tree's, and no other.
fn opened(keel: &Keel, story: &str) -> Vec<String> {
    let mut shell = start(keel, TOO_FULL, AT_REST, "unlimited");
    assert_eq!(shell.ask("verify"), "ok", "{story}");
    let left = tables(keel);
    let live = stats(&mut shell).pointer("/files/live").and_then(serde_json::Value::as_u64);
    assert_eq!(Some(left.len() as u64), live, "{story}: {left:?}");
    assert_eq!(shell.ask("quit"), "ok", "{story}");
    shell.wait();
    let names = list(&keel.db());
    let manifests = names.iter().filter(|name| name.starts_with("MANIFEST-")).count();
    let unfinished = names.iter().filter(|name| name.ends_with(".dbtmp")).count();
    assert_eq!((manifests, unfinished), (1, 0), "{story}: {names:?}");
    left
}

/// More lines, and as much to compact as there is with the level below L0 of this size.
fn fill<'a>(keel: &Keel, truth: &mut Truth<'a>, all: &[&'a [u8]], base: &str) {
    let begin = truth.taken;
    let mut life = Life { shell: start(keel, base, STRATEGY, "unlimited"), lines: all, written: begin };
    life.write(FILL);
    life.ok("flush");
    let debt = |shell: &mut Shell| stats(shell).pointer("/keyspaces/0/debt_bytes").unwrap().as_u64();
    while debt(&mut life.shell) != Some(0) || Jobs::of(&mut life.shell).open > 0 {
        life.ok("sleep 2");
    }
    life.ok("quit");
    life.shell.wait();
    let held = dump(keel, &keel.db(), base);
    assert!(truth.find(&held, begin + FILL, begin + FILL).is_some(), "{base}");
}

#[test]
fn a_kill_amid_preemptions_leaves_the_first_lines_and_no_orphan() {
    let (keel, text) = (Keel::new(), generated(SEED));
    let all = lines(&text);
    let mut truth = Truth::new(&all);
    let (mut preempted, mut orphans) = (0, 0);
    // Deeper levels have something to be merged with.
    fill(&keel, &mut truth, &all, TOO_FULL);
    for kill in 0..KILLS {
        fill(&keel, &mut truth, &all, FILLED);
        let enough = ENOUGH[kill % ENOUGH.len()];
        let begin = truth.taken;
        let mut life = Life { shell: start(&keel, TOO_FULL, DEEP, SCHEDULE), lines: &all, written: begin };
        let jobs = life.until(enough);
        let acked = life.written;
        life.say(UNANSWERED);
        let fed = life.written;
        // A shell that is dropped is killed.
        drop(life);
        let story = format!("kill {kill}, lines {begin} to {fed}, {acked} acknowledged, {jobs:?}");
        let before = tables(&keel);
        let held = dump(&keel, &keel.db(), &story);
        assert!(truth.find(&held, acked, fed).is_some(), "{story}: not the first P lines for any P");
        let left = opened(&keel, &story);
        preempted += jobs.preempted;
        orphans += before.iter().filter(|name| !left.contains(name)).count();
    }
    println!("kills={KILLS} preempted={preempted} orphans_removed={orphans} lines={}", truth.taken);
    assert!(preempted >= PREEMPTED * KILLS as u64, "{preempted} preemptions");
    assert!(orphans > 0, "no kill came in the middle of anything");
}
