//! Every member of a family of names is where a reader looks for it: in the table of its folder, in a recipe that shows it,
//! and, for data sets, in the list of those that can be fetched.
#![expect(clippy::unwrap_used, reason = "in a test, a failure is a panic")]

use recipe::{
    AugmentKind, AveragedBy, Averaging, CardShare, CollectiveKind, Compression, CompressionKind,
    ComputeSplit, DatasetKind, Family, FaultKind, FcUpdate, HashTime, Init, KeptModels, KeptSteps, LayerKind,
    LrScale, LrScaleKind, LrShape, LrShapeKind, Metric, MixOrder, ModelKind, ModuloScheme, OptimizerKind,
    Partition, PartitionKind, Plan, QuantizeRange, Redaction, ReduceOrder, RunOrder, RunSpec, SampleFiles,
    Sampling, ScheduleKind, Serve, Source, SplitKind, Strategy, StrategyKind, TargetMetric, TextTokens,
    Topology, TransportKind, Tunnel,
};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// A family and the name of one of its members.
type Member = (&'static str, &'static str);

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Fails with one line per offence.
fn none(offences: impl IntoIterator<Item = String>) {
    let offences: Vec<String> = offences.into_iter().collect();
    assert!(offences.is_empty(), "\n{}\n", offences.join("\n"));
}

/// A closed list of names that a key takes.
struct NamedFamily {
    key: &'static str,
    /// The name of its type, without the modules.
    of: &'static str,
    members: Vec<&'static str>,
}

/// Every family.
fn families() -> Vec<NamedFamily> {
    fn of<F: Family>(key: &'static str) -> NamedFamily {
        let path = std::any::type_name::<F>();
        let of = path.rsplit_once("::").map_or(path, |(_, name)| name);
        NamedFamily { key, of, members: F::ALL.iter().map(|member| member.name()).collect() }
    }
    vec![
        of::<StrategyKind>("strategy.kind"),
        of::<Serve>("strategy.serve"),
        of::<Topology>("strategy.topology"),
        of::<MixOrder>("strategy.order"),
        of::<Averaging>("strategy.averaging"),
        of::<ModuloScheme>("strategy.scheme"),
        of::<FcUpdate>("strategy.fc-update"),
        of::<AveragedBy>("strategy.averaged-by"),
        of::<CollectiveKind>("communication.collective"),
        of::<ScheduleKind>("communication.schedule"),
        of::<ReduceOrder>("communication.reduce-order"),
        of::<TransportKind>("communication.transport"),
        of::<Tunnel>("nodes.tunnel"),
        of::<CompressionKind>("compression.kind"),
        of::<QuantizeRange>("compression.range"),
        of::<ModelKind>("model.kind"),
        of::<Init>("model.init"),
        of::<LayerKind>("model.layers.kind"),
        of::<DatasetKind>("dataset.kind"),
        of::<PartitionKind>("dataset.partition"),
        of::<Sampling>("dataset.sampling"),
        of::<AugmentKind>("dataset.augment"),
        of::<TextTokens>("dataset.tokens"),
        of::<OptimizerKind>("train.optimizer.kind"),
        of::<LrShapeKind>("train.lr-schedule.kind"),
        of::<LrScaleKind>("train.lr-schedule.scale"),
        of::<TargetMetric>("train.target.metric"),
        of::<FaultKind>("faults.kind"),
        of::<CardShare>("network.share"),
        of::<SplitKind>("compute.split"),
        of::<KeptModels>("measure.models"),
        of::<KeptSteps>("measure.steps"),
        of::<HashTime>("measure.weight-hash"),
        of::<RunOrder>("repeats.order"),
        of::<Redaction>("report.redact"),
    ]
}

/// Every member of every family, by the key that takes it.
fn members() -> Vec<Member> {
    let of = |family: NamedFamily| {
        let key = family.key;
        family.members.into_iter().map(move |name| (key, name))
    };
    families().into_iter().flat_map(of).collect()
}

