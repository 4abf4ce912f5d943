//! Whether it pays to distribute at all: each arm on several workers beside one worker, by the rule that arms are compared by.

use crate::cost;
use crate::findings::Findings;
use crate::number_format;
use crate::verdict::{advice_words, ratio_number, raw_interval, target_words, whole_percent};
use crate::winner::timed;
use comparison::statistics::Estimate;
use comparison::study::{ArmCell, Condition, Resource};
use comparison::{Across, Comparison, Grade, Quality, across};

/// An arm on several workers, and what it is beside one.
pub(crate) struct Pays<'f, 'a> {
    condition: &'f Condition<'a>,
    cell: &'f ArmCell<'a>,
    control: &'f ArmCell<'a>,
    comparison: Comparison,
}

/// The measures of each arm on each number of workers of these conditions, which differ in that number alone; empty where none has a
/// single worker.
pub(crate) fn pays<'f, 'a>(findings: &'f Findings<'a>, conditions: &[usize]) -> Vec<Pays<'f, 'a>> {
    let all = || conditions.iter().filter_map(|number| findings.study.conditions.get(*number));
    let has_runs = |cell: &&ArmCell| !cell.runs.is_empty();
    let Some(alone) = all().find(|one| one.workers == 1 && one.cells.iter().any(|cell| has_runs(&cell)))
    else {
        return Vec::new();
    };
    // For an arm that has no run on one worker, the fastest of those that have.
    let fastest = timed(alone, findings.thresholds.confidence).first().map(|timed| timed.cell.arm);
    let on_one = |arm: usize| alone.cells.iter().find(|cell| cell.arm == arm).filter(has_runs);
    let mut asked = Vec::new();
    for arm in 0..findings.rows().plan.arms.len() {
        let Some(control) = on_one(arm).or_else(|| on_one(fastest?)) else { continue };
        for condition in all().filter(|one| one.workers > 1 && one.target == alone.target) {
            let own = condition.cells.iter().find(|cell| cell.arm == arm).filter(has_runs);
            asked.extend(own.map(|cell| Across { condition, cell, control }));
        }
    }
    let found = across(&asked, findings.thresholds);
    let pays = |(asked, comparison): (&Across<'f, 'a>, Comparison)| {
        let Across { condition, cell, control } = *asked;
        Pays { condition, cell, control, comparison }
    };
    asked.iter().zip(found).map(pays).collect()
}

/// On the most workers, the arm that is first there: for the headline. `None` where no run had one worker.
pub(crate) fn first_on_most(findings: &Findings, conditions: &[usize]) -> Option<String> {
    let found = pays(findings, conditions);
    let most = found.iter().map(|one| one.condition.workers).max()?;
    let there = || found.iter().filter(|one| one.condition.workers == most);
    let fastest = timed(there().next()?.condition, findings.thresholds.confidence);
    let first = fastest.iter().find_map(|timed| there().find(|one| one.cell.arm == timed.cell.arm));
    first.or_else(|| there().next()).map(|one| one.sentence(findings))
}

impl Pays<'_, '_> {
    pub(crate) fn is_of(&self, arm: usize, workers: u32) -> bool {
        self.cell.arm == arm && self.condition.workers == workers
    }

    /// The ratio of the times, with its interval, as on `1.90× (1.74–2.11)`.
    pub(crate) fn ratio_words(&self) -> String {
        match (self.speed(), self.comparison.speed().bound()) {
            (Some(ratio), _) => cost::with_interval(ratio),
            (None, Some(least)) => format!("> {}", number_format::times(least)),
            (None, None) => "–".to_owned(),
        }
    }

