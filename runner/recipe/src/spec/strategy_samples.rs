//! Settings of every strategy to test with. Each list of kinds in a test is a filter over these, so that a new kind is in all of
//! them that it belongs to.

use crate::{
    AveragedBy, Averaging, Extent, FcUpdate, MixOrder, ModuloScheme, MovingRate, Serve, Strategy,
    StrategyKind, SyncVariant, Topology,
};

impl Strategy {
    /// Settings of every kind but `custom`, in the order of the kinds.
    #[doc(hidden)]
    pub fn samples() -> Vec<Self> {
        StrategyKind::ALL.iter().flat_map(|kind| kind.samples()).collect()
    }
}

impl StrategyKind {
    /// Settings that take each way through the kind's code in a run of a few steps; none for `custom`, which is code of
    /// another crate.
    #[doc(hidden)]
    pub fn samples(self) -> Vec<Strategy> {
        const MOVING_RATE: MovingRate = MovingRate::Fixed(0.25);
        let serves = [Serve::One, Serve::All];
        let moving_rate = MOVING_RATE;
        let momentum = 0.5;
        match self {
            Self::PsSync => vec![Strategy::PsSync],
            Self::DSync => vec![Strategy::DSync],
            Self::AsyncSgd => {
                let served = |staleness_bound| {
                    serves.map(|serve| Strategy::AsyncSgd { serve, staleness_bound }).to_vec()
                };
                [served(None), served(Some(1))].concat()
            }
            Self::AsyncMsgd => {
                let served = |serve| Strategy::AsyncMsgd { momentum, serve, staleness_bound: Some(1) };
                serves.map(served).to_vec()
            }
            Self::HogwildSgd => {
                [None, Some(0)].map(|staleness_bound| Strategy::HogwildSgd { staleness_bound }).to_vec()
            }
            Self::PipeSgd => {
                let warmup = Extent::Steps(2);
                vec![
                    Strategy::PipeSgd { depth: 2, warmup, segments: 1 },
                    Strategy::PipeSgd { depth: 3, warmup, segments: 2 },
                ]
            }
            Self::LocalSgd => vec![Strategy::LocalSgd { period: 2 }],
            Self::Slowmo => vec![Strategy::Slowmo { period: 2, slow_momentum: 0.5, slow_lr: 1.0 }],
            Self::DPsgd => vec![
                Strategy::DPsgd { topology: Topology::Ring, order: MixOrder::MixThenStep },
                Strategy::DPsgd { topology: Topology::Complete, order: MixOrder::StepThenMix },
            ],
            Self::AdPsgd => [Topology::Ring, Topology::Complete]
                .map(|topology| Strategy::AdPsgd { topology, averaging: Averaging::EachStep })
                .to_vec(),
            Self::Sgp => vec![Strategy::Sgp],
            Self::EasgdOriginal => {
                [false, true].map(|overlap| Strategy::EasgdOriginal { moving_rate, overlap }).to_vec()
            }
            Self::EasgdAsync => {
                serves.map(|serve| Strategy::EasgdAsync { moving_rate, period: 1, serve }).to_vec()
            }
            Self::MeasgdAsync => {
                serves.map(|serve| Strategy::MeasgdAsync { moving_rate, momentum, period: 2, serve }).to_vec()
            }
            Self::EasgdHogwild => vec![Strategy::EasgdHogwild { moving_rate, period: 1 }],
            Self::EasgdSync => {
                SyncVariant::ALL.map(|variant| Strategy::EasgdSync { moving_rate, variant }).to_vec()
            }
            Self::Eamsgd => {
                let served = |(serve, look_ahead)| Strategy::Eamsgd {
                    moving_rate,
                    momentum,
                    period: 2,
                    serve,
                    look_ahead,
                };
                [(Serve::One, false), (Serve::All, true)].map(served).to_vec()
            }
            Self::Gmp => groups_of_one().to_vec(),
            Self::Custom => Vec::new(),
        }
    }

    /// Whether the bits of the weights depend on which of several workers comes first.
    #[doc(hidden)]
    pub fn depends_on_arrival(self) -> bool {
        match self {
            Self::PsSync
            | Self::DSync
            | Self::PipeSgd
            | Self::LocalSgd
            | Self::Slowmo
            | Self::DPsgd
            | Self::Sgp
            | Self::EasgdSync
            | Self::Gmp
            // Its workers have their turns in the order of their ranks.
            | Self::EasgdOriginal
            // Its workers step together.
            | Self::Custom => false,
            Self::AsyncSgd
            | Self::AsyncMsgd
            | Self::HogwildSgd
            | Self::AdPsgd
            | Self::EasgdAsync
            | Self::MeasgdAsync
            | Self::EasgdHogwild
            | Self::Eamsgd => true,
        }
    }
}

/// Larger groups need a model that they can split: these are in tests of their own.
fn groups_of_one() -> [Strategy; 3] {
    let of = |fc_update, average_every, averaged_by| {
        let scheme = ModuloScheme::Shares;
        Strategy::Gmp { mp: 1, scheme, fc_update, average_every, least_ccr: 0.0, averaged_by }
    };
    [
        of(FcUpdate::PerRound, None, AveragedBy::Workers),
        of(FcUpdate::PerBatch, Some(2), AveragedBy::Workers),
        of(FcUpdate::PerRound, None, AveragedBy::Servers),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_but_custom_has_a_sample_of_its_own() {
        for kind in StrategyKind::ALL {
            let samples = kind.samples();
            assert_eq!(samples.is_empty(), *kind == StrategyKind::Custom, "{kind}");
            assert!(samples.iter().all(|sample| sample.kind() == *kind), "{kind}");
        }
    }
}
