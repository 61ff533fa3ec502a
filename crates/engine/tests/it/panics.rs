//! Panics on both sides of the store, listeners that reach back into it, and a wall clock that jumps (`docs/durability.md`, C13, C14).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use evenkeel::testing::{Clock, ManualClock, SimulatedFileSystem};
use evenkeel::{Db, Durability, Event, KeyspaceOptions, ScanRange, WriteBatch};

use super::failures::{Content, DIR, builder, entry, example, mode, open, options, put, scanned, step};

/// Panics once when a thread of this name asks for the wall clock: a client's, which a writer does for its memtable's first
/// delete, or one of the store's own. Events are stamped by it too, so it must work again when the panic is told.
#[derive(Debug, Default)]
struct PanickingClock {
    armed: AtomicBool,
    /// How the name of the store's thread ends; `None` for those of the test.
    of_the_store: Option<&'static str>,
    now: ManualClock,
}

impl Clock for PanickingClock {
    fn now(&self) -> Duration {
        self.now.now()
    }

    fn wall_ms(&self) -> u64 {
        let thread = std::thread::current();
        let of_the_store = thread.name().filter(|name| name.starts_with("keel-"));
        let meant = match (of_the_store, self.of_the_store) {
            (Some(name), Some(end)) => name.ends_with(end),
            (name, end) => name == end,
        };
        assert!(!meant || !self.armed.swap(false, Ordering::Relaxed), "planted by the test");
        0
    }
}

#[test]
fn a_panic_of_a_writer_leaves_nobody_waiting() {
    let fs = SimulatedFileSystem::new();
    let clock = Arc::new(PanickingClock::default());
    let builder = Db::builder(DIR).file_system(Arc::new(fs.clone())).clock(Arc::clone(&clock) as _);
    // A slow operation is stamped as well, and this is about the memtable's stamp.
    let db = builder.set("slow_us", "0").open().unwrap();
    db.put(b"before", b"1").unwrap();
    clock.armed.store(true, Ordering::Relaxed);
    // All of them end: those that lead, those that wait for a leader, and those that come later.
    std::thread::scope(|scope| {
        for thread in 0..8_u32 {
            let db = &db;
            scope.spawn(move || {
                let mut outcome = Ok(());
                for i in 0..2000_u32 {
                    let key = [thread.to_be_bytes(), i.to_be_bytes()].concat();
                    outcome = if thread == 0 && i > 50 { db.delete(&key) } else { db.put(&key, b"v") };
                    if outcome.is_err() {
                        break;
                    }
                }
                if thread == 0 {
                    assert_eq!(outcome.unwrap_err().kind(), "Poisoned");
                }
            });
        }
    });
    let error = db.put(b"after", b"1").unwrap_err();
    assert_eq!(error.kind(), "Poisoned");
    assert!(error.to_string().contains("panicked"), "{error}");
    assert!(db.get(b"before").unwrap().is_some(), "reads go on");
    assert!(db.get(b"after").unwrap().is_none());
    let seen = db.scan(ScanRange::all()).unwrap().count();
    assert_eq!(db.close().unwrap_err().kind(), "Poisoned");
    // What was acknowledged is in the log, and perhaps the write that panicked.
    let reopened = open(&fs.process_kill()).unwrap();
    assert!(reopened.scan(ScanRange::all()).unwrap().count() >= seen - 1);
}

/// What was inserted of the batch is seen by nobody, and no checkpoint may hold it.
#[test]
fn a_batch_that_a_panic_cut_short_is_in_no_checkpoint() {
    let fs = SimulatedFileSystem::new();
    let clock = Arc::new(PanickingClock::default());
    let builder = Db::builder(DIR).file_system(Arc::new(fs)).clock(Arc::clone(&clock) as _);
    let db = builder.set("slow_us", "0").without_threads().open().unwrap();
    db.put(b"before", b"1").unwrap();
    clock.armed.store(true, Ordering::Relaxed);
    let mut batch = WriteBatch::new();
    batch.put(b"half", b"1");
    batch.delete(b"before");
    assert_eq!(db.write(batch).unwrap_err().kind(), "Poisoned");
    assert!(db.get(b"half").unwrap().is_none());
    assert_eq!(db.checkpoint("/copy").unwrap_err().kind(), "Poisoned");
}

