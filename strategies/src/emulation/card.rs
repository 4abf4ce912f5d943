//! What a network card does to the messages that it carries.
//!
//! Each rank has a full-duplex card. In each direction it carries one message after the other, in the order in which
//! they are there, and is never idle while one is. A byte that left the sender's card reaches the receiver's one
//! latency later; a message that finds the receiver's card free is received while it is still being sent.
//!
//! ```text
//! sender's card      |--- sent ---|
//!                    first        last
//! latency             `----.       `----.
//! receiver's card          |-- received -|           if it is free and as fast
//!                          began         complete
//! ```
//!
//! A message from a slow card to a fast one would leave gaps on the fast card; it is taken as if its bytes came at
//! the fast card's speed and just in time for the last one ([`Flight::ready`]), so that others can be served before.

use record::{Nanos, Rank};

/// What bytes cost between any two ranks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    /// One way, per message.
    pub latency: Nanos,
    /// On each card, in each direction.
    pub nanos_per_byte: f64,
}

impl Link {
    /// The link of a described network.
    pub fn of(network: &recipe::Network) -> Self {
        let nanos_per_byte = 1e9 / network.bandwidth.max(1) as f64;
        Self { latency: Nanos(network.latency.as_nanos() as u64), nanos_per_byte }
    }

    /// The time that a card needs for so many bytes, rounded down.
    pub fn carry(&self, bytes: usize) -> Nanos {
        Nanos((self.nanos_per_byte * bytes as f64) as u64)
    }
}

/// The speeds of all cards, and what lies between them.
#[derive(Clone, Debug, PartialEq)]
pub struct Fabric {
    latency: Nanos,
    /// By rank.
    nanos_per_byte: Vec<f64>,
}

/// A message between two cards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Flight {
    /// When the receiver's card could begin and go on without a gap.
    pub ready: Nanos,
    /// When its first byte reaches the receiver's card.
    pub first: Nanos,
    /// How long the receiver's card needs for it.
    pub length: Nanos,
}

/// When a message came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Arrival {
    /// When its first byte was received.
    pub began: Nanos,
    /// When its last byte was.
    pub complete: Nanos,
}

/// One direction of a card.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Card {
    /// When it has carried everything that it was given.
    free: Nanos,
}

impl Fabric {
    /// Cards of equal speed, but for those of some ranks, whose bandwidth is divided.
    pub fn new(link: Link, ranks: usize, divisor: impl Fn(Rank) -> f64) -> Self {
        let speed = |rank| link.nanos_per_byte * divisor(Rank(rank as u32));
        Self { latency: link.latency, nanos_per_byte: (0..ranks).map(speed).collect() }
    }

    /// The time that a rank's card needs for so many bytes.
    pub fn carry(&self, rank: Rank, bytes: usize) -> Nanos {
        let nanos_per_byte = self.nanos_per_byte.get(rank.index()).copied().unwrap_or(0.0);
        Link { latency: self.latency, nanos_per_byte }.carry(bytes)
    }

    /// Hands a message to the sender's card; answers when its first byte leaves.
    pub fn depart(&self, card: &mut Card, from: Rank, now: Nanos, bytes: usize) -> Nanos {
        let first = now.max(card.free);
        card.free = first + self.carry(from, bytes);
        first
    }

    /// The way of a message whose first byte left at `departed`.
    pub fn flight(&self, (from, to): (Rank, Rank), departed: Nanos, bytes: usize) -> Flight {
        let first = departed + self.latency;
        let (sent, length) = (self.carry(from, bytes), self.carry(to, bytes));
        Flight { ready: first + sent - length.min(sent), first, length }
    }
}

