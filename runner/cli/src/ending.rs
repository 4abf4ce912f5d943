//! The end of a sweep on the terminal: arms, verdicts, failures, the page's path, and the next command.

use crate::exit::{Exit, Failure};
use crate::output::paint::{BAD, FAINT, GOOD, ODD, PLAIN, STRONG, paint, state_style};
use crate::output::table::{Cell, Sheet};

use crate::context::Context;
use crate::output::{self, Loudness, fold, human};
use crate::page;
use crate::reuse::short;
use anstyle::Style;
use reports::{ArmTable, Grade, Options, Quality, Verdict};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use store::{RunRow, RunState, Selection, Store, SweepId, SweepRows};

/// Where the page is written, and whether it is opened.
pub(crate) struct ReportOptions<'a> {
    /// The page's file; by default in the store.
    pub(crate) file: Option<&'a Path>,
    /// Whether it is opened.
    pub(crate) open: bool,
}

/// Failures that are listed; the page has all of them.
const MOST_FAILURES: usize = 3;
/// Conditions whose arms are listed; the page has all of them.
const MOST_CONDITIONS: usize = 20;
/// Log lines shown of each.
const LOG_LINES: usize = 6;

/// Prints how a sweep ended, makes its page, and returns the exit code.
pub(crate) async fn tell(
    store: &Store,
    id: &SweepId,
    context: &Context<'_>,
    report: &ReportOptions<'_>,
) -> Result<Exit, Failure> {
    let selection = Selection::sweep(id);
    let rows = store.sweep_rows(&selection).await?;
    let options = page::options();
    let quiet = context.console.loudness() == Loudness::Quiet;
    if !quiet {
        output::data(&results(&rows, &options, output::width())?)?;
    }
    let troubles = troubles(&rows, output::width());
    if !troubles.is_empty() {
        context.console.write(&troubles);
    }
    let inside = store.folder().join("reports").join(format!("{id}.html"));
    let file: PathBuf = report.file.map_or(inside, Path::to_owned);
    let content = page::Content { rows: &rows, selection: &selection, options: &options };
    page::write(store, &content, &file, context.console).await?;
    if !quiet {
        output::data(&format!("\n{} {}", paint(STRONG, "report:"), file.display()))?;
    }
    if report.open {
        page::open(&file, context.console);
    }
    context.console.say(&format!("{} {}", paint(STRONG, "next:"), next(&rows, &file)));
    Ok(exit(&rows))
}

/// The tables of arms and the verdicts, of the first conditions where there are many.
pub(crate) fn results(rows: &SweepRows, options: &Options, width: usize) -> Result<String, Failure> {
    if !rows.runs.iter().any(reports::is_judged) {
        return Ok("\nNo run has ended well, so there is nothing to compare.\n".to_owned());
    }
    let verdicts = reports::verdicts(rows, options)?;
    let mut out = String::new();
    let tables = reports::arm_tables(rows, options)?;
    for table in tables.iter().take(MOST_CONDITIONS) {
        if table.condition.is_empty() {
            out.push('\n');
        } else {
            out.push('\n');
            for line in fold(&table.condition, width) {
                let _ = writeln!(out, "{}", paint(STRONG, line));
            }
        }
        let (sheet, left_out) = fitting(table.clone(), width);
        out.push_str(&sheet.render(width));
        out.push('\n');
        out.push_str(&left_out_words(&left_out, width));
        for verdict in verdicts.iter().filter(|verdict| verdict.condition == table.condition) {
            out.push_str(&sentence(verdict, width));
        }
    }
    out.push_str(&other_conditions(tables.len(), width));
    for line in reports::looks_in_words(&rows.plan).iter().flat_map(|words| fold(words, width)) {
        let _ = writeln!(out, "{}", paint(FAINT, line));
    }
    Ok(out)
}

/// Says that a page has the conditions that the terminal does not show.
fn other_conditions(conditions: usize, width: usize) -> String {
    let Some(more) = conditions.checked_sub(MOST_CONDITIONS).filter(|more| *more > 0) else {
        return String::new();
    };
    let text = format!(
        "and {} more: a page has them all (`bakeoff report`, or `-o` of `bakeoff compare`)",
        human::count(more, "condition")
    );
    fold(&text, width).into_iter().fold("\n".to_owned(), |out, line| out + &paint(FAINT, &line) + "\n")
}

/// Columns that go where the terminal is too narrow, the least telling first; the page has them all.
const SPARE: [&str; 9] = [
    "throughput",
    "tail",
    "typical step",
    "steps to target",
    "sent/step",
    "waiting",
    "reached",
    "sure",
    "step time",
];

/// A table with as many columns as fit, and the names of the others.
fn fitting(mut table: ArmTable, width: usize) -> (Sheet, Vec<String>) {
    let mut left_out = Vec::new();
    for name in SPARE {
        let whole = sheet(&table);
        if whole.natural_width() <= width {
            return (whole, left_out);
        }
        if let Some(place) = table.columns.iter().position(|column| column == name) {
            left_out.push(table.columns.remove(place));
            for row in &mut table.rows {
                row.remove(place);
            }
        }
    }
    (sheet(&table), left_out)
}

