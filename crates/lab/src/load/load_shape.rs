//! Load shapes: how many requests a second come, as a function of time. Values with a text form, as people type them.
//!
//! ```text
//! constant:20k                       ▆▆▆▆▆▆▆▆▆▆▆▆
//! peaks:20k,2k,10,5                  ▆▆▆▆▁▁▆▆▆▆▁▁     high, low, seconds of a peak, seconds of a valley
//! steps:5k@10,10k@10                 ▃▃▃▃▃▃▆▆▆▆▆▆     rate @ seconds, one after the other
//! nutanix                            ▆▆▁▆▆▆▁▁▆▁▁▆     peaks and valleys of random length
//! recorded:load.csv                  ▂▅▃▆▇▂▁▃▄▆▅▃     second,rate
//! ```
//!
//! A rate is requests a second, or a share of the highest rate that the store sustains (`50%`), which must be found first.

use std::fmt;

use crate::base::random::Random;

/// The highest rate that can be asked for, per second.
const RATE_MAX: f64 = 1e7;
/// The shortest and the longest part of a shape, in seconds.
const SECONDS_MIN: f64 = 0.01;
const SECONDS_MAX: f64 = 1e7;

/// How many requests come in a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rate {
    /// So many.
    PerSec(f64),
    /// This part of the highest rate that the store sustains.
    Share(f64),
}

impl Rate {
    /// Requests a second, where the store sustains `maximum`.
    pub fn per_sec(self, maximum: f64) -> f64 {
        match self {
            Rate::PerSec(rate) => rate,
            Rate::Share(share) => share * maximum,
        }
    }

    /// Reads `20000`, `20k`, `1.5M` or `50%`.
    ///
    /// # Errors
    /// What a rate looks like.
    pub fn parse(text: &str) -> Result<Rate, String> {
        let wrong = || {
            format!(
                "`{text}` is no rate; give requests a second, for instance 20000 or 20k, or a share such as 50%"
            )
        };
        let (digits, unit) = match text.as_bytes().last() {
            Some(b'%') => (&text[..text.len() - 1], 0.01),
            Some(b'k' | b'K') => (&text[..text.len() - 1], 1e3),
            Some(b'm' | b'M') => (&text[..text.len() - 1], 1e6),
            _ => (text, 1.0),
        };
        let number: f64 = digits.parse().map_err(|_| wrong())?;
        if !(number >= 0.0 && number * unit <= RATE_MAX) {
            return Err(wrong());
        }
        Ok(if text.ends_with('%') { Rate::Share(number / 100.0) } else { Rate::PerSec(number * unit) })
    }

    /// As [`Rate::parse`], and above 0.
    ///
    /// # Errors
    /// What is wrong, and what would be right.
    pub fn parse_load(text: &str) -> Result<Rate, String> {
        Rate::parse(text).and_then(some_load)
    }

    fn is_zero(self) -> bool {
        matches!(self, Rate::PerSec(x) | Rate::Share(x) if x == 0.0)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            // Rounding takes away what multiplying by a hundred added: 0.07 is 7 %.
            Rate::Share(share) => write!(f, "{}%", (share * 1e8).round() / 1e6),
            Rate::PerSec(rate) if rate >= 1e6 && rate % 1e5 == 0.0 => write!(f, "{}M", rate / 1e6),
            Rate::PerSec(rate) if rate >= 1e3 && rate % 100.0 == 0.0 => write!(f, "{}k", rate / 1e3),
            Rate::PerSec(rate) => write!(f, "{rate}"),
        }
    }
}

/// The load over time.
#[derive(Clone, Debug, PartialEq)]
pub enum LoadShape {
    /// The same rate for ever.
    Constant(Rate),
    /// Peaks and valleys in turn, for ever; a peak comes first.
    Peaks {
        /// The rate of a peak.
        high: Rate,
        /// The rate of a valley.
        low: Rate,
        /// How long a peak lasts.
        peak_seconds: f64,
        /// How long a valley lasts.
        valley_seconds: f64,
    },
    /// Rates one after the other, each for so many seconds.
    Steps(Vec<(Rate, f64)>),
    /// Peaks and valleys as in the production load of the SILK paper (ATC '19, fig. 7): nine peaks of ten last 10 to 20
    /// seconds and the tenth 100 to 150, valleys last 5 to 20 seconds and 15 in the mean.
    Nutanix {
        /// The rate of a peak.
        high: Rate,
        /// The rate of a valley.
        low: Rate,
        /// What the lengths follow from, if not from the run's seed.
        seed: Option<u64>,
    },
    /// What was recorded elsewhere.
    Recorded {
        /// Where, for people.
        name: String,
        /// Requests a second from each of these seconds on; the first is 0. The last rate holds for one second.
        rows: Vec<(f64, f64)>,
    },
}