/// The members that a run has.
fn shown_by_run(spec: &RunSpec) -> Vec<Member> {
    let communication = &spec.communication;
    let partition = match spec.dataset.partition {
        Partition::Shared => PartitionKind::Shared,
        Partition::Sharded => PartitionKind::Sharded,
        Partition::Dirichlet { .. } => PartitionKind::Dirichlet,
    };
    let shape = match spec.train.schedule.shape {
        LrShape::Constant => LrShapeKind::Constant,
        LrShape::Step { .. } => LrShapeKind::Step,
        LrShape::Milestones { .. } => LrShapeKind::Milestones,
        LrShape::Cosine { .. } => LrShapeKind::Cosine,
    };
    let scale = match spec.train.schedule.scale {
        LrScale::None => LrScaleKind::None,
        LrScale::Linear { .. } => LrScaleKind::Linear,
    };
    let hash = if spec.measure.hash_every_step { HashTime::Step } else { HashTime::Evaluation };
    let mut shown = vec![
        ("strategy.kind", spec.strategy.kind().name()),
        ("communication.collective", communication.collective.kind().name()),
        ("communication.schedule", communication.schedule.kind().name()),
        ("communication.reduce-order", communication.reduce_order.name()),
        ("communication.transport", communication.transport.kind().name()),
        ("nodes.tunnel", spec.cluster.tunnel.name()),
        ("dataset.kind", spec.dataset.source.kind().name()),
        ("dataset.partition", partition.name()),
        ("dataset.sampling", spec.dataset.sampling.name()),
        ("train.optimizer.kind", spec.train.optimizer.kind().name()),
        ("train.lr-schedule.kind", shape.name()),
        ("train.lr-schedule.scale", scale.name()),
        ("measure.models", spec.measure.models.name()),
        ("measure.steps", spec.measure.steps.name()),
        ("measure.weight-hash", hash.name()),
    ];
    let augment = spec.dataset.augment;
    shown.extend(augment.crop.then_some(("dataset.augment", AugmentKind::Crop.name())));
    shown.extend(augment.flip.then_some(("dataset.augment", AugmentKind::Flip.name())));
    if let Source::TextLines { text, .. } = &spec.dataset.source {
        shown.push(("dataset.tokens", text.unit.name()));
    }
    if let Source::Text { texts, .. } = &spec.dataset.source {
        shown.push(("dataset.tokens", texts.form.unit.name()));
    }
    shown.push(("model.kind", spec.model.kind().name()));
    if let Some(model) = spec.model.layered() {
        shown.push(("model.init", model.init.name()));
        shown.extend(model.layers.iter().map(|placed| ("model.layers.kind", placed.layer.kind().name())));
    }
    shown.extend(spec.strategy.serve().map(|serve| ("strategy.serve", serve.name())));
    shown.extend(strategy_options(&spec.strategy));
    shown.extend(match spec.compression {
        Compression::None => vec![("compression.kind", CompressionKind::None.name())],
        Compression::Coded { codec, .. } => {
            let range = match codec {
                recipe::Codec::Quantize8Gradient => QuantizeRange::Gradient,
                _ => QuantizeRange::Chunk,
            };
            vec![("compression.kind", codec.name()), ("compression.range", range.name())]
        }
    });
    shown.extend(spec.train.target.map(|target| ("train.target.metric", Metric::name(target.metric))));
    shown.extend(spec.faults.iter().map(|fault| ("faults.kind", fault.action.kind().name())));
    shown.extend(spec.emulation.network.map(|_| ("network.share", CardShare::Rank.name())));
    shown.extend(spec.emulation.compute.map(|compute| match compute.split {
        ComputeSplit::Measured => ("compute.split", SplitKind::Measured.name()),
        ComputeSplit::Given { .. } => ("compute.split", SplitKind::Given.name()),
    }));
    shown
}

