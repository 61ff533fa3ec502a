//! Operations recorded into a file: what is in it, in which order, and that no trouble of the file is one of the store.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};

use evenkeel::fs::{DirLock, FileSystem, IoClass, IoCounters, LogFile, ReadFile, Syncer, WritableFile};
use evenkeel::testing::{Fault, FaultError, FaultKind, SimulatedFileSystem};
use evenkeel::trace::{Action, Change, End, Keys, Kind, Operation, Trace};
use evenkeel::{Db, Event, KeyspaceOptions, Options, Result, ScanRange, WriteBatch};

const FILE: &str = "/store/today.trace";

fn open(fs: impl FileSystem + 'static) -> Db {
    let options = Options { memtable_bytes: 1 << 20, ..Options::default() };
    Db::builder(Path::new("/store")).options(options).file_system(Arc::new(fs)).open().unwrap()
}

fn read(fs: &SimulatedFileSystem) -> Trace {
    Trace::read(fs, Path::new(FILE)).unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// An operation in words.
fn words(trace: &Trace, operation: &Operation<'_>) -> String {
    let name = |keyspace: u64| trace.keyspace_name(keyspace);
    match &operation.action {
        Action::Write(changes) => {
            let change = |change: &Change<'_>| match *change {
                Change::Put { keyspace, key, value_bytes } => {
                    format!("put {} {} {value_bytes}", name(keyspace), text(key))
                }
                Change::Delete { keyspace, key } => format!("delete {} {}", name(keyspace), text(key)),
                Change::DeleteRange { keyspace, from, to } => {
                    format!("delete_range {} {} {}", name(keyspace), text(from), text(to))
                }
            };
            changes.iter().map(change).collect::<Vec<_>>().join(", ")
        }
        Action::Get { keyspace, keys } => {
            let keys: Vec<String> = keys.iter().map(|key| text(key)).collect();
            format!("get {} {}", name(*keyspace), keys.join(" "))
        }
        Action::Scan { keyspace, from, entries, down } => {
            let to = if *down { "down" } else { "up" };
            format!("scan {} from {} {to} {entries}", name(*keyspace), text(from))
        }
    }
}

fn all(trace: &Trace) -> Vec<String> {
    trace.iter().map(|operation| words(trace, &operation)).collect()
}

/// Each kind of operation once or more, and what a trace says of them.
fn work(db: &Db) -> Vec<&'static str> {
    let other = db.keyspace("other").unwrap();
    db.put(b"a", b"12345").unwrap();
    other.put(b"b", b"").unwrap();
    db.delete(b"c").unwrap();
    db.delete_range(b"d", b"e").unwrap();
    db.delete_range(b"e", b"d").unwrap();
    let mut batch = WriteBatch::new();
    batch.put(b"f", b"1");
    batch.delete_in(&other, b"g");
    batch.delete_range(b"h", b"i");
    db.write(batch).unwrap();
    db.get(b"a").unwrap();
    other.get(b"none").unwrap();
    db.multi_get(&[b"a", b"f"]).unwrap();
    db.snapshot().get(b"z").unwrap();
    assert_eq!(db.scan(ScanRange::new(Some(b"a"), None)).unwrap().count(), 2);
    assert_eq!(db.scan(ScanRange::all()).unwrap().rev().take(1).count(), 1);
    let mut cursor = db.cursor(ScanRange::all()).unwrap();
    cursor.seek(b"b").unwrap();
    cursor.prev().unwrap();
    cursor.seek_for_prev(b"aa").unwrap();
    drop(cursor);
    assert!(db.put(&vec![0; 70_000], b"").is_err());
    vec![
        "put default a 5",
        "put other b 0",
        "delete default c",
        "delete_range default d e",
        "put default f 1, delete other g, delete_range default h i",
        "get default a",
        "get other none",
        "get default a f",
        "get default z",
        "scan default from a up 2",
        "scan default from f down 1",
        "scan default from b down 2",
        "scan default from aa down 1",
    ]
}

