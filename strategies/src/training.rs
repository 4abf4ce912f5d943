//! The loops that drive strategies and services, and write the books: the whole training loop of every
//! strategy is here.

use crate::desk::{Desk, Seat};
use crate::host::{Gate, Observer};
use crate::node::Node;
use crate::strategy::{CENTRE, Evaluated, Progress, Service, Strategy, Turn};
use crate::{Coding, Lane, Loss, StepError, Traffic};
use record::{
    CodingRecord, Event, LaneId, Phase, Rank, SamplesRecord, SnapshotRecord, SpanRecord, StepRecord,
    StepTiming, Work,
};
use std::sync::Arc;

/// What a loop reports to.
pub(crate) struct Books {
    pub(crate) gate: Arc<dyn Gate>,
    pub(crate) observer: Arc<dyn Observer>,
    pub(crate) lane: LaneId,
    /// What this lane's model is put aside for, if for anything but its digest.
    pub(crate) evaluated: Option<Evaluated>,
    pub(crate) hash_every_step: bool,
    /// Whether the samples of each step are told.
    pub(crate) samples: bool,
}

/// What a model is put aside for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Look {
    /// Its digest only.
    Hash,
    /// To be judged.
    Evaluate,
    /// To be judged; the run ends with it.
    Last,
}

/// A step, as the books see it.
struct Entry {
    samples: u64,
    own_samples: u32,
    loss: Option<Loss>,
    rate: Option<f32>,
    drain: bool,
}

/// The compute lane.
pub(crate) fn train(mut node: Node, mut strategy: Box<dyn Strategy>, books: Books) -> Result<(), StepError> {
    strategy.start(&mut node)?;
    books.gate.pass(Some(node.params()))?;
    let course = node.seat().course.clone();
    node.lane().restart();
    books.look(&mut node, strategy.as_ref(), (0, 0), Look::Evaluate);
    let (mut steps, mut consumed) = (0, 0);
    for t in 1.. {
        if books.observer.stopping() {
            return Err(StepError::Stopped);
        }
        node.begin(t, consumed);
        let loss = strategy.step(&mut node)?;
        if !loss.0.is_finite() {
            return Err(StepError::Diverged { step: t, loss: loss.0 });
        }
        let Progress { samples, over } = strategy.progress(&node);
        let due = strategy.snapshots_at_marks() && course.evaluation_due(consumed, samples);
        if let Some(look) = books.look_due(due).filter(|_| !over) {
            books.look(&mut node, strategy.as_ref(), (t, samples), look);
        }
        books.tell_samples(&node, t);
        let own_samples = node.batch().examples.len() as u32;
        let entry = Entry { samples, own_samples, loss: Some(loss), rate: Some(node.rate()), drain: false };
        books.enter(node.seat().clone(), node.lane(), t + 1, entry);
        (steps, consumed) = (t, samples);
        if over {
            break;
        }
    }
    node.end(consumed);
    strategy.finish(&mut node)?;
    // A worker at its own pace may learn only now how much the others have consumed.
    consumed = consumed.max(strategy.progress(&node).samples);
    node.close_jobs();
    books.look(&mut node, strategy.as_ref(), (steps, consumed), Look::Last);
    let rate = Some(node.rate());
    let entry = Entry { samples: consumed, own_samples: 0, loss: None, rate, drain: true };
    books.enter(node.seat().clone(), node.lane(), steps + 2, entry);
    books.close(node.rank(), node.lane());
    Ok(())
}

/// Any other lane.
pub(crate) fn serve(mut desk: Desk, mut service: Box<dyn Service>, books: Books) -> Result<(), StepError> {
    let initial = service.start(&mut desk)?;
    books.gate.pass(initial.as_ref())?;
    drop(initial);
    desk.lane.restart();
    let course = desk.seat.course.clone();
    let mut samples = 0;
    books.look_at_service(&mut desk, service.as_ref(), (0, samples), Look::Evaluate);
    for turn in 1.. {
        let Turn::Served(now) = service.turn(&mut desk)? else {
            books.look_at_service(&mut desk, service.as_ref(), (turn - 1, samples), Look::Last);
            let entry = Entry { samples, own_samples: 0, loss: None, rate: None, drain: true };
            books.enter(desk.seat.clone(), &mut desk.lane, turn + 1, entry);
            books.close(desk.seat.rank, &desk.lane);
            return Ok(());
        };
        let look = books.look_due(course.evaluation_due(samples, now));
        if let Some(look) = look.filter(|_| now < course.budget()) {
            books.look_at_service(&mut desk, service.as_ref(), (turn, now), look);
        }
        samples = now;
        let entry = Entry { samples, own_samples: 0, loss: None, rate: None, drain: false };
        books.enter(desk.seat.clone(), &mut desk.lane, turn + 1, entry);
    }
    Ok(())
}

/// A lane of the measurement: what it spends time on is in no books, only the models that it snapshots.
pub(crate) fn attend(mut desk: Desk, mut service: Box<dyn Service>, books: Books) -> Result<(), StepError> {
    service.start(&mut desk)?;
    books.gate.pass(None)?;
    desk.lane.restart();
    for turn in 1.. {
        let Turn::Served(samples) = service.turn(&mut desk)? else { break };
        books.snapshot_at_mark(&mut desk, service.as_ref(), (turn, samples));
    }
    Ok(())
}

