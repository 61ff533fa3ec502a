//! A file system in a file, as a disk of a chosen speed for engines that this process does not run itself.
//!
//! ```text
//! check rights ─► image ─► losetup ─► mkfs.ext4 ─► mount ─► limit (throttle.rs) ─► … ─► limit off ─► umount
//!                   └────── the image's name goes, and losetup -d: both are freed by the umount ──────────┘
//! ```
//! Whatever fails or is interrupted, the guard unmounts. What the kernel throttles is what reaches the device: reads of what
//! is not in the page cache, direct reads and writes, syncs, and writeback; a write into the page cache costs nothing yet.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use evenkeel::fs::{DiskFileSystem, FileSystem as _};
use evenkeel_lab::base::device::Device;
use evenkeel_lab::results::report;

use crate::failure::Failure;
use crate::files;
use crate::output::note;
use crate::throttle::{Groups, Throttle};

/// A mounted device; dropping it removes all of it.
#[derive(Debug)]
pub struct LoopDevice {
    // Dropped first: what is still to be written is not held up by it.
    _throttle: Throttle,
    mount: Mount,
    bytes_per_sec: u64,
}

impl LoopDevice {
    /// Makes one of `size` bytes below `dir`, which is made if it is not there.
    pub fn make(dir: &Path, size: u64, bytes_per_sec: u64) -> Result<LoopDevice, Failure> {
        // So that the guard comes to unmount it.
        evenkeel_sys::catch_interrupt();
        evenkeel_sys::catch_termination();
        let groups = may_make()?;
        let made =
            |what: &str, error| Failure::work(format!("cannot make {what} in {}: {error}", dir.display()));
        files::make_dir(dir).map_err(|error| made("a loop device", error))?;
        let free = DiskFileSystem::new().free_space(dir)?;
        if free < size {
            return Err(Failure::work(format!(
                "the loop device needs {}, and {} has {}; make it smaller with --device-size, or give another --db",
                report::bytes(size),
                dir.display(),
                report::bytes(free)
            )));
        }
        let image = Image::make(dir.join("device.img"), size).map_err(|error| made("an image", error))?;
        let device = attach(&image.0)?;
        let mount = Mount::make(device, dir.join("device"))?;
        drop(image);
        let number = files::read(&Path::new("/sys/block").join(mount.name()).join("dev")).ok().flatten();
        let number = number.ok_or_else(|| Failure::work(format!("{} has no number", mount.device)))?;
        let throttle = Throttle::set(groups, number.trim(), bytes_per_sec)
            .map_err(|error| Failure::work(format!("cannot throttle {}: {error}", mount.device)))?;
        Ok(LoopDevice { _throttle: throttle, mount, bytes_per_sec })
    }

    /// The directory in which everything is on the device.
    pub fn dir(&self) -> &Path {
        &self.mount.dir
    }

    /// The device for documents.
    pub fn told(&self) -> Device {
        Device::Loop { bytes_per_sec: self.bytes_per_sec }
    }
}

/// Says what is missing, before anything is made.
fn may_make() -> Result<Groups, Failure> {
    let refused = |why: &str| {
        Failure::work(format!(
            "a throttled loop device for engines other than evenkeel {why}; leave --device away, or measure evenkeel alone"
        ))
    };
    if !cfg!(target_os = "linux") {
        return Err(refused("needs Linux"));
    }
    let status = files::read(Path::new("/proc/self/status")).ok().flatten().unwrap_or_default();
    if !is_root(&status) {
        return Err(refused("needs root"));
    }
    let groups = Groups::find()
        .ok_or_else(|| refused("needs control groups with blkio (version 1) or io (version 2)"))?;
    if !files::is_writable(&groups.needed()) {
        return Err(refused(&format!("needs to write {}", groups.needed().display())));
    }
    for tool in ["losetup", "mkfs.ext4", "mount", "umount"] {
        run(tool, &["-V".as_ref()]).map_err(|_| refused(&format!("needs the command {tool}")))?;
    }
    Ok(groups)
}

