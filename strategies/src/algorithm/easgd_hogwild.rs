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
//! its own pull replaced, so that no pull is lost and, uncoded, both move by the same amount, in any order of lanes.
//! The centre that a worker gets may be of no single moment. Staleness counts the exchanges that others began since
//! the worker's last.

use crate::algorithm::hogwild_sgd::{GRAIN, LockFree};
use crate::server::{Arrival, Elastic, ElasticClient, Grant, ServerState, pulled_centre};
use crate::{Service, ServiceContext, ServiceStep, StepError, Vector};
use record::{LaneId, Phase, Work};

/// The master's lane for one worker.
pub struct Master {
    state: ServerState<LockFree>,
    centre: LockFree,
    client: ElasticClient,
    elastic: Elastic,
    x: Vector,
}

impl Master {
    /// The lane for `client` of a master with `parameter_count` weights, which its state shares.
    pub fn new(
        state: ServerState<LockFree>,
        centre: LockFree,
        client: ElasticClient,
        elastic: Elastic,
        parameter_count: usize,
    ) -> Self {
        Self { state, centre, client, elastic, x: Vector::zeros(parameter_count) }
    }

    fn serve(&mut self, ctx: &mut ServiceContext) -> Result<ServiceStep, StepError> {
        let Self { state, centre, client, elastic, x } = self;
        let i = client.worker();
        let done = match client.receive(ctx, state, x)? {
            Arrival::Weights { done } => done,
            Arrival::Left { done } => {
                state.write(|clocks| clocks.count(i, done));
                return Ok(ServiceStep::Finished);
            }
        };
        let (applied, steps) =
            state.write(|clocks| (clocks.apply_block(i, done), clocks.grant(i, elastic.period)));
        client.record(ctx, applied);
        let a = elastic.at(&ctx.info.plan, applied.samples);
        for (grain, x) in x.chunks_mut(GRAIN).enumerate() {
            ctx.lane.clock.timed(Phase::Update, Work::Update(x.len()), || {
                centre.replace(grain * GRAIN, x, |c, x| pulled_centre(c, x, a)); // Equation 2, of one worker
            });
        }
        let sent = client.encode(ctx, x);
        client.answer(ctx, state, Grant { samples: applied.samples, steps }, sent)?;
        Ok(ServiceStep::Served(applied.samples))
    }
}

impl Service for Master {
    fn lane(&self) -> LaneId {
        LaneId::Client(self.client.worker() as u16)
    }

    fn step(&mut self, ctx: &mut ServiceContext) -> Result<ServiceStep, StepError> {
        let step = self.serve(ctx);
        self.client.client().settle(step, ctx, &self.state)
    }
}
