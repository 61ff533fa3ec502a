//! Values: slices of a pool of bytes that compress about 2 : 1, and how long they are.
//!
//! Handing out slices keeps the generator's cost out of what is measured. The pool alternates 32 random bytes with one
//! byte repeated 32 times, so that any slice of some hundred bytes compresses like the whole. Slices follow each other
//! through the pool, which the processor's cache holds, so a block of 4 KiB never sees the same bytes twice.

use std::fmt;
use std::str::FromStr;

use crate::base::random::{Random, mix64};

/// The pool is this much larger than a value.
const SLACK_BYTES: usize = 1 << 20;
/// The longest value.
const VALUE_BYTES_MAX: usize = 128 << 20;

/// How long values are, drawn anew for each one. Written `100`, `50-150`, `10*1-100` and `250-400-1024`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueSizes {
    /// Always so many bytes.
    Fixed(usize),
    /// The sum of `count` lengths, each even between `min` and `max`: a record of fields, as YCSB draws them.
    Fields {
        /// How many fields.
        count: usize,
        /// The shortest.
        min: usize,
        /// The longest.
        max: usize,
    },
    /// Half of them even between `min` and `median`, half between `median` and `max`: what one can say of sizes of which
    /// only these three are known.
    Halves {
        /// The shortest.
        min: usize,
        /// As many are shorter as are longer.
        median: usize,
        /// The longest.
        max: usize,
    },
}

impl ValueSizes {
    /// True if not all have the same length.
    pub fn vary(self) -> bool {
        !matches!(self, ValueSizes::Fixed(_))
    }

    /// The mean length, rounded.
    pub fn mean(self) -> usize {
        match self {
            ValueSizes::Fixed(bytes) => bytes,
            ValueSizes::Fields { count, min, max } => (count * (min + max)).div_ceil(2),
            ValueSizes::Halves { min, median, max } => (min + 2 * median + max).div_ceil(4),
        }
    }

    /// The longest.
    pub fn max(self) -> usize {
        match self {
            ValueSizes::Fixed(bytes) => bytes,
            ValueSizes::Fields { count, max, .. } => count * max,
            ValueSizes::Halves { max, .. } => max,
        }
    }

    fn draw(self, random: &mut Random) -> usize {
        let mut even = |min: usize, max: usize| min + random.below((max - min + 1) as u64) as usize;
        match self {
            ValueSizes::Fixed(bytes) => bytes,
            ValueSizes::Fields { count, min, max } => (0..count).map(|_| even(min, max)).sum(),
            ValueSizes::Halves { min, median, max } => match even(0, 1) {
                0 => even(min, median),
                _ => even(median, max),
            },
        }
    }

    /// As it is, if it makes sense.
    ///
    /// # Errors
    /// If the lengths do not rise or a value is too long.
    pub fn checked(self) -> Result<ValueSizes, String> {
        let rising = match self {
            ValueSizes::Fixed(_) => true,
            ValueSizes::Fields { count, min, max } => {
                min <= max && count.checked_mul(max).is_some_and(|sum| sum <= VALUE_BYTES_MAX)
            }
            ValueSizes::Halves { min, median, max } => min <= median && median <= max,
        };
        match rising && self.max() <= VALUE_BYTES_MAX {
            true => Ok(self),
            false => Err(format!("lengths of values rise, and end at {VALUE_BYTES_MAX}")),
        }
    }
}

impl From<usize> for ValueSizes {
    fn from(bytes: usize) -> ValueSizes {
        ValueSizes::Fixed(bytes)
    }
}

impl fmt::Display for ValueSizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ValueSizes::Fixed(bytes) => write!(f, "{bytes}"),
            ValueSizes::Fields { count: 1, min, max } => write!(f, "{min}-{max}"),
            ValueSizes::Fields { count, min, max } => write!(f, "{count}*{min}-{max}"),
            ValueSizes::Halves { min, median, max } => write!(f, "{min}-{median}-{max}"),
        }
    }
}

impl FromStr for ValueSizes {
    type Err = String;

    fn from_str(text: &str) -> Result<ValueSizes, String> {
        let wrong = || {
            format!(
                "`{text}` is no length of values; write 100, 50-150, 10*1-100 or 250-400-1024 (its median)"
            )
        };
        let number = |text: &str| text.parse::<usize>().map_err(|_| wrong());
        let (count, lengths) = match text.split_once('*') {
            Some((count, lengths)) => (number(count)?, lengths),
            None => (1, text),
        };
        let lengths = lengths.split('-').map(number).collect::<Result<Vec<_>, _>>()?;
        let sizes = match (count, &lengths[..]) {
            (1, &[bytes]) => ValueSizes::Fixed(bytes),
            (count, &[min, max]) => ValueSizes::Fields { count, min, max },
            (1, &[min, median, max]) => ValueSizes::Halves { min, median, max },
            _ => return Err(wrong()),
        };
        sizes.checked()
    }
}

impl serde::Serialize for ValueSizes {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            ValueSizes::Fixed(bytes) => serializer.serialize_u64(*bytes as u64),
            varying => serializer.collect_str(varying),
        }
    }
}

