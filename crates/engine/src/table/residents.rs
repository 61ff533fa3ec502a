//! Which partitions of open tables are in memory, in a clock: the cold ones are dropped when all take too much, any of them when they
//! take far too much.
//!
//! Partitions hang in their reader, not here, so that a lookup finds them without a shared structure. This list only
//! knows who holds which; a reader that is gone is forgotten on the way.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, Weak};

use crate::base::locks::Mutex;

/// Something that holds droppable parts, known by number.
pub trait Holder: Send + Sync {
    /// True if the part was used since the last call.
    fn take_touched(&self, part: usize) -> bool;
    /// Drops the part; readers that are using it keep it alive until they are done.
    fn drop_part(&self, part: usize);
}

#[derive(Default)]
struct List {
    parts: Vec<(Weak<dyn Holder>, usize)>,
    hand: usize,
}

/// Cold parts are looked for among so many, each time that one comes in.
const LOOKS: usize = 4;

/// The clock over all parts.
#[derive(Default)]
pub struct Residents {
    list: Mutex<List>,
    bytes: AtomicU64,
}

impl Residents {
    /// Bytes of all parts in memory.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Counts bytes of a part that came.
    pub fn add_bytes(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts bytes of a part that went.
    pub fn sub_bytes(&self, bytes: u64) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Enters a part that came.
    pub fn enter(&self, holder: Weak<dyn Holder>, part: usize) {
        let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        // Two looks an entry are enough to forget readers as fast as they go.
        for _ in 0..2 {
            let i = list.hand;
            match list.parts.get(i) {
                Some((holder, _)) if holder.strong_count() == 0 => drop(list.parts.swap_remove(i)),
                Some(_) => list.hand += 1,
                None => list.hand = 0,
            }
        }
        list.parts.push((holder, part));
    }

    /// Drops parts, those not used lately first, until at most `bytes_max` are in memory. While there are more than `bytes_cold` it looks
    /// at a few, and drops them if nobody has used them since the last look: each part that comes in sends more than one away, unless
    /// all are in use.
    pub fn shrink_to(&self, bytes_cold: u64, bytes_max: u64) {
        if self.bytes() <= bytes_cold {
            return;
        }
        // What goes is dropped after the lock is: the last reference to a reader may be among it.
        let mut gone = Vec::new();
        let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        // Each part is seen at most twice: the first look takes its mark, the second drops it.
        let looks = list.parts.len() * 2 + 2;
        for look in 0..looks {
            let most = if look < LOOKS { bytes_cold } else { bytes_max };
            if self.bytes() <= most || list.parts.is_empty() {
                break;
            }
            if list.hand >= list.parts.len() {
                list.hand = 0;
            }
            let i = list.hand;
            let Some((holder, part)) = list.parts.get(i).map(|(weak, part)| (weak.upgrade(), *part)) else {
                break;
            };
            match &holder {
                Some(holder) if holder.take_touched(part) => list.hand += 1,
                Some(holder) => {
                    holder.drop_part(part);
                    list.parts.swap_remove(i);
                }
                None => drop(list.parts.swap_remove(i)),
            }
            gone.push(holder);
        }
        drop(list);
    }
}
