//! The crate from outside: its transports keep the contract of transports, its algorithms use nothing but its public
//! interface, and the example of a strategy of another crate works.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "what fails here is a test")]

// The names that the files of `algorithm` import from `crate`.
use strategies::*;

/// The algorithms once more, compiled as part of another crate: they compile here only if a strategy of another crate can
/// do the same.
#[expect(dead_code, unreachable_pub, reason = "they are compiled, not used")]
#[path = "../../src/algorithm/mod.rs"]
mod algorithm;
mod in_process;
mod simulated;

#[expect(unreachable_pub, reason = "elsewhere it is a crate")]
#[path = "../../../examples/own-strategy/src/lib.rs"]
mod own_strategy;

/// The tests of the example of a strategy of another crate.
mod example {
    use super::own_strategy;

    include!("../../../examples/own-strategy/tests/simulated.rs");
}
