//! Settings of `dataset` to its description; of a user's arrays, pictures or text, that is also what they are.

use crate::files::{ArrayProblem, Files};
use crate::resolve::cell::Cell;
use crate::resolve::labelled_text::LabelledTexts;
use crate::resolve::pictures::{self, PictureFolders};
use crate::resolve::shared_keys::{CONTEXT, DATASET_KIND, DATASET_PATH, TOKENS, TRAIN_SAMPLES, VALIDATION};
use crate::text::finding::Finding;
use crate::values::typed_key::Defaulted;
use crate::values::value;
use crate::{
    ArrayProfile, Dataset, DatasetKind, Partition, PartitionKind, Sampling, Source, Targets, TextProfile,
    TextSize,
};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const TEST_SAMPLES: Defaulted<u64> = Defaulted::whole("dataset.test");
const SEED: Defaulted<u64> = Defaulted::whole("dataset.seed");
const TEST_SHARE: Defaulted<f64> = Defaulted::number("dataset.test-share");
const PARTITION: Defaulted<PartitionKind> = Defaulted::choice("dataset.partition.kind");
const ALPHA: Defaulted<f64> = Defaulted::number("dataset.partition.alpha");
const SAMPLING: Defaulted<Sampling> = Defaulted::choice("dataset.sampling");

/// How the arrays of a folder are looked at.
type Describe = fn(&dyn Files, &Path) -> Result<ArrayProfile, Vec<ArrayProblem>>;

