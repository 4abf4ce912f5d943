//! `bakeoff publish`: a static site of the pages of many sweeps.

use crate::context::Context;
use crate::exit::{Exit, Failure};
use crate::export::table::{self, Lines};
use crate::export::verdicts;
use crate::output::paint::{STRONG, paint};
use crate::output::table::{Cell, Sheet};
use crate::output::{self, human};
use crate::page;
use crate::site::SiteFile;
use crate::site::branch::{Committed, SiteBranch};
use crate::site::folder::{Change, Folder, Former};
use clap::{Args, ValueEnum, ValueHint};
use reports::{Aliases, Card, Options, SiteLinks, Withheld};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use store::{ExportTable, Selection, Store, StoreError, SweepRows, Value};

/// Shown at the end of the verb's help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  bakeoff publish site                            every sweep
  bakeoff publish site \"recipe=quickstart\" last   those of which a run fits
  bakeoff publish site --redact hosts,users,paths --dry-run
  bakeoff publish site --gh-pages                 also as a commit, to be pushed

A site has an index with a card for each sweep, a feed of new ones, and of each
sweep its page and CSV files of its runs and verdicts; it needs no server and no
network. Publishing again writes only what changed, and files that are not its
own are left alone. What `report.redact` of a recipe names is always left out.
Names are replaced before pages are made, the same ones on all of them; other
secrets in logs or comments are not found: read what --dry-run lists, and pages.";

/// Arguments of `publish`.
#[derive(Debug, Args)]
pub(crate) struct PublishArgs {
    /// Folder of the site.
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    folder: PathBuf,
    /// Which runs; all where nothing is said. A sweep of which a run fits any is on the site.
    #[arg(value_name = "SELECTION")]
    selections: Vec<String>,
    /// Leave these out of all pages.
    #[arg(long, value_name = "WHAT", value_delimiter = ',')]
    redact: Vec<Redact>,
    /// List the files and the redacted names, and write nothing.
    #[arg(long)]
    dry_run: bool,
    /// Remove files of earlier publications that are not part of this one.
    #[arg(long)]
    prune: bool,
    /// Commit the site onto this branch of the folder's git repository.
    #[arg(long, value_name = "BRANCH", num_args = 0..=1, require_equals = true, default_missing_value = "gh-pages")]
    gh_pages: Option<String>,
}

/// Kinds of names that pages leave out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Redact {
    /// Names of machines.
    Hosts,
    /// Names of users.
    Users,
    /// Paths but their last part.
    Paths,
    /// Names that recipes give to arms.
    Arms,
}

impl Redact {
    fn withheld(self) -> Withheld {
        match self {
            Self::Hosts => Withheld::Hosts,
            Self::Users => Withheld::Users,
            Self::Paths => Withheld::Paths,
            Self::Arms => Withheld::Arms,
        }
    }
}

/// A site before it is written.
struct Site {
    /// Pages before the index that links them.
    files: Vec<SiteFile>,
    /// A sentence for each redacted name or kind.
    left_out: Vec<String>,
    sweeps: usize,
}

/// Writes the site and commits it to the named branch; with `--dry-run` only lists its files.
pub(crate) fn execute(args: &PublishArgs, context: &Context<'_>) -> Result<Exit, Failure> {
    refuse_the_store(&args.folder, &context.global.store)?;
    let mut folder = Folder::open(&args.folder)?;
    let branch = args.gh_pages.as_deref().map(|name| SiteBranch::find(&args.folder, name)).transpose()?;
    let site = super::wait(async {
        let store = Store::open_existing(&context.global.store).await?;
        let site = made(&store, args, context).await?;
        store.close().await;
        Ok(site)
    })?;
    let changes = site.files.iter().map(|file| folder.change(file)).collect::<Result<Vec<_>, _>>()?;
    for sentence in &site.left_out {
        context.console.say(sentence);
    }
    if args.dry_run {
        return listed(&site, &changes, &folder, args, context);
    }
    let former = folder.former(&site.files);
    let stay =
        folder.write(&site.files, &changes, if args.prune { Former::Remove } else { Former::Leave })?;
    told_of(&stay, args, context);
    let count = |wanted: Change| changes.iter().filter(|change| **change == wanted).count();
    let index = args.folder.join("index.html");
    output::data(&format!(
        "{} {}\n{}: {} new, {} changed, {} unchanged, {} removed",
        paint(STRONG, "site:"),
        index.display(),
        human::count(site.sweeps, "sweep"),
        human::count(count(Change::New), "file"),
        count(Change::Changed),
        count(Change::Unchanged),
        former.len() - stay.len()
    ))?;
    if let (Some(branch), Some(name)) = (&branch, &args.gh_pages) {
        let gone: Vec<String> = former.into_iter().filter(|path| !stay.contains(path)).collect();
        let message = format!("Publish {}", human::count(site.sweeps, "sweep"));
        match branch.commit(&folder.content()?, &gone, &message)? {
            Committed::New(commit) => output::data(&format!(
                "branch {name}: commit {}; to publish it: {}",
                &commit[..commit.len().min(12)],
                branch.push_command()
            ))?,
            Committed::Same => output::data(&format!("branch {name} has the same files already"))?,
        }
    }
    Ok(Exit::Done)
}

