//! Settings of `measure` to its description.

use crate::values::settings::Settings;
use crate::values::typed_key::Defaulted;
use crate::{HashTime, KeptModels, KeptSteps, Measure};

const FIRST_STEPS: Defaulted<u64> = Defaulted::whole("measure.trace.first-steps");
const TRACE_EVERY: Defaulted<u64> = Defaulted::whole("measure.trace.every");
const WEIGHT_HASH: Defaulted<HashTime> = Defaulted::choice("measure.weight-hash");
const SAMPLES: Defaulted<bool> = Defaulted::flag("measure.samples");
const MODELS: Defaulted<KeptModels> = Defaulted::choice("measure.models");
const STEPS: Defaulted<KeptSteps> = Defaulted::choice("measure.steps");

/// The measurements that the settings ask for.
pub(crate) fn read(settings: &Settings) -> Measure {
    Measure {
        trace_first_steps: FIRST_STEPS.of(settings),
        trace_every: TRACE_EVERY.of(settings),
        hash_every_step: match WEIGHT_HASH.of(settings) {
            HashTime::Evaluation => false,
            HashTime::Step => true,
        },
        samples: SAMPLES.of(settings),
        models: MODELS.of(settings),
        steps: STEPS.of(settings),
    }
}
