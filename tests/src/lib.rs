//! The common parts of the end-to-end tests: a recipe in a string becomes a run of real worker processes, and the
//! events that they reported come back.

mod driver;
pub mod fault;
mod lab;
mod namespaces;
mod numbers;
pub mod repeated_kills;
mod sketch;
mod slurm_lab;
mod threads;
mod under_way;

pub use driver::{Desk, DriverProcess, Ended, WorkerProcess, gone, wait_until};
pub use lab::{Lab, free_port};
pub use numbers::{is_whole, numbers};
pub use sketch::Sketch;
pub use slurm_lab::SlurmLab;
pub use threads::{RankLog, train_on_threads};
pub use under_way::{CLEAN, UnderWay};

use anyhow::{Context, Result, bail, ensure};
use launch::{Attempt, Deadlines, End, ForkServers, Outcome, SavedCheckpoint, StopSignal, Update};
use recipe::{
    ArrayProblem, ArrayProfile, FileProblem, Files, LabelledTextForm, LabelledTextSize, Machine, ModelLayout,
    PictureCounts, Plan, PlanRequest, Run, Shape, TextSize, TextTokens,
};
use record::{Event, MetricRecord, Rank, StepRecord};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Duration;

/// One recipe, held in memory.
struct Text<'a>(&'a str);

impl Files for Text<'_> {
    fn read(&self, path: &Path) -> Result<String, FileProblem> {
        if path == Path::new("/recipe.toml") {
            return Ok(self.0.to_owned());
        }
        std::fs::read_to_string(path).map_err(|error| FileProblem::new(error.to_string()))
    }

    fn exists(&self, path: &Path) -> bool {
        path.exists()
    }

    fn arrays(&self, folder: &Path) -> Result<ArrayProfile, Vec<ArrayProblem>> {
        arrays::describe(folder).map_err(|errors| errors.into_iter().map(ArrayProblem::from).collect())
    }

    fn safetensors(&self, folder: &Path) -> Result<ArrayProfile, Vec<ArrayProblem>> {
        let described = arrays::describe_safetensors(folder);
        described.map_err(|errors| errors.into_iter().map(ArrayProblem::from).collect())
    }

    fn text(&self, path: &Path, unit: TextTokens) -> Result<TextSize, ArrayProblem> {
        Ok(arrays::Text::read(path, unit, &mut |_| ()).map_err(ArrayProblem::from)?.size())
    }

    fn labelled_texts(
        &self,
        folder: &Path,
        form: LabelledTextForm,
    ) -> Result<LabelledTextSize, ArrayProblem> {
        arrays::labelled_text_size(folder, form)
    }

    fn pictures(&self, folder: &Path) -> Result<PictureCounts, Vec<ArrayProblem>> {
        counted(folder)
    }

    fn current_directory(&self) -> PathBuf {
        PathBuf::from("/")
    }
}

/// How many pictures a folder has.
fn counted(folder: &Path) -> Result<PictureCounts, Vec<ArrayProblem>> {
    let listed = pictures::PictureFolder::list(folder);
    let listed = listed.map_err(|errors| errors.into_iter().map(ArrayProblem::from).collect::<Vec<_>>())?;
    Ok(listed.counts())
}

/// The plan of a recipe's text on a machine of two cores.
pub fn plan(text: &str) -> Result<Plan> {
    plan_for(text, Machine::new(2))
}

/// The plan of a recipe's text with the condition of `--only`.
pub fn plan_only(text: &str, only: &str) -> Result<Plan> {
    let request = PlanRequest { only: Some(only), ..PlanRequest::new(Path::new("/recipe.toml")) };
    recipe::plan(&Text(text), &request, &Machine::new(2)).map_err(|problems| anyhow::anyhow!("{problems:?}"))
}

/// The plan of a recipe's text on a given machine.
pub fn plan_for(text: &str, machine: Machine) -> Result<Plan> {
    recipe::plan(&Text(text), &PlanRequest::new(Path::new("/recipe.toml")), &machine)
        .map_err(|problems| anyhow::anyhow!("{problems:?}"))
}

/// The recipes of the repository, as files.
struct Disk;

impl Files for Disk {
    fn read(&self, path: &Path) -> Result<String, FileProblem> {
        std::fs::read_to_string(path).map_err(|error| FileProblem::new(error.to_string()))
    }

