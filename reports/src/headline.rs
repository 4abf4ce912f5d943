//! The headline: the verdict of the whole sweep in one paragraph.

use crate::axes::Axes;
use crate::findings::Findings;
use crate::number_format::{self, plural};
use crate::pays;
use crate::scaling::{families, workers_axis};
use crate::search;
use crate::verdict::{Verdict, capitalised, failed_as_ordered, target_words, value_words, whole_percent};
use crate::winner::{Timed, lost_quality, timed};
use comparison::study::{ArmCell, Condition, SpeedMeasure};
use comparison::{Beside, Comparison, FEWEST_PAIRS, Grade, beside};
use recipe::Metric;
use std::collections::BTreeSet;
use store::RunState;

/// Headline of the page, in plain text.
pub(crate) fn headline(findings: &Findings, verdicts: &[Verdict]) -> String {
    let judged = findings.study.conditions.iter().flat_map(|c| &c.cells).any(|e| !e.runs.is_empty());
    if !judged && search::is_in_vain(findings.rows()) {
        return "No setting of any arm was left by the search, so there is nothing to compare: try other values.".to_owned();
    }
    if !judged {
        return nothing_to_compare(findings);
    }
    let missed = all_missed(findings).map(|sentence| sentence + " ").unwrap_or_default();
    if findings.has_conditions() {
        let said = [missed.trim().to_owned(), ended_as_ordered(findings), tally(findings)];
        let said = said.into_iter().chain(distributed(findings));
        return said.filter(|said| !said.is_empty()).collect::<Vec<_>>().join(" ");
    }
    let others: Vec<&Verdict> = verdicts.iter().filter(|verdict| !verdict.baseline).collect();
    let said = match others.as_slice() {
        [] => verdicts.first().map(|verdict| verdict.sentence.clone()).unwrap_or_default(),
        [only] => only.sentence.clone(),
        _ => format!("{}{}", leader(findings), by_grade(findings)),
    };
    missed + &said
}

/// Why no run counts.
fn nothing_to_compare(findings: &Findings) -> String {
    let of = |state| findings.rows().runs.iter().filter(|run| run.state == state).count();
    let degraded = of(RunState::Degraded);
    let failed = of(RunState::Failed) + of(RunState::TimedOut);
    match (degraded, failed) {
        (0, 0) => "No run has finished yet, so there is nothing to compare.".to_owned(),
        (0, failed) => {
            format!("{} failed and none has finished, so there is nothing to compare.", plural(failed, "run"))
        }
        (degraded, _) => format!(
            "{} ended without ranks that were lost on the way and is left out, so there is nothing to compare.",
            plural(degraded, "run")
        ),
    }
}

/// Where no run reached its target: the best value, and what to change.
fn all_missed(findings: &Findings) -> Option<String> {
    let conditions = &findings.study.conditions;
    let target = conditions.iter().find_map(|condition| condition.target)?;
    if conditions.iter().any(|condition| condition.target.is_none()) {
        return None;
    }
    let cells = || conditions.iter().flat_map(|condition| &condition.cells);
    if cells().any(|cell| cell.reached() > 0) {
        return None;
    }
    let same = conditions.iter().all(|condition| condition.target == Some(target));
    let aim = if same { target_words(target) } else { "its target".to_owned() };
    let best = cells().filter_map(|cell| Some((cell.best(target.metric)?, cell.arm)));
    let best =
        best.reduce(|left, right| if is_better(target.metric, right.0, left.0) { right } else { left });
    let best = best.filter(|_| same).map_or(String::new(), |(value, arm)| {
        format!("; the best was {} ({})", value_words(target.metric, value), findings.study.arm_name(arm))
    });
    let within = target
        .after
        .map_or(String::new(), |after| format!(" within {}", number_format::seconds(after.as_secs_f64())));
    let cure = if target.after.is_some() { "allow more time" } else { "train for longer" };
    Some(format!("No run reached {aim}{within}{best}: {cure}, or set another train.target."))
}

