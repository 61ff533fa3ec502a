//! `kill -9` at any moment of a load: the store then holds exactly the first P lines, and P is at least the last `acked`.
//!
//! ```text
//! line   1 ........ start ........ acked ... P ........ fed             the load reads no further than `fed`,
//!        └ in the store ┘└ acknowledged ┘└ perhaps ┘└ not there ┘        so it never ends before it is killed
//! ```
//! The truth is kept here, outside the store: a map that takes the lines one by one. After each kill the dump must be that
//! map after P lines, and the next load goes on from line P + 1 in the same store. `EVENKEEL_KILL_FILE` names a file of
//! KEY<TAB>VALUE lines to load in place of the generated ones. The layer `kill` of `cargo xtask trust`.
//! Each load has another schedule, on a device that it keeps busy: jobs are set aside, yield and are thrown away when it dies.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Stdio};
use std::thread::JoinHandle;

use evenkeel_lab::base::clock;
use evenkeel_lab::base::random::Random;

use crate::shell::Shell;
use crate::trust::{Layer, layer};
use crate::{Keel, list, read_bytes};

/// In the short form, and as many times in a long one.
const KILLS: u64 = 20;
const KILLS_FULL: u64 = 60;
pub const LINES: u64 = 200_000;
/// So small that flushes and compactions go on all the time.
const SMALL: [&str; 8] = [
    "--set",
    "memtable_bytes=1MiB",
    "--set",
    "table_bytes=512KiB",
    "--set",
    "level_base_bytes=4MiB",
    "--set",
    "wal_bytes_max=4MiB",
];

/// Of the loads, in turn.
const SCHEDULES: [&str; 5] =
    ["unlimited", "silk", "dlc-burst-part:every=10ms", "paced", "silk-artifact:every=10ms"];
/// So slow that the load is high for whoever looks at it.
const DEVICE: [&str; 2] = ["--set", "device_bytes_per_sec=8MiB"];

type Record<'a> = (&'a [u8], &'a [u8]);

/// Lines with repeated keys: most are written twice or more, some very often.
pub fn generated(seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed);
    let mut text = Vec::new();
    for line in 1..=LINES {
        let key = if random.below(10) == 0 { random.below(100) } else { random.below(LINES / 3) };
        let padding = "x".repeat(random.below(120) as usize);
        writeln!(text, "package-{key:08}\tline {line} {padding}").unwrap();
    }
    text
}

fn record(line: &[u8]) -> Record<'_> {
    let tab = line.iter().position(|b| *b == b'\t').expect("a line is KEY<TAB>VALUE");
    (&line[..tab], &line[tab + 1..])
}

/// The lines of a text without their ends.
pub fn lines(text: &[u8]) -> Vec<&[u8]> {
    text.strip_suffix(b"\n").unwrap_or(text).split(|b| *b == b'\n').collect()
}

/// What the store must hold, and how far that is from what it does hold.
pub struct Truth<'a> {
    lines: &'a [&'a [u8]],
    /// Lines taken.
    pub taken: usize,
    map: HashMap<&'a [u8], &'a [u8]>,
}

impl<'a> Truth<'a> {
    /// Of a store that holds nothing.
    pub fn new(lines: &'a [&'a [u8]]) -> Truth<'a> {
        Truth { lines, taken: 0, map: HashMap::new() }
    }

    fn take(&mut self) {
        let (key, value) = record(self.lines[self.taken]);
        self.map.insert(key, value);
        self.taken += 1;
    }

    /// The smallest P from `acked` to `fed` for which the store holds exactly the first P lines. The truth is then there.
    pub fn find(&mut self, dump: &[u8], acked: usize, fed: usize) -> Option<usize> {
        while self.taken < acked {
            self.take();
        }
        let held: HashMap<&[u8], &[u8]> =
            if dump.is_empty() { HashMap::new() } else { lines(dump).into_iter().map(record).collect() };
        let wrong = self.map.iter().filter(|(key, value)| held.get(*key) != Some(*value)).count();
        let mut wrong = wrong + held.keys().filter(|key| !self.map.contains_key(*key)).count();
        while wrong > 0 && self.taken < fed {
            let (key, value) = record(self.lines[self.taken]);
            let there = held.get(key);
            let was_wrong = self.map.get(key) != there;
            wrong = wrong + usize::from(there != Some(&value)) - usize::from(was_wrong);
            self.take();
        }
        (wrong == 0).then_some(self.taken)
    }

    /// All of it as a dump.
    fn dump(&self) -> Vec<u8> {
        let mut records: Vec<_> = self.map.iter().collect();
        records.sort();
        let mut out = Vec::new();
        for (key, value) in records {
            out.extend([*key, b"\t", *value, b"\n"].concat());
        }
        out
    }
}

