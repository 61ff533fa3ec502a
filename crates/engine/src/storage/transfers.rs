//! How fast the device moves what background work asks of it: the time of each large direct transfer is taken, and an estimate follows.
//!
//! A transfer that has the device for itself shows what the device can do. One that shares it with others of its kind is counted as so
//! many times faster; one that waits for clients' reads, or whose thread has no CPU when it is done, seems slow. So the estimate is not
//! their mean: three quarters of the transfers are to be slower than it is. Each moves it by a step, up or down, whatever its own speed:
//! no single one counts for much, and a small one for less: more of its time is the way to the device. How often there are transfers does
//! not matter, so a device that rests does not seem slow.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use crate::base::class::IoClass;
use crate::base::clock::Clock;
use crate::base::error::Result;
use crate::base::locks::Mutex;
use crate::base::units::{KIB, MIB};
use crate::storage::file_system::{ReadFile, Syncer, WritableFile};

/// A transfer of less says more of the way to the device than of it.
const LEAST: u64 = 64 * KIB;
/// What is appended reaches the device about so much at a time, and is timed so.
const WRITTEN: u64 = MIB;
/// A transfer of as much moves the estimate by this part of it, if it was faster; else by a third of that: three of four are slower then.
const UP: f64 = 0.015;
const DOWN: f64 = UP / 3.0;

/// The transfers of one store.
#[derive(Debug)]
pub struct Transfers {
    clock: Arc<dyn Clock>,
    under_way: AtomicU32,
    speed: Mutex<Speed>,
}

/// What is thought of the device, and what that began with; bytes per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Speed {
    began: u64,
    now: f64,
}

impl Speed {
    fn saw(&mut self, part: Part) {
        let counts = (part.bytes as f64 / WRITTEN as f64).min(1.0);
        let is_faster = part.bytes as f64 / part.took.as_secs_f64() > self.now;
        self.now *= if is_faster { 1.0 + UP * counts } else { 1.0 - DOWN * counts };
    }
}

impl Transfers {
    /// None yet.
    pub fn new(clock: Arc<dyn Clock>) -> Arc<Transfers> {
        Arc::new(Transfers { clock, under_way: AtomicU32::new(0), speed: Mutex::default() })
    }

    /// What the transfers say of a device of which `believed` was thought before them, in bytes per second; that itself until there are some.
    pub fn corrected(&self, believed: u64) -> u64 {
        let mut speed = self.speed.lock().unwrap_or_else(PoisonError::into_inner);
        if speed.began != believed {
            *speed = Speed { began: believed, now: believed as f64 };
        }
        speed.now as u64
    }

    /// Has the appends to a file timed.
    pub fn writer(self: &Arc<Transfers>, file: Box<dyn WritableFile>) -> Box<dyn WritableFile> {
        Box::new(TimedWriter { file, transfers: Arc::clone(self), part: Part::default() })
    }

    /// Has the reads of a file timed.
    pub fn reader(self: &Arc<Transfers>, file: Arc<dyn ReadFile>) -> Arc<dyn ReadFile> {
        Arc::new(TimedReader { file, transfers: Arc::clone(self) })
    }

    /// Does it, and says how long it would have taken alone.
    fn timed<T>(&self, transfer: impl FnOnce() -> T) -> (T, Duration) {
        let together = self.under_way.fetch_add(1, Ordering::Relaxed) + 1;
        let since = self.clock.now();
        let outcome = transfer();
        let took = self.clock.now().saturating_sub(since);
        self.under_way.fetch_sub(1, Ordering::Relaxed);
        (outcome, took / together)
    }

    fn saw(&self, part: Part) {
        // A clock that stands still says nothing.
        if !part.took.is_zero() {
            self.speed.lock().unwrap_or_else(PoisonError::into_inner).saw(part);
        }
    }
}

/// Bytes, and the time for them.
#[derive(Clone, Copy, Debug, Default)]
struct Part {
    bytes: u64,
    took: Duration,
}

#[derive(Debug)]
struct TimedWriter {
    file: Box<dyn WritableFile>,
    transfers: Arc<Transfers>,
    /// What was appended since a part was complete: most appends only fill a buffer.
    part: Part,
}

impl WritableFile for TimedWriter {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        let (outcome, took) = self.transfers.timed(|| self.file.append(bytes));
        outcome?;
        self.part.bytes += bytes.len() as u64;
        self.part.took += took;
        if self.part.bytes >= WRITTEN {
            self.transfers.saw(std::mem::take(&mut self.part));
        }
        Ok(())
    }

    fn len(&self) -> u64 {
        self.file.len()
    }

    fn flush(&mut self) -> Result<()> {
        self.file.flush()
    }

    fn syncer(&self) -> Arc<dyn Syncer> {
        self.file.syncer()
    }
}

#[derive(Debug)]
struct TimedReader {
    file: Arc<dyn ReadFile>,
    transfers: Arc<Transfers>,
}

impl ReadFile for TimedReader {
    fn read_at(&self, offset: u64, buf: &mut [u8], class: IoClass) -> Result<()> {
        let bytes = buf.len() as u64;
        if bytes < LEAST {
            return self.file.read_at(offset, buf, class);
        }
        let (outcome, took) = self.transfers.timed(|| self.file.read_at(offset, buf, class));
        outcome?;
        self.transfers.saw(Part { bytes, took });
        Ok(())
    }

    fn len(&self) -> u64 {
        self.file.len()
    }

