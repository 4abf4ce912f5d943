//! One rank, from its briefing to its last message.

use crate::checkpoint;
use crate::clock::{LaneClock, RunClock};
use crate::control_listener::ControlListener;
use crate::data::DataSet;
use crate::emulation::{self, Emulation};
use crate::model::TrainedModel;
use crate::recorder::{Recorder, Shipping};
use crate::runtime::WorkerRuntime;
use crate::start_barrier::StartBarrier;
use crate::stop::Stop;
use crate::strikes::Strikes;
use mesh::{Briefing, ControlClient, DataPlane, Member, MeshError, ToDriver};
use recipe::{ComputeSplit, ModelShare, Role};
use record::{Event, LaneId, Nanos, Overhead, Phase, PhaseClock, Prepared, Rank, RankEnd, RankEnded, Trace};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use strategies::emulation::Parts;
use strategies::{
    Batch, Blueprint, LaneBody, Learner, Optimizer, Registry, SamplePartition, StepError, TrainingPlan,
    Vector, matrices,
};

/// Time in which the driver's request to stop may arrive after a peer has left.
const DOUBT: Duration = Duration::from_millis(400);

/// The failure of a lane.
struct LaneFailure {
    lane: LaneId,
    step: u64,
    phase: Phase,
    error: StepError,
    /// The peer that this rank blames.
    peer: Option<Rank>,
}

impl LaneFailure {
    /// A failure before there were lanes.
    fn early(phase: Phase, reason: impl ToString) -> Self {
        let error = StepError::Environment(reason.to_string());
        Self { lane: LaneId::Compute, step: 0, phase, error, peer: None }
    }

    /// Peers that did not connect.
    fn alone(error: &MeshError) -> Self {
        let peer = match error {
            MeshError::Late { peers, .. } => peers.iter().find_map(|peer| match peer {
                Member::Rank(rank) => Some(*rank),
                Member::Evaluator => None,
            }),
            MeshError::Broke { peer: Member::Rank(rank), .. } => Some(*rank),
            _ => None,
        };
        Self { peer, ..Self::early(Phase::WaitPeer, error) }
    }
}

/// Runs a rank and reports its end to the driver. An error means that the driver could not be reached.
pub fn run(briefing: &Briefing, rank: Rank, registry: &Registry) -> anyhow::Result<()> {
    let (client, inbox) = ControlClient::connect(briefing)?;
    let stop = Arc::new(Stop::default());
    let (recorder, shipping) = Recorder::start(
        stop.clone(),
        client.clone(),
        briefing.directory.clone(),
        briefing.deadlines.heartbeat,
        briefing.deadlines.start_up.min(briefing.deadlines.peer / 2),
    )?;
    let clock = RunClock::new();
    let barrier = StartBarrier::new(stop.clone(), briefing.deadlines.start_up);
    let listener = ControlListener::open(inbox, clock.clone(), barrier.clone(), stop.clone())?;
    let mut process = Process { briefing, registry, rank, client, recorder, shipping, clock, barrier, stop };
    let end = process.live();
    process.leave(end)?;
    listener.close();
    Ok(())
}

/// The model of a worker, and the shares of its parts in the time of a step.
type Model = (Box<dyn Learner>, Parts);

struct Process<'a> {
    briefing: &'a Briefing,
    registry: &'a Registry,
    rank: Rank,
    client: ControlClient,
    recorder: Arc<Recorder>,
    shipping: Shipping,
    clock: Arc<RunClock>,
    barrier: Arc<StartBarrier>,
    stop: Arc<Stop>,
}

