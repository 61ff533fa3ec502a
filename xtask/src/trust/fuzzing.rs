//! The layer that fuzzes: libFuzzer on every decoder in turn, with what it covers, where cargo-fuzz and a nightly toolchain are there.
//!
//! ```text
//! fuzz/corpus/NAME/… ─► cargo fuzz run decoder ─► fuzz/found/NAME/…, executions and edges │ an input that it falls on
//! ```
//! What it finds new stays beside; what is worth keeping is moved to `fuzz/corpus` by hand, and every `cargo test` replays it.

use std::path::Path;
use std::process::{Command, Stdio};

use super::run::{NIGHTLY, Outcome};

/// Seconds for each decoder, of each time that the run is longer.
const SECONDS: u64 = 30;

/// Memory that an input may take, and seconds.
const LIMITS: [&str; 2] = ["-rss_limit_mb=1024", "-timeout=20"];

/// What a run of one decoder came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Figures {
    executions: u64,
    edges: u64,
}

/// Fuzzes every decoder that has a corpus.
///
/// # Errors
/// Why there is nothing to run: the corpora cannot be listed.
pub fn run(name: &str, seed: Option<u64>, soak: Option<u64>, root: &Path) -> Result<Outcome, String> {
    let folder = root.join("fuzz");
    let there = fuzz(&folder).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !there.is_ok_and(|status| status.success()) {
        let why = format!(
            "there is no cargo-fuzz or no {NIGHTLY} toolchain (rustup toolchain install {NIGHTLY}; cargo install cargo-fuzz)"
        );
        return Ok(Outcome::Skipped(why));
    }
    let (seed, seconds) = (seed.unwrap_or(1), SECONDS * soak.unwrap_or(1));
    let (mut decoders, mut sum) = (0, Figures::default());
    for decoder in corpora(&folder)? {
        let found = folder.join("found").join(&decoder);
        std::fs::create_dir_all(&found).map_err(|error| format!("{}: {error}", found.display()))?;
        let mut command = fuzz(&folder);
        command
            .args(["run", "-a", "decoder"])
            .arg(&found)
            .arg(folder.join("corpus").join(&decoder))
            .arg("--");
        command.args(LIMITS).arg(format!("-seed={seed}")).arg(format!("-max_total_time={seconds}"));
        command.args(["-print_final_stats=1", "-verbosity=1"]).env("EVENKEEL_DECODER", &decoder);
        let output = command.output().map_err(|error| format!("{name} cannot be started: {error}"))?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        if !output.status.success() {
            let last = said.lines().rev().take(60).map(str::to_owned).collect::<Vec<_>>();
            let (seed, doing) = (Some(seed.to_string()), format!("decoder {decoder}"));
            return Ok(Outcome::Wrong { seed, doing, last: last.into_iter().rev().collect() });
        }
        let figures = figures(&said);
        eprintln!("    {decoder}: {} executions, {} edges", figures.executions, figures.edges);
        decoders += 1;
        sum.executions += figures.executions;
        sum.edges += figures.edges;
    }
    let Figures { executions, edges } = sum;
    Ok(Outcome::Right(format!(
        "{name} decoders={decoders} executions={executions} edges={edges} crashes=0 seed={seed}"
    )))
}

/// `cargo fuzz` of the other toolchain.
fn fuzz(folder: &Path) -> Command {
    let mut command = Command::new("cargo");
    command.current_dir(folder).env("RUSTUP_TOOLCHAIN", NIGHTLY).arg("fuzz");
    for name in ["CARGO", "RUSTC", "RUSTDOC"] {
        command.env_remove(name);
    }
    command
}

/// The decoders with a corpus, by name.
fn corpora(folder: &Path) -> Result<Vec<String>, String> {
    let corpus = folder.join("corpus");
    let entries = std::fs::read_dir(&corpus).map_err(|error| format!("{}: {error}", corpus.display()))?;
    let mut names: Vec<String> = entries
        .filter_map(Result::ok)
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    Ok(names)
}

/// What libFuzzer says: `#1234 DONE cov: 310 ft: …`, and `stat::number_of_executed_units: 1234`.
fn figures(said: &str) -> Figures {
    let after = |line: &str, word: &str| -> Option<u64> {
        line.split_once(word)?.1.split_whitespace().next()?.parse().ok()
    };
    let edges = said.lines().filter_map(|line| after(line, " cov: ")).max().unwrap_or_default();
    let executions = said.lines().filter_map(|line| after(line, "stat::number_of_executed_units:")).sum();
    Figures { executions, edges }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fuzzer_s_words_are_read() {
        let said = "INFO: seed\n#2\tINITED cov: 12 ft: 13\n#900\tDONE   cov: 31 ft: 40 corp: 5\nstat::number_of_executed_units: 900\n";
        assert_eq!(figures(said), Figures { executions: 900, edges: 31 });
        assert_eq!(figures("nothing"), Figures::default());
    }
}
