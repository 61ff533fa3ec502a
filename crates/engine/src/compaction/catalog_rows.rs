//! The catalogue's rows. Names of strategies appear as strings only here; everything else handles values.
//!
//! House numbering: the paper's Level 1, the first on disk, is our L0. Its size ratio for run counts is 4 here, as in the
//! systems it measured, so that L0 holds the usual four flushes. Where Table 1 gives a system several policies to choose from, the
//! row has them as one list, in the table's order; where it gives `file(s)`, the row takes several.

/// One named strategy.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The name in options and on the command line.
    pub name: &'static str,
    /// Where it comes from.
    pub source: &'static str,
    /// What it does, in one sentence.
    pub about: &'static str,
    /// The strategy itself.
    pub text: &'static str,
}

const fn row(name: &'static str, source: &'static str, about: &'static str, text: &'static str) -> Row {
    Row { name, source, about, text }
}

/// Every named strategy.
pub const CATALOG: &[Row] = &[
    row(
        "full",
        "CDS Table 2, Full",
        "Leveling that merges a whole level with the next when it is full.",
        "when=saturation how=runs:1 much=level",
    ),
    row(
        "lo+1",
        "CDS Table 2, LO+1",
        "Leveling that moves the file with the least overlap with the next level.",
        "when=saturation how=runs:1 much=file which=least-overlap-parent",
    ),
    row(
        "cold",
        "CDS Table 2, Cold",
        "Leveling that moves the file that was not read for longest.",
        "when=saturation how=runs:1 much=file which=coldest",
    ),
    row(
        "old",
        "CDS Table 2, Old",
        "Leveling that moves the file with the smallest sequence number.",
        "when=saturation how=runs:1 much=file which=oldest",
    ),
    row(
        "tsd",
        "CDS Table 2, TSD; a file fires at a tenth of dense blocks (Pebble), goes first if half of it is tombstones (RocksDB)",
        "Leveling that moves a file dense with tombstones before its level is full, and those that are mostly tombstones first.",
        "when=density:0.1,saturation how=runs:1 much=file which=tombstone-density:0.5,least-overlap-parent",
    ),
    row(
        "rr",
        "CDS Table 2, RR",
        "Leveling that moves files in key order, going on where it stopped.",
        "when=saturation how=runs:1 much=file which=round-robin",
    ),
    row(
        "lo+2",
        "CDS Table 2, LO+2",
        "Leveling that moves the file with the least overlap with the level after the next.",
        "when=saturation how=runs:1 much=file which=least-overlap-grandparent",
    ),
    row(
        "tsa",
        "CDS Table 2, TSA; the time is that of the authors' artifact",
        "Leveling that has every delete gone in time: files with deletes that are due first, then least overlap.",
        "when=ttl:2250s,saturation how=runs:1 much=file which=expired,least-overlap-parent",
    ),
    row(
        "tier",
        "CDS Table 2, Tier; it names saturation, which for runs of equal size is the number of runs",
        "Tiering that merges all runs of a level into one of the next when there are four.",
        "when=runs how=runs:4 much=runs",
    ),
    row(
        "1-leveling",
        "CDS §3.1.2 and the authors' artifact",
        "Tiering in the first level, leveling with least overlap below: few stalls, few runs to read.",
        "when=saturation how=runs:1 much=file which=least-overlap-parent; \
         L0: when=runs,saturation how=runs:4 much=runs",
    ),
    row(
        "l-leveling",
        "CDS §3.1.2, Dostoevsky's lazy leveling",
        "Leveling in the last level, tiering above: cheap writes, one run where most data is.",
        "when=runs how=runs:4 much=runs; last: when=saturation how=runs:1 much=level",
    ),
    row(
        "cold-write",
        "CDS §5, the authors' artifact for Cold (recency of writes)",
        "Leveling that moves the file whose newest write is the oldest.",
        "when=saturation how=runs:1 much=file which=coldest-write",
    ),
    row(
        "rocksdb",
        "CDS Table 1, RocksDB leveled; Monkey (TODS)",
        "Tiering in the first level, leveling below; files that stayed in their level for a month are rewritten.",
        "when=saturation,staleness:30d how=runs:1 much=files:64MiB \
         which=least-overlap-parent,coldest-write,oldest,tombstone-density; \
         L0: when=runs,saturation how=runs:4 much=runs",
    ),
    row(
        "rocksdb-universal",
        "CDS Table 1, RocksDB universal; staleness is unclear there",
        "Tiering that also merges when superseded data takes twice the space of the rest.",
        "when=saturation,runs,staleness:30d,space-amp:2 how=runs:4 much=runs",
    ),
    row(
        "leveldb",
        "CDS Table 1, LevelDB; Monkey (2017)",
        "Leveling in key order; it began with seek budgets, which are a trigger of their own here: read-heat.",
        "when=saturation how=runs:1 much=file which=round-robin; L0: when=runs how=runs:4 much=runs",
    ),
    row(
        "slimdb",
        "CDS Table 1, SlimDB; no movement is named, so the oldest go",
        "Tiering by bytes, some files at a time.",
        "when=saturation how=runs:4 much=files:64MiB which=oldest",
    ),
    row(
        "dostoevsky",
        "CDS Table 1, Dostoevsky; it marks least overlap and no movement for its leveled level, which is taken whole",
        "Lazy leveling: tiering above, one run in the last level.",
        "when=runs how=runs:4 much=runs; last: when=saturation how=runs:1 much=level",
    ),
    row(
        "lsm-bush",
        "CDS Table 1, LSM-Bush",
        "The smaller a level the more runs it has; one in the last.",
        "when=runs how=runs:4 much=runs; L0: how=runs:16; L1: how=runs:8; last: when=saturation how=runs:1 much=level",
    ),
    row(
        "lethe",
        "CDS Table 1, Lethe",
        "Leveling that has every delete gone within a day.",
        "when=ttl:1d,saturation how=runs:1 much=files:64MiB which=expired,least-overlap-parent",
    ),
    row(
        "silk",
        "CDS Table 1, SILK and SILK+; RocksDB 5.7, on which it rests, takes the largest file after compensation by default",
        "Leveling in key order, some files at a time.",
        "when=saturation how=runs:1 much=files:64MiB which=round-robin",
    ),
    row(
        "hyperleveldb",
        "CDS Table 1, HyperLevelDB",
        "Leveling that moves the file with the least overlap, with the next level and then with the one after.",
        "when=saturation how=runs:1 much=file which=least-overlap-parent,least-overlap-grandparent",
    ),
    row(
        "pebblesdb",
        "CDS Table 1, PebblesDB; no movement is named, so the oldest go",
        "Several runs in a level, appended to without merging the level's own, one run in the last.",
        "when=saturation how=runs:4 much=files:64MiB which=oldest; last: how=runs:1",
    ),
    row(
        "cassandra-stcs",
        "CDS Table 1, Cassandra's size-tiered strategy; tombstones are kept for ten days there",
        "Tiering that also rewrites what is stale, or whose deletes are due.",
        "when=runs,staleness:30d,ttl:10d how=runs:4 much=runs",
    ),
    row(
        "cassandra-lcs",
        "CDS Table 1, Cassandra's leveled strategy",
        "Leveling with least overlap that rewrites what is dense with tombstones or due.",
        "when=saturation,ttl:10d how=runs:1 much=files:64MiB which=expired,least-overlap-parent,tombstone-density; \
         L0: when=runs,saturation,ttl:10d how=runs:4 much=runs",
    ),
    row(
        "wiredtiger",
        "CDS Table 1, WiredTiger",
        "Leveling that merges a whole level at once.",
        "when=saturation how=runs:1 much=level",
    ),
    row(
        "x-engine",
        "CDS Table 1, X-Engine and Leaper",
        "Tiering in the first level; below, the file with the least overlap, then the one with the most tombstones.",
        "when=saturation how=runs:1 much=files:64MiB which=least-overlap-parent,tombstone-density; \
         L0: when=saturation how=runs:4 much=runs",
    ),
    row("hbase", "CDS Table 1, HBase", "Tiering by the number of runs.", "when=runs how=runs:4 much=runs"),
    row(
        "asterixdb",
        "CDS Table 1, AsterixDB leveled",
        "Leveling that merges a whole level at once.",
        "when=saturation how=runs:1 much=level",
    ),
    row(
        "asterixdb-tiering",
        "CDS Table 1, AsterixDB tiered",
        "Tiering by the number of runs.",
        "when=runs how=runs:4 much=runs",
    ),
    row(
        "tarantool",
        "CDS Table 1, Tarantool",
        "Lazy leveling: tiering above, one run in the last level.",
        "when=runs how=runs:4 much=runs; last: when=saturation how=runs:1 much=level",
    ),
    row(
        "scylladb-stcs",
        "CDS Table 1, ScyllaDB's size-tiered strategy",
        "Tiering that also rewrites what is stale, or whose deletes are due.",
        "when=runs,staleness:30d,ttl:10d how=runs:4 much=runs",
    ),
    row(
        "scylladb-lcs",
        "CDS Table 1, ScyllaDB's leveled strategy",
        "Leveling with least overlap that rewrites what is dense with tombstones or due.",
        "when=saturation,ttl:10d how=runs:1 much=files:64MiB which=expired,least-overlap-parent,tombstone-density; \
         L0: when=runs,saturation,ttl:10d how=runs:4 much=runs",
    ),
    row(
        "blsm",
        "CDS Table 1, bLSM and cLSM",
        "Leveling in key order.",
        "when=saturation how=runs:1 much=file which=round-robin",
    ),
    row(
        "accumulo",
        "CDS Table 1, Accumulo",
        "Tiering by bytes and runs that has deletes gone in time.",
        "when=saturation,runs,ttl:10d how=runs:4 much=runs",
    ),
    row(
        "lsbm",
        "CDS Table 1, LSbM-tree",
        "Leveling that merges a whole level at once.",
        "when=saturation how=runs:1 much=level",
    ),
    row(
        "sifrdb",
        "CDS Table 1, SifrDB; no movement is named, so the oldest go",
        "Tiering by bytes, some files at a time.",
        "when=saturation how=runs:4 much=files:64MiB which=oldest",
    ),
    row(
        "ucs",
        "Cassandra's unified strategy with its default, T4; others are written ucs:T8,N,L10",
        "One number for each level: Tn tiers n runs, N two, Ln levels with a fanout of n.",
        "when=runs,saturation how=runs:4 much=runs",
    ),
    row(
        "pebble",
        "Pebble: leveling with density of tombstones and reads as triggers",
        "1-leveling that also moves what is dense with tombstones, or read so often that merging it pays.",
        "when=saturation,density:0.1,read-heat:16KiB how=runs:1 much=file which=least-overlap-parent; \
         L0: when=runs,saturation how=runs:4 much=runs",
    ),
    row(
        "triad",
        "TRIAD (ATC 2017) with the first level of SILK's artifact",
        "1-leveling that lets the first level grow while its runs have little in common.",
        "when=saturation how=runs:1 much=file which=least-overlap-parent; L0: when=duplicates:0.4:5 how=runs:5 much=runs",
    ),
    row(
        "spooky",
        "Spooky (VLDB 2022): tables end where those of the last level do",
        "Leveling whose tables fit those of the last level, so that little is dragged along down there.",
        "when=saturation how=runs:1 much=file which=least-overlap-parent; size: cut=last",
    ),
    row(
        "ltg",
        "LTG-LSM: levels in groups of keys, leveled where they are read and tiered where not, foretold from reads",
        "1-leveling where keys are read, tiering where they are not; in the last level within a bound on superseded data.",
        "when=runs,saturation how=by-heat:1:10:coldest=0.7 much=file which=least-overlap-parent bits=+3; \
         L0: how=runs:4 much=runs; last: when=space-amp:0.5,runs,saturation bits=-1.5",
    ),
    row(
        "unaligned",
        "RocksDB before aligned outputs and dynamic level sizes",
        "1-leveling as it was: sizes from the first level downward, tables cut by size alone.",
        "when=saturation how=runs:1 much=file which=least-overlap-parent; \
         L0: when=runs,saturation how=runs:4 much=runs; size: sizes=fixed cut=size",
    ),
];

/// Other names for rows.
pub const ALIASES: &[(&str, &str)] = &[
    ("leveling", "lo+1"),
    ("tiering", "tier"),
    ("lazy-leveling", "l-leveling"),
    ("monkey", "rocksdb"),
    ("clsm", "blsm"),
    ("leaper", "x-engine"),
];
