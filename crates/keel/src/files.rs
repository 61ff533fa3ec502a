//! Files that are not the store's own: what is loaded, what the bench leaves, what a directory holds.
//!
//! The store's files belong to the engine; here a directory is only looked at, before the engine is asked to open it.

use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _};
use std::path::Path;

/// What a path is, judged by names alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Nothing is there.
    Nothing,
    /// A directory without anything in it.
    EmptyDirectory,
    /// A directory with a store's files.
    Store,
    /// A directory with other files only.
    OtherFiles,
    /// Not a directory.
    NoDirectory,
}

/// Looks at a path.
#[expect(clippy::disallowed_methods, reason = "looks before the engine opens anything")]
pub fn look(path: &Path) -> io::Result<Place> {
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Place::Nothing),
        Err(error) => return Err(error),
        Ok(metadata) if !metadata.is_dir() => return Ok(Place::NoDirectory),
        Ok(_) => {}
    }
    let mut place = Place::EmptyDirectory;
    for entry in fs::read_dir(path)? {
        let name = entry?.file_name();
        let name = name.to_string_lossy();
        // LOCK alone is a store whose creation was cut short.
        if name == "CURRENT" || name == "LOCK" || name.starts_with("MANIFEST-") {
            return Ok(Place::Store);
        }
        place = Place::OtherFiles;
    }
    Ok(place)
}

/// What a directory and all below it occupy on disk, in bytes. Files that vanish meanwhile count nothing.
#[expect(clippy::disallowed_methods, reason = "only sums sizes")]
pub fn disk_bytes(dir: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(dir) else { return 0 };
    let size = |entry: fs::DirEntry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => disk_bytes(&entry.path()),
        Ok(metadata) => occupied(&metadata),
        Err(_) => 0,
    };
    entries.flatten().map(size).sum()
}

#[cfg(unix)]
fn occupied(metadata: &fs::Metadata) -> u64 {
    use std::os::unix::fs::MetadataExt;
    metadata.blocks() * 512
}

#[cfg(not(unix))]
fn occupied(metadata: &fs::Metadata) -> u64 {
    metadata.len()
}

/// Opens a file to be read; the second part is its length if it is a regular file.
#[expect(clippy::disallowed_methods, reason = "a user's file, not the store's")]
pub fn open(path: &Path) -> io::Result<(File, Option<u64>)> {
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    if metadata.is_dir() {
        return Err(io::Error::new(io::ErrorKind::IsADirectory, "is a directory"));
    }
    let length = metadata.is_file().then_some(metadata.len());
    Ok((file, length))
}

/// Reads a small file of ours; `None` if it is not there.
#[expect(clippy::disallowed_methods, reason = "the bench's own note")]
pub fn read(path: &Path) -> io::Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// The last whole line of a file; `None` if it has none.
#[expect(clippy::disallowed_methods, reason = "figures of a store that another process has open")]
pub fn last_line(path: &Path) -> io::Result<Option<String>> {
    const TAIL: u64 = 256 << 10;
    let mut file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other?,
    };
    let length = file.metadata()?.len();
    file.seek(io::SeekFrom::Start(length.saturating_sub(TAIL)))?;
    let mut bytes = Vec::new();
    file.take(TAIL).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    // What follows the last line end is being written.
    let Some((whole, _)) = text.rsplit_once('\n') else { return Ok(None) };
    Ok(whole.rsplit('\n').next().map(str::to_owned))
}

/// The process that holds a lock on a file, where the system tells.
#[cfg(target_os = "linux")]
pub fn lock_holder(path: &Path) -> Option<u32> {
    use std::os::unix::fs::MetadataExt as _;
    let inode = fs::metadata(path).ok()?.ino().to_string();
    let locks = read(Path::new("/proc/locks")).ok()??;
    // `1: FLOCK  ADVISORY  WRITE 4711 fe:01:131 0 EOF`; waiting ones have an arrow after the number.
    let pid = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, "FLOCK", _, _, pid, place, ..] = words.as_slice() else { return None };
        (place.rsplit(':').next() == Some(&inode)).then(|| pid.parse().ok()).flatten()
    };
    locks.lines().find_map(pid).filter(|pid| *pid > 0)
}

/// The process that holds a lock on a file, where the system tells.
#[cfg(not(target_os = "linux"))]
pub fn lock_holder(_: &Path) -> Option<u32> {
    None
}

/// Writes a small file for people or scripts.
#[expect(clippy::disallowed_methods, reason = "a result, not the store's file")]
pub fn write(path: &Path, text: &str) -> io::Result<()> {
    fs::write(path, text)
}

/// Makes a file that is written later, unless it is there: whether that can be is better known now.
#[expect(clippy::disallowed_methods, reason = "a result, not the store's file")]
pub fn make_file(path: &Path) -> io::Result<()> {
    File::options().create(true).append(true).open(path).map(drop)
}

/// Writes a small file so that whoever reads it sees all of it or nothing.
#[expect(clippy::disallowed_methods, reason = "a result, not the store's file")]
pub fn write_whole(path: &Path, text: &str) -> io::Result<()> {
    let unfinished = path.with_extension("tmp");
    write(&unfinished, text)?;
    fs::rename(&unfinished, path)
}

