//! One strategy per file; the file's stem is the recipe's `kind`. Each file's head has the same parts in the
//! same order: name, source with the algorithm's number, symbols, traffic per step, departures.

pub mod ad_psgd;
pub mod async_msgd;
pub mod async_sgd;
pub mod d_psgd;
pub mod d_sync;
pub mod eamsgd;
pub mod easgd_async;
pub mod easgd_hogwild;
pub mod easgd_original;
pub mod easgd_sync;
pub mod gmp;
pub mod hogwild_sgd;
pub mod local_sgd;
pub mod measgd_async;
pub mod pipe_sgd;
pub mod ps_sync;
pub mod sgp;
pub mod slowmo;
