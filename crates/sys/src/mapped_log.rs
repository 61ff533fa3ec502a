//! A log file that is written by memcpy: 25 ns for a record where write(2) takes 600 and more.
//! The file is allocated, mapped shared and populated before the first append, then an append copies bytes
//! into the page cache and makes no system call. What was appended survives the death of the process (the
//! pages belong to the file); it survives a power loss once another thread has synced [`MappedLog::file`].
//!
//! **Why no SIGBUS.** A store to a mapping raises SIGBUS when its page cannot be had: it lies behind the end
//! of the file, no block can be allocated for it, or reading it from the device fails. fallocate(2) rules out
//! the first two, and its failure is an ordinary `io::Error` (`StorageFull`); populating has read every page
//! before we write. File systems that place a rewritten block anew (btrfs, ZFS, bcachefs), so may run out of
//! space later, and remote ones, which may lose a page, are refused as `Unsupported`, and the caller writes by
//! write(2). What remains: somebody truncates a log in use, or the device fails under an evicted page.

use std::fs::File;
use std::io;
use std::sync::Arc;

/// A preallocated file with a cursor, appended to by one owner.
#[derive(Debug)]
pub struct MappedLog {
    file: Arc<File>,
    map: imp::Map,
    len: usize,
}

impl MappedLog {
    /// Takes a file open for reading and writing, new or recycled, allocates its first `capacity` bytes on
    /// the device, and maps them with the cursor at 0. The file becomes at least `capacity` long; old bytes
    /// of a recycled one stay until they are overwritten.
    ///
    /// `Unsupported` means that the system or file system cannot do it: use write(2) instead.
    pub fn new(file: File, capacity: u64) -> io::Result<Self> {
        let bytes = usize::try_from(capacity).ok().filter(|&n| n > 0 && isize::try_from(n).is_ok());
        let Some(bytes) = bytes else {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "capacity of a mapped log"));
        };
        let map = imp::Map::new(&file, bytes)?;
        Ok(Self { file: Arc::new(file), map, len: 0 })
    }

    /// Copies `bytes` to the cursor and moves it. An append that does not fit copies nothing and answers
    /// `StorageFull`.
    #[inline]
    pub fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        if bytes.len() > self.map.len() - self.len {
            return Err(io::Error::new(io::ErrorKind::StorageFull, "the mapped log is full"));
        }
        self.map.write(self.len, bytes);
        self.len += bytes.len();
        Ok(())
    }

    /// Bytes appended.
    pub fn len(&self) -> u64 {
        self.len as u64
    }

    /// Whether nothing was appended.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes that can be appended in all.
    pub fn capacity(&self) -> u64 {
        self.map.len() as u64
    }

    /// Bytes that can still be appended.
    pub fn remaining(&self) -> u64 {
        (self.map.len() - self.len) as u64
    }

    /// The file, for a sync by another thread: it covers everything appended before the sync began. It must
    /// not be truncated while the log lives.
    pub fn file(&self) -> &Arc<File> {
        &self.file
    }

    /// Unmaps, and gives the file back, for instance to truncate it to `len` or to recycle it.
    pub fn into_file(self) -> Arc<File> {
        self.file
    }
}

#[cfg(all(target_os = "linux", not(miri)))]
mod imp {
    use std::fs::File;
    use std::io;
    use std::os::fd::AsRawFd;
    use std::ptr::NonNull;

    use crate::populate::populate;

    /// A shared, writable mapping of the first bytes of a file; owned by one, so written by one.
    #[derive(Debug)]
    pub struct Map {
        start: NonNull<u8>,
        len: usize,
    }

    // SAFETY: the mapping is owned by the value and not tied to the thread that made it.
    unsafe impl Send for Map {}
    // SAFETY: a shared reference gives access to the length only.
    unsafe impl Sync for Map {}

