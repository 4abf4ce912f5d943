//! From the rows of a sweep to one HTML page that says which arm won, by how much, and how sure that is.
//!
//! The flow is rows, study, comparisons, view, templates. Everything is computed before the
//! templates, which only lay out; the same rows give the same bytes. Nothing here reads a file, a clock or a
//! network, and neither does the page.

mod aliases;
mod axes;
mod blame;
mod calendar;
mod chart;
mod combined;
mod cost;
mod crossing;
mod data;
mod error;
mod figure;
mod findings;
mod forecast;
mod gossip;
mod headline;
mod joined;
mod machine;
mod next_look;
mod number_format;
mod outlook;
mod pays;
mod phase_shares;
mod redact;
mod render;
#[doc(hidden)]
pub mod sample;
mod scaling;
mod scoreboard;
mod search;
mod site;
mod staleness;
mod tuned;
mod verdict;
mod view;
mod waiting;
mod winner;

pub use aliases::{Alias, Aliases};
pub use combined::{Became, Changes, CombineError, Combined, SweepChange, combined};
pub use comparison::study::is_judged;
pub use comparison::{Grade, Look, NoiseFloor, POWER, Quality, Range, Smallest, noise_floor};
pub use data::{DataFile, is_data_file};
pub use error::ReportError;
pub use figure::{DrawnChart, DrawnFigure, FigureError, FigureName, FigureStyle, Palette, figure, figures};
pub use forecast::{Computing, Forecast, Measured, NoModel, PassTimes, Passes, forecast, measured};
pub use joined::{Doubt, JoinError, Joined, Side, TimedBy, joined};
pub use next_look::{look, looks_in_words, made};
pub use outlook::outlook;
pub use redact::{PublicRows, Withheld, public_rows};
pub use scoreboard::ArmTable;
pub use search::{Promotion, promoted};
pub use site::{Card, SiteLinks};
pub use tuned::setting_words;
pub use verdict::{Verdict, VerdictRow};

use data::Data;
use findings::Findings;
use std::collections::BTreeMap;
use store::{Course, SpanRow, SweepRows};

/// The number of equal stretches that a run's time is divided into where the page shows its course.
pub const STRETCHES: usize = 120;

/// Steps of one run, as the page shows them.
#[derive(Clone, Debug, Default)]
pub struct Traced {
    /// The spans of its timeline.
    pub spans: Vec<SpanRow>,
    /// Its workers over all of its time, in [`STRETCHES`] stretches.
    pub course: Option<Course>,
}

/// The steps of the runs that [`wanted_timelines`] names, by run id.
pub type Timelines = BTreeMap<String, Traced>;

/// A page beyond this size gets a warning.
const LARGE: usize = 2_000_000;

/// A page beyond this size is refused unless [`Options::allow_large`].
const TOO_LARGE: usize = 20 << 20;

/// Settings of a page.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The arm to compare with; by default the baseline of the plan.
    pub baseline: Option<String>,
    /// Sentences below the headline: what else differs between the sides of a comparison.
    pub remarks: Vec<String>,
    /// How arms changed between the sweeps of the page, where it is of several.
    pub changes: Option<Changes>,
    /// The program that makes the page, with its version: `bakeoff 0.1.0`.
    pub generated_by: String,
    /// Whether to make a page of more than 20 MiB.
    pub allow_large: bool,
    /// Name of a folder beside the page, for CSV files that are too large to embed (more than 512 KiB together). Without a
    /// name they are embedded in any case.
    pub data_folder: Option<String>,
}

/// A self-contained HTML file, and what lies beside it.
#[derive(Clone, Debug)]
pub struct Page {
    /// Text of the whole file.
    pub html: String,
    /// Sentences for the user who makes the page.
    pub warnings: Vec<String>,
    /// The files for [`Options::data_folder`]; empty if the page embeds them.
    pub data: Vec<DataFile>,
}

/// The runs whose steps the page shows: of each arm under each condition the median run by speed.
pub fn wanted_timelines(rows: &SweepRows) -> Vec<String> {
    let study = comparison::study::Study::new(rows, None);
    let chosen = study.map(|study| view::chosen_runs(&study)).unwrap_or_default();
    chosen.into_iter().map(|(_, _, run)| run).collect()
}

/// Makes the page, without what the plan's `report.redact` names. Runs that are missing in `timelines` have no
/// timeline.
///
/// # Errors
///
/// A baseline that is not in the plan, or a page beyond 20 MiB without [`Options::allow_large`].
pub fn page(rows: &SweepRows, timelines: &Timelines, options: &Options) -> Result<Page, ReportError> {
    let rows = redact::redacted(rows);
    let findings = Findings::of(&rows, options)?;
    let mut data = Data::of(&findings, options.data_folder.as_deref());
    let beside = std::mem::take(&mut data.beside);
    let html = render::text("page.html", &view::View::of(&findings, timelines, options, data)?)?;
    if html.len() > TOO_LARGE && !options.allow_large {
        return Err(ReportError::TooLarge { bytes: html.len(), limit: TOO_LARGE });
    }
    let mut warnings = Vec::new();
    if html.len() > LARGE {
        warnings.push(format!(
            "the page has {}; fewer runs make it smaller",
            number_format::bytes(html.len() as f64)
        ));
    }
    Ok(Page { html, warnings, data: beside })
}

/// The verdicts in plain text, for the terminal: each arm under each condition, in the order of the plan.
///
/// # Errors
///
/// A baseline that is not in the plan.
pub fn verdicts(rows: &SweepRows, options: &Options) -> Result<Vec<Verdict>, ReportError> {
    Ok(verdict::all(&Findings::of(rows, options)?))
}

/// The verdicts as numbers, for other programs: a row for each arm but the baseline, condition and measure, in the order of the
/// plan.
///
/// # Errors
///
/// A baseline that is not in the plan.
pub fn verdict_rows(rows: &SweepRows, options: &Options) -> Result<Vec<VerdictRow>, ReportError> {
    let findings = Findings::of(rows, options)?;
    Ok(verdict::table(&findings, &verdict::all(&findings)))
}

/// The tables of arms in plain text, for the terminal: one for each condition, its last column the grade.
///
/// # Errors
///
/// A baseline that is not in the plan.
pub fn arm_tables(rows: &SweepRows, options: &Options) -> Result<Vec<ArmTable>, ReportError> {
    Ok(scoreboard::tables(&Findings::of(rows, options)?))
}

/// The index of a site: a self-contained page with a card for each sweep, in the order of `cards`. `generated_by` is the program
/// with its version.
///
/// # Errors
///
/// A template that does not fit, which is a fault of this program.
pub fn site_index(cards: &[Card], generated_by: &str) -> Result<String, ReportError> {
    site::index(cards, generated_by)
}

/// The Atom feed of a site, in the order of `cards`; its links are relative to it.
///
/// # Errors
///
/// A template that does not fit, which is a fault of this program.
pub fn site_feed(cards: &[Card]) -> Result<String, ReportError> {
    site::feed(cards)
}
