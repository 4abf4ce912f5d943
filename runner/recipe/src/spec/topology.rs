//! Who averages with whom: graphs of gossip, what each neighbour weighs, and how fast a graph brings ranks
//! together. Pure.

use crate::spec::bounds::Bounds;
use crate::spec::family::family;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// A matrix of more ranks is not taken apart: its eigenvalues take a time that grows with their third power.
const MOST_RANKS: usize = 128;

family! {
    /// The shape of a graph of gossip.
    #[derive(Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum Topology {
        Ring = "ring": "The two ranks beside each; where `ad-psgd` has an odd number of workers, a path: \
            the last edge is dropped.",
        /// Hops of 1 and of 2^i + 1 for i >= 1, from active ranks only (Lian et al., ICML 2018, section 3.2).
        Exponential = "exponential": "The paper's: each even rank has the ranks 1, 3, 5, 9, ... further \
            round the ring, about log n of them; for an even number of workers.",
        ExponentialWide = "exponential-wide": "The ranks 1, 3, 5, 9, ... further round the ring and back, \
            for every rank: up to 12 workers, and with 16, all ranks of the other parity. \
            With `ad-psgd` for an even number of workers.",
        Complete = "complete": "All other ranks; with `ad-psgd` all of the other parity.",
    }
}

impl Topology {
    /// Distance between neighbouring ranks that send: of the paper's exponential graph, only active ones do.
    const fn senders_apart(self) -> usize {
        match self {
            Self::Exponential => 2,
            Self::Ring | Self::ExponentialWide | Self::Complete => 1,
        }
    }

    /// Whether it is one cycle: of an odd number of ranks, the only edge between equal parities is the last one.
    const fn is_one_cycle(self) -> bool {
        match self {
            Self::Ring => true,
            Self::Exponential | Self::ExponentialWide | Self::Complete => false,
        }
    }
}

/// An undirected graph over ranks, without loops and without double edges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Graph {
    neighbours: Vec<BTreeSet<usize>>,
    dropped: Option<[usize; 2]>,
}

impl Graph {
    /// The whole graph over a number of ranks. Two ranks are each other's one neighbour, and one has none.
    pub fn new(topology: Topology, ranks: usize) -> Self {
        let mut graph = Self { neighbours: vec![BTreeSet::new(); ranks], dropped: None };
        for hop in hops(topology, ranks) {
            (0..ranks)
                .step_by(topology.senders_apart())
                .for_each(|rank| graph.join(rank, (rank + hop) % ranks));
        }
        graph
    }

    /// The same for ranks of two kinds, active ones with even numbers and passive ones with odd: each edge joins one
    /// with one (Lian et al., "Asynchronous Decentralized Parallel Stochastic Gradient Descent", ICML 2018, section
    /// 3). Edges between equal parities are left out: a ring of an odd number drops its last edge and is a path.
    pub fn bipartite(topology: Topology, ranks: usize) -> Self {
        let mut graph = Self::new(topology, ranks);
        for rank in 0..ranks {
            let parity = |other: &usize| (rank + other) % 2 == 1;
            graph.neighbours[rank].retain(parity);
        }
        let odd = ranks > 1 && !ranks.is_multiple_of(2);
        graph.dropped = (odd && topology.is_one_cycle()).then(|| [0, ranks - 1]);
        graph
    }

    fn join(&mut self, one: usize, other: usize) {
        if one != other {
            self.neighbours[one].insert(other);
            self.neighbours[other].insert(one);
        }
    }

    /// Ranks are below it.
    pub fn ranks(&self) -> usize {
        self.neighbours.len()
    }

