//! Latencies: a histogram per operation and thread for the whole run, and one a second across all threads.
//!
//! ```text
//! thread 0   ─ second 3 ─┤─ second 4 ─┤─ …      each thread hands its histogram in when its second changes;
//! thread 1   ─── second 3 (a stall) ───┤─ …      a second is summed up when no thread can add to it any more
//! ```
//!
//! Threads share a lock once a second only, and a run of hours keeps a short row and a few KiB of latencies a second, not
//! histograms: the memory of the process is one of the figures.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use crate::run::compact::Compact;
use crate::workloads::workload::OpKind;

/// An hour in nanoseconds: longer latencies count as this.
const LONGEST_NANOS: u64 = 3_600_000_000_000;

/// The latencies of the whole run in nanoseconds, by [`OpKind::index`]; `None` for what did not happen.
pub type Latencies = [Option<Histogram<u64>>; OpKind::ALL.len()];

/// One second of the run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Window {
    /// Counted from the start of the run.
    pub second: u64,
    /// Operations that ended in it.
    pub ops: u64,
    /// The 99th percentile of their latencies; `None` if none ended.
    pub p99_us: Option<f64>,
    /// The largest of their latencies; `None` if none ended.
    pub max_us: Option<f64>,
    /// Bytes of keys and values that clients wrote and read.
    pub client_bytes: u64,
    /// What came in it; `None` in a closed loop.
    pub arrived: Option<Arrived>,
}

/// The latencies of the operations that ended in one second, so that percentiles can be had of the seconds one chooses when
/// the run is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecondLatencies {
    /// Counted from the start of the run.
    pub second: u64,
    /// In nanoseconds, to two digits, by the kind of operation; only those of which any ended.
    pub by_kind: Box<[(OpKind, Compact)]>,
}

/// What a run's threads recorded second by second.
#[derive(Debug, Default)]
pub struct Recorded {
    /// All seconds in which an operation ended.
    pub windows: Vec<Window>,
    /// The latencies of the same seconds.
    pub latencies: Vec<SecondLatencies>,
}

/// What came in one second of an open loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// Requests that were due in it.
    pub requests: u64,
    /// Requests that had come and not ended at its end, those being worked on among them.
    pub queue: u64,
}

/// The seconds of an open loop: each of them, also those in which nothing ended, with what came. The queue follows from what
/// came and what ended, so it cannot disagree with either.
pub fn with_arrivals(windows: &[Window], by_second: &[u64]) -> Vec<Window> {
    let seconds = windows.last().map_or(0, |w| w.second as usize + 1).max(by_second.len());
    let mut ended = windows.iter().peekable();
    let mut queue = 0;
    let row = |second: usize| {
        let window = ended.next_if(|w| w.second == second as u64).copied();
        let empty = Window {
            second: second as u64,
            ops: 0,
            p99_us: None,
            max_us: None,
            client_bytes: 0,
            arrived: None,
        };
        let window = window.unwrap_or(empty);
        let requests = by_second.get(second).copied().unwrap_or(0);
        queue = (queue + requests).saturating_sub(window.ops);
        Window { arrived: Some(Arrived { requests, queue }), ..window }
    };
    (0..seconds).map(row).collect()
}

/// The seconds of a run, shared by its threads.
#[derive(Debug)]
pub struct Windows {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// The second each thread is in.
    at: Vec<u64>,
    open: BTreeMap<u64, Open>,
    done: Recorded,
}

#[derive(Debug, Default)]
struct Open {
    latencies: Latencies,
    client_bytes: u64,
}

impl Open {
    fn close(self, second: u64) -> (Window, SecondLatencies) {
        let mut all = window_histogram();
        let mut by_kind = Vec::new();
        for (kind, latencies) in OpKind::ALL.into_iter().zip(&self.latencies) {
            let Some(latencies) = latencies else { continue };
            // All have the same bounds, so adding cannot fail.
            let added = all.add(latencies);
            debug_assert!(added.is_ok());
            by_kind.push((kind, Compact::of(latencies)));
        }
        let window = Window {
            second,
            ops: all.len(),
            p99_us: Some(all.value_at_quantile(0.99) as f64 / 1e3),
            max_us: Some(all.max() as f64 / 1e3),
            client_bytes: self.client_bytes,
            arrived: None,
        };
        (window, SecondLatencies { second, by_kind: by_kind.into() })
    }
}

