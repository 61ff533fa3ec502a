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
//! Small stretches go with a neighbour, and so do the smallest ones while there are too many groups. Large ones are several groups:
//! a group that has gathered runs cannot be split, so where the hot keys move into it, it had better not be all of the level.

use std::sync::Arc;

use super::claims::Claims;
use super::commit::Committed;
use super::strategy::{HeatRule, Layout, Strategy};
use super::tree_view::Ids;
use crate::base::error::Result;
use crate::base::key_range::KeyRange;
use crate::base::units::GroupId;
use crate::hotness::temperature::{Band, Member};
use crate::version::edit::{EditStep, VersionEdit};
use crate::version::group::Group;
use crate::version::run::TableRef;
use crate::version::version::Version;

/// Divides a level anew, if it is one by heat, by the heat of its tables, foretold or counted; nothing if it is divided well.
pub fn regroup(
    version: &Version,
    claims: &Claims,
    strategy: &Strategy,
    level: usize,
    ids: &mut Ids,
    heat: &dyn Fn(&TableRef) -> Option<f64>,
) -> Result<Option<Committed>> {
    let Some(found) = version.levels.get(level) else { return Ok(None) };
    let Layout::ByHeat(rule) = strategy.levels.get(level, version.levels.len()).layout else {
        return Ok(None);
    };
    let bytes_min = strategy.cut.table_bytes.saturating_mul(u64::from(rule.tables_min));
    let member = |table: &TableRef| Member { bytes: table.bytes(), heat: heat(table) };
    let members: Vec<Member> = found.tables().map(member).collect();
    let band = rule.theta.band(&members, f64::from(rule.hysteresis));
    let mut pieces = Vec::new();
    for group in &found.groups {
        let is_busy = !claims.group_holders(group.id).is_empty();
        divide(group, is_busy, &rule, &band, &member, &mut pieces);
    }
    coarsen(&mut pieces, rule.groups_max as usize, bytes_min);
    let pieces = portions(pieces, &Portion::of(found.bytes(), bytes_min, &rule));
    let edit = VersionEdit { steps: steps(&pieces, &rule, ids), ..VersionEdit::default() };
    if edit.steps.is_empty() {
        return Ok(None);
    }
    Ok(Some(Committed { version: version.apply(&edit)?, edit }))
}

/// Joins the groups of levels that are not by heat, where that is metadata: neighbours of one run, which no job is at work in.
pub fn join(version: &Version, claims: &Claims, strategy: &Strategy) -> Result<Option<Committed>> {
    let mut edit = VersionEdit::default();
    for (level, found) in version.levels.iter().enumerate() {
        let layout = strategy.levels.get(level, version.levels.len()).layout;
        if matches!(layout, Layout::ByHeat(_)) {
            continue;
        }
        let joins = |g: &Group| g.runs.len() <= 1 && claims.group_holders(g.id).is_empty();
        let mut left: Option<&Group> = None;
        for group in &found.groups {
            match left.filter(|left| joins(left) && joins(group)) {
                Some(left) => {
                    edit.steps.push(EditStep::MergeGroups { left: left.id, right: group.id });
                }
                None => left = Some(group),
            }
        }
    }
    if edit.steps.is_empty() {
        return Ok(None);
    }
    Ok(Some(Committed { version: version.apply(&edit)?, edit }))
}

/// A group of a level by heat, and why it is what it is.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupHeat {
    /// Its keys.
    pub range: KeyRange,
    /// Its runs that hold tables.
    pub runs: usize,
    /// The most that it may have.
    pub run_bound: u32,
    /// Its bytes.
    pub bytes: u64,
    /// How it is kept.
    pub is_hot: bool,
    /// The looks of a get into its tables, on average; `None` if nothing is known of them.
    pub heat: Option<f64>,
    /// The part of its bytes that votes for hot, 0 to 1.
    pub votes: f64,
    /// A table of it votes for hot from so many looks of a get on.
    pub from: f64,
}

