//! Emulated cards and paces: the simulator and the decorators of real ranks agree.

use crate::scene::Scene;
use bytes::Bytes;
use proptest::prelude::*;
use recipe::{Compute, ComputeSplit, Network, Slow, Strategy as Method, Whom};
use record::{LaneId, Nanos, Phase, Rank, Work};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use strategies::emulation::{Arrivals, Carrier, EmulatedNic, Fabric, Link, Timer};
use strategies::sim::{World, sample_spec};
use strategies::toy::Quadratic;
use strategies::{
    Blueprint, Envelope, Kind, Learner, Packet, Roles, SamplePartition, Senders, Service, ServiceContext,
    ServiceStep, StepError, Tag, TrainingPlan, Transport,
};

const RANKS: u32 = 4;

/// A message to be.
#[derive(Clone, Copy, Debug)]
struct Sending {
    at: u64,
    from: u32,
    to: u32,
    bytes: usize,
}

/// Messages in the order in which a rank received them: sender, number of the sending, begin and end of the arrival.
type Received = Vec<(Rank, u64, Nanos, Nanos)>;

fn packet(bytes: usize) -> Packet {
    Packet(Bytes::from(vec![0; bytes]))
}

/// The sendings of each rank, with the number of each.
fn by_sender(sendings: &[Sending]) -> BTreeMap<u32, Vec<(u64, Sending)>> {
    let mut all: BTreeMap<u32, Vec<(u64, Sending)>> = BTreeMap::new();
    for (number, sending) in (1..).zip(sendings) {
        all.entry(sending.from).or_default().push((number, *sending));
    }
    all
}

// In the simulator.

struct Sender(VecDeque<(u64, Sending)>);

impl Service for Sender {
    fn lane(&self) -> LaneId {
        LaneId::Communication
    }

    fn step(&mut self, ctx: &mut ServiceContext) -> Result<ServiceStep, StepError> {
        let Some((number, Sending { at, to, bytes, .. })) = self.0.pop_front() else {
            return Ok(ServiceStep::Finished);
        };
        let until = (Nanos(at) - ctx.lane.clock.now()).0 as usize;
        ctx.lane.clock.timed(Phase::Other, Work::Reduce(until), || ());
        ctx.lane.transport.send(Rank(to), Tag::new(Kind::Push, number), packet(bytes))?;
        Ok(ServiceStep::Served(0))
    }
}

struct Receiver {
    left: usize,
    rank: usize,
    log: Arc<Mutex<Vec<Received>>>,
}

impl Service for Receiver {
    fn lane(&self) -> LaneId {
        LaneId::Clients
    }

    fn step(&mut self, ctx: &mut ServiceContext) -> Result<ServiceStep, StepError> {
        if self.left == 0 {
            return Ok(ServiceStep::Finished);
        }
        self.left -= 1;
        let envelope = ctx.lane.transport.recv_any(Kind::Push, Senders::Everyone)?;
        let now = ctx.lane.clock.now();
        self.log.lock().unwrap()[self.rank].push((envelope.from, envelope.tag.step, envelope.began, now));
        Ok(ServiceStep::Served(0))
    }
}

fn simulated(sendings: &[Sending], link: Link, divisors: &BTreeMap<Rank, f64>) -> Vec<Received> {
    let spec = sample_spec(RANKS);
    let plan = TrainingPlan::new(&spec, SamplePartition::shared_by(5, (0..1000).collect()));
    let blueprint = Blueprint::new(&spec, Arc::new(plan), 1);
    let mut world = World::new(1);
    (world.link, world.slow_links) = (link, divisors.clone());
    world.costs.reduce = 1.0;
    let log = Arc::new(Mutex::new(vec![Received::new(); RANKS as usize]));
    let sent = by_sender(sendings);
    let roles = |rank: Rank, _: &dyn strategies::Runtime, _: &strategies::CommQueue| {
        let left = sendings.iter().filter(|one| one.to == rank.0).count();
        let sender = Sender(sent.get(&rank.0).cloned().unwrap_or_default().into());
        let receiver = Receiver { left, rank: rank.index(), log: log.clone() };
        Roles { services: vec![Box::new(sender), Box::new(receiver)], ..Roles::default() }
    };
    world.run_roles(&blueprint, |_| Box::new(Quadratic::new(1.0, vec![1.0], 1)), roles).unwrap();
    log.lock().unwrap().clone()
}

