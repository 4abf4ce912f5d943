//! Single charts and tables of a page for print: at the width of a column, in letters of a set size, with their legend inside.
//!
//! A figure is the page's own chart drawn once more on a narrower sheet; what the page's style sheet says of its parts becomes
//! their attributes, so that any program that reads SVG draws it alike.

mod charts;
mod drawing;
mod legend;
mod names;
mod numbers;
mod palette;
mod plain;
mod table;

pub use names::FigureName;
pub use palette::Palette;

use crate::chart::Sheet;
use crate::findings::Findings;
use crate::view::condition_title;
use crate::{Options, ReportError, redact};
use store::SweepRows;

/// Height of a letter in a chart's own units.
const LETTER: f64 = 12.0;

/// Millimetres of a point.
const POINT: f64 = 25.4 / 72.0;

/// How a figure looks.
#[derive(Clone, Debug, PartialEq)]
pub struct FigureStyle {
    /// Width of the figure in millimetres.
    pub width: f64,
    /// Height of a letter in points.
    pub letter: f64,
    /// Families of the letters, the first that is there is taken: `Helvetica, Arial, sans-serif`.
    pub font: String,
    /// Palette that the figure is coloured with.
    pub palette: Palette,
    /// Horizontal axis of a chart that the page shows over several, or a part of its name; the first if it is empty.
    pub by: String,
    /// Stretch of the vertical axis, where the page has several; the first if it is empty.
    pub scale: String,
}

/// A figure that is ready to be written.
#[derive(Clone, Debug)]
pub struct DrawnFigure {
    /// `None` for a figure that is only a table.
    pub chart: Option<DrawnChart>,
    /// Subject and finding of the figure, for a caption.
    pub caption: String,
    /// Its numbers in LaTeX, with the rules of the package `booktabs`.
    pub latex: String,
    /// Its numbers in CSV: numbers alone in the cells, units in the heads of columns.
    pub csv: String,
}

/// The chart of a figure.
#[derive(Clone, Debug)]
pub struct DrawnChart {
    /// A whole SVG file without a style sheet.
    pub svg: String,
    /// Height of a letter in points; less than what was asked for if the chart needed more width.
    pub letter: f64,
    /// Height of the chart in millimetres.
    pub height: f64,
}

