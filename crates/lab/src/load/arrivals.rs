//! When each request of an open loop is due: a load shape turned into a table, and a cursor over it.
//!
//! ```text
//! requests      ╱▔▔▔   the shape's integral Λ, a line a piece
//! so far     ╱─╱       request n is due where Λ reaches n (even), or the n-th point of a Poisson process (poisson)
//!        ───╱─────────► time
//! ```
//!
//! A due time follows from the request's number alone, so whoever takes the next number from a counter knows when it is
//! due: no dispatcher, and nothing that the engine does can move it.

use std::time::Duration;

use crate::base::random::mix64;
use crate::load::load_shape::Piece;

/// How requests lie within a stretch of one rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Spacing {
    /// At equal distances.
    Even,
    /// At random, each on its own: a Poisson process.
    Poisson,
    /// As they were recorded.
    Recorded,
}

impl Spacing {
    /// Those that follow from a rate, with the names that people type.
    pub const ALL: [(&'static str, Spacing); 2] = [("even", Spacing::Even), ("poisson", Spacing::Poisson)];
}

/// When a run stops sending.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct End {
    /// After this many requests, or …
    pub ops: Option<u64>,
    /// … after so many seconds. With neither, when the shape ends.
    pub seconds: Option<f64>,
}

/// The due times of a run.
#[derive(Clone, Debug)]
pub struct Schedule {
    segments: Vec<Segment>,
    end: End,
    spacing: Spacing,
    seed: u64,
    by_second: Vec<u64>,
    seconds: f64,
    /// Nanoseconds at which requests are due, where they follow from no rate.
    recorded: Vec<u64>,
    /// A request comes when a thread is free for it.
    closed: bool,
}

/// A stretch of one rate, with what came before it.
#[derive(Clone, Copy, Debug)]
struct Segment {
    start_seconds: f64,
    rate: f64,
    /// Λ at its start and at its end.
    from: f64,
    to: f64,
}

impl Schedule {
    /// The schedule of a shape's pieces. Pieces without an end need one in `end`.
    pub fn new(pieces: impl Iterator<Item = Piece>, end: End, spacing: Spacing, seed: u64) -> Schedule {
        // A Poisson process may need more of Λ than requests; by ten deviations it never does.
        let enough = end.ops.map_or(f64::INFINITY, |ops| ops as f64 + 10.0 * (ops as f64).sqrt() + 100.0);
        let (mut segments, mut start_seconds, mut from) = (Vec::new(), 0.0, 0.0);
        for Piece { rate, seconds } in pieces {
            if start_seconds >= end.seconds.unwrap_or(f64::INFINITY) || from >= enough {
                break;
            }
            let to = from + rate * seconds;
            segments.push(Segment { start_seconds, rate, from, to });
            (start_seconds, from) = (start_seconds + seconds, to);
        }
        let seconds = end.seconds.unwrap_or(f64::INFINITY).min(start_seconds);
        let end = End { ops: end.ops, seconds: Some(seconds) };
        let (by_second, recorded) = (Vec::new(), Vec::new());
        let mut schedule =
            Schedule { segments, end, spacing, seed, by_second, seconds, recorded, closed: false };
        schedule.count();
        schedule
    }

    /// The schedule of requests that are due after so many nanoseconds each, which never fall, and last so many seconds.
    pub fn recorded(nanos: Vec<u64>, seconds: f64) -> Schedule {
        let end = End { ops: Some(nanos.len() as u64), seconds: Some(seconds) };
        let (segments, by_second, spacing) = (Vec::new(), Vec::new(), Spacing::Recorded);
        let (seed, recorded, closed) = (0, nanos, false);
        let mut schedule = Schedule { segments, end, spacing, seed, by_second, seconds, recorded, closed };
        schedule.count();
        schedule
    }

    /// The same requests, each as soon as a thread is free for it: a closed loop.
    #[must_use]
    pub fn as_fast_as_possible(mut self) -> Schedule {
        self.closed = true;
        self.recorded.fill(0);
        self
    }

