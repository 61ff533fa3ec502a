//! What the run cost the machine, as the kernel counts it: memory, CPU of our own and of everybody else, and what the machine
//! itself was kept from.
//!
//! Read from `/proc`; where there is none, the answers are `None` and the report says so. CPU that others used says whether
//! a measurement can be believed at all.

use std::collections::BTreeMap;
use std::time::Instant;

use crate::base::clock;

/// The kernel's unit for CPU time in `/proc`, fixed for user space.
const TICKS_PER_SECOND: f64 = 100.0;
/// In less time nobody can tell by ticks what others used.
const SECONDS_MIN: f64 = 0.25;

/// CPU seconds up to some moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Cpu {
    /// Used by this process.
    pub own_seconds: f64,
    /// Used on all cores, interrupts left out.
    pub all_seconds: f64,
    /// Of that by each of the kernel's own threads that is there. What they do for reads and writes is nobody's: beside synced
    /// writes it is a fifth of a core, and it is the measured engine's own doing.
    pub kernel_seconds: BTreeMap<u32, f64>,
    /// In which cores of a virtual machine would have run and were not let, summed over them; 0 on a machine of metal, `None`
    /// where the kernel does not count it. No process used them, so they are in neither of the others.
    pub stolen_seconds: Option<f64>,
}

impl Cpu {
    /// Cores that other processes used in the `seconds` since `before`; nothing if these are so few that the kernel's hundredths
    /// of a second do not tell.
    pub fn others_cores_since(&self, before: &Cpu, seconds: f64) -> Option<f64> {
        let own = self.own_seconds - before.own_seconds;
        let others = self.all_seconds - before.all_seconds - own - self.kernel_since(before);
        (seconds >= SECONDS_MIN).then(|| (others / seconds).max(0.0))
    }

    /// Of the kernel's threads since `before`; of one that has ended meanwhile nobody knows any more.
    fn kernel_since(&self, before: &Cpu) -> f64 {
        let since = |(id, now): (&u32, &f64)| now - before.kernel_seconds.get(id).unwrap_or(&0.0);
        self.kernel_seconds.iter().map(since).map(|seconds| seconds.max(0.0)).sum()
    }

    /// Seconds stolen since `before`, in whole hundredths, as the kernel counts them.
    pub fn stolen_since(&self, before: &Cpu) -> Option<f64> {
        let seconds = self.stolen_seconds? - before.stolen_seconds?;
        Some((seconds * TICKS_PER_SECOND).round().max(0.0) / TICKS_PER_SECOND)
    }
}

/// CPU seconds up to now.
pub fn cpu() -> Option<Cpu> {
    let own = parse_own(&read("/proc/self/stat")?)?;
    let stat = read("/proc/stat")?;
    let (all_seconds, stolen_seconds) = (parse_all(&stat)?, parse_stolen(&stat));
    Some(Cpu { own_seconds: own, all_seconds, kernel_seconds: kernel_threads(), stolen_seconds })
}

/// CPU seconds of each of the kernel's own threads.
#[expect(clippy::disallowed_methods, reason = "the kernel's counters are not the store's files")]
fn kernel_threads() -> BTreeMap<u32, f64> {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = processes.map(|entry| entry.file_name()).filter_map(|name| name.to_str()?.parse::<u32>().ok());
    let stats = ids.filter_map(|id| Some((id, read(&format!("/proc/{id}/stat"))?)));
    stats
        .filter(|(_, stat)| is_kernel_thread(stat))
        .filter_map(|(id, stat)| Some((id, parse_own(&stat)?)))
        .collect()
}

/// CPU that is used from a moment on.
#[derive(Debug)]
pub struct Meter {
    since: Option<Cpu>,
    started: Instant,
}

/// What a [`Meter`] shows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Used {
    /// CPU seconds of this process.
    pub own_seconds: f64,
    /// Cores that other processes used, in the mean, if it was long enough to tell.
    pub others_cores: Option<f64>,
}

impl Meter {
    /// From now on.
    pub fn start() -> Meter {
        Meter { since: cpu(), started: clock::now() }
    }

    /// Up to now.
    pub fn used(&self) -> Option<Used> {
        let seconds = self.started.elapsed().as_secs_f64();
        let (before, after) = self.since.as_ref().zip(cpu())?;
        let own_seconds = after.own_seconds - before.own_seconds;
        Some(Used { own_seconds, others_cores: after.others_cores_since(before, seconds) })
    }
}

/// The most memory this process has held, in bytes.
pub fn peak_rss_bytes() -> Option<u64> {
    parse_peak(&read("/proc/self/status")?)
}

/// Memory of this process that is in RAM now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Resident {
    /// Its own: heap, stacks, memory it mapped. Nobody can take it away but by swapping.
    pub anonymous_bytes: u64,
    /// Pages of files: the program's text, the mapped log. The system's cache, which it can take back.
    pub file_bytes: u64,
}

/// Memory in RAM now.
pub fn resident() -> Option<Resident> {
    parse_resident(&read("/proc/self/status")?)
}

#[expect(clippy::disallowed_methods, reason = "the kernel's counters are not the store's files")]
fn read(path: &str) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

/// Fields 14 and 15 of `stat` are user and system time; the second field may hold blanks and ends with `)`.
fn parse_own(stat: &str) -> Option<f64> {
    let mut fields = stat.get(stat.rfind(')')? + 1..)?.split_ascii_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some((user + system) as f64 / TICKS_PER_SECOND)
}

