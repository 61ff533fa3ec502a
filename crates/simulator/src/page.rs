//! A sweep as a page: plots with every strategy's figures at its point, and the front as a table. One file without scripts.

use evenkeel_lab::results::report::{bytes, count, whole_page};
use maud::{Markup, html};

use crate::sweep::Point;
use crate::tape::Tape;

const WIDTH: f64 = 480.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 56.0;
const FOOT: f64 = 44.0;
const TOP: f64 = 10.0;
const RIGHT: f64 = 16.0;
/// Values beside an axis, as parts of its length.
const TICKS: [f64; 5] = [0.0, 0.25, 0.5, 0.75, 1.0];

/// The whole file.
pub fn page(tape: &Tape, points: &[Point]) -> String {
    let mut front: Vec<&Point> = points.iter().filter(|p| p.on_front).collect();
    front.sort_by(|a, b| a.costs()[0].total_cmp(&b.costs()[0]));
    let written = tape.memtables.iter().map(|m| m.user_bytes).sum::<u64>();
    let body = html! {
        p {
            (count(points.len() as u64)) " strategies, simulated on " (tape.name) ": " (count(tape.ops))
            " operations, " (bytes(written)) " written. Points that no other one beats in write, read and space are filled."
        }
        section {
            h2 { "Costs" }
            div.charts {
                (chart(points, 1, "pages that a get reads"))
                (chart(points, 2, "superseded bytes per other byte"))
            }
        }
        section { h2 { "What nothing beats" } div.scroll { (table(&front)) } }
        footer { p { "All points as data: " a href="sweep.json" { "sweep.json" } "; docs/simulator.md says what is simulated and how well." } }
    };
    whole_page("Sweep of strategies", &body)
}

fn table(front: &[&Point]) -> Markup {
    html! {
        table {
            thead { tr {
                @for name in ["write", "read", "space", "runs", "compactions", "largest"] { th.number { (name) } }
                th { "strategy" }
            } }
            tbody {
                @for point in front {
                    @let o = &point.outcome;
                    tr {
                        @for cost in point.costs() { td.number { (format!("{cost:.2}")) } }
                        td.number { (format!("{:.1}", o.runs.mean)) }
                        td.number { (count(o.jobs)) }
                        td.number { (bytes(o.job_bytes_most)) }
                        td { (point.name) }
                    }
                }
            }
        }
    }
}

/// Write amplification against the cost `at`.
fn chart(points: &[Point], at: usize, y_name: &str) -> Markup {
    let most = |of: usize| points.iter().map(|p| p.costs()[of]).fold(1e-9, f64::max) * 1.03;
    let (x_most, y_most) = (most(0), most(at));
    let across = |x: f64| LEFT + (WIDTH - LEFT - RIGHT) * (x / x_most).clamp(0.0, 1.0);
    let up = |y: f64| TOP + HEIGHT * (1.0 - (y / y_most).clamp(0.0, 1.0));
    let n = |x: f64| format!("{x:.1}");
    let words = |p: &Point| {
        let [write, read, space] = p.costs();
        format!("{}: write {write:.2}, read {read:.2}, space {space:.2}", p.name)
    };
    // The front last, so that it lies above the others.
    let (beaten, front): (Vec<&Point>, Vec<&Point>) = points.iter().partition(|p| !p.on_front);
    html! {
        figure {
            figcaption { "Write amplification and " (y_name) }
            svg viewBox={ "0 0 " (n(WIDTH)) " " (n(TOP + HEIGHT + FOOT)) } role="img" aria-label={ "write amplification against " (y_name) } {
                @for part in TICKS {
                    @let (x, y) = (part * x_most, part * y_most);
                    line.grid x1=(n(LEFT)) x2=(n(WIDTH - RIGHT)) y1=(n(up(y))) y2=(n(up(y))) {}
                    text.y x=(n(LEFT - 6.0)) y=(n(up(y) + 4.0)) { (format!("{y:.1}")) }
                    text.x x=(n(across(x))) y=(n(TOP + HEIGHT + 17.0)) { (format!("{x:.1}")) }
                }
                text.x x=(n((LEFT + WIDTH - RIGHT) / 2.0)) y=(n(TOP + HEIGHT + 36.0)) { "write amplification" }
                @for p in beaten {
                    circle cx=(n(across(p.costs()[0]))) cy=(n(up(p.costs()[at]))) r="1.8" fill="var(--edge)" { title { (words(p)) } }
                }
                @for p in front {
                    circle cx=(n(across(p.costs()[0]))) cy=(n(up(p.costs()[at]))) r="4" fill="var(--c2)" { title { (words(p)) } }
                }
            }
        }
    }
}
