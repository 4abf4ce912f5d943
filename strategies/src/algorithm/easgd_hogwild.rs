//! Hogwild EASGD: elastic averaging without locks.
//!
//! Source: You, Buluc and Demmel, "Scaling Deep Learning on GPU and Knights Landing Clusters", SC 2017, section 5.1,
//! "Hogwild EASGD"; workers are those of Async EASGD.
//!
//! | paper | here |
//! |---|---|
//! | the center weight | `centre`, shared by all lanes |
//! | W^i | `x` |
//! | eta rho | `Elastic::at`: the moving rate a |
//!
//! Sent per step: every `period` steps, the weights up and the centre down, before and while the worker computes, with
//! notes of how far each is. The master serves all workers at once: "multiple workers at a time" (introduction).
//!
//! Departures: those of Async EASGD. Each element is exchanged by one compare-and-swap: the worker gets the value that
//! its own pull replaced, so that no pull is lost and, uncoded, both move by the same amount, whoever comes between.
//! The centre that a worker gets may be of no single moment. Staleness counts the exchanges that others began since
//! the worker's last.

use crate::StepError;
use crate::algorithm::hogwild_sgd::{GRAIN, LockFree};
use crate::desk::Desk;
use crate::server::{Elastic, Floor, Grant, Visit, Visitor, drawn};
use crate::strategy::{Service, Turn};
use crate::vector::Vector;
use record::{LaneId, Phase, Work};

/// The master's lane for one worker.
pub struct Master {
    floor: Floor<LockFree>,
    centre: LockFree,
    visitor: Visitor,
    elastic: Elastic,
    x: Vector,
}

impl Master {
    /// The lane for `visitor` of a master whose weights, so many, also lie on its floor.
    pub fn new(
        floor: Floor<LockFree>,
        centre: LockFree,
        visitor: Visitor,
        elastic: Elastic,
        parameters: usize,
    ) -> Self {
        Self { floor, centre, visitor, elastic, x: Vector::zeros(parameters) }
    }

    fn serve(&mut self, desk: &mut Desk) -> Result<Turn, StepError> {
        let Self { floor, centre, visitor, elastic, x } = self;
        let i = visitor.worker();
        let done = match visitor.receive(desk, floor, x)? {
            Visit::Weights { done } => done,
            Visit::Farewell { done } => {
                floor.write(|ledger| ledger.count(i, done));
                return Ok(Turn::Finished);
            }
        };
        let (applied, steps) =
            floor.write(|ledger| (ledger.apply_block(i, done), ledger.grant(i, elastic.period)));
        visitor.record(desk, applied);
        let a = elastic.at(&desk.seat.course, applied.samples);
        for (grain, x) in x.chunks_mut(GRAIN).enumerate() {
            desk.lane.clock.timed(Phase::Update, Work::Update(x.len()), || {
                centre.replace(grain * GRAIN, x, |c, x| drawn(c, x, a)); // Equation 2, of one worker
            });
        }
        let sent = visitor.encode(desk, x);
        visitor.answer(desk, floor, Grant { samples: applied.samples, steps }, sent)?;
        Ok(Turn::Served(applied.samples))
    }
}

impl Service for Master {
    fn lane(&self) -> LaneId {
        LaneId::Client(self.visitor.worker() as u16)
    }

    fn turn(&mut self, desk: &mut Desk) -> Result<Turn, StepError> {
        let turn = self.serve(desk);
        self.visitor.settle(turn, desk, &self.floor)
    }
}
