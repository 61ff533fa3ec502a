//! Groups by heat: a level's tables are divided into hot and cold stretches of keys, each a group with a bound of its own on its
//! runs (LTG §III.C). All of it is metadata; a group that is hot now and has several runs is then merged, once, because it has
//! too many.
//!
//! ```text
//! before   L {........................}  1[a-c] 2[d-f] 3[g-i] 4[k-m]        1 and 2 are read, 3 and 4 are not
//! after    L {..g}  1[a-c] 2[d-f]   T4 {g..}  3[g-i] 4[k-m]                 what comes to 3 and 4 is put on top of them
//! ```
//!
//! A group of one run is split where one of its tables begins, and joined with a neighbour of one run that is as hot. One of
//! several runs turns as a whole, by the vote of its tables' bytes. A group in which a job is at work stays as it is.
//! Small stretches go with a neighbour, and so do the smallest ones while there are too many groups.

use std::sync::Arc;

use super::claims::Claims;
use super::commit::Committed;
use super::tree_view::Ids;
use crate::base::error::Result;
use crate::base::units::GroupId;
use crate::hotness::temperature::{Band, Member, Theta};
use crate::version::edit::{EditStep, VersionEdit};
use crate::version::group::Group;
use crate::version::run::TableRef;
use crate::version::version::Version;

/// How a level is divided.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GroupRule {
    /// The most runs of a hot group; 1 is leveled.
    pub hot: u32,
    /// The most runs of a cold group, more than that.
    pub cold: u32,
    /// What is hot.
    pub theta: Theta,
    /// The most groups of a level, at least 1; groups that cannot be joined now may be more.
    pub groups_max: usize,
    /// A stretch of fewer bytes goes with its neighbour.
    pub bytes_min: u64,
}

/// Divides a level anew by the heat of its tables, foretold or counted; nothing if it is divided well.
pub fn regroup(
    version: &Version,
    claims: &Claims,
    level: usize,
    rule: &GroupRule,
    ids: &mut Ids,
    heat: &dyn Fn(&TableRef) -> Option<f64>,
) -> Result<Option<Committed>> {
    let Some(found) = version.levels.get(level) else { return Ok(None) };
    let member = |table: &TableRef| Member { bytes: table.bytes(), heat: heat(table) };
    let members: Vec<Member> = found.tables().map(member).collect();
    let band = rule.theta.band(&members);
    let mut pieces = Vec::new();
    for group in &found.groups {
        let is_busy = !claims.group_holders(group.id).is_empty();
        divide(group, is_busy, rule, &band, &member, &mut pieces);
    }
    coarsen(&mut pieces, rule);
    let edit = VersionEdit { steps: steps(&pieces, rule, ids), ..VersionEdit::default() };
    if edit.steps.is_empty() {
        return Ok(None);
    }
    Ok(Some(Committed { version: version.apply(&edit)?, edit }))
}

/// A stretch of a group's tables that are as hot as each other.
#[derive(Debug)]
struct Piece<'v> {
    group: &'v Group,
    /// Where it begins, unless where its group does.
    from: Option<Arc<[u8]>>,
    bytes: u64,
    is_hot: bool,
    /// Its group's bounds stay where they are.
    is_fixed: bool,
    /// Its group's bound on runs stays as well.
    is_busy: bool,
}

impl Piece<'_> {
    /// True if both may be in one group.
    fn joins(&self, other: &Piece<'_>) -> bool {
        self.is_hot == other.is_hot && !self.is_fixed && !other.is_fixed
    }

    fn run_bound(&self, rule: &GroupRule) -> u32 {
        match (self.is_busy, self.is_hot) {
            (true, _) => self.group.run_bound,
            (_, true) => rule.hot,
            (_, false) => rule.cold,
        }
    }
}

/// The group's pieces, ascending.
fn divide<'v>(
    group: &'v Group,
    is_busy: bool,
    rule: &GroupRule,
    band: &Band,
    member: &dyn Fn(&TableRef) -> Member,
    out: &mut Vec<Piece<'v>>,
) {
    let was_hot = Some(group.run_bound <= rule.hot);
    let whole =
        |is_hot, is_fixed| Piece { group, from: None, bytes: group.bytes(), is_hot, is_fixed, is_busy };
    let tables = || group.runs.iter().flat_map(|run| &run.tables);
    if is_busy {
        out.push(whole(group.run_bound <= rule.hot, true));
        return;
    }
    if group.runs.len() > 1 || tables().next().is_none() {
        let members: Vec<Member> = tables().map(member).collect();
        out.push(whole(band.vote(&members, was_hot), group.runs.len() > 1));
        return;
    }
    let first = out.len();
    for table in tables() {
        let is_hot = band.vote(&[member(table)], was_hot);
        match out.last_mut().filter(|last| std::ptr::eq(last.group, group) && last.is_hot == is_hot) {
            Some(last) => last.bytes += table.bytes(),
            None => {
                let from = (out.len() > first).then(|| table.bounds.lo.clone());
                out.push(Piece {
                    from,
                    bytes: table.bytes(),
                    is_hot,
                    is_fixed: false,
                    ..whole(is_hot, false)
                });
            }
        }
    }
}

