//! The steps of an attempt that has ended whose spans are kept: those that a timeline shows, whole and on all ranks. An attempt of
//! few spans keeps all of them.

use record::{LaneId, Nanos};
use std::collections::BTreeSet;

/// The largest number of spans that an attempt keeps as they are.
pub(crate) const FEW: u64 = 4096;
/// The first steps that a timeline shows.
const FIRST: usize = 3;

/// A step of the compute lanes: from the first rank's begin to the last one's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) step: u64,
    pub(crate) begin: Nanos,
    pub(crate) end: Nanos,
}

impl Window {
    fn length(&self) -> Nanos {
        self.end - self.begin
    }
}

/// The steps that a timeline shows, of those that recorded spans, in ascending order: the first three, the one of median length
/// among the later ones, the longest. Of the chosen ones all are chosen again.
pub(crate) fn shown(recorded: &[Window]) -> Vec<Window> {
    let opening = recorded.len().min(FIRST);
    let mut by_length: Vec<usize> = (0..recorded.len()).collect();
    by_length.sort_by_key(|place| (recorded[*place].length(), *place));
    let later: Vec<usize> = by_length.iter().copied().filter(|place| *place >= opening).collect();
    let settled = if later.is_empty() { &by_length } else { &later };
    let mut places: BTreeSet<usize> = (0..opening).collect();
    places.extend(settled.get(settled.len().saturating_sub(1) / 2));
    places.extend(by_length.last());
    places.into_iter().map(|place| recorded[place]).collect()
}

/// The steps of an attempt whose spans stay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum KeptSpans {
    /// All of them; these steps of the compute lanes have some.
    All(BTreeSet<u64>),
    /// Those of a timeline's steps, of as many as `recorded` spans on the compute lanes.
    Timeline { steps: BTreeSet<(LaneId, u64)>, recorded: u64 },
}

impl Default for KeptSpans {
    fn default() -> Self {
        Self::All(BTreeSet::new())
    }
}

impl KeptSpans {
    /// Whether the spans of a step stay.
    pub(crate) fn keep(&self, lane: LaneId, step: u64) -> bool {
        match self {
            Self::All(_) => true,
            Self::Timeline { steps, .. } => steps.contains(&(lane, step)),
        }
    }

    /// Whether a step stays because spans of it do.
    pub(crate) fn show(&self, lane: LaneId, step: u64) -> bool {
        match self {
            Self::All(steps) => lane == LaneId::Compute && steps.contains(&step),
            Self::Timeline { steps, .. } => steps.contains(&(lane, step)),
        }
    }

    /// Number of steps of the compute lanes that recorded spans; `None` if all of them stay.
    pub(crate) fn recorded(&self) -> Option<u64> {
        match self {
            Self::All(_) => None,
            Self::Timeline { recorded, .. } => Some(*recorded),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Steps 10, 20, ... of these lengths, one after another.
    fn windows(lengths: &[u64]) -> Vec<Window> {
        let mut end = 0;
        let window = |(place, length): (u64, &u64)| {
            let begin = end;
            end += length;
            Window { step: 10 * place, begin: Nanos(begin), end: Nanos(end) }
        };
        (1..).zip(lengths).map(window).collect()
    }

    fn steps(shown: &[Window]) -> Vec<u64> {
        shown.iter().map(|window| window.step).collect()
    }

    #[test]
    fn the_first_three_a_typical_one_and_the_longest_are_shown_and_chosen_again() {
        let cases: [(&[u64], &[u64]); 7] = [
            (&[], &[]),
            (&[5], &[10]),
            (&[5, 6, 7], &[10, 20, 30]),
            (&[9, 9, 9, 1, 2, 3, 4, 5], &[10, 20, 30, 60]),
            (&[9, 8, 8, 1, 20, 3, 4, 5], &[10, 20, 30, 50, 70]),
            (&[1, 1, 1, 1, 1, 1], &[10, 20, 30, 50, 60]),
            (&[99, 1, 1, 7, 8], &[10, 20, 30, 40]),
        ];
        for (lengths, expected) in cases {
            let first = shown(&windows(lengths));
            assert_eq!(steps(&first), expected, "{lengths:?}");
            assert_eq!(shown(&first), first);
        }
    }
}
