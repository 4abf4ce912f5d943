//! Actors, events, and virtual time.

mod credit;
pub(super) mod health;
mod order;

use super::choices::Choices;
use crate::emulation::{Fabric, Flight, NicModel};
use crate::rng::mix;
use crate::{Envelope, Kind, Senders, StepError, Tag, Wanted};
use corosensei::Yielder;
use credit::{Credits, Direction};
use health::Health;
use order::Slice;
use record::{LaneId, Nanos, Phase, Rank};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Number of an actor: a lane of a rank.
pub(super) type Actor = usize;

/// State of an actor: running, done, or the event that it waits for.
#[derive(Clone, Debug)]
pub(super) enum Wait {
    Running,
    Time,
    Message {
        rank: Rank,
        from: Option<Rank>,
        kind: Kind,
        tag: Option<Tag>,
    },
    /// Room for one more message between these two.
    Credit {
        from: Rank,
        to: Rank,
        tag: Tag,
    },
    Bell(Arc<str>),
    Start,
    Done,
}

/// Where a message may come from.
#[derive(Clone, Copy, Debug)]
pub(super) enum Source<'a> {
    One(Rank),
    Any(Senders<'a>),
}

impl Source<'_> {
    /// The rank, if there is only one.
    pub(super) fn rank(self) -> Option<Rank> {
        match self {
            Self::One(rank) => Some(rank),
            Self::Any(_) => None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    Wake(Actor),
    /// The receiver's card can take the oldest message in flight on this way.
    Land(Way),
    /// Its last byte arrived.
    Deliver(Way),
    /// The fault with this index in `Health::faults` happens.
    Fault(usize),
    /// The wait with this number has lasted long enough.
    Deadline(Actor, u64),
    /// The pause of this rank is over.
    Continue(Rank),
}

/// Where messages stay in order: from a rank to a rank, over their cards or past them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Way {
    pub(super) from: Rank,
    pub(super) to: Rank,
    /// Whether messages pass no card: those that a rank sends to itself, and those of the measurement.
    pub(super) past_cards: bool,
}

/// The result of an event.
pub(super) enum Next {
    /// This actor is to run.
    Ready(Actor),
    /// No actor is ready yet.
    Later,
    /// There are no more events.
    Quiet,
}

pub(super) struct ActorState {
    pub(super) rank: Rank,
    pub(super) lane: LaneId,
    pub(super) wait: Wait,
    pub(super) since: Nanos,
    /// Number of waits so far, by which a deadline knows the wait that it ends.
    pub(super) waits: u64,
    /// Whether the deadline of the current one has come.
    pub(super) timed_out: bool,
    /// Whether it was its turn while its rank was paused.
    pub(super) missed: bool,
    /// The step and the phase it is in.
    pub(super) place: (u64, Phase),
    /// Address of the coroutine's yielder; 0 until it runs for the first time.
    yielder: usize,
}

pub(super) struct State {
    pub(super) now: Nanos,
    pub(super) current: Actor,
    pub(super) actors: Vec<ActorState>,
    pub(super) stopping: bool,
    pub(super) messages: u64,
    pub(super) bytes: u64,
    pub(super) switches: u64,
    pub(super) origin: Nanos,
    pub(super) health: Health,
    seed: u64,
    heap: BinaryHeap<Reverse<(Nanos, u64, u64, Event)>>,
    pushed: u64,
    draws: u64,
    at_gate: usize,
    flying: BTreeMap<Way, VecDeque<(Envelope, Flight)>>,
    landing: BTreeMap<Way, VecDeque<Envelope>>,
    outward: Vec<NicModel>,
    inward: Vec<NicModel>,
    inbox: Vec<BTreeMap<Kind, VecDeque<Envelope>>>,
    credits: Credits,
    lanes: Vec<Vec<Actor>>,
    /// Decides which of the events that are due now is next; `None` leaves it to the seed.
    choices: Option<Arc<Mutex<Choices>>>,
    /// The accesses of the lane since it was woken.
    slice: Option<Slice>,
    /// Digest of all that each lane has received and seen, where orders are searched.
    known: Vec<u64>,
    /// Digest, for each rank, of which lanes touched the state that they share, and with what knowledge.
    shared: Vec<u64>,
}

pub(super) struct Kernel {
    state: Mutex<State>,
    fabric: Fabric,
}

impl Kernel {
    pub(super) fn new(seed: u64, ranks: usize, fabric: Fabric) -> Self {
        let state = State {
            now: Nanos(0),
            current: 0,
            actors: vec![],
            stopping: false,
            messages: 0,
            bytes: 0,
            switches: 0,
            origin: Nanos(0),
            health: Health::of(ranks),
            seed,
            heap: BinaryHeap::new(),
            pushed: 0,
            draws: 0,
            at_gate: 0,
            flying: BTreeMap::new(),
            landing: BTreeMap::new(),
            outward: vec![NicModel::default(); ranks],
            inward: vec![NicModel::default(); ranks],
            inbox: vec![BTreeMap::new(); ranks],
            credits: Credits::default(),
            lanes: vec![vec![]; ranks],
            choices: None,
            slice: None,
            known: vec![],
            shared: vec![0; ranks],
        };
        Self { state: Mutex::new(state), fabric }
    }

