//! A strategy on one line, and back.
//!
//! ```text
//! when=saturation how=runs:1 much=file which=least-overlap-parent; L0: when=runs how=runs:4 much=runs
//! ```
//!
//! Segments are separated by `;`. The first is for all levels; `L0:` (or `first:`), `last:` and `L2:` say what differs
//! there; `size:` has `l0= base= ratio= table= sizes= cut=`. Keys: `when=` triggers, `how=` layout, `much=` granularity, `which=`
//! movement, `bits=` filter bits per key. Lists are separated by commas. An error names the segment, the field and what
//! would be valid. The words of triggers and movements are in `strategy_words.rs`.

use std::fmt;
use std::str::FromStr;

use super::strategy::{
    Align, CutRule, FilterBits, Granularity, Layout, LevelPolicy, Movement, PerLevel, SizeRule, Sizes,
    Strategy, Trigger,
};
use super::strategy_words::{
    HEAT_FORM, MOVEMENTS, TRIGGERS, bytes_text, heat_rule_text, movement_text, parse_bytes, parse_heat_rule,
    parse_list, trigger_text,
};
use crate::base::error::{Error, Result};

const SIZES: &[(&str, Sizes)] = &[("fixed", Sizes::Fixed), ("dynamic", Sizes::Dynamic)];

const ALIGNS: &[(&str, Align)] = &[("size", Align::Size), ("next", Align::Next), ("last", Align::Last)];

/// What a segment says about a level.
#[derive(Clone, Debug, Default)]
struct Segment {
    when: Option<Vec<Trigger>>,
    how: Option<Layout>,
    much: Option<Granularity>,
    which: Option<Vec<Movement>>,
    bits: Option<FilterBits>,
}

impl FromStr for Strategy {
    type Err = Error;

    fn from_str(text: &str) -> Result<Strategy> {
        let strategy = parse(text).map_err(|what| Error::invalid(format!("strategy, {what}")))?;
        strategy.validate()?;
        Ok(strategy)
    }
}

fn parse(text: &str) -> Result<Strategy, String> {
    let mut segments = text.split(';').map(str::trim);
    let base = segments.next().unwrap_or_default();
    if base.split_whitespace().next().is_none_or(|word| word.ends_with(':')) {
        return Err("the first segment is for all levels: when= how= much= which=".to_owned());
    }
    let base = Segment::parse(base).map_err(|what| format!("all levels: {what}"))?;
    let (policy, bits) = base.complete().map_err(|what| format!("all levels: {what}"))?;
    let mut levels = PerLevel::same(policy.clone());
    let mut filter_bits = PerLevel::same(bits);
    let (mut size, mut cut) = (SizeRule::default(), CutRule::default());
    for segment in segments.filter(|s| !s.is_empty()) {
        let (name, fields) = segment
            .split_once(':')
            .filter(|(name, _)| !name.contains(|c: char| c == '=' || c.is_whitespace()))
            .ok_or_else(|| {
                format!("{segment}: a segment starts with L0:, last:, L2: and the like, or size:")
            })?;
        let here = |what: String| format!("{name}: {what}");
        if name == "size" {
            parse_size(fields, &mut size, &mut cut).map_err(here)?;
            continue;
        }
        let parsed = Segment::parse(fields).map_err(here)?;
        let (own, own_bits) = (parsed.over(&policy), parsed.bits.unwrap_or(bits));
        match (name, name.strip_prefix('L').and_then(|n| n.parse::<usize>().ok())) {
            ("first", _) | (_, Some(0)) => (levels.first, filter_bits.first) = (own, own_bits),
            ("last", _) => (levels.last, filter_bits.last) = (own, own_bits),
            (_, Some(level)) => {
                levels.at.insert(level, own);
                filter_bits.at.insert(level, own_bits);
            }
            _ => {
                return Err(here("no such segment; valid are L0, first, last, L1, L2, ..., size".to_owned()));
            }
        }
    }
    Ok(Strategy { levels, size, cut, filter_bits })
}

/// `12`, or beside the store's option `+8` or `-1`.
fn parse_bits(text: &str) -> Result<FilterBits, String> {
    let bits = text.parse().map_err(|_| format!("bits={text} is no number"))?;
    Ok(if text.starts_with(['+', '-']) { FilterBits::Beside(bits) } else { FilterBits::Exactly(bits) })
}

