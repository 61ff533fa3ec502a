//! What the store was told, kept outside the simulated disk: every commit in order, what was promised of it, and which
//! keyspaces there were. It answers which prefix of the commits a reopened store holds.
//!
//! A keyspace that is dropped and made again under its name is another keyspace: an incarnation. A keyspace without a log
//! holds a prefix of its own.

use std::collections::BTreeMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use evenkeel::{Db, ScanRange};

/// Which making of which keyspace.
pub type Incarnation = usize;

/// The incarnation behind each name.
pub type Alive = BTreeMap<String, Incarnation>;

/// One entry of a batch: where, key, and what becomes of it.
pub type Entry = (Incarnation, Vec<u8>, Change);

/// What an entry does.
#[derive(Clone, Debug)]
pub enum Change {
    Put(Vec<u8>),
    Delete,
    /// Everything from the key to below this one.
    DeleteTo(Vec<u8>),
}

#[derive(Clone, Debug, Default)]
struct History {
    content: BTreeMap<Vec<u8>, Vec<u8>>,
    digest: u64,
    /// After which commit (counted from 1) the content had which digest.
    digests: Vec<(usize, u64)>,
}

/// The truth.
#[derive(Clone, Debug, Default)]
pub struct Oracle {
    histories: Vec<History>,
    /// Commits tried, the one in flight included.
    pub tried: usize,
    /// Commits that returned.
    pub acked: usize,
    /// Commits that must survive a power cut.
    pub promised: usize,
    /// The keyspaces without a log, with their commits that must survive a kill or a power cut.
    pub unlogged: BTreeMap<String, usize>,
    /// Keyspaces for certain.
    pub alive: Alive,
    /// Keyspaces once the create or drop in flight has happened.
    pub alive_next: Alive,
    /// Of each checkpoint the digests of what was there when it was begun; the newest may be under way.
    pub copies: Vec<BTreeMap<String, u64>>,
    pub copying: bool,
}

impl Oracle {
    /// A new incarnation.
    pub fn incarnation(&mut self) -> Incarnation {
        self.histories.push(History::default());
        self.histories.len() - 1
    }

    /// A commit is about to be tried.
    pub fn begin(&mut self, entries: &[Entry]) {
        self.tried += 1;
        for (keyspace, key, change) in entries {
            let history = &mut self.histories[*keyspace];
            let end = match change {
                Change::DeleteTo(end) => end.clone(),
                Change::Put(_) | Change::Delete => [key.as_slice(), b"\0"].concat(),
            };
            let gone: Vec<Vec<u8>> =
                history.content.range(key.clone()..end).map(|(key, _)| key.clone()).collect();
            for key in gone {
                let old = history.content.remove(&key).expect("it is there");
                history.digest ^= digest(&key, &old);
            }
            if let Change::Put(value) = change {
                history.digest ^= digest(key, value);
                history.content.insert(key.clone(), value.clone());
            }
        }
        for history in &mut self.histories {
            // Of a keyspace that is new the digest is 0, and a commit elsewhere does not change it.
            if history.digests.last().map_or(0, |(_, last)| *last) != history.digest {
                history.digests.push((self.tried, history.digest));
            }
        }
    }

    /// The commit in flight has returned.
    pub fn ack(&mut self, promised: bool) {
        self.acked = self.tried;
        if promised {
            self.promised = self.tried;
        }
    }

    /// The last commit that changed `keyspace`.
    pub fn last_commit_of(&self, keyspace: Incarnation) -> usize {
        self.histories[keyspace].digests.last().map_or(0, |(commit, _)| *commit)
    }

    fn digest_at(&self, keyspace: Incarnation, commit: usize) -> u64 {
        let digests = &self.histories[keyspace].digests;
        let after = digests.partition_point(|(at, _)| *at <= commit);
        if after == 0 { 0 } else { digests[after - 1].1 }
    }

    /// Which prefix of the commits these digests of the keyspaces are, the longest if several are the same.
    fn prefix(&self, alive: &Alive, found: &BTreeMap<String, u64>) -> Option<usize> {
        if !alive.keys().eq(found.keys()) {
            return None;
        }
        let logged = |name: &&String| !self.unlogged.contains_key(*name);
        (0..=self.tried).rev().find(|commit| {
            let mut names = alive.keys().filter(logged);
            names.all(|name| self.digest_at(alive[name], *commit) == found[name])
        })
    }

    /// Each keyspace without a log holds some prefix of its own writes, and all that it was flushed with.
    fn check_unlogged(&self, found: &BTreeMap<String, u64>) -> Result<(), Damage> {
        for (name, least) in &self.unlogged {
            let Some((incarnation, sum)) = self.alive_next.get(name).zip(found.get(name)) else { continue };
            if !(*least..=self.tried).any(|commit| self.digest_at(*incarnation, commit) == *sum) {
                return Err(Damage::Lost(format!(
                    "`{name}`, without a log, holds no prefix from {least}: {}",
                    self.explain(found)
                )));
            }
        }
        Ok(())
    }

    /// The prefix that an open store holds, which has to be `least` commits at least.
    pub fn check(&self, found: &BTreeMap<String, u64>, least: usize) -> Result<usize, Damage> {
        self.check_unlogged(found)?;
        let prefixes = [&self.alive, &self.alive_next].map(|alive| self.prefix(alive, found));
        match prefixes.into_iter().flatten().max() {
            Some(prefix) if prefix >= least => Ok(prefix),
            Some(prefix) => Err(Damage::Lost(format!("it holds {prefix} commits, promised were {least}"))),
            None => Err(Damage::Hole(self.explain(found))),
        }
    }

    /// What fits each keyspace by itself.
    fn explain(&self, found: &BTreeMap<String, u64>) -> String {
        let mut text = format!(
            "no prefix of {} commits (acked {}, promised {}); found {:?}, expected {:?} or {:?};",
            self.tried,
            self.acked,
            self.promised,
            found.keys().collect::<Vec<_>>(),
            self.alive,
            self.alive_next
        );
        for (name, digest) in found {
            let Some(incarnation) = self.alive.get(name).or(self.alive_next.get(name)) else { continue };
            let fits: Vec<usize> =
                (0..=self.tried).filter(|commit| self.digest_at(*incarnation, *commit) == *digest).collect();
            text.push_str(&format!(" `{name}` fits {:?}..={:?},", fits.first(), fits.last()));
        }
        text
    }
}

/// How a store breaks its word.
#[derive(Clone, Debug)]
pub enum Damage {
    /// Less than was promised.
    Lost(String),
    /// No prefix of the commits.
    Hole(String),
    /// It cannot be opened, read or verified.
    Unopenable(String),
}

/// A digest of an entry; those of a keyspace are joined by xor.
pub fn digest(key: &[u8], value: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    (key, value).hash(&mut hasher);
    hasher.finish()
}

/// Digests of everything an open store holds.
pub fn digests(db: &Db) -> evenkeel::Result<BTreeMap<String, u64>> {
    let mut found = BTreeMap::new();
    for name in db.keyspaces() {
        let keyspace = db.keyspace(&name).ok_or_else(|| evenkeel::Error::InvalidArgument(name.clone()))?;
        let mut sum = 0;
        for entry in keyspace.scan(ScanRange::all())? {
            let (key, value) = entry?;
            sum ^= digest(&key, &value);
        }
        found.insert(name, sum);
    }
    Ok(found)
}
