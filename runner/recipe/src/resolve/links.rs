//! Problems of links that a recipe lets drop.

use crate::resolve::shared_keys::RUN_TIMEOUT;
use crate::text::finding::Finding;
use crate::values::fault::{FaultSetting, Stricken};
use crate::values::settings::Settings;
use crate::{LONGEST_WAIT, RunSpec, UsedLinks};
use std::collections::BTreeMap;

/// Problems of the dropped links among the faults of a run.
pub(crate) fn findings(settings: &Settings, written: &[FaultSetting], spec: &RunSpec) -> Vec<Finding> {
    let mut findings: Vec<Finding> = never_missed(settings, written).into_iter().collect();
    let mut dropped: BTreeMap<[u32; 2], &FaultSetting> = BTreeMap::new();
    let dropping: Vec<(&FaultSetting, u32)> =
        written.iter().filter_map(|fault| Some((fault, fault.action.unlinked()?))).collect();
    if dropping.is_empty() {
        return findings;
    }
    let used = spec.used_links();
    for (fault, peer) in dropping {
        if peer >= spec.cluster.ranks() {
            findings.push(no_peer(fault, peer, spec));
            continue;
        }
        let struck = fault.among(&spec.cluster);
        if struck.iter().any(|struck| struck.rank == peer) {
            findings.push(to_itself(fault, peer));
            continue;
        }
        let links: Vec<[u32; 2]> = struck.iter().map(|struck| [struck.rank, peer]).collect();
        if !links.is_empty() && links.iter().all(|link| used.carries(*link) == Some(false)) {
            findings.push(carries_nothing(fault, peer, spec, &used));
        }
        for [rank, peer] in links {
            if let Some(first) = dropped.insert([rank.min(peer), rank.max(peer)], fault) {
                findings.push(twice([rank, peer], fault, first));
            }
        }
    }
    findings
}

fn no_peer(fault: &FaultSetting, peer: u32, spec: &RunSpec) -> Finding {
    let workers = spec.cluster.workers();
    let ranks = spec.cluster.ranks();
    Finding::new("R186", format!("there is no rank {peer} among {ranks} at the other end of a link"))
        .at(fault.span, "no such link")
        .note(format!("workers are ranks 0 to {}; servers follow them", workers.saturating_sub(1)))
        .cure("name a rank of every run, or exclude the runs that have fewer")
}

fn to_itself(fault: &FaultSetting, peer: u32) -> Finding {
    let title = match &fault.whom {
        Stricken::Rank(_) => format!("rank {peer} has no link with itself"),
        Stricken::Host(host) => format!("rank {peer} is one of those on `{}`", host.escape_debug()),
    };
    Finding::new("R188", title).at(fault.span, "one rank at both ends").cure("name another rank as `peer`")
}

fn carries_nothing(fault: &FaultSetting, peer: u32, spec: &RunSpec, used: &UsedLinks) -> Finding {
    let kind = spec.strategy.kind();
    let struck = fault.among(&spec.cluster);
    let whose = match &fault.whom {
        Stricken::Rank(rank) => format!("rank {rank}"),
        Stricken::Host(host) => format!("the ranks on `{}`", host.escape_debug()),
    };
    let others = (0..spec.cluster.ranks())
        .filter(|other| struck.iter().any(|struck| used.carries([struck.rank, *other]) == Some(true)));
    let others: Vec<String> = others.map(|rank| rank.to_string()).collect();
    let finding = Finding::new("R188", format!("`{kind}` sends nothing between {whose} and rank {peer}"))
        .at(fault.span, "changes nothing");
    match &others[..] {
        [] => finding.cure("take it out"),
        _ => finding
            .note(format!("messages travel between {whose} and: {}", others.join(", ")))
            .cure(format!(
                "name one of these, as in `peer = {}`, or exclude the arms of which it is so with `when = \"strategy.kind == '{kind}'\"`",
                others[0]
            )),
    }
}

/// Waits in a row that a rank gives a peer which may itself be waiting: the passive worker of a pair, a worker behind others at a server.
const MOST_WAITS: u32 = 3;

/// A run that is over before a wait over the link is.
fn never_missed(settings: &Settings, written: &[FaultSetting]) -> Option<Finding> {
    let limit = RUN_TIMEOUT.of(settings).filter(|limit| *limit <= MOST_WAITS * LONGEST_WAIT)?;
    let fault = written.iter().find(|fault| fault.action.unlinked().is_some())?;
    Some(
        Finding::new("R163", format!("a link that drops in a run that may take {limit:?}"))
            .at(fault.span, "the run is out of time before a rank gives up waiting")
            .at_option(settings.span(RUN_TIMEOUT), "the limit")
            .note(format!(
                "a rank waits {LONGEST_WAIT:?} for a peer from which nothing comes, and up to {MOST_WAITS} times where others may come first"
            ))
            .cure("raise `limits.run-timeout` to `\"5min\"`, for example"),
    )
}

fn twice([rank, peer]: [u32; 2], again: &FaultSetting, first: &FaultSetting) -> Finding {
    Finding::new("R188", format!("the link between rank {rank} and rank {peer} is dropped twice"))
        .at(again.span, "changes nothing")
        .at(first.span, "the first")
        .cure("keep one of them")
}
