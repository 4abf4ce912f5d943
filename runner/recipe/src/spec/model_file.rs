//! Models in files: what the program knows of a model that it does not describe itself.
//!
//! `bakeoff-worker --describe-model FILE SHAPE` prints a file's layout as JSON: the digest of the file, what goes in and comes
//! out, and the tensors of weights by layer, in the order in which they lie in the flat vector.
//!
//! ```json
//! { "sha256": "9f86d0...", "input": { "image": [1, 28, 28] }, "classes": 10, "layers": [
//!   { "name": "forward", "parameters": [ { "name": "fc.weight", "shape": [10, 784] }, { "name": "fc.bias", "shape": [10] } ],
//!     "activations": 10, "flops": 0 } ] }
//! ```

use crate::spec::placed_layer::MOST_WEIGHTS;
use crate::{Parameter, Shape, WeightedLayer};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// A model in a file. Its digest and its layout are part of a run's configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ModelFile {
    /// The file that describes the computation.
    pub file: PathBuf,
    /// The layout of its weights.
    pub layout: ModelLayout,
}

/// The layout of a model file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ModelLayout {
    /// SHA-256 of the model file, in lower-case hexadecimal.
    pub sha256: String,
    /// Shape of one example.
    pub input: Shape,
    /// Number of class scores.
    pub classes: usize,
    /// The layers with weights, in the order of the flat vector.
    pub layers: Vec<FileLayer>,
    /// Values of its tensors that are not trained, and stay as they are in the file.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub frozen: usize,
    /// Whether a batch of training needs two examples, as with a batch norm of a flat vector.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub needs_two_rows: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// A layer of a model file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FileLayer {
    /// Unique in the file: a method of its module, or the names of `children`: `0+1`, or `0..4`.
    pub name: String,
    /// The modules that it is, one after the other, where the file is a sequence of modules; none where it is a method.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<String>,
    /// Its tensors, at least one.
    pub parameters: Vec<Parameter>,
    /// Values of one example that come out.
    pub activations: usize,
    /// Values of one example that are held from the forward pass to the backward pass, by what a trial took; 0 where it is not known.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub kept: usize,
    /// Floating-point operations of one example's forward pass; a multiply-add counts two. 0 where they are not known.
    pub flops: u64,
}

/// A layout that describes no model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// The text is no layout.
    #[error("its layout cannot be read: {0}")]
    Unreadable(String),
    /// The digest is no SHA-256.
    #[error("the `sha256` of its layout is `{0}`, not 64 lower-case hexadecimal digits")]
    Digest(String),
    /// There is nothing to train.
    #[error("it has no layer with weights")]
    NoLayers,
    /// A layer or a tensor without weights.
    #[error("`{0}` has no weights")]
    Empty(String),
    /// Two layers, or two tensors, of one name.
    #[error("two of its layers or tensors are called `{0}`")]
    Twice(String),
    /// Positions in the flat vector travel as 32 bits.
    #[error("it has more than 2^32 - 1 weights")]
    TooLarge,
}

impl ModelFile {
    pub(crate) fn weighted_layers(&self) -> Vec<WeightedLayer<'_>> {
        let mut layers = Vec::with_capacity(self.layout.layers.len());
        for FileLayer { name, parameters, flops, .. } in &self.layout.layers {
            layers.push(WeightedLayer { name, parameters, flops: *flops, backward_flops: 2 * flops });
        }
        layers
    }
}

impl ModelLayout {
    /// The layout that a text describes.
    pub fn read(text: &str) -> Result<Self, LayoutError> {
        let layout: Self =
            serde_json::from_str(text).map_err(|error| LayoutError::Unreadable(error.to_string()))?;
        layout.check()?;
        Ok(layout)
    }

