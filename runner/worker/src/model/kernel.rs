//! Forward and backward pass of each kind of layer, straight on libtorch's kernels.
//!
//! The gradients of weights are written into the caller's flat memory by the kernel that computes them; those of a layer that
//! libtorch records are copied there.

use super::batch_norm::Normaliser;
use super::down::Down;
use super::dropout::Masks;
use super::flat::Weights;
use super::head::Head;
use super::operation::{self, Surroundings};
use super::recording::Recording;
use super::tensors::{dimensions, pair, split, views, views_mut};
use super::tied::{self, Tied};
use recipe::{Layer, PlacedLayer, Shape};
use tch::{Kind, TchError, Tensor};

/// Values of a layer's forward pass that its backward pass needs.
pub(super) enum Saved {
    Nothing,
    /// The layer's input, as its kernel took it.
    Input(Tensor),
    /// The result of a rectifier: where it is positive, the gradient passes.
    Output(Tensor),
    /// The input, and the place in it that each window chose.
    Chosen {
        input: Tensor,
        /// For each window the place of its largest value.
        places: Tensor,
    },
    /// The mask by which a dropout layer multiplied its input.
    Factor(Tensor),
    /// The operations that libtorch recorded, for its automatic differentiation.
    Recorded(Recording),
    /// Loss and gradient of an auxiliary head's scores.
    Head(Head),
}

impl Saved {
    /// The tensors that it keeps alive, without copies of weights.
    pub(super) fn tensors(&self) -> impl Iterator<Item = &Tensor> {
        let both = match self {
            Self::Nothing => [None, None],
            Self::Input(one) | Self::Output(one) | Self::Factor(one) => [Some(one), None],
            Self::Chosen { input, places } => [Some(input), Some(places)],
            Self::Recorded(recording) => recording.ends().map(Some),
            Self::Head(head) => head.ends().map(Some),
        };
        both.into_iter().flatten()
    }
}

/// State that a forward pass depends on besides weights and input.
pub(super) struct Pass<'a, 'b> {
    /// The mask of a dropout layer; without one it changes nothing.
    pub(super) factor: Option<Tensor>,
    /// Those of the dropout layers inside of a block.
    pub(super) masks: Masks,
    /// Where batch norm takes mean and variance from.
    pub(super) normaliser: &'a mut Normaliser<'b>,
    /// The embedding whose matrix a tied head shares.
    pub(super) tied: Option<Tied<'a>>,
    /// The tensors of frozen layers.
    pub(super) frozen: &'a [Tensor],
    /// Whether a gradient passes frozen layers on its way down: there are weights below.
    pub(super) passes_gradient: bool,
    /// Targets of an auxiliary head's loss; `None` leaves the head out.
    pub(super) labels: Option<&'a Tensor>,
}

