//! Cures for a named model that does not fit the data: larger samples, or a model that fits.

use crate::spec::architecture::{self, Sizes};
use crate::{DatasetProfile, ModelKind, Shape, ShapedBy};

/// The longest side of an image, in pixels, and the longest text, in tokens, that are tried.
const LONGEST: usize = 512;

/// Models that a cure names.
const MOST_NAMES: usize = 5;

/// Change that makes a named model fit, or models that do; `None` if nothing is known that does.
pub(crate) fn cure(kind: ModelKind, sizes: Sizes, data: DatasetProfile) -> Option<String> {
    let larger = larger_samples(kind, sizes, data);
    let other = fitting_models(kind, sizes, data);
    match (larger, other) {
        (Some(larger), Some(other)) => Some(format!("{larger}, or {other}")),
        (larger, other) => larger.or(other),
    }
}

/// The key that makes samples large enough for a model, where they only have to be larger.
fn larger_samples(kind: ModelKind, sizes: Sizes, data: DatasetProfile) -> Option<String> {
    let layers = architecture::layers(kind, sizes, data.classes)?;
    let fits = |input| architecture::place(kind, &layers, DatasetProfile { input, ..data }).1.is_none();
    match (data.shaped_by, data.input) {
        (ShapedBy::Crop, Shape::Image(channels, ..)) => {
            let least = (1..=LONGEST).find(|side| fits(Shape::Image(channels, *side, *side)))?;
            Some(format!("set `dataset.crop`, and with it `dataset.resize`, to {least} or more"))
        }
        (ShapedBy::Context, Shape::Tokens(_, vocabulary)) => {
            let least = (1..=LONGEST).find(|length| fits(Shape::Tokens(*length, vocabulary)))?;
            Some(format!("set `dataset.context` to {least} or more"))
        }
        // No key changes the others, nor makes anything else of pictures and texts.
        (ShapedBy::Kind | ShapedBy::Arrays, _)
        | (ShapedBy::Crop, Shape::Flat(_) | Shape::Tokens(..) | Shape::Sequence(..))
        | (ShapedBy::Context, Shape::Flat(_) | Shape::Image(..) | Shape::Sequence(..)) => None,
    }
}

fn fitting_models(kind: ModelKind, sizes: Sizes, data: DatasetProfile) -> Option<String> {
    let fits = |other: &ModelKind| {
        let layers = architecture::layers(*other, sizes, data.classes);
        *other != kind && layers.is_some_and(|layers| architecture::place(*other, &layers, data).1.is_none())
    };
    let fitting: Vec<String> =
        (ModelKind::ALL.iter().copied()).filter(fits).map(|other| format!("`{}`", other.name())).collect();
    let (last, others) = fitting[..fitting.len().min(MOST_NAMES)].split_last()?;
    Some(match others {
        [] => format!("take {last}, which fits"),
        others => format!("take a model that fits, as {} or {last}", others.join(", ")),
    })
}
