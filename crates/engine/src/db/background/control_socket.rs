//! The control socket: a Unix socket `SOCKET` in the store's directory, for its owner alone, that answers the questions of
//! `control_protocol.rs` while the store runs.
//!
//! ```text
//! accept, at most 8 clients ─► a thread each: a line of at most 64 KiB ─► its answer ─► the next line
//!                                             events ─► a line an event, until the client or the store goes
//!                                             trace  ─► operations are recorded, until the next line or so too
//! ```
//! Whoever holds the store's lock owns the name: what is left of a killed process is replaced. A panic while answering ends
//! that connection only. Nothing here can keep the store from opening or closing.

use std::io::{self, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, Mode};

use super::control_protocol::{answer, error_json, start_trace};
use super::trace;
use crate::base::clock::spawn;
use crate::base::error::Error;
use crate::base::locks::{Mutex, has_ended, thread::JoinHandle};
use crate::db::store::state::Store;
use crate::observe::event::Event;
use crate::observe::json::Object;
use crate::storage::file_name::FileName;

/// Clients served at once.
const CLIENTS_MAX: usize = 8;
/// The longest line that is read.
const LINE_BYTES_MAX: usize = 64 << 10;
/// A client that sends nothing, or takes nothing, for so long is let go.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often threads look whether the store closes, should nobody have told them.
const LOOK: Duration = Duration::from_secs(1);
/// A socket's path must fit into the address: 108 bytes with the zero at its end.
const PATH_BYTES_MAX: usize = 107;

/// Begins to answer. What keeps it from doing so is told as an event, and the store goes on without.
pub fn start(store: &Arc<Store>) -> Option<JoinHandle<()>> {
    let path = FileName::Socket.path(&store.dir);
    let started = bind(&path).map_err(|error| error.to_string()).and_then(|listener| {
        let (store, name) = (Arc::clone(store), path.clone());
        let body = move || {
            if catch_unwind(AssertUnwindSafe(|| serve(&store, &listener))).is_err() {
                let error = "its thread panicked; please report it".to_owned();
                store.event(&Event::NotWritten { file: "SOCKET", error });
            }
            remove_name(&name);
        };
        spawn("keel-socket", body).map_err(|error| {
            remove_name(&path);
            error.to_string()
        })
    });
    match started {
        Ok(thread) => Some(thread),
        Err(error) => {
            store.event(&Event::NotWritten { file: "SOCKET", error });
            None
        }
    }
}

/// A name that stays is replaced by the next open.
fn remove_name(path: &Path) {
    let _ = rustix::fs::unlink(path);
}

/// The store closes: ends the wait for clients.
pub fn wake(dir: &Path) {
    // If nobody listens, nobody needs to be woken.
    let _ = UnixStream::connect(FileName::Socket.path(dir));
}

/// Whether the control socket of a store in this directory has a path that is short enough for one.
pub fn fits(dir: &Path) -> bool {
    is_short(&temp_name(&FileName::Socket.path(dir)))
}

fn is_short(path: &Path) -> bool {
    path.as_os_str().len() <= PATH_BYTES_MAX
}

/// Listens under another name first, so that nobody but the owner ever finds the socket open.
fn bind(path: &Path) -> io::Result<UnixListener> {
    let bytes = path.as_os_str().len();
    let temp = temp_name(path);
    if !is_short(&temp) {
        let what =
            format!("its path has {bytes} bytes, and a socket's may have about 100: use a shorter directory");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    }
    for name in [path, &temp] {
        match rustix::fs::lstat(name) {
            Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Socket => {
                rustix::fs::unlink(name)?;
            }
            Ok(_) => {
                let what = format!("{} is there and is no socket; move it away", name.display());
                return Err(io::Error::new(io::ErrorKind::AlreadyExists, what));
            }
            Err(_) => {}
        }
    }
    let listener = UnixListener::bind(&temp)?;
    rustix::fs::chmod(&temp, Mode::RUSR | Mode::WUSR)?;
    listener.set_nonblocking(true)?;
    rustix::fs::rename(&temp, path)?;
    Ok(listener)
}

