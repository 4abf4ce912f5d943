//! The sweeps of several dates, or with different arms, as one: what `report A B C` shows on one page.
//!
//! Where sweeps have an arm in common, the sweep is an axis: arms are compared within their own sweep, where they were measured in
//! turn, and each is followed from sweep to sweep ([`SweepChange`]). Sweeps that have none in common stand side by side under each condition.

mod changes;
mod names;
mod rows;
#[cfg(test)]
mod tests;

pub use changes::{Became, Changes, SweepChange};

use crate::aliases::Aliases;
use crate::calendar;
use crate::joined::{Doubt, JoinError, Side, compared_cells, machines, mark, prices, sorted};
use crate::redact::public_rows;
use recipe::{Arm, Redaction, ReportSettings};
use std::collections::{BTreeMap, BTreeSet};
use store::SweepRows;

/// Several sweeps as one.
#[derive(Clone, Debug)]
pub struct Combined {
    /// The sweep that stands for all.
    pub rows: SweepRows,
    /// Name of each sweep, oldest first: a tag of its own, else when it began, else its id.
    pub names: Vec<String>,
    /// How each arm changed from sweep to sweep; nothing where the sweeps have no arm in common.
    pub changes: Option<Changes>,
    /// Other differences between the sweeps, a sentence each.
    pub remarks: Vec<String>,
}

/// Why several selections cannot be shown as one sweep.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CombineError {
    /// Two selections of one sweep.
    #[error("two of the selections are runs of the sweep {sweep}")]
    SameSweep {
        /// Id of the sweep.
        sweep: String,
    },
    /// A condition under which arms of different sweeps cannot be compared.
    #[error(transparent)]
    Join(#[from] JoinError),
}

/// Combines sweeps, each of which has at least one run. The first one's baseline and settings of the report count.
///
/// # Errors
/// Two selections of one sweep; without a common arm, conditions that are not the same work, or a run that was measured for several sweeps.
pub fn combined(sweeps: &[SweepRows]) -> Result<Combined, CombineError> {
    let mut ids = BTreeSet::new();
    if let Some(twice) = sweeps.iter().find(|rows| !ids.insert(&rows.id)) {
        return Err(CombineError::SameSweep { sweep: twice.id.clone() });
    }
    let mut public = without_secrets(sweeps);
    let remarks_on_rules = other_rules(&public);
    if let Some(settings) = public.first().map(|rows| rows.plan.report.clone()) {
        for rows in &mut public {
            let prices = std::mem::take(&mut rows.plan.report.prices);
            rows.plan.report = ReportSettings { prices, ..settings.clone() };
        }
    }
    let baseline = public.first().and_then(baseline_of);
    public.sort_by(|one, other| (one.started, &one.id).cmp(&(other.started, &other.id)));
    let (public, taken_over) = measured_here(public);
    let names = names::names(&public);
    let sides: Vec<Side<'_>> = names.iter().zip(&public).map(|(name, rows)| Side { name, rows }).collect();
    let is_axis = have_an_arm_in_common(&sides);
    let rows = rows::rows(&sides, is_axis, baseline.as_ref())?;
    let changes = is_axis.then(|| Changes::between(&sides));
    let remarks = [listed(&sides)]
        .into_iter()
        .chain(remarks(&sides, is_axis))
        .chain(if is_axis { without_baseline(&sides, baseline.as_ref()) } else { None })
        .chain(taken_over)
        .chain(remarks_on_rules)
        .collect();
    Ok(Combined { rows, names, changes, remarks })
}

/// An arm is one wherever it has the same name and strategy.
type ArmKey = (String, String);

fn key_of(arm: &Arm) -> ArmKey {
    (arm.name.clone(), arm.kind.clone())
}

fn baseline_of(rows: &SweepRows) -> Option<ArmKey> {
    rows.plan.arms.iter().find(|arm| arm.baseline).map(key_of)
}

/// The sweeps without what any of their recipes keeps off pages, hosts numbered over all of them.
fn without_secrets(sweeps: &[SweepRows]) -> Vec<SweepRows> {
    let redactions: Vec<Redaction> =
        sweeps.iter().flat_map(|rows| rows.plan.report.redact.iter().copied()).collect();
    if redactions.is_empty() {
        return sweeps.to_vec();
    }
    let mut aliases = Aliases::default();
    for rows in sweeps {
        aliases.add(rows);
    }
    let public = |rows: &SweepRows| {
        let mut rows = rows.clone();
        rows.plan.report.redact.clone_from(&redactions);
        public_rows(&rows, &BTreeSet::new(), &aliases).rows
    };
    sweeps.iter().map(public).collect()
}

