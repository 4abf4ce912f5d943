//! How layers are put in place: shapes, parameters, operations.

use super::sequence;
use super::size::{flops, parameters};
use super::window::Window;
use crate::spec::placed_layer::MOST_WEIGHTS;
use crate::{
    DatasetProfile, Init, Layer, LayeredModel, ModelKind, Parameter, Paths, PlacedLayer, Shape, Targets,
};

/// Why a layer has no place: its index and name, and a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Misfit {
    pub(crate) layer: usize,
    pub(crate) name: String,
    pub(crate) reason: String,
}

/// Puts layers in place from the input on, as far as they fit.
pub(crate) fn place(
    kind: ModelKind,
    layers: &[Layer],
    data: DatasetProfile,
) -> (LayeredModel, Option<Misfit>) {
    let input = data.input;
    let mut model = LayeredModel {
        kind,
        input,
        classes: data.classes,
        layers: Vec::with_capacity(layers.len()),
        init: Init::default(),
    };
    let mut shape = input;
    let mut weights = 0_u64;
    for (index, layer) in layers.iter().enumerate() {
        let placed = next(layer, shape, &model.layers, "").and_then(|placed| {
            head_fits(&placed, data)?;
            weights = weights.saturating_add(count(&placed.operands()));
            if weights > MOST_WEIGHTS {
                Err("the model would have more than 2^32 - 1 weights".to_owned())
            } else {
                Ok(placed)
            }
        });
        match placed {
            Ok(placed) => {
                shape = placed.output;
                model.layers.push(placed);
            }
            Err(reason) => {
                let name = own_name(layer, &model.layers, "");
                return (model, Some(Misfit { layer: index, name, reason }));
            }
        }
    }
    let reason = if shape != data.scores() {
        Some(other_scores(shape, data))
    } else if model.weighted_layers().is_empty() {
        Some("no layer of the model has weights that are trained".to_owned())
    } else {
        None
    };
    let name = model.layers.last().map_or_else(String::new, |last| last.name.clone());
    let misfit = reason.map(|reason| Misfit { layer: layers.len().saturating_sub(1), name, reason });
    (model, misfit)
}

fn other_scores(found: Shape, data: DatasetProfile) -> String {
    let shape = found;
    let classes = data.classes;
    let found = shape.words();
    match data.targets {
        Targets::Class => {
            let cure = match shape {
                Shape::Flat(_) => format!(": end with a `linear` layer of {classes} outputs"),
                Shape::Image(..) | Shape::Tokens(..) | Shape::Sequence(..) => String::new(),
            };
            format!("the last layer gives {found}, but the data has {classes} classes{cure}")
        }
        Targets::NextTokens => format!(
            "the last layer gives {found}, but each position of a text has {classes} tokens that may come next: end with \
             `tied-head`, or with a `linear` layer of {classes} outputs"
        ),
    }
}

/// An auxiliary head scores what the model scores.
fn head_fits(placed: &PlacedLayer, data: DatasetProfile) -> Result<(), String> {
    let scores = placed.paths.branch.last().map(|last| last.output);
    match (&placed.layer, scores) {
        (Layer::AuxiliaryHead { .. }, Some(scores)) if scores != data.scores() => {
            Err(format!("in its head, {}", other_scores(scores, data)))
        }
        (_, _) => Ok(()),
    }
}

fn count(parameters: &[&Parameter]) -> u64 {
    parameters.iter().fold(0, |sum: u64, parameter| {
        let sides = parameter.shape.iter();
        sum.saturating_add(sides.fold(1_u64, |product, &side| product.saturating_mul(side as u64)))
    })
}

/// The name of the layer behind those `before` it: its kind, and which of that kind it is.
fn own_name(layer: &Layer, before: &[PlacedLayer], prefix: &str) -> String {
    let kind = layer.kind();
    let number = before.iter().filter(|placed| placed.layer.kind() == kind).count() + 1;
    format!("{prefix}{kind}{number}")
}

