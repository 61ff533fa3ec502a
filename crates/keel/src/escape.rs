//! Any bytes as one word of printable ASCII, and back: the shell's tokens, `--escaped`, and JSON.
//!
//! Bytes outside printable ASCII, and blanks, are `\xNN`; a backslash is `\\`; the empty string is `\e`. A word has one
//! printed form; reading is lenient about bytes that need not have been escaped.

use std::fmt::Write as _;

/// Appends the escaped form of `bytes`.
pub fn escape(bytes: &[u8], out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    if bytes.is_empty() {
        out.extend_from_slice(b"\\e");
    }
    for &byte in bytes {
        match byte {
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'!'..=b'~' => out.push(byte),
            _ => out.extend_from_slice(&[
                b'\\',
                b'x',
                HEX[usize::from(byte >> 4)],
                HEX[usize::from(byte & 15)],
            ]),
        }
    }
}

/// The bytes that `token` stands for, or what is wrong with it.
pub fn unescape(token: &[u8]) -> Result<Vec<u8>, String> {
    if token == b"\\e" {
        return Ok(Vec::new());
    }
    let mut out = Vec::with_capacity(token.len());
    let mut rest = token;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        match *rest {
            [b'\\', ref after @ ..] => {
                out.push(b'\\');
                rest = after;
            }
            [b'x', high, low, ref after @ ..] => match (hex(high), hex(low)) {
                (Some(high), Some(low)) => {
                    out.push(high << 4 | low);
                    rest = after;
                }
                _ => return Err("\\x needs two hex digits after it".to_owned()),
            },
            [b'x', ..] => return Err("\\x needs two hex digits after it".to_owned()),
            [b'e', ..] => return Err("\\e stands for the empty string and for nothing else".to_owned()),
            _ => return Err("a backslash is written \\\\".to_owned()),
        }
    }
    Ok(out)
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|d| d as u8)
}

/// The escaped form as a string.
pub fn escaped(bytes: &[u8]) -> String {
    let mut out = Vec::new();
    escape(bytes, &mut out);
    // Escaped bytes are ASCII, so nothing is lost here.
    String::from_utf8_lossy(&out).into_owned()
}

/// A message on one line, whatever it quotes.
pub fn one_line(message: &str) -> String {
    let mut out = String::with_capacity(message.len());
    for c in message.chars() {
        if c.is_control() {
            let _ = write!(out, "\\x{:02x}", u32::from(c));
        } else {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_string_of_two_bytes_comes_back() {
        for pair in 0..=u16::MAX {
            let bytes = pair.to_be_bytes();
            let word = escaped(&bytes);
            assert!(word.bytes().all(|b| b.is_ascii_graphic()), "{word}");
            assert_eq!(unescape(word.as_bytes()).unwrap(), bytes);
        }
        assert_eq!(unescape(b"\\e").unwrap(), b"");
    }

    #[test]
    fn the_forms_are_those_of_the_documentation() {
        let cases: [(&[u8], &str); 6] = [
            (b"", "\\e"),
            (b"plain", "plain"),
            (b"a b\tc", "a\\x20b\\x09c"),
            (b"\\", "\\\\"),
            (b"\\e", "\\\\e"),
            ("é".as_bytes(), "\\xc3\\xa9"),
        ];
        for (bytes, word) in cases {
            assert_eq!(escaped(bytes), word);
            assert_eq!(unescape(word.as_bytes()).unwrap(), bytes);
        }
        assert_eq!(unescape("a\\xC3é".as_bytes()).unwrap(), b"a\xc3\xc3\xa9");
    }

    #[test]
    fn wrong_escapes_are_errors() {
        for word in ["\\", "\\n", "\\x", "\\x1", "\\xg0", "\\x1g", "a\\e", "\\ea"] {
            assert!(unescape(word.as_bytes()).is_err(), "{word}");
        }
    }

    #[test]
    fn messages_stay_on_a_line() {
        assert_eq!(one_line("a\nb\tc — d"), "a\\x0ab\\x09c — d");
    }
}
