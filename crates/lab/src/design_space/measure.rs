//! Runs a cell: writes its entries, waits until the tree is in shape, reads; answers with figures by name.
//!
//! ```text
//! inserts, updates, deletes (gets beside) ─► idle ─► gets at each share of empty ones ─► skewed gets ─► scans
//!         moved jobs job_us write_us ...              get_0.4_us get_0.4_pages ...        get_zipf_us  scan_3_us
//! ```
//! One thread, one operation after the other. Names that end with `_us` or `_seconds`, and `cpu_share`, are times; all others are
//! counted.

use std::collections::BTreeMap;
use std::time::Instant;

use hdrhistogram::Histogram;

use super::entries::Entries;
use super::heat_cell::{Shape, measure_heat};
use super::point::{KEY_BYTES, Point, Reads, Spread};
use crate::base::clock;
use crate::base::random::Random;
use crate::run::engine::{Engine, EngineError};

/// Figures by name.
pub type Figures = BTreeMap<String, f64>;

/// Shares of empty gets (CDS §5.1.2), in tenths.
const EMPTY_TENTHS: [u32; 6] = [0, 2, 4, 6, 8, 10];
/// Parts of the key space that scans read; the figure's name has the exponent.
const SELECTIVITIES: [(u32, f64); 3] = [(5, 1e-5), (4, 1e-4), (3, 1e-3)];
/// Scans of each selectivity, of ten million records.
const SCANS: u64 = 1000;
/// Gets beside begin when this part of the inserts is done; by then all levels but the last are full.
const BESIDE_FROM: f64 = 0.2;

/// An hour: what takes longer counts as that.
const LONGEST_NANOS: u64 = 3_600_000_000_000;

/// What compaction has cost since the store was opened.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Costs {
    /// Bytes that compactions read.
    pub read_bytes: u64,
    /// Bytes that compactions wrote.
    pub written_bytes: u64,
    /// Key and value bytes of all writes.
    pub user_bytes: u64,
    /// Compactions that have ended, moves left out: how long each took, in microseconds.
    pub job_us: Vec<u64>,
    /// Tables moved by metadata alone.
    pub moves: u64,
    /// CPU seconds of compactions.
    pub cpu_seconds: f64,
    /// Bytes that gets and scans read from files.
    pub client_bytes: u64,
    /// Parts of filters, and of indexes, that gets and scans read because they were not in memory.
    pub part_misses: [u64; 2],
    /// How often an entry was written again, in the mean.
    pub rewrites: f64,
    /// Tombstones in tables.
    pub tombstones: u64,
    /// Bytes of superseded entries for each byte of the others.
    pub space: Option<f64>,
    /// Flushes.
    pub flushes: u64,
    /// Compactions that have ended, and the bytes that they read and wrote, by the level they went to.
    pub by_level: BTreeMap<usize, (u64, u64)>,
    /// Levels that hold something.
    pub levels: u64,
    /// Runs of all levels.
    pub runs: u64,
    /// What reads have taught.
    pub heat: Shape,
}

/// Who tells what compactions have cost up to now.
pub type Tell<'a> = &'a dyn Fn() -> Costs;

/// Latencies of one kind of operation.
pub(super) struct Latencies(Histogram<u64>);

impl Latencies {
    pub(super) fn new() -> Result<Latencies, EngineError> {
        Ok(Latencies(Histogram::new_with_bounds(1, LONGEST_NANOS, 3)?))
    }

    pub(super) fn since(&mut self, began: Instant) {
        self.0.saturating_record(began.elapsed().as_nanos().max(1) as u64);
    }

    pub(super) fn write(&self, name: &str, figures: &mut Figures) {
        let mut put = |what: &str, nanos: f64| {
            figures.insert(format!("{name}{what}_us"), nanos / 1e3);
        };
        put("", self.0.mean());
        put("_p90", self.0.value_at_quantile(0.9) as f64);
        put("_p99", self.0.value_at_quantile(0.99) as f64);
        put("_p999", self.0.value_at_quantile(0.999) as f64);
        put("_max", self.0.max() as f64);
    }
}

