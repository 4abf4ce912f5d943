//! Time on a lane: a clock, and the phase clock that always stands in exactly one phase.

use crate::overlap::{Activity, Overlap};
use crate::{LaneId, Nanos, Phase, PhaseTimes, Rank};
use std::sync::Arc;

/// Work that costs time. A real clock ignores it, because the time has passed by itself; a virtual clock
/// advances by what the work costs there. Sizes are in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Loading the examples of a batch.
    Data,
    /// Forward pass of one layer.
    Forward(usize),
    /// The loss at the top, and its gradient.
    Loss,
    /// Backward pass of one layer.
    Backward(usize),
    /// Updating this many weights.
    Update(usize),
    /// Adding this many elements.
    Reduce(usize),
    /// Encoding this many elements.
    Encode(usize),
    /// Decoding this many elements.
    Decode(usize),
    /// Copying this many elements aside.
    Snapshot(usize),
}

/// A source of time for one rank.
pub trait Clock: Send + Sync {
    /// The time since the start of the run.
    fn now(&self) -> Nanos;
    /// Lets the time pass that `work` takes, where time does not pass by itself.
    fn spend(&self, work: Work);
    /// Some work that began at `begun` is done: lets the rest of the time pass that it takes, where that is emulated.
    fn settle(&self, _work: Work, _begun: Nanos) {}
    /// A lane that reads this clock is now in this phase of this step: for whoever wants to know what a lane
    /// is doing right now. Called at every switch, so it must cost next to nothing.
    fn entered(&self, _step: u64, _phase: Phase) {}
}

/// Which steps keep their single spans; totals are kept for all steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trace {
    /// So many steps from the first.
    pub first_steps: u64,
    /// Then each step whose number is a multiple of this; 0 for none.
    pub every: u64,
}

impl Trace {
    /// No spans at all.
    pub const NONE: Self = Self { first_steps: 0, every: 0 };

    /// Whether the spans of this step are kept. Steps count from 1.
    pub fn keeps(self, step: u64) -> bool {
        (1..=self.first_steps).contains(&step)
            || (self.every > 0 && step > 0 && step.is_multiple_of(self.every))
    }
}

/// One stretch of a lane's time in one phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// What the lane was doing.
    pub phase: Phase,
    /// When it began to.
    pub begin: Nanos,
    /// For how long.
    pub length: Nanos,
    /// With whom, where a peer was involved.
    pub peer: Option<Rank>,
    /// How many bytes moved.
    pub bytes: u64,
}

/// The time of one step on one lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepTiming {
    /// The step's number, from 1; 0 is what comes before the first.
    pub step: u64,
    /// When it began.
    pub begin: Nanos,
    /// When it ended, which is when the next one began.
    pub end: Nanos,
    /// Where the time went; sums to `end - begin`.
    pub phases: PhaseTimes,
    /// Communication of the rank's other lanes that this lane hid; of a compute lane only.
    pub hidden: Nanos,
    /// The single spans, if this step keeps them.
    pub spans: Vec<Span>,
}

/// There is always exactly one current phase, so the spans of a lane tile its time by construction; nesting
/// needs no subtraction, and an early return cannot leave a span open.
pub struct PhaseClock {
    clock: Arc<dyn Clock>,
    trace: Trace,
    current: Phase,
    since: Nanos,
    peer: Option<Rank>,
    bytes: u64,
    step: StepTiming,
    beside: Option<(Arc<Overlap>, LaneId)>,
    activity: Activity,
}

impl PhaseClock {
    /// A clock that stands in [`Phase::Other`] of step 0.
    pub fn new(clock: Arc<dyn Clock>, trace: Trace) -> Self {
        let now = clock.now();
        Self {
            clock,
            trace,
            current: Phase::Other,
            since: now,
            peer: None,
            bytes: 0,
            step: StepTiming::open(0, now),
            beside: None,
            activity: Activity::Neither,
        }
    }

    /// Joins the account of a rank with several lanes: what one hides of another is booked with the compute lane.
    pub fn beside(&mut self, overlap: Arc<Overlap>, lane: LaneId) {
        self.beside = Some((overlap, lane));
        self.enter(Activity::of(lane, self.current));
    }

    /// The time since the start of the run.
    pub fn now(&self) -> Nanos {
        self.clock.now()
    }

    /// The phase the lane is in.
    pub fn phase(&self) -> Phase {
        self.current
    }

    /// The step the lane is in.
    pub fn step(&self) -> u64 {
        self.step.step
    }

    /// Whether the lane is in a step that keeps its spans: one that is looked at more closely than the others.
    pub fn keeps_spans(&self) -> bool {
        self.trace.keeps(self.step.step)
    }

    /// Ends the current phase and begins `to`; answers the phase that ended.
    pub fn switch(&mut self, to: Phase) -> Phase {
        let now = self.enter(self.activity_in(to));
        self.close(to, now)
    }

    /// Begins to wait for whoever may send something; answers the phase that ended.
    pub fn wait_for_anyone(&mut self) -> Phase {
        let now = self.enter(Activity::Neither);
        self.close(Phase::WaitPeer, now)
    }

    /// A switch that is known only afterwards, such as the arrival of an announcement. `when` is brought
    /// into the open span if it lies outside.
    pub fn switch_at(&mut self, to: Phase, when: Nanos) -> Phase {
        let now = self.enter(self.activity_in(to));
        self.close(to, when.min(now))
    }

    fn activity_in(&self, phase: Phase) -> Activity {
        self.beside.as_ref().map_or(Activity::Neither, |(_, lane)| Activity::of(*lane, phase))
    }