    /// True if a request comes when a thread is free for it.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Walks through all of it once, so that what was offered is what was due and no formula of its own.
    fn count(&mut self) {
        let (mut by_second, mut last) = (Vec::new(), Duration::ZERO);
        let mut arrivals = self.arrivals();
        for due in (0..).map_while(|n| arrivals.due(n)) {
            let second = due.as_secs() as usize;
            if by_second.len() <= second {
                by_second.resize(second + 1, 0);
            }
            if let Some(count) = by_second.last_mut() {
                *count += 1;
            }
            last = due;
        }
        if self.spacing == Spacing::Recorded {
            self.seconds = self.seconds.max(last.as_secs_f64());
        } else if let Some(ops) = self.end.ops.map(|ops| ops as f64) {
            let fits = self.segments.iter().find(|segment| segment.to >= ops);
            let formula = fits.map_or(self.seconds, |s| s.start_seconds + (ops - s.from) / s.rate);
            self.seconds = self.seconds.min(formula.max(last.as_secs_f64()));
        }
        self.by_second = by_second;
    }

    /// How requests lie.
    pub fn spacing(&self) -> Spacing {
        self.spacing
    }

    /// A cursor at the first request.
    pub fn arrivals(&self) -> Arrivals<'_> {
        Arrivals { schedule: self, segment: 0, drawn: 0, lambda: 0.0 }
    }

    /// How many requests come in each second.
    pub fn by_second(&self) -> &[u64] {
        &self.by_second
    }

    /// How many requests come.
    pub fn requests(&self) -> u64 {
        self.by_second.iter().sum()
    }

    /// How long requests come: to the end that was asked for, to that of the shape, or to the last of so many requests.
    pub fn seconds(&self) -> f64 {
        self.seconds
    }
}

/// Goes through the requests of a schedule, upward.
#[derive(Clone, Debug)]
pub struct Arrivals<'a> {
    schedule: &'a Schedule,
    segment: usize,
    /// Gaps of the Poisson process added up so far, and their sum.
    drawn: u64,
    lambda: f64,
}

impl Arrivals<'_> {
    /// When request `n` is due, counted from the start of the run; `None` past the end. `n` never falls.
    pub fn due(&mut self, n: u64) -> Option<Duration> {
        let schedule = self.schedule;
        if schedule.spacing == Spacing::Recorded {
            return schedule.recorded.get(n as usize).copied().map(Duration::from_nanos);
        }
        if schedule.end.ops.is_some_and(|ops| n >= ops) {
            return None;
        }
        if schedule.spacing == Spacing::Poisson {
            while self.drawn <= n {
                self.lambda += gap(schedule.seed, self.drawn);
                self.drawn += 1;
            }
        } else {
            self.lambda = n as f64;
        }
        while schedule.segments.get(self.segment)?.to <= self.lambda {
            self.segment += 1;
        }
        let segment = schedule.segments.get(self.segment)?;
        let seconds = segment.start_seconds + (self.lambda - segment.from) / segment.rate;
        (seconds < schedule.end.seconds?).then(|| Duration::from_nanos((seconds * 1e9) as u64))
    }
}

