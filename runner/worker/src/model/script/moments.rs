//! The running moments of a script's batch norms, as evaluation needs them: those of training samples under the weights that are
//! evaluated, whatever ranks have seen in training. It is the rule of the batch norm of layers (`model/batch_norm.rs`) with PyTorch's
//! own arithmetic: variances are unbiased.
//!
//! A batch norm writes r <- (1 - m) r + m s, where s is the batch's moment, and its momentum m cannot be read from a script. From
//! r = 0 the result is m s; a second pass of the first batch from a large r = P gives (1 - m) P + m s, and so m, the median over the
//! channels: of a channel whose moment comes near P rounding leaves little. A norm whose moments a first pass leaves as they are uses
//! those of the file, as frozen ones do, and is left alone.
//!
//! Source: `torch.optim.swa_utils.update_bn`. Departures: nothing but norms is in training mode there, so that dropout is off, and a
//! batch counts by its rows.

use tch::{Kind, TchError, Tensor};
use torch_native::ScriptModule;

/// P: its multiples by 1 - m have as many digits as 32 bits hold.
const PROBE: f64 = 16_777_216.0;
/// A smaller momentum is none.
const LEAST_MOMENTUM: f64 = 1e-5;
/// The buffer by which a module that keeps moments is known.
const MEAN: &str = "running_mean";
const VARIANCE: &str = "running_var";
/// How many batches a module has seen, which is its momentum where it has none of its own.
const BATCHES: &str = "num_batches_tracked";

/// The buffers of all batch norms of a script, which are the script's own.
#[derive(Default)]
pub(super) struct RunningMoments {
    buffers: Vec<Buffer>,
    /// Numbers of batches, as they are in the file, and their tensors.
    counts: Vec<(Tensor, Tensor)>,
    rows: f64,
}

/// A mean or a variance of each channel.
struct Buffer {
    tensor: Tensor,
    /// As it is in the file.
    first: Tensor,
    gathered: Gathered,
}

/// State of a buffer while moments are gathered.
enum Gathered {
    /// No batch has been seen yet.
    Nothing,
    /// Training leaves it as it is.
    Frozen,
    /// The momentum, and the sums of m s over the batches, each as often as it has rows.
    Sums { momentum: f64, sums: Vec<f64> },
}

impl Buffer {
    fn of(tensor: Tensor) -> Result<Self, TchError> {
        Ok(Self { first: copy_of(&tensor)?, tensor, gathered: Gathered::Nothing })
    }

    fn values(&self) -> Result<Vec<f64>, TchError> {
        Vec::<f64>::try_from(self.tensor.f_to_kind(Kind::Double)?.f_flatten(0, -1)?)
    }

    fn is_as_in_the_file(&self) -> Result<bool, TchError> {
        const NAN_EQUALS_NAN: bool = true;
        self.tensor.f_allclose(&self.first, 0.0, 0.0, NAN_EQUALS_NAN)
    }
}