/// Runs a cell of a store that is empty.
///
/// # Errors
/// What the engine answers; a get that finds what was never written, or misses what was.
pub fn measure<E: Engine>(
    engine: &E,
    costs: Tell<'_>,
    point: &Point,
    seed: u64,
) -> Result<Figures, EngineError> {
    if let Some(load) = point.heat() {
        return measure_heat(engine, costs, point, *load, seed);
    }
    let mut figures = Figures::new();
    let mut entries = Entries::new(point.inserts, point.records, seed);
    write(engine, costs, point, &mut entries, &mut figures)?;
    if point.reads == Reads::Nothing {
        return Ok(figures);
    }
    let mut ask = Gets { engine, costs, entries: &mut entries, figures: &mut figures };
    if point.reads == Reads::Gets {
        for tenths in [0, 8, 10] {
            ask.get(&format!("get_{tenths}"), Spread::Uniform, tenths, point.gets() / 4)?;
        }
        return Ok(figures);
    }
    let each = point.gets() / EMPTY_TENTHS.len() as u64;
    for tenths in EMPTY_TENTHS {
        ask.get(&format!("get_{tenths}"), Spread::Uniform, tenths, each)?;
    }
    ask.get("get_zipf", Spread::Zipfian, 0, each)?;
    ask.get("get_normal", Spread::Normal, 0, each)?;
    let scans = (SCANS * point.records / 10_000_000).clamp(20, SCANS);
    for (exponent, part) in SELECTIVITIES {
        ask.scan(&format!("scan_{exponent}"), part, scans)?;
    }
    Ok(figures)
}

/// Values without a pattern, of one length: parts of a pool.
pub(super) struct Values {
    pool: Vec<u8>,
    length: usize,
}

impl Values {
    pub(super) fn new(point: &Point, seed: u64) -> Values {
        let length = point.entry_bytes.saturating_sub(KEY_BYTES) as usize;
        let mut pool = vec![0; (1 << 20) + length];
        Random::new(seed ^ 0x5eed).fill(&mut pool);
        Values { pool, length }
    }

    pub(super) fn at(&self, n: u64) -> &[u8] {
        let from = (n.wrapping_mul(7919) & 0xf_ffff) as usize;
        self.pool.get(from..from + self.length).unwrap_or_default()
    }
}

fn write<E: Engine>(
    engine: &E,
    costs: Tell<'_>,
    point: &Point,
    entries: &mut Entries,
    figures: &mut Figures,
) -> Result<(), EngineError> {
    let values = Values::new(point, point.records);
    let (mut writes, mut gets) = (Latencies::new()?, Latencies::new()?);
    let mut next = 0;
    let mut put = |key: [u8; 4]| {
        next += 1;
        let began = clock::now();
        engine.put(&key, values.at(next))?;
        writes.since(began);
        Ok::<(), EngineError>(())
    };
    let mut deletes_due = 0;
    let beside_from = (point.records as f64 * BESIDE_FROM) as u64;
    let mut beside = 0_u32;
    let before = costs();
    let began = clock::now();
    for i in 0..point.records {
        put(entries.insert())?;
        for _ in 0..point.updates {
            entries.present().map_or(Ok(()), &mut put)?;
        }
        deletes_due += point.deletes;
        if deletes_due >= 1000 {
            deletes_due -= 1000;
            if let Some(key) = entries.delete() {
                engine.delete(&key)?;
            }
        }
        if let Some(empty) = point.gets_beside.filter(|_| i >= beside_from && i % 10 == 0) {
            get(engine, entries, Spread::Uniform, empty, &mut gets)?;
            beside += 1;
        }
    }
    let wrote = began.elapsed().as_secs_f64();
    engine.wait_idle()?;
    let after = costs();
    if beside > 0 {
        gets.write("beside", figures);
        figures.insert("beside_count".to_owned(), f64::from(beside));
    }
    writes.write("write", figures);
    figures.insert("ingest_seconds".to_owned(), wrote);
    cost(&before, &after, figures);
    Ok(())
}

