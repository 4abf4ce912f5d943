//! Tensors that view flat memory instead of owning a copy: the caller's, or on a device the learner's copy of it.
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
use std::ops::{Deref, Range};
use tch::{Device, Kind, TchError, Tensor};

/// Flat weights to be read.
#[derive(Clone, Copy)]
pub(super) enum Weights<'a> {
    /// The caller's vector, in memory of the host.
    Host(&'a [f32]),
    /// A part of a vector on a device.
    Device(Part<'a>),
}

/// Flat memory that a gradient is written to.
pub(super) enum Gradient<'a> {
    /// The caller's vector, in memory of the host.
    Host(&'a mut [f32]),
    /// A part of a vector on a device.
    Device(Part<'a>),
}

/// A part of a flat vector on a device.
#[derive(Clone, Copy)]
pub(super) struct Part<'a> {
    flat: &'a Tensor,
    begin: usize,
    len: usize,
}

impl<'a> Part<'a> {
    /// The values of `flat` in `span`; `None` where it is shorter.
    pub(super) fn new(flat: &'a Tensor, span: Range<usize>) -> Option<Self> {
        (span.start <= span.end && span.end <= flat.numel()).then_some(Self {
            flat,
            begin: span.start,
            len: span.len(),
        })
    }

    fn split_at_checked(self, place: usize) -> Option<(Self, Self)> {
        let rest = self.len.checked_sub(place)?;
        Some((Self { len: place, ..self }, Self { begin: self.begin + place, len: rest, ..self }))
    }

    fn tensor(self, shape: &[i64]) -> Result<Tensor, TchError> {
        self.flat.f_narrow(0, self.begin as i64, self.len as i64)?.f_view(shape)
    }
}

impl<'a> Weights<'a> {
    /// All of a vector: `copy`, where the learner has one on its device, else the caller's memory.
    pub(super) fn of(copy: Option<&'a Tensor>, host: &'a [f32]) -> Self {
        copy.map_or(Self::Host(host), |flat| Self::Device(Part { flat, begin: 0, len: flat.numel() }))
    }

    /// Those in `span`; `None` where there are fewer.
    pub(super) fn part(self, span: Range<usize>) -> Option<Self> {
        let (before, _) = self.split_at_checked(span.end)?;
        before.split_at_checked(span.start).map(|(_, part)| part)
    }

    pub(super) fn len(self) -> usize {
        match self {
            Self::Host(values) => values.len(),
            Self::Device(part) => part.len,
        }
    }

    /// Those before `place` and those from there on; `None` where there are fewer.
    pub(super) fn split_at_checked(self, place: usize) -> Option<(Self, Self)> {
        match self {
            Self::Host(values) => {
                let (before, after) = values.split_at_checked(place)?;
                Some((Self::Host(before), Self::Host(after)))
            }
            Self::Device(part) => {
                let (before, after) = part.split_at_checked(place)?;
                Some((Self::Device(before), Self::Device(after)))
            }
        }
    }

    /// Looks at them as a tensor of `shape`, row by row.
    pub(super) fn view(self, shape: &[i64]) -> Result<View<'a>, TchError> {
        match self {
            Self::Host(values) => View::new(values, shape),
            Self::Device(part) => Ok(View { tensor: part.tensor(shape)?, memory: PhantomData }),
        }
    }
}

impl<'a> Gradient<'a> {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Host(values) => values.len(),
            Self::Device(part) => part.len,
        }
    }

    /// The same memory for a shorter time.
    pub(super) fn again(&mut self) -> Gradient<'_> {
        match self {
            Self::Host(values) => Gradient::Host(values),
            Self::Device(part) => Gradient::Device(*part),
        }
    }

    /// Those before `place` and those from there on; `None` where there are fewer.
    pub(super) fn split_at_checked(self, place: usize) -> Option<(Self, Self)> {
        match self {
            Self::Host(values) => {
                let (before, after) = values.split_at_mut_checked(place)?;
                Some((Self::Host(before), Self::Host(after)))
            }
            Self::Device(part) => {
                let (before, after) = part.split_at_checked(place)?;
                Some((Self::Device(before), Self::Device(after)))
            }
        }
    }

    /// Looks at them as a tensor of `shape`, row by row.
    pub(super) fn view(self, shape: &[i64]) -> Result<ViewMut<'a>, TchError> {
        match self {
            Self::Host(values) => ViewMut::new(values, shape),
            Self::Device(part) => Ok(ViewMut { tensor: part.tensor(shape)?, memory: PhantomData }),
        }
    }

    /// Makes all of them zero.
    pub(super) fn clear(self) -> Result<(), TchError> {
        match self {
            Self::Host(values) => {
                values.fill(0.0);
                Ok(())
            }
            Self::Device(part) => part.tensor(&[part.len as i64])?.f_zero_().map(drop),
        }
    }
}

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
