//! `bakeoff export`: measurements and models for other programs.

use crate::context::Context;
use crate::exit::{Exit, Failure};
use crate::export::table::{Lines, Table};
use crate::export::{
    bundle, chrome_trace, events, fitting, never_begun, open, samples, table, typed, unwritable, verdicts,
    weights,
};
use crate::output::human;
use crate::reuse::short;
use clap::{Args, ValueEnum, ValueHint};
use recipe::KeptModels;
use record::{LaneId, Rank, StepRecord};
use serde_json::json;
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use store::{BundledModels, EventLog, ExportTable, KeptModel, RunDetail, RunInFull, Selection, Store};

/// Shown at the end of the verb's help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  bakeoff export last --format csv > runs.csv
  bakeoff export \"arm=d-sync\" --format jsonl --what metrics -o metrics.jsonl
  bakeoff export last --format csv --what steps -o steps.csv
  bakeoff export last --format csv --what verdicts -o verdicts.csv
  bakeoff export last --format jsonl --what events -o events.jsonl
  bakeoff export last --format parquet --what steps -o steps.parquet
  bakeoff export last --format chrome-trace -o trace.json
  bakeoff export 4F7K2Q9M --format safetensors -o weights
  bakeoff export \"tag=paper-v2\" --format bundle -o paper.tar.gz

Units stand in the names of the columns. A loss that is not a number is an
empty field, with is_finite = 0. In Parquet a column is of 64-bit integers, of
doubles or of text, and a missing value is null.

A trace opens in https://ui.perfetto.dev, which keeps it on your machine: a
process is a node of a run, a thread a lane of a rank.

Verdicts are those of the page, on the runs of the newest sweep that fit: a row
for each arm but the baseline, condition and measure. A measure is
time-to-target, steps-to-target or step-time, with the ratio, baseline divided
by arm, so that above 1 the arm is faster; or a metric at the end of the runs,
with the difference, arm less baseline. low and high are the confidence
interval, grade is that of the measure, verdict that of the arm, n the number
of pairs, p is after Holm's correction, and sure the probability of a
difference that matters. The verdict rests on the measure with decides = 1; a
note tells of runs that missed the target or diverged.

Events are those of the attempt that a run is shown by, its last one, in the
order in which they came, each line with the version of the set of events; a
number that is not finite is null.

Of each run, safetensors writes a folder: initial.safetensors and
final.safetensors with a tensor per parameter, run.json with all that the run
did, rates.csv with the learning rate of each step of each worker, samples.csv
where the recipe has `measure.samples = true`, and with measure.models = \"all\"
the model that each rank ended with, final-rank-0.safetensors and so on, where
the ranks' models differ; with measure.models = \"none\" there are no models. With
these another program can repeat the run and compare.

A bundle has whole sweeps, those of which a run fits and those whose results
these took, as one file for `bakeoff import`. It leaves out logs of processes,
checkpoints, and without --with-models the models; it is not for sweeps that
are under way. The same sweeps give the same bytes.";

/// Arguments of `export`.
#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// Which runs.
    #[arg(value_name = "SELECTION")]
    selection: String,
    /// The file format.
    #[arg(long, value_name = "FORMAT")]
    format: Format,
    /// The table to write as CSV or JSON lines; `runs` by default.
    #[arg(long, value_name = "TABLE")]
    what: Option<Table>,
    /// The file to write, by default standard output; for safetensors a folder.
    #[arg(short, long, value_name = "PATH", value_hint = ValueHint::AnyPath)]
    output: Option<PathBuf>,
    /// Take along the models that runs kept, into a bundle.
    #[arg(long)]
    with_models: bool,
}

/// How it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A header line, then a line per row.
    Csv,
    /// A JSON object per line.
    Jsonl,
    /// Columns with types, for data frames.
    Parquet,
    /// Steps and phases of every lane, for Perfetto.
    ChromeTrace,
    /// Initial and final weights.
    Safetensors,
    /// Whole sweeps, for `bakeoff import`.
    Bundle,
}

