//! The step of `gmp`: groups that exchange activations, and average what they hold with the other groups.
//!
//! With K workers in a group, N in all, B samples of a worker, and T(n, W) an all-reduce of W bytes among n workers:
//!
//! | what | seconds |
//! |---|---|
//! | an exchange in which each member sends W bytes to each other | alpha + (K - 1) W beta |
//! | computing | of a whole layer above K times as long: each member computes it for all rows; of a split one as long as the widest part |
//! | the update | of what a member holds, of layers above the modulo layer once in each round or once |
//! | a round with rows | exchanges of rows up and of their gradient down, of each split layer's outputs, and of their gradients below another split layer |
//! | rows with `scheme = "b"` | those of one member in each round, B each: K times as many in a row. Of their gradient a member sends its part and sends its own rows at once, so that only the last owner's link shows |
//! | averages | T(N / K, split layers), T(N, whole layers above) in each round or once, T(N, layers below) |
//!
//! With a schedule of layers, what the last round leaves and the layers below travel from the end of that round on (MG-WFBP Eq. 6 to 8,
//! 19 to 21, with a cost for each section). Through s servers W bytes that n workers average cost 2 alpha +
//! (N + n) W beta / s, without groups what `ps-sync` costs; layers that travel there one by one have no model.

use super::computing::{Computing, LayerTimes, PassTimes};
use super::layers::planned_in_time;
use super::messages::{MessageTime, Sent, gradient, servers};
use super::{Forecast, NoModel, no_model};
use predict::elastic;
use predict::linear::Linear;
use predict::network::LinkRates;
use predict::schedule::{self, LayerTime, SectionCosts, StepProfile, TimeLine};
use recipe::{FcUpdate, ModelPartition, ModuloScheme, RunSpec, Schedule, Stage, Strategy};
use std::num::NonZeroU32;
use std::ops::Range;

/// A run in groups.
struct Groups<'a> {
    spec: &'a RunSpec,
    rates: LinkRates,
    partition: ModelPartition,
    scheme: ModuloScheme,
    fc_update: FcUpdate,
    average_every: Option<u64>,
    workers: NonZeroU32,
}

/// Neighbouring layers that the same workers average.
struct Section {
    layers: Range<usize>,
    time: MessageTime,
}

/// The step of a run in groups, whose workers would compute this for themselves.
pub(super) fn forecast(
    spec: &RunSpec,
    rates: LinkRates,
    workers: NonZeroU32,
    computing: &Computing,
) -> Result<Forecast, NoModel> {
    let Strategy::Gmp { scheme, fc_update, average_every, .. } = spec.strategy else {
        return no_model(format_args!("`{}`", spec.strategy.kind()));
    };
    let partition = spec.model_partition();
    let groups = Groups { spec, rates, partition, scheme, fc_update, average_every, workers };
    let passes = groups.divided(computing.pass_times(spec), computing);
    let step = groups.step(passes, computing)?;
    let speed_up = f64::from(workers.get()) * computing.step / step.length;
    Ok(Forecast {
        passes,
        communication: step.communication,
        step: step.length,
        equation: "exchanges within groups, averages between them",
        speed_up,
    })
}

/// Seconds of a predicted step.
struct Step {
    communication: f64,
    /// Computing and exposed communication together.
    length: f64,
}

