//! Everything that a service can see and do: facts about its rank, and a lane of its own.

use crate::group::{Group, GroupRank};
use crate::message::Message;
use crate::optimizer::Optimizer;
use crate::plan::TrainingPlan;
use crate::runtime::Observer;
use crate::schedule::Part;
use crate::vector::Vector;
use crate::wire::Wire;
use crate::{Kind, Lane, Packet, StepError, Tag};
use record::{Event, LostRecord, Phase, Rank, Work};
use std::sync::Arc;

/// Facts about a rank, the same on all of its lanes.
#[derive(Clone)]
pub struct RankInfo {
    /// Workers come first, then servers.
    pub rank: Rank,
    /// All ranks, servers included; a group rank in it is the rank.
    pub everyone: Group,
    /// The workers, if the rank is one.
    pub trainers: Option<Group>,
    /// Samples, steps, rates and evaluation points of the run.
    pub plan: Arc<TrainingPlan>,
}

/// The context of a service: facts about its rank, and a lane of its own.
pub struct ServiceContext {
    /// Facts about the rank.
    pub info: RankInfo,
    /// The lane that the service runs on.
    pub lane: Lane,
    /// Receives events and snapshots.
    pub observer: Arc<dyn Observer>,
}

impl ServiceContext {
    /// Hands an event to the observer of the rank.
    pub fn record(&self, event: Event) {
        self.observer.event(event);
    }

    /// The lane's wire over all ranks, for gradients.
    pub fn wire(&mut self) -> Wire<'_> {
        self.lane.wire(&self.info.everyone)
    }

    /// The lane's wire over another group, for gradients.
    pub fn wire_over<'a>(&'a mut self, group: &'a Group) -> Wire<'a> {
        self.lane.wire(group)
    }

    /// Sends a small message as it is.
    pub fn send_message(&mut self, to: GroupRank, tag: Tag, message: &impl Message) -> Result<(), StepError> {
        self.wire().exact().send_packet(to, tag, message.encode())
    }

    /// Receives a small message.
    pub fn recv_message<M: Message>(&mut self, from: GroupRank, tag: Tag) -> Result<M, StepError> {
        let packet = self.wire().exact().recv_packet(from, tag)?;
        M::decode(&packet, self.info.rank)
    }

    /// Receives up to `silences` times, each time until the deadline: from a peer that may compute that long without
    /// sending anything.
    pub fn recv_patiently(
        &mut self,
        silences: u64,
        mut receive: impl FnMut(&mut Self) -> Result<Packet, StepError>,
    ) -> Result<Packet, StepError> {
        let before = self.lane.clock.phase();
        for _ in 1..silences {
            match receive(self) {
                Err(StepError::Silent { .. }) => self.resume(before),
                result => return result,
            }
        }
        receive(self)
    }

    /// Leaves the phase in which something failed and continues in `phase`. A lane that ends does not: its last phase
    /// says where it was.
    pub fn resume(&mut self, phase: Phase) {
        self.lane.clock.switch(phase);
    }

    /// Whether an error means no more than that a peer is lost, so that this rank may continue without it. While a run
    /// is being stopped its ranks leave one by one, and none of them is lost.
    pub fn is_absence_of(&self, peer: Rank, error: &StepError) -> bool {
        error.is_absence_of(peer) && !self.observer.stopping()
    }

    /// Records that a peer is lost, in its step `step`, and returns; any other error is returned as it is.
    pub fn lose_peer(&self, peer: Rank, step: u64, error: StepError) -> Result<(), StepError> {
        self.lose_one_of(peer, step, error, || true)
    }

    /// The same for one of several peers, of which the rank needs at least one: once the peer is known to be lost, `others_are_left`
    /// marks it so and says whether there are others. If not, the error is returned.
    pub fn lose_one_of(
        &self,
        peer: Rank,
        step: u64,
        error: StepError,
        others_are_left: impl FnOnce() -> bool,
    ) -> Result<(), StepError> {
        // Asked once, because the reply changes when the run is stopped.
        if !self.is_absence_of(peer, &error) || !others_are_left() {
            return Err(error);
        }
        let at = self.lane.clock.now();
        let reason = error.to_string();
        self.record(Event::Lost(LostRecord { rank: self.info.rank, peer, step, at, reason }));
        Ok(())
    }

    /// Turns a sum over `places` ranks into a mean: scaled once, as an all-reduce does it.
    pub fn mean(&mut self, sum: &mut Vector, places: usize) {
        crate::all_reduce::scale(sum, places, &mut self.lane);
    }

    /// Applies a part of a mean gradient to its weights among those that this service holds, at the rate after `consumed`
    /// samples.
    pub fn apply_part(
        &mut self,
        optimizer: &mut Optimizer,
        weights: &mut Vector,
        part: &mut Part,
        consumed: u64,
    ) {
        let rate = self.info.plan.learning_rate.at(consumed);
        let work = Work::Update(part.values.len());
        self.lane.clock.timed(Phase::Update, work, || optimizer.apply_part(weights, part, rate));
    }

    /// Receives the broadcast of the initial weights.
    pub fn recv_broadcast(&mut self, root: GroupRank, into: &mut [f32]) -> Result<(), StepError> {
        self.wire().exact().recv_into(root, Tag::new(Kind::Broadcast, 0), into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SamplePartition;
    use crate::compress::Identity;
    use crate::in_process::InProcessRank;
    use crate::sim::sample_spec;
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
        fn checkpoint(&self, _: crate::Checkpoint) {}
        fn stopping(&self) -> bool {
            false
        }
    }

    fn ctx(transport: Box<dyn crate::Transport>, clock: Arc<dyn Clock>) -> ServiceContext {
        let plan = TrainingPlan::new(&sample_spec(2), SamplePartition::shared_by(1, (0..10).collect()));
        let ranks: Arc<[Rank]> = [Rank(0), Rank(1)].into();
        let everyone = Group::new(&ranks, Rank(0)).unwrap();
        let info = RankInfo { rank: Rank(0), everyone, trainers: None, plan: plan.into() };
        let lane = Lane::new(transport, Box::new(Identity), PhaseClock::new(clock, Trace::NONE));
        ServiceContext { info, lane, observer: Arc::new(Deaf) }
    }

    #[test]
    fn a_lane_that_tries_again_is_where_it_was_and_one_that_gives_up_stays() {
        let clock: Arc<dyn Clock> = Arc::new(Still);
        let ranks = InProcessRank::all(2, Duration::from_millis(20), clock.clone());
        let mut ctx = ctx(ranks[0].transport(), clock);
        let mut other = ranks[1].transport();
        ctx.lane.clock.switch(Phase::Update);
        let tag = Tag::new(Kind::Push, 1);
        let mut phases = Vec::new();
        let packet = ctx.recv_patiently(3, |ctx| {
            phases.push(ctx.lane.clock.phase());
            if phases.len() == 3 {
                other.send(Rank(0), tag, Packet(vec![7].into())).unwrap();
            }
            ctx.wire().recv_packet(GroupRank(1), tag)
        });
        assert_eq!(packet.unwrap().0.as_ref(), [7]);
        assert_eq!((phases, ctx.lane.clock.phase()), (vec![Phase::Update; 3], Phase::Update));
        let mut tries = 0;
        let silence = ctx.recv_patiently(2, |ctx| {
            tries += 1;
            ctx.wire().recv_packet(GroupRank(1), tag)
        });
        assert!(matches!(silence, Err(StepError::Silent { .. })) && tries == 2, "{silence:?}");
        assert_eq!(ctx.lane.clock.phase(), Phase::WaitPeer);
    }
}
