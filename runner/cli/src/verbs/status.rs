//! `bakeoff status`: what runs now, and what killed drivers left.

use crate::context::Context;
use crate::exit::{Exit, Failure};
use crate::live::{self, Live, LiveRun};
use crate::output::paint::{FAINT, ODD, STRONG, paint};
use crate::output::table::Sheet;
use crate::output::{self, human};
use crate::verbs::jobs::{self, Job, Shown};
use clap::Args;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;
use std::time::Duration;
use store::{Annotations, LeftOver, Store, StoreError};

/// Shown at the end of the verb's help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  bakeoff status               what runs now with the results in .bakeoff
  bakeoff status --watch       again every second, until nothing runs
  bakeoff status --json | jq '.running[].run.members'

`bakeoff stop` ends what runs, and clears up what killed processes left. Jobs of
`run --submit` are listed while they wait and run, and until a driver takes
their results.";

/// Arguments of `status`.
#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
    /// Repeat every second until no sweep runs.
    #[arg(short, long, conflicts_with = "json")]
    watch: bool,
}

/// The most arms that are shown: the rest of a terminal is for the run under way.
const MOST_ARMS: usize = 12;
/// Columns of a curve.
const COLUMNS: usize = 24;

/// How often a watcher looks.
const PACE: Duration = Duration::from_secs(1);

/// Running sweeps, and the remains of killed drivers.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Status {
    running: Vec<Live>,
    /// Drivers that were killed.
    gone: Vec<Live>,
    /// Their sweeps that are still open in the database.
    left_over: Vec<LeftOver>,
    /// Tags and notes of these sweeps, by their ids.
    annotations: BTreeMap<String, Annotations>,
    /// Jobs of a queue that no driver has taken over yet.
    jobs: Vec<Job>,
}

/// Prints running sweeps, remains of killed drivers, and jobs; with `--watch` until no sweep runs.
pub(crate) fn execute(args: &StatusArgs, context: &Context<'_>) -> Result<Exit, Failure> {
    let store = &context.global.store;
    if !store.is_dir() {
        return Err(StoreError::NoStore { folder: store.clone() }.into());
    }
    loop {
        let status = look(store, context)?;
        if args.json {
            output::json(&status)?;
            return Ok(Exit::Done);
        }
        if args.watch {
            output::clear_screen()?;
        }
        output::data(&words(&status, store, output::width()))?;
        if !args.watch || status.running.is_empty() {
            return Ok(Exit::Done);
        }
        std::thread::sleep(PACE);
    }
}

fn look(store: &Path, context: &Context<'_>) -> Result<Status, Failure> {
    let (running, gone): (Vec<Live>, Vec<Live>) = live::all(store).into_iter().partition(Live::is_alive);
    let Recorded { left_over, annotations } = recorded(store, context)?;
    let shown: BTreeSet<&String> = running
        .iter()
        .map(|live: &Live| &live.sweep)
        .chain(left_over.iter().map(|left| &left.sweep))
        .collect();
    let annotations = annotations.into_iter().filter(|(sweep, _)| shown.contains(sweep)).collect();
    let jobs = jobs::of(store, context.console)?;
    Ok(Status { running, gone, left_over, annotations, jobs })
}

/// The part of the status that is read from the database.
#[derive(Default)]
struct Recorded {
    left_over: Vec<LeftOver>,
    annotations: BTreeMap<String, Annotations>,
}

/// The state by the database; if it cannot be read, the drivers' own files may still show something.
fn recorded(store: &Path, context: &Context<'_>) -> Result<Recorded, Failure> {
    super::wait(async {
        let opened = match Store::open_existing(store).await {
            Ok(opened) => opened,
            Err(StoreError::NoStore { .. }) => return Ok(Recorded::default()),
            Err(error) => {
                context.console.warn(&error.to_string(), "");
                return Ok(Recorded::default());
            }
        };
        let recorded =
            Recorded { left_over: opened.left_over().await?, annotations: opened.annotations().await? };
        opened.close().await;
        Ok(recorded)
    })
}

