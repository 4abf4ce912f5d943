//! Numbers with units, as people write them.

use crate::Extent;
use std::time::Duration;

/// A number and its unit: `"15min"`, `"1.5 s"`, `"25 epochs"`.
fn split(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let digits = text.find(|letter: char| !matches!(letter, '0'..='9' | '.' | '_')).unwrap_or(text.len());
    let number: f64 = text[..digits].replace('_', "").parse().ok()?;
    number.is_finite().then(|| (number, text[digits..].trim()))
}

/// The units of time, and how many nanoseconds each has.
const TIMES: [(&str, f64); 7] =
    [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9), ("min", 60e9), ("h", 3600e9), ("d", 86400e9)];

/// `"50us"`, `"15min"`, `"1.5h"`: more than nothing, less than a century.
pub fn duration(text: &str) -> Option<Duration> {
    let (number, unit) = split(text)?;
    // As plans and pages write it, with either of the letter's two characters.
    let unit = if matches!(unit, "\u{b5}s" | "\u{3bc}s") { "us" } else { unit };
    let (_, factor) = TIMES.iter().find(|(name, _)| *name == unit)?;
    let nanoseconds = (number * factor).round();
    (1.0..3.2e18).contains(&nanoseconds).then(|| Duration::from_nanos(nanoseconds as u64))
}

/// `"1 epoch"`, `"0.5 epochs"`, `"200 steps"`.
pub(crate) fn extent(text: &str) -> Option<Extent> {
    let (number, unit) = split(text)?;
    match unit {
        "epoch" | "epochs" if number <= 1e6 => Some(Extent::Epochs(number)),
        "step" | "steps" if number.fract() == 0.0 && number <= 1e12 => Some(Extent::Steps(number as u64)),
        _ => None,
    }
}

/// `"5%"` is 0.05; `"0.05"` too.
pub fn share(text: &str) -> Option<f64> {
    match split(text)? {
        (number, "%") => Some(number / 100.0),
        (number, "") => Some(number),
        _ => None,
    }
}

/// The units of bandwidth, and how many bits per second each has.
const BANDWIDTHS: [(&str, f64); 8] = [
    ("Gbit/s", 1e9),
    ("Mbit/s", 1e6),
    ("kbit/s", 1e3),
    ("bit/s", 1.0),
    ("GB/s", 8e9),
    ("MB/s", 8e6),
    ("kB/s", 8e3),
    ("B/s", 8.0),
];

/// `"1Gbit/s"`, `"125MB/s"`, in bytes per second: at least one, at most a terabyte.
pub(crate) fn bandwidth(text: &str) -> Option<u64> {
    let (number, unit) = split(text)?;
    let (_, factor) = BANDWIDTHS.iter().find(|(name, _)| *name == unit)?;
    let bytes = (number * factor / 8.0).round();
    (1.0..=1e12).contains(&bytes).then_some(bytes as u64)
}

/// The units of size, and how many bytes each has.
const SIZES: [(&str, f64); 7] = [
    ("GiB", 1_073_741_824.0),
    ("MiB", 1_048_576.0),
    ("KiB", 1024.0),
    ("GB", 1e9),
    ("MB", 1e6),
    ("kB", 1e3),
    ("B", 1.0),
];

/// `"25MiB"`, `"1MB"`, in bytes: at least one, at most a terabyte.
pub(crate) fn size(text: &str) -> Option<u64> {
    let (number, unit) = split(text)?;
    let (_, factor) = SIZES.iter().find(|(name, _)| *name == unit)?;
    let bytes = (number * factor).round();
    (1.0..=1e12).contains(&bytes).then_some(bytes as u64)
}

/// Bytes per second as people write them: `1Gbit/s`.
pub(crate) fn show_bandwidth(bytes: u64) -> String {
    let bits = bytes as f64 * 8.0;
    let (unit, factor) = BANDWIDTHS[..4].iter().find(|(_, factor)| bits >= *factor).unwrap_or(&BANDWIDTHS[3]);
    format!("{}{unit}", bits / factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bandwidths_are_read_and_shown() {
        assert_eq!(bandwidth("1Gbit/s"), Some(125_000_000));
        assert_eq!(bandwidth("100 Mbit/s"), Some(12_500_000));
        assert_eq!(bandwidth("125MB/s"), Some(125_000_000));
        assert_eq!(bandwidth("8bit/s"), Some(1));
        for wrong in ["1", "1Gbit", "0Gbit/s", "1e9bit/s", "1GiB/s", "99999Gbit/s", ""] {
            assert_eq!(bandwidth(wrong), None, "{wrong}");
        }
        assert_eq!(show_bandwidth(125_000_000), "1Gbit/s");
        assert_eq!(show_bandwidth(312_500), "2.5Mbit/s");
        assert_eq!(show_bandwidth(1), "8bit/s");
    }

    #[test]
    fn sizes_have_a_unit() {
        assert_eq!(size("25MiB"), Some(26_214_400));
        assert_eq!(size("1 MB"), Some(1_000_000));
        assert_eq!(size("0.5KiB"), Some(512));
        for wrong in ["1", "1mb", "0B", "25 mebibytes", "99999GiB", "-1MB", ""] {
            assert_eq!(size(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn durations_have_a_unit() {
        let check = |text: &str, nanoseconds: Option<u64>| {
            assert_eq!(duration(text), nanoseconds.map(Duration::from_nanos), "{text}");
        };
        check("50us", Some(50_000));
        check("50\u{b5}s", Some(50_000));
        check("50 \u{3bc}s", Some(50_000));
        check("15min", Some(900_000_000_000));
        check(" 1.5 s ", Some(1_500_000_000));
        check("2d", Some(172_800_000_000_000));
        check("15", None);
        check("0s", None);
        check("-1s", None);
        check("1e3s", None);
        check("900000d", None);
        check("", None);
    }

    #[test]
    fn extents_are_epochs_or_whole_steps() {
        assert_eq!(extent("1 epoch"), Some(Extent::Epochs(1.0)));
        assert_eq!(extent("0.5epochs"), Some(Extent::Epochs(0.5)));
        assert_eq!(extent("200 steps"), Some(Extent::Steps(200)));
        assert_eq!(extent("1.5 steps"), None);
        assert_eq!(extent("3"), None);
    }

    #[test]
    fn shares_may_be_per_cent() {
        assert_eq!(share("5%"), Some(0.05));
        assert_eq!(share("0.1"), Some(0.1));
        assert_eq!(share("5 epochs"), None);
    }
}
