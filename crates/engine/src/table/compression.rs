//! Compression of block payloads: none, lz4, or zstd where the feature `zstd` is built in; each only where it saves at
//! least an eighth.
//!
//! A compressed payload is its size before (u32), then the lz4 block or zstd frame. The declared size is checked against
//! a cap and against what the method can reach at most, before anything is allocated.

use std::fmt;
use std::str::FromStr;

use lz4_flex::block::{CompressTable, compress_into_with_table, decompress_into, get_maximum_output_size};

use crate::base::error::{Error, Result};

/// How block payloads are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// As they are.
    #[default]
    None,
    /// lz4 blocks.
    Lz4,
    /// zstd frames, made with this level (1 to 19). Only in builds with the feature `zstd`.
    Zstd {
        /// 1 is the fastest, 19 the smallest.
        level: u8,
    },
}

/// Larger payloads are stored as they are.
pub const COMPRESSED_PAYLOAD_MAX: usize = 16 << 20;

/// zstd's level where none is named.
const ZSTD_LEVEL: u8 = 3;
/// Levels above need hundreds of MiB.
const ZSTD_LEVEL_MAX: u8 = 19;

/// lz4 codes a run at 255 bytes a byte; nothing packs tighter.
const LZ4_RATIO_MAX: usize = 255;
/// A zstd block has a header of 3 bytes and yields at most 128 KiB.
const ZSTD_RATIO_MAX: usize = (128 << 10) / 3;

/// No tree is deeper.
const LEVELS_MAX: usize = 64;

const NO_ZSTD: &str = "this build has no zstd; build with the feature `zstd` (cargo build --features zstd)";

impl Compression {
    /// The number in a block's trailer; part of the file format.
    pub fn kind(self) -> u8 {
        match self {
            Compression::None => 0,
            Compression::Lz4 => 1,
            Compression::Zstd { .. } => 2,
        }
    }
}

impl FromStr for Compression {
    type Err = Error;

    fn from_str(text: &str) -> Result<Compression> {
        let level = match text.split_once(':') {
            _ if text == "none" => return Ok(Compression::None),
            _ if text == "lz4" => return Ok(Compression::Lz4),
            _ if text == "zstd" => Some(ZSTD_LEVEL),
            Some(("zstd", level)) => level.parse().ok().filter(|n| (1..=ZSTD_LEVEL_MAX).contains(n)),
            _ => {
                let what = format!("unknown compression `{text}`; use `none`, `lz4` or `zstd:LEVEL`");
                return Err(Error::invalid(what));
            }
        };
        match level {
            None => Err(Error::invalid(format!("`{text}`: zstd's levels are 1 to {ZSTD_LEVEL_MAX}"))),
            Some(_) if !cfg!(feature = "zstd") => {
                Err(Error::Unsupported(format!("compression `{text}`: {NO_ZSTD}, or use `lz4`")))
            }
            Some(level) => Ok(Compression::Zstd { level }),
        }
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Compression::None => f.write_str("none"),
            Compression::Lz4 => f.write_str("lz4"),
            Compression::Zstd { level } => write!(f, "zstd:{level}"),
        }
    }
}

/// How the blocks of tables are compressed, by the level that a table is written for. Holds for tables written from then on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CompressionRule {
    /// lz4; but nothing in L0 while flushes are in a hurry, for writers wait for them.
    #[default]
    Auto,
    /// Nowhere.
    None,
    /// lz4 everywhere.
    Lz4,
    /// One for each level from L0 on; the last one holds for all levels below too.
    Levels(Vec<Compression>),
}

impl CompressionRule {
    /// How tables for `level` are compressed, while flushes are in a hurry or not.
    pub fn at(&self, level: usize, in_a_hurry: bool) -> Compression {
        match self {
            CompressionRule::Auto if level == 0 && in_a_hurry => Compression::None,
            CompressionRule::Auto | CompressionRule::Lz4 => Compression::Lz4,
            CompressionRule::None => Compression::None,
            CompressionRule::Levels(levels) => {
                levels.get(level).or(levels.last()).copied().unwrap_or_default()
            }
        }
    }
}

impl FromStr for CompressionRule {
    type Err = Error;

    fn from_str(text: &str) -> Result<CompressionRule> {
        match text {
            "auto" => return Ok(CompressionRule::Auto),
            "none" => return Ok(CompressionRule::None),
            "lz4" => return Ok(CompressionRule::Lz4),
            _ => {}
        }
        let levels: Vec<Compression> =
            text.split(',').map(|method| method.trim().parse()).collect::<Result<_>>().map_err(|error| {
                match error {
                    Error::InvalidArgument(what) => Error::invalid(format!(
                        "compression: {what}; one word for all levels, a list like `none,none,lz4`, or `auto`"
                    )),
                    other => other,
                }
            })?;
        if levels.len() > LEVELS_MAX {
            return Err(Error::invalid(format!("compression: at most {LEVELS_MAX} levels")));
        }
        Ok(CompressionRule::Levels(levels))
    }
}