// Behind the decorator.

/// A clock that stands still unless a lane waits or the test winds it.
#[derive(Default)]
struct Scripted(AtomicU64);

impl Timer for Scripted {
    fn now(&self) -> Nanos {
        Nanos(self.0.load(Ordering::Relaxed))
    }
    fn wait_until(&self, moment: Nanos) -> Result<(), StepError> {
        self.0.fetch_max(moment.0, Ordering::Relaxed);
        Ok(())
    }
}

/// Inbox and emulated card of each rank; messages arrive at once and in order.
#[derive(Default)]
struct Post {
    inboxes: Mutex<BTreeMap<Rank, VecDeque<Envelope>>>,
    cards: Mutex<BTreeMap<Rank, Arc<EmulatedNic>>>,
}

struct ExchangeLane {
    me: Rank,
    post: Arc<Post>,
}

impl ExchangeLane {
    fn bring(&self, to: Rank, tag: Tag, packet: Packet, departed: Option<Nanos>) {
        let card = self.post.cards.lock().unwrap()[&to].clone();
        card.arrived(self.me, tag, packet.0.len(), departed);
        let envelope = Envelope { from: self.me, tag, packet, began: Nanos(0) };
        self.post.inboxes.lock().unwrap().entry(to).or_default().push_back(envelope);
    }

    fn take(&self, fits: impl Fn(&Envelope) -> bool) -> Envelope {
        let mut inboxes = self.post.inboxes.lock().unwrap();
        let inbox = inboxes.get_mut(&self.me).unwrap();
        let place = inbox.iter().position(fits).unwrap();
        inbox.remove(place).unwrap()
    }
}

impl Transport for ExchangeLane {
    fn send(&mut self, to: Rank, tag: Tag, packet: Packet) -> Result<(), StepError> {
        self.bring(to, tag, packet, None);
        Ok(())
    }
    fn has_room(&self, _: Rank, _: usize) -> bool {
        true
    }
    fn recv(&mut self, from: Rank, tag: Tag) -> Result<Envelope, StepError> {
        Ok(self.take(|envelope| envelope.from == from && envelope.tag == tag))
    }
    fn recv_any(&mut self, kind: Kind, _: Senders<'_>) -> Result<Envelope, StepError> {
        Ok(self.take(|envelope| envelope.tag.kind == kind))
    }
}

impl Carrier for ExchangeLane {
    fn send_departed(&mut self, to: Rank, tag: Tag, packet: Packet, at: Nanos) -> Result<(), StepError> {
        self.bring(to, tag, packet, Some(at));
        Ok(())
    }
}

struct Decorated {
    timers: Vec<Arc<Scripted>>,
    transports: Vec<Box<dyn Transport>>,
    cards: Vec<Arc<EmulatedNic>>,
}

/// The transports of all ranks after these messages were sent.
fn decorated(sendings: &[Sending], link: Link, divisors: &BTreeMap<Rank, f64>) -> Decorated {
    let post = Arc::new(Post::default());
    let divisor = |rank| divisors.get(&rank).copied().unwrap_or(1.0);
    let timers: Vec<Arc<Scripted>> = (0..RANKS).map(|_| Arc::default()).collect();
    let card = |rank: u32| {
        let fabric = Fabric::new(link, RANKS as usize, divisor);
        EmulatedNic::new(Rank(rank), fabric, timers[rank as usize].clone())
    };
    let cards: Vec<Arc<EmulatedNic>> = (0..RANKS).map(card).collect();
    *post.cards.lock().unwrap() = (0..RANKS).map(Rank).zip(cards.iter().cloned()).collect();
    let transport =
        |me: u32| cards[me as usize].transport(Box::new(ExchangeLane { me: Rank(me), post: post.clone() }));
    let mut transports: Vec<Box<dyn Transport>> = (0..RANKS).map(transport).collect();
    for (number, Sending { at, from, to, bytes }) in (1..).zip(sendings.iter().copied()) {
        timers[from as usize].0.store(at, Ordering::Relaxed);
        transports[from as usize].send(Rank(to), Tag::new(Kind::Push, number), packet(bytes)).unwrap();
    }
    for timer in &timers {
        timer.0.store(0, Ordering::Relaxed);
    }
    Decorated { timers, transports, cards }
}

