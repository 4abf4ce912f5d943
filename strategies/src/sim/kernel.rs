//! Actors, events, and virtual time.

use super::cost::Link;
use super::world::{Fault, World};
use crate::draw::mix;
use crate::{Envelope, Kind, StepError, Tag, Wanted};
use corosensei::Yielder;
use record::{LaneId, Nanos, Rank};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Number of an actor: a lane of a rank.
pub(super) type Actor = usize;

/// What an actor waits for.
#[derive(Clone, Debug)]
pub(super) enum Wait {
    Running,
    Time,
    Message { rank: Rank, from: Option<Rank>, kind: Kind, tag: Option<Tag> },
    Bell(Arc<str>),
    Start,
    Done,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    Wake(Actor),
    /// The first byte of the oldest message in flight between these two arrives.
    FirstByte(Rank, Rank),
    /// Its last byte arrived.
    Deliver(Rank, Rank),
    /// The wait of that number has lasted too long.
    Deadline(Actor, u64),
    /// A rank stops to do anything.
    Fault(Rank),
}

/// What the next event leads to.
pub(super) enum Next {
    /// This actor is to run.
    Ready(Actor),
    /// Nobody is ready yet.
    Nobody,
    /// There are no more events.
    Quiet,
}

pub(super) struct ActorState {
    pub(super) rank: Rank,
    pub(super) lane: LaneId,
    pub(super) wait: Wait,
    pub(super) since: Nanos,
    /// Number of its waits so far: tells a deadline whether it still means this one.
    waits: u64,
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
    seed: u64,
    heap: BinaryHeap<Reverse<(Nanos, u64, u64, Event)>>,
    pushed: u64,
    draws: u64,
    at_gate: usize,
    flying: BTreeMap<(Rank, Rank), VecDeque<Envelope>>,
    landing: BTreeMap<(Rank, Rank), VecDeque<Envelope>>,
    out_free: Vec<Nanos>,
    in_free: Vec<Nanos>,
    inbox: Vec<BTreeMap<Kind, VecDeque<Envelope>>>,
    lanes: Vec<Vec<Actor>>,
    faults: BTreeMap<Rank, Fault>,
    /// Ranks that do nothing any more.
    faulty: BTreeSet<Rank>,
}

pub(super) struct Kernel {
    state: Mutex<State>,
    link: Link,
    deadline: Option<Nanos>,
}

