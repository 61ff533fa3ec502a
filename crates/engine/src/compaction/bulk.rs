//! Where a bulk load's tables go: each to the deepest level where it covers nothing, for it is newer than all there is.
//!
//! ```text
//! L0  9[a-c]
//! L1  5[a-f]  6[m-q]          [g-k] fits into L2, beside what is there; [n-o] into L1 only if a run may come on top of 6,
//! L2  1[a-e]  2[p-z]          else into L0; [a-b] goes on top of L0
//! ```
//! Open jobs are not in the way: what they will put somewhere lies within their inputs' keys, and the inputs are still there.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::claims::Claims;
use super::commit::{Committed, finish_edit};
use super::level_sizes::capacity_bytes;
use super::strategy::Strategy;
use super::tree_view::Ids;
use crate::base::error::{Error, Result};
use crate::base::key_range::KeyRange;
use crate::base::units::{GroupId, RunId};
use crate::table::meta::TableMeta;
use crate::version::edit::{EditStep, RunPlace, VersionEdit};
use crate::version::group::Group;
use crate::version::version::Version;

/// Adds tables that ascend, do not overlap each other, and are newer than everything in the tree.
pub fn load(
    version: &Version,
    claims: &Claims,
    strategy: &Strategy,
    ids: &mut Ids,
    tables: Vec<Arc<TableMeta>>,
    now_ms: u64,
) -> Result<Committed> {
    let mut edit = VersionEdit::default();
    let grown = add_levels(version, strategy, ids, &tables, &mut edit)?;
    let mut runs: BTreeMap<(usize, GroupId), RunId> = BTreeMap::new();
    for meta in tables {
        let (level, group) = place(&grown, claims, strategy, &meta.bounds())
            .ok_or_else(|| Error::invalid(format!("table {} fits into no group", meta.id)))?;
        let run = *runs.entry((level, group)).or_insert_with(|| {
            let run = ids.run();
            edit.steps.push(EditStep::AddRun { level, group, run, place: RunPlace::Newest });
            run
        });
        edit.add_whole(run, meta, now_ms);
    }
    let touched: Vec<RunId> = runs.into_values().collect();
    finish_edit(version, claims, edit, &touched)
}

/// The tree with levels for the load: one below L0 at least, and with sizes that are fixed from above as many as it fills.
fn add_levels(
    version: &Version,
    strategy: &Strategy,
    ids: &mut Ids,
    tables: &[Arc<TableMeta>],
    edit: &mut VersionEdit,
) -> Result<Version> {
    let arriving: u64 = tables.iter().map(|t| t.bytes).sum();
    let mut grown = version.clone();
    loop {
        let last = grown.levels.len().saturating_sub(1);
        let bytes = grown.levels.get(last).map_or(0, crate::version::level::Level::bytes);
        if last > 0 && bytes.saturating_add(arriving) <= capacity_bytes(&strategy.size, &grown, last) {
            return Ok(grown);
        }
        let run_bound = strategy.levels.get(last + 1, last + 2).layout.max_runs();
        let step = EditStep::AddLevel { group: ids.group(), run_bound };
        grown = grown.apply(&VersionEdit { steps: vec![step.clone()], ..VersionEdit::default() })?;
        edit.steps.push(step);
    }
}

/// The deepest level and group that may take a table of these keys as its newest run.
fn place(
    version: &Version,
    claims: &Claims,
    strategy: &Strategy,
    bounds: &KeyRange,
) -> Option<(usize, GroupId)> {
    let mut found = None;
    for (level, here) in version.levels.iter().enumerate() {
        let groups = here.groups_over(bounds).1;
        let covers = |g: &Arc<Group>| g.runs.iter().any(|run| !run.overlapping(bounds).is_empty());
        let covered = groups.iter().any(covers);
        if let [only] = groups
            && only.range.covers(bounds)
        {
            let slots = claims.slots_in(only.id).filter(|slot| only.position(slot.run).is_none());
            let runs = only.run_count() + slots.count();
            let bound =
                strategy.levels.get(level, version.levels.len()).layout.of_group(only).max_runs() as usize;
            if !covered || level == 0 || runs < bound {
                found = Some((level, only.id));
            }
        }
        if covered {
            break;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::version::check::check;
    use crate::version::picture::draw;
    use crate::version::picture_parse::{fabricated_meta, parse};

    fn loaded(strategy: &str, tree: &str, tables: &[(&[u8], &[u8])]) -> String {
        let version = parse(tree).unwrap();
        let strategy: Strategy = strategy.parse().unwrap();
        let metas = tables.iter().enumerate().map(|(i, (first, last))| {
            let mut meta = fabricated_meta(50 + i as u64, first, last);
            meta.bytes = 100;
            meta.seqs = (crate::base::units::SeqNo(1 << 40), crate::base::units::SeqNo(1 << 40));
            Arc::new(meta)
        });
        let (claims, mut ids) = (Claims::default(), Ids::above(&version));
        let done = load(&version, &claims, &strategy, &mut ids, metas.collect(), 0).unwrap();
        check(&done.version, &[]).unwrap();
        draw(&done.version)
    }

    const LEVELED: &str = "when=saturation how=runs:1 much=level";

    #[test]
    fn each_table_goes_as_deep_as_nothing_lies_under_it() {
        let tree = "L0 T 9[a-c]\nL1 L 5[a-f] 6[m-q]\nL2 L 1[a-e] 2[p-z]";
        let tables: [(&[u8], &[u8]); 3] = [(b"a", b"b"), (b"g", b"k"), (b"n", b"o")];
        let want = "L0 T4 50[a-b] 52[n-o] | 9[a-c]\nL1 L 5[a-f] 6[m-q]\nL2 L 1[a-e] 51[g-k] 2[p-z]\n";
        assert_eq!(loaded(LEVELED, tree, &tables), want);
        // A tiered level takes another run on top.
        let tiered = "when=runs,saturation how=runs:4 much=runs; last: how=runs:1";
        let want = "L0 T4 50[a-b] | 9[a-c]\nL1 L 52[n-o] | 5[a-f] 6[m-q]\nL2 L 1[a-e] 51[g-k] 2[p-z]\n";
        assert_eq!(loaded(tiered, tree, &tables), want);
    }

    #[test]
    fn an_empty_tree_gets_the_levels_that_the_load_fills() {
        let tables: [(&[u8], &[u8]); 3] = [(b"a", b"b"), (b"c", b"d"), (b"e", b"f")];
        let all = "50[a-b] 51[c-d] 52[e-f]";
        assert_eq!(loaded(LEVELED, "L0 T", &tables), format!("L0 T4\nL1 L {all}\n"));
        let fixed = format!("{LEVELED}; size: base=100 ratio=2 sizes=fixed");
        assert_eq!(loaded(&fixed, "L0 T", &tables), format!("L0 T4\nL1 L\nL2 L\nL3 L {all}\n"));
    }
}
