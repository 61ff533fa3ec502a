//! The options in force: settled when a store is opened, changed one by one while it runs.
//!
//! ```text
//! at open   set by name on the builder  >  given and not the default  >  in OPTIONS  >  the default
//! running   check ─► swap ─► OPTIONS, durably (on failure: swap back) ─► strategies, cache, schedule, workers follow
//! ```
//! What a builder that does not `remember` says holds while the store is open: OPTIONS keeps what it had.
//! So what an operator changed on a running store lasts, unless the program that opens it says otherwise; then an event tells.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::options_file::Stored;
use super::strategies::{persist, resolve};
use crate::base::error::{Error, Result};
use crate::base::units::KIB;
use crate::compaction::catalog::DEFAULT;
use crate::db::jobs::device_speed::{self, MEASURED};
use crate::db::jobs::memory::fit_cache;
use crate::db::jobs::pressure::sample_all;
use crate::db::jobs::scheduling::{check_schedule, set_schedule, settle_schedule};
use crate::db::store::keyspace_state::{DEFAULT_NAME, KeyspaceState, NamedStrategy};
use crate::db::store::state::{Passing, Store};
use crate::observe::event::Event;
use crate::options::Options;

const SCHEDULE: &str = "schedule";

/// What was given when a store is opened: each name and value makes sense by itself. Whether they do together is known when
/// what the store remembers is.
///
/// # Errors
/// `InvalidArgument` for a name or a value that makes no sense.
pub fn given(options: &Options, by_name: &[(String, String)]) -> Result<Options> {
    let mut options = options.clone();
    for (name, value) in by_name {
        options.set(name, value)?;
    }
    options.check_values()?;
    Ok(options)
}

/// The options of a store that is being opened, and what is told of them: each that differs from what OPTIONS says.
///
/// # Errors
/// `InvalidArgument` for a name, value or combination that makes no sense; `Unsupported` for a stored one that a newer version wrote.
pub fn settle(
    given: &Options,
    by_name: &[(String, String)],
    stored: Option<&Stored>,
) -> Result<(Options, Vec<Event>)> {
    let newer = |name: &str, value: &str| {
        Error::Unsupported(format!(
            "OPTIONS says {name}={value}, which this version does not know; open the store with a newer one"
        ))
    };
    let defaults = Options::default();
    let mut kept = defaults.clone();
    for (name, value) in stored.iter().flat_map(|stored| &stored.options) {
        kept.set(name, value).map_err(|error| match error {
            // It is known, and this build lacks it: the error says what to do.
            Error::Unsupported(what) => Error::Unsupported(format!("OPTIONS says {name}={value}: {what}")),
            _ => newer(name, value),
        })?;
    }
    let mut options = given.clone();
    for row in Options::names().iter().filter(|row| row.value(given) == row.value(&defaults)) {
        options.set(row.name, &row.value(&kept))?;
    }
    for (name, value) in by_name {
        options.set(name, value)?;
    }
    options.validate()?;
    let differs = |row: &&crate::options::OptionInfo| row.value(&kept) != row.value(&options);
    let tell = |row: &crate::options::OptionInfo| Event::OptionChanged {
        name: row.name.to_owned(),
        was: row.value(&kept),
        now: row.value(&options),
    };
    let told = match stored {
        Some(_) => Options::names().iter().filter(differs).map(tell).collect(),
        None => Vec::new(),
    };
    Ok((options, told))
}

/// Why a store's schedule is refused when it is opened; of one that it remembers, with the way out.
pub fn of_schedule(
    error: Error,
    given: &Options,
    by_name: &[(String, String)],
    stored: Option<&Stored>,
) -> Error {
    let is_given =
        given.schedule != Options::default().schedule || by_name.iter().any(|(name, _)| name == SCHEDULE);
    match error {
        Error::InvalidArgument(what)
            if !is_given && stored.is_some_and(|kept| kept.options.contains_key(SCHEDULE)) =>
        {
            Error::invalid(format!(
                "{what} (the store remembers this schedule: `keel schedule set` gives it another, or open it with one)"
            ))
        }
        error => error,
    }
}

