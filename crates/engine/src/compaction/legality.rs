//! Is a compaction legal (I2)? Asked when it is picked, and again at every commit against the tree as it is then.
//!
//! For every input, everything between it and the output's place over its keys must be an input as well, and no input may
//! lie below that place. The tree may have changed meanwhile in any way that keeps this true.

use std::collections::BTreeSet;

use super::closure::{TablePos, Target, for_each_below};
use crate::version::version::Version;

/// `Err` says which table stands in the way of which.
pub fn check(version: &Version, inputs: &BTreeSet<TablePos>, target: &Target<'_>) -> Result<(), String> {
    for pos in inputs {
        let table = pos.get(version).ok_or("an input is not in the tree")?;
        let mut between = None;
        let placed = for_each_below(version, *pos, &table.bounds, target, &mut |found| {
            if !inputs.contains(&found) {
                between = between.or(Some(found));
            }
        });
        if placed.is_none() {
            return Err(format!("table {} has no place above it for the output", table.id()));
        }
        if let Some(other) = between.and_then(|found: TablePos| found.get(version)) {
            return Err(format!(
                "table {} lies between table {} and the output's place, and is no input",
                other.id(),
                table.id()
            ));
        }
    }
    Ok(())
}
