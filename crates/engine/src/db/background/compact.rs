//! Compaction at a user's wish: a range of keys, certain levels, with progress, and until it is cancelled.
//!
//! ```text
//! flush ─► L0: pick, job, pick, job ... nothing left ─► L1: ... ─► the deepest level: its runs are merged
//! ```
//! The jobs are ordinary ones, with claims and prefix commits, beside all others; levels keep their numbers meanwhile. Only
//! what was written before the call is followed down, so it ends however much is written beside it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::control::{Fails, flush, wait_until};
use crate::base::class::L0Permit;
use crate::base::error::{Error, Result};
use crate::base::key_range::KeyRange;
use crate::base::units::{JobId, SeqNo};
use crate::compaction::picker::{Pick, Wish, manual};
use crate::db::jobs::begin::{Begun, begin};
use crate::db::jobs::install::tree_view;
use crate::db::jobs::scheduling::ask_to_let_go;
use crate::db::reading::scan::ScanRange;
use crate::db::store::keyspace_state::KeyspaceState;
use crate::db::store::open_job::{JobWatch, Watched};
use crate::db::store::state::Store;
use crate::scheduler::conflict::LetsGo;
use crate::version::version::Version;

/// What to compact, for [`crate::Db::compact`]: at first everything, from L0 down to the deepest level that holds data.
///
/// ```
/// # fn main() -> evenkeel::Result<()> {
/// # let directory = tempfile::tempdir().expect("a directory");
/// # let db = evenkeel::Db::open(directory.path(), Default::default())?;
/// use evenkeel::{CompactOptions, ScanRange};
///
/// db.put(b"apple", b"red")?;
/// let report = db.compact(CompactOptions::new().range(ScanRange::prefix(b"a")))?;
/// assert!(!report.cancelled);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
pub struct CompactOptions {
    range: Option<ScanRange>,
    from_level: usize,
    to_level: Option<usize>,
    progress: Option<Arc<dyn Fn(&CompactProgress) + Send + Sync>>,
    cancel: Option<CancelToken>,
}

/// How far a compaction is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompactProgress {
    /// The level that is being emptied, or merged in place if it is the deepest.
    pub level: usize,
    /// Bytes read or moved so far.
    pub done_bytes: u64,
    /// As far as is known now, bytes to read or move in all; at least `done_bytes`.
    pub total_bytes: u64,
}

/// What a compaction came to.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CompactReport {
    /// Bytes of tables read.
    pub bytes_read: u64,
    /// Bytes of tables written.
    pub bytes_written: u64,
    /// Bytes of tables that only changed their place.
    pub bytes_moved: u64,
    /// Tables written.
    pub tables_written: u64,
    /// Compactions that it took, moves included, and without those that gave way and were begun again.
    pub compactions: u64,
    /// How long it took.
    pub seconds: f64,
    /// True if it was cancelled before it was done; what was finished is kept.
    pub cancelled: bool,
}

/// Cancels compactions from another thread, or a signal. Clones are one token.
#[derive(Clone, Debug, Default)]
pub struct CancelToken(Arc<AtomicBool>);

impl CancelToken {
    /// A token that has not been used.
    pub fn new() -> CancelToken {
        CancelToken::default()
    }

    /// Ends what was given this token within a tenth of a second or so: at the next key, keeping what is finished.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// True once it was used.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

impl CompactOptions {
    /// Everything.
    pub fn new() -> CompactOptions {
        CompactOptions::default()
    }

    /// Only these keys; whole tables that overlap them may be taken along.
    #[must_use]
    pub fn range(mut self, range: ScanRange) -> CompactOptions {
        self.range = Some(range);
        self
    }

    /// Leaves levels above this one alone; 0 is the first on disk. Memtables are flushed only for level 0.
    #[must_use]
    pub fn from_level(mut self, level: usize) -> CompactOptions {
        self.from_level = level;
        self
    }

    /// Takes nothing further down than to this level. If no level so deep holds data, as without this.
    #[must_use]
    pub fn to_level(mut self, level: usize) -> CompactOptions {
        self.to_level = Some(level);
        self
    }

    /// Told about every tenth of a second, on the thread that called.
    #[must_use]
    pub fn progress(mut self, told: impl Fn(&CompactProgress) + Send + Sync + 'static) -> CompactOptions {
        self.progress = Some(Arc::new(told));
        self
    }

