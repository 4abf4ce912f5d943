//! From a cell's settings to its [`RunSpec`](crate::RunSpec), with everything that is impossible about them: one file for
//! each part of the description.

pub(crate) mod assign;
pub(crate) mod batch_norm;
pub(crate) mod cell;
mod checkpoint;
pub(crate) mod collective;
pub(crate) mod communication;
pub(crate) mod compression;
pub(crate) mod custom;
pub(crate) mod dataset;
pub(crate) mod elastic;
pub(crate) mod emulation;
pub(crate) mod faults;
mod fitting;
pub(crate) mod gossip;
pub(crate) mod hybrid;
pub(crate) mod in_force;
pub(crate) mod inventory;
pub(crate) mod labelled_text;
mod links;
pub(crate) mod lr_schedule;
pub(crate) mod measure;
pub(crate) mod model;
pub(crate) mod optimizer;
pub(crate) mod period;
pub(crate) mod pictures;
pub(crate) mod prices;
pub(crate) mod quantize_range;
pub(crate) mod resolver;
pub(crate) mod schedule;
pub(crate) mod shared_keys;
pub(crate) mod strategy;
pub(crate) mod training;
