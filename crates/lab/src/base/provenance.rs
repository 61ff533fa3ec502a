//! Where a document comes from: the command, the moment, the machine. Figures without these are worth little.
//!
//! What the system does not tell is `None`, and reports say so.

use std::path::Path;

use serde::{Deserialize, Serialize};

/// See the file's header.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provenance {
    /// The command as typed, quoted for a shell.
    pub command: String,
    /// When it began, in milliseconds since 1970.
    pub began_ms: u64,
    /// Where it ran.
    pub host: Host,
}

/// A machine, as far as it bears on a measurement.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// Cores this process may use.
    pub cores: Option<u64>,
    /// What the processor calls itself.
    pub cpu: Option<String>,
    /// Main memory.
    pub memory_bytes: Option<u64>,
    /// The kernel and its version.
    pub kernel: Option<String>,
    /// The file system that held the store, and its device.
    pub disk: Option<String>,
}

impl Provenance {
    /// This process, whose store is below `dir`; it began at `began_ms`.
    pub fn here(began_ms: u64, dir: &Path) -> Provenance {
        let words: Vec<String> = std::env::args_os().map(|word| quoted(&word.to_string_lossy())).collect();
        Provenance { command: words.join(" "), began_ms, host: Host::here(dir) }
    }
}

impl Host {
    /// This machine, and the disk that holds `dir`.
    pub fn here(dir: &Path) -> Host {
        Host {
            cores: std::thread::available_parallelism().ok().map(|n| n.get() as u64),
            cpu: read("/proc/cpuinfo").and_then(|text| parse_cpu(&text)),
            memory_bytes: read("/proc/meminfo").and_then(|text| parse_memory(&text)),
            kernel: read("/proc/sys/kernel/osrelease").map(|release| format!("Linux {}", release.trim())),
            disk: read("/proc/self/mountinfo").zip(dir.canonicalize().ok()).and_then(|(mounts, dir)| {
                let mount = parse_mount(&mounts, &dir)?;
                let model = read(&format!("/sys/dev/block/{}/device/model", mount.number))
                    .or_else(|| read(&format!("/sys/dev/block/{}/../device/model", mount.number)))
                    .map_or_else(String::new, |model| format!(" ({})", model.trim()));
                Some(format!("{} on {}{model}", mount.file_system, mount.device))
            }),
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "what the kernel tells of the machine is not the store's files"
)]
fn read(path: &str) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

fn parse_cpu(cpuinfo: &str) -> Option<String> {
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.split_whitespace().collect::<Vec<_>>().join(" "))
}

fn parse_memory(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// A line of `/proc/self/mountinfo`.
#[derive(Debug, PartialEq)]
struct Mount<'a> {
    /// Major and minor number of the device.
    number: &'a str,
    file_system: &'a str,
    device: &'a str,
}

/// The mount that holds `dir`: `36 35 254:0 / /mnt rw,noatime shared:1 - ext4 /dev/vda rw`. The longest mount point wins, and
/// of several on one point the last.
fn parse_mount<'a>(mountinfo: &'a str, dir: &Path) -> Option<Mount<'a>> {
    let parse = |line: &'a str| {
        let (left, right) = line.split_once(" - ")?;
        let left: Vec<&str> = left.split(' ').collect();
        let [_, _, number, _, point, ..] = *left.as_slice() else { return None };
        let mut right = right.split(' ');
        let mount = Mount { number, file_system: right.next()?, device: right.next()? };
        // The kernel writes a blank in a mount point as `\040`.
        dir.starts_with(point.replace("\\040", " ")).then_some((point.len(), mount))
    };
    mountinfo.lines().filter_map(parse).max_by_key(|(length, _)| *length).map(|(_, mount)| mount)
}

/// The commit of the sources that this command lies among, with `-dirty` if they were changed; `None` if git knows none.
pub fn commit() -> Option<String> {
    let program = std::env::current_exe().ok()?;
    let described = std::process::Command::new("git")
        .arg("-C")
        .arg(program.parent()?)
        .args(["describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"])
        .stderr(std::process::Stdio::null())
        .output()
        .ok()?;
    let text = String::from_utf8(described.stdout).ok()?.trim().to_owned();
    (described.status.success() && !text.is_empty()).then_some(text)
}

/// A word as a shell takes it.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_s_texts_are_understood() {
        assert_eq!(parse_cpu("processor\t: 0\nmodel name\t: AMD  EPYC\n").as_deref(), Some("AMD EPYC"));
        assert_eq!(parse_cpu("processor: 0"), None);
        assert_eq!(parse_memory("MemTotal:     24 kB\nMemFree: 1 kB\n"), Some(24 * 1024));
        assert_eq!(parse_memory("MemTotal: much"), None);
        let mounts = "1 0 254:0 / / rw - ext4 /dev/vda rw\n2 1 0:5 / /tmp rw shared:2 - tmpfs tmpfs rw\n\
                      3 1 8:1 / /my\\040disk rw - xfs /dev/sda1 rw\nnonsense\n";
        for (dir, file_system, device, number) in [
            ("/tmp/x", "tmpfs", "tmpfs", "0:5"),
            ("/tmpx", "ext4", "/dev/vda", "254:0"),
            ("/my disk/db", "xfs", "/dev/sda1", "8:1"),
        ] {
            assert_eq!(parse_mount(mounts, Path::new(dir)), Some(Mount { number, file_system, device }));
        }
        assert_eq!(parse_mount("", Path::new("/")), None);
    }

    #[test]
    fn commands_can_be_typed_again() {
        assert_eq!(quoted("--set=a=1,2"), "--set=a=1,2");
        assert_eq!(quoted("two words"), "'two words'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_machine_answers() {
        let host = Host::here(Path::new("."));
        assert!(host.cores.unwrap() > 0 && host.memory_bytes.unwrap() > 1 << 24);
        assert!(host.kernel.unwrap().starts_with("Linux ") && host.disk.unwrap().contains(" on "));
    }
}
