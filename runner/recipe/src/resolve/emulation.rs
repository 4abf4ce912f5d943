//! Settings of the emulation to its description (network, step time, slow ranks), and what cannot work about them.

use crate::keys::lookup::{KeyId, id};
use crate::resolve::faults;
use crate::resolve::inventory::Known;
use crate::text::finding::Finding;
use crate::text::source::Span;
use crate::values::leaf::Typed;
use crate::values::settings::Settings;
use crate::values::slow::{SlowSetting, Whose};
use crate::values::typed_key::{Defaulted, Optional};
use crate::{CardShare, Cluster, Compute, ComputeSplit, Emulation, Network, SplitKind, Whom};
use std::time::Duration;

const SLOW: KeyId = id("nodes.slow");
const BANDWIDTH: Optional<u64> = Optional::bandwidth("network.bandwidth");
const LATENCY: Optional<Duration> = Optional::duration("network.latency");
const SHARE: Defaulted<CardShare> = Defaulted::choice("network.share");
const STEP_TIME: Optional<Duration> = Optional::duration("compute.step-time");
const SPLIT: Defaulted<SplitKind> = Defaulted::choice("compute.split.kind");
const FORWARD: Defaulted<f64> = Defaulted::number("compute.split.forward");
const BACKWARD: Defaulted<f64> = Defaulted::number("compute.split.backward");
const UPDATE: Defaulted<f64> = Defaulted::number("compute.split.update");

/// The emulation that the settings describe, and what cannot work about it.
pub(crate) fn emulation(
    settings: &Settings,
    cluster: &Cluster,
    machine: Known<'_>,
) -> (Emulation, Vec<Finding>) {
    let mut findings = Vec::new();
    let network = network(settings, &mut findings);
    let compute = compute(settings, &mut findings);
    let slow = slow(settings);
    let machines = cluster.machines();
    if network.is_some() && machines > 1 {
        findings.push(several_machines(settings, machines));
    }
    if let Some(node) = cluster.with_gpus().filter(|_| compute.is_some()) {
        findings.push(emulated_gpu(settings, &node.name));
    }
    for fault in faults::slow(settings).filter(|_| compute.is_none() && cluster.workers() > machine.cores) {
        findings.push(no_core(fault.span, cluster.workers(), machine.cores));
    }
    for one in slow {
        findings.extend(no_rank(one, cluster));
        if one.link > 1.0 && network.is_none() {
            findings.push(no_link(one));
        }
        if one.compute > 1.0 && compute.is_none() && cluster.workers() > machine.cores {
            findings.push(no_core(one.span, cluster.workers(), machine.cores));
        }
    }
    (Emulation { network, compute, slow: slow.iter().flat_map(|one| one.among(cluster)).collect() }, findings)
}

/// Whether the settings ask for an emulated network.
pub(crate) fn has_network(settings: &Settings) -> bool {
    BANDWIDTH.of(settings).is_some()
}

/// The entries of `nodes.slow`.
pub(crate) fn slow(settings: &Settings) -> &[SlowSetting] {
    match settings.get(SLOW).map(|leaf| &leaf.typed) {
        Some(Typed::Slow(slow)) => slow,
        _ => &[],
    }
}

/// An emulated network between several machines.
fn several_machines(settings: &Settings, machines: usize) -> Finding {
    Finding::new("R126", format!("the network between {machines} machines cannot be emulated"))
        .at_option(settings.given(BANDWIDTH).and_then(|leaf| leaf.span), "of cards on one machine")
        .note("an emulated message leaves and arrives by one clock, and machines have one each; their own network is there besides")
        .cure("remove `[network]`, or run all ranks on one machine: `nodes.use = [\"local*4\"]`")
}

fn emulated_gpu(settings: &Settings, node: &str) -> Finding {
    let node = node.escape_debug();
    Finding::new("R164", format!("the step of workers on the GPUs of `{node}` cannot be emulated"))
        .at_option(settings.given(STEP_TIME).and_then(|leaf| leaf.span), "of processors")
        .note("an emulated step is shared out among its layers by the time that a processor takes for each")
        .cure("remove `[compute]`, or train on processors: `nodes.device = \"cpu\"`")
}

