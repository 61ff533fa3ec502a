//! How eagerly background threads run: low, so that nobody feels them, or raised to everyone's priority while a deadline is near.
//!
//! A thread lowers itself. Beside clients who keep all cores busy a low one may not run for a second, so it cannot be left to it to
//! notice that it is needed: whoever sees that raises it from outside. Where the system lets no thread rise again, another one, with a
//! client's share of a core, stands in for it, and is woken instead.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};

use evenkeel_sys::{Priority, ThreadId, can_raise_priority, current_thread_id, set_thread_priority};

use crate::base::locks::thread::{self, Thread};
use crate::base::locks::{Mutex, MutexGuard, RwLock, drawn, try_lock};

/// What a thread is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duty {
    /// To turn memtables into tables, or something that flushes and writers need.
    Flushes,
    /// Compactions.
    Compactions,
}

/// How one thread is run while it is needed, and while it is not.
#[derive(Debug)]
pub struct ThreadPriority {
    duty: Duty,
    when_needed: WhenNeeded,
    raised: AtomicBool,
}

#[derive(Debug)]
enum WhenNeeded {
    /// It runs as everyone does, and low otherwise.
    Rises { thread: ThreadId, low: Priority },
    /// It is woken, and asleep otherwise.
    Wakes(Thread),
    /// It stays as it is.
    Stays,
}

impl ThreadPriority {
    /// Of the calling thread, which runs as low as `low` until it is raised, or for good as `forever_low` where nobody may rise.
    fn of_caller(duty: Duty, low: Priority, forever_low: Priority) -> ThreadPriority {
        let thread = current_thread_id();
        let may_rise = can_raise();
        set(thread, if may_rise { low } else { forever_low });
        ThreadPriority::new(
            duty,
            if may_rise { WhenNeeded::Rises { thread, low } } else { WhenNeeded::Stays },
        )
    }

    fn new(duty: Duty, when_needed: WhenNeeded) -> ThreadPriority {
        ThreadPriority { duty, when_needed, raised: AtomicBool::new(false) }
    }

    /// It is needed from now on. Any thread may say so.
    pub fn raise(&self) {
        if !matches!(self.when_needed, WhenNeeded::Stays) && !self.raised.swap(true, Ordering::SeqCst) {
            self.settle();
        }
    }

    /// It is needed no longer. Answers whether it was until now.
    pub fn lower(&self) -> bool {
        let was_raised = self.raised.swap(false, Ordering::SeqCst);
        if was_raised {
            self.settle();
        }
        was_raised
    }

    /// Tells the system what is wanted. Somebody who wants the other may come first with it and be told last, so whoever finds that
    /// it has changed tells again.
    fn settle(&self) {
        loop {
            let raised = self.is_raised();
            match &self.when_needed {
                WhenNeeded::Rises { thread, low } => {
                    let is_set = set(*thread, if raised { Priority::Normal } else { *low });
                    if raised && !is_set {
                        // Rights are a thread's own: this one may lack what the thread itself has, and will use when it looks.
                        self.raised.store(false, Ordering::SeqCst);
                        return;
                    }
                }
                WhenNeeded::Wakes(thread) if raised => thread.unpark(),
                WhenNeeded::Wakes(_) | WhenNeeded::Stays => {}
            }
            if self.is_raised() == raised {
                return;
            }
        }
    }

    /// True while it is needed, and runs as everyone does.
    pub fn is_raised(&self) -> bool {
        self.raised.load(Ordering::SeqCst)
    }
}

/// Whether a low thread can be raised again. Under shuttle, where all threads are one and nobody is lowered, it is drawn.
pub fn can_raise() -> bool {
    drawn().unwrap_or_else(can_raise_priority)
}

/// What the system refuses costs calm, not answers: then this is false.
fn set(thread: ThreadId, priority: Priority) -> bool {
    cfg!(shuttle) || set_thread_priority(thread, priority).is_ok()
}

/// The priorities of all background threads of a store.
#[derive(Debug, Default)]
pub struct Priorities(RwLock<Vec<Arc<ThreadPriority>>>);

impl Priorities {
    /// The calling thread is one of them: see [`ThreadPriority`].
    pub fn join(&self, duty: Duty, low: Priority, forever_low: Priority) -> Arc<ThreadPriority> {
        self.add(ThreadPriority::of_caller(duty, low, forever_low))
    }

