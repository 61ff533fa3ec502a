//! A table file as a place of blocks: reads one, checks it, unpacks it. Every byte comes through here or is part of a
//! larger piece that `unpack` gets bit by bit.

use std::cell::Cell;
use std::sync::Arc;

use super::compression::{self, UnpackError};
use super::format::{BLOCK_TRAILER_BYTES, BlockHandle, open_block};
use crate::base::class::IoClass;
use crate::base::error::{Error, Result};
use crate::observe::waits::{Cause, count_pages, wait};
use crate::storage::file_system::ReadFile;

/// A thread keeps buffers up to this size for its next read.
const KEPT_BYTES_MAX: usize = 256 << 10;

thread_local! {
    static BUFFERS: Cell<(Vec<u8>, Vec<u8>)> = const { Cell::new((Vec::new(), Vec::new())) };
}

/// Blocks of one file.
#[derive(Clone, Debug)]
pub struct BlockFile {
    file: Arc<dyn ReadFile>,
    unique_id: u64,
    /// Blocks end here at the latest: the footer begins.
    end: u64,
}

impl BlockFile {
    /// Blocks of `file` below `end`.
    pub fn new(file: Arc<dyn ReadFile>, unique_id: u64, end: u64) -> BlockFile {
        BlockFile { file, unique_id, end }
    }

    /// The file.
    pub fn file(&self) -> &Arc<dyn ReadFile> {
        &self.file
    }

    /// Where the blocks end.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// The file is damaged at `offset`.
    #[cold]
    pub fn corruption(&self, offset: u64, what: &str) -> Error {
        Error::corruption(self.file.path(), offset, what)
    }

    /// Reads the block, and hands its payload, checked and unpacked, to `use_payload`, which says what is wrong with it
    /// if something is. The buffer is the thread's: nothing of the block's size is allocated for it.
    pub fn read<R>(
        &self,
        handle: BlockHandle,
        class: IoClass,
        use_payload: impl FnOnce(&[u8]) -> Result<R, &'static str>,
    ) -> Result<R> {
        let bytes = self.checked_len(handle)?;
        let (mut stored, mut scratch) = BUFFERS.take();
        stored.resize(bytes, 0);
        let read = {
            let _wait = (class == IoClass::Client).then(|| {
                count_pages(bytes);
                wait(Cause::Read)
            });
            self.file.read_at(handle.offset, &mut stored, class)
        };
        let result = read.and_then(|()| {
            let payload = self.unpack(&stored, handle.offset, &mut scratch)?;
            use_payload(payload).map_err(|what| self.corruption(handle.offset, what))
        });
        for buffer in [&mut stored, &mut scratch] {
            if buffer.capacity() > KEPT_BYTES_MAX {
                *buffer = Vec::new();
            }
        }
        BUFFERS.set((stored, scratch));
        result
    }

    /// The payload of a block that was read from `offset`; `scratch` takes it if it has to be unpacked.
    pub fn unpack<'a>(&self, stored: &'a [u8], offset: u64, scratch: &'a mut Vec<u8>) -> Result<&'a [u8]> {
        open_block(stored, self.unique_id, offset)
            .map_err(UnpackError::Damaged)
            .and_then(|(payload, kind)| compression::unpack(payload, kind, scratch))
            .map_err(|error| match error {
                UnpackError::Damaged(what) => self.corruption(offset, what),
                UnpackError::Unsupported(what) => {
                    let path = self.file.path().display();
                    Error::Unsupported(format!("{path} at {offset}: the block is packed by zstd, but {what}"))
                }
            })
    }

    /// A handle's size, if the block is inside the file.
    pub fn checked_len(&self, handle: BlockHandle) -> Result<usize> {
        let bytes = handle.bytes as usize;
        if bytes < BLOCK_TRAILER_BYTES || handle.end() > self.end {
            return Err(self.corruption(handle.offset, "the block lies outside the file"));
        }
        Ok(bytes)
    }
}
