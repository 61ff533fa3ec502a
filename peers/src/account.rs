//! What the kernel and the clients say about an engine that does not say it itself: bytes written by either, bytes on disk.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Counters that threads do not share, as long as there are no more threads than these.
const LANES: usize = 64;

#[repr(align(128))]
#[derive(Default)]
struct Lane(AtomicU64);

/// Bytes that clients wrote and that the process handed to the kernel for it.
pub struct Account {
    client: Vec<Lane>,
    handed_before: Option<u64>,
}

impl Account {
    /// Begins to count.
    pub fn new() -> Account {
        Account { client: (0..LANES).map(|_| Lane::default()).collect(), handed_before: handed_to_kernel() }
    }

    /// A client wrote so many bytes.
    pub fn wrote(&self, bytes: usize) {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        thread_local!(static LANE: usize = NEXT.fetch_add(1, Ordering::Relaxed) % LANES);
        let lane = LANE.with(|lane| *lane);
        if let Some(lane) = self.client.get(lane) {
            lane.0.fetch_add(bytes as u64, Ordering::Relaxed);
        }
    }

    /// Bytes handed to the kernel for each byte that clients wrote.
    pub fn write_amplification(&self) -> Option<f64> {
        let client: u64 = self.client.iter().map(|lane| lane.0.load(Ordering::Relaxed)).sum();
        let handed = handed_to_kernel()?.checked_sub(self.handed_before?)?;
        (client > 0).then(|| handed as f64 / client as f64)
    }
}

/// Bytes of all calls of write(2) and its kin by this process, memory maps excluded.
fn handed_to_kernel() -> Option<u64> {
    let io = std::fs::read_to_string("/proc/self/io").ok()?;
    io.lines().find_map(|line| line.strip_prefix("wchar:"))?.trim().parse().ok()
}

/// What a directory and all below it occupy on disk, in bytes. Files that vanish meanwhile count nothing.
pub fn disk_bytes(dir: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(dir) else { return 0 };
    let size = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => disk_bytes(&entry.path()),
        Ok(metadata) => metadata.blocks() * 512,
        Err(_) => 0,
    };
    entries.flatten().map(size).sum()
}

/// The version of a crate that this binary was built with.
pub fn crate_version(name: &str) -> String {
    let lock = include_str!("../Cargo.lock");
    let package = format!("name = \"{name}\"\nversion = \"");
    let rest = lock.split_once(&package).map_or("", |(_, rest)| rest);
    rest.split('"').next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_counted_by_both_sides() {
        let dir = tempfile::tempdir().unwrap();
        let account = Account::new();
        assert_eq!(account.write_amplification(), None);
        std::fs::write(dir.path().join("x"), vec![7; 1 << 20]).unwrap();
        account.wrote(1 << 19);
        // Other tests of this process write too.
        assert!(account.write_amplification().unwrap() >= 2.0);
        assert!(disk_bytes(dir.path()) >= 1 << 20);
    }

    #[test]
    fn versions_come_from_the_lock() {
        assert_eq!(crate_version("keel-peers"), env!("CARGO_PKG_VERSION"));
        assert!(crate_version("librocksdb-sys").contains('+'));
        assert_eq!(crate_version("none"), "");
    }
}
