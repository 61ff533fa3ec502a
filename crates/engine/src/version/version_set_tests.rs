//! What a full or failing disk does to the manifest: a change is either made or not, and a reopen agrees. And one that ends early.

use std::path::Path;
use std::sync::Arc;

use super::VersionSet;
use crate::base::units::{COUNT_MAX, KeyspaceId, SeqNo};
use crate::storage::fault::{Fault, FaultError, FaultKind};
use crate::storage::file_name::FileName;
use crate::storage::file_system::FileSystem;
use crate::storage::simulated::SimulatedFileSystem;
use crate::version::edit::VersionEdit;
use crate::version::edit_codec::BadEdit;
use crate::version::manifest::{KeyspaceCreated, ManifestRecord, NextIds};

const DIR: &str = "/db";

fn new_store() -> (SimulatedFileSystem, VersionSet) {
    let fs = SimulatedFileSystem::new();
    fs.create_dir(Path::new(DIR)).unwrap();
    let mut set = VersionSet::empty(Arc::new(fs.clone()), Path::new(DIR));
    let created = KeyspaceCreated {
        id: set.ids().keyspace(),
        name: "default".into(),
        l0_group: Some(set.ids().group()),
        no_wal: false,
    };
    set.apply_unrecorded(&ManifestRecord { created: vec![created], ..ManifestRecord::default() }).unwrap();
    set.begin_manifest().unwrap();
    (fs, set)
}

/// A change that can be told from the others, and is as long as `len`.
fn change(byte: u8, len: usize) -> ManifestRecord {
    let edit = VersionEdit { cursors: vec![(1, vec![byte; len].into())], ..VersionEdit::default() };
    ManifestRecord { edits: vec![(KeyspaceId(0), edit)], ..ManifestRecord::default() }
}

fn cursor(set: &VersionSet) -> Option<u8> {
    set.trees()[&KeyspaceId(0)].cursors.get(&1).and_then(|key| key.first().copied())
}

fn reopened(fs: &SimulatedFileSystem) -> VersionSet {
    VersionSet::recover(Arc::new(fs.process_kill()), Path::new(DIR)).unwrap().unwrap()
}

fn plant(fs: &SimulatedFileSystem, kind: FaultKind, path: &str, error: FaultError) {
    fs.inject(Fault { kind, path_contains: path.into(), nth: 0, error, sticky: true });
}

#[test]
fn a_change_is_made_though_there_is_no_space_to_rotate() {
    for (kind, path) in
        [(FaultKind::Create, "MANIFEST"), (FaultKind::Create, "tmp"), (FaultKind::Entry, "CURRENT")]
    {
        let (fs, mut set) = new_store();
        plant(&fs, kind, path, FaultError::Enospc);
        for byte in 1..=20 {
            set.commit(change(byte, 60_000)).unwrap();
            assert_eq!(cursor(&set), Some(byte));
            assert_eq!(cursor(&reopened(&fs)), Some(byte));
        }
        assert!(fs.faults_fired() > 0, "a rotation was tried at {path}");
        fs.clear_faults();
        let before = set.rotations();
        for byte in 21..=60 {
            set.commit(change(byte, 60_000)).unwrap();
        }
        assert!(set.rotations() > before);
        assert_eq!(cursor(&reopened(&fs)), Some(60));
        let manifests =
            fs.list(Path::new(DIR)).unwrap().into_iter().filter(|n| n.contains("MANIFEST")).count();
        assert_eq!(manifests, 1, "none is left over");
    }
}

#[test]
fn changes_go_on_when_there_is_space_again() {
    let (fs, mut set) = new_store();
    set.commit(change(1, 10)).unwrap();
    plant(&fs, FaultKind::Write, "MANIFEST", FaultError::Enospc);
    for byte in 2..5 {
        assert_eq!(set.commit(change(byte, 10)).unwrap_err().kind(), "NoSpace");
        assert_eq!((cursor(&set), cursor(&reopened(&fs))), (Some(1), Some(1)));
    }
    fs.clear_faults();
    set.commit(change(5, 10)).unwrap();
    set.commit(change(6, 10)).unwrap();
    assert_eq!((cursor(&set), cursor(&reopened(&fs))), (Some(6), Some(6)));
}

