//! The record log, writer and reader together, undamaged and damaged in every way a small log can be.

use std::path::Path;

use super::*;
use crate::base::random::Random;
use crate::storage::file_system::FileSystem;
use crate::storage::record::{Predecessor, frame};
use crate::storage::record_writer::RecordWriter;
use crate::storage::simulated::SimulatedFileSystem;
use crate::storage::simulated_crash::CrashPolicy;

const ID: u64 = 12;
const CAPACITY: u64 = 4096;

fn log_path() -> &'static Path {
    Path::new("/db/000012.log")
}

fn header(id: u64) -> LogHeader {
    let predecessor = Some(Predecessor { id: 11, sealed_len: Some(100) });
    LogHeader { kind: LogKind::Wal, id, predecessor, first_seq: 77, allocated: 0 }
}

fn disk() -> SimulatedFileSystem {
    let fs = SimulatedFileSystem::new();
    fs.create_dir(Path::new("/db")).unwrap();
    fs
}

fn to_read(promised: u64) -> LogToRead {
    LogToRead { kind: LogKind::Wal, id: ID, promised, payload_max: 1 << 20, class: IoClass::Wal }
}

fn new_log(fs: &SimulatedFileSystem) -> RecordWriter {
    let file = fs.create_log(log_path(), CAPACITY, None).unwrap();
    RecordWriter::on_log(file, log_path(), &header(ID)).unwrap()
}

/// Reads a file to its end.
fn read_file(fs: &SimulatedFileSystem, log: LogToRead) -> Result<(Vec<Vec<u8>>, Tail)> {
    let mut reader = RecordReader::open(fs.open(log_path())?, log)?;
    let mut payloads = Vec::new();
    while let Some(record) = reader.next()? {
        payloads.push(record.payload.to_vec());
    }
    assert!(reader.next()?.is_none());
    Ok((payloads, reader.tail().unwrap()))
}

/// Reads these bytes as a log.
fn read_bytes(bytes: &[u8], promised: u64) -> Result<(Vec<Vec<u8>>, Tail)> {
    let fs = disk();
    fs.set_contents(log_path(), bytes).unwrap();
    read_file(&fs, to_read(promised))
}

/// A growing log of four records; after the second all is synced, so the third and fourth promise that. With where each
/// ends.
fn small_log(sealed: bool) -> (Vec<u8>, Vec<u64>, Vec<Vec<u8>>) {
    let fs = disk();
    let file = fs.create(log_path(), IoClass::Manifest).unwrap();
    small(&fs, RecordWriter::on_file(file, log_path(), &header(ID)).unwrap(), sealed)
}

fn small(fs: &SimulatedFileSystem, mut log: RecordWriter, sealed: bool) -> (Vec<u8>, Vec<u64>, Vec<Vec<u8>>) {
    let payloads: Vec<Vec<u8>> = vec![b"first".to_vec(), vec![], b"third one".to_vec(), b"4".to_vec()];
    let mut ends = vec![log.len()];
    for (i, payload) in payloads.iter().enumerate() {
        ends.push(log.append(&[payload]).unwrap());
        if i == 1 {
            log.syncer().sync().unwrap();
        }
    }
    if sealed {
        ends.push(log.seal().unwrap());
    }
    let mut bytes = fs.contents(log_path()).unwrap();
    bytes.truncate(*ends.last().unwrap() as usize);
    (bytes, ends, payloads)
}

#[test]
fn a_file_cut_short_after_a_sync_is_told_from_a_torn_one() {
    for sealed in [false, true] {
        let fs = disk();
        let (bytes, ends, payloads) = small(&fs, new_log(&fs), sealed);
        for cut in 0..bytes.len() {
            let fs = disk();
            fs.set_contents(log_path(), &bytes[..cut]).unwrap();
            // The third record is the first that proves a sync; with less than it, nobody can know.
            match read_file(&fs, to_read(0)) {
                Ok((read, _)) => {
                    assert!((cut as u64) < ends[3], "cut at {cut}");
                    assert_eq!(read, payloads[..read.len()], "cut at {cut}");
                }
                Err(error) => {
                    assert!(cut as u64 >= ends[3], "cut at {cut}: {error}");
                    assert!(error.to_string().contains("shorter than it was made"), "cut at {cut}: {error}");
                }
            }
        }
    }
}