/// A stretch of time at one rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Piece {
    /// Requests a second.
    pub rate: f64,
    /// How long.
    pub seconds: f64,
}

/// The forms that people can type, for help and errors.
pub const FORMS: &str = "constant:RATE, sustained, peaks:HIGH,LOW,PEAK_SECONDS,VALLEY_SECONDS, steps:RATE@SECONDS,…, \
                         nutanix[:HIGH,LOW[,SEED]], recorded:FILE";

impl LoadShape {
    /// Reads a shape. `read` gives the text of a recording.
    ///
    /// # Errors
    /// What is wrong, and what the form looks like.
    pub fn parse(text: &str, read: impl FnOnce(&str) -> Result<String, String>) -> Result<LoadShape, String> {
        let (form, rest) = text.split_once(':').unwrap_or((text, ""));
        match (form, rest) {
            ("sustained", "") => Ok(LoadShape::Constant(Rate::Share(1.0))),
            ("nutanix", "") => Ok(LoadShape::Nutanix {
                high: Rate::PerSec(20_000.0),
                low: Rate::PerSec(2_000.0),
                seed: None,
            }),
            ("constant", rest) => Ok(LoadShape::Constant(some_load(Rate::parse(rest)?)?)),
            ("peaks", rest) => {
                let parts: Vec<&str> = rest.split(',').collect();
                let [high, low, peak, valley] = parts[..] else {
                    return Err(format!(
                        "`{text}`: peaks are HIGH,LOW,PEAK_SECONDS,VALLEY_SECONDS, for instance peaks:20k,2k,10,5"
                    ));
                };
                let (high, low) = (some_load(Rate::parse(high)?)?, Rate::parse(low)?);
                Ok(LoadShape::Peaks {
                    high,
                    low,
                    peak_seconds: length(peak)?,
                    valley_seconds: length(valley)?,
                })
            }
            ("nutanix", rest) => {
                let wrong = || {
                    format!(
                        "`{text}`: give the rates of peaks and of valleys, and a seed if you like, for instance \
                         nutanix:20k,2k or nutanix:20k,2k,7"
                    )
                };
                let (high, rest) = rest.split_once(',').ok_or_else(wrong)?;
                let (low, seed) = match rest.split_once(',') {
                    Some((low, seed)) => (low, Some(seed.parse().map_err(|_| wrong())?)),
                    None => (rest, None),
                };
                Ok(LoadShape::Nutanix { high: some_load(Rate::parse(high)?)?, low: Rate::parse(low)?, seed })
            }
            ("steps", rest) => steps(rest),
            ("recorded", "") => Err("recorded: which file? recorded:FILE, lines of second,rate".to_owned()),
            ("recorded", name) => recorded(name, &read(name)?),
            _ => Err(format!("`{text}` is no load shape; there are {FORMS}")),
        }
    }

    /// True if a rate of it is a share of what the store sustains.
    pub fn needs_maximum(&self) -> bool {
        let share = |rate: &Rate| matches!(rate, Rate::Share(_));
        match self {
            LoadShape::Constant(rate) => share(rate),
            LoadShape::Peaks { high, low, .. } | LoadShape::Nutanix { high, low, .. } => {
                share(high) || share(low)
            }
            LoadShape::Steps(steps) => steps.iter().any(|(rate, _)| share(rate)),
            LoadShape::Recorded { .. } => false,
        }
    }

    /// How long it is, if it ends.
    pub fn seconds(&self) -> Option<f64> {
        match self {
            LoadShape::Steps(steps) => Some(steps.iter().map(|(_, seconds)| seconds).sum()),
            LoadShape::Recorded { rows, .. } => rows.last().map(|(second, _)| second + 1.0),
            _ => None,
        }
    }

    /// How long a run should be that nobody gave a length: long enough to see what the shape is about.
    pub fn usual_seconds(&self) -> f64 {
        match self {
            LoadShape::Peaks { peak_seconds, valley_seconds, .. } => 3.0 * (peak_seconds + valley_seconds),
            LoadShape::Nutanix { .. } => 300.0,
            _ => self.seconds().unwrap_or(60.0),
        }
    }

