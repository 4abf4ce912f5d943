//! `bakeoff import`: takes over the sweeps of a bundle, and says what they can be compared with.

use crate::args::TableFormat;
use crate::context::Context;
use crate::exit::{Exit, Failure};
use crate::output::paint::{STRONG, paint};
use crate::output::{self, human};
use clap::{Args, ValueHint};
use recipe::{ChangedSetting, Provenance, changed_settings};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use store::{AlikeSweep, Imported, ImportedSweep, Importing, NodeRow, SweepStanding};

/// Shown at the end of the verb's help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  bakeoff import colleague.tar.gz --dry-run   check it, and show its contents
  bakeoff import colleague.tar.gz             take its sweeps into the store
  bakeoff list \"origin=imported\"
  bakeoff compare last 01KBH7 -o page.html    with a sweep that was imported

`bakeoff export SELECTION --format bundle -o FILE` makes bundles. All of a
bundle is checked before anything is taken over: format, names, sizes and
digests. Sweeps that the store has stay as they are, so importing again changes
nothing. Nothing is imported while a sweep runs here: let it finish, or end it:
`bakeoff stop`.

Imported sweeps are listed, reported, compared, published and exported as any
other. `last` means sweeps that were made here, where there are any, and
`bakeoff run` takes no result from an imported one: it was measured elsewhere.";

/// Arguments of `import`.
#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// The bundles.
    #[arg(value_name = "BUNDLE", required = true, value_hint = ValueHint::FilePath)]
    bundles: Vec<PathBuf>,
    /// Check the bundles and show their contents; import nothing.
    #[arg(long)]
    dry_run: bool,
    /// Words for people, or JSON for programs.
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    format: TableFormat,
}

/// Between two words about how far it has come.
const PACE: Duration = Duration::from_secs(1);
/// Settings that are named where two sweeps share none.
const FEW: usize = 3;

/// Imports the bundles one by one; with `--dry-run` only shows their contents.
pub(crate) fn execute(args: &ImportArgs, context: &Context<'_>) -> Result<Exit, Failure> {
    let folder = &context.global.store;
    let mut all = Vec::new();
    for bundle in &args.bundles {
        let mut told = Instant::now();
        let progress = |step: Importing| {
            if told.elapsed() >= PACE {
                told = Instant::now();
                context.console.say(&how_far(step));
            }
        };
        let imported = super::wait(async {
            Ok(if args.dry_run {
                store::look_at_bundle(folder, bundle, progress).await?
            } else {
                store::import(folder, bundle, human::now(), progress).await?
            })
        })?;
        if args.format == TableFormat::Table {
            if args.bundles.len() > 1 {
                output::data(&paint(STRONG, format!("{}:", bundle.display())))?;
            }
            output::data(&output::wrap(&words(&imported, args.dry_run), output::width()))?;
        }
        all.push(imported);
    }
    if args.format == TableFormat::Json {
        output::json(&all)?;
    }
    if args.dry_run {
        context.console.say("nothing was imported: --dry-run");
    }
    Ok(Exit::Done)
}

fn how_far(step: Importing) -> String {
    match step {
        Importing::Checking(done, all) => {
            format!("checking: {} of {}", human::bytes(done), human::bytes(all))
        }
        Importing::Replaying(step) => format!(
            "importing: {} of {}, {} of events",
            step.sweeps.0,
            human::count(step.sweeps.1, "sweep"),
            human::bytes(step.bytes.0)
        ),
    }
}

fn words(imported: &Imported, dry_run: bool) -> String {
    let mut lines = Vec::new();
    for sweep in &imported.sweeps {
        lines.push(head(sweep, dry_run));
        lines.extend(facts(sweep).into_iter().map(|fact| format!("  {fact}")));
        lines.extend(comparable(sweep).into_iter().map(|line| format!("  {line}")));
    }
    if imported.models > 0 {
        lines.push(format!("{} added to sweeps that were there", human::count(imported.models, "model")));
    }
    lines.join("\n")
}

fn head(sweep: &ImportedSweep, dry_run: bool) -> String {
    let what = match (sweep.standing, dry_run) {
        (SweepStanding::Here, _) => "already here",
        (SweepStanding::New, false) => "imported",
        (SweepStanding::New, true) => "would be imported",
    };
    format!("{}: sweep {} of {}", paint(STRONG, what), sweep.sweep, sweep.recipe)
}

