//! `--device`: a disk of a chosen speed under the store.

use std::sync::Arc;
use std::time::Duration;

use evenkeel::fs::{Device, DeviceFileSystem, DiskFileSystem, FileSystem, parse_size};
use evenkeel_lab::base::device::Device as Told;

use crate::failure::Failure;

/// Flags of the verbs that measure, or are driven by those who do.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct DeviceArgs {
    /// Emulate a disk of so many bytes a second, like 100MiB (as in all sizes 1M is 1024 * 1024): for all that is read and
    /// written, in the page cache or not. Beside engines that cannot be emulated all run on a throttled loop device (needs root).
    #[arg(long, value_name = "BYTES_PER_SEC", value_parser = rate, help_heading = "Device")]
    device: Option<u64>,
    /// What each request to the emulated disk takes longer, in microseconds.
    #[arg(long, value_name = "N", requires = "device", value_parser = clap::value_parser!(u32).range(0..=1_000_000), help_heading = "Device")]
    device_latency_us: Option<u32>,
}

impl DeviceArgs {
    /// The bytes a second that are asked for.
    pub fn bytes_per_sec(&self) -> Option<u64> {
        self.device
    }

    /// The latency that is asked for.
    pub fn latency_us(&self) -> Option<u32> {
        self.device_latency_us
    }

    /// The device of a store that this process opens.
    pub fn emulated(&self) -> Result<Option<Arc<Device>>, Failure> {
        let latency = Duration::from_micros(self.device_latency_us.unwrap_or(0).into());
        let device = self.device.map(|bytes_per_sec| Device::new(bytes_per_sec, latency)).transpose();
        device.map_err(|error| Failure::usage(error.to_string()))
    }

    /// The same for a document.
    pub fn told(&self) -> Told {
        let latency_us = self.device_latency_us.unwrap_or(0).into();
        self.device.map_or(Told::Raw, |bytes_per_sec| Told::Emulated { bytes_per_sec, latency_us })
    }
}

/// The machine's files at the speed of a device.
pub fn file_system(device: &Arc<Device>) -> Arc<dyn FileSystem> {
    Arc::new(DeviceFileSystem::new(Arc::new(DiskFileSystem::new()), Arc::clone(device)))
}

/// Bytes a second, as people write them.
fn rate(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let bytes = parse_size(text.strip_suffix("/s").unwrap_or(text));
    let can_be = |bytes: &u64| Device::BYTES_PER_SEC.contains(bytes);
    bytes
        .filter(can_be)
        .ok_or_else(|| "give bytes a second from 1KiB to 16GiB, for instance 100MiB".to_owned())
}

/// The size of a file system, as people write it.
pub fn size(text: &str) -> Result<u64, String> {
    let enough = |bytes: &u64| (64 << 20..=1 << 48).contains(bytes);
    parse_size(text)
        .filter(enough)
        .ok_or_else(|| "give a size from 64MiB to 256TiB, for instance 8GiB".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_sizes_are_read_as_people_write_them() {
        for text in ["100M", "100MB", "100MiB", "104857600", "100MiB/s", " 102400k "] {
            assert_eq!(rate(text), Ok(100 << 20), "{text}");
        }
        for text in ["", "0", "1000", "fast", "-1M", "17GiB", "1.5M"] {
            assert!(rate(text).is_err(), "{text}");
        }
        assert_eq!(size("64MiB"), Ok(64 << 20));
        assert!(size("1MiB").is_err() && size("much").is_err());
    }

    #[test]
    fn what_is_told_is_what_is_opened() {
        let args = DeviceArgs { device: Some(1 << 20), device_latency_us: Some(70) };
        let device = args.emulated().unwrap().unwrap();
        assert_eq!((device.bytes_per_sec(), device.latency()), (1 << 20, Duration::from_micros(70)));
        assert_eq!(args.told(), Told::Emulated { bytes_per_sec: 1 << 20, latency_us: 70 });
        let none = DeviceArgs::default();
        assert!(none.emulated().unwrap().is_none() && none.told() == Told::Raw);
    }
}
