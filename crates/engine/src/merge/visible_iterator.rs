//! What a reader at one sequence number sees: the newest version of each key at or below it, deletes and what range
//! tombstones cover left out.
//!
//! ```text
//! entries  a·9 put   a·4 put   b·7 delete   b·2 put   c·8 put        read at 7
//! visible            a·4                                             (b is deleted, c is too new)
//! ```
//! Going forward the cursor stands on the visible entry itself. Going backward versions come oldest first, so the last
//! one that is not too new has been passed when the key changes: it is kept in a buffer, and the cursor below
//! already stands before the key. Where a range tombstone hides one key after the other, the places below the tombstone's are
//! sought beyond it.

use crate::base::error::{Error, Result};
use crate::base::iterator::InternalIterator;
use crate::base::key::{Kind, Trailer};
use crate::base::key_range::KeyRange;
use crate::base::units::SeqNo;
use crate::merge::merging_iterator::MergingIterator;
use crate::merge::range_tombstones::Coverage;

/// Keys found hidden one after the other before the rest is skipped: a few steps cost less than a seek.
const STEPS_BEFORE_SKIP: u32 = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Position {
    Nowhere,
    /// The entries' cursor is on the visible entry.
    OnEntry,
    /// The visible entry is in the buffers; the entries' cursor is before its key.
    Buffered,
}

/// A cursor over visible keys within bounds, both ways, with turns at any position.
#[derive(Debug)]
pub struct VisibleIterator<I> {
    entries: MergingIterator<I>,
    /// Nothing where there is no range tombstone.
    coverage: Option<Box<Coverage>>,
    bounds: KeyRange,
    at: SeqNo,
    position: Position,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl<I: InternalIterator> VisibleIterator<I> {
    /// Over `entries`, whose sources come newest first, seeing what was visible at `at`, within `bounds`. `coverage`: the range
    /// tombstones as of `at`, by the number of their source.
    pub fn new(
        entries: MergingIterator<I>,
        coverage: Option<Box<Coverage>>,
        bounds: KeyRange,
        at: SeqNo,
    ) -> VisibleIterator<I> {
        VisibleIterator {
            entries,
            coverage,
            bounds,
            at,
            position: Position::Nowhere,
            key: Vec::new(),
            value: Vec::new(),
        }
    }

    /// True if the cursor stands on a key.
    pub fn valid(&self) -> bool {
        self.position != Position::Nowhere
    }

    /// The key; empty where not valid.
    #[inline]
    pub fn key(&self) -> &[u8] {
        match self.position {
            Position::Nowhere => b"",
            Position::OnEntry => self.entries.key(),
            Position::Buffered => &self.key,
        }
    }

    /// The value; empty where not valid.
    pub fn value(&self) -> &[u8] {
        match self.position {
            Position::Nowhere => b"",
            Position::OnEntry => self.entries.value(),
            Position::Buffered => &self.value,
        }
    }

    /// To the first key.
    pub fn seek_to_first(&mut self) -> Result<()> {
        self.position = Position::Nowhere;
        if self.bounds.lo.is_empty() {
            self.entries.seek_to_first()?;
        } else {
            self.entries.seek(&self.bounds.lo, Trailer::seek(SeqNo::MAX))?;
        }
        self.settle_forward(false)
    }

    /// To the last key.
    pub fn seek_to_last(&mut self) -> Result<()> {
        self.position = Position::Nowhere;
        match &self.bounds.hi {
            Some(hi) => self.entries.seek_before(hi)?,
            None => self.entries.seek_to_last()?,
        }
        self.settle_backward()
    }

    /// To the first key at or above `key`.
    pub fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.position = Position::Nowhere;
        let from = key.max(&self.bounds.lo);
        self.entries.seek(from, Trailer::seek(self.at))?;
        self.settle_forward(false)
    }

