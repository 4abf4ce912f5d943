//! The shapes of this crate carry what they were made for: pipelines, merged layer-wise schedules, lock-free
//! servers, gossip with active and passive lanes, and model parallelism. Each method here is small and only
//! shows that nothing in the core has to move for it; deadlocks and panics are shown to be found.

use crate::scene::{Scene, common_digests};
use recipe::{Extent, Strategy as Kinds};
use record::{LaneId, Nanos, Phase, Rank, Work};
use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use strategies::draw::mix;
use strategies::sim::{Costs, Outcome, WorldError};
use strategies::toy::{Perceptron, Quadratic};
use strategies::vector::piece;
use strategies::*;

fn run(
    scene: &Scene,
    learner: impl Fn() -> Box<dyn Learner>,
    roles: impl Fn(Rank, &dyn Host, &Shared<Jobs>) -> Roles,
) -> Result<Outcome, WorldError> {
    let size = learner().layout().size();
    let blueprint = Blueprint::new(&scene.spec, scene.course(), size);
    scene.world.run_roles(&blueprint, |_| learner(), roles)
}

fn trains(strategy: impl Strategy + 'static, services: Vec<Box<dyn Service>>) -> Roles {
    Roles { trainer: Some(Box::new(strategy)), services, evaluated: None }
}

fn messenger(scene: &Scene, jobs: &Shared<Jobs>) -> Box<dyn Service> {
    Box::new(Messenger::new(jobs.clone(), strategies::collective::build(&scene.spec.communication)))
}

/// Gradients of iteration t - K are applied in iteration t.
struct Pipeline {
    depth: usize,
    travelling: VecDeque<Pending>,
}

impl Strategy for Pipeline {
    fn step(&mut self, node: &mut Node) -> Result<Loss, StepError> {
        if self.travelling.len() == self.depth
            && let Some(pending) = self.travelling.pop_front()
        {
            let g = node.wait(pending)?;
            node.descend(g);
        }
        let (loss, g) = node.gradient()?;
        self.travelling.push_back(node.start_all_reduce_mean(g)?);
        Ok(loss)
    }
    fn finish(&mut self, node: &mut Node) -> Result<(), StepError> {
        while let Some(pending) = self.travelling.pop_front() {
            let g = node.wait(pending)?;
            node.descend(g);
        }
        Ok(())
    }
}

#[test]
fn a_pipeline_of_depth_2_has_period_6_on_a_quadratic() {
    let expected: [(usize, &[f32]); 3] = [
        (1, &[1.0, 0.0, 0.0, 0.0]),
        (2, &[1.0, 1.0, 0.0, -1.0, -1.0, 0.0, 1.0, 1.0, 0.0]),
        (3, &[1.0, 1.0, 1.0, 0.0, -1.0, -2.0, -2.0, -1.0, 1.0, 3.0, 4.0, 3.0]),
    ];
    for (depth, iterates) in expected {
        let scene = Scene::new(Kinds::DSync, 2).change(|spec| {
            spec.train.optimizer.lr = 1.0;
            spec.train.length = Extent::Steps(iterates.len() as u64 + 1);
        });
        let learner = || Box::new(Quadratic::new(1.0, vec![1.0; 5], 1)) as Box<dyn Learner>;
        let roles = |_: Rank, _: &dyn Host, jobs: &Shared<Jobs>| {
            trains(Pipeline { depth, travelling: VecDeque::new() }, vec![messenger(&scene, jobs)])
        };
        let outcome = run(&scene, learner, roles).unwrap();
        let seen: Vec<f32> = (1..=iterates.len() as u64).map(|t| outcome.ranks[1].weights[&t][0]).collect();
        assert_eq!(seen, iterates, "depth {depth}");
    }
}

#[test]
fn a_pipeline_hides_what_is_shorter() {
    let mut scene = Scene::new(Kinds::DSync, 2).change(|spec| spec.train.length = Extent::Steps(20));
    scene.spec.measure.hash_every_step = false;
    scene.world.costs =
        Costs { forward: vec![Nanos(40_000)], backward: vec![Nanos(60_000)], ..Costs::default() };
    let learner = || Box::new(Quadratic::new(1.0, vec![1.0; 100], 1)) as Box<dyn Learner>;
    let roles = |_: Rank, _: &dyn Host, jobs: &Shared<Jobs>| {
        trains(Pipeline { depth: 2, travelling: VecDeque::new() }, vec![messenger(&scene, jobs)])
    };
    let outcome = run(&scene, learner, roles).unwrap();
    for step in &outcome.ranks[0].steps(LaneId::Compute)[5..15] {
        assert_eq!(step.length, Nanos(100_000));
        assert_eq!(step.phases.exposed(), Nanos(0));
    }
}

