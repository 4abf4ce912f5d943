//! Directed graphs that change from round to round. Pure.

/// Who pushes to whom, round after round, and then from the beginning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rounds {
    /// Of each round, the receivers of each rank.
    rounds: Vec<Vec<Vec<usize>>>,
}

impl Rounds {
    /// One receiver and one sender for each rank: in round k, from 0, the rank 2^k further around the ring, for all
    /// 2^k below the number of ranks (Assran et al., "Stochastic Gradient Push for Distributed Deep Learning", ICML
    /// 2019, appendix A). One rank has nobody.
    pub fn exponential(ranks: usize) -> Self {
        let hops = (0..usize::BITS).map(|k| 1 << k).take_while(|hop: &usize| *hop < ranks);
        let rounds: Vec<_> =
            hops.map(|hop| (0..ranks).map(|rank| vec![(rank + hop) % ranks]).collect()).collect();
        if rounds.is_empty() { Self::new(vec![vec![vec![]; ranks]]) } else { Self::new(rounds) }
    }

    /// Any graph: of each round, the receivers of each rank, which are others. At least one round.
    pub fn new(rounds: Vec<Vec<Vec<usize>>>) -> Self {
        Self { rounds }
    }

    /// The receivers of a rank in a step, from 1.
    pub fn receivers(&self, step: u64, rank: usize) -> &[usize] {
        &self.round(step)[rank]
    }

    /// The senders of a rank in a step in rank order, itself included.
    pub fn senders(&self, step: u64, rank: usize) -> Vec<usize> {
        let round = self.round(step);
        (0..round.len()).filter(|other| *other == rank || round[*other].contains(&rank)).collect()
    }

    fn round(&self, step: u64) -> &[Vec<usize>] {
        &self.rounds[(step.saturating_sub(1) % self.rounds.len() as u64) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_has_one_receiver_and_one_sender() {
        for ranks in 2..20 {
            let rounds = Rounds::exponential(ranks);
            for step in 1..=10 {
                for rank in 0..ranks {
                    let [receiver] = rounds.receivers(step, rank) else { panic!("not one") };
                    assert_ne!(*receiver, rank);
                    assert_eq!(rounds.senders(step, rank).len(), 2);
                    assert!(rounds.senders(step, *receiver).contains(&rank));
                }
            }
        }
        let first = |step| Rounds::exponential(6).receivers(step, 4).to_vec();
        assert_eq!([1, 2, 3, 4].map(first), [[5], [0], [2], [5]]);
    }

    #[test]
    fn one_rank_has_nobody() {
        let alone = Rounds::exponential(1);
        assert!(alone.receivers(7, 0).is_empty());
        assert_eq!(alone.senders(7, 0), [0]);
    }
}
