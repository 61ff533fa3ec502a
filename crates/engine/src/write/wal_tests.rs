//! The log's files where something comes in between: a disk that is full for a while, and a flush in the middle of a rotation.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::storage::fault::{Fault, FaultError, FaultKind};
use crate::storage::file_system::Syncer;
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
        assert!(matches!(files.prepare(), Err(Error::NoSpace { .. })));
        files.maintain(Duration::ZERO).unwrap();
    }
    assert!(fs.list(Path::new("/db")).unwrap().is_empty(), "its space is given back");
    fs.clear_faults();
    files.prepare().unwrap();
    let prepared = files.lock().prepared.front().map(|(_, file)| file.remaining());
    assert_eq!(prepared, Some(FIRST_LOG_BYTES));
    assert_eq!(fs.list(Path::new("/db")).unwrap().len(), 1);
}

type Hook = Box<dyn FnOnce() + Send>;

/// A log whose first append, which is its header, is told before it is done, and whose syncs at its end are counted.
struct HookedLog(Box<dyn LogFile>, Option<Hook>, Arc<AtomicU64>);

impl std::fmt::Debug for HookedLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl LogFile for HookedLog {
    fn append(&mut self, parts: &[&[u8]]) -> Result<()> {
        if let Some(hook) = self.1.take() {
            hook();
        }
        self.0.append(parts)
    }

    fn len(&self) -> u64 {
        self.0.len()
    }

    fn remaining(&self) -> u64 {
        self.0.remaining()
    }

    fn syncer(&self) -> Arc<dyn Syncer> {
        Arc::new(CountedSyncer(self.0.syncer(), Arc::clone(&self.2)))
    }
}

#[derive(Debug)]
struct CountedSyncer(Arc<dyn Syncer>, Arc<AtomicU64>);

impl Syncer for CountedSyncer {
    fn sync(&self) -> Result<()> {
        self.0.sync()
    }

    fn sync_at_end(&self) -> Result<()> {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.sync_at_end()
    }
}

/// Of the only log that is ready: its number, and how often it has been synced at its end.
fn hook_next(files: &WalFiles, hook: Option<Hook>) -> (u64, Arc<AtomicU64>) {
    let ends = Arc::new(AtomicU64::new(0));
    let (number, file) = files.lock().prepared.pop_front().unwrap();
    files.lock().prepared.push_back((number, Box::new(HookedLog(file, hook, Arc::clone(&ends)))));
    (number, ends)
}

/// Whoever uses the file again begins with a clean one.
#[test]
fn a_log_is_synced_for_good_when_it_is_sealed() {
    let fs = SimulatedFileSystem::new();
    let files = files(&fs);
    let mut wal = Wal::new(Arc::clone(&files));
    wal.begin(SeqNo(1)).unwrap();
    files.prepare().unwrap();
    let (_, ends) = hook_next(&files, None);
    let count = || ends.load(Ordering::Relaxed);
    wal.begin_next().unwrap();
    files.maintain(Duration::ZERO).unwrap();
    wal.append(b"batch", SeqNo(2)).unwrap();
    files.sync().unwrap();
    assert_eq!(count(), 0, "it is in use");
    wal.begin_next().unwrap();
    files.maintain(Duration::ZERO).unwrap();
    assert_eq!(count(), 1);
}

/// A flush that is installed while the leader is between two logs finds the full one needed by nobody. It was recycled then, and
/// sealed as what it had been: 32 bytes into another log.
#[test]
fn a_full_log_that_nobody_needs_is_let_go_unsealed_but_not_between_two_logs() {
    let fs = SimulatedFileSystem::new();
    let files = files(&fs);
    let mut wal = Wal::new(Arc::clone(&files));
    let first = wal.begin(SeqNo(1)).unwrap();
    let batch = vec![7; 100 * 1024];
    for seq in 1..=40 {
        assert_eq!(wal.append(&batch, SeqNo(seq)).unwrap(), Appended::Here);
    }
    files.prepare().unwrap();
    let flushes = Arc::clone(&files);
    let (number, _) = hook_next(&files, Some(Box::new(move || flushes.release_before(u64::MAX))));
    assert_eq!(wal.append(&batch, SeqNo(41)).unwrap(), Appended::Rotated);
    let kept = |files: &WalFiles| files.lock().live.iter().map(|log| log.number).collect::<Vec<_>>();
    assert_eq!(kept(&files), [first, number], "it was the current one when the flush came");
    let in_hands = files.lock().next_to_seal().unwrap();
    files.release_before(number);
    assert_eq!(kept(&files), [first, number], "the lane has it in hands");
    let mut state = files.lock();
    state.sealing = None;
    state.retiring.push_front(in_hands);
    drop(state);
    files.release_before(number);
    assert_eq!(kept(&files), [number]);
    assert!(files.lock().retiring.is_empty(), "nothing will be written into it as what it was");
    assert_eq!(files.lock().recyclable.len(), 1);
    files.maintain(Duration::ZERO).unwrap();
}

#[test]
fn logs_are_sealed_one_at_a_time_and_it_is_said_when_there_are_more() {
    let fs = SimulatedFileSystem::new();
    let files = files(&fs);
    let mut wal = Wal::new(Arc::clone(&files));
    wal.begin(SeqNo(1)).unwrap();
    for seq in 1..4 {
        wal.append(&[7; 100], SeqNo(seq)).unwrap();
        wal.begin_next().unwrap();
    }
    let sealed = || files.lock().live.iter().filter(|log| log.sealed_len.is_some()).count();
    for (count, more) in [(1, true), (2, true), (3, false), (3, false)] {
        assert_eq!((files.maintain(Duration::ZERO).unwrap(), sealed()), (more, count));
    }
}

/// Some MiB each, of no use to a store that nobody writes to.
#[test]
fn spare_logs_go_when_writers_have_gone_and_not_between_two_writes() {
    let fs = SimulatedFileSystem::new();
    let files = files(&fs);
    let mut wal = Wal::new(Arc::clone(&files));
    wal.begin(SeqNo(1)).unwrap();
    let (mut seq, mut now) = (0, Duration::from_secs(100));
    let batch = vec![7; MIB as usize];
    let mut fill_one = |now| {
        let spare = loop {
            seq += 1;
            if wal.append(&batch, SeqNo(seq)).unwrap() != Appended::Here {
                break wal.writer.as_ref().unwrap().id();
            }
        };
        files.prepare().unwrap();
        files.maintain(now).unwrap();
        spare
    };
    let spare = || {
        let state = files.lock();
        (state.recyclable.len(), state.prepared.len())
    };
    for _ in 0..6 {
        now += Duration::from_secs(2);
        let current = fill_one(now);
        files.release_before(current);
    }
    let busy = spare();
    assert_eq!(busy, (1, PREPARED_MAX), "the same right after a flush, which leaves one log");
    for seconds in 1..8 {
        files.maintain(now + Duration::from_secs(seconds)).unwrap();
        files.prepare().unwrap();
        assert_eq!(spare(), busy, "a pause of {seconds} s");
    }
    files.maintain(now + Duration::from_secs(8)).unwrap();
    files.prepare().unwrap();
    assert_eq!(spare(), (0, 1), "one is ready for the next writer");
    assert_eq!(fs.list(Path::new("/db")).unwrap().len(), 2);
}
