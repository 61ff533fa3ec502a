//! What one cell runs: a schedule under a load, on records and a device of a setup. Plain data.

use crate::load::load_shape::{LoadShape, Piece, Rate};

/// Records, sizes and a device, as a paper has them, made small enough for this machine (the labs S and D).
#[derive(Debug, PartialEq)]
pub struct Setup {
    /// In names of cells.
    pub name: &'static str,
    /// How many records.
    pub records: u64,
    /// The length of their keys.
    pub key_bytes: u64,
    /// The length of their values, as `--value-bytes` has it.
    pub value_bytes: &'static str,
    /// The same in the mean.
    pub value_mean: u64,
    /// The workload that fills.
    pub filler: &'static str,
    /// So many of its operations follow: levels of a store that was filled in key order do not overlap, and reads cost less than they
    /// will. The first level is emptied then: nothing of it is in memory yet, reads would cost more than after the next flushes, and each
    /// schedule would merge it in its own time.
    pub aging_ops: u64,
    /// Reads and writes together, a second.
    pub device_bytes_per_sec: u64,
    /// So many seconds of a whole run are one where all is divided: data are fewer, and the device is slower by that much less.
    pub hurry: u64,
    /// Memtables.
    pub memtable_bytes: u64,
    /// The first level below L0.
    pub base_bytes: u64,
    /// From level to level.
    pub ratio: u64,
    /// Tables.
    pub table_bytes: u64,
    /// The block cache.
    pub cache_bytes: u64,
    /// Blocks.
    pub block_bytes: u64,
    /// From so many memtables on L0 is merged, from twice as many where it is merged with more.
    pub l0_trigger: u64,
    /// Runs that L0 may have.
    pub l0_limit: u64,
    /// Threads that serve requests.
    pub threads: u64,
    /// Seconds of reads before, as the workload does: where it reads a few records mostly, a scan leaves others in memory.
    pub warm_seconds: u64,
}

const MIB: u64 = 1 << 20;

/// SILK §6.1, a 25th of its data and half its device: no log, no compression, writers slowed by L0 late.
pub const S: Setup = Setup {
    name: "s",
    records: 4_000_000,
    key_bytes: 8,
    value_bytes: "1024",
    value_mean: 1024,
    filler: "fillrandom",
    aging_ops: 0,
    device_bytes_per_sec: 100 * MIB,
    // With more, queues of a peak are over before a second shows them.
    hurry: 2,
    memtable_bytes: 32 * MIB,
    base_bytes: 128 * MIB,
    ratio: 8,
    table_bytes: 8 * MIB,
    cache_bytes: 64 * MIB,
    block_bytes: 4096,
    l0_trigger: 4,
    l0_limit: 40,
    threads: 32,
    warm_seconds: 0,
};

/// The same with the values of the production load (SILK Figure 7): 250 bytes to 1 KB, half of them below 400.
pub const S_NUTANIX: Setup =
    Setup { name: "s-nutanix", records: 8_000_000, value_bytes: "250-400-1024", value_mean: 519, ..S };

/// DLC §6.1: rows of sysbench's, levels of ratio 10, writers stopped at 100 runs. Half as many rows are written again as there
/// are, which fills the first level.
pub const D: Setup = Setup {
    name: "d",
    records: 20_000_000,
    key_bytes: 16,
    value_bytes: "184",
    value_mean: 184,
    filler: "oltp-writes",
    aging_ops: 10_000_000 / 3,
    // Six minutes in one. With two, the fourth memtable, from which on L0 goes down, is full after 64 seconds, and nobody has trouble.
    hurry: 6,
    base_bytes: 512 * MIB,
    ratio: 10,
    table_bytes: 16 * MIB,
    cache_bytes: 340 * MIB,
    block_bytes: 16 << 10,
    // L1 holds much more: four, as in the paper.
    l0_trigger: 2,
    l0_limit: 100,
    warm_seconds: 10,
    ..S
};

/// When requests come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Load {
    /// One after the other: what the store can do (X_max), and what it moves for each byte written (W*).
    Probe,
    /// Peaks of so many seconds and valleys, in writes of 1.65 W* and a tenth of that.
    Bursts {
        /// Seconds of a peak.
        peak: f64,
        /// Seconds of a valley.
        valley: f64,
    },
    /// Peaks and valleys of random length (SILK Figure 7), as high as these.
    Nutanix,
    /// Peaks of 90 % of X_max, valleys of a quarter of that.
    High {
        /// Seconds of a peak.
        peak: f64,
        /// Seconds of a valley.
        valley: f64,
    },
    /// Writes of 1.65 W* all the time, which nothing can serve for ever.
    Endless,
    /// 90 % of X_max all the time.
    Sustained,
    /// So much of X_max all the time, in percent.
    Share(u32),
}

