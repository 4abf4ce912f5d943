//! Settings of `communication` to its description, and which of them have no effect on a strategy.

use crate::keys::lookup::KeyId;
use crate::resolve::cell::Cell;
use crate::resolve::shared_keys::CODED_PARAMETERS;
use crate::resolve::{collective, emulation, schedule};
use crate::spec::strategy_kind::{ExchangeThrough, Sends};
use crate::text::finding::Finding;
use crate::values::settings::Settings;
use crate::values::typed_key::Defaulted;
use crate::{
    Cluster, Collective, Communication, PayloadPath, ReduceOrder, Strategy, StrategyKind, TransportKind,
};

const TRANSPORT: Defaulted<TransportKind> = Defaulted::choice("communication.transport");

/// The communication that the settings describe. A strategy without an all-reduce has the collective that sums in rank
/// order, as its server does, so that equal runs are equal.
pub(crate) fn read(cell: &mut Cell<'_>, strategy: &Strategy, cluster: &Cluster) -> Communication {
    let schedule = schedule::read(strategy.kind(), cell.settings);
    let (collective, reduce_order) = match strategy.kind().profile().exchange {
        ExchangeThrough::AllReduce if strategy.averages_through_servers() => {
            (Collective::Star, ReduceOrder::Rank)
        }
        ExchangeThrough::AllReduce => collective::read(cell.settings, cluster, &mut cell.findings),
        ExchangeThrough::SyncServer
        | ExchangeThrough::AsyncServer
        | ExchangeThrough::Centre
        | ExchangeThrough::Neighbours => (Collective::Star, ReduceOrder::Rank),
    };
    let transport = transport(cell.settings, cluster);
    cell.findings.extend(unshared(cell.settings, cluster));
    Communication { collective, schedule, reduce_order, transport }
}

/// Path of the bytes between the ranks of this cluster.
fn transport(settings: &Settings, cluster: &Cluster) -> PayloadPath {
    match TRANSPORT.of(settings) {
        TransportKind::Zeromq => PayloadPath::Zeromq,
        TransportKind::Auto if cluster.machines() > 1 || emulation::has_network(settings) => {
            PayloadPath::Zeromq
        }
        TransportKind::SharedMemory | TransportKind::Auto => PayloadPath::SharedMemory,
    }
}

/// Memory that ranks of several machines are to share.
fn unshared(settings: &Settings, cluster: &Cluster) -> Option<Finding> {
    let asked = TRANSPORT.of(settings) == TransportKind::SharedMemory && cluster.machines() > 1;
    asked.then(|| {
        Finding::new("R129", format!("ranks on {} machines cannot share memory", cluster.machines()))
            .at_option(settings.given(TRANSPORT).and_then(|leaf| leaf.span), "only on one machine")
            .cure("write `transport = \"zeromq\"`, or `\"auto\"`, which shares memory where that is possible")
    })
}

/// The keys that have no effect on some strategies, whatever their other settings.
pub(crate) fn keys() -> impl Iterator<Item = KeyId> {
    collective::keys().into_iter().chain(schedule::keys())
}

/// Whether a key has no effect on a strategy: one about an all-reduce where there is none, about the layers of a gradient where it
/// travels whole, or about encoded weights where only gradients travel.
pub(crate) fn has_no_effect(kind: StrategyKind, key: KeyId) -> bool {
    let profile = kind.profile();
    if key == CODED_PARAMETERS.into() {
        return profile.sends == Sends::Gradients;
    }
    let whole = !kind.takes_schedule() && schedule::keys().contains(&key);
    whole || profile.exchange != ExchangeThrough::AllReduce && collective::keys().contains(&key)
}
