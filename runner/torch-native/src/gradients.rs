//! Gradients of a tensor of any shape: `torch::autograd::grad`.
//!
//! The function that `tch` binds starts from a scalar. The product of a result with the gradient from above would be
//! one, but its own backward pass reads and writes memory of the result's size once more, for each recorded layer of a
//! model.

use crate::failure::attempt;
use std::ffi::c_char;
use std::ptr;
use tch::{TchError, Tensor};
use torch_sys::C_tensor;

#[expect(unsafe_code, reason = "a function of C++; its contract is in gradients.cpp")]
unsafe extern "C" {
    fn bakeoff_gradients(
        result: *const C_tensor,
        of_result: *const C_tensor,
        inputs: *const *const C_tensor,
        count: usize,
        gradients: *mut *mut C_tensor,
        error: *mut c_char,
        room: usize,
    ) -> bool;
}

/// The gradients with respect to `inputs` of the sum of `result`'s values, each times its value in `of_result`, a tensor of the
/// same shape. One that is not defined belongs to an input that the result does not depend on.
///
/// The recorded operations are gone afterwards: a second call with the same result is an error, as is an input or a result that
/// was not recorded.
pub fn gradients(result: &Tensor, of_result: &Tensor, inputs: &[&Tensor]) -> Result<Vec<Tensor>, TchError> {
    let pointers: Vec<*const C_tensor> = inputs.iter().map(|input| input.as_ptr()).collect();
    let mut found: Vec<*mut C_tensor> = vec![ptr::null_mut(); inputs.len()];
    attempt(|text, room| {
        #[expect(unsafe_code, reason = "a function of C++; its contract is in gradients.cpp")]
        // SAFETY: the pointers are of tensors that the arguments borrow; `pointers` and `found` have `inputs.len()` places.
        unsafe {
            bakeoff_gradients(
                result.as_ptr(),
                of_result.as_ptr(),
                pointers.as_ptr(),
                pointers.len(),
                found.as_mut_ptr(),
                text,
                room,
            )
        }
    })?;
    #[expect(unsafe_code, reason = "a function of C++; its contract is in gradients.cpp")]
    // SAFETY: it has succeeded, so that each place of `found` is a new tensor, owned by nothing else.
    let owned = |tensor| unsafe { Tensor::from_ptr(tensor) };
    Ok(found.into_iter().map(owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tch::{Device, Kind};

    fn leaf(values: &[f32]) -> Tensor {
        Tensor::from_slice(values).set_requires_grad(true)
    }

    fn values(tensor: &Tensor) -> Vec<f32> {
        Vec::try_from(tensor).unwrap()
    }

    #[test]
    fn each_value_counts_by_its_gradient() {
        let a = leaf(&[1.0, 2.0, 3.0]);
        let b = leaf(&[4.0, 5.0, 6.0]);
        let result = &a * &b;
        let found = gradients(&result, &Tensor::from_slice(&[1.0_f32, 10.0, 100.0]), &[&b, &a]).unwrap();
        assert_eq!(found.iter().map(values).collect::<Vec<_>>(), [[1.0, 20.0, 300.0], [4.0, 50.0, 600.0]]);
        assert!(found.iter().all(|gradient| !gradient.requires_grad()));
    }

    #[test]
    fn an_input_that_is_not_used_has_none() {
        let a = leaf(&[1.0]);
        let b = leaf(&[2.0]);
        let found = gradients(&(&a * 3.0), &Tensor::from_slice(&[1.0_f32]), &[&a, &b]).unwrap();
        assert_eq!((values(&found[0]), found[1].defined()), (vec![3.0], false));
    }

    #[test]
    fn errors_are_told_and_not_thrown() {
        let a = leaf(&[1.0, 2.0]);
        let ones = Tensor::ones([2], (Kind::Float, Device::Cpu));
        let said = |result: &Tensor, of_result: &Tensor| {
            gradients(result, of_result, &[&a]).unwrap_err().to_string()
        };
        let result = &a * 2.0;
        assert!(said(&result, &Tensor::ones([3], (Kind::Float, Device::Cpu))).contains("shape"));
        gradients(&result, &ones, &[&a]).unwrap();
        let product = &a * &a;
        gradients(&product, &ones, &[&a]).unwrap();
        assert!(said(&product, &ones).contains("second time"));
        assert!(said(&ones, &ones).contains("grad"));
    }
}
