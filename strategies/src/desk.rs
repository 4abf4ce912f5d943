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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compress::Identity;
    use crate::memory::MemoryRank;
    use crate::sim::sample_spec;
    use crate::{Course, Deal};
    use record::{Clock, Nanos, PhaseClock, SnapshotRecord, Trace};
    use std::time::Duration;

    struct Still;
    impl Clock for Still {
        fn now(&self) -> Nanos {
            Nanos(0)
        }
        fn spend(&self, _: Work) {}
    }

    struct Deaf;
    impl Observer for Deaf {
        fn event(&self, _: Event) {}
        fn snapshot(&self, _: SnapshotRecord, _: &Vector) {}
        fn stopping(&self) -> bool {
            false
        }
    }

    fn desk(transport: Box<dyn crate::Transport>, clock: Arc<dyn Clock>) -> Desk {
        let course = Course::new(&sample_spec(2), Deal::shared_by(1, (0..10).collect()));
        let ranks: Arc<[Rank]> = [Rank(0), Rank(1)].into();
        let everyone = Group::new(&ranks, Rank(0)).unwrap();
        let seat = Seat { rank: Rank(0), everyone, trainers: None, course: course.into() };
        let lane = Lane::new(transport, Box::new(Identity), PhaseClock::new(clock, Trace::NONE));
        Desk { seat, lane, observer: Arc::new(Deaf) }
    }

    #[test]
    fn a_lane_that_tries_again_is_where_it_was_and_one_that_gives_up_stays() {
        let clock: Arc<dyn Clock> = Arc::new(Still);
        let ranks = MemoryRank::all(2, Duration::from_millis(20), clock.clone());
        let (mut desk, mut other) = (desk(ranks[0].transport(), clock), ranks[1].transport());
        desk.lane.clock.switch(Phase::Update);
        let (tag, mut phases) = (Tag::new(Kind::Push, 1), Vec::new());
        let packet = desk.recv_patiently(3, |desk| {
            phases.push(desk.lane.clock.phase());
            if phases.len() == 3 {
                other.send(Rank(0), tag, Packet(vec![7].into())).unwrap();
            }
            desk.wire().recv_packet(Place(1), tag)
        });
        assert_eq!(packet.unwrap().0.as_ref(), [7]);
        assert_eq!((phases, desk.lane.clock.phase()), (vec![Phase::Update; 3], Phase::Update));
        let mut tries = 0;
        let silence = desk.recv_patiently(2, |desk| {
            tries += 1;
            desk.wire().recv_packet(Place(1), tag)
        });
        assert!(matches!(silence, Err(StepError::Silent { .. })) && tries == 2, "{silence:?}");
        assert_eq!(desk.lane.clock.phase(), Phase::WaitPeer);
    }
}
