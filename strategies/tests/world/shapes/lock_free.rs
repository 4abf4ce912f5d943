//! A server with one lane per client and a centre that they change without a lock.

use super::{run, trains};
use crate::scene::Scene;
use recipe::{Extent, Strategy as Kinds};
use record::{LaneId, Nanos, Phase, Rank, Work};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use strategies::sim::Costs;
use strategies::toy::Quadratic;
use strategies::*;

/// A centre in shared memory, pulled and pushed element by element without a lock; one service per client.
struct LockFree {
    client: GroupRank,
    centre: Arc<[AtomicU32]>,
    pull: f32,
    turn: u64,
}

impl Service for LockFree {
    fn lane(&self) -> LaneId {
        LaneId::Client(self.client.0 as u16)
    }

    fn step(&mut self, ctx: &mut ServiceContext) -> Result<ServiceStep, StepError> {
        self.turn += 1;
        let tag = Tag::new(Kind::Push, self.turn);
        let packet = ctx.wire().recv_packet(self.client, tag)?;
        if packet.0.is_empty() {
            return Ok(ServiceStep::Finished);
        }
        let mut x = vec![0.0; self.centre.len()];
        ctx.wire().decode(&packet, &mut x)?;
        ctx.lane.clock.timed(Phase::Update, Work::Update(x.len()), || {
            for (c, x) in self.centre.iter().zip(&mut x) {
                let mut old = c.load(Ordering::Relaxed);
                loop {
                    let value = f32::from_bits(old);
                    let new = value + self.pull * (*x - value);
                    match c.compare_exchange_weak(old, new.to_bits(), Ordering::Relaxed, Ordering::Relaxed) {
                        Ok(_) => {
                            *x = value;
                            break;
                        }
                        Err(now) => old = now,
                    }
                }
            }
        });
        ctx.wire().send(self.client, Tag { kind: Kind::Pull, ..tag }, 0, &x)?;
        Ok(ServiceStep::Served(self.turn))
    }
}

struct Elastic {
    server: GroupRank,
    pull: f32,
}

impl Trainer for Elastic {
    fn step(&mut self, ctx: &mut WorkerContext) -> Result<Loss, StepError> {
        let tag = Tag::new(Kind::Push, ctx.t());
        let (loss, g) = ctx.gradient()?;
        let x = ctx.weights().clone();
        ctx.wire().send(self.server, tag, 0, &x)?;
        let mut c = ctx.spare();
        ctx.wire().recv_into(self.server, Tag { kind: Kind::Pull, ..tag }, &mut c)?;
        let step = ctx.compute_update(g);
        for (i, x) in ctx.weights_mut().iter_mut().enumerate() {
            *x += step[i] - self.pull * (*x - c[i]);
        }
        Ok(loss)
    }
    fn finish(&mut self, ctx: &mut WorkerContext) -> Result<(), StepError> {
        let tag = Tag::new(Kind::Push, ctx.t() + 1);
        ctx.wire().send_packet(self.server, tag, Packet::default())
    }
}

#[test]
fn an_elastic_pull_without_gradients_conserves_the_sum() {
    // Worker k starts at 4 k, the centre at 0, and each of 12 pulls halves: 24 bits hold every sum.
    struct Apart(Elastic);
    impl Trainer for Apart {
        fn start(&mut self, ctx: &mut WorkerContext) -> Result<(), StepError> {
            let own = 4.0 * ctx.rank().0 as f32;
            ctx.weights_mut().fill(own);
            Ok(())
        }
        fn step(&mut self, ctx: &mut WorkerContext) -> Result<Loss, StepError> {
            self.0.step(ctx)
        }
        fn finish(&mut self, ctx: &mut WorkerContext) -> Result<(), StepError> {
            self.0.finish(ctx)
        }
    }
    for seed in 0..20 {
        let mut scene = Scene::new(Kinds::PsSync, 4).seed(seed).change(|spec| {
            spec.train.optimizer.lr = 0.0;
            spec.train.length = Extent::Steps(3);
        });
        scene.world.jitter = 1.0;
        scene.world.costs = Costs { forward: vec![Nanos(1000)], update: 10.0, ..Costs::default() };
        let centre: Arc<[AtomicU32]> = (0..3).map(|_| AtomicU32::new(0.0_f32.to_bits())).collect();
        let roles = |rank: Rank, _: &dyn Runtime, _: &CommQueue| {
            if rank == Rank(4) {
                let service = |k| {
                    Box::new(LockFree { client: GroupRank(k), centre: centre.clone(), pull: 0.5, turn: 0 })
                        as Box<dyn Service>
                };
                return Roles { services: (0..4).map(service).collect(), ..Roles::default() };
            }
            trains(Apart(Elastic { server: GroupRank(4), pull: 0.5 }), vec![])
        };
        let learner = || Box::new(Quadratic::new(1.0, vec![0.0; 3], 1)) as Box<dyn Learner>;
        let outcome = run(&scene, learner, roles).unwrap();
        let workers: f32 = outcome.ranks[..4].iter().map(|rank| rank.model()[1]).sum();
        assert_eq!(
            (workers + f32::from_bits(centre[1].load(Ordering::Relaxed))).to_bits(),
            24.0_f32.to_bits()
        );
    }
}
