//! Synchronous SGD through parameter servers, bucket by bucket, step after step.
//!
//! A worker exchanges one bucket at a time: its part of the gradient goes up to the servers that hold it, and new weights come down, before
//! the next bucket leaves. A server adds the gradients of all workers, updates, and sends the weights to one worker after the other; so
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
    /// What each server has of it, in the order in which the parts leave. Never empty.
    pub parts: Vec<ServerShare>,
}

/// What one server has of a bucket.
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
    /// All of it.
    pub step: f64,
    /// From when a bucket leaves until its weights are there: the sum over the buckets, the mean over the workers.
    pub exchanging: f64,
}

/// Steps that are left out, and steps whose mean counts: the order in which workers are served repeats itself soon.
const STEPS: [usize; 2] = [16, 16];

/// The step of `workers` workers that exchange these buckets in their order.
pub fn step(rates: LinkRates, workers: NonZeroU32, buckets: &[Bucket]) -> ServedStep {
    let servers = buckets.iter().flat_map(|bucket| &bucket.parts).map(|part| part.server + 1);
    let mut run = Run::new(rates, workers.get() as usize, servers.fold(0, usize::max));
    let [opening, counted] = STEPS;
    run.steps(opening, buckets);
    let (begun, before) = (run.begun(), run.exchanging);
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

/// A rank.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    /// When a worker began its step.
    begun: f64,
    /// When it has nothing more to do for the bucket before.
    free: f64,
    link: Link,
}

struct Run {
    rates: LinkRates,
    workers: Vec<Place>,
    servers: Vec<Place>,
    /// Of all workers so far.
    exchanging: f64,
}

impl Run {
    fn new(rates: LinkRates, workers: usize, servers: usize) -> Self {
        let places = |count| vec![Place::default(); count];
        Self { rates, workers: places(workers), servers: places(servers), exchanging: 0.0 }
    }

    /// When the last worker began its step.
    fn begun(&self) -> f64 {
        self.workers.iter().map(|worker| worker.begun).fold(0.0, f64::max)
    }

    fn steps(&mut self, count: usize, buckets: &[Bucket]) {
        for _ in 0..count {
            for bucket in buckets {
                self.exchange(bucket);
            }
            for worker in &mut self.workers {
                worker.begun = worker.free;
            }
        }
    }

    fn exchange(&mut self, bucket: &Bucket) {
        let mut up = vec![Vec::with_capacity(self.workers.len()); bucket.parts.len()];
        for worker in &mut self.workers {
            let sent = worker.free.max(worker.begun + bucket.computed);
            self.exchanging -= sent;
            for (part, up) in bucket.parts.iter().zip(&mut up) {
                let leaves = worker.link.send(sent, self.rates.beta() * part.gradient);
                up.push(leaves + self.rates.alpha());
            }
        }
        let mut down = vec![Vec::with_capacity(bucket.parts.len()); self.workers.len()];
        for (part, up) in bucket.parts.iter().zip(up) {
            let transfer = self.rates.beta() * part.weights;
            for (leaves, down) in self.serve(part, &up).into_iter().zip(&mut down) {
                down.push((leaves + self.rates.alpha(), transfer));
            }
        }
        for (worker, mut down) in self.workers.iter_mut().zip(down) {
            down.sort_by(|one, other| one.0.total_cmp(&other.0));
            for (first, transfer) in down {
                worker.free = worker.link.receive(first, transfer);
            }
            self.exchanging += worker.free;
        }
    }

    /// When the weights of a part leave for each worker; `up` is when the first byte of each worker's gradient comes.
    fn serve(&mut self, part: &ServerShare, up: &[f64]) -> Vec<f64> {
        let Some(server) = self.servers.get_mut(part.server) else { return Vec::new() };
        let mut order: Vec<usize> = (0..up.len()).collect();
        order.sort_by(|one, other| up[*one].total_cmp(&up[*other]));
        let mut came = vec![0.0; up.len()];
        for worker in order {
            came[worker] = server.link.receive(up[worker], self.rates.beta() * part.gradient);
        }
        for arrival in came {
            server.free = server.free.max(arrival) + self.rates.gamma() * part.gradient;
        }
        server.free += part.update;
        up.iter().map(|_| server.link.send(server.free, self.rates.beta() * part.weights)).collect()
    }
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
        // Computed at once, the second waits for the first.
        let at_once = step(rates(), number(1), &[bucket(10.0, 1.0), bucket(10.0, 2.0)]);
        assert!((at_once.step - (10.0 + found.exchanging)).abs() < 1e-9, "{at_once:?}");
    }

    #[test]
    fn what_is_added_and_updated_shows() {
        let rates = LinkRates::new(0.0, 0.0, 2.0).unwrap();
        let mut bucket = whole(1, 5.0, 1.0);
        bucket.parts[0].update = 7.0;
        assert!((step(rates, number(3), &[bucket]).step - (100.0 + 3.0 * 10.0 + 7.0)).abs() < 1e-9);
    }
}