impl fmt::Display for CompressionRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CompressionRule::Auto => f.write_str("auto"),
            CompressionRule::None => f.write_str("none"),
            CompressionRule::Lz4 => f.write_str("lz4"),
            CompressionRule::Levels(levels) => {
                let words: Vec<String> = levels.iter().map(ToString::to_string).collect();
                f.write_str(&words.join(","))
            }
        }
    }
}

/// Compresses with buffers that it keeps.
#[derive(Default)]
pub struct Compressor {
    table: Option<CompressTable>,
    #[cfg(feature = "zstd")]
    zstd: Option<(u8, zstd::bulk::Compressor<'static>)>,
    packed: Vec<u8>,
}

impl Compressor {
    /// The compressed payload, in a buffer ready to become a block; `None` if it would not save an eighth.
    pub fn pack(&mut self, payload: &[u8], compression: Compression) -> Option<&mut Vec<u8>> {
        let size = u32::try_from(payload.len()).ok().filter(|n| *n as usize <= COMPRESSED_PAYLOAD_MAX)?;
        self.packed.clear();
        let n = match compression {
            Compression::None => return None,
            Compression::Lz4 => {
                self.packed.resize(4 + get_maximum_output_size(payload.len()), 0);
                let table = self.table.get_or_insert_with(CompressTable::default);
                compress_into_with_table(payload, self.packed.get_mut(4..)?, table).ok()?
            }
            Compression::Zstd { level } => self.zstd(payload, level)?,
        };
        self.packed.get_mut(..4)?.copy_from_slice(&size.to_le_bytes());
        self.packed.truncate(4 + n);
        (self.packed.len() <= payload.len() - payload.len() / 8).then_some(&mut self.packed)
    }

    #[cfg(feature = "zstd")]
    fn zstd(&mut self, payload: &[u8], level: u8) -> Option<usize> {
        // Room for what is worth keeping only: a frame that needs more is not stored.
        self.packed.resize(4 + payload.len(), 0);
        let packer = match &mut self.zstd {
            Some((of, packer)) if *of == level => packer,
            place => &mut place.insert((level, zstd::bulk::Compressor::new(i32::from(level)).ok()?)).1,
        };
        packer.compress_to_buffer(payload, self.packed.get_mut(4..)?).ok()
    }

