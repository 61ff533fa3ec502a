//! The property test of the tree's core: whatever happens, every read at every snapshot gives the plain map's answer.
//!
//! `EVENKEEL_TWIN_SEEDS` and `EVENKEEL_TWIN_STEPS` make it long. A failure names its seed and shows the tree.

use super::closure::broken::CONVEXITY;
use super::cost_model::{debt, distance};
use super::level_sizes::surplus_levels;
use super::picker::{Pick, pick};
use super::strategy::Strategy;
use super::twin_world::{Broken, Stats, World, strategies};
use crate::base::class::Permit;
use crate::version::picture::draw;

fn from_env(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(default)
}

/// Runs one seed; the error tells where it went wrong.
fn run(seed: u64, steps: u64, broken: Broken, stats: &mut Stats) -> Result<(), String> {
    let mut world = World::new(seed, broken);
    for step in 0..steps {
        world.step().map_err(|what| format!("seed {seed}, step {step}: {what}\n{}", draw(&world.version)))?;
    }
    for (what, n) in world.stats.0 {
        *stats.0.entry(what).or_default() += n;
    }
    Ok(())
}

#[test]
fn every_read_at_every_snapshot_gives_the_maps_answer() {
    let (seeds, steps) = (from_env("EVENKEEL_TWIN_SEEDS", 40), from_env("EVENKEEL_TWIN_STEPS", 600));
    let mut stats = Stats::default();
    for seed in 1..=seeds {
        if let Err(what) = run(seed, steps, Broken::Nothing, &mut stats) {
            panic!("{what}");
        }
    }
    println!("twin: {seeds} seeds x {steps} steps, {:?}", stats.0);
    for what in [
        "flush",
        "into",
        "above",
        "first",
        "collapse",
        "picked job",
        "random job",
        "move",
        "prefix",
        "finished",
        "yield",
        "discard",
        "blocked",
        "fuse",
        "trim",
        "level born",
        "level inserted",
        "load under jobs",
        "load below L0",
        "level removed",
        "levels changed under jobs",
        "group edit",
        "group edit refused",
        "split by heat",
        "joined by heat",
        "turned hot",
        "turned cold",
        "by heat under jobs",
        "crash",
        "dropped tombstone",
        "dropped range tombstone",
        "range delete",
        "table of ranges",
        "covered",
        "three jobs open",
    ] {
        assert!(stats.0.contains_key(what), "never happened: {what}");
    }
}

#[test]
fn a_rule_that_is_switched_off_is_noticed() {
    // Gaps go wrong rarely: some three of a hundred seeds.
    let fails = |broken: Broken| (1..=300).any(|seed| run(seed, 500, broken, &mut Stats::default()).is_err());
    assert!(fails(Broken::Tombstones), "tombstones dropped too early");
    assert!(fails(Broken::Ranges), "range tombstones dropped too early");
    assert!(fails(Broken::Covered), "tables dropped under the eyes of a snapshot");
    assert!(fails(Broken::Gaps), "outputs over gaps");
    CONVEXITY.set(true);
    let convexity = fails(Broken::Nothing);
    CONVEXITY.set(false);
    assert!(convexity, "inputs that are not convex");
}

/// A tree in some strategy's shape comes to rest under every other strategy, with nothing left to do.
#[test]
fn every_switch_of_strategy_comes_to_rest_in_shape() {
    let all = strategies();
    let mut jobs = 0;
    for (i, from) in all.iter().enumerate() {
        for (j, to) in all.iter().enumerate() {
            let mut world = World::new((i * 100 + j) as u64, Broken::Nothing);
            let say = |world: &World, what: &str| {
                format!("{} to {}: {what}\n{}", from.0, to.0, draw(&world.version))
            };
            for _ in 0..100 {
                world.step().map_err(|what| say(&world, &what)).unwrap();
            }
            for (_, strategy) in [from, to] {
                jobs += world.settle(strategy).map_err(|what| say(&world, &what)).unwrap();
                assert_eq!(distance(&world.version, strategy), 0, "{}", say(&world, "out of shape"));
                assert_eq!(debt(&world.version, strategy), 0, "{}", say(&world, "in debt"));
            }
        }
    }
    assert!(jobs > 100, "only {jobs} jobs in all switches");
}

