//! `bakeoff data`: fetches and verifies public data sets, and says what a user's own arrays are.

use crate::context::Context;
use crate::disk::{DiskFiles, data_folder};
use crate::exit::{Exit, Failure};
use crate::output::paint::{BAD, FAINT, GOOD, ODD, paint};
use crate::output::table::{Cell, Sheet};
use crate::output::{self, Console, human};
use crate::progress::Transfer;
use crate::verbs::describe_texts::TextArgs;
use anstyle::Style;
use arrays::{ArrayError, LabelledArrays};
use clap::{Args, Subcommand, ValueHint};
use datasets::{DownloadSource, Errand, FetchError, FileState, Patience, PublicDataSet};
use pictures::{PictureError, PictureFolder};
use recipe::{ArrayProblem, ArrayValues, DatasetFiles, DatasetKind, Family, Files, Shape};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Shown at the end of the verb's help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  bakeoff data list                  the data sets, and which are here
  bakeoff data fetch mnist           into data/mnist, where recipes look
  bakeoff data verify mnist          compare it with what was published
  bakeoff data fetch cifar10 --from http://mirror.example/cifar
  bakeoff data fetch cifar10 --from ~/Downloads
  bakeoff data describe my-data      arrays, pictures of your own: what they are
  bakeoff data describe my-texts --header false   train.csv and test.csv

A transfer that breaks off continues where it stopped when the command is
given again. Every byte is checked against a published SHA-256 before a file
gets its name.

Environment:
  BAKEOFF_DATA   folder of the data sets, in place of data
  HTTPS_PROXY    and HTTP_PROXY, ALL_PROXY, NO_PROXY, as everywhere
  SSL_CERT_FILE  certificates in place of the usual ones, in PEM";

/// Arguments of `data`.
#[derive(Debug, Args)]
pub(crate) struct DataArgs {
    #[command(subcommand)]
    action: Action,
}

/// The action.
#[derive(Debug, Subcommand)]
enum Action {
    /// Fetch a data set; only missing or damaged files are downloaded.
    Fetch(FetchArgs),
    /// Compare a data set's files with the published ones; exit code 4 if any is missing or different.
    Verify(VerifyArgs),
    /// Say what the arrays, the pictures or the labelled texts in a folder are, as recipes with `kind = "npy"`, `"safetensors"`,
    /// `"image-folder"` or `"text"` take them; exit code 4 if they cannot be used.
    Describe(DescribeArgs),
    /// List the data sets and where they are; with -v their files and sources.
    List,
}

/// Arguments of `data fetch`.
#[derive(Debug, Args)]
struct FetchArgs {
    /// Which: mnist, fashion-mnist, cifar10, cifar100.
    #[arg(value_name = "NAME", value_parser = named)]
    set: &'static PublicDataSet,
    /// The folder for its files, in place of the one where recipes look.
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    folder: Option<PathBuf>,
    /// A source in place of the public ones: the address of a folder, or a folder; may be repeated.
    #[arg(long, value_name = "URL|FOLDER")]
    from: Vec<String>,
}

/// Arguments of `data verify`.
#[derive(Debug, Args)]
struct VerifyArgs {
    /// Which: mnist, fashion-mnist, cifar10, cifar100.
    #[arg(value_name = "NAME", value_parser = named)]
    set: &'static PublicDataSet,
    /// The folder with its files, in place of the one where recipes look.
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    folder: Option<PathBuf>,
}

/// Arguments of `data describe`.
#[derive(Debug, Args)]
struct DescribeArgs {
    /// The folder with train_x.npy, train_y.npy, test_x.npy and test_y.npy, with train.safetensors and test.safetensors, with the folders
    /// train and test, or val, of pictures, or with train.csv and test.csv.
    #[arg(value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    folder: PathBuf,
    #[command(flatten)]
    texts: TextArgs,
}

