//! The control socket over a real directory: who is let in, what is answered, and that nothing wrong with a client hurts
//! the store. Nothing here waits for time to pass.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use super::{CLIENTS_MAX, LINE_BYTES_MAX};
use crate::db::database::Db;
use crate::observe::event::Event;

fn open(dir: &Path) -> Db {
    Db::builder(dir).control_socket(true).open().unwrap()
}

fn socket(dir: &Path) -> PathBuf {
    dir.join("SOCKET")
}

fn client(dir: &Path) -> BufReader<UnixStream> {
    BufReader::new(UnixStream::connect(socket(dir)).unwrap())
}

fn ask(client: &mut BufReader<UnixStream>, question: &str) -> String {
    client.get_mut().write_all(format!("{question}\n").as_bytes()).unwrap();
    let mut line = String::new();
    client.read_line(&mut line).unwrap();
    assert!(line.ends_with('\n'), "{line:?}");
    line.trim_end().to_owned()
}

#[test]
fn it_answers_while_the_store_is_open_and_is_gone_with_it() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let mode = socket(dir.path()).metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    db.put(b"a", b"1").unwrap();
    db.flush().unwrap();
    let mut client = client(dir.path());
    assert!(ask(&mut client, "ping").starts_with(&format!("{{\"pid\":{}", std::process::id())));
    assert!(ask(&mut client, "stats").contains("\"flushes\":{\"count\":1}"));
    assert!(ask(&mut client, "levels").contains("\"from\":\"a\",\"to\":\"a\""));
    assert!(ask(&mut client, "levels default").contains("\"keyspace\":\"default\""));
    assert!(ask(&mut client, "explain").contains("Wanted: nothing, the tree is in shape"));
    assert!(ask(&mut client, "slow").contains("\"threshold_us\":1000"));
    assert!(ask(&mut client, "prometheus").contains("# TYPE evenkeel_flushes_total counter"));
    assert!(ask(&mut client, "properties").contains("\"evenkeel.num-files-at-level0\":\"1\""));
    let cost =
        r#"{"keyspace":"default","text":"tier","distance_bytes":0,"reshaping_bytes":0,"debt_bytes":0}"#;
    assert_eq!(ask(&mut client, "strategy-cost default tier"), cost);
    assert_eq!(db.control("strategy").unwrap(), r#"{"keyspace":"default","text":"1-leveling"}"#);
    assert_eq!(ask(&mut client, "set-strategy default tier"), cost);
    assert!(ask(&mut client, "set-schedule fixed:1MiB").contains("\"text\":\"fixed:1MiB\""));
    assert!(ask(&mut client, "schedule").contains("\"text\":\"fixed:1MiB\""));
    assert_eq!(db.control("strategy").unwrap(), r#"{"keyspace":"default","text":"tier"}"#);
    assert!(ask(&mut client, "set-option slow_us 7").contains(r#"{"name":"slow_us","value":"7","#));
    assert_eq!(db.options().slow_us, 7);
    for (question, kind) in [
        ("", "InvalidArgument"),
        ("fly", "InvalidArgument"),
        ("trace", "InvalidArgument"),
        ("trace plain", "InvalidArgument"),
        ("trace plain relative", "InvalidArgument"),
        ("trace upside-down /t", "InvalidArgument"),
        ("stats now", "InvalidArgument"),
        ("levels nowhere", "InvalidArgument"),
        ("levels %", "InvalidArgument"),
        ("set-strategy default", "InvalidArgument"),
        ("set-strategy default none", "InvalidArgument"),
        ("set-schedule", "InvalidArgument"),
        ("set-schedule sometimes", "InvalidArgument"),
        ("set-option slow_us", "InvalidArgument"),
        ("set-option slow_us soon", "InvalidArgument"),
        ("set-option control_socket false", "InvalidArgument"),
    ] {
        let answer = ask(&mut client, question);
        assert!(answer.starts_with(&format!("{{\"error\":{{\"kind\":\"{kind}\"")), "{question}: {answer}");
    }
    db.close().unwrap();
    assert!(!socket(dir.path()).exists());
    let mut rest = String::new();
    assert_eq!(client.read_to_string(&mut rest).unwrap_or(0), 0, "the connection ends with the store");
}

#[test]
fn what_a_killed_process_left_is_replaced_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    drop(UnixListener::bind(socket(dir.path())).unwrap());
    assert!(UnixStream::connect(socket(dir.path())).is_err(), "nobody listens");
    let db = open(dir.path());
    ask(&mut client(dir.path()), "ping");
    db.close().unwrap();

    std::os::unix::fs::symlink("elsewhere", socket(dir.path())).unwrap();
    let told: Arc<Mutex<Vec<String>>> = Arc::default();
    let heard = Arc::clone(&told);
    let listener = move |event: &Event| heard.lock().unwrap().push(event.to_string());
    let builder = Db::builder(dir.path()).control_socket(true).listener(Arc::new(listener));
    let db = builder.open().unwrap();
    db.put(b"a", b"1").unwrap();
    db.close().unwrap();
    assert!(told.lock().unwrap().iter().any(|e| e.contains("is no socket; move it away")), "{told:?}");
    assert!(socket(dir.path()).symlink_metadata().is_ok());
}

#[test]
fn a_path_too_long_costs_the_socket_and_not_the_store() {
    let dir = tempfile::tempdir().unwrap();
    let deep = dir.path().join("d".repeat(120));
    let told: Arc<Mutex<Vec<String>>> = Arc::default();
    let heard = Arc::clone(&told);
    let listener = move |event: &Event| heard.lock().unwrap().push(event.to_string());
    let db = Db::builder(&deep).control_socket(true).listener(Arc::new(listener)).open().unwrap();
    db.close().unwrap();
    assert!(told.lock().unwrap().iter().any(|e| e.contains("use a shorter directory")), "{told:?}");
}

#[test]
fn lines_and_clients_are_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let mut clients: Vec<_> = (0..CLIENTS_MAX).map(|_| client(dir.path())).collect();
    clients.iter_mut().for_each(|c| assert!(ask(c, "ping").contains("pid")));
    let mut line = String::new();
    client(dir.path()).read_line(&mut line).unwrap();
    assert!(line.contains("\"kind\":\"InvalidArgument\"") && line.contains("served already"), "{line}");
    // A line without an end.
    let mut endless = clients.pop().unwrap();
    endless.get_mut().write_all(&vec![b'x'; LINE_BYTES_MAX + 4097]).unwrap();
    line.clear();
    endless.read_line(&mut line).unwrap();
    assert!(line.contains("\"kind\":\"Limit\"") && line.contains("the line has"), "{line}");
    assert!(ask(&mut clients[0], "ping").contains("pid"), "the others go on");
    db.close().unwrap();
}

#[test]
fn a_panic_ends_its_connection_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let mut unlucky = client(dir.path());
    unlucky.get_mut().write_all(b"panic\n").unwrap();
    let mut rest = String::new();
    assert_eq!(unlucky.read_to_string(&mut rest).unwrap_or(0), 0);
    assert!(ask(&mut client(dir.path()), "ping").contains("pid"));
    db.put(b"a", b"1").unwrap();
    db.close().unwrap();
}

#[test]
fn events_are_followed_to_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let mut follower = client(dir.path());
    follower.get_mut().write_all(b"events\n").unwrap();
    let mut line = String::new();
    follower.read_line(&mut line).unwrap();
    assert!(line.contains("\"event\":\"opened\""), "{line}");
    db.put(b"a", b"1").unwrap();
    db.flush().unwrap();
    let mut seen = Vec::new();
    while !seen.iter().any(|line: &String| line.contains("\"event\":\"flush_finished\"")) {
        line.clear();
        assert!(follower.read_line(&mut line).unwrap() > 0, "{seen:?}");
        seen.push(line.clone());
    }
    assert!(seen.iter().any(|line| line.contains("\"event\":\"flush_started\"")), "{seen:?}");
    db.close().unwrap();
}