#[test]
fn a_failed_sync_ends_all_changes() {
    for error in [FaultError::Enospc, FaultError::Eio] {
        let (fs, mut set) = new_store();
        plant(&fs, FaultKind::Sync, "MANIFEST", error);
        // Not `NoSpace`, after which nothing would have been recorded.
        let kind = set.commit(change(1, 10)).unwrap_err().kind();
        assert_eq!(kind, if error == FaultError::Enospc { "Poisoned" } else { "Io" });
        fs.clear_faults();
        assert_eq!(set.commit(change(2, 10)).unwrap_err().kind(), "Poisoned");
        assert_eq!(cursor(&set), None);
    }
}

/// Sequences and numbers count up from there: what is given out next must fit into its bits.
#[test]
fn counts_that_no_store_gets_to_are_damage() {
    let max = COUNT_MAX;
    let read = |record: &ManifestRecord| ManifestRecord::decode(&record.encode()).map(drop);
    let edit = |seq| VersionEdit { flushed_through: Some(SeqNo(seq)), ..VersionEdit::default() };
    let records = |n: u64| {
        [
            ManifestRecord { last_seq: SeqNo(n), ..ManifestRecord::default() },
            ManifestRecord { wal_from: n, ..ManifestRecord::default() },
            ManifestRecord { options_file: Some(n), ..ManifestRecord::default() },
            ManifestRecord { next: NextIds { file: n, ..NextIds::default() }, ..ManifestRecord::default() },
            ManifestRecord { edits: vec![(KeyspaceId(0), edit(n))], ..ManifestRecord::default() },
        ]
    };
    for (good, bad) in records(max).iter().zip(&records(max + 1)) {
        assert!(read(good).is_ok(), "{good:?}");
        assert!(matches!(read(bad), Err(BadEdit::Damaged(_))), "{bad:?}");
    }
}

/// Of one that is cut its whole records hold, whatever zeros a file system leaves behind the cut; without the first of them it is damage.
/// What was read is not appended to.
#[test]
fn a_manifest_that_ends_early_is_read_up_to_there() {
    let (fs, mut set) = new_store();
    let path = FileName::Manifest(set.manifest_number().unwrap()).path(Path::new(DIR));
    let len = || fs.contents(&path).unwrap().len();
    // Where each record ends, and what the tree holds from there on.
    let mut ends = vec![(len(), None)];
    for byte in 1..=4 {
        set.commit(change(byte, 40)).unwrap();
        ends.push((len(), Some(byte)));
    }
    let whole = fs.contents(&path).unwrap();
    for at in 0..=whole.len() {
        for zeros in [0, 1, 30, 4096] {
            let (disk, mut cut) = (fs.process_kill(), whole[..at].to_vec());
            cut.resize(at + zeros, 0);
            disk.set_contents(&path, &cut).unwrap();
            let read = VersionSet::recover(Arc::new(disk.clone()), Path::new(DIR));
            // Where zeros were cut off they may stand again.
            let is_there = |(end, _): &&(usize, Option<u8>)| cut.get(..*end) == Some(&whole[..*end]);
            let Some((_, held)) = ends.iter().rev().find(is_there) else {
                assert_eq!(read.unwrap_err().kind(), "Corruption", "cut to {at}, {zeros} zeros");
                continue;
            };
            let mut set = read.unwrap().unwrap();
            assert_eq!(cursor(&set), *held, "cut to {at}, {zeros} zeros");
            set.begin_manifest().unwrap();
            set.commit(change(9, 10)).unwrap();
            assert_eq!((cursor(&set), cursor(&reopened(&disk))), (Some(9), Some(9)));
            assert_eq!(disk.contents(&path), Some(cut));
        }
    }
}
