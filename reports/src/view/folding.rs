//! Whether the conditions of a page are folded away.

use comparison::study::Study;

/// Up to this number of conditions nothing is folded away.
const MOST_OPEN: usize = 4;

/// Whether conditions are folded away.
pub(crate) fn are_folded(study: &Study) -> bool {
    study.conditions.len() > MOST_OPEN
}
