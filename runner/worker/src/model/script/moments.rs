//! The running moments of a script's batch norms, as evaluation needs them: those of training samples under the weights that are
//! evaluated, whatever ranks have seen in training. It is the rule of the batch norm of layers (`model/batch_norm.rs`) with PyTorch's
//! own arithmetic: variances are unbiased.
//!
//! A batch norm writes r <- (1 - m) r + m s, where s is the batch's moment, and its momentum m cannot be read from a script. From
//! r = 0 the result is m s; a second pass of the first batch from a large r = P gives (1 - m) P + m s, and so m.
//!
//! Source: `torch.optim.swa_utils.update_bn`.

use tch::{Kind, TchError, Tensor};
use torch_native::ScriptModule;

/// P: its multiples by 1 - m have as many digits as 32 bits hold.
const PROBE: f64 = 16_777_216.0;
/// A smaller momentum is none: the module was not called, or keeps its moments.
const LEAST_MOMENTUM: f64 = 1e-5;
/// What a module is known by that keeps moments.
const MEAN: &str = "running_mean";
const VARIANCE: &str = "running_var";
/// How many batches a module has seen, which is its momentum where it has none of its own.
const BATCHES: &str = "num_batches_tracked";

/// The buffers of all batch norms of a script, which are the script's own.
pub(super) struct RunningMoments {
    buffers: Vec<Buffer>,
    /// Numbers of batches.
    counts: Vec<(Tensor, Tensor)>,
    rows: f64,
}

/// A mean or a variance of each channel.
struct Buffer {
    tensor: Tensor,
    /// As it is in the file.
    first: Tensor,
    /// m s over the batches, each as often as it has rows.
    sums: Vec<f64>,
    /// m; `None` before the first batch.
    momentum: Option<f64>,
}

impl Buffer {
    fn of(tensor: Tensor) -> Result<Self, TchError> {
        Ok(Self { first: copy_of(&tensor)?, sums: vec![0.0; tensor.numel()], momentum: None, tensor })
    }

    fn values(&self) -> Result<Vec<f64>, TchError> {
        Vec::<f64>::try_from(self.tensor.f_to_kind(Kind::Double)?.f_flatten(0, -1)?)
    }
}

fn copy_of(tensor: &Tensor) -> Result<Tensor, TchError> {
    let mut copy = tensor.f_zeros_like()?;
    copy.f_copy_(tensor)?;
    Ok(copy)
}

impl RunningMoments {
    pub(super) fn of(module: &ScriptModule) -> Result<Self, TchError> {
        let named = module.buffers()?;
        let owner = |name: &str| name.rsplit_once('.').map_or(String::new(), |(owner, _)| owner.to_owned());
        let last = |name: &str| name.rsplit('.').next().unwrap_or_default().to_owned();
        let owners: Vec<String> =
            named.iter().filter(|(name, _)| last(name) == MEAN).map(|(name, _)| owner(name)).collect();
        let (mut buffers, mut counts) = (Vec::new(), Vec::new());
        for (name, tensor) in named.into_iter().filter(|(name, _)| owners.contains(&owner(name))) {
            match last(&name).as_str() {
                MEAN | VARIANCE => buffers.push(Buffer::of(tensor)?),
                BATCHES => counts.push((copy_of(&tensor)?, tensor)),
                _ => {}
            }
        }
        Ok(Self { buffers, counts, rows: 0.0 })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.buffers.is_empty()
    }

    /// Writes everything back as it was.
    pub(super) fn restore(&self) -> Result<(), TchError> {
        tch::no_grad(|| {
            for Buffer { tensor, first, .. } in &self.buffers {
                tensor.shallow_clone().f_copy_(first)?;
            }
            for (first, count) in &self.counts {
                count.shallow_clone().f_copy_(first)?;
            }
            Ok(())
        })
    }

    /// Adds the moments of a batch of `rows` examples, which `pass` sends through the script.
    pub(super) fn add(
        &mut self,
        rows: usize,
        mut pass: impl FnMut() -> Result<(), TchError>,
    ) -> Result<(), TchError> {
        self.fill(0.0)?;
        pass()?;
        let first = self.buffers.iter().any(|buffer| buffer.momentum.is_none());
        let found = self.buffers.iter().map(Buffer::values).collect::<Result<Vec<_>, _>>()?;
        if first {
            self.fill(PROBE)?;
            pass()?;
            for (buffer, found) in self.buffers.iter_mut().zip(&found) {
                let kept: f64 =
                    buffer.values()?.iter().zip(found).map(|(with, without)| with - without).sum();
                buffer.momentum = Some(1.0 - kept / PROBE / found.len().max(1) as f64);
            }
        }
        for (buffer, found) in self.buffers.iter_mut().zip(found) {
            buffer.sums.iter_mut().zip(found).for_each(|(sum, value)| *sum += rows as f64 * value);
        }
        self.rows += rows as f64;
        Ok(())
    }

    /// Writes the means over all examples.
    pub(super) fn write(&self) -> Result<(), TchError> {
        self.restore()?;
        for Buffer { tensor, sums, momentum, .. } in &self.buffers {
            let Some(momentum) = momentum.filter(|momentum| *momentum >= LEAST_MOMENTUM) else { continue };
            let means: Vec<f64> = sums.iter().map(|sum| sum / (self.rows * momentum)).collect();
            let means = Tensor::f_from_slice(&means)?.f_view_as(tensor)?;
            tch::no_grad(|| tensor.shallow_clone().f_copy_(&means))?;
        }
        Ok(())
    }

    fn fill(&self, value: f64) -> Result<(), TchError> {
        tch::no_grad(|| {
            for Buffer { tensor, .. } in &self.buffers {
                let _ = tensor.shallow_clone().f_fill_(value)?;
            }
            for (_, count) in &self.counts {
                let _ = count.shallow_clone().f_fill_(0.0)?;
            }
            Ok(())
        })
    }
}
