//! D-Sync: decentralised synchronous SGD.
//!
//! Source: Li et al., "Pipe-SGD: A Decentralized Pipelined SGD Framework for Distributed Deep Net Training",
//! NeurIPS 2018, section 2, "Decentralized synchronous SGD".
//!
//! | paper | here |
//! |---|---|
//! | w | `node.params()` |
//! | gradient of one worker | `g` |
//! | gamma | `node.rate()`, inside `node.descend` |
//!
//! Sent per step: one all-reduce of the gradient.
//!
//! Departures: the paper sums gradients; here they are averaged over samples, and the rate is meant for the
//! mean.

use crate::node::Node;
use crate::strategy::Strategy;
use crate::{Loss, StepError};

/// Every worker.
#[derive(Clone, Copy, Debug)]
pub struct DSync;

impl Strategy for DSync {
    fn step(&mut self, node: &mut Node) -> Result<Loss, StepError> {
        let (loss, g) = node.gradient()?;
        let g = node.all_reduce_mean(g)?;
        node.descend(g);
        Ok(loss)
    }
}
