//! Sentences that claim something of an arm's speed, with how sure each claim is.

use super::Writer;
use super::words::{capitalised, sure_in_text, whole_percent};
use crate::number_format;
use comparison::study::SpeedMeasure;
use comparison::{Comparison, Grade};

impl Writer<'_> {
    pub(super) fn same_weights(comparison: &Comparison) -> Option<String> {
        let seeds = comparison.same_weights?;
        let seeds = if seeds == 1 { "the one common seed".to_owned() } else { format!("all {seeds} seeds") };
        Some(format!("Same weights bit for bit for {seeds}: only speed differs."))
    }

    /// Whether there is a difference, and whether it matters.
    pub(super) fn claim(&self, comparison: &Comparison) -> Option<String> {
        let effect = whole_percent(self.thresholds.min_effect);
        let contrast = comparison.speed();
        let arm = self.arm();
        let side = if contrast.is_faster() { "faster" } else { "slower" };
        let sure = contrast.sure.map(sure_in_text);
        Some(match comparison.grade {
            Grade::Faster | Grade::Slower => capitalised(&format!(
                "{} sure that {arm} is {side} than {} by more than {effect}.",
                sure?,
                self.base()
            )),
            Grade::FasterSmall | Grade::SlowerSmall => {
                let any = contrast.sure_at_all.map(sure_in_text)?;
                capitalised(&format!(
                    "{any} sure that {arm} is {side} than {}, but by less than {effect}, which does not matter here.",
                    self.base()
                ))
            }
            Grade::FasterOpen | Grade::SlowerOpen => {
                let any = contrast.sure_at_all.map(sure_in_text)?;
                capitalised(&format!(
                    "{any} sure that {arm} is {side} than {}; whether by more than {effect} is open ({} sure).",
                    self.base(),
                    sure?
                ))
            }
            Grade::NoDifference => format!("No difference that matters: less than {effect} either way."),
            Grade::Open if contrast.at_least.is_some_and(|least| least <= 1.0) => {
                format!("Open: {} was not watched for longer than that.", self.base())
            }
            Grade::Open => match contrast.sure_at_all {
                Some(any) if any < 0.5 => "Open: the runs do not tell which of the two is faster.".to_owned(),
                Some(any) => format!(
                    "Open: {} sure that {arm} is {side}, {} that the difference is larger than {effect}.",
                    sure_in_text(any),
                    sure?
                ),
                None => self.no_comparison(),
            },
            Grade::DidNotReach | Grade::Diverged => return None,
        })
    }

    /// A sentence on a certain difference of the steps, where the time to the target is open.
    pub(super) fn certain_steps(&self, comparison: &Comparison) -> Option<String> {
        let steps = &comparison.step_time;
        if !comparison.grade.is_open() || comparison.speed().measure == SpeedMeasure::StepTime {
            return None;
        }
        let effect = whole_percent(self.thresholds.min_effect);
        let side = if steps.is_faster() { "faster" } else { "slower" };
        let (sure, rest) = match steps.grade {
            Grade::Faster | Grade::Slower => (steps.sure?, format!(" by more than {effect}")),
            Grade::FasterSmall | Grade::SlowerSmall => {
                (steps.sure_at_all?, format!(", but by less than {effect}"))
            }
            Grade::FasterOpen | Grade::SlowerOpen => (steps.sure_at_all?, String::new()),
            Grade::NoDifference => return Some(format!("Its steps are as fast to within {effect}.")),
            Grade::Open | Grade::DidNotReach | Grade::Diverged => return None,
        };
        Some(capitalised(&format!("{} sure that its steps are {side}{rest}.", sure_in_text(sure))))
    }

    fn no_comparison(&self) -> String {
        match self.base_cell().filter(|base| base.mostly_diverged()) {
            Some(base) => format!(
                "Open: {} diverged in {} of {}, so there is nothing to compare with.",
                self.base(),
                base.diverged(),
                number_format::plural(base.runs.len(), "run")
            ),
            None if self.condition.target.is_some() => {
                "Open: too few pairs of runs in which both reached the target.".to_owned()
            }
            None => "Open: too few runs to compare.".to_owned(),
        }
    }
}
