//! Manifests that end early (`docs/durability.md`, C11): in the record that is being written, of which nobody was told, and anywhere; with
//! nothing behind the cut, or with the zeros that a file system may leave.
//!
//! ```text
//! header │ snapshot │ change │ change │ change being written
//!   Corruption ◄────┘        │        └──► as before it, always: all that was acknowledged
//!                            └──► as before what is missing, if the tables and logs of that are still there; else Corruption
//! ```
//! The store was not closed: a closed one has a manifest of one record, and any cut of that is damage (`it::faults`, `it::corruption`).

use std::path::Path;
use std::sync::Arc;

use evenkeel::fs::FileSystem;
use evenkeel::testing::{CallKind, CrashPolicy, ManualClock, SimulatedFileSystem};

use super::failures::{Content, DIR, builder, mode, open, put, scanned, step};

/// Enough for some flushes and compactions.
const WRITES: u64 = 600;

/// Every how many-th length is tried.
const STRIDE: usize = if cfg!(debug_assertions) { 31 } else { 13 };

/// Behind the cut.
const ZEROS: [usize; 2] = [0, 700];

/// What a cut of a file of `len` bytes may leave of it, from `least` on.
fn lengths(least: usize, len: usize) -> impl Iterator<Item = (usize, usize)> {
    let cuts = (least..len).step_by(STRIDE).chain([len]);
    cuts.flat_map(|at| ZEROS.map(|zeros| (at, zeros)))
}

/// The same disk, with a file that ends early.
fn cut(disk: &SimulatedFileSystem, path: &Path, bytes: &[u8], zeros: usize) -> SimulatedFileSystem {
    let (disk, mut bytes) = (disk.process_kill(), bytes.to_vec());
    bytes.resize(bytes.len() + zeros, 0);
    disk.set_contents(path, &bytes).unwrap();
    disk
}

fn is_manifest(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("MANIFEST-"))
}

fn names(disk: &SimulatedFileSystem) -> Vec<String> {
    disk.list(Path::new(DIR)).unwrap()
}

/// Before each sync of a manifest the record is there and nothing rests on it yet: however much of it is lost, all that was acknowledged is
/// there.
#[test]
fn a_manifest_cut_in_the_record_under_way_loses_nothing() {
    let (fs, clock) = (SimulatedFileSystem::new(), Arc::new(ManualClock::default()));
    let db = builder(&fs, &clock).open().unwrap();
    fs.record_states();
    let (mut content, mut records, mut cuts) = (Content::new(), 0, 0);
    for n in 0..WRITES {
        put(&db, n * 7, mode(n), &mut content).unwrap();
        // What the write itself had done was before it was acknowledged.
        drop(fs.take_states());
        step(&db, &clock);
        let (states, calls) = (fs.take_states(), fs.calls());
        for (call, disk) in states {
            let made = &calls[call as usize - 1];
            if made.kind != CallKind::Sync || !is_manifest(&made.path) {
                continue;
            }
            let whole = disk.contents(&made.path).unwrap();
            let durable = disk.crash(call, CrashPolicy::DropUnsynced).contents(&made.path);
            let synced = durable.map_or(0, |bytes| bytes.len());
            assert!(synced < whole.len(), "call {call} syncs nothing");
            records += 1;
            for (at, zeros) in lengths(synced, whole.len()) {
                let story = format!("write {n}, call {call}, {at} of {} bytes, {zeros} zeros", whole.len());
                let disk = cut(&disk, &made.path, &whole[..at], zeros);
                let db = open(&disk).unwrap_or_else(|error| panic!("{story}: {error}"));
                assert_eq!(scanned(&db), content, "{story}");
                db.verify().unwrap_or_else(|error| panic!("{story}: {error}"));
                cuts += 1;
            }
        }
    }
    println!("records={records} cuts={cuts}");
    assert!(records >= 8, "{records} records");
}

/// What the lost records had told of may be gone with what they had made superfluous, or be done again from the logs: then it is right. It is
/// never half of it, and a refusal removes nothing.
#[test]
fn a_manifest_cut_anywhere_is_right_or_refused() {
    let (fs, clock) = (SimulatedFileSystem::new(), Arc::new(ManualClock::default()));
    let db = builder(&fs, &clock).open().unwrap();
    let mut content = Content::new();
    for n in 0..WRITES {
        put(&db, n * 7, mode(n), &mut content).unwrap();
        step(&db, &clock);
    }
    let killed = fs.process_kill();
    let manifests: Vec<String> =
        names(&killed).into_iter().filter(|name| name.starts_with("MANIFEST-")).collect();
    let [name] = &manifests[..] else { panic!("{manifests:?}") };
    let path = Path::new(DIR).join(name);
    let whole = killed.contents(&path).unwrap();
    let (mut right, mut refused) = (0, 0);
    for (at, zeros) in lengths(0, whole.len()) {
        let story = format!("{at} of {} bytes, {zeros} zeros", whole.len());
        let disk = cut(&killed, &path, &whole[..at], zeros);
        let before = names(&disk);
        match open(&disk) {
            Ok(db) => {
                assert_eq!(scanned(&db), content, "{story}");
                db.verify().unwrap_or_else(|error| panic!("{story}: {error}"));
                right += 1;
            }
            Err(error) => {
                assert!(at < whole.len() && error.kind() == "Corruption", "{story}: {error}");
                let left = names(&disk);
                assert!(before.iter().all(|name| left.contains(name)), "{story}: {before:?}, then {left:?}");
                refused += 1;
            }
        }
    }
    println!("right={right} refused={refused} wrong=0");
    assert!(right > 0 && refused > 0, "{right} {refused}");
}