/// Takes `x` through a layer.
pub(super) fn forward(
    layer: &PlacedLayer,
    weights: Weights<'_>,
    mut x: Tensor,
    pass: Pass<'_, '_>,
) -> Result<(Tensor, Saved), TchError> {
    match layer.layer {
        Layer::Linear { .. } => {
            let [weight, bias] = views(layer, weights)?;
            let rows = x.size()[0];
            let x = operation::rows(layer, &x)?;
            let y = bias.f_addmm(&x, &weight.f_transpose(0, 1)?)?;
            Ok((y.f_reshape(dimensions(rows, layer.output))?, Saved::Input(x)))
        }
        Layer::Embedding { .. } => {
            let tied::Embedded { vectors, tokens } = tied::embed(layer, weights, &x)?;
            Ok((vectors, Saved::Input(tokens)))
        }
        Layer::TiedHead => {
            let shared = pass.tied.ok_or_else(|| unshared(layer))?;
            Ok((shared.scores(&x)?, Saved::Input(x)))
        }
        Layer::Gelu => Ok((x.f_gelu(operation::EXACT_GELU)?, Saved::Input(x))),
        Layer::Frozen { .. } => untrained(layer, x, pass),
        Layer::AuxiliaryHead { weight: factor, .. } => match pass.labels {
            Some(labels) => {
                let (scores, recording) = record(layer, weights, &x, pass)?;
                let head = Head::of(recording, &scores, labels, factor)?;
                // The next layer may write over its input, and this one is recorded.
                Ok((x.f_detach_copy()?, Saved::Head(head)))
            }
            None => Ok((x, Saved::Nothing)),
        },
        Layer::Conv { .. }
        | Layer::TextConv { .. }
        | Layer::LocalResponseNorm { .. }
        | Layer::BatchNorm
        | Layer::Residual { .. }
        | Layer::Branches { .. }
        | Layer::Block { .. }
        | Layer::LayerNorm
        | Layer::Attention { .. } => match pass.normaliser {
            Normaliser::OfBatch => recorded(layer, weights, &x, pass),
            // No backward pass follows.
            Normaliser::Gathered(_) | Normaliser::Fixed(_) => {
                let views = split(layer, weights)?;
                let operands: Vec<&Tensor> = views.iter().map(|view| &**view).collect();
                let mut around = Surroundings { normaliser: pass.normaliser, masks: pass.masks };
                Ok((operation::result(layer, &operands, &x, &mut around)?, Saved::Nothing))
            }
        },
        Layer::MaxPool { kernel, stride, padding, ceil } => {
            let (y, places) =
                x.f_max_pool2d_with_indices(pair(kernel), pair(stride), pair(padding), [1, 1], ceil)?;
            Ok((y, Saved::Chosen { input: x, places }))
        }
        Layer::AvgPool { kernel, stride, padding, ceil } => {
            let y = x.f_avg_pool2d(pair(kernel), pair(stride), pair(padding), ceil, true, None)?;
            Ok((y, Saved::Input(x)))
        }
        Layer::GlobalMaxPool => {
            let (y, places) = operation::largest(layer, &x)?;
            Ok((y, Saved::Chosen { input: x, places }))
        }
        Layer::GlobalAvgPool => Ok((x.f_mean_dim(&[2_i64, 3][..], false, Kind::Float)?, Saved::Nothing)),
        Layer::Relu => {
            // In place: a layer that saved this tensor saved it as the result of another `relu`, which a
            // second one does not change.
            let y = x.f_relu_()?;
            Ok((y, Saved::Output(x)))
        }
        Layer::Dropout { .. } => match pass.factor {
            Some(factor) => Ok((x.f_mul(&factor)?, Saved::Factor(factor))),
            None => Ok((x, Saved::Nothing)),
        },
        Layer::Flatten => Ok((x.f_flatten(1, -1)?, Saved::Nothing)),
    }
}

fn unshared(layer: &PlacedLayer) -> TchError {
    TchError::Shape(format!("{} has no embedding to share a matrix with", layer.name))
}

/// A layer that libtorch records. The backward kernels of convolution and batch norm have no binding, and what can be made of
/// other kernels takes up to twice as long (two more convolutions) or ten times (unfolding).
fn recorded(
    layer: &PlacedLayer,
    weights: Weights<'_>,
    x: &Tensor,
    pass: Pass<'_, '_>,
) -> Result<(Tensor, Saved), TchError> {
    let (y, recording) = record(layer, weights, x, pass)?;
    Ok((handed_out(layer, y)?, Saved::Recorded(recording)))
}

/// The result of recorded layers: a copy if they end with a rectifier, which looks at its own result again, while a rectifier that
/// comes next would write over it.
fn handed_out(layer: &PlacedLayer, y: Tensor) -> Result<Tensor, TchError> {
    let row = matches!(layer.layer, Layer::Block { .. } | Layer::Frozen { .. });
    let rectified = layer.paths.branch.last().is_some_and(|last| matches!(last.layer, Layer::Relu));
    if row && rectified { y.f_detach_copy() } else { Ok(y) }
}

fn record(
    layer: &PlacedLayer,
    weights: Weights<'_>,
    x: &Tensor,
    pass: Pass<'_, '_>,
) -> Result<(Tensor, Recording), TchError> {
    let operands = split(layer, weights)?;
    let mut around = Surroundings { normaliser: pass.normaliser, masks: pass.masks };
    Recording::of(x, &operands, |x, operands| operation::result(layer, operands, x, &mut around))
}

/// Layers that are not trained: nothing is recorded where no weights lie below.
fn untrained(layer: &PlacedLayer, x: Tensor, pass: Pass<'_, '_>) -> Result<(Tensor, Saved), TchError> {
    let operands: Vec<&Tensor> = pass.frozen.iter().collect();
    let mut around = Surroundings { normaliser: pass.normaliser, masks: pass.masks };
    if !pass.passes_gradient {
        return Ok((operation::result(layer, &operands, &x, &mut around)?, Saved::Nothing));
    }
    let (y, recording) = Recording::of(&x, &[], |x, _| operation::result(layer, &operands, x, &mut around))?;
    Ok((handed_out(layer, y)?, Saved::Recorded(recording)))
}