fn facts(sweep: &ImportedSweep) -> Vec<String> {
    let mut facts = vec![format!(
        "{}, {}, {} with a result; bakeoff {}",
        human::moment(sweep.started),
        human::count(sweep.runs, "run"),
        sweep.done,
        sweep.version
    )];
    facts.extend(sweep.machines.iter().map(|node| format!("on {}: {}", node.host, machine(node))));
    if !sweep.tags.is_empty() {
        facts.push(format!("tags: {}", sweep.tags.join(", ")));
    }
    if !sweep.note.is_empty() {
        facts.push(format!("note: {}", sweep.note));
    }
    facts
}

fn machine(node: &NodeRow) -> String {
    format!(
        "{}, {}, {}",
        node.processor,
        human::count(node.cores as usize, "core"),
        human::bytes(node.memory)
    )
}

/// Lines about sweeps of the store that ask the same as an imported one, and how they differ from it.
fn comparable(sweep: &ImportedSweep) -> Vec<String> {
    if sweep.alike.is_empty() {
        return vec![format!(
            "nothing here asks the same: no sweep of {}, and none with its settings",
            sweep.recipe
        )];
    }
    let mut lines = Vec::new();
    for alike in &sweep.alike {
        let origin = if alike.imported { "imported sweep" } else { "sweep" };
        let named =
            format!("{origin} {} of {} ({})", alike.sweep, alike.recipe, human::moment(alike.started));
        if alike.shared == 0 {
            lines.push(format!("other settings than {named}{}", other_settings(alike)));
            continue;
        }
        let shared = if alike.shared as usize == sweep.configurations {
            "the same settings as".to_owned()
        } else {
            format!("{} of {} settings are those of", alike.shared, sweep.configurations)
        };
        let differs = surroundings(sweep, alike);
        lines.push(match differs.as_slice() {
            [] => format!("{shared} {named}, on equal machines with the same data and program"),
            differs => format!("{shared} {named}; what differs: {}", differs.join("; ")),
        });
    }
    lines.extend(advice(sweep));
    lines
}

/// How the sweep is laid beside the one here that is most like it.
fn advice(sweep: &ImportedSweep) -> Option<String> {
    let alike = sweep.alike.first().filter(|alike| alike.shared > 0)?;
    let why = if machines(&alike.machines) == machines(&sweep.machines) {
        "equal machines need not be equally busy"
    } else {
        "times are not comparable across machines"
    };
    Some(format!(
        "{why}: compare ratios, which the page of each has; `bakeoff compare {} {}` lays both side by side",
        alike.sweep, sweep.sweep
    ))
}

fn machines(nodes: &[NodeRow]) -> BTreeSet<String> {
    nodes.iter().map(machine).collect()
}

