//! The real disk, in a directory of its own.

use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, symlink};
use std::path::PathBuf;

use tempfile::TempDir;

use super::*;
use crate::storage::current::{read_current, set_current};
use crate::storage::file_name::FileName;
use crate::storage::file_system::no_link;

fn disk() -> (DiskFileSystem, TempDir, PathBuf) {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("a/b");
    let fs = DiskFileSystem::new();
    fs.create_dir(&dir).unwrap();
    (fs, temp, dir)
}

fn write(fs: &DiskFileSystem, path: &Path, pieces: &[&[u8]]) {
    let mut file = fs.create(path, IoClass::Manifest).unwrap();
    pieces.iter().for_each(|piece| file.append(piece).unwrap());
    file.syncer().sync().unwrap();
}

fn read(fs: &DiskFileSystem, path: &Path) -> Vec<u8> {
    let file = fs.open(path).unwrap();
    let mut bytes = vec![0; file.len() as usize];
    file.read_at(0, &mut bytes, IoClass::Client).unwrap();
    bytes
}

#[test]
fn what_is_written_is_read_and_counted() {
    let (fs, _temp, dir) = disk();
    let path = dir.join("000001.sst");
    let mut file = fs.create(&path, IoClass::Manifest).unwrap();
    let syncer = file.syncer();
    let mut all = Vec::new();
    for n in [1usize, 10, 4000, 70_000, 3, 65_536, 65_535, 1 << 20, 0, 9] {
        let piece: Vec<u8> = (0..n).map(|i| (i * 7 + n) as u8).collect();
        file.append(&piece).unwrap();
        all.extend_from_slice(&piece);
        assert_eq!(file.len(), all.len() as u64);
    }
    syncer.sync().unwrap();
    assert_eq!(read(&fs, &path), all);
    assert_eq!(fs.counters().written(IoClass::Manifest), all.len() as u64);
    assert_eq!(fs.counters().read(IoClass::Client), all.len() as u64);

    let reader = fs.open(&path).unwrap();
    let mut part = [0; 5];
    reader.read_at(4009, &mut part, IoClass::Client).unwrap();
    assert_eq!(part, all[4009..4014]);
    let past = reader.read_at(all.len() as u64 - 2, &mut part, IoClass::Client).unwrap_err();
    assert_eq!(past.kind(), "Io");
    assert!(past.to_string().contains("000001.sst"), "{past}");
}

#[test]
fn a_dropped_writer_leaves_its_bytes() {
    let (fs, _temp, dir) = disk();
    let mut file = fs.create(&dir.join("LOG"), IoClass::Manifest).unwrap();
    file.append(b"line").unwrap();
    drop(file);
    assert_eq!(read(&fs, &dir.join("LOG")), b"line");
}

#[test]
fn names_are_made_once_with_private_modes() {
    let (fs, temp, dir) = disk();
    let path = dir.join("x");
    write(&fs, &path, &[b"1"]);
    assert_eq!(fs.create(&path, IoClass::Client).unwrap_err().kind(), "Io");
    assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o600);
    assert_eq!(dir.metadata().unwrap().mode() & 0o777, 0o700);
    assert_eq!(temp.path().join("a").metadata().unwrap().mode() & 0o777, 0o700);
    fs.create_dir(&dir).unwrap();
    assert_eq!(fs.create_dir(&path).unwrap_err().kind(), "Io");
}

#[test]
fn entries_are_renamed_removed_listed_and_shortened() {
    let (fs, _temp, dir) = disk();
    let (a, b) = (dir.join("a"), dir.join("b"));
    write(&fs, &a, &[b"from a"]);
    write(&fs, &b, &[b"b"]);
    fs.rename(&a, &b).unwrap();
    fs.create_dir(&dir.join("sub")).unwrap();
    assert_eq!(fs.list(&dir).unwrap(), ["b", "sub"]);
    assert_eq!(read(&fs, &b), b"from a");
    fs.truncate(&b, 4).unwrap();
    assert_eq!(read(&fs, &b), b"from");
    assert_eq!(fs.truncate(&b, 5).unwrap_err().kind(), "InvalidArgument");
    assert!(fs.exists(&b).unwrap());
    fs.remove(&b).unwrap();
    assert!(!fs.exists(&b).unwrap());
    assert_eq!(fs.remove(&b).unwrap_err().kind(), "Io");
    fs.sync_dir(&dir).unwrap();
    assert!(fs.free_space(&dir).unwrap() > 0);
}

