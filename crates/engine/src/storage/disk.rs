//! The real disk.
//!
//! Files are made with `O_EXCL` and mode 0600, directories with 0700. Nothing is opened through a symlink, and only
//! regular files are opened at all: a pipe planted in the directory is an error, not a wait. Interrupted and short calls
//! are completed below us (`retry_on_intr`, `write_all`). A directory is made durably, its parents' entries included.

use std::collections::BTreeSet;
use std::fs::{File, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags};
use rustix::io::{Errno, retry_on_intr};

use crate::base::class::IoClass;
use crate::base::error::{Error, Result};
use crate::base::locks::Mutex;
use crate::observe::io_counters::IoCounters;
use crate::storage::disk_direct::{DIRECT, DirectReader, Pages};
use crate::storage::disk_file::{DiskReader, Joined};
use crate::storage::disk_log::{Way, open_log};
use crate::storage::disk_writer::DiskWriter;
use crate::storage::file_system::{DirLock, FileSystem, LogFile, ReadFile, WritableFile};

/// Files of the operating system.
#[derive(Debug, Default)]
pub struct DiskFileSystem {
    counters: Arc<IoCounters>,
    /// Logs are never mapped.
    logs_written: bool,
}

impl DiskFileSystem {
    /// With counters of its own.
    pub fn new() -> DiskFileSystem {
        DiskFileSystem::default()
    }

    /// The same, with logs appended to by system calls only, as on a file system that cannot map them.
    pub fn without_mapped_logs() -> DiskFileSystem {
        DiskFileSystem { logs_written: true, ..DiskFileSystem::default() }
    }
}

impl FileSystem for DiskFileSystem {
    fn create(&self, path: &Path, class: IoClass) -> Result<Box<dyn WritableFile>> {
        let file = open(path, OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL).map_err(at("create", path))?;
        Ok(Box::new(DiskWriter::over(file, path, class, Arc::clone(&self.counters), Joined::default())))
    }

    fn create_direct(&self, path: &Path, class: IoClass) -> Result<Option<Box<dyn WritableFile>>> {
        let Some(direct) = DIRECT else { return Ok(None) };
        match open(path, OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | direct) {
            Ok(file) => {
                let counters = Arc::clone(&self.counters);
                Ok(Some(Box::new(DiskWriter::over(file, path, class, counters, Pages::new()))))
            }
            Err(error) if is_refusal(&error) => {
                // Linux makes the file before it looks at the flag.
                if is_there(path).map_err(at("look for", path))? {
                    self.remove(path)?;
                }
                Ok(None)
            }
            Err(error) => Err(at("create", path)(error)),
        }
    }

    fn create_log(&self, path: &Path, capacity: u64, recycle: Option<&Path>) -> Result<Box<dyn LogFile>> {
        let file = match recycle {
            Some(old) => recycled_log(old, path, capacity)?,
            None => new_log(path, capacity)?,
        };
        let way = if self.logs_written { Way::Written } else { Way::Best };
        open_log(file, path, capacity, way, Arc::clone(&self.counters)).map_err(|error| {
            // Nobody would know of it, recycled or new.
            let _ = rustix::fs::unlink(path);
            at("map", path)(error)
        })
    }

    fn open(&self, path: &Path) -> Result<Arc<dyn ReadFile>> {
        let (file, len) = open_regular(path, OFlags::RDONLY).map_err(at("open", path))?;
        Ok(Arc::new(DiskReader::new(file, path, len, Arc::clone(&self.counters))))
    }

    fn open_direct(&self, path: &Path) -> Result<Option<Arc<dyn ReadFile>>> {
        let Some(direct) = DIRECT else { return Ok(None) };
        match open_regular(path, OFlags::RDONLY | direct) {
            Ok((file, len)) => {
                let counters = Arc::clone(&self.counters);
                Ok(Some(Arc::new(DirectReader::new(file, path, len, counters))))
            }
            Err(error) if is_refusal(&error) => Ok(None),
            Err(error) => Err(at("open", path)(error)),
        }
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        retry_on_intr(|| rustix::fs::rename(from, to)).map_err(at("rename", from))
    }

    fn remove(&self, path: &Path) -> Result<()> {
        retry_on_intr(|| rustix::fs::unlink(path)).map_err(at("remove", path))
    }

    fn hard_link(&self, from: &Path, to: &Path) -> Result<()> {
        // Not `link`, which follows symlinks on some systems.
        let link = || rustix::fs::linkat(CWD, from, CWD, to, AtFlags::empty());
        retry_on_intr(link).map_err(|errno| {
            // A file system without links answers so.
            let error = match errno {
                Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS => ErrorKind::Unsupported.into(),
                other => io::Error::from(other),
            };
            at("link", to)(error)
        })
    }

