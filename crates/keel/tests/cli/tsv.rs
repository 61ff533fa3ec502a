//! `load` and `dump`: inverse to each other, exact about lines, and safe to stop anywhere.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;

use crate::Keel;

#[test]
fn load_and_dump_are_inverse() {
    let keel = Keel::new();
    // Later lines win, a carriage return belongs to the value, the last line needs no end.
    let file = keel.write("in.tsv", "b\tx\ty\r\na\t1\n\tempty key\nb\t2\t\r\nc\t");
    let summary = keel.ok(&["load", &file]);
    assert!(
        summary.starts_with("loaded 5 records, 21 B") && summary.contains("write amplification"),
        "{summary}"
    );
    assert_eq!(keel.ok(&["dump"]), "\tempty key\na\t1\nb\t2\t\r\nc\t\n");

    let escaped = keel.ok(&["dump", "--escaped"]);
    assert_eq!(escaped, "\\e\tempty\\x20key\na\t1\nb\t2\\x09\\x0d\nc\t\\e\n");
    let copy = Keel::new();
    copy.feed(&["load", "--escaped", "-"], escaped.as_bytes()).ok();
    assert_eq!(copy.ok(&["dump"]), keel.ok(&["dump"]));
    let summary = copy.feed(&["load", "--json", "-"], b"k\tv\n").ok();
    let summary: serde_json::Value = serde_json::from_str(&summary).unwrap();
    assert_eq!((&summary["records"], &summary["bytes"]), (&1.into(), &2.into()));
    assert!(summary["seconds"].is_number() && summary["write_amplification"].is_number(), "{summary}");
}

#[test]
fn what_plain_lines_cannot_carry_is_refused() {
    for (key, value, what) in
        [("a\\x09b", "v", "TAB"), ("a\\x0ab", "v", "line end"), ("a", "v\\x0aw", "line end")]
    {
        let keel = Keel::new();
        keel.ok(&["put", "--escaped", key, value]);
        keel.run(&["dump"]).fails(1, &[what, "--escaped"]);
        assert_eq!(keel.ok(&["dump", "--escaped"]), format!("{key}\t{value}\n"));
    }
}

#[test]
fn a_malformed_line_is_named_and_stops_or_is_skipped() {
    let input = b"a\t1\nno tab here\nc\t3\n";
    let keel = Keel::new();
    keel.feed(&["load", "-"], input).fails(1, &["line 2", "TAB", "--on-error skip"]);
    assert_eq!(keel.ok(&["dump"]), "a\t1\n");

    let keel = Keel::new();
    let skipped = keel.feed(&["load", "--on-error", "skip", "--ack", "--batch", "1", "-"], input);
    assert_eq!(skipped.code, 0);
    assert_eq!(skipped.err, "keel: line 2 skipped: there is no TAB between key and value\n");
    assert!(skipped.out.starts_with("acked 1\nacked 3\nloaded 2 records"), "{skipped:?}");
    assert!(skipped.out.contains("1 line skipped"), "{skipped:?}");
    assert_eq!(keel.ok(&["dump"]), "a\t1\nc\t3\n");

    keel.feed(&["load", "--escaped", "-"], b"a\t1\n\\q\t2\n").fails(1, &["line 2", "backslash"]);
    let many = "x\n".repeat(30);
    let skipped = keel.feed(&["load", "--on-error", "skip", "-"], many.as_bytes());
    assert_eq!((skipped.code, skipped.err.lines().count()), (0, 11), "{skipped:?}");
}

#[test]
fn a_key_over_the_limit_is_named_by_its_line() {
    let keel = Keel::new();
    let longest = "k".repeat(64 << 10);
    let input = format!("a\t1\n{longest}\tfits\n{longest}k\ttoo long\n");
    keel.feed(&["load", "-"], input.as_bytes()).fails(1, &["line 3", "65537 bytes", "65536"]);
    assert_eq!(keel.ok(&["dump"]), format!("a\t1\n{longest}\tfits\n"));
    let over = format!("put {longest}k v\nget a\n");
    let answers = keel.feed(&["shell"], over.as_bytes()).ok();
    let (first, rest) = answers.split_once('\n').unwrap();
    assert!(first.starts_with("error Limit "), "{first}");
    assert_eq!(rest, "value 1\n");
}

