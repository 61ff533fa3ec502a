//! How fast the device is, where a schedule needs to know and nobody has said so: measured by writing. What background work shows of it
//! later corrects that (`storage/transfers.rs`).

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::scheduling;
use crate::base::class::IoClass;
use crate::base::clock::Clock;
use crate::base::error::{Error, Result};
use crate::base::units::MIB;
use crate::db::store::state::Store;
use crate::options::Options;
use crate::scheduler::catalog::parse;
use crate::storage::file_name::FileName;
use crate::storage::file_system::FileSystem;

/// So much is written, or as much as this time is enough for.
const WRITTEN_MAX: u64 = 64 * MIB;
const LONGEST: Duration = Duration::from_millis(300);
const PIECE: usize = MIB as usize;
/// Room that must be left for it, beside the reserve.
const ROOM: u64 = 4 * WRITTEN_MAX;

/// Bytes a second that the device takes, in one stream, with direct I/O where it can be, the sync included. What it reads, and what
/// it does under many requests at once, may differ: who knows better sets the option.
///
/// # Errors
/// `NoSpace`, `Io`; `InvalidArgument` if no time has passed.
pub fn measure(
    fs: &Arc<dyn FileSystem>,
    clock: &dyn Clock,
    dir: &Path,
    number: u64,
    reserve: u64,
) -> Result<u64> {
    if fs.free_space(dir)? < reserve.saturating_add(ROOM) {
        return Err(Error::NoSpace { context: "measure the device's speed".to_owned() });
    }
    let path = FileName::Temp(number).path(dir);
    let outcome = write(fs, clock, &path);
    fs.remove(&path)?;
    outcome
}

fn write(fs: &Arc<dyn FileSystem>, clock: &dyn Clock, path: &Path) -> Result<u64> {
    let mut file = match fs.create_direct(path, IoClass::Test)? {
        Some(file) => file,
        None => fs.create(path, IoClass::Test)?,
    };
    // Not all alike: a device that compresses would be none the slower.
    let piece: Vec<u8> =
        (0..PIECE as u64).map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect();
    let (since, mut written) = (clock.now(), 0);
    while written < WRITTEN_MAX && clock.now().saturating_sub(since) < LONGEST {
        file.append(&piece)?;
        written += PIECE as u64;
    }
    file.flush()?;
    file.syncer().sync()?;
    let took = clock.now().saturating_sub(since);
    if took.is_zero() {
        return Err(Error::invalid("the device's speed cannot be measured here; set device_bytes_per_sec"));
    }
    Ok((written as f64 / took.as_secs_f64()) as u64)
}

/// True if the schedule of these options needs to know the speed, and it is to be measured.
pub fn is_wanted(options: &Options) -> bool {
    scheduling::device_speed(options).is_none()
        && options.device_test
        && parse(&options.schedule).is_ok_and(|policy| policy.wants_device())
}

/// The speed, measured now.
///
/// # Errors
/// As [`measure`].
pub fn measure_here(store: &Store) -> Result<u64> {
    let number = store.tree().versions.ids().file();
    let reserve = store.options.load().reserve_bytes;
    measure(&store.fs, &*store.clock, &store.dir, number, reserve)
}
