//! What `keel demo` shows: the same bursts under a few schedules, on a device of one speed, from one settled store.
//!
//! ```text
//! settled store ─► bytes moved for each byte written ─► W* ─► bursts ─► a run under each schedule ─► Demo ─► table, page
//! ```
//! Here is what is run and how it is told; `keel` runs it. Everything is small enough for two minutes, and the device slow enough
//! that it, and not the machine, decides.

use std::fmt::Write as _;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::load::arrivals::Spacing;
use crate::load::load_shape::{LoadShape, Rate};
use crate::results::comparison::OTHERS_CORES_MAX;
use crate::results::document::Document;
use crate::results::report::{Report, Run, bytes, micros, rate, seconds};
use crate::results::sustained::{Offered, Sustained, in_trouble, unlike, written_per_request};
use crate::run::driver::{Dataset, OpenLoad};
use crate::run::max_rate::Search;
use crate::verdicts::experiment::Take;
use crate::workloads::distribution::Distribution;
use crate::workloads::keys::KeyOrder;
use crate::workloads::values::ValueSizes;
use crate::workloads::workload::{Limit, Mix, OpKind, Workload};

/// The schedules that are shown, the one that the others are compared with first. DLC's thresholds are for its authors' machine
/// and its second for load that stays high for minutes, so both follow the load here, as the paper's Table 2 does. One that an
/// engine does not know is left out.
pub const SCHEDULES: &[&str] = &["unlimited", "silk", "dlc-burst-part:low=30%,high=45%,every=250ms", "paced"];

/// What clients do: mostly reads, of values as large as a block, so that all ways to estimate a client's load agree.
pub const WORKLOAD: Workload = Workload {
    name: "bursts",
    what: "Three reads for each update, evenly over all records",
    mix: Mix::of(&[(OpKind::Read, 3), (OpKind::Update, 1)]),
    distribution: Distribution::Uniform,
    value_bytes: ValueSizes::Fixed(VALUE_BYTES),
    limit: Limit::Seconds(20.0),
    order: KeyOrder::Sequential,
    ..crate::workloads::catalog::YCSB
};

/// Threads that serve the requests.
pub const THREADS: usize = 32;
/// Seconds of a peak, and of the valley after it.
const PEAK_SECONDS: f64 = 3.5;
const VALLEY_SECONDS: f64 = 4.5;
/// How long each schedule is measured: two of each, as the second peak meets what the first one left.
pub const SECONDS: f64 = 2.0 * (PEAK_SECONDS + VALLEY_SECONDS);
/// Peaks, in what the device sustains of writes; valleys have a tenth of that. Bursts move a tenth to a fifth more for each byte than
/// the writer that this is found by, who always has to wait: by what they move these are 1.65 to 1.8.
const PEAK: f64 = 1.5;
const VALLEY: f64 = PEAK / 10.0;

const VALUE_BYTES: usize = 4000;
const KEY_BYTES: usize = 16;
const MIB: u64 = 1 << 20;
/// A run longer than the terminal is wide is told in so many pieces.
const LINE_COLUMNS: usize = 60;
/// The scale of a line: six steps between the lowest and the highest, each three times the one before.
const LINE: Range<f64> = 1e3..1e6;
const STEPS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// How large all is.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    part: u64,
}

impl Size {
    /// Data, memtables, tables, cache and device divided by `part`; 1 for what is shown.
    pub fn part(part: u64) -> Size {
        Size { part: part.max(1) }
    }

    /// True if it is less than what is shown.
    pub fn is_part(self) -> bool {
        self.part > 1
    }

    /// The records.
    pub fn data(self, seed: u64) -> Dataset {
        Dataset {
            records: (40_000 / self.part).max(100),
            key_bytes: KEY_BYTES,
            value_bytes: WORKLOAD.value_bytes,
            order: WORKLOAD.order,
            seed,
            deleted: false,
        }
    }

    /// The device's speed.
    pub fn device_bytes_per_sec(self) -> u64 {
        (64 * MIB / self.part).max(MIB)
    }

    /// The device on which is found out what the other one sustains: the same in a quarter of the time.
    pub fn quick_device_bytes_per_sec(self) -> u64 {
        4 * self.device_bytes_per_sec()
    }

