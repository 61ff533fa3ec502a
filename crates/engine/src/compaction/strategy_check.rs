//! What makes no sense in a strategy, and what would be valid instead: the segment, the field, the reason.

use super::strategy::{FilterBits, Granularity, HeatRule, Layout, LevelPolicy, Movement, Strategy, Trigger};
use super::strategy_words::{heat_rule_text, movement_text, trigger_text};
use crate::base::error::{Error, Result};
use crate::base::units::GIB;
use crate::hotness::temperature::Theta;

/// No table is cut at more than this.
const TABLE_BYTES_MAX: u64 = 4 * GIB;

/// More runs in a group than these would not be a bound: each costs every lookup a filter.
const RUNS_MAX: u32 = 1000;

/// Larger groups than of so many tables are hardly groups.
const TABLES_MIN_MAX: u32 = 1000;

impl Strategy {
    /// Refuses values that cannot work, naming the field and what would be valid.
    pub fn validate(&self) -> Result<()> {
        for (name, policy) in self.levels.named() {
            let place =
                Place { is_first: name == "L0", is_base: name == "all levels", is_last: name == "last" };
            let checked = validate_policy(policy, place).and_then(|()| self.validate_ttl(policy));
            checked.map_err(|what| Error::invalid(format!("strategy, {name}: {what}")))?;
        }
        for (name, bits) in self.filter_bits.named() {
            let (allowed, bits) = match bits {
                FilterBits::Exactly(bits) => (0.0..=FilterBits::MAX, bits),
                FilterBits::Beside(more) => (-FilterBits::MAX..=FilterBits::MAX, more),
            };
            if !allowed.contains(bits) {
                return Err(Error::invalid(format!(
                    "strategy, {name}: bits={bits} must be from 0 to 64, or from -64 to +64 beside filter_bits"
                )));
            }
        }
        self.validate_sizes()
    }

    /// A delete passes every level, so a time by which it is gone is everybody's or nobody's.
    fn validate_ttl(&self, policy: &LevelPolicy) -> Result<(), String> {
        let wanted = self.levels.named().find_map(|(_, policy)| policy.ttl_ms());
        match (wanted, policy.ttl_ms()) {
            (Some(all), here) if here != Some(all) => {
                let text = trigger_text(Trigger::TombstoneTtl { ttl_ms: all });
                Err(format!("when= needs {text} here too, because a delete passes every level"))
            }
            _ => Ok(()),
        }
    }

    fn validate_sizes(&self) -> Result<()> {
        let size = &self.size;
        for (name, value, least) in [
            ("l0", size.l0_bytes, 1),
            ("l0, its end,", size.l0_bytes_max, size.l0_bytes),
            ("base", size.level_base_bytes, 1),
            ("ratio", size.level_ratio, 2),
            ("table", self.cut.table_bytes, 1),
        ] {
            if value < least {
                return Err(Error::invalid(format!(
                    "strategy, size: {name}={value} must be at least {least}"
                )));
            }
        }
        // As the option of the same meaning.
        if self.cut.table_bytes > TABLE_BYTES_MAX {
            let table = self.cut.table_bytes;
            return Err(Error::invalid(format!("strategy, size: table={table} must be at most 4GiB")));
        }
        Ok(())
    }
}

#[derive(Clone, Copy)]
struct Place {
    is_first: bool,
    is_base: bool,
    is_last: bool,
}

fn validate_policy(policy: &LevelPolicy, place: Place) -> Result<(), String> {
    match policy.layout {
        Layout::Runs { max: 0, .. } => return Err("how=runs:0 must allow at least one run".to_owned()),
        Layout::Runs { max: 1, fill: true } => {
            return Err("how=runs:1:fill has one run to fill anyway; say runs:1".to_owned());
        }
        Layout::Runs { max, .. } if max > RUNS_MAX => {
            return Err(format!("how=runs:{max} is no bound; at most runs:{RUNS_MAX}"));
        }
        Layout::Runs { .. } => {}
        Layout::ByHeat(rule) => validate_heat(&rule, place)?,
    }
    if policy.triggers.is_empty() {
        return Err("when= needs at least one trigger".to_owned());
    }
    for (i, trigger) in policy.triggers.iter().enumerate() {
        validate_trigger(*trigger, place)?;
        let same = |other: &Trigger| std::mem::discriminant(other) == std::mem::discriminant(trigger);
        let earlier = policy.triggers.iter().take(i).find(|t| same(t) && !is_saturation(t));
        if earlier.is_some() || policy.triggers.iter().take(i).any(|t| t == trigger) {
            return Err(format!("when= has {} twice", trigger.word()));
        }
    }
    validate_bound(policy, place)?;
    if let Granularity::Files { bytes: 0 } = policy.granularity {
        return Err("much=files:0 must be at least one byte".to_owned());
    }
    validate_movement(policy)
}