    /// The stretches of time of which it consists, where the store sustains `maximum`. Shapes without an end go on for
    /// ever; random ones follow from `seed`.
    pub fn pieces(&self, maximum: f64, seed: u64) -> Box<dyn Iterator<Item = Piece> + '_> {
        let piece = move |rate: Rate, seconds: f64| Piece { rate: rate.per_sec(maximum), seconds };
        match self {
            LoadShape::Constant(rate) => Box::new(std::iter::repeat(piece(*rate, SECONDS_MAX))),
            LoadShape::Peaks { high, low, peak_seconds, valley_seconds } => {
                Box::new([piece(*high, *peak_seconds), piece(*low, *valley_seconds)].into_iter().cycle())
            }
            LoadShape::Steps(steps) => {
                Box::new(steps.iter().map(move |&(rate, seconds)| piece(rate, seconds)))
            }
            LoadShape::Nutanix { high, low, seed: own } => {
                let mut random = Random::new(own.unwrap_or(seed));
                let both = move || [piece(*high, peak(&mut random)), piece(*low, valley(&mut random))];
                Box::new(std::iter::repeat_with(both).flatten())
            }
            LoadShape::Recorded { rows, .. } => {
                let ends = rows.iter().skip(1).map(|(second, _)| *second).chain(self.seconds());
                Box::new(rows.iter().zip(ends).map(|(&(from, rate), to)| Piece { rate, seconds: to - from }))
            }
        }
    }
}

impl fmt::Display for LoadShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadShape::Constant(rate) => write!(f, "constant:{rate}"),
            LoadShape::Peaks { high, low, peak_seconds, valley_seconds } => {
                write!(f, "peaks:{high},{low},{peak_seconds},{valley_seconds}")
            }
            LoadShape::Steps(steps) => {
                f.write_str("steps:")?;
                for (i, (rate, seconds)) in steps.iter().enumerate() {
                    write!(f, "{}{rate}@{seconds}", if i == 0 { "" } else { "," })?;
                }
                Ok(())
            }
            LoadShape::Nutanix { high, low, seed: None } => write!(f, "nutanix:{high},{low}"),
            LoadShape::Nutanix { high, low, seed: Some(seed) } => write!(f, "nutanix:{high},{low},{seed}"),
            LoadShape::Recorded { name, .. } => write!(f, "recorded:{name}"),
        }
    }
}

fn peak(random: &mut Random) -> f64 {
    match random.below(10) {
        0 => 100.0 + 50.0 * random.unit(),
        _ => 10.0 + 10.0 * random.unit(),
    }
}

/// A triangle that rises from 5 to 20 seconds: its mean is 15.
fn valley(random: &mut Random) -> f64 {
    5.0 + 15.0 * random.unit().sqrt()
}

fn steps(text: &str) -> Result<LoadShape, String> {
    let step = |step: &str| {
        let (rate, seconds) = step
            .split_once('@')
            .ok_or_else(|| format!("`{step}`: a step is RATE@SECONDS; for instance steps:5k@10,10k@10"))?;
        Ok((Rate::parse(rate)?, length(seconds)?))
    };
    let steps = text.split(',').map(step).collect::<Result<Vec<_>, String>>()?;
    if steps.iter().all(|(rate, _)| rate.is_zero()) {
        return Err("steps: at least one rate must be above 0".to_owned());
    }
    Ok(LoadShape::Steps(steps))
}

fn recorded(name: &str, text: &str) -> Result<LoadShape, String> {
    let mut rows: Vec<(f64, f64)> = Vec::new();
    let mut origin = None;
    for (i, line) in text.lines().enumerate() {
        let line = line.trim();
        let is_header = i == 0 && line.starts_with(|c: char| c.is_ascii_alphabetic());
        if line.is_empty() || line.starts_with('#') || is_header {
            continue;
        }
        let wrong = |what: &str| Err(format!("{name}:{}: `{line}`: {what}", i + 1));
        let fields = line.split_once(',').map(|(s, r)| (s.trim().parse::<f64>(), r.trim().parse::<f64>()));
        let Some((Ok(second), Ok(rate))) = fields else {
            return wrong("a line is second,rate, for instance 17,20000");
        };
        if !(0.0..=RATE_MAX).contains(&rate) || !(0.0..=1e12).contains(&second) {
            return wrong("seconds and rates are 0 or more");
        }
        let second = second - *origin.get_or_insert(second);
        if rows.last().is_some_and(|(before, _)| second - before < SECONDS_MIN) || second > SECONDS_MAX {
            return wrong("seconds rise from line to line");
        }
        rows.push((second, rate));
    }
    if rows.iter().all(|(_, rate)| *rate == 0.0) {
        return Err(format!("{name}: no line has a rate above 0; lines are second,rate"));
    }
    Ok(LoadShape::Recorded { name: name.to_owned(), rows })
}

fn some_load(rate: Rate) -> Result<Rate, String> {
    if rate.is_zero() { Err("a rate of 0 is no load; give one above 0".to_owned()) } else { Ok(rate) }
}

