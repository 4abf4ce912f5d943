//! Settings of `faults` to what goes wrong with which rank, and what cannot work about it.

use crate::keys::lookup::{KeyId, id};
use crate::resolve::shared_keys::RUN_TIMEOUT;
use crate::resolve::{links, training};
use crate::text::finding::Finding;
use crate::values::fault::{FaultSetting, Stricken};
use crate::values::leaf::Typed;
use crate::values::settings::Settings;
use crate::{Cluster, FaultAction, PlannedFault, Role, RunSpec, StepPace};
use std::collections::BTreeMap;

const FAULTS: KeyId = id("faults");

/// The faults of each rank, in the order of the recipe.
pub(crate) fn read(settings: &Settings, cluster: &Cluster) -> Vec<PlannedFault> {
    written(settings).iter().flat_map(|fault| fault.among(cluster)).collect()
}

/// Problems of the faults in a run that is otherwise known.
pub(crate) fn findings(settings: &Settings, spec: &RunSpec) -> Vec<Finding> {
    let written = written(settings);
    let mut findings = Vec::new();
    let steps = training::steps(settings, spec);
    for fault in written {
        findings.extend(strikes_no_rank(fault, &spec.cluster));
        findings.extend(steps.and_then(|steps| too_late(fault, steps, spec)));
    }
    let of_links = links::findings(settings, written, spec);
    findings.extend(after_the_end(written, spec));
    // Of a link that is none it is not known what it costs.
    findings.extend(no_worker_left(written, spec).filter(|_| of_links.is_empty()));
    findings.extend(of_links);
    findings.extend(longer_than_the_run(settings, written, spec));
    findings
}

/// Entries that slow computing down.
pub(crate) fn slow(settings: &Settings) -> impl Iterator<Item = &FaultSetting> {
    written(settings).iter().filter(|fault| matches!(fault.action, FaultAction::Slow { .. }))
}

fn written(settings: &Settings) -> &[FaultSetting] {
    match settings.get(FAULTS).map(|leaf| &leaf.typed) {
        Some(Typed::Faults(faults)) => faults,
        _ => &[],
    }
}

fn strikes_no_rank(fault: &FaultSetting, cluster: &Cluster) -> Option<Finding> {
    if !fault.among(cluster).is_empty() {
        return None;
    }
    let finding = match &fault.whom {
        Stricken::Rank(rank) => {
            let workers = cluster.workers();
            let ranks = cluster.ranks();
            Finding::new("R186", format!("there is no rank {rank} among {ranks} for a fault to strike"))
                .note(format!("workers are ranks 0 to {}; servers follow them", workers.saturating_sub(1)))
                .cure("name a rank of every run, or exclude the runs that have fewer")
        }
        Stricken::Host(host) => {
            let known: Vec<&str> = cluster.nodes.iter().map(|node| node.name.as_str()).collect();
            Finding::new("R186", format!("no rank runs on `{}` for a fault to strike", host.escape_debug()))
                .note(format!("machines of the run: {}", known.join(", ")))
                .cure("name a machine of `nodes.use`, as it is written there")
        }
    };
    Some(finding.at(fault.span, "no rank"))
}

/// Whether a rank is meant that takes no more steps than the training has: a server counts what it has served where workers go at
/// their own pace.
fn strikes_a_worker(fault: &FaultSetting, spec: &RunSpec) -> bool {
    let workers = spec.cluster.workers();
    let together = spec.strategy.kind().profile().pace == StepPace::Common;
    together || fault.among(&spec.cluster).iter().any(|struck| struck.rank < workers)
}

/// `steps` are those of the training.
fn too_late(fault: &FaultSetting, steps: u64, spec: &RunSpec) -> Option<Finding> {
    let of_a_worker = strikes_a_worker(fault, spec);
    // A server serves each worker once a step at most.
    let most = if of_a_worker { steps } else { steps.saturating_mul(u64::from(spec.cluster.workers())) };
    (fault.step > most).then(|| {
        let finding =
            Finding::new("R187", format!("a fault at step {} of a training of {steps} steps", fault.step));
        let finding = finding.at(fault.span, "never comes").cure("name an earlier step, or train for longer");
        if of_a_worker {
            finding
        } else {
            finding.note(format!("a server takes {most} steps at most, one for each step of a worker"))
        }
    })
}

/// Faults of a rank that is lost by then, and several at one step.
fn after_the_end(written: &[FaultSetting], spec: &RunSpec) -> Vec<Finding> {
    let mut of_ranks: BTreeMap<u32, Vec<&FaultSetting>> = BTreeMap::new();
    // Only where ranks step together the steps of two of them can be compared.
    let together = spec.strategy.kind().profile().pace == StepPace::Common;
    for fault in written {
        let struck = fault.among(&spec.cluster);
        let other_end = fault.action.unlinked().filter(|_| together && !struck.is_empty());
        for rank in struck.iter().map(|struck| struck.rank).chain(other_end) {
            of_ranks.entry(rank).or_default().push(fault);
        }
    }
    let mut findings = Vec::new();
    for (rank, faults) in of_ranks {
        let end = faults.iter().filter(|fault| fault.action.is_fatal()).min_by_key(|fault| fault.step);
        let Some(end) = end else { continue };
        let late = faults.iter().filter(|fault| fault.step >= end.step && fault.span != end.span);
        findings.extend(late.map(|late| {
            Finding::new(
                "R188",
                format!("rank {rank} is lost at step {}, before or when this strikes it", end.step),
            )
            .at(late.span, "never comes")
            .at(end.span, "the rank's end")
            .cure("let it strike at an earlier step, or take it out")
        }));
    }
    findings
}

fn no_worker_left(written: &[FaultSetting], spec: &RunSpec) -> Option<Finding> {
    let workers = spec.cluster.workers();
    let loses = |fault: &&FaultSetting| fault.action.is_fatal() || fault.action.unlinked().is_some();
    let last = written.iter().rfind(loses)?;
    (spec.lost_by_fault(Role::Worker) >= workers).then(|| {
        let them = if workers == 1 { "the only worker".to_owned() } else { format!("all {workers} workers") };
        let cure = match last.action {
            FaultAction::DropLink { .. } => "leave a worker its link with the server",
            FaultAction::Kill | FaultAction::Pause { .. } | FaultAction::Slow { .. } => {
                "leave a worker alone, or let a pause end: `for = \"2s\"`"
            }
        };
        Finding::new("R189", format!("{them} would be lost"))
            .at(last.span, "nothing is left to train")
            .note("of such a run no strategy makes anything")
            .cure(cure)
    })
}

fn longer_than_the_run(settings: &Settings, written: &[FaultSetting], spec: &RunSpec) -> Option<Finding> {
    let limit = RUN_TIMEOUT.of(settings)?;
    let longest = written.iter().filter_map(|fault| match fault.action {
        FaultAction::Pause { length: Some(length) } => Some((length, fault.span)),
        FaultAction::Pause { length: None }
        | FaultAction::Kill
        | FaultAction::Slow { .. }
        | FaultAction::DropLink { .. } => None,
    });
    let (length, span) = longest.max_by_key(|(length, _)| *length)?;
    (length >= limit && !spec.faults.is_empty()).then(|| {
        Finding::new("R163", format!("a pause of {length:?} in a run that may take {limit:?}"))
            .at(span, "the run is out of time before the rank continues")
            .at_option(settings.span(RUN_TIMEOUT), "the limit")
            .cure("pause for less, raise `limits.run-timeout`, or leave `for` out for a rank that never continues")
    })
}