/// What a store with these settings goes on to remember, where this open says otherwise for itself.
pub fn passing(now: &Options, stored: &Stored) -> Result<Passing> {
    let mut kept = Options::default();
    for (name, value) in &stored.options {
        kept.set(name, value)?;
    }
    let differs = Options::names().iter().filter(|row| row.value(&kept) != row.value(now));
    let options = differs.map(|row| (row.name, row.value(&kept))).collect();
    let own = stored.keyspaces.get(DEFAULT_NAME).and_then(|own| own.strategy.clone());
    let given = now.strategy.as_ref().filter(|given| own.as_ref() != Some(*given));
    let strategies = given.map(|_| (DEFAULT_NAME.to_owned(), own.unwrap_or_else(|| DEFAULT.to_owned())));
    Ok(Passing { options, strategies: strategies.into_iter().collect() })
}

/// Changes one option of a running store; durable when it returns.
///
/// # Errors
/// `InvalidArgument` for an unknown name, a value out of range, or an option that only counts at open: nothing is changed.
pub fn change(store: &Store, name: &str, value: &str) -> Result<()> {
    store.listener.check_outside()?;
    let _one_at_a_time = store.changing_options();
    change_alone(store, name, value)
}

/// The same by who has seen to it that nobody else changes options meanwhile.
fn change_alone(store: &Store, name: &str, value: &str) -> Result<()> {
    let row = Options::info(name)?;
    if !row.live {
        return Err(Error::invalid(format!(
            "`{}` is read when a store is opened; give it to `open`, or on the command line as --set {0}={value}",
            row.name
        )));
    }
    let before = store.options.load_full();
    let mut after = Options::clone(&before);
    after.set(name, value)?;
    after.validate()?;
    let matters = [SCHEDULE, "device_bytes_per_sec", MEASURED].contains(&row.name);
    let (_, untold) = if matters {
        settle_schedule(&mut after, false, || {
            store.check_writable()?;
            let number = store.tree().versions.ids().file();
            device_speed::measure(&store.fs, &*store.clock, &store.dir, number, before.reserve_bytes)
        })?
    } else {
        (check_schedule(&after)?, None)
    };
    if row.name != MEASURED && after.device_measured_bytes_per_sec != before.device_measured_bytes_per_sec {
        store.passing().options.remove(MEASURED);
    }
    // What holds for this open only is not what the store remembers.
    if after == *before && !store.passing().options.contains_key(row.name) {
        return Ok(());
    }
    store.check_writable()?;
    // One that only becomes what the store remembers is in force already.
    let event = (row.value(&after) != row.value(&before)).then(|| Event::OptionChanged {
        name: row.name.to_owned(),
        was: row.value(&before),
        now: row.value(&after),
    });
    put_in_force(store, after)?;
    let passing = store.passing().options.remove(row.name);
    if let Err(error) = persist(store) {
        store.passing().options.extend(passing.map(|value| (row.name, value)));
        put_in_force(store, Options::clone(&before))?;
        return Err(error);
    }
    // What was asked to be measured anew is told once, as what it was and is.
    let untold = untold.filter(|told| row.name != MEASURED || !matches!(told, Event::OptionChanged { .. }));
    event.iter().chain(&untold).for_each(|event| store.event(event));
    store.background.work_changed();
    Ok(())
}

/// What the device shows later counts when it differs by so much of what was measured.
const DIFFERS: f64 = 0.25;

/// Brings what was measured of the device up to date by what flushes and compactions have shown of it since. What is to be told, if
/// the schedule asks for more than that.
pub fn follow_device(store: &Store) -> Option<Event> {
    // Without threads whoever changes options, or waits for somebody who does, may be the one who steps the background.
    let _one_at_a_time = store.try_changing_options()?;
    let options = store.options.load_full();
    let measured = options.device_measured_bytes_per_sec;
    let is_followed = options.device_test && options.device_bytes_per_sec == 0 && measured > 0;
    if store.read_only || !is_followed {
        return None;
    }
    let shown = store.tables.transfers().corrected(measured).max(KIB);
    if shown.abs_diff(measured) as f64 <= DIFFERS * measured as f64 {
        return None;
    }
    match change_alone(store, MEASURED, &shown.to_string()) {
        Err(Error::InvalidArgument(error)) => {
            Some(Event::DeviceTooSlow { bytes_per_sec: shown, gone_by: measured, error })
        }
        // It will be tried again; a store that cannot be written says so elsewhere.
        _ => None,
    }
}

