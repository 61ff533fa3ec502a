//! Where output tables end, besides at bounds they may not cross: at their size, or where tables of the level below end.
//!
//! ```text
//! below     [   1   ][  2  ][   3    ][  4  ][   5   ]
//! by size   [     a     ][     b     ][     c   ...          b overlaps 2, 3 and 4, of which it needs 3 and a corner of each
//! aligned   [    a     ][    b       ][     c   ...          b overlaps 3 and 2's end only
//! ```
//! The next compaction of `b` takes along all it overlaps, so a corner costs a whole table. A table may end at such a place
//! from half its size on; the more of them it has passed, the fuller it has to be, so that where they are dense tables stay
//! nearly full. Where they are sparse it waits for one, up to one and a half times its size.

use std::sync::Arc;

use super::compaction::Compaction;

/// From this share of its size on, in percent, a table ends where one of the level below ends; more for each that it has
/// passed, up to a most.
const SHARE_PERCENT: (u64, u64, u64) = (50, 5, 90);

/// Walks along the ends of tables below, with the output.
#[derive(Clone, Debug)]
pub struct Cutter {
    ends: Vec<Arc<[u8]>>,
    /// The first end above the keys so far.
    at: usize,
    /// Ends passed since the open table began.
    passed: u64,
    table_bytes: u64,
}

impl Cutter {
    /// For the outputs of `compaction`.
    pub fn new(compaction: &Compaction) -> Cutter {
        Cutter { ends: compaction.ends_below.clone(), at: 0, passed: 0, table_bytes: compaction.table_bytes }
    }

    /// A table that holds as much ends in any case.
    pub fn most_bytes(&self) -> u64 {
        if self.ends.is_empty() {
            self.table_bytes
        } else {
            self.table_bytes.saturating_add(self.table_bytes / 2)
        }
    }

    /// True if a table that holds `open_bytes` should end before `key`, a key above all before it.
    #[inline]
    pub fn cuts_before(&mut self, key: &[u8], open_bytes: u64) -> bool {
        if self.ends.get(self.at).is_some_and(|end| &end[..] <= key) {
            return self.pass(key, open_bytes);
        }
        // Without an end ahead there is nothing to wait for.
        self.at >= self.ends.len() && open_bytes >= self.table_bytes || open_bytes >= self.most_bytes()
    }

    fn pass(&mut self, key: &[u8], open_bytes: u64) -> bool {
        let (least, step, most) = SHARE_PERCENT;
        let before = self.passed;
        while self.ends.get(self.at).is_some_and(|end| &end[..] <= key) {
            self.at += 1;
            self.passed += 1;
        }
        let share = (least + step.saturating_mul(before)).min(most);
        let enough = u128::from(self.table_bytes) * u128::from(share);
        open_bytes > 0 && u128::from(open_bytes) * 100 >= enough
    }

    /// The next end below that the keys have not passed.
    pub fn next_end(&self) -> Option<&[u8]> {
        self.ends.get(self.at).map(|end| &**end)
    }

    /// A table has ended, here or for another reason.
    pub fn cut(&mut self) {
        self.passed = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cutter(ends: &str) -> Cutter {
        let ends = ends.bytes().map(|b| Arc::from([b])).collect();
        Cutter { ends, at: 0, passed: 0, table_bytes: 100 }
    }

    /// Before which keys of a..z tables end, if each key has `bytes`.
    fn cuts(mut cutter: Cutter, bytes: u64) -> String {
        let (mut out, mut open) = (String::new(), 0);
        for key in b'a'..=b'z' {
            if cutter.cuts_before(&[key], open) {
                out.push(char::from(key));
                cutter.cut();
                open = 0;
            }
            open += bytes;
        }
        out
    }

    #[test]
    fn without_ends_the_size_alone_cuts() {
        assert_eq!(cuts(cutter(""), 20), "fkpuz");
    }

    #[test]
    fn an_end_below_cuts_from_half_the_size_on() {
        // At c the table holds 40 of 100: too little. At f it is 100, and d lay behind it.
        assert_eq!(cuts(cutter("c"), 20), "fkpuz");
        assert_eq!(cuts(cutter("d"), 20), "dinsx");
        // The end at l is worth waiting for: 120 of 100.
        assert_eq!(cuts(cutter("el"), 20), "elqv");
    }

    #[test]
    fn the_more_ends_the_fuller_and_never_much_too_full() {
        // An end at every key: five would be half, but they raise the bar to nine tenths.
        assert_eq!(cuts(cutter("bcdefghijklmnopqrstuvwxyz"), 10), "jsz"[..2].to_owned());
        // An end far away is not waited for beyond one and a half.
        assert_eq!(cuts(cutter("z"), 10), "pz");
    }
}
