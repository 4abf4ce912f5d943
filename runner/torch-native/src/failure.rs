//! What C++ says of a failure.

use std::ffi::{CStr, c_char};
use tch::TchError;

/// Memory for a text.
pub(crate) struct Failure(Vec<u8>);

impl Failure {
    /// The longest text, in bytes; libtorch's stack trace at its end may be cut.
    pub(crate) const ROOM: usize = 4096;

    /// Where C++ writes the text: [`Failure::ROOM`] bytes.
    pub(crate) fn text(&mut self) -> *mut c_char {
        self.0.as_mut_ptr().cast()
    }
}

impl Default for Failure {
    fn default() -> Self {
        Self(vec![0; Self::ROOM])
    }
}

impl From<Failure> for TchError {
    fn from(failure: Failure) -> Self {
        let text = CStr::from_bytes_until_nul(&failure.0).unwrap_or_default();
        Self::Torch(text.to_string_lossy().into_owned())
    }
}
