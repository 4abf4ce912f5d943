//! Messages for a rank that its transport holds and that are not handed over yet: pure, with the time as an argument.

use super::nic_model::{ArrivalTimes, Flight, NicModel};
use crate::{Kind, Tag};
use record::{Nanos, Rank};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

/// Messages for a rank that its transport holds and that are not handed over yet.
#[derive(Debug, Default)]
pub(super) struct Inbound {
    card: NicModel,
    reached: u64,
    /// Messages that the card has not received yet, the first to be ready first.
    flying: BinaryHeap<Reverse<(Nanos, u64)>>,
    messages: BTreeMap<u64, Message>,
    /// By sender and kind, in the order of sending: each is a queue in the transport as well.
    queues: BTreeMap<(Kind, Rank), VecDeque<u64>>,
}

#[derive(Debug)]
struct Message {
    tag: Tag,
    state: MessageState,
}

/// Where a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MessageState {
    /// It passes no card.
    Here,
    /// On its way to the card.
    Flying(Flight),
    /// On the card, or through it.
    Landed(ArrivalTimes),
}

/// Next move of a lane that takes messages of a kind from any sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Nothing is known to come.
    Nothing,
    /// Nothing is there before this moment.
    Later(Nanos),
    Take(Rank, Tag, MessageState),
}

impl Inbound {
    /// A message is in the transport; no flight for one that passes no card.
    pub(super) fn reach(&mut self, from: Rank, tag: Tag, flight: Option<Flight>) {
        self.reached += 1;
        let number = self.reached;
        if let Some(flight) = flight {
            self.flying.push(Reverse((flight.ready, number)));
        }
        let state = flight.map_or(MessageState::Here, MessageState::Flying);
        self.messages.insert(number, Message { tag, state });
        self.queues.entry((tag.kind, from)).or_default().push_back(number);
    }

    /// Where the oldest message of a kind from `from` is.
    pub(super) fn oldest(&mut self, from: Rank, kind: Kind, now: Nanos) -> Option<MessageState> {
        self.land(now);
        let number = self.queues.get(&(kind, from))?.front()?;
        self.messages.get(number).map(|message| message.state)
    }

    /// The next message of a kind from anyone, in the order of complete arrival.
    pub(super) fn next(&mut self, kind: Kind, now: Nanos) -> Next {
        self.land(now);
        let heads = self.queues.range((kind, Rank(0))..=(kind, Rank(u32::MAX)));
        let heads = heads.filter_map(|((_, from), queue)| {
            let number = *queue.front()?;
            let message = self.messages.get(&number)?;
            let when = match message.state {
                MessageState::Here => Nanos(0),
                MessageState::Flying(flight) => flight.ready,
                MessageState::Landed(arrival) => arrival.complete,
            };
            Some((when, number, *from, message))
        });
        match heads.min_by_key(|(when, number, ..)| (*when, *number)) {
            None => Next::Nothing,
            Some((when, _, from, message))
                if when <= now && !matches!(message.state, MessageState::Flying(_)) =>
            {
                Next::Take(from, message.tag, message.state)
            }
            Some((when, ..)) => Next::Later(when),
        }
    }

    /// The oldest message of a kind from `from` is handed over.
    pub(super) fn hand_over(&mut self, from: Rank, kind: Kind) {
        if let Some(number) = self.queues.get_mut(&(kind, from)).and_then(VecDeque::pop_front) {
            self.messages.remove(&number);
        }
    }

    /// The card receives the messages that are ready by now.
    fn land(&mut self, now: Nanos) {
        while let Some(Reverse((ready, number))) = self.flying.peek().copied() {
            if ready > now {
                return;
            }
            self.flying.pop();
            if let Some(message) = self.messages.get_mut(&number)
                && let MessageState::Flying(flight) = message.state
            {
                message.state = MessageState::Landed(self.card.receive(flight));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flight(ready: u64, length: u64) -> Flight {
        Flight { ready: Nanos(ready), first: Nanos(ready), length: Nanos(length) }
    }

    fn landed(began: u64, complete: u64) -> MessageState {
        MessageState::Landed(ArrivalTimes { began: Nanos(began), complete: Nanos(complete) })
    }

    /// The message that is not asked for yet is on the card before the one that is asked for.
    #[test]
    fn the_card_serves_in_the_order_of_arrival() {
        let mut inbound = Inbound::default();
        let late = Tag::new(Kind::Push, 1);
        let early = Tag::new(Kind::Reduce, 1);
        inbound.reach(Rank(0), late, Some(flight(50, 10)));
        inbound.reach(Rank(1), early, Some(flight(45, 10)));
        assert_eq!(inbound.oldest(Rank(0), Kind::Push, Nanos(0)), Some(MessageState::Flying(flight(50, 10))));
        assert_eq!(inbound.oldest(Rank(0), Kind::Push, Nanos(50)), Some(landed(55, 65)));
        assert_eq!(inbound.oldest(Rank(1), Kind::Reduce, Nanos(50)), Some(landed(45, 55)));
        assert_eq!(inbound.oldest(Rank(1), Kind::Push, Nanos(50)), None);
    }

    #[test]
    fn the_first_complete_message_is_taken_first() {
        let mut inbound = Inbound::default();
        let tag = |step| Tag::new(Kind::Ask, step);
        assert_eq!(inbound.next(Kind::Ask, Nanos(0)), Next::Nothing);
        inbound.reach(Rank(1), tag(1), Some(flight(100, 5)));
        assert_eq!(inbound.next(Kind::Ask, Nanos(20)), Next::Later(Nanos(100)));
        inbound.reach(Rank(2), tag(2), Some(flight(30, 5)));
        assert_eq!(inbound.next(Kind::Ask, Nanos(20)), Next::Later(Nanos(30)));
        assert_eq!(inbound.next(Kind::Ask, Nanos(30)), Next::Later(Nanos(35)));
        assert_eq!(inbound.next(Kind::Ask, Nanos(35)), Next::Take(Rank(2), tag(2), landed(30, 35)));
        inbound.hand_over(Rank(2), Kind::Ask);
        inbound.reach(Rank(3), tag(3), None);
        assert_eq!(inbound.next(Kind::Ask, Nanos(40)), Next::Take(Rank(3), tag(3), MessageState::Here));
        inbound.hand_over(Rank(3), Kind::Ask);
        assert_eq!(inbound.next(Kind::Ask, Nanos(400)), Next::Take(Rank(1), tag(1), landed(100, 105)));
        inbound.hand_over(Rank(1), Kind::Ask);
        assert_eq!(inbound.next(Kind::Ask, Nanos(400)), Next::Nothing);
    }
}
