//! A gradient that travels in buckets, by the schedule of the run.

use super::{Accumulated, WorkerContext};
use crate::all_reduce::{ReduceJob, Reduced};
use crate::handoff::Pending;
use crate::schedule::{BucketTime, Buckets, GradientLane, GradientParts, MeasuredStep, Part, Planner};
use crate::vector::Vector;
use crate::{Group, GroupRank, Kind, StepError, Tag};
use predict::schedule::Grouping;
use record::{Event, Nanos, Phase};
use std::ops::Range;

/// The workers that average a part of a gradient.
#[derive(Clone, Debug)]
pub struct Averaging {
    /// They, each of which counts once.
    pub group: Group,
    /// The factor of this worker's own part, by which its samples count.
    pub weight: f32,
}

/// A gradient in buckets on their way, or what has come back for them.
#[derive(Debug)]
pub struct Travelling {
    began: Nanos,
    buckets: Vec<Bucket>,
    /// In a step that a plan is measured in.
    measured: Option<Measured>,
}

/// Unit that ends when the part at the beginning of a gradient has arrived: parts leave from its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ends {
    /// One of several gradients of a step.
    Round,
    /// All that a step sends.
    Step,
}

#[derive(Debug)]
enum Bucket {
    /// It leaves when all others are finished.
    Held {
        part: Part,
        averaging: Averaging,
    },
    UnderWay {
        at: usize,
        pending: Pending,
    },
    Arrived(Part),
}

/// The measurements of a step before its messages leave.
#[derive(Debug)]
struct Measured {
    step: MeasuredStep,
    /// When the last layer was finished.
    moment: Nanos,
}

impl WorkerContext {
    /// The backward pass. Each bucket of the gradient leaves as soon as it is finished; where the schedule has one bucket and
    /// there is no communication lane, the whole has arrived when this returns.
    ///
    /// # Errors
    /// The learner or the communication fails.
    pub fn backward_sending(&mut self) -> Result<Travelling, StepError> {
        if self.exchange.lane() == GradientLane::Compute {
            let began = self.exchange.began;
            let mut g = self.spare();
            while self.backward_into(&mut g)?.is_some() {}
            let part = Part { at: 0, values: self.all_reduce_mean(g)? };
            return Ok(Travelling { began, buckets: vec![Bucket::Arrived(part)], measured: None });
        }
        let everyone = self.over_all_samples();
        let layers = 0..std::mem::take(&mut self.next_backward);
        let mut travelling = self.begin_sending(0);
        self.backward_sending_layers(layers, Some(&everyone), &mut travelling)?;
        self.all_sent(travelling)
    }

    /// All workers, each weighed by its samples of the step.
    pub fn over_all_samples(&self) -> Averaging {
        let weight = self.service.info.plan.sampler.weight(self.t, self.trainers.me().0);
        Averaging { group: self.trainers.clone(), weight }
    }

    /// This worker alone: what it sends comes back as it is, and on the communication lane in its turn, which says that a step is over.
    pub fn alone(&self) -> Option<Averaging> {
        let group = Group::new(&[self.rank()].into(), self.rank())?;
        Some(Averaging { group, weight: 1.0 })
    }

    /// A gradient of which nothing has left; the backward pass is through the last `finished` layers.
    pub fn begin_sending(&self, finished: usize) -> Travelling {
        let began = self.exchange.began;
        let moment = self.now();
        let step = || MeasuredStep {
            forward: moment.since(began),
            backward: vec![Nanos(0); finished],
            messages: Vec::new(),
        };
        let measured = self.exchange.planner.as_ref().map(|_| Measured { step: step(), moment });
        Travelling { began, buckets: Vec::new(), measured }
    }

    /// Memory for the buckets of some layers, which begin and end where buckets do; its content is arbitrary.
    pub fn parts_of(&mut self, layers: Range<usize>) -> GradientParts {
        let layout = self.learner.layout();
        let buckets = self.exchange.buckets(self.t, layout).within(&layout.span(layers));
        if self.exchange.lane() == GradientLane::Compute && buckets == Buckets::whole(self.weights.len()) {
            return GradientParts::whole(self.spare());
        }
        self.exchange.parts(&buckets)
    }

    /// The backward pass through some layers, from the last to the first. Each bucket leaves as soon as it is finished.
    ///
    /// # Errors
    /// As of [`WorkerContext::send_part`]; the learner fails.
    pub fn backward_sending_layers(
        &mut self,
        layers: Range<usize>,
        averaging: Option<&Averaging>,
        travelling: &mut Travelling,
    ) -> Result<(), StepError> {
        let mut waiting = self.parts_of(layers.clone()).into_iter().peekable();
        let mut open: Vec<Part> = Vec::new();
        for layer in layers.rev() {
            let span = self.layout().layers()[layer].span.clone();
            while let Some(part) = waiting.next_if(|part| part.span().end > span.start) {
                open.push(part);
            }
            self.backward_into_parts(layer, &mut open)?;
            if let Some(measured) = &mut travelling.measured {
                let finished = self.service.lane.clock.now();
                measured.step.backward.push(finished.since(measured.moment));
                measured.moment = finished;
            }
            let finished = open.iter().take_while(|part| part.at >= span.start).count();
            for part in open.drain(..finished) {
                self.send_part(part, averaging, travelling)?;
            }
        }
        self.end_accumulation();
        Ok(())
    }

