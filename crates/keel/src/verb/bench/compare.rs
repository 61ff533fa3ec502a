//! `keel bench W --engine A --engine B`: alternating runs of several engines, compared.
//!
//! ```text
//! round 1:  A equal   B equal   A recommended   B recommended
//! round 2:  A equal   …             each run: a fresh directory, a process of its own, its document
//!                                             └─ others were busy? again, twice at most
//! ```

use std::path::{Path, PathBuf};

use clap::builder::PossibleValuesParser;
use evenkeel_lab::base::device::{Device, room_for};
use evenkeel_lab::results::comparison::{self, Comparison, Run};
use evenkeel_lab::results::settings::{Common, OURS, Settings};
use evenkeel_lab::run::driver::Dataset;

use super::process::{self, Process, REPEATS_MAX};
use crate::device::{self, DeviceArgs};
use crate::failure::Failure;
use crate::files;
use crate::loop_device::LoopDevice;
use crate::progress::RunsBar;
use crate::store::EngineArgs;

/// Flags of comparisons.
#[derive(clap::Args, Debug)]
pub struct CompareArgs {
    /// How engines are set up: all alike, each by its own advice, or both in turn, as they are unless said.
    #[arg(long, value_name = "WHICH", help_heading = "Comparison", value_parser = PossibleValuesParser::new(["equal", "recommended", "both"]))]
    settings: Option<String>,
    /// Runs of each engine, 3 unless said; verdicts on tails need 5.
    #[arg(long, value_name = "N", help_heading = "Comparison", value_parser = clap::value_parser!(u16).range(3..=1000))]
    rounds: Option<u16>,
    /// The command that measures the other engines; else `KEEL_PEERS`, or peers/target/release/keel-peers.
    #[arg(long, value_name = "PATH", help_heading = "Comparison")]
    peers: Option<PathBuf>,
    /// The size of the loop device that --device makes for engines other than evenkeel; some times the records unless said.
    #[arg(long, value_name = "SIZE", requires = "device", help_heading = "Device", value_parser = device::size)]
    device_size: Option<u64>,
}

impl CompareArgs {
    /// True if a flag asks for a comparison.
    pub fn asked(&self) -> bool {
        self.settings.is_some() || self.rounds.is_some() || self.device_size.is_some()
    }

    fn settings(&self) -> Vec<Settings> {
        match self.settings.as_deref() {
            None | Some("both") => Settings::ALL.map(|(_, settings)| settings).into(),
            Some(named) => Settings::parse(named).into_iter().collect(),
        }
    }
}

/// Who runs, and how often.
pub struct Plan {
    contestants: Vec<Contestant>,
    rounds: u16,
    /// All run on a loop device of this speed.
    loop_bytes_per_sec: Option<u64>,
    loop_size: Option<u64>,
}

/// One engine under one of the settings.
struct Contestant {
    engine: String,
    settings: Settings,
    process: Process,
}

impl Plan {
    /// The plan of a command line.
    pub fn new(
        args: &CompareArgs,
        engines: &[String],
        options: &EngineArgs,
        device: &DeviceArgs,
    ) -> Result<Plan, Failure> {
        if let Some(twice) = engines.iter().enumerate().find(|(i, engine)| engines[..*i].contains(engine)) {
            return Err(Failure::usage(format!("--engine {} is there twice", twice.1)));
        }
        let (common, own) = split_set(&options.set)?;
        // What evenkeel would refuse is refused before anybody runs.
        EngineArgs { set: own.clone(), ..options.clone() }.options()?;
        let peers = match engines.iter().any(|engine| engine != OURS) {
            true => Some(process::find_peers(args.peers.as_deref())?),
            false => None,
        };
        // Only evenkeel can be emulated a device, and all must have the same.
        let looped = peers.is_some() && device.bytes_per_sec().is_some();
        check_device(args, device, looped)?;
        let emulated = if looped { DeviceArgs::default() } else { device.clone() };
        let mut contestants = Vec::new();
        for settings in args.settings() {
            for engine in engines {
                let process = match (&peers, engine != OURS) {
                    (Some(peers), true) => {
                        process::peer(peers, process::typed(), engine, settings, &common, options)
                    }
                    _ => process::ours(process::typed(), settings, &common, &own, options, &emulated)?,
                };
                contestants.push(Contestant { engine: engine.clone(), settings, process });
            }
        }
        let loop_bytes_per_sec = device.bytes_per_sec().filter(|_| looped);
        let rounds = args.rounds.unwrap_or(3);
        Ok(Plan { contestants, rounds, loop_bytes_per_sec, loop_size: args.device_size })
    }