    /// Blocks are then stored as they are; options that ask for zstd are refused before it comes to this.
    #[cfg(not(feature = "zstd"))]
    fn zstd(&mut self, _payload: &[u8], _level: u8) -> Option<usize> {
        None
    }
}

/// Why a payload cannot be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnpackError {
    /// It makes no sense.
    Damaged(&'static str),
    /// It makes sense to another build.
    Unsupported(&'static str),
}

/// The name of a kind of compression by its number in the file; a number that this version does not know stands for itself.
pub fn name_of(kind: u8) -> String {
    match kind {
        0 => "none".to_owned(),
        1 => "lz4".to_owned(),
        2 => "zstd".to_owned(),
        _ => format!("unknown-{kind}"),
    }
}

/// The payload as it was before `kind` of compression was applied; `scratch` takes it if it has to be made.
pub fn unpack<'a>(stored: &'a [u8], kind: u8, scratch: &'a mut Vec<u8>) -> Result<&'a [u8], UnpackError> {
    let damaged = UnpackError::Damaged;
    let ratio_max = match kind {
        0 => return Ok(stored),
        1 => LZ4_RATIO_MAX,
        2 if cfg!(feature = "zstd") => ZSTD_RATIO_MAX,
        2 => return Err(UnpackError::Unsupported(NO_ZSTD)),
        _ => return Err(damaged("the block's kind of compression is unknown")),
    };
    let Some((size, packed)) = stored.split_first_chunk::<4>() else {
        return Err(damaged("the packed block is too short"));
    };
    let size = u32::from_le_bytes(*size) as usize;
    if size > COMPRESSED_PAYLOAD_MAX || size > packed.len().saturating_mul(ratio_max) {
        return Err(damaged("the packed block declares an impossible size"));
    }
    if kind == 2 && !zstd_frame_has(packed, size) {
        return Err(damaged("the packed block declares another size than its frame"));
    }
    scratch.clear();
    scratch.resize(size, 0);
    let unpacked = if kind == 1 { decompress_into(packed, scratch).ok() } else { zstd_into(packed, scratch) };
    match unpacked {
        Some(n) if n == size => Ok(scratch),
        _ => Err(damaged("the packed block cannot be unpacked")),
    }
}

/// True if the frame's own header states this size, as every frame that we write does.
#[cfg(feature = "zstd")]
fn zstd_frame_has(packed: &[u8], size: usize) -> bool {
    zstd::zstd_safe::get_frame_content_size(packed).is_ok_and(|stated| stated == Some(size as u64))
}

#[cfg(not(feature = "zstd"))]
fn zstd_frame_has(_packed: &[u8], _size: usize) -> bool {
    false
}

/// Unpacks a frame into a buffer that bounds it; the bytes it has. A thread keeps its context for the next block.
#[cfg(feature = "zstd")]
fn zstd_into(packed: &[u8], out: &mut [u8]) -> Option<usize> {
    thread_local! {
        static UNPACKER: std::cell::RefCell<Option<zstd::bulk::Decompressor<'static>>> =
            const { std::cell::RefCell::new(None) };
    }
    UNPACKER.with_borrow_mut(|place| {
        let unpacker = match place {
            Some(unpacker) => unpacker,
            None => place.insert(zstd::bulk::Decompressor::new().ok()?),
        };
        unpacker.decompress_to_buffer(packed, out).ok()
    })
}

#[cfg(not(feature = "zstd"))]
fn zstd_into(_packed: &[u8], _out: &mut [u8]) -> Option<usize> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::test_files::Random;

    /// The methods that this build has.
    fn methods() -> Vec<Compression> {
        let zstd = [1, 3, 19].map(|level| Compression::Zstd { level });
        let built_in = if cfg!(feature = "zstd") { &zstd[..] } else { &[] };
        [&[Compression::Lz4], built_in].concat()
    }

    #[test]
    fn packs_what_packs_well_and_nothing_else() {
        let mut packer = Compressor::default();
        let even: Vec<u8> = (0..4000u32).map(|i| (i / 100) as u8).collect();
        let noise = Random(1).bytes(4000);
        for method in methods() {
            let packed = packer.pack(&even, method).unwrap().clone();
            assert!(packed.len() < 500, "{method}: {}", packed.len());
            let mut scratch = Vec::new();
            assert_eq!(unpack(&packed, method.kind(), &mut scratch), Ok(&even[..]), "{method}");
            assert!(packer.pack(&noise, method).is_none());
            assert!(packer.pack(b"", method).is_none());
            let zeros = vec![0; COMPRESSED_PAYLOAD_MAX];
            let packed = packer.pack(&zeros, method).unwrap().clone();
            assert_eq!(unpack(&packed, method.kind(), &mut scratch), Ok(&zeros[..]), "{method}: tightest");
        }
        assert!(packer.pack(&even, Compression::None).is_none());
    }

    #[test]
    fn hostile_sizes_are_refused_before_they_are_allocated() {
        let mut scratch = Vec::new();
        for kind in 1..=methods().iter().map(|m| m.kind()).max().unwrap() {
            for declared in [u32::MAX, COMPRESSED_PAYLOAD_MAX as u32 + 1, 500_000] {
                let mut stored = declared.to_le_bytes().to_vec();
                stored.extend_from_slice(&[0x10; 9]);
                assert!(unpack(&stored, kind, &mut scratch).is_err());
                assert_eq!(scratch.capacity(), 0);
            }
            assert!(unpack(b"abc", kind, &mut scratch).is_err());
        }
        assert!(matches!(unpack(b"abc", 3, &mut scratch), Err(UnpackError::Damaged(_))));
    }

    /// The checksum keeps damage away from here; should it ever get through, it is an error or other bytes, no worse.
    #[test]
    fn damaged_frames_are_refused_or_bounded() {
        let mut packer = Compressor::default();
        let even: Vec<u8> = (0..3000u32).map(|i| (i / 7) as u8).collect();
        for method in methods() {
            let packed = packer.pack(&even, method).unwrap().clone();
            let mut scratch = Vec::new();
            for i in 0..packed.len() {
                for flip in [1, 0x80, 0xff] {
                    let mut bad = packed.clone();
                    bad[i] ^= flip;
                    if let Ok(payload) = unpack(&bad, method.kind(), &mut scratch) {
                        assert!(payload.len() <= COMPRESSED_PAYLOAD_MAX);
                    }
                }
                assert!(unpack(&packed[..i], method.kind(), &mut scratch).is_err(), "{method} cut to {i}");
            }
        }
    }

    #[test]
    fn methods_print_what_they_read_and_mistakes_are_explained() {
        for method in methods().into_iter().chain([Compression::None]) {
            assert_eq!(method.to_string().parse::<Compression>().unwrap(), method);
        }
        for wrong in ["", "lz5", "zstd:", "zstd:0", "zstd:20", "zstd:x", "lz4:1", "ZSTD"] {
            let error = wrong.parse::<Compression>().unwrap_err();
            assert_eq!(error.kind(), "InvalidArgument", "{wrong}: {error}");
        }
        let parsed = "zstd".parse::<Compression>();
        assert_eq!(parsed.is_ok(), cfg!(feature = "zstd"));
        match parsed {
            Ok(method) => assert_eq!(method, Compression::Zstd { level: 3 }),
            Err(error) => {
                assert_eq!(error.kind(), "Unsupported");
                assert!(error.to_string().contains("--features zstd"), "{error}");
            }
        }
    }

    #[cfg(not(feature = "zstd"))]
    #[test]
    fn a_build_without_zstd_says_so_of_a_zstd_block() {
        // A frame of zstd, with its size before it.
        let stored = [3, 0, 0, 0, 0x28, 0xb5, 0x2f, 0xfd, 0x20, 3, 0x19, 0, 0, b'a', b'b', b'c'];
        assert_eq!(unpack(&stored, 2, &mut Vec::new()), Err(UnpackError::Unsupported(NO_ZSTD)));
    }
}