/// Peaks, in the W* of what bursts move themselves.
pub const PEAK: f64 = 1.65;
/// Peaks of random length are as low as they may be.
const PEAK_MIN: f64 = 1.6;
/// What peaks move for a byte written, by what their probe moves: as measured, with all data (1.00 to 1.08 in five runs, 1.11 in bursts of
/// 100 s) and with an eighth (0.9). What the same load moves differs by 2 %, what a probe does by 10 %, by how many of its few large merges
/// it is through with.
const MOVED: [f64; 2] = [1.03, 0.9];
/// Bursts with an eighth (0.89, 0.94, 0.95, 1.13): by this all of these are from 1.5 to 2 W*, as a valid load is.
const MOVED_BY_QUICK_BURSTS: f64 = 0.95;
/// Threads that serve bursts where all is divided: half as many. What clients get of a device beside two merges goes by how many of them
/// ask at a time; 32 get 2.0 W*, which no valid peak is above, and nobody who merges at will has trouble.
const THREADS_OF_BURSTS: u64 = 16;
/// The mean that is aimed at, likewise, and the most that it may be: by what is moved under the load it is a twentieth more.
const MEAN: f64 = 0.8;
const MEAN_MAX: f64 = 0.93;
/// Where lengths that were drawn would come to more, those of another seed, so far on, are taken.
const NEXT_DRAW: u64 = 1000;
/// Of runs that are too short for a valley, or so long that chance evens out, none may do: then it is the least of so many.
const DRAWS_MAX: u64 = 200;
/// Valleys, as a part of a peak.
pub const VALLEY: f64 = 0.1;
/// DLC's high load in X_max, and its low load as a part of that.
pub const HIGH: f64 = 0.9;
const LOW: f64 = 0.25;

/// What a probe found out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Found {
    /// X_max: operations a second, one after the other.
    pub ops_per_sec: f64,
    /// Requests a second whose writes are W*.
    pub sustained_ops_per_sec: f64,
}

/// One line of an experiment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    /// On what.
    pub setup: &'static Setup,
    /// What is asked; a name of the catalog.
    pub workload: &'static str,
    /// When.
    pub load: Load,
    /// How long it is measured, in seconds.
    pub seconds: f64,
    /// What the schedule is called here.
    pub name: &'static str,
    /// The schedule.
    pub schedule: &'static str,
    /// How the tree is compacted.
    pub strategy: &'static str,
    /// Memory for memtables, in that of the setup.
    pub memory: u64,
    /// Records as YCSB chooses them, a few of them mostly, and not evenly.
    pub zipfian: bool,
    /// What the schedule is told besides where all is divided: knobs with times, which are shorter there.
    pub hurried: &'static str,
}

/// The strategy of both papers: one table at a time to the next level, round robin; L0 of several runs.
pub const STRATEGY: &str = "1-leveling";

impl Row {
    /// This load under another schedule, which is called the same.
    pub const fn under(self, schedule: &'static str) -> Row {
        Row { name: schedule, schedule, hurried: "", ..self }
    }

    /// The same under another name.
    pub const fn named(self, name: &'static str) -> Row {
        Row { name, ..self }
    }

    /// The same with these knobs besides where all is divided.
    pub const fn hurried(self, knobs: &'static str) -> Row {
        Row { hurried: knobs, ..self }
    }

    /// Of what all schedules are under the same load: setup, workload and load.
    pub fn group(&self) -> String {
        let load = match self.load {
            Load::Probe => "probe".to_owned(),
            Load::Bursts { peak, valley } => format!("bursts{peak}-{valley}"),
            Load::Nutanix => "nutanix".to_owned(),
            Load::High { peak, valley } => format!("high{peak}-{valley}"),
            Load::Endless => "endless".to_owned(),
            Load::Sustained => "sustained".to_owned(),
            Load::Share(percent) => format!("at{percent}"),
        };
        let chosen = if self.zipfian { "-zipfian" } else { "" };
        format!("{}-{}{chosen}-{load}-{}s", self.setup.name, self.workload, self.seconds)
    }

    /// A name that no other row has.
    pub fn id(&self) -> String {
        format!("{}-{}", self.group(), self.name)
    }

