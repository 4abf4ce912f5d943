//! How long each piece of a rank's work takes where the recipe says so: pure; the simulator spends these times, and
//! real ranks let them pass around the real arithmetic.

use super::Slowness;
use recipe::{Compute, ComputeSplit, Model, Role, RunSpec};
use record::{Nanos, Rank, Work};

/// In which proportion the work of one batch takes time: numbers of any unit.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Parts {
    /// Forward pass, layer by layer.
    pub forward: Vec<f64>,
    /// Of computing the loss and its gradient.
    pub loss: f64,
    /// Backward pass, layer by layer.
    pub backward: Vec<f64>,
    /// The update of the whole model.
    pub update: f64,
}

impl Parts {
    /// Layers in the proportion of their arithmetic, and a backward pass of twice the forward pass, less for frozen layers: where
    /// nothing was measured.
    pub fn by_arithmetic(model: &Model, layers: usize) -> Self {
        let weighted = model.weighted_layers();
        let mut work: Vec<f64> = weighted.iter().map(|layer| layer.flops as f64).collect();
        let mut backward: Vec<f64> = weighted.iter().map(|layer| layer.backward_flops as f64).collect();
        if work.len() != layers || work.iter().sum::<f64>() <= 0.0 {
            work = vec![1.0; layers];
            backward = vec![2.0; layers];
        }
        Self { forward: work, loss: 0.0, backward, update: 0.0 }
    }

    /// The same proportions within the forward and the backward pass, and these shares of all.
    fn shared(mut self, forward: f64, backward: f64, update: f64) -> Self {
        scale(&mut self.forward, forward);
        scale(&mut self.backward, backward);
        self.loss = 0.0;
        self.update = update;
        self
    }

    fn sum(&self) -> f64 {
        self.forward.iter().chain(&self.backward).sum::<f64>() + self.loss + self.update
    }
}

fn scale(parts: &mut [f64], to: f64) {
    let sum: f64 = parts.iter().sum();
    let each = to / parts.len().max(1) as f64;
    for part in parts {
        *part = if sum > 0.0 { *part * to / sum } else { each };
    }
}

/// How long each piece of a rank's work takes.
#[derive(Clone, Debug)]
pub struct ComputeModel {
    /// In nanoseconds; none where work takes what the machine takes.
    stated: Option<Parts>,
    parameter_count: usize,
    slowness: Slowness,
}

impl ComputeModel {
    fn new(compute: Option<Compute>, slowness: Slowness, measured: Parts, parameter_count: usize) -> Self {
        let stated = compute.map(|compute| {
            let (mut parts, whole) = match compute.split {
                ComputeSplit::Measured => {
                    let whole = measured.sum();
                    (measured, whole)
                }
                // A server has no passes, and its update is still no more than its share.
                ComputeSplit::Given { forward, backward, update } => {
                    (measured.shared(forward, backward, update), 1.0)
                }
            };
            let nanos = compute.step_time.as_nanos() as f64 / whole.max(f64::MIN_POSITIVE);
            let Parts { forward, loss, backward, update } = &mut parts;
            for part in forward.iter_mut().chain(backward).chain([loss, update]) {
                *part *= nanos;
            }
            parts
        });
        Self { stated, parameter_count, slowness }
    }

    /// The pace of a rank of a run, by what the run pretends. `measured` are the parts of its work where it was timed.
    ///
    /// The work of a server is none of the measured parts of a worker's step: it takes what the machine takes, unless
    /// the recipe gives it a share.
    pub fn of(spec: &RunSpec, seed: u64, rank: Rank, measured: Parts, parameter_count: usize) -> Self {
        let emulation = &spec.emulation;
        let serves =
            spec.cluster.placements.get(rank.index()).is_none_or(|placement| placement.role == Role::Server);
        let compute = emulation.compute.filter(|compute| !serves || compute.split != ComputeSplit::Measured);
        let slowness = Slowness::of(emulation, seed, spec.cluster.workers(), rank).with_faults(&spec.faults);
        let work = if serves { Vec::new() } else { spec.layer_work(rank.index()) };
        Self::new(compute, slowness, measured, parameter_count).working(&work)
    }

    /// The same for a rank that computes a part of the outputs of each layer.
    fn working(mut self, work: &[f64]) -> Self {
        if let Some(Parts { forward, backward, .. }) = &mut self.stated {
            for (layer, work) in work.iter().enumerate() {
                for pass in [&mut *forward, &mut *backward] {
                    if let Some(part) = pass.get_mut(layer) {
                        *part *= work;
                    }
                }
            }
        }
        self
    }

    /// Whether anything is other than the machine makes it.
    pub fn changes_anything(&self) -> bool {
        self.stated.is_some() || self.slowness.computes_slowly()
    }

    /// How long some work of a step takes, where the machine takes `real` for it; `None` where that is all.
    ///
    /// Where times are stated, loading a batch has none of its own: it is part of the step.
    pub fn length(&self, step: u64, work: Work, real: Nanos) -> Option<Nanos> {
        let computes = matches!(
            work,
            Work::Data
                | Work::Forward { .. }
                | Work::Loss(_)
                | Work::Backward { .. }
                | Work::Update(_)
                | Work::Transfer(_)
        );
        if !computes {
            return None;
        }
        let factor = self.slowness.compute(step);
        let stated = self.stated.as_ref().map(|parts| self.stated(parts, work));
        let alone = stated.or((factor > 1.0).then_some(real.0 as f64));
        alone.map(|alone| Nanos((alone * factor) as u64))
    }

