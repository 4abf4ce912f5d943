//! How long an all-reduce takes over the data plane: real processes on this machine, one thread of computation each.
//!
//! `all_reduce WAY RANKS BYTES...` starts the ranks, which use `zeromq` over Unix sockets, `zeromq-tcp` over the loopback,
//! `shared-memory`, all three with a ring, or `shared-memory-doubling`, which is recursive doubling, and prints a line for each
//! size; `bakeoff` is `bakeoff-tcp`, `bakeoff-shared` or `bakeoff-doubling` for the others:
//!
//! ```text
//! all-reduce bakeoff ranks=2 bytes=4096 us=61.0 mean=64.2 wait=0.61 transfer=0.02 encode=0.01 add=0.01 send=0.30 cpu=0.71
//! ```
//!
//! `us` is the median on rank 0 of the time from a barrier to the sum, `mean` the mean of these times; the shares are of that time, the mean
//! over all ranks; `cpu` is the processor time of all ranks together, divided by the time and the number of cores
//! that they could have used.

#![expect(clippy::print_stdout, reason = "this program's answer")]

use anyhow::{Context, Result, bail};
use mesh::{Briefing, DataPlane, Deadlines, Member, PROTOCOL, Secret};
use recipe::{Collective, PayloadPath};
use record::{Clock, Nanos, Phase, PhaseClock, Rank, Trace, Work};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use strategies::collective::{CollectiveAlgorithm, build};
use strategies::compress::Identity;
use strategies::{Group, Kind, Lane, Tag};

/// Rounds that are not counted.
const WARM_UP: usize = 2;

struct Monotonic(Instant);

impl Clock for Monotonic {
    fn now(&self) -> Nanos {
        Nanos(self.0.elapsed().as_nanos() as u64)
    }
    fn spend(&self, _: Work) {}
}

/// The shares that are printed: a word, and the phases that it stands for.
const SHARES: [(&str, &[Phase]); 5] = [
    ("wait", &[Phase::WaitPeer]),
    ("transfer", &[Phase::Transfer]),
    ("encode", &[Phase::Encode]),
    ("add", &[Phase::Decode, Phase::Reduce]),
    ("send", &[Phase::Send]),
];

fn main() -> Result<()> {
    mesh::keep_freed_memory();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["rank", rank, way, ranks, sockets, ref sizes @ ..] => {
            let place =
                Participant { rank: Rank(rank.parse()?), ranks: ranks.parse()?, way: Way::parse(way)? };
            take_part(&place, Path::new(sockets), &numbers(sizes)?)
        }
        [way, ranks, ref sizes @ ..] => {
            let ranks = ranks.parse()?;
            start(&Way::parse(way)?.with_ports(ranks)?, ranks, &numbers(sizes)?)
        }
        _ => bail!("all_reduce WAY RANKS BYTES..."),
    }
}

/// A rank, and how it communicates.
struct Participant {
    rank: Rank,
    ranks: u32,
    way: Way,
}

/// Path of the bytes between ranks.
enum Way {
    /// ZeroMQ over Unix sockets.
    Unix,
    /// ZeroMQ over the loopback, with a port per rank.
    Tcp(Vec<u16>),
    SharedMemory(Collective),
}

impl Way {
    fn parse(word: &str) -> Result<Self> {
        let (name, ports) = word.split_once(':').unwrap_or((word, ""));
        match name {
            "zeromq" => Ok(Self::Unix),
            "zeromq-tcp" => {
                let ports = ports.split(',').filter(|port| !port.is_empty());
                Ok(Self::Tcp(ports.map(str::parse).collect::<Result<_, _>>()?))
            }
            "shared-memory" => Ok(Self::SharedMemory(Collective::Ring)),
            "shared-memory-doubling" => Ok(Self::SharedMemory(Collective::RecursiveDoubling)),
            _ => bail!("`{name}` is no way"),
        }
    }

