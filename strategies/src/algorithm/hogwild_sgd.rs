//! Hogwild SGD: asynchronous SGD with a parameter server without locks.
//!
//! Source: You, Buluc and Demmel, "Scaling Deep Learning on GPU and Knights Landing Clusters", SC 2017, section 3.2,
//! after Recht et al., NIPS 2011, Algorithm 1; workers are those of Async SGD.
//!
//! | paper | here |
//! |---|---|
//! | W on the master | `weights`, shared by all lanes |
//! | dW_i | `delta` |
//! | eta | `plan.learning_rate`, after the samples of all gradients counted before |
//!
//! Sent per step: one gradient up and one model down per worker, and a note of how far the run is.
//!
//! The master serves all workers at once ("multiple workers at a time", introduction).
//!
//! Departures: those of Async SGD. Every addition is a compare-and-swap of one element, so that none is lost; the
//! weights that are sent are read element by element, and may be of no single moment. An update counts when it
//! begins, a reading as well: staleness is the difference.

use crate::server::{Centre, Client, Push, ServerState};
use crate::{Service, ServiceContext, ServiceStep, StepError, Vector};
use record::{LaneId, Phase, Work};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Elements that are changed or read before the clock is read again: changes of other lanes fall between two grains.
pub(super) const GRAIN: usize = 4096;

/// Weights that all lanes change at once, each element by itself.
#[derive(Clone, Debug)]
pub struct LockFree {
    /// The bits of 32-bit floats.
    weights: Arc<[AtomicU32]>,
    weight_decay: f32,
}

impl LockFree {
    /// `parameter_count` zeros, until weights are loaded.
    pub fn new(parameter_count: usize, weight_decay: f32) -> Self {
        Self { weights: (0..parameter_count).map(|_| AtomicU32::new(0)).collect(), weight_decay }
    }

    /// W <- W - eta dW_i for the elements from `at` on. Elements do not depend on each other, so no order between
    /// them is asked for.
    pub fn apply_gradient(&self, at: usize, delta: &[f32], rate: f32) {
        for (w, g) in self.weights[at..].iter().zip(delta) {
            let step = |bits: u32| {
                let w = f32::from_bits(bits);
                Some((w - rate * (g + self.weight_decay * w)).to_bits())
            };
            // It always has a new value, so it ends when no other lane came between.
            let _ = w.fetch_update(Ordering::Relaxed, Ordering::Relaxed, step);
        }
    }

    /// Replaces each element c from `at` on by `next(c, x)` with the value x beside it, which becomes the old c. Each
    /// element is one compare-and-swap: the value that is read is the value that was replaced.
    pub fn replace(&self, at: usize, x: &mut [f32], next: impl Fn(f32, f32) -> f32) {
        for (w, x) in self.weights[at..].iter().zip(x) {
            let step = |bits: u32| Some(next(f32::from_bits(bits), *x).to_bits());
            if let Ok(before) = w.fetch_update(Ordering::Relaxed, Ordering::Relaxed, step) {
                *x = f32::from_bits(before);
            }
        }
    }

    /// Reads the elements from `at` on.
    pub fn read(&self, at: usize, into: &mut [f32]) {
        for (value, w) in into.iter_mut().zip(&self.weights[at..]) {
            *value = f32::from_bits(w.load(Ordering::Relaxed));
        }
    }
}

impl Centre for LockFree {
    fn load(&mut self, weights: &[f32]) {
        for (w, value) in self.weights.iter().zip(weights) {
            w.store(value.to_bits(), Ordering::Relaxed);
        }
    }

    fn copy(&self, into: &mut [f32]) {
        self.read(0, into);
    }
}

/// The master's lane for one worker.
pub struct Master {
    state: ServerState<LockFree>,
    weights: LockFree,
    client: Client,
    delta: Vector,
}

impl Master {
    /// The lane for `client` of a master with `parameter_count` weights, which its state shares.
    pub fn new(
        state: ServerState<LockFree>,
        weights: LockFree,
        client: Client,
        parameter_count: usize,
    ) -> Self {
        Self { state, weights, client, delta: Vector::zeros(parameter_count) }
    }

    fn serve(&mut self, ctx: &mut ServiceContext) -> Result<ServiceStep, StepError> {
        let Self { state, weights, client, delta } = self;
        if client.receive(ctx, state, delta)? == Push::Left {
            return Ok(ServiceStep::Finished);
        }
        let i = client.worker();
        let applied = state.write(|clocks| clocks.apply(i));
        client.record(ctx, applied);
        let rate = ctx.info.plan.learning_rate.at(applied.consumed);
        for (grain, delta) in delta.chunks(GRAIN).enumerate() {
            let work = Work::Update(delta.len());
            ctx.lane.clock.timed(Phase::Update, work, || weights.apply_gradient(grain * GRAIN, delta, rate));
        }
        state.wait(&mut ctx.lane, |clocks| clocks.may_go(i).then_some(()))?;
        let progress = state.write(|clocks| clocks.release(i));
        for (grain, into) in delta.chunks_mut(GRAIN).enumerate() {
            let work = Work::Encode(into.len());
            ctx.lane.clock.timed(Phase::Encode, work, || weights.read(grain * GRAIN, into));
        }
        let answer = client.encode(ctx, progress, delta);
        client.answer(ctx, state, progress, answer)?;
        Ok(ServiceStep::Served(applied.samples))
    }
}