    /// A rank's neighbours, in the order of their numbers.
    pub fn neighbours(&self, rank: usize) -> impl ExactSizeIterator<Item = usize> + Clone + '_ {
        self.neighbours[rank].iter().copied()
    }

    /// Whether two ranks are neighbours.
    pub fn joins(&self, one: usize, other: usize) -> bool {
        self.neighbours.get(one).is_some_and(|neighbours| neighbours.contains(&other))
    }

    /// The edge that an odd ring lost.
    pub fn dropped(&self) -> Option<[usize; 2]> {
        self.dropped
    }

    /// The fewest and the most neighbours that a rank has.
    pub fn degrees(&self) -> Bounds {
        let degrees = self.neighbours.iter().map(BTreeSet::len);
        Bounds { least: degrees.clone().min().unwrap_or(0), most: degrees.max().unwrap_or(0) }
    }

    /// Each pair of neighbours once.
    pub fn edges(&self) -> usize {
        self.neighbours.iter().map(BTreeSet::len).sum::<usize>() / 2
    }

    /// A row of the mixing matrix: the rank itself and its neighbours, in the order of their numbers, with
    /// Metropolis weights w_ij = 1 / (1 + max(d_i, d_j)) (Xiao, Boyd & Kim, "Distributed average consensus with
    /// least-mean-square deviation", 2007, equation 5). Rows and columns sum to 1, whatever the degrees.
    pub fn weights(&self, rank: usize) -> Vec<(usize, f64)> {
        let degree = |rank: usize| self.neighbours[rank].len();
        let weight = |other| 1.0 / (1 + degree(rank).max(degree(other))) as f64;
        let mut row: Vec<(usize, f64)> = self.neighbours(rank).map(|other| (other, weight(other))).collect();
        let own = 1.0 - row.iter().map(|(_, weight)| weight).sum::<f64>();
        let place = row.partition_point(|(other, _)| *other < rank);
        row.insert(place, (rank, own));
        row
    }

    /// The mixing matrix of a step in which everybody takes part.
    pub fn mixing(&self) -> Mixing {
        let mut rows = vec![vec![0.0; self.ranks()]; self.ranks()];
        for (rank, row) in rows.iter_mut().enumerate() {
            self.weights(rank).into_iter().for_each(|(other, weight)| row[other] = weight);
        }
        Mixing { rows }
    }

    /// Expected mixing matrix of one averaging of a pair, where all active ranks ask equally often, and each asks
    /// all of its neighbours equally often.
    pub fn pair_mixing(&self) -> Mixing {
        let n = self.ranks();
        let active: Vec<usize> =
            (0..n).step_by(2).filter(|rank| !self.neighbours[*rank].is_empty()).collect();
        let mut rows: Vec<Vec<f64>> =
            (0..n).map(|i| (0..n).map(|j| f64::from(u8::from(i == j))).collect()).collect();
        for rank in &active {
            let often = 1.0 / (active.len() * self.neighbours[*rank].len()) as f64;
            for other in self.neighbours(*rank) {
                for (i, j) in [(*rank, other), (other, *rank)] {
                    rows[i][i] -= often / 2.0;
                    rows[i][j] += often / 2.0;
                }
            }
        }
        Mixing { rows }
    }
}

/// How far the neighbours of a rank are, around the ring of all.
fn hops(topology: Topology, ranks: usize) -> Vec<usize> {
    match topology {
        Topology::Ring => vec![1; usize::from(ranks > 1)],
        Topology::Exponential | Topology::ExponentialWide => {
            let further = (1..usize::BITS).map(|i| (1 << i) + 1);
            std::iter::once(1).chain(further).take_while(|hop| *hop < ranks).collect()
        }
        Topology::Complete => (1..ranks).collect(),
    }
}

/// A symmetric matrix that averages: the models after it are the rows times the models before.
#[derive(Clone, Debug, PartialEq)]
pub struct Mixing {
    rows: Vec<Vec<f64>>,
}

impl Mixing {
    /// Row i has the weights with which rank i averages.
    pub fn rows(&self) -> &[Vec<f64>] {
        &self.rows
    }

    /// Its eigenvalues, the largest first, by Jacobi's rotations (Golub & Van Loan, "Matrix Computations", section
    /// 8.5).
    pub fn eigenvalues(&self) -> Vec<f64> {
        let mut a = self.rows.clone();
        let n = a.len();
        for _ in 0..64 {
            let off: f64 =
                (0..n).flat_map(|p| (0..p).map(move |q| (p, q))).map(|(p, q)| a[p][q].powi(2)).sum();
            if off < 1e-26 {
                break;
            }
            (0..n).for_each(|p| (p + 1..n).for_each(|q| rotate(&mut a, p, q)));
        }
        let mut values: Vec<f64> = (0..n).map(|i| a[i][i]).collect();
        values.sort_by(|a, b| b.total_cmp(a));
        values
    }

    /// 1 - max(|lambda_2|, |lambda_n|): the share that a step removes of the slowest part of a disagreement. `None` where
    /// no two can disagree, and where there are too many ranks to tell quickly.
    pub fn spectral_gap(&self) -> Option<f64> {
        if !(2..=MOST_RANKS).contains(&self.rows.len()) {
            return None;
        }
        let values = self.eigenvalues();
        Some(1.0 - values[1].abs().max(values[values.len() - 1].abs()))
    }
}

