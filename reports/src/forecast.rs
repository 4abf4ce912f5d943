//! From a run's specification to its predicted step: which model of which paper fits which strategy.
//!
//! | strategy | model |
//! |---|---|
//! | `d-sync` | Pipe-SGD Eq. 2: computing and all-reduce one after the other |
//! | `pipe-sgd` | Eq. 4, with segments the communication of Eq. 6; with a depth of 1 Eq. 2 |
//! | `local-sgd`, `slowmo` | Eq. 2 with one all-reduce per period |
//! | `d-sync` with a schedule of layers | MG-WFBP Eq. 6 to 8 and 19 to 21 |
//! | `pipe-sgd` with a schedule of layers | Pipe-SGD Eq. 4 with the sum of the messages |
//! | `ps-sync` | Eq. 2 with SC17's P (alpha + W beta) down, and one gradient up |
//! | `easgd-sync` | Eq. 2 with SC17's log P (alpha + W beta) up and down; variant 3 Eq. 4 with one of them |
//! | `gmp` | exchanges within groups, and averages between them: `forecast/groups.rs` |
//!
//! The server of `ps-sync` sends the weights to one worker after the other, so that workers finish their gradients one after the
//! other too: all but the last gradient travel while a later worker still computes.
//!
//! All-reduces are rows of MG-WFBP Table II. What no model fits has a reason in place of numbers.

mod computing;
mod groups;
mod measured;

pub use computing::{Computing, Passes};
pub use measured::{Measured, measured};

use computing::LayerTimes;
use predict::linear::Linear;
use predict::network::LinkRates;
use predict::pipe_sgd::{RingExchange, StageError, Stages};
use predict::schedule::{LayerTime, StepProfile, TimeLine};
use predict::{all_reduce, elastic, schedule};
use recipe::{
    Codec, Collective, Compression, ReduceOrder, Role, RunSpec, Schedule, Strategy, SyncVariant,
    WeightedLayer,
};
use std::num::NonZeroU32;

/// A predicted step of a worker, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Forecast {
    /// Forward pass, backward pass and update.
    pub compute: f64,
    /// The term of the model for communication, before any of it is hidden behind computing.
    pub communication: f64,
    /// All of it.
    pub step: f64,
    /// Samples per second beside one worker with the same computing per step (MG-WFBP Eq. 4).
    pub speed_up: f64,
}

