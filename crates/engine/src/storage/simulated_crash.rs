//! What is left of the simulated disk after a crash: a pure function from what was durable, what was not, a policy and
//! a seed.
//!
//! What was synced is always there. Of the rest a policy decides; the in-flight call counts as made but not synced, so
//! its effect may be there, or not, or in part. Within a page of 4 KiB writes survive in their order, as in a page
//! cache; nothing orders two pages, two files, or two names.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::base::random::Random;
use crate::storage::simulated_state::{Directory, File, FileOp, FileState, Image, Tree};

/// Bytes that a page cache writes at once.
const PAGE: u64 = 4096;

/// Bytes that a disk writes whole or not at all.
const SECTOR: u64 = 512;

/// What a crash does with that which was not synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrashPolicy {
    /// All of it is lost.
    DropUnsynced,
    /// All of it survives.
    KeepAll,
    /// A random prefix survives, in the order in which the operations were made.
    Prefix,
    /// Each page and each change of a directory survives or not, by chance; lost pages within a file read as zeros.
    RandomBlocks,
    /// All survives, but of the last write only random sectors.
    TornLast,
    /// Names and lengths survive, but where files grew there are zeros.
    ZeroFilled,
    /// Names survive, data and lengths do not.
    EntriesOnly,
    /// Data survives, names do not: what was made is gone, what was renamed or removed is back.
    DataOnly,
}

impl CrashPolicy {
    /// All policies.
    pub const ALL: [CrashPolicy; 8] = [
        CrashPolicy::DropUnsynced,
        CrashPolicy::KeepAll,
        CrashPolicy::Prefix,
        CrashPolicy::RandomBlocks,
        CrashPolicy::TornLast,
        CrashPolicy::ZeroFilled,
        CrashPolicy::EntriesOnly,
        CrashPolicy::DataOnly,
    ];
}

/// The tree after a crash, all of it durable.
pub(in crate::storage) fn crashed(tree: &Tree, seed: u64, policy: CrashPolicy) -> Tree {
    let mut crash =
        Crash { policy, random: Random::new(seed), cut: u64::MAX, last: None, rebuilt: BTreeMap::new() };
    let mut orders = pending_orders(tree);
    orders.sort_unstable();
    if policy == CrashPolicy::Prefix {
        let kept = crash.random.below(orders.len() as u64 + 1) as usize;
        crash.cut = orders.get(kept).copied().unwrap_or(u64::MAX);
    }
    crash.last = orders.last().copied();
    let named = |path: &PathBuf, dir: &Directory, crash: &mut Crash| match &dir.was {
        Some((order, old)) if !crash.keeps_entry(*order) && !tree.contains_key(old) => old.clone(),
        _ => path.clone(),
    };
    tree.iter().map(|(path, dir)| (named(path, dir, &mut crash), crash.directory(dir))).collect()
}

/// The tree as the next process finds it when only the process died: nothing is lost, and nothing is more durable.
pub(in crate::storage) fn copied(tree: &Tree) -> Tree {
    let mut copies: BTreeMap<usize, File> = BTreeMap::new();
    let mut copy =
        |file: &File| copies.entry(file.key()).or_insert_with(|| File::new(file.state().clone())).clone();
    tree.iter()
        .map(|(path, dir)| {
            let durable = dir.durable.iter().map(|(name, file)| (name.clone(), copy(file))).collect();
            let current = dir.current.iter().map(|(name, file)| (name.clone(), copy(file))).collect();
            let pending = dir.pending.iter().map(|(at, op)| (*at, op.with_files(&mut copy))).collect();
            (path.clone(), Directory { durable, current, pending, was: dir.was.clone() })
        })
        .collect()
}

/// The places in the disk's order of everything that is not durable.
fn pending_orders(tree: &Tree) -> Vec<u64> {
    let mut orders = Vec::new();
    let mut seen = BTreeMap::new();
    for dir in tree.values() {
        orders.extend(dir.was.iter().map(|(order, _)| *order));
        orders.extend(dir.pending.iter().map(|(order, _)| *order));
        for file in dir.current.values().chain(dir.durable.values()) {
            if seen.insert(file.key(), ()).is_none() {
                orders.extend(file.state().pending.iter().map(|(order, _)| *order));
            }
        }
    }
    orders
}

struct Crash {
    policy: CrashPolicy,
    random: Random,
    /// Under `Prefix`: the first operation that is lost.
    cut: u64,
    /// The last operation of all that are not durable.
    last: Option<u64>,
    /// A file of several names is decided on once.
    rebuilt: BTreeMap<usize, File>,
}

