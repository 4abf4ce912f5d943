//! `bakeoff diff`: in what two runs differ, from their settings to the last phase of a step.

use super::show::phase_means;
use crate::args::TableFormat;
use crate::context::Context;
use crate::exit::{Exit, Failure};
use crate::output::paint::{FAINT, STRONG, paint};
use crate::output::table::Sheet;
use crate::output::{self, human};
use crate::reuse::short;
use clap::Args;
use recipe::{ChangedSetting, Metric, Provenance, changed_settings};
use record::{Nanos, Phase};
use serde_json::{Value, json};
use std::fmt::Write;
use store::{AttemptRow, NodeRow, RunDetail, Selection, Store, StoreError};

/// Shown at the end of the verb's help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  bakeoff diff 4F7K2Q9M 8C1XW0TB
  bakeoff diff 4F7K2Q9M 8C1XW0TB --format json | jq .settings
  bakeoff diff \"last~1 and arm=d-sync and repeat=1\" 4F7K2Q9M

`bakeoff list` shows the ids. Equal settings are not shown. One run of each side
says nothing of a difference in speed: `bakeoff compare` does.";

/// Arguments of `diff`.
#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    /// A run: `last`, the beginning or the end of its id, or a selection that it alone fits.
    #[arg(value_name = "RUN")]
    first: String,
    /// The run to lay beside it.
    #[arg(value_name = "OTHER")]
    second: String,
    /// Tables for people, or JSON for programs.
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    format: TableFormat,
}

/// A setting, a fact or a result in which two runs differ.
struct Difference {
    key: String,
    before: String,
    now: String,
}

impl Difference {
    /// As a table shows it.
    fn shortened(&self) -> Self {
        let Self { key, before, now } = self;
        let whole = ChangedSetting { key: key.clone(), before: before.clone(), now: now.clone() };
        Self::from(whole.shortened())
    }
}

impl From<ChangedSetting> for Difference {
    fn from(ChangedSetting { key, before, now }: ChangedSetting) -> Self {
        Self { key, before, now }
    }
}

/// Shows in what two runs differ.
pub(crate) fn execute(args: &DiffArgs, context: &Context<'_>) -> Result<Exit, Failure> {
    let [first, second] = super::wait(find(args, context))?;
    if first.line.line.id == second.line.line.id {
        return Err(Failure::new(Exit::Usage, format!("both are run {}", first.line.line.id))
            .cure("name two runs: `bakeoff list` shows them"));
    }
    let found = [
        ("settings", settings(&first, &second)),
        ("surroundings", surroundings(&first, &second)),
        ("results", results(&first, &second)),
        ("phases", phases(&first, &second)),
    ];
    match args.format {
        TableFormat::Table => output::data(&words([&first, &second], &found, output::width()))?,
        TableFormat::Json => output::json(&document([&first, &second], &found))?,
    }
    Ok(Exit::Done)
}

async fn find(args: &DiffArgs, context: &Context<'_>) -> Result<[RunDetail; 2], Failure> {
    let store = Store::open_existing(&context.global.store).await?;
    let found = [run(&store, &args.first).await?, run(&store, &args.second).await?];
    store.close().await;
    Ok(found)
}

/// A run by its id, or by a selection that fits it alone.
async fn run(store: &Store, text: &str) -> Result<RunDetail, Failure> {
    let unknown = match store.show(text).await {
        Err(unknown @ StoreError::Unknown { .. }) => unknown,
        found => return Ok(found?),
    };
    let cure = "name a run by its id, as `bakeoff list` shows it, or by a selection that one run fits, as in `last~1 and arm=d-sync and repeat=1`";
    let is_test = |text: &str| text.contains(['=', '<', '>', ' ']);
    let selection = match Selection::parse(text) {
        Ok(selection) => selection,
        Err(misread) if is_test(text) => return Err(Failure::from(misread)),
        Err(_) => return Err(Failure::from(unknown).cure(cure)),
    };
    match store.list(&selection).await?.as_slice() {
        [only] => Ok(store.show(&only.id).await?),
        [] => Err(Failure::from(unknown).cure(cure)),
        several => {
            let what =
                format!("`{text}` fits {}, and one is laid beside one", human::count(several.len(), "run"));
            let cure = format!("{cure}; `bakeoff compare` lays whole sweeps over each other");
            Err(Failure::new(Exit::Usage, what).cure(cure))
        }
    }
}

/// Differences in the recipe's settings and the seed.
fn settings(first: &RunDetail, second: &RunDetail) -> Vec<Difference> {
    let settings = changed_settings(&first.configuration(), &second.configuration());
    let mut found: Vec<Difference> = settings.into_iter().map(Difference::from).collect();
    found.extend(differing("seed", first.run.seed.to_string(), second.run.seed.to_string()));
    found
}

fn differing(key: &str, before: String, now: String) -> Option<Difference> {
    (before != now).then(|| Difference { key: key.to_owned(), before, now })
}

/// A part of what decides the numbers of a run beside its configuration.
type Part = fn(&Provenance) -> &String;

