//! `bakeoff compare`: two selections of runs against each other, for people and for scripts that watch over a speed.

mod gate;
mod words;

use crate::args::TableFormat;
use crate::context::Context;
use crate::exit::{Exit, Failure};
use crate::output;
use crate::output::paint::{STRONG, paint};
use crate::page;
use crate::selected::{Selected, any_of};
use clap::{Args, ValueEnum, ValueHint};
use gate::Fault;
use recipe::{Provenance, parse_share};
use reports::{Joined, Options, Side, TimedBy, Verdict, joined};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use store::{Store, SweepRows};

/// Shown at the end of the verb's help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  bakeoff compare last~1 last                      today's with the one before
  bakeoff compare last~1 last --fail-if slower     for scripts: exit code 6
  bakeoff compare \"last and arm=ps-sync\" \"last and arm=d-sync\"
  bakeoff compare last~1 last --metric step-time --min-effect 10% -o page.html

A is the baseline. Arms are compared with themselves, under each condition that
both sides have; where each side has one arm, that with the other. The rule is
that of the page: runs in pairs by their seeds, and a difference counts if it is
surely beyond --min-effect; --fail-if tests all conditions as one claim. What
changed on the machine between two sweeps counts as a difference: for a gate,
run both versions in turn. Runs that were taken from an earlier sweep have its
numbers; `bakeoff run RECIPE --fresh` measures again.";

/// Arguments of `compare`.
#[derive(Debug, Args)]
pub(crate) struct CompareArgs {
    /// The runs of one sweep that are the baseline.
    #[arg(value_name = "A")]
    first: String,
    /// The runs of one sweep that are compared with them.
    #[arg(value_name = "B")]
    second: String,
    /// Measure of speed; by default the time to the recipe's target, without one the time of a step.
    #[arg(long, value_name = "NAME")]
    metric: Option<CompareMetric>,
    /// The smallest difference that matters, as in `5%`; by default the recipe's `report.min-effect`.
    #[arg(long, value_name = "SHARE", value_parser = effect)]
    min_effect: Option<f64>,
    /// End with exit code 6 if this is so of any arm under any condition; may be several.
    #[arg(long, value_name = "WHAT", value_delimiter = ',')]
    fail_if: Vec<Fault>,
    /// File of a page of both.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    output: Option<PathBuf>,
    /// A table for people, or JSON for programs.
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    format: TableFormat,
}

/// Measure of speed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum CompareMetric {
    /// The time until the recipe's target is reached.
    TimeToTarget,
    /// The mean time of a step.
    StepTime,
}

fn effect(text: &str) -> Result<f64, String> {
    let share = parse_share(text).filter(|share| (0.0..1.0).contains(share));
    share.ok_or_else(|| "write a share below one, as in `5%` or `0.05`".to_owned())
}

/// Compares B with A, and prints the result before any condition of `--fail-if` that is met.
pub(crate) fn execute(args: &CompareArgs, context: &Context<'_>) -> Result<Exit, Failure> {
    if let Some(file) = &args.output {
        page::prepare(file)?;
    }
    let compared = super::wait(Compared::of(args, context))?;
    let broken = compared.faults(&args.fail_if)?;
    let said = match args.format {
        TableFormat::Table => output::data(&compared.words(output::width())?),
        TableFormat::Json => output::json(&compared.document()?),
    };
    match said {
        // A reader that has seen enough does not change what was found.
        Ok(()) | Err(Failure::Told(_)) => {}
        Err(failure) => return Err(failure),
    }
    for (fault, cells) in &broken {
        let cells = cells.join(", ");
        context.console.error(&format!("{}: {cells}", fault.name()), "");
    }
    if let (TableFormat::Table, Some(file)) = (args.format, &args.output) {
        // As above.
        let _ = output::data(&format!("\n{} {}", paint(STRONG, "page:"), file.display()));
    }
    Ok(if broken.is_empty() { Exit::Done } else { Exit::Broken })
}

struct Compared {
    /// Their names as arms.
    names: [String; 2],
    sides: [Selected; 2],
    joined: Joined,
    /// What decides numbers beside the settings, and is another on each side: `data`, `worker program`.
    surroundings: Vec<&'static str>,
}

/// The parts of the provenances that differ; none where one side recorded none.
fn differing_surroundings(before: &[Provenance], now: &[Provenance]) -> Vec<&'static str> {
    type Part = fn(&Provenance) -> &String;
    let parts: [(&str, Part); 2] = [("data", |found| &found.data), ("worker program", |found| &found.worker)];
    let differs = |(_, part): &(&str, Part)| {
        let [before, now] = [before, now].map(|all| all.iter().map(part).collect::<BTreeSet<_>>());
        !before.is_empty() && !now.is_empty() && before != now
    };
    parts.into_iter().filter(differs).map(|(name, _)| name).collect()
}

