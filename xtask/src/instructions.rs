//! How many instructions one operation of the engine takes, counted by callgrind and compared with what is recorded.
//!
//! A count is that of a run of `LONG` operations less that of a run of `SHORT` ones, for each operation between: whatever both
//! do once, opening, filling and closing, cancels out. `docs/performance.md` says what moves a count and what does not.

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// The operations that `crates/engine/examples/instructions.rs` does.
const OPERATIONS: [&str; 5] = ["get_hit_memtable", "get_hit_table", "get_miss", "put", "next"];

const SHORT: u64 = 20_000;
const LONG: u64 = 40_000;

/// A count may be so much above the recorded one.
const TOLERANCE_PERCENT: f64 = 3.0;

/// The C library chooses its `memcpy` and `memcmp` by the processor; without these it has the same everywhere. Names that it does
/// not know are ignored.
const SAME_EVERYWHERE: &str = "glibc.cpu.hwcaps=-AVX512VL,-AVX512F,-AVX2,-AVX2_Usable,-AVX_Fast_Unaligned_Load,-ERMS,-FSRM,-SSSE3,-SSE4_1,-SSE4_2";

const HEADER: &str = "\
# Instructions of one operation, counted by callgrind: `cargo xtask instructions` compares with these, and with `--record` writes
# them anew. What is counted: crates/engine/examples/instructions.rs; what moves it: docs/performance.md.
";

/// An operation and its instructions.
pub type Count = (String, f64);

/// Counts of one processor architecture.
#[derive(Clone, Debug, PartialEq)]
pub struct Section {
    /// As Rust calls it.
    pub architecture: String,
    /// The compiler that made them.
    pub compiler: String,
    /// By operation.
    pub counts: Vec<Count>,
}

/// Whether valgrind is there.
pub fn can_count() -> bool {
    let there =
        Command::new("valgrind").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    there.is_ok_and(|status| status.success())
}

/// Counts all operations that `program` does.
///
/// # Errors
/// A run that failed, with what it said.
pub fn count(program: &Path) -> Result<Vec<Count>, String> {
    let per_operation = |name: &&str| {
        let (short, long) = (collected(program, name, SHORT)?, collected(program, name, LONG)?);
        Ok(((*name).to_owned(), long.saturating_sub(short) as f64 / (LONG - SHORT) as f64))
    };
    OPERATIONS.iter().map(per_operation).collect()
}

/// The instructions of a whole run.
fn collected(program: &Path, operation: &str, times: u64) -> Result<u64, String> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(program)
        .args([operation, &times.to_string()])
        .env("GLIBC_TUNABLES", SAME_EVERYWHERE)
        .output()
        .map_err(|error| format!("valgrind cannot be started: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(format!("{operation} under valgrind ended with {}:\n{said}", output.status));
    }
    total(&said).ok_or_else(|| format!("valgrind tells no count of {operation}:\n{said}"))
}

/// What callgrind says at its end: `==1== Collected : 123`.
fn total(said: &str) -> Option<u64> {
    said.lines().find_map(|line| line.split_once("Collected : ")?.1.trim().parse().ok())
}

/// The sections of the file of recorded counts.
///
/// # Errors
/// The line that is none.
pub fn parse(text: &str) -> Result<Vec<Section>, String> {
    let mut sections: Vec<Section> = Vec::new();
    for (i, line) in text.lines().map(str::trim).enumerate() {
        let wrong = || format!("line {} is neither `[architecture]` nor `name = count`: {line}", i + 1);
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(architecture) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            let architecture = architecture.to_owned();
            sections.push(Section { architecture, compiler: String::new(), counts: Vec::new() });
            continue;
        }
        let (section, (name, value)) = sections.last_mut().zip(line.split_once(" = ")).ok_or_else(wrong)?;
        match name {
            "compiler" => section.compiler = value.trim_matches('"').to_owned(),
            _ => section.counts.push((name.to_owned(), value.parse().map_err(|_| wrong())?)),
        }
    }
    Ok(sections)
}

/// The file with `section` in the place of the one of its architecture.
pub fn recorded(mut sections: Vec<Section>, section: Section) -> String {
    sections.retain(|old| old.architecture != section.architecture);
    sections.push(section);
    sections.sort_by(|a, b| a.architecture.cmp(&b.architecture));
    let mut text = HEADER.to_owned();
    for Section { architecture, compiler, counts } in sections {
        let _ = write!(text, "\n[{architecture}]\ncompiler = \"{compiler}\"\n");
        for (name, count) in counts {
            let _ = writeln!(text, "{name} = {count:.1}");
        }
    }
    text
}

