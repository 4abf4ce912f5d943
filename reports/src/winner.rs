//! Which arm won under a condition, and how sure that is: from the comparisons behind the verdicts.

use crate::findings::Findings;
use crate::number_format::Unit;
use comparison::statistics::{Estimate, median};
use comparison::study::{ArmCell, Condition, Resource};
use comparison::{Comparison, Grade, beside_by};

/// An arm with its time under one condition.
pub(crate) struct Timed<'s, 'a> {
    pub(crate) cell: &'s ArmCell<'a>,
    /// Or what these use of another resource.
    pub(crate) seconds: f64,
    /// The time with its unit.
    pub(crate) words: String,
}

/// The arms whose speed is compared, the fastest first: by geometric means, or by medians if a run of any of them has no time.
pub(crate) fn timed<'s, 'a>(condition: &'s Condition<'a>, confidence: f64) -> Vec<Timed<'s, 'a>> {
    timed_by(condition, confidence, Resource::Time)
}

/// The same, the cheapest in a resource first; without arms of which that is not known.
fn timed_by<'s, 'a>(condition: &'s Condition<'a>, confidence: f64, resource: Resource) -> Vec<Timed<'s, 'a>> {
    let measure = condition.measure();
    let cells = || condition.cells.iter().filter(|cell| condition.lost(cell).is_none());
    let whole = cells().all(|cell| cell.values(measure).iter().all(|value| value.is_finite()));
    let time = |cell: &'s ArmCell<'a>| {
        let values = cell.values(measure);
        let estimate = if whole {
            condition.time(cell, measure, confidence)?
        } else {
            Estimate { value: median(&values).filter(|value| value.is_finite())?, interval: None }
        };
        let words = Unit::of_seconds(estimate.value).supported(estimate.value, estimate.uncertainty());
        Some(Timed { cell, seconds: estimate.value * cell.usage.rate(resource)?, words })
    };
    let mut found: Vec<Timed> = cells().filter_map(time).collect();
    found.sort_by(|left, right| left.seconds.total_cmp(&right.seconds));
    found
}

/// Whether an arm's speed was bought with quality.
pub(crate) fn lost_quality(found: &Comparison) -> bool {
    found.grade.compares() && found.quality.as_ref().is_some_and(|gap| gap.grade.is_lost())
}

/// How far the first arm is known to be ahead of the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Lead {
    /// Ahead of each by more than the smallest effect that matters.
    Ahead,
    /// Ahead of each, of some by how much is open.
    AheadOpen,
    /// Ahead of each, of some by less than the smallest effect that matters.
    AheadLittle,
    /// Of some it differs by less than the smallest effect that matters.
    Even,
    /// Whether it is ahead of some is open.
    Open,
    /// No other arm is compared.
    Alone,
}

impl Lead {
    /// `grades` are those of the first arm against each of the others.
    fn of(grades: &[Grade]) -> Self {
        let all = |holds: fn(Grade) -> bool| grades.iter().all(|grade| holds(*grade));
        if grades.is_empty() {
            Self::Alone
        } else if all(|grade| grade == Grade::Faster) {
            Self::Ahead
        } else if all(Grade::is_faster) {
            let open = grades.contains(&Grade::FasterOpen);
            if open { Self::AheadOpen } else { Self::AheadLittle }
        } else if all(|grade| grade.is_faster() || grade == Grade::NoDifference) {
            Self::Even
        } else {
            Self::Open
        }
    }

    /// Whether the arm won.
    pub(crate) fn is_ahead(self) -> bool {
        matches!(self, Self::Ahead | Self::AheadOpen | Self::AheadLittle | Self::Alone)
    }

    /// One word, or two.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ahead => "ahead",
            Self::AheadOpen => "ahead, size open",
            Self::AheadLittle => "ahead, but little",
            Self::Even => "even",
            Self::Open => "undecided",
            Self::Alone => "alone",
        }
    }
}

