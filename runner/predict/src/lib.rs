//! Predicted step times, and the plan of which layers' gradients travel together.
//!
//! Pure functions of numbers: times in seconds as `f64`, sizes in bytes as `u64`. Nothing here reads a clock, a file or a
//! recipe. `bakeoff predict` shows a recipe's arms on a named network; runs with a layer-wise schedule plan by the fit and
//! [`schedule`]. Pipe-SGD's Eq. 3 and 7 and SC17's P and log P have no user but the tests.
//!
//! - [`linear`]: the cost a + b M of a message (MG-WFBP Eq. 9), and its fit to measured messages.
//! - [`all_reduce`]: a and b of all-reduces (MG-WFBP Table II); [`tree`]: what a tree takes step after step; [`network`]: the networks of
//!   SC17 Table 2.
//! - [`schedule`]: groups of layers, and the time line of a step (MG-WFBP Eq. 6 to 8 and 19 to 21, Algorithm 1).
//! - [`pipe_sgd`]: Pipe-SGD Eq. 2 to 7. [`elastic`]: what an exchange with the centre costs (SC17 section 6.1). [`servers`]: gradients that
//!   travel to parameter servers bucket by bucket.
//!
//! Equations are numbered as in their papers:
//!
//! - MG-WFBP: Shi, Chu and Li, "MG-WFBP: Efficient data communication for distributed synchronous SGD algorithms", 2019.
//! - Pipe-SGD: Li et al., "Pipe-SGD: A decentralized pipelined SGD framework for distributed deep net training", 2018.
//! - SC17: You, Buluc and Demmel, "Scaling deep learning on GPU and Knights Landing clusters", 2017.

pub mod all_reduce;
pub mod elastic;
pub mod linear;
pub mod network;
pub mod pipe_sgd;
pub mod schedule;
pub mod servers;
pub mod tree;

mod finite;