    /// In two or three words.
    pub(crate) fn verdict(&self) -> &'static str {
        let costs_quality = self.quality().is_some_and(Quality::is_lost);
        match self.comparison.grade {
            Grade::Faster | Grade::FasterOpen | Grade::FasterSmall if costs_quality => "costs quality",
            Grade::Faster => "pays",
            Grade::FasterOpen => "pays, size open",
            Grade::FasterSmall => "pays little",
            Grade::NoDifference | Grade::SlowerSmall | Grade::SlowerOpen | Grade::Slower => "does not pay",
            Grade::Open if self.control_missed() => "reached by it alone",
            Grade::Open => "open",
            Grade::DidNotReach => "did not reach",
            Grade::Diverged => "diverged",
        }
    }

    /// `On 4 workers d-sync reached 97.0 % test accuracy 2.10× as soon as on one (1.90–2.30), with 1.90× the rank time (1.74–2.11):
    /// distributing pays.`
    pub(crate) fn sentence(&self, findings: &Findings) -> String {
        let arm = findings.study.arm_name(self.cell.arm);
        let on = format!("On {} workers {arm}", self.condition.workers);
        let one = if self.control.arm == self.cell.arm {
            "on one".to_owned()
        } else {
            format!("{} on one", findings.study.arm_name(self.control.arm))
        };
        let aim = self.condition.target.map(target_words);
        let runs = |cell: &ArmCell| number_format::plural(cell.runs.len(), "run");
        match (self.comparison.grade, self.speed(), &aim) {
            (Grade::Diverged, ..) => {
                let diverged = self.cell.diverged();
                format!("{on} diverged in {diverged} of {}: distributing does not pay.", runs(self.cell))
            }
            (Grade::DidNotReach, _, Some(aim)) => {
                let shares =
                    [self.cell, self.control].map(|cell| format!("{} of {}", cell.reached(), runs(cell)));
                let said = if self.control_missed() {
                    "whether distributing pays is open"
                } else {
                    "distributing does not pay"
                };
                format!("{on} reached {aim} in {}, {one} in {}: {said}.", shares[0], shares[1])
            }
            (_, _, Some(aim)) if self.control_missed() => {
                let shares =
                    [self.cell, self.control].map(|cell| format!("{} of {}", cell.reached(), runs(cell)));
                format!(
                    "{on} reached {aim} in {}, {one} in {}: distributed runs alone got there.",
                    shares[0], shares[1]
                )
            }
            (grade, Some(ratio), _) => {
                let said = time_words(ratio, aim.as_deref(), &one);
                let pays = pays_words(grade, findings.thresholds.min_effect);
                let advice = self.comparison.speed().advice(findings.thresholds).map(advice_words);
                let advice = advice.map_or(String::new(), |advice| format!(" {advice}"));
                format!("{on} {said}{}: {pays}{}.{advice}", self.cost_words(), self.quality_words())
            }
            _ => format!("{on} has no time that could be compared with that {one}."),
        }
    }

    /// Of the model that it ends with. To a target, all are as good as the target asks.
    fn quality(&self) -> Option<Quality> {
        let gap = self.comparison.quality.as_ref().filter(|_| self.condition.target.is_none());
        gap.map(|gap| gap.grade)
    }

    fn quality_words(&self) -> &'static str {
        match self.quality() {
            Some(Quality::Worse) => "; it costs quality: the final metric is worse",
            Some(Quality::WorseOpen) => "; it costs quality: the final metric is worse, by how much is open",
            Some(Quality::WorseSmall) => "; the final metric is a little worse",
            Some(Quality::Open) => "; whether the final metric is worse is open",
            Some(Quality::SameWeights | Quality::Better | Quality::NotWorse) | None => "",
        }
    }

    /// Cost beside that of one worker, in words: in time of machines where it has more of these, else of ranks.
    fn cost_words(&self) -> String {
        let own = self.cell.usage;
        let control = self.control.usage;
        let resource = if own.machines == control.machines { Resource::Ranks } else { Resource::Machines };
        let name = if resource == Resource::Ranks { "rank time" } else { "machine time" };
        let rates = own.rate(resource).zip(control.rate(resource)).map(|(own, control)| own / control);
        let cost = self.speed().zip(rates).map(|(speed, rates)| speed.map(|speed| rates / speed));
        cost.map_or(String::new(), |cost| {
            format!(", with {} the {name}{}", ratio_number(cost), raw_interval(cost))
        })
    }

    /// Time on one worker divided by time on several.
    fn speed(&self) -> Option<Estimate> {
        self.comparison.speed().ratio.filter(|_| self.comparison.grade.compares() && !self.control_missed())
    }

    fn control_missed(&self) -> bool {
        self.condition.lost(self.control).is_some()
    }
}

