//! Numbers as people read them: three digits or so, and a unit that fits.
//!
//! What nobody knows is said in words ([`UNKNOWN`]), and so is a number that is none.

/// What stands for a figure that nobody knows.
pub const UNKNOWN: &str = "not known";

/// A figure in words of `format`, or [`UNKNOWN`].
pub fn known<T>(figure: Option<T>, format: impl Fn(T) -> String) -> String {
    figure.map_or_else(|| UNKNOWN.to_owned(), format)
}

/// The figure, if it is a number at all.
pub fn finite(x: f64) -> Option<f64> {
    x.is_finite().then_some(x)
}

/// A whole number with its thousands apart.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(' ');
        }
        out.push(digit);
    }
    out
}

/// A rate in three digits or so.
pub fn rate(x: f64) -> String {
    match x {
        x if !x.is_finite() => UNKNOWN.to_owned(),
        x if x >= 9_999_500.0 => format!("{:.1} M", x / 1e6),
        x if x >= 999_500.0 => format!("{:.2} M", x / 1e6),
        x if x >= 9_995.0 => format!("{:.0} k", x / 1e3),
        x if x >= 999.5 => format!("{:.1} k", x / 1e3),
        x => format!("{x:.0}"),
    }
}

/// Microseconds in a unit that fits.
pub fn micros(us: f64) -> String {
    match us {
        us if !us.is_finite() => UNKNOWN.to_owned(),
        us if us >= 1e6 => format!("{:.2} s", us / 1e6),
        us if us >= 9_995.0 => format!("{:.0} ms", us / 1e3),
        us if us >= 999.5 => format!("{:.1} ms", us / 1e3),
        us if us >= 99.95 => format!("{us:.0} µs"),
        us if us >= 9.995 => format!("{us:.1} µs"),
        us => format!("{us:.2} µs"),
    }
}

/// Seconds in a unit that fits.
pub fn seconds(s: f64) -> String {
    match s {
        s if !s.is_finite() => UNKNOWN.to_owned(),
        s if s < 5e-4 => "0 ms".to_owned(),
        s if s < 1.0 => format!("{:.0} ms", s * 1e3),
        s => format!("{s:.2} s"),
    }
}

/// Bytes in a unit that fits.
pub fn bytes(n: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut x = n as f64;
    let mut unit = 0;
    while x >= 1024.0 && unit + 1 < units.len() {
        x /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{n} B") } else { format!("{x:.1} {}", units[unit]) }
}

/// Times something is as much as something else: amplification.
pub fn times(x: f64) -> String {
    if x.is_finite() { format!("{x:.2}") } else { UNKNOWN.to_owned() }
}

/// How much of the machine.
pub fn cores(x: f64) -> String {
    if x.is_finite() { format!("{x:.2} cores") } else { UNKNOWN.to_owned() }
}

/// A moment in milliseconds since 1970, as `2026-03-01 12:00:00 UTC`.
pub fn moment(ms: u64) -> String {
    let (days, of_day) = (ms / 86_400_000, ms / 1000 % 86_400);
    // Howard Hinnant's days_from_civil, turned round: eras of 400 years that begin in March.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        assert_eq!([0, 999, 1000, 1_234_567].map(count), ["0", "999", "1 000", "1 234 567"]);
        assert_eq!([5.0, 999.6, 12_345.0, 1_234_567.0].map(rate), ["5", "1.0 k", "12 k", "1.23 M"]);
        assert_eq!(
            [0.5, 12.34, 999.7, 25_000.0, 2e6].map(micros),
            ["0.50 µs", "12.3 µs", "1.0 ms", "25 ms", "2.00 s"]
        );
        assert_eq!([0.0, 0.0123, 1.5].map(seconds), ["0 ms", "12 ms", "1.50 s"]);
        assert_eq!([0, 1023, 1024, 5 << 30].map(bytes), ["0 B", "1023 B", "1.0 KiB", "5.0 GiB"]);
    }

    #[test]
    fn what_is_no_number_is_said() {
        for text in
            [rate(f64::INFINITY), micros(f64::NAN), seconds(f64::NAN), times(f64::NAN), cores(f64::NAN)]
        {
            assert_eq!(text, UNKNOWN);
        }
        assert_eq!(known(None, count), UNKNOWN);
        assert_eq!(known(Some(1000), count), "1 000");
    }

    #[test]
    fn moments_are_dates() {
        for (ms, expected) in [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_782_399_000, "2000-02-28 23:59:59 UTC"),
            (951_782_400_000, "2000-02-29 00:00:00 UTC"),
            (1_772_323_200_000, "2026-03-01 00:00:00 UTC"),
            (4_102_444_799_999, "2099-12-31 23:59:59 UTC"),
        ] {
            assert_eq!(moment(ms), expected);
        }
    }
}
