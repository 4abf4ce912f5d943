//! How the gradients of a worker travel: their buckets, the plan of them, and the times at which they travel.

use super::WorkerContext;
use crate::schedule::{
    BucketTime, BucketTimes, Buckets, Division, GradientLane, GradientParts, MessageOrder, Part, PlanOrigin,
    Planner, Sections, StepBound, describe,
};
use crate::vector::{Layout, Vector};
use crate::{StateError, StateVisitor};
use predict::schedule::Grouping;
use record::{HeldCost, Nanos, Rank, ScheduleCost, ScheduleRecord};
use std::ops::Range;

/// Settings of the recipe for how gradients travel.
#[derive(Clone, Debug)]
pub(crate) struct GradientRoute {
    /// How a gradient is divided.
    pub(crate) division: Division,
    /// Sections of layers; no bucket reaches across two.
    pub(crate) sections: Sections,
    /// Bytes of each layer by which all workers decide, where they hold different parts of a model.
    pub(crate) bytes: Option<Vec<u64>>,
    /// Lane on which the gradient travels.
    pub(crate) lane: GradientLane,
    /// Messages that a step waits for.
    pub(crate) bound: StepBound,
    /// Whether its messages are on their way at once.
    pub(crate) order: MessageOrder,
}

/// How the gradients of a worker travel.
pub(crate) struct Exchange {
    route: GradientRoute,
    buckets: Buckets,
    /// While a plan is to be made.
    pub(super) planner: Option<Planner>,
    /// The first step of these buckets.
    from_step: u64,
    /// Where each bucket ends, in layers from the last one, if that was decided by a plan.
    ends: Vec<usize>,
    cost: Option<ScheduleCost>,
    /// The backward pass of each layer when the plan was made.
    layers: Vec<Nanos>,
    predicted: Vec<BucketTime>,
    pub(super) times: BucketTimes,
    /// Memory for parts of gradients.
    spare: Vec<Part>,
    /// When the last forward pass began.
    pub(super) began: Nanos,
}

impl Exchange {
    /// The exchange of a run's first step.
    pub(crate) fn new(route: GradientRoute, layout: &Layout) -> Self {
        let GradientRoute { division, sections, bytes, bound, order, .. } = &route;
        let planner = match division {
            Division::Layers(schedule) => Planner::new(*schedule, layout, sections, *bound, *order),
            Division::Pieces(_) => None,
        };
        Self {
            buckets: division.buckets(layout, sections, bytes.as_deref()),
            route,
            planner,
            from_step: 1,
            ends: Vec::new(),
            cost: None,
            layers: Vec::new(),
            predicted: Vec::new(),
            times: BucketTimes::default(),
            spare: Vec::new(),
            began: Nanos(0),
        }
    }

    /// The lane that gradients travel on.
    pub(super) fn lane(&self) -> GradientLane {
        self.route.lane
    }

    /// Number of buckets of a step in which no plan is measured.
    pub(super) fn count(&self) -> usize {
        self.buckets.spans().len()
    }

    /// The same for another layout, before the first step.
    pub(super) fn again(&self, layout: &Layout) -> Self {
        Self::new(self.route.clone(), layout)
    }

    /// The buckets of a step.
    pub(super) fn buckets(&self, step: u64, layout: &Layout) -> Buckets {
        self.planner.as_ref().map_or_else(|| self.buckets.clone(), |planner| planner.buckets(step, layout))
    }

    /// Saves or loads the measurements, or the plan that was made from them.
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
        self.plan_state(layers, state)
    }

    /// Saves or loads the measurements behind the plan, on the rank that made it.
    fn plan_state(&mut self, layers: usize, state: &mut StateVisitor<'_>) -> Result<(), StateError> {
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
        self.layers.resize(layers, Nanos(0));
        for (number, time) in self.layers.iter_mut().enumerate() {
            state.number(&format!("layer{number}"), &mut time.0)?;
        }
        self.predicted.resize(self.buckets.spans().len(), BucketTime::default());
        for (number, time) in self.predicted.iter_mut().enumerate() {
            state.number(&format!("planned-begin{number}"), &mut time.begin.0)?;
            state.number(&format!("planned-end{number}"), &mut time.end.0)?;
        }
        Ok(())
    }

    /// Takes a plan for the steps from `from_step` on; the rank that made it knows what it is from.
    pub(super) fn adopt(
        &mut self,
        layout: &Layout,
        from_step: u64,
        grouping: &Grouping,
        origin: Option<PlanOrigin>,
    ) {
        self.from_step = from_step;
        if let Some(PlanOrigin { cost, layers, predicted }) = origin {
            self.cost = cost;
            self.layers = layers;
            self.predicted = predicted;
        }
        self.take(layout, grouping);
    }

    /// Gradients travel in the buckets of a plan from now on.
    fn take(&mut self, layout: &Layout, grouping: &Grouping) {
        self.planner = None;
        self.ends = grouping.ends().to_vec();
        self.buckets = Buckets::of(layout, grouping);
        self.spare.clear();
    }

    /// Memory for a gradient in buckets, with arbitrary content.
    pub(super) fn parts(&mut self, buckets: &Buckets) -> GradientParts {
        let mut part = |span: &Range<usize>| {
            let fits = self.spare.iter().position(|part| part.span() == *span);
            fits.map_or_else(
                || Part { at: span.start, values: Vector::zeros(span.len()) },
                |found| self.spare.swap_remove(found),
            )
        };
        buckets.spans().iter().map(&mut part).collect()
    }

    /// Elements of the parts that are kept for later steps.
    pub(super) fn kept_elements(&self) -> usize {
        self.spare.iter().map(|part| part.values.len()).sum()
    }

    /// Keeps the memory of a part, if a later step has the same one.
    pub(super) fn keep(&mut self, part: Part) {
        if self.planner.is_some() || self.buckets.spans().contains(&part.span()) {
            self.spare.push(part);
        }
    }
}

impl WorkerContext {
    /// The record of the schedule; `None` where gradients travel whole, and on all ranks but the first.
    pub(crate) fn schedule_record(&mut self) -> Option<ScheduleRecord> {
        let rank = self.rank();
        let exchange = &self.exchange;
        let divides = exchange.buckets.spans().len() > 1 || !exchange.ends.is_empty();
        if rank != Rank(0)
            || exchange.lane() == GradientLane::Compute
            || exchange.planner.is_some()
            || !divides
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
            layers: exchange.layers.clone(),
            buckets: describe(self.layout(), &exchange.buckets, &exchange.predicted, &measured),
        })
    }
}
