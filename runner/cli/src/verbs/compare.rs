//! `bakeoff compare`: two selections of runs against each other, for people and for scripts that watch over a speed.

use crate::args::TableFormat;
use crate::context::Context;
use crate::differences::{self, Difference};
use crate::ending;
use crate::exit::{Exit, Failure};
use crate::output::paint::{FAINT, ODD, PLAIN, STRONG, paint};
use crate::output::{self, human};
use crate::page;
use crate::reuse::short;
use anstyle::Style;
use clap::{Args, ValueEnum, ValueHint};
use recipe::parse_share;
use reports::{Grade, Joined, Options, Quality, Side, Verdict, joined};
use serde_json::json;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use store::{RunRow, Selection, Store, StoreError, SweepRows};

/// Shown at the end of the verb's help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  bakeoff compare last~1 last                      today's sweep with the one before
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
    /// What speed is; by default the time to the recipe's target, without one the time of a step.
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

/// What speed is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum CompareMetric {
    /// The time until the recipe's target is reached.
    TimeToTarget,
    /// The mean time of a step.
    StepTime,
}

/// What a script can be warned of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
enum Fault {
    /// B is slower by more than the smallest difference that matters, misses the target, or diverges.
    Slower,
    /// The runs do not tell whether B is slower by that much, or B has no such runs.
    Uncertain,
    /// B's final metric is worse, and not surely by less than `report.min-quality`, or is not known; or B diverges.
    Worse,
}

impl Fault {
    const ALL: [Self; 3] = [Self::Slower, Self::Uncertain, Self::Worse];

    fn name(self) -> &'static str {
        match self {
            Self::Slower => "slower",
            Self::Uncertain => "uncertain",
            Self::Worse => "worse",
        }
    }

    /// Whether it is so of an arm.
    fn is_of(self, found: &Compared, verdict: &Verdict, low: Option<f64>) -> bool {
        match self {
            Self::Slower => match verdict.grade {
                Some(Grade::DidNotReach | Grade::Diverged) => found.falls_short_more(&verdict.condition),
                grade => grade == Some(Grade::Slower),
            },
            Self::Uncertain => {
                let edge = 1.0 / (1.0 + found.joined.rows.plan.report.min_effect);
                let surely_not_slower = low.is_some_and(|low| low > edge);
                matches!(verdict.grade, None | Some(Grade::Open | Grade::SlowerOpen)) && !surely_not_slower
            }
            Self::Worse => {
                let unknown = verdict.quality.is_none() && !found.stops(&verdict.condition);
                unknown
                    || verdict.quality.is_some_and(Quality::is_lost)
                    || verdict.grade == Some(Grade::Diverged)
            }
        }
    }
}

fn effect(text: &str) -> Result<f64, String> {
    let share = parse_share(text).filter(|share| (0.0..1.0).contains(share));
    share.ok_or_else(|| "write a share below one, as in `5%` or `0.05`".to_owned())
}

/// Compares.
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

/// One side as it was found.
struct Found {
    selection: Selection,
    rows: SweepRows,
}

struct Compared {
    /// Their names as arms.
    names: [String; 2],
    sides: [Found; 2],
    joined: Joined,
}

impl Compared {
    async fn of(args: &CompareArgs, context: &Context<'_>) -> Result<Self, Failure> {
        let store = Store::open_existing(&context.global.store).await?;
        let sides = [found(&store, &args.first).await?, found(&store, &args.second).await?];
        let names = names(&sides);
        let by_step = args.metric == Some(CompareMetric::StepTime);
        let side = |number: usize| Side { name: &names[number], rows: &sides[number].rows };
        let mut joined = joined([side(0), side(1)], by_step)?;
        if args.metric == Some(CompareMetric::TimeToTarget) {
            has_target(&joined)?;
        }
        joined.rows.plan.report.min_effect = args.min_effect.unwrap_or(joined.rows.plan.report.min_effect);
        // The command that makes this page again, as long as the store has no newer sweep.
        joined.rows.argv = std::env::args().collect();
        let compared = Self { names, sides, joined };
        if let Some(file) = &args.output {
            compared.write(&store, file, context).await?;
        }
        store.close().await;
        Ok(compared)
    }