    impl Map {
        pub fn new(file: &File, len: usize) -> io::Result<Self> {
            refuse_unfit_file_system(file)?;
            allocate(file, len)?;
            // SAFETY: a new mapping at an address of the kernel's choice touches nothing that exists.
            let start = unsafe {
                libc::mmap(
                    std::ptr::null_mut(),
                    len,
                    libc::PROT_READ | libc::PROT_WRITE,
                    libc::MAP_SHARED,
                    file.as_raw_fd(),
                    0,
                )
            };
            if start == libc::MAP_FAILED {
                let error = io::Error::last_os_error();
                return Err(if error.raw_os_error() == Some(libc::ENODEV) { unsupported() } else { error });
            }
            let start = NonNull::new(start.cast()).ok_or_else(unsupported)?;
            let map = Self { start, len };
            // SAFETY: the mapping is our own and begins at a page, as any does.
            unsafe { populate(start, len) }?;
            Ok(map)
        }

        pub fn len(&self) -> usize {
            self.len
        }

        pub fn write(&mut self, at: usize, bytes: &[u8]) {
            assert!(at <= self.len && bytes.len() <= self.len - at, "a write behind the mapping");
            // SAFETY: the target lies inside the mapping (asserted), which no reference of ours covers,
            // so it cannot overlap `bytes`; `&mut self` keeps other writers out.
            unsafe {
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.start.as_ptr().add(at), bytes.len());
            }
        }
    }

    impl Drop for Map {
        fn drop(&mut self) {
            // SAFETY: the mapping was made in `new` with this length and is unmapped once.
            unsafe {
                libc::munmap(self.start.as_ptr().cast(), self.len);
            }
        }
    }

    fn allocate(file: &File, len: usize) -> io::Result<()> {
        let bytes = libc::off_t::try_from(len).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        loop {
            // SAFETY: the descriptor is open for the lifetime of `file`; no memory of ours is touched.
            if unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, bytes) } == 0 {
                return Ok(());
            }
            let error = io::Error::last_os_error();
            match error.raw_os_error() {
                Some(libc::EINTR) => {}
                Some(libc::EOPNOTSUPP | libc::ENOSYS | libc::ENODEV | libc::ESPIPE) => {
                    return Err(unsupported());
                }
                _ => return Err(error),
            }
        }
    }

    /// See the top of the file: these cannot promise that a store to an allocated page succeeds.
    fn refuse_unfit_file_system(file: &File) -> io::Result<()> {
        const BTRFS: i64 = 0x9123_683e;
        const BCACHEFS: i64 = 0xca45_1a4e;
        const ZFS: i64 = 0x2fc1_2fc1;
        const NFS: i64 = 0x6969;
        const CIFS: i64 = 0xff53_4d42;
        const SMB2: i64 = 0xfe53_4d42;
        const FUSE: i64 = 0x6573_5546;
        const V9FS: i64 = 0x0102_1997;
        let mut stat = std::mem::MaybeUninit::<libc::statfs>::uninit();
        // SAFETY: the call writes one `statfs` to the given place, which is read only on success.
        let kind = unsafe {
            if libc::fstatfs(file.as_raw_fd(), stat.as_mut_ptr()) != 0 {
                return Err(io::Error::last_os_error());
            }
            stat.assume_init().f_type
        };
        match kind {
            BTRFS | BCACHEFS | ZFS | NFS | CIFS | SMB2 | FUSE | V9FS => Err(unsupported()),
            _ => Ok(()),
        }
    }

    fn unsupported() -> io::Error {
        io::Error::new(io::ErrorKind::Unsupported, "a mapped log is not possible on this file")
    }
}

#[cfg(not(all(target_os = "linux", not(miri))))]
mod imp {
    use std::fs::File;
    use std::io;

    /// Stands for the mapping where there is none: it cannot be made.
    #[derive(Debug)]
    pub enum Map {}

    impl Map {
        pub fn new(_file: &File, _len: usize) -> io::Result<Self> {
            Err(io::Error::new(io::ErrorKind::Unsupported, "a mapped log needs Linux"))
        }

