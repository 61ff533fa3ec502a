//! A store on an emulated device: every byte is charged once, takes its time, and changes no answer; and how fast it is becomes known.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use evenkeel::fs::{Class, Device, DeviceFileSystem, DiskFileSystem, FileSystem, IoClass};
use evenkeel::testing::{Clock as _, ManualClock, SimulatedFileSystem};
use evenkeel::{Builder, Db, Durability, Event, Options, ScanRange};

const RATE: u64 = 8 << 20;

fn small() -> Options {
    Options {
        memtable_bytes: 64 << 10,
        table_bytes: 16 << 10,
        block_bytes: 1 << 10,
        level_base_bytes: 1 << 20,
        l0_trigger: 2,
        cache_bytes: 0,
        reserve_bytes: 0,
        ..Options::default()
    }
}

/// Bytes that the file layer has counted, reads and writes of every class.
fn counted(fs: &dyn FileSystem) -> u64 {
    let background = Class::ALL.map(IoClass::Background);
    let classes = [IoClass::Client, IoClass::Wal, IoClass::Manifest];
    let counters = fs.counters();
    background.iter().chain(&classes).map(|class| counters.read(*class) + counters.written(*class)).sum()
}

fn fill(db: &Db, round: u8) {
    for i in 0..1500u32 {
        db.put(format!("{:06}", i * 7919 % 1500).as_bytes(), &[round; 100]).unwrap();
    }
    db.flush().unwrap();
    db.wait_idle().unwrap();
}

fn check(db: &Db, round: u8) {
    for i in (0..1500).step_by(50) {
        assert_eq!(db.get(format!("{i:06}").as_bytes()).unwrap().as_deref(), Some(&[round; 100][..]));
    }
    assert_eq!(db.scan(ScanRange::all()).unwrap().count(), 1500);
    db.verify().unwrap();
}

#[test]
fn what_is_charged_is_what_the_file_layer_counts() {
    for durability in [Durability::Os, Durability::Sync] {
        let clock = Arc::new(ManualClock::default());
        let device = Device::on_manual_clock(RATE, Duration::ZERO, Arc::clone(&clock)).unwrap();
        let fs = Arc::new(DeviceFileSystem::new(Arc::new(SimulatedFileSystem::new()), Arc::clone(&device)));
        let open = || {
            let builder = Db::builder("/store").options(Options { durability, ..small() });
            let builder: Builder = builder.file_system(Arc::clone(&fs) as Arc<dyn FileSystem>);
            builder.clock(Arc::clone(&clock) as _).without_threads().open().unwrap()
        };
        let mut before = 0;
        for round in 1..4 {
            let db = open();
            fill(&db, round);
            check(&db, round);
            // What recovery reads is charged, too.
            db.put(b"000000", &[round; 100]).unwrap();
            db.close().unwrap();
            let charged = device.charged_bytes();
            assert_eq!(charged, counted(&*fs), "{durability}, round {round}");
            assert!(charged > before + 3 * 1500 * 100, "{durability}, round {round}: {charged}");
            before = charged;
        }
        // All but the log's last MiB was waited for, and nothing else moved the clock.
        let through = clock.now().as_secs_f64() * RATE as f64;
        let charged = device.charged_bytes() as f64;
        assert!(
            through <= charged * 1.0001 && through >= charged - (1 << 20) as f64,
            "{through} of {charged}"
        );
    }
}

#[test]
fn a_store_with_threads_on_a_real_disk_is_charged_alike() {
    for (direct, durability) in [(false, Durability::Os), (true, Durability::Sync)] {
        let dir = tempfile::tempdir().unwrap();
        let device = Device::new(1 << 30, Duration::from_micros(1)).unwrap();
        let fs: Arc<dyn FileSystem> =
            Arc::new(DeviceFileSystem::new(Arc::new(DiskFileSystem::new()), Arc::clone(&device)));
        let options = Options {
            direct_flush: direct,
            direct_compaction: direct,
            direct_reads: direct,
            durability: Durability::Os,
            ..small()
        };
        let db = Db::builder(dir.path()).options(options).file_system(Arc::clone(&fs)).open().unwrap();
        fill(&db, 1);
        db.set_option("durability", &durability.to_string()).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4u8 {
                let db = &db;
                scope.spawn(move || (0..50).for_each(|i| db.put(&[b't', thread, i], &[i; 50]).unwrap()));
            }
        });
        db.flush().unwrap();
        assert_eq!(db.scan(ScanRange::all()).unwrap().count(), 1700);
        db.close().unwrap();
        assert_eq!(device.charged_bytes(), counted(&*fs), "direct {direct}");
    }
}