/// Field 9 of `stat` are flags; the kernel marks its own threads.
fn is_kernel_thread(stat: &str) -> bool {
    const PF_KTHREAD: u64 = 0x0020_0000;
    let fields = stat.rfind(')').and_then(|end| stat.get(end + 1..)).unwrap_or_default();
    let flags = fields.split_ascii_whitespace().nth(6).and_then(|flags| flags.parse::<u64>().ok());
    flags.is_some_and(|flags| flags & PF_KTHREAD != 0)
}

/// User, nice and system time of all cores. Guest time is in user time already; interrupts are nobody's, and so is what was
/// stolen: with it, a machine that stood still would look like one that others are busy on.
fn parse_all(stat: &str) -> Option<f64> {
    let ticks = all_ticks(stat)?;
    let busy: u64 = ticks.iter().take(3).sum();
    (ticks.len() >= 4).then_some(busy as f64 / TICKS_PER_SECOND)
}

/// What was stolen from all cores.
fn parse_stolen(stat: &str) -> Option<f64> {
    Some(*all_ticks(stat)?.get(7)? as f64 / TICKS_PER_SECOND)
}

/// The line `cpu user nice system idle iowait irq softirq steal guest…`.
fn all_ticks(stat: &str) -> Option<Vec<u64>> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    Some(line.split_ascii_whitespace().map_while(|field| field.parse().ok()).collect())
}

fn parse_peak(status: &str) -> Option<u64> {
    parse_kib(status, "VmHWM:")
}

fn parse_resident(status: &str) -> Option<Resident> {
    let file_bytes = parse_kib(status, "RssFile:")? + parse_kib(status, "RssShmem:").unwrap_or(0);
    Some(Resident { anonymous_bytes: parse_kib(status, "RssAnon:")?, file_bytes })
}

fn parse_kib(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_s_texts_are_understood() {
        let own = "42 (a ) b) S 1 2 3 4 5 6 7 8 9 10 150 50 0 0 20 0 1";
        assert_eq!(parse_own(own), Some(2.0));
        assert_eq!(parse_own("nonsense"), None);
        let all = "cpu  100 10 200 9999 9999 30 40 20 7 7\ncpu0 1 2 3 4\n";
        assert_eq!((parse_all(all), parse_stolen(all)), (Some(3.1), Some(0.2)));
        assert_eq!(parse_stolen("cpu  100 10 200 9999 9999 30 40\n"), None, "kernels before 2.6.11");
        assert!(is_kernel_thread("2 (kthreadd) S 0 0 0 0 -1 2129984 0 0"));
        assert!(!is_kernel_thread("31 (a ) b) R 3 31 7 0 -1 4194304 124 0"));
        assert_eq!(parse_all("cpu x"), None);
        let at = |own_seconds, all_seconds| {
            let kernel_seconds = BTreeMap::new();
            Cpu { own_seconds, all_seconds, kernel_seconds, stolen_seconds: None }
        };
        assert_eq!(at(3.0, 17.0).others_cores_since(&at(1.0, 10.0), 2.5), Some(2.0));
        assert_eq!(at(3.0, 11.99).others_cores_since(&at(1.0, 10.0), 2.5), Some(0.0));
        assert_eq!(at(1.1, 10.3).others_cores_since(&at(1.0, 10.0), 0.01), None);
        assert_eq!(parse_peak("Name:\tx\nVmHWM:\t    2048 kB\n"), Some(2 << 20));
        assert_eq!(parse_peak("VmHWM: much"), None);
        let status = "RssAnon:\t 3 kB\nRssFile:\t 2 kB\nRssShmem:\t 1 kB\n";
        let resident = Resident { anonymous_bytes: 3072, file_bytes: 3072 };
        assert_eq!(parse_resident(status), Some(resident));
        assert_eq!(parse_resident("RssFile: 2 kB"), None);
    }

    #[test]
    fn threads_of_the_kernel_are_nobody_whether_they_come_or_go() {
        let at = |all_seconds, kernel: &[(u32, f64)]| {
            let kernel_seconds = kernel.iter().copied().collect();
            Cpu { own_seconds: 0.0, all_seconds, kernel_seconds, stolen_seconds: None }
        };
        // The first went on for a second, the second has ended with its nine, the third has come and used two.
        let (before, after) = (at(100.0, &[(1, 4.0), (2, 9.0)]), at(105.0, &[(1, 5.0), (3, 2.0)]));
        assert_eq!(after.others_cores_since(&before, 2.0), Some(1.0));
    }

    #[test]
    fn stolen_seconds_are_whole_hundredths() {
        let at = |stolen_seconds| {
            let kernel_seconds = BTreeMap::new();
            Cpu { own_seconds: 0.0, all_seconds: 0.0, kernel_seconds, stolen_seconds }
        };
        // As numbers of this kind their difference is below 0.02.
        assert_eq!(at(Some(1423.47)).stolen_since(&at(Some(1423.45))), Some(0.02));
        assert_eq!(at(Some(1.0)).stolen_since(&at(Some(1.5))), Some(0.0), "a kernel that counts back");
        assert_eq!(at(None).stolen_since(&at(Some(1.0))), None);
        assert_eq!(at(Some(1.0)).stolen_since(&at(None)), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_machine_answers() {
        let used = Meter::start().used().unwrap();
        assert!(used.own_seconds >= 0.0 && used.others_cores.is_none(), "{used:?}");
        let cpu = cpu().unwrap();
        assert!(cpu.own_seconds >= 0.0 && cpu.all_seconds > 0.0);
        assert!(peak_rss_bytes().unwrap() > 1 << 16);
    }
}
