//! The plots of a report: which figures, on which axes, in which words.
//!
//! Plots over time have one panel a run, one above the other, on the same axes. A figure that an engine does not tell is
//! not drawn as 0: its panel says so.

use maud::{Markup, html};

use crate::results::document::{Document, Latency};

use super::Report;
use super::numbers::{UNKNOWN, bytes, cores, count, finite, known, micros, rate, times};
use super::scale::Scale;
use super::series::{CLASSES, LEVELS, Point, points};
use super::svg::{Axes, Bars, Hit, Mark, Panel, bars, draw};

/// Colours there are; a further run begins again, dashed.
const COLOURS: usize = 8;

/// One plot with its words.
pub struct Chart {
    /// For links and tests.
    pub id: &'static str,
    /// The headline.
    pub title: &'static str,
    /// What is seen, and how to read it.
    pub about: String,
    /// Class of a mark, and what it stands for.
    pub legend: Vec<(String, String)>,
    /// The drawing.
    pub drawing: Markup,
}

/// The class that gives a run its colour.
pub fn colour(run: usize) -> String {
    let dashed = if (run / COLOURS).is_multiple_of(2) { "" } else { " dashed" };
    format!("c{}{dashed}", run % COLOURS + 1)
}

/// All plots, the important first.
pub fn charts(report: &Report) -> Vec<Chart> {
    let timelines = Timelines::new(report);
    let mut charts = vec![timelines.latency(), timelines.throughput()];
    charts.extend(timelines.queue());
    charts.extend(percentiles(report));
    charts.extend([
        timelines.bytes(),
        timelines.levels(),
        timelines.runs(),
        timelines.others(),
        timelines.limit(),
    ]);
    charts.push(amplification(report));
    charts
}

/// A plot of one figure, a step a second.
struct Stepped {
    id: &'static str,
    title: &'static str,
    about: &'static str,
    get: fn(&Point) -> Option<f64>,
    /// The axis up to the highest figure.
    scale: fn(f64) -> Scale,
    /// The figure as it is told.
    words: fn(f64) -> String,
}

/// A plot of four figures in bytes, one upon the other.
struct Stacked {
    id: &'static str,
    title: &'static str,
    about: String,
    names: [&'static str; 4],
    get: fn(&Point) -> &[Option<f64>; 4],
    /// A figure as it is told.
    words: fn(f64) -> String,
}

/// Runs over time.
struct Timelines {
    names: Vec<String>,
    runs: Vec<Vec<Point>>,
    time: Scale,
    /// Said where a point is not one second.
    coarse: &'static str,
}

impl Timelines {
    fn new(report: &Report) -> Timelines {
        let runs: Vec<Vec<Point>> = report.runs.iter().map(|run| points(&run.document)).collect();
        let last = runs.iter().flatten().map(|point| point.to).fold(0.0, f64::max);
        let is_coarse = runs.iter().flatten().any(|point| point.to - point.from > 1.5);
        let coarse =
            if is_coarse { " A point stands for several seconds, and shows the worst of them." } else { "" };
        // One run needs no name above its panel: the headline has it.
        let names = if runs.len() > 1 { report.names() } else { vec![String::new(); runs.len()] };
        Timelines { names, runs, time: Scale::time(last), coarse }
    }

    /// The highest known figure of all runs.
    fn highest(&self, get: impl Fn(&Point) -> Option<f64>) -> f64 {
        self.runs.iter().flatten().filter_map(get).fold(0.0, f64::max)
    }

