//! Synchronous SGD through parameter servers, bucket by bucket, step after step.
//!
//! A worker sends its part of each bucket, as soon as it is computed, to the servers that hold it, also while weights of earlier buckets are
//! on their way. A server adds the gradients of all workers, updates, and sends the weights to one worker after the other; so
//! the workers begin the next step one after the other, and send their gradients one after the other, too. A message takes
//! alpha + beta M; those that leave a rank, and those that arrive at one, share its link and follow each other. The messages of a single
//! bucket take what [`crate::elastic::servers`] has.

use crate::network::LinkRates;
use std::num::NonZeroU32;

/// Neighbouring layers whose gradients travel together.
#[derive(Clone, Debug, PartialEq)]
pub struct Bucket {
    /// When its gradient is computed, in seconds from the begin of a step.
    pub computed: f64,
    /// Shares of the servers that hold it, in the order in which they leave. Never empty.
    pub parts: Vec<ServerShare>,
}

/// Part of a bucket that one server holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ServerShare {
    /// Its number, from 0.
    pub server: usize,
    /// Bytes of a gradient on the wire.
    pub gradient: f64,
    /// Bytes of the weights.
    pub weights: f64,
    /// Seconds of the update.
    pub update: f64,
}

/// A step when the first ones are over, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ServedStep {
    /// Length of the whole step.
    pub step: f64,
    /// Time in which a bucket or its weights are on their way, the mean over the workers.
    pub exchanging: f64,
}

/// Steps that are left out, and steps whose mean counts: the order in which workers are served repeats itself soon.
const STEPS: [usize; 2] = [16, 16];

/// The step of `workers` workers that exchange these buckets in their order.
pub fn step(rates: LinkRates, workers: NonZeroU32, buckets: &[Bucket]) -> ServedStep {
    let mut run = Run::of(rates, workers, buckets);
    let [opening, counted] = STEPS;
    run.steps(opening, buckets);
    let begun = run.begun();
    let before = run.exchanging;
    run.steps(counted, buckets);
    let mean = |whole: f64| whole / counted as f64;
    ServedStep {
        step: mean(run.begun() - begun),
        exchanging: mean(run.exchanging - before) / f64::from(workers.get()),
    }
}

/// When a rank's link has carried everything that it was given, in each direction.
#[derive(Clone, Copy, Debug, Default)]
struct Link {
    out: f64,
    into: f64,
}

impl Link {
    /// Sends a message; returns when its first byte leaves.
    fn send(&mut self, now: f64, transfer: f64) -> f64 {
        let leaves = self.out.max(now);
        self.out = leaves + transfer;
        leaves
    }

    /// Receives a message whose first byte comes at `first`; returns when its last one does.
    fn receive(&mut self, first: f64, transfer: f64) -> f64 {
        self.into = self.into.max(first) + transfer;
        self.into
    }
}

/// How long each bucket is on its way in a step whose buckets leave together: from when it leaves, or those before it have come, until
/// its weights are there. In seconds, of the slowest worker. All workers begin together, but of two the second one begins a latency before the
/// other, since there is no third to tell it when.
pub fn messages(rates: LinkRates, workers: NonZeroU32, buckets: &[Bucket]) -> Vec<f64> {
    let mut run = Run::of(rates, workers, buckets);
    if let [first, _] = &mut run.workers[..] {
        first.begun = rates.alpha();
    }
    let mut longest = vec![0.0; buckets.len()];
    for visits in run.step(buckets) {
        let mut free = 0.0_f64;
        for (longest, Visit { left, back }) in longest.iter_mut().zip(visits) {
            *longest = f64::max(*longest, back - free.max(left));
            free = back;
        }
    }
    longest
}

/// One bucket of one worker, on its way to the servers and back; times in seconds.
#[derive(Clone, Copy, Debug, Default)]
struct Visit {
    /// Time at which it leaves the worker.
    left: f64,
    /// When its weights are there, and those of all before it.
    back: f64,
}

/// A part of a bucket of a worker, on its way.
#[derive(Clone, Copy, Debug)]
struct Message {
    worker: usize,
    bucket: usize,
    /// When its first byte arrives.
    first: f64,
    transfer: f64,
}

struct Run {
    rates: LinkRates,
    workers: Vec<Worker>,
    servers: Vec<Server>,
    /// Of all workers so far.
    exchanging: f64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Worker {
    /// When it began its step.
    begun: f64,
    link: Link,
}

#[derive(Clone, Copy, Debug, Default)]
struct Server {
    /// When it has nothing more to do for the buckets before.
    free: f64,
    link: Link,
}

impl Run {
    fn of(rates: LinkRates, workers: NonZeroU32, buckets: &[Bucket]) -> Self {
        let servers = buckets.iter().flat_map(|bucket| &bucket.parts).map(|part| part.server + 1);
        Self {
            rates,
            workers: vec![Worker::default(); workers.get() as usize],
            servers: vec![Server::default(); servers.fold(0, usize::max)],
            exchanging: 0.0,
        }
    }

    /// When the last worker began its step.
    fn begun(&self) -> f64 {
        self.workers.iter().map(|worker| worker.begun).fold(0.0, f64::max)
    }

    fn steps(&mut self, count: usize, buckets: &[Bucket]) {
        for _ in 0..count {
            let visits = self.step(buckets);
            self.exchanging += visits.iter().map(|visits| time_away(visits)).sum::<f64>();
        }
    }