/// One all-reduce per bucket of neighbouring layers, as soon as the bucket is complete.
struct LayerWise {
    buckets: Vec<std::ops::Range<usize>>,
}

impl Strategy for LayerWise {
    fn step(&mut self, node: &mut Node) -> Result<Loss, StepError> {
        let loss = node.forward()?;
        let mut g = node.spare();
        let mut travelling = Vec::new();
        while let Some(done) = node.backward_next()? {
            let span = node.layout().layers()[done.layer].span.clone();
            g[span].copy_from_slice(&done.gradient);
            if let Some(bucket) = self.buckets.iter().find(|bucket| bucket.start == done.layer) {
                let span = node.layout().span(bucket.clone());
                travelling.push((span.clone(), node.start_all_reduce_mean(g[span].to_vec().into())?));
            }
        }
        for (span, pending) in travelling {
            g[span].copy_from_slice(&node.wait(pending)?);
        }
        node.descend(g);
        Ok(loss)
    }
}

#[test]
fn schedules_do_not_change_a_bit_in_rank_order() {
    let scene = Scene::new(Kinds::DSync, 3).rank_order().widths(&[6, 7, 5, 4]).change(|spec| {
        spec.train.optimizer.momentum = 0.5;
        spec.train.length = Extent::Steps(30);
    });
    let expected = common_digests(&scene.run());
    let cuts: [&[usize]; 3] = [&[0, 1, 2, 3], &[0, 2, 3], &[0, 3]];
    for cuts in cuts {
        let buckets: Vec<_> = cuts.windows(2).map(|cut| cut[0]..cut[1]).collect();
        let roles = |_: Rank, _: &dyn Host, jobs: &Shared<Jobs>| {
            trains(LayerWise { buckets: buckets.clone() }, vec![messenger(&scene, jobs)])
        };
        let outcome = run(&scene, || Box::new(scene.learner()), roles).unwrap();
        assert_eq!(common_digests(&outcome), expected, "{buckets:?}");
    }
}

/// A centre in shared memory, pulled and pushed element by element without a lock; one service per client.
struct LockFree {
    client: Place,
    centre: Arc<[AtomicU32]>,
    pull: f32,
    turn: u64,
}