    /// A panel a run. `marks` gives nothing where the run has nothing to show.
    fn draw(
        &self,
        about: &str,
        y: &Scale,
        marks: impl Fn(&[Point]) -> Vec<Mark>,
        words: impl Fn(&Point) -> String,
    ) -> Markup {
        let panel = |(i, (name, run)): (usize, (&String, &Vec<Point>))| {
            let marks = marks(run);
            let hit = |p: &Point| Hit { from: p.from, to: p.to, words: format!("{}\n{}", when(p), words(p)) };
            Panel {
                name: name.clone(),
                class: colour(i),
                hits: if marks.is_empty() { Vec::new() } else { run.iter().map(hit).collect() },
                remark: marks.is_empty().then_some(if run.is_empty() {
                    "no operation ended"
                } else {
                    UNKNOWN
                }),
                marks,
            }
        };
        let panels: Vec<Panel> = self.names.iter().zip(&self.runs).enumerate().map(panel).collect();
        if panels.iter().all(|panel| panel.marks.is_empty()) {
            return html! { p.remark { (UNKNOWN) " of any run" } };
        }
        draw(about, &Axes { x: &self.time, y, x_title: "time since the measurement began" }, &panels)
    }

    fn latency(&self) -> Chart {
        let both = self.runs.iter().flatten().flat_map(|p| [p.p99_us, p.max_us]).flatten();
        let marks = |run: &[Point]| {
            let mark = |class: &str, get: fn(&Point) -> Option<f64>| line(class, run, get);
            let lines = [mark("max", |p| p.max_us), mark("p99", |p| p.p99_us)];
            let halts = halts(run).filter(|_| lines.iter().any(Option::is_some));
            halts.into_iter().chain(lines.into_iter().flatten()).collect()
        };
        let words = |p: &Point| {
            let halted = if p.halted { "\nthe machine stood still" } else { "" };
            format!("p99 {}\nlargest {}{halted}", known(p.p99_us, micros), known(p.max_us, micros))
        };
        let mut keys = vec![("p99", "99th percentile"), ("max", "largest")];
        keys.extend(
            self.runs.iter().flatten().any(|p| p.halted).then_some(("halted", "the machine stood still")),
        );
        let title = "Latency over time";
        Chart {
            id: "latency",
            title,
            about: format!(
                "All operations that ended in each second; the scale is logarithmic. A gap is a second in which none ended.{}",
                self.coarse
            ),
            legend: legend(&keys),
            drawing: self.draw(title, &Scale::latency(both), marks, words),
        }
    }

    fn throughput(&self) -> Chart {
        let highest = self.highest(|p| Some(p.offered.unwrap_or(0.0).max(p.achieved_range.1)));
        let marks = |run: &[Point]| {
            let range = |p: &Point| [p.from, p.to, p.achieved_range.0, p.achieved_range.1];
            let band = Mark::Area("band".to_owned(), run.iter().map(range).collect());
            let offered = line("offered", run, |p| p.offered);
            let achieved = line("achieved", run, |p| Some(p.achieved));
            let band = run.iter().any(|p| p.achieved_range.0 < p.achieved_range.1).then_some(band);
            [band, offered, achieved].into_iter().flatten().collect()
        };
        let words = |p: &Point| {
            let offered = p.offered.map_or_else(String::new, |x| format!("offered {}/s\n", rate(x)));
            let range = match p.achieved_range {
                (low, high) if low < high => format!(" ({} to {})", rate(low), rate(high)),
                _ => String::new(),
            };
            format!("{offered}achieved {}/s{range}", rate(p.achieved))
        };
        let is_open = self.runs.iter().flatten().any(|p| p.offered.is_some());
        let mut keys = vec![("achieved", "achieved")];
        keys.extend(is_open.then_some(("offered", "offered")));
        let spread = self.runs.iter().flatten().any(|p| p.achieved_range.0 < p.achieved_range.1);
        keys.extend(spread.then_some(("band", "lowest to highest second of a point")));
        let closed =
            if is_open { "" } else { " The loop is closed: nothing was offered beyond what was achieved." };
        let title = "Throughput over time";
        Chart {
            id: "throughput",
            title,
            about: format!("Operations a second, all kinds together.{closed}"),
            legend: legend(&keys),
            drawing: self.draw(title, &Scale::rate(highest), marks, words),
        }
    }

