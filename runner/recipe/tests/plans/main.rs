//! Whole recipes: what they expand to, and what is said about wrong ones.

mod chaos;
mod desk;
mod expansion;
mod pages;
mod problems;