/// A table of what was counted beside what is recorded, and the operations that take too many instructions.
pub fn compare(recorded: &[Count], counted: &[Count]) -> (String, Vec<String>) {
    let mut table =
        format!("{:<18} {:>12} {:>10} {:>9}\n", "operation", "instructions", "recorded", "change");
    let mut worse = Vec::new();
    for (name, now) in counted {
        let before = recorded.iter().find(|(other, _)| other == name).map(|(_, count)| *count);
        // In tenths; the sum makes 0 of -0.
        let percent = before.map(|before| ((now / before - 1.0) * 1000.0).round() / 10.0 + 0.0);
        let (before, change, remark) = match (before, percent) {
            (Some(before), Some(percent)) if percent > TOLERANCE_PERCENT => {
                worse.push(name.clone());
                (format!("{before:.1}"), format!("{percent:+.1} %"), "  WORSE")
            }
            (Some(before), Some(percent)) => {
                let remark =
                    if percent < -TOLERANCE_PERCENT { "  better: record it with --record" } else { "" };
                (format!("{before:.1}"), format!("{percent:+.1} %"), remark)
            }
            _ => {
                worse.push(name.clone());
                ("none".to_owned(), String::new(), "  not recorded")
            }
        };
        let _ = writeln!(table, "{name:<18} {now:>12.1} {before:>10} {change:>9}{remark}");
    }
    (table, worse)
}

/// Why a comparison fails, if it does.
///
/// # Errors
/// Which operations, and what to do.
pub fn judge(worse: &[String]) -> Result<(), String> {
    if worse.is_empty() {
        return Ok(());
    }
    Err(format!(
        "{} more than {TOLERANCE_PERCENT} % above what is recorded, or not recorded; if that is meant, \
         `cargo xtask instructions --record`, and say why in the commit",
        worse.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(pairs: &[(&str, f64)]) -> Vec<Count> {
        pairs.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
    }

    #[test]
    fn what_callgrind_says_at_its_end_is_the_count() {
        let said = "==7== Callgrind, a tool\n==7== Events    : Ir\n==7== Collected : 2187384\n==7== \n";
        assert_eq!(total(said), Some(2_187_384));
        assert_eq!(total("==7== Collected : \n"), None);
        assert_eq!(total(""), None);
    }

    #[test]
    fn recording_replaces_one_architecture_and_leaves_the_others() {
        let one = |architecture: &str, put| Section {
            architecture: architecture.to_owned(),
            compiler: "rustc 1.95.0".to_owned(),
            counts: counts(&[("put", put), ("next", 55.5)]),
        };
        let text = recorded(vec![one("x86_64", 1.0), one("aarch64", 2.0)], one("x86_64", 3.0));
        assert_eq!(parse(&text), Ok(vec![one("aarch64", 2.0), one("x86_64", 3.0)]), "{text}");
        assert_eq!(parse(""), Ok(Vec::new()));
        for wrong in ["put = 3.0", "[x86_64]\nput", "[x86_64]\nput = much"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn more_than_the_tolerance_is_worse_and_less_is_told() {
        let before = counts(&[("a", 1000.0), ("b", 1000.0), ("c", 1000.0), ("e", 1000.0)]);
        let now = counts(&[("a", 1030.0), ("b", 1031.0), ("c", 969.0), ("e", 999.9), ("d", 5.0)]);
        let (table, worse) = compare(&before, &now);
        assert_eq!(
            table,
            "\
operation          instructions   recorded    change
a                        1030.0     1000.0    +3.0 %
b                        1031.0     1000.0    +3.1 %  WORSE
c                         969.0     1000.0    -3.1 %  better: record it with --record
e                         999.9     1000.0    +0.0 %
d                           5.0       none            not recorded
"
        );
        assert_eq!(worse, ["b", "d"]);
        assert!(judge(&worse).unwrap_err().starts_with("b, d more than 3 % above"));
        assert_eq!(judge(&[]), Ok(()));
    }

    /// The example does what is asked for here, and nothing that is not.
    #[test]
    fn operations_are_those_of_the_example() {
        let example = include_str!("../../crates/engine/examples/instructions.rs");
        let rows = example.lines().filter_map(|line| line.trim().strip_prefix("(\"")?.split_once("\", "));
        assert_eq!(rows.map(|row| row.0).collect::<Vec<_>>(), OPERATIONS);
    }
}
