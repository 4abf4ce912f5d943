//! Settings of `model` to the model in its place: shapes, parameters, operations.

use crate::files::Files;
use crate::keys::lookup::{KeyId, id};
use crate::resolve::cell::Cell;
use crate::resolve::fitting;
use crate::resolve::shared_keys::{DATASET_KIND, MODEL_KIND, MODEL_LAYERS, USED_NODES};
use crate::spec::architecture::{self, DropoutRate, GptSizes, Misfit, Sizes, TextCnnSizes};
use crate::text::finding::Finding;
use crate::text::source::Span;
use crate::values::leaf::{LayerSetting, Typed};
use crate::values::typed_key::Defaulted;
use crate::values::value;
use crate::{
    Cluster, DatasetProfile, Init, LayeredModel, Model, ModelFile, ModelKind, ModelLayout, Shape, Source,
    Targets,
};
use std::collections::BTreeMap;
use std::path::PathBuf;

const INIT: Defaulted<Init> = Defaulted::choice("model.init");
const DEPTH: Defaulted<u64> = Defaulted::whole("model.depth");
const HEADS: Defaulted<u64> = Defaulted::whole("model.heads");
const WIDTH: Defaulted<u64> = Defaulted::whole("model.width");
const DROPOUT: Defaulted<f64> = Defaulted::number("model.dropout");
const FILE: KeyId = id("model.file");

/// Everything that a placed model depends on; cells with equal blueprints share one.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Blueprint {
    kind: &'static str,
    /// Where its own layers are written.
    layers: Option<Span>,
    sizes: Sizes,
    data: DatasetProfile,
}

/// The models so far; thousands of cells share a few.
pub(crate) struct Models<'a> {
    files: &'a dyn Files,
    placed: BTreeMap<Blueprint, (LayeredModel, Option<Misfit>)>,
    /// By file and shape of an example: the layout, or why there is none.
    described: BTreeMap<(PathBuf, Shape), Result<ModelLayout, String>>,
}

impl<'a> Models<'a> {
    pub(crate) fn new(files: &'a dyn Files) -> Self {
        Self { files, placed: BTreeMap::new(), described: BTreeMap::new() }
    }

    /// The model that a cell's settings describe, as far as it fits.
    pub(crate) fn read(&mut self, cell: &mut Cell<'_>, cluster: &Cluster, source: &Source) -> Model {
        match MODEL_KIND.of(cell.settings) {
            ModelKind::Torchscript => self.file(cell, cluster, source),
            kind @ (ModelKind::Softmax
            | ModelKind::MnistMlp
            | ModelKind::Lenet
            | ModelKind::CifarCnn
            | ModelKind::Resnet20
            | ModelKind::Resnet18
            | ModelKind::Resnet50
            | ModelKind::Vgg19
            | ModelKind::VggCifar
            | ModelKind::Cifar100Cnn
            | ModelKind::Cifar100Convex
            | ModelKind::Alexnet
            | ModelKind::AlexnetCifar
            | ModelKind::Googlenet
            | ModelKind::VggSplitbrain
            | ModelKind::Gpt
            | ModelKind::TextCnn
            | ModelKind::Sequential) => self.layers(cell, kind, source),
        }
    }

    fn layers(&mut self, cell: &mut Cell<'_>, kind: ModelKind, source: &Source) -> Model {
        let settings = cell.settings;
        let data = source.profile();
        let own: &[LayerSetting] = match settings.get(MODEL_LAYERS).map(|leaf| &leaf.typed) {
            Some(Typed::Layers(layers)) => layers,
            _ => &[],
        };
        if kind == ModelKind::Sequential && own.is_empty() {
            cell.miss(MODEL_LAYERS, " from a sequential model");
        }
        let width = WIDTH.of(settings) as usize;
        let dropout = DropoutRate::new(DROPOUT.of(settings));
        let sizes = Sizes {
            gpt: GptSizes {
                depth: DEPTH.of(settings) as usize,
                heads: HEADS.of(settings) as usize,
                width,
                dropout,
            },
            text_cnn: TextCnnSizes { width, dropout },
        };
        let blueprint = Blueprint { kind: kind.name(), layers: settings.span(MODEL_LAYERS), sizes, data };
        let (model, misfit) = self.placed.entry(blueprint).or_insert_with(|| {
            let layers = architecture::layers(kind, sizes, data.classes)
                .unwrap_or_else(|| own.iter().map(|setting| setting.layer.clone()).collect());
            architecture::place(kind, &layers, data)
        });
        if let Some(misfit) = misfit.as_ref().filter(|_| is_known(source)) {
            cell.findings.extend(if kind == ModelKind::Sequential {
                own_does_not_fit(cell, misfit, own)
            } else {
                Some(does_not_fit(cell, misfit, kind, fitting::cure(kind, sizes, data)))
            });
        }
        Model::Layers(LayeredModel { init: INIT.of(settings), ..model.clone() })
    }