impl fmt::Display for FilterBits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FilterBits::Exactly(bits) => write!(f, "{bits}"),
            FilterBits::Beside(more) => write!(f, "{more:+}"),
        }
    }
}

impl Segment {
    fn parse(fields: &str) -> Result<Segment, String> {
        let mut out = Segment::default();
        for field in fields.split_whitespace() {
            let unknown = || format!("{field}: no such field; valid are when= how= much= which= bits=");
            let (key, value) = field.split_once('=').ok_or_else(unknown)?;
            let fresh = match key {
                "when" => out.when.replace(parse_list("when", TRIGGERS, value)?).is_none(),
                "which" => out.which.replace(parse_list("which", MOVEMENTS, value)?).is_none(),
                "how" => out.how.replace(parse_layout(value)?).is_none(),
                "much" => out.much.replace(parse_granularity(value)?).is_none(),
                "bits" => out.bits.replace(parse_bits(value)?).is_none(),
                _ => return Err(unknown()),
            };
            if !fresh {
                return Err(format!("{key}= is there twice"));
            }
        }
        Ok(out)
    }

    /// The policy if the segment has to stand alone.
    fn complete(self) -> Result<(LevelPolicy, FilterBits), String> {
        let policy = LevelPolicy {
            triggers: self.when.ok_or("when= is missing, for instance when=saturation")?,
            layout: self.how.ok_or("how= is missing, for instance how=runs:1")?,
            granularity: self.much.ok_or("much= is missing, for instance much=file")?,
            movement: self.which.unwrap_or_default(),
        };
        Ok((policy, self.bits.unwrap_or_default()))
    }

    /// The policy where this segment differs from `base`. A movement is not inherited by a granularity without choice.
    fn over(&self, base: &LevelPolicy) -> LevelPolicy {
        let granularity = self.much.unwrap_or(base.granularity);
        let inherited = if granularity.needs_movement() { base.movement.clone() } else { Vec::new() };
        LevelPolicy {
            layout: self.how.unwrap_or(base.layout),
            triggers: self.when.clone().unwrap_or_else(|| base.triggers.clone()),
            granularity,
            movement: self.which.clone().unwrap_or(inherited),
        }
    }
}

