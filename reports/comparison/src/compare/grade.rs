//! The words of a comparison. Each says whether there is a difference and whether it matters.

/// The verdict on the speed of an arm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Grade {
    /// Faster by more than the smallest effect that matters.
    Faster,
    /// Faster, by how much is open.
    FasterOpen,
    /// Faster, by less than the smallest effect that matters.
    FasterSmall,
    /// Neither faster nor slower by the smallest effect that matters.
    NoDifference,
    /// Slower, by less than the smallest effect that matters.
    SlowerSmall,
    /// Slower, by how much is open.
    SlowerOpen,
    /// Slower by more than the smallest effect that matters.
    Slower,
    /// The runs do not tell.
    Open,
    /// Half of the runs or fewer reached the target.
    DidNotReach,
    /// Half of the runs or more diverged.
    Diverged,
}

impl Grade {
    /// All grades, from faster to slower, then those that say neither.
    pub const ALL: [Self; 10] = [
        Self::Faster,
        Self::FasterOpen,
        Self::FasterSmall,
        Self::NoDifference,
        Self::SlowerSmall,
        Self::SlowerOpen,
        Self::Slower,
        Self::Open,
        Self::DidNotReach,
        Self::Diverged,
    ];

    /// The name on the page and in the terminal.
    pub fn name(self) -> &'static str {
        match self {
            Self::Faster => "faster",
            Self::FasterOpen => "faster, size open",
            Self::FasterSmall => "faster, but little",
            Self::NoDifference => "no difference that matters",
            Self::SlowerSmall => "slower, but little",
            Self::SlowerOpen => "slower, size open",
            Self::Slower => "slower",
            Self::Open => "open",
            Self::DidNotReach => "did not reach",
            Self::Diverged => "diverged",
        }
    }

    /// The label where costs are compared in place of times.
    pub fn cost_label(self, quality: Option<Quality>) -> String {
        self.label(quality).replace("faster", "cheaper").replace("slower", "dearer")
    }

    /// The name, with the loss of quality that it was bought with.
    pub fn label(self, quality: Option<Quality>) -> String {
        let lost = self.compares() && quality.is_some_and(Quality::is_lost);
        format!("{}{}", self.name(), if lost { ", worse quality" } else { "" })
    }

    /// The same as one word: its CSS class. An arm that is faster and lost quality has one of its own.
    pub fn class(self, quality: Option<Quality>) -> &'static str {
        match self {
            _ if self.is_faster() && quality.is_some_and(Quality::is_lost) => "faster-worse",
            Self::Faster => "faster",
            Self::FasterOpen => "faster-open",
            Self::FasterSmall => "faster-small",
            Self::NoDifference => "no-difference",
            Self::SlowerSmall => "slower-small",
            Self::SlowerOpen => "slower-open",
            Self::Slower => "slower",
            Self::Open => "open",
            Self::DidNotReach => "did-not-reach",
            Self::Diverged => "diverged",
        }
    }

    /// Whether it says that the arm is faster, by whatever amount.
    pub fn is_faster(self) -> bool {
        matches!(self, Self::Faster | Self::FasterOpen | Self::FasterSmall)
    }

    /// Whether it says that the arm is slower, by whatever amount.
    pub fn is_slower(self) -> bool {
        matches!(self, Self::Slower | Self::SlowerOpen | Self::SlowerSmall)
    }

    /// The same from the other side: what it says of the baseline.
    #[must_use]
    pub fn flipped(self) -> Self {
        match self {
            Self::Faster => Self::Slower,
            Self::FasterOpen => Self::SlowerOpen,
            Self::FasterSmall => Self::SlowerSmall,
            Self::SlowerSmall => Self::FasterSmall,
            Self::SlowerOpen => Self::FasterOpen,
            Self::Slower => Self::Faster,
            Self::NoDifference | Self::Open | Self::DidNotReach | Self::Diverged => self,
        }
    }

    /// Whether more repeats can change it.
    pub fn is_open(self) -> bool {
        match self {
            Self::FasterOpen | Self::SlowerOpen | Self::Open => true,
            Self::Faster
            | Self::FasterSmall
            | Self::NoDifference
            | Self::SlowerSmall
            | Self::Slower
            | Self::DidNotReach
            | Self::Diverged => false,
        }
    }

    /// Whether the runs of the arm are compared by speed at all.
    pub fn compares(self) -> bool {
        !matches!(self, Self::DidNotReach | Self::Diverged)
    }
}

/// The verdict on the final metric of an arm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Quality {
    /// The weights are those of the baseline, bit for bit.
    SameWeights,
    /// Better by more than the margin.
    Better,
    /// Not worse by more than the margin.
    NotWorse,
    /// Worse, by less than the margin.
    WorseSmall,
    /// Worse, by how much is open.
    WorseOpen,
    /// Worse by more than the margin.
    Worse,
    /// The runs do not tell.
    Open,
}

impl Quality {
    /// The name on the page and in the terminal.
    pub fn name(self) -> &'static str {
        match self {
            Self::SameWeights => "same weights",
            Self::Better => "better",
            Self::NotWorse => "not worse",
            Self::WorseSmall => "worse, but little",
            Self::WorseOpen => "worse, size open",
            Self::Worse => "worse",
            Self::Open => "open",
        }
    }

    /// The same as one word.
    pub fn class(self) -> &'static str {
        match self {
            Self::SameWeights => "same-weights",
            Self::Better => "better",
            Self::NotWorse => "not-worse",
            Self::WorseSmall => "worse-small",
            Self::WorseOpen => "worse-open",
            Self::Worse => "worse",
            Self::Open => "open",
        }
    }

    /// Whether the final metric is worse, and not known to be so by less than the margin.
    pub fn is_lost(self) -> bool {
        matches!(self, Self::Worse | Self::WorseOpen)
    }

    /// Words that follow a winner's name; empty where nothing speaks against its quality.
    pub fn caveat(self) -> &'static str {
        match self {
            Self::SameWeights | Self::Better | Self::NotWorse => "",
            Self::WorseSmall => "a little worse in quality",
            Self::WorseOpen | Self::Worse => "worse in quality",
            Self::Open => "quality open",
        }
    }
}
