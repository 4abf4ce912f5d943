//! The plan of `merged` and `merged-exact`: made once, by rank 0, from what the first steps of the run measure.
//!
//! In these steps no message is hidden: after the backward pass, whose layers are timed, the gradient travels bucket by bucket, in turn
//! as one message of each section and as one per layer, and each message is timed. What travels is the gradient of the step, so that nothing is sent
//! for the measurement but a few signals of one byte, by which the workers begin together. The first two steps are left out, one of each
//! kind: their memory is touched for the first time.
//!
//! The medians of the workers' times go to rank 0, which takes the slowest worker's of each layer and of each message, because
//! the next one cannot begin before; fits a + b M for each section, in which other workers may take part; and sends the plan to all, so that timings that differ cannot lead to different
//! plans (MG-WFBP, Algorithm 2). A pipeline waits for the sum of its messages, not for the end of the last one: where that is more
//! than what it computes, all layers travel together.

use super::{BucketTime, Buckets, Sections};
use crate::vector::{Layout, LayoutLayer, Vector};
use crate::{StateError, StateVisitor};
use predict::linear::{Fit, Held, Linear, Probe};
use predict::schedule::{
    Grouping, LayerTime, SectionCosts, StepProfile, TimeLine, merged, merged_exact, single,
};
use record::{HeldCost, Nanos, ScheduleCost, ScheduledBucket};

/// Measurements of the first steps, in seconds, and how to plan from them.
#[derive(Clone, Debug)]
pub(crate) struct Planner {
    rule: Rule,
    bound: StepBound,
    order: MessageOrder,
    sections: Sections,
    steps: u64,
    forward: Vec<f32>,
    /// Backward passes of each layer, the last one first.
    backward: Vec<Vec<f32>>,
    /// Messages of each layer, likewise.
    messages: Vec<Vec<f32>>,
    /// Messages of each section that has weights, that of the last layers first.
    whole: Vec<Vec<f32>>,
}

/// Rule by which layers are grouped into buckets.
#[derive(Clone, Copy, Debug)]
enum Rule {
    /// Algorithm 1 of MG-WFBP, which is not always optimal.
    Merged,
    /// The least iteration time.
    Exact,
}

/// Communication that bounds the length of a step, beside its computing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StepBound {
    /// End of the last message of the step, which the update waits for.
    OwnMessages,
    /// Sum of all messages, if longer than computing: a pipeline waits for those of an earlier step (Pipe-SGD Eq. 4).
    AllMessages,
}

/// Whether a rank's messages are on their way at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MessageOrder {
    /// One begins when the one before it has ended everywhere.
    OneByOne,
    /// Up to servers and down again, while others are on their way: what a message takes is by how much later it comes than those before,
    /// which can be nothing.
    AtOnce,
}

/// Times measured in one step.
#[derive(Debug)]
pub(crate) struct MeasuredStep {
    /// Time of the forward pass.
    pub(crate) forward: Nanos,
    /// Times of the backward pass of each layer, the last one first.
    pub(crate) backward: Vec<Nanos>,
    /// Times of the messages, in the order in which they left.
    pub(crate) messages: Vec<Nanos>,
}

/// A plan, and the measurements behind it.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) grouping: Grouping,
    pub(crate) origin: PlanOrigin,
}

/// Measurements behind a plan, and the times that it predicts.
#[derive(Debug, Default)]
pub(crate) struct PlanOrigin {
    /// The cost of messages; `None` where no line can be fitted.
    pub(crate) cost: Option<ScheduleCost>,
    /// The backward pass of each layer, from the input on.
    pub(crate) layers: Vec<Nanos>,
    /// Begin and end of each bucket.
    pub(crate) predicted: Vec<BucketTime>,
}

