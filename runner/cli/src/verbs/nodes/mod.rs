//! `bakeoff nodes`: what the machines of a recipe are, whether they can run it, and the ways between them.

mod machines;
mod ways;

use crate::args::RecipeArgs;
use crate::context::Context;
use crate::exit::{Exit, Failure};
use crate::machines::{connect_each, nodes_of};
use crate::output::{self, human};
use crate::planning;
use clap::{Args, Subcommand};
use launch::{HostError, HostState, Inspect, LaunchError, WayState};
use recipe::Access;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;
use ways::MeasuredWay;

/// Shown at the end of the verb's help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  bakeoff nodes check recipe.toml
  bakeoff nodes check recipe.toml --set 'nodes.use=[\"lab[01-08]\"]'
  bakeoff nodes bench recipe.toml          what messages cost on every way, and all-reduces
  bakeoff nodes check recipe.toml --json | jq '.machines[] | select(.ready | not)'

What `bench` measures is added to nodes.jsonl in the store.

Exit code 4 if a machine cannot run the recipe.";

/// Where benchmarks are kept, a line for each.
const KEPT_IN: &str = "nodes.jsonl";

/// Arguments of `nodes`.
#[derive(Debug, Args)]
pub(crate) struct NodesArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Whether the machines of a recipe can run it, with a cure for each that cannot.
    Check(Asked),
    /// The same, with what messages cost on every way between them as a line a + b M, and what all-reduces would.
    Bench(Asked),
}

