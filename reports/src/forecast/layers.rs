//! The step of gradients that travel layer by layer while others are computed.

use super::computing::{Computing, LayerTimes};
use super::messages::{gradient, message_cost, servers};
use super::{Forecast, NoModel, no_model};
use predict::elastic;
use predict::linear::Linear;
use predict::network::LinkRates;
use predict::schedule::{self, Grouping, LayerTime, StepProfile, TimeLine};
use predict::servers::{Bucket, Part, step};
use recipe::{RunSpec, Schedule, Strategy, WeightedLayer};
use std::num::NonZeroU32;
use std::ops::Range;

/// How the buckets of a step travel.
enum Way {
    /// An all-reduce of each: MG-WFBP Eq. 6 to 8 and 19 to 21, and the update after it.
    AllReduces,
    /// The same for a later step: Pipe-SGD Eq. 4 with the sum of the messages.
    Pipeline,
    /// Up to servers and down again.
    Servers,
}

impl Way {
    fn of(strategy: &Strategy) -> Result<Self, NoModel> {
        match strategy {
            Strategy::DSync => Ok(Self::AllReduces),
            Strategy::PipeSgd { depth, .. } => Ok(if *depth > 1 { Self::Pipeline } else { Self::AllReduces }),
            Strategy::PsSync => Ok(Self::Servers),
            Strategy::AsyncSgd { .. }
            | Strategy::AsyncMsgd { .. }
            | Strategy::HogwildSgd { .. }
            | Strategy::EasgdOriginal { .. }
            | Strategy::EasgdSync { .. }
            | Strategy::EasgdAsync { .. }
            | Strategy::MeasgdAsync { .. }
            | Strategy::EasgdHogwild { .. }
            | Strategy::Eamsgd { .. }
            | Strategy::LocalSgd { .. }
            | Strategy::Slowmo { .. }
            | Strategy::Gmp { .. }
            | Strategy::DPsgd { .. }
            | Strategy::AdPsgd { .. }
            | Strategy::Sgp
            | Strategy::Custom { .. } => no_model(format_args!("layers of `{}` one by one", strategy.kind())),
        }
    }
}

/// A step whose layers travel in buckets.
struct Layers<'a> {
    spec: &'a RunSpec,
    rates: LinkRates,
    workers: NonZeroU32,
    /// Seconds of the whole update.
    update: f64,
    profile: StepProfile,
}

/// Communication, length, and computing of a step, in seconds.
struct Seconds {
    compute: f64,
    communication: f64,
    step: f64,
}

/// The step of a run whose schedule is not `single`.
pub(super) fn forecast(
    spec: &RunSpec,
    rates: LinkRates,
    workers: NonZeroU32,
    computing: &Computing,
) -> Result<Forecast, NoModel> {
    let way = Way::of(&spec.strategy)?;
    let layers = spec.model.weighted_layers();
    let LayerTimes { forward, backward, update } = computing.layers(spec, &layers);
    let profile = profile(forward, &layers, &backward)?;
    let of_layers = Layers { spec, rates, workers, update, profile };
    let Seconds { compute, communication, step } = match way {
        Way::AllReduces => of_layers.all_reduces(computing.step)?,
        Way::Pipeline => of_layers.pipeline(computing.step)?,
        Way::Servers => of_layers.servers()?,
    };
    let speed_up = f64::from(workers.get()) * computing.step / step;
    Ok(Forecast { compute, communication, step, speed_up })
}

/// Bytes of each part in which a whole model travels, that of the last layers first.
pub(super) fn parts(spec: &RunSpec) -> Result<Vec<u64>, NoModel> {
    let layers = spec.model.weighted_layers();
    let profile = profile(0.0, &layers, &vec![0.0; layers.len()])?;
    let grouping = grouping(spec, &profile, Linear::constant(0.0));
    let line = TimeLine::of(&profile, Linear::constant(0.0), &grouping);
    let line = line.map_err(|error| NoModel(error.to_string()))?;
    Ok(line.messages.iter().map(|message| message.bytes).filter(|bytes| *bytes > 0).collect())
}

