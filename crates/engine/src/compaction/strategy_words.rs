//! The words of the primitives, declared once: what parses them, prints them, lists them, and finds the nearest to a wrong one.

use strsim::levenshtein;

use super::strategy::{Heat, HeatRule, Movement, Relative, Saturation, Trigger};
use crate::base::units::{GIB, KIB, MIB};
use crate::hotness::temperature::Theta;

/// A word, what may follow it, and what it makes of that.
pub struct Word<T> {
    /// The word.
    pub name: &'static str,
    /// What follows the word, for people; empty if nothing does.
    pub form: &'static str,
    /// Its value for what follows the first colon; `None` if that makes no sense.
    make: fn(Option<&str>) -> Option<T>,
}

/// Every trigger.
pub const TRIGGERS: &[Word<Trigger>] = &[
    Word { name: "saturation", form: "", make: |rest| bare(rest, Trigger::Saturation(Saturation::Bytes)) },
    Word {
        name: "saturation-count",
        form: "",
        make: |rest| bare(rest, Trigger::Saturation(Saturation::Count)),
    },
    Word { name: "runs", form: "", make: |rest| bare(rest, Trigger::Runs) },
    Word {
        name: "staleness",
        form: ":TIME",
        make: |rest| Some(Trigger::Staleness { limit_ms: parse_time(rest?)? }),
    },
    Word { name: "space-amp", form: ":RATIO", make: |rest| Some(Trigger::SpaceAmp { limit: part(rest?)? }) },
    Word {
        name: "ttl",
        form: ":TIME",
        make: |rest| Some(Trigger::TombstoneTtl { ttl_ms: parse_time(rest?)? }),
    },
    Word {
        name: "density",
        form: ":PART",
        make: |rest| Some(Trigger::TombstoneDensity { limit: part(rest?)? }),
    },
    Word {
        name: "read-heat",
        form: ":BYTES",
        make: |rest| Some(Trigger::ReadHeat { bytes_per_read: parse_bytes(rest?).ok()? }),
    },
    Word {
        name: "duplicates",
        form: ":PART:RUNS",
        make: |rest| {
            let (limit, runs) = rest?.split_once(':')?;
            Some(Trigger::Duplicates { limit: part(limit)?, runs_max: runs.parse().ok()? })
        },
    },
];

/// Every movement.
pub const MOVEMENTS: &[Word<Movement>] = &[
    Word { name: "round-robin", form: "", make: |rest| bare(rest, Movement::RoundRobin) },
    Word {
        name: "least-overlap-parent",
        form: "",
        make: |rest| bare(rest, Movement::LeastOverlap(Relative::Parent)),
    },
    Word {
        name: "least-overlap-grandparent",
        form: "",
        make: |rest| bare(rest, Movement::LeastOverlap(Relative::Grandparent)),
    },
    Word { name: "oldest", form: "", make: |rest| bare(rest, Movement::Oldest) },
    Word { name: "coldest", form: "", make: |rest| bare(rest, Movement::Coldest(Heat::Access)) },
    Word { name: "coldest-write", form: "", make: |rest| bare(rest, Movement::Coldest(Heat::Write)) },
    Word { name: "most-tombstones", form: "", make: |rest| bare(rest, Movement::MostTombstones) },
    Word {
        name: "tombstone-density",
        form: "[:PART]",
        make: |rest| Some(Movement::TombstoneDensity { above: rest.map_or(Some(0.0), part)? }),
    },
    Word { name: "expired", form: "", make: |rest| bare(rest, Movement::Expired) },
];

impl Trigger {
    /// Its word, without what follows it.
    pub fn word(self) -> &'static str {
        match self {
            Trigger::Saturation(Saturation::Bytes) => "saturation",
            Trigger::Saturation(Saturation::Count) => "saturation-count",
            Trigger::Runs => "runs",
            Trigger::Staleness { .. } => "staleness",
            Trigger::SpaceAmp { .. } => "space-amp",
            Trigger::TombstoneTtl { .. } => "ttl",
            Trigger::TombstoneDensity { .. } => "density",
            Trigger::ReadHeat { .. } => "read-heat",
            Trigger::Duplicates { .. } => "duplicates",
        }
    }
}

