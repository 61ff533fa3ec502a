//! `cargo xtask ci` runs what CI runs; `cargo xtask STEP…` runs single steps; `--list` names them. `cargo xtask instructions
//! --record` records what that step compares with. `cargo xtask trust` runs the layers that the store's promises hang on.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use xtask::ci::{self, STEPS, Step};
use xtask::trust::words::{self, Asked};
use xtask::trust::{mutants, run};

const USAGE: &str = "usage: cargo xtask ci [--skip STEP]... | cargo xtask STEP... | cargo xtask ci --list | \
                     cargo xtask instructions --record | cargo xtask trust [OPTION]... [LAYER]...";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.first().is_some_and(|word| word == "trust") {
        return trust(&args[1..]);
    }
    if args.iter().any(|arg| arg == "--list") {
        for step in STEPS {
            println!("{:<14} {}", step.name, step.about);
        }
        return ExitCode::SUCCESS;
    }
    if args == ["instructions", "--record"] {
        return ended(ci::record_instructions(&ci::root()));
    }
    let steps = match chosen(&args) {
        Ok(steps) => steps,
        Err(message) => {
            eprintln!("xtask: {message}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    ended(ci::run(&steps, &ci::root()))
}

fn trust(args: &[String]) -> ExitCode {
    if args.iter().any(|word| word == "--help" || word == "-h") {
        print!("{}", words::USAGE);
        return ExitCode::SUCCESS;
    }
    let asked = match words::parse(args, words::today()) {
        Ok(asked) => asked,
        Err(message) => {
            eprint!("xtask: {message}\n{}", words::USAGE);
            return ExitCode::from(2);
        }
    };
    let root = ci::root();
    ended(match &asked {
        Asked::List => {
            run::list();
            println!();
            mutants::list(&root)
        }
        Asked::Mutants(names) => mutants::run(names, &root),
        Asked::Run(asked) => run::run(asked, &root),
    })
}

fn ended(outcome: Result<(), String>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("xtask: {message}");
            ExitCode::FAILURE
        }
    }
}

/// The steps that the words ask for, in the table's order.
fn chosen(args: &[String]) -> Result<Vec<&'static Step>, String> {
    let known = |name: &String| match STEPS.iter().any(|step| step.name == name) {
        true => Ok(name.clone()),
        false => Err(format!("no step is called `{name}`; `cargo xtask ci --list` names them")),
    };
    let (mut all, mut wanted, mut skipped) = (false, Vec::new(), Vec::new());
    let mut words = args.iter();
    while let Some(word) = words.next() {
        match &word[..] {
            "ci" => all = true,
            "--skip" => skipped.push(known(words.next().ok_or("--skip needs a step")?)?),
            _ => wanted.push(known(word)?),
        }
    }
    if all != wanted.is_empty() {
        return Err("say either `ci` or the steps".to_owned());
    }
    let is_chosen = |step: &&Step| {
        let named = |list: &[String]| list.iter().any(|name| name == step.name);
        (all || named(&wanted)) && !named(&skipped)
    };
    Ok(STEPS.iter().filter(is_chosen).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_choose_steps() {
        let choose = |line: &str| {
            let args: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            chosen(&args).map(|steps| steps.iter().map(|step| step.name).collect::<Vec<_>>())
        };
        assert_eq!(choose("tidy fmt"), Ok(vec!["fmt", "tidy"]));
        assert_eq!(choose("ci").map(|all| all.len()), Ok(STEPS.len()));
        let rest = choose("ci --skip test-debug --skip fmt").unwrap();
        assert_eq!(rest.len(), STEPS.len() - 2);
        assert!(!rest.contains(&"test-debug"));
        for wrong in ["", "ci tidy", "nonsense", "ci --skip", "ci --skip nonsense"] {
            assert!(choose(wrong).is_err(), "{wrong}");
        }
    }
}
