//! One text file; of a Rust file also its bare code, its string literals, and which parts are tests.
//!
//! The bare code has the same length as the text, with comments and the insides of literals blanked, so that an offset
//! means the same place in both and a word found in it is really code:
//!
//! ```text
//! text   use crate::base; // not "crate::db"     let s = "crate::x";
//! code   use crate::base;                        let s = "        ";
//! ```

use std::ops::Range;

use super::tokens::{Token, closing, tokens};

/// A string literal's inside, as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Literal {
    /// The offset of its opening quote.
    pub at: usize,
    /// What is between the quotes, escapes unresolved.
    pub text: String,
}

/// One text file of the project.
#[derive(Clone, Debug)]
pub struct Source {
    /// Its path from the project's root, with `/`.
    pub path: String,
    /// What it holds.
    pub text: String,
    /// A Rust file's text with comments and the insides of literals blanked; of other files empty.
    pub code: String,
    /// A Rust file's string literals.
    pub literals: Vec<Literal>,
    /// The parts of `code` that only tests compile.
    pub tests: Vec<Range<usize>>,
    /// Modules that only tests compile and whose text is elsewhere: name, and the path attribute if there is one.
    pub test_modules: Vec<(String, Option<String>)>,
}

impl Source {
    /// Reads the structure of a file's text.
    pub fn new(path: &str, text: &str) -> Source {
        let mut source = Source {
            path: path.to_owned(),
            text: text.to_owned(),
            code: String::new(),
            literals: Vec::new(),
            tests: Vec::new(),
            test_modules: Vec::new(),
        };
        if source.is_rust() {
            (source.code, source.literals) = mask(text);
            source.find_tests();
        }
        source
    }

    /// True for a Rust file.
    pub fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// The line of an offset, from 1.
    pub fn line(&self, at: usize) -> usize {
        1 + self.text.as_bytes().iter().take(at).filter(|&&b| b == b'\n').count()
    }

    /// True if only tests compile what is at this offset.
    pub fn in_tests(&self, at: usize) -> bool {
        self.tests.iter().any(|range| range.contains(&at))
    }

    /// The tokens that are compiled outside of tests too.
    pub fn shipped_tokens(&self) -> Vec<Token<'_>> {
        tokens(&self.code).into_iter().filter(|token| !self.in_tests(token.at)).collect()
    }

    fn find_tests(&mut self) {
        let all = tokens(&self.code);
        let (mut ranges, mut modules) = (Vec::new(), Vec::new());
        let mut i = 0;
        while i < all.len() {
            let inner = all[i].text == "#" && all.get(i + 1).is_some_and(|t| t.text == "!");
            let Some(end) = test_attribute(&all, i, inner) else {
                i += 1;
                continue;
            };
            if inner {
                ranges.push(0..self.code.len());
                break;
            }
            let last = item_end(&all, end + 1);
            if let Some(module) = self.module_elsewhere(&all[end + 1..=last]) {
                modules.push(module);
            }
            ranges.push(all[i].at..all[last].at + all[last].text.len());
            i = last + 1;
        }
        (self.tests, self.test_modules) = (ranges, modules);
    }

    /// The name and path of `#[path = "…"] mod name;`.
    fn module_elsewhere(&self, item: &[Token<'_>]) -> Option<(String, Option<String>)> {
        let i = item.iter().position(|t| t.text == "mod")?;
        let name = item.get(i + 1)?.text.to_owned();
        if item.get(i + 2)?.text != ";" {
            return None;
        }
        let named = item.windows(2).any(|w| w[0].text == "path" && w[1].text == "=");
        let (from, to) = (item[0].at, item[i].at);
        let path = self.literals.iter().find(|l| named && (from..to).contains(&l.at)).map(|l| l.text.clone());
        Some((name, path))
    }
}

