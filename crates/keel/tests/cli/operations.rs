//! Checkpoints, looks beside a process that has the store open, and single files looked into.

use crate::{Keel, list, read_bytes, write_file};

fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn filled() -> Keel {
    let keel = Keel::new();
    let lines: String = (0..3000).map(|i| format!("key{i:04}\tvalue {i}\n")).collect();
    let file = keel.write("in.tsv", lines);
    keel.ok(&["load", &file]);
    keel.ok(&["keyspace", "create", "other"]);
    keel.ok(&["put", "--keyspace", "other", "k", "v"]);
    keel
}

#[test]
fn a_checkpoint_is_a_store() {
    let keel = filled();
    keel.ok(&["compact"]);
    let target = keel.path("backups/monday").to_str().unwrap().to_owned();
    let said = keel.ok(&["checkpoint", &target]);
    assert!(said.contains("as of sequence 3001") && said.contains("linked"), "{said}");
    let copy = |args: &[&str]| keel.bare(&[&["--db", &target], args].concat()).ok();
    assert_eq!(copy(&["scan"]), keel.ok(&["scan"]));
    assert_eq!(copy(&["get", "k", "--keyspace", "other"]), "v\n");
    assert!(copy(&["verify"]).starts_with("sound"));
    assert_eq!(list(&keel.path("backups")), ["monday"]);

    let before = list(&keel.path("backups/monday"));
    keel.run(&["checkpoint", &target]).fails(1, &["exists already"]);
    keel.run(&["checkpoint", keel.db().to_str().unwrap()]).fails(1, &["exists already"]);
    assert_eq!(list(&keel.path("backups/monday")), before);
    let other = keel.path("tuesday").to_str().unwrap().to_owned();
    let made = json(&keel.ok(&["checkpoint", &other, "--json"]));
    assert!(made["tables"]["linked"].as_u64().unwrap() > 0 && made["sequence"] == 3001, "{made}");
    keel.run(&["checkpoint", &other, "--keyspace", "none"]).fails(1, &["`none`"]);
    keel.run(&["checkpoint"]).fails(2, &["TARGET"]);
}

#[test]
fn a_store_that_is_open_can_be_looked_at() {
    let keel = filled();
    let mut shell = crate::shell::Shell::start(&keel, &[]);
    assert_eq!(shell.ask("put new 1"), "ok");
    // The shell answers at its control socket, so these need no lock.
    assert!(keel.ok(&["stats"]).contains("of the running store") && !keel.ok(&["levels"]).is_empty());
    for args in [&["get", "new"][..], &["scan"], &["dump"], &["stats"], &["levels"], &["verify"]] {
        if !["stats", "levels"].contains(&args[0]) {
            keel.run(args).fails(1, &["LOCK", "--read-only"]);
        }
        assert!(!keel.ok(&[args, &["--read-only"]].concat()).is_empty());
    }
    assert_eq!(keel.ok(&["get", "--read-only", "new"]), "1\n");
    assert_eq!(shell.ask("put new 2"), "ok");
    assert_eq!(keel.ok(&["get", "--read-only", "new"]), "2\n");
    assert_eq!(keel.ok(&["scan", "--read-only"]).lines().count(), 3001);
    assert_eq!(shell.ask("quit"), "ok");

    // And one that nobody has open: no file comes, goes or changes.
    let files = || -> Vec<(String, Vec<u8>)> {
        list(&keel.db()).into_iter().map(|name| (name.clone(), read_bytes(&keel.db().join(&name)))).collect()
    };
    let before = files();
    assert_eq!(keel.ok(&["scan", "--read-only"]).lines().count(), 3001);
    assert_eq!(keel.run(&["get", "--read-only", "none"]).code, 1);
    assert!(files() == before, "a look changed the store");
    keel.run(&["put", "k", "v", "--read-only"]).fails(2, &["--read-only"]);
}

