//! The problems that a recipe has whatever its unreadable values were meant to be.
//!
//! A value of the wrong type must not hide a problem elsewhere. Nor may it cause a problem of its own: with some
//! other number of workers the batch might be large enough. So the recipe is judged with several values in place of the
//! unreadable one, and reports the problems of each.

use crate::files::Files;
use crate::keys::key::{Key, Kind, Range};
use crate::keys::lookup;
use crate::resolve::inventory::Known;
use crate::sweep::cells::CellBuilder;
use crate::sweep::expand;
use crate::sweep::recipe::Recipe;
use crate::text::finding::Finding;
use crate::text::parse;
use crate::text::source::{Sources, Span};
use crate::text::tree::quote;
use crate::values::leaf::Leaf;
use crate::values::read;
use std::sync::Arc;

/// Judging a recipe many times over is for recipes that people write by hand.
const MOST_CELLS: usize = 64;

/// An arm that could not be read may be the one that has servers.
const ABOUT_ALL_ARMS: &str = "R123";

/// The errors that stand whatever the unreadable values are; nothing where it is not known which cells there are.
pub(crate) fn findings(recipe: &mut Recipe, files: &dyn Files, machine: Known<'_>) -> Vec<Finding> {
    if recipe.cells_unknown {
        return Vec::new();
    }
    let variants = recipe.unreadable().map(|key| candidates(key.key()).len()).max().unwrap_or(1);
    let mut standing: Option<Vec<Finding>> = None;
    for variant in 0..variants.max(1) {
        recipe.fill_in(|key| {
            let candidates = candidates(key.key());
            candidates.get(variant % candidates.len().max(1)).cloned()
        });
        let Some(found) = judge(recipe, files, machine) else { return Vec::new() };
        standing = Some(match standing {
            None => found,
            Some(before) => {
                before.into_iter().filter(|one| found.iter().any(|other| same(one, other))).collect()
            }
        });
    }
    standing.unwrap_or_default()
}

fn judge(recipe: &Recipe, files: &dyn Files, machine: Known<'_>) -> Option<Vec<Finding>> {
    let expansion = expand::expand(recipe, machine, &mut Vec::new())?;
    if expansion.drafts.len() > MOST_CELLS {
        return None;
    }
    let mut builder = CellBuilder::new(recipe, files, machine);
    let cells = builder.build(expansion.drafts);
    let found = builder.findings(&cells, 1).into_iter();
    // How many runs an error touches is not known either.
    let told = found.filter(|finding| finding.is_error() && finding.code != ABOUT_ALL_ARMS);
    Some(told.map(Finding::affecting_all).collect())
}

fn same(one: &Finding, other: &Finding) -> bool {
    let place = |finding: &Finding| -> Option<Span> { finding.spans.first().map(|(span, _)| *span) };
    (one.code, &one.title, place(one)) == (other.code, &other.title, place(other))
}

/// Values that a key may have: the usual ones, and the ends of what it takes.
fn candidates(key: &'static Key) -> Vec<Arc<Leaf>> {
    let mut written: Vec<String> = match key.kind {
        Kind::Choice(choices) => lookup::available(choices).map(quote).collect(),
        Kind::Flag => vec!["true".to_owned(), "false".to_owned()],
        Kind::Whole(least, most) => whole(least, most),
        Kind::Number(range) | Kind::Share(range) => ends(range),
        _ => Vec::new(),
    };
    written.extend([key.default, Some(key.example)].into_iter().flatten().map(str::to_owned));
    let leaf = |text: &String| {
        let item = parse::value(text, 0, 0)?;
        let leaf = read::leaf(key, &item, &Sources::default()).ok()?;
        Some(Arc::new(Leaf { span: None, ..leaf }))
    };
    written.iter().filter_map(leaf).collect()
}

/// Small and large counts; the largest only of things that planning does not make, as samples and steps.
fn whole(least: u64, most: u64) -> Vec<String> {
    let large = if most > 1 << 20 { 1 << 20 } else { 256 };
    let some = [least, 2, 7, 64, large].into_iter().filter(|number| (least..=most).contains(number));
    some.map(|number| number.to_string()).collect()
}

/// Numbers near the ends of a range; those that are not in it go when they are read.
fn ends(range: Range) -> Vec<String> {
    let most = if range.most.is_finite() { range.most } else { 1e6 };
    let width = most - range.least;
    [0.0, 1e-6, 0.5, 1.0 - 1e-6, 1.0].map(|part| format!("{:?}", range.least + part * width)).to_vec()
}