impl Card {
    /// Receives a message. Messages are to be received in the order of [`Flight::ready`].
    pub fn receive(&mut self, flight: Flight) -> Arrival {
        let start = flight.ready.max(self.free);
        self.free = start + flight.length;
        // What comes more slowly than the card could take it comes bit by bit, between others.
        let began = if flight.ready > flight.first { flight.first } else { start };
        Arrival { began, complete: self.free }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A message to be: when it is handed over, from whom to whom, how large.
    #[derive(Clone, Copy, Debug)]
    struct Sending {
        at: u64,
        from: usize,
        to: usize,
        bytes: usize,
    }

    const LATENCY: u64 = 7;
    const RANKS: usize = 4;

    fn fabric(speeds: [u64; RANKS]) -> Fabric {
        let link = Link { latency: Nanos(LATENCY), nanos_per_byte: 1.0 };
        Fabric::new(link, RANKS, |rank| speeds[rank.index()] as f64)
    }

    /// When each message comes, by the model; messages in the order in which they are handed over.
    fn modelled(speeds: [u64; RANKS], sendings: &[Sending]) -> Vec<Arrival> {
        let fabric = fabric(speeds);
        let (mut out, mut into) = ([Card::default(); RANKS], [Card::default(); RANKS]);
        let mut flights: Vec<(usize, usize, Flight)> = Vec::new();
        for (number, Sending { at, from, to, bytes }) in sendings.iter().copied().enumerate() {
            let ranks = (Rank(from as u32), Rank(to as u32));
            let departed = fabric.depart(&mut out[from], ranks.0, Nanos(at), bytes);
            flights.push((number, to, fabric.flight(ranks, departed, bytes)));
        }
        flights.sort_by_key(|(number, _, flight)| (flight.ready, *number));
        let mut arrivals = vec![Arrival { began: Nanos(0), complete: Nanos(0) }; sendings.len()];
        for (number, to, flight) in flights {
            arrivals[number] = into[to].receive(flight);
        }
        arrivals
    }

    /// The same by moving single bytes, nanosecond by nanosecond, between cards of equal speed: slow, and without
    /// a formula. Each card has a queue; at the end of each byte's time the byte goes on.
    fn stepped(sendings: &[Sending], nanos_per_byte: u64) -> Vec<Arrival> {
        let mut out: [Vec<(usize, usize)>; RANKS] = Default::default();
        let mut flying: Vec<(u64, usize)> = Vec::new();
        let mut inward: [Vec<(usize, usize)>; RANKS] = Default::default();
        let (mut sending, mut receiving) = ([0_u64; RANKS], [0_u64; RANKS]);
        let mut arrivals = vec![Arrival { began: Nanos(u64::MAX), complete: Nanos(0) }; sendings.len()];
        let mut left = sendings.len();
        for now in 0.. {
            for (number, one) in sendings.iter().enumerate().filter(|(_, one)| one.at == now) {
                out[one.from].push((number, one.bytes));
            }
            for rank in 0..RANKS {
                // A message is announced to the receiver's queue when its first byte begins to leave.
                if let Some((number, bytes)) = out[rank].first().copied() {
                    if sending[rank] == 0 {
                        flying.push((now + LATENCY, number));
                    }
                    sending[rank] += 1;
                    if sending[rank] == bytes as u64 * nanos_per_byte {
                        sending[rank] = 0;
                        out[rank].remove(0);
                    }
                }
            }
            flying.retain(|(at, number)| {
                let due = *at == now;
                if due {
                    inward[sendings[*number].to].push((*number, sendings[*number].bytes));
                }
                !due
            });
            for rank in 0..RANKS {
                if let Some((number, bytes)) = inward[rank].first().copied() {
                    if receiving[rank] == 0 {
                        arrivals[number].began = Nanos(now);
                    }
                    receiving[rank] += 1;
                    if receiving[rank] == bytes as u64 * nanos_per_byte {
                        receiving[rank] = 0;
                        inward[rank].remove(0);
                        arrivals[number].complete = Nanos(now + 1);
                        left -= 1;
                    }
                }
            }
            if left == 0 {
                break;
            }
        }
        arrivals
    }

    fn sendings() -> impl Strategy<Value = Vec<Sending>> {
        let one = (0..60_u64, 0..RANKS, 1..RANKS, 1..12_usize);
        prop::collection::vec(one, 1..12).prop_map(|mut all| {
            all.sort_by_key(|(at, ..)| *at);
            let sending = |(at, from, hop, bytes)| Sending { at, from, to: (from + hop) % RANKS, bytes };
            all.into_iter().map(sending).collect()
        })
    }

    /// Whether two messages are ready for one card at the same moment: their order is left open.
    fn tied(speeds: [u64; RANKS], sendings: &[Sending]) -> bool {
        let fabric = fabric(speeds);
        let mut out = [Card::default(); RANKS];
        let mut seen = std::collections::BTreeSet::new();
        sendings.iter().any(|one| {
            let ranks = (Rank(one.from as u32), Rank(one.to as u32));
            let departed = fabric.depart(&mut out[one.from], ranks.0, Nanos(one.at), one.bytes);
            !seen.insert((one.to, fabric.flight(ranks, departed, one.bytes).ready))
        })
    }

    proptest! {
        #[test]
        fn the_formula_and_the_single_bytes_agree(sendings in sendings(), speed in 1..4_u64) {
            prop_assume!(!tied([speed; RANKS], &sendings));
            prop_assert_eq!(modelled([speed; RANKS], &sendings), stepped(&sendings, speed));
        }

        /// Cards of any speeds: no byte is early, no card carries two at once, none idles while something is there.
        #[test]
        fn cards_serialise_and_never_idle(
            sendings in sendings(),
            speeds in prop::array::uniform4(1..5_u64),
        ) {
            let arrivals = modelled(speeds, &sendings);
            for (one, arrival) in sendings.iter().zip(&arrivals) {
                let alone = one.bytes as u64 * speeds[one.from].max(speeds[one.to]);
                prop_assert!(arrival.complete.0 >= one.at + LATENCY + alone);
                prop_assert!(arrival.began.0 >= one.at + LATENCY);
                prop_assert!(arrival.began < arrival.complete);
            }
            for rank in 0..RANKS {
                let mut received: Vec<(u64, u64)> = sendings
                    .iter()
                    .zip(&arrivals)
                    .filter(|(one, _)| one.to == rank)
                    .map(|(one, arrival)| (arrival.complete.0, one.bytes as u64 * speeds[rank]))
                    .collect();
                received.sort_unstable();
                for pair in received.windows(2) {
                    prop_assert!(pair[1].0 - pair[1].1 >= pair[0].0, "two at once on card {rank}");
                }
                // All that was sent to it is received one length after the last was there at the latest.
                if let (Some(end), work) = (received.last(), received.iter().map(|(_, length)| length).sum::<u64>()) {
                    let senders: u64 = sendings.iter().map(|one| one.bytes as u64 * speeds[one.from]).sum();
                    let last = sendings.iter().map(|one| one.at).max().unwrap_or(0);
                    prop_assert!(end.0 <= last + LATENCY + senders + work);
                }
            }
        }
    }

    /// One message of 10 bytes from 0 to 1, then another one.
    fn pair(second: Sending, speeds: [u64; RANKS]) -> Vec<(u64, u64)> {
        let first = Sending { at: 0, from: 0, to: 1, bytes: 10 };
        modelled(speeds, &[first, second]).iter().map(|a| (a.began.0, a.complete.0)).collect()
    }

    #[test]
    fn the_laws_by_hand() {
        let sending = |at, from, to, bytes| Sending { at, from, to, bytes };
        // Alone: latency and bytes / bandwidth.
        assert_eq!(pair(sending(100, 2, 3, 10), [1; 4])[0], (7, 17));
        // Behind another one on the sender's card; both cards are busy without a pause.
        assert_eq!(pair(sending(0, 0, 1, 5), [1; 4])[1], (17, 22));
        assert_eq!(pair(sending(0, 0, 2, 5), [1; 4])[1], (17, 22));
        // Behind another one on the receiver's card.
        assert_eq!(pair(sending(3, 2, 1, 5), [1; 4])[1], (17, 22));
        // Full duplex: the way back is free.
        assert_eq!(pair(sending(0, 1, 0, 10), [1; 4])[1], (7, 17));
        // From a slow card: the receiver's is busy only for as long as it needs, and others go before.
        assert_eq!(pair(sending(10, 2, 1, 5), [4, 1, 1, 1]), [(7, 47), (17, 22)]);
        // To a slow card.
        assert_eq!(pair(sending(100, 2, 3, 1), [1, 4, 1, 1])[0], (7, 47));
    }
}
