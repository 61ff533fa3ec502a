//! The text form of strategies: what is printed is read back, and nonsense is answered with what would be valid.

use crate::compaction::level_sizes::capacity_bytes;
use crate::compaction::strategy::{Align, Granularity, Layout, Saturation, Sizes, Strategy, Trigger};
use crate::version::version::Version;

fn error(text: &str) -> String {
    text.parse::<Strategy>().unwrap_err().to_string()
}

#[test]
fn every_combination_comes_back_as_it_was_written() {
    let mut combinations = 0;
    let triggers = [
        "saturation",
        "saturation-count",
        "runs,saturation",
        "saturation,staleness:90s,space-amp:0.25",
        "density:0.1,read-heat:16KiB,saturation",
    ];
    let movements = [
        "round-robin",
        "least-overlap-parent",
        "least-overlap-grandparent,oldest",
        "coldest,coldest-write",
        "tombstone-density:0.5,tombstone-density",
    ];
    for when in triggers {
        for how in ["runs:1", "runs:4", "runs:4:fill"] {
            for much in ["level", "runs", "file", "files:64MiB"] {
                for which in movements {
                    let which =
                        if much.starts_with("file") { format!(" which={which}") } else { String::new() };
                    let base = format!("when={when} how={how} much={much}{which}");
                    for more in [
                        "",
                        "; last: how=runs:2",
                        "; L0: when=duplicates:0.4:6; L2: how=runs:7 bits=4; size: l0=1MiB base=3 ratio=4 table=9",
                        "; size: table=9 sizes=fixed cut=size",
                    ] {
                        let text = format!("{base}{more}");
                        let strategy: Strategy = text.parse().unwrap();
                        assert_eq!(strategy.to_string().parse::<Strategy>().unwrap(), strategy, "{text}");
                        combinations += 1;
                    }
                }
            }
        }
    }
    assert_eq!(combinations, 5 * 3 * 4 * 5 * 4);
}

#[test]
fn canonical_text_prints_as_it_is() {
    for text in [
        "when=saturation how=runs:1 much=file which=least-overlap-parent; L0: when=runs how=runs:4 much=runs",
        "when=runs how=runs:4:fill much=files:2MiB which=least-overlap-grandparent,oldest bits=8; last: bits=12; L2: bits=-1.5",
        "when=runs how=runs:4 much=runs; L2: how=runs:2; L5:; size: l0=100 base=4KiB ratio=3 table=1MiB",
        "when=runs how=runs:4 much=runs; size: sizes=fixed cut=size",
        "when=saturation how=by-heat:1:4:coldest=0.7 much=level; L0: how=runs:4",
        "when=saturation how=by-heat:2:8:share=0.25:band=0:groups=9:least=1 much=level; L0: how=runs:4",
        "when=ttl:12h,saturation how=runs:1 much=file which=expired,least-overlap-parent",
        "when=saturation,staleness:90s how=runs:1 much=file which=coldest; L0: when=duplicates:0.4:6",
    ] {
        assert_eq!(text.parse::<Strategy>().unwrap().to_string(), text);
    }
}

#[test]
fn a_level_takes_the_nearest_policy() {
    let text = "when=runs how=runs:9 much=runs; L0: how=runs:1; last: how=runs:2; L2: how=runs:3";
    let strategy: Strategy = text.parse().unwrap();
    let max = |level, levels| strategy.levels.get(level, levels).layout.max_runs();
    assert_eq!([max(0, 5), max(1, 5), max(2, 5), max(3, 5), max(4, 5)], [1, 9, 3, 9, 2]);
    assert_eq!((max(0, 1), max(2, 3)), (1, 3));
    assert_eq!(
        "when=runs how=runs:9 much=runs; first: how=runs:1"
            .parse::<Strategy>()
            .unwrap()
            .levels
            .first
            .layout
            .max_runs(),
        1
    );
}

/// L0 that goes down whole into one run may go with half as many; what is put beside other runs below may not.
#[test]
fn an_early_l0_has_half_the_runs_where_they_become_one() {
    let early =
        |text: &str| text.parse::<Strategy>().unwrap().with_early_l0().levels.get(0, 4).layout.max_runs();
    let l0 = |how: &str, below: &str| {
        early(&format!("when=runs,saturation how={below} much=runs; L0: how=runs:{how} much=runs"))
    };
    assert_eq!(["1", "2", "3", "4", "9"].map(|runs| l0(runs, "runs:1")), [1, 2, 2, 2, 4]);
    assert_eq!(l0("8", "runs:8"), 8);
    assert_eq!(early("when=runs,saturation how=runs:1 much=runs; L0: how=runs:8 much=file which=oldest"), 8);
    let named =
        "when=runs,saturation how=runs:1 much=runs; first: how=runs:6 much=runs; L0: how=runs:8 much=runs";
    assert_eq!(early(named), 4);
}

