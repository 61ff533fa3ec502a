//! The engine is a stack of floors and every import points down, to the file that defines.
//!
//! ```text
//! 11 db ─► 10 options ─► 9 scheduler ─► 8 execution ─► 7 merge ─► 6 compaction ─► 5 version ─► 4 table, write
//!                                                                        ─► 3 storage, hotness ─► 2 observe ─► 1 base
//! ```
//!
//! A folder imports only lower floors, some only a part of them (`FLOORS`); inside a folder the imports between files
//! make no circle. The uppermost floor is divided into rooms, each of which imports only those before it (`ROOMS`).
//! `lib.rs` is the face, above everything. Code that only tests compile is free.

use std::collections::{BTreeMap, BTreeSet};

use super::finding::Finding;
use super::imports::{Import, Modules};
use super::source::Source;
use super::tokens::tokens;

/// Where the engine's sources lie.
pub const ENGINE: &str = "crates/engine/src/";

/// One folder of the engine, or a file beside the folders.
struct Floor {
    name: &'static str,
    number: u32,
    /// If not empty, the only modules it may import besides its own.
    only: &'static [&'static str],
    /// Modules it may not import although they are below it.
    never: &'static [&'static str],
    /// Words of the standard library that it has no use for: it waits for nothing, or keeps no state.
    without: &'static [&'static str],
}

const fn floor(name: &'static str, number: u32) -> Floor {
    Floor { name, number, only: &[], never: &[], without: &[] }
}

/// The floors, bottom-up. What is pure says so by what it may not use.
const FLOORS: [Floor; 13] = [
    floor("base", 1),
    floor("observe", 2),
    floor("storage", 3),
    floor("hotness", 3),
    floor("table", 4),
    floor("write", 4),
    floor("version", 5),
    Floor {
        only: &["base", "version", "hotness", "table::meta", "table::key_sample"],
        never: &["base::clock"],
        without: &["Mutex", "RwLock", "Condvar", "Instant", "SystemTime", "JoinHandle", "spawn", "sleep"],
        ..floor("compaction", 6)
    },
    floor("merge", 7),
    Floor {
        without: &["Condvar", "Instant", "SystemTime", "JoinHandle", "spawn", "sleep", "park", "recv"],
        ..floor("execution", 8)
    },
    Floor { only: &["base", "observe", "execution::rate_limiter"], ..floor("scheduler", 9) },
    floor("options", 10),
    floor("db", 11),
];

/// The folder that is divided.
const DIVIDED: &str = "db";

/// Its rooms, bottom-up. Files beside them are its face, which lies above all that are shipped.
const ROOMS: [&str; 12] = [
    "files",
    "store",
    "reading",
    "jobs",
    "settings",
    "recovery",
    "reports",
    "background",
    "writing",
    "opening",
    FACE,
    "testing",
];

const FACE: &str = "the face";

/// The room of a module of the divided folder, and how high it lies.
fn room(module: &[String]) -> (usize, &str) {
    let name = module.get(1).map_or(FACE, String::as_str);
    let known = ROOMS.iter().position(|room| *room == name);
    known.or_else(|| ROOMS.iter().position(|room| *room == FACE)).map_or((0, FACE), |i| (i, ROOMS[i]))
}

/// Everything about the engine's floors that is not tidy. `is_test` tells files that only tests compile.
pub fn check(sources: &[Source], is_test: &dyn Fn(&str) -> bool) -> Vec<Finding> {
    let modules = Modules::new(sources, ENGINE);
    let mut findings = Vec::new();
    let mut graph: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (module, source) in modules.iter().filter(|(_, s)| !is_test(&s.path)) {
        if is_folder_face(source) {
            findings.extend(types_in_face(source));
        }
        let Some(folder) = module.first() else { continue };
        let Some(from) = FLOORS.iter().find(|f| f.name == folder) else {
            findings.push(Finding::new(
                &source.path,
                1,
                format!("`{folder}` has no floor: place it in the table of {}", file!()),
            ));
            continue;
        };
        findings.extend(words_without(from, source));
        for import in modules.imports(module, source) {
            let Some((target, file)) = modules.file_of(&import.path) else { continue };
            if file.path == source.path {
                continue;
            }
            if let Some(message) = judge(from, module, &import, target, file) {
                findings.push(Finding::new(&source.path, import.line, message));
            } else if target.first() == Some(folder) && !is_folder_face(source) {
                graph.entry(&source.path).or_default().insert(&file.path);
            }
        }
    }
    findings.extend(circles(&graph));
    findings
}

