//! Ctrl-C as a flag: a long-running command that can be cancelled cleanly looks at it now and then.
//! The first interrupt sets the flag; a second one ends the process, as it would have without this. Whoever leaves something
//! behind catches the wish that it end (SIGTERM), too.

use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// From now on the first interrupt (SIGINT) sets the flag that [`was_interrupted`] answers, instead of ending the process. False
/// where that cannot be had.
pub fn catch_interrupt() -> bool {
    imp::install(imp::INTERRUPT)
}

/// The same for the wish of others that the process end (SIGTERM).
pub fn catch_termination() -> bool {
    imp::install(imp::TERMINATION)
}

/// True once the process was interrupted after [`catch_interrupt`], or was to end after [`catch_termination`].
#[inline]
pub fn was_interrupted() -> bool {
    INTERRUPTED.load(Ordering::Acquire)
}

/// Tells a process that was started here that it is to end (SIGTERM). False if it has, or where that cannot be had.
pub fn tell_to_end(child: &mut Child) -> bool {
    // Its number is its own until it has ended and somebody has seen that.
    child.try_wait().is_ok_and(|ended| ended.is_none()) && imp::tell(child)
}

#[cfg(unix)]
mod imp {
    use super::{Child, INTERRUPTED, Ordering};

    pub const INTERRUPT: libc::c_int = libc::SIGINT;
    pub const TERMINATION: libc::c_int = libc::SIGTERM;

    extern "C" fn interrupted(_signal: libc::c_int) {
        INTERRUPTED.store(true, Ordering::Release);
    }

    pub fn install(signal: libc::c_int) -> bool {
        // SAFETY: `sigaction` is plain data for which all zeros is a valid value; every field that matters is set below.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = interrupted as extern "C" fn(libc::c_int) as usize;
        // Back to the default after the first, so that a second one ends the process; interrupted calls go on.
        action.sa_flags = libc::SA_RESETHAND | libc::SA_RESTART;
        // SAFETY: both pointers are valid for the call, the old action is not asked for, and the handler only stores into a
        // lock-free atomic, which a signal handler may do.
        unsafe {
            libc::sigemptyset(&raw mut action.sa_mask);
            libc::sigaction(signal, &raw const action, std::ptr::null_mut()) == 0
        }
    }

    pub fn tell(child: &Child) -> bool {
        let Ok(process) = libc::pid_t::try_from(child.id()) else { return false };
        // SAFETY: a system call without pointers.
        unsafe { libc::kill(process, TERMINATION) == 0 }
    }
}

#[cfg(not(unix))]
mod imp {
    use super::Child;

    pub const INTERRUPT: i32 = 2;
    pub const TERMINATION: i32 = 15;

    pub fn tell(_child: &Child) -> bool {
        false
    }

    pub fn install(_signal: i32) -> bool {
        false
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn the_first_interrupt_is_caught() {
        assert!(catch_interrupt() && !was_interrupted());
        // SAFETY: raises a signal in this thread, whose handler was installed above.
        assert_eq!(unsafe { libc::raise(libc::SIGINT) }, 0);
        assert!(was_interrupted());
        assert!(catch_termination());
        // SAFETY: as above.
        assert_eq!(unsafe { libc::raise(libc::SIGTERM) }, 0);
    }
}
