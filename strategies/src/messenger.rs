//! The communication lane: runs all-reduces while the compute lane computes.

use crate::collective::Collective;
use crate::desk::Desk;
use crate::host::Shared;
use crate::strategy::{Service, Turn};
use crate::vector::Vector;
use crate::{Group, Lane, StepError, Tag, Wire};
use record::{LaneId, Phase, Work};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// What the compute lane has asked for, and what came of it.
#[derive(Default)]
pub struct Jobs {
    waiting: VecDeque<Job>,
    done: BTreeMap<u64, Vector>,
    pushed: u64,
    closed: bool,
}

struct Job {
    number: u64,
    x: Vector,
    at: usize,
    group: Group,
    tag: Tag,
}

/// An all-reduce under way.
#[derive(Debug)]
#[must_use = "a gradient that nobody waits for is lost"]
pub struct Pending {
    number: u64,
}

impl Jobs {
    /// Asks for the mean of `x`, which lies from position `at` on in the vector it is part of, over a group.
    pub(crate) fn push(jobs: &Shared<Self>, (at, x): (usize, Vector), group: Group, tag: Tag) -> Pending {
        jobs.change(|jobs| {
            jobs.pushed += 1;
            jobs.waiting.push_back(Job { number: jobs.pushed, x, at, group, tag });
            Pending { number: jobs.pushed }
        })
    }

    /// Says that nothing more will be asked for.
    pub(crate) fn close(jobs: &Shared<Self>) {
        jobs.change(|jobs| jobs.closed = true);
    }
}

impl Pending {
    pub(crate) fn take(self, jobs: &Shared<Jobs>, lane: &mut Lane) -> Result<Vector, StepError> {
        jobs.wait(lane, |jobs| jobs.done.remove(&self.number))
    }
}

/// Runs jobs in the order in which they were asked for, so that all ranks agree on it.
pub struct Messenger {
    jobs: Shared<Jobs>,
    collective: Arc<dyn Collective>,
}

impl Messenger {
    /// The lane that serves `jobs`.
    pub fn new(jobs: Shared<Jobs>, collective: Arc<dyn Collective>) -> Self {
        Self { jobs, collective }
    }
}

impl Service for Messenger {
    fn lane(&self) -> LaneId {
        LaneId::Communication
    }

    fn turn(&mut self, desk: &mut Desk) -> Result<Turn, StepError> {
        let job = self.jobs.wait(&mut desk.lane, |jobs| match jobs.waiting.pop_front() {
            Some(job) => Some(Some(job)),
            None => jobs.closed.then_some(None),
        })?;
        let Some(mut job) = job else { return Ok(Turn::Finished) };
        let wire = desk.lane.wire(&job.group).of_part(job.at);
        mean(self.collective.as_ref(), &mut job.x, job.tag, wire)?;
        let samples = desk.seat.course.samples_after(job.tag.step);
        self.jobs.change(|jobs| jobs.done.insert(job.number, job.x));
        Ok(Turn::Served(samples))
    }
}

/// Replaces `x` by its mean over the places of a group: a plain sum, scaled once, here and nowhere else.
pub(crate) fn mean(
    collective: &dyn Collective,
    x: &mut Vector,
    tag: Tag,
    mut wire: Wire<'_>,
) -> Result<(), StepError> {
    match wire.take_projector() {
        None => {
            agree(collective, x, tag, &mut wire)?;
            collective.all_reduce_sum(x, tag, &mut wire)?;
        }
        Some(mut projector) => {
            let reduced = projector.all_reduce_sum(x, tag, collective, &mut wire);
            wire.give_projector(projector);
            reduced?;
        }
    }
    let places = wire.group().size();
    scale(x, places, wire.lane());
    Ok(())
}

/// Where a code has one range for a whole gradient, its places agree on it: all get the same bits of the sum of what each
/// of them reaches.
fn agree(collective: &dyn Collective, x: &[f32], tag: Tag, wire: &mut Wire<'_>) -> Result<(), StepError> {
    let Some(reach) = wire.reach(tag, x) else { return Ok(()) };
    let mut reach = [reach];
    // The calls of a step count from one: another sum of the same call is far away from them.
    let apart = Tag { call: tag.call | 1 << 31, ..tag };
    collective.all_reduce_sum(&mut reach, apart, &mut wire.reaching())?;
    wire.agree(reach[0]);
    Ok(())
}

/// Turns a sum over so many places into a mean.
pub(crate) fn scale(x: &mut Vector, places: usize, lane: &mut Lane) {
    let share = 1.0 / places as f32;
    lane.clock.timed(Phase::Reduce, Work::Reduce(x.len()), || x.scale(share));
}
