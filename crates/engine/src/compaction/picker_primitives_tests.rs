//! Each trigger and each movement on a drawn tree: when it fires, which table it takes, and where nothing can be won.

use super::tests::{PARTIAL, Scene, check, drawn};
use super::*;
use crate::compaction::catalog::strategy;
use crate::compaction::due::{expiring, next_due_ms};
use crate::compaction::twin_world::Chance;

/// One trigger with saturation behind it, in levels too large for that to fire.
fn quiet(trigger: &str, tree: &str) -> Scene {
    let mut scene = Scene::new(&format!("when={trigger},saturation how=runs:1 much=file which=oldest"), tree);
    scene.strategy.size.l0_bytes = 1 << 40;
    scene.strategy.size.level_base_bytes = 1 << 40;
    scene
}

/// A tree, a time, and what is picked then.
fn at(trigger: &str, tree: &str, now_ms: u64) -> String {
    let mut scene = quiet(trigger, tree);
    scene.now_ms = now_ms;
    drawn(&scene.pick(&Permit::everything()))
}

#[test]
fn a_table_that_stayed_too_long_moves_down_and_no_other() {
    let tree = "L0 L\nL1 L 1[a-c at=500] 2[d-f at=100] 3[g-i at=90]\nL2 L 4[a-z at=1]";
    let stale = |now| at("staleness:1s", tree, now);
    assert_eq!(stale(1089), "nothing");
    assert_eq!(stale(1090), "deep: L1 3[g-i] L2 4[a-z] -> L2 into #2");
    // The movement chooses among those that stayed too long.
    assert_eq!(stale(1499), "deep: L1 2[d-f] L2 4[a-z] -> L2 into #2");
    assert_eq!(stale(1500), "deep: L1 1[a-c] L2 4[a-z] -> L2 into #2");
    // There is no further down; from L0 there is.
    assert_eq!(at("staleness:1s", "L0 L\nL1 L\nL2 L 4[a-z at=1]", 9999), "nothing");
    assert_eq!(at("staleness:1s", "L0 L 4[a-z at=1]\nL1 L", 9999), "l0-to-l1 move: L0 4[a-z] -> L1 #2 first");
}

#[test]
fn space_amplification_merges_what_can_lessen_it() {
    let scene = |tree: &str, space_amp| {
        let mut scene = quiet("space-amp:0.5", tree);
        scene.space_amp = space_amp;
        drawn(&scene.pick(&Permit::everything()))
    };
    let tree = "L0 L\nL1 L 1[a-c] 2[d-f]\nL2 L 4[a-z]";
    assert_eq!(scene(tree, 0.49), "nothing");
    assert_eq!(scene(tree, 0.5), "deep: L1 1[a-c] L2 4[a-z] -> L2 into #2");
    // One run at the bottom supersedes nothing, several do.
    assert_eq!(scene("L0 L\nL1 L\nL2 L 4[a-z]", 9.0), "nothing");
    let tiered = "when=runs,space-amp:0.5 how=runs:4 much=runs";
    let mut several = Scene::new(tiered, "L0 T\nL1 T 3[a-c] | 2[b-d] | 1[c-e]");
    several.space_amp = 0.5;
    assert_eq!(
        drawn(&several.pick(&Permit::everything())),
        "deep: L1 3[a-c] | 2[b-d] | 1[c-e] -> L1 collapse #3"
    );
}

/// Hot groups have one run, cold ones up to three.
fn by_heat(tree: &str) -> String {
    let text =
        "when=runs,saturation how=by-heat:1:3:share=0.5 much=file which=oldest; L0: how=runs:2 much=runs";
    drawn(&Scene::new(text, tree).pick(&Permit::everything()))
}

#[test]
fn what_comes_to_a_hot_group_is_merged_and_to_a_cold_one_put_on_top() {
    assert_eq!(
        by_heat("L0 T2 9[a-f] | 8[a-f]\nL1 L{..d} 1[a-c] T3{d..} 2[d-f]\nL2 L"),
        "l0-to-l1: L0 9[a-f] | 8[a-f] L1 1[a-c] -> L1 into #3 #5 above #4 older d..f+"
    );
    // A cold group that is full makes room first.
    assert_eq!(
        by_heat(
            "L0 T2 9[a-f] | 8[a-f]\nL1 L{..d} 1[a-c bytes=9] T3{d..} 4[d-f bytes=9] | 3[d-f bytes=9] | 2[d-f bytes=9]\nL2 L"
        ),
        "deep: L1 4[d-f] | 3[d-f] | 2[d-f] -> L2 #7 first"
    );
}

