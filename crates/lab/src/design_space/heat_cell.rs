//! Runs a cell of lab L: records are inserted, half as many updated, gets all along, so that there is something to learn from; then
//! gets alone.
//!
//! ```text
//! inserts, gets beside ─► idle ─► updates, gets beside ─► idle ─► gets
//!       load_moved ...                moved ... alpha beta         read_us read_pages
//! ```
//! What was learnt, and what the tree became of it, is looked at a hundred times while records are updated.

use std::time::Instant;

use super::entries::Entries;
use super::heat_load::{Asked, HeatLoad};
use super::measure::{Costs, Figures, Latencies, Tell, Values, cost};
use super::point::Point;
use crate::base::clock;
use crate::base::random::{Random, mix64};
use crate::run::engine::{Engine, EngineError};
use crate::workloads::zipfian::Zipfian;

/// The hot tenth of the key space begins here, in thousandths, and after it has moved there.
const HOT_FROM: [u64; 2] = [300, 700];
const HOT_PARTS: u64 = 100;
/// Of a hundred gets so many are of a hotspot.
const HOT_GETS: u64 = 90;
/// The tree is looked at so often while records are updated.
const LOOKS: u64 = 100;

/// What reads have taught, and what the tree has become of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Shape {
    /// Lessons since the store was opened.
    pub lessons: u64,
    /// By level, the part of the heat's variance that its model explains.
    pub explained: Vec<Option<f64>>,
    /// The part of the looks into levels by heat that went into their hot groups.
    pub leveled_reads: f64,
    /// Groups that were split, joined, and turned hot and cold.
    pub turns: [u64; 4],
    /// The groups of levels by heat.
    pub groups: Vec<GroupShape>,
}

/// A group of a level by heat.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GroupShape {
    /// Its first key.
    pub from: Vec<u8>,
    /// The key that it ends before, unless it has no end.
    pub to: Option<Vec<u8>>,
    /// Its bytes.
    pub bytes: u64,
    /// Its runs.
    pub runs: u64,
    /// It is kept as one that is read.
    pub is_hot: bool,
}

impl GroupShape {
    /// About how many of its bytes lie in these thousandths of the key space.
    fn bytes_within(&self, from: u64, parts: u64) -> f64 {
        let place = |key: &[u8]| {
            let first =
                key.iter().chain(&[0; 4]).take(4).fold(0_u32, |all, byte| all << 8 | u32::from(*byte));
            f64::from(first) / 4_294_967_296.0 * 1000.0
        };
        let (low, high) = (place(&self.from), self.to.as_deref().map_or(1000.0, place));
        let inside = (high.min((from + parts) as f64) - low.max(from as f64)).max(0.0);
        self.bytes as f64 * inside / (high - low).max(1e-9)
    }
}

impl Shape {
    /// The part of the bytes that is in hot groups.
    fn hot(&self) -> f64 {
        self.part(&|group| group.bytes as f64, &|group| group.is_hot)
    }

    /// The part of the bytes in these thousandths of the key space that is in groups that are hot and have no more than one run.
    fn leveled_within(&self, from: u64, parts: u64) -> f64 {
        self.part(&|group| group.bytes_within(from, parts), &|group| group.is_hot && group.runs <= 1)
    }

    /// The part of the groups for which this is true.
    fn part(&self, weight: &dyn Fn(&GroupShape) -> f64, is_it: &dyn Fn(&GroupShape) -> bool) -> f64 {
        let all: f64 = self.groups.iter().map(weight).sum();
        let part: f64 = self.groups.iter().filter(|group| is_it(group)).map(weight).sum();
        if all > 0.0 { part / all } else { 0.0 }
    }
}

/// What was seen of the tree while records were updated.
#[derive(Default)]
struct Seen {
    looks: f64,
    alpha: f64,
    beta: f64,
    groups: f64,
    space_max: f64,
    /// Lessons when the hot keys moved.
    moved_at: Option<u64>,
    /// And when most of their bytes were leveled.
    followed_at: Option<u64>,
}

impl Seen {
    fn look(&mut self, costs: &Costs) {
        let shape = &costs.heat;
        self.looks += 1.0;
        self.alpha += shape.hot();
        self.beta += shape.leveled_reads;
        self.groups += shape.groups.len() as f64;
        self.space_max = self.space_max.max(costs.space.unwrap_or(0.0));
        let follows = shape.leveled_within(HOT_FROM[1], HOT_PARTS) > 0.5;
        if self.moved_at.is_some() && self.followed_at.is_none() && follows {
            self.followed_at = Some(shape.lessons);
        }
    }
}

