//! Strategies composed by chance: whatever valid ensemble of primitives is drawn, the answers are the model's, the tree is whole after
//! each edit, and it comes to rest; where deletes are to be gone in time, they are.
//!
//! `EVENKEEL_ENSEMBLES` says how many are drawn. A failure names its seed and the strategy.

use std::collections::BTreeMap;

use super::strategy::{
    Align, CutRule, FilterBits, Granularity, Heat, HeatRule, Layout, LevelPolicy, Movement, PerLevel,
    Relative, Saturation, SizeRule, Sizes, Strategy, Trigger,
};
use super::strategy_words::{movement_text, trigger_text};
use super::twin_world::{Broken, Chance, KEYS, World};
use crate::hotness::temperature::Theta;
use crate::version::check::check;
use crate::version::picture::draw_full;

/// Writes and reads of an ensemble at least.
const OPERATIONS: usize = 2000;
/// Each value of each primitive is in at least so many ensembles.
const COVERED_LEAST: u64 = 20;
const TTL_MS: u64 = 40_000;
/// Every check reads all keys at each of them.
const SNAPSHOTS_MAX: usize = 3;

type Coverage = BTreeMap<String, u64>;

/// A valid ensemble.
fn compose(chance: &mut Chance) -> Strategy {
    let ttl = chance.once_in(3);
    let (several, one) = (2 + chance.below(4) as u32, 1);
    // The five kinds of eagerness (CDS §3.1.2).
    let [first, rest, last] = match chance.below(5) {
        0 => [one, one, one],
        1 => [several, several, several],
        2 => [several, one, one],
        3 => [several, several, one],
        _ => [0, 1, 2].map(|_| 1 + chance.below(5) as u32),
    };
    let mut levels = PerLevel {
        first: policy(chance, first, ttl, true),
        rest: policy(chance, rest, ttl, false),
        last: policy(chance, last, ttl, false),
        at: BTreeMap::new(),
    };
    if chance.once_in(4) {
        let (level, runs) = (1 + chance.below(2), 1 + chance.below(5) as u32);
        levels.at.insert(level, policy(chance, runs, ttl, false));
    }
    let mut filter_bits = PerLevel::same(FilterBits::Exactly(10.0));
    filter_bits.at = levels.at.keys().map(|level| (*level, FilterBits::Exactly(10.0))).collect();
    let sizes = if chance.once_in(2) { Sizes::Fixed } else { Sizes::Dynamic };
    let align = [Align::Size, Align::Next, Align::Last][chance.below(3)];
    Strategy {
        levels,
        size: SizeRule { l0_bytes: 300, l0_bytes_max: 600, level_base_bytes: 200, level_ratio: 3, sizes },
        cut: CutRule { table_bytes: 60, align },
        filter_bits,
    }
}

fn policy(chance: &mut Chance, max: u32, ttl: bool, is_first: bool) -> LevelPolicy {
    let granularity = match chance.below(4) {
        0 => Granularity::Level,
        1 => Granularity::Runs,
        2 => Granularity::File,
        _ => Granularity::Files { bytes: 150 },
    };
    let bound = match chance.below(3) {
        0 if max > 1 || is_first => Trigger::Runs,
        1 => Trigger::Saturation(Saturation::Count),
        _ => Trigger::Saturation(Saturation::Bytes),
    };
    let mut triggers = vec![bound];
    for extra in [
        Trigger::Staleness { limit_ms: 15_000 },
        Trigger::SpaceAmp { limit: 0.5 },
        Trigger::TombstoneDensity { limit: 0.4 },
        Trigger::ReadHeat { bytes_per_read: 10 },
    ] {
        if chance.once_in(4) {
            triggers.insert(chance.below(triggers.len() + 1), extra);
        }
    }
    if is_first && chance.once_in(4) {
        triggers.push(Trigger::Duplicates { limit: 0.4, runs_max: 5 });
    }
    if ttl {
        triggers.insert(chance.below(triggers.len() + 1), Trigger::TombstoneTtl { ttl_ms: TTL_MS });
    }
    let fill = max > 1 && chance.once_in(4);
    let movement = if granularity.needs_movement() { movements(chance, ttl) } else { Vec::new() };
    let mut layout = Layout::Runs { max, fill };
    if !is_first && chance.once_in(5) {
        layout = Layout::ByHeat(heat_rule(chance));
        // Hot groups may have one run, so the level's bytes must bound them.
        if !triggers.iter().any(|t| matches!(t, Trigger::Saturation(_))) {
            triggers.push(Trigger::Saturation(Saturation::Bytes));
        }
    }
    LevelPolicy { layout, triggers, granularity, movement }
}

