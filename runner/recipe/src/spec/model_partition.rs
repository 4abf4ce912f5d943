//! Automatic layer partitioning: which layers of a model the ranks of a group split among them, and what travels between
//! layers because of it.
//!
//! Source: Lai, Kadav and Kruus, "SplitBrain: Hybrid Data and Model Parallel Deep Learning", Listing 1. As printed, line 23
//! overwrites the full width before line 24 compares it with the width that came: here the comparison is with the full width
//! of the layer before, and modulo and shard layers have that width.
//!
//! Departures: a layer with fewer outputs than the group has ranks stays whole, and so does one whose outputs go through
//! anything but rectifiers and dropout before the next layer with weights (the paper stops there with an error), or that works at
//! each position of a text. Above a linear
//! layer that stays whole, all stay whole: the paper would place a second modulo layer.

use crate::{Layer, LayeredModel, Model, ModuloScheme, Parameter, PlacedLayer, RunSpec, Shape};
use std::ops::Range;

/// Operations of a layer's backward pass, as a multiple of those of its forward pass.
const BACKWARD: f64 = 2.0;

/// How a group of ranks splits a model. Layers are counted as in the flat vector of weights: each is one with weights, together
/// with those without weights up to the next one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelPartition {
    parts: usize,
    split: Range<usize>,
    layers: Vec<PartitionedLayer>,
}

/// A layer with weights.
#[derive(Clone, Debug, PartialEq, Eq)]
struct PartitionedLayer {
    /// Values of one example that come in.
    input: usize,
    /// Outputs of its linear layer; of another layer, values of one example.
    outputs: usize,
    /// Numbers of elements of its tensors.
    tensors: Vec<usize>,
    /// Values of one example that its forward pass keeps.
    activations: usize,
}

/// A stage of the transformed network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// A layer with weights; each rank of a group holds all of it, or some of its outputs.
    Layer {
        /// Position among the layers with weights, from 0.
        layer: usize,
        /// Whether its outputs are split.
        split: bool,
    },
    /// Rows of the batch travel to the other ranks of the group.
    Modulo {
        /// Values of one row of the batch.
        width: usize,
    },
    /// Columns of the outputs travel to the other ranks of the group.
    Shard {
        /// Values of one row, of all ranks together.
        width: usize,
        /// Whether gradients travel back. They do not where the layer above is whole: each rank has the gradient of all
        /// columns.
        returns: bool,
    },
}

impl ModelPartition {
    /// A model that each rank holds by itself.
    pub fn whole(model: &Model) -> Self {
        let layers = match model {
            Model::Layers(model) => layers(model),
            Model::File(_) => Vec::new(),
        };
        Self { parts: 1, split: 0..0, layers }
    }

    /// The partition of a model among `parts` ranks: linear layers are split whose ratio of computation to communication is
    /// above `threshold`.
    pub fn of(model: &Model, parts: usize, threshold: f64) -> Self {
        let whole = Self::whole(model);
        let Model::Layers(layered) = model else { return whole };
        let splits = |section: &&[PlacedLayer]| parts > 1 && can_split(section, parts, threshold);
        let sections = sections(layered);
        let Some(begin) = sections.iter().position(|section| splits(&&**section)) else { return whole };
        let count = sections[begin..].iter().take_while(|section| splits(&&***section)).count();
        Self { parts, split: begin..begin + count, ..whole }
    }

    /// Ranks that share one model; 1 where nothing is split.
    pub fn parts(&self) -> usize {
        self.parts
    }

    /// The layers whose outputs are split.
    pub fn split(&self) -> Range<usize> {
        self.split.clone()
    }

    /// The layers that each rank computes for its own samples only.
    pub fn below(&self) -> Range<usize> {
        0..if self.parts > 1 { self.split.start } else { self.layers.len() }
    }

    /// The layers that a group computes together: those that are split, and whole ones above them.
    pub fn above(&self) -> Range<usize> {
        self.below().end..self.layers.len()
    }

    /// The layers above the split ones, which each rank of a group computes whole.
    pub fn whole_above(&self) -> Range<usize> {
        if self.parts > 1 { self.split.end..self.layers.len() } else { 0..0 }
    }

    /// Outputs of a layer, of all ranks of the group together.
    pub fn outputs(&self, layer: usize) -> usize {
        self.layers[layer].outputs
    }

    /// The outputs of a split layer that a part holds: where they do not divide, the first parts hold one more.
    pub fn columns(&self, layer: usize, part: usize) -> Range<usize> {
        let outputs = self.layers[layer].outputs;
        if !self.split.contains(&layer) {
            return 0..outputs;
        }
        let length = outputs / self.parts;
        let longer = outputs % self.parts;
        let begin = part * length + part.min(longer);
        begin..begin + length + usize::from(part < longer)
    }