/// If a process with this `/proc/self/status` acts as root: the second number is whose files it makes.
fn is_root(status: &str) -> bool {
    let uids = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    uids.and_then(|uids| uids.split_whitespace().nth(1)) == Some("0")
}

/// A sparse file, whose name goes at the end.
struct Image(PathBuf);

impl Image {
    fn make(path: PathBuf, size: u64) -> std::io::Result<Image> {
        files::make_sparse(&path, size)?;
        Ok(Image(path))
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        if let Err(error) = files::remove(&self.0) {
            note(&format!("keel: cannot remove {}: {error}", self.0.display()));
        }
    }
}

/// Makes a block device of a file; past the page cache where the file's own file system can, so that nothing is kept twice.
fn attach(image: &Path) -> Result<String, Failure> {
    let find = |options: &[&str]| {
        let words: Vec<&std::ffi::OsStr> = options
            .iter()
            .map(AsRef::as_ref)
            .chain(["-f".as_ref(), "--show".as_ref(), image.as_ref()])
            .collect();
        run("losetup", &words)
    };
    let device = find(&["--direct-io=on"]).or_else(|_| find(&[]))?;
    Ok(device.trim().to_owned())
}

/// A mounted device; it is freed when it is unmounted.
#[derive(Debug)]
struct Mount {
    device: String,
    dir: PathBuf,
    mounted: bool,
}

impl Mount {
    fn make(device: String, dir: PathBuf) -> Result<Mount, Failure> {
        let mut mount = Mount { device, dir, mounted: false };
        let device: &std::ffi::OsStr = mount.device.as_ref();
        // All tables of the file system now: nothing is to be written beside the engine later.
        run(
            "mkfs.ext4",
            &["-q".as_ref(), "-E".as_ref(), "lazy_itable_init=0,lazy_journal_init=0".as_ref(), device],
        )?;
        files::make_dir(&mount.dir)
            .map_err(|error| Failure::work(format!("cannot make {}: {error}", mount.dir.display())))?;
        run("mount", &[device, mount.dir.as_ref()])?;
        mount.mounted = true;
        // In use, so this takes effect with the unmount.
        mount.detach()?;
        Ok(mount)
    }

    fn name(&self) -> &str {
        self.device.rsplit('/').next().unwrap_or_default()
    }

    fn detach(&self) -> Result<(), Failure> {
        run("losetup", &["-d".as_ref(), self.device.as_ref()]).map(drop)
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let undone = match self.mounted {
            true => run("umount", &[self.dir.as_ref()])
                .or_else(|_| run("umount", &["-l".as_ref(), self.dir.as_ref()])),
            false => self.detach().map(|()| String::new()),
        };
        if let Err(Failure::Work(message)) = undone {
            note(&format!(
                "keel: {message}; `umount {}` and `losetup -d {}` remove the device",
                self.dir.display(),
                self.device
            ));
        }
        let _ = std::fs::remove_dir(&self.dir);
    }
}

/// Runs a command of the system; what it prints, or what is wrong in one line.
fn run(program: &str, words: &[&std::ffi::OsStr]) -> Result<String, Failure> {
    let output = Command::new(program).args(words).stdin(Stdio::null()).output();
    let output = output.map_err(|error| Failure::work(format!("cannot start {program}: {error}")))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.trim_end().lines().last().unwrap_or_default();
    Err(Failure::work(match last {
        "" => format!("{program} ended with {}", output.status),
        last => format!("{program} failed: {last}"),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whose_rights_count_is_read() {
        assert!(is_root("Name:\tkeel\nUid:\t1000\t0\t0\t0\n"));
        assert!(!is_root("Name:\tkeel\nUid:\t0\t1000\t0\t0\n"));
        assert!(!is_root(""));
    }

    #[test]
    fn a_command_that_fails_is_named() {
        let Err(Failure::Work(message)) = run("losetup", &["--no-such-flag".as_ref()]) else { panic!() };
        assert!(message.contains("losetup"), "{message}");
        assert!(run("no-such-command-anywhere", &[]).is_err());
    }
}
