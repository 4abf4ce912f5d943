//! Whole sweeps as one file, for the store of another user.

use crate::context::Context;
use crate::exit::Failure;
use crate::output::{self, human};
use crate::reuse::short;
use std::path::Path;
use store::{Bundled, BundledModels, BundledSweep, Selection, Store};

/// Writes the bundle, and lists its sweeps and the parts left out.
pub(crate) async fn write(
    selection: &Selection,
    models: BundledModels,
    output: &Path,
    context: &Context<'_>,
) -> Result<(), Failure> {
    let folder = &context.global.store;
    let mut store = Store::open_existing(folder).await?;
    if !store.is_read_only() && !store.left_over().await?.is_empty() {
        // A bundle holds sweeps that have an end, which those of killed drivers get as in every command that works on the store.
        store.close().await;
        drop(store);
        store = Store::open(folder).await?;
    }
    let bundled = store.bundle(selection, models, env!("CARGO_PKG_VERSION"), output).await?;
    store.close().await;
    for line in words(&bundled, output) {
        output::data(&line)?;
    }
    for line in notes(&bundled) {
        context.console.say(&line);
    }
    Ok(())
}

fn words(bundled: &Bundled, output: &Path) -> Vec<String> {
    let mut lines: Vec<String> = bundled.sweeps.iter().map(sweep).collect();
    lines.push(format!(
        "{}: {} in {}, {} unpacked",
        output.display(),
        human::count(bundled.files, "file"),
        human::bytes(bundled.bytes),
        human::bytes(bundled.unpacked)
    ));
    lines.push(format!("SHA-256 {}", bundled.sha256));
    lines
}

fn sweep(sweep: &BundledSweep) -> String {
    let needed = match sweep.needed_by.as_slice() {
        [] => String::new(),
        by => {
            let by: Vec<&str> = by.iter().map(|id| short(id)).collect();
            format!(", because results of it are in {}", by.join(", "))
        }
    };
    format!(
        "sweep {} of {}, {}: {}{needed}",
        sweep.sweep,
        sweep.recipe,
        human::moment(sweep.started),
        human::count(sweep.runs, "run")
    )
}

fn notes(bundled: &Bundled) -> Vec<String> {
    let mut notes = Vec::new();
    let left_out = bundled.models_left_out;
    if left_out.files > 0 {
        notes.push(format!(
            "left out: {}, {}; --with-models takes them along",
            human::count(left_out.files, "model"),
            human::bytes(left_out.bytes)
        ));
    }
    notes.push("left out: logs of processes and checkpoints, which no report needs".to_owned());
    notes.push(
        "a bundle has the names of hosts and users, and paths, as the sweeps recorded them; `bakeoff publish --redact` leaves them out of \
         pages"
            .to_owned(),
    );
    notes
}