    /// The store's options.
    pub fn options(self) -> Vec<(&'static str, String)> {
        let divided = |bytes: u64| (bytes / self.part).max(16 << 10).to_string();
        vec![
            ("device_bytes_per_sec", self.device_bytes_per_sec().to_string()),
            ("memtable_bytes", divided(4 * MIB)),
            ("table_bytes", divided(MIB)),
            ("level_base_bytes", divided(16 * MIB)),
            ("level_ratio", "8".to_owned()),
            ("cache_bytes", divided(8 * MIB)),
            ("compression", "none".to_owned()),
            ("workers", "2".to_owned()),
        ]
    }

    /// Records to overwrite before the store is as it stays, and then so many again to see what that moves.
    pub fn overwrites(self) -> u64 {
        (20_000 / self.part).max(50)
    }
}

/// The load: peaks and valleys by what the device sustains.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Chosen {
    /// What the device sustains of writes, by what overwriting the settled store moved.
    pub sustained: Sustained,
    /// Requests a second in a peak.
    pub peak_ops_per_sec: f64,
    /// Requests a second in a valley.
    pub valley_ops_per_sec: f64,
}

impl Chosen {
    /// For this store and device.
    pub fn by(sustained: Sustained) -> Chosen {
        let whole = |share: f64| (share * sustained.bytes_per_sec() / request_bytes()).round().max(1.0);
        Chosen { sustained, peak_ops_per_sec: whole(PEAK), valley_ops_per_sec: whole(VALLEY) }
    }

    /// As an open loop.
    pub fn load(&self) -> OpenLoad {
        OpenLoad {
            shape: LoadShape::Peaks {
                high: Rate::PerSec(self.peak_ops_per_sec),
                low: Rate::PerSec(self.valley_ops_per_sec),
                peak_seconds: PEAK_SECONDS,
                valley_seconds: VALLEY_SECONDS,
            },
            spacing: Spacing::Even,
            search: Search::within(12.0, None),
        }
    }
}

/// Bytes that a request writes in the mean.
fn request_bytes() -> f64 {
    written_per_request(&WORKLOAD, KEY_BYTES, VALUE_BYTES)
}

/// What came of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Demo {
    /// The load.
    pub load: Chosen,
    /// What was offered, by what the first schedule moved under it.
    pub offered: Option<Offered>,
    /// Whether the comparison says anything.
    pub valid: bool,
    /// If not, why.
    pub why_not_valid: Option<String>,
    /// Only a part was run.
    pub part: bool,
    /// One for each schedule.
    pub runs: Vec<Shown>,
}

/// A run under a schedule.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Shown {
    /// The schedule, as it was set.
    pub schedule: String,
    /// What came out.
    pub document: Document,
}

impl Shown {
    /// The schedule without its knobs.
    fn name(&self) -> &str {
        short(&self.schedule)
    }
}

/// A schedule without its knobs.
pub fn short(schedule: &str) -> &str {
    schedule.split(':').next().unwrap_or(schedule)
}

impl Demo {
    /// Of these runs; `l0_limit` is the most runs that the first level may have.
    pub fn new(load: Chosen, runs: Vec<Shown>, l0_limit: u64, size: Size) -> Demo {
        let first = runs.first().map(|run| &run.document);
        // What was moved under the load itself is what counts; what the load was chosen by comes near it.
        let moved = first.and_then(|document| document.amplification.moved);
        let sustained = moved.map(|moved_per_byte| Sustained { moved_per_byte, ..load.sustained });
        let offered =
            first.zip(sustained).and_then(|(document, by)| Offered::of(document, request_bytes(), &by));
        let named: Vec<(&str, &Document)> = runs.iter().map(|run| (run.name(), &run.document)).collect();
        let calm = first.is_some_and(|document| !in_trouble(document, l0_limit));
        let why_not_valid = match offered {
            None => Some("nothing was measured".to_owned()),
            Some(offered) => offered
                .fault()
                .or_else(|| {
                    calm.then(|| "the first schedule had no trouble, so there was none to avoid".to_owned())
                })
                .or_else(|| unlike(&named)),
        };
        Demo { load, offered, valid: why_not_valid.is_none(), why_not_valid, part: size.is_part(), runs }
    }