/// The groups of a level by heat, in key order; none of other levels.
pub fn group_heats(
    version: &Version,
    strategy: &Strategy,
    level: usize,
    heat: &dyn Fn(&TableRef) -> Option<f64>,
) -> Vec<GroupHeat> {
    let (Some(found), Layout::ByHeat(rule)) =
        (version.levels.get(level), strategy.levels.get(level, version.levels.len()).layout)
    else {
        return Vec::new();
    };
    let member = |table: &TableRef| Member { bytes: table.bytes(), heat: heat(table) };
    let band = rule.theta.band(&found.tables().map(member).collect::<Vec<_>>(), f64::from(rule.hysteresis));
    let of_group = |group: &Arc<Group>| {
        let members: Vec<Member> = group.runs.iter().flat_map(|run| &run.tables).map(member).collect();
        let (bytes, is_hot) = (group.bytes(), rule.is_hot(group));
        let known: Vec<f64> = members.iter().filter_map(|member| member.heat).collect();
        GroupHeat {
            range: group.range.clone(),
            runs: group.run_count(),
            run_bound: Layout::ByHeat(rule).of_group(group).max_runs(),
            bytes,
            is_hot,
            heat: (!known.is_empty()).then(|| known.iter().sum()),
            votes: band.hot_bytes(&members, Some(is_hot)) as f64 / bytes.max(1) as f64,
            from: band.from(Some(is_hot)),
        }
    };
    found.groups.iter().map(of_group).collect()
}

/// A stretch of a group's tables that are as hot as each other.
#[derive(Debug)]
struct Piece<'v> {
    group: &'v Group,
    /// Where it begins, unless where its group does.
    from: Option<Arc<[u8]>>,
    /// Its tables, if its group may be split between them.
    tables: &'v [TableRef],
    bytes: u64,
    is_hot: bool,
    /// It is another group than the piece before it, though that is as hot.
    is_apart: bool,
    /// Its group's bounds stay where they are.
    is_fixed: bool,
    /// Its group's bound on runs stays as well.
    is_busy: bool,
}

impl Piece<'_> {
    /// True if both may be in one group.
    fn joins(&self, other: &Piece<'_>) -> bool {
        self.is_hot == other.is_hot && !self.is_fixed && !other.is_fixed && !other.is_apart
    }

    fn run_bound(&self, rule: &HeatRule) -> u32 {
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
    rule: &HeatRule,
    band: &Band,
    member: &dyn Fn(&TableRef) -> Member,
    out: &mut Vec<Piece<'v>>,
) {
    let was_hot = Some(rule.is_hot(group));
    let whole = |is_hot, is_fixed| {
        let (from, tables, bytes) = (None, [].as_slice(), group.bytes());
        Piece { group, from, tables, bytes, is_hot, is_apart: false, is_fixed, is_busy }
    };
    let tables = || group.runs.iter().flat_map(|run| &run.tables);
    if is_busy {
        out.push(whole(rule.is_hot(group), true));
        return;
    }
    if group.runs.len() > 1 || tables().next().is_none() {
        let members: Vec<Member> = tables().map(member).collect();
        out.push(whole(band.vote(&members, was_hot), group.runs.len() > 1));
        return;
    }
    let only = group.runs.first().map(|run| run.tables.as_slice()).unwrap_or_default();
    let is_hot = |table: &TableRef| band.vote(&[member(table)], was_hot);
    for (at, tables) in only.chunk_by(|a, b| is_hot(a) == is_hot(b)).enumerate() {
        let Some(first) = tables.first() else { continue };
        let from = (at > 0).then(|| first.bounds.lo.clone());
        let bytes = tables.iter().map(TableRef::bytes).sum();
        out.push(Piece { from, tables, bytes, ..whole(is_hot(first), false) });
    }
}

/// How large the groups of a stretch that is all hot, or all cold, are.
struct Portion {
    /// About so many bytes.
    bytes: u64,
    /// Fewer are no group.
    least: u64,
    /// The most groups of the level.
    groups_max: usize,
}

impl Portion {
    fn of(level_bytes: u64, bytes_min: u64, rule: &HeatRule) -> Portion {
        let bytes = (level_bytes / u64::from(rule.groups_max.max(1))).saturating_mul(2).max(bytes_min).max(1);
        Portion { bytes, least: bytes_min.max(bytes / 2), groups_max: rule.groups_max as usize }
    }
}

