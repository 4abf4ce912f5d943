//! Batches that are too small for batch norm.

use crate::resolve::cell::{GLOBAL_BATCH, WORKER_BATCH};
use crate::text::finding::Finding;
use crate::values::settings::Settings;
use crate::{Model, PlacedLayer, RunSpec};

/// A batch norm whose mean is over one value: what it subtracts is the value itself, and nothing below it learns.
pub(crate) fn findings(settings: &Settings, spec: &RunSpec) -> Option<Finding> {
    let Model::Layers(model) = &spec.model else { return None };
    let least = model.layers.iter().filter_map(PlacedLayer::normalised_values).min()?;
    let pieces = u64::from(spec.cluster.workers()) * u64::from(spec.train.accumulate);
    // Without a batch, or with more pieces than samples, the recipe is refused for that.
    let batch = settings.span(GLOBAL_BATCH).or(settings.span(WORKER_BATCH))?;
    let rows = u64::from(spec.train.global_batch) / pieces.max(1);
    (rows.max(1) * least == 1).then(|| {
        Finding::new("R211", "a batch norm has one value to take the mean of, and its result is always 0")
            .at_option(Some(batch), "one sample at a time for each worker")
            .cure(format!("take a batch of at least {}, or leave the layer out", 2 * pieces))
    })
}