    /// Writes a page of both sides.
    async fn write(&self, store: &Store, file: &Path, context: &Context<'_>) -> Result<(), Failure> {
        let texts = self.sides.each_ref().map(|side| side.selection.to_string());
        let either = texts.iter().filter(|text| !text.trim().is_empty()).map(|text| format!("({text})"));
        let selection = Selection::parse(&either.collect::<Vec<_>>().join(" or "))?;
        let options = Options { remarks: self.remarks(), ..page::options() };
        let content = page::Content { rows: &self.joined.rows, selection: &selection, options: &options };
        page::write(store, &content, file, context.console).await
    }

    fn verdicts(&self) -> Result<Vec<Verdict>, Failure> {
        Ok(reports::verdicts(&self.joined.rows, &page::options())?)
    }

    /// Whether all runs of a condition stop at the target, so that no final metric is compared.
    fn stops(&self, condition: &str) -> bool {
        let mut own = self.joined.rows.plan.cells.iter().filter(|cell| cell.condition == condition);
        own.all(|cell| cell.spec.train.target.is_some_and(|target| target.stop))
    }

    /// Whether a larger part of the second side's runs fell short than of the first one's.
    fn falls_short_more(&self, condition: &str) -> bool {
        let rows = &self.joined.rows;
        let part = |side: usize| {
            let of_side = |run: &&RunRow| {
                let cell = &rows.plan.cells[run.cell];
                cell.arm == side && cell.condition == condition
            };
            let runs: Vec<&RunRow> = rows.runs.iter().filter(of_side).collect();
            let short = runs.iter().filter(|run| ending::fell_short(rows, run)).count();
            short as f64 / runs.len().max(1) as f64
        };
        part(1) > part(0)
    }

    /// What is so of any arm, and where, in the order of the faults. One claim is made of all conditions, so that each of them is tested
    /// at its part of the level (Bonferroni).
    fn faults(&self, wanted: &[Fault]) -> Result<Vec<(Fault, Vec<String>)>, Failure> {
        let mut rows = self.joined.rows.clone();
        let doubt = 1.0 - rows.plan.report.confidence;
        rows.plan.report.confidence = 1.0 - doubt / self.joined.pairs.len().max(1) as f64;
        let strict = reports::verdicts(&rows, &page::options())?;
        let usual = self.verdicts()?;
        let measured = reports::verdict_rows(&self.joined.rows, &page::options())?;
        let low = |verdict: &Verdict| {
            let mut own = measured.iter().filter(|row| row.condition == verdict.condition && row.decides);
            own.next().and_then(|row| row.low)
        };
        let mut found = Vec::new();
        for fault in Fault::ALL.into_iter().filter(|fault| wanted.contains(fault)) {
            let verdicts = if fault == Fault::Uncertain { &usual } else { &strict };
            let of_fault = verdicts
                .iter()
                .filter(|verdict| !verdict.baseline && fault.is_of(self, verdict, low(verdict)));
            let mut cells: Vec<String> = of_fault
                .map(|verdict| {
                    if verdict.condition.is_empty() { &verdict.arm } else { &verdict.condition }.clone()
                })
                .collect();
            if fault == Fault::Uncertain {
                cells.extend(self.joined.alone[0].iter().cloned());
            }
            if !cells.is_empty() {
                found.push((fault, cells));
            }
        }
        Ok(found)
    }

    /// The settings in which the sides differ, each once.
    fn differences(&self) -> Vec<Difference> {
        let mut all: Vec<Difference> = Vec::new();
        let [first, second] = &self.sides;
        for [one, other] in &self.joined.pairs {
            let specs = [&first.rows.plan.cells[*one].spec, &second.rows.plan.cells[*other].spec];
            for difference in differences::of_specs(specs[0], specs[1]) {
                if !all.contains(&difference) {
                    all.push(difference);
                }
            }
        }
        all
    }

