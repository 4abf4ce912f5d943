//! Learners in plain Rust, small enough to follow by hand: for tests, for the simulator, and for methods under
//! development.

use crate::learner::{Batch, Learner};
use crate::rng::mix;
use crate::vector::{Block, Layout, Vector, piece};
use crate::{Loss, StepError};
use std::ops::Range;

/// The loss h w^2 / 2 in every element, whatever the samples: SGD on it is a linear recurrence with known
/// eigenvalues.
#[derive(Clone, Debug)]
pub struct Quadratic {
    curvature: f32,
    layout: Layout,
    start: Vector,
    activations: Block,
}

impl Quadratic {
    /// Curvature h, starting point, and how many layers the vector is split into.
    pub fn new(curvature: f32, start: Vec<f32>, layers: usize) -> Self {
        let sizes = (0..layers).map(|l| (format!("layer{}", l + 1), piece(start.len(), layers, l).len()));
        let layout = Layout::new(sizes);
        Self::of_layers(curvature, start, layout)
    }

    /// Curvature h, starting point, and its layers, which must be as long as it.
    pub fn of_layers(curvature: f32, start: Vec<f32>, layout: Layout) -> Self {
        Self { curvature, layout, start: start.into(), activations: Block::default() }
    }
}

impl Learner for Quadratic {
    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn initial(&self) -> Vector {
        self.start.clone()
    }

    fn load(&mut self, _: &Batch) -> Result<(), StepError> {
        Ok(())
    }

    fn forward(&mut self, _: &Vector, _: usize) -> Result<(), StepError> {
        Ok(())
    }

    fn loss(&mut self, _: &Batch) -> Result<Loss, StepError> {
        Ok(Loss(0.0))
    }

    fn backward(&mut self, weights: &Vector, layer: usize, gradient: &mut [f32]) -> Result<(), StepError> {
        let span = self.layout.span(layer..layer + 1);
        for (g, w) in gradient.iter_mut().zip(&weights[span]) {
            *g = self.curvature * w;
        }
        Ok(())
    }

    fn take_activations(&mut self) -> Result<Block, StepError> {
        Ok(std::mem::take(&mut self.activations))
    }

    fn put_activations(&mut self, activations: Block) -> Result<(), StepError> {
        self.activations = activations;
        Ok(())
    }

    fn set_examples(&mut self, _: &Batch) -> Result<(), StepError> {
        Ok(())
    }

    fn shard_layer(&mut self, _: usize, _: usize, _: usize) -> Result<(), StepError> {
        Err(StepError::Learner("a quadratic has no outputs to cut".into()))
    }
}

/// Linear layers with rectifiers between them, and half the squared error; all data and initial weights are
/// small dyadic numbers, so that for the first steps every sum is exact and no order of summation shows.
///
/// The weights of an output lie together, its bias behind them.
#[derive(Clone, Debug)]
pub struct Perceptron {
    widths: Vec<usize>,
    kept: Vec<Range<usize>>,
    layout: Layout,
    inputs: Vec<Block>,
    outputs: Vec<Block>,
    activations: Block,
}

impl Perceptron {
    /// Widths from the input to the output; two of them make a linear model.
    pub fn new(widths: &[usize]) -> Self {
        let layers = widths.len().saturating_sub(1);
        let mut this = Self {
            widths: widths.to_vec(),
            kept: widths.iter().skip(1).map(|width| 0..*width).collect(),
            layout: Layout::default(),
            inputs: vec![Block::default(); layers],
            outputs: vec![Block::default(); layers],
            activations: Block::default(),
        };
        this.lay_out();
        this
    }

    fn lay_out(&mut self) {
        let sizes = self.kept.iter().zip(&self.widths).enumerate();
        self.layout = Layout::new(
            sizes.map(|(l, (kept, width))| (format!("linear{}", l + 1), kept.len() * (width + 1))),
        );
    }

    fn is_last(&self, layer: usize) -> bool {
        layer + 2 == self.widths.len()
    }

