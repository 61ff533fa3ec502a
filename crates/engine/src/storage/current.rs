//! The file CURRENT: which manifest is in force. Changing it is the one step that swaps a whole tree for another.
//!
//! ```text
//! write temp -> sync temp -> rename temp to CURRENT -> sync directory        (the manifest itself was synced before)
//! ```
//!
//! A crash at any step leaves the old name or the new one. The content is one line: the manifest's name and a checksum.

use std::path::Path;

use xxhash_rust::xxh3::xxh3_64;

use crate::base::class::IoClass;
use crate::base::error::{Error, Result};
use crate::storage::file_name::FileName;
use crate::storage::file_system::FileSystem;

/// More than any line we write; a longer file is not read.
const LEN_MAX: u64 = 128;

/// Points CURRENT at the manifest `number`, durably. `temp` is a fresh file number for the file under construction.
pub fn set_current(fs: &dyn FileSystem, dir: &Path, number: u64, temp: u64) -> Result<()> {
    let temp = FileName::Temp(temp).path(dir);
    // A crash may have left one of this name, when its number was given out but not yet written down.
    if fs.exists(&temp)? {
        fs.remove(&temp)?;
    }
    let mut file = fs.create(&temp, IoClass::Manifest)?;
    file.append(line(number).as_bytes())?;
    file.syncer().sync()?;
    drop(file);
    fs.rename(&temp, &FileName::Current.path(dir))?;
    fs.sync_dir(dir)
}

/// The number of the manifest in force, or `None` if the directory has no CURRENT and so no store.
pub fn read_current(fs: &dyn FileSystem, dir: &Path) -> Result<Option<u64>> {
    let path = FileName::Current.path(dir);
    if !fs.exists(&path)? {
        return Ok(None);
    }
    let file = fs.open(&path)?;
    if file.len() > LEN_MAX {
        return Err(Error::corruption(path, LEN_MAX, "too long for the name of a manifest"));
    }
    let mut bytes = vec![0; file.len() as usize];
    file.read_at(0, &mut bytes, IoClass::Manifest)?;
    match parse(&bytes) {
        Some(number) => Ok(Some(number)),
        None => Err(Error::corruption(path, 0, "this is not a manifest's name with its checksum")),
    }
}

/// What CURRENT holds for this manifest.
pub fn line(number: u64) -> String {
    let name = FileName::Manifest(number).to_string();
    format!("{name} {:016x}\n", xxh3_64(name.as_bytes()))
}

/// The manifest that this line names.
pub fn parse(bytes: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(bytes).ok()?;
    let (name, _) = text.split_once(' ')?;
    match FileName::parse(name)? {
        FileName::Manifest(number) if line(number) == text => Some(number),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{line, parse};

    #[test]
    fn only_the_exact_line_is_taken() {
        let good = line(42);
        assert_eq!(parse(good.as_bytes()), Some(42));
        for i in 0..good.len() {
            assert_eq!(parse(&good.as_bytes()[..i]), None, "cut at {i}");
            for bit in 0..8 {
                let mut bad = good.clone().into_bytes();
                bad[i] ^= 1 << bit;
                assert_eq!(parse(&bad), None, "bit {bit} of byte {i}");
            }
        }
        assert_eq!(parse(b""), None);
        assert_eq!(parse(&[good.as_bytes(), b"x"].concat()), None);
    }
}
