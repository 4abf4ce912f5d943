//! Whether pairs that average can ever wait for each other in a circle: every order of up to four ranks, one of each set
//! of orders that cannot be told apart; and ranks without roles, which can.

use crate::pairs::{pairs, scene};
use crate::scene::Scene;
use recipe::{Averaging, Extent, Graph, Topology};
use record::{LaneId, Nanos, Rank};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use strategies::algorithm::ad_psgd::{Active, Passive, Worker};
use strategies::gossip::{Local, neighbour};
use strategies::sim::{Choices, Costs, Link, WorldError, WorldOutcome};
use strategies::toy::Quadratic;
use strategies::{
    Blueprint, CommQueue, GroupRank, Kind, Learner, Loss, Packet, Roles, Runtime, SamplePartition, Service,
    ServiceContext, ServiceStep, StepError, Tag, TrainingPlan, WorkerContext,
};

/// Runs a world in every order, and counts those that come to a deadlock.
pub(crate) fn search(
    what: &str,
    run: impl Fn(&Arc<Mutex<Choices>>) -> Result<WorldOutcome, WorldError>,
) -> usize {
    let choices = Arc::new(Mutex::new(Choices::new()));
    let mut deadlocks = 0;
    loop {
        let ended = run(&choices);
        let mut choices = choices.lock().unwrap();
        match ended {
            Ok(_) => {}
            Err(WorldError::Deadlock(_)) if choices.is_known() => {}
            Err(WorldError::Deadlock(_)) => deadlocks += 1,
            Err(other) => panic!("{what}: {other}"),
        }
        if !choices.another() {
            return deadlocks;
        }
    }
}

/// Ranks that each have taken at least one step when all know of `batches` batches. Nothing takes time: a lane is
/// interrupted wherever it waits.
fn tiny(workers: u32, topology: Topology, batches: u64) -> Scene {
    let mut scene = Scene::new(pairs(topology), workers).change(|spec| {
        spec.train.global_batch = workers;
        spec.train.length = Extent::Steps(batches);
    });
    scene.spec.measure.hash_every_step = false;
    scene.world.link = Link { latency: Nanos(0), nanos_per_byte: 0.0 };
    scene.world.costs = Costs::default();
    scene
}

/// A compute lane is interrupted, too, before each gradient.
fn step_by_step(mut scene: Scene) -> Scene {
    scene.world.costs.data = Nanos(1);
    scene
}

/// A lane is interrupted, too, before it adds to the model that its rank's lanes share, or averages it.
fn finer(mut scene: Scene) -> Scene {
    scene.world.costs.reduce = 1.0;
    scene
}

fn plan(scene: &Scene, seed: u64) -> Arc<TrainingPlan> {
    Arc::new(TrainingPlan::new(&scene.spec, SamplePartition::shared_by(seed, (0..scene.samples).collect())))
}

/// A model whose gradient is nothing, so that states do not differ by weights.
fn still(_: Rank) -> Box<dyn Learner> {
    Box::new(Quadratic::new(1.0, vec![0.0], 1))
}

/// Every order of the lanes that average. Those that count take no part in a circle: a claim is replied to whatever the
/// other lanes do.
fn searched(what: &str, scene: &Scene, seed: u64) -> usize {
    // Of up to four ranks, a ring is all that there is.
    let graph = Graph::bipartite(Topology::Ring, scene.spec.cluster.workers() as usize);
    searched_roles(what, scene, seed, |rank, runtime| uncounted(&graph, rank, runtime))
}

/// The roles of a worker that counts by what its neighbours tell.
fn uncounted(graph: &Graph, rank: Rank, runtime: &dyn Runtime) -> Roles {
    let neighbours: Vec<GroupRank> = graph.neighbours(rank.index()).map(GroupRank).collect();
    let active = rank.index().is_multiple_of(2);
    let lanes = if active { neighbours.len().min(1) } else { neighbours.len() };
    let local = Local::new(graph.ranks(), lanes, runtime.bell(format!("model of rank {rank}")));
    let services: Vec<Box<dyn Service>> = if active && lanes > 0 {
        vec![Box::new(Active::new(local.clone(), Averaging::EachStep, neighbours, 1))]
    } else {
        neighbours.into_iter().map(|place| Box::new(Passive::new(local.clone(), place, 1)) as _).collect()
    };
    Roles { trainer: Some(Box::new(Worker::new(local))), services, ..Roles::default() }
}

