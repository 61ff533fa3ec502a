//! `keel schedule fit`: what a get and a scan of these clients read from files, from a look at a running store each second.

use std::time::Duration;

use evenkeel::schedule::{Estimator, Usage, fit_weights};
use evenkeel_lab::base::clock;
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
    let mut before = look(target)?;
    let mut intervals = Vec::new();
    let bar = CountBar::start(seconds, "seconds");
    for second in 1..=seconds {
        clock::pause(EVERY);
        let now = look(target)?;
        intervals.push(now.since(&before));
        before = now;
        bar.advance_to(second);
    }
    bar.finish();
    let fitted = Fitted::of(&intervals).map_err(Failure::work)?;
    let mut out = Output::new();
    if json { out.line(&fitted.to_json().to_string()) } else { out.line(&fitted.to_string()) }
}

/// What the running store has used until now.
fn look(target: &Target) -> Result<Usage, Failure> {
    let Some(stats) = ask_running(target, "stats")? else {
        return Err(Failure::work(
            "no process answers at the store's control socket; weights are fitted to the clients of a running store",
        ));
    };
    usage(&stats["schedule"]["used"]).ok_or_else(|| {
        Failure::work(
            "gets and scans are counted while a schedule looks at them; have it do so first: \
             keel schedule set --db DIR dlc-full:estimator=weighted@1@1",
        )
    })
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

/// An estimator, and how far it is off.
struct Fitted {
    words: String,
    seconds: usize,
    bytes_per_sec: f64,
    off: f64,
}

impl Fitted {
    fn of(intervals: &[Usage]) -> Result<Fitted, String> {
        let sum = |of: fn(&Usage) -> u64| intervals.iter().map(of).sum::<u64>();
        let (gets, scans, read) = (sum(|u| u.gets), sum(|u| u.scans), sum(|u| u.client_read_bytes));
        let (estimator, words) = match fit_weights(intervals) {
            Some((get, scan)) if get >= 0.0 && scan >= 0.0 && get + scan >= 0.001 => {
                (Estimator::WeightedOps { get, scan }, format!("weighted@{get:.3}@{scan:.3}"))
            }
            _ if gets > 0 && scans == 0 && read >= gets => {
                let bytes = read / gets;
                (Estimator::PerGet(bytes), format!("per-get@{bytes}"))
            }
            _ if gets + scans == 0 => {
                return Err("no gets and no scans came, so there is nothing to fit".to_owned());
            }
            _ => {
                return Err(format!(
                    "{gets} gets and {scans} scans that read {read} bytes do not tell what each of them reads: look for \
                     longer, or while they come in changing proportions"
                ));
            }
        };
        let moved = |used: &Usage| (used.client_read_bytes + used.log_bytes) as f64;
        let all: f64 = intervals.iter().map(moved).sum();
        let off: f64 = intervals.iter().map(|used| (estimator.bytes(used) - moved(used)).abs()).sum();
        let seconds = intervals.len();
        Ok(Fitted { words, seconds, bytes_per_sec: all / seconds as f64, off: off / all.max(1.0) })
    }

    fn to_json(&self) -> Value {
        json!({ "estimator": self.words, "seconds": self.seconds, "bytes_per_sec": self.bytes_per_sec.round(), "off": self.off })
    }
}

impl std::fmt::Display for Fitted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let rate = evenkeel_lab::results::report::bytes(self.bytes_per_sec as u64);
        writeln!(f, "estimator={}", self.words)?;
        write!(
            f,
            "in the mean of {} seconds off by {:.0} % of {rate}/s that clients moved; it stands after the name of a schedule: \
             dlc-full:estimator={}",
            self.seconds,
            100.0 * self.off,
            self.words
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
        let fitted =
            Fitted::of(&[second(100, 10, 80_000), second(50, 20, 85_000), second(10, 1, 8000)]).unwrap();
        assert_eq!(fitted.words, "weighted@5.000@30.000");
        assert!(fitted.off < 1e-9);
        assert_eq!(fitted.to_json()["bytes_per_sec"], 57667.0);
    }

    #[test]
    fn of_gets_alone_their_bytes_are_found() {
        let fitted = Fitted::of(&[second(100, 0, 40_000), second(300, 0, 140_000)]).unwrap();
        assert_eq!(fitted.words, "per-get@450");
        assert!(fitted.to_string().contains("off by 6 % of 87.9 KiB/s"), "{fitted}");
    }

    #[test]
    fn what_does_not_tell_is_said_so() {
        let refused = |intervals: &[Usage]| Fitted::of(intervals).err().unwrap();
        assert!(refused(&[second(0, 0, 0)]).contains("nothing to fit"));
        assert!(refused(&[second(10, 1, 500), second(20, 2, 1000)]).contains("do not tell"));
        assert!(refused(&[second(10, 0, 0)]).contains("do not tell"));
    }
}
