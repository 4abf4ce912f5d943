//! From the command line's recipe to a plan, or to its problems on the user's screen.

use crate::args::RecipeArgs;
use crate::disk::DiskFiles;
use crate::exit::{Exit, Failure};
use crate::output::paint::{STRONG, paint};
use crate::output::{self, Console, human};
use crate::queue::QueueKind;
use crate::searches;
use recipe::{Colours, Files, Machine, Plan, PlanRequest, Problem, Problems, RunSpec, Severity};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// Name and question, and how much there is to do.
pub(crate) fn headline(plan: &Plan) -> String {
    let mut out = paint(STRONG, &plan.name);
    if !plan.question.is_empty() {
        let _ = write!(out, ": {}", plan.question);
    }
    let searched = searches::number(plan);
    let included = |cell: &usize| searched.is_none() || plan.cells[*cell].excluded.is_none();
    let compared = (0..plan.number_of_points()).filter(included).map(|cell| plan.compared_under(cell));
    let conditions = compared.collect::<BTreeSet<_>>();
    let cells = searched.unwrap_or_else(|| human::count(plan.cells.len(), "cell"));
    let cells = match excluded(plan) {
        0 => cells,
        excluded => format!("{cells} ({} excluded)", human::thousands(excluded as u64)),
    };
    let _ = writeln!(
        out,
        "\n{} x {} = {cells}, {}",
        human::count(plan.arms.len(), "arm"),
        human::count(conditions.len(), "condition"),
        number_of_runs(plan),
    );
    for line in searches::words(plan).iter().flat_map(|words| output::fold(words, output::width())) {
        let _ = writeln!(out, "{line}");
    }
    for words in plan.placements() {
        for line in output::fold(&format!("ranks: {words}"), output::width()) {
            let _ = writeln!(out, "{line}");
        }
    }
    for words in plan.threads() {
        let _ = writeln!(out, "threads: {words}");
    }
    for words in plan.emulated() {
        let _ = writeln!(out, "emulated: {words}");
    }
    for words in plan.faults() {
        let _ = writeln!(out, "fault: {words}");
    }
    for words in plan.graphs() {
        let _ = writeln!(out, "graph: {words}");
    }
    out.push_str(&kept_words(plan).unwrap_or_default());
    out.push_str(&evidence(plan));
    out
}

/// The room that models and sample ids take for good, where it is much.
fn kept_words(plan: &Plan) -> Option<String> {
    const MUCH: u64 = 10_000_000_000;
    let specs = plan.most_needed().into_iter().map(|run| &plan.cells[run.cell].spec);
    let kept = launch::kept_files(specs);
    let words = || {
        let size = human::bytes(kept);
        format!("disk: {size} of models and sample ids are kept; `measure.models = \"none\"` keeps no model")
    };
    (kept >= MUCH).then(|| output::fold(&words(), output::width()).join("\n") + "\n")
}

/// `18 runs`, or `18 to 144 runs` where they are made until something is decided.
pub(crate) fn number_of_runs(plan: &Plan) -> String {
    let recipe::Bounds { least, most } = plan.number_of_runs();
    let all = human::count(most, "run");
    if least == most { all } else { format!("{} to {all}", human::thousands(least as u64)) }
}

/// Cells that the recipe leaves out.
pub(crate) fn excluded(plan: &Plan) -> usize {
    plan.cells.iter().filter(|cell| cell.excluded.is_some()).count()
}

/// Lines about the evidence that the repeats and evaluations of a plan can give; empty for a single arm.
pub(crate) fn evidence(plan: &Plan) -> String {
    let sentences = reports::outlook(plan).into_iter().map(|words| format!("evidence: {words}"));
    let lines = sentences.flat_map(|words| output::fold(&words.replace('\u{a0}', " "), output::width()));
    lines.fold(String::new(), |text, line| text + &line + "\n")
}

/// The machine that recipes are planned for, with the Slurm allocation that it is in.
pub(crate) fn machine() -> Machine {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let processors = variable("SLURM_JOB_CPUS_PER_NODE");
    Machine::new(u32::try_from(cores).unwrap_or(u32::MAX))
        .inside(&variable("SLURM_JOB_NODELIST"), &processors)
}

/// A user who waits longer than this reads what for.
const SILENCE: Duration = Duration::from_secs(4);

/// Does work that reads files, and says so where it takes long.
pub(crate) fn patiently<T>(console: &Console, work: impl FnOnce() -> T) -> T {
    let (ended, end) = mpsc::channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || {
            if end.recv_timeout(SILENCE) == Err(RecvTimeoutError::Timeout) {
                console.say("still reading what the recipe names; a model file has at most two minutes");
            }
        });
        let result = work();
        drop(ended);
        result
    })
}

/// Plans a recipe; its problems go to standard error.
pub(crate) fn plan(args: &RecipeArgs, console: &Console) -> Result<Plan, Failure> {
    plan_for(args, None, console)
}

