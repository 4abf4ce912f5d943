//! Batch norm: the mean and variance that it takes, and those that evaluation uses.
//!
//! Source: Ioffe and Szegedy, "Batch Normalization", 2015 (arXiv 1502.03167), algorithm 1. Departure: the paper's algorithm 2
//! evaluates with averages over training batches, and PyTorch keeps running ones, as state of a rank. Here they are computed
//! for the weights that are evaluated, as the `update_bn` of stochastic weight averaging does (Izmailov et al., 2018, arXiv
//! 1803.05407, section 3.2): models that no rank ever trained, such as means over ranks, get statistics of their own, and every
//! strategy is judged by the same rule.

use std::collections::BTreeMap;
use tch::{Device, Kind, TchError, Tensor};

/// Added to a variance before its root is taken; the default of PyTorch and Caffe.
const EPSILON: f64 = 1e-5;
/// No running mean is kept.
const NO_MOMENTUM: f64 = 0.0;
/// Whether the library of a GPU is asked.
const CUDNN: bool = false;

/// Where batch norm takes mean and variance of a channel from.
pub(super) enum Normaliser<'a> {
    /// The batch itself: training.
    OfBatch,
    /// The batch itself, and they are added to those of other batches.
    Gathered(&'a mut Moments),
    /// Mean and variance gathered beforehand, for evaluation.
    Fixed(&'a Statistics),
}

impl Normaliser<'_> {
    /// weight (x - mean) / sqrt(variance + epsilon) + bias, per channel; `name` is the layer's.
    pub(super) fn result(
        &mut self,
        name: &str,
        x: &Tensor,
        weight: &Tensor,
        bias: &Tensor,
    ) -> Result<Tensor, TchError> {
        let moments = match self {
            Self::OfBatch => None,
            Self::Gathered(moments) => {
                moments.add(name, x)?;
                None
            }
            Self::Fixed(statistics) => {
                let missing = || TchError::Shape(format!("{name} has no mean and variance"));
                Some(statistics.0.get(name).ok_or_else(missing)?)
            }
        };
        let (mean, variance) = moments.map(|Moment { mean, variance }| (mean, variance)).unzip();
        let training = moments.is_none();
        x.f_batch_norm(Some(weight), Some(bias), mean, variance, training, NO_MOMENTUM, EPSILON, CUDNN)
    }
}

/// Mean and population variance of each channel, for each batch norm of a model by name.
pub(super) struct Statistics(BTreeMap<String, Moment>);

struct Moment {
    mean: Tensor,
    variance: Tensor,
}

/// Sums of means and variances over batches, for each batch norm by name.
#[derive(Default)]
pub(super) struct Moments(BTreeMap<String, Sums>);

struct Sums {
    rows: f64,
    mean: Vec<f64>,
    variance: Vec<f64>,
}

impl Moments {
    /// Adds the mean and the population variance of a batch, as often as it has examples.
    fn add(&mut self, name: &str, x: &Tensor) -> Result<(), TchError> {
        let sizes = x.size();
        let rows = sizes[0] as f64;
        // All but the channels.
        let over: Vec<i64> = (0..sizes.len() as i64).filter(|dimension| *dimension != 1).collect();
        let (variance, mean) = x.f_var_mean_correction(&over[..], 0, false)?;
        let sums = self.0.entry(name.to_owned()).or_insert_with(|| Sums {
            rows: 0.0,
            mean: vec![0.0; mean.numel()],
            variance: vec![0.0; variance.numel()],
        });
        sums.rows += rows;
        for (sum, values) in [(&mut sums.mean, mean), (&mut sums.variance, variance)] {
            let values = Vec::<f64>::try_from(values.f_to_kind(Kind::Double)?)?;
            sum.iter_mut().zip(values).for_each(|(sum, value)| *sum += rows * value);
        }
        Ok(())
    }

    /// The means over all examples, on the device that uses them.
    pub(super) fn mean(&self, device: Device) -> Result<Statistics, TchError> {
        let tensor = |sums: &[f64], rows: f64| {
            let means: Vec<f32> = sums.iter().map(|sum| (sum / rows) as f32).collect();
            Tensor::f_from_slice(&means)?.f_to(device)
        };
        let moment = |(name, sums): (&String, &Sums)| -> Result<(String, Moment), TchError> {
            let Sums { rows, mean, variance } = sums;
            Ok((name.clone(), Moment { mean: tensor(mean, *rows)?, variance: tensor(variance, *rows)? }))
        };
        self.0.iter().map(moment).collect::<Result<_, _>>().map(Statistics)
    }
}
