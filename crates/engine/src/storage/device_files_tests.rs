//! Files on a device whose time is the test's own.

use std::time::Duration;

use super::*;
use crate::base::class::Class;
use crate::base::clock::{Clock as _, ManualClock};
use crate::storage::disk::DiskFileSystem;
use crate::storage::simulated::SimulatedFileSystem;

const RATE: u64 = MIB;
const TABLE: IoClass = IoClass::Background(Class::Flush);

struct World {
    fs: DeviceFileSystem,
    device: Arc<Device>,
    clock: Arc<ManualClock>,
}

impl World {
    fn over(base: Arc<dyn FileSystem>) -> World {
        let clock = Arc::new(ManualClock::default());
        let device = Device::on_manual_clock(RATE, Duration::ZERO, Arc::clone(&clock)).unwrap();
        World { fs: DeviceFileSystem::new(base, Arc::clone(&device)), device, clock }
    }

    fn simulated() -> World {
        let world = World::over(Arc::new(SimulatedFileSystem::new()));
        world.fs.create_dir(Path::new("d")).unwrap();
        world
    }

    /// The time that something takes, as bytes of the device.
    fn bytes_in(&self, what: impl FnOnce()) -> u64 {
        let begun = self.clock.now();
        what();
        ((self.clock.now() - begun).as_secs_f64() * RATE as f64).round() as u64
    }

    fn check_counted(&self) {
        let counters = self.fs.counters();
        let classes = [IoClass::Client, IoClass::Wal, IoClass::Manifest, TABLE];
        let read: u64 = classes.iter().map(|class| counters.read(*class)).sum();
        assert_eq!(self.device.charged_bytes(), read + counters.written_total());
    }
}

#[test]
fn tables_wait_as_they_are_handed_over() {
    let world = World::simulated();
    let mut file = world.fs.create(Path::new("d/t"), TABLE).unwrap();
    assert_eq!(world.bytes_in(|| file.append(&[1; 60_000]).unwrap()), 0);
    assert_eq!(world.bytes_in(|| file.append(&[2; 10_000]).unwrap()), 70_000);
    assert_eq!(world.bytes_in(|| file.append(&[3; 1_000_000]).unwrap()), 1_000_000);
    assert_eq!(world.bytes_in(|| file.append(&[4; 100]).unwrap()), 0);
    assert_eq!(world.bytes_in(|| file.flush().unwrap()), 100);
    file.append(&[5; 50]).unwrap();
    let syncer = file.syncer();
    assert_eq!(world.bytes_in(|| syncer.sync().unwrap()), 50);
    assert_eq!(world.bytes_in(|| syncer.sync().unwrap()), 0);
    file.append(&[6; 70]).unwrap();
    drop(file);
    // Nobody waited for the last bytes, yet they are on their way.
    assert_eq!(world.bytes_in(|| syncer.sync().unwrap()), 70);
    world.check_counted();
}

#[test]
fn a_log_goes_on_until_a_mebibyte_is_behind() {
    for base in [Arc::new(SimulatedFileSystem::new()) as Arc<dyn FileSystem>, Arc::new(DiskFileSystem::new())]
    {
        let dir = tempfile::tempdir().unwrap();
        let world = World::over(base);
        world.fs.create_dir(dir.path()).unwrap();
        let mut log = world.fs.create_log(&dir.path().join("log"), 4 * MIB, None).unwrap();
        let syncer = log.syncer();
        let put = |log: &mut Box<dyn LogFile>, records: u64| {
            (0..records).for_each(|_| log.append(&[&[7; 512], &[8; 512]]).unwrap());
        };
        assert_eq!(world.bytes_in(|| put(&mut log, 1024)), 0, "a whole MiB waits for nothing");
        assert_eq!(world.bytes_in(|| put(&mut log, 512)), MIB / 2, "then the device sets the pace");
        assert_eq!(world.bytes_in(|| syncer.sync().unwrap()), MIB, "a sync waits for what is behind");
        assert_eq!(world.bytes_in(|| syncer.sync().unwrap()), 0);
        log.append(&[&[9; 10]]).unwrap();
        assert_eq!(world.bytes_in(|| syncer.sync().unwrap()), 10, "and for less than a page");
        assert_eq!(world.bytes_in(|| log.append(&[&vec![1; MIB as usize]]).unwrap()), 0);
        log.append(&[&[2; 33]]).unwrap();
        drop(log);
        world.check_counted();
        assert_eq!(world.fs.counters().written(IoClass::Wal), 2 * MIB + MIB / 2 + 43);
    }
}