/// What writing has cost.
pub(super) fn cost(before: &Costs, after: &Costs, figures: &mut Figures) {
    let user = (after.user_bytes - before.user_bytes).max(1) as f64;
    let read = (after.read_bytes - before.read_bytes) as f64;
    let written = (after.written_bytes - before.written_bytes) as f64;
    let mut jobs = after.job_us.get(before.job_us.len()..).unwrap_or_default().to_vec();
    jobs.sort_unstable();
    let count = jobs.len() as f64;
    let total_us = jobs.iter().sum::<u64>() as f64;
    let at = |quantile: f64| {
        let rank = (quantile * count).ceil().max(1.0) as usize - 1;
        jobs.get(rank.min(jobs.len().saturating_sub(1))).map(|us| *us as f64)
    };
    let mut put = |name: &str, value: Option<f64>| {
        if let Some(value) = value.filter(|value| value.is_finite()) {
            figures.insert(name.to_owned(), value);
        }
    };
    put("moved", Some((read + written) / user));
    put("moved_read", Some(read / user));
    put("write_amplification", Some(written / user));
    put("rewrites", Some(after.rewrites));
    put("jobs", Some(count));
    put("moves", Some((after.moves - before.moves) as f64));
    put("bytes_per_job", Some((read + written) / count));
    put("job_us", Some(total_us / count));
    put("job_per_byte_us", Some(total_us / (read + written)));
    for (name, quantile) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("max", 1.0)] {
        put(&format!("job_{name}_us"), at(quantile));
    }
    put("cpu_share", Some((after.cpu_seconds - before.cpu_seconds) / (total_us / 1e6)));
    put("tombstones", Some(after.tombstones as f64));
    put("space", after.space);
    put("flushes", Some((after.flushes - before.flushes) as f64));
    for (level, (jobs, bytes)) in &after.by_level {
        put(&format!("jobs_to_l{level}"), Some(*jobs as f64));
        put(&format!("moved_to_l{level}"), Some(*bytes as f64 / user));
    }
    put("levels", Some(after.levels as f64));
    put("runs", Some(after.runs as f64));
}

fn get<E: Engine>(
    engine: &E,
    entries: &mut Entries,
    spread: Spread,
    empty: bool,
    latencies: &mut Latencies,
) -> Result<(), EngineError> {
    let Some(key) = entries.ask(spread, empty) else { return Ok(()) };
    let began = clock::now();
    let found = engine.get(&key)?;
    latencies.since(began);
    // Skewed gets may ask for what was deleted.
    let wrong = if empty { found.is_some() } else { spread == Spread::Uniform && found.is_none() };
    match wrong {
        true => Err(format!("the store does not hold what was written: a get of {key:?} was wrong").into()),
        false => Ok(()),
    }
}

/// Reads of what is written.
struct Gets<'a, E> {
    engine: &'a E,
    costs: Tell<'a>,
    entries: &'a mut Entries,
    figures: &'a mut Figures,
}

impl<E: Engine> Gets<'_, E> {
    /// `count` gets, so many tenths of them of keys that are not there.
    fn get(&mut self, name: &str, spread: Spread, tenths: u32, count: u64) -> Result<(), EngineError> {
        let mut latencies = Latencies::new()?;
        let before = (self.costs)();
        for _ in 0..count {
            let empty = self.entries.below(10) < u64::from(tenths);
            get(self.engine, self.entries, spread, empty, &mut latencies)?;
        }
        latencies.write(name, self.figures);
        let after = (self.costs)();
        let mut put = |what: &str, more: u64, unit: f64| {
            self.figures.insert(format!("{name}_{what}"), more as f64 / unit / count.max(1) as f64);
        };
        put("pages", after.client_bytes - before.client_bytes, 4096.0);
        let [filters, indexes] = after.part_misses;
        put("filter_misses", filters - before.part_misses[0], 1.0);
        put("index_misses", indexes - before.part_misses[1], 1.0);
        Ok(())
    }

    /// `count` scans over this part of the key space.
    fn scan(&mut self, name: &str, part: f64, count: u64) -> Result<(), EngineError> {
        let mut latencies = Latencies::new()?;
        for _ in 0..count {
            let (from, to) = self.entries.range(part);
            let began = clock::now();
            self.engine.scan_between(&from, &to)?;
            latencies.since(began);
        }
        latencies.write(name, self.figures);
        Ok(())
    }
}

