//! The timing models of Pipe-SGD: Eq. 2 to 7.
//!
//! The paper's totals are over T iterations; here each is the time of one.

use crate::finite::is_amount;
use crate::network::LinkRates;
use std::num::NonZeroU32;

/// The stages of one iteration, in seconds; all are finite and not negative.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stages {
    update: f64,
    compute: f64,
    communication: f64,
}

/// A stage whose time is no time.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("the {stage} takes {seconds} s; a time has to be finite and not negative")]
pub struct StageError {
    /// Name of the stage: `update`, `compute` or `communication`.
    pub stage: &'static str,
    /// The value given as its time.
    pub seconds: f64,
}

impl Stages {
    /// l_up, l_comp and l_comm, in seconds.
    ///
    /// # Errors
    /// One of them is negative, infinite or NaN.
    pub fn new(update: f64, compute: f64, communication: f64) -> Result<Self, StageError> {
        for (stage, seconds) in [("update", update), ("compute", compute), ("communication", communication)] {
            if !is_amount(seconds) {
                return Err(StageError { stage, seconds });
            }
        }
        Ok(Self { update, compute, communication })
    }

    /// Synchronous SGD: l_up + l_comp + l_comm seconds (Eq. 2).
    pub fn synchronous(self) -> f64 {
        self.update + self.compute + self.communication
    }

    /// Pipe-SGD with unlimited resources and a dependency of K iterations: a K-th of Eq. 2 (Eq. 3), in seconds.
    pub fn unlimited(self, depth: NonZeroU32) -> f64 {
        self.synchronous() / f64::from(depth.get())
    }

    /// Pipe-SGD with the resources of a worker, for K = 2 and above: max(l_up + l_comp, l_comm) seconds (Eq. 4).
    pub fn pipelined(self) -> f64 {
        (self.update + self.compute).max(self.communication)
    }

    /// The scaling efficiency of Pipe-SGD: (l_up + l_comp) / Eq. 4, in 0..=1 (Eq. 7); 1 where nothing takes time.
    pub fn scaling_efficiency(self) -> f64 {
        let whole = self.pipelined();
        if whole > 0.0 { (self.update + self.compute) / whole } else { 1.0 }
    }
}

/// The ring all-reduce of a vector in one piece or in segments: the second argument of the maxima in Eq. 5 and 6.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RingExchange {
    /// alpha, beta and gamma.
    pub rates: LinkRates,
    /// p, the number of workers in the ring.
    pub workers: NonZeroU32,
    /// n, the length of the vector in bytes.
    pub bytes: u64,
    /// L; one for sequential communication (Eq. 5).
    pub segments: NonZeroU32,
    /// S, the global synchronization before each segment, in seconds.
    pub synchronization: f64,
}

impl RingExchange {
    /// 2 (p - 1) L alpha + 2 (p - 1) / p n beta + (p - 1) / p n gamma + L S seconds: the communication in Eq. 6, and with one
    /// segment that in Eq. 5.
    pub fn seconds(self) -> f64 {
        let segments = f64::from(self.segments.get());
        let line = crate::all_reduce::ring(self.rates, self.workers);
        segments * line.start_up() + line.per_byte() * self.bytes as f64 + segments * self.synchronization
    }
}
