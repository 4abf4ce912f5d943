//! How the numbers were made: repeats, tests, clocks, and the meaning of each phase.

use crate::findings::Findings;
use crate::machine::load;
use crate::number_format;
use crate::verdict;
use crate::view::emulation;
use crate::waiting::{FEWEST_BYTES, SLOW_LINK};
use comparison::FEWEST_PAIRS;
use comparison::looks;
use comparison::statistics;
use comparison::study::is_judged;
use record::{Nanos, Phase};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

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
                item("Step", STEP),
                item("Threads", threads(findings)),
                item("Target", target(findings)),
                item("Model", models(findings)),
                item("Ratios", ratios(findings)),
                item("Tests", tests(findings)),
                item("Grades", grades(findings)),
                item("Final metric", final_metric(findings)),
                item("Medians", MEDIANS),
                item("Exposed communication", EXPOSED),
                item("Hidden communication", HIDDEN),
                item("Waiting and transfer", TRANSFER),
                item("Who waited for whom", WAITED),
                item("Slow links", links()),
                item("Machine", machine(findings)),
                item("Drift", drift(findings)),
                item("Kept steps", KEPT),
            ]
            .into_iter()
            .chain(emulation::method(findings).map(|text| item("Emulation", text)))
            .collect(),
            phases: Phase::ALL.into_iter().map(|phase| item(phase.name(), phase.meaning())).collect(),
        }
    }
}

const STEP: &str = "One gradient of one rank. Steps to target are samples divided by the global batch, so that strategies can be \
     compared. The step time of a run is the mean length of all steady steps of its slowest worker, which is what arms are compared by; its typical \
     step is their median. If a strategy exchanges only every few steps, the median is over such periods of the mean of their steps. If workers \
     step independently, both are the time in which all of them together use one global batch: the batch divided by the sum over the workers of \
     samples per step divided by the steady step, waiting included. The warm-up of a strategy that begins as another one, as `pipe-sgd` can begin as `d-sync`, is excluded from step times. \
     The unit of all statistics is the run, not the step.";

const MEDIANS: &str = "Of an even number of values, the median is the middle between the two in the middle; a run that never reached the target counts as \
     infinitely late. The thick line of a curve, its band and the table behind it are of one definition: runs are compared after equally many \
     samples, where every quantity, the wall time included, is the median of the runs that have begun and not ended there, as long as these are half \
     of all. Scoreboard and sentences give geometric means of times, and medians in their place where some runs did not reach the target.";

const EXPOSED: &str =
    "The time in which a communication of the rank is open while its compute lane does not compute.";

const HIDDEN: &str = "The time in which another lane of the rank transfers or encodes data, or waits for a particular peer, while the \
     compute lane neither communicates nor waits. Exposed and hidden communication add up to the time in which communication is open.";

const TRANSFER: &str = "Each transfer opens with a short announcement. Until it arrives, the receiver waits for its peer; from then until the \
     last chunk, bytes are moving. A slow peer therefore shows as waiting, a slow network as transfer.";

const WAITED: &str = "A worker's own time in a step is the time in which its compute lane waits neither for a peer nor for another lane. If \
     workers step together, the last worker of a step is the one with the largest own time. It is charged with the waiting time of each \
     other worker, up to the difference of the two own times; waiting beyond that is caused by the network or a server and hits the last \
     worker as well. Steady steps are compared in which all workers that still run take part; if a strategy exchanges only every few steps, \
     all steps up to an exchange are compared together, because only the exchange makes others wait. In a pipeline, and through \
     neighbours, a delay reaches others in a later step: the seconds are exact for a worker that is always slow, too small for delays \
     that move from worker to worker, and never more than the waiting time. Workers that step independently have no common step and no last \
     worker; their waiting time is shown instead. A rank computes slowly if it is busy, neither communicating nor waiting, at least 1.5 times as \
     long per step as the median of the others.";

