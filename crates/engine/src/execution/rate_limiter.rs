//! A token bucket that never makes anyone wait: it says how many bytes may be moved now, and when to ask again.
//!
//! The scheduler sets the rate; the workers ask before each step, which is reserved for while it is under way, and charge what it really
//! moved, so a step may overdraw by its own size and later ones pay. Time comes in as an argument.

use std::time::Duration;

/// Bytes granted at a rate. No rate is no limit.
#[derive(Debug)]
pub struct RateLimiter {
    bytes_per_sec: Option<u64>,
    /// May be negative after a step that moved more than was granted.
    tokens: f64,
    refilled_at: Duration,
    /// Steps that were granted and have not ended.
    under_way: u32,
    /// Bytes that flushes have moved and that are still to be taken from what comes in.
    flushed: f64,
    /// Refills in which somebody was told to wait, and the last of them.
    drains: u64,
    drains_until: Option<u64>,
}

/// The most that may be saved up while idle, as time at full rate.
const BURST: Duration = Duration::from_millis(10);

/// What RocksDB's limiter refills at once lasts so long (`rate_limiter.h`); here nothing is refilled at once, and by so much it is counted
/// how often there is less than is wanted.
pub const REFILL: Duration = Duration::from_millis(100);

/// Of what comes in, flushes take at most this part: who waits for the rest is never starved by them (SILK §5.2.2: the least rate is
/// shared by a flush and a compaction of L0).
pub const FLUSH_SHARE: f64 = 0.5;

/// What was moved without asking is forgotten beyond so much, as time at full rate.
const DEBT: Duration = Duration::from_secs(1);

impl RateLimiter {
    /// A limiter at this rate; `None` grants everything.
    pub fn new(bytes_per_sec: Option<u64>) -> RateLimiter {
        RateLimiter {
            bytes_per_sec,
            tokens: 0.0,
            refilled_at: Duration::ZERO,
            under_way: 0,
            flushed: 0.0,
            drains: 0,
            drains_until: None,
        }
    }

    /// The rate, bytes per second; `None` grants everything.
    pub fn rate(&self) -> Option<u64> {
        self.bytes_per_sec
    }

    /// Changes the rate from `now` on.
    pub fn set_rate(&mut self, now: Duration, bytes_per_sec: Option<u64>) {
        self.refill(now);
        if self.bytes_per_sec.is_none() {
            // While nothing was limited nothing was owed.
            (self.tokens, self.flushed) = (self.tokens.max(0.0), 0.0);
        }
        self.bytes_per_sec = bytes_per_sec;
        // What is owed for flushes is at most a second of the new rate, too.
        self.charge_flush(0);
    }

    /// True while whoever asks has to wait, whatever is under way.
    pub fn is_spent(&self, now: Duration) -> bool {
        let elapsed = now.saturating_sub(self.refilled_at).as_secs_f64();
        self.bytes_per_sec.is_some_and(|rate| self.tokens + rate as f64 * elapsed <= 0.0)
    }

    /// `Ok(bytes)` that may be moved now, or `Err(when)` to ask again.
    pub fn grant(&mut self, now: Duration, wanted: u64) -> Result<u64, Duration> {
        let Some(rate) = self.bytes_per_sec else { return Ok(wanted) };
        self.refill(now);
        // Of one that was stopped on its way nobody waits for more than half of what can be saved up.
        let reserved = if self.under_way > 0 { (wanted as f64).min(burst_at(rate) / 2.0) } else { 0.0 };
        if self.tokens > reserved {
            return Ok(wanted);
        }
        let missing = 1.0 + reserved - self.tokens;
        // While flushes are paid for, half of what comes in is theirs.
        let missing = missing + self.flushed.min(missing * FLUSH_SHARE / (1.0 - FLUSH_SHARE));
        let wait = Duration::try_from_secs_f64(missing / (rate.max(1) as f64)).unwrap_or(Duration::MAX);
        let until = now.saturating_add(wait.clamp(Duration::from_micros(50), Duration::from_secs(1)));
        // Who only waits for the end of another one's step finds no less than there is.
        if self.tokens <= 0.0 {
            self.count_drains(now, until);
        }
        Err(until)
    }

    /// Counts the refills in which somebody waits, up to the one that his wait ends in: a step that overdrew by far is paid for in
    /// several.
    fn count_drains(&mut self, now: Duration, until: Duration) {
        let refill = |at: Duration| u64::try_from(at.as_millis() / REFILL.as_millis()).unwrap_or(u64::MAX);
        let (from, to) = (refill(now), refill(until));
        let counted = self.drains_until.map_or(from, |counted| counted.saturating_add(1)).max(from);
        self.drains += (to.saturating_add(1)).saturating_sub(counted);
        self.drains_until = Some(self.drains_until.unwrap_or(0).max(to));
    }