fn word<T: Copy + PartialEq>(table: &[(&'static str, T)], value: T) -> &'static str {
    table.iter().find(|(_, v)| *v == value).map_or("?", |(name, _)| name)
}

fn one<T: Copy>(key: &str, table: &[(&str, T)], name: &str) -> Result<T, String> {
    table.iter().find(|(n, _)| *n == name).map(|(_, v)| *v).ok_or_else(|| {
        let valid: Vec<&str> = table.iter().map(|(n, _)| *n).collect();
        format!("{key}={name} is unknown; valid are {}", valid.join(" "))
    })
}

fn parse_layout(value: &str) -> Result<Layout, String> {
    if let Some(rule) = value.strip_prefix("by-heat:") {
        return parse_heat_rule(rule).map(Layout::ByHeat).map_err(|what| format!("how={value}: {what}"));
    }
    let wrong = || format!("how={value} is unknown; valid are runs:N runs:N:fill and {HEAT_FORM}");
    let mut parts = value.split(':');
    let (Some("runs"), Some(max), fill, None) = (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(wrong());
    };
    let max = max.parse().map_err(|_| wrong())?;
    match fill {
        None => Ok(Layout::Runs { max, fill: false }),
        Some("fill") => Ok(Layout::Runs { max, fill: true }),
        Some(_) => Err(wrong()),
    }
}

fn parse_granularity(value: &str) -> Result<Granularity, String> {
    match (value, value.strip_prefix("files:")) {
        ("level", _) => Ok(Granularity::Level),
        ("runs", _) => Ok(Granularity::Runs),
        ("file", _) => Ok(Granularity::File),
        (_, Some(bytes)) => Ok(Granularity::Files { bytes: parse_bytes(bytes)? }),
        _ => Err(format!("much={value} is unknown; valid are level runs file files:BYTES")),
    }
}

fn parse_size(fields: &str, size: &mut SizeRule, cut: &mut CutRule) -> Result<(), String> {
    for field in fields.split_whitespace() {
        let unknown = || format!("{field}: no such field; valid are l0= base= ratio= table= sizes= cut=");
        let (key, value) = field.split_once('=').ok_or_else(unknown)?;
        let target = match key {
            "sizes" => {
                size.sizes = one(key, SIZES, value)?;
                continue;
            }
            "cut" => {
                cut.align = one(key, ALIGNS, value)?;
                continue;
            }
            "l0" => {
                let (least, most) = value.split_once("..").unwrap_or((value, value));
                (size.l0_bytes, size.l0_bytes_max) = (parse_bytes(least)?, parse_bytes(most)?);
                continue;
            }
            "base" => &mut size.level_base_bytes,
            "ratio" => &mut size.level_ratio,
            "table" => &mut cut.table_bytes,
            _ => return Err(unknown()),
        };
        *target = parse_bytes(value)?;
    }
    Ok(())
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.levels_text())?;
        let SizeRule { l0_bytes, l0_bytes_max, level_base_bytes, level_ratio, sizes } = self.size;
        let default = SizeRule::default();
        let mut fields = Vec::new();
        if !self.size.has_default_bytes() {
            let [l0, most, base] = [l0_bytes, l0_bytes_max, level_base_bytes].map(bytes_text);
            let most = if l0 == most { String::new() } else { format!("..{most}") };
            fields.push(format!("l0={l0}{most} base={base} ratio={level_ratio}"));
        }
        if self.cut.table_bytes != CutRule::default().table_bytes {
            fields.push(format!("table={}", bytes_text(self.cut.table_bytes)));
        }
        if sizes != default.sizes {
            fields.push(format!("sizes={}", word(SIZES, sizes)));
        }
        if self.cut.align != CutRule::default().align {
            fields.push(format!("cut={}", word(ALIGNS, self.cut.align)));
        }
        if !fields.is_empty() {
            write!(f, "; size: {}", fields.join(" "))?;
        }
        Ok(())
    }
}

impl Strategy {
    /// The one-line form without the sizes.
    pub fn levels_text(&self) -> String {
        let (base, bits) = (&self.levels.rest, self.filter_bits.rest);
        let mut out = fields_text(base, bits, None).join(" ");
        let mut add = |name: &str, policy: &LevelPolicy, own_bits: FilterBits, always: bool| {
            let fields = fields_text(policy, own_bits, Some((base, bits)));
            if always || !fields.is_empty() {
                let sep = if fields.is_empty() { "" } else { " " };
                out.push_str(&format!("; {name}:{sep}{}", fields.join(" ")));
            }
        };
        add("L0", &self.levels.first, self.filter_bits.first, false);
        add("last", &self.levels.last, self.filter_bits.last, false);
        for (level, policy) in &self.levels.at {
            let own_bits = self.filter_bits.at.get(level).copied().unwrap_or(bits);
            add(&format!("L{level}"), policy, own_bits, true);
        }
        out
    }
}

/// The fields that differ from `base`, or all of them.
fn fields_text(
    policy: &LevelPolicy,
    bits: FilterBits,
    base: Option<(&LevelPolicy, FilterBits)>,
) -> Vec<String> {
    let mut out = Vec::new();
    let differs = |same: fn(&LevelPolicy, &LevelPolicy) -> bool| base.is_none_or(|(b, _)| !same(b, policy));
    if differs(|a, b| a.triggers == b.triggers) {
        let words: Vec<String> = policy.triggers.iter().map(|t| trigger_text(*t)).collect();
        out.push(format!("when={}", words.join(",")));
    }
    if differs(|a, b| a.layout == b.layout) {
        out.push(match policy.layout {
            Layout::Runs { max, fill } => format!("how=runs:{max}{}", if fill { ":fill" } else { "" }),
            Layout::ByHeat(rule) => format!("how=by-heat:{}", heat_rule_text(&rule)),
        });
    }
    if differs(|a, b| a.granularity == b.granularity) {
        out.push(match policy.granularity {
            Granularity::Level => "much=level".to_owned(),
            Granularity::Runs => "much=runs".to_owned(),
            Granularity::File => "much=file".to_owned(),
            Granularity::Files { bytes } => format!("much=files:{}", bytes_text(bytes)),
        });
    }
    if differs(|a, b| a.movement == b.movement) && !policy.movement.is_empty() {
        let words: Vec<String> = policy.movement.iter().map(|m| movement_text(*m)).collect();
        out.push(format!("which={}", words.join(",")));
    }
    if bits != base.map_or_else(FilterBits::default, |(_, b)| b) {
        out.push(format!("bits={bits}"));
    }
    out
}

#[cfg(test)]
#[path = "strategy_tests.rs"]
mod tests;
