//! The runtime of lanes in a simulated world.

use super::cost::Costs;
use super::kernel::{Actor, Kernel, Source, Wait};
use super::outcome::RankLog;
use crate::emulation::ComputeModel;
use crate::{
    Bell, Checkpoint, Envelope, Gate, Kind, Observer, Packet, Runtime, Senders, StepError, Tag, Transport,
    Vector,
};
use recipe::PlannedFault;
use record::{Clock, Event, Nanos, Phase, Rank, SnapshotRecord, StruckRecord, WeightHash, Work};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

pub(super) struct SimRuntime {
    pub(super) kernel: Arc<Kernel>,
    pub(super) costs: Costs,
    /// Factors on the cost of a rank's work.
    pub(super) slow: BTreeMap<Rank, f64>,
    /// Stated times of work in place of its costs, by rank.
    pub(super) paces: BTreeMap<Rank, ComputeModel>,
    pub(super) jitter: f64,
    pub(super) faults: Vec<PlannedFault>,
    pub(super) logs: Vec<Arc<Mutex<RankLog>>>,
}

impl Runtime for SimRuntime {
    fn clock(&self, rank: Rank) -> Arc<dyn Clock> {
        Arc::new(SimClock {
            kernel: self.kernel.clone(),
            costs: self.costs.clone(),
            slow: self.slow.get(&rank).copied().unwrap_or(1.0),
            pace: self.paces.get(&rank).cloned(),
            step: AtomicU64::new(0),
            jitter: self.jitter,
        })
    }

    fn transport(&self, rank: Rank) -> Box<dyn Transport> {
        Box::new(SimTransport { kernel: self.kernel.clone(), rank })
    }

    fn bell(&self, name: String) -> Arc<dyn Bell> {
        Arc::new(SimBell {
            kernel: self.kernel.clone(),
            name: name.into(),
            count: AtomicU64::new(0),
            waiting: Mutex::default(),
        })
    }

    fn gate(&self, _: Rank, _: usize) -> Arc<dyn Gate> {
        Arc::new(SimGate(self.kernel.clone()))
    }

    fn observer(&self, rank: Rank) -> Arc<dyn Observer> {
        let of_rank = |fault: &&PlannedFault| fault.rank == rank.0;
        let faults = self.faults.iter().filter(of_rank).copied().collect();
        Arc::new(SimObserver {
            kernel: self.kernel.clone(),
            rank,
            faults,
            log: self.logs[rank.index()].clone(),
        })
    }
}

struct SimClock {
    kernel: Arc<Kernel>,
    costs: Costs,
    slow: f64,
    pace: Option<ComputeModel>,
    step: AtomicU64,
    jitter: f64,
}

impl Clock for SimClock {
    fn now(&self) -> Nanos {
        let state = self.kernel.lock();
        state.now - state.origin
    }

    fn spend(&self, work: Work) {
        let step = self.step.load(Ordering::Relaxed);
        let cost = self.costs.of(work);
        let cost = self.pace.as_ref().and_then(|pace| pace.length(step, work, cost)).unwrap_or(cost);
        let cost = cost.0 as f64 * self.slow;
        self.kernel.spend(|luck| Nanos((cost * (1.0 + self.jitter * luck)) as u64));
    }

    fn entered(&self, step: u64, phase: Phase) {
        self.step.store(step, Ordering::Relaxed);
        let mut state = self.kernel.lock();
        let me = state.current;
        state.actors[me].place = (step, phase);
    }
}

struct SimBell {
    kernel: Arc<Kernel>,
    name: Arc<str>,
    count: AtomicU64,
    waiting: Mutex<Vec<Actor>>,
}

impl Bell for SimBell {
    fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    fn looked(&self) {
        self.kernel.lock().looks();
    }