/// True if a figure of this name is a time, which depends on the machine and on who else uses it.
pub fn is_timed(name: &str) -> bool {
    name.ends_with("_us") || name.ends_with("_seconds") || name == "cpu_share"
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::atomic::Ordering;

    use super::*;
    use crate::design_space::point::{LARGE, SMALL};
    use crate::run::map_engine::MapEngine;

    /// A map that says that it compacts, more each time that it is asked.
    pub fn measured(engine: &MapEngine, point: &Point) -> Result<Figures, EngineError> {
        let costs = || {
            let asked = engine.batches.fetch_add(1, Ordering::Relaxed);
            let writes = engine.map.lock().unwrap().len() as u64;
            Costs {
                read_bytes: writes * 128 * 3,
                written_bytes: writes * 128 * 2,
                user_bytes: writes * 128,
                job_us: (0..writes / 100).map(|us| us + 1).collect(),
                cpu_seconds: writes as f64 / 1e6,
                client_bytes: asked * 4096,
                part_misses: [asked; 2],
                rewrites: 2.5,
                tombstones: 1 + asked,
                space: Some(0.5),
                ..Costs::default()
            }
        };
        measure(engine, &costs, point, 42)
    }

    #[test]
    fn a_cell_writes_what_it_says_and_tells_what_that_cost() {
        let point = Point { updates: 2, deletes: 100, records: 2000, gets_beside: Some(false), ..LARGE };
        let engine = MapEngine::default();
        let figures = measured(&engine, &point).unwrap();
        assert_eq!(engine.map.lock().unwrap().len(), 1800, "each inserted once, and a tenth deleted");
        assert!(engine.map.lock().unwrap().iter().all(|(key, value)| key.len() == 4 && value.len() == 124));
        let of = |name: &str| figures[name];
        assert_eq!((of("moved"), of("moved_read"), of("write_amplification")), (5.0, 3.0, 2.0));
        assert_eq!((of("jobs"), of("job_us"), of("job_p50_us"), of("job_max_us")), (18.0, 9.5, 9.0, 18.0));
        assert_eq!((of("beside_count"), of("rewrites"), of("space")), (160.0, 2.5, 0.5));
        for name in
            ["get_4_us", "get_10_p99_us", "get_zipf_us", "get_normal_pages", "scan_3_us", "write_max_us"]
        {
            assert!(of(name) > 0.0, "{name}");
        }
        assert!(
            is_timed("get_4_us") && is_timed("cpu_share") && !is_timed("get_4_pages") && !is_timed("moved")
        );
        let wrote = measured(&MapEngine::default(), &SMALL.scaled(1_000_000)).unwrap();
        assert!(!wrote.contains_key("get_0_us") && wrote.contains_key("ingest_seconds"));
    }

    #[test]
    fn an_operation_of_minutes_is_told_as_long_as_it_was() {
        let mut latencies = Latencies::new().unwrap();
        latencies.0.saturating_record(120_000_000_000);
        let mut figures = Figures::new();
        latencies.write("write", &mut figures);
        let longest = figures["write_max_us"];
        assert!((119e6..121e6).contains(&longest), "{longest}");
    }

    #[test]
    fn a_store_that_forgets_is_found_out() {
        let engine = MapEngine { forgets: true, ..MapEngine::default() };
        let error = measured(&engine, &LARGE.scaled(1_000_000)).unwrap_err();
        assert!(error.to_string().contains("was wrong"), "{error}");
    }
}
