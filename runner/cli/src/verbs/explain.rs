//! `bakeoff explain`: what a key, a strategy or a code means.

use crate::exit::{Exit, Failure};
use crate::output;
use clap::Args;

/// Shown at the end of the verb's help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  bakeoff explain                     everything that has a page
  bakeoff explain train.target        a key and what it takes
  bakeoff explain strategy.d-sync     a strategy and its keys
  bakeoff explain R012                an error's code";

/// Arguments of `explain`.
#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// A key (`train.optimizer.lr`), a kind (`strategy.d-sync`) or a code (`R012`).
    #[arg(value_name = "KEY|CODE")]
    subject: Option<String>,
}

/// Longer lines are hard to read.
const WIDEST: usize = 100;

/// Explains.
pub(crate) fn execute(args: &ExplainArgs) -> Result<Exit, Failure> {
    let Some(subject) = &args.subject else {
        output::data(&recipe::topics().join("\n"))?;
        return Ok(Exit::Done);
    };
    match recipe::explain(subject) {
        Ok(page) => output::data(&output::wrap(&page, output::width().min(WIDEST)))?,
        Err(unexplained) => {
            let cure = match &unexplained.suggestion {
                Some(name) => format!("did you mean `{name}`? `bakeoff explain` lists everything"),
                None => "`bakeoff explain` lists everything".to_owned(),
            };
            return Err(Failure::new(Exit::Usage, unexplained.to_string()).cure(cure));
        }
    }
    Ok(Exit::Done)
}
