//! Every run that is excluded from averages, and why.

use super::condition_title;
use super::folding;
use crate::findings::Findings;
use crate::search;
use comparison::looks;
use comparison::study::is_degraded;
use serde::Serialize;
use store::{AttemptRow, RunRow, RunState};

/// Runs on a page of many conditions.
const MOST_LISTED: usize = 200;

#[derive(Debug, Serialize)]
pub(crate) struct Failures {
    pub(crate) runs: Vec<FailedRun>,
    pub(crate) excluded: Vec<ExcludedCell>,
    /// Sentences on runs that are not listed, not begun or under way; may be empty.
    pub(crate) pending: String,
}

#[derive(Debug, Serialize)]
pub(crate) struct FailedRun {
    pub(crate) arm: String,
    pub(crate) condition: String,
    pub(crate) repeat: String,
    pub(crate) seed: String,
    pub(crate) state: String,
    /// The same for people.
    pub(crate) state_words: String,
    /// How the statistics treat it.
    pub(crate) treatment: String,
    pub(crate) reason: String,
    pub(crate) rank: String,
    pub(crate) attempt: String,
    pub(crate) last_lines: String,
}

#[derive(Debug, Serialize)]
pub(crate) struct ExcludedCell {
    pub(crate) label: String,
    pub(crate) reason: String,
}

impl Failures {
    pub(crate) fn of(findings: &Findings) -> Self {
        let rows = findings.rows();
        let under_way = looks::under_way(rows);
        let waiting = |run: &&RunRow| matches!(run.state, RunState::Pending | RunState::Running);
        let ended =
            |run: &&RunRow| !waiting(run) && !matches!(run.state, RunState::Done | RunState::NotNeeded);
        let cells = rows.plan.cells.iter();
        let all = rows.runs.iter().filter(ended).count();
        let most = if folding::are_cut(findings) { MOST_LISTED } else { all };
        let mut said = Vec::new();
        if all > most {
            said.push(format!("The first {most} of {all} such runs are listed; the CSV files hold all."));
        }
        said.push(pending(search::due(rows).filter(waiting).filter(|run| run.repeat < under_way).collect()));
        said.retain(|sentence| !sentence.is_empty());
        Self {
            runs: rows.runs.iter().filter(ended).take(most).map(|run| failed(findings, run)).collect(),
            excluded: cells
                .filter_map(|cell| {
                    Some(ExcludedCell { label: cell.label.clone(), reason: cell.excluded.clone()? })
                })
                .collect(),
            pending: said.join(" "),
        }
    }
}

fn pending(runs: Vec<&RunRow>) -> String {
    let under_way = runs.iter().filter(|run| run.state == RunState::Running).count();
    match (runs.len() - under_way, under_way) {
        (0, 0) => String::new(),
        (pending, 0) => format!("{} not begun yet.", are(pending)),
        (0, running) => format!("{} marked as under way.", are(running)),
        (pending, running) => format!("{} not begun yet, {running} marked as under way.", are(pending)),
    }
}

fn are(count: usize) -> String {
    if count == 1 { "1 run is".to_owned() } else { format!("{count} runs are") }
}

fn failed(findings: &Findings, run: &RunRow) -> FailedRun {
    let cell = findings.rows().plan.cells.get(run.cell);
    let condition = findings.study.condition_of(run.cell);
    let of_search = cell.map(|cell| cell.condition.clone());
    let attempt = run.attempt.as_ref();
    let text =
        |value: Option<String>| value.filter(|text| !text.is_empty()).unwrap_or_else(|| "–".to_owned());
    FailedRun {
        arm: cell.map_or("?", |cell| findings.study.arm_name(cell.arm)).to_owned(),
        condition: condition.map(condition_title).or(of_search).unwrap_or_default(),
        repeat: (run.repeat + 1).to_string(),
        seed: run.seed.to_string(),
        state: run.state.name().to_owned(),
        state_words: run.state_words(),
        treatment: if condition.is_none() && findings.rows().plan.search.is_some() {
            "its setting was given up".to_owned()
        } else {
            treatment(run)
        },
        reason: text(attempt.map(|attempt| attempt.detail.clone())),
        rank: text(attempt.map(ranks)),
        attempt: text(attempt.map(|attempt| attempt.number.to_string())),
        last_lines: attempt.map(|attempt| attempt.last_lines.join("\n")).unwrap_or_default(),
    }
}

/// The rank to blame, or else the lost ranks.
fn ranks(attempt: &AttemptRow) -> String {
    let lost = attempt.lost.iter().map(|lost| lost.rank);
    let ranks: Vec<_> = attempt.culprit.map_or_else(|| lost.collect(), |rank| vec![rank]);
    ranks.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn treatment(run: &RunRow) -> String {
    let words = match run.state {
        RunState::Done | RunState::Degraded | RunState::Diverged | RunState::TimedOut
            if run.is_as_ordered() =>
        {
            "counts: the recipe lets the rank fail in every arm, and this is what the strategy does about it"
        }
        RunState::Failed if run.is_as_ordered() => {
            "a result: the strategy does not continue without the rank, or the link, that the recipe takes from it; it counts as a run that missed its target, and \
             without a target in no average"
        }
        RunState::Done | RunState::Degraded | RunState::Diverged | RunState::TimedOut if is_degraded(run) => {
            let lost = run.attempt.iter().flat_map(|attempt| &attempt.lost);
            let lost: Vec<String> = lost.map(|lost| lost.rank.to_string()).collect();
            return match &lost[..] {
                [] => "left out of all statistics: it lost a rank".to_owned(),
                [one] => {
                    format!("left out of all statistics: without rank {one} it was a run of fewer workers")
                }
                more => {
                    let more = more.join(", ");
                    format!("left out of all statistics: without ranks {more} it was a run of fewer workers")
                }
            };
        }
        RunState::Diverged => "a result: counts in the share that reached the target, not in final metrics",
        RunState::TimedOut => "watched until its time limit: counts in the share that reached the target",
        RunState::Failed | RunState::Interrupted => "left out of all statistics",
        RunState::Pending | RunState::NotNeeded | RunState::Running | RunState::Done | RunState::Degraded => {
            ""
        }
    };
    words.to_owned()
}
