//! The emulated card of a real rank: a decorator of its transport.
//!
//! A message travels at once, with the moment at which it would have left its sender's card. The receiver keeps it back
//! until the moment at which it would have come. Nothing waits on the sender's side: as on a real card, a message
//! that is handed over goes in its own time.

use super::inbound::{Inbound, MessageState, Next};
use super::nic_model::{ArrivalTimes, Fabric, Flight, NicModel};
use super::{Lateness, Timer};
use crate::{Envelope, Kind, Packet, Senders, StepError, Tag, Transport};
use record::{Nanos, Rank};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A transport that takes the moment of departure along.
pub trait Carrier: Transport {
    /// As [`Transport::send`]; the receiver gets `departed` with the message.
    fn send_departed(&mut self, to: Rank, tag: Tag, packet: Packet, departed: Nanos)
    -> Result<(), StepError>;
}

/// Observes the messages that a transport receives.
pub trait Arrivals: Send + Sync {
    /// A message is complete, and no lane has taken it yet. Of two messages of one kind from one rank, the first is
    /// told first. Must not wait.
    fn arrived(&self, from: Rank, tag: Tag, bytes: usize, departed: Option<Nanos>);
}

/// A stamp further ahead than this is no stamp of a card, but damage.
const FURTHEST: Nanos = Nanos(24 * 3600 * 1_000_000_000);

/// A lane that waits for any sender looks this often whether another sender was faster.
const LOOK: Nanos = Nanos(1_000_000);

/// The emulated card of a rank; its lanes share it.
pub struct EmulatedNic {
    me: Rank,
    fabric: Fabric,
    timer: Arc<dyn Timer>,
    out: Mutex<NicModel>,
    inbound: Mutex<Inbound>,
    lateness: Mutex<Lateness>,
}

impl EmulatedNic {
    /// The card of `me`.
    pub fn new(me: Rank, fabric: Fabric, timer: Arc<dyn Timer>) -> Arc<Self> {
        Arc::new(Self {
            me,
            fabric,
            timer,
            out: Mutex::default(),
            inbound: Mutex::default(),
            lateness: Mutex::default(),
        })
    }

    /// A lane's transport behind the card. `carrier` must tell this card of every arrival.
    pub fn transport(self: &Arc<Self>, carrier: Box<dyn Carrier>) -> Box<dyn Transport> {
        Box::new(Behind { card: self.clone(), carrier, taken: BTreeMap::new() })
    }

    /// How much later than due messages were handed over, from the moment on at which a lane asked for them.
    pub fn lateness(&self) -> Lateness {
        lock(&self.lateness).clone()
    }

    /// Weights that are handed out before the run starts belong to the start-up, which is not emulated; nor is what
    /// belongs to the measurement.
    fn passes(&self, to: Rank, tag: Tag) -> bool {
        to != self.me && tag.kind.is_emulated() && !(tag.kind == Kind::Broadcast && tag.step == 0)
    }

    fn flight(&self, from: Rank, bytes: usize, departed: Nanos) -> Flight {
        self.fabric.flight(from, self.me, departed, bytes)
    }

    fn handed_over(&self, arrival: ArrivalTimes, asked: Nanos) {
        let ideal = arrival.complete.max(asked);
        lock(&self.lateness).add(self.timer.now().since(ideal));
    }
}

impl Arrivals for EmulatedNic {
    fn arrived(&self, from: Rank, tag: Tag, bytes: usize, departed: Option<Nanos>) {
        let flight = departed.map(|departed| self.flight(from, bytes, departed));
        lock(&self.inbound).reach(from, tag, flight);
    }
}

/// A lane's transport behind the card.
struct Behind {
    card: Arc<EmulatedNic>,
    carrier: Box<dyn Carrier>,
    /// Messages taken from the carrier before they were due, by kind and sender.
    taken: BTreeMap<(Kind, Rank), VecDeque<Envelope>>,
}

