//! All checks over all files of the project.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use super::finding::Finding;
use super::source::Source;
use super::{floors, house, names, promises};

/// Files with these ends are looked at; data of tests and pictures are not.
const ENDS: [&str; 6] = [".rs", ".md", ".toml", ".sh", ".yml", ".ci/run"];

/// Reads the project's files under `root`.
pub fn read(root: &Path) -> io::Result<Vec<Source>> {
    let mut sources = Vec::new();
    read_folder(root, "", &mut sources)?;
    sources.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(sources)
}

fn read_folder(folder: &Path, prefix: &str, sources: &mut Vec<Source>) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{prefix}{name}");
        let kind = entry.file_type()?;
        if kind.is_dir() {
            let hidden = name.starts_with('.') && !matches!(&name[..], ".ci" | ".cargo" | ".github");
            if !hidden && name != "target" {
                read_folder(&entry.path(), &format!("{path}/"), sources)?;
            }
        } else if kind.is_file() && ENDS.iter().any(|end| path.ends_with(end)) {
            let bytes = std::fs::read(entry.path())?;
            sources.push(Source::new(&path, &String::from_utf8_lossy(&bytes)));
        }
    }
    Ok(())
}

/// Everything that is not tidy, by file and line.
pub fn check(sources: &[Source]) -> Vec<Finding> {
    let test_files = test_files(sources);
    let is_test = |path: &str| {
        path.contains("/tests/")
            || path.ends_with("_tests.rs")
            || path.ends_with("/tests.rs")
            || test_files.contains(path)
    };
    let mut findings: Vec<Finding> = sources.iter().flat_map(house::check).collect();
    findings.extend(floors::check(sources, &is_test));
    findings.extend(floors::orphans(sources));
    findings.extend(names::check(sources, &is_test));
    findings.extend(promises::check(sources));
    findings.sort();
    findings.dedup();
    findings
}

/// The files behind `#[cfg(test)] mod name;`.
fn test_files(sources: &[Source]) -> BTreeSet<String> {
    let mut files = BTreeSet::new();
    for source in sources {
        let (folder, name) = source.path.rsplit_once('/').unwrap_or(("", &source.path));
        let below = match name {
            "mod.rs" | "lib.rs" | "main.rs" => folder,
            _ => source.path.trim_end_matches(".rs"),
        };
        for (module, path) in &source.test_modules {
            match path {
                Some(path) => files.extend([format!("{folder}/{path}")]),
                None => files.extend([format!("{below}/{module}.rs"), format!("{below}/{module}/mod.rs")]),
            }
        }
    }
    files
}