fn temp_name(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".tmp");
    PathBuf::from(name)
}

/// Connections that are served, so that the end of the store ends them.
#[derive(Default)]
struct Clients {
    open: AtomicUsize,
    streams: Mutex<Vec<(u64, UnixStream)>>,
}

impl Clients {
    fn remove(&self, id: u64) -> Option<UnixStream> {
        self.open.fetch_sub(1, Ordering::Relaxed);
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        let at = streams.iter().position(|(other, _)| *other == id)?;
        Some(streams.swap_remove(at).1)
    }
}

fn serve(store: &Arc<Store>, listener: &UnixListener) {
    let clients = Arc::new(Clients::default());
    let mut threads: Vec<JoinHandle<()>> = Vec::new();
    let mut next = 0;
    while !store.background.is_stopping() {
        let timeout = Timespec { tv_sec: LOOK.as_secs() as i64, tv_nsec: 0 };
        // An interrupted wait is a short one.
        let _ = poll(&mut [PollFd::new(listener, PollFlags::IN)], Some(&timeout));
        while let Some(stream) = next_client(store, listener) {
            threads.retain(|thread| !has_ended(thread));
            if clients.open.load(Ordering::Relaxed) >= CLIENTS_MAX {
                refuse(stream);
                continue;
            }
            next += 1;
            threads.extend(connect(store, &clients, next, stream));
        }
    }
    for (_, stream) in clients.streams.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        // One that is gone already is what is wanted.
        let _ = stream.shutdown(std::net::Shutdown::Both);
    }
    for thread in threads {
        // A panic of the thread was caught in it.
        let _ = thread.join();
    }
}

/// A client that waits to be let in; `None` if there is none. Where one waits and cannot be let in, as without a free file
/// descriptor, it goes on to wait, and whoever asks for it at once would ask for ever.
fn next_client(store: &Store, listener: &UnixListener) -> Option<UnixStream> {
    loop {
        match listener.accept() {
            Ok((stream, _)) => return Some(stream),
            Err(error) => match error.kind() {
                io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted => {}
                io::ErrorKind::WouldBlock => return None,
                _ => {
                    rest(store);
                    return None;
                }
            },
        }
    }
}

/// Lets `LOOK` go by, unless the store is closed.
fn rest(store: &Store) {
    let tenth = Timespec { tv_sec: 0, tv_nsec: LOOK.as_nanos() as i64 / 10 };
    for _ in 0..10 {
        if !store.background.is_stopping() {
            let _ = poll(&mut [], Some(&tenth));
        }
    }
}

fn refuse(stream: UnixStream) {
    refuse_with(
        stream,
        &Error::invalid(format!("{CLIENTS_MAX} are served already; ask again when one has gone")),
    );
}

fn refuse_with(mut stream: UnixStream, error: &Error) {
    let _ = stream.set_write_timeout(Some(LOOK));
    let _ = stream.write_all((error_json(error) + "\n").as_bytes());
}

fn connect(
    store: &Arc<Store>,
    clients: &Arc<Clients>,
    id: u64,
    stream: UnixStream,
) -> Option<JoinHandle<()>> {
    stream.set_nonblocking(false).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    stream.set_write_timeout(Some(PATIENCE)).ok()?;
    let copy = stream.try_clone().ok()?;
    clients.open.fetch_add(1, Ordering::Relaxed);
    clients.streams.lock().unwrap_or_else(PoisonError::into_inner).push((id, copy));
    let (store, served) = (Arc::clone(store), Arc::clone(clients));
    let body = move || {
        // A panic is this client's trouble: its connection ends without an answer.
        let _ = catch_unwind(AssertUnwindSafe(|| converse(&store, stream)));
        served.remove(id);
    };
    match spawn("keel-client", body) {
        Ok(thread) => Some(thread),
        Err(error) => {
            if let Some(stream) = clients.remove(id) {
                refuse_with(stream, &error);
            }
            None
        }
    }
}