/// A seed for each way in which the ranks 0 and 2 draw the first of two neighbours each.
fn seeds() -> Vec<([usize; 2], u64)> {
    let mut seen = BTreeSet::new();
    let all = (0..100).map(|seed| ([0, 2].map(|rank| neighbour(seed, Rank(rank), 1, 2)), seed));
    let new: Vec<_> = all.filter(|(draws, _)| seen.insert(*draws)).collect();
    assert_eq!(new.len(), 4);
    new
}

#[test]
fn no_order_of_up_to_three_ranks_is_a_deadlock() {
    for (workers, batches) in [(1, 0), (2, 0), (2, 1), (2, 2), (3, 0)] {
        let what = format!("{workers} ranks, {batches} batches");
        let scene = step_by_step(tiny(workers, Topology::Ring, batches));
        assert_eq!(searched(&what, &scene, 1), 0, "{what}");
    }
}

#[test]
fn no_finer_order_is_a_deadlock() {
    for (workers, batches) in [(2, 0), (2, 1), (3, 0)] {
        let what = format!("{workers} ranks, {batches} batches");
        let scene = finer(tiny(workers, Topology::Ring, batches));
        assert_eq!(searched(&what, &scene, 1), 0, "{what}");
    }
}

/// However the two active ranks draw.
#[test]
fn no_order_of_four_ranks_is_a_deadlock() {
    let neighbours = |topology| -> Vec<Vec<usize>> {
        let graph = Graph::bipartite(topology, 4);
        (0..4).map(|rank| graph.neighbours(rank).collect()).collect()
    };
    assert_eq!(neighbours(Topology::Ring), neighbours(Topology::Complete), "one search is enough for both");
    for (draws, seed) in seeds() {
        let what = format!("draws {draws:?}");
        assert_eq!(searched(&what, &tiny(4, Topology::Ring, 0), seed), 0, "{what}");
    }
}

/// A communication lane without a role: it asks when it likes, and replies when it does not wait itself.
struct Anyone {
    other: GroupRank,
    asked: bool,
    answered: bool,
}

impl Service for Anyone {
    fn lane(&self) -> LaneId {
        LaneId::Communication
    }

    fn step(&mut self, ctx: &mut ServiceContext) -> Result<ServiceStep, StepError> {
        if !std::mem::replace(&mut self.asked, true) {
            ctx.wire().send_packet(self.other, Tag::new(Kind::Ask, 1), Packet::default())?;
            ctx.wire().recv_packet(self.other, Tag::new(Kind::Answer, 1))?;
            return Ok(ServiceStep::Served(0));
        }
        if std::mem::replace(&mut self.answered, true) {
            return Ok(ServiceStep::Finished);
        }
        let (from, _, _) = ctx.wire().recv_any(Kind::Ask)?;
        ctx.wire().send_packet(from.unwrap(), Tag::new(Kind::Answer, 1), Packet::default())?;
        Ok(ServiceStep::Served(0))
    }
}

struct Idle;

impl strategies::Trainer for Idle {
    fn step(&mut self, _: &mut WorkerContext) -> Result<Loss, StepError> {
        Ok(Loss(0.0))
    }
}

fn searched_roles(
    what: &str,
    scene: &Scene,
    seed: u64,
    roles: impl Fn(Rank, &dyn Runtime) -> Roles,
) -> usize {
    let blueprint = Blueprint::new(&scene.spec, plan(scene, seed), 1);
    let roles = |rank: Rank, runtime: &dyn Runtime, _: &CommQueue| roles(rank, runtime);
    search(what, |choices| {
        let mut world = scene.world.clone();
        world.choices = Some(choices.clone());
        world.run_roles(&blueprint, still, roles)
    })
}

