//! Directed graphs that change from round to round. Pure.

use std::sync::Arc;

/// The graph of each round: who pushes to whom. After the last round, the first one follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rounds {
    graphs: Graphs,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Graphs {
    /// One peer, 2^k ranks further around a ring.
    Exponential { ranks: usize },
    /// For each round, the receivers of each rank.
    Listed(Arc<[Vec<Vec<usize>>]>),
}

impl Rounds {
    /// One receiver and one sender for each rank: in round k, from 0, the rank 2^k further around the ring, for all
    /// 2^k below the number of ranks (Assran et al., "Stochastic Gradient Push for Distributed Deep Learning", ICML
    /// 2019, appendix A). A single rank has neither.
    pub fn exponential(ranks: usize) -> Self {
        Self { graphs: Graphs::Exponential { ranks } }
    }

    /// Any graphs: for each round, the receivers of each rank, itself not included. At least one round.
    pub fn new(rounds: Vec<Vec<Vec<usize>>>) -> Self {
        Self { graphs: Graphs::Listed(rounds.into()) }
    }

    /// The receivers of a rank in a step, from 1.
    pub fn receivers(&self, step: u64, rank: usize) -> Vec<usize> {
        match &self.graphs {
            Graphs::Exponential { ranks } => {
                hop(*ranks, step).map(|hop| (rank + hop) % ranks).into_iter().collect()
            }
            Graphs::Listed(rounds) => listed(rounds, step)[rank].clone(),
        }
    }

    /// The senders of a rank in a step in rank order, the rank itself included.
    pub fn senders(&self, step: u64, rank: usize) -> Vec<usize> {
        match &self.graphs {
            Graphs::Exponential { ranks } => {
                let sender = hop(*ranks, step).map(|hop| (rank + ranks - hop) % ranks);
                let mut senders: Vec<usize> = sender.into_iter().chain([rank]).collect();
                senders.sort_unstable();
                senders
            }
            Graphs::Listed(rounds) => {
                let round = listed(rounds, step);
                (0..round.len()).filter(|other| *other == rank || round[*other].contains(&rank)).collect()
            }
        }
    }
}

/// The distance to the receiver of a step; `None` for a single rank.
fn hop(ranks: usize, step: u64) -> Option<usize> {
    let rounds = u64::from(ranks.max(1).next_power_of_two().ilog2());
    step.saturating_sub(1).checked_rem(rounds).map(|round| 1 << round)
}

fn listed(rounds: &[Vec<Vec<usize>>], step: u64) -> &[Vec<usize>] {
    &rounds[(step.saturating_sub(1) % rounds.len() as u64) as usize]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rank_has_one_receiver_and_one_sender() {
        for ranks in 2..20 {
            let rounds = Rounds::exponential(ranks);
            for step in 1..=10 {
                for rank in 0..ranks {
                    let [receiver] = &rounds.receivers(step, rank)[..] else { panic!("not one") };
                    assert_ne!(*receiver, rank);
                    assert_eq!(rounds.senders(step, rank).len(), 2);
                    assert!(rounds.senders(step, *receiver).contains(&rank));
                }
            }
        }
        let first = |step| Rounds::exponential(6).receivers(step, 4);
        assert_eq!([1, 2, 3, 4].map(first), [[5], [0], [2], [5]]);
    }

    #[test]
    fn a_single_rank_has_neither() {
        let alone = Rounds::exponential(1);
        assert!(alone.receivers(7, 0).is_empty());
        assert_eq!(alone.senders(7, 0), [0]);
    }
}
