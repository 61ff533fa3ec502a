//! `keel schedule fit`: what a get and a scan of these clients read from files, from a look at a running store each second.

use std::fmt;
use std::time::Duration;

use evenkeel::schedule::{Estimator, Usage, fit_weights};
use evenkeel_lab::base::clock;
use evenkeel_lab::results::report::bytes;
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::live::ask_running;
use crate::output::Output;
use crate::progress::CountBar;
use crate::store::{Target, existing};

/// DLC's interval.
const EVERY: Duration = Duration::from_secs(1);

/// Looks for so many seconds, and prints the estimator that fits them best.
pub fn run(target: &Target, seconds: u64, json: bool) -> Result<(), Failure> {
    existing(target)?;
    let (mut before, schedule) = look(target)?;
    let (began, mut intervals) = (clock::now(), Vec::new());
    let bar = CountBar::start(seconds, "seconds");
    for second in 1..=seconds {
        clock::pause(EVERY);
        let (now, _) = look(target)?;
        intervals.push(now.since(&before));
        before = now;
        bar.advance_to(second);
    }
    bar.finish();
    let fitted = Fitted::of(&intervals, began.elapsed().as_secs_f64(), &schedule).map_err(Failure::work)?;
    let mut out = Output::new();
    if json { out.line(&fitted.to_json().to_string()) } else { out.line(&fitted.to_string()) }
}

/// What the running store has used until now, and its schedule.
fn look(target: &Target) -> Result<(Usage, String), Failure> {
    let Some(stats) = ask_running(target, "stats")? else {
        return Err(Failure::work(
            "no process answers at the store's control socket; weights are fitted to the clients of a running store, which answers there with the \
             option control_socket=true",
        ));
    };
    let schedule = stats["schedule"]["name"].as_str().unwrap_or_default();
    let used = usage(&stats["schedule"]["used"]).ok_or_else(|| {
        Failure::work(format!(
            "gets and scans are not counted under schedule `{schedule}`; one that estimates by them counts them, as \
             dlc-full:estimator=weighted@1@1 does: set it for as long as this takes, with keel schedule set",
        ))
    })?;
    Ok((used, schedule.to_owned()))
}

fn usage(used: &Value) -> Option<Usage> {
    let n = |name: &str| used[name].as_u64();
    Some(Usage {
        gets: n("gets")?,
        get_bytes: n("get_bytes")?,
        scans: n("scans")?,
        scan_bytes: n("scan_bytes")?,
        writes: n("writes")?,
        write_bytes: n("write_bytes")?,
        client_read_bytes: n("client_read_bytes")?,
        log_bytes: n("log_bytes")?,
        ..Usage::default()
    })
}

/// Weights, and how far they are off.
struct Fitted {
    get: f64,
    scan: f64,
    seconds: f64,
    bytes_per_sec: f64,
    off: f64,
    /// The schedule in force.
    schedule: String,
}

impl Fitted {
    fn of(intervals: &[Usage], seconds: f64, schedule: &str) -> Result<Fitted, String> {
        let sum = |of: fn(&Usage) -> u64| intervals.iter().map(of).sum::<u64>();
        let (gets, scans, read) = (sum(|u| u.gets), sum(|u| u.scans), sum(|u| u.client_read_bytes));
        // As many digits as are printed.
        let round = |weight: f64| (weight * 1e3).round() / 1e3;
        let (get, scan) = fit_weights(intervals).map_or((0.0, 0.0), |(get, scan)| (round(get), round(scan)));
        if get + scan == 0.0 {
            return Err(match (gets + scans, read) {
                (0, _) => "no gets and no scans came, so there is nothing to fit: look while clients read, or for longer (--seconds)".to_owned(),
                (_, 0) => format!(
                    "{gets} gets and {scans} scans came, and memory answered all of them: look while more is read than the cache holds, or for \
                     longer (--seconds)"
                ),
                _ => format!(
                    "{gets} gets and {scans} scans read {}, which does not tell what each of them reads: look while they come in \
                     changing proportions, and while some are written or found",
                    bytes(read)
                ),
            });
        }
        let estimator = Estimator::WeightedOps { get, scan };
        let moved = |used: &Usage| (used.client_read_bytes + used.log_bytes) as f64;
        let all: f64 = intervals.iter().map(moved).sum();
        let off: f64 = intervals.iter().map(|used| (estimator.bytes(used) - moved(used)).abs()).sum();
        let (off, bytes_per_sec) = (off / all.max(1.0), all / seconds.max(1e-3));
        Ok(Fitted { get, scan, seconds, bytes_per_sec, off, schedule: schedule.to_owned() })
    }

    /// As a knob has it.
    fn words(&self) -> String {
        format!("weighted@{}@{}", self.get, self.scan)
    }

    /// The schedule in force, with this estimator instead of its own.
    fn schedule(&self) -> String {
        let (name, knobs) = self.schedule.split_once(':').unwrap_or((&self.schedule, ""));
        let others = knobs.split(',').filter(|knob| !knob.is_empty() && !knob.starts_with("estimator="));
        let others: String = others.map(|knob| format!("{knob},")).collect();
        format!("{name}:{others}estimator={}", self.words())
    }

    fn to_json(&self) -> Value {
        json!({
            "estimator": self.words(),
            "schedule": self.schedule(),
            "get": self.get,
            "scan": self.scan,
            "seconds": self.seconds,
            "bytes_per_sec": self.bytes_per_sec.round(),
            "off": self.off,
        })
    }
}

impl fmt::Display for Fitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rate = bytes(self.bytes_per_sec as u64);
        writeln!(f, "estimator={}", self.words())?;
        write!(
            f,
            "off by {:.0} % of the {rate}/s that clients moved in {:.0} s; to use it: keel schedule set --db DIR {}",
            100.0 * self.off,
            self.seconds,
            self.schedule()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(gets: u64, scans: u64, read: u64) -> Usage {
        Usage { gets, get_bytes: 100 * gets, scans, client_read_bytes: read, ..Usage::default() }
    }

    #[test]
    fn weights_are_found_where_proportions_change() {
        let seconds = [second(100, 10, 80_000), second(50, 20, 85_000), second(10, 1, 8000)];
        let fitted = Fitted::of(&seconds, 4.0, "silk:floor=20%,estimator=weighted@1@1,jobs=2").unwrap();
        assert_eq!(fitted.to_json()["estimator"], "weighted@5@30");
        assert_eq!(fitted.schedule(), "silk:floor=20%,jobs=2,estimator=weighted@5@30");
        assert!(fitted.off < 1e-9);
        assert_eq!(fitted.to_json()["bytes_per_sec"], 43250.0);
    }

    #[test]
    fn what_is_off_is_told() {
        let fitted = Fitted::of(&[second(100, 0, 40_000), second(100, 0, 50_000)], 2.0, "paced").unwrap();
        assert_eq!(fitted.schedule(), "paced:estimator=weighted@4.5@0");
        assert!(
            fitted.to_string().starts_with("estimator=weighted@4.5@0\noff by 11 % of the 43.9 KiB/s"),
            "{fitted}"
        );
    }

    #[test]
    fn what_does_not_tell_is_said_so() {
        let refused = |intervals: &[Usage]| Fitted::of(intervals, 1.0, "paced").err().unwrap();
        assert!(refused(&[second(0, 0, 0)]).contains("nothing to fit"));
        assert!(refused(&[second(10, 1, 500), second(20, 2, 1000)]).contains("changing proportions"));
        assert!(refused(&[second(10, 0, 0)]).contains("memory answered all"));
    }
}
