//! The memory of a strategy: vectors as long as the weights that a rank holds because of how it trains.

use crate::{CodedSum, Compression, Graph, Role, Strategy, SyncVariant};

impl Strategy {
    /// Vectors as long as the weights that a rank in this role holds for the strategy, beside those of every rank: weights,
    /// gradient, the optimizer's, a vector that is sent, one that is received, and a snapshot. The names are those of the algorithms'
    /// files. Of several servers each holds a part; the number is that of one server. A strategy of another crate has its
    /// own, which the worker binary tells: 0 here.
    pub fn own_vectors(&self, role: Role, workers: u32) -> u64 {
        match role {
            Role::Worker => self.vectors_of_worker(workers),
            Role::Server => self.vectors_of_server(workers),
        }
    }

    fn vectors_of_worker(&self, workers: u32) -> u64 {
        match self {
            Self::PsSync
            | Self::DSync
            | Self::AsyncSgd { .. }
            | Self::AsyncMsgd { .. }
            | Self::HogwildSgd { .. }
            | Self::LocalSgd { .. }
            | Self::Custom { .. } => 0,
            // Gradients in the pipeline.
            Self::PipeSgd { .. } => self.depth(),
            // The centre; the gradient of one round, beside that of all.
            Self::EasgdOriginal { .. }
            | Self::EasgdSync { variant: SyncVariant::Master, .. }
            | Self::Gmp { .. } => 1,
            // The anchor and the slow momentum; the biased model and that of a neighbour; the centre and the model on its way
            // to it.
            Self::Slowmo { .. } | Self::Sgp | Self::EasgdAsync { .. } | Self::EasgdHogwild { .. } => 2,
            // The model on its way to the neighbours, theirs, and their sum; the centre, the model on its way to it, and a
            // velocity of the method; the centre, the sum of all models, and what was sent.
            Self::DPsgd { .. }
            | Self::MeasgdAsync { .. }
            | Self::Eamsgd { .. }
            | Self::EasgdSync { variant: SyncVariant::FirstWorker, .. } => 3,
            // The same, and the centre on its way between two lanes.
            Self::EasgdSync { variant: SyncVariant::Overlapped, .. } => 4,
            // The shared model and its buffer; an active worker has two more, a passive one has one for each neighbour.
            Self::AdPsgd { topology, .. } => {
                let degrees = Graph::bipartite(*topology, workers as usize).degrees();
                2 + degrees.most.max(2) as u64
            }
        }
    }

    fn vectors_of_server(&self, workers: u32) -> u64 {
        // Vectors of workers wait until the server has time for them.
        let waiting = u64::from(workers.max(1));
        match self {
            // Each worker's lane has one for its arithmetic.
            Self::AsyncSgd { .. }
            | Self::AsyncMsgd { .. }
            | Self::HogwildSgd { .. }
            | Self::EasgdAsync { .. }
            | Self::MeasgdAsync { .. }
            | Self::EasgdHogwild { .. }
            | Self::Eamsgd { .. } => 2 * waiting,
            // The sum and the model as workers see it; the centre, and a worker's model or the sum of all.
            Self::PsSync | Self::EasgdOriginal { .. } | Self::EasgdSync { .. } => waiting + 2,
            Self::Gmp { .. } if self.averages_through_servers() => waiting + 1,
            // They have no servers.
            Self::DSync
            | Self::PipeSgd { .. }
            | Self::LocalSgd { .. }
            | Self::Slowmo { .. }
            | Self::DPsgd { .. }
            | Self::AdPsgd { .. }
            | Self::Sgp
            | Self::Gmp { .. }
            | Self::Custom { .. } => 0,
        }
    }
}

impl Compression {
    /// Vectors as long as the weights that a worker holds for its codec: the memory of error feedback, and what a projection
    /// is taken of and gives.
    pub fn own_vectors(self) -> u64 {
        match self {
            Self::None => 0,
            Self::Coded { codec, error_feedback, .. } => {
                let projected = if codec.route() == CodedSum::Projected { 2 } else { 0 };
                projected + u64::from(error_feedback)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Averaging, Codec, Extent, StrategyKind, Topology};

    #[test]
    fn a_rank_holds_what_its_strategy_asks_for() {
        let pipe = |depth| Strategy::PipeSgd { depth, warmup: Extent::Steps(0), segments: 1 };
        assert_eq!([1, 2, 5].map(|depth| pipe(depth).own_vectors(Role::Worker, 4)), [1, 2, 5]);
        let pairs = |topology| Strategy::AdPsgd { topology, averaging: Averaging::EachStep };
        // Of sixteen in pairs, eight are passive, each with eight neighbours.
        assert_eq!(pairs(Topology::Complete).own_vectors(Role::Worker, 16), 10);
        assert_eq!(pairs(Topology::Ring).own_vectors(Role::Worker, 16), 4);
        for kind in StrategyKind::ALL {
            for strategy in kind.samples() {
                let with_servers = strategy.own_vectors(Role::Server, 4) > 0;
                let alone = strategy.servers() == 0;
                // Variants of one kind differ in whether they have a master.
                assert!(with_servers != alone || *kind == StrategyKind::EasgdSync, "{strategy:?}");
            }
        }
    }

    #[test]
    fn a_codec_remembers_one_vector_and_a_projection_works_on_two() {
        let coded = |codec, error_feedback| Compression::Coded { codec, parameters: false, error_feedback };
        assert_eq!(Compression::None.own_vectors(), 0);
        assert_eq!(coded(Codec::Sign, true).own_vectors(), 1);
        assert_eq!(coded(Codec::Powersgd { rank: 2 }, true).own_vectors(), 3);
        assert_eq!(coded(Codec::RandomK { ratio: 0.1 }, false).own_vectors(), 2);
    }
}
