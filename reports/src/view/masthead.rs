//! The head of the page: question, verdict, and what a reader should know before believing it.

use crate::Options;
use crate::calendar;
use crate::digits;
use crate::findings::Findings;
use crate::gossip;
use crate::heterogeneity;
use crate::paragraph;
use crate::shares;
use crate::study::is_degraded;
use crate::verdict::Verdict;
use crate::view::emulation;
use recipe::Plan;
use record::Phase;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use store::{AttemptRow, RunRow, RunState};

/// The head.
#[derive(Debug, Serialize)]
pub(crate) struct Masthead {
    pub(crate) question: String,
    pub(crate) verdict: String,
    pub(crate) subtitle: String,
    pub(crate) marks: Vec<TrustMark>,
}

/// One thing that supports the numbers, or does not.
#[derive(Debug, Serialize)]
pub(crate) struct TrustMark {
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) good: bool,
}

impl TrustMark {
    pub(crate) fn new(name: &str, good: bool, text: impl Into<String>) -> Self {
        Self { name: name.to_owned(), text: text.into(), good }
    }
}

/// A recorder that takes more of the time than this disturbs what it measures.
const RECORDING_LIMIT: f64 = 0.01;

/// Named phases are to cover this share of the time.
const COVERAGE_LIMIT: f64 = 0.98;

/// The default number of repeats, and the smallest with which exact tests can settle several arms.
const REPEATS_WANTED: usize = 5;

impl Masthead {
    pub(crate) fn of(findings: &Findings, verdicts: &[Verdict], options: &Options) -> Self {
        let rows = findings.rows();
        let name = &rows.plan.name;
        let question = if rows.plan.question.is_empty() { name.clone() } else { rows.plan.question.clone() };
        let parts = [
            if rows.plan.question.is_empty() { String::new() } else { name.clone() },
            digits::plural(rows.plan.arms.len(), "arm"),
            digits::plural(rows.plan.runs.len(), "run"),
            calendar::moment(rows.started),
            options.generated_by.clone(),
        ];
        let subtitle: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        Self {
            question,
            verdict: [paragraph::paragraph(findings, verdicts)]
                .into_iter()
                .chain(heterogeneity::summary(findings))
                .collect::<Vec<_>>()
                .join(" "),
            subtitle: subtitle.join(" · "),
            marks: marks(findings),
        }
    }
}

fn marks(findings: &Findings) -> Vec<TrustMark> {
    let rows = findings.rows();
    let attempts: Vec<&AttemptRow> = findings
        .study
        .conditions
        .iter()
        .flat_map(|c| &c.entries)
        .flat_map(|e| &e.trials)
        .map(|t| t.attempt)
        .collect();
    let mut marks = vec![repeats(findings), failures(findings)];
    marks.extend(degraded(findings));
    marks.extend(missing(findings));
    marks.push(order(&rows.plan));
    marks.push(match &rows.commit {
        Some((commit, false)) => {
            TrustMark::new("code", true, format!("commit {}, no changes", short(commit)))
        }
        Some((commit, true)) => {
            TrustMark::new("code", false, format!("commit {} with uncommitted changes", short(commit)))
        }
        None => TrustMark::new("code", false, "recipe not under version control"),
    });
    marks.extend(weights(findings));
    marks.extend(coverage(&attempts));
    marks.extend(recording(&attempts));
    marks.extend(cores(findings));
    marks.extend(gossip(findings));
    marks.extend(emulation::mark(findings));
    let reused = rows.runs.iter().filter(|run| run.reused).count();
    if reused > 0 {
        marks.push(TrustMark::new(
            "reused",
            true,
            format!("{} taken from an earlier sweep of equal identity", digits::plural(reused, "run")),
        ));
    }
    marks
}

/// The first twelve characters of a digest.
pub(crate) fn short(digest: &str) -> String {
    digest.chars().take(12).collect()
}

fn repeats(findings: &Findings) -> TrustMark {
    let repeats = findings.study.repeats();
    let aside = if repeats < REPEATS_WANTED {
        format!("; {REPEATS_WANTED} is the smallest that settles several arms")
    } else {
        String::new()
    };
    TrustMark::new("repeats", repeats >= REPEATS_WANTED, format!("{repeats} per arm{aside}"))
}

fn failures(findings: &Findings) -> TrustMark {
    let count =
        |states: &[RunState]| findings.rows().runs.iter().filter(|run| states.contains(&run.state)).count();
    let failed = count(&[RunState::Failed, RunState::TimedOut, RunState::Interrupted]);
    let diverged = count(&[RunState::Diverged]);
    let text = match (failed, diverged) {
        (0, 0) => "none failed".to_owned(),
        (0, diverged) => format!("none failed, {diverged} diverged"),
        (failed, 0) => format!("{failed} without a full result"),
        (failed, diverged) => format!("{failed} without a full result, {diverged} diverged"),
    };
    TrustMark::new("runs", failed == 0, text)
}

/// Runs that went on without a rank; failed ones are counted as such.
fn degraded(findings: &Findings) -> Option<TrustMark> {
    let counted = |run: &&RunRow| {
        is_degraded(run)
            && !matches!(run.state, RunState::Failed | RunState::TimedOut | RunState::Interrupted)
    };
    let count = findings.rows().runs.iter().filter(counted).count();
    let text = || {
        format!("{} went on after losing a rank, left out of the statistics", digits::plural(count, "run"))
    };
    (count > 0).then(|| TrustMark::new("degraded", false, text()))
}