    fn describe_model(&self, file: &Path, input: Shape) -> Result<ModelLayout, FileProblem> {
        let worker = binary("bakeoff-worker").map_err(|error| FileProblem::new(error.to_string()))?;
        launch::describe_model(&worker, file, input).map_err(|error| FileProblem::new(error.to_string()))
    }

    fn exists(&self, path: &Path) -> bool {
        path.exists()
    }

    fn arrays(&self, folder: &Path) -> Result<ArrayProfile, Vec<ArrayProblem>> {
        arrays::describe(folder).map_err(|errors| errors.into_iter().map(ArrayProblem::from).collect())
    }

    fn safetensors(&self, folder: &Path) -> Result<ArrayProfile, Vec<ArrayProblem>> {
        let described = arrays::describe_safetensors(folder);
        described.map_err(|errors| errors.into_iter().map(ArrayProblem::from).collect())
    }

    fn text(&self, path: &Path, unit: TextTokens) -> Result<TextSize, ArrayProblem> {
        Ok(arrays::Text::read(path, unit, &mut |_| ()).map_err(ArrayProblem::from)?.size())
    }

    fn labelled_texts(
        &self,
        folder: &Path,
        form: LabelledTextForm,
    ) -> Result<LabelledTextSize, ArrayProblem> {
        arrays::labelled_text_size(folder, form)
    }

    fn pictures(&self, folder: &Path) -> Result<PictureCounts, Vec<ArrayProblem>> {
        counted(folder)
    }

    fn current_directory(&self) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().map_or_else(PathBuf::new, Path::to_owned)
    }
}

/// The plan of a recipe's file on a machine of two cores.
pub fn plan_file(path: &Path) -> Result<Plan> {
    recipe::plan(&Disk, &PlanRequest::new(path), &Machine::new(2))
        .map_err(|problems| anyhow::anyhow!("{problems:?}"))
}

/// The kinds of strategy that a recipe may name, by the schema that is made from the table of keys.
pub fn strategy_kinds() -> Vec<String> {
    let schema = recipe::schema();
    let kinds = &schema["properties"]["strategy"]["anyOf"][0]["properties"]["kind"]["enum"];
    let kinds = kinds.as_array().into_iter().flatten();
    let kinds = kinds.filter_map(|kind| Some(kind.as_str()?.to_owned()));
    // `custom` stands for strategies of other crates.
    kinds.filter(|kind| kind != "custom").collect()
}

/// The built binary of that name, beside the test that runs.
pub fn binary(name: &str) -> Result<PathBuf> {
    let test = std::env::current_exe()?;
    let folder = test.ancestors().nth(2).context("a test lies two folders below the binaries")?;
    let path = folder.join(name);
    ensure!(path.exists(), "{} is missing: run `cargo build --workspace` first", path.display());
    Ok(path)
}

/// A run that was made, and everything that its processes reported.
#[derive(Debug)]
pub struct Trained {
    /// How the attempt ended, and why.
    pub outcome: Outcome,
    /// All reported events, each rank's in their order.
    pub events: Vec<Event>,
    /// Where logs and snapshots lie, as long as this lives.
    pub directory: tempfile::TempDir,
}

/// Runs the first run of a recipe.
pub fn train(text: &str) -> Result<Trained> {
    let deadlines = Deadlines { peer: Duration::from_secs(30), ..Deadlines::default() };
    train_watched(text, deadlines, |_| ())
}

/// Like [`train`], with other deadlines, and `watch` receives every update.
pub fn train_watched(
    text: &str,
    deadlines: Deadlines,
    watch: impl FnMut(&Update) + Send + 'static,
) -> Result<Trained> {
    let plan = plan(text)?;
    let run = plan.runs.first().context("the recipe plans no run")?;
    train_planned(&plan, run, deadlines, watch)
}

/// Runs one run of a plan.
pub fn train_planned(
    plan: &Plan,
    run: &Run,
    deadlines: Deadlines,
    watch: impl FnMut(&Update) + Send + 'static,
) -> Result<Trained> {
    let spec = &plan.cells[run.cell].spec;
    trained(Attempt { deadlines, ..attempt_at(spec, run)? }, watch)
}

