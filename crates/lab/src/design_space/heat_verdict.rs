//! What makes a result of lab L count: a part of the bytes is hot, the cache is small, reads go to the device, and hot and cold ranges
//! pay: `ltg` writes less than leveling and reads less than `tier` in the same round. Pure.
//!
//! Where θ is what is varied, or the gets are not the paper's, the part that is hot and the price are what is asked, so only the
//! rest has to hold.

use std::collections::BTreeSet;

use super::heat_load::{Asked, HeatLoad, Theta};
use super::point::Point;
use super::study::{Study, Table};

/// α.
const HOT_BYTES: std::ops::RangeInclusive<f64> = 0.05..=0.6;
/// The cache, as a part of the data.
const CACHE_MAX: f64 = 0.05;

/// What is to be said of a claim beside its number.
#[derive(Debug, Default)]
pub(crate) struct Look {
    /// Why it says nothing.
    pub(crate) why_not: Option<String>,
    /// What the tree was.
    pub(crate) tree: Option<String>,
}

/// True if the study's points are those of lab L.
pub(crate) fn is_about(study: &Study) -> bool {
    (study.points)().iter().any(|point| point.heat().is_some())
}

/// Looks at the points by heat that a claim has used in a round.
pub(crate) fn look(study: &Study, table: &Table<'_>, used: &BTreeSet<String>) -> Look {
    let mut found = Look::default();
    let points = (study.points)();
    for point in points.iter().filter(|point| point.strategy == "ltg" && used.contains(&point.name())) {
        let Some(load) = point.heat() else { continue };
        found.why_not = found.why_not.or_else(|| fault(point, load, table));
        // The last one is the one with the largest T, the most records or the like.
        found.tree = tree(point, table).or(found.tree);
    }
    found
}

fn fault(point: &Point, load: &HeatLoad, table: &Table<'_>) -> Option<String> {
    let name = point.name();
    let data = (point.records * point.entry_bytes) as f64;
    if point.cache_bytes as f64 > CACHE_MAX * data {
        return Some(format!("{name}: the cache is more than a twentieth of the data"));
    }
    if load.theta != Theta::Usual {
        return None;
    }
    let alpha = table.of(point, "alpha")?;
    if !HOT_BYTES.contains(&alpha) {
        return Some(format!("{name}: {alpha:.2} of the bytes are hot; this needs 0.05 to 0.6"));
    }
    if load.asked != Asked::Zipfian {
        return None;
    }
    let less = |other: &'static str, figure: &str| {
        Some(table.of(point, figure)? < table.of(&point.with(other), figure)?)
    };
    match (less("1-leveling", "moved"), less("tier", "read_pages")) {
        (Some(true), Some(true)) => None,
        (Some(false), _) => Some(format!("{name} moves no less than 1-leveling")),
        (_, Some(false)) => Some(format!("{name} reads no fewer pages than tier")),
        _ => Some(format!("{name} was not run beside 1-leveling and tier")),
    }
}

/// One line.
fn tree(point: &Point, table: &Table<'_>) -> Option<String> {
    let of = |figure: &str| table.of(point, figure);
    let explained = of("explained").map_or_else(|| "not known".to_owned(), |part| format!("{part:.2}"));
    Some(format!(
        "{}: α {:.2} of the bytes are hot and get β {:.2} of the looks, R² {explained}, {:.0} groups; {:.0} turned hot and {:.0} cold, {:.0} \
         split and {:.0} joined, in {:.0} lessons; {} filter bits an entry",
        point.name(),
        of("alpha")?,
        of("beta")?,
        of("groups")?,
        of("turned_hot")?,
        of("turned_cold")?,
        of("splits")?,
        of("joins")?,
        of("lessons")?,
        of("filter_bits").map_or_else(|| "unknown".to_owned(), |bits| format!("{bits:.1}"))
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::design_space::measure::Figures;
    use crate::design_space::point::HEAT;

    const STUDY: Study = Study {
        id: "made-up",
        title: "",
        points: || ["ltg", "1-leveling", "tier"].map(|strategy| HEAT.with(strategy)).to_vec(),
        claims: &[],
        plots: &[],
    };

    fn looked(alpha: f64, moved: [f64; 2], pages: [f64; 2]) -> Look {
        let names = ["alpha", "beta", "groups", "splits", "joins", "turned_hot", "turned_cold", "lessons"];
        let mut ltg: Figures = names.iter().map(|name| ((*name).to_owned(), 7.0)).collect();
        ltg.insert("alpha".to_owned(), alpha);
        ltg.insert("moved".to_owned(), moved[0]);
        ltg.insert("read_pages".to_owned(), pages[0]);
        let leveling = Figures::from([("moved".to_owned(), moved[1])]);
        let tier = Figures::from([("read_pages".to_owned(), pages[1])]);
        let rows = [("ltg", &ltg), ("1-leveling", &leveling), ("tier", &tier)];
        let table = Table::new(rows.into_iter().map(|(name, figures)| (HEAT.with(name).name(), figures)));
        look(&STUDY, &table, &BTreeSet::from([HEAT.name()]))
    }

    #[test]
    fn a_result_counts_only_where_heat_has_changed_the_tree_and_that_pays() {
        assert!(is_about(&STUDY));
        let good = looked(0.3, [4.0, 9.0], [1.0, 1.2]);
        assert_eq!(good.why_not, None);
        let tree = good.tree.unwrap();
        assert!(tree.contains("α 0.30") && tree.contains("7 turned hot and 7 cold"), "{tree}");
        for (look, why) in [
            (looked(0.04, [4.0, 9.0], [1.0, 1.2]), "0.04 of the bytes are hot"),
            (looked(0.61, [4.0, 9.0], [1.0, 1.2]), "0.61 of the bytes are hot"),
            (looked(0.3, [9.0, 9.0], [1.0, 1.2]), "moves no less than 1-leveling"),
            (looked(0.3, [4.0, 9.0], [1.2, 1.2]), "reads no fewer pages than tier"),
        ] {
            assert!(look.why_not.as_ref().is_some_and(|said| said.contains(why)), "{look:?}");
        }
        let none = look(&STUDY, &Table::new(std::iter::empty()), &BTreeSet::from([HEAT.name()]));
        assert!(none.tree.is_none());
    }

    #[test]
    fn what_is_varied_is_no_condition() {
        let alone = Figures::from([("alpha".to_owned(), 0.9)]);
        let fault_of = |load: HeatLoad| {
            let point = Point { reads: crate::design_space::point::Reads::Heat(load), ..HEAT };
            fault(&point, &load, &Table::new([(point.name(), &alone)].into_iter()))
        };
        let usual = crate::design_space::heat_load::USUAL;
        assert!(fault_of(usual).is_some());
        assert_eq!(fault_of(HeatLoad { theta: Theta::Relative(30), ..usual }), None);
        let large = Point { cache_bytes: 1 << 30, ..HEAT };
        assert!(fault(&large, &usual, &Table::new(std::iter::empty())).unwrap().contains("twentieth"));
    }
}
