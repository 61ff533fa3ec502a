//! A point of the design space: a strategy, what is written and read under it, and how the tree is tuned. Plain data.
//!
//! A point has one name, made of what it is, so that experiments that need the same cell share it.

use super::heat_load::{HeatLoad, USUAL};

/// Length of keys (CDS §5: 4 bytes).
pub const KEY_BYTES: u64 = 4;

/// Which keys are inserted, or asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    /// All alike.
    Uniform,
    /// Few of them most of the time: exponent 1.
    Zipfian,
    /// A bell over the key space: the deviation is 34 % of it.
    Normal,
}

/// What is read when all is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reads {
    /// Nothing.
    Nothing,
    /// Gets of keys that are there and of keys that are not.
    Gets,
    /// The same at each share of empty gets, skewed gets, and scans.
    All,
    /// Gets all along, and of all kinds at the end, by which tables are told apart.
    Heat(HeatLoad),
}

/// See the file's header. Sizes are those of the whole experiment; [`Point::scaled`] makes them smaller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// A name of the catalogue of strategies.
    pub strategy: &'static str,
    /// With the strategy `tsa`: the time that a delete may take, in percent of what writing takes with `lo+1`.
    pub ttl_percent: u32,
    /// Keys that are inserted, each once.
    pub records: u64,
    /// Key and value together.
    pub entry_bytes: u64,
    /// The memtable's size, and that of a table; with [`Reads::Heat`] a table is a quarter of it.
    pub buffer_bytes: u64,
    /// The size of a data block.
    pub page_bytes: u64,
    /// How many times larger each level is than the one above.
    pub ratio: u32,
    /// Filter bits for each key.
    pub filter_bits: u32,
    /// The block cache, with filters and indexes in it.
    pub cache_bytes: u64,
    /// Which keys are inserted.
    pub inserts: Spread,
    /// After each insert, so many keys that are there are written again.
    pub updates: u32,
    /// Of a thousand inserts, so many are followed by the delete of a key that is there.
    pub deletes: u32,
    /// One get for every ten inserts, once a fifth of them is done: `Some(true)` asks for keys that are not there.
    pub gets_beside: Option<bool>,
    /// What is read when all is written.
    pub reads: Reads,
    /// Less than all of it: asks for fewer things too, since it only shows that all works.
    pub is_part: bool,
}

/// The paper's default: 10 M entries of 128 bytes, buffer 8 MB, pages of 16 KB, ratio 10, 10 bits a key, cache 8 MB.
pub const LARGE: Point = Point {
    strategy: "lo+1",
    ttl_percent: 0,
    records: 10_000_000,
    entry_bytes: 128,
    buffer_bytes: 8 << 20,
    page_bytes: 16 << 10,
    ratio: 10,
    filter_bits: 10,
    cache_bytes: 8 << 20,
    inserts: Spread::Uniform,
    updates: 0,
    deletes: 0,
    gets_beside: None,
    reads: Reads::All,
    is_part: false,
};

/// What is varied from: 4 M entries and a buffer of 2 MB, so that the tree has as many levels, and more buffers.
pub const SMALL: Point =
    Point { records: 4_000_000, buffer_bytes: 2 << 20, cache_bytes: 4 << 20, reads: Reads::Nothing, ..LARGE };

/// Lab L: 2 GB in entries of 1 KB, buffer 16 MB, pages of 4 KB, 10 bits a key, a cache of 2.5 % of the data.
pub const HEAT: Point = Point {
    strategy: "ltg",
    records: 2_000_000,
    entry_bytes: 1024,
    buffer_bytes: 16 << 20,
    page_bytes: 4 << 10,
    cache_bytes: 48 << 20,
    reads: Reads::Heat(USUAL),
    ..LARGE
};

impl Point {
    /// The same with another strategy.
    pub const fn with(self, strategy: &'static str) -> Point {
        Point { strategy, ..self }
    }

    /// A name of its own, fit for files.
    pub fn name(&self) -> String {
        let base = match self.reads {
            Reads::Heat(load) => Point { reads: Reads::Heat(load), ..HEAT },
            _ if self.buffer_bytes == LARGE.buffer_bytes && self.records == LARGE.records => LARGE,
            _ => SMALL,
        };
        let mut name = format!("{}-{}", self.strategy, short(self.records));
        if let Reads::Heat(load) = self.reads {
            name += "-heat";
            name += &load.differs();
        }
        let mut add = |differs: bool, text: String| {
            if differs {
                name.push('-');
                name.push_str(&text);
            }
        };
        add(self.ttl_percent != 0, format!("ttl{}", self.ttl_percent));
        add(self.entry_bytes != base.entry_bytes, format!("entry{}", self.entry_bytes));
        add(self.buffer_bytes != base.buffer_bytes, format!("buffer{}k", self.buffer_bytes >> 10));
        add(self.page_bytes != base.page_bytes, format!("page{}k", self.page_bytes >> 10));
        add(self.ratio != base.ratio, format!("ratio{}", self.ratio));
        add(self.filter_bits != base.filter_bits, format!("bits{}", self.filter_bits));
        add(self.cache_bytes != base.cache_bytes, format!("cache{}k", self.cache_bytes >> 10));
        add(self.inserts != base.inserts, format!("{:?}", self.inserts).to_lowercase());
        add(self.updates != 0, format!("updates{}", self.updates));
        add(self.deletes != 0, format!("deletes{}", self.deletes));
        add(self.gets_beside == Some(false), "gets".to_owned());
        add(self.gets_beside == Some(true), "emptygets".to_owned());
        add(self.reads != base.reads, format!("reads-{:?}", self.reads).to_lowercase());
        name
    }

