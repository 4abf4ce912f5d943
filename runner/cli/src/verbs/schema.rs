//! `bakeoff schema`: the JSON schema of recipes.

use crate::exit::{Exit, Failure};
use crate::output;
use clap::Args;

/// Shown at the end of the verb's help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  bakeoff schema > recipe.schema.json

Editors with TOML support complete and check recipes that begin with
  #:schema ./recipe.schema.json";

/// Arguments of `schema`.
#[derive(Debug, Args)]
pub(crate) struct SchemaArgs {}

/// Prints the JSON schema of recipes.
pub(crate) fn execute(_: &SchemaArgs) -> Result<Exit, Failure> {
    output::json(&recipe::schema())?;
    Ok(Exit::Done)
}
