//! A limit of bytes a second for one block device, set in the kernel's control groups and taken back at the end.
//!
//! ```text
//! version 1   blkio.throttle.{read,write}_bps_device of the root group, which holds writeback, and of the group we are in
//! version 2   a group of our own with io.max, which this process and all that it starts move into
//! ```
//! Reads and writes each have the limit for themselves. The kernel gives no latency.

use std::io;
use std::path::{Path, PathBuf};

use crate::files;

/// Where a machine's groups are, and how they limit.
#[derive(Debug, PartialEq)]
pub enum Groups {
    /// The groups that count.
    V1(Vec<PathBuf>),
    /// The root, and the group we are in.
    V2 {
        /// Holds the new group.
        root: PathBuf,
        /// Where we go back to.
        home: PathBuf,
    },
}

/// A limit that is set; dropping it takes it back.
#[derive(Debug)]
pub struct Throttle {
    groups: Groups,
    /// Major and minor number of the device.
    number: String,
    /// Our own group, in version 2.
    own: Option<PathBuf>,
}

impl Groups {
    /// Those of this machine; `None` if it has none that limit devices.
    pub fn find() -> Option<Groups> {
        let text = |path: &str| files::read(Path::new(path)).ok().flatten();
        let has_io = |root: &Path| {
            let controllers = files::read(&root.join("cgroup.controllers")).ok().flatten();
            controllers.is_some_and(|names| names.split_whitespace().any(|name| name == "io"))
        };
        Groups::parse(&text("/proc/mounts")?, &text("/proc/self/cgroup")?, has_io)
    }

    /// Those that these two of the kernel's texts tell.
    fn parse(mounts: &str, own: &str, has_io: impl Fn(&Path) -> bool) -> Option<Groups> {
        let mounts = || {
            mounts.lines().filter_map(|line| {
                let words: Vec<&str> = line.split(' ').collect();
                let [_, point, kind, options, ..] = words.as_slice() else { return None };
                Some((Path::new(*point), *kind, *options))
            })
        };
        // `7:blkio:/group`, and `0::/group` for version 2.
        let group = |controller: &str| {
            own.lines().find_map(|line| {
                let (_, line) = line.split_once(':')?;
                let (names, path) = line.split_once(':')?;
                names.split(',').any(|name| name == controller).then(|| path.trim_start_matches('/'))
            })
        };
        let v1 =
            mounts().find(|(_, kind, options)| *kind == "cgroup" && options.split(',').any(|o| o == "blkio"));
        if let Some((root, ..)) = v1 {
            let mut groups = vec![root.to_path_buf()];
            groups.extend(group("blkio").filter(|path| !path.is_empty()).map(|path| root.join(path)));
            return Some(Groups::V1(groups));
        }
        let (root, ..) = mounts().find(|(point, kind, _)| *kind == "cgroup2" && has_io(point))?;
        Some(Groups::V2 { root: root.to_path_buf(), home: root.join(group("").unwrap_or_default()) })
    }

    /// A file that must be writable for a limit to be set.
    pub fn needed(&self) -> PathBuf {
        match self {
            Groups::V1(groups) => groups.first().map(|group| group.join(V1[0])).unwrap_or_default(),
            Groups::V2 { root, .. } => root.join("cgroup.subtree_control"),
        }
    }
}

const V1: [&str; 2] = ["blkio.throttle.read_bps_device", "blkio.throttle.write_bps_device"];

impl Throttle {
    /// Limits reads and writes of the device with this number to so many bytes a second each.
    pub fn set(groups: Groups, number: &str, bytes_per_sec: u64) -> io::Result<Throttle> {
        // What fails half way is taken back.
        let mut throttle = Throttle { groups, number: number.to_owned(), own: None };
        match &throttle.groups {
            Groups::V1(groups) => {
                for file in v1_files(groups) {
                    files::write(&file, &format!("{number} {bytes_per_sec}"))?;
                }
            }
            Groups::V2 { root, .. } => {
                // Writeback is charged to a group only with both.
                files::write(&root.join("cgroup.subtree_control"), "+io +memory")?;
                let own = root.join(format!("keel-bench-{}", std::process::id()));
                files::make_dir(&own)?;
                throttle.own = Some(own.clone());
                let limit = format!("{number} rbps={bytes_per_sec} wbps={bytes_per_sec}");
                files::write(&own.join("io.max"), &limit)?;
                files::write(&own.join("cgroup.procs"), &std::process::id().to_string())?;
            }
        }
        Ok(throttle)
    }
}

