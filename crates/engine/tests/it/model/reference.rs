//! The model: what a store must answer, as plain maps outside the store, with the history since the last open for the day
//! the machine loses its power and only a prefix of it survives.
//!
//! ```text
//! base (content at open) + log (writes since, in order)  ──► content now
//!                          └ some prefix of it, not below `durable` ──► content after a crash
//! ```
//! A keyspace dropped and made again is another one: writes name its incarnation, not its name. One without a log keeps a prefix
//! of its own writes, whether the process was killed or the machine lost its power.

use std::collections::BTreeMap;
use std::rc::Rc;

/// Keys and values of one keyspace.
pub type Content = BTreeMap<Rc<[u8]>, Rc<[u8]>>;

/// Which making of a keyspace.
pub type Incarnation = u64;

/// All keyspaces at one moment; cheap to clone.
pub type Moment = BTreeMap<Incarnation, Rc<Content>>;

/// A write: where, key, and what becomes of it.
pub type Entry = (Incarnation, Rc<[u8]>, Change);

/// What a write does.
#[derive(Clone, Debug)]
pub enum Change {
    Put(Rc<[u8]>),
    Delete,
    /// Everything from the key to below this one.
    DeleteTo(Rc<[u8]>),
}

/// A keyspace that exists.
#[derive(Clone, Debug)]
pub struct Space {
    pub incarnation: Incarnation,
    pub strategy: String,
    pub no_wal: bool,
}

/// The truth about a store.
#[derive(Debug, Default)]
pub struct Reference {
    /// Keyspaces by name.
    pub spaces: BTreeMap<String, Space>,
    /// What they hold.
    pub now: Moment,
    /// The last write's sequence.
    pub sequence: u64,
    /// Writes at or below this one survive a power cut.
    pub durable: u64,
    base: Moment,
    log: Vec<(u64, Vec<Entry>)>,
    incarnations: u64,
    /// Keyspaces without a log, with the last write that was flushed for certain.
    unlogged: BTreeMap<Incarnation, u64>,
}

impl Reference {
    pub fn create(&mut self, name: &str, strategy: &str, no_wal: bool) {
        self.incarnations += 1;
        let space = Space { incarnation: self.incarnations, strategy: strategy.to_owned(), no_wal };
        if no_wal {
            self.unlogged.insert(space.incarnation, 0);
        }
        self.now.insert(space.incarnation, Rc::default());
        self.base.insert(space.incarnation, Rc::default());
        self.spaces.insert(name.to_owned(), space);
    }

    pub fn drop_space(&mut self, name: &str) {
        let space = self.spaces.remove(name).expect("a keyspace of the model");
        self.now.remove(&space.incarnation);
        self.base.remove(&space.incarnation);
        self.unlogged.remove(&space.incarnation);
    }

    /// A keyspace was flushed.
    pub fn flushed(&mut self, name: &str) {
        let incarnation = self.spaces[name].incarnation;
        if let Some(through) = self.unlogged.get_mut(&incarnation) {
            *through = self.sequence;
        }
    }

    /// A batch was acknowledged.
    pub fn write(&mut self, entries: Vec<Entry>) {
        self.sequence += entries.len() as u64;
        apply(&mut self.now, &entries);
        self.log.push((self.sequence, entries));
    }

    /// A bulk load was finished: one sequence for all of it, and all before it is durable.
    pub fn load(&mut self, name: &str, entries: Vec<Entry>) {
        self.sequence += 1;
        apply(&mut self.now, &entries);
        self.log.push((self.sequence, entries));
        self.synced();
        self.flushed(name);
    }

    /// All that was written is with the disk.
    pub fn synced(&mut self) {
        self.durable = self.sequence;
    }

    /// The machine crashed, and this is what the store holds and the sequence it goes on from: it must be what some prefix
    /// of the writes left, with all that was durable in it.
    pub fn crashed(&mut self, found: &Moment, sequence: u64) -> Result<(), String> {
        let everyone = self.unlogged.iter().map(|(incarnation, through)| (Some(*incarnation), *through));
        for (world, durable) in everyone.chain([(None, self.durable)]) {
            let shortest = self.prefix(world, durable, found).ok_or_else(|| {
                format!("what survived of {world:?} is no prefix of its writes from {durable} on")
            })?;
            if sequence < shortest {
                return Err(format!(
                    "writes up to {shortest} survived, and the next are numbered from {sequence}"
                ));
            }
        }
        self.now = found.clone();
        self.sequence = sequence;
        Ok(())
    }

    /// The end of the shortest prefix that `found` holds of the writes to a keyspace without a log, or to all others together.
    fn prefix(&self, world: Option<Incarnation>, durable: u64, found: &Moment) -> Option<u64> {
        let belongs = |incarnation: &Incarnation| match world {
            Some(own) => *incarnation == own,
            None => !self.unlogged.contains_key(incarnation),
        };
        let part = |moment: &Moment| -> Moment {
            let of_world = moment.iter().filter(|(incarnation, _)| belongs(incarnation));
            of_world.map(|(incarnation, content)| (*incarnation, Rc::clone(content))).collect()
        };
        let batches = self.log.iter().filter(|(_, entries)| entries.iter().all(|(space, ..)| belongs(space)));
        let (mut now, found) = (part(&self.base), part(found));
        let mut shortest = (now == found).then_some(0);
        for (end, entries) in batches {
            if *end <= durable {
                // This one is there for certain, so what came before it is no end.
                shortest = None;
            }
            apply(&mut now, entries);
            if now == found {
                shortest.get_or_insert(*end);
            }
        }
        shortest
    }

    /// The store is open again, and recovery has put all it found into tables.
    pub fn opened(&mut self) {
        self.base = self.now.clone();
        self.log.clear();
        self.unlogged.values_mut().for_each(|through| *through = 0);
        self.synced();
    }

    /// What a keyspace holds.
    pub fn content(&self, name: &str) -> &Content {
        &self.now[&self.spaces[name].incarnation]
    }
}

fn apply(moment: &mut Moment, entries: &[Entry]) {
    for (incarnation, key, value) in entries {
        let Some(content) = moment.get_mut(incarnation) else { continue };
        let content = Rc::make_mut(content);
        match value {
            Change::Put(value) => drop(content.insert(Rc::clone(key), Rc::clone(value))),
            Change::Delete => drop(content.remove(key)),
            Change::DeleteTo(end) => content.retain(|k, _| k < key || k >= end),
        }
    }
}
