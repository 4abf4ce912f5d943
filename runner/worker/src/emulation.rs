//! The emulation of a real rank: its network card, and the pace of its lanes.

use crate::clock::{LaneClock, RunClock};
use crate::model::TrainedModel;
use crate::stop::Stop;
use mesh::{Briefing, DataPlane, PreciseTimer};
use record::{Clock, Emulated, EmulationRecord, Nanos, Rank};
use rustix::time::{ClockId, clock_gettime};
use std::sync::{Arc, Mutex, PoisonError};
use strategies::emulation::{
    Arrivals, ClockReport, ComputeModel, EmulatedClock, EmulatedNic, Fabric, Lateness, Link, Parts, Slowness,
};
use strategies::{Batch, Optimizer, StepError, Transport, Vector};

/// The emulation of a rank; most ranks emulate nothing.
pub(crate) struct Emulation {
    rank: Rank,
    timer: Arc<PreciseTimer>,
    card: Option<Arc<EmulatedNic>>,
    pace: Arc<ComputeModel>,
    clocks: Mutex<Vec<Arc<EmulatedClock>>>,
}

impl Emulation {
    /// The emulation that the briefing asks for. `parts` are the shares of a step's computing.
    pub(crate) fn new(
        briefing: &Briefing,
        rank: Rank,
        parts: Parts,
        clock: Arc<RunClock>,
        stop: Arc<Stop>,
    ) -> Self {
        let Briefing { spec, seed, .. } = briefing;
        let ranks = spec.cluster.ranks() as usize;
        let workers = spec.cluster.workers();
        let timer = PreciseTimer::new(clock, move || stop.ordered());
        let card = spec.emulation.network.map(|network| {
            let divisor = |rank| Slowness::of(&spec.emulation, *seed, workers, rank).link();
            EmulatedNic::new(rank, Fabric::new(Link::of(&network), ranks, divisor), timer.clone())
        });
        let pace = Arc::new(ComputeModel::of(spec, *seed, rank, parts, spec.model.parameter_count()));
        Self { rank, timer, card, pace, clocks: Mutex::default() }
    }

    /// Observes the arrival of every message, if a card is emulated.
    pub(crate) fn arrivals(&self) -> Option<Arc<dyn Arrivals>> {
        self.card.clone().map(|card| card as Arc<dyn Arrivals>)
    }

    /// The transport of a lane.
    pub(crate) fn transport(&self, plane: &DataPlane) -> Box<dyn Transport> {
        match &self.card {
            Some(card) => card.transport(plane.carrier()),
            None => plane.transport(),
        }
    }

    /// The clock of a lane.
    pub(crate) fn clock(&self, lane: Arc<LaneClock>) -> Arc<dyn Clock> {
        if !self.pace.changes_anything() {
            return lane;
        }
        let paced = EmulatedClock::new(lane, self.timer.clone(), self.pace.clone());
        self.clocks.lock().unwrap_or_else(PoisonError::into_inner).push(paced.clone());
        paced
    }

    /// How exactly the emulation was kept.
    pub(crate) fn records(&self) -> Vec<EmulationRecord> {
        let network = self.card.iter().map(|card| {
            let paced = ClockReport { lateness: card.lateness(), ..ClockReport::default() };
            self.record(Emulated::Network, &paced)
        });
        let mut all = ClockReport::default();
        let clocks = self.clocks.lock().unwrap_or_else(PoisonError::into_inner);
        for paced in clocks.iter().map(|clock| clock.report()) {
            all.lateness.join(&paced.lateness);
            all.steps += paced.steps;
            all.overruns += paced.overruns;
            all.longest = all.longest.max(paced.longest);
        }
        let compute = (!clocks.is_empty()).then(|| self.record(Emulated::Compute, &all));
        network.chain(compute).filter(|record| record.count > 0).collect()
    }

    fn record(&self, what: Emulated, paced: &ClockReport) -> EmulationRecord {
        let ClockReport { lateness, steps, overruns, longest } = paced;
        let at = |share| Lateness::quantile(lateness, share);
        EmulationRecord {
            rank: self.rank,
            what,
            count: lateness.count(),
            p50: at(0.5),
            p95: at(0.95),
            max: lateness.most(),
            steps: *steps,
            overruns: *overruns,
            longest: *longest,
        }
    }
}

/// The processor time that each part of one batch takes: other processes that compute at the same time do not show
/// in it. The update counts where a worker does it.
pub(crate) fn measure(
    learner: &mut dyn TrainedModel,
    batch: &Batch,
    update: Option<Optimizer>,
) -> Result<Parts, StepError> {
    let mut weights = learner.initial();
    let mut gradient = Vector::zeros(weights.len());
    let spans: Vec<_> = learner.layout().layers().iter().map(|layer| layer.span.clone()).collect();
    let mut parts = Parts::default();
    learner.load(batch)?;
    for layer in 0..spans.len() {
        parts.forward.push(timed(|| learner.forward(&weights, layer))?);
    }
    parts.loss = timed(|| learner.loss(batch).map(drop))?;
    for (layer, span) in spans.into_iter().enumerate().rev() {
        parts.backward.push(timed(|| learner.backward(&weights, layer, &mut gradient[span]))?);
    }
    parts.backward.reverse();
    if let Some(mut optimizer) = update {
        parts.update = timed(|| {
            optimizer.apply_gradient(&mut weights, &mut gradient, 0.0);
            Ok(())
        })?;
    }
    Ok(parts)
}

fn timed(work: impl FnOnce() -> Result<(), StepError>) -> Result<f64, StepError> {
    let begun = thread_time();
    work()?;
    // Work that is too short to be measured still has a share.
    Ok((thread_time() - begun).0.max(1) as f64)
}

fn thread_time() -> Nanos {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}
