//! What the command line of `cargo xtask trust` asks for.

use std::time::SystemTime;

use super::layers::{self, LAYERS, Layer};

/// How it is called.
pub const USAGE: &str = "\
usage: cargo xtask trust [--nightly] [--seed N] [--soak N] [LAYER]...    runs the layers, or these
       cargo xtask trust --mutants [NAME]...    plants bugs in a copy of the tree: does the layer that should catch each do so?
       cargo xtask trust --list                 names the layers and the planted bugs

  --seed N    runs this seed alone, or the first of several with --soak
  --soak N    runs so many times longer
  --nightly   the same as --soak 10, from another seed each day

examples: cargo xtask trust
          cargo xtask trust crash --soak 5
          cargo xtask trust metamorphic --seed 0x5eed
";

/// How many times longer a nightly run is.
const NIGHTLY_SOAK: u64 = 10;

/// What is to be done.
#[derive(Debug)]
pub enum Asked {
    /// Names everything.
    List,
    /// Plants the bugs of these names, or all.
    Mutants(Vec<String>),
    /// Runs layers.
    Run(Run),
}

/// A run of layers.
#[derive(Debug)]
pub struct Run {
    /// Which, in the table's order.
    pub layers: Vec<&'static Layer>,
    /// The first seed, if one is asked for.
    pub seed: Option<u64>,
    /// How many times longer.
    pub soak: u64,
}

/// The number of this day.
pub fn today() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    now.as_secs() / (24 * 60 * 60)
}

/// Reads the words after `trust`. `day` counts days, for the nightly seed.
///
/// # Errors
/// A sentence that says what is wrong with them.
pub fn parse(words: &[String], day: u64) -> Result<Asked, String> {
    let (mut named, mut seed, mut soak) = (Vec::new(), None, None);
    let (mut list, mut mutants, mut nightly) = (false, false, false);
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--list" => list = true,
            "--mutants" => mutants = true,
            "--nightly" => nightly = true,
            "--seed" => seed = Some(number(word, words.next())?),
            "--soak" => soak = Some(number(word, words.next())?),
            option if option.starts_with('-') => return Err(format!("there is no option {option}")),
            name => named.push(name.to_owned()),
        }
    }
    if list {
        return Ok(Asked::List);
    }
    if mutants {
        return Ok(Asked::Mutants(named));
    }
    if let Some(name) = named.iter().find(|name| layers::find(name).is_none()) {
        return Err(format!("no layer is called `{name}`; `cargo xtask trust --list` names them"));
    }
    let chosen = |layer: &&Layer| named.is_empty() || named.iter().any(|name| name == layer.name);
    let soak = soak.unwrap_or(if nightly { NIGHTLY_SOAK } else { 1 });
    if soak == 0 {
        return Err("--soak 0 would run nothing".to_owned());
    }
    // Layers take consecutive seeds; days are far enough apart.
    let seed = seed.or_else(|| nightly.then(|| day.wrapping_mul(1_000_000)));
    Ok(Asked::Run(Run { layers: LAYERS.iter().filter(chosen).collect(), seed, soak }))
}

fn number(option: &str, word: Option<&String>) -> Result<u64, String> {
    let word = word.ok_or_else(|| format!("{option} needs a number"))?;
    let number = match word.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => word.parse(),
    };
    number.map_err(|_| format!("{option} needs a number, not `{word}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(line: &str) -> Result<Asked, String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        parse(&words, 20_000)
    }

    fn run(line: &str) -> (Vec<&'static str>, Option<u64>, u64) {
        match asked(line) {
            Ok(Asked::Run(run)) => (run.layers.iter().map(|layer| layer.name).collect(), run.seed, run.soak),
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn words_choose_layers_seeds_and_length() {
        assert_eq!(run("").0.len(), LAYERS.len());
        assert_eq!(run("fault crash --seed 0x10"), (vec!["crash", "fault"], Some(16), 1));
        assert_eq!(run("kill --soak 3"), (vec!["kill"], None, 3));
        assert_eq!(run("kill --nightly"), (vec!["kill"], Some(20_000_000_000), NIGHTLY_SOAK));
        assert_eq!(run("kill --nightly --soak 2 --seed 5"), (vec!["kill"], Some(5), 2));
        assert!(matches!(asked("--list"), Ok(Asked::List)));
        assert!(matches!(asked("--mutants a b"), Ok(Asked::Mutants(names)) if names == ["a", "b"]));
        for wrong in ["nonsense", "--seed", "--seed x", "--soak 0", "--fast"] {
            assert!(asked(wrong).is_err(), "{wrong}");
        }
    }
}
