//! `bakeoff tag`: names for sweeps, which selections understand.

use crate::context::Context;
use crate::exit::{Exit, Failure};
use crate::output::{self, human};
use clap::Args;
use store::{FittingSweep, Selection, Store, SweepTag, Tagging};

/// Shown at the end of the verb's help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  bakeoff tag last paper-v2              gives the newest sweep a tag
  bakeoff tag 4F7K2Q9M baseline nightly  a sweep by an id of it or of its runs
  bakeoff tag \"tag=paper-v2\" paper-v2 --remove
  bakeoff list \"tag=paper-v2\"
  bakeoff report \"tag=baseline\" -o page.html

A tag belongs to a whole sweep, and a sweep may have several. Pages and
published cards show them; bundles and rebuilds keep them.";

/// Arguments of `tag`.
#[derive(Debug, Args)]
pub(crate) struct TagArgs {
    /// Which sweeps: those of which a run fits, in the words of `bakeoff list`.
    #[arg(value_name = "SELECTION")]
    selection: String,
    /// The tags: letters, digits, `-`, `_` and `.`.
    #[arg(value_name = "NAME", required = true)]
    names: Vec<String>,
    /// Take the tags away.
    #[arg(long)]
    remove: bool,
}

/// Gives the tags to each sweep that fits, or takes them away.
pub(crate) fn execute(args: &TagArgs, context: &Context<'_>) -> Result<Exit, Failure> {
    let selection = Selection::parse(&args.selection)?;
    let tags = args.names.iter().map(|name| SweepTag::parse(name)).collect::<Result<Vec<_>, _>>()?;
    let tagging = if args.remove { Tagging::Take } else { Tagging::Give };
    super::wait(async {
        let (store, sweeps) = writable(&selection, context).await?;
        for found in &sweeps {
            let mut changed = Vec::new();
            for tag in &tags {
                if store.record_tag(&found.sweep, tag, tagging, human::now()).await? {
                    changed.push(tag.as_str());
                }
            }
            output::data(&words(found, &changed, tagging))?;
        }
        store.close().await;
        Ok(Exit::Done)
    })
}

fn words(found: &FittingSweep, changed: &[&str], tagging: Tagging) -> String {
    let what = match (tagging, changed) {
        (Tagging::Give, []) => "has these tags already".to_owned(),
        (Tagging::Take, []) => "has none of these tags".to_owned(),
        (Tagging::Give, changed) => format!("is tagged {}", changed.join(", ")),
        (Tagging::Take, changed) => format!("lost {}", changed.join(", ")),
    };
    format!("sweep {} of {} {what}", found.sweep, found.recipe)
}

/// The store, and the sweeps of which a run fits. The store is brought up to date where it is older, and nothing is created.
pub(crate) async fn writable(
    selection: &Selection,
    context: &Context<'_>,
) -> Result<(Store, Vec<FittingSweep>), Failure> {
    let folder = &context.global.store;
    let store = super::db::open(folder).await?;
    let sweeps = store.sweeps_fitting(selection).await?;
    Ok((store, sweeps))
}
