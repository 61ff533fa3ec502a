//! The simulated disk: each way to crash on one example, and what holds in every crash.

use super::*;
use crate::base::random::Random;
use crate::storage::current::{read_current, set_current};
use crate::storage::fault::FaultError;

const DIR: &str = "/db";

fn at(name: &str) -> PathBuf {
    Path::new(DIR).join(name)
}

fn disk() -> SimulatedFileSystem {
    let fs = SimulatedFileSystem::new();
    fs.create_dir(Path::new(DIR)).unwrap();
    fs
}

/// Appends, and hands it to the system.
fn write(file: &mut dyn WritableFile, bytes: &[u8]) -> Result<()> {
    file.append(bytes)?;
    file.flush()
}

/// Files and what is in them, for instance `a=xx b=`.
fn picture(fs: &SimulatedFileSystem) -> String {
    let names = fs.list(Path::new(DIR)).unwrap();
    let file = |name: &String| {
        let bytes = fs.contents(&at(name)).unwrap();
        format!("{name}={}", String::from_utf8_lossy(&bytes).replace('\0', "0"))
    };
    names.iter().map(file).collect::<Vec<_>>().join(" ")
}

/// `a` is durable, `b` is new and synced in a directory that is not, `a` has grown, `old` was renamed, `gone` removed.
fn example() -> SimulatedFileSystem {
    let fs = disk();
    let dir = Path::new(DIR);
    for name in ["a", "gone", "old"] {
        let mut file = fs.create(&at(name), IoClass::Client).unwrap();
        file.append(name.as_bytes()).unwrap();
        file.syncer().sync().unwrap();
    }
    let mut a = fs.create(&at("grow"), IoClass::Client).unwrap();
    a.append(b"safe").unwrap();
    a.syncer().sync().unwrap();
    fs.sync_dir(dir).unwrap();
    write(&mut *a, b"more").unwrap();
    let mut b = fs.create(&at("b"), IoClass::Client).unwrap();
    b.append(b"b").unwrap();
    b.syncer().sync().unwrap();
    fs.rename(&at("old"), &at("new")).unwrap();
    fs.remove(&at("gone")).unwrap();
    write(&mut *b, b"b").unwrap();
    fs
}

#[test]
fn each_policy_on_the_example() {
    let fs = example();
    let now = "a=a b=bb grow=safemore new=old";
    assert_eq!(picture(&fs), now);
    let check = |policy, want: &str| assert_eq!(picture(&fs.crash(1, policy)), want, "{policy:?}");
    check(CrashPolicy::DropUnsynced, "a=a gone=gone grow=safe old=old");
    check(CrashPolicy::KeepAll, now);
    check(CrashPolicy::ZeroFilled, "a=a b=b0 grow=safe0000 new=old");
    check(CrashPolicy::EntriesOnly, "a=a b=b grow=safe new=old");
    check(CrashPolicy::DataOnly, "a=a gone=gone grow=safemore old=old");
    assert_eq!(picture(&fs.process_kill()), now);
    // The old disk is as it was.
    assert_eq!(picture(&fs), now);
}

#[test]
fn prefix_policy_gives_every_prefix_and_nothing_else() {
    let fs = example();
    let mut want = [
        "a=a gone=gone grow=safe old=old",
        "a=a gone=gone grow=safemore old=old",
        "a=a b=b gone=gone grow=safemore old=old",
        "a=a b=b gone=gone grow=safemore new=old",
        "a=a b=b grow=safemore new=old",
        "a=a b=bb grow=safemore new=old",
    ]
    .map(str::to_owned);
    want.sort();
    let mut got: Vec<String> = (0..100).map(|seed| picture(&fs.crash(seed, CrashPolicy::Prefix))).collect();
    got.sort();
    got.dedup();
    assert_eq!(got, want);
}

