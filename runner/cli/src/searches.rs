//! The searches of a plan, for `plan` and `run`.

use crate::output::human;
use crate::output::table::{Cell as TableCell, Sheet};
use recipe::{Cell, Plan, Search, Trial};
use std::collections::BTreeMap;

/// `search: all settings for 1/9 of the length, one in 3 of them for 1/3, the best of each arm to the end`; `None` without a search.
pub(crate) fn words(plan: &Plan) -> Option<String> {
    let search = plan.search.as_ref()?;
    let parts = search.parts();
    let between = parts.get(1..parts.len() - 1)?;
    let mut words = vec![format!("all settings for 1/{} of the length", parts.first()?)];
    words.extend(between.iter().map(|part| format!("one in {} of them for 1/{part}", search.factor)));
    words.push("the best of each arm to the end".to_owned());
    let most = search.groups(plan).iter().map(Vec::len).max()?;
    let lengths = search.sizes(most).into_iter().zip(&parts).map(|(size, part)| size as f64 / *part as f64);
    Some(format!(
        "search: {}; with its first run that is {:.1} whole trainings for each arm, in place of {most}",
        words.join(", "),
        lengths.sum::<f64>()
    ))
}

/// `4 searches`, one for each arm under each condition; `None` without a search.
pub(crate) fn number(plan: &Plan) -> Option<String> {
    let search = plan.search.as_ref()?;
    let number = search.groups(plan).len();
    Some(if number == 1 {
        "1 search".to_owned()
    } else {
        format!("{} searches", human::thousands(number as u64))
    })
}

/// Whether searches are made under conditions.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Columns {
    WithCondition,
    WithoutCondition,
}

/// A row for each search, with how many settings train in each rung and to the end.
pub(crate) fn sheet(plan: &Plan, most: usize) -> Option<Sheet> {
    let search = plan.search.as_ref()?;
    let groups = search.groups(plan);
    let has_conditions = groups.iter().any(|group| !group[0].condition.is_empty());
    let columns = if has_conditions { Columns::WithCondition } else { Columns::WithoutCondition };
    let head: &[&str] = match columns {
        Columns::WithCondition => &["arm", "condition", "workers", "length", "settings", "runs"],
        Columns::WithoutCondition => &["arm", "workers", "length", "settings", "runs"],
    };
    let numbers: Vec<usize> =
        (0..head.len()).filter(|place| matches!(head[*place], "workers" | "runs")).collect();
    let mut sheet = Sheet::new(head).right(&numbers).whole(&numbers);
    for group in groups.iter().take(most) {
        sheet.row(row(plan, search, group, columns));
    }
    Some(sheet)
}

fn row(plan: &Plan, search: &Search, group: &[&Trial], columns: Columns) -> Vec<TableCell> {
    let cell = cell_of(plan, group);
    let sizes = search.sizes(group.len());
    let rungs = sizes.len() - 1;
    let runs = |repeats: usize| sizes[..rungs].iter().sum::<usize>() + sizes[rungs] * repeats;
    let repeats = plan.repeats_to_the_end();
    let least = runs(repeats.least);
    let most = runs(repeats.most);
    let words: Vec<String> = sizes.iter().map(usize::to_string).collect();
    let mut row = vec![TableCell::from(plan.arms[cell.arm].name.as_str())];
    if columns == Columns::WithCondition {
        row.push(TableCell::from(group[0].condition.as_str()));
    }
    row.push(cell.spec.cluster.workers().to_string().into());
    row.push(cell.spec.train.length.to_string().into());
    row.push(words.join(", ").into());
    row.push(if least == most { most.to_string() } else { format!("{least} to {most}") }.into());
    row
}

fn cell_of<'a>(plan: &'a Plan, group: &[&Trial]) -> &'a Cell {
    &plan.cells[group[0].cell]
}

/// When the runs of a cell are made, by the cell: `if among the best 3 of 9 after rung 1`. Those of other cells are made in any case.
pub(crate) fn conditions(plan: &Plan) -> BTreeMap<usize, String> {
    let Some(search) = &plan.search else { return BTreeMap::new() };
    let mut conditions = BTreeMap::new();
    for group in search.groups(plan) {
        let sizes = search.sizes(group.len());
        for (rung, pair) in (1..).zip(sizes.windows(2)) {
            let best =
                if pair[1] == 1 { "the best".to_owned() } else { format!("among the best {}", pair[1]) };
            let words = format!("if {best} of {} after rung {rung}", pair[0]);
            conditions.extend(group.iter().map(|trial| (trial.cell_in(rung), words.clone())));
        }
    }
    conditions
}
