//! Every key of a recipe, in the order in which `plan --full` writes them.

use crate::keys::key::Key;
use crate::keys::{arm_keys, fault_keys, model_keys, sweep_keys, training_keys};

/// All keys of a recipe, joined from the tables of their parts.
pub(crate) const KEYS: &[Key] = &joined();

const PARTS: [&[Key]; 5] =
    [model_keys::KEYS, training_keys::KEYS, fault_keys::KEYS, arm_keys::KEYS, sweep_keys::KEYS];

const LENGTH: usize = model_keys::KEYS.len()
    + training_keys::KEYS.len()
    + fault_keys::KEYS.len()
    + arm_keys::KEYS.len()
    + sweep_keys::KEYS.len();

#[expect(clippy::large_stack_arrays, reason = "made while compiling, and never on a stack")]
const fn joined() -> [Key; LENGTH] {
    let mut keys = [model_keys::KEYS[0]; LENGTH];
    let mut part = 0;
    let mut at = 0;
    let mut filled = 0;
    while part < PARTS.len() {
        if at == PARTS[part].len() {
            part += 1;
            at = 0;
        } else {
            keys[filled] = PARTS[part][at];
            at += 1;
            filled += 1;
        }
    }
    keys
}
