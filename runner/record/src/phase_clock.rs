//! The phase clock of a lane, which is always in exactly one phase.

use crate::clock::{Clock, Work};
use crate::overlap::{Activity, Overlap};
use crate::{LaneId, Nanos, Phase, PhaseTimes, Rank};
use std::sync::Arc;

/// Which steps keep their single spans; totals are kept for all steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trace {
    /// Number of initial steps whose spans are kept.
    pub first_steps: u64,
    /// Then the spans of each step whose number is a multiple of this; 0 for none.
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
    /// Phase that the lane was in.
    pub phase: Phase,
    /// When the span began, on the clock of the run.
    pub begin: Nanos,
    /// Duration of the span.
    pub length: Nanos,
    /// The peer, if one was involved.
    pub peer: Option<Rank>,
    /// Bytes exchanged with the peer; 0 without one.
    pub bytes: u64,
}

/// The time of one step on one lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepTiming {
    /// The step's number, from 1; 0 before the first step.
    pub step: u64,
    /// When the step began, on the clock of the run.
    pub begin: Nanos,
    /// When it ended and the next one began.
    pub end: Nanos,
    /// Time per phase; sums to `end - begin`.
    pub phases: PhaseTimes,
    /// Communication of the rank's other lanes that this lane hid; of a compute lane only.
    pub hidden: Nanos,
    /// The spans, if this step keeps them.
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
    /// A clock in [`Phase::Other`] of step 0.
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

    /// Joins the account of a rank with several lanes. Hidden communication is booked with the compute lane.
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

    /// Whether the lane is in a step that keeps its spans.
    pub fn keeps_spans(&self) -> bool {
        self.trace.keeps(self.step.step)
    }

    /// Ends the current phase and begins `to`. Returns the phase that ended.
    pub fn switch(&mut self, to: Phase) -> Phase {
        let now = self.enter(self.activity_in(to));
        self.close(to, now)
    }

    /// Begins to wait for a message of any peer. Returns the phase that ended.
    pub fn wait_for_anyone(&mut self) -> Phase {
        let now = self.enter(Activity::Neither);
        self.close(Phase::WaitPeer, now)
    }

    /// A switch that is known only afterwards, such as the arrival of an announcement. `when` is clamped to the open span.
    pub fn switch_at(&mut self, to: Phase, when: Nanos) -> Phase {
        let now = self.enter(self.activity_in(to));
        self.close(to, when.min(now))
    }

    fn activity_in(&self, phase: Phase) -> Activity {
        self.beside.as_ref().map_or(Activity::Neither, |(_, lane)| Activity::of(*lane, phase))
    }

    /// Changes the activity now.
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
        self.open_span(when);
        self.clock.entered(self.step.step, to);
        std::mem::replace(&mut self.current, to)
    }

    /// Opens a span with no peer.
    fn open_span(&mut self, begin: Nanos) {
        self.since = begin;
        self.peer = None;
        self.bytes = 0;
    }

    /// Communication and waiting in the closed spans of the current step.
    pub fn exposed(&self) -> Nanos {
        self.step.phases.exposed()
    }

    /// Sets the peer and the bytes of the open span.
    pub fn note(&mut self, peer: Rank, bytes: u64) {
        self.peer = Some(peer);
        self.bytes = bytes;
    }

    /// Runs `f` in `phase`, then returns to the phase before.
    pub fn timed<R>(&mut self, phase: Phase, work: Work, f: impl FnOnce() -> R) -> R {
        let before = self.switch(phase);
        // Spent first: the effects of work become visible at its end.
        self.clock.spend(work);
        let result = f();
        self.clock.settle(work, self.since);
        self.switch(before);
        result
    }

    /// Ends the current step and opens step `next`. Returns the step that ended.
    pub fn next_step(&mut self, next: u64) -> StepTiming {
        self.switch(self.current);
        let mut ended = std::mem::replace(&mut self.step, StepTiming::open(next, self.since));
        ended.end = self.since;
        ended.hidden = self.hidden();
        ended
    }

    /// Communication that this lane hid since the last call.
    fn hidden(&self) -> Nanos {
        match &self.beside {
            Some((overlap, LaneId::Compute)) => overlap.take(),
            _ => Nanos(0),
        }
    }

    /// Discards all measurements and opens step `next` now; called when the run's clock starts.
    pub fn restart(&mut self, next: u64) {
        let now = self.enter(self.activity);
        self.open_span(now);
        self.hidden();
        self.step = StepTiming::open(next, self.since);
    }
}

impl StepTiming {
    fn open(step: u64, begin: Nanos) -> Self {
        Self { step, begin, end: begin, phases: PhaseTimes::default(), hidden: Nanos(0), spans: Vec::new() }
    }

    /// Time from the beginning of the step to its end; the sum of its phases.
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