    /// Ends when this token is used.
    #[must_use]
    pub fn cancel(mut self, token: &CancelToken) -> CompactOptions {
        self.cancel = Some(token.clone());
        self
    }

    fn is_cancelled(&self) -> bool {
        self.cancel.as_ref().is_some_and(CancelToken::is_cancelled)
    }
}

impl fmt::Debug for CompactOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompactOptions")
            .field("range", &self.range)
            .field("from_level", &self.from_level)
            .field("to_level", &self.to_level)
            .finish_non_exhaustive()
    }
}

/// Levels of the keyspace keep their numbers until this is dropped.
struct ByHand<'a> {
    store: &'a Store,
    keyspace: &'a KeyspaceState,
}

impl<'a> ByHand<'a> {
    fn begin(store: &'a Store, keyspace: &'a KeyspaceState) -> ByHand<'a> {
        *store.tree().by_hand.entry(keyspace.id).or_insert(0) += 1;
        ByHand { store, keyspace }
    }
}

impl Drop for ByHand<'_> {
    fn drop(&mut self) {
        let mut tree = self.store.tree();
        if let Some(count) = tree.by_hand.get_mut(&self.keyspace.id) {
            *count -= 1;
            if *count == 0 {
                tree.by_hand.remove(&self.keyspace.id);
            }
        }
        drop(tree);
        self.store.background.work_changed();
    }
}

/// Does what `options` say.
///
/// # Errors
/// `InvalidArgument` for levels that make no sense; `NoSpace` if there is not enough disk for it; `Paused`; what a job failed
/// of. What was finished before is kept.
pub fn compact(
    store: &Store,
    keyspace: &Arc<KeyspaceState>,
    options: &CompactOptions,
) -> Result<CompactReport> {
    store.listener.check_outside()?;
    store.check_takes_writes()?;
    let started = store.clock.now();
    if options.to_level.is_some_and(|to| to <= options.from_level) {
        return Err(Error::invalid("a compaction goes down: its last level is below its first one"));
    }
    let levels = keyspace.view.load().version.levels.len();
    if options.from_level >= levels.max(1) {
        let what = format!("there is no level {}; the deepest is {}", options.from_level, levels.max(1) - 1);
        return Err(Error::invalid(what));
    }
    let until = SeqNo(store.visible.load(Ordering::Acquire));
    if options.from_level == 0 {
        flush(store, keyspace)?;
    }
    // All the time, or a schedule would send a job away between its begin and the wait for it.
    let _waits = store.background.caller_waits(true);
    let _levels_stay = ByHand::begin(store, keyspace);
    let wish = Wish {
        range: options.range.as_ref().map_or_else(KeyRange::all, |range| range.0.clone()),
        to_level: options.to_level,
        until,
        // Tables made from here on are this compaction's own.
        before: store.tree().versions.ids().table(),
    };
    let mut driver = Driver { store, keyspace, options, wish, report: CompactReport::default(), total: 0 };
    driver.run()?;
    driver.report.seconds = store.clock.now().saturating_sub(started).as_secs_f64();
    Ok(driver.report)
}

struct Driver<'a> {
    store: &'a Store,
    keyspace: &'a Arc<KeyspaceState>,
    options: &'a CompactOptions,
    wish: Wish,
    report: CompactReport,
    /// The largest estimate so far.
    total: u64,
}

enum Step {
    Nothing,
    Past,
    Refused,
    Begun(Begun, Arc<JobWatch>),
    Blocked(Vec<JobId>),
}