#[test]
fn what_is_appended_is_read() {
    for on_log in [true, false] {
        let (fs, mut random) = (disk(), Random::new(1));
        let mut log = if on_log {
            let file = fs.create_log(log_path(), 1 << 22, None).unwrap();
            RecordWriter::on_log(file, log_path(), &header(ID)).unwrap()
        } else {
            let file = fs.create(log_path(), IoClass::Manifest).unwrap();
            RecordWriter::on_file(file, log_path(), &header(ID)).unwrap()
        };
        assert_eq!(log.id(), ID);
        let mut all = Vec::new();
        let sizes = (0..200).map(|i| i * 3).chain([65_000, 65_536, 70_000, 300_000, 0, 1]);
        for (i, size) in sizes.enumerate() {
            let mut payload = vec![0; size];
            random.fill(&mut payload);
            // The same payload in one part, in several, and in more than fit on the stack.
            let parts: Vec<&[u8]> = match i % 3 {
                0 => vec![&payload],
                1 => vec![&payload[..size / 2], &[], &payload[size / 2..]],
                _ => payload.chunks(size / 20 + 1).collect(),
            };
            let end = log.append(&parts).unwrap();
            assert_eq!(end, log.len());
            if random.one_in(5) {
                assert_eq!(log.syncer().sync().unwrap(), end);
            }
            all.push(payload);
        }
        let (payloads, tail) = read_file(&fs, to_read(0)).unwrap();
        assert!(payloads == all);
        assert_eq!(tail, Tail::End { offset: log.len() });
        let len = log.seal().unwrap();
        let (payloads, tail) = read_file(&fs, to_read(len)).unwrap();
        assert!(payloads == all);
        assert_eq!(tail, Tail::Sealed { len });
        assert_eq!(log.append(&[b"x"]).unwrap_err().kind(), "InvalidArgument");
        let reader = RecordReader::open(fs.open(log_path()).unwrap(), to_read(0)).unwrap();
        let allocated = if on_log { 1 << 22 } else { 0 };
        assert_eq!(reader.header(), Some(&LogHeader { allocated, ..header(ID) }));
    }
}

#[test]
fn a_full_log_says_so_before_it_writes() {
    let fs = disk();
    let mut log = new_log(&fs);
    let fits = log.remaining() as usize;
    assert_eq!(log.append(&[&vec![0; CAPACITY as usize]]).unwrap_err().kind(), "NoSpace");
    log.append(&[&vec![1; fits]]).unwrap();
    assert_eq!(log.remaining(), 0);
    // `remaining` has kept the space for the seal.
    let len = log.seal().unwrap();
    assert_eq!(len, CAPACITY);
    assert_eq!(read_file(&fs, to_read(0)).unwrap().1, Tail::Sealed { len });
}

/// The rule of C11 for damage at `at` in a small log that was not sealed: what must come out.
fn check_damaged(bytes: &[u8], at: u64, promise: u64, ends: &[u64], payloads: &[Vec<u8>], what: &str) {
    // The record in which the damage lies begins where the one before it ends.
    let whole = ends.iter().filter(|&&end| end <= at).count();
    let bad = if whole == 0 { 0 } else { ends[whole - 1] };
    match read_bytes(bytes, 0) {
        Ok((got, tail)) => {
            assert!(bad >= promise, "{what}: damage below the promise went unseen");
            assert_eq!(got, payloads[..whole.saturating_sub(1)], "{what}");
            assert_eq!(tail.good_len(), bad, "{what}");
        }
        Err(Error::Corruption { file, offset, .. }) => {
            assert!(bad < promise, "{what}: a torn tail is no corruption");
            assert_eq!((file.as_path(), offset), (log_path(), bad), "{what}");
        }
        Err(error) => panic!("{what}: {error}"),
    }
}

#[test]
fn every_flip_gives_the_right_prefix_or_corruption() {
    let (bytes, ends, payloads) = small_log(false);
    for at in 0..bytes.len() {
        for mask in [1, 0x80, 0xff, bytes[at], !bytes[at]] {
            if mask == 0 {
                continue;
            }
            let mut bad = bytes.clone();
            bad[at] ^= mask;
            // If the damage is in the last record, only the third is left to promise that the first two were synced.
            check_damaged(&bad, at as u64, ends[2], &ends, &payloads, &format!("byte {at} ^ {mask:#x}"));
        }
    }
}