/// A site among the runs would be taken for results, and go with them.
fn refuse_the_store(folder: &Path, store: &Path) -> Result<(), Failure> {
    let inside = |store: PathBuf| {
        let whole = std::path::absolute(folder).ok()?;
        // The part of it that is there, with its links followed.
        let existing = whole.ancestors().find(|part| part.exists())?;
        let followed = existing.canonicalize().ok()?.join(whole.strip_prefix(existing).ok()?);
        followed.starts_with(store).then_some(())
    };
    match store.canonicalize().ok().and_then(inside) {
        Some(()) => Err(Failure::new(
            Exit::Usage,
            format!("{} is in the store {}", folder.display(), store.display()),
        )
        .cure("name a folder outside of it")),
        None => Ok(()),
    }
}

/// Files of earlier publications, which may have names that this one leaves out.
fn told_of(stay: &[String], args: &PublishArgs, context: &Context<'_>) {
    let Some(first) = stay.first() else { return };
    let what = match stay.len() {
        1 => format!("{first} is of an earlier publication and stays"),
        more => format!("{} of earlier publications stay, {first} first", human::count(more, "file")),
    };
    let unredacted =
        if args.redact.is_empty() { "" } else { ", with the names that `--redact` leaves out now" };
    let cure = if args.prune { "it was changed since; remove it yourself" } else { "`--prune` removes them" };
    context.console.warn(&format!("{what}{unredacted}"), cure);
}

/// Lists the files that publishing would write, remove or leave; writes nothing.
fn listed(
    site: &Site,
    changes: &[Change],
    folder: &Folder,
    args: &PublishArgs,
    context: &Context<'_>,
) -> Result<Exit, Failure> {
    let mut sheet = Sheet::new(&["file", "size", "change"]).right(&[1]).whole(&[0]);
    for (file, change) in site.files.iter().zip(changes) {
        let size = human::bytes(file.text.len() as u64);
        sheet.row(vec![file.path.as_str().into(), size.into(), change.name().into()]);
    }
    for path in folder.former(&site.files) {
        let what = if args.prune { "removed" } else { "stays" };
        sheet.row(vec![path.into(), Cell::from(""), what.into()]);
    }
    output::data(&sheet.render(output::width()))?;
    context.console.say("nothing was written: --dry-run");
    Ok(Exit::Done)
}

/// The selections' runs of one sweep.
struct Chosen {
    id: String,
    selection: Selection,
}

/// The sweeps of which a run fits, from the oldest to the newest.
async fn chosen(store: &Store, args: &PublishArgs) -> Result<Vec<Chosen>, Failure> {
    // Each by itself first, so that an error quotes what the user wrote.
    for text in &args.selections {
        Selection::parse(text)?;
    }
    let any = args.selections.iter().map(|text| format!("({text})")).collect::<Vec<_>>().join(" or ");
    let mut chosen: Vec<Chosen> = Vec::new();
    for line in store.list(&Selection::parse(&any)?).await? {
        let id = line.sweep;
        if chosen.last().is_none_or(|last| last.id != id) {
            let text = if any.is_empty() { id.clone() } else { format!("({any}) and {id}") };
            chosen.push(Chosen { selection: Selection::parse(&text)?, id });
        }
    }
    if chosen.is_empty() { Err(StoreError::Empty { selection: any }.into()) } else { Ok(chosen) }
}