impl Service for Master {
    fn lane(&self) -> LaneId {
        LaneId::Client(self.client.worker() as u16)
    }

    fn step(&mut self, ctx: &mut ServiceContext) -> Result<ServiceStep, StepError> {
        let step = self.serve(ctx);
        self.client.settle(step, ctx, &self.state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs `each` on four threads at once.
    fn together<T: Send>(each: impl Fn(usize) -> T + Sync) -> Vec<T> {
        let start = std::sync::Barrier::new(4);
        let each = &each;
        std::thread::scope(|scope| {
            let thread = |k| {
                let start = &start;
                scope.spawn(move || {
                    start.wait();
                    each(k)
                })
            };
            let threads: Vec<_> = (0..4).map(thread).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        })
    }

    /// Workers that go all of the way to the centre, and it to them, swap with it: of all that they hold, nothing is lost
    /// and nothing there twice. Sums of small whole numbers are exact, so that c + a (x - c) with a = 1 is x.
    #[test]
    fn no_pull_of_any_thread_is_lost() {
        let mut centre = LockFree::new(2, 0.0);
        centre.load(&[5.0, 50.0]);
        let own = together(|k| {
            let mut x = [k as f32, 10.0 * k as f32];
            for _ in 0..2_000_000 {
                centre.replace(0, &mut x, |c, x| crate::server::pulled_centre(c, x, 1.0));
            }
            x
        });
        let mut c = [0.0; 2];
        centre.copy(&mut c);
        for i in 0..2 {
            let mut all: Vec<f32> = own.iter().map(|x| x[i]).chain([c[i]]).collect();
            all.sort_by(f32::total_cmp);
            let scale = [1.0, 10.0][i];
            assert_eq!(all, [0.0, 1.0, 2.0, 3.0, 5.0].map(|value| value * scale), "element {i}");
        }
    }

    /// Halves: x - a (x - c) and c + a (x - c) with the c that was replaced keep x + c, to the bit.
    #[test]
    fn pulls_of_several_threads_conserve_the_sum() {
        const WEIGHTS: usize = 512;
        for round in 0..200 {
            let mut centre = LockFree::new(WEIGHTS, 0.0);
            centre.load(&[64.0; WEIGHTS]);
            // 16 exchanges halve what was a whole number below 128 to at most 23 bits.
            let own = together(|k| {
                let mut x = [16.0 * k as f32; WEIGHTS];
                for _ in 0..4 {
                    let mut c = x;
                    centre.replace(0, &mut c, |c, x| crate::server::pulled_centre(c, x, 0.5));
                    for (x, c) in x.iter_mut().zip(c) {
                        *x -= 0.5 * (*x - c);
                    }
                }
                x
            });
            let mut c = [0.0; WEIGHTS];
            centre.copy(&mut c);
            for i in 0..WEIGHTS {
                let sum = own.iter().map(|x| f64::from(x[i])).sum::<f64>() + f64::from(c[i]);
                assert_eq!(sum.to_bits(), 160.0_f64.to_bits(), "round {round}, element {i}");
            }
        }
    }

    /// Each thread's gradient is zero but for a part of its own, and each passes over all elements: what one writes back
    /// where it changes nothing must not undo what another does there.
    #[test]
    fn disjoint_gradients_of_several_threads_are_sequential_sums() {
        const EACH: usize = 100_000;
        let weights = LockFree::new(4, 0.0);
        together(|k| {
            let mut delta = [0.0; 4];
            delta[k] = 0.1 * (k + 1) as f32;
            (0..EACH).for_each(|_| weights.apply_gradient(0, &delta, 0.25));
        });
        let mut seen = [0.0; 4];
        weights.copy(&mut seen);
        for (k, seen) in seen.into_iter().enumerate() {
            let gradient = 0.1 * (k + 1) as f32;
            let expected = (0..EACH).fold(0.0_f32, |w, _| w - 0.25 * gradient);
            assert_eq!(seen.to_bits(), expected.to_bits(), "part {k}");
        }
    }

    /// Threads that add to the same elements at once: a load and a store would lose some.
    #[test]
    fn no_addition_of_any_thread_is_lost() {
        const EACH: usize = 500_000;
        let weights = LockFree::new(3, 0.0);
        let together = std::sync::Barrier::new(4);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    together.wait();
                    (0..EACH).for_each(|_| weights.apply_gradient(1, &[1.0, -2.0], -1.0));
                });
            }
        });
        let mut seen = [0.0; 3];
        weights.copy(&mut seen);
        let expected = [0.0, 4.0 * EACH as f32, -8.0 * EACH as f32];
        assert_eq!(seen.map(f32::to_bits), expected.map(f32::to_bits));
    }
}