impl Groups<'_> {
    fn layers(&self) -> usize {
        self.spec.model.weighted_layers().len()
    }

    /// Part of `passes`, which are those of all layers, that a member of a group computes.
    fn divided(&self, passes: PassTimes, computing: &Computing) -> PassTimes {
        let LayerTimes { backward, .. } = computing.layers(self.spec, &self.spec.model.weighted_layers());
        let whole: f64 = backward.iter().sum();
        let of_layers = |time: &dyn Fn(usize) -> f64| -> f64 {
            (0..self.layers()).map(|layer| time(layer) * self.work(layer)).sum()
        };
        let share = |layer: usize| if whole > 0.0 { backward[layer] / whole } else { self.share(layer) };
        PassTimes {
            forward: passes.forward * of_layers(&|layer| self.share(layer)),
            backward: passes.backward * of_layers(&share),
            update: passes.update * self.updated(),
        }
    }

    /// How many weights a member updates in a step, beside all of the model. Those above the modulo layer may be updated in each round.
    fn updated(&self) -> f64 {
        let rounds = match self.fc_update {
            FcUpdate::PerRound => self.rounds(),
            FcUpdate::PerBatch => 1.0,
        };
        let above = |layer: usize| self.partition.parts() > 1 && self.partition.above().contains(&layer);
        let held = |layer: usize| {
            let times = if above(layer) { rounds } else { 1.0 };
            times * self.bytes(layer..layer + 1) as f64
        };
        let whole = 4 * self.spec.model.parameter_count();
        (0..self.layers()).map(held).sum::<f64>() / whole.max(1) as f64
    }

    /// The part of a step's operations that a layer has; where they are not known, each has as many as any other.
    fn share(&self, layer: usize) -> f64 {
        let layers = self.spec.model.weighted_layers();
        let all: f64 = layers.iter().map(|layer| layer.flops as f64).sum();
        if all > 0.0 { layers[layer].flops as f64 / all } else { 1.0 / layers.len() as f64 }
    }

    /// How long the first part computes a layer in a step, beside a worker that computes all of it for its own samples.
    fn work(&self, layer: usize) -> f64 {
        if !self.partition.above().contains(&layer) {
            return 1.0;
        }
        let held =
            self.partition.columns(layer, 0).len() as f64 / self.partition.outputs(layer).max(1) as f64;
        held * self.partition.parts() as f64
    }

    /// Samples of a worker in a step.
    fn batch(&self) -> f64 {
        f64::from(self.spec.train.global_batch) / f64::from(self.workers.get())
    }

    /// Rounds of a step that have rows; those without are the last ones.
    fn rounds(&self) -> f64 {
        let all = self.scheme.rounds(self.partition.parts()) as f64;
        if self.scheme == ModuloScheme::Shares { all.min(self.batch().ceil()) } else { all }
    }

    /// Whether the last round has rows.
    fn last_has_rows(&self) -> bool {
        self.rounds() >= self.scheme.rounds(self.partition.parts()) as f64
    }

    /// Seconds of a step in exchanges within the group.
    fn within(&self) -> f64 {
        let parts = self.partition.parts();
        if parts == 1 {
            return 0.0;
        }
        let batch = self.batch();
        // As multiples of the rows of a batch, up and down. An average over all workers in each round waits for the owner of the rows.
        let averages = self.average_every.is_none();
        let waits =
            averages && self.fc_update == FcUpdate::PerRound && !self.partition.whole_above().is_empty();
        let turns = match self.scheme {
            ModuloScheme::Turns if waits => [parts as f64, parts as f64],
            // Nothing joins the workers at the end of a step.
            ModuloScheme::Turns if !averages => [parts as f64, 1.0],
            ModuloScheme::Turns => [parts as f64, 2.0],
            ModuloScheme::All | ModuloScheme::Shares => [1.0, 1.0],
        };
        let below = !self.partition.below().is_empty();
        let exchange = |stage: &Stage| match *stage {
            Stage::Layer { .. } => (0.0, 0.0),
            Stage::Modulo { width } => {
                let [up, down] = turns;
                if below { (2.0, (up + down) * width as f64) } else { (1.0, up * width as f64) }
            }
            Stage::Shard { width, returns } => {
                let ways = if returns { 2.0 } else { 1.0 };
                (ways, ways * width as f64)
            }
        };
        let stages = self.partition.stages();
        let (exchanges, values) = stages
            .iter()
            .map(exchange)
            .fold((0.0, 0.0), |(one, other), (more, values)| (one + more, other + values));
        let message = self.rates.message();
        let bytes = 4.0 * batch * (parts - 1) as f64 * values;
        self.rounds() * exchanges * message.start_up() + message.per_byte() * bytes
    }

    /// A step with these passes.
    fn step(&self, passes: PassTimes, computing: &Computing) -> Result<Step, NoModel> {
        let compute = passes.sum();
        let within = self.within();
        let sections = self.sections()?;
        let each: Vec<f64> = sections.iter().map(|section| self.alone(section)).collect();
        if let Some(every) = self.average_every {
            let communication = within + each.iter().sum::<f64>() / every as f64;
            return Ok(Step { communication, length: compute + communication });
        }
        // The sections above the modulo layer are averaged in each round.
        let above = if self.partition.parts() == 1 { self.layers() } else { self.partition.above().start };
        let of_rounds: f64 = sections
            .iter()
            .zip(&each)
            .filter(|(section, _)| section.layers.start >= above)
            .map(|(_, t)| t)
            .sum();
        let (earlier, last) = match self.fc_update {
            FcUpdate::PerRound if self.last_has_rows() => (self.rounds() - 1.0, 1.0),
            FcUpdate::PerRound => (self.rounds(), 0.0),
            FcUpdate::PerBatch => (0.0, 1.0),
        };
        let earlier = earlier * of_rounds;
        if self.spec.communication.schedule == Schedule::Single {
            let below = each.iter().sum::<f64>() - of_rounds;
            let communication = within + earlier + last * of_rounds + below;
            return Ok(Step { communication, length: compute + communication });
        }
        if self.spec.strategy.averages_through_servers() {
            return no_model("layers of `gmp` that travel to servers one by one");
        }
        planned_in_time(self.spec)?;
        self.scheduled(passes, computing, within + earlier, &sections)
    }

    /// The same for gradients that travel during the backward pass of the layers below.
    fn scheduled(
        &self,
        passes: PassTimes,
        computing: &Computing,
        before: f64,
        sections: &[Section],
    ) -> Result<Step, NoModel> {
        let layers = self.layers();
        // Without parts, all layers are computed by each worker for itself.
        let below = if self.partition.parts() == 1 { 0..layers } else { self.partition.below() };
        let LayerTimes { backward, .. } = computing.layers(self.spec, &self.spec.model.weighted_layers());
        let pass = |layer: usize| backward[layer] * self.work(layer);
        let late: f64 = below.clone().map(pass).sum();
        let sent = self.fc_update == FcUpdate::PerBatch || self.last_has_rows();
        let time = |layer: usize| match below.contains(&layer) {
            true => LayerTime { backward: pass(layer), bytes: self.bytes(layer..layer + 1) },
            false if sent => LayerTime { backward: 0.0, bytes: self.bytes(layer..layer + 1) },
            false => LayerTime { backward: 0.0, bytes: 0 },
        };
        let times: Vec<LayerTime> = (0..layers).rev().map(time).collect();
        let begin = passes.forward + passes.backward - late + before;
        let ends: Vec<usize> = sections.iter().map(|section| layers - section.layers.start).collect();
        let costs = SectionCosts::new(sections.iter().map(|section| self.planned(section)));
        let costs =
            costs.as_ref().ok_or_else(|| NoModel("no model of a step that sends nothing".to_owned()))?;
        let wrong = |error: &dyn std::fmt::Display| NoModel(error.to_string());
        let profile = StepProfile::new(begin, &times).map_err(|error| wrong(&error))?.in_sections(&ends);
        let grouping = match self.spec.communication.schedule {
            Schedule::Single => schedule::single(&profile),
            Schedule::PerLayer => schedule::per_layer(&profile),
            Schedule::Fixed { bytes } => schedule::fixed(&profile, bytes),
            Schedule::Merged => schedule::merged(&profile, costs),
            Schedule::MergedExact => schedule::merged_exact(&profile, costs),
        };
        // A profile divided at the ends of the sections has as many.
        let line =
            TimeLine::timed(&profile, &grouping, |section, bytes| sections[section].time.seconds(bytes));
        let line = line.map_err(|error| wrong(&error))?;
        let sent: f64 = line.messages.iter().map(|message| message.end - message.begin).sum();
        Ok(Step { communication: before + sent, length: line.iteration + passes.update })
    }

    /// The sections with what a message of theirs costs by the bytes of its gradient before coding, those of the last layers first.
    fn sections(&self) -> Result<Vec<Section>, NoModel> {
        let Self { partition, workers, .. } = self;
        let holders = NonZeroU32::new(workers.get() / partition.parts() as u32);
        let holders = holders.ok_or_else(|| NoModel("no model of groups larger than the run".to_owned()))?;
        let whole = partition.parts() == 1;
        let below = if whole { 0..self.layers() } else { partition.below() };
        let all = [(partition.whole_above(), *workers), (partition.split(), holders), (below, *workers)];
        let present = all.into_iter().filter(|(layers, _)| !layers.is_empty());
        present.map(|(layers, members)| Ok(Section { layers, time: self.time(members)? })).collect()
    }

    /// Time of an average among `members` workers, by its bytes before coding.
    fn time(&self, members: NonZeroU32) -> Result<MessageTime, NoModel> {
        if members.get() == 1 {
            return Ok(MessageTime::Line(Linear::constant(0.0)));
        }
        let sent = if self.average_every.is_some() { Sent::Weights } else { Sent::Gradient };
        if !self.spec.strategy.averages_through_servers() {
            return MessageTime::of(self.spec, self.rates, members, sent);
        }
        let coded = match sent {
            Sent::Weights => 1.0,
            Sent::Gradient => {
                gradient(self.spec)? as f64 / (4 * self.spec.model.parameter_count()).max(1) as f64
            }
        };
        let servers = servers(self.spec)?;
        let message = self.rates.message();
        // Vectors are coded up, and sums come down as they are. Of split layers, holders of all parts send at the same time, and the
        // sums of all but the last part leave while later vectors arrive. Without groups a sum comes down to one worker after the
        // other, so that they send one after the other the next time; groups wait for all of their members.
        let all = f64::from(self.workers.get());
        let each = f64::from(members.get());
        let both = if self.partition.parts() == 1 {
            elastic::vectors_of_servers(self.workers, servers, coded)
        } else {
            (coded * all + each) / f64::from(servers.get())
        };
        MessageTime::line_of(2.0 * message.start_up(), both * message.per_byte())
    }

    /// The line that a plan takes the messages of a section for.
    fn planned(&self, section: &Section) -> Linear {
        let layers = section.layers.clone().map(|layer| self.bytes(layer..layer + 1));
        section.time.planned(&layers.chain([self.bytes(section.layers.clone())]).collect::<Vec<u64>>())
    }

    fn alone(&self, section: &Section) -> f64 {
        section.time.seconds(self.bytes(section.layers.clone()))
    }

    /// Bytes of the gradient of some layers of the first part.
    fn bytes(&self, layers: Range<usize>) -> u64 {
        let described = self.spec.model.weighted_layers();
        let whole = self.partition.parts() == 1;
        let held = |layer: usize| if whole { described[layer].size() } else { self.partition.held(layer, 0) };
        4 * layers.map(|layer| held(layer) as u64).sum::<u64>()
    }
}