/// Contents of the folders of arrays and pictures and of the texts, each looked at once.
pub(crate) struct Folders<'a> {
    files: &'a dyn Files,
    /// Texts with a label each.
    pub(crate) labelled: LabelledTexts<'a>,
    texts: BTreeMap<(PathBuf, &'static str), Result<TextSize, ArrayProblem>>,
    seen: BTreeMap<(PathBuf, &'static str), Result<ArrayProfile, Vec<ArrayProblem>>>,
    pictures: PictureFolders,
}

impl<'a> Folders<'a> {
    pub(crate) fn new(files: &'a dyn Files) -> Self {
        Self {
            files,
            labelled: LabelledTexts::new(files),
            texts: BTreeMap::new(),
            seen: BTreeMap::new(),
            pictures: PictureFolders::default(),
        }
    }

    /// The arrays that a cell names, or what stands for them where they cannot be used.
    fn arrays(&mut self, cell: &mut Cell<'_>, path: &Path, of: Describe) -> ArrayProfile {
        let Some(span) = cell.settings.given(DATASET_PATH).map(|leaf| leaf.span) else {
            cell.miss(DATASET_PATH, ": your own arrays are in a folder of yours");
            return ArrayProfile::UNKNOWN;
        };
        let kind = DATASET_KIND.of(cell.settings).name();
        let found = self.seen.entry((path.to_owned(), kind)).or_insert_with(|| of(self.files, path));
        match found {
            Ok(profile) => {
                let here = span.or(cell.settings.span(DATASET_KIND));
                cell.findings.extend((profile.classes > profile.train).then(|| {
                    let classes = profile.classes;
                    let train = profile.train;
                    Finding::new(
                        "R212",
                        format!("{classes} classes of {train} training samples: some have none"),
                    )
                    .at_option(here, "classes are counted from 0 to the largest label")
                    .cure("look for a label that is none, or number the classes from 0 without a gap")
                }));
                *profile
            }
            Err(problems) => {
                cell.findings.extend(problems.iter().map(|problem| {
                    Finding::new("R023", problem.reason.clone())
                        .at_option(span.or(cell.settings.span(DATASET_KIND)), "this folder")
                        .note(value::more("R023"))
                        .cure(problem.cure.clone())
                }));
                ArrayProfile::UNKNOWN
            }
        }
    }

    /// The text that a cell names, or what stands for it where it cannot be used.
    fn text(&mut self, cell: &mut Cell<'_>, path: &Path) -> TextProfile {
        let settings = cell.settings;
        let Some(span) = settings.given(DATASET_PATH).map(|leaf| leaf.span) else {
            cell.miss(DATASET_PATH, ": your own text is a file of yours");
            return TextProfile::UNKNOWN;
        };
        let unit = TOKENS.of(settings);
        let files = self.files;
        let found =
            self.texts.entry((path.to_owned(), unit.name())).or_insert_with(|| files.text(path, unit));
        let cut = match found {
            Ok(size) => {
                let context = CONTEXT.of(settings) as u32;
                TextProfile::cut(*size, unit, context, TEST_SHARE.of(settings))
                    .ok_or_else(|| not_cut(*size, context))
            }
            Err(problem) => Err(problem.clone()),
        };
        cut.unwrap_or_else(|ArrayProblem { reason, cure }| {
            cell.findings.push(
                Finding::new("R180", reason)
                    .at_option(span.or(settings.span(DATASET_KIND)), "this text")
                    .note(value::more("R180"))
                    .cure(cure),
            );
            TextProfile::UNKNOWN
        })
    }
}

/// Why a text has no windows for training and test, or too many.
fn not_cut(size: TextSize, context: u32) -> ArrayProblem {
    let tokens = size.tokens;
    let least = 2 * u64::from(context) + 1;
    if tokens < least {
        return ArrayProblem {
            reason: format!(
                "the text has {tokens} tokens, and two windows of {context} with the token behind them take {least}"
            ),
            cure: "give a longer text or a shorter `dataset.context`".to_owned(),
        };
    }
    ArrayProblem {
        reason: format!("the text has {tokens} tokens, which make more than 2^32 - 1 windows of {context}"),
        cure: "take a longer `dataset.context`".to_owned(),
    }
}

/// Parts by class, where no sample has a class.
fn without_classes(cell: &Cell<'_>, source: &Source, partition: &Partition) -> Option<Finding> {
    match (partition, source.profile().targets) {
        (Partition::Dirichlet { .. }, Targets::NextTokens) => Some(
            Finding::new("R182", "the windows of a text have no classes that could be spread unevenly")
                .at_option(cell.settings.span(PARTITION), "spreads classes")
                .at_option(cell.settings.span(DATASET_KIND), "a text")
                .cure("take `kind = \"sharded\"`, or `shared`"),
        ),
        (Partition::Dirichlet { .. }, Targets::Class) | (Partition::Shared | Partition::Sharded, _) => None,
    }
}

/// The data set that the settings describe. Its path was set before, where the recipe gives none and there is a usual one.
pub(crate) fn read(cell: &mut Cell<'_>, folders: &mut Folders<'_>) -> Dataset {
    let settings = cell.settings;
    let path = settings.path(DATASET_PATH).cloned().unwrap_or_default();
    let source = match DATASET_KIND.of(settings) {
        DatasetKind::Mnist => Source::Mnist { path },
        DatasetKind::FashionMnist => Source::FashionMnist { path },
        DatasetKind::Cifar10 => Source::Cifar10 { path },
        DatasetKind::Cifar100 => Source::Cifar100 { path },
        DatasetKind::ImageFolder => {
            let pictures = folders.pictures.of(cell, folders.files, &path);
            Source::ImageFolder { path, pictures }
        }
        DatasetKind::Npy => {
            let arrays = folders.arrays(cell, &path, |files, path| files.arrays(path));
            Source::Npy { path, arrays }
        }
        DatasetKind::Safetensors => {
            let arrays = folders.arrays(cell, &path, |files, path| files.safetensors(path));
            Source::Safetensors { path, arrays }
        }
        DatasetKind::TextLines => {
            let text = folders.text(cell, &path);
            Source::TextLines { path, text }
        }
        DatasetKind::Text => {
            let texts = folders.labelled.read(cell, &path);
            Source::Text { path, texts }
        }
        DatasetKind::Synthetic => Source::Synthetic {
            train: TRAIN_SAMPLES.of(settings) as u32,
            test: TEST_SAMPLES.of(settings) as u32,
            seed: SEED.of(settings),
        },
    };
    let partition = match PARTITION.of(settings) {
        PartitionKind::Shared => Partition::Shared,
        PartitionKind::Sharded => Partition::Sharded,
        PartitionKind::Dirichlet => Partition::Dirichlet { alpha: ALPHA.of(settings) },
    };
    cell.findings.extend(without_classes(cell, &source, &partition));
    let augment = pictures::augmentation(cell, &source);
    let sampling = SAMPLING.of(settings);
    Dataset { source, partition, validation: VALIDATION.of(settings), sampling, augment }
}
