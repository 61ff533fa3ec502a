//! No code asks for a strategy's name: outside its catalogue, no string of the engine is the name of one.
//!
//! A name is a short lower-case word given as `name: "lo+1"` or first in a row, `("lo+1", …)`. Names of one or two
//! letters are not looked for: they would be found everywhere.

use std::collections::BTreeSet;

use super::finding::Finding;
use super::floors::ENGINE;
use super::source::{Literal, Source};

/// The file whose rows are the strategies.
const CATALOGUE: &str = "crates/engine/src/compaction/catalog_rows.rs";

/// The file that looks them up, and knows the default.
const LOOKUP: &str = "crates/engine/src/compaction/catalog.rs";

/// Shorter names are not looked for.
const NAME_CHARS_MIN: usize = 3;

/// Every use of a strategy's name as a string where there should be its values.
pub fn check(sources: &[Source], is_test: &dyn Fn(&str) -> bool) -> Vec<Finding> {
    let Some(catalogue) = sources.iter().find(|s| s.path == CATALOGUE) else { return Vec::new() };
    let names = names(catalogue);
    if names.is_empty() {
        let message = format!("no names found in the catalogue: teach {} how its rows are written", file!());
        return vec![Finding::new(CATALOGUE, 1, message)];
    }
    let mut findings = Vec::new();
    let engine = sources.iter().filter(|s| s.path.starts_with(ENGINE) && !is_catalogue(&s.path));
    for source in engine.filter(|s| !is_test(&s.path)) {
        for literal in shipped_literals(source).filter(|l| names.contains(&l.text[..])) {
            let message = format!(
                "\"{}\" is a strategy's name: ask for its values, names live in catalog_rows.rs",
                literal.text
            );
            findings.push(Finding::new(&source.path, source.line(literal.at), message));
        }
    }
    findings
}

fn is_catalogue(path: &str) -> bool {
    path == CATALOGUE || path == LOOKUP || path.ends_with("scheduler/catalog.rs")
}

fn names(catalogue: &Source) -> BTreeSet<&str> {
    let in_row = |literal: &&Literal| {
        let before = catalogue.code[..literal.at].trim_end();
        before.ends_with('(') || before.ends_with("name:")
    };
    shipped_literals(catalogue).filter(in_row).map(|l| &l.text[..]).filter(|text| is_name(text)).collect()
}

fn shipped_literals(source: &Source) -> impl Iterator<Item = &Literal> {
    source.literals.iter().filter(|literal| !source.in_tests(literal.at))
}

fn is_name(text: &str) -> bool {
    text.len() >= NAME_CHARS_MIN
        && text.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"+-_".contains(&b))
}
