//! How fast the device is, where a schedule needs to know and nobody has said so: measured by writing. What background work shows of it
//! later corrects that (`storage/transfers.rs`).

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::base::class::IoClass;
use crate::base::clock::Clock;
use crate::base::error::{Error, Result};
use crate::base::random::mix;
use crate::base::units::{KIB, MIB};
use crate::options::Options;
use crate::storage::file_name::FileName;
use crate::storage::file_system::FileSystem;

/// So much is written, or as much as this time is enough for.
const WRITTEN_MAX: u64 = 64 * MIB;
const LONGEST: Duration = Duration::from_millis(300);
const PIECE: usize = MIB as usize;
/// So much waits in the page cache at most, where it has to go there.
const CACHED_MAX: u64 = 8 * MIB;
/// What a file system compares with others, to keep it once, is no smaller.
const BLOCK: usize = 4 * KIB as usize;
/// Room that must be left for it, beside the reserve.
const ROOM: u64 = 4 * WRITTEN_MAX;

/// The option that holds what was measured.
pub const MEASURED: &str = "device_measured_bytes_per_sec";

/// The device's speed, if it is known: what was set, else what was measured.
pub fn known(options: &Options) -> Option<u64> {
    [options.device_bytes_per_sec, options.device_measured_bytes_per_sec].into_iter().find(|speed| *speed > 0)
}

/// Bytes a second that the device does, by what it takes in one stream, with direct I/O where it can be, the sync included, and by what
/// this process reads from it meanwhile, as far as the system tells. What it reads alone, and what it does under many requests at once,
/// may differ: who knows better sets the option.
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
        return Err(Error::NoSpace {
            context: format!(
                "measure the device's speed, which takes {} MiB beside reserve_bytes (device_bytes_per_sec needs none)",
                ROOM / MIB
            ),
        });
    }
    let path = FileName::Temp(number).path(dir);
    let outcome = write(fs, clock, &path);
    let removed = fs.remove(&path);
    // Where it could not be made it cannot be removed either.
    let speed = outcome?;
    removed?;
    Ok(speed)
}

fn write(fs: &Arc<dyn FileSystem>, clock: &dyn Clock, path: &Path) -> Result<u64> {
    let direct = fs.create_direct(path, IoClass::Test)?;
    // The page cache takes all at once, and then the device its time for it.
    let sync_each = if direct.is_some() { WRITTEN_MAX } else { CACHED_MAX };
    let mut file = match direct {
        Some(file) => file,
        None => fs.create(path, IoClass::Test)?,
    };
    // No block like another, and no pattern: what compresses, or keeps equal blocks once, would seem fast.
    let mut piece: Vec<u8> = (0..PIECE as u64 / 8).flat_map(|i| mix(i + 1).to_le_bytes()).collect();
    let reads_before = fs.device_reads();
    let (since, mut written) = (clock.now(), 0);
    while written < WRITTEN_MAX && clock.now().saturating_sub(since) < LONGEST {
        for (i, block) in piece.chunks_mut(BLOCK).enumerate() {
            let unlike_any = mix(written + i as u64).to_le_bytes();
            block.iter_mut().zip(unlike_any).for_each(|(byte, new)| *byte = new);
        }
        file.append(&piece)?;
        written += PIECE as u64;
        if written.is_multiple_of(sync_each) {
            file.flush()?;
            file.syncer().sync()?;
        }
    }
    file.flush()?;
    file.syncer().sync()?;
    let took = clock.now().saturating_sub(since);
    if took.is_zero() {
        return Err(Error::invalid("the device's speed cannot be measured here; set device_bytes_per_sec"));
    }
    let read = reads_before.zip(fs.device_reads()).map_or(0, |(before, now)| now.saturating_sub(before));
    Ok(((written + read) as f64 / took.as_secs_f64()) as u64)
}