fn length(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (SECONDS_MIN..=SECONDS_MAX).contains(&seconds) => Ok(seconds),
        _ => Err(format!("`{text}`: give seconds from {SECONDS_MIN} on, for instance 10 or 0.5")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<LoadShape, String> {
        LoadShape::parse(text, |name| Err(format!("no file {name}")))
    }

    fn pieces(shape: &LoadShape, seed: u64, count: usize) -> Vec<(f64, f64)> {
        shape.pieces(100_000.0, seed).take(count).map(|p| (p.rate, p.seconds)).collect()
    }

    #[test]
    fn each_form_is_read_and_said_again() {
        for (text, again) in [
            ("constant:20000", "constant:20k"),
            ("constant:1.5k", "constant:1.5k"),
            ("constant:12.5", "constant:12.5"),
            ("constant:2M", "constant:2M"),
            ("constant:7%", "constant:7%"),
            ("sustained", "constant:100%"),
            ("peaks:150%,2k,10,0.5", "peaks:150%,2k,10,0.5"),
            ("steps:5k@10,0@1,10k@2.5", "steps:5k@10,0@1,10k@2.5"),
            ("nutanix", "nutanix:20k,2k"),
            ("nutanix:80%,8%", "nutanix:80%,8%"),
            ("nutanix:5k,500,7", "nutanix:5k,500,7"),
        ] {
            let shape = parse(text).unwrap();
            assert_eq!(shape.to_string(), again);
            assert_eq!(parse(again), Ok(shape), "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_said_with_an_example() {
        for (text, teaches) in [
            ("", "constant:RATE"),
            ("sine:3", "peaks:HIGH"),
            ("constant:", "20k"),
            ("constant:0", "above 0"),
            ("constant:-1", "20k"),
            ("constant:nan", "20k"),
            ("constant:1e99", "20k"),
            ("peaks:1,2,3", "peaks:20k,2k,10,5"),
            ("peaks:1,2,3,0", "seconds"),
            ("steps:5k", "steps:5k@10"),
            ("steps:0@5", "above 0"),
            ("nutanix:5k", "nutanix:20k,2k"),
            ("nutanix:5k,500,x", "nutanix:20k,2k,7"),
            ("recorded", "second,rate"),
            ("recorded:x.csv", "no file x.csv"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(teaches), "{text}: {error}");
        }
    }

    #[test]
    fn pieces_are_the_shape() {
        let of = |text: &str, count| pieces(&parse(text).unwrap(), 1, count);
        assert_eq!(of("constant:50%", 1)[0].0, 50_000.0);
        assert_eq!(of("peaks:20%,2k,10,5", 3), [(20_000.0, 10.0), (2_000.0, 5.0), (20_000.0, 10.0)]);
        assert_eq!(of("steps:5@1,6@2", 9), [(5.0, 1.0), (6.0, 2.0)]);
        assert_eq!(parse("steps:5@1,6@2").unwrap().seconds(), Some(3.0));
        assert!(parse("steps:5@1,60%@2").unwrap().needs_maximum());
        assert!(!parse("peaks:5,6,7,8").unwrap().needs_maximum());
    }

    #[test]
    fn the_production_profile_has_the_paper_s_lengths() {
        let all = pieces(&parse("nutanix").unwrap(), 7, 20_000);
        assert_eq!(all, pieces(&parse("nutanix").unwrap(), 7, 20_000));
        assert_eq!(all, pieces(&parse("nutanix:20k,2k,7").unwrap(), 8, 20_000));
        let (peaks, valleys): (Vec<_>, Vec<_>) = all.iter().partition(|(rate, _)| *rate == 20_000.0);
        let short = peaks.iter().filter(|(_, s)| (10.0..=20.0).contains(s)).count();
        let long = peaks.iter().filter(|(_, s)| *s >= 100.0).count();
        assert_eq!((peaks.len(), valleys.len(), short + long), (10_000, 10_000, 10_000));
        assert!((8_800..9_200).contains(&short), "{short}");
        assert!(valleys.iter().all(|(rate, s)| *rate == 2_000.0 && (5.0..=20.0).contains(s)));
        let mean = valleys.iter().map(|(_, s)| s).sum::<f64>() / 10_000.0;
        assert!((14.8..15.2).contains(&mean), "{mean}");
    }

    #[test]
    fn recordings_are_read() {
        let read = |text: &str| LoadShape::parse("recorded:a.csv", |_| Ok(text.to_owned()));
        let shape = read("second,rate\n# a remark\n100, 5\n101,0\n\n103.5,7\n").unwrap();
        assert_eq!(pieces(&shape, 1, 9), [(5.0, 1.0), (0.0, 2.5), (7.0, 1.0)]);
        assert_eq!((shape.seconds(), shape.to_string().as_str()), (Some(4.5), "recorded:a.csv"));
        for (text, teaches) in [
            ("", "second,rate"),
            ("1,0\n", "above 0"),
            ("1;2\n", "a.csv:1"),
            ("1,2\nx,3\n", "a.csv:2"),
            ("1,2\n1,3\n", "rise"),
            ("1,-2\n", "0 or more"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(teaches), "{text:?}: {error}");
        }
    }
}