    fn ring(&self) {
        self.count.fetch_add(1, Ordering::Relaxed);
        let mut state = self.kernel.lock();
        state.looks();
        state.acts();
        let now = state.now;
        for actor in self.waiting.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            // A lane of a rank that fails is woken, and may be over, without the bell.
            if matches!(state.actors[actor].wait, Wait::Bell(_)) {
                state.actors[actor].wait = Wait::Time;
                state.push(now, super::kernel::Event::Wake(actor));
            }
        }
    }

    fn wait(&self, seen: u64) -> Result<(), StepError> {
        if self.count() > seen {
            return Ok(());
        }
        let state = self.kernel.lock();
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).push(state.current);
        self.kernel.suspend(state, Wait::Bell(self.name.clone()))
    }
}

struct SimTransport {
    kernel: Arc<Kernel>,
    rank: Rank,
}

impl SimTransport {
    fn receive(&self, from: Source<'_>, kind: Kind, tag: Option<Tag>) -> Result<Envelope, StepError> {
        let mut envelope = self.kernel.receive(self.rank, from, kind, tag)?;
        envelope.began = envelope.began - self.kernel.lock().origin;
        Ok(envelope)
    }
}

impl Transport for SimTransport {
    fn send(&mut self, to: Rank, tag: Tag, packet: Packet) -> Result<(), StepError> {
        self.kernel.send(to, Envelope { from: self.rank, tag, packet, began: Nanos(0) })
    }

    fn has_room(&self, to: Rank, bytes: usize) -> bool {
        self.kernel.has_room(self.rank, to, bytes)
    }

    fn recv(&mut self, from: Rank, tag: Tag) -> Result<Envelope, StepError> {
        let envelope = self.receive(Source::One(from), tag.kind, Some(tag))?;
        if envelope.tag == tag {
            return Ok(envelope);
        }
        Err(StepError::Unexpected { rank: self.rank, peer: from, wanted: tag, got: envelope.tag })
    }

    fn recv_any(&mut self, kind: Kind, senders: Senders<'_>) -> Result<Envelope, StepError> {
        self.receive(Source::Any(senders), kind, None)
    }
}

struct SimGate(Arc<Kernel>);

impl Gate for SimGate {
    fn pass(&self, _: Option<&Vector>) -> Result<(), StepError> {
        self.0.pass_gate()
    }
}

struct SimObserver {
    kernel: Arc<Kernel>,
    rank: Rank,
    faults: Vec<PlannedFault>,
    log: Arc<Mutex<RankLog>>,
}

impl Observer for SimObserver {
    fn event(&self, event: Event) {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).events.push(event);
    }

    fn snapshot(&self, record: SnapshotRecord, weights: &Vector) {
        let record = SnapshotRecord { sha256: weights.sha256(), ..record };
        let hash = WeightHash { rank: record.rank, step: record.step, sha256: record.sha256.clone() };
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        if record.digested {
            log.weights.insert(record.step, weights.clone());
            log.events.push(Event::WeightHash(hash));
        } else {
            log.beside.insert(record.step, weights.clone());
        }
        if !record.model.is_empty() {
            self.kernel.writes(self.rank, &format!("the snapshot of step {}", record.step));
            log.events.push(Event::Snapshot(record));
        }
    }

    fn checkpoint(&self, checkpoint: Checkpoint) {
        self.kernel.writes(self.rank, &format!("checkpoint {}", checkpoint.number));
        self.log.lock().unwrap_or_else(PoisonError::into_inner).checkpoints.push(checkpoint);
    }

    fn stopping(&self) -> bool {
        self.kernel.lock().health.ending(self.rank).is_some()
    }

    fn step_begins(&self, step: u64, at: Nanos) -> Result<(), StepError> {
        for fault in self.faults.iter().copied().filter(|fault| fault.step == step) {
            let struck = Event::Struck(StruckRecord { fault, at });
            let same = |event: &Event| matches!(event, Event::Struck(other) if other.fault == fault);
            // The first lane of a server that comes to this step is the one.
            let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
            if !log.events.iter().any(same) {
                log.events.push(struck);
                drop(log);
                self.kernel.strike(self.rank, fault.action)?;
            }
        }
        Ok(())
    }
}