impl Planner {
    /// A planner for a schedule that measures.
    pub(crate) fn new(
        schedule: recipe::Schedule,
        layout: &Layout,
        sections: &Sections,
        bound: StepBound,
        order: MessageOrder,
    ) -> Option<Self> {
        let layers = layout.layers().len();
        if layers == 0 {
            return None;
        }
        let rule = match schedule {
            recipe::Schedule::Merged => Rule::Merged,
            recipe::Schedule::MergedExact => Rule::Exact,
            recipe::Schedule::Single | recipe::Schedule::PerLayer | recipe::Schedule::Fixed { .. } => {
                return None;
            }
        };
        let lists = || vec![Vec::new(); layers];
        let steps = schedule.measured_steps();
        Some(Self {
            rule,
            bound,
            order,
            sections: sections.clone(),
            steps,
            forward: Vec::new(),
            backward: lists(),
            messages: lists(),
            whole: vec![Vec::new(); Buckets::per_section(layout, sections).spans().len()],
        })
    }

    /// The buckets of a step that is measured.
    pub(crate) fn buckets(&self, step: u64, layout: &Layout) -> Buckets {
        if step.is_multiple_of(2) {
            Buckets::per_layer(layout)
        } else {
            Buckets::per_section(layout, &self.sections)
        }
    }

    /// Whether the plan is due after a step.
    pub(crate) fn is_due(&self, step: u64) -> bool {
        step >= self.steps
    }

    /// Takes what a step measured.
    pub(crate) fn add(&mut self, step: u64, layout: &Layout, measured: &MeasuredStep) {
        if step <= 2 {
            return;
        }
        let seconds = |time: &Nanos| time.seconds() as f32;
        self.forward.push(seconds(&measured.forward));
        for (times, time) in self.backward.iter_mut().zip(&measured.backward) {
            times.push(seconds(time));
        }
        if step.is_multiple_of(2) {
            // Layers without weights send nothing.
            let sends = layout.layers().iter().rev().map(|layer| !layer.span.is_empty());
            let lists =
                self.messages.iter_mut().zip(sends).filter_map(|(times, sends)| sends.then_some(times));
            for (times, time) in lists.zip(&measured.messages) {
                times.push(seconds(time));
            }
        } else {
            for (times, time) in self.whole.iter_mut().zip(&measured.messages) {
                times.push(seconds(time));
            }
        }
    }

    /// The medians of the forward pass, of each layer, of each layer's message, and of each section's; for rank 0.
    pub(crate) fn medians(&self) -> Vector {
        let all = [&self.forward].into_iter().chain(&self.backward).chain(&self.messages).chain(&self.whole);
        all.map(|times| median(times).unwrap_or(0.0)).collect::<Vec<f32>>().into()
    }

    /// Joins the medians of another of these workers with those of the workers before: the slower one's count. Two workers begin a message a
    /// latency apart, and some collectives pass it to and fro, so that one of them takes a latency more and the other less than both together.
    pub(crate) fn join(&self, workers: usize, slowest: &mut [f32], medians: &[f32]) {
        let first_message = 1 + self.backward.len();
        for (place, (slowest, median)) in slowest.iter_mut().zip(medians).enumerate() {
            let is_message = place >= first_message && self.order == MessageOrder::OneByOne;
            *slowest =
                if is_message && workers == 2 { (*slowest + median) / 2.0 } else { slowest.max(*median) };
        }
    }

    /// The plan for the slowest of the workers' medians.
    pub(crate) fn plan(&self, layout: &Layout, slowest: &[f32]) -> Plan {
        let layers = layout.layers().len();
        self.planned(layout, slowest).unwrap_or_else(|| Plan {
            grouping: self.sections.grouping(layers),
            origin: PlanOrigin::default(),
        })
    }

