//! EAMSGD: elastic averaging with momentum and a communication period.
//!
//! Source: Zhang, Choromanska and `LeCun`, "Deep learning with Elastic Averaging SGD", NIPS 2015, Algorithm 2, as Lian
//! et al., "Asynchronous Decentralized Parallel Stochastic Gradient Descent", ICML 2018, section 5, compare with it;
//! servers and exchanges are those of Async EASGD.
//!
//! | paper | here |
//! |---|---|
//! | x^i | `ctx.weights()` |
//! | the center variable | `Locked::centre` on the servers |
//! | v^i | `Velocity`, one on each worker |
//! | delta | `momentum` |
//! | alpha; 0.9 / n in the comparison | `Elastic::at` |
//! | tau, or su | `Elastic::period` |
//!
//! Sent per step: every `period` steps, the weights up and the centre down, before and while the worker computes, with
//! notes of how far each is.
//!
//! As in Algorithm 2 the gradient is that of the weights before the pull, taken ahead of them, at x + delta v; with
//! `look-ahead = false` it is that of x, as in Async MEASGD. The servers serve all workers at once: Zhang et al. ask only
//! that changes of the center variable come one after the other, and Lian et al. shard their servers "to mitigate the network
//! bottleneck" (section 5); `serve = "one"` makes them masters of Async EASGD.
//!
//! Departures: those of Async EASGD: exchanges at local steps 0, su, 2 su, ... Weight decay is of x itself. The momentum is
//! the optimizer's, or 0.9, as that of the methods it stands beside, not Zhang's 0.99, with which a gradient moves a hundred
//! times as far and no rate of the others fits.

use crate::algorithm::easgd_async::Motion;
use crate::algorithm::measgd_async::Velocity;
use crate::{Loss, StepError, Vector, WorkerContext};
/// A velocity whose gradients are those of where it leads to.
#[derive(Clone, Debug)]
pub struct LookAhead(pub Velocity);

impl Motion for LookAhead {
    fn gradient(&mut self, ctx: &mut WorkerContext) -> Result<(Loss, Vector), StepError> {
        let mut x = ctx.spare();
        ctx.read_weights(|weights| x.copy_from_slice(weights));
        ctx.change_weights(0..x.len(), |x| self.0.ahead(x));
        let result = ctx.gradient();
        ctx.change_weights(0..x.len(), |weights| weights.copy_from_slice(&x));
        ctx.recycle(x);
        result
    }

    fn compute_update(&mut self, ctx: &mut WorkerContext, g: Vector) -> Vector {
        self.0.compute_update(ctx, g)
    }
}
