//! What a layer prints: its one line of figures, how far it is, the seed that failed.
//!
//! ```text
//! crash points=6600 opens=… lost=0 seed=1        PROGRESS 12 130        FAILED crash seed=17 what was done then
//! ```

/// A line that means something here.
#[derive(Debug, PartialEq, Eq)]
pub enum Line<'a> {
    /// So much is done, of so much.
    Progress(u64, u64),
    /// Its figures, the layer's name included.
    Figures(&'a str),
    /// It failed with this seed, doing that.
    Failed {
        /// The seed.
        seed: &'a str,
        /// What it did then.
        doing: &'a str,
    },
    /// How many tests of a binary passed.
    Passed(u64),
    /// Something else.
    Other,
}

/// What a line that the layer `name` prints means.
pub fn read<'a>(name: &str, line: &'a str) -> Line<'a> {
    let known = figures(name, line)
        .or_else(|| failed(name, line))
        .or_else(|| progress(line))
        .or_else(|| passed(line).map(Line::Passed));
    known.unwrap_or(Line::Other)
}

fn figures<'a>(name: &str, line: &'a str) -> Option<Line<'a>> {
    let rest = line.strip_prefix(name)?.strip_prefix(' ')?;
    let all_are_figures = rest.split_whitespace().all(|word| word.contains('='));
    (all_are_figures && rest.contains("seed=")).then_some(Line::Figures(line))
}

fn failed<'a>(name: &str, line: &'a str) -> Option<Line<'a>> {
    let rest = line.strip_prefix("FAILED ")?.strip_prefix(name)?.strip_prefix(" seed=")?;
    let (seed, doing) = rest.split_once(' ').unwrap_or((rest, ""));
    Some(Line::Failed { seed, doing })
}

fn progress(line: &str) -> Option<Line<'_>> {
    let (done, all) = line.strip_prefix("PROGRESS ")?.split_once(' ')?;
    Some(Line::Progress(done.parse().ok()?, all.parse().ok()?))
}

/// `test result: ok. 12 passed; …`
fn passed(line: &str) -> Option<u64> {
    line.strip_prefix("test result: ")?.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_told_apart() {
        assert_eq!(
            read("crash", "crash points=3 lost=0 seed=1"),
            Line::Figures("crash points=3 lost=0 seed=1")
        );
        assert_eq!(read("crash", "crash sweep of three points seed=1"), Line::Other);
        assert_eq!(read("crash", "crash points=3"), Line::Other);
        assert_eq!(read("crash", "PROGRESS 3 10"), Line::Progress(3, 10));
        let failed = Line::Failed { seed: "0x11", doing: "call 3, KeepAll" };
        assert_eq!(read("crash", "FAILED crash seed=0x11 call 3, KeepAll"), failed);
        assert_eq!(read("fault", "FAILED crash seed=0x11 call 3, KeepAll"), Line::Other);
        assert_eq!(read("loom", "test result: ok. 7 passed; 0 failed; 0 ignored"), Line::Passed(7));
    }
}