const KEPT: &str = "All totals, medians, percentiles and histograms are made from all steps, when a run ends. Of the steps themselves some \
     500 of each lane are kept, evenly spaced, with the 64 slowest of each rank and lane, those with spans, and on all ranks the lowest and the highest \
     loss of each stretch of steps and the first that is not finite; curves of the training loss are drawn from these. Of many spans, whole steps are \
     kept for the timeline: the first, the median and the slowest. With `measure.steps = \"all\"` each step is kept.";

fn machine(findings: &Findings) -> String {
    format!(
        "While ranks train, the counters of each machine are read: other processes and the hypervisor should use less than {} and {} of the \
         cores, tasks should wait for memory in less than {} of the time, and the cores' mean frequency should differ between runs by less than \
         {}. Besides, runs of one arm should differ no more than the blocks of steps within them explain: beyond chance (p below {} over all arms) \
         and by {} or more (half of report.min-effect), it is said. Nothing is left out or corrected for it.",
        verdict::whole_percent(load::OTHERS),
        verdict::whole_percent(load::STEAL),
        verdict::whole_percent(load::MEMORY_PRESSURE),
        verdict::whole_percent(load::FREQUENCY),
        number_format::p_value(load::SPREAD_P),
        verdict::whole_percent(findings.thresholds.min_effect / 2.0),
    )
}

fn drift(findings: &Findings) -> String {
    format!(
        "The logarithms of the runs' mean step times over their starts, by least squares with an intercept for each arm and condition and one slope. \
         A drift is called where the {} t interval of the slope excludes zero, and none that matters where the interval stays within {} over the time \
         of the sweep. Nothing is said where less than two degrees of freedom are left, or where the interval is wider than a doubling.",
        verdict::whole_percent(findings.thresholds.confidence),
        verdict::whole_percent(findings.thresholds.min_effect),
    )
}

fn links() -> String {
    format!(
        "Taken from transfers of at least 1 KiB in steps whose spans are kept, on all lanes. The duration of a transfer is known if \
         the receiver was already waiting when it began; otherwise only a lower bound is known. A rank's link is slow if a byte takes at least {} times as \
         long between it and every other rank that it exchanges with as between those others, with at least {} on either side. \
         Therefore neither of two ranks can be named, nor a server that all traffic passes through. The cost of a slow link to the others \
         is at most their waiting time and their exposed communication, whatever its cause.",
        number_format::short(SLOW_LINK),
        number_format::bytes(FEWEST_BYTES as f64),
    )
}

fn final_metric(findings: &Findings) -> String {
    format!(
        "The mean over equal seeds of the difference between the last values of runs that ended as planned, with its t interval, which is not corrected \
         for the number of arms. What does not matter is {} for accuracies (report.min-quality) and {} of the baseline for losses (report.min-effect). One-sided t tests at half of \
         one less the confidence, corrected by Holm's method over the arms, say whether an arm is not worse by that much, better by it, worse at all (but little, \
         or by how much is open), or worse by it; if none does, it is open.",
        verdict::margin_words(recipe::Metric::TestAccuracy, findings.thresholds.min_quality),
        verdict::whole_percent(findings.thresholds.min_effect),
    )
}

