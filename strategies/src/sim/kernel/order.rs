//! Which event is next: the one that the seed says, or one after the other of all whose order can matter.
//!
//! A search that tries every order meets one deadlock in many orders that differ only in what cannot be told apart. Which
//! orders are left out follows Godefroid, "Partial-Order Methods for the Verification of Concurrent Systems", LNCS 1032,
//! 1996, whose terms these are: in every state, only the events of one *persistent set* are tried.
//!
//! An event is that a lane continues, until it waits again, or that a message is put into its receiver's inbox; where a lane
//! waits for that very message, it continues at once. Once the run has begun, and where nothing takes time:
//!
//! - Events of two ranks are independent. A rank's lanes share memory with each other and with no other rank, and ring
//!   no other rank's bell. One rank's sending to another and the other's receiving of an earlier message touch two
//!   ends of a queue.
//! - A message that no lane of its receiver waits for is independent of any lane of that rank that may go on now:
//!   the lane takes the message from its inbox, or waits and is woken by it, and then is in the same place.
//!   Two such messages for one who asks for any are not independent of each other.
//! - A lane that waits for a bell continues only after another lane of its rank.
//!
//! So take a rank of which every lane is at its end, waits for a bell, or can go on now; the last means that it waits for
//! nothing, or for a message of a particular rank, and that this is the next one to come from there. Call the
//! events by which these lanes go on T. As long as none of T happens, no event of another rank makes a lane of this rank go
//! on: all it can do is to put messages into the inbox, and none of them is waited for. All that happens before
//! the first of T is therefore independent of T, which makes T persistent. So does it if no lane of the rank can ever go on:
//! then each message for it is a persistent set. Where no rank is like that, all events are tried.
//!
//! All this holds for lanes that share nothing but the content of a `Shared`: weights that a server changes without a lock are
//! not seen here. Nor does it hold where credits are bounded, because one rank's receiving lets another send: there all
//! events are tried.
//!
//! Events only follow from each other in a circle if a strategy never ends, so that no event can be put off for ever.
//! A search of persistent sets meets every deadlock that there is (chapter 4 there), and takes some order of each
//! set of orders that differ by independent events only; so every failure of a lane is met too.

use super::{Actor, Event, State, Wait, Way};
use crate::rng::mix;
use crate::{Envelope, Tag};
use record::Rank;
use std::cmp::Reverse;
use std::sync::PoisonError;

/// Turn of a lane between two waits.
pub(super) struct Slice {
    actor: Actor,
    event: Event,
    /// How often it looked at what it shares with others.
    looks: u64,
    /// Whether it did what another may notice.
    acts: bool,
}

/// Both ends of a way as a number.
fn ends(Way { from, to, past_cards }: Way) -> u64 {
    u64::from(past_cards) << 56 | u64::from(from.0) << 24 | u64::from(to.0)
}

/// An event as a number.
fn code(event: Event) -> u64 {
    match event {
        Event::Wake(actor) => actor as u64,
        Event::Land(way) => 1 << 62 | ends(way),
        Event::Deliver(way) => 1 << 61 | ends(way),
        Event::Fault(number) => 1 << 60 | number as u64,
        Event::Continue(rank) => 1 << 58 | u64::from(rank.0),
        Event::Deadline(actor, number) => 1 << 59 | (actor as u64) << 40 | number,
    }
}

impl State {
    /// The earliest event; of several, the one that is chosen, or that the seed puts first. Before the start there is
    /// nothing to choose, and that a message lands changes nothing but that it can be delivered.
    pub(super) fn next_event(&mut self) -> Option<Event> {
        self.end_turn();
        let Reverse((at, tie, number, event)) = self.heap.pop()?;
        self.now = at;
        let started = self.at_gate >= self.actors.len();
        let Some(choices) = self.choices.clone().filter(|_| started) else { return Some(event) };
        let mut due = vec![(tie, number, event)];
        while self.heap.peek().is_some_and(|Reverse((also, ..))| *also == at) {
            due.extend(self.heap.pop().map(|Reverse((_, tie, number, event))| (tie, number, event)));
        }
        due.sort_unstable_by_key(|(_, number, _)| *number);
        let events: Vec<Event> = due.iter().map(|(.., event)| *event).collect();
        let lands = events.iter().position(|event| matches!(event, Event::Land(..)));
        let chosen = lands.or_else(|| {
            let mut choices = choices.lock().unwrap_or_else(PoisonError::into_inner);
            let options = if choices.is_every() || self.credits.bounded() {
                every(&events)
            } else {
                self.persistent(&events)
            };
            if let [only] = options[..] {
                return Some(only);
            }
            Some(options[choices.choose(options.len(), self.signature(&events))?])
        })?;
        for (index, (tie, number, event)) in due.into_iter().enumerate() {
            if index != chosen {
                self.heap.push(Reverse((at, tie, number, event)));
            }
        }
        Some(events[chosen])
    }

