//! A lane's clock on which work takes its stated time: a decorator that waits, inside each phase, around the real
//! arithmetic.
//!
//! The machine is never early, and sometimes late. A delay is made good by the phases that follow, so that a step takes its
//! time and not its time plus all delays. A delay that could not be made good before the rank turned to its peers is an
//! overrun: it is counted and shown.

use super::{ComputeModel, Lateness, Timer};
use record::{Clock, Nanos, Phase, Work};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Of a step's computing, so much may be late before it is called an overrun.
const TOLERANCE: u64 = 20;

/// A lane's clock on which work takes its stated time.
pub struct EmulatedClock {
    inner: Arc<dyn Clock>,
    timer: Arc<dyn Timer>,
    pace: Arc<ComputeModel>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    step: u64,
    phase: Option<Phase>,
    since: Nanos,
    /// By how much the lane is behind the pace.
    behind: Nanos,
    /// How far behind it was in this step when it turned to something else than computing.
    exposed: Nanos,
    /// Stated time of the computing of this step so far.
    stated: Nanos,
    paced: ClockReport,
}

/// How well a lane kept its pace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClockReport {
    /// By how much pieces of work ended too late.
    pub lateness: Lateness,
    /// Number of steps that computed anything.
    pub steps: u64,
    /// Of these, the ones whose computing did not fit into its time: more than a twentieth of it was missing.
    pub overruns: u64,
    /// The most that was missing in a step.
    pub longest: Nanos,
}

impl EmulatedClock {
    /// The clock of a lane. `timer` must tell the same time as `inner`.
    pub fn new(inner: Arc<dyn Clock>, timer: Arc<dyn Timer>, pace: Arc<ComputeModel>) -> Arc<Self> {
        Arc::new(Self { inner, timer, pace, state: Mutex::default() })
    }

