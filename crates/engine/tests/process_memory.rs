//! Memory while hostile files are opened and read. It looks at the memory of its own process, so it is a binary of its own.
//!
//! ```text
//! store ─► each number in turn as large as it can be, checksums made right ─► open in every way, read ─► error or answer │ MEMORY
//! sparse files, a TiB long ─► the same
//! ```
//! `docs/durability.md`, *Untrusted files*.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "makes files that no store makes")]
#![cfg(target_os = "linux")]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use evenkeel::fs::{DiskFileSystem, FileSystem};
use evenkeel::testing::{SimulatedFileSystem, mend};
use evenkeel::{Builder, Db, Options, Result, ScanRange, WriteBatch};

const DIR: &str = "/store";

/// More than this, for a store of some KiB, is memory without bound. The claims are of GiB and more.
const MIB_MAX: u64 = 192;

/// Numbers that no file of this size can mean: eight bytes and four of ones, the largest varint, 2^40.
const CLAIMS: [&[u8]; 4] = [
    &[0xff; 8],
    &[0xff, 0xff, 0xff, 0x7f],
    &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
    &[0, 0, 0, 0, 0, 1, 0, 0],
];

/// Every how many-th byte a claim is put at.
const STRIDE: usize = if cfg!(debug_assertions) { 31 } else { 5 };

type Files = BTreeMap<String, Vec<u8>>;

fn builder(path: &Path, fs: Arc<dyn FileSystem>) -> Builder {
    let options = Options {
        memtable_bytes: 4 << 10,
        table_bytes: 4 << 10,
        block_bytes: 512,
        cache_bytes: 64 << 10,
        memory_bytes: 16 << 20,
        wal_bytes_max: 64 << 10,
        reserve_bytes: 0,
        create_if_missing: false,
        compression: "none,lz4".parse().unwrap(),
        ..Options::default()
    };
    Db::builder(path).file_system(fs).options(options).without_threads()
}

fn example() -> Files {
    let fs = SimulatedFileSystem::new();
    let db = builder(Path::new(DIR), Arc::new(fs.clone())).create_if_missing(true).open().unwrap();
    for n in 0..150_u32 {
        let mut batch = WriteBatch::new();
        batch.put(&n.to_be_bytes(), &[b'v'; 40]);
        if n % 20 == 0 {
            batch.delete_range(&(n / 2).to_be_bytes(), &(n / 2 + 3).to_be_bytes());
        }
        db.write(batch).unwrap();
    }
    db.compact_range(ScanRange::all()).unwrap();
    db.put(b"last", b"in the log").unwrap();
    db.close().unwrap();
    let mut files = Files::new();
    for name in fs.list(Path::new(DIR)).unwrap().into_iter().filter(|name| name != "LOCK") {
        let bytes = fs.contents(&Path::new(DIR).join(&name)).unwrap();
        files.insert(name, bytes);
    }
    files
}

/// Opens and reads in every way; only memory counts here, and that nothing panics.
fn use_it(path: &Path, fs: &dyn Fn() -> Arc<dyn FileSystem>) {
    let read = |db: &Db| -> Result<()> {
        db.get(b"last")?;
        db.scan(ScanRange::all())?.try_for_each(|entry| entry.map(drop))
    };
    let _ = builder(path, fs()).untrusted().open().and_then(|db| read(&db));
    let _ = builder(path, fs()).read_only(true).open().and_then(|db| read(&db));
    let _ = builder(path, fs()).repair(false);
    let _ = builder(path, fs()).open().and_then(|db| {
        read(&db)?;
        db.compact_range(ScanRange::all())?;
        read(&db)
    });
}

/// The most memory that this process has had, in MiB.
fn memory_most() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.split_whitespace().next().unwrap().parse::<u64>().unwrap() >> 10
}

#[test]
fn what_a_file_claims_takes_no_memory() {
    let files = example();
    let before = memory_most();
    let mut claims = 0;
    for (name, bytes) in files.iter().filter(|(name, _)| !name.starts_with("OPTIONS")) {
        let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        for at in (0..used).step_by(STRIDE) {
            for claim in CLAIMS {
                let mut files = files.clone();
                let bytes = files.get_mut(name).unwrap();
                let width = claim.len().min(bytes.len() - at);
                bytes[at..at + width].copy_from_slice(&claim[..width]);
                mend(name, bytes);
                use_it(Path::new(DIR), &|| {
                    let fs = SimulatedFileSystem::new();
                    fs.create_dir(Path::new(DIR)).unwrap();
                    files.iter().for_each(|(n, b)| fs.set_contents(&Path::new(DIR).join(n), b).unwrap());
                    Arc::new(fs)
                });
                claims += 1;
                let most = memory_most();
                assert!(most < before + MIB_MAX, "{name} at {at}, claim {claim:?}: {most} MiB");
            }
        }
    }
    assert!(claims > 100, "{claims}");
    sparse(&files, before);
    println!("claims={claims} rss_before_mib={before} rss_max_mib={}", memory_most());
}

/// A file may say that it is a TiB long and have a byte at its end. Nobody may believe that to be memory.
fn sparse(files: &Files, before: u64) {
    for name in files.keys() {
        for last in [0_u8, 1] {
            let temp = tempfile::tempdir().unwrap();
            for (name, bytes) in files {
                std::fs::write(temp.path().join(name), bytes).unwrap();
            }
            let file = std::fs::OpenOptions::new().write(true).open(temp.path().join(name)).unwrap();
            std::os::unix::fs::FileExt::write_all_at(&file, &[last], (1 << 40) - 1).unwrap();
            let _ = builder(temp.path(), Arc::new(DiskFileSystem::new())).untrusted().open();
            let most = memory_most();
            assert!(most < before + MIB_MAX, "{name}, a TiB long: {most} MiB");
        }
    }
}