impl Compared {
    async fn of(args: &CompareArgs, context: &Context<'_>) -> Result<Self, Failure> {
        let store = Store::open_existing(&context.global.store).await?;
        let sides = [Selected::of(&store, &args.first).await?, Selected::of(&store, &args.second).await?];
        let names = names(&sides);
        let by_step = args.metric == Some(CompareMetric::StepTime);
        let timed_by = if by_step { TimedBy::Step } else { TimedBy::Recipe };
        let side = |number: usize| Side { name: &names[number], rows: &sides[number].rows };
        let mut joined = joined([side(0), side(1)], timed_by)?;
        if args.metric == Some(CompareMetric::TimeToTarget) {
            has_target(&joined)?;
        }
        joined.rows.plan.report.min_effect = args.min_effect.unwrap_or(joined.rows.plan.report.min_effect);
        // The command that makes this page again, as long as the store has no newer sweep.
        joined.rows.argv = std::env::args().collect();
        let surroundings = differing_surroundings(
            &store.provenances(&sides[0].rows.id).await?,
            &store.provenances(&sides[1].rows.id).await?,
        );
        let compared = Self { names, sides, joined, surroundings };
        if let Some(file) = &args.output {
            compared.write(&store, file, context).await?;
        }
        store.close().await;
        Ok(compared)
    }

    /// Writes a page of both sides.
    async fn write(&self, store: &Store, file: &Path, context: &Context<'_>) -> Result<(), Failure> {
        let selection = any_of(self.sides.iter().map(|side| &side.selection))?;
        let options = Options { remarks: self.remarks(), ..page::options() };
        let content = page::Content { rows: &self.joined.rows, selection: &selection, options: &options };
        page::write(store, &content, file, context.console).await
    }

    fn verdicts(&self) -> Result<Vec<Verdict>, Failure> {
        Ok(reports::verdicts(&self.joined.rows, &page::options())?)
    }
}

/// That of their only arms where these differ, else what the user wrote if it is short, else letters.
fn names(sides: &[Selected; 2]) -> [String; 2] {
    const LONGEST: usize = 24;
    let [first, second] = sides;
    if let (Some(one), Some(other)) = (only_arm(&first.rows), only_arm(&second.rows))
        && one != other
    {
        return [one.to_owned(), other.to_owned()];
    }
    let texts = [first.selection.to_string(), second.selection.to_string()];
    let plain = texts.iter().all(|text| (1..=LONGEST).contains(&text.trim().chars().count()));
    if plain && texts[0] != texts[1] { texts } else { ["A", "B"].map(str::to_owned) }
}

fn only_arm(rows: &SweepRows) -> Option<&str> {
    let arms: BTreeSet<usize> = rows.runs.iter().map(|run| rows.plan.cells[run.cell].arm).collect();
    let arm = arms.first().filter(|_| arms.len() == 1)?;
    rows.plan.arms.get(*arm).map(|arm| arm.name.as_str())
}

/// Without a target there is no time to it.
fn has_target(joined: &Joined) -> Result<(), Failure> {
    let without = joined.rows.plan.cells.iter().find(|cell| cell.spec.train.target.is_none());
    without.map_or(Ok(()), |cell| {
        Err(Failure::new(Exit::Usage, format!("{} has no target", cell.label))
            .cure("compare the time of a step: `--metric step-time`"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::Nanos;
    use reports::sample::Sample;
    use store::{RunRow, Selection};

    /// A sweep, and the same a day later with what `change` makes of each run of its second arm.
    pub(super) fn compared(sample: &Sample, change: impl Fn(&mut RunRow)) -> Compared {
        compared_rows(sample.rows(), change)
    }

    pub(super) fn compared_rows(before: SweepRows, change: impl Fn(&mut RunRow)) -> Compared {
        let mut after = before.clone();
        for run in &mut after.runs {
            run.id = format!("later-{}", run.id);
            let Some(attempt) = &mut run.attempt else { continue };
            attempt.started += 86_400;
            attempt.wall = attempt.wall.map(|wall| Nanos(wall.0 + 1));
            if before.plan.cells[run.cell].arm == 1 {
                change(run);
            }
        }
        let found =
            |text: &str, rows: SweepRows| Selected { selection: Selection::parse(text).unwrap(), rows };
        let sides = [found("last~1", before), found("last", after)];
        let names = names(&sides);
        let side = |number: usize| Side { name: &names[number], rows: &sides[number].rows };
        let joined = joined([side(0), side(1)], TimedBy::Recipe).unwrap();
        Compared { names, sides, joined, surroundings: Vec::new() }
    }

    pub(super) fn plain() -> Sample {
        Sample { target: None, ..Sample::duel() }
    }

    /// Times of steps that are `times` as long, and from run to run a little more or less.
    pub(super) fn slower(times: f64, spread: f64) -> impl Fn(&mut RunRow) {
        move |run| {
            let wobble = 1.0 + spread * (f64::from(run.repeat) - 2.0);
            let attempt = run.attempt.as_mut().unwrap();
            attempt.weights = None;
            for time in [&mut attempt.mean_step_time, &mut attempt.step_time] {
                *time = time.map(|time| Nanos((time.0 as f64 * times * wobble) as u64));
            }
        }
    }
}