impl Drop for Throttle {
    fn drop(&mut self) {
        // Nobody could do anything about a failure; the device itself goes, too.
        match (&self.groups, &self.own) {
            (Groups::V1(groups), _) => {
                for file in v1_files(groups) {
                    let _ = files::write(&file, &format!("{} 0", self.number));
                }
            }
            (Groups::V2 { home, .. }, Some(own)) => {
                let _ = files::write(&home.join("cgroup.procs"), &std::process::id().to_string());
                let _ = std::fs::remove_dir(own);
            }
            (Groups::V2 { .. }, None) => {}
        }
    }
}

fn v1_files(groups: &[PathBuf]) -> impl Iterator<Item = PathBuf> {
    groups.iter().flat_map(|group| V1.map(|name| group.join(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "/dev/vda / ext4 rw 0 0\ncgroup2 /cg/unified cgroup2 rw 0 0\n";

    #[test]
    fn groups_of_both_versions_are_found() {
        let mounts = format!("{MOUNTS}cgroup /cg/blkio cgroup rw,nosuid,blkio 0 0\n");
        let own = "7:blkio:/\n0::/user\n";
        let v1 = |groups: &[&str]| Some(Groups::V1(groups.iter().map(PathBuf::from).collect()));
        assert_eq!(Groups::parse(&mounts, own, |_| true), v1(&["/cg/blkio"]));
        let inner = "8:cpu,blkio:/docker/x\n";
        assert_eq!(Groups::parse(&mounts, inner, |_| true), v1(&["/cg/blkio", "/cg/blkio/docker/x"]));
        let v2 = Groups::V2 { root: "/cg/unified".into(), home: "/cg/unified/user".into() };
        assert_eq!(Groups::parse(MOUNTS, own, |_| true), Some(v2));
        assert_eq!(Groups::parse(MOUNTS, own, |_| false), None);
        assert_eq!(Groups::parse("", "", |_| true), None);
    }

    #[test]
    fn a_limit_of_version_1_is_set_everywhere_and_taken_back() {
        let dir = tempfile::tempdir().unwrap();
        let inner = dir.path().join("inner");
        files::make_dir(&inner).unwrap();
        let groups = || Groups::V1(vec![dir.path().to_path_buf(), inner.clone()]);
        let throttle = Throttle::set(groups(), "7:3", 1024).unwrap();
        let all: Vec<PathBuf> = v1_files(&[dir.path().to_path_buf(), inner.clone()]).collect();
        let check = |text: &str| {
            for file in &all {
                assert_eq!(files::read(file).unwrap().as_deref(), Some(text), "{}", file.display());
            }
        };
        check("7:3 1024");
        drop(throttle);
        check("7:3 0");
        assert_eq!(all.len(), 4);
        assert!(groups().needed().ends_with("blkio.throttle.read_bps_device"));
    }

    #[test]
    fn a_limit_of_version_2_is_a_group_of_our_own() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().to_path_buf();
        let home = root.join("home");
        files::make_dir(&home).unwrap();
        let throttle =
            Throttle::set(Groups::V2 { root: root.clone(), home: home.clone() }, "7:3", 1024).unwrap();
        let pid = std::process::id().to_string();
        let own = root.join(format!("keel-bench-{pid}"));
        for (file, text) in [
            (root.join("cgroup.subtree_control"), "+io +memory"),
            (own.join("io.max"), "7:3 rbps=1024 wbps=1024"),
            (own.join("cgroup.procs"), &pid),
        ] {
            assert_eq!(files::read(&file).unwrap().as_deref(), Some(text), "{}", file.display());
        }
        drop(throttle);
        assert_eq!(files::read(&home.join("cgroup.procs")).unwrap(), Some(pid));
    }
}