/// Makes all pages and their index, before any file is written.
async fn made(store: &Store, args: &PublishArgs, context: &Context<'_>) -> Result<Site, Failure> {
    let sweeps = chosen(store, args).await?;
    // All names are known before the first page, so that a machine has the same alias on each.
    let mut aliases = Aliases::default();
    for sweep in &sweeps {
        aliases.add(&store.sweep_rows(&sweep.selection).await?);
    }
    let withheld: BTreeSet<Withheld> = args.redact.iter().map(|what| what.withheld()).collect();
    let mut site = Site { files: Vec::new(), left_out: Vec::new(), sweeps: sweeps.len() };
    let mut cards = Vec::new();
    let mut users = 0;
    let mut paths = 0;
    for (place, Chosen { id, selection }) in sweeps.iter().enumerate() {
        let rows = store.sweep_rows(selection).await?;
        if sweeps.len() > 1 {
            context.console.say(&format!("page {} of {}: {id}", place + 1, sweeps.len()));
        }
        let public = reports::public_rows(&rows, &withheld, &aliases);
        users += public.users;
        paths += public.paths;
        let rows = public.rows;
        let links = SiteLinks {
            page: format!("sweeps/{id}.html"),
            runs: format!("sweeps/{id}-runs.csv"),
            verdicts: format!("sweeps/{id}-verdicts.csv"),
        };
        let folder = format!("{id}-data");
        let options = Options { allow_large: true, data_folder: Some(folder.clone()), ..page::options() };
        let page = page::made(store, &rows, &options).await?;
        for warning in &page.warnings {
            context.console.warn(&format!("{id}: {warning}"), "");
        }
        let data = page.data.into_iter();
        site.files.extend(
            data.map(|part| SiteFile { path: format!("sweeps/{folder}/{}", part.name), text: part.text }),
        );
        site.files.push(SiteFile { path: links.runs.clone(), text: runs_of(store, selection, &rows).await? });
        let mut table = Vec::new();
        verdicts::write(reports::verdict_rows(&rows, &Options::default())?, Lines::Csv, &mut table)?;
        let table = String::from_utf8_lossy(&table).into_owned();
        site.files.push(SiteFile { path: links.verdicts.clone(), text: table });
        site.files.push(SiteFile { path: links.page.clone(), text: page.html });
        cards.push(Card::of(&rows, links)?);
    }
    cards.reverse();
    site.files.push(SiteFile { path: ".nojekyll".to_owned(), text: String::new() });
    let index = reports::site_index(&cards, &page::options().generated_by)?;
    site.files.push(SiteFile { path: "index.html".to_owned(), text: index });
    site.files.push(SiteFile { path: "feed.xml".to_owned(), text: reports::site_feed(&cards)? });
    site.left_out = left_out(&withheld, &aliases);
    for (what, count) in [("users", users), ("paths", paths)] {
        if count > 0 {
            site.left_out.push(format!("left out: {what}, in {}", human::count(count, "text")));
        }
    }
    Ok(site)
}

/// The names that aliases replace on all pages.
fn left_out(withheld: &BTreeSet<Withheld>, aliases: &Aliases) -> Vec<String> {
    let hosts = aliases.hosts().into_iter().filter(|_| withheld.contains(&Withheld::Hosts));
    let arms = aliases.arms().into_iter().filter(|_| withheld.contains(&Withheld::Arms));
    hosts.chain(arms).map(|alias| format!("left out: {}, shown as {}", alias.name, alias.shown)).collect()
}

/// The runs as `export` writes them, with the names that the page shows.
async fn runs_of(store: &Store, selection: &Selection, rows: &SweepRows) -> Result<String, Failure> {
    let columns = ExportTable::Runs.columns();
    let mut export = store.export(ExportTable::Runs, selection).await?;
    let shown: BTreeMap<&str, _> = rows.runs.iter().map(|run| (run.id.as_str(), run)).collect();
    let mut text = output::csv_line(columns.iter().map(String::as_str));
    while let Some(page) = export.next_page().await? {
        for mut row in page {
            let run = row
                .first()
                .and_then(|id| if let Value::Text(id) = id { shown.get(id.as_str()) } else { None });
            let cell = run.and_then(|run| rows.plan.cells.get(run.cell));
            let arm = cell.and_then(|cell| rows.plan.arms.get(cell.arm));
            for (column, value) in columns.iter().zip(&mut row) {
                let name = match column.as_str() {
                    "recipe" => Some(&rows.plan.name),
                    "arm" => arm.map(|arm| &arm.name),
                    "condition" => cell.map(|cell| &cell.condition),
                    "detail" => run.and_then(|run| run.attempt.as_ref()).map(|attempt| &attempt.detail),
                    _ => continue,
                };
                if *value != Value::Null {
                    *value = name.map_or(Value::Null, |name| Value::Text(name.clone()));
                }
            }
            text += &table::line(row, &columns, Lines::Csv);
        }
    }
    Ok(text)
}
