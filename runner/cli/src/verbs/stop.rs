//! `bakeoff stop`: ends what runs, from any terminal, and clears up what killed drivers left.

use crate::context::Context;
use crate::exit::{Exit, Failure};
use crate::live::{self, Level, Live, LiveMember};
use crate::output::{self, human};
use clap::Args;
use std::path::Path;
use std::time::{Duration, Instant};
use store::{DATABASE, Driver, Store, StoreError};

/// Shown at the end of the verb's help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  bakeoff stop             runs under way end after their current step
  bakeoff stop --now       they end without waiting for a step
  bakeoff stop --kill      everything is killed; what was recorded is kept

The same `bakeoff run` continues where it stopped. Exit code 5 if something has
not stopped within the time of --wait.";

/// Arguments of `stop`.
#[derive(Debug, Args)]
pub(crate) struct StopArgs {
    /// Do not wait for the end of a step.
    #[arg(long, conflicts_with = "kill")]
    now: bool,
    /// Kill at once.
    #[arg(long)]
    kill: bool,
    /// How long to wait for the end, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    wait: u64,
}

/// How long a driver that is to be killed may take to leave by itself, and its processes to follow it.
const GRACE: Duration = Duration::from_secs(3);
/// Time between two looks at processes that are to end.
const GLANCE: Duration = Duration::from_millis(50);

/// Asks running drivers to stop, waits for their end, and clears up after killed ones.
pub(crate) fn execute(args: &StopArgs, context: &Context<'_>) -> Result<Exit, Failure> {
    let store = &context.global.store;
    if !store.is_dir() {
        return Err(StoreError::NoStore { folder: store.clone() }.into());
    }
    let level = match (args.now, args.kill) {
        (_, true) => Level::Kill,
        (true, _) => Level::Now,
        _ => Level::Softly,
    };
    let (running, gone): (Vec<Live>, Vec<Live>) = live::all(store).into_iter().partition(Live::is_alive);
    for live in &running {
        live::ask(store, &live.driver, level)?;
        context.console.say(&format!(
            "asked process {} ({}) to {}",
            live.driver.pid,
            live.recipe,
            words(live, level)
        ));
    }
    let deadline = Instant::now() + Duration::from_secs(args.wait);
    let mut stubborn = Vec::new();
    for live in &running {
        if stopped(store, live, level, deadline) {
            output::data(&format!("process {} ({}) has stopped", live.driver.pid, live.recipe))?;
            finish_off(store, live)?;
        } else {
            stubborn.push(live);
        }
    }
    for live in &gone {
        output::data(&format!("process {} ({}) had been killed", live.driver.pid, live.recipe))?;
        finish_off(store, live)?;
    }
    close_books(store, context)?;
    if running.is_empty() && gone.is_empty() {
        output::data(&format!("nothing runs with the results in {}", store.display()))?;
    }
    match stubborn.first() {
        None => Ok(Exit::Done),
        Some(live) => Err(still_there(live, level, args.wait)),
    }
}

fn words(live: &Live, level: Level) -> &'static str {
    match level {
        Level::Softly | Level::Now if live.waits_for_jobs() => "leave; its jobs stay in the queue",
        Level::Softly => "stop after the current step",
        Level::Now => "stop at once",
        Level::Kill => "leave everything",
    }
}

/// Waits for the end of a driver; kills it if that was asked for and it does not go by itself.
fn stopped(store: &Path, live: &Live, level: Level, deadline: Instant) -> bool {
    if level == Level::Kill && !ended(|| live.has_ended(store), Instant::now() + GRACE) {
        live::kill(&live.driver);
    }
    ended(|| live.has_ended(store), deadline)
}

fn gone(processes: &[&Driver], deadline: Instant) -> bool {
    ended(|| !processes.iter().any(|process| process.lives()), deadline)
}

fn ended(over: impl Fn() -> bool, deadline: Instant) -> bool {
    while !over() {
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(GLANCE);
    }
    true
}

/// Sees to it that nothing of a driver that is gone is left.
fn finish_off(store: &Path, live: &Live) -> Result<(), Failure> {
    let members: Vec<&LiveMember> = live.under_way().flat_map(|run| &run.members).collect();
    let processes: Vec<&Driver> = members.iter().map(|member| &member.process).collect();
    // The kernel is about to kill them; a process that outlives this moment was not asked to die with its driver.
    if !gone(&processes, Instant::now() + GRACE) {
        for member in members.iter().filter(|member| live::kill(&member.process)) {
            output::data(&format!("killed {}, process {}", member.name, member.process.pid))?;
        }
    }
    live::forget(store, &live.driver);
    Ok(())
}

/// Folders of sockets go, and runs of drivers that are gone read as interrupted.
fn close_books(store: &Path, context: &Context<'_>) -> Result<(), Failure> {
    let folders = launch::reap();
    if folders > 0 {
        output::data(&format!("removed {} of sockets", human::count(folders, "folder")))?;
    }
    if !store.join(DATABASE).is_file() {
        return Ok(());
    }
    super::wait(async {
        let looking = Store::open_existing(store).await?;
        let left = looking.left_over().await?;
        looking.close().await;
        drop(looking);
        if left.is_empty() {
            return Ok(());
        }
        Store::open(store).await?.close().await;
        for sweep in &left {
            let runs = human::count(sweep.unfinished as usize, "run");
            output::data(&format!(
                "closed the books of sweep {} ({}, {runs} unfinished)",
                sweep.sweep, sweep.recipe
            ))?;
        }
        context.console.say("the same `bakeoff run` continues where they stopped");
        Ok(())
    })
}

fn still_there(live: &Live, level: Level, seconds: u64) -> Failure {
    let Live { driver, recipe, .. } = live;
    let asleep = if driver.is_here() && is_stopped(driver.pid) {
        "; it is suspended (`kill -CONT` lets it go on)"
    } else {
        ""
    };
    let cure = match level {
        Level::Softly => "`bakeoff stop --now` does not wait for a step, `bakeoff stop --kill` for nothing",
        Level::Now => "`bakeoff stop --kill` does not wait",
        Level::Kill => "the system holds on to it: see `dmesg`, and the file systems that it uses",
    };
    Failure::new(
        Exit::Short,
        format!("process {} ({recipe}) has not stopped within {seconds} s{asleep}", driver.pid),
    )
    .cure(cure)
}

/// Whether a process is suspended, by Ctrl-Z or SIGSTOP.
fn is_stopped(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| matches!(rest.split_whitespace().next(), Some("T" | "t")))
}