    fn bytes(&self) -> Chart {
        self.stacked(&Stacked {
            id: "bytes",
            title: "Bytes by class over time",
            about: format!(
                "Bytes a second, one upon the other: what clients wrote and read, what flushes wrote, what work on the first \
                 level and on deeper levels wrote.{}",
                self.silent_classes()
            ),
            names: CLASSES,
            get: |p| &p.bytes,
            words: per_second,
        })
    }

    fn levels(&self) -> Chart {
        self.stacked(&Stacked {
            id: "levels",
            title: "The tree over time",
            about: "Bytes in the levels of the tree, one upon the other.".to_owned(),
            names: LEVELS,
            get: |p| &p.levels,
            words: |x| bytes(x as u64),
        })
    }

    /// Nothing of closed loops alone: they have no queue.
    fn queue(&self) -> Option<Chart> {
        let is_open = self.runs.iter().flatten().any(|p| p.queue.is_some());
        is_open.then(|| {
            self.stepped(&Stepped {
                id: "queue",
                title: "Requests that wait",
                about: "Requests that had come and not ended at the end of each second, those being worked on among them. A queue \
                        that only grows means that more was offered than the store sustains.",
                get: |p| p.queue,
                scale: Scale::count,
                words: |x| format!("{} waiting", count(x as u64)),
            })
        })
    }

    fn runs(&self) -> Chart {
        self.stepped(&Stepped {
            id: "runs",
            title: "Runs in the first level",
            about: "Sorted runs that a read may have to look into before deeper levels.",
            get: |p| p.l0_runs,
            scale: Scale::count,
            words: |x| format!("{} runs", count(x as u64)),
        })
    }

    fn limit(&self) -> Chart {
        self.stepped(&Stepped {
            id: "limit",
            title: "Limit on background work",
            about: "Bytes a second that flushes and compactions were allowed; without a limit there is nothing to know.",
            get: |p| p.internal_limit,
            scale: Scale::bytes,
            words: per_second,
        })
    }

    fn others(&self) -> Chart {
        self.stepped(&Stepped {
            id: "others",
            title: "CPU of others",
            about: "Cores that other processes used in each second. Where they rise, throughput and latency are also theirs.",
            get: |p| p.others_cores,
            // Less than half a core should not look like much.
            scale: |highest| Scale::ratio(highest.max(0.5)),
            words: cores,
        })
    }

    fn stacked(&self, stack: &Stacked) -> Chart {
        let get = stack.get;
        let sum = |p: &Point| get(p).iter().any(Option::is_some).then(|| get(p).iter().flatten().sum());
        let marks = |run: &[Point]| (0..stack.names.len()).filter_map(|i| layer(run, get, i)).collect();
        let words = |p: &Point| {
            let line = |(name, x): (&&str, &Option<f64>)| format!("{name} {}", known(*x, stack.words));
            stack.names.iter().zip(get(p)).map(line).collect::<Vec<_>>().join("\n")
        };
        let [first, second, third, fourth] = stack.names;
        Chart {
            id: stack.id,
            title: stack.title,
            about: stack.about.clone(),
            legend: legend(&[("k1", first), ("k2", second), ("k3", third), ("k4", fourth)]),
            drawing: self.draw(stack.title, &Scale::bytes(self.highest(sum)), marks, words),
        }
    }

    /// A figure that stands for a whole second.
    fn stepped(&self, figure: &Stepped) -> Chart {
        let get = figure.get;
        let marks = |run: &[Point]| steps(figure.id, run, get).into_iter().collect();
        let words = |p: &Point| known(get(p), figure.words);
        let scale = (figure.scale)(self.highest(get));
        Chart {
            id: figure.id,
            title: figure.title,
            about: format!("{}{}", figure.about, self.silent(|p| get(p).is_some())),
            legend: Vec::new(),
            drawing: self.draw(figure.title, &scale, marks, words),
        }
    }

