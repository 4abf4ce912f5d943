//! From a run's specification to its predicted step: which model of which paper fits which strategy.
//!
//! | strategy | model |
//! |---|---|
//! | `d-sync` | Pipe-SGD Eq. 2: computing and all-reduce one after the other |
//! | `pipe-sgd` | Eq. 4, with segments the communication of Eq. 6; with a depth of 1 Eq. 2 |
//! | `local-sgd`, `slowmo` | Eq. 2 with one all-reduce per period |
//! | `d-sync` with a schedule of layers | MG-WFBP Eq. 6 to 8 and 19 to 21 |
//! | `pipe-sgd` with a schedule of layers | Pipe-SGD Eq. 4 with the sum of the messages |
//! | `ps-sync` | Eq. 2 with the weights from the servers to one worker after the other, and one gradient up |
//! | `ps-sync` with a schedule of layers | buckets up and down, each as soon as it is computed (`predict::servers`) |
//! | `easgd-sync` variants 1 and 2 | Eq. 2 with SC17's log P (alpha + W beta) down and up (`predict::tree`), and the centre's update |
//! | `easgd-sync` variant 3 | Eq. 4 with both ways at once (`predict::tree`) |
//! | `easgd-sync` with a schedule of layers | the same with a vector in parts |
//! | `gmp` | exchanges within groups, and averages between them: `forecast/groups.rs` |
//!
//! The servers of `ps-sync` send the weights to one worker after the other, so that workers finish their gradients one after the
//! other too: all but the last gradient travel while a later worker still computes. In variant 1 of `easgd-sync` worker 0 asks the master for
//! the centre, and the sum of the weights travels to the master, which updates the centre, while the workers compute the next step.
//!
//! Pipe-SGD's Eq. 6 has the backward pass of the last layers in the place of computing; here that is all of the computing, because the
//! lane that computes must finish it before the next step.
//!
//! All-reduces are those of `predict::all_reduce` and `predict::tree`, the rows of MG-WFBP Table II among them. What no model fits has a reason in place of
//! numbers.

mod computing;
mod exchange;
mod groups;
mod layers;
mod measured;
mod messages;

pub use computing::{Computing, PassTimes, Passes};
pub use measured::{Measured, measured};

use exchange::Exchange;
use predict::network::LinkRates;
use predict::pipe_sgd::{StageError, Stages};
use recipe::{ModelShare, Profile, RunSpec, Sends};
use std::num::NonZeroU32;

/// A predicted step of a worker, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Forecast {
    /// Computing of the step, by its passes.
    pub passes: PassTimes,
    /// The term of the model for communication, before any of it is hidden behind computing. That of `ps-sync` has the servers' update in it,
    /// that of `easgd-sync` the centre's, that of `slowmo` the outer one; with a schedule of layers, that of `ps-sync` has all of the time from when a
    /// gradient leaves until the weights are there.
    pub communication: f64,
    /// Length of the whole step.
    pub step: f64,
    /// The equations that it follows, in words.
    pub equation: &'static str,
    /// Samples per second beside one worker with the same computing per step, which makes the whole update itself (MG-WFBP Eq. 4).
    pub speed_up: f64,
}

impl Forecast {
    /// Seconds in which a worker computes: forward pass, backward pass and update.
    pub fn compute(self) -> f64 {
        self.passes.sum()
    }

    /// Seconds of the step in which a worker does not compute: the communication that is not hidden.
    pub fn exposed(self) -> f64 {
        (self.step - self.compute()).max(0.0)
    }
}

/// Why a step is not predicted.
#[derive(Clone, Debug, PartialEq)]
pub struct NoModel(pub String);

impl From<StageError> for NoModel {
    fn from(error: StageError) -> Self {
        Self(error.to_string())
    }
}

fn no_model<T>(of: impl std::fmt::Display) -> Result<T, NoModel> {
    Err(NoModel(format!("no model of {of}")))
}