/// Lines and answers, until the client has enough, or is too slow.
fn converse(store: &Arc<Store>, mut stream: UnixStream) -> io::Result<()> {
    let mut read = Vec::new();
    while !store.background.is_stopping() {
        let Some(line) = next_line(&mut stream, &mut read)? else { return Ok(()) };
        if line.trim() == "events" {
            return follow(store, stream);
        }
        if let Some(arguments) = line.trim().strip_prefix("trace ") {
            record(store, &mut stream, &mut read, arguments)?;
            continue;
        }
        let mut answer = answer(store, &line);
        answer.push('\n');
        stream.write_all(answer.as_bytes())?;
    }
    Ok(())
}

/// The next line without its end; nothing at the end of the stream. What has come after it stays in `read`.
fn next_line(stream: &mut UnixStream, read: &mut Vec<u8>) -> io::Result<Option<String>> {
    let mut piece = [0; 4096];
    loop {
        if let Some(end) = read.iter().position(|b| *b == b'\n') {
            let line: Vec<u8> = read.drain(..=end).collect();
            return Ok(Some(String::from_utf8_lossy(&line).trim().to_owned()));
        }
        if read.len() > LINE_BYTES_MAX {
            let error = Error::Limit { what: "line", bytes: read.len() as u64, max: LINE_BYTES_MAX as u64 };
            stream.write_all((error_json(&error) + "\n").as_bytes())?;
            return Ok(None);
        }
        let n = stream.read(&mut piece)?;
        if n == 0 {
            // A last line without an end is one.
            let line = String::from_utf8_lossy(read).trim().to_owned();
            read.clear();
            return Ok((!line.is_empty()).then_some(line));
        }
        read.extend_from_slice(piece.get(..n).unwrap_or_default());
    }
}

/// Records a trace that lasts until the next line, or until the client or the store goes: nobody can leave one behind.
fn record(
    store: &Arc<Store>,
    stream: &mut UnixStream,
    read: &mut Vec<u8>,
    arguments: &str,
) -> io::Result<()> {
    let recording = match start_trace(store, arguments) {
        Ok(recording) => recording,
        Err(error) => return stream.write_all((error_json(&error) + "\n").as_bytes()),
    };
    let begun = Object::new().text("path", &recording.path.display().to_string()).end() + "\n";
    stream.set_read_timeout(None)?;
    let ended = stream.write_all(begun.as_bytes()).and_then(|()| next_line(stream, read));
    let answer = trace::end(store, &recording).map_or_else(|error| error_json(&error), |sum| sum.to_json());
    ended?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all((answer + "\n").as_bytes())
}

/// Events as they happen, those that are remembered first.
fn follow(store: &Store, mut stream: UnixStream) -> io::Result<()> {
    let mut next = 0;
    loop {
        let (events, after) = store.journal.events_from(next);
        next = after;
        for event in events {
            stream.write_all(event.as_bytes())?;
            stream.write_all(b"\n")?;
        }
        let open = store.journal.wait(next, false, LOOK);
        if !open || has_gone(&stream) {
            return Ok(());
        }
    }
}

/// True if the client has closed its end.
fn has_gone(stream: &UnixStream) -> bool {
    let mut ready = [PollFd::new(stream, PollFlags::IN | PollFlags::HUP)];
    let none = Timespec { tv_sec: 0, tv_nsec: 0 };
    let polled = poll(&mut ready, Some(&none));
    polled.is_ok() && ready.iter().any(|fd| fd.revents().intersects(PollFlags::HUP | PollFlags::ERR))
}

#[cfg(test)]
#[path = "control_socket_tests.rs"]
mod tests;
