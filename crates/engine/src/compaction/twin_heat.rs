//! The twin's heat: an adversary that turns the pattern around, forgets it and talks nonsense while jobs run, and a steady one for
//! trees that are to come to rest.

use super::commit::Committed;
use super::regroup::{join, regroup};
use super::strategy::{HeatRule, Layout, Strategy};
use super::twin_world::{Chance, KEYS, World, index_of};
use crate::hotness::temperature::Theta;
use crate::version::edit::EditStep;
use crate::version::run::TableRef;

impl World {
    /// Groups by heat, of which an adversary turns the pattern around again and again, and sometimes tells nothing, or nonsense.
    pub fn regroup(&mut self) -> Result<(), String> {
        let level = self.chance.below(self.version.levels.len());
        let strategy = self.strategy_by_heat();
        let (lower_is_hot, noise) = ((self.seq / 40).is_multiple_of(2), self.chance.below(usize::MAX) as u64);
        let heat = |table: &TableRef| match Chance(noise ^ table.id().0).below(8) {
            0 => None,
            1 => Some(f64::NAN),
            _ => Some(f64::from(u8::from((index_of(&table.bounds.lo) < KEYS / 2) == lower_is_hot))),
        };
        self.divide(&strategy, level, &heat)?;
        Ok(())
    }

    /// The strategy, or if it is not by heat one that is by chance: groups may be there under any.
    fn strategy_by_heat(&mut self) -> Strategy {
        let mut strategy = self.strategy.clone();
        let is_by_heat = |s: &Strategy| s.levels.named().any(|(_, p)| matches!(p.layout, Layout::ByHeat(_)));
        if is_by_heat(&strategy) && !self.chance.once_in(4) {
            return strategy;
        }
        let theta = if self.chance.once_in(2) { Theta::Absolute(0.5) } else { Theta::Relative(0.5) };
        let (groups_max, tables_min) = (1 + self.chance.below(6) as u32, self.chance.below(2) as u32);
        let layout = Layout::ByHeat(HeatRule { theta, groups_max, tables_min, ..HeatRule::new(1, 4) });
        let levels = &mut strategy.levels;
        let others = [&mut levels.first, &mut levels.rest, &mut levels.last].into_iter();
        others.chain(levels.at.values_mut()).for_each(|policy| policy.layout = layout);
        strategy
    }

    /// What the engine does before each look for work, where reads never change.
    pub fn shape(&mut self) -> Result<(), String> {
        self.shape_levels()?;
        let heat = |table: &TableRef| Some(index_of(&table.bounds.lo) as f64 / KEYS as f64);
        let strategy = self.strategy.clone();
        for level in 0..self.version.levels.len() {
            if self.divide(&strategy, level, &heat)? && self.divide(&strategy, level, &heat)? {
                return Err(format!("level {level} is divided anew at once"));
            }
        }
        Ok(())
    }

    /// Levels are born and go, and groups that nothing keeps apart are one.
    pub fn shape_levels(&mut self) -> Result<(), String> {
        self.set_levels()?;
        if let Some(done) = join(&self.version, &self.claims, &self.strategy).map_err(|e| e.to_string())? {
            self.install_groups(done)?;
        }
        Ok(())
    }

    fn divide(
        &mut self,
        strategy: &Strategy,
        level: usize,
        heat: &dyn Fn(&TableRef) -> Option<f64>,
    ) -> Result<bool, String> {
        let mut ids = self.ids;
        let done = regroup(&self.version, &self.claims, strategy, level, &mut ids, heat);
        let Some(done) = done.map_err(|e| e.to_string())? else { return Ok(false) };
        self.ids = ids;
        self.install_groups(done)?;
        Ok(true)
    }

    fn install_groups(&mut self, done: Committed) -> Result<(), String> {
        for step in &done.edit.steps {
            match step {
                EditStep::SplitGroup { .. } => self.stats.count("split by heat"),
                EditStep::MergeGroups { .. } => self.stats.count("joined by heat"),
                EditStep::SetRunBound { run_bound: 1, .. } => self.stats.count("turned hot"),
                EditStep::SetRunBound { .. } => self.stats.count("turned cold"),
                step => return Err(format!("{} is more than groups", step.name())),
            }
        }
        if !self.running.is_empty() {
            self.stats.count("by heat under jobs");
        }
        self.install(done);
        Ok(())
    }
}
