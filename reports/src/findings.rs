//! A study with its comparisons: the source of all sentences, tables and charts.

use crate::chart::Sheet;
use crate::waiting::{self, Waiting};
use crate::{Options, ReportError};
use comparison::study::{ArmCell, Condition, PlacedCell, Study};
use comparison::{Compared, Comparison, Thresholds};
use store::SweepRows;

pub(crate) struct Findings<'a> {
    pub(crate) study: Study<'a>,
    /// For each condition, in its order, the arms other than the baseline.
    pub(crate) comparisons: Vec<Vec<Comparison>>,
    pub(crate) thresholds: Thresholds,
    /// Sheet that the charts are drawn on.
    pub(crate) sheet: Sheet,
    /// Waiting of each cell, in the order of [`Study::arm_cells`].
    waiting: Vec<Option<Waiting>>,
}

impl<'a> Findings<'a> {
    pub(crate) fn of(rows: &'a SweepRows, options: &Options) -> Result<Self, ReportError> {
        let Compared { study, comparisons, thresholds } = Compared::of(rows, options.baseline.as_deref())?;
        let waiting = study.arm_cells().map(|placed| waiting::of(placed.condition, placed.cell)).collect();
        Ok(Self { study, comparisons, thresholds, sheet: Sheet::Page, waiting })
    }

    /// The cells whose median run tells who waited for whom.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = (PlacedCell<'_, 'a>, &Waiting)> {
        let cells = self.study.arm_cells().zip(&self.waiting);
        cells.filter_map(|(placed, found)| Some((placed, found.as_ref()?)))
    }

    /// Each condition with its comparisons.
    pub(crate) fn conditions(&self) -> impl Iterator<Item = (&Condition<'a>, &[Comparison])> {
        self.study.conditions.iter().zip(self.comparisons.iter().map(Vec::as_slice))
    }

    /// The global batch of an arm.
    pub(crate) fn batch(&self, cell: &ArmCell) -> u32 {
        self.rows().plan.cells[cell.index].spec.train.global_batch.max(1)
    }

    pub(crate) fn rows(&self) -> &'a SweepRows {
        self.study.rows
    }

    /// The arm, and the condition if the page has several.
    pub(crate) fn label(&self, placed: &PlacedCell) -> String {
        let arm = self.study.arm_name(placed.cell.arm);
        if self.has_conditions() { format!("{arm}, {}", placed.condition.name) } else { arm.to_owned() }
    }

    /// Whether the page has several conditions.
    pub(crate) fn has_conditions(&self) -> bool {
        self.study.conditions.len() > 1
    }
}