struct HeatCell<'a, E> {
    engine: &'a E,
    costs: Tell<'a>,
    load: HeatLoad,
    entries: Entries,
    random: Random,
    ranks: Zipfian,
    values: Values,
    puts: u64,
    gets_due: u64,
    has_moved: bool,
    wrote: Latencies,
    beside: Latencies,
}

/// Runs a cell of a store that is empty.
///
/// # Errors
/// What the engine answers; a get that finds what was never written, or misses what was.
pub fn measure_heat<E: Engine>(
    engine: &E,
    costs: Tell<'_>,
    point: &Point,
    load: HeatLoad,
    seed: u64,
) -> Result<Figures, EngineError> {
    let mut cell = HeatCell {
        engine,
        costs,
        load,
        entries: Entries::new(point.inserts, point.records, seed),
        random: Random::new(mix64(seed)),
        ranks: Zipfian::new(1),
        values: Values::new(point, point.records),
        puts: 0,
        gets_due: 0,
        has_moved: false,
        wrote: Latencies::new()?,
        beside: Latencies::new()?,
    };
    let mut figures = Figures::new();
    let (empty, began) = (costs(), clock::now());
    for _ in 0..point.records {
        let key = cell.entries.insert();
        cell.operation(key)?;
    }
    engine.wait_idle()?;
    let loaded = costs();
    let seen = cell.update(point.records / 2)?;
    engine.wait_idle()?;
    let after = costs();
    let seconds = began.elapsed().as_secs_f64();
    figures.insert("ingest_seconds".to_owned(), seconds);
    cost(&empty, &after, &mut figures);
    let per_byte = |from: &Costs, to: &Costs| {
        let bytes = |costs: &Costs| (costs.read_bytes + costs.written_bytes) as f64;
        (bytes(to) - bytes(from)) / (to.user_bytes - from.user_bytes).max(1) as f64
    };
    cell.wrote.write("write", &mut figures);
    cell.beside.write("beside", &mut figures);
    shape(&seen, &after.heat, &mut figures);
    let mut put = |name: &str, value: f64| {
        figures.insert(name.to_owned(), value);
    };
    put("load_moved", per_byte(&empty, &loaded));
    put("update_moved", per_byte(&loaded, &after));
    cell.read(point.gets(), &mut figures)?;
    Ok(figures)
}

/// What was learnt, and what became of the tree.
fn shape(seen: &Seen, last: &Shape, figures: &mut Figures) {
    let mut put = |name: &str, value: f64| {
        figures.insert(name.to_owned(), value);
    };
    let mean = |sum: f64| sum / seen.looks.max(1.0);
    put("alpha", mean(seen.alpha));
    put("beta", mean(seen.beta));
    put("groups", mean(seen.groups));
    put("space_max", seen.space_max);
    put("lessons", last.lessons as f64);
    for (name, turns) in ["splits", "joins", "turned_hot", "turned_cold"].iter().zip(last.turns) {
        put(name, turns as f64);
    }
    if let Some(explained) = last.explained.iter().rev().find_map(|part| *part) {
        put("explained", explained);
    }
    if let Some(moved) = seen.moved_at {
        let until = seen.followed_at.unwrap_or(last.lessons + 1);
        put("lessons_to_follow", until.saturating_sub(moved) as f64);
        put("lessons_after", last.lessons.saturating_sub(moved) as f64);
    }
}