#[test]
fn a_panic_of_a_background_thread_is_told_to_the_next_caller() {
    let in_the_listener = |event: &Event| {
        assert!(!matches!(event, Event::Flushed { .. }), "planted by the test");
    };
    let in_the_flush = PanickingClock {
        armed: AtomicBool::new(true),
        // The flush lane, or who stands in for it.
        of_the_store: Some("flush"),
        ..PanickingClock::default()
    };
    for (thread, clock) in [("flush", in_the_flush), ("keel-events", PanickingClock::default())] {
        let fs = SimulatedFileSystem::new();
        let builder = Db::builder(DIR).file_system(Arc::new(fs.clone())).clock(Arc::new(clock));
        let builder =
            if thread == "keel-events" { builder.listener(Arc::new(in_the_listener)) } else { builder };
        let db = builder.open().unwrap();
        db.put(b"k", b"v").unwrap();
        // The flush may be recorded before the panic; whoever waits is told either way, and nobody hangs.
        let flushed = db.flush();
        assert!(flushed.is_ok() || flushed.unwrap_err().kind() == "Poisoned");
        let error = loop {
            // The thread may still be on its way into the panic.
            match db.put(b"k2", b"v") {
                Ok(()) => std::thread::yield_now(),
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), "Poisoned");
        assert!(error.to_string().contains(&format!("{thread} panicked")), "{error}");
        assert!(db.get(b"k").unwrap().is_some());
        drop(db);
        assert!(open(&fs.process_kill()).unwrap().get(b"k").unwrap().is_some());
    }
}

/// What it hears of a change would bring the next one. Reading is fine.
#[test]
fn a_listener_cannot_change_its_store() {
    let fs = SimulatedFileSystem::new();
    let reached: Arc<Mutex<Option<Db>>> = Arc::default();
    let answers: Arc<Mutex<Vec<&'static str>>> = Arc::default();
    let (of_listener, noted) = (Arc::clone(&reached), Arc::clone(&answers));
    let listener = Arc::new(move |event: &Event| {
        let Event::Flushed { .. } = event else { return };
        let reached = of_listener.lock().unwrap();
        let Some(db) = reached.as_ref() else { return };
        assert!(db.get(b"k").unwrap().is_some());
        let mut batch = WriteBatch::new();
        batch.put(b"from", b"the listener");
        let kinds = [
            db.write(batch),
            db.delete(b"k"),
            db.flush(),
            db.sync(),
            db.set_strategy("tier"),
            db.create_keyspace("x", KeyspaceOptions::default()).map(drop),
            db.drop_keyspace("x"),
            db.wait_idle(),
            db.compact_range(ScanRange::all()),
            db.set_option("memtables", "7"),
        ]
        .map(|outcome| outcome.map_or_else(|error| error.kind(), |()| "ok"));
        noted.lock().unwrap().extend(kinds);
    });
    let db = Db::builder(DIR).file_system(Arc::new(fs)).listener(listener).open().unwrap();
    *reached.lock().unwrap() = Some(db.clone());
    db.put(b"k", b"v").unwrap();
    db.flush().unwrap();
    db.wait_idle().unwrap();
    while answers.lock().unwrap().is_empty() {
        std::thread::yield_now();
    }
    assert_eq!(*answers.lock().unwrap(), ["InvalidArgument"; 10]);
    reached.lock().unwrap().take();
    db.put(b"from", b"outside").unwrap();
    db.close().unwrap();
}

/// Without threads the listener is called in the middle of a put, by the thread that puts: for that store it is refused, another
/// one takes it.
#[test]
fn a_listener_may_write_to_another_store_in_the_middle_of_a_put() {
    let other = open(&SimulatedFileSystem::new()).unwrap();
    let reached: Arc<Mutex<Option<Db>>> = Arc::default();
    let answers: Arc<Mutex<BTreeSet<&'static str>>> = Arc::default();
    let (of_listener, noted, elsewhere) = (Arc::clone(&reached), Arc::clone(&answers), other.clone());
    let listener = Arc::new(move |event: &Event| {
        let Event::Flushed { .. } = event else { return };
        let Some(db) = of_listener.lock().unwrap().clone() else { return };
        noted.lock().unwrap().insert(db.put(b"from", b"the listener").unwrap_err().kind());
        elsewhere.put(b"flushes", b"some").unwrap();
    });
    let (fs, clock) = (SimulatedFileSystem::new(), Arc::default());
    let db = builder(&fs, &clock).listener(listener).open().unwrap();
    *reached.lock().unwrap() = Some(db.clone());
    let mut content = Content::new();
    for n in 0..600 {
        // No steps: a put that finds its memtable full does the flush itself.
        put(&db, n, Durability::Os, &mut content).unwrap();
        let (key, value) = entry(n + 1000);
        db.put(&key, &value).unwrap();
        content.insert(key, value);
    }
    reached.lock().unwrap().take();
    assert!(db.metrics().flushes > 3);
    assert_eq!(scanned(&db), content);
    assert_eq!(*answers.lock().unwrap(), ["InvalidArgument"].into());
    assert_eq!(other.get(b"flushes").unwrap().as_deref(), Some(&b"some"[..]));
}

/// Counts of events by their first word, and that each follows what it is the end of.
#[derive(Default)]
struct Heard {
    words: BTreeMap<String, usize>,
    flushing: BTreeSet<u64>,
    jobs: BTreeSet<u64>,
}