impl Crash {
    fn directory(&mut self, dir: &Directory) -> Directory {
        let mut entries = dir.durable.clone();
        for (order, op) in &dir.pending {
            if self.keeps_entry(*order) {
                op.apply(&mut entries);
            }
        }
        let entries: BTreeMap<_, _> =
            entries.iter().map(|(name, file)| (name.clone(), self.file(file))).collect();
        Directory { durable: entries.clone(), current: entries, ..Directory::default() }
    }

    /// If a change of a name survives.
    fn keeps_entry(&mut self, order: u64) -> bool {
        match self.policy {
            CrashPolicy::DropUnsynced | CrashPolicy::DataOnly => false,
            CrashPolicy::KeepAll
            | CrashPolicy::TornLast
            | CrashPolicy::ZeroFilled
            | CrashPolicy::EntriesOnly => true,
            CrashPolicy::Prefix => order < self.cut,
            CrashPolicy::RandomBlocks => self.random.one_in(2),
        }
    }

    fn file(&mut self, file: &File) -> File {
        if let Some(done) = self.rebuilt.get(&file.key()) {
            return done.clone();
        }
        let image = self.image(&file.state());
        let done = File::new(FileState { durable: image.clone(), current: image, pending: Vec::new() });
        self.rebuilt.insert(file.key(), done.clone());
        done
    }

    fn image(&mut self, file: &FileState) -> Image {
        let mut image = file.durable.clone();
        let mut pages = BTreeMap::new();
        for (order, op) in &file.pending {
            match op {
                FileOp::SetLen(len) if self.keeps_length(*order) => image.set_len(*len),
                FileOp::SetLen(_) => {}
                FileOp::Write { offset, bytes } => self.write(&mut image, &mut pages, *order, *offset, bytes),
            }
        }
        image
    }

    fn keeps_length(&mut self, order: u64) -> bool {
        match self.policy {
            CrashPolicy::DropUnsynced | CrashPolicy::EntriesOnly => false,
            CrashPolicy::Prefix => order < self.cut,
            CrashPolicy::RandomBlocks => self.random.one_in(2),
            CrashPolicy::KeepAll
            | CrashPolicy::TornLast
            | CrashPolicy::ZeroFilled
            | CrashPolicy::DataOnly => true,
        }
    }

    /// Lets a write survive as the policy has it. `pages` holds, for each page of the file, the first write to it that
    /// is lost.
    fn write(
        &mut self,
        image: &mut Image,
        pages: &mut BTreeMap<u64, u64>,
        order: u64,
        offset: u64,
        bytes: &[u8],
    ) {
        match self.policy {
            CrashPolicy::DropUnsynced | CrashPolicy::EntriesOnly => {}
            CrashPolicy::KeepAll | CrashPolicy::DataOnly => image.write(offset, bytes),
            CrashPolicy::Prefix if order < self.cut => image.write(offset, bytes),
            CrashPolicy::Prefix => {}
            CrashPolicy::ZeroFilled => image.len = image.len.max(offset + bytes.len() as u64),
            CrashPolicy::TornLast if Some(order) != self.last => image.write(offset, bytes),
            CrashPolicy::TornLast => {
                for (at, piece) in pieces(offset, bytes, SECTOR) {
                    if self.random.one_in(2) {
                        image.write(at, piece);
                    }
                }
            }
            CrashPolicy::RandomBlocks => {
                let last = self.last.unwrap_or(order);
                for (at, piece) in pieces(offset, bytes, PAGE) {
                    let lost_from = *pages.entry(at / PAGE).or_insert_with(|| match self.random.below(3) {
                        0 => 0,
                        1 => u64::MAX,
                        _ => order + self.random.below(last - order + 1),
                    });
                    if order < lost_from {
                        image.write(at, piece);
                    }
                }
            }
        }
    }
}

/// `bytes` at `offset`, cut at the multiples of `unit`.
fn pieces(offset: u64, bytes: &[u8], unit: u64) -> Vec<(u64, &[u8])> {
    let mut out = Vec::new();
    let (mut at, mut rest) = (offset, bytes);
    while !rest.is_empty() {
        let (piece, tail) = rest.split_at(rest.len().min((unit - at % unit) as usize));
        out.push((at, piece));
        at += piece.len() as u64;
        rest = tail;
    }
    out
}