/// The columns that a narrow terminal has no room for.
fn left_out_words(names: &[String], width: usize) -> String {
    if names.is_empty() {
        return String::new();
    }
    let text = format!("on the page, or on a wider terminal: {}", names.join(", "));
    fold(&text, width).into_iter().map(|line| paint(FAINT, &line) + "\n").collect()
}

fn sheet(table: &ArmTable) -> Sheet {
    let head: Vec<&str> = table.columns.iter().map(String::as_str).collect();
    let last = head.len().saturating_sub(1);
    let numbers: Vec<usize> = (1..last).collect();
    let mut sheet = Sheet::new(&head).right(&numbers);
    for row in &table.rows {
        let cells = row.iter().enumerate().map(|(column, text)| match column {
            0 => Cell::styled(STRONG, text),
            column if column == last => Cell::styled(label_style(text), text),
            _ => Cell::styled(PLAIN, text),
        });
        sheet.row(cells.collect());
    }
    sheet
}

/// The style of a grade's words, with or without a loss of quality.
fn label_style(label: &str) -> Style {
    for grade in Grade::ALL {
        for quality in [None, Some(Quality::Worse)] {
            if grade.label(quality) == label {
                return grade_style(Some(grade), quality);
            }
        }
    }
    FAINT
}

fn grade_style(grade: Option<Grade>, quality: Option<Quality>) -> Style {
    match grade {
        Some(grade) if grade.is_faster() && quality.is_some_and(Quality::is_lost) => ODD,
        Some(Grade::Faster | Grade::FasterSmall | Grade::FasterOpen) => GOOD,
        Some(Grade::NoDifference) | None => PLAIN,
        Some(Grade::Open | Grade::SlowerSmall | Grade::SlowerOpen | Grade::Slower) => ODD,
        Some(Grade::DidNotReach | Grade::Diverged) => BAD,
    }
}

/// A verdict as a paragraph, its mark in the colour of its grade.
fn sentence(verdict: &Verdict, width: usize) -> String {
    let mark = paint(grade_style(verdict.grade, verdict.quality), "*");
    let lines = fold(&verdict.sentence, width.saturating_sub(2));
    let mut out = String::new();
    for (place, line) in lines.iter().enumerate() {
        let lead = if place == 0 { mark.as_str() } else { " " };
        let _ = writeln!(out, "{lead} {line}");
    }
    out
}

/// Runs that failed or were degraded: the rank, the reason, and its last log lines.
pub(crate) fn troubles(rows: &SweepRows, width: usize) -> String {
    let bad: Vec<&RunRow> = rows
        .runs
        .iter()
        .filter(|run| {
            // A search tries settings that are too large, and the page tells which.
            let given_up = run.state == RunState::Diverged && rows.plan.is_of_a_rung(run.cell);
            !given_up
                && !run.is_as_ordered()
                && matches!(
                    run.state,
                    RunState::Failed | RunState::TimedOut | RunState::Diverged | RunState::Degraded
                )
        })
        .collect();
    let mut out = String::new();
    for run in bad.iter().take(MOST_FAILURES) {
        let label = &rows.plan.cells[run.cell].label;
        let state = paint(state_style(run.state), run.state.name());
        let _ = writeln!(out, "{state}: {label}, repeat {} (run {})", run.repeat + 1, short(&run.id));
        let Some(attempt) = &run.attempt else { continue };
        for line in fold(&attempt.detail, width.saturating_sub(2)) {
            let _ = writeln!(out, "  {line}");
        }
        let skip = attempt.last_lines.len().saturating_sub(LOG_LINES);
        for line in attempt.last_lines.iter().skip(skip) {
            let cut: String = line.chars().take(width.saturating_sub(4)).collect();
            let _ = writeln!(out, "  {}", paint(FAINT, format!("| {cut}")));
        }
    }
    if bad.len() > MOST_FAILURES {
        let rest = bad.len() - MOST_FAILURES;
        let _ =
            writeln!(out, "and {rest} more: bakeoff list \"last and not (state=done or state=not-needed)\"");
    }
    out.trim_end().to_owned()
}

/// The one thing that is most worth doing now.
fn next(rows: &SweepRows, page: &Path) -> String {
    let of = |state: RunState| rows.runs.iter().find(|run| run.state == state && !run.is_as_ordered());
    if let Some(run) = of(RunState::Failed) {
        return format!("bakeoff logs {}", short(&run.id));
    }
    if of(RunState::Interrupted).or(of(RunState::Pending)).is_some() {
        // Without the option, runs that finished before count again.
        let what = if rows.argv.iter().any(|word| word == "--fresh") {
            "takes runs that finished before; `--fresh` makes all anew"
        } else {
            "continues where this one stopped"
        };
        return format!("{}   ({what})", again(&rows.argv));
    }
    if of(RunState::Degraded).is_some() {
        return format!("{}   (trains again what lost a rank)", again(&rows.argv));
    }
    format!("open {}", page.display())
}

