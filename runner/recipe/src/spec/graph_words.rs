//! The graphs of gossip in words, with their spectral gaps.

use crate::{Bounds, Graph, Strategy, Topology};

/// With whom a worker of a strategy averages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Neighbours {
    /// With all neighbours of a graph in each step.
    All(Topology),
    /// With one neighbour at a time: even ranks are active, odd ones passive.
    Pairs(Topology),
    /// With one rank per step, over a directed graph that changes from step to step.
    Directed,
}

impl Strategy {
    /// With whom a worker averages; `None` for a strategy without gossip.
    pub(crate) fn neighbours(&self) -> Option<Neighbours> {
        match self {
            Self::DPsgd { topology, .. } => Some(Neighbours::All(*topology)),
            Self::AdPsgd { topology, .. } => Some(Neighbours::Pairs(*topology)),
            Self::Sgp => Some(Neighbours::Directed),
            Self::PsSync
            | Self::DSync
            | Self::AsyncSgd { .. }
            | Self::AsyncMsgd { .. }
            | Self::HogwildSgd { .. }
            | Self::PipeSgd { .. }
            | Self::LocalSgd { .. }
            | Self::Slowmo { .. }
            | Self::EasgdOriginal { .. }
            | Self::EasgdAsync { .. }
            | Self::MeasgdAsync { .. }
            | Self::EasgdHogwild { .. }
            | Self::EasgdSync { .. }
            | Self::Eamsgd { .. }
            | Self::Gmp { .. }
            | Self::Custom { .. } => None,
        }
    }

    /// The graph over `workers` workers in words, with its spectral gap; `None` for a strategy without gossip.
    pub fn graph_in_words(&self, workers: u32) -> Option<String> {
        let n = workers as usize;
        let words = match self.neighbours()? {
            Neighbours::All(topology) => {
                let graph = Graph::new(topology, n);
                format!("{topology}, {}{}", edges(&graph), gap(graph.mixing().spectral_gap()))
            }
            Neighbours::Pairs(topology) => {
                let graph = Graph::bipartite(topology, n);
                let path = graph.dropped().map_or(String::new(), |[one, other]| {
                    format!(" without its last edge {one}-{other}: a path")
                });
                let edges = edges(&graph);
                let passive = n / 2;
                let active = n - passive;
                let gap = gap(graph.pair_mixing().spectral_gap());
                format!("{topology}{path}, {edges}, {active} active and {passive} passive{gap} per averaging")
            }
            Neighbours::Directed => "one peer per step, 1, 2, 4, ... further".to_owned(),
        };
        Some(format!("{} on {workers}: {words}", self.kind()))
    }
}

fn gap(gap: Option<f64>) -> String {
    gap.map_or(String::new(), |gap| format!(", spectral gap {gap:.4}"))
}

fn edges(graph: &Graph) -> String {
    let edges = match graph.edges() {
        1 => "1 edge".to_owned(),
        edges => format!("{edges} edges"),
    };
    let Bounds { least, most } = graph.degrees();
    if least == most {
        format!("{edges}, degree {most}")
    } else {
        format!("{edges}, degrees {least} to {most}")
    }
}

#[cfg(test)]
mod tests {
    use crate::{Averaging, MixOrder, Strategy, Topology};

    #[test]
    fn graphs_say_what_they_are() {
        let pairs = |topology| Strategy::AdPsgd { topology, averaging: Averaging::EachStep };
        let words = |strategy: &Strategy, workers| strategy.graph_in_words(workers).unwrap();
        let mixed = Strategy::DPsgd { topology: Topology::Ring, order: MixOrder::MixThenStep };
        assert_eq!(words(&mixed, 4), "d-psgd on 4: ring, 4 edges, degree 2, spectral gap 0.6667");
        assert_eq!(words(&mixed, 1), "d-psgd on 1: ring, 0 edges, degree 0");
        assert_eq!(
            words(&pairs(Topology::Ring), 3),
            "ad-psgd on 3: ring without its last edge 0-2: a path, 2 edges, degrees 1 to 2, 2 active and 1 passive, \
             spectral gap 0.2500 per averaging"
        );
        assert_eq!(
            words(&pairs(Topology::Exponential), 16),
            "ad-psgd on 16: exponential, 32 edges, degree 4, 8 active and 8 passive, spectral gap 0.0312 per averaging"
        );
        assert_eq!(words(&Strategy::Sgp, 3), "sgp on 3: one peer per step, 1, 2, 4, ... further");
        assert_eq!(Strategy::DSync.graph_in_words(4), None);
    }
}
