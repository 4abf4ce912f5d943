//! What a cell's settings pretend about the machine, and which pretences cannot work together.

use crate::files::Machine;
use crate::key::{KeyId, id};
use crate::problem::Finding;
use crate::setting::{Settings, Typed};
use crate::slow::{SlowSetting, Whose};
use crate::{Cluster, Compute, Emulation, Network, Split, Whom};
use std::time::Duration;

const SLOW: KeyId = id("nodes.slow");
const BANDWIDTH: KeyId = id("network.bandwidth");
const LATENCY: KeyId = id("network.latency");
const SHARE: KeyId = id("network.share");
const STEP_TIME: KeyId = id("compute.step-time");
const SPLIT: KeyId = id("compute.split.kind");
const FORWARD: KeyId = id("compute.split.forward");
const BACKWARD: KeyId = id("compute.split.backward");
const UPDATE: KeyId = id("compute.split.update");

/// What a cell's runs pretend, and what is wrong about it.
pub(crate) fn emulation(
    settings: &Settings,
    cluster: &Cluster,
    machine: Machine,
) -> (Emulation, Vec<Finding>) {
    let mut findings = Vec::new();
    let network = network(settings, &mut findings);
    let compute = compute(settings, &mut findings);
    let slow = slow(settings);
    for one in slow {
        findings.extend(nobody(one, cluster));
        if one.link > 1.0 && network.is_none() {
            findings.push(no_link(one));
        }
        if one.compute > 1.0 && compute.is_none() && cluster.workers() > machine.cores {
            findings.push(no_core(one, cluster.workers(), machine.cores));
        }
    }
    (Emulation { network, compute, slow: slow.iter().flat_map(|one| one.among(cluster)).collect() }, findings)
}

/// The entries of `nodes.slow`.
pub(crate) fn slow(settings: &Settings) -> &[SlowSetting] {
    match settings.get(SLOW).map(|leaf| &leaf.typed) {
        Some(Typed::Slow(slow)) => slow,
        _ => &[],
    }
}

/// Servers that are to be slow in a recipe whose arms have none.
pub(crate) fn no_servers(one: &SlowSetting) -> Finding {
    Finding::new("R123", "there are no servers to slow down")
        .at(one.span, "nobody")
        .note("no arm of this recipe has a rank that is a server")
        .cure("remove the entry, or name a worker: `rank = 3`")
}

fn network(settings: &Settings, findings: &mut Vec<Finding>) -> Option<Network> {
    let Some(Typed::Bandwidth(bandwidth)) = settings.get(BANDWIDTH).map(|leaf| &leaf.typed) else {
        let others = [LATENCY, SHARE].iter().find_map(|key| settings.given(*key));
        findings.extend(others.map(|leaf| {
            Finding::new("R010", "`network.bandwidth` is missing from the emulated network")
                .at_option(leaf.span, "of which network?")
                .cure("write `bandwidth = \"1Gbit/s\"`, for example")
        }));
        return None;
    };
    Some(Network { bandwidth: *bandwidth, latency: settings.duration(LATENCY).unwrap_or(Duration::ZERO) })
}

fn compute(settings: &Settings, findings: &mut Vec<Finding>) -> Option<Compute> {
    let Some(step_time) = settings.duration(STEP_TIME) else {
        let others = [SPLIT, FORWARD, BACKWARD, UPDATE].iter().find_map(|key| settings.given(*key));
        findings.extend(others.map(|leaf| {
            Finding::new("R010", "`compute.step-time` is missing from the emulated step")
                .at_option(leaf.span, "a split of what?")
                .cure("write `step-time = \"20ms\"`, for example")
        }));
        return None;
    };
    let share = |key| settings.number(key).unwrap_or(0.0);
    let (forward, backward, update) = (share(FORWARD), share(BACKWARD), share(UPDATE));
    let split = match settings.choice(SPLIT) {
        "given" => Split::Given { forward, backward, update },
        _ => Split::Measured,
    };
    let sum = forward + backward + update;
    if split != Split::Measured && (sum - 1.0).abs() > 1e-6 {
        let span = [FORWARD, BACKWARD, UPDATE].iter().find_map(|key| settings.span(*key));
        findings.push(
            Finding::new(
                "R122",
                format!("the parts of a step add up to {}, not to 1", (sum * 1e6).round() / 1e6),
            )
            .at_option(span.or(settings.span(SPLIT)), "these shares")
            .cure("give shares of the whole: 0.3, 0.6 and 0.1"),
        );
    }
    Some(Compute { step_time, split })
}

/// A slow rank that the run does not have.
fn nobody(one: &SlowSetting, cluster: &Cluster) -> Option<Finding> {
    let (workers, ranks) = (cluster.workers(), cluster.ranks());
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
            .at(one.span, "nobody")
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

fn no_core(one: &SlowSetting, workers: u32, cores: u32) -> Finding {
    Finding::new(
        "R125",
        format!("a straggler among {workers} workers on {cores} cores is not the only slow one"),
    )
    .at(one.span, "slowed down on purpose")
    .note("the others wait for a core while they could compute, and are slowed down as well, by chance")
    .cure("add `[compute]` with `step-time = \"20ms\"`, for example, or take as many workers as cores")
}
