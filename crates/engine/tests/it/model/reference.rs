//! The model: what a store must answer, as plain maps outside the store, with the history since the last open for the day
//! the machine loses its power and only a prefix of it survives.
//!
//! ```text
//! base (content at open) + log (writes since, in order)  ──► content now
//!                          └ some prefix of it, not below `durable` ──► content after a crash
//! ```
//! A keyspace dropped and made again is another one: writes name its incarnation, not its name.

use std::collections::BTreeMap;
use std::rc::Rc;

/// Keys and values of one keyspace.
pub type Content = BTreeMap<Rc<[u8]>, Rc<[u8]>>;

/// Which making of a keyspace.
pub type Incarnation = u64;

/// All keyspaces at one moment; cheap to clone.
pub type Moment = BTreeMap<Incarnation, Rc<Content>>;

/// A write: where, key, and value or deletion.
pub type Entry = (Incarnation, Rc<[u8]>, Option<Rc<[u8]>>);

/// A keyspace that exists.
#[derive(Clone, Debug)]
pub struct Space {
    pub incarnation: Incarnation,
    pub strategy: String,
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
}

impl Reference {
    pub fn create(&mut self, name: &str, strategy: &str) {
        self.incarnations += 1;
        let space = Space { incarnation: self.incarnations, strategy: strategy.to_owned() };
        self.now.insert(space.incarnation, Rc::default());
        self.base.insert(space.incarnation, Rc::default());
        self.spaces.insert(name.to_owned(), space);
    }

    pub fn drop_space(&mut self, name: &str) {
        let space = self.spaces.remove(name).expect("a keyspace of the model");
        self.now.remove(&space.incarnation);
        self.base.remove(&space.incarnation);
    }

    /// A batch was acknowledged.
    pub fn write(&mut self, entries: Vec<Entry>) {
        self.sequence += entries.len() as u64;
        apply(&mut self.now, &entries);
        self.log.push((self.sequence, entries));
    }

    /// All that was written is with the disk.
    pub fn synced(&mut self) {
        self.durable = self.sequence;
    }

    /// The machine crashed, and this is what the store holds and the sequence it goes on from: it must be what some prefix
    /// of the writes left, with all that was durable in it.
    pub fn crashed(&mut self, found: &Moment, sequence: u64) -> Result<(), String> {
        let mut now = self.base.clone();
        let mut end = self.log.first().map_or(self.sequence, |(end, entries)| end - entries.len() as u64);
        // The shortest: after it there may be writes that change nothing.
        let mut shortest = (now == *found && end >= self.durable).then_some(end);
        for (batch_end, entries) in &self.log {
            apply(&mut now, entries);
            end = *batch_end;
            if end >= self.durable && now == *found {
                shortest.get_or_insert(end);
            }
        }
        let Some(shortest) = shortest else {
            return Err(format!("what survived is no prefix of the writes up to {}..={end}", self.durable));
        };
        if sequence < shortest {
            return Err(format!(
                "writes up to {shortest} survived, and the next are numbered from {sequence}"
            ));
        }
        self.now = found.clone();
        self.sequence = sequence;
        Ok(())
    }

    /// The store is open again, and recovery has put all it found into tables.
    pub fn opened(&mut self) {
        self.base = self.now.clone();
        self.log.clear();
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
            Some(value) => content.insert(Rc::clone(key), Rc::clone(value)),
            None => content.remove(key),
        };
    }
}
