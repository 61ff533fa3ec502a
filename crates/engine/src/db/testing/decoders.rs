//! Every decoder of bytes that come from a disk or from people, as one function of bytes that must end well whatever they are: no
//! panic, no memory without bound, and what is read is written the same again.
//!
//! ```text
//! fuzz/fuzz_targets/NAME ─┐
//! fuzz/corpus/NAME/… ─────┴─► DECODERS ─► the decoder, with checksums mended where it looks at some
//! ```
//! The fuzz targets and the test that replays their corpora share these functions, so both see the same.

use std::path::Path;
use std::sync::Arc;

use super::byte_history;
use super::mending::{mend, mend_end, mend_log, mend_table, mend_text};
use crate::base::coding::Decoder;
use crate::base::error::Result;
use crate::base::range_tombstones::RangeTombstones;
use crate::base::units::SeqNo;
use crate::compaction::catalog;
use crate::compaction::strategy::Strategy;
use crate::db::database::Db;
use crate::db::files::heat_file;
use crate::db::files::inspect_log::wal;
use crate::db::files::inspect_manifest::manifest;
use crate::db::files::inspect_table::table;
use crate::db::files::trace_file::Trace;
use crate::db::reading::scan::ScanRange;
use crate::db::settings::options_file;
use crate::hotness::predictor::Learning;
use crate::options::Options;
use crate::scheduler::catalog::parse as parse_schedule;
use crate::storage::current;
use crate::storage::file_name::FileName;
use crate::storage::file_system::FileSystem;
use crate::storage::simulated::SimulatedFileSystem;
use crate::table::block::{Content, Layout};
use crate::table::compression::{COMPRESSED_PAYLOAD_MAX, unpack};
use crate::table::filter::{Filter, hash_key, hash_prefix};
use crate::table::format::Footer;
use crate::table::meta::{HowWritten, TableMeta};
use crate::table::range_block;
use crate::version::manifest::ManifestRecord;
use crate::version::picture_parse::fabricated_meta;
use crate::version::version_set::VersionSet;
use crate::write::batch::decode_batch;

