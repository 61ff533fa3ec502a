//! Draws panels one above the other, on the same axes, as SVG.
//!
//! ```text
//!  ● name of the run
//!  100 ms ┤        ╭╮
//!   10 ms ┤────────╯╰────      one panel a run; the axis of x stands below the last one
//!    1 ms ┤
//!         └┬────┬────┬───
//! ```
//!
//! Written here because colours must be CSS variables (light, dark and print are one file), each mark needs a tooltip, and
//! text has to grow on a phone: a library that draws with fixed colours and measured text gives none of these. Colours and
//! sizes of text are in `page.css`; here are only classes.

use maud::{Markup, html};

use super::scale::{Scale, Tick};

/// A drawing's width in its own units; the page stretches it.
pub const WIDTH: f64 = 480.0;
/// Room for the words of the axis of y.
const LEFT: f64 = 66.0;
/// Room for half a word of the axis of x.
const RIGHT: f64 = 22.0;
/// Room for a name above a panel.
const NAME: f64 = 32.0;
/// Room below the last panel.
const FOOT: f64 = 44.0;
/// Room for a character of the largest font, which is a phone's.
const CHARACTER: f64 = 9.0;
/// At the font's size on a phone so many characters fit above a panel.
const NAME_CHARS: usize = 44;

/// What is drawn for one run.
#[derive(Debug, Default)]
pub struct Panel {
    /// The name above it; empty for none.
    pub name: String,
    /// The class of the run's colour; empty for a panel of several runs.
    pub class: String,
    /// From the back to the front.
    pub marks: Vec<Mark>,
    /// Parts of the axis of x that say something when pointed at.
    pub hits: Vec<Hit>,
    /// Said in the panel's middle, where there is nothing to draw.
    pub remark: Option<&'static str>,
}

/// Something drawn, in values of the axes.
#[derive(Debug)]
pub enum Mark {
    /// A line through points; it breaks where a value is not known.
    Line(String, Vec<(f64, Option<f64>)>),
    /// A line that keeps its value from one x to the next.
    Steps(String, Vec<(f64, f64, Option<f64>)>),
    /// Surfaces: from x, to x, from y, to y.
    Area(String, Vec<[f64; 4]>),
    /// Points, each with words.
    Dots(String, Vec<(f64, f64, String)>),
}

/// See [`Panel::hits`].
#[derive(Debug)]
pub struct Hit {
    /// From this x to `to`.
    pub from: f64,
    /// See `from`.
    pub to: f64,
    /// What is said.
    pub words: String,
}

/// Both axes of a drawing.
#[derive(Debug)]
pub struct Axes<'a> {
    /// Shared by all panels.
    pub x: &'a Scale,
    /// Of each panel.
    pub y: &'a Scale,
    /// What x is.
    pub x_title: &'a str,
}

/// Where a panel lies.
#[derive(Clone, Copy)]
struct Frame<'a> {
    axes: &'a Axes<'a>,
    top: f64,
    height: f64,
}

/// The drawing of all panels; `about` says it to those who do not see it.
pub fn draw(about: &str, axes: &Axes<'_>, panels: &[Panel]) -> Markup {
    let height = match panels.len() {
        0 | 1 => 190.0,
        2 => 130.0,
        _ => 100.0,
    };
    let named = panels.iter().any(|panel| !panel.name.is_empty());
    let above = if named { NAME } else { 10.0 };
    let bottom = panels.len() as f64 * (above + height);
    let frame = |i: usize| Frame { axes, top: i as f64 * (above + height) + above, height };
    html! {
        svg viewBox={ "0 0 " (n(WIDTH)) " " (n(bottom + FOOT)) } role="img" aria-label=(about) {
            @for (i, panel) in panels.iter().enumerate() { (frame(i).draw(panel)) }
            @for tick in axes.x.ticks.iter().step_by(apart(&axes.x.ticks)) {
                text.x x=(n(across(axes.x, tick.at))) y=(n(bottom + 17.0)) { (tick.label) }
            }
            text.x x=(n((LEFT + WIDTH - RIGHT) / 2.0)) y=(n(bottom + 36.0)) { (axes.x_title) }
        }
    }
}

/// Every how many of the ticks of x have room for their words, so that these do not run into each other.
fn apart(ticks: &[Tick]) -> usize {
    let longest = ticks.iter().map(|tick| tick.label.chars().count()).max().unwrap_or(0);
    let needed = (longest + 2) as f64 * CHARACTER * ticks.len().saturating_sub(1) as f64;
    (needed / (WIDTH - LEFT - RIGHT)).ceil().max(1.0) as usize
}

fn across(scale: &Scale, x: f64) -> f64 {
    LEFT + scale.place(x) * (WIDTH - LEFT - RIGHT)
}

