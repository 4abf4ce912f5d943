//! Memory that libtorch takes: what a forward pass keeps for the backward pass.

use std::ptr::NonNull;

/// A counter of C++.
#[repr(C)]
struct CppWatch {
    _opaque: [u8; 0],
}

#[expect(unsafe_code, reason = "functions of C++; their contracts are in memory.cpp")]
unsafe extern "C" {
    fn bakeoff_watch_begin() -> *mut CppWatch;
    fn bakeoff_watch_end(watch: *mut CppWatch) -> i64;
}

/// A counter that ends with the scope, whatever happens in it.
struct Watch(Option<NonNull<CppWatch>>);

impl Watch {
    fn begin() -> Self {
        #[expect(unsafe_code, reason = "a function of C++; its contract is in memory.cpp")]
        // SAFETY: it takes nothing.
        let watch = unsafe { bakeoff_watch_begin() };
        Self(NonNull::new(watch))
    }

    fn end(&mut self) -> i64 {
        let Some(watch) = self.0.take() else { return 0 };
        #[expect(unsafe_code, reason = "a function of C++; its contract is in memory.cpp")]
        // SAFETY: the watch began on this thread, since it is no `Send`, and is ended once; scopes end in their order.
        unsafe {
            bakeoff_watch_end(watch.as_ptr())
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.end();
    }
}

/// Result of the work, and the bytes that tensors of this thread hold after it and did not hold before: results, and
/// records for a backward pass.
pub fn kept_bytes<T>(work: impl FnOnce() -> T) -> (T, u64) {
    let mut watch = Watch::begin();
    let done = work();
    // Work that gives more back than it takes keeps nothing.
    (done, watch.end().max(0).unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tch::{Device, Kind, Tensor};

    #[test]
    fn what_a_backward_pass_needs_is_kept() {
        let x = Tensor::ones([1000], (Kind::Float, Device::Cpu)).set_requires_grad(true);
        // The exponential is needed by both derivatives.
        assert_eq!(kept_bytes(|| x.exp().sin()).1, 2 * 4000);
        assert_eq!(kept_bytes(|| &x * 2.0).1, 4000);
        assert_eq!(kept_bytes(|| tch::no_grad(|| x.exp().sin())).1, 4000);
        let (inner, outer) = kept_bytes(|| kept_bytes(|| x.exp()).1);
        assert_eq!((inner, outer), (4000, 0), "of two watches the inner one counts");
    }
}