    /// The weights of the whole model that a part holds, in the order in which they lie in the part's own flat vector.
    pub fn spans(&self, part: usize) -> Vec<Range<usize>> {
        let mut spans: Vec<Range<usize>> = Vec::new();
        let mut at = 0;
        for (number, layer) in self.layers.iter().enumerate() {
            let columns = self.columns(number, part);
            for size in &layer.tensors {
                let row = if self.split.contains(&number) { size / layer.outputs.max(1) } else { *size };
                let kept = if self.split.contains(&number) { columns.clone() } else { 0..1 };
                push(&mut spans, at + kept.start * row..at + kept.end * row);
                at += size;
            }
        }
        spans
    }

    /// Number of weights of a layer that a part holds.
    pub fn held(&self, layer: usize, part: usize) -> usize {
        let PartitionedLayer { tensors, outputs, .. } = &self.layers[layer];
        let whole: usize = tensors.iter().sum();
        if self.split.contains(&layer) {
            whole / (*outputs).max(1) * self.columns(layer, part).len()
        } else {
            whole
        }
    }

    /// Number of weights that a part holds.
    pub fn parameter_count(&self, part: usize) -> usize {
        self.spans(part).iter().map(ExactSizeIterator::len).sum()
    }

    /// Stages of the transformed network, in the order of the forward pass.
    pub fn stages(&self) -> Vec<Stage> {
        let mut stages = Vec::with_capacity(2 * self.layers.len());
        for (number, layer) in self.layers.iter().enumerate() {
            let split = self.split.contains(&number);
            if split && number == self.split.start {
                stages.push(Stage::Modulo { width: layer.input });
            }
            stages.push(Stage::Layer { layer: number, split });
            if split {
                stages.push(Stage::Shard { width: layer.outputs, returns: number + 1 < self.split.end });
            }
        }
        stages
    }

    /// Values that a rank sends within its group in one step, for each sample of its own; the same in each scheme. Exact where
    /// samples and outputs divide evenly.
    pub fn values_sent(&self) -> usize {
        let peers = self.parts - 1;
        let sent = |stage: &Stage| match *stage {
            Stage::Layer { .. } => 0,
            // Below the first layer of the model no gradient is needed.
            Stage::Modulo { width } => width * if self.split.start == 0 { 1 } else { 2 },
            Stage::Shard { width, returns } => width * if returns { 2 } else { 1 },
        };
        peers * self.stages().iter().map(sent).sum::<usize>()
    }

    /// Values that the first part keeps of a layer for the backward pass, for each row: of a split layer its own columns, and all
    /// columns once they have been exchanged.
    fn activations(&self, layer: usize) -> usize {
        let PartitionedLayer { activations, outputs, .. } = self.layers[layer];
        if self.split.contains(&layer) {
            (activations * self.columns(layer, 0).len()).div_ceil(outputs.max(1)) + outputs
        } else {
            activations
        }
    }

    /// The part of the work of a layer on some rows that a part of the model has.
    pub(crate) fn work(&self, layer: usize, part: usize) -> f64 {
        let outputs = self.layers.get(layer).map_or(1, |layer| layer.outputs).max(1);
        if self.split.contains(&layer) {
            self.columns(layer, part).len() as f64 / outputs as f64
        } else {
            1.0
        }
    }
}

/// Appends a span, joined with the last one where it begins at that one's end.
fn push(spans: &mut Vec<Range<usize>>, span: Range<usize>) {
    match spans.last_mut() {
        Some(last) if last.end == span.start => last.end = span.end,
        _ => spans.push(span),
    }
}

/// Each layer with weights, with those that belong to it: those up to the next one, and the first has those before it.
fn sections(model: &LayeredModel) -> Vec<&[PlacedLayer]> {
    let weighted = |placed: &PlacedLayer| !placed.parameters.is_empty();
    let starts: Vec<usize> =
        (0..model.layers.len()).filter(|place| weighted(&model.layers[*place])).collect();
    let bounds = starts.iter().enumerate().map(|(number, start)| {
        let begin = if number == 0 { 0 } else { *start };
        begin..starts.get(number + 1).copied().unwrap_or(model.layers.len())
    });
    bounds.map(|bounds| &model.layers[bounds]).collect()
}

fn layers(model: &LayeredModel) -> Vec<PartitionedLayer> {
    let mut kept = model.activations().into_iter();
    let layer = |section: &[PlacedLayer]| layer(section, kept.by_ref().take(section.len()).sum());
    sections(model).into_iter().map(layer).collect()
}