#[test]
fn a_full_level_takes_from_all_its_hot_groups_and_a_cold_one_goes_when_it_has_its_runs() {
    let full = "L0 T2\nL1 L{..d} 1[a-c seqs=8..9] T3{d..g} 2[d-f seqs=1..1] L{g..} 3[g-i seqs=5..6]\nL2 L";
    assert_eq!(by_heat(full), "deep move: L1 3[g-i] -> L2 #4 first", "the oldest of those that are hot");
    let cold =
        "L0 T2\nL1 L{..d} 1[a-c] T3{d..g} 2[d-f bytes=100] T3{g..} 4[g-i bytes=150] | 3[g-i bytes=60]\nL2 L";
    assert_eq!(by_heat(cold), "deep move: L1 1[a-c] -> L2 #5 first", "hot ones first");
    let cold = "L0 T2\nL1 L{..d} T3{d..g} 2[d-f bytes=200] T3{g..} 4[g-i bytes=150] | 3[g-i bytes=60]\nL2 L";
    assert_eq!(by_heat(cold), "deep: L1 4[g-i] | 3[g-i] -> L2 #4 first", "the one with the most runs");
    let runs =
        "L0 T2\nL1 L{..d} 1[a-c bytes=9] T3{d..} 4[d-f bytes=9] | 3[d-f bytes=9] | 2[d-f bytes=9]\nL2 L";
    assert_eq!(by_heat(runs), "deep: L1 4[d-f] | 3[d-f] | 2[d-f] -> L2 #5 first");
    let last = "L0 T2\nL1 T3{..d} 3[a-c bytes=9] | 2[a-c bytes=9] | 1[a-c bytes=9] L{d..} 4[d-f bytes=9]";
    assert_eq!(by_heat(last), "deep: L1 3[a-c] | 2[a-c] | 1[a-c] -> L1 collapse #3");
}

#[test]
fn a_group_that_turned_hot_is_merged_once() {
    let turned =
        "L0 T2\nL1 L{..d} 5[a-c bytes=9] | 1[a-c bytes=9] T3{d..} 3[e-e bytes=9] | 2[d-f bytes=9]\nL2 L";
    assert_eq!(by_heat(turned), "upkeep: L1 5[a-c] | 1[a-c] -> L1 collapse #2");
}

#[test]
fn a_delete_leaves_each_level_in_time_and_the_last_one_by_being_rewritten() {
    // Of 4 s three are planned: with ratio 2 and three levels memory has a seventh of them, L0 two more, L1 four.
    let ttl = |tree: &str, now| at("ttl:4s", tree, now);
    let tree = "L0 L\nL1 L 1[a-c dels=1 deleted=1000] 2[d-f] 3[g-i dels=1 deleted=990]\nL2 L 4[a-z]";
    assert_eq!(ttl(tree, 3989), "nothing");
    assert_eq!(ttl(tree, 3990), "deep: L1 3[g-i] L2 4[a-z] -> L2 into #2");
    let upper = "L0 L 1[a-c dels=1 deleted=1000]\nL1 L 2[a-f]\nL2 L 4[a-z]";
    assert_eq!(ttl(upper, 1000 + 3000 * 3 / 7 - 1), "nothing");
    assert_eq!(ttl(upper, 1000 + 3000 * 3 / 7), "l0-to-l1: L0 1[a-c] L1 2[a-f] -> L1 into #2 older a..z+");
    // A move by metadata does not end the clock: at the bottom the table is rewritten alone.
    let last = "L0 L\nL1 L\nL2 L 3[g-i dels=1 deleted=990] 4[j-z] 5[z1-z2 consumed=0 under=500]";
    assert_eq!(ttl(last, 3499), "nothing");
    assert_eq!(ttl(last, 3500), "deep: L2 5[z1-z2] -> L2 collapse #1");
    assert_eq!(ttl(last, 3990), "deep: L2 5[z1-z2] -> L2 collapse #1", "the older delete first");
    // Where the only level is the first one too.
    assert_eq!(ttl("L0 L 3[g-i dels=1 deleted=990]", 3990), "intra-l0: L0 3[g-i] -> L0 collapse #1");
}