    /// -1, 0 or 1.
    fn small(key: u64) -> f32 {
        (mix(7, key) % 3) as f32 - 1.0
    }

    fn target(example: u32, output: usize) -> f32 {
        Self::small((2 << 60) | u64::from(example) << 20 | output as u64)
    }
}

impl Learner for Perceptron {
    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn initial(&self) -> Vector {
        let rows = self.kept.iter().enumerate().map(|(l, kept)| (l, kept, self.widths[l] + 1));
        let values = rows.flat_map(|(l, kept, row)| {
            (kept.start * row..kept.end * row).map(move |i| Self::small((l as u64) << 32 | i as u64) * 0.5)
        });
        Vector::from(values.collect::<Vec<_>>())
    }

    fn load(&mut self, batch: &Batch) -> Result<(), StepError> {
        let width = self.widths[0];
        let values = batch.examples.iter().flat_map(|example| {
            (0..width).map(move |i| Self::small(1 << 60 | u64::from(*example) << 20 | i as u64))
        });
        self.activations = Block { width, values: values.collect() };
        Ok(())
    }

    fn forward(&mut self, weights: &Vector, layer: usize) -> Result<(), StepError> {
        let x = std::mem::take(&mut self.activations);
        let w = &weights[self.layout.span(layer..layer + 1)];
        let n = x.width;
        let last = self.is_last(layer);
        let mut y = Block { width: self.kept[layer].len(), values: vec![] };
        for row in x.values.chunks(n) {
            for output in w.chunks(n + 1) {
                let sum = output[n] + row.iter().zip(output).map(|(a, b)| a * b).sum::<f32>();
                y.values.push(if last { sum } else { sum.max(0.0) });
            }
        }
        self.inputs[layer] = x;
        self.outputs[layer] = y.clone();
        self.activations = y;
        Ok(())
    }

    fn loss(&mut self, batch: &Batch) -> Result<Loss, StepError> {
        let width = self.activations.width.max(1);
        let n = batch.examples.len() as f32;
        let mut loss = 0.0;
        for (row, example) in self.activations.values.chunks_mut(width).zip(&batch.examples) {
            for (i, y) in row.iter_mut().enumerate() {
                let apart = *y - Self::target(*example, i);
                loss += apart * apart / 2.0 / n;
                *y = apart / n;
            }
        }
        Ok(Loss(loss))
    }

    fn backward(&mut self, weights: &Vector, layer: usize, gradient: &mut [f32]) -> Result<(), StepError> {
        let gy = std::mem::take(&mut self.activations);
        let x = &self.inputs[layer];
        let y = &self.outputs[layer];
        let w = &weights[self.layout.span(layer..layer + 1)];
        let n = x.width;
        let last = self.is_last(layer);
        let mut gx = Block { width: n, values: vec![0.0; x.values.len()] };
        gradient.fill(0.0);
        for (b, row) in x.values.chunks(n).enumerate() {
            for o in 0..gy.width {
                let d = gy.values[b * gy.width + o];
                if d == 0.0 || (!last && y.values[b * y.width + o] <= 0.0) {
                    continue;
                }
                for i in 0..n {
                    gradient[o * (n + 1) + i] += d * row[i];
                    gx.values[b * n + i] += d * w[o * (n + 1) + i];
                }
                gradient[o * (n + 1) + n] += d;
            }
        }
        self.activations = gx;
        Ok(())
    }

    fn take_activations(&mut self) -> Result<Block, StepError> {
        Ok(std::mem::take(&mut self.activations))
    }

    fn put_activations(&mut self, activations: Block) -> Result<(), StepError> {
        self.activations = activations;
        Ok(())
    }

    fn set_examples(&mut self, _: &Batch) -> Result<(), StepError> {
        Ok(())
    }

    fn shard_layer(&mut self, layer: usize, part: usize, of: usize) -> Result<(), StepError> {
        self.kept[layer] = piece(self.widths[layer + 1], of, part);
        self.lay_out();
        Ok(())
    }
}
