//! Costs of all-reduces: MG-WFBP Table II, and those that are not in it.
//!
//! With N workers, each row is a line a + b M in the size M of the vector in bytes (Eq. 9). gamma counts bytes, as beta does.
//!
//! | all-reduce | a | b |
//! |---|---|---|
//! | binary tree | 2 alpha log N | (2 beta + gamma) log N |
//! | recursive doubling | alpha log N | (beta + gamma) log N |
//! | recursive halving and doubling | 2 alpha log N | 2 beta - (2 beta + gamma) / N + gamma |
//! | ring | 2 (N - 1) alpha | 2 (N - 1) / N beta + (N - 1) / N gamma |
//! | a ring's bytes in rank order | 2 alpha | 2 (N - 1) / N beta + gamma / N |
//! | all-gather | alpha | (N - 1) beta + gamma |
//!
//! The table is for N a power of two. For other N the logarithm of a tree is rounded up, as its rounds are. Recursive doubling, and
//! halving and doubling, work among the largest power of two of workers up to N, and fold the others into them: a vector in, its sum, and a
//! vector out, 2 (alpha + beta M) + gamma M (Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in
//! MPICH", 2005). In a run, where a host may get two messages at the same time and those that have no guest begin earlier, a step with
//! recursive doubling among such a number may take up to beta M more, or an alpha less. In the rows that are not in the table one sum shows,
//! the last one: the others are made while vectors arrive. Stars and hierarchies: [`crate::tree`].

use crate::linear::Linear;
use crate::network::LinkRates;
use std::num::NonZeroU32;

/// The most bytes that a ring sends in one part: it passes parts of larger chunks on before the rest has come, and is then faster than
/// its row.
pub const RING_SEGMENT: usize = 512 << 10;
/// The most parts of a chunk that are on their way around a ring at once.
pub const RING_WINDOW: usize = 4;

/// Table II, row 1.
pub fn binary_tree(rates: LinkRates, workers: NonZeroU32) -> Linear {
    let rounds = rounds(workers);
    Linear { a: 2.0 * rates.alpha() * rounds, b: (2.0 * rates.beta() + rates.gamma()) * rounds }
}

/// Table II, row 2, and the fold.
pub fn recursive_doubling(rates: LinkRates, workers: NonZeroU32) -> Linear {
    let Fold { rounds, cost, .. } = folded(rates, workers);
    Linear { a: rates.alpha() * rounds + cost.a, b: (rates.beta() + rates.gamma()) * rounds + cost.b }
}

/// Table II, row 3, and the fold.
pub fn halving_doubling(rates: LinkRates, workers: NonZeroU32) -> Linear {
    let Fold { rounds, others, cost } = folded(rates, workers);
    // As in the table, with the common factor taken out: the difference of close numbers may not fall below zero.
    Linear {
        a: 2.0 * rates.alpha() * rounds + cost.a,
        b: (2.0 * rates.beta() + rates.gamma()) * others + cost.b,
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
    let added = added(rates, workers) / f64::from(workers.get());
    Linear { a: rounds * rates.alpha(), b: 2.0 * others(workers) * rates.beta() + added }
}

/// Each vector to every worker, all of which add. Not in Table II.
pub fn all_gather(rates: LinkRates, workers: NonZeroU32) -> Linear {
    let others = f64::from(workers.get() - 1);
    let rounds = if workers.get() > 1 { 1.0 } else { 0.0 };
    Linear { a: rounds * rates.alpha(), b: others * rates.beta() + added(rates, workers) }
}

/// Seconds of a ring whose chunks of c = M / N bytes travel in s segments of m = c / s, each of which is passed on as soon as it is added:
/// (N - 1) max(c beta, alpha + m (beta + gamma)) + (N - 2) max(c beta, alpha + m beta) + alpha + c beta, with one segment row 4 of
/// Table II. It is no line in M, and for gamma up to beta and all segments on their way at once.
pub fn pipelined_ring(rates: LinkRates, workers: NonZeroU32, segments: NonZeroU32, bytes: u64) -> f64 {
    in_segments(rates, workers, f64::from(segments.get()), bytes)
}

fn in_segments(rates: LinkRates, workers: NonZeroU32, segments: f64, bytes: u64) -> f64 {
    let others = f64::from(workers.get() - 1);
    if others == 0.0 {
        return 0.0;
    }
    let chunk = bytes as f64 / f64::from(workers.get());
    let segment = chunk / segments;
    let busy = rates.beta() * chunk;
    let message = |bytes: f64| rates.alpha() + rates.beta() * bytes;
    let scatter = busy.max(message(segment) + rates.gamma() * segment);
    others * scatter + (others - 1.0) * busy.max(message(segment)) + message(chunk)
}

/// Seconds of a ring as it runs: chunks above [`RING_SEGMENT`] travel in segments, at most [`RING_WINDOW`] of them at once. Where a start-up
/// is longer than the transfer of the others, w = s / 4 rounded up windows follow each other: 2 (N - 1) w (alpha + m beta), and the rest of
/// the last one, (s - 4 (w - 1) - 1) m beta.
pub fn ring_in_windows(rates: LinkRates, workers: NonZeroU32, bytes: u64) -> f64 {
    let chunk = bytes as f64 / f64::from(workers.get());
    let segments = (chunk / RING_SEGMENT as f64).ceil().max(1.0);
    let segment = rates.beta() * chunk / segments;
    let window = RING_WINDOW as f64;
    if workers.get() > 1 && segments > window && rates.alpha() > (window - 1.0) * segment {
        let windows = (segments / window).ceil();
        let rest = segments - window * (windows - 1.0) - 1.0;
        return 2.0 * f64::from(workers.get() - 1) * windows * (rates.alpha() + segment) + rest * segment;
    }
    in_segments(rates, workers, segments, bytes)
}

/// gamma, unless nothing is added.
fn added(rates: LinkRates, workers: NonZeroU32) -> f64 {
    if workers.get() > 1 { rates.gamma() } else { 0.0 }
}

/// The largest power of two of workers up to N, which exchange, and what the others add.
struct Fold {
    /// The logarithm of that power.
    rounds: f64,
    /// (q - 1) / q of that power q.
    others: f64,
    cost: Linear,
}

fn folded(rates: LinkRates, workers: NonZeroU32) -> Fold {
    let rounds = workers.ilog2();
    let others = 1.0 - 0.5_f64.powi(rounds as i32);
    let vectors = if workers.is_power_of_two() { 0.0 } else { 2.0 };
    let sums = vectors / 2.0;
    let cost = Linear { a: vectors * rates.alpha(), b: vectors * rates.beta() + sums * rates.gamma() };
    Fold { rounds: f64::from(rounds), others, cost }
}

/// log N, rounded up: the rounds of a tree of N workers.
pub(crate) fn rounds(workers: NonZeroU32) -> f64 {
    f64::from(u32::BITS - (workers.get() - 1).leading_zeros())
}

/// (N - 1) / N.
fn others(workers: NonZeroU32) -> f64 {
    f64::from(workers.get() - 1) / f64::from(workers.get())
}
