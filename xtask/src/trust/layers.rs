//! The table of layers, in the order in which they run: what is quick and finds most first.

/// A layer.
#[derive(Debug)]
pub struct Layer {
    /// What it is called on the command line, in its line, and in `regressions/seeds.txt`.
    pub name: &'static str,
    /// What it shows.
    pub about: &'static str,
    /// How it is run.
    pub how: How,
}

/// How a layer is run.
#[derive(Clone, Copy, Debug)]
pub enum How {
    /// A test that prints the layer's line itself.
    Test {
        /// The package it is in.
        package: &'static str,
        /// Which of its test binaries; `--lib` or `--test NAME`.
        target: &'static [&'static str],
        /// The test's whole name.
        test: &'static str,
    },
    /// Tests that are run as they are, built or run in another way; the line counts them, unless they print one.
    Flagged {
        /// What cargo is given.
        cargo: &'static [&'static str],
        /// `RUSTFLAGS`.
        flags: Option<&'static str>,
        /// Without it the layer says that it is skipped.
        needs: Needs,
    },
    /// libFuzzer on every decoder.
    Fuzz,
}

/// What a layer needs beside the toolchain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Nothing.
    Nothing,
    /// The nightly toolchain, with which it is built.
    Nightly,
    /// valgrind.
    Valgrind,
}

const fn engine(name: &'static str, about: &'static str, test: &'static str) -> Layer {
    Layer { name, about, how: How::Test { package: "evenkeel", target: &["--test", "it"], test } }
}

const fn keel(name: &'static str, about: &'static str, test: &'static str) -> Layer {
    Layer { name, about, how: How::Test { package: "keel", target: &["--test", "cli"], test } }
}

const fn flagged(
    name: &'static str,
    about: &'static str,
    cargo: &'static [&'static str],
    flags: Option<&'static str>,
    needs: Needs,
) -> Layer {
    Layer { name, about, how: How::Flagged { cargo, flags, needs } }
}

/// The arena under loom.
pub const LOOM: Layer = flagged(
    "loom",
    "the memtable's tree under every interleaving that loom finds",
    &["test", "-p", "evenkeel-arena", "--release", "--test", "loom", "--target-dir", "target/loom"],
    Some("--cfg loom"),
    Needs::Nothing,
);

/// The engine under loom.
pub const LOOM_DB: Layer = flagged(
    "loom-db",
    "the commit queue and the list of snapshots under every interleaving that loom finds",
    &["test", "-p", "evenkeel", "--lib", "--target-dir", "target/loom", "--profile", "plain", "loom_tests"],
    Some("--cfg loom"),
    Needs::Nothing,
);

/// The engine under shuttle.
pub const SHUTTLE: Layer = flagged(
    "shuttle",
    "a whole store with all its threads, in orders of all their steps that are drawn",
    &[
        "test",
        "-p",
        "evenkeel",
        "--lib",
        "--target-dir",
        "target/shuttle",
        "--profile",
        "plain",
        "shuttle_tests",
    ],
    Some("--cfg shuttle"),
    Needs::Nothing,
);

/// Unsafe code under AddressSanitizer.
pub const ASAN: Layer = flagged(
    "asan",
    "the crates with unsafe code under AddressSanitizer",
    &[
        "test",
        "-p",
        "evenkeel-arena",
        "-p",
        "evenkeel-sys",
        "--lib",
        "--tests",
        "--target-dir",
        "target/asan",
        "--target",
        "x86_64-unknown-linux-gnu",
    ],
    Some("-Zsanitizer=address"),
    Needs::Nightly,
);

/// Unsafe code under valgrind.
pub const MEMCHECK: Layer = flagged(
    "memcheck",
    "the crates with unsafe code under valgrind's memcheck",
    &[
        "test",
        "-p",
        "evenkeel-arena",
        "-p",
        "evenkeel-sys",
        "--lib",
        "--tests",
        "--config",
        "target.'cfg(all())'.runner = 'valgrind -q --error-exitcode=9'",
    ],
    None,
    Needs::Valgrind,
);

