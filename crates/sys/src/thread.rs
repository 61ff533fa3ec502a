//! Scheduling class, CPU time and punctuality of threads.
//!
//! Background threads run as SCHED_IDLE, so that a waking client gets its core at once, and are raised
//! when a deadline nears. **Lowering always works, raising needs a right**: without CAP_SYS_NICE or an
//! RLIMIT_NICE of at least 20, Linux lets no thread leave SCHED_IDLE or come back from nice 19. Ask
//! [`can_raise_priority`] first; where it says no, urgent work must move to a thread never lowered.

use std::io;
use std::time::Duration;

/// How eagerly the kernel runs a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Priority {
    /// The default class at nice 0: what client threads have.
    Normal,
    /// SCHED_BATCH at nice 0, in long turns: as much of a core as others, but it lets whoever wakes beside it go first. What a
    /// thread may be that can never be raised, or that has to hold what everyone needs.
    Batch,
    /// The default class at nice 19: about 1.5 % of a core that others want.
    Nice19,
    /// SCHED_IDLE: runs when nobody else wants the core, and is preempted by whoever wakes.
    Idle,
}

/// A thread of this process, as the kernel numbers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ThreadId(i32);

/// The calling thread's id, by which another thread can raise or lower it.
pub fn current_thread_id() -> ThreadId {
    ThreadId(imp::current())
}

/// Sets the priority of a thread of this process. An ended thread is an error (`ESRCH`), a raise without
/// the right to it is `PermissionDenied`. But as `Batch`, it takes short turns from then on (100 us from Linux 6.12 on): as much of a
/// core as before, but whoever wakes beside it waits for the end of one of these, and not of milliseconds.
pub fn set_thread_priority(thread: ThreadId, priority: Priority) -> io::Result<()> {
    imp::set(thread.0, priority)
}

/// The priority of a thread of this process; other classes and nice values count as `Normal`.
pub fn thread_priority(thread: ThreadId) -> io::Result<Priority> {
    imp::get(thread.0)
}

/// Whether a thread lowered to `Idle` or `Nice19` can be brought back to `Normal`.
pub fn can_raise_priority() -> bool {
    imp::can_raise()
}

/// Gives up CAP_SYS_NICE, for good, of the calling thread and of those that it will start: to see what comes of a process without it.
/// What RLIMIT_NICE allows stays allowed.
pub fn give_up_raising_priority() -> io::Result<()> {
    imp::give_up_raising()
}

/// CPU time used by the calling thread; zero where the system does not tell.
pub fn thread_cpu_time() -> Duration {
    imp::thread_cpu_time()
}

/// CPU time used by all threads of the process; zero where the system does not tell.
pub fn process_cpu_time() -> Duration {
    imp::process_cpu_time()
}

/// The most memory the process ever had resident; zero where the system does not tell.
pub fn process_peak_rss_bytes() -> u64 {
    imp::peak_rss_bytes()
}

/// Lets the kernel end sleeps of the calling thread at most this late, so as to wake several threads at once; Linux takes
/// 50 µs where nobody says otherwise. At least a nanosecond; `Unsupported` where there is no such thing.
pub fn set_timer_slack(slack: Duration) -> io::Result<()> {
    imp::set_timer_slack(u32::try_from(slack.as_nanos()).unwrap_or(u32::MAX).max(1))
}

/// How late sleeps of the calling thread may end; zero where the system does not tell.
pub fn timer_slack() -> Duration {
    Duration::from_nanos(u64::from(imp::timer_slack()))
}

/// Lets `duration` pass, and ends as soon after it as the kernel can: some microseconds instead of more than 50.
#[expect(clippy::disallowed_methods, reason = "this is how to sleep where a moment is to be met")]
pub fn sleep_punctually(duration: Duration) {
    let slack = timer_slack();
    // Where there is no such thing, the sleep is as it is.
    let _ = set_timer_slack(Duration::ZERO);
    std::thread::sleep(duration);
    let _ = set_timer_slack(slack);
}