fn runs(findings: &Findings) -> String {
    let rows = findings.rows();
    let in_rung = |run: &recipe::Run| rows.plan.is_of_a_rung(run.cell);
    let to_the_end = || rows.plan.runs.iter().filter(|run| !in_rung(run));
    let mut seeds: Vec<u64> = to_the_end().map(|run| run.seed).collect();
    seeds.sort_unstable();
    seeds.dedup();
    let listed = match seeds.as_slice() {
        [] => "none".to_owned(),
        [first, .., last] if seeds.len() > 8 => format!("{} from {first} to {last}", seeds.len()),
        seeds => seeds.iter().map(u64::to_string).collect::<Vec<_>>().join(", "),
    };
    let looked = match rows.plan.looks.as_slice() {
        [] => String::new(),
        looks => format!(
            "Repeats until decided: looked at after {}, if it takes as many; arms whose comparison is open then, and their baselines, are run \
             on. Each look has one part in {} of the level: p values and doubts count {} times, and intervals of ratios are as wide as that takes, \
             so that claims hold at {} over all looks (Bonferroni). The ratio of a comparison that was settled early lies \
             somewhat too far from 1 on average; its interval allows for it. Looks decide on the speed, not on the quality; looks of earlier sweeps at \
             the same runs are not counted. ",
            looks::listed(looks),
            looks.len(),
            looks.len(),
            verdict::whole_percent(findings.thresholds.confidence),
        ),
    };
    let least = if looked.is_empty() { "" } else { "At least " };
    format!(
        "{looked}{least}{} per arm and condition; seeds {listed}, the same repeat with the same seed in every arm. {} planned{}, {} recorded. \
         A run that diverged or ran out of time is a result; one that failed or was interrupted is excluded and listed. \
         A degraded run, which lost a worker and continued, is excluded as well: from then on it had fewer workers, and the same accident ends a \
         run of a strategy that cannot lose a worker. Including it would judge an arm by its bad luck. Where the recipe itself lets a rank fail, it \
         does so in every arm: a run that continued counts, and one that could not is a result without averages.",
        number_format::plural(findings.study.repeats(), "repeat"),
        match &rows.plan.search {
            Some(_) => number_format::plural(rows.plan.number_of_runs().most, "run"),
            None => number_format::plural(rows.plan.runs.len(), "run"),
        },
        match looks::not_needed(rows) {
            _ if rows.plan.search.is_some() => String::new(),
            0 => String::new(),
            spared => format!(", {spared} not needed"),
        },
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
    let aside = match comparison::statistics::median(&outside) {
        Some(time) => format!(
            " Start-up, evaluation and shut-down took {} more in the median run.",
            number_format::seconds(time)
        ),
        None => String::new(),
    };
    format!(
        "Time starts when the driver sends the start signal, after all ranks have loaded their data and initial weights, and ends with \
         the last step of the slowest rank. Warm-up steps count; start-up, evaluation and shut-down do not.{aside}"
    )
}

/// Threads of the workers: the same for all arms of a condition, except in sweeps recorded before plans fixed them.
fn threads(findings: &Findings) -> String {
    let rows = findings.rows();
    let mut seen: BTreeMap<&str, BTreeSet<u32>> = BTreeMap::new();
    for run in &rows.runs {
        let ranks = run.attempt.iter().flat_map(|attempt| &attempt.ranks);
        let workers = ranks.filter(|rank| rank.role == recipe::Role::Worker && rank.threads > 0);
        let condition = rows.plan.compared_under(run.cell);
        seen.entry(condition).or_default().extend(workers.map(|rank| rank.threads));
    }
    seen.retain(|_, threads| !threads.is_empty());
    let words = |threads: &BTreeSet<u32>| threads.iter().map(u32::to_string).collect::<Vec<_>>().join(" or ");
    let distinct: BTreeSet<&BTreeSet<u32>> = seen.values().collect();
    let told = match distinct.iter().collect::<Vec<_>>().as_slice() {
        [] => return "No worker has reported its number of threads.".to_owned(),
        [only] => format!("{} per worker.", words(only)),
        _ => {
            let each = seen.iter().map(|(condition, threads)| format!("{} with {condition}", words(threads)));
            format!("Per worker {}.", each.collect::<Vec<_>>().join(", "))
        }
    };
    format!(
        "{told} All arms of a condition have the same number, because bits and speed of a result depend on it. The plan takes it from the \
         arm with the most ranks, or from the recipe (nodes.threads). A server has one thread."
    )
}

fn target(findings: &Findings) -> String {
    let Some(target) = findings.study.conditions.iter().find_map(|condition| condition.target) else {
        return "The recipe names no target: arms are compared by step time; final metrics are shown as well.".to_owned();
    };
    let after = target
        .after
        .map(|after| format!(", within {}", number_format::seconds(after.as_secs_f64())))
        .unwrap_or_default();
    let stop = if target.stop { " Runs stop there." } else { " Runs continue to their planned end." };
    format!(
        "{}{after}: the time of the first evaluated snapshot that reaches it. Nothing is interpolated, so the interval between evaluations \
         limits the resolution. Evaluation takes no time on the ranks' clocks. If half of the runs or fewer reach the target, no time is \
         printed.{stop}",
        verdict::target_words(target)
    )
}

/// The models that the arms are judged by.
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
        listed => format!("Accuracy and loss are measured on, and targets reached by: {listed}."),
    }
}