/// A device of this speed, on which stores open and close; time passes only there and where a test says so.
struct Bench {
    clock: Arc<ManualClock>,
    disk: SimulatedFileSystem,
    device: Arc<Device>,
    fs: Arc<dyn FileSystem>,
    events: Arc<Mutex<Vec<Event>>>,
}

impl Bench {
    const SPEED: u64 = 50 << 20;

    fn new() -> Bench {
        let clock = Arc::new(ManualClock::default());
        let device = Device::on_manual_clock(Bench::SPEED, Duration::ZERO, Arc::clone(&clock)).unwrap();
        let disk = SimulatedFileSystem::new();
        let fs = DeviceFileSystem::new(Arc::new(disk.clone()), Arc::clone(&device));
        Bench { clock, disk, device, fs: Arc::new(fs), events: Arc::default() }
    }

    fn open(&self, schedule: &str) -> Db {
        self.open_with(Options { schedule: schedule.to_owned(), ..small() }).unwrap()
    }

    fn open_with(&self, options: Options) -> evenkeel::Result<Db> {
        let builder = Db::builder(Path::new("/store")).options(options).file_system(Arc::clone(&self.fs));
        let events = Arc::clone(&self.events);
        let builder =
            builder.listener(Arc::new(move |event: &Event| events.lock().unwrap().push(event.clone())));
        builder.clock(Arc::clone(&self.clock) as _).without_threads().open()
    }

    /// Whether a speed is about that of the device.
    fn is_right(speed: u64) -> bool {
        (speed as f64 / Bench::SPEED as f64 - 1.0).abs() < 0.3
    }
}

fn set(db: &Db, options: &[(&str, &str)]) {
    options.iter().for_each(|(name, value)| db.set_option(name, value).unwrap());
}

/// The device's speed is measured where somebody wants it, kept, and never what somebody else has set.
#[test]
fn the_device_is_measured_once() {
    let bench = Bench::new();
    let db = bench.open("unlimited");
    assert_eq!(db.options().device_measured_bytes_per_sec, 0);
    assert!(bench.device.charged_bytes() < 1 << 20);
    set(&db, &[("device_test", "false")]);
    let error = db.set_schedule("silk").unwrap_err().to_string();
    assert!(error.contains("device_bytes_per_sec"), "{error}");
    assert_eq!(db.options().schedule, "unlimited");
    set(&db, &[("device_test", "true")]);
    db.set_schedule("silk").unwrap();
    let measured = db.options().device_measured_bytes_per_sec;
    assert_eq!(db.metrics().schedule.device_bytes_per_sec, measured);
    assert!(Bench::is_right(measured), "{measured}");
    db.close().unwrap();
    let charged = bench.device.charged_bytes();
    let db = bench.open("dlc-full");
    assert_eq!(db.options().device_measured_bytes_per_sec, measured);
    assert!(bench.device.charged_bytes() - charged < 1 << 20, "it is not measured again");
    // Half the floor of what there is, in bytes, is more than another device has.
    let refused = |error: evenkeel::Error| {
        assert!(error.to_string().contains("at most what the device can do"), "{error}");
    };
    refused(db.set_schedule("silk:floor=60MiB").unwrap_err());
    set(&db, &[("device_bytes_per_sec", "100MiB")]);
    db.set_schedule("silk:floor=60MiB").unwrap();
    refused(db.set_option("device_bytes_per_sec", "50MiB").unwrap_err());
    // Whoever forgets it gets what was measured.
    refused(db.set_option("device_bytes_per_sec", "0").unwrap_err());
    assert_eq!(db.options().device_bytes_per_sec, 100 << 20);
    db.set_schedule("silk").unwrap();
    set(&db, &[("device_bytes_per_sec", "0")]);
    assert_eq!(db.metrics().schedule.device_bytes_per_sec, measured);
    // And whoever forgets that while it is needed has it measured anew: else the schedule would limit nothing from then on.
    let charged = bench.device.charged_bytes();
    set(&db, &[("device_measured_bytes_per_sec", "0")]);
    let again = db.options().device_measured_bytes_per_sec;
    assert!(Bench::is_right(again), "{again}");
    assert!(bench.device.charged_bytes() - charged > 1 << 20);
    db.close().unwrap();
}

