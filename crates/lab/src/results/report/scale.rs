//! Axes: where a value lies between the ends, and which values are written beside.
//!
//! An axis covers all runs of a report, so that they compare by eye. A scale never fails: what is no number, or outside,
//! is put at an end.

use super::numbers::{count, micros};

/// One axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Scale {
    low: f64,
    high: f64,
    log: bool,
    /// Values with a line and words.
    pub ticks: Vec<Tick>,
}

/// A value that is written at an axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Tick {
    /// The value.
    pub at: f64,
    /// In words.
    pub label: String,
}

/// Steps between ticks of an axis of time, in seconds.
const TIME_STEPS: [f64; 14] =
    [0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0];

impl Scale {
    /// Where a value lies, 0 at the low end, 1 at the high end.
    pub fn place(&self, value: f64) -> f64 {
        let part = if self.log {
            (value.max(f64::MIN_POSITIVE) / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        if part.is_finite() { part.clamp(0.0, 1.0) } else { 0.0 }
    }

    /// Seconds from 0 to `last`.
    pub fn time(last: f64) -> Scale {
        let last = if last.is_finite() && last > 0.0 { last } else { 1.0 };
        let hours = [1.0, 2.0, 3.0, 6.0, 12.0, 24.0].map(|h| h * 3600.0);
        let fits = |step: &f64| last / step <= 6.0;
        let step = TIME_STEPS.into_iter().chain(hours).find(fits).unwrap_or(last / 4.0);
        let label = move |at: f64| match at {
            0.0 => "0".to_owned(),
            at if step >= 3600.0 => format!("{} h", trimmed(at / 3600.0)),
            at if step >= 60.0 => format!("{} min", trimmed(at / 60.0)),
            at => format!("{} s", trimmed(at)),
        };
        Scale { low: 0.0, high: last, log: false, ticks: steps(step, last, label) }
    }

    /// Latencies in microseconds, by decades.
    pub fn latency(values: impl Iterator<Item = f64>) -> Scale {
        let known = values.filter(|us| us.is_finite() && *us > 0.0);
        let ends = known.fold(None, |ends: Option<(f64, f64)>, us| {
            Some(ends.map_or((us, us), |(low, high)| (low.min(us), high.max(us))))
        });
        let (low, high) = ends.unwrap_or((1.0, 1000.0));
        // A nanosecond and a year bound what can be drawn.
        let from = low.log10().floor().clamp(-3.0, 13.0) as i32;
        let to = (high.log10().ceil().clamp(-3.0, 14.0) as i32).max(from + 1);
        let tick = |exponent: i32| {
            let at = 10f64.powi(exponent);
            Tick { at, label: short_latency(at) }
        };
        Scale {
            low: 10f64.powi(from),
            high: 10f64.powi(to),
            log: true,
            ticks: (from..=to).map(tick).collect(),
        }
    }

    /// Operations a second from 0.
    pub fn rate(highest: f64) -> Scale {
        Scale::from_zero(highest.max(4.0), 1000.0, |at| in_units(at, 1000.0, &["", " k", " M", " G"]))
    }

    /// Bytes a second from 0.
    pub fn bytes(highest: f64) -> Scale {
        let units = [" B", " KiB", " MiB", " GiB", " TiB"];
        Scale::from_zero(highest.max(4.0), 1024.0, |at| in_units(at, 1024.0, &units))
    }

    /// Whole things from 0.
    pub fn count(highest: f64) -> Scale {
        Scale::from_zero(highest.max(4.0), 1000.0, |at| count(at as u64))
    }

    /// A ratio from 0.
    pub fn ratio(highest: f64) -> Scale {
        Scale::from_zero(highest, 1000.0, trimmed)
    }

    /// Quantiles by what is left above them: 90 %, 99 %, 99.9 % …, up to one in `count`. Values are `1 / (1 - quantile)`.
    pub fn quantiles(count: f64) -> Scale {
        let nines = if count.is_finite() { count.log10().ceil().clamp(1.0, 12.0) as i32 } else { 1 };
        let tick = |n: i32| {
            let label = match n {
                0 => "0 %".to_owned(),
                1 => "90 %".to_owned(),
                n => format!("99{}{} %", if n > 2 { "." } else { "" }, "9".repeat(n as usize - 2)),
            };
            Tick { at: 10f64.powi(n), label }
        };
        Scale { low: 1.0, high: 10f64.powi(nines), log: true, ticks: (0..=nines).map(tick).collect() }
    }

    /// From 0 to at least `highest`, with three or four steps that are round in units of `base`.
    fn from_zero(highest: f64, base: f64, label: impl Fn(f64) -> String) -> Scale {
        let highest = if highest.is_finite() && highest > 0.0 { highest } else { 1.0 };
        let unit = base.powf(highest.log(base).floor().max(0.0));
        let rough = highest / unit / 4.0;
        let decade = 10f64.powf(rough.log10().floor());
        let round = [1.0, 2.0, 2.5, 5.0, 10.0].into_iter().find(|r| r * decade >= rough * 0.999_999);
        let step = round.unwrap_or(10.0) * decade * unit;
        let high = (highest / step * 0.999_999).ceil().max(1.0) * step;
        Scale { low: 0.0, high, log: false, ticks: steps(step, high, label) }
    }
}

fn steps(step: f64, last: f64, label: impl Fn(f64) -> String) -> Vec<Tick> {
    let at = (0..=16).map(|i| f64::from(i) * step).take_while(|at| *at <= last * 1.000_001);
    at.map(|at| Tick { at, label: label(at) }).collect()
}

/// A number without digits that say nothing: `2.5`, `3`.
fn trimmed(x: f64) -> String {
    let text = format!("{x:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A number in the largest unit that it fills.
fn in_units(x: f64, base: f64, units: &[&str]) -> String {
    let mut x = x;
    let mut unit = 0;
    while x >= base * 0.999_999 && unit + 1 < units.len() {
        x /= base;
        unit += 1;
    }
    format!("{}{}", trimmed(x), units.get(unit).unwrap_or(&""))
}

fn short_latency(us: f64) -> String {
    if us < 1.0 {
        return format!("{:.0} ns", us * 1e3);
    }
    match micros(us).split_once(' ') {
        Some((number, unit)) if number.contains('.') => {
            format!("{} {unit}", number.trim_end_matches('0').trim_end_matches('.'))
        }
        _ => micros(us),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(scale: &Scale) -> String {
        scale.ticks.iter().map(|tick| tick.label.as_str()).collect::<Vec<_>>().join(" | ")
    }

    #[test]
    fn ticks_are_round_and_few() {
        for (scale, expected) in [
            (Scale::time(10.0), "0 | 2 s | 4 s | 6 s | 8 s | 10 s"),
            (Scale::time(0.25), "0 | 0.1 s | 0.2 s"),
            (Scale::time(300.0), "0 | 1 min | 2 min | 3 min | 4 min | 5 min"),
            (Scale::time(86_400.0), "0 | 6 h | 12 h | 18 h | 24 h"),
            (Scale::time(f64::NAN), "0 | 0.2 s | 0.4 s | 0.6 s | 0.8 s | 1 s"),
            (Scale::rate(143_000.0), "0 | 50 k | 100 k | 150 k"),
            (Scale::rate(9.0), "0 | 2.5 | 5 | 7.5 | 10"),
            (Scale::bytes(150.0 * 1_048_576.0), "0 B | 50 MiB | 100 MiB | 150 MiB"),
            (Scale::bytes(0.0), "0 B | 1 B | 2 B | 3 B | 4 B"),
            (Scale::rate(50_000.0), "0 | 20 k | 40 k | 60 k"),
            (Scale::count(1.0), "0 | 1 | 2 | 3 | 4"),
            (Scale::ratio(6.3), "0 | 2 | 4 | 6 | 8"),
            (Scale::latency([12.0, 4500.0].into_iter()), "10 µs | 100 µs | 1 ms | 10 ms"),
            (Scale::latency([0.7, f64::NAN, 0.0].into_iter()), "100 ns | 1 µs"),
            (Scale::latency([].into_iter()), "1 µs | 10 µs | 100 µs | 1 ms"),
            (Scale::quantiles(100_000.0), "0 % | 90 % | 99 % | 99.9 % | 99.99 % | 99.999 %"),
            (Scale::quantiles(1.0), "0 % | 90 %"),
        ] {
            assert_eq!(labels(&scale), expected);
        }
    }

    #[test]
    fn every_value_has_a_place() {
        let scales = [
            Scale::time(0.0),
            Scale::rate(f64::INFINITY),
            Scale::bytes(1e30),
            Scale::latency([1e-9, 1e300].into_iter()),
            Scale::quantiles(f64::NAN),
        ];
        for scale in scales {
            assert!(!scale.ticks.is_empty() && scale.ticks.len() <= 18, "{scale:?}");
            for value in [f64::NEG_INFINITY, -1.0, 0.0, 1e-300, 1.0, 1e300, f64::INFINITY, f64::NAN] {
                assert!((0.0..=1.0).contains(&scale.place(value)), "{value} on {scale:?}");
            }
        }
        let log = Scale::latency([10.0, 1000.0].into_iter());
        assert!((log.place(100.0) - 0.5).abs() < 1e-9);
        assert!((Scale::rate(100.0).place(25.0) - 0.25).abs() < 1e-9);
    }
}