/// Writes the selected runs in the requested format.
pub(crate) fn execute(args: &ExportArgs, context: &Context<'_>) -> Result<Exit, Failure> {
    let selection = Selection::parse(&args.selection)?;
    let output = args.output.as_deref();
    let lines = match args.format {
        Format::Csv => Some(Lines::Csv),
        Format::Jsonl => Some(Lines::Json),
        Format::Parquet | Format::ChromeTrace | Format::Safetensors | Format::Bundle => None,
    };
    if lines.is_none() && args.format != Format::Parquet && args.what.is_some() {
        let what = "--what chooses a table, and this format is none";
        return Err(Failure::new(Exit::Usage, what).cure("leave it out, or take --format csv"));
    }
    if matches!(args.format, Format::Csv | Format::Parquet) && args.what == Some(Table::Events) {
        let what = "events have no columns in common";
        return Err(Failure::new(Exit::Usage, what).cure("take --format jsonl"));
    }
    if args.with_models && args.format != Format::Bundle {
        let what = "--with-models is for bundles";
        return Err(Failure::new(Exit::Usage, what).cure("leave it out, or take --format bundle"));
    }
    if args.format == Format::Bundle {
        let Some(output) = output else {
            let what = "a bundle is a compressed file, and none is named";
            return Err(Failure::new(Exit::Usage, what).cure("name one with -o FILE.tar.gz"));
        };
        let models = if args.with_models { BundledModels::Kept } else { BundledModels::None };
        super::wait(bundle::write(&selection, models, output, context))?;
        return Ok(Exit::Done);
    }
    if args.format == Format::Safetensors && output.is_none() {
        let what = "safetensors are files: they need a folder";
        return Err(Failure::new(Exit::Usage, what).cure("name one with -o FOLDER"));
    }
    if args.format == Format::Parquet && output.is_none() {
        let what = "Parquet is no text: it needs a file";
        return Err(Failure::new(Exit::Usage, what).cure("name one with -o FILE"));
    }
    super::wait(async {
        let store = Store::open_existing(&context.global.store).await?;
        match (lines, args.format, output) {
            (None, Format::Parquet, Some(file)) => {
                if args.what == Some(Table::Steps) {
                    say_what_is_kept(&store, &selection).await?;
                }
                typed::write(&store, &selection, args.what.unwrap_or(Table::Runs), file).await?;
            }
            (Some(lines), _, _) => tables(&store, &selection, args.what, lines, output).await?,
            (None, Format::Safetensors, Some(folder)) => {
                let told = models(&store, &selection, folder).await?;
                for line in &told {
                    context.console.say(line);
                }
            }
            (None, _, _) => {
                say_what_is_kept(&store, &selection).await?;
                say_which_spans_are_kept(&store, &selection).await?;
                trace(&store, &selection, output).await?;
            }
        }
        store.close().await;
        Ok(Exit::Done)
    })
}

async fn tables(
    store: &Store,
    selection: &Selection,
    table: Option<Table>,
    lines: Lines,
    output: Option<&Path>,
) -> Result<(), Failure> {
    let table = match table.unwrap_or(Table::Runs) {
        Table::Samples => return sample_ids(store, selection, lines, output).await,
        Table::Events => return events(store, selection, output).await,
        Table::Verdicts => return verdicts_of(store, selection, lines, output).await,
        table => table.stored().unwrap_or(ExportTable::Runs),
    };
    if table == ExportTable::Steps {
        say_what_is_kept(store, selection).await?;
    }
    let export = store.export(table, selection).await?;
    let mut out = open(output)?;
    table::write(export, &table.columns(), lines, &mut out).await?;
    Ok(out.flush()?)
}

/// The one run whose sample ids are exported: their rows do not name a run.
async fn sample_ids(
    store: &Store,
    selection: &Selection,
    lines: Lines,
    output: Option<&Path>,
) -> Result<(), Failure> {
    let ids = samples::of_selection(store, selection).await?;
    let mut out = open(output)?;
    samples::write(&ids, lines, &mut out)?;
    Ok(out.flush()?)
}

/// The verdicts of the newest sweep of which a run fits, on the runs that fit.
async fn verdicts_of(
    store: &Store,
    selection: &Selection,
    lines: Lines,
    output: Option<&Path>,
) -> Result<(), Failure> {
    let verdicts = verdicts::of_selection(store, selection).await?;
    let mut out = open(output)?;
    verdicts::write(verdicts, lines, &mut out)?;
    Ok(out.flush()?)
}

