//! A gradient that travels in buckets, by the schedule of the run.

use super::{Accumulated, WorkerContext};
use crate::all_reduce::Reduced;
use crate::handoff::Pending;
use crate::schedule::{
    BucketTime, BucketTimes, Buckets, Division, GradientLane, GradientParts, MeasuredStep, Part, Planner,
    StepBound, describe,
};
use crate::vector::{Layout, Vector};
use crate::{GroupRank, Kind, StateError, StateVisitor, StepError, Tag};
use predict::schedule::Grouping;
use record::{Event, HeldCost, Nanos, Rank, ScheduleCost, ScheduleRecord};
use std::ops::Range;

/// How the gradients of a worker travel.
pub(crate) struct Exchange {
    lane: GradientLane,
    buckets: Buckets,
    /// While a plan is to be made.
    planner: Option<Planner>,
    /// The first step of these buckets.
    from_step: u64,
    /// Where each bucket ends, in layers from the last one, if that was decided by a plan.
    ends: Vec<usize>,
    cost: Option<ScheduleCost>,
    predicted: Vec<BucketTime>,
    times: BucketTimes,
    /// Memory for gradients in these buckets.
    spare: Vec<GradientParts>,
    /// When the last forward pass began.
    pub(super) began: Nanos,
}

/// A gradient in buckets on their way, or what has come back for them.
#[derive(Debug)]
pub struct Travelling {
    began: Nanos,
    buckets: Vec<Bucket>,
}

#[derive(Debug)]
enum Bucket {
    UnderWay { at: usize, pending: Pending },
    Arrived(Part),
}

impl Exchange {
    /// The exchange of a run's first step.
    pub(crate) fn new(division: Division, lane: GradientLane, bound: StepBound, layout: &Layout) -> Self {
        let planner = match division {
            Division::Layers(schedule) => Planner::new(schedule, layout.layers().len(), bound),
            Division::Pieces(_) => None,
        };
        Self {
            lane,
            buckets: division.buckets(layout),
            planner,
            from_step: 1,
            ends: Vec::new(),
            cost: None,
            predicted: Vec::new(),
            times: BucketTimes::default(),
            spare: Vec::new(),
            began: Nanos(0),
        }
    }

    /// What was measured, or what was planned from it.
    pub(super) fn state(&mut self, layout: &Layout, state: &mut StateVisitor<'_>) -> Result<(), StateError> {
        if self.planner.is_none() && self.ends.is_empty() {
            return Ok(());
        }
        let layers = layout.layers().len();
        let planned = state.count("planned", self.ends.len(), layers)?;
        if planned == 0 {
            return self.planner.as_mut().map_or(Ok(()), |planner| planner.state(state));
        }
        let mut ends = self.ends.clone();
        ends.resize(planned, 0);
        for (number, end) in ends.iter_mut().enumerate() {
            *end = state.count(&format!("end{number}"), *end, layers)?;
        }
        let grouping = Grouping::new(ends, layers)
            .map_err(|_| StateError::Missing { name: "the buckets of the schedule".into() })?;
        state.number("from-step", &mut self.from_step)?;
        if grouping.ends() != self.ends {
            self.take(layout, &grouping);
        }
        self.plan_state(state)
    }

    /// What the plan is from, on the rank that made it.
    fn plan_state(&mut self, state: &mut StateVisitor<'_>) -> Result<(), StateError> {
        if state.count("costs", usize::from(self.cost.is_some()), 1)? == 0 {
            return Ok(());
        }
        let none = ScheduleCost { start_up: 0.0, per_byte: 0.0, worst: 0.0, held: None, computed: Nanos(0) };
        let cost = self.cost.get_or_insert(none);
        state.double("start-up", &mut cost.start_up)?;
        state.double("per-byte", &mut cost.per_byte)?;
        state.double("worst", &mut cost.worst)?;
        let held = cost.held.map_or(0, |held| held as usize + 1);
        cost.held = match state.count("held", held, 2)? {
            0 => None,
            1 => Some(HeldCost::StartUp),
            _ => Some(HeldCost::PerByte),
        };
        state.number("computed", &mut cost.computed.0)?;
        self.predicted.resize(self.buckets.spans().len(), BucketTime::default());
        for (number, time) in self.predicted.iter_mut().enumerate() {
            state.number(&format!("planned-begin{number}"), &mut time.begin.0)?;
            state.number(&format!("planned-end{number}"), &mut time.end.0)?;
        }
        Ok(())
    }

