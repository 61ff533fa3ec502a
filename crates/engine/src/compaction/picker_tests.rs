//! Picks on drawn trees: a tree and a strategy in, the picked work out; and that every strategy comes to rest.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use super::*;
use crate::compaction::claims::Claims;
use crate::compaction::compaction::{Compaction, SlotPlace};
use crate::compaction::strategy::{SizeRule, Sizes, Strategy};
use crate::compaction::tree_view::Ids;
use crate::version::picture::{key_text, table_text};
use crate::version::picture_parse::parse;
use crate::version::version::Version;

/// A tree with jobs in it.
pub struct Scene {
    pub version: Version,
    pub claims: Claims,
    cursors: BTreeMap<usize, Box<[u8]>>,
    ids: Ids,
    pub strategy: Strategy,
    pub now_ms: u64,
    pub oldest_snapshot: SeqNo,
    pub space_amp: f64,
}

impl Scene {
    pub fn new(strategy: &str, tree: &str) -> Scene {
        let version = parse(tree).unwrap();
        let strategy =
            format!("{strategy}; size: l0=200 base=300 ratio=2 table=100 sizes=fixed").parse().unwrap();
        let ids = Ids::above(&version);
        Scene {
            version,
            claims: Claims::default(),
            cursors: BTreeMap::new(),
            ids,
            strategy,
            now_ms: 0,
            oldest_snapshot: SeqNo::MAX,
            space_amp: 0.0,
        }
    }

    pub fn view(&self) -> TreeView<'_> {
        let Scene { version, claims, cursors, ids, now_ms, oldest_snapshot, space_amp, .. } = self;
        let (ids, now_ms) = (*ids, *now_ms);
        let (oldest_snapshot, space_amp) = (*oldest_snapshot, *space_amp);
        TreeView { version, claims, cursors, ids, now_ms, oldest_snapshot, space_amp }
    }

    pub fn pick(&self, permit: &Permit) -> Pick {
        pick(&self.view(), &self.strategy, permit)
    }

    /// Starts what is picked as the next job.
    fn start(&mut self) -> String {
        let picked = self.pick(&Permit::everything());
        let out = drawn(&picked);
        if let Pick::Run(picked) = picked {
            self.version = self.version.apply(&picked.before).unwrap();
            self.ids = picked.ids;
            let job = JobId(self.claims.jobs().count() as u64 + 1);
            self.claims.claim(job, Arc::new(picked.compaction)).unwrap();
        }
        out
    }
}

fn wish(range: KeyRange, before: u64) -> Wish {
    Wish { range, to_level: None, until: SeqNo::MAX, before: TableId(before) }
}

pub fn drawn(pick: &Pick) -> String {
    match pick {
        Pick::Nothing => "nothing".to_owned(),
        Pick::Run(picked) => drawn_compaction(&picked.compaction),
        Pick::Blocked { want, by, less_urgent } => {
            let how = if by == less_urgent { "sends away" } else { "blocked by" };
            let by: Vec<String> = by.iter().map(|j| format!("{j}")).collect();

            format!("{how} {}: {}", by.join(","), drawn_compaction(&want.compaction))
        }
    }
}

/// `class: L0 inputs | inputs + L1 inputs -> L1 place; older ranges`
fn drawn_compaction(c: &Compaction) -> String {
    let mut out = format!("{}{}:", c.class, if c.trivial_move { " move" } else { "" });
    let mut last = None;
    for input in &c.inputs {
        match last {
            Some(level) if level == input.level => out.push_str(" |"),
            _ => drop(write!(out, " L{}", input.level)),
        }
        last = Some(input.level);
        for table in &input.tables {
            let _ = write!(out, " {}", table_text(table, false));
        }
    }
    let _ = write!(out, " -> L{}", c.target_level);
    for slot in &c.slots {
        let _ = match slot.place {
            SlotPlace::Into(run) => write!(out, " into #{run}"),
            SlotPlace::Above(run) => write!(out, " #{} above #{run}", slot.run),
            SlotPlace::First => write!(out, " #{} first", slot.run),
            SlotPlace::Collapse(run) => write!(out, " collapse #{run}"),
        };
    }
    for range in &c.older {
        let hi = range.hi.as_deref().map(key_text).unwrap_or_default();
        let _ = write!(out, " older {}..{hi}", key_text(&range.lo));
    }
    out
}

