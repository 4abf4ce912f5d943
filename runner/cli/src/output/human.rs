//! Numbers in units that people use.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use record::Nanos;
use std::time::Duration;

/// A length of time with about three digits: `412 µs`, `12.3 ms`, `4.56 s`, `3 min 05 s`, `2 h 10 min`.
pub(crate) fn time(time: Nanos) -> String {
    let seconds = time.seconds();
    match seconds {
        s if s < 1e-3 => format!("{} µs", digits(s * 1e6)),
        s if s < 1.0 => format!("{} ms", digits(s * 1e3)),
        s if s < 59.95 => format!("{} s", digits(s)),
        s => long(s.round() as u64),
    }
}

/// A length of time in whole seconds: `7 s`, `3 min 05 s`.
pub(crate) fn whole(time: Duration) -> String {
    match time.as_secs() {
        seconds if seconds < 60 => format!("{seconds} s"),
        seconds => long(seconds),
    }
}

fn long(seconds: u64) -> String {
    match seconds {
        s if s < 3600 => format!("{} min {:02} s", s / 60, s % 60),
        s if s < 86_400 => format!("{} h {:02} min", s / 3600, s % 3600 / 60),
        s => format!("{} d {:02} h", s / 86_400, s % 86_400 / 3600),
    }
}

/// Three digits, where the unit leaves room for them.
fn digits(value: f64) -> String {
    match value {
        v if v < 9.995 => format!("{v:.2}"),
        v if v < 99.95 => format!("{v:.1}"),
        v => format!("{v:.0}"),
    }
}

/// Bytes in binary units: `3.2 MiB`.
pub(crate) fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1023.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} B") } else { format!("{value:.1} {}", UNITS[unit]) }
}

/// A share of one as per cent: `97.6 %`.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// A value of a metric: an accuracy in per cent, a loss with four digits, a distance with as many that count.
pub(crate) fn metric(metric: recipe::Metric, value: f64) -> String {
    match metric {
        recipe::Metric::ConsensusDistance if value > 0.0 && value < 0.01 => format!("{value:.3e}"),
        _ if metric.higher_is_better() => percent(value),
        _ => format!("{value:.4}"),
    }
}

/// A metric in words: `test accuracy`.
pub(crate) fn metric_name(metric: recipe::Metric) -> String {
    metric.words()
}

/// A count with its noun: `1 run`, `3 runs`, `10,000 runs`.
pub(crate) fn count(count: usize, noun: &str) -> String {
    format!("{} {noun}{}", thousands(count as u64), if count == 1 { "" } else { "s" })
}

/// A number with a comma between groups of three digits: `10,000`.
pub(crate) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A moment in the user's time zone: `2026-11-20 14:05`.
pub(crate) fn moment(unix: i64) -> String {
    let Ok(stamp) = Timestamp::from_second(unix) else { return "–".to_owned() };
    stamp.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M").to_string()
}

/// How long ago a moment was: `3 min ago`.
pub(crate) fn ago(unix: i64, now: i64) -> String {
    match now.saturating_sub(unix) {
        seconds if seconds < 60 => "just now".to_owned(),
        seconds if seconds < 3600 => format!("{} min ago", seconds / 60),
        seconds if seconds < 86_400 => format!("{} h ago", seconds / 3600),
        seconds => format!("{} d ago", seconds / 86_400),
    }
}

/// The current moment, as seconds since 1970.
pub(crate) fn now() -> i64 {
    Timestamp::now().as_second()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_digits() {
        let told = |seconds: f64| time(Nanos((seconds * 1e9) as u64));
        assert_eq!(told(0.000_412), "412 µs");
        assert_eq!(told(0.0123), "12.3 ms");
        assert_eq!(told(0.9999), "1000 ms");
        assert_eq!(told(4.561), "4.56 s");
        assert_eq!(told(59.96), "1 min 00 s");
        assert_eq!(told(185.0), "3 min 05 s");
        assert_eq!(told(7_812.0), "2 h 10 min");
        assert_eq!(told(100_000.0), "1 d 03 h");
        assert_eq!(whole(Duration::from_millis(7_900)), "7 s");
    }

    #[test]
    fn moments_of_the_past_are_rounded_down() {
        let told =
            [-5, 59, 60, 3_599, 3_600, 86_399, 86_400, 864_000].map(|past| ago(1_000_000 - past, 1_000_000));
        let expected =
            ["just now", "just now", "1 min ago", "59 min ago", "1 h ago", "23 h ago", "1 d ago", "10 d ago"];
        assert_eq!(told, expected);
    }

    #[test]
    fn bytes_change_their_unit_before_four_digits() {
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(1024), "1.0 KiB");
        assert_eq!(bytes(1_048_575), "1.0 MiB");
        assert_eq!(bytes(u64::MAX), "16777216.0 TiB");
    }

    #[test]
    fn counts_are_readable() {
        assert_eq!(count(1, "run"), "1 run");
        assert_eq!(count(0, "run"), "0 runs");
        assert_eq!(count(1_234_567, "cell"), "1,234,567 cells");
    }
}
