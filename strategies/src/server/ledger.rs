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
    presence: Presence,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Presence {
    /// Computes a gradient.
    Busy,
    /// Waits for an answer, or was told that the training is over.
    Idle,
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
        let pace = |worker| Pace {
            share: course.own_samples(1, worker) as u64,
            steps: 0,
            read: 0,
            presence: Presence::Busy,
        };
        let workers: Vec<Pace> = (0..course.workers()).map(pace).collect();
        Self {
            handed: workers.iter().map(|worker| worker.share).sum(),
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
        let pace = &mut self.workers[worker];
        let (consumed, staleness) = (self.samples, self.version - pace.read);
        (pace.steps, pace.presence) = (pace.steps + 1, Presence::Idle);
        self.version += 1;
        self.samples += pace.share;
        Applied { version: self.version, staleness, consumed, samples: self.samples }
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
        let over = self.budget.is_some_and(|budget| self.handed >= budget);
        let pace = &mut self.workers[worker];
        pace.read = self.version;
        if !over {
            pace.presence = Presence::Busy;
            self.handed += pace.share;
        }
        Progress { samples: self.samples, over }
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
        if pace.presence == Presence::Busy {
            self.handed -= pace.share;
        }
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
        matches!(self.presence, Presence::Busy | Presence::Idle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deal::Deal;
    use crate::sim::sample_spec_of;
    use recipe::{Extent, Strategy};

    fn ledger(workers: u32, steps: u64, bound: Option<u64>) -> Ledger {
        let mut spec = sample_spec_of(Strategy::AsyncSgd { staleness_bound: bound }, workers);
        spec.train.global_batch = 10;
        spec.train.length = Extent::Steps(steps);
        Ledger::new(&Course::new(&spec, Deal::shared_by(1, (0..100).collect())), bound, true)
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