/// Lets another thread that is ready run first.
pub fn yield_now() {
    std::thread::yield_now();
}

#[cfg(all(target_os = "linux", not(miri)))]
mod imp {
    use super::Priority;
    use std::io;
    use std::mem::MaybeUninit;
    use std::time::Duration;

    pub fn current() -> i32 {
        // SAFETY: takes nothing, always succeeds.
        unsafe { libc::gettid() }
    }

    pub fn set(thread: i32, priority: Priority) -> io::Result<()> {
        /// The shortest and the longest that the kernel takes. Of threads of one weight it prefers who asks for the shorter turn.
        const SHORT_NANOS: u64 = 100_000;
        const LONG_NANOS: u64 = 100_000_000;
        own_thread(thread)?;
        let (policy, nice, turn) = match priority {
            Priority::Normal => (libc::SCHED_OTHER, 0, SHORT_NANOS),
            Priority::Batch => (libc::SCHED_BATCH, 0, LONG_NANOS),
            Priority::Nice19 => (libc::SCHED_OTHER, 19, SHORT_NANOS),
            // SCHED_IDLE is below every nice value, so that of the thread is left as it is.
            Priority::Idle => (libc::SCHED_IDLE, 0, SHORT_NANOS),
        };
        let attributes = libc::sched_attr {
            size: size_of::<libc::sched_attr>() as u32,
            sched_policy: policy as u32,
            sched_flags: 0,
            sched_nice: nice,
            sched_priority: 0,
            sched_runtime: turn,
            sched_deadline: 0,
            sched_period: 0,
        };
        // SAFETY: `attributes` lives through the call, which only reads as many bytes of it as its `size` says.
        result(unsafe { libc::syscall(libc::SYS_sched_setattr, thread, &raw const attributes, 0) } as i32)
    }

    pub fn get(thread: i32) -> io::Result<Priority> {
        own_thread(thread)?;
        // SAFETY: takes and returns integers only.
        let policy = unsafe { libc::sched_getscheduler(thread) };
        if policy < 0 {
            return Err(io::Error::last_os_error());
        }
        match policy {
            libc::SCHED_IDLE => return Ok(Priority::Idle),
            libc::SCHED_BATCH => return Ok(Priority::Batch),
            _ => {}
        }
        // SAFETY: takes and returns integers only. The thread exists, so -1 is a nice value, no error.
        let nice = unsafe { libc::getpriority(libc::PRIO_PROCESS, thread.unsigned_abs()) };
        Ok(if nice == 19 { Priority::Nice19 } else { Priority::Normal })
    }

    pub fn can_raise() -> bool {
        const NICE_0_AS_LIMIT: libc::rlim_t = 20;
        has_cap_sys_nice() || {
            let mut limit = MaybeUninit::<libc::rlimit>::uninit();
            // SAFETY: the call writes one `rlimit` to the given place, which is read only on success.
            unsafe {
                libc::getrlimit(libc::RLIMIT_NICE, limit.as_mut_ptr()) == 0
                    && limit.assume_init().rlim_cur >= NICE_0_AS_LIMIT
            }
        }
    }

    pub fn thread_cpu_time() -> Duration {
        clock(libc::CLOCK_THREAD_CPUTIME_ID)
    }

    pub fn process_cpu_time() -> Duration {
        clock(libc::CLOCK_PROCESS_CPUTIME_ID)
    }

    pub fn peak_rss_bytes() -> u64 {
        let mut usage = MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: the call writes one `rusage`; all-zero bytes are a valid `rusage` if it fails.
        let usage = unsafe {
            libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
            usage.assume_init()
        };
        u64::try_from(usage.ru_maxrss).unwrap_or(0) * 1024
    }

