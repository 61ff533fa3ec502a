//! Compression of block payloads: none, or lz4 where it saves at least an eighth.
//!
//! A compressed payload is its size before (u32), then the lz4 block. The declared size is checked against a cap
//! and against what lz4 can reach at most, before anything is allocated.

use lz4_flex::block::{CompressTable, compress_into_with_table, decompress_into, get_maximum_output_size};

/// How block payloads are stored. The numbers are part of the file format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Compression {
    /// As they are.
    #[default]
    None = 0,
    /// lz4 blocks.
    Lz4 = 1,
}

/// Larger payloads are stored as they are.
pub const COMPRESSED_PAYLOAD_MAX: usize = 16 << 20;

/// lz4 codes a run at 255 bytes a byte; nothing packs tighter.
const LZ4_RATIO_MAX: usize = 255;

/// Compresses with buffers that it keeps.
#[derive(Default)]
pub struct Compressor {
    table: Option<CompressTable>,
    packed: Vec<u8>,
}

impl Compressor {
    /// The compressed payload, in a buffer ready to become a block; `None` if it would not save an eighth.
    pub fn pack(&mut self, payload: &[u8]) -> Option<&mut Vec<u8>> {
        let size = u32::try_from(payload.len()).ok().filter(|n| *n as usize <= COMPRESSED_PAYLOAD_MAX)?;
        self.packed.clear();
        self.packed.resize(4 + get_maximum_output_size(payload.len()), 0);
        self.packed.get_mut(..4)?.copy_from_slice(&size.to_le_bytes());
        let table = self.table.get_or_insert_with(CompressTable::default);
        let n = compress_into_with_table(payload, self.packed.get_mut(4..)?, table).ok()?;
        self.packed.truncate(4 + n);
        (self.packed.len() <= payload.len() - payload.len() / 8).then_some(&mut self.packed)
    }
}

/// The payload as it was before `kind` of compression was applied; `scratch` takes it if it has to be made.
pub fn unpack<'a>(stored: &'a [u8], kind: u8, scratch: &'a mut Vec<u8>) -> Result<&'a [u8], &'static str> {
    if kind == Compression::None as u8 {
        return Ok(stored);
    }
    if kind != Compression::Lz4 as u8 {
        return Err("the block's kind of compression is unknown");
    }
    let Some((size, packed)) = stored.split_first_chunk::<4>() else {
        return Err("the packed block is too short");
    };
    let size = u32::from_le_bytes(*size) as usize;
    if size > COMPRESSED_PAYLOAD_MAX || size > packed.len().saturating_mul(LZ4_RATIO_MAX) {
        return Err("the packed block declares an impossible size");
    }
    scratch.clear();
    scratch.resize(size, 0);
    match decompress_into(packed, scratch) {
        Ok(n) if n == size => Ok(scratch),
        _ => Err("the packed block cannot be unpacked"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::test_files::Random;

    #[test]
    fn packs_what_packs_well_and_nothing_else() {
        let mut packer = Compressor::default();
        let even: Vec<u8> = (0..4000u32).map(|i| (i / 100) as u8).collect();
        let packed = packer.pack(&even).unwrap().clone();
        assert!(packed.len() < 500);
        let mut scratch = Vec::new();
        assert_eq!(unpack(&packed, 1, &mut scratch), Ok(&even[..]));
        let noise = Random(1).bytes(4000);
        assert!(packer.pack(&noise).is_none());
        assert!(packer.pack(b"").is_none());
    }

    #[test]
    fn hostile_sizes_are_refused_before_they_are_allocated() {
        let mut scratch = Vec::new();
        for declared in [u32::MAX, COMPRESSED_PAYLOAD_MAX as u32 + 1, 5000] {
            let mut stored = declared.to_le_bytes().to_vec();
            stored.extend_from_slice(&[0x10; 9]);
            assert!(unpack(&stored, 1, &mut scratch).is_err());
            assert_eq!(scratch.capacity(), 0);
        }
        assert!(unpack(b"abc", 1, &mut scratch).is_err());
        assert!(unpack(b"abc", 2, &mut scratch).is_err());
    }
}