    /// `None` where nothing can be fitted, as for a model of one layer.
    fn planned(&self, layout: &Layout, slowest: &[f32]) -> Option<Plan> {
        let (forward, rest) = slowest.split_first()?;
        let (backward, messages) = rest.split_at_checked(self.backward.len())?;
        let bytes = |layer: &LayoutLayer| 4 * layer.span.len() as u64;
        let sizes: Vec<u64> = layout.layers().iter().rev().map(bytes).collect();
        let layers = sizes.iter().zip(backward);
        let times: Vec<LayerTime> =
            layers.map(|(bytes, time)| LayerTime { backward: f64::from(*time), bytes: *bytes }).collect();
        let profile = self.sections.divide(StepProfile::new(f64::from(*forward), &times).ok()?);
        let fits = self.fits(layout, &sizes, messages)?;
        let costs = SectionCosts::new(fits.iter().map(|fit| fit.cost))?;
        let mut grouping = match self.rule {
            Rule::Merged => merged(&profile, &costs),
            Rule::Exact => merged_exact(&profile, &costs),
        };
        let mut line = TimeLine::of(&profile, &costs, &grouping).ok()?;
        let sending: f64 = line.messages.iter().map(|message| message.end - message.begin).sum();
        if self.bound == StepBound::AllMessages && sending > line.computed {
            // One message is the shortest way to send everything.
            grouping = single(&profile);
            line = TimeLine::of(&profile, &costs, &grouping).ok()?;
        }
        let nanos = |seconds: f64| Nanos((seconds * 1e9).round() as u64);
        let sent = line.messages.iter().filter(|message| message.bytes > 0);
        let lowest = fits.last()?;
        let cost = ScheduleCost {
            start_up: lowest.cost.start_up(),
            per_byte: lowest.cost.per_byte(),
            worst: fits.iter().map(|fit| fit.worst).fold(0.0, f64::max),
            held: lowest.held.map(|held| match held {
                Held::StartUp => HeldCost::StartUp,
                Held::PerByte => HeldCost::PerByte,
            }),
            computed: nanos(line.computed),
        };
        let predicted =
            sent.map(|message| BucketTime { begin: nanos(message.begin), end: nanos(message.end) });
        let origin = PlanOrigin {
            cost: Some(cost),
            layers: times.iter().rev().map(|layer| nanos(layer.backward)).collect(),
            predicted: predicted.collect(),
        };
        Some(Plan { grouping, origin })
    }

    /// Fitted cost of the messages of each section. Where all messages of one have the same size, it is their mean
    /// time; `None` if that holds for the whole model, of which nothing can be planned. `messages` are the times of
    /// those of each layer and of each section.
    fn fits(&self, layout: &Layout, sizes: &[u64], messages: &[f32]) -> Option<Vec<SectionFit>> {
        let layers = sizes.len();
        let (alone, together) = messages.split_at_checked(layers)?;
        let mut together = together.iter();
        let divided = self.sections.layers(layers).count() > 1;
        let mut fits = Vec::new();
        for section in self.sections.layers(layers) {
            let places = layers - section.end..layers - section.start;
            let of_layers = places.clone().map(|place| (sizes[place], alone[place]));
            let whole = 4 * layout.span(section).len() as u64;
            let probe = |(bytes, seconds): (u64, f32)| Probe { bytes, seconds: f64::from(seconds) };
            let mut probes: Vec<Probe> = of_layers.filter(|(bytes, _)| *bytes > 0).map(probe).collect();
            if whole > 0 {
                probes.push(probe((whole, *together.next()?)));
            }
            fits.push(
                SectionFit::of(&probes, self.order)
                    .or_else(|| divided.then(|| SectionFit::of_one_size(&probes)))?,
            );
        }
        Some(fits)
    }

    /// Saves or loads the measurements so far.
    ///
    /// # Errors
    /// The loaded state does not fit.
    pub(crate) fn state(&mut self, state: &mut StateVisitor<'_>) -> Result<(), StateError> {
        state.list("forward", &mut self.forward)?;
        for (section, times) in self.whole.iter_mut().enumerate() {
            state.list(&format!("whole{section}"), times)?;
        }
        for (layer, times) in self.backward.iter_mut().enumerate() {
            state.list(&format!("backward{layer}"), times)?;
        }
        for (layer, times) in self.messages.iter_mut().enumerate() {
            state.list(&format!("message{layer}"), times)?;
        }
        Ok(())
    }
}

/// Fitted cost of the messages of a section.
struct SectionFit {
    cost: Linear,
    /// The largest residual as a share of its time; of messages on their way at once, of the longest one's.
    worst: f64,
    held: Option<Held>,
}

