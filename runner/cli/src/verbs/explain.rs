//! `bakeoff explain`: what a key, a strategy or a code means.

use crate::exit::{Exit, Failure};
use crate::output;
use clap::Args;
use std::fmt::Write;
use store::Selection;

/// Shown at the end of the verb's help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  bakeoff explain                     everything that has a page
  bakeoff explain train.target        a key and what it takes
  bakeoff explain strategy.d-sync     a strategy and its keys
  bakeoff explain R012                an error's code
  bakeoff explain selection           how runs are selected, and by what";

/// Arguments of `explain`.
#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// A key (`train.optimizer.lr`), a kind (`strategy.d-sync`), a code (`R012`), or `selection`.
    #[arg(value_name = "KEY|CODE")]
    subject: Option<String>,
}

/// Longer lines are hard to read.
const WIDEST: usize = 100;

/// Explains.
pub(crate) fn execute(args: &ExplainArgs) -> Result<Exit, Failure> {
    let Some(subject) = &args.subject else {
        output::data(&format!("{}\n{SELECTION}", recipe::topics().join("\n")))?;
        return Ok(Exit::Done);
    };
    if subject == SELECTION {
        output::data(&output::wrap(&selection(), output::width().min(WIDEST)))?;
        return Ok(Exit::Done);
    }
    let shown = |page: &str| output::data(&output::wrap(page, output::width().min(WIDEST)));
    match (recipe::explain(subject), field(subject)) {
        (Ok(page), _) => shown(&page)?,
        (Err(_), Some(words)) => shown(&words)?,
        (Err(unexplained), None) => {
            let cure = match &unexplained.suggestion {
                Some(name) => format!("did you mean `{name}`? `bakeoff explain` lists everything"),
                None => "`bakeoff explain` lists everything".to_owned(),
            };
            return Err(Failure::new(Exit::Usage, unexplained.to_string()).cure(cure));
        }
    }
    Ok(Exit::Done)
}

/// The page of a selection's words.
const SELECTION: &str = "selection";

/// What selections of runs are made of.
fn selection() -> String {
    let mut page = "selection: which runs `list`, `report`, `compare`, `export`, `publish`, `tag` and `db prune` mean\n\n\
        Tests are joined with `and`, `or`, `not` and parentheses; values are compared with =, !=, <, <=, > and >=. Values with \
        blanks stand in quotation marks. `last` is the newest sweep that was made in this store, `last~1` the one before; 4 to 26 \
        characters of the beginning or the end of an id are a run or a sweep. Any axis has the name of its key, as \
        `train.optimizer.lr`, or its end, as `lr`.\n\n"
        .to_owned();
    for (name, words) in Selection::fields() {
        let _ = writeln!(page, "  {name:<16}{words}");
    }
    page
}

/// What a selection's field means, where it is no key of a recipe.
fn field(subject: &str) -> Option<String> {
    let (name, words) = Selection::fields().find(|(name, _)| *name == subject)?;
    Some(format!("{name}, of a selection of runs: {words}; `bakeoff explain {SELECTION}` shows the others"))
}