/// The event logs of all runs that fit, one after another.
async fn events(store: &Store, selection: &Selection, output: Option<&Path>) -> Result<(), Failure> {
    let found = fitting(store, selection).await?;
    let mut directories = Vec::new();
    for run in &found {
        let id = store.find_run(&run.id).await?;
        directories.extend(store.shown_directory(&id).await?.map(|directory| (&run.id, directory)));
    }
    if let (true, Some(run)) = (directories.is_empty(), found.first()) {
        return Err(never_begun(run));
    }
    for run in found.iter().filter(|run| directories.iter().all(|(begun, _)| *begun != &run.id)) {
        anstream::eprintln!("run {} was never begun: it has no events", short(&run.id));
    }
    say_what_is_kept(store, selection).await?;
    say_which_spans_are_kept(store, selection).await?;
    let mut out = open(output)?;
    for (run, directory) in directories {
        events::write(run, EventLog::events(&directory)?, &mut out)?;
    }
    Ok(out.flush()?)
}

/// Says of which runs some steps are not kept.
async fn say_what_is_kept(store: &Store, selection: &Selection) -> Result<(), Failure> {
    let strides = store.sampled_runs(selection).await?;
    if let Some(most) = strides.iter().max() {
        anstream::eprintln!(
            "of {} every {most}th step is kept at least, the slowest, and those with extreme losses; `measure.steps = \"all\"` \
             keeps each, and `--what histograms` counts all",
            human::count(strides.len(), "run")
        );
    }
    Ok(())
}

/// Says of which runs some spans are not kept.
async fn say_which_spans_are_kept(store: &Store, selection: &Selection) -> Result<(), Failure> {
    let thinned = store.thinned_traces(selection).await?;
    if thinned > 0 {
        anstream::eprintln!(
            "of {} the spans of the steps that a timeline shows are kept; `measure.steps = \"all\"`, or a `measure.trace` that \
             asks for more than the defaults, keeps each",
            human::count(thinned, "run")
        );
    }
    Ok(())
}

/// One trace of all runs that fit.
async fn trace(store: &Store, selection: &Selection, output: Option<&Path>) -> Result<(), Failure> {
    let found = fitting(store, selection).await?;
    let mut out = open(output)?;
    let mut writer = chrome_trace::Writer::begin(&mut *out)?;
    for run in &found {
        let id = store.find_run(&run.id).await?;
        let Some(mut trace) = store.trace(&id).await? else { continue };
        let track = writer.run(&store.show(&run.id).await?, &trace.lanes().await?)?;
        // A step stands before its phases, so that a viewer which reads both at the same time puts them inside.
        loop {
            let steps = trace.next_steps().await?;
            steps.iter().try_for_each(|step| writer.step(&track, step))?;
            if steps.is_empty() {
                break;
            }
        }
        loop {
            let spans = trace.next_spans().await?;
            spans.iter().try_for_each(|span| writer.span(&track, span))?;
            if spans.is_empty() {
                break;
            }
        }
    }
    Ok(writer.end()?)
}

/// Writes a folder for each selected run and returns notes about it.
async fn models(store: &Store, selection: &Selection, folder: &Path) -> Result<Vec<String>, Failure> {
    let mut told = Vec::new();
    for run in &fitting(store, selection).await? {
        let id = store.find_run(&run.id).await?;
        let Some(directory) = store.shown_directory(&id).await? else {
            told.push(format!("run {} was never begun", short(&run.id)));
            continue;
        };
        let own = folder.join(&run.id);
        fs::create_dir_all(&own).map_err(|error| unwritable(&own, &error))?;
        let detail = store.show(&run.id).await?;
        let models = store.kept_models(&id).await?;
        let mut written = vec![file(&own, "run.json", |out| about(&detail, out))?];
        // One of several snapshots was kept.
        let initial =
            models.iter().find(|model| model.step == 0 && !model.model.is_empty() && model.path.is_file());
        let last = models.iter().rfind(|model| model.last);
        for (name, kept) in [("initial", initial), ("final", last)] {
            match kept.filter(|kept| kept.path.is_file()) {
                Some(kept) => {
                    let name = format!("{name}.safetensors");
                    weights::write(&run.spec.model, kept, &origin(&detail, kept), &own.join(&name))?;
                    written.push(name);
                }
                None if run.spec.measure.models == KeptModels::None => {}
                None => told.push(format!("run {} kept no {name} model", short(&run.id))),
            }
        }
        if run.spec.measure.models == KeptModels::None && written.len() == 1 {
            told.push(format!(
                "run {} kept no model: its recipe has `measure.models = \"none\"`",
                short(&run.id)
            ));
        }
        if run.spec.measure.models == KeptModels::All
            && last.is_some()
            && models.iter().all(|model| !model.ended)
        {
            told.push(format!(
                "run {} is of a store of before: `bakeoff db rebuild` learns which models its ranks ended with",
                short(&run.id)
            ));
        }
        for kept in own_models(run, &models) {
            let name = format!("final-rank-{}.safetensors", kept.rank.0);
            weights::write(&run.spec.model, kept, &origin(&detail, kept), &own.join(&name))?;
            written.push(name);
        }
        written.push(rates(store, &id, &own).await?);
        if run.spec.measure.samples {
            match samples::of_run(&run.id, &directory) {
                Ok(ids) => {
                    written.push(file(&own, "samples.csv", |out| samples::write(&ids, Lines::Csv, out))?);
                }
                Err(Failure::Fault { exit: Exit::Empty, error, .. }) => told.push(error.to_string()),
                Err(failure) => return Err(failure),
            }
        }
        told.push(format!("{}: {}", own.display(), written.join(", ")));
    }
    Ok(told)
}

