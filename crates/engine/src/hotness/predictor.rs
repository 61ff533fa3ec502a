//! How hot a table will be, learnt from how hot tables are: a model for each level (LTG §III.B).
//!
//! Trained now and then with the tables that are there: each is a sample (φ, f). The intervals of φ stay as they are while they fit
//! the keys, so that samples of earlier trainings go on counting, less each time. Before enough gets were seen, and wherever
//! there is no number to tell, the predictor says nothing; whoever asks then keeps to leveling.

use super::key_histogram::{Intervals, KeySpread, Spacing};
use super::linear_model::{LinearModel, Moments};

/// How a predictor learns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Learning {
    /// e: intervals of the key space.
    pub intervals: usize,
    /// How they are spaced.
    pub spacing: Spacing,
    /// The penalty on weights, against the variance of φ.
    pub ridge: f64,
    /// What a sample still counts for after a further training, from 0 to 1.
    pub keep: f64,
    /// Nothing is foretold before so many gets were seen (cold start).
    pub gets_min: u64,
}

impl Default for Learning {
    fn default() -> Learning {
        Learning { intervals: 64, spacing: Spacing::default(), ridge: 0.01, keep: 0.5, gets_min: 16_384 }
    }
}

/// A table to learn from.
#[derive(Clone, Copy, Debug)]
pub struct HeatSample<'a> {
    /// Where its keys lie.
    pub table: KeySpread<'a>,
    /// f: the share of gets that looked into it, 0 to 1. `None` while too few gets have come since it was made.
    pub heat: Option<f64>,
}

/// The models of a tree's levels.
#[derive(Clone, Debug, PartialEq)]
pub struct Predictor {
    learning: Learning,
    learnt: Learnt,
    /// By level, as the moments say.
    models: Vec<Option<LinearModel>>,
}

/// What a predictor has learnt.
#[derive(Clone, Debug, PartialEq)]
pub struct Learnt {
    /// From so many gets.
    pub gets: u64,
    /// Entries are counted in so many, so that φ is about 1 in all.
    pub unit: f64,
    /// The intervals of φ.
    pub intervals: Intervals,
    /// The samples of each level.
    pub levels: Vec<Moments>,
}

/// Where intervals hold the keys so unevenly that the fullest has so many times what the fullest of new ones would have, new
/// ones are made.
const UNEVEN: f64 = 2.0;

impl Predictor {
    /// One that knows nothing.
    pub fn new(learning: Learning) -> Predictor {
        let learnt = Learnt { gets: 0, unit: 1.0, intervals: Intervals::default(), levels: Vec::new() };
        Predictor { learning, learnt, models: Vec::new() }
    }

    /// One that knows this.
    pub fn with(learning: Learning, learnt: Learnt) -> Predictor {
        let mut predictor = Predictor { learning, learnt, models: Vec::new() };
        predictor.fit();
        predictor
    }

    /// What it knows.
    pub fn learnt(&self) -> &Learnt {
        &self.learnt
    }

    /// True if it has seen enough gets to foretell anything.
    pub fn is_warm(&self) -> bool {
        self.learnt.gets >= self.learning.gets_min
    }

    /// The model of a level.
    pub fn model(&self, level: usize) -> Option<&LinearModel> {
        self.models.get(level)?.as_ref()
    }