    /// A persistent set of the events that are due, as small as the ranks allow: see above.
    fn persistent(&self, due: &[Event]) -> Vec<usize> {
        let ranks = (0..self.lanes.len() as u32).map(Rank);
        let sets = ranks.filter_map(|rank| self.persistent_of(rank, due));
        sets.min_by_key(Vec::len).unwrap_or_else(|| every(due))
    }

    /// The persistent set of one rank, if it has one.
    fn persistent_of(&self, rank: Rank, due: &[Event]) -> Option<Vec<usize>> {
        let lanes = self.lanes[rank.index()].iter().copied();
        let mut live = lanes.filter(|lane| !matches!(self.actors[*lane].wait, Wait::Done | Wait::Bell(_)));
        let place = |event: Event| due.iter().position(|one| *one == event);
        let Some(first) = live.next() else {
            let ends = |event: &Event| matches!(event, Event::Deliver(way) if way.to == rank);
            return due.iter().position(ends).map(|message| vec![message]);
        };
        std::iter::once(first).chain(live).map(|lane| self.goes_on_by(lane).and_then(place)).collect()
    }

    /// Event by which a lane continues; `None` if it is not known.
    fn goes_on_by(&self, lane: Actor) -> Option<Event> {
        match self.actors[lane].wait {
            Wait::Time => Some(Event::Wake(lane)),
            Wait::Message { rank, from: Some(from), kind, .. } => {
                let ways = [false, true].map(|past_cards| Way { from, to: rank, past_cards });
                let next = |way: &Way| self.landing.get(way)?.front().map(|envelope| envelope.tag.kind);
                ways.into_iter().find(|way| next(way) == Some(kind)).map(Event::Deliver)
            }
            _ => None,
        }
    }

    /// Number that tells this state from others. The position of a lane follows from what it received, and from what it
    /// saw of the state that the lanes of its rank share; the shared state follows from the lanes that touched it, in
    /// order. A lane at its end has no position.
    fn signature(&self, due: &[Event]) -> u64 {
        let mut due: Vec<u64> = due.iter().map(|event| code(*event)).collect();
        due.sort_unstable();
        let inboxes = self.inbox.iter().flat_map(|inbox| inbox.values().flatten());
        let messages = self.landing.values().flatten().chain(inboxes).map(content);
        let over = |actor: Actor| matches!(self.actors[actor].wait, Wait::Done);
        let lanes = (0..self.actors.len()).map(|actor| if over(actor) { 0 } else { self.known[actor] });
        let ranks = self.lanes.iter().zip(&self.shared);
        let ranks =
            ranks.map(|(lanes, shared)| if lanes.iter().all(|lane| over(*lane)) { 0 } else { *shared });
        lanes.chain(ranks).chain(due).chain(messages).fold(0, mix)
    }

    /// A lane continues because of an event.
    pub(super) fn begin_turn(&mut self, actor: Actor, event: Event) {
        self.slice = Some(Slice { actor, event, looks: 0, acts: false });
    }

    /// The running lane looks at what it shares with others.
    pub(in crate::sim) fn looks(&mut self) {
        if let Some(slice) = &mut self.slice {
            slice.looks += 1;
        }
    }

    /// The running lane does what another may notice.
    pub(in crate::sim) fn acts(&mut self) {
        if let Some(slice) = &mut self.slice {
            slice.acts = true;
        }
    }

    /// The running lane takes a message from its inbox.
    pub(super) fn takes(&mut self, envelope: &Envelope) {
        self.acts();
        // Only who chooses asks what tells states from each other, and megabytes take long to read.
        if let Some(Slice { actor, .. }) = self.slice.as_ref().filter(|_| self.choices.is_some()) {
            self.known[*actor] = mix(self.known[*actor], content(envelope));
        }
    }

    /// A lane waits again. One that only looked once, and waits for its bell, is as if it had been there before it
    /// was woken.
    fn end_turn(&mut self) {
        let Some(Slice { actor, event, looks, acts }) = self.slice.take() else { return };
        if looks == 1 && !acts && matches!(self.actors[actor].wait, Wait::Bell(_)) {
            return;
        }
        let known = &mut self.known[actor];
        let shared = &mut self.shared[self.actors[actor].rank.index()];
        *known = mix(*known, code(event));
        if looks > 0 {
            *known = mix(*known, *shared);
            *shared = mix(*shared, *known);
        }
    }
}

/// All events that are due. Messages between two ranks keep their order: the first of them stands for all.
fn every(due: &[Event]) -> Vec<usize> {
    (0..due.len()).filter(|index| !due[..*index].contains(&due[*index])).collect()
}

/// A message as a number.
fn content(envelope: &Envelope) -> u64 {
    let Tag { kind, step, call, part } = envelope.tag;
    let head = [u64::from(envelope.from.0), kind as u64, step, u64::from(call), u64::from(part)];
    let words = envelope.packet.0.chunks(size_of::<u64>()).map(|bytes| {
        let mut word = [0; size_of::<u64>()];
        word[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(word)
    });
    [envelope.packet.0.len() as u64].into_iter().chain(head).chain(words).fold(0, mix)
}
