//! Words and signs of bare code: as much of Rust's grammar as tidiness needs.

/// A word, `::`, or one other sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token<'a> {
    /// Its offset.
    pub at: usize,
    /// Itself.
    pub text: &'a str,
}

/// The tokens of bare code, in which comments and the insides of literals are blank.
pub fn tokens(code: &str) -> Vec<Token<'_>> {
    let bytes = code.as_bytes();
    let mut out = Vec::new();
    let mut i = 0;
    while i < bytes.len() {
        let start = i;
        if bytes[i].is_ascii_alphanumeric() || bytes[i] == b'_' {
            while i < bytes.len() && (bytes[i].is_ascii_alphanumeric() || bytes[i] == b'_') {
                i += 1;
            }
        } else if bytes[i..].starts_with(b"::") {
            i += 2;
        } else {
            i += 1;
        }
        if !bytes[start].is_ascii_whitespace() {
            out.push(Token { at: start, text: &code[start..i] });
        }
    }
    out
}

/// The token that closes the bracket at token `open`; the last token if none does.
pub fn closing(all: &[Token<'_>], open: usize) -> usize {
    let mut depth = 0;
    for (i, token) in all.iter().enumerate().skip(open) {
        match token.text {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return i;
        }
    }
    all.len().saturating_sub(1)
}
