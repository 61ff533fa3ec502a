//! From experiments to cells: one run of one work on one system with one seed, with the words that ask for it.
//!
//! ```text
//! for each work:  round 1: A equal, B equal, A recommended, …   round 2: A equal, …
//! ```
//!
//! A work is through before the next begins, so that what is finished when time is up can be judged. Pure: who starts the
//! processes is not known here.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use crate::base::device::room_for;
use crate::results::comparison::Run;
use crate::results::settings::{Common, Settings};
use crate::verdicts::experiment::{Data, Experiment, Pace, Work};
use crate::verdicts::rounds::seed_of;

/// How long finding the highest rate may take, and what it needs.
const SEARCH_SECONDS: f64 = 120.0;
const SEARCH_SECONDS_MIN: f64 = 3.0;

/// `--quick`: this part of data and memory, at most so many seconds, one round.
const QUICK_DIVIDE: u64 = 8;
const QUICK_SECONDS: f64 = 60.0;

/// How much of an experiment is run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    /// Data, memtables and caches are divided by this.
    divide: u64,
    /// Times are divided by this.
    divide_seconds: f64,
    /// No measurement is longer.
    seconds_max: f64,
    /// Rounds, if not the work's own.
    rounds: Option<u16>,
    /// The first of them.
    first_round: u16,
}

impl Scale {
    /// All of it; `rounds` instead of each work's own.
    pub fn full(rounds: Option<u16>) -> Scale {
        Scale { divide: 1, divide_seconds: 1.0, seconds_max: f64::INFINITY, rounds, first_round: 1 }
    }

    /// An eighth of the data and memory, a minute, one round.
    pub fn quick(rounds: Option<u16>) -> Scale {
        let rounds = Some(rounds.unwrap_or(1));
        Scale { divide: QUICK_DIVIDE, seconds_max: QUICK_SECONDS, rounds, ..Scale::full(None) }
    }

    /// Data, memory and times divided by `n`, one round.
    pub fn part(n: u64, rounds: Option<u16>) -> Scale {
        let rounds = Some(rounds.unwrap_or(1));
        Scale { divide: n.max(1), divide_seconds: n.max(1) as f64, rounds, ..Scale::full(None) }
    }

    /// The same, from a later round on.
    pub fn from_round(self, first_round: u16) -> Scale {
        Scale { first_round, ..self }
    }

    /// By how much data and memory are divided.
    pub fn divide(self) -> u64 {
        self.divide
    }

    /// Rounds of what has as many as this, unless somebody says otherwise.
    pub fn rounds_or(self, usual: u16) -> RangeInclusive<u16> {
        let count = self.rounds.unwrap_or(usual);
        self.first_round..=self.first_round.saturating_add(count - 1)
    }

    /// True if less than all of an experiment is run, so that its verdicts are not to be quoted.
    pub fn is_quick(self) -> bool {
        self.divide > 1
    }

    /// Rounds of a work. What others take a rate from is run once.
    pub fn rounds(self, work: &Work) -> RangeInclusive<u16> {
        if work.rounds == 1 { 1..=1 } else { self.rounds_or(work.rounds) }
    }

    fn seconds(self, seconds: f64) -> f64 {
        (seconds / self.divide_seconds).min(self.seconds_max).max(0.1)
    }

    fn records(self, data: Data) -> u64 {
        (data.records / self.divide).max(1000)
    }

    /// Settings that all engines share and that shrink with the data, as `--set` takes them.
    pub fn common(self) -> Vec<String> {
        if self.divide == 1 {
            return Vec::new();
        }
        let common = Common::default();
        let part = |bytes: u64| (bytes / self.divide).max(1 << 20);
        vec![
            format!("memtable_bytes={}", part(common.memtable_bytes)),
            format!("cache_bytes={}", part(common.cache_bytes)),
        ]
    }
}

/// One engine under one of the settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct System {
    /// The engine's name.
    pub engine: String,
    /// How it is set up.
    pub settings: Settings,
}

impl System {
    /// A name for files.
    pub fn name(&self) -> String {
        format!("{}-{}", self.engine, self.settings.name())
    }
}

