//! What a strategy costs, without a byte of I/O: uniform overwrites through the production picker, placement, cutter and
//! commit, with tables that are lists of keys. The figures are exact and the same on every machine.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::claims::Claims;
use super::commit::{CommitPart, Committed, commit_part, flush, move_tables, set_levels};
use super::compaction::Compaction;
use super::cut::Cutter;
use super::picker::{Pick, pick};
use super::strategy::Strategy;
use super::tree_view::{Ids, TreeView};
use super::twin_world::Chance;
use crate::base::class::Permit;
use crate::base::units::{GroupId, JobId, SeqNo, TableId};
use crate::table::meta::{Born, TableMeta};
use crate::version::picture_parse::fabricated_meta;
use crate::version::version::Version;

const ENTRY_BYTES: u64 = 10;
const MEMTABLE_ENTRIES: usize = 200;

/// What a run cost.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cost {
    /// Bytes written by flushes and compactions per byte flushed.
    pub write_amplification: f64,
    /// Entries in the tree per key, the mean after each flush.
    pub space_amplification: f64,
    /// The largest of those.
    pub space_most: f64,
    /// Mean bytes of an output table.
    pub table_bytes: f64,
    /// Levels at the end.
    pub levels: usize,
}

struct Run {
    version: Version,
    claims: Claims,
    ids: Ids,
    cursors: BTreeMap<usize, Box<[u8]>>,
    tables: HashMap<TableId, Vec<u32>>,
    strategy: Strategy,
    next_table: u64,
    flushed: u64,
    written: u64,
    outputs: u64,
}

/// Overwrites `keys` keys evenly, `passes` times each on average; the second half is what counts.
pub fn overwrite(strategy: &str, keys: u32, passes: usize) -> Cost {
    let version = Version::empty(GroupId(1), 4);
    let mut run = Run {
        ids: Ids::above(&version),
        version,
        claims: Claims::default(),
        cursors: BTreeMap::new(),
        tables: HashMap::new(),
        strategy: strategy.parse().unwrap(),
        next_table: 1,
        flushed: 0,
        written: 0,
        outputs: 0,
    };
    let mut chance = Chance(7);
    let mut seen = BTreeSet::new();
    let flushes = keys as usize * passes / MEMTABLE_ENTRIES;
    let (mut cost, mut samples) = (Cost::default(), 0.0);
    for n in 0..flushes {
        if n == flushes / 2 {
            (run.flushed, run.written, run.outputs) = (0, 0, 0);
        }
        let mut memtable = BTreeSet::new();
        while memtable.len() < MEMTABLE_ENTRIES {
            memtable.insert(chance.below(keys as usize) as u32);
        }
        seen.extend(memtable.iter().copied());
        run.flush(memtable.into_iter().collect(), n as u64 + 1);
        run.settle();
        if n >= flushes / 2 {
            let entries: u64 = run.version.tables().map(|(_, t)| t.meta.entries).sum();
            let space = entries as f64 / seen.len() as f64;
            cost.space_amplification += space;
            cost.space_most = cost.space_most.max(space);
            samples += 1.0;
        }
    }
    cost.space_amplification /= samples;
    cost.write_amplification = (run.flushed + run.written) as f64 / run.flushed as f64;
    cost.table_bytes = run.written as f64 / run.outputs.max(1) as f64;
    cost.levels = run.version.levels.len();
    cost
}

impl Run {
    fn table(&mut self, keys: Vec<u32>, seq: u64, born: Born) -> Arc<TableMeta> {
        let id = self.next_table;
        self.next_table += 1;
        let (first, last) = (keys.first().unwrap().to_be_bytes(), keys.last().unwrap().to_be_bytes());
        let mut meta = fabricated_meta(id, &first, &last);
        meta.entries = keys.len() as u64;
        meta.keys = meta.entries;
        meta.bytes = meta.entries * ENTRY_BYTES;
        meta.seqs = (SeqNo(seq), SeqNo(seq));
        meta.born = born;
        self.tables.insert(meta.id, keys);
        Arc::new(meta)
    }

    fn flush(&mut self, keys: Vec<u32>, seq: u64) {
        self.flushed += keys.len() as u64 * ENTRY_BYTES;
        let table = self.table(keys, seq, Born::Flush);
        let mut ids = self.ids;
        let done = flush(&self.version, &self.claims, &mut ids, vec![table], SeqNo(seq), 0).unwrap();
        self.ids = ids;
        self.install(done);
    }

    fn install(&mut self, done: Committed) {
        done.edit.move_cursors(&mut self.cursors);
        self.version = done.version;
    }

