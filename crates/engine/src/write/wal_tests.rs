//! The log's files where something comes in between: a disk that is full for a while, and a flush in the middle of a rotation.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::storage::fault::{Fault, FaultError, FaultKind};
use crate::storage::simulated::SimulatedFileSystem;

#[derive(Debug, Default)]
struct Numbers(AtomicU64);

impl NextNumber for Numbers {
    fn next_number(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed) + 100
    }
}

fn files(fs: &SimulatedFileSystem) -> Arc<WalFiles> {
    fs.create_dir(Path::new("/db")).unwrap();
    WalFiles::new(Arc::new(fs.clone()), "/db".into(), 64 * MIB, Box::new(Numbers::default()))
}

/// Each try once forgot a recycled file, which stayed on the full disk, and asked for twice as much as the one before.
#[test]
fn a_log_that_cannot_be_made_leaves_nothing_and_asks_for_no_more_the_next_time() {
    let fs = SimulatedFileSystem::new();
    let files = files(&fs);
    drop(fs.create_log(&FileName::Wal(7).path(Path::new("/db")), 8 * MIB, None).unwrap());
    let left = fs.list(Path::new("/db")).unwrap();
    assert_eq!(left, [FileName::Wal(7).to_string()]);
    files.adopt(7);
    fs.inject(Fault {
        kind: FaultKind::Create,
        path_contains: ".log".into(),
        nth: 0,
        error: FaultError::Enospc,
        sticky: true,
    });
    for _ in 0..5 {
        assert!(matches!(files.maintain(), Err(LogError::Refused(Error::NoSpace { .. }))));
    }
    assert!(fs.list(Path::new("/db")).unwrap().is_empty(), "its space is given back");
    fs.clear_faults();
    files.maintain().unwrap();
    let prepared = files.lock().prepared.as_ref().map(|(_, file)| file.remaining());
    assert_eq!(prepared, Some(FIRST_LOG_BYTES));
    assert_eq!(fs.list(Path::new("/db")).unwrap().len(), 1);
}
