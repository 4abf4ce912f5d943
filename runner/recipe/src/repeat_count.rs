//! The argument of `--repeats`.

use std::fmt;
use std::str::FromStr;

/// How often cells are run: `5`, or `3..24` until decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RepeatCount {
    /// Runs of each cell (`repeats.count`); the fewest, where there is an `at_most`.
    pub count: u32,
    /// Most runs of a cell that is not decided (`repeats.at-most`); `None` for exactly `count`.
    pub at_most: Option<u32>,
}

/// Arguments that are no number of repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a number from 1 to 10000 such as 5, or two such as 3..24: 3 at first, at most 24 until it is decided"
)]
pub struct NoRepeatCount;

impl From<u32> for RepeatCount {
    fn from(count: u32) -> Self {
        Self { count, at_most: None }
    }
}

impl FromStr for RepeatCount {
    type Err = NoRepeatCount;

    fn from_str(text: &str) -> Result<Self, NoRepeatCount> {
        let number = |text: &str| match text.parse() {
            Ok(number @ 1..=10_000) => Ok(number),
            _ => Err(NoRepeatCount),
        };
        match text.split_once("..") {
            None => Ok(number(text)?.into()),
            Some((count, most)) => Ok(Self { count: number(count)?, at_most: Some(number(most)?) }),
        }
    }
}

impl fmt::Display for RepeatCount {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.at_most {
            None => self.count.fmt(out),
            Some(most) => write!(out, "{}..{most}", self.count),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_ranges() {
        for text in ["5", "3..24", "1..10000"] {
            assert_eq!(text.parse::<RepeatCount>().unwrap().to_string(), text);
        }
        for text in ["", "0", "10001", "3..", "..24", "3..=24", "3..0", "3-24", "-1", "3..24..48", "five"] {
            assert_eq!(text.parse::<RepeatCount>(), Err(NoRepeatCount), "{text}");
        }
    }
}