/// Data, program and machines.
fn surroundings(first: &RunDetail, second: &RunDetail) -> Vec<Difference> {
    let [one, other] = [first, second].map(RunDetail::surroundings);
    let of = |part: Part, found: &Option<Provenance>| {
        let text = found.as_ref().map(|found| part(found).clone()).filter(|text| !text.is_empty());
        text.unwrap_or_else(|| "not recorded".to_owned())
    };
    // Digests are told apart by their beginnings.
    let parts: [(&str, Part, usize); 3] = [
        ("data (SHA-256)", |found| &found.data, 16),
        ("worker program (SHA-256)", |found| &found.worker, 16),
        ("machine", |found| &found.hardware, usize::MAX),
    ];
    let mut found = Vec::new();
    for (name, part, most) in parts {
        if of(part, &one) != of(part, &other) {
            let [before, now] = [&one, &other].map(|found| of(part, found).chars().take(most).collect());
            found.push(Difference { key: name.to_owned(), before, now });
        }
    }
    let hosts = |detail: &RunDetail| {
        let names: Vec<&str> = detail.nodes.iter().map(|node: &NodeRow| node.host.as_str()).collect();
        names.join(", ")
    };
    let systems = |detail: &RunDetail| {
        let mut names: Vec<&str> = detail.nodes.iter().map(|node| node.system.as_str()).collect();
        names.dedup();
        names.join(", ")
    };
    found.extend(differing("hosts", hosts(first), hosts(second)));
    found.extend(differing("system", systems(first), systems(second)));
    let started = |detail: &RunDetail| {
        detail
            .run
            .attempt
            .as_ref()
            .map_or_else(|| "never".to_owned(), |attempt| human::moment(attempt.started))
    };
    found.extend(differing("started", started(first), started(second)));
    found
}

/// Differences in the results of the runs: state, times, traffic, metrics, weights.
fn results(first: &RunDetail, second: &RunDetail) -> Vec<Difference> {
    let attempts = [first, second].map(|detail| detail.run.attempt.as_ref());
    let mut found: Vec<Difference> =
        differing("state", first.run.state.name().to_owned(), second.run.state.name().to_owned())
            .into_iter()
            .collect();
    let mut add = |name: &str, text: &dyn Fn(&AttemptRow) -> Option<String>| {
        let [before, now] = attempts.map(|attempt| attempt.and_then(text).unwrap_or_else(|| "-".to_owned()));
        found.extend(differing(name, before, now));
    };
    add("training", &|attempt| attempt.training.map(human::time));
    add("mean step", &|attempt| attempt.mean_step_time.map(human::time));
    add("typical step", &|attempt| attempt.step_time.map(human::time));
    add("steps", &|attempt| Some(human::thousands(attempt.steps)));
    let sent = |attempt: &AttemptRow| attempt.ranks.iter().map(|rank| rank.bytes_out).sum::<u64>();
    add("sent by all ranks", &|attempt| Some(human::bytes(sent(attempt))));
    for metric in Metric::ALL {
        let name = format!("final {}", human::metric_name(metric));
        add(&name, &|attempt| {
            let last = attempt.metrics.iter().rev().find(|row| row.metric == metric)?;
            Some(human::metric(metric, last.value))
        });
    }
    add("weights", &|attempt| {
        attempt.weights.as_ref().map(|weights| match weights {
            Ok(digest) => digest.get(..16).unwrap_or(digest).to_owned(),
            Err(ranks) => format!("differ between {}", human::count(ranks.len(), "rank")),
        })
    });
    found
}

/// Where the time of a step goes.
fn phases(first: &RunDetail, second: &RunDetail) -> Vec<Difference> {
    let means =
        [first, second].map(|detail| detail.run.attempt.as_ref().map(phase_means).unwrap_or_default());
    let of = |means: &[(Phase, Nanos)], phase: Phase| {
        let found = means.iter().find(|(found, _)| *found == phase);
        found.map_or_else(|| "-".to_owned(), |(_, mean)| human::time(*mean))
    };
    let rows = Phase::ALL
        .into_iter()
        .filter_map(|phase| differing(phase.name(), of(&means[0], phase), of(&means[1], phase)));
    rows.collect()
}

/// The titles of the parts for people.
fn title(part: &str) -> &str {
    match part {
        "phases" => "phases of a step (mean over the workers' steady steps)",
        other => other,
    }
}

fn words(details: [&RunDetail; 2], found: &[(&str, Vec<Difference>)], width: usize) -> String {
    let names = details.map(|detail| short(&detail.line.line.id).to_owned());
    let mut out = String::new();
    for detail in details {
        let line = &detail.line.line;
        let condition =
            if line.condition.is_empty() { String::new() } else { format!(", {}", line.condition) };
        let head = format!(
            "{}: {}{condition}, repeat {}, {}",
            line.recipe,
            line.arm,
            line.repeat + 1,
            line.state.name()
        );
        let name = short(&line.id);
        for (place, text) in output::fold(&head, width.saturating_sub(name.len() + 1)).iter().enumerate() {
            let lead = if place == 0 { paint(STRONG, name) } else { " ".repeat(name.len()) };
            let _ = writeln!(out, "{lead} {text}");
        }
    }
    for (part, differences) in found {
        let _ = writeln!(out, "\n{}", paint(STRONG, title(part)));
        if differences.is_empty() {
            let _ = writeln!(out, "{}", paint(FAINT, "no difference"));
            continue;
        }
        let mut sheet = Sheet::new(&["", &names[0], &names[1]]);
        for Difference { key, before, now } in differences.iter().map(Difference::shortened) {
            sheet.row(vec![key.as_str().into(), before.as_str().into(), now.as_str().into()]);
        }
        out.push_str(&sheet.render(width));
    }
    out.trim_end().to_owned()
}

fn document(details: [&RunDetail; 2], found: &[(&str, Vec<Difference>)]) -> Value {
    let mut document = json!({ "first": details[0].line.line.id, "second": details[1].line.line.id });
    for (part, differences) in found {
        let row = |Difference { key, before, now }: &Difference| json!({ "key": key, "first": before, "second": now });
        document[*part] = differences.iter().map(row).collect();
    }
    document
}
