//! A histogram in as few bytes as its values need: a second of a run takes a KiB, or some, instead of 37.

use hdrhistogram::Histogram;

/// Which values a histogram holds and how often: pairs of the step from the value before and a count, each in groups of seven
/// bits, the lowest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compact(Box<[u8]>);

impl Compact {
    /// What is in `histogram`.
    pub fn of(histogram: &Histogram<u64>) -> Compact {
        let (mut bytes, mut last) = (Vec::new(), 0);
        for step in histogram.iter_recorded() {
            write(&mut bytes, step.value_iterated_to() - last);
            write(&mut bytes, step.count_since_last_iteration());
            last = step.value_iterated_to();
        }
        Compact(bytes.into())
    }

    /// Adds it to a histogram of the same bounds and digits, or of more.
    pub fn add_to(&self, histogram: &mut Histogram<u64>) {
        let (mut bytes, mut value) = (self.0.iter().copied(), 0);
        while let Some((step, count)) = read(&mut bytes).zip(read(&mut bytes)) {
            value += step;
            histogram.saturating_record_n(value, count);
        }
    }

    /// The bytes that it takes.
    pub fn bytes(&self) -> usize {
        self.0.len()
    }
}

fn write(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn read(bytes: &mut impl Iterator<Item = u8>) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let byte = bytes.next()?;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::random::Random;
    use crate::run::recorder::window_histogram;

    #[test]
    fn what_goes_in_comes_out() {
        let mut random = Random::new(7);
        for count in [0, 1, 100_000] {
            let mut h = window_histogram();
            (0..count).for_each(|_| h.saturating_record(1 + (random.bits() >> (20 + random.bits() % 44))));
            (0..count).for_each(|_| h.saturating_record(3_600_000_000_000));
            let mut back = window_histogram();
            Compact::of(&h).add_to(&mut back);
            assert_eq!(back, h);
            Compact::of(&h).add_to(&mut back);
            assert_eq!(back.len(), 2 * h.len(), "added, not replaced");
        }
    }

    #[test]
    fn a_second_takes_few_bytes() {
        let mut random = Random::new(7);
        let mut h = window_histogram();
        // From 2 µs up, each doubling a third as likely as the one before.
        for _ in 0..200_000 {
            let doublings = (0..20).take_while(|_| random.below(3) == 0).count();
            h.saturating_record((2000 + random.below(2000)) << doublings);
        }
        let (values, bytes) = (h.iter_recorded().count(), Compact::of(&h).bytes());
        assert!(values > 800, "more than most seconds have: {values}");
        assert!(bytes < 4 * values && bytes < 4096, "{bytes} bytes");
    }
}