    /// Gradients travel in the buckets of a plan from now on.
    fn take(&mut self, layout: &Layout, grouping: &Grouping) {
        self.planner = None;
        self.ends = grouping.ends().to_vec();
        self.buckets = Buckets::of(layout, grouping);
        self.spare.clear();
    }

    fn parts(&mut self, buckets: &Buckets) -> GradientParts {
        let fits = self.spare.iter().position(|parts| parts.fits(buckets));
        fits.map_or_else(|| GradientParts::of(buckets), |found| self.spare.swap_remove(found))
    }
}

impl WorkerContext {
    /// The backward pass. Each bucket of the gradient leaves as soon as it is finished; where the schedule has one bucket and
    /// there is no communication lane, the whole has arrived when this returns.
    ///
    /// # Errors
    /// The learner or the communication fails.
    pub fn backward_sending(&mut self) -> Result<Travelling, StepError> {
        let began = self.exchange.began;
        if self.exchange.lane == GradientLane::Compute {
            let mut g = self.spare();
            while self.backward_into(&mut g)?.is_some() {}
            let part = Part { at: 0, values: self.all_reduce_mean(g)? };
            return Ok(Travelling { began, buckets: vec![Bucket::Arrived(part)] });
        }
        if self.exchange.planner.is_some() {
            return self.measured_backward(began);
        }
        let buckets = self.exchange.buckets.clone();
        let mut waiting = self.exchange.parts(&buckets).into_iter().peekable();
        let mut sent = Vec::with_capacity(buckets.spans().len());
        let mut open: Vec<Part> = Vec::new();
        while let Some(layer) = self.next_layer() {
            let span = self.layout().layers()[layer].span.clone();
            while let Some(part) = waiting.next_if(|part| part.span().end > span.start) {
                open.push(part);
            }
            self.backward_into_parts(layer, &mut open)?;
            let finished = open.iter().take_while(|part| part.at >= span.start).count();
            for part in open.drain(..finished) {
                sent.push(self.send_bucket(part)?);
            }
        }
        self.end_accumulation();
        Ok(Travelling { began, buckets: sent })
    }

    /// Waits for all buckets: the mean gradient over the samples of all workers; with servers, the new weights.
    ///
    /// # Errors
    /// The communication fails.
    pub fn arrived(&mut self, travelling: Travelling) -> Result<GradientParts, StepError> {
        let Travelling { began, buckets } = travelling;
        let (mut parts, mut times) = (Vec::with_capacity(buckets.len()), Vec::with_capacity(buckets.len()));
        for bucket in buckets {
            match bucket {
                Bucket::Arrived(part) => parts.push(part),
                Bucket::UnderWay { at, pending } => {
                    let Reduced { x, began: begin, ended } = self.wait_timed(pending)?;
                    times.push(BucketTime { begin: begin.since(began), end: ended.since(began) });
                    parts.push(Part { at, values: x });
                }
            }
        }
        if !times.is_empty() {
            self.exchange.times.add(times.into_iter());
        }
        Ok(parts.into_iter().collect())
    }

    /// Keeps the memory of a gradient in parts for the next step, if a step can use it again.
    pub fn recycle_parts(&mut self, parts: GradientParts) {
        if self.exchange.lane == GradientLane::Compute {
            parts.into_iter().for_each(|part| self.recycle(part.values));
        } else if self.exchange.planner.is_some() || parts.fits(&self.exchange.buckets) {
            self.exchange.spare.push(parts);
        }
    }

    /// What is recorded of the schedule; `None` where gradients travel whole, and on all ranks but the first.
    pub(crate) fn schedule_record(&mut self) -> Option<ScheduleRecord> {
        let rank = self.rank();
        let exchange = &self.exchange;
        let divides = exchange.buckets.spans().len() > 1 || !exchange.ends.is_empty();
        if rank != Rank(0) || exchange.lane == GradientLane::Compute || exchange.planner.is_some() || !divides
        {
            return None;
        }
        let measured: Vec<BucketTime> = exchange.times.means().collect();
        Some(ScheduleRecord {
            rank,
            at: self.service.lane.clock.now(),
            from_step: exchange.from_step,
            steps: exchange.times.steps(),
            cost: exchange.cost,
            buckets: describe(self.layout(), &exchange.buckets, &exchange.predicted, &measured),
        })
    }