    /// Lets every order of the events due at one moment be chosen.
    pub(super) fn choosing(self, choices: Option<Arc<Mutex<Choices>>>) -> Self {
        self.lock().choices = choices;
        self
    }

    /// Limits the bytes on their way between two ranks to `window`, if there is one.
    pub(super) fn limited(self, window: Option<u64>) -> Self {
        self.lock().credits = Credits::of(window);
        self
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an actor that is ready now.
    pub(super) fn enlist(&self, rank: Rank, lane: LaneId) {
        let mut state = self.lock();
        let actor = state.actors.len();
        let since = state.now;
        state.lanes[rank.index()].push(actor);
        state.known.push(0);
        let waits = 0;
        let timed_out = false;
        let missed = false;
        let place = (0, Phase::Other);
        let wait = Wait::Time;
        state.actors.push(ActorState {
            rank,
            lane,
            wait,
            since,
            waits,
            timed_out,
            missed,
            place,
            yielder: 0,
        });
        state.push(since, Event::Wake(actor));
    }

    /// Remembers how the running actor gives control back.
    pub(super) fn register(&self, actor: Actor, yielder: &Yielder<(), ()>) {
        self.lock().actors[actor].yielder = std::ptr::from_ref(yielder) as usize;
    }

    /// Gives control to the scheduler; returns when it is this actor's turn again.
    pub(super) fn suspend(&self, mut state: MutexGuard<'_, State>, wait: Wait) -> Result<(), StepError> {
        if state.is_over() {
            return Err(StepError::Stopped);
        }
        let me = state.current;
        let now = state.now;
        state.actors[me].wait = wait;
        state.actors[me].since = now;
        let yielder = state.actors[me].yielder as *const Yielder<(), ()>;
        // Never held across a switch: the next actor runs on this very thread.
        drop(state);
        #[expect(
            unsafe_code,
            reason = "a coroutine can only be left through its yielder, which cannot be stored safely"
        )]
        // SAFETY: the address was stored by this actor's own coroutine, which is alive because it is the one
        // that runs; the yielder lives on its stack until it returns.
        unsafe {
            (*yielder).suspend(());
        }
        if self.lock().is_over() { Err(StepError::Stopped) } else { Ok(()) }
    }

    /// Lets the running actor's time pass.
    pub(super) fn spend(&self, cost: impl FnOnce(f64) -> Nanos) {
        let mut state = self.lock();
        state.draws += 1;
        let luck = mix(!state.seed, state.draws) as f64 / u64::MAX as f64;
        let cost = cost(luck);
        if cost == Nanos(0) {
            return;
        }
        // Where orders are chosen, work takes no time, but others may come before its end.
        let until = if state.choices.is_some() { state.now } else { state.now + cost };
        if state.choices.is_none() && state.heap.peek().is_none_or(|Reverse((at, ..))| *at > until) {
            state.now = until;
            return;
        }
        let me = state.current;
        state.push(until, Event::Wake(me));
        // A stop is noticed at the next wait: time itself cannot fail.
        let _ = self.suspend(state, Wait::Time);
    }

    /// A message leaves as soon as there is room for it: it occupies the sender's card, then flies.
    pub(super) fn send(&self, to: Rank, envelope: Envelope) -> Result<(), StepError> {
        let mut state = self.room_for(to, &envelope)?;
        let now = state.now;
        let from = envelope.from;
        let bytes = envelope.packet.0.len();
        let way = Way { from, to, past_cards: from == to || !envelope.tag.kind.is_emulated() };
        let flight = if way.past_cards {
            Flight { ready: now, first: now, length: Nanos(0) }
        } else {
            let departed = self.fabric.depart(&mut state.outward[from.index()], from, now, bytes);
            self.fabric.flight(from, to, departed, bytes)
        };
        state.acts();
        state.messages += 1;
        state.bytes += bytes as u64;
        if state.health.swallows(from, to) {
            return Ok(());
        }
        state.credits.take(Direction { from, to }, bytes);
        state.flying.entry(way).or_default().push_back((envelope, flight));
        state.push(flight.ready, Event::Land(way));
        Ok(())
    }

    /// The oldest message that fits; waits for one.
    pub(super) fn receive(
        &self,
        rank: Rank,
        source: Source<'_>,
        kind: Kind,
        tag: Option<Tag>,
    ) -> Result<Envelope, StepError> {
        let from = source.rank();
        self.lock().begin_wait();
        loop {
            let mut state = self.lock();
            if state.is_over() {
                return Err(StepError::Stopped);
            }
            if let Some(queue) = state.inbox[rank.index()].get_mut(&kind) {
                let place = queue.iter().position(|envelope| from.is_none_or(|from| from == envelope.from));
                if let Some(envelope) = place.and_then(|place| queue.remove(place)) {
                    state.takes(&envelope);
                    state.give_back(&envelope, rank);
                    return Ok(envelope);
                }
            }
            let wanted = tag.map_or(Wanted::Any(kind), Wanted::Message);
            if let Some(error) = state.in_vain(rank, source, wanted) {
                return Err(error);
            }
            self.suspend(state, Wait::Message { rank, from, kind, tag })?;
        }
    }

    /// Waits until every actor of the world is here; then the run's clock starts.
    pub(super) fn pass_gate(&self) -> Result<(), StepError> {
        let mut state = self.lock();
        state.at_gate += 1;
        if state.at_gate < state.actors.len() {
            state.begin_wait();
            let me = state.current;
            self.suspend(state, Wait::Start)?;
            return if self.lock().actors[me].timed_out { Err(StepError::Stopped) } else { Ok(()) };
        }
        let now = state.now;
        state.origin = now;
        for actor in 0..state.actors.len() {
            if matches!(state.actors[actor].wait, Wait::Start) {
                state.actors[actor].wait = Wait::Time;
                state.push(now, Event::Wake(actor));
            }
        }
        Ok(())
    }

    /// The next event, and what it leads to.
    pub(super) fn advance(&self) -> Next {
        let mut state = self.lock();
        let Some(event) = state.next_event() else { return Next::Quiet };
        let ready = match event {
            Event::Wake(actor) => Some(actor),
            Event::Land(way) => {
                state.land(way);
                None
            }
            Event::Deliver(way) => {
                let ready = state.deliver(way);
                state.wake_mourners(way.from);
                ready
            }
            Event::Fault(number) => {
                state.go_wrong(number);
                None
            }
            Event::Deadline(actor, number) => state.deadline(actor, number),
            Event::Continue(rank) => {
                state.go_on(rank);
                None
            }
        };
        let runs = |actor: &ActorState| !matches!(actor.wait, Wait::Done) && state.health.runs(actor.rank);
        let Some(actor) = ready.filter(|actor| runs(&state.actors[*actor])) else {
            if let Some(actor) = ready {
                state.actors[actor].missed = true;
            }
            return Next::Later;
        };
        state.begin_turn(actor, event);
        state.current = actor;
        state.actors[actor].wait = Wait::Running;
        state.switches += 1;
        Next::Ready(actor)
    }
}

