//! OPTIONS-NNNNNN: what each keyspace was last set to, flat text for people, with a checksum for us.
//!
//! ```text
//! # evenkeel options, format 1
//! keyspace.default.strategy=1-leveling
//! checksum=1f0c...
//! ```
//! The file with the highest number counts. It is written beside the old one, synced, and renamed: there is always a whole one.
//! Bytes of a keyspace's name outside letters, digits, `-` and `_` are written `%NN`.

use std::collections::BTreeMap;
use std::path::Path;

use xxhash_rust::xxh3::xxh3_64;

use crate::base::class::IoClass;
use crate::base::error::{Error, Result};
use crate::options::KeyspaceOptions;
use crate::storage::file_name::FileName;
use crate::storage::file_system::FileSystem;

const TITLE: &str = "# evenkeel options, format 1";
/// No file that we wrote is longer.
const LEN_MAX: u64 = 64 << 20;

/// Settings by keyspace name.
pub type KeyspaceSettings = BTreeMap<String, KeyspaceOptions>;

/// Writes the settings as OPTIONS-`number`, durably, and removes the file `old`.
pub fn write(
    fs: &dyn FileSystem,
    dir: &Path,
    number: u64,
    settings: &KeyspaceSettings,
    old: Option<u64>,
) -> Result<()> {
    let temp = FileName::Temp(number).path(dir);
    let mut file = fs.create(&temp, IoClass::Manifest)?;
    file.append(print(settings).as_bytes())?;
    file.syncer().sync()?;
    drop(file);
    fs.rename(&temp, &FileName::Options(number).path(dir))?;
    fs.sync_dir(dir)?;
    match old {
        Some(old) => fs.remove(&FileName::Options(old).path(dir)),
        None => Ok(()),
    }
}

/// Reads OPTIONS-`number`.
///
/// # Errors
/// `Corruption` if it is damaged, `Unsupported` if it is of a newer format.
pub fn read(fs: &dyn FileSystem, dir: &Path, number: u64) -> Result<KeyspaceSettings> {
    let path = FileName::Options(number).path(dir);
    let file = fs.open(&path)?;
    if file.len() > LEN_MAX {
        return Err(Error::corruption(path, LEN_MAX, "too long for options"));
    }
    let mut bytes = vec![0; file.len() as usize];
    file.read_at(0, &mut bytes, IoClass::Manifest)?;
    match parse(&bytes) {
        Ok(settings) => Ok(settings),
        Err(what) if what.contains("newer") => Err(Error::Unsupported(format!("{}: {what}", path.display()))),
        Err(what) => Err(Error::corruption(path, 0, what)),
    }
}

fn print(settings: &KeyspaceSettings) -> String {
    let mut text = format!("{TITLE}\n");
    for (name, options) in settings {
        let name = escape(name);
        if let Some(strategy) = &options.strategy {
            text += &format!("keyspace.{name}.strategy={strategy}\n");
        }
        if let Some(bytes) = options.memtable_bytes {
            text += &format!("keyspace.{name}.memtable_bytes={bytes}\n");
        }
    }
    let checksum = xxh3_64(text.as_bytes());
    text + &format!("checksum={checksum:016x}\n")
}

fn parse(bytes: &[u8]) -> Result<KeyspaceSettings, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "it is not text")?;
    let at = text.rfind("checksum=").ok_or("it has no checksum")?;
    let (body, checksum) = text.split_at(at);
    if checksum != format!("checksum={:016x}\n", xxh3_64(body.as_bytes())) {
        return Err("its checksum does not match".to_owned());
    }
    let mut lines = body.lines();
    if lines.next() != Some(TITLE) {
        return Err("it is of a newer format".to_owned());
    }
    let mut settings = KeyspaceSettings::new();
    for line in lines {
        let (path, value) = line.split_once('=').ok_or("a line has no `=`")?;
        let rest = path.strip_prefix("keyspace.").ok_or_else(|| format!("`{path}` is of a newer format"))?;
        let (name, option) = rest.rsplit_once('.').ok_or("a keyspace has no option")?;
        let entry = settings.entry(unescape(name).ok_or("a keyspace's name is malformed")?).or_default();
        match option {
            "strategy" => entry.strategy = Some(value.to_owned()),
            "memtable_bytes" => {
                entry.memtable_bytes = Some(value.parse().map_err(|_| "a number is malformed")?);
            }
            _ => return Err(format!("`{option}` is of a newer format")),
        }
    }
    Ok(settings)
}

fn escape(name: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    name.bytes().map(|b| if plain(b) { char::from(b).to_string() } else { format!("%{b:02x}") }).collect()
}

fn unescape(name: &str) -> Option<String> {
    let mut out = Vec::new();
    let mut bytes = name.bytes();
    while let Some(b) = bytes.next() {
        if b == b'%' {
            let digits = [bytes.next()?, bytes.next()?];
            out.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
        } else {
            out.push(b);
        }
    }
    String::from_utf8(out).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_survive_and_damage_is_seen() {
        let mut settings = KeyspaceSettings::new();
        let line = "when=saturation how=runs:1; L0: how=runs:4";
        let options = KeyspaceOptions { strategy: Some(line.into()), memtable_bytes: Some(4096) };
        settings.insert("a.b=c\nd %".into(), options);
        let text = print(&settings);
        assert_eq!(parse(text.as_bytes()).unwrap(), settings);
        for i in 0..text.len() {
            let mut damaged = text.clone().into_bytes();
            damaged[i] ^= 1;
            assert!(parse(&damaged).is_err(), "byte {i}");
            assert!(parse(&text.as_bytes()[..i]).is_err(), "cut to {i}");
        }
    }
}
