//! The step of gradients that travel layer by layer while others are computed.

use super::computing::{Computing, LayerTimes, PassTimes};
use super::messages::{MessageTime, Sent, fitted, gradient, servers};
use super::{Forecast, NoModel, no_model};
use predict::linear::{Fit, Linear};
use predict::network::LinkRates;
use predict::schedule::{self, Grouping, LayerTime, StepProfile, TimeLine};
use predict::servers::{Bucket, ServerShare, messages, step};
use recipe::{ExchangeThrough, Role, RunSpec, Schedule, Strategy, WeightedLayer};
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
        match strategy.kind().profile().exchange {
            ExchangeThrough::AllReduce => {
                Ok(if strategy.depth() > 1 { Self::Pipeline } else { Self::AllReduces })
            }
            ExchangeThrough::SyncServer => Ok(Self::Servers),
            ExchangeThrough::AsyncServer | ExchangeThrough::Centre | ExchangeThrough::Neighbours => {
                no_model(format_args!("layers of `{}` one by one", strategy.kind()))
            }
        }
    }

    /// The equations of the step, in words.
    fn equation(&self, schedule: Schedule) -> &'static str {
        match (self, schedule) {
            (Self::AllReduces, Schedule::Single | Schedule::PerLayer) => "MG-WFBP Eq. 6 to 8",
            (Self::AllReduces, Schedule::Fixed { .. } | Schedule::Merged | Schedule::MergedExact) => {
                "MG-WFBP Eq. 19 to 21"
            }
            (Self::Pipeline, _) => "Pipe-SGD Eq. 4, sum of the messages",
            (Self::Servers, _) => "messages through the servers",
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

/// Communication and length of a step, in seconds.
struct Seconds {
    communication: f64,
    step: f64,
}

/// The step of a run whose gradients travel in more than one bucket.
pub(super) fn forecast(
    spec: &RunSpec,
    rates: LinkRates,
    workers: NonZeroU32,
    computing: &Computing,
) -> Result<Forecast, NoModel> {
    let way = Way::of(&spec.strategy)?;
    planned_in_time(spec)?;
    let layers = spec.model.weighted_layers();
    let LayerTimes { forward, backward, update } = computing.layers(spec, &layers);
    let profile = profile(forward, &layers, &backward)?;
    let of_layers = Layers { spec, rates, workers, update, profile };
    let passes = computing.pass_times(spec);
    let equation = way.equation(spec.communication.schedule);
    let (passes, Seconds { communication, step }) = match way {
        Way::AllReduces => (passes, of_layers.all_reduces()?),
        Way::Pipeline => (passes, of_layers.pipeline(computing.step)?),
        Way::Servers => (PassTimes { update: 0.0, ..passes }, of_layers.servers()?),
    };
    let speed_up = f64::from(workers.get()) * computing.step / step;
    Ok(Forecast { passes, communication, step, equation, speed_up })
}

/// Refuses a plan that is never made.
pub(super) fn planned_in_time(spec: &RunSpec) -> Result<(), NoModel> {
    let schedule = spec.communication.schedule;
    if plans(spec) && spec.steps().is_some_and(|steps| steps <= schedule.measured_steps()) {
        return no_model(format_args!(
            "`{}` in a training that is over before it has a plan",
            schedule.kind()
        ));
    }
    Ok(())
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

/// Whether the schedule leaves a whole model in one part: so it does for a worker alone, with fewer weights than servers, with one layer, and
/// in buckets that hold all of it.
pub(super) fn travels_whole(spec: &RunSpec) -> Result<bool, NoModel> {
    let servers = spec.cluster.placements.iter().filter(|placement| placement.role == Role::Server).count();
    if spec.cluster.workers() < 2 || spec.model.parameter_count() < servers {
        return Ok(true);
    }
    match spec.communication.schedule {
        Schedule::Single => Ok(true),
        Schedule::PerLayer | Schedule::Fixed { .. } => Ok(parts(spec)?.len() < 2),
        Schedule::Merged | Schedule::MergedExact => Ok(sizes(spec).len() < 2),
    }
}

/// Bytes of each layer with weights, the last one first.
fn sizes(spec: &RunSpec) -> Vec<u64> {
    let layers = spec.model.weighted_layers();
    layers.iter().rev().map(|layer| 4 * layer.size() as u64).filter(|bytes| *bytes > 0).collect()
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

/// Which layers travel together, if a plan takes messages for this line in their bytes before coding.
fn grouping(spec: &RunSpec, profile: &StepProfile, line: Linear) -> Grouping {
    match spec.communication.schedule {
        Schedule::Single => schedule::single(profile),
        Schedule::PerLayer => schedule::per_layer(profile),
        Schedule::Fixed { bytes } => schedule::fixed(profile, bytes),
        Schedule::Merged => schedule::merged(profile, line),
        Schedule::MergedExact => schedule::merged_exact(profile, line),
    }
}

impl Layers<'_> {
    fn all_reduces(&self) -> Result<Seconds, NoModel> {
        let time = self.message_time()?;
        let line = self.line(&self.grouping(time.planned(&self.probed())), time)?;
        Ok(Seconds { communication: sum_of(&line), step: line.iteration + self.update })
    }

    /// `compute` is all computing of a step.
    fn pipeline(&self, compute: f64) -> Result<Seconds, NoModel> {
        let time = self.message_time()?;
        let planned = time.planned(&self.probed());
        let mut grouping = self.grouping(planned);
        let expected = self.line(&grouping, MessageTime::Line(planned))?;
        if plans(self.spec) && sum_of(&expected) > expected.computed {
            // As the planner decides: one message is the shortest way to send everything.
            grouping = schedule::single(&self.profile);
        }
        let communication = sum_of(&self.line(&grouping, time)?);
        Ok(Seconds { communication, step: compute.max(communication) })
    }

    fn servers(&self) -> Result<Seconds, NoModel> {
        let line = if plans(self.spec) { self.planned_for_servers()? } else { Linear::constant(0.0) };
        let found = step(self.rates, self.workers, &self.buckets(&self.grouping(line))?);
        Ok(Seconds { communication: found.exchanging, step: found.step })
    }

    /// The line that a plan takes messages through servers for. It is made from steps in which they leave after the backward pass, in some
    /// those of each layer, in others all layers in one.
    fn planned_for_servers(&self) -> Result<Linear, NoModel> {
        let mut probes = Vec::new();
        for grouping in [schedule::per_layer(&self.profile), schedule::single(&self.profile)] {
            let held = |bucket| Bucket { computed: 0.0, ..bucket };
            let buckets: Vec<Bucket> = self.buckets(&grouping)?.into_iter().map(held).collect();
            let bytes = |bucket: &Bucket| bucket.parts.iter().map(|part| part.weights).sum::<f64>() as u64;
            let seconds = messages(self.rates, self.workers, &buckets);
            probes.extend(buckets.iter().map(bytes).zip(seconds));
        }
        Ok(fitted(Fit::of, probes.into_iter()))
    }

    /// Buckets in which these groups of layers travel, those of the last layers first.
    fn buckets(&self, grouping: &Grouping) -> Result<Vec<Bucket>, NoModel> {
        let servers = servers(self.spec)?;
        let coded = self.coded()?;
        // If messages took no time, each would leave when its gradient is computed.
        let line = self.line(grouping, MessageTime::Line(Linear::constant(0.0)))?;
        let mut end = self.spec.model.parameter_count();
        let mut buckets = Vec::new();
        for message in line.messages.iter().filter(|message| message.bytes > 0) {
            let begin = end - message.bytes as usize / 4;
            let parts = self.parts_of(begin..end, servers, coded);
            buckets.push(Bucket { computed: message.begin, parts });
            end = begin;
        }
        Ok(buckets)
    }

    /// Parts of a bucket on the servers, which hold nearly equal parts of the weights. A server with none of it is left
    /// out of the list.
    fn parts_of(&self, bucket: Range<usize>, servers: NonZeroU32, coded: f64) -> Vec<ServerShare> {
        let all = self.spec.model.parameter_count();
        let servers = servers.get() as usize;
        // The first servers hold one weight more where they cannot be equal.
        let begin = |server: usize| server * (all / servers) + server.min(all % servers);
        let part = |server: usize| {
            let held = begin(server).max(bucket.start)..begin(server + 1).min(bucket.end);
            let weights = 4.0 * held.len() as f64;
            let update = self.update * held.len() as f64 / all as f64;
            (!held.is_empty()).then_some(ServerShare { server, gradient: coded * weights, weights, update })
        };
        (0..servers).filter_map(part).collect()
    }

    fn grouping(&self, line: Linear) -> Grouping {
        grouping(self.spec, &self.profile, line)
    }

    /// The sizes of the messages that a plan is made from: of each layer, and of all together.
    fn probed(&self) -> Vec<u64> {
        let layers = sizes(self.spec);
        let whole = layers.iter().sum();
        layers.into_iter().chain([whole]).collect()
    }

    fn message_time(&self) -> Result<MessageTime, NoModel> {
        MessageTime::of(self.spec, self.rates, self.workers, Sent::Gradient)
    }

    /// Bytes of a gradient on the wire beside those before coding.
    fn coded(&self) -> Result<f64, NoModel> {
        let whole = 4 * self.spec.model.parameter_count() as u64;
        Ok(gradient(self.spec)? as f64 / whole.max(1) as f64)
    }

    fn line(&self, grouping: &Grouping, time: MessageTime) -> Result<TimeLine, NoModel> {
        let line = TimeLine::timed(&self.profile, grouping, |_, bytes| time.seconds(bytes));
        line.map_err(|error| NoModel(error.to_string()))
    }
}

/// Whether the groups are planned from what the run measures.
fn plans(spec: &RunSpec) -> bool {
    spec.communication.schedule.measured_steps() > 0
}

/// Seconds of all messages together.
fn sum_of(line: &TimeLine) -> f64 {
    line.messages.iter().map(|message| message.end - message.begin).sum()
}