fn heat_rule(chance: &mut Chance) -> HeatRule {
    let hot = 1 + chance.below(2) as u32;
    let theta = [Theta::Relative(0.5), Theta::Absolute(0.4)][chance.below(2)];
    let (groups_max, tables_min) = (1 + chance.below(5) as u32, chance.below(3) as u32);
    let hysteresis = [0.0, 0.05, 0.2][chance.below(3)];
    let cold = hot + 1 + chance.below(3) as u32;
    HeatRule { theta, hysteresis, groups_max, tables_min, ..HeatRule::new(hot, cold) }
}

fn movements(chance: &mut Chance, ttl: bool) -> Vec<Movement> {
    let all = [
        Movement::LeastOverlap(Relative::Parent),
        Movement::LeastOverlap(Relative::Grandparent),
        Movement::Coldest(Heat::Access),
        Movement::Coldest(Heat::Write),
        Movement::Oldest,
        Movement::TombstoneDensity { above: 0.2 },
        Movement::MostTombstones,
        Movement::RoundRobin,
        Movement::Expired,
    ];
    let mut out: Vec<Movement> = Vec::new();
    for _ in 0..=chance.below(2) {
        let movement = all[chance.below(all.len() - usize::from(!ttl))];
        if !out.contains(&movement) && out.last() != Some(&Movement::RoundRobin) {
            out.push(movement);
        }
    }
    out
}

/// The words of every value that the strategy has, without their numbers.
fn note(strategy: &Strategy, coverage: &mut Coverage) {
    let mut words = vec![format!("sizes {:?}", strategy.size.sizes), format!("cut {:?}", strategy.cut.align)];
    let bare = |text: String| text.split(':').next().unwrap_or_default().to_owned();
    for (_, policy) in strategy.levels.named() {
        words.extend(policy.triggers.iter().map(|t| format!("when {}", bare(trigger_text(*t)))));
        words.extend(policy.movement.iter().map(|m| format!("which {}", bare(movement_text(*m)))));
        words.push(match policy.granularity {
            Granularity::Level => "much level".to_owned(),
            Granularity::Runs => "much runs".to_owned(),
            Granularity::File => "much file".to_owned(),
            Granularity::Files { .. } => "much files".to_owned(),
        });
        words.push(match policy.layout {
            Layout::Runs { fill: true, .. } => "how fill".to_owned(),
            Layout::Runs { max, .. } => format!("how runs {max}"),
            Layout::ByHeat(rule) if matches!(rule.theta, Theta::Relative(_)) => {
                "how by-heat coldest".to_owned()
            }
            Layout::ByHeat(_) => "how by-heat share".to_owned(),
        });
    }
    let runs = |policy: &LevelPolicy| policy.layout.max_runs();
    let levels = &strategy.levels;
    let kind = match (runs(&levels.first), runs(&levels.rest), runs(&levels.last)) {
        (1, 1, 1) => "eagerness leveling",
        (_, 1, 1) => "eagerness 1-leveling",
        (a, b, 1) if a == b => "eagerness l-leveling",
        (a, b, c) if a == b && b == c => "eagerness tiering",
        _ => "eagerness hybrid",
    };
    words.push(kind.to_owned());
    words.sort();
    words.dedup();
    words.into_iter().for_each(|word| *coverage.entry(word).or_default() += 1);
}

