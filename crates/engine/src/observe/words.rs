//! Figures as people read them: bytes and durations in a unit that fits, moments in UTC.

use std::time::Duration;

/// `512 B`, `64.0 MiB`.
pub fn bytes(n: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if n < 1024 {
        return format!("{n} B");
    }
    let (mut value, mut unit) = (n as f64 / 1024.0, UNITS[0]);
    for next in &UNITS[1..] {
        // What would be printed as 1024.0 is one of the next.
        if value < 1023.95 {
            break;
        }
        (value, unit) = (value / 1024.0, next);
    }
    format!("{value:.1} {unit}")
}

/// `850 µs`, `12.3 ms`, `4.20 s`, `3 min 20 s`, `2 h 5 min`, `1 day 3 h`.
pub fn duration(d: Duration) -> String {
    let s = d.as_secs();
    match d.as_micros() {
        us @ 0..1000 => format!("{us} µs"),
        us @ 1000..1_000_000 => format!("{:.1} ms", us as f64 / 1e3),
        us @ 1_000_000..60_000_000 => format!("{:.2} s", us as f64 / 1e6),
        _ if s < 3600 => format!("{} min {} s", s / 60, s % 60),
        _ if s < 86400 => format!("{} h {} min", s / 3600, s / 60 % 60),
        _ => format!("{} {} h", count(s / 86400, "day"), s / 3600 % 24),
    }
}

/// `156.2 MiB/s`; nothing moved in no time is 0.
pub fn speed(n: u64, took: Duration) -> String {
    let per_sec = if took.is_zero() { n as f64 } else { n as f64 / took.as_secs_f64() };
    format!("{}/s", bytes(per_sec as u64))
}

/// `1 table`, `3 tables`.
pub fn count(n: u64, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

/// Milliseconds since 1970 as `2026-11-21T23:54:06.123Z`.
pub fn utc(ms: u64) -> String {
    let (day, of_day) = (ms / 86_400_000, ms % 86_400_000);
    let (year, month, day_of_month) = civil(day);
    let (h, m) = (of_day / 3_600_000, of_day / 60_000 % 60);
    let (s, ms) = (of_day / 1000 % 60, of_day % 1000);
    format!("{year:04}-{month:02}-{day_of_month:02}T{h:02}:{m:02}:{s:02}.{ms:03}Z")
}

/// Year, month and day of a day since 1970 (Hinnant, `civil_from_days`).
fn civil(day: u64) -> (u64, u64, u64) {
    let z = day + 719_468;
    let (era, of_era) = (z / 146_097, z % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_utc() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399_999, "2000-02-28T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_795_305_246_123, "2026-11-21T23:54:06.123Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(utc(ms), text);
        }
    }

    #[test]
    fn figures_have_units() {
        assert_eq!(
            [0, 1023, 1024, 1536, 1 << 20].map(bytes),
            ["0 B", "1023 B", "1.0 KiB", "1.5 KiB", "1.0 MiB"]
        );
        assert_eq!(bytes((1 << 20) - 1), "1.0 MiB");
        assert_eq!(bytes(u64::MAX), "16.0 EiB");
        let ms = |ms| duration(Duration::from_millis(ms));
        assert_eq!(
            [ms(12), ms(4200), ms(200_000), ms(7_500_000)],
            ["12.0 ms", "4.20 s", "3 min 20 s", "2 h 5 min"]
        );
        assert_eq!([ms(273_600_000), duration(Duration::from_micros(850))], ["3 days 4 h", "850 µs"]);
        assert_eq!(speed(1 << 20, Duration::from_millis(500)), "2.0 MiB/s");
        assert_eq!((count(1, "table"), count(0, "table")), ("1 table".to_owned(), "0 tables".to_owned()));
    }
}