#[derive(Debug, Args)]
struct Asked {
    #[command(flatten)]
    recipe: RecipeArgs,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

/// Inspects the machines of a recipe.
pub(crate) fn execute(args: &NodesArgs, context: &Context<'_>) -> Result<Exit, Failure> {
    let (asked, sizes) = match &args.what {
        What::Check(asked) => (asked, &[][..]),
        What::Bench(asked) => (asked, &ways::SIZES[..]),
    };
    let plan = planning::plan(&asked.recipe, context.console)?;
    let nodes = nodes_of(&plan);
    if nodes.iter().all(|node| node.access == Access::Local) {
        return Err(Failure::new(Exit::Empty, "the recipe runs on this machine alone")
            .cure("name others, as in --set 'nodes.use=[\"lab1*2\", \"lab2*2\"]'"));
    }
    let worker = launch::examine(&launch::find_worker()?)?;
    let mut sources: Vec<_> = plan.cells.iter().map(|cell| &cell.spec.dataset.source).collect();
    sources.dedup();
    super::wait(async {
        let (mut hosts, errors) = connect_each(&nodes, context).await;
        let inspect = Inspect {
            worker: &worker,
            sources: &sources,
            copy_data: plan.hosts.copy_data,
            ports: plan.hosts.ports,
            sizes,
        };
        let (states, ways) = hosts.inspect(&nodes, inspect).await;
        hosts.close().await;
        let found = Found { states, errors, ways };
        let problems = problems(&found);
        if !sizes.is_empty() {
            keep(&context.global.store, &found)?;
        }
        if asked.json {
            output::json(&document(&found, &problems))?;
        } else {
            tell(&found, &problems)?;
        }
        Ok(if problems.is_empty() { Exit::Done } else { Exit::Preflight })
    })
}

/// Findings about machines and the ways between them.
struct Found {
    states: Vec<HostState>,
    /// Of those that cannot be reached.
    errors: Vec<HostError>,
    ways: Vec<WayState>,
}

impl Found {
    fn measured(&self) -> Vec<MeasuredWay> {
        self.ways.iter().filter_map(MeasuredWay::of).collect()
    }
}

fn tell(found: &Found, problems: &[Advice]) -> Result<(), Failure> {
    let Found { states, errors, ways } = found;
    let width = output::width();
    output::data(machines::machines(states, errors).render(width).trim_end())?;
    if !states.is_empty() {
        output::data(&format!("\n{}", machines::networks(states).render(width).trim_end()))?;
    }
    if !ways.is_empty() {
        output::data(&format!("\n{}", ways::sheet(ways).render(width).trim_end()))?;
    }
    if let Some(sheet) = ways::all_reduces(&found.measured(), states.len()) {
        output::data(&format!("\n{}", sheet.render(width).trim_end()))?;
        let words = "Predicted for one rank on each machine from the slowest line of the ways, without the time of the sums.";
        output::data(&output::fold(words, width).join("\n"))?;
    }
    for (what, cure) in problems {
        output::data(&told("problem", what, cure, width))?;
    }
    for (what, cure) in machines::remarks(states) {
        output::data(&told("remark", &what, &cure, width))?;
    }
    Ok(())
}

/// The findings as JSON, for programs.
fn document(found: &Found, problems: &[Advice]) -> Value {
    let unreachable = found.errors.iter().map(|error| json!({ "name": error.host, "ready": false }));
    let machine = |state: &HostState| {
        let of_counters = state.counters.as_ref();
        json!({
            "name": state.node.name,
            "ready": machines::fits(state),
            "host": state.facts.host,
            "system": state.facts.system,
            "processor": state.facts.processor,
            "cores": state.free.cores,
            "gpus": state.free.gpus,
            "memory_free": state.free.memory,
            "disk_free": state.free.disk,
            "load": of_counters.and_then(|counters| counters.load),
            "governor": of_counters.and_then(|counters| counters.governor.clone()),
            "clock_error_ns": (state.clock_error < u64::MAX).then_some(state.clock_error),
            "wall_clock_ahead_ns": state.wall_clock.map(|clock| clock.ahead),
            "wall_clock_error_ns": state.wall_clock.map(|clock| clock.error),
            "door": state.door.as_ref().ok(),
            "network": state.network,
        })
    };
    let advice = |(what, cure): &Advice| json!({ "what": what, "cure": cure });
    json!({
        "machines": unreachable.chain(found.states.iter().map(machine)).collect::<Vec<_>>(),
        "ways": found.measured(),
        "problems": problems.iter().map(advice).collect::<Vec<_>>(),
        "remarks": machines::remarks(&found.states).iter().map(advice).collect::<Vec<_>>(),
    })
}

/// Adds what was measured to the store's record.
fn keep(store: &Path, found: &Found) -> Result<(), Failure> {
    let path = store.join(KEPT_IN);
    let line = json!({ "at": human::now(), "ways": found.measured() });
    let kept = std::fs::create_dir_all(store)
        .and_then(|()| OpenOptions::new().create(true).append(true).open(&path))
        .and_then(|mut file| writeln!(file, "{line}"));
    kept.map_err(|error| {
        Failure::new(Exit::Internal, format!("{} cannot be written: {error}", path.display()))
    })
}

/// Something that is wrong, and its cure.
type Advice = (String, String);

/// Reasons why the recipe cannot run, each with its cure.
fn problems(found: &Found) -> Vec<Advice> {
    let of_launch = |error: &LaunchError| match error {
        LaunchError::Host(error) => (error.to_string(), error.cure()),
        error => (error.to_string(), String::new()),
    };
    let mut problems: Vec<_> = found.errors.iter().map(|error| (error.to_string(), error.cure())).collect();
    for state in &found.states {
        problems.extend(state.worker.as_ref().err().map(of_launch));
        problems.extend(state.data.as_ref().err().map(of_launch));
        problems.extend(state.door.as_ref().err().map(|error| (error.to_string(), error.cure())));
    }
    for WayState { from, to, outcome } in &found.ways {
        if let Err(error) = outcome {
            let cure = "open the port of a firewall and name it in `nodes.ports`, give the machine's `address` in the \
                        inventory, or send everything through ssh: `nodes.tunnel = \"ssh\"`";
            problems
                .push((format!("the way from {from} to {to} is closed: {}", error.fault), cure.to_owned()));
        }
    }
    problems
}

fn told(word: &str, what: &str, cure: &str, width: usize) -> String {
    let mut out = String::new();
    for line in output::fold(&format!("{word}: {what}"), width) {
        let _ = write!(out, "\n{line}");
    }
    if !cure.is_empty() {
        for line in output::fold(&format!("cure: {cure}"), width.saturating_sub(4)) {
            let _ = write!(out, "\n    {line}");
        }
    }
    out
}
