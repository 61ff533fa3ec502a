//! A load whose reads have something to teach, or nothing: what lab L varies (LTG §IV). Plain data.
//!
//! Strategies by name are those of the catalogue, with as many runs to a tiered level, or to a cold group, as levels are larger than
//! the one above, which is the paper's T for both.

/// Which keys are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Few of them most of the time, anywhere in the key space: YCSB's zipfian, 0.99.
    Zipfian,
    /// Nine of ten from a tenth of the key space.
    Hotspot,
    /// The same, and another tenth once half of the updates are done.
    Moving,
    /// All alike.
    Uniform,
}

/// From where on a table is hot, in percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Theta {
    /// What the catalogue says.
    Usual,
    /// It is hotter than this part of its level's bytes.
    Relative(u32),
    /// So large a part of gets looks into it: the paper's.
    Absolute(u32),
}

/// See the file's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeatLoad {
    /// Which keys are asked for; half of the gets ask for keys beside them that are not there.
    pub asked: Asked,
    /// Of ten operations so many are gets, while records are inserted and updated.
    pub get_tenths: u32,
    /// From where on a table is hot.
    pub theta: Theta,
}

/// The paper's: as many gets as writes, most of few keys.
pub const USUAL: HeatLoad = HeatLoad { asked: Asked::Zipfian, get_tenths: 5, theta: Theta::Usual };

impl HeatLoad {
    /// What differs from the usual, for a name.
    pub fn differs(&self) -> String {
        let mut name = String::new();
        if self.asked != USUAL.asked {
            name += &format!("-{:?}", self.asked).to_lowercase();
        }
        if self.get_tenths != USUAL.get_tenths {
            name += &format!("-gets{}", self.get_tenths);
        }
        match self.theta {
            Theta::Usual => {}
            Theta::Relative(part) => name += &format!("-coldest{part}"),
            Theta::Absolute(part) => name += &format!("-share{part}"),
        }
        name
    }

    /// The line of a strategy of the catalogue, `text`, with `ratio` runs where there are several below L0.
    pub fn line(&self, strategy: &str, text: &str, ratio: u32) -> String {
        let theta = match self.theta {
            Theta::Usual => "coldest=0.7".to_owned(),
            Theta::Relative(part) => format!("coldest={}", f64::from(part) / 100.0),
            Theta::Absolute(part) => format!("share={}", f64::from(part) / 100.0),
        };
        match strategy {
            // As small as the paper's groups, which are files: hot keys lie anywhere here.
            "ltg" => {
                let groups = format!("by-heat:1:{ratio}:{theta}:groups=1000:least=1");
                text.replace("by-heat:1:10:coldest=0.7", &groups)
            }
            "tier" | "l-leveling" => {
                let text = text.replace("how=runs:4", &format!("how=runs:{ratio}"));
                format!("{text}; L0: when=runs how=runs:4 much=runs")
            }
            _ => text.to_owned(),
        }
    }
}