#[test]
fn a_delete_at_the_bottom_waits_for_the_snapshot_that_sees_what_it_hides() {
    let mut scene = quiet("ttl:4s", "L0 L\nL1 L 3[g-i dels=1 deleted=1 seqs=5..9] 4[j-z seqs=1..2]");
    scene.now_ms = 100_000;
    scene.oldest_snapshot = SeqNo(8);
    assert_eq!(drawn(&scene.pick(&Permit::everything())), "nothing");
    scene.oldest_snapshot = SeqNo(9);
    assert_eq!(drawn(&scene.pick(&Permit::everything())), "deep: L1 3[g-i] -> L1 collapse #1");
}

#[test]
fn a_deadline_is_not_put_off_by_triggers_that_come_before_it() {
    let tree = "L0 L\nL1 L 1[a-c bytes=900] 2[d-f dels=1 deleted=1]\nL2 L 4[a-z]";
    let text = "when=saturation,ttl:4s how=runs:1 much=file which=oldest";
    let mut scene = Scene::new(text, tree);
    assert_eq!(drawn(&scene.pick(&Permit::everything())), "deep: L1 1[a-c] L2 4[a-z] -> L2 into #2");
    scene.now_ms = 4000;
    assert_eq!(drawn(&scene.pick(&Permit::everything())), "deep: L1 2[d-f] L2 4[a-z] -> L2 into #2");
}

#[test]
fn tables_dense_with_tombstones_go_down_and_at_the_bottom_are_rewritten() {
    let dense = |tree: &str| at("density:0.1", tree, 0);
    assert_eq!(dense("L0 L\nL1 L 1[a-c] 2[d-f dels=5 blocks=20 dense=1]\nL2 L 4[a-z]"), "nothing");
    let fires = "L0 L\nL1 L 1[a-c] 2[d-f dels=5 blocks=20 dense=2]\nL2 L 4[a-z]";
    assert_eq!(dense(fires), "deep: L1 2[d-f] L2 4[a-z] -> L2 into #2");
    // Of a table whose blocks nobody counted, the tombstones tell.
    assert_eq!(
        dense("L0 L\nL1 L 1[a-c] 2[d-f dels=1]\nL2 L 4[a-z]"),
        "deep: L1 2[d-f] L2 4[a-z] -> L2 into #2"
    );
    // It would drag too much along.
    let heavy = "L0 L\nL1 L 1[a-c] 2[d-f dels=5 blocks=20 dense=9]\nL2 L 4[a-z bytes=4001]";
    assert_eq!(dense(heavy), "nothing");
    let last = "L0 L\nL1 L\nL2 L 1[a-c] 2[d-f dels=5 blocks=20 dense=2]";
    assert_eq!(dense(last), "upkeep: L2 2[d-f] -> L2 collapse #1");
}

#[test]
fn a_table_that_is_often_read_over_others_is_merged_with_them() {
    let heat = |tree: &str| at("read-heat:10", tree, 0);
    assert_eq!(heat("L0 L\nL1 L 1[a-c] 2[d-f reads=9]\nL2 L 4[a-z]"), "nothing");
    let hot = "L0 L\nL1 L 1[a-c] 2[d-f reads=10]\nL2 L 4[a-z]";
    assert_eq!(heat(hot), "deep: L1 2[d-f] L2 4[a-z] -> L2 into #2");
    // Nothing lies below it, so a lookup ends there anyway.
    assert_eq!(heat("L0 L\nL1 L 1[a-c] 2[d-f reads=99]\nL2 L 4[a-c] 5[g-z]"), "nothing");
    assert_eq!(heat("L0 L\nL1 L\nL2 L 4[a-z reads=99]"), "nothing");
    let runs =
        Scene::new("when=runs,read-heat:10 how=runs:4 much=runs", "L0 T\nL1 T 3[a-c reads=10] | 2[b-d]");
    assert_eq!(drawn(&runs.pick(&Permit::everything())), "upkeep: L1 3[a-c] | 2[b-d] -> L1 collapse #2");
}

