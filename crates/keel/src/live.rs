//! Asking a store: through its control socket if a process has it open, else by opening it. Either way the same question
//! gets the same answer, one object of JSON (`docs/observability.md`).
//!
//! ```text
//! SOCKET answers? ─► ask it        no ─► open ─► ask        locked ─► who has it, and the last line of STATS
//! ```

use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::failure::Failure;
use crate::files;
use crate::output::Output;
use crate::store::{EngineArgs, ReadArgs, Target, existing, open_db};

/// A running store answers within this time, or is taken to hang.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a question was answered by.
pub enum Answered {
    /// The process that has the store open.
    Live(Value),
    /// This one, which opened it.
    Here(Value),
}

impl Answered {
    /// The answer.
    pub fn value(self) -> Value {
        match self {
            Answered::Live(value) | Answered::Here(value) => value,
        }
    }
}

/// Asks the store that the command line names: the process that has it open, unless it is to be read from its files.
pub fn ask(target: &Target, read: &ReadArgs, question: &str) -> Result<Answered, Failure> {
    if !read.read_only
        && let Some(answer) = ask_running(target, question)?
    {
        return Ok(Answered::Live(answer));
    }
    let db = read.open_db(target).map_err(with_socket)?;
    let answer = db.control(question);
    db.close()?;
    parse(&answer?).map(Answered::Here)
}

/// The same for what changes the store: the process that has it open does, else this one, which opens it as `engine` says.
pub fn tell(target: &Target, question: &str, engine: &EngineArgs) -> Result<Answered, Failure> {
    if let Some(answer) = ask_running(target, question)? {
        return Ok(Answered::Live(answer));
    }
    let db = open_db(target, engine).map_err(with_socket)?;
    let answer = db.control(question);
    db.close()?;
    parse(&answer?).map(Answered::Here)
}

/// Adds to "it is open elsewhere" how that process would answer.
pub fn with_socket(failure: Failure) -> Failure {
    match failure {
        Failure::Locked { hint, dir } => {
            #[cfg(unix)]
            let fits = evenkeel::background::control_socket_fits(&dir);
            #[cfg(not(unix))]
            let fits = true;
            let why = if !fits {
                "the path of the store is too long for a control socket, at which it would answer itself"
            } else {
                "with the option control_socket=true it answers itself, from when it has opened until it closes"
            };
            let hint = format!("{hint}; {why}");
            Failure::Locked { hint, dir }
        }
        other => other,
    }
}

/// Asks the process that has the store open; nothing if none answers.
#[cfg(unix)]
pub fn ask_running(target: &Target, question: &str) -> Result<Option<Value>, Failure> {
    let Some(mut lines) = connect(target, question)? else { return Ok(None) };
    let mut line = String::new();
    lines.read_line(&mut line).map_err(|error| match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => broken(
            "no answer in time; what was asked for may happen once it goes on: look before you ask again",
        ),
        _ => broken(&error.to_string()),
    })?;
    // A store that closes meanwhile answers nothing.
    if line.is_empty() { Ok(None) } else { parse(&line).map(Some) }
}

/// Prints the events of a running store as they happen, a line of JSON each.
#[cfg(unix)]
pub fn follow(target: &Target) -> Result<(), Failure> {
    existing(target)?;
    let Some(mut lines) = connect(target, "events")? else {
        return Err(Failure::work(
            "no process answers at the store's control socket; only a running store has events",
        ));
    };
    lines.get_ref().set_read_timeout(None).map_err(|error| broken(&error.to_string()))?;
    let mut out = Output::new();
    let mut line = String::new();
    while lines.read_line(&mut line).map_err(|error| broken(&error.to_string()))? > 0 {
        out.line(line.trim_end())?;
        line.clear();
    }
    Ok(())
}

/// A trace that the process which has the store open records for as long as this lives.
#[cfg(unix)]
pub struct LiveTrace(BufReader<std::os::unix::net::UnixStream>);

#[cfg(unix)]
impl LiveTrace {
    /// Begins it; nothing if no process answers.
    pub fn begin(target: &Target, question: &str) -> Result<Option<LiveTrace>, Failure> {
        let Some(lines) = connect(target, question)? else { return Ok(None) };
        let mut trace = LiveTrace(lines);
        trace.answer().and_then(|line| parse(&line)).map(|_| Some(trace))
    }

    /// Looks for so long whether the store is still open.
    pub fn lives(&mut self, within: Duration) -> Result<bool, Failure> {
        self.0.get_ref().set_read_timeout(Some(within)).map_err(|error| broken(&error.to_string()))?;
        match self.0.fill_buf() {
            Ok(bytes) => Ok(!bytes.is_empty()),
            Err(error) => Ok(matches!(
                error.kind(),
                ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
            )),
        }
    }