/// The step of a run on a network.
pub fn forecast(spec: &RunSpec, rates: LinkRates, computing: &Computing) -> Result<Forecast, NoModel> {
    if !spec.emulation.slow.is_empty() {
        return no_model("slow ranks");
    }
    if !spec.faults.is_empty() {
        return no_model("ranks that something happens to");
    }
    let Some(workers) = NonZeroU32::new(spec.cluster.workers()) else { return no_model("no workers") };
    let Profile { share, sends, .. } = spec.strategy.kind().profile();
    if share == ModelShare::Part {
        return groups::forecast(spec, rates, workers, computing);
    }
    // Parts of weights wait for no layer's gradient.
    if sends != Sends::Weights && !layers::travels_whole(spec)? {
        return layers::forecast(spec, rates, workers, computing);
    }
    let passes = computing.pass_times(spec);
    // The centre and outer weights are as many as a worker's.
    let Exchange { update, beside, after, equation } = Exchange::of(spec, rates, workers, passes.update)?;
    let passes = PassTimes { update: passes.update - update, ..passes };
    let hidden = Stages::new(0.0, passes.sum(), beside)?.pipelined();
    let step = Stages::new(0.0, hidden, after)?.synchronous();
    let speed_up = f64::from(workers.get()) * computing.step / step;
    Ok(Forecast { passes, communication: beside + after, step, equation, speed_up })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use recipe::{
        Compute, ComputeSplit, Init, Layer, LayeredModel, Model, ModelKind, Parameter, PlacedLayer,
        ReduceOrder, Schedule, Shape, Strategy,
    };
    use std::time::Duration;

    /// Three layers of a hundred thousand, ten thousand and a hundred weights.
    pub(crate) fn model() -> Model {
        of_widths(&[1000, 100, 100, 1])
    }

    /// Linear layers between these widths.
    pub(crate) fn of_widths(widths: &[usize]) -> Model {
        let layers = widths.windows(2).enumerate().map(|(number, width)| PlacedLayer {
            name: format!("linear{}", number + 1),
            layer: Layer::Linear { outputs: width[1] },
            input: Shape::Flat(width[0]),
            output: Shape::Flat(width[1]),
            parameters: vec![Parameter { name: "weight".to_owned(), shape: vec![width[1], width[0]] }],
            flops: 2 * (width[0] * width[1]) as u64,
            paths: recipe::Paths::default(),
        });
        Model::Layers(LayeredModel {
            kind: ModelKind::Sequential,
            input: Shape::Flat(1000),
            classes: 1,
            layers: layers.collect(),
            init: Init::Pytorch,
        })
    }

    fn spec(schedule: Schedule) -> RunSpec {
        let mut spec = RunSpec::sample_of(Strategy::DSync, 4);
        spec.model = model();
        let split = ComputeSplit::Given { forward: 0.25, backward: 0.5, update: 0.25 };
        spec.emulation.compute = Some(Compute { step_time: Duration::from_millis(40), split });
        spec.communication.schedule = schedule;
        spec.communication.reduce_order = ReduceOrder::Ring;
        spec
    }

    fn step(schedule: Schedule) -> Forecast {
        let rates = LinkRates::new(1e-3, 1e-8, 0.0).unwrap();
        forecast(&spec(schedule), rates, &Computing::of_step(0.04)).unwrap()
    }

    #[test]
    fn one_bucket_is_what_the_equation_for_all_layers_says() {
        let single = step(Schedule::Single);
        let fixed = step(Schedule::Fixed { bytes: u64::MAX });
        assert!((single.step - fixed.step).abs() < 1e-12, "{single:?} {fixed:?}");
        assert!((single.communication - fixed.communication).abs() < 1e-12);
    }

    #[test]
    fn layers_that_travel_by_themselves_follow_the_time_line() {
        let spec = spec(Schedule::PerLayer);
        let layers = spec.model.weighted_layers();
        let flops: f64 = layers.iter().map(|layer| layer.flops as f64).sum();
        let mut finished = 0.01;
        let mut free = 0.0_f64;
        let mut sent = 0.0;
        for layer in layers.iter().rev() {
            finished += 0.02 * layer.flops as f64 / flops;
            // A ring of four: six messages in a row, one and a half times the bytes.
            let message = 6e-3 + 1.5e-8 * 4.0 * layer.size() as f64;
            free = free.max(finished) + message;
            sent += message;
        }
        let found = step(Schedule::PerLayer);
        assert!((found.step - (free + 0.01)).abs() < 1e-12, "{found:?} {free}");
        assert!((found.communication - sent).abs() < 1e-12);
    }

    #[test]
    fn layers_whose_operations_are_not_known_take_equal_parts_of_the_backward_pass() {
        let mut spec = spec(Schedule::PerLayer);
        let Model::Layers(model) = &mut spec.model else { panic!("it is layers") };
        model.layers.iter_mut().for_each(|layer| layer.flops = 0);
        let mut finished = 0.01;
        let mut free = 0.0_f64;
        for layer in spec.model.weighted_layers().iter().rev() {
            finished += 0.02 / 3.0;
            free = free.max(finished) + 6e-3 + 1.5e-8 * 4.0 * layer.size() as f64;
        }
        let rates = LinkRates::new(1e-3, 1e-8, 0.0).unwrap();
        let found = forecast(&spec, rates, &Computing::of_step(0.04)).unwrap();
        assert!((found.step - (free + 0.01)).abs() < 1e-12, "{found:?} {free}");
    }

    #[test]
    fn of_a_batch_in_pieces_the_last_one_alone_hides_messages() {
        let rates = LinkRates::new(1e-3, 1e-8, 0.0).unwrap();
        let mut spec = spec(Schedule::PerLayer);
        spec.train.accumulate = 4;
        let layers = spec.model.weighted_layers();
        let flops: f64 = layers.iter().map(|layer| layer.flops as f64).sum();
        // Four pieces of 10 and 20 ms between them, a quarter of them last.
        let mut finished = 0.01 + 0.02 * 0.75;
        let mut free = 0.0_f64;
        for layer in layers.iter().rev() {
            finished += 0.02 / 4.0 * layer.flops as f64 / flops;
            free = free.max(finished) + 6e-3 + 1.5e-8 * 4.0 * layer.size() as f64;
        }
        let found = forecast(&spec, rates, &Computing::of_step(0.04)).unwrap();
        assert!((found.step - (free + 0.01)).abs() < 1e-12, "{found:?} {free}");
    }

    #[test]
    fn in_rank_order_a_ring_is_two_rounds() {
        let rates = LinkRates::new(1e-3, 1e-8, 0.0).unwrap();
        let mut spec = spec(Schedule::Single);
        let around = forecast(&spec, rates, &Computing::of_step(0.04)).unwrap();
        spec.communication.reduce_order = ReduceOrder::Rank;
        let straight = forecast(&spec, rates, &Computing::of_step(0.04)).unwrap();
        assert!((around.step - straight.step - 4e-3).abs() < 1e-12);
    }

    /// Beside one worker that makes the whole update itself.
    #[test]
    fn servers_that_share_an_update_gain_for_it() {
        let mut spec = spec(Schedule::Single);
        spec.strategy = Strategy::PsSync;
        let server = recipe::Placement { role: recipe::Role::Server, ..spec.cluster.placements[0].clone() };
        let rates = LinkRates::new(1e-3, 0.0, 0.0).unwrap();
        for servers in [1, 2, 4] {
            spec.cluster.placements.push(server.clone());
            if servers == 4 {
                spec.cluster.placements.push(server.clone());
            }
            let found = forecast(&spec, rates, &Computing::of_step(0.04)).unwrap();
            // A quarter of the 40 ms is the update, which no worker makes.
            assert!((found.compute() - 0.03).abs() < 1e-12, "{found:?}");
            let shared = 0.01 / f64::from(servers);
            assert!((found.step - 0.032 - shared).abs() < 1e-12, "{found:?}");
            assert!((found.communication - 0.002 - shared).abs() < 1e-12, "{found:?}");
            assert!((found.speed_up - 4.0 * 0.04 / found.step).abs() < 1e-12, "{found:?}");
        }
    }

    #[test]
    fn a_plan_that_is_never_made_has_no_model() {
        let rates = LinkRates::new(1e-3, 1e-8, 0.0).unwrap();
        let mut spec = spec(Schedule::Merged);
        let groups = Strategy::Gmp {
            mp: 1,
            scheme: recipe::ModuloScheme::All,
            fc_update: recipe::FcUpdate::PerBatch,
            average_every: None,
            least_ccr: 0.0,
            averaged_by: recipe::AveragedBy::Workers,
        };
        for strategy in [Strategy::DSync, groups] {
            spec.strategy = strategy;
            for (steps, predicted) in [(8, false), (9, true)] {
                spec.train.length = recipe::Extent::Steps(steps);
                let found = forecast(&spec, rates, &Computing::of_step(0.04));
                assert_eq!(found.is_ok(), predicted, "{steps} {found:?}");
            }
        }
    }

    #[test]
    fn a_pipeline_waits_for_all_of_its_messages() {
        let mut spec = spec(Schedule::PerLayer);
        spec.strategy = Strategy::PipeSgd { depth: 2, warmup: recipe::Extent::Steps(0), segments: 1 };
        let rates = LinkRates::new(1e-3, 1e-8, 0.0).unwrap();
        let found = forecast(&spec, rates, &Computing::of_step(0.04)).unwrap();
        assert!((found.step - found.communication.max(0.04)).abs() < 1e-12, "{found:?}");
    }
}