#[test]
fn duplicates_in_l0_are_waited_for_but_not_beyond_so_many_runs() {
    let text = "when=saturation how=runs:1 much=runs; L0: when=duplicates:0.4:3 how=runs:9; size: l0=1GiB";
    let scene = |tree: &str| {
        let mut scene = Scene::new("when=saturation how=runs:1 much=runs", tree);
        scene.strategy = text.parse().unwrap();
        drawn(&scene.pick(&Permit::everything()))
    };
    assert_eq!(scene("L0 T9 2[a-c] | 1[a-c]\nL1 L"), "nothing");
    let full = "L0 T9 3[a-c] | 2[a-c] | 1[a-c]\nL1 L";
    assert_eq!(scene(full), "l0-to-l1: L0 3[a-c] | 2[a-c] | 1[a-c] -> L1 #4 first");
    let mut same = Scene::new("when=saturation how=runs:1 much=runs", "L0 T9 2[a-c] | 1[a-c]\nL1 L");
    same.strategy = text.parse().unwrap();
    sample_alike(&mut same, 4, 10);
    assert_eq!(drawn(&same.pick(&Permit::everything())), "l0-to-l1: L0 2[a-c] | 1[a-c] -> L1 #3 first");
}

/// Merged among themselves they would have to be merged once more.
#[test]
fn many_runs_that_wait_for_duplicates_go_down_at_once() {
    let text =
        "when=saturation how=runs:1 much=runs; L0: when=duplicates:0.4:3 how=runs:2 much=runs; size: l0=1GiB";
    let mut scene = Scene::new(text, "L0 T2 5[a-c] | 4[a-c] | 3[a-c] | 2[a-c] | 1[a-c]\nL1 L");
    scene.strategy = text.parse().unwrap();
    let drawn = drawn(&scene.pick(&Permit::everything()));
    assert!(drawn.starts_with("l0-to-l1: L0 5[a-c] | 4[a-c] | 3[a-c] | 2[a-c] | 1[a-c]"), "{drawn}");
}

/// Gives both tables of L0 samples of `of` keys, of which they share twice as many as superseded ones are wanted.
fn sample_alike(scene: &mut Scene, shared: u64, of: u64) {
    let level = &mut scene.version.levels[0];
    let group = Arc::make_mut(&mut level.groups[0]);
    for (i, run) in group.runs.iter_mut().enumerate() {
        for table in &mut Arc::make_mut(run).tables {
            let own = (0..of).map(|k| if k < 2 * shared { k * 100 } else { k * 100 + 2 + 2 * i as u64 });
            Arc::make_mut(&mut table.meta).key_sample.keys = own.collect();
        }
    }
}

#[test]
fn each_movement_takes_its_first_table() {
    let tree = "L0 L\nL1 L 1[a-c dels=1 entries=10 seqs=40..50 read=300 made=5 deleted=100] \
                2[d-f dels=6 entries=10 seqs=45..46 read=200 made=6 deleted=90] \
                3[g-i dels=7 entries=100 seqs=41..60 made=7 deleted=80] 4[j-l seqs=42..70 made=4]\n\
                L2 L 5[a-z]";
    for (which, want) in [
        ("oldest", 1),
        ("coldest-write", 2),
        // Tables that were never read are colder than all others, the older one first.
        ("coldest", 4),
        ("tombstone-density", 2),
        ("most-tombstones", 3),
        ("tombstone-density:0.2,oldest", 2),
        ("tombstone-density:0.6,coldest-write", 2),
        ("round-robin", 1),
    ] {
        let scene = Scene::new(&format!("{PARTIAL}{which}"), tree);
        let Pick::Run(picked) = scene.pick(&Permit::everything()) else { panic!("{which} picks nothing") };
        assert_eq!(picked.compaction.inputs[0].tables[0].id(), TableId(want), "{which}");
    }
}

#[test]
fn tsd_takes_what_is_mostly_tombstones_first_and_else_what_drags_least_along() {
    let tsd = strategy("tsd").unwrap().levels_text();
    // Deletes are even, and 1 has the most by little; but it is sparse, and all of L1 lies under it.
    let even = "L0 L 1[a-r bytes=150 dels=49 entries=100 blocks=9 dense=0] 2[s-t bytes=150 dels=41 entries=100 blocks=9 dense=0]\n\
                L1 L 3[a-f] 4[g-m] 5[n-r] 6[s-z]\nL2 L";
    check(&[
        (&tsd, even, "l0-to-l1: L0 2[s-t] L1 6[s-z] -> L1 into #2"),
        // Half of it is more than a little, whatever it drags along.
        (
            &tsd,
            &even.replace("dels=49", "dels=51"),
            "l0-to-l1: L0 1[a-r] L1 3[a-f] 4[g-m] 5[n-r] -> L1 into #2",
        ),
        // A table dense with them goes before its level is full.
        (
            &tsd,
            "L0 L\nL1 L 3[a-f] 4[g-m dels=11 entries=100 blocks=9 dense=1]\nL2 L 5[a-z]",
            "deep: L1 4[g-m] L2 5[a-z] -> L2 into #2",
        ),
    ]);
}

