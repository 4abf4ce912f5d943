//! A figure: charts on a sheet of its width, their legend, their numbers; and the file that it becomes.

use super::legend::{Legend, LegendEntry};
use super::plain::plain;
use super::{FigureError, FigureName, FigureStyle, POINT};
use crate::chart::{Sheet, Table, coordinate};
use crate::render;
use roxmltree::Document;
use serde::Serialize;

/// A figure before its legend has a place.
pub(super) struct Drawing {
    pub(super) title: String,
    pub(super) caption: String,
    pub(super) legend: Vec<LegendEntry>,
    pub(super) charts: Vec<Chart>,
    pub(super) table: Table,
}

/// A chart of a figure.
pub(super) struct Chart {
    /// Id of the section that the page's style sheet knows it by; empty where that is of no account.
    pub(super) section: &'static str,
    /// Heading above the chart; empty where the figure has one chart.
    pub(super) name: String,
    /// SVG text whose parts have classes in place of styles.
    pub(super) svg: String,
}

/// Distance between two charts, in units of the figure.
const GAP: f64 = 14.0;

/// Room for the name of a chart.
const NAME: f64 = 20.0;

/// Speed-up and efficiency stand side by side where each has at least this width.
const PAIRED: f64 = 330.0;

/// A figure as a file.
#[derive(Debug)]
pub(super) struct Text {
    pub(super) svg: String,
    /// Height on paper, in millimetres.
    pub(super) height: f64,
    /// How much its letters had to shrink for it to fit.
    pub(super) scale: f64,
}

/// Everything that the template of a figure shows.
#[derive(Serialize)]
struct View<'a> {
    width: String,
    height: String,
    /// Width on paper, in millimetres.
    millimetres: String,
    /// Height on paper, in millimetres.
    high: String,
    font: &'a str,
    title: &'a str,
    caption: &'a str,
    legend: Legend,
    charts: Vec<Placed<'a>>,
}

/// A chart in its place.
#[derive(Serialize)]
struct Placed<'a> {
    section: &'static str,
    name: &'a str,
    x: String,
    y: String,
    scale: String,
    svg: &'a str,
}

/// Sheet of each chart of a figure: half as wide where two charts stand side by side.
pub(super) fn sheet(name: FigureName, width: f64) -> Sheet {
    let half = (width - GAP) / 2.0;
    let paired = name == FigureName::Scaling && half >= PAIRED;
    Sheet::Figure { width: if paired { half } else { width } }
}

impl Drawing {
    pub(super) fn text(&self, width: f64, style: &FigureStyle) -> Result<Text, FigureError> {
        let sizes = self.charts.iter().map(|chart| size(&chart.svg)).collect::<Result<Vec<_>, _>>()?;
        let widest = sizes.iter().map(|size| size[0]).fold(0.0, f64::max).max(1.0);
        let columns = if widest * 2.0 + GAP <= width + 1.0 { 2 } else { 1 };
        let scale = (width / widest).min(1.0);
        let legend = Legend::of(&self.legend, width);
        let mut charts = Vec::new();
        let mut y = legend.height;
        for (row, sizes) in self.charts.chunks(columns).zip(sizes.chunks(columns)) {
            if row.iter().any(|chart| !chart.name.is_empty()) {
                y += NAME;
            }
            for (column, chart) in row.iter().enumerate() {
                charts.push(Placed {
                    section: chart.section,
                    name: &chart.name,
                    x: coordinate(column as f64 * (width - widest)),
                    y: coordinate(y),
                    scale: format!("{scale:.4}"),
                    svg: &chart.svg,
                });
            }
            y += scale * sizes.iter().map(|size| size[1]).fold(0.0, f64::max) + GAP;
        }
        let height = y - GAP;
        let millimetre = style.letter * POINT / super::LETTER;
        let view = View {
            width: coordinate(width),
            height: coordinate(height),
            millimetres: format!("{:.2}", width * millimetre),
            high: format!("{:.2}", height * millimetre),
            font: &style.font,
            title: &self.title,
            caption: &self.caption,
            legend,
            charts,
        };
        let svg = plain(&render::text("figure.svg", &view)?, style.palette)?;
        Ok(Text { svg, height: height * millimetre, scale })
    }
}

/// Width and height of a chart in its own units.
fn size(svg: &str) -> Result<[f64; 2], FigureError> {
    let document = Document::parse(svg)?;
    let view = document.root_element().attribute("viewBox").unwrap_or_default();
    let values: Vec<f64> = view.split(' ').filter_map(|value| value.parse().ok()).collect();
    match values[..] {
        [_, _, width, height] => Ok([width, height]),
        _ => Err(FigureError::NoSize { view: view.to_owned() }),
    }
}
