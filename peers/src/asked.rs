//! What an engine is asked to be: where, with which memory, promising what. Each engine translates this into its own words,
//! and refuses what it has none for.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;

use evenkeel_lab::results::settings::{Common, Settings};
use serde_json::Value;

/// What `Ok` from a write means, in the words of `keel bench --sync`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// In the hands of the kernel: survives the death of the process.
    Os,
    /// On the disk: survives a power cut.
    Sync,
    /// In memory: a crash may take it.
    NoWal,
}

impl Durability {
    /// All, by name.
    pub const ALL: [(&'static str, Durability); 3] =
        [("os", Durability::Os), ("sync", Durability::Sync), ("no-wal", Durability::NoWal)];

    /// The name people type.
    pub fn name(self) -> &'static str {
        match self {
            Durability::Os => "os",
            Durability::Sync => "sync",
            Durability::NoWal => "no-wal",
        }
    }
}

impl FromStr for Durability {
    type Err = String;

    fn from_str(text: &str) -> Result<Durability, String> {
        let found = Durability::ALL.iter().find(|(name, _)| *name == text);
        found.map(|(_, mode)| *mode).ok_or_else(|| {
            format!("no peer has the durability `{text}`; they have os, sync and no-wal, each engine some")
        })
    }
}

/// See the file's header.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The directory, which is there, and empty or filled by an earlier run.
    pub dir: PathBuf,
    /// Whose settings.
    pub settings: Settings,
    /// What they have in common.
    pub common: Common,
    /// What a write promises.
    pub durability: Durability,
}

impl Asked {
    /// True if all engines are to be alike.
    pub fn equal(&self) -> bool {
        self.settings == Settings::Equal
    }

    /// Refuses what somebody wants otherwise than usual, and this engine has no word for.
    ///
    /// # Errors
    /// Which setting.
    pub fn has_no(&self, engine: &str, names: &[&str]) -> Result<(), String> {
        let (asked, usual) = (self.common.rows(self.settings), Common::default().rows(self.settings));
        match names.iter().find(|name| asked.get(**name) != usual.get(**name)) {
            Some(name) => Err(format!("{engine} has no {name}; leave --set {name} away, or the engine")),
            None => Ok(()),
        }
    }

    /// The document's account of the settings: what was asked for, and in `options` what the engine was told, in its words.
    pub fn config(&self, options: &[(&str, Value)]) -> BTreeMap<String, Value> {
        let options = options.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        BTreeMap::from([
            ("settings".to_owned(), self.settings.name().into()),
            ("sync".to_owned(), self.durability.name().into()),
            ("options".to_owned(), Value::Object(options)),
        ])
    }
}
