//! What the engine's files lay on: the disk as it is, an emulated device, or a throttled loop device. Figures of different
//! devices do not compare, so every document and report names its own.

use std::fmt;

/// A device, as far as it was chosen for the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Device {
    /// The disk of the machine, at its own speed.
    #[default]
    Raw,
    /// The engine's own emulation: all that it reads and writes together.
    Emulated {
        /// Reads and writes together.
        bytes_per_sec: u64,
        /// What each request takes longer.
        latency_us: u64,
    },
    /// A file system in a file, throttled by the kernel.
    Loop {
        /// Reads; and writes as much again.
        bytes_per_sec: u64,
    },
}

impl Device {
    /// How fast it was made to be.
    pub fn bytes_per_sec(self) -> Option<u64> {
        match self {
            Device::Raw => None,
            Device::Emulated { bytes_per_sec, .. } | Device::Loop { bytes_per_sec } => Some(bytes_per_sec),
        }
    }

    /// The latency it was given.
    pub fn latency_us(self) -> Option<u64> {
        match self {
            Device::Emulated { latency_us, .. } => Some(latency_us),
            Device::Raw | Device::Loop { .. } => None,
        }
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Device::Raw => f.write_str("raw disk"),
            Device::Emulated { bytes_per_sec, latency_us: 0 } => {
                write!(f, "emulated, {}/s", exact(*bytes_per_sec))
            }
            Device::Emulated { bytes_per_sec, latency_us } => {
                write!(f, "emulated, {}/s, {latency_us} µs a request", exact(*bytes_per_sec))
            }
            Device::Loop { bytes_per_sec } => write!(f, "loop device, {}/s", exact(*bytes_per_sec)),
        }
    }
}

/// Bytes in the largest unit that they are a whole number of.
fn exact(bytes: u64) -> String {
    let units = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let fits = units.iter().find(|(_, shift)| bytes >= 1 << shift && bytes.trailing_zeros() >= *shift);
    fits.map_or_else(|| format!("{bytes} B"), |(unit, shift)| format!("{} {unit}", bytes >> shift))
}

/// More than any device has.
const ROOM_MAX: u64 = 1 << 60;

/// Room on a loop device for a store of so many bytes while it is overwritten, with logs, garbage and half-empty pages.
pub fn room_for(bytes: u64) -> u64 {
    let room = bytes.saturating_mul(4).saturating_add(2 << 30);
    room.min(ROOM_MAX).next_multiple_of(1 << 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_have_names_that_tell_them_apart() {
        let emulated = |bytes_per_sec, latency_us| Device::Emulated { bytes_per_sec, latency_us };
        for (device, name) in [
            (Device::default(), "raw disk"),
            (emulated(100 << 20, 0), "emulated, 100 MiB/s"),
            (emulated(2 << 30, 80), "emulated, 2 GiB/s, 80 µs a request"),
            (emulated(1_000_000, 0), "emulated, 1000000 B/s"),
            (Device::Loop { bytes_per_sec: 1536 << 10 }, "loop device, 1536 KiB/s"),
        ] {
            assert_eq!(device.to_string(), name);
        }
    }

    #[test]
    fn there_is_room_for_a_store_of_any_size() {
        assert_eq!(room_for(1000), (2 << 30) + (1 << 20));
        assert_eq!(room_for(2 << 30), 10 << 30);
        assert_eq!(room_for(u64::MAX), ROOM_MAX);
    }
}