/// Whatever else it waits for.
#[test]
fn an_eager_l0_is_compacted_from_two_runs_on_or_when_it_is_full() {
    for text in [
        "when=saturation how=runs:1 much=file which=oldest; L0: when=runs how=runs:12 much=runs",
        "when=saturation how=runs:1 much=file which=oldest; L0: when=duplicates:0.4:9 how=runs:12 much=runs",
    ] {
        let eager = text.parse::<Strategy>().unwrap().with_eager_l0();
        let l0 = eager.levels.get(0, 4);
        let triggers = [Trigger::Runs, Trigger::Saturation(Saturation::Bytes)];
        assert_eq!((l0.layout.max_runs(), &*l0.triggers), (2, &triggers[..]), "{text}");
    }
}

#[test]
fn a_movement_is_not_inherited_where_nothing_is_chosen() {
    let text = "when=saturation how=runs:1 much=file which=oldest; L0: much=runs";
    let strategy: Strategy = text.parse().unwrap();
    assert!(strategy.levels.first.movement.is_empty());
    assert_eq!(strategy.levels.first.granularity, Granularity::Runs);
    assert_eq!(strategy.levels.rest.layout, Layout::Runs { max: 1, fill: false });
}

#[test]
fn capacities_grow_by_the_ratio_and_do_not_overflow() {
    let text = "when=saturation how=runs:1 much=runs; size: l0=7 base=10 ratio=3 table=1 sizes=fixed";
    let (size, tree) = (text.parse::<Strategy>().unwrap().size, Version::default());
    assert_eq!([0, 1, 2, 3].map(|l| capacity_bytes(&size, &tree, l)), [7, 10, 30, 90]);
    assert_eq!(capacity_bytes(&size, &tree, 200), u64::MAX);
}

#[test]
fn sizes_are_dynamic_and_cuts_aligned_unless_the_line_says_otherwise() {
    let of = |more: &str| format!("when=saturation how=runs:1 much=runs{more}").parse::<Strategy>().unwrap();
    assert_eq!((of("").size.sizes, of("").cut.align), (Sizes::Dynamic, Align::Next));
    let other = of("; size: sizes=fixed cut=size");
    assert_eq!((other.size.sizes, other.cut.align), (Sizes::Fixed, Align::Size));
    // Neither states bytes: those are still the store's options'.
    assert!(other.size.has_default_bytes() && !of("; size: base=1KiB").size.has_default_bytes());
}