/// Keeps pieces apart that are as hot and not small, and splits those that are much larger than a portion.
fn portions<'v>(mut pieces: Vec<Piece<'v>>, portion: &Portion) -> Vec<Piece<'v>> {
    let (mut groups, mut bytes) = (0, 0);
    for at in 0..pieces.len() {
        let Some([before, piece]) = pieces.get_mut(at.saturating_sub(1)..=at) else {
            (groups, bytes) = (1, pieces.first().map_or(0, |piece| piece.bytes));
            continue;
        };
        let is_large = bytes + piece.bytes > portion.bytes / 2 && bytes.min(piece.bytes) >= portion.least;
        piece.is_apart = piece.from.is_none() && is_large;
        let joins = before.joins(piece);
        groups += usize::from(!joins);
        bytes = piece.bytes + if joins { bytes } else { 0 };
    }
    let mut out: Vec<Piece<'v>> = Vec::with_capacity(pieces.len());
    let mut bytes = 0;
    for piece in pieces {
        let joins = out.last().is_some_and(|before: &Piece<'_>| before.joins(&piece));
        bytes = if joins { bytes } else { 0 };
        let is_huge = bytes + piece.bytes > portion.bytes.saturating_mul(2);
        let (mut left, tables, group) = (piece.bytes, piece.tables, piece.group);
        let (is_hot, is_fixed, is_busy) = (piece.is_hot, piece.is_fixed, piece.is_busy);
        out.push(piece);
        for (at, table) in tables.iter().enumerate().filter(|_| is_huge) {
            let is_full = bytes >= portion.least && bytes + table.bytes() > portion.bytes;
            if at > 0 && is_full && left >= portion.least && groups < portion.groups_max {
                if let Some(last) = out.last_mut() {
                    last.bytes -= left;
                }
                let rest = tables.get(at..).unwrap_or_default();
                let from = Some(table.bounds.lo.clone());
                out.push(Piece {
                    group,
                    from,
                    tables: rest,
                    bytes: left,
                    is_hot,
                    is_apart: true,
                    is_fixed,
                    is_busy,
                });
                (groups, bytes) = (groups + 1, 0);
            }
            (bytes, left) = (bytes + table.bytes(), left - table.bytes());
        }
        if !is_huge {
            bytes += left;
        }
    }
    out
}