impl Books {
    /// Snapshots a trainer's model at a mark, on a lane beside the one that answers for the rank.
    fn snapshot_at_mark(&self, desk: &mut Desk, service: &dyn Service, when: (u64, u64)) {
        let Some(model) = service.model() else { return };
        let at = service.moment().unwrap_or(desk.lane.clock.now());
        let record = snapshot_record(&desk.seat, when, at, Look::Evaluate, self.evaluated.as_ref());
        self.observer.snapshot(SnapshotRecord { answers: false, ..record }, model.as_ref());
    }

    fn look_due(&self, evaluation_due: bool) -> Option<Look> {
        if evaluation_due { Some(Look::Evaluate) } else { self.hash_every_step.then_some(Look::Hash) }
    }

    /// Tells which samples a step used, where that is asked for.
    fn tell_samples(&self, node: &Node, step: u64) {
        if self.samples {
            let samples = node.batch().examples.clone();
            self.observer.event(Event::Samples(SamplesRecord { rank: node.rank(), step, samples }));
        }
    }

    /// Ends a step, and writes down where its time went.
    fn enter(&self, seat: Seat, lane: &mut Lane, next: u64, entry: Entry) {
        let Traffic { bytes_out, bytes_in, .. } = std::mem::take(&mut lane.traffic);
        let StepTiming { step, begin, end, phases, hidden, spans } = lane.clock.next_step(next);
        for span in spans {
            self.observer.event(Event::Span(SpanRecord {
                rank: seat.rank,
                lane: self.lane,
                step,
                phase: span.phase,
                begin: span.begin,
                length: span.length,
                peer: span.peer,
                bytes: span.bytes,
            }));
        }
        self.observer.event(Event::Step(StepRecord {
            rank: seat.rank,
            lane: self.lane,
            step,
            samples: entry.samples,
            begin,
            length: end - begin,
            phases,
            bytes_out,
            bytes_in,
            loss: entry.loss.map(|loss| loss.0),
            own_samples: entry.own_samples,
            rate: entry.rate,
            drain: entry.drain,
            hidden,
        }));
    }

    /// Writes down what coding came to.
    fn close(&self, rank: Rank, lane: &Lane) {
        if let Some(Coding { bytes, raw_bytes, squared, squared_error }) = lane.coding() {
            let lane = self.lane;
            let record = CodingRecord { rank, lane, bytes, raw_bytes, squared, squared_error };
            self.observer.event(Event::Coding(record));
        }
    }

    /// Puts a trainer's model aside.
    fn look(&self, node: &mut Node, strategy: &dyn Strategy, when: (u64, u64), look: Look) {
        let seat = node.seat().clone();
        let clock = &mut node.lane().clock;
        let (before, at) = (clock.switch(Phase::Snapshot), clock.now());
        let mut size = 0;
        if let Some(centre) = strategy.centre() {
            let judged = Evaluated::judged(CENTRE);
            self.observer.snapshot(snapshot_record(&seat, when, at, look, Some(&judged)), centre);
            size += centre.len();
        }
        let answers = strategy.centre().is_none();
        if answers || look != Look::Hash {
            let model = strategy.model(node);
            let record = snapshot_record(&seat, when, at, look, self.evaluated.as_ref());
            self.observer.snapshot(SnapshotRecord { answers, ..record }, &model);
            size += model.len();
        }
        node.lane().clock.timed(Phase::Snapshot, Work::Snapshot(size), || ());
        node.lane().clock.switch(before);
    }

    /// Puts a service's model aside, if it holds one.
    fn look_at_service(&self, desk: &mut Desk, service: &dyn Service, when: (u64, u64), look: Look) {
        let Some(model) = service.model() else { return };
        let seat = desk.seat.clone();
        let before = desk.lane.clock.switch(Phase::Snapshot);
        let record = snapshot_record(&seat, when, desk.lane.clock.now(), look, self.evaluated.as_ref());
        self.observer.snapshot(record, model.as_ref());
        desk.lane.clock.timed(Phase::Snapshot, Work::Snapshot(model.len()), || ());
        desk.lane.clock.switch(before);
    }
}

/// A model that is put aside when the lane took so many steps, and all ranks so many samples.
fn snapshot_record(
    seat: &Seat,
    (step, samples): (u64, u64),
    at: record::Nanos,
    look: Look,
    evaluated: Option<&Evaluated>,
) -> SnapshotRecord {
    let evaluated = evaluated.filter(|_| look != Look::Hash);
    let mark = if look == Look::Last { seat.course.evaluations() + 1 } else { seat.course.mark(samples) };
    SnapshotRecord {
        rank: seat.rank,
        model: evaluated.map(|evaluated| evaluated.name.clone()).unwrap_or_default(),
        step,
        samples,
        at,
        file: String::new(),
        last: look == Look::Last,
        mark,
        standing: evaluated.map(|evaluated| evaluated.standing).unwrap_or_default(),
        company: evaluated.and_then(|evaluated| evaluated.company),
        sha256: String::new(),
        answers: true,
    }
}
