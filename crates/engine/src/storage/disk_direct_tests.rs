//! Direct files on the real disk: every length, every place, every alignment, told beside the ordinary files. Where the
//! file system of the temporary directory refuses direct I/O, nothing can be shown, and that is said.

use std::path::PathBuf;

use super::*;
use crate::base::class::Class;
use crate::base::random::Random;
use crate::storage::disk::DiskFileSystem;
use crate::storage::file_system::FileSystem;

const CLASS: IoClass = IoClass::Background(Class::Deep);

/// A directory, and a file system that can do direct I/O there.
fn direct_disk() -> Option<(tempfile::TempDir, DiskFileSystem)> {
    // Not where tests usually go, which may be memory: beside the build, which is a disk.
    let home = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let dir = tempfile::tempdir_in(home.join("../../target")).or_else(|_| tempfile::tempdir()).unwrap();
    let fs = DiskFileSystem::new();
    let probe = dir.path().join("probe");
    match fs.create_direct(&probe, CLASS).unwrap() {
        Some(_) => Some((dir, fs)),
        None => {
            assert!(!fs.exists(&probe).unwrap(), "a refusal leaves no file");
            eprintln!("SKIPPED: {} has no direct I/O", dir.path().display());
            None
        }
    }
}

fn bytes(seed: u64, len: usize) -> Vec<u8> {
    let mut random = Random::new(seed);
    (0..len).map(|_| random.next_u64() as u8).collect()
}

#[test]
fn every_length_is_written_whole_and_no_longer() {
    let Some((dir, fs)) = direct_disk() else { return };
    let lens = [0, 1, 4095, 4096, 4097, BUFFER_LEN - 1, BUFFER_LEN, BUFFER_LEN + 1, 3 * BUFFER_LEN + 4099];
    for (i, len) in lens.into_iter().enumerate() {
        for piece in [997, 4096, 100_000, usize::MAX] {
            let path = dir.path().join(format!("{i}-{piece}"));
            let written = bytes(i as u64, len);
            let before = fs.counters().written(CLASS);
            let mut file = fs.create_direct(&path, CLASS).unwrap().unwrap();
            written.chunks(piece).for_each(|piece| file.append(piece).unwrap());
            assert_eq!(file.len(), len as u64);
            file.syncer().sync().unwrap();
            let ordinary = fs.open(&path).unwrap();
            assert_eq!(ordinary.len(), len as u64, "{len} in pieces of {piece}");
            let mut read = vec![0; len];
            ordinary.read_at(0, &mut read, CLASS).unwrap();
            assert!(read == written, "{len} in pieces of {piece}");
            assert_eq!(fs.counters().written(CLASS) - before, len as u64);
        }
    }
}

#[test]
fn appends_go_on_after_a_sync_and_a_drop_loses_nothing() {
    let Some((dir, fs)) = direct_disk() else { return };
    let path = dir.path().join("file");
    let written = bytes(1, 3 * BUFFER_LEN + 777);
    let mut file = fs.create_direct(&path, CLASS).unwrap().unwrap();
    let mut random = Random::new(3);
    let mut at = 0;
    while at < written.len() {
        let n = (1 + random.below(300_000) as usize).min(written.len() - at);
        file.append(&written[at..at + n]).unwrap();
        at += n;
        if random.below(3) == 0 {
            file.syncer().sync().unwrap();
            assert_eq!(fs.open(&path).unwrap().len(), at as u64);
        }
    }
    drop(file);
    let mut read = vec![0; written.len()];
    fs.open(&path).unwrap().read_at(0, &mut read, CLASS).unwrap();
    assert!(read == written);
    assert!(fs.create_direct(&path, CLASS).is_err(), "the name is taken");
}

#[test]
fn every_place_reads_as_it_was_written() {
    let Some((dir, fs)) = direct_disk() else { return };
    let path = dir.path().join("file");
    let written = bytes(2, 2 * BUFFER_LEN + 1234);
    let mut file = fs.create(&path, CLASS).unwrap();
    file.append(&written).unwrap();
    file.syncer().sync().unwrap();
    let direct = fs.open_direct(&path).unwrap().unwrap();
    assert_eq!((direct.len(), direct.path()), (written.len() as u64, path.as_path()));
    let mut random = Random::new(4);
    let mut aligned = AlignedBuffer::default();
    for i in 0..300u64 {
        let offset = match i % 3 {
            0 => random.below(written.len() as u64) / PAGE as u64 * PAGE as u64,
            1 => written.len() as u64 - 1 - random.below(5000),
            _ => random.below(written.len() as u64),
        };
        let bits = 1 + random.below(21);
        let len = (random.below(1 << bits) as usize).min(written.len() - offset as usize);
        let wanted = &written[offset as usize..][..len];
        let mut read = vec![0; len];
        direct.read_at(offset, &mut read, CLASS).unwrap();
        assert!(read == wanted, "{len} at {offset}");
        aligned.reset(len);
        let before = fs.counters().read(CLASS);
        direct.read_at(offset, &mut aligned, CLASS).unwrap();
        assert!(*aligned == *wanted, "{len} at {offset}, aligned");
        let counted = fs.counters().read(CLASS) - before;
        assert!(
            counted >= len as u64 && counted <= len as u64 + 2 * PAGE as u64,
            "{len} at {offset}: {counted}"
        );
    }
    let end = written.len() as u64;
    for (offset, len) in [(end, 1), (end - 1, 2), (u64::MAX, 1), (0, written.len() + 1)] {
        assert!(direct.read_at(offset, &mut vec![0; len], CLASS).is_err(), "{len} at {offset}");
    }
    direct.read_at(end, &mut [], CLASS).unwrap();
    // Shorter than when it was opened: an error, and no endless loop.
    fs.truncate(&path, 5000).unwrap();
    assert!(direct.read_at(4096, &mut vec![0; 9000], CLASS).is_err());
}
