//! Learners with memory of their own, as on a GPU: every strategy trains through copies, and to the same bits.

use crate::scene::{Scene, digests};
use recipe::{Extent, Schedule, Strategy};
use strategies::toy::Perceptron;
use strategies::{Batch, Block, Layout, Learner, Loss, StepError, Vector};

/// A learner that computes on its own copies. What was not copied is no number, and neither is a gradient after it was fetched.
struct Apart {
    inner: Perceptron,
    weights: Vector,
    gradient: Vector,
    /// Whether the activations are on the device.
    uploaded: bool,
}

impl Apart {
    fn new(inner: Perceptron) -> Self {
        Self { inner, weights: Vector::zeros(0), gradient: Vector::zeros(0), uploaded: false }
    }

    fn nothing(&self) -> Vector {
        Vector::from(vec![f32::NAN; self.layout().size()])
    }

    fn refused(&self, what: &str) -> StepError {
        StepError::Learner(format!("{what} of a model of {} layers", self.layout().layers().len()))
    }
}

impl Learner for Apart {
    fn layout(&self) -> &Layout {
        self.inner.layout()
    }

    fn initial(&self) -> Vector {
        self.inner.initial()
    }

    fn load(&mut self, batch: &Batch) -> Result<(), StepError> {
        self.uploaded = false;
        // Weights of an earlier step would pass for those of this one.
        (self.weights, self.gradient) = (self.nothing(), self.nothing());
        self.inner.load(batch)
    }

    fn has_device(&self) -> bool {
        true
    }

    fn upload_batch(&mut self) -> Result<(), StepError> {
        self.uploaded = true;
        Ok(())
    }

    fn upload_layer(&mut self, weights: &Vector, layer: usize) -> Result<(), StepError> {
        let span = self.layout().layers()[layer].span.clone();
        if self.weights.len() != self.layout().size() {
            (self.weights, self.gradient) = (self.nothing(), self.nothing());
        }
        self.weights[span.clone()].copy_from_slice(&weights[span]);
        Ok(())
    }

    fn download_gradient(&mut self, layer: usize, gradient: &mut [f32]) -> Result<(), StepError> {
        let span = self.layout().layers()[layer].span.clone();
        gradient.copy_from_slice(&self.gradient[span.clone()]);
        self.gradient[span].fill(f32::NAN);
        Ok(())
    }

    fn forward(&mut self, _: &Vector, layer: usize) -> Result<(), StepError> {
        if !self.uploaded {
            return Err(self.refused("a forward pass before the batch is on the device"));
        }
        self.inner.forward(&self.weights, layer)
    }

    fn loss(&mut self, batch: &Batch) -> Result<Loss, StepError> {
        self.inner.loss(batch)
    }

    fn backward(&mut self, _: &Vector, layer: usize, gradient: &mut [f32]) -> Result<(), StepError> {
        let span = self.layout().layers()[layer].span.clone();
        if gradient.len() != span.len() {
            return Err(self.refused("a gradient of another size"));
        }
        self.inner.backward(&self.weights, layer, &mut self.gradient[span])
    }

    fn take_activations(&mut self) -> Result<Block, StepError> {
        self.inner.take_activations()
    }

    fn put_activations(&mut self, activations: Block) -> Result<(), StepError> {
        self.uploaded = true;
        self.inner.put_activations(activations)
    }

    fn set_examples(&mut self, batch: &Batch) -> Result<(), StepError> {
        self.inner.set_examples(batch)
    }

    fn shard_layer(&mut self, layer: usize, part: usize, of: usize) -> Result<(), StepError> {
        self.inner.shard_layer(layer, part, of)
    }
}

fn scene(strategy: Strategy) -> Scene {
    Scene::new(strategy, 4).rank_order().widths(&[6, 7, 5, 4]).change(|spec| {
        spec.train.length = Extent::Steps(8);
        spec.train.optimizer.momentum = 0.5;
    })
}

#[track_caller]
fn compare(scene: &Scene, what: &str) {
    let apart = scene.world.run(&scene.blueprint(), |_| Box::new(Apart::new(scene.learner())));
    let apart = apart.unwrap_or_else(|error| panic!("{what}: {error}"));
    if scene.spec.strategy.kind().depends_on_arrival() {
        // Copies take time, and with it the order of arrival changes: no weight is one that was not copied.
        for rank in &apart.ranks {
            assert!(rank.model().iter().all(|weight| weight.is_finite()), "{what}");
        }
    } else {
        assert_eq!(digests(&apart), digests(&scene.run()), "{what}");
    }
}

#[test]
fn every_strategy_trains_to_the_same_bits_through_copies() {
    for strategy in Strategy::samples() {
        let what = format!("{strategy:?}");
        compare(&scene(strategy.clone()), &what);
        compare(&scene(strategy).change(|spec| spec.train.accumulate = 2), &format!("{what}, micro-batches"));
    }
}

#[test]
fn every_schedule_does() {
    for schedule in [Schedule::PerLayer, Schedule::Fixed { bytes: 200 }, Schedule::Merged] {
        for strategy in [Strategy::DSync, Strategy::PsSync] {
            let scene = scene(strategy.clone()).change(|spec| spec.communication.schedule = schedule);
            compare(&scene, &format!("{strategy:?}, {schedule:?}"));
        }
    }
}