    /// What is compared with what, and what differs beside it, with the style of each.
    fn facts(&self) -> Vec<(Style, String)> {
        let side = |(name, side): (&String, &Found)| (PLAIN, format!("{name}: {}", described(side)));
        let mut facts: Vec<(Style, String)> = self.names.iter().zip(&self.sides).map(side).collect();
        let told: Vec<String> = self.differences().iter().map(Difference::words).collect();
        if !told.is_empty() {
            facts.push((PLAIN, format!("settings: {}", told.join("; "))));
        }
        for (alone, name) in self.joined.alone.iter().zip(&self.names).filter(|(alone, _)| !alone.is_empty())
        {
            facts.push((FAINT, format!("not compared, because {name} alone has it: {}", alone.join(", "))));
        }
        facts.extend(self.joined.doubts.iter().map(|doubt| (ODD, doubt.clone())));
        facts
    }

    /// What the page says below its headline; nothing of a user's text where names are to be left out.
    fn remarks(&self) -> Vec<String> {
        if self.joined.rows.plan.report.redact.is_empty() {
            self.facts().into_iter().map(|(_, text)| text).collect()
        } else {
            self.joined.doubts.clone()
        }
    }

    fn words(&self, width: usize) -> Result<String, Failure> {
        let mut out = String::new();
        for (style, text) in self.facts() {
            for line in output::fold(&text, width) {
                let _ = writeln!(out, "{}", paint(style, line));
            }
        }
        let results = ending::results(&self.joined.rows, &page::options(), width)?;
        Ok(out + results.trim_end())
    }

    fn document(&self) -> Result<serde_json::Value, Failure> {
        let side = |number: usize| {
            json!({
                "name": self.names[number],
                "selection": self.sides[number].selection.to_string(),
                "sweep": self.sides[number].rows.id,
                "alone": self.joined.alone[number],
            })
        };
        let setting = |difference: Difference| json!({ "key": difference.key, "first": difference.before, "second": difference.now });
        let faults = self
            .faults(&Fault::ALL)?
            .into_iter()
            .map(|(fault, cells)| (fault.name().to_owned(), json!(cells)));
        Ok(json!({
            "first": side(0),
            "second": side(1),
            "settings": self.differences().into_iter().map(setting).collect::<Vec<_>>(),
            "doubts": self.joined.doubts,
            "verdicts": reports::verdict_rows(&self.joined.rows, &page::options())?,
            "faults": faults.collect::<serde_json::Map<_, _>>(),
        }))
    }
}

async fn found(store: &Store, text: &str) -> Result<Found, Failure> {
    let selection = Selection::parse(text)?;
    let rows = store.sweep_rows(&selection).await?;
    if rows.runs.is_empty() {
        return Err(StoreError::Empty { selection: text.to_owned() }.into());
    }
    Ok(Found { selection, rows })
}