fn named(name: &str) -> Result<&'static PublicDataSet, String> {
    let names: Vec<&str> = PublicDataSet::ALL.iter().map(|set| set.name).collect();
    PublicDataSet::named(name).ok_or_else(|| match DatasetKind::named(name) {
        Some(DatasetKind::Npy | DatasetKind::Safetensors) => {
            "these are your own arrays: `bakeoff data describe FOLDER` says what they are".to_owned()
        }
        Some(DatasetKind::ImageFolder) => {
            "these are your own pictures: `bakeoff data describe FOLDER` says what they are".to_owned()
        }
        Some(DatasetKind::TextLines) => {
            "this is a text of your own: `dataset.path` names its file".to_owned()
        }
        Some(DatasetKind::Text) => {
            "these are your own texts: `bakeoff data describe FOLDER --header false` says what they are"
                .to_owned()
        }
        Some(DatasetKind::Synthetic) => "this one is built in".to_owned(),
        Some(
            DatasetKind::Mnist | DatasetKind::FashionMnist | DatasetKind::Cifar10 | DatasetKind::Cifar100,
        )
        | None => format!("the data sets are {}", names.join(", ")),
    })
}

impl From<FetchError> for Failure {
    fn from(error: FetchError) -> Self {
        let cure = error.cure();
        Self::new(Exit::Preflight, error.to_string()).cure(cure)
    }
}

/// Carries out the action.
pub(crate) fn execute(args: &DataArgs, context: &Context<'_>) -> Result<Exit, Failure> {
    match &args.action {
        Action::Fetch(args) => fetch(args, context),
        Action::Verify(args) => verify(args, context.console),
        Action::Describe(args) => describe(args, context.console),
        Action::List => list(context.console),
    }
}

/// The default folder of a data set's files.
fn usual_folder(set: &PublicDataSet) -> PathBuf {
    data_folder().join(set.folder)
}

fn fetch(args: &FetchArgs, context: &Context<'_>) -> Result<Exit, Failure> {
    let folder = args.folder.clone().unwrap_or_else(|| usual_folder(args.set));
    let sources: Vec<DownloadSource> = args.from.iter().map(|text| DownloadSource::read(text)).collect();
    let mut transfer = Transfer::begin(context.global.progress, context.console, args.set);
    let fetched = datasets::fetch(
        args.set,
        &folder,
        Errand { sources: &sources, patience: Patience::default() },
        &mut |step| transfer.show(&step),
    );
    transfer.finish();
    let fetched = fetched?;
    let what = match fetched.came {
        0 => "everything was there already".to_owned(),
        came => format!("{} came", human::count(came, "file")),
    };
    context.console.say(&format!("{}: {what}; verified in {}", args.set.title, folder.display()));
    context.console.say(&paint(FAINT, format!("terms: {}", args.set.terms)));
    if args.folder.is_some() && folder != usual_folder(args.set) {
        context
            .console
            .say(&format!("next: write `path = {:?}` under [dataset]", folder.display().to_string()));
    }
    output::data(&folder.display().to_string())?;
    Ok(Exit::Done)
}

fn verify(args: &VerifyArgs, console: &Console) -> Result<Exit, Failure> {
    let folder = args.folder.clone().unwrap_or_else(|| usual_folder(args.set));
    let mut sheet = Sheet::new(&["file", "state", ""]);
    let mut bad = 0;
    let mut unproven = 0;
    for finding in datasets::verify(args.set, &folder)? {
        let name = finding.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        bad += usize::from(matches!(finding.state, FileState::Missing | FileState::Different { .. }));
        unproven += usize::from(finding.state == FileState::Unproven);
        let (state, style, why) = words(&finding.state);
        sheet.row(vec![name.into(), Cell::styled(style, state), why.into()]);
    }
    output::data(&sheet.render(output::width()))?;
    let again = match &args.folder {
        Some(folder) => format!("bakeoff data fetch {} --folder {}", args.set.name, folder.display()),
        None => format!("bakeoff data fetch {}", args.set.name),
    };
    match (bad, unproven) {
        (0, 0) => Ok(Exit::Done),
        (0, _) => {
            let what = format!("nothing says what {} should be", human::count(unproven, "file"));
            console.warn(&what, &format!("fetch it again: {again}"));
            Ok(Exit::Done)
        }
        _ => {
            let what = format!("{} of {} not as published", human::count(bad, "file"), args.set.title);
            Err(Failure::new(Exit::Preflight, what).cure(again))
        }
    }
}

