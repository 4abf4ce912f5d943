//! Models, data sets and evaluation together.

mod evaluation;
mod gradients;
mod slices;
mod support;
mod training;
