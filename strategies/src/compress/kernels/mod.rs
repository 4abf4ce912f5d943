//! The loops of the codecs, vectorised: the compiler makes two copies of each, one for every machine and one for
//! processors with AVX2, and which one runs is decided when it runs.
//!
//! Both copies come from the same lines, so that they cannot differ by a bit: the roundings and their order
//! are in the source, and the compiler may not change them. The loops are written so that it can vectorise them
//! (no branch, no call, integers where these say the same), and stay safe code.

mod distance;
mod dot;
pub(super) mod narrow;
pub(super) mod quantize;
pub(super) mod signs;

pub(crate) use distance::{Distance, distance};
pub(crate) use dot::dot;