/// Swaps the options and what is derived from them.
fn put_in_force(store: &Store, options: Options) -> Result<()> {
    let keyspaces = store.keyspaces.load();
    let bytes_of = |keyspace: &KeyspaceState| keyspace.memtable_bytes_own.unwrap_or(options.memtable_bytes);
    let strategies: Vec<NamedStrategy> = keyspaces
        .by_name
        .values()
        .map(|keyspace| resolve(&keyspace.strategy.load().text, bytes_of(keyspace), &options))
        .collect::<Result<_>>()?;
    for (keyspace, strategy) in keyspaces.by_name.values().zip(strategies) {
        keyspace.set_memtable_bytes(bytes_of(keyspace));
        keyspace.strategy.store(Arc::new(strategy));
    }
    store.job_context.set_block_bytes(options.block_bytes);
    store.slow.set_threshold(options.slow_us.into());
    store.journal.set_written(store.opened.writes_logs && options.log_files > 0);
    store.tables.set_direct_reads(options.direct_reads);
    store.admission.compaction_first.store(options.compaction_first, Ordering::Relaxed);
    let schedule = options.schedule.clone();
    let workers = options.workers;
    let before = store.options.swap(Arc::new(options));
    fit_cache(store);
    keyspaces.by_name.values().for_each(|keyspace| sample_all(store, keyspace));
    if before.schedule != schedule {
        set_schedule(store, &schedule)?;
    }
    if before.workers != workers {
        store.background.wake();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(name: &str, value: &str) -> Stored {
        Stored { options: [(name.to_owned(), value.to_owned())].into(), ..Stored::default() }
    }

    #[test]
    fn what_is_given_wins_over_what_is_stored_and_is_told() {
        let kept = stored("memtables", "5");
        let (options, told) = settle(&Options::default(), &[], Some(&kept)).unwrap();
        assert_eq!((options.memtables, told.len()), (5, 0));
        let given = Options { memtables: 3, ..Options::default() };
        let (options, told) = settle(&given, &[], Some(&kept)).unwrap();
        assert_eq!(options.memtables, 3);
        assert_eq!(told[0].to_string(), "Option memtables changed from 5 to 3");
        // By name even the default is a wish.
        let by_name = [("memtables".to_owned(), "2".to_owned())];
        assert_eq!(settle(&given, &by_name, Some(&kept)).unwrap().0.memtables, 2);
        assert_eq!(settle(&given, &by_name, None).unwrap().1.len(), 0);
    }

    #[test]
    fn an_option_of_a_newer_version_is_not_dropped() {
        for kept in [stored("compost", "yes"), stored("compression", "warp9")] {
            let error = settle(&Options::default(), &[], Some(&kept)).unwrap_err();
            assert_eq!(error.kind(), "Unsupported", "{error}");
        }
    }

    #[test]
    fn what_was_given_is_first_looked_at_value_by_value() {
        // Above the default of `l0_limit`, and perhaps not above the one in OPTIONS.
        let by_name = [("l0_trigger".to_owned(), "30".to_owned())];
        assert_eq!(given(&Options::default(), &by_name).unwrap().l0_trigger, 30);
        assert_eq!(
            settle(&Options::default(), &by_name, Some(&stored("l0_limit", "40"))).unwrap().0.l0_limit,
            40
        );
        for (name, value) in [("l0_trigger", "0"), ("l0_trigger", "many"), ("compost", "yes")] {
            let error = given(&Options::default(), &[(name.to_owned(), value.to_owned())]).unwrap_err();
            assert_eq!(error.kind(), "InvalidArgument", "{name}={value}");
        }
        assert!(given(&Options { l0_trigger: 0, ..Options::default() }, &[]).is_err());
    }

    #[test]
    fn contradictions_are_found_in_the_sum() {
        let given = Options { l0_trigger: 30, ..Options::default() };
        let error = settle(&given, &[], Some(&stored("l0_limit", "25"))).unwrap_err();
        assert_eq!(error.kind(), "InvalidArgument");
    }
}