/// Takes a gradient back through a layer, to its weights and to its input; of the latter nothing where
/// it is not needed.
pub(super) fn backward(
    layer: &PlacedLayer,
    saved: Saved,
    down: Down<'_>,
) -> Result<Option<Tensor>, TchError> {
    let gy = down.gy;
    match (layer.layer.clone(), saved) {
        (Layer::Linear { .. }, Saved::Input(x)) => linear(layer, &x, down),
        (
            Layer::Conv { .. }
            | Layer::TextConv { .. }
            | Layer::LocalResponseNorm { .. }
            | Layer::BatchNorm
            | Layer::Residual { .. }
            | Layer::Branches { .. }
            | Layer::Block { .. }
            | Layer::Frozen { .. }
            | Layer::LayerNorm
            | Layer::Attention { .. },
            Saved::Recorded(recording),
        ) => recording.backward(layer, down),
        (Layer::AuxiliaryHead { .. }, Saved::Head(head)) => head.backward(layer, down),
        (Layer::Embedding { .. }, Saved::Input(tokens)) => {
            let of_head = down.of_head.take();
            tied::embedding_gradient(layer, &tokens, gy, down.gradient, of_head.as_ref())?;
            Ok(None)
        }
        (Layer::TiedHead, Saved::Input(x)) => {
            let shared = down.tied.ok_or_else(|| unshared(layer))?;
            let tied::TiedGradients { of_input, of_matrix } = shared.backward(&x, gy)?;
            *down.of_head = Some(of_matrix);
            Ok(Some(of_input))
        }
        _ if !down.wants_input => Ok(None),
        (Layer::MaxPool { kernel, stride, padding, ceil }, Saved::Chosen { input, places }) => input
            .f_max_pool2d_with_indices_backward(
                gy,
                pair(kernel),
                pair(stride),
                pair(padding),
                [1, 1],
                ceil,
                &places,
            )
            .map(Some),
        (Layer::AvgPool { kernel, stride, padding, ceil }, Saved::Input(x)) => {
            x.f_avg_pool2d_backward(gy, pair(kernel), pair(stride), pair(padding), ceil, true, None).map(Some)
        }
        (Layer::GlobalMaxPool, Saved::Chosen { input, places }) => {
            chosen(layer, &input, &places, gy).map(Some)
        }
        (Layer::GlobalAvgPool, Saved::Nothing) => spread(layer, gy).map(Some),
        (Layer::Gelu, Saved::Input(x)) => x.f_gelu_backward(gy, operation::EXACT_GELU).map(Some),
        (Layer::Relu, Saved::Output(y)) => y.f_threshold_backward(gy, 0.0).map(Some),
        (Layer::Dropout { .. }, Saved::Factor(factor)) => gy.f_mul(&factor).map(Some),
        (Layer::Dropout { .. }, Saved::Nothing) => Ok(Some(gy.shallow_clone())),
        (Layer::Flatten, Saved::Nothing) => gy.f_reshape(dimensions(gy.size()[0], layer.input)).map(Some),
        _ => Err(TchError::Shape(format!("{} saved something else in its forward pass", layer.name))),
    }
}

/// The gradient of largest values: each goes to the place that was chosen.
fn chosen(layer: &PlacedLayer, x: &Tensor, places: &Tensor, gy: &Tensor) -> Result<Tensor, TchError> {
    let (zeros, along) = match layer.input {
        Shape::Sequence(..) => (x.f_zeros_like()?, 1),
        Shape::Image(..) | Shape::Flat(_) | Shape::Tokens(..) => (x.f_zeros_like()?.f_flatten(2, -1)?, 2),
    };
    let below = zeros.f_scatter(along, &places.f_unsqueeze(along)?, &gy.f_unsqueeze(along)?)?;
    below.f_reshape(x.size())
}

/// The gradient of a mean: each value has an equal part.
fn spread(layer: &PlacedLayer, gy: &Tensor) -> Result<Tensor, TchError> {
    let whole = dimensions(gy.size()[0], layer.input);
    let parts = layer.input.size() / layer.output.size().max(1);
    gy.f_div_scalar(parts as i64)?.f_unsqueeze(-1)?.f_unsqueeze(-1)?.f_expand(&whole, false)?.f_contiguous()
}

fn linear(layer: &PlacedLayer, x: &Tensor, down: Down<'_>) -> Result<Option<Tensor>, TchError> {
    let Down { gy, weights, gradient, wants_input, .. } = down;
    let rows = gy.size()[0];
    let [of_weight, of_bias] = views_mut(layer, gradient)?;
    let gy = &gy.f_reshape([-1, of_bias.size()[0]])?;
    let _ = gy.f_transpose(0, 1)?.f_mm_out(&of_weight, x)?;
    let _ = gy.f_sum_intlist_out(&of_bias, 0, false, Kind::Float)?;
    if !wants_input {
        return Ok(None);
    }
    let [weight, _] = views(layer, weights)?;
    gy.f_mm(&weight)?.f_reshape(dimensions(rows, layer.input)).map(Some)
}
