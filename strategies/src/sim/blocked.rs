//! The lanes that wait for what will never come, and the cycles among them.

use super::kernel::{Actor, State, Wait};
use record::{LaneId, Nanos, Rank};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// A lane that waits for what will never come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocked {
    /// The rank of the lane.
    pub rank: Rank,
    /// Its purpose on its rank.
    pub lane: LaneId,
    /// Object of its wait, as the end of a sentence.
    pub wants: String,
    /// Since when, on the world's clock.
    pub since: Nanos,
    /// Whether it waits for the next rank of a cycle of ranks that wait for each other.
    pub on_cycle: bool,
}

impl fmt::Display for Blocked {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "rank {} {} waits for {} since {}", self.rank, self.lane, self.wants, self.since)
    }
}

/// The lanes that wait, those on a cycle first.
pub(super) fn blocked(state: &State) -> Vec<Blocked> {
    let waiting: Vec<Actor> =
        (0..state.actors.len()).filter(|actor| !matches!(state.actors[*actor].wait, Wait::Done)).collect();
    let mut edges: BTreeMap<Rank, BTreeSet<Rank>> = BTreeMap::new();
    for (rank, peer) in waiting.iter().filter_map(|actor| edge(&state.actors[*actor].wait)) {
        edges.entry(rank).or_default().insert(peer);
    }
    let cycle = cycle(&edges);
    let next = cycle.iter().cycle().skip(1);
    let on_cycle: BTreeSet<(Rank, Rank)> = cycle.iter().copied().zip(next.copied()).collect();
    let mut blocked: Vec<Blocked> = waiting
        .into_iter()
        .map(|actor| {
            let lane = &state.actors[actor];
            Blocked {
                rank: lane.rank,
                lane: lane.lane,
                wants: wants(&lane.wait),
                since: lane.since,
                on_cycle: edge(&lane.wait).is_some_and(|edge| on_cycle.contains(&edge)),
            }
        })
        .collect();
    blocked.sort_by_key(|lane| (!lane.on_cycle, lane.rank, lane.lane));
    blocked
}

/// The rank that waits, and the one that it waits for, where it is a particular one.
fn edge(wait: &Wait) -> Option<(Rank, Rank)> {
    match wait {
        Wait::Message { rank, from: Some(from), .. } => Some((*rank, *from)),
        Wait::Credit { from, to, .. } => Some((*from, *to)),
        Wait::Message { from: None, .. }
        | Wait::Bell(_)
        | Wait::Start
        | Wait::Time
        | Wait::Running
        | Wait::Done => None,
    }
}

fn wants(wait: &Wait) -> String {
    match wait {
        Wait::Message { from: Some(from), tag: Some(tag), .. } => format!("{tag} from rank {from}"),
        Wait::Message { kind, .. } => format!("any {kind:?}"),
        Wait::Credit { to, tag, .. } => format!("room to send {tag} to rank {to}"),
        Wait::Bell(name) => name.to_string(),
        Wait::Start => "the start".into(),
        Wait::Time | Wait::Running | Wait::Done => "nothing".into(),
    }
}

/// The ranks on a cycle of waits, each before the one that it waits for; empty if there is none. A rank waits for several
/// others where several of its lanes do.
fn cycle(edges: &BTreeMap<Rank, BTreeSet<Rank>>) -> Vec<Rank> {
    let mut search = Search { edges, path: Vec::new(), seen: BTreeSet::new() };
    edges.keys().find_map(|rank| search.from(*rank)).unwrap_or_default()
}

/// A search in depth.
struct Search<'a> {
    edges: &'a BTreeMap<Rank, BTreeSet<Rank>>,
    path: Vec<Rank>,
    seen: BTreeSet<Rank>,
}

impl Search<'_> {
    fn from(&mut self, rank: Rank) -> Option<Vec<Rank>> {
        if let Some(begin) = self.path.iter().position(|before| *before == rank) {
            return Some(self.path[begin..].to_vec());
        }
        if !self.seen.insert(rank) {
            return None;
        }
        self.path.push(rank);
        let found = self.edges.get(&rank).into_iter().flatten().find_map(|next| self.from(*next));
        self.path.pop();
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cycle_is_found_through_any_of_the_lanes_of_a_rank() {
        let found = |edges: &[(u32, &[u32])]| {
            let edges = edges
                .iter()
                .map(|(rank, peers)| (Rank(*rank), peers.iter().map(|peer| Rank(*peer)).collect()))
                .collect();
            cycle(&edges).iter().map(|rank| rank.0).collect::<Vec<u32>>()
        };
        assert!(found(&[(0, &[1]), (1, &[2])]).is_empty());
        assert_eq!(found(&[(0, &[1]), (1, &[0])]), [0, 1]);
        // One lane of rank 1 waits for rank 0, which is on the cycle, and another for rank 5, which is on none.
        assert_eq!(found(&[(0, &[1]), (1, &[0, 5])]), [0, 1]);
        assert_eq!(found(&[(0, &[3]), (1, &[2, 3]), (2, &[1])]), [1, 2]);
        assert_eq!(found(&[(4, &[4])]), [4]);
    }
}