/// The layer behind those `before` it in the same row, the names of which begin with `prefix`.
fn next(layer: &Layer, input: Shape, before: &[PlacedLayer], prefix: &str) -> Result<PlacedLayer, String> {
    let name = own_name(layer, before, prefix);
    let paths = paths(layer, input, &name)?;
    // The only layer that depends on another one than that before it.
    let tied = matches!(layer, Layer::TiedHead);
    let output =
        if tied { sequence::tied_scores(input, before, prefix)? } else { output(layer, input, &paths)? };
    let parameters = parameters(layer, input, &name, &paths);
    let flops = flops(layer, input, output, &paths);
    Ok(PlacedLayer { name, layer: layer.clone(), input, output, parameters, flops, paths })
}

/// The layers inside of a block of any kind in their places.
fn paths(layer: &Layer, input: Shape, name: &str) -> Result<Paths, String> {
    match layer {
        Layer::Residual { branch, .. } if branch.is_empty() => Err("its branch has no layer".to_owned()),
        Layer::Residual { branch, shortcut } => Ok(Paths {
            branch: row(branch, input, Inside::Branch, &format!("{name}."))?,
            shortcut: row(shortcut, input, Inside::Shortcut, &format!("{name}.shortcut."))?,
            rows: Vec::new(),
        }),
        Layer::Branches { branches } => {
            let placed = (1..).zip(branches).map(|(number, layers)| {
                row(layers, input, Inside::Row(number), &format!("{name}.{number}."))
            });
            Ok(Paths { rows: placed.collect::<Result<_, _>>()?, ..Paths::default() })
        }
        Layer::Block { layers } | Layer::Frozen { layers } | Layer::AuxiliaryHead { layers, .. }
            if layers.is_empty() =>
        {
            Err("it has no layer".to_owned())
        }
        Layer::Block { layers } => branch(layers, input, Inside::Block, name),
        Layer::Frozen { layers } => {
            let paths = branch(layers, input, Inside::Frozen, name)?;
            let weights = paths.layers().any(|inner| !inner.parameters.is_empty());
            if weights { Ok(paths) } else { Err("none of its layers has weights to freeze".to_owned()) }
        }
        Layer::AuxiliaryHead { layers, .. } => branch(layers, input, Inside::Head, name),
        Layer::Linear { .. }
        | Layer::Conv { .. }
        | Layer::MaxPool { .. }
        | Layer::AvgPool { .. }
        | Layer::GlobalAvgPool
        | Layer::GlobalMaxPool
        | Layer::BatchNorm
        | Layer::LocalResponseNorm { .. }
        | Layer::Relu
        | Layer::Embedding { .. }
        | Layer::TextConv { .. }
        | Layer::LayerNorm
        | Layer::Attention { .. }
        | Layer::Gelu
        | Layer::TiedHead
        | Layer::Dropout { .. }
        | Layer::Flatten => Ok(Paths::default()),
    }
}

fn branch(layers: &[Layer], input: Shape, inside: Inside, name: &str) -> Result<Paths, String> {
    Ok(Paths { branch: row(layers, input, inside, &format!("{name}."))?, ..Paths::default() })
}

/// Which row of a block layers lie in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Inside {
    Branch,
    Shortcut,
    Block,
    Frozen,
    Head,
    /// Of several whose channels are put one behind the other, by its number.
    Row(usize),
}

impl Inside {
    /// Its name, as in `layer 2 of its branch`.
    fn words(self) -> String {
        match self {
            Self::Branch => "branch".to_owned(),
            Self::Shortcut => "shortcut".to_owned(),
            Self::Block => "block".to_owned(),
            Self::Frozen => "frozen layers".to_owned(),
            Self::Head => "head".to_owned(),
            Self::Row(number) => format!("branch {number}"),
        }
    }

    /// Whether blocks may lie there whose ways come together again.
    fn holds_blocks(self) -> bool {
        match self {
            Self::Block | Self::Frozen | Self::Head => true,
            Self::Branch | Self::Shortcut | Self::Row(_) => false,
        }
    }