    fn stated(&self, parts: &Parts, work: Work) -> f64 {
        let of_layer = |parts: &[f64], layer: usize| parts.get(layer).copied().unwrap_or_default();
        match work {
            Work::Forward { layer, share } => share.times(of_layer(&parts.forward, layer)),
            Work::Loss(share) => share.times(parts.loss),
            Work::Backward { layer, share } => share.times(of_layer(&parts.backward, layer)),
            Work::Update(weights) => parts.update * weights as f64 / self.parameter_count.max(1) as f64,
            _ => 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use recipe::Emulation;
    use record::BatchShare;
    use std::time::Duration;

    fn pace(split: ComputeSplit, factor: f64) -> ComputeModel {
        let slow = recipe::Slow { whom: recipe::Whom::Rank(0), compute: factor, link: 1.0, probability: 1.0 };
        let emulation = Emulation { slow: vec![slow], ..Emulation::default() };
        let parts = Parts { forward: vec![1.0, 3.0], loss: 2.0, backward: vec![6.0, 4.0], update: 4.0 };
        let compute = Compute { step_time: Duration::from_micros(20), split };
        ComputeModel::new(Some(compute), Slowness::of(&emulation, 1, 1, Rank(0)), parts, 100)
    }

    fn lengths(pace: &ComputeModel) -> Vec<u64> {
        lengths_of(pace, BatchShare::WHOLE)
    }

    fn lengths_of(pace: &ComputeModel, share: BatchShare) -> Vec<u64> {
        let works = [
            Work::Data,
            Work::Forward { layer: 0, share },
            Work::Forward { layer: 1, share },
            Work::Loss(share),
            Work::Backward { layer: 1, share },
            Work::Backward { layer: 0, share },
            Work::Update(100),
            Work::Reduce(5),
        ];
        works.map(|work| pace.length(1, work, Nanos(77)).map_or(0, |nanos| nanos.0)).to_vec()
    }

    #[test]
    fn a_step_takes_its_time_in_the_measured_proportion() {
        let lengths = lengths(&pace(ComputeSplit::Measured, 1.0));
        assert_eq!(lengths, [0, 1000, 3000, 2000, 4000, 6000, 4000, 0]);
        assert_eq!(lengths[..7].iter().sum::<u64>(), 20_000);
    }

    /// Four micro-batches are one batch, and a group of four that computes a quarter of the outputs for the rows of four does as
    /// much as each of them alone.
    #[test]
    fn a_part_of_a_batch_takes_its_part_of_the_time() {
        let pace = pace(ComputeSplit::Measured, 1.0);
        let quarter = BatchShare { rows: 8, of: 32 };
        assert_eq!(lengths_of(&pace, quarter), [0, 250, 750, 500, 1000, 1500, 4000, 0]);
        let parts = pace.working(&[1.0, 0.25]);
        let of_group = BatchShare { rows: 128, of: 32 };
        assert_eq!(lengths_of(&parts, of_group), [0, 4000, 3000, 8000, 4000, 24_000, 4000, 0]);
        assert_eq!(lengths_of(&parts, BatchShare { rows: 0, of: 0 })[2], 750);
    }

    #[test]
    fn given_shares_keep_the_proportions_of_the_layers() {
        let given = ComputeSplit::Given { forward: 0.4, backward: 0.5, update: 0.1 };
        assert_eq!(lengths(&pace(given, 1.0)), [0, 2000, 6000, 0, 4000, 6000, 2000, 0]);
    }

    #[test]
    fn a_server_updates_for_its_share_of_a_step() {
        let given = ComputeSplit::Given { forward: 0.4, backward: 0.5, update: 0.1 };
        let compute = Compute { step_time: Duration::from_micros(20), split: given };
        let even = Slowness::of(&Emulation::default(), 1, 1, Rank(0));
        let server = ComputeModel::new(Some(compute), even, Parts::default(), 100);
        assert_eq!(lengths(&server), [0, 0, 0, 0, 0, 0, 2000, 0]);
    }

    #[test]
    fn a_slow_rank_takes_so_many_times_as_long_for_everything_it_computes() {
        assert_eq!(
            lengths(&pace(ComputeSplit::Measured, 3.0)),
            [0, 3000, 9000, 6000, 12000, 18000, 12000, 0]
        );
        assert_eq!(pace(ComputeSplit::Measured, 3.0).length(1, Work::Reduce(5), Nanos(77)), None);
        let own = ComputeModel { stated: None, ..pace(ComputeSplit::Measured, 1.0) };
        assert_eq!(own.length(1, Work::Loss(BatchShare::WHOLE), Nanos(77)), None);
        let real = ComputeModel { stated: None, ..pace(ComputeSplit::Measured, 3.0) };
        assert_eq!(lengths(&real), [231, 231, 231, 231, 231, 231, 231, 0]);
    }

    #[test]
    fn layers_without_weights_belong_to_the_one_before() {
        let layer = |flops, weights: bool| recipe::PlacedLayer {
            name: String::new(),
            layer: recipe::Layer::Relu,
            input: recipe::Shape::Flat(1),
            output: recipe::Shape::Flat(1),
            parameters: if weights {
                vec![recipe::Parameter { name: String::new(), shape: vec![1] }]
            } else {
                vec![]
            },
            flops,
            paths: recipe::Paths::default(),
        };
        let layers =
            vec![layer(1, false), layer(10, true), layer(2, false), layer(20, true), layer(30, true)];
        let model = Model::Layers(recipe::LayeredModel {
            kind: recipe::ModelKind::Sequential,
            input: recipe::Shape::Flat(1),
            classes: 1,
            layers,
            init: recipe::Init::Pytorch,
        });
        let parts = Parts::by_arithmetic(&model, 3);
        assert_eq!((parts.forward, parts.backward), (vec![13.0, 20.0, 30.0], vec![26.0, 40.0, 60.0]));
        assert_eq!(Parts::by_arithmetic(&model, 2).forward, [1.0, 1.0]);
    }
}