/// Workers that ask each other around a circle, as the paper's A, B and C do; `first` replies before it asks.
fn around(workers: u32, first: Option<u32>) -> usize {
    let what = format!("{workers} ranks, {first:?} replies first");
    searched_roles(&what, &tiny(workers, Topology::Ring, 0), 1, |rank, _| {
        let other = GroupRank((rank.index() + 1) % workers as usize);
        let polite = Some(rank.0) == first;
        let anyone: Box<dyn Service> = if polite {
            Box::new(Polite { other, turns: 0 })
        } else {
            Box::new(Anyone { other, asked: false, answered: false })
        };
        Roles { trainer: Some(Box::new(Idle)), services: vec![anyone], ..Roles::default() }
    })
}

/// A lane that replies before it asks: one of them in a circle is enough.
struct Polite {
    other: GroupRank,
    turns: u32,
}

impl Service for Polite {
    fn lane(&self) -> LaneId {
        LaneId::Communication
    }

    fn step(&mut self, ctx: &mut ServiceContext) -> Result<ServiceStep, StepError> {
        self.turns += 1;
        let ask = Tag::new(Kind::Ask, 1);
        let answer = Tag::new(Kind::Answer, 1);
        match self.turns {
            1 => {
                let (from, _, _) = ctx.wire().recv_any(Kind::Ask)?;
                ctx.wire().send_packet(from.unwrap(), answer, Packet::default())?;
            }
            2 => {
                ctx.wire().send_packet(self.other, ask, Packet::default())?;
                ctx.wire().recv_packet(self.other, answer)?;
            }
            _ => return Ok(ServiceStep::Finished),
        }
        Ok(ServiceStep::Served(0))
    }
}

#[test]
fn without_roles_there_is_a_deadlock() {
    for workers in [2, 3, 4] {
        assert!(around(workers, None) > 0, "{workers} ranks");
        assert_eq!(around(workers, Some(workers - 1)), 0, "{workers} ranks");
    }
}

/// A ring of three that is not made a path: two active ranks are neighbours, and no rank replies to the one that draws the
/// other.
#[test]
fn a_ring_with_two_active_neighbours_is_a_deadlock() {
    let scene = tiny(3, Topology::Ring, 0);
    let roles = |rank: Rank, runtime: &dyn Runtime| {
        let me = rank.index();
        let neighbours: Vec<GroupRank> = (0..3).filter(|other| *other != me).map(GroupRank).collect();
        let active = me.is_multiple_of(2);
        let local = Local::new(3, if active { 1 } else { 2 }, runtime.bell(format!("model of rank {rank}")));
        let services: Vec<Box<dyn Service>> = if active {
            vec![Box::new(Active::new(local.clone(), Averaging::EachStep, neighbours, 1))]
        } else {
            let passive = |place| Box::new(Passive::new(local.clone(), place, 1)) as _;
            neighbours.into_iter().map(passive).collect()
        };
        Roles { trainer: Some(Box::new(Worker::new(local))), services, ..Roles::default() }
    };
    for (draws, seed) in seeds() {
        let what = format!("draws {draws:?}");
        let found = searched_roles(&what, &scene, seed, roles);
        // Rank 0's second neighbour, and rank 2's first, are active.
        assert_eq!(found > 0, draws != [0, 1], "{what}");
    }
}

#[test]
fn no_seed_of_up_to_sixteen_is_a_deadlock() {
    for workers in 3..=16 {
        for topology in [Topology::Ring, Topology::Complete, Topology::Exponential] {
            if topology == Topology::Exponential && workers % 2 == 1 {
                continue;
            }
            for seed in 0..6 {
                let scene = scene(pairs(topology), workers, seed).change(|spec| {
                    spec.train.length = Extent::Steps(4);
                });
                scene.run();
            }
        }
    }
}
