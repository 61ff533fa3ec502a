//! Many strategies on all cores, and those of them that no other one beats in everything: the Pareto front.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use evenkeel::Options;
use evenkeel::strategy::with_sizes;
use evenkeel_lab::base::random::Random;

use crate::figures::Outcome;
use crate::run::{Setting, simulate};
use crate::tape::Tape;

/// What strategies are compared by: the less, the better.
pub const AXES: [&str; 3] = ["write", "read", "space"];

/// A strategy that was simulated.
#[derive(Clone, Debug)]
pub struct Point {
    /// Its name, or the strategy written out.
    pub name: String,
    /// What came out.
    pub outcome: Outcome,
    /// No other strategy is at least as good in everything and better in something.
    pub on_front: bool,
}

impl Point {
    /// Bytes that compactions wrote per byte written, pages that a get reads, superseded bytes per other byte: as [`AXES`].
    pub fn costs(&self) -> [f64; 3] {
        let o = &self.outcome;
        [o.write_amplification, o.pages_per_get, o.space_amplification.mean]
    }
}

/// `count` of `all`, drawn by `seed`, in their order; all of them if there are no more.
pub fn some_of(all: Vec<String>, count: usize, seed: u64) -> Vec<String> {
    if count >= all.len() {
        return all;
    }
    let mut random = Random::new(seed);
    let mut wanted = count as u64;
    let total = all.len() as u64;
    let drawn = all.into_iter().enumerate().filter(|(at, _)| {
        let takes = random.below(total - *at as u64) < wanted;
        wanted -= u64::from(takes);
        takes
    });
    drawn.map(|(_, text)| text).collect()
}

/// Simulates `strategies`, each a name or written out, by `threads` threads; `done` hears how many are through. Ends early once
/// `stop` is set: what is through by then is answered.
///
/// # Errors
/// The first strategy that cannot be read or simulated.
pub fn sweep(
    tape: &Tape,
    strategies: &[String],
    options: &Options,
    setting: Setting,
    threads: usize,
    done: &(dyn Fn(usize) + Sync),
    stop: &AtomicBool,
) -> Result<Vec<Point>, String> {
    let next = AtomicUsize::new(0);
    let found: Mutex<Vec<(usize, Point)>> = Mutex::default();
    let failed: Mutex<Option<String>> = Mutex::default();
    let lock = |found: &Mutex<Vec<(usize, Point)>>, point| {
        let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
        found.push(point);
        found.len()
    };
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(name) = strategies.get(at) else { return };
                    let outcome = with_sizes(name, options)
                        .map_err(|error| error.to_string())
                        .and_then(|strategy| simulate(tape, &strategy, setting));
                    match outcome {
                        Ok(outcome) => {
                            let point = Point { name: name.clone(), outcome, on_front: false };
                            done(lock(&found, (at, point)));
                        }
                        Err(error) => {
                            stop.store(true, Ordering::Relaxed);
                            *failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                        }
                    }
                }
            });
        }
    });
    if let Some(error) = failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(error);
    }
    let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    found.sort_by_key(|(at, _)| *at);
    let mut points: Vec<Point> = found.into_iter().map(|(_, point)| point).collect();
    mark_front(&mut points);
    Ok(points)
}

/// Marks the points that no other one dominates. Of equal ones the first counts.
fn mark_front(points: &mut [Point]) {
    let costs: Vec<[f64; 3]> = points.iter().map(Point::costs).collect();
    // A point can only be dominated by one that writes no more.
    let mut order: Vec<usize> = (0..points.len()).collect();
    order.sort_by(|a, b| {
        costs[*a].iter().zip(&costs[*b]).map(|(x, y)| x.total_cmp(y)).find(|o| o.is_ne()).unwrap_or(a.cmp(b))
    });
    let mut front: Vec<[f64; 3]> = Vec::new();
    for at in order {
        let cost = costs[at];
        let is_dominated =
            front.iter().any(|other| other.iter().zip(&cost).all(|(theirs, ours)| theirs <= ours));
        if !is_dominated {
            front.push(cost);
            points[at].on_front = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(write: f64, read: f64, space: f64) -> Point {
        let mut outcome = Outcome { write_amplification: write, pages_per_get: read, ..Outcome::default() };
        outcome.space_amplification.mean = space;
        Point { name: String::new(), outcome, on_front: false }
    }

    #[test]
    fn the_front_is_what_nothing_beats() {
        let mut points = vec![
            point(9.0, 3.0, 0.1),
            point(3.0, 6.0, 1.0),
            // Worse than the first in everything.
            point(10.0, 4.0, 0.2),
            // As good as the second in two, worse in one.
            point(3.0, 6.0, 1.1),
            point(5.0, 5.0, 0.5),
            // The same as the one before.
            point(5.0, 5.0, 0.5),
        ];
        mark_front(&mut points);
        let front: Vec<bool> = points.iter().map(|p| p.on_front).collect();
        assert_eq!(front, [true, true, false, false, true, false]);
    }

    #[test]
    fn some_are_as_many_as_asked_for_and_spread() {
        let all: Vec<String> = (0..1000).map(|n| n.to_string()).collect();
        let some = some_of(all.clone(), 100, 7);
        assert_eq!(some.len(), 100);
        assert!(some.iter().filter(|n| n.parse::<u32>().unwrap() < 500).count().abs_diff(50) < 20);
        assert_eq!(some_of(all.clone(), 5000, 7), all);
    }
}
