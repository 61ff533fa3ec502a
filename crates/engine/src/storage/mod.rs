//! Floor 3: files. One trait is the only way to them; a real disk, a simulated one that crashes, one of a certain speed, and one that is only looked at.

pub mod aligned;
pub mod current;
pub mod device;
pub mod device_files;
pub mod disk;
mod disk_direct;
mod disk_file;
mod disk_log;
mod disk_writer;
#[cfg(any(test, feature = "testing"))]
pub mod fault;
pub mod file_name;
pub mod file_system;
pub mod frozen;
#[cfg(test)]
pub mod hooked;
pub mod record;
pub mod record_reader;
pub mod record_writer;
#[cfg(any(test, feature = "testing"))]
pub mod simulated;
#[cfg(any(test, feature = "testing"))]
pub mod simulated_crash;
#[cfg(any(test, feature = "testing"))]
pub mod simulated_disk;
#[cfg(any(test, feature = "testing"))]
mod simulated_file;
#[cfg(any(test, feature = "testing"))]
mod simulated_state;
pub mod table_files;
pub mod transfers;
