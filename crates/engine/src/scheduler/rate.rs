//! Rates in a policy: absolute, or as a part of what the device can do.

use std::fmt;

use crate::observe::words::bytes;

/// A rate: so many bytes a second, or a part of what the device can do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rate {
    /// Bytes per second.
    Bytes(u64),
    /// A part of the device's speed, 1 for all of it.
    OfDevice(f64),
}

impl Rate {
    /// Bytes per second on a device of this speed; `None` if that is not known and has to be.
    pub fn at(self, device: Option<u64>) -> Option<f64> {
        match self {
            Rate::Bytes(bytes) => Some(bytes as f64),
            Rate::OfDevice(part) => device.map(|speed| part * speed as f64),
        }
    }

    /// True if the device's speed must be known.
    pub fn is_relative(self) -> bool {
        matches!(self, Rate::OfDevice(_))
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rate::Bytes(per_sec) => write!(f, "{}/s", bytes(*per_sec)),
            Rate::OfDevice(part) => write!(f, "{} % of the device", (part * 1000.0).round() / 10.0),
        }
    }
}
