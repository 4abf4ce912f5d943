//! A strategy and a codec of another crate than Bakeoff's, one file each.

pub mod lazy_sgd;
pub mod powers_of_two;

use strategies::Registry;

/// The strategy and the codec, for `bakeoff-worker`.
pub fn registry() -> Registry {
    Registry::default()
        .with("lazy-sgd", lazy_sgd::LazySgd)
        .with_codec("powers-of-two", powers_of_two::PowersOfTwo::from_settings)
}
