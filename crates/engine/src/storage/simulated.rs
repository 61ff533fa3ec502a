//! A disk in memory that crashes on command, so that every way to lose power can be tried a thousand times a second.
//!
//! ```text
//! calls:   create  append  append  sync  rename  sync_dir ...
//!            1       2       3       4      5        6          crash_after(5): 5 and all that follows fail
//! crash(seed, policy) ──► a new disk with what survived; process_kill() ──► a new disk with everything
//! ```
//!
//! Strict where systems differ: a name is durable only when its directory was synced. Everything follows from the
//! calls and the seed; there is no other chance and no time. The handle is a reference: clones are the same disk.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::base::class::IoClass;
use crate::base::error::{Error, Result};
use crate::base::locks::Mutex;
use crate::observe::io_counters::IoCounters;
use crate::storage::fault::{Fault, FaultKind};
use crate::storage::file_system::{DirLock, FileSystem, LogFile, ReadFile, WritableFile};
use crate::storage::simulated_crash::{CrashPolicy, copied, crashed};
use crate::storage::simulated_disk::{Call, CallKind, Disk, Shared, io_error};
use crate::storage::simulated_file::{SimulatedLog, SimulatedReader, SimulatedWriter};
use crate::storage::simulated_state::{EntryOp, File, FileOp, FileState, Tree};

/// The simulated disk.
#[derive(Clone, Debug, Default)]
pub struct SimulatedFileSystem {
    shared: Arc<Shared>,
}

impl SimulatedFileSystem {
    /// An empty disk.
    pub fn new() -> SimulatedFileSystem {
        SimulatedFileSystem::default()
    }

    fn of_tree(tree: Tree, order: u64) -> SimulatedFileSystem {
        let disk = Disk { tree, order, ..Disk::default() };
        SimulatedFileSystem { shared: Arc::new(Shared { disk: Mutex::new(disk), ..Shared::default() }) }
    }

    /// The disk after the machine lost its power now. This one stays as it is, for threads that still hold it.
    pub fn crash(&self, seed: u64, policy: CrashPolicy) -> SimulatedFileSystem {
        SimulatedFileSystem::of_tree(crashed(&self.shared.disk().tree, seed, policy), 0)
    }

    /// The disk after the process was killed now: everything handed to the kernel is there, though still not durable.
    pub fn process_kill(&self) -> SimulatedFileSystem {
        let disk = self.shared.disk();
        SimulatedFileSystem::of_tree(copied(&disk.tree), disk.order)
    }

    /// Lets the `nth` call that changes the disk, counted from 1 when the disk was made, and everything after it, reads
    /// too, fail.
    pub fn crash_after(&self, nth: u64) {
        self.shared.disk().crash_at = Some(nth);
    }

    /// True once the call to crash at has been made.
    pub fn has_crashed(&self) -> bool {
        self.shared.disk().crashed
    }

    /// From now on keeps the disk as it is before each call that changes it: one run then gives every point at which the
    /// machine could have lost its power. Copies share their bytes.
    pub fn record_states(&self) {
        self.shared.disk().recorded = Some(Vec::new());
    }

    /// The disks kept since the last time, each with the number of the call before which it was like that.
    pub fn take_states(&self) -> Vec<(u64, SimulatedFileSystem)> {
        let mut disk = self.shared.disk();
        let states = disk.recorded.as_mut().map(std::mem::take).unwrap_or_default();
        drop(disk);
        states
            .into_iter()
            .map(|(call, tree)| (call, SimulatedFileSystem::of_tree(tree, u64::MAX / 2)))
            .collect()
    }

    /// All calls so far that changed the disk, in order.
    pub fn calls(&self) -> Vec<Call> {
        self.shared.disk().calls.clone()
    }

    /// How many there are.
    pub fn call_count(&self) -> u64 {
        self.shared.disk().calls.len() as u64
    }

    /// Plants a fault.
    pub fn inject(&self, fault: Fault) {
        self.shared.disk().faults.plant(fault);
    }

    /// Removes all faults.
    pub fn clear_faults(&self) {
        self.shared.disk().faults.clear();
    }

    /// How many operations a fault has hit.
    pub fn faults_fired(&self) -> u64 {
        self.shared.disk().faults.fired()
    }