/// The arms that have runs, in the order of the plan.
fn arms_of(rows: &SweepRows) -> Vec<&Arm> {
    let used: BTreeSet<usize> =
        compared_cells(rows).into_iter().map(|cell| rows.plan.cells[cell].arm).collect();
    used.into_iter().filter_map(|arm| rows.plan.arms.get(arm)).collect()
}

fn have_an_arm_in_common(sides: &[Side<'_>]) -> bool {
    let mut seen: BTreeMap<ArmKey, usize> = BTreeMap::new();
    for arm in sides.iter().flat_map(|side| arms_of(side.rows)) {
        *seen.entry(key_of(arm)).or_default() += 1;
    }
    seen.values().any(|sweeps| *sweeps > 1)
}

fn remarks(sides: &[Side<'_>], is_axis: bool) -> Vec<String> {
    let mut remarks = vec![if is_axis {
        "Arms are compared within each sweep; how they changed from sweep to sweep stands under “From sweep to sweep”.".to_owned()
    } else {
        "The sweeps have no arm in common, so that arms are compared with those of other sweeps: what changed on the machine meanwhile counts \
         as a difference, and more repeats do not help."
            .to_owned()
    }];
    let different: BTreeSet<_> = sides.iter().map(|side| machines(side.rows)).collect();
    if different.len() > 1 {
        remarks.push(Doubt::OtherMachines.to_string());
    }
    if !is_axis && !conditions_meet(sides) {
        remarks.push(
            "No condition is in two of the sweeps, so that no arm is compared with one of another sweep."
                .to_owned(),
        );
    }
    if sides.iter().any(|side| side.rows.plan.search.is_some()) {
        remarks.push(
            "Arms that searched their settings are shown at those that they chose; how they did stands on the page of their own sweep."
                .to_owned(),
        );
    }
    if !prices::in_one_currency(sides) {
        remarks.push(Doubt::OtherCurrency.to_string());
    }
    remarks
}

/// Which sweep is which.
fn listed(sides: &[Side<'_>]) -> String {
    let one = |side: &Side<'_>| {
        let begun = calendar::moment(side.rows.started);
        format!("{} is {}, begun {begun} ({})", side.name, side.rows.plan.name, side.rows.id)
    };
    format!("The sweeps: {}.", sides.iter().map(one).collect::<Vec<_>>().join("; "))
}

/// The sweeps with a measurement of their own, oldest first, and a remark on those whose runs are all of earlier ones.
fn measured_here(sweeps: Vec<SweepRows>) -> (Vec<SweepRows>, Option<String>) {
    let mut seen = BTreeSet::new();
    let mut own = Vec::new();
    let mut others = Vec::new();
    for rows in sweeps {
        let marks: Vec<_> = rows.runs.iter().filter_map(mark).collect();
        if !marks.is_empty() && marks.iter().all(|mark| seen.contains(mark)) {
            others.push(rows.id);
        } else {
            seen.extend(marks);
            own.push(rows);
        }
    }
    let remark = format!(
        "Not shown, because all of its runs were measured for an earlier one of them: {}.",
        others.join(", ")
    );
    (own, Some(remark).filter(|_| !others.is_empty()))
}

/// The remark on sweeps in which nothing is compared.
fn without_baseline(sides: &[Side<'_>], baseline: Option<&ArmKey>) -> Option<String> {
    let baseline = baseline?;
    let without: Vec<&str> = sides
        .iter()
        .filter(|side| arms_of(side.rows).iter().all(|arm| key_of(arm) != *baseline))
        .map(|side| side.name)
        .collect();
    (!without.is_empty()).then(|| {
        format!(
            "In {} nothing is compared, because the baseline {} has no run there: `--baseline` names another one.",
            without.join(", "),
            baseline.0
        )
    })
}

/// Whether two of the sweeps have a condition in common.
fn conditions_meet(sides: &[Side<'_>]) -> bool {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    sides.iter().enumerate().any(|(number, side)| {
        compared_cells(side.rows).into_iter().any(|cell| {
            let condition = sorted(side.rows.plan.compared_under(cell));
            *seen.entry(condition).or_insert(number) != number
        })
    })
}

/// The remark where the recipes would judge the same runs differently.
fn other_rules(sweeps: &[SweepRows]) -> Option<String> {
    let rules = |rows: &SweepRows| {
        let report = &rows.plan.report;
        (report.min_effect, report.min_quality, report.confidence)
    };
    sweeps.windows(2).any(|pair| rules(&pair[0]) != rules(&pair[1])).then(|| {
        "The recipes differ in what they call sure, worse or too small: the settings of the sweep that was named first count.".to_owned()
    })
}