impl State {
    /// Whether the running lane must end.
    fn is_over(&self) -> bool {
        self.stopping || self.health.ending(self.actors[self.current].rank).is_some()
    }

    /// Whether something of one rank is on its way to another.
    pub(super) fn under_way(&self, from: Rank, to: Rank) -> bool {
        [false, true].map(|past_cards| Way { from, to, past_cards }).iter().any(|way| {
            let flies = self.flying.get(way).is_some_and(|queue| !queue.is_empty());
            flies || self.landing.get(way).is_some_and(|queue| !queue.is_empty())
        })
    }

    /// Ties are broken by a random number, then by order: another seed is another interleaving.
    pub(super) fn push(&mut self, at: Nanos, event: Event) {
        self.pushed += 1;
        let tie = mix(self.seed, self.pushed);
        self.heap.push(Reverse((at, tie, self.pushed, event)));
    }

    /// Before everything else of that moment, and without a number: what comes until then is not changed by it.
    pub(super) fn push_first(&mut self, at: Nanos, event: Event) {
        self.heap.push(Reverse((at, 0, 0, event)));
    }

    /// The receiving card is charged when it can take the message, not when that was sent, or senders would be
    /// served in the wrong order. The event names no message but "the next of these two", so that
    /// broken ties cannot reorder a pair's messages.
    fn land(&mut self, way: Way) {
        let flying = self.flying.get_mut(&way).and_then(VecDeque::pop_front);
        let Some((mut envelope, flight)) = flying else { return };
        if self.health.turns_away(way.from, way.to) {
            self.give_back(&envelope, way.to);
            return self.wake_mourners(way.from);
        }
        let mut none = NicModel::default();
        let card = if way.past_cards { &mut none } else { &mut self.inward[way.to.index()] };
        let arrival = card.receive(flight);
        envelope.began = arrival.began;
        self.landing.entry(way).or_default().push_back(envelope);
        self.push(arrival.complete, Event::Deliver(way));
    }

    fn deliver(&mut self, way: Way) -> Option<Actor> {
        let to = way.to;
        let envelope = self.landing.get_mut(&way).and_then(VecDeque::pop_front)?;
        if self.health.turns_away(way.from, to) {
            self.give_back(&envelope, to);
            return None;
        }
        let fits = |wait: &Wait| {
            matches!(wait, Wait::Message { rank, from, kind, .. }
                if *rank == to && *kind == envelope.tag.kind && from.is_none_or(|from| from == envelope.from))
        };
        let waiting = self.lanes[to.index()].iter().copied().find(|actor| fits(&self.actors[*actor].wait));
        self.inbox[to.index()].entry(envelope.tag.kind).or_default().push_back(envelope);
        waiting
    }
}