impl<'de> serde::Deserialize<'de> for ValueSizes {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<ValueSizes, D::Error> {
        #[derive(serde::Deserialize)]
        #[serde(untagged)]
        enum Written {
            Bytes(usize),
            Text(String),
        }
        let sizes = match Written::deserialize(deserializer)? {
            Written::Bytes(bytes) => ValueSizes::Fixed(bytes).checked(),
            Written::Text(text) => text.parse(),
        };
        sizes.map_err(serde::de::Error::custom)
    }
}

/// A value of a [`Values`]: where it starts and how long it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ValueAt {
    start: u32,
    bytes: u32,
}

/// The values of a run.
#[derive(Clone, Debug)]
pub struct Values {
    pool: Vec<u8>,
    sizes: ValueSizes,
}

impl Values {
    /// Values of these lengths.
    pub fn new(sizes: impl Into<ValueSizes>, seed: u64) -> Values {
        let sizes = sizes.into();
        let mut pool = vec![0; sizes.max() + SLACK_BYTES];
        let mut random = Random::new(seed);
        for chunk in pool.chunks_mut(64) {
            let half = chunk.len() / 2;
            let (noise, same) = chunk.split_at_mut(half);
            random.fill(noise);
            same.fill(b'.');
        }
        Values { pool, sizes }
    }

    /// How long they are.
    pub fn sizes(&self) -> ValueSizes {
        self.sizes
    }

    /// Draws a first value.
    pub fn draw(&self, random: &mut Random) -> ValueAt {
        let start = random.below(SLACK_BYTES as u64) as u32;
        ValueAt { start, bytes: self.sizes.draw(random) as u32 }
    }

    /// Draws the value after another one.
    pub fn after(&self, before: ValueAt, random: &mut Random) -> ValueAt {
        let start = (before.start as usize + before.bytes.max(1) as usize) % SLACK_BYTES;
        ValueAt { start: start as u32, bytes: self.sizes.draw(random) as u32 }
    }

    /// Bytes for value number `n` of a length of its own, at most the longest.
    pub fn of_length(&self, n: u64, bytes: usize) -> &[u8] {
        let start = mix64(n) as usize % SLACK_BYTES;
        &self.pool[start..start + bytes.min(self.pool.len() - SLACK_BYTES)]
    }

    /// The bytes of a value that [`Values::draw`] or [`Values::after`] gave.
    pub fn at(&self, value: ValueAt) -> &[u8] {
        let start = value.start as usize % SLACK_BYTES;
        &self.pool[start..start + value.bytes as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_a_value_is_noise_wherever_it_starts() {
        let values = Values::new(1024, 1);
        let mut random = Random::new(2);
        let mut at = values.draw(&mut random);
        for _ in 0..3000 {
            at = match random.below(10) {
                0 => values.draw(&mut random),
                _ => values.after(at, &mut random),
            };
            let value = values.at(at);
            assert_eq!(value.len(), 1024);
            let dots = value.iter().filter(|&&b| b == b'.').count();
            assert!((500..550).contains(&dots), "{dots}");
        }
        assert_eq!(Values::new(0, 1).at(ValueAt::default()), b"");
    }

    #[test]
    fn lengths_are_read_as_they_are_written() {
        for text in ["0", "100", "50-150", "10*1-100", "250-400-1024"] {
            let sizes: ValueSizes = text.parse().unwrap();
            assert_eq!(sizes.to_string(), text);
            let json = serde_json::to_string(&sizes).unwrap();
            assert_eq!(serde_json::from_str::<ValueSizes>(&json).unwrap(), sizes, "{json}");
        }
        assert_eq!(serde_json::to_string(&ValueSizes::Fixed(100)).unwrap(), "100");
        for text in
            ["", "x", "-1", "9-1", "1-2-3-4", "2*5", "2*1-2-3", "3-2-4", "134217729", "9999999*1-9999"]
        {
            assert!(text.parse::<ValueSizes>().is_err(), "{text}");
        }
    }

    #[test]
    fn lengths_have_their_bounds_their_mean_and_their_median() {
        let draws = 100_000;
        for (text, median) in [("50-150", 100), ("10*1-100", 505), ("250-400-1024", 400)] {
            let sizes: ValueSizes = text.parse().unwrap();
            let values = Values::new(sizes, 1);
            let mut random = Random::new(3);
            let mut at = values.draw(&mut random);
            let mut lengths: Vec<usize> = (0..draws)
                .map(|_| {
                    at = values.after(at, &mut random);
                    values.at(at).len()
                })
                .collect();
            lengths.sort_unstable();
            assert!(lengths[draws - 1] <= sizes.max() && lengths[0] < median, "{text}");
            let mean = lengths.iter().sum::<usize>() as f64 / draws as f64;
            // Five standard errors: no length is further from the mean than the largest.
            let error = 5.0 * sizes.max() as f64 / (draws as f64).sqrt();
            assert!((mean - sizes.mean() as f64).abs() < error + 1.0, "{text}: {mean}");
            assert!(lengths[draws / 2].abs_diff(median) <= 2, "{text}: {}", lengths[draws / 2]);
        }
    }
}
