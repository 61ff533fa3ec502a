//! Files of a store looked into one by one, whole and damaged.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::inspect_log::{LogReport, wal};
use super::inspect_manifest::manifest;
use super::inspect_table::{TableItem, TableReport, table};
use crate::base::durability::Durability;
use crate::base::units::KIB;
use crate::db::database::Db;
use crate::db::reading::scan::ScanRange;
use crate::options::Options;
use crate::storage::file_system::FileSystem;
use crate::storage::record_reader::Tail;
use crate::storage::simulated::SimulatedFileSystem;
use crate::table::compression::CompressionRule;
use crate::write::batch::WriteBatch;

const DIR: &str = "/db";

fn open(fs: &SimulatedFileSystem) -> Db {
    let options = Options {
        memtable_bytes: 64 * KIB,
        block_bytes: 512,
        compression: CompressionRule::Lz4,
        durability: Durability::Sync,
        ..Options::default()
    };
    let builder = Db::builder(Path::new(DIR)).file_system(Arc::new(fs.clone())).options(options);
    builder.without_threads().open().unwrap()
}

fn file(fs: &SimulatedFileSystem, part: &str) -> PathBuf {
    let names = fs.list(Path::new(DIR)).unwrap();
    Path::new(DIR).join(names.iter().rfind(|name| name.contains(part)).unwrap())
}

fn filled(fs: &SimulatedFileSystem) -> Db {
    let db = open(fs);
    let other = db.create_keyspace("other", Default::default()).unwrap();
    for i in 0..500_u32 {
        let mut batch = WriteBatch::new();
        batch.put(format!("key {i:04}").as_bytes(), &[b'v'; 50]);
        if i % 10 == 0 {
            batch.delete_in(&other, &i.to_be_bytes());
        }
        db.write(batch).unwrap();
    }
    db
}

fn read_table(fs: &SimulatedFileSystem, path: &Path) -> (TableReport, Vec<(Vec<u8>, u64, String)>, u64) {
    let (mut entries, mut blocks) = (Vec::new(), 0);
    let report = table(fs, path, &mut |item| {
        match item {
            TableItem::Block { .. } => blocks += 1,
            TableItem::Entry { key, seq, kind, value } => {
                assert_eq!(value.is_empty(), kind == "delete");
                entries.push((key.to_vec(), seq, kind.to_owned()));
            }
        }
        Ok(())
    })
    .unwrap();
    (report, entries, blocks)
}

#[test]
fn a_table_is_shown_and_a_bad_block_hides_only_itself() {
    let fs = SimulatedFileSystem::new();
    let db = filled(&fs);
    db.flush().unwrap();
    db.keyspace("other").unwrap().delete_range(b"a", b"c").unwrap();
    db.keyspace("other").unwrap().flush().unwrap();
    let mut ranges = 0;
    table(&fs, &file(&fs, ".sst"), &mut |item| {
        if let TableItem::Entry { key: b"a", kind: "range-delete", value: b"c", .. } = item {
            ranges += 1;
        }
        Ok(())
    })
    .unwrap();
    assert_eq!(ranges, 1);
    let names = fs.list(Path::new(DIR)).unwrap();
    let path = Path::new(DIR).join(names.iter().find(|name| name.ends_with(".sst")).unwrap());
    let (report, entries, blocks) = read_table(&fs, &path);
    assert!(report.damage.is_empty(), "{report:?}");
    let facts = report.properties.clone().unwrap();
    assert_eq!((facts.entries, facts.smallest.to_vec()), (500, b"key 0000".to_vec()));
    assert_eq!((report.entries, report.blocks, entries.len() as u64), (500, blocks, 500));
    assert!(blocks > 20 && report.codecs["lz4"] == blocks, "{report:?}");
    assert!(report.filter_bytes > 0 && report.index_bytes > 0 && report.unpacked_bytes > report.data_bytes);
    assert!(entries.windows(2).all(|pair| pair[0].0 < pair[1].0));

    let whole = fs.contents(&path).unwrap();
    let (mut partly, mut nothing) = (0, 0);
    for at in (0..whole.len()).step_by(97) {
        let mut bad = whole.clone();
        bad[at] ^= 0x10;
        fs.set_contents(&path, &bad).unwrap();
        let (report, entries, _) = read_table(&fs, &path);
        // Between blocks there are zeros, which only `verify` reads.
        if !report.damage.is_empty() {
            partly += u32::from(entries.len() > 400 && entries.len() < 500);
            nothing += u32::from(entries.is_empty());
        }
    }
    assert!(partly > 20 && nothing > 0, "{partly} {nothing}");
    for len in [0, 10, 63, 64, 500, whole.len() - 1] {
        fs.set_contents(&path, &whole[..len]).unwrap();
        assert_eq!(read_table(&fs, &path).0.damage.len(), 1, "cut to {len}");
    }
    fs.set_contents(&path, &whole).unwrap();
    assert_eq!(db.scan(ScanRange::all()).unwrap().count(), 500);
}

