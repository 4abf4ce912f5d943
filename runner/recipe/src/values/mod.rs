//! Checked values: each written value against its key, and the settings that they make up.

pub(crate) mod check;
pub(crate) mod fault;
pub(crate) mod fault_list;
pub(crate) mod fields;
pub(crate) mod layer_list;
pub(crate) mod leaf;
pub(crate) mod read;
pub(crate) mod settings;
pub(crate) mod slow;
pub(crate) mod slow_list;
pub(crate) mod typed_key;
pub(crate) mod unknown;
pub(crate) mod value;