/// Takes a file as a sign that this process works in its directory; `None` if another one does. Held until it is dropped.
#[expect(clippy::disallowed_methods, reason = "results, not a store")]
pub fn claim(path: &Path) -> io::Result<Option<File>> {
    let file = File::options().create(true).truncate(false).write(true).open(path)?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(fs::TryLockError::WouldBlock) => Ok(None),
        Err(fs::TryLockError::Error(error)) => Err(error),
    }
}

/// Copies a directory that nobody writes to, and has it on the disk, so that nobody waits for that later.
#[expect(clippy::disallowed_methods, reason = "a store that is closed, whosoever it is")]
pub fn copy_dir(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_dir(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), &target)?;
            File::open(&target)?.sync_all()?;
        }
    }
    Ok(())
}

/// Reads every file of a directory once, so that the page cache has them. A kernel that reclaims memory ahead of need has
/// often let go of what nobody read for minutes.
#[expect(clippy::disallowed_methods, reason = "a store that is closed, whosoever it is")]
pub fn warm_dir(dir: &Path) -> io::Result<()> {
    let mut buffer = vec![0; 1 << 20];
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            warm_dir(&entry.path())?;
        } else {
            let mut file = File::open(entry.path())?;
            while file.read(&mut buffer)? > 0 {}
        }
    }
    Ok(())
}

/// A number that tells a file's bytes from others', short enough to be noted.
#[expect(clippy::disallowed_methods, reason = "a program, not the store's file")]
pub fn fingerprint(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut buffer = vec![0; 1 << 20];
    let mut sum = 0xcbf2_9ce4_8422_2325_u64;
    loop {
        let read = file.read(&mut buffer)?;
        let Some(bytes) = buffer.get(..read).filter(|bytes| !bytes.is_empty()) else {
            return Ok(format!("{sum:016x}"));
        };
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word.iter_mut().zip(chunk).for_each(|(to, from)| *to = *from);
            sum = (sum ^ u64::from_le_bytes(word)).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(29);
        }
    }
}

/// Makes a new file of so many bytes that occupies nothing yet.
#[expect(clippy::disallowed_methods, reason = "the image of a loop device, not the store's file")]
pub fn make_sparse(path: &Path, bytes: u64) -> io::Result<()> {
    fs::OpenOptions::new().write(true).create_new(true).open(path)?.set_len(bytes)
}

/// Removes a file that this process made.
#[expect(clippy::disallowed_methods, reason = "not the store's file")]
pub fn remove(path: &Path) -> io::Result<()> {
    fs::remove_file(path)
}

/// True if a file can be opened for writing. Nothing is written.
#[expect(clippy::disallowed_methods, reason = "a file of the kernel")]
pub fn is_writable(path: &Path) -> bool {
    fs::OpenOptions::new().write(true).open(path).is_ok()
}

/// Makes a directory for results, and those above it, unless it is there.
#[expect(clippy::disallowed_methods, reason = "for results, not for a store")]
pub fn make_dir(dir: &Path) -> io::Result<()> {
    fs::create_dir_all(dir)
}

/// Removes a directory that this process made, and everything in it.
pub fn remove_all(dir: &Path) -> io::Result<()> {
    fs::remove_dir_all(dir)
}

/// Removes a file that this process made, if it is there.
#[expect(clippy::disallowed_methods, reason = "a note of the lab, not a store's file")]
pub fn remove_file_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

/// Removes a directory that this process or its child made, if it is there.
pub fn remove_all_if_there(dir: &Path) -> io::Result<()> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_are_copied_and_programs_told_apart() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        make_dir(&from.join("below")).unwrap();
        write_whole(&from.join("below/a"), "1").unwrap();
        write_whole(&from.join("b"), "12345678").unwrap();
        write_whole(&from.join("b"), "123456789").unwrap();
        copy_dir(&from, &to).unwrap();
        assert_eq!(read(&to.join("below/a")).unwrap().as_deref(), Some("1"));
        assert_eq!(fingerprint(&from.join("b")).unwrap(), fingerprint(&to.join("b")).unwrap());
        write(&to.join("b"), "123456788").unwrap();
        assert_ne!(fingerprint(&from.join("b")).unwrap(), fingerprint(&to.join("b")).unwrap());
        let held = claim(&to.join("lock")).unwrap();
        assert!(held.is_some() && claim(&to.join("lock")).unwrap().is_none());
        drop(held);
        assert!(claim(&to.join("lock")).unwrap().is_some());
    }

    #[test]
    fn places_are_told_apart() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path();
        assert_eq!(look(path).unwrap(), Place::EmptyDirectory);
        assert_eq!(look(&path.join("x")).unwrap(), Place::Nothing);
        write(&path.join("notes"), "x").unwrap();
        assert_eq!(look(path).unwrap(), Place::OtherFiles);
        assert_eq!(look(&path.join("notes")).unwrap(), Place::NoDirectory);
        write(&path.join("MANIFEST-000001"), "x").unwrap();
        assert_eq!(look(path).unwrap(), Place::Store);
        assert!(disk_bytes(path) > 0);
        assert_eq!(read(&path.join("none")).unwrap(), None);
    }
}
