//! Once a second: what went on is noted beside slow operations, a line goes to `STATS`, what waits for `LOG` is written, what
//! reads teach is learnt, what the device has shown is taken over, and what slows writers is looked at again.
//!
//! A thread of its own does this, so that a file for people holds up nobody; a store without threads does it in its steps, if
//! it writes these files at all.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use evenkeel_sys::{Priority, current_thread_id, set_thread_priority};

use super::learning;
use crate::base::class::{Class, IoClass};
use crate::db::files::rotating_file::Keep;
use crate::db::jobs::pressure::sample_pressed;
use crate::db::reports::metrics::{Metrics, metrics};
use crate::db::settings::in_force::follow_device;
use crate::db::store::state::Store;
use crate::db::store::ticker_state::Ticker;
use crate::observe::event::Event;
use crate::observe::json::Object;
use crate::observe::slow::Surroundings;
use crate::observe::words::utc;

const SECOND: Duration = Duration::from_secs(1);

/// A line of `STATS` is written at least this often, even if nothing has changed.
const HEARTBEAT: Duration = Duration::from_secs(60);

/// What is due now: the end of a second, lines for the files.
pub fn tick(store: &Store) {
    let mut ticker = store.ticker.lock().unwrap_or_else(PoisonError::into_inner);
    let now = store.clock.now();
    let is_over = now.saturating_sub(ticker.closed_at) >= SECOND;
    if is_over {
        ticker.closed_at = now;
        close_second(store, &mut ticker);
        learning::look(store, &mut ticker);
        // A store that has been open for a second is worth a file.
        store.journal.make_noteworthy();
    }
    if store.journal.is_written() {
        write_stats(store, &mut ticker, now);
        write_log(store, &mut ticker, now);
    }
    drop(ticker);
    if is_over {
        take_over_device_speed(store);
        sample_pressed(store);
    }
}

/// What the device has shown is taken over; that a schedule cannot go by it is told once.
fn take_over_device_speed(store: &Store) {
    let Some(event) = follow_device(store) else { return };
    let options = store.options.load();
    let gone_by = Some((options.schedule.clone(), options.device_measured_bytes_per_sec));
    let mut ticker = store.ticker.lock().unwrap_or_else(PoisonError::into_inner);
    let was_told = ticker.device_too_slow == gone_by;
    ticker.device_too_slow = gone_by;
    drop(ticker);
    if !was_told {
        store.event(&event);
    }
}

/// Tells that the store closes, and writes what waits.
pub fn finish(store: &Store, clean: bool) {
    let mut ticker = store.ticker.lock().unwrap_or_else(PoisonError::into_inner);
    if clean {
        learning::save(store, &mut ticker);
    }
    store.event(&Event::Closed { clean });
    if store.journal.is_written() {
        let now = store.clock.now();
        write_log(store, &mut ticker, now);
    }
}

/// The thread's body.
pub fn run(store: &Store) {
    // In short turns, and as everyone: it measures for writers that are slowed, and has their locks then. A system that refuses costs calm,
    // not answers. Under shuttle all threads are one.
    if !cfg!(shuttle) {
        let _ = set_thread_priority(current_thread_id(), Priority::Normal);
    }
    let mut open = true;
    while open {
        let next = {
            let ticker = store.ticker.lock().unwrap_or_else(PoisonError::into_inner);
            (ticker.closed_at + SECOND).saturating_sub(store.clock.now())
        };
        open = store.journal.wait(u64::MAX, store.journal.is_written(), next.max(Duration::from_millis(1)));
        if open {
            tick(store);
        }
    }
}

fn close_second(store: &Store, ticker: &mut Ticker) {
    let seen = counters_now(store);
    let before = std::mem::replace(&mut ticker.seen, seen);
    let around = Surroundings {
        client_bytes: seen.client_bytes - before.client_bytes,
        wal_bytes: seen.wal_bytes - before.wal_bytes,
        flush_bytes: seen.flush_bytes - before.flush_bytes,
        compaction_bytes: seen.compaction_bytes - before.compaction_bytes,
        background_cpu_nanos: seen.background_cpu_nanos - before.background_cpu_nanos,
        cache_misses: seen.cache_misses - before.cache_misses,
        l0_runs: seen.l0_runs,
    };
    let second = store.slow.close_second((store.clock.wall_ms() / 1000).saturating_sub(1), around);
    if second.operations > 0 {
        store.event(&Event::SlowOperations { count: second.operations, nanos: second.nanos });
    }
}

