//! `keel-peers`: measures other engines with the workloads, flags and document of `keel bench`.
//!
//! `keel bench W --engine evenkeel --engine rocksdb` starts it, one process a run; it may be called by hand as well.
#![deny(unsafe_code)]

mod account;
mod asked;
mod bench;
mod engines;

use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser;

#[cfg(all(target_arch = "x86_64", not(all(target_feature = "sse4.2", target_feature = "pclmulqdq"))))]
compile_error!(
    "RocksDB built so would checksum in software, which compares with nothing: run `cargo build --release` in the \
     directory peers/, where .cargo/config.toml names the target"
);

/// Measures other engines the way `keel bench` measures evenkeel.
#[derive(Parser, Debug)]
#[command(name = "keel-peers", version)]
enum Cli {
    /// Measure an engine.
    Bench(Box<bench::Args>),
    /// List the engines, and what each supports.
    Engines,
}

/// How it can end other than well: exit code and message.
struct Failure(u8, String);

impl Failure {
    fn work(what: impl std::fmt::Display) -> Failure {
        Failure(1, what.to_string())
    }

    fn usage(what: impl Into<String>) -> Failure {
        Failure(2, what.into())
    }
}

fn main() -> ExitCode {
    let result = match Cli::parse() {
        Cli::Bench(args) => args.run(),
        Cli::Engines => print(&engines::list()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure(code, message)) => {
            // If nobody can read it, nobody misses it.
            let _ = writeln!(std::io::stderr(), "keel-peers: {message}");
            ExitCode::from(code)
        }
    }
}

fn print(text: &str) -> Result<(), Failure> {
    std::io::stdout().write_all(text.as_bytes()).map_err(Failure::work)
}
