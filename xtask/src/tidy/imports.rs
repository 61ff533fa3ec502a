//! Which files of its own crate a file names, by `use` or by a path in the middle of code.
//!
//! Every path is made absolute, from the crate's root: in `version/run.rs`, both `super::level::Level` and
//! `crate::version::level::Level` are `[version, level, Level]`.

use std::collections::BTreeMap;

use super::source::Source;
use super::tokens::Token;

/// One path into the own crate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Import {
    /// The line it stands on.
    pub line: usize,
    /// Its segments from the crate's root.
    pub path: Vec<String>,
}

/// The files of one crate by module path: `[base, key]` is `base/key.rs`, `[base]` is `base/mod.rs`, `[]` is `lib.rs`.
#[derive(Debug, Default)]
pub struct Modules<'a> {
    files: BTreeMap<Vec<String>, &'a Source>,
}

impl<'a> Modules<'a> {
    /// The modules of the crate whose sources lie in `src`, for instance `crates/engine/src/`.
    pub fn new(sources: &'a [Source], src: &str) -> Modules<'a> {
        let files =
            sources.iter().filter_map(|s| Some((module_path(s.path.strip_prefix(src)?)?, s))).collect();
        Modules { files }
    }

    /// Every module with its path.
    pub fn iter(&self) -> impl Iterator<Item = (&[String], &'a Source)> {
        self.files.iter().map(|(path, source)| (&path[..], *source))
    }

    /// The file that a path leads to: that of its longest head that is a module.
    pub fn file_of(&self, path: &[String]) -> Option<(&[String], &'a Source)> {
        (0..=path.len()).rev().find_map(|n| self.files.get_key_value(&path[..n])).map(|(p, s)| (&p[..], *s))
    }

    /// The paths into the own crate that the shipped code of a module names.
    pub fn imports(&self, module: &[String], source: &Source) -> Vec<Import> {
        let tokens = source.shipped_tokens();
        let mut reader = Reader {
            modules: self,
            source,
            tokens: &tokens,
            at: module.to_vec(),
            inline: Vec::new(),
            out: Vec::new(),
        };
        reader.read();
        reader.out
    }
}

/// The module path of a file, seen from its crate's `src/`.
fn module_path(path: &str) -> Option<Vec<String>> {
    let mut parts: Vec<String> = path.strip_suffix(".rs")?.split('/').map(str::to_owned).collect();
    let is_face =
        parts.last().is_some_and(|p| p == "mod") || matches!(&parts[..], [p] if p == "lib" || p == "main");
    if is_face {
        parts.pop();
    }
    Some(parts)
}

/// Walks the tokens of one file and collects the paths.
struct Reader<'r> {
    modules: &'r Modules<'r>,
    source: &'r Source,
    tokens: &'r [Token<'r>],
    /// The module whose code is being read: the file's, and modules written inside it.
    at: Vec<String>,
    /// The depths of braces at which modules written inside the file end.
    inline: Vec<usize>,
    out: Vec<Import>,
}