    /// From now on files may grow by this much in all; `None` lifts the limit.
    pub fn set_free_space(&self, bytes: Option<u64>) {
        let mut disk = self.shared.disk();
        disk.bytes_max = bytes.map(|bytes| disk.used().saturating_add(bytes));
    }

    /// From now on refuses direct I/O, as some file systems do.
    pub fn refuse_direct(&self) {
        self.shared.disk().refuses_direct = true;
    }

    /// How many files were made or opened for direct I/O.
    pub fn direct_opens(&self) -> u64 {
        self.shared.disk().direct_opens
    }

    /// Notes that direct I/O was asked for; false if it is refused.
    fn go_direct(&self) -> bool {
        let mut disk = self.shared.disk();
        disk.direct_opens += u64::from(!disk.refuses_direct);
        !disk.refuses_direct
    }

    /// A file's bytes as a reader would see them now.
    pub fn contents(&self, path: &Path) -> Option<Vec<u8>> {
        let file = self.shared.disk().find(path).ok()?;
        let bytes = file.state().current.to_vec();
        Some(bytes)
    }

    /// Gives the file these bytes, durably, as if the disk had rotted; makes it if needed. The directory must exist.
    pub fn set_contents(&self, path: &Path, bytes: &[u8]) -> Result<()> {
        let mut disk = self.shared.disk();
        let (dir, name) = disk.parent(path)?;
        let file = File::new(FileState::default());
        file.state().apply(0, FileOp::Write { offset: 0, bytes: bytes.into() });
        file.state().sync();
        dir.current.insert(name.clone(), file.clone());
        dir.durable.insert(name, file);
        Ok(())
    }
}

impl FileSystem for SimulatedFileSystem {
    fn create(&self, path: &Path, class: IoClass) -> Result<Box<dyn WritableFile>> {
        let mut disk = self.shared.disk();
        let step = disk.begin(CallKind::Create, path)?;
        disk.check_fault(FaultKind::Create, path)?;
        let file = disk.make_file(path)?;
        step.finish()?;
        Ok(Box::new(SimulatedWriter::new(&self.shared, file, path, class)))
    }

    /// What is written directly is no more durable than what is not: it still needs its sync.
    fn create_direct(&self, path: &Path, class: IoClass) -> Result<Option<Box<dyn WritableFile>>> {
        if self.go_direct() { self.create(path, class).map(Some) } else { Ok(None) }
    }

    fn create_log(&self, path: &Path, capacity: u64, recycle: Option<&Path>) -> Result<Box<dyn LogFile>> {
        let mut disk = self.shared.disk();
        let step = disk.begin(CallKind::CreateLog, path)?;
        disk.check_fault(FaultKind::Create, path)?;
        let file = disk.make_log(path, capacity, recycle)?;
        step.finish()?;
        Ok(Box::new(SimulatedLog::new(&self.shared, file, path, capacity)))
    }

    fn open(&self, path: &Path) -> Result<Arc<dyn ReadFile>> {
        let mut disk = self.shared.disk();
        disk.check_up()?;
        disk.check_fault(FaultKind::Open, path)?;
        let file = disk.find(path)?;
        Ok(Arc::new(SimulatedReader::new(&self.shared, file, path)))
    }

    fn open_direct(&self, path: &Path) -> Result<Option<Arc<dyn ReadFile>>> {
        if self.go_direct() { self.open(path).map(Some) } else { Ok(None) }
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let mut disk = self.shared.disk();
        let step = disk.begin(CallKind::Rename, to)?;
        disk.check_fault(FaultKind::Entry, to)?;
        disk.rename(from, to)?;
        step.finish()
    }

    fn remove(&self, path: &Path) -> Result<()> {
        let mut disk = self.shared.disk();
        let step = disk.begin(CallKind::Remove, path)?;
        disk.check_fault(FaultKind::Entry, path)?;
        let file = disk.find(path)?;
        let order = disk.order;
        let (dir, name) = disk.parent(path)?;
        dir.apply(order, EntryOp::Remove { name, file });
        step.finish()
    }

    fn hard_link(&self, from: &Path, to: &Path) -> Result<()> {
        let mut disk = self.shared.disk();
        let step = disk.begin(CallKind::Link, to)?;
        disk.check_fault(FaultKind::Link, to)?;
        disk.link(from, to)?;
        step.finish()
    }

