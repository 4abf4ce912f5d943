//! Tensors that view the caller's flat memory instead of owning a copy.
//!
//! Safety. A view is made from a slice of exactly as many values as its shape has, of 32-bit floats, densely
//! strided, so libtorch never reads or writes outside the slice. It borrows the slice for as long as it
//! lives, so the memory neither moves nor goes away, and a view that is written to is the only way to that
//! memory. What a view hands out is `&Tensor`; an operation could only keep the memory beyond the borrow by
//! sharing its storage with a result. The modules that use views, `kernel`, `operation` and `recording`, therefore pass them as
//! operands of operations whose results are new memory (products, sums, convolutions, batch norm), as `out` of such an
//! operation, whose result is dropped, or to a transposition that dies within the same expression. No view is
//! recorded for automatic differentiation, which would keep operands alive: `recording` copies them first, and `operation` is
//! given views only where nothing is recorded. Views that are written to are `ViewMut`; a
//! rectifier that works in place does so on the result of an operation.

use std::marker::PhantomData;
use std::ops::Deref;
use tch::{Device, Kind, TchError, Tensor};

/// A tensor over borrowed memory, to be read.
pub(super) struct View<'a> {
    tensor: Tensor,
    memory: PhantomData<&'a [f32]>,
}

/// A tensor over borrowed memory, to be written.
pub(super) struct ViewMut<'a> {
    tensor: Tensor,
    memory: PhantomData<&'a mut [f32]>,
}

impl<'a> View<'a> {
    /// Looks at `values` as a tensor of `shape`, row by row.
    pub(super) fn new(values: &'a [f32], shape: &[i64]) -> Result<Self, TchError> {
        Ok(Self { tensor: over(values.as_ptr(), values.len(), shape)?, memory: PhantomData })
    }
}

impl<'a> ViewMut<'a> {
    /// Looks at `values` as a tensor of `shape`, row by row.
    pub(super) fn new(values: &'a mut [f32], shape: &[i64]) -> Result<Self, TchError> {
        Ok(Self { tensor: over(values.as_mut_ptr(), values.len(), shape)?, memory: PhantomData })
    }
}

impl ViewMut<'_> {
    /// Writes the values of `source`, of the same shape, over the memory.
    pub(super) fn fill_from(&mut self, source: &Tensor) -> Result<(), TchError> {
        if self.tensor.size() != source.size() {
            let own = self.tensor.size();
            let other = source.size();
            return Err(TchError::Shape(format!("a tensor of shape {other:?} cannot fill one of {own:?}")));
        }
        self.tensor.f_copy_(source)
    }
}

impl Deref for View<'_> {
    type Target = Tensor;
    fn deref(&self) -> &Tensor {
        &self.tensor
    }
}

impl Deref for ViewMut<'_> {
    type Target = Tensor;
    fn deref(&self) -> &Tensor {
        &self.tensor
    }
}

fn over(values: *const f32, len: usize, shape: &[i64]) -> Result<Tensor, TchError> {
    if shape.iter().product::<i64>() != len as i64 || shape.iter().any(|side| *side < 0) {
        return Err(TchError::Shape(format!("{len} values are no tensor of shape {shape:?}")));
    }
    let mut strides = vec![1_i64; shape.len()];
    for place in (1..shape.len()).rev() {
        strides[place - 1] = strides[place] * shape[place].max(1);
    }
    #[expect(unsafe_code, reason = "libtorch takes foreign memory as a plain pointer; see the module's text")]
    // SAFETY: `values` points to `len` floats that the caller's view borrows for as long as it lives, and
    // `shape`, checked above, has exactly `len` places.
    unsafe {
        Tensor::f_from_blob(values.cast(), shape, &strides, Kind::Float, Device::Cpu)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_is_the_memory_itself() {
        let mut values = vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        let address = values.as_ptr();
        let view = View::new(&values, &[2, 3]).unwrap();
        assert_eq!(view.data_ptr().cast_const().cast::<f32>(), address);
        assert_eq!(view.double_value(&[1, 0]).to_bits(), 4.0_f64.to_bits());
        let one = Tensor::ones([2, 2], (Kind::Float, Device::Cpu));
        let three = Tensor::ones([2, 3], (Kind::Float, Device::Cpu));
        let target = ViewMut::new(&mut values, &[2, 3]).unwrap();
        let _ = one.mm_out(&target, &three);
        assert_eq!(values, [2.0; 6]);
        assert_eq!(values.as_ptr(), address);
    }

    #[test]
    fn a_shape_of_another_size_is_refused() {
        assert!(View::new(&[0.0; 6], &[2, 2]).is_err());
        assert!(View::new(&[0.0; 6], &[-2, -3]).is_err());
        assert!(View::new(&[], &[0, 3]).is_ok());
    }
}
