//! The models of a plan, layer by layer: shape of the output, weights, operations, and values kept for the backward pass.

use crate::output::human;
use recipe::{FileLayer, Model, Parameter, PlacedLayer, Plan};
use std::fmt::Write;

/// Bytes of a weight.
const FLOAT: u64 = 4;
/// Where a file does not say.
const UNKNOWN: &str = "-";

/// The models of all cells that are run, each once, as comments of a recipe.
pub(crate) fn comments(plan: &Plan) -> String {
    let mut models: Vec<(&Model, &str)> = Vec::new();
    for cell in plan.cells.iter().filter(|cell| cell.excluded.is_none()) {
        // Of arms and conditions that train the same model, the first condition is named.
        if !models.iter().any(|(other, _)| **other == cell.spec.model) {
            models.push((&cell.spec.model, &cell.condition));
        }
    }
    let several = models.len() > 1;
    let mut out = String::new();
    for (model, condition) in models {
        let place = if several && !condition.is_empty() { format!(" ({condition})") } else { String::new() };
        let _ = writeln!(out, "#\n# Model {}{place}", model.kind());
        for line in table(model).lines() {
            let _ = writeln!(out, "{}", format!("# {line}").trim_end());
        }
    }
    out
}

fn table(model: &Model) -> String {
    let mut rows = vec![["", "comes out", "weights", "operations", "kept"].map(Into::into)];
    match model {
        Model::Layers(model) => {
            let kept = model.activations();
            rows.extend(model.layers.iter().zip(kept).map(|(layer, kept)| placed(layer, kept)));
        }
        Model::File(file) => rows.extend(file.layout.layers.iter().map(of_file)),
    }
    let known = |number: u64| if number == 0 { UNKNOWN.to_owned() } else { human::thousands(number) };
    let kept = human::thousands(model.activations() as u64);
    let weights = model.parameter_count() as u64;
    let frozen = model.frozen_weights();
    let where_shown = match model {
        Model::Layers(_) => "in parentheses",
        Model::File(_) => "in the file",
    };
    rows.push(["all".into(), String::new(), human::thousands(weights), known(model.flops()), kept]);
    let mut out: String = rows.iter().map(line).collect();
    let _ = writeln!(out, "operations of one example's forward pass, and values that are kept of it");
    let _ = writeln!(out, "a gradient is {}", human::bytes(FLOAT * weights));
    if frozen > 0 {
        let frozen = human::thousands(frozen as u64);
        let _ = writeln!(out, "{frozen} more weights {where_shown} are neither trained nor sent");
    }
    out
}

/// 78 columns: with what stands before them in a recipe, 80.
fn line([name, output, weights, operations, kept]: &[String; 5]) -> String {
    format!("{name:<20}{output:>14}{weights:>14}{operations:>17}{kept:>13}").trim_end().to_owned() + "\n"
}

fn placed(layer: &PlacedLayer, kept: usize) -> [String; 5] {
    let trained = weights(layer.parameters.iter());
    let frozen = weights(layer.frozen_parameters());
    [
        layer.name.clone(),
        layer.output.to_string(),
        match (trained, frozen) {
            (0, 0) => String::new(),
            (0, frozen) => format!("({})", human::thousands(frozen)),
            (trained, _) => human::thousands(trained),
        },
        human::thousands(layer.flops),
        human::thousands(kept as u64),
    ]
}

fn of_file(layer: &FileLayer) -> [String; 5] {
    let weights = human::thousands(weights(layer.parameters.iter()));
    let kept = human::thousands(layer.kept.max(layer.activations) as u64);
    [layer.name.clone(), layer.activations.to_string(), weights, UNKNOWN.to_owned(), kept]
}

fn weights<'a>(parameters: impl IntoIterator<Item = &'a Parameter>) -> u64 {
    parameters.into_iter().map(|parameter| parameter.size() as u64).sum()
}