/// A store is opened whose device cannot be measured, and says that no rate is limited; but not if it was told not to measure.
#[test]
fn a_device_that_cannot_be_measured_keeps_no_store_closed() {
    let bench = Bench::new();
    bench.open("unlimited").close().unwrap();
    bench.disk.set_free_space(Some(100 << 20));
    let db = bench.open("silk");
    let told = std::mem::take(&mut *bench.events.lock().unwrap());
    let told: Vec<String> = told
        .into_iter()
        .filter_map(|event| match event {
            Event::BackgroundError { error } => Some(error),
            _ => None,
        })
        .collect();
    let is_told = told.len() == 1
        && ["limits no rate", "device_bytes_per_sec"].iter().all(|part| told[0].contains(part));
    assert!(is_told, "{told:?}");
    let limit = |db: &Db| {
        db.put(b"key", b"value").unwrap();
        bench.clock.advance(Duration::from_secs(1));
        let _ = db.wait_idle();
        (db.metrics().schedule.device_bytes_per_sec, db.metrics().schedule.limit_bytes_per_sec)
    };
    assert_eq!(limit(&db), (0, 0));
    let notes =
        |db: &Db| db.control("schedule").unwrap().contains("no rate is limited: set device_bytes_per_sec");
    assert!(notes(&db));
    set(&db, &[("device_bytes_per_sec", "50MiB")]);
    assert!(!notes(&db));
    let (device, rate) = limit(&db);
    assert!(device == 50 << 20 && (1..=device).contains(&rate), "{device} {rate}");
    db.close().unwrap();
    // `paced` goes without, live and at open.
    let db = bench.open("silk");
    db.set_schedule("unlimited").unwrap();
    set(&db, &[("device_bytes_per_sec", "0")]);
    assert_eq!(db.set_schedule("silk").unwrap_err().kind(), "NoSpace");
    db.set_schedule("paced").unwrap();
    assert_eq!((db.options().schedule.as_str(), limit(&db).0), ("paced", 0));
    db.close().unwrap();
    let db = bench.open("paced");
    assert_eq!((db.options().schedule.as_str(), limit(&db).0), ("paced", 0));
    db.close().unwrap();
    let untested = Options { schedule: "silk".to_owned(), device_test: false, ..small() };
    let error = Bench::new().open_with(untested).unwrap_err().to_string();
    assert!(error.contains("device_bytes_per_sec") && error.contains("device_test"), "{error}");
}

/// A schedule that asks for more than the device turns out to do is refused, and the store is as it was.
#[test]
fn what_the_device_cannot_do_is_refused_at_open() {
    let bench = Bench::new();
    let greedy = || Options { schedule: "silk:floor=80MiB".to_owned(), ..small() };
    let refused = || {
        let error = bench.open_with(greedy()).unwrap_err();
        let told = ["floor is 80.0 MiB/s", "at most what the device can do", "device_bytes_per_sec"];
        assert_eq!(error.kind(), "InvalidArgument");
        assert!(told.iter().all(|part| error.to_string().contains(part)), "{error}");
    };
    refused();
    let db = bench.open("unlimited");
    db.put(b"key", b"value").unwrap();
    db.close().unwrap();
    refused();
    let db = bench.open("silk");
    assert_eq!(db.get(b"key").unwrap().as_deref(), Some(&b"value"[..]));
    let measured = db.options().device_measured_bytes_per_sec;
    assert!(Bench::is_right(measured), "{measured}");
    let was_told = |event: &Event| matches!(event, Event::OptionChanged { name, .. } if name == "device_measured_bytes_per_sec");
    assert!(bench.events.lock().unwrap().iter().any(was_told));
    db.close().unwrap();
    let charged = bench.device.charged_bytes();
    let db = bench.open("silk");
    assert_eq!(db.options().device_measured_bytes_per_sec, measured);
    assert!(bench.device.charged_bytes() - charged < 1 << 20, "it is not measured again");
    db.close().unwrap();
}