impl Reader<'_> {
    fn text(&self, i: usize) -> &str {
        self.tokens.get(i).map_or("", |token| token.text)
    }

    fn read(&mut self) {
        let (mut i, mut depth) = (0, 0);
        while i < self.tokens.len() {
            match self.text(i) {
                "{" => depth += 1,
                "}" => {
                    depth -= 1;
                    if self.inline.last() == Some(&depth) {
                        self.inline.pop();
                        self.at.pop();
                    }
                }
                "mod" if self.text(i + 2) == "{" => {
                    self.at.push(self.text(i + 1).to_owned());
                    self.inline.push(depth);
                    depth += 1;
                    i += 2;
                }
                // `use<'a>` captures lifetimes and imports nothing.
                "use" if self.text(i + 1) != "<" => {
                    i = self.tree(i + 1, &[]);
                    continue;
                }
                "crate" | "super" | "self" if self.text(i + 1) == "::" && !self.continues(i) => {
                    i = self.plain_path(i);
                    continue;
                }
                _ => {}
            }
            i += 1;
        }
    }

    /// True if token `i` is not a path's head: it continues one, or says how far something is visible.
    fn continues(&self, i: usize) -> bool {
        i > 0 && matches!(self.text(i - 1), "::" | "in")
    }

    /// Reads one branch of a `use` from token `i`; returns the token behind it.
    fn tree(&mut self, mut i: usize, head: &[String]) -> usize {
        let mut path = head.to_vec();
        let start = i;
        loop {
            match self.text(i) {
                "{" => {
                    i += 1;
                    while i < self.tokens.len() && self.text(i) != "}" {
                        i = self.tree(i, &path);
                        if self.text(i) == "," {
                            i += 1;
                        }
                    }
                    return i + 1;
                }
                "::" => {
                    // A leading `::` names another crate.
                    if path.is_empty() {
                        path.push(String::new());
                    }
                    i += 1;
                }
                ";" | "," | "}" | "" => break,
                "as" => i += 2,
                word => {
                    path.push(word.to_owned());
                    i += 1;
                }
            }
        }
        self.push(start, &path, true);
        i
    }

    /// Reads `crate::a::b` in the middle of code; returns the token behind it.
    fn plain_path(&mut self, start: usize) -> usize {
        let mut path = vec![self.text(start).to_owned()];
        let mut i = start + 1;
        while self.text(i) == "::" && self.text(i + 1).starts_with(|c: char| c.is_alphabetic() || c == '_') {
            path.push(self.text(i + 1).to_owned());
            i += 2;
        }
        self.push(start, &path, false);
        i.max(start + 1)
    }

    /// Keeps the path if it leads into the own crate.
    fn push(&mut self, token: usize, written: &[String], is_use: bool) {
        let mut base = self.at.clone();
        let mut rest = written;
        match rest.first().map(String::as_str) {
            Some("crate") => base.clear(),
            Some("self") => {}
            Some("super") => {
                while rest.first().is_some_and(|s| s == "super") {
                    base.pop();
                    rest = &rest[1..];
                }
            }
            // In a `use`, a bare name may be a module just below this one.
            Some(name) if is_use => {
                base.push(name.to_owned());
                if self.modules.files.contains_key(&base) {
                    base.pop();
                } else {
                    return;
                }
            }
            _ => return,
        }
        let skip = usize::from(rest.first().is_some_and(|s| s == "crate" || s == "self"));
        base.extend(rest[skip..].iter().filter(|s| *s != "self").cloned());
        let line = self.source.line(self.tokens[token].at);
        self.out.push(Import { line, path: base });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, text: &str, expected: &[&str]) {
        let sources = [
            Source::new(path, text),
            Source::new("s/version/mod.rs", ""),
            Source::new("s/version/run.rs", ""),
        ];
        let modules = Modules::new(&sources, "s/");
        let (module, source) =
            modules.iter().find(|(_, s)| s.path == path && s.text == text).expect("it is there");
        let found: Vec<String> = modules.imports(module, source).iter().map(|i| i.path.join("::")).collect();
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn uses_are_read() {
        let path = "s/version/level.rs";
        check(path, "use crate::a::b::C;", &["a::b::C"]);
        check(path, "pub(crate) use crate::{a::{b, c as d}, e::*};", &["a::b", "a::c", "e::*"]);
        check(path, "use super::run::{self, Run};", &["version::run", "version::run::Run"]);
        check(path, "use std::fmt; use ::base::key::Key;", &[]);
        check(path, "fn f() -> impl Sized + use<'a> {}", &[]);
        check(path, "// use crate::db;\nlet x = \"use crate::db\";", &[]);
        check("s/version/extra/mod.rs", "use super::super::x::Y;", &["x::Y"]);
        check("s/lib.rs", "pub use version::run::Run;", &["version::run::Run"]);
    }

    #[test]
    fn paths_in_code_are_read() {
        let path = "s/version/level.rs";
        check(
            path,
            "fn f(x: crate::a::B) { super::run::g::<u8>(self::h) }",
            &["a::B", "version::run::g", "version::level::h"],
        );
        check(path, "pub(in crate::version) fn f() {}", &[]);
        check(path, "pub(crate) fn f(self) { Self::x(); x::crate_::y() }", &[]);
        check(path, "mod inner { use super::X; } use super::Y;", &["version::level::X", "version::Y"]);
        check(path, "#[cfg(test)] mod tests { use crate::db::Db; }", &[]);
    }
}
