//! A process that is waited for, and that is to end when this one is.

use std::io::{self, Read};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use evenkeel_lab::base::clock;

/// How soon it is looked whether it has ended: soon at first, and seldom if it takes longer, as it may be a measurement.
const LOOK_AFTER: Duration = Duration::from_millis(1);
const LOOK_EACH: Duration = Duration::from_millis(100);

/// Whoever interrupts this process, or has it end, is heeded by what looks at it: what it would leave behind goes as well.
pub fn catch_interrupts() {
    evenkeel_sys::catch_interrupt();
    evenkeel_sys::catch_termination();
}

/// Runs it and answers what it said. If this process is interrupted, or to end, the other one is told to end as well, so that it can leave
/// nothing behind and measures beside nobody.
pub fn output(command: &mut Command) -> io::Result<Output> {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    thread::scope(|scope| {
        let (stdout, stderr) = (scope.spawn(|| all_of(stdout)), scope.spawn(|| all_of(stderr)));
        let (mut was_told, mut pause) = (false, LOOK_AFTER);
        let status = loop {
            match child.try_wait() {
                Ok(Some(status)) => break status,
                Ok(None) => {}
                Err(error) => {
                    // Its words are waited for below: they end with it.
                    let _ = child.kill();
                    return Err(error);
                }
            }
            if evenkeel_sys::was_interrupted() && !was_told {
                was_told = evenkeel_sys::tell_to_end(&mut child);
            }
            clock::pause(pause);
            pause = (pause * 2).min(LOOK_EACH);
        };
        let said = |words: thread::ScopedJoinHandle<'_, io::Result<Vec<u8>>>| {
            words.join().unwrap_or_else(|_| Err(io::Error::other("its words were not read")))
        };
        Ok(Output { status, stdout: said(stdout)?, stderr: said(stderr)? })
    })
}

fn all_of(pipe: Option<impl Read>) -> io::Result<Vec<u8>> {
    let mut words = Vec::new();
    pipe.map_or(Ok(0), |mut pipe| pipe.read_to_end(&mut words))?;
    Ok(words)
}
