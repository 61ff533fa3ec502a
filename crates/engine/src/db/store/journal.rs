//! What happened, on its way to `LOG` and to whoever listens: lines in memory, handed on by a thread of their own.
//!
//! Telling takes a lock for the length of a copy and does no input or output, so no writer waits for a file for people. What
//! nobody takes in time is dropped and counted.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use crate::base::locks::{Condvar, Mutex, MutexGuard};
use crate::observe::event::Event;
use crate::observe::event_json::event_json;
use crate::observe::words::utc;

/// Lines that wait for `LOG` take at most this many bytes.
const PENDING_BYTES_MAX: usize = 1 << 20;
/// Events remembered for listeners.
const RECENT_MAX: usize = 256;

/// Events on their way.
#[derive(Debug)]
pub struct Journal {
    state: Mutex<State>,
    changed: Condvar,
    /// True if lines are written to `LOG`.
    written: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    /// Lines for `LOG`.
    pending: String,
    /// Lines that did not fit.
    dropped: u64,
    /// True once there was more than an open and a close.
    noteworthy: bool,
    /// The last events as JSON, and the number of the first of them.
    recent: VecDeque<Arc<str>>,
    first: u64,
    stopped: bool,
}

impl Journal {
    /// Empty. Lines for `LOG` are kept only if they are `written`.
    pub fn new(written: bool) -> Journal {
        Journal { state: Mutex::default(), changed: Condvar::new(), written: AtomicBool::new(written) }
    }

    /// True if lines are written to `LOG`, and figures to `STATS`.
    pub fn is_written(&self) -> bool {
        self.written.load(Ordering::Relaxed)
    }

    /// From now on they are, or not.
    pub fn set_written(&self, written: bool) {
        self.written.store(written, Ordering::Relaxed);
    }

    /// An event, about a keyspace of this name.
    pub fn tell(&self, event: &Event, keyspace: Option<&str>, wall_ms: u64) {
        let json: Arc<str> = event_json(event, keyspace, wall_ms).into();
        let lines = self.is_written().then(|| {
            let (time, words) = (utc(wall_ms), one_line(&event.to_string()));
            let words = keyspace.map_or(words.clone(), |name| format!("[{}] {words}", one_line(name)));
            format!("{time} {words}\n{time} EVENT_LOG_v1 {json}\n")
        });
        let mut state = self.lock();
        state.noteworthy |= event.is_noteworthy();
        if state.recent.len() == RECENT_MAX {
            state.recent.pop_front();
            state.first += 1;
        }
        state.recent.push_back(json);
        if let Some(lines) = lines {
            state.add(&lines);
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Words for `LOG` alone.
    pub fn note(&self, words: &str, wall_ms: u64) {
        if self.is_written() {
            self.lock().add(&format!("{} {}\n", utc(wall_ms), one_line(words)));
        }
    }

    /// From now on there is something worth a file.
    pub fn make_noteworthy(&self) {
        self.lock().noteworthy = true;
    }

    /// The lines for `LOG`, and how many were dropped; nothing until there is something worth a file.
    pub fn take(&self) -> Option<(String, u64)> {
        let mut state = self.lock();
        if !state.noteworthy || state.pending.is_empty() {
            return None;
        }
        Some((std::mem::take(&mut state.pending), std::mem::take(&mut state.dropped)))
    }

    /// Events from number `from` on that are still remembered, as JSON, and the number of the next.
    pub fn events_from(&self, from: u64) -> (Vec<Arc<str>>, u64) {
        let state = self.lock();
        let skip = from.saturating_sub(state.first) as usize;
        let next = state.first + state.recent.len() as u64;
        (state.recent.iter().skip(skip).cloned().collect(), next)
    }

    /// Waits until there is an event numbered `next`, lines for `LOG` if `lines` are wanted, or the end; at most for
    /// `longest`. True while the store is open.
    pub fn wait(&self, next: u64, lines: bool, longest: Duration) -> bool {
        let state = self.lock();
        let quiet = |s: &mut State| {
            let wanted = lines && s.noteworthy && !s.pending.is_empty();
            !s.stopped && !wanted && s.first + s.recent.len() as u64 <= next
        };
        let state = self.changed.wait_timeout_while(state, longest, quiet);
        !state.map_or_else(|e| e.into_inner().0, |s| s.0).stopped
    }

    /// Ends all waits.
    pub fn stop(&self) {
        self.lock().stopped = true;
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn add(&mut self, lines: &str) {
        if self.pending.len() + lines.len() > PENDING_BYTES_MAX {
            self.dropped += lines.lines().count() as u64;
        } else {
            self.pending.push_str(lines);
        }
    }
}

/// Without what would break the line, or colour a terminal.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::units::{JobId, KeyspaceId};

    fn moved(bytes: u64) -> Event {
        Event::Moved { job: JobId(0), keyspace: KeyspaceId(0), reason: String::new(), bytes }
    }

    #[test]
    fn an_event_is_a_line_of_words_and_a_line_of_json() {
        let journal = Journal::new(true);
        journal.note("begins", 0);
        assert_eq!(journal.take(), None, "an open alone is not worth a file");
        journal.tell(&moved(5), Some("my\nshop"), 1);
        let (lines, dropped) = journal.take().unwrap();
        let expected = "1970-01-01T00:00:00.000Z begins\n\
             1970-01-01T00:00:00.001Z [my shop] Moved 5 B a level down without rewriting\n\
             1970-01-01T00:00:00.001Z EVENT_LOG_v1 \
             {\"time_micros\":1000,\"event\":\"trivial_move\",\"keyspace\":\"my\\nshop\",\"job\":0,\"reason\":\"\",\"bytes\":5}\n";
        assert_eq!((lines.as_str(), dropped), (expected, 0));
        assert_eq!(journal.take(), None);
    }

    #[test]
    fn what_nobody_takes_is_dropped_and_counted() {
        let journal = Journal::new(true);
        for _ in 0..20_000 {
            journal.tell(&Event::Yielded { job: JobId(1) }, None, 0);
        }
        let (lines, dropped) = journal.take().unwrap();
        assert!(lines.len() <= PENDING_BYTES_MAX && dropped > 0);
        assert_eq!(lines.lines().count() as u64 + dropped, 40_000);
        let quiet = Journal::new(false);
        quiet.tell(&moved(1), None, 0);
        assert_eq!(quiet.take(), None);
    }

    #[test]
    fn listeners_get_what_is_remembered_from_where_they_are() {
        let journal = Journal::new(false);
        for i in 0..300 {
            journal.tell(&moved(i), None, 0);
        }
        let (events, next) = journal.events_from(0);
        assert_eq!((events.len(), next), (RECENT_MAX, 300));
        assert!(events[0].contains("\"bytes\":44}"), "{}", events[0]);
        assert_eq!(journal.events_from(299).0.len(), 1);
        assert_eq!(journal.events_from(next).0.len(), 0);
        assert!(journal.wait(299, false, Duration::from_secs(60)), "there is one already");
        journal.stop();
        assert!(!journal.wait(next, false, Duration::from_secs(60)));
    }
}
