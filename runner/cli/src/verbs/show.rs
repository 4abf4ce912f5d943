//! `bakeoff show`: everything about one run.

use crate::context::Context;
use crate::exit::{Exit, Failure};
use crate::output::paint::{STRONG, paint, state_style};
use crate::output::table::{Cell, Sheet};
use crate::output::{self, human};
use clap::{Args, ValueEnum};
use recipe::{Metric, Role};
use record::{Emulated, LaneId, Nanos, Phase};
use std::collections::BTreeMap;
use std::fmt::Write;
use store::{Annotations, AttemptRow, LostRow, MetricRow, RankRow, RunDetail, RunState, Store};

/// Shown at the end of the verb's help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  bakeoff show last              the run that started last
  bakeoff show 4F7K2Q9M          a run, by the end or the beginning of its id
  bakeoff show 4F7K2Q9M --format json | jq .run.attempt.ranks

`bakeoff list` shows the ids.";

/// Arguments of `show`.
#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// The run: `last`, or the beginning or the end of its id.
    run: String,
    /// Words and tables for people, or JSON for programs.
    #[arg(long, value_name = "FORMAT", default_value = "human")]
    format: Format,
}

/// How the run is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people.
    Human,
    /// One JSON document.
    Json,
}

/// Prints one run with all that is known of it.
pub(crate) fn execute(args: &ShowArgs, context: &Context<'_>) -> Result<Exit, Failure> {
    let detail = super::wait(find(args, context))?;
    match args.format {
        Format::Human => output::data(&words(&detail, output::width()))?,
        Format::Json => output::json(&detail)?,
    }
    Ok(Exit::Done)
}

async fn find(args: &ShowArgs, context: &Context<'_>) -> Result<RunDetail, Failure> {
    let store = Store::open_existing(&context.global.store).await?;
    let detail = store.show(&args.run).await?;
    store.close().await;
    Ok(detail)
}

fn words(detail: &RunDetail, width: usize) -> String {
    let line = &detail.line;
    let mut out = String::new();
    let _ = writeln!(
        out,
        "{} {}",
        paint(STRONG, &line.id),
        paint(state_style(line.state), line.state.words(line.as_ordered))
    );
    let condition = if line.condition.is_empty() { "" } else { "  " };
    let mut facts = vec![
        ("recipe", line.recipe.clone()),
        ("arm", format!("{}{condition}{}", line.arm, line.condition)),
        ("repeat", format!("{} (seed {})", line.repeat + 1, detail.run.seed)),
        ("workers", line.spec.cluster.workers().to_string()),
    ];
    facts.extend(line.spec.emulation.words().into_iter().map(|words| ("emulated", words)));
    facts.extend(line.spec.faults.iter().map(|fault| ("fault", fault.to_string())));
    let Annotations { tags, note, imported } = &detail.annotations;
    facts.extend((!tags.is_empty()).then(|| ("tags", tags.join(", "))));
    facts.extend((!note.is_empty()).then(|| ("note", note.clone())));
    facts.extend(imported.map(|time| ("imported", human::moment(time))));
    facts.extend(detail.reused_from.clone().map(|source| ("reused from", source)));
    if let Some(attempt) = &detail.run.attempt {
        facts.extend(attempt_facts(attempt, line.state, line.spec.strategy.parts()));
    }
    for (name, value) in facts {
        // The words of a worker's last error may be anything.
        let value = value.replace(recipe::turns_text, " ");
        let _ = writeln!(out, "  {name:<14}{value}");
    }
    if let Some(attempt) = &detail.run.attempt {
        for (title, table) in tables(attempt) {
            let _ = write!(out, "\n{}\n{}", paint(STRONG, title), table.render(width));
        }
    }
    let _ = write!(out, "\n{}\n{}", paint(STRONG, "attempts"), attempts(detail).render(width));
    out
}