impl Windows {
    /// For so many threads.
    pub fn new(threads: usize) -> Windows {
        let state = State { at: vec![0; threads], open: BTreeMap::new(), done: Recorded::default() };
        Windows { state: Mutex::new(state) }
    }

    /// Shows the seconds that no thread can add to any more.
    pub(crate) fn so_far(&self, look: impl FnOnce(&[Window])) {
        let done = self.state.lock().unwrap_or_else(PoisonError::into_inner).done.windows.clone();
        look(&done);
    }

    /// All seconds, once all threads have finished.
    pub fn into_recorded(self) -> Recorded {
        self.state.into_inner().unwrap_or_else(PoisonError::into_inner).done
    }

    fn hand_in(&self, thread: usize, second: u64, latencies: &Latencies, client_bytes: u64, next: u64) {
        let mut guard = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let state = &mut *guard;
        let kinds = latencies.iter().enumerate().filter_map(|(kind, h)| Some((kind, h.as_ref()?)));
        for (kind, latencies) in kinds.filter(|(_, h)| !h.is_empty()) {
            let open = state.open.entry(second).or_default();
            let added = open.latencies[kind].get_or_insert_with(window_histogram).add(latencies);
            debug_assert!(added.is_ok());
        }
        if let Some(open) = state.open.get_mut(&second) {
            open.client_bytes += client_bytes;
        }
        state.at[thread] = next;
        let slowest = state.at.iter().copied().min().unwrap_or(u64::MAX);
        while let Some(entry) = state.open.first_entry().filter(|entry| *entry.key() < slowest) {
            let (second, open) = entry.remove_entry();
            let (window, latencies) = open.close(second);
            state.done.windows.push(window);
            state.done.latencies.push(latencies);
        }
    }
}

/// Records the operations of one thread.
#[derive(Debug)]
pub struct Recorder<'a> {
    windows: &'a Windows,
    thread: usize,
    start: Instant,
    latencies: Latencies,
    window: Latencies,
    window_bytes: u64,
    second: u64,
    window_ends: Instant,
}

impl<'a> Recorder<'a> {
    /// The recorder of thread number `thread` in a run that started at `start`.
    pub fn new(windows: &'a Windows, thread: usize, start: Instant) -> Recorder<'a> {
        Recorder {
            windows,
            thread,
            start,
            latencies: [const { None }; OpKind::ALL.len()],
            window: [const { None }; OpKind::ALL.len()],
            window_bytes: 0,
            second: 0,
            window_ends: start + Duration::from_secs(1),
        }
    }

    /// An operation began and ended at these moments and moved so many bytes.
    pub fn record(&mut self, kind: OpKind, began: Instant, ended: Instant, client_bytes: u64) {
        if ended >= self.window_ends {
            self.turn(ended);
        }
        let nanos = (ended.duration_since(began).as_nanos() as u64).max(1);
        self.latencies[kind.index()].get_or_insert_with(run_histogram).saturating_record(nanos);
        self.window[kind.index()].get_or_insert_with(window_histogram).saturating_record(nanos);
        self.window_bytes += client_bytes;
    }

    /// The thread is through.
    pub fn finish(self) -> Latencies {
        self.windows.hand_in(self.thread, self.second, &self.window, self.window_bytes, u64::MAX);
        self.latencies
    }

    fn turn(&mut self, now: Instant) {
        let second = now.duration_since(self.start).as_secs();
        self.windows.hand_in(self.thread, self.second, &self.window, self.window_bytes, second);
        self.window.iter_mut().flatten().for_each(Histogram::reset);
        self.window_bytes = 0;
        self.second = second;
        self.window_ends = self.start + Duration::from_secs(second + 1);
    }
}

/// Adds the latencies of one thread to those of others.
pub fn merge(into: &mut Latencies, from: Latencies) {
    for (into, from) in into.iter_mut().zip(from) {
        match (into.as_mut(), from) {
            (Some(into), Some(from)) => {
                let added = into.add(&from);
                debug_assert!(added.is_ok());
            }
            (None, Some(from)) => *into = Some(from),
            (_, None) => {}
        }
    }
}

#[expect(clippy::expect_used, reason = "the bounds are constants that the library accepts")]
pub(crate) fn run_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LONGEST_NANOS, 3).expect("the bounds are valid")
}

