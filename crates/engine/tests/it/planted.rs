//! What somebody may have planted in a store's directory, links and pipes, what modes files have, and what errors tell
//! (`docs/durability.md`, *Untrusted files*). On the real disk.
#![allow(clippy::disallowed_methods, reason = "plants what no store makes")]

use std::io::ErrorKind;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use evenkeel::fs::FileSystem;
use evenkeel::testing::{SimulatedFileSystem, mend};
use evenkeel::{Builder, Db, Options, Result, ScanRange};

/// What no error may hold, and what of a key no error may hold whole.
const VALUE: &str = "a-value-that-is-nobody-else-s-business";
const KEY: &str = "a-key-that-is-long-enough-to-be-cut-where-it-is-shown-to-people-at-all";

fn builder(path: &Path) -> Builder {
    let options = Options {
        memtable_bytes: 4 << 10,
        table_bytes: 4 << 10,
        block_bytes: 512,
        wal_bytes_max: 64 << 10,
        reserve_bytes: 0,
        compression: "none".parse().unwrap(),
        ..Options::default()
    };
    Db::builder(path).options(options)
}

fn fill(db: &Db, from: u32) -> Result<()> {
    (from..from + 200).try_for_each(|n| db.put(format!("{KEY}{n:04}").as_bytes(), VALUE.as_bytes()))
}

fn store(path: &Path) {
    let db = builder(path).open().unwrap();
    fill(&db, 0).unwrap();
    db.flush().unwrap();
    db.put(b"last", VALUE.as_bytes()).unwrap();
    db.close().unwrap();
}

fn names(dir: &Path) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    all.sort();
    all
}

/// A copy of the store in `from`, in a directory of its own.
fn copy(from: &Path) -> (tempfile::TempDir, PathBuf) {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("store");
    std::fs::create_dir(&dir).unwrap();
    for path in names(from) {
        std::fs::copy(&path, dir.join(path.file_name().unwrap())).unwrap();
    }
    (temp, dir)
}

/// Opens and uses the store in every way; what it comes to is the caller's.
fn use_it(dir: &Path) -> [Result<()>; 3] {
    let read = |db: &Db| db.scan(ScanRange::all())?.try_for_each(|entry| entry.map(drop));
    [
        builder(dir).read_only(true).open().and_then(|db| read(&db)),
        builder(dir).untrusted().open().and_then(|db| read(&db)),
        builder(dir).set("control_socket", "true").open().and_then(|db| {
            read(&db)?;
            fill(&db, 100)?;
            db.flush()?;
            db.compact_range(ScanRange::all())?;
            db.close()
        }),
    ]
}

#[test]
fn a_planted_link_or_pipe_is_not_used() {
    let temp = tempfile::tempdir().unwrap();
    let whole = temp.path().join("whole");
    store(&whole);
    for path in names(&whole) {
        let name = path.file_name().unwrap();
        // A link to the very bytes that belong there: followed, nobody would notice.
        let (temp, dir) = copy(&whole);
        let precious = temp.path().join("precious");
        std::fs::rename(dir.join(name), &precious).unwrap();
        let before = std::fs::read(&precious).unwrap();
        symlink(&precious, dir.join(name)).unwrap();
        let outcomes = use_it(&dir);
        let for_people = ["LOG", "STATS", "HEAT"].contains(&name.to_str().unwrap());
        assert!(for_people || outcomes[2].is_err(), "{name:?} was followed");
        assert_eq!(std::fs::read(&precious).unwrap(), before, "{name:?}");

        let (_temp, dir) = copy(&whole);
        std::fs::remove_file(dir.join(name)).unwrap();
        assert!(Command::new("mkfifo").arg(dir.join(name)).status().unwrap().success());
        // Whoever reads a pipe waits for ever.
        let outcomes = use_it(&dir);
        assert!(for_people || outcomes[2].is_err(), "{name:?} was read");
    }
    // Under names that are about to be made.
    let (temp, dir) = copy(&whole);
    let precious = temp.path().join("precious");
    std::fs::write(&precious, b"precious").unwrap();
    let next = names(&dir).len() as u64 + 1;
    let forms: [fn(u64) -> String; 5] = [
        |n| format!("{n:06}.dbtmp"),
        |n| format!("{n:06}.log"),
        |n| format!("{n:06}.sst"),
        |n| format!("MANIFEST-{n:06}"),
        |n| format!("OPTIONS-{n:06}"),
    ];
    for n in next..next + 60 {
        let path = dir.join(forms[n as usize % forms.len()](n));
        if !path.exists() {
            symlink(&precious, path).unwrap();
        }
    }
    for name in ["SOCKET", "TRACE"] {
        symlink(&precious, dir.join(name)).unwrap();
    }
    drop(use_it(&dir));
    assert_eq!(std::fs::read(&precious).unwrap(), b"precious");
}

#[test]
fn everything_that_is_made_is_private() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("store");
    store(&dir);
    let db = builder(&dir).set("control_socket", "true").open().unwrap();
    fill(&db, 50).unwrap();
    db.checkpoint(temp.path().join("copy")).unwrap();
    let mut seen = 0;
    for folder in [&dir, &temp.path().join("copy")] {
        // The store is open: what it needs no more may go while it is looked at.
        let mode = |path: &Path| match path.symlink_metadata() {
            Ok(found) => Some(found.permissions().mode() & 0o7777),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => panic!("{}: {error}", path.display()),
        };
        assert_eq!(mode(folder), Some(0o700), "{}", folder.display());
        for path in names(folder) {
            let Some(mode) = mode(&path) else { continue };
            assert_eq!(mode, 0o600, "{}", path.display());
            seen += 1;
        }
    }
    assert!(seen > 10, "{seen} files");
    db.close().unwrap();
}

/// Errors are printed and logged, so they hold nothing of what is stored but where it is.
#[test]
fn errors_hold_no_values_and_little_of_keys() {
    let fs = SimulatedFileSystem::new();
    let dir = Path::new("/store");
    let open = |fs: &SimulatedFileSystem| builder(dir).file_system(Arc::new(fs.clone())).without_threads();
    let db = open(&fs).open().unwrap();
    fill(&db, 0).unwrap();
    db.flush().unwrap();
    fill(&db, 100).unwrap();
    db.close().unwrap();
    let mut told = 0;
    for name in fs.list(dir).unwrap().into_iter().filter(|name| name != "LOCK") {
        let whole = fs.contents(&dir.join(&name)).unwrap();
        let used = whole.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        for at in (0..used).step_by(used / 40 + 1) {
            for mended in [false, true] {
                let mut bytes = whole.clone();
                bytes[at] = bytes[at].wrapping_add(1);
                if mended {
                    mend(&name, &mut bytes);
                }
                let damaged = fs.process_kill();
                damaged.set_contents(&dir.join(&name), &bytes).unwrap();
                let outcome = open(&damaged).open().and_then(|db| {
                    db.verify()?;
                    db.scan(ScanRange::all())?.try_for_each(|entry| entry.map(drop))
                });
                let repair = open(&damaged).repair(false).map(|report| format!("{:?}", report.damage));
                let errors = [outcome.map(|()| String::new()), repair];
                for text in errors.map(|error| error.unwrap_or_else(|error| format!("{error} {error:?}"))) {
                    told += u64::from(!text.is_empty());
                    assert!(!text.contains(VALUE), "{name} at {at}: {text}");
                    assert!(!text.contains(KEY), "{name} at {at}: {text}");
                }
            }
        }
    }
    assert!(told > 50, "{told}");
}
