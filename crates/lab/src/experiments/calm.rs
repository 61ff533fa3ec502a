//! Calm beside the engines that people use: tails of the production load's mix (SILK §6.2) and of YCSB A, as a store that
//! schedules its background work has them, and the best of RocksDB's ways to keep its own from being felt.
//!
//! On the raw disk, and on a throttled loop device of the speed of SILK's, where background work soon takes all there is.

use super::BASELINE;
use super::peers::{LARGE, SUSTAINED, YCSB_WORK};
use crate::results::settings::OURS;
use crate::verdicts::experiment::{Claim, Data, Experiment, Pace, Take, Work};

/// RocksDB as it is, and with each thing that it offers against compactions that are felt.
const RIVALS: &[&str] =
    &[BASELINE, "rocksdb-recycle", "rocksdb-rate-limited", "rocksdb-auto-tuned", "rocksdb-low-priority"];
const ENGINES: &[&str] = &[OURS, RIVALS[0], RIVALS[1], RIVALS[2], RIVALS[3], RIVALS[4], "fjall"];

/// SILK's device.
const DEVICE_BYTES_PER_SEC: u64 = 200_000_000;

/// Our schedule by deadlines. Tables are not written past the page cache, which would take what clients read from the cache: the data
/// fit into memory, and reads of the device behind compactions had ten times the p99 (`docs/performance.md`).
const OWN: &[&str] = &["schedule=paced"];

/// A memtable of 64 MB is full each 8 to 15 seconds at 20 k/s, and the plan leaves L0 for as long as there is room in it: a minute would be
/// over before it merges.
const SECONDS: f64 = 240.0;

const WORK: Work = Work { own: OWN, seconds: Some(SECONDS), ..YCSB_WORK };
/// Where a rate is looked for.
const RATE_SECONDS: Option<f64> = YCSB_WORK.seconds;
const NUTANIX: Work = Work { workload: "nutanix", data: Data { value_bytes: 500, ..LARGE }, ..WORK };
const YCSB_A: Work = Work { workload: "ycsb-a", ..WORK };

const fn half(of: &'static str) -> Pace {
    Pace::Share { of, percent: 50 }
}

const fn most(of: &'static str) -> Pace {
    Pace::Share { of, percent: 80 }
}

/// The works on a device.
const fn works(device: Option<u64>) -> [Work; 10] {
    let highest = Pace::Highest { p99: Some("10ms"), baseline_only: false };
    [
        Work { name: "n-sustained", pace: SUSTAINED, rounds: 1, seconds: RATE_SECONDS, device, ..NUTANIX },
        Work { name: "n-20k", pace: Pace::Rate(20_000), device, ..NUTANIX },
        Work { name: "n-50", pace: half("n-sustained"), device, ..NUTANIX },
        Work { name: "n-80", pace: most("n-sustained"), device, ..NUTANIX },
        Work { name: "n-10ms", pace: highest, rounds: 3, seconds: RATE_SECONDS, device, ..NUTANIX },
        Work { name: "a-sustained", pace: SUSTAINED, rounds: 1, seconds: RATE_SECONDS, device, ..YCSB_A },
        Work { name: "a-20k", pace: Pace::Rate(20_000), device, ..YCSB_A },
        Work { name: "a-50", pace: half("a-sustained"), device, ..YCSB_A },
        Work { name: "a-80", pace: most("a-sustained"), device, ..YCSB_A },
        Work { name: "a-10ms", pace: highest, rounds: 3, seconds: RATE_SECONDS, device, ..YCSB_A },
    ]
}

/// The claims of an experiment, which are the same on both devices.
macro_rules! claims {
    ($id:literal) => {
        claims!(
            $id,
            "n-20k" "production at 20 k/s",
            "n-50" "production at 50 %",
            "n-80" "production at 80 %",
            "a-20k" "A at 20 k/s",
            "a-50" "A at 50 %",
            "a-80" "A at 80 %",
        )
    };
    ($id:literal, $($work:literal $load:literal,)*) => {
        &[
            $(
                claim((concat!($id, ".", $work, "-p99"), concat!($load, ": p99")), ($id, $work), Take::P99),
                claim((concat!($id, ".", $work, "-p999"), concat!($load, ": p99.9")), ($id, $work), Take::P999),
                claim(
                    (concat!($id, ".", $work, "-worst"), concat!($load, ": p99 of the worst second")),
                    ($id, $work),
                    Take::WorstSecond,
                ),
                claim(
                    (concat!($id, ".", $work, "-throughput"), concat!($load, ": requests a second that were served")),
                    ($id, $work),
                    Take::Throughput,
                ),
            )*
            claim(
                (concat!($id, ".n-10ms"), "production: more requests a second with p99 within 10 ms in every second"),
                ($id, "n-10ms"),
                Take::HighestRate,
            ),
            claim(
                (concat!($id, ".a-10ms"), "A: more requests a second with p99 within 10 ms in every second"),
                ($id, "a-10ms"),
                Take::HighestRate,
            ),
        ]
    };
}

const fn claim(
    (id, text): (&'static str, &'static str),
    of: (&'static str, &'static str),
    take: Take,
) -> Claim {
    Claim { id, text, of, take }
}

/// On the raw disk.
pub const DISK: Experiment = Experiment {
    id: "peers-calm",
    title: "tails beside RocksDB's best: production and YCSB A at 20 k/s, and 50 % and 80 % of what RocksDB sustains",
    works: &works(None),
    claims: claims!("peers-calm"),
    engines: ENGINES,
    rivals: RIVALS,
};

/// On a disk of 200 MB/s.
pub const DEVICE: Experiment = Experiment {
    id: "peers-calm-200",
    title: "the same on a throttled loop device of 200 MB/s (needs root)",
    works: &works(Some(DEVICE_BYTES_PER_SEC)),
    claims: claims!("peers-calm-200"),
    engines: ENGINES,
    rivals: RIVALS,
};