#[test]
fn random_blocks_lose_pages_and_entries_one_by_one() {
    let fs = disk();
    let mut file = fs.create(&at("f"), IoClass::Client).unwrap();
    fs.sync_dir(Path::new(DIR)).unwrap();
    // Three pages, each written twice.
    for byte in [1u8, 2] {
        for _ in 0..3 {
            write(&mut *file, &[byte; 2048]).unwrap();
        }
    }
    let (mut lost_in_the_middle, mut half_pages) = (0, 0);
    for seed in 0..200 {
        let bytes = fs.crash(seed, CrashPolicy::RandomBlocks).contents(&at("f")).unwrap();
        let page = |i: usize| bytes.get(i * 4096..).unwrap_or(&[]).iter().take(4096).any(|&b| b != 0);
        lost_in_the_middle += usize::from(!page(0) && page(1));
        half_pages += usize::from(bytes.len() == 4096 + 2048);
        for (i, &byte) in bytes.iter().enumerate() {
            assert!(byte == 0 || byte == if i < 3 * 2048 { 1 } else { 2 }, "seed {seed}, byte {i} is {byte}");
        }
    }
    assert!(lost_in_the_middle > 10 && half_pages > 3, "{lost_in_the_middle} {half_pages}");
}

#[test]
fn torn_last_tears_only_the_last_write_at_sectors() {
    let fs = disk();
    let mut file = fs.create(&at("f"), IoClass::Client).unwrap();
    write(&mut *file, &[1; 700]).unwrap();
    write(&mut *file, &[2; 3000]).unwrap();
    let mut torn = 0;
    for seed in 0..50 {
        let bytes = fs.crash(seed, CrashPolicy::TornLast).contents(&at("f")).unwrap();
        assert_eq!(bytes[..700], [1; 700]);
        for (i, sector) in bytes.chunks(512).enumerate().skip(2) {
            assert!(sector.iter().all(|&b| b == sector[0]), "seed {seed}, sector {i}");
            torn += usize::from(sector[0] == 0);
        }
    }
    assert!(torn > 20);
}

#[test]
fn the_same_seed_crashes_the_same_way() {
    let fs = example();
    for policy in CrashPolicy::ALL {
        for seed in 0..20 {
            assert_eq!(picture(&fs.crash(seed, policy)), picture(&fs.crash(seed, policy)));
        }
    }
}

/// Runs random calls; after any crash every byte that was synced in a file whose name was synced is there.
#[test]
fn what_was_synced_survives_every_policy() {
    for seed in 0..40u64 {
        let (fs, mut random) = (disk(), Random::new(seed));
        let mut open = Vec::new();
        let mut synced: Vec<(String, u64, bool)> = Vec::new();
        for n in 0..60 {
            match random.below(5) {
                0 => {
                    let name = format!("f{n}");
                    open.push(fs.create(&at(&name), IoClass::Client).unwrap());
                    synced.push((name, 0, false));
                }
                1 => {
                    fs.sync_dir(Path::new(DIR)).unwrap();
                    synced.iter_mut().for_each(|file| file.2 = true);
                }
                kind if !open.is_empty() => {
                    let i = random.below(open.len() as u64) as usize;
                    if kind == 2 {
                        open[i].syncer().sync().unwrap();
                        synced[i].1 = open[i].len();
                    } else {
                        let len = random.below(9000) as usize;
                        let bytes: Vec<u8> =
                            (open[i].len()..).map(|b| (b % 251) as u8 + 1).take(len).collect();
                        write(&mut *open[i], &bytes).unwrap();
                    }
                }
                _ => {}
            }
        }
        for policy in CrashPolicy::ALL {
            let after = fs.crash(seed, policy);
            for (name, len, named) in &synced {
                let bytes = after.contents(&at(name));
                assert!(!named || bytes.is_some(), "seed {seed} {policy:?}: {name} is gone");
                let Some(bytes) = bytes else { continue };
                let good = (0..*len).all(|b| bytes.get(b as usize) == Some(&((b % 251) as u8 + 1)));
                assert!(good, "seed {seed} {policy:?}: {name} lost some of {len} bytes");
                if policy == CrashPolicy::DropUnsynced {
                    assert!(*named && bytes.len() as u64 == *len, "seed {seed}: {name} kept too much");
                }
            }
        }
    }
}

#[test]
fn current_is_the_old_or_the_new_whenever_the_machine_crashes() {
    let mut seen = [0; 2];
    let steps = {
        let fs = disk();
        set_current(&fs, Path::new(DIR), 1, 2).unwrap();
        fs.call_count()
    };
    for nth in 1..=steps {
        for policy in CrashPolicy::ALL {
            for seed in 0..4 {
                let fs = disk();
                set_current(&fs, Path::new(DIR), 1, 2).unwrap();
                fs.crash_after(fs.call_count() + nth);
                let done = set_current(&fs, Path::new(DIR), 3, 4);
                assert_eq!(done.is_err(), fs.has_crashed());
                let after = fs.crash(seed, policy);
                let current = read_current(&after, Path::new(DIR)).unwrap();
                let new = current == Some(3);
                assert!(new || (current == Some(1) && done.is_err()), "call {nth} {policy:?}: {current:?}");
                seen[usize::from(new)] += 1;
                // The leftover of the crash is in nobody's way.
                set_current(&after, Path::new(DIR), 5, 4).unwrap();
                assert_eq!(read_current(&after, Path::new(DIR)).unwrap(), Some(5));
            }
        }
    }
    assert!(seen[0] > 20 && seen[1] > 20, "{seen:?}");
}