impl Forecast {
    /// Seconds of the step in which a worker does not compute: the communication that is not hidden.
    pub fn exposed(self) -> f64 {
        self.step - self.compute
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
    if matches!(spec.strategy, Strategy::Gmp { .. }) {
        return groups::forecast(spec, rates, workers, computing.step);
    }
    if spec.communication.schedule != Schedule::Single {
        return layered(spec, rates, workers, computing);
    }
    let compute = computing.step;
    let exchange = exchange(spec, rates, workers)?;
    let (Exchange::After(communication) | Exchange::Beside(communication)) = exchange;
    let stages = Stages::new(0.0, compute, communication)?;
    let step = match exchange {
        Exchange::After(_) => stages.synchronous(),
        Exchange::Beside(_) => stages.pipelined(),
    };
    let speed_up = f64::from(workers.get()) * compute / step;
    Ok(Forecast { compute, communication, step, speed_up })
}

/// The step of gradients that travel layer by layer: MG-WFBP Eq. 6 to 8 and 19 to 21, and the update after it.
fn layered(
    spec: &RunSpec,
    rates: LinkRates,
    workers: NonZeroU32,
    computing: &Computing,
) -> Result<Forecast, NoModel> {
    let pipelined = match spec.strategy {
        Strategy::DSync => false,
        Strategy::PipeSgd { depth, .. } => depth > 1,
        Strategy::EasgdSync { .. } => return no_model("layers that travel through a tree"),
        Strategy::PsSync
        | Strategy::AsyncSgd { .. }
        | Strategy::AsyncMsgd { .. }
        | Strategy::HogwildSgd { .. }
        | Strategy::EasgdOriginal { .. }
        | Strategy::EasgdAsync { .. }
        | Strategy::MeasgdAsync { .. }
        | Strategy::EasgdHogwild { .. }
        | Strategy::Eamsgd { .. } => return no_model("layers that travel to a server"),
        Strategy::LocalSgd { .. }
        | Strategy::Slowmo { .. }
        | Strategy::Gmp { .. }
        | Strategy::DPsgd { .. }
        | Strategy::AdPsgd { .. }
        | Strategy::Sgp
        | Strategy::Custom { .. } => return no_model("this strategy's layers one by one"),
    };
    let layers = spec.model.weighted_layers();
    let LayerTimes { forward, backward, update } = computing.layers(spec, &layers);
    let compute = computing.step;
    let time = |(layer, backward): (&WeightedLayer<'_>, &f64)| LayerTime {
        backward: *backward,
        bytes: 4 * layer.size() as u64,
    };
    let times: Vec<LayerTime> = layers.iter().zip(&backward).rev().map(time).collect();
    let profile = StepProfile::new(forward, &times).map_err(|error| NoModel(error.to_string()))?;
    // Messages are of encoded gradients, and layers are counted in bytes before that.
    let whole = 4 * spec.model.parameters() as u64;
    let table = table_2(spec, rates, workers)?;
    let cost = Linear::new(table.start_up(), table.per_byte() * gradient(spec)? as f64 / whole.max(1) as f64);
    let cost = cost.map_err(|error| NoModel(error.to_string()))?;
    let grouping = match spec.communication.schedule {
        Schedule::Single => schedule::single(&profile),
        Schedule::PerLayer => schedule::per_layer(&profile),
        Schedule::Fixed { bytes } => schedule::fixed(&profile, bytes),
        Schedule::Merged => schedule::merged(&profile, cost),
        Schedule::MergedExact => schedule::merged_exact(&profile, cost),
    };
    let mut line = TimeLine::of(&profile, cost, &grouping).map_err(|error| NoModel(error.to_string()))?;
    let plans = matches!(spec.communication.schedule, Schedule::Merged | Schedule::MergedExact);
    if pipelined && plans && sum_of(&line) > line.computed {
        // As the planner decides: one message is the shortest way to send everything.
        line = TimeLine::of(&profile, cost, &schedule::single(&profile))
            .map_err(|error| NoModel(error.to_string()))?;
    }
    let communication = sum_of(&line);
    let step = if pipelined { compute.max(communication) } else { line.iteration + update };
    let speed_up = f64::from(workers.get()) * compute / step;
    Ok(Forecast { compute, communication, step, speed_up })
}

/// Seconds of all messages together.
fn sum_of(line: &TimeLine) -> f64 {
    line.messages.iter().map(|message| message.end - message.begin).sum()
}

/// Seconds of communication in one step, and when they are.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Exchange {
    /// When the worker has computed.
    After(f64),
    /// While the worker computes.
    Beside(f64),
}

fn exchange(spec: &RunSpec, rates: LinkRates, workers: NonZeroU32) -> Result<Exchange, NoModel> {
    let weights = 4 * spec.model.parameters() as u64;
    match &spec.strategy {
        Strategy::DSync => Ok(Exchange::After(table_2(spec, rates, workers)?.time(gradient(spec)?))),
        Strategy::PipeSgd { depth, segments, .. } => {
            let seconds = match NonZeroU32::new(*segments).filter(|count| count.get() > 1) {
                None => table_2(spec, rates, workers)?.time(gradient(spec)?),
                Some(segments) if spec.communication.collective == Collective::Ring => {
                    let bytes = gradient(spec)?;
                    RingExchange { rates, workers, bytes, segments, synchronization: 0.0 }.seconds()
                }
                Some(_) => return no_model("segments on this collective"),
            };
            Ok(if *depth > 1 { Exchange::Beside(seconds) } else { Exchange::After(seconds) })
        }
        Strategy::LocalSgd { period } | Strategy::Slowmo { period, .. } => {
            exact(spec)?;
            Ok(Exchange::After(table_2(spec, rates, workers)?.time(weights) / *period as f64))
        }
        Strategy::PsSync => {
            if spec.cluster.seats.iter().filter(|seat| seat.role == Role::Server).count() != 1 {
                return no_model("several servers");
            }
            let last = rates.message().time(gradient(spec)?);
            Ok(Exchange::After(elastic::one_by_one(rates, workers, weights) + last))
        }
        Strategy::EasgdSync { variant, .. } => {
            exact(spec)?;
            let tree = elastic::tree(rates, workers, weights);
            Ok(match variant {
                SyncVariant::Master => Exchange::After(2.0 * (tree + rates.message().time(weights))),
                SyncVariant::FirstWorker => Exchange::After(2.0 * tree),
                SyncVariant::Overlapped => Exchange::Beside(tree),
            })
        }
        other => no_model(format_args!("`{}`", other.kind())),
    }
}