impl Kernel {
    pub(super) fn new(world: &World, ranks: usize) -> Self {
        let state = State {
            now: Nanos(0),
            current: 0,
            actors: vec![],
            stopping: false,
            messages: 0,
            bytes: 0,
            switches: 0,
            origin: Nanos(0),
            seed: world.seed,
            heap: BinaryHeap::new(),
            pushed: 0,
            draws: 0,
            at_gate: 0,
            flying: BTreeMap::new(),
            landing: BTreeMap::new(),
            out_free: vec![Nanos(0); ranks],
            in_free: vec![Nanos(0); ranks],
            inbox: vec![BTreeMap::new(); ranks],
            lanes: vec![vec![]; ranks],
            faults: world.faults.clone(),
            faulty: BTreeSet::new(),
        };
        Self { state: Mutex::new(state), link: world.link, deadline: world.deadline }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an actor that is ready now.
    pub(super) fn enlist(&self, rank: Rank, lane: LaneId) {
        let mut state = self.lock();
        let (actor, since) = (state.actors.len(), state.now);
        state.lanes[rank.index()].push(actor);
        state.actors.push(ActorState { rank, lane, wait: Wait::Time, since, waits: 0, yielder: 0 });
        state.push(since, Event::Wake(actor));
    }

    /// Remembers how the running actor gives control back.
    pub(super) fn register(&self, actor: Actor, yielder: &Yielder<(), ()>) {
        self.lock().actors[actor].yielder = std::ptr::from_ref(yielder) as usize;
    }

    /// Gives control to the scheduler; returns when it is this actor's turn again.
    pub(super) fn suspend(&self, mut state: MutexGuard<'_, State>, wait: Wait) -> Result<(), StepError> {
        if state.stopping {
            return Err(StepError::Stopped);
        }
        let (me, now) = (state.current, state.now);
        state.actors[me].wait = wait;
        state.actors[me].since = now;
        state.actors[me].waits += 1;
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
        if self.lock().stopping { Err(StepError::Stopped) } else { Ok(()) }
    }

    /// Lets the running actor's time pass.
    pub(super) fn spend(&self, cost: impl FnOnce(f64) -> Nanos) {
        let mut state = self.lock();
        state.draws += 1;
        let luck = mix(!state.seed, state.draws) as f64 / u64::MAX as f64;
        let cost = cost(luck);
        // What unwinds has no time any more.
        if cost == Nanos(0) || state.stopping {
            return;
        }
        let until = state.now + cost;
        if state.heap.peek().is_none_or(|Reverse((at, ..))| *at > until) {
            state.now = until;
            return;
        }
        let me = state.current;
        state.push(until, Event::Wake(me));
        // A stop is noticed at the next wait: time itself cannot fail.
        let _ = self.suspend(state, Wait::Time);
    }

    /// A message leaves: it occupies the sender's card, then flies.
    pub(super) fn send(&self, to: Rank, envelope: Envelope) {
        let mut state = self.lock();
        if state.stopping {
            return;
        }
        let (from, bytes) = (envelope.from, envelope.packet.0.len());
        let start = state.now.max(state.out_free[from.index()]);
        state.out_free[from.index()] = start + self.link.carry(bytes);
        state.messages += 1;
        state.bytes += bytes as u64;
        state.flying.entry((from, to)).or_default().push_back(envelope);
        state.push(start + self.link.latency, Event::FirstByte(from, to));
    }

    /// The oldest message that fits; waits for one.
    pub(super) fn receive(
        &self,
        rank: Rank,
        from: Option<Rank>,
        kind: Kind,
        tag: Option<Tag>,
    ) -> Result<Envelope, StepError> {
        let begin = self.lock().now;
        let mut late = None;
        loop {
            let mut state = self.lock();
            if state.stopping {
                return Err(StepError::Stopped);
            }
            if let Some(queue) = state.inbox[rank.index()].get_mut(&kind) {
                let place = queue.iter().position(|envelope| from.is_none_or(|from| from == envelope.from));
                if let Some(envelope) = place.and_then(|place| queue.remove(place)) {
                    return Ok(envelope);
                }
            }
            let wanted = tag.map_or(Wanted::Any(kind), Wanted::Message);
            if let Some(peer) = from.filter(|from| state.is_dead(*from)) {
                return Err(StepError::Gone { rank, peer, wanted });
            }
            if late.is_some_and(|late| state.now >= late) {
                return Err(StepError::Silent { rank, peer: from, wanted, waited: state.now - begin });
            }
            if let Some(deadline) = self.deadline {
                let (me, until) = (state.current, *late.get_or_insert(begin + deadline));
                let wait = state.actors[me].waits + 1;
                state.push(until, Event::Deadline(me, wait));
            }
            self.suspend(state, Wait::Message { rank, from, kind, tag })?;
        }
    }

    /// Waits until every actor of the world is here; then the run's clock starts.
    pub(super) fn pass_gate(&self) -> Result<(), StepError> {
        let mut state = self.lock();
        state.at_gate += 1;
        if state.at_gate < state.actors.len() {
            return self.suspend(state, Wait::Start);
        }
        let now = state.now;
        state.origin = now;
        for (rank, fault) in state.faults.clone() {
            state.push(now + fault.at(), Event::Fault(rank));
        }
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
        let Some(Reverse((at, _, _, event))) = state.heap.pop() else { return Next::Quiet };
        if state.is_past(event) {
            return Next::Nobody;
        }
        state.now = at;
        let ready = match event {
            Event::Wake(actor) | Event::Deadline(actor, _) => Some(actor),
            Event::FirstByte(from, to) => {
                state.land(at, from, to, self.link);
                None
            }
            Event::Deliver(from, to) => state.deliver(from, to),
            Event::Fault(rank) => {
                state.fail(rank);
                None
            }
        };
        let Some(actor) = ready.filter(|actor| state.can_run(*actor)) else {
            return Next::Nobody;
        };
        state.current = actor;
        state.actors[actor].wait = Wait::Running;
        state.switches += 1;
        Next::Ready(actor)
    }
}

impl State {
    /// Whether a rank is gone, and its peers know.
    fn is_dead(&self, rank: Rank) -> bool {
        self.faulty.contains(&rank) && matches!(self.faults.get(&rank), Some(Fault::Dies(_)))
    }

