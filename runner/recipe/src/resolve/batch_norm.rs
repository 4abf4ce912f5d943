//! Batches that are too small for batch norm.

use crate::resolve::shared_keys::{GLOBAL_BATCH, WORKER_BATCH};
use crate::text::finding::Finding;
use crate::values::settings::Settings;
use crate::{Model, PlacedLayer, RunSpec};

/// A batch norm whose mean is over one value: what it subtracts is the value itself, and nothing below it learns.
pub(crate) fn findings(settings: &Settings, spec: &RunSpec) -> Option<Finding> {
    let pieces = u64::from(spec.cluster.workers()) * u64::from(spec.train.accumulate);
    // Without a batch, or with more pieces than samples, the recipe is refused for that.
    let batch = settings.span(GLOBAL_BATCH).or(settings.span(WORKER_BATCH))?;
    let rows = (u64::from(spec.train.global_batch) / pieces.max(1)).max(1);
    let least = format!("take a batch of at least {}", 2 * pieces);
    let place = "one sample at a time for each worker";
    match &spec.model {
        Model::Layers(model) => {
            let values = model.layers.iter().filter_map(PlacedLayer::normalised_values).min()?;
            (rows * values == 1).then(|| {
                Finding::new(
                    "R211",
                    "a batch norm has one value to take the mean of, and its result is always 0",
                )
                .at_option(Some(batch), place)
                .cure(format!("{least}, or leave the layer out"))
            })
        }
        Model::File(file) => (rows == 1 && file.layout.needs_two_rows).then(|| {
            Finding::new("R198", "the model file cannot be trained on one sample at a time")
                .at_option(Some(batch), place)
                .cure(least)
        }),
    }
}
