//! The books of a server whose workers go at their own pace: who has done how much, on which weights, and who may
//! go on. Pure: it is told what happens, and answers.

use crate::course::Course;
use crate::strategy::Progress;

/// What a server knows about its workers.
#[derive(Clone, Debug)]
pub struct Ledger {
    workers: Vec<Pace>,
    /// Samples after which the training is over; none for a server that leaves this to another.
    budget: Option<u64>,
    /// Steps by which a worker may be ahead of the slowest.
    bound: Option<u64>,
    version: u64,
    samples: u64,
    /// Samples of all gradients that were applied or are being computed.
    handed: u64,
}

#[derive(Clone, Copy, Debug)]
struct Pace {
    /// Samples of each of its gradients.
    share: u64,
    /// Gradients of it that were applied.
    steps: u64,
    /// The version of the weights that it computes with.
    read: u64,
    /// Samples that were handed to it, and of which nothing came yet.
    held: u64,
    presence: Presence,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Presence {
    /// Computes, waits for an answer, or was told that the training is over.
    Here,
    /// Said good-bye.
    Left,
    /// Is gone without a word.
    Lost,
}

/// What is known about a gradient at the moment when it is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Applied {
    /// Number of the update, from 1: the version of the weights after it.
    pub version: u64,
    /// Updates between the weights that the gradient was computed with and those that it is applied to.
    pub staleness: u64,
    /// Samples of all applied gradients before this one.
    pub consumed: u64,
    /// The same with this one.
    pub samples: u64,
}

impl Ledger {
    /// The books at the start of a run, when every worker begins its first step. `decides` is the server that says
    /// when the training is over.
    pub fn new(course: &Course, bound: Option<u64>, decides: bool) -> Self {
        Self::in_blocks(course, 1, bound, decides)
    }

    /// The same where every worker begins with so many steps in a row.
    pub fn in_blocks(course: &Course, steps: u64, bound: Option<u64>, decides: bool) -> Self {
        let pace = |worker| {
            let share = course.own_samples(1, worker) as u64;
            Pace { share, steps: 0, read: 0, held: steps * share, presence: Presence::Here }
        };
        let workers: Vec<Pace> = (0..course.workers()).map(pace).collect();
        Self {
            handed: workers.iter().map(|worker| worker.held).sum(),
            workers,
            budget: decides.then(|| course.budget()),
            bound,
            version: 0,
            samples: 0,
        }
    }

    /// Number of workers.
    pub fn workers(&self) -> usize {
        self.workers.len()
    }

    /// Samples of all applied gradients.
    pub fn samples(&self) -> u64 {
        self.samples
    }

    /// A worker's gradient is applied now.
    pub fn apply(&mut self, worker: usize) -> Applied {
        self.apply_block(worker, 1)
    }

    /// What a worker made of so many gradients is applied now.
    pub fn apply_block(&mut self, worker: usize, steps: u64) -> Applied {
        let (consumed, staleness) = (self.samples, self.version - self.workers[worker].read);
        self.version += 1;
        self.count(worker, steps);
        Applied { version: self.version, staleness, consumed, samples: self.samples }
    }

    /// A worker computed so many gradients, which are not applied here.
    pub fn count(&mut self, worker: usize, steps: u64) {
        let pace = &mut self.workers[worker];
        let samples = steps.saturating_mul(pace.share);
        pace.steps = pace.steps.saturating_add(steps);
        pace.held = pace.held.saturating_sub(samples);
        self.samples = self.samples.saturating_add(samples);
    }

    /// Whether a worker may begin its next step: nobody who is still here is more steps behind it than the bound
    /// allows (Ho et al., "More Effective Distributed ML via a Stale Synchronous Parallel Parameter Server", NIPS
    /// 2013).
    pub fn may_go(&self, worker: usize) -> bool {
        let here = self.workers.iter().filter(|pace| pace.is_here());
        let slowest = here.map(|pace| pace.steps).min().unwrap_or(0);
        self.bound.is_none_or(|bound| self.workers[worker].steps.saturating_sub(slowest) <= bound)
    }

    /// A worker is handed the present weights for its next step, unless the training is over.
    pub fn release(&mut self, worker: usize) -> Progress {
        let over = self.grant(worker, 1) == 0;
        Progress { samples: self.samples, over }
    }

    /// A worker is handed the present weights for up to so many steps, which may be none: as many as there are.
    pub fn grant(&mut self, worker: usize, most: u64) -> u64 {
        let pace = &mut self.workers[worker];
        pace.read = self.version;
        let left = self.budget.map(|budget| budget.saturating_sub(self.handed).div_ceil(pace.share.max(1)));
        let steps = left.map_or(most, |left| most.min(left));
        pace.held += steps * pace.share;
        self.handed += steps * pace.share;
        steps
    }

