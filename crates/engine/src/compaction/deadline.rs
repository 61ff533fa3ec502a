//! By when a delete must have left each level so that it is gone from every file in time.
//!
//! ```text
//! acknowledged      memory flushed      leaves L0           leaves L1                 rewritten     gone
//! ├───── d0 ────────┼────── d1 ─────────┼─────── d2 ────────┼─── last level: none ────┤─ for work ──┤
//! 0                                                                                3/4 D            D
//! ```
//! Each level gets so many times the time of the one above as it is larger (Lethe; CDS §3.1.1): `d_i = D(T-1)/(T^n-1) T^i` over
//! the memory and all levels but the last, n in all. The last quarter of the time is kept for the work, so what is due is not late.

use super::strategy::Strategy;
use crate::version::run::TableRef;
use crate::version::version::Version;

/// When deletes are due in each place, in milliseconds after they were acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deadlines {
    /// Gone from every file.
    pub ttl_ms: u64,
    /// Out of the memory and the log.
    pub memory_ms: u64,
    /// Out of each level; out of the last that holds data, by being rewritten.
    pub level_ms: Vec<u64>,
}

/// What of the time is for the levels, and not for the work at its end.
pub fn planned_ms(ttl_ms: u64) -> u64 {
    ttl_ms - ttl_ms / 4
}

/// Work begins at most this long after it is due: idle threads look by themselves.
const WAKE_MS: u64 = 1000;

/// Rewriting is expected to go as fast as this, or as fast as the schedule lets it.
const BYTES_PER_SEC: u64 = 32 << 20;

/// The shortest time that can be kept by a tree of so many bytes and levels: its last quarter must do to look at each level once and
/// to rewrite everything once.
pub fn shortest_ms(bytes: u64, levels: usize, bytes_per_sec: Option<u64>) -> u64 {
    let rate = bytes_per_sec.unwrap_or(BYTES_PER_SEC).clamp(1, BYTES_PER_SEC);
    let rewriting_ms = u128::from(bytes) * 1000 / u128::from(rate);
    let waking_ms = WAKE_MS * (levels as u64 + 1);
    u64::try_from(rewriting_ms).unwrap_or(u64::MAX).saturating_add(waking_ms).saturating_mul(4)
}

impl Deadlines {
    /// The split of `strategy`'s time over the levels of a tree that hold data; `None` if it has no such time.
    pub fn of(strategy: &Strategy, version: &Version) -> Option<Deadlines> {
        let levels = version.deepest().map_or(1, |deepest| deepest + 1);
        strategy.ttl_ms().map(|ttl_ms| Deadlines::split(ttl_ms, strategy.size.level_ratio, levels))
    }

    /// The split over `levels` levels.
    pub fn split(ttl_ms: u64, ratio: u64, levels: usize) -> Deadlines {
        let planned = planned_ms(ttl_ms);
        let ratio = ratio.max(2) as f64;
        // Sums of the geometric series up to each place, of the whole.
        let power = |places: usize| ratio.powi(i32::try_from(places).unwrap_or(i32::MAX).min(64)) - 1.0;
        let until = |places: usize| {
            if places >= levels { planned } else { (planned as f64 * power(places) / power(levels)) as u64 }
        };
        Deadlines {
            ttl_ms,
            memory_ms: until(1),
            level_ms: (0..levels.max(1)).map(|level| until(level + 2)).collect(),
        }
    }

    /// When deletes are due to leave this level.
    pub fn level(&self, level: usize) -> u64 {
        self.level_ms.get(level).copied().unwrap_or_else(|| planned_ms(self.ttl_ms))
    }

    /// How urgent a table at `level` is: 1 when it is due, 11 when the time for the work is over, 0 if it holds no deletes.
    pub fn score(&self, level: usize, table: &TableRef, now_ms: u64) -> f64 {
        let Some(since) = table.oldest_delete_ms() else { return 0.0 };
        let (age, due) = (now_ms.saturating_sub(since), self.level(level));
        if age < due {
            return age as f64 / due.max(1) as f64;
        }
        1.0 + 10.0 * (age - due) as f64 / (self.ttl_ms / 4).max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_level_has_the_ratio_times_the_time_of_the_one_above() {
        let split = Deadlines::split(4_000_000, 10, 4);
        // Memory, L0, L1 and L2 share three million; L3 is the last.
        let share = |times: u64| 3_000_000 * times / 1111;
        assert_eq!(split.memory_ms, share(1));
        assert_eq!(split.level_ms, [share(11), share(111), 3_000_000, 3_000_000]);
        let spent = [split.memory_ms, split.level_ms[0], split.level_ms[1], split.level_ms[2]];
        for pair in spent.windows(3) {
            let ratio = (pair[2] - pair[1]) as f64 / (pair[1] - pair[0]) as f64;
            assert!((ratio - 10.0).abs() < 0.01, "{ratio}");
        }
    }

    #[test]
    fn the_shortest_time_grows_with_what_there_is_to_rewrite() {
        assert_eq!(shortest_ms(0, 4, None), 20_000);
        assert_eq!(shortest_ms(320 << 20, 4, None), 60_000);
        assert_eq!(shortest_ms(320 << 20, 4, Some(16 << 20)), 100_000);
        assert_eq!(shortest_ms(u64::MAX, 4, Some(1)), u64::MAX);
    }

    #[test]
    fn a_tree_of_one_level_has_the_time_for_its_memory() {
        let split = Deadlines::split(1000, 4, 1);
        assert_eq!((split.memory_ms, split.level(0), split.level(7)), (750, 750, 750));
    }
}
