//! CSV and NDJSON: loads, their errors by line and column, and dumps as their inverse.

use crate::Keel;

const GOODS: &str = "id,name,price\na1,\"apple, red\",3\nb2,\"pear\nlong\",4\nc3,plum,5\n";

#[test]
fn csv_columns_become_keys_and_values() {
    let keel = Keel::new();
    let file = keel.write("goods.csv", GOODS);
    assert!(keel.ok(&["load", &file]).starts_with("loaded 3 records"), "the ending says what it is");
    assert_eq!(keel.ok(&["get", "a1"]), "{\"name\":\"apple, red\",\"price\":\"3\"}\n");
    assert_eq!(keel.ok(&["get", "b2"]), "{\"name\":\"pear\\nlong\",\"price\":\"4\"}\n");

    let by_name = Keel::new();
    by_name.ok(&["load", &file, "--key-column", "name", "--value-column", "price"]);
    assert_eq!(by_name.ok(&["get", "plum"]), "5\n");
    let by_number = Keel::new();
    let args = ["load", "-", "--format", "csv", "--key-column", "2", "--value-column", "1", "--no-header"];
    by_number.feed(&args, b"x,k\n\"\xff\",\xfe\n").ok();
    assert_eq!(by_number.ok(&["dump", "--escaped"]), "k\tx\n\\xfe\t\\xff\n");
}

#[test]
fn a_malformed_record_is_named_by_its_line_and_nothing_before_it_is_lost() {
    let text = format!("{GOODS}d4,short\ne5,\"two\nlines\",6\n");
    let keel = Keel::new();
    let stopped = keel.feed(&["load", "-", "--format", "csv", "--ack", "--batch", "2"], text.as_bytes());
    stopped.fails(1, &["line 6", "column 2 is the last", "3", "--on-error skip"]);
    assert_eq!(stopped.out, "acked 4\nacked 5\n", "lines of the file, not records");
    assert_eq!(keel.ok(&["scan"]).lines().count(), 3);

    let skipping = ["load", "-", "--format", "csv", "--ack", "--batch", "1", "--on-error", "skip"];
    let skipped = keel.feed(&skipping, text.as_bytes());
    assert_eq!((skipped.code, skipped.err.lines().count()), (0, 1), "{skipped:?}");
    assert!(skipped.out.starts_with("acked 2\nacked 4\nacked 5\nacked 8\n"), "{skipped:?}");
    assert_eq!(keel.ok(&["scan"]).lines().count(), 4);

    let keel = Keel::new();
    let lines = b"{\"id\": \"a\", \"n\": 1.50}\n{\"id\": 7}\n{\"id\": \"b\", }\n";
    let stopped = keel.feed(&["load", "-", "--format", "ndjson", "--key-field", "id"], lines);
    stopped.fails(1, &["line 3", "column 13"]);
    assert_eq!(keel.ok(&["scan"]), "7\t{\"id\": 7}\na\t{\"id\": \"a\", \"n\": 1.50}\n");
    let field = ["load", "-", "--format", "ndjson", "--key-field", "id", "--value-field", "n"];
    keel.feed(&field, lines).fails(1, &["line 2", "no field `n`"]);
    assert_eq!(keel.ok(&["get", "a"]), "1.50\n", "as it is written");
}

#[test]
fn numbers_that_differ_are_keys_that_differ() {
    let keel = Keel::new();
    let lines = b"{\"id\":12345678901234567890123,\"v\":1e3}\n{\"id\":12345678901234567890124,\"v\":[ 1.50 ]}\n{\"id\":7.50,\"v\":\"x\"}\n{\"id\":7.5,\"v\":-0}\n";
    let load = ["load", "-", "--format", "ndjson", "--key-field", "id", "--value-field", "v"];
    keel.feed(&load, lines).ok();
    let records = "12345678901234567890123\t1e3\n12345678901234567890124\t[ 1.50 ]\n7.5\t-0\n7.50\tx\n";
    assert_eq!(keel.ok(&["scan"]), records);
    for (line, says) in [("[1]", "a line is a JSON object"), ("{\"id\":nix}", "no JSON value")] {
        keel.feed(&load, line.as_bytes()).fails(1, &["line 1", "column ", says]);
    }
}

#[test]
fn dumps_are_read_back_whatever_the_bytes() {
    let keel = Keel::new();
    for (key, value) in [
        ("\\e", "\\e"),
        ("a\\x09b", "x\\x0ay"),
        ("\\x00\\xff", "\\xfe"),
        ("\"q\"", "\\x0d"),
        ("c,d", "\\x0d\\x0a"),
    ] {
        keel.ok(&["put", "--escaped", key, value]);
    }
    let wanted = keel.ok(&["dump", "--escaped"]);
    let ndjson = keel.ok(&["dump", "--format", "ndjson"]);
    assert_eq!(ndjson, keel.ok(&["dump", "--json"]));
    let copy = Keel::new();
    let file = copy.write("dump.ndjson", &ndjson);
    copy.ok(&["load", &file]);
    assert_eq!(copy.ok(&["dump", "--escaped"]), wanted);

    let output = keel.command(&["dump", "--format", "csv"]).arg("--db").arg(keel.db()).output().unwrap();
    assert!(output.stdout.starts_with(b"key,value\n\"\",\"\"\n"));
    let copy = Keel::new();
    let file = copy.write("dump.csv", &output.stdout);
    copy.ok(&["load", &file, "--key-column", "key", "--value-column", "value"]);
    assert_eq!(copy.ok(&["dump", "--escaped"]), wanted);
}

#[test]
fn flags_of_another_format_and_columns_that_are_not_there_are_refused() {
    let keel = Keel::new();
    let file = keel.write("goods.csv", GOODS);
    let cases: [(&[&str], &[&str]); 8] = [
        (&["load", &file, "--key-column", "colour"], &["`colour`", "id, name, price"]),
        (&["load", &file, "--key-column", "4"], &["`4`"]),
        (&["load", &file, "--escaped"], &["--escaped", "tsv"]),
        (&["load", &file, "--key-field", "id"], &["--key-field", "ndjson"]),
        (&["load", &file, "--format", "tsv", "--no-header"], &["--no-header", "csv"]),
        (&["load", "-", "--key-column", "1"], &["--key-column", "csv"]),
        (&["load", "-", "--format", "ndjson", "--value-field", "n"], &["--key-field"]),
        (&["dump", "--format", "csv", "--escaped"], &["--escaped"]),
    ];
    for (args, parts) in cases {
        keel.run(args).fails(2, parts);
    }
    assert!(!keel.db().exists(), "no store was made");
}