    fn rename_dir(&self, from: &Path, to: &Path) -> Result<()> {
        let mut disk = self.shared.disk();
        let step = disk.begin(CallKind::RenameDir, to)?;
        disk.check_fault(FaultKind::Entry, to)?;
        disk.rename_dir(from, to)?;
        step.finish()
    }

    fn remove_dir(&self, path: &Path) -> Result<()> {
        let mut disk = self.shared.disk();
        let step = disk.begin(CallKind::RemoveDir, path)?;
        disk.check_fault(FaultKind::Entry, path)?;
        let below = |dir: &Path| dir.parent() == Some(path);
        if !disk.directory(path)?.current.is_empty() || disk.tree.keys().any(|dir| below(dir)) {
            return Err(io_error("remove", path, ErrorKind::DirectoryNotEmpty));
        }
        step.finish()?;
        disk.tree.remove(path);
        Ok(())
    }

    fn truncate(&self, path: &Path, len: u64) -> Result<()> {
        let mut disk = self.shared.disk();
        let step = disk.begin(CallKind::Truncate, path)?;
        disk.check_fault(FaultKind::Entry, path)?;
        let file = disk.find(path)?;
        let mut state = file.state();
        if len > state.current.len {
            return Err(Error::invalid(format!("truncate {} to more than it has", path.display())));
        }
        state.apply(disk.order, FileOp::SetLen(len));
        step.finish()?;
        state.sync();
        Ok(())
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        let mut disk = self.shared.disk();
        disk.check_up()?;
        let mut names: Vec<String> = disk.directory(dir)?.current.keys().cloned().collect();
        let below = disk.tree.keys().filter(|path| path.parent() == Some(dir));
        names.extend(below.filter_map(|path| path.file_name()?.to_str().map(str::to_owned)));
        names.sort_unstable();
        Ok(names)
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        let mut disk = self.shared.disk();
        disk.check_up()?;
        Ok(disk.tree.contains_key(path) || disk.find(path).is_ok())
    }

    fn is_dir(&self, path: &Path) -> Result<bool> {
        let disk = self.shared.disk();
        disk.check_up()?;
        Ok(disk.tree.contains_key(path))
    }

    fn create_dir(&self, dir: &Path) -> Result<()> {
        let mut disk = self.shared.disk();
        let step = disk.begin(CallKind::CreateDir, dir)?;
        disk.check_fault(FaultKind::Create, dir)?;
        if let Some(file) = dir.ancestors().find(|path| disk.find(path).is_ok()) {
            return Err(io_error("create", file, ErrorKind::AlreadyExists));
        }
        step.finish()?;
        for path in dir.ancestors() {
            disk.tree.entry(path.to_path_buf()).or_default();
        }
        Ok(())
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        let mut disk = self.shared.disk();
        let step = disk.begin(CallKind::SyncDir, dir)?;
        disk.check_fault(FaultKind::Sync, dir)?;
        let losing = disk.check_fault(FaultKind::SyncLosing, dir);
        let directory = disk.directory(dir)?;
        if losing.is_err() {
            directory.pending.clear();
            return losing;
        }
        step.finish()?;
        directory.sync();
        disk.settle_dirs(dir);
        Ok(())
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn DirLock>> {
        let mut disk = self.shared.disk();
        disk.check_up()?;
        if disk.find(path).is_err() {
            disk.make_file(path)?;
        }
        if !disk.locks.insert(path.to_path_buf()) {
            let dir = path.parent().unwrap_or(path).to_path_buf();
            return Err(Error::Locked { dir });
        }
        Ok(Box::new(SimulatedLock { shared: Arc::clone(&self.shared), path: path.to_path_buf() }))
    }

    fn free_space(&self, dir: &Path) -> Result<u64> {
        let mut disk = self.shared.disk();
        disk.check_up()?;
        disk.directory(dir)?;
        Ok(disk.free())
    }

    fn counters(&self) -> &Arc<IoCounters> {
        &self.shared.counters
    }
}

#[derive(Debug)]
struct SimulatedLock {
    shared: Arc<Shared>,
    path: PathBuf,
}

impl DirLock for SimulatedLock {}

impl Drop for SimulatedLock {
    fn drop(&mut self) {
        self.shared.disk().locks.remove(&self.path);
    }
}

#[cfg(test)]
#[path = "simulated_tests.rs"]
mod tests;
