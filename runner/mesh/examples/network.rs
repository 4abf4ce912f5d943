//! One rank of a measurement of networks: transfers and D-Sync steps, over an emulated card or over TCP as the kernel
//! shapes it. `cargo xtask bench network` starts the ranks, in network namespaces where the kernel is measured.
//!
//! ```text
//! network RANK RANKS FOLDER WAY JOB
//! WAY   emulated:BYTES_PER_SECOND:LATENCY_NANOS | tcp:FIRST_ADDRESS:PORT   (ranks have consecutive addresses)
//! JOB   one-way:BYTES:REPEATS                   rank 0 sends to rank 1, which prints the nanoseconds of each
//!       ring:BYTES:REPEATS                      each sends to the next at the same time; each prints its own
//!       d-sync:WEIGHTS:STEPS                    each prints the nanoseconds of its steps
//! ```

#![expect(clippy::print_stdout, reason = "the numbers are the program's answer")]

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use mesh::{Briefing, DataPlane, Deadlines, Member, PROTOCOL, PreciseTimer, Secret};
use recipe::Extent;
use record::{Clock, Event, Nanos, Rank, SnapshotRecord, StepRecord, Work};
use rustix::time::{ClockId, clock_gettime};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use strategies::emulation::{Arrivals, EmulatedNic, Fabric, Link};
use strategies::sim::sample_spec;
use strategies::toy::Quadratic;
use strategies::{
    Bell, Blueprint, Gate, Kind, Observer, Packet, Runtime, SamplePartition, StepError, Tag, TrainingPlan,
    Transport, Vector,
};

fn main() -> Result<()> {
    mesh::keep_freed_memory();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [rank, ranks, folder, way, job] = arguments.as_slice() else {
        bail!("network RANK RANKS FOLDER WAY JOB");
    };
    let rank = Rank(rank.parse()?);
    let ranks = ranks.parse()?;
    let link = Way::open(rank, ranks, Path::new(folder), way)?;
    let job: Vec<&str> = job.split(':').collect();
    match job.as_slice() {
        ["one-way", bytes, repeats] => one_way(&link, rank, bytes.parse()?, repeats.parse()?)?,
        ["ring", bytes, repeats] => {
            ring(&link, Participant { me: rank, ranks }, bytes.parse()?, repeats.parse()?)?;
        }
        ["d-sync", weights, steps] => {
            d_sync(&link, Participant { me: rank, ranks }, weights.parse()?, steps.parse()?)?;
        }
        _ => bail!("unknown job"),
    }
    link.plane.close(Duration::from_secs(10))?;
    Ok(())
}

/// The machine's monotonic clock, which all namespaces share.
struct Monotonic;

impl Clock for Monotonic {
    fn now(&self) -> Nanos {
        let time = clock_gettime(ClockId::Monotonic);
        Nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
    }
    fn spend(&self, _: Work) {}
}

/// A rank's way to the others.
struct Way {
    plane: DataPlane,
    card: Option<Arc<EmulatedNic>>,
}

impl Way {
    fn open(me: Rank, ranks: u32, folder: &Path, way: &str) -> Result<Self> {
        let briefing = briefing(me, ranks, folder);
        let parts: Vec<&str> = way.split(':').collect();
        match parts.as_slice() {
            ["emulated", bandwidth, latency] => {
                let link = Link {
                    latency: Nanos(latency.parse()?),
                    nanos_per_byte: 1e9 / bandwidth.parse::<f64>()?,
                };
                let timer = PreciseTimer::new(Arc::new(Monotonic), || false);
                let card = EmulatedNic::new(me, Fabric::new(link, ranks as usize, |_| 1.0), timer);
                let arrivals = Some(card.clone() as Arc<dyn Arrivals>);
                let plane = DataPlane::open_watched(&briefing, me, Arc::new(Monotonic), arrivals)?;
                Ok(Self { plane, card: Some(card) })
            }
            ["tcp", first, port] => {
                let first = u32::from(first.parse::<Ipv4Addr>()?);
                let port: u16 = port.parse()?;
                let at = |rank| SocketAddr::new(IpAddr::V4(Ipv4Addr::from(first + rank)), port);
                let addresses: Vec<SocketAddr> = (0..ranks).map(at).collect();
                let plane = DataPlane::open_on(&briefing, me, Arc::new(Monotonic), &addresses)?;
                Ok(Self { plane, card: None })
            }
            _ => bail!("unknown way"),
        }
    }

    fn transport(&self) -> Box<dyn Transport> {
        match &self.card {
            Some(card) => card.transport(self.plane.carrier()),
            None => self.plane.transport(),
        }
    }
}

