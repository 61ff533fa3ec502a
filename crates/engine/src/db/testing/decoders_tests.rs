//! What every decoder's corpus begins with: pieces of stores that were really written.
//!
//! `EVENKEEL_CORPORA=write cargo test -p evenkeel --lib decoders` writes them to `fuzz/corpus`, beside what fuzzing has found there.
#![allow(clippy::disallowed_methods, reason = "writes its own test data")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::decoders::DECODERS;
use crate::base::class::IoClass;
use crate::base::clock::ManualClock;
use crate::base::coding::put_bytes;
use crate::base::random::Random;
use crate::base::units::KeyspaceId;
use crate::db::background::control_protocol::VERBS;
use crate::db::database::Db;
use crate::db::files::heat_file;
use crate::db::files::trace_file::Keys;
use crate::hotness::key_histogram::KeySpread;
use crate::hotness::predictor::{HeatSample, Learning, Predictor};
use crate::options::{KeyspaceOptions, Options};
use crate::storage::file_name::FileName;
use crate::storage::file_system::FileSystem;
use crate::storage::record::LogKind;
use crate::storage::record_reader::{LogToRead, RecordReader};
use crate::storage::simulated::SimulatedFileSystem;
use crate::table::block::{Content, Layout};
use crate::table::block_file::BlockFile;
use crate::table::format::{BlockHandle, FOOTER_BYTES, Footer};
use crate::write::batch::WriteBatch;

const DIR: &str = "/store";

/// Bytes of an input that is kept; a longer one is fuzzed slowly and adds little.
const BYTES_MAX: usize = 24 << 10;

/// Inputs of one decoder that are kept.
const EACH: usize = 16;

type Seeds = BTreeMap<&'static str, Vec<Vec<u8>>>;

/// A store of a strategy, closed or as a kill leaves it.
fn store(strategy: &str, compression: &str, closed: bool) -> SimulatedFileSystem {
    let fs = SimulatedFileSystem::new();
    let options = Options {
        strategy: Some(strategy.to_owned()),
        compression: compression.parse().unwrap(),
        prefix_filter: "fixed:2".parse().unwrap(),
        memtable_bytes: 2 << 10,
        table_bytes: 2 << 10,
        block_bytes: 256,
        level_base_bytes: 4 << 10,
        level_ratio: 3,
        l0_trigger: 2,
        wal_bytes_max: 64 << 10,
        reserve_bytes: 0,
        ..Options::default()
    };
    let clock = Arc::new(ManualClock::default());
    clock.advance(Duration::from_secs(1));
    let builder = Db::builder(DIR).options(options).file_system(Arc::new(fs.clone())).clock(clock);
    let db = builder.without_threads().open().unwrap();
    let other = db.create_keyspace("other/ä", KeyspaceOptions::default()).unwrap();
    let trace = db.start_trace("/store/trace", Keys::Plain).unwrap();
    let mut random = Random::new(strategy.len() as u64);
    for n in 0..140_u64 {
        let key = |n: u64| format!("key {n:04}").into_bytes();
        let mut batch = WriteBatch::new();
        match random.below(9) {
            0 => batch.delete_range(&key(n / 2), &key(n / 2 + 5)),
            1 => batch.delete(&key(random.below(140))),
            2 => batch.put_in(&other, &n.to_be_bytes(), b""),
            _ => batch.put(&key(random.below(140)), &vec![b'v'; random.below(60) as usize]),
        };
        db.write(batch).unwrap();
        db.get(&key(n)).unwrap();
        db.step(&mut |jobs| jobs.first().map(|job| job.0));
    }
    drop(trace);
    if !closed {
        return fs.process_kill();
    }
    db.close().unwrap();
    fs
}

fn seeds() -> Seeds {
    let mut seeds = Seeds::new();
    for (strategy, compression, closed) in
        [("lo+1", "none", true), ("tier", "lz4", false), ("l-leveling", "auto", true)]
    {
        let fs = store(strategy, compression, closed);
        add_files(&mut seeds, &fs);
    }
    let mut heat = Predictor::new(Learning::default());
    let table = KeySpread { smallest: b"a", largest: b"z", quantiles: &[b"m"[..].into()], entries: 100 };
    heat.train(20_000, &[vec![HeatSample { table, heat: Some(0.5) }; 3]]);
    seeds.entry("heat").or_default().push(heat_file::encode(&[(KeyspaceId(0), heat)].into()));
    let words = seeds.entry("words").or_default();
    words.extend(crate::compaction::catalog::CATALOG.iter().map(|row| row.text.as_bytes().to_vec()));
    words.extend(crate::scheduler::catalog::CATALOG.iter().map(|row| row.0.as_bytes().to_vec()));
    words.extend(
        ["000012.sst", "MANIFEST-000007", "LOG.old.000001", "compression=none,lz4", "memtable_bytes=64MiB"]
            .map(|word| word.as_bytes().to_vec()),
    );
    let control = seeds.entry("control").or_default();
    control.extend(VERBS.split(' ').map(|verb| verb.as_bytes().to_vec()));
    control.extend(
        [
            "set-strategy default lo+1\nlevels default\nexplain",
            "strategy-cost default tier\nschedule\nset-schedule silk",
            "space de%66ault\ndecisions 3\ndecision 7\nproperties %00",
        ]
        .map(|lines| lines.as_bytes().to_vec()),
    );
    let mut random = Random::new(7);
    let history = |_| (0..600).map(|_| random.next_u64() as u8).collect();
    seeds.entry("history").or_default().extend((0..8).map(history));
    seeds
}

