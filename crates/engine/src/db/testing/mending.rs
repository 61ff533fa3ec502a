//! Checksums made right again after somebody has changed the bytes: how tests write what only an attacker or a broken writer would.
//!
//! ```text
//! changed file ─► lengths followed as far as they lead ─► tags and checksums of records, blocks, footer, text made those of the bytes
//! ```
//! Then a decoder sees what it would else be spared by its checksum (`docs/durability.md`, *Untrusted files*).

use xxhash_rust::xxh3::xxh3_64;

use crate::base::coding::Decoder;
use crate::storage::file_name::FileName;
use crate::storage::record::{FRAME_LEN, RecordKind, frame};
use crate::table::block::{Content, Layout};
use crate::table::compression::unpack;
use crate::table::format::{BLOCK_TRAILER_BYTES, BlockHandle, FOOTER_BYTES, block_checksum};

/// What stands before the checksum of OPTIONS.
const TEXT_CHECKSUM: &str = "checksum=";

/// Makes the checksums of the file of this name right.
pub fn mend(name: &str, bytes: &mut [u8]) {
    match FileName::parse(name) {
        Some(FileName::Wal(id) | FileName::Manifest(id)) => mend_log(bytes, id),
        Some(FileName::Table(_)) => drop(mend_table(bytes)),
        Some(FileName::Options(_)) => drop(mend_text(bytes)),
        Some(FileName::Heat) => drop(mend_end(bytes)),
        _ => {}
    }
}

/// Makes the records of log `id` whole, as far as their lengths lead.
pub fn mend_log(bytes: &mut [u8], id: u64) {
    let mut at = 0;
    while let Some(len) = mend_record(bytes, at, id) {
        at += len;
    }
}

/// Makes one record whole: its length, or `None` where there is none.
fn mend_record(bytes: &mut [u8], at: usize, id: u64) -> Option<usize> {
    let (head, rest) = bytes.get_mut(at..)?.split_at_mut_checked(FRAME_LEN)?;
    if head.iter().all(|byte| *byte == 0) {
        return None;
    }
    let mut words = Decoder::new(head.get(8..)?);
    let (len, _tag, last) = (words.u32()?, words.u32()?, words.u64()?);
    let payload = rest.get(..usize::try_from(len).ok()?)?;
    let kind = match last >> 56 {
        1 => RecordKind::Header,
        2 => RecordKind::Data,
        3 => RecordKind::Seal,
        _ => return None,
    };
    let offset = at as u64;
    // A promise beyond the record is refused as a broken record would be.
    let promise = (last & ((1 << 56) - 1)).min(offset);
    head.copy_from_slice(&frame(kind, &[payload], len, id, offset, promise));
    Some(FRAME_LEN + payload.len())
}

/// Makes every block that can be found from the footer whole, and the footer.
pub fn mend_table(bytes: &mut [u8]) -> Option<()> {
    let end = bytes.len().checked_sub(FOOTER_BYTES)?;
    mend_end(bytes.get_mut(end..)?)?;
    let mut footer = Decoder::new(bytes.get(end + 12..)?);
    let (ranges, _id, unique) = (footer.u32()?, footer.u64()?, footer.u64()?);
    let (top, properties) = (BlockHandle::decode(&mut footer)?, BlockHandle::decode(&mut footer)?);
    let ranges = BlockHandle { offset: top.offset.checked_sub(u64::from(ranges))?, bytes: ranges };
    for handle in [properties, ranges, top] {
        seal(bytes, end, handle, unique);
    }
    for (offset, value) in entries(bytes, end, top) {
        let mut value = Decoder::new(&value);
        let Some((len, filter)) = value.u32().zip(BlockHandle::decode(&mut value)) else { continue };
        let index = BlockHandle { offset, bytes: len };
        seal(bytes, end, filter, unique);
        seal(bytes, end, index, unique);
        for (offset, value) in entries(bytes, end, index) {
            let Some(len) = Decoder::new(&value).u32() else { continue };
            seal(bytes, end, BlockHandle { offset, bytes: len }, unique);
        }
    }
    Some(())
}

/// The bytes of a block that lies below `end`, if it is one.
fn place(handle: BlockHandle, end: usize) -> Option<std::ops::Range<usize>> {
    let from = usize::try_from(handle.offset).ok()?;
    let to = from.checked_add(usize::try_from(handle.bytes).ok()?)?;
    (to <= end && to - from >= BLOCK_TRAILER_BYTES).then_some(from..to)
}

fn seal(bytes: &mut [u8], end: usize, handle: BlockHandle, unique: u64) -> Option<()> {
    let (body, checksum) = bytes.get_mut(place(handle, end)?)?.split_last_chunk_mut::<8>()?;
    *checksum = block_checksum(body, unique, handle.offset).to_le_bytes();
    Some(())
}

/// The trailers and values of an index block; none if it is none.
fn entries(bytes: &[u8], end: usize, handle: BlockHandle) -> Vec<(u64, Vec<u8>)> {
    let read = || {
        let (kind, payload) = bytes.get(place(handle, end)?)?.split_last_chunk::<8>()?.0.split_last()?;
        let mut scratch = Vec::new();
        let payload = unpack(payload, *kind, &mut scratch).ok()?;
        let layout = Layout::check(payload, Content::Index).ok()?;
        let entry = |i| {
            let entry = layout.entry(payload, i)?;
            Some((entry.trailer.0, payload.get(entry.value)?.to_vec()))
        };
        Some((0..layout.count()).filter_map(entry).collect())
    };
    read().unwrap_or_default()
}

/// Makes the checksum right that stands at the end of a text.
pub fn mend_text(bytes: &mut [u8]) -> Option<()> {
    let at = bytes.windows(TEXT_CHECKSUM.len()).rposition(|word| word == TEXT_CHECKSUM.as_bytes())?;
    let line = format!("{TEXT_CHECKSUM}{:016x}\n", xxh3_64(bytes.get(..at)?));
    bytes.get_mut(at..at + line.len())?.copy_from_slice(line.as_bytes());
    Some(())
}

/// Makes the checksum right that the last eight bytes are of those before them.
pub fn mend_end(bytes: &mut [u8]) -> Option<()> {
    let (body, checksum) = bytes.split_last_chunk_mut::<8>()?;
    *checksum = xxh3_64(body).to_le_bytes();
    Some(())
}
