//! Cost of an exchange between a centre and P workers (SC17 section 6.1).
//!
//! W is the model in bytes; the paper counts words.

use crate::all_reduce::rounds;
use crate::network::LinkRates;
use std::num::NonZeroU32;

/// One worker after the other, as in Original EASGD: P (alpha + |W| beta) seconds.
pub fn one_by_one(rates: LinkRates, workers: NonZeroU32, bytes: u64) -> f64 {
    f64::from(workers.get()) * rates.message().time(bytes)
}

/// A tree, as in Sync EASGD: log P (alpha + |W| beta) seconds; the logarithm is rounded up.
pub fn tree(rates: LinkRates, workers: NonZeroU32, bytes: u64) -> f64 {
    rounds(workers) * rates.message().time(bytes)
}

/// Weights from `servers` servers to one worker after the other, and the gradient of the last one, whose bytes are `coded` of those of
/// the weights: 2 alpha + (P / s + coded) |W| beta seconds, or 2 alpha + (1 + (P - 1 + coded) / s) |W| beta where the link of the last
/// worker, which carries a whole model, is slower than those of many servers. All other gradients travel while later workers compute.
pub fn servers(rates: LinkRates, workers: NonZeroU32, servers: NonZeroU32, coded: f64, bytes: u64) -> f64 {
    2.0 * rates.alpha() + vectors_of_servers(workers, servers, coded) * rates.beta() * bytes as f64
}

/// The vectors whose bytes show in [`servers`].
pub fn vectors_of_servers(workers: NonZeroU32, servers: NonZeroU32, coded: f64) -> f64 {
    let workers = f64::from(workers.get());
    let servers = f64::from(servers.get());
    (workers / servers + coded).max(1.0 + (workers - 1.0 + coded) / servers)
}
