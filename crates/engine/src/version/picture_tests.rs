//! Pictures both ways: what is drawn is parsed to the same tree.

use super::parse;
use crate::version::picture::{bytes_for_people, draw, draw_full, key_text, summarise};

const TREE: &str = "\
L0 T4 9[c-z] | 8[a-k]
L1 L 4[a-f] 5[g/j+-m] 6[n-z]
L2 T4{..n} 1[a-d] 2[e-m] | () | 3[b-k] L{n..} 7[n-t]
L3 L 20[a-c..f] 21[f/g..m] 22[m+..p]
";

#[test]
fn a_drawing_comes_back_as_it_was() {
    let version = parse(TREE).unwrap();
    assert_eq!(draw(&version), TREE);
    let full = draw_full(&version);
    assert_eq!(draw_full(&parse(&full).unwrap()), full);
    assert!(full.contains("#2: 8[a-k bytes=100 entries=10 keys=10 seqs="), "{full}");
}

#[test]
fn figures_and_ids_are_taken_from_the_drawing() {
    let drawing =
        "L0 T8@5 #7: 9[c-z bytes=5 entries=4 keys=3 seqs=7..9 dels=2 consumed=1 born=flush at=12]\n";
    assert_eq!(draw_full(&parse(drawing).unwrap()), drawing);
}

#[test]
fn any_key_can_be_drawn() {
    let drawing = "L0 L 1[\\e-\\x00] 2[a\\x20b-a\\xff+]\n";
    assert_eq!(draw(&parse(drawing).unwrap()), drawing);
    assert_eq!(key_text(b"a\0\0"), "a\\x00+");
}

#[test]
fn earlier_read_means_newer() {
    let version = parse("L0 T 3[a-c] | 2[a-c]\nL1 L 1[a-c]").unwrap();
    let seqs: Vec<u64> = version.tables().map(|(_, t)| t.meta.seqs.1.0).collect();
    assert_eq!(seqs, [30, 20, 10]);
}

#[test]
fn a_wrong_drawing_is_refused_with_its_reason() {
    for (drawing, reason) in [
        ("L1 T 1[a-b]", "L1 T 1[a-b]: expected level L0"),
        ("L0 1[a-b]", "L0 1[a-b]: a level starts with a group, T or L"),
        ("L0 T 1[a-b", "L0 T 1[a-b: a bracket is not closed"),
        ("L0 T 1[a]", "L0 T 1[a]: 1[a] is no table"),
        ("L0 T 1[c..b]", "edit step 3 (add table): table 1 shows [c, b) of [c, b)"),
        ("L0 T 1[a..c] 2[b-d]", "edit step 4 (add table): table 2 overlaps table 1 in run 1"),
        ("L0 T 1[a-c] 2[b-d]", "edit step 4 (add table): table 2 overlaps table 1 in run 1"),
        ("L0 T 1[a-c] | 1[d-e]", "edit step 5 (add table): table 1 is in run 1 already"),
        ("L0 L{..c} 1[a-d] L{c..}", "edit step 5 (add table): table 1 at [a, d\0) leaves group 1 at [, c)"),
    ] {
        assert_eq!(parse(drawing).unwrap_err(), reason);
    }
}

#[test]
fn a_summary_counts() {
    let out = summarise(&parse(TREE).unwrap());
    assert!(out.lines().next().unwrap().contains("runs 2    tables 2      200 B"), "{out}");
    assert!(out.contains("groups 2    runs 3    (at most 2 a group) tables 4"), "{out}");
    assert_eq!(bytes_for_people(3 << 29), "1.5 GiB");
}
