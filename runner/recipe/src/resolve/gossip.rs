//! Problems of the graph of a strategy without a centre.

use crate::resolve::shared_keys::{STRATEGY_KIND, TOPOLOGY, USED_NODES, WORKERS};
use crate::spec::graph_words::Neighbours;
use crate::text::finding::Finding;
use crate::values::settings::Settings;
use crate::{Strategy, Topology};

/// Problem of the strategy's graph over `workers` workers, if there is one.
pub(crate) fn findings(settings: &Settings, strategy: &Strategy, workers: u32) -> Option<Finding> {
    let (topology, pairs) = match strategy.neighbours()? {
        Neighbours::Pairs(topology) => (topology, true),
        Neighbours::All(topology) => (topology, false),
        Neighbours::Directed => return None,
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
            .at_option(settings.span(WORKERS).or(settings.span(USED_NODES)), "the workers")
            .cure(if pairs {
                "take an even number of workers, `topology = \"ring\"` or `topology = \"complete\"`"
            } else {
                "take an even number of workers, or `topology = \"exponential-wide\"`"
            }),
    )
}