    /// Where schedules are worse than the first, as a sentence; nothing if there is nothing to compare.
    fn worse(&self) -> Option<String> {
        let (first, others) = self.runs.split_first()?;
        if others.is_empty() {
            return None;
        }
        let waits = |run: &Shown| run.document.stalls.seconds;
        let of = |run: &Shown| {
            let figures: [(&str, &dyn Fn(&Shown) -> Option<f64>); 5] = [
                ("p50", &|run| median(&run.document)),
                ("p99", &|run| Take::P99.of(&run.document)),
                ("p99.9", &|run| Take::P999.of(&run.document)),
                ("worst s", &|run| Take::WorstSecond.of(&run.document)),
                ("stalls", &waits),
            ];
            let worse =
                |get: &dyn Fn(&Shown) -> Option<f64>| get(run).zip(get(first)).is_some_and(|(a, b)| a > b);
            let more: Vec<&str> =
                figures.iter().filter(|(_, get)| worse(get)).map(|(name, _)| *name).collect();
            (!more.is_empty()).then(|| format!("{} in {}", run.name(), more.join(", ")))
        };
        let worse: Vec<String> = others.iter().filter_map(of).collect();
        if worse.is_empty() {
            let none = || format!("No schedule was worse than {} in any of these.", first.name());
            return self.valid.then(none);
        }
        Some(format!("Worse than {}: {}.", first.name(), worse.join("; ")))
    }

    /// Whether it says anything, as a sentence.
    fn verdict(&self) -> String {
        match &self.why_not_valid {
            None => "The load is valid: all schedules served it, and the first was in trouble.".to_owned(),
            Some(why) => format!("NOT VALID, so there is nothing to conclude: {why}."),
        }
    }

    /// What was asked, as sentences.
    fn asked(&self) -> Vec<String> {
        let Chosen { sustained: s, peak_ops_per_sec, valley_ops_per_sec } = &self.load;
        let measured = self.offered.map(|offered| {
            format!(
                "By what {} moved, the peaks were {:.2} times W*, and the mean {:.2} times",
                self.runs.first().map_or("it", Shown::name),
                offered.peak,
                offered.mean
            )
        });
        let mut asked = vec![
            format!(
                "{}, in peaks of {} requests/s for {PEAK_SECONDS} s and valleys of {}/s for {VALLEY_SECONDS} s",
                WORKLOAD.what,
                rate(*peak_ops_per_sec),
                rate(*valley_ops_per_sec),
            ),
            format!(
                "The device moves {}/s. For each byte that clients write {:.1} are moved, so it keeps up with {}/s of writes where nothing is read (W*)",
                bytes(s.device_bytes_per_sec),
                s.moved_per_byte,
                bytes(s.bytes_per_sec() as u64),
            ),
        ];
        asked.extend(measured);
        asked
    }

    /// Cores that others used in the run where they used most, if that is too much to believe the figures.
    fn busiest(&self) -> Option<f64> {
        let cores = self.runs.iter().filter_map(|run| run.document.others_cores).reduce(f64::max);
        cores.filter(|cores| *cores > OTHERS_CORES_MAX)
    }

    /// For a terminal: at most 100 columns.
    pub fn text(&self) -> String {
        let mut out = String::new();
        // Writing to a string does not fail.
        let _ = self.table(&mut out);
        out
    }

    fn table(&self, out: &mut String) -> std::fmt::Result {
        for line in self.asked() {
            writeln!(out, "{}", wrapped(&format!("{line}.")))?;
        }
        writeln!(
            out,
            "\n{:<15}{:>9}{:>9}{:>9}{:>9}{:>16}{:>17}{:>7}{:>8}",
            "schedule", "p50", "p99", "p99.9", "worst s", "done/offered", "stalls", "p99", "worst s"
        )?;
        let of = |run: &Shown, take: Take| take.of(&run.document);
        for run in &self.runs {
            let told = |take| of(run, take).map_or_else(|| "–".to_owned(), micros);
            let ratio = |take| {
                let first = self.runs.first().and_then(|first| of(first, take));
                first.zip(of(run, take)).map_or_else(|| "–".to_owned(), |(first, mine)| times(mine / first))
            };
            writeln!(
                out,
                "{:<15}{:>9}{:>9}{:>9}{:>9}{:>16}{:>17}{:>7}{:>8}",
                run.name(),
                median(&run.document).map_or_else(|| "–".to_owned(), micros),
                told(Take::P99),
                told(Take::P999),
                told(Take::WorstSecond),
                served(&run.document),
                stalls(&run.document),
                ratio(Take::P99),
                ratio(Take::WorstSecond)
            )?;
        }
        writeln!(
            out,
            "\n{:<15}p99 of each second: ▁ {} or less, █ {} or more",
            "",
            micros(LINE.start),
            micros(LINE.end)
        )?;
        for run in &self.runs {
            writeln!(out, "{:<15}{}", run.name(), line_of(&run.document))?;
        }
        writeln!(out, "\n{}", wrapped(&self.verdict()))?;
        if let Some(worse) = self.worse() {
            writeln!(out, "{}", wrapped(&worse))?;
        }
        if let Some(busy) = self.busiest() {
            let beware = format!(
                "Beware: other processes used {busy:.1} cores meanwhile, so these figures are also theirs."
            );
            writeln!(out, "{}", wrapped(&beware))?;
        }
        if self.part {
            writeln!(out, "Only a part of the demonstration was run; its figures are not to be quoted.")?;
        }
        Ok(())
    }

