//! Repeats until decided: which runs a sweep still needs after a look.

use crate::search;
use crate::verdict::whole_percent;
use crate::{Options, ReportError};
use comparison::Look;
use comparison::looks::{listed, under_way};
use recipe::Plan;
use store::{RunState, SweepRows};

/// Number of runs that were made, or are known to be needed.
pub fn made(rows: &SweepRows) -> usize {
    let under_way = under_way(rows);
    search::due(rows).filter(|run| run.repeat < under_way && run.state != RunState::NotNeeded).count()
}

/// Effect of several looks on claims, in words; `None` of a fixed number of repeats.
pub fn looks_in_words(plan: &Plan) -> Option<String> {
    let looks = plan.looks.as_slice();
    let together = whole_percent(plan.report.confidence).replace('\u{a0}', " ");
    let words = || {
        format!(
            "repeats until decided, looked at after {}: claims and ratios hold at {together} over all looks",
            listed(looks)
        )
    };
    (!looks.is_empty()).then(words)
}

/// Looks at the runs that a sweep has so far.
///
/// # Errors
/// The plan does not have the baseline of the options.
pub fn look(rows: &SweepRows, options: &Options) -> Result<Look, ReportError> {
    Ok(comparison::look(rows, options.baseline.as_deref())?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Sample;

    #[test]
    fn looks_are_said_where_there_are_several() {
        let plan = |looks: &[u32]| Sample { looks: looks.to_vec(), ..Sample::duel() }.rows().plan;
        let words = "repeats until decided, looked at after 3, 6 and 7 repeats: claims and ratios hold at 95 % over all looks";
        let said = |looks: &[u32]| looks_in_words(&plan(looks));
        assert_eq!((said(&[]), said(&[3, 6, 7])), (None, Some(words.to_owned())));
    }
}