#[test]
fn what_succeeds_between_begin_and_end_is_in_it() {
    let fs = SimulatedFileSystem::new();
    let db = open(fs.clone());
    db.create_keyspace("other", KeyspaceOptions::default()).unwrap();
    db.put(b"before", b"1").unwrap();
    db.delete(b"before").unwrap();
    assert!(!fs.exists(Path::new(FILE)).unwrap());
    let running = db.start_trace(FILE, Keys::Plain).unwrap();
    let expected = work(&db);
    let summary = running.end().unwrap();
    db.put(b"after", b"1").unwrap();
    let trace = read(&fs);
    assert_eq!(all(&trace), expected);
    assert!(matches!(trace.end, End::Clean), "{:?}", trace.end);
    assert_eq!((trace.missed, trace.keys), (Some(0), Keys::Plain));
    assert_eq!((trace.file_bytes, trace.nanos), (summary.bytes, summary.nanos));
    let mut counts = BTreeMap::new();
    trace.iter().for_each(|operation| *counts.entry(operation.kind()).or_insert(0) += 1);
    assert_eq!(summary.operations, Vec::from_iter(counts));
    assert_eq!(summary.operations.len(), Kind::ALL.len());
    let json = summary.to_json();
    assert!(
        json.contains(r#""operations":{"put":2,"delete":1,"delete_range":1,"batch":1,"get":3,"#),
        "{json}"
    );
    assert!(trace.iter().all(|operation| operation.start_nanos + operation.nanos <= trace.nanos));
}

#[test]
fn hashed_keys_are_equal_where_keys_are_and_tell_nothing_else() {
    let fs = SimulatedFileSystem::new();
    let db = open(fs.clone());
    db.create_keyspace("other", KeyspaceOptions::default()).unwrap();
    let running = db.start_trace(FILE, Keys::Hashed).unwrap();
    work(&db);
    db.put(b"a-key-that-nobody-may-see", b"").unwrap();
    db.scan(ScanRange::all()).unwrap().next();
    running.end().unwrap();
    let trace = read(&fs);
    assert_eq!(trace.keys, Keys::Hashed);
    let bytes = fs.contents(Path::new(FILE)).unwrap();
    assert!(!String::from_utf8_lossy(&bytes).contains("nobody"));
    let mut gets = trace.iter().filter_map(|operation| match operation.action {
        Action::Get { keys, .. } => Some(keys.iter().map(|key| text(key)).collect::<Vec<_>>()),
        _ => None,
    });
    let (a, none, both) = (gets.next().unwrap(), gets.next().unwrap(), gets.next().unwrap());
    assert!(a[0].len() == 16 && a[0].bytes().all(|b| b.is_ascii_hexdigit()), "{a:?}");
    assert_eq!(a[0], both[0]);
    assert_ne!(a, none);
    let last = trace.iter().last().unwrap();
    assert_eq!(words(&trace, &last), "scan default from  up 1", "an empty key stays empty");
    // Another trace has another seed.
    let second = db.start_trace("/store/second.trace", Keys::Hashed).unwrap();
    db.get(b"a").unwrap();
    second.end().unwrap();
    let second = Trace::read(&fs, Path::new("/store/second.trace")).unwrap();
    assert_ne!(words(&second, &second.get(0).unwrap()), format!("get default {}", a[0]));
}

#[test]
fn threads_lose_nothing_and_keep_their_order() {
    const THREADS: u64 = 20;
    const EACH: u64 = 3000;
    let fs = SimulatedFileSystem::new();
    let db = open(fs.clone());
    let running = db.start_trace(FILE, Keys::Plain).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let db = &db;
            scope.spawn(move || {
                for n in 0..EACH {
                    let key = format!("{thread} {n}");
                    match n % 3 {
                        0 => db.put(key.as_bytes(), b"v").unwrap(),
                        _ => drop(db.get(key.as_bytes()).unwrap()),
                    }
                }
            });
        }
    });
    let summary = running.end().unwrap();
    assert_eq!(summary.missed, 0);
    let trace = read(&fs);
    assert_eq!(trace.len() as u64, THREADS * EACH);
    let mut next: BTreeMap<String, u64> = BTreeMap::new();
    let mut numbers: BTreeMap<String, u64> = BTreeMap::new();
    let mut start = 0;
    for operation in trace.iter() {
        assert!(operation.start_nanos >= start, "in the order of their begins");
        start = operation.start_nanos;
        let words = words(&trace, &operation);
        let words: Vec<&str> = words.split(' ').collect();
        let due = next.entry(words[2].to_owned()).or_insert(0);
        assert_eq!(words[3], due.to_string(), "{words:?}");
        *due += 1;
        assert_eq!(*numbers.entry(words[2].to_owned()).or_insert(operation.thread), operation.thread);
    }
    assert!(next.values().all(|n| *n == EACH));
}