    /// A step begins: until it has ended others are granted only what there is beside what it may move. Else two threads would share every
    /// rate, whichever of their jobs comes first.
    pub fn step_begins(&mut self) {
        self.under_way += 1;
    }

    /// It has ended, and has moved so much.
    pub fn step_ended(&mut self, moved: u64) {
        self.under_way = self.under_way.saturating_sub(1);
        self.charge(moved);
    }

    /// Takes what a step moved.
    pub fn charge(&mut self, bytes: u64) {
        if self.bytes_per_sec.is_some() {
            self.tokens -= bytes as f64;
        }
    }

    /// Takes what a step moved that may not have asked: a flush that writers waited for leaves the next one time.
    pub fn charge_unasked(&mut self, bytes: u64) {
        if let Some(rate) = self.bytes_per_sec {
            let most = (rate as f64 * DEBT.as_secs_f64()).max(bytes as f64);
            self.tokens = (self.tokens - bytes as f64).max(-most);
        }
    }

    /// A flush has moved so much. It did not ask here; the others get less for it, and never nothing.
    pub fn charge_flush(&mut self, bytes: u64) {
        if let Some(rate) = self.bytes_per_sec {
            self.flushed = (self.flushed + bytes as f64).min(rate as f64 * DEBT.as_secs_f64());
        }
    }

    /// Refills, since it was made, in which it made somebody wait: RocksDB's `num_drains`.
    pub fn drains(&self) -> u64 {
        self.drains
    }

    fn refill(&mut self, now: Duration) {
        let elapsed = now.saturating_sub(self.refilled_at);
        self.refilled_at = self.refilled_at.max(now);
        if let Some(rate) = self.bytes_per_sec {
            let burst = burst_at(rate);
            let earned = rate as f64 * elapsed.as_secs_f64();
            let paid = self.flushed.min(earned * FLUSH_SHARE);
            let tokens = self.tokens + earned - paid;
            self.tokens = tokens.min(burst);
            // What nobody has asked for in time pays for flushes too: one that went alone is not paid for again by who comes after it.
            self.flushed = (self.flushed - paid - (tokens - self.tokens)).max(0.0);
        }
    }
}

