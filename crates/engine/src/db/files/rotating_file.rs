//! A file for people that goes on in a new one when it has grown: `LOG` and `STATS`.
//!
//! ```text
//! LOG ── full, or another process opens the store ─► LOG.old.000007, and a new LOG; the oldest of too many goes
//! ```
//! A failure never reaches the store: it is counted, told once, and tried again a minute later in a new file.

use std::path::Path;
use std::time::Duration;

use crate::base::class::IoClass;
use crate::base::error::Result;
use crate::storage::file_name::FileName;
use crate::storage::file_system::{FileSystem, WritableFile};

/// After a failure nothing is written for so long.
const REST: Duration = Duration::from_secs(60);

/// `LOG` or `STATS`.
#[derive(Debug)]
pub struct RotatingFile {
    name: FileName,
    old: fn(u64) -> FileName,
    file: Option<Box<dyn WritableFile>>,
    /// True if the file of this name is ours, and nothing was ever written to it whole.
    in_vain: bool,
    rests_until: Duration,
    failures: u64,
}

/// How much is kept.
#[derive(Clone, Copy, Debug)]
pub struct Keep {
    /// Files, the one being written included; at least 1.
    pub files: u32,
    /// Bytes of each.
    pub bytes: u64,
}

impl RotatingFile {
    /// `LOG`, not begun.
    pub fn log() -> RotatingFile {
        RotatingFile::new(FileName::Log, FileName::OldLog)
    }

    /// `STATS`, not begun.
    pub fn stats() -> RotatingFile {
        RotatingFile::new(FileName::Stats, FileName::OldStats)
    }

    fn new(name: FileName, old: fn(u64) -> FileName) -> RotatingFile {
        RotatingFile { name, old, file: None, in_vain: false, rests_until: Duration::ZERO, failures: 0 }
    }

    /// Failures so far.
    pub fn failures(&self) -> u64 {
        self.failures
    }

    /// Appends whole lines. The first failure is answered, later ones are only counted.
    pub fn write(
        &mut self,
        fs: &dyn FileSystem,
        dir: &Path,
        keep: Keep,
        now: Duration,
        lines: &str,
    ) -> Result<()> {
        if now < self.rests_until {
            return Ok(());
        }
        let outcome = self.append(fs, dir, keep, lines.as_bytes());
        if outcome.is_err() {
            self.file = None;
            self.rests_until = now + REST;
            self.failures += 1;
            if self.failures > 1 {
                return Ok(());
            }
        }
        outcome
    }

    fn append(&mut self, fs: &dyn FileSystem, dir: &Path, keep: Keep, lines: &[u8]) -> Result<()> {
        let full = |file: &dyn WritableFile| {
            !file.is_empty() && file.len().saturating_add(lines.len() as u64) > keep.bytes
        };
        let file = match self.file.take() {
            Some(file) if !full(&*file) => file,
            other => {
                drop(other);
                self.begin(fs, dir, keep)?
            }
        };
        let file = self.file.insert(file);
        file.append(lines)?;
        file.flush()?;
        self.in_vain = false;
        Ok(())
    }

    /// Puts the file that is there aside, and begins a new one.
    fn begin(&mut self, fs: &dyn FileSystem, dir: &Path, keep: Keep) -> Result<Box<dyn WritableFile>> {
        let path = self.name.path(dir);
        let mut old: Vec<u64> = fs.list(dir)?.iter().filter_map(|name| self.number_of_old(name)).collect();
        old.sort_unstable();
        if self.in_vain && fs.exists(&path)? {
            // A disk that stays full must not push out the files that tell of better times.
            fs.remove(&path)?;
        } else if fs.exists(&path)? {
            let next = old.last().map_or(1, |n| n.saturating_add(1));
            fs.rename(&path, &(self.old)(next).path(dir))?;
            old.push(next);
        }
        let surplus = (old.len() + 1).saturating_sub(keep.files.max(1) as usize);
        for n in old.iter().take(surplus) {
            fs.remove(&(self.old)(*n).path(dir))?;
        }
        let file = fs.create(&path, IoClass::Manifest)?;
        self.in_vain = true;
        Ok(file)
    }

    fn number_of_old(&self, name: &str) -> Option<u64> {
        match (FileName::parse(name)?, self.name) {
            (FileName::OldLog(n), FileName::Log) | (FileName::OldStats(n), FileName::Stats) => Some(n),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::fault::{Fault, FaultError, FaultKind};
    use crate::storage::simulated::SimulatedFileSystem;

    const DIR: &str = "/s";
    const KEEP: Keep = Keep { files: 3, bytes: 10 };

    fn disk() -> SimulatedFileSystem {
        let fs = SimulatedFileSystem::new();
        fs.create_dir(Path::new(DIR)).unwrap();
        fs
    }

    fn write(log: &mut RotatingFile, fs: &SimulatedFileSystem, now: u64, lines: &str) -> Result<()> {
        log.write(fs, Path::new(DIR), KEEP, Duration::from_secs(now), lines)
    }

    fn text(fs: &SimulatedFileSystem, name: FileName) -> String {
        String::from_utf8(fs.contents(&name.path(Path::new(DIR))).unwrap()).unwrap()
    }

    #[test]
    fn it_goes_on_in_a_new_file_and_the_oldest_go() {
        let (fs, mut log) = (disk(), RotatingFile::log());
        for line in ["one 4567\n", "two\n", "three\n", "longer than the limit\n", "five\n"] {
            write(&mut log, &fs, 0, line).unwrap();
        }
        assert_eq!(fs.list(Path::new(DIR)).unwrap(), ["LOG", "LOG.old.000002", "LOG.old.000003"]);
        let old = [2, 3].map(|n| text(&fs, FileName::OldLog(n)));
        assert_eq!(old, ["two\nthree\n", "longer than the limit\n"]);
        assert_eq!(text(&fs, FileName::Log), "five\n");
        // The next open begins a file of its own, and that of others' names stay.
        write(&mut RotatingFile::log(), &fs, 0, "six\n").unwrap();
        write(&mut RotatingFile::stats(), &fs, 0, "{}\n").unwrap();
        let names = ["LOG", "LOG.old.000003", "LOG.old.000004", "STATS"];
        assert_eq!(fs.list(Path::new(DIR)).unwrap(), names);
    }

    #[test]
    fn a_failure_is_told_once_counted_and_tried_again() {
        let (fs, mut log) = (disk(), RotatingFile::log());
        write(&mut log, &fs, 0, "a\n").unwrap();
        fs.set_free_space(Some(0));
        assert!(write(&mut log, &fs, 1, "b\n").is_err());
        assert!(write(&mut log, &fs, 2, "c\n").is_ok(), "it rests");
        for minute in 1..9 {
            assert!(write(&mut log, &fs, 62 * minute, "d\n").is_ok(), "told once");
        }
        assert_eq!(log.failures(), 9);
        fs.set_free_space(None);
        write(&mut log, &fs, 1000, "e\n").unwrap();
        assert_eq!(text(&fs, FileName::Log), "e\n");
        assert!(text(&fs, FileName::OldLog(1)).starts_with("a\n"), "what was told before is still there");
        fs.inject(Fault {
            kind: FaultKind::Create,
            path_contains: "LOG".to_owned(),
            nth: 0,
            error: FaultError::Eio,
            sticky: false,
        });
        assert!(write(&mut RotatingFile::log(), &fs, 0, "f\n").is_err());
    }
}
