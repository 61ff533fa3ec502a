//! A predictor as bytes, so that a restart does not forget: what it has learnt, not how it learns.
//!
//! ```text
//! gets, unit, number of bounds, bounds; levels: moments (samples, sums, products, targets, target sums)
//! ```
//! Whoever writes them adds a checksum. What does not read back, or is of other settings, is nothing learnt: a cold start.

use super::key_histogram::Intervals;
use super::linear_model::Moments;
use super::predictor::{Learning, Learnt, Predictor};
use crate::base::coding::{Decoder, put_bytes, put_varint};

/// No tree has more levels.
const LEVELS_MAX: u64 = 64;

/// Appends what it has learnt.
pub fn encode(predictor: &Predictor, out: &mut Vec<u8>) {
    let learnt = predictor.learnt();
    put_varint(out, learnt.gets);
    put_number(out, learnt.unit);
    put_varint(out, learnt.intervals.bounds().len() as u64);
    for bound in learnt.intervals.bounds() {
        put_bytes(out, bound);
    }
    put_varint(out, learnt.levels.len() as u64);
    learnt.levels.iter().flat_map(Moments::numbers).for_each(|number| put_number(out, number));
}

/// Reads what `encode` wrote; `None` if it makes no sense with such settings.
pub fn decode(learning: Learning, from: &mut Decoder<'_>) -> Option<Predictor> {
    let gets = from.varint()?;
    let unit = number(from)?;
    let count = from.varint()?;
    if count >= (learning.intervals as u64).max(1) || unit < 1.0 {
        return None;
    }
    let mut bounds: Vec<Box<[u8]>> = Vec::new();
    for _ in 0..count {
        bounds.push(from.bytes()?.into());
    }
    let intervals = Intervals::between(bounds)?;
    let count = from.varint()?;
    if count > LEVELS_MAX {
        return None;
    }
    let mut levels = Vec::new();
    for _ in 0..count {
        levels.push(Moments::from_numbers(intervals.count(), &mut || number(from))?);
    }
    Some(Predictor::with(learning, Learnt { gets, unit, intervals, levels }))
}

fn put_number(out: &mut Vec<u8>, number: f64) {
    out.extend_from_slice(&number.to_bits().to_le_bytes());
}

/// A number that is one.
fn number(from: &mut Decoder<'_>) -> Option<f64> {
    from.u64().map(f64::from_bits).filter(|number| number.is_finite())
}

#[cfg(test)]
mod tests {
    use super::super::key_histogram::KeySpread;
    use super::super::predictor::HeatSample;
    use super::*;

    fn trained() -> Predictor {
        let mut predictor = Predictor::new(Learning::default());
        let key = |n: u64| -> Box<[u8]> { format!("k{n:06}").into_bytes().into() };
        let ends: Vec<[Box<[u8]>; 2]> = (0..30).map(|i| [key(i * 1000), key(i * 1000 + 999)]).collect();
        let mut samples = Vec::new();
        for (i, [smallest, largest]) in ends.iter().enumerate() {
            let table = KeySpread { smallest, largest, quantiles: &[], entries: 1000 };
            samples.push(HeatSample { table, heat: Some(i as f64 / 30.0) });
        }
        for _ in 0..3 {
            predictor.train(20_000, &[samples.clone(), samples[..7].to_vec(), Vec::new()]);
        }
        predictor
    }

    fn bytes_of(predictor: &Predictor) -> Vec<u8> {
        let mut bytes = Vec::new();
        encode(predictor, &mut bytes);
        bytes
    }

    #[test]
    fn what_was_learnt_is_known_after_a_restart() {
        for predictor in [Predictor::new(Learning::default()), trained()] {
            let bytes = bytes_of(&predictor);
            let mut from = Decoder::new(&bytes);
            assert_eq!(decode(Learning::default(), &mut from).unwrap(), predictor);
            assert!(from.is_empty());
        }
    }

    #[test]
    fn hostile_bytes_are_refused_or_read_never_worse() {
        let bytes = bytes_of(&trained());
        for i in (0..bytes.len()).step_by(7).chain(0..300) {
            assert!(decode(Learning::default(), &mut Decoder::new(&bytes[..i])).is_none(), "cut at {i}");
            for flip in [1, 0x80, 0xff] {
                let mut bad = bytes.clone();
                bad[i] ^= flip;
                if let Some(read) = decode(Learning::default(), &mut Decoder::new(&bad)) {
                    let table = KeySpread { smallest: b"k", largest: b"k9", quantiles: &[], entries: 10 };
                    assert!(read.predict(0, &table).is_none_or(|heat| (0.0..=1.0).contains(&heat)));
                }
            }
        }
        let fewer = Learning { intervals: 4, ..Learning::default() };
        assert!(decode(fewer, &mut Decoder::new(&bytes)).is_none(), "of other settings");
    }
}