impl Service for LockFree {
    fn turn(&mut self, desk: &mut Desk) -> Result<Turn, StepError> {
        self.turn += 1;
        let tag = Tag::new(Kind::Push, self.turn);
        let packet = desk.wire().recv_packet(self.client, tag)?;
        if packet.0.is_empty() {
            return Ok(Turn::Finished);
        }
        let mut x = vec![0.0; self.centre.len()];
        desk.wire().decode(&packet, &mut x)?;
        desk.lane.clock.timed(Phase::Update, Work::Update(x.len()), || {
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
        desk.wire().send(self.client, Tag { kind: Kind::Pull, ..tag }, 0, &x)?;
        Ok(Turn::Served(self.turn))
    }
}

struct Elastic {
    server: Place,
    pull: f32,
}

impl Strategy for Elastic {
    fn step(&mut self, node: &mut Node) -> Result<Loss, StepError> {
        let tag = Tag::new(Kind::Push, node.t());
        let (loss, g) = node.gradient()?;
        let x = node.params().clone();
        node.wire().send(self.server, tag, 0, &x)?;
        let mut c = node.spare();
        node.wire().recv_into(self.server, Tag { kind: Kind::Pull, ..tag }, &mut c)?;
        let step = node.direction(g);
        for (i, x) in node.params_mut().iter_mut().enumerate() {
            *x += step[i] - self.pull * (*x - c[i]);
        }
        Ok(loss)
    }
    fn finish(&mut self, node: &mut Node) -> Result<(), StepError> {
        let tag = Tag::new(Kind::Push, node.t() + 1);
        node.wire().send_packet(self.server, tag, Packet::default())
    }
}

#[test]
fn an_elastic_pull_without_gradients_conserves_the_sum() {
    // Worker k starts at 4 k, the centre at 0, and each of 12 pulls halves: 24 bits hold every sum.
    struct Apart(Elastic);
    impl Strategy for Apart {
        fn start(&mut self, node: &mut Node) -> Result<(), StepError> {
            let own = 4.0 * node.rank().0 as f32;
            node.params_mut().fill(own);
            Ok(())
        }
        fn step(&mut self, node: &mut Node) -> Result<Loss, StepError> {
            self.0.step(node)
        }
        fn finish(&mut self, node: &mut Node) -> Result<(), StepError> {
            self.0.finish(node)
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
        let roles = |rank: Rank, _: &dyn Host, _: &Shared<Jobs>| {
            if rank == Rank(4) {
                let service = |k| {
                    Box::new(LockFree { client: Place(k), centre: centre.clone(), pull: 0.5, turn: 0 })
                        as Box<dyn Service>
                };
                return Roles { trainer: None, services: (0..4).map(service).collect(), evaluated: None };
            }
            trains(Apart(Elastic { server: Place(4), pull: 0.5 }), vec![])
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

/// What the two lanes of a gossiping rank share.
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

impl Strategy for Gossip {
    fn start(&mut self, node: &mut Node) -> Result<(), StepError> {
        let own = 4.0 * node.rank().0 as f32;
        node.params_mut().fill(own);
        self.local
            .change(|local| (local.x, local.g) = (node.params().clone(), Vector::zeros(node.params().len())));
        Ok(())
    }
    fn step(&mut self, node: &mut Node) -> Result<Loss, StepError> {
        let (mut x, g) = self.local.read(|local| (local.x.clone(), local.g.clone()));
        x.add(&g);
        *node.params_mut() = x;
        let (loss, g) = node.gradient()?;
        let step = node.direction(g);
        self.local.change(|local| {
            local.g.add(&step);
            local.fresh += 1;
        });
        Ok(loss)
    }
    fn finish(&mut self, _: &mut Node) -> Result<(), StepError> {
        self.local.change(|local| local.done = true);
        Ok(())
    }
    fn model<'a>(&'a self, _: &'a Node) -> Cow<'a, Vector> {
        Cow::Owned(self.local.read(|local| local.x.clone()))
    }
}

struct Active {
    local: Shared<Local>,
    neighbours: Vec<Place>,
    draw: u64,
    sent: u64,
}

impl Service for Active {
    fn turn(&mut self, desk: &mut Desk) -> Result<Turn, StepError> {
        let x = self.local.wait(&mut desk.lane, |local| {
            let more = local.fresh > 0;
            local.flush();
            (more || local.done).then(|| more.then(|| local.x.clone()))
        })?;
        self.sent += 1;
        let (ask, answer) = (Tag::new(Kind::Ask, self.sent), Tag::new(Kind::Answer, self.sent));
        let Some(x) = x else {
            for place in &self.neighbours {
                desk.wire().send_packet(*place, ask, Packet::default())?;
            }
            return Ok(Turn::Finished);
        };
        let place = self.neighbours[mix(self.draw, self.sent) as usize % self.neighbours.len()];
        desk.wire().send(place, ask, 0, &x)?;
        let mut other = Vector::zeros(x.len());
        desk.wire().recv_into(place, answer, &mut other)?;
        self.local.change(|local| local.average_with(&other));
        Ok(Turn::Served(self.sent))
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
    fn turn(&mut self, desk: &mut Desk) -> Result<Turn, StepError> {
        if self.askers == 0 {
            self.local.wait(&mut desk.lane, |local| {
                local.flush();
                local.done.then_some(())
            })?;
            return Ok(Turn::Finished);
        }
        let (from, tag, packet) = desk.wire().recv_any(Kind::Ask)?;
        self.served += 1;
        if packet.0.is_empty() {
            self.askers -= 1;
            return Ok(Turn::Served(self.served));
        }
        let x = self.local.wait(&mut desk.lane, |local| {
            local.flush();
            (!local.x.is_empty()).then(|| local.x.clone())
        })?;
        let mut other = Vector::zeros(x.len());
        desk.wire().decode(&packet, &mut other)?;
        desk.wire().send(from.unwrap(), Tag { kind: Kind::Answer, ..tag }, 0, &x)?;
        self.local.change(|local| local.average_with(&other));
        Ok(Turn::Served(self.served))
    }
    fn model(&self) -> Option<Cow<'_, Vector>> {
        Some(Cow::Owned(self.local.read(|local| local.x.clone())))
    }
}

fn gossip(ranks: u32, seed: u64) -> Result<Outcome, WorldError> {
    let mut scene = Scene::new(Kinds::DSync, ranks).seed(seed).change(|spec| {
        spec.train.optimizer.lr = 0.0;
        spec.train.length = Extent::Steps(6);
    });
    scene.spec.measure.hash_every_step = false;
    scene.world.jitter = 1.0;
    scene.world.slow.insert(Rank(1), 5.0);
    scene.world.costs = Costs { forward: vec![Nanos(3000)], ..Costs::default() };
    let roles = |rank: Rank, host: &dyn Host, _: &Shared<Jobs>| {
        let (me, n) = (rank.index(), ranks as usize);
        let local = Shared::new(Local::default(), host.bell(format!("buffer of rank {me}")));
        let mut neighbours = vec![Place((me + n - 1) % n), Place((me + 1) % n)];
        neighbours.dedup();
        let lane: Box<dyn Service> = if me % 2 == 0 {
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

#[test]
fn a_ring_that_only_asks_is_reported_as_a_deadlock_with_its_cycle() {
    struct Asks;
    impl Strategy for Asks {
        fn step(&mut self, node: &mut Node) -> Result<Loss, StepError> {
            let (tag, group) = (node.tag(Kind::Exchange), node.trainers().clone());
            node.wire().recv_packet(group.after(group.size() - 1), tag)?;
            node.wire().send(group.after(1), tag, 0, &[1.0])?;
            Ok(Loss(0.0))
        }
    }
    let scene = Scene::new(Kinds::DSync, 3);
    let roles = |_: Rank, _: &dyn Host, _: &Shared<Jobs>| trains(Asks, vec![]);
    let WorldError::Deadlock(blocked) = run(&scene, || Box::new(scene.learner()), roles).unwrap_err() else {
        panic!("no deadlock was found")
    };
    assert_eq!(blocked.len(), 3);
    assert!(blocked.iter().all(|lane| lane.on_cycle));
    assert!(
        blocked[0]
            .to_string()
            .starts_with("rank 0 compute waits for Exchange of step 1, call 1, part 0 from rank 2")
    );
}

#[test]
fn a_panic_is_an_error_of_its_lane() {
    struct Breaks;
    impl Strategy for Breaks {
        fn step(&mut self, node: &mut Node) -> Result<Loss, StepError> {
            assert!(node.rank() != Rank(1) || node.t() != 2, "rank 1 breaks in step 2");
            let (loss, g) = node.gradient()?;
            let g = node.all_reduce_mean(g)?;
            node.descend(g);
            Ok(loss)
        }
    }
    let scene = Scene::new(Kinds::DSync, 3);
    let roles = |_: Rank, _: &dyn Host, _: &Shared<Jobs>| trains(Breaks, vec![]);
    let WorldError::Failed { rank, lane, source } =
        run(&scene, || Box::new(scene.learner()), roles).unwrap_err()
    else {
        panic!("the panic was lost")
    };
    assert_eq!((rank, lane), (Rank(1), LaneId::Compute));
    assert_eq!(source, StepError::Panicked("rank 1 breaks in step 2".into()));
}

/// Hybrid parallelism: layers below `first_cut` on every rank, the others cut into as many parts as there are
/// ranks; the ranks take turns with their examples in the cut part.
struct Hybrid {
    first_cut: usize,
    widths: Vec<usize>,
}

impl Hybrid {
    fn gather_rows(mine: Block, round: usize, tag: Tag, wire: &mut Wire<'_>) -> Result<Block, StepError> {
        let (p, rows) = (wire.group().size(), mine.values.len() / mine.width);
        let part = piece(rows, p, round);
        let own = mine.values[part.start * mine.width..part.end * mine.width].to_vec();
        for to in wire.group().others() {
            wire.send(to, tag, 0, &own)?;
        }
        let mut all = Vec::new();
        for from in wire.group().places() {
            let mut values = own.clone();
            if from != wire.group().place() {
                wire.recv_into(from, tag, &mut values)?;
            }
            all.extend(values);
        }
        Ok(Block { width: mine.width, values: all })
    }

    fn gather_columns(mine: &Block, width: usize, tag: Tag, wire: &mut Wire<'_>) -> Result<Block, StepError> {
        for to in wire.group().others() {
            wire.send(to, tag, 0, &mine.values)?;
        }
        let (p, rows) = (wire.group().size(), mine.values.len() / mine.width);
        let mut whole = Block { width, values: vec![0.0; rows * width] };
        for from in wire.group().places() {
            let columns = piece(width, p, from.0);
            let mut values = vec![0.0; rows * columns.len()];
            if from == wire.group().place() {
                values.copy_from_slice(&mine.values);
            } else {
                wire.recv_into(from, tag, &mut values)?;
            }
            for (row, part) in values.chunks(columns.len()).enumerate() {
                whole.values[row * width + columns.start..row * width + columns.end].copy_from_slice(part);
            }
        }
        Ok(whole)
    }

    fn sum(mut mine: Block, tag: Tag, wire: &mut Wire<'_>) -> Result<Block, StepError> {
        strategies::collective::Collective::all_reduce_sum(
            &strategies::collective::RankOrder,
            &mut mine.values,
            tag,
            wire,
        )?;
        Ok(mine)
    }
}

fn columns(block: &Block, at: std::ops::Range<usize>) -> Block {
    let values = block.values.chunks(block.width).flat_map(|row| row[at.clone()].to_vec()).collect();
    Block { width: at.len(), values }
}

impl Strategy for Hybrid {
    fn start(&mut self, node: &mut Node) -> Result<(), StepError> {
        let group = node.trainers().clone();
        (self.first_cut..self.widths.len())
            .try_for_each(|layer| node.cut(layer, group.place().0, group.size()))
    }

    fn step(&mut self, node: &mut Node) -> Result<Loss, StepError> {
        let group = node.trainers().clone();
        let (p, me, layers) = (group.size(), group.place().0, self.widths.len());
        let mut g = Vector::zeros(node.params().len());
        let mut loss = 0.0;
        node.load()?;
        (0..self.first_cut).try_for_each(|layer| node.forward_layer(layer))?;
        let own = node.take()?;
        let rows = own.values.len() / own.width;
        let mut own_gradient = Block { width: own.width, values: vec![0.0; own.values.len()] };
        for round in 0..p {
            let course = node.seat().course.clone();
            let epoch = node.batch().epoch;
            let examples = (0..p)
                .flat_map(|k| course.batch(node.t(), k).examples[piece(rows, p, round)].to_vec())
                .collect();
            node.put(own.clone())?;
            node.exchange(&group, |x, tag, wire| Self::gather_rows(x, round, tag, wire))?;
            for layer in self.first_cut..layers {
                node.forward_layer(layer)?;
                let width = self.widths[layer];
                node.exchange(&group, |y, tag, wire| Self::gather_columns(&y, width, tag, wire))?;
            }
            loss += node.loss(&Batch { epoch, examples })?.0 / p as f32;
            for layer in (self.first_cut..layers).rev() {
                let whole = node.take()?;
                node.put(columns(&whole, piece(self.widths[layer], p, me)))?;
                let span = node.layout().layers()[layer].span.clone();
                let mut part = vec![0.0; span.len()];
                node.backward_layer(layer, &mut part)?;
                g[span].iter_mut().zip(&part).for_each(|(g, part)| *g += part / p as f32);
                node.exchange(&group, Self::sum)?;
            }
            let cursor = node.take()?;
            let mine = piece(rows, p, round);
            let from = me * mine.len() * own.width;
            let back = &cursor.values[from..from + mine.len() * own.width];
            own_gradient.values[mine.start * own.width..mine.end * own.width].copy_from_slice(back);
        }
        node.put(own_gradient)?;
        for layer in (0..self.first_cut).rev() {
            let span = node.layout().layers()[layer].span.clone();
            node.backward_layer(layer, &mut g[span])?;
        }
        let below = node.layout().span(0..self.first_cut);
        let mean = node.all_reduce_mean_over(&group, g[below.clone()].to_vec().into())?;
        g[below].copy_from_slice(&mean);
        node.descend(g);
        Ok(Loss(loss))
    }
}

#[test]
fn model_parallelism_is_one_process_after_a_step_of_exact_numbers() {
    let widths = [6, 8, 8, 4];
    let scene = |workers| {
        Scene::new(Kinds::DSync, workers).widths(&widths).change(|spec| {
            spec.train.length = Extent::Steps(1);
            spec.train.global_batch = 16;
        })
    };
    let expected = scene(1).run();
    for p in [2_u32, 4] {
        let scene = scene(p);
        let roles = |_: Rank, _: &dyn Host, _: &Shared<Jobs>| {
            trains(Hybrid { first_cut: 1, widths: vec![8, 8, 4] }, vec![])
        };
        let outcome = run(&scene, || Box::new(scene.learner()), roles).unwrap();
        let whole = Perceptron::new(&widths);
        let mut joined = Vector::zeros(whole.layout().size());
        for layer in 0..3 {
            let span = whole.layout().layers()[layer].span.clone();
            let row = widths[layer] + 1;
            for (k, rank) in outcome.ranks.iter().enumerate() {
                let mut cut = Perceptron::new(&widths);
                (1..3).for_each(|layer| cut.cut(layer, k, p as usize).unwrap());
                let kept = if layer == 0 { 0..widths[1] } else { piece(widths[layer + 1], p as usize, k) };
                let part = &rank.model()[cut.layout().layers()[layer].span.clone()];
                joined[span.start + kept.start * row..span.start + kept.end * row].copy_from_slice(part);
            }
        }
        assert_eq!(joined.sha256(), expected.ranks[0].model().sha256(), "{p} parts");
    }
}
