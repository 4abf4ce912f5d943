//! What a run is: the typed, serialisable description that reaches its workers, and the families of names in it.

pub(crate) mod architecture;
pub(crate) mod cluster;
pub(crate) mod communication;
pub(crate) mod compression;
pub(crate) mod dataset;
pub(crate) mod emulation;
pub(crate) mod family;
pub(crate) mod graph_words;
pub(crate) mod layer;
pub(crate) mod model;
pub(crate) mod model_file;
pub(crate) mod model_partition;
pub(crate) mod node;
pub(crate) mod optimizer;
pub(crate) mod plan;
pub(crate) mod problem;
pub(crate) mod quantity;
pub(crate) mod sample;
pub(crate) mod strategy;
pub(crate) mod strategy_choice;
pub(crate) mod strategy_kind;
mod strategy_memory;
mod strategy_samples;
pub(crate) mod text;
pub(crate) mod threads;
pub(crate) mod topology;
pub(crate) mod train;
