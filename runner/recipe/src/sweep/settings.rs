//! The values of all keys, each once for the cells that share it: a plan's [`Setting`]s.

use crate::resolve::in_force::CellKey;
use crate::sweep::expand::Draft;
use crate::values::leaf::Leaf;
use crate::{Setting, SettingScope};
use std::sync::Arc;

/// The values that cells have in common, and those that they have alone where no axis of theirs says so.
pub(crate) fn shared(drafts: &[Draft]) -> Vec<Setting> {
    let arms = drafts.iter().map(|draft| draft.arm + 1).max().unwrap_or(0);
    let mut of_arms: Vec<Vec<usize>> = vec![Vec::new(); arms];
    for (cell, draft) in drafts.iter().enumerate() {
        of_arms[draft.arm].push(cell);
    }
    CellKey::all().iter().flat_map(|key| of_key(key, drafts, &of_arms)).collect()
}

fn of_key(key: &CellKey, drafts: &[Draft], of_arms: &[Vec<usize>]) -> Vec<Setting> {
    let values: Vec<Option<Arc<Leaf>>> =
        drafts.iter().map(|draft| key.value(&draft.settings, draft.kind)).collect();
    let setting = |leaf: &Arc<Leaf>, of: SettingScope| Setting {
        path: key.id.shown().to_owned(),
        text: leaf.text.clone(),
        number: leaf.number(),
        of,
    };
    let Some(first) = values.first() else { return Vec::new() };
    if values.iter().all(|value| same(value.as_ref(), first.as_ref())) {
        return first.iter().map(|leaf| setting(leaf, SettingScope::Plan)).collect();
    }
    let mut settings = Vec::new();
    for (arm, cells) in of_arms.iter().enumerate() {
        let Some(first) = cells.first().map(|cell| &values[*cell]) else { continue };
        if cells.iter().all(|cell| same(values[*cell].as_ref(), first.as_ref())) {
            settings.extend(first.iter().map(|leaf| setting(leaf, SettingScope::Arm(arm))));
            continue;
        }
        for cell in cells {
            let said = |leaf: &&Arc<Leaf>| !says(&drafts[*cell], key, leaf);
            settings.extend(
                values[*cell].iter().filter(said).map(|leaf| setting(leaf, SettingScope::Cell(*cell))),
            );
        }
    }
    settings
}

/// Whether an axis of the cell has this value for this key.
fn says(draft: &Draft, key: &CellKey, leaf: &Leaf) -> bool {
    let path = key.id.shown();
    let is_key = |axis: &str| axis.strip_suffix(".kind").unwrap_or(axis) == path;
    draft.axes.iter().any(|axis| is_key(&axis.path) && axis.text == leaf.text)
}

fn same(one: Option<&Arc<Leaf>>, other: Option<&Arc<Leaf>>) -> bool {
    match (one, other) {
        (None, None) => true,
        (Some(one), Some(other)) => Arc::ptr_eq(one, other) || one.text == other.text,
        (None, Some(_)) | (Some(_), None) => false,
    }
}
