//! `bakeoff list`: the runs that fit a selection.

use crate::args::TableFormat;
use crate::context::Context;
use crate::exit::{Exit, Failure};
use crate::output::paint::{FAINT, state_style};
use crate::output::table::{Cell, Sheet};
use crate::output::{self, human};
use crate::reuse::short;
use clap::Args;
use store::{RunLine, Selection, Store, StoreError};

/// Shown at the end of the verb's help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  bakeoff list                                        every run
  bakeoff list last                                   the newest sweep
  bakeoff list \"strategy=d-sync and workers>=4\"
  bakeoff list \"last and state=failed\"
  bakeoff list \"train.optimizer.lr=0.1 or recipe=quickstart\"

Fields: strategy, arm, recipe, condition, state, seed, workers, repeat, tag,
origin (own or imported), and every key of a recipe, by its path or its end.";

/// Arguments of `list`.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Which runs; all where nothing is said.
    #[arg(value_name = "SELECTION", default_value = "")]
    selection: String,
    /// A table for people, or JSON for programs.
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    format: TableFormat,
}

/// Prints the runs that fit the selection.
pub(crate) fn execute(args: &ListArgs, context: &Context<'_>) -> Result<Exit, Failure> {
    let selection = Selection::parse(&args.selection)?;
    let width = output::width();
    match args.format {
        TableFormat::Table => {
            let lines = listed(args, context, async |store| store.list(&selection).await)?;
            output::data(&sheet(&lines, width).render(width))?;
        }
        TableFormat::Json => {
            output::json(&listed(args, context, async |store| store.list_in_full(&selection).await)?)?;
        }
    }
    Ok(Exit::Done)
}

/// Rows that a query finds. Finding none is a failure only if the user gave a selection.
fn listed<T>(
    args: &ListArgs,
    context: &Context<'_>,
    query: impl AsyncFnOnce(&Store) -> Result<Vec<T>, StoreError>,
) -> Result<Vec<T>, Failure> {
    let lines = super::wait(async {
        let store = Store::open_existing(&context.global.store).await?;
        let lines = query(&store).await?;
        store.close().await;
        Ok(lines)
    })?;
    if lines.is_empty() && !args.selection.is_empty() {
        return Err(StoreError::Empty { selection: args.selection.clone() }.into());
    }
    Ok(lines)
}

/// Columns that a narrow terminal can do without, the first of them first.
const DISPENSABLE: [&str; 5] = ["started", "training", "repeat", "origin", "tags"];

/// As many columns as fit.
fn sheet(lines: &[RunLine], width: usize) -> Sheet {
    let without = |count| sheet_without(lines, &DISPENSABLE[..count]);
    let wider = (0..DISPENSABLE.len()).map(without).find(|sheet| sheet.fits(width));
    wider.unwrap_or_else(|| without(DISPENSABLE.len()))
}

/// Only columns that tell something.
fn sheet_without(lines: &[RunLine], left_out: &[&str]) -> Sheet {
    let several = lines.iter().any(|line| line.recipe != lines[0].recipe);
    let now = human::now();
    let columns: [Column; 11] = [
        ("run", true, |line, _| short(&line.id).into()),
        ("recipe", several, |line, _| (&line.recipe).into()),
        ("arm", true, |line, _| (&line.arm).into()),
        ("condition", lines.iter().any(|line| !line.condition.is_empty()), |line, _| {
            (&line.condition).into()
        }),
        ("repeat", lines.iter().any(|line| line.repeat > 0), |line, _| (line.repeat + 1).to_string().into()),
        ("state", true, |line, _| Cell::styled(state_style(line.state), line.state.words(line.as_ordered))),
        ("training", lines.iter().any(|line| line.training.is_some()), |line, _| {
            line.training.map_or_else(String::new, human::time).into()
        }),
        ("metric", lines.iter().any(|line| line.metric.is_some()), |line, _| {
            line.metric.map_or_else(String::new, |(metric, value)| human::metric(metric, value)).into()
        }),
        ("tags", lines.iter().any(|line| !line.tags.is_empty()), |line, _| line.tags.join(" ").into()),
        ("origin", lines.iter().any(|line| line.imported || line.reused), |line, _| {
            let origin = match (line.imported, line.reused) {
                (true, _) => "imported",
                (false, true) => "reused",
                (false, false) => "",
            };
            Cell::styled(FAINT, origin)
        }),
        ("started", true, |line, now| {
            Cell::styled(FAINT, line.started.map_or_else(String::new, |began| human::ago(began, now)))
        }),
    ];
    let shown: Vec<&Column> =
        columns.iter().filter(|(name, shown, _)| *shown && !left_out.contains(name)).collect();
    let head: Vec<&str> = shown.iter().map(|(name, ..)| *name).collect();
    let places =
        |names: &[&str]| (0..head.len()).filter(|place| names.contains(&head[*place])).collect::<Vec<_>>();
    let right = places(&["repeat", "training", "metric"]);
    let whole = places(&["run", "repeat", "state", "training", "metric", "origin", "started"]);
    let mut sheet = Sheet::new(&head).right(&right).whole(&whole);
    for line in lines {
        sheet.row(shown.iter().map(|(.., cell)| cell(line, now)).collect());
    }
    sheet
}

/// A column: its name, whether it is shown, and its cell for a run, given the current moment.
type Column = (&'static str, bool, fn(&RunLine, i64) -> Cell);

#[cfg(test)]
mod tests {
    use super::*;
    use recipe::Metric;
    use record::Nanos;
    use store::RunState;

    #[test]
    fn a_narrow_terminal_loses_columns_before_it_breaks_words() {
        let line = RunLine {
            id: "01M81416M7FPTA1WAM4J8T3XQB".into(),
            sweep: "01M81416M7FPTA1WAM4J8T3XQB".into(),
            recipe: "elastic-and-gossip".into(),
            arm: "easgd-original".into(),
            condition: "workers=8 bandwidth=1Gbit/s".into(),
            repeat: 2,
            state: RunState::Degraded,
            as_ordered: true,
            started: Some(0),
            training: Some(Nanos(3_700_000_000_000)),
            metric: Some((Metric::TestAccuracy, 0.98)),
            tags: vec!["paper-v2".into()],
            imported: true,
            reused: false,
        };
        let lines = [RunLine { recipe: "codecs".into(), ..line.clone() }, line];
        let shown = |width| anstream::adapter::strip_str(&sheet(&lines, width).render(width)).to_string();
        let wide = shown(200);
        let narrow = shown(80);
        for column in [
            "run",
            "recipe",
            "arm",
            "condition",
            "repeat",
            "state",
            "training",
            "metric",
            "tags",
            "origin",
            "started",
        ] {
            assert!(wide.contains(column), "{wide}");
        }
        assert!(narrow.lines().all(|line| line.chars().count() <= 80), "{narrow}");
        assert!(
            !narrow.contains("started")
                && narrow.contains("J8T3XQB")
                && narrow.contains("degraded as ordered"),
            "{narrow}"
        );
        assert!(narrow.lines().next().is_some_and(|head| head.contains("condition")), "{narrow}");
    }
}
