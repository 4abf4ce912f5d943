//! Streams of random numbers, keyed by what they are for, so that no draw depends on who makes it or when.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use sha2::{Digest, Sha256};

/// The stream of `seed` for a purpose and whatever else tells it from the purpose's other streams.
///
/// The key of the ChaCha8 generator is SHA-256 over seed, keys (as little-endian 64-bit numbers, preceded by
/// their count) and purpose.
pub(crate) fn keyed(seed: u64, purpose: &str, keys: &[u64]) -> ChaCha8Rng {
    let mut hasher = Sha256::new();
    hasher.update(seed.to_le_bytes());
    hasher.update((keys.len() as u64).to_le_bytes());
    for key in keys {
        hasher.update(key.to_le_bytes());
    }
    hasher.update(purpose);
    ChaCha8Rng::from_seed(hasher.finalize().into())
}

/// Uniform on [0, 1), a multiple of 2^-24.
pub(crate) fn unit(stream: &mut ChaCha8Rng) -> f32 {
    (stream.next_u32() >> 8) as f32 / 16_777_216.0
}

/// Standard normal (Box and Muller 1958), in 64 bits and then rounded.
pub(crate) fn normal(stream: &mut ChaCha8Rng) -> f32 {
    let mut draw = || f64::from(unit(stream));
    let radius = (-2.0 * (1.0 - draw()).ln()).sqrt();
    (radius * (std::f64::consts::TAU * draw()).cos()) as f32
}

/// Uniform on 0..`bound`, without bias; `bound` must not be 0.
pub(crate) fn below(stream: &mut ChaCha8Rng, bound: u32) -> u32 {
    // The largest multiple of `bound` that 32 bits hold: draws from there on are thrown away.
    let limit = u32::MAX - (u32::MAX % bound + 1) % bound;
    loop {
        let draw = stream.next_u32();
        if draw <= limit {
            return draw % bound;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_differ_by_seed_purpose_and_every_key() {
        let first = |seed, purpose, keys: &[u64]| keyed(seed, purpose, keys).next_u64();
        let all = [
            first(1, "a", &[1, 2]),
            first(2, "a", &[1, 2]),
            first(1, "b", &[1, 2]),
            first(1, "a", &[2, 1]),
            first(1, "a", &[1]),
            first(1, "a", &[1, 2, 0]),
        ];
        for (place, value) in all.iter().enumerate() {
            assert!(!all[..place].contains(value), "{place}");
        }
        assert_eq!(first(1, "a", &[1, 2]), all[0]);
    }

    #[test]
    fn draws_stay_in_their_range_and_reach_its_ends() {
        let mut stream = keyed(7, "test", &[]);
        let draws: Vec<u32> = (0..1000).map(|_| below(&mut stream, 3)).collect();
        for value in 0..3 {
            assert!(draws.iter().filter(|draw| **draw == value).count() > 250);
        }
        assert_eq!(below(&mut stream, 1), 0);
        assert!((0..1000).all(|_| (0.0..1.0).contains(&unit(&mut stream))));
    }
}