#[test]
fn calls_are_counted_and_after_the_crash_nothing_works() {
    let fs = disk();
    fs.crash_after(4);
    let mut file = fs.create(&at("f"), IoClass::Client).unwrap();
    write(&mut *file, b"one").unwrap();
    assert!(fs.exists(&at("f")).unwrap());
    assert!(!fs.has_crashed());
    assert!(write(&mut *file, b"two").unwrap_err().to_string().contains("the simulated machine has crashed"));
    let kinds: Vec<CallKind> = fs.calls().iter().map(|call| call.kind).collect();
    assert_eq!(kinds, [CallKind::CreateDir, CallKind::Create, CallKind::Append, CallKind::Append]);
    assert!(file.append(b"x").is_err() && file.syncer().sync().is_err());
    assert!(fs.open(&at("f")).is_err() && fs.list(Path::new(DIR)).is_err());
    assert!(fs.exists(&at("f")).is_err() && fs.lock(&at("LOCK")).is_err());
    assert_eq!(fs.call_count(), 4);
    // The call under way may have had its effect, or not.
    assert_eq!(picture(&fs.crash(0, CrashPolicy::KeepAll)), "f=onetwo");
    assert_eq!(picture(&fs.crash(0, CrashPolicy::DropUnsynced)), "");
}

#[test]
fn a_killed_process_loses_nothing_and_a_later_power_cut_does() {
    let fs = example();
    let held = fs.lock(&at("LOCK")).unwrap();
    assert_eq!(fs.lock(&at("LOCK")).unwrap_err().kind(), "Locked");
    let next = fs.process_kill();
    drop(next.lock(&at("LOCK")).unwrap());
    let cut = next.crash(0, CrashPolicy::DropUnsynced);
    assert_eq!(picture(&cut), "a=a gone=gone grow=safe old=old");
    drop(held);
    drop(fs.lock(&at("LOCK")).unwrap());
    // The two disks share no file.
    next.sync_dir(Path::new(DIR)).unwrap();
    assert_eq!(picture(&fs.crash(0, CrashPolicy::DropUnsynced)), "a=a gone=gone grow=safe old=old");
}

#[test]
fn a_recycled_log_keeps_old_bytes_and_its_new_name_needs_a_sync() {
    let fs = disk();
    let mut log = fs.create_log(&at("1"), 16, None).unwrap();
    log.append(&[b"first", b"log"]).unwrap();
    log.syncer().sync().unwrap();
    fs.sync_dir(Path::new(DIR)).unwrap();
    let mut log = fs.create_log(&at("2"), 16, Some(&at("1"))).unwrap();
    log.append(&[b"SEC"]).unwrap();
    assert_eq!(picture(&fs), "2=SECstlog00000000");
    assert_eq!(picture(&fs.crash(0, CrashPolicy::DropUnsynced)), "1=firstlog00000000");
    log.syncer().sync().unwrap();
    assert_eq!(picture(&fs.crash(0, CrashPolicy::DropUnsynced)), "1=SECstlog00000000");
    fs.sync_dir(Path::new(DIR)).unwrap();
    assert_eq!(picture(&fs.crash(0, CrashPolicy::DropUnsynced)), "2=SECstlog00000000");
    assert_eq!(log.append(&[&[0; 14]]).unwrap_err().kind(), "NoSpace");
    assert_eq!(fs.create_log(&at("2"), 16, None).unwrap_err().kind(), "Io");
}

