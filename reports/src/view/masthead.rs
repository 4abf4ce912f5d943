//! The head of the page: question, verdict, and facts that support or weaken it.

use crate::Options;
use crate::calendar;
use crate::findings::Findings;
use crate::gossip;
use crate::headline;
use crate::number_format;
use crate::phase_shares;
use crate::study::is_degraded;
use crate::verdict::Verdict;
use crate::view::emulation;
use crate::waiting;
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

/// A fact that supports the numbers or weakens them.
#[derive(Debug, Serialize)]
pub(crate) struct TrustMark {
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) good: bool,
}

impl TrustMark {
    /// `good` tells whether it supports the numbers.
    pub(crate) fn new(name: &str, good: bool, text: impl Into<String>) -> Self {
        Self { name: name.to_owned(), text: text.into(), good }
    }

    fn supports(name: &str, text: impl Into<String>) -> Self {
        Self::new(name, true, text)
    }

    fn warns(name: &str, text: impl Into<String>) -> Self {
        Self::new(name, false, text)
    }
}

/// Largest share of the time that recording may take without disturbing the measurement.
const RECORDING_LIMIT: f64 = 0.01;

/// Smallest share of the time that named phases must cover.
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
            number_format::plural(rows.plan.arms.len(), "arm"),
            number_format::plural(rows.plan.runs.len(), "run"),
            calendar::moment(rows.started),
            options.generated_by.clone(),
        ];
        let subtitle: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        Self {
            question,
            verdict: [headline::headline(findings, verdicts)]
                .into_iter()
                .chain(waiting::summary(findings))
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
        .flat_map(|c| &c.cells)
        .flat_map(|e| &e.runs)
        .map(|t| t.attempt)
        .collect();
    let mut marks = vec![repeats(findings), failures(findings)];
    marks.extend(degraded(findings));
    marks.extend(missing(findings));
    marks.push(order(&rows.plan));
    marks.push(match &rows.commit {
        Some((commit, false)) => TrustMark::supports("code", format!("commit {}, no changes", short(commit))),
        Some((commit, true)) => {
            TrustMark::warns("code", format!("commit {} with uncommitted changes", short(commit)))
        }
        None => TrustMark::warns("code", "recipe not under version control"),
    });
    marks.extend(weights(findings));
    marks.extend(coverage(&attempts));
    marks.extend(recording(&attempts));
    marks.extend(cores(findings));
    marks.extend(gossip(findings));
    marks.extend(emulation::mark(findings));
    let reused = rows.runs.iter().filter(|run| run.reused).count();
    if reused > 0 {
        marks.push(TrustMark::supports(
            "reused",
            format!("{} taken from an earlier sweep of equal identity", number_format::plural(reused, "run")),
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

/// Runs that continued without a rank; failed ones are counted as failed.
fn degraded(findings: &Findings) -> Option<TrustMark> {
    let counted = |run: &&RunRow| {
        is_degraded(run)
            && !matches!(run.state, RunState::Failed | RunState::TimedOut | RunState::Interrupted)
    };
    let count = findings.rows().runs.iter().filter(counted).count();
    let text = || {
        format!(
            "{} continued after losing a rank, left out of the statistics",
            number_format::plural(count, "run")
        )
    };
    (count > 0).then(|| TrustMark::warns("degraded", text()))
}

fn missing(findings: &Findings) -> Option<TrustMark> {
    let rows = findings.rows();
    let open =
        rows.runs.iter().filter(|run| matches!(run.state, RunState::Pending | RunState::Running)).count();
    let open = open + rows.plan.runs.len().saturating_sub(rows.runs.len());
    let empty =
        findings.study.conditions.iter().flat_map(|c| &c.cells).filter(|cell| cell.planned == 0).count();
    (open + empty > 0).then(|| {
        TrustMark::warns("missing", format!("{} not finished", number_format::plural(open + empty, "run")))
    })
}

/// Whether runs of different arms alternate, so that a drift of the machine does not favour one.
fn order(plan: &Plan) -> TrustMark {
    let arm = |run: &recipe::Run| plan.cells.get(run.cell).map(|cell| cell.arm);
    let changes = plan.runs.windows(2).filter(|pair| arm(&pair[0]) != arm(&pair[1])).count();
    if plan.arms.len() < 2 || plan.runs.len() < 3 {
        return TrustMark::supports("order", "one arm at a time, nothing to interleave");
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

/// Whether the ranks that must agree do so. Only finished runs count: others may have ended between two averages.
fn weights(findings: &Findings) -> Option<TrustMark> {
    let cells = || findings.study.conditions.iter().flat_map(|condition| &condition.cells);
    let known: Vec<bool> = cells()
        .filter(|cell| cell.ranks_agree)
        .flat_map(|cell| &cell.runs)
        .filter(|judged| judged.run.state == RunState::Done)
        .filter_map(|judged| judged.attempt.weights.as_ref())
        .map(Result::is_ok)
        .collect();
    let free: BTreeSet<usize> =
        cells().filter(|cell| !cell.ranks_agree && !cell.runs.is_empty()).map(|cell| cell.arm).collect();
    let names: Vec<&str> = free.into_iter().map(|arm| findings.study.arm_name(arm)).collect();
    let aside =
        if names.is_empty() { String::new() } else { format!("not applicable to {}", names.join(", ")) };
    match (known.len(), known.iter().filter(|agree| !**agree).count()) {
        (0, _) if names.is_empty() => None,
        (0, _) => Some(TrustMark::supports("weights", aside)),
        (_, 0) => Some(TrustMark::supports("weights", with("all ranks end with the same bits", &aside))),
        (_, apart) => {
            let text = format!("ranks end with different weights in {}", number_format::plural(apart, "run"));
            Some(TrustMark::warns("weights", with(&text, &aside)))
        }
    }
}

fn with(text: &str, aside: &str) -> String {
    if aside.is_empty() { text.to_owned() } else { format!("{text}; {aside}") }
}

fn coverage(attempts: &[&AttemptRow]) -> Option<TrustMark> {
    let named = |attempt: &&AttemptRow| {
        let shares = phase_shares::workers(attempt)?;
        Some(1.0 - shares.of(Phase::Other) / shares.length)
    };
    let least = attempts.iter().filter_map(named).reduce(f64::min)?;
    let text = format!("named phases cover {} of every step", number_format::percent(least));
    Some(TrustMark::new("books", least >= COVERAGE_LIMIT, text))
}

fn recording(attempts: &[&AttemptRow]) -> Option<TrustMark> {
    let most =
        attempts.iter().flat_map(|a| &a.ranks).filter_map(|rank| rank.recording_share).reduce(f64::max)?;
    Some(TrustMark::new(
        "recording",
        most < RECORDING_LIMIT,
        format!("costs at most {} of the time", number_format::percent(most)),
    ))
}

/// Warns of an arm whose workers rarely average.
fn gossip(findings: &Findings) -> Option<TrustMark> {
    let (arm, rate) = gossip::rarest(findings)?;
    let text = format!(
        "{arm}: {} averagings per gradient, workers train mostly alone",
        number_format::fixed(rate, 2)
    );
    Some(TrustMark::warns("gossip", text))
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
    // If work takes a stated time, ranks may share cores; another mark says whether the arithmetic fitted.
    let stated = |cell: &recipe::Cell| cell.spec.emulation.compute.is_some();
    if !findings.rows().plan.cells.is_empty() && findings.rows().plan.cells.iter().all(stated) {
        return None;
    }
    let (load, threads, cores) = most?;
    let text = format!(
        "up to {} on {}",
        number_format::plural(threads as usize, "busy thread"),
        number_format::plural(cores as usize, "core")
    );
    Some(TrustMark::new("cores", load <= 1.0, text))
}
