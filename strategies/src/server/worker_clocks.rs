//! The clocks of workers at their own pace, as a server keeps them: the steps of each, the version of the weights that it
//! computes with, and whether it may continue. Pure.

use crate::plan::{Progress, TrainingPlan};
use crate::server::applied::Applied;
use std::collections::BTreeMap;

/// The clocks of all workers of a server.
#[derive(Clone, Debug)]
pub struct WorkerClocks {
    workers: Vec<WorkerClock>,
    /// The number of workers that are here, by their applied steps.
    pace: BTreeMap<u64, usize>,
    lost: usize,
    /// Samples after which training is over; `None` on a server that leaves this to another.
    budget: Option<u64>,
    /// Steps by which a worker may be ahead of the slowest.
    bound: Option<u64>,
    version: u64,
    samples: u64,
    /// Samples of all gradients that were applied or are being computed.
    handed: u64,
}

#[derive(Clone, Copy, Debug)]
struct WorkerClock {
    /// Samples of each of its gradients.
    share: u64,
    /// Its gradients that were applied.
    steps: u64,
    /// The version of the weights that it computes with.
    read: u64,
    /// Samples that were handed to it and whose gradients have not arrived.
    held: u64,
    presence: Presence,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Presence {
    /// Computes, or waits for an answer.
    Here,
    /// Has taken its last step.
    Left,
    Lost,
}

/// Where the end of training is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrainingEnd {
    /// By these clocks, when the budget is handed out.
    Here,
    /// By those of another server.
    Elsewhere,
}

impl TrainingEnd {
    /// The first of several servers decides.
    pub fn of_server(server: usize) -> Self {
        if server == 0 { Self::Here } else { Self::Elsewhere }
    }
}

impl WorkerClocks {
    /// The clocks at the start of a run, when every worker begins its first step.
    pub fn new(plan: &TrainingPlan, bound: Option<u64>, end: TrainingEnd) -> Self {
        Self::in_blocks(plan, 1, bound, end)
    }

    /// The same where every worker begins with `steps` steps in a row.
    pub fn in_blocks(plan: &TrainingPlan, steps: u64, bound: Option<u64>, end: TrainingEnd) -> Self {
        let clock = |worker| {
            let share = plan.sampler.own_samples(1, worker) as u64;
            WorkerClock { share, steps: 0, read: 0, held: steps * share, presence: Presence::Here }
        };
        let workers: Vec<WorkerClock> = (0..plan.workers()).map(clock).collect();
        Self {
            handed: workers.iter().map(|worker| worker.held).sum(),
            pace: [(0, workers.len())].into(),
            lost: 0,
            workers,
            budget: (end == TrainingEnd::Here).then(|| plan.budget.samples()),
            bound,
            version: 0,
            samples: 0,
        }
    }

    /// Number of workers, at least 1.
    pub fn workers(&self) -> usize {
        self.workers.len()
    }

    /// Samples of all applied gradients.
    pub fn samples(&self) -> u64 {
        self.samples
    }

    /// Counts a worker's gradient, which is applied now.
    pub fn apply(&mut self, worker: usize) -> Applied {
        self.apply_block(worker, 1)
    }

    /// Counts the result of a worker's `steps` gradients, which is applied now.
    pub fn apply_block(&mut self, worker: usize, steps: u64) -> Applied {
        let consumed = self.samples;
        let staleness = self.version - self.workers[worker].read;
        self.version += 1;
        self.count(worker, steps);
        Applied { version: self.version, staleness, consumed, samples: self.samples }
    }

    /// Counts `steps` gradients of a worker that are not applied here.
    pub fn count(&mut self, worker: usize, steps: u64) {
        let clock = &mut self.workers[worker];
        let samples = steps.saturating_mul(clock.share);
        let before = clock.steps;
        clock.steps = clock.steps.saturating_add(steps);
        clock.held = clock.held.saturating_sub(samples);
        self.samples = self.samples.saturating_add(samples);
        if clock.presence == Presence::Here {
            let now = clock.steps;
            self.leave_pace(before);
            *self.pace.entry(now).or_default() += 1;
        }
    }

    /// Whether a worker may begin its next step: no worker that is here is further behind it than the bound allows (Ho
    /// et al., "More Effective Distributed ML via a Stale Synchronous Parallel Parameter Server", NIPS 2013).
    pub fn may_go(&self, worker: usize) -> bool {
        let slowest = self.pace.first_key_value().map_or(0, |(steps, _)| *steps);
        self.bound.is_none_or(|bound| self.workers[worker].steps.saturating_sub(slowest) <= bound)
    }

    /// Hands a worker the current weights for its next step, unless training is over.
    pub fn release(&mut self, worker: usize) -> Progress {
        let over = self.grant(worker, 1) == 0;
        Progress { samples: self.samples, over }
    }

    /// Hands a worker the current weights for at most `most` steps and returns how many of them the budget has left.
    pub fn grant(&mut self, worker: usize, most: u64) -> u64 {
        let clock = &mut self.workers[worker];
        clock.read = self.version;
        let left = self.budget.map(|budget| budget.saturating_sub(self.handed).div_ceil(clock.share.max(1)));
        let steps = left.map_or(most, |left| most.min(left));
        clock.held += steps * clock.share;
        self.handed += steps * clock.share;
        steps
    }

