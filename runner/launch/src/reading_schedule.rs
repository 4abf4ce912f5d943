//! When the counters of a run's machines are read.

use record::Nanos;

/// First interval between two readings.
const SECOND: Nanos = Nanos(1_000_000_000);
/// Readings after which the interval doubles.
const AT_ONE_INTERVAL: u32 = 16;

/// Each second at first, and half as often after every sixteen readings: a run of a day has some 200 readings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadingSchedule {
    next: Nanos,
    interval: Nanos,
    left: u32,
}

impl Default for ReadingSchedule {
    fn default() -> Self {
        Self { next: SECOND, interval: SECOND, left: AT_ONE_INTERVAL }
    }
}

impl ReadingSchedule {
    /// Whether they are to be read `now`, on the clock of the run; if so, the next reading is an interval later.
    pub(crate) fn is_due(&mut self, now: Nanos) -> bool {
        if now < self.next {
            return false;
        }
        self.left -= 1;
        if self.left == 0 {
            self.interval += self.interval;
            self.left = AT_ONE_INTERVAL;
        }
        self.next = now + self.interval;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readings_become_rarer_and_are_few_even_in_a_day() {
        let mut schedule = ReadingSchedule::default();
        let due: Vec<u64> = (0..86_400 * 4)
            .filter(|quarter| schedule.is_due(Nanos(quarter * 250_000_000)))
            .map(|quarter| quarter / 4)
            .collect();
        assert_eq!(due[..18], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 18, 20]);
        assert!((190..220).contains(&due.len()), "{}", due.len());
    }
}
