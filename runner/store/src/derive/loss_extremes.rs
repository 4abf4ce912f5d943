//! The steps at which the training loss of any rank is extreme: the lowest and the highest value of each stretch of steps, and the
//! first one that is not finite. A curve of every n-th step would not show a spike between its points.

use std::collections::BTreeMap;

/// The largest number of stretches; there are more than half as many once there are steps enough.
const STRETCHES: u64 = 128;

/// A loss and its step. Of equal losses the earliest counts.
#[derive(Clone, Copy, Debug, PartialEq)]
struct LossAt {
    loss: f64,
    step: u64,
}

/// The extremes of a stretch.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Stretch {
    lowest: LossAt,
    highest: LossAt,
}

impl Stretch {
    fn merged(self, other: Self) -> Self {
        let lower =
            |one: LossAt, two: LossAt| one.loss.total_cmp(&two.loss).then(one.step.cmp(&two.step)).is_lt();
        let higher =
            |one: LossAt, two: LossAt| two.loss.total_cmp(&one.loss).then(one.step.cmp(&two.step)).is_lt();
        Self {
            lowest: if lower(other.lowest, self.lowest) { other.lowest } else { self.lowest },
            highest: if higher(other.highest, self.highest) { other.highest } else { self.highest },
        }
    }
}

/// The extremes of the losses of all ranks, in memory that does not grow with the steps.
#[derive(Clone, Debug, Default)]
pub(crate) struct LossExtremes {
    /// Steps of a stretch, as a power of two: the smallest that gives at most [`STRETCHES`].
    width: u32,
    /// By step divided by width.
    stretches: BTreeMap<u64, Stretch>,
    not_finite: Option<u64>,
}

impl LossExtremes {
    /// Divides the steps up to this one, too. The last one decides the width, whether it has a loss or not.
    pub(crate) fn reach(&mut self, step: u64) {
        while step >> self.width >= STRETCHES {
            self.widen();
        }
    }

    /// Takes the loss of a rank into account, in any order.
    pub(crate) fn add(&mut self, step: u64, loss: f64) {
        self.reach(step);
        if !loss.is_finite() {
            self.not_finite = Some(self.not_finite.map_or(step, |first| first.min(step)));
            return;
        }
        let place = LossAt { loss, step };
        self.merge(step >> self.width, Stretch { lowest: place, highest: place });
    }

    /// The steps, some of them twice.
    pub(crate) fn steps(&self) -> impl Iterator<Item = u64> {
        let extremes =
            self.stretches.values().flat_map(|stretch| [stretch.lowest.step, stretch.highest.step]);
        extremes.chain(self.not_finite)
    }

    /// Whether a step is among them.
    pub(crate) fn contains(&self, step: u64) -> bool {
        let own = self.stretches.get(&(step >> self.width));
        own.is_some_and(|own| own.lowest.step == step || own.highest.step == step)
            || self.not_finite == Some(step)
    }

    fn widen(&mut self) {
        self.width += 1;
        for (number, stretch) in std::mem::take(&mut self.stretches) {
            self.merge(number >> 1, stretch);
        }
    }

    fn merge(&mut self, number: u64, stretch: Stretch) {
        let merged = self.stretches.get(&number).map_or(stretch, |known| known.merged(stretch));
        self.stretches.insert(number, merged);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn of(losses: &[(u64, f64)]) -> LossExtremes {
        let mut extremes = LossExtremes::default();
        for (step, loss) in losses {
            extremes.add(*step, *loss);
        }
        extremes
    }

    /// The extremes of stretches of `width` steps, one by one.
    fn plain(losses: &[(u64, f64)], width: u64) -> BTreeSet<u64> {
        let mut steps = BTreeSet::new();
        for number in 0..STRETCHES {
            let own = || losses.iter().filter(|(step, loss)| step / width == number && loss.is_finite());
            let (low, high) =
                own().fold((f64::MAX, f64::MIN), |(low, high), (_, loss)| (low.min(*loss), high.max(*loss)));
            for extreme in [low, high] {
                steps.extend(
                    own().filter(|(_, loss)| loss.total_cmp(&extreme).is_eq()).map(|(step, _)| *step).min(),
                );
            }
        }
        steps.extend(losses.iter().filter(|(_, loss)| !loss.is_finite()).map(|(step, _)| *step).min());
        steps
    }

    #[test]
    fn each_stretch_has_its_extremes_in_any_order_and_what_is_chosen_is_chosen_again() {
        for (last, width) in [(127, 1), (128, 2), (5_000, 64), (100_000, 1_024)] {
            let loss = |step: u64| match step % 4_999 {
                4_998 => f64::NAN,
                rest => (rest * 7_919 % 613) as f64,
            };
            let mut losses: Vec<(u64, f64)> = (1..=last).map(|step| (step, loss(step))).collect();
            let found: BTreeSet<u64> = of(&losses).steps().collect();
            assert_eq!(found, plain(&losses, width), "{last}");
            losses.reverse();
            assert_eq!(of(&losses).steps().collect::<BTreeSet<u64>>(), found);
            // The last step is always kept, so that the width is the same.
            losses.retain(|(step, _)| found.contains(step) || *step == last);
            let again = of(&losses);
            assert_eq!(again.steps().collect::<BTreeSet<u64>>(), found);
            assert!((0..=last).all(|step| again.contains(step) == found.contains(&step)));
        }
    }
}
