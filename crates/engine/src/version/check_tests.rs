//! Wrong trees in, the sentence of the violated invariant out.

use super::{OpenClaim, check, check_order};
use crate::base::units::{JobId, RunId, SeqNo, TableId};
use crate::version::picture_parse::parse;

fn sentence(drawing: &str, open: &[OpenClaim]) -> String {
    check(&parse(drawing).unwrap(), open).err().unwrap_or_else(|| "ok".to_owned())
}

fn claim(job: u64, tables: &[u64], runs: &[u64]) -> OpenClaim {
    let tables = tables.iter().map(|t| TableId(*t)).collect();
    OpenClaim { job: JobId(job), tables, runs: runs.iter().map(|r| RunId(*r)).collect() }
}

#[test]
fn good_trees_pass() {
    assert_eq!(sentence("L0 T 3[a-z] | 2[a-k]\nL1 L{..m} 1[a/c+-f] L{m..} 4[n-p]", &[]), "ok");
    assert_eq!(sentence("L0 T", &[]), "ok");
}

#[test]
fn claims_are_checked() {
    let drawing = "L0 T 3[a-z] | () | 2[a-k]";
    assert_eq!(sentence(drawing, &[]), "run 2 is empty and no open job holds it");
    assert_eq!(sentence(drawing, &[claim(7, &[3], &[1, 2])]), "ok");
    let (a, b) = (claim(7, &[3], &[2]), claim(8, &[2, 3], &[3]));
    assert_eq!(sentence(drawing, &[a, b]), "table 3 is claimed twice, last by job 8");
    assert_eq!(sentence(drawing, &[claim(7, &[9], &[2])]), "job 7 claims table 9, which is not in the tree");
}

#[test]
fn order_is_seen_where_whole_tables_decide_it() {
    // Both tables hold the key a, and the one read first is older as a whole.
    assert_eq!(
        sentence("L0 T 1[a-c seqs=1..5] | 2[a-d seqs=6..9]", &[]),
        "table 1 is read before table 2 at level 0 but is older"
    );
    // The same sequences without a key that both are known to hold say nothing.
    assert_eq!(sentence("L0 T 1[b-e seqs=1..5] | 2[a-d seqs=6..9]", &[]), "ok");
}

#[test]
fn order_of_entries_is_checked_along_the_read_path() {
    let version = parse("L0 T 1[a-c] | 2[a-d]\nL1 L 3[a-b]").unwrap();
    let good = |t: TableId, _: &[u8]| vec![SeqNo(40 - 10 * t.0), SeqNo(35 - 10 * t.0)];
    assert_eq!(check_order(&version, [&b"a"[..], b"d"], good), Ok(()));
    let bad = |t: TableId, _: &[u8]| vec![SeqNo(if t == TableId(3) { 25 } else { 40 - 10 * t.0 })];
    let wrong = check_order(&version, [&b"a"[..]], bad).unwrap_err();
    assert_eq!(wrong, "key a at level 1: table 3 has sequence 25 below a smaller one");
}
