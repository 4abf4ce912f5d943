//! Cross-entropy of the softmax, and its gradient.

use strategies::StepError;
use tch::{Kind, TchError, Tensor};

/// Scores or their gradient with a row for each target: those of a text have one at each position.
pub(super) fn rows(scores: &Tensor) -> Result<Tensor, TchError> {
    if scores.dim() == 3 { scores.f_flatten(0, 1) } else { Ok(scores.shallow_clone()) }
}

/// Refuses scores that are not a row for each of `examples` examples or positions, with a score for each of `classes` classes.
pub(super) fn check(scores: &Tensor, examples: usize, classes: usize) -> Result<(), StepError> {
    match scores.size().as_slice() {
        [rows, width] if *rows == examples as i64 && *width >= classes as i64 => Ok(()),
        other => Err(StepError::Learner(format!(
            "scores of shape {other:?} came for {examples} examples of {classes} classes"
        ))),
    }
}

/// The mean over the rows of -ln softmax(scores)\[label\], in nats, and the gradient of that mean with respect
/// to the scores: (softmax - one-hot) / rows. `scores` is `[rows, classes]` with at least one row, `labels`
/// `[rows]` of 64-bit integers below `classes`.
pub(super) fn cross_entropy(scores: &Tensor, labels: &Tensor) -> Result<(f32, Tensor), TchError> {
    let rows = scores.size()[0];
    let logs = scores.f_log_softmax(1, Kind::Float)?;
    let places = labels.f_unsqueeze(1)?;
    let picked = logs.f_gather(1, &places, false)?;
    let mean = -picked.f_sum(Kind::Double)?.f_double_value(&[])? / rows as f64;
    let mut gradient = logs.f_exp()?;
    let ones = picked.f_full_like(-1.0)?;
    let _ = gradient.f_scatter_add_(1, &places, &ones)?;
    let _ = gradient.f_div_scalar_(rows as f64)?;
    Ok((mean as f32, gradient))
}

/// Sums over the rows: of -ln softmax(scores)\[label\] in 64 bits, and of rows whose highest score is the
/// label's.
pub(super) fn tally(scores: &Tensor, labels: &Tensor) -> Result<(f64, i64), TchError> {
    let logs = scores.f_log_softmax(1, Kind::Float)?;
    let picked = logs.f_gather(1, &labels.f_unsqueeze(1)?, false)?;
    let loss = -picked.f_sum(Kind::Double)?.f_double_value(&[])?;
    let right = scores.f_argmax(1, false)?.f_eq_tensor(labels)?.f_sum(Kind::Int64)?.f_int64_value(&[])?;
    Ok((loss, right))
}