/// A trigger as it is written.
pub fn trigger_text(trigger: Trigger) -> String {
    let word = trigger.word();
    match trigger {
        Trigger::Saturation(_) | Trigger::Runs => word.to_owned(),
        Trigger::Staleness { limit_ms: ms } | Trigger::TombstoneTtl { ttl_ms: ms } => {
            format!("{word}:{}", time_text(ms))
        }
        Trigger::SpaceAmp { limit } | Trigger::TombstoneDensity { limit } => format!("{word}:{limit}"),
        Trigger::ReadHeat { bytes_per_read } => format!("{word}:{}", bytes_text(bytes_per_read)),
        Trigger::Duplicates { limit, runs_max } => format!("{word}:{limit}:{runs_max}"),
    }
}

/// A movement as it is written.
pub fn movement_text(movement: Movement) -> String {
    match movement {
        Movement::RoundRobin => "round-robin".to_owned(),
        Movement::LeastOverlap(Relative::Parent) => "least-overlap-parent".to_owned(),
        Movement::LeastOverlap(Relative::Grandparent) => "least-overlap-grandparent".to_owned(),
        Movement::Oldest => "oldest".to_owned(),
        Movement::Coldest(Heat::Access) => "coldest".to_owned(),
        Movement::Coldest(Heat::Write) => "coldest-write".to_owned(),
        Movement::MostTombstones => "most-tombstones".to_owned(),
        Movement::TombstoneDensity { above: 0.0 } => "tombstone-density".to_owned(),
        Movement::TombstoneDensity { above } => format!("tombstone-density:{above}"),
        Movement::Expired => "expired".to_owned(),
    }
}

/// How the layout by heat is written.
pub const HEAT_FORM: &str = "by-heat:HOT:COLD[:coldest=PART|:share=PART][:band=PART][:groups=N][:least=N]";

/// What follows `by-heat:`; its ranges are looked at in `strategy_check.rs`.
pub fn parse_heat_rule(text: &str) -> Result<HeatRule, String> {
    let wrong = || format!("write {HEAT_FORM}, for instance by-heat:1:4:coldest=0.7");
    let mut parts = text.split(':');
    let mut runs = || parts.next().and_then(|runs| runs.parse().ok()).ok_or_else(wrong);
    let mut rule = HeatRule::new(runs()?, runs()?);
    let mut seen: Vec<&str> = Vec::new();
    for field in parts {
        let (key, value) = field.split_once('=').ok_or_else(wrong)?;
        let same =
            |other: &&str| *other == key || [*other, key].iter().all(|k| ["coldest", "share"].contains(k));
        if seen.iter().any(same) {
            return Err(format!(
                "{field} comes twice, or both coldest= and share= are there; say one of them"
            ));
        }
        seen.push(key);
        let number = || part(value).ok_or_else(|| format!("{key}={value} is no number"));
        let count = || value.parse().map_err(|_| format!("{key}={value} is no number of things"));
        match key {
            "coldest" => rule.theta = Theta::Relative(number()?),
            "share" => rule.theta = Theta::Absolute(number()?),
            "band" => rule.hysteresis = number()?,
            "groups" => rule.groups_max = count()?,
            "least" => rule.tables_min = count()?,
            _ => return Err(format!("{key}= is unknown; {}", wrong())),
        }
    }
    Ok(rule)
}

/// A rule as it is written, after `by-heat:`.
pub fn heat_rule_text(rule: &HeatRule) -> String {
    let theta = match rule.theta {
        Theta::Relative(part) => format!("coldest={part}"),
        Theta::Absolute(share) => format!("share={share}"),
    };
    let mut out = format!("{}:{}:{theta}", rule.hot, rule.cold);
    let usual = HeatRule::new(rule.hot, rule.cold);
    if rule.hysteresis != usual.hysteresis {
        out += &format!(":band={}", rule.hysteresis);
    }
    for (key, value, usual) in
        [("groups", rule.groups_max, usual.groups_max), ("least", rule.tables_min, usual.tables_min)]
    {
        if value != usual {
            out += &format!(":{key}={value}");
        }
    }
    out
}

/// A list of words, separated by commas.
pub fn parse_list<T>(key: &str, table: &[Word<T>], value: &str) -> Result<Vec<T>, String> {
    value.split(',').map(|text| parse_word(key, table, text)).collect()
}

