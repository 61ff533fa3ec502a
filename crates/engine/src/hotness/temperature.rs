//! Hot or cold: which tables and groups of a level are read enough to be worth leveling (LTG §III.A).
//!
//! The paper's θ is a share of gets, which hardly a table of a large level reaches; a relative θ is a share of the level's bytes,
//! the coldest. What is hot turns cold a little below θ, what is cold turns hot a little above, so that nothing turns with
//! every breath. What nothing is known of counts as hot: leveled.

/// From where on a table is hot.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Theta {
    /// So large a share of gets looks into it, 0 to 1 (the paper's; 0.7 there).
    Absolute(f32),
    /// It is hotter than this part of its level's bytes, 0 to 1.
    Relative(f32),
}

/// So far below θ what is hot turns cold, and so far above it what is cold turns hot, unless something else is said.
pub const HYSTERESIS: f64 = 0.05;

/// What has so small a part of its level's mean heat is cold, whatever a relative θ says.
const HARDLY_READ: f64 = 0.1;

/// A table as far as temperature goes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Member {
    /// What it weighs in a vote.
    pub bytes: u64,
    /// The share of gets that looks into it, if that is known.
    pub heat: Option<f64>,
}

impl Member {
    /// The heat, if it is a number.
    fn known(&self) -> Option<f64> {
        self.heat.filter(|heat| heat.is_finite())
    }
}

/// Heats at which tables of a level change: θ with its hysteresis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Band {
    /// What is hot turns cold below this.
    pub cold_below: f64,
    /// What is cold turns hot from this on.
    pub hot_from: f64,
}

impl Theta {
    /// What it means in a level of these tables, with so much hysteresis on either side.
    pub fn band(self, level: &[Member], hysteresis: f64) -> Band {
        match self {
            Theta::Absolute(theta) => {
                let theta = f64::from(theta);
                Band { cold_below: theta - hysteresis, hot_from: theta + hysteresis }
            }
            Theta::Relative(part) => {
                let mut known: Vec<(f64, u64)> =
                    level.iter().filter_map(|m| Some((m.known()?, m.bytes))).collect();
                known.sort_by(|a, b| a.0.total_cmp(&b.0));
                let part = f64::from(part);
                let bytes: u64 = known.iter().map(|(_, bytes)| bytes).sum();
                let sum: f64 = known.iter().map(|(heat, bytes)| heat * *bytes as f64).sum();
                let least = HARDLY_READ * sum / bytes.max(1) as f64;
                Band {
                    cold_below: quantile(&known, part - hysteresis).max(least * (1.0 - hysteresis)),
                    hot_from: quantile(&known, part + hysteresis).max(least * (1.0 + hysteresis)),
                }
            }
        }
    }
}

/// The heat that is above this part of the bytes, of tables from the coldest.
fn quantile(ascending: &[(f64, u64)], part: f64) -> f64 {
    let all: u64 = ascending.iter().map(|(_, bytes)| bytes).sum();
    let mut below = 0;
    let reaches = |(_, bytes): &&(f64, u64)| {
        below += bytes;
        below as f64 > part * all as f64
    };
    ascending.iter().find(reaches).or(ascending.last()).map_or(0.0, |(heat, _)| *heat)
}

impl Band {
    /// True if tables that are together are hot, by the vote of their bytes; a tie leaves them as they are. `is_hot` says what
    /// they are now, nothing of new ones.
    pub fn vote(&self, members: &[Member], is_hot: Option<bool>) -> bool {
        let all: u128 = members.iter().map(|member| u128::from(member.bytes)).sum();
        let hot = self.hot_bytes(members, is_hot);
        if hot * 2 == all { is_hot.unwrap_or(true) } else { hot * 2 > all }
    }

    /// Bytes of the tables that vote for hot.
    pub fn hot_bytes(&self, members: &[Member], is_hot: Option<bool>) -> u128 {
        let from = self.from(is_hot);
        // Nothing is hot that nobody reads, however cold the others are.
        let is_warm = |m: &&Member| m.known().is_none_or(|heat| heat >= from && heat > 0.0);
        members.iter().filter(is_warm).map(|member| u128::from(member.bytes)).sum()
    }

    /// The heat from which on a table votes for hot, of a group that is hot, or cold, or new.
    pub fn from(&self, is_hot: Option<bool>) -> f64 {
        match is_hot {
            Some(true) => self.cold_below,
            Some(false) => self.hot_from,
            None => self.cold_below.midpoint(self.hot_from),
        }
    }
}

/// What a division into hot and cold is worth: the hot part α of the bytes receives the share β of the looks (LTG §II.B).
/// The larger β is for its α the better; β = α is what chance would do.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Quality {
    /// α.
    pub hot_bytes: f64,
    /// β.
    pub hot_reads: f64,
}

