//! Work that fails whenever it is done, as where a block of its input is damaged: it rests longer each time, so that it wears no disk,
//! and keeps nothing else from being done.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::base::class::Class;
use crate::base::error::Error;
use crate::base::units::TableId;

/// After the first failure it rests this long, and twice as long after each further one.
const REST: Duration = Duration::from_millis(500);
/// Doubled so many times: half a minute at most.
const DOUBLED_MAX: u32 = 6;
/// From so many failures on it is told to who waits for it.
const FAILURES_MAX: u32 = 3;

/// What has failed, by its first input table.
#[derive(Debug, Default)]
pub struct Failing(BTreeMap<TableId, Failed>);

#[derive(Debug)]
struct Failed {
    class: Class,
    times: u32,
    /// `None` while it is tried again.
    rests_until: Option<Duration>,
    error: Error,
}

impl Failing {
    /// It has failed. A full disk is no failure of the work.
    pub fn note(&mut self, seed: TableId, class: Class, now: Duration, error: &Error) {
        if matches!(error, Error::NoSpace { .. }) {
            return;
        }
        let times = self.0.get(&seed).map_or(0, |before| before.times);
        let rests_until = Some(now.saturating_add(REST * (1 << times.min(DOUBLED_MAX))));
        self.0.insert(seed, Failed { class, times: times + 1, rests_until, error: error.clone() });
    }

    /// True while it is not to be tried.
    pub fn rests(&self, seed: TableId, now: Duration) -> bool {
        self.0.get(&seed).and_then(|failed| failed.rests_until).is_some_and(|until| now < until)
    }

    /// It is tried again.
    pub fn begun(&mut self, seed: TableId) {
        if let Some(failed) = self.0.get_mut(&seed) {
            failed.rests_until = None;
        }
    }

    /// It has succeeded, or something has that had this table.
    pub fn succeeded(&mut self, table: TableId) {
        self.0.remove(&table);
    }

    /// True if something has rested, and is to be looked for.
    pub fn is_due(&self, now: Duration) -> bool {
        self.0.values().any(|failed| failed.rests_until.is_some_and(|until| until <= now))
    }

    /// It was looked for: what has rested and was not begun is not wanted any more.
    pub fn looked(&mut self, now: Duration) {
        self.0.retain(|_, failed| failed.rests_until.is_none_or(|until| now < until));
    }

    /// Why something rests now.
    pub fn errors(&self) -> impl Iterator<Item = &Error> {
        self.0.values().filter(|failed| failed.rests_until.is_some()).map(|failed| &failed.error)
    }

    /// Why something that `matters` will not get done.
    pub fn lasting_error(&self, matters: impl Fn(Class) -> bool) -> Option<&Error> {
        let lasts = |failed: &&Failed| failed.times >= FAILURES_MAX && failed.rests_until.is_some();
        self.0.values().find(|failed| lasts(failed) && matters(failed.class)).map(|failed| &failed.error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fails_again_rests_longer_each_time() {
        let (mut failing, seed, mut now) = (Failing::default(), TableId(1), Duration::from_secs(9));
        let error = Error::corruption("000001.sst", 0, "planted by the test");
        for halves in [1, 2, 4, 8, 16, 32, 64, 64] {
            failing.note(seed, Class::Deep, now, &error);
            assert!(failing.rests(seed, now) && !failing.rests(TableId(2), now) && !failing.is_due(now));
            now += REST * (halves - 1);
            assert!(failing.rests(seed, now), "{halves}");
            now += REST;
            assert!(!failing.rests(seed, now) && failing.is_due(now), "{halves}");
            let told = failing.lasting_error(|class| class == Class::Deep).is_some();
            assert_eq!((told, failing.errors().count()), (halves > 2, 1));
            assert!(failing.lasting_error(Class::is_l0).is_none());
            failing.begun(seed);
            assert_eq!((failing.is_due(now), failing.errors().count()), (false, 0));
        }
        failing.succeeded(seed);
        failing.note(seed, Class::Deep, now, &error);
        assert!(!failing.rests(seed, now + REST), "begins anew");
        failing.looked(now);
        assert_eq!(failing.errors().count(), 1);
        failing.looked(now + REST);
        assert_eq!(failing.errors().count(), 0);
        failing.note(seed, Class::Deep, now, &Error::NoSpace { context: String::new() });
        assert_eq!(failing.errors().count(), 0);
    }
}