#[test]
fn a_symlink_is_not_followed() {
    let (fs, _temp, dir) = disk();
    let (target, link) = (dir.join("precious"), dir.join("LOCK"));
    write(&fs, &target, &[b"precious"]);
    symlink(&target, &link).unwrap();
    assert!(fs.exists(&link).unwrap());
    assert_eq!(fs.open(&link).unwrap_err().kind(), "Io");
    assert_eq!(fs.create(&link, IoClass::Client).unwrap_err().kind(), "Io");
    assert_eq!(fs.create_log(&link, 10, None).unwrap_err().kind(), "Io");
    assert_eq!(fs.create_log(&dir.join("1.log"), 10, Some(&link)).unwrap_err().kind(), "Io");
    assert_eq!(fs.truncate(&link, 0).unwrap_err().kind(), "Io");
    assert_eq!(fs.lock(&link).unwrap_err().kind(), "Io");
    assert_eq!(read(&fs, &target), b"precious");
}

#[test]
fn a_pipe_or_a_directory_is_an_error_and_no_wait() {
    let (fs, _temp, dir) = disk();
    let pipe = dir.join("pipe");
    let made = rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, Mode::RWXU, 0);
    made.unwrap();
    assert!(pipe.metadata().unwrap().file_type().is_fifo());
    for path in [&pipe, &dir] {
        assert_eq!(fs.open(path).unwrap_err().kind(), "Io");
        assert_eq!(fs.lock(path).unwrap_err().kind(), "Io");
        assert_eq!(fs.truncate(path, 0).unwrap_err().kind(), "Io");
    }
}

#[test]
fn the_second_opener_is_locked_out_until_the_first_is_gone() {
    let (fs, _temp, dir) = disk();
    let path = FileName::Lock.path(&dir);
    let held = fs.lock(&path).unwrap();
    let other = DiskFileSystem::new();
    match other.lock(&path).unwrap_err() {
        Error::Locked { dir: locked } => assert_eq!(locked, dir),
        error => panic!("{error}"),
    }
    drop(held);
    drop(other.lock(&path).unwrap());
    drop(fs.lock(&path).unwrap());
}

#[test]
fn the_kernel_too_locks_out_a_second_opener() {
    let (fs, _temp, dir) = disk();
    let path = FileName::Lock.path(&dir);
    let held = fs.lock(&path).unwrap();
    let (file, _) = open_regular(&path, OFlags::RDWR).unwrap();
    assert!(matches!(file.try_lock(), Err(TryLockError::WouldBlock)));
    drop(held);
    file.try_lock().unwrap();
    // Held by what could be another process: our register knows nothing of it.
    assert_eq!(fs.lock(&path).unwrap_err().kind(), "Locked");
}

#[test]
fn a_log_has_its_blocks_at_once_and_keeps_them_when_recycled() {
    for fs in [DiskFileSystem::new(), DiskFileSystem::without_mapped_logs()] {
        let (_, _temp, dir) = disk();
        check_logs(&fs, &dir);
    }
}

