//! How libtorch was built, which decides the bits of its sums.

use std::ffi::{CStr, c_char, c_void};

#[expect(unsafe_code, reason = "a function of C++; its contract is in build.cpp")]
unsafe extern "C" {
    fn bakeoff_build(see: extern "C" fn(*mut c_void, *const c_char), context: *mut c_void);
}

extern "C" fn see(context: *mut c_void, text: *const c_char) {
    #[expect(unsafe_code, reason = "it is called by `build` alone, within its call")]
    // SAFETY: `context` is the string of `build`, and `text` ends with a zero.
    unsafe {
        *context.cast::<String>() = CStr::from_ptr(text).to_string_lossy().into_owned();
    }
}

/// Words of the line that depends on the machine, and not on how libtorch was built.
const OF_THE_MACHINE: &str = "CPU capability usage";

/// The version of the libtorch that was found, its compilers, libraries and settings, as it says itself: the same on every machine.
pub fn build() -> String {
    let mut text = String::new();
    #[expect(unsafe_code, reason = "a function of C++; its contract is in build.cpp")]
    // SAFETY: the string outlives the call.
    unsafe {
        bakeoff_build(see, (&raw mut text).cast());
    }
    text.lines().filter(|line| !line.contains(OF_THE_MACHINE)).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    #[test]
    fn libtorch_says_how_it_was_built() {
        let build = super::build();
        assert!(build.contains("TORCH_VERSION") && !build.contains(super::OF_THE_MACHINE), "{build}");
    }
}