    /// How well the lane kept its pace so far.
    pub fn report(&self) -> ClockReport {
        let mut state = self.lock();
        state.exposed = state.exposed.max(state.behind);
        state.close_step();
        state.paced.clone()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for EmulatedClock {
    fn now(&self) -> Nanos {
        self.inner.now()
    }

    fn spend(&self, work: Work) {
        self.inner.spend(work);
    }

    fn settle(&self, work: Work, begun: Nanos) {
        let (step, behind) = {
            let state = self.lock();
            (state.step, state.behind)
        };
        let now = self.timer.now();
        let Some(length) = self.pace.length(step, work, now.since(begun)) else { return };
        let made_good = behind.min(length);
        let due = begun + (length - made_good);
        if now < due {
            // A stop is noticed at the next wait for a peer, or at the next step.
            let _ = self.timer.wait_until(due);
        }
        let late = self.timer.now().since(due);
        let mut state = self.lock();
        state.behind = behind - made_good + late;
        state.stated += length;
        // Work without a time of its own is always late.
        if length > Nanos(0) {
            state.paced.lateness.add(late);
        }
    }

    fn entered(&self, step: u64, phase: Phase) {
        self.inner.entered(step, phase);
        self.lock().enter(step, phase, || self.inner.now());
    }
}

impl State {
    fn enter(&mut self, step: u64, phase: Phase, now: impl Fn() -> Nanos) {
        let before = self.phase.replace(phase);
        if before.is_some_and(is_blocked) {
            // The wait would have been longer by as much as the rank was late for it.
            self.behind = self.behind - now().since(self.since);
        }
        if is_blocked(phase) {
            self.since = now();
        }
        if is_turned_away(phase) {
            self.exposed = self.exposed.max(self.behind);
        }
        if step != self.step {
            self.exposed = self.exposed.max(self.behind);
            self.close_step();
            self.step = step;
        }
    }

    /// Counts the step, if it computed anything.
    fn close_step(&mut self) {
        let stated = std::mem::take(&mut self.stated);
        let exposed = std::mem::take(&mut self.exposed);
        if stated == Nanos(0) {
            return;
        }
        self.paced.steps += 1;
        self.paced.longest = self.paced.longest.max(exposed);
        self.paced.overruns += u64::from(exposed.0 > stated.0 / TOLERANCE);
        // A delay that counts as an overrun is not made good as well: the next steps would be faster than they are stated.
        self.behind = self.behind.min(Nanos(stated.0 / TOLERANCE));
    }
}

/// Whether a lane in this phase waits for what others do.
fn is_blocked(phase: Phase) -> bool {
    matches!(phase, Phase::WaitPeer | Phase::WaitLane | Phase::Transfer)
}

/// Whether a lane in this phase does what others notice.
fn is_turned_away(phase: Phase) -> bool {
    is_blocked(phase) || matches!(phase, Phase::Encode | Phase::Send | Phase::Snapshot)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StepError;
    use crate::emulation::Parts;
    use recipe::{Compute, ComputeSplit};
    use record::{BatchShare, PhaseClock, Rank, Trace};
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    /// A machine whose waits end this much too late.
    struct Machine {
        now: AtomicU64,
        late: u64,
    }

    impl Machine {
        fn works(&self, nanos: u64) {
            self.now.fetch_add(nanos, Ordering::Relaxed);
        }
    }

    impl Clock for Machine {
        fn now(&self) -> Nanos {
            Nanos(self.now.load(Ordering::Relaxed))
        }
        fn spend(&self, _: Work) {}
    }

    impl Timer for Machine {
        fn now(&self) -> Nanos {
            Clock::now(self)
        }
        fn wait_until(&self, moment: Nanos) -> Result<(), StepError> {
            self.now.fetch_max(moment.0 + self.late, Ordering::Relaxed);
            Ok(())
        }
    }

    /// A step of 1000 ns: 200 forward, 600 backward, 200 update.
    fn stage(late: u64) -> (Arc<Machine>, Arc<EmulatedClock>, PhaseClock) {
        let machine = Arc::new(Machine { now: AtomicU64::new(0), late });
        let parts = Parts { forward: vec![2.0], loss: 0.0, backward: vec![6.0], update: 2.0 };
        let compute = Compute { step_time: Duration::from_micros(1), split: ComputeSplit::Measured };
        let mut spec = crate::sim::sample_spec(1);
        spec.emulation.compute = Some(compute);
        let pace = Arc::new(ComputeModel::of(&spec, 1, Rank(0), parts, 10));
        let clock = EmulatedClock::new(machine.clone(), machine.clone(), pace);
        let mut phases = PhaseClock::new(clock.clone(), Trace::NONE);
        phases.restart(1);
        (machine, clock, phases)
    }

    /// One step whose arithmetic takes these times; returns how long its phases took.
    fn step(machine: &Machine, phases: &mut PhaseClock, real: [u64; 4]) -> [u64; 4] {
        phases.timed(Phase::Data, Work::Data, || machine.works(real[0]));
        phases.timed(Phase::Forward, Work::Forward { layer: 0, share: BatchShare::WHOLE }, || {
            machine.works(real[1]);
        });
        phases.timed(Phase::Backward, Work::Backward { layer: 0, share: BatchShare::WHOLE }, || {
            machine.works(real[2]);
        });
        phases.timed(Phase::Update, Work::Update(10), || machine.works(real[3]));
        let step = phases.step();
        let times = phases.next_step(step + 1).phases;
        [Phase::Data, Phase::Forward, Phase::Backward, Phase::Update].map(|phase| times[phase].0)
    }

    #[test]
    fn each_phase_takes_its_time_and_loading_is_part_of_the_step() {
        let (machine, clock, mut phases) = stage(0);
        assert_eq!(step(&machine, &mut phases, [0, 10, 10, 10]), [0, 200, 600, 200]);
        assert_eq!(step(&machine, &mut phases, [50, 10, 10, 10]), [50, 150, 600, 200]);
        let paced = clock.report();
        assert_eq!((paced.steps, paced.overruns, paced.longest), (2, 0, Nanos(0)));
        assert_eq!((paced.lateness.count(), paced.lateness.most()), (6, Nanos(0)));
    }

    #[test]
    fn what_a_wait_is_late_the_next_one_is_shorter() {
        let (machine, clock, mut phases) = stage(7);
        assert_eq!(step(&machine, &mut phases, [0, 10, 10, 10]), [0, 207, 600, 200]);
        assert_eq!(clock.report().lateness.most(), Nanos(7));
    }

    #[test]
    fn what_does_not_fit_is_made_good_or_counted() {
        let (machine, clock, mut phases) = stage(0);
        assert_eq!(step(&machine, &mut phases, [0, 350, 10, 10]), [0, 350, 450, 200]);
        assert_eq!((clock.report().overruns, clock.report().lateness.most()), (0, Nanos(150)));
        assert_eq!(step(&machine, &mut phases, [0, 10, 900, 10]), [0, 200, 900, 10]);
        let paced = clock.report();
        assert_eq!((paced.steps, paced.overruns, paced.longest), (2, 1, Nanos(110)));
    }

    /// Of the stall, the next step makes good a twentieth of a step.
    #[test]
    fn a_stall_does_not_shorten_the_steps_after_it() {
        let (machine, clock, mut phases) = stage(0);
        assert_eq!(step(&machine, &mut phases, [0, 50_000, 10, 10]), [0, 50_000, 10, 10]);
        assert_eq!(step(&machine, &mut phases, [0, 10, 10, 10]), [0, 150, 600, 200]);
        assert_eq!(step(&machine, &mut phases, [0, 10, 10, 10]), [0, 200, 600, 200]);
        let paced = clock.report();
        assert_eq!((paced.steps, paced.overruns, paced.longest), (3, 1, Nanos(49_020)));
    }

    #[test]
    fn a_rank_that_was_late_has_waited_less_for_its_peers() {
        let (machine, clock, mut phases) = stage(0);
        phases.timed(Phase::Forward, Work::Forward { layer: 0, share: BatchShare::WHOLE }, || {
            machine.works(300);
        });
        // The peers come at 500, whether this rank is there at 200 or at 300.
        phases.switch(Phase::WaitPeer);
        machine.works(200);
        phases.switch(Phase::Other);
        assert_eq!(step(&machine, &mut phases, [0, 10, 10, 10])[1..], [300 + 200, 600, 200]);
        assert_eq!(clock.report().longest, Nanos(100), "it turned to its peers 100 ns late");
    }

    #[test]
    fn times_of_other_work_are_left_alone() {
        let (machine, clock, mut phases) = stage(5);
        phases.timed(Phase::Reduce, Work::Reduce(100), || machine.works(3));
        assert_eq!(phases.next_step(2).phases[Phase::Reduce], Nanos(3));
        assert_eq!(clock.report(), ClockReport::default());
    }
}
