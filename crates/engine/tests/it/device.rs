//! A store on an emulated device: every byte is charged once, takes its time, and changes no answer.

use std::sync::Arc;
use std::time::Duration;

use evenkeel::fs::{Class, Device, DeviceFileSystem, DiskFileSystem, FileSystem, IoClass};
use evenkeel::testing::{Clock as _, ManualClock, SimulatedFileSystem};
use evenkeel::{Builder, Db, Durability, Options, ScanRange};

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