    fn file(&mut self, cell: &mut Cell<'_>, cluster: &Cluster, source: &Source) -> Model {
        let data = source.profile();
        let input = data.input;
        let Some(file) = cell.settings.path(FILE).cloned() else {
            cell.miss(FILE, " from a TorchScript model");
            return Model::File(ModelFile { file: PathBuf::new(), layout: ModelLayout::unknown(input) });
        };
        if let Shape::Tokens(..) = input {
            cell.findings.push(of_tokens(cell, data.targets));
            return Model::File(ModelFile { file, layout: ModelLayout::unknown(input) });
        }
        if !is_known(source) {
            return Model::File(ModelFile { file, layout: ModelLayout::unknown(input) });
        }
        let files = self.files;
        let described = self
            .described
            .entry((file.clone(), input))
            .or_insert_with(|| files.describe_model(&file, input).map_err(|problem| problem.reason));
        let layout = match described {
            Ok(layout) => layout.clone(),
            Err(reason) => {
                let finding = cannot_train(cell, &file, reason);
                cell.findings.push(finding);
                ModelLayout::unknown(input)
            }
        };
        cell.findings.extend(too_few_scores(cell, &layout, data));
        cell.findings.extend(elsewhere(cell, cluster));
        Model::File(ModelFile { file, layout })
    }
}

/// Whether the shape of the data is known: that of arrays, pictures or a text that cannot be used is not, nor what fits them.
fn is_known(source: &Source) -> bool {
    !source.profile().shaped_by.is_in_files() || source.training_samples().is_some()
}

/// Layers of the recipe's own.
fn own_does_not_fit(cell: &Cell<'_>, misfit: &Misfit, own: &[LayerSetting]) -> Option<Finding> {
    let number = misfit.layer + 1;
    let title = format!("layer {number} of the model does not fit: {}", misfit.reason);
    (!own.is_empty()).then(|| {
        let span = own.get(misfit.layer).map(|setting| setting.span);
        Finding::new("R109", title)
            .at_option(span.or(cell.settings.span(MODEL_KIND)), "does not fit")
            .at_option(cell.settings.span(DATASET_KIND), "the data")
    })
}

fn does_not_fit(cell: &Cell<'_>, misfit: &Misfit, kind: ModelKind, cure: Option<String>) -> Finding {
    let model = kind.name();
    let Misfit { name, reason, .. } = misfit;
    let finding = Finding::new("R109", format!("`{model}` does not fit, in its {name}: {reason}"))
        .at_option(cell.settings.span(MODEL_KIND), "does not fit")
        .at_option(cell.settings.span(DATASET_KIND), "the data");
    match cure {
        Some(cure) => finding.cure(cure),
        None => finding,
    }
}

fn cannot_train(cell: &Cell<'_>, file: &std::path::Path, reason: &str) -> Finding {
    // A reason from the worker may name the file itself.
    let name = file.display().to_string();
    let title =
        if reason.contains(&name) { reason.to_owned() } else { format!("the model file {name}: {reason}") };
    Finding::new("R143", title)
        .at_option(cell.settings.span(FILE).or(cell.settings.span(MODEL_KIND)), "this file")
        .at_option(cell.settings.span(DATASET_KIND), "the data it is to learn")
        .note(value::more("R143"))
        .cure(
            "mend the path, or the model, and export it by `torch.jit.script(model).save(\"model.pt\")`; what `torch.save` writes is \
             another format",
        )
}

/// A file whose scores do not tell the classes of the data apart.
fn too_few_scores(cell: &Cell<'_>, layout: &ModelLayout, data: DatasetProfile) -> Option<Finding> {
    let classes = data.classes;
    (!layout.layers.is_empty() && layout.classes < classes).then(|| {
        let title = format!("the model file scores {} classes, and the data has {classes}", layout.classes);
        Finding::new("R109", title)
            .at_option(cell.settings.span(FILE), "too few scores")
            .at_option(cell.settings.span(DATASET_KIND), "the data")
            .cure("export the model with a score for each class")
    })
}

/// A file that would have to take tokens, or to score them.
fn of_tokens(cell: &Cell<'_>, targets: Targets) -> Finding {
    let (title, model) = match targets {
        Targets::NextTokens => ("a model file scores classes, and a text has tokens that come next", "gpt"),
        Targets::Class => ("a model file takes numbers, and a text has tokens", "text-cnn"),
    };
    Finding::new("R183", title)
        .at_option(cell.settings.span(MODEL_KIND), "a model in a file")
        .at_option(cell.settings.span(DATASET_KIND), "a text")
        .cure(format!("take `kind = \"{model}\"`, or a `sequential` model that begins with `embedding`"))
}

/// A file that other machines do not have.
fn elsewhere(cell: &Cell<'_>, cluster: &Cluster) -> Option<Finding> {
    (!cluster.all_local()).then(|| {
        Finding::new("R144", "a model file is read on this machine only".to_owned())
            .at_option(cell.settings.span(MODEL_KIND), "a model in a file")
            .at_option(cell.settings.span(USED_NODES), "ranks on other machines")
            .cure("run all ranks on this machine, as in `use = [\"local*2\"]`, or describe the model by `model.layers`")
    })
}
