//! GPUs that libtorch computes on.

use crate::failure::attempt;
use std::ffi::c_char;
use tch::TchError;

#[expect(unsafe_code, reason = "functions of C++; their contracts are in gpu.cpp")]
unsafe extern "C" {
    fn bakeoff_gpus_use(error: *mut c_char, room: usize) -> bool;
    fn bakeoff_gpus() -> u32;
    fn bakeoff_gpu_settle(index: u32, error: *mut c_char, room: usize) -> bool;
}

/// Lets libtorch compute on GPUs: in 32 bits, with algorithms whose sums have one order, those of cuBLAS where the process was
/// started with `CUBLAS_WORKSPACE_CONFIG=:4096:8`.
///
/// # Errors
/// This libtorch has no library for GPUs, or a library that it needs is missing.
pub fn use_gpus() -> Result<(), TchError> {
    attempt(|text, room| {
        #[expect(unsafe_code, reason = "a function of C++; its contract is in gpu.cpp")]
        // SAFETY: the text has room for `room` bytes.
        unsafe {
            bakeoff_gpus_use(text, room)
        }
    })
}

/// Number of GPUs of this machine; none before [`use_gpus`].
pub fn gpus() -> u32 {
    #[expect(unsafe_code, reason = "a function of C++; its contract is in gpu.cpp")]
    // SAFETY: it takes nothing.
    unsafe {
        bakeoff_gpus()
    }
}

/// Waits until all work of a GPU is done.
///
/// # Errors
/// An operation on it failed.
pub fn settle_gpu(index: u32) -> Result<(), TchError> {
    attempt(|text, room| {
        #[expect(unsafe_code, reason = "a function of C++; its contract is in gpu.cpp")]
        // SAFETY: the text has room for `room` bytes.
        unsafe {
            bakeoff_gpu_settle(index, text, room)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_gpu_there_is_an_error_and_no_panic() {
        // A machine of the gate has none; on one that has, the library loads.
        match use_gpus() {
            Ok(()) => assert!(gpus() > 0 || settle_gpu(0).is_err()),
            Err(error) => assert!(error.to_string().contains("libtorch_cuda"), "{error}"),
        }
    }
}
