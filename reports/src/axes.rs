//! The axes of a sweep's conditions: their values, and where each condition lies on them.

use comparison::study::Study;
use recipe::{AxisValue, is_searched};
use std::collections::{BTreeMap, BTreeSet};

/// An axis of conditions.
#[derive(Clone, Debug)]
pub(crate) struct Axis {
    /// The shortest name that is the axis's own.
    pub(crate) name: String,
    /// By their numbers where all have one, else in the order of the plan.
    pub(crate) values: Vec<AxisPoint>,
}

/// A value of an axis.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AxisPoint {
    /// As the recipe writes it.
    pub(crate) text: String,
    pub(crate) number: Option<f64>,
}

/// The axes, the one with most values first, and the conditions on them.
#[derive(Debug)]
pub(crate) struct Axes {
    pub(crate) ordered: Vec<Axis>,
    /// For each condition the index of its value on each axis.
    pub(crate) places: Vec<Vec<usize>>,
    /// The condition at each of these places.
    conditions: BTreeMap<Vec<usize>, usize>,
}

/// From this ratio of the largest to the smallest value on, values are placed by their logarithm.
const DECADE: f64 = 10.0;

/// Whether positive numbers span a decade, so that equal ratios should be equally long.
pub(crate) fn spans_a_decade(numbers: &[f64]) -> bool {
    let low = numbers.iter().copied().fold(f64::INFINITY, f64::min);
    let high = numbers.iter().copied().fold(0.0, f64::max);
    low > 0.0 && high >= DECADE * low
}

impl Axis {
    /// The numbers of all values; `None` if one has none.
    pub(crate) fn numbers(&self) -> Option<Vec<f64>> {
        self.values.iter().map(|value| value.number.filter(|number| number.is_finite())).collect()
    }

    /// The number at a place between two values: 0.5 is halfway from the first to the second one.
    pub(crate) fn number_at(&self, place: f64) -> Option<f64> {
        let numbers = self.numbers()?;
        let left = (place.max(0.0).floor() as usize).min(numbers.len().saturating_sub(2));
        let low = *numbers.get(left)?;
        let high = *numbers.get(left + 1)?;
        let part = place - left as f64;
        Some(if spans_a_decade(&numbers) {
            (low.ln() + part * (high.ln() - low.ln())).exp()
        } else {
            low + part * (high - low)
        })
    }
}

impl Axes {
    /// `None` if there is one condition, or if the axes do not tell all conditions apart.
    pub(crate) fn of(study: &Study) -> Option<Self> {
        let found = columns(study);
        let mut axes = Vec::new();
        let mut places: Vec<Vec<usize>> = Vec::new();
        for column in &found {
            let values = sorted(column);
            let place_of: BTreeMap<&str, usize> =
                values.iter().map(|value| value.text.as_str()).zip(0..).collect();
            let own: Vec<usize> =
                column.iter().filter_map(|value| place_of.get(value.text.as_str()).copied()).collect();
            // Axes in lockstep are one axis.
            let again = places.iter().any(|other| determines(other, &own) && determines(&own, other));
            if values.len() > 1 && !again {
                axes.push(Axis { name: column.first()?.path.clone(), values });
                places.push(own);
            }
        }
        let mut order: Vec<usize> = (0..axes.len()).collect();
        order.sort_by_key(|place| std::cmp::Reverse(axes[*place].values.len()));
        let conditions = study.conditions.len();
        let on_axes = |condition: usize| order.iter().map(|axis| places[*axis][condition]).collect();
        let placed: Vec<Vec<usize>> = (0..conditions).map(on_axes).collect();
        let found: BTreeMap<Vec<usize>, usize> = placed.iter().cloned().zip(0..).collect();
        let whole = conditions > 1 && found.len() == conditions;
        let names = shortest(&axes);
        let named = |place: &usize| Axis { name: names[*place].clone(), ..axes[*place].clone() };
        whole.then(|| Self { ordered: order.iter().map(named).collect(), places: placed, conditions: found })
    }

    /// The condition at these places, one for each axis.
    pub(crate) fn condition_at(&self, places: &[usize]) -> Option<usize> {
        self.conditions.get(places).copied()
    }
}

/// For each axis that all cells of a condition agree on its value under every condition.
fn columns<'a>(study: &Study<'a>) -> Vec<Vec<&'a AxisValue>> {
    let cells = &study.rows.plan.cells;
    let first = study.conditions.first().and_then(|condition| condition.cells.first());
    let candidates = first.map_or(&[][..], |cell| &cells[cell.index].axes);
    let value = |cell: usize, path: &str| cells[cell].axes.iter().find(|value| value.path == path);
    let column = |path: &str| -> Option<Vec<&'a AxisValue>> {
        let of_condition = |condition: &comparison::study::Condition| {
            let found = value(condition.cells.first()?.index, path)?;
            let agree = |cell: &comparison::study::ArmCell| {
                value(cell.index, path).is_some_and(|other| other.text == found.text)
            };
            condition.cells.iter().all(agree).then_some(found)
        };
        study.conditions.iter().map(of_condition).collect()
    };
    // Of a search each arm has its own values.
    let searched = |value: &&AxisValue| study.rows.plan.search.is_some() && is_searched(&value.path);
    candidates.iter().filter(|value| !searched(value)).filter_map(|value| column(&value.path)).collect()
}

