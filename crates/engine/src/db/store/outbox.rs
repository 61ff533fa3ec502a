//! Events on their way to the listener, one at a time and in their order, by who holds no lock of the store and is not waited for.
//!
//! ```text
//! something happens, under whatever locks ─► queue ─► keel-events, or without threads whoever steps ─► listener
//! ```
//! So a listener may ask the store what it likes, and may wait for a lock that a thread holds which itself waits for a flush. The
//! lock here is a leaf: nothing else is taken under it. A listener that does not keep up misses events, and is told how many.

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};

use crate::base::error::{Error, Result};
use crate::base::locks::{Condvar, Mutex, MutexGuard};
use crate::observe::event::{Event, Listener};

/// Events that wait for the listener.
const WAITING_MAX: usize = 4096;

/// Events that the listener has not been told.
#[derive(Debug, Default)]
pub struct Outbox {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Event>,
    /// Events after these that there was no place for.
    lost: u64,
    /// True while a thread tells; what comes meanwhile is told by it.
    telling: bool,
    /// The listener has panicked: it is told nothing more.
    silent: bool,
    stopped: bool,
}

impl Outbox {
    /// Puts an event behind those that wait.
    pub fn add(&self, event: &Event) {
        let mut state = self.lock();
        if state.silent {
            return;
        }
        // Once some are lost all are, until the listener has heard how many.
        if state.lost > 0 || state.waiting.len() == WAITING_MAX {
            state.lost += 1;
            return;
        }
        state.waiting.push_back(event.clone());
        drop(state);
        self.changed.notify_one();
    }

    /// Tells all that wait, unless a thread is at it, which may be this one. The caller holds no lock that a listener may need.
    pub fn tell(&self, listener: &Events) {
        if std::mem::replace(&mut self.lock().telling, true) {
            return;
        }
        let told = Telling(self);
        while let Some(event) = self.next() {
            listener.tell(&event);
        }
        std::mem::forget(told);
    }

    /// The body of the thread that tells.
    pub fn run(&self, listener: &Events) {
        loop {
            self.tell(listener);
            let quiet = |state: &mut State| state.waiting.is_empty() && !state.stopped;
            let state = self.changed.wait_while(self.lock(), quiet).unwrap_or_else(PoisonError::into_inner);
            if state.waiting.is_empty() {
                return;
            }
        }
    }

    /// Has that thread end when it has told what waits.
    pub fn stop(&self) {
        self.lock().stopped = true;
        self.changed.notify_all();
    }

    /// The next event; after the last one nobody tells any more.
    fn next(&self) -> Option<Event> {
        let mut state = self.lock();
        let event = state.waiting.pop_front().or_else(|| {
            let count = std::mem::take(&mut state.lost);
            (count > 0).then_some(Event::Untold { count })
        });
        state.telling = event.is_some();
        event
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Dropped where the listener panics.
struct Telling<'a>(&'a Outbox);

impl Drop for Telling<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.waiting.clear();
        (state.lost, state.telling, state.silent) = (0, false, true);
    }
}

/// A listener, or none.
#[derive(Clone, Default)]
pub struct Events(pub Option<Listener>);

thread_local! {
    /// The listener that this thread is in, by its address.
    static LISTENING: Cell<usize> = const { Cell::new(0) };
}

impl Events {
    /// Tells the listener, if there is one.
    pub fn tell(&self, event: &Event) {
        let Some(listener) = &self.0 else { return };
        let _inside = Inside(LISTENING.replace(Arc::as_ptr(listener).addr()));
        listener(event);
    }

    /// Refuses a call from within the listener that changes the store: each would bring more events, and without threads, or at the
    /// close, it would wait for the very thread it is on.
    ///
    /// # Errors
    /// `InvalidArgument` there.
    #[inline]
    pub fn check_outside(&self) -> Result<()> {
        match &self.0 {
            Some(listener) if LISTENING.get() == Arc::as_ptr(listener).addr() => Err(Error::invalid(
                "a listener cannot change its store; hand the event to a thread of your own",
            )),
            _ => Ok(()),
        }
    }
}

/// The listener that the thread was in before this one.
struct Inside(usize);

impl Drop for Inside {
    fn drop(&mut self) {
        LISTENING.set(self.0);
    }
}

impl std::fmt::Debug for Events {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_some() { "listening" } else { "silent" })
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;
    use crate::base::units::JobId;

    fn event(job: u64) -> Event {
        Event::Yielded { job: JobId(job) }
    }

    /// A listener that notes what it hears.
    fn noting() -> (Events, Arc<Mutex<Vec<String>>>) {
        let heard: Arc<Mutex<Vec<String>>> = Arc::default();
        let noted = Arc::clone(&heard);
        (Events(Some(Arc::new(move |e: &Event| noted.lock().unwrap().push(e.to_string())))), heard)
    }

    #[test]
    fn a_listener_that_does_not_keep_up_is_told_what_it_missed_where_it_missed_it() {
        let (listener, heard) = noting();
        let outbox = Outbox::default();
        let most = WAITING_MAX as u64;
        (0..most + 3).for_each(|job| outbox.add(&event(job)));
        outbox.tell(&listener);
        outbox.add(&event(7));
        outbox.tell(&listener);
        let heard = heard.lock().unwrap();
        assert_eq!(heard.len(), WAITING_MAX + 2);
        let last =
            [format!("Job {} yielded", most - 1), "3 events were not told".into(), event(7).to_string()];
        assert!(heard.iter().rev().take(3).eq(last.iter().rev()), "{:?}", &heard[WAITING_MAX - 1..]);
    }

    #[test]
    fn what_happens_while_a_listener_is_told_comes_after() {
        let outbox: Arc<Outbox> = Arc::default();
        let heard: Arc<Mutex<Vec<String>>> = Arc::default();
        let (noted, again) = (Arc::clone(&heard), Arc::clone(&outbox));
        let listener = Events(Some(Arc::new(move |e: &Event| {
            if e.to_string() == event(1).to_string() {
                again.add(&event(2));
                again.tell(&Events::default());
            }
            noted.lock().unwrap().push(e.to_string());
        })));
        outbox.add(&event(1));
        outbox.tell(&listener);
        assert_eq!(*heard.lock().unwrap(), [event(1).to_string(), event(2).to_string()]);
    }

    #[test]
    fn a_listener_that_panics_is_told_nothing_more() {
        let outbox = Outbox::default();
        let planted = Events(Some(Arc::new(|_: &Event| panic!("planted by the test"))));
        (0..2).for_each(|job| outbox.add(&event(job)));
        assert!(catch_unwind(AssertUnwindSafe(|| outbox.tell(&planted))).is_err());
        outbox.add(&event(2));
        outbox.tell(&planted);
    }

    #[test]
    fn the_thread_tells_all_before_it_ends() {
        let (listener, heard) = noting();
        let outbox = Outbox::default();
        std::thread::scope(|scope| {
            scope.spawn(|| outbox.run(&listener));
            (0..100).for_each(|job| outbox.add(&event(job)));
            outbox.stop();
        });
        assert_eq!(heard.lock().unwrap().len(), 100);
    }
}