    fn rename_dir(&self, from: &Path, to: &Path) -> Result<()> {
        rename_to_vacant(from, to).map_err(at("rename", from))
    }

    fn remove_dir(&self, dir: &Path) -> Result<()> {
        retry_on_intr(|| rustix::fs::rmdir(dir)).map_err(at("remove", dir))
    }

    fn truncate(&self, path: &Path, len: u64) -> Result<()> {
        let (file, old_len) = open_regular(path, OFlags::WRONLY).map_err(at("truncate", path))?;
        if len > old_len {
            return Err(Error::invalid(format!("truncate {} to more than it has", path.display())));
        }
        file.set_len(len).and_then(|()| file.sync_all()).map_err(at("truncate", path))
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        let entries = open_dir(dir).and_then(|file| Ok(Dir::new(file)?)).map_err(at("list", dir))?;
        let mut names = Vec::new();
        for entry in entries {
            // A name that is no text is none of ours.
            let entry = entry.map_err(at("list", dir))?;
            names.extend(entry.file_name().to_str().ok().map(str::to_owned));
        }
        names.retain(|name| name != "." && name != "..");
        names.sort_unstable();
        Ok(names)
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        is_there(path).map_err(at("look for", path))
    }

    fn is_dir(&self, path: &Path) -> Result<bool> {
        match retry_on_intr(|| rustix::fs::lstat(path)) {
            Ok(stat) => Ok(FileType::from_raw_mode(stat.st_mode) == FileType::Directory),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(at("look for", path)(error)),
        }
    }

    fn create_dir(&self, dir: &Path) -> Result<()> {
        make_dir(dir).map_err(at("create", dir))
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        open_dir(dir).and_then(|file| file.sync_all()).map_err(at("sync", dir))
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn DirLock>> {
        let locked = || Error::Locked { dir: path.parent().unwrap_or(path).to_path_buf() };
        let (file, _) =
            open_regular(path, OFlags::RDWR | OFlags::CREATE).map_err(at("open for writing", path))?;
        let meta = file.metadata().map_err(at("lock", path))?;
        let place = Registered::enter((meta.dev(), meta.ino())).ok_or_else(locked)?;
        match file.try_lock() {
            Ok(()) => Ok(Box::new(DiskLock { _file: file, _place: place })),
            Err(TryLockError::WouldBlock) => Err(locked()),
            Err(TryLockError::Error(error)) => Err(at("lock", path)(error)),
        }
    }

    fn free_space(&self, dir: &Path) -> Result<u64> {
        let stat =
            retry_on_intr(|| rustix::fs::statvfs(dir)).map_err(at("ask for the free space of", dir))?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }

    #[expect(clippy::disallowed_methods, reason = "a file of the kernel, and none of a store")]
    fn device_reads(&self) -> Option<u64> {
        // Linux has it; elsewhere there is no such file.
        let text = std::fs::read_to_string("/proc/self/io").ok()?;
        text.lines().find_map(|line| line.strip_prefix("read_bytes: ")?.parse().ok())
    }

    fn counters(&self) -> &Arc<IoCounters> {
        &self.counters
    }
}

/// Locks held in this process. The kernel's lock already stands between two openers here, except on file systems that
/// emulate it by the locks of `fcntl`, which belong to a process.
static HELD: Mutex<BTreeSet<(u64, u64)>> = Mutex::new(BTreeSet::new());

/// The fields are dropped in this order: the kernel's lock goes first.
#[derive(Debug)]
struct DiskLock {
    _file: File,
    _place: Registered,
}

impl DirLock for DiskLock {}

/// A place in `HELD`, by device and file number.
#[derive(Debug)]
struct Registered((u64, u64));

impl Registered {
    fn enter(key: (u64, u64)) -> Option<Registered> {
        let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
        // Lazily: a value made for nothing would take the key out again when it is dropped.
        held.insert(key).then(|| Registered(key))
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        HELD.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.0);
    }
}

/// Wraps a system error with what was done to which file.
fn at<E: Into<io::Error>>(what: &str, path: &Path) -> impl FnOnce(E) -> Error {
    let context = format!("{what} {}", path.display());
    move |error| Error::io(context, error.into())
}

/// True if this is how a file system says that it has no direct I/O.
fn is_refusal(error: &io::Error) -> bool {
    use rustix::io::Errno;
    [Errno::INVAL, Errno::OPNOTSUPP].iter().any(|no| error.raw_os_error() == Some(no.raw_os_error()))
}

/// Reads do not change when the file was read last, which the first read of a new file would wait for the file system's journal to note.
#[cfg(target_os = "linux")]
const UNTIMED: OFlags = OFlags::NOATIME;
#[cfg(not(target_os = "linux"))]
const UNTIMED: OFlags = OFlags::empty();

