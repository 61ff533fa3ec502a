//! The line in a time of the test's own; and what the machine makes of it, as figures for people (`--ignored`).

use std::time::Instant;

use super::*;
use crate::base::units::MIB;

const RATE: u64 = 100 * MIB;

fn line(bytes_per_sec: u64) -> Line {
    Line { bytes_per_sec, finish: AtomicU64::new(0) }
}

/// A device and its clock, which moves when somebody would sleep.
fn device(latency: Duration) -> (Arc<Device>, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::default());
    (Device::on_manual_clock(RATE, latency, Arc::clone(&clock)).unwrap(), clock)
}

impl Device {
    /// Moves `bytes` and comes back when that is done, however many they are.
    fn transfer(&self, bytes: u64) {
        self.finish(self.begin(bytes));
    }
}

fn now(clock: &Arc<ManualClock>) -> Duration {
    Clock::now(&**clock)
}

fn transfer_time(bytes: u64) -> Duration {
    Duration::from_nanos((bytes * NANOS_PER_SEC + RATE / 2) / RATE)
}

#[test]
fn requests_of_every_size_have_the_rate() {
    for rate in [KIB, 10 * MIB, RATE, GIB] {
        for kib in [4, 8, 16, 64, 256] {
            let line = line(rate);
            let requests = 1000;
            let end = (0..requests).map(|_| line.take(0, kib * KIB)).last().unwrap();
            let exact = (requests * kib * KIB) as f64 / rate as f64 * 1e9;
            assert!((end as f64 - exact).abs() <= exact * 1e-4, "{rate} {kib}: {end} for {exact}");
        }
    }
}

#[test]
fn who_comes_first_is_served_first() {
    // Moment of coming, bytes, moment of its end, at a byte each nanosecond.
    let line = line(NANOS_PER_SEC);
    for (came, bytes, end) in
        [(0, 100, 100), (10, 50, 150), (20, 1, 151), (151, 9, 160), (500, 7, 507), (100, 3, 510)]
    {
        assert_eq!(line.take(came, bytes), end, "{bytes} bytes at {came}");
    }
}