fn missing(findings: &Findings) -> Option<TrustMark> {
    let rows = findings.rows();
    let open =
        rows.runs.iter().filter(|run| matches!(run.state, RunState::Pending | RunState::Running)).count();
    let open = open + rows.plan.runs.len().saturating_sub(rows.runs.len());
    let empty =
        findings.study.conditions.iter().flat_map(|c| &c.entries).filter(|entry| entry.planned == 0).count();
    (open + empty > 0).then(|| {
        TrustMark::new("missing", false, format!("{} not finished", digits::plural(open + empty, "run")))
    })
}

/// Runs of different arms follow each other, so that a drift of the machine does not favour one.
fn order(plan: &Plan) -> TrustMark {
    let arm = |run: &recipe::Run| plan.cells.get(run.cell).map(|cell| cell.arm);
    let changes = plan.runs.windows(2).filter(|pair| arm(&pair[0]) != arm(&pair[1])).count();
    if plan.arms.len() < 2 || plan.runs.len() < 3 {
        return TrustMark::new("order", true, "one arm at a time, nothing to interleave");
    }
    // A blocked order changes arms once per arm and condition; an interleaved one nearly always.
    let interleaved = changes * 2 >= plan.runs.len() - 1;
    let text = if interleaved {
        "arms interleaved"
    } else {
        "arms run in blocks: a drift of the machine may favour one"
    };
    TrustMark::new("order", interleaved, text)
}

/// Whether ranks that must agree do. A run that was cut off may have been cut off between two averages.
fn weights(findings: &Findings) -> Option<TrustMark> {
    let entries = || findings.study.conditions.iter().flat_map(|condition| &condition.entries);
    let known: Vec<bool> = entries()
        .filter(|entry| entry.ranks_agree)
        .flat_map(|entry| &entry.trials)
        .filter(|trial| trial.run.state == RunState::Done)
        .filter_map(|trial| trial.attempt.weights.as_ref())
        .map(Result::is_ok)
        .collect();
    let free: BTreeSet<usize> = entries()
        .filter(|entry| !entry.ranks_agree && !entry.trials.is_empty())
        .map(|entry| entry.arm)
        .collect();
    let names: Vec<&str> = free.into_iter().map(|arm| findings.study.arm_name(arm)).collect();
    let aside =
        if names.is_empty() { String::new() } else { format!("not applicable to {}", names.join(", ")) };
    match (known.len(), known.iter().filter(|agree| !**agree).count()) {
        (0, _) if names.is_empty() => None,
        (0, _) => Some(TrustMark::new("weights", true, aside)),
        (_, 0) => Some(TrustMark::new("weights", true, with("all ranks end with the same bits", &aside))),
        (_, apart) => {
            let text = format!("ranks end with different weights in {}", digits::plural(apart, "run"));
            Some(TrustMark::new("weights", false, with(&text, &aside)))
        }
    }
}

fn with(text: &str, aside: &str) -> String {
    if aside.is_empty() { text.to_owned() } else { format!("{text}; {aside}") }
}

fn coverage(attempts: &[&AttemptRow]) -> Option<TrustMark> {
    let named = |attempt: &&AttemptRow| {
        let shares = shares::workers(attempt)?;
        Some(1.0 - shares.of(Phase::Other) / shares.length)
    };
    let least = attempts.iter().filter_map(named).reduce(f64::min)?;
    let text = format!("named phases cover {} of every step", digits::percent(least));
    Some(TrustMark::new("books", least >= COVERAGE_LIMIT, text))
}

fn recording(attempts: &[&AttemptRow]) -> Option<TrustMark> {
    let most =
        attempts.iter().flat_map(|a| &a.ranks).filter_map(|rank| rank.recording_share).reduce(f64::max)?;
    Some(TrustMark::new(
        "recording",
        most < RECORDING_LIMIT,
        format!("costs at most {} of the time", digits::percent(most)),
    ))
}

/// Where gradients rarely meet a partner, an arm is not what its name says.
fn gossip(findings: &Findings) -> Option<TrustMark> {
    let (arm, rate) = gossip::rarest(findings)?;
    let text =
        format!("{arm}: {} averagings per gradient, workers train mostly alone", digits::fixed(rate, 2));
    Some(TrustMark::new("gossip", false, text))
}

/// Whether the ranks of a node computed with more threads than it has cores.
fn cores(findings: &Findings) -> Option<TrustMark> {
    let nodes = &findings.rows().nodes;
    let mut most: Option<(f64, u32, u32)> = None;
    for attempt in findings.rows().runs.iter().filter_map(|run| run.attempt.as_ref()) {
        let mut threads: BTreeMap<u32, u32> = BTreeMap::new();
        for rank in attempt.ranks.iter().filter(|rank| rank.role == recipe::Role::Worker) {
            *threads.entry(rank.node).or_default() += rank.threads.max(1);
        }
        for (node, threads) in threads {
            let Some(cores) = nodes.get(node as usize).map(|node| node.cores).filter(|cores| *cores > 0)
            else {
                continue;
            };
            let load = f64::from(threads) / f64::from(cores);
            if most.is_none_or(|(known, _, _)| load > known) {
                most = Some((load, threads, cores));
            }
        }
    }
    // Where work takes a stated time, ranks may share cores: whether the arithmetic fitted is said beside it.
    let stated = |cell: &recipe::Cell| cell.spec.emulation.compute.is_some();
    if !findings.rows().plan.cells.is_empty() && findings.rows().plan.cells.iter().all(stated) {
        return None;
    }
    let (load, threads, cores) = most?;
    let text = format!(
        "up to {} on {}",
        digits::plural(threads as usize, "busy thread"),
        digits::plural(cores as usize, "core")
    );
    Some(TrustMark::new("cores", load <= 1.0, text))
}