fn strategy_options(strategy: &Strategy) -> Vec<Member> {
    match strategy {
        Strategy::DPsgd { topology, order } => {
            vec![("strategy.topology", topology.name()), ("strategy.order", order.name())]
        }
        Strategy::AdPsgd { topology, averaging } => {
            vec![("strategy.topology", topology.name()), ("strategy.averaging", averaging.name())]
        }
        Strategy::Gmp { scheme, fc_update, averaged_by, .. } => {
            vec![
                ("strategy.scheme", scheme.name()),
                ("strategy.fc-update", fc_update.name()),
                ("strategy.averaged-by", averaged_by.name()),
            ]
        }
        Strategy::PsSync
        | Strategy::DSync
        | Strategy::PipeSgd { .. }
        | Strategy::AsyncSgd { .. }
        | Strategy::AsyncMsgd { .. }
        | Strategy::HogwildSgd { .. }
        | Strategy::EasgdOriginal { .. }
        | Strategy::EasgdSync { .. }
        | Strategy::EasgdAsync { .. }
        | Strategy::EasgdHogwild { .. }
        | Strategy::MeasgdAsync { .. }
        | Strategy::Eamsgd { .. }
        | Strategy::Sgp
        | Strategy::LocalSgd { .. }
        | Strategy::Slowmo { .. }
        | Strategy::Custom { .. } => Vec::new(),
    }
}

fn shown_by(plan: &Plan) -> BTreeSet<Member> {
    let cells = plan.cells.iter().filter(|cell| cell.excluded.is_none());
    let mut shown: BTreeSet<Member> = cells.flat_map(|cell| shown_by_run(&cell.spec)).collect();
    shown.extend(plan.report.redact.iter().map(|redaction| ("report.redact", redaction.name())));
    // A run is what `auto` has chosen.
    if plan.expanded.contains("transport = \"auto\"") {
        shown.insert(("communication.transport", TransportKind::Auto.name()));
    }
    let order = |order: &&RunOrder| plan.expanded.contains(&format!("order = \"{order}\"\n"));
    shown.extend(RunOrder::ALL.iter().filter(order).map(|order| ("repeats.order", order.name())));
    shown
}

/// The recipes of the repository and the members that each shows.
fn recipes() -> BTreeMap<String, BTreeSet<Member>> {
    let mut recipes = BTreeMap::new();
    for folder in [
        "recipes",
        "recipes/strategies",
        "recipes/papers",
        "recipes/checks",
        "recipes/settings",
        "examples/own-strategy",
        "examples/own-model",
    ] {
        for entry in fs::read_dir(root().join(folder)).unwrap() {
            let path = entry.unwrap().path();
            let is_manifest = path.file_name().is_some_and(|name| name == "Cargo.toml");
            if path.extension().is_some_and(|extension| extension == "toml") && !is_manifest {
                let planned = e2e::plan_file(&path);
                let plan = planned.unwrap_or_else(|problems| panic!("{}: {problems:?}", path.display()));
                let name = match path.strip_prefix(root().join("recipes")) {
                    Ok(name) => name.display().to_string(),
                    Err(_) => format!("../{}", path.strip_prefix(root()).unwrap().display()),
                };
                recipes.insert(name, shown_by(&plan));
            }
        }
    }
    recipes
}

#[test]
fn every_member_has_a_row_that_names_a_recipe_with_it() {
    let page = read("recipes/README.md");
    let recipes = recipes();
    none(members().into_iter().filter_map(|member @ (key, name)| {
        let shown_in =
            || recipes.iter().filter(|(_, shown)| shown.contains(&member)).map(|(recipe, _)| recipe);
        let start = format!("| `{key}` | `{name}` | ");
        let Some(row) = page.lines().find(|line| line.starts_with(&start)) else {
            let recipe = shown_in().next().map_or("no recipe shows it".to_owned(), |recipe| {
                format!("a row for it: {start}[`{recipe}`]({recipe}) |")
            });
            return Some(format!("recipes/README.md has no row for {name} of {key}; {recipe}"));
        };
        let named = shown_in().any(|recipe| row.contains(&format!("]({recipe})")));
        (!named).then(|| format!("{row}: this recipe does not show it"))
    }));
}