fn words(state: &FileState) -> (&'static str, Style, String) {
    match state {
        FileState::Published => ("ok", GOOD, "as published".to_owned()),
        FileState::AsUnpacked => ("ok", GOOD, "as unpacked from the published archive".to_owned()),
        FileState::Unproven => ("unproven", ODD, "the right length; no digest is known".to_owned()),
        FileState::Different { why } => ("different", BAD, why.clone()),
        FileState::Missing => ("missing", BAD, String::new()),
    }
}

fn told(problems: &[ArrayProblem], console: &Console) -> Failure {
    for ArrayProblem { reason, cure } in problems {
        console.error(reason, cure);
    }
    Failure::Told(Exit::Preflight)
}

/// Pictures by their names; every file is examined too, as before a run, and decoded.
fn describe_pictures(folder: &Path, console: &Console) -> Result<Exit, Failure> {
    let in_words = |problems: Vec<PictureError>| {
        told(&problems.into_iter().map(ArrayProblem::from).collect::<Vec<_>>(), console)
    };
    let listed = PictureFolder::list(folder).map_err(in_words)?;
    let counts = listed.counts();
    let left_out = (listed.left_out() > 0).then(|| ("files and folders left out", listed.left_out()));
    pictures::digest(folder, None).and_then(|_| pictures::decode_all(folder)).map_err(in_words)?;
    let mut sheet = Sheet::new(&["property", "value"]);
    let rows = [
        ("training samples", u64::from(counts.train)),
        ("test samples", u64::from(counts.test)),
        ("classes", u64::from(counts.classes)),
    ];
    for (what, how) in rows.into_iter().chain(left_out) {
        sheet.row(vec![what.into(), human::thousands(how).into()]);
    }
    output::data(&sheet.render(output::width()))?;
    Ok(Exit::Done)
}

/// Reads all values of a folder's arrays.
type LoadArrays = fn(&Path, &mut dyn FnMut(&[u8])) -> Result<LabelledArrays, ArrayError>;

fn describe(args: &DescribeArgs, console: &Console) -> Result<Exit, Failure> {
    if args.texts.are_meant(&args.folder) {
        return args.texts.describe(&args.folder);
    }
    if args.folder.join("train").is_dir() {
        return describe_pictures(&args.folder, console);
    }
    let has_any = |files: DatasetFiles| files.required.iter().any(|name| args.folder.join(name).is_file());
    let (described, load): (_, LoadArrays) = if has_any(DatasetFiles::ARRAYS) {
        (DiskFiles.arrays(&args.folder), arrays::load)
    } else if has_any(DatasetFiles::TENSORS) {
        (DiskFiles.safetensors(&args.folder), arrays::load_safetensors)
    } else {
        return Err(nothing_known(&args.folder));
    };
    let arrays = described.map_err(|problems| told(&problems, console))?;
    // Values that no rank would train on are found here, before a run.
    let loaded = load(&args.folder, &mut |_| ()).map_err(|error| told(&[error.into()], console))?;
    let with_samples = loaded.train.labels.iter().collect::<BTreeSet<_>>().len();
    if let Shape::Image(channels, rows, columns @ (1 | 3 | 4)) = arrays.shape
        && channels > columns
    {
        console.warn(
            &format!(
                "a sample of [{channels}, {rows}, {columns}] looks like an image with its channels last"
            ),
            "put them first: `x.transpose(0, 3, 1, 2)`",
        );
    }
    let shape = match arrays.shape {
        Shape::Flat(size) => format!("[{size}], a flat vector"),
        Shape::Image(channels, rows, columns) => {
            format!("[{channels}, {rows}, {columns}], an image of channels, rows and columns")
        }
        // Of texts only, which are no arrays.
        Shape::Tokens(..) | Shape::Sequence(..) => arrays.shape.to_string(),
    };
    let values = match arrays.values {
        ArrayValues::Bytes => "bytes, normalised per channel",
        ArrayValues::Floats => "floats, taken as they are",
    };
    let mut classes = human::thousands(arrays.classes.into());
    if with_samples < arrays.classes as usize {
        let _ =
            write!(classes, ", of which {} have a training sample", human::thousands(with_samples as u64));
    }
    let mut sheet = Sheet::new(&["property", "value"]);
    for (what, how) in [
        ("training samples", human::thousands(arrays.train.into())),
        ("test samples", human::thousands(arrays.test.into())),
        ("sample", shape),
        ("values", values.to_owned()),
        ("classes", classes),
    ] {
        sheet.row(vec![what.into(), how.into()]);
    }
    output::data(&sheet.render(output::width()))?;
    Ok(Exit::Done)
}

