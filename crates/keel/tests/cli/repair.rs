//! `keel repair`: what it says, what it does, and that the store is there again.

use crate::{Keel, list, make_dir, read_bytes, remove_file, write_file};

/// A store with tables of which one has a damaged block.
fn damaged() -> (Keel, String) {
    let keel = Keel::new();
    let lines: String = (0..2000).map(|n| format!("key{n:05}\t{}\n", "v".repeat(50))).collect();
    keel.feed(&["load", "-"], lines.as_bytes()).ok();
    keel.ok(&["compact"]);
    let table = list(&keel.db()).into_iter().find(|name| name.ends_with(".sst")).unwrap();
    let mut bytes = read_bytes(&keel.db().join(&table));
    bytes[100] ^= 1;
    write_file(&keel.db().join(&table), &bytes);
    (keel, table)
}

#[test]
fn a_damaged_table_is_set_apart_and_its_whole_blocks_stay() {
    let (keel, table) = damaged();
    let before = list(&keel.db());
    let said = keel.run(&["repair"]);
    said.fails(1, &["1 file is damaged", "--apply"]);
    assert!(said.out.contains(&table) && said.out.contains("would be lost: "), "{said:?}");
    assert_eq!(list(&keel.db()), before);
    let said: serde_json::Value = serde_json::from_str(&keel.run(&["repair", "--json"]).out).unwrap();
    assert_eq!((&said["damage"][0]["file"], &said["repaired"]), (&table.clone().into(), &false.into()));
    let done = keel.ok(&["repair", "--apply"]);
    assert!(done.contains("repaired; what was damaged is in lost/"), "{done}");
    assert_eq!(list(&keel.db().join("lost")), [table]);
    assert!(keel.ok(&["verify"]).starts_with("sound: "));
    let left = keel.ok(&["scan"]).lines().count();
    assert!((1800..2000).contains(&left), "{left}");
    assert!(keel.ok(&["repair"]).starts_with("nothing is damaged: "));
}

#[test]
fn options_that_are_gone_are_not_sound() {
    let keel = Keel::new();
    keel.ok(&["put", "--strategy", "tier", "a", "1"]);
    let options = list(&keel.db()).into_iter().find(|name| name.starts_with("OPTIONS-")).unwrap();
    remove_file(&keel.db().join(&options));
    let verified = keel.run(&["verify"]);
    assert!(verified.code == 1 && verified.out.contains(&options), "{verified:?}");
    let got = keel.run(&["get", "a"]);
    assert_eq!((got.code, got.out.as_str()), (0, "1\n"));
    assert!(got.err.contains(&options) && got.err.contains("missing"), "{got:?}");
}

#[test]
fn a_store_without_current_is_found_and_other_directories_are_left_alone() {
    let (keel, _) = damaged();
    let current = keel.db().join("CURRENT");
    let manifest = String::from_utf8(read_bytes(&current)).unwrap();
    write_file(&current, b"nonsense");
    keel.run(&["get", "key00001"]).fails(1, &["CURRENT", "keel repair"]);
    remove_file(&current);
    for verb in [&["get", "key00001"][..], &["put", "a", "1"]] {
        keel.run(verb).fails(1, &["CURRENT", "this was a store", "keel repair"]);
    }
    let done = keel.ok(&["repair", "--apply"]);
    assert!(done.contains("CURRENT") && done.contains(manifest.split(' ').next().unwrap()), "{done}");
    assert_eq!(keel.ok(&["get", "key01999"]).trim_end(), "v".repeat(50));

    let keel = Keel::new();
    keel.run(&["repair"]).fails(1, &["there is no store at"]);
    make_dir(&keel.db());
    write_file(&keel.db().join("letter.txt"), b"dear");
    keel.run(&["repair", "--apply"]).fails(1, &["there is no store at"]);
    assert_eq!(list(&keel.db()), ["letter.txt"]);
}
