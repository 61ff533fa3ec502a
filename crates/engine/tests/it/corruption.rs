//! Damage: any byte changed, any file cut, filled, swapped, stale or missing, in stores of three shapes that were closed cleanly
//! (`docs/durability.md`, C10, C11). What is then read is right, or an error says what is damaged; nothing is wrong, panics or hangs.
//!
//! ```text
//! store ─► one damage ─► open, get all, scan up and down, compact, scan ─► right │ error │ WRONG │ PANIC │ HANG
//! ```
//! The layers `corruption` and `fuzz` of `cargo xtask trust`. `fuzz` makes the checksums right again after many random changes: then
//! the content is whose who made them, and only panics, hangs and memory without bound are wrong.

mod damage;
mod hostile;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use evenkeel::fs::FileSystem;
use evenkeel::testing::{Random, SimulatedFileSystem};
use evenkeel::{Db, Durability, Options, Result, ScanRange, WriteBatch};

use super::faults::{Content, scanned, scanned_down};
use super::trust::layer;

const DIR: &str = "/store";

/// What a store of this test is made of.
const SHAPES: [(&str, &str); 3] = [("lo+1", "none"), ("tier", "lz4"), ("l-leveling", "auto")];

/// Nothing that is done here takes a hundredth of it.
const HANGS_AFTER: Duration = Duration::from_secs(120);

/// Every how many-th byte is changed in the short form.
const STRIDE: usize = if cfg!(debug_assertions) { 211 } else { 29 };

/// Random damages of the fuzz layer for each time that it is longer; the short form has a tenth.
const HOSTILE: u64 = 30_000;

type Files = BTreeMap<String, Vec<u8>>;

fn options(shape: (&str, &str)) -> Options {
    Options {
        strategy: Some(shape.0.to_owned()),
        compression: shape.1.parse().unwrap(),
        prefix_filter: "fixed:2".parse().unwrap(),
        memtable_bytes: 4 << 10,
        table_bytes: 4 << 10,
        block_bytes: 512,
        level_base_bytes: 8 << 10,
        level_ratio: 3,
        l0_trigger: 2,
        wal_bytes_max: 64 << 10,
        cache_bytes: 0,
        reserve_bytes: 0,
        ..Options::default()
    }
}

fn open(fs: &SimulatedFileSystem, shape: (&str, &str)) -> Result<Db> {
    let db = Db::builder(DIR).options(options(shape)).file_system(fs.clone_arc());
    db.without_threads().open()
}

/// The trait object that a builder takes.
trait CloneArc {
    fn clone_arc(&self) -> std::sync::Arc<dyn FileSystem>;
}

impl CloneArc for SimulatedFileSystem {
    fn clone_arc(&self) -> std::sync::Arc<dyn FileSystem> {
        std::sync::Arc::new(self.clone())
    }
}

/// A store, what it holds, and what it was like some time earlier.
struct Example {
    shape: (&'static str, &'static str),
    files: Files,
    earlier: Files,
    content: Content,
}

impl Example {
    fn new(shape: (&'static str, &'static str), seed: u64) -> Example {
        let fs = SimulatedFileSystem::new();
        let (mut random, mut content) = (Random::new(seed), Content::new());
        let mut earlier = Files::new();
        for life in 0..3 {
            let db = open(&fs, shape).unwrap();
            for n in 0..if life == 2 { 25 } else { 110 } {
                write(&db, &mut random, n, &mut content);
                db.step(&mut |jobs| jobs.first().map(|job| job.0));
            }
            if life == 0 {
                db.flush().unwrap();
                db.wait_idle().unwrap();
            }
            db.close().unwrap();
            if life == 1 {
                earlier = files(&fs);
            }
        }
        Example { shape, files: files(&fs), earlier, content }
    }

    /// A disk that holds these files.
    fn disk(files: &Files) -> SimulatedFileSystem {
        let fs = SimulatedFileSystem::new();
        fs.create_dir(Path::new(DIR)).unwrap();
        for (name, bytes) in files {
            fs.set_contents(&path(name), bytes).unwrap();
        }
        fs
    }

    /// What comes of a store of these files.
    fn outcome(&self, files: &Files) -> Outcome {
        let fs = Example::disk(files);
        match catch_unwind(AssertUnwindSafe(|| self.read(&fs))) {
            Err(_) => Outcome::Panic,
            Ok(Ok(true)) => Outcome::Right,
            Ok(Ok(false)) => Outcome::Wrong("it holds something else".to_owned()),
            Ok(Err(error)) if error.to_string().contains("panic") => Outcome::Panic,
            Ok(Err(error)) if ["Corruption", "Unsupported"].contains(&error.kind()) => Outcome::Error,
            Ok(Err(error)) => Outcome::Wrong(format!("an error of another kind: {error}")),
        }
    }

    /// Everything that can be read, in every way; true if all of it is right.
    fn read(&self, fs: &SimulatedFileSystem) -> Result<bool> {
        let db = open(fs, self.shape)?;
        let mut right = true;
        for (key, value) in &self.content {
            right &= db.get(key)?.as_deref() == Some(&value[..]);
        }
        right &= db.get(b"absent")?.is_none();
        right &= scanned(&db)? == self.content && scanned_down(&db)? == self.content;
        db.compact_range(ScanRange::all())?;
        Ok(right & (scanned(&db)? == self.content))
    }
}

enum Outcome {
    Right,
    Error,
    Wrong(String),
    Panic,
}