/// What is wrong with an import by `module` of `file`, whose module path is `target`.
fn judge(
    from: &Floor,
    module: &[String],
    import: &Import,
    target: &[String],
    file: &Source,
) -> Option<String> {
    let path = import.path.join("::");
    let Some(folder) = target.first() else {
        return Some(format!("`crate::{path}` goes through lib.rs: import from the file that defines it"));
    };
    if is_folder_face(file) {
        return Some(format!(
            "`crate::{path}` goes through {}/mod.rs: import from the file that defines it",
            target.join("/")
        ));
    }
    if folder == from.name {
        let ((at, here), (to, there)) = (room(module), room(target));
        return (folder == DIVIDED && to > at).then(|| {
            format!(
                "{folder}: {here} imports {there}: a room imports only those before it, see ROOMS in {}",
                file!()
            )
        });
    }
    let to = FLOORS.iter().find(|f| f.name == folder)?;
    if to.number >= from.number {
        let (a, b) = (from.number, to.number);
        return Some(format!(
            "{} (floor {a}) imports {folder} (floor {b}): a folder imports only lower floors",
            from.name
        ));
    }
    let module = target.join("::");
    let is_in = |list: &[&str]| list.iter().any(|m| module == *m || module.starts_with(&format!("{m}::")));
    if (!from.only.is_empty() && !is_in(from.only)) || is_in(from.never) {
        let but =
            if from.never.is_empty() { String::new() } else { format!(" without {}", from.never.join(", ")) };
        return Some(format!("{} may import only {}{but}: not {module}", from.name, from.only.join(", ")));
    }
    None
}

/// Uses of what the floor has no use for.
fn words_without(floor: &Floor, source: &Source) -> Vec<Finding> {
    let tokens = source.shipped_tokens();
    let found = tokens.iter().filter(|t| floor.without.contains(&t.text));
    let message = |word| {
        format!("{} has no `{word}`: what waits or keeps time is db's and the scheduler's", floor.name)
    };
    found.map(|t| Finding::new(&source.path, source.line(t.at), message(t.text))).collect()
}

fn is_folder_face(source: &Source) -> bool {
    source.path.ends_with("/mod.rs")
}

/// A `mod.rs` only declares modules: what it defined, its children would import from above.
fn types_in_face(source: &Source) -> Vec<Finding> {
    const DEFINES: [&str; 10] =
        ["struct", "enum", "union", "trait", "type", "fn", "impl", "const", "static", "macro_rules"];
    let tokens = source.shipped_tokens();
    let found = tokens.iter().find(|t| DEFINES.contains(&t.text));
    found
        .map(|t| {
            let message =
                format!("a mod.rs only declares modules: move this `{}` into a file of its own", t.text);
            Finding::new(&source.path, source.line(t.at), message)
        })
        .into_iter()
        .collect()
}

/// One finding for each circle that a walk along the imports runs into.
fn circles<'a>(graph: &BTreeMap<&'a str, BTreeSet<&'a str>>) -> Vec<Finding> {
    let mut done = BTreeSet::new();
    let mut findings = Vec::new();
    for start in graph.keys() {
        walk(graph, start, &mut Vec::new(), &mut done, &mut findings);
    }
    findings
}

fn walk<'a>(
    graph: &BTreeMap<&'a str, BTreeSet<&'a str>>,
    at: &'a str,
    path: &mut Vec<&'a str>,
    done: &mut BTreeSet<&'a str>,
    findings: &mut Vec<Finding>,
) {
    if let Some(i) = path.iter().position(|p| *p == at) {
        let names: Vec<&str> =
            path[i..].iter().chain([&at]).map(|p| p.rsplit('/').next().unwrap_or(p)).collect();
        let message = format!("imports in a circle: {}", names.join(" -> "));
        findings.push(Finding::new(path[i], 1, message));
        return;
    }
    if done.contains(at) {
        return;
    }
    path.push(at);
    for next in graph.get(at).into_iter().flatten() {
        walk(graph, next, path, done, findings);
    }
    path.pop();
    done.insert(at);
}

/// Files of a crate's `src/` that no `mod` brings in: they look alive and never compile.
pub fn orphans(sources: &[Source]) -> Vec<Finding> {
    let declared: BTreeSet<String> =
        sources.iter().filter(|s| s.is_rust()).flat_map(declared_files).collect();
    let is_root = |path: &str| {
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        matches!(name, "lib.rs" | "main.rs" | "build.rs")
            || ["/src/bin", "/tests", "/benches", "/examples", "/fuzz_targets"]
                .iter()
                .any(|f| folder.ends_with(f))
    };
    let lost = sources.iter().filter(|s| s.is_rust() && !is_root(&s.path) && !declared.contains(&s.path));
    lost.map(|s| Finding::new(&s.path, 1, "no `mod` brings this file in, so it is never compiled")).collect()
}

/// The files that a file's `mod name;` may mean.
fn declared_files(source: &Source) -> Vec<String> {
    let (folder, name) = source.path.rsplit_once('/').unwrap_or(("", &source.path));
    let below = match name {
        "mod.rs" | "lib.rs" | "main.rs" => folder.to_owned(),
        _ if folder.ends_with("/tests") => folder.to_owned(),
        _ => source.path.trim_end_matches(".rs").to_owned(),
    };
    let all = tokens(&source.code);
    let plain = all.windows(3).filter(|w| w[0].text == "mod" && w[2].text == ";");
    let by_name =
        plain.flat_map(|w| [format!("{below}/{}.rs", w[1].text), format!("{below}/{}/mod.rs", w[1].text)]);
    let by_path =
        source.literals.iter().filter(|l| l.text.ends_with(".rs")).map(|l| format!("{folder}/{}", l.text));
    by_name.chain(by_path).collect()
}