    /// A worker has taken its last step.
    pub fn leave(&mut self, worker: usize) {
        self.depart(worker, Presence::Left);
    }

    /// A worker is lost. The samples of the gradient that it was computing are handed to another.
    pub fn lose(&mut self, worker: usize) {
        self.depart(worker, Presence::Lost);
    }

    fn depart(&mut self, worker: usize, presence: Presence) {
        let clock = &mut self.workers[worker];
        self.handed -= std::mem::take(&mut clock.held);
        let before = std::mem::replace(&mut clock.presence, presence);
        let steps = clock.steps;
        if before == Presence::Here {
            self.leave_pace(steps);
        }
        self.lost += usize::from(presence == Presence::Lost);
        self.lost -= usize::from(before == Presence::Lost);
    }

    fn leave_pace(&mut self, steps: u64) {
        if let Some(count) = self.pace.get_mut(&steps) {
            *count -= 1;
            if *count == 0 {
                self.pace.remove(&steps);
            }
        }
    }

    /// Whether no worker is left that could send anything.
    pub fn is_closed(&self) -> bool {
        self.pace.is_empty()
    }

    /// Whether every worker is lost and none finished: the run has failed.
    pub fn is_abandoned(&self) -> bool {
        self.lost == self.workers.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SamplePartition;
    use crate::sim::sample_spec_of;
    use recipe::{Extent, Strategy};

    fn plan(workers: u32, steps: u64) -> TrainingPlan {
        let mut spec =
            sample_spec_of(Strategy::AsyncSgd { serve: recipe::Serve::One, staleness_bound: None }, workers);
        spec.train.global_batch = 10;
        spec.train.length = Extent::Steps(steps);
        TrainingPlan::new(&spec, SamplePartition::shared_by(1, (0..100).collect()))
    }

    fn clocks(workers: u32, steps: u64, bound: Option<u64>) -> WorkerClocks {
        WorkerClocks::new(&plan(workers, steps), bound, TrainingEnd::Here)
    }

    #[test]
    fn staleness_counts_the_updates_since_the_weights_were_read() {
        let mut clocks = clocks(3, 100, None);
        let stale: Vec<u64> = [0, 0, 1, 0, 2, 1]
            .into_iter()
            .map(|worker| {
                let applied = clocks.apply(worker);
                clocks.release(worker);
                applied.staleness
            })
            .collect();
        assert_eq!(stale, [0, 0, 2, 1, 4, 2]);
    }

    #[test]
    fn exactly_the_samples_of_the_budget_are_handed_out() {
        // 10 samples over 3 workers: 4, 3 and 3.
        let mut clocks = clocks(3, 2, None);
        clocks.apply(0);
        assert!(!clocks.release(0).over); // 14 of 20
        clocks.apply(0);
        assert!(!clocks.release(0).over); // 18 of 20
        clocks.apply(1);
        assert!(!clocks.release(1).over); // 21 of 20
        clocks.apply(2);
        assert_eq!(clocks.release(2), Progress { samples: 14, over: true });
    }

    #[test]
    fn what_a_lost_worker_was_computing_is_handed_to_another() {
        let mut clocks = clocks(2, 1, None);
        clocks.apply(0);
        assert!(clocks.clone().release(0).over);
        clocks.lose(1);
        assert!(!clocks.release(0).over);
        clocks.apply(0);
        assert_eq!(clocks.release(0), Progress { samples: 10, over: true });
        // Training is over, and nothing is missing.
        clocks.lose(0);
        assert!(clocks.is_closed() && clocks.is_abandoned());
    }

    #[test]
    fn the_last_block_is_as_short_as_the_budget_asks_for() {
        // 10 samples over 2 workers; 5 steps are 50 samples, of which 30 are handed out in the beginning.
        let mut clocks = WorkerClocks::in_blocks(&plan(2, 5), 3, None, TrainingEnd::Here);
        assert_eq!(clocks.grant(0, 3), 3); // 45 of 50
        assert_eq!(clocks.grant(1, 3), 1);
        assert_eq!(clocks.grant(0, 3), 0);
        assert_eq!(clocks.apply_block(0, 3).samples, 15);
        // The second block of worker 0 goes to another.
        clocks.lose(0);
        assert_eq!(clocks.grant(1, 9), 3);
        clocks.count(1, 7);
        assert_eq!(clocks.samples(), 50);
    }

    #[test]
    fn the_bound_counts_only_workers_that_are_here() {
        let mut clocks = clocks(3, 100, Some(1));
        for _ in 0..2 {
            clocks.apply(0);
            clocks.release(0);
        }
        clocks.apply(1);
        assert!(!clocks.may_go(0) && clocks.may_go(1) && clocks.may_go(2));
        clocks.lose(2);
        assert!(clocks.may_go(0));
        clocks.leave(1);
        assert!(clocks.may_go(0) && !clocks.is_closed());
    }
}