    /// Whether the rank of an actor does nothing any more.
    pub(super) fn is_faulty(&self, actor: Actor) -> bool {
        self.faulty.contains(&self.actors[actor].rank)
    }

    /// Whether what the event is about is over, so that it takes no time.
    fn is_past(&self, event: Event) -> bool {
        match event {
            Event::Deadline(actor, wait) => self.actors[actor].waits != wait || !self.can_run(actor),
            Event::Fault(_) => self.actors.iter().all(|actor| matches!(actor.wait, Wait::Done)),
            _ => false,
        }
    }

    fn can_run(&self, actor: Actor) -> bool {
        !matches!(self.actors[actor].wait, Wait::Done) && !self.is_faulty(actor)
    }

    /// A rank stops to do anything. If it dies, what it had under way is lost, and whoever waits for it learns
    /// that.
    fn fail(&mut self, rank: Rank) {
        self.faulty.insert(rank);
        if !self.is_dead(rank) {
            return;
        }
        self.flying.retain(|(from, _), _| *from != rank);
        self.landing.retain(|(from, _), _| *from != rank);
        let now = self.now;
        for actor in 0..self.actors.len() {
            if matches!(self.actors[actor].wait, Wait::Message { from: Some(from), .. } if from == rank) {
                self.push(now, Event::Wake(actor));
            }
        }
    }

    /// Ties are broken by a random number, then by order: another seed is another interleaving.
    pub(super) fn push(&mut self, at: Nanos, event: Event) {
        self.pushed += 1;
        let tie = mix(self.seed, self.pushed);
        self.heap.push(Reverse((at, tie, self.pushed, event)));
    }

    /// The receiving card is charged when the first byte arrives, not when the message was sent, or senders
    /// would be served in the wrong order. The event names no message but "the next of these two", so that
    /// broken ties cannot reorder a pair's messages.
    fn land(&mut self, at: Nanos, from: Rank, to: Rank, link: Link) {
        let Some(mut envelope) = self.flying.get_mut(&(from, to)).and_then(VecDeque::pop_front) else {
            return;
        };
        let start = at.max(self.in_free[to.index()]);
        let end = start + link.carry(envelope.packet.0.len());
        envelope.began = start;
        self.in_free[to.index()] = end;
        self.landing.entry((from, to)).or_default().push_back(envelope);
        self.push(end, Event::Deliver(from, to));
    }

    fn deliver(&mut self, from: Rank, to: Rank) -> Option<Actor> {
        let envelope = self.landing.get_mut(&(from, to)).and_then(VecDeque::pop_front)?;
        let fits = |wait: &Wait| {
            matches!(wait, Wait::Message { rank, from, kind, .. }
                if *rank == to && *kind == envelope.tag.kind && from.is_none_or(|from| from == envelope.from))
        };
        let waiting = self.lanes[to.index()].iter().copied().find(|actor| fits(&self.actors[*actor].wait));
        self.inbox[to.index()].entry(envelope.tag.kind).or_default().push_back(envelope);
        waiting
    }
}