/// Lets pieces go with their neighbours that are too small, or too many: the smallest first.
fn coarsen(pieces: &mut [Piece<'_>], groups_max: usize, bytes_min: u64) {
    loop {
        let stretches = stretches(pieces);
        let too_many = stretches.len() > groups_max.max(1);
        let free = |at: usize| stretches.get(at).filter(|s| !s.is_fixed);
        // A neighbour that is free is not as hot, else they were one.
        let neighbour = |at: usize| at.checked_sub(1).and_then(free).or(free(at + 1)).is_some();
        let movable = stretches.iter().enumerate().filter(|(at, s)| !s.is_fixed && neighbour(*at));
        let smallest = movable.map(|(_, stretch)| stretch).min_by_key(|stretch| stretch.bytes);
        let Some(stretch) = smallest.filter(|s| too_many || s.bytes < bytes_min) else { return };
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
fn steps(pieces: &[Piece<'_>], rule: &HeatRule, ids: &mut Ids) -> Vec<EditStep> {
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

    const RULE: &str = "by-heat:1:4:share=0.5:groups=4:least=0";

    /// All levels but L0 by this rule, of tables of fifty bytes.
    fn by(rule: &str) -> Strategy {
        let rest = "much=file which=oldest; L0: when=runs how=runs:4 much=runs; size: table=50";
        format!("when=saturation how={rule} {rest}").parse().unwrap()
    }

    /// Reads are hundredths of heat.
    fn heat(table: &TableRef) -> Option<f64> {
        Some(table.meta.access.reads() as f64 / 100.0)
    }

    fn regrouped(version: &Version, rule: &str) -> Option<Version> {
        let mut ids = Ids::above(version);
        let done = regroup(version, &Claims::default(), &by(rule), 1, &mut ids, &heat).unwrap();
        done.map(|done| {
            check(&done.version, &[]).unwrap();
            let ids = |v: &Version| v.tables().map(|(_, t)| t.id()).collect::<Vec<_>>();
            assert_eq!(ids(version), ids(&done.version), "nothing but metadata");
            done.version
        })
    }

    /// The level after it, and that it then stays.
    fn becomes(level: &str, rule: &str) -> String {
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
            // Neighbours that are alike are one where they are small, a gap between them too.
            (
                "L{..d} 1[a-c] T4{d..w} 2[d-f] 3[h-k] L{w..} 4[x-z reads=90 bytes=4000]",
                "T4{..w} 1[a-c] 2[d-f] 3[h-k] L{w..} 4[x-z]",
            ),
            (
                "T4{..d} 1[a-c reads=90] L{d..g} T4{g..w} 2[g-i reads=90] T4{w..} 4[x-z bytes=4000]",
                "L{..w} 1[a-c] 2[g-i] T4{w..} 4[x-z]",
            ),
            // Several runs turn together, by their bytes, and are neither split nor joined.
            (
                "T4{..d} 1[a-c bytes=9 reads=90] | 2[a-b bytes=5] L{d..} 3[d-f reads=90]",
                "L{..d} 1[a-c] | 2[a-b] L{d..} 3[d-f]",
            ),
            ("T4{..d} 1[a-c bytes=5 reads=90] | 2[a-b bytes=9] T4{d..} 3[d-f]", "the same"),
        ] {
            assert_eq!(becomes(level, RULE), want, "{level}");
        }
    }

    #[test]
    fn large_stretches_are_several_groups() {
        let rule = "by-heat:1:4:share=0.5:groups=8:least=0";
        assert_eq!(becomes("T4{..d} 1[a-c] T4{d..} 3[x-z]", rule), "the same");
        assert_eq!(
            becomes("L 1[a-c] 2[d-f] 3[g-i] 4[j-l] 5[m-o]", rule),
            "T4{..d} 1[a-c] T4{d..g} 2[d-f] T4{g..j} 3[g-i] T4{j..m} 4[j-l] T4{m..} 5[m-o]"
        );
        assert_eq!(
            becomes("L 1[a-c] 2[d-f] 3[g-i] 4[j-l] 5[m-o]", RULE),
            "T4 1[a-c] 2[d-f] 3[g-i] 4[j-l] 5[m-o]"
        );
    }

    #[test]
    fn heat_inside_the_band_changes_nothing() {
        for heat in [46, 50, 54] {
            for shape in ["L", "T4"] {
                let level = format!("{shape} 1[a-c reads={heat}] 2[d-f reads={}]", 100 - heat);
                assert_eq!(becomes(&level, RULE), "the same", "{level}");
            }
        }
    }

    #[test]
    fn small_stretches_and_too_many_go_with_their_neighbours() {
        let small = "by-heat:1:4:share=0.5:least=1";
        let level = "L 1[a-c reads=90 bytes=100] 2[d-f bytes=49] 3[g-i reads=90 bytes=100]";
        assert_eq!(becomes(level, small), "the same");
        let letters: Vec<String> = ('a'..='t')
            .enumerate()
            .map(|(i, c)| format!("{}[{c}-{c} bytes={} reads={}]", i + 1, 100 + i, i % 2 * 90))
            .collect();
        let level = format!("L {}", letters.join(" "));
        for groups_max in [1, 2, 3, 5, 19] {
            let after = becomes(&level, &format!("by-heat:1:4:share=0.5:groups={groups_max}:least=0"));
            let groups = after.matches('{').count().max(1);
            assert!(groups <= groups_max, "{groups_max}: {after}");
        }
    }

    #[test]
    fn what_nothing_is_known_of_is_leveled() {
        let tree = parse("L0 T4\nL1 T4 1[a-c] 2[d-f]\n").unwrap();
        for unknown in [None, Some(f64::NAN)] {
            let mut ids = Ids::above(&tree);
            let done =
                regroup(&tree, &Claims::default(), &by(RULE), 1, &mut ids, &|_| unknown).unwrap().unwrap();
            assert_eq!(draw(&done.version).lines().nth(1), Some("L1 L 1[a-c] 2[d-f]"));
            assert!(
                regroup(&tree, &Claims::default(), &by(RULE), 7, &mut ids, &|_| unknown).unwrap().is_none()
            );
        }
    }

    #[test]
    fn a_group_in_use_stays_as_it_is() {
        let tree = parse("L0 T4\nL1 L{..d} 1[a-c] L{d..} 2[d-f]\n").unwrap();
        let groups: Vec<Arc<Group>> = tree.levels[1].groups.clone();
        let mut claims = Claims::default();
        claims.claim_group(JobId(1), groups[0].id).unwrap();
        let mut ids = Ids::above(&tree);
        let done = regroup(&tree, &claims, &by(RULE), 1, &mut ids, &heat).unwrap().unwrap();
        assert_eq!(draw(&done.version).lines().nth(1), Some("L1 L{..d} 1[a-c] T4{d..} 2[d-f]"));
        claims.claim_group(JobId(2), groups[1].id).unwrap();
        assert!(regroup(&tree, &claims, &by(RULE), 1, &mut ids, &heat).unwrap().is_none());
    }
}
