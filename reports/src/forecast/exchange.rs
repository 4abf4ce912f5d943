//! Exchanges of the workers in a step, by strategy, and whether they compute meanwhile.

use super::layers::parts;
use super::messages::{Sent, all_reduce_seconds, gradient, ring_in_pieces, servers, weights};
use super::{NoModel, no_model};
use predict::elastic;
use predict::network::LinkRates;
use predict::tree::RootedTree;
use recipe::{RunSpec, Strategy, SyncVariant};
use std::num::NonZeroU32;

const ONE_PER_PERIOD: &str = "Pipe-SGD Eq. 2, one exchange per period";
const DOWN_AND_UP: &str = "Pipe-SGD Eq. 2, SC17's log P down and up";

/// Seconds of communication in one step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Exchange {
    /// Of the update, which no worker makes.
    pub(super) update: f64,
    /// While the worker computes.
    pub(super) beside: f64,
    /// When the worker has computed.
    pub(super) after: f64,
    /// The equations of the step with it, in words.
    pub(super) equation: &'static str,
}

impl Exchange {
    fn beside(seconds: f64, equation: &'static str) -> Self {
        Self { update: 0.0, beside: seconds, after: 0.0, equation }
    }

    fn after(seconds: f64, equation: &'static str) -> Self {
        Self { update: 0.0, beside: 0.0, after: seconds, equation }
    }

    /// That of a run whose messages wait for no layer. `update` is the time of an update of all weights.
    pub(super) fn of(
        spec: &RunSpec,
        rates: LinkRates,
        workers: NonZeroU32,
        update: f64,
    ) -> Result<Self, NoModel> {
        match &spec.strategy {
            Strategy::DSync => {
                Ok(Self::after(all_reduce_seconds(spec, rates, workers, Sent::Gradient)?, "Pipe-SGD Eq. 2"))
            }
            Strategy::PipeSgd { depth, segments, .. } => {
                let (seconds, hidden) = match NonZeroU32::new(*segments).filter(|count| count.get() > 1) {
                    None => (all_reduce_seconds(spec, rates, workers, Sent::Gradient)?, "Pipe-SGD Eq. 4"),
                    Some(segments) => {
                        let seconds = ring_in_pieces(spec, rates, workers, segments)?;
                        (seconds, "Pipe-SGD Eq. 4, communication of Eq. 6")
                    }
                };
                let waits = Self::after(seconds, "Pipe-SGD Eq. 2");
                Ok(if *depth > 1 { Self::beside(seconds, hidden) } else { waits })
            }
            Strategy::LocalSgd { period } => {
                let average = all_reduce_seconds(spec, rates, workers, Sent::Weights)?;
                Ok(Self::after(average / *period as f64, ONE_PER_PERIOD))
            }
            Strategy::Slowmo { period, .. } => {
                let outer = all_reduce_seconds(spec, rates, workers, Sent::Weights)? + update;
                Ok(Self::after(outer / *period as f64, ONE_PER_PERIOD))
            }
            Strategy::PsSync => {
                let servers = servers(spec)?;
                let gradient = gradient(spec)?;
                let weights = weights(spec)?;
                let coded = gradient as f64 / weights.max(1) as f64;
                let served = elastic::servers(rates, workers, servers, coded, weights);
                let after = served + update / f64::from(servers.get());
                Ok(Self { update, ..Self::after(after, "Pipe-SGD Eq. 2, workers served one by one") })
            }
            Strategy::EasgdSync { variant, .. } => {
                let tree = RootedTree::binomial(workers.get() as usize);
                let parts = parts(spec)?;
                let served = tree.seconds_in_parts(rates, &parts);
                let message = rates.message().time(weights(spec)?);
                Ok(match variant {
                    SyncVariant::Master => {
                        // Worker 0's request is on its way while the sum is.
                        let sum = message - rates.alpha();
                        let after = rates.alpha() + message + served;
                        Self { beside: sum + update, ..Self::after(after, DOWN_AND_UP) }
                    }
                    SyncVariant::FirstWorker => Self::after(served + update, DOWN_AND_UP),
                    SyncVariant::Overlapped => {
                        let both = tree.seconds_both_ways(rates, &parts, update);
                        Self::beside(both, "Pipe-SGD Eq. 4, SC17's log P both ways at once")
                    }
                })
            }
            Strategy::AsyncSgd { .. }
            | Strategy::AsyncMsgd { .. }
            | Strategy::HogwildSgd { .. }
            | Strategy::EasgdOriginal { .. }
            | Strategy::EasgdAsync { .. }
            | Strategy::MeasgdAsync { .. }
            | Strategy::EasgdHogwild { .. }
            | Strategy::Eamsgd { .. }
            | Strategy::Gmp { .. }
            | Strategy::DPsgd { .. }
            | Strategy::AdPsgd { .. }
            | Strategy::Sgp
            | Strategy::Custom { .. } => no_model(format_args!("`{}`", spec.strategy.kind())),
        }
    }
}