/// The first arm of a condition.
pub(crate) struct Winner {
    /// Index of the arm.
    pub(crate) arm: usize,
    /// Its time to the target, or of a step, with its unit.
    pub(crate) words: String,
    pub(crate) standing: Lead,
    /// Index of the arm with the least time of the others; `None` if there is none.
    pub(crate) second: Option<usize>,
    /// How sure it is that it is ahead of each other arm by more than the smallest effect that matters; `None` if that is not known.
    pub(crate) sure: Option<f64>,
}

/// The arm with the least time of those that are not known to be worse in quality, nor slower than another. `None` if no arm has
/// a time.
pub(crate) fn winner(
    findings: &Findings,
    condition: &Condition,
    comparisons: &[Comparison],
) -> Option<Winner> {
    winner_by(findings, condition, comparisons, Resource::Time)
}

/// The same for the arm that uses the least of a resource, by which the `comparisons` are.
pub(crate) fn winner_by(
    findings: &Findings,
    condition: &Condition,
    comparisons: &[Comparison],
    resource: Resource,
) -> Option<Winner> {
    let worse = |cell: &ArmCell| comparisons.iter().any(|found| found.arm == cell.arm && lost_quality(found));
    let mut sound = timed_by(condition, findings.thresholds.confidence, resource);
    sound.retain(|timed| !worse(timed.cell));
    let compared = |timed: &Timed| {
        let found = rivals(findings, condition, comparisons, timed.cell, resource);
        let sound = |rival: &Rival| sound.iter().any(|other| other.cell.arm == rival.arm);
        found.into_iter().filter(sound).collect::<Vec<_>>()
    };
    let all: Vec<Vec<Rival>> = sound.iter().map(compared).collect();
    let ahead = |rivals: &&Vec<Rival>| rivals.iter().all(|rival| !rival.grade.is_slower());
    let place = all.iter().position(|rivals| ahead(&rivals)).unwrap_or(0);
    let first = sound.get(place)?;
    let rivals = all.get(place)?;
    let grades: Vec<Grade> = rivals.iter().map(|rival| rival.grade).collect();
    let sure: Option<Vec<f64>> = rivals.iter().map(|rival| rival.sure).collect();
    Some(Winner {
        arm: first.cell.arm,
        words: first.words.clone(),
        standing: Lead::of(&grades),
        second: sound.iter().map(|timed| timed.cell.arm).find(|arm| *arm != first.cell.arm),
        sure: sure.and_then(|sure| sure.into_iter().reduce(f64::min)),
    })
}

/// The winners of all conditions, in their order.
pub(crate) fn winners(findings: &Findings) -> Vec<Option<Winner>> {
    let conditions = findings.conditions();
    conditions.map(|(condition, comparisons)| winner(findings, condition, comparisons)).collect()
}

/// An arm from the point of view of another one.
struct Rival {
    arm: usize,
    /// The grade of the other arm's speed relative to this one's.
    grade: Grade,
    /// How sure the other is faster by more than the smallest effect that matters.
    sure: Option<f64>,
}

/// The other arms whose speed is compared. Against the baseline, and of the baseline, the comparisons are those of the verdicts.
fn rivals(
    findings: &Findings,
    condition: &Condition,
    comparisons: &[Comparison],
    cell: &ArmCell,
    resource: Resource,
) -> Vec<Rival> {
    let baseline = findings.study.baseline;
    let against = |found: &Comparison| {
        let faster = found.speed().is_faster();
        let own = cell.arm == found.arm;
        Rival {
            arm: if own { baseline } else { found.arm },
            grade: if own { found.grade } else { found.grade.flipped() },
            sure: found.speed().sure.map(|sure| if faster == own { sure } else { 0.0 }),
        }
    };
    if cell.arm == baseline {
        return comparisons.iter().map(against).collect();
    }
    let own = comparisons.iter().find(|found| found.arm == cell.arm).map(against);
    let others = beside_by(condition, cell, findings.thresholds, resource);
    let others = others.into_iter().filter(|other| other.arm != baseline).map(|other| Rival {
        arm: other.arm,
        grade: other.grade,
        sure: other.sure_faster,
    });
    own.into_iter().chain(others).collect()
}