/// The middle of those that are numbers; NaN if none is.
fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = values.filter(|value| value.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

fn copy_of(tensor: &Tensor) -> Result<Tensor, TchError> {
    let mut copy = tensor.f_zeros_like()?;
    copy.f_copy_(tensor)?;
    Ok(copy)
}

impl RunningMoments {
    /// Those of a module as it is in its file.
    pub(super) fn of(module: &ScriptModule) -> Result<Self, TchError> {
        let named = module.buffers()?;
        let owner = |name: &str| name.rsplit_once('.').map_or(String::new(), |(owner, _)| owner.to_owned());
        let last = |name: &str| name.rsplit('.').next().unwrap_or_default().to_owned();
        let owners: Vec<String> =
            named.iter().filter(|(name, _)| last(name) == MEAN).map(|(name, _)| owner(name)).collect();
        let mut buffers = Vec::new();
        let mut counts = Vec::new();
        for (name, tensor) in named.into_iter().filter(|(name, _)| owners.contains(&owner(name))) {
            match last(&name).as_str() {
                MEAN | VARIANCE => buffers.push(Buffer::of(tensor)?),
                BATCHES => counts.push((copy_of(&tensor)?, tensor)),
                _ => {}
            }
        }
        Ok(Self { buffers, counts, rows: 0.0 })
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.buffers.is_empty()
    }

    /// Writes everything back as it is in the file.
    pub(super) fn restore(&self) -> Result<(), TchError> {
        tch::no_grad(|| {
            let buffers = self.buffers.iter().map(|buffer| (&buffer.first, &buffer.tensor));
            for (first, tensor) in buffers.chain(self.counts.iter().map(|(first, tensor)| (first, tensor))) {
                tensor.shallow_clone().f_copy_(first)?;
            }
            Ok(())
        })
    }

    /// Finds the means over batches of the moments that they have, and writes them over the buffers; each batch is its number of
    /// rows, and what sends it through the script.
    pub(super) fn gather<P>(
        &mut self,
        batches: impl IntoIterator<Item = Result<(usize, P), TchError>>,
    ) -> Result<(), TchError>
    where
        P: FnMut() -> Result<(), TchError>,
    {
        self.rows = 0.0;
        self.buffers.iter_mut().for_each(|buffer| buffer.gathered = Gathered::Nothing);
        for batch in batches {
            let (rows, mut pass) = batch?;
            if self.rows == 0.0 {
                self.sift(&mut pass)?;
                self.probe(&mut pass)?;
            }
            self.fill(0.0)?;
            pass()?;
            for buffer in &mut self.buffers {
                let found = buffer.values()?;
                if let Gathered::Sums { sums, .. } = &mut buffer.gathered {
                    sums.iter_mut().zip(found).for_each(|(sum, value)| *sum += rows as f64 * value);
                }
            }
            self.rows += rows as f64;
        }
        self.write()
    }

    /// Finds the buffers that training changes. Frozen norms use theirs, so that these must be there.
    fn sift(&mut self, pass: &mut impl FnMut() -> Result<(), TchError>) -> Result<(), TchError> {
        self.restore()?;
        pass()?;
        for buffer in &mut self.buffers {
            if buffer.is_as_in_the_file()? {
                buffer.gathered = Gathered::Frozen;
            }
        }
        Ok(())
    }

    /// Finds the momentum of each buffer that is not frozen, by two passes of the first batch.
    fn probe(&mut self, pass: &mut impl FnMut() -> Result<(), TchError>) -> Result<(), TchError> {
        self.fill(0.0)?;
        pass()?;
        let without = self.buffers.iter().map(Buffer::values).collect::<Result<Vec<_>, _>>()?;
        self.fill(PROBE)?;
        pass()?;
        for (buffer, without) in self.buffers.iter_mut().zip(without) {
            if matches!(buffer.gathered, Gathered::Nothing) {
                let with = buffer.values()?;
                let momenta = with.iter().zip(&without).map(|(with, without)| 1.0 - (with - without) / PROBE);
                buffer.gathered =
                    Gathered::Sums { momentum: median(momenta), sums: vec![0.0; without.len()] };
            }
        }
        Ok(())
    }

    fn write(&self) -> Result<(), TchError> {
        self.restore()?;
        for Buffer { tensor, gathered, .. } in &self.buffers {
            let Gathered::Sums { momentum, sums } = gathered else { continue };
            if *momentum >= LEAST_MOMENTUM || momentum.is_nan() {
                let means: Vec<f64> = sums.iter().map(|sum| sum / (self.rows * momentum)).collect();
                let means = Tensor::f_from_slice(&means)?.f_view_as(tensor)?;
                tch::no_grad(|| tensor.shallow_clone().f_copy_(&means))?;
            }
        }
        Ok(())
    }

    /// Writes a value over all that training changes, whose numbers of batches begin again.
    fn fill(&self, value: f64) -> Result<(), TchError> {
        tch::no_grad(|| {
            for Buffer { tensor, gathered, .. } in &self.buffers {
                if !matches!(gathered, Gathered::Frozen) {
                    let _ = tensor.shallow_clone().f_fill_(value)?;
                }
            }
            for (_, count) in &self.counts {
                let _ = count.shallow_clone().f_fill_(0.0)?;
            }
            Ok(())
        })
    }
}