fn words(status: &Status, store: &Path, width: usize) -> String {
    let mut out = String::new();
    let now = human::now();
    for live in &status.running {
        driver(&mut out, live, now, width);
        if let Some(said) = status.annotations.get(&live.sweep) {
            for line in output::fold(&said_of(said), width.saturating_sub(2)) {
                let _ = writeln!(out, "  {line}");
            }
        }
        arms(&mut out, live, width);
        // A job of a queue stands among the jobs.
        for run in live.under_way().filter(|run| !run.members.is_empty() || status.jobs.is_empty()) {
            under_way(&mut out, run, (now - live.written).max(0) as u64, width);
        }
    }
    jobs::write(
        &mut out,
        &status.jobs,
        Shown { width, is_waited_for: status.running.iter().any(Live::waits_for_jobs) },
    );
    if status.running.is_empty() && !status.jobs.iter().any(Job::is_in_the_queue) {
        let _ = writeln!(out, "nothing runs with the results in {}", store.display());
    }
    let left = left_in_words(status);
    if !left.is_empty() {
        let _ = writeln!(out, "{}", paint(ODD, "left over:"));
        for line in left {
            for part in output::fold(&line, width.saturating_sub(2)) {
                let _ = writeln!(out, "  {part}");
            }
        }
        let _ = writeln!(out, "`bakeoff stop` clears up; the same `bakeoff run` continues");
    }
    out
}

/// Tags and note of a sweep.
fn said_of(said: &Annotations) -> String {
    let tags = if said.tags.is_empty() { String::new() } else { format!("tags: {}", said.tags.join(", ")) };
    let note = if said.note.is_empty() { String::new() } else { format!("note: {}", said.note) };
    [tags, note].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ")
}

fn driver(out: &mut String, live: &Live, now: i64, width: usize) {
    let Live { driver, recipe, ended, runs, .. } = live;
    let since = human::whole(Duration::from_secs((now - live.since).max(0) as u64));
    let left = live.seconds_left.map_or_else(String::new, |seconds| {
        let by = if live.left_by.is_empty() { String::new() } else { format!(" {}", live.left_by) };
        format!(", about {} left{by}", human::whole(Duration::from_secs(seconds)))
    });
    let place = if driver.is_here() { String::new() } else { format!(" on {}", driver.host) };
    let _ = writeln!(out, "{}, process {}{place}, for {since}", paint(STRONG, recipe), driver.pid);
    let counted = format!("sweep {}: {ended} of {} ended{left}", live.sweep, human::count(*runs, "run"));
    for line in output::fold(&counted, width.saturating_sub(2)) {
        let _ = writeln!(out, "  {line}");
    }
}

/// The arms with the curves of their newest runs, on one scale, in the order of the plan; of more than there is room for, those up to the one
/// under way.
fn arms(out: &mut String, live: &Live, width: usize) {
    let current = live.under_way().map(|run| run.arm).max().unwrap_or(0);
    let first = (current + 1).saturating_sub(MOST_ARMS);
    let shown = || live.arms.iter().skip(first).take(MOST_ARMS);
    let ranges = || shown().filter_map(|arm| arm.curve.range());
    let low = ranges().map(|(low, _)| low).reduce(f64::min);
    let high = ranges().map(|(_, high)| high).reduce(f64::max);
    let scale = low.zip(high).unwrap_or_default();
    // A sweep that decides as it goes does not know all of its runs.
    let planned: usize = live.arms.iter().map(|arm| arm.planned).sum();
    let of = if planned > live.runs { "of at most" } else { "of" };
    let mut sheet = Sheet::new(&["arm", "ended", of, "newest run", "last"]).right(&[1, 2]).whole(&[3]);
    for arm in shown() {
        let trouble =
            if arm.troubled > 0 { format!(" ({} not as planned)", arm.troubled) } else { String::new() };
        sheet.row(vec![
            arm.name.as_str().into(),
            format!("{}{trouble}", arm.ended).into(),
            arm.planned.to_string().into(),
            arm.curve.blocks(COLUMNS, scale).into(),
            arm.metric.clone().unwrap_or_default().into(),
        ]);
    }
    for line in sheet.render(width.saturating_sub(2)).lines() {
        let _ = writeln!(out, "  {line}");
    }
    if let more @ 1.. = live.arms.len().saturating_sub(MOST_ARMS) {
        let _ = writeln!(out, "  and {}", human::count(more, "more arm"));
    }
}