/// Tests that measure, and that nothing else runs: they must go on working. What they find they say to who runs them alone.
const MEASUREMENTS: Layer = flagged(
    "measurements",
    "tests that measure: the picker, tables, the block cache, the emulated device, what a sync costs others",
    &["test", "-p", "evenkeel", "--release", "--lib", "--test", "it", "--", "--ignored", "--test-threads=1"],
    None,
    Needs::Nothing,
);

/// Every layer.
pub const LAYERS: &[Layer] = &[
    engine(
        "golden",
        "stores written by every released format are read, byte for byte as they were",
        "golden::every_format_that_was_released_is_read",
    ),
    engine(
        "metamorphic",
        "one random history gives the model's answers under every strategy and schedule",
        "model::every_strategy_gives_the_answers_of_the_model",
    ),
    engine(
        "determinism",
        "a seed gives the same log of events twice, to the byte",
        "storms::a_seed_gives_the_same_event_log_to_the_byte",
    ),
    engine(
        "simulation",
        "flushes, compactions, limiter and manifest in an order that chance chooses change no answer",
        "hazards::chance_orders_the_background_and_no_answer_changes",
    ),
    engine(
        "preempt",
        "a storm of preemptions, resumed, let go and thrown away, loses nothing",
        "storms::a_storm_of_preemptions_loses_nothing_and_adds_up",
    ),
    engine(
        "threads",
        "threads that read find every key while another overwrites them and flushes drop what is hidden",
        "side_by_side::a_key_that_is_overwritten_all_the_time_is_always_there",
    ),
    engine(
        "order",
        "readers, and what kills leave, see one order of four threads' batches, and one that time allows",
        "real_time::everybody_sees_one_order_that_time_allows",
    ),
    engine(
        "crash",
        "a power cut or kill before any call that changes the disk, and again during recovery, leaves a prefix",
        "crash::a_crash_before_any_call_leaves_a_prefix",
    ),
    engine(
        "fault",
        "any call that fails, once or from then on, is told and loses nothing",
        "fault_sweep::a_call_that_fails_is_told_and_loses_nothing",
    ),
    engine(
        "disk-full",
        "a disk full at any size loses nothing, and writes resume",
        "failures::a_disk_full_at_any_size_loses_nothing_and_writes_resume",
    ),
    engine(
        "corruption",
        "any byte changed, any file cut, swapped, stale or missing gives the right answer or an error",
        "corruption::damage_gives_the_right_answers_or_an_error",
    ),
    engine(
        "fuzz",
        "random damage of many bytes, with checksums made right, never panics or takes memory without bound",
        "corruption::damage_with_right_checksums_never_panics",
    ),
    engine(
        "decoders",
        "every decoder takes what fuzzing has found worth keeping, and random changes of it",
        "corpora::every_decoder_takes_its_corpus_and_changes_of_it",
    ),
    Layer {
        name: "libfuzzer",
        about: "every decoder under libFuzzer, led by what it covers, with AddressSanitizer",
        how: How::Fuzz,
    },
    keel(
        "kill",
        "kill -9 of a real process at any moment leaves exactly the first lines",
        "kill::a_killed_load_leaves_exactly_the_first_lines",
    ),
    keel(
        "kill-call",
        "kill -9 at the n-th call of each kind leaves exactly the first lines",
        "kill_calls::a_load_killed_at_any_call_leaves_exactly_the_first_lines",
    ),
    keel(
        "power-cut",
        "an ext4 that is shut down without a sync keeps what was promised",
        "power_cut::a_real_power_cut_keeps_what_was_promised",
    ),
    LOOM,
    LOOM_DB,
    SHUTTLE,
    ASAN,
    MEMCHECK,
    MEASUREMENTS,
];

/// The layer of this name.
pub fn find(name: &str) -> Option<&'static Layer> {
    LAYERS.iter().find(|layer| layer.name == name)
}