/// A decoder by name.
pub type NamedDecoder = (&'static str, fn(&[u8]));

/// Every decoder.
pub const DECODERS: &[NamedDecoder] = &[
    ("block", block),
    ("packed_block", packed_block),
    ("filter", filter),
    ("footer", footer),
    ("ranges", ranges),
    ("facts", facts),
    ("table", whole_table),
    ("log", log),
    ("batch", batch),
    ("manifest", whole_manifest),
    ("manifest_record", manifest_record),
    ("current", current_file),
    ("options", options),
    ("heat", heat),
    ("trace", trace),
    ("words", words),
    ("control", control),
    ("history", byte_history::replay),
    ("directory", directory),
];

/// Where the files of a decoder that takes whole files lie.
const DIR: &str = "/store";

/// What a store of untrusted files may take for its cache and its memtables here.
const MEMORY: &str = "8MiB";

/// Numbers of the files that are made of bytes alone.
const NUMBER: u64 = 12;

/// A disk with one file.
fn disk(name: FileName, bytes: &[u8]) -> SimulatedFileSystem {
    let fs = SimulatedFileSystem::new();
    let dir = Path::new(DIR);
    let made = fs.create_dir(dir).and_then(|()| fs.set_contents(&name.path(dir), bytes));
    assert!(made.is_ok(), "a disk in memory takes every file");
    fs
}

/// A block of entries or of an index.
fn block(bytes: &[u8]) {
    for content in [Content::Data, Content::Index] {
        let Ok(layout) = Layout::check(bytes, content) else { continue };
        let mut key = Vec::new();
        for i in 0..layout.count() {
            layout.key_into(bytes, i, &mut key);
            let entry = layout.entry(bytes, i);
            assert!(entry.is_some(), "a checked block has all its entries");
            let Some(entry) = entry else { continue };
            assert!(bytes.get(entry.value).is_some());
            assert!(layout.lower_bound(bytes, &key, entry.trailer) <= layout.count());
            layout.is_key(bytes, i, &key);
        }
    }
}

/// The kind of compression, then a payload.
fn packed_block(bytes: &[u8]) {
    let Some((kind, stored)) = bytes.split_first() else { return };
    let mut scratch = Vec::new();
    if let Ok(payload) = unpack(stored, *kind, &mut scratch) {
        assert!(payload.len() <= COMPRESSED_PAYLOAD_MAX.max(stored.len()));
    }
    assert!(scratch.capacity() <= COMPRESSED_PAYLOAD_MAX);
}

fn filter(bytes: &[u8]) {
    let Some(filter) = Filter::decode(bytes) else { return };
    for key in bytes.chunks(7).take(64) {
        let hash = hash_key(key);
        filter.may_contain(filter.line(hash), hash);
        filter.may_contain_prefix(filter.prefixes(), hash_prefix(key));
    }
}

fn footer(bytes: &[u8]) {
    let mut bytes = bytes.to_vec();
    mend_end(&mut bytes);
    if let Ok(footer) = Footer::decode(&bytes) {
        assert!(footer.ranges().end() == footer.top.offset || footer.ranges_bytes == 0);
        assert_eq!(footer.encode(), bytes);
    }
}

/// How many range tombstones the facts say there are, two bytes, then their block.
fn ranges(bytes: &[u8]) {
    let Some((count, payload)) = bytes.split_first_chunk::<2>() else { return };
    let mut meta = fabricated_meta(1, b"", b"");
    meta.seqs = (SeqNo(0), SeqNo::MAX);
    meta.end = Some([0xff; 16].into());
    meta.range_tombstones = u64::from(u16::from_le_bytes(*count));
    let Ok(found) = range_block::decode(payload, &meta) else { return };
    let tree = RangeTombstones::new(&found);
    for tombstone in &found {
        assert!(tree.newest(&tombstone.lo, SeqNo::MAX) >= Some(tombstone.seq));
    }
}

/// The facts of a table, then how it was written.
fn facts(bytes: &[u8]) {
    let mut from = Decoder::new(bytes);
    let Some(meta) = TableMeta::decode(&mut from) else { return };
    HowWritten::decode(&mut from);
    let mut again = Vec::new();
    meta.encode(&mut again);
    let read = TableMeta::decode(&mut Decoder::new(&again));
    assert_eq!(read.map(|read| format!("{read:?}")), Some(format!("{meta:?}")));
}

/// A whole table, without the store.
fn whole_table(bytes: &[u8]) {
    let mut bytes = bytes.to_vec();
    mend_table(&mut bytes);
    let name = FileName::Table(NUMBER);
    // What is wrong with it is in the report.
    let _ = table(&disk(name, &bytes), &name.path(Path::new(DIR)), &mut |_| Ok(()));
}

fn log(bytes: &[u8]) {
    let name = FileName::Wal(NUMBER);
    let mut mended = bytes.to_vec();
    mend(&name.to_string(), &mut mended);
    for bytes in [bytes, &mended] {
        let _ = wal(&disk(name, bytes), &name.path(Path::new(DIR)), &mut |_| Ok(()));
    }
}

fn batch(bytes: &[u8]) {
    let Some((_, entries)) = decode_batch(bytes) else { return };
    let read: usize = entries.flatten().map(|entry| 1 + entry.key.len() + entry.value.len()).sum();
    assert!(read <= bytes.len(), "nothing is made of nothing");
}

fn whole_manifest(bytes: &[u8]) {
    let name = FileName::Manifest(NUMBER);
    let mut mended = bytes.to_vec();
    mend(&name.to_string(), &mut mended);
    for bytes in [bytes, &mended] {
        let fs: Arc<dyn FileSystem> = Arc::new(disk(name, bytes));
        let key = |key: &[u8]| format!("{} bytes", key.len());
        let _ = manifest(&fs, &name.path(Path::new(DIR)), &key, &mut |_| Ok(()));
    }
}

/// Records of a manifest without their frames, each after its length: as changes of a store that begins empty.
fn manifest_record(bytes: &[u8]) {
    let fs: Arc<dyn FileSystem> = Arc::new(SimulatedFileSystem::new());
    let mut set = VersionSet::empty(fs, Path::new(DIR));
    let mut from = Decoder::new(bytes);
    while let Some(bytes) = from.bytes() {
        let Ok(record) = ManifestRecord::decode(bytes) else { return };
        let again = ManifestRecord::decode(&record.encode());
        assert_eq!(again.map(|again| again.encode()).ok(), Some(record.encode()));
        if set.apply_unrecorded(&record).is_ok() {
            assert!(ManifestRecord::decode(&set.snapshot().encode()).is_ok());
        }
    }
}

fn current_file(bytes: &[u8]) {
    if let Some(number) = current::parse(bytes) {
        assert_eq!(current::line(number).as_bytes(), bytes);
    }
}

fn options(bytes: &[u8]) {
    let mut bytes = bytes.to_vec();
    mend_text(&mut bytes);
    let Ok(stored) = options_file::parse(&bytes) else { return };
    let mut options = Options::default();
    for (name, value) in &stored.options {
        if options.set(name, value).is_ok() {
            assert!(options.check_values().is_ok());
        }
    }
    let printed = options_file::print(&stored);
    assert_eq!(options_file::parse(printed.as_bytes()), Ok(stored));
}

fn heat(bytes: &[u8]) {
    let mut bytes = bytes.to_vec();
    mend_end(&mut bytes);
    let Some(predictors) = heat_file::decode(&bytes, Learning::default()) else { return };
    let table = fabricated_meta(1, b"a", b"z");
    for predictor in predictors.values() {
        let heat = predictor.predict(0, &table.key_spread());
        assert!(heat.is_none_or(|heat| (0.0..=1.0).contains(&heat)));
    }
}

fn trace(bytes: &[u8]) {
    let name = FileName::Wal(NUMBER);
    let mut mended = bytes.to_vec();
    // The header says which log it is, behind its version and kind.
    let id =
        bytes.get(29..37).and_then(|word| word.first_chunk()).map_or(0, |word| u64::from_le_bytes(*word));
    mend_log(&mut mended, id);
    for bytes in [bytes, &mended] {
        let read = Trace::read(&disk(name, bytes), &name.path(Path::new(DIR)));
        for operation in read.iter().flat_map(Trace::iter) {
            operation.kind().name();
        }
    }
}

/// What people write: strategies, schedules, options, and names of files.
fn words(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Some(name) = FileName::parse(text) {
        assert_eq!(name.to_string(), text);
        assert!(!text.contains(['/', '\0']) && name.path(Path::new(DIR)).parent() == Some(Path::new(DIR)));
    }
    if let Ok(strategy) = catalog::strategy(text) {
        assert_eq!(strategy.to_string().parse::<Strategy>().ok(), Some(strategy));
    }
    let _ = parse_schedule(text);
    let (name, value) = text.split_once('=').unwrap_or((text, ""));
    let _ = Options::default().set(name, value);
}

/// Lines that a running store is asked by: each gets an answer, on one line, and none makes the store unable to answer the next.
fn control(bytes: &[u8]) {
    let fs = Arc::new(SimulatedFileSystem::new());
    let opened = Db::builder(Path::new(DIR)).file_system(fs).without_threads().remember(false).open();
    assert!(opened.is_ok(), "an empty disk takes a store");
    let Ok(db) = opened else { return };
    for line in String::from_utf8_lossy(bytes).lines().take(64) {
        if let Ok(answer) = db.control(line) {
            assert!(answer.starts_with(['{', '[']) && !answer.contains('\n'), "{line}: {answer}");
        }
    }
    assert!(db.put(b"key", b"value").and_then(|()| db.flush()).is_ok());
    assert!(db.control("ping").is_ok());
}

/// The files of a store, each as its name's length, its name, four bytes of length, and its bytes.
fn directory(bytes: &[u8]) {
    let fs = SimulatedFileSystem::new();
    let dir = Path::new(DIR);
    let mut made = fs.create_dir(dir);
    let mut from = Decoder::new(bytes);
    while let Some((name, content)) = archived(&mut from) {
        let mut content = content.to_vec();
        mend(name, &mut content);
        made = made.and_then(|()| fs.set_contents(&dir.join(name), &content));
    }
    assert!(made.is_ok(), "a disk in memory takes every file");
    let settings = [("cache_bytes", "1MiB"), ("memory_bytes", MEMORY), ("memtable_bytes", "1MiB")];
    let builder = || {
        let builder = Db::builder(dir).file_system(Arc::new(fs.clone())).without_threads();
        settings.iter().fold(builder.remember(false), |builder, (name, value)| builder.set(name, value))
    };
    let _ = builder().read_only(true).open().and_then(|db| read(&db));
    let _ = builder().repair(false);
    let _ = builder().create_if_missing(false).open().and_then(|db| {
        read(&db)?;
        db.compact_range(ScanRange::all())?;
        read(&db)?;
        db.close()
    });
}

/// The next file of an archive.
fn archived<'a>(from: &mut Decoder<'a>) -> Option<(&'a str, &'a [u8])> {
    let len = usize::from(from.u8()?);
    let name = std::str::from_utf8(from.take(len)?).ok()?;
    let is_name = !name.is_empty() && !name.contains(['/', '\0']) && name != "." && name != "..";
    let len = usize::try_from(from.u32()?).ok()?;
    // The last file may have been cut with the archive.
    let bytes = from.take(len.min(from.rest().len()))?;
    is_name.then_some((name, bytes))
}

/// Reads everything in every way; the first error ends it.
fn read(db: &Db) -> Result<()> {
    for name in db.keyspaces() {
        let Some(keyspace) = db.keyspace(&name) else { continue };
        keyspace.get(b"key 0001")?;
        keyspace.scan(ScanRange::all())?.take(10_000).try_for_each(|entry| entry.map(drop))?;
        let mut cursor = keyspace.cursor(ScanRange::all())?;
        cursor.seek_to_last()?;
        while cursor.valid() {
            cursor.prev()?;
        }
    }
    db.verify().map(drop)
}
