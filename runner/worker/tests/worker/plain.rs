//! Layers in plain Rust and 64 bits, written from their definitions, one example after another: nothing of libtorch.

use recipe::{Layer, LayeredModel, PlacedLayer, Shape};

/// The values of a batch, a row for each example.
pub(crate) type Rows = Vec<Vec<f64>>;

/// Mean and population variance of each channel.
pub(crate) type Moments = Vec<(f64, f64)>;

/// The mean cross-entropy of a batch.
pub(crate) fn loss(model: &LayeredModel, weights: &[f64], rows: Rows, labels: &[i64]) -> f64 {
    let scores = scores(model, weights, rows, &mut |_, own| own);
    let losses = scores.iter().zip(labels).map(|(row, label)| {
        let own = row[*label as usize];
        row.iter().map(|score| (score - own).exp()).sum::<f64>().ln()
    });
    losses.sum::<f64>() / labels.len() as f64
}

/// The class scores. `moments` may replace those of a batch norm, which it is given with the layer's name.
pub(crate) fn scores(
    model: &LayeredModel,
    weights: &[f64],
    rows: Rows,
    moments: &mut dyn FnMut(&str, Moments) -> Moments,
) -> Rows {
    let mut weights = weights;
    let out = model.layers.iter().fold(rows, |rows, layer| result(layer, &mut weights, rows, moments));
    assert!(weights.is_empty(), "{} weights are left", weights.len());
    out
}

fn take<'a>(weights: &mut &'a [f64], count: usize) -> &'a [f64] {
    let (own, rest) = weights.split_at(count);
    *weights = rest;
    own
}

fn result(
    placed: &PlacedLayer,
    weights: &mut &[f64],
    rows: Rows,
    moments: &mut dyn FnMut(&str, Moments) -> Moments,
) -> Rows {
    match &placed.layer {
        Layer::Linear { outputs } => {
            let weight = take(weights, outputs * placed.input.size());
            let bias = take(weights, *outputs);
            let one = |row: &Vec<f64>| -> Vec<f64> {
                weight.chunks(row.len()).zip(bias).map(|(weight, bias)| bias + dot(weight, row)).collect()
            };
            rows.iter().map(one).collect()
        }
        Layer::Conv { outputs, kernel, bias, groups, .. } => {
            let channels = image(placed.input).0 / groups;
            let weight = take(weights, outputs * channels * kernel * kernel);
            let bias = if *bias { take(weights, *outputs) } else { &[] };
            rows.iter().map(|row| convolution(placed, weight, bias, row)).collect()
        }
        Layer::MaxPool { .. } | Layer::AvgPool { .. } | Layer::GlobalAvgPool | Layer::GlobalMaxPool => {
            rows.iter().map(|row| pool(placed, row)).collect()
        }
        Layer::LocalResponseNorm { .. } => rows.iter().map(|row| response(placed, row)).collect(),
        Layer::BatchNorm => {
            let channels = match placed.input {
                Shape::Image(channels, ..) | Shape::Flat(channels) => channels,
                Shape::Tokens(..) | Shape::Sequence(..) => unreachable!("it takes no text"),
            };
            let weight = take(weights, channels);
            let bias = take(weights, channels);
            batch_norm(placed, weight, bias, rows, moments)
        }
        Layer::Residual { .. } => {
            let mut way = |layers: &[PlacedLayer], weights: &mut &[f64]| {
                layers.iter().fold(rows.clone(), |rows, inner| result(inner, weights, rows, moments))
            };
            let branch = way(&placed.paths.branch, weights);
            let shortcut = way(&placed.paths.shortcut, weights);
            let sum =
                |(one, other): (Vec<f64>, Vec<f64>)| one.iter().zip(other).map(|(a, b)| a + b).collect();
            branch.into_iter().zip(shortcut).map(sum).collect()
        }
        Layer::Branches { .. } => {
            let mut joined = vec![Vec::new(); rows.len()];
            for layers in &placed.paths.rows {
                let ends =
                    layers.iter().fold(rows.clone(), |rows, inner| result(inner, weights, rows, moments));
                joined.iter_mut().zip(ends).for_each(|(joined, end)| joined.extend(end));
            }
            joined
        }
        Layer::Relu => rows.iter().map(|row| row.iter().map(|value| value.max(0.0)).collect()).collect(),
        Layer::Flatten => rows,
        Layer::Dropout { .. } => unreachable!("it is random"),
        Layer::Embedding { .. }
        | Layer::TextConv { .. }
        | Layer::LayerNorm
        | Layer::Attention { .. }
        | Layer::Gelu
        | Layer::Block { .. }
        | Layer::Frozen { .. }
        | Layer::AuxiliaryHead { .. }
        | Layer::TiedHead => unreachable!("PyTorch's numbers are in `texts` and `text_cnn`"),
    }
}

fn image(shape: Shape) -> (usize, usize, usize) {
    match shape {
        Shape::Image(channels, rows, columns) => (channels, rows, columns),
        Shape::Flat(_) | Shape::Tokens(..) | Shape::Sequence(..) => unreachable!("an image comes to it"),
    }
}

