//! The context of a verb.

use crate::args::Global;
use crate::output::Console;

/// The context of a verb.
pub(crate) struct Context<'a> {
    /// Options of every verb.
    pub(crate) global: Global,
    /// Standard error, for messages to the user.
    pub(crate) console: &'a Console,
}
