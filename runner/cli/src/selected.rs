//! The runs that a user selects for a page: of one sweep, or of several as one.

use crate::exit::{Exit, Failure};
use crate::output::human;
use reports::{Changes, combined};
use store::{Selection, Store, StoreError, SweepRows};

/// Runs of one sweep.
pub(crate) struct Selected {
    /// The selection that they fit.
    pub(crate) selection: Selection,
    /// The sweep with these runs alone.
    pub(crate) rows: SweepRows,
}

impl Selected {
    /// The runs of the newest sweep that fits.
    pub(crate) async fn of(store: &Store, text: &str) -> Result<Self, Failure> {
        let selection = Selection::parse(text)?;
        let rows = store.sweep_rows(&selection).await?;
        if rows.runs.is_empty() {
            return Err(StoreError::Empty { selection: text.to_owned() }.into());
        }
        Ok(Self { selection, rows })
    }

    /// The runs of each sweep that fits, oldest first.
    async fn of_every_sweep(store: &Store, text: &str) -> Result<Vec<Self>, Failure> {
        let mut all = Vec::new();
        for fitting in store.sweeps_fitting(&Selection::parse(text)?).await? {
            let one = match text.trim() {
                "" => fitting.sweep.to_string(),
                text => format!("({text}) and {}", fitting.sweep),
            };
            all.push(Self::of(store, &one).await?);
        }
        Ok(all)
    }
}

/// The runs of a page, of one sweep or of several, with their differences.
pub(crate) struct Shown {
    /// Which runs it shows.
    pub(crate) selection: Selection,
    /// These runs, as one sweep.
    pub(crate) rows: SweepRows,
    /// How arms changed from sweep to sweep, where there are several.
    pub(crate) changes: Option<Changes>,
    /// Other differences between several sweeps, in words.
    pub(crate) remarks: Vec<String>,
}

/// The sweep that each of `texts` selects, as one; with `every_sweep` all that each fits, in place of the newest.
pub(crate) async fn shown(store: &Store, texts: &[String], every_sweep: bool) -> Result<Shown, Failure> {
    if texts.iter().any(|text| ["and", "or", "not"].contains(&text.as_str())) {
        let quoted = texts.join(" ").replace('"', "'");
        return Err(Failure::new(Exit::Usage, "a selection of several words is one argument")
            .cure(format!("put it in quotation marks: \"{quoted}\"")));
    }
    let mut all = Vec::new();
    for text in texts {
        if every_sweep {
            all.extend(Selected::of_every_sweep(store, text).await?);
        } else {
            all.push(Selected::of(store, text).await?);
        }
    }
    if all.len() == 1
        && let Some(Selected { selection, rows }) = all.pop()
    {
        let all = store.runs_fitting(&Selection::parse(&rows.id)?).await?.len();
        let remarks = of_a_part(&selection, &rows, all).into_iter().collect();
        return Ok(Shown { selection, rows, changes: None, remarks });
    }
    let selection = any_of(all.iter().map(|one| &one.selection))?;
    let rows: Vec<SweepRows> = all.into_iter().map(|one| one.rows).collect();
    let mut combined = combined(&rows)?;
    let is_public = rows.iter().all(|rows| rows.plan.report.redact.is_empty());
    // The command that makes this page again, as long as the store has no newer sweep; it may name what pages do not show.
    combined.rows.argv = if is_public {
        std::env::args().collect()
    } else {
        ["bakeoff", "report", "…"].map(str::to_owned).to_vec()
    };
    Ok(Shown { selection, rows: combined.rows, changes: combined.changes, remarks: combined.remarks })
}

/// A sentence for a page of some of the `all` runs of a sweep; `None` for one of all of them.
fn of_a_part(selection: &Selection, rows: &SweepRows, all: usize) -> Option<String> {
    // A selection may name what the page leaves out.
    let which = if rows.plan.report.redact.is_empty() {
        format!(": those that fit {selection}")
    } else {
        String::new()
    };
    let shown = human::thousands(rows.runs.len() as u64);
    (rows.runs.len() < all)
        .then(|| format!("This page shows {shown} of the {} of the sweep{which}.", human::count(all, "run")))
}

/// The runs that any of some selections is of.
pub(crate) fn any_of<'a>(selections: impl Iterator<Item = &'a Selection>) -> Result<Selection, Failure> {
    let texts = selections.map(ToString::to_string).filter(|text| !text.trim().is_empty());
    let each: Vec<String> = texts.map(|text| format!("({text})")).collect();
    Ok(Selection::parse(&each.join(" or "))?)
}