    /// Learns from the tables of each level, after so many gets since the last time.
    pub fn train(&mut self, gets: u64, levels: &[Vec<HeatSample<'_>>]) {
        self.learnt.gets = self.learnt.gets.saturating_add(gets);
        let tables: Vec<KeySpread<'_>> = levels.iter().flatten().map(|sample| sample.table).collect();
        if tables.is_empty() {
            return;
        }
        self.fit_intervals(&tables);
        let Learnt { unit, intervals, levels: moments, .. } = &mut self.learnt;
        moments.resize_with(levels.len().max(moments.len()), || Moments::new(intervals.count()));
        for (index, moments) in moments.iter_mut().enumerate() {
            moments.fade(self.learning.keep);
            for sample in levels.get(index).into_iter().flatten() {
                if let Some(heat) = sample.heat {
                    moments.add(&features(intervals, *unit, &sample.table), heat);
                }
            }
        }
        self.fit();
    }

    /// f': the share of gets that will look into a table of `level`, 0 to 1. `None` if it cannot tell.
    pub fn predict(&self, level: usize, table: &KeySpread<'_>) -> Option<f64> {
        let model = self.model(level).filter(|_| self.is_warm())?;
        let heat = model.predict(&features(&self.learnt.intervals, self.learnt.unit, table))?;
        Some(heat.clamp(0.0, 1.0))
    }

    /// The same, by the model of the nearest level that has one: a level that was born or moved has none of its own yet.
    pub fn predict_near(&self, level: usize, table: &KeySpread<'_>) -> Option<f64> {
        let known = (0..self.models.len()).filter(|level| self.model(*level).is_some());
        let nearest = known.min_by_key(|known| (known.abs_diff(level), std::cmp::Reverse(*known)))?;
        self.predict(nearest, table)
    }

    fn fit(&mut self) {
        self.models = self.learnt.levels.iter().map(|moments| moments.fit(self.learning.ridge)).collect();
    }

    /// Makes new intervals where there are none yet, or where the keys have moved away from those there are; then what was learnt
    /// of the old ones is gone.
    fn fit_intervals(&mut self, tables: &[KeySpread<'_>]) {
        let fresh = Intervals::over(self.learning.spacing, self.learning.intervals, tables);
        let fits = self.learnt.intervals.fullest(tables) <= UNEVEN * fresh.fullest(tables);
        if fits && !self.learnt.levels.is_empty() {
            return;
        }
        let entries: u64 = tables.iter().map(|table| table.entries).sum();
        self.learnt.unit = (entries as f64 / tables.len() as f64).max(1.0);
        self.learnt.intervals = fresh;
        self.learnt.levels.clear();
    }
}

fn features(intervals: &Intervals, unit: f64, table: &KeySpread<'_>) -> Vec<f64> {
    let mut phi = intervals.histogram(table);
    phi.iter_mut().for_each(|entries| *entries /= unit);
    phi
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::random::Random;

    /// Keys are numbers below this.
    const SPACE: u64 = 1 << 20;

    type KeyOf = fn(u64) -> Vec<u8>;

    fn text(n: u64) -> Vec<u8> {
        format!("user{n:010}").into_bytes()
    }

    fn binary(n: u64) -> Vec<u8> {
        n.to_be_bytes().to_vec()
    }

    /// A table of the keys from `lo` to `hi`.
    struct Table {
        lo: u64,
        hi: u64,
        ends: [Box<[u8]>; 2],
        quantiles: Vec<Box<[u8]>>,
    }

    impl Table {
        fn new(lo: u64, hi: u64) -> Table {
            Table::of(text, lo, hi)
        }

        fn of(key: KeyOf, lo: u64, hi: u64) -> Table {
            let quantiles = (1..16).map(|i| key(lo + (hi - lo) * i / 16).into()).collect();
            Table { lo, hi, ends: [key(lo).into(), key(hi).into()], quantiles }
        }

        fn spread(&self) -> KeySpread<'_> {
            let [smallest, largest] = &self.ends;
            KeySpread { smallest, largest, quantiles: &self.quantiles, entries: self.hi - self.lo }
        }

        /// The share of gets that it gets, if they go to the keys from `from` to `to` alike.
        fn heat(&self, (from, to): (u64, u64)) -> f64 {
            self.hi.min(to).saturating_sub(self.lo.max(from)) as f64 / (to - from) as f64
        }
    }

    /// So many tables side by side over all keys, cut anywhere.
    fn level(key: KeyOf, random: &mut Random, tables: usize) -> Vec<Table> {
        let mut cuts: Vec<u64> = (1..tables).map(|_| 1 + random.below(SPACE - 2)).collect();
        cuts.extend([0, SPACE]);
        cuts.sort_unstable();
        cuts.dedup();
        cuts.windows(2).map(|w| Table::of(key, w[0], w[1])).collect()
    }

    fn samples(tables: &[Table], hot: (u64, u64)) -> Vec<HeatSample<'_>> {
        tables.iter().map(|t| HeatSample { table: t.spread(), heat: Some(t.heat(hot)) }).collect()
    }

    fn learning(spacing: Spacing) -> Learning {
        Learning { spacing, gets_min: 1000, ..Learning::default() }
    }

    /// Trained with tables of one level, and asked about others: how far off on average.
    fn error(predictor: &Predictor, tables: &[Table], hot: (u64, u64)) -> f64 {
        let off = |t: &Table| (predictor.predict(0, &t.spread()).unwrap() - t.heat(hot)).abs();
        tables.iter().map(off).sum::<f64>() / tables.len() as f64
    }

    /// Trained ten times, asked about new tables: how far off on average. To foretell nothing but the mean is off by about 0.01.
    fn error_after_training(key: KeyOf, spacing: Spacing, seed: u64) -> f64 {
        let (hot, random) = ((SPACE / 4, SPACE / 2), &mut Random::new(seed));
        let mut predictor = Predictor::new(learning(spacing));
        for _ in 0..10 {
            predictor.train(1000, &[samples(&level(key, random, 100), hot)]);
        }
        error(&predictor, &level(key, random, 100), hot)
    }

