//! Models, data sets and evaluation together.

mod evaluation;
mod gradients;
mod real_data;
mod slices;
mod support;
mod training;
