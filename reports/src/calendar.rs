//! Moments in universal time, so that a page does not depend on a time zone.

/// `2026-11-20 13:15 UTC`; empty for 0, an unknown moment.
pub(crate) fn moment(seconds: i64) -> String {
    if seconds == 0 {
        return String::new();
    }
    let days = seconds.div_euclid(86_400);
    let rest = seconds.rem_euclid(86_400);
    let (year, month, day) = civil(days);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02} UTC", rest / 3600, rest % 3600 / 60)
}

/// `2026-11-20T13:15:00Z`, as RFC 3339 has it.
pub(crate) fn stamp(seconds: i64) -> String {
    let (year, month, day) = civil(seconds.div_euclid(86_400));
    let rest = seconds.rem_euclid(86_400);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", rest / 3600, rest % 3600 / 60, rest % 60)
}

/// The proleptic Gregorian date of a day counted from 1970-01-01. The calendar repeats every 400 years, which
/// are 146,097 days; years are counted from March, so that the leap day is the last one.
fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_moments() {
        assert_eq!(moment(0), "");
        assert_eq!(moment(1), "1970-01-01 00:00 UTC");
        assert_eq!(moment(951_782_400), "2000-02-29 00:00 UTC");
        assert_eq!(moment(1_700_000_000), "2023-11-14 22:13 UTC");
        assert_eq!(moment(-86_400), "1969-12-31 00:00 UTC");
        assert_eq!(stamp(1_700_000_000), "2023-11-14T22:13:20Z");
    }
}