impl<E: Engine> HeatCell<'_, E> {
    /// A write, and the gets that come with it.
    fn operation(&mut self, key: [u8; 4]) -> Result<(), EngineError> {
        self.puts += 1;
        let began = clock::now();
        self.engine.put(&key, self.values.at(self.puts))?;
        self.wrote.since(began);
        let writes = u64::from(10 - self.load.get_tenths.min(9));
        self.gets_due += u64::from(self.load.get_tenths.min(9));
        while self.gets_due >= writes {
            self.gets_due -= writes;
            let began = clock::now();
            self.get()?;
            self.beside.since(began);
        }
        Ok(())
    }

    /// Writes records again, each as likely as the others.
    fn update(&mut self, updates: u64) -> Result<Seen, EngineError> {
        let mut seen = Seen::default();
        for i in 0..updates {
            if self.load.asked == Asked::Moving && i == updates / 2 {
                self.has_moved = true;
                seen.moved_at = Some((self.costs)().heat.lessons);
            }
            if i % (updates / LOOKS).max(1) == 0 {
                seen.look(&(self.costs)());
            }
            let Some(key) = self.entries.present() else { return Ok(seen) };
            self.operation(key)?;
        }
        seen.look(&(self.costs)());
        Ok(seen)
    }

    /// A key that is there, by what is asked for, and whether one beside it is asked for that is not.
    fn ask(&mut self) -> Option<([u8; 4], bool)> {
        let inserted = self.puts;
        let key = match self.load.asked {
            Asked::Zipfian => {
                self.ranks.grow(inserted.min(self.entries.count()));
                self.entries.nth(self.ranks.draw(&mut self.random))
            }
            Asked::Hotspot | Asked::Moving if self.random.below(100) < HOT_GETS => {
                let from = HOT_FROM[usize::from(self.has_moved)];
                self.entries.within(from, HOT_PARTS).or_else(|| self.entries.present())
            }
            Asked::Hotspot | Asked::Moving | Asked::Uniform => self.entries.present(),
        }?;
        let is_empty = self.random.below(2) == 0;
        Some(if is_empty { ((u32::from_be_bytes(key) | 1).to_be_bytes(), true) } else { (key, false) })
    }

    fn get(&mut self) -> Result<(), EngineError> {
        let Some((key, is_empty)) = self.ask() else { return Ok(()) };
        match self.engine.get(&key)?.is_none() == is_empty {
            true => Ok(()),
            false => {
                Err(format!("the store does not hold what was written: a get of {key:?} was wrong").into())
            }
        }
    }

    /// Gets alone.
    fn read(&mut self, gets: u64, figures: &mut Figures) -> Result<(), EngineError> {
        let mut latencies = Latencies::new()?;
        let before = (self.costs)().client_bytes;
        for _ in 0..gets {
            let began: Instant = clock::now();
            self.get()?;
            latencies.since(began);
        }
        latencies.write("read", figures);
        let pages = ((self.costs)().client_bytes - before) as f64 / 4096.0 / gets.max(1) as f64;
        figures.insert("read_pages".to_owned(), pages);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::design_space::heat_load::USUAL;
    use crate::design_space::point::{HEAT, Reads};
    use crate::run::map_engine::MapEngine;

    fn group(from: u8, to: Option<u8>, is_hot: bool, runs: u64) -> GroupShape {
        let key = |byte: u8| vec![byte, 0, 0, 0];
        GroupShape { from: key(from), to: to.map(key), bytes: 64, runs, is_hot }
    }

    #[test]
    fn what_is_leveled_is_hot_and_one_run() {
        // The hot tenth after the move, 0.7 to 0.8, is 0xb3 to 0xcc of the first byte.
        let shape = |hot: bool, runs: u64| Shape {
            groups: vec![group(0, Some(0x80), true, 1), group(0x80, None, hot, runs)],
            ..Shape::default()
        };
        for (hot, runs, within) in [(true, 1, 1.0), (true, 2, 0.0), (false, 1, 0.0)] {
            let shape = shape(hot, runs);
            assert_eq!(shape.leveled_within(HOT_FROM[1], HOT_PARTS), within, "{shape:?}");
            assert_eq!(shape.hot(), if hot { 1.0 } else { 0.5 });
        }
        assert_eq!(Shape::default().hot(), 0.0);
    }

    /// A tree that is divided anew at each look, and follows some three lessons after the hot keys have moved.
    #[test]
    fn the_lessons_until_the_shape_follows_are_counted_from_the_move() {
        let load = HeatLoad { asked: Asked::Moving, ..USUAL };
        let point = Point { reads: Reads::Heat(load), ..HEAT }.scaled(1_000_000);
        let (engine, asked) = (MapEngine::default(), Cell::new(0_u64));
        let costs = || {
            asked.set(asked.get() + 1);
            let lessons = asked.get() / 10;
            let hot = lessons >= 8;
            let groups = vec![group(0, Some(0x80), true, 1), group(0x80, None, hot, 1)];
            Costs { heat: Shape { lessons, groups, ..Shape::default() }, ..Costs::default() }
        };
        let figures = measure_heat(&engine, &costs, &point, load, 42).unwrap();
        let lessons = figures["lessons_to_follow"];
        assert!((2.0..=4.0).contains(&lessons), "{figures:?}");
        assert!(figures["lessons_after"] > lessons && (0.4..1.0).contains(&figures["alpha"]), "{figures:?}");
        assert!(figures["read_us"] > 0.0 && figures["write_us"] > 0.0);
        assert_eq!(engine.map.lock().unwrap().len() as u64, point.records);
    }
}