    /// To the last key below `key`.
    pub fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        if !self.bounds.is_below_end(key) {
            return self.seek_to_last();
        }
        self.position = Position::Nowhere;
        self.entries.seek_before(key)?;
        self.settle_backward()
    }

    /// To the next key; nowhere stays nowhere.
    #[inline]
    pub fn next(&mut self) -> Result<()> {
        match self.position {
            Position::Nowhere => return Ok(()),
            Position::OnEntry => {
                self.key.clear();
                self.key.extend_from_slice(self.entries.key());
                self.position = Position::Nowhere;
                self.entries.next()?;
            }
            Position::Buffered => {
                self.position = Position::Nowhere;
                // The cursor is before the key, or off the front: go to the key, which is then skipped.
                self.entries.seek(&self.key, Trailer::seek(SeqNo::MAX))?;
            }
        }
        self.settle_forward(true)
    }

    /// To the previous key; nowhere stays nowhere.
    pub fn prev(&mut self) -> Result<()> {
        match self.position {
            Position::Nowhere => return Ok(()),
            Position::OnEntry => {
                self.key.clear();
                self.key.extend_from_slice(self.entries.key());
                self.position = Position::Nowhere;
                // Newer versions of the key stand just before its visible one.
                while self.entries.valid() && self.entries.key() == self.key {
                    self.entries.prev()?;
                }
            }
            Position::Buffered => self.position = Position::Nowhere,
        }
        self.settle_backward()
    }

    /// From the cursor's entry onward to the first visible one, skipping `self.key` if asked to.
    #[inline]
    fn settle_forward(&mut self, mut skip: bool) -> Result<()> {
        let mut hidden = 0;
        while self.entries.valid() {
            let (key, trailer) = (self.entries.key(), self.entries.trailer());
            if !self.bounds.is_below_end(key) {
                return Ok(());
            }
            if trailer.seq() <= self.at && !(skip && key == self.key) {
                let covered = match &mut self.coverage {
                    Some(coverage) => coverage.over(key)? > trailer.seq(),
                    None => false,
                };
                if is_put(trailer)? && !covered {
                    self.position = Position::OnEntry;
                    return Ok(());
                }
                skip = true;
                self.key.clear();
                self.key.extend_from_slice(key);
                hidden += u32::from(covered);
            }
            self.entries.next()?;
            if hidden >= STEPS_BEFORE_SKIP {
                hidden = 0;
                if let Some((source, _, hi)) = self.coverage.as_ref().and_then(|c| c.hidden()) {
                    self.entries.skip_to(source + 1, hi)?;
                }
            }
        }
        Ok(())
    }

    /// From the cursor's entry back to the first key with a visible version, which goes to the buffers.
    fn settle_backward(&mut self) -> Result<()> {
        let mut hidden = 0;
        while self.entries.valid() {
            if self.entries.key() < &self.bounds.lo[..] {
                return Ok(());
            }
            self.key.clear();
            self.key.extend_from_slice(self.entries.key());
            let mut found = false;
            let mut newest = SeqNo(0);
            while self.entries.valid() && self.entries.key() == self.key {
                let trailer = self.entries.trailer();
                if trailer.seq() <= self.at {
                    found = is_put(trailer)?;
                    newest = trailer.seq();
                    if found {
                        self.value.clear();
                        self.value.extend_from_slice(self.entries.value());
                    }
                }
                self.entries.prev()?;
            }
            let covered = match &mut self.coverage {
                Some(coverage) => coverage.over(&self.key)? > newest,
                None => false,
            };
            if found && !covered {
                self.position = Position::Buffered;
                return Ok(());
            }
            hidden += u32::from(covered);
            if hidden >= STEPS_BEFORE_SKIP {
                hidden = 0;
                if let Some((source, lo, _)) = self.coverage.as_ref().and_then(|c| c.hidden()) {
                    self.entries.skip_before(source + 1, lo)?;
                }
            }
        }
        Ok(())
    }
}

/// True for a put, false for a delete; anything else is of a newer format.
#[inline]
pub fn is_put(trailer: Trailer) -> Result<bool> {
    match trailer.kind() {
        Some(Kind::Put) => Ok(true),
        Some(Kind::Delete) => Ok(false),
        _ => Err(Error::Unsupported(format!(
            "an entry has kind {}, which this version does not know; open the store with a newer one",
            trailer.kind_byte()
        ))),
    }
}
