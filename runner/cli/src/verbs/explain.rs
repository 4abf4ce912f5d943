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
  bakeoff explain selection           how runs are selected, and by what
  bakeoff explain queue               runs as jobs of Slurm";

/// Arguments of `explain`.
#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// A key (`train.optimizer.lr`, or its end), a kind (`strategy.d-sync`), a code (`R012`), `selection` or `queue`.
    #[arg(value_name = "KEY|CODE")]
    subject: Option<String>,
}

/// Longer lines are hard to read.
const WIDEST: usize = 100;

/// Prints the page of the subject, or all subjects without one.
pub(crate) fn execute(args: &ExplainArgs) -> Result<Exit, Failure> {
    let Some(subject) = &args.subject else {
        output::data(&format!("{}\n{SELECTION}\n{QUEUE}", recipe::topics().join("\n")))?;
        return Ok(Exit::Done);
    };
    if subject == SELECTION {
        output::data(&output::wrap(&selection(), output::width().min(WIDEST)))?;
        return Ok(Exit::Done);
    }
    if [QUEUE, "slurm", "job", "jobs"].contains(&subject.as_str()) {
        output::data(&output::wrap(QUEUE_PAGE, output::width().min(WIDEST)))?;
        return Ok(Exit::Done);
    }
    let shown = |page: &str| output::data(&output::wrap(page, output::width().min(WIDEST)));
    match (recipe::explain(subject), field(subject)) {
        (Ok(page), None) => shown(&page)?,
        (Ok(page), Some(words)) => shown(&format!("{page}\n{words}\n"))?,
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

/// The page about `run --submit`.
const QUEUE: &str = "queue";

const QUEUE_PAGE: &str = "\
queue: each run of `bakeoff run RECIPE --submit slurm` is a job

The driver submits the jobs, waits, and alone writes the store; the jobs leave their results in its folder `jobs/`, on a disk that the nodes \
share. Ctrl-C leaves the jobs in the queue. The same command finds them again, takes results, and submits only runs that have no job.

  `--dry-run`             shows the jobs, submits none
  `--jobs N`              has at most N jobs in the queue at once
  `--fresh`               cancels jobs of earlier drivers, and makes all runs again
  `bakeoff status`        how each job stands, and its log
  `scancel NUMBER`        cancels one; the same command submits it again

Options of `sbatch` come after `--`:

  `--partition`, `--constraint`, `--nodelist`, `--gres`
                        decide on which machines a run is, and are a part of what it is: with other ones it is another run
  `--nodelist=n1,n2`      gives all arms the same machines, so that no difference between machines counts as one between arms
  `--time=2:00:00`        a minute before its time is up a job ends in order; `train.checkpoint` lets its run continue
  `--deadline=now+8hours`
                        the queue drops a job that is not over then; without it, a driver waits as long as the queue lets a job wait

Nodes, tasks, name, log and script of a job follow from the recipe, and are refused there. A job has its nodes alone unless `--oversubscribe` is \
given. Of jobs that cannot begin, as their time is more than the partition's, `status` and the driver's line say the reason.
";

/// The page of a selection's words.
const SELECTION: &str = "selection";

/// The page about selections of runs: their syntax, and their fields.
fn selection() -> String {
    let mut page = "selection: which runs `list`, `report`, `compare`, `export`, `publish`, `tag` and `db prune` mean\n\n\
        Tests are joined with `and`, `or`, `not` and parentheses; values are compared with =, !=, <, <=, > and >=. Values with \
        blanks stand in quotation marks. `last` is the newest sweep that was made in this store, `last~1` the one before; 4 to 26 \
        characters of the beginning or the end of an id are a run or a sweep. Any key of a recipe is compared as in `--only`, whether it was \
        an axis or not: by its path, as `train.optimizer.lr < 0.1`, or its end, as `lr < 0.1`, and with units, as \
        `bandwidth >= 1Gbit/s`. Only `!=` and `not` find a run whose recipe has no \
        value there, or on whose strategy the key has no effect. Lengths in epochs and in steps are never equal. A list is compared \
        as a whole, as pages show it. Of sweeps that earlier versions recorded, only the values of axes are known, and no comparison \
        of another key finds their runs.\n\n"
        .to_owned();
    for (name, words) in Selection::fields() {
        let _ = writeln!(page, "  {name:<16}{words}");
    }
    page
}

/// A sentence about a field of selections; `None` if the subject is none.
fn field(subject: &str) -> Option<String> {
    let (name, words) = Selection::fields().find(|(name, _)| *name == subject)?;
    Some(format!("{name}, of a selection of runs: {words}; `bakeoff explain {SELECTION}` shows the others"))
}