    /// Goes over to another activity, now.
    fn enter(&mut self, to: Activity) -> Nanos {
        let from = std::mem::replace(&mut self.activity, to);
        match &self.beside {
            Some((overlap, _)) => overlap.moved(self.clock.as_ref(), from, to),
            None => self.clock.now(),
        }
    }

    fn close(&mut self, to: Phase, when: Nanos) -> Phase {
        let when = when.max(self.since);
        let length = when - self.since;
        self.step.phases[self.current] += length;
        if length > Nanos(0) && self.trace.keeps(self.step.step) {
            self.step.spans.push(Span {
                phase: self.current,
                begin: self.since,
                length,
                peer: self.peer,
                bytes: self.bytes,
            });
        }
        (self.since, self.peer, self.bytes) = (when, None, 0);
        self.clock.entered(self.step.step, to);
        std::mem::replace(&mut self.current, to)
    }

    /// Says with whom the open span has to do, and how many bytes moved in it.
    pub fn note(&mut self, peer: Rank, bytes: u64) {
        (self.peer, self.bytes) = (Some(peer), bytes);
    }

    /// Runs `f` in `phase`, then returns to the phase before.
    pub fn timed<R>(&mut self, phase: Phase, work: Work, f: impl FnOnce() -> R) -> R {
        let before = self.switch(phase);
        // Spent first: the effects of work land at the end of the time it takes.
        self.clock.spend(work);
        let result = f();
        self.clock.settle(work, self.since);
        self.switch(before);
        result
    }

    /// Ends the current step and opens step `next`; answers the one that ended.
    pub fn next_step(&mut self, next: u64) -> StepTiming {
        self.switch(self.current);
        let mut ended = std::mem::replace(&mut self.step, StepTiming::open(next, self.since));
        ended.end = self.since;
        ended.hidden = self.hidden();
        ended
    }

    /// What this lane hid since it was last asked.
    fn hidden(&self) -> Nanos {
        match &self.beside {
            Some((overlap, LaneId::Compute)) => overlap.take(),
            _ => Nanos(0),
        }
    }

    /// Forgets what was measured so far and opens step `next` now: for the moment when the run's clock
    /// starts.
    pub fn restart(&mut self, next: u64) {
        (self.since, self.peer, self.bytes) = (self.enter(self.activity), None, 0);
        self.hidden();
        self.step = StepTiming::open(next, self.since);
    }
}

impl StepTiming {
    fn open(step: u64, begin: Nanos) -> Self {
        Self { step, begin, end: begin, phases: PhaseTimes::default(), hidden: Nanos(0), spans: Vec::new() }
    }

    /// The step's length.
    pub fn length(&self) -> Nanos {
        self.end - self.begin
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[derive(Default)]
    struct Manual(AtomicU64);
    impl Clock for Manual {
        fn now(&self) -> Nanos {
            Nanos(self.0.load(Ordering::Relaxed))
        }
        fn spend(&self, work: Work) {
            if let Work::Update(nanos) = work {
                self.0.fetch_add(nanos as u64, Ordering::Relaxed);
            }
        }
    }

    #[test]
    fn nested_phases_are_exclusive() {
        let clock = Arc::new(Manual::default());
        let mut phases = PhaseClock::new(clock.clone(), Trace { first_steps: 1, every: 0 });
        phases.next_step(1);
        phases.timed(Phase::Update, Work::Update(5), || ());
        let before = phases.switch(Phase::WaitPeer);
        clock.spend(Work::Update(10));
        phases.switch_at(Phase::Transfer, Nanos(12));
        phases.note(Rank(3), 64);
        phases.switch(before);
        let step = phases.next_step(2);
        assert_eq!(step.phases[Phase::Update], Nanos(5));
        assert_eq!(step.phases[Phase::WaitPeer], Nanos(7));
        assert_eq!(step.phases[Phase::Transfer], Nanos(3));
        assert_eq!(step.phases[Phase::Other], Nanos(0));
        let transfer = step.spans.iter().find(|span| span.phase == Phase::Transfer).unwrap();
        assert_eq!((transfer.peer, transfer.bytes), (Some(Rank(3)), 64));
        assert!(step.spans.iter().all(|span| span.phase == Phase::Transfer || span.peer.is_none()));
    }

    #[test]
    fn an_announcement_from_before_the_call_or_from_the_future_stays_inside_the_span() {
        let clock = Arc::new(Manual::default());
        let mut phases = PhaseClock::new(clock.clone(), Trace::NONE);
        clock.spend(Work::Update(10));
        phases.switch(Phase::WaitPeer);
        clock.spend(Work::Update(10));
        phases.switch_at(Phase::Transfer, Nanos(3));
        phases.switch_at(Phase::Other, Nanos(1_000));
        let step = phases.next_step(1);
        assert_eq!(step.phases[Phase::WaitPeer], Nanos(0));
        assert_eq!(step.phases[Phase::Transfer], Nanos(10));
        assert_eq!(step.phases.total(), step.length());
    }

    proptest! {
        #[test]
        fn spans_tile_every_step(moves in prop::collection::vec((0..14_usize, 0..50_usize, prop::bool::ANY), 1..80)) {
            let clock = Arc::new(Manual::default());
            let mut phases = PhaseClock::new(clock.clone(), Trace { first_steps: 1_000, every: 0 });
            let mut number = 1;
            phases.next_step(number);
            for (place, nanos, ends) in moves {
                phases.switch(Phase::ALL[place]);
                clock.spend(Work::Update(nanos));
                if ends {
                    number += 1;
                    let step = phases.next_step(number);
                    prop_assert_eq!(step.phases.total(), step.length());
                    let mut at = step.begin;
                    for span in &step.spans {
                        prop_assert_eq!(span.begin, at);
                        at += span.length;
                    }
                    prop_assert_eq!(at, step.end);
                }
            }
        }
    }
}
