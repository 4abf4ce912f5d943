//! Statistics of a few repeats: exact if possible, always deterministic.
//!
//! Only the quantiles of the t distribution come from a library.

mod bootstrap;
mod holm;
mod interval;
mod order;
mod permutation;

pub(crate) use bootstrap::share_of_smallest;
pub(crate) use holm::holm;
pub(crate) use interval::{Estimate, average, difference, mean, student_quantile, variance};
pub(crate) use order::{median, mid_ranks};
pub(crate) use permutation::{sign_flip, smallest_p, unpaired};

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// From this many values on, intervals are bootstrapped instead of taken from the t distribution.
pub(crate) const BOOTSTRAP_FROM: usize = 10;

/// Resamples of a bootstrap.
const RESAMPLES: usize = 2_000;

/// The stream of random numbers that all resampling draws from; its seed is fixed, so that a page is a
/// function of its rows.
struct Draws(ChaCha8Rng);

impl Draws {
    fn new() -> Self {
        Self(ChaCha8Rng::seed_from_u64(0x00BA_4E0F))
    }

    /// A number below `bound`, uniform to within 2^-32.
    fn below(&mut self, bound: usize) -> usize {
        ((u64::from(self.0.next_u32()) * bound as u64) >> 32) as usize
    }

    fn coin(&mut self) -> bool {
        self.0.next_u32() & 1 == 1
    }
}