#[test]
fn every_cut_gives_the_right_prefix_or_corruption() {
    let (bytes, ends, payloads) = small_log(false);
    for at in 0..bytes.len() {
        // Nobody is left to promise anything about what was cut off.
        check_damaged(&bytes[..at], at as u64, 0, &ends, &payloads, &format!("cut at {at}"));
        let mut zeroed = bytes.clone();
        zeroed[at..].fill(0);
        let known = ends.iter().find(|&&end| end > at as u64).unwrap();
        // Zeros may be what was there.
        if zeroed[..*known as usize] != bytes[..*known as usize] {
            check_damaged(&zeroed, at as u64, 0, &ends, &payloads, &format!("zeros from {at}"));
        }
    }
}

#[test]
fn the_callers_promise_is_kept() {
    let (bytes, ends, payloads) = small_log(false);
    let len = bytes.len() as u64;
    assert_eq!(read_bytes(&bytes, len).unwrap(), (payloads.clone(), Tail::End { offset: len }));
    for at in 0..bytes.len() {
        let bad = ends.iter().copied().rfind(|&end| end <= at as u64).unwrap_or(0);
        match read_bytes(&bytes[..at], len).unwrap_err() {
            Error::Corruption { offset, .. } => assert_eq!(offset, bad),
            error => panic!("{error}"),
        }
        assert!(read_bytes(&bytes[..at], bad).is_ok(), "no promise reaches beyond {bad}");
    }
    assert_eq!(read_bytes(&bytes, len + 1).unwrap_err().kind(), "Corruption");
    assert_eq!(read_bytes(&[], 1).unwrap_err().kind(), "Corruption");
}

#[test]
fn any_damage_to_what_a_seal_covers_is_corruption() {
    let (bytes, ends, payloads) = small_log(true);
    let (content, len) = (ends[4] as usize, bytes.len() as u64);
    assert_eq!(read_bytes(&bytes, 0).unwrap(), (payloads.clone(), Tail::Sealed { len }));
    assert_eq!(read_bytes(&bytes, len + 1).unwrap_err().kind(), "Corruption");
    for at in 0..bytes.len() {
        let mut bad = bytes.clone();
        bad[at] ^= 0x10;
        let got = read_bytes(&bad, 0);
        if at < content {
            assert_eq!(got.unwrap_err().kind(), "Corruption", "byte {at}");
        } else {
            // The seal itself: nothing is lost, and whoever knows the length notices.
            let (got, tail) = got.unwrap();
            assert_eq!((got, tail.good_len()), (payloads.clone(), content as u64));
            assert_eq!(read_bytes(&bad, len).unwrap_err().kind(), "Corruption");
        }
        if at > 0 {
            assert_eq!(read_bytes(&bytes[..at], len).unwrap_err().kind(), "Corruption");
        }
    }
}

#[test]
fn a_seal_is_not_given_to_bytes_that_are_not_synced() {
    let fs = disk();
    let mut log = new_log(&fs);
    log.append(&[b"x"]).unwrap();
    assert_eq!(log.append_seal().unwrap_err().kind(), "InvalidArgument");
    log.syncer().sync().unwrap();
    let len = log.append_seal().unwrap();
    assert_eq!(read_file(&fs, to_read(0)).unwrap().1, Tail::Sealed { len });
}

#[test]
fn what_a_recycled_file_holds_is_no_part_of_the_log() {
    // Both logs have records of the same length, so that the old ones lie exactly where new ones would.
    let fs = disk();
    let old = Path::new("/db/000003.log");
    let file = fs.create_log(old, CAPACITY, None).unwrap();
    let mut log = RecordWriter::on_log(file, old, &header(3)).unwrap();
    for _ in 0..50 {
        log.append(&[b"old record"]).unwrap();
        log.syncer().sync().unwrap();
    }
    let file = fs.create_log(log_path(), CAPACITY, Some(old)).unwrap();
    // Before the header is there, the log is an empty one.
    assert_eq!(read_file(&fs, to_read(0)).unwrap(), (vec![], Tail::End { offset: 0 }));
    let mut log = RecordWriter::on_log(file, log_path(), &header(ID)).unwrap();
    for n in 0..20 {
        let want = (vec![b"new record".to_vec(); n], Tail::End { offset: log.len() });
        assert_eq!(read_file(&fs, to_read(0)).unwrap(), want);
        log.append(&[b"new record"]).unwrap();
    }
}