impl Driver<'_> {
    fn run(&mut self) -> Result<()> {
        let mut level = self.options.from_level;
        self.estimate(level);
        loop {
            if self.options.is_cancelled() {
                self.report.cancelled = true;
                return Ok(());
            }
            match self.begin(level)? {
                Step::Nothing => {
                    level += 1;
                    self.estimate(level);
                }
                Step::Past => {
                    self.total = self.done();
                    self.tell(level.saturating_sub(1), 0);
                    return Ok(());
                }
                Step::Begun(Begun::Moved(bytes), _) => {
                    self.report.bytes_moved += bytes;
                    self.report.compactions += 1;
                    self.store.background.work_changed();
                }
                Step::Begun(Begun::Open(id), watch) => {
                    self.wait_for_own(id, level, &watch)?;
                    self.add(&watch.get())?;
                }
                Step::Blocked(by) => self.wait_for_others(&by, level)?,
                Step::Refused => {
                    let context = format!("compact keyspace `{}`", self.keyspace.name);
                    return Err(Error::NoSpace { context });
                }
            }
        }
    }

    fn begin(&self, level: usize) -> Result<Step> {
        let strategy = self.keyspace.strategy.load_full();
        // Under a pause no job may begin, and a move is one.
        let Some(_step) = self.store.background.begin_step() else { return Err(Error::Paused) };
        let mut tree = self.store.tree();
        let tree = &mut *tree;
        let Some(view) = tree_view(self.store, tree, self.keyspace.id) else {
            return Err(Error::invalid(format!("keyspace `{}` was dropped", self.keyspace.name)));
        };
        if level >= view.version.levels.len() || self.wish.to_level.is_some_and(|to| level >= to) {
            return Ok(Step::Past);
        }
        Ok(match manual(&view, &strategy.strategy, &self.wish, level) {
            Pick::Nothing => Step::Nothing,
            Pick::Blocked { by, .. } => Step::Blocked(by),
            Pick::Run(picked) => {
                let watch = Arc::new(JobWatch::default());
                match begin(
                    self.store,
                    tree,
                    self.keyspace,
                    *picked,
                    &[],
                    L0Permit::Full,
                    Some(Arc::clone(&watch)),
                )? {
                    Some(begun) => Step::Begun(begun, watch),
                    None => Step::Refused,
                }
            }
        })
    }

    /// Waits for the end of a job of ours, and asks it to yield when the token is used.
    fn wait_for_own(&self, id: JobId, level: usize, watch: &JobWatch) -> Result<()> {
        wait_until(self.store, Fails::Nothing, || {
            self.tell(level, watch.get().bytes_read);
            let mut state = self.store.background.lock();
            let job = state.jobs.iter_mut().find(|job| job.id == id);
            let open = job.is_some();
            let asked = job
                .filter(|job| self.options.is_cancelled() && job.lets_go.is_none())
                .map(|job| ask_to_let_go(self.store, job, LetsGo::Yields));
            drop(state);
            if asked.is_some() {
                // A worker may be asleep until the schedule lets it move on.
                self.store.background.wake();
            }
            !open
        })
    }

    fn wait_for_others(&self, by: &[JobId], level: usize) -> Result<()> {
        wait_until(self.store, Fails::Nothing, || {
            self.tell(level, 0);
            let state = self.store.background.lock();
            self.options.is_cancelled() || !state.jobs.iter().any(|job| by.contains(&job.id))
        })
    }

    fn add(&mut self, job: &Watched) -> Result<()> {
        self.report.bytes_read += job.bytes_read;
        self.report.bytes_written += job.bytes_written;
        self.report.tables_written += job.tables_written;
        self.report.compactions += u64::from(job.is_whole);
        job.failed.clone().map_or(Ok(()), Err)
    }

    fn done(&self) -> u64 {
        self.report.bytes_read + self.report.bytes_moved
    }

    fn tell(&self, level: usize, of_job: u64) {
        if let Some(told) = &self.options.progress {
            let done_bytes = self.done() + of_job;
            told(&CompactProgress { level, done_bytes, total_bytes: self.total.max(done_bytes) });
        }
    }

    /// What is still to be read, if each level takes all that is above it down, and the range of the one below along.
    fn estimate(&mut self, from: usize) {
        if self.options.progress.is_none() {
            return;
        }
        let version = Arc::clone(&self.keyspace.view.load().version);
        let to = self.wish.to_level.unwrap_or(usize::MAX);
        let (mut rest, mut moving) = (0, 0);
        for level in from..version.levels.len().min(to) {
            moving += bytes_in(&version, level, &self.wish.range);
            let deepest = level + 1 == version.levels.len();
            let runs = version.levels.get(level).map_or(0, |l| l.groups.iter().map(|g| g.run_count()).sum());
            if deepest && runs < 2 {
                break;
            }
            rest += moving + bytes_in(&version, level + 1, &self.wish.range);
        }
        self.total = self.done() + rest;
        self.tell(from, 0);
    }
}

fn bytes_in(version: &Version, level: usize, range: &KeyRange) -> u64 {
    let Some(found) = version.levels.get(level) else { return 0 };
    found.runs().flat_map(|run| run.overlapping(range)).map(crate::version::run::TableRef::bytes).sum()
}