/// The models that the ranks ended with, beside the one that the run is judged by.
fn own_models<'a>(run: &RunInFull, models: &'a [KeptModel]) -> impl Iterator<Item = &'a KeptModel> {
    let all = run.spec.measure.models == KeptModels::All;
    let of_rank = |model: &&KeptModel| model.ended && model.model == format!("rank {}", model.rank.0);
    let own = models.iter().filter(of_rank).filter(|model| model.path.is_file());
    let of_ranks: BTreeMap<Rank, &KeptModel> = own.map(|model| (model.rank, model)).collect();
    // Of ranks that share one model, `final.safetensors` is that of all.
    let several = of_ranks.len() > 1;
    of_ranks.into_values().filter(move |_| all && several)
}

/// Where a model comes from, as safetensors' own texts.
fn origin(detail: &RunDetail, kept: &KeptModel) -> Vec<(&'static str, String)> {
    vec![
        ("run", detail.line.id.clone()),
        ("recipe", detail.line.recipe.clone()),
        ("arm", detail.line.arm.clone()),
        ("seed", detail.run.seed.to_string()),
        ("model", kept.model.clone()),
        ("step", kept.step.to_string()),
        ("samples", kept.samples.to_string()),
        ("format", "pt".to_owned()),
    ]
}

/// Writes a file into a folder and returns its name.
fn file(
    folder: &Path,
    name: &str,
    write: impl FnOnce(&mut dyn Write) -> std::io::Result<()>,
) -> Result<String, Failure> {
    let path = folder.join(name);
    let mut out = open(Some(&path))?;
    write(&mut out)?;
    out.flush()?;
    Ok(name.to_owned())
}

fn about(detail: &RunDetail, out: &mut dyn Write) -> std::io::Result<()> {
    let line = &detail.line;
    let whole = json!({
        "run": line.id, "recipe": line.recipe, "arm": line.arm, "condition": line.condition,
        "repeat": line.repeat, "seed": detail.run.seed, "state": line.state, "spec": line.spec,
    });
    serde_json::to_writer_pretty(&mut *out, &whole)?;
    out.write_all(b"\n")
}

/// The learning rate of every step of every worker, and the samples of all ranks that it knows of after it; what was still
/// applied after the last step is the drain.
async fn rates(store: &Store, run: &store::RunId, folder: &Path) -> Result<String, Failure> {
    let mut rows = vec![b"step,rank,samples,rate,drain\n".to_vec()];
    if let Some(mut trace) = store.trace(run).await? {
        loop {
            let steps = trace.next_steps().await?;
            let row = |rate, step: &StepRecord| {
                let StepRecord { step, rank, samples, drain, .. } = step;
                format!("{step},{},{samples},{rate},{}\n", rank.0, u8::from(*drain)).into_bytes()
            };
            let trained = steps.iter().filter(|step| step.lane == LaneId::Compute);
            rows.extend(trained.filter_map(|step| Some(row(step.rate?, step))));
            // Compute lanes come first.
            if steps.last().is_none_or(|last| last.lane != LaneId::Compute) {
                break;
            }
        }
    }
    file(folder, "rates.csv", |out| rows.iter().try_for_each(|row| out.write_all(row)))
}