    pub fn set_timer_slack(nanos: u32) -> io::Result<()> {
        // SAFETY: takes integers only.
        result(unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, libc::c_ulong::from(nanos), 0, 0, 0) })
    }

    pub fn timer_slack() -> u32 {
        // SAFETY: takes and returns integers only.
        u32::try_from(unsafe { libc::prctl(libc::PR_GET_TIMERSLACK, 0, 0, 0, 0) }).unwrap_or(0)
    }

    /// Thread numbers are reused by other processes, so make sure that this one is still ours.
    fn own_thread(thread: i32) -> io::Result<()> {
        // SAFETY: signal 0 is sent to nobody, the call only checks that the thread is in this process.
        result(unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, 0) } as i32)
    }

    fn result(code: i32) -> io::Result<()> {
        if code == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    const CAP_SYS_NICE: u32 = 1 << 23;

    /// The calling thread, in the version of these calls that has 64 capabilities.
    const CAPABILITIES_OF_CALLER: [u32; 2] = [0x2008_0522, 0];

    /// Effective, permitted and inheritable ones; the lower 32, then the upper.
    type Capabilities = [[u32; 3]; 2];

    fn capabilities() -> io::Result<Capabilities> {
        let (mut header, mut data) = (CAPABILITIES_OF_CALLER, Capabilities::default());
        // SAFETY: this version reads and writes a header of two words and writes two sets of three words, which is what the
        // arrays hold.
        result(unsafe { libc::syscall(libc::SYS_capget, header.as_mut_ptr(), data.as_mut_ptr()) } as i32)?;
        Ok(data)
    }

    fn has_cap_sys_nice() -> bool {
        capabilities().is_ok_and(|[lower, _]| lower[0] & CAP_SYS_NICE != 0)
    }

    pub fn give_up_raising() -> io::Result<()> {
        let (mut header, mut data) = (CAPABILITIES_OF_CALLER, capabilities()?);
        data[0].iter_mut().for_each(|set| *set &= !CAP_SYS_NICE);
        // SAFETY: this version reads and writes a header of two words and reads two sets of three words, which is what the arrays
        // hold.
        result(unsafe { libc::syscall(libc::SYS_capset, header.as_mut_ptr(), data.as_ptr()) } as i32)
    }

    fn clock(id: libc::clockid_t) -> Duration {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the call writes one `timespec` to a place that lives through it.
        unsafe {
            libc::clock_gettime(id, &raw mut time);
        }
        Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
    }
}

#[cfg(not(all(target_os = "linux", not(miri))))]
mod imp {
    use super::Priority;
    use std::io;
    use std::time::Duration;

    pub fn current() -> i32 {
        0
    }

    pub fn set(_thread: i32, priority: Priority) -> io::Result<()> {
        if priority == Priority::Normal { Ok(()) } else { Err(io::ErrorKind::Unsupported.into()) }
    }

    pub fn get(_thread: i32) -> io::Result<Priority> {
        Ok(Priority::Normal)
    }

    pub fn can_raise() -> bool {
        false
    }

    pub fn give_up_raising() -> io::Result<()> {
        Ok(())
    }

    pub fn thread_cpu_time() -> Duration {
        Duration::ZERO
    }

    pub fn process_cpu_time() -> Duration {
        Duration::ZERO
    }

    pub fn peak_rss_bytes() -> u64 {
        0
    }

    pub fn set_timer_slack(_nanos: u32) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub fn timer_slack() -> u32 {
        0
    }
}

#[cfg(test)]
#[cfg(all(target_os = "linux", not(miri)))]
mod tests {
    use super::*;
    use std::sync::mpsc;

