//! The cost of a message as a line: a + b M seconds for M bytes (MG-WFBP Eq. 9).

use crate::finite::is_amount;

/// a + b M seconds for a message of M bytes (MG-WFBP Eq. 9). Both are finite and not negative.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Linear {
    pub(crate) a: f64,
    pub(crate) b: f64,
}

/// Why a pair of numbers is no cost.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum LinearError {
    /// The start-up time is negative or not finite.
    #[error("a start-up time of {a} s is no time; it has to be finite and not negative")]
    StartUp {
        /// Value given for it, in seconds.
        a: f64,
    },
    /// The time per byte is negative or not finite.
    #[error("a time per byte of {b} s is no time; it has to be finite and not negative")]
    PerByte {
        /// Value given for it, in seconds per byte.
        b: f64,
    },
}

impl Linear {
    /// `a` in seconds, `b` in seconds per byte.
    ///
    /// # Errors
    /// One of them is negative, infinite or NaN.
    pub fn new(a: f64, b: f64) -> Result<Self, LinearError> {
        if !is_amount(a) {
            return Err(LinearError::StartUp { a });
        }
        if !is_amount(b) {
            return Err(LinearError::PerByte { b });
        }
        Ok(Self { a, b })
    }

    /// The cost of messages of one size: their time in seconds as a, and nothing per byte. A value that is no time counts as 0.
    pub fn constant(seconds: f64) -> Self {
        Self { a: if is_amount(seconds) { seconds } else { 0.0 }, b: 0.0 }
    }

    /// The start-up time a, in seconds.
    pub fn start_up(self) -> f64 {
        self.a
    }

    /// The time per byte b, in seconds.
    pub fn per_byte(self) -> f64 {
        self.b
    }

    /// Seconds that a message of `bytes` takes. A message of no bytes is not sent and takes none.
    pub fn time(self, bytes: u64) -> f64 {
        if bytes == 0 { 0.0 } else { self.a + self.b * bytes as f64 }
    }
}

/// Size and time of one measured message.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Probe {
    /// Its size; at least one byte.
    pub bytes: u64,
    /// Time that the message took.
    pub seconds: f64,
}

/// A line through measured messages; [`Fit::relative`] is for sizes that differ much.
#[derive(Clone, Debug, PartialEq)]
pub struct Fit {
    /// Fitted line, with a and b not negative.
    pub cost: Linear,
    /// Measured less fitted time of each message, in seconds, in the order of the messages.
    pub residuals: Vec<f64>,
    /// Coefficient that is held at zero, because the best line would make it negative; `None` if neither is.
    pub held: Option<Held>,
}

/// Which part of a line the least squares would have made negative; it is zero instead, and the other part is the best
/// beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// The start-up time, as where no message is small.
    StartUp,
    /// The time per byte, as where no message is large.
    PerByte,
}

/// Why no line can be fitted.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum FitError {
    /// All messages have one size, or there are none: any slope fits.
    #[error("a line needs messages of two sizes; of {probes} messages, all have one size")]
    OneSize {
        /// Number of messages given.
        probes: usize,
    },
    /// A message of no bytes.
    #[error("message {index} has no bytes; such a message is not sent")]
    Empty {
        /// Index of the message.
        index: usize,
    },
    /// A time that is no time.
    #[error("message {index} took {seconds} s; a time has to be finite and not negative")]
    Time {
        /// Index of the message.
        index: usize,
        /// The value given as its time.
        seconds: f64,
    },
    /// The sums of squares of such large times are not finite.
    #[error("the times are too large to fit a line")]
    Overflow,
}

impl Fit {
    /// The line with the least sum of squared residuals among those with a and b not negative.
    ///
    /// # Errors
    /// A message has no bytes or no time, or all have the same size.
    pub fn of(probes: &[Probe]) -> Result<Self, FitError> {
        Self::weighted(probes, |_| 1.0)
    }

    /// The same for residuals as shares of the measured times, which may differ a thousandfold: among absolute ones those of the
    /// longest messages would decide the start-up time. A time below a nanosecond counts as one.
    ///
    /// # Errors
    /// A message has no bytes or no time, or all have the same size, as of [`Fit::of`].
    pub fn relative(probes: &[Probe]) -> Result<Self, FitError> {
        Self::weighted(probes, |probe| probe.seconds.max(1e-9).powi(-2))
    }

    /// The largest residual as a share of its measured time; a time below a nanosecond counts as one.
    pub fn largest_share(&self, probes: &[Probe]) -> f64 {
        let shares =
            self.residuals.iter().zip(probes).map(|(off, probe)| off.abs() / probe.seconds.max(1e-9));
        shares.fold(0.0, f64::max)
    }

    /// The largest residual as a share of the longest measured time; a time below a nanosecond counts as one.
    pub fn largest_of_longest(&self, probes: &[Probe]) -> f64 {
        let off = self.residuals.iter().fold(0.0, |largest: f64, off| largest.max(off.abs()));
        off / probes.iter().fold(1e-9, |longest: f64, probe| longest.max(probe.seconds))
    }

    fn weighted(probes: &[Probe], weight: impl Fn(&Probe) -> f64) -> Result<Self, FitError> {
        for (index, probe) in probes.iter().enumerate() {
            if probe.bytes == 0 {
                return Err(FitError::Empty { index });
            }
            if !is_amount(probe.seconds) {
                return Err(FitError::Time { index, seconds: probe.seconds });
            }
        }
        if probes.windows(2).all(|pair| pair[0].bytes == pair[1].bytes) {
            return Err(FitError::OneSize { probes: probes.len() });
        }
        let sum =
            |of: &dyn Fn(&Probe) -> f64| probes.iter().map(|probe| weight(probe) * of(probe)).sum::<f64>();
        let count = sum(&|_| 1.0);
        let mean_bytes = sum(&|probe| probe.bytes as f64) / count;
        let mean_seconds = sum(&|probe| probe.seconds) / count;
        // Deviations from the means: the squares of the sizes themselves would cancel.
        let off = |probe: &Probe| probe.bytes as f64 - mean_bytes;
        let together = sum(&|probe| off(probe) * (probe.seconds - mean_seconds));
        let b = together / sum(&|probe| off(probe).powi(2));
        let a = mean_seconds - b * mean_bytes;
        let (a, b, held) = if b < 0.0 {
            (mean_seconds, 0.0, Some(Held::PerByte))
        } else if a < 0.0 {
            // The sum of squares is convex, so that the best allowed line lies on the edge that the best of all has crossed.
            let products = sum(&|probe| probe.bytes as f64 * probe.seconds);
            (0.0, products / sum(&|probe| (probe.bytes as f64).powi(2)), Some(Held::StartUp))
        } else {
            (a, b, None)
        };
        let cost = Linear::new(a, b).map_err(|_| FitError::Overflow)?;
        let residuals = probes.iter().map(|probe| probe.seconds - cost.time(probe.bytes)).collect();
        Ok(Self { cost, residuals, held })
    }
}
