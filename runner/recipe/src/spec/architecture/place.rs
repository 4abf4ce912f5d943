//! How layers are put in place: shapes, parameters, operations.

use crate::{DatasetProfile, Init, Layer, LayeredModel, ModelKind, Parameter, PlacedLayer, Shape};

/// Why a layer has no place: its index, and a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Misfit {
    pub(crate) layer: usize,
    pub(crate) reason: String,
}

/// No model has more weights than this: positions and numbers of elements travel as 32 bits.
pub(crate) const MOST_WEIGHTS: u64 = (1 << 32) - 1;

/// Puts layers in place from the input on, as far as they fit.
pub(crate) fn place(
    kind: ModelKind,
    layers: &[Layer],
    data: DatasetProfile,
) -> (LayeredModel, Option<Misfit>) {
    let (channels, rows, columns) = data.input;
    let input = Shape::Image(channels, rows, columns);
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
        let placed = output(layer, shape).and_then(|output| {
            let placed = placed(layer, Passed { input: shape, output }, &model.layers);
            weights = weights.saturating_add(count(&placed.parameters));
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
            Err(reason) => return (model, Some(Misfit { layer: index, reason })),
        }
    }
    let misfit = (shape != Shape::Flat(data.classes)).then(|| Misfit {
        layer: layers.len().saturating_sub(1),
        reason: format!("the last layer gives {}, but the data has {} classes", words(shape), data.classes),
    });
    (model, misfit)
}

fn count(parameters: &[Parameter]) -> u64 {
    let size =
        |shape: &[usize]| shape.iter().fold(1_u64, |product, &side| product.saturating_mul(side as u64));
    parameters.iter().fold(0, |sum: u64, parameter| sum.saturating_add(size(&parameter.shape)))
}

/// A shape in words: `an image of 3 x 32 x 32`.
fn words(shape: Shape) -> String {
    match shape {
        Shape::Flat(size) => format!("a flat vector of {size}"),
        Shape::Image(channels, rows, columns) => format!("an image of {channels} x {rows} x {columns}"),
    }
}

fn output(layer: &Layer, input: Shape) -> Result<Shape, String> {
    match (layer, input) {
        (Layer::Linear { outputs }, Shape::Flat(_)) => Ok(Shape::Flat(*outputs)),
        (Layer::Linear { .. }, image) => {
            Err(format!("a linear layer takes a flat vector, not {}: put `flatten` before it", words(image)))
        }
        (Layer::Relu | Layer::Dropout { .. }, shape) => Ok(shape),
        (Layer::Flatten, shape) => Ok(Shape::Flat(shape.size())),
        (Layer::Conv { outputs, kernel, stride, padding }, Shape::Image(_, rows, columns)) => {
            let (rows, columns) = (
                slide(rows + 2 * padding, *kernel, *stride)?,
                slide(columns + 2 * padding, *kernel, *stride)?,
            );
            Ok(Shape::Image(*outputs, rows, columns))
        }
        (
            Layer::MaxPool { kernel, stride } | Layer::AvgPool { kernel, stride },
            Shape::Image(channels, rows, columns),
        ) => Ok(Shape::Image(channels, slide(rows, *kernel, *stride)?, slide(columns, *kernel, *stride)?)),
        (Layer::Conv { .. } | Layer::MaxPool { .. } | Layer::AvgPool { .. }, Shape::Flat(size)) => {
            Err(format!("it takes an image, not a flat vector of {size}"))
        }
    }
}

/// Positions of a window along a side; what is left over at the end is not covered, as in PyTorch.
fn slide(side: usize, kernel: usize, stride: usize) -> Result<usize, String> {
    if kernel > side {
        return Err(format!("a window of {kernel} does not fit a side of {side}"));
    }
    Ok((side - kernel) / stride + 1)
}

/// The shapes of an example on both sides of a layer.
struct Passed {
    input: Shape,
    output: Shape,
}

fn placed(layer: &Layer, shapes: Passed, before: &[PlacedLayer]) -> PlacedLayer {
    let Passed { input, output } = shapes;
    let kind = layer.kind();
    let number = before.iter().filter(|placed| placed.layer.kind() == kind).count() + 1;
    let name = format!("{kind}{number}");
    let parameters = parameters(layer, input, &name);
    PlacedLayer { name, layer: layer.clone(), input, output, parameters, flops: flops(layer, input, output) }
}

fn parameters(layer: &Layer, input: Shape, name: &str) -> Vec<Parameter> {
    let (weight, outputs) = match (layer, input) {
        (Layer::Linear { outputs }, input) => (vec![*outputs, input.size()], *outputs),
        (Layer::Conv { outputs, kernel, .. }, Shape::Image(channels, ..)) => {
            (vec![*outputs, channels, *kernel, *kernel], *outputs)
        }
        // A convolution over a flat vector has no place, and layers without weights have none to list.
        (Layer::Conv { .. }, Shape::Flat(_))
        | (
            Layer::MaxPool { .. }
            | Layer::AvgPool { .. }
            | Layer::Relu
            | Layer::Dropout { .. }
            | Layer::Flatten,
            _,
        ) => return Vec::new(),
    };
    vec![
        Parameter { name: format!("{name}.weight"), shape: weight },
        Parameter { name: format!("{name}.bias"), shape: vec![outputs] },
    ]
}

/// Operations of one example's forward pass. The bias is what a sum starts from, so that it costs nothing.
fn flops(layer: &Layer, input: Shape, output: Shape) -> u64 {
    let per_output = match (layer, input) {
        (Layer::Linear { .. }, input) => 2 * input.size() as u64,
        (Layer::Conv { kernel, .. }, Shape::Image(channels, ..)) => 2 * (channels * kernel * kernel) as u64,
        (Layer::MaxPool { kernel, .. } | Layer::AvgPool { kernel, .. }, _) => (kernel * kernel) as u64,
        (Layer::Relu | Layer::Dropout { .. }, _) => 1,
        (Layer::Conv { .. }, Shape::Flat(_)) | (Layer::Flatten, _) => 0,
    };
    per_output.saturating_mul(output.size() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A flat layer of `outputs` over an image of one channel.
    fn misfit(rows: usize, columns: usize, outputs: usize) -> Option<Misfit> {
        let data = DatasetProfile { input: (1, rows, columns), classes: outputs, files: None };
        place(ModelKind::Sequential, &[Layer::Flatten, Layer::Linear { outputs }], data).1
    }

    #[test]
    fn a_model_has_fewer_weights_than_32_bits_can_number() {
        // 65535 x 65537 = 2^32 - 1, and one more.
        assert_eq!(misfit(256, 256, 65_535), None);
        let reason = "the model would have more than 2^32 - 1 weights".to_owned();
        assert_eq!(misfit(255, 257, 65_536), Some(Misfit { layer: 1, reason: reason.clone() }));
        let layers = [Layer::Flatten, Layer::Linear { outputs: 9 }, Layer::Linear { outputs: usize::MAX }];
        let data = DatasetProfile { input: (1, 1, 1), classes: 9, files: None };
        assert_eq!(place(ModelKind::Sequential, &layers, data).1, Some(Misfit { layer: 2, reason }));
    }
}
