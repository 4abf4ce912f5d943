//! Whether a run learns, and as much as it should.

use super::{Arm, Ran};
use recipe::{CodedSum, Compression, Strategy};

/// The largest share of the loss that may be left. A quarter of the right step leaves 0.745, and no step all of it.
const LEARNED: f64 = 0.5;
/// The runs to which all that follow the path of `d-sync` are compared: it, and it with half and with twice the rate.
pub(crate) const MEASURES: [Arm; 3] = [("d-sync", ""), ("d-sync", "lr = 0.05"), ("d-sync", "lr = 0.2")];
/// The mean loss over the last fifth of the samples is well below that over the first.
pub(crate) fn learns(ran: &Ran) -> Vec<String> {
    let (first, last) = losses(ran);
    // Half the rate is there to be compared with.
    if last < LEARNED * first || ran.is(MEASURES[1]) {
        return vec![];
    }
    vec![format!("the loss went from {first:.3} to {last:.3}")]
}

/// A run that follows the path of `d-sync`, exactly or nearly, ends with a loss that is nearer to its than to that
/// which half or twice the step leaves.
pub(crate) fn follows_the_path(ran: &Ran, runs: &[Ran]) -> Vec<String> {
    let follows = matches!(
        ran.spec.strategy,
        Strategy::DSync
            | Strategy::PsSync
            | Strategy::PipeSgd { .. }
            | Strategy::LocalSgd { .. }
            | Strategy::Gmp { .. }
            | Strategy::Sgp
    );
    // The codes that lose little.
    let exact = match ran.spec.compression {
        Compression::None => true,
        Compression::Coded { codec, .. } => codec.route() == CodedSum::EveryHop,
    };
    if !follows || !exact || MEASURES[1..].iter().any(|measure| ran.is(*measure)) {
        return vec![];
    }
    let left = |measure| {
        let same = |other: &&Ran| other.is(measure) && other.workers() == ran.workers();
        losses(runs.iter().find(same).unwrap()).1
    };
    let [full, half, twice] = MEASURES.map(left);
    let least = (full * twice).sqrt();
    let most = (full * half).sqrt();
    let own = losses(ran).1;
    if (least..most).contains(&own) {
        return vec![];
    }
    vec![format!(
        "the loss ends at {own:.3}, and not between {least:.3} and {most:.3}: {twice:.3} {full:.3} {half:.3}"
    )]
}

/// The mean losses over the first and the last fifth of the samples.
fn losses(ran: &Ran) -> (f64, f64) {
    let mut losses: Vec<(u64, f64, f64)> = ran
        .steps()
        .filter_map(|step| Some((step.samples, f64::from(step.own_samples), f64::from(step.loss?))))
        .collect();
    losses.sort_by_key(|(samples, ..)| *samples);
    let mean = |some: &[(u64, f64, f64)]| {
        let samples: f64 = some.iter().map(|(_, samples, _)| samples).sum();
        some.iter().map(|(_, samples, loss)| samples * loss).sum::<f64>() / samples
    };
    let fifth = losses.len() / 5;
    (mean(&losses[..fifth]), mean(&losses[losses.len() - fifth..]))
}