#[test]
fn many_threads_share_the_rate_and_nothing_is_lost() {
    let line = &line(NANOS_PER_SEC);
    let ends: Vec<u64> = std::thread::scope(|scope| {
        let take = |size: u64| scope.spawn(move || (0..1000).map(|_| line.take(0, size)).collect::<Vec<_>>());
        let threads: Vec<_> = [4096, 65_536, 262_144, 100].into_iter().map(take).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(ends.len(), 4000);
    assert_eq!(ends.iter().max(), Some(&(1000 * (4096 + 65_536 + 262_144 + 100))));
    let mut sorted = ends.clone();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(sorted.len(), ends.len(), "two requests end at once");
}

#[test]
fn an_idle_device_takes_a_request_s_own_time_and_saves_nothing_up() {
    let (device, clock) = device(Duration::ZERO);
    for _ in 0..3 {
        clock.advance(Duration::from_secs(5));
        let begun = now(&clock);
        device.transfer(4 * KIB);
        assert_eq!(now(&clock) - begun, transfer_time(4 * KIB));
    }
    assert_eq!(device.charged_bytes(), 3 * 4 * KIB);
}

#[test]
fn a_device_that_stands_aside_holds_nobody_up() {
    let (device, clock) = device(Duration::from_millis(2));
    let both = (device.stand_aside(), device.stand_aside());
    device.transfer(GIB);
    drop(both.0);
    device.transfer(GIB);
    assert_eq!((now(&clock), device.charged_bytes()), (Duration::ZERO, 2 * GIB));
    drop(both.1);
    device.transfer(4 * KIB);
    assert_eq!(now(&clock), transfer_time(4 * KIB) + device.latency());
}

#[test]
fn latency_is_added_and_occupies_nothing() {
    let latency = Duration::from_millis(2);
    let (device, clock) = device(latency);
    device.transfer(64 * KIB);
    assert_eq!(now(&clock), transfer_time(64 * KIB) + latency);
    let first = device.charge(64 * KIB);
    let second = device.charge(64 * KIB);
    assert_eq!(Duration::from_nanos(second.0 - first.0), transfer_time(64 * KIB));
}

#[test]
fn a_large_request_is_cut_and_lets_others_pass() {
    let (device, clock) = device(Duration::ZERO);
    let large = device.begin(MIB);
    // Another caller comes meanwhile: behind the first piece, not behind all of it.
    let other = device.charge(4 * KIB);
    assert_eq!(Duration::from_nanos(other.0), transfer_time(256 * KIB) + transfer_time(4 * KIB));
    device.finish(large);
    assert_eq!(now(&clock), transfer_time(256 * KIB) * 4 + transfer_time(4 * KIB));
    assert_eq!(device.charged_bytes(), MIB + 4 * KIB);
}

#[test]
fn a_late_sleeper_that_comes_at_once_loses_nothing() {
    let back = |late: u64| Back { device: 1, due: 5_000_000, at: 5_000_000 + late };
    for (late, after, counts_from) in [
        (0, 0, 5_000_000),
        (60_000, 15_000, 5_000_000),
        // It had something else to do.
        (60_000, 30_000, 5_090_000),
        // The machine was busy.
        (30_000_000, 1000, 25_001_000),
    ] {
        assert_eq!(back(late).counts_from(5_000_000 + late + after), counts_from, "{late} {after}");
    }
}

#[test]
fn waiting_for_what_is_over_makes_nothing_good() {
    let (device, clock) = device(Duration::ZERO);
    let long_ago = device.charge(4 * KIB);
    clock.advance(Duration::from_secs(1));
    device.wait_until(long_ago);
    let begun = now(&clock);
    device.transfer(4 * KIB);
    assert_eq!(now(&clock) - begun, transfer_time(4 * KIB));
}

#[test]
fn devices_that_cannot_be_are_refused() {
    for (rate, latency) in [(0, 0), (KIB - 1, 0), (16 * GIB + 1, 0), (RATE, 1001)] {
        let error = Device::new(rate, Duration::from_millis(latency)).unwrap_err();
        assert_eq!(error.kind(), "InvalidArgument", "{rate} {latency}");
    }
    let device = Device::new(RATE, Duration::from_secs(1)).unwrap();
    assert_eq!((device.bytes_per_sec(), device.latency()), (RATE, Duration::from_secs(1)));
    device.transfer(0);
    assert_eq!(device.charged_bytes(), 0);
}

#[test]
#[ignore = "measures this machine: run it alone, with --nocapture"]
#[expect(clippy::disallowed_methods, clippy::print_stdout, reason = "measures real time, for people")]
fn measured_rate_and_idle_latency() {
    for rate in [10 * MIB, RATE, GIB] {
        for (kib, threads) in [(4, 1), (4, 8), (16, 1), (64, 1), (64, 8), (256, 1), (256, 8), (1024, 2)] {
            let device = &Device::new(rate, Duration::ZERO).unwrap();
            let each = rate * 3 / (kib * KIB) / threads;
            let begun = Instant::now();
            std::thread::scope(|scope| {
                for _ in 0..threads {
                    scope.spawn(move || (0..each).for_each(|_| device.transfer(kib * KIB)));
                }
            });
            let measured = device.charged_bytes() as f64 / begun.elapsed().as_secs_f64();
            let error = (measured / rate as f64 - 1.0) * 100.0;
            println!("{:>5} MiB/s  {kib:>4} KiB x {threads}  {error:+.3} %", rate / MIB);
        }
        let device = Device::new(rate, Duration::ZERO).unwrap();
        let own = Duration::from_nanos(4 * KIB * NANOS_PER_SEC / rate);
        let mut more: Vec<Duration> = (0..1000)
            .map(|_| {
                evenkeel_sys::sleep_punctually(Duration::from_millis(1));
                let begun = Instant::now();
                device.transfer(4 * KIB);
                begun.elapsed().saturating_sub(own)
            })
            .collect();
        more.sort_unstable();
        println!(
            "{:>5} MiB/s  idle, 4 KiB: {own:?} and p50 {:?}, p90 {:?}, p99 {:?} more",
            rate / MIB,
            more[500],
            more[900],
            more[990]
        );
    }
}
