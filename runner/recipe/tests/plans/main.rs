//! Whole recipes: what they expand to, and what is said about wrong ones.

mod desk;
mod problems;