fn file(keel: &Keel, part: &str) -> String {
    // The last of its kind; of tables the largest.
    let size = |name: &String| keel.db().join(name).metadata().unwrap().len();
    let names = list(&keel.db()).into_iter().filter(|name| name.contains(part));
    let name = names.max_by_key(|name| if part == ".sst" { size(name) } else { 0 }).unwrap();
    keel.db().join(name).to_str().unwrap().to_owned()
}

#[test]
fn single_files_are_shown_without_a_store() {
    let keel = filled();
    keel.ok(&["compact"]);
    let table = file(&keel, ".sst");
    let text = keel.bare(&["inspect", "table", &table]).ok();
    for part in ["key0000 .. key2999", "0 deletes", "blocks", "index", "filter", "sequences"] {
        assert!(text.contains(part), "no `{part}` in {text}");
    }
    let lines = keel.bare(&["inspect", "table", &table, "--entries", "--blocks", "--json"]).ok();
    let rows: Vec<serde_json::Value> = lines.lines().map(json).collect();
    let of = |kind: &str| rows.iter().filter(|row| row["type"] == kind).count() as u64;
    let summary = rows.last().unwrap();
    assert_eq!((of("entry"), of("table")), (3000, 1));
    assert_eq!(summary["blocks"], of("block"));
    assert_eq!(rows.iter().find(|row| row["type"] == "entry").unwrap()["value"], "value 0");

    let log = keel.path("copy.of.a.log").to_str().unwrap().to_owned();
    keel.ok(&["put", "some key", "logged"]);
    write_file(&keel.path("copy.of.a.log"), &read_bytes(file(&keel, ".log").as_ref()));
    let text = keel.bare(&["inspect", "wal", &log, "--entries"]).ok();
    assert!(text.contains("put some\\x20key  logged (6 B)") && text.contains("sealed at"), "{text}");
    let rows: Vec<_> =
        keel.bare(&["inspect", "wal", &log, "--entries", "--json"]).ok().lines().map(json).collect();
    assert_eq!(
        (rows[0]["batch"][0]["key"].as_str(), rows[1]["tail"]["state"].as_str()),
        (Some("some key"), Some("sealed"))
    );

    let manifest = file(&keel, "MANIFEST");
    let text = keel.bare(&["inspect", "manifest", &manifest]).ok();
    assert!(
        text.contains("`other`") && text.contains("L0") && text.contains("[key0000 - key2999]"),
        "{text}"
    );
    let lines = keel.bare(&["inspect", "manifest", &manifest, "--json"]).ok();
    assert_eq!(json(lines.lines().last().unwrap())["keyspaces"][1]["name"], "other");
}

#[test]
fn damage_is_listed_and_the_rest_is_shown() {
    let keel = filled();
    keel.ok(&["compact"]);
    let table = file(&keel, ".sst");
    let mut bytes = read_bytes(table.as_ref());
    bytes[6000] ^= 1;
    let damaged = keel.write("damaged.sst", &bytes);
    let shown = keel.bare(&["inspect", "table", &damaged, "--entries"]);
    shown.fails(1, &["damaged.sst", "at byte"]);
    assert!(shown.out.contains("key2999") && shown.out.contains("DAMAGE"), "{}", shown.out);
    assert!((2000..3000).contains(&shown.out.lines().filter(|line| line.contains(" put key")).count()));
    let shown = keel.bare(&["inspect", "table", &damaged, "--json"]);
    assert_eq!(json(&shown.out)["damage"].as_array().unwrap().len(), 1);

    keel.bare(&["inspect", "table", &file(&keel, ".log")]).fails(1, &["at byte"]);
    keel.bare(&["inspect", "wal", &file(&keel, "MANIFEST")]).fails(1, &["inspect manifest"]);
    keel.bare(&["inspect", "manifest", &file(&keel, ".log")]).fails(1, &["inspect wal"]);
    keel.bare(&["inspect", "table", "/no/such.sst"]).fails(1, &["/no/such.sst"]);
    keel.bare(&["inspect", "table"]).fails(2, &["FILE"]);
    keel.bare(&["inspect"]).fails(2, &["--help"]);
    keel.run(&["inspect", "table", &damaged]).fails(2, &["--db"]);
}
