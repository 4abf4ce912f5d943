//! What the workers exchange in a step, by strategy, and whether they compute meanwhile.

use super::layers::parts;
use super::messages::{Sent, all_reduce_seconds, gradient, ring_in_pieces, servers, weights};
use super::{NoModel, no_model};
use predict::elastic;
use predict::network::LinkRates;
use predict::tree::RootedTree;
use recipe::{RunSpec, Strategy, SyncVariant};
use std::num::NonZeroU32;

/// Seconds of communication in one step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Exchange {
    /// Of the update, which no worker makes.
    pub(super) update: f64,
    /// While the worker computes.
    pub(super) beside: f64,
    /// When the worker has computed.
    pub(super) after: f64,
}

impl Exchange {
    fn beside(seconds: f64) -> Self {
        Self { update: 0.0, beside: seconds, after: 0.0 }
    }

    fn after(seconds: f64) -> Self {
        Self { update: 0.0, beside: 0.0, after: seconds }
    }

    /// That of a run whose messages wait for no layer. `update` is the time of an update of all weights.
    pub(super) fn of(
        spec: &RunSpec,
        rates: LinkRates,
        workers: NonZeroU32,
        update: f64,
    ) -> Result<Self, NoModel> {
        match &spec.strategy {
            Strategy::DSync => Ok(Self::after(all_reduce_seconds(spec, rates, workers, Sent::Gradient)?)),
            Strategy::PipeSgd { depth, segments, .. } => {
                let seconds = match NonZeroU32::new(*segments).filter(|count| count.get() > 1) {
                    None => all_reduce_seconds(spec, rates, workers, Sent::Gradient)?,
                    Some(segments) => ring_in_pieces(spec, rates, workers, segments)?,
                };
                Ok(if *depth > 1 { Self::beside(seconds) } else { Self::after(seconds) })
            }
            Strategy::LocalSgd { period } => {
                Ok(Self::after(all_reduce_seconds(spec, rates, workers, Sent::Weights)? / *period as f64))
            }
            Strategy::Slowmo { period, .. } => {
                let outer = all_reduce_seconds(spec, rates, workers, Sent::Weights)? + update;
                Ok(Self::after(outer / *period as f64))
            }
            Strategy::PsSync => {
                let servers = servers(spec)?;
                let (gradient, weights) = (gradient(spec)?, weights(spec)?);
                let coded = gradient as f64 / weights.max(1) as f64;
                let served = elastic::servers(rates, workers, servers, coded, weights);
                Ok(Self { update, beside: 0.0, after: served + update / f64::from(servers.get()) })
            }
            Strategy::EasgdSync { variant, .. } => {
                let tree = RootedTree::binomial(workers.get() as usize);
                let parts = parts(spec)?;
                let (served, message) =
                    (tree.seconds_in_parts(rates, &parts), rates.message().time(weights(spec)?));
                Ok(match variant {
                    SyncVariant::Master => {
                        // Worker 0's request is on its way while the sum is.
                        let sum = message - rates.alpha();
                        Self { update: 0.0, beside: sum + update, after: rates.alpha() + message + served }
                    }
                    SyncVariant::FirstWorker => Self::after(served + update),
                    SyncVariant::Overlapped => Self::beside(tree.seconds_both_ways(rates, &parts, update)),
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