    /// Sends a finished bucket to those who average it; without them, this worker's own is the mean. In a step that a plan is
    /// measured in, it waits for the end of the backward pass. All workers must make the same calls in the same order, also those of other groups.
    ///
    /// # Errors
    /// The all-reduce of the bucket fails, where it takes place on the compute lane.
    pub fn send_part(
        &mut self,
        part: Part,
        averaging: Option<&Averaging>,
        travelling: &mut Travelling,
    ) -> Result<(), StepError> {
        let bucket = match averaging {
            None => Bucket::Arrived(part),
            Some(averaging) if travelling.measured.is_some() => {
                Bucket::Held { part, averaging: averaging.clone() }
            }
            Some(averaging) => self.send_bucket(part, averaging, Ends::Step)?,
        };
        travelling.buckets.push(bucket);
        Ok(())
    }

    /// Ends the backward pass of a gradient of which all buckets were sent.
    ///
    /// # Errors
    /// In a step that a plan is measured in, the communication fails.
    pub fn all_sent(&mut self, travelling: Travelling) -> Result<Travelling, StepError> {
        let Travelling { began, buckets, measured } = travelling;
        let Some(Measured { step, .. }) = measured else {
            return Ok(Travelling { began, buckets, measured: None });
        };
        let buckets = self.measured_messages(buckets, step)?;
        Ok(Travelling { began, buckets, measured: None })
    }

    /// Waits for all buckets: the mean gradient over the samples of all workers; with servers, the new weights.
    ///
    /// # Errors
    /// The communication of a bucket fails.
    pub fn arrived(&mut self, travelling: Travelling) -> Result<GradientParts, StepError> {
        let Travelling { began, buckets, .. } = travelling;
        let mut parts = Vec::with_capacity(buckets.len());
        let mut times = Vec::with_capacity(buckets.len());
        for bucket in buckets {
            let (part, time) = self.wait_bucket(bucket)?;
            parts.push(part);
            times.extend(
                time.map(|[begin, end]| BucketTime { begin: begin.since(began), end: end.since(began) }),
            );
        }
        // In steps that a plan is measured in, buckets are not those of the plan.
        if !times.is_empty() && times.len() == self.exchange.count() {
            self.exchange.times.add(times.into_iter());
        }
        Ok(parts.into_iter().collect())
    }

    /// Sends parts of a gradient and waits for their means, at once and in no measurement.
    ///
    /// # Errors
    /// The communication of a part fails.
    pub fn average_parts(
        &mut self,
        parts: impl IntoIterator<Item = (Part, Averaging)>,
    ) -> Result<GradientParts, StepError> {
        let mut sent = Vec::new();
        for (part, averaging) in parts {
            sent.push(self.send_bucket(part, &averaging, Ends::Round)?);
        }
        sent.into_iter().map(|bucket| Ok(self.wait_bucket(bucket)?.0)).collect()
    }

    /// Keeps the memory of a gradient in parts for the next step, if a step can use it again.
    pub fn recycle_parts(&mut self, parts: GradientParts) {
        for part in parts {
            if self.exchange.lane() == GradientLane::Compute && part.values.len() == self.weights.len() {
                self.recycle(part.values);
            } else {
                self.exchange.keep(part);
            }
        }
    }

    /// The backward pass through a layer, into the parts that it lies in.
    ///
    /// # Errors
    /// The learner's backward pass fails.
    pub fn backward_into_parts(&mut self, layer: usize, parts: &mut [Part]) -> Result<(), StepError> {
        let span = self.layout().layers()[layer].span.clone();
        if let Some(gradient) = parts.iter_mut().find_map(|part| part.layer(&span)) {
            self.backward_layer(layer, gradient)?;
            self.join_accumulated(&span, gradient);
            return Ok(());
        }
        let mut gradient = Vector::zeros(span.len());
        self.backward_layer(layer, &mut gradient)?;
        self.join_accumulated(&span, &mut gradient);
        for part in parts {
            part.copy_from(&span, &gradient);
        }
        Ok(())
    }

    /// Adds the gradients of the micro-batches before the last one.
    fn join_accumulated(&mut self, span: &Range<usize>, gradient: &mut [f32]) {
        if let Some(Accumulated { sum, last }) = self.accumulated.take() {
            self.join(&sum[span.clone()], last, gradient);
            self.accumulated = Some(Accumulated { sum, last });
        }
    }

    fn end_accumulation(&mut self) {
        if let Some(Accumulated { sum, .. }) = self.accumulated.take() {
            self.recycle(sum);
        }
    }