#[expect(clippy::expect_used, reason = "the bounds are constants that the library accepts")]
pub(crate) fn window_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LONGEST_NANOS, 2).expect("the bounds are valid")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::clock;

    #[test]
    fn a_stalled_thread_s_second_waits_for_it() {
        let start = clock::now();
        let at = |millis: u64| start + Duration::from_millis(millis);
        let windows = Windows::new(2);
        let (mut quick, mut slow) = (Recorder::new(&windows, 0, start), Recorder::new(&windows, 1, start));
        for i in 0..35 {
            quick.record(OpKind::Read, at(i * 100), at(i * 100 + 1), 10);
        }
        slow.record(OpKind::Update, at(0), at(500), 5);
        assert!(
            windows.state.lock().unwrap().done.windows.is_empty(),
            "the slow thread is still in second 0"
        );
        slow.record(OpKind::Update, at(500), at(3200), 5);
        let mut all = slow.finish();
        merge(&mut all, quick.finish());
        let Recorded { windows: rows, latencies } = windows.into_recorded();
        let seen: Vec<(u64, u64, u64)> = rows.iter().map(|w| (w.second, w.ops, w.client_bytes)).collect();
        assert_eq!(seen, [(0, 11, 105), (1, 10, 100), (2, 10, 100), (3, 6, 55)]);
        assert!((2_690_000.0..2_730_000.0).contains(&rows[3].max_us.unwrap()), "{rows:?}");
        assert_eq!(all[OpKind::Read.index()].as_ref().map(Histogram::len), Some(35));
        assert_eq!(all[OpKind::Update.index()].as_ref().map(Histogram::len), Some(2));
        assert!(all[OpKind::Scan.index()].is_none());
        let kinds = |second: usize| latencies[second].by_kind.iter().map(|(kind, _)| *kind);
        assert!(kinds(0).eq([OpKind::Read, OpKind::Update]) && kinds(1).eq([OpKind::Read]), "{latencies:?}");
        for (row, latencies) in rows.iter().zip(&latencies) {
            let mut back = window_histogram();
            latencies.by_kind.iter().for_each(|(_, kept)| kept.add_to(&mut back));
            assert_eq!((latencies.second, back.len()), (row.second, row.ops));
            assert_eq!(Some(back.max() as f64 / 1e3), row.max_us);
        }
    }

    #[test]
    fn a_second_without_an_end_has_a_row_and_a_queue() {
        let window = |second, ops| Window {
            second,
            ops,
            p99_us: Some(1.0),
            max_us: Some(1.0),
            client_bytes: 0,
            arrived: None,
        };
        let rows = with_arrivals(&[window(0, 8), window(3, 20), window(4, 2)], &[10, 10, 0, 10]);
        let seen: Vec<_> = rows.iter().map(|w| (w.second, w.ops, w.arrived.unwrap())).collect();
        let arrived = |requests, queue| Arrived { requests, queue };
        assert_eq!(
            seen,
            [
                (0, 8, arrived(10, 2)),
                (1, 0, arrived(10, 12)),
                (2, 0, arrived(0, 12)),
                (3, 20, arrived(10, 2)),
                (4, 2, arrived(0, 0))
            ]
        );
        assert_eq!((rows[1].p99_us, rows[3].p99_us), (None, Some(1.0)));
        assert_eq!(with_arrivals(&[], &[3, 4])[1].arrived, Some(arrived(4, 7)));
    }
}
