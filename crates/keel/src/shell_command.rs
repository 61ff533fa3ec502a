//! The shell's language: one command a line, tokens apart by blanks, any bytes by escapes (`crate::escape`).

use evenkeel::Error;

use crate::escape::{escaped, unescape};

/// A line that was understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// `put K V`
    Put(Vec<u8>, Vec<u8>),
    /// `get K`
    Get(Vec<u8>),
    /// `del K`
    Del(Vec<u8>),
    /// `delrange A B`
    DelRange(Vec<u8>, Vec<u8>),
    /// `batch`
    Batch,
    /// `commit`
    Commit,
    /// `scan [FROM [TO]]`, `rscan [FROM [TO]]`
    Scan {
        /// From this key on.
        from: Option<Vec<u8>>,
        /// Up to this key, without it.
        to: Option<Vec<u8>>,
        /// Downward.
        reverse: bool,
    },
    /// `snapshot NAME`
    Snapshot(String),
    /// `get@NAME K`
    GetAt(String, Vec<u8>),
    /// `scan@NAME [FROM [TO]]`
    ScanAt(String, Option<Vec<u8>>, Option<Vec<u8>>),
    /// `release NAME`
    Release(String),
    /// `flush`
    Flush,
    /// `pause`
    Pause,
    /// `resume`
    Resume,
    /// `compact [A B]`
    Compact(Option<Vec<u8>>, Option<Vec<u8>>),
    /// `strategy NAME`, or a strategy's text
    Strategy(String),
    /// `schedule NAME`
    Schedule(String),
    /// `option NAME VALUE`
    Option(String, String),
    /// `use KEYSPACE`
    Use(String),
    /// `stats`
    Stats,
    /// `verify`
    Verify,
    /// `sleep MS`
    Sleep(u64),
    /// `quit`
    Quit,
}

const KNOWN: &str = "put get del delrange batch commit scan rscan snapshot get@NAME scan@NAME release flush pause resume compact strategy \
                     schedule option use stats verify sleep quit";

/// Understands a line; `None` for one with nothing on it.
pub fn parse(line: &[u8]) -> Result<Option<Command>, Error> {
    let line = line.trim_ascii();
    let mut words = line.split(|b| matches!(b, b' ' | b'\t')).filter(|word| !word.is_empty());
    let Some(verb) = words.next() else { return Ok(None) };
    let words: Vec<&[u8]> = words.collect();
    let verb = text(verb)?;
    let (verb, at) = match verb.split_once('@') {
        Some((verb, name)) => (verb, Some(name)),
        None => (verb.as_str(), None),
    };
    let command = match (verb, at, words.as_slice()) {
        ("put", None, [key, value]) => Command::Put(token(key)?, token(value)?),
        ("get", None, [key]) => Command::Get(token(key)?),
        ("del", None, [key]) => Command::Del(token(key)?),
        ("delrange", None, [from, to]) => Command::DelRange(token(from)?, token(to)?),
        ("batch", None, []) => Command::Batch,
        ("commit", None, []) => Command::Commit,
        ("scan" | "rscan", None, [] | [_] | [_, _]) => {
            let (from, to) = bounds(&words)?;
            Command::Scan { from, to, reverse: verb == "rscan" }
        }
        ("snapshot", None, [name]) => Command::Snapshot(text(name)?),
        ("get", Some(name), [key]) if !name.is_empty() => Command::GetAt(name.to_owned(), token(key)?),
        ("scan", Some(name), [] | [_] | [_, _]) if !name.is_empty() => {
            let (from, to) = bounds(&words)?;
            Command::ScanAt(name.to_owned(), from, to)
        }
        ("release", None, [name]) => Command::Release(text(name)?),
        ("flush", None, []) => Command::Flush,
        ("pause", None, []) => Command::Pause,
        ("resume", None, []) => Command::Resume,
        ("compact", None, [] | [_, _]) => {
            let (from, to) = bounds(&words)?;
            Command::Compact(from, to)
        }
        // A strategy's text has blanks in it, so it is the rest of the line.
        ("strategy", None, [_, ..]) => Command::Strategy(text(line["strategy".len()..].trim_ascii())?),
        ("schedule", None, [name]) => Command::Schedule(text(name)?),
        ("option", None, [name, value]) => Command::Option(text(name)?, text(value)?),
        ("use", None, [name]) => Command::Use(text(&token(name)?)?),
        ("stats", None, []) => Command::Stats,
        ("verify", None, []) => Command::Verify,
        ("sleep", None, [millis]) => Command::Sleep(
            text(millis)?
                .parse()
                .map_err(|_| invalid("sleep takes milliseconds, for instance `sleep 100`"))?,
        ),
        ("quit", None, []) => Command::Quit,
        _ => return Err(wrong(verb, at)),
    };
    Ok(Some(command))
}