fn sorted(column: &[&AxisValue]) -> Vec<AxisPoint> {
    let mut values: Vec<AxisPoint> = Vec::new();
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    for value in column {
        if seen.insert(&value.text) {
            values.push(AxisPoint { text: value.text.clone(), number: value.number });
        }
    }
    if values.iter().all(|value| value.number.is_some()) {
        let number = |value: &AxisPoint| value.number.unwrap_or_default();
        values.sort_by(|left, right| number(left).total_cmp(&number(right)));
    }
    values
}

/// Whether equal places on one axis are equal places on the other.
fn determines(one: &[usize], other: &[usize]) -> bool {
    let mut seen: BTreeMap<usize, usize> = BTreeMap::new();
    one.iter().zip(other).all(|(from, to)| *seen.entry(*from).or_insert(*to) == *to)
}

/// The last part of each path, or the path where two axes share it.
fn shortest(axes: &[Axis]) -> Vec<String> {
    let last = |axis: &Axis| axis.name.rsplit('.').next().unwrap_or_default().to_owned();
    let short = |axis: &Axis| {
        let name = last(axis);
        let is_shared = axes.iter().filter(|other| last(other) == name).count() > 1;
        if is_shared { axis.name.clone() } else { name }
    };
    axes.iter().map(short).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{GridAxis, Sample, on_grid};
    use store::SweepRows;

    fn grid(axes: &[GridAxis]) -> SweepRows {
        let one = Sample { repeats: 1, epochs: (1, 1), ..Sample::duel() }.rows();
        on_grid(&one, axes, |_, _| 5e-3)
    }

    fn axes(rows: &SweepRows) -> Option<Axes> {
        Axes::of(&Study::new(rows, None).unwrap())
    }

    #[test]
    fn axes_are_ordered_by_their_number_of_values_and_these_by_size() {
        let found = axes(&grid(&[
            GridAxis::new("nodes.workers", &[8.0, 2.0]),
            GridAxis::new("train.optimizer.lr", &[0.1, 0.01, 1.0]),
        ]))
        .unwrap();
        let names: Vec<&str> = found.ordered.iter().map(|axis| axis.name.as_str()).collect();
        assert_eq!(names, ["lr", "workers"]);
        assert_eq!(found.ordered[0].numbers().unwrap(), [0.01, 0.1, 1.0]);
        // The first condition has 8 workers and a rate of 0.1.
        assert_eq!(found.places[0], [1, 1]);
        assert_eq!(found.condition_at(&[1, 1]), Some(0));
        assert_eq!(found.condition_at(&[3, 0]), None);
    }

    #[test]
    fn axes_in_lockstep_are_one_and_those_of_arms_are_none() {
        let mut rows = grid(&[GridAxis::new("nodes.workers", &[2.0, 4.0, 8.0])]);
        for cell in &mut rows.plan.cells {
            let workers = cell.axes[0].number.unwrap();
            let value = |path: &str, number: f64| AxisValue {
                path: path.to_owned(),
                text: number.to_string(),
                number: Some(number),
            };
            cell.axes.push(value("train.global-batch", 32.0 * workers));
            cell.axes.push(value("strategy.segments", cell.arm as f64));
        }
        let found = axes(&rows).unwrap();
        assert_eq!(found.ordered.len(), 1);
        assert_eq!(found.ordered[0].name, "workers");
        // Two conditions at the same place: the axes do not tell them apart.
        let twice: Vec<AxisValue> = rows.plan.cells[0].axes.clone();
        rows.plan.cells.iter_mut().for_each(|cell| cell.axes.clone_from(&twice));
        assert!(axes(&rows).is_none());
    }

    #[test]
    fn places_between_values_are_numbers() {
        let point = |number: f64| AxisPoint { text: number.to_string(), number: Some(number) };
        let even = Axis { name: String::new(), values: [2.0, 4.0, 8.0].map(point).to_vec() };
        assert_eq!(even.number_at(1.5), Some(6.0));
        let wide = Axis { name: String::new(), values: [1.0, 100.0].map(point).to_vec() };
        assert!((wide.number_at(0.5).unwrap() - 10.0).abs() < 1e-9);
        assert!(spans_a_decade(&[1.0, 10.0]) && !spans_a_decade(&[1.0, 9.0]) && !spans_a_decade(&[0.0, 9.0]));
    }
}
