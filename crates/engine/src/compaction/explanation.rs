//! A strategy for people: what it does at each level in words, and what a tree that it keeps looks like.

use super::strategy::{
    Align, Granularity, Heat, HeatRule, Layout, LevelPolicy, Movement, Relative, Saturation, Sizes, Strategy,
    Trigger,
};
use super::strategy_words::{bytes_text, time_text};
use crate::hotness::temperature::Theta;

/// What a strategy does at some levels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explained {
    /// Which levels, for instance `L0` or `last level`.
    pub levels: String,
    /// How many runs, when, how much and which, each a sentence.
    pub words: String,
}

/// One entry for each part of the tree that has a policy of its own, from the top.
pub fn explain(strategy: &Strategy) -> Vec<Explained> {
    parts(strategy)
        .into_iter()
        .map(|(levels, policy)| Explained { levels, words: policy_words(policy) })
        .collect()
}

/// Where levels grow and where tables end, in two sentences.
pub fn sizes_in_words(strategy: &Strategy) -> String {
    let sizes = match strategy.size.sizes {
        Sizes::Dynamic => "Sizes are measured from the last level upward.",
        Sizes::Fixed => "Sizes are measured from the first level downward.",
    };
    let cut = match strategy.cut.align {
        Align::Size => "Tables are cut by their size alone.",
        Align::Next => "Tables are cut where those of the next level end.",
        Align::Last => "Tables are cut where those of the last level end.",
    };
    format!("{sizes} {cut}")
}

/// A tree in shape, a line a level: `[==]` is a run as full as it may be; below a run that takes part of a level lies what goes on.
pub fn draw(strategy: &Strategy) -> String {
    let levels = 4;
    let mut out = String::new();
    for level in 0..levels {
        let policy = strategy.levels.get(level, levels);
        let name = if level + 1 == levels { "last".to_owned() } else { format!("L{level}") };
        let runs = policy.layout.max_runs().min(6) as usize;
        let width = [3, 6, 18, 40].get(level).copied().unwrap_or(40);
        let run = match policy.granularity {
            // Tables of a run can be told apart where they go down one by one.
            Granularity::File | Granularity::Files { .. } => "=|".repeat((width / runs / 2).max(1)),
            Granularity::Level | Granularity::Runs => "=".repeat((width / runs).max(2)),
        };
        let drawn = match policy.layout {
            Layout::Runs { .. } => vec![format!("[{}]", run.trim_end_matches('|')); runs].join(" "),
            // A hot group, and a cold one.
            Layout::ByHeat(rule) => {
                let cold = vec!["[==]"; rule.cold.min(4) as usize].join(" ");
                format!("{{[{}]}} {{{cold}}}", "=|".repeat((width / 4).max(1)).trim_end_matches('|'))
            }
        };
        let more = if policy.layout.max_runs() > 6 { " ..." } else { "" };
        out.push_str(&format!("{name:<5} {drawn}{more}\n"));
        if level + 1 < levels {
            out.push_str(&format!("      {}\n", arrow(policy)));
        }
    }
    out
}

fn arrow(policy: &LevelPolicy) -> &'static str {
    match policy.granularity {
        Granularity::Level => "V all of it",
        Granularity::Runs => "V all runs together",
        Granularity::File => "v a table at a time",
        Granularity::Files { .. } => "v some tables at a time",
    }
}

/// Parts of the tree with their policies; those alike are one.
fn parts(strategy: &Strategy) -> Vec<(String, &LevelPolicy)> {
    let levels = &strategy.levels;
    let mut out = Vec::new();
    if levels.first != levels.rest {
        out.push(("L0".to_owned(), &levels.first));
    }
    out.extend(levels.at.iter().map(|(level, policy)| (format!("L{level}"), policy)));
    let has_own_last = levels.last != levels.rest;
    let rest = match (out.is_empty(), has_own_last) {
        (true, false) => "every level",
        (true, true) => "all levels above the last",
        (false, true) => "the other levels above the last",
        (false, false) => "the other levels",
    };
    out.push((rest.to_owned(), &levels.rest));
    if has_own_last {
        out.push(("the last level".to_owned(), &levels.last));
    }
    out
}