/// Runs one ensemble; answers the jobs that it took to come to rest. The error tells where it went wrong.
fn run(seed: u64, coverage: &mut Coverage) -> Result<u64, String> {
    let strategy = compose(&mut Chance(seed ^ 0xe5e3_b1e5));
    let text = strategy.to_string();
    if text.parse::<Strategy>().map_err(|e| format!("{text}: {e}"))? != strategy {
        return Err(format!("{text} does not come back as it was written"));
    }
    note(&strategy, coverage);
    let mut world = World::new(seed, Broken::Nothing);
    world.strategy = strategy.clone();
    let lived = live(&mut world).and_then(|()| rest(&mut world, &strategy));
    lived.map_err(|what| format!("seed {seed}, {text}: {what}\n{}", draw_full(&world.version)))
}

/// As many operations as are wanted, with checks after each edit.
fn live(world: &mut World) -> Result<(), String> {
    let (mut operations, mut actions) = (0, 0);
    while operations < OPERATIONS {
        let edits = world.manifest.len();
        operations += act(world)?;
        if world.manifest.len() != edits {
            check(&world.version, &world.claims.open_claims())?;
        }
        actions += 1;
        if actions % 64 == 0 {
            world.check()?;
        }
    }
    Ok(())
}

/// Nothing comes in any more: everything is there, nothing is left to do, and in time no trace of a delete.
fn rest(world: &mut World, strategy: &Strategy) -> Result<u64, String> {
    while world.memtables.iter().flatten().any(|entries| !entries.is_empty()) {
        world.flush_oldest()?;
    }
    let mut jobs = world.settle(strategy)?;
    world.check()?;
    world.snapshots.clear();
    world.now_ms += TTL_MS;
    jobs += world.settle(strategy)?;
    world.check()?;
    let traces = world.version.tables().filter(|(_, t)| t.oldest_delete_ms().is_some()).count();
    if strategy.ttl_ms().is_some() && traces > 0 {
        return Err(format!("{traces} tables hold traces of deletes"));
    }
    Ok(jobs as u64)
}

/// One action; answers how many operations of a user that was.
fn act(world: &mut World) -> Result<usize, String> {
    match world.chance.below(40) {
        0..14 => {
            let before = world.seq;
            world.write();
            return Ok((world.seq - before) as usize);
        }
        14..17 => {
            let k = world.chance.below(KEYS);
            let (got, want) = (world.get(k, world.seq), world.answers.get(&k).copied());
            world.read(k);
            return if got == want { Ok(1) } else { Err(format!("key {k}: {got:?}, not {want:?}")) };
        }
        17..20 => world.flush_oldest()?,
        20..25 => world.start_picked()?,
        25..35 => world.step_some_job()?,
        35 => world.end_some_job()?,
        36 if world.snapshots.len() < SNAPSHOTS_MAX => {
            world.snapshots.insert(world.seq, world.answers.clone());
        }
        36 | 37 => world.release_snapshot(),
        38 => world.crash_perhaps()?,
        // Where groups are by heat.
        _ => world.regroup()?,
    }
    world.now_ms += world.chance.below(200) as u64;
    Ok(0)
}

#[test]
fn whatever_is_composed_gives_the_models_answers_and_comes_to_rest() {
    let ensembles: u64 = std::env::var("EVENKEEL_ENSEMBLES").ok().and_then(|v| v.parse().ok()).unwrap_or(500);
    let mut coverage = Coverage::new();
    let mut jobs = 0;
    for seed in 1..=ensembles {
        jobs += run(seed, &mut coverage).unwrap_or_else(|what| panic!("{what}"));
    }
    println!(
        "{ensembles} ensembles of {OPERATIONS} operations and more, {jobs} jobs until at rest; of the ensembles"
    );
    for (word, count) in &coverage {
        println!("  {count:>4} have {word}");
        assert!(*count >= COVERED_LEAST.min(ensembles / 25), "{word} is in {count} ensembles only");
    }
    let values = |of: &str| coverage.keys().filter(|word| word.starts_with(of)).count();
    assert_eq!(["when ", "which ", "much ", "eagerness "].map(values), [9, 9, 4, 5]);
}
