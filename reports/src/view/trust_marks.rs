//! Marks of what supports or weakens the numbers of a page: repeats, failures, order, machine, code, weights, books.

use super::planned_faults;
use super::trust_mark::TrustMark;
use crate::findings::Findings;
use crate::gossip;
use crate::machine::load;
use crate::machine::turns::{self, TurnKind};
use crate::number_format;
use crate::phase_shares;
use crate::search;
use crate::verdict::whole_percent;
use crate::view::emulation;
use comparison::looks;
use comparison::study::{ArmCell, Condition, EqualWeights, JudgedRun, Study, is_degraded};
use comparison::{Comparison, FEWEST_PAIRS};
use record::Phase;
use std::collections::{BTreeMap, BTreeSet};
use store::{AttemptRow, RunRow, RunState, SweepRows};

/// Largest share of the time that recording may take without disturbing the measurement.
const RECORDING_LIMIT: f64 = 0.01;

/// Smallest share of the time that named phases must cover.
const COVERAGE_LIMIT: f64 = 0.98;

/// The fewest runs of an arm that ends with the weights of the baseline bit for bit: only their speed is compared.
const FEWEST_EQUAL_RUNS: usize = 2;

/// The marks, in the order of the page.
pub(super) fn marks(findings: &Findings) -> Vec<TrustMark> {
    let rows = findings.rows();
    let judged: Vec<&JudgedRun> =
        findings.study.conditions.iter().flat_map(|c| &c.cells).flat_map(|e| &e.runs).collect();
    let attempts: Vec<&AttemptRow> = judged.iter().map(|judged| judged.attempt).collect();
    // A rank that the recipe pauses is in no phase meanwhile.
    let is_paused = |judged: &&&JudgedRun| !rows.plan.cells[judged.run.cell].spec.paused().is_zero();
    let unpaused: Vec<&AttemptRow> =
        judged.iter().filter(|judged| !is_paused(judged)).map(|judged| judged.attempt).collect();
    let mut marks = vec![repeats(findings), failures(findings)];
    marks.extend(degraded(findings));
    marks.extend(missing(findings));
    marks.push(order(findings));
    marks.extend(machine(findings));
    marks.push(match &rows.commit {
        Some(commit) if commit.is_changed => {
            TrustMark::warns("code", format!("commit {} with uncommitted changes", short(&commit.hash)))
        }
        Some(commit) => TrustMark::supports("code", format!("commit {}, no changes", short(&commit.hash))),
        None => TrustMark::warns("code", "recipe not under version control"),
    });
    marks.extend(weights(findings));
    marks.extend(coverage(&unpaused));
    marks.extend(recording(&attempts));
    marks.extend(cores(findings));
    marks.extend(gossip(findings));
    marks.extend(emulation::mark(findings));
    marks.extend(planned_faults::mark(findings));
    marks.extend(reused(findings));
    marks
}

/// Runs of an earlier sweep. A pair of which only one run is from then holds what the machine changed since.
fn reused(findings: &Findings) -> Option<TrustMark> {
    let count = findings.rows().runs.iter().filter(|run| run.reused).count();
    if count == 0 {
        return None;
    }
    let text =
        format!("{} taken from an earlier sweep of equal identity", number_format::plural(count, "run"));
    Some(match pairs_apart(&findings.study) {
        0 => TrustMark::supports("reused", text),
        apart => TrustMark::warns(
            "reused",
            format!(
                "{text}; in {} with the baseline only one run is, so that a change of the machine since then counts as a \
                 difference",
                number_format::plural(apart, "pair")
            ),
        ),
    })
}

/// Pairs of an arm's run and the baseline's of which one is of an earlier sweep and one is not.
fn pairs_apart(study: &Study) -> usize {
    let apart = |base: &ArmCell, cell: &ArmCell| {
        let differs = |judged: &&JudgedRun| {
            let other = base.runs.iter().find(|other| other.run.repeat == judged.run.repeat);
            other.is_some_and(|other| other.run.reused != judged.run.reused)
        };
        cell.runs.iter().filter(differs).count()
    };
    let of_condition = |condition: &Condition| {
        let base = condition.cell(study.baseline)?;
        Some(condition.cells.iter().map(|cell| apart(base, cell)).sum::<usize>())
    };
    study.conditions.iter().filter_map(of_condition).sum()
}

/// The first twelve characters of a digest.
pub(crate) fn short(digest: &str) -> String {
    // Two commits of a comparison are joined by a word.
    let words = digest.split(' ').map(|word| word.chars().take(12).collect::<String>());
    words.collect::<Vec<_>>().join(" ")
}