/// Why there is no figure.
#[derive(Debug, thiserror::Error)]
pub enum FigureError {
    /// The page could not be made either.
    #[error(transparent)]
    Report(#[from] ReportError),
    /// The page of these runs does not have it.
    #[error("the page of these runs has no figure `{name}`; it has {}", .known.join(", "))]
    Absent {
        /// Figure that was asked for.
        name: FigureName,
        /// Names of the figures that the page has.
        known: Vec<String>,
    },
    /// It shows one condition, and the runs have several.
    #[error("`{name}` shows one condition, and these runs have {}: {}", .conditions.len(), few(.conditions))]
    SeveralConditions {
        /// Figure that was asked for.
        name: FigureName,
        /// Names of the conditions.
        conditions: Vec<String>,
    },
    /// An axis that the chart does not have.
    #[error("`{name}` has no {what} `{value}`; it has {}", .known.join(", "))]
    NoSuchAxis {
        /// Figure that was asked for.
        name: FigureName,
        /// Kind of what was asked for: `axis` or `scale`.
        what: &'static str,
        /// Name of the axis or scale that was asked for.
        value: String,
        /// Names of those that the chart has.
        known: Vec<String>,
    },
    /// A sheet on which nothing can be read.
    #[error("a figure of {width} mm in letters of {letter} pt has no room for a chart")]
    TooNarrow {
        /// Width of the figure in millimetres.
        width: f64,
        /// Height of a letter in points.
        letter: f64,
    },
    /// A chart whose template gives it no width and height, which is a fault of this program.
    #[error("the chart's viewBox `{view}` is not four numbers")]
    NoSize {
        /// Text of the `viewBox`.
        view: String,
    },
    /// A chart that is no XML, which is a fault of this program.
    #[error("the chart is not well-formed: {0}")]
    Malformed(#[from] roxmltree::Error),
}

/// The first names of a list.
fn few(names: &[String]) -> String {
    const NAMED: usize = 4;
    let more = if names.len() > NAMED { ", …" } else { "" };
    format!("{}{more}", names.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", "))
}

/// Widths of a chart in letters between which something can be read.
const WIDTHS: std::ops::RangeInclusive<f64> = 18.0..=400.0;

/// Draws a figure of the page of these runs, without what the plan's `report.redact` names.
///
/// # Errors
///
/// A figure that the page does not have, one that needs a single condition, or a sheet that is too narrow.
pub fn figure(
    rows: &SweepRows,
    name: FigureName,
    options: &Options,
    style: &FigureStyle,
) -> Result<DrawnFigure, FigureError> {
    let rows = redact::redacted(rows);
    let mut findings = Findings::of(&rows, options)?;
    let letters = style.width / (style.letter * POINT);
    if !WIDTHS.contains(&letters) {
        return Err(FigureError::TooNarrow { width: style.width, letter: style.letter });
    }
    let width = letters * LETTER;
    findings.sheet = drawing::sheet(name, width);
    let Some(drawing) = charts::drawing(&findings, name, style)? else {
        return Err(absent(&findings, name, style));
    };
    let chart = if drawing.charts.is_empty() { None } else { Some(drawing.text(width, style)?) };
    Ok(DrawnFigure {
        chart: chart.map(|text| DrawnChart {
            svg: text.svg,
            letter: style.letter * text.scale,
            height: text.height,
        }),
        latex: table::latex(&drawing.table),
        csv: table::csv(&numbers::apart(&drawing.table)),
        caption: drawing.caption,
    })
}

/// The figures of the page of these runs.
///
/// # Errors
///
/// A baseline that is not in the plan.
pub fn figures(rows: &SweepRows, options: &Options) -> Result<Vec<FigureName>, ReportError> {
    let rows = redact::redacted(rows);
    let mut findings = Findings::of(&rows, options)?;
    findings.sheet = Sheet::Figure { width: 40.0 * LETTER };
    Ok(present(&findings, &FigureStyle::default()))
}

fn present(findings: &Findings, style: &FigureStyle) -> Vec<FigureName> {
    let plain = FigureStyle { by: String::new(), scale: String::new(), ..style.clone() };
    let is_there = |name: &FigureName| {
        matches!(
            charts::drawing(findings, *name, &plain),
            Ok(Some(_)) | Err(FigureError::SeveralConditions { .. })
        )
    };
    FigureName::ALL.into_iter().filter(is_there).collect()
}

fn absent(findings: &Findings, name: FigureName, style: &FigureStyle) -> FigureError {
    let known = present(findings, style).into_iter().map(|name| name.to_string()).collect();
    FigureError::Absent { name, known }
}

/// The number of the only condition of which runs are selected; `None` where there is none.
fn only_condition(findings: &Findings, name: FigureName) -> Result<Option<usize>, FigureError> {
    let conditions = &findings.study.conditions;
    let has_runs = |number: &usize| conditions[*number].cells.iter().any(|cell| !cell.runs.is_empty());
    let found: Vec<usize> = (0..conditions.len()).filter(has_runs).collect();
    if found.len() > 1 {
        let conditions = found.iter().map(|number| condition_title(&conditions[*number])).collect();
        return Err(FigureError::SeveralConditions { name, conditions });
    }
    Ok(found.first().copied())
}

impl Default for FigureStyle {
    /// A column of a paper with two, in letters of eight points.
    fn default() -> Self {
        Self {
            width: 85.0,
            letter: 8.0,
            font: "Helvetica, Arial, Liberation Sans, DejaVu Sans, sans-serif".to_owned(),
            palette: Palette::Colour,
            by: String::new(),
            scale: String::new(),
        }
    }
}

#[cfg(test)]
mod tests;