fn policy_words(policy: &LevelPolicy) -> String {
    let runs = match policy.layout {
        Layout::Runs { max: 1, .. } => "one run".to_owned(),
        Layout::Runs { max, fill: false } => format!("up to {max} runs"),
        Layout::Runs { max, fill: true } => {
            format!("up to {max} runs, the newest filled before another begins")
        }
        Layout::ByHeat(rule) => heat_words(&rule),
    };
    let when: Vec<String> = policy.triggers.iter().map(|t| trigger_words(*t)).collect();
    let much = match policy.granularity {
        Granularity::Level => "the whole level is merged into the next in one job".to_owned(),
        Granularity::Runs => "all of its runs are merged and go down".to_owned(),
        Granularity::File => "one table goes down".to_owned(),
        Granularity::Files { bytes } => format!("tables of about {} go down", bytes_text(bytes)),
    };
    let which: Vec<&str> = policy.movement.iter().map(|m| movement_words(*m)).collect();
    let which = if which.is_empty() { String::new() } else { format!(": {}", which.join(", then ")) };
    let cold = match policy.layout {
        Layout::Runs { .. } => "",
        Layout::ByHeat(_) => " A cold group that has all its runs goes down as a whole.",
    };
    format!("{runs}. When {}, {much}{which}.{cold}", when.join(", or "))
}

fn heat_words(rule: &HeatRule) -> String {
    let runs = |max: u32| if max == 1 { "one run".to_owned() } else { format!("up to {max} runs") };
    let cold = match rule.theta {
        Theta::Relative(part) => format!("the {} % of its bytes that are read least", percent(part)),
        Theta::Absolute(share) => format!("what fewer than {} % of gets look into", percent(share)),
    };
    let (hot, several, groups) = (runs(rule.hot), runs(rule.cold), rule.groups_max);
    format!("{hot} where it is read, {several} for {cold}, in at most {groups} groups of keys")
}

fn trigger_words(trigger: Trigger) -> String {
    match trigger {
        Trigger::Saturation(Saturation::Bytes) => "it is full".to_owned(),
        Trigger::Saturation(Saturation::Count) => "it has as many tables as fit".to_owned(),
        Trigger::Runs => "it has all the runs it may have".to_owned(),
        Trigger::Staleness { limit_ms } => format!("a table stayed for {}", time_text(limit_ms)),
        Trigger::SpaceAmp { limit } => format!("superseded data takes {limit} times the space of the rest"),
        Trigger::TombstoneTtl { ttl_ms } => {
            format!("a delete would else not be gone {} after it was made", time_text(ttl_ms))
        }
        Trigger::TombstoneDensity { limit } => {
            format!("{} % of a table's blocks are dense with tombstones", percent(limit))
        }
        Trigger::ReadHeat { bytes_per_read } => {
            format!("a table over others was read once for each {} it has", bytes_text(bytes_per_read))
        }
        Trigger::Duplicates { limit, runs_max } => {
            format!("{} % of its entries are superseded there or it has {runs_max} runs", percent(limit))
        }
    }
}

fn percent(part: f32) -> String {
    let tenths = (f64::from(part) * 1000.0).round();
    format!("{}", tenths / 10.0)
}

fn movement_words(movement: Movement) -> &'static str {
    match movement {
        Movement::RoundRobin => "the next in key order",
        Movement::LeastOverlap(Relative::Parent) => "the one with the least overlap with the next level",
        Movement::LeastOverlap(Relative::Grandparent) => {
            "the one with the least overlap with the level after the next"
        }
        Movement::Coldest(Heat::Access) => "the one not read for longest",
        Movement::Coldest(Heat::Write) => "the one not written for longest",
        Movement::Oldest => "the one with the oldest entry",
        Movement::MostTombstones => "the one with the most tombstones",
        Movement::TombstoneDensity { .. } => "the one with the most tombstones per entry",
        Movement::Expired => "the one whose delete is due, the oldest first",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compaction::catalog::{CATALOG, strategy};

    #[test]
    fn a_strategy_is_said_part_by_part() {
        let said = |name: &str| -> Vec<String> {
            let parts = explain(&strategy(name).unwrap());
            parts.into_iter().map(|part| format!("{}: {}", part.levels, part.words)).collect()
        };
        assert_eq!(
            said("1-leveling"),
            [
                "L0: up to 4 runs. When it has all the runs it may have, or it is full, all of its runs are merged and go down.",
                "the other levels: one run. When it is full, one table goes down: the one with the least overlap with the next level.",
            ]
        );
        assert_eq!(
            said("tsa"),
            [
                "every level: one run. When a delete would else not be gone 2250s after it was made, or it is full, \
              one table goes down: the one whose delete is due, the oldest first, then the one with the least overlap \
              with the next level."
            ]
        );
        assert_eq!(said("l-leveling").len(), 2);
    }

    #[test]
    fn a_tree_is_drawn_from_the_top_for_every_row() {
        for row in CATALOG {
            let drawn = draw(&strategy(row.name).unwrap());
            assert!(
                drawn.lines().count() == 7 && drawn.lines().all(|l| l.len() < 80),
                "{}\n{drawn}",
                row.name
            );
        }
        assert!(
            draw(&strategy("tier").unwrap())
                .starts_with("L0    [==] [==] [==] [==]\n      V all runs together\n")
        );
    }
}
