//! Keys that may be written: their table, and how it is searched.

pub(crate) mod arm_keys;
mod fault_keys;
pub(crate) mod key;
pub(crate) mod lookup;
pub(crate) mod model_keys;
pub(crate) mod sweep_keys;
pub(crate) mod table;
pub(crate) mod training_keys;
