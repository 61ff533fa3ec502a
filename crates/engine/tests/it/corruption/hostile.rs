//! Changes by somebody who makes the checksums right again: of log and manifest records, of a table's index and facts.

use evenkeel::testing::{Random, mend};

use super::Files;

/// Bytes before a record's payload, and those of a table's last block.
const FRAME: usize = 24;
const FOOTER: usize = 64;

/// Numbers at the edges of what a field can hold.
const EDGES: [u64; 9] = [0, 1, 0x7f, 0xffff, 0x7fff_ffff, 0xffff_ffff, 1 << 40, i64::MAX as u64, u64::MAX];

/// Changes one file or several, and says which and how.
pub fn change(files: &mut Files, random: &mut Random) -> String {
    let names: Vec<String> = files.keys().filter(|name| !files[*name].is_empty()).cloned().collect();
    let mut said = String::new();
    for _ in 0..1 + random.below(2) {
        let name = &names[random.below(names.len() as u64) as usize];
        let Some(bytes) = files.get_mut(name) else { continue };
        said += &match parts(name, bytes) {
            parts if parts.is_empty() || random.one_in(6) => {
                edit(bytes, random);
                format!("{name} anywhere; ")
            }
            parts => {
                let part = parts[random.below(parts.len() as u64) as usize];
                edit_in_place(&mut bytes[part.0..part.1], random);
                format!("{name} {} to {}; ", part.0, part.1)
            }
        };
        mend(name, bytes);
    }
    said
}

/// Where payloads are.
fn parts(name: &str, bytes: &[u8]) -> Vec<(usize, usize)> {
    if id_of(name).is_some() {
        return records(bytes).into_iter().map(|at| (at + FRAME, at + FRAME + len(bytes, at))).collect();
    }
    if name.ends_with(".sst") {
        return blocks(bytes).into_iter().map(|(from, to)| (from, to - 9)).collect();
    }
    if name.starts_with("OPTIONS") {
        return vec![(0, bytes.len().saturating_sub(26))];
    }
    Vec::new()
}

/// The number of a log or manifest.
fn id_of(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".log").or(name.strip_prefix("MANIFEST-"))?;
    digits.parse().ok()
}

/// Where records begin, as far as their lengths lead.
fn records(bytes: &[u8]) -> Vec<usize> {
    let (mut at, mut all) = (0, Vec::new());
    while at + FRAME <= bytes.len() && bytes[at..at + FRAME].iter().any(|byte| *byte != 0) {
        let end = at + FRAME + len(bytes, at);
        if end > bytes.len() {
            break;
        }
        all.push(at);
        at = end;
    }
    all
}

fn len(bytes: &[u8], at: usize) -> usize {
    bytes[at + 8..at + 12].iter().rev().fold(0, |sum, byte| sum << 8 | usize::from(*byte))
}

/// The blocks that the footer points to.
fn blocks(bytes: &[u8]) -> Vec<(usize, usize)> {
    let Some(footer) = bytes.len().checked_sub(FOOTER) else { return Vec::new() };
    let handle = |at: usize| {
        let from = u64_at(bytes, footer + at)? as usize;
        let len = u64_at(bytes, footer + at + 8)? as u32 as usize;
        let to = from.checked_add(len)?;
        (len > 9 && to <= footer).then_some((from, to))
    };
    [32, 44].into_iter().filter_map(handle).collect()
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// A few changes that keep the length.
fn edit_in_place(bytes: &mut [u8], random: &mut Random) {
    if bytes.is_empty() {
        return;
    }
    for _ in 0..1 + random.below(4) {
        let at = random.below(bytes.len() as u64) as usize;
        match random.below(4) {
            0 => bytes[at] = random.next_u64() as u8,
            1 => bytes[at] ^= 1 << random.below(8),
            2 => {
                let edge = EDGES[random.below(EDGES.len() as u64) as usize].to_le_bytes();
                let width = [1, 2, 4, 8][random.below(4) as usize].min(bytes.len() - at);
                bytes[at..at + width].copy_from_slice(&edge[..width]);
            }
            _ => {
                let from = random.below(bytes.len() as u64) as usize;
                let width = (random.below(16) as usize).min(bytes.len() - from.max(at));
                bytes.copy_within(from..from + width, at);
            }
        }
    }
}

/// Changes that may make it longer or shorter.
fn edit(bytes: &mut Vec<u8>, random: &mut Random) {
    let at = random.below(bytes.len() as u64) as usize;
    let width = (random.below(64) as usize).min(bytes.len() - at);
    match random.below(3) {
        0 => drop(bytes.drain(at..at + width)),
        1 => {
            let piece = bytes[at..at + width].to_vec();
            bytes.splice(at..at, piece);
        }
        _ => edit_in_place(bytes, random),
    }
}
