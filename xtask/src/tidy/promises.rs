//! What the documentation calls a test is one: a sentence of `docs/durability.md` that is "shown by" a test loses its proof
//! when that test is renamed or goes, and nobody would notice. A promise, a section `## C…`, without any such word is none.
//!
//! A test's name there is a word in backticks of lower-case letters, digits and at least two underscores.

use std::collections::BTreeSet;

use super::finding::Finding;
use super::source::Source;
use super::tokens::tokens;

/// The page.
const PAGE: &str = "docs/durability.md";

/// Every name of a test on the page that no function has.
pub fn check(sources: &[Source]) -> Vec<Finding> {
    let Some(page) = sources.iter().find(|s| s.path == PAGE) else { return Vec::new() };
    let functions: BTreeSet<&str> = sources.iter().flat_map(functions).collect();
    let mut findings = Vec::new();
    for (i, line) in page.text.lines().enumerate() {
        let quoted = line.split('`').skip(1).step_by(2);
        for name in quoted.filter(|word| is_test_name(word) && !functions.contains(word)) {
            findings.push(Finding::new(
                PAGE,
                i + 1,
                format!("there is no test `{name}`: name the one that shows this"),
            ));
        }
    }
    findings.extend(unshown(&page.text));
    findings
}

/// Promises that name no test.
fn unshown(page: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut open: Option<(usize, &str)> = None;
    let headings = page.lines().enumerate().chain([(0, "## the end")]);
    for (i, line) in headings {
        if let Some(title) = line.strip_prefix("## ") {
            if let Some((at, title)) = open.take() {
                let message = format!("`{title}` is shown by no test: say `Shown by` and name one");
                findings.push(Finding::new(PAGE, at + 1, message));
            }
            open = is_promise(title).then_some((i, title));
        } else if line.starts_with("Shown by ") {
            open = None;
        }
    }
    findings
}

/// `C7 A full disk`.
fn is_promise(title: &str) -> bool {
    title.strip_prefix('C').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

fn functions(source: &Source) -> Vec<&str> {
    let all = tokens(&source.code);
    all.windows(2).filter(|pair| pair[0].text == "fn").map(|pair| pair[1].text).collect()
}

fn is_test_name(word: &str) -> bool {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
    word.bytes().all(plain) && word.matches('_').count() >= 2
}
