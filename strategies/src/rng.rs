//! Keyed random numbers: each stream is a pure function of the seed, a purpose and keys.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use sha2::{Digest, Sha256};

/// The random stream for one purpose of one run; `keys` are numbers such as epoch and rank.
///
/// ChaCha with 8 rounds, keyed by the SHA-256 of seed, purpose and keys: portable, and no two purposes share
/// a stream.
pub fn keyed(seed: u64, purpose: &str, keys: &[u64]) -> ChaCha8Rng {
    let mut hasher = Sha256::new();
    hasher.update(seed.to_le_bytes());
    hasher.update((purpose.len() as u64).to_le_bytes());
    hasher.update(purpose);
    for key in keys {
        hasher.update(key.to_le_bytes());
    }
    ChaCha8Rng::from_seed(hasher.finalize().into())
}

/// An unbiased draw from `0..below`, by rejection.
pub fn below(random: &mut ChaCha8Rng, below: u64) -> u64 {
    let zone = u64::MAX - u64::MAX % below.max(1);
    loop {
        let draw = random.next_u64();
        if draw < zone {
            return draw % below.max(1);
        }
    }
}

/// A draw from [0, 1), with 53 random bits.
pub fn unit(random: &mut ChaCha8Rng) -> f64 {
    (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

/// Shuffles in place (Fisher and Yates).
pub fn shuffle<T>(random: &mut ChaCha8Rng, values: &mut [T]) {
    for last in (1..values.len()).rev() {
        let other = below(random, last as u64 + 1) as usize;
        values.swap(last, other);
    }
}

/// A well-mixed number from two: for choices that need no stream (SplitMix64, Steele et al. 2014).
pub fn mix(seed: u64, key: u64) -> u64 {
    let mut z = seed
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .wrapping_add(key.wrapping_mul(0xd134_2543_de82_ef95))
        .wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_differ_by_seed_purpose_and_keys_and_repeat_themselves() {
        let first = |seed, purpose, keys: &[u64]| keyed(seed, purpose, keys).next_u64();
        assert_eq!(first(1, "order", &[2, 3]), first(1, "order", &[2, 3]));
        let all = [
            first(1, "order", &[2, 3]),
            first(2, "order", &[2, 3]),
            first(1, "shard", &[2, 3]),
            first(1, "order", &[3, 2]),
            first(1, "order", &[2]),
        ];
        for (i, a) in all.iter().enumerate() {
            assert!(all[i + 1..].iter().all(|b| a != b));
        }
    }

    #[test]
    fn a_shuffle_is_a_permutation_and_unbiased_draws_stay_below() {
        let mut random = keyed(7, "test", &[]);
        let mut values: Vec<u32> = (0..1000).collect();
        shuffle(&mut random, &mut values);
        assert!(values.windows(2).any(|pair| pair[0] > pair[1]));
        values.sort_unstable();
        assert!(values.iter().copied().eq(0..1000));
        assert!((0..1000).all(|_| below(&mut random, 3) < 3));
        assert!((0..1000).all(|_| (0.0..1.0).contains(&unit(&mut random))));
    }
}