fn parse_word<T>(key: &str, table: &[Word<T>], text: &str) -> Result<T, String> {
    let (name, rest) = text.split_once(':').map_or((text, None), |(name, rest)| (name, Some(rest)));
    let Some(word) = table.iter().find(|word| word.name == name) else {
        let names: Vec<&str> = table.iter().map(|word| word.name).collect();
        let valid: Vec<String> = table.iter().map(|word| format!("{}{}", word.name, word.form)).collect();
        let meant = did_you_mean(name, &names);
        return Err(format!("{key}={text} is unknown{meant}; valid are {}", valid.join(" ")));
    };
    (word.make)(rest).ok_or_else(|| {
        let form = format!("{}{}", word.name, word.form);
        let example = match word.form {
            ":TIME" => ", for instance 90s, 12h or 7d",
            ":RATIO" => ", for instance 0.5",
            ":PART" | "[:PART]" => ", for instance 0.1",
            ":BYTES" => ", for instance 16KiB",
            ":PART:RUNS" => ", for instance 0.4:6",
            _ => "",
        };
        format!("{key}={text} is written {form}{example}")
    })
}

fn bare<T>(rest: Option<&str>, value: T) -> Option<T> {
    rest.is_none().then_some(value)
}

fn part(text: &str) -> Option<f32> {
    text.parse().ok().filter(|n: &f32| n.is_finite())
}

/// `, did you mean X?` if some name is near enough, else nothing.
pub fn did_you_mean(wrong: &str, names: &[&str]) -> String {
    let nearest = names.iter().map(|name| (levenshtein(wrong, name), *name)).min();
    match nearest {
        Some((distance, name)) if distance <= 1 + name.len() / 4 && distance < name.len() => {
            format!(", did you mean {name}?")
        }
        _ => String::new(),
    }
}

/// Milliseconds from `250ms`, `90s`, `15m`, `12h` or `7d`.
pub fn parse_time(text: &str) -> Option<u64> {
    let (digits, unit) = TIMES.iter().find_map(|(name, unit)| Some((text.strip_suffix(name)?, unit)))?;
    digits.parse::<u64>().ok()?.checked_mul(*unit)
}

/// Milliseconds in the largest unit that they are a multiple of.
pub fn time_text(ms: u64) -> String {
    let fits = |(_, unit): &&(&str, u64)| ms >= *unit && ms.is_multiple_of(*unit);
    let (name, unit) = TIMES.iter().rev().find(fits).unwrap_or(&("ms", 1));
    format!("{}{name}", ms / unit)
}

/// `ms` before `s` and `m`, which it ends and begins with.
const TIMES: [(&str, u64); 5] = [("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

/// Bytes from `4096`, `4KiB`, `32MiB` or `1GiB`.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let wrong = || format!("{text} is no size; write for instance 4096, 32MiB or 1GiB");
    let units = [("KiB", KIB), ("MiB", MIB), ("GiB", GIB)];
    let unit = units.into_iter().find_map(|(name, unit)| Some((text.strip_suffix(name)?, unit)));
    let (digits, unit) = unit.unwrap_or((text, 1));
    digits.parse::<u64>().ok().and_then(|n| n.checked_mul(unit)).ok_or_else(wrong)
}

/// Bytes in the largest unit that they are a multiple of.
pub fn bytes_text(bytes: u64) -> String {
    let units = [("GiB", GIB), ("MiB", MIB), ("KiB", KIB)];
    match units.into_iter().find(|(_, unit)| bytes >= *unit && bytes.is_multiple_of(*unit)) {
        Some((name, unit)) => format!("{}{name}", bytes / unit),
        None => bytes.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_come_back_in_their_largest_unit() {
        for (text, ms) in
            [("1ms", 1), ("90s", 90_000), ("2m", 120_000), ("12h", 43_200_000), ("7d", 604_800_000)]
        {
            assert_eq!(parse_time(text), Some(ms), "{text}");
            assert_eq!(time_text(ms), text);
        }
        assert_eq!(time_text(86_400_001), "86400001ms");
        assert_eq!(["", "5", "s", "1.5h", "9999999999999999999d"].map(parse_time), [None; 5]);
    }

    #[test]
    fn the_nearest_name_is_offered_if_it_is_near() {
        let names = ["saturation", "runs", "ttl", "tier"];
        for (wrong, want) in [
            ("satturation", ", did you mean saturation?"),
            ("run", ", did you mean runs?"),
            ("teir", ", did you mean tier?"),
            ("fast", ""),
            ("", ""),
        ] {
            assert_eq!(did_you_mean(wrong, &names), want, "{wrong}");
        }
    }
}
