//! Settings of the all-reduce to its description, and what cannot work about them.

use crate::keys::lookup::KeyId;
use crate::resolve::shared_keys::{COLLECTIVE_KIND, REDUCE_ORDER};
use crate::spec::communication::Adds;
use crate::text::finding::Finding;
use crate::values::settings::Settings;
use crate::values::typed_key::{Defaulted, Optional};
use crate::{Cluster, Collective, CollectiveKind, ReduceOrder};

const SEGMENTS: Defaulted<u64> = Defaulted::whole("communication.collective.segments");
const GROUP_SIZE: Optional<u64> = Optional::whole("communication.collective.group-size");

/// The keys of an all-reduce, which have no effect on a strategy without one.
pub(crate) fn keys() -> [KeyId; 4] {
    [COLLECTIVE_KIND.into(), SEGMENTS.into(), GROUP_SIZE.into(), REDUCE_ORDER.into()]
}

/// The collective of a cell and its order of sums.
pub(crate) fn read(
    settings: &Settings,
    cluster: &Cluster,
    findings: &mut Vec<Finding>,
) -> (Collective, ReduceOrder) {
    let collective = of(settings);
    findings.extend(one_group(collective, settings, cluster));
    if collective.adds() == Adds::InItsOwnOrder && REDUCE_ORDER.of(settings) == ReduceOrder::Rank {
        findings.push(no_rank_order(collective, settings));
    }
    (collective, order(settings))
}

/// The order in which the collective adds, which is not always the one that the settings ask for.
pub(crate) fn order(settings: &Settings) -> ReduceOrder {
    match (of(settings).adds(), REDUCE_ORDER.of(settings)) {
        (Adds::InRankOrder, _) | (Adds::InEitherOrder, ReduceOrder::Rank) => ReduceOrder::Rank,
        (Adds::InEitherOrder, ReduceOrder::Ring) | (Adds::InItsOwnOrder, _) => ReduceOrder::Ring,
    }
}

/// The collective that the settings describe, whether the strategy has one or not.
pub(crate) fn of(settings: &Settings) -> Collective {
    match COLLECTIVE_KIND.of(settings) {
        CollectiveKind::Ring => Collective::Ring,
        CollectiveKind::PipelinedRing => Collective::PipelinedRing { segments: SEGMENTS.of(settings) as u32 },
        CollectiveKind::Tree => Collective::Tree,
        CollectiveKind::RecursiveDoubling => Collective::RecursiveDoubling,
        CollectiveKind::HalvingDoubling => Collective::HalvingDoubling,
        CollectiveKind::Star => Collective::Star,
        CollectiveKind::AllGather => Collective::AllGather,
        CollectiveKind::Hierarchical => {
            Collective::Hierarchical { group_size: GROUP_SIZE.of(settings).map(|size| size as u32) }
        }
    }
}

fn no_rank_order(collective: Collective, settings: &Settings) -> Finding {
    Finding::new("R127", format!("the collective `{}` cannot add in rank order", collective.kind()))
        .at_option(settings.span(COLLECTIVE_KIND), "adds partial sums to each other")
        .at_option(settings.span(REDUCE_ORDER), "asks for one rank after the other")
        .cure("take `ring`, `star` or `all-gather`, or the collective's own order: `reduce-order = \"ring\"`")
}

/// A hierarchy of one group. A single worker has nothing to add, so that any collective will do.
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
            .at_option(settings.span(COLLECTIVE_KIND), "adds inside groups, then between them")
            .at_option(settings.span(GROUP_SIZE), "the size of a group");
    Some(match group_size {
        Some(_) => finding.cure("take a smaller `group-size`, more workers, or the collective `tree`"),
        None => finding.note("without `group-size`, the workers of a machine are a group, and there is one machine")
            .cure("write `collective = { kind = \"hierarchical\", group-size = 2 }`, or take the collective `tree`"),
    })
}
