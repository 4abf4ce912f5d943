//! Searches that leave out what cannot matter, held against searches that leave out nothing: small random programs that
//! send, receive, and share memory, each in every order.

use record::{Nanos, PhaseClock, Rank, Trace};
use std::collections::BTreeSet;
use std::ops::AddAssign;
use std::sync::{Arc, Mutex};
use strategies::compress::Identity;
use strategies::sim::{Choices, Costs, Link, World, WorldError};
use strategies::{Kind, Lane, LaneBody, Packet, Runtime, Senders, Shared, StepError, Tag};

/// One act of a lane.
#[derive(Clone, Copy, Debug)]
enum Act {
    /// Sends what it knows to the first or the second lane of a rank.
    Send(usize, usize),
    Receive(usize),
    ReceiveAny,
    /// Changes what the rank's lanes share.
    Change,
    /// Waits until that was changed this often.
    Await(u64),
    Look,
    /// Receives from that rank if nothing was changed so far.
    Doubt(usize),
    /// Waits for what never comes, so that all that a lane has seen is part of how the program ends.
    Forever(bool),
}

/// Of each rank, of each lane, what it does.
type Program = Vec<Vec<Vec<Act>>>;

/// Number of acts behind a lane, and a digest of what it has seen.
type At = (usize, u64);

/// A lane receives messages of a kind of its own.
const KINDS: [Kind; 2] = [Kind::Ask, Kind::Answer];

fn mix(a: u64, b: u64) -> u64 {
    (a ^ b.wrapping_mul(0x9e37_79b9_7f4a_7c15)).rotate_left(23).wrapping_mul(0xd134_2543_de82_ef95)
        ^ (a >> 29)
}

/// Sends, each with a receive, and acts on the ranks' shared state, at random places of the lanes; these decide how far
/// the lanes get.
fn program(seed: u64, least: usize) -> Program {
    let mut state = mix(seed, 77);
    let mut below = |n: usize| {
        state = mix(state, 1);
        (state >> 33) as usize % n
    };
    let lanes: &[usize] = [&[2, 2][..], &[1, 2, 1], &[2, 1, 1]][below(3)];
    let mut program: Program = lanes.iter().map(|lanes| vec![vec![]; *lanes]).collect();
    for _ in 0..2 + below(4) {
        let from = below(lanes.len());
        let to = (from + 1 + below(lanes.len() - 1)) % lanes.len();
        let sender = below(lanes[from]);
        let receiver = below(lanes[to]);
        let lane = &mut program[from][sender];
        lane.insert(below(lane.len() + 1), Act::Send(to, receiver));
        let lane = &mut program[to][receiver];
        let asked = if below(2) == 0 { Act::Receive(from) } else { Act::ReceiveAny };
        lane.insert(below(lane.len() + 1), asked);
    }
    for _ in 0..least + below(4) {
        let rank = below(lanes.len());
        let other = (rank + 1) % lanes.len();
        let act = [
            Act::Change,
            Act::Look,
            Act::Await(1 + below(2) as u64),
            Act::Doubt(other),
            Act::Change,
            Act::Look,
        ][below(6)];
        let number = below(lanes[rank]);
        let lane = &mut program[rank][number];
        lane.insert(below(lane.len() + 1), act);
    }
    let lanes = program.iter_mut().flatten();
    lanes.for_each(|lane| lane.push(Act::Forever(below(3) > 0)));
    program
}

type Memory = Shared<(u64, u64)>;

fn perform(act: Act, known: u64, own: Kind, memory: &Memory, lane: &mut Lane) -> Result<u64, StepError> {
    let told = |packet: &Packet| u64::from_le_bytes(packet.0.as_ref().try_into().unwrap());
    Ok(match act {
        Act::Send(to, number) => {
            let packet = Packet(known.to_le_bytes().to_vec().into());
            lane.transport.send(Rank(to as u32), Tag::new(KINDS[number], 1), packet)?;
            known
        }
        Act::Receive(from) => {
            mix(known, told(&lane.transport.recv(Rank(from as u32), Tag::new(own, 1))?.packet))
        }
        Act::ReceiveAny => mix(known, told(&lane.transport.recv_any(own, Senders::Everyone)?.packet)),
        Act::Change => memory.change(|(count, value)| {
            (*count, *value) = (*count + 1, mix(*value, known));
            mix(known, *value)
        }),
        Act::Await(count) => memory.wait(lane, |(now, value)| (*now >= count).then(|| mix(known, *value)))?,
        Act::Look => memory.read(|(_, value)| mix(known, *value)),
        Act::Doubt(from) if memory.read(|(count, _)| *count == 0) => {
            perform(Act::Receive(from), known, own, memory, lane)?
        }
        Act::Doubt(_) => mix(known, 1),
        Act::Forever(true) => {
            mix(known, told(&lane.transport.recv_any(Kind::Exchange, Senders::Everyone)?.packet))
        }
        Act::Forever(false) => memory.wait(lane, |(now, _)| (*now == u64::MAX).then_some(0))?,
    })
}

