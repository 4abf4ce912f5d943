//! Where the rows of several sweeps that are shown as one come from.

use super::Side;
use recipe::Redaction;
use std::collections::BTreeSet;
use store::{Annotations, Commit, SweepRows};

/// Gives `all`, which began as a copy of the first side's sweep, the nodes, the redactions and the origin of all sides.
pub(crate) fn merge(all: &mut SweepRows, sides: &[Side<'_>]) {
    for side in sides {
        for node in &side.rows.nodes {
            if !all.nodes.contains(node) {
                all.nodes.push(node.clone());
            }
        }
        if side.rows.plan.looks.len() > all.plan.looks.len() {
            all.plan.looks.clone_from(&side.rows.plan.looks);
        }
    }
    let redactions: Vec<Redaction> =
        sides.iter().flat_map(|side| side.rows.plan.report.redact.clone()).collect();
    for redaction in redactions {
        if !all.plan.report.redact.contains(&redaction) {
            all.plan.report.redact.push(redaction);
        }
    }
    all.annotations = annotations(sides);
    origin(all, sides);
}

/// Notes of all sides, each with the side's name. Tags belong to sweeps, and the joined rows are none.
fn annotations(sides: &[Side<'_>]) -> Annotations {
    let noted = sides.iter().filter(|side| !side.rows.annotations.note.is_empty());
    let notes: Vec<String> =
        noted.map(|side| format!("{}: {}", side.name, side.rows.annotations.note)).collect();
    Annotations { note: notes.join(" · "), ..Annotations::default() }
}

fn origin(all: &mut SweepRows, sides: &[Side<'_>]) {
    let rows = || sides.iter().map(|side| side.rows);
    let commit =
        |rows: &SweepRows| rows.commit.clone().map_or_else(|| "none".to_owned(), |commit| commit.hash);
    let is_changed = rows().any(|rows| rows.commit.as_ref().is_none_or(|commit| commit.is_changed));
    let known = rows().any(|rows| rows.commit.is_some());
    all.commit = known.then(|| Commit { hash: each(rows().map(commit)), is_changed });
    all.id = each(rows().map(|rows| rows.id.clone()));
    all.version = each(rows().map(|rows| rows.version.clone()));
    all.recipe_sha256 = each(rows().map(|rows| rows.recipe_sha256.clone()));
    all.recipe_path = each(rows().map(|rows| rows.recipe_path.clone()));
    all.plan.source = texts(sides, |rows| &rows.plan.source);
    all.plan.expanded = texts(sides, |rows| &rows.plan.expanded);
    all.argv = Vec::new();
    all.started = rows().map(|rows| rows.started).min().unwrap_or_default();
}

/// The different ones of some words, in their order.
fn each(words: impl Iterator<Item = String>) -> String {
    let mut seen = BTreeSet::new();
    let different: Vec<String> = words.filter(|word| seen.insert(word.clone())).collect();
    different.join(" and ")
}

/// One text if all sides have the same one, else each with the name of its side, as a TOML comment.
fn texts<'a>(sides: &[Side<'a>], of: impl Fn(&'a SweepRows) -> &'a String) -> String {
    let different: BTreeSet<&String> = sides.iter().map(|side| of(side.rows)).collect();
    if let (1, Some(same)) = (different.len(), different.first()) {
        return (*same).clone();
    }
    let one = |side: &Side<'a>| {
        // A name is a line of its own, whatever a user made of it.
        let name: String = side.name.chars().filter(|letter| !letter.is_control()).collect();
        format!("# {name}\n\n{}", of(side.rows))
    };
    sides.iter().map(one).collect::<Vec<_>>().join("\n")
}
