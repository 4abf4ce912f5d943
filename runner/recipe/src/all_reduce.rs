//! The all-reduce that a cell asks for, and what is impossible about it.

use crate::key::{KeyId, id};
use crate::problem::Finding;
use crate::setting::Settings;
use crate::{Cluster, Collective, ReduceOrder};

pub(crate) const KIND: KeyId = id("communication.collective.kind");
const SEGMENTS: KeyId = id("communication.collective.segments");
const GROUP_SIZE: KeyId = id("communication.collective.group-size");
pub(crate) const REDUCE_ORDER: KeyId = id("communication.reduce-order");

/// The keys that say something about an all-reduce, and nothing where there is none.
pub(crate) const KEYS: [KeyId; 4] = [KIND, SEGMENTS, GROUP_SIZE, REDUCE_ORDER];

/// The collective of a cell and its order of sums.
pub(crate) fn read(
    settings: &Settings,
    cluster: &Cluster,
    findings: &mut Vec<Finding>,
) -> (Collective, ReduceOrder) {
    let collective = collective(settings);
    findings.extend(one_group(collective, settings, cluster));
    let order = match (settings.choice(REDUCE_ORDER), collective) {
        // These add in rank order, whatever is asked for.
        (_, Collective::Star | Collective::AllGather) | ("rank", Collective::Ring) => ReduceOrder::Rank,
        ("rank", other) => {
            findings.push(no_rank_order(other, settings));
            ReduceOrder::Ring
        }
        _ => ReduceOrder::Ring,
    };
    (collective, order)
}

fn collective(settings: &Settings) -> Collective {
    match settings.choice(KIND) {
        "pipelined-ring" => {
            Collective::PipelinedRing { segments: settings.whole(SEGMENTS).unwrap_or(1) as u32 }
        }
        "tree" => Collective::Tree,
        "recursive-doubling" => Collective::RecursiveDoubling,
        "halving-doubling" => Collective::HalvingDoubling,
        "star" => Collective::Star,
        "all-gather" => Collective::AllGather,
        "hierarchical" => {
            Collective::Hierarchical { group_size: settings.whole(GROUP_SIZE).map(|size| size as u32) }
        }
        _ => Collective::Ring,
    }
}

fn no_rank_order(collective: Collective, settings: &Settings) -> Finding {
    Finding::new("R127", format!("the collective `{}` cannot add in rank order", collective.kind()))
        .at_option(settings.span(KIND), "adds partial sums to each other")
        .at_option(settings.span(REDUCE_ORDER), "asks for one rank after the other")
        .cure("take `ring`, `star` or `all-gather`, or the collective's own order: `reduce-order = \"ring\"`")
}

/// A single worker has nobody to add to, and any collective will do.
fn one_group(collective: Collective, settings: &Settings, cluster: &Cluster) -> Option<Finding> {
    let Collective::Hierarchical { group_size } = collective else { return None };
    let workers = cluster.workers();
    let alone = match group_size {
        Some(size) => size >= workers,
        None => cluster.machines_of_workers() == 1,
    };
    if workers < 2 || !alone {
        return None;
    }
    let finding =
        Finding::new("R128", format!("all {workers} workers are in one group, and a hierarchy has several"))
            .at_option(settings.span(KIND), "adds inside groups, then between them")
            .at_option(settings.span(GROUP_SIZE), "the size of a group");
    Some(match group_size {
        Some(_) => finding.cure("take a smaller `group-size`, more workers, or the collective `tree`"),
        None => finding.note("without `group-size`, the workers of a machine are a group, and there is one machine")
            .cure("write `collective = { kind = \"hierarchical\", group-size = 2 }`, or take the collective `tree`"),
    })
}
