//! HEAT: what reads have taught, so that a restart does not forget. A hint: no answer depends on it, so it is not synced, and one
//! that is missing, damaged or of another version means to learn anew.
//!
//! ```text
//! "EVENKEEL HEAT 1\n", number of keyspaces, of each its id and the length of what follows: its predictor; xxh3-64 of all that
//! ```

use std::collections::BTreeMap;
use std::path::Path;

use xxhash_rust::xxh3::xxh3_64;

use crate::base::class::IoClass;
use crate::base::coding::{Decoder, put_bytes, put_varint};
use crate::base::error::Result;
use crate::base::units::KeyspaceId;
use crate::hotness::predictor::{Learning, Predictor};
use crate::hotness::predictor_codec;
use crate::storage::file_name::FileName;
use crate::storage::file_system::FileSystem;

const TITLE: &[u8] = b"EVENKEEL HEAT 1\n";
/// No file that we wrote is longer.
const LEN_MAX: u64 = 256 << 20;

/// What each keyspace's reads have taught.
pub type Predictors = BTreeMap<KeyspaceId, Predictor>;

/// Writes the file anew. `number` is a file number of its own.
pub fn write(fs: &dyn FileSystem, dir: &Path, number: u64, predictors: &Predictors) -> Result<()> {
    let temp = FileName::Temp(number).path(dir);
    let written = fs.create(&temp, IoClass::Manifest).and_then(|mut file| {
        file.append(&encode(predictors))?;
        drop(file);
        fs.rename(&temp, &FileName::Heat.path(dir))
    });
    if written.is_err() {
        // What cannot be removed is an orphan, which the next open removes.
        let _ = fs.remove(&temp);
    }
    written
}

/// What the file holds; nothing if there is none that can be read.
pub fn read(fs: &dyn FileSystem, dir: &Path, learning: Learning) -> Predictors {
    bytes(fs, dir).ok().flatten().and_then(|bytes| decode(&bytes, learning)).unwrap_or_default()
}

fn bytes(fs: &dyn FileSystem, dir: &Path) -> Result<Option<Vec<u8>>> {
    let path = FileName::Heat.path(dir);
    if !fs.exists(&path)? {
        return Ok(None);
    }
    let file = fs.open(&path)?;
    let mut bytes = vec![0; file.len().min(LEN_MAX) as usize];
    file.read_at(0, &mut bytes, IoClass::Manifest)?;
    Ok(Some(bytes))
}

/// The bytes of HEAT.
pub(in crate::db) fn encode(predictors: &Predictors) -> Vec<u8> {
    let mut out = TITLE.to_vec();
    put_varint(&mut out, predictors.len() as u64);
    for (keyspace, predictor) in predictors {
        let mut learnt = Vec::new();
        predictor_codec::encode(predictor, &mut learnt);
        put_varint(&mut out, keyspace.0);
        put_bytes(&mut out, &learnt);
    }
    let checksum = xxh3_64(&out);
    out.extend_from_slice(&checksum.to_le_bytes());
    out
}

/// Reads what `encode` wrote; nothing if it makes no sense.
pub(in crate::db) fn decode(bytes: &[u8], learning: Learning) -> Option<Predictors> {
    let (body, checksum) = bytes.split_last_chunk::<8>()?;
    if xxh3_64(body) != u64::from_le_bytes(*checksum) {
        return None;
    }
    let mut from = Decoder::new(body.strip_prefix(TITLE)?);
    let mut predictors = Predictors::new();
    for _ in 0..from.varint()? {
        let keyspace = KeyspaceId(from.varint()?);
        let mut learnt = Decoder::new(from.bytes()?);
        predictors.insert(keyspace, predictor_codec::decode(learning, &mut learnt)?);
    }
    from.is_empty().then_some(predictors)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hotness::key_histogram::KeySpread;
    use crate::hotness::predictor::HeatSample;
    use crate::storage::simulated::SimulatedFileSystem;

    fn predictors() -> Predictors {
        let mut predictor = Predictor::new(Learning::default());
        let table = KeySpread { smallest: b"a", largest: b"z", quantiles: &[b"m"[..].into()], entries: 100 };
        predictor.train(20_000, &[vec![HeatSample { table, heat: Some(0.5) }; 3]]);
        [(KeyspaceId(0), predictor.clone()), (KeyspaceId(7), predictor)].into()
    }

    #[test]
    fn what_is_written_reads_back_and_damage_means_to_learn_anew() {
        let (fs, dir) = (SimulatedFileSystem::new(), Path::new("/s"));
        fs.create_dir(dir).unwrap();
        assert_eq!(read(&fs, dir, Learning::default()), Predictors::new(), "there is none");
        write(&fs, dir, 5, &predictors()).unwrap();
        assert_eq!(read(&fs, dir, Learning::default()), predictors());
        assert_eq!(fs.list(dir).unwrap(), ["HEAT"]);
        let path = FileName::Heat.path(dir);
        let whole = fs.contents(&path).unwrap();
        for i in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[i] ^= 1;
            fs.set_contents(&path, &damaged).unwrap();
            assert_eq!(read(&fs, dir, Learning::default()), Predictors::new(), "byte {i}");
            fs.set_contents(&path, &whole[..i]).unwrap();
            assert_eq!(read(&fs, dir, Learning::default()), Predictors::new(), "cut to {i}");
        }
    }
}