fn attempt_facts(attempt: &AttemptRow, state: RunState, parts: u32) -> Vec<(&'static str, String)> {
    let mut facts = vec![("started", human::moment(attempt.started))];
    facts.extend(attempt.wall.map(|time| ("wall time", human::time(time))));
    facts.extend(attempt.training.map(|time| ("training", human::time(time))));
    facts.extend(attempt.step_time.map(|time| ("step time", human::time(time))));
    facts.extend(attempt.mean_step_time.map(|time| ("mean step", human::time(time))));
    let kept = match attempt.step_stride {
        1 => String::new(),
        stride => format!(", every {stride}th of them kept, the slowest, and those with extreme losses"),
    };
    facts.push(("steps", format!("{}{kept}", human::thousands(attempt.steps))));
    facts.extend(attempt.traced_steps.map(|traced| {
        let recorded = human::count(usize::try_from(traced).unwrap_or(usize::MAX), "step");
        ("spans", format!("recorded in {recorded}, kept of those that a timeline shows"))
    }));
    facts.push(("samples", human::thousands(attempt.samples)));
    match &attempt.weights {
        Some(Ok(digest)) => {
            let said: Vec<u32> = attempt.ranks.iter().filter_map(|rank| rank.replica_group).collect();
            let is_one_set = said.iter().all(|group| said.first() == Some(group));
            let whose = match parts {
                1 if said.is_empty() || is_one_set && said.len() == attempt.ranks.len() => {
                    "on all ranks".to_owned()
                }
                1 => "on the first ranks that the strategy names".to_owned(),
                parts => format!("of the model that {parts} parts make"),
            };
            let is_whole = matches!(state, RunState::Done | RunState::Degraded | RunState::Diverged);
            let when = if is_whole { "" } else { " when they were last compared, before its end" };
            facts.push(("weights", format!("{} {whose}{when}", digest.get(..16).unwrap_or(digest))));
        }
        Some(Err(lines)) => facts.push(("weights", format!("differ: {}", lines.join(", ")))),
        None => {}
    }
    if !attempt.detail.is_empty() {
        facts.push(("ended", attempt.detail.clone()));
    }
    for lost in &attempt.lost {
        let LostRow { rank, step, at, .. } = lost;
        let step = if *step == 0 { String::new() } else { format!(" in its step {step}") };
        facts.push(("lost", format!("rank {rank}{step}, {} after the start", human::time(*at))));
    }
    facts
}

fn tables(attempt: &AttemptRow) -> Vec<(&'static str, Sheet)> {
    let mut tables = Vec::new();
    if !attempt.ranks.is_empty() {
        tables.push(("ranks", ranks(attempt)));
        tables.push(("where the time of a step goes (mean over the workers' steady steps)", phases(attempt)));
    }
    if !attempt.metrics.is_empty() {
        tables.push(("evaluations", metrics(attempt)));
    }
    if !attempt.emulation.is_empty() {
        tables.push(("how well the emulation was kept: how late messages and work were", emulation(attempt)));
    }
    tables
}

fn ranks(attempt: &AttemptRow) -> Sheet {
    let mut sheet =
        Sheet::new(&["rank", "role", "threads", "memory", "sent", "received", "end"]).right(&[0, 2, 3, 4, 5]);
    for rank in &attempt.ranks {
        sheet.row(vec![
            rank.rank.to_string().into(),
            rank.role.name().into(),
            rank.threads.to_string().into(),
            human::bytes(rank.resident_bytes).into(),
            human::bytes(rank.bytes_out).into(),
            human::bytes(rank.bytes_in).into(),
            rank.end.as_str().into(),
        ]);
    }
    sheet
}

fn emulation(attempt: &AttemptRow) -> Sheet {
    let head = ["rank", "emulated", "count", "median", "95 %", "most", "steps too long"];
    let mut sheet = Sheet::new(&head).right(&[0, 2, 3, 4, 5, 6]);
    for kept in &attempt.emulation {
        let overruns = match kept.what {
            Emulated::Network => String::new(),
            Emulated::Compute if kept.overruns == 0 => format!("none of {}", human::thousands(kept.steps)),
            Emulated::Compute => format!(
                "{} of {}, by up to {}",
                human::thousands(kept.overruns),
                human::thousands(kept.steps),
                human::time(kept.longest)
            ),
        };
        sheet.row(vec![
            kept.rank.to_string().into(),
            kept.what.name().into(),
            human::thousands(kept.count).into(),
            human::time(kept.p50).into(),
            human::time(kept.p95).into(),
            human::time(kept.max).into(),
            overruns.into(),
        ]);
    }
    sheet
}