fn briefing(me: Rank, ranks: u32, folder: &Path) -> Briefing {
    Briefing {
        protocol: PROTOCOL,
        member: Member::Rank(me),
        spec: sample_spec(ranks),
        seed: 1,
        // The ranks of a measurement have nothing to hide from each other.
        secret: Secret([7; 32]),
        sockets: folder.to_owned(),
        directory: folder.to_owned(),
        threads: 1,
        deadlines: Deadlines::default(),
        resume: None,
    }
}

/// A message that carries the moment at which it was sent.
fn stamped(bytes: usize) -> Packet {
    let mut packet = vec![1; bytes.max(8)];
    packet[..8].copy_from_slice(&Monotonic.now().0.to_le_bytes());
    Packet(Bytes::from(packet))
}

/// How long ago a message was sent.
fn age(packet: &Packet) -> Nanos {
    let mut sent = [0; 8];
    sent.copy_from_slice(&packet.0[..8]);
    Monotonic.now().since(Nanos(u64::from_le_bytes(sent)))
}

fn one_way(way: &Way, me: Rank, bytes: usize, repeats: u64) -> Result<()> {
    let mut transport = way.transport();
    for repeat in 1..=repeats {
        let there = Tag::new(Kind::Ask, repeat);
        let back = Tag::new(Kind::Answer, repeat);
        if me == Rank(0) {
            // Whatever collects on a link that is idle is the same before each message.
            std::thread::sleep(Duration::from_millis(20));
            transport.send(Rank(1), there, stamped(bytes))?;
            transport.recv(Rank(1), back)?;
        } else {
            println!("{}", age(&transport.recv(Rank(0), there)?.packet).0);
            transport.send(Rank(0), back, stamped(8))?;
        }
    }
    Ok(())
}

/// A rank among all.
struct Participant {
    me: Rank,
    ranks: u32,
}

fn ring(way: &Way, place: Participant, bytes: usize, repeats: u64) -> Result<()> {
    let Participant { me, ranks } = place;
    let mut transport = way.transport();
    let next = Rank((me.0 + 1) % ranks);
    let before = Rank((me.0 + ranks - 1) % ranks);
    for repeat in 1..=repeats {
        let tag = Tag::new(Kind::Exchange, repeat);
        transport.send(next, tag, stamped(bytes))?;
        println!("{}", age(&transport.recv(before, tag)?.packet).0);
    }
    Ok(())
}

fn d_sync(way: &Way, place: Participant, weights: usize, steps: u64) -> Result<()> {
    let Participant { me, ranks } = place;
    let mut spec = sample_spec(ranks);
    spec.train.length = Extent::Steps(steps);
    spec.measure.hash_every_step = false;
    let course = TrainingPlan::new(&spec, SamplePartition::shared_by(5, (0..1000).collect()));
    let blueprint = Blueprint::new(&spec, Arc::new(course), weights);
    let host = Stand { way, steps: Arc::default() };
    let learner = Box::new(Quadratic::new(0.5, vec![1.0; weights], 1));
    let lane = blueprint.lanes(me, Some(learner), &host)?.into_iter().next().context("a rank has a lane")?;
    (lane.run)()?;
    let steps = host.steps.0.lock().unwrap_or_else(PoisonError::into_inner);
    steps.iter().filter(|step| !step.drain).for_each(|step| println!("{}", step.length.0));
    Ok(())
}

/// Runtime of a rank with a single lane.
struct Stand<'a> {
    way: &'a Way,
    steps: Arc<Steps>,
}

#[derive(Default)]
struct Steps(Mutex<Vec<StepRecord>>);

impl Observer for Steps {
    fn event(&self, event: Event) {
        if let Event::Step(step) = event {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).push(step);
        }
    }
    fn snapshot(&self, _: SnapshotRecord, _: &Vector) {}
    fn checkpoint(&self, _: strategies::Checkpoint) {}
    fn stopping(&self) -> bool {
        false
    }
}

struct Open;

impl Gate for Open {
    fn pass(&self, _: Option<&Vector>) -> Result<(), StepError> {
        Ok(())
    }
}

impl Bell for Open {
    fn count(&self) -> u64 {
        0
    }
    fn ring(&self) {}
    fn wait(&self, _: u64) -> Result<(), StepError> {
        Err(StepError::Stopped)
    }
}

impl Runtime for Stand<'_> {
    fn clock(&self, _: Rank) -> Arc<dyn Clock> {
        Arc::new(Monotonic)
    }
    fn transport(&self, _: Rank) -> Box<dyn Transport> {
        self.way.transport()
    }
    fn bell(&self, _: String) -> Arc<dyn Bell> {
        Arc::new(Open)
    }
    fn gate(&self, _: Rank, _: usize) -> Arc<dyn Gate> {
        Arc::new(Open)
    }
    fn observer(&self, _: Rank) -> Arc<dyn Observer> {
        self.steps.clone()
    }
}