impl Heard {
    fn hear(&mut self, event: &Event) {
        let words = event.to_string();
        *self.words.entry(words.split([' ', ',', ';']).next().unwrap().to_owned()).or_default() += 1;
        match event {
            Event::FlushBegun { keyspace, .. } => assert!(self.flushing.insert(keyspace.0), "{event}"),
            Event::Flushed { keyspace, .. } => assert!(self.flushing.remove(&keyspace.0), "{event}"),
            Event::CompactionPicked { job, .. } => assert!(self.jobs.insert(job.0), "{event}"),
            Event::Committed { job, .. } => assert!(self.jobs.contains(&job.0), "{event}"),
            Event::CompactionEnded { job, .. } => assert!(self.jobs.remove(&job.0), "{event}"),
            _ => {}
        }
    }

    fn assert_all(&self) {
        for word in ["Opened", "Flushing", "Flushed", "Compacting", "Committed", "Compacted", "Closed"] {
            assert!(self.words.contains_key(word), "no {word}: {:?}", self.words);
        }
    }
}

/// A store of small tables with this listener, on threads of its own or not.
fn listened(threaded: bool, listener: impl Fn(&Event) + Send + Sync + 'static) -> Db {
    let builder = Db::builder(DIR).options(options()).file_system(Arc::new(SimulatedFileSystem::new()));
    let builder = builder.listener(Arc::new(listener));
    if threaded { builder.open().unwrap() } else { builder.without_threads().open().unwrap() }
}

/// Events are told of by threads that have the store's locks, and heard by one that has none.
#[test]
fn a_listener_may_ask_its_store_anything() {
    for threaded in [true, false] {
        let reached: Arc<Mutex<Option<Db>>> = Arc::default();
        let heard: Arc<Mutex<Heard>> = Arc::default();
        let (of_listener, noted) = (Arc::clone(&reached), Arc::clone(&heard));
        let db = listened(threaded, move |event| {
            noted.lock().unwrap().hear(event);
            let Some(db) = of_listener.lock().unwrap().clone() else { return };
            assert!(db.metrics().uptime_seconds >= 0.0);
            assert!(db.property("evenkeel.num-files-at-level0").is_some());
            for question in ["stats", "levels", "explain", "properties", "slow"] {
                db.control(question).unwrap();
            }
        });
        *reached.lock().unwrap() = Some(db.clone());
        let mut content = Content::new();
        for n in 0..600 {
            put(&db, n, Durability::Os, &mut content).unwrap();
        }
        db.compact_range(ScanRange::all()).unwrap();
        db.set_strategy("tier").unwrap();
        db.create_keyspace("x", KeyspaceOptions::default()).unwrap();
        db.drop_keyspace("x").unwrap();
        db.flush().unwrap();
        db.wait_idle().unwrap();
        assert_eq!(scanned(&db), content);
        reached.lock().unwrap().take();
        db.close().unwrap();
        heard.lock().unwrap().assert_all();
    }
}

/// The usual listener is a list behind a mutex, and the application may look at it while it writes.
#[test]
fn a_listener_may_wait_for_a_lock_that_a_writer_has() {
    let heard: Arc<Mutex<Heard>> = Arc::default();
    let noted = Arc::clone(&heard);
    let db = listened(true, move |event| noted.lock().unwrap().hear(event));
    let mut content = Content::new();
    for round in 0..10 {
        let _held = heard.lock().unwrap();
        for n in 0..200 {
            put(&db, round * 200 + n, Durability::Os, &mut content).unwrap();
        }
        db.flush().unwrap();
        db.compact_range(ScanRange::all()).unwrap();
        assert!(db.metrics().flushes > 0);
    }
    db.close().unwrap();
    heard.lock().unwrap().assert_all();
}

/// Jumps by years, back and forth, each time it is asked for the wall clock.
#[derive(Debug, Default)]
struct JumpingClock {
    now: ManualClock,
    asked: std::sync::atomic::AtomicU64,
}

impl Clock for JumpingClock {
    fn now(&self) -> Duration {
        self.now.now()
    }

    fn wall_ms(&self) -> u64 {
        const TEN_YEARS_MS: u64 = 10 * 365 * 24 * 3600 * 1000;
        match self.asked.fetch_add(1, Ordering::Relaxed) % 4 {
            0 => 0,
            1 => 5 * TEN_YEARS_MS,
            2 => u64::MAX,
            _ => 4 * TEN_YEARS_MS,
        }
    }
}

#[test]
fn a_wall_clock_that_jumps_changes_no_answer() {
    let (fs, mut content) = example();
    for round in 0..4 {
        let clock = Arc::new(JumpingClock::default());
        let builder = Db::builder(DIR).options(options()).file_system(Arc::new(fs.clone()));
        let db = builder.clock(Arc::clone(&clock) as _).without_threads().open().unwrap();
        for n in 0..400 {
            put(&db, n * 7 + round, mode(n), &mut content).unwrap();
            let gone = entry(n * 3 + round).0;
            db.delete(&gone).unwrap();
            content.remove(&gone);
            step(&db, &clock.now);
        }
        assert_eq!(scanned(&db), content, "round {round}");
        db.flush().unwrap();
        db.wait_idle().unwrap();
        db.verify().unwrap();
        assert_eq!(scanned(&db), content, "round {round}");
        assert!(clock.asked.load(Ordering::Relaxed) > 20);
    }
}