pub fn check(cases: &[(&str, &str, &str)]) {
    let mut wrong = String::new();
    for (strategy, tree, want) in cases {
        let got = drawn(&Scene::new(strategy, tree).pick(&Permit::everything()));
        if got != *want {
            let _ = writeln!(wrong, "{strategy}\n{tree}\n  want {want}\n  got  {got}");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

const TIER: &str = "when=runs how=runs:3 much=runs";
const FULL: &str = "when=saturation how=runs:1 much=level";
pub const PARTIAL: &str = "when=saturation how=runs:1 much=file which=";

#[test]
fn each_layout_puts_the_output_in_its_place() {
    let fill = "when=runs how=runs:3:fill much=runs";
    check(&[
        // Nothing fires.
        (TIER, "L0 T 2[a-c] | 1[a-c]", "nothing"),
        // A level is born below the last one.
        (TIER, "L0 T 3[a-c] | 2[a-c] | 1[a-c]", "l0-to-l1: L0 3[a-c] | 2[a-c] | 1[a-c] -> L1 #4 first"),
        // Tiering puts the merged run on top and leaves what is below alone; older data is remembered.
        (
            TIER,
            "L0 T 3[a-c] | 2[a-c] | 1[a-c]\nL1 T 4[b-d] | 5[x-z]\nL2 T",
            "l0-to-l1: L0 3[a-c] | 2[a-c] | 1[a-c] -> L1 #6 above #4 older b..d+",
        ),
        // Leveling merges with what overlaps in the run below, and with nothing else.
        (
            "when=saturation how=runs:1 much=runs; L0: when=runs how=runs:2",
            "L0 T 2[a-c] | 1[b-e]\nL1 L 3[a-d] 4[e-g] 5[x-z]\nL2 L 6[e-y]",
            "l0-to-l1: L0 2[a-c] | 1[b-e] L1 3[a-d] 4[e-g] -> L1 into #3 older e..y+",
        ),
        // Range tombstones reach as far as their bounds do: 5 is under those of 2, 7 is not.
        (
            "when=saturation how=runs:1 much=runs; L0: when=runs how=runs:2",
            "L0 T 2[a..o] | 1[b-e]\nL1 L 3[a-d] 5[m-n] 7[o-z]\nL2 L 6[e-y]",
            "l0-to-l1: L0 2[a..o] | 1[b-e] L1 3[a-d] 5[m-n] -> L1 into #3 older e..y+",
        ),
        // With `fill` the newest run is filled while it stays within its share of 300 / 3.
        (
            fill,
            "L0 T 3[a-c bytes=10] | 2[a-c bytes=10] | 1[a-c bytes=10]\nL1 T 4[b-d bytes=50] | 5[x-z]\nL2 T",
            "l0-to-l1: L0 3[a-c] | 2[a-c] | 1[a-c] L1 4[b-d] -> L1 into #4",
        ),
        (
            fill,
            "L0 T 3[a-c bytes=10] | 2[a-c bytes=10] | 1[a-c bytes=10]\nL1 T 4[b-d bytes=80] | 5[x-z]\nL2 T",
            "l0-to-l1: L0 3[a-c] | 2[a-c] | 1[a-c] -> L1 #6 above #4 older b..d+",
        ),
        // A full target is compacted first, whether or not its own trigger would fire.
        (
            TIER,
            "L0 T 3[a-c] | 2[a-c] | 1[a-c]\nL1 T 6[a-d] | 5[a-d] | 4[a-d]\nL2 T",
            "deep: L1 6[a-d] | 5[a-d] | 4[a-d] -> L2 #7 first",
        ),
        (
            "when=saturation how=runs:3 much=runs; L0: when=runs",
            "L0 T 3[a-c] | 2[a-c] | 1[a-c]\nL1 T 6[a-d bytes=9] | 5[a-d bytes=9] | 4[a-d bytes=9]\nL2 T",
            "deep: L1 6[a-d] | 5[a-d] | 4[a-d] -> L2 #7 first",
        ),
        // The last level merges in place until it is full, then a level is born.
        (
            TIER,
            "L0 T\nL1 T 3[a-c bytes=90] | 2[a-c bytes=90] | 1[a-c bytes=90]",
            "deep: L1 3[a-c] | 2[a-c] | 1[a-c] -> L1 collapse #3",
        ),
        (TIER, "L0 T\nL1 T 3[a-c] | 2[a-c] | 1[a-c]", "deep: L1 3[a-c] | 2[a-c] | 1[a-c] -> L2 #4 first"),
        // L0 of a leveled tree: each flush is merged into the one run.
        (FULL, "L0 L 2[a-c bytes=9] | 1[a-c bytes=9]", "intra-l0: L0 2[a-c] | 1[a-c] -> L0 collapse #2"),
    ]);
}

#[test]
fn groups_of_the_target_have_places_of_their_own() {
    check(&[(
        "when=saturation how=runs:1 much=runs; L0: when=runs how=runs:2; last: how=runs:3",
        "L0 T 2[a-z] | 1[b-p]\nL1 T{..h} 3[a-d] | 4[a-c]  L{h..p} T{p..} 5[q-r]",
        "l0-to-l1: L0 2[a-z] | 1[b-p] -> L1 #6 above #3 #7 first #8 above #5 older a..d+ older q..r+",
    )]);
}

#[test]
fn each_granularity_takes_its_share() {
    let tree = "L0 L\nL1 L 1[a-c] 2[d-f] 3[g-i] 4[j-l]\nL2 L 5[a-d] 6[e-h] 7[i-l]\nL3 L 8[a-z]";
    check(&[
        (
            FULL,
            tree,
            "deep: L1 1[a-c] 2[d-f] 3[g-i] 4[j-l] L2 5[a-d] 6[e-h] 7[i-l] -> L2 into #2 older a..z+",
        ),
        (
            "when=saturation how=runs:1 much=runs",
            tree,
            "deep: L1 1[a-c] 2[d-f] 3[g-i] 4[j-l] L2 5[a-d] 6[e-h] 7[i-l] -> L2 into #2 older a..z+",
        ),
        (
            "when=saturation how=runs:1 much=file which=oldest",
            tree,
            "deep: L1 1[a-c] L2 5[a-d] -> L2 into #2 older a..z+",
        ),
        (
            "when=saturation how=runs:1 much=files:250 which=oldest",
            tree,
            "deep: L1 1[a-c] 2[d-f] L2 5[a-d] 6[e-h] -> L2 into #2 older a..z+",
        ),
        // By count: 4 tables where 3 of the usual size fit.
        (
            "when=saturation-count how=runs:1 much=file which=oldest",
            "L0 L\nL1 L 1[a-c bytes=1] 2[d-f bytes=1] 3[g-i bytes=1]\nL2 L",
            "deep move: L1 1[a-c] -> L2 #2 first",
        ),
    ]);
}

#[test]
fn each_movement_has_its_first_table() {
    // Overlap with the parent: 1: 2 tables, 2: 1, 3: 1 large; with the grandparent: 1: 0, 2: 1, 3: 1.
    let tree = "\
L0 L
L1 L 1[a-c seqs=55..99] 2[d-f seqs=50..98] 3[g-i seqs=60..70]
L2 L 4[a-b seqs=1..9] 5[c-c seqs=1..9] 6[e-f seqs=1..9] 7[g-h bytes=150 seqs=1..9]
L3 L 8[d-z seqs=1..9]";
    let picked =
        |which: &str| drawn(&Scene::new(&format!("{PARTIAL}{which}"), tree).pick(&Permit::everything()));
    let first = |which: &str| picked(which)[..14].to_owned();
    assert_eq!(first("least-overlap-parent"), "deep: L1 2[d-f");
    assert_eq!(first("least-overlap-grandparent"), "deep: L1 1[a-c");
    assert_eq!(first("oldest"), "deep: L1 2[d-f");
    assert_eq!(first("coldest-write"), "deep: L1 3[g-i");
    assert_eq!(first("round-robin"), "deep: L1 1[a-c");
    // Without a grandparent the parent counts.
    let shallow = tree.lines().take(3).collect::<Vec<_>>().join("\n");
    let got = drawn(
        &Scene::new(&format!("{PARTIAL}least-overlap-grandparent"), &shallow).pick(&Permit::everything()),
    );
    assert_eq!(&got[..14], "deep: L1 2[d-f");
    // Equal overlap: the next movement decides.
    let equal = "L0 L\nL1 L 1[a-c seqs=55..99] 2[d-f seqs=50..98] 3[g-i seqs=60..70]\nL2 L";
    for (which, want) in [("oldest", "deep move: L1 2"), ("coldest-write", "deep move: L1 3")] {
        let strategy = format!("{PARTIAL}least-overlap-parent,{which}");
        assert_eq!(&drawn(&Scene::new(&strategy, equal).pick(&Permit::everything()))[..15], want);
    }
}

#[test]
fn round_robin_visits_every_table_once_a_lap() {
    let mut scene =
        Scene::new(&format!("{PARTIAL}round-robin"), "L0 L\nL1 L 1[a-c] 2[d-f] 3[g-i]\nL2 L 9[a-z bytes=9]");
    let mut lap = Vec::new();
    for _ in 0..6 {
        let Pick::Run(picked) = scene.pick(&Permit::everything()) else { panic!("nothing picked") };
        lap.push(picked.compaction.inputs[0].tables[0].id().0);
        scene.cursors.extend(picked.compaction.cursor);
    }
    assert_eq!(lap, [1, 2, 3, 1, 2, 3]);
}

#[test]
fn least_overlap_equals_brute_force() {
    let mut chance = crate::compaction::twin_world::Chance(7);
    for round in 0..100 {
        // With the level after the next, or where that is empty with the next.
        let (which, level) = [("parent", 2), ("grandparent", 3), ("grandparent", 2)][round % 3];
        let mut draw_level = |first: u64, letters: &str| {
            let keys: Vec<char> = letters.chars().collect();
            let mut out = String::new();
            let mut at = 0;
            while at + 1 < keys.len() {
                let to = (at + chance.below(4)).min(keys.len() - 1);
                let bytes = 50 + chance.below(100);
                let _ = write!(out, " {}[{}-{} bytes={bytes}]", first + at as u64, keys[at], keys[to]);
                at = to + 1 + chance.below(2);
            }
            out
        };
        let (one, two) =
            (draw_level(1, "abcdefghijklmnopqrstuv"), draw_level(100, "abcdefghijklmnopqrstuvwxyz"));
        let (l2, l3) = if level == 3 { ("", &*two) } else { (&*two, "") };
        let scene = Scene::new(
            &format!("{PARTIAL}least-overlap-{which}; L2: when=runs how=runs:2; last: when=runs how=runs:2"),
            &format!("L0 L\nL1 L{one}\nL2 L{l2}\nL3 L{l3}"),
        );
        let Pick::Run(picked) = scene.pick(&Permit::everything()) else { panic!("nothing picked for{one}") };
        let ratio = |t: &TableRef| {
            let others = scene.version.levels[level].groups[0].runs.iter().flat_map(|r| &r.tables);
            let overlap: u64 = others.filter(|o| o.bounds.overlaps(&t.bounds)).map(TableRef::bytes).sum();
            overlap as f64 / t.bytes() as f64
        };
        let best =
            scene.version.levels[1].groups[0].runs[0].tables.iter().map(ratio).fold(f64::MAX, f64::min);
        assert_eq!(ratio(&picked.compaction.inputs[0].tables[0]), best, "L1{one}\nL2{two}");
    }
}

#[test]
fn a_table_without_overlap_moves_by_metadata() {
    check(&[
        (
            &format!("{PARTIAL}oldest"),
            "L0 L\nL1 L 1[a-c] 2[d-f] 3[g-i]\nL2 L 4[d-e]",
            "deep move: L1 1[a-c] -> L2 into #2",
        ),
        // Not across the bound of two groups: the table has to be cut there.
        (
            &format!("{PARTIAL}oldest"),
            "L0 L\nL1 L 1[a-c] 2[d-f] 3[g-i]\nL2 L{..b} L{b..}",
            "deep: L1 1[a-c] -> L2 #2 first #3 first",
        ),
    ]);
}

#[test]
fn the_seed_of_a_tiered_level_comes_from_its_oldest_run() {
    check(&[(
        "when=saturation how=runs:4 much=file which=oldest",
        "L0 T\nL1 T 3[a-z] | 2[a-k] | 1[c-e] 4[f-h]\nL2 T",
        "deep move: L1 1[c-e] -> L2 #4 first",
    )]);
}

#[test]
fn what_lies_between_is_taken_along() {
    // A manual compaction of a to b seeds 9; 8 lies under it, and 5 under 8.
    let scene = Scene::new(TIER, "L0 T 9[a-c] | 8[b-k] | 7[x-z]\nL1 L 4[a-a] 5[i-m] 6[n-p]\nL2 L 1[a-z]");
    let range = KeyRange::new(b"a", Some(b"b"));
    let strategy = format!("{FULL}; size: sizes=fixed").parse().unwrap();
    let leveled = Scene { strategy, ..scene };
    let got = manual(&leveled.view(), &leveled.strategy, &wish(range, 10), 0);
    assert_eq!(drawn(&got), "l0-to-l1: L0 9[a-c] | 8[b-k] L1 4[a-a] 5[i-m] -> L1 into #4 older a..z+");
}

#[test]
fn jobs_that_are_open_are_respected() {
    let tree = "L0 L\nL1 L 1[a-c] 2[d-f] 3[g-i] 4[j-l] 5[m-o]\nL2 L 6[a-d] 7[e-l] 8[m-z]";
    let mut scene = Scene::new(&format!("{PARTIAL}oldest"), tree);
    assert_eq!(scene.start(), "deep: L1 1[a-c] L2 6[a-d] -> L2 into #2");
    // Table 2 overlaps 6, which job 1 has; the next by movement runs. Then the level is small enough.
    assert_eq!(scene.start(), "deep: L1 3[g-i] L2 7[e-l] -> L2 into #2");
    assert_eq!(scene.start(), "deep: L1 5[m-o] L2 8[m-z] -> L2 into #2");
    assert_eq!(scene.start(), "nothing");
}

#[test]
fn the_first_level_sends_away_a_deeper_one_that_is_less_urgent_and_waits_for_one_that_is_more() {
    let strategy = "when=saturation how=runs:1 much=file which=oldest; L0: when=runs how=runs:2 much=runs";
    let want = "l0-to-l1: L0 10[a-z] | 9[a-z] L1 1[a-c] 2[d-f] -> L1 into #3 older a..d+";
    // L1 has 1.17 of what it may, then 3.33; L0 has its two runs, which is 1.
    for (bytes, how) in [(900, "blocked by 1"), (250, "sends away 1")] {
        let tree = format!("L0 T 10[a-z] | 9[a-z]\nL1 L 1[a-c bytes={bytes}] 2[d-f]\nL2 L 6[a-d]\nL3 L");
        let mut scene = Scene::new(strategy, &tree);
        assert_eq!(scene.start(), "deep: L1 1[a-c] L2 6[a-d] -> L2 into #4");
        // The more flushes there are, the more urgent is L0.
        if bytes == 250 {
            let newer = parse("L0 T #8: 5[a-z]").unwrap();
            add_to_l0(&mut scene, &newer);
        }
        let started = scene.start();
        let runs = want.replace("L0 10", if bytes == 250 { "L0 5[a-z] | 10" } else { "L0 10" });
        assert_eq!(started, format!("{how}: {runs}"));
    }
}

fn add_to_l0(scene: &mut Scene, newer: &Version) {
    let mut edit = crate::version::edit::VersionEdit::default();
    for run in newer.levels[0].groups[0].runs.iter().rev() {
        let (group, place) = (GroupId(1), crate::version::edit::RunPlace::Newest);
        let add = crate::version::edit::EditStep::AddRun { level: 0, group, run: run.id, place };
        edit.steps.push(add);
        edit.add_whole(run.id, Arc::clone(&run.tables[0].meta), 0);
    }
    scene.version = scene.version.apply(&edit).unwrap();
}

#[test]
fn newer_flushes_are_merged_while_older_ones_move_down() {
    let strategy = "when=saturation how=runs:1 much=file which=oldest; L0: when=runs how=runs:2 much=runs";
    let mut scene = Scene::new(strategy, "L0 T 2[a-z] | 1[a-z]\nL1 L 3[a-z]\nL2 L");
    assert_eq!(scene.start(), "l0-to-l1: L0 2[a-z] | 1[a-z] L1 3[a-z] -> L1 into #3");
    add_to_l0(&mut scene, &parse("L0 T #8: 6[a-z] | #9: 5[a-z] | #10: 4[a-z]").unwrap());
    assert!(drawn(&scene.pick(&Permit::everything())).starts_with("blocked"));
    add_to_l0(&mut scene, &parse("L0 T #11: 7[a-z]").unwrap());
    let all = "intra-l0: L0 7[a-z] | 6[a-z] | 5[a-z] | 4[a-z] -> L0 collapse #10 older a..z+";
    assert_eq!(scene.start(), all);
    // When none moves down any more, what comes next is the way down: it only waits for this merge.
    scene.claims.release(JobId(1));
    add_to_l0(&mut scene, &parse("L0 T #12: 11[a-z] | #13: 10[a-z] | #14: 9[a-z] | #15: 8[a-z]").unwrap());
    assert_eq!(drawn(&scene.pick(&Permit::everything())).split(':').next(), Some("blocked by 2"));
}

/// The rejected candidates, a level and a word each.
fn rejected(scene: &Scene, permit: &Permit) -> String {
    let (_, rejected) = pick_among(&scene.view(), &scene.strategy, permit);
    let word = |because: &Because| match because {
        Because::Blocked(by) => format!("blocked by {}", by[0]),
        Because::NotPermitted => "not permitted".to_owned(),
        Because::Nothing => "nothing helps".to_owned(),
        Because::LessUrgent => "less urgent".to_owned(),
    };
    let one = |r: &Rejected| format!("L{} {}", r.candidate.level, word(&r.because));
    rejected.iter().map(one).collect::<Vec<_>>().join(", ")
}

#[test]
fn a_decision_says_what_else_was_considered_and_why_it_was_not_that() {
    let tree = "L0 T 3[a-c] | 2[a-c] | 1[a-c]\nL1 T 6[a-d] | 5[a-d] | 4[a-d]\nL2 T";
    let mut scene = Scene::new(TIER, tree);
    let all = Permit::everything();
    let first = drawn(&scene.pick(&all));
    assert!(first.starts_with("deep: L1"), "L0 has no room in L1 yet: {first}");
    scene.start();
    assert_eq!(rejected(&scene, &Permit { classes: vec![Class::Deep], ..all.clone() }), "L0 not permitted");
    // More than are told of: one a level, each with a run too many.
    let levels: String =
        (1..14).map(|l| format!("\nL{l} T {}[a-c] | {}[a-c]", 100 - 2 * l, 99 - 2 * l)).collect();
    let scene = Scene::new("when=saturation how=runs:1 much=level", &format!("L0 L{levels}"));
    let (pick, rejected) = pick_among(&scene.view(), &scene.strategy, &Permit::everything());
    assert!(matches!(pick, Pick::Run(_)) && rejected.len() == REJECTED_MAX, "{rejected:?}");
    assert!(rejected.iter().all(|r| r.because == Because::LessUrgent), "{rejected:?}");
}

#[test]
fn a_permit_bounds_what_may_start() {
    let tree = "L0 T 3[a-c born=flush] | 2[a-c born=flush] | 1[a-c]\nL1 T 6[a-d] | 5[a-d] | 4[a-d]\nL2 T";
    let scene = Scene::new(TIER, tree);
    let only = |classes: &[Class]| Permit { classes: classes.to_vec(), ..Permit::everything() };
    assert_eq!(drawn(&scene.pick(&only(&[Class::L0ToL1]))), "nothing");
    let l0 = |flush_born| Permit { l0: L0Permit::IntraOnly { flush_born }, ..only(&[Class::IntraL0]) };
    assert_eq!(
        drawn(&scene.pick(&l0(false))),
        "intra-l0: L0 3[a-c] | 2[a-c] | 1[a-c] -> L0 collapse #3 older a..d+"
    );
    assert_eq!(drawn(&scene.pick(&l0(true))), "intra-l0: L0 3[a-c] | 2[a-c] -> L0 collapse #2 older a..d+");
    // Too large a closure: the next seed by movement, and the smallest if all are too large.
    let tree =
        "L0 L\nL1 L 1[a-c] 2[d-f] 3[g-i]\nL2 L 4[a-c bytes=240] 5[d-f bytes=150] 6[g-i bytes=200]\nL3 L";
    let scene = Scene::new(&format!("{PARTIAL}oldest"), tree);
    let at_most = |max_bytes| drawn(&scene.pick(&Permit { max_bytes, ..Permit::everything() }));
    assert!(at_most(340).starts_with("deep: L1 1[a-c]"));
    assert!(at_most(320).starts_with("deep: L1 2[d-f]"));
    assert!(at_most(10).starts_with("deep: L1 2[d-f]"));
}

#[test]
fn excess_runs_are_upkeep_and_come_last() {
    let tree = "L0 L\nL1 L 3[a-c] | 2[a-c] | 1[a-c]\nL2 L 4[a-c] | 5[a-d]\nL3 L";
    let scene = Scene::new(&format!("{PARTIAL}oldest"), tree);
    let list: Vec<(usize, Why)> =
        candidates(&scene.view(), &scene.strategy).iter().map(|c| (c.level, c.why)).collect();
    let saturation = Why::Trigger(scene.strategy.levels.rest.triggers[0]);
    assert_eq!(list, [(1, saturation), (1, Why::Excess), (2, Why::Excess)]);
    let only = Permit { classes: vec![Class::Upkeep], ..Permit::everything() };
    let want = "upkeep: L1 3[a-c] | 2[a-c] | 1[a-c] -> L1 collapse #3 older a..d+";
    assert_eq!(drawn(&scene.pick(&only)), want);
}

#[test]
fn a_range_is_compacted_level_by_level_on_request() {
    let tree = "L0 T 9[a-c] | 8[x-z]\nL1 L 4[a-f dels=1] 5[g-k]\nL2 T 1[a-d dels=2] 2[k-m dels=1] | 3[a-c]";
    let scene = Scene::new(TIER, tree);
    let range = KeyRange::new(b"b", Some(b"h"));
    let at = |level| drawn(&manual(&scene.view(), &scene.strategy, &wish(range.clone(), 100), level));
    assert_eq!(at(0), "l0-to-l1 move: L0 9[a-c] -> L1 #6 above #3 older a..f+");
    assert_eq!(at(1), "deep: L1 4[a-f] 5[g-k] -> L2 #6 above #4 older a..d+ older k..m+");
    assert_eq!(at(2), "deep: L2 1[a-d] | 3[a-c] -> L2 collapse #5");
    assert_eq!(at(3), "nothing");
    // A single run is rewritten where it has tombstones from before.
    let scene = Scene::new(TIER, "L0 T\nL1 T 1[a-d dels=2] 2[e-m] 3[n-p dels=1]");
    let all = |before| drawn(&manual(&scene.view(), &scene.strategy, &wish(KeyRange::all(), before), 1));
    assert_eq!(all(100), "deep: L1 1[a-d] 3[n-p] -> L1 collapse #1");
    assert_eq!(all(1), "nothing");
}

/// Picks on large trees: `cargo test -p evenkeel --lib --release -- --ignored --nocapture picking_on_large_trees`.
#[test]
#[ignore = "a measurement"]
fn picking_on_large_trees() {
    for tables in [10_000usize, 100_000] {
        let scene = large_scene(tables);
        let clock = crate::base::clock::SystemClock::default();
        let now = || crate::base::clock::Clock::now(&clock);
        let pick = |scene: &Scene| {
            let begun = now();
            let picked = scene.pick(&Permit::everything());
            assert!(matches!(picked, Pick::Run(_)));
            now().saturating_sub(begun)
        };
        // The first pick after an edit adds up what the edit has changed.
        let first = pick(&scene);
        let mut times: Vec<_> = (0..200).map(|_| pick(&scene)).collect();
        times.sort_unstable();
        println!(
            "{tables} tables: the first pick {first:?}, then {:?} in the median, {:?} at worst",
            times[100], times[199]
        );
    }
}

/// Levels of a ratio of ten, the last but one of which is full.
fn large_scene(tables: usize) -> Scene {
    let mut tree = String::from("L0 T 1[k-l]");
    for (level, part) in [(1, 1000), (2, 10), (3, 1)] {
        let n = tables * 9 / 10 / part;
        let _ = write!(tree, "\nL{level} L");
        for i in 0..n {
            let (id, width) = (level * 1_000_000 + i, 10_000_000 / n);
            let (lo, hi) = (i * width, (i + 1) * width - 1);
            let _ = write!(tree, " {id}[user{lo:08}-user{hi:08}]");
        }
    }
    let text =
        "when=saturation how=runs:1 much=file which=least-overlap-parent; L0: when=runs how=runs:4 much=runs";
    let mut scene = Scene::new(text, &tree);
    let bytes = scene.version.levels[2].bytes();
    scene.strategy.size = SizeRule {
        l0_bytes: bytes / 100,
        l0_bytes_max: bytes / 100,
        level_base_bytes: bytes / 100,
        level_ratio: 11,
        sizes: Sizes::Dynamic,
    };
    scene
}

#[test]
fn a_pick_on_a_large_tree_is_the_same_each_time() {
    let scene = large_scene(2_000);
    let once = drawn(&scene.pick(&Permit::everything()));
    assert!(once.starts_with("deep: L2 "), "{once}");
    assert_eq!(drawn(&scene.pick(&Permit::everything())), once);
}

/// What has other tables may bring L0 down beside the first, where as many may.
#[test]
fn as_many_jobs_bring_l0_down_as_may() {
    let strategy =
        "when=saturation how=runs:1 much=file which=oldest; L0: when=runs how=runs:4 much=file which=oldest";
    let tree = "L0 T 5[m-n] | 4[m-n] | 3[m-n] | 1[a-c] 2[s-t]\nL1 L 6[a-d bytes=50] 7[m-q bytes=50] 8[r-u bytes=50]\nL2 L";
    let mut scene = Scene::new(strategy, tree);
    let first = scene.start();
    assert!(first.starts_with("l0-to-l1: L0 1[a-c]"), "{first}");
    let at_most = |most| drawn(&scene.pick(&Permit { l0_down_max: most, ..Permit::everything() }));
    assert!(at_most(None).starts_with("l0-to-l1: L0 2[s-t]"), "{}", at_most(None));
    assert_eq!(at_most(Some(2)), at_most(None));
    assert!(at_most(Some(1)).starts_with("blocked by 1"), "{}", at_most(Some(1)));
}

/// What would take a table that rests is not there; others are.
#[test]
fn nothing_takes_a_table_that_rests() {
    let tree = "L0 L\nL1 L 1[a-c] 2[d-f] 3[g-i] 7[j-l]\nL2 L 4[a-c] 5[d-f] 6[g-i]\nL3 L";
    let scene = Scene::new(&format!("{PARTIAL}oldest"), tree);
    let beside = |resting: &[u64]| {
        let resting = resting.iter().map(|table| TableId(*table)).collect();
        drawn(&scene.pick(&Permit { resting, ..Permit::everything() }))
    };
    assert!(beside(&[]).starts_with("deep: L1 1[a-c]"), "{}", beside(&[]));
    assert!(beside(&[1]).starts_with("deep: L1 2[d-f]"), "{}", beside(&[1]));
    assert!(beside(&[4, 5]).starts_with("deep: L1 3[g-i]"), "{}", beside(&[4, 5]));
}