#[test]
fn a_full_disk_takes_what_fits_and_is_final_for_the_file() {
    let fs = disk();
    let mut file = fs.create(&at("f"), IoClass::Client).unwrap();
    write(&mut *file, b"12").unwrap();
    fs.set_free_space(Some(3));
    assert_eq!(fs.free_space(Path::new(DIR)).unwrap(), 3);
    assert_eq!(write(&mut *file, b"3456").unwrap_err().kind(), "NoSpace");
    assert_eq!(picture(&fs), "f=12345");
    assert_eq!(fs.create_log(&at("l"), 1, None).unwrap_err().kind(), "NoSpace");
    fs.remove(&at("f")).unwrap();
    assert_eq!(fs.free_space(Path::new(DIR)).unwrap(), 5);
    assert_eq!(file.append(b"x").unwrap_err().kind(), "Poisoned");
    fs.set_free_space(None);
    fs.create_log(&at("l"), 100, None).unwrap();
}

#[test]
fn faults_hit_the_operation_they_were_planted_for() {
    let fs = disk();
    let fault = |kind, nth, sticky| Fault {
        kind,
        path_contains: "f".to_owned(),
        nth,
        error: FaultError::Eio,
        sticky,
    };
    fs.set_contents(&at("f"), b"bytes").unwrap();
    fs.set_contents(&at("g"), b"bytes").unwrap();
    fs.inject(fault(FaultKind::Read, 1, false));
    let file = fs.open(&at("f")).unwrap();
    let mut one = [0];
    let mut results = || file.read_at(0, &mut one, IoClass::Client).is_ok();
    assert_eq!([results(), results(), results()], [true, false, true]);
    fs.inject(fault(FaultKind::Open, 0, true));
    assert!(fs.open(&at("f")).is_err() && fs.open(&at("f")).is_err() && fs.open(&at("g")).is_ok());
    assert_eq!(fs.faults_fired(), 3);
    fs.clear_faults();
    assert!(fs.open(&at("f")).is_ok());

    fs.inject(Fault { error: FaultError::Enospc, ..fault(FaultKind::Create, 0, false) });
    assert_eq!(fs.create(&at("f2"), IoClass::Client).unwrap_err().kind(), "NoSpace");
    fs.inject(fault(FaultKind::Entry, 0, false));
    assert_eq!(fs.remove(&at("f")).unwrap_err().kind(), "Io");
    fs.inject(fault(FaultKind::Write, 0, false));
    let mut file = fs.create(&at("f3"), IoClass::Client).unwrap();
    assert_eq!(write(&mut *file, b"1234").unwrap_err().kind(), "Io");
    assert_eq!(picture(&fs), "f=bytes f3=12 g=bytes");
}

#[test]
fn small_appends_wait_until_they_are_wanted() {
    let fs = disk();
    let mut file = fs.create(&at("f"), IoClass::Client).unwrap();
    fs.set_free_space(Some(3));
    file.append(b"12").unwrap();
    assert_eq!((picture(&fs).as_str(), file.len()), ("f=", 2));
    file.flush().unwrap();
    assert_eq!(picture(&fs), "f=12");
    // The disk is full when they are handed over, not before.
    file.append(b"345").unwrap();
    assert_eq!(file.syncer().sync().unwrap_err().kind(), "NoSpace");
    assert_eq!(picture(&fs), "f=123");
    fs.set_free_space(None);
    let mut large = fs.create(&at("g"), IoClass::Client).unwrap();
    large.append(&[1; 40 << 10]).unwrap();
    large.append(&[1; 40 << 10]).unwrap();
    assert_eq!(fs.contents(&at("g")).unwrap().len(), 40 << 10);
    drop(large);
    assert_eq!(fs.contents(&at("g")).unwrap().len(), 80 << 10);
}

#[test]
fn a_sync_after_a_failed_one_says_that_all_is_well_whatever_was_lost() {
    for (kind, want) in [(FaultKind::Sync, "f=1"), (FaultKind::SyncLosing, "f=")] {
        let fs = disk();
        let mut file = fs.create(&at("f"), IoClass::Client).unwrap();
        fs.sync_dir(Path::new(DIR)).unwrap();
        file.append(b"1").unwrap();
        let path_contains = "/f".to_owned();
        fs.inject(Fault { kind, path_contains, nth: 0, error: FaultError::Eio, sticky: false });
        assert_eq!(file.syncer().sync().unwrap_err().kind(), "Io");
        assert_eq!(picture(&fs), "f=1");
        assert_eq!(picture(&fs.crash(0, CrashPolicy::KeepAll)), want);
        file.syncer().sync().unwrap();
        assert_eq!(picture(&fs.crash(0, CrashPolicy::KeepAll)), want);
    }
}