    /// The same with data, buffer and cache divided by `divide`; what would be too little for a tree stays at a least.
    pub fn scaled(self, divide: u64) -> Point {
        let part = |bytes: u64| (bytes / divide.max(1)).max((64 << 10).min(bytes));
        Point {
            records: (self.records / divide.max(1)).max(2000),
            buffer_bytes: part(self.buffer_bytes),
            // Of tables there are as many, and each takes some of it.
            cache_bytes: match self.heat() {
                Some(_) => part(self.cache_bytes)
                    .max((self.records * self.entry_bytes / divide.max(1) / 20).min(self.cache_bytes)),
                None => part(self.cache_bytes),
            },
            is_part: divide > 1,
            ..self
        }
    }

    /// The point whose writing time the deletes' time is a part of.
    pub fn timed_by(&self) -> Option<Point> {
        (self.ttl_percent != 0).then_some(Point { strategy: "lo+1", ttl_percent: 0, ..*self })
    }

    /// Gets of all kinds together, when all is written: a tenth of the records, or a quarter of fewer ones; of a part fewer.
    pub fn gets(&self) -> u64 {
        let of = match (self.heat().is_some(), self.is_part) {
            (true, _) => 4,
            (false, false) => 10,
            (false, true) => 50,
        };
        (self.records / of).max(200)
    }

    /// What it is read by, if it is a point of lab L.
    pub fn heat(&self) -> Option<&HeatLoad> {
        match &self.reads {
            Reads::Heat(load) => Some(load),
            _ => None,
        }
    }

    /// Bytes of a table.
    pub fn table_bytes(&self) -> u64 {
        if self.heat().is_some() { self.buffer_bytes / 4 } else { self.buffer_bytes }
    }

    /// Writes of all kinds.
    pub fn writes(&self) -> u64 {
        let updates = if self.heat().is_some() { self.records / 2 } else { 0 };
        self.records * u64::from(1 + self.updates) + self.records * u64::from(self.deletes) / 1000 + updates
    }

    /// The settings of the preset `cds` (CDS §5, the default setup) as the engine's options take them.
    pub fn options(&self) -> Vec<(&'static str, String)> {
        let direct = ["direct_flush", "direct_compaction", "direct_reads", "compaction_first"];
        let mut options: Vec<(&'static str, String)> =
            direct.map(|name| (name, "true".to_owned())).into_iter().collect();
        options.extend([
            ("memtable_bytes", self.buffer_bytes.to_string()),
            ("memtables", "2".to_owned()),
            ("table_bytes", self.table_bytes().to_string()),
            ("block_bytes", self.page_bytes.to_string()),
            ("filter_bits", self.filter_bits.to_string()),
            ("cache_bytes", self.cache_bytes.to_string()),
            // Room for memtables and jobs, so that the cache is as large as said.
            ("memory_bytes", (self.cache_bytes + 8 * self.buffer_bytes + (256 << 20)).to_string()),
            ("compression", "none".to_owned()),
            ("workers", "1".to_owned()),
        ]);
        if self.heat().is_some() {
            // As many lessons of a part as of the whole, as long as each has some looks into every table.
            options.push(("heat_operations", (self.records / 32).max(16_384).to_string()));
            options.push(("heat_seconds", "0".to_owned()));
            let filters = if self.strategy == "ltg" { "6" } else { "0" };
            options.push(("filter_heat", filters.to_owned()));
        }
        options
    }

    /// What the strategy's line is to say of sizes: levels of fixed size, the first one `ratio` buffers large, or four in lab L, and
    /// tables of one size, cut by size alone (RocksDB 6.12, which CDS ran).
    pub fn sizes(&self) -> String {
        let ratio = u64::from(self.ratio);
        let first = self.buffer_bytes * if self.heat().is_some() { 4 } else { ratio };
        format!(
            "size: l0={first} base={} ratio={ratio} table={} sizes=fixed cut=size",
            first * ratio,
            self.table_bytes()
        )
    }
}

fn short(n: u64) -> String {
    match n {
        n if n.is_multiple_of(1_000_000) => format!("{}M", n / 1_000_000),
        n if n.is_multiple_of(1000) => format!("{}k", n / 1000),
        n => n.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_what_differs() {
        assert_eq!(LARGE.name(), "lo+1-10M");
        assert_eq!(SMALL.with("tier").name(), "tier-4M");
        let odd = Point { ttl_percent: 33, deletes: 100, ratio: 4, ..SMALL.with("tsa") };
        assert_eq!(odd.name(), "tsa-4M-ttl33-ratio4-deletes100");
        assert_eq!(odd.timed_by().map(|p| p.name()), Some("lo+1-4M-ratio4-deletes100".to_owned()));
        let beside = Point { gets_beside: Some(false), reads: Reads::Nothing, ..LARGE };
        assert_eq!(beside.name(), "lo+1-10M-gets-reads-nothing");
    }

    #[test]
    fn a_part_has_the_same_shape() {
        let eighth = LARGE.scaled(8);
        assert_eq!((eighth.records, eighth.buffer_bytes, eighth.cache_bytes), (1_250_000, 1 << 20, 1 << 20));
        assert_eq!(eighth.page_bytes, LARGE.page_bytes);
        let least = LARGE.scaled(1_000_000);
        assert_eq!((least.records, least.buffer_bytes), (2000, 64 << 10));
        assert_eq!(
            LARGE.sizes(),
            "size: l0=83886080 base=838860800 ratio=10 table=8388608 sizes=fixed cut=size"
        );
    }
}
