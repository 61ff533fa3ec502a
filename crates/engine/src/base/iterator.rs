//! The one shape of every sorted stream: memtables, blocks, tables, runs and merges of them.
//!
//! A cursor stands on an entry or nowhere (`valid() == false`). An error is returned by the move that met it, and leaves
//! the cursor nowhere: it never looks like an end. `seek` goes to the first entry at or above (key, trailer) in the tree's
//! order (`key::compare`); `seek_before` to the last entry whose user key is below `key`, whatever its trailer.

use super::error::Result;
use super::key::Trailer;

/// A cursor over entries in the tree's order.
pub trait InternalIterator: Send {
    /// True if the cursor stands on an entry.
    fn valid(&self) -> bool;
    /// The entry's user key. Only while valid; otherwise empty.
    fn key(&self) -> &[u8];
    /// The entry's trailer. Only while valid.
    fn trailer(&self) -> Trailer;
    /// The entry's value. Only while valid; otherwise empty.
    fn value(&self) -> &[u8];
    /// True if clients who come for the entry read no file: it is in a memtable, or its block is in the cache. Merges ask, and may hear no
    /// where it is yes.
    fn is_in_memory(&self) -> bool {
        false
    }
    /// To the first entry.
    fn seek_to_first(&mut self) -> Result<()>;
    /// To the last entry.
    fn seek_to_last(&mut self) -> Result<()>;
    /// To the first entry at or above (key, trailer).
    fn seek(&mut self, key: &[u8], trailer: Trailer) -> Result<()>;
    /// To the last entry with a user key below `key`.
    fn seek_before(&mut self, key: &[u8]) -> Result<()>;
    /// One entry onward. Only while valid.
    fn next(&mut self) -> Result<()>;
    /// One entry back. Only while valid.
    fn prev(&mut self) -> Result<()>;
}