        pub fn len(&self) -> usize {
            match *self {}
        }

        pub fn write(&mut self, _at: usize, _bytes: &[u8]) {
            match *self {}
        }
    }
}

#[cfg(test)]
#[cfg(all(target_os = "linux", not(miri)))]
mod tests {
    use super::*;
    use std::io::{Read, Seek, SeekFrom, Write};
    use std::os::unix::fs::MetadataExt;

    fn contents(mut file: &File) -> Vec<u8> {
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(0)).unwrap();
        file.read_to_end(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn appended_bytes_are_in_the_file_and_the_blocks_are_allocated() {
        let mut log = MappedLog::new(tempfile::tempfile().unwrap(), 10_000).unwrap();
        assert!(log.is_empty() && log.capacity() == 10_000 && log.remaining() == 10_000);
        assert!(log.file().metadata().unwrap().blocks() * 512 >= 10_000);
        log.append(b"hello ").unwrap();
        log.append(b"").unwrap();
        log.append(b"world").unwrap();
        assert_eq!((log.len(), log.remaining()), (11, 9_989));
        let read = contents(log.file());
        assert_eq!(read.len(), 10_000);
        assert_eq!(&read[..11], b"hello world");
        assert!(read[11..].iter().all(|&b| b == 0));
    }

    #[test]
    fn an_append_that_does_not_fit_changes_nothing() {
        let mut log = MappedLog::new(tempfile::tempfile().unwrap(), 8).unwrap();
        log.append(b"12345").unwrap();
        assert_eq!(log.append(b"6789").unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!(log.len(), 5);
        log.append(b"678").unwrap();
        assert_eq!(log.append(b"9").unwrap_err().kind(), io::ErrorKind::StorageFull);
        let file = log.into_file();
        assert_eq!(contents(&file), b"12345678");
    }

    #[test]
    fn a_recycled_file_keeps_its_length_and_old_tail() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[9u8; 9000]).unwrap();
        let mut log = MappedLog::new(file, 5000).unwrap();
        log.append(&[1u8; 4500]).unwrap();
        let read = contents(&log.into_file());
        assert_eq!(read.len(), 9000);
        assert!(read[..4500].iter().all(|&b| b == 1) && read[4500..].iter().all(|&b| b == 9));
    }

    #[test]
    fn a_log_moves_to_another_thread_while_a_third_syncs() {
        let log = MappedLog::new(tempfile::tempfile().unwrap(), 1 << 20).unwrap();
        let file = Arc::clone(log.file());
        std::thread::scope(|s| {
            let writer = s.spawn(move || {
                let mut log = log;
                for i in 0..10_000u32 {
                    log.append(&i.to_le_bytes()).unwrap();
                }
                log
            });
            for _ in 0..5 {
                file.sync_data().unwrap();
            }
            assert_eq!(writer.join().unwrap().len(), 40_000);
        });
        for (i, word) in contents(&file)[..40_000].chunks(4).enumerate() {
            assert_eq!(word, (i as u32).to_le_bytes());
        }
    }

    #[test]
    fn what_cannot_be_mapped_is_an_error() {
        let kind = |file, capacity| MappedLog::new(file, capacity).unwrap_err().kind();
        assert_eq!(kind(tempfile::tempfile().unwrap(), 0), io::ErrorKind::InvalidInput);
        assert_eq!(kind(tempfile::tempfile().unwrap(), u64::MAX), io::ErrorKind::InvalidInput);
        // More than any disk holds: an error now, rather than a signal later.
        assert!(MappedLog::new(tempfile::tempfile().unwrap(), 1 << 60).is_err());
        let named = tempfile::NamedTempFile::new().unwrap();
        #[expect(clippy::disallowed_methods, reason = "this crate lies below the file system trait")]
        let read_only = File::open(named.path()).unwrap();
        assert!(MappedLog::new(read_only, 4096).is_err());
    }
}
