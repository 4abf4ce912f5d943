//! A GPU that a learner computes on, with its copies of the weights and the gradient there.
//!
//! Strategies work on flat memory of the host, whatever computes: what they send, average and update is there. So the weights of a
//! layer are copied to the GPU before its forward pass, and its gradient comes back after its backward pass, each in a phase of its
//! own. Operations on a GPU run behind the caller's back; a learner waits for them before it returns, so that each phase holds its
//! own work. Sums are in 32 bits and in an order that does not change from run to run: neither TensorFloat-32 nor algorithms that
//! add in any order.

use super::flat::{View, ViewMut};
use std::ops::Range;
use tch::{Device, Kind, TchError, Tensor};

/// The GPU, and what the learner holds there.
pub(super) struct Gpu {
    index: u32,
    weights: Tensor,
    gradient: Tensor,
}

impl Gpu {
    /// The GPU with this number, from 0.
    pub(super) fn open(index: u32) -> Result<Self, TchError> {
        torch_native::use_gpus()?;
        let count = torch_native::gpus();
        if index >= count {
            return Err(TchError::Torch(missing(count)));
        }
        let device = Device::Cuda(index as usize);
        let nothing = || Tensor::f_zeros([0], (Kind::Float, device));
        Ok(Self { index, weights: nothing()?, gradient: nothing()? })
    }

    /// Number of the GPU in libtorch's count, from 0.
    pub(super) fn index(&self) -> u32 {
        self.index
    }

    /// It as libtorch names it.
    pub(super) fn device(&self) -> Device {
        Device::Cuda(self.index as usize)
    }

    /// Takes memory for this number of weights and their gradient.
    pub(super) fn hold(&mut self, size: usize) -> Result<(), TchError> {
        if self.weights.numel() != size {
            let zeros = || Tensor::f_zeros([size as i64], (Kind::Float, self.device()));
            (self.weights, self.gradient) = (zeros()?, zeros()?);
        }
        Ok(())
    }

    /// All weights, as far as they were copied; the tensor shares their memory.
    pub(super) fn weights(&self) -> Tensor {
        self.weights.shallow_clone()
    }

    /// The whole gradient; the tensor shares its memory.
    pub(super) fn gradient(&self) -> Tensor {
        self.gradient.shallow_clone()
    }

    /// Copies the weights of `span` to the GPU.
    pub(super) fn upload(&self, weights: &[f32], span: Range<usize>) -> Result<(), TchError> {
        let own = weights.get(span.clone()).ok_or_else(|| short(weights.len(), &span))?;
        let host = View::new(own, &[own.len() as i64])?;
        self.weights.f_narrow(0, span.start as i64, span.len() as i64)?.f_copy_(&host)?;
        self.settle()
    }

    /// Copies the gradient of `span` from the GPU.
    pub(super) fn download(&self, span: Range<usize>, gradient: &mut [f32]) -> Result<(), TchError> {
        if span.len() != gradient.len() || span.end > self.gradient.numel() {
            return Err(short(gradient.len(), &span));
        }
        let mut host = ViewMut::new(gradient, &[span.len() as i64])?;
        host.fill_from(&self.gradient.f_narrow(0, span.start as i64, span.len() as i64)?)
    }

    /// Waits until all that was asked of it is done.
    pub(super) fn settle(&self) -> Result<(), TchError> {
        torch_native::settle_gpu(self.index)
    }
}

fn missing(count: u32) -> String {
    match count {
        0 => "libtorch sees no GPU on this machine".to_owned(),
        1 => "libtorch sees one GPU on this machine, `cuda:0`".to_owned(),
        more => {
            format!("libtorch sees {more} GPUs on this machine, `cuda:0` to `cuda:{}`", more - 1)
        }
    }
}

fn short(len: usize, span: &Range<usize>) -> TchError {
    TchError::Shape(format!("{len} values are none of the span {span:?}"))
}
