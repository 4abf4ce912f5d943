//! What is particular about strategies without a centre: their graphs in words, and what cannot work about them.

use crate::assign::{USE, WORKERS};
use crate::method::TOPOLOGY;
use crate::problem::Finding;
use crate::resolve::STRATEGY_KIND;
use crate::setting::Settings;
use crate::{Graph, Strategy, Topology};

/// Whether models are averaged between neighbours only.
pub(crate) fn is(strategy: &Strategy) -> bool {
    matches!(strategy, Strategy::DPsgd { .. } | Strategy::AdPsgd { .. } | Strategy::Sgp)
}

/// What cannot work about a graph over so many workers.
pub(crate) fn findings(settings: &Settings, strategy: &Strategy, workers: u32) -> Option<Finding> {
    let (topology, pairs) = match strategy {
        Strategy::AdPsgd { topology, .. } => (*topology, true),
        Strategy::DPsgd { topology, .. } => (*topology, false),
        _ => return None,
    };
    let halved = match topology {
        Topology::Exponential => true,
        Topology::ExponentialWide => pairs,
        Topology::Ring | Topology::Complete => false,
    };
    if !halved || workers == 1 || workers.is_multiple_of(2) {
        return None;
    }
    Some(
        Finding::new("R131", format!("an exponential graph over {workers} workers has no two parts"))
            .at_option(settings.span(TOPOLOGY), "joins equal parities of an odd number")
            .at_option(settings.span(STRATEGY_KIND), "even ranks send, odd ones receive")
            .at_option(settings.span(WORKERS).or(settings.span(USE)), "the workers")
            .cure(if pairs {
                "take an even number of workers, `topology = \"ring\"` or `topology = \"complete\"`"
            } else {
                "take an even number of workers, or `topology = \"exponential-wide\"`"
            }),
    )
}

impl Strategy {
    /// The graph over so many workers in words, with its spectral gap; `None` for a strategy without one.
    pub fn graph_in_words(&self, workers: u32) -> Option<String> {
        let n = workers as usize;
        let kind = self.kind();
        let gap = |gap: Option<f64>| gap.map_or(String::new(), |gap| format!(", spectral gap {gap:.4}"));
        match self {
            Self::DPsgd { topology, .. } => {
                let graph = Graph::new(*topology, n);
                let gap = gap(graph.mixing().spectral_gap());
                Some(format!("{kind} on {workers}: {}, {}{gap}", topology.name(), edges(&graph)))
            }
            Self::AdPsgd { topology, .. } => {
                let graph = Graph::bipartite(*topology, n);
                let path = graph.dropped().map_or(String::new(), |(one, other)| {
                    format!(" without its last edge {one}-{other}: a path")
                });
                let gap = gap(graph.pair_mixing().spectral_gap());
                let edges = edges(&graph);
                let (passive, active) = (n / 2, n - n / 2);
                Some(format!(
                    "{kind} on {workers}: {}{path}, {edges}, {active} active and {passive} passive{gap} per averaging",
                    topology.name(),
                ))
            }
            Self::Sgp => Some(format!("{kind} on {workers}: one peer per step, 1, 2, 4, ... further")),
            _ => None,
        }
    }
}

fn edges(graph: &Graph) -> String {
    let edges = match graph.edges() {
        1 => "1 edge".to_owned(),
        edges => format!("{edges} edges"),
    };
    match graph.degrees() {
        (least, most) if least == most => format!("{edges}, degree {most}"),
        (least, most) => format!("{edges}, degrees {least} to {most}"),
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