/// A folder that is no data set of a user's own.
fn nothing_known(folder: &Path) -> Failure {
    let shown = folder.display();
    if folder.is_file() {
        let what = format!("{shown} is a file: data sets of your own are folders");
        let cure =
            "name the folder; of a text that a model is to continue, `dataset.path` names the file itself";
        return Failure::new(Exit::Preflight, what).cure(cure);
    }
    if !folder.is_dir() {
        return Failure::new(Exit::Preflight, format!("there is no folder {shown}")).cure("mend the path");
    }
    let is_here = |set: &&&PublicDataSet| {
        set.archives.iter().flat_map(|archive| archive.files).any(|file| is_there(file, folder))
    };
    if let Some(set) = PublicDataSet::ALL.iter().find(is_here) {
        let what = format!("{shown} has files of {}, which is no data set of your own", set.title);
        return Failure::new(Exit::Preflight, what)
            .cure(format!("bakeoff data verify {} --folder {shown}", set.name));
    }
    Failure::new(Exit::Preflight, format!("{shown} has none of the files by which data of your own are known"))
        .cure(
            "write train_x.npy, train_y.npy, test_x.npy and test_y.npy (`npy`), train.safetensors and test.safetensors \
             (`safetensors`), folders train and val of class folders with pictures (`image-folder`), or train.csv and \
             test.csv (`text`)",
        )
}

/// Whether a folder has a file of a public data set, packed or not.
fn is_there(file: &datasets::KnownFile, folder: &Path) -> bool {
    folder.join(file.name).is_file() || folder.join(format!("{}.gz", file.name)).is_file()
}

fn list(console: &Console) -> Result<Exit, Failure> {
    let mut sheet = Sheet::new(&["name", "to fetch", "on disk", "here", "folder"]).right(&[1, 2]);
    for set in PublicDataSet::ALL {
        let folder = usual_folder(set);
        let files = || set.archives.iter().flat_map(|archive| archive.files);
        let count = files().filter(|file| is_there(file, &folder)).count();
        let of = files().count();
        let here = match count {
            0 => "no".to_owned(),
            count if count == of => "yes".to_owned(),
            count => format!("{count} of {of} files"),
        };
        let packed = human::bytes(set.packed_bytes());
        let unpacked = human::bytes(set.unpacked_bytes());
        let folder = folder.display().to_string();
        sheet.row(vec![set.name.into(), packed.into(), unpacked.into(), here.into(), folder.into()]);
    }
    let mut out = sheet.render(output::width());
    if console.loudness() == output::Loudness::Verbose {
        for set in PublicDataSet::ALL {
            out.push_str(&sources(set));
        }
    }
    output::data(&out)?;
    Ok(Exit::Done)
}

/// Files, digests and addresses of a set, for people who fetch them by hand.
fn sources(set: &PublicDataSet) -> String {
    let mut text = format!("\n{} ({})\n", set.title, set.terms);
    for archive in set.archives {
        let _ = writeln!(text, "  {}, {} bytes, SHA-256 {}", archive.name, archive.bytes, archive.sha256);
    }
    let first = set.archives.first().map_or(&[][..], |archive| archive.sources);
    for url in first {
        let _ = writeln!(text, "  from {url}");
    }
    text
}