/// A run that was last seen `ago` seconds ago.
fn under_way(out: &mut String, run: &LiveRun, ago: u64, width: usize) {
    let mut facts =
        vec![format!("{} for {}", run.stage, human::whole(Duration::from_secs(run.seconds + ago)))];
    if run.stage == "running" {
        let of = run.steps.map_or_else(String::new, |steps| format!("/{}", human::thousands(steps)));
        facts.push(format!("step {}{of}", human::thousands(run.step)));
        facts.extend(run.steps_per_second.map(|rate| format!("{rate:.1} steps/s")));
        facts.extend(
            run.seconds_left
                .map(|left| format!("{} left", human::whole(Duration::from_secs(left.saturating_sub(ago))))),
        );
    }
    facts.extend(run.metric.clone());
    facts.extend(run.degraded.as_ref().map(|words| paint(ODD, words)));
    let _ = writeln!(out, "  {}", run.title);
    for line in output::fold(&facts.join(", "), width.saturating_sub(2)) {
        let _ = writeln!(out, "  {line}");
    }
    for words in &run.struck {
        let _ = writeln!(out, "  {words}");
    }
    if run.members.is_empty() {
        return;
    }
    let mut sheet = Sheet::new(&["who", "process", "step", "phase", "heard"]).right(&[1, 2]);
    for member in &run.members {
        let gone = member.process.is_here() && !member.process.lives();
        let state = if gone { " (gone)" } else { "" };
        sheet.row(vec![
            member.name.as_str().into(),
            format!("{}{state}", member.process.pid).into(),
            member.step.map_or_else(String::new, human::thousands).into(),
            member.phase.clone().unwrap_or_default().into(),
            member.heard.map_or_else(String::new, |heard| format!("{:.1} s ago", heard + ago as f64)).into(),
        ]);
    }
    for line in sheet.render(width.saturating_sub(2)).lines() {
        let _ = writeln!(out, "  {}", paint(FAINT, line));
    }
}

fn left_in_words(status: &Status) -> Vec<String> {
    let mut lines = Vec::new();
    for live in &status.gone {
        let members = live.under_way().flat_map(|run| &run.members);
        let alive: Vec<String> = members
            .filter(|member| member.process.lives())
            .map(|member| format!("{} (process {})", member.name, member.process.pid))
            .collect();
        let rest = if alive.is_empty() {
            "none of its processes is left".to_owned()
        } else {
            format!("still there: {}", alive.join(", "))
        };
        lines.push(format!("process {} of {} was killed; {rest}", live.driver.pid, live.recipe));
    }
    for left in &status.left_over {
        let began = human::moment(left.started);
        lines.push(format!(
            "sweep {} of {}, begun {began} by process {}: {} unfinished",
            left.sweep,
            left.recipe,
            left.driver,
            human::count(left.unfinished as usize, "run")
        ));
        lines.extend(status.annotations.get(&left.sweep).map(said_of).filter(|said| !said.is_empty()));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::LiveArm;
    use crate::live_curve::LiveCurve;
    use store::Driver;

    fn arm(number: usize, values: &[f64]) -> LiveArm {
        let mut curve = LiveCurve::default();
        for (step, value) in values.iter().enumerate() {
            curve.push(step as f64 / 4.0, *value);
        }
        LiveArm {
            name: format!("arm-{number}"),
            ended: number,
            troubled: number / 2,
            planned: 5,
            curve,
            metric: values.last().map(|value| format!("test accuracy {value}")),
        }
    }

    #[test]
    fn arms_stand_with_their_curves_on_one_scale() {
        let mut live = Live {
            driver: Driver::this(),
            sweep: String::new(),
            recipe: String::new(),
            argv: Vec::new(),
            since: 0,
            written: 0,
            runs: 10,
            ended: 0,
            seconds_left: None,
            left_by: String::new(),
            run: None,
            beside: Vec::new(),
            arms: vec![arm(0, &[0.0, 0.5]), arm(2, &[0.0, 0.5, 0.75, 1.0, 1.0])],
        };
        let said = |live: &Live| {
            let mut out = String::new();
            arms(&mut out, live, 80);
            anstream::adapter::strip_str(&out).to_string()
        };
        let out = said(&live);
        let lines: Vec<&str> = out.lines().collect();
        assert!(lines[0].contains("arm") && lines[0].contains(" of ") && !out.contains("at most"), "{out}");
        assert!(lines[2].ends_with("▁▁▁▁▁▅▅                   test accuracy 0.5"), "{out}");
        assert!(
            lines[3].contains("2 (1 not as planned)") && lines[3].contains("▁▁▁▁▁▅▅▅▅▅▅▆▆▆▆▆▆██████"),
            "{out}"
        );
        assert!(lines.iter().all(|line| line.chars().count() <= 80), "{out}");
        live.runs = 4;
        live.arms = (0..20).map(|number| arm(number, &[])).collect();
        let out = said(&live);
        assert!(out.contains("of at most") && out.contains("and 8 more arms"), "{out}");
    }
}
