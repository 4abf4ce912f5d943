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
/// label's. A score that is no number is not the highest.
pub(super) fn tally(scores: &Tensor, labels: &Tensor) -> Result<(f64, i64), TchError> {
    let logs = scores.f_log_softmax(1, Kind::Float)?;
    let picked = logs.f_gather(1, &labels.f_unsqueeze(1)?, false)?;
    let loss = -picked.f_sum(Kind::Double)?.f_double_value(&[])?;
    let is_number =
        scores.f_eq_tensor(scores)?.f_gather(1, &labels.f_unsqueeze(1)?, false)?.f_squeeze_dim(1)?;
    let right = scores.f_argmax(1, false)?.f_eq_tensor(labels)?.f_logical_and(&is_number)?;
    let right = right.f_sum(Kind::Int64)?.f_int64_value(&[])?;
    Ok((loss, right))
}

/// The rows whose label's score is among the five highest.
pub(super) fn among_five(scores: &Tensor, labels: &Tensor) -> Result<i64, TchError> {
    ahead(scores, labels)?.f_lt(5)?.f_sum(Kind::Int64)?.f_int64_value(&[])
}

/// How many classes come before the label's in each row, by falling scores. Equal scores are in the order of the classes' numbers,
/// so that the place does not depend on a way to sort; of scores that are no numbers, all come before.
fn ahead(scores: &Tensor, labels: &Tensor) -> Result<Tensor, TchError> {
    let classes = scores.size()[1];
    let label = labels.f_unsqueeze(1)?;
    let own = scores.f_gather(1, &label, false)?;
    let numbers = Tensor::f_arange(classes, (Kind::Int64, scores.device()))?.f_unsqueeze(0)?;
    let first = numbers.f_lt_tensor(&label)?;
    // Below: it must be less than the label's score; above, equal is not before it either.
    let behind = scores.f_lt_tensor(&own)?.f_where_self(&first, &scores.f_le_tensor(&own)?)?;
    behind.f_logical_not()?.f_sum_dim_intlist([1_i64].as_slice(), false, Kind::Int64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(scores: &[f32], classes: i64, labels: &[i64]) -> Vec<i64> {
        let scores = Tensor::from_slice(scores).reshape([-1, classes]);
        Vec::try_from(ahead(&scores, &Tensor::from_slice(labels)).unwrap()).unwrap()
    }

    #[test]
    fn places_are_by_score_and_then_by_number() {
        let row = [3.0, 1.0, 2.0, 3.0, -1.0, 2.0];
        let all: Vec<f32> = row.iter().copied().cycle().take(36).collect();
        assert_eq!(places(&all, 6, &[0, 1, 2, 3, 4, 5]), [0, 4, 2, 1, 5, 3]);
        assert_eq!(places(&[7.0; 12], 6, &[0, 5]), [0, 5], "all equal");
    }

    #[test]
    fn what_is_no_number_is_not_right() {
        let right = |scores: [f32; 3]| {
            tally(&Tensor::from_slice(&scores).reshape([1, 3]), &Tensor::from_slice(&[0_i64])).unwrap().1
        };
        assert_eq!((right([2.0, 1.0, 1.5]), right([1.0, 2.0, 1.5])), (1, 0));
        assert_eq!(
            (right([f32::NAN; 3]), right([f32::NAN, 1.0, 2.0]), right([3.0, f32::NAN, 2.0])),
            (0, 0, 0)
        );
    }

    #[test]
    fn what_is_no_number_is_not_among_the_five() {
        let counted = |scores: [f32; 12], label: i64| {
            among_five(&Tensor::from_slice(&scores).reshape([1, 12]), &Tensor::from_slice(&[label])).unwrap()
        };
        assert_eq!(counted([f32::NAN; 12], 0), 0);
        let mut one = [0.0; 12];
        one[3] = f32::NAN;
        assert_eq!(counted(one, 3), 0);
        assert_eq!(counted([0.0; 12], 4), 1);
        assert_eq!(counted([0.0; 12], 5), 0, "of equal scores the first five");
    }
}