impl Behind {
    /// Waits until the oldest message of a kind from `from` is here.
    fn due(&self, from: Rank, kind: Kind) -> Result<Option<ArrivalTimes>, StepError> {
        let card = &self.card;
        loop {
            let now = card.timer.now();
            // Not held while this lane waits: the transport tells of arrivals meanwhile.
            let place = lock(&card.inbound).oldest(from, kind, now);
            match place {
                Some(MessageState::Here) => return Ok(None),
                Some(MessageState::Landed(arrival)) if arrival.complete <= now => return Ok(Some(arrival)),
                Some(MessageState::Landed(arrival)) => self.wait(arrival.complete, from)?,
                Some(MessageState::Flying(flight)) => self.wait(flight.ready, from)?,
                None => {
                    let reason = format!("a message from rank {from} passed the emulated card unseen");
                    return Err(StepError::Transport { rank: card.me, reason });
                }
            }
        }
    }

    fn wait(&self, until: Nanos, from: Rank) -> Result<(), StepError> {
        let card = &self.card;
        if until > card.timer.now() + FURTHEST {
            let reason = format!("rank {from} sent a message that would come in more than {FURTHEST}");
            return Err(StepError::Transport { rank: card.me, reason });
        }
        card.timer.wait_until(until)
    }

    fn finish(&self, mut envelope: Envelope, arrival: Option<ArrivalTimes>, asked: Nanos) -> Envelope {
        let card = &self.card;
        lock(&card.inbound).hand_over(envelope.from, envelope.tag.kind);
        if let Some(arrival) = arrival {
            envelope.began = arrival.began;
            card.handed_over(arrival, asked);
        }
        envelope
    }

    fn take(&mut self, from: Rank, tag: Tag) -> Result<Envelope, StepError> {
        let taken = self.taken.get_mut(&(tag.kind, from)).and_then(VecDeque::pop_front);
        match taken {
            Some(got) if got.tag != tag => {
                Err(StepError::Unexpected { rank: self.card.me, peer: from, wanted: tag, got: got.tag })
            }
            Some(envelope) => Ok(envelope),
            None => self.carrier.recv(from, tag),
        }
    }
}

impl Transport for Behind {
    fn send(&mut self, to: Rank, tag: Tag, packet: Packet) -> Result<(), StepError> {
        let card = &self.card;
        if !card.passes(to, tag) {
            return self.carrier.send(to, tag, packet);
        }
        let departed = {
            let mut out = lock(&card.out);
            card.fabric.depart(&mut out, card.me, card.timer.now(), packet.0.len())
        };
        self.carrier.send_departed(to, tag, packet, departed)
    }

    fn has_room(&self, to: Rank, bytes: usize) -> bool {
        self.carrier.has_room(to, bytes)
    }

    fn recv(&mut self, from: Rank, tag: Tag) -> Result<Envelope, StepError> {
        let asked = self.card.timer.now();
        let envelope = self.take(from, tag)?;
        let arrival = self.due(from, tag.kind)?;
        Ok(self.finish(envelope, arrival, asked))
    }

    fn recv_any(&mut self, kind: Kind, senders: Senders<'_>) -> Result<Envelope, StepError> {
        let asked = self.card.timer.now();
        loop {
            let now = self.card.timer.now();
            let next = lock(&self.card.inbound).next(kind, now);
            match next {
                Next::Nothing => {
                    let envelope = self.carrier.recv_any(kind, senders)?;
                    self.taken.entry((kind, envelope.from)).or_default().push_back(envelope);
                }
                Next::Later(moment) if moment > now + LOOK + LOOK => {
                    self.card.timer.doze_until(now + LOOK)?;
                }
                Next::Later(moment) => self.card.timer.wait_until(moment)?,
                Next::Take(from, tag, place) => {
                    let envelope = self.take(from, tag)?;
                    let arrival = match place {
                        MessageState::Landed(arrival) => Some(arrival),
                        MessageState::Here | MessageState::Flying(_) => None,
                    };
                    return Ok(self.finish(envelope, arrival, asked));
                }
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
