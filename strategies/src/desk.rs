//! All that a service can see and do: who it is, and a lane of its own.

use crate::course::Course;
use crate::host::Observer;
use crate::optimizer::Optimizer;
use crate::vector::Vector;
use crate::{Group, Kind, Lane, Packet, Place, StepError, Tag, Wire};
use record::{Event, Phase, Rank, Work};
use std::sync::Arc;

/// Who I am: pure, and the same on every lane of a rank.
#[derive(Clone)]
pub struct Seat {
    /// My rank.
    pub rank: Rank,
    /// Everyone, servers included; places are ranks.
    pub everyone: Group,
    /// The workers, if I am one.
    pub trainers: Option<Group>,
    /// Samples, steps and rates of the run.
    pub course: Arc<Course>,
}

/// What a service sees: a seat, and a lane of its own.
pub struct Desk {
    /// Who I am.
    pub seat: Seat,
    /// My lane.
    pub lane: Lane,
    /// Who keeps what I record.
    pub observer: Arc<dyn Observer>,
}

impl Desk {
    /// Writes down that something happened.
    pub fn record(&self, event: Event) {
        self.observer.event(event);
    }

    /// The lane's wire over everyone, for gradients.
    pub fn wire(&mut self) -> Wire<'_> {
        self.lane.wire(&self.seat.everyone)
    }

    /// The lane's wire over another group, for gradients.
    pub fn wire_over<'a>(&'a mut self, group: &'a Group) -> Wire<'a> {
        self.lane.wire(group)
    }

    /// Receives again after each silence but the last of so many: from whoever may compute that long without a word.
    pub(crate) fn recv_patiently(
        &mut self,
        silences: u64,
        mut receive: impl FnMut(&mut Self) -> Result<Packet, StepError>,
    ) -> Result<Packet, StepError> {
        let before = self.lane.clock.phase();
        for _ in 1..silences {
            match receive(self) {
                Err(StepError::Silent { .. }) => self.go_on(before),
                answer => return answer,
            }
        }
        receive(self)
    }

    /// Leaves the phase in which something failed, as the lane goes on without it. A lane that ends stays there: its
    /// last phase says where it was.
    pub(crate) fn go_on(&mut self, phase: Phase) {
        self.lane.clock.switch(phase);
    }

    /// Turns a sum over so many places into a mean: scaled once, as an all-reduce does it.
    pub fn mean(&mut self, sum: &mut Vector, places: usize) {
        crate::messenger::scale(sum, places, &mut self.lane);
    }

    /// Moves weights that this service holds against a mean gradient, with the rate after so many samples.
    pub fn descend(
        &mut self,
        optimizer: &mut Optimizer,
        weights: &mut Vector,
        gradient: &mut Vector,
        consumed: u64,
    ) {
        let rate = self.seat.course.rate(consumed);
        let work = Work::Update(weights.len());
        self.lane.clock.timed(Phase::Update, work, || optimizer.descend(weights, gradient, rate));
    }

    /// Takes part in a broadcast of the initial weights as a receiver.
    pub fn recv_broadcast(&mut self, root: Place, into: &mut [f32]) -> Result<(), StepError> {
        self.wire().exact().recv_into(root, Tag::new(Kind::Broadcast, 0), into)
    }
}
