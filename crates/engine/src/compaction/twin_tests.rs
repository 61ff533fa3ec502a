//! The property test of the tree's core: whatever happens, every read at every snapshot gives the plain map's answer.
//!
//! `EVENKEEL_TWIN_SEEDS` and `EVENKEEL_TWIN_STEPS` make it long. A failure names its seed and shows the tree.

use super::closure::broken::CONVEXITY;
use super::cost_model::{debt, distance};
use super::twin_world::{Broken, Stats, World, strategies};
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

/// A tree in some strategy's shape comes to rest under every other strategy, with nothing left to do (CDS-15).
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