/// Sums since open; of L0, how it is.
fn counters_now(store: &Store) -> Surroundings {
    let io = store.fs.counters();
    let both = |class| io.read(IoClass::Background(class)) + io.written(IoClass::Background(class));
    let l0 = store.keyspaces.load().by_name.values().map(|k| k.l0_runs() as u64).max();
    Surroundings {
        client_bytes: io.read(IoClass::Client),
        wal_bytes: io.written(IoClass::Wal),
        flush_bytes: io.written(IoClass::Background(Class::Flush)),
        compaction_bytes: Class::ALL.into_iter().filter(|c| *c != Class::Flush).map(both).sum(),
        background_cpu_nanos: store
            .counters
            .cpu_nanos
            .iter()
            .map(crate::observe::counters::Counter::get)
            .sum(),
        cache_misses: store.tables.block_cache().misses(),
        l0_runs: l0.unwrap_or(0),
    }
}

fn write_stats(store: &Store, ticker: &mut Ticker, now: Duration) {
    let every = Duration::from_secs(store.options.load().stats_seconds.into());
    if every.is_zero() || now.saturating_sub(ticker.stats_at) < every {
        return;
    }
    let heartbeat = now.saturating_sub(ticker.stats_at) >= HEARTBEAT;
    let metrics = metrics(store);
    let changes = signature(&metrics);
    if !heartbeat && changes == ticker.last_line {
        return;
    }
    ticker.last_line = changes;
    ticker.stats_at = now;
    let wall_ms = store.clock.wall_ms();
    let line =
        Object::new().text("time", &utc(wall_ms)).raw("time_ms", wall_ms).raw("metrics", metrics.to_json());
    let line = line.end() + "\n";
    let written = ticker.stats.write(&*store.fs, &store.dir, keep(store), now, &line);
    if let Err(error) = written {
        store.event(&Event::NotWritten { file: "STATS", error: error.to_string() });
    }
}

/// What makes a new line of `STATS` worth while: not the time, nor what writing the last one did.
fn signature(m: &Metrics) -> Vec<u64> {
    let moved =
        m.io.iter().filter(|(class, ..)| class != "manifest").map(|(_, read, written)| read + written);
    let work = [m.sequence, m.flushes, m.compactions, m.moves, m.prefix_commits, m.jobs_open, m.jobs_paused];
    let clients =
        [m.cache_hits, m.cache_misses, m.stalls, m.slow.count, m.snapshots.count, m.background_errors];
    work.into_iter().chain(clients).chain(moved).collect()
}

fn write_log(store: &Store, ticker: &mut Ticker, now: Duration) {
    let Some((mut lines, dropped)) = store.journal.take() else { return };
    if dropped > 0 {
        lines +=
            &format!("{} {dropped} lines did not fit and are missing here\n", utc(store.clock.wall_ms()));
    }
    if let Err(error) = ticker.log.write(&*store.fs, &store.dir, keep(store), now, &lines) {
        store.event(&Event::NotWritten { file: "LOG", error: error.to_string() });
    }
    let failures = ticker.log.failures() + ticker.stats.failures();
    store.counters.log_failures.set(failures);
}

fn keep(store: &Store) -> Keep {
    let options = store.options.load();
    Keep { files: options.log_files, bytes: options.log_bytes }
}

/// What `LOG` begins with: who opened what, with which settings.
pub fn write_banner(store: &Store) {
    let note = |words: &str| store.journal.note(words, store.clock.wall_ms());
    let (version, dir) = (env!("CARGO_PKG_VERSION"), store.dir.display());
    note(&format!(
        "evenkeel {version}, process {}, opens {dir}, identity {}",
        std::process::id(),
        store.opened.identity()
    ));
    let options = Arc::clone(&store.options.load());
    for option in crate::options::Options::names() {
        note(&format!("Option {} = {}", option.name, option.value(&options)));
    }
    for keyspace in store.keyspaces.load().by_name.values() {
        let tables = keyspace.view.load().version.tables().count();
        let strategy = &keyspace.strategy.load().text;
        note(&format!("Keyspace {}: {tables} tables, strategy {strategy}", keyspace.name));
    }
}