/// The runs that count, in the arm that has the fewest. They are counted, not planned.
fn repeats(findings: &Findings) -> TrustMark {
    let study = &findings.study;
    let counts = || study.arm_cells().map(|placed| placed.cell.runs.len());
    let most = counts().max().unwrap_or(0);
    let comparisons = findings.comparisons.iter().map(Vec::len).max().unwrap_or(0);
    let compared = match comparisons {
        0 => String::new(),
        many => format!("; {} with the baseline", number_format::plural(many, "comparison")),
    };
    let fewest = study.arm_cells().min_by_key(|placed| placed.cell.runs.len());
    let looked = &findings.rows().plan.looks;
    let text = match fewest {
        None => "no run is judged".to_owned(),
        Some(placed) if !looked.is_empty() && study.arm_cells().all(|placed| placed.cell.is_complete()) => {
            let least = placed.cell.runs.len();
            let count = if least == most {
                number_format::plural(most, "run")
            } else {
                format!("{least} to {most} runs")
            };
            let most = looked.last().copied().unwrap_or_default();
            format!("{count} judged in each arm, until decided or {most}{compared}")
        }
        Some(placed) if placed.cell.runs.len() == most && placed.cell.planned <= most => {
            format!("{} judged in each arm{compared}", number_format::plural(most, "run"))
        }
        Some(placed) => format!(
            "{} of {} judged of {}, up to {most} of others{compared}",
            placed.cell.runs.len(),
            placed.cell.planned,
            findings.label(&placed)
        ),
    };
    if findings.conditions().any(|(condition, comparisons)| too_few_runs(study, condition, comparisons)) {
        return TrustMark::warns("repeats", format!("{text}; a comparison needs {FEWEST_PAIRS} of each arm"));
    }
    let open = findings.comparisons.iter().flatten().filter(|comparison| comparison.grade.is_open()).count();
    if open > 0 {
        let scope = if findings.comparisons.len() > 1 { " in all conditions" } else { "" };
        return TrustMark::warns("repeats", format!("{text}, {open} open{scope}"));
    }
    TrustMark::supports("repeats", text)
}

/// Whether an arm has fewer judged runs than its comparison rests on. The baseline needs as many as the most demanding arm.
fn too_few_runs(study: &Study, condition: &Condition, comparisons: &[Comparison]) -> bool {
    let enough = |same_weights: bool| if same_weights { FEWEST_EQUAL_RUNS } else { FEWEST_PAIRS };
    condition.cells.iter().any(|cell| {
        let mut compared = comparisons
            .iter()
            .filter(|comparison| comparison.arm == cell.arm || cell.arm == study.baseline)
            .peekable();
        let equal = compared.peek().is_some() && compared.all(|comparison| comparison.same_weights.is_some());
        cell.runs.len() < enough(equal)
    })
}

fn failures(findings: &Findings) -> TrustMark {
    let runs = || findings.rows().runs.iter();
    let ordered = runs().filter(|run| run.state == RunState::Failed && run.is_as_ordered()).count();
    let count = |states: &[RunState]| runs().filter(|run| states.contains(&run.state)).count();
    let failed = count(&[RunState::Failed, RunState::TimedOut, RunState::Interrupted]) - ordered;
    let given_up = rungs_that_diverged(findings.rows());
    let diverged = count(&[RunState::Diverged]) - given_up;
    let text = match (failed, diverged) {
        (0, 0) => "none failed".to_owned(),
        (0, diverged) => format!("none failed, {diverged} diverged"),
        (failed, 0) => format!("{failed} without a full result"),
        (failed, diverged) => format!("{failed} without a full result, {diverged} diverged"),
    };
    let text = match given_up {
        0 => text,
        1 => format!("{text}; 1 setting of a search diverged and was given up"),
        many => format!("{text}; {many} settings of searches diverged and were given up"),
    };
    let text = if ordered == 0 { text } else { format!("{text}; {ordered} failed as the recipe lets them") };
    TrustMark::new("runs", failed + diverged == 0, text)
}

/// A search tries settings that are too large.
fn rungs_that_diverged(rows: &SweepRows) -> usize {
    let in_rung = |run: &&RunRow| rows.plan.is_of_a_rung(run.cell);
    rows.runs.iter().filter(|run| run.state == RunState::Diverged).filter(in_rung).count()
}