/// `reached 97.0 % test accuracy 2.10× as soon as on one (1.90–2.30)`, and the same of a slower arm.
fn time_words(speed: Estimate, aim: Option<&str>, one: &str) -> String {
    let is_faster = speed.value >= 1.0;
    let ratio = if is_faster { speed } else { speed.map(f64::recip) };
    let times = ratio_number(ratio);
    let interval = raw_interval(ratio);
    match (aim, is_faster) {
        (Some(aim), true) => format!("reached {aim} {times} as soon as {one}{interval}"),
        (Some(aim), false) => format!("needed {times} as long to {aim} as {one}{interval}"),
        (None, true) => format!("trained {times} as fast as {one}{interval}"),
        (None, false) => format!("needed {times} as long for a sample as {one}{interval}"),
    }
}

/// Conclusion whether distributing pays, by the grade.
fn pays_words(grade: Grade, min_effect: f64) -> String {
    let effect = whole_percent(min_effect);
    match grade {
        Grade::Faster => "distributing pays".to_owned(),
        Grade::FasterOpen => format!("distributing pays, whether by more than {effect} is open"),
        Grade::FasterSmall => format!("distributing gains less than {effect}"),
        Grade::NoDifference => format!("distributing does not pay, the difference is less than {effect}"),
        Grade::SlowerSmall | Grade::SlowerOpen | Grade::Slower | Grade::Diverged | Grade::DidNotReach => {
            "distributing does not pay".to_owned()
        }
        Grade::Open => "whether distributing pays is open".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;
    use crate::sample::Sample;
    use crate::scaling::families;
    use record::Nanos;
    use store::SweepRows;

    /// `d-sync` on one and on four workers, whose times to the target have this ratio to a part in a thousand.
    fn rows(speed: f64) -> SweepRows {
        let arms = Sample::duel().arms.split_off(1);
        let mut rows = Sample { arms, workers: vec![1, 4], ..Sample::duel() }.rows();
        for run in &mut rows.runs {
            let jitter = 1.0 + 1e-3 * f64::from((run.repeat * 7 + run.cell as u32 * 3) % 5);
            let all = if run.cell == 0 { 10.0 } else { 10.0 / speed } * jitter;
            let attempt = run.attempt.as_mut().unwrap();
            for row in &mut attempt.metrics {
                row.at = Nanos((all * 1e9 * row.samples as f64 / 48_000.0) as u64);
            }
            let step = Nanos((all * 1e9 / 480.0) as u64);
            (attempt.step_time, attempt.mean_step_time) = (Some(step), Some(step));
        }
        // The same evaluation is the first at the target in all runs.
        let metrics = rows.runs[0].attempt.clone().unwrap().metrics;
        for run in &mut rows.runs {
            let own = &mut run.attempt.as_mut().unwrap().metrics;
            own.iter_mut().zip(&metrics).for_each(|(row, first)| row.value = first.value);
        }
        rows
    }

    fn said(rows: &SweepRows) -> String {
        let findings = Findings::of(rows, &Options::default()).unwrap();
        first_on_most(&findings, &[0, 1]).unwrap().replace('\u{a0}', " ")
    }

    #[test]
    fn distributing_is_judged_by_the_interval() {
        assert_eq!(
            said(&rows(2.0)),
            "On 4 workers d-sync reached 97.0 % test accuracy 2.000× as soon as on one (1.993–2.007), with 2.000× the rank time (1.993–2.007): \
             distributing pays."
        );
        let slower = said(&rows(0.5));
        assert!(slower.contains("needed 2.000× as long to 97.0 % test accuracy as on one ("), "{slower}");
        assert!(
            slower.ends_with("with 8.000× the rank time (7.973–8.027): distributing does not pay."),
            "{slower}"
        );
    }

    #[test]
    fn what_the_runs_do_not_tell_is_open() {
        let mut few = rows(2.0);
        few.runs.retain(|run| run.repeat == 0);
        few.plan.runs.retain(|run| run.repeat == 0);
        assert!(said(&few).ends_with(": whether distributing pays is open."), "{}", said(&few));
        // The weights of both are equal, so that steps tell it.
        let mut noisy = rows(1.08);
        for run in &mut noisy.runs {
            let factor = 1.0 + 0.08 * f64::from((run.repeat * 3 + run.cell as u32 * 2) % 5);
            let attempt = run.attempt.as_mut().unwrap();
            attempt.mean_step_time =
                attempt.mean_step_time.map(|step| Nanos((step.0 as f64 * factor) as u64));
        }
        let noisy = said(&noisy);
        assert!(
            noisy.contains(": whether distributing pays is open. With ") && noisy.contains("repeats in all"),
            "{noisy}"
        );
    }

    #[test]
    fn a_side_that_misses_the_target_is_counted() {
        let missed = |cell: usize| {
            let mut rows = rows(2.0);
            for run in rows.runs.iter_mut().filter(|run| run.cell == cell) {
                run.attempt.as_mut().unwrap().metrics.retain(|row| row.value < 0.9);
            }
            said(&rows)
        };
        assert_eq!(
            missed(0),
            "On 4 workers d-sync reached 97.0 % test accuracy in 5 of 5 runs, on one in 0 of 5 runs: distributed runs alone got there."
        );
        assert!(
            missed(1).ends_with("in 0 of 5 runs, on one in 5 of 5 runs: distributing does not pay."),
            "{}",
            missed(1)
        );
    }

    /// Without a target nothing else says that the distributed model is worse.
    #[test]
    fn time_that_costs_quality_is_said_to() {
        let said = |lost: f64| {
            let mut rows = rows(2.0);
            for cell in &mut rows.plan.cells {
                cell.spec.train.target = None;
            }
            for run in rows.runs.iter_mut().filter(|run| run.cell == 1) {
                let attempt = run.attempt.as_mut().unwrap();
                attempt.metrics.iter_mut().for_each(|row| row.value -= lost);
                attempt.weights = Some(Ok(format!("others {}", run.seed)));
            }
            said(&rows)
        };
        let as_good = said(0.0);
        assert!(as_good.ends_with("distributing pays."), "{as_good}");
        let worse = "distributing pays; it costs quality: the final metric is worse.";
        assert!(said(0.1).ends_with(worse), "{}", said(0.1));
    }

    /// Weak scaling without a target: steps of four times as many samples are compared by the sample.
    #[test]
    fn without_a_target_samples_are_timed() {
        let mut rows = rows(1.0);
        for cell in &mut rows.plan.cells {
            cell.spec.train.target = None;
            cell.spec.train.global_batch = 100 * cell.spec.cluster.workers();
        }
        let said = said(&rows);
        assert!(
            said.contains("d-sync trained 4.000× as fast as on one (")
                && said.ends_with("distributing pays."),
            "{said}"
        );
        assert!(said.contains("with 1.000× the rank time ("), "{said}");
    }

    #[test]
    fn an_arm_without_a_run_on_one_worker_is_compared_with_the_fastest_that_has_one() {
        let mut rows = Sample { workers: vec![1, 4], ..Sample::duel() }.rows();
        rows.runs.retain(|run| run.cell != 0);
        let findings = Findings::of(&rows, &Options::default()).unwrap();
        let found = pays(&findings, &[0, 1]);
        let said: Vec<String> = found.iter().map(|one| one.sentence(&findings)).collect();
        assert_eq!(said.len(), 2);
        assert!(
            said[0].starts_with("On 4 workers ps-sync ") && said[0].contains("as d-sync on one"),
            "{}",
            said[0]
        );
    }

    #[test]
    fn without_one_worker_the_page_says_how_to_add_it() {
        let rows = Sample { workers: vec![2, 4], ..Sample::duel() }.rows();
        let findings = Findings::of(&rows, &Options::default()).unwrap();
        assert!(pays(&findings, &[0, 1]).is_empty() && first_on_most(&findings, &[0, 1]).is_none());
        let axes = crate::axes::Axes::of(&findings.study).unwrap();
        assert_eq!(families(&axes, 0).len(), 1);
        let section = crate::view::scaling::Scaling::of(&findings, &axes).unwrap();
        assert!(section.note.contains("add 1 to the values of `nodes.workers`"), "{}", section.note);
    }
}