/// A verb that is unknown, or known but not like this.
fn wrong(verb: &str, at: Option<&str>) -> Error {
    let form = match (verb, at) {
        ("put", None) => "put K V",
        ("get", None) => "get K",
        ("del", None) => "del K",
        ("delrange", None) => "delrange A B",
        ("get", Some(_)) => "get@NAME K",
        ("scan", Some(_)) => "scan@NAME [FROM [TO]]",
        ("scan" | "rscan", None) => "scan [FROM [TO]]",
        ("snapshot", None) => "snapshot NAME",
        ("release", None) => "release NAME",
        ("compact", None) => "compact [A B]",
        ("strategy", None) => "strategy NAME",
        ("schedule", None) => "schedule NAME",
        ("option", None) => "option NAME VALUE",
        ("use", None) => "use KEYSPACE",
        ("sleep", None) => "sleep MS",
        ("batch" | "commit" | "flush" | "pause" | "resume" | "stats" | "verify" | "quit", None) => {
            return invalid(&format!("`{verb}` takes nothing after it"));
        }
        _ => {
            let verb = escaped(verb.as_bytes());
            return invalid(&format!("there is no command `{verb}`; there are: {KNOWN}"));
        }
    };
    invalid(&format!("the command is `{form}`; blanks inside a token are written \\x20, an empty one \\e"))
}

fn invalid(what: &str) -> Error {
    Error::InvalidArgument(what.to_owned())
}

fn token(word: &[u8]) -> Result<Vec<u8>, Error> {
    unescape(word).map_err(|what| invalid(&format!("`{}`: {what}", String::from_utf8_lossy(word))))
}

fn text(word: &[u8]) -> Result<String, Error> {
    String::from_utf8(word.to_vec()).map_err(|_| invalid(&format!("`{}` is no text", escaped(word))))
}

fn bounds(words: &[&[u8]]) -> Result<(Option<Vec<u8>>, Option<Vec<u8>>), Error> {
    let bound = |i: usize| words.get(i).map(|word| token(word)).transpose();
    Ok((bound(0)?, bound(1)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ok(line: &str) -> Command {
        parse(line.as_bytes()).unwrap().unwrap()
    }

    #[test]
    fn every_command_is_understood() {
        let b = |s: &str| s.as_bytes().to_vec();
        for (line, command) in [
            ("put a b", Command::Put(b("a"), b("b"))),
            ("  put\ta\\x20b   \\e\r", Command::Put(b("a b"), b(""))),
            ("get a", Command::Get(b("a"))),
            ("del \\\\", Command::Del(b("\\"))),
            ("delrange \\e b\\xff", Command::DelRange(b(""), vec![b'b', 0xff])),
            ("batch", Command::Batch),
            ("commit", Command::Commit),
            ("scan", Command::Scan { from: None, to: None, reverse: false }),
            ("scan a", Command::Scan { from: Some(b("a")), to: None, reverse: false }),
            ("rscan \\e z", Command::Scan { from: Some(b("")), to: Some(b("z")), reverse: true }),
            ("snapshot s", Command::Snapshot("s".to_owned())),
            ("get@s a", Command::GetAt("s".to_owned(), b("a"))),
            ("scan@s a b", Command::ScanAt("s".to_owned(), Some(b("a")), Some(b("b")))),
            ("release s", Command::Release("s".to_owned())),
            ("flush", Command::Flush),
            ("pause", Command::Pause),
            ("resume", Command::Resume),
            ("compact", Command::Compact(None, None)),
            ("compact a b", Command::Compact(Some(b("a")), Some(b("b")))),
            ("strategy tier", Command::Strategy("tier".to_owned())),
            ("strategy  when=runs how=runs:4;  L0: much=runs ", {
                Command::Strategy("when=runs how=runs:4;  L0: much=runs".to_owned())
            }),
            ("schedule unlimited", Command::Schedule("unlimited".to_owned())),
            ("use other", Command::Use("other".to_owned())),
            ("stats", Command::Stats),
            ("verify", Command::Verify),
            ("sleep 20", Command::Sleep(20)),
            ("quit", Command::Quit),
        ] {
            assert_eq!(ok(line), command, "{line}");
        }
        assert_eq!(parse(b" \t ").unwrap(), None);
    }

    #[test]
    fn wrong_lines_say_what_is_right() {
        for (line, part) in [
            ("put a", "put K V"),
            ("put a b c", "put K V"),
            ("get", "get K"),
            ("get@ a", "get@NAME K"),
            ("scan a b c", "scan [FROM [TO]]"),
            ("compact a", "compact [A B]"),
            ("commit now", "nothing after it"),
            ("sleep long", "milliseconds"),
            ("PUT a b", "no command `PUT`"),
            ("put@x a b", "no command `put`"),
            ("get a\\", "backslash"),
            ("strategy", "strategy NAME"),
            ("delrange a", "delrange A B"),
        ] {
            let error = parse(line.as_bytes()).unwrap_err();
            assert_eq!(error.kind(), "InvalidArgument", "{line}");
            assert!(error.to_string().contains(part), "{line}: {error}");
        }
        assert!(parse(b"\xff").is_err());
    }
}