/// A family that this file does not list has members that no rule sees.
#[test]
fn every_family_is_listed() {
    let listed: BTreeSet<&str> = families().iter().map(|family| family.of).collect();
    none(production().into_iter().flat_map(|(file, text)| {
        let declared = text.split("family! {").skip(1).filter_map(|rest| {
            let (_, name) = rest.split_once("enum ")?;
            name.split(|letter: char| !letter.is_alphanumeric()).next().map(str::to_owned)
        });
        let unlisted = declared.filter(|name| !listed.contains(name.as_str()));
        unlisted.map(|name| format!("{file}: the rules do not list the family {name}")).collect::<Vec<_>>()
    }));
}

/// By its variant, by its name in a recipe, because a test goes over all, or as the default that recipes leave out.
#[test]
fn every_member_is_in_a_test() {
    let tests = tests_of_all();
    let schema = recipe::schema();
    none(families().into_iter().flat_map(|family| {
        let all = tests.contains(&format!("{}::ALL", family.of));
        let default = default_of(&schema, family.key);
        let is_tested = |name: &str| {
            let variant: String = name.split('-').map(capitalised).collect();
            let quoted = [format!("\"{name}\""), format!("\\\"{name}\\\"")];
            let variant = format!("{}::{variant}", family.of);
            all || default.as_deref() == Some(name)
                || has_word(&tests, &variant)
                || quoted.iter().any(|quoted| tests.contains(quoted))
        };
        let untested = family.members.iter().filter(|name| !is_tested(name));
        untested.map(|name| format!("no test has {name} of {}", family.key)).collect::<Vec<_>>()
    }));
}

/// The value that a key has where a recipe does not write it.
fn default_of(schema: &Value, key: &str) -> Option<String> {
    let described = key.split('.').try_fold(schema, |table, name| table["properties"].get(name))?;
    Some(described["default"].as_str()?.to_owned())
}

/// Whether a text has a path that is no part of a longer one.
fn has_word(text: &str, path: &str) -> bool {
    let ends = |at: usize| {
        !text[at + path.len()..].starts_with(|letter: char| letter.is_alphanumeric() || letter == '_')
    };
    text.match_indices(path).any(|(at, _)| ends(at))
}

fn capitalised(word: &str) -> String {
    let (first, rest) = word.split_at(1);
    first.to_uppercase() + rest
}

/// The files of the workspace's crates and their text without tests, which are the last module of a file.
fn production() -> Vec<(String, String)> {
    let is_test = |file: &String| file.split('/').any(|part| part == "tests" || part == "tests.rs");
    let files = crate::sources().into_iter().filter(|file| !is_test(file));
    let text = |file: &str| read(file).split("#[cfg(test)]\nmod tests").next().unwrap_or_default().to_owned();
    files.map(|file| (file.clone(), text(&file))).collect()
}

/// The text of all tests but these rules.
fn tests_of_all() -> String {
    let of = |file: String| {
        let text = read(&file);
        if file.starts_with("tests/tests/rules/") {
            String::new()
        } else if file.split('/').any(|part| part == "tests" || part == "tests.rs") {
            text
        } else {
            text.split_once("#[cfg(test)]\nmod tests").map_or(String::new(), |(_, tests)| tests.to_owned())
        }
    };
    crate::sources().into_iter().map(of).collect()
}

#[test]
fn every_row_is_about_a_member() {
    let members = members();
    let page = read("recipes/README.md");
    let rows = page.lines().filter_map(|line| {
        let (key, rest) = line.strip_prefix("| `")?.split_once("` | `")?;
        Some((key, rest.split_once('`')?.0))
    });
    none(rows.filter(|row| !members.contains(row)).map(|(key, name)| format!("{key} has no member {name}")));
}

