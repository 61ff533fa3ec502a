//! The bytes of a table file that are not inside a block: block trailers, handles and the footer.
//!
//! ```text
//! data… filter index  data… filter index  …  [ranges] top properties footer
//! └──── partition ──┘ └─── partition ───┘
//! block  = payload | compression kind: u8 | xxh3-64 over payload and kind: u64
//! footer = magic | version: u32 | bytes of ranges: u32 | table id | unique id | top handle | properties handle | xxh3-64
//! ```
//! A block's checksum is seeded by the file's unique id and the block's offset: a block that was meant for another
//! place or another file fails like a damaged one. Between blocks there may be zeros, which align the next block.

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::base::coding::Decoder;
use crate::base::units::TableId;

/// The first bytes of a footer.
pub const MAGIC: [u8; 8] = *b"EVENKEEL";
/// The newest format that this version reads and the one it writes.
pub const FORMAT_VERSION: u32 = 1;
/// The footer's size, at the very end of the file.
pub const FOOTER_BYTES: usize = 64;
/// What follows a block's payload: the kind of compression and the checksum.
pub const BLOCK_TRAILER_BYTES: usize = 9;
/// Blocks start at multiples of this where that costs little: reads of whole pages are 18 % cheaper.
pub const PAGE_BYTES: u64 = 4096;

/// Where a block is; `bytes` includes its trailer. No bytes: no block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockHandle {
    /// From the start of the file.
    pub offset: u64,
    /// With the trailer.
    pub bytes: u32,
}

impl BlockHandle {
    /// The first byte after the block.
    pub fn end(self) -> u64 {
        self.offset.saturating_add(u64::from(self.bytes))
    }

    /// Appends it.
    pub fn encode(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.offset.to_le_bytes());
        out.extend_from_slice(&self.bytes.to_le_bytes());
    }

    /// Reads what `encode` wrote.
    pub fn decode(from: &mut Decoder<'_>) -> Option<BlockHandle> {
        Some(BlockHandle { offset: from.u64()?, bytes: from.u32()? })
    }
}

/// The checksum of a block's payload and kind of compression.
#[inline]
pub fn block_checksum(payload_and_kind: &[u8], unique_id: u64, offset: u64) -> u64 {
    xxh3_64_with_seed(payload_and_kind, unique_id ^ offset)
}

/// Appends to a payload what makes it a block.
pub fn seal_block(payload: &mut Vec<u8>, kind: u8, unique_id: u64, offset: u64) {
    payload.push(kind);
    let checksum = block_checksum(payload, unique_id, offset);
    payload.extend_from_slice(&checksum.to_le_bytes());
}

/// Checks a block as it came from the disk: its payload and kind of compression, or what is wrong.
#[inline]
pub fn open_block(block: &[u8], unique_id: u64, offset: u64) -> Result<(&[u8], u8), &'static str> {
    let Some((body, checksum)) = block.split_last_chunk::<8>() else { return Err("the block is too short") };
    if block_checksum(body, unique_id, offset) != u64::from_le_bytes(*checksum) {
        return Err("the block's checksum does not match");
    }
    match body.split_last() {
        Some((kind, payload)) => Ok((payload, *kind)),
        None => Err("the block is too short"),
    }
}

/// The last bytes of a table file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Footer {
    /// The table's number.
    pub id: TableId,
    /// The table's random id.
    pub unique_id: u64,
    /// The index over the partitions; no bytes if the table has no entries.
    pub top: BlockHandle,
    /// The size of the block of range tombstones, which ends where `top` begins; 0 without any.
    pub ranges_bytes: u32,
    /// The table's facts.
    pub properties: BlockHandle,
}

/// Why a footer was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FooterError {
    /// Its bytes make no sense.
    Damaged(&'static str),
    /// It is whole, but of a newer format.
    NewerVersion(u32),
}

impl Footer {
    /// Where the range tombstones are; no bytes if there are none.
    pub fn ranges(&self) -> BlockHandle {
        let bytes = self.ranges_bytes;
        BlockHandle { offset: self.top.offset.saturating_sub(u64::from(bytes)), bytes }
    }