    /// Whether a layer may lie there.
    fn holds(self, layer: &Layer) -> Result<(), &'static str> {
        match layer {
            Layer::Residual { .. } | Layer::Branches { .. } if !self.holds_blocks() => {
                Err("such a block holds no other; put them one behind the other")
            }
            Layer::Dropout { .. } if matches!(self, Self::Row(_)) => {
                Err("branches hold no dropout; put it behind the block")
            }
            Layer::Block { .. } => Err("a block of layers lies in no other; list its layers in its place"),
            Layer::Frozen { .. } => Err("frozen layers lie in no block; freeze the whole block"),
            Layer::AuxiliaryHead { .. } => Err("an auxiliary head lies in no block; put it behind the block"),
            Layer::Embedding { .. } | Layer::TiedHead => {
                Err("it lies in no block: the embedding is the model's first layer, the tied head its last")
            }
            Layer::Linear { .. }
            | Layer::Conv { .. }
            | Layer::MaxPool { .. }
            | Layer::AvgPool { .. }
            | Layer::GlobalAvgPool
            | Layer::GlobalMaxPool
            | Layer::TextConv { .. }
            | Layer::BatchNorm
            | Layer::LocalResponseNorm { .. }
            | Layer::Residual { .. }
            | Layer::Branches { .. }
            | Layer::Relu
            | Layer::LayerNorm
            | Layer::Attention { .. }
            | Layer::Gelu
            | Layer::Dropout { .. }
            | Layer::Flatten => Ok(()),
        }
    }
}

fn row(layers: &[Layer], input: Shape, inside: Inside, prefix: &str) -> Result<Vec<PlacedLayer>, String> {
    let what = inside.words();
    let mut placed: Vec<PlacedLayer> = Vec::with_capacity(layers.len());
    for layer in layers {
        let shape = placed.last().map_or(input, |last| last.output);
        let number = placed.len() + 1;
        let next =
            inside.holds(layer).map_err(str::to_owned).and_then(|()| next(layer, shape, &placed, prefix));
        placed.push(next.map_err(|reason| format!("layer {number} of its {what}: {reason}"))?);
    }
    Ok(placed)
}

fn output(layer: &Layer, input: Shape, paths: &Paths) -> Result<Shape, String> {
    match (layer, input) {
        (Layer::Embedding { .. } | Layer::TiedHead, input) => sequence::output(layer, input),
        (_, Shape::Tokens(..)) => {
            Err(format!("it takes numbers, not {}: put `embedding` before it", input.words()))
        }
        (Layer::LayerNorm | Layer::Attention { .. } | Layer::Gelu | Layer::TextConv { .. }, input) => {
            sequence::output(layer, input)
        }
        (Layer::AuxiliaryHead { .. }, input) => Ok(input),
        (Layer::Block { .. } | Layer::Frozen { .. }, input) => {
            Ok(paths.branch.last().map_or(input, |last| last.output))
        }
        (Layer::Linear { outputs }, Shape::Flat(_)) => Ok(Shape::Flat(*outputs)),
        (Layer::Linear { outputs }, Shape::Sequence(length, _)) => Ok(Shape::Sequence(length, *outputs)),
        (Layer::Linear { .. }, image) => {
            Err(format!("a linear layer takes a flat vector, not {}: put `flatten` before it", image.words()))
        }
        (Layer::BatchNorm, text @ Shape::Sequence(..)) => Err(format!(
            "it takes an image or a flat vector, not {}: `layer-norm` is for texts",
            text.words()
        )),
        (Layer::Relu | Layer::Dropout { .. } | Layer::BatchNorm, shape) => Ok(shape),
        (Layer::Flatten, shape) => Ok(Shape::Flat(shape.size())),
        (Layer::GlobalAvgPool | Layer::GlobalMaxPool, Shape::Image(channels, ..)) => {
            Ok(Shape::Flat(channels))
        }
        (Layer::GlobalMaxPool, Shape::Sequence(_, width)) => Ok(Shape::Flat(width)),
        (Layer::GlobalMaxPool, flat) => {
            Err(format!("it takes an image or positions of a text, not {}", flat.words()))
        }
        (Layer::Residual { .. }, input) => sum(input, paths),
        (Layer::Branches { .. }, input) => joined(input, paths),
        (Layer::LocalResponseNorm { .. }, Shape::Image(..)) => Ok(input),
        (
            Layer::Conv { outputs, kernel, stride, padding, groups, .. },
            Shape::Image(channels, rows, columns),
        ) => {
            if !channels.is_multiple_of(*groups) || !outputs.is_multiple_of(*groups) {
                return Err(format!(
                    "{groups} groups do not divide {channels} channels that come in and {outputs} that come out"
                ));
            }
            let window = Window { kernel: *kernel, stride: *stride, padding: *padding, ceil: false };
            Ok(Shape::Image(*outputs, window.slide(rows)?, window.slide(columns)?))
        }
        (
            Layer::MaxPool { kernel, stride, padding, ceil }
            | Layer::AvgPool { kernel, stride, padding, ceil },
            Shape::Image(channels, rows, columns),
        ) => {
            if 2 * padding > *kernel {
                return Err(format!("padding of {padding} is more than half of a window of {kernel}"));
            }
            let window = Window { kernel: *kernel, stride: *stride, padding: *padding, ceil: *ceil };
            Ok(Shape::Image(channels, window.slide(rows)?, window.slide(columns)?))
        }
        (
            Layer::Conv { .. }
            | Layer::MaxPool { .. }
            | Layer::AvgPool { .. }
            | Layer::GlobalAvgPool
            | Layer::LocalResponseNorm { .. },
            other,
        ) => Err(format!("it takes an image, not {}", other.words())),
    }
}

