//! The figures that there are.

use std::fmt;

/// A chart or a table of a page that can stand alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FigureName {
    /// Which arm wins where: lines over one axis, a map over two.
    Winners,
    /// Ratios of all arms under all conditions.
    Forest,
    /// All axes at once, a line for every arm under every condition.
    Parallel,
    /// Speed-up and efficiency over the number of workers.
    Scaling,
    /// Steps and time per step, relative to the baseline.
    Plane,
    /// Time and final quality of every arm.
    Front,
    /// A metric over training.
    Accuracy,
    /// The training loss over training.
    Loss,
    /// Results of the settings of each search, rung by rung.
    Search,
    /// Phases of a step.
    Phases,
    /// Predicted and measured step times.
    Forecast,
    /// The arms with their results; a table.
    Scoreboard,
    /// Costs of reaching the target; a table.
    Cost,
}

impl FigureName {
    /// All of them, in the order of the page.
    pub const ALL: [Self; 13] = [
        Self::Winners,
        Self::Forest,
        Self::Parallel,
        Self::Scaling,
        Self::Plane,
        Self::Front,
        Self::Accuracy,
        Self::Loss,
        Self::Search,
        Self::Phases,
        Self::Forecast,
        Self::Scoreboard,
        Self::Cost,
    ];

    /// As users write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Winners => "winners",
            Self::Forest => "forest",
            Self::Parallel => "parallel",
            Self::Scaling => "scaling",
            Self::Plane => "plane",
            Self::Front => "front",
            Self::Accuracy => "accuracy",
            Self::Loss => "loss",
            Self::Search => "search",
            Self::Phases => "phases",
            Self::Forecast => "forecast",
            Self::Scoreboard => "scoreboard",
            Self::Cost => "cost",
        }
    }

    /// Subject of the figure in words, for lists of figures.
    pub fn words(self) -> &'static str {
        match self {
            Self::Winners => "which arm wins where: lines over one axis, maps over two",
            Self::Forest => "the speed-up of every arm with its interval",
            Self::Parallel => "all axes at once: a line for every arm under every condition",
            Self::Scaling => "speed-up and efficiency over the number of workers",
            Self::Plane => "steps to the target and time per step, relative to the baseline",
            Self::Front => "time and final quality, and what no other arm beats in both",
            Self::Accuracy => "the metric of one condition over training",
            Self::Loss => "the training loss of one condition",
            Self::Search => "how each arm found its settings: what each came to, rung by rung",
            Self::Phases => "where the time of a step goes",
            Self::Forecast => "predicted and measured step times",
            Self::Scoreboard => "the arms of one condition with their results, as a table only",
            Self::Cost => {
                "what it costs to reach the target: machine time, rank time, price, as a table only"
            }
        }
    }
}

impl fmt::Display for FigureName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