/// Mean time per step and its share, by phase, of the workers' compute lanes.
fn phases(attempt: &AttemptRow) -> Sheet {
    let means = phase_means(attempt);
    let workers = attempt.ranks.iter().filter(|rank| rank.role == Role::Worker);
    let [steps, all] =
        workers.fold([0, 0], |[steps, all], rank| [steps + rank.steady.steps, all + rank.steady.time.0]);
    let mut sheet = Sheet::new(&["phase", "per step", "share"]).right(&[1, 2]);
    for (phase, mean) in means.into_iter().filter(|_| all > 0) {
        let share = human::percent(mean.0 as f64 * steps as f64 / all as f64);
        sheet.row(vec![phase.name().into(), human::time(mean).into(), share.into()]);
    }
    sheet
}

/// Mean time per steady step of each phase that the workers' compute lanes were in.
pub(super) fn phase_means(attempt: &AttemptRow) -> Vec<(Phase, Nanos)> {
    let workers: Vec<&RankRow> = attempt.ranks.iter().filter(|rank| rank.role == Role::Worker).collect();
    let steps: u64 = workers.iter().map(|rank| rank.steady.steps).sum();
    let total = |phase: Phase| -> u64 {
        let rows = workers.iter().flat_map(|rank| &rank.phases);
        rows.filter(|row| row.lane == LaneId::Compute && row.phase == phase).map(|row| row.total.0).sum()
    };
    let means = Phase::ALL.into_iter().map(|phase| (phase, total(phase)));
    means
        .filter(|(_, total)| *total > 0 && steps > 0)
        .map(|(phase, total)| (phase, Nanos(total / steps)))
        .collect()
}

/// One row for each model that was looked at, a column for each metric; where there are several at a time, the one
/// that the run is judged by comes first.
fn metrics(attempt: &AttemptRow) -> Sheet {
    let judged = attempt.metrics.iter().map(|row| (row, ""));
    let rows: Vec<(&MetricRow, &str)> =
        judged.chain(attempt.beside.iter().map(|row| (row, " (beside)"))).collect();
    let measured: Vec<Metric> =
        Metric::ALL.into_iter().filter(|metric| rows.iter().any(|(row, _)| row.metric == *metric)).collect();
    let names: Vec<String> = measured.iter().map(|metric| human::metric_name(*metric)).collect();
    let head: Vec<&str> =
        ["time", "step", "epoch", "model"].into_iter().chain(names.iter().map(String::as_str)).collect();
    let mut snapshots: BTreeMap<(Nanos, u64, &str, &str), Vec<&MetricRow>> = BTreeMap::new();
    for (row, beside) in rows {
        snapshots.entry((row.at, row.step, beside, row.model.as_str())).or_default().push(row);
    }
    let mut sheet = Sheet::new(&head).right(&(0..head.len()).filter(|place| *place != 3).collect::<Vec<_>>());
    for ((at, step, beside, model), rows) in snapshots {
        let epoch = rows.first().map_or(0.0, |row| row.epoch);
        let mut cells: Vec<Cell> = vec![
            human::time(at).into(),
            human::thousands(step).into(),
            format!("{epoch:.2}").into(),
            format!("{model}{beside}").into(),
        ];
        cells.extend(measured.iter().map(|metric| {
            let value =
                rows.iter().find(|row| row.metric == *metric).map(|row| human::metric(*metric, row.value));
            Cell::from(value.unwrap_or_default())
        }));
        sheet.row(cells);
    }
    sheet
}

fn attempts(detail: &RunDetail) -> Sheet {
    let mut sheet = Sheet::new(&["attempt", "started", "state", "files"]).right(&[0]);
    for attempt in &detail.attempts {
        sheet.row(vec![
            attempt.number.to_string().into(),
            human::moment(attempt.started).into(),
            Cell::styled(state_style(attempt.state), attempt.state.words(attempt.as_ordered)),
            attempt.directory.display().to_string().into(),
        ]);
    }
    sheet
}
