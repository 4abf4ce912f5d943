//! How often each weight was updated. Weights that were always updated together share a number.

use crate::{StateError, StateVisitor};
use std::ops::Range;

/// The number of updates of each weight, as runs that tile the weights in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct UpdateCounts {
    /// Empty before the first update.
    runs: Vec<Counted>,
}

/// Neighbouring weights with one number of updates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Counted {
    pub(super) span: Range<usize>,
    pub(super) updates: u64,
}

impl UpdateCounts {
    /// Counts an update of a span among `all` weights, and returns its runs with their new numbers.
    pub(super) fn count(&mut self, span: Range<usize>, all: usize) -> Vec<Counted> {
        if self.runs.is_empty() {
            self.runs.push(Counted { span: 0..all, updates: 0 });
        }
        self.cut(span.start);
        self.cut(span.end);
        let mut counted = Vec::new();
        for run in &mut self.runs {
            if !run.span.is_empty() && span.start <= run.span.start && run.span.end <= span.end {
                run.updates += 1;
                counted.push(run.clone());
            }
        }
        self.join();
        counted
    }

    /// Divides the run around a place.
    fn cut(&mut self, at: usize) {
        let around = self.runs.iter().position(|run| run.span.start < at && at < run.span.end);
        if let Some(index) = around {
            let run = &mut self.runs[index];
            let behind = Counted { span: at..run.span.end, ..*run };
            run.span.end = at;
            self.runs.insert(index + 1, behind);
        }
    }

    /// Joins neighbours with one number.
    fn join(&mut self) {
        self.runs.dedup_by(|next, run| {
            let same = next.updates == run.updates;
            if same {
                run.span.end = next.span.end;
            }
            same
        });
    }

    /// The runs: how many there are, where each ends, and its number.
    pub(super) fn state(&mut self, weights: usize, state: &mut StateVisitor<'_>) -> Result<(), StateError> {
        let count = state.count("runs", self.runs.len(), weights.max(1))?;
        self.runs.resize(count, Counted::default());
        let mut start = 0;
        for (number, run) in self.runs.iter_mut().enumerate() {
            let end = state.count(&format!("end{number}"), run.span.end, weights)?;
            state.number(&format!("updates{number}"), &mut run.updates)?;
            // A run that ends before it starts, or before the last weight.
            if end < start || number + 1 == count && end != weights {
                return Err(StateError::Range { name: format!("end{number}"), found: end as u64 });
            }
            run.span = start..end;
            start = end;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::State;

    /// The number of each weight.
    fn each(counts: &UpdateCounts) -> Vec<u64> {
        counts.runs.iter().flat_map(|run| run.span.clone().map(|_| run.updates)).collect()
    }

    #[test]
    fn runs_are_what_a_number_for_each_weight_would_be() {
        let mut counts = UpdateCounts::default();
        let mut plain = [0_u64; 10];
        for span in [4..10, 0..4, 0..10, 7..10, 2..7, 0..2, 5..5, 3..4, 0..10] {
            let counted = counts.count(span.clone(), plain.len());
            plain[span.clone()].iter_mut().for_each(|count| *count += 1);
            assert_eq!(each(&counts), plain, "{span:?}");
            let told: Vec<u64> =
                counted.iter().flat_map(|run| run.span.clone().map(|_| run.updates)).collect();
            assert_eq!(told, plain[span.clone()], "{span:?}");
            assert!(counts.runs.windows(2).all(|two| two[0].updates != two[1].updates), "{span:?}");
        }
        assert_eq!(counts.runs.len(), 3);
    }

    #[test]
    fn counts_are_loaded_as_they_were_saved_and_others_are_refused() {
        let mut counts = UpdateCounts::default();
        counts.count(0..6, 10);
        counts.count(0..3, 10);
        let saved = State::save(|state| counts.state(10, state)).expect("nothing to fail");
        let load = |state: State, weights| {
            let mut loaded = UpdateCounts::default();
            state.load(|state| loaded.state(weights, state)).map(|()| loaded)
        };
        assert_eq!(load(saved.clone(), 10), Ok(counts));
        assert_eq!(load(saved.clone(), 11), Err(StateError::Range { name: "end2".into(), found: 10 }));
        let early = saved.with("end1", crate::state::Stored::Number(2));
        assert_eq!(load(early, 10), Err(StateError::Range { name: "end1".into(), found: 2 }));
        let none = State::save(|state| UpdateCounts::default().state(10, state)).expect("nothing to fail");
        assert_eq!(load(none, 10), Ok(UpdateCounts::default()));
    }
}
