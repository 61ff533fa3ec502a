//! Ids and quantities with types of their own, so that they cannot be mixed up.
//!
//! Ids are never reused within a store. Sequence numbers start at 1; 0 means "before everything".

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::hash::{BuildHasherDefault, Hasher};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0)
            }
        }
    };
}

id!(
    /// A table file's number, which is also its file name.
    TableId
);
id!(
    /// A sorted run.
    RunId
);
id!(
    /// A group of a level.
    GroupId
);
id!(
    /// A keyspace (column family).
    KeyspaceId
);
id!(
    /// An open compaction or flush job.
    JobId
);
id!(
    /// A write's place in the commit order.
    SeqNo
);

/// A map from ids. They are given out in turn, so a multiplication spreads them well enough, and no user chooses them.
pub type IdMap<K, V> = HashMap<K, V, BuildHasherDefault<IdHasher>>;

/// A set of ids.
pub type IdSet<K> = HashSet<K, BuildHasherDefault<IdHasher>>;

/// Hashes one id.
#[derive(Clone, Copy, Debug, Default)]
pub struct IdHasher(u64);

impl Hasher for IdHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    #[inline]
    fn write_u64(&mut self, id: u64) {
        self.0 = (self.0.rotate_left(5) ^ id).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    /// The table looks at the highest and the lowest bits.
    #[inline]
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }
}

impl SeqNo {
    /// Above every sequence number that is ever given out: 56 bits, because a kind shares the word.
    pub const MAX: SeqNo = SeqNo((1 << 56) - 1);

    /// The number after this one.
    #[must_use]
    pub fn next(self) -> SeqNo {
        SeqNo(self.0 + 1)
    }
}

/// The highest count, of sequences, file numbers or ids, that a file or its name is believed: no store gets so far, and from there
/// as many again can be given out before 56 bits are used up.
pub const COUNT_MAX: u64 = 1 << 55;

/// 1024 bytes.
pub const KIB: u64 = 1 << 10;
/// 1024 KiB.
pub const MIB: u64 = 1 << 20;
/// 1024 MiB.
pub const GIB: u64 = 1 << 30;

/// Reads `4096`, `4k`, `64MiB`, `1GB`; K, M, G and T are powers of 1024.
pub fn parse_size(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at_checked(digits)?;
    let scale = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kb" | "kib" => KIB,
        "m" | "mb" | "mib" => MIB,
        "g" | "gb" | "gib" => GIB,
        "t" | "tb" | "tib" => 1024 * GIB,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(scale)
}
