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
//! | `easgd-sync` variants 1 and 2 | Eq. 2 with SC17's log P (alpha + W beta) down and up (`predict::tree`), and the centre's update |
//! | `easgd-sync` variant 3 | Eq. 4 with both ways at once (`predict::tree`) |
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
mod groups;
mod measured;

pub use computing::{Computing, PassTimes, Passes};
pub use measured::{Measured, measured};

use computing::LayerTimes;
use predict::linear::Linear;
use predict::network::LinkRates;
use predict::pipe_sgd::{RingExchange, StageError, Stages};
use predict::schedule::{LayerTime, StepProfile, TimeLine};
use predict::tree::RootedTree;
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
    /// The term of the model for communication, before any of it is hidden behind computing. That of `easgd-sync` has the update of the
    /// centre in it, that of `slowmo` the outer update.
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
    // Of a centre or of outer weights, as long as a worker's of its weights; servers divide it among them.
    let update = computing.layers(spec, &spec.model.weighted_layers()).update;
    let servers = spec.cluster.seats.iter().filter(|seat| seat.role == Role::Server).count();
    let compute = match (&spec.strategy, servers) {
        (Strategy::PsSync, 2..) => computing.step - update * (1.0 - 1.0 / servers as f64),
        _ => computing.step,
    };
    let Exchange { beside, after } = exchange(spec, rates, workers, update)?;
    let hidden = Stages::new(0.0, compute, beside)?.pipelined();
    let step = Stages::new(0.0, hidden, after)?.synchronous();
    let communication = beside + after;
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
    let table = message_cost(spec, rates, workers)?;
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

/// Seconds of communication in one step.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Exchange {
    /// While the worker computes.
    beside: f64,
    /// When the worker has computed.
    after: f64,
}

impl Exchange {
    fn beside(seconds: f64) -> Self {
        Self { beside: seconds, after: 0.0 }
    }

    fn after(seconds: f64) -> Self {
        Self { beside: 0.0, after: seconds }
    }
}

fn exchange(spec: &RunSpec, rates: LinkRates, workers: NonZeroU32, update: f64) -> Result<Exchange, NoModel> {
    let weights = 4 * spec.model.parameters() as u64;
    match &spec.strategy {
        Strategy::DSync => Ok(Exchange::after(all_reduce_seconds(spec, rates, workers, gradient(spec)?)?)),
        Strategy::PipeSgd { depth, segments, .. } => {
            let seconds = match NonZeroU32::new(*segments).filter(|count| count.get() > 1) {
                None => all_reduce_seconds(spec, rates, workers, gradient(spec)?)?,
                Some(segments) if spec.communication.collective == Collective::Ring => {
                    let bytes = gradient(spec)?;
                    match spec.communication.reduce_order {
                        ReduceOrder::Ring => {
                            RingExchange { rates, workers, bytes, segments, synchronization: 0.0 }.seconds()
                        }
                        ReduceOrder::Rank => {
                            let line = all_reduce::in_rank_order(rates, workers);
                            f64::from(segments.get() - 1) * line.start_up() + line.time(bytes)
                        }
                    }
                }
                Some(_) => return no_model("segments on this collective"),
            };
            Ok(if *depth > 1 { Exchange::beside(seconds) } else { Exchange::after(seconds) })
        }
        Strategy::LocalSgd { period } => {
            exact(spec)?;
            Ok(Exchange::after(all_reduce_seconds(spec, rates, workers, weights)? / *period as f64))
        }
        Strategy::Slowmo { period, .. } => {
            exact(spec)?;
            let outer = all_reduce_seconds(spec, rates, workers, weights)? + update;
            Ok(Exchange::after(outer / *period as f64))
        }
        Strategy::PsSync => {
            let servers = spec.cluster.seats.iter().filter(|seat| seat.role == Role::Server).count();
            let Some(servers) = NonZeroU32::new(servers as u32) else { return no_model("no server") };
            let coded = gradient(spec)? as f64 / weights.max(1) as f64;
            Ok(Exchange::after(elastic::servers(rates, workers, servers, coded, weights)))
        }
        Strategy::EasgdSync { variant, .. } => {
            exact(spec)?;
            let tree = RootedTree::binomial(workers.get() as usize);
            let (served, message) = (tree.seconds(rates, weights), rates.message().time(weights));
            Ok(match variant {
                SyncVariant::Master => {
                    // Worker 0's request is on its way while the sum is.
                    let sum = message - rates.alpha();
                    Exchange { beside: sum + update, after: rates.alpha() + message + served }
                }
                SyncVariant::FirstWorker => Exchange::after(served + update),
                SyncVariant::Overlapped => Exchange::beside(tree.seconds_both_ways(rates, weights, update)),
            })
        }
        other => no_model(format_args!("`{}`", other.kind())),
    }
}

