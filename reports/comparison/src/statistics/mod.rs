//! Statistics of a few repeats: exact if possible, always deterministic.
//!
//! Distributions and special functions come from a library.

pub mod censored;
mod grid;
mod holm;
mod interval;
mod memo;
mod moderated;
mod order;
mod permutation;
mod power;
mod proportion;
mod serial_share;
mod student;

pub use grid::Grid;
pub(crate) use holm::holm;
pub use interval::{Estimate, Summary, average, difference, mean, sum, typical};
pub(crate) use moderated::{PlacedSummary, moderate};
pub use order::median;
pub(crate) use order::mid_ranks;
pub use permutation::{sign_flip, smallest_p, unpaired};
pub use power::CHANCE;
pub(crate) use power::{MOST_REPEATS, Question};
pub use proportion::{fewer_by_chance, share_interval};
pub use serial_share::{Amdahl, TimeOnWorkers};
pub(crate) use student::student_below;
pub use student::student_quantile;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

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
