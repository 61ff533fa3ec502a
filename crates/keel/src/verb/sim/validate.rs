//! `keel sim --validate`: every named strategy and some composed ones, simulated and in real stores.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use evenkeel_simulator::text;
use evenkeel_simulator::validation::{
    BY_CHANCE, Comparison, Prepared, RECORDS, Verdict, mixes, options, strategies, verdicts,
};

use super::sweep::cores;
use crate::failure::Failure;
use crate::files;
use crate::output::{Output, note};
use crate::progress::CountBar;

/// Where files are memory, if the system has that: the stores are small, and it is not about the disk.
const IN_MEMORY: &str = "/dev/shm";

/// Does it; a bar that is missed is a failure.
pub fn run(records: Option<u64>, sample: u64, json: bool) -> Result<(), Failure> {
    let place = Place::new();
    let options = options().map_err(Failure::work)?;
    let names = strategies(&options, BY_CHANCE);
    let prepared: Result<Vec<Prepared>, String> =
        mixes().into_iter().map(|mix| Prepared::new(mix, records.unwrap_or(RECORDS), sample)).collect();
    let prepared = prepared.map_err(Failure::work)?;
    let work: Vec<(&Prepared, &str)> =
        prepared.iter().flat_map(|mix| names.iter().map(move |name| (mix, name.as_str()))).collect();
    let comparisons = compare_all(&work, &place)?;
    let verdicts = verdicts(&comparisons);
    if json {
        let document = serde_json::json!({ "comparisons": comparisons, "verdicts": verdicts });
        Output::new().line(&document.to_string())?;
    } else {
        Output::new().text(&text::validation(&comparisons, &verdicts))?;
    }
    let missed: Vec<&str> = verdicts.iter().filter(|v: &&Verdict| !v.holds).map(|v| v.mix.as_str()).collect();
    match missed.is_empty() {
        true => Ok(()),
        false => Err(Failure::work(format!("the simulation missed its bars: {}", missed.join(", ")))),
    }
}

/// All comparisons, in order, by as many threads as there are cores; each is a store of its own.
fn compare_all(work: &[(&Prepared, &str)], place: &Place) -> Result<Vec<Comparison>, Failure> {
    evenkeel_sys::catch_interrupt();
    let bar = CountBar::start(work.len() as u64, "comparisons");
    let next = AtomicUsize::new(0);
    let found: Mutex<Vec<(usize, Result<Comparison, String>)>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..cores() {
            scope.spawn(|| {
                while !evenkeel_sys::was_interrupted() {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some((mix, name)) = work.get(at) else { return };
                    let dir = place.store(at);
                    let compared = mix.compare(name, &dir);
                    let removed = files::remove_all_if_there(&dir)
                        .map_err(|error| format!("cannot remove {}: {error}", dir.display()));
                    let failed = compared.is_err();
                    let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
                    found.push((at, compared.and_then(|compared| removed.map(|()| compared))));
                    bar.advance_to(found.len() as u64);
                    if failed {
                        return;
                    }
                }
            });
        }
    });
    bar.finish();
    if evenkeel_sys::was_interrupted() {
        return Err(Failure::work("interrupted"));
    }
    let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    found.sort_by_key(|(at, _)| *at);
    found.into_iter().map(|(_, compared)| compared.map_err(Failure::work)).collect()
}

/// Where the stores are, removed at the end.
struct Place(PathBuf);

impl Place {
    fn new() -> Place {
        let name = format!("keel-sim-{}", std::process::id());
        let memory = Path::new(IN_MEMORY);
        if memory.is_dir() && files::make_dir(&memory.join(&name)).is_ok() {
            return Place(memory.join(name));
        }
        Place(std::env::temp_dir().join(name))
    }

    fn store(&self, number: usize) -> PathBuf {
        self.0.join(number.to_string())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Err(error) = files::remove_all_if_there(&self.0) {
            note(&format!("keel: cannot remove {}: {error}", self.0.display()));
        }
    }
}