/// The first run of a recipe again, from the last checkpoint that it left.
pub fn train_again(text: &str, deadlines: Deadlines, before: &Trained) -> Result<Trained> {
    let plan = plan(text)?;
    let run = plan.runs.first().context("the recipe plans no run")?;
    let spec = &plan.cells[run.cell].spec;
    let folder = before.directory.path();
    let ranks = spec.cluster.ranks();
    let last = SavedCheckpoint::newest_first(folder, ranks, &before.events).next();
    let resume = last.context("no checkpoint")?.continued(before.events.iter().cloned());
    let resume = Some(resume.context("the checkpoint does not fit")?);
    trained(Attempt { deadlines, resume, ..attempt_at(spec, run)? }, |_| ())
}

/// Of all attempts of this process, as of a driver; they end with it.
static SERVERS: LazyLock<ForkServers> = LazyLock::new(ForkServers::default);

/// An attempt from the beginning, in a folder of its own.
fn attempt_at<'a>(spec: &'a recipe::RunSpec, run: &Run) -> Result<Attempt<'a>> {
    Ok(Attempt {
        spec,
        seed: run.seed,
        directory: PathBuf::new(),
        worker: binary("bakeoff-worker")?,
        forks: Some(SERVERS.clone()),
        deadlines: Deadlines::default(),
        timeout: Some(Duration::from_mins(4)),
        resume: None,
    })
}

fn trained(attempt: Attempt<'_>, mut watch: impl FnMut(&Update) + Send + 'static) -> Result<Trained> {
    let directory = tempfile::tempdir()?;
    let attempt = Attempt { directory: directory.path().to_owned(), ..attempt };
    let runtime = tokio::runtime::Runtime::new()?;
    let (outcome, events) = runtime.block_on(async {
        let (sender, mut updates) = tokio::sync::mpsc::channel(1024);
        let collect = tokio::spawn(async move {
            let mut events = Vec::new();
            while let Some(update) = updates.recv().await {
                watch(&update);
                if let Update::Events(more) = update {
                    events.extend(more);
                }
            }
            events
        });
        let outcome = launch::run(attempt, StopSignal::default(), sender).await;
        (outcome, collect.await)
    });
    Ok(Trained { outcome: outcome?, events: events?, directory })
}

impl Trained {
    /// The same, if it ended as planned.
    pub fn done(self) -> Result<Self> {
        if self.outcome.end != End::Done {
            let Outcome { detail, last_lines, .. } = &self.outcome;
            bail!("{:?}: {detail}\n{}", self.outcome.end, last_lines.join("\n"));
        }
        Ok(self)
    }

    /// The digests of each rank's weights, by step.
    pub fn digests(&self) -> BTreeMap<u64, BTreeMap<Rank, String>> {
        let mut digests: BTreeMap<u64, BTreeMap<Rank, String>> = BTreeMap::new();
        for event in &self.events {
            if let Event::WeightHash(hash) = event {
                digests.entry(hash.step).or_default().insert(hash.rank, hash.sha256.clone());
            }
        }
        digests
    }

    /// The digest by step, if all ranks have the same.
    pub fn common_digests(&self) -> Result<BTreeMap<u64, String>> {
        let agree = |(step, ranks): (u64, BTreeMap<Rank, String>)| {
            let mut digests: Vec<String> = ranks.into_values().collect();
            digests.dedup();
            ensure!(digests.len() == 1, "after step {step} the ranks have different weights");
            Ok((step, digests.remove(0)))
        };
        self.digests().into_iter().map(agree).collect()
    }

    /// The steps of all lanes.
    pub fn steps(&self) -> impl Iterator<Item = &StepRecord> {
        self.events.iter().filter_map(|event| match event {
            Event::Step(step) => Some(step),
            _ => None,
        })
    }

    /// The results of all evaluations.
    pub fn metrics(&self) -> impl Iterator<Item = &MetricRecord> {
        self.events.iter().filter_map(|event| match event {
            Event::Metric(metric) => Some(metric),
            _ => None,
        })
    }

    /// The weights that the run ended with.
    pub fn final_weights(&self) -> Result<Vec<f32>> {
        let last = |event: &&Event| matches!(event, Event::Snapshot(snapshot) if snapshot.is_result());
        let Some(Event::Snapshot(snapshot)) = self.events.iter().find(last) else {
            bail!("the run left no final snapshot")
        };
        let bytes = std::fs::read(self.directory.path().join(&snapshot.file))?;
        Ok(bytes
            .chunks_exact(4)
            .map(|four| f32::from_le_bytes([four[0], four[1], four[2], four[3]]))
            .collect())
    }
}
