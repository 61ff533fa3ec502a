//! The tree as text, both ways: for people (`keel levels`), for failure messages, and for tests drawn as pictures.
//!
//! ```text
//! L0 T4 9[c-z] | 8[a-k]
//! L1 L  4[a-f] 5[g/j+-m] 6[n-z]
//! L2 T4{..n} 1[a-d] 2[e-m] | 3[b-k]  L{n..} 7[n-t]
//! ```
//!
//! `T4` is a group shaped for four runs, `L` for one; `{..n}` is its half-open range, where it is not every key. `|`
//! separates runs, newest first; `()` is an empty run. `9[c-z]` is table 9 with the keys c to z, both inside; of
//! `5[g/j+-m]` everything below `j+`, the key just above j, has been consumed. The range tombstones
//! of `9[c-k..m]` go on to below m; `9[c..m]` has nothing else. [`draw_full`] adds `#7:` before run 7, `@3` for group 3, and
//! each table's figures. Bytes other than letters, digits and `_` are `\xNN`.

use std::fmt::Write;

use super::group::Group;
use super::run::{SortedRun, TableRef};
use super::version::Version;
use crate::base::units::{GIB, KIB, MIB};
use crate::table::meta::Born;

/// The tree, one line a level.
pub fn draw(version: &Version) -> String {
    draw_with(version, false)
}

/// The tree with ids of groups and runs and each table's figures: what the parser needs to make the same tree again.
pub fn draw_full(version: &Version) -> String {
    draw_with(version, true)
}

/// One line a level: its groups, runs, tables and visible bytes. For trees too large to draw.
pub fn summarise(version: &Version) -> String {
    let mut out = String::new();
    for (i, level) in version.levels.iter().enumerate() {
        let runs: usize = level.groups.iter().map(|g| g.run_count()).sum();
        let most = level.groups.iter().map(|g| g.run_count()).max().unwrap_or(0);
        let tables: usize = level.runs().map(|r| r.tables.len()).sum();
        let shape = level.groups.iter().map(|g| g.run_bound).max().unwrap_or(1);
        let shape = if shape == 1 { "L".to_owned() } else { format!("T{shape}") };
        let _ = write!(out, "L{i:<2} {shape:<4} groups {:<4} runs {runs:<4}", level.groups.len());
        if level.groups.len() > 1 {
            let _ = write!(out, " (at most {most} a group)");
        }
        let _ = writeln!(out, " tables {tables:<6} {}", bytes_for_people(level.bytes()));
    }
    out
}

/// Bytes in the largest unit that leaves a number of at least one.
pub fn bytes_for_people(bytes: u64) -> String {
    let [kib, mib, gib] = [KIB, MIB, GIB].map(|unit| bytes as f64 / unit as f64);
    match bytes {
        GIB.. => format!("{gib:.1} GiB"),
        MIB.. => format!("{mib:.1} MiB"),
        KIB.. => format!("{kib:.1} KiB"),
        _ => format!("{bytes} B"),
    }
}

fn draw_with(version: &Version, full: bool) -> String {
    let mut out = String::new();
    for (i, level) in version.levels.iter().enumerate() {
        let _ = write!(out, "L{i}");
        for group in &level.groups {
            draw_group(&mut out, group, full);
        }
        out.push('\n');
    }
    out
}

fn draw_group(out: &mut String, group: &Group, full: bool) {
    match group.run_bound {
        1 => out.push_str(" L"),
        n => drop(write!(out, " T{n}")),
    }
    if full {
        let _ = write!(out, "@{}", group.id);
    }
    let (lo, hi) = (&group.range.lo, &group.range.hi);
    if !lo.is_empty() || hi.is_some() {
        let lo = if lo.is_empty() { String::new() } else { key_text(lo) };
        let _ = write!(out, "{{{lo}..{}}}", hi.as_deref().map(key_text).unwrap_or_default());
    }
    for (i, run) in group.runs.iter().enumerate() {
        out.push_str(if i == 0 { "" } else { " |" });
        draw_run(out, run, full);
    }
}

fn draw_run(out: &mut String, run: &SortedRun, full: bool) {
    if full {
        let _ = write!(out, " #{}:", run.id);
    }
    if run.tables.is_empty() {
        out.push_str(" ()");
    }
    for table in &run.tables {
        out.push(' ');
        out.push_str(&table_text(table, full));
    }
}

/// One table as it is drawn.
pub fn table_text(table: &TableRef, full: bool) -> String {
    let meta = &table.meta;
    let mut out = format!("{}[{}", meta.id, key_text(&meta.smallest));
    if *table.bounds.lo != *meta.smallest {
        let _ = write!(out, "/{}", key_text(&table.bounds.lo));
    }
    if meta.entries > 0 {
        let _ = write!(out, "-{}", key_text(&meta.largest));
    }
    if let Some(end) = &meta.end {
        let _ = write!(out, "..{}", key_text(end));
    }
    if full {
        let (lo, hi) = meta.seqs;
        let _ =
            write!(out, " bytes={} entries={} keys={} seqs={lo}..{hi}", meta.bytes, meta.entries, meta.keys);
        let born = match meta.born {
            Born::Flush => "flush",
            Born::Merge => "merge",
            Born::Burst => "burst",
            Born::Load => "load",
        };
        if meta.range_tombstones > 0 {
            let _ = write!(out, " ranges={}", meta.range_tombstones);
        }
        let _ = write!(out, " dels={} consumed={} born={born}", meta.tombstones, table.consumed);
        let _ = write!(out, " at={}", table.entered_level_ms);
        for (name, figure) in [
            ("dense", meta.dense_blocks),
            ("blocks", meta.blocks),
            ("deleted", meta.oldest_tombstone_ms.unwrap_or(0)),
            ("under", table.under_deletes_ms.unwrap_or(0)),
            ("made", meta.created_ms),
        ] {
            if figure > 0 {
                let _ = write!(out, " {name}={figure}");
            }
        }
    }
    out.push(']');
    out
}

/// A key in letters, digits, `_` and escapes; a closing zero byte is `+`, the empty key `\e`.
pub fn key_text(key: &[u8]) -> String {
    let (head, tail) = match key.split_last() {
        None => return "\\e".to_owned(),
        Some((0, head)) if !head.is_empty() => (head, "+"),
        Some(_) => (key, ""),
    };
    let mut out = String::new();
    for b in head {
        match b {
            b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' | b'_' => out.push(char::from(*b)),
            _ => drop(write!(out, "\\x{b:02x}")),
        }
    }
    out + tail
}
