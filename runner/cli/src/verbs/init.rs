//! `bakeoff init`: a commented recipe to start from.

use crate::context::Context;
use crate::exit::{Exit, Failure};
use crate::output;
use crate::page;
use clap::builder::PossibleValuesParser;
use clap::{Args, ValueHint};
use recipe::Template;
use std::path::PathBuf;

/// Shown at the end of the verb's help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  bakeoff init                             compare two strategies: recipe.toml
  bakeoff init --template scaling
  bakeoff init sweeps/batch.toml --template batch

Templates:
  compare   which strategy trains faster
  scaling   how each strategy gains from more workers
  batch     how batch and learning rate change the picture

It never overwrites a file unless --force says so.";

/// Arguments of `init`.
#[derive(Debug, Args)]
pub(crate) struct InitArgs {
    /// File of the recipe.
    #[arg(value_name = "FILE", default_value = "recipe.toml", value_hint = ValueHint::FilePath)]
    file: PathBuf,
    /// The template.
    #[arg(short, long, value_name = "NAME", default_value = Template::ALL[0].name(), value_parser = PossibleValuesParser::new(Template::ALL.map(Template::name)))]
    template: String,
    /// Overwrite an existing file.
    #[arg(long)]
    force: bool,
}

/// Writes a template as the recipe's file; an existing one stays unless `--force` is given.
pub(crate) fn execute(args: &InitArgs, context: &Context<'_>) -> Result<Exit, Failure> {
    let template = Template::named(&args.template).unwrap_or(Template::ALL[0]);
    let file = args.file.display();
    if args.file.exists() && !args.force {
        let what = format!("{file} is there already");
        return Err(Failure::new(Exit::Usage, what).cure("name another file, or overwrite it with --force"));
    }
    page::save(&args.file, template.text())?;
    output::data(&format!("{file}: {}", template.about()))?;
    context.console.say(&format!("next: bakeoff plan {}", output::shell_word(&args.file.to_string_lossy())));
    Ok(Exit::Done)
}