    #[test]
    fn new_tables_are_as_hot_as_foretold() {
        for seed in 0..20 {
            for (key, spacing) in
                [(text as KeyOf, Spacing::Depth), (binary, Spacing::Depth), (binary, Spacing::Width)]
            {
                let off = error_after_training(key, spacing, seed);
                assert!(off < 0.004, "seed {seed}, {spacing:?}: off by {off}");
            }
        }
    }

    /// Digits are ten of 256 bytes: of 64 intervals of the same width some ten hold keys.
    #[test]
    fn keys_of_text_need_intervals_of_equal_depth() {
        for seed in 0..20 {
            let [width, depth] =
                [Spacing::Width, Spacing::Depth].map(|s| error_after_training(text, s, seed));
            assert!(width > 2.0 * depth, "seed {seed}: {width} and {depth}");
        }
    }

    #[test]
    fn what_was_hot_is_forgotten() {
        let random = &mut Random::new(4);
        let (before, after) = ((0, SPACE / 8), (SPACE / 2, SPACE));
        let mut predictor = Predictor::new(learning(Spacing::Depth));
        (0..20).for_each(|_| predictor.train(1000, &[samples(&level(text, random, 100), before)]));
        (0..8).for_each(|_| predictor.train(1000, &[samples(&level(text, random, 100), after)]));
        let tables = level(text, random, 100);
        let (old, new) = (error(&predictor, &tables, before), error(&predictor, &tables, after));
        assert!(new < 0.004 && new < old / 3.0, "off by {new}, from what was by {old}");
    }

    #[test]
    fn nothing_is_foretold_before_enough_gets_or_of_a_level_not_seen() {
        let table = Table::new(0, 10);
        let mut predictor = Predictor::new(learning(Spacing::Depth));
        assert_eq!(predictor.predict(0, &table.spread()), None);
        let young = HeatSample { table: table.spread(), heat: None };
        predictor.train(999, &[samples(std::slice::from_ref(&table), (0, 10)), vec![young]]);
        assert_eq!(predictor.predict(0, &table.spread()), None, "999 gets");
        predictor.train(1, &[]);
        assert_eq!(predictor.predict(0, &table.spread()), Some(1.0));
        assert_eq!(predictor.predict(1, &table.spread()), None, "only tables too young");
        assert_eq!(predictor.predict(7, &table.spread()), None, "no such level");
        assert_eq!([0, 1, 7].map(|level| predictor.predict_near(level, &table.spread())), [Some(1.0); 3]);
    }

    #[test]
    fn heat_that_is_no_number_is_not_learnt_and_predictions_are_shares() {
        let tables: Vec<Table> = (0..10).map(|i| Table::new(i * 100, i * 100 + 100)).collect();
        let heats = [f64::NAN, f64::INFINITY, -5.0, 1e9];
        let sample = |i: usize| HeatSample { table: tables[i].spread(), heat: Some(heats[i % heats.len()]) };
        let mut predictor = Predictor::new(learning(Spacing::Depth));
        let learnt: Vec<HeatSample<'_>> = (0..tables.len()).map(sample).collect();
        predictor.train(5000, &[learnt]);
        for table in &tables {
            let heat = predictor.predict(0, &table.spread()).unwrap();
            assert!((0.0..=1.0).contains(&heat), "{heat}");
        }
    }

    #[test]
    fn intervals_follow_keys_that_move_away() {
        let tables = |from: u64| (0..20).map(move |i| Table::new(from + i * 1000, from + i * 1000 + 1000));
        for spacing in [Spacing::Depth, Spacing::Width] {
            let mut predictor = Predictor::new(learning(spacing));
            let (early, late): (Vec<Table>, Vec<Table>) = (tables(0).collect(), tables(500_000).collect());
            let hot = (505_000, 510_000);
            predictor.train(2000, &[samples(&early, hot)]);
            let old = predictor.learnt().intervals.clone();
            predictor.train(2000, &[samples(&early, hot)]);
            assert_eq!(predictor.learnt().intervals, old, "{spacing:?}: intervals that fit stay");
            predictor.train(2000, &[samples(&late, hot)]);
            assert_ne!(predictor.learnt().intervals, old, "{spacing:?}: all keys are in one interval");
            let heat = |t: &Table| predictor.predict(0, &t.spread()).unwrap();
            assert!(heat(&late[7]) > 4.0 * heat(&late[15]), "{spacing:?}");
        }
    }
}