/// Runs that continued without a rank; failed ones are counted as failed.
fn degraded(findings: &Findings) -> Option<TrustMark> {
    let counted = |run: &&RunRow| {
        is_degraded(run)
            && !run.is_as_ordered()
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

/// Planned runs that the page knows nothing of.
pub(super) fn absent(rows: &SweepRows) -> usize {
    rows.plan.runs.len().saturating_sub(rows.runs.len())
}

fn missing(findings: &Findings) -> Option<TrustMark> {
    let rows = findings.rows();
    let under_way = looks::under_way(rows);
    let waits = |run: &&RunRow| matches!(run.state, RunState::Pending | RunState::Running);
    let open = search::due(rows).filter(waits).filter(|run| run.repeat < under_way).count();
    let open = open + absent(rows);
    // Of an arm whose settings were all given up no run is missing.
    let empty = |cell: &&ArmCell| cell.planned == 0 && rows.plan.search.is_none();
    let empty = findings.study.conditions.iter().flat_map(|c| &c.cells).filter(empty).count();
    (open + empty > 0).then(|| {
        TrustMark::warns("missing", format!("{} not finished", number_format::plural(open + empty, "run")))
    })
}

/// Whether runs of different arms were made in turn, so that a drift of the machine favours none.
fn order(findings: &Findings) -> TrustMark {
    let Some(worst) = turns::worst(&findings.study) else {
        return TrustMark::supports("order", "no arm is compared with another");
    };
    let name = |arm: usize| findings.study.arm_name(arm);
    let arm = name(worst.arm);
    let baseline = name(findings.study.baseline);
    match worst.kind {
        TurnKind::InTurn(share) => TrustMark::supports(
            "order",
            format!("arms in turn: at most {} of a steady drift enters a comparison", whole_percent(share)),
        ),
        TurnKind::Once => TrustMark::warns(
            "order",
            format!("one run of {arm} and of {baseline}: a drift of the machine looks like a difference"),
        ),
        TurnKind::Apart(share) => {
            let cure = if turns::planned_in_turn(&findings.study, worst.arm) {
                "`--fresh` trains all runs again, in turn"
            } else {
                "`repeats.order = \"interleave\"` and `--fresh` train them in turn"
            };
            TrustMark::warns(
                "order",
                format!(
                    "{arm} and {baseline} were not trained in turn: {} of a steady drift of the machine counts as a \
                     difference; {cure}",
                    whole_percent(share)
                ),
            )
        }
        TurnKind::ReusedOnOneSide { arm: from_earlier, reused, runs } => {
            let other = if from_earlier == worst.arm { baseline } else { arm };
            TrustMark::warns(
                "order",
                format!(
                    "{reused} of {} of {} were taken from an earlier sweep, none of {other}: a change of the machine \
                     since then counts as a difference; `--fresh` trains all again, in turn",
                    number_format::plural(runs, "run"),
                    name(from_earlier)
                ),
            )
        }
    }
}

/// Whether the machine was quiet while the runs that count were trained.
fn machine(findings: &Findings) -> Option<TrustMark> {
    let load = load::of(findings)?;
    let good = load.doubts.is_empty();
    Some(TrustMark::new("machine", good, if good { load.quiet } else { load.doubts.join("; ") }))
}

/// Whether the ranks that must agree do so. Only finished runs count: others may have ended between two averages.
fn weights(findings: &Findings) -> Option<TrustMark> {
    let cells = || findings.study.conditions.iter().flat_map(|condition| &condition.cells);
    let known: Vec<bool> = cells()
        .filter(|cell| cell.equal.compared())
        .flat_map(|cell| &cell.runs)
        .filter(|judged| judged.run.state == RunState::Done)
        .filter_map(|judged| judged.attempt.weights.as_ref())
        .map(Result::is_ok)
        .collect();
    let named = |equal: EqualWeights| {
        let arms: BTreeSet<usize> = cells()
            .filter(|cell| cell.equal == equal && !cell.runs.is_empty())
            .map(|cell| cell.arm)
            .collect();
        arms.into_iter().map(|arm| findings.study.arm_name(arm)).collect::<Vec<_>>().join(", ")
    };
    let asides =
        [(EqualWeights::Own, "not applicable to"), (EqualWeights::OneHolder, "nothing to compare in")];
    let asides = asides.map(|(equal, words)| (words, named(equal)));
    let asides = asides.iter().filter(|(_, arms)| !arms.is_empty());
    let aside = asides.map(|(words, arms)| format!("{words} {arms}")).collect::<Vec<_>>().join("; ");
    let whole = cells().filter(|cell| !cell.runs.is_empty()).any(|cell| cell.equal == EqualWeights::All);
    let sets = [
        (EqualWeights::Holders, "that hold the same part of the model"),
        (EqualWeights::OwnSets, "that the strategy names"),
    ];
    let mut same: Vec<String> =
        whole.then(|| "all ranks end with the same bits".to_owned()).into_iter().collect();
    for (equal, which) in sets {
        match named(equal) {
            arms if arms.is_empty() => {}
            _ if same.is_empty() => same.push(format!("ranks {which} end with the same bits")),
            arms => same.push(format!("in {arms} those {which}")),
        }
    }
    let same = same.join(", ");
    match (known.len(), known.iter().filter(|agree| !**agree).count()) {
        (0, _) if aside.is_empty() => None,
        (0, _) => Some(TrustMark::supports("weights", aside)),
        (_, 0) => Some(TrustMark::supports("weights", with(&same, &aside))),
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