fn weighted(section: &[PlacedLayer]) -> Option<&PlacedLayer> {
    section.iter().find(|placed| !placed.parameters.is_empty())
}

fn layer(section: &[PlacedLayer], activations: usize) -> PartitionedLayer {
    let weighted = weighted(section);
    PartitionedLayer {
        input: section.first().map_or(0, |placed| placed.input.size()),
        outputs: weighted.map_or(0, |placed| placed.output.size()),
        tensors: weighted.map_or(&[][..], |placed| &placed.parameters).iter().map(Parameter::size).collect(),
        activations,
    }
}

fn can_split(section: &[PlacedLayer], parts: usize, threshold: f64) -> bool {
    let Some(linear) = weighted(section) else { return false };
    let Layer::Linear { outputs } = linear.layer else { return false };
    let mut after = section.iter().skip_while(|placed| placed.parameters.is_empty()).skip(1);
    // Rows of a text are positions, which are not what travels.
    matches!(linear.input, Shape::Flat(_))
        && outputs >= parts
        && after.all(|placed| matches!(placed.layer, Layer::Relu | Layer::Dropout { .. }))
        && ratio(linear) > threshold
}

/// The ratio of computation to communication: operations of forward and backward pass, over the values that go in and come out
/// in both passes.
fn ratio(linear: &PlacedLayer) -> f64 {
    let operations = (1.0 + BACKWARD) * linear.flops as f64;
    operations / (2 * (linear.input.size() + linear.output.size())) as f64
}

impl RunSpec {
    /// How the run's groups of ranks split its model.
    pub fn model_partition(&self) -> ModelPartition {
        self.strategy.split().map_or_else(
            || ModelPartition::whole(&self.model),
            |split| ModelPartition::of(&self.model, split.parts as usize, split.least_ccr),
        )
    }

    /// The most weights that a worker holds.
    pub fn parameters_per_worker(&self) -> usize {
        if self.strategy.split().is_none() || self.model.layered().is_none() {
            return self.model.parameter_count();
        }
        // The first part has the most columns.
        self.model_partition().parameter_count(0)
    }

    /// Values that a worker keeps for the backward pass, for each sample of its own batch.
    pub fn activations_per_sample(&self) -> usize {
        let Some(split) = self.strategy.split() else { return self.model.activations() };
        let partition = self.model_partition();
        if partition.parts() == 1 {
            return self.model.activations();
        }
        // A round has as many rows as a worker has samples, but for the scheme of one round.
        let rows = match split.scheme {
            ModuloScheme::All => split.parts as usize,
            ModuloScheme::Turns | ModuloScheme::Shares => 1,
        };
        let sum = |layers: Range<usize>| layers.map(|layer| partition.activations(layer)).sum::<usize>();
        // The rows of the group come into the first split layer.
        let gathered = partition.layers[partition.split.start].input;
        sum(partition.below()) + rows * (gathered + sum(partition.above()))
    }

    /// Bytes of the weights that the ranks which hold one model together hold in all: layers that are not split count for each.
    pub fn bytes_of_parts(&self) -> u64 {
        let partition = self.model_partition();
        let held = |part: usize| partition.parameter_count(part) as u64;
        match partition.parts() {
            1 => 4 * self.model.parameter_count() as u64,
            parts => 4 * (0..parts).map(held).sum::<u64>(),
        }
    }

