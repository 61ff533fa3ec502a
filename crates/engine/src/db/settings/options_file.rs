//! OPTIONS-NNNNNN: what the store and each keyspace were last set to, flat text for people, with a checksum for us. Of the store's
//! options only those are there that are not as by default: the others follow the defaults of the version that opens it.
//!
//! ```text
//! # evenkeel options, format 1
//! option.memtable_bytes=8388608
//! keyspace.default.strategy=1-leveling
//! checksum=1f0c...
//! ```
//! The file that the manifest names counts. It is written beside the old one, synced, and renamed: there is always a whole one.
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

/// What OPTIONS holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stored {
    /// Options of the store that are not as by default, by name.
    pub options: BTreeMap<String, String>,
    /// Settings of the keyspaces.
    pub keyspaces: KeyspaceSettings,
}

/// Settings by keyspace name.
pub type KeyspaceSettings = BTreeMap<String, KeyspaceOptions>;

/// Writes the settings as OPTIONS-`number`. The caller syncs the directory, then has the manifest name it.
///
/// # Errors
/// `InvalidArgument` if a value is more than a line: what could not be read again must not be written.
pub fn write(fs: &dyn FileSystem, dir: &Path, number: u64, settings: &Stored) -> Result<()> {
    let strategies = settings.keyspaces.values().filter_map(|options| options.strategy.as_ref());
    if let Some(value) =
        settings.options.values().chain(strategies).find(|value| value.contains(['\n', '\r']))
    {
        return Err(Error::invalid(format!("`{}` is more than one line", value.escape_debug())));
    }
    let temp = FileName::Temp(number).path(dir);
    let written = fs.create(&temp, IoClass::Manifest).and_then(|mut file| {
        file.append(print(settings).as_bytes())?;
        file.syncer().sync()?;
        drop(file);
        fs.rename(&temp, &FileName::Options(number).path(dir))
    });
    if written.is_err() {
        // What cannot be removed is an orphan, which the next open removes.
        let _ = fs.remove(&temp);
    }
    written
}

/// Reads OPTIONS-`number`.
///
/// # Errors
/// `Corruption` if it is damaged, `Unsupported` if it is of a newer format.
pub fn read(fs: &dyn FileSystem, dir: &Path, number: u64) -> Result<Stored> {
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

/// The text of OPTIONS.
pub(in crate::db) fn print(settings: &Stored) -> String {
    let mut text = format!("{TITLE}\n");
    for (name, value) in &settings.options {
        text += &format!("option.{name}={value}\n");
    }
    for (name, options) in &settings.keyspaces {
        let name = escape(name);
        if let Some(strategy) = &options.strategy {
            text += &format!("keyspace.{name}.strategy={strategy}\n");
        }
        if let Some(bytes) = options.memtable_bytes {
            text += &format!("keyspace.{name}.memtable_bytes={bytes}\n");
        }
        if let Some(rule) = &options.compression {
            text += &format!("keyspace.{name}.compression={rule}\n");
        }
        if let Some(rule) = options.prefix_filter {
            text += &format!("keyspace.{name}.prefix_filter={rule}\n");
        }
    }
    let checksum = xxh3_64(text.as_bytes());
    text + &format!("checksum={checksum:016x}\n")
}

/// Reads what `print` wrote; the error says what is wrong with it.
pub(in crate::db) fn parse(bytes: &[u8]) -> Result<Stored, String> {
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
    let mut settings = Stored::default();
    for line in lines {
        let (path, value) = line.split_once('=').ok_or("a line has no `=`")?;
        if let Some(name) = path.strip_prefix("option.") {
            settings.options.insert(name.to_owned(), value.to_owned());
            continue;
        }
        let rest = path.strip_prefix("keyspace.").ok_or_else(|| format!("`{path}` is of a newer format"))?;
        let (name, option) = rest.rsplit_once('.').ok_or("a keyspace has no option")?;
        let entry =
            settings.keyspaces.entry(unescape(name).ok_or("a keyspace's name is malformed")?).or_default();
        match option {
            "strategy" => entry.strategy = Some(value.to_owned()),
            "memtable_bytes" => {
                entry.memtable_bytes = Some(value.parse().map_err(|_| "a number is malformed")?);
            }
            "compression" => entry.compression = Some(value.parse().map_err(unreadable)?),
            "prefix_filter" => entry.prefix_filter = Some(value.parse().map_err(unreadable)?),
            _ => return Err(format!("`{option}` is of a newer format")),
        }
    }
    Ok(settings)
}

/// What only a newer or a fuller build reads is told from damage by its words, like all here.
fn unreadable(error: Error) -> String {
    match error {
        Error::Unsupported(what) => format!("it is of a newer or fuller build: {what}"),
        other => other.to_string(),
    }
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
    use crate::storage::simulated::SimulatedFileSystem;

    #[test]
    fn a_value_of_several_lines_is_refused_before_anything_is_written() {
        let fs = SimulatedFileSystem::new();
        let dir = Path::new("/");
        for value in ["a\nb", "a\r", "\n"] {
            let mut settings = Stored::default();
            let strategy = Some(value.to_owned());
            settings.keyspaces.insert("k".into(), KeyspaceOptions { strategy, ..KeyspaceOptions::default() });
            assert!(matches!(write(&fs, dir, 1, &settings), Err(Error::InvalidArgument(_))), "{value:?}");
            settings = Stored::default();
            settings.options.insert("schedule".into(), value.into());
            assert!(write(&fs, dir, 1, &settings).is_err(), "{value:?}");
            assert!(read(&fs, dir, 1).is_err());
        }
    }

    #[test]
    fn settings_survive_and_damage_is_seen() {
        let mut settings = Stored::default();
        settings.options.insert("memtables".into(), "3".into());
        let line = "when=saturation how=runs:1; L0: how=runs:4";
        let options = KeyspaceOptions {
            strategy: Some(line.into()),
            memtable_bytes: Some(4096),
            compression: Some("none,lz4".parse().unwrap()),
            prefix_filter: Some("delimiter:=".parse().unwrap()),
            ..KeyspaceOptions::default()
        };
        settings.keyspaces.insert("a.b=c\nd %".into(), options);
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
