//! A memtable written to tables where one stands, and the tables to a tree that is in memory only: what replaying a log and
//! making a checkpoint share. Neither has threads to leave it to, and neither has a manifest yet.

use std::sync::Arc;

use crate::base::error::Result;
use crate::base::units::KeyspaceId;
use crate::compaction::claims::Claims;
use crate::compaction::commit::flush;
use crate::compaction::tree_view::Ids;
use crate::execution::flush_job::FlushJob;
use crate::execution::merge_loop::Progress;
use crate::execution::output::{JobContext, OutputShape};
use crate::version::manifest::ManifestRecord;
use crate::version::version_set::VersionSet;
use crate::write::memtable::Memtable;

/// What was written.
#[derive(Clone, Copy, Debug, Default)]
pub struct Written {
    /// Tables.
    pub tables: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Writes `memtable`, which is newer than everything in the tree, to tables of `context`'s directory, and makes them the
/// newest run of the keyspace's tree. A keyspace that is not there is passed over. After an error nothing has changed.
pub fn flush_inline(
    context: &Arc<JobContext>,
    versions: &mut VersionSet,
    id: KeyspaceId,
    memtable: &Arc<Memtable>,
    shape: OutputShape,
) -> Result<Written> {
    let last = memtable.last_seq();
    let mut job = FlushJob::new(Arc::clone(context), Arc::clone(memtable), Vec::new(), shape);
    loop {
        match job.step(u64::MAX) {
            Ok((Progress::Finished, _)) => break,
            Ok(_) => {}
            Err(error) => {
                // What cannot be removed is an orphan, which the end of the recovery removes, or the next checkpoint.
                let _ = job.abandon();
                return Err(error);
            }
        }
    }
    let tables: Vec<_> = job.take_tables().into_iter().map(Arc::new).collect();
    let written = Written { tables: tables.len() as u64, bytes: tables.iter().map(|t| t.bytes).sum() };
    let Some(tree) = versions.trees().get(&id) else { return Ok(written) };
    let (next_run, next_group) = versions.ids().next_run_and_group();
    let mut ids = Ids { next_run, next_group };
    let now_ms = context.clock.wall_ms();
    let edit = flush(&tree.version, &Claims::default(), &mut ids, tables, last, now_ms)?.edit;
    versions.ids().run_and_group_at_least(ids.next_run, ids.next_group);
    let record = ManifestRecord { edits: vec![(id, edit)], ..ManifestRecord::default() };
    versions.apply_unrecorded(&record)?;
    Ok(written)
}