/// The row of MG-WFBP Table II.
fn table_2(spec: &RunSpec, rates: LinkRates, workers: NonZeroU32) -> Result<Linear, NoModel> {
    match spec.communication.collective {
        Collective::Ring => Ok(match spec.communication.reduce_order {
            ReduceOrder::Ring => all_reduce::ring(rates, workers),
            ReduceOrder::Rank => all_reduce::in_rank_order(rates, workers),
        }),
        Collective::Tree => Ok(all_reduce::binary_tree(rates, workers)),
        Collective::RecursiveDoubling => Ok(all_reduce::recursive_doubling(rates, workers)),
        Collective::HalvingDoubling => Ok(all_reduce::halving_doubling(rates, workers)),
        other @ (Collective::PipelinedRing { .. }
        | Collective::Star
        | Collective::AllGather
        | Collective::Hierarchical { .. }) => no_model(format_args!("collective `{}`", other.kind())),
    }
}

/// Bytes of a gradient on the wire. The time to encode it is not predicted.
fn gradient(spec: &RunSpec) -> Result<u64, NoModel> {
    let parameters = spec.model.parameters() as u64;
    match spec.compression {
        Compression::None => Ok(4 * parameters),
        Compression::Coded {
            codec: Codec::Truncate16 | Codec::Fp16 | Codec::Bf16,
            parameters: false,
            ..
        } => Ok(2 * parameters),
        Compression::Coded { codec: Codec::Quantize8, parameters: false, .. } => Ok(parameters),
        Compression::Coded { parameters: true, .. } => no_model("coded weights"),
        Compression::Coded { codec, .. } => no_model(format_args!("codec `{}`", codec.kind())),
    }
}

/// Refuses coded weights.
fn exact(spec: &RunSpec) -> Result<(), NoModel> {
    match spec.compression {
        Compression::Coded { parameters: true, .. } => no_model("coded weights"),
        Compression::Coded { parameters: false, .. } | Compression::None => Ok(()),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use recipe::{
        Compute, ComputeSplit, Init, Layer, LayeredModel, Model, ModelKind, Parameter, PlacedLayer, Shape,
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
        let (single, fixed) = (step(Schedule::Single), step(Schedule::Fixed { bytes: u64::MAX }));
        assert!((single.step - fixed.step).abs() < 1e-12, "{single:?} {fixed:?}");
        assert!((single.communication - fixed.communication).abs() < 1e-12);
    }

    #[test]
    fn layers_that_travel_by_themselves_follow_the_time_line() {
        let spec = spec(Schedule::PerLayer);
        let layers = spec.model.weighted_layers();
        let flops: f64 = layers.iter().map(|layer| layer.flops as f64).sum();
        let (mut finished, mut free, mut sent) = (0.01, 0.0_f64, 0.0);
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
        let (mut finished, mut free) = (0.01, 0.0_f64);
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
        let (mut finished, mut free) = (0.01 + 0.02 * 0.75, 0.0_f64);
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

    #[test]
    fn a_pipeline_waits_for_all_of_its_messages() {
        let mut spec = spec(Schedule::PerLayer);
        spec.strategy = Strategy::PipeSgd { depth: 2, warmup: recipe::Extent::Steps(0), segments: 1 };
        let rates = LinkRates::new(1e-3, 1e-8, 0.0).unwrap();
        let found = forecast(&spec, rates, &Computing::of_step(0.04)).unwrap();
        assert!((found.step - found.communication.max(0.04)).abs() < 1e-12, "{found:?}");
    }
}