/// One run of one work on one system.
#[derive(Clone, Debug)]
pub struct Cell {
    /// The experiment that the work belongs to.
    pub experiment: &'static str,
    /// What is run.
    pub work: &'static Work,
    /// On what.
    pub system: System,
    /// From 1.
    pub round: u16,
    /// The last round of this work.
    pub last_round: u16,
}

/// What a finished cell leaves.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Finished {
    /// The experiment that the work belongs to.
    pub experiment: String,
    /// The work.
    pub work: String,
    /// Decides on the operations.
    pub seed: u64,
    /// What was asked for, and of which program.
    pub asked: Asked,
    /// How long it took, filling and repetitions included.
    pub wall_seconds: f64,
    /// What came out.
    pub run: Run,
}

/// What a cell was asked for. A finished cell that was asked for something else does not count.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// The arguments of the measuring command.
    pub arguments: Vec<String>,
    /// The arguments of the command that filled the store that it started from.
    pub store: Option<Vec<String>>,
    /// The arguments of the command that wrote into it and died.
    #[serde(default)]
    pub crash: Option<Vec<String>>,
    /// Bytes a second of the loop device that it was measured on.
    #[serde(default)]
    pub device: Option<u64>,
    /// What tells one build of the measuring command from another.
    pub program: String,
}

impl Finished {
    /// True if this is the cell's.
    pub fn is_of(&self, cell: &Cell) -> bool {
        (self.experiment.as_str(), self.work.as_str()) == (cell.experiment, cell.work.name)
            && self.run.document.engine == cell.system.engine
            && self.run.settings == cell.system.settings.name()
            && self.seed == cell.seed()
    }
}

impl Cell {
    /// Decides on the operations.
    pub fn seed(&self) -> u64 {
        seed_of(self.round)
    }

    /// Where it is kept, below the directory of cells.
    pub fn file(&self) -> String {
        format!("{}/{}-{}-{}.json", self.experiment, self.system.name(), self.work.name, self.seed())
    }

    /// For people.
    pub fn title(&self) -> String {
        format!(
            "{} {}: {}, {}, round {} of {}",
            self.experiment,
            self.work.name,
            self.system.engine,
            self.system.settings.name(),
            self.round,
            self.last_round
        )
    }

    /// The store that it starts from, if it starts from one: a name, and what fills it.
    pub fn store(&self, scale: Scale) -> Option<(String, Vec<String>)> {
        let data = self.work.data;
        if !data.settled {
            return None;
        }
        let records = scale.records(data);
        let name = format!("{}-{records}x{}", self.system.name(), data.value_bytes);
        let mut words = words(&["bench", "fillrandom"]);
        amounts(&mut words, records, data, seed_of(1));
        Some((name, words))
    }

    /// What writes into the copy of the store and dies before the cell begins, if that is asked for.
    pub fn crash(&self, scale: Scale) -> Option<Vec<String>> {
        let ops = (self.work.crash_ops? / scale.divide).max(100);
        let seed = self.seed().to_string();
        Some(words(&["bench", "overwrite", "--ops", &ops.to_string(), "--seed", &seed, "--crash"]))
    }

    /// What asks for it; `rate` is the one that another work found, if it needs one.
    pub fn arguments(&self, scale: Scale, rate: Option<f64>) -> Vec<String> {
        let work = self.work;
        let mut words = words(&["bench", work.workload, "--threads", &work.threads.to_string()]);
        let mut flag = |name: &str, value: String| words.extend([name.to_owned(), value]);
        if let Some(seconds) = work.seconds {
            flag("--seconds", scale.seconds(seconds).to_string());
        }
        match work.pace {
            Pace::Closed => {}
            Pace::Rate(rate) => flag("--rate", rate.to_string()),
            Pace::Share { percent, .. } => {
                let rate = rate.unwrap_or(0.0) * f64::from(percent) / 100.0;
                flag("--rate", format!("{:.0}", rate.max(1.0)));
            }
            Pace::Highest { p99, .. } => {
                flag("--budget", scale.seconds(SEARCH_SECONDS).max(SEARCH_SECONDS_MIN).to_string());
                if let Some(p99) = p99 {
                    flag("--p99", p99.to_owned());
                }
                words.push("--find-max-rate".to_owned());
            }
        }
        if work.data.settled {
            words.extend(["--seed".to_owned(), self.seed().to_string()]);
        } else {
            amounts(&mut words, scale.records(work.data), work.data, self.seed());
        }
        words
    }