fn is_better(metric: Metric, value: f64, other: f64) -> bool {
    if metric.higher_is_better() { value > other } else { value < other }
}

/// The arm with the least time, and whether it is known to be ahead of the others. Arms that lost quality are named, and do
/// not lead; neither does an arm that is known to be slower than another one.
fn leader(findings: &Findings) -> String {
    let Some((condition, comparisons)) = findings.conditions().next() else { return String::new() };
    let thresholds = findings.thresholds;
    let name = |cell: &ArmCell| findings.study.arm_name(cell.arm);
    let worse: BTreeSet<usize> =
        comparisons.iter().filter(|found| lost_quality(found)).map(|found| found.arm).collect();
    let all = timed(condition, thresholds.confidence);
    let (lost, sound): (Vec<&Timed>, Vec<&Timed>) =
        all.iter().partition(|timed| worse.contains(&timed.cell.arm));
    let rivals = |cell: &ArmCell| -> Vec<Beside> {
        let found = beside(condition, cell, thresholds);
        found.into_iter().filter(|rival| sound.iter().any(|other| other.cell.arm == rival.arm)).collect()
    };
    let ahead = |timed: &&&Timed| rivals(timed.cell).iter().all(|rival| !rival.grade.is_slower());
    let Some(first) = sound.iter().find(ahead).or_else(|| sound.first()) else { return String::new() };
    let bought: Vec<&Timed> = lost.into_iter().filter(|other| other.seconds < first.seconds).collect();
    let of = if bought.is_empty() { "" } else { "Of the arms that are not known to be worse in quality, " };
    let open: Vec<&str> = rivals(first.cell)
        .into_iter()
        .filter(|rival| !rival.grade.is_faster())
        .map(|rival| findings.study.arm_name(rival.arm))
        .collect();
    let doubt = if open.is_empty() {
        String::new()
    } else {
        format!("; whether it is ahead of {} is open", listed(&few(&open)))
    };
    let names: Vec<&str> = bought.iter().map(|timed| name(timed.cell)).collect();
    let all_faster = bought.iter().all(|other| {
        let rivals = beside(condition, other.cell, thresholds);
        rivals.iter().any(|rival| rival.arm == first.cell.arm && rival.grade.is_faster())
    });
    let lost = match (names.len(), all_faster) {
        (0, _) => String::new(),
        (1, true) => format!("{} is faster, but worse in quality. ", names[0]),
        (_, true) => format!("{} are faster, but worse in quality. ", listed(&names)),
        (_, false) => format!("{} had less time on average, but lost quality. ", listed(&names)),
    };
    let lead = name(first.cell);
    let time = &first.words;
    let average = if open.is_empty() { "" } else { " on average" };
    match condition.measure() {
        SpeedMeasure::StepTime => {
            format!("{lost}{of}{lead} had the shortest steps{average}, {time}{doubt}. ")
        }
        SpeedMeasure::TimeToTarget | SpeedMeasure::StepsToTarget => {
            format!("{lost}{of}{lead} was first at the target{average}, after {time}{doubt}. ")
        }
    }
}

/// At most three names, then the number of the others.
fn few<'n>(names: &[&'n str]) -> Vec<std::borrow::Cow<'n, str>> {
    const MOST: usize = 4;
    if names.len() <= MOST {
        return names.iter().map(|name| (*name).into()).collect();
    }
    let mut said: Vec<_> = names[..MOST - 1].iter().map(|name| (*name).into()).collect();
    said.push(format!("{} others", names.len() - (MOST - 1)).into());
    said
}

/// Words for an arm of this grade, with the baseline's name and the smallest effect that matters where it needs them.
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
        Grade::Open => format!("not shown to differ from {base}"),
        Grade::DidNotReach => "short of the target".to_owned(),
        Grade::Diverged => "diverged".to_owned(),
    }
}

/// Objection to an arm, beside its grade.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Caveat {
    Quality(&'static str),
    Missed { reached: usize, runs: usize },
    Diverged { diverged: usize, runs: usize },
}