/// Makes the element (p, q) of a symmetric matrix zero.
fn rotate(a: &mut [Vec<f64>], p: usize, q: usize) {
    if a[p][q] == 0.0 {
        return;
    }
    let tau = (a[q][q] - a[p][p]) / (2.0 * a[p][q]);
    let t = if tau >= 0.0 { 1.0 } else { -1.0 } / (tau.abs() + (1.0 + tau * tau).sqrt());
    let c = 1.0 / (1.0 + t * t).sqrt();
    let s = t * c;
    for row in a.iter_mut() {
        (row[p], row[q]) = (c * row[p] - s * row[q], s * row[p] + c * row[q]);
    }
    let (above, below) = a.split_at_mut(q);
    for (p, q) in above[p].iter_mut().zip(below[0].iter_mut()) {
        (*p, *q) = (c * *p - s * *q, s * *p + c * *q);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-12
    }

    fn neighbours(graph: &Graph, rank: usize) -> Vec<usize> {
        graph.neighbours(rank).collect()
    }

    /// Every graph that any strategy can have.
    fn graphs() -> impl Iterator<Item = (String, Graph)> {
        (1..=24).flat_map(|n| {
            let possible =
                move |topology: &Topology| *topology != Topology::Exponential || n == 1 || n % 2 == 0;
            Topology::ALL.iter().copied().filter(possible).flat_map(move |topology| {
                let name = format!("{topology:?} of {n}");
                [(format!("{name} in two"), Graph::bipartite(topology, n)), (name, Graph::new(topology, n))]
            })
        })
    }

    #[test]
    fn small_graphs_are_what_they_should_be() {
        assert_eq!(neighbours(&Graph::new(Topology::Ring, 5), 0), [1, 4]);
        for topology in Topology::ALL.iter().copied() {
            assert_eq!(neighbours(&Graph::new(topology, 2), 0), [1], "one neighbour, once");
            assert_eq!(Graph::new(topology, 2).weights(1), [(0, 0.5), (1, 0.5)]);
            assert_eq!(Graph::new(topology, 1).weights(0), [(0, 1.0)]);
        }
        // Hops 1, 3, 5 and 9, forwards and backwards.
        let wide = |n| neighbours(&Graph::new(Topology::ExponentialWide, n), 0);
        assert_eq!(wide(12), [1, 3, 5, 7, 9, 11]);
        assert_eq!(wide(20), [1, 3, 5, 9, 11, 15, 17, 19]);
        // Forwards from even ranks, and so backwards from odd ones.
        let paper = |rank| neighbours(&Graph::new(Topology::Exponential, 16), rank);
        assert_eq!((paper(0), paper(14)), (vec![1, 3, 5, 9], vec![1, 3, 7, 15]));
        assert_eq!((paper(1), paper(15)), (vec![0, 8, 12, 14], vec![6, 10, 12, 14]));
        assert_eq!(Graph::new(Topology::Exponential, 16).degrees(), Bounds { least: 4, most: 4 });
        assert_eq!(Graph::bipartite(Topology::Ring, 3).degrees(), Bounds { least: 1, most: 2 });
        assert_eq!(Graph::new(Topology::Complete, 5).edges(), 10);
    }

    #[test]
    fn an_odd_ring_drops_its_last_edge_for_pairs_only() {
        let path = Graph::bipartite(Topology::Ring, 5);
        assert_eq!((path.dropped(), path.edges()), (Some([0, 4]), 4));
        assert_eq!((neighbours(&path, 0), neighbours(&path, 4)), (vec![1], vec![3]));
        assert_eq!(Graph::new(Topology::Ring, 5).edges(), 5);
        assert_eq!(Graph::bipartite(Topology::Ring, 6).dropped(), None);
        assert_eq!(Graph::bipartite(Topology::Ring, 3).edges(), 2);
        assert_eq!(Graph::bipartite(Topology::Exponential, 8), Graph::new(Topology::Exponential, 8));
        assert_eq!(Graph::bipartite(Topology::Exponential, 1).edges(), 0);
        assert_eq!(Graph::bipartite(Topology::Complete, 5).edges(), 6);
    }

    #[test]
    fn parts_have_no_edges_inside_and_everybody_is_reached() {
        for (name, graph) in graphs() {
            let n = graph.ranks();
            let mut reached = BTreeSet::from([0]);
            for _ in 0..n {
                reached =
                    reached.iter().flat_map(|rank| graph.neighbours(*rank)).chain(reached.clone()).collect();
            }
            assert_eq!(reached.len(), n, "{name}");
            if name.ends_with("two") {
                let crossing = |rank| graph.neighbours(rank).all(|other| (rank + other) % 2 == 1);
                assert!((0..n).all(crossing), "{name}");
            }
        }
    }

    #[test]
    fn matrices_are_symmetric_and_sum_to_one_and_contract() {
        for (name, graph) in graphs() {
            for mixing in [graph.mixing(), graph.pair_mixing()] {
                let rows = mixing.rows();
                let n = graph.ranks();
                for i in 0..n {
                    assert!(close(rows[i].iter().sum(), 1.0), "{name}: row {i}");
                    assert!(close(rows.iter().map(|row| row[i]).sum(), 1.0), "{name}: column {i}");
                    assert!((0..n).all(|j| rows[i][j] >= 0.0 && close(rows[i][j], rows[j][i])), "{name}");
                }
                let values = mixing.eigenvalues();
                assert!((values[0] - 1.0).abs() < 1e-9, "{name}: {values:?}");
                assert!(values[1..].iter().all(|value| value.abs() < 1.0 - 1e-6), "{name}: {values:?}");
            }
        }
    }

    /// On a path, 1 / (1 + d) in each row would not do: its columns do not sum to 1.
    #[test]
    fn weights_of_uneven_degrees_are_those_of_metropolis() {
        let path = Graph::bipartite(Topology::Ring, 3);
        let third = 1.0 / 3.0;
        let expected = [[2.0 * third, third, 0.0], [third; 3], [0.0, third, 2.0 * third]];
        for (row, expected) in path.mixing().rows().iter().zip(expected) {
            assert!(row.iter().zip(expected).all(|(a, b)| close(*a, b)), "{row:?}");
        }
    }

    /// Where every rank has the same neighbourhood, waves around the ring are eigenvectors.
    #[test]
    fn eigenvalues_are_those_of_waves() {
        for n in 2..=16 {
            for topology in [Topology::Ring, Topology::ExponentialWide, Topology::Complete] {
                let graph = Graph::new(topology, n);
                let row = graph.weights(0);
                let wave = |m: usize| -> f64 {
                    let angle = |j: usize| 2.0 * std::f64::consts::PI * (m * j) as f64 / n as f64;
                    row.iter().map(|(j, weight)| weight * angle(*j).cos()).sum()
                };
                let mut expected: Vec<f64> = (0..n).map(wave).collect();
                expected.sort_by(|a, b| b.total_cmp(a));
                let found = graph.mixing().eigenvalues();
                assert!(
                    found.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-9),
                    "{topology:?} of {n}"
                );
            }
        }
    }

    /// An averaging takes 1 / (2 |E|) of the graph's Laplacian from the identity where each edge is as likely as any other.
    /// On the paper's graph, whose d hops lead from one half to the other, the Laplacian's second eigenvalue is
    /// d - max |sum of e^(2 pi i m hop / n)| over waves m that are not constant on both halves.
    #[test]
    fn gaps_of_the_papers_graph() {
        let times_n = |topology, n: usize| {
            n as f64 * Graph::bipartite(topology, n).pair_mixing().spectral_gap().unwrap()
        };
        let by_waves = |n: usize| {
            let hops: Vec<usize> = [1, 3, 5, 9, 17, 33].into_iter().filter(|hop| *hop < n).collect();
            let length = |m: usize| {
                let angle = |hop: &usize| 2.0 * std::f64::consts::PI * (m * hop) as f64 / n as f64;
                let sum = |part: fn(f64) -> f64| hops.iter().map(|hop| part(angle(hop))).sum::<f64>();
                sum(f64::cos).hypot(sum(f64::sin))
            };
            let most = (1..n).filter(|m| 2 * m != n).map(length).fold(0.0, f64::max);
            let edges = (n / 2 * hops.len()) as f64;
            n as f64 * (hops.len() as f64 - most) / (2.0 * edges)
        };
        for n in [6, 8, 10, 12, 16, 24, 32, 64] {
            let found = times_n(Topology::Exponential, n);
            assert!((found - by_waves(n)).abs() < 1e-9, "{n}: {found} and {}", by_waves(n));
        }
        assert!((times_n(Topology::Exponential, 16) - 0.5).abs() < 0.005);
        for topology in [Topology::Complete, Topology::ExponentialWide] {
            assert!((times_n(topology, 16) - 1.0).abs() < 1e-9, "{topology:?}");
        }
    }

    #[test]
    fn gaps_by_hand() {
        let gap = |topology, n| Graph::new(topology, n).mixing().spectral_gap();
        // A ring of 4: 1, 1/3, 1/3, -1/3.
        assert!((gap(Topology::Ring, 4).unwrap() - 2.0 / 3.0).abs() < 1e-9);
        assert!((gap(Topology::Complete, 7).unwrap() - 1.0).abs() < 1e-9);
        assert_eq!(gap(Topology::Ring, 1), None);
        assert_eq!(gap(Topology::Ring, 129), None);
        // Two ranks that average are one.
        let pair = Graph::bipartite(Topology::Ring, 2).pair_mixing();
        assert!((pair.spectral_gap().unwrap() - 1.0).abs() < 1e-9);
    }
}
