//! IDENTITY: a unique name of the store, given once when it is made. Copies of a directory share it; nothing else does.

use std::hash::{BuildHasher, RandomState};
use std::path::Path;

use crate::base::class::IoClass;
use crate::base::error::Result;
use crate::storage::file_name::FileName;
use crate::storage::file_system::FileSystem;

/// `8-4-4-4-12` hexadecimal digits.
const LEN: usize = 36;

/// The store's name, if it has one.
pub fn read(fs: &dyn FileSystem, dir: &Path) -> Result<Option<String>> {
    let path = FileName::Identity.path(dir);
    if !fs.exists(&path)? {
        return Ok(None);
    }
    let file = fs.open(&path)?;
    let mut bytes = vec![0; file.len().min(1 + LEN as u64) as usize];
    file.read_at(0, &mut bytes, IoClass::Manifest)?;
    let text = String::from_utf8_lossy(&bytes).trim_end().to_owned();
    Ok(Some(text).filter(|text| is_identity(text)))
}

/// The store's name; given now, durably, if there is none or it is none of ours. `number` is a file number of its own.
pub fn read_or_make(fs: &dyn FileSystem, dir: &Path, number: u64) -> Result<String> {
    if let Some(identity) = read(fs, dir)? {
        return Ok(identity);
    }
    let path = FileName::Identity.path(dir);
    let identity = random();
    let temp = FileName::Temp(number).path(dir);
    let mut file = fs.create(&temp, IoClass::Manifest)?;
    file.append(format!("{identity}\n").as_bytes())?;
    file.syncer().sync()?;
    drop(file);
    fs.rename(&temp, &path)?;
    fs.sync_dir(dir)?;
    Ok(identity)
}

/// A random identifier, version 4 of RFC 9562. The system's chance comes by way of the keys of the standard library's hasher.
fn random() -> String {
    let half = |n: u64| u128::from(RandomState::new().hash_one(n));
    let n = half(0) << 64 | half(1);
    let n = n & !(0xf << 76) | 4 << 76;
    let n = n & !(0x3 << 62) | 2 << 62;
    let hex = format!("{n:032x}");
    let parts =
        [0..8, 8..12, 12..16, 16..20, 20..32].map(|part| hex.get(part).unwrap_or_default().to_owned());
    parts.join("-")
}

fn is_identity(text: &str) -> bool {
    let dashes = [8, 13, 18, 23];
    text.len() == LEN
        && text
            .bytes()
            .enumerate()
            .all(|(i, b)| if dashes.contains(&i) { b == b'-' } else { b.is_ascii_hexdigit() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::simulated::SimulatedFileSystem;

    #[test]
    fn it_is_given_once_and_again_if_it_is_damaged() {
        let (fs, dir) = (SimulatedFileSystem::new(), Path::new("/s"));
        fs.create_dir(dir).unwrap();
        let first = read_or_make(&fs, dir, 1).unwrap();
        assert!(is_identity(&first) && first.as_bytes()[14] == b'4', "{first}");
        let calls = fs.call_count();
        assert_eq!(read_or_make(&fs, dir, 2).unwrap(), first);
        assert_eq!(fs.call_count(), calls, "nothing is written where it is there");
        fs.set_contents(&FileName::Identity.path(dir), b"short").unwrap();
        let second = read_or_make(&fs, dir, 3).unwrap();
        assert!(is_identity(&second) && second != first);
        assert_ne!(random(), random());
    }
}