impl SectionFit {
    /// `None` where no line can be fitted. A message that comes no later than those before it has a time, but no share of it.
    fn of(probes: &[Probe], order: MessageOrder) -> Option<Self> {
        let (fit, worst) = match order {
            MessageOrder::OneByOne => (Fit::relative(probes), Fit::largest_share as fn(&Fit, &_) -> _),
            MessageOrder::AtOnce => (Fit::of(probes), Fit::largest_of_longest as _),
        };
        let fit = fit.ok()?;
        let worst = worst(&fit, probes);
        Some(Self { cost: fit.cost, worst, held: fit.held })
    }

    /// Mean time of a message, whatever its size; zero where none is sent.
    fn of_one_size(probes: &[Probe]) -> Self {
        let sum: f64 = probes.iter().map(|probe| probe.seconds).sum();
        let seconds = sum / probes.len().max(1) as f64;
        let off = |probe: &Probe| (probe.seconds - seconds).abs() / probe.seconds.max(1e-9);
        let worst = probes.iter().map(off).fold(0.0, f64::max);
        Self { cost: Linear::constant(seconds), worst, held: Some(Held::PerByte) }
    }
}

/// The middle of some times; of an even number the smaller one.
fn median(times: &[f32]) -> Option<f32> {
    let mut sorted = times.to_vec();
    sorted.sort_by(f32::total_cmp);
    sorted.get(sorted.len().saturating_sub(1) / 2).copied()
}

/// The record of buckets: their layers by name, their sizes, and when they travel as far as that is known.
pub(crate) fn describe(
    layout: &Layout,
    buckets: &Buckets,
    predicted: &[BucketTime],
    measured: &[BucketTime],
) -> Vec<ScheduledBucket> {
    let bucket = |(number, span): (usize, &std::ops::Range<usize>)| {
        let inside = |layer: &&LayoutLayer| layer.span.start < span.end && span.start < layer.span.end;
        ScheduledBucket {
            layers: layout.layers().iter().filter(inside).map(|layer| layer.name.clone()).collect(),
            elements: span.len() as u64,
            predicted: predicted.get(number).map(|time| (time.begin, time.end)),
            measured: measured.get(number).map(|time| (time.begin, time.end)),
        }
    };
    buckets.spans().iter().enumerate().map(bucket).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUND: StepBound = StepBound::OwnMessages;
    const ORDER: MessageOrder = MessageOrder::OneByOne;

    /// Measurements come in the order of the backward pass; the kept ones are in that of the forward pass.
    #[test]
    fn layers_keep_their_own_times() {
        let layout = Layout::new(
            [("first", 10), ("middle", 20), ("last", 40)].map(|(name, size)| (name.to_owned(), size)),
        );
        let millis = |times: &[u64]| times.iter().map(|time| Nanos(time * 1_000_000)).collect::<Vec<_>>();
        let sections = Sections::default();
        let mut planner = Planner::new(recipe::Schedule::Merged, &layout, &sections, BOUND, ORDER).unwrap();
        for step in 1..=8 {
            // 1 ms and 0.1 ms per element.
            let messages = if step % 2 == 0 { vec![5, 3, 2] } else { vec![8] };
            let measured = MeasuredStep {
                forward: Nanos(7_000_000),
                backward: millis(&[30, 20, 10]),
                messages: millis(&messages),
            };
            planner.add(step, &layout, &measured);
        }
        let plan = planner.plan(&layout, &planner.medians());
        // They travel as 32-bit numbers of seconds.
        let close = |one: &Nanos, other: &Nanos| one.0.abs_diff(other.0) < 10;
        let layers = &plan.origin.layers;
        assert!(
            layers.iter().zip(&millis(&[10, 20, 30])).all(|(one, other)| close(one, other)),
            "{layers:?}"
        );
        assert_eq!(layers.len(), 3);
        assert!(close(&plan.origin.cost.unwrap().computed, &Nanos(67_000_000)));
    }
}