/// A step with these times of its layers, from the input on.
fn profile(forward: f64, layers: &[WeightedLayer<'_>], backward: &[f64]) -> Result<StepProfile, NoModel> {
    let time = |(layer, backward): (&WeightedLayer<'_>, &f64)| LayerTime {
        backward: *backward,
        bytes: 4 * layer.size() as u64,
    };
    let times: Vec<LayerTime> = layers.iter().zip(backward).rev().map(time).collect();
    StepProfile::new(forward, &times).map_err(|error| NoModel(error.to_string()))
}

/// Which layers travel together, if a message costs this by its bytes before coding.
fn grouping(spec: &RunSpec, profile: &StepProfile, cost: Linear) -> Grouping {
    match spec.communication.schedule {
        Schedule::Single => schedule::single(profile),
        Schedule::PerLayer => schedule::per_layer(profile),
        Schedule::Fixed { bytes } => schedule::fixed(profile, bytes),
        Schedule::Merged => schedule::merged(profile, cost),
        Schedule::MergedExact => schedule::merged_exact(profile, cost),
    }
}

impl Layers<'_> {
    /// `compute` is all computing of a step.
    fn all_reduces(&self, compute: f64) -> Result<Seconds, NoModel> {
        let cost = self.all_reduce_cost()?;
        let line = self.line(cost, &grouping(self.spec, &self.profile, cost))?;
        Ok(Seconds { compute, communication: sum_of(&line), step: line.iteration + self.update })
    }

    fn pipeline(&self, compute: f64) -> Result<Seconds, NoModel> {
        let cost = self.all_reduce_cost()?;
        let mut line = self.line(cost, &grouping(self.spec, &self.profile, cost))?;
        let plans = matches!(self.spec.communication.schedule, Schedule::Merged | Schedule::MergedExact);
        if plans && sum_of(&line) > line.computed {
            // As the planner decides: one message is the shortest way to send everything.
            line = self.line(cost, &schedule::single(&self.profile))?;
        }
        let communication = sum_of(&line);
        Ok(Seconds { compute, communication, step: compute.max(communication) })
    }

    fn servers(&self) -> Result<Seconds, NoModel> {
        let cost = self.exchange_cost()?;
        let grouping = grouping(self.spec, &self.profile, cost);
        let buckets = self.buckets(&grouping)?;
        let found = step(self.rates, self.workers, &buckets);
        // The update of the last bucket follows the backward pass; those before it may be hidden.
        let updates = buckets.last().into_iter().flat_map(|last| &last.parts).map(|part| part.update);
        let compute = self.profile.computed() + updates.fold(0.0, f64::max);
        Ok(Seconds { compute, communication: found.exchanging, step: found.step })
    }

    /// What a plan takes a message for: about its share of a whole model. Where each of several servers has other layers, this is far off.
    fn exchange_cost(&self) -> Result<Linear, NoModel> {
        let servers = servers(self.spec)?;
        if servers.get() > 1 && self.spec.communication.schedule.measured_steps() > 0 {
            return no_model("layers whose groups are planned, through several servers");
        }
        let vectors = elastic::vectors_of_servers(self.workers, servers, self.coded()?);
        linear(2.0 * self.rates.alpha(), vectors * self.rates.beta())
    }

    /// What travels in these groups of layers.
    fn buckets(&self, grouping: &Grouping) -> Result<Vec<Bucket>, NoModel> {
        let (servers, coded) = (servers(self.spec)?, self.coded()?);
        // If messages took no time, each would leave when its gradient is computed.
        let line = self.line(Linear::constant(0.0), grouping)?;
        let mut end = self.spec.model.parameters();
        let mut buckets = Vec::new();
        for message in line.messages.iter().filter(|message| message.bytes > 0) {
            let begin = end - message.bytes as usize / 4;
            let parts = self.parts_of(begin..end, servers, coded);
            buckets.push(Bucket { computed: message.begin, parts });
            end = begin;
        }
        Ok(buckets)
    }

    /// What each of the servers, which hold nearly equal parts of the weights, has of these.
    fn parts_of(&self, bucket: Range<usize>, servers: NonZeroU32, coded: f64) -> Vec<Part> {
        let (all, servers) = (self.spec.model.parameters(), servers.get() as usize);
        // The first servers hold one weight more where they cannot be equal.
        let begin = |server: usize| server * (all / servers) + server.min(all % servers);
        let part = |server: usize| {
            let held = begin(server).max(bucket.start)..begin(server + 1).min(bucket.end);
            let weights = 4.0 * held.len() as f64;
            let update = self.update * held.len() as f64 / all as f64;
            (!held.is_empty()).then_some(Part { server, gradient: coded * weights, weights, update })
        };
        (0..servers).filter_map(part).collect()
    }

    /// What an all-reduce costs by the bytes of a gradient before coding.
    fn all_reduce_cost(&self) -> Result<Linear, NoModel> {
        let table = message_cost(self.spec, self.rates, self.workers)?;
        linear(table.start_up(), table.per_byte() * self.coded()?)
    }

    /// Bytes of a gradient on the wire beside those before coding.
    fn coded(&self) -> Result<f64, NoModel> {
        let whole = 4 * self.spec.model.parameters() as u64;
        Ok(gradient(self.spec)? as f64 / whole.max(1) as f64)
    }

    fn line(&self, cost: Linear, grouping: &Grouping) -> Result<TimeLine, NoModel> {
        TimeLine::of(&self.profile, cost, grouping).map_err(|error| NoModel(error.to_string()))
    }
}

fn linear(start_up: f64, per_byte: f64) -> Result<Linear, NoModel> {
    Linear::new(start_up, per_byte).map_err(|error| NoModel(error.to_string()))
}

/// Seconds of all messages together.
fn sum_of(line: &TimeLine) -> f64 {
    line.messages.iter().map(|message| message.end - message.begin).sum()
}
