//! What every verb may use.

use crate::args::Global;
use crate::output::Console;

/// What every verb may use.
pub(crate) struct Context<'a> {
    /// Options of every verb.
    pub(crate) global: Global,
    /// Standard error.
    pub(crate) console: &'a Console,
}