fn behind_the_decorator(sendings: &[Sending], link: Link, divisors: &BTreeMap<Rank, f64>) -> Vec<Received> {
    let Decorated { timers, mut transports, cards } = decorated(sendings, link, divisors);
    let ranks = transports.iter_mut().zip(&timers).zip(0..).map(|((transport, timer), rank)| {
        let mine = sendings.iter().filter(|one| one.to == rank);
        let received = mine.map(|_| {
            let envelope = transport.recv_any(Kind::Push, Senders::Everyone).unwrap();
            (envelope.from, envelope.tag.step, envelope.began, timer.now())
        });
        received.collect()
    });
    let log = ranks.collect();
    let late = |card: &Arc<EmulatedNic>| card.lateness().most();
    assert!(cards.iter().all(|card| late(card) == Nanos(0)), "a scripted clock is never late");
    log
}

/// Whether two messages are ready for one card at the same moment: their order is left open.
fn tied(sendings: &[Sending], link: Link, divisors: &BTreeMap<Rank, f64>) -> bool {
    let fabric = Fabric::new(link, RANKS as usize, |rank| divisors.get(&rank).copied().unwrap_or(1.0));
    let mut cards = vec![strategies::emulation::NicModel::default(); RANKS as usize];
    let mut seen = std::collections::BTreeSet::new();
    sendings.iter().any(|one| {
        let from = Rank(one.from);
        let to_rank = Rank(one.to);
        let departed = fabric.depart(&mut cards[one.from as usize], from, Nanos(one.at), one.bytes);
        !seen.insert((one.to, fabric.flight(from, to_rank, departed, one.bytes).ready))
    })
}