/// Of random tables: the densest above a half, else the one with the least overlap.
#[test]
fn tsd_equals_brute_force() {
    let mut chance = Chance(5);
    let tsd = strategy("tsd").unwrap().levels_text();
    let (mut dense, mut even) = (0, 0);
    for round in 0..200 {
        let most = if chance.once_in(2) { 50 } else { 60 };
        let mut tables = |first: usize| {
            let table = |(i, from): (usize, char)| {
                let (dels, bytes) = (chance.below(most), 50 + chance.below(100));
                format!(
                    " {}[{from}-{from}5 dels={dels} entries=100 bytes={bytes} blocks=99 dense=0]",
                    first + i
                )
            };
            ('a'..='p').enumerate().map(table).collect::<String>()
        };
        let (one, two) = (tables(1), tables(50));
        let scene = Scene::new(&tsd, &format!("L0 L\nL1 L{one}\nL2 L{two}"));
        let Pick::Run(picked) = scene.pick(&Permit::everything()) else { panic!("round {round}: nothing") };
        let level = |n: usize| &scene.version.levels[n].groups[0].runs[0].tables;
        let overlap = |t: &TableRef| {
            let under = level(2).iter().filter(|o| o.bounds.overlaps(&t.bounds)).map(TableRef::bytes);
            under.sum::<u64>() as f64 / t.bytes() as f64
        };
        let densest = level(1).iter().map(|t| t.meta.tombstones).max().unwrap();
        let taken = &picked.compaction.inputs[0].tables[0];
        if densest > 50 {
            dense += 1;
            assert_eq!(taken.meta.tombstones, densest, "round {round}: L1{one}");
        } else {
            even += 1;
            let least = level(1).iter().map(overlap).fold(f64::MAX, f64::min);
            assert_eq!(overlap(taken), least, "round {round}: L1{one}\nL2{two}");
        }
    }
    assert!(dense > 50 && even > 50, "{dense} {even}");
}

#[test]
fn expired_tables_go_first_the_oldest_before_all_and_then_the_next_movement_decides() {
    let tree = "L0 L\nL1 L 1[a-c deleted=100 seqs=8..9] 2[d-f deleted=90 seqs=8..9] 3[g-i seqs=1..2] 4[j-l seqs=3..4]\nL2 L 5[a-z]";
    let text = "when=saturation,ttl:4s how=runs:1 much=file which=expired,oldest";
    let mut scene = Scene::new(text, tree);
    let first = |scene: &Scene| {
        let Pick::Run(picked) = scene.pick(&Permit::everything()) else { panic!("nothing picked") };
        picked.compaction.inputs[0].tables[0].id().0
    };
    scene.now_ms = 1000;
    assert_eq!(first(&scene), 3, "nothing is due");
    scene.now_ms = 5000;
    assert_eq!(first(&scene), 2);
}

