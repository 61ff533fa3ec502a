//! The property test of the tree's core: whatever happens, every read at every snapshot gives the plain map's answer.
//!
//! `EVENKEEL_TWIN_SEEDS` and `EVENKEEL_TWIN_STEPS` make it long. A failure names its seed and shows the tree.

use super::catalog::{CATALOG, strategy};
use super::closure::broken::CONVEXITY;
use super::strategy::{CutRule, SizeRule, Strategy};
use super::twin_world::{Broken, Stats, World};
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
        "group edit",
        "group edit refused",
        "crash",
        "dropped tombstone",
    ] {
        assert!(stats.0.contains_key(what), "never happened: {what}");
    }
}

#[test]
fn a_rule_that_is_switched_off_is_noticed() {
    let failures = |broken: Broken| {
        (1..=20).filter(|seed| run(*seed, 400, broken, &mut Stats::default()).is_err()).count()
    };
    assert!(failures(Broken::Tombstones) > 0, "tombstones dropped too early");
    CONVEXITY.set(true);
    let convexity = failures(Broken::Nothing);
    CONVEXITY.set(false);
    assert!(convexity > 0, "inputs that are not convex");
}