    fn send_bucket(&mut self, part: Part, averaging: &Averaging, ends: Ends) -> Result<Bucket, StepError> {
        let Part { at, values } = part;
        let x = self.scaled(values, averaging.weight);
        if self.exchange.lane() == GradientLane::Compute {
            let part = self.all_reduce_mean_of_part(&averaging.group, Part { at, values: x })?;
            return Ok(Bucket::Arrived(part));
        }
        let pending = self.start_all_reduce(Part { at, values: x }, averaging.group.clone(), ends);
        Ok(Bucket::UnderWay { at, pending })
    }

    /// Starts an all-reduce of a part of a gradient on the communication lane.
    pub(super) fn start_all_reduce(&mut self, part: Part, group: Group, ends: Ends) -> Pending {
        let Part { at, values: x } = part;
        let steps = if at == 0 && ends == Ends::Step { self.t } else { self.t - 1 };
        let job = ReduceJob { x, at, group, tag: self.tag(Kind::Overlap), steps };
        // Where lanes share a processor, the woken lane may take it at once: that time belongs to sending.
        let before = self.service.lane.clock.switch(Phase::Send);
        let pending = self.comm.send(job);
        self.service.lane.clock.switch(before);
        pending
    }

    /// A part that has arrived, and when it began and ended to travel on the communication lane.
    fn wait_bucket(&mut self, bucket: Bucket) -> Result<(Part, Option<[Nanos; 2]>), StepError> {
        match bucket {
            Bucket::Arrived(part) | Bucket::Held { part, .. } => Ok((part, None)),
            Bucket::UnderWay { at, pending } => {
                let Reduced { x, began, ended } = self.comm.receive(pending, &mut self.service.lane)?;
                Ok((Part { at, values: x }, Some([began, ended])))
            }
        }
    }

    /// Sends the buckets of a step that a plan is measured in, when the backward pass is over.
    fn measured_messages(
        &mut self,
        held: Vec<Bucket>,
        mut measured: MeasuredStep,
    ) -> Result<Vec<Bucket>, StepError> {
        self.meet()?;
        let mut sent = Vec::with_capacity(held.len());
        for bucket in held {
            sent.push(match bucket {
                Bucket::Held { part, averaging } => self.send_bucket(part, &averaging, Ends::Step)?,
                other @ (Bucket::UnderWay { .. } | Bucket::Arrived(_)) => other,
            });
        }
        let mut arrived = Vec::with_capacity(sent.len());
        for bucket in sent {
            let (part, time) = self.wait_bucket(bucket)?;
            measured.messages.extend(time.map(|[began, ended]| ended.since(began)));
            arrived.push(Bucket::Arrived(part));
        }
        let Some(mut planner) = self.exchange.planner.take() else { return Ok(arrived) };
        planner.add(self.t, self.learner.layout(), &measured);
        if planner.is_due(self.t) {
            self.agree_on_plan(&planner)?;
        } else {
            self.exchange.planner = Some(planner);
        }
        Ok(arrived)
    }

    fn now(&self) -> Nanos {
        self.service.lane.clock.now()
    }

    /// Rank 0 plans from the measurements of all workers, and all take its plan.
    fn agree_on_plan(&mut self, planner: &Planner) -> Result<(), StepError> {
        let tag = Tag::new(Kind::Broadcast, self.t);
        let group = self.trainers.clone();
        let first = GroupRank(0);
        let mut slowest = planner.medians();
        // Whether a bucket ends after a layer, the last one first.
        let mut ends = Vector::zeros(self.layout().layers().len());
        let mut origin = None;
        if group.me() == first {
            let mut medians = slowest.clone();
            for worker in group.others() {
                self.wire_over(&group).exact().recv_into(worker, tag, &mut medians)?;
                planner.join(group.size(), &mut slowest, &medians);
            }
            let plan = planner.plan(self.learner.layout(), &slowest);
            plan.grouping.ends().iter().for_each(|end| ends[end - 1] = 1.0);
            origin = Some(plan.origin);
            for worker in group.others() {
                self.wire_over(&group).exact().send(worker, tag, 0, &ends)?;
            }
        } else {
            self.wire_over(&group).exact().send(first, tag, 0, &slowest)?;
            self.wire_over(&group).exact().recv_into(first, tag, &mut ends)?;
        }
        let layers = ends.len();
        let closes = ends.iter().enumerate().filter(|(_, ends)| **ends != 0.0).map(|(layer, _)| layer + 1);
        let grouping = Grouping::new(closes.collect(), layers).map_err(|_| StepError::Message {
            rank: self.rank(),
            bytes: 4 * layers,
            expected: "a plan of which layers travel together",
        })?;
        self.exchange.adopt(self.learner.layout(), self.t + 1, &grouping, origin);
        if let Some(record) = self.schedule_record() {
            self.service.record(Event::Schedule(record));
        }
        Ok(())
    }
}
