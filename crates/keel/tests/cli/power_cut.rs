//! A real power cut: what the disk holds at the moment of a kill, and nothing of what the kernel still has in its memory.
//!
//! ```text
//! keel load ─► ext4 ─► loop device ─► image ─copy at the kill─► image as after a power cut ─► mount (ext4 replays its journal) ─► dump
//! ```
//! The store lives on an ext4 of its own whose journal is committed by syncs only. What is not synced when the process dies is in no
//! copy of the image. The layer `power-cut` of `cargo xtask trust`; without root, or where nothing can be mounted, it says that it is
//! skipped.

use std::path::{Path, PathBuf};
use std::process::Command;

use evenkeel_lab::base::random::Random;

use crate::kill::{Truth, dump, generated, kill_after, lines, start};
use crate::trust::layer;
use crate::{Keel, make_dir};

const CUTS: u64 = 3;
const CUTS_FULL: u64 = 12;

/// What the image holds at most.
const IMAGE: &str = "160M";

fn run(program: &str, args: &[&str]) -> Result<(), String> {
    let output = Command::new(program).args(args).output().map_err(|error| format!("{program}: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("{program}: {}", String::from_utf8_lossy(&output.stderr).trim())),
    }
}

/// An image mounted somewhere, until this is dropped.
struct Mounted {
    dir: PathBuf,
}

impl Mounted {
    fn new(image: &str, dir: &Path) -> Result<Mounted, String> {
        // Journal commits and write-back by age would make durable what nobody has synced.
        run("mount", &["-o", "loop,commit=300", image, dir.to_str().unwrap()])?;
        Ok(Mounted { dir: dir.to_path_buf() })
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if let Err(error) = run("umount", &[self.dir.to_str().unwrap()]) {
            eprintln!("{error}");
        }
    }
}

#[test]
fn a_real_power_cut_keeps_what_was_promised() {
    let layer = layer("power-cut");
    let cuts = if layer.is_full() { CUTS_FULL * layer.soak() } else { CUTS };
    let keel = Keel::new();
    let (image, cut) = (keel.write("image", ""), keel.path("cut"));
    let cut = cut.to_str().unwrap();
    let dir = keel.path("mounted");
    make_dir(&dir);
    let made = run("truncate", &["-s", IMAGE, &image]).and_then(|()| run("mkfs.ext4", &["-q", "-F", &image]));
    if let Err(why) = made.and_then(|()| Mounted::new(&image, &dir).map(drop)) {
        println!("SKIPPED: no ext4 can be mounted here (root and a loop device are needed): {why}");
        layer.report(format_args!("cuts=0 skipped=1"));
        return;
    }
    let seed = layer.seeds(1)[0];
    let mut attempt = layer.attempt(seed);
    let (text, mut random) = (generated(seed), Random::new(seed));
    let all = lines(&text);
    let mut truth = Truth::new(&all);
    let (mut synced, mut gone) = (0, 0);
    for n in 0..cuts {
        layer.progress(n, cuts);
        let (begin, batch) = (truth.taken, [1, 10, 100][random.below(3) as usize]);
        let is_sync = n % 3 != 2;
        let target = if is_sync { 20 * batch } else { 200 * batch };
        let fed = (begin + 2 * target as usize + 1000).min(all.len());
        attempt.doing(format_args!("cut {n}, lines {begin} to {fed}, batch {batch}, sync: {is_sync}"));
        let input = [all[begin..fed].join(&b'\n'), b"\n".to_vec()].concat();
        let mounted = Mounted::new(&image, &dir).unwrap();
        let args = ["--batch", &batch.to_string(), "--sync", if is_sync { "sync" } else { "os" }];
        let (child, feeder) = start(&keel, &dir.join("db"), &args, input);
        let acked = begin + kill_after(child, target, random.below(100_000)) as usize;
        run("cp", &["--sparse=always", &image, cut]).unwrap();
        drop(feeder.join());
        drop(mounted);
        // From now on the disk is what it was then.
        run("cp", &["--sparse=always", cut, &image]).unwrap();
        let mounted = Mounted::new(&image, &dir).unwrap();
        let held = dump(&keel, &dir.join("db"), &format!("seed {seed}, cut {n}"));
        drop(mounted);
        let least = if is_sync { acked } else { begin };
        let there = truth.find(&held, least, fed);
        let there =
            there.unwrap_or_else(|| panic!("cut {n}: no P from {least} to {fed} lines, {acked} acked"));
        synced += if is_sync { acked - begin } else { 0 };
        gone += acked.saturating_sub(there);
    }
    layer
        .report(format_args!("cuts={cuts} synced_checked={synced} unsynced_gone={gone} lost=0 unopenable=0"));
}
