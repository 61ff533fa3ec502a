//! Edits on drawn trees: the tree before, the steps, the tree after or the sentence that refuses them.

use std::sync::Arc;

use super::*;
use crate::base::units::SeqNo;
use crate::version::check::check;
use crate::version::picture::draw;
use crate::version::picture_parse::{fabricated_meta, parse};

const TREE: &str = "L0 T4 9[c-z] | 8[a-b]\nL1 L{..n} 4[a-f] 5[g-m] L{n..} 6[n-z]\nL2 L\n";

fn step_on(drawing: &str, steps: Vec<EditStep>) -> String {
    let version = parse(drawing).unwrap();
    let before = draw(&version);
    let edit = VersionEdit { steps, ..VersionEdit::default() };
    let out = match version.apply(&edit) {
        Ok(next) => {
            assert_eq!(check(&next, &[]), Ok(()));
            draw(&next)
        }
        Err(error) => error.to_string(),
    };
    assert_eq!(draw(&version), before, "the old version has changed");
    out
}

fn table(id: u64, smallest: &str, largest: &str) -> TableRef {
    let mut meta = fabricated_meta(id, smallest.as_bytes(), largest.as_bytes());
    meta.seqs = (SeqNo(1000), SeqNo(1001));
    TableRef::whole(Arc::new(meta), 0)
}

#[test]
fn tables_come_shrink_and_go() {
    let run = RunId(10);
    let out = step_on(
        TREE,
        vec![
            EditStep::AddRun { level: 0, group: GroupId(1), run, place: RunPlace::Above(RunId(2)) },
            EditStep::AddTable { run, table: table(11, "e", "g") },
            EditStep::AddTable { run, table: table(10, "a", "c") },
            EditStep::TrimTable {
                table: TableId(4),
                bounds: KeyRange::new(b"c\0", Some(b"f\0")),
                consumed: 2,
                under_deletes_ms: None,
            },
            EditStep::DropTable { table: TableId(9) },
            EditStep::RemoveRun { run: RunId(1) },
        ],
    );
    let want = "L0 T4 10[a-c] 11[e-g] | 8[a-b]\nL1 L{..n} 4[a/c+-f] 5[g-m] L{n..} 6[n-z]\nL2 L\n";
    assert_eq!(out, want);
}

#[test]
fn levels_groups_and_runs_change_shape() {
    let want = "L0 T4 8[a-b] 9[c-z]\nL1 L 4[a-f] 5[g-m] 6[n-z]\n";
    let steps = vec![
        EditStep::FuseRuns { newer: RunId(1), older: RunId(2) },
        EditStep::MergeGroups { left: GroupId(2), right: GroupId(3) },
        EditStep::RemoveLastLevel,
    ];
    assert_eq!(step_on(TREE, steps), want);
    let steps = vec![
        EditStep::SplitGroup {
            group: GroupId(2),
            at: (*b"g").into(),
            new_group: GroupId(9),
            new_run: RunId(9),
        },
        EditStep::SetRunBound { group: GroupId(9), run_bound: 3 },
        EditStep::AddLevel { group: GroupId(10), run_bound: 2 },
    ];
    let want = "L0 T4 9[c-z] | 8[a-b]\nL1 L{..g} 4[a-f] T3{g..n} 5[g-m] L{n..} 6[n-z]\nL2 L\nL3 T2\n";
    assert_eq!(step_on(TREE, steps), want);
}

#[test]
fn a_level_comes_between_two_others_and_goes_again() {
    let insert = EditStep::InsertLevel { level: 1, group: GroupId(10), run_bound: 2 };
    let tree = "L0 T 2[a-b]\nL1 L 4[a-f]";
    assert_eq!(step_on(tree, vec![insert.clone()]), "L0 T4 2[a-b]\nL1 T2\nL2 L 4[a-f]\n");
    // A run further down is still found by its number.
    let steps = vec![
        insert.clone(),
        EditStep::DropTable { table: TableId(4) },
        EditStep::RemoveRun { run: RunId(2) },
        EditStep::RemoveLevel { level: 2 },
    ];
    assert_eq!(step_on(tree, steps), "L0 T4 2[a-b]\nL1 T2\n");
    assert_eq!(
        step_on(tree, vec![insert, EditStep::RemoveLevel { level: 1 }]),
        "L0 T4 2[a-b]\nL1 L 4[a-f]\n"
    );
    for (step, want) in [
        (EditStep::RemoveLevel { level: 0 }, "(remove level): the first level stays"),
        (EditStep::RemoveLevel { level: 1 }, "(remove level): level 1 still has runs"),
        (EditStep::RemoveLevel { level: 9 }, "(remove level): there is no level 9"),
        (
            EditStep::InsertLevel { level: 2, group: GroupId(10), run_bound: 2 },
            "(insert level): level 2 is not between two others",
        ),
    ] {
        assert_eq!(step_on(tree, vec![step]), format!("edit step 1 {want}"));
    }
}

