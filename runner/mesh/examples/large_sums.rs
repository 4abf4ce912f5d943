//! Vectors far beyond the credits of a peer, through every all-reduce: real processes on this machine, over real sockets.
//!
//! `large_sums RANKS WEIGHTS` starts the ranks; each checks every element of every sum, and rank 0 prints a line for each
//! all-reduce:
//!
//! ```text
//! large-sums ranks=2 weights=40000000 collective=pipelined-ring s=0.41
//! ```
//!
//! An all-reduce that waits for room that never comes ends with the deadline of its waits, and so does this program.

#![expect(clippy::print_stdout, reason = "this program's answer")]

use anyhow::{Context, Result, bail, ensure};
use mesh::{Briefing, DataPlane, Deadlines, Member, PROTOCOL, Secret};
use recipe::{Cluster, Collective, Communication, PayloadPath, ReduceOrder, Schedule};
use record::{Clock, Nanos, PhaseClock, Rank, Trace, Work};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};
use strategies::collective::build;
use strategies::compress::Identity;
use strategies::{Group, Kind, Lane, Tag};

struct Monotonic(Instant);

impl Clock for Monotonic {
    fn now(&self) -> Nanos {
        Nanos(self.0.elapsed().as_nanos() as u64)
    }
    fn spend(&self, _: Work) {}
}

fn main() -> Result<()> {
    mesh::keep_freed_memory();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["rank", rank, ranks, weights, sockets] => {
            take_part(Rank(rank.parse()?), ranks.parse()?, weights.parse()?, Path::new(sockets))
        }
        [ranks, weights] => start(ranks.parse()?, weights.parse()?),
        _ => bail!("large_sums RANKS WEIGHTS"),
    }
}

/// Starts the ranks as processes of this program.
fn start(ranks: u32, weights: usize) -> Result<()> {
    let sockets = mesh::private_directory()?;
    let program = std::env::current_exe()?;
    let begin = |rank: u32| {
        let mut command = Command::new(&program);
        command.args(["rank", &rank.to_string(), &ranks.to_string(), &weights.to_string()]).arg(&sockets);
        command.spawn()
    };
    let children: Vec<_> = (0..ranks).map(begin).collect();
    let ended = children.into_iter().map(|child| child.and_then(|mut child| child.wait()));
    let failed = ended.filter(|end| !end.as_ref().is_ok_and(std::process::ExitStatus::success)).count();
    let _ = std::fs::remove_dir_all(&sockets);
    ensure!(failed == 0, "{failed} of {ranks} ranks failed");
    Ok(())
}

/// Every all-reduce that a recipe can ask for.
fn communications() -> Vec<(&'static str, Communication)> {
    let of = |collective, reduce_order| Communication {
        collective,
        schedule: Schedule::Single,
        reduce_order,
        transport: PayloadPath::Zeromq,
    };
    let by = |collective| of(collective, ReduceOrder::Ring);
    vec![
        ("ring", by(Collective::Ring)),
        ("ring,rank-order", of(Collective::Ring, ReduceOrder::Rank)),
        ("pipelined-ring", by(Collective::PipelinedRing { segments: 4 })),
        ("tree", by(Collective::Tree)),
        ("recursive-doubling", by(Collective::RecursiveDoubling)),
        ("halving-doubling", by(Collective::HalvingDoubling)),
        ("star", by(Collective::Star)),
        ("all-gather", by(Collective::AllGather)),
        ("hierarchical", by(Collective::Hierarchical { group_size: Some(2) })),
    ]
}

/// Contribution of a rank: small whole numbers, whose sums are exact in any order.
fn own(rank: u32, element: usize) -> f32 {
    (rank * 7 + (element % 11) as u32) as f32
}

/// The sum over all ranks, in closed form.
fn sum(ranks: u32, element: usize) -> f32 {
    (7 * ranks * (ranks - 1) / 2 + ranks * (element % 11) as u32) as f32
}

fn take_part(rank: Rank, ranks: u32, weights: usize, sockets: &Path) -> Result<()> {
    let clock: Arc<dyn Clock> = Arc::new(Monotonic(Instant::now()));
    let briefing = Briefing {
        protocol: PROTOCOL,
        member: Member::Rank(rank),
        spec: strategies::sim::sample_spec(ranks),
        seed: 1,
        // The directory is the user's own; nothing of value travels.
        secret: Secret([7; 32]),
        sockets: sockets.to_owned(),
        directory: sockets.to_owned(),
        threads: 1,
        deadlines: Deadlines { peer: Duration::from_mins(1), ..Deadlines::default() },
        resume: None,
    };
    let plane = DataPlane::open(&briefing, rank, clock.clone())?;
    let everyone: Arc<[Rank]> = (0..ranks).map(Rank).collect();
    let group = Group::new(&everyone, rank).context("no such rank")?;
    let mut lane = Lane::new(plane.transport(), Box::new(Identity), PhaseClock::new(clock, Trace::NONE));
    for (step, (name, communication)) in (1..).zip(communications()) {
        let seconds = reduce(
            &briefing.spec.cluster,
            &communication,
            Participant { lane: &mut lane, group: &group },
            step,
            weights,
        )
        .with_context(|| format!("{name} on rank {rank}"))?;
        if rank == Rank(0) {
            println!("large-sums ranks={ranks} weights={weights} collective={name} s={seconds:.2}");
        }
    }
    drop(lane);
    plane.close(Duration::from_mins(1))?;
    Ok(())
}

/// A rank's lane, and its place in the group.
struct Participant<'a> {
    lane: &'a mut Lane,
    group: &'a Group,
}

/// One all-reduce, checked; its seconds.
fn reduce(
    cluster: &Cluster,
    communication: &Communication,
    place: Participant<'_>,
    step: u64,
    weights: usize,
) -> Result<f64> {
    let Participant { lane, group } = place;
    let rank = group.me().0 as u32;
    let ranks = group.size() as u32;
    let collective = build(communication, cluster);
    let mut x: Vec<f32> = (0..weights).map(|element| own(rank, element)).collect();
    let begin = Instant::now();
    collective.all_reduce_sum(&mut x, Tag::new(Kind::Reduce, step), &mut lane.wire(group))?;
    let seconds = begin.elapsed().as_secs_f64();
    let right = |(element, value): (usize, &f32)| value.to_bits() == sum(ranks, element).to_bits();
    ensure!(x.iter().enumerate().all(right), "a wrong sum");
    Ok(seconds)
}