/// The distance on Λ between points `n - 1` and `n` of a Poisson process: exponential with mean 1. Each worker adds up the
/// same gaps, some 20 ns each, so that none asks another.
fn gap(seed: u64, n: u64) -> f64 {
    let bits = mix64(seed ^ mix64(n.wrapping_add(0x9e37_79b9_7f4a_7c15))) >> 11;
    // Above 0 and at most 1, so the logarithm is finite.
    -((bits + 1) as f64 / (1u64 << 53) as f64).ln()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::load_shape::LoadShape;

    fn schedule(shape: &str, end: End, spacing: Spacing) -> Schedule {
        let shape = LoadShape::parse(shape, |_| Err(String::new())).unwrap();
        Schedule::new(shape.pieces(1000.0, 3), end, spacing, 3)
    }

    fn seconds(seconds: f64) -> End {
        End { ops: None, seconds: Some(seconds) }
    }

    #[test]
    fn arrivals_of_a_second_are_the_shape_s_integral() {
        for (shape, length, expected) in [
            ("constant:20k", 3.0, vec![20_000, 20_000, 20_000]),
            ("constant:3", 2.5, vec![3, 3, 2]),
            ("peaks:7,2,2,1", 5.0, vec![7, 7, 2, 7, 7]),
            ("peaks:10,2,0.5,1.5", 4.0, vec![6, 2, 6, 2]),
            ("steps:5@1,0@2,50%@1", 4.0, vec![5, 0, 0, 500]),
        ] {
            assert_eq!(schedule(shape, seconds(length), Spacing::Even).by_second(), &expected[..], "{shape}");
        }
        assert_eq!(schedule("steps:5@1,6@1", End::default(), Spacing::Even).by_second(), [5, 6]);
    }

    #[test]
    fn a_run_by_requests_ends_with_the_last() {
        for spacing in [Spacing::Even, Spacing::Poisson] {
            let by_ops = schedule("peaks:1000,10,1,1", End { ops: Some(3_333), seconds: None }, spacing);
            assert_eq!(by_ops.requests(), 3_333);
            assert!((5.0..9.0).contains(&by_ops.seconds()), "{}", by_ops.seconds());
        }
        let ends = schedule("constant:100", End { ops: Some(50), seconds: Some(10.0) }, Spacing::Even);
        assert_eq!(ends.seconds(), 0.5);
        assert_eq!(schedule("constant:100", seconds(2.0), Spacing::Even).seconds(), 2.0);
        assert_eq!(schedule("steps:5@1,6@1", End::default(), Spacing::Even).seconds(), 2.0);
    }

    #[test]
    fn random_arrivals_have_the_rate_and_the_variance_of_a_poisson_process() {
        let schedule = schedule("constant:100", seconds(4000.0), Spacing::Poisson);
        let counts = schedule.by_second();
        let mean = counts.iter().sum::<u64>() as f64 / 4000.0;
        let variance = counts.iter().map(|&c| (c as f64 - mean).powi(2)).sum::<f64>() / 4000.0;
        assert!((99.0..101.0).contains(&mean), "{mean}");
        assert!((90.0..110.0).contains(&variance), "{variance}");
    }

    #[test]
    fn recorded_requests_are_due_when_they_were() {
        let second = 1_000_000_000;
        let schedule = Schedule::recorded(vec![0, 5, 5, 2 * second, 3 * second], 2.5);
        assert_eq!((schedule.by_second(), schedule.requests()), (&[3, 0, 1, 1][..], 5));
        assert_eq!(schedule.seconds(), 3.0);
        let mut arrivals = schedule.arrivals();
        assert_eq!(arrivals.due(1), Some(Duration::from_nanos(5)));
        assert_eq!((arrivals.due(4), arrivals.due(5)), (Some(Duration::from_secs(3)), None));
        assert_eq!(Schedule::recorded(Vec::new(), 1.5).seconds(), 1.5);
    }

    #[test]
    fn a_due_time_follows_from_the_number_alone() {
        for spacing in [Spacing::Even, Spacing::Poisson] {
            let schedule = schedule("peaks:1000,10,1,1", seconds(10.0), spacing);
            let mut all = schedule.arrivals();
            let every: Vec<Duration> = (0..).map_while(|n| all.due(n)).collect();
            assert!(every.is_sorted() && every.len() > 4000);
            let (mut even, mut odd) = (schedule.arrivals(), schedule.arrivals());
            for (n, due) in every.iter().enumerate() {
                let worker = if n % 2 == 0 { &mut even } else { &mut odd };
                assert_eq!(worker.due(n as u64), Some(*due));
            }
        }
    }
}
