//! Whether pairs that average can ever wait for each other in a circle: all orders of two ranks, many of more, and ranks
//! without roles, which do.

use crate::pairs::{pairs, scene};
use crate::scene::Scene;
use recipe::{Extent, Topology};
use record::{Nanos, Rank};
use std::sync::{Arc, Mutex};
use strategies::gossip::neighbour;
use strategies::sim::{Choices, Costs, Link, Outcome, WorldError};
use strategies::toy::Quadratic;
use strategies::{
    Blueprint, Desk, Host, Kind, Learner, Loss, Node, Packet, Place, Roles, Service, Shared, StepError, Tag,
    Turn,
};

/// What all orders of a world came to.
struct Search {
    worlds: usize,
    states: usize,
    deadlocks: usize,
    /// Whether nothing is left to try.
    all: bool,
}

/// A search that has tried so many worlds ends.
const MOST_WORLDS: usize = 20000;

/// Runs a world in every order, or in as many as it may.
fn search(run: impl Fn(&Arc<Mutex<Choices>>) -> Result<Outcome, WorldError>) -> Search {
    let choices = Arc::new(Mutex::new(Choices::new()));
    let (mut worlds, mut deadlocks) = (0, 0);
    loop {
        worlds += 1;
        let ended = run(&choices);
        let mut choices = choices.lock().unwrap();
        match ended {
            Ok(_) => {}
            Err(WorldError::Deadlock(_)) if choices.is_known() => {}
            Err(WorldError::Deadlock(_)) => deadlocks += 1,
            Err(other) => panic!("{other}"),
        }
        let all = !choices.another();
        if all || worlds == MOST_WORLDS {
            return Search { worlds, states: choices.states(), deadlocks, all };
        }
    }
}

/// Each rank takes one step, and nothing takes time: a lane is interrupted wherever it waits.
fn tiny(workers: u32, topology: Topology) -> Scene {
    let mut scene = Scene::new(pairs(topology), workers).change(|spec| {
        spec.train.global_batch = workers;
        spec.train.length = Extent::Steps(0);
    });
    scene.spec.measure.hash_every_step = false;
    scene.world.link = Link { latency: Nanos(0), nanos_per_byte: 0.0 };
    scene.world.costs = Costs::default();
    scene
}

fn searched(scene: &Scene) -> Search {
    let blueprint = Blueprint::new(&scene.spec, scene.course(), 1);
    search(|choices| {
        let mut world = scene.world.clone();
        world.choices = Some(choices.clone());
        world.run(&blueprint, |_| Box::new(Quadratic::new(1.0, vec![0.0], 1)))
    })
}

#[test]
fn no_order_of_two_and_few_of_three_are_a_deadlock() {
    for (workers, topology) in [(1, Topology::Ring), (2, Topology::Ring), (3, Topology::Ring)] {
        let Search { worlds, states, deadlocks, all } = searched(&tiny(workers, topology));
        println!("{workers} ranks: {worlds} worlds, {states} states, all: {all}");
        assert_eq!(deadlocks, 0, "{workers} ranks");
        assert!(all || workers == 3, "{worlds} worlds of {workers}");
    }
}

/// A communication lane without a role: it asks when it likes, and answers when it does not wait itself.
struct Anyone {
    draws: fn(Rank) -> usize,
    asked: bool,
    answers: usize,
}

impl Service for Anyone {
    fn turn(&mut self, desk: &mut Desk) -> Result<Turn, StepError> {
        if !std::mem::replace(&mut self.asked, true) {
            let other = Place((self.draws)(desk.seat.rank));
            desk.wire().send_packet(other, Tag::new(Kind::Ask, 1), Packet::default())?;
            desk.wire().recv_packet(other, Tag::new(Kind::Answer, 1))?;
            return Ok(Turn::Served(0));
        }
        if self.answers == 0 {
            return Ok(Turn::Finished);
        }
        self.answers -= 1;
        let (from, _, _) = desk.wire().recv_any(Kind::Ask)?;
        desk.wire().send_packet(from.unwrap(), Tag::new(Kind::Answer, 1), Packet::default())?;
        Ok(Turn::Served(0))
    }
}

struct Idle;

impl strategies::Strategy for Idle {
    fn step(&mut self, _: &mut Node) -> Result<Loss, StepError> {
        Ok(Loss(0.0))
    }
}

/// Three workers that ask each other around a circle, as the paper's A, B and C do.
fn around(workers: u32) -> Search {
    let scene = tiny(workers, Topology::Ring);
    let blueprint = Blueprint::new(&scene.spec, scene.course(), 1);
    let draws: fn(Rank) -> usize = match workers {
        2 => |rank| 1 - rank.index(),
        _ => |rank| (rank.index() + 1) % 3,
    };
    let roles = |_: Rank, _: &dyn Host, _: &Shared<_>| {
        let services: Vec<Box<dyn Service>> = vec![Box::new(Anyone { draws, asked: false, answers: 1 })];
        Roles { trainer: Some(Box::new(Idle)), services, evaluated: None }
    };
    search(|choices| {
        let mut world = scene.world.clone();
        world.choices = Some(choices.clone());
        let learner = |_| Box::new(Quadratic::new(1.0, vec![0.0], 1)) as Box<dyn Learner>;
        world.run_roles(&blueprint, learner, roles)
    })
}

#[test]
fn without_roles_there_is_a_deadlock() {
    for workers in [2, 3] {
        let found = around(workers);
        assert!(found.deadlocks > 0, "{} worlds", found.worlds);
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

/// The four ways in which the two active ranks of a ring of four draw their first neighbour, each by a seed.
#[test]
fn the_first_orders_of_four_are_no_deadlock() {
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..40 {
        let draws = [0, 2].map(|rank| neighbour(seed, Rank(rank), 1, 2));
        if !seen.insert(draws) {
            continue;
        }
        let scene = tiny(4, Topology::Ring);
        let samples = (0..scene.samples).collect();
        let course =
            Arc::new(strategies::Course::new(&scene.spec, strategies::Deal::shared_by(seed, samples)));
        let blueprint = Blueprint::new(&scene.spec, course, 1);
        let Search { worlds, states, deadlocks, all } = search(|choices| {
            let mut world = scene.world.clone();
            world.choices = Some(choices.clone());
            world.run(&blueprint, |_| Box::new(Quadratic::new(1.0, vec![0.0], 1)))
        });
        println!("draws {draws:?}: {worlds} worlds, {states} states, all: {all}");
        assert_eq!(deadlocks, 0);
    }
    assert_eq!(seen.len(), 4);
}