impl Process<'_> {
    /// Everything between the first and the last message. A panic here is reported like any other failure.
    fn live(&mut self) -> RankEnd {
        let life = AssertUnwindSafe(|| self.prepare().and_then(|ready| self.train(ready)));
        let lived = catch_unwind(life).unwrap_or_else(|cause| {
            Err(LaneFailure::early(Phase::Other, StepError::Panicked(strategies::panic_text(cause.as_ref()))))
        });
        let (lane, step, phase) = self.shipping.whereabouts();
        match (lived, self.stop.failure()) {
            (_, Some(reason)) => {
                self.failed(LaneFailure { lane, step, phase, ..LaneFailure::early(phase, reason) })
            }
            (Ok(()), None) => RankEnd::Finished,
            (Err(LaneFailure { error: StepError::Diverged { step, loss }, .. }), None) => {
                RankEnd::Diverged { step, loss: loss.to_string() }
            }
            (Err(broken), None) if self.told_to_stop(&broken.error) => RankEnd::Stopped { step },
            (Err(broken), None) => self.failed(broken),
        }
    }

    /// Whether an error only means that the run is being stopped: then peers leave in any order, and that is no failure. The
    /// driver's request may arrive a little later than a peer leaves.
    fn told_to_stop(&self, error: &StepError) -> bool {
        let begun = Instant::now();
        while matches!(error, StepError::Gone { .. }) && !self.stop.told() && begun.elapsed() < DOUBT {
            std::thread::sleep(Duration::from_millis(5));
        }
        self.stop.told()
    }

    fn failed(&self, broken: LaneFailure) -> RankEnd {
        let LaneFailure { lane, step, phase, error, peer } = broken;
        tracing::error!(rank = self.rank.0, %lane, step, %phase, %error, "lane failed");
        RankEnd::Failed { lane, step, phase, peer: peer.or(error.peer()), reason: error.to_string() }
    }

    /// Loads the data set and the model, opens the connections, and builds the lanes.
    fn prepare(&mut self) -> Result<Ready, LaneFailure> {
        let Briefing { spec, seed, .. } = self.briefing;
        let data = DataSet::load(&spec.dataset).map_err(|error| LaneFailure::early(Phase::Data, error))?;
        let data = Arc::new(data);
        let workers = spec.cluster.workers() as usize;
        tracing::info!(rank = self.rank.0, samples = data.training_ids().len(), "data set loaded");
        let labels = data.training_classes();
        let partition = SamplePartition::new(&spec.dataset, *seed, data.training_ids(), &labels, workers);
        let plan = Arc::new(TrainingPlan::new(spec, partition));
        let (learner, parts) = self.learner(&data, &plan)?.unzip();
        let blueprint =
            Blueprint::new(spec, plan, spec.model.parameter_count()).with_registry(self.registry.clone());
        let (blueprint, continued) = self.resumed(blueprint)?;
        let emulation = Emulation::new(
            self.briefing,
            self.rank,
            parts.unwrap_or_default(),
            self.clock.clone(),
            self.stop.clone(),
        );
        let emulation = Arc::new(emulation);
        let clock = self.clock.clone();
        let arrivals = emulation.arrivals();
        let plane = DataPlane::open_watched(self.briefing, self.rank, clock, arrivals)
            .map_err(|error| LaneFailure::alone(&error))?;
        plane.write_packets_into_shared_memory();
        let plane = Arc::new(plane);
        let runtime = WorkerRuntime::new(
            self.clock.clone(),
            plane.clone(),
            self.recorder.clone(),
            self.barrier.clone(),
            emulation.clone(),
        );
        let unbuilt = |error| LaneFailure { error, ..LaneFailure::early(Phase::Other, "") };
        let replica_group = blueprint.replica_group(self.rank).map_err(unbuilt)?;
        let bodies = blueprint.lanes(self.rank, learner, &runtime).map_err(unbuilt)?;
        self.recorder.expect_lanes(bodies.len());
        let patience = self.briefing.deadlines.shut_down;
        let links = plane.link_dropper();
        let strikes = Strikes::new(&spec.faults, self.rank.0, self.client.clone(), links, patience)
            .continued_after(continued);
        self.recorder.expect_strikes(strikes);
        Ok(Ready { data, plane, bodies, clocks: runtime.lane_clocks(), emulation, replica_group })
    }

    /// The blueprint with this rank's part of the checkpoint that the run is continued from, and the last step before that; 0 at the start.
    fn resumed(&self, blueprint: Blueprint) -> Result<(Blueprint, u64), LaneFailure> {
        let Some(folder) = &self.briefing.resume else { return Ok((blueprint, 0)) };
        let file = folder.join(format!("rank-{}.state", self.rank));
        let lanes = checkpoint::read(&file).map_err(|error| LaneFailure::early(Phase::Other, error))?;
        // A lane beside it may count several steps for one.
        let own = lanes.iter().find(|lane| lane.lane == LaneId::Compute).or(lanes.first());
        let last = own.and_then(|lane| lane.state.steps()).unwrap_or(0);
        Ok((blueprint.resuming(lanes), last))
    }

    fn learner(&self, data: &Arc<DataSet>, plan: &TrainingPlan) -> Result<Option<Model>, LaneFailure> {
        let Briefing { spec, seed, .. } = self.briefing;
        let placement = spec.cluster.placements.get(self.rank.index());
        if placement.is_none_or(|placement| placement.role != Role::Worker) {
            return Ok(None);
        }
        let gpu = spec.cluster.gpu(self.rank.index());
        let mut learner = crate::model::open(&spec.model, data.clone(), *seed, gpu)
            .map_err(|error| LaneFailure::early(Phase::Data, error))?;
        let first = plan.sampler.batch(1, self.rank.index());
        warm_up(learner.as_mut(), &first).map_err(|error| LaneFailure::early(Phase::Forward, error))?;
        let parts = match spec.emulation.compute.map(|compute| compute.split) {
            Some(ComputeSplit::Measured) => {
                let update = spec
                    .strategy
                    .workers_update()
                    .then(|| Optimizer::new(plan.optimizer(), matrices::matrices(&spec.model)));
                emulation::measure(learner.as_mut(), &first, update)
                    .map_err(|error| LaneFailure::early(Phase::Forward, error))?
            }
            Some(ComputeSplit::Given { .. }) | None => {
                Parts::by_arithmetic(&spec.model, learner.layout().layers().len())
            }
        };
        Ok(Some((learner, parts)))
    }

    /// The run itself, on a thread per lane.
    fn train(&mut self, ready: Ready) -> Result<(), LaneFailure> {
        let Ready { data, plane, bodies, clocks, emulation, replica_group } = ready;
        if let (Some(body), Some(clock)) = (bodies.first(), clocks.first()) {
            self.shipping.watch((body.lane, clock.clone()));
        }
        let lanes = self.spawn(bodies, &clocks, &plane)?;
        if let Some(weights) = self.barrier.all_arrived() {
            if self.briefing.spec.strategy.kind().profile().share == ModelShare::Part {
                // A rank that holds a part of the model has started with all of it; one that holds all of it is compared with it.
                mesh::release_freed_memory();
            }
            self.recorder_event(Event::Prepared(Prepared { replica_group, ..self.prepared(&data, weights) }));
        }
        let mut first: Option<LaneFailure> = None;
        let mut wall = Nanos(0);
        for lane in lanes {
            match lane
                .join()
                .unwrap_or_else(|_| Err(LaneFailure::early(Phase::Other, "lane thread panicked")))
            {
                Ok(length) => wall = wall.max(length),
                // The first lane to fail stops the others, whose errors then say only that.
                Err(broken) => {
                    if first.as_ref().is_none_or(|first| first.error == StepError::Stopped) {
                        first = Some(broken);
                    }
                }
            }
        }
        self.shipping.settle_snapshots(&self.recorder);
        // Of a run that continues they would be those of its last part.
        let whole = self.briefing.resume.is_none();
        let links = plane.links().into_iter().map(Event::Link).filter(|_| whole);
        for event in links.chain(emulation.records().into_iter().map(Event::Emulation)) {
            self.recorder_event(event);
        }
        let recording = self.client.cpu_time() + self.recorder.shipping_time() + switching(&clocks);
        self.recorder_event(Event::Overhead(Overhead {
            rank: self.rank,
            recording,
            wall,
            resident_bytes: resident_bytes(),
        }));
        close(plane, self.briefing.deadlines.shut_down);
        first.map_or(Ok(()), Err)
    }

    fn spawn(
        &self,
        bodies: Vec<LaneBody>,
        clocks: &[Arc<LaneClock>],
        plane: &Arc<DataPlane>,
    ) -> Result<Vec<JoinHandle<Result<Nanos, LaneFailure>>>, LaneFailure> {
        let mut threads = Vec::with_capacity(bodies.len());
        for (body, clock) in bodies.into_iter().zip(clocks.iter().cloned()) {
            let lane = body.lane;
            let stop = self.stop.clone();
            let plane = plane.clone();
            let barrier = self.barrier.clone();
            let run = move || {
                let result = (body.run)();
                let wall = barrier.since_opened();
                result.map(|()| wall).map_err(|error| {
                    let (step, phase) = clock.whereabouts();
                    stop.order();
                    plane.stop();
                    LaneFailure { lane, step, phase, error, peer: None }
                })
            };
            let thread = std::thread::Builder::new().name(lane.to_string()).spawn(run);
            threads.push(thread.map_err(|error| LaneFailure::early(Phase::Other, error))?);
        }
        Ok(threads)
    }

    fn prepared(&self, data: &DataSet, weights: String) -> Prepared {
        Prepared {
            rank: self.rank,
            pid: std::process::id(),
            threads: self.briefing.threads,
            training_samples: data.training_ids().len() as u64,
            data_digest: data.digest().to_owned(),
            weights,
            parameters: self.parameter_count() as u64,
            resident_bytes: resident_bytes(),
            replica_group: None,
        }
    }

    /// Number of weights that this rank holds.
    fn parameter_count(&self) -> usize {
        let partition = self.briefing.spec.model_partition();
        match partition.parts() {
            1 => self.briefing.spec.model.parameter_count(),
            parts => partition.parameter_count(self.rank.index() % parts),
        }
    }

    fn recorder_event(&self, event: Event) {
        use strategies::Observer;
        self.recorder.event(event);
    }

    /// Sends the last messages and waits for their acknowledgement.
    fn leave(self, end: RankEnd) -> anyhow::Result<()> {
        self.recorder_event(Event::Ended(RankEnded { rank: self.rank, end }));
        self.shipping.close();
        self.client.send(ToDriver::Goodbye);
        self.client.close(self.briefing.deadlines.shut_down)?;
        Ok(())
    }
}

