//! The corpora of the fuzz targets, replayed: everything that fuzzing has found worth keeping goes through its decoder again, and so do
//! random changes of it.
//!
//! ```text
//! fuzz/corpus/NAME/… ─► decoder NAME        ─► a few bytes changed, pieces taken from another input ─► decoder NAME
//! ```
//! The layer `decoders` of `cargo xtask trust`. A decoder may refuse what it likes; it may not panic, nor take memory without bound.
#![allow(clippy::disallowed_methods, reason = "reads its own test data")]

use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

use evenkeel::testing::{DECODERS, Random};

use super::corruption::memory_most;
use super::trust::layer;

/// Changed inputs of each decoder for each time that this is longer; the short form has a twentieth.
const CHANGED: u64 = 20_000;

/// A decoder that opens whole stores takes so many times as long as one that takes a block.
const SLOWER: u64 = 20;

/// More memory than this, for inputs of a few KiB, is memory without bound.
const MEMORY_MIB: u64 = 1024;

fn corpora() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus")
}

/// The inputs of a decoder, with their names.
fn corpus(name: &str) -> Vec<(String, Vec<u8>)> {
    let files = std::fs::read_dir(corpora().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    let mut paths: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
    paths.sort();
    paths.into_iter().map(|path| (path.display().to_string(), std::fs::read(path).unwrap())).collect()
}

/// One input changed as fuzzers do.
fn changed(inputs: &[(String, Vec<u8>)], random: &mut Random) -> Vec<u8> {
    let pick = |random: &mut Random| &inputs[random.below(inputs.len() as u64) as usize].1;
    let mut bytes = pick(random).clone();
    for _ in 0..1 + random.below(4) {
        let at = random.below(bytes.len() as u64 + 1) as usize;
        let width = (random.below(24) as usize).min(bytes.len() - at);
        match random.below(6) {
            0 if at < bytes.len() => bytes[at] = random.next_u64() as u8,
            1 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
            2 => bytes[at..at + width].fill(if random.one_in(2) { 0xff } else { 0 }),
            3 => drop(bytes.drain(at..at + width)),
            4 => {
                let other = pick(random);
                let from = random.below(other.len() as u64 + 1) as usize;
                let to = (from + random.below(64) as usize).min(other.len());
                bytes.splice(at..at + width, other[from..to].iter().copied());
            }
            _ => {
                let edge = 1_u64 << random.below(64);
                let edge = if random.one_in(2) { edge } else { edge.wrapping_sub(1) };
                bytes[at..at + width.min(8)].copy_from_slice(&edge.to_le_bytes()[..width.min(8)]);
            }
        }
    }
    bytes
}

#[test]
fn every_decoder_takes_its_corpus_and_changes_of_it() {
    let layer = layer("decoders");
    let seeds = layer.seeds(1);
    let (mut inputs, mut executions) = (0, 0);
    for (done, (name, decode)) in (0..).zip(DECODERS) {
        layer.progress(done, DECODERS.len() as u64);
        let corpus = corpus(name);
        assert!(!corpus.is_empty(), "{name} has no corpus");
        inputs += corpus.len() as u64;
        let take = |bytes: &[u8], what: &str| {
            let taken = catch_unwind(|| decode(bytes));
            assert!(taken.is_ok(), "{name} panics: {what}");
        };
        corpus.iter().for_each(|(path, bytes)| take(bytes, path));
        let is_slow = matches!(*name, "directory" | "table" | "manifest" | "history" | "control");
        let count = if layer.is_full() { CHANGED } else { CHANGED / 20 } / if is_slow { SLOWER } else { 1 };
        for seed in &seeds {
            let mut attempt = layer.attempt(*seed);
            let mut random = Random::new(*seed);
            for n in 0..count {
                let bytes = changed(&corpus, &mut random);
                attempt.doing(format_args!("{name}, change {n}"));
                take(&bytes, &format!("seed {seed}, change {n}"));
                executions += 1;
            }
        }
    }
    let most = memory_most();
    layer.report(format_args!(
        "decoders={} corpus={inputs} executions={executions} panic=0 rss_max_mib={most}",
        DECODERS.len()
    ));
    assert!(most < MEMORY_MIB, "{most} MiB");
}