fn sendings() -> impl Strategy<Value = Vec<Sending>> {
    let one = (0..5_000_000_u64, 0..RANKS, 1..RANKS, 1..3000_usize);
    prop::collection::vec(one, 1..20).prop_map(|mut all| {
        all.sort_by_key(|(at, ..)| *at);
        let sending = |(at, from, hop, bytes)| Sending { at, from, to: (from + hop) % RANKS, bytes };
        all.into_iter().map(sending).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]
    #[test]
    fn the_simulator_and_the_decorator_agree_to_the_nanosecond(
        sendings in sendings(),
        latency in 0..1_000_000_u64,
        slow in prop::option::of((0..RANKS, 1..20_u32)),
    ) {
        let link = Link { latency: Nanos(latency), nanos_per_byte: 800.0 };
        let divisors = slow.map(|(rank, divisor)| (Rank(rank), f64::from(divisor))).into_iter().collect();
        prop_assume!(!tied(&sendings, link, &divisors));
        prop_assert_eq!(
            behind_the_decorator(&sendings, link, &divisors),
            simulated(&sendings, link, &divisors)
        );
    }
}

#[test]
fn a_lane_that_asks_for_one_sender_waits_behind_earlier_messages_of_others() {
    let sending = |at, from| Sending { at, from, to: 0, bytes: 10 };
    let link = Link { latency: Nanos(100), nanos_per_byte: 1.0 };
    let sendings = [sending(0, 1), sending(4, 2)];
    let Decorated { timers, mut transports, .. } = decorated(&sendings, link, &BTreeMap::new());
    let envelope = transports[0].recv(Rank(2), Tag::new(Kind::Push, 2)).unwrap();
    assert_eq!((envelope.began, timers[0].now()), (Nanos(110), Nanos(120)));
    let envelope = transports[0].recv(Rank(1), Tag::new(Kind::Push, 1)).unwrap();
    assert_eq!((envelope.began, timers[0].now()), (Nanos(100), Nanos(120)));
}

#[test]
fn weights_that_are_handed_out_before_the_start_are_not_held_back() {
    let link = Link { latency: Nanos(100), nanos_per_byte: 1.0 };
    let Decorated { timers, mut transports, .. } = decorated(&[], link, &BTreeMap::new());
    let early = Tag::new(Kind::Broadcast, 0);
    transports[1].send(Rank(0), early, packet(1000)).unwrap();
    transports[0].recv(Rank(1), early).unwrap();
    assert_eq!(timers[0].now(), Nanos(0));
}

#[test]
fn a_stamp_from_another_world_is_an_error() {
    let link = Link { latency: Nanos(100), nanos_per_byte: 1.0 };
    let sending = Sending { at: u64::MAX / 2, from: 1, to: 0, bytes: 10 };
    let Decorated { mut transports, .. } = decorated(&[sending], link, &BTreeMap::new());
    let error = transports[0].recv(Rank(1), Tag::new(Kind::Push, 1)).unwrap_err();
    assert!(error.to_string().contains("rank 1 sent a message that would come in more than"), "{error}");
}

/// A scene whose steps take 1 ms of computing over a network of 1 ns per byte.
fn emulating(workers: u32, slow: Vec<Slow>) -> Scene {
    let split = ComputeSplit::Given { forward: 0.25, backward: 0.5, update: 0.25 };
    let mut scene = Scene::new(Method::DSync, workers).change(|spec| {
        spec.train.global_batch = workers * 4;
        spec.emulation.compute = Some(Compute { step_time: Duration::from_millis(1), split });
        spec.emulation.network =
            Some(Network { bandwidth: 1_000_000_000, latency: Duration::from_micros(10) });
        spec.emulation.slow = slow;
    });
    let layers = scene.learner().layout().layers().len();
    let size = scene.learner().layout().size();
    scene.world = World::new(1).emulating(&scene.spec, 1, layers, size);
    scene
}

#[test]
fn a_simulated_step_takes_its_stated_time_and_its_transfers() {
    let outcome = emulating(1, vec![]).run();
    for step in outcome.ranks[0].steps(LaneId::Compute).iter().filter(|step| !step.drain) {
        let times = [Phase::Forward, Phase::Backward, Phase::Update].map(|phase| step.phases[phase]);
        assert_eq!(times, [Nanos(250_000), Nanos(500_000), Nanos(250_000)]);
    }
    let scene = emulating(2, vec![]);
    let bytes = scene.learner().layout().size() as u64 * 4;
    for step in scene.run().ranks[1].steps(LaneId::Compute).iter().filter(|step| !step.drain) {
        // Half the vector to the other rank, and half of it back: 92 weights make two halves of 46.
        assert_eq!(step.phases[Phase::Transfer], Nanos(bytes), "{bytes}");
        assert_eq!(step.phases[Phase::WaitPeer], Nanos(2 * 10_000));
    }
}

#[test]
fn a_simulated_straggler_stretches_every_step_of_its_own_and_makes_the_others_wait() {
    let slow = Slow { whom: Whom::Rank(1), compute: 4.0, link: 1.0, probability: 1.0 };
    let outcome = emulating(2, vec![slow]).run();
    let lane = LaneId::Compute;
    for (fast, slow) in outcome.ranks[0].steps(lane).iter().zip(outcome.ranks[1].steps(lane)) {
        if !fast.drain {
            assert_eq!(slow.phases[Phase::Update], Nanos(1_000_000));
            assert_eq!(fast.phases[Phase::Update], Nanos(250_000));
            assert!(fast.phases[Phase::WaitPeer] >= Nanos(2_200_000));
        }
    }
}

#[test]
fn a_slow_link_slows_down_what_goes_in_and_out() {
    let slow = Slow { whom: Whom::Rank(1), compute: 1.0, link: 3.0, probability: 1.0 };
    let scene = emulating(2, vec![slow]);
    let bytes = scene.learner().layout().size() as u64 * 4;
    for rank in scene.run().ranks {
        for step in rank.steps(LaneId::Compute).iter().filter(|step| !step.drain) {
            assert_eq!(step.phases[Phase::Transfer], Nanos(3 * bytes));
        }
    }
}
