//! How eagerly background threads run: low, so that nobody feels them, or raised to everyone's priority while a deadline is near.
//!
//! A thread lowers itself. Beside clients who keep all cores busy a low one may not run for a second, so it cannot be left to it to
//! notice that it is needed: whoever sees that raises it from outside.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};

use evenkeel_sys::{Priority, ThreadId, can_raise_priority, current_thread_id, set_thread_priority};

use crate::base::locks::Mutex;

/// The priority of one thread.
#[derive(Debug)]
pub struct ThreadPriority {
    thread: ThreadId,
    low: Priority,
    /// False where the system lets nobody rise: then it is as low as `low` for good.
    may_rise: bool,
    raised: AtomicBool,
}

impl ThreadPriority {
    /// Of the calling thread, which runs as low as `low` until it is raised, or for good as `forever_low` where nobody may rise.
    fn of_caller(low: Priority, forever_low: Priority) -> ThreadPriority {
        let may_rise = can_raise_priority();
        let low = if may_rise { low } else { forever_low };
        let priority =
            ThreadPriority { thread: current_thread_id(), low, may_rise, raised: AtomicBool::new(false) };
        priority.set(low);
        priority
    }

    /// Runs as everyone does from now on. Any thread may ask for it.
    pub fn raise(&self) {
        if self.may_rise && !self.raised.swap(true, Ordering::SeqCst) {
            self.settle();
        }
    }

    /// Runs low again.
    pub fn lower(&self) {
        if self.raised.swap(false, Ordering::SeqCst) {
            self.settle();
        }
    }

    /// Tells the system what is wanted. Somebody who wants the other may come first with it and be told last, so whoever finds that
    /// it has changed tells again.
    fn settle(&self) {
        loop {
            let raised = self.is_raised();
            self.set(if raised { Priority::Normal } else { self.low });
            if self.is_raised() == raised {
                return;
            }
        }
    }

    /// True while it runs as everyone does.
    pub fn is_raised(&self) -> bool {
        self.raised.load(Ordering::SeqCst)
    }

    /// What the system refuses costs calm, not answers.
    fn set(&self, priority: Priority) {
        // Under shuttle all threads are one, and it is the test's.
        if cfg!(shuttle) {
            return;
        }
        let _ = set_thread_priority(self.thread, priority);
    }
}

/// The priorities of all background threads of a store.
#[derive(Debug, Default)]
pub struct Priorities(Mutex<Vec<Arc<ThreadPriority>>>);

impl Priorities {
    /// The calling thread is one of them: see [`ThreadPriority`].
    pub fn join(&self, low: Priority, forever_low: Priority) -> Arc<ThreadPriority> {
        let own = Arc::new(ThreadPriority::of_caller(low, forever_low));
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&own));
        own
    }

    /// Somebody waits for them, or is slowed: all run as everyone does, until they find that nobody is any more. Who goes on waiting
    /// asks again, because a thread of low priority may hold the list.
    pub fn raise_all(&self) {
        // One that joins just now looks for itself before it begins.
        if let Ok(all) = self.0.try_lock() {
            all.iter().for_each(|thread| thread.raise());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use evenkeel_sys::thread_priority;

    use super::*;
    use crate::base::clock::spawn;

    #[test]
    fn a_low_thread_is_raised_from_outside_and_lowers_itself() {
        let priorities = Arc::new(Priorities::default());
        let (theirs, told, go) = (Arc::clone(&priorities), channel(), channel::<()>());
        let thread = spawn("low", move || {
            let own = theirs.join(Priority::Idle, Priority::Nice19);
            told.0.send((current_thread_id(), Arc::clone(&own))).unwrap();
            go.1.recv().unwrap();
            own.lower();
            assert!(!own.is_raised());
            told.0.send((current_thread_id(), own)).unwrap();
            go.1.recv().unwrap();
        })
        .unwrap();
        let (id, own) = told.1.recv().unwrap();
        let low = if can_raise_priority() { Priority::Idle } else { Priority::Nice19 };
        let raised = if can_raise_priority() { Priority::Normal } else { Priority::Nice19 };
        assert_eq!(thread_priority(id).unwrap(), low);
        priorities.raise_all();
        assert_eq!(thread_priority(id).unwrap(), raised);
        assert_eq!(own.is_raised(), can_raise_priority());
        go.0.send(()).unwrap();
        assert_eq!(told.1.recv().unwrap().0, id);
        assert_eq!(thread_priority(id).unwrap(), low);
        go.0.send(()).unwrap();
        thread.join().unwrap();
        // Of a thread that has ended nothing comes.
        priorities.raise_all();
    }
}