    /// The same with ports at which nothing listens.
    fn with_ports(self, ranks: u32) -> Result<Self> {
        let Self::Tcp(_) = self else { return Ok(self) };
        let listeners = (0..ranks).map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)));
        let listeners: Vec<TcpListener> = listeners.collect::<Result<_, _>>()?;
        let ports = listeners.iter().map(|listener| Ok(listener.local_addr()?.port()));
        Ok(Self::Tcp(ports.collect::<Result<_>>()?))
    }

    /// As [`Way::parse`] reads it.
    fn word(&self) -> String {
        match self {
            Self::Unix => "zeromq".to_owned(),
            Self::Tcp(ports) => {
                let ports: Vec<String> = ports.iter().map(ToString::to_string).collect();
                format!("zeromq-tcp:{}", ports.join(","))
            }
            Self::SharedMemory(Collective::RecursiveDoubling) => "shared-memory-doubling".to_owned(),
            Self::SharedMemory(_) => "shared-memory".to_owned(),
        }
    }

    fn transport(&self) -> PayloadPath {
        match self {
            Self::Unix | Self::Tcp(_) => PayloadPath::Zeromq,
            Self::SharedMemory(_) => PayloadPath::SharedMemory,
        }
    }

    fn collective(&self) -> Collective {
        match self {
            Self::Unix | Self::Tcp(_) => Collective::Ring,
            Self::SharedMemory(collective) => *collective,
        }
    }

    fn open(&self, briefing: &Briefing, clock: Arc<dyn Clock>, rank: Rank) -> Result<DataPlane> {
        Ok(match self {
            Self::Unix | Self::SharedMemory(_) => DataPlane::open(briefing, rank, clock)?,
            Self::Tcp(ports) => {
                let at = |port: &u16| SocketAddr::from((Ipv4Addr::LOCALHOST, *port));
                DataPlane::open_on(briefing, rank, clock, &ports.iter().map(at).collect::<Vec<_>>())?
            }
        })
    }
}

fn numbers(words: &[&str]) -> Result<Vec<usize>> {
    words.iter().map(|word| word.parse().with_context(|| format!("`{word}` is no size"))).collect()
}

/// One size as one rank has seen it: times in nanoseconds, and the share of each entry of [`SHARES`].
#[derive(Clone, Debug, Default)]
struct Seen {
    median: f64,
    mean: f64,
    shares: Vec<f64>,
    /// Processor time by time.
    cores: f64,
}

/// Starts the ranks as processes of this program and prints what they have seen.
fn start(way: &Way, ranks: u32, sizes: &[usize]) -> Result<()> {
    let sockets = mesh::private_directory()?;
    let program: PathBuf = std::env::current_exe()?;
    let mut children = Vec::new();
    for rank in 0..ranks {
        let mut command = Command::new(&program);
        command.args(["rank", &rank.to_string(), &way.word(), &ranks.to_string()]).arg(&sockets);
        command.args(sizes.iter().map(ToString::to_string)).stdout(Stdio::piped());
        children.push(command.spawn()?);
    }
    let mut seen: BTreeMap<usize, Vec<Seen>> = BTreeMap::new();
    for child in &mut children {
        let output = child.stdout.take().context("no pipe")?;
        for line in BufReader::new(output).lines() {
            let line = line?;
            let values: Vec<f64> = line.split(' ').map(str::parse).collect::<Result<_, _>>()?;
            let [bytes, median, mean, cores, shares @ ..] = values.as_slice() else { bail!("`{line}`") };
            let entry = Seen { median: *median, mean: *mean, cores: *cores, shares: shares.to_vec() };
            seen.entry(*bytes as usize).or_default().push(entry);
        }
    }
    let ended: Vec<bool> =
        children.iter_mut().map(|child| child.wait().is_ok_and(|end| end.success())).collect();
    let _ = std::fs::remove_dir_all(&sockets);
    if ended.contains(&false) {
        bail!("a rank failed");
    }
    for (bytes, by_rank) in seen {
        print_line(way, bytes, &by_rank)?;
    }
    Ok(())
}

fn print_line(way: &Way, bytes: usize, by_rank: &[Seen]) -> Result<()> {
    let ranks = by_rank.len();
    let cores = std::thread::available_parallelism()?.get().min(ranks);
    let name = match way {
        Way::Unix => "bakeoff",
        Way::Tcp(_) => "bakeoff-tcp",
        Way::SharedMemory(Collective::RecursiveDoubling) => "bakeoff-doubling",
        Way::SharedMemory(_) => "bakeoff-shared",
    };
    let mean = |of: &dyn Fn(&Seen) -> f64| by_rank.iter().map(of).sum::<f64>() / by_rank.len() as f64;
    let first = by_rank.first().context("no rank answered")?;
    let shares: Vec<String> = SHARES
        .iter()
        .enumerate()
        .map(|(at, (word, _))| format!("{word}={:.3}", mean(&|seen| seen.shares[at])))
        .collect();
    let cpu = mean(&|seen| seen.cores) * ranks as f64 / cores as f64;
    println!(
        "all-reduce {name} ranks={ranks} bytes={bytes} us={:.1} mean={:.1} {} cpu={cpu:.3}",
        first.median / 1e3,
        first.mean / 1e3,
        shares.join(" ")
    );
    Ok(())
}

