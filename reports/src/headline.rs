//! The headline: the verdict of the whole sweep in one paragraph.

use crate::comparison::Grade;
use crate::findings::Findings;
use crate::number_format::Unit;
use crate::study::{ArmCell, Measure};
use crate::verdict::{Verdict, typical};

/// Plain text.
pub(crate) fn headline(findings: &Findings, verdicts: &[Verdict]) -> String {
    let judged = findings.study.conditions.iter().flat_map(|c| &c.cells).any(|e| !e.runs.is_empty());
    if !judged {
        return "No run has finished yet, so there is nothing to compare.".to_owned();
    }
    if !findings.has_conditions() {
        let strongest = verdicts.iter().filter(|verdict| !verdict.baseline).collect::<Vec<_>>();
        return match strongest.as_slice() {
            [] => verdicts.first().map(|verdict| verdict.sentence.clone()).unwrap_or_default(),
            [only] => format!("{} {}", only.sentence, grade_words(only.grade)).trim().to_owned(),
            many => format!("{}{}", fastest(findings), by_grade(findings, many)),
        };
    }
    let others: Vec<&Verdict> = verdicts.iter().filter(|verdict| !verdict.baseline).collect();
    tally(findings, &others)
}

fn grade_words(grade: Option<Grade>) -> &'static str {
    match grade {
        Some(Grade::Clear) => "The difference in speed is clear.",
        Some(Grade::WithinNoise) => "The difference in speed is within noise.",
        Some(Grade::NotEnoughEvidence) => "That is not enough evidence for a difference in speed.",
        Some(Grade::DidNotReach) | None => "",
    }
}

fn fastest(findings: &Findings) -> String {
    let Some(condition) = findings.study.conditions.first() else { return String::new() };
    let measure = condition.measure();
    let time = |cell: &ArmCell| {
        let estimate = typical(&cell.values(measure), findings.thresholds.confidence)?;
        let missed = measure == Measure::TimeToTarget && cell.mostly_missed();
        (!missed).then_some(estimate)
    };
    let timed = condition.cells.iter().filter_map(|cell| Some((cell.arm, time(cell)?)));
    let Some((arm, estimate)) = timed.min_by(|left, right| left.1.value.total_cmp(&right.1.value)) else {
        return String::new();
    };
    let name = findings.study.arm_name(arm);
    let time = Unit::of_seconds(estimate.value).supported(estimate.value, estimate.uncertainty());
    match measure {
        Measure::TimeToTarget => format!("{name} was first at the target, after {time}. "),
        Measure::StepTime => format!("{name} had the shortest steps, {time}. "),
    }
}

/// The arms of each grade, if there is only one condition.
fn by_grade(findings: &Findings, verdicts: &[&Verdict]) -> String {
    let base = findings.study.arm_name(findings.study.baseline);
    let clear = |faster: bool| {
        let chosen = findings.comparisons.iter().flatten().filter(|found| found.grade == Grade::Clear);
        let names = chosen
            .filter(|found| found.is_faster() == faster)
            .map(|found| findings.study.arm_name(found.arm));
        names.collect::<Vec<_>>()
    };
    let graded = |grade| {
        let chosen = verdicts.iter().filter(|verdict| verdict.grade == Some(grade));
        chosen.map(|verdict| verdict.arm.as_str()).collect::<Vec<_>>()
    };
    let groups = [
        (format!("Clearly faster than {base}"), clear(true)),
        (format!("Clearly slower than {base}"), clear(false)),
        (format!("Within noise of {base}"), graded(Grade::WithinNoise)),
        ("Not enough evidence".to_owned(), graded(Grade::NotEnoughEvidence)),
        ("Short of the target".to_owned(), graded(Grade::DidNotReach)),
    ];
    let said = groups.iter().filter(|(_, arms)| !arms.is_empty());
    said.map(|(words, arms)| format!("{words}: {}.", listed(arms))).collect::<Vec<_>>().join(" ")
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
fn tally(findings: &Findings, verdicts: &[&Verdict]) -> String {
    let mut said: Vec<(String, Vec<&str>)> = Vec::new();
    for (place, arm) in findings.rows().plan.arms.iter().enumerate() {
        let own: Vec<&&Verdict> = verdicts.iter().filter(|verdict| verdict.arm == arm.name).collect();
        if own.is_empty() || place == findings.study.baseline {
            continue;
        }
        let words = grades(findings, place, &own);
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
fn grades(findings: &Findings, arm: usize, own: &[&&Verdict]) -> String {
    let base = findings.study.arm_name(findings.study.baseline);
    let of = |grade| own.iter().filter(|verdict| verdict.grade == Some(grade)).count();
    let (sooner, later) = clear_sides(findings, arm);
    let counts = [
        (sooner, format!("clearly faster than {base}")),
        (later, format!("clearly slower than {base}")),
        (of(Grade::WithinNoise), format!("within noise of {base}")),
        (of(Grade::NotEnoughEvidence), "without enough evidence".to_owned()),
        (of(Grade::DidNotReach), "short of the target".to_owned()),
    ];
    let said = counts.iter().filter(|(count, _)| *count > 0);
    said.map(|(count, words)| format!("{words} in {count} of {} conditions", own.len()))
        .collect::<Vec<_>>()
        .join(", ")
}

fn clear_sides(findings: &Findings, arm: usize) -> (usize, usize) {
    let clear = findings.comparisons.iter().flatten().filter(|c| c.arm == arm && c.grade == Grade::Clear);
    let (sooner, later): (Vec<_>, Vec<_>) = clear.partition(|found| found.is_faster());
    (sooner.len(), later.len())
}
