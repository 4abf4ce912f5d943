//! A study with the comparisons of its arms.

use crate::compare::{Comparison, Thresholds, compare};
use crate::study::{Condition, Study};
use crate::{UnknownBaseline, looks};
use store::SweepRows;

/// A study with the comparisons of its arms.
pub struct Compared<'a> {
    /// The conditions, arms and judged runs.
    pub study: Study<'a>,
    /// For each condition, in its order, the arms other than the baseline.
    pub comparisons: Vec<Vec<Comparison>>,
    /// Thresholds that the comparisons are graded by.
    pub thresholds: Thresholds,
}

impl<'a> Compared<'a> {
    /// Compares the arms with the plan's baseline, or with `baseline`, as the plan's settings say.
    ///
    /// # Errors
    /// The plan has no such arm.
    pub fn of(rows: &'a SweepRows, baseline: Option<&str>) -> Result<Self, UnknownBaseline> {
        let study = Study::new(rows, baseline)?;
        let settings = &rows.plan.report;
        let thresholds = Thresholds {
            min_effect: settings.min_effect,
            min_quality: settings.min_quality,
            confidence: settings.confidence,
            looks: looks::number(&rows.plan),
        };
        let comparisons = compare(&study, thresholds);
        Ok(Self { study, comparisons, thresholds })
    }

    /// Each condition with its comparisons.
    pub fn conditions(&self) -> impl Iterator<Item = (&Condition<'a>, &[Comparison])> {
        self.study.conditions.iter().zip(self.comparisons.iter().map(Vec::as_slice))
    }
}