fn open(path: &Path, flags: OFlags) -> io::Result<File> {
    // NONBLOCK means nothing for regular files; of a pipe it makes an error where there would be a wait.
    let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    Ok(retry_on_intr(|| rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR))?.into())
}

/// Opens a regular file, and says how long it is.
fn open_regular(path: &Path, flags: OFlags) -> io::Result<(File, u64)> {
    // Only a file's owner may leave its times alone.
    let file = open(path, flags | UNTIMED).or_else(|_| open(path, flags))?;
    let meta = file.metadata()?;
    if !meta.is_file() {
        return Err(io::Error::new(ErrorKind::InvalidInput, "this is not a regular file"));
    }
    Ok((file, meta.len()))
}

/// Opens a directory. It may be reached through a symlink: where a store lies is the user's choice.
fn open_dir(dir: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let dir = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
    Ok(retry_on_intr(|| rustix::fs::open(dir, flags, Mode::empty()))?.into())
}

fn is_there(path: &Path) -> io::Result<bool> {
    match retry_on_intr(|| rustix::fs::lstat(path)) {
        Ok(_) => Ok(true),
        Err(Errno::NOENT) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Makes a directory and its parents, each durable before the next.
fn make_dir(dir: &Path) -> io::Result<()> {
    let mut missing: Vec<PathBuf> = Vec::new();
    for path in dir.ancestors().filter(|path| !path.as_os_str().is_empty()) {
        if is_there(path)? {
            break;
        }
        missing.push(path.to_path_buf());
    }
    for path in missing.iter().rev() {
        match retry_on_intr(|| rustix::fs::mkdir(path, Mode::RWXU)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        open_dir(path.parent().unwrap_or(path))?.sync_all()?;
    }
    // Fails if something else has the name.
    open_dir(dir).map(drop)
}

/// Renames where nothing has the new name, which the kernel sees to where it can.
fn rename_to_vacant(from: &Path, to: &Path) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{RenameFlags, renameat_with};
        match retry_on_intr(|| renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE)) {
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {}
            other => return Ok(other?),
        }
    }
    if is_there(to)? {
        return Err(ErrorKind::AlreadyExists.into());
    }
    Ok(retry_on_intr(|| rustix::fs::rename(from, to))?)
}

fn new_log(path: &Path, capacity: u64) -> Result<File> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
    let file = open(path, flags).map_err(at("create", path))?;
    if let Err(error) = allocate(&file, capacity) {
        // The empty file is of no use; the error at hand tells more than one from removing it could.
        let _ = rustix::fs::unlink(path);
        return Err(at("create", path)(error));
    }
    Ok(file)
}

/// Gives a log that is no longer needed a new name, and keeps its blocks: writing into them again costs the file system
/// nothing but the data.
fn recycled_log(old: &Path, path: &Path, capacity: u64) -> Result<File> {
    let (file, old_len) = open_regular(old, OFlags::RDWR).map_err(at("recycle", old))?;
    if is_there(path).map_err(at("create", path))? {
        return Err(at("create", path)(io::Error::from(ErrorKind::AlreadyExists)));
    }
    if old_len > capacity {
        file.set_len(capacity).map_err(at("recycle", old))?;
    }
    // From the start: an earlier owner may have left holes. Blocks that are there stay as they are.
    allocate(&file, capacity).map_err(at("recycle", old))?;
    retry_on_intr(|| rustix::fs::rename(old, path)).map_err(at("recycle", old))?;
    Ok(file)
}

/// Makes the file at least `len` bytes long, with blocks of its own for all of them.
#[cfg(target_os = "linux")]
fn allocate(file: &File, len: u64) -> io::Result<()> {
    use rustix::fs::{FallocateFlags, fallocate};

    if len == 0 {
        return Ok(());
    }
    match retry_on_intr(|| fallocate(file, FallocateFlags::empty(), 0, len)) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => write_zeros(file, len),
        other => Ok(other?),
    }
}

/// Makes the file at least `len` bytes long, with blocks of its own.
#[cfg(not(target_os = "linux"))]
fn allocate(file: &File, len: u64) -> io::Result<()> {
    write_zeros(file, len)
}

/// Allocates the blocks that the file lacks at its end by writing to them.
fn write_zeros(file: &File, len: u64) -> io::Result<()> {
    use std::os::unix::fs::FileExt as _;

    let zeros = [0; 64 << 10];
    let mut at = file.metadata()?.len();
    while at < len {
        let n = (len - at).min(zeros.len() as u64);
        file.write_all_at(&zeros[..n as usize], at)?;
        at += n;
    }
    Ok(())
}

#[cfg(test)]
#[path = "disk_tests.rs"]
mod tests;