    /// Room on a device for its store.
    pub fn device_size(&self, scale: Scale) -> u64 {
        let data = self.work.data;
        room_for(scale.records(data).saturating_mul(data.value_bytes))
    }

    /// About how long it takes, in seconds, without filling the store that it starts from: for the time left and for budgets,
    /// until cells of its kind have said better.
    pub fn estimate(&self, scale: Scale) -> f64 {
        let work = self.work;
        let filling = fill_seconds(scale, work.data);
        let measured = work.seconds.map_or(filling, |seconds| scale.seconds(seconds));
        let searched = match work.pace {
            Pace::Highest { .. } => scale.seconds(SEARCH_SECONDS).max(SEARCH_SECONDS_MIN),
            _ => 0.0,
        };
        // Copying a store and reading it once goes some times faster than filling it; each ends with waiting until it is idle.
        let bytes = scale.records(work.data) as f64 * work.data.value_bytes as f64;
        let copied = work.device.map_or(0.0, |bytes_per_sec| 2.0 * bytes / bytes_per_sec as f64);
        measured + searched + copied + filling / 4.0 + 1.0
    }

    /// About how long filling the store takes that it starts from.
    pub fn store_estimate(&self, scale: Scale) -> f64 {
        if self.work.data.settled { 1.5 * fill_seconds(scale, self.work.data) } else { 0.0 }
    }
}