fn read_log(fs: &SimulatedFileSystem, path: &Path) -> (LogReport, Vec<(u64, u64, usize)>) {
    let mut records = Vec::new();
    let report = wal(fs, path, &mut |record| {
        assert_eq!(record.seqs.1 - record.seqs.0 + 1, record.entries.len() as u64);
        records.push((record.offset, record.seqs.0, record.entries.len()));
        Ok(())
    });
    (report.unwrap(), records)
}

#[test]
fn a_log_is_shown_up_to_where_recovery_would_end() {
    let fs = SimulatedFileSystem::new();
    let db = filled(&fs);
    let path = file(&fs, ".log");
    let (report, records) = read_log(&fs, &path);
    assert!(report.damage.is_empty() && report.header.is_some(), "{report:?}");
    assert_eq!((report.records, report.entries, report.seqs), (500, 550, Some((1, 550))));
    assert!(matches!(report.tail, Some(Tail::End { .. })) && report.promised > 0, "{report:?}");

    // A copy under another name is the same log.
    let copy = Path::new(DIR).join("copy of a log");
    let whole = fs.contents(&path).unwrap();
    fs.set_contents(&copy, &whole).unwrap();
    assert_eq!(read_log(&fs, &copy).1, records);

    // Damage below a promise is named with what comes before it shown; beyond every promise it is a torn end.
    let (offset, _, _) = records[250];
    let mut bad = whole.clone();
    bad[offset as usize + 30] ^= 1;
    fs.set_contents(&copy, &bad).unwrap();
    let (report, shown) = read_log(&fs, &copy);
    assert_eq!((&shown[..], report.tail), (&records[..250], None));
    assert!(report.damage[0].to_string().contains(&format!("byte {offset}")), "{:?}", report.damage);
    let (offset, _, _) = records[499];
    let mut bad = whole;
    bad[offset as usize + 30] ^= 1;
    fs.set_contents(&copy, &bad).unwrap();
    let (report, shown) = read_log(&fs, &copy);
    assert_eq!((shown.len(), report.tail), (499, Some(Tail::Torn { offset })));

    db.close().unwrap();
    let (report, _) = read_log(&fs, &path);
    assert!(matches!(report.tail, Some(Tail::Sealed { .. })), "{report:?}");
    fs.set_contents(&copy, b"").unwrap();
    let (report, _) = read_log(&fs, &copy);
    assert!(report.header.is_none() && report.records == 0 && report.tail.is_some(), "{report:?}");
}

#[test]
fn a_manifest_is_shown_in_words_and_as_a_tree() {
    let fs = SimulatedFileSystem::new();
    let db = filled(&fs);
    db.flush().unwrap();
    db.compact_range(ScanRange::all()).unwrap();
    let path = file(&fs, "MANIFEST");
    let base: Arc<dyn FileSystem> = Arc::new(fs.clone());
    let read = |path: &Path| {
        let mut words = Vec::new();
        let key = |key: &[u8]| String::from_utf8_lossy(key).into_owned();
        let report = manifest(&base, path, &key, &mut |item| {
            words.extend(item.words.clone());
            Ok(())
        });
        (report, words)
    };
    let (report, words) = read(&path);
    let report = report.unwrap();
    assert!(report.damage.is_empty() && report.records >= 3, "{report:?}");
    assert_eq!(report.keyspaces.iter().map(|k| k.name.as_str()).collect::<Vec<_>>(), ["default", "other"]);
    assert_eq!(report.keyspaces[0].picture, db.keyspace("default").unwrap().picture());
    assert!(report.keyspaces[0].tables >= 1 && report.keyspaces[0].flushed_through == 550, "{report:?}");
    let all = words.join("\n");
    assert!(all.contains("`other` comes into being") && all.contains("[key 0000 - key 0499]"), "{all}");

    // The last one is prepared and not begun.
    let names = fs.list(Path::new(DIR)).unwrap();
    let first_log = Path::new(DIR).join(names.iter().find(|name| name.ends_with(".log")).unwrap());
    // The right kind of file is asked for; damage is shown after what comes before it.
    let (outcome, _) = read(&first_log);
    assert!(outcome.unwrap_err().to_string().contains("inspect wal"));
    let error = wal(&fs, &path, &mut |_| Ok(())).unwrap_err();
    assert!(error.to_string().contains("inspect manifest"), "{error}");
    let mut bad = fs.contents(&path).unwrap();
    let middle = bad.len() / 2;
    bad[middle] ^= 1;
    fs.set_contents(&path, &bad).unwrap();
    let (report, words) = read(&path);
    let report = report.unwrap();
    let known = !report.damage.is_empty() || matches!(report.tail, Some(Tail::Torn { .. }));
    assert!(known && !words.is_empty(), "{report:?}");
}