    /// Runs all in turn, in fresh directories below `base`: on `data`, with about so many operations.
    pub fn run(&self, base: &Path, keep: bool, data: &Dataset, ops: u64) -> Result<Comparison, Failure> {
        let Some(bytes_per_sec) = self.loop_bytes_per_sec else {
            return self.run_on(base, keep, None);
        };
        if keep {
            return Err(Failure::usage("a loop device goes when the comparison ends; leave --keep away"));
        }
        let size = self.loop_size.unwrap_or_else(|| size_for(data, ops));
        let device = LoopDevice::make(base, size, bytes_per_sec)?;
        self.run_on(device.dir(), keep, Some(device.told()))
    }

    /// What an engine cannot do is told before any is measured.
    fn check(&self, base: &Path) -> Result<(), Failure> {
        for contestant in self.contestants.iter().filter(|contestant| contestant.engine != OURS) {
            let dir = base.join("check");
            let checked = contestant.process.check(&dir).map_err(|error| error.of(&contestant.engine));
            remove(&dir)?;
            checked?;
        }
        Ok(())
    }

    fn run_on(&self, base: &Path, keep: bool, device: Option<Device>) -> Result<Comparison, Failure> {
        self.check(base)?;
        let bar = RunsBar::start(self.contestants.len() as u64 * u64::from(self.rounds));
        let mut runs = Vec::new();
        for round in 1..=self.rounds {
            for contestant in &self.contestants {
                let name = format!("{round}-{}-{}", contestant.settings.name(), contestant.engine);
                bar.now(&format!(
                    "round {round} of {}: {}, {}",
                    self.rounds,
                    contestant.engine,
                    contestant.settings.name()
                ));
                runs.push(contestant.run(base, &name, keep, device)?);
                bar.advance();
            }
        }
        bar.finish();
        comparison::compare(&runs).map_err(Failure::work)
    }
}

impl Contestant {
    /// The least disturbed of a few attempts, the first that is not.
    fn run(&self, base: &Path, name: &str, keep: bool, device: Option<Device>) -> Result<Run, Failure> {
        process::least_disturbed(self.settings, REPEATS_MAX, |repeats| {
            let dir = base.join(format!("{name}-{repeats}"));
            let document = self.process.run(&dir);
            if evenkeel_sys::was_interrupted() {
                return Err(Failure::work("interrupted"));
            }
            if !keep {
                remove(&dir)?;
            }
            let mut document = document.map_err(|error| error.of(&self.engine))?;
            if let Some(device) = device {
                document.config.set_device(device);
            }
            Ok(document)
        })
    }
}

fn remove(dir: &Path) -> Result<(), Failure> {
    files::remove_all_if_there(dir)
        .map_err(|error| Failure::work(format!("cannot remove {}: {error}", dir.display())))
}

/// Refuses what one kind of device has and the other has not.
fn check_device(args: &CompareArgs, device: &DeviceArgs, looped: bool) -> Result<(), Failure> {
    if looped && device.latency_us().is_some() {
        return Err(Failure::usage(
            "a loop device has no latency of its own; leave --device-latency-us away, or compare evenkeel alone",
        ));
    }
    if !looped && args.device_size.is_some() {
        return Err(Failure::usage(
            "evenkeel alone runs on an emulated device, which has no size; leave --device-size away",
        ));
    }
    Ok(())
}

/// Room for a store of `data` and as many records as there are operations.
fn size_for(data: &Dataset, ops: u64) -> u64 {
    let record = (data.key_bytes + data.value_bytes.max()) as u64;
    room_for((data.records + ops).saturating_mul(record))
}

/// `--set`: what all engines have in common, and what is evenkeel's own.
fn split_set(set: &[String]) -> Result<(Vec<String>, Vec<String>), Failure> {
    let (mut common, mut own) = (Vec::new(), Vec::new());
    for assignment in set {
        let (name, value) = assignment.split_once('=').unwrap_or((assignment, ""));
        let known = Common::default().set(name.trim(), value.trim()).map_err(Failure::usage)?;
        if known { common.push(assignment.clone()) } else { own.push(assignment.clone()) }
    }
    Ok((common, own))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_all_are_told_from_our_own() {
        let set = ["memtable_bytes=8MiB", "workers=2", "block_bytes=8192"].map(str::to_owned);
        let (common, own) = split_set(&set).unwrap();
        assert_eq!((common.len(), own), (2, vec!["workers=2".to_owned()]));
        assert!(split_set(&["cache_bytes=much".to_owned()]).is_err());
    }
}
