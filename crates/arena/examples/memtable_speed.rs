//! Prints the cost of insert, get and scan at 500 000 entries of 16 + 100 bytes, the sizes and the order of
//! `docs/performance.md`, alone and with a reader beside the writer: CPU time of the thread, best of some repeats. Run
//! it with `--release`, best on a quiet machine.
#![cfg(not(loom))]

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use evenkeel_arena::{Cursor, Tree, Writer, tree};
use evenkeel_sys::thread_cpu_time;

const ENTRIES: u64 = 500_000;
const REPEATS: usize = 5;

fn main() {
    for (name, head) in [("random keys", &b""[..]), ("10-byte shared head, skipped", b"user:key::")] {
        println!("{name}");
        let mut best = [f64::MAX; 7];
        for _ in 0..REPEATS {
            for (best, ns) in best.iter_mut().zip(measure(head)) {
                *best = best.min(ns);
            }
        }
        let [insert, last, hit, miss, up, down, beside] = best;
        println!("  insert {insert:.0} ns, last tenth {last:.0}; with a reader beside {beside:.0}");
        println!("  get hit {hit:.0} ns, miss {miss:.0}; scan up {up:.0} ns an entry, down {down:.0}");
    }
}

fn measure(head: &[u8]) -> [f64; 7] {
    let (mut writer, tree) = tree(head, 64 << 20);
    let (nine_tenths, first) = timed(|| fill(&mut writer, head, 0..ENTRIES / 10 * 9));
    let (_, last) = timed(|| fill(&mut writer, head, ENTRIES / 10 * 9..ENTRIES));
    let n = ENTRIES as f64;
    let (hits, hit) = timed(|| get_all(&tree, head, 0));
    let (misses, miss) = timed(|| get_all(&tree, head, ENTRIES));
    assert_eq!((hits, misses, nine_tenths), (ENTRIES, 0, ENTRIES / 10 * 9));
    let (met_up, up) = timed(|| scan(&tree, true));
    let (met_down, down) = timed(|| scan(&tree, false));
    assert_eq!((met_up, met_down), (ENTRIES, ENTRIES));
    let used = tree.memory_used() as f64 / n - 116.0;
    println!("  {used:.1} bytes an entry over key and value; {} KiB reserved", tree.memory_reserved() >> 10);
    let beside = with_a_reader(head);
    [(first + last) / n, last / (n / 10.0), hit / n, miss / n, up / n, down / n, beside / n]
}

fn with_a_reader(head: &[u8]) -> f64 {
    let (mut writer, tree) = tree(head, 64 << 20);
    let published = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let filling = scope.spawn(|| {
            timed(|| {
                for i in 0..ENTRIES {
                    fill(&mut writer, head, i..i + 1);
                    published.store(i + 1, Ordering::Release);
                }
            })
            .1
        });
        let mut i = 0u64;
        loop {
            let seen = published.load(Ordering::Acquire);
            if seen == ENTRIES {
                break;
            }
            if seen > 0 {
                i = (i * 31 + 7) % seen;
                assert!(tree.get(&key(head, i), u64::MAX).is_some(), "a published key was lost");
            }
        }
        filling.join().expect("the writer ended well")
    })
}

fn fill(writer: &mut Writer, head: &[u8], range: std::ops::Range<u64>) -> u64 {
    let count = range.end - range.start;
    for i in range {
        writer.insert(&key(head, i), i, &[i as u8; 100]);
    }
    count
}

fn get_all(tree: &Arc<Tree>, head: &[u8], from: u64) -> u64 {
    let mut found = 0;
    let mut i = 0;
    for _ in 0..ENTRIES {
        // Each lookup waits for the one before, as a client's would, in an order unlike that of insertion.
        i = (i + 77_777) % ENTRIES;
        if let Some((_, value)) = tree.get(&key(head, from + i), u64::MAX) {
            found += 1;
            i += u64::from(value[99] != value[0]);
        }
    }
    found
}

fn scan(tree: &Arc<Tree>, upward: bool) -> u64 {
    let mut cursor = tree.cursor();
    let (start, step): (fn(&mut Cursor), fn(&mut Cursor)) =
        if upward { (Cursor::seek_to_first, Cursor::next) } else { (Cursor::seek_to_last, Cursor::prev) };
    start(&mut cursor);
    let mut met = 0;
    while cursor.valid() {
        black_box(cursor.key()[0]);
        met += 1;
        step(&mut cursor);
    }
    met
}

/// 16 bytes: the head, then the scrambled number.
fn key(head: &[u8], i: u64) -> [u8; 16] {
    let mut key = [0u8; 16];
    key[..head.len()].copy_from_slice(head);
    // Odd multipliers permute the numbers, so keys are distinct.
    let word = (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let rest = 16 - head.len();
    if rest >= 8 {
        key[head.len()..head.len() + 8].copy_from_slice(&word.to_be_bytes());
    } else {
        let small = ((i + 1).wrapping_mul(0x9e37_79b9_7f4b) & 0xffff_ffff_ffff).to_be_bytes();
        key[head.len()..].copy_from_slice(&small[8 - rest..]);
    }
    key
}

fn timed<T>(run: impl FnOnce() -> T) -> (T, f64) {
    let start = thread_cpu_time();
    let out = run();
    (out, (thread_cpu_time() - start).as_nanos() as f64)
}