/// How often a size is measured.
fn rounds(bytes: usize) -> usize {
    match bytes {
        0..=16_384 => 400,
        16_385..=262_144 => 200,
        262_145..=4_194_304 => 60,
        4_194_305..=33_554_432 => 15,
        _ => 5,
    }
}

fn take_part(place: &Participant, sockets: &Path, sizes: &[usize]) -> Result<()> {
    let Participant { rank, ranks, ref way } = *place;
    let clock: Arc<dyn Clock> = Arc::new(Monotonic(Instant::now()));
    let deadlines = Deadlines { peer: Duration::from_secs(20), ..Deadlines::default() };
    let mut briefing = Briefing {
        protocol: PROTOCOL,
        member: Member::Rank(rank),
        spec: strategies::sim::sample_spec(ranks),
        seed: 1,
        // The directory is the user's own; nothing of value travels.
        secret: Secret([7; 32]),
        sockets: sockets.to_owned(),
        directory: sockets.to_owned(),
        threads: 1,
        deadlines,
        resume: None,
    };
    briefing.spec.communication.transport = way.transport();
    briefing.spec.communication.collective = way.collective();
    let collective = build(&briefing.spec.communication, &briefing.spec.cluster);
    let plane = way.open(&briefing, clock.clone(), rank)?;
    plane.write_packets_into_shared_memory();
    let everyone: Arc<[Rank]> = (0..ranks).map(Rank).collect();
    let group = Group::new(&everyone, rank).context("no such rank")?;
    let phases = PhaseClock::new(clock, Trace::NONE);
    let mut lane = Lane::new(plane.transport(), Box::new(Identity), phases);
    let mut step = 0;
    for bytes in sizes {
        let seen = measure(collective.as_ref(), &mut lane, &group, &mut step, *bytes)?;
        let shares: Vec<String> = seen.shares.iter().map(ToString::to_string).collect();
        println!("{bytes} {} {} {} {}", seen.median, seen.mean, seen.cores, shares.join(" "));
    }
    drop(lane);
    plane.close(Duration::from_secs(10))?;
    Ok(())
}

fn measure(
    collective: &dyn CollectiveAlgorithm,
    lane: &mut Lane,
    group: &Group,
    step: &mut u64,
    bytes: usize,
) -> Result<Seen> {
    let ranks = group.size();
    let rank = group.me().0;
    let mut x = vec![0.0_f32; bytes / 4];
    let mut barrier = vec![0.0_f32; ranks];
    let mut times = Vec::new();
    let mut totals = vec![Nanos(0); SHARES.len()];
    let mut busy = Duration::ZERO;
    for round in 0..WARM_UP + rounds(bytes) {
        x.fill(rank as f32 + 1.0);
        *step += 2;
        collective.all_reduce_sum(&mut barrier, Tag::new(Kind::Reduce, *step - 1), &mut lane.wire(group))?;
        lane.clock.next_step(*step);
        let begin = Instant::now();
        let used = processor_time();
        collective.all_reduce_sum(&mut x, Tag::new(Kind::Reduce, *step), &mut lane.wire(group))?;
        let time = begin.elapsed();
        let used = processor_time().saturating_sub(used);
        let timing = lane.clock.next_step(*step);
        let expected = (ranks * (ranks + 1) / 2) as f32;
        if x.iter().any(|value| value.to_bits() != expected.to_bits()) {
            bail!("a wrong sum");
        }
        if round >= WARM_UP {
            times.push(time.as_nanos() as f64);
            busy += used;
            for (total, (_, phases)) in totals.iter_mut().zip(SHARES) {
                *total += phases.iter().fold(Nanos(0), |sum, phase| sum + timing.phases[*phase]);
            }
        }
    }
    let all: f64 = times.iter().sum();
    let shares = totals.into_iter().map(|total| total.0 as f64 / all).collect();
    times.sort_by(f64::total_cmp);
    Ok(Seen {
        median: times[times.len() / 2],
        mean: all / times.len() as f64,
        shares,
        cores: busy.as_nanos() as f64 / all,
    })
}

/// Processor time that this process has used.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