/// Lets pieces go with their neighbours that are too small, or too many: the smallest first.
fn coarsen(pieces: &mut [Piece<'_>], rule: &GroupRule) {
    loop {
        let stretches = stretches(pieces);
        let too_many = stretches.len() > rule.groups_max.max(1);
        let free = |at: usize| stretches.get(at).filter(|s| !s.is_fixed);
        // A neighbour that is free is not as hot, else they were one.
        let neighbour = |at: usize| at.checked_sub(1).and_then(free).or(free(at + 1)).is_some();
        let movable = stretches.iter().enumerate().filter(|(at, s)| !s.is_fixed && neighbour(*at));
        let smallest = movable.map(|(_, stretch)| stretch).min_by_key(|stretch| stretch.bytes);
        let Some(stretch) = smallest.filter(|s| too_many || s.bytes < rule.bytes_min) else { return };
        for piece in pieces.iter_mut().skip(stretch.first).take(stretch.pieces) {
            piece.is_hot = !piece.is_hot;
        }
    }
}

/// Pieces that will be one group.
struct Stretch {
    first: usize,
    pieces: usize,
    bytes: u64,
    is_fixed: bool,
}

fn stretches(pieces: &[Piece<'_>]) -> Vec<Stretch> {
    let mut out: Vec<Stretch> = Vec::new();
    let mut before: Option<&Piece<'_>> = None;
    for (first, piece) in pieces.iter().enumerate() {
        match out.last_mut().filter(|_| before.is_some_and(|before| before.joins(piece))) {
            Some(last) => {
                last.pieces += 1;
                last.bytes += piece.bytes;
            }
            None => out.push(Stretch { first, pieces: 1, bytes: piece.bytes, is_fixed: piece.is_fixed }),
        }
        before = Some(piece);
    }
    out
}

/// What makes groups of the pieces, in key order.
fn steps(pieces: &[Piece<'_>], rule: &GroupRule, ids: &mut Ids) -> Vec<EditStep> {
    let mut steps = Vec::new();
    // The group that the piece before is in by then, and its bound.
    let mut current: Option<(&Piece<'_>, GroupId, u32)> = None;
    for piece in pieces {
        let joins = current.is_some_and(|(before, ..)| before.joins(piece));
        let (group, bound) = match (current, &piece.from) {
            (Some((_, group, bound)), Some(_)) if joins => (group, bound),
            (Some((_, group, bound)), Some(at)) => {
                let (new_group, new_run) = (ids.group(), ids.run());
                steps.push(EditStep::SplitGroup { group, at: (**at).into(), new_group, new_run });
                (new_group, bound)
            }
            (Some((_, group, bound)), None) if joins => {
                steps.push(EditStep::MergeGroups { left: group, right: piece.group.id });
                (group, bound)
            }
            _ => (piece.group.id, piece.group.run_bound),
        };
        let run_bound = piece.run_bound(rule);
        if run_bound != bound {
            steps.push(EditStep::SetRunBound { group, run_bound });
        }
        current = Some((piece, group, run_bound));
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::units::JobId;
    use crate::version::check::check;
    use crate::version::picture::draw;
    use crate::version::picture_parse::parse;

    const RULE: GroupRule =
        GroupRule { hot: 1, cold: 4, theta: Theta::Absolute(0.5), groups_max: 8, bytes_min: 0 };

    /// Reads are hundredths of heat.
    fn heat(table: &TableRef) -> Option<f64> {
        Some(table.meta.access.reads() as f64 / 100.0)
    }

    fn regrouped(version: &Version, rule: &GroupRule) -> Option<Version> {
        let mut ids = Ids::above(version);
        let done = regroup(version, &Claims::default(), 1, rule, &mut ids, &heat).unwrap();
        done.map(|done| {
            check(&done.version, &[]).unwrap();
            let ids = |v: &Version| v.tables().map(|(_, t)| t.id()).collect::<Vec<_>>();
            assert_eq!(ids(version), ids(&done.version), "nothing but metadata");
            done.version
        })
    }

    /// The level after it, and that it then stays.
    fn becomes(level: &str, rule: &GroupRule) -> String {
        let tree = parse(&format!("L0 T4\nL1 {level}\n")).unwrap();
        let Some(after) = regrouped(&tree, rule) else { return "the same".to_owned() };
        assert!(regrouped(&after, rule).is_none(), "{} does not stay", draw(&after));
        draw(&after).lines().nth(1).unwrap().trim_start_matches("L1 ").to_owned()
    }

    #[test]
    fn hot_and_cold_stretches_are_groups_that_end_where_tables_begin() {
        for (level, want) in [
            ("L 1[a-c reads=80] 2[d-f reads=90] 3[g-i] 4[k-m]", "L{..g} 1[a-c] 2[d-f] T4{g..} 3[g-i] 4[k-m]"),
            ("L 1[a-c] 2[d-f reads=90] 3[g-i]", "T4{..d} 1[a-c] L{d..g} 2[d-f] T4{g..} 3[g-i]"),
            ("L 1[a-c reads=80] 2[d-f reads=90]", "the same"),
            ("L 1[a-c] 2[d-f]", "T4 1[a-c] 2[d-f]"),
            // Neighbours that are alike are one, a gap between them too.
            ("L{..d} 1[a-c] T4{d..} 2[d-f] 3[x-z]", "T4 1[a-c] 2[d-f] 3[x-z]"),
            ("T4{..d} 1[a-c reads=90] L{d..g} T4{g..} 2[g-i reads=90]", "L 1[a-c] 2[g-i]"),
            // Several runs turn together, by their bytes, and are neither split nor joined.
            (
                "T4{..d} 1[a-c bytes=9 reads=90] | 2[a-b bytes=5] L{d..} 3[d-f reads=90]",
                "L{..d} 1[a-c] | 2[a-b] L{d..} 3[d-f]",
            ),
            ("T4{..d} 1[a-c bytes=5 reads=90] | 2[a-b bytes=9] T4{d..} 3[d-f]", "the same"),
        ] {
            assert_eq!(becomes(level, &RULE), want, "{level}");
        }
    }

    #[test]
    fn heat_inside_the_band_changes_nothing() {
        for heat in [46, 50, 54] {
            for shape in ["L", "T4"] {
                let level = format!("{shape} 1[a-c reads={heat}] 2[d-f reads={}]", 100 - heat);
                assert_eq!(becomes(&level, &RULE), "the same", "{level}");
            }
        }
    }

    #[test]
    fn small_stretches_and_too_many_go_with_their_neighbours() {
        let small = GroupRule { bytes_min: 50, ..RULE };
        let level = "L 1[a-c reads=90 bytes=100] 2[d-f bytes=49] 3[g-i reads=90 bytes=100]";
        assert_eq!(becomes(level, &small), "the same");
        let letters: Vec<String> = ('a'..='t')
            .enumerate()
            .map(|(i, c)| format!("{}[{c}-{c} bytes={} reads={}]", i + 1, 100 + i, i % 2 * 90))
            .collect();
        let level = format!("L {}", letters.join(" "));
        for groups_max in [1, 2, 3, 5, 19] {
            let after = becomes(&level, &GroupRule { groups_max, ..RULE });
            let groups = after.matches('{').count().max(1);
            assert!(groups <= groups_max, "{groups_max}: {after}");
        }
    }

    #[test]
    fn what_nothing_is_known_of_is_leveled() {
        let tree = parse("L0 T4\nL1 T4 1[a-c] 2[d-f]\n").unwrap();
        for unknown in [None, Some(f64::NAN)] {
            let mut ids = Ids::above(&tree);
            let done = regroup(&tree, &Claims::default(), 1, &RULE, &mut ids, &|_| unknown).unwrap().unwrap();
            assert_eq!(draw(&done.version).lines().nth(1), Some("L1 L 1[a-c] 2[d-f]"));
            assert!(regroup(&tree, &Claims::default(), 7, &RULE, &mut ids, &|_| unknown).unwrap().is_none());
        }
    }

    #[test]
    fn a_group_in_use_stays_as_it_is() {
        let tree = parse("L0 T4\nL1 L{..d} 1[a-c] L{d..} 2[d-f]\n").unwrap();
        let groups: Vec<Arc<Group>> = tree.levels[1].groups.clone();
        let mut claims = Claims::default();
        claims.claim_group(JobId(1), groups[0].id).unwrap();
        let mut ids = Ids::above(&tree);
        let done = regroup(&tree, &claims, 1, &RULE, &mut ids, &heat).unwrap().unwrap();
        assert_eq!(draw(&done.version).lines().nth(1), Some("L1 L{..d} 1[a-c] T4{d..} 2[d-f]"));
        claims.claim_group(JobId(2), groups[1].id).unwrap();
        assert!(regroup(&tree, &claims, 1, &RULE, &mut ids, &heat).unwrap().is_none());
    }
}
