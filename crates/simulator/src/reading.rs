//! What reads cost in a simulated tree, if nothing of it is in memory: pages of a get, runs of a seek.
//!
//! A get goes down the runs, newest first, until it finds the key. Each table over the key costs a page of its filter; one that has
//! the key, and one in so many that the filter lets pass by mistake, a page of its index and one of its data.

use evenkeel::plan::Version;
use evenkeel::strategy::Strategy;
use evenkeel_lab::base::random::mix64;

use crate::contents::Contents;
use crate::tape::Tape;

/// So many records are read after each flush if the operations read none.
const GETS: u64 = 16;

/// A store's filter bits unless it is told others.
const FILTER_BITS: f32 = 10.0;

/// Means over reads.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reading {
    gets: f64,
    pages: f64,
    runs: f64,
}

impl Reading {
    /// Pages of a get.
    pub fn pages_per_get(&self) -> f64 {
        self.pages / self.gets.max(f64::MIN_POSITIVE)
    }

    /// Runs of a seek.
    pub fn runs_per_seek(&self) -> f64 {
        self.runs / self.gets.max(f64::MIN_POSITIVE)
    }

    /// Does the reads that came while memtable `number` was filled, and has the tables that they look into know; where none came,
    /// some records are read, each as likely as any other, and no table knows.
    pub fn read(
        &mut self,
        tape: &Tape,
        number: usize,
        version: &Version,
        contents: &Contents,
        strategy: &Strategy,
        now_ms: u64,
    ) {
        let Some(memtable) = tape.memtables.get(number) else { return };
        let kept: f32 = memtable.reads.iter().map(|(_, weight)| weight).sum();
        if memtable.reads.is_empty() {
            for n in 0..GETS {
                let drawn = mix64(number as u64 * GETS + n) % tape.keys.max(1) as u64;
                let weight = tape.weights.get(drawn as usize).copied().unwrap_or(0);
                self.get(drawn as u32, f64::from(weight), version, contents, strategy, None);
            }
            return;
        }
        let all = memtable.reads_total as f64 / f64::from(kept);
        for (key, weight) in &memtable.reads {
            let reads = f64::from(*weight) * all;
            let access = Some((reads.round() as u64, now_ms));
            self.get(*key, reads, version, contents, strategy, access);
        }
    }

    fn get(
        &mut self,
        key: u32,
        reads: f64,
        version: &Version,
        contents: &Contents,
        strategy: &Strategy,
        access: Option<(u64, u64)>,
    ) {
        let bytes = key.to_be_bytes();
        let levels = version.levels.len();
        let (mut pages, mut runs, mut found) = (0.0, 0.0, false);
        let mut below = version.runs_at(&bytes);
        while let Some((level, run)) = below.next() {
            runs += 1.0;
            let Some(table) = run.table_for(&bytes).filter(|_| !found) else { continue };
            let is_above =
                level + 1 == levels && below.clone().any(|(_, run)| run.table_for(&bytes).is_some());
            if let Some((reads, now_ms)) = access {
                table.meta.access.add(reads, now_ms);
            }
            // The strategy says how many; only one that was not resolved leaves it to the usual ones.
            let bits = strategy.filter_bits_at(level, levels, is_above).of(FILTER_BITS);
            found = contents.of(table.id()).binary_search_by_key(&key, |e| e.key).is_ok();
            let filter = if bits > 0.0 { 1.0 } else { 0.0 };
            pages += filter + if found { 2.0 } else { 2.0 * passes_by_mistake(bits) };
        }
        if access.is_none() && !found {
            // Not written yet.
            return;
        }
        self.gets += reads;
        self.pages += pages * reads;
        self.runs += runs * reads;
    }
}

/// The share of missing keys that a filter of so many bits a key lets pass: a blocked Bloom filter's.
fn passes_by_mistake(bits: f32) -> f64 {
    0.6185_f64.powf(f64::from(bits)).max(0.0) * if bits > 0.0 { 1.2 } else { 1.0 }
}