#[test]
fn acknowledged_lines_survive_a_kill() {
    let keel = Keel::new();
    let lines: Vec<(String, String)> =
        (0..200_000).map(|i| (format!("key{}", i % 70_001), format!("v{i}"))).collect();
    let input: String = lines.iter().map(|(k, v)| format!("{k}\t{v}\n")).collect();
    let file = keel.write("in.tsv", input);
    let mut child = keel
        .command(&["load", "--ack", "--batch", "50", &file])
        .arg("--db")
        .arg(keel.db())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut answers = BufReader::new(child.stdout.take().unwrap()).lines();
    let acked = |line: String| line.strip_prefix("acked ").and_then(|n| n.parse::<usize>().ok());
    let mut last = 0;
    while last < 20_000 {
        last = acked(answers.next().unwrap().unwrap()).unwrap();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    // What was printed before the kill and not read yet counts as well.
    for line in answers.map_while(Result::ok) {
        last = acked(line).unwrap_or(last);
    }
    let dump = keel.ok(&["dump"]);
    let held: BTreeMap<&str, &str> = dump.lines().map(|line| line.split_once('\t').unwrap()).collect();
    let newest = held.values().map(|v| v[1..].parse::<usize>().unwrap()).max().unwrap();
    assert!(newest + 1 >= last, "acked {last}, held {}", newest + 1);
    let truth: BTreeMap<&str, &str> =
        lines[..=newest].iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    assert_eq!(held.len(), truth.len());
    assert!(held == truth, "the store holds exactly the first {} lines", newest + 1);
    assert!(keel.ok(&["verify"]).starts_with("sound"));
    keel.ok(&["load", &file]);
    let truth: BTreeMap<String, String> = lines.into_iter().collect();
    let truth: String = truth.iter().map(|(k, v)| format!("{k}\t{v}\n")).collect();
    assert!(keel.ok(&["dump"]) == truth, "loading again gives the sorted, last-value-wins truth");
}

#[test]
fn closed_pipes_end_quietly() {
    let keel = Keel::new();
    let input: String = (0..50_000).map(|i| format!("key{i}\tsome value\n")).collect();
    keel.feed(&["load", "-"], input.as_bytes()).ok();
    let mut child = keel
        .command(&["dump"])
        .arg("--db")
        .arg(keel.db())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = [0; 10];
    child.stdout.take().unwrap().read_exact(&mut first).unwrap();
    let mut err = String::new();
    child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    assert_eq!((child.wait().unwrap().code(), err.as_str()), (Some(0), ""));
}

#[test]
fn a_load_whose_acknowledgements_nobody_reads_fails() {
    use std::io::{BufRead, BufReader, Write};
    use std::process::Stdio;
    let keel = Keel::new();
    let mut command = keel.command(&["load", "--ack", "--batch", "1", "-", "--db"]);
    command.arg(keel.db()).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    writeln!(input, "a\t1").unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    assert_eq!(line, "acked 1\n");
    drop(output);
    writeln!(input, "b\t2").unwrap();
    let _ = writeln!(input, "c\t3");
    drop(input);
    let done = crate::done(child.wait_with_output().unwrap());
    done.fails(1, &["nobody reads the acknowledgements", "stopped after line 2"]);
    assert_eq!(keel.ok(&["scan"]), "a\t1\nb\t2\n");
}

#[test]
fn acknowledgements_are_json_where_the_summary_is() {
    let keel = Keel::new();
    let out = keel.feed(&["load", "--ack", "--batch", "1", "--json", "-"], b"a\t1\nb\t2\n").ok();
    let rows: Vec<serde_json::Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(
        (&rows[0]["acked"], &rows[1]["acked"], &rows[2]["records"]),
        (&1.into(), &2.into(), &2.into())
    );
    assert!(rows[2]["background_seconds"].is_number() && rows[2]["write_amplification"].is_number(), "{out}");
    let out = keel.feed(&["load", "--no-wait", "--json", "-"], b"c\t3\n").ok();
    assert!(
        serde_json::from_str::<serde_json::Value>(&out).unwrap()["background_seconds"].is_null(),
        "{out}"
    );
    assert!(keel.feed(&["load", "-"], b"d\t4\n").ok().starts_with("loaded 1 record, 2 B, in "));
}
