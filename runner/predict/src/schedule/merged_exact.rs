//! The grouping with the least iteration time of all 2^(L - 1).
//!
//! The messages of a step follow each other, so that a grouping of the first j layers matters to the others only by when its
//! last message ends, and earlier is never worse. With E(0) = 0 and T the cost of a message:
//!
//! ```text
//!   E(j) = min over i < j of  max(E(i), finished(j - 1)) + T(bytes of layers i .. j - 1)
//! ```
//!
//! with i no further back than where the section of layer j - 1 begins, and T that of the section.
//!
//! Time: O(L^2). Of equal groupings, the one whose last group is longest, then the one before it: the fewest messages are
//! not promised.

use super::{Grouping, MessageCost, StepProfile};

/// The groups of the least iteration time.
pub fn merged_exact(profile: &StepProfile, cost: impl MessageCost) -> Grouping {
    let layers = profile.layers();
    // For each number of layers: when their last message ends at the earliest, and where that group begins.
    let mut ends = vec![0.0_f64];
    let mut begins = vec![0];
    for end in 1..=layers {
        let finished = profile.finished(end - 1);
        let section = profile.section(end - 1);
        let cost = cost.of_section(section);
        let mut least = f64::INFINITY;
        let mut first = 0;
        let begins_here = |begin: &usize| profile.section(*begin) == section;
        for (begin, before) in ends.iter().enumerate().filter(|(begin, _)| begins_here(begin)) {
            let ended = before.max(finished) + cost.time(profile.bytes(begin, end));
            if ended < least {
                (least, first) = (ended, begin);
            }
        }
        ends.push(least);
        begins.push(first);
    }
    let mut closes = vec![false; layers];
    let mut end = layers;
    while end > 0 {
        closes[end - 1] = true;
        end = begins[end];
    }
    Grouping::closed_after(layers, |layer| closes[layer])
}
