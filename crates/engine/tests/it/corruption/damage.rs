//! Damages as data: every one that one byte, one sector, one length or one file can take.

use super::Files;

const SECTOR: usize = 512;

/// What happens to the files of a store.
#[derive(Clone, Debug)]
pub enum Damage {
    /// A byte of a file becomes something else.
    Byte { file: String, at: usize, change: Change },
    /// A file ends here.
    Cut { file: String, len: usize },
    /// A sector reads as zeros.
    Hole { file: String, at: usize },
    /// A sector holds what the one before it does.
    Repeated { file: String, at: usize },
    /// A sector and the one before it have changed places.
    Crossed { file: String, at: usize },
    /// Two files have each other's bytes.
    Swapped { files: [String; 2] },
    /// A file is what it was some time ago.
    Stale { file: String },
    /// A file is gone.
    Missing { file: String },
}

/// How a byte is changed.
#[derive(Clone, Copy, Debug)]
pub enum Change {
    Low,
    High,
    Zero,
    Ones,
}

impl Change {
    const ALL: [Change; 4] = [Change::Low, Change::High, Change::Zero, Change::Ones];

    fn of(self, byte: u8) -> u8 {
        match self {
            Change::Low => byte ^ 1,
            Change::High => byte ^ 0x80,
            Change::Zero => 0,
            Change::Ones => 0xff,
        }
    }
}

/// Bytes up to which a file is worth damaging.
fn used(bytes: &[u8]) -> usize {
    // Most of a log is zeros to its end; a few of them are enough.
    bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| (last + 40).min(bytes.len()))
}

/// Every damage, of bytes and lengths each `stride`-th only.
pub fn all(files: &Files, earlier: &Files, stride: usize, from: usize) -> Vec<Damage> {
    let mut all = Vec::new();
    for (name, bytes) in files {
        let (file, used) = (|| name.clone(), used(bytes));
        for at in (from % stride..used).step_by(stride) {
            all.extend(Change::ALL.map(|change| Damage::Byte { file: file(), at, change }));
            all.push(Damage::Cut { file: file(), len: at });
        }
        for at in (0..used).step_by(SECTOR) {
            all.push(Damage::Hole { file: file(), at });
            all.push(Damage::Repeated { file: file(), at });
            all.push(Damage::Crossed { file: file(), at });
        }
        if earlier.contains_key(name) {
            all.push(Damage::Stale { file: file() });
        }
        all.push(Damage::Missing { file: file() });
        let others = files.keys().filter(|other| *other > name && kind(other) == kind(name));
        all.extend(others.map(|other| Damage::Swapped { files: [file(), other.clone()] }));
    }
    all
}

/// The name without its number.
fn kind(name: &str) -> String {
    name.chars().filter(|c| !c.is_ascii_digit()).collect()
}

impl Damage {
    /// The files after it; nothing if it changes none.
    pub fn of(&self, files: &Files, earlier: &Files) -> Option<Files> {
        let mut damaged = files.clone();
        match self {
            Damage::Byte { file, at, change } => {
                let byte = damaged.get_mut(file)?.get_mut(*at)?;
                *byte = change.of(*byte);
            }
            Damage::Cut { file, len } => damaged.get_mut(file)?.truncate(*len),
            Damage::Hole { file, at } => {
                let bytes = damaged.get_mut(file)?;
                let end = (at + SECTOR).min(bytes.len());
                bytes.get_mut(*at..end)?.fill(0);
            }
            Damage::Repeated { file, at } => {
                let bytes = damaged.get_mut(file)?;
                let end = (at + SECTOR).min(bytes.len());
                let before = at.checked_sub(SECTOR)?;
                bytes.copy_within(before..before + (end - at), *at);
            }
            Damage::Crossed { file, at } => {
                let bytes = damaged.get_mut(file)?;
                let before = at.checked_sub(SECTOR)?;
                let (left, right) = bytes.split_at_mut_checked(*at)?;
                let len = right.len().min(SECTOR);
                left.get_mut(before..before + len)?.swap_with_slice(right.get_mut(..len)?);
            }
            Damage::Swapped { files: [one, other] } => {
                let (a, b) = (files.get(one)?.clone(), files.get(other)?.clone());
                damaged.insert(one.clone(), b);
                damaged.insert(other.clone(), a);
            }
            Damage::Stale { file } => drop(damaged.insert(file.clone(), earlier.get(file)?.clone())),
            Damage::Missing { file } => drop(damaged.remove(file)),
        }
        (damaged != *files).then_some(damaged)
    }
}
