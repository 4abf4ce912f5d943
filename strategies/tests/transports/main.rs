//! Proofs about the crate from outside: its transports keep the contract of transports, and its algorithms use nothing but
//! its public interface.
#![expect(clippy::unwrap_used, reason = "what fails here is a test")]

// The names that the files of `algorithm` import from `crate`.
use strategies::*;

/// The algorithms once more, compiled as part of another crate: they compile here only if a strategy of another crate can
/// do the same.
#[expect(dead_code, unreachable_pub, reason = "they are compiled, not used")]
#[path = "../../src/algorithm/mod.rs"]
mod algorithm;
#[path = "../contract/mod.rs"]
mod contract;
mod in_process;
mod simulated;
