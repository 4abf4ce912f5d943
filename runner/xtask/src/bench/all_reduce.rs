//! All-reduces over ZeroMQ, by Unix sockets and by TCP, and over shared memory by two collectives, on one host, real processes, beside Gloo and Open MPI.

use std::collections::BTreeMap;

use anyhow::{Context, Result};

use super::line::{Line, lines};
use super::peers::Peers;
use super::table::{Table, beside, times};
use super::turns::Turns;
use super::{TURNS, median};
use crate::child::Child;
use crate::workspace::Workspace;

const RANKS: [u32; 2] = [2, 4];
const SIZES: [(&str, &str); 5] = [
    ("4096", "4 KiB"),
    ("65536", "64 KiB"),
    ("1048576", "1 MiB"),
    ("10485760", "10 MiB"),
    ("104857600", "100 MiB"),
];

/// The times of a program for a number of ranks and a size, one per turn.
type Found = BTreeMap<(String, u32, u64), Vec<Line>>;

/// Gives each program its turns and lays the results side by side.
pub(super) fn measure(workspace: &Workspace, peers: &Peers, turns: &mut Turns) -> Result<Table> {
    let mut found = Found::new();
    for turn in 1..=TURNS {
        for ranks in RANKS {
            eprintln!("all-reduce: turn {turn} of {TURNS}, {ranks} ranks");
            for program in programs(workspace, peers, ranks)? {
                for line in turns.turn(turn, || Ok(lines(&program.read()?, "all-reduce")))? {
                    let (Some(name), Some(bytes)) = (line.words.get(1), line.value("bytes")) else {
                        continue;
                    };
                    found.entry((name.clone(), ranks, bytes as u64)).or_default().push(line);
                }
            }
        }
    }
    let title = "All-reduce of 32-bit floats between processes of this machine (how many times as fast zeromq is than a peer; its \
                 GB/s and bound; all of ours are rings but for the recursive doubling over shared memory)";
    let heads = [
        "ranks",
        "size",
        "zeromq",
        "over TCP",
        "shared memory",
        "doubling",
        "Gloo",
        "Open MPI",
        "GB/s",
        "bound by",
    ];
    let mut table = Table::new(title, &heads);
    for ranks in RANKS {
        for (bytes, size) in SIZES {
            table.push(row(&found, ranks, bytes.parse()?, size)?);
        }
    }
    Ok(table)
}

/// The programs, in the order of their turns.
fn programs(workspace: &Workspace, peers: &Peers, ranks: u32) -> Result<Vec<Child>> {
    let own = workspace.target_folder()?.join("release/examples/all_reduce");
    let count = ranks.to_string();
    let own = |transport| Child::new(&own.to_string_lossy()).arguments(&[transport, &count]);
    let mut turns =
        vec![own("zeromq"), own("zeromq-tcp"), own("shared-memory"), own("shared-memory-doubling")];
    if let Some(python) = peers.python() {
        let program = workspace.root().join("tests/peers/all_reduce.py");
        turns.push(Child::new(&python.to_string_lossy()).argument(program).argument(&count));
    }
    if let Some(program) = peers.mpi() {
        let run = ["--allow-run-as-root", "--oversubscribe", "-np", &count];
        turns.push(Child::new("mpirun").arguments(&run).argument(program));
    }
    let sizes = SIZES.map(|(bytes, _)| bytes);
    Ok(turns.into_iter().map(|turn| turn.arguments(&sizes)).collect())
}

fn row(found: &Found, ranks: u32, bytes: u64, size: &str) -> Result<Vec<String>> {
    let of = |name: &str, value: &str| {
        let turns = found.get(&(name.to_owned(), ranks, bytes)).map_or(&[][..], Vec::as_slice);
        turns.iter().filter_map(|line| line.value(value)).collect::<Vec<f64>>()
    };
    let ours = of("bakeoff", "us");
    let middle = median(&ours).with_context(|| format!("no time for {size} and {ranks} ranks"))?;
    let share = |name| median(&of("bakeoff", name)).unwrap_or(0.0);
    Ok(vec![
        ranks.to_string(),
        size.to_owned(),
        times(&ours),
        times(&of("bakeoff-tcp", "us")),
        times(&of("bakeoff-shared", "us")),
        times(&of("bakeoff-doubling", "us")),
        beside(&of("gloo", "us"), &ours),
        beside(&of("mpi", "us"), &ours),
        format!("{:.2}", bytes as f64 / middle / 1e3),
        bound(&Shares {
            cpu: share("cpu"),
            wait: share("wait"),
            transfer: share("transfer"),
            copy: share("encode") + share("send"),
            add: share("add"),
        }),
    ])
}

/// Where the time of an all-reduce goes, as shares of it.
#[derive(Clone, Copy, Debug, Default)]
struct Shares {
    /// Of the processor time that the ranks could have had.
    cpu: f64,
    /// No peer has begun to send.
    wait: f64,
    /// Bytes on their way through a socket.
    transfer: f64,
    /// Encoding and handing over.
    copy: f64,
    add: f64,
}

/// The bound of a row: busy cores, else the activity with the largest share of the time.
const BUSY: f64 = 0.85;

fn bound(shares: &Shares) -> String {
    let Shares { cpu, wait, transfer, copy, add } = *shares;
    let percent = |share: f64| format!("{:.0} %", 100.0 * share);
    let parts = [
        (wait, "latency", "waiting for a peer to begin"),
        (transfer, "copying", "in sockets"),
        (copy, "copying", "encoding and handing over"),
        (add, "arithmetic", "adding"),
    ];
    let Some((share, word, what)) = parts.into_iter().max_by(|a, b| a.0.total_cmp(&b.0)) else {
        return String::new();
    };
    let what = format!("{} {what}, cores {} busy", percent(share), percent(cpu));
    if cpu >= BUSY { format!("cores ({what})") } else { format!("{word} ({what})") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_bounds_a_row_follows_from_its_shares() {
        let small = Shares { cpu: 0.5, wait: 0.8, transfer: 0.15, ..Shares::default() };
        assert_eq!(bound(&small), "latency (80 % waiting for a peer to begin, cores 50 % busy)");
        let large = Shares { cpu: 0.7, wait: 0.1, transfer: 0.7, add: 0.1, ..Shares::default() };
        assert_eq!(bound(&large), "copying (70 % in sockets, cores 70 % busy)");
        assert!(bound(&Shares { cpu: 0.9, ..large }).starts_with("cores (70 % in sockets"));
        assert!(bound(&Shares { add: 0.6, wait: 0.2, ..Shares::default() }).starts_with("arithmetic"));
    }
}