#[test]
fn an_error_names_the_field_and_what_is_valid() {
    for (text, want) in [
        ("", "strategy, the first segment is for all levels: when= how= much= which="),
        ("L0: when=runs", "strategy, the first segment is for all levels: when= how= much= which="),
        ("how=runs:1 much=level", "strategy, all levels: when= is missing, for instance when=saturation"),
        (
            "when=full how=runs:1 much=level",
            "strategy, all levels: when=full is unknown; valid are saturation saturation-count runs staleness:TIME space-amp:RATIO ttl:TIME density:PART read-heat:BYTES duplicates:PART:RUNS",
        ),
        (
            "when=runs how=runs much=level",
            "strategy, all levels: how=runs is unknown; valid are runs:N runs:N:fill and by-heat:HOT:COLD[:coldest=PART|:share=PART][:band=PART][:groups=N][:least=N]",
        ),
        (
            "when=saturation how=by-heat:1 much=level; L0: how=runs:4",
            "strategy, all levels: how=by-heat:1: write by-heat:HOT:COLD[:coldest=PART|:share=PART][:band=PART][:groups=N][:least=N], for instance by-heat:1:4:coldest=0.7",
        ),
        (
            "when=saturation how=by-heat:1:4:warm=1 much=level; L0: how=runs:4",
            "strategy, all levels: how=by-heat:1:4:warm=1: warm= is unknown; write by-heat:HOT:COLD[:coldest=PART|:share=PART][:band=PART][:groups=N][:least=N], for instance by-heat:1:4:coldest=0.7",
        ),
        (
            "when=saturation how=by-heat:1:4:share=0.5:coldest=0.5 much=level; L0: how=runs:4",
            "strategy, all levels: how=by-heat:1:4:share=0.5:coldest=0.5: coldest=0.5 comes twice, or both coldest= and share= are there; say one of them",
        ),
        (
            "when=saturation how=by-heat:1:4:band=x much=level; L0: how=runs:4",
            "strategy, all levels: how=by-heat:1:4:band=x: band=x is no number",
        ),
        (
            "when=saturation how=by-heat:1:4 much=level",
            "strategy, L0: how=by-heat:1:4:coldest=0.7 has no use in L0, where each flush is a run; add `L0: how=runs:4 much=runs`",
        ),
        (
            "when=saturation how=by-heat:4:4 much=level; L0: how=runs:4",
            "strategy, all levels: how=by-heat:4:4:coldest=0.7 must allow a hot group at least one run, a cold one more",
        ),
        (
            "when=saturation how=by-heat:1:4:share=2 much=level; L0: how=runs:4",
            "strategy, all levels: how=by-heat:1:4:share=2 must have coldest= or share= from 0 to 1",
        ),
        (
            "when=saturation how=by-heat:1:4:band=0.6 much=level; L0: how=runs:4",
            "strategy, all levels: how=by-heat:1:4:coldest=0.7:band=0.6 must have band= from 0 to 0.5",
        ),
        (
            "when=saturation how=by-heat:1:4:groups=0 much=level; L0: how=runs:4",
            "strategy, all levels: how=by-heat:1:4:coldest=0.7:groups=0 must have groups= from 1 to 1000",
        ),
        (
            "when=runs how=by-heat:1:4 much=level; L0: how=runs:4",
            "strategy, all levels: when=runs with how=by-heat:1:4:coldest=0.7 lets every level grow without bound; add saturation",
        ),
        ("when=runs how=runs:0 much=level", "strategy, all levels: how=runs:0 must allow at least one run"),
        (
            "when=runs how=runs:1:fill much=level",
            "strategy, all levels: how=runs:1:fill has one run to fill anyway; say runs:1",
        ),
        (
            "when=runs how=runs:1 much=half",
            "strategy, all levels: much=half is unknown; valid are level runs file files:BYTES",
        ),
        (
            "when=saturation how=runs:1 much=files:0 which=oldest",
            "strategy, all levels: much=files:0 must be at least one byte",
        ),
        (
            "when=saturation how=runs:1 much=files:1MB which=oldest",
            "strategy, all levels: 1MB is no size; write for instance 4096, 32MiB or 1GiB",
        ),
        (
            "when=saturation how=runs:1 much=file",
            "strategy, all levels: which= is needed, because much= takes single tables",
        ),
        (
            "when=saturation how=runs:1 much=level which=oldest",
            "strategy, all levels: which= has no use, because much= takes everything",
        ),
        (
            "when=saturation how=runs:1 much=file which=round-robin,oldest",
            "strategy, all levels: which= has no use after round-robin, which leaves no ties",
        ),
        ("when=runs when=saturation how=runs:1 much=level", "strategy, all levels: when= is there twice"),
        (
            "when=saturation how=runs:1 much=level speed=9",
            "strategy, all levels: speed=9: no such field; valid are when= how= much= which= bits=",
        ),
        (
            "when=saturation how=runs:1 much=level; L0 how=runs:2",
            "strategy, L0 how=runs:2: a segment starts with L0:, last:, L2: and the like, or size:",
        ),
        (
            "when=saturation how=runs:1 much=level; deep: how=runs:2",
            "strategy, deep: no such segment; valid are L0, first, last, L1, L2, ..., size",
        ),
        (
            "when=saturation how=runs:1 much=level; size: ratio=1",
            "strategy, size: ratio=1 must be at least 2",
        ),
        (
            "when=saturation how=runs:1 much=level; size: table=4294967296GiB",
            "strategy, size: table=4611686018427387904 must be at most 4GiB",
        ),
        (
            "when=saturation how=runs:1 much=level; size: height=1",
            "strategy, size: height=1: no such field; valid are l0= base= ratio= table= sizes= cut=",
        ),
        (
            "when=saturation how=runs:1 much=level; size: sizes=growing",
            "strategy, size: sizes=growing is unknown; valid are fixed dynamic",
        ),
        (
            "when=saturation how=runs:1 much=level; size: cut=middle",
            "strategy, size: cut=middle is unknown; valid are size next last",
        ),
        (
            "when=saturation how=runs:1 much=level bits=99",
            "strategy, all levels: bits=99 must be from 0 to 64, or from -64 to +64 beside filter_bits",
        ),
    ] {
        assert_eq!(error(text), want, "{text}");
    }
}