impl Frame<'_> {
    fn x(&self, x: f64) -> f64 {
        across(self.axes.x, x)
    }

    fn y(&self, y: f64) -> f64 {
        self.top + (1.0 - self.axes.y.place(y)) * self.height
    }

    fn draw(&self, panel: &Panel) -> Markup {
        let (bottom, middle) = (self.top + self.height, (LEFT + WIDTH - RIGHT) / 2.0);
        html! {
            g class=(panel.class) {
                @if !panel.class.is_empty() && !panel.name.is_empty() {
                    rect.swatch x=(n(LEFT)) y=(n(self.top - 16.0)) width="10" height="10" rx="2" {}
                }
                @if !panel.name.is_empty() {
                    text.name x=(n(LEFT + if panel.class.is_empty() { 0.0 } else { 16.0 })) y=(n(self.top - 7.0)) {
                        (shortened(&panel.name, NAME_CHARS)) title { (panel.name) }
                    }
                }
                (self.grid())
                @for mark in &panel.marks { (self.mark(mark)) }
                @if let Some(remark) = panel.remark {
                    text.remark x=(n(middle)) y=(n(self.top + self.height / 2.0 + 4.0)) { (remark) }
                }
                path.axis d={ "M" (n(LEFT)) " " (n(self.top)) "V" (n(bottom)) "H" (n(WIDTH - RIGHT)) } {}
                @for hit in &panel.hits {
                    @let (from, to) = (self.x(hit.from), self.x(hit.to));
                    rect.hit x=(n(from)) y=(n(self.top)) width=(n(to - from)) height=(n(self.height)) {
                        title { (hit.words) }
                    }
                }
            }
        }
    }

    /// Lines of the ticks, and the words of y: as many as have room.
    fn grid(&self) -> Markup {
        let ticks = &self.axes.y.ticks;
        let every = (ticks.len() as f64 * 18.0 / self.height).ceil().max(1.0) as usize;
        html! {
            path.grid d={
                @for tick in &self.axes.x.ticks {
                    "M" (n(self.x(tick.at))) " " (n(self.top)) "v" (n(self.height))
                }
                @for tick in ticks { "M" (n(LEFT)) " " (n(self.y(tick.at))) "H" (n(WIDTH - RIGHT)) }
            } {}
            @for tick in ticks.iter().step_by(every) {
                text.y x=(n(LEFT - 6.0)) y=(n(self.y(tick.at) + 4.0)) { (tick.label) }
            }
        }
    }

    fn mark(&self, mark: &Mark) -> Markup {
        match mark {
            Mark::Line(class, points) => self.line(class, points),
            Mark::Steps(class, pieces) => html! { path class={ "line " (class) } d=(self.steps(pieces)) {} },
            Mark::Area(class, pieces) => html! { path class={ "area " (class) } d=(self.area(pieces)) {} },
            Mark::Dots(class, points) => html! {
                @for (x, y, words) in points {
                    circle class={ "dot " (class) } cx=(n(self.x(*x))) cy=(n(self.y(*y))) r="4" {
                        title { (words) }
                    }
                }
            },
        }
    }

    /// A point between two gaps has no line; it gets a dot.
    fn line(&self, class: &str, points: &[(f64, Option<f64>)]) -> Markup {
        let mut path = String::new();
        let mut alone = Vec::new();
        for piece in points.split(|(_, y)| y.is_none()) {
            let known = piece.iter().filter_map(|(x, y)| Some((self.x(*x), self.y((*y)?))));
            for (i, (x, y)) in known.enumerate() {
                if piece.len() == 1 {
                    alone.push((x, y));
                } else {
                    path.push_str(&format!("{}{} {}", if i == 0 { "M" } else { "L" }, n(x), n(y)));
                }
            }
        }
        html! {
            @if !path.is_empty() { path class={ "line " (class) } d=(path) {} }
            @for (x, y) in alone { circle class={ "spot " (class) } cx=(n(x)) cy=(n(y)) r="2.2" {} }
        }
    }

    fn steps(&self, pieces: &[(f64, f64, Option<f64>)]) -> String {
        let mut path = String::new();
        let mut open = false;
        for (from, to, y) in pieces {
            let Some(y) = y else {
                open = false;
                continue;
            };
            let y = n(self.y(*y));
            path.push_str(&if open { format!("V{y}") } else { format!("M{} {y}", n(self.x(*from))) });
            path.push_str(&format!("H{}", n(self.x(*to))));
            open = true;
        }
        path
    }

    fn area(&self, pieces: &[[f64; 4]]) -> String {
        let piece = |[from, to, low, high]: &[f64; 4]| {
            let (from, to) = (n(self.x(*from)), n(self.x(*to)));
            format!("M{from} {}H{to}V{}H{from}z", n(self.y(*low)), n(self.y(*high)))
        };
        pieces.iter().map(piece).collect()
    }
}