    /// Runs on a thread of its own, since a lowered thread may not come back.
    fn on_a_thread<T: Send>(run: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|s| s.spawn(run).join().unwrap())
    }

    fn set_own(priority: Priority) -> io::Result<()> {
        set_thread_priority(current_thread_id(), priority)
    }

    #[test]
    fn lowering_always_works_and_raising_when_permitted() {
        on_a_thread(|| {
            let me = current_thread_id();
            assert_eq!(thread_priority(me).unwrap(), Priority::Normal);
            for low in [Priority::Idle, Priority::Nice19] {
                set_own(low).unwrap();
                assert_eq!(thread_priority(me).unwrap(), low);
                let raised = set_own(Priority::Normal);
                assert_eq!(raised.is_ok(), can_raise_priority(), "{raised:?}");
                if raised.is_err() {
                    return;
                }
                assert_eq!(thread_priority(me).unwrap(), Priority::Normal);
            }
        });
    }

    #[test]
    fn who_lets_others_go_first_may_always_become_normal_again() {
        on_a_thread(|| {
            give_up_raising_priority().unwrap();
            for priority in [Priority::Batch, Priority::Normal] {
                set_own(priority).unwrap();
                assert_eq!(thread_priority(current_thread_id()).unwrap(), priority);
            }
        });
    }

    #[test]
    fn a_right_given_up_is_given_up_by_this_thread_alone() {
        let before = can_raise_priority();
        on_a_thread(|| {
            give_up_raising_priority().unwrap();
            set_own(Priority::Idle).unwrap();
            assert_eq!(set_own(Priority::Normal).is_ok(), can_raise_priority());
            assert_eq!(on_a_thread(can_raise_priority), can_raise_priority());
        });
        assert_eq!(can_raise_priority(), before);
    }

    #[test]
    fn another_thread_is_lowered_by_its_id_until_it_ends() {
        let (tell, told) = mpsc::channel();
        let (finish, finished) = mpsc::channel::<()>();
        let thread = std::thread::scope(|s| {
            s.spawn(move || {
                tell.send(current_thread_id()).unwrap();
                finished.recv().unwrap();
            });
            let thread = told.recv().unwrap();
            assert_ne!(thread, current_thread_id());
            set_thread_priority(thread, Priority::Idle).unwrap();
            assert_eq!(thread_priority(thread).unwrap(), Priority::Idle);
            assert_eq!(thread_priority(current_thread_id()).unwrap(), Priority::Normal);
            finish.send(()).unwrap();
            thread
        });
        // `scope` returns when the closure has ended, which is a moment before the kernel forgets the thread.
        while set_thread_priority(thread, Priority::Idle).is_ok() {
            yield_now();
        }
    }

    #[test]
    fn a_thread_of_another_process_is_refused() {
        assert!(set_thread_priority(ThreadId(1), Priority::Idle).is_err());
        assert!(set_thread_priority(ThreadId(-1), Priority::Idle).is_err());
    }

    #[test]
    fn cpu_time_grows_with_work() {
        // The process's time first: what passes between the two reads must not be missing from its share.
        let process = process_cpu_time();
        let thread = thread_cpu_time();
        let mut x = 1u64;
        while thread_cpu_time() < thread + Duration::from_millis(2) {
            x = std::hint::black_box(x.wrapping_mul(6364136223846793005).wrapping_add(1));
        }
        assert!(process_cpu_time() >= process + Duration::from_millis(2));
    }

    #[test]
    fn timer_slack_is_a_thread_s_own() {
        let here = timer_slack();
        let nanos = Duration::from_nanos;
        on_a_thread(|| {
            for (asked, set) in [(0, 1), (1, 1), (7_000, 7_000)] {
                set_timer_slack(nanos(asked)).unwrap();
                assert_eq!(timer_slack(), nanos(set));
            }
        });
        assert!(timer_slack() == here && here > nanos(7_000));
    }

    #[test]
    fn a_punctual_sleep_is_no_shorter_and_leaves_no_trace() {
        let slack = timer_slack();
        #[expect(clippy::disallowed_methods, reason = "measures a sleep")]
        let begun = std::time::Instant::now();
        sleep_punctually(Duration::from_millis(1));
        assert!(begun.elapsed() >= Duration::from_millis(1) && timer_slack() == slack);
    }

    #[test]
    fn peak_memory_never_falls() {
        let before = process_peak_rss_bytes();
        let held = vec![1u8; 8 << 20];
        let with = process_peak_rss_bytes();
        drop(std::hint::black_box(held));
        assert!(before > 0 && with >= before && process_peak_rss_bytes() >= with);
    }
}