/// That of their only arms where these differ, else what the user wrote if it is short, else letters.
fn names(sides: &[Found; 2]) -> [String; 2] {
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

/// `5 runs of quickstart, begun 2026-11-26 07:00, bakeoff 0.1.0, commit 1632f3a8`.
fn described(side: &Found) -> String {
    let rows = &side.rows;
    let mut out = format!(
        "{} of {} (sweep {}), begun {}, bakeoff {}",
        human::count(reports::made(rows), "run"),
        rows.plan.name,
        short(&rows.id),
        human::moment(rows.started),
        rows.version
    );
    if let Some((commit, changed)) = &rows.commit {
        let _ = write!(
            out,
            ", commit {}{}",
            commit.get(..12).unwrap_or(commit),
            if *changed { " with changes" } else { "" }
        );
    }
    out
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
    use store::RunState;

    /// A sweep, and the same a day later with what `change` makes of each run of its second arm.
    fn compared(sample: &Sample, change: impl Fn(&mut RunRow)) -> Compared {
        let before = sample.rows();
        let mut after = before.clone();
        for run in &mut after.runs {
            run.id = format!("later-{}", run.id);
            let attempt = run.attempt.as_mut().unwrap();
            attempt.started += 86_400;
            attempt.wall = attempt.wall.map(|wall| Nanos(wall.0 + 1));
            if before.plan.cells[run.cell].arm == 1 {
                change(run);
            }
        }
        let found = |text: &str, rows: SweepRows| Found { selection: Selection::parse(text).unwrap(), rows };
        let sides = [found("last~1", before), found("last", after)];
        let names = names(&sides);
        let side = |number: usize| Side { name: &names[number], rows: &sides[number].rows };
        let joined = joined([side(0), side(1)], false).unwrap();
        Compared { names, sides, joined }
    }

    fn faults(compared: &Compared) -> Vec<Fault> {
        compared.faults(&Fault::ALL).unwrap().into_iter().map(|(fault, _)| fault).collect()
    }

    fn plain() -> Sample {
        Sample { target: None, ..Sample::duel() }
    }

    /// Times of steps that are `times` as long, and from run to run a little more or less.
    fn slower(times: f64, spread: f64) -> impl Fn(&mut RunRow) {
        move |run| {
            let wobble = 1.0 + spread * (f64::from(run.repeat) - 2.0);
            let attempt = run.attempt.as_mut().unwrap();
            attempt.weights = None;
            for time in [&mut attempt.mean_step_time, &mut attempt.step_time] {
                *time = time.map(|time| Nanos((time.0 as f64 * times * wobble) as u64));
            }
        }
    }

    #[test]
    fn a_gate_fails_at_what_it_is_told_and_at_nothing_else() {
        assert_eq!(faults(&compared(&plain(), |_| ())), []);
        assert_eq!(faults(&compared(&plain(), slower(1.2, 0.01))), [Fault::Slower]);
        assert_eq!(faults(&compared(&plain(), slower(0.8, 0.01))), []);
        // Too wide to tell; and wide, but surely not slower by what matters.
        assert_eq!(faults(&compared(&plain(), slower(1.05, 0.1))), [Fault::Uncertain]);
        assert_eq!(faults(&compared(&plain(), slower(0.8, 0.04))), []);
    }

    #[test]
    fn an_arm_that_diverged_is_slower_and_worse_unless_it_did_before() {
        let diverged = compared(&plain(), |run| run.state = RunState::Diverged);
        assert_eq!(faults(&diverged), [Fault::Slower, Fault::Worse]);
        let mut compared = compared(&plain(), |run| run.state = RunState::Diverged);
        for run in &mut compared.joined.rows.runs {
            run.state = RunState::Diverged;
        }
        assert_eq!(faults(&compared), [Fault::Worse]);
    }

    #[test]
    fn what_is_not_known_of_quality_is_worse_and_what_is_missing_uncertain() {
        let silent = compared(&plain(), |run| {
            let attempt = run.attempt.as_mut().unwrap();
            (attempt.weights, attempt.metrics) = (None, Vec::new());
        });
        assert!(faults(&silent).contains(&Fault::Worse));
        let mut fewer = compared(&plain(), |_| ());
        fewer.joined.alone[0].push("d-sync workers=8".to_owned());
        let found = fewer.faults(&[Fault::Uncertain]).unwrap();
        assert_eq!(found, [(Fault::Uncertain, vec!["d-sync workers=8".to_owned()])]);
    }

    /// A difference that is sure by itself, and not as one of ten.
    #[test]
    fn all_conditions_are_one_claim() {
        let close = slower(1.08, 0.009);
        let one = compared(&plain(), &close);
        let many = compared(&Sample { workers: (2..12).collect(), ..plain() }, |run| {
            if run.index % 10 < 2 {
                close(run);
            }
        });
        let slower = |compared: &Compared| {
            let found = compared.verdicts().unwrap();
            let graded = found.iter().filter(|verdict| verdict.grade == Some(Grade::Slower)).count();
            (graded, compared.faults(&[Fault::Slower]).unwrap().len())
        };
        assert_eq!((slower(&one), slower(&many)), ((1, 1), (2, 0)));
    }

    #[test]
    fn a_page_without_names_has_the_doubts_alone() {
        let mut compared = compared(&plain(), slower(1.2, 0.01));
        let all = compared.remarks();
        assert!(
            all[0].starts_with("last~1: 10 runs of ") && all.len() > compared.joined.doubts.len(),
            "{all:?}"
        );
        compared.joined.rows.plan.report.redact.push(recipe::Redaction::Hosts);
        assert_eq!(compared.remarks(), compared.joined.doubts);
    }
}