    /// The run that says how fast this row's requests come.
    pub fn probe(&self) -> Row {
        Row { load: Load::Probe, seconds: 120.0, strategy: STRATEGY, memory: 1, ..self.under("unlimited") }
    }

    /// Whether the rest of background work is waited for. What a load moves is told by rows without a schedule, and who is asked how
    /// much it serves must not leave work behind; a limiter needs as long for what it has left undone as the load took. Of the other claims
    /// only `lost` misses it, what open jobs had written, to the disadvantage of who has them.
    pub fn settles(&self) -> bool {
        self.schedule == "unlimited" || self.load == Load::Probe
    }

    /// How long it is measured where all is divided. A probe is as long for the store as a whole one: with more merges than that has X_max
    /// would be less, and nine tenths of it would trouble nobody.
    pub fn seconds(&self, divide: u64) -> f64 {
        if divide == 1 {
            return self.seconds;
        }
        let hurry = if self.load == Load::Probe { self.setup.hurry as f64 } else { 1.0 };
        (self.seconds / hurry).min(QUICK_SECONDS * 8.0 / divide.max(8) as f64).max(3.0)
    }

    /// Threads that serve requests where all is divided.
    pub fn threads(&self, divide: u64) -> u64 {
        match self.load {
            Load::Bursts { .. } if divide > 1 => THREADS_OF_BURSTS,
            _ => self.setup.threads,
        }
    }

    /// The schedule where all is divided, as `--schedule` takes it.
    pub fn schedule(&self, divide: u64) -> String {
        if divide == 1 || self.hurried.is_empty() {
            return self.schedule.to_owned();
        }
        let before = if self.schedule.contains(':') { ',' } else { ':' };
        format!("{}{before}{}", self.schedule, self.hurried)
    }

    /// The words of `--shape`; nothing for a closed loop.
    pub fn shape(&self, found: Option<Found>, divide: u64, seed: u64) -> Option<String> {
        let found = found.unwrap_or(Found { ops_per_sec: 1.0, sustained_ops_per_sec: 1.0 });
        let whole = |rate: f64| rate.round().max(1.0);
        let moved = match self.load {
            Load::Bursts { .. } if divide > 1 => MOVED_BY_QUICK_BURSTS,
            _ => MOVED[usize::from(divide > 1)],
        };
        let sustained = found.sustained_ops_per_sec / moved;
        let (peak, high) = (PEAK * sustained, HIGH * found.ops_per_sec);
        // A short run has as many peaks, each as much shorter.
        let shrunk = |seconds: f64| (seconds * self.seconds(divide) / self.seconds * 100.0).round() / 100.0;
        let peaks = |high: f64, low: f64, peak: f64, valley: f64| {
            format!(
                "peaks:{},{},{},{}",
                whole(high),
                whole(low),
                shrunk(peak).max(0.1),
                shrunk(valley).max(0.1)
            )
        };
        Some(match self.load {
            Load::Probe => return None,
            Load::Bursts { peak: p, valley } => peaks(peak, peak * VALLEY, p, valley),
            Load::Nutanix => {
                let (draw, mean) = self.nutanix_draw(divide, seed);
                let peak = sustained * (MEAN / mean).clamp(PEAK_MIN, PEAK);
                if divide > 1 {
                    // Rounded up, so that they last for the whole run.
                    let seconds = |piece: &Piece| (piece.seconds * 100.0).ceil() / 100.0;
                    let step = |piece: &Piece| (Rate::PerSec(whole(peak * piece.rate)), seconds(piece));
                    let steps = self.nutanix_pieces(divide, draw).iter().map(step).collect();
                    return Some(LoadShape::Steps(steps).to_string());
                }
                let own = if draw == seed { String::new() } else { format!(",{draw}") };
                format!("nutanix:{},{}{own}", whole(peak), whole(peak * VALLEY))
            }
            Load::High { peak, valley } => peaks(high, high * LOW, peak, valley),
            Load::Endless => format!("constant:{}", whole(peak)),
            Load::Sustained => format!("constant:{}", whole(high)),
            Load::Share(percent) => {
                format!("constant:{}", whole(f64::from(percent) / 100.0 * found.ops_per_sec))
            }
        })
    }
}

impl Row {
    /// From which seed the lengths of peaks and valleys follow, and the mean that they come to, in peaks. A peak of 100 seconds is more
    /// than a device makes up for in five minutes: then it would be the load of another figure.
    fn nutanix_draw(&self, divide: u64, seed: u64) -> (u64, f64) {
        let mut least = (seed, f64::INFINITY);
        for draw in (0..DRAWS_MAX).map(|n| seed + n * NEXT_DRAW) {
            let mean = self.nutanix_mean(divide, draw);
            if mean < least.1 {
                least = (draw, mean);
            }
            if PEAK_MIN * mean <= MEAN_MAX {
                break;
            }
        }
        least
    }

