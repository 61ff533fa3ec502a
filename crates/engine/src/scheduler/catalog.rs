//! Schedulers by name, as data.

use super::policy::{Budget, Order, SchedulingPolicy};
use crate::base::error::{Error, Result};
use crate::base::units::parse_size;

/// Every schedule: its form, and one line for people.
pub const CATALOG: &[(&str, &str)] = &[
    ("unlimited", "background work runs as fast as the device goes"),
    ("fixed:RATE", "all compactions together move at most RATE bytes per second; flushes are never limited"),
];

/// `unlimited`, or `fixed:BYTES_PER_SECOND`.
///
/// # Errors
/// `InvalidArgument` for anything else.
pub fn parse(text: &str) -> Result<SchedulingPolicy> {
    if text == "unlimited" {
        return Ok(SchedulingPolicy { budget: Budget::Unlimited, order: Order::Strict });
    }
    if let Some(rate) = text.strip_prefix("fixed:") {
        return match parse_size(rate) {
            Some(bytes_per_sec) if bytes_per_sec >= 1024 => {
                Ok(SchedulingPolicy { budget: Budget::Fixed { bytes_per_sec }, order: Order::Strict })
            }
            _ => Err(Error::invalid(format!(
                "`{rate}` is no rate; write bytes per second from 1024 up, like fixed:100MiB"
            ))),
        };
    }
    Err(Error::invalid(format!(
        "unknown schedule `{text}`; there are `unlimited` and `fixed:BYTES_PER_SECOND`"
    )))
}