    fn path(&self) -> &Path {
        self.file.path()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::clock::ManualClock;
    use crate::storage::file_system::FileSystem as _;
    use crate::storage::simulated::SimulatedFileSystem;

    const BELIEVED: u64 = 500 * MIB;

    fn after(speeds: impl Iterator<Item = u64>) -> f64 {
        let transfers = Transfers::new(Arc::new(ManualClock::default()));
        assert_eq!(transfers.corrected(BELIEVED), BELIEVED);
        for speed in speeds {
            transfers.saw(Part { bytes: speed, took: Duration::from_secs(1) });
        }
        transfers.corrected(BELIEVED) as f64 / MIB as f64
    }

    #[test]
    fn the_estimate_follows_what_a_quarter_of_the_transfers_reach() {
        let slower = after((0..400).map(|_| 100 * MIB));
        assert!((97.0..104.0).contains(&slower), "{slower}");
        let faster = after((0..400).map(|_| 2000 * MIB));
        assert!((1900.0..2100.0).contains(&faster), "{faster}");
        // Every other one waited for something else.
        let waiting = after((0..4000).map(|i| if i % 2 == 0 { 400 * MIB } else { 20 * MIB }));
        assert!((380.0..420.0).contains(&waiting), "{waiting}");
        // Small ones, of which more is the way, are many and count for as little as they move.
        let transfers = Transfers::new(Arc::new(ManualClock::default()));
        transfers.corrected(BELIEVED);
        for _ in 0..400 {
            let took = |bytes: u64| Duration::from_secs_f64(bytes as f64 / (400.0 * MIB as f64) + 0.001);
            (0..16).for_each(|_| transfers.saw(Part { bytes: LEAST, took: took(LEAST) }));
            transfers.saw(Part { bytes: MIB, took: took(MIB) });
        }
        let small = transfers.corrected(BELIEVED) / MIB;
        assert!((275..300).contains(&small), "{small}");
        // Ten that are out of the way move it by little.
        let noise = after((0..10).map(|_| MIB));
        assert!((450.0..500.0).contains(&noise), "{noise}");
    }

    #[test]
    fn what_is_believed_anew_is_where_it_begins() {
        let transfers = Transfers::new(Arc::new(ManualClock::default()));
        transfers.corrected(BELIEVED);
        (0..200).for_each(|_| transfers.saw(Part { bytes: MIB, took: Duration::from_secs(1) }));
        assert!(transfers.corrected(BELIEVED) < BELIEVED / 2);
        assert_eq!(transfers.corrected(3 * BELIEVED), 3 * BELIEVED);
        // A clock that stands still is no speed.
        transfers.saw(Part { bytes: MIB, took: Duration::ZERO });
        assert_eq!(transfers.corrected(3 * BELIEVED), 3 * BELIEVED);
    }

    /// A file whose device takes a second for whatever it is asked.
    #[derive(Debug)]
    struct Slow<F>(F, Arc<ManualClock>);

    impl WritableFile for Slow<Box<dyn WritableFile>> {
        fn append(&mut self, bytes: &[u8]) -> Result<()> {
            self.1.advance(Duration::from_secs(1));
            self.0.append(bytes)
        }

        fn len(&self) -> u64 {
            self.0.len()
        }

        fn syncer(&self) -> Arc<dyn Syncer> {
            self.0.syncer()
        }
    }

    impl ReadFile for Slow<Arc<dyn ReadFile>> {
        fn read_at(&self, offset: u64, buf: &mut [u8], class: IoClass) -> Result<()> {
            self.1.advance(Duration::from_secs(1));
            self.0.read_at(offset, buf, class)
        }

        fn len(&self) -> u64 {
            self.0.len()
        }

        fn path(&self) -> &Path {
            self.0.path()
        }
    }

    #[test]
    fn large_transfers_are_timed_and_change_nothing() {
        let (fs, clock) = (SimulatedFileSystem::new(), Arc::new(ManualClock::default()));
        let transfers = Transfers::new(clock.clone());
        let path = Path::new("d/1");
        fs.create_dir(Path::new("d")).unwrap();
        let told = || transfers.corrected(BELIEVED);
        assert_eq!(told(), BELIEVED);
        let slow = Slow(fs.create(path, IoClass::Manifest).unwrap(), clock.clone());
        let mut file = transfers.writer(Box::new(slow));
        let half = vec![7; MIB as usize / 2];
        file.append(&half).unwrap();
        assert_eq!(told(), BELIEVED, "half of a part may lie in a buffer");
        file.append(&half).unwrap();
        assert_eq!(file.len(), MIB);
        file.flush().unwrap();
        file.syncer().sync().unwrap();
        let after_writes = told();
        assert!(after_writes < BELIEVED);
        let file = transfers.reader(Arc::new(Slow(fs.open(path).unwrap(), clock)));
        assert_eq!((file.len(), file.path()), (MIB, path));
        let mut small = vec![0; LEAST as usize - 1];
        file.read_at(0, &mut small, IoClass::Client).unwrap();
        assert_eq!((told(), small[0]), (after_writes, 7));
        let mut large = vec![0; LEAST as usize];
        file.read_at(1, &mut large, IoClass::Client).unwrap();
        assert!(told() < after_writes && large.iter().all(|byte| *byte == 7));
        assert!(file.read_at(MIB, &mut large, IoClass::Client).is_err());
    }

    #[test]
    fn transfers_side_by_side_count_as_many_times() {
        let clock = Arc::new(ManualClock::default());
        let transfers = Transfers::new(clock.clone());
        let ((), alone) = transfers.timed(|| clock.advance(Duration::from_secs(6)));
        let (((), inner), outer) =
            transfers.timed(|| transfers.timed(|| clock.advance(Duration::from_secs(6))));
        assert_eq!((alone.as_secs(), inner.as_secs(), outer.as_secs()), (6, 3, 6));
    }
}
