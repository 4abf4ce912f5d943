//! One strategy per file; the file's stem is the recipe's `kind`. Each file's head has the same parts in the
//! same order: name, source with the algorithm's number, symbols, what is sent per step, departures.

pub mod d_sync;
pub mod ps_sync;
