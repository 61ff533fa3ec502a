//! The tree is tidy; and the checks that say so see what they should: `testdata/tidy.txt` draws untidy trees and the
//! sentence that each is answered with.
#![allow(clippy::disallowed_methods, reason = "reads its own test data")]

use std::path::Path;

use xtask::ci;
use xtask::tidy::source::Source;
use xtask::tidy::tree;

#[test]
fn the_tree_is_tidy() {
    let sources = tree::read(&ci::root()).unwrap();
    assert!(sources.iter().any(|s| s.path == "crates/engine/src/lib.rs"), "the engine is looked at");
    let findings: Vec<String> = tree::check(&sources).iter().map(ToString::to_string).collect();
    assert!(findings.is_empty(), "\n{}", findings.join("\n"));
}

#[test]
fn untidy_trees_are_told_what_is_wrong() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/testdata/tidy.txt");
    let text = std::fs::read_to_string(path).unwrap();
    let cases: Vec<&str> = text.split("\n== ").skip(1).collect();
    assert!(cases.len() > 20, "the cases are read");
    let mut wrong = Vec::new();
    for case in cases {
        let (title, sources, expected) = parse(case);
        let found: Vec<String> = tree::check(&sources).iter().map(ToString::to_string).collect();
        if found != expected {
            wrong.push(format!(
                "== {title}\nexpected\n  {}\nfound\n  {}",
                expected.join("\n  "),
                found.join("\n  ")
            ));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// A case is its title, files (`-- path`, then lines), and what is found (`=> finding`).
fn parse(case: &str) -> (&str, Vec<Source>, Vec<String>) {
    let (title, body) = case.split_once('\n').unwrap_or((case, ""));
    let (mut files, mut expected) = (Vec::<(String, String)>::new(), Vec::new());
    for line in body.lines() {
        if let Some(path) = line.strip_prefix("-- ") {
            files.push((path.to_owned(), String::new()));
        } else if let Some(finding) = line.strip_prefix("=> ") {
            expected.push(finding.to_owned());
        } else if let Some((_, text)) = files.last_mut() {
            // `repeat N` stands for N lines of code.
            let lines = line.strip_prefix("repeat ").and_then(|n| n.parse().ok());
            text.push_str(&lines.map_or_else(|| format!("{line}\n"), |n| "fn f() {}\n".repeat(n)));
        }
    }
    declare(&mut files);
    let sources = files.iter().map(|(path, text)| Source::new(path, text)).collect();
    (title, sources, expected)
}

/// Adds the engine's `mod.rs` and `lib.rs` that a case leaves out, so that cases need only draw what they are about.
fn declare(files: &mut Vec<(String, String)>) {
    const SRC: &str = "crates/engine/src/";
    let mut paths: Vec<String> =
        files.iter().map(|(path, _)| path.clone()).filter(|p| p.starts_with(SRC)).collect();
    let given = paths.clone();
    while let Some(path) = paths.pop() {
        let stem = path[SRC.len()..].trim_end_matches(".rs").trim_end_matches("/mod");
        if stem == "lib" {
            continue;
        }
        let face = match stem.rsplit_once('/') {
            Some((folder, _)) => format!("{SRC}{folder}/mod.rs"),
            None => format!("{SRC}lib.rs"),
        };
        if given.contains(&face) {
            continue;
        }
        let module = format!("mod {};\n", stem.rsplit('/').next().unwrap_or(stem));
        match files.iter_mut().find(|(path, _)| *path == face) {
            Some((_, text)) => text.push_str(&module),
            None => files.push((face.clone(), format!("//! Face.\n#![forbid(unsafe_code)]\n{module}"))),
        }
        paths.push(face);
    }
}
