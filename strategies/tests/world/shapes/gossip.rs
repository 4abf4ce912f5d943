//! Pairs that average: active and passive lanes beside the compute lane.

use super::{run, trains};
use crate::scene::Scene;
use recipe::{Extent, Strategy as Kinds};
use record::{LaneId, Nanos, Rank};
use std::borrow::Cow;
use strategies::rng::mix;
use strategies::sim::{Costs, WorldError, WorldOutcome};
use strategies::toy::Quadratic;
use strategies::*;

/// State that the lanes of a gossiping rank share: its model `x`, and the sum `g` of `fresh` updates not yet in it.
#[derive(Default)]
struct Local {
    x: Vector,
    g: Vector,
    fresh: u32,
    done: bool,
}

impl Local {
    fn flush(&mut self) {
        if self.fresh > 0 {
            self.x.add(&self.g);
            self.g.fill(0.0);
            self.fresh = 0;
        }
    }
    fn average_with(&mut self, other: &[f32]) {
        self.x.add(other);
        self.x.scale(0.5);
    }
}

struct Gossip {
    local: Shared<Local>,
}

impl Trainer for Gossip {
    fn start(&mut self, ctx: &mut WorkerContext) -> Result<(), StepError> {
        let own = 4.0 * ctx.rank().0 as f32;
        ctx.weights_mut().fill(own);
        self.local
            .change(|local| (local.x, local.g) = (ctx.weights().clone(), Vector::zeros(ctx.weights().len())));
        Ok(())
    }
    fn step(&mut self, ctx: &mut WorkerContext) -> Result<Loss, StepError> {
        let (mut x, g) = self.local.read(|local| (local.x.clone(), local.g.clone()));
        x.add(&g);
        *ctx.weights_mut() = x;
        let (loss, g) = ctx.gradient()?;
        let step = ctx.compute_update(g);
        self.local.change(|local| {
            local.g.add(&step);
            local.fresh += 1;
        });
        Ok(loss)
    }
    fn finish(&mut self, _: &mut WorkerContext) -> Result<(), StepError> {
        self.local.change(|local| local.done = true);
        Ok(())
    }
    fn model<'a>(&'a self, _: &'a WorkerContext) -> Cow<'a, Vector> {
        Cow::Owned(self.local.read(|local| local.x.clone()))
    }
}

struct Active {
    local: Shared<Local>,
    neighbours: Vec<GroupRank>,
    draw: u64,
    sent: u64,
}

impl Service for Active {
    fn lane(&self) -> LaneId {
        LaneId::Communication
    }

    fn step(&mut self, ctx: &mut ServiceContext) -> Result<ServiceStep, StepError> {
        let x = self.local.wait(&mut ctx.lane, |local| {
            let more = local.fresh > 0;
            local.flush();
            (more || local.done).then(|| more.then(|| local.x.clone()))
        })?;
        self.sent += 1;
        let ask = Tag::new(Kind::Ask, self.sent);
        let answer = Tag::new(Kind::Answer, self.sent);
        let Some(x) = x else {
            for place in &self.neighbours {
                ctx.wire().send_packet(*place, ask, Packet::default())?;
            }
            return Ok(ServiceStep::Finished);
        };
        let place = self.neighbours[mix(self.draw, self.sent) as usize % self.neighbours.len()];
        ctx.wire().send(place, ask, 0, &x)?;
        let mut other = Vector::zeros(x.len());
        ctx.wire().recv_into(place, answer, &mut other)?;
        self.local.change(|local| local.average_with(&other));
        Ok(ServiceStep::Served(self.sent))
    }
    fn model(&self) -> Option<Cow<'_, Vector>> {
        Some(Cow::Owned(self.local.read(|local| local.x.clone())))
    }
}

struct Passive {
    local: Shared<Local>,
    askers: usize,
    served: u64,
}

impl Service for Passive {
    fn lane(&self) -> LaneId {
        LaneId::Clients
    }

    fn step(&mut self, ctx: &mut ServiceContext) -> Result<ServiceStep, StepError> {
        if self.askers == 0 {
            self.local.wait(&mut ctx.lane, |local| {
                local.flush();
                local.done.then_some(())
            })?;
            return Ok(ServiceStep::Finished);
        }
        let (from, tag, packet) = ctx.wire().recv_any(Kind::Ask)?;
        self.served += 1;
        if packet.0.is_empty() {
            self.askers -= 1;
            return Ok(ServiceStep::Served(self.served));
        }
        let x = self.local.wait(&mut ctx.lane, |local| {
            local.flush();
            (!local.x.is_empty()).then(|| local.x.clone())
        })?;
        let mut other = Vector::zeros(x.len());
        ctx.wire().decode(&packet, &mut other)?;
        ctx.wire().send(from.unwrap(), Tag { kind: Kind::Answer, ..tag }, 0, &x)?;
        self.local.change(|local| local.average_with(&other));
        Ok(ServiceStep::Served(self.served))
    }
    fn model(&self) -> Option<Cow<'_, Vector>> {
        Some(Cow::Owned(self.local.read(|local| local.x.clone())))
    }
}

fn gossip(ranks: u32, seed: u64) -> Result<WorldOutcome, WorldError> {
    let mut scene = Scene::new(Kinds::DSync, ranks).seed(seed).change(|spec| {
        spec.train.optimizer.lr = 0.0;
        spec.train.length = Extent::Steps(6);
    });
    scene.spec.measure.hash_every_step = false;
    scene.world.jitter = 1.0;
    scene.world.slow.insert(Rank(1), 5.0);
    scene.world.costs = Costs { forward: vec![Nanos(3000)], ..Costs::default() };
    let roles = |rank: Rank, runtime: &dyn Runtime, _: &CommQueue| {
        let me = rank.index();
        let n = ranks as usize;
        let local = Shared::new(Local::default(), runtime.bell(format!("buffer of rank {me}")));
        let mut neighbours = vec![GroupRank((me + n - 1) % n), GroupRank((me + 1) % n)];
        neighbours.dedup();
        let lane: Box<dyn Service> = if me.is_multiple_of(2) {
            Box::new(Active { local: local.clone(), neighbours, draw: seed ^ (me as u64) << 32, sent: 0 })
        } else {
            Box::new(Passive { local: local.clone(), askers: neighbours.len(), served: 0 })
        };
        trains(Gossip { local }, vec![lane])
    };
    run(&scene, || Box::new(Quadratic::new(1.0, vec![0.0; 3], 1)), roles)
}

#[test]
fn gossip_on_even_rings_ends_and_conserves_the_mean_exactly() {
    for ranks in [2, 4, 6] {
        for seed in 0..20 {
            let outcome = gossip(ranks, seed).unwrap();
            let sum: f32 = outcome.ranks.iter().map(|rank| rank.model()[2]).sum();
            let expected: f32 = (0..ranks).map(|rank| 4.0 * rank as f32).sum();
            assert_eq!(sum.to_bits(), expected.to_bits(), "{ranks} ranks, seed {seed}");
        }
    }
}
