//! `bakeoff nodes`: what the machines of a recipe are, whether they can run it, and the ways between them.

use crate::args::RecipeArgs;
use crate::context::Context;
use crate::exit::{Exit, Failure};
use crate::machines::{connect_each, nodes_of};
use crate::output::paint::{BAD, ODD, PLAIN};
use crate::output::table::{Cell, Sheet};
use crate::output::{self, human};
use crate::planning;
use clap::{Args, Subcommand};
use launch::{HostError, HostState, Inspect, LaunchError, Way, WayState};
use recipe::{Access, Device};
use record::Nanos;
use std::fmt::Write;
use std::time::Duration;

/// Shown at the end of the verb's help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  bakeoff nodes check recipe.toml
  bakeoff nodes check recipe.toml --set 'nodes.use=[\"lab[01-08]\"]'
  bakeoff nodes bench recipe.toml          round trips, bandwidth of every way

Exit code 4 if a machine cannot run the recipe.";

/// Bytes over each way of a benchmark, there and back.
const BENCH: u64 = 64 << 20;
/// A one-minute load of as many tasks per core is more than the machine's own housekeeping.
const BUSY: f64 = 0.25;

/// Arguments of `nodes`.
#[derive(Debug, Args)]
pub(crate) struct NodesArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Whether the machines of a recipe can run it, with a cure for each that cannot.
    Check(RecipeArgs),
    /// The same, with the round trip and the bandwidth of every way between them.
    Bench(RecipeArgs),
}

/// Inspects the machines of a recipe.
pub(crate) fn execute(args: &NodesArgs, context: &Context<'_>) -> Result<Exit, Failure> {
    let (recipe, bytes) = match &args.what {
        What::Check(recipe) => (recipe, 0),
        What::Bench(recipe) => (recipe, BENCH),
    };
    let plan = planning::plan(recipe, context.console)?;
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
            bytes,
        };
        let (states, ways) = hosts.inspect(&nodes, inspect).await;
        hosts.close().await;
        let width = output::width();
        output::data(machines(&states, &errors).render(width).trim_end())?;
        if !ways.is_empty() {
            output::data(&format!("\n{}", sheet(&ways).render(width).trim_end()))?;
        }
        let problems = problems(&states, &errors, &ways);
        for (what, cure) in &problems {
            output::data(&told(what, cure, width))?;
        }
        Ok(if problems.is_empty() { Exit::Done } else { Exit::Preflight })
    })
}

/// A row for each machine.
fn machines(states: &[HostState], errors: &[HostError]) -> Sheet {
    let all = ["machine", "state", "cores", "cards", "memory free", "disk free", "load", "clock", "governor"];
    // Of no interest where all train on processors.
    let with_cards = states.iter().any(|state| state.node.device != Device::Cpu);
    let head: Vec<&str> = all.into_iter().filter(|name| with_cards || *name != "cards").collect();
    let numbers: Vec<usize> = (2..head.len() - 1).collect();
    let mut sheet = Sheet::new(&head).right(&numbers).whole(&[0, 1]);
    for error in errors {
        let rest = head.iter().skip(2).map(|_| "–".into());
        let row = [error.host.as_str().into(), Cell::styled(BAD, "unreachable")].into_iter().chain(rest);
        sheet.row(row.collect());
    }
    for state in states {
        let fit = state.worker.is_ok() && state.data.is_ok() && state.door.is_ok();
        let load = state.counters.as_ref().and_then(|counters| counters.load);
        let governor = state.counters.as_ref().and_then(|counters| counters.governor.clone());
        let busy = load.is_some_and(|load| load > BUSY * f64::from(state.free.cores));
        let word = match (fit, busy) {
            (false, _) => Cell::styled(BAD, "cannot run"),
            (true, true) => Cell::styled(ODD, "busy"),
            (true, false) => Cell::styled(PLAIN, "ready"),
        };
        let cards = state.free.cards.map_or_else(|| "–".to_owned(), |cards| cards.to_string());
        let mut row = vec![state.node.name.as_str().into(), word, state.free.cores.to_string().into()];
        row.extend(with_cards.then(|| cards.into()));
        row.extend([
            human::bytes(state.free.memory).into(),
            human::bytes(state.free.disk).into(),
            load.map_or_else(|| "–".into(), |load| format!("{load:.2}")).into(),
            clock(state.clock_error).into(),
            governor.unwrap_or_else(|| "–".into()).into(),
        ]);
        sheet.row(row);
    }
    sheet
}

/// The bound of what a clock's comparison with this machine's is wrong by.
fn clock(error: u64) -> String {
    if error == u64::MAX { "–".into() } else { format!("±{}", human::time(Nanos(error))) }
}

fn time(duration: Duration) -> String {
    human::time(Nanos(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)))
}

/// A row for each way.
fn sheet(ways: &[WayState]) -> Sheet {
    let measured = ways.iter().any(|way| way.outcome.as_ref().is_ok_and(|way| way.bandwidth.is_some()));
    let head = ["from", "to", "round trip", "there and back at once"];
    let mut sheet = Sheet::new(if measured { &head } else { &head[..3] }).right(&[2, 3]);
    for WayState { from, to, outcome } in ways {
        let (round_trip, speed) = match outcome {
            Ok(Way { round_trip: shortest, bandwidth }) => {
                let speed = bandwidth.map(|speed| format!("{}/s", human::bytes(speed as u64)));
                (Cell::from(time(*shortest)), speed.unwrap_or_else(|| "–".into()))
            }
            Err(_) => (Cell::styled(BAD, "closed"), "–".into()),
        };
        let row = [from.as_str().into(), to.as_str().into(), round_trip, speed.into()];
        sheet.row(row.into_iter().take(if measured { 4 } else { 3 }).collect());
    }
    sheet
}

/// What keeps the recipe from running, each with its cure.
fn problems(states: &[HostState], errors: &[HostError], ways: &[WayState]) -> Vec<(String, String)> {
    let of_launch = |error: &LaunchError| match error {
        LaunchError::Host(error) => (error.to_string(), error.cure()),
        error => (error.to_string(), String::new()),
    };
    let mut problems: Vec<_> = errors.iter().map(|error| (error.to_string(), error.cure())).collect();
    for state in states {
        problems.extend(state.worker.as_ref().err().map(of_launch));
        problems.extend(state.data.as_ref().err().map(of_launch));
        problems.extend(state.door.as_ref().err().map(|error| (error.to_string(), error.cure())));
    }
    for WayState { from, to, outcome } in ways {
        if let Err(error) = outcome {
            let cure = "open the port of a firewall and name it in `nodes.ports`, give the machine's `address` in the \
                        inventory, or send everything through ssh: `nodes.tunnel = \"ssh\"`";
            problems
                .push((format!("the way from {from} to {to} is closed: {}", error.fault), cure.to_owned()));
        }
    }
    problems
}

fn told(what: &str, cure: &str, width: usize) -> String {
    let mut out = String::new();
    for line in output::fold(&format!("problem: {what}"), width) {
        let _ = write!(out, "\n{line}");
    }
    if !cure.is_empty() {
        for line in output::fold(&format!("cure: {cure}"), width.saturating_sub(4)) {
            let _ = write!(out, "\n    {line}");
        }
    }
    out
}
