//! The model, the data and the batch of one worker that a recipe describes, in one process with one thread of computation.

use anyhow::Result;
use recipe::{
    ArrayProblem, ArrayProfile, Colours, FileProblem, Files, LabelledTextForm, LabelledTextSize, Machine,
    ModelLayout, PlanRequest, RunSpec, Shape, TextSize, TextTokens,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use strategies::Batch;
use worker::data::DataSet;
use worker::model::{TrainedModel, describe, open};

/// Specification of the first cell of a recipe, with these settings replaced.
pub(crate) fn spec(recipe: &str, overrides: &[String]) -> Result<RunSpec> {
    let request = PlanRequest { overrides, ..PlanRequest::new(Path::new(recipe)) };
    let planned = recipe::plan(&Disk, &request, &Machine::new(2));
    let mut plan = planned.map_err(|problems| anyhow::anyhow!(problems.render(Colours::None, 100)))?;
    anyhow::ensure!(!plan.cells.is_empty(), "the recipe has no cell");
    Ok(plan.cells.swap_remove(0).spec)
}

/// Its model over its data, on a GPU or on the processors, with the weights of seed 1, and a worker's share of a global batch:
/// the first training samples.
pub(crate) fn learner(spec: &RunSpec, gpu: Option<u32>) -> Result<(Box<dyn TrainedModel>, Batch)> {
    let share = (spec.train.global_batch / spec.cluster.workers().max(1)) as usize;
    tch::set_num_threads(1);
    let data = Arc::new(DataSet::load(&spec.dataset)?);
    let examples: Vec<u32> = data.training_ids().iter().copied().take(share).collect();
    Ok((open(&spec.model, data, 1, gpu)?, Batch { epoch: 0, examples }))
}

struct Disk;

impl Files for Disk {
    fn read(&self, path: &Path) -> Result<String, FileProblem> {
        std::fs::read_to_string(path).map_err(|error| FileProblem::new(error.to_string()))
    }

    fn describe_model(&self, file: &Path, input: Shape) -> Result<ModelLayout, FileProblem> {
        describe(file, input).map_err(|error| FileProblem::new(error.to_string()))
    }

    fn exists(&self, path: &Path) -> bool {
        path.exists()
    }

    fn arrays(&self, folder: &Path) -> Result<ArrayProfile, Vec<ArrayProblem>> {
        arrays::describe(folder).map_err(|errors| errors.into_iter().map(ArrayProblem::from).collect())
    }

    fn text(&self, path: &Path, unit: TextTokens) -> Result<TextSize, ArrayProblem> {
        let text = arrays::Text::read(path, unit, &mut |_| ()).map_err(ArrayProblem::from)?;
        Ok(text.size())
    }

    fn labelled_texts(
        &self,
        folder: &Path,
        form: LabelledTextForm,
    ) -> Result<LabelledTextSize, ArrayProblem> {
        arrays::labelled_text_size(folder, form)
    }

    fn current_directory(&self) -> PathBuf {
        std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"))
    }
}

/// A time in microseconds.
pub(crate) fn microseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// The middle value; of an even number, the larger one of the two.
pub(crate) fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}