#[test]
fn garbage_is_an_empty_log_and_takes_no_time() {
    let mut random = Random::new(5);
    for len in [0, 1, 23, 24, 25, 1000, 100_000] {
        let mut bytes = vec![0; len];
        assert_eq!(read_bytes(&bytes, 0).unwrap().1, Tail::End { offset: 0 });
        random.fill(&mut bytes);
        assert_eq!(read_bytes(&bytes, 0).unwrap().1, Tail::End { offset: 0 });
    }
}

#[test]
fn a_file_made_to_be_slow_is_refused() {
    // Frame after frame, each with the right tag and a length to the end of the file.
    let size = 1 << 18;
    let mut bytes = Vec::new();
    while bytes.len() < size {
        let at = bytes.len() as u64;
        let len = (size as u64 - at).saturating_sub(FRAME_LEN as u64) as u32;
        bytes.extend_from_slice(&frame(RecordKind::Data, &[b"other"], len, ID, at, 0));
    }
    assert_eq!(read_bytes(&bytes, 0).unwrap_err().kind(), "Corruption");
}

#[test]
fn lengths_are_not_believed() {
    let (mut bytes, ends, payloads) = small_log(false);
    bytes.extend_from_slice(&frame(RecordKind::Data, &[b"x"], u32::MAX, ID, ends[4], 0));
    bytes.push(b'x');
    let want = (payloads, Tail::Torn { offset: ends[4] });
    assert_eq!(read_bytes(&bytes, 0).unwrap(), want);
    // A record above the caller's limit is as bad as any other.
    let fs = disk();
    fs.set_contents(log_path(), &bytes).unwrap();
    let log = LogToRead { payload_max: 48, ..to_read(0) };
    assert_eq!(read_file(&fs, log).unwrap(), want);
    let log = LogToRead { payload_max: 8, ..to_read(0) };
    assert_eq!(read_file(&fs, log).unwrap_err().kind(), "Corruption");
}

#[test]
fn another_format_kind_or_order_is_refused() {
    let bytes_of = |kind, payload: &[u8]| {
        let frame = frame(kind, &[payload], payload.len() as u32, ID, 0, 0);
        [&frame[..], payload].concat()
    };
    let good = header(ID).encode();
    let mut newer = good.clone();
    newer[0] += 1;
    let error = read_bytes(&bytes_of(RecordKind::Header, &newer), 0).unwrap_err();
    assert_eq!(error.kind(), "Unsupported");
    let manifest = LogHeader { kind: LogKind::Manifest, ..header(ID) };
    for bad in [&good[..good.len() - 1], &[&good[..], b"x"].concat(), &manifest.encode(), &header(9).encode()]
    {
        let error = read_bytes(&bytes_of(RecordKind::Header, bad), 0).unwrap_err();
        assert_eq!(error.kind(), "Corruption");
    }
    assert_eq!(read_bytes(&bytes_of(RecordKind::Data, &good), 0).unwrap_err().kind(), "Corruption");
    for predecessor in [None, Some(Predecessor { id: 1, sealed_len: None })] {
        let header = LogHeader { predecessor, ..header(ID) };
        assert_eq!(LogHeader::decode(&header.encode()), Ok(header));
    }
}

