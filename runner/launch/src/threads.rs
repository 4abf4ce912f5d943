//! How the cores of a machine are divided among the processes of an attempt. Pure.

use recipe::RunSpec;

/// Who computes with how many threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Threads {
    /// Each rank, servers included.
    pub(crate) rank: u32,
    /// The evaluator.
    pub(crate) evaluator: u32,
    /// Whether the evaluator works beside the ranks instead of after them.
    pub(crate) evaluator_beside_ranks: bool,
}

impl Threads {
    /// Cores are divided evenly among the ranks. The evaluator works at once on a core that is left over, never
    /// on one that a rank computes with; only a run that stops at its target cannot wait, and keeps a core
    /// free for it as far as there are enough.
    pub(crate) fn divide(spec: &RunSpec, cores: u32) -> Self {
        let stops_at_target = spec.train.target.is_some_and(|target| target.stop);
        Self::among(spec.cluster.ranks().max(1), cores.max(1), stops_at_target)
    }

    fn among(ranks: u32, cores: u32, stops_at_target: bool) -> Self {
        let shared = if stops_at_target { cores - 1 } else { cores };
        let rank = (shared / ranks).max(1);
        let left = cores.saturating_sub(ranks * rank);
        let evaluator_beside_ranks = stops_at_target || left > 0;
        let evaluator = if evaluator_beside_ranks { left.max(1) } else { cores };
        Self { rank, evaluator, evaluator_beside_ranks }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_shared_out() {
        // ranks, cores, stops at its target -> threads of a rank, of the evaluator, beside the ranks
        let table = [
            ((1, 1, false), (1, 1, false)),
            ((1, 2, false), (2, 2, false)),
            ((4, 2, false), (1, 2, false)),
            ((4, 4, false), (1, 4, false)),
            ((4, 6, false), (1, 2, true)),
            ((4, 8, false), (2, 8, false)),
            ((4, 8, true), (1, 4, true)),
            ((3, 8, true), (2, 2, true)),
            ((4, 2, true), (1, 1, true)),
            ((1, 1, true), (1, 1, true)),
        ];
        for ((ranks, cores, stops), (rank, evaluator, beside)) in table {
            let expected = Threads { rank, evaluator, evaluator_beside_ranks: beside };
            assert_eq!(
                Threads::among(ranks, cores, stops),
                expected,
                "{ranks} ranks, {cores} cores, {stops}"
            );
        }
    }
}
