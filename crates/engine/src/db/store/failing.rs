//! Work that fails whenever it is done, as where a block of its input is damaged: it rests longer each time, so that it wears no disk,
//! and keeps nothing else from being done.
//!
//! It is known by its first input table: whatever would take that table rests.
//!
//! A flush that fails rests likewise, and all flushes with it, but never for long, for writers come to need them: until then, until a disk
//! that had no room has some, or until somebody asks for one.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::base::class::Class;
use crate::base::error::Error;
use crate::base::units::{KeyspaceId, TableId};

/// After the first failure it rests this long, and twice as long after each further one.
pub const REST: Duration = Duration::from_millis(500);
/// Doubled so many times: half a minute at most.
const DOUBLED_MAX: u32 = 6;
/// What fails so many times in a row is not waited for any longer: who does is told.
pub const FAILURES_MAX: u32 = 3;
/// What was not tried again for so long begins anew.
const FORGOTTEN: Duration = Duration::from_secs(600);

/// After its first failure a flush rests this long, and twice as long after each further one.
const FLUSH_REST: Duration = Duration::from_millis(100);
/// Doubled so many times: some three seconds at most.
const FLUSH_DOUBLED_MAX: u32 = 5;

/// What has failed.
#[derive(Debug, Default)]
pub struct Failing(BTreeMap<TableId, Failed>);

#[derive(Debug)]
struct Failed {
    keyspace: KeyspaceId,
    class: Class,
    times: u32,
    rests_until: Duration,
    /// True until it has rested and was looked for.
    rests: bool,
    error: Error,
}

impl Failing {
    /// Work of a class with these inputs has failed. Answers false if it was for want of space, which is no failure of the work.
    pub fn note(
        &mut self,
        (keyspace, class): (KeyspaceId, Class),
        inputs: impl Iterator<Item = TableId>,
        now: Duration,
        error: &Error,
    ) -> bool {
        let mut inputs = inputs.peekable();
        let first = inputs.peek().copied();
        let times =
            inputs.filter_map(|table| self.0.remove(&table)).map(|before| before.times).max().unwrap_or(0);
        let Some(first) = first.filter(|_| !matches!(error, Error::NoSpace { .. })) else { return false };
        let rests_until = now.saturating_add(REST * (1 << times.min(DOUBLED_MAX)));
        let error = error.clone();
        self.0.insert(first, Failed { keyspace, class, times: times + 1, rests_until, rests: true, error });
        true
    }

    /// Tables of a keyspace that nothing is to take now.
    pub fn resting(&self, keyspace: KeyspaceId, now: Duration) -> Vec<TableId> {
        let rests = |failed: &Failed| failed.keyspace == keyspace && now < failed.rests_until;
        self.0.iter().filter(|(_, failed)| rests(failed)).map(|(table, _)| *table).collect()
    }

    /// Work that had this table has succeeded.
    pub fn succeeded(&mut self, table: TableId) {
        self.0.remove(&table);
    }

    /// A keyspace is gone.
    pub fn dropped(&mut self, keyspace: KeyspaceId) {
        self.0.retain(|_, failed| failed.keyspace != keyspace);
    }

    /// True if something has rested, and is to be looked for.
    pub fn is_due(&self, now: Duration) -> bool {
        self.0.values().any(|failed| failed.rests && failed.rests_until <= now)
    }

    /// It was looked for.
    pub fn looked(&mut self, now: Duration) {
        self.0.retain(|_, failed| now < failed.rests_until.saturating_add(FORGOTTEN));
        self.0.values_mut().for_each(|failed| failed.rests &= now < failed.rests_until);
    }

    /// Why something rests now.
    pub fn errors(&self) -> impl Iterator<Item = &Error> {
        self.0.values().filter(|failed| failed.rests).map(|failed| &failed.error)
    }

    /// Why something will not get done, of a class or keyspace that `matters`.
    pub fn lasting_error(&self, matters: impl Fn(KeyspaceId, Class) -> bool) -> Option<&Error> {
        let lasts = |failed: &&Failed| failed.times >= FAILURES_MAX && failed.rests;
        self.0.values().find(|it| lasts(it) && matters(it.keyspace, it.class)).map(|failed| &failed.error)
    }
}

/// What keeps flushes from succeeding, until one does.
#[derive(Clone, Debug, Default)]
pub struct FailedFlush {
    error: Option<Error>,
    /// Failures in a row.
    times: u32,
    rests_until: Duration,
    /// It found no space: with so many bytes free it is tried again at once.
    room_from: Option<u64>,
    /// Failures since the store was opened.
    failures: u64,
}

impl FailedFlush {
    /// The last failure.
    pub fn error(&self) -> Option<&Error> {
        self.error.as_ref()
    }

    /// The last failure, if it came after so many others.
    pub fn error_after(&self, failures: u64) -> Option<&Error> {
        self.error().filter(|_| self.failures > failures)
    }

    /// A flush has failed; where that was for want of space, it is tried again at once with `room_from` bytes free. Answers when to look
    /// at it again.
    pub fn note(&mut self, error: Error, now: Duration, room_from: Option<u64>) -> Duration {
        self.rests_until = now.saturating_add(FLUSH_REST * (1 << self.times.min(FLUSH_DOUBLED_MAX)));
        self.times = self.times.saturating_add(1);
        self.failures += 1;
        (self.error, self.room_from) = (Some(error), room_from);
        self.look_at(now)
    }