#[test]
fn what_the_disk_is_too_slow_for_is_counted_as_missed() {
    let fs = SimulatedFileSystem::new();
    let gate = Arc::new(Gate::default());
    let db = open(Stalling { base: fs.clone(), gate: Arc::clone(&gate) });
    let running = db.start_trace(FILE, Keys::Plain).unwrap();
    gate.shut(true);
    // Far more than memory has room for; each is done all the same, while nothing at all is written.
    let (key, mut gets) = (vec![b'k'; 60_000], 0);
    while gets < 1000 {
        db.get(&key).unwrap();
        gets += 1;
    }
    let counted = db.metrics().memory.jobs;
    assert!((8 << 20..10 << 20).contains(&counted), "{counted}");
    gate.shut(false);
    let summary = running.end().unwrap();
    let trace = read(&fs);
    assert!(summary.missed > 500, "{summary:?}");
    assert_eq!(trace.missed, Some(summary.missed));
    assert_eq!(trace.len() as u64 + summary.missed, gets);
    assert_eq!(summary.operations, [(Kind::Get, trace.len() as u64)]);
    assert_eq!(db.metrics().memory.jobs, 0);
}

#[test]
fn a_file_that_fails_ends_the_trace_and_nothing_else() {
    let fs = SimulatedFileSystem::new();
    let told: Arc<Mutex<Vec<String>>> = Arc::default();
    let heard = Arc::clone(&told);
    let builder = Db::builder(Path::new("/store")).file_system(Arc::new(fs.clone()));
    let listener = move |event: &Event| heard.lock().unwrap().push(event.to_string());
    let db = builder.listener(Arc::new(listener)).open().unwrap();
    let running = db.start_trace(FILE, Keys::Plain).unwrap();
    let error = FaultError::Enospc;
    let path_contains = "today".to_owned();
    fs.inject(Fault { kind: FaultKind::Write, path_contains, nth: 3, error, sticky: true });
    for i in 0..40_000u32 {
        db.put(format!("key {i}").as_bytes(), &[1; 10]).unwrap();
    }
    assert_eq!(running.end().unwrap_err().kind(), "NoSpace");
    let trace = read(&fs);
    assert!(matches!(trace.end, End::Cut { .. }) && !trace.is_empty(), "{:?}", trace.end);
    assert_eq!(trace.missed, None);
    // The next one may begin, and the store has all there is.
    db.start_trace("/store/next.trace", Keys::Plain).unwrap().end().unwrap();
    assert_eq!(db.scan(ScanRange::all()).unwrap().count(), 40_000);
    db.close().unwrap();
    assert!(told.lock().unwrap().iter().any(|e| e.starts_with("trace is not written any more")), "{told:?}");
}

#[test]
fn it_begins_in_a_new_file_once_at_a_time_and_ends_with_the_store() {
    let fs = SimulatedFileSystem::new();
    let db = open(fs.clone());
    let running = db.start_trace(FILE, Keys::Plain).unwrap();
    let refused = |path: &str, words: &str| {
        let error = db.start_trace(path, Keys::Plain).unwrap_err();
        assert_eq!(error.kind(), "InvalidArgument");
        assert!(error.to_string().contains(words), "{error}");
    };
    refused(FILE, "exists");
    refused("/store/000099.log", "a store's own files");
    refused("/store/second.trace", "runs already, into /store/today.trace");
    assert!(!fs.exists(Path::new("/store/second.trace")).unwrap());
    assert_eq!(db.start_trace("/nowhere/x", Keys::Plain).unwrap_err().kind(), "Io");
    db.put(b"a", b"1").unwrap();
    db.clone().close().unwrap();
    assert!(matches!(read(&fs).end, End::Clean));
    assert_eq!(running.end().unwrap().operations, [(Kind::Put, 1)], "it is told how it ended");
    assert_eq!(db.start_trace("/store/late.trace", Keys::Plain).unwrap_err().kind(), "Poisoned");
    drop(db);
    let reader = Db::builder(Path::new("/store")).file_system(Arc::new(fs.clone())).read_only(true).open();
    assert_eq!(reader.unwrap().start_trace("/store/r.trace", Keys::Plain).unwrap_err().kind(), "ReadOnly");
    // Dropped, it ends too, and a killed process leaves what was written.
    let db = open(fs.clone());
    drop(db.start_trace("/store/dropped.trace", Keys::Plain).unwrap());
    let dropped = Trace::read(&fs, Path::new("/store/dropped.trace")).unwrap();
    assert!(matches!(dropped.end, End::Clean) && dropped.is_empty());
}