    /// The page, with the schedules one above the other on the same axes.
    pub fn report(&self) -> Report {
        let runs = self.runs.iter().map(|run| Run::new(run.name(), run.document.clone())).collect();
        let mut report = Report::new(runs);
        report.title = format!("The same bursts under {} schedules", self.runs.len());
        report.notes = self.asked().into_iter().map(|line| format!("{line}.")).collect();
        let knobs = self.runs.iter().filter_map(|run| run.schedule.split_once(':'));
        report.notes.extend(knobs.map(|(name, knobs)| format!("{name} has {knobs}.")));
        report.notes.push(self.verdict());
        report.notes.extend(self.worse());
        if self.part {
            report.notes.push("Only a part of the demonstration was run.".to_owned());
        }
        report
    }
}

/// The schedules' latencies one above the other, as a drawing.
pub fn picture(demo: &Demo) -> String {
    // What all have in common needs no name.
    let alone = |run: &Shown| Run {
        engine: run.name().to_owned(),
        settings: String::new(),
        document: run.document.clone(),
    };
    crate::results::report::picture(&Report::new(demo.runs.iter().map(alone).collect()))
}

/// The latencies of the seconds in which requests came; those that were served after the last are in none of them.
pub fn line_of(document: &Document) -> String {
    let came = |second: u64| document.config.seconds.is_none_or(|seconds| (second as f64) < seconds);
    let seconds = document.windows.iter().filter(|window| came(window.second));
    latency_line(&seconds.map(|window| window.p99_us).collect::<Vec<_>>())
}

/// The latencies of seconds, a character each or for a few; a second in which nothing ended is a blank.
pub fn latency_line(p99_us: &[Option<f64>]) -> String {
    let width = p99_us.len().div_ceil(LINE_COLUMNS).max(1);
    let between = STEPS.len() as f64 - 2.0;
    let step = |us: f64| match (us / LINE.start).log10() / (LINE.end / LINE.start).log10() {
        part if part > 0.0 => 1 + (part * between) as usize,
        _ => 0,
    };
    let piece = |seconds: &[Option<f64>]| match seconds.iter().flatten().copied().reduce(f64::max) {
        Some(us) => STEPS[step(us).min(STEPS.len() - 1)],
        None => ' ',
    };
    p99_us.chunks(width).map(piece).collect()
}

/// The median, of the kind of operation in which it is worst.
fn median(document: &Document) -> Option<f64> {
    document.latency_us.values().map(|latency| latency.p50).reduce(f64::max)
}

fn served(document: &Document) -> String {
    match &document.open_loop {
        Some(open) => {
            // What ended after the last had come kept somebody waiting.
            let in_time = open.completed_share * open.offered_ops_per_sec;
            format!("{}/{}", rate(in_time), rate(open.offered_ops_per_sec))
        }
        None => "–".to_owned(),
    }
}

fn stalls(document: &Document) -> String {
    match (document.stalls.count, document.stalls.seconds) {
        (Some(0), _) => "none".to_owned(),
        (Some(n), Some(s)) => format!("{n}, {}", seconds(s)),
        _ => "–".to_owned(),
    }
}

fn times(x: f64) -> String {
    if x < 0.095 { format!("{x:.3}x") } else { format!("{x:.2}x") }
}

