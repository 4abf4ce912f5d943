//! MG-WFBP Algorithm 1.
//!
//! From the last layer down, a layer is merged with the one that the backward pass finishes after it, if that one is
//! finished less than a start-up time after the message could begin (Theorem 1, Eq. 27):
//!
//! ```text
//!   merge l into l - 1   if   tau_b(l - 2) - tau_c(l) < a
//! ```
//!
//! Mended, as the printed text does not run: its loop reads tau_b(0), which is the end of the backward pass, and line 9 never
//! sets tau_b(1). The threshold is a; the "b" in the proof of Theorem 1 is a slip.
//!
//! Departures: a is saved only where both layers have weights (C.2 of the proof computes it as T(p) + T(q) - T(p + q)), so
//! that nothing is saved beside a layer without any. A merge changes no begin of an earlier message, so that one pass over the
//! layers replaces the recalculation after each merge: O(L) in place of O(L^2).
//!
//! Never later than one message per layer. Not optimal, although Theorem 1 says so: with backward times 1, 1, 2, one byte
//! each, a = 2 and b = 1 it takes 9 where 8 is possible. [`merged_exact`](super::merged_exact) finds that.

use super::{Grouping, MessageCost, StepProfile};

/// The groups of Algorithm 1.
pub fn merged(profile: &StepProfile, cost: impl MessageCost) -> Grouping {
    let layers = profile.layers();
    // The first layer of the open group, and when the message before it ends.
    let mut first = 0;
    let mut free = 0.0_f64;
    Grouping::closed_after(layers, |layer| {
        let bytes = profile.bytes(first, layer + 1);
        let begin = free.max(profile.finished(layer));
        let cost = cost.of_section(profile.section(layer));
        let merges = layer + 1 < layers && !profile.ends_section(layer) && {
            let both = bytes > 0 && profile.bytes(layer + 1, layer + 2) > 0;
            let saved = if both { cost.start_up() } else { 0.0 };
            profile.finished(layer + 1) - begin < saved
        };
        if !merges {
            first = layer + 1;
            free = begin + cost.time(bytes);
        }
        !merges
    })
}