fn burst_at(bytes_per_sec: u64) -> f64 {
    (bytes_per_sec as f64 * BURST.as_secs_f64()).max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_what_was_moved_unasked_a_second_is_paid_for() {
        let mut limiter = RateLimiter::new(Some(1_000_000));
        (0..100).for_each(|_| limiter.charge_unasked(1_000_000));
        assert!(limiter.grant(Duration::from_millis(990), 1).is_err());
        assert!(limiter.grant(Duration::from_millis(1010), 1).is_ok());
        // One step is, however long it takes.
        limiter.set_rate(Duration::from_secs(2), Some(100_000));
        limiter.charge_unasked(1_000_000);
        assert!(limiter.grant(Duration::from_secs(11), 1).is_err());
        assert!(limiter.grant(Duration::from_secs(13), 1).is_ok());
    }

    /// Beside a step that may move all there is nobody else is granted one, and is when it has moved little.
    #[test]
    fn a_step_under_way_has_what_it_may_move() {
        let mut limiter = RateLimiter::new(Some(1_000_000));
        let now = Duration::from_secs(1);
        // There is a hundredth of a second's worth, of which another one may have what is beyond half.
        assert!(limiter.grant(now, 8000).is_ok());
        limiter.step_begins();
        assert!(limiter.grant(now, 8000).is_ok());
        limiter.charge(6000);
        assert!(limiter.grant(now, 8000).is_err() && !limiter.is_spent(now));
        assert_eq!(limiter.drains(), 0);
        limiter.step_ended(1000);
        assert!(limiter.grant(now, 8000).is_ok());
        limiter.step_begins();
        limiter.step_ended(20_000);
        assert!(limiter.grant(now, 8000).is_err() && limiter.is_spent(now));
        assert!(!limiter.is_spent(now + Duration::from_millis(20)));
        assert!(!RateLimiter::new(None).is_spent(now));
        assert_eq!(limiter.drains(), 1);
    }

    #[test]
    fn over_a_second_a_greedy_worker_gets_the_rate() {
        let mut limiter = RateLimiter::new(Some(1_000_000));
        let (mut now, mut moved) = (Duration::ZERO, 0);
        while now < Duration::from_secs(1) {
            match limiter.grant(now, 65_536) {
                Ok(bytes) => {
                    limiter.charge(bytes);
                    moved += bytes;
                }
                Err(when) => now = when,
            }
        }
        assert!((1_000_000..1_100_000).contains(&moved), "{moved}");
    }

    /// Beside flushes that move twice the rate, half of it is left; after them all of it.
    #[test]
    fn flushes_take_theirs_first_and_leave_half() {
        let mut limiter = RateLimiter::new(Some(1_000_000));
        let mut now = Duration::ZERO;
        let mut moved = [0; 20];
        let mut flushed = 0;
        while now < Duration::from_secs(20) {
            let second = now.as_secs() as usize;
            // A flush for ten seconds, at two million bytes a second.
            let due = (now.as_millis() as u64 * 2000).min(20_000_000);
            limiter.charge_flush(due - flushed);
            flushed = due;
            match limiter.grant(now, 1000) {
                Ok(bytes) => {
                    limiter.charge(bytes);
                    moved[second] += bytes;
                }
                Err(when) => now = when,
            }
        }
        assert!(moved[1..10].iter().all(|bytes| (450_000..550_000).contains(bytes)), "{moved:?}");
        assert!(moved[13..].iter().all(|bytes| *bytes > 950_000), "{moved:?}");
        assert!(limiter.drains() > 150, "{} tenths", limiter.drains());
    }

    /// A flush that went alone, by all of the rate, is paid for when it ends: a compaction then has all of it.
    #[test]
    fn what_a_flush_moved_alone_is_not_paid_for_twice() {
        let mut limiter = RateLimiter::new(Some(1_000_000));
        let mut moved = 0;
        for millis in 0..2000 {
            let now = Duration::from_millis(millis);
            if millis < 1000 {
                limiter.charge_flush(1000);
                // As the monitor does when it looks.
                limiter.set_rate(now, Some(1_000_000));
                continue;
            }
            while let Ok(bytes) = limiter.grant(now, 1000) {
                limiter.charge(bytes);
                moved += bytes;
            }
        }
        assert!((980_000..1_020_000).contains(&moved), "{moved} bytes in the second after the flush");
    }

    /// As RocksDB counts refills with somebody in line: one step may overdraw by two tenths of a second's worth, and who asks again
    /// only then has waited in all of them.
    #[test]
    fn a_wait_counts_in_every_tenth_that_it_covers() {
        let mut limiter = RateLimiter::new(Some(1_000_000));
        let mut now = Duration::ZERO;
        while now < Duration::from_secs(10) {
            match limiter.grant(now, 250_000) {
                Ok(bytes) => limiter.charge(bytes),
                Err(when) => now = when,
            }
        }
        assert!((95..=105).contains(&limiter.drains()), "{} tenths of 100", limiter.drains());
    }

    #[test]
    fn no_rate_is_no_limit_and_a_new_rate_holds_at_once() {
        let mut limiter = RateLimiter::new(None);
        assert_eq!(limiter.grant(Duration::ZERO, 1 << 40), Ok(1 << 40));
        limiter.set_rate(Duration::from_secs(5), Some(1));
        limiter.charge(10);
        assert!(limiter.grant(Duration::from_secs(6), 1).is_err());
    }

    /// Who was in debt when the limit went, by a step of many seconds' worth, starts anew with the next limit.
    #[test]
    fn a_time_without_a_limit_ends_all_debt() {
        let mut limiter = RateLimiter::new(Some(1000));
        let at = Duration::from_secs;
        limiter.charge(1_000_000);
        limiter.charge_flush(1000);
        assert!(limiter.grant(at(10), 1).is_err());
        limiter.set_rate(at(11), None);
        assert!(limiter.grant(at(11), 1).is_ok());
        limiter.set_rate(at(12), Some(1000));
        assert!(limiter.grant(at(12) + Duration::from_millis(5), 1).is_ok());
    }

    /// A clock that goes back, jumps to its end or stands still, a rate of nothing, more taken than there is: whoever asks is told to
    /// come again within a second, and gets something when time goes on.
    #[test]
    fn odd_clocks_and_empty_buckets_saturate() {
        for rate in [0, 1, 1000, u64::MAX] {
            let mut limiter = RateLimiter::new(Some(rate));
            let odd = [Duration::ZERO, Duration::MAX, Duration::from_secs(3), Duration::MAX, Duration::ZERO];
            for now in odd {
                limiter.charge(u64::MAX);
                limiter.charge_flush(u64::MAX);
                match limiter.grant(now, u64::MAX) {
                    Ok(bytes) => assert!(bytes > 0),
                    Err(when) => assert!(when >= now && when.saturating_sub(now) <= Duration::from_secs(1)),
                }
            }
        }
        let mut limiter = RateLimiter::new(Some(1000));
        limiter.charge(5000);
        let mut now = Duration::from_secs(1);
        while let Err(when) = limiter.grant(now, 100) {
            assert!(when > now, "time does not go on");
            now = when;
        }
        assert!(now < Duration::from_secs(12), "{now:?}");
    }
}