    /// The footer's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(FOOTER_BYTES);
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
        out.extend_from_slice(&self.ranges_bytes.to_le_bytes());
        out.extend_from_slice(&self.id.0.to_le_bytes());
        out.extend_from_slice(&self.unique_id.to_le_bytes());
        self.top.encode(&mut out);
        self.properties.encode(&mut out);
        let checksum = xxh3_64(&out);
        out.extend_from_slice(&checksum.to_le_bytes());
        out
    }

    /// Reads what `encode` wrote.
    pub fn decode(bytes: &[u8]) -> Result<Footer, FooterError> {
        let damaged = FooterError::Damaged;
        if bytes.len() != FOOTER_BYTES {
            return Err(damaged("the footer is too short"));
        }
        let Some((body, checksum)) = bytes.split_last_chunk::<8>() else {
            return Err(damaged("the footer is too short"));
        };
        let mut from = Decoder::new(body);
        if from.take(MAGIC.len()) != Some(&MAGIC[..]) {
            return Err(damaged("this is no table file"));
        }
        if xxh3_64(body) != u64::from_le_bytes(*checksum) {
            return Err(damaged("the footer's checksum does not match"));
        }
        let version = from.u32().unwrap_or_default();
        if version > FORMAT_VERSION {
            return Err(FooterError::NewerVersion(version));
        }
        let mut rest = || {
            let ranges_bytes = from.u32()?;
            Some(Footer {
                ranges_bytes,
                id: TableId(from.u64()?),
                unique_id: from.u64()?,
                top: BlockHandle::decode(&mut from)?,
                properties: BlockHandle::decode(&mut from)?,
            })
        };
        match rest() {
            Some(footer)
                if version == FORMAT_VERSION && u64::from(footer.ranges_bytes) <= footer.top.offset =>
            {
                Ok(footer)
            }
            _ => Err(damaged("the footer makes no sense")),
        }
    }
}

/// The checksum of a footer as it is kept in the manifest.
pub fn footer_checksum(footer: &[u8]) -> u64 {
    xxh3_64(footer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn footer_survives_a_round_trip_and_no_flip() {
        let footer = Footer {
            id: TableId(7),
            unique_id: 0x1234_5678_9abc_def0,
            top: BlockHandle { offset: 100, bytes: 50 },
            ranges_bytes: 30,
            properties: BlockHandle { offset: 150, bytes: 20 },
        };
        let bytes = footer.encode();
        assert_eq!(bytes.len(), FOOTER_BYTES);
        assert_eq!(Footer::decode(&bytes), Ok(footer));
        assert_eq!(footer.ranges(), BlockHandle { offset: 70, bytes: 30 });
        let before_the_file = Footer { ranges_bytes: 101, ..footer }.encode();
        assert!(matches!(Footer::decode(&before_the_file), Err(FooterError::Damaged(_))));
        for i in 0..bytes.len() {
            let mut bad = bytes.clone();
            bad[i] ^= 0x10;
            assert!(matches!(Footer::decode(&bad), Err(FooterError::Damaged(_))), "byte {i}");
            assert!(Footer::decode(&bytes[..i]).is_err());
        }
    }

    #[test]
    fn a_newer_version_is_told_from_damage() {
        let mut bytes = Footer {
            id: TableId(1),
            unique_id: 2,
            top: BlockHandle::default(),
            ranges_bytes: 0,
            properties: BlockHandle::default(),
        }
        .encode();
        bytes[8..12].copy_from_slice(&9u32.to_le_bytes());
        let checksum = xxh3_64(&bytes[..FOOTER_BYTES - 8]).to_le_bytes();
        bytes[FOOTER_BYTES - 8..].copy_from_slice(&checksum);
        assert_eq!(Footer::decode(&bytes), Err(FooterError::NewerVersion(9)));
    }

    #[test]
    fn a_block_holds_only_at_its_own_place() {
        let mut block = b"some payload".to_vec();
        seal_block(&mut block, 0, 77, 4096);
        assert_eq!(open_block(&block, 77, 4096), Ok((&b"some payload"[..], 0)));
        assert!(open_block(&block, 77, 8192).is_err());
        assert!(open_block(&block, 78, 4096).is_err());
        for n in 0..block.len() {
            assert!(open_block(&block[..n], 77, 4096).is_err());
        }
    }
}