#[test]
fn a_failed_sync_or_append_is_final() {
    use crate::storage::fault::{Fault, FaultError, FaultKind};
    for kind in [FaultKind::Sync, FaultKind::Write] {
        let fs = disk();
        let mut log = new_log(&fs);
        fs.sync_dir(Path::new("/db")).unwrap();
        log.append(&[b"good"]).unwrap();
        let good = log.syncer().sync().unwrap();
        let fault =
            Fault { kind, path_contains: String::new(), nth: 0, error: FaultError::Eio, sticky: false };
        fs.inject(fault);
        let first = log.append(&[b"bad"]).and_then(|_| log.syncer().sync()).unwrap_err();
        assert_eq!(first.kind(), "Io");
        assert_eq!(log.append(&[b"x"]).unwrap_err().kind(), "Poisoned");
        assert_eq!(log.syncer().sync().unwrap_err().kind(), "Poisoned");
        assert_eq!(log.seal().unwrap_err().kind(), "Poisoned");
        assert_eq!(log.syncer().synced_through(), good);
        let (payloads, tail) = read_file(&fs.crash(0, CrashPolicy::DropUnsynced), to_read(0)).unwrap();
        assert_eq!((payloads, tail.good_len()), (vec![b"good".to_vec()], good));
    }
}

/// Records that survived behind a lost one are found wherever they lie, also across the reader's window.
#[test]
fn a_promise_far_behind_the_damage_is_found() {
    let (fs, mut random) = (disk(), Random::new(9));
    let file = fs.create_log(log_path(), 1 << 19, None).unwrap();
    let mut log = RecordWriter::on_log(file, log_path(), &header(ID)).unwrap();
    let start = log.append(&[b"lost"]).unwrap();
    log.syncer().sync().unwrap();
    let last = start + 100_000 + random.below(200_000);
    log.append(&[&vec![7; (last - start) as usize - FRAME_LEN]]).unwrap();
    log.append(&[b"the one with the promise"]).unwrap();
    let whole = fs.contents(log_path()).unwrap();
    for keep_from in [last, last - 1, last - 11, last - 12, last - 13, last - 70_000] {
        for filler in [0, 0xa5] {
            let mut bytes = whole.clone();
            bytes[start as usize - 4..keep_from as usize].fill(filler);
            assert_eq!(read_bytes(&bytes, 0).unwrap_err().kind(), "Corruption", "{keep_from} {filler}");
            // Without it what was lost cannot be told from what never was.
            bytes[last as usize..].fill(filler);
            assert_eq!(read_bytes(&bytes, 0).unwrap().0.len(), 0);
        }
    }
}

/// Appends, syncs and crashes at random; the log holds a prefix, at least what was synced, and never refuses to open.
#[test]
fn a_crash_leaves_a_prefix_that_has_what_was_synced() {
    let (mut torn, mut ended, mut lost) = (0, 0, 0);
    for seed in 0..60 {
        let (fs, mut random) = (disk(), Random::new(seed));
        let file = fs.create_log(log_path(), 1 << 17, None).unwrap();
        fs.sync_dir(Path::new("/db")).unwrap();
        fs.crash_after(fs.call_count() + 2 + random.below(60));
        let Ok(mut log) = RecordWriter::on_log(file, log_path(), &header(ID)) else { continue };
        let (mut appended, mut synced) = (0, 0);
        for n in 0..100u64 {
            let mut payload = vec![n as u8; random.below(3000) as usize];
            payload.extend_from_slice(&n.to_le_bytes());
            if log.append(&[&payload]).is_err() {
                break;
            }
            appended = n + 1;
            if random.one_in(6) {
                if log.syncer().sync().is_err() {
                    break;
                }
                synced = appended;
            }
        }
        for policy in CrashPolicy::ALL {
            let after = fs.crash(seed, policy);
            let (payloads, tail) = read_file(&after, to_read(0)).unwrap_or_else(|error| {
                panic!("seed {seed} {policy:?}: {error}");
            });
            for (n, payload) in payloads.iter().enumerate() {
                assert!(payload.ends_with(&(n as u64).to_le_bytes()), "seed {seed} {policy:?}: record {n}");
            }
            let kept = payloads.len() as u64;
            // The append under way at the crash may be there too.
            assert!(
                synced <= kept && kept <= appended + 1,
                "seed {seed} {policy:?}: {synced} {kept} {appended}"
            );
            torn += u32::from(matches!(tail, Tail::Torn { .. }));
            ended += u32::from(matches!(tail, Tail::End { .. }));
            lost += u32::from(kept < appended);
        }
    }
    assert!(torn > 20 && ended > 20 && lost > 20, "{torn} {ended} {lost}");
}