/// Where the lanes of a program stand in the end, and the memory of each rank.
struct End {
    at: Vec<Vec<Arc<Mutex<At>>>>,
    memories: Vec<Memory>,
}

fn lanes(program: &Program, runtime: &dyn Runtime, end: &mut Option<End>) -> Vec<LaneBody> {
    let memory = |rank: usize| Shared::new((0, 0), runtime.bell(format!("memory of {rank}")));
    let memories: Vec<Memory> = (0..program.len()).map(memory).collect();
    let mut bodies = vec![];
    let mut at = vec![];
    for (number, acts) in program.iter().enumerate() {
        let rank = Rank(number as u32);
        at.push(vec![]);
        for (own, acts) in acts.iter().cloned().enumerate() {
            let place: Arc<Mutex<At>> = Arc::default();
            at[number].push(place.clone());
            let gate = runtime.gate(rank, 0);
            let clock = PhaseClock::new(runtime.clock(rank), Trace::NONE);
            let mut lane = Lane::new(runtime.transport(rank), Box::new(Identity), clock);
            let memory = memories[number].clone();
            let run = move || {
                gate.pass(None)?;
                for act in acts {
                    let known = place.lock().unwrap().1;
                    let known = perform(act, known, KINDS[own], &memory, &mut lane)?;
                    let mut place = place.lock().unwrap();
                    *place = (place.0 + 1, known);
                }
                Ok(())
            };
            bodies.push(LaneBody { rank, lane: record::LaneId::Client(own as u16), run: Box::new(run) });
        }
    }
    *end = Some(End { at, memories });
    bodies
}

/// The rest of a program: of lanes that are not at their end, where they are and what they know, and what they share.
type Left = Vec<(Vec<At>, u64)>;

fn left(program: &Program, end: &End) -> Left {
    let rank = |number: usize| {
        let lanes = end.at[number].iter().zip(&program[number]);
        let waiting = lanes.map(|(at, acts)| Some(*at.lock().unwrap()).filter(|at| at.0 < acts.len()));
        let waiting: Vec<At> = waiting.map(Option::unwrap_or_default).collect();
        let value = end.memories[number].read(|(_, value)| *value);
        let over = waiting.iter().all(|at| *at == At::default());
        (waiting, if over { 0 } else { value })
    };
    (0..program.len()).map(rank).collect()
}

/// Every deadlock of a program, by the rest of it; `None` if there are too many orders.
fn deadlocks(program: &Program, choices: Choices) -> Option<(usize, BTreeSet<Left>)> {
    const MOST: usize = 4_000;
    let choices = Arc::new(Mutex::new(choices));
    let mut found = BTreeSet::new();
    for worlds in 1..=MOST {
        let mut world = World { choices: Some(choices.clone()), ..World::new(1) };
        // Nothing takes time, so that only the order matters.
        world.link = Link { latency: Nanos(0), nanos_per_byte: 0.0 };
        world.costs = Costs::default();
        let mut end = None;
        let ended = world.run_lanes(program.len(), |runtime| Ok(lanes(program, runtime, &mut end)));
        let mut choices = choices.lock().unwrap();
        match ended {
            Err(WorldError::Deadlock(_)) if !choices.is_known() => {
                found.insert(left(program, &end.unwrap()));
            }
            Ok(_) | Err(WorldError::Deadlock(_)) => {}
            Err(other) => panic!("{other}"),
        }
        if !choices.another() {
            return Some((worlds, found));
        }
    }
    None
}

/// Every lane ends by waiting, so that every end is a deadlock, and all that was seen on the way is compared.
#[test]
fn what_is_left_out_hides_no_end() {
    let mut one = 0;
    let mut several = 0;
    let mut worlds = [0, 0];
    for seed in 0..200 {
        let program = program(seed, 4);
        let Some((all, expected)) = deadlocks(&program, Choices::every()) else { continue };
        let (few, found) = deadlocks(&program, Choices::new()).unwrap();
        assert_eq!(found, expected, "seed {seed}: {program:?}");
        (if expected.len() == 1 { &mut one } else { &mut several }).add_assign(1);
        worlds = [worlds[0] + few, worlds[1] + all];
    }
    assert!(one > 50 && several > 10 && worlds[0] * 5 < worlds[1], "{one} {several} {worlds:?}");
}

/// The same for longer programs, of which orders that cannot matter are left out in both searches.
#[test]
fn states_that_are_told_apart_by_nothing_have_the_same_ends() {
    let mut several = 0;
    let mut worlds = [0, 0];
    for seed in 0..300 {
        let program = program(seed, 9);
        let Some((all, expected)) = deadlocks(&program, Choices::again()) else { continue };
        let (few, found) = deadlocks(&program, Choices::new()).unwrap();
        assert_eq!(found, expected, "seed {seed}: {program:?}");
        several += u32::from(expected.len() > 1);
        worlds = [worlds[0] + few, worlds[1] + all];
    }
    assert!(several > 25 && worlds[0] < worlds[1], "{several} {worlds:?}");
}
