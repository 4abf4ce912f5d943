//! The loops of the codecs, vectorised: the compiler makes two copies of each, one for every machine and one for
//! processors with AVX2, and which one runs is decided when it runs.
//!
//! Both copies come from the same lines, so that they cannot differ by a bit: what is rounded, and in which order,
//! is in the source, and the compiler may not change it. The loops are written so that it can vectorise them
//! (no branch, no call, integers where these say the same), and stay safe code.

/// Makes two functions of each kernel, `fn chosen, plain(...)`: the loop for every machine, and one that runs the copy
/// which suits the processor.
macro_rules! kernels {
    ($($(#[$doc:meta])* fn $chosen:ident, $plain:ident $(<$E:ident: $Element:ident>)? (
        $($argument:ident: $type:ty),*
    ) $(-> $R:ty)? $body:block)*) => {
        $(
            $(#[$doc])*
            pub(crate) fn $chosen$(<$E: $Element>)?($($argument: $type),*) $(-> $R)? {
                #[cfg(target_arch = "x86_64")]
                {
                    #[target_feature(enable = "avx2")]
                    fn wide$(<$E: $Element>)?($($argument: $type),*) $(-> $R)? {
                        $plain$(::<$E>)?($($argument),*)
                    }
                    if std::arch::is_x86_feature_detected!("avx2") {
                        #[expect(unsafe_code, reason = "what the processor can do is known only here")]
                        // SAFETY: the processor has just said that it can do AVX2.
                        return unsafe { wide$(::<$E>)?($($argument),*) };
                    }
                }
                $plain$(::<$E>)?($($argument),*)
            }

            $(#[$doc])*
            ///
            /// The loop for every machine.
            #[inline(always)]
            fn $plain$(<$E: $Element>)?($($argument: $type),*) $(-> $R)? $body
        )*
    };
}

mod distance;
mod dot;
pub(super) mod narrow;
pub(super) mod quantize;
pub(super) mod signs;

pub(crate) use distance::distance;
pub(crate) use dot::dot;