    fn nutanix_mean(&self, divide: u64, seed: u64) -> f64 {
        let (mut left, mut sum) = (self.seconds(divide), 0.0);
        for piece in self.nutanix_pieces(divide, seed) {
            let length = piece.seconds.min(left);
            (left, sum) = (left - length, sum + length * piece.rate);
        }
        (sum / self.seconds(divide)).max(1e-9)
    }

    /// Peaks and valleys of random length, in peaks. Where all is divided a store lives faster: they are as much shorter, or L0 would have
    /// twice the runs at the end of a peak.
    fn nutanix_pieces(&self, divide: u64, seed: u64) -> Vec<Piece> {
        let shape = LoadShape::Nutanix { high: Rate::PerSec(1.0), low: Rate::PerSec(VALLEY), seed: None };
        let hurry = if divide > 1 { self.setup.hurry as f64 } else { 1.0 };
        let mut left = self.seconds(divide);
        let shorter = shape.pieces(1.0, seed).map(|piece| Piece { seconds: piece.seconds / hurry, ..piece });
        let lasting = |piece: &Piece| {
            let is_one = left > 0.0;
            left -= piece.seconds;
            is_one
        };
        shorter.take_while(lasting).collect()
    }
}

/// A quick run is no longer.
const QUICK_SECONDS: f64 = 60.0;

impl Setup {
    /// A size or a rate where all is divided.
    fn divided(bytes: u64, divide: u64) -> u64 {
        (bytes / divide).max(64 << 10)
    }

    /// Records where all is divided.
    pub fn records(&self, divide: u64) -> u64 {
        (self.records / divide).max(1000)
    }

    /// The device where data are divided: slower by as much, but for the hurry.
    pub fn device(&self, divide: u64) -> u64 {
        let bytes_per_sec = self.device_bytes_per_sec * self.hurry / divide.max(1);
        bytes_per_sec.clamp(4 * MIB, self.device_bytes_per_sec)
    }