/// If a `#[cfg(test)]` or `#[cfg(all(test, …))]` starts at token `i`, its last token.
fn test_attribute(all: &[Token<'_>], i: usize, inner: bool) -> Option<usize> {
    let open = i + 1 + usize::from(inner);
    if all[i].text != "#" || all.get(open)?.text != "[" {
        return None;
    }
    let words: Vec<&str> = all[open + 1..].iter().take(5).map(|t| t.text).collect();
    let is_test =
        words.starts_with(&["cfg", "(", "test", ")"]) || words.starts_with(&["cfg", "(", "all", "(", "test"]);
    is_test.then(|| closing(all, open))
}

/// The last token of the item, field or statement that starts at token `start`, attributes included.
fn item_end(all: &[Token<'_>], start: usize) -> usize {
    const ITEMS: [&str; 11] =
        ["fn", "mod", "use", "impl", "struct", "enum", "const", "static", "type", "trait", "macro_rules"];
    let last = all.len() - 1;
    let mut i = start;
    while all.get(i).is_some_and(|t| t.text == "#") {
        i = closing(all, i + 1) + 1;
    }
    let mut is_item = false;
    while i <= last {
        match all[i].text {
            ";" => return i,
            "," if !is_item => return i,
            "{" => return closing(all, i),
            "}" => return i - 1,
            "(" | "[" => i = closing(all, i),
            word => is_item |= ITEMS.contains(&word),
        }
        i += 1;
    }
    last
}

/// The bare code and the string literals of a Rust text.
fn mask(text: &str) -> (String, Vec<Literal>) {
    let bytes = text.as_bytes();
    let mut code = Vec::with_capacity(bytes.len());
    let mut literals = Vec::new();
    let mut i = 0;
    while i < bytes.len() {
        let rest = &bytes[i..];
        let after_word = i > 0 && is_word(bytes[i - 1]);
        let blanked = if rest.starts_with(b"//") {
            Some(0..rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len()))
        } else if rest.starts_with(b"/*") {
            Some(0..block_comment(rest))
        } else if let Some(inside) = string_literal(rest, after_word) {
            let inner = text.get(i + inside.start..i + inside.end).unwrap_or_default().to_owned();
            literals.push(Literal { at: i + inside.start - 1, text: inner });
            Some(inside)
        } else {
            char_literal(rest).map(|len| 1..len - 1)
        };
        match blanked {
            Some(Range { start, end }) => {
                code.extend_from_slice(&rest[..start]);
                code.extend(rest[start..end].iter().map(|&b| if b == b'\n' { b } else { b' ' }));
                i += end;
                // A literal's closing quote must not be taken for an opening one.
                if start > 0 && i < bytes.len() {
                    code.push(bytes[i]);
                    i += 1;
                }
            }
            None => {
                code.push(if rest[0].is_ascii() { rest[0] } else { b' ' });
                i += 1;
            }
        }
    }
    (String::from_utf8_lossy(&code).into_owned(), literals)
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// The length of the block comment, which may hold others.
fn block_comment(rest: &[u8]) -> usize {
    let (mut depth, mut i) = (0, 0);
    while i < rest.len() {
        if rest[i..].starts_with(b"/*") {
            depth += 1;
            i += 2;
        } else if rest[i..].starts_with(b"*/") {
            depth -= 1;
            i += 2;
            if depth == 0 {
                return i;
            }
        } else {
            i += 1;
        }
    }
    rest.len()
}

/// Where the inside of the string literal that starts here lies: `"…"`, `b"…"`, `r#"…"#` and so on.
fn string_literal(rest: &[u8], after_word: bool) -> Option<Range<usize>> {
    let prefix = rest.iter().take_while(|b| b"brc".contains(b)).count();
    if prefix > 2 || (prefix > 0 && after_word) {
        return None;
    }
    let raw = rest[..prefix].contains(&b'r');
    let hashes = if raw { rest[prefix..].iter().take_while(|&&b| b == b'#').count() } else { 0 };
    let start = prefix + hashes + 1;
    if rest.get(start - 1) != Some(&b'"') {
        return None;
    }
    let mut i = start;
    while i < rest.len() {
        match rest[i] {
            b'\\' if !raw => i += 1,
            b'"' if rest[i + 1..].iter().take(hashes).filter(|&&b| b == b'#').count() == hashes => break,
            _ => {}
        }
        i += 1;
    }
    Some(start..i.min(rest.len()))
}

/// The length of the character literal that starts here; a lifetime is none.
fn char_literal(rest: &[u8]) -> Option<usize> {
    if rest.first() != Some(&b'\'') {
        return None;
    }
    if rest.get(1) == Some(&b'\\') {
        return rest.iter().skip(3).position(|&b| b == b'\'').map(|i| i + 4);
    }
    let width = match rest.get(1)? {
        b if b.is_ascii() => 1,
        b if *b >= 0xf0 => 4,
        b if *b >= 0xe0 => 3,
        _ => 2,
    };
    (rest.get(1 + width) == Some(&b'\'')).then_some(width + 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_blanked_and_offsets_stay() {
        for (text, code) in [
            ("a // b\nc", "a     \nc"),
            ("a /* x /* y */ z */ b", "a                   b"),
            (r#"f("a\"b", 'x', '"', '\'')"#, r#"f("    ", ' ', ' ', '  ')"#),
            ("r#\"a\"b\"# fn r#use", "r#\"   \"# fn r#use"),
            ("fn f<'a>(x: &'a str)", "fn f<'a>(x: &'a str)"),
            ("b'x' b\"yz\" c", "b' ' b\"  \" c"),
            ("'ä' x", "'  ' x"),
            ("'\\u{1f}' x", "'      ' x"),
            ("\"open", "\"    "),
        ] {
            assert_eq!(mask(text).0, code, "{text}");
        }
    }

    #[test]
    fn test_items_are_found() {
        let check = |text: &str, shipped: &str| {
            let source = Source::new("x.rs", text);
            let words: Vec<&str> = source.shipped_tokens().iter().map(|t| t.text).collect();
            assert_eq!(words.join(" "), shipped, "{text}");
        };
        check("fn a() {} #[cfg(test)] mod tests { fn b() {} } fn c() {}", "fn a ( ) { } fn c ( ) { }");
        check("#[cfg(test)] fn f<A, B>(x: [u8; 4]) { } struct S;", "struct S ;");
        check("struct S { #[cfg(test)] a: Vec<u8>, b: u8 }", "struct S { b : u8 }");
        check("#[cfg(all(test, unix))] use a::b; use c;", "use c ;");
        check(
            "#[cfg(any(test, feature = \"testing\"))] mod m;",
            "# [ cfg ( any ( test , feature = \" \" ) ) ] mod m ;",
        );
        check("#![cfg(test)] mod m;", "");
    }

    #[test]
    fn test_modules_elsewhere_are_named() {
        let source =
            Source::new("x.rs", "#[cfg(test)]\n#[path = \"x_tests.rs\"]\nmod tests;\n#[cfg(test)] mod help;");
        let expected = vec![("tests".to_owned(), Some("x_tests.rs".to_owned())), ("help".to_owned(), None)];
        assert_eq!(source.test_modules, expected);
    }
}