    /// One has succeeded, or none is wanted any more.
    pub fn clear(&mut self) {
        *self = FailedFlush { failures: self.failures, ..FailedFlush::default() };
    }

    /// Somebody asks for it: it has rested for long enough. Answers how many have failed until now, which tells nothing of the next.
    pub fn try_now(&mut self) -> u64 {
        self.rests_until = Duration::ZERO;
        self.failures
    }

    /// When to look at it again, if it rests now, with as much space as `free` says.
    pub fn rests(&self, now: Duration, free: impl FnOnce() -> u64) -> Option<Duration> {
        let has_room = || self.room_from.is_some_and(|enough| free() >= enough);
        (now < self.rests_until && !has_room()).then(|| self.look_at(now))
    }

    /// Nobody tells of space.
    fn look_at(&self, now: Duration) -> Duration {
        match self.room_from {
            Some(_) => self.rests_until.min(now.saturating_add(FLUSH_REST)),
            None => self.rests_until,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OF: (KeyspaceId, Class) = (KeyspaceId(0), Class::Deep);

    fn error() -> Error {
        Error::corruption("000001.sst", 0, "planted by the test")
    }

    #[test]
    fn what_fails_again_rests_longer_each_time() {
        let (mut failing, mut now) = (Failing::default(), Duration::from_secs(9));
        for (before, halves) in [1, 2, 4, 8, 16, 32, 64, 64].into_iter().enumerate() {
            // A newer table may come first each time, as in L0.
            let inputs = [TableId(100 - before as u64), TableId(101 - before as u64)];
            assert!(failing.note(OF, inputs.into_iter(), now, &error()));
            let rests = |failing: &Failing, now| failing.resting(KeyspaceId(0), now) == [inputs[0]];
            assert!(rests(&failing, now) && !failing.is_due(now));
            assert!(failing.resting(KeyspaceId(1), now).is_empty(), "of another keyspace");
            now += REST * (halves - 1);
            assert!(rests(&failing, now), "{halves}");
            let told = failing.lasting_error(|keyspace, class| (keyspace, class) == OF).is_some();
            assert_eq!((told, failing.errors().count()), (halves > 2, 1));
            assert!(failing.lasting_error(|_, class| class.is_l0()).is_none());
            now += REST;
            assert!(!rests(&failing, now) && failing.is_due(now), "{halves}");
            // Looked for, and perhaps not begun for want of a place: it is not forgotten.
            failing.looked(now);
            assert_eq!((failing.is_due(now), failing.errors().count()), (false, 0));
        }
    }

    #[test]
    fn what_is_over_is_forgotten() {
        let now = Duration::from_secs(9);
        let failed = || {
            let mut failing = Failing::default();
            assert!(failing.note(OF, [TableId(1)].into_iter(), now, &error()));
            failing
        };
        let rest_after = |mut failing: Failing| {
            assert!(failing.note(OF, [TableId(1)].into_iter(), now, &error()));
            failing.resting(KeyspaceId(0), now + REST).len()
        };
        assert_eq!(rest_after(failed()), 1, "twice as long");
        let mut ended = [failed(), failed(), failed()];
        ended[0].succeeded(TableId(1));
        ended[1].dropped(KeyspaceId(0));
        ended[2].looked(now + 2 * FORGOTTEN);
        assert_eq!(ended.map(rest_after), [0, 0, 0]);
        let mut failing = Failing::default();
        assert!(!failing.note(OF, [TableId(1)].into_iter(), now, &Error::NoSpace { context: String::new() }));
        assert_eq!(failing.errors().count(), 0);
    }

    #[test]
    fn a_flush_that_fails_again_rests_longer_each_time() {
        let (mut failed, mut now) = (FailedFlush::default(), Duration::from_secs(9));
        assert_eq!(failed.rests(now, || 0), None, "nothing has failed");
        for tenths in [1, 2, 4, 8, 16, 32, 32, 32] {
            let until = now + FLUSH_REST * tenths;
            assert_eq!(failed.note(error(), now, None), until);
            let just_before = until - Duration::from_nanos(1);
            let rests = [now, just_before, until].map(|at| failed.rests(at, || u64::MAX));
            assert_eq!(rests, [Some(until), Some(until), None], "{tenths}: it lacks no space");
            now = until;
        }
        assert!(failed.error().is_some());
        failed.note(error(), now, None);
        let before = failed.try_now();
        assert!(failed.rests(now, || 0).is_none() && failed.error_after(before).is_none(), "somebody asks");
        assert_eq!(failed.note(error(), now, None), now + FLUSH_REST * 32, "in vain");
        assert!(failed.error_after(before).is_some());
        failed.clear();
        assert!(failed.error().is_none());
        assert_eq!(failed.note(error(), now, None), now + FLUSH_REST);
    }

    #[test]
    fn a_flush_that_lacks_space_looks_for_it() {
        let (mut failed, since) = (FailedFlush::default(), Duration::from_secs(9));
        for _ in 0..9 {
            failed.note(Error::NoSpace { context: String::new() }, since, Some(100));
        }
        let at = |tenths: u32| since + FLUSH_REST * tenths;
        let table = [(0, 99, Some(1)), (0, 100, None), (31, 99, Some(32)), (32, 99, None)];
        for (tenths, free, looks) in table {
            assert_eq!(failed.rests(at(tenths), || free), looks.map(at), "{tenths} {free}");
        }
    }
}