    /// The text that [`ModelLayout::read`] reads.
    pub fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_else(|error| unreachable!("a layout is plain data: {error}"))
    }

    /// The layout of a file that could not be described.
    pub(crate) fn unknown(input: Shape) -> Self {
        Self {
            sha256: String::new(),
            input,
            classes: 0,
            layers: Vec::new(),
            frozen: 0,
            needs_two_rows: false,
        }
    }

    fn check(&self) -> Result<(), LayoutError> {
        let hexadecimal = |digit: u8| digit.is_ascii_digit() || (b'a'..=b'f').contains(&digit);
        if self.sha256.len() != 64 || !self.sha256.bytes().all(hexadecimal) {
            return Err(LayoutError::Digest(self.sha256.clone()));
        }
        if self.layers.is_empty() {
            return Err(LayoutError::NoLayers);
        }
        let mut layers = BTreeSet::new();
        let mut tensors = BTreeSet::new();
        let mut weights = 0_u64;
        for layer in &self.layers {
            if layer.parameters.is_empty() {
                return Err(LayoutError::Empty(layer.name.clone()));
            }
            if !layers.insert(&layer.name) {
                return Err(LayoutError::Twice(layer.name.clone()));
            }
            for Parameter { name, shape } in &layer.parameters {
                // A tensor without sides is one number.
                let size = shape.iter().fold(1_u64, |size, &side| size.saturating_mul(side as u64));
                if size == 0 {
                    return Err(LayoutError::Empty(name.clone()));
                }
                if !tensors.insert(name) {
                    return Err(LayoutError::Twice(name.clone()));
                }
                weights = weights.saturating_add(size);
            }
        }
        if weights > MOST_WEIGHTS { Err(LayoutError::TooLarge) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Model, RunSpec};

    const DIGEST: &str = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";

    /// A layout of two layers.
    fn text(sha256: &str) -> String {
        format!(
            r#"{{ "sha256": "{sha256}", "input": {{ "image": [1, 2, 2] }}, "classes": 2, "layers": [
                {{ "name": "hidden", "parameters": [ {{ "name": "hidden.weight", "shape": [3, 4] }},
                    {{ "name": "hidden.bias", "shape": [3] }} ], "activations": 6, "flops": 27 }},
                {{ "name": "out", "parameters": [ {{ "name": "out.weight", "shape": [2, 3] }} ],
                    "activations": 2, "flops": 12 }} ] }}"#
        )
    }

    fn refused(from: &str, to: &str) -> Option<LayoutError> {
        let text = text(DIGEST);
        let changed = text.replace(from, to);
        assert_ne!(text, changed, "{from}");
        ModelLayout::read(&changed).err()
    }

    #[test]
    fn a_file_has_tensors_layers_and_costs_as_any_model_has() {
        let layout = ModelLayout::read(&text(DIGEST)).expect("it is a layout");
        let model = Model::File(ModelFile { file: "models/net.pt".into(), layout });
        assert_eq!((model.parameter_count(), model.activations(), model.flops()), (12 + 3 + 6, 8, 39));
        let layers: Vec<_> = model.weighted_layers().iter().map(|layer| (layer.name, layer.size())).collect();
        assert_eq!(layers, [("hidden", 15), ("out", 6)]);
        let names: Vec<&str> = model.tensors().map(|tensor| tensor.name.as_str()).collect();
        assert_eq!(names, ["hidden.weight", "hidden.bias", "out.weight"]);
    }

    #[test]
    fn another_digest_is_another_configuration_and_a_stored_specification_is_read_again() {
        let with = |sha256: &str| {
            let layout = ModelLayout::read(&text(sha256)).expect("it is a layout");
            let file = ModelFile { file: "net.pt".into(), layout };
            RunSpec { model: Model::File(file), ..RunSpec::sample(2) }
        };
        let spec = with(DIGEST);
        assert_ne!(spec.config_hash(), with(&DIGEST.replace('9', "8")).config_hash());
        assert_eq!(serde_json::from_str::<RunSpec>(&spec.canonical()).expect("it is a specification"), spec);
        let layers = RunSpec::sample(2);
        assert_eq!(serde_json::from_str::<RunSpec>(&layers.canonical()).expect("so is this"), layers);
        // Form of plans that were stored before there were model files.
        assert!(
            layers.canonical().starts_with(r#"{"model":{"kind":"sequential","input":"#),
            "{}",
            layers.canonical()
        );
    }

    #[test]
    fn a_layout_that_describes_no_model_is_refused() {
        let of = |name: &str| name.to_owned();
        assert_eq!(refused(DIGEST, "9F86"), Some(LayoutError::Digest(of("9F86"))));
        assert_eq!(refused("\"out\"", "\"hidden\""), Some(LayoutError::Twice(of("hidden"))));
        assert_eq!(refused("out.weight", "hidden.bias"), Some(LayoutError::Twice(of("hidden.bias"))));
        assert_eq!(refused("[2, 3]", "[2, 0]"), Some(LayoutError::Empty(of("out.weight"))));
        assert_eq!(refused("[2, 3]", "[65536, 65536]"), Some(LayoutError::TooLarge));
        assert_eq!(refused("[2, 3]", "[4294967295, 4294967295, 9]"), Some(LayoutError::TooLarge));
        assert!(matches!(refused("\"flops\": 12", "\"flop\": 12"), Some(LayoutError::Unreadable(_))));
        let none =
            format!(r#"{{ "sha256": "{DIGEST}", "input": {{ "flat": 4 }}, "classes": 2, "layers": [] }}"#);
        assert_eq!(ModelLayout::read(&none).err(), Some(LayoutError::NoLayers));
    }
}
