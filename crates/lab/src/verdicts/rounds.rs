//! Rounds of an experiment: in each, every system is measured once, with the same seed.

/// The first round's seed; each further one has the next.
const FIRST_SEED: u64 = 42;

/// Decides on keys and operations of a round; rounds count from 1.
pub fn seed_of(round: u16) -> u64 {
    FIRST_SEED + u64::from(round) - 1
}
