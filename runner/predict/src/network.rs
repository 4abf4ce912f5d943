//! Networks as latency and bandwidth: the alpha-beta model.

use crate::finite::is_amount;
use crate::linear::Linear;

/// Cost of messages and sums between two ranks. All rates are finite and not negative.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkRates {
    alpha: f64,
    beta: f64,
    gamma: f64,
}

/// A rate that is no rate.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("{rate} is {value}; it has to be finite and not negative")]
pub struct RateError {
    /// Which of `alpha`, `beta` and `gamma`.
    pub rate: &'static str,
    /// Value given for it, in seconds or seconds per byte.
    pub value: f64,
}

impl LinkRates {
    /// `alpha`: latency in seconds; `beta`: seconds per byte on the link; `gamma`: seconds per byte that is added.
    ///
    /// # Errors
    /// One of them is negative, infinite or NaN.
    pub fn new(alpha: f64, beta: f64, gamma: f64) -> Result<Self, RateError> {
        for (rate, value) in [("alpha", alpha), ("beta", beta), ("gamma", gamma)] {
            if !is_amount(value) {
                return Err(RateError { rate, value });
            }
        }
        Ok(Self { alpha, beta, gamma })
    }

    /// Latency of a message, in seconds.
    pub fn alpha(self) -> f64 {
        self.alpha
    }

    /// Seconds per byte on the link.
    pub fn beta(self) -> f64 {
        self.beta
    }

    /// Seconds per byte that is added.
    pub fn gamma(self) -> f64 {
        self.gamma
    }

    /// The cost of one message between two ranks: alpha + M beta (SC17 section 5.2).
    pub fn message(self) -> Linear {
        Linear { a: self.alpha, b: self.beta }
    }
}

/// The networks of SC17 Table 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamedNetwork {
    /// Mellanox 56 Gb/s FDR InfiniBand.
    InfinibandFdr,
    /// Intel 40 Gb/s QDR InfiniBand.
    InfinibandQdr,
    /// Intel 10 Gb/s Ethernet, NetEffect NE020.
    TenGigabitEthernet,
}

impl NamedNetwork {
    /// All of them, in the order of the table.
    pub const ALL: [Self; 3] = [Self::InfinibandFdr, Self::InfinibandQdr, Self::TenGigabitEthernet];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::InfinibandFdr => "fdr",
            Self::InfinibandQdr => "qdr",
            Self::TenGigabitEthernet => "10gbe",
        }
    }

    /// The name in the table.
    pub fn words(self) -> &'static str {
        match self {
            Self::InfinibandFdr => "Mellanox 56 Gb/s FDR InfiniBand",
            Self::InfinibandQdr => "Intel 40 Gb/s QDR InfiniBand",
            Self::TenGigabitEthernet => "Intel 10 GbE NetEffect NE020",
        }
    }

    /// alpha and beta of the table. It knows no gamma: sums are free.
    pub fn rates(self) -> LinkRates {
        let (alpha, beta) = match self {
            Self::InfinibandFdr => (0.7e-6, 0.2e-9),
            Self::InfinibandQdr => (1.2e-6, 0.3e-9),
            Self::TenGigabitEthernet => (7.2e-6, 0.9e-9),
        };
        LinkRates { alpha, beta, gamma: 0.0 }
    }
}
