//! `kill -9` at the n-th call of a kind, for every n of a small load: where `kill.rs` dies at any moment, this dies at each of the
//! moments that matter, with the real kernel beneath.
//!
//! ```text
//! kind of call (open, write, sync, …) × n ─► load under strace, which kills it there ─► the store holds the first P lines
//! ```
//! Each thread counts its own calls. The layer `kill-call` of `cargo xtask trust`; where strace is not there or may not trace, it says
//! so and is skipped.

use std::iter::successors;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

use crate::Keel;
use crate::kill::{Truth, acknowledged, dump, generated, lines};
use crate::trace::can_trace;
use crate::trust::{Attempt, layer};

/// What changes a disk, as strace names calls, and what makes files known.
const CALLS: [&str; 7] =
    ["/^(open|openat)$", "/write", "/^(fallocate|ftruncate)$", "/sync$", "/^rename", "/^unlink", "/^mkdir"];

const SIGKILL: i32 = 9;

/// Lines of one load: a few memtables.
const FED: usize = 600;

/// As small as can be, so that all kinds of work are done within one load.
const TINY: [&str; 10] = [
    "--set",
    "memtable_bytes=16KiB",
    "--set",
    "table_bytes=8KiB",
    "--set",
    "level_base_bytes=32KiB",
    "--set",
    "wal_bytes_max=64KiB",
    "--set",
    "l0_trigger=2",
];

/// Loads these lines under strace, which kills the load at the `nth` call; how many lines were acknowledged, and whether it was killed.
fn killed_at(keel: &Keel, call: &str, nth: u64, batch: &str, input: &[&[u8]]) -> (usize, bool) {
    let file = keel.write("lines.tsv", [&input.join(&b'\n')[..], b"\n"].concat());
    let inject = format!("inject={call}:signal=SIGKILL:when={nth}");
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-o", "/dev/null", "-e", &format!("trace={call}"), "-e", &inject]);
    command.arg(env!("CARGO_BIN_EXE_keel")).args(["load", "--ack", "--batch", batch]).args(TINY);
    command.arg("--db").arg(keel.db()).arg(file);
    let output = command.stderr(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let acked = said.split_inclusive('\n').filter_map(acknowledged).fold(0, u64::max);
    // strace ends as what it watched did.
    let killed = output.status.signal() == Some(SIGKILL);
    assert!(killed || output.status.success(), "{call}, call {nth}: the load ended with {}", output.status);
    (acked as usize, killed)
}

#[test]
fn a_load_killed_at_any_call_leaves_exactly_the_first_lines() {
    let layer = layer("kill-call");
    if !can_trace() {
        layer.report(format_args!("skipped=1"));
        println!("strace is not here or may not trace: kills at the n-th call are NOT TESTED");
        return;
    }
    // Each of the first calls in the long form, then ever fewer; a load has some hundred of a kind.
    let dense = if layer.is_full() { 40 * layer.soak() } else { 1 };
    let seed = layer.seeds(1)[0];
    let mut attempt = layer.attempt(seed);
    let (mut kills, mut checked) = (0, 0);
    let text = generated(seed);
    let all = lines(&text);
    for (done, call) in (0..).zip(CALLS) {
        layer.progress(done, CALLS.len() as u64);
        let (killed, acked) = sweep(call, dense, &all, &mut attempt);
        kills += killed;
        checked += acked;
    }
    layer.report(format_args!("calls={} kills={kills} acked_checked={checked} lost=0 wrong=0", CALLS.len()));
    assert!(kills >= 15, "{kills} kills");
}

/// Kills at ever later calls of this kind, in one store that is loaded further each time, until a load survives.
fn sweep(call: &str, dense: u64, all: &[&[u8]], attempt: &mut Attempt) -> (u64, usize) {
    let keel = Keel::new();
    let mut truth = Truth::new(all);
    let (mut kills, mut checked) = (0, 0);
    for nth in successors(Some(1), |n| Some(if *n < dense { n + 1 } else { 2 * n })) {
        let begin = truth.taken;
        let fed = (begin + FED).min(all.len());
        let batch = ["1", "7", "100"][nth as usize % 3];
        let story = format!("{call}, call {nth}, lines {begin} to {fed}, batch {batch}");
        attempt.doing(&story);
        let (acked, killed) = killed_at(&keel, call, nth, batch, &all[begin..fed]);
        let least = if killed { begin + acked } else { fed };
        // Killed before there was a store: then there is none.
        let is_there = keel.db().join("CURRENT").exists();
        let held = if is_there { dump(&keel, &keel.db(), &story) } else { Vec::new() };
        assert!(
            truth.find(&held, least, fed).is_some(),
            "{story}: not the first P lines, P from {least} to {fed}"
        );
        checked += acked;
        if !killed || truth.taken == all.len() {
            break;
        }
        kills += 1;
    }
    assert!(truth.taken < all.len(), "no load of {call} has survived");
    keel.ok(&["verify"]);
    (kills, checked)
}
