//! What an all-reduce costs: MG-WFBP Table II.
//!
//! With N workers, each row is a line a + b M in the size M of the vector in bytes (Eq. 9). The table is for N a power of two;
//! for other N its logarithms are rounded up, as the rounds are. gamma counts bytes, as beta does.
//!
//! | all-reduce | a | b |
//! |---|---|---|
//! | binary tree | 2 alpha log N | (2 beta + gamma) log N |
//! | recursive doubling | alpha log N | (beta + gamma) log N |
//! | recursive halving and doubling | 2 alpha log N | 2 beta - (2 beta + gamma) / N + gamma |
//! | ring | 2 (N - 1) alpha | 2 (N - 1) / N beta + (N - 1) / N gamma |

use crate::linear::Linear;
use crate::network::LinkRates;
use std::num::NonZeroU32;

/// The most bytes that a ring sends in one part: it passes parts of larger chunks on before the rest has come, and is then faster than
/// its row.
pub const RING_SEGMENT: usize = 512 << 10;

/// Table II, row 1.
pub fn binary_tree(rates: LinkRates, workers: NonZeroU32) -> Linear {
    let rounds = rounds(workers);
    Linear { a: 2.0 * rates.alpha() * rounds, b: (2.0 * rates.beta() + rates.gamma()) * rounds }
}

/// Table II, row 2.
pub fn recursive_doubling(rates: LinkRates, workers: NonZeroU32) -> Linear {
    let rounds = rounds(workers);
    Linear { a: rates.alpha() * rounds, b: (rates.beta() + rates.gamma()) * rounds }
}

/// Table II, row 3.
pub fn halving_doubling(rates: LinkRates, workers: NonZeroU32) -> Linear {
    // As in the table, with the common factor taken out: the difference of close numbers may not fall below zero.
    Linear {
        a: 2.0 * rates.alpha() * rounds(workers),
        b: (2.0 * rates.beta() + rates.gamma()) * others(workers),
    }
}

/// Table II, row 4; also the communication in Pipe-SGD Eq. 5, without its S.
pub fn ring(rates: LinkRates, workers: NonZeroU32) -> Linear {
    let rounds = 2.0 * f64::from(workers.get() - 1);
    Linear {
        a: rounds * rates.alpha(),
        b: 2.0 * others(workers) * rates.beta() + others(workers) * rates.gamma(),
    }
}

/// The ring's bytes in two rounds, as `reduce-order = "rank"` sends them: each part straight to the worker that adds it, each sum straight
/// to all. Not in Table II.
pub fn in_rank_order(rates: LinkRates, workers: NonZeroU32) -> Linear {
    let rounds = if workers.get() > 1 { 2.0 } else { 0.0 };
    Linear { a: rounds * rates.alpha(), ..ring(rates, workers) }
}

/// log N, rounded up: the rounds of a tree of N workers.
pub(crate) fn rounds(workers: NonZeroU32) -> f64 {
    f64::from(u32::BITS - (workers.get() - 1).leading_zeros())
}

/// (N - 1) / N.
fn others(workers: NonZeroU32) -> f64 {
    f64::from(workers.get() - 1) / f64::from(workers.get())
}