fn write(db: &Db, random: &mut Random, n: u64, content: &mut Content) {
    let key = format!("{:03}", random.below(120)).into_bytes();
    let mut batch = WriteBatch::new();
    if random.one_in(9) {
        let end = format!("{:03}", random.below(120)).into_bytes();
        if key < end {
            content.retain(|k, _| *k < key || *k >= end);
            batch.delete_range(&key, &end);
        }
    } else if random.one_in(5) {
        content.remove(&key);
        batch.delete(&key);
    } else {
        let value = format!("{n:0>60}").into_bytes();
        batch.put(&key, &value);
        content.insert(key, value);
    }
    db.write_with(batch, if n.is_multiple_of(11) { Durability::Sync } else { Durability::Os }).unwrap();
}

fn path(name: &str) -> PathBuf {
    Path::new(DIR).join(name)
}

fn files(fs: &SimulatedFileSystem) -> Files {
    let names = fs.list(Path::new(DIR)).unwrap().into_iter().filter(|name| name != "LOCK");
    names.map(|name| (name.clone(), fs.contents(&path(&name)).unwrap())).collect()
}

/// The most memory that this process has had, in MiB; 0 where nobody says.
pub fn memory_most() -> u64 {
    let status =
        std::process::Command::new("cat").arg(format!("/proc/{}/status", std::process::id())).output();
    let text = status.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).map(str::trim);
    line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).map_or(0, |kib| kib >> 10)
}

/// Does all of `work`, which tells after each piece; a piece that does not end is a hang.
fn watched(work: impl FnOnce(&dyn Fn()) + Send) {
    let (tell, told) = channel();
    std::thread::scope(|scope| {
        let worker = scope.spawn(move || work(&|| tell.send(()).unwrap()));
        loop {
            match told.recv_timeout(HANGS_AFTER) {
                Ok(()) => {}
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    eprintln!("a damage makes the store hang");
                    // A thread that hangs cannot be joined.
                    std::process::abort();
                }
            }
        }
        if let Err(panic) = worker.join() {
            std::panic::resume_unwind(panic);
        }
    });
}

#[derive(Default)]
struct Tally {
    damages: u64,
    right: u64,
    error: u64,
    wrong: u64,
    panic: u64,
    first: Vec<String>,
}

impl Tally {
    fn add(&mut self, outcome: Outcome, what: &dyn Fn() -> String) {
        self.damages += 1;
        let said = match outcome {
            Outcome::Right => return self.right += 1,
            Outcome::Error => return self.error += 1,
            Outcome::Wrong(how) => {
                self.wrong += 1;
                how
            }
            Outcome::Panic => {
                self.panic += 1;
                "it panics".to_owned()
            }
        };
        if self.first.len() < 10 {
            self.first.push(format!("{}: {said}", what()));
        }
    }
}

#[test]
fn damage_gives_the_right_answers_or_an_error() {
    let layer = layer("corruption");
    let (seeds, mut tally) = (layer.seeds(1), Tally::default());
    let stride = if layer.is_full() { 1 } else { STRIDE };
    for seed in &seeds {
        let mut attempt = layer.attempt(*seed);
        for (i, shape) in (0..).zip(SHAPES) {
            let example = Example::new(shape, *seed);
            assert!(matches!(example.outcome(&example.files), Outcome::Right), "undamaged");
            let damages = damage::all(&example.files, &example.earlier, stride, *seed as usize);
            watched(|tell| {
                for (at, damage) in (0..).zip(&damages) {
                    if at % 512 == 0 {
                        let all = damages.len() as u64;
                        layer.progress(i * all + at, SHAPES.len() as u64 * all);
                    }
                    let Some(files) = damage.of(&example.files, &example.earlier) else { continue };
                    tally.add(example.outcome(&files), &|| format!("{} {damage:?}", shape.0));
                    tell();
                }
            });
        }
        attempt.doing(tally.first.first().map_or("", |first| first));
        assert!(tally.first.is_empty(), "seed {seed}:\n{}", tally.first.join("\n"));
    }
    let Tally { damages, right, error, wrong, panic, .. } = tally;
    layer.report(format_args!(
        "seeds={} shapes={} mutations={damages} right={right} error={error} wrong={wrong} panic={panic} hang=0 rss_max_mib={}",
        seeds.len(),
        SHAPES.len(),
        memory_most()
    ));
    assert!(error > right && right > 0, "{error} {right}");
}

#[test]
fn damage_with_right_checksums_never_panics() {
    let layer = layer("fuzz");
    let (seeds, mut tally) = (layer.seeds(1), Tally::default());
    let count = if layer.is_full() { HOSTILE } else { HOSTILE / 10 };
    for seed in &seeds {
        let mut attempt = layer.attempt(*seed);
        let examples = SHAPES.map(|shape| Example::new(shape, 7));
        watched(|tell| {
            for n in 0..count {
                if n % 256 == 0 {
                    layer.progress(n, count);
                }
                let example = &examples[n as usize % examples.len()];
                let mut random = Random::new(seed.wrapping_mul(1_000_003).wrapping_add(n));
                let mut files = example.files.clone();
                let what = hostile::change(&mut files, &mut random);
                let outcome = match example.outcome(&files) {
                    Outcome::Wrong(_) => Outcome::Right,
                    other => other,
                };
                tally.add(outcome, &|| format!("damage {n}, {what}"));
                tell();
            }
        });
        attempt.doing(tally.first.first().map_or("", |first| first));
        assert!(tally.first.is_empty(), "seed {seed}:\n{}", tally.first.join("\n"));
    }
    let Tally { damages, right, error, panic, .. } = tally;
    layer.report(format_args!(
        "seeds={} executions={damages} read={right} refused={error} panic={panic} hang=0 rss_max_mib={}",
        seeds.len(),
        memory_most()
    ));
    assert!(error > 0 && right > 0, "{error} {right}");
}