/// Moves enough through the device, in eighty seconds, that its speed is known; what the store then takes it for.
fn show_speed(bench: &Bench, db: &Db) -> u64 {
    let in_time = |call: &dyn Fn() -> evenkeel::Result<()>| {
        while let Err(error) = call() {
            assert_eq!(error.kind(), "Idle");
            bench.clock.advance(Duration::from_millis(10));
        }
    };
    for round in 0..80u32 {
        (0..60u32).for_each(|key| in_time(&|| db.put(&(round * 60 + key).to_be_bytes(), &[7; 70_000])));
        in_time(&|| db.flush());
        bench.clock.advance(Duration::from_secs(1));
        in_time(&|| db.wait_idle());
    }
    db.options().device_measured_bytes_per_sec
}

/// With large transfers past the page cache, and the device taken for three times as fast as it is.
fn open_mistaken(bench: &Bench) -> Db {
    let db = bench.open("unlimited");
    set(&db, &[("memory_bytes", "64MiB"), ("memtable_bytes", "8MiB"), ("table_bytes", "4MiB")]);
    set(&db, &[("compression", "none"), ("direct_flush", "true"), ("direct_compaction", "true")]);
    set(&db, &[("device_measured_bytes_per_sec", &WRONG.to_string())]);
    db
}

const WRONG: u64 = 3 * Bench::SPEED;

/// What was measured, and is wrong by now, follows what background work shows; what was set does not, nor without tests.
#[test]
fn the_device_is_followed() {
    let bench = Bench::new();
    let db = open_mistaken(&bench);
    set(&db, &[("device_test", "false")]);
    assert_eq!(show_speed(&bench, &db), WRONG);
    set(&db, &[("device_test", "true"), ("device_bytes_per_sec", "1GiB")]);
    assert_eq!(show_speed(&bench, &db), WRONG);
    set(&db, &[("device_bytes_per_sec", "0")]);
    let followed = show_speed(&bench, &db);
    assert!(Bench::is_right(followed), "{followed}");
    db.close().unwrap();
}

/// A schedule that asks for more than the device turns out to do goes on, and that is told, once for each.
#[test]
fn a_device_that_is_too_slow_for_its_schedule_is_told() {
    let bench = Bench::new();
    let db = open_mistaken(&bench);
    let told = || {
        let events = std::mem::take(&mut *bench.events.lock().unwrap());
        let too_slow = |event: Event| match event {
            Event::DeviceTooSlow { bytes_per_sec, gone_by, error } => {
                assert!(error.contains("at most what the device can do"), "{error}");
                Some((bytes_per_sec, gone_by))
            }
            _ => None,
        };
        events.into_iter().filter_map(too_slow).collect::<Vec<(u64, u64)>>()
    };
    for floor in ["100MiB", "70MiB"] {
        db.set_schedule(&format!("silk:floor={floor}")).unwrap();
        let gone_by = show_speed(&bench, &db);
        let told = told();
        assert_eq!(told.last().map(|last| last.1), Some(gone_by), "{floor}: {told:?}");
        assert!(told.windows(2).all(|two| two[0].1 != two[1].1), "{floor}: {told:?}");
    }
    db.set_schedule("silk").unwrap();
    let followed = show_speed(&bench, &db);
    assert!(Bench::is_right(followed), "{followed}");
    assert_eq!((told(), db.metrics().background_errors), (vec![], 0));
    db.close().unwrap();
}
