//! Settings of `model` to the model in its place: shapes, parameters, operations.

use crate::keys::lookup::{KeyId, id};
use crate::resolve::cell::Cell;
use crate::resolve::dataset::KIND as DATASET_KIND;
use crate::spec::architecture::{self, Misfit};
use crate::text::finding::Finding;
use crate::text::source::Span;
use crate::values::leaf::{LayerSetting, Typed};
use crate::values::typed_key::Defaulted;
use crate::{DatasetKind, Init, LayeredModel, Model, ModelKind};
use std::collections::BTreeMap;

const KIND: Defaulted<ModelKind> = Defaulted::choice("model.kind");
const INIT: Defaulted<Init> = Defaulted::choice("model.init");
const LAYERS: KeyId = id("model.layers");

/// What decides a model: its kind, where its own layers are written, and the data.
type Blueprint = (&'static str, Option<Span>, &'static str);

/// The models so far; thousands of cells share a few.
#[derive(Default)]
pub(crate) struct Models {
    placed: BTreeMap<Blueprint, (LayeredModel, Option<Misfit>)>,
}

impl Models {
    /// The model that a cell's settings describe, as far as its layers fit.
    pub(crate) fn read(&mut self, cell: &mut Cell<'_>) -> Model {
        let settings = cell.settings;
        let kind = KIND.of(settings);
        let data = DATASET_KIND.of(settings);
        let own: &[LayerSetting] = match settings.get(LAYERS).map(|leaf| &leaf.typed) {
            Some(Typed::Layers(layers)) => layers,
            _ => &[],
        };
        if kind == ModelKind::Sequential && own.is_empty() {
            cell.miss(LAYERS, " from a sequential model");
        }
        let blueprint = (kind.name(), settings.span(LAYERS), data.name());
        let (model, misfit) = self.placed.entry(blueprint).or_insert_with(|| place(kind, own, data));
        if let Some(misfit) = misfit {
            cell.findings.extend(does_not_fit(cell, misfit, kind, own));
        }
        Model::Layers(LayeredModel { init: INIT.of(settings), ..model.clone() })
    }
}

fn place(kind: ModelKind, own: &[LayerSetting], data: DatasetKind) -> (LayeredModel, Option<Misfit>) {
    let data = data.profile();
    let layers = architecture::layers(kind, data.classes)
        .unwrap_or_else(|| own.iter().map(|setting| setting.layer.clone()).collect());
    architecture::place(kind, &layers, data)
}

fn does_not_fit(cell: &Cell<'_>, misfit: &Misfit, kind: ModelKind, own: &[LayerSetting]) -> Option<Finding> {
    let sequential = kind == ModelKind::Sequential;
    if sequential && own.is_empty() {
        return None;
    }
    let span = own.get(misfit.layer).map(|setting| setting.span).filter(|_| sequential);
    let number = misfit.layer + 1;
    Some(
        Finding::new("R109", format!("layer {number} of the model does not fit: {}", misfit.reason))
            .at_option(span.or(cell.settings.span(KIND)), "does not fit")
            .at_option(cell.settings.span(DATASET_KIND), "the data"),
    )
}