/// The first settings that a cell of both has with different values.
fn other_settings(alike: &AlikeSweep) -> String {
    let Some(cell) = &alike.cell else { return ": they have no arm and condition in common".to_owned() };
    let all = changed_settings(&cell.here, &cell.there);
    let first: Vec<String> = all.iter().take(FEW).map(ChangedSetting::words).collect();
    let more = match all.len().saturating_sub(FEW) {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    format!(": in {}, {}{more}", cell.label, first.join(", "))
}

/// A part of what decides the numbers of a run beside its configuration.
type Part = fn(&Provenance) -> &String;

/// Surroundings that differ between two sweeps of the same settings, the one here first.
fn surroundings(sweep: &ImportedSweep, alike: &AlikeSweep) -> Vec<String> {
    let mut differs = Vec::new();
    let [here, there] = [machines(&alike.machines), machines(&sweep.machines)];
    if here != there {
        differs.push(format!("machines ({} here, {} there)", listed(&here), listed(&there)));
    }
    let systems =
        |nodes: &[NodeRow]| nodes.iter().map(|node| node.system.clone()).collect::<BTreeSet<String>>();
    let [here, there] = [systems(&alike.machines), systems(&sweep.machines)];
    if here != there {
        differs.push(format!("system ({} here, {} there)", listed(&here), listed(&there)));
    }
    let parts: [(&str, Part); 2] =
        [("worker program, with its libtorch", |found| &found.worker), ("data", |found| &found.data)];
    for (name, part) in parts {
        let of =
            |found: &[Provenance]| found.iter().map(|one| part(one).clone()).collect::<BTreeSet<String>>();
        if of(&alike.surroundings) != of(&sweep.surroundings) {
            differs.push(name.to_owned());
        }
    }
    if alike.version != sweep.version {
        differs.push(format!("bakeoff ({} here, {} there)", alike.version, sweep.version));
    }
    differs
}

fn listed(texts: &BTreeSet<String>) -> String {
    if texts.is_empty() {
        return "not recorded".to_owned();
    }
    texts.iter().map(String::as_str).collect::<Vec<_>>().join(" and ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(processor: &str) -> NodeRow {
        NodeRow {
            name: "local".into(),
            host: "ada-box".into(),
            system: "Linux 6.1".into(),
            processor: processor.into(),
            cores: 8,
            memory: 16 << 30,
        }
    }

    fn provenance(worker: &str) -> Provenance {
        Provenance { data: "d".into(), worker: worker.into(), hardware: "h".into() }
    }

    fn sweep(alike: Vec<AlikeSweep>) -> ImportedSweep {
        ImportedSweep {
            sweep: "01KBTHERE".into(),
            recipe: "quickstart".into(),
            started: 1_700_000_000,
            version: "0.1.0".into(),
            runs: 10,
            done: 9,
            configurations: 2,
            machines: vec![node("Core 9")],
            surroundings: vec![provenance("w")],
            tags: vec!["paper".into()],
            note: "after the fix".into(),
            standing: SweepStanding::New,
            alike,
        }
    }

    fn alike(processor: &str, shared: u32) -> AlikeSweep {
        AlikeSweep {
            sweep: "01KBHERE".into(),
            recipe: "quickstart".into(),
            started: 1_700_000_000,
            version: "0.1.0".into(),
            imported: false,
            shared,
            machines: vec![node(processor)],
            surroundings: vec![provenance("w")],
            cell: None,
        }
    }

    #[test]
    fn it_says_what_can_be_compared_and_what_differs() {
        let said = |alike: Vec<AlikeSweep>| comparable(&sweep(alike)).join("\n");
        assert!(said(vec![]).contains("nothing here asks the same"));
        let equal = said(vec![alike("Core 9", 2)]);
        assert!(
            equal.contains("the same settings as sweep 01KBHERE") && equal.contains("on equal machines"),
            "{equal}"
        );
        let other = said(vec![alike("EPYC", 1)]);
        assert!(other.contains("1 of 2 settings are those of sweep 01KBHERE"), "{other}");
        assert!(other.contains("machines (EPYC, 8 cores, 16.0 GiB here, Core 9"), "{other}");
        assert!(other.contains("times are not comparable across machines: compare ratios"), "{other}");
        assert!(other.contains("`bakeoff compare 01KBHERE 01KBTHERE`"), "{other}");
        let none = said(vec![alike("EPYC", 0)]);
        assert!(none.contains("other settings than") && !none.contains("ratios"), "{none}");
        let rebuilt =
            AlikeSweep { surroundings: vec![provenance("v")], version: "0.2.0".into(), ..alike("Core 9", 2) };
        let rebuilt = said(vec![rebuilt]);
        assert!(
            rebuilt.contains(
                "what differs: worker program, with its libtorch; bakeoff (0.2.0 here, 0.1.0 there)"
            ),
            "{rebuilt}"
        );
    }

    #[test]
    fn a_bundle_is_told_sweep_by_sweep() {
        let imported = Imported { writer: "0.1.0".into(), sweeps: vec![sweep(vec![])], events: 1, models: 0 };
        let told = anstream::adapter::strip_str(&words(&imported, false)).to_string();
        assert!(told.starts_with("imported: sweep 01KBTHERE of quickstart\n  "), "{told}");
        for fact in
            ["10 runs, 9 with a result", "on ada-box: Core 9, 8 cores", "tags: paper", "note: after the fix"]
        {
            assert!(told.contains(fact), "{told}");
        }
        let dry = anstream::adapter::strip_str(&words(&imported, true)).to_string();
        assert!(dry.starts_with("would be imported"), "{dry}");
    }
}
