//! Conditions on cells and runs: one grammar, and what its comparisons mean for the cells of a recipe.

pub(crate) mod condition;
pub(crate) mod grammar;
pub(crate) mod key_test;