    /// Ends it: what was recorded.
    pub fn end(mut self) -> Result<Value, Failure> {
        let mut stream = self.0.get_ref();
        let asked = stream.set_read_timeout(Some(PATIENCE)).and_then(|()| stream.write_all(b"end\n"));
        asked.map_err(|error| broken(&error.to_string()))?;
        self.answer().and_then(|line| parse(&line))
    }

    fn answer(&mut self) -> Result<String, Failure> {
        let mut line = String::new();
        match self.0.read_line(&mut line) {
            Ok(0) => Err(broken("the store was closed")),
            Ok(_) => Ok(line),
            Err(error) => Err(broken(&error.to_string())),
        }
    }
}

/// There is none on this system.
#[cfg(not(unix))]
pub enum LiveTrace {}

#[cfg(not(unix))]
impl LiveTrace {
    pub fn begin(_: &Target, _: &str) -> Result<Option<LiveTrace>, Failure> {
        Ok(None)
    }

    pub fn lives(&mut self, _: Duration) -> Result<bool, Failure> {
        match *self {}
    }

    pub fn end(self) -> Result<Value, Failure> {
        match self {}
    }
}

#[cfg(unix)]
fn connect(
    target: &Target,
    question: &str,
) -> Result<Option<BufReader<std::os::unix::net::UnixStream>>, Failure> {
    let Some(dir) = &target.db else { return Ok(None) };
    // A path too long for a socket, none there, or one that nobody listens at: all mean that none answers.
    let Ok(mut stream) = std::os::unix::net::UnixStream::connect(dir.join("SOCKET")) else { return Ok(None) };
    // A question ends with its line: what was typed over several is one.
    let line = question.replace(['\n', '\r'], " ") + "\n";
    let sent = stream
        .set_read_timeout(Some(PATIENCE))
        .and_then(|()| stream.set_write_timeout(Some(PATIENCE)))
        .and_then(|()| stream.write_all(line.as_bytes()));
    sent.map_err(|error| match error.kind() {
        ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => {
            broken("it serves as many as it can; try again")
        }
        _ => broken(&error.to_string()),
    })?;
    Ok(Some(BufReader::new(stream)))
}

#[cfg(not(unix))]
pub fn ask_running(_: &Target, _: &str) -> Result<Option<Value>, Failure> {
    Ok(None)
}

#[cfg(not(unix))]
pub fn follow(_: &Target) -> Result<(), Failure> {
    Err(Failure::work("there is no control socket on this system"))
}

fn broken(what: &str) -> Failure {
    Failure::work(format!("the process that has the store open does not answer: {what}"))
}

/// An answer, or the failure that it tells of.
pub fn parse(line: &str) -> Result<Value, Failure> {
    let value: Value = serde_json::from_str(line).map_err(|error| broken(&error.to_string()))?;
    match value.pointer("/error/message").and_then(Value::as_str) {
        Some(message) if value.get("error").is_some_and(Value::is_object) => Err(Failure::work(message)),
        _ => Ok(value),
    }
}

/// An argument of a question: `%NN` for what would end it.
pub fn argument(text: &str) -> String {
    let escape = |c: char| match c {
        '%' => "%25".to_owned(),
        c if c.is_ascii_whitespace() || c.is_ascii_control() => format!("%{:02x}", u32::from(c)),
        c => c.to_string(),
    };
    text.chars().map(escape).collect()
}

/// Who holds a store's lock, in words, as far as the system tells.
pub fn holder(dir: &Path) -> Option<String> {
    let pid = files::lock_holder(&dir.join("LOCK"))?;
    let name = files::read(Path::new(&format!("/proc/{pid}/comm"))).ok().flatten();
    let name = name.map_or_else(String::new, |name| format!(" ({})", name.trim()));
    Some(format!("process {pid}{name}"))
}

/// The last line of a store's STATS.
pub fn last_stats(dir: &Path) -> Option<Value> {
    let line = files::last_line(&dir.join("STATS")).ok().flatten()?;
    serde_json::from_str(&line).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_survive_blanks_and_answers_may_be_errors() {
        assert_eq!(argument("a b%\n\u{e9}"), "a%20b%25%0a\u{e9}");
        assert!(parse("{\"error\":{\"kind\":\"X\",\"message\":\"no\"}}").is_err());
        assert!(parse("{\"background_errors\":1,\"error\":\"x\"}").is_ok());
        assert!(parse("{").is_err());
    }
}