fn dot(one: &[f64], other: &[f64]) -> f64 {
    one.iter().zip(other).map(|(a, b)| a * b).sum()
}

/// The value at a place of an image that is widened by `padding`; `None` in the border.
fn at(shape: Shape, row: &[f64], channel: usize, place: [usize; 2], padding: usize) -> Option<f64> {
    let (_, height, width) = image(shape);
    let [y, x] = [place[0].checked_sub(padding)?, place[1].checked_sub(padding)?];
    (y < height && x < width).then(|| row[(channel * height + y) * width + x])
}

fn convolution(placed: &PlacedLayer, weight: &[f64], bias: &[f64], row: &[f64]) -> Vec<f64> {
    let Layer::Conv { kernel, stride, padding, groups, .. } = placed.layer else {
        unreachable!("a convolution")
    };
    let channels = image(placed.input).0 / groups;
    let (outputs, height, width) = image(placed.output);
    let mut out = Vec::new();
    for output in 0..outputs {
        for (y, x) in (0..height).flat_map(|y| (0..width).map(move |x| (y, x))) {
            let mut sum = bias.get(output).copied().unwrap_or(0.0);
            for channel in 0..channels {
                for (dy, dx) in (0..kernel).flat_map(|dy| (0..kernel).map(move |dx| (dy, dx))) {
                    let place = [y * stride + dy, x * stride + dx];
                    let from = output / (outputs / groups) * channels + channel;
                    let value = at(placed.input, row, from, place, padding).unwrap_or(0.0);
                    sum += value * weight[((output * channels + channel) * kernel + dy) * kernel + dx];
                }
            }
            out.push(sum);
        }
    }
    out
}

fn pool(placed: &PlacedLayer, row: &[f64]) -> Vec<f64> {
    let (channels, rows, columns) = image(placed.input);
    if placed.layer == Layer::GlobalAvgPool {
        let area = rows * columns;
        return row.chunks(area).map(|channel| channel.iter().sum::<f64>() / area as f64).collect();
    }
    if placed.layer == Layer::GlobalMaxPool {
        let largest = |channel: &[f64]| channel.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        return row.chunks(rows * columns).map(largest).collect();
    }
    let (Layer::MaxPool { kernel, stride, padding, .. } | Layer::AvgPool { kernel, stride, padding, .. }) =
        placed.layer
    else {
        unreachable!("a pool")
    };
    let (_, height, width) = image(placed.output);
    let mut out = Vec::new();
    for channel in 0..channels {
        for (y, x) in (0..height).flat_map(|y| (0..width).map(move |x| (y, x))) {
            let window =
                (0..kernel).flat_map(|dy| (0..kernel).map(move |dx| [y * stride + dy, x * stride + dx]));
            let values = window.filter_map(|place| at(placed.input, row, channel, place, padding));
            // A window may reach over the end of image and padding; a mean has no part there.
            let reach = |begin: usize, side: usize| kernel.min(side + 2 * padding - begin);
            out.push(match placed.layer {
                Layer::MaxPool { .. } => values.fold(f64::NEG_INFINITY, f64::max),
                _ => values.sum::<f64>() / (reach(y * stride, rows) * reach(x * stride, columns)) as f64,
            });
        }
    }
    out
}

fn response(placed: &PlacedLayer, row: &[f64]) -> Vec<f64> {
    let Layer::LocalResponseNorm { size, alpha, beta, k } = placed.layer else { unreachable!("a norm") };
    let (channels, rows, columns) = image(placed.input);
    let area = rows * columns;
    let one = |place: usize| {
        let channel = place / area;
        let around = channel.saturating_sub(size / 2)..=(channel + (size - 1) / 2).min(channels - 1);
        let squares: f64 = around.map(|channel| row[channel * area + place % area].powi(2)).sum();
        row[place] / (f64::from(k) + f64::from(alpha) / size as f64 * squares).powf(f64::from(beta))
    };
    (0..row.len()).map(one).collect()
}

fn batch_norm(
    placed: &PlacedLayer,
    weight: &[f64],
    bias: &[f64],
    mut rows: Rows,
    moments: &mut dyn FnMut(&str, Moments) -> Moments,
) -> Rows {
    let area = placed.input.size() / weight.len();
    let own: Moments = (0..weight.len())
        .map(|channel| {
            let values = || rows.iter().flat_map(|row| &row[channel * area..][..area]);
            let count = (rows.len() * area) as f64;
            let mean = values().sum::<f64>() / count;
            (mean, values().map(|value| (value - mean).powi(2)).sum::<f64>() / count)
        })
        .collect();
    let used = moments(&placed.name, own);
    for row in &mut rows {
        for (channel, values) in row.chunks_mut(area).enumerate() {
            let (mean, variance) = used[channel];
            for value in values {
                *value = (*value - mean) / (variance + 1e-5).sqrt() * weight[channel] + bias[channel];
            }
        }
    }
    rows
}
