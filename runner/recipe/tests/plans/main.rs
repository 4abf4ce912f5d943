//! Whole recipes: their plans, and the problems of wrong ones.

#![expect(
    clippy::expect_used,
    clippy::float_cmp,
    reason = "these are tests; numbers are compared with what was written, bit for bit"
)]

mod arrays;
mod chaos;
mod desk;
mod differences;
mod emulation;
mod expansion;
mod faults;
mod impossible;
mod impossible_models;
mod labelled_texts;
mod machines;
mod models;
mod pages;
#[cfg(test)]
mod pictures;
mod precedence;
mod problems;
mod run_order;
mod searches;
mod sweep_problems;
mod sweeps;
#[cfg(test)]
mod texts;
mod threads;