/// The command line that resumes: the same without `--fresh`, so that finished runs are kept.
pub(crate) fn again(argv: &[String]) -> String {
    let words = argv.iter().skip(1).filter(|word| *word != "--fresh").map(|word| output::shell_word(word));
    std::iter::once("bakeoff".to_owned()).chain(words).collect::<Vec<_>>().join(" ")
}

/// 5 where runs failed, diverged, lost a rank, missed their target, or were left by a time budget.
pub(crate) fn exit(rows: &SweepRows) -> Exit {
    let short = rows.runs.iter().any(|run| fell_short(rows, run)) || searched_in_vain(rows);
    if short { Exit::Short } else { Exit::Done }
}

/// Whether an arm that searched for its settings has none left.
fn searched_in_vain(rows: &SweepRows) -> bool {
    let Some(search) = &rows.plan.search else { return false };
    let needed: BTreeSet<usize> =
        rows.runs.iter().filter(|run| run.state != RunState::NotNeeded).map(|run| run.cell).collect();
    search.groups(&rows.plan).iter().any(|group| !group.iter().any(|trial| needed.contains(&trial.cell)))
}

pub(crate) fn fell_short(rows: &SweepRows, run: &RunRow) -> bool {
    let target = rows.plan.cells[run.cell].spec.train.target;
    let in_rung = rows.plan.is_of_a_rung(run.cell);
    match run.state {
        // A rung is too short for the target, and a search tries rates that are too large.
        RunState::Done | RunState::Diverged if in_rung => false,
        // As good as done, but without what it would have reached.
        RunState::Failed if run.is_as_ordered() => target.is_some(),
        RunState::Failed
        | RunState::TimedOut
        | RunState::Interrupted
        | RunState::Pending
        // No script may take a diverged sweep for a good one.
        | RunState::Diverged => true,
        // Left out of the comparison.
        RunState::Degraded if !run.is_as_ordered() => true,
        RunState::NotNeeded => false,
        RunState::Running | RunState::Done | RunState::Degraded => target.is_some_and(|target| {
            let reached = |attempt: &store::AttemptRow| {
                attempt.metrics.iter().any(|row| {
                    let in_time = target.after.is_none_or(|after| u128::from(row.at.0) <= after.as_nanos());
                    row.metric == target.metric && in_time && target.reached(row.value)
                })
            };
            !run.attempt.as_ref().is_some_and(reached)
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::{again, fell_short};
    use reports::sample::Sample;
    use store::RunState;

    #[test]
    fn a_run_that_diverged_falls_short_with_and_without_a_target() {
        for target in [None, Sample::duel().target] {
            let mut rows = Sample { target, ..Sample::duel() }.rows();
            assert!(!fell_short(&rows, &rows.runs[0]));
            rows.runs[0].state = RunState::Diverged;
            assert!(fell_short(&rows, &rows.runs[0]));
        }
    }

    #[test]
    fn what_a_recipe_orders_is_no_trouble_but_reaches_no_target() {
        for (state, with_target) in [(RunState::Failed, true), (RunState::Degraded, false)] {
            for target in [None, Sample::duel().target] {
                let mut rows = Sample { target, ..Sample::duel() }.rows();
                rows.runs[0].state = state;
                assert!(fell_short(&rows, &rows.runs[0]));
                rows.runs[0].attempt.as_mut().unwrap().as_ordered = true;
                assert_eq!(fell_short(&rows, &rows.runs[0]), target.is_some() && with_target, "{state:?}");
                assert_eq!(super::troubles(&rows, 80), "");
            }
        }
    }

    #[test]
    fn columns_without_room_are_named() {
        let table = super::ArmTable {
            condition: String::new(),
            columns: ["arm", "time to target", "step time", "verdict"].map(String::from).to_vec(),
            rows: vec![["d-sync", "1.2 s", "3 ms", "faster"].map(String::from).to_vec()],
        };
        let (sheet, left_out) = super::fitting(table.clone(), 30);
        assert!(sheet.natural_width() <= 35);
        assert_eq!(left_out, ["step time"]);
        assert!(super::left_out_words(&left_out, 80).contains("step time"));
        assert_eq!(super::left_out_words(&super::fitting(table, 80).1, 80), "");
    }

    #[test]
    fn the_command_that_goes_on_can_be_pasted_into_a_shell() {
        let argv =
            ["/bin/bakeoff", "run", "my recipe.toml", "--fresh", "--only", "a == 'b'"].map(String::from);
        assert_eq!(again(&argv), r"bakeoff run 'my recipe.toml' --only 'a == '\''b'\'''");
    }
}