fn ratios(findings: &Findings) -> String {
    format!(
        "Time to a target is the time per step times the steps to the target; each has its own ratio. Runs of equal seeds are paired; a ratio \
         is the geometric mean of the pairs, baseline over arm, with its {} t interval. Times and final metrics of an arm are means over its runs; of an arm that lacks repeats of the \
         baseline, its mean over those that both have, moved by what the baseline's mean over all of its own differs from that over those, so that ratios \
         to the baseline are quotients of times where all runs reached the target; repeats that the baseline lacks are left out. From four comparisons on, all arms under all conditions share \
         what they know of spread as far as they have it in common (half of what Smyth 2004 shares, and k arms of a condition, which share the baseline's runs, as the power 3/4 of k; an arm or a condition that spreads more than \
         the others keeps to itself), so that three repeats tell more than three. A run that \
         missed the target is a pair that is only known to lie beyond a bound, or a run that can never reach it: both are fitted together \
         (Boag 1949), so that a miss costs precision, not the verdict. A claim must also hold without these pairs, and with those near the others as \
         slow runs, where that weakens it; the interval reaches over all readings. Two pairs beside one or two with a miss are tested with the one degree of freedom that they have, or, where that claims more, by \
         the bound, and where there are both either counts twice. Where most pairs miss the baseline's side only, it is taken to have reached \
         the target when it was last watched, which favours it. A target is reached between two evaluations: where the runs spread less than the evaluations lie apart, \
         intervals are widened by what that hides. Arms with equal weights need the same steps exactly, and are compared by their step time.",
        verdict::whole_percent(findings.thresholds.confidence)
    )
}

fn tests(findings: &Findings) -> String {
    let arms = findings.comparisons.iter().map(Vec::len).max().unwrap_or(0);
    let smallest = [3, 4, 5].map(|runs| number_format::p_value(statistics::smallest_p(runs, runs)));
    let [three, four, five] = smallest;
    format!(
        "A t test of the pairs against the edge of the smallest effect that matters, corrected by Holm's method for the {} compared with the \
         baseline under a condition, those that missed the target included. \"Sure\" is one less the one-sided p of that claim, corrected the same way (the p of the table are two-sided), so that it exceeds {} exactly where the grade says so; where evaluations hide \
         a part it is a lower bound. Intervals hold each for itself, without the correction. Which arm leads is tested against each other arm, with the spread of the two alone. Beside it, and \
         not part of the grade, stand the exact permutation test of the unpaired runs and the sign-flip test of the pairs; with three runs per side \
         the former cannot go below {three}, with four {four}, with five {five}.",
        number_format::plural(arms, "arm"),
        verdict::whole_percent(0.5 + findings.thresholds.confidence / 2.0),
    )
}

fn grades(findings: &Findings) -> String {
    let effect = verdict::whole_percent(findings.thresholds.min_effect);
    format!(
        "Faster or slower: by more than {effect} (report.min-effect). But little: there is a difference, and it is smaller. Size open: there is \
         a difference, and the runs do not tell whether it is that large. No difference that matters: less than {effect} either way. Open: none of \
         these. Each claim fails in at most {} of conditions, so that a page of \
         many conditions may hold false ones. Fewer than {FEWEST_PAIRS} pairs settle nothing; two do if the weights are equal, or beside a third with a miss. Did not reach: half of the runs or fewer reached the target. Diverged: half of the runs or more.",
        verdict::whole_percent(1.0 - findings.thresholds.confidence)
    )
}