/// The same for a queue that gives each run machines of its own, where there is one.
pub(crate) fn plan_for(
    args: &RecipeArgs,
    queue: Option<QueueKind>,
    console: &Console,
) -> Result<Plan, Failure> {
    planned(&DiskFiles, args, &machine_for(queue), console)
}

/// The same with the files that `files` has.
pub(crate) fn plan_from(files: &dyn Files, args: &RecipeArgs, console: &Console) -> Result<Plan, Failure> {
    planned(files, args, &machine(), console)
}

/// The machine that recipes are planned for, in front of a queue or not.
pub(crate) fn machine_for(queue: Option<QueueKind>) -> Machine {
    match queue {
        Some(QueueKind::Slurm) => machine().in_front_of_a_queue(),
        None => machine(),
    }
}

/// The same for a recipe of which nothing runs: without the warnings about the cores and files of this machine.
pub(crate) fn plan_of_no_runs(args: &RecipeArgs, console: &Console) -> Result<Plan, Failure> {
    let silenced = [CORES, FILES];
    planned_without(&silenced, &DiskFiles, args, &machine(), console)
}

/// The warnings of runs that share cores, and of a data set that is not there.
const CORES: &str = "R201";
const FILES: &str = "R203";

fn planned(
    files: &dyn Files,
    args: &RecipeArgs,
    machine: &Machine,
    console: &Console,
) -> Result<Plan, Failure> {
    planned_without(&[], files, args, machine, console)
}

/// `silenced` are codes of warnings.
fn planned_without(
    silenced: &[&str],
    files: &dyn Files,
    args: &RecipeArgs,
    machine: &Machine,
    console: &Console,
) -> Result<Plan, Failure> {
    let request = PlanRequest {
        path: &args.recipe,
        overrides: &args.overrides,
        sweeps: &args.sweeps,
        only: args.only.as_deref(),
        repeats: args.repeats,
    };
    match patiently(console, || recipe::plan(files, &request, machine)) {
        Ok(plan) => {
            let said = plan.warnings.iter().filter(|warning| !silenced.contains(&warning.code.as_str()));
            draw(&said.cloned().collect::<Vec<_>>(), console);
            if plan.runs.is_empty() {
                return Err(nothing_to_run(args));
            }
            Ok(plan)
        }
        Err(problems) => {
            draw(&problems.list, console);
            console.write(&summary(&args.recipe, &problems));
            Err(Failure::Told(Exit::Usage))
        }
    }
}

/// The failure of a plan whose cells are all excluded.
fn nothing_to_run(args: &RecipeArgs) -> Failure {
    let recipe = args.recipe.display();
    let (what, cure) = match &args.only {
        Some(only) => (
            format!("no cell of {recipe} that fits `--only {only}` is to be run"),
            "`bakeoff plan` without `--only` shows the cells",
        ),
        None => (format!("every cell of {recipe} is excluded"), "let [[sweep.exclude]] leave a cell to run"),
    };
    Failure::new(Exit::Empty, what).cure(cure)
}

/// Refuses a plan whose strategies or codecs of other crates the worker binary lacks. Without a worker binary, or with one that does
/// not fit, a warning says that this is not known. A plan that needs none starts no worker binary.
pub(crate) fn ask_the_worker(plan: &Plan, console: &Console) -> Result<(), Failure> {
    let cells: BTreeSet<usize> = plan.runs.iter().map(|run| run.cell).collect();
    let specs: Vec<&RunSpec> = cells.iter().map(|cell| &plan.cells[*cell].spec).collect();
    if !specs.iter().any(|spec| launch::needs_custom(spec)) {
        return Ok(());
    }
    let worker = match launch::find_worker().and_then(|path| launch::examine(&path)) {
        Ok(worker) => worker,
        Err(error) => {
            let what = format!("whether the worker has what the recipe names is not known: {error}");
            console.warn(&what, "name the worker that you built in BAKEOFF_WORKER");
            return Ok(());
        }
    };
    match launch::check_inventory(&specs, &worker).into_iter().next() {
        Some(concern) => Err(Failure::new(Exit::Preflight, concern.what).cure(concern.cure)),
        None => Ok(()),
    }
}

/// Draws problems as compilers do.
pub(crate) fn draw(problems: &[Problem], console: &Console) {
    if !problems.is_empty() {
        // The stream strips the colours where they are not wanted.
        console.write(&format!("{}\n", recipe::render(problems, Colours::Ansi, output::width())));
    }
}

/// `recipe.toml: 2 errors, 1 warning`.
pub(crate) fn summary(recipe: &Path, problems: &Problems) -> String {
    let errors = problems.errors();
    let warnings = problems.list.iter().filter(|problem| problem.severity == Severity::Warning).count();
    let counts = [(errors, "error"), (warnings, "warning")];
    let told = counts.iter().filter(|(count, _)| *count > 0).map(|(count, noun)| human::count(*count, noun));
    format!("{}: {}", recipe.display(), told.collect::<Vec<_>>().join(", "))
}