#[test]
fn a_full_log_leaves_its_successor_no_more_room() {
    let world = World::simulated();
    let write = |number: u64| {
        let mut log = world.fs.create_log(&Path::new("d").join(number.to_string()), MIB / 2, None).unwrap();
        log.append(&[&vec![7; MIB as usize / 2]]).unwrap();
    };
    assert_eq!(world.bytes_in(|| (0..8).for_each(write)), 3 * MIB);
}

#[test]
fn every_read_waits_in_the_page_cache_or_not() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::over(Arc::new(DiskFileSystem::new()));
    let path = dir.path().join("t");
    let mut file = world.fs.create(&path, TABLE).unwrap();
    file.append(&[1; 10_000]).unwrap();
    file.syncer().sync().unwrap();
    let file = world.fs.open(&path).unwrap();
    let mut buf = [0; 5000];
    for _ in 0..3 {
        assert_eq!(world.bytes_in(|| file.read_at(100, &mut buf, IoClass::Client).unwrap()), 5000);
    }
    assert!(file.read_at(9000, &mut buf, IoClass::Client).is_err(), "behind the end");
    assert_eq!(world.device.charged_bytes(), 10_000 + 4 * 5000, "asked of the device all the same");
}

#[test]
fn direct_files_are_charged_by_whole_pages() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::over(Arc::new(DiskFileSystem::new()));
    let path = dir.path().join("t");
    let Some(mut file) = world.fs.create_direct(&path, TABLE).unwrap() else { return };
    (0..100).for_each(|_| file.append(&[1; 1010]).unwrap());
    file.syncer().sync().unwrap();
    drop(file);
    let Some(file) = world.fs.open_direct(&path).unwrap() else { return };
    for (offset, len) in [(0, 4096), (100, 8), (4000, 200), (100_000, 1000), (8192, 40_000), (100_999, 1)] {
        file.read_at(offset, &mut vec![0; len], IoClass::Client).unwrap();
        world.check_counted();
    }
}

#[test]
fn names_and_directories_cost_nothing() {
    let world = World::simulated();
    let cost = world.bytes_in(|| {
        let fs = &world.fs;
        let path = |name: &str| Path::new("d").join(name);
        drop(fs.create(&path("a"), TABLE).unwrap());
        fs.hard_link(&path("a"), &path("b")).unwrap();
        fs.rename(&path("a"), &path("c")).unwrap();
        fs.truncate(&path("c"), 0).unwrap();
        fs.sync_dir(Path::new("d")).unwrap();
        assert_eq!(fs.list(Path::new("d")).unwrap(), ["b", "c"]);
        assert!(fs.exists(&path("b")).unwrap() && fs.is_dir(Path::new("d")).unwrap());
        fs.remove(&path("b")).unwrap();
        fs.create_dir(&path("e")).unwrap();
        fs.rename_dir(&path("e"), &path("f")).unwrap();
        fs.remove_dir(&path("f")).unwrap();
        assert!(fs.free_space(Path::new("d")).unwrap() > 0);
        drop(fs.lock(&path("LOCK")).unwrap());
    });
    assert_eq!((cost, world.device.charged_bytes()), (0, 0));
}

/// A disk that takes its time.
#[derive(Debug)]
struct SlowFile {
    clock: Arc<ManualClock>,
    takes: Duration,
}

impl ReadFile for SlowFile {
    fn read_at(&self, _: u64, _: &mut [u8], _: IoClass) -> Result<()> {
        self.clock.advance(self.takes);
        Ok(())
    }

    fn len(&self) -> u64 {
        MIB
    }

    fn path(&self) -> &Path {
        Path::new("slow")
    }
}

#[test]
fn what_the_disk_below_takes_longer_is_told() {
    let world = World::simulated();
    // A hundredth of a second of the device, and what comes with it on the disk.
    let mut buf = vec![0; RATE as usize / 100];
    let mut late_after = |ms, class| {
        let takes = Duration::from_millis(ms);
        let base = Arc::new(SlowFile { clock: Arc::clone(&world.clock), takes });
        world.fs.reader(base, false).read_at(0, &mut buf, class).unwrap();
        world.device.late().as_millis()
    };
    // Faster, as late as any thread may be, and later; of background work nobody asks.
    assert_eq!([9, 19].map(|ms| late_after(ms, IoClass::Client)), [0, 0]);
    assert_eq!(late_after(500, TABLE), 0);
    world.clock.advance(Duration::from_secs(1));
    assert_eq!(late_after(310, IoClass::Client), 300);
}
