//! The house rules that hold for every file: a header, a bounded length, no `unsafe` outside two crates, no leftovers.

use super::finding::Finding;
use super::source::Source;
use super::tokens::tokens;

/// A file that is longer has two subjects.
const LINES_MAX: usize = 600;

/// The only crates with `unsafe` in them: the memtable's tree, system calls without a safe wrapper, and the peers, one of which
/// maps a file into memory and wants that vouched for.
const UNSAFE_CRATES: [&str; 3] = ["crates/arena/", "crates/sys/", "peers/"];

/// Words of unfinished work, spelled so that this file does not hold them.
const UNFINISHED: [&str; 4] =
    [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("to", "do!"), concat!("unimple", "mented!")];

/// Paths that exist only on somebody's machine, spelled likewise.
const MACHINE_PATHS: [&str; 4] =
    [concat!("/wo", "rk/"), concat!("/tm", "p/wt"), concat!("/ro", "ot"), concat!("/ho", "me/")];

/// Everything about one file that the house rules do not allow.
pub fn check(source: &Source) -> Vec<Finding> {
    let mut findings = leftovers(source);
    if source.is_rust() {
        findings.extend(header(source));
        findings.extend(length(source));
        findings.extend(unsafe_code(source));
    }
    findings
}

fn header(source: &Source) -> Option<Finding> {
    let message = "a file opens with `//!`: what it is for, its place, what always holds";
    (!source.text.starts_with("//!")).then(|| Finding::new(&source.path, 1, message))
}

fn length(source: &Source) -> Option<Finding> {
    let lines = source.text.lines().count();
    let message = format!("{lines} lines, over {LINES_MAX}: split it by subject");
    (lines > LINES_MAX).then(|| Finding::new(&source.path, LINES_MAX + 1, message))
}

fn unsafe_code(source: &Source) -> Vec<Finding> {
    if UNSAFE_CRATES.iter().any(|c| source.path.starts_with(c)) {
        return Vec::new();
    }
    let mut findings = Vec::new();
    let all = tokens(&source.code);
    for token in all.iter().filter(|t| t.text == "unsafe") {
        let message = "`unsafe` stays in crates/arena and crates/sys, behind a safe face";
        findings.push(Finding::new(&source.path, source.line(token.at), message));
    }
    let forbids =
        all.windows(3).any(|w| w[0].text == "forbid" && w[1].text == "(" && w[2].text == "unsafe_code");
    if is_crate_root(&source.path) && !forbids {
        findings.push(Finding::new(&source.path, 1, "a crate opens with `#![forbid(unsafe_code)]`"));
    }
    findings
}

/// True for the files that a library or a command starts from.
fn is_crate_root(path: &str) -> bool {
    path.ends_with("src/lib.rs") || path.ends_with("src/main.rs") || path.contains("/src/bin/")
}

fn leftovers(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (i, line) in source.text.lines().enumerate() {
        for word in UNFINISHED.iter().filter(|word| has_word(line, word)) {
            findings.push(Finding::new(
                &source.path,
                i + 1,
                format!("`{word}`: unfinished code stays on a branch"),
            ));
        }
        for path in MACHINE_PATHS.iter().filter(|path| has_word(line, path)) {
            findings.push(Finding::new(&source.path, i + 1, format!("`{path}` is a path of one machine")));
        }
    }
    findings
}

/// True if `line` holds `word`, and not as a part of a longer word or path.
fn has_word(line: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        let open_end = word.ends_with(['/', '!']);
        !before.is_some_and(is_part) && (open_end || !after.is_some_and(|c| c.is_alphanumeric() || c == '_'))
    })
}
