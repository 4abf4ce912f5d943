//! Costs of reaching a target: times, multiplied by the amount of a resource that a second of a run uses. A ratio of
//! costs is a ratio of times, multiplied by a constant, so that its interval and its grade are those of the same test,
//! moved by the logarithm of that constant.

use crate::findings::Findings;
use crate::number_format::{self, Unit};
use crate::scoreboard::{TextCell, aligned};
use crate::verdict::{ratio_number, raw_interval};
use crate::winner::{Lead, Winner, winner_by};
use comparison::statistics::Estimate;
use comparison::study::{ArmCell, Condition, Resource, SpeedMeasure};
use comparison::{Comparison, compare_by};

/// Costs of the arms of a sweep in one resource.
pub(crate) struct Costs {
    pub(crate) resource: Resource,
    /// Comparisons by this resource, for each condition.
    comparisons: Vec<Vec<Comparison>>,
}

/// The costs of a sweep.
pub(crate) struct Bill {
    /// The resources that are shown.
    pub(crate) costs: Vec<Costs>,
    /// Whether any run used several machines.
    pub(crate) several_machines: bool,
}

impl Bill {
    /// `None` before any run is judged.
    pub(crate) fn of(findings: &Findings) -> Option<Self> {
        let cells =
            || findings.study.arm_cells().map(|placed| placed.cell).filter(|cell| !cell.runs.is_empty());
        cells().next()?;
        let several_machines = cells().any(|cell| cell.usage.machines > 1);
        let as_many = cells().all(|cell| cell.usage.machines as u64 == u64::from(cell.usage.ranks));
        let priced = cells().any(|cell| cell.usage.hour.is_some());
        let shown = |resource: &Resource| match resource {
            Resource::Time => false,
            Resource::Machines => true,
            Resource::Ranks => !as_many,
            Resource::Money => priced,
        };
        let resources = [Resource::Machines, Resource::Ranks, Resource::Money].into_iter().filter(shown);
        let costs = resources.map(|resource| Costs {
            resource,
            comparisons: compare_by(&findings.study, findings.thresholds, resource),
        });
        Some(Self { costs: costs.collect(), several_machines })
    }

    /// The resource that the arms of a condition are compared by in words: money where all have a price, and otherwise machines, unless
    /// all runs had a single one.
    pub(crate) fn deciding(&self, condition: &Condition) -> Option<&Costs> {
        let is_priced =
            |cell: &ArmCell| cell.runs.is_empty() || cell.usage.hour.is_some_and(|hour| hour > 0.0);
        let priced = self.has(Resource::Money) && condition.cells.iter().all(is_priced);
        let wanted = if priced {
            Resource::Money
        } else if self.has(Resource::Ranks) && !self.several_machines {
            Resource::Ranks
        } else {
            Resource::Machines
        };
        self.costs.iter().find(|costs| costs.resource == wanted)
    }

    pub(crate) fn has(&self, resource: Resource) -> bool {
        self.costs.iter().any(|costs| costs.resource == resource)
    }
}

impl Costs {
    /// The times of all arms of a condition to the target, or of the steps of a run.
    pub(crate) fn times(findings: &Findings, condition: &Condition) -> Vec<TextCell> {
        Self { resource: Resource::Time, comparisons: Vec::new() }.amounts(findings, condition)
    }

    /// Of the condition with this number.
    pub(crate) fn comparisons(&self, number: usize) -> &[Comparison] {
        self.comparisons.get(number).map_or(&[][..], Vec::as_slice)
    }

    /// The amounts of all arms of a condition, with as many digits as they support.
    pub(crate) fn amounts(&self, findings: &Findings, condition: &Condition) -> Vec<TextCell> {
        let amount = |cell| amount(findings, condition, cell, self.resource);
        let amounts: Vec<Option<Estimate>> = condition.cells.iter().map(amount).collect();
        match self.resource {
            Resource::Money => aligned(&amounts, |_| Unit::BARE),
            Resource::Time | Resource::Machines | Resource::Ranks => aligned(&amounts, Unit::of_seconds),
        }
    }

    /// `0.67× (0.61–0.72)`, of the baseline's amount.
    pub(crate) fn ratio(&self, findings: &Findings, number: usize, cell: &ArmCell) -> TextCell {
        if cell.arm == findings.study.baseline {
            return TextCell { text: "1×".to_owned(), sort: 1.0 };
        }
        let found = self.comparisons(number).iter().find(|found| found.arm == cell.arm);
        let Some(found) = found.filter(|found| found.grade.compares()) else { return TextCell::missing() };
        match (found.speed().ratio, found.speed().bound()) {
            (Some(ratio), _) => {
                let share = ratio.map(f64::recip);
                TextCell { text: with_interval(share), sort: share.value }
            }
            (None, Some(least)) => {
                TextCell { text: format!("< {}", number_format::times(least.recip())), sort: least.recip() }
            }
            (None, None) => TextCell::missing(),
        }
    }

    /// The arm that uses the least of it, of those that are not known to be worse.
    pub(crate) fn cheapest(
        &self,
        findings: &Findings,
        number: usize,
        condition: &Condition,
    ) -> Option<Winner> {
        winner_by(findings, condition, self.comparisons(number), self.resource)
    }
}

/// Amount that an arm uses until the target, or for the steps of a run; `None` where half of its runs missed the
/// target, or diverged.
fn amount(
    findings: &Findings,
    condition: &Condition,
    cell: &ArmCell,
    resource: Resource,
) -> Option<Estimate> {
    let measure = condition.measure();
    let rate = cell.usage.rate(resource)?;
    let time = condition.time(cell, measure, findings.thresholds.confidence);
    let time = time.filter(|_| condition.lost(cell).is_none())?;
    let often = if measure == SpeedMeasure::StepTime { steps(condition) as f64 } else { 1.0 };
    Some(time.map(|seconds| seconds * often * rate))
}

/// The steps of a run without a target: those of the longest.
pub(crate) fn steps(condition: &Condition) -> u64 {
    let runs = condition.cells.iter().flat_map(ArmCell::sound_runs);
    runs.map(|judged| judged.attempt.steps).max().unwrap_or(0)
}

/// Ratio with its confidence interval: `0.67× (0.61–0.72)`.
pub(crate) fn with_interval(ratio: Estimate) -> String {
    ratio_number(ratio) + &raw_interval(ratio)
}

/// `d-sync is the soonest`, or how far that is known.
pub(crate) fn claim(winner: &Winner, name: &str, superlative: &str, effect: &str) -> String {
    match winner.standing {
        Lead::Alone => format!("{name} alone is compared"),
        Lead::Ahead | Lead::AheadOpen => format!("{name} is the {superlative}"),
        Lead::AheadLittle | Lead::Even => {
            format!("{name} is the {superlative}, in front of some by less than {effect}")
        }
        Lead::Open => format!("whether {name} is the {superlative} is open"),
    }
}
