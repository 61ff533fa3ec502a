//! Planted bugs: `cargo xtask trust --mutants` applies each patch of `xtask/mutants` to a copy of the tree, and runs the layer that
//! should catch it. A layer that stays silent is no layer.
//!
//! ```text
//! the tree ─copy─► target/mutants ─patch─► build ─► layer fails: caught │ passes: MISSED │ does not build: STALE ─► patch undone
//! ```
//! A patch begins with a sentence and a line `layer: NAME`; the rest is as `git diff` writes it.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use super::layers::{self, Layer};
use super::run::{Outcome, run_layer};

/// Where the patches are.
const PATCHES: &str = "xtask/mutants";

/// Where the copy is, below the tree's root.
const COPY: &str = "target/mutants";

/// What builds and fuzzing leave, and change while this runs.
const SCRATCH: [&str; 4] = ["target", "fuzz/found", "fuzz/artifacts", "fuzz/coverage"];

/// A planted bug.
#[derive(Debug)]
pub struct Mutant {
    /// The file's name without its end.
    pub name: String,
    /// What is wrong with it.
    pub about: String,
    /// Who should notice.
    pub layer: &'static Layer,
    patch: PathBuf,
}

/// All planted bugs, by name.
///
/// # Errors
/// A sentence that names the patch that cannot be read.
pub fn all(root: &Path) -> Result<Vec<Mutant>, String> {
    let folder = root.join(PATCHES);
    let entries = std::fs::read_dir(&folder).map_err(|error| format!("{PATCHES}: {error}"))?;
    let paths = entries.filter_map(Result::ok).map(|entry| entry.path());
    let mut mutants = Vec::new();
    for path in paths.filter(|path| path.extension().is_some_and(|end| end == "patch")) {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&path).map_err(|error| format!("{PATCHES}/{name}: {error}"))?;
        let (about, layer) = head(&text).map_err(|what| format!("{PATCHES}/{name}.patch: {what}"))?;
        mutants.push(Mutant { name, about, layer, patch: path });
    }
    mutants.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(mutants)
}

/// What stands before the diff.
fn head(text: &str) -> Result<(String, &'static Layer), String> {
    let mut lines = text.lines();
    let about = lines.next().filter(|line| !line.is_empty()).ok_or("its first line says what is wrong")?;
    let name = lines.next().and_then(|line| line.strip_prefix("layer: "));
    let name = name.ok_or("its second line is `layer: NAME`")?;
    let layer = layers::find(name).ok_or_else(|| format!("there is no layer `{name}`"))?;
    Ok((about.to_owned(), layer))
}

/// Names every planted bug, one a line.
///
/// # Errors
/// As [`all`].
pub fn list(root: &Path) -> Result<(), String> {
    for mutant in all(root)? {
        println!("{:<32} {:<12} {}", mutant.name, mutant.layer.name, mutant.about);
    }
    Ok(())
}

/// Plants the bugs of these names, or all, one after the other.
///
/// # Errors
/// A sentence that names those that nobody noticed, or what keeps one from being planted.
pub fn run(names: &[String], root: &Path) -> Result<(), String> {
    let mutants = all(root)?;
    if let Some(name) = names.iter().find(|name| !mutants.iter().any(|mutant| mutant.name == **name)) {
        return Err(format!("no planted bug is called `{name}`; `cargo xtask trust --list` names them"));
    }
    let chosen = |mutant: &&Mutant| names.is_empty() || names.contains(&mutant.name);
    let mutants: Vec<&Mutant> = mutants.iter().filter(chosen).collect();
    let copy = root.join(COPY);
    let (start, mut missed) = (Instant::now(), Vec::new());
    for (done, mutant) in mutants.iter().enumerate() {
        let left = match done {
            0 => String::new(),
            _ => {
                let each = start.elapsed().as_secs() / done as u64;
                format!(", {} s left", each * (mutants.len() - done) as u64)
            }
        };
        eprintln!("==> {} ({} of {}{left}): {}", mutant.name, done + 1, mutants.len(), mutant.about);
        let began = Instant::now();
        let verdict = plant(mutant, root, &copy)?;
        let seconds = began.elapsed().as_secs_f64();
        println!("mutant={} layer={} {verdict} seconds={seconds:.0}", mutant.name, mutant.layer.name);
        if !verdict.starts_with("caught=1") {
            missed.push(mutant.name.as_str());
        }
    }
    println!("mutants={} caught={} missed={}", mutants.len(), mutants.len() - missed.len(), missed.len());
    match missed.is_empty() {
        true => Ok(()),
        false => Err(format!("nobody noticed {}", missed.join(", "))),
    }
}