    /// The calling thread, which keeps everyone's share of a core but lets who wakes go first, stands in for one that cannot be
    /// raised: it parks while it is not needed.
    pub fn join_as_stand_in(&self, duty: Duty) -> Arc<ThreadPriority> {
        set(current_thread_id(), Priority::Batch);
        self.add(ThreadPriority::new(duty, WhenNeeded::Wakes(thread::current())))
    }

    /// How many there are, and how many of them are raised.
    #[cfg(test)]
    pub fn count(&self) -> [usize; 2] {
        let all = self.0.read().unwrap_or_else(PoisonError::into_inner);
        [all.len(), all.iter().filter(|thread| thread.is_raised()).count()]
    }

    fn add(&self, own: ThreadPriority) -> Arc<ThreadPriority> {
        let own = Arc::new(own);
        self.0.write().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&own));
        own
    }

    /// Somebody waits for them, or is slowed: all run as everyone does, until they find that nobody is any more. Who goes on waiting
    /// asks again, because a thread of low priority may hold the list while it joins.
    pub fn raise_all(&self) {
        self.raise_those(|_| true);
    }

    /// The same for those with this duty alone: the others would lower themselves at once.
    pub fn raise_for(&self, wanted: Duty) {
        self.raise_those(|thread| thread.duty == wanted);
    }

    /// A lock, for a lane that writers may wait for: a thread that has it, and runs only while nobody else does, hurries. Where it cannot
    /// nobody stands in for it, who would not have the lock.
    pub fn lock_soon<'a, T>(&self, lock: &'a Mutex<T>) -> MutexGuard<'a, T> {
        try_lock(lock).unwrap_or_else(|| {
            let can_rise = |thread: &ThreadPriority| matches!(thread.when_needed, WhenNeeded::Rises { .. });
            self.raise_those(|thread| thread.duty == Duty::Compactions && can_rise(thread));
            lock.lock().unwrap_or_else(PoisonError::into_inner)
        })
    }

    fn raise_those(&self, which: impl Fn(&ThreadPriority) -> bool) {
        // One that joins just now looks for itself before it begins.
        if let Ok(all) = self.0.try_read() {
            all.iter().filter(|thread| which(thread)).for_each(|thread| thread.raise());
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
            let own = theirs.join(Duty::Compactions, Priority::Idle, Priority::Nice19);
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
        priorities.raise_for(Duty::Flushes);
        assert_eq!(thread_priority(id).unwrap(), low, "it flushes nothing");
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

    /// One of them may be preempted while it raises others.
    #[test]
    fn who_raises_keeps_nobody_else_from_it() {
        let priorities = Priorities::default();
        let own = priorities.join_as_stand_in(Duty::Compactions);
        let _raises = priorities.0.read().unwrap();
        priorities.raise_all();
        assert!(own.is_raised());
    }

    /// As where who raises it lacks the right: it may have it itself.
    #[test]
    fn a_raise_that_is_refused_is_not_taken_for_one() {
        let (told, tells) = channel();
        spawn("gone", move || told.send(current_thread_id()).unwrap()).unwrap().join().unwrap();
        let gone = tells.recv().unwrap();
        let own = ThreadPriority::new(Duty::Flushes, WhenNeeded::Rises { thread: gone, low: Priority::Idle });
        own.raise();
        assert!(!own.is_raised());
    }

    #[test]
    fn a_stand_in_sleeps_until_it_is_needed() {
        let priorities = Arc::new(Priorities::default());
        let (theirs, told) = (Arc::clone(&priorities), channel());
        let thread = spawn("stand-in", move || {
            let own = theirs.join_as_stand_in(Duty::Flushes);
            for _ in 0..2 {
                own.lower();
                told.0.send(current_thread_id()).unwrap();
                while !own.is_raised() {
                    thread::park();
                }
            }
        })
        .unwrap();
        for _ in 0..2 {
            let id = told.1.recv().unwrap();
            assert_eq!(thread_priority(id).unwrap(), Priority::Batch);
            priorities.raise_for(Duty::Flushes);
        }
        thread.join().unwrap();
    }
}
