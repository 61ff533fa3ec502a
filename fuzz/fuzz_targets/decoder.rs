//! The fuzz target of every decoder: which one, the variable `EVENKEEL_DECODER` says.
//!
//! `cargo xtask trust libfuzzer` runs it for each of them in turn; by hand:
//! `EVENKEEL_DECODER=block cargo +nightly fuzz run -a decoder found/block corpus/block`, in this folder.
#![no_main]

use std::sync::LazyLock;

use evenkeel::testing::DECODERS;
use libfuzzer_sys::fuzz_target;

static DECODER: LazyLock<fn(&[u8])> = LazyLock::new(|| {
    let all = || DECODERS.iter().chain(keel::decoders::DECODERS);
    let names: Vec<&str> = all().map(|(name, _)| *name).collect();
    let asked = std::env::var("EVENKEEL_DECODER").unwrap_or_default();
    let found = all().find(|(name, _)| *name == asked);
    found.unwrap_or_else(|| panic!("EVENKEEL_DECODER is one of {}", names.join(" "))).1
});

fuzz_target!(|bytes: &[u8]| DECODER(bytes));