/// Bars of one length scale, in groups: what is compared, and the runs below it.
#[derive(Debug)]
pub struct Bars {
    /// What is compared.
    pub name: String,
    /// Name and class of a run, its figure, and the figure in words.
    pub rows: Vec<(String, String, Option<f64>, String)>,
}

/// The drawing of all groups.
pub fn bars(about: &str, scale: &Scale, groups: &[Bars]) -> Markup {
    const ROW: f64 = 40.0;
    const HEAD: f64 = 30.0;
    // The words of the longest bar stand behind it.
    let room = WIDTH - 80.0;
    let mut at = 0.0;
    let mut body = Vec::new();
    for group in groups {
        body.push(html! { text.group x="0" y=(n(at + 20.0)) { (shortened(&group.name, NAME_CHARS + 6)) } });
        at += HEAD;
        for (name, class, figure, words) in &group.rows {
            let width = figure.map_or(0.0, |figure| scale.place(figure) * room);
            body.push(html! {
                g class=(class) {
                    text.name x="0" y=(n(at + 11.0)) { (shortened(name, NAME_CHARS + 6)) }
                    rect.bar x="0" y=(n(at + 17.0)) width=(n(width)) height="13" rx="2" {
                        title { (name) ": " (words) }
                    }
                    text.value x=(n(width + 7.0)) y=(n(at + 28.0)) { (words) }
                }
            });
            at += ROW;
        }
        at += 6.0;
    }
    html! {
        svg viewBox={ "0 0 " (n(WIDTH)) " " (n(at.max(1.0))) } role="img" aria-label=(about) {
            @for part in body { (part) }
        }
    }
}

/// A number of a drawing, to a tenth of a unit.
pub fn n(x: f64) -> String {
    debug_assert!(x.is_finite(), "only finite numbers are drawn");
    let text = format!("{:.1}", if x.is_finite() { x } else { 0.0 });
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

/// The beginning of a text, so that it takes the room of so many characters; signs that are not Latin take two.
pub fn shortened(text: &str, chars: usize) -> String {
    let width = |c: char| if c < '\u{0370}' { 1 } else { 2 };
    if text.chars().map(width).sum::<usize>() <= chars {
        return text.to_owned();
    }
    let mut left = chars.saturating_sub(1);
    let mut out = String::new();
    for c in text.chars() {
        match left.checked_sub(width(c)) {
            Some(rest) => left = rest,
            None => break,
        }
        out.push(c);
    }
    out.push('…');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(axes: &Axes<'_>, marks: Vec<Mark>) -> String {
        draw("about", axes, &[Panel { marks, ..Panel::default() }]).into_string()
    }

    #[test]
    fn lines_break_where_nothing_is_known() {
        let (x, y) = (Scale::time(4.0), Scale::rate(4.0));
        let axes = Axes { x: &x, y: &y, x_title: "time" };
        let known = [Some(1.0), Some(2.0), None, Some(4.0), None];
        let points = known.into_iter().enumerate().map(|(i, y)| (i as f64, y)).collect();
        let drawn = frame(&axes, vec![Mark::Line("p99".to_owned(), points)]);
        let path = drawn.split("line p99\" d=\"").nth(1).unwrap().split('"').next().unwrap();
        assert_eq!(path, "M66 152.5L164 105");
        assert_eq!(drawn.matches("spot p99").count(), 1, "the point between two gaps");

        let pieces =
            vec![(0.0, 1.0, Some(1.0)), (1.0, 2.0, Some(2.0)), (2.0, 3.0, None), (3.0, 4.0, Some(4.0))];
        let drawn = frame(&axes, vec![Mark::Steps("runs".to_owned(), pieces)]);
        assert!(drawn.contains("M66 152.5H164V105H262M360 10H458"), "{drawn}");
    }

    #[test]
    fn words_below_an_axis_stay_apart() {
        for (scale, every) in [
            (Scale::time(60.0), 1),
            (Scale::quantiles(1e3), 1),
            (Scale::quantiles(1e7), 2),
            (Scale::quantiles(1e12), 5),
        ] {
            assert_eq!(apart(&scale.ticks), every, "{scale:?}");
        }
    }

    #[test]
    fn names_take_their_room() {
        assert_eq!(shortened("evenkeel", 8), "evenkeel");
        assert_eq!(shortened("evenkeel", 7), "evenke…");
        assert_eq!(shortened("日本語日本語", 6), "日本…");
        assert_eq!(shortened("日本語", 6), "日本語");
        assert_eq!([3.0, 1.25, -2.5].map(n), ["3", "1.2", "-2.5"]);
    }
}