fn check_logs(fs: &DiskFileSystem, dir: &Path) {
    let (old, new) = (dir.join("000001.log"), dir.join("000002.log"));
    let capacity = 256 << 10;
    let mut log = fs.create_log(&old, capacity, None).unwrap();
    assert!(old.metadata().unwrap().blocks() * 512 >= capacity);
    log.append(&[b"one ", b"two"]).unwrap();
    log.syncer().sync().unwrap();
    assert_eq!((log.len(), log.remaining()), (7, capacity - 7));
    assert_eq!(fs.counters().written(IoClass::Wal), 7);
    drop(log);
    let inode = old.metadata().unwrap().ino();

    let mut log = fs.create_log(&new, capacity, Some(&old)).unwrap();
    assert!(!fs.exists(&old).unwrap());
    assert_eq!(new.metadata().unwrap().ino(), inode);
    assert_eq!(log.len(), 0);
    log.append(&[b"1"]).unwrap();
    assert_eq!(&read(fs, &new)[..8], b"1ne two\0");
    let full = log.append(&[&vec![0; capacity as usize]]).unwrap_err();
    assert_eq!(full.kind(), "NoSpace");
    drop(log);

    // Another capacity, and a name that is taken.
    assert_eq!(fs.create_log(&new, 10, Some(&new)).unwrap_err().kind(), "Io");
    for (number, capacity) in [(3, 1000), (4, 512 << 10)] {
        let before = FileName::Wal(number - 1).path(dir);
        let path = FileName::Wal(number).path(dir);
        let log = fs.create_log(&path, capacity, Some(&before)).unwrap();
        assert_eq!((log.remaining(), path.metadata().unwrap().len()), (capacity, capacity));
    }
}

#[test]
fn a_log_larger_than_a_file_can_be_is_refused_and_leaves_nothing() {
    let (fs, _temp, dir) = disk();
    let path = dir.join("000001.log");
    // More than any file may have, so that the system says no before it looks for space.
    assert!(fs.create_log(&path, 1 << 62, None).is_err());
    assert!(!fs.exists(&path).unwrap());
}

#[test]
fn current_points_at_the_last_manifest_set() {
    let (fs, _temp, dir) = disk();
    assert_eq!(read_current(&fs, &dir).unwrap(), None);
    for number in [1, 7] {
        // A file left under the temporary name by a crash is in nobody's way.
        write(&fs, &FileName::Temp(9).path(&dir), &[b"left over"]);
        set_current(&fs, &dir, number, 9).unwrap();
        assert_eq!(read_current(&fs, &dir).unwrap(), Some(number));
    }
    assert_eq!(fs.list(&dir).unwrap(), ["CURRENT"]);
    fs.remove(&FileName::Current.path(&dir)).unwrap();
    write(&fs, &FileName::Current.path(&dir), &[&[b'x'; 1000]]);
    assert_eq!(read_current(&fs, &dir).unwrap_err().kind(), "Corruption");
}

#[test]
fn a_link_is_a_second_name_and_a_directory_takes_no_name_that_is_taken() {
    let (fs, _temp, dir) = disk();
    let (one, two) = (dir.join("000001.sst"), dir.join("000002.sst"));
    write(&fs, &one, &[b"bytes"]);
    fs.hard_link(&one, &two).unwrap();
    let inode = |path: &Path| path.metadata().unwrap().ino();
    assert_eq!((inode(&one), read(&fs, &two)), (inode(&two), b"bytes".to_vec()));
    assert_eq!(fs.hard_link(&one, &two).unwrap_err().kind(), "Io");
    fs.remove(&one).unwrap();
    assert_eq!(read(&fs, &two), b"bytes");
    assert!(!no_link(&fs.hard_link(&one, &two).unwrap_err()));

    let (from, empty, full) = (dir.join("from"), dir.join("empty"), dir.join("full"));
    [&from, &empty, &full].into_iter().for_each(|d| fs.create_dir(d).unwrap());
    write(&fs, &full.join("x"), &[b"x"]);
    for taken in [&empty, &full, &two] {
        assert!(fs.rename_dir(&from, taken).is_err(), "{}", taken.display());
    }
    assert!(fs.remove_dir(&full).is_err());
    fs.remove_dir(&empty).unwrap();
    fs.rename_dir(&from, &empty).unwrap();
    assert!(fs.exists(&empty).unwrap() && !fs.exists(&from).unwrap());
}
