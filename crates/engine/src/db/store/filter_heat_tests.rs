//! Filters in a store. By heat: as much memory, fewer gets that pass in vain where reads are, and the same answers. By level: the bits that
//! the strategy says.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::base::clock::ManualClock;
use crate::base::random::Random;
use crate::db::database::Db;
use crate::db::files::inspect_table;
use crate::options::Options;
use crate::storage::file_name::FileName;
use crate::storage::simulated::SimulatedFileSystem;

const DIR: &str = "/s";
/// Even numbers are there, odd ones are not.
const KEYS: u32 = 12_000;

struct Store {
    fs: Arc<SimulatedFileSystem>,
    clock: Arc<ManualClock>,
    db: Db,
    random: Random,
}

impl Store {
    fn open(strategy: &str, filter_heat: f32) -> Store {
        let (fs, clock) = (Arc::new(SimulatedFileSystem::new()), Arc::new(ManualClock::default()));
        let options = Options {
            strategy: Some(strategy.to_owned()),
            memtable_bytes: 64 << 10,
            table_bytes: 32 << 10,
            compression: "none".parse().unwrap(),
            filter_bits: 7.0,
            filter_heat,
            heat_operations: 20_000,
            heat_seconds: 0,
            ..Options::default()
        };
        let builder = Db::builder(Path::new(DIR)).options(options).file_system(Arc::clone(&fs) as _);
        let db = builder.clock(Arc::clone(&clock) as _).without_threads().open().unwrap();
        Store { fs, clock, db, random: Random::new(11) }
    }

    /// Every key again, in an order by chance.
    fn write(&mut self, value: u32) {
        let mut keys: Vec<u32> = (0..KEYS).collect();
        for i in (1..keys.len()).rev() {
            keys.swap(i, self.random.below(i as u64 + 1) as usize);
        }
        for key in keys {
            self.db.put(&(2 * key).to_be_bytes(), &(key ^ value).to_be_bytes().repeat(8)).unwrap();
        }
        self.db.flush().unwrap();
        self.db.wait_idle().unwrap();
    }

    /// Gets of keys that are not there, nine of ten from the tenth of the key space in the middle.
    fn read(&mut self, gets: u32) {
        for i in 0..gets {
            let key = if i % 10 == 0 {
                self.random.below(KEYS.into()) as u32
            } else {
                KEYS / 2 + i * 7 % (KEYS / 10)
            };
            assert!(self.db.get(&(2 * key + 1).to_be_bytes()).unwrap().is_none());
        }
        self.clock.advance(Duration::from_secs(1));
        while self.db.step(&mut |jobs: &[(usize, _)]| jobs.first().map(|(job, _)| *job)) {}
    }

    /// Looks into tables that their filter let pass, of gets as in `read`: all of them in vain.
    fn passed(&mut self, gets: u32) -> u64 {
        let keyspace = self.db.keyspace("default").unwrap();
        let probes = || {
            let view = keyspace.state().view.load();
            view.version.tables().map(|(_, t)| t.meta.access.looks().probes).sum::<u64>()
        };
        let before = probes();
        self.read(gets);
        probes() - before
    }

    /// Bits of filters for each entry, of all tables for which this is true of their level, and whether older data lie below.
    fn filter_bits(&self, wanted: impl Fn(usize, bool) -> bool) -> Option<f64> {
        let view = self.db.keyspace("default").unwrap().state().view.load();
        let tables: Vec<_> = view.version.tables().collect();
        let (mut bytes, mut entries) = (0, 0);
        for (i, (level, table)) in tables.iter().enumerate() {
            let is_above = tables[i + 1..].iter().any(|(_, older)| older.bounds.overlaps(&table.bounds));
            if wanted(*level, is_above) {
                let path = FileName::Table(table.id().0).path(Path::new(DIR));
                let report = inspect_table::table(&*self.fs, &path, &mut |_| Ok(())).unwrap();
                (bytes, entries) = (bytes + report.filter_bytes, entries + report.entries);
            }
        }
        (entries > 0).then(|| bytes as f64 * 8.0 / entries as f64)
    }
}

#[test]
fn filters_by_heat_let_fewer_gets_pass_in_the_same_memory() {
    let measure = |filter_heat: f32| {
        let mut store = Store::open("tier", filter_heat);
        store.write(0);
        for round in 1..6 {
            // In the first of two slices what was just written is seen, in the second what comes to it.
            store.read(40_000);
            store.read(40_000);
            store.write(round);
        }
        assert!(
            store.db.metrics().keyspaces[0].heat.lessons >= 4,
            "{:?}",
            store.db.metrics().keyspaces[0].heat
        );
        for key in 0..KEYS {
            let want = (key ^ 5).to_be_bytes().repeat(8);
            assert_eq!(store.db.get(&(2 * key).to_be_bytes()).unwrap().as_deref(), Some(&want[..]), "{key}");
        }
        let passed = store.passed(200_000);
        store.db.verify().unwrap();
        (store.filter_bits(|_, _| true).unwrap(), passed as f64 / 200_000.0)
    };
    let [(bits, passed), (bits_by_heat, passed_by_heat)] = [0.0, 6.0].map(measure);
    println!(
        "FILTERS {bits:.2} bits pass {passed:.4} a get, {bits_by_heat:.2} bits by heat {passed_by_heat:.4}"
    );
    assert!((bits_by_heat / bits - 1.0).abs() < 0.05, "{bits_by_heat} bits instead of {bits}");
    assert!(
        passed_by_heat < 0.8 * passed,
        "{passed_by_heat} of a get pass in vain, {passed} where all are alike"
    );
}

#[test]
fn bits_of_the_last_level_are_for_its_oldest_data() {
    let line = "when=runs,saturation how=runs:4 much=runs bits=+4; last: bits=-2; size: l0=64KiB base=256KiB ratio=4";
    let mut store = Store::open(line, 0.0);
    let mut newer_of_last = 0;
    for round in 0..6 {
        store.write(round);
        let last = store.db.keyspace("default").unwrap().state().view.load().version.levels.len() - 1;
        for (is_above, want) in [(false, 5.0), (true, 11.0)] {
            let bits = store.filter_bits(|level, above| level == last && above == is_above);
            newer_of_last += usize::from(is_above && bits.is_some());
            // Filters are whole cache lines.
            assert!(bits.is_none_or(|bits| bits > want - 0.2 && bits < want + 1.0), "{bits:?}, not {want}");
        }
        let above = store.filter_bits(|level, _| level < last);
        assert!(above.is_none_or(|bits| bits > 10.8 && bits < 12.0), "{above:?}");
    }
    assert!(newer_of_last > 2, "{newer_of_last}");
}

#[test]
fn the_span_of_filters_has_a_range() {
    let mut options = Options::default();
    for text in ["0", "0.5", "8"] {
        options.set("filter_heat", text).unwrap();
    }
    for text in ["-1", "8.1", "NaN", "many"] {
        let error = options.set("filter_heat", text).unwrap_err().to_string();
        assert!(error.contains("filter_heat must be a number from 0 to 8"), "{error}");
    }
}
