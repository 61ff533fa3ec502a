//! Coverage and sweeps against the list of all tombstones, searched from its start to its end.

use super::*;
use crate::base::random::Random;
use crate::base::range_tombstones::RangeTombstone;

fn piece(tombstones: &[RangeTombstone]) -> RangeSource {
    RangeSource::of_memtable(Arc::new(RangeTombstones::new(tombstones)))
}

fn tombstones(drawn: &str) -> Vec<RangeTombstone> {
    let one = |word: &str| {
        let (seq, range) = word.split_once(':').unwrap();
        let (lo, hi) = range.split_once('-').unwrap();
        RangeTombstone::new(lo.as_bytes(), hi.as_bytes(), SeqNo(seq.parse().unwrap()))
    };
    drawn.split_whitespace().map(one).collect()
}

/// Sources as `7:a-m | 5:f-t`, snapshots and seams in; pieces out.
fn swept(sources: &str, snapshots: &[u64], seams: &str) -> String {
    let sources = sources.split('|').map(|s| piece(&tombstones(s))).collect();
    let seams = seams.split_whitespace().map(|s| s.as_bytes().into()).collect();
    let snapshots = snapshots.iter().copied().map(SeqNo).collect();
    let mut sweep = RangeSweep::new(sources, snapshots, seams).unwrap();
    let (mut out, mut piece) = (Vec::new(), Piece::default());
    while sweep.next(&mut piece).unwrap() {
        let text = |key: &[u8]| String::from_utf8_lossy(key).into_owned();
        let seqs: Vec<String> = piece.seqs.iter().map(ToString::to_string).collect();
        out.push(format!("{}:{}-{}", seqs.join(","), text(&piece.lo), text(&piece.hi)));
    }
    out.join(" ")
}

#[test]
fn pieces_are_cut_at_bounds_and_seams_and_keep_one_of_each_stripe() {
    for (sources, snapshots, seams, want) in [
        ("7:a-m | 5:f-t", &[][..], "", "7:a-f 7:f-m 5:m-t"),
        ("7:a-m | 5:f-t", &[5], "", "7:a-f 7,5:f-m 5:m-t"),
        ("7:a-m | 5:f-t", &[6], "", "7:a-f 7,5:f-m 5:m-t"),
        ("7:a-m | 5:f-t", &[4], "", "7:a-f 7:f-m 5:m-t"),
        ("7:a-m | 5:f-t", &[7], "", "7:a-f 7:f-m 5:m-t"),
        ("9:c-d 7:a-m | 5:f-t", &[], "b g x", "7:a-b 7:b-c 9:c-d 7:d-f 7:f-g 7:g-m 5:m-t"),
        ("7:a-c | 5:x-z", &[], "m", "7:a-c 5:x-z"),
        ("7:a-c 6:a-c 5:a-c 4:a-c", &[4, 5], "", "7,5,4:a-c"),
    ] {
        assert_eq!(swept(sources, snapshots, seams), want, "{sources} {snapshots:?} {seams}");
    }
}

fn random_list(random: &mut Random, from: u64) -> Vec<RangeTombstone> {
    let (n, width) = (1 + random.below(10), 1 + random.below(40));
    let one = |seq| {
        let lo = random.below(100) as u8;
        let hi = lo + 1 + random.below(width) as u8;
        RangeTombstone::new(&[lo], &[hi], SeqNo(seq))
    };
    (from..from + n).map(one).collect()
}

fn over(list: &[RangeTombstone], key: u8, at: SeqNo) -> Option<SeqNo> {
    let covers = |t: &&RangeTombstone| *t.lo <= [key][..] && [key][..] < *t.hi && t.seq <= at;
    list.iter().filter(covers).map(|t| t.seq).max()
}

#[test]
fn coverage_is_that_of_the_list_wherever_a_reader_goes() {
    for seed in 0..100 {
        let mut random = Random::new(seed);
        let n = 1 + random.below(4);
        // Newest first, each of its own stretch of time.
        let parts: Vec<Vec<RangeTombstone>> =
            (0..n).rev().map(|i| random_list(&mut random, 1 + i * 20)).collect();
        let list: Vec<RangeTombstone> = parts.concat();
        let at = SeqNo(random.below(90));
        let sources = parts.iter().enumerate().map(|(i, part)| (i, piece(part))).collect();
        let mut coverage = Coverage::new(sources, at).unwrap();
        for _ in 0..400 {
            let key = random.below(160) as u8;
            let want = over(&list, key, at);
            assert_eq!(coverage.over(&[key]).unwrap(), want.unwrap_or_default(), "seed {seed}, key {key}");
            let hidden = coverage.hidden();
            assert_eq!(hidden.is_some(), want.is_some());
            if let Some((stream, lo, hi)) = hidden {
                assert!(lo <= &[key][..] && &[key][..] < hi);
                assert_eq!(over(&parts[stream], key, at), want, "seed {seed}, key {key}");
                // All of the stretch is under the same tombstone.
                for k in 0..=255u8 {
                    if lo <= &[k][..] && &[k][..] < hi {
                        assert_eq!(over(&list, k, at), want, "seed {seed}, key {k} beside {key}");
                    }
                }
            }
        }
    }
}

#[test]
fn a_sweep_says_of_every_key_what_every_snapshot_sees() {
    for seed in 0..200 {
        let mut random = Random::new(seed);
        let n = 1 + random.below(5);
        let parts: Vec<_> = (0..n).map(|i| random_list(&mut random, 1 + i * 20)).collect();
        let list: Vec<RangeTombstone> = parts.concat();
        let snapshots: Vec<SeqNo> = (0..random.below(4)).map(|_| SeqNo(random.below(100))).collect();
        let seams: Vec<Box<[u8]>> = (0..random.below(4)).map(|_| [random.below(140) as u8].into()).collect();
        let sources = parts.iter().map(|part| piece(part)).collect();
        let mut sweep = RangeSweep::new(sources, snapshots.clone(), seams.clone()).unwrap();
        let (mut pieces, mut next) = (Vec::new(), Piece::default());
        while sweep.next(&mut next).unwrap() {
            pieces.push(next.clone());
        }
        assert!(pieces.windows(2).all(|w| w[0].hi <= w[1].lo), "seed {seed}: {pieces:?}");
        for p in &pieces {
            assert!(p.lo < p.hi && p.seqs.is_sorted_by(|a, b| a > b), "seed {seed}: {p:?}");
            assert!(
                !seams.iter().any(|s| p.lo[..] < **s && **s < p.hi[..]),
                "seed {seed}: {p:?} spans a seam"
            );
            let stripe = |seq: &SeqNo| snapshots.iter().filter(|s| *s < seq).count();
            assert!(p.seqs.windows(2).all(|w| stripe(&w[0]) > stripe(&w[1])), "seed {seed}: {p:?}");
        }
        for key in 0..=255u8 {
            let found = pieces.iter().find(|p| p.lo[..] <= [key][..] && [key][..] < p.hi[..]);
            for at in snapshots.iter().copied().chain([SeqNo::MAX]) {
                let got = found.and_then(|p| p.seqs.iter().find(|s| **s <= at).copied());
                assert_eq!(got, over(&list, key, at), "seed {seed}, key {key} at {at}");
            }
        }
    }
}
