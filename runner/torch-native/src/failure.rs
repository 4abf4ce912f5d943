//! Failures of C++ functions, as errors with their text.

use std::ffi::{CStr, c_char};
use tch::TchError;

/// The longest text, in bytes; libtorch's stack trace at its end may be cut.
const ROOM: usize = 4096;

/// Calls a function of C++ that returns whether it succeeded, and else writes a text that ends with a zero; it gets where to write it, and
/// how many bytes fit there.
pub(crate) fn attempt(call: impl FnOnce(*mut c_char, usize) -> bool) -> Result<(), TchError> {
    let mut text = vec![0_u8; ROOM];
    if call(text.as_mut_ptr().cast(), ROOM) {
        return Ok(());
    }
    let text = CStr::from_bytes_until_nul(&text).unwrap_or_default();
    Err(TchError::Torch(text.to_string_lossy().into_owned()))
}