/// Of tables: whether each counts as hot, its bytes, and how much it was looked into.
pub fn quality(tables: impl IntoIterator<Item = (bool, u64, f64)>) -> Option<Quality> {
    let (mut bytes, mut reads) = ([0u64; 2], [0.0; 2]);
    let [cold_bytes, hot_bytes] = &mut bytes;
    let [cold_reads, hot_reads] = &mut reads;
    for (is_hot, size, looks) in tables {
        *if is_hot { &mut *hot_bytes } else { &mut *cold_bytes } += size;
        *if is_hot { &mut *hot_reads } else { &mut *cold_reads } += looks.max(0.0);
    }
    let part = |hot: f64, cold: f64| (hot + cold > 0.0).then(|| hot / (hot + cold));
    Some(Quality {
        hot_bytes: part(*hot_bytes as f64, *cold_bytes as f64)?,
        hot_reads: part(*hot_reads, *cold_reads)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(heats: &[f64]) -> Vec<Member> {
        heats.iter().map(|heat| Member { bytes: 10, heat: Some(*heat) }).collect()
    }

    #[test]
    fn an_absolute_theta_is_the_same_in_every_level() {
        let band = Theta::Absolute(0.5).band(&members(&[0.1, 0.9]), HYSTERESIS);
        assert_eq!((band.cold_below, band.hot_from), (0.45, 0.55));
        for (heat, as_hot, as_cold, as_new) in [
            (0.44, false, false, false),
            (0.46, true, false, false),
            (0.54, true, false, true),
            (0.56, true, true, true),
        ] {
            let one = members(&[heat]);
            let votes = [Some(true), Some(false), None].map(|is_hot| band.vote(&one, is_hot));
            assert_eq!(votes, [as_hot, as_cold, as_new], "{heat}");
        }
    }

    #[test]
    fn a_relative_theta_leaves_the_hottest_part_of_the_bytes_hot() {
        let heats: Vec<f64> = (0..100).map(|i| f64::from(i * 37 % 100) / 1e4).collect();
        let level = members(&heats);
        for part in [0.2, 0.5, 0.7, 0.9] {
            let band = Theta::Relative(part).band(&level, HYSTERESIS);
            let hot = level.iter().filter(|m| band.vote(&[**m], None)).count();
            assert!((hot as f64 - 100.0 * (1.0 - f64::from(part))).abs() <= 1.0, "{part}: {hot} of 100");
            let still_hot = level.iter().filter(|m| band.vote(&[**m], Some(true))).count();
            let newly_hot = level.iter().filter(|m| band.vote(&[**m], Some(false))).count();
            assert!(newly_hot < hot && hot < still_hot);
        }
    }

    #[test]
    fn what_nobody_reads_is_cold_however_cold_the_others_are() {
        for hardly in [0.0, 0.0005] {
            let mut level = members(&[hardly; 10]);
            level[9].heat = Some(0.1);
            let band = Theta::Relative(0.7).band(&level, HYSTERESIS);
            assert!(!band.vote(&level[..1], Some(true)) && band.vote(&level[9..], Some(false)), "{hardly}");
        }
    }

    #[test]
    fn a_vote_is_by_bytes_and_the_unknown_is_leveled() {
        let band = Band { cold_below: 0.4, hot_from: 0.6 };
        let member = |bytes, heat| Member { bytes, heat };
        assert!(band.vote(&[member(11, Some(0.9)), member(5, Some(0.1)), member(5, Some(0.1))], None));
        assert!(!band.vote(&[member(9, Some(0.9)), member(5, Some(0.1)), member(5, Some(0.1))], None));
        let even = [member(5, Some(0.9)), member(5, Some(0.1))];
        assert!(band.vote(&even, Some(true)) && !band.vote(&even, Some(false)) && band.vote(&even, None));
        for unknown in [None, Some(f64::NAN), Some(f64::INFINITY)] {
            assert!(band.vote(&[member(5, unknown)], Some(false)), "{unknown:?}");
            assert!(Theta::Relative(0.7).band(&[member(5, unknown)], HYSTERESIS).hot_from.is_finite());
        }
        assert!(band.vote(&[], None));
    }

    #[test]
    fn heat_that_wavers_inside_the_band_turns_nothing() {
        let band = Theta::Absolute(0.5).band(&[], HYSTERESIS);
        let mut is_hot = true;
        let mut turns = 0;
        for i in 0..1000 {
            let heat = 0.5 + 0.049 * if i % 2 == 0 { 1.0 } else { -1.0 };
            let now = band.vote(&members(&[heat]), Some(is_hot));
            turns += u32::from(now != is_hot);
            is_hot = now;
        }
        assert_eq!(turns, 0);
    }

    #[test]
    fn quality_is_what_the_hot_part_receives() {
        let found = quality([(true, 10, 9.0), (false, 30, 1.0)]).unwrap();
        assert_eq!((found.hot_bytes, found.hot_reads), (0.25, 0.9));
        assert_eq!(quality([(true, 10, 0.0)]), None, "no reads");
        assert_eq!(quality([]), None);
    }
}