    /// Who does not tell something, as a sentence; where all or nobody does, the plot itself says it.
    fn silent(&self, tells: impl Fn(&Point) -> bool) -> String {
        let runs = self.names.iter().zip(&self.runs);
        let silent: Vec<&str> =
            runs.filter(|(_, run)| !run.iter().any(&tells)).map(|(name, _)| name.as_str()).collect();
        if silent.is_empty() || silent.len() == self.runs.len() {
            return String::new();
        }
        format!(" Not known of: {}.", silent.join(", "))
    }

    /// Which bytes a run does not tell, while it tells others.
    fn silent_classes(&self) -> String {
        let mut sentences = String::new();
        for (name, run) in self.names.iter().zip(&self.runs) {
            let told = |class: usize| run.iter().any(|p| p.bytes.get(class).copied().flatten().is_some());
            let silent: Vec<&str> = CLASSES
                .iter()
                .enumerate()
                .filter(|(class, _)| !told(*class))
                .map(|(_, name)| *name)
                .collect();
            if !silent.is_empty() && silent.len() < CLASSES.len() {
                let of = if name.is_empty() { String::new() } else { format!(" of {name}") };
                sentences.push_str(&format!(" Not known{of}: {}.", silent.join(", ")));
            }
        }
        sentences
    }
}

fn legend(keys: &[(&str, &str)]) -> Vec<(String, String)> {
    keys.iter().map(|(class, words)| ((*class).to_owned(), (*words).to_owned())).collect()
}

fn when(p: &Point) -> String {
    if p.to - p.from > 1.5 {
        format!("seconds {:.0} to {:.0}", p.from, p.to)
    } else {
        format!("second {:.0}", p.from)
    }
}

fn per_second(x: f64) -> String {
    format!("{}/s", bytes(x as u64))
}

/// A line through the middles of the points; `None` if nothing is known.
fn line(class: &str, run: &[Point], get: impl Fn(&Point) -> Option<f64>) -> Option<Mark> {
    let at: Vec<_> = run.iter().map(|p| ((p.from + p.to) / 2.0, get(p))).collect();
    at.iter().any(|(_, y)| y.is_some()).then(|| Mark::Line(class.to_owned(), at))
}

/// The seconds in which the machine stood still, from the bottom of any axis to its top.
fn halts(run: &[Point]) -> Option<Mark> {
    const TOP: f64 = 1e30;
    let halted: Vec<_> = run.iter().filter(|p| p.halted).map(|p| [p.from, p.to, 0.0, TOP]).collect();
    (!halted.is_empty()).then(|| Mark::Area("halted".to_owned(), halted))
}

fn steps(class: &str, run: &[Point], get: impl Fn(&Point) -> Option<f64>) -> Option<Mark> {
    let at: Vec<_> = run.iter().map(|p| (p.from, p.to, get(p))).collect();
    at.iter().any(|(_, _, y)| y.is_some()).then(|| Mark::Steps(class.to_owned(), at))
}

/// One figure of a stack, upon those before it.
fn layer(run: &[Point], get: fn(&Point) -> &[Option<f64>; 4], i: usize) -> Option<Mark> {
    let piece = |p: &Point| {
        let height = get(p).get(i).copied().flatten()?;
        let below: f64 = get(p).iter().take(i).flatten().sum();
        Some([p.from, p.to, below, below + height])
    };
    let pieces: Vec<_> = run.iter().filter_map(piece).collect();
    (!pieces.is_empty()).then(|| Mark::Area(format!("k{}", i + 1), pieces))
}

/// One panel for each kind of operation, with all runs in it.
fn percentiles(report: &Report) -> Option<Chart> {
    let mut kinds: Vec<&String> = report.runs.iter().flat_map(|run| run.document.latency_us.keys()).collect();
    kinds.sort();
    kinds.dedup();
    let all = || report.runs.iter().flat_map(|run| run.document.latency_us.values());
    let most = all().flat_map(curve).map(|(above, _)| above).fold(10.0, f64::max);
    let (x, y) = (Scale::quantiles(most), Scale::latency(all().flat_map(curve).map(|(_, us)| us)));
    let names = report.names();
    let panel = |kind: &&String| {
        let mut marks = Vec::new();
        for (i, (run, name)) in report.runs.iter().zip(&names).enumerate() {
            let Some(latency) = run.document.latency_us.get(*kind) else { continue };
            let points = curve(latency);
            let words = |(above, us): &(f64, f64)| {
                let percent = known(finite(100.0 - 100.0 / above), |x| format!("{x:.5}"));
                let percent = percent.trim_end_matches('0').trim_end_matches('.').to_owned();
                (*above, *us, format!("{name}\n{kind}: {percent} % took at most {}", micros(*us)))
            };
            let dots: Vec<_> = points.iter().map(words).collect();
            let class = colour(i);
            let end: Vec<_> = dots.last().cloned().into_iter().collect();
            marks.push(Mark::Line(class.clone(), points.into_iter().map(|(x, y)| (x, Some(y))).collect()));
            marks.push(Mark::Dots(format!("end {class}"), end));
            marks.push(Mark::Dots(class, dots));
        }
        Panel { name: (*kind).clone(), marks, ..Panel::default() }
    };
    let panels: Vec<Panel> = kinds.iter().map(panel).collect();
    let axes = Axes { x: &x, y: &y, x_title: "percent of operations that took at most so long" };
    let title = "Latency by percentile";
    let legend: Vec<_> = names.iter().enumerate().map(|(i, name)| (colour(i), name.clone())).collect();
    (!panels.is_empty()).then(|| Chart {
        id: "percentiles",
        title,
        about: "The whole measurement, one panel for each kind of operation. Each step to the right is one more nine; a \
                curve ends at the largest."
            .to_owned(),
        legend: if names.len() > 1 { legend } else { Vec::new() },
        drawing: draw(title, &axes, &panels),
    })
}

/// Points of a latency curve: one in how many operations is slower, and its latency.
fn curve(latency: &Latency) -> Vec<(f64, f64)> {
    let quantiles = [(0.5, latency.p50), (0.9, latency.p90), (0.99, latency.p99), (0.999, latency.p999)];
    let points = if latency.curve.is_empty() {
        let last = 1.0 - 1.0 / latency.count.max(1) as f64;
        let known = quantiles.into_iter().filter(|(quantile, _)| *quantile < last);
        known.chain([(last, latency.max)]).collect()
    } else {
        latency.curve.clone()
    };
    let usable = |(quantile, us): (f64, f64)| {
        let above = finite(1.0 / (1.0 - quantile))?;
        (above >= 1.0 && us.is_finite()).then_some((above, us))
    };
    points.into_iter().filter_map(usable).collect()
}

fn amplification(report: &Report) -> Chart {
    type Get = fn(&Document) -> Option<f64>;
    let kinds: [(&str, Get); 3] = [
        ("Write: bytes written for each byte of clients", |doc| doc.amplification.write.and_then(finite)),
        ("Read: bytes read for each byte clients asked for", |doc| doc.amplification.read.and_then(finite)),
        ("Space: bytes on disk for each byte of live data", |doc| doc.amplification.space.and_then(finite)),
    ];
    let all = kinds.iter().flat_map(|(_, get)| report.runs.iter().filter_map(|run| get(&run.document)));
    let scale = Scale::ratio(all.fold(0.0, f64::max));
    let names = report.names();
    let group = |(name, get): &(&str, Get)| {
        let row = |(i, (run, name)): (usize, (&super::Run, &String))| {
            let figure = get(&run.document);
            (name.clone(), colour(i), figure, known(figure, times))
        };
        Bars { name: (*name).to_owned(), rows: report.runs.iter().zip(&names).enumerate().map(row).collect() }
    };
    let groups: Vec<Bars> = kinds.iter().map(group).collect();
    let title = "Amplification";
    Chart {
        id: "amplification",
        title,
        about: "When the store was idle again, since it was opened, filling included. Less is better."
            .to_owned(),
        legend: Vec::new(),
        drawing: bars(title, &scale, &groups),
    }
}
