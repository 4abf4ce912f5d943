//! How the numbers were made: what was repeated, tested and timed, and what each phase means.

use crate::digits;
use crate::findings::Findings;
use crate::heterogeneity::{FEWEST_BYTES, SLOW_LINK};
use crate::statistics::BOOTSTRAP_FROM;
use crate::study::is_judged;
use crate::verdict;
use crate::view::emulation;
use record::{Nanos, Phase};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// The section.
#[derive(Debug, Serialize)]
pub(crate) struct Method {
    pub(crate) items: Vec<Item>,
    pub(crate) phases: Vec<Item>,
}

/// A term and what it means here.
#[derive(Debug, Serialize)]
pub(crate) struct Item {
    pub(crate) name: String,
    pub(crate) text: String,
}

fn item(name: &str, text: impl Into<String>) -> Item {
    Item { name: name.to_owned(), text: text.into() }
}

impl Method {
    pub(crate) fn of(findings: &Findings) -> Self {
        Self {
            items: [
                item("Runs", runs(findings)),
                item("Clock", clock(findings)),
                item(
                    "Step",
                    "One gradient of one rank. Steps to target are samples divided by the global batch, so that methods compare. \
                      The step time of a run is the median over its steady steps of the slowest worker (of a strategy that exchanges every few steps, \
                      over such periods, each with the mean of its steps). Where workers go at their own pace, it is the time in which all of them together \
                      use one global batch: the batch divided by the sum over the workers of their samples per step divided by their median steady step; \
                      what a worker waits for is in its step. A warm-up in which a strategy is still another one, as `pipe-sgd` can be `d-sync`, is in no step time. Runs, not steps, are the unit of all statistics.",
                ),
                item("Threads", threads(findings)),
                item("Target", target(findings)),
                item("Model", models(findings)),
                item("Ratios", ratios(findings)),
                item("Tests", tests(findings)),
                item("Grades", grades(findings)),
                item("Final metric", final_metric(findings)),
                item(
                    "Exposed communication",
                    "The time during which one of a rank's communications is open while its compute lane does not compute.",
                ),
                item(
                    "Hidden communication",
                    "The time during which a lane beside the compute lane moves or transforms what travels, or waits for a peer of its choice, \
                      while the compute lane neither communicates nor waits. Exposed and hidden together are the time for which communication is open.",
                ),
                item(
                    "Waiting and transfer",
                    "A transfer opens with a short announcement. Until it arrives the receiver waits for its peer; \
                      from then until the last chunk bytes are moving. A slow peer therefore shows as waiting, a slow network as transfer.",
                ),
                item("Who waited for whom", WAITED),
                item("Slow links", links()),
            ]
            .into_iter()
            .chain(emulation::method(findings).map(|text| item("Emulation", text)))
            .collect(),
            phases: Phase::ALL.into_iter().map(|phase| item(phase.name(), phase.meaning())).collect(),
        }
    }
}

const WAITED: &str = "A worker's own time in a step is that in which its compute lane waited neither for a peer nor for another of its \
     lanes. Where workers step together, the last one of a step is the one with the largest own time. It makes each other one wait as long as that \
     one waited, but no longer than their own times differ: what is beyond that, the last one waits itself, for the network or a server. \
     Compared are steady steps in which all workers take part that are still there; where a strategy exchanges every few steps only, \
     all steps up to an exchange together, because one without an exchange makes nobody wait. In a pipeline, and among neighbours that pass it on, a delay \
     reaches others in a later step: the seconds are right for a worker that is always slow, too few for delays that \
     wander, and never more than was waited. Workers that go at their own pace have no step in common, so that none is last; what they \
     waited is shown instead. A rank is said to compute slowly where it is busy, neither communicating nor waiting, for at least one and a half times as long per step as the \
     one in the middle of the others.";

fn links() -> String {
    format!(
        "From the transfers in steps that keep their spans, on all lanes, messages below 1 KiB left out. The time of a transfer is known where the receiver \
         was waiting for it when it began; of others only that it was no shorter than what was seen. A rank's link is slow where a byte takes at least \
         {} times as long between it and every other rank that it exchanges with as between those others, with at least {} on either side. So neither of two ranks can \
         be named, nor a server that everything passes. What a slow link cost the others is at most what they waited and what they \
         communicated while they did not compute, for whatever reason.",
        digits::short(SLOW_LINK),
        digits::bytes(FEWEST_BYTES as f64),
    )
}

fn final_metric(findings: &Findings) -> String {
    format!(
        "The difference of means over the runs that ended as planned. It is within noise where its interval holds zero and lies within {}\u{a0}pp \
         for an accuracy, {} of the baseline for anything else; an interval that holds zero and more than that settles nothing.",
        digits::short(verdict::SAME_ACCURACY * 100.0),
        verdict::whole_percent(findings.thresholds.min_effect),
    )
}

fn runs(findings: &Findings) -> String {
    let rows = findings.rows();
    let mut seeds: Vec<u64> = rows.plan.runs.iter().map(|run| run.seed).collect();
    seeds.sort_unstable();
    seeds.dedup();
    let listed = match seeds.as_slice() {
        [] => "none".to_owned(),
        [first, .., last] if seeds.len() > 8 => format!("{} from {first} to {last}", seeds.len()),
        seeds => seeds.iter().map(u64::to_string).collect::<Vec<_>>().join(", "),
    };
    format!(
        "{} per arm and condition; seeds {listed}, the same repeat with the same seed in every arm. {} planned, {} recorded. \
         A run that diverged or ran out of time is a result; one that failed or was interrupted is left out and listed. \
         So is a degraded one, which lost a worker and went on: from then on it was a run of fewer workers, and the same accident ends a run of a \
         strategy that cannot spare one. To average it in would judge an arm by its bad luck.",
        digits::plural(findings.study.repeats(), "repeat"),
        digits::plural(rows.plan.runs.len(), "run"),
        rows.runs.iter().filter(|run| run.attempt.is_some()).count(),
    )
}

