//! The headline: the verdict of the whole sweep in one paragraph.

use crate::comparison::{Comparison, Grade};
use crate::findings::Findings;
use crate::number_format::Unit;
use crate::statistics::typical;
use crate::study::{ArmCell, Measure};
use crate::verdict::{Verdict, capitalised, whole_percent};

/// Plain text.
pub(crate) fn headline(findings: &Findings, verdicts: &[Verdict]) -> String {
    let judged = findings.study.conditions.iter().flat_map(|c| &c.cells).any(|e| !e.runs.is_empty());
    if !judged {
        return "No run has finished yet, so there is nothing to compare.".to_owned();
    }
    if findings.has_conditions() {
        return tally(findings);
    }
    let others: Vec<&Verdict> = verdicts.iter().filter(|verdict| !verdict.baseline).collect();
    match others.as_slice() {
        [] => verdicts.first().map(|verdict| verdict.sentence.clone()).unwrap_or_default(),
        [only] => only.sentence.clone(),
        _ => format!("{}{}", fastest(findings), by_grade(findings)),
    }
}

fn fastest(findings: &Findings) -> String {
    let Some(condition) = findings.study.conditions.first() else { return String::new() };
    let measure = condition.measure();
    let time = |cell: &ArmCell| {
        let estimate = typical(&cell.values(measure), findings.thresholds.confidence)?;
        let missed = measure == Measure::TimeToTarget && cell.mostly_missed();
        (!missed && !cell.mostly_diverged()).then_some(estimate)
    };
    let timed = condition.cells.iter().filter_map(|cell| Some((cell.arm, time(cell)?)));
    let Some((arm, estimate)) = timed.min_by(|left, right| left.1.value.total_cmp(&right.1.value)) else {
        return String::new();
    };
    let name = findings.study.arm_name(arm);
    let time = Unit::of_seconds(estimate.value).supported(estimate.value, estimate.uncertainty());
    if measure == Measure::StepTime {
        format!("{name} had the shortest steps, {time}. ")
    } else {
        format!("{name} was first at the target, after {time}. ")
    }
}

/// What an arm's grade makes of it; `{}` is the baseline with the smallest effect that matters.
fn grade_words(findings: &Findings, grade: Grade) -> String {
    let base = findings.study.arm_name(findings.study.baseline);
    let effect = whole_percent(findings.thresholds.min_effect);
    match grade {
        Grade::Faster => format!("faster than {base} by more than {effect}"),
        Grade::FasterOpen => format!("faster than {base}, by how much is open"),
        Grade::FasterSmall => format!("faster than {base}, but by less than {effect}"),
        Grade::NoDifference => format!("as fast as {base} to within {effect}"),
        Grade::SlowerSmall => format!("slower than {base}, but by less than {effect}"),
        Grade::SlowerOpen => format!("slower than {base}, by how much is open"),
        Grade::Slower => format!("slower than {base} by more than {effect}"),
        Grade::Open => "open".to_owned(),
        Grade::DidNotReach => "short of the target".to_owned(),
        Grade::Diverged => "diverged".to_owned(),
    }
}

/// What speaks against an arm: quality, missed targets, divergence; empty if nothing does.
fn caveat(findings: &Findings, comparison: &Comparison) -> String {
    if !comparison.grade.compares() {
        return String::new();
    }
    let mut said: Vec<String> = Vec::new();
    said.extend(comparison.quality.as_ref().map(|gap| gap.grade.caveat().to_owned()));
    let place = findings
        .comparisons
        .iter()
        .position(|found| found.iter().any(|other| std::ptr::eq(other, comparison)));
    let condition = place.and_then(|place| findings.study.conditions.get(place));
    if let Some((condition, cell)) = condition.and_then(|found| Some((found, found.cell(comparison.arm)?))) {
        if condition.target.is_some() && cell.reached() < cell.runs.len() {
            said.push(format!("reached it in {} of {}", cell.reached(), cell.runs.len()));
        }
        if cell.diverged() > 0 {
            said.push(format!("{} of {} diverged", cell.diverged(), cell.runs.len()));
        }
    }
    said.retain(|words| !words.is_empty());
    said.join(", ")
}

/// The arms of each grade, if there is only one condition.
fn by_grade(findings: &Findings) -> String {
    let mut sentences = Vec::new();
    for grade in Grade::ALL {
        let arms = findings.comparisons.iter().flatten().filter(|found| found.grade == grade);
        let names: Vec<String> = arms
            .map(|found| match caveat(findings, found).as_str() {
                "" => findings.study.arm_name(found.arm).to_owned(),
                words => format!("{} ({words})", findings.study.arm_name(found.arm)),
            })
            .collect();
        if !names.is_empty() {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            sentences.push(format!("{}: {}.", capitalised(&grade_words(findings, grade)), listed(&names)));
        }
    }
    sentences.join(" ")
}

/// `a, b and c`.
pub(crate) fn listed(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

/// For each arm the number of conditions with each grade; arms with equal numbers share a sentence.
fn tally(findings: &Findings) -> String {
    let mut said: Vec<(String, Vec<&str>)> = Vec::new();
    for (place, arm) in findings.rows().plan.arms.iter().enumerate() {
        let own: Vec<&Comparison> =
            findings.comparisons.iter().flatten().filter(|found| found.arm == place).collect();
        if own.is_empty() || place == findings.study.baseline {
            continue;
        }
        let words = grades(findings, &own);
        match said.iter_mut().find(|(others, _)| *others == words) {
            Some((_, names)) => names.push(&arm.name),
            None => said.push((words, vec![&arm.name])),
        }
    }
    let sentence = |(words, names): &(String, Vec<&str>)| {
        format!("{} {} {words}.", listed(names), if names.len() == 1 { "is" } else { "are" })
    };
    said.iter().map(sentence).collect::<Vec<_>>().join(" ")
}

/// The grades of one arm over all conditions.
fn grades(findings: &Findings, own: &[&Comparison]) -> String {
    let count = |grade| own.iter().filter(|found| found.grade == grade).count();
    let graded = Grade::ALL.into_iter().map(|grade| (count(grade), grade_words(findings, grade)));
    let worse = own.iter().filter(|found| !caveat(findings, found).is_empty()).count();
    let mut said: Vec<String> = graded
        .filter(|(count, _)| *count > 0)
        .map(|(count, words)| format!("{words} in {count} of {} conditions", own.len()))
        .collect();
    if worse > 0 {
        said.push(format!("with quality, misses or divergence to be read in {worse}"));
    }
    said.join(", ")
}
