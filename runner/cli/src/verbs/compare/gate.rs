//! Conditions under which a comparison fails: `--fail-if`.

use super::Compared;
use crate::ending;
use crate::exit::Failure;
use crate::page;
use clap::ValueEnum;
use reports::{Grade, Quality, Verdict};
use store::{RunRow, RunState};

/// Condition of `--fail-if` that ends the program with exit code 6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(super) enum Fault {
    /// B is slower by more than the smallest difference that matters, misses the target, or diverges.
    Slower,
    /// The runs do not tell whether B is slower by that much, or B has no such runs.
    Uncertain,
    /// B's final metric is worse, and not surely by less than `report.min-quality`, or is not known; or B diverges.
    Worse,
}

impl Fault {
    pub(super) const ALL: [Self; 3] = [Self::Slower, Self::Uncertain, Self::Worse];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Slower => "slower",
            Self::Uncertain => "uncertain",
            Self::Worse => "worse",
        }
    }

    /// Whether it is so of an arm.
    fn is_of(self, found: &Compared, verdict: &Verdict, low: Option<f64>) -> bool {
        match self {
            Self::Slower => match verdict.grade {
                Some(Grade::DidNotReach | Grade::Diverged) => found.falls_short_more(&verdict.condition),
                grade => grade == Some(Grade::Slower),
            },
            Self::Uncertain => {
                let edge = 1.0 / (1.0 + found.joined.rows.plan.report.min_effect);
                let surely_not_slower = low.is_some_and(|low| low > edge);
                matches!(verdict.grade, None | Some(Grade::Open | Grade::SlowerOpen)) && !surely_not_slower
            }
            Self::Worse => {
                let unknown = verdict.quality.is_none() && !found.stops(&verdict.condition);
                unknown
                    || verdict.quality.is_some_and(Quality::is_lost)
                    || verdict.grade == Some(Grade::Diverged)
            }
        }
    }
}

impl Compared {
    /// Whether all runs of a condition stop at the target, so that no final metric is compared.
    fn stops(&self, condition: &str) -> bool {
        let mut own = self.joined.rows.plan.cells.iter().filter(|cell| cell.condition == condition);
        own.all(|cell| cell.spec.train.target.is_some_and(|target| target.stop))
    }

    /// Whether a larger part of the second side's runs fell short than of the first one's.
    fn falls_short_more(&self, condition: &str) -> bool {
        let rows = &self.joined.rows;
        let part = |side: usize| {
            let of_side = |run: &&RunRow| {
                let cell = &rows.plan.cells[run.cell];
                cell.arm == side && cell.condition == condition && run.state != RunState::NotNeeded
            };
            let runs: Vec<&RunRow> = rows.runs.iter().filter(of_side).collect();
            let short = runs.iter().filter(|run| ending::fell_short(rows, run)).count();
            short as f64 / runs.len().max(1) as f64
        };
        part(1) > part(0)
    }

    /// The faults that any arm has, and under which conditions, in the order of the faults. One claim is made of all conditions, so that each of them is tested
    /// at its part of the level (Bonferroni).
    pub(super) fn faults(&self, wanted: &[Fault]) -> Result<Vec<(Fault, Vec<String>)>, Failure> {
        let mut rows = self.joined.rows.clone();
        let doubt = 1.0 - rows.plan.report.confidence;
        rows.plan.report.confidence = 1.0 - doubt / self.joined.pairs.len().max(1) as f64;
        let strict = reports::verdicts(&rows, &page::options())?;
        let usual = self.verdicts()?;
        let measured = reports::verdict_rows(&self.joined.rows, &page::options())?;
        let low = |verdict: &Verdict| {
            let mut own = measured.iter().filter(|row| row.condition == verdict.condition && row.decides);
            own.next().and_then(|row| row.low)
        };
        let mut found = Vec::new();
        for fault in Fault::ALL.into_iter().filter(|fault| wanted.contains(fault)) {
            let verdicts = if fault == Fault::Uncertain { &usual } else { &strict };
            let of_fault = verdicts
                .iter()
                .filter(|verdict| !verdict.baseline && fault.is_of(self, verdict, low(verdict)));
            let mut cells: Vec<String> = of_fault
                .map(|verdict| {
                    if verdict.condition.is_empty() { &verdict.arm } else { &verdict.condition }.clone()
                })
                .collect();
            if fault == Fault::Uncertain {
                cells.extend(self.joined.alone[0].iter().cloned());
            }
            if !cells.is_empty() {
                found.push((fault, cells));
            }
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verbs::compare::tests::{compared, plain, slower};
    use reports::sample::Sample;

    fn faults(compared: &Compared) -> Vec<Fault> {
        compared.faults(&Fault::ALL).unwrap().into_iter().map(|(fault, _)| fault).collect()
    }

    #[test]
    fn a_gate_fails_at_what_it_is_told_and_at_nothing_else() {
        assert_eq!(faults(&compared(&plain(), |_| ())), []);
        assert_eq!(faults(&compared(&plain(), slower(1.2, 0.01))), [Fault::Slower]);
        assert_eq!(faults(&compared(&plain(), slower(0.8, 0.01))), []);
        // Too wide to tell; and wide, but surely not slower by what matters.
        assert_eq!(faults(&compared(&plain(), slower(1.05, 0.1))), [Fault::Uncertain]);
        assert_eq!(faults(&compared(&plain(), slower(0.8, 0.04))), []);
    }

    #[test]
    fn an_arm_that_diverged_is_slower_and_worse_unless_it_did_before() {
        let diverged = compared(&plain(), |run| run.state = RunState::Diverged);
        assert_eq!(faults(&diverged), [Fault::Slower, Fault::Worse]);
        let mut compared = compared(&plain(), |run| run.state = RunState::Diverged);
        for run in &mut compared.joined.rows.runs {
            run.state = RunState::Diverged;
        }
        assert_eq!(faults(&compared), [Fault::Worse]);
    }

    #[test]
    fn what_is_not_known_of_quality_is_worse_and_what_is_missing_uncertain() {
        let silent = compared(&plain(), |run| {
            let attempt = run.attempt.as_mut().unwrap();
            (attempt.weights, attempt.metrics) = (None, Vec::new());
        });
        assert!(faults(&silent).contains(&Fault::Worse));
        let mut fewer = compared(&plain(), |_| ());
        fewer.joined.alone[0].push("d-sync workers=8".to_owned());
        let found = fewer.faults(&[Fault::Uncertain]).unwrap();
        assert_eq!(found, [(Fault::Uncertain, vec!["d-sync workers=8".to_owned()])]);
    }

    /// A difference that is sure by itself, and not as one of ten.
    #[test]
    fn all_conditions_are_one_claim() {
        let close = slower(1.08, 0.009);
        let one = compared(&plain(), &close);
        let many = compared(&Sample { workers: (2..12).collect(), ..plain() }, |run| {
            if run.index % 10 < 2 {
                close(run);
            }
        });
        let slower = |compared: &Compared| {
            let found = compared.verdicts().unwrap();
            let graded = found.iter().filter(|verdict| verdict.grade == Some(Grade::Slower)).count();
            (graded, compared.faults(&[Fault::Slower]).unwrap().len())
        };
        assert_eq!((slower(&one), slower(&many)), ((1, 1), (2, 0)));
    }
}