/// Seconds of the all-reduce of a vector of this many bytes on the wire.
fn all_reduce_seconds(
    spec: &RunSpec,
    rates: LinkRates,
    workers: NonZeroU32,
    bytes: u64,
) -> Result<f64, NoModel> {
    let places = workers.get() as usize;
    let line = |line: Linear| Ok(line.time(bytes));
    match spec.communication.collective {
        Collective::PipelinedRing { segments } => {
            let segments = NonZeroU32::new(segments).unwrap_or(NonZeroU32::MIN);
            Ok(all_reduce::pipelined_ring(rates, workers, segments, bytes))
        }
        Collective::Ring if spec.communication.reduce_order == ReduceOrder::Rank => {
            line(all_reduce::in_rank_order(rates, workers))
        }
        Collective::Ring if spec.compression == Compression::None => {
            Ok(all_reduce::ring_in_windows(rates, workers, bytes))
        }
        // A codec is given whole chunks.
        Collective::Ring => line(all_reduce::ring(rates, workers)),
        Collective::RecursiveDoubling => line(all_reduce::recursive_doubling(rates, workers)),
        Collective::HalvingDoubling => line(all_reduce::halving_doubling(rates, workers)),
        Collective::AllGather => line(all_reduce::all_gather(rates, workers)),
        Collective::Tree => Ok(RootedTree::binomial(places).seconds(rates, bytes)),
        Collective::Star => Ok(RootedTree::star(places).seconds(rates, bytes)),
        Collective::Hierarchical { group_size } => {
            Ok(RootedTree::hierarchical(&groups_of(spec, places, group_size)).seconds(rates, bytes))
        }
    }
}

/// What the all-reduce of each of several vectors, one after the other, costs as a line in its bytes. Through a centre, and among a number of
/// workers that is no power of two, the next one begins before the last one has ended everywhere, which no line has.
fn message_cost(spec: &RunSpec, rates: LinkRates, workers: NonZeroU32) -> Result<Linear, NoModel> {
    let collective = spec.communication.collective;
    let line: fn(LinkRates, NonZeroU32) -> Linear = match collective {
        Collective::Ring => match spec.communication.reduce_order {
            ReduceOrder::Ring => all_reduce::ring,
            ReduceOrder::Rank => all_reduce::in_rank_order,
        },
        Collective::AllGather => all_reduce::all_gather,
        Collective::Tree | Collective::RecursiveDoubling | Collective::HalvingDoubling
            if !workers.is_power_of_two() =>
        {
            return no_model(format_args!(
                "messages one by one of `{}` among {workers} workers",
                collective.kind()
            ));
        }
        Collective::Tree => all_reduce::binary_tree,
        Collective::RecursiveDoubling => all_reduce::recursive_doubling,
        Collective::HalvingDoubling => all_reduce::halving_doubling,
        Collective::PipelinedRing { .. } | Collective::Star | Collective::Hierarchical { .. } => {
            return no_model(format_args!("messages one by one of `{}`", collective.kind()));
        }
    };
    Ok(line(rates, workers))
}

/// The workers of each group of a hierarchy: neighbours by number, or those of a machine, in the order of their first ones.
fn groups_of(spec: &RunSpec, workers: usize, group_size: Option<u32>) -> Vec<Vec<usize>> {
    let mut groups: Vec<(u32, Vec<usize>)> = Vec::new();
    for place in 0..workers {
        let machine = || spec.cluster.seats.get(place).map_or(0, |seat| seat.node);
        let key = group_size.map_or_else(machine, |size| place as u32 / size.max(1));
        match groups.iter_mut().find(|(other, _)| *other == key) {
            Some((_, group)) => group.push(place),
            None => groups.push((key, vec![place])),
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
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