/// What the layer makes of the tree with this bug.
fn plant(mutant: &Mutant, root: &Path, copy: &Path) -> Result<String, String> {
    mirror(root, copy).map_err(|error| format!("{COPY}: {error}"))?;
    patched(mutant, copy)?;
    Ok(match run_layer(mutant.layer, None, None, copy) {
        Ok(Outcome::Wrong { seed, doing, .. }) => {
            format!("caught=1 seed={} by=\"{doing}\"", seed.as_deref().unwrap_or("none"))
        }
        Ok(Outcome::Right(_)) => "caught=0 MISSED".to_owned(),
        Ok(Outcome::Skipped(why)) => format!("caught=0 SKIPPED: {why}"),
        Err(why) => return Err(format!("{}: {why}", mutant.name)),
    })
}

fn patched(mutant: &Mutant, copy: &Path) -> Result<(), String> {
    let mut git = Command::new("git");
    git.current_dir(copy).args(["apply", "--whitespace=nowarn"]).arg(&mutant.patch);
    // The copy lies within the repository, whose files are not meant.
    git.env("GIT_CEILING_DIRECTORIES", copy.parent().unwrap_or(copy));
    let output = git.output().map_err(|error| format!("git cannot be started: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let why = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
    Err(format!("{} does not apply any more, write it anew: {why}", mutant.name))
}

/// Makes the copy's files those of the tree. What is equal is not touched, so that little is built anew.
fn mirror(root: &Path, copy: &Path) -> io::Result<()> {
    let (mut wanted, mut there) = (BTreeMap::new(), BTreeMap::new());
    files(root, Path::new(""), &mut wanted)?;
    std::fs::create_dir_all(copy)?;
    files(copy, Path::new(""), &mut there)?;
    for (name, path) in &wanted {
        let bytes = std::fs::read(path)?;
        let to = copy.join(name);
        if there.contains_key(name) && std::fs::read(&to)? == bytes {
            continue;
        }
        if let Some(folder) = to.parent() {
            std::fs::create_dir_all(folder)?;
        }
        std::fs::write(&to, bytes)?;
    }
    for (_, path) in there.iter().filter(|(name, _)| !wanted.contains_key(*name)) {
        std::fs::remove_file(path)?;
    }
    Ok(())
}

/// The tree's own files below `folder`, by name.
fn files(root: &Path, folder: &Path, found: &mut BTreeMap<PathBuf, PathBuf>) -> io::Result<()> {
    for entry in std::fs::read_dir(root.join(folder))? {
        let (entry, name) = entry.map(|entry| (entry.path(), entry.file_name()))?;
        let hidden = name.to_string_lossy().starts_with('.') && name != ".cargo" && name != ".ci";
        let name = folder.join(name);
        if hidden || SCRATCH.iter().any(|scratch| name.ends_with(scratch)) {
            continue;
        }
        match entry.symlink_metadata()?.file_type() {
            kind if kind.is_dir() => files(root, &name, found)?,
            kind if kind.is_file() => drop(found.insert(name, entry)),
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ci;

    #[test]
    fn every_patch_applies_and_names_its_layer() {
        let root = ci::root();
        let mutants = all(&root).unwrap();
        assert!(mutants.len() >= 12, "{} planted bugs", mutants.len());
        for mutant in mutants {
            let mut git = Command::new("git");
            git.current_dir(&root).args(["apply", "--check", "--whitespace=nowarn"]).arg(&mutant.patch);
            git.env("GIT_CEILING_DIRECTORIES", &root);
            let output = git.output().unwrap();
            let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success(), "{} does not apply any more: {complaint}", mutant.name);
        }
    }
}