/// Engines differ; this is for the first look at a clock.
fn fill_seconds(scale: Scale, data: Data) -> f64 {
    let records = scale.records(data) as f64;
    records / 400e3 + records * data.value_bytes as f64 / 100e6
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn amounts(words: &mut Vec<String>, records: u64, data: Data, seed: u64) {
    for (name, value) in [("--records", records), ("--value-bytes", data.value_bytes), ("--seed", seed)] {
        words.extend([name.to_owned(), value.to_string()]);
    }
}

/// The cells of `chosen`, in the order in which they run, on `engines`, or on each experiment's own if there are none; `all` are the
/// experiments that works are borrowed from.
pub fn plan(
    chosen: &[&'static Experiment],
    all: &[&'static Experiment],
    engines: &[String],
    settings: &[Settings],
    scale: Scale,
) -> Vec<Cell> {
    let mut works: Vec<(&'static str, &'static Work)> = Vec::new();
    for experiment in chosen {
        for (home, work) in experiment.needs(all) {
            if !works.iter().any(|(h, w)| (*h, w.name) == (home, work.name)) {
                works.push((home, work));
            }
        }
    }
    // A store is filled once for the works that start from it, if they come one after the other.
    works.sort_by_key(|(home, _)| all.iter().position(|e| e.id == *home));
    let mut cells = Vec::new();
    for (experiment, work) in works {
        let Some(home) = all.iter().find(|e| e.id == experiment) else { continue };
        let own: Vec<String> = home.engines.iter().map(|&engine| engine.to_owned()).collect();
        let engines = if engines.is_empty() { &own } else { engines };
        let rounds = scale.rounds(work);
        let last_round = *rounds.end();
        for round in rounds {
            for &settings in settings {
                for engine in engines_of(work, engines, home.rivals) {
                    let system = System { engine: engine.clone(), settings };
                    cells.push(Cell { experiment, work, system, round, last_round });
                }
            }
        }
    }
    cells
}

/// Those of `cells` whose works are named, and those that find the rate of which these take a share.
///
/// # Errors
/// A line with the works that there are, if one is named that is not among them.
pub fn only(mut cells: Vec<Cell>, works: &[String]) -> Result<Vec<Cell>, String> {
    let named = |name: &str| works.iter().any(|work| work == name);
    if let Some(unknown) = works.iter().find(|work| !cells.iter().any(|cell| cell.work.name == **work)) {
        let mut there: Vec<&str> = cells.iter().map(|cell| cell.work.name).collect();
        there.dedup();
        return Err(match there.is_empty() {
            true => format!("no work {unknown}: what was chosen has cells of strategies, and no works"),
            false => format!("no work {unknown} in what was chosen; there are {}", there.join(", ")),
        });
    }
    let shares = |cell: &Cell| match cell.work.pace {
        Pace::Share { of, .. } if named(cell.work.name) => Some(of),
        _ => None,
    };
    let rates: Vec<&str> = cells.iter().filter_map(shares).collect();
    cells.retain(|cell| named(cell.work.name) || rates.contains(&cell.work.name));
    Ok(cells)
}

/// The engines that run a work: all, or the first that others are compared with, and the first of all where there is none.
fn engines_of<'a>(work: &Work, engines: &'a [String], rivals: &[&str]) -> &'a [String] {
    if !matches!(work.pace, Pace::Highest { baseline_only: true, .. }) {
        return engines;
    }
    let find = |rival: &&str| engines.iter().position(|engine| engine == rival);
    let at = rivals.iter().find_map(find).unwrap_or(0);
    engines.get(at..=at).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::{ALL, find};
    use crate::run::arguments::RunArgs;
    use crate::run::load_arguments::LoadArgs;
    use crate::workloads::catalog;
    use crate::workloads::property_file::Properties;

    fn plan_of(names: &[&str], engines: &[&str], scale: Scale) -> Vec<Cell> {
        let chosen: Vec<_> = names.iter().map(|name| find(name).unwrap()).collect();
        let engines: Vec<String> = engines.iter().map(|&name| name.to_owned()).collect();
        plan(&chosen, ALL, &engines, &[Settings::Equal], scale)
    }

    #[test]
    fn runs_alternate_and_works_are_through_one_by_one() {
        let cells = plan_of(&["peers-read"], &["evenkeel", "rocksdb"], Scale::full(None));
        assert_eq!(cells.len(), 8 * 3 * 2);
        let titles: Vec<String> = cells.iter().take(3).map(Cell::title).collect();
        assert_eq!(
            titles,
            [
                "peers-read readrandom-1: evenkeel, equal, round 1 of 3",
                "peers-read readrandom-1: rocksdb, equal, round 1 of 3",
                "peers-read readrandom-1: evenkeel, equal, round 2 of 3",
            ]
        );
        assert_eq!(cells[2].file(), "peers-read/evenkeel-equal-readrandom-1-43.json");
        let mut files: Vec<String> = cells.iter().map(Cell::file).collect();
        files.sort();
        files.dedup();
        assert_eq!(files.len(), cells.len(), "each cell has a file of its own");
    }

    #[test]
    fn works_may_be_chosen_and_come_with_what_they_take_a_share_of() {
        let all = || plan_of(&["peers-ycsb"], &["evenkeel", "rocksdb"], Scale::full(Some(1)));
        let works = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
            only(all(), &names).map(|cells| cells.iter().map(|cell| cell.work.name).collect::<Vec<_>>())
        };
        assert_eq!(works(&["a-20k"]).unwrap(), ["a-20k"; 2]);
        assert_eq!(works(&["f-80", "a-20k"]).unwrap(), ["a-20k", "a-20k", "f-sustained", "f-80", "f-80"]);
        assert_eq!(
            works(&["a-20k", "b"]).unwrap_err(),
            "no work b in what was chosen; there are a-sustained, a-20k, a-50, a-80, f-sustained, f-20k, f-50, f-80"
        );
        assert!(only(Vec::new(), &["b".to_owned()]).unwrap_err().ends_with("no works"));
    }

    #[test]
    fn works_of_others_are_borrowed_once() {
        let cost = plan_of(&["peers-cost"], &["evenkeel"], Scale::full(None));
        let both = plan_of(&["peers-cost", "peers-fill"], &["evenkeel"], Scale::full(None));
        assert_eq!((cost.len(), both.len()), (10, 10));
        assert_eq!((both[0].experiment, both[9].work.name), ("peers-fill", "a-20k"));
    }

    #[test]
    fn a_rate_is_found_once_on_what_others_compare_with() {
        let found = |engines: &[&str]| {
            let cells = plan_of(&["peers-ycsb"], engines, Scale::full(None));
            let of: Vec<String> = cells
                .iter()
                .filter(|cell| cell.work.name == "a-sustained")
                .map(|cell| cell.system.engine.clone())
                .collect();
            of
        };
        assert_eq!(found(&["evenkeel", "rocksdb"]), ["rocksdb"]);
        assert_eq!(found(&["fjall", "evenkeel"]), ["fjall"]);
    }

    #[test]
    fn a_cell_is_asked_for_in_words() {
        let word = |name: &str, scale, rate| {
            let cells = plan_of(&["peers-fill", "peers-ycsb", "peers-max-rate"], &["evenkeel"], scale);
            let cell = cells.iter().find(|cell| cell.work.name == name).unwrap();
            let store = cell.store(scale).map(|(name, words)| format!("{name}: {}", words.join(" ")));
            (cell.arguments(scale, rate).join(" "), store)
        };
        let full = Scale::full(None);
        let fill = "bench fillrandom --threads 1 --records 10000000 --value-bytes 100 --seed 42";
        assert_eq!(word("fillrandom", full, None), (fill.to_owned(), None));
        let store =
            "evenkeel-equal-2000000x1000: bench fillrandom --records 2000000 --value-bytes 1000 --seed 42";
        let half = "bench ycsb-a --threads 8 --seconds 60 --rate 61728 --seed 42";
        assert_eq!(word("a-50", full, Some(123_456.0)), (half.to_owned(), Some(store.to_owned())));
        let quick = Scale::quick(None);
        assert!(quick.is_quick() && !full.is_quick());
        assert_eq!(quick.common(), ["memtable_bytes=8388608", "cache_bytes=33554432"]);
        assert!(word("fillrandom", quick, None).0.contains("--records 1250000"));
        let highest =
            "bench ycsb-a --threads 8 --seconds 0.6 --budget 3 --p99 10ms --find-max-rate --seed 42";
        assert_eq!(word("a-10ms", Scale::part(100, None), None).0, highest);
        assert_eq!(Scale::part(1000, None).common(), ["memtable_bytes=1048576", "cache_bytes=1048576"]);
    }

    /// What the lab asks for is what the measuring commands take.
    #[test]
    fn all_words_are_understood() {
        #[derive(clap::Parser)]
        struct Command {
            workload: String,
            #[command(flatten)]
            run: RunArgs,
            #[command(flatten)]
            load: LoadArgs,
        }
        let names: Vec<&str> = ALL.iter().map(|experiment| experiment.id).collect();
        for scale in [Scale::full(None), Scale::quick(None), Scale::part(1_000_000, None)] {
            for cell in plan_of(&names, &["evenkeel", "rocksdb"], scale) {
                let all = [
                    Some(cell.arguments(scale, Some(1e5))),
                    cell.crash(scale),
                    cell.store(scale).map(|(_, words)| words),
                ];
                for words in all.into_iter().flatten() {
                    let parsed: Command = clap::Parser::try_parse_from(&words).unwrap();
                    let described = Properties::from(catalog::find(&parsed.workload).unwrap());
                    parsed.run.check(&described.workload).unwrap();
                    if let Some(load) = parsed.load.load().unwrap() {
                        load.check(&described.workload, parsed.run.limits(&described).1).unwrap();
                    }
                }
            }
        }
    }

    #[test]
    fn rounds_are_the_work_s_own_unless_said() {
        let count = |scale| plan_of(&["peers-ycsb"], &["evenkeel"], scale).len();
        assert_eq!(count(Scale::full(None)), 2 + 6 * 5);
        assert_eq!(count(Scale::full(Some(2))), 2 + 6 * 2);
        assert_eq!(count(Scale::quick(None)), 8);
    }

    #[test]
    fn rounds_may_begin_later_but_for_what_finds_a_rate() {
        let cells = plan_of(&["peers-ycsb"], &["evenkeel"], Scale::quick(None).from_round(3));
        let seed = |name: &str| cells.iter().find(|cell| cell.work.name == name).unwrap().seed();
        assert_eq!((cells.len(), seed("a-sustained"), seed("a-50")), (8, 42, 44));
        assert_eq!(Scale::full(Some(2)).from_round(3).rounds_or(5), 3..=4);
    }
}