    /// A step of all workers: of each the visits of its buckets.
    fn step(&mut self, buckets: &[Bucket]) -> Vec<Vec<Visit>> {
        let left = |worker: &Worker| -> Vec<Visit> {
            buckets.iter().map(|bucket| Visit { left: worker.begun + bucket.computed, back: 0.0 }).collect()
        };
        let mut visits: Vec<Vec<Visit>> = self.workers.iter().map(left).collect();
        let up = self.send_gradients(buckets);
        let down = self.serve(buckets, up);
        for ((worker, visits), down) in self.workers.iter_mut().zip(&mut visits).zip(down) {
            for message in in_order_of_arrival(down) {
                let back = &mut visits[message.bucket].back;
                *back = back.max(worker.link.receive(message.first, message.transfer));
            }
            for visit in visits {
                worker.begun = worker.begun.max(visit.back);
                visit.back = worker.begun;
            }
        }
        visits
    }

    /// The gradients that each server gets.
    fn send_gradients(&mut self, buckets: &[Bucket]) -> Vec<Vec<Message>> {
        let mut up = vec![Vec::new(); self.servers.len()];
        for (number, worker) in self.workers.iter_mut().enumerate() {
            for (bucket, Bucket { computed, parts }) in buckets.iter().enumerate() {
                for part in parts {
                    let transfer = self.rates.beta() * part.gradient;
                    let first = worker.link.send(worker.begun + computed, transfer) + self.rates.alpha();
                    up[part.server].push(Message { worker: number, bucket, first, transfer });
                }
            }
        }
        up
    }

    /// The weights that each worker gets for these gradients.
    fn serve(&mut self, buckets: &[Bucket], up: Vec<Vec<Message>>) -> Vec<Vec<Message>> {
        let mut down = vec![Vec::new(); self.workers.len()];
        for (number, (server, up)) in self.servers.iter_mut().zip(up).enumerate() {
            let mut came = vec![vec![0.0; self.workers.len()]; buckets.len()];
            for message in in_order_of_arrival(up) {
                came[message.bucket][message.worker] = server.link.receive(message.first, message.transfer);
            }
            for (bucket, (Bucket { parts, .. }, came)) in buckets.iter().zip(came).enumerate() {
                for part in parts.iter().filter(|part| part.server == number) {
                    for arrival in &came {
                        server.free = server.free.max(*arrival) + self.rates.gamma() * part.gradient;
                    }
                    server.free += part.update;
                    let transfer = self.rates.beta() * part.weights;
                    for (worker, down) in down.iter_mut().enumerate() {
                        let first = server.link.send(server.free, transfer) + self.rates.alpha();
                        down.push(Message { worker, bucket, first, transfer });
                    }
                }
            }
        }
        down
    }
}

fn in_order_of_arrival(mut messages: Vec<Message>) -> Vec<Message> {
    messages.sort_by(|one, other| one.first.total_cmp(&other.first));
    messages
}

/// Seconds in which at least one of these buckets is on its way.
fn time_away(visits: &[Visit]) -> f64 {
    let mut away = 0.0;
    let mut free = f64::NEG_INFINITY;
    for Visit { left, back } in visits {
        away += back - left.max(free);
        free = *back;
    }
    away
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elastic;

    /// alpha = 1 and beta = 16 per byte.
    fn rates() -> LinkRates {
        LinkRates::new(1.0, 16.0, 0.0).unwrap()
    }

    fn number(count: u32) -> NonZeroU32 {
        NonZeroU32::new(count).unwrap()
    }

    /// A model of `bytes` bytes in one bucket, divided among servers, computed in 100 seconds.
    fn whole(servers: u32, bytes: f64, coded: f64) -> Bucket {
        let weights = bytes / f64::from(servers);
        let part = |server| ServerShare { server, gradient: coded * weights, weights, update: 0.0 };
        Bucket { computed: 100.0, parts: (0..servers as usize).map(part).collect() }
    }

    #[test]
    fn one_bucket_is_the_formula_of_servers() {
        for workers in 1..=8 {
            for servers in 1..=4 {
                for coded in [1.0, 0.25] {
                    let found = step(rates(), number(workers), &[whole(servers, 12.0, coded)]).step;
                    let row = elastic::servers(rates(), number(workers), number(servers), coded, 12);
                    assert!((found - row - 100.0).abs() < 1e-9, "{workers} {servers} {coded}: {found} {row}");
                }
            }
        }
    }

    /// A worker alone: the first bucket is there again before the second one is computed, whose way up and down shows.
    #[test]
    fn buckets_travel_while_others_are_computed() {
        let bucket = |computed, bytes| Bucket {
            computed,
            parts: vec![ServerShare { server: 0, gradient: bytes, weights: bytes, update: 3.0 }],
        };
        let found = step(rates(), number(1), &[bucket(10.0, 1.0), bucket(100.0, 2.0)]);
        assert!((found.step - (100.0 + 2.0 * (1.0 + 32.0) + 3.0)).abs() < 1e-9, "{found:?}");
        // Each bucket up and down with its update.
        assert!((found.exchanging - (2.0 * 17.0 + 2.0 * 33.0 + 6.0)).abs() < 1e-9, "{found:?}");
        // Computed at once, the second follows the first: up behind its 16 seconds, and down when it has its own 32 and its update.
        let at_once = step(rates(), number(1), &[bucket(10.0, 1.0), bucket(10.0, 2.0)]);
        assert!((at_once.step - (10.0 + 16.0 + 33.0 + 3.0 + 33.0)).abs() < 1e-9, "{at_once:?}");
        assert!((at_once.exchanging - (at_once.step - 10.0)).abs() < 1e-9, "{at_once:?}");
    }

    #[test]
    fn what_is_added_and_updated_shows() {
        let rates = LinkRates::new(0.0, 0.0, 2.0).unwrap();
        let mut bucket = whole(1, 5.0, 1.0);
        bucket.parts[0].update = 7.0;
        assert!((step(rates, number(3), &[bucket]).step - (100.0 + 3.0 * 10.0 + 7.0)).abs() < 1e-9);
    }
}