#[test]
fn a_cut_or_damaged_file_is_read_up_to_there() {
    let fs = SimulatedFileSystem::new();
    let db = open(fs.clone());
    let running = db.start_trace(FILE, Keys::Plain).unwrap();
    for i in 0..4000u32 {
        db.get(format!("key {i:08} {}", "x".repeat(60)).as_bytes()).unwrap();
    }
    running.end().unwrap();
    let whole = fs.contents(Path::new(FILE)).unwrap();
    let copy = |bytes: &[u8]| {
        fs.set_contents(Path::new("/store/copy"), bytes).unwrap();
        Trace::read(&fs, Path::new("/store/copy"))
    };
    let mut before = 0;
    // The seal is all that the last bytes hold.
    let end = whole.len() - 32;
    for len in (0..end).step_by(997) {
        match copy(&whole[..len]) {
            Ok(trace) => {
                assert!(
                    matches!(trace.end, End::Cut { offset } if offset <= len as u64),
                    "{len}: {:?}",
                    trace.end
                );
                assert!(trace.len() >= before && trace.missed.is_none());
                before = trace.len();
            }
            Err(error) => assert!(len < 200 && error.to_string().contains("no trace"), "{len}: {error}"),
        }
    }
    assert!(before > 3000, "{before}");
    // Behind the operations stand the record of the end and the seal: damage there costs none of them.
    let all = |len: &usize| copy(&whole[..*len]).is_ok_and(|trace| trace.len() == 4000);
    let operations = (0..end).rev().take_while(all).last().unwrap();
    for at in (0..operations).step_by(1009).chain(operations..end) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x40;
        match copy(&bytes) {
            Ok(trace) => {
                assert!(matches!(trace.end, End::Damaged(_)), "{at}: {:?}", trace.end);
                assert_eq!(trace.len() < 4000, at < operations, "{at}");
            }
            Err(error) => assert!(at < 200, "{at}: {error}"),
        }
    }
    let names = fs.list(Path::new("/store")).unwrap();
    let log = names.iter().find(|name| name.ends_with(".log")).unwrap();
    for (name, words) in [("CURRENT", "no trace"), (log, "write-ahead log"), ("none", "none")] {
        let error = Trace::read(&fs, &Path::new("/store").join(name)).unwrap_err();
        assert!(error.to_string().contains(words), "{name}: {error}");
    }
}

/// Holds up whoever writes.
#[derive(Debug, Default)]
struct Gate {
    shut: Mutex<bool>,
    changed: Condvar,
}

impl Gate {
    fn shut(&self, shut: bool) {
        *self.shut.lock().unwrap() = shut;
        self.changed.notify_all();
    }

    fn pass(&self) {
        drop(self.changed.wait_while(self.shut.lock().unwrap(), |shut| *shut).unwrap());
    }
}

/// A disk on which traces are written only while a gate is open.
#[derive(Debug)]
struct Stalling {
    base: SimulatedFileSystem,
    gate: Arc<Gate>,
}

#[derive(Debug)]
struct StallingFile(Box<dyn WritableFile>, Arc<Gate>);

impl WritableFile for StallingFile {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.1.pass();
        self.0.append(bytes)
    }

    fn len(&self) -> u64 {
        self.0.len()
    }

    fn flush(&mut self) -> Result<()> {
        self.0.flush()
    }

    fn syncer(&self) -> Arc<dyn Syncer> {
        self.0.syncer()
    }
}

impl FileSystem for Stalling {
    fn create(&self, path: &Path, class: IoClass) -> Result<Box<dyn WritableFile>> {
        let file = self.base.create(path, class)?;
        if path.extension().is_some_and(|end| end == "trace") {
            return Ok(Box::new(StallingFile(file, Arc::clone(&self.gate))));
        }
        Ok(file)
    }

    fn create_log(&self, path: &Path, capacity: u64, recycle: Option<&Path>) -> Result<Box<dyn LogFile>> {
        self.base.create_log(path, capacity, recycle)
    }

    fn open(&self, path: &Path) -> Result<Arc<dyn ReadFile>> {
        self.base.open(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.base.rename(from, to)
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.base.remove(path)
    }

    fn truncate(&self, path: &Path, len: u64) -> Result<()> {
        self.base.truncate(path, len)
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        self.base.list(dir)
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        self.base.exists(path)
    }

    fn create_dir(&self, dir: &Path) -> Result<()> {
        self.base.create_dir(dir)
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        self.base.sync_dir(dir)
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn DirLock>> {
        self.base.lock(path)
    }

    fn free_space(&self, dir: &Path) -> Result<u64> {
        self.base.free_space(dir)
    }

    fn counters(&self) -> &Arc<IoCounters> {
        self.base.counters()
    }
}