#[test]
fn a_split_leaves_no_empty_run() {
    let split = |at: &[u8]| EditStep::SplitGroup {
        group: GroupId(2),
        at: at.into(),
        new_group: GroupId(9),
        new_run: RunId(9),
    };
    let want = "L0 T4 9[c-z] | 8[a-b]\nL1 L{..a} L{a..n} 4[a-f] 5[g-m] L{n..} 6[n-z]\nL2 L\n";
    assert_eq!(step_on(TREE, vec![split(b"a")]), want);
    let back = EditStep::MergeGroups { left: GroupId(2), right: GroupId(9) };
    assert_eq!(step_on(TREE, vec![split(b"a"), back]), draw(&parse(TREE).unwrap()));
}

#[test]
fn a_step_that_does_not_fit_names_itself() {
    let (run, group) = (RunId(77), GroupId(77));
    let meta = table(20, "a", "c");
    let wide = TableRef { bounds: KeyRange::new(b"a", Some(b"d")), ..meta.clone() };
    let gone = EditStep::DropTable { table: TableId(9) };
    let split = |group, at: &[u8]| EditStep::SplitGroup {
        group: GroupId(group),
        at: at.into(),
        new_group: GroupId(9),
        new_run: RunId(9),
    };
    for (steps, want) in [
        (vec![EditStep::DropTable { table: TableId(1) }], "1 (drop table): table 1 is not in the tree"),
        (vec![gone.clone(), gone], "2 (drop table): table 9 is not in the tree"),
        (vec![EditStep::AddTable { run, table: meta.clone() }], "1 (add table): there is no run 77"),
        (
            vec![EditStep::AddTable { run: RunId(4), table: meta.clone() }],
            "1 (add table): table 20 at [a, c\0) leaves group 3 at [n, ∞)",
        ),
        (
            vec![EditStep::AddTable { run: RunId(3), table: meta }],
            "1 (add table): table 20 overlaps table 4 in run 3",
        ),
        (
            vec![EditStep::AddTable { run: RunId(3), table: wide }],
            "1 (add table): table 20 shows [a, d) of [a, c\0)",
        ),
        (
            vec![EditStep::AddTable { run: RunId(1), table: table(8, "a", "b") }],
            "1 (add table): table 8 is in run 2 already",
        ),
        (vec![EditStep::RemoveRun { run: RunId(1) }], "1 (remove run): run 1 still holds table 9"),
        (
            vec![EditStep::AddRun { level: 0, group, run, place: RunPlace::Newest }],
            "1 (add run): level 0 has no group 77",
        ),
        (
            vec![EditStep::AddRun { level: 0, group: GroupId(1), run: RunId(3), place: RunPlace::Newest }],
            "1 (add run): run 3 is there already",
        ),
        (
            vec![EditStep::AddRun { level: 0, group: GroupId(1), run, place: RunPlace::Below(RunId(3)) }],
            "1 (add run): group 1 has no run 3",
        ),
        (
            vec![EditStep::FuseRuns { newer: RunId(2), older: RunId(1) }],
            "1 (fuse runs): run 2 has no older neighbour",
        ),
        (vec![split(1, b"d")], "1 (split group): group 1 has 2 runs, merge them first"),
        (vec![split(2, b"b")], "1 (split group): table 4 spans the new bound"),
        (vec![split(2, b"n")], "1 (split group): [, n) cannot be split there"),
        (
            vec![EditStep::MergeGroups { left: GroupId(3), right: GroupId(2) }],
            "1 (merge groups): group 3 has no right neighbour",
        ),
        (
            vec![EditStep::TrimTable {
                table: TableId(4),
                bounds: KeyRange::new(b"b", Some(b"e")),
                consumed: 1,
                under_deletes_ms: None,
            }],
            "1 (trim table): table 4 at [a, f\0) cannot be trimmed to [b, e)",
        ),
        (
            vec![EditStep::SetRunBound { group: GroupId(1), run_bound: 0 }],
            "1 (set run bound): a group has room for at least one run",
        ),
        (
            vec![EditStep::RemoveLastLevel, EditStep::RemoveLastLevel],
            "2 (remove last level): the last level still has runs",
        ),
    ] {
        assert_eq!(step_on(TREE, steps), format!("edit step {want}"));
    }
    let overlap = vec![EditStep::FuseRuns { newer: RunId(1), older: RunId(2) }];
    assert_eq!(step_on("L0 T 2[a-c] | 1[b-d]", overlap), "edit step 1 (fuse runs): runs 1 and 2 overlap");
    let too_much = vec![EditStep::TrimTable {
        table: TableId(1),
        bounds: KeyRange::new(b"b", Some(b"d\0")),
        consumed: 11,
        under_deletes_ms: None,
    }];
    let want = "edit step 1 (trim table): table 1 of 10 entries cannot have 11 consumed after 0";
    assert_eq!(step_on("L0 T 1[a-d]", too_much), want);
    assert_eq!(
        step_on("L0 T", vec![EditStep::RemoveLastLevel]),
        "edit step 1 (remove last level): the first level stays"
    );
}

#[test]
fn untouched_runs_are_shared() {
    let version = parse(TREE).unwrap();
    let edit =
        VersionEdit { steps: vec![EditStep::DropTable { table: TableId(9) }], ..VersionEdit::default() };
    let next = version.apply(&edit).unwrap();
    assert!(Arc::ptr_eq(&version.levels[1].groups[0], &next.levels[1].groups[0]));
    assert!(Arc::ptr_eq(&version.levels[0].groups[0].runs[1], &next.levels[0].groups[0].runs[1]));
}