/// One pass over a batch whose result is discarded: the first calls of a tensor library (threads, kernels made to measure)
/// belong to the start-up, not to the first step. A learner keeps no weights, so that nothing remains of the pass.
fn warm_up(learner: &mut dyn TrainedModel, batch: &Batch) -> Result<(), StepError> {
    let weights = learner.initial();
    let spans: Vec<_> = learner.layout().layers().iter().map(|layer| layer.span.clone()).collect();
    learner.load(batch)?;
    learner.upload_batch()?;
    for layer in 0..spans.len() {
        learner.upload_layer(&weights, layer)?;
        learner.forward(&weights, layer)?;
    }
    learner.loss(batch)?;
    let mut gradient = Vector::zeros(weights.len());
    for (layer, span) in spans.into_iter().enumerate().rev() {
        learner.backward(&weights, layer, &mut gradient[span.clone()])?;
        learner.download_gradient(layer, &mut gradient[span])?;
    }
    Ok(())
}

/// The parts of a prepared rank.
struct Ready {
    data: Arc<DataSet>,
    plane: Arc<DataPlane>,
    bodies: Vec<LaneBody>,
    clocks: Vec<Arc<LaneClock>>,
    emulation: Arc<Emulation>,
    replica_group: Option<u32>,
}

/// Leaves the data plane in order, if no lane holds it any more.
fn close(plane: Arc<DataPlane>, deadline: Duration) {
    match Arc::try_unwrap(plane) {
        Ok(plane) => {
            if let Err(error) = plane.close(deadline) {
                tracing::warn!(%error, "data plane closed early");
            }
        }
        Err(plane) => plane.stop(),
    }
}

/// The cost of the phase switches of these lanes: their number times the cost of one on this machine.
fn switching(clocks: &[Arc<LaneClock>]) -> Nanos {
    const BATCHES: u64 = 10;
    const TRIALS: u64 = 200;
    let mut scratch = PhaseClock::new(LaneClock::new(RunClock::new()), Trace::NONE);
    let batches = (0..BATCHES).map(|_| {
        let begun = Instant::now();
        for _ in 0..TRIALS {
            scratch.switch(Phase::Other);
        }
        begun.elapsed().as_nanos() as u64
    });
    // Other work of the machine is in some of the batches; the fastest is the cost of a switch alone.
    let batch = batches.min().unwrap_or(0);
    Nanos(clocks.iter().map(|clock| clock.switches()).sum::<u64>() * batch / TRIALS)
}

/// Resident memory of this process in bytes; 0 if the system does not report it.
fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = statm.split_whitespace().nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0);
    pages * rustix::param::page_size() as u64
}