fn clock(findings: &Findings) -> String {
    let mut outside: Vec<f64> = findings
        .rows()
        .runs
        .iter()
        .filter_map(|run| run.attempt.as_ref())
        .filter_map(|attempt| Some(attempt.wall?.since(attempt.training?)))
        .map(Nanos::seconds)
        .collect();
    outside.sort_by(f64::total_cmp);
    let aside = match crate::statistics::median(&outside) {
        Some(time) => format!(
            " Start-up, evaluation and shut-down took {} more in the median run.",
            digits::seconds(time)
        ),
        None => String::new(),
    };
    format!(
        "Time begins when the driver sends the start, after all ranks hold their data and initial weights, and ends with the \
         last step of the slowest rank. Warm-up steps count; start-up, evaluation and shut-down do not.{aside}"
    )
}

/// Threads of the workers: the same for all arms of a condition, unless runs of before plans decided so are shown.
fn threads(findings: &Findings) -> String {
    let rows = findings.rows();
    let mut seen: BTreeMap<&str, BTreeSet<u32>> = BTreeMap::new();
    for run in &rows.runs {
        let ranks = run.attempt.iter().flat_map(|attempt| &attempt.ranks);
        let workers = ranks.filter(|rank| rank.role == recipe::Role::Worker && rank.threads > 0);
        let condition = rows.plan.cells[run.cell].condition.as_str();
        seen.entry(condition).or_default().extend(workers.map(|rank| rank.threads));
    }
    seen.retain(|_, threads| !threads.is_empty());
    let words = |threads: &BTreeSet<u32>| threads.iter().map(u32::to_string).collect::<Vec<_>>().join(" or ");
    let distinct: BTreeSet<&BTreeSet<u32>> = seen.values().collect();
    let told = match distinct.iter().collect::<Vec<_>>().as_slice() {
        [] => return "No worker has said how many threads it computes with.".to_owned(),
        [only] => format!("{} per worker.", words(only)),
        _ => {
            let each = seen.iter().map(|(condition, threads)| format!("{} with {condition}", words(threads)));
            format!("Per worker {}.", each.collect::<Vec<_>>().join(", "))
        }
    };
    format!(
        "{told} All arms of a condition have the same number, which the plan takes from the arm with the most ranks or from the recipe \
         (nodes.threads): the bits and the speed of a result depend on it. A server has one thread."
    )
}

fn target(findings: &Findings) -> String {
    let Some(target) = findings.study.conditions.iter().find_map(|condition| condition.target) else {
        return "The recipe names no target: arms are compared by step time, and their final metrics are shown beside it.".to_owned();
    };
    let after = target
        .after
        .map(|after| format!(", within {}", digits::seconds(after.as_secs_f64())))
        .unwrap_or_default();
    let stop = if target.stop { " Runs stop there." } else { " Runs go on to their planned end." };
    format!(
        "{}{after}: the time of the first evaluated snapshot that reaches it; nothing is interpolated, so the interval between \
         evaluations bounds its resolution. Snapshots are evaluated off the ranks' clocks. Where fewer than half of the runs reach it, no time is printed.{stop}",
        verdict::target_words(target)
    )
}

/// Which model each arm is judged by.
fn models(findings: &Findings) -> String {
    let rows = findings.rows();
    let mut judged: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for run in rows.runs.iter().filter(|run| is_judged(run)) {
        for metric in run.attempt.iter().flat_map(|attempt| &attempt.metrics) {
            judged
                .entry(&metric.model)
                .or_default()
                .insert(findings.study.arm_name(rows.plan.cells[run.cell].arm));
        }
    }
    let words = |(model, arms): (&str, BTreeSet<&str>)| {
        format!("{model} ({})", arms.into_iter().collect::<Vec<_>>().join(", "))
    };
    match judged.into_iter().map(words).collect::<Vec<_>>().join("; ") {
        none if none.is_empty() => "No model has been evaluated yet.".to_owned(),
        listed => format!("What accuracy and loss are measured on, and targets are reached by: {listed}."),
    }
}

fn ratios(findings: &Findings) -> String {
    format!(
        "Differences of logarithms, shown as ratios of geometric means, with {} intervals: Welch's t interval below {BOOTSTRAP_FROM} \
         runs a side, a percentile bootstrap (2000 resamples, fixed seed) from there. Where some runs did not reach the target, the ratio of \
         the medians without an interval.",
        verdict::whole_percent(findings.thresholds.confidence)
    )
}

fn tests(findings: &Findings) -> String {
    let arms = findings.comparisons.iter().map(Vec::len).max().unwrap_or(0);
    format!(
        "Two-sided exact permutation test of the unpaired runs (by ranks where some did not reach the target), corrected by Holm's method over \
         the {} compared with the baseline under a condition. The sign-flip test over equal seeds is shown beside it. The smallest p that three runs \
         a side can give is 0.10, four 0.029, five 0.008.",
        digits::plural(arms, "arm")
    )
}

fn grades(findings: &Findings) -> String {
    let effect = verdict::whole_percent(findings.thresholds.min_effect);
    format!(
        "Clear: the interval of the ratio lies beyond the smallest effect that matters ({effect}), the corrected p is below {}, and both sides have at \
         least four runs. Within noise: the interval lies inside that effect. Did not reach: fewer than half of the runs. Anything else is not enough evidence.",
        digits::fixed(1.0 - findings.thresholds.confidence, 2)
    )
}