fn wrapped(line: &str) -> String {
    crate::results::report::wrapped(line, 100).join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::report::sample;

    fn demo(mut change: impl FnMut(&mut Document)) -> Demo {
        let sustained = Sustained { device_bytes_per_sec: 64 * MIB, moved_per_byte: 20.0 };
        let load = Chosen::by(sustained);
        let shape = load.load().shape.to_string();
        let shape = crate::results::document::OpenLoop {
            shape,
            offered_ops_per_sec: load.peak_ops_per_sec * 0.4,
            ..sample::open_loop()
        };
        let run = |(i, schedule): (usize, &&str)| {
            let mut document = sample::document("evenkeel", 24);
            document.open_loop = Some(shape.clone());
            document.amplification.moved = Some(22.0);
            document.windows.iter_mut().for_each(|w| w.offered = Some(load.peak_ops_per_sec));
            document.latency_us.values_mut().for_each(|l| l.p99 = 9e6 / 10f64.powi(i as i32));
            change(&mut document);
            Shown { schedule: (*schedule).to_owned(), document }
        };
        let runs = SCHEDULES.iter().enumerate().map(run).collect();
        Demo::new(load, runs, 20, Size::part(1))
    }

    #[test]
    fn the_table_is_narrow_and_says_what_was_asked() {
        let demo = demo(|_| ());
        assert!(demo.valid, "{:?}", demo.why_not_valid);
        let text = demo.text();
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
        for part in [
            "64.0 MiB/s",
            "times W*",
            "9.00 s",
            "0.10x",
            "0.010x",
            "load is valid",
            "dlc-burst-part ",
            "No schedule",
        ] {
            assert!(text.contains(part), "no `{part}` in {text}");
        }
        let page = demo.report().files().unwrap().remove(0).1;
        for part in ["The same bursts under", "evenkeel · silk", "every=250ms", "The load is valid"] {
            assert!(page.contains(part), "no `{part}`");
        }
        let picture = picture(&demo);
        assert!(picture.starts_with("<svg xmlns=") && picture.contains(">dlc-burst-part<"), "{picture}");
        for schedule in 0..SCHEDULES.len() {
            assert!(picture.contains(&format!("<g class=\"c{}\">", schedule + 1)), "{picture}");
        }
    }

    #[test]
    fn what_is_worse_is_said() {
        let mut demo = demo(|_| ());
        let silk = &mut demo.runs[1].document;
        silk.stalls.seconds = Some(99.0);
        silk.latency_us.values_mut().for_each(|latency| latency.p50 *= 2.0);
        assert!(demo.text().contains("Worse than unlimited: silk in p50, stalls.\n"), "{}", demo.text());
        demo.runs.truncate(1);
        assert!(!demo.text().contains("worse") && !demo.text().contains("Worse"));
    }

    #[test]
    fn what_shows_nothing_says_so() {
        let quiet = demo(|d| {
            d.stalls.count = Some(0);
        });
        assert!(!quiet.text().contains("Beware"));
        let busy = demo(|d| d.others_cores = Some(1.5));
        assert!(busy.valid && busy.text().contains("used 1.5 cores"));
        assert!(!quiet.valid && quiet.text().contains("NOT VALID") && quiet.text().contains("no trouble"));
        let small = demo(|d| d.amplification.moved = Some(10.0));
        assert!(small.why_not_valid.unwrap().contains("peaks were 0.7"));
    }

    #[test]
    fn lines_have_one_scale() {
        assert_eq!(latency_line(&[Some(0.0), Some(1e2), None, Some(1e7), Some(1e9)]), "▁▁ ██");
        // As the words beneath it say: no second above the one end, or below the other, has its character.
        assert_eq!(latency_line(&[Some(1001.0), Some(3e3), Some(30e3), Some(990e3)]), "▂▂▄▇");
        assert_eq!(latency_line(&[Some(5.0); 601]).chars().count(), 55);
        let late =
            |document: &mut Document| document.config.seconds = Some(document.windows.len() as f64 - 0.5);
        for (demo, lines) in
            [(demo(|_| ()), 24), (demo(|d| d.config.seconds = Some(23.0)), 23), (demo(late), 24)]
        {
            assert_eq!(line_of(&demo.runs[0].document).chars().count(), lines);
        }
    }

    /// Every choice of sizes is one that the load can be had with.
    #[test]
    fn loads_are_requests_whatever_is_sustained() {
        for moved_per_byte in [0.0, 1.0, 1e6] {
            let chosen = Chosen::by(Sustained { device_bytes_per_sec: MIB, moved_per_byte });
            assert!(chosen.valley_ops_per_sec >= 1.0 && chosen.peak_ops_per_sec >= chosen.valley_ops_per_sec);
        }
        assert!(Size::part(1_000_000).data(1).records >= 100 && !Size::part(0).is_part());
    }
}