/// Shape of a block's result: both ways through it must give the same one.
fn sum(input: Shape, paths: &Paths) -> Result<Shape, String> {
    let end = |row: &[PlacedLayer]| row.last().map_or(input, |last| last.output);
    let branch = end(&paths.branch);
    let shortcut = end(&paths.shortcut);
    if branch == shortcut {
        return Ok(branch);
    }
    let cure = if paths.shortcut.is_empty() {
        "; give it a `shortcut` with a convolution of kernel 1 that has the branch's stride and outputs"
    } else {
        ""
    };
    Err(format!("its branch gives {}, its shortcut {}{cure}", branch.words(), shortcut.words()))
}

/// Shape of rows that are put one behind the other: images with the same sides by their channels, or flat vectors.
fn joined(input: Shape, paths: &Paths) -> Result<Shape, String> {
    let mut whole: Option<Shape> = None;
    for (number, row) in (1..).zip(&paths.rows) {
        let end = row.last().map_or(input, |last| last.output);
        whole = match (whole, end) {
            (None, Shape::Image(..) | Shape::Flat(_)) => Some(end),
            (Some(Shape::Image(before, rows, columns)), Shape::Image(channels, ..))
                if end == Shape::Image(channels, rows, columns) =>
            {
                Some(Shape::Image(before.saturating_add(channels), rows, columns))
            }
            (Some(Shape::Flat(before)), Shape::Flat(values)) => {
                Some(Shape::Flat(before.saturating_add(values)))
            }
            (None | Some(Shape::Tokens(..) | Shape::Sequence(..)), _) => {
                return Err(format!(
                    "its branch {number} gives {}, not an image or a flat vector",
                    end.words()
                ));
            }
            (Some(Shape::Image(_, rows, columns)), _) => {
                let end = end.words();
                return Err(format!(
                    "its branch {number} gives {end}, those before it images of {rows} x {columns}"
                ));
            }
            (Some(Shape::Flat(_)), _) => {
                return Err(format!(
                    "its branch {number} gives {}, those before it flat vectors",
                    end.words()
                ));
            }
        };
    }
    whole.ok_or_else(|| "it has no branch".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A flat layer of `outputs` over an image of one channel.
    fn misfit(rows: usize, columns: usize, outputs: usize) -> Option<Misfit> {
        let data = DatasetProfile::of_classes(Shape::Image(1, rows, columns), outputs);
        place(ModelKind::Sequential, &[Layer::Flatten, Layer::Linear { outputs }], data).1
    }

    #[test]
    fn a_model_has_fewer_weights_than_32_bits_can_number() {
        // 65535 x 65537 = 2^32 - 1, and one more.
        assert_eq!(misfit(256, 256, 65_535), None);
        let named = |name: &str, layer| {
            let reason = "the model would have more than 2^32 - 1 weights".to_owned();
            Misfit { layer, name: name.to_owned(), reason }
        };
        assert_eq!(misfit(255, 257, 65_536), Some(named("linear1", 1)));
        let layers = [Layer::Flatten, Layer::Linear { outputs: 9 }, Layer::Linear { outputs: usize::MAX }];
        let data = DatasetProfile::of_classes(Shape::Image(1, 1, 1), 9);
        assert_eq!(place(ModelKind::Sequential, &layers, data).1, Some(named("linear2", 2)));
    }
}