    /// A worker said good-bye.
    pub fn leave(&mut self, worker: usize) {
        self.depart(worker, Presence::Left);
    }

    /// A worker is gone without a word. The gradient that it was computing is somebody else's to compute.
    pub fn lose(&mut self, worker: usize) {
        self.depart(worker, Presence::Lost);
    }

    fn depart(&mut self, worker: usize, presence: Presence) {
        let pace = &mut self.workers[worker];
        self.handed -= std::mem::take(&mut pace.held);
        pace.presence = presence;
    }

    /// Whether nobody is left who could send anything.
    pub fn is_closed(&self) -> bool {
        !self.workers.iter().any(Pace::is_here)
    }

    /// Whether everybody is gone, and nobody to the end: no training, but a run that fell apart.
    pub fn is_abandoned(&self) -> bool {
        self.workers.iter().all(|pace| pace.presence == Presence::Lost)
    }
}

impl Pace {
    fn is_here(&self) -> bool {
        self.presence == Presence::Here
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deal::Deal;
    use crate::sim::sample_spec_of;
    use recipe::{Extent, Strategy};

    fn course(workers: u32, steps: u64) -> Course {
        let mut spec =
            sample_spec_of(Strategy::AsyncSgd { serve: recipe::Serve::One, staleness_bound: None }, workers);
        spec.train.global_batch = 10;
        spec.train.length = Extent::Steps(steps);
        Course::new(&spec, Deal::shared_by(1, (0..100).collect()))
    }

    fn ledger(workers: u32, steps: u64, bound: Option<u64>) -> Ledger {
        Ledger::new(&course(workers, steps), bound, true)
    }

    #[test]
    fn staleness_counts_the_updates_since_the_weights_were_read() {
        let mut books = ledger(3, 100, None);
        let stale: Vec<u64> = [0, 0, 1, 0, 2, 1]
            .into_iter()
            .map(|worker| {
                let applied = books.apply(worker);
                books.release(worker);
                applied.staleness
            })
            .collect();
        assert_eq!(stale, [0, 0, 2, 1, 4, 2]);
    }

    #[test]
    fn exactly_the_samples_of_the_budget_are_handed_out() {
        // 10 samples over 3 workers: 4, 3 and 3.
        let mut books = ledger(3, 2, None);
        books.apply(0);
        assert!(!books.release(0).over); // 14 of 20
        books.apply(0);
        assert!(!books.release(0).over); // 18 of 20
        books.apply(1);
        assert!(!books.release(1).over); // 21 of 20
        books.apply(2);
        assert_eq!(books.release(2), Progress { samples: 14, over: true });
    }

    #[test]
    fn what_a_lost_worker_was_computing_is_handed_to_another() {
        let mut books = ledger(2, 1, None);
        books.apply(0);
        assert!(books.clone().release(0).over);
        books.lose(1);
        assert!(!books.release(0).over);
        books.apply(0);
        assert_eq!(books.release(0), Progress { samples: 10, over: true });
        // Now it was told that all is done, and nothing of it is missing.
        books.lose(0);
        assert!(books.is_closed() && books.is_abandoned());
    }

    #[test]
    fn the_last_block_is_as_short_as_the_budget_asks_for() {
        // 10 samples over 2 workers; 5 steps are 50 samples, of which 30 are handed out in the beginning.
        let mut books = Ledger::in_blocks(&course(2, 5), 3, None, true);
        assert_eq!(books.grant(0, 3), 3); // 45 of 50
        assert_eq!(books.grant(1, 3), 1);
        assert_eq!(books.grant(0, 3), 0);
        assert_eq!(books.apply_block(0, 3).samples, 15);
        // The second block of worker 0 is somebody else's.
        books.lose(0);
        assert_eq!(books.grant(1, 9), 3);
        books.count(1, 7);
        assert_eq!(books.samples(), 50);
    }

    #[test]
    fn the_bound_counts_only_those_who_are_here() {
        let mut books = ledger(3, 100, Some(1));
        for _ in 0..2 {
            books.apply(0);
            books.release(0);
        }
        books.apply(1);
        assert!(!books.may_go(0) && books.may_go(1) && books.may_go(2));
        books.lose(2);
        assert!(books.may_go(0));
        books.leave(1);
        assert!(books.may_go(0) && !books.is_closed());
    }
}