    /// The work of each layer of worker `worker`, as a part of the work of the whole layer on the same rows.
    pub fn layer_work(&self, worker: usize) -> Vec<f64> {
        let layers = self.model.weighted_layers().len();
        if self.strategy.split().is_none() || self.model.layered().is_none() {
            return vec![1.0; layers];
        }
        let partition = self.model_partition();
        let part = worker % partition.parts();
        (0..layers).map(|layer| partition.work(layer, part)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::architecture::{self, Sizes};
    use crate::{DatasetProfile, ModelKind, Shape};

    const IMAGES: DatasetProfile = DatasetProfile::of_classes(Shape::Image(3, 32, 32), 10);

    fn model(layers: &[Layer]) -> Model {
        let (model, misfit) = architecture::place(ModelKind::Sequential, layers, IMAGES);
        assert_eq!(misfit, None);
        model.into()
    }

    fn vgg() -> Model {
        model(&architecture::layers(ModelKind::VggSplitbrain, Sizes::SMALL, 10).unwrap())
    }

    fn linear(outputs: usize) -> Layer {
        Layer::Linear { outputs }
    }

    /// Table 1, and the memory that figure 7c has.
    #[test]
    fn the_papers_model_has_its_weights_and_saves_its_memory() {
        let vgg = vgg();
        assert_eq!(vgg.parameter_count(), 6_990_666);
        let biases: usize = vgg.tensors().filter(|tensor| tensor.shape.len() == 1).map(Parameter::size).sum();
        assert_eq!(vgg.parameter_count() - biases, 6_987_456);
        let convolutions: usize =
            vgg.tensors().filter(|tensor| tensor.shape.len() == 4).map(Parameter::size).sum();
        assert_eq!(convolutions, 1_734_336);
        let saved = |parts| {
            let kept = ModelPartition::of(&vgg, parts, 0.0).parameter_count(0);
            ((1.0 - kept as f64 / vgg.parameter_count() as f64) * 1000.0).round() as u32
        };
        assert_eq!([1, 2, 4, 8].map(saved), [0, 376, 564, 658], "in thousandths");
        let partition = ModelPartition::of(&vgg, 2, 0.0);
        let layer = |layer, split| Stage::Layer { layer, split };
        let shard = |width, returns| Stage::Shard { width, returns };
        let expected = [
            Stage::Modulo { width: 4096 },
            layer(7, true),
            shard(1024, true),
            layer(8, true),
            shard(1024, true),
            layer(9, true),
            shard(10, false),
        ];
        assert_eq!(partition.stages()[..7], [0, 1, 2, 3, 4, 5, 6].map(|number| layer(number, false)));
        assert_eq!(partition.stages()[7..], expected);
        assert_eq!(partition.values_sent(), 2 * 4096 + 2 * 1024 + 2 * 1024 + 10);
    }

    #[test]
    fn parts_tile_the_model_and_hold_what_is_whole_each() {
        let layers =
            [Layer::Flatten, linear(7), Layer::Relu, linear(5), Layer::Dropout { rate: 0.5 }, linear(10)];
        let model = model(&layers);
        for parts in 2..=5 {
            let partition = ModelPartition::of(&model, parts, 0.0);
            assert_eq!((partition.split(), partition.below(), partition.above()), (0..3, 0..0, 0..3));
            for part in 0..parts {
                let layers = (0..3).map(|layer| partition.held(layer, part)).sum::<usize>();
                assert_eq!(layers, partition.parameter_count(part));
            }
            let mut held = vec![0; model.parameter_count()];
            for part in 0..parts {
                let spans = partition.spans(part);
                assert_eq!(
                    spans.iter().map(ExactSizeIterator::len).sum::<usize>(),
                    partition.parameter_count(part)
                );
                spans.into_iter().flatten().for_each(|place| held[place] += 1);
            }
            assert!(held.iter().all(|times| *times == 1), "{parts}");
        }
        // 7 outputs in 3 parts: 3, 2 and 2; rows first, then biases.
        let partition = ModelPartition::of(&model, 3, 0.0);
        assert_eq!([0, 1, 2].map(|part| partition.columns(0, part)), [0..3, 3..5, 5..7]);
        let biases = 7 * 3072;
        assert_eq!(partition.spans(1)[..2], [3 * 3072..5 * 3072, biases + 3..biases + 5]);
    }

    /// The ratio of a layer from i to o is 3 i o / (i + o).
    #[test]
    fn a_layer_with_little_computation_stays_whole_and_all_above_it() {
        let vgg = vgg();
        let split = |threshold| ModelPartition::of(&vgg, 2, threshold).split();
        assert_eq!(split(29.7), 7..10);
        assert_eq!(split(29.8), 7..9);
        assert_eq!(split(1536.0), 7..8);
        let none = ModelPartition::of(&vgg, 2, 2458.0);
        assert_eq!((none.parts(), none.above(), none.values_sent()), (1, 10..10, 0));
        assert_eq!(none, ModelPartition::whole(&vgg));
        // The second layer has too few outputs for four; the gradient of the first is not returned by it.
        let layers = [Layer::Flatten, linear(8), linear(3), linear(10)];
        let partition = ModelPartition::of(&model(&layers), 4, 0.0);
        assert_eq!((partition.split(), partition.above()), (0..1, 0..3));
        assert_eq!(partition.stages()[2], Stage::Shard { width: 8, returns: false });
        assert_eq!(partition.values_sent(), 3 * (3072 + 8));
    }

    #[test]
    fn what_looks_at_a_whole_row_is_not_split() {
        let layers = [Layer::Flatten, linear(8), Layer::Flatten, linear(10)];
        let partition = ModelPartition::of(&model(&layers), 2, 0.0);
        assert_eq!(partition.split(), 1..2);
    }
}