/// Starts a load of stdin and feeds it these lines; its stdin stays open until the feeder is joined.
pub fn start(keel: &Keel, db: &Path, args: &[&str], input: Vec<u8>) -> (Child, JoinHandle<ChildStdin>) {
    let mut command = keel.command(&["load", "--ack"]);
    command.args(args).args(SMALL).arg("--db").arg(db).arg("-");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let feeder = std::thread::Builder::new().spawn(move || {
        // A killed load reads no more.
        let _ = stdin.write_all(&input);
        stdin
    });
    (child, feeder.unwrap())
}

/// Waits until `target` lines of this load are acknowledged and a moment longer, kills it, and says how many really were.
pub fn kill_after(mut child: Child, target: u64, spins: u64) -> u64 {
    let mut answers = BufReader::new(child.stdout.take().unwrap());
    let mut acked = 0;
    let mut line = String::new();
    while acked < target {
        line.clear();
        assert!(answers.read_line(&mut line).unwrap() > 0, "the load ended by itself at line {acked}");
        acked = acknowledged(&line).unwrap();
    }
    for _ in 0..spins {
        std::hint::spin_loop();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    // What it said before it died counts, read or not; a line cut short does not.
    let mut rest = String::new();
    answers.read_to_string(&mut rest).unwrap();
    rest.split_inclusive('\n').filter_map(acknowledged).fold(acked, u64::max)
}

/// The number of lines that an answer acknowledges.
pub fn acknowledged(line: &str) -> Option<u64> {
    line.strip_prefix("acked ")?.strip_suffix('\n')?.parse().ok()
}

/// Kills a verb that opens the store, somewhere in recovery.
fn kill_opening(keel: &Keel, spins: u64) {
    let mut command = keel.command(&["stats"]);
    let mut child = command.arg("--db").arg(keel.db()).stdout(Stdio::null()).spawn().unwrap();
    for _ in 0..spins {
        std::hint::spin_loop();
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

/// All records, as bytes: a given file need not be UTF-8.
pub fn dump(keel: &Keel, db: &Path, story: &str) -> Vec<u8> {
    let output = keel.command(&["dump"]).arg("--db").arg(db).output().unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && complaint.is_empty(), "{story}: {complaint}");
    output.stdout
}

#[test]
fn a_killed_load_leaves_exactly_the_first_lines() {
    let layer = layer("kill");
    layer.seeds(1).into_iter().for_each(|seed| kills(layer, seed));
}

fn kills(layer: Layer, seed: u64) {
    let kills = if layer.is_full() { KILLS_FULL } else { KILLS };
    let mut attempt = layer.attempt(seed);
    let text = match std::env::var_os("EVENKEEL_KILL_FILE") {
        Some(file) => read_bytes(file.as_ref()),
        None => generated(seed),
    };
    let all = lines(&text);
    let total = all.len() as u64;
    assert!(total >= 40 * kills, "{total} lines are too few for {kills} kills");
    let keel = Keel::new();
    let mut random = Random::new(seed ^ 0x6b69_6c6c);
    let mut truth = Truth::new(&all);
    let (mut acked_all, mut beyond, mut openings) = (0, 0, 0);
    let began = clock::now();
    for kill in 0..kills {
        layer.progress(kill, kills);
        let begin = truth.taken as u64;
        // Batches of one line, of a few, of many; now and then with a sync each.
        let batch = [1, 1, 10, 100, 1000][random.below(5) as usize].min(total / (4 * kills)).max(1);
        let sync = if batch >= 10 && random.below(4) == 0 { "sync" } else { "os" };
        let moment = (total * kill + random.below(total)) / kills;
        let target = moment.max(begin + batch).min(total - batch);
        let fed = (target + 2 * batch + total / 20).min(total);
        let input = [all[begin as usize..fed as usize].join(&b'\n'), b"\n".to_vec()].concat();
        let schedule = SCHEDULES[(kill % SCHEDULES.len() as u64) as usize];
        let story = format!(
            "seed {seed}, kill {kill}, lines {begin} to {fed}, batch {batch}, sync {sync}, {schedule}"
        );
        attempt.doing(&story);

        let batch_words = batch.to_string();
        let args = [&["--batch", &batch_words, "--sync", sync, "--schedule", schedule][..], &DEVICE].concat();
        let (child, feeder) = start(&keel, &keel.db(), &args, input);
        let reachable = (target - begin) / batch * batch;
        let acked = begin + kill_after(child, reachable, random.below(200_000));
        drop(feeder.join());
        if kill % 3 == 0 {
            kill_opening(&keel, random.below(3_000_000));
            openings += 1;
        }
        let held = dump(&keel, &keel.db(), &story);
        let Some(there) = truth.find(&held, acked as usize, fed as usize) else {
            panic!("{story}: the store does not hold the first P lines for any P from {acked} to {fed}");
        };
        acked_all += acked - begin;
        beyond += there as u64 - acked;
    }
    let rest = [all[truth.taken..].join(&b'\n'), b"\n".to_vec()].concat();
    keel.feed(&[&["load", "-"][..], &SMALL].concat(), &rest).ok();
    while truth.taken < all.len() {
        truth.take();
    }
    let held = dump(&keel, &keel.db(), &format!("seed {seed}"));
    assert!(held == truth.dump(), "seed {seed}: the dump is not the last value of every key, sorted");
    let verified = keel.ok(&["verify"]);
    println!("{}", verified.trim_end());
    let files = list(&keel.db()).into_iter().filter(|name| name.ends_with(".sst")).count();
    let tables = verified.strip_prefix("sound: ").and_then(|rest| rest.split(' ').next()?.parse().ok());
    assert_eq!(tables, Some(files), "seed {seed}: a table that nobody knows, or is not there: {verified}");
    layer.report(format_args!(
        "kills={kills} killed_openings={openings} acked_checked={acked_all} beyond_acked={beyond} lines={total} keys={} lost=0 wrong=0 \
         took={:.1}s",
        truth.map.len(),
        began.elapsed().as_secs_f64(),
    ));
}

/// A log made for one large write once came before the log that had been prepared earlier, with a lower number: recovery
/// reads logs in the order of their numbers, and took the store for damaged.
#[test]
fn a_write_larger_than_a_log_file_is_recovered_in_its_place() {
    let keel = Keel::new();
    let mut shell = Shell::start(&keel, &["--set", "wal_bytes_max=256KiB"]);
    assert_eq!(shell.ask("put first 1"), "ok");
    // The next log is prepared meanwhile, for 64 KiB.
    assert_eq!(shell.ask("sleep 100"), "ok");
    let large = "x".repeat(100_000);
    assert_eq!(shell.ask(&format!("put large {large}")), "ok");
    let small = "y".repeat(1000);
    for i in 0..70 {
        assert_eq!(shell.ask(&format!("put k{i:02} {small}")), "ok");
    }
    drop(shell);
    let logs = list(&keel.db()).into_iter().filter(|name| name.ends_with(".log")).count();
    assert!(logs >= 3, "the chain must have three links, not {logs}");
    assert_eq!(keel.ok(&["get", "large"]), format!("{large}\n"));
    assert_eq!(keel.ok(&["scan"]).lines().count(), 72);
}
