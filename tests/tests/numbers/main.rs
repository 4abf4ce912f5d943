//! The numbers of real runs: those of the papers, of other programs, and of the same run another way.

mod batch_norm;
mod emulation;
mod frozen;
mod labelled_texts;
mod large_models;
mod mnist;
mod own_data;
mod own_model;
mod own_strategy;
mod papers;
mod pictures;
mod predictions;
mod shared_memory;
mod splitbrain;
mod strategies;
mod synchronous;
mod texts;
mod threads;