/// Random tables: what each movement takes, and what each trigger on tables asks for, by definition.
#[test]
fn movements_and_table_triggers_equal_brute_force() {
    let mut chance = Chance(11);
    for round in 0..100 {
        let mut level = String::new();
        for (i, letter) in ('a'..='t').enumerate() {
            let (dels, reads) = (chance.below(11), chance.below(40));
            let (read, at, deleted) = (1 + chance.below(1000), chance.below(1000), 1 + chance.below(1000));
            level += &format!(
                " {}[{letter}-{letter}5 dels={dels} reads={reads} read={read} at={at} deleted={deleted} blocks=10 dense={}]",
                i + 1,
                chance.below(11)
            );
        }
        let tree = format!("L0 L\nL1 L{level}\nL2 L 99[a-z]");
        let all: Vec<TableRef> =
            crate::version::picture_parse::parse(&tree).unwrap().levels[1].groups[0].runs[0].tables.clone();
        let now_ms = 1000 + chance.below(600) as u64;
        let picked = |text: &str| {
            let mut scene = Scene::new(text, &tree);
            scene.now_ms = now_ms;
            match scene.pick(&Permit::everything()) {
                Pick::Run(picked) => Some(picked.compaction.inputs[0].tables[0].clone()),
                _ => None,
            }
        };
        let least = |key: &dyn Fn(&TableRef) -> u64| all.iter().map(key).min();
        let coldest = picked(&format!("{PARTIAL}coldest"));
        assert_eq!(
            coldest.map(|t| t.meta.access.last_ms()),
            least(&|t| t.meta.access.last_ms()),
            "round {round}"
        );
        let densest = picked(&format!("{PARTIAL}tombstone-density"));
        assert_eq!(
            densest.map(|t| 99 - t.meta.tombstones),
            least(&|t| 99 - t.meta.tombstones),
            "round {round}"
        );
        let most = picked(&format!("{PARTIAL}most-tombstones"));
        assert_eq!(
            most.map(|t| t.meta.tombstones),
            all.iter().map(|t| t.meta.tombstones).max(),
            "round {round}"
        );
        let check = |trigger: &str, asks: &dyn Fn(&TableRef) -> bool| {
            let mut scene = quiet(trigger, &tree);
            scene.now_ms = now_ms;
            match scene.pick(&Permit::everything()) {
                Pick::Run(picked) => {
                    let table = &picked.compaction.inputs[0].tables[0];
                    assert!(asks(table), "round {round}: {trigger} took {table:?}");
                }
                _ => assert!(!all.iter().any(asks), "round {round}: {trigger} took nothing"),
            }
        };
        check("staleness:1s", &|t| now_ms - t.entered_level_ms >= 1000);
        check("density:0.8", &|t| t.meta.dense_blocks >= 8);
        check("read-heat:4", &|t| t.meta.access.reads() * 4 >= 100);
        check("ttl:1333ms", &|t| now_ms - t.oldest_delete_ms().unwrap() >= 1000);
    }
}

#[test]
fn a_clock_alone_wakes_the_picker_when_the_next_table_is_due() {
    let due = |trigger: &str, tree: &str| {
        let scene = quiet(trigger, tree);
        next_due_ms(&scene.version, &scene.strategy)
    };
    let tree = "L0 L\nL1 L 1[a-c at=500] 2[d-f at=100 dels=1 deleted=70]\nL2 L 4[a-z at=1]";
    assert_eq!(due("staleness:1s", tree), Some(1100));
    assert_eq!(due("ttl:4s", tree), Some(3070));
    assert_eq!(due("density:0.5", tree), None);
    assert_eq!(due("ttl:4s", "L0 L\nL1 L"), None);
}

/// Of 4 s three are for the levels, and half a second here for the work: each table of 100 bytes goes down with half of the one below.
#[test]
fn what_is_due_for_its_deletes_wants_its_bytes_in_time() {
    let scene = quiet(
        "ttl:4s",
        "L0 L\nL1 L 1[a-c dels=1 deleted=70] 2[d-f dels=1 deleted=570] 3[g-h]\nL2 L 4[a-k] 5[l-z]",
    );
    let all = |now_ms, taken: u64| {
        let found =
            expiring(&scene.version, &scene.strategy, SeqNo::MAX, now_ms, 500, |table| table.0 == taken);
        (found.bytes, found.within.as_millis())
    };
    let share = 100 * 200 / 300;
    assert_eq!(all(3069, 0), (0, 0), "nothing is due");
    assert_eq!(all(3070, 0), (100 + share, 500));
    assert_eq!(all(3470, 0), (100 + share, 100));
    // The first is the more urgent; together they have the time in which it is moved at the same rate.
    assert_eq!(all(3569, 0), (100 + share, 1));
    assert_eq!(all(3570, 0), (2 * (100 + share) + 1, 2), "late");
    assert_eq!(all(3570, 1), (100 + share, 500), "a job has the first");
    // At the deepest level a snapshot may still see what they hide.
    let scene = quiet("ttl:4s", "L0 L\nL1 L 1[a-c dels=1 deleted=70]");
    let under = |snapshot| expiring(&scene.version, &scene.strategy, snapshot, 4000, 500, |_| false).bytes;
    assert_eq!((under(SeqNo::MAX), under(SeqNo(0))), (100, 0));
}