fn add_files(seeds: &mut Seeds, fs: &SimulatedFileSystem) {
    let (dir, mut archive) = (Path::new(DIR), Vec::new());
    let mut add = |name: &'static str, bytes: &[u8]| seeds.entry(name).or_default().push(bytes.to_vec());
    for name in fs.list(dir).unwrap() {
        let bytes = fs.contents(&dir.join(&name)).unwrap();
        let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        if name == "trace" {
            add("trace", &bytes);
            continue;
        }
        match FileName::parse(&name) {
            Some(FileName::Table(_)) => {
                add("table", &bytes);
                add_table(&mut add, fs, &dir.join(&name));
            }
            Some(FileName::Wal(id)) => {
                add("log", &bytes[..used]);
                records(fs, &dir.join(&name), LogKind::Wal, id).iter().for_each(|batch| add("batch", batch));
            }
            Some(FileName::Manifest(id)) => {
                add("manifest", &bytes);
                let mut framed = Vec::new();
                records(fs, &dir.join(&name), LogKind::Manifest, id)
                    .iter()
                    .for_each(|r| put_bytes(&mut framed, r));
                add("manifest_record", &framed);
            }
            Some(FileName::Current) => add("current", &bytes),
            Some(FileName::Options(_)) => add("options", &bytes),
            _ => {}
        }
        archive.push(name.len() as u8);
        archive.extend_from_slice(name.as_bytes());
        archive.extend_from_slice(&(used as u32).to_le_bytes());
        archive.extend_from_slice(&bytes[..used]);
    }
    add("directory", &archive);
}

fn records(fs: &SimulatedFileSystem, path: &Path, kind: LogKind, id: u64) -> Vec<Vec<u8>> {
    let log = LogToRead { kind, id, promised: 0, payload_max: 1 << 20, class: IoClass::Client };
    let mut reader = RecordReader::open(fs.open(path).unwrap(), log).unwrap();
    let mut records = Vec::new();
    while let Some(record) = reader.next().unwrap() {
        records.push(record.payload.to_vec());
    }
    records
}

/// The pieces of a table.
fn add_table(add: &mut dyn FnMut(&'static str, &[u8]), fs: &SimulatedFileSystem, path: &Path) {
    let bytes = fs.contents(path).unwrap();
    // A kill leaves tables that were not finished.
    let Some(end) = bytes.len().checked_sub(FOOTER_BYTES) else { return };
    let Ok(footer) = Footer::decode(&bytes[end..]) else { return };
    add("footer", &bytes[end..]);
    let file = BlockFile::new(fs.open(path).unwrap(), footer.unique_id, end as u64);
    let payload = |handle| file.read(handle, IoClass::Client, |payload| Ok(payload.to_vec())).unwrap();
    add("facts", &payload(footer.properties));
    if footer.ranges_bytes > 0 {
        let ranges = payload(footer.ranges());
        (1..4_u16).for_each(|count| add("ranges", &[&count.to_le_bytes(), &ranges[..]].concat()));
    }
    if footer.top.bytes == 0 {
        return;
    }
    let top = payload(footer.top);
    add("block", &top);
    for (offset, value) in entries(&top) {
        let word = |at: usize| u32::from_le_bytes(value[at..at + 4].try_into().unwrap());
        let index = payload(BlockHandle { offset, bytes: word(0) });
        add("block", &index);
        let filter = u64::from_le_bytes(value[4..12].try_into().unwrap());
        add("filter", &payload(BlockHandle { offset: filter, bytes: word(12) }));
        for (offset, value) in entries(&index) {
            let len = u32::from_le_bytes(value[..4].try_into().unwrap());
            let stored = &bytes[offset as usize..offset as usize + len as usize - 9];
            let kind = bytes[offset as usize + len as usize - 9];
            add("packed_block", &[&[kind], stored].concat());
            add("block", &payload(BlockHandle { offset, bytes: len }));
        }
    }
}

fn entries(index: &[u8]) -> Vec<(u64, Vec<u8>)> {
    let layout = Layout::check(index, Content::Index).unwrap();
    let entry = |i| layout.entry(index, i).map(|e| (e.trailer.0, index[e.value].to_vec())).unwrap();
    (0..layout.count()).map(entry).collect()
}

fn corpus(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(name)
}

#[test]
fn every_decoder_takes_what_stores_have_written() {
    let seeds = seeds();
    for (name, decode) in DECODERS {
        let inputs = seeds.get(name).unwrap_or_else(|| panic!("{name} has no input"));
        inputs.iter().for_each(|input| decode(input));
        if std::env::var("EVENKEEL_CORPORA").is_ok_and(|word| word == "write") {
            let mut fit: Vec<&Vec<u8>> = inputs.iter().filter(|input| input.len() <= BYTES_MAX).collect();
            fit.sort_by_key(|input| (input.len(), *input));
            fit.dedup();
            let each = fit.len().div_ceil(EACH).max(1);
            std::fs::create_dir_all(corpus(name)).unwrap();
            for (i, input) in fit.into_iter().step_by(each).enumerate() {
                std::fs::write(corpus(name).join(format!("written-{i:02}")), input).unwrap();
            }
        }
    }
}
