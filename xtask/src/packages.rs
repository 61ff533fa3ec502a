//! What a user of the library takes in: few packages, no build of C, licences and sources as `deny.toml` allows.
//!
//! Works on the lines of `cargo tree --prefix none --format '{p}|{l}'`, so that it needs no other tool. Where cargo-deny
//! is installed it checks the same again, and more.

use std::collections::BTreeSet;

/// The library and all it needs, at most.
const PACKAGES_MAX: usize = 20;

/// Packages that build or look for C: whoever takes in the library needs no C compiler.
const C_BUILDERS: [&str; 8] =
    ["cc", "cmake", "bindgen", "pkg-config", "autotools", "nasm-rs", "vcpkg", "system-deps"];

/// What is wrong with the library's own packages; otherwise how many there are.
pub fn check_core(tree: &str) -> Result<usize, String> {
    let packages: BTreeSet<&str> = tree.lines().filter_map(name).collect();
    if let Some(c) = C_BUILDERS.iter().find(|c| packages.contains(*c)) {
        return Err(format!("the library takes in `{c}`, which builds C: it is to be pure Rust"));
    }
    if packages.len() > PACKAGES_MAX {
        let list: Vec<&str> = packages.iter().copied().collect();
        return Err(format!(
            "the library takes in {} packages, over {PACKAGES_MAX}: {}",
            packages.len(),
            list.join(" ")
        ));
    }
    if packages.is_empty() {
        return Err("cargo tree names no package at all".to_owned());
    }
    Ok(packages.len())
}

/// What is wrong with the licences and sources of a set of packages; otherwise how many there are.
pub fn check_licences(tree: &str, deny_toml: &str) -> Result<usize, String> {
    let allowed = allowed_licences(deny_toml);
    let mut seen = BTreeSet::new();
    for line in tree.lines().filter(|line| !line.trim().is_empty()) {
        let (package, licence) =
            line.split_once('|').ok_or_else(|| format!("not a line of cargo tree: {line}"))?;
        if package.contains("(git+")
            || package.contains("(http")
            || package.contains("(ssh")
            || package.contains("(registry+")
        {
            return Err(format!("{package} does not come from crates.io"));
        }
        // cargo tree marks what it has already printed with a star.
        let licence = licence.trim_end_matches("(*)").trim();
        if !is_allowed(licence, &allowed) {
            return Err(format!("{package} has the licence `{licence}`, which deny.toml does not allow"));
        }
        seen.insert(package);
    }
    Ok(seen.len())
}

fn name(line: &str) -> Option<&str> {
    line.split([' ', '|']).next().filter(|name| !name.is_empty())
}

/// The strings of the list `allow` under `[licenses]`.
fn allowed_licences(deny_toml: &str) -> BTreeSet<String> {
    let section = deny_toml.split("[licenses]").nth(1).unwrap_or_default();
    let list = section.split("allow = [").nth(1).and_then(|s| s.split(']').next()).unwrap_or_default();
    list.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

/// True if the expression, with `OR` weaker than `AND` and parentheses, can be met with allowed licences alone.
fn is_allowed(expression: &str, allowed: &BTreeSet<String>) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut at = 0;
    let answer = either(&words, &mut at, allowed);
    answer && at == words.len()
}

fn either(words: &[&str], at: &mut usize, allowed: &BTreeSet<String>) -> bool {
    let mut answer = both(words, at, allowed);
    while words.get(*at) == Some(&"OR") {
        *at += 1;
        answer |= both(words, at, allowed);
    }
    answer
}

fn both(words: &[&str], at: &mut usize, allowed: &BTreeSet<String>) -> bool {
    let mut answer = one(words, at, allowed);
    while words.get(*at) == Some(&"AND") {
        *at += 1;
        answer &= one(words, at, allowed);
    }
    answer
}

fn one(words: &[&str], at: &mut usize, allowed: &BTreeSet<String>) -> bool {
    let Some(word) = words.get(*at) else { return false };
    *at += 1;
    if *word == "(" {
        let answer = either(words, at, allowed);
        *at += 1;
        return answer;
    }
    let mut name = (*word).to_owned();
    if words.get(*at) == Some(&"WITH") {
        name = format!("{name} WITH {}", words.get(*at + 1).unwrap_or(&""));
        *at += 2;
    }
    allowed.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DENY: &str = "[licenses]\nallow = [\n  \"MIT\",\n  \"Apache-2.0\",\n]\n[bans]\n";

    #[test]
    fn the_core_stays_small_and_pure() {
        let many: String = (0..21).map(|i| format!("p{i} v1.0.0|MIT\n")).collect();
        for (tree, expected) in [
            ("evenkeel v0.1.0 (/x)|MIT\nlibc v0.2.1|MIT\nlibc v0.2.1|MIT (*)\n", Ok(2)),
            ("evenkeel v0.1.0|MIT\ncc v1.0.0|MIT\n", Err("`cc`")),
            (&many, Err("21 packages, over 20")),
            ("", Err("no package")),
        ] {
            match (check_core(tree), expected) {
                (Ok(n), Ok(m)) => assert_eq!(n, m),
                (Err(message), Err(part)) => assert!(message.contains(part), "{message}"),
                (got, _) => panic!("{tree}: {got:?}"),
            }
        }
    }

    #[test]
    fn licences_are_expressions() {
        for (licence, good) in [
            ("MIT", true),
            ("MIT OR GPL-3.0", true),
            ("MIT AND GPL-3.0", false),
            ("MIT/Apache-2.0", true),
            ("(GPL-3.0 OR MIT) AND Apache-2.0", true),
            ("GPL-3.0 OR MIT AND GPL-2.0", false),
            ("Apache-2.0 WITH LLVM-exception", false),
            ("Apache-2.0 WITH LLVM-exception OR MIT", true),
            ("", false),
        ] {
            let tree = format!("x v1.0.0|{licence} (*)\n");
            assert_eq!(check_licences(&tree, DENY).is_ok(), good, "{licence}");
        }
        assert!(check_licences("x v1.0.0 (git+https://example.org/x)|MIT\n", DENY).is_err());
        assert!(check_licences("x v1.0.0 (https://example.org/x#1234)|MIT\n", DENY).is_err());
    }
}
