//! The commit queue and the list of snapshots under loom: every order of threads (up to a number of preemptions), and every value that a
//! load may return.
//!
//! ```text
//! writers    try_lead │ wait_turn ─► Lead: group, write, finish │ Done        one leads at a time, each batch once, nobody left
//! snapshots  open ─► view     beside     publish ─► list ─► drop what no snapshot sees ─► view
//! ```
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p evenkeel --lib loom_tests`: the layer `loom-db` of `cargo xtask trust`.

use std::sync::Arc;

use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use loom::thread::{JoinHandle, spawn};

use super::store::commit_queue::{Asked, CommitQueue, Turn};
use super::store::snapshots::Snapshots;
use crate::base::durability::Durability;
use crate::base::error::{Error, Result};
use crate::base::units::{KeyspaceId, SeqNo};
use crate::write::batch::WriteBatch;

/// Runs `test` under all combinations of at most `preemptions` preemptions.
fn explore(preemptions: usize, test: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 100_000;
    // Not one of loom's: it counts over all executions.
    let executions = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let counted = Arc::clone(&executions);
    builder.check(move || {
        counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        test();
    });
    println!(
        "loom executions={} preemptions={preemptions}",
        executions.load(std::sync::atomic::Ordering::Relaxed)
    );
}

/// A store that is its queue, and a log that only a leader may write to.
#[derive(Default)]
struct Writers {
    queue: CommitQueue,
    /// Somebody writes to the log.
    writing: AtomicBool,
    /// What was written, in order. No lock that loom sees: whoever writes is alone.
    log: std::sync::Mutex<Vec<u8>>,
}

impl Writers {
    /// As `commit.rs` does it, for a write of one byte, which fails if it is a capital letter.
    fn write(&self, name: u8, durability: Durability) -> Result<()> {
        let (mut batch, asked) = (WriteBatch::new(), Asked { durability, explicit: true });
        batch.put_id(KeyspaceId(0), &[name], b"");
        if self.queue.try_lead() {
            let result = self.append(&batch);
            self.queue.hand_over();
            return result;
        }
        match self.queue.wait_turn(&mut batch, asked) {
            Turn::Done(result) => {
                assert_eq!(names(&batch), [name], "a writer gets its own batch back");
                result
            }
            Turn::Lead => {
                let group = self.queue.group();
                let results = group.batches.iter().map(|(batch, _)| self.append(batch)).collect();
                self.queue.finish(group, results)
            }
        }
    }

    fn append(&self, batch: &WriteBatch) -> Result<()> {
        assert!(!self.writing.swap(true, Ordering::Acquire), "two lead");
        let names = names(batch);
        self.log.lock().unwrap().extend_from_slice(&names);
        assert!(self.writing.swap(false, Ordering::Release));
        match names.iter().any(u8::is_ascii_uppercase) {
            true => Err(Error::invalid("a capital letter")),
            false => Ok(()),
        }
    }
}

fn names(batch: &WriteBatch) -> Vec<u8> {
    batch.entries().map(|entry| entry.expect("whole").key[0]).collect()
}

/// Writes side by side, each by a thread of its own but the last: every one is written once and gets its own answer, and when all are
/// done nobody leads and nobody waits.
fn side_by_side(preemptions: usize, writes: &'static [(u8, Durability)]) {
    explore(preemptions, move || {
        let writers = Arc::new(Writers::default());
        let (own, others) = writes.split_last().expect("one at least");
        let write = |writers: &Writers, (name, durability): (u8, Durability)| {
            assert_eq!(writers.write(name, durability).is_err(), name.is_ascii_uppercase());
        };
        let threads: Vec<JoinHandle<()>> = others
            .iter()
            .map(|other| {
                let (writers, other) = (Arc::clone(&writers), *other);
                spawn(move || write(&writers, other))
            })
            .collect();
        write(&writers, *own);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let mut log = writers.log.lock().unwrap().clone();
        log.sort_unstable();
        let mut all: Vec<u8> = writes.iter().map(|(name, _)| *name).collect();
        all.sort_unstable();
        assert_eq!(log, all, "each is written once");
        assert!(writers.queue.try_lead(), "somebody leads still");
    });
}

#[test]
fn two_writers_are_each_written_once() {
    use Durability::{Os, Sync};
    side_by_side(4, &[(b'a', Os), (b'b', Os)]);
    side_by_side(4, &[(b'a', Sync), (b'B', Os)]);
}

#[test]
fn three_writers_of_both_kinds_are_each_written_once() {
    use Durability::{Os, Sync};
    side_by_side(3, &[(b'a', Os), (b'b', Sync), (b'c', Os)]);
    side_by_side(3, &[(b'a', Sync), (b'B', Sync), (b'c', Os)]);
}

/// One key with a version that every snapshot so far sees, while a second one is written, published, and flushed.
#[test]
fn a_flush_drops_nothing_that_a_snapshot_sees() {
    explore(4, || {
        let snapshots = Arc::new(Snapshots::default());
        // The sequence that is visible, and whether the view still holds version 1.
        let (visible, holds_first) = (Arc::new(AtomicU64::new(1)), Arc::new(AtomicBool::new(true)));
        let reader = {
            let (snapshots, visible, holds_first) =
                (Arc::clone(&snapshots), Arc::clone(&visible), Arc::clone(&holds_first));
            spawn(move || {
                let seq = snapshots.open(|| SeqNo(visible.load(Ordering::Acquire)), 0);
                // The view is taken after the sequence: it may be an older or a newer one.
                let found = if seq >= SeqNo(2) { true } else { holds_first.load(Ordering::Acquire) };
                assert!(found, "a snapshot at {seq} finds nothing");
                snapshots.close(seq);
            })
        };
        visible.store(2, Ordering::Release);
        if !snapshots.list().contains(&SeqNo(1)) {
            holds_first.store(false, Ordering::Release);
        }
        reader.join().unwrap();
        assert!(snapshots.list().is_empty());
    });
}

/// Two snapshots of one sequence: it is listed as long as one of them is open.
#[test]
fn a_sequence_is_listed_until_its_last_snapshot_is_closed() {
    explore(4, || {
        let snapshots = Arc::new(Snapshots::default());
        let first = snapshots.open(|| SeqNo(7), 0);
        let other = Arc::clone(&snapshots);
        let passing = spawn(move || {
            let seq = other.open(|| SeqNo(7), 1);
            other.close(seq);
        });
        assert_eq!(snapshots.list(), [SeqNo(7)]);
        assert!((1..=2).contains(&snapshots.oldest().count));
        snapshots.close(first);
        passing.join().unwrap();
        assert!(snapshots.list().is_empty());
    });
}
