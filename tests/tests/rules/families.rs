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

/// Every member of every family, by the key that takes it.
fn members() -> Vec<Member> {
    fn of<F: Family>(key: &'static str) -> impl Iterator<Item = Member> {
        F::ALL.iter().map(move |member| (key, member.name()))
    }
    of::<StrategyKind>("strategy.kind")
        .chain(of::<Serve>("strategy.serve"))
        .chain(of::<Topology>("strategy.topology"))
        .chain(of::<MixOrder>("strategy.order"))
        .chain(of::<Averaging>("strategy.averaging"))
        .chain(of::<ModuloScheme>("strategy.scheme"))
        .chain(of::<FcUpdate>("strategy.fc-update"))
        .chain(of::<AveragedBy>("strategy.averaged-by"))
        .chain(of::<CollectiveKind>("communication.collective"))
        .chain(of::<ScheduleKind>("communication.schedule"))
        .chain(of::<ReduceOrder>("communication.reduce-order"))
        .chain(of::<TransportKind>("communication.transport"))
        .chain(of::<Tunnel>("nodes.tunnel"))
        .chain(of::<CompressionKind>("compression.kind"))
        .chain(of::<QuantizeRange>("compression.range"))
        .chain(of::<ModelKind>("model.kind"))
        .chain(of::<Init>("model.init"))
        .chain(of::<LayerKind>("model.layers.kind"))
        .chain(of::<DatasetKind>("dataset.kind"))
        .chain(of::<PartitionKind>("dataset.partition"))
        .chain(of::<Sampling>("dataset.sampling"))
        .chain(of::<AugmentKind>("dataset.augment"))
        .chain(of::<TextTokens>("dataset.tokens"))
        .chain(of::<OptimizerKind>("train.optimizer.kind"))
        .chain(of::<LrShapeKind>("train.lr-schedule.kind"))
        .chain(of::<LrScaleKind>("train.lr-schedule.scale"))
        .chain(of::<TargetMetric>("train.target.metric"))
        .chain(of::<FaultKind>("faults.kind"))
        .chain(of::<CardShare>("network.share"))
        .chain(of::<SplitKind>("compute.split"))
        .chain(of::<KeptModels>("measure.models"))
        .chain(of::<KeptSteps>("measure.steps"))
        .chain(of::<HashTime>("measure.weight-hash"))
        .chain(of::<RunOrder>("repeats.order"))
        .chain(of::<Redaction>("report.redact"))
        .collect()
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
        _ => Vec::new(),
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
        let variant: String = name.split('-').map(|word| word[..1].to_uppercase() + &word[1..]).collect();
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
