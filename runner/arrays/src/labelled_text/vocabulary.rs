//! Which tokens have a number of their own.

use super::LabelledTextFault;
use recipe::{SPECIAL_TOKENS, UNKNOWN_TOKEN};
use std::cmp::Reverse;
use std::collections::HashMap;

/// The most different tokens that are counted.
pub const MOST_TOKENS: u32 = 1 << 22;

/// The tokens of the training file, counted.
#[derive(Default)]
pub(super) struct Counting {
    /// Places in `counts`, in the order in which tokens were met.
    places: HashMap<Box<[u8]>, u32>,
    counts: Vec<u64>,
}

impl Counting {
    /// Counts a token of a text that begins in this line, and gives it a number for the time being.
    pub(super) fn count(&mut self, token: &[u8], line: u64) -> Result<u32, LabelledTextFault> {
        let place = match self.places.get(token) {
            Some(place) => *place,
            None if self.counts.len() as u32 == MOST_TOKENS => {
                return Err(LabelledTextFault::Tokens { line });
            }
            None => {
                let place = self.counts.len() as u32;
                self.places.insert(token.into(), place);
                self.counts.push(0);
                place
            }
        };
        self.counts[place as usize] += 1;
        Ok(place + SPECIAL_TOKENS)
    }

    /// How many there are.
    pub(super) fn different(&self) -> u32 {
        self.counts.len() as u32
    }

    /// The `most` most frequent ones; of equally frequent ones the first in byte order.
    pub(super) fn ranked(self, most: u32) -> Vocabulary {
        let mut order: Vec<(Reverse<u64>, &[u8], u32)> = self
            .places
            .iter()
            .map(|(token, place)| (Reverse(self.counts[*place as usize]), &**token, *place))
            .collect();
        // No two tokens are the same, so that the order does not depend on the map's.
        order.sort_unstable();
        order.truncate(most as usize);
        let mut numbers = vec![UNKNOWN_TOKEN; self.counts.len()];
        for (number, (_, _, place)) in (SPECIAL_TOKENS..).zip(&order) {
            numbers[*place as usize] = number;
        }
        let size = order.len() as u32 + SPECIAL_TOKENS;
        Vocabulary { places: self.places, numbers, size }
    }
}

/// The numbers that tokens keep.
pub(super) struct Vocabulary {
    places: HashMap<Box<[u8]>, u32>,
    /// Number of each token by its place; [`UNKNOWN_TOKEN`] for those that have none of their own.
    numbers: Vec<u32>,
    size: u32,
}

impl Vocabulary {
    /// The number of a token.
    pub(super) fn of(&self, token: &[u8]) -> u32 {
        self.places.get(token).map_or(UNKNOWN_TOKEN, |place| self.numbers[*place as usize])
    }

    /// The number in place of the one for the time being; padding stays.
    pub(super) fn renumbered(&self, number: u32) -> u32 {
        number.checked_sub(SPECIAL_TOKENS).map_or(number, |place| self.numbers[place as usize])
    }

    /// Numbers are below it.
    pub(super) fn size(&self) -> u32 {
        self.size
    }
}