/// Members with a file of their own: the folders it may be in.
fn implementations() -> Vec<(&'static str, &'static [&'static str])> {
    let collectives = CollectiveKind::ALL.iter().map(|kind| (kind.name(), &["collective"][..]));
    let elsewhere = [CompressionKind::None, CompressionKind::Custom];
    let codecs = CompressionKind::ALL.iter().filter(|kind| !elsewhere.contains(kind));
    collectives.chain(codecs.map(|kind| (kind.name(), &["compress", "projection"][..]))).collect()
}

#[test]
fn every_collective_and_codec_has_a_file_a_row_and_a_test() {
    let index = read("strategies/README.md");
    let contract = read("strategies/contract/src/sums.rs");
    let tests: String = ["codecs.rs", "collectives.rs"]
        .into_iter()
        .filter_map(|file| fs::read_to_string(root().join("strategies/tests/world").join(file)).ok())
        .collect();
    none(implementations().into_iter().flat_map(|(name, folders)| {
        let stem = name.replace('-', "_");
        let path = folders
            .iter()
            .map(|folder| format!("src/{folder}/{stem}.rs"))
            .find(|path| root().join("strategies").join(path).is_file());
        let mut offences = Vec::new();
        match path {
            None => offences.push(format!("{name} has no file {stem}.rs in {folders:?}")),
            Some(path) => {
                let row = |line: &str| line.starts_with(&format!("| `{name}` |")) && line.contains(&path);
                if !index.lines().any(row) {
                    offences.push(format!("strategies/README.md has no row for {name} with {path}"));
                }
            }
        }
        let variant: String = name.split('-').map(capitalised).collect();
        if folders.contains(&"collective") && !contract.contains(&format!("&{variant}")) {
            offences.push(format!("strategies/contract/src/sums.rs has no {variant}"));
        }
        let all = tests.contains("Codec::ALL") && folders.contains(&"compress");
        if !all && !tests.contains(&format!("Arc::new({variant}")) {
            offences.push(format!("strategies/tests/world has no test of {name}"));
        }
        offences
    }));
}

#[test]
fn each_named_model_is_timed_beside_pytorch() {
    let bench = read("runner/xtask/src/bench/models.rs");
    let own = [ModelKind::Sequential, ModelKind::Torchscript];
    let named = ModelKind::ALL.iter().filter(|kind| !own.contains(kind));
    let missing = named.filter(|kind| !bench.contains(&format!("Row(\"{kind}\", ")));
    none(missing.map(|kind| format!("`cargo xtask bench models` has no row for {kind}")));
}

/// The names of the files that a run reads of a data set that can be fetched, all of them.
fn names_read(kind: DatasetKind, folder: &str) -> BTreeSet<&'static str> {
    let described = serde_json::json!({ "kind": kind.name(), "path": folder });
    match serde_json::from_value::<Source>(described).unwrap().files() {
        SampleFiles::Folder(_, files) => files.required.iter().chain(files.some).copied().collect(),
        SampleFiles::BuiltIn | SampleFiles::NamedFile(_) | SampleFiles::Pictures(_) => BTreeSet::new(),
    }
}

#[test]
fn data_sets_with_files_can_be_fetched_into_the_folder_where_runs_look() {
    none(DatasetKind::ALL.iter().filter_map(|kind| {
        let fetched = datasets::PublicDataSet::ALL.into_iter().find(|set| set.name == kind.name());
        let files: Option<BTreeSet<&str>> = fetched
            .map(|set| set.archives.iter().flat_map(|archive| archive.files).map(|file| file.name).collect());
        // A data set that cannot be fetched is built in, or a user's own.
        let same_folder = kind.fetched_folder() == fetched.map(|set| set.folder);
        let read = kind.fetched_folder().map(|folder| names_read(*kind, folder));
        (!same_folder || read != files)
            .then(|| format!("{kind}: a run reads {read:?}, and {files:?} are fetched"))
    }));
    let kinds = |set: &&&datasets::PublicDataSet| DatasetKind::named(set.name).is_none();
    none(
        datasets::PublicDataSet::ALL
            .iter()
            .filter(kinds)
            .map(|set| format!("no recipe can name {}", set.name)),
    );
}