    /// The engine's options.
    pub fn options(&self, divide: u64, memory: u64) -> Vec<(&'static str, String)> {
        let bytes = |bytes: u64| Setup::divided(bytes, divide).to_string();
        vec![
            ("device_bytes_per_sec", self.device(divide).to_string()),
            ("memtable_bytes", bytes(self.memtable_bytes * memory)),
            ("memtables", "2".to_owned()),
            ("level_base_bytes", bytes(self.base_bytes)),
            ("level_ratio", self.ratio.to_string()),
            ("table_bytes", bytes(self.table_bytes)),
            ("cache_bytes", bytes(self.cache_bytes)),
            ("memory_bytes", (4 * 1024 * MIB).to_string()),
            ("block_bytes", self.block_bytes.to_string()),
            ("l0_trigger", self.l0_trigger.to_string()),
            ("l0_limit", self.l0_limit.to_string()),
            ("compression", "none".to_owned()),
            ("workers", "2".to_owned()),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROW: Row = Row {
        setup: &S,
        workload: "ycsb-a",
        load: Load::Bursts { peak: 10.0, valley: 20.0 },
        seconds: 240.0,
        name: "silk",
        schedule: "silk",
        strategy: STRATEGY,
        memory: 1,
        zipfian: false,
        hurried: "",
    };

    #[test]
    fn rates_are_those_that_were_found() {
        let found = Some(Found { ops_per_sec: 1000.0, sustained_ops_per_sec: 400.0 });
        let shape = |load, divide| Row { load, ..ROW }.shape(found, divide, 42);
        assert_eq!(shape(ROW.load, 1).as_deref(), Some("peaks:641,64,10,20"));
        assert_eq!(shape(ROW.load, 8).as_deref(), Some("peaks:695,69,2.5,5"));
        let nutanix = shape(Load::Nutanix, 1).unwrap();
        let peak: f64 = nutanix.trim_start_matches("nutanix:").split(',').next().unwrap().parse().unwrap();
        assert!((621.0..=641.0).contains(&peak) && nutanix.matches(',').count() == 1, "{nutanix}");
        assert_eq!(
            shape(Load::High { peak: 100.0, valley: 20.0 }, 1).as_deref(),
            Some("peaks:900,225,100,20")
        );
        assert_eq!(shape(Load::Endless, 1).as_deref(), Some("constant:641"));
        assert_eq!(shape(Load::Sustained, 1).as_deref(), Some("constant:900"));
        assert_eq!(shape(Load::Share(60), 1).as_deref(), Some("constant:600"));
        assert_eq!(shape(Load::Probe, 1), None);
    }

    /// A load whose mean nothing sustains says nothing of a schedule.
    #[test]
    fn lengths_that_come_to_too_much_are_drawn_again() {
        let row = Row { load: Load::Nutanix, seconds: 300.0, ..ROW };
        for seed in 42..60 {
            let (draw, mean) = row.nutanix_draw(1, seed);
            assert!(PEAK_MIN * mean <= MEAN_MAX && (draw - seed).is_multiple_of(NEXT_DRAW), "{seed}: {draw}");
            let earlier = (seed..draw).step_by(NEXT_DRAW as usize).map(|draw| row.nutanix_mean(1, draw));
            assert!(earlier.into_iter().all(|mean| PEAK_MIN * mean > MEAN_MAX), "{seed}: {draw}");
        }
        assert_eq!(row.nutanix_draw(1, 42).0, 42);
        let drawn = row.nutanix_draw(1, 43).0;
        assert!(drawn > 43);
        let shape = row.shape(None, 1, 43).unwrap();
        assert!(shape.ends_with(&format!(",{drawn}")), "{shape}");
        // A quick store lives twice as fast: a minute of it has what two have.
        let quick = row.shape(None, 8, 42).unwrap();
        let two_minutes = Row { seconds: 120.0, ..row };
        let lengths = |shape: &str| -> Vec<(f64, f64)> {
            let steps = shape.trim_start_matches("steps:").split(',');
            steps
                .map(|step| step.split_once('@').unwrap())
                .map(|(rate, s)| (rate.parse().unwrap(), s.parse().unwrap()))
                .collect()
        };
        let (found, whole) = (lengths(&quick), two_minutes.nutanix_pieces(1, row.nutanix_draw(8, 42).0));
        assert_eq!(found.len(), whole.len(), "{quick}");
        assert!(
            found.iter().zip(&whole).all(|((_, s), piece)| (s - piece.seconds / 2.0).abs() <= 0.011),
            "{quick}"
        );
        assert!(found.iter().map(|(_, s)| s).sum::<f64>() >= 60.0);
        // No valley fits into three seconds.
        assert_eq!(row.nutanix_draw(10_000, 43), (43, 1.0));
    }

    #[test]
    fn what_is_quick_is_an_eighth_on_a_part_of_the_device() {
        assert_eq!((S.records(8), S.device(8), S.device(1)), (500_000, 25 * MIB, 100 * MIB));
        assert_eq!((D.device(8), D.device(2), D.device(10_000)), (75 * MIB, 100 * MIB, 4 * MIB));
        let options = S.options(8, 1);
        assert!(options.contains(&("memtable_bytes", (4 * MIB).to_string())));
        assert_eq!((ROW.seconds(1), ROW.seconds(8), ROW.seconds(10_000)), (240.0, 60.0, 3.0));
        assert_eq!(ROW.id(), "s-ycsb-a-bursts10-20-240s-silk");
        assert_eq!(ROW.under("unlimited").group(), ROW.group());
        assert_eq!(ROW.probe().id(), "s-ycsb-a-probe-120s-unlimited");
        assert_eq!(Row { zipfian: true, ..ROW }.probe().id(), "s-ycsb-a-zipfian-probe-120s-unlimited");
    }

    #[test]
    fn what_is_quick_has_constants_of_its_own() {
        let probe = |setup| Row { setup, ..ROW }.probe().seconds(8);
        assert_eq!((ROW.probe().seconds(1), probe(&S), probe(&D)), (120.0, 60.0, 20.0));
        let endless = Row { load: Load::Endless, ..ROW };
        assert_eq!((ROW.threads(1), ROW.threads(8), endless.threads(8)), (32, 16, 32));
        let told = |row: Row, divide| (row.schedule(divide), row.id() == ROW.id());
        let hurried = ROW.hurried("every=2s");
        assert_eq!(told(hurried, 1), ("silk".to_owned(), true));
        assert_eq!(told(hurried, 8), ("silk:every=2s".to_owned(), true));
        let knobs = Row { schedule: "silk:floor=5%", ..hurried };
        assert_eq!(told(knobs, 8), ("silk:floor=5%,every=2s".to_owned(), true));
        assert_eq!(told(hurried.under("paced"), 8), ("paced".to_owned(), false));
    }
}