    /// The next layer of the backward pass, from the last to the first.
    fn next_layer(&mut self) -> Option<usize> {
        self.next_backward = self.next_backward.checked_sub(1)?;
        Some(self.next_backward)
    }

    /// The backward pass through a layer, into the parts that it lies in.
    fn backward_into_parts(&mut self, layer: usize, parts: &mut [Part]) -> Result<(), StepError> {
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

    fn send_bucket(&mut self, part: Part) -> Result<Bucket, StepError> {
        let Part { at, values } = part;
        let pending = self.start_all_reduce_mean_of_part(at, values)?;
        Ok(Bucket::UnderWay { at, pending })
    }

    /// The backward pass of a step that a plan is measured in: nothing overlaps.
    fn measured_backward(&mut self, began: Nanos) -> Result<Travelling, StepError> {
        let Some(mut planner) = self.exchange.planner.take() else {
            return Ok(Travelling { began, buckets: Vec::new() });
        };
        let buckets = Planner::buckets(self.t, self.layout());
        let mut parts: Vec<Part> = self.exchange.parts(&buckets).into_iter().collect();
        let mut moment = self.now();
        let mut measured =
            MeasuredStep { forward: moment.since(began), backward: Vec::new(), messages: Vec::new() };
        while let Some(layer) = self.next_layer() {
            self.backward_into_parts(layer, &mut parts)?;
            let finished = self.now();
            measured.backward.push(finished.since(moment));
            moment = finished;
        }
        self.end_accumulation();
        self.meet()?;
        let mut sent = Vec::with_capacity(parts.len());
        for Part { at, values } in parts {
            sent.push((at, self.start_all_reduce_mean_of_part(at, values)?));
        }
        let mut arrived = Vec::with_capacity(sent.len());
        for (at, pending) in sent {
            let Reduced { x, began, ended } = self.wait_timed(pending)?;
            measured.messages.push(ended.since(began));
            arrived.push(Bucket::Arrived(Part { at, values: x }));
        }
        planner.add(self.t, self.learner.layout(), &measured);
        if planner.is_due(self.t) {
            self.agree_on_plan(&planner)?;
        } else {
            self.exchange.planner = Some(planner);
        }
        Ok(Travelling { began, buckets: arrived })
    }

    fn now(&self) -> Nanos {
        self.service.lane.clock.now()
    }

    /// Waits until all workers are here.
    fn meet(&mut self) -> Result<(), StepError> {
        let tag = self.tag(Kind::Reduce);
        let Self { service, all_reduce, trainers, .. } = self;
        all_reduce.mean(&mut Vector::zeros(1), tag, service.lane.wire(trainers).exact())
    }

    /// Rank 0 plans from the measurements of all workers, and all take its plan.
    fn agree_on_plan(&mut self, planner: &Planner) -> Result<(), StepError> {
        let tag = Tag::new(Kind::Broadcast, self.t);
        let group = self.trainers.clone();
        let first = GroupRank(0);
        let mut slowest = planner.medians();
        // Whether a bucket ends after a layer, the last one first.
        let mut ends = Vector::zeros(self.layout().layers().len());
        if group.me() == first {
            let mut medians = slowest.clone();
            for worker in group.others() {
                self.wire_over(&group).exact().recv_into(worker, tag, &mut medians)?;
                for (slowest, median) in slowest.iter_mut().zip(medians.iter()) {
                    *slowest = slowest.max(*median);
                }
            }
            let plan = planner.plan(self.learner.layout(), &slowest);
            plan.grouping.ends().iter().for_each(|end| ends[end - 1] = 1.0);
            (self.exchange.cost, self.exchange.predicted) = (plan.cost, plan.predicted);
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
        self.exchange.from_step = self.t + 1;
        self.exchange.take(self.learner.layout(), &grouping);
        if let Some(record) = self.schedule_record() {
            self.service.record(Event::Schedule(record));
        }
        Ok(())
    }
}