impl Caveat {
    /// Objections to the baseline, which has no comparison.
    fn of_baseline(condition: &Condition, baseline: usize) -> Vec<Self> {
        condition.cell(baseline).map_or_else(Vec::new, |cell| Self::of_runs(condition, cell))
    }

    fn of_runs(condition: &Condition, cell: &ArmCell) -> Vec<Self> {
        let reached = cell.reached();
        let diverged = cell.diverged();
        let runs = cell.runs.len();
        let mut found = Vec::new();
        if condition.target.is_some() && reached < runs {
            found.push(Self::Missed { reached, runs });
        }
        if diverged > 0 {
            found.push(Self::Diverged { diverged, runs });
        }
        found
    }

    fn of(condition: &Condition, comparison: &Comparison) -> Vec<Self> {
        if !comparison.grade.compares() {
            return Vec::new();
        }
        let quality = comparison.quality.as_ref().map_or("", |gap| gap.grade.caveat());
        let mut found = Vec::new();
        if !quality.is_empty() {
            found.push(Self::Quality(quality));
        }
        if let Some(cell) = condition.cell(comparison.arm) {
            found.extend(Self::of_runs(condition, cell));
        }
        found
    }

    fn words(self) -> String {
        match self {
            Self::Quality(words) => words.to_owned(),
            Self::Missed { reached, runs } => format!("reached the target in {reached} of {runs}"),
            Self::Diverged { diverged, runs } => format!("{diverged} of {runs} diverged"),
        }
    }

    /// The same of an arm under several conditions.
    fn kind(self) -> &'static str {
        match self {
            Self::Quality(words) => words,
            Self::Missed { .. } => "short of the target in some runs",
            Self::Diverged { .. } => "diverged in some runs",
        }
    }
}

/// The arms of each grade, if there is only one condition.
fn by_grade(findings: &Findings) -> String {
    let mut sentences = Vec::new();
    for grade in Grade::ALL {
        let found = findings.conditions().flat_map(|(condition, comparisons)| {
            comparisons.iter().map(move |comparison| (condition, comparison))
        });
        let names: Vec<String> = found
            .filter(|(_, comparison)| comparison.grade == grade)
            .map(|(condition, comparison)| {
                let name = findings.study.arm_name(comparison.arm);
                let against: Vec<String> =
                    Caveat::of(condition, comparison).into_iter().map(Caveat::words).collect();
                if against.is_empty() { name.to_owned() } else { format!("{name} ({})", against.join(", ")) }
            })
            .collect();
        if !names.is_empty() {
            sentences.push(format!("{}: {}.", capitalised(&grade_words(findings, grade)), listed(&names)));
        }
    }
    if let Some(condition) = findings.study.conditions.first() {
        let against: Vec<String> =
            Caveat::of_baseline(condition, findings.study.baseline).into_iter().map(Caveat::words).collect();
        if !against.is_empty() {
            let base = findings.study.arm_name(findings.study.baseline);
            sentences.push(format!("Baseline: {base} ({}).", against.join(", ")));
        }
    }
    sentences.join(" ")
}

/// `a, b and c`.
pub(crate) fn listed<T: AsRef<str>>(names: &[T]) -> String {
    match names {
        [] => String::new(),
        [only] => only.as_ref().to_owned(),
        [most @ .., last] => {
            let most: Vec<&str> = most.iter().map(AsRef::as_ref).collect();
            format!("{} and {}", most.join(", "), last.as_ref())
        }
    }
}

/// The arms that a fault of the recipe ends, by the number of conditions; empty where none does. It is what a sweep over faults asks.
fn ended_as_ordered(findings: &Findings) -> String {
    let all = findings.study.conditions.len();
    let runs = findings.rows().runs.iter().filter(|run| failed_as_ordered(run));
    let ended: BTreeSet<usize> = runs.map(|run| run.cell).collect();
    let mut said: Vec<(usize, Vec<&str>)> = Vec::new();
    for (place, arm) in findings.rows().plan.arms.iter().enumerate() {
        let own = findings.study.conditions.iter().filter_map(|condition| condition.cell(place));
        let ends = own.filter(|cell| cell.runs.is_empty() && ended.contains(&cell.index)).count();
        match said.iter_mut().find(|(others, _)| *others == ends) {
            _ if ends == 0 => {}
            Some((_, names)) => names.push(&arm.name),
            None => said.push((ends, vec![&arm.name])),
        }
    }
    let sentence = |(ends, names): &(usize, Vec<&str>)| {
        let verb = if names.len() == 1 { "ends" } else { "end" };
        format!("{} {verb} in {ends} of {}, as the recipe orders.", listed(names), plural(all, "condition"))
    };
    said.iter().map(sentence).collect::<Vec<_>>().join(" ")
}