/// Servers that are to be slow in a recipe whose arms have none.
pub(crate) fn no_servers(one: &SlowSetting) -> Finding {
    Finding::new("R123", "there are no servers to slow down")
        .at(one.span, "no rank")
        .note("no arm of this recipe has a rank that is a server")
        .cure("remove the entry, or name a worker: `rank = 3`")
}

fn network(settings: &Settings, findings: &mut Vec<Finding>) -> Option<Network> {
    let Some(bandwidth) = BANDWIDTH.of(settings) else {
        let others = settings.given(LATENCY).or(settings.given(SHARE));
        findings.extend(others.map(|leaf| {
            Finding::new("R010", "`network.bandwidth` is missing from the emulated network")
                .at_option(leaf.span, "of which network?")
                .cure("write `bandwidth = \"1Gbit/s\"`, for example")
        }));
        return None;
    };
    match SHARE.of(settings) {
        CardShare::Rank => {
            Some(Network { bandwidth, latency: LATENCY.of(settings).unwrap_or(Duration::ZERO) })
        }
    }
}

fn compute(settings: &Settings, findings: &mut Vec<Finding>) -> Option<Compute> {
    let Some(step_time) = STEP_TIME.of(settings) else {
        let others = settings.given(SPLIT).or(shares().find_map(|key| settings.given(key)));
        findings.extend(others.map(|leaf| {
            Finding::new("R010", "`compute.step-time` is missing from the emulated step")
                .at_option(leaf.span, "a split of what?")
                .cure("write `step-time = \"20ms\"`, for example")
        }));
        return None;
    };
    let split = match SPLIT.of(settings) {
        SplitKind::Measured => ComputeSplit::Measured,
        SplitKind::Given => given_split(settings, findings),
    };
    Some(Compute { step_time, split })
}

fn shares() -> impl Iterator<Item = Defaulted<f64>> {
    [FORWARD, BACKWARD, UPDATE].into_iter()
}

fn given_split(settings: &Settings, findings: &mut Vec<Finding>) -> ComputeSplit {
    let forward = FORWARD.of(settings);
    let backward = BACKWARD.of(settings);
    let update = UPDATE.of(settings);
    let sum = forward + backward + update;
    if (sum - 1.0).abs() > 1e-6 {
        let span = shares().find_map(|key| settings.span(key));
        findings.push(
            Finding::new(
                "R122",
                format!("the parts of a step add up to {}, not to 1", (sum * 1e6).round() / 1e6),
            )
            .at_option(span.or(settings.span(SPLIT)), "these shares")
            .cure("give shares of the whole: 0.3, 0.6 and 0.1"),
        );
    }
    ComputeSplit::Given { forward, backward, update }
}

/// A slow rank that the run does not have.
fn no_rank(one: &SlowSetting, cluster: &Cluster) -> Option<Finding> {
    let workers = cluster.workers();
    let ranks = cluster.ranks();
    let title = match one.whose {
        Whose::These(Whom::Rank(rank)) if rank >= ranks => {
            format!("there is no rank {rank} to slow down among {ranks}")
        }
        Whose::These(Whom::Random(count)) if count > workers => {
            format!("{count} of {workers} workers cannot be slowed down")
        }
        _ => return None,
    };
    Some(
        Finding::new("R123", title)
            .at(one.span, "no rank")
            .note("workers are ranks from 0 on; servers follow them")
            .cure("name a rank of the run, or fewer random ones"),
    )
}

fn no_link(one: &SlowSetting) -> Finding {
    Finding::new("R124", "a slow link needs an emulated network")
        .at(one.span, "which bandwidth is to be divided?")
        .note("the ranks of a machine exchange through its memory: there is no link to slow down")
        .cure("add `[network]` with `bandwidth = \"1Gbit/s\"`, for example")
}

fn no_core(span: Span, workers: u32, cores: u32) -> Finding {
    Finding::new(
        "R125",
        format!("a straggler among {workers} workers on {cores} cores is not the only slow one"),
    )
    .at(span, "slowed down on purpose")
    .note("the others wait for a core while they could compute, and are slowed down as well, by chance")
    .cure("add `[compute]` with `step-time = \"20ms\"`, for example, or take as many workers as cores")
}
