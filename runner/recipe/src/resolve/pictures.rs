//! A user's own pictures: the files in the folder that a cell names, and the part seen of each picture.

use crate::files::{ArrayProblem, Files};
use crate::keys::lookup::{KeyId, id};
use crate::resolve::cell::Cell;
use crate::resolve::shared_keys::{COPY_DATA, DATASET_KIND, DATASET_PATH, USED_NODES};
use crate::spec::family::Family;
use crate::text::finding::Finding;
use crate::values::typed_key::Defaulted;
use crate::values::value;
use crate::{
    AugmentKind, Augmentation, Cluster, Dataset, DatasetKind, PictureCounts, PictureProfile, Shape, Source,
};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const RESIZE: Defaulted<u64> = Defaulted::whole("dataset.resize");
const CROP: Defaulted<u64> = Defaulted::whole("dataset.crop");
const AUGMENT: KeyId = id("dataset.augment");

/// Folders of pictures, each looked at once.
#[derive(Default)]
pub(crate) struct PictureFolders {
    seen: BTreeMap<PathBuf, Result<PictureCounts, Vec<ArrayProblem>>>,
}

impl PictureFolders {
    /// The pictures that a cell names, or what stands for them where they cannot be used.
    pub(crate) fn of(&mut self, cell: &mut Cell<'_>, files: &dyn Files, path: &Path) -> PictureProfile {
        let resize = RESIZE.of(cell.settings) as u32;
        let crop = CROP.of(cell.settings) as u32;
        cell.findings.extend(too_wide(cell, resize, crop));
        let counts = self.counts(cell, files, path).unwrap_or(PictureCounts::UNKNOWN);
        PictureProfile::of(counts, resize, crop)
    }

    fn counts(&mut self, cell: &mut Cell<'_>, files: &dyn Files, path: &Path) -> Option<PictureCounts> {
        let Some(span) = cell.settings.given(DATASET_PATH).map(|leaf| leaf.span) else {
            cell.miss(DATASET_PATH, ": your own pictures are in a folder of yours");
            return None;
        };
        let found = self.seen.entry(path.to_owned()).or_insert_with(|| files.pictures(path));
        let problems = match found {
            Ok(counts) => return Some(*counts),
            Err(problems) => problems,
        };
        cell.findings.extend(problems.iter().map(|problem| {
            Finding::new("R190", problem.reason.clone())
                .at_option(span.or(cell.settings.span(DATASET_KIND)), "this folder")
                .note(value::more("R190"))
                .cure(problem.cure.clone())
        }));
        None
    }
}

/// A square that no scaled picture holds.
fn too_wide(cell: &Cell<'_>, resize: u32, crop: u32) -> Option<Finding> {
    (crop > resize).then(|| {
        let title = format!("no square of {crop} pixels lies in a picture whose shorter side has {resize}");
        Finding::new("R191", title)
            .at_option(cell.settings.span(CROP), "the square")
            .at_option(cell.settings.span(RESIZE), "the shorter side")
            .cure(format!("set `dataset.resize` to {crop} or more, or take a smaller `crop`"))
    })
}

/// How training images are changed; data that are no images are refused.
pub(crate) fn augmentation(cell: &mut Cell<'_>, source: &Source) -> Augmentation {
    let names = cell.settings.list(AUGMENT);
    let augment = Augmentation::of(names.iter().filter_map(|name| AugmentKind::named(name)));
    let shape = source.profile().input;
    if augment != Augmentation::NONE && !matches!(shape, Shape::Image(..)) {
        cell.findings.push(
            Finding::new("R193", "the samples are no images, of which parts could be cut or sides exchanged")
                .at_option(cell.settings.span(AUGMENT), "changes images")
                .at_option(cell.settings.span(DATASET_KIND), "no images")
                .cure(match source.kind() {
                    DatasetKind::Npy | DatasetKind::Safetensors => {
                        "leave out `augment`, or store images as [samples, channels, rows, columns]"
                    }
                    DatasetKind::Mnist
                    | DatasetKind::FashionMnist
                    | DatasetKind::Cifar10
                    | DatasetKind::Cifar100
                    | DatasetKind::Synthetic
                    | DatasetKind::ImageFolder
                    | DatasetKind::TextLines
                    | DatasetKind::Text => "leave out `augment`",
                }),
        );
    }
    augment
}

/// Pictures that other machines have to have, although they are not copied there.
pub(crate) fn copied(cell: &Cell<'_>, dataset: &Dataset, cluster: &Cluster) -> Option<Finding> {
    let asked = COPY_DATA.of(cell.settings) && !cluster.all_local();
    (asked && !dataset.source.kind().is_copied()).then(|| {
        Finding::new("R192", "a folder of pictures is not copied to other machines")
            .at_option(cell.settings.span(COPY_DATA), "asks for copies")
            .at_option(cell.settings.span(USED_NODES), "ranks on other machines")
            .at_option(cell.settings.span(DATASET_KIND), "pictures")
            .cure("copy the folder yourself, as by `rsync -a`, to the same path or into `data` of the inventory, and leave out `copy-data`")
    })
}