/// A level by heat: what is hot and how many groups there are has to be possible.
fn validate_heat(rule: &HeatRule, place: Place) -> Result<(), String> {
    let wants = |is_valid: bool, what: &str| {
        if is_valid { Ok(()) } else { Err(format!("how=by-heat:{} {what}", heat_rule_text(rule))) }
    };
    wants(!place.is_first, "has no use in L0, where each flush is a run; add `L0: how=runs:4 much=runs`")?;
    wants(rule.hot >= 1 && rule.cold > rule.hot, "must allow a hot group at least one run, a cold one more")?;
    wants(rule.cold <= RUNS_MAX, "has no bound for cold groups; at most 1000 runs")?;
    let (Theta::Relative(theta) | Theta::Absolute(theta)) = rule.theta;
    wants((0.0..=1.0).contains(&theta), "must have coldest= or share= from 0 to 1")?;
    wants((0.0..=0.5).contains(&rule.hysteresis), "must have band= from 0 to 0.5")?;
    wants((1..=RUNS_MAX).contains(&rule.groups_max), "must have groups= from 1 to 1000")?;
    wants(rule.tables_min <= TABLES_MIN_MAX, "must have least= of at most 1000 tables")
}

fn is_saturation(trigger: &Trigger) -> bool {
    matches!(trigger, Trigger::Saturation(_))
}

fn validate_trigger(trigger: Trigger, place: Place) -> Result<(), String> {
    let text = trigger_text(trigger);
    let wants =
        |is_valid: bool, what: &str| if is_valid { Ok(()) } else { Err(format!("when={text} {what}")) };
    match trigger {
        Trigger::Saturation(_) | Trigger::Runs => Ok(()),
        Trigger::Staleness { limit_ms: ms } | Trigger::TombstoneTtl { ttl_ms: ms } => {
            wants(ms > 0, "must be at least 1ms")
        }
        Trigger::SpaceAmp { limit } => {
            wants((0.01..=100.0).contains(&limit), "must be from 0.01 (1 % superseded) to 100")
        }
        Trigger::TombstoneDensity { limit } => {
            wants(limit > 0.0 && limit <= 1.0, "must be above 0 and at most 1, a part of the blocks")
        }
        Trigger::ReadHeat { bytes_per_read } => wants(bytes_per_read > 0, "must be at least one byte"),
        Trigger::Duplicates { limit, runs_max } => {
            wants(place.is_first, "counts what flushes have twice, so it belongs to L0: alone")?;
            wants(limit > 0.0 && limit <= 1.0, "must have a part of the entries, above 0 and at most 1")?;
            wants(
                (2..=RUNS_MAX).contains(&runs_max),
                "must have at least 2 runs, for instance duplicates:0.4:6",
            )
        }
    }
}

/// Something must keep the level from growing for ever: its bytes, or its runs where it may have several.
fn validate_bound(policy: &LevelPolicy, place: Place) -> Result<(), String> {
    let runs = policy.layout.max_runs();
    let bounds = |trigger: &Trigger| match trigger {
        Trigger::Saturation(_) | Trigger::Duplicates { .. } => true,
        // In L0 each flush is a run; elsewhere what arrives joins the only run.
        Trigger::Runs => runs > 1 || place.is_first,
        _ => false,
    };
    if policy.triggers.iter().any(bounds) {
        return Ok(());
    }
    let level = match place {
        Place { is_first: true, .. } => "L0",
        Place { is_last: true, .. } => "the last level",
        Place { is_base: true, .. } => "every level",
        _ => "the level",
    };
    let how = match policy.layout {
        Layout::Runs { .. } => format!("runs:{runs}"),
        Layout::ByHeat(rule) => format!("by-heat:{}", heat_rule_text(&rule)),
    };
    let fix = if runs > 1 || place.is_first { "saturation or runs" } else { "saturation" };
    let words: Vec<String> = policy.triggers.iter().map(|t| trigger_text(*t)).collect();
    let words = words.join(",");
    Err(format!("when={words} with how={how} lets {level} grow without bound; add {fix}"))
}

fn validate_movement(policy: &LevelPolicy) -> Result<(), String> {
    let settled = policy.movement.iter().position(|m| *m == Movement::RoundRobin);
    if settled.is_some_and(|at| at + 1 < policy.movement.len()) {
        return Err("which= has no use after round-robin, which leaves no ties".to_owned());
    }
    for (i, movement) in policy.movement.iter().enumerate() {
        let text = movement_text(*movement);
        if policy.movement.iter().take(i).any(|earlier| earlier == movement) {
            return Err(format!("which= has {text} twice"));
        }
        match movement {
            Movement::TombstoneDensity { above } if !(0.0..1.0).contains(above) => {
                return Err(format!("which={text} must be from 0 to below 1, a part of the entries"));
            }
            Movement::Expired if policy.ttl_ms().is_none() => {
                return Err("which=expired needs a time in when=, for instance when=ttl:1h".to_owned());
            }
            _ => {}
        }
    }
    match (policy.granularity.needs_movement(), policy.movement.is_empty()) {
        (true, true) => Err("which= is needed, because much= takes single tables".to_owned()),
        (false, false) => Err("which= has no use, because much= takes everything".to_owned()),
        _ => Ok(()),
    }
}
