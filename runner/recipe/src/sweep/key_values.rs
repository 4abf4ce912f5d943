//! The values of all keys of a plan's cells, each once for the cells that share it.

use crate::keys::lookup::{KeyId, id};
use crate::resolve::in_force::CellKey;
use crate::sweep::expand::Draft;
use crate::values::leaf::Leaf;
use crate::{Cell, Extent, KeyValue, Search, SharedBy};
use std::collections::BTreeMap;
use std::sync::Arc;

const EPOCHS: KeyId = id("train.epochs");
const STEPS: KeyId = id("train.steps");

/// The values that are in force in the cells of a grid.
pub(crate) fn of(drafts: &[Draft]) -> Vec<KeyValue> {
    let arms = drafts.iter().map(|draft| draft.arm + 1).max().unwrap_or(0);
    let mut of_arms: Vec<Vec<usize>> = vec![Vec::new(); arms];
    for (cell, draft) in drafts.iter().enumerate() {
        of_arms[draft.arm].push(cell);
    }
    CellKey::all().iter().flat_map(|key| of_key(key, drafts, &of_arms)).collect()
}

fn of_key(key: &CellKey, drafts: &[Draft], of_arms: &[Vec<usize>]) -> Vec<KeyValue> {
    let leaves: Vec<Option<Arc<Leaf>>> =
        drafts.iter().map(|draft| key.value(&draft.settings, draft.kind)).collect();
    let value = |cell: usize, of: SharedBy| {
        let leaf = leaves[cell].as_ref()?;
        let path = key.id.shown().to_owned();
        Some(KeyValue { path, text: leaf.text.clone(), number: leaf.number(), of })
    };
    let alike = |cells: &[usize]| {
        let mut pairs = cells.iter().zip(cells.iter().skip(1));
        pairs.all(|(one, other)| same(leaves[*one].as_ref(), leaves[*other].as_ref()))
    };
    let all: Vec<usize> = (0..drafts.len()).collect();
    if alike(&all) {
        return all.first().and_then(|cell| value(*cell, SharedBy::Plan)).into_iter().collect();
    }
    let mut values = Vec::new();
    for (arm, cells) in of_arms.iter().enumerate() {
        if alike(cells) {
            values.extend(cells.first().and_then(|cell| value(*cell, SharedBy::Arm(arm))));
        } else {
            values.extend(cells.iter().filter_map(|cell| value(*cell, SharedBy::Cell(*cell))));
        }
    }
    values
}

fn same(one: Option<&Arc<Leaf>>, other: Option<&Arc<Leaf>>) -> bool {
    match (one, other) {
        (None, None) => true,
        (Some(one), Some(other)) => Arc::ptr_eq(one, other) || one.text == other.text,
        (None, Some(_)) | (Some(_), None) => false,
    }
}

/// The values of the cells that a search adds: those of the cells that train to the end, but for the length.
pub(crate) fn of_rungs(search: &Search, cells: &[Cell], of_grid: &[KeyValue]) -> Vec<KeyValue> {
    let mut of_cells: BTreeMap<usize, Vec<&KeyValue>> = BTreeMap::new();
    for value in of_grid {
        if let SharedBy::Cell(cell) = value.of {
            of_cells.entry(cell).or_default().push(value);
        }
    }
    let mut values = Vec::new();
    for trial in &search.trials {
        let own = of_cells.get(&trial.cell).map_or(&[][..], Vec::as_slice);
        for rung in &trial.rungs {
            let length = length(cells[*rung].spec.train.length, SharedBy::Cell(*rung));
            let others = own.iter().copied().filter(|value| value.path != length.path);
            values.extend(others.map(|value| KeyValue { of: SharedBy::Cell(*rung), ..value.clone() }));
            values.push(length);
        }
    }
    values
}

fn length(length: Extent, of: SharedBy) -> KeyValue {
    let (key, number) = match length {
        Extent::Epochs(epochs) => (EPOCHS, epochs),
        Extent::Steps(steps) => (STEPS, steps as f64),
    };
    KeyValue { path: key.shown().to_owned(), text: number.to_string(), number: Some(number), of }
}
