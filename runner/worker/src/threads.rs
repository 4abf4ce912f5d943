//! How many threads a process computes with.

use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};

static COMPUTING: AtomicUsize = AtomicUsize::new(1);

/// Lets libtorch compute with `threads` threads inside an operation, and run one operation at a time.
///
/// Ranks of one machine would fight for its cores otherwise, because libtorch takes all of them by default.
/// To be called at the start of the process, before any tensor exists. 0 counts as 1.
pub fn compute_with(threads: u32) {
    static INTEROP: Once = Once::new();
    // libtorch allows this one only once, and throws at the second time.
    INTEROP.call_once(|| tch::set_num_interop_threads(1));
    tch::set_num_threads(i32::try_from(threads.max(1)).unwrap_or(i32::MAX));
    COMPUTING.store(threads.max(1) as usize, Ordering::Relaxed);
}

/// The threads that this process computes with, which are also those that decode its pictures.
pub(crate) fn computing() -> usize {
    COMPUTING.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_can_be_set_again() {
        compute_with(2);
        assert_eq!(tch::get_num_threads(), 2);
        compute_with(0);
        assert_eq!((tch::get_num_threads(), tch::get_num_interop_threads()), (1, 1));
    }
}
