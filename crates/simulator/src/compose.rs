//! Composing strategies: the space of them in order, for sweeps, and one by chance, for tests of anything that takes them all.
//!
//! ```text
//! eagerness × runs × ratio × trigger × granularity and movement × where tables end × where sizes are measured from
//! ```
//! The space is of strategies whose levels below the first are alike but for the last; chance gives each part of the tree its own.

use evenkeel::Options;
use evenkeel_lab::base::random::Random;

/// How many runs levels may have: the first, those between, the last (CDS §3.1.2).
const EAGERNESS: [(&str, [bool; 3]); 5] = [
    ("leveling", [false, false, false]),
    ("1-leveling", [true, false, false]),
    ("l-leveling", [true, true, false]),
    ("tiering", [true, true, true]),
    // Tiering where a tree is short, and leveling from its second level on if it is not.
    ("hybrid", [true, false, true]),
];
const RUNS: [u32; 3] = [2, 4, 8];
const RATIOS: [u32; 4] = [4, 6, 8, 10];
/// In addition to what fills a level.
const TRIGGERS: [&str; 3] = ["", "space-amp:0.5,", "density:0.2,"];
const MOVEMENTS: [&str; 7] = [
    "round-robin",
    "least-overlap-parent",
    "least-overlap-grandparent",
    "coldest",
    "coldest-write",
    "oldest",
    "tombstone-density,least-overlap-parent",
];
const CUTS: [&str; 3] = ["size", "next", "last"];
const SIZES: [&str; 2] = ["fixed", "dynamic"];
/// Tables of a compaction of several.
const SEVERAL: u64 = 4;

/// Every strategy of the space, in order, with the sizes of a store with these options.
pub fn space(options: &Options) -> Vec<String> {
    let mut out = Vec::new();
    for (_, tiered) in EAGERNESS {
        let some = tiered.iter().any(|t| *t);
        for runs in if some { &RUNS[..] } else { &RUNS[..1] } {
            // Where all levels are tiered, whole runs go, and nothing is moved.
            let ways = if tiered.iter().all(|t| *t) { vec!["much=runs".to_owned()] } else { ways(options) };
            for ratio in RATIOS {
                for trigger in TRIGGERS {
                    for way in &ways {
                        let levels = levels(tiered, *runs, trigger, way);
                        for cut in CUTS {
                            for sizes in SIZES {
                                out.push(format!("{levels}; {}", size(options, ratio, cut, sizes)));
                            }
                        }
                    }
                }
            }
        }
    }
    out
}

/// Granularity with movement.
fn ways(options: &Options) -> Vec<String> {
    let several = format!("files:{}", options.table_bytes * SEVERAL);
    let each = |much: &str| MOVEMENTS.map(|which| format!("much={much} which={which}"));
    ["much=level".to_owned()].into_iter().chain(each("file")).chain(each(&several)).collect()
}

fn levels(tiered: [bool; 3], runs: u32, trigger: &str, way: &str) -> String {
    let policy = |tiered: bool, is_first: bool| match tiered {
        true if is_first => format!("when={trigger}runs,saturation how=runs:{runs} much=runs"),
        true => format!("when={trigger}runs how=runs:{runs} much=runs"),
        false => format!("when={trigger}saturation how=runs:1 {way}"),
    };
    let [first, rest, last] = tiered;
    format!("{}; L0: {}; last: {}", policy(rest, false), policy(first, true), policy(last, false))
}

fn size(options: &Options, ratio: u32, cut: &str, sizes: &str) -> String {
    let l0 = options.memtable_bytes * u64::from(options.l0_trigger);
    format!(
        "size: l0={l0}..{} base={} ratio={ratio} table={} sizes={sizes} cut={cut}",
        l0 * 2,
        options.level_base_bytes,
        options.table_bytes
    )
}

/// A valid strategy by chance: each part of the tree has triggers, layout, granularity and movements of its own. No trigger goes by
/// the clock.
pub fn by_chance(random: &mut Random, options: &Options) -> String {
    loop {
        let first = policy_by_chance(random, options, true);
        let [rest, last] = [0; 2].map(|_| policy_by_chance(random, options, false));
        let mut text = format!("{rest}; L0: {first}; last: {last}");
        if random.below(4) == 0 {
            text += &format!("; L{}: {}", 1 + random.below(2), policy_by_chance(random, options, false));
        }
        let ratio = RATIOS[random.below(4) as usize];
        let (cut, sizes) = (CUTS[random.below(3) as usize], SIZES[random.below(2) as usize]);
        text += &format!("; {}", size(options, ratio, cut, sizes));
        if evenkeel::strategy::parse(&text).is_ok() {
            return text;
        }
    }
}

fn policy_by_chance(random: &mut Random, options: &Options, is_first: bool) -> String {
    let runs = if random.below(2) == 0 { 1 } else { 2 + random.below(4) };
    let bounds = ["runs", "saturation:count", "saturation"];
    let mut triggers = vec![bounds[random.below(if runs == 1 { 3 } else { 4 }.min(3)) as usize].to_owned()];
    for more in ["space-amp:0.5", "density:0.4", "read-heat:16KiB"] {
        if random.below(5) == 0 {
            triggers.insert(random.below(triggers.len() as u64 + 1) as usize, more.to_owned());
        }
    }
    if is_first && random.below(5) == 0 {
        triggers.push("duplicates:0.4:6".to_owned());
    }
    let fill = if runs > 1 && random.below(4) == 0 { ":fill" } else { "" };
    let several = format!("files:{}", options.table_bytes * SEVERAL);
    let much = ["level", "runs", "file", &several][random.below(4) as usize];
    let which = if much.starts_with("file") {
        format!(" which={}", MOVEMENTS[random.below(MOVEMENTS.len() as u64) as usize])
    } else {
        String::new()
    };
    format!("when={} how=runs:{runs}{fill} much={much}{which}", triggers.join(","))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_space_is_valid_and_has_nothing_twice() {
        let options = Options::default();
        let all = space(&options);
        assert!(all.len() > 10_000, "{}", all.len());
        let mut seen = BTreeSet::new();
        for text in &all {
            let strategy = evenkeel::strategy::with_sizes(text, &options).unwrap();
            assert!(seen.insert(strategy.to_string()), "{text} is there twice");
        }
    }

    #[test]
    fn chance_uses_every_word() {
        let options = Options::default();
        let mut random = Random::new(1);
        let all: Vec<String> = (0..300).map(|_| by_chance(&mut random, &options)).collect();
        let mut words = vec!["when=runs", "space-amp", "density:", "read-heat", "duplicates", ":fill", "L1:"];
        words.extend(["much=level", "much=runs", "much=file ", "much=files:", "cut=last", "sizes=fixed"]);
        words.extend(MOVEMENTS);
        for word in words {
            assert!(all.iter().any(|text| text.contains(word)), "{word} is in none");
        }
    }
}
