//! Model of a network card: when the messages that it carries leave and arrive.
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

/// Latency and bandwidth between any two ranks.
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

    /// The time that a card needs for `bytes` bytes, rounded down.
    pub fn carry(&self, bytes: usize) -> Nanos {
        Nanos((self.nanos_per_byte * bytes as f64) as u64)
    }
}

/// The speeds of all cards, and what lies between them.
#[derive(Clone, Debug, PartialEq)]
pub struct Fabric {
    latency: Nanos,
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
pub struct ArrivalTimes {
    /// When its first byte was received.
    pub began: Nanos,
    /// When its last byte was.
    pub complete: Nanos,
}

/// One direction of a card.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NicModel {
    /// When it has carried everything that it was given.
    free: Nanos,
}

impl Fabric {
    /// Cards of equal speed, but for those of some ranks, whose bandwidth is divided.
    pub fn new(link: Link, ranks: usize, divisor: impl Fn(Rank) -> f64) -> Self {
        let speed = |rank| link.nanos_per_byte * divisor(Rank(rank as u32));
        Self { latency: link.latency, nanos_per_byte: (0..ranks).map(speed).collect() }
    }

    /// The time that a rank's card needs for `bytes` bytes.
    pub fn carry(&self, rank: Rank, bytes: usize) -> Nanos {
        let nanos_per_byte = self.nanos_per_byte.get(rank.index()).copied().unwrap_or(0.0);
        Link { latency: self.latency, nanos_per_byte }.carry(bytes)
    }

    /// Hands a message to the sender's card; returns when its first byte leaves.
    pub fn depart(&self, card: &mut NicModel, from: Rank, now: Nanos, bytes: usize) -> Nanos {
        let first = now.max(card.free);
        card.free = first + self.carry(from, bytes);
        first
    }

    /// The way of a message whose first byte left at `departed`.
    pub fn flight(&self, from: Rank, to: Rank, departed: Nanos, bytes: usize) -> Flight {
        let first = departed + self.latency;
        let sent = self.carry(from, bytes);
        let length = self.carry(to, bytes);
        Flight { ready: first + sent - length.min(sent), first, length }
    }
}

impl NicModel {
    /// Receives a message. Messages are to be received in the order of [`Flight::ready`].
    pub fn receive(&mut self, flight: Flight) -> ArrivalTimes {
        let start = flight.ready.max(self.free);
        self.free = start + flight.length;
        // A message that comes more slowly than the card could take it arrives bit by bit, between others.
        let began = if flight.ready > flight.first { flight.first } else { start };
        ArrivalTimes { began, complete: self.free }
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
    fn modelled(speeds: [u64; RANKS], sendings: &[Sending]) -> Vec<ArrivalTimes> {
        let fabric = fabric(speeds);
        let mut out = [NicModel::default(); RANKS];
        let mut into = [NicModel::default(); RANKS];
        let mut flights: Vec<(usize, usize, Flight)> = Vec::new();
        for (number, Sending { at, from, to, bytes }) in sendings.iter().copied().enumerate() {
            let sender = Rank(from as u32);
            let to_rank = Rank(to as u32);
            let departed = fabric.depart(&mut out[from], sender, Nanos(at), bytes);
            flights.push((number, to, fabric.flight(sender, to_rank, departed, bytes)));
        }
        flights.sort_by_key(|(number, _, flight)| (flight.ready, *number));
        let mut arrivals = vec![ArrivalTimes { began: Nanos(0), complete: Nanos(0) }; sendings.len()];
        for (number, to, flight) in flights {
            arrivals[number] = into[to].receive(flight);
        }
        arrivals
    }

    /// One direction of a card that carries byte after byte: what waits for it, and how long it has carried the first.
    #[derive(Clone, Default)]
    struct SlowCard {
        queue: Vec<usize>,
        spent: u64,
    }

    impl SlowCard {
        /// A nanosecond passes: the message that is carried, whether it begins now, and whether it ends now.
        fn carry(&mut self, length: impl Fn(usize) -> u64) -> Option<(usize, bool, bool)> {
            let number = *self.queue.first()?;
            self.spent += 1;
            let begins = self.spent == 1;
            let ends = self.spent == length(number);
            if ends {
                self.spent = 0;
                self.queue.remove(0);
            }
            Some((number, begins, ends))
        }
    }

    /// The same nanosecond by nanosecond, between cards of equal speed: slow, and without a formula.
    fn stepped(sendings: &[Sending], nanos_per_byte: u64) -> Vec<ArrivalTimes> {
        let mut out = vec![SlowCard::default(); RANKS];
        let mut into = vec![SlowCard::default(); RANKS];
        let length = |number: usize| sendings[number].bytes as u64 * nanos_per_byte;
        let mut flying: Vec<(u64, usize)> = Vec::new();
        let mut arrivals = vec![ArrivalTimes { began: Nanos(u64::MAX), complete: Nanos(0) }; sendings.len()];
        let mut left = sendings.len();
        let mut now = 0;
        while left > 0 {
            for (number, one) in sendings.iter().enumerate().filter(|(_, one)| one.at == now) {
                out[one.from].queue.push(number);
            }
            // A message reaches the receiver's queue one latency after its first byte begins to leave.
            let leaving = out.iter_mut().filter_map(|card| card.carry(length));
            flying
                .extend(leaving.filter(|(_, begins, _)| *begins).map(|(number, ..)| (now + LATENCY, number)));
            for (_, number) in flying.extract_if(.., |(at, _)| *at == now) {
                into[sendings[number].to].queue.push(number);
            }
            for (number, begins, ends) in into.iter_mut().filter_map(|card| card.carry(length)) {
                if begins {
                    arrivals[number].began = Nanos(now);
                }
                if ends {
                    arrivals[number].complete = Nanos(now + 1);
                    left -= 1;
                }
            }
            now += 1;
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
        let mut out = [NicModel::default(); RANKS];
        let mut seen = std::collections::BTreeSet::new();
        sendings.iter().any(|one| {
            let from = Rank(one.from as u32);
            let to_rank = Rank(one.to as u32);
            let departed = fabric.depart(&mut out[one.from], from, Nanos(one.at), one.bytes);
            !seen.insert((one.to, fabric.flight(from, to_rank, departed, one.bytes).ready))
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
            for (rank, speed) in speeds.iter().enumerate() {
                let all = sendings.iter().zip(&arrivals).filter(|(one, _)| one.to == rank);
                let mut received: Vec<(u64, u64)> =
                    all.map(|(one, arrival)| (arrival.complete.0, one.bytes as u64 * speed)).collect();
                received.sort_unstable();
                for pair in received.windows(2) {
                    prop_assert!(pair[1].0 - pair[1].1 >= pair[0].0, "two at once on card {}", rank);
                }
                // All that was sent to it is received one length after the last was there at the latest.
                let work: u64 = received.iter().map(|(_, length)| length).sum();
                if let Some((end, _)) = received.last() {
                    let senders: u64 = sendings.iter().map(|one| one.bytes as u64 * speeds[one.from]).sum();
                    let last = sendings.iter().map(|one| one.at).max().unwrap_or(0);
                    prop_assert!(*end <= last + LATENCY + senders + work);
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