/// What is known of the way to a new shape.
#[derive(Debug, Default)]
struct Way {
    /// Switches with a distance to go.
    begun: u64,
    /// Parts of jobs of upkeep that brought the tree nearer.
    nearer: u64,
    /// Times that a last level shrank so that a level became one too many.
    shrunk: u64,
}

/// Does all that `strategy` wants, a job at a time, and looks at the distance after each edit.
fn settle_nearer(world: &mut World, strategy: &Strategy, way: &mut Way) -> Result<(), String> {
    world.strategy = strategy.clone();
    world.shape()?;
    way.begun += u64::from(distance(&world.version, strategy) > 0);
    for _ in 0..1000 {
        world.shape_levels()?;
        let cursors = world.cursors.clone();
        let Pick::Run(picked) = pick(&world.view(&cursors), strategy, &Permit::everything()) else {
            return Ok(());
        };
        let upkeep =
            ["excess runs", "a level too many"].iter().any(|r| picked.compaction.reason.starts_with(r));
        // What only range tombstones are left of has no byte.
        let (what, takes) = (picked.compaction.reason.clone(), picked.compaction.input_bytes);
        let begin = distance(&world.version, strategy);
        let (mut now, mut shrunk) = (begin, false);
        world.start(*picked, false)?;
        loop {
            let edits = world.manifest.len();
            let before = (distance(&world.version, strategy), surplus_levels(&strategy.size, &world.version));
            if before.0 > now {
                return Err(format!("its begin took `{what}` from {now} to {}", before.0));
            }
            now = before.0;
            if world.running.is_empty() {
                break;
            }
            world.step_some_job()?;
            let after = distance(&world.version, strategy);
            if surplus_levels(&strategy.size, &world.version) > before.1 {
                way.shrunk += 1;
                shrunk = true;
                now = after;
            } else if after > now {
                return Err(format!("`{what}` took it from {now} to {after}"));
            } else if world.manifest.len() > edits && upkeep {
                way.nearer += u64::from(after < now);
            }
        }
        if upkeep && begin > 0 && takes > 0 && now >= begin && !shrunk {
            return Err(format!("`{what}` brought nothing: {begin} and then {now}"));
        }
    }
    Err("the picker does not come to rest".to_owned())
}

/// After a switch, with no writes: no edit takes the tree away from its new shape, each job of upkeep brings it nearer, and
/// the end is 0.
#[test]
fn the_distance_falls_to_nothing_after_every_switch() {
    let all = strategies();
    let mut way = Way::default();
    for (i, from) in all.iter().enumerate() {
        for (j, to) in all.iter().enumerate() {
            for seed in 0..from_env("EVENKEEL_TWIN_SWITCHES", 2) {
                let mut world = World::new(seed * 10_000 + (i * 100 + j) as u64, Broken::Nothing);
                let say = |world: &World, what: &str| {
                    format!("{} to {}, seed {seed}: {what}\n{}", from.0, to.0, draw(&world.version))
                };
                for _ in 0..150 {
                    world.strategy = from.1.clone();
                    world.step().map_err(|what| say(&world, &what)).unwrap();
                }
                while let Some(job) = world.running.keys().next().copied() {
                    world.end(job, false).unwrap();
                }
                settle_nearer(&mut world, &to.1, &mut way).map_err(|what| say(&world, &what)).unwrap();
                assert_eq!(distance(&world.version, &to.1), 0, "{}", say(&world, "out of shape"));
            }
        }
    }
    println!("twin: {way:?}");
    assert!(way.begun > 50 && way.nearer > 100, "{way:?}");
}
