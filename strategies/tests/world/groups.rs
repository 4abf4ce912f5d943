//! Groups of workers that split a small perceptron.

use crate::scene::Scene;
use recipe::{
    AveragedBy, Extent, FcUpdate, Layer, LayeredModel, Model, ModelKind, ModelPartition, ModuloScheme,
    Parameter, PlacedLayer, Shape, Strategy,
};
use strategies::sim::WorldOutcome;
use strategies::toy::Perceptron;
use strategies::{Learner, Vector};

/// Widths of the perceptron that groups split.
pub(crate) const WIDTHS: [usize; 5] = [6, 8, 8, 8, 4];

/// The model of a learner with these widths. The first layers are called convolutions, so that no group splits them.
pub(crate) fn model(widths: &[usize], convolutions: usize) -> Model {
    let layers = widths.windows(2).enumerate().map(|(number, widths)| {
        let inputs = widths[0];
        let outputs = widths[1];
        let name = format!("linear{}", number + 1);
        let conv = Layer::Conv { outputs, kernel: 1, stride: 1, padding: 0, bias: true, groups: 1 };
        PlacedLayer {
            parameters: vec![Parameter { name: format!("{name}.weight"), shape: vec![outputs, inputs + 1] }],
            name,
            layer: if number < convolutions { conv } else { Layer::Linear { outputs } },
            input: Shape::Flat(inputs),
            output: Shape::Flat(outputs),
            flops: 2 * (inputs * outputs) as u64,
            paths: recipe::Paths::default(),
        }
    });
    let layers = layers.collect();
    let input = Shape::Flat(widths[0]);
    let classes = widths[widths.len() - 1];
    LayeredModel { kind: ModelKind::Sequential, input, classes, layers, init: recipe::Init::Pytorch }.into()
}

/// Settings of `gmp`: `workers` in groups of `mp`, each of which holds one model together.
#[derive(Clone, Copy)]
pub(crate) struct Groups {
    pub(crate) workers: u32,
    pub(crate) mp: u32,
    pub(crate) scheme: ModuloScheme,
    pub(crate) fc_update: FcUpdate,
    pub(crate) average_every: Option<u64>,
    pub(crate) averaged_by: AveragedBy,
}

impl Groups {
    pub(crate) fn of(workers: u32, mp: u32) -> Self {
        let scheme = ModuloScheme::Shares;
        let fc_update = FcUpdate::PerBatch;
        let averaged_by = AveragedBy::Workers;
        Self { workers, mp, scheme, fc_update, average_every: None, averaged_by }
    }

    pub(crate) fn strategy(self) -> Strategy {
        let Self { mp, scheme, fc_update, average_every, averaged_by, .. } = self;
        Strategy::Gmp { mp, scheme, fc_update, average_every, least_ccr: 0.0, averaged_by }
    }

    pub(crate) fn scene(self, steps: u64, batch: u32) -> Scene {
        Scene::new(self.strategy(), self.workers).rank_order().widths(&WIDTHS).change(|spec| {
            spec.model = model(&WIDTHS, 1);
            spec.train.length = Extent::Steps(steps);
            spec.train.global_batch = batch;
        })
    }
}

pub(crate) fn partition(mp: u32) -> ModelPartition {
    ModelPartition::of(&model(&WIDTHS, 1), mp as usize, 0.0)
}

/// The whole model of group `group` of a run.
pub(crate) fn joined(outcome: &WorldOutcome, mp: u32, group: u32) -> Vector {
    let partition = partition(mp);
    let mut whole = Vector::zeros(Perceptron::new(&WIDTHS).layout().size());
    for part in 0..mp as usize {
        let own = outcome.ranks[group as usize * mp as usize + part].model();
        let mut at = 0;
        for span in partition.spans(part) {
            whole[span.clone()].copy_from_slice(&own[at..at + span.len()]);
            at += span.len();
        }
        assert_eq!(at, own.len());
    }
    whole
}