    fn settle(&mut self) {
        loop {
            let mut ids = self.ids;
            if let Some(done) = set_levels(&self.version, &self.claims, &self.strategy, &mut ids).unwrap() {
                self.ids = ids;
                self.install(done);
            }
            let picked = {
                let (version, claims, cursors) = (&self.version, &self.claims, &self.cursors);
                let view = TreeView {
                    version,
                    claims,
                    cursors,
                    ids: self.ids,
                    now_ms: 0,
                    oldest_snapshot: SeqNo::MAX,
                    space_amp: 0.0,
                };
                pick(&view, &self.strategy, &Permit::everything())
            };
            let Pick::Run(picked) = picked else { return };
            self.ids = picked.ids;
            if picked.compaction.trivial_move {
                let done = move_tables(&self.version, &self.claims, &picked, 0).unwrap();
                self.install(done);
                continue;
            }
            self.version = self.version.apply(&picked.before).unwrap();
            let compaction = Arc::new(picked.compaction);
            self.claims.claim(JobId(1), Arc::clone(&compaction)).unwrap();
            let outputs = self.merge(&compaction);
            let part = CommitPart { outputs: vec![outputs], cut: None, consumed: Vec::new(), ends: true };
            let done = commit_part(&self.version, &self.claims, JobId(1), &part, 0).unwrap();
            self.claims.release(JobId(1));
            self.install(done);
        }
    }

    fn merge(&mut self, compaction: &Compaction) -> Vec<Arc<TableMeta>> {
        let mut keys: Vec<u32> = Vec::new();
        for table in compaction.tables() {
            keys.extend(&self.tables.remove(&table.id()).unwrap());
        }
        keys.sort_unstable();
        keys.dedup();
        let seq = compaction.tables().map(|t| t.meta.seqs.0.0).min().unwrap();
        // Bounds of the inputs that touch nothing else: no table may span two of these.
        let islands: BTreeSet<&[u8]> = compaction.tables().map(|t| &t.bounds.lo[..]).collect();
        let spans_gap = |last: u32, key: u32| {
            let covered = |t: &crate::version::run::TableRef| {
                t.bounds.lo[..] <= last.to_be_bytes()[..] && t.bounds.is_below_end(&key.to_be_bytes())
            };
            islands.range(&last.to_be_bytes()[..]..).next().is_some_and(|lo| **lo <= key.to_be_bytes()[..])
                && !compaction.tables().any(covered)
        };
        let (mut cutter, mut outputs, mut open) = (Cutter::new(compaction), Vec::new(), Vec::new());
        for key in keys {
            let gap = open.last().is_some_and(|last| spans_gap(*last, key));
            if (cutter.cuts_before(&key.to_be_bytes(), open.len() as u64 * ENTRY_BYTES) || gap)
                && !open.is_empty()
            {
                cutter.cut();
                outputs.push(std::mem::take(&mut open));
            }
            open.push(key);
        }
        outputs.push(open);
        self.written += outputs.iter().map(|o| o.len() as u64 * ENTRY_BYTES).sum::<u64>();
        self.outputs += outputs.len() as u64;
        outputs.into_iter().map(|keys| self.table(keys, seq, Born::Merge)).collect()
    }
}

const LEVELING: &str =
    "when=saturation how=runs:1 much=file which=least-overlap-parent; L0: when=runs how=runs:4 much=runs";
const SMALL: &str = "size: l0=8000 base=16000 ratio=10 table=2000";

#[test]
fn dynamic_sizes_keep_space_amplification_low_however_full_the_last_level_is() {
    // With fixed sizes the last level of the first tree is hardly begun, and of the second nearly full.
    for keys in [12_000, 40_000] {
        let of = |sizes: &str| overwrite(&format!("{LEVELING}; {SMALL} sizes={sizes}"), keys, 8);
        let (fixed, dynamic) = (of("fixed"), of("dynamic"));
        println!("SIZES keys={keys} fixed={fixed:?} dynamic={dynamic:?}");
        assert!(dynamic.space_amplification <= 1.2, "{dynamic:?}");
        assert!(dynamic.space_amplification < fixed.space_amplification, "{fixed:?} {dynamic:?}");
        assert!(dynamic.levels >= 3, "{dynamic:?}");
    }
}

#[test]
fn outputs_aligned_with_the_next_level_are_written_less_often() {
    let of = |cut: &str| overwrite(&format!("{LEVELING}; {SMALL} cut={cut}"), 40_000, 8);
    let (size, next) = (of("size"), of("next"));
    let ratio = next.write_amplification / size.write_amplification;
    println!("CUT size={size:?} next={next:?} write amplification x{ratio:.3}");
    assert!(ratio < 1.0, "{size:?} {next:?}");
    assert!(next.table_bytes >= 0.75 * size.table_bytes, "{size:?} {next:?}");
}
