//! What is measured of jobs and of clients beside them: CPU, rates, what reads use of the device.

use super::super::scheduling::usage;
use super::*;
use crate::scheduler::estimator::Estimator;

/// Eq 6 of DLC with a measured factor: also where blocks are compressed, the estimate is within 10 % of what is read from files.
#[test]
fn fills_of_the_cache_tell_what_is_read_of_compressed_blocks() {
    let db = open(Options { compression: CompressionRule::Lz4, cache_bytes: MIB, ..options() });
    for i in 0..20_000_u32 {
        db.put(&i.wrapping_mul(0x9e37_79b9).to_be_bytes(), &[7; 400]).unwrap();
    }
    db.compact_range(ScanRange::all()).unwrap();
    let store = store(&db);
    let fills = Estimator::CacheFills { gamma: None };
    let before = usage(&store, &fills);
    for i in 0..20_000_u32 {
        assert!(db.get(&i.wrapping_mul(0x9e37_79b9).to_be_bytes()).unwrap().is_some());
    }
    let used = usage(&store, &fills).since(&before);
    let by = |gamma| Estimator::CacheFills { gamma }.bytes(&used);
    let read = used.client_read_bytes as f64;
    assert!(read > MIB as f64 && (by(None) / read - 1.0).abs() < 0.1, "{} of {read}", by(None));
    assert!(by(Some(1.0)) > 2.0 * read, "{} of {read}: nothing is compressed", by(Some(1.0)));
}

/// On the device, which a rate is of, there is a quarter of what is merged.
#[test]
fn a_rate_is_of_bytes_as_they_lie_in_files() {
    let clock = Arc::default();
    let db = open_at(
        &clock,
        Options { schedule: "fixed:1MiB".to_owned(), compression: CompressionRule::Lz4, ..options() },
    );
    let mut random = Random::new(1);
    (0..2).for_each(|_| fill(&db, &mut random));
    let store = store(&db);
    let moved = || {
        let state = store.background.lock();
        state.jobs.iter().filter_map(|open| open.job.as_ref()).map(|job| job.bytes_moved()).sum::<u64>()
    };
    while db.step(&mut first) {}
    let before = moved();
    for _ in 0..100 {
        clock.advance(Duration::from_millis(10));
        while db.step(&mut first) {}
    }
    let in_a_second = moved() - before;
    assert!((MIB * 9 / 10..MIB * 12 / 10).contains(&in_a_second), "{in_a_second}");
}

/// Where one thread does all there is no more of it than that has used, and each class has its own.
#[test]
fn cpu_is_counted_once_and_for_its_class() {
    let db = open(options());
    let store = store(&db);
    store.background.lock().retry_at = Duration::MAX;
    let cpu = |class: Class| store.counters.cpu_nanos[class as usize].get();
    let mut random = Random::new(1);
    (0..2).for_each(|_| fill(&db, &mut random));
    let compactions = || Class::ALL.into_iter().filter(|class| *class > Class::Flush).map(cpu).sum::<u64>();
    assert!(cpu(Class::Flush) > 0 && compactions() == 0);
    let (flushes, began) = (cpu(Class::Flush), evenkeel_sys::thread_cpu_time());
    store.background.lock().retry_at = Duration::ZERO;
    while db.step(&mut first) {}
    let used = (evenkeel_sys::thread_cpu_time() - began).as_nanos() as u64;
    assert_eq!((cpu(Class::Flush), compactions()), (flushes, cpu(Class::L0ToL1)));
    assert!((1..=used).contains(&cpu(Class::L0ToL1)), "{} of {used}", cpu(Class::L0ToL1));
}

/// Where the page cache answers, reads are no use of the device.
#[test]
#[cfg(target_os = "linux")]
fn reads_that_the_page_cache_answers_use_no_device() {
    let directory = tempfile::tempdir().unwrap();
    let clock: Arc<ManualClock> = Arc::default();
    let options = Options {
        schedule: "silk".to_owned(),
        device_bytes_per_sec: 100 * MIB,
        cache_bytes: 0,
        compression: CompressionRule::None,
        ..options()
    };
    let builder = Db::builder(directory.path()).clock(Arc::clone(&clock) as _).options(options);
    let db = builder.without_threads().open().unwrap();
    let mut random = Random::new(1);
    fill(&db, &mut random);
    let read = || usage(&store(&db), &Estimator::Device).client_read_bytes;
    let before = read();
    for _ in 0..20 {
        (0..200).for_each(|_| drop(db.get(&(random.below(8000) as u32).to_be_bytes()).unwrap()));
        clock.advance(Duration::from_millis(100));
        db.step(&mut |_| None);
    }
    let (seconds, seen) = (2, db.metrics().schedule.client_bytes_per_sec.unwrap());
    let asked = (read() - before) / seconds;
    assert!(asked > MIB && seen < asked / 4, "{seen} of {asked} bytes a second");
}

/// It waits from when it is due, though it is picked only when another tree's job has left its place.
#[test]
fn l0_that_finds_no_place_waits_from_when_it_is_due() {
    let clock: Arc<ManualClock> = Arc::default();
    let db = open_at(&clock, Options { workers: 1, schedule: "unlimited".to_owned(), ..options() });
    let store = store(&db);
    let other = db.create_keyspace("other", Default::default()).unwrap();
    store.background.lock().retry_at = Duration::MAX;
    let mut random = Random::new(1);
    for _ in 0..2 {
        fill(&db, &mut random);
        [b"a", b"z"].into_iter().for_each(|key| other.put(key, &[7; 100]).unwrap());
        other.flush().unwrap();
    }
    store.background.lock().retry_at = Duration::ZERO;
    // The job of the first tree is opened, and no other one has a place.
    db.step(&mut |_| None);
    db.step(&mut first);
    let waits = || (store.counters.l0_wait_us.count(), store.counters.l0_wait_us.sum());
    assert_eq!((waits(), store.background.lock().jobs.len()), ((1, 0), 1));
    clock.advance(Duration::from_millis(700));
    while db.step(&mut first) {}
    assert_eq!((waits(), db.metrics().compactions), ((2, 700_000), 2));
}