/// Whether distributing pays, where the conditions differ in the number of workers alone.
fn distributed(findings: &Findings) -> Option<String> {
    let axes = Axes::of(&findings.study)?;
    let families = families(&axes, workers_axis(findings, &axes)?);
    let mut conditions = families.into_values();
    conditions
        .next()
        .filter(|_| conditions.next().is_none())
        .and_then(|all| pays::first_on_most(findings, &all))
}

/// For each arm the number of conditions with each grade; arms with equal numbers share a sentence.
fn tally(findings: &Findings) -> String {
    let mut said: Vec<(String, Vec<&str>)> = Vec::new();
    for (place, arm) in findings.rows().plan.arms.iter().enumerate() {
        let own: Vec<(&Condition, &Comparison)> = findings
            .conditions()
            .flat_map(|(condition, found)| found.iter().map(move |comparison| (condition, comparison)))
            .filter(|(_, comparison)| comparison.arm == place)
            .collect();
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

/// Whether each of some arms has a run that counts.
fn are_judged(condition: &Condition, arms: [usize; 2]) -> bool {
    arms.into_iter().all(|arm| condition.cell(arm).is_some_and(|cell| !cell.runs.is_empty()))
}

/// Whether each of some arms has the runs that a claim needs.
fn has_pairs(condition: &Condition, arms: [usize; 2]) -> bool {
    arms.into_iter().all(|arm| condition.cell(arm).is_some_and(|cell| cell.runs.len() >= FEWEST_PAIRS))
}

/// The grades of one arm over all conditions, then what speaks against it.
fn grades(findings: &Findings, own: &[(&Condition, &Comparison)]) -> String {
    let baseline = findings.study.baseline;
    let (judged, without): (Vec<_>, Vec<_>) =
        own.iter().copied().partition(|(condition, found)| are_judged(condition, [found.arm, baseline]));
    let (judged, few): (Vec<_>, Vec<_>) = judged.into_iter().partition(|(condition, found)| {
        found.grade != Grade::Open || has_pairs(condition, [found.arm, baseline])
    });
    let count = |grade| judged.iter().filter(|(_, found)| found.grade == grade).count();
    let graded =
        Grade::ALL.into_iter().map(|grade| (grade_words(findings, grade), count(grade), String::new()));
    let few = (
        "not judged".to_owned(),
        few.len(),
        format!(", where a comparison has fewer than {FEWEST_PAIRS} runs"),
    );
    let without = ("not compared".to_owned(), without.len(), ", for want of a finished run".to_owned());
    let parts = graded.chain([few, without]).filter(|(_, count, _)| *count > 0);
    // How many conditions there are is said once.
    let of =
        |place| if place == 0 { format!(" of {}", plural(own.len(), "condition")) } else { String::new() };
    let mut said: Vec<String> = parts
        .enumerate()
        .map(|(place, (words, count, why))| format!("{words} in {count}{}{why}", of(place)))
        .collect();
    let mut against: Vec<(&str, usize)> = Vec::new();
    for (condition, comparison) in own {
        for kind in Caveat::of(condition, comparison).into_iter().map(Caveat::kind) {
            match against.iter_mut().find(|(other, _)| *other == kind) {
                Some((_, count)) => *count += 1,
                None => against.push((kind, 1)),
            }
        }
    }
    said.extend(against.into_iter().map(|(kind, count)| format!("{kind} in {count}")));
    said.join(", ")
}
