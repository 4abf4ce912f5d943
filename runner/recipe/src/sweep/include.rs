//! `[[sweep.include]]`: conditions beside the product of the axes, each with a value for every axis of the conditions.

use crate::sweep::axes::{Axis, AxisReader, Dimension, Scope, tables};
use crate::text::finding::Finding;
use crate::text::source::Span;
use crate::text::tree::{Item, Table, Value};

const PATH: &str = "sweep.include";

/// A value, by the path that it stands at.
type Leaf<'a> = (String, &'a Item, Span);

impl AxisReader<'_> {
    /// One dimension of one point for each table.
    pub(crate) fn includes(&mut self, sweep: &Table, dimensions: &[Dimension]) -> Vec<Dimension> {
        let Some(entry) = sweep.get("include") else { return Vec::new() };
        let conditions: Vec<&Axis> = dimensions
            .iter()
            .filter(|dimension| dimension.scope == Scope::Conditions)
            .flat_map(|dimension| &dimension.axes)
            .collect();
        let tables = tables(entry, PATH, self.findings);
        if conditions.is_empty() && !tables.is_empty() {
            self.findings.push(
                Finding::new("R039", "a condition beside none: no axis of the sweep makes conditions")
                    .at(entry.name_span, "beside nothing")
                    .cure("name what varies in [sweep.axes]; settings of one strategy belong into its [[strategy]]"),
            );
            return Vec::new();
        }
        tables.into_iter().filter_map(|(table, span)| self.included(table, span, &conditions)).collect()
    }

    fn included(&mut self, table: &Table, span: Span, conditions: &[&Axis]) -> Option<Dimension> {
        let mut leaves = Vec::new();
        walk(table, "", conditions, &mut leaves);
        let before = self.findings.len();
        for (path, _, name) in
            leaves.iter().filter(|(path, ..)| conditions.iter().all(|axis| axis.path != *path))
        {
            let axes: Vec<&str> = conditions.iter().map(|axis| axis.path.as_str()).collect();
            self.findings.push(
                Finding::new("R039", format!("`{path}` is no axis of the conditions"))
                    .at(*name, "the other conditions do not vary it")
                    .note(format!("axes: {}", axes.join(", ")))
                    .cure("make it an axis, or set the key itself"),
            );
        }
        let mut axes = Vec::new();
        for axis in conditions {
            match leaves.iter().find(|(path, ..)| *path == axis.path) {
                Some((_, item, name)) => axes.extend(self.with_one_point(axis, item, *name)),
                None => self.findings.push(
                    Finding::new("R039", format!("a condition without `{}`", axis.path))
                        .at(span, "it has a value under every other condition")
                        .cure(format!("add `{} = ...`", axis.path)),
                ),
            }
        }
        (self.findings.len() == before).then_some(Dimension { axes, scope: Scope::Conditions })
    }
}

/// The values of a table; a table is a value where an axis has that path.
fn walk<'a>(table: &'a Table, above: &str, conditions: &[&Axis], leaves: &mut Vec<Leaf<'a>>) {
    for entry in &table.entries {
        let joint = if above.is_empty() { "" } else { "." };
        let path = format!("{above}{joint}{}", entry.name);
        match &entry.item.value {
            Value::Table(inner) if conditions.iter().all(|axis| axis.path != path) => {
                walk(inner, &path, conditions, leaves);
            }
            _ => leaves.push((path, &entry.item, entry.name_span)),
        }
    }
}
