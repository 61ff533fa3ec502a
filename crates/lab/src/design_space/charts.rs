//! The plots of a study: bars by strategy, or a line for each strategy over a parameter; the medians of the rounds.

use maud::{Markup, html};

use super::point::Point;
use super::study::{Over, Plot, PlotUnit};
use crate::results::report::charts::colour;
use crate::results::report::numbers::{bytes, micros};
use crate::results::report::page::sample;
use crate::results::report::scale::Scale;
use crate::results::report::svg::{Axes, Bars, Mark, Panel, bars, draw};

/// A figure of a point, if it is known.
pub type Look<'a> = &'a dyn Fn(&Point, &str) -> Option<f64>;

/// A line or a bar: a strategy and its points.
struct Series {
    name: String,
    points: Vec<(f64, f64)>,
}

/// The plot, with its words; nothing if no figure is known.
pub fn figure(plot: &Plot, points: &[Point], look: Look<'_>) -> Option<Markup> {
    let series = series(plot, points, look);
    if series.iter().all(|series| series.points.is_empty()) {
        return None;
    }
    let is_bars = matches!(plot.over, Over::Strategies(_));
    let drawing = if is_bars { drawn_bars(plot, &series) } else { drawn_lines(plot, &series) };
    Some(html! {
        figure {
            figcaption {
                h3 { (plot.title) }
                @if !is_bars {
                    ul.legend {
                        @for (i, series) in series.iter().enumerate() {
                            li { (sample(&colour(i))) span { (series.name) } }
                        }
                    }
                }
            }
            (drawing)
        }
    })
}

/// What a strategy is called: with the time of its deletes, if it has one.
fn label(point: &Point) -> String {
    match point.ttl_percent {
        0 => point.strategy.to_owned(),
        percent => format!("{}{percent}", point.strategy),
    }
}

fn series(plot: &Plot, points: &[Point], look: Look<'_>) -> Vec<Series> {
    let mut all: Vec<Series> = Vec::new();
    for point in points {
        let found: Vec<(f64, f64)> = match &plot.over {
            Over::Strategies(belongs) if belongs(point) => {
                look(point, plot.figure).map(|y| (0.0, y)).into_iter().collect()
            }
            Over::Parameter(at, _) => at(point).zip(look(point, plot.figure)).into_iter().collect(),
            Over::Figures(belongs, names, _) if belongs(point) => {
                let of =
                    |(name, x): &(&str, f64)| Some((*x, look(point, &format!("{name}_{}", plot.figure))?));
                names.iter().filter_map(of).collect()
            }
            _ => continue,
        };
        if found.is_empty() {
            continue;
        }
        let name = label(point);
        match all.iter_mut().find(|series| series.name == name) {
            Some(series) => series.points.extend(found),
            None => all.push(Series { name, points: found }),
        }
    }
    all.iter_mut().for_each(|series| series.points.sort_by(|a, b| a.0.total_cmp(&b.0)));
    all
}

fn words(unit: PlotUnit, y: f64) -> String {
    match unit {
        PlotUnit::Number if y >= 1000.0 => format!("{y:.0}"),
        PlotUnit::Number => format!("{y:.2}"),
        PlotUnit::Micros => micros(y),
        PlotUnit::Bytes => bytes(y as u64),
    }
}

fn drawn_bars(plot: &Plot, series: &[Series]) -> Markup {
    let row = |(i, series): (usize, &Series)| {
        let y = series.points.first().map(|(_, y)| *y);
        (series.name.clone(), colour(i), y, y.map_or_else(String::new, |y| words(plot.unit, y)))
    };
    let rows: Vec<_> = series.iter().enumerate().map(row).collect();
    let highest = rows.iter().filter_map(|row| row.2).fold(0.0, f64::max);
    bars(plot.title, &Scale::ratio(highest), &[Bars { name: String::new(), rows }])
}

fn drawn_lines(plot: &Plot, series: &[Series]) -> Markup {
    let all = || series.iter().flat_map(|series| &series.points);
    let highest = all().map(|(_, y)| *y).fold(0.0, f64::max);
    let y = match plot.unit {
        PlotUnit::Number => Scale::ratio(highest),
        PlotUnit::Bytes => Scale::bytes(highest),
        PlotUnit::Micros => Scale::latency(all().map(|(_, y)| *y)),
    };
    let x = Scale::ratio(all().map(|(x, _)| *x).fold(0.0, f64::max));
    let x_title = match plot.over {
        Over::Parameter(_, title) | Over::Figures(_, _, title) => title,
        Over::Strategies(_) => "",
    };
    let mut marks = Vec::new();
    for (i, series) in series.iter().enumerate() {
        let dots = series
            .points
            .iter()
            .map(|(x, y)| (*x, *y, format!("{}\n{x_title} {x}: {}", series.name, words(plot.unit, *y))));
        marks.push(Mark::Line(colour(i), series.points.iter().map(|(x, y)| (*x, Some(*y))).collect()));
        marks.push(Mark::Dots(format!("end {}", colour(i)), dots.collect()));
    }
    draw(plot.title, &Axes { x: &x, y: &y, x_title }, &[Panel { marks, ..Panel::default() }])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::design_space::point::{LARGE, SMALL};

    #[test]
    fn bars_are_strategies_and_lines_are_over_a_parameter() {
        let points = [LARGE, LARGE.with("tier"), Point { updates: 8, ..SMALL }, SMALL];
        let look =
            |point: &Point, figure: &str| (figure == "moved").then_some(f64::from(point.updates) + 2.0);
        let plot = |over| Plot { title: "4a: moved", figure: "moved", unit: PlotUnit::Number, over };
        let is_large = |point: &Point| point.records == LARGE.records;
        let drawn = figure(&plot(Over::Strategies(is_large)), &points, &look).unwrap().into_string();
        assert_eq!(drawn.matches("class=\"bar\"").count(), 2, "{drawn}");
        assert!(drawn.contains("tier: 2.00") && drawn.contains("4a: moved"));
        let small = |point: &Point| (point.records == SMALL.records).then_some(f64::from(point.updates));
        let drawn = figure(&plot(Over::Parameter(small, "updates")), &points, &look).unwrap().into_string();
        assert_eq!(drawn.matches("class=\"line c1\" d=\"M6").count(), 1, "{drawn}");
        assert!(drawn.contains("updates 8: 10.00"));
        let none = Plot { figure: "jobs", ..plot(Over::Strategies(is_large)) };
        assert!(figure(&none, &points, &look).is_none());
    }
}
