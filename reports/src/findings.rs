//! A study with its comparisons made: what sentences, tables and charts are written from.

use crate::comparison::{self, Comparison, Thresholds};
use crate::study::{Condition, Entry, Placed, Study};
use crate::{Options, ReportError};
use store::SweepRows;

pub(crate) struct Findings<'a> {
    pub(crate) study: Study<'a>,
    /// For each condition, in its order, the arms other than the baseline.
    pub(crate) comparisons: Vec<Vec<Comparison>>,
    pub(crate) thresholds: Thresholds,
}

impl<'a> Findings<'a> {
    pub(crate) fn of(rows: &'a SweepRows, options: &Options) -> Result<Self, ReportError> {
        let study = Study::new(rows, options.baseline.as_deref())?;
        let settings = &rows.plan.report;
        let thresholds = Thresholds { min_effect: settings.min_effect, confidence: settings.confidence };
        let comparisons = study
            .conditions
            .iter()
            .map(|condition| comparison::compare(condition, study.baseline, thresholds))
            .collect();
        Ok(Self { study, comparisons, thresholds })
    }

    /// Each condition with its comparisons.
    pub(crate) fn conditions(&self) -> impl Iterator<Item = (&Condition<'a>, &[Comparison])> {
        self.study.conditions.iter().zip(self.comparisons.iter().map(Vec::as_slice))
    }

    /// The global batch of an arm.
    pub(crate) fn batch(&self, entry: &Entry) -> u32 {
        self.rows().plan.cells[entry.cell].spec.train.global_batch.max(1)
    }

    pub(crate) fn rows(&self) -> &'a SweepRows {
        self.study.rows
    }

    /// The arm, and the condition where the page has more than one.
    pub(crate) fn label(&self, placed: &Placed) -> String {
        let arm = self.study.arm_name(placed.entry.arm);
        if self.has_conditions() { format!("{arm}, {}", placed.condition.name) } else { arm.to_owned() }
    }

    /// Whether the page has more than one condition to name.
    pub(crate) fn has_conditions(&self) -> bool {
        self.study.conditions.len() > 1
    }
}
