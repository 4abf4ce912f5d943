//! Plans that recipes expand to: settings and hashes.

use crate::desk::{Desk, MACHINE};
use crate::problems::recipe;
use recipe::{
    Codec, Collective, Compression, Extent, Init, LrScale, LrSchedule, LrShape, Metric, ModelKind,
    OptimizerSettings, Partition, PayloadPath, Plan, ReduceOrder, Role, Sampling, Source, Strategy,
    StrategyKind, UpdateRule,
};
use std::collections::BTreeSet;
use std::time::Duration;

pub(crate) fn plan(changes: &[&str]) -> Plan {
    planned(&Desk::with(&recipe(changes)))
}

pub(crate) fn planned(desk: &Desk) -> Plan {
    desk.plan().unwrap_or_else(|problems| panic!("{}", problems.render(recipe::Colours::None, 100)))
}

pub(crate) fn labels(plan: &Plan) -> Vec<&str> {
    plan.cells.iter().map(|cell| cell.label.as_str()).collect()
}

#[test]
fn defaults_are_the_documented_ones() {
    let plan = plan(&[]);
    let spec = &plan.cells[1].spec;
    assert_eq!(spec.strategy, Strategy::DSync);
    assert_eq!(spec.model.layered().unwrap().kind, ModelKind::MnistMlp);
    assert_eq!(spec.dataset.source, Source::Synthetic { train: 5000, test: 1000, seed: 1 });
    assert_eq!(spec.dataset.partition, Partition::Shared);
    assert_eq!((spec.train.global_batch, spec.train.length), (100, Extent::Epochs(2.0)));
    assert_eq!((spec.train.optimizer.lr, spec.train.optimizer.momentum), (0.1, 0.0));
    assert_eq!(
        spec.train.schedule,
        LrSchedule { shape: LrShape::Constant, warmup: Extent::Epochs(0.0), scale: LrScale::None }
    );
    assert_eq!((spec.train.optimizer.clip, spec.train.accumulate), (None, 1));
    assert_eq!((spec.train.evaluate, spec.train.target), (Extent::Epochs(1.0), None));
    assert_eq!(spec.communication.collective, Collective::Ring);
    assert_eq!(spec.communication.reduce_order, ReduceOrder::Ring);
    assert_eq!(spec.compression, Compression::None);
    assert_eq!((spec.measure.trace_first_steps, spec.measure.trace_every), (20, 500));
    assert!(!spec.measure.hash_every_step);
    assert_eq!((plan.limits.run_timeout, plan.limits.retries, plan.limits.max_runs), (None, 0, 400));
    assert_eq!((plan.report.min_effect, plan.report.confidence), (0.05, 0.95));
}

#[test]
fn compression_is_an_arm_and_what_makes_no_difference_is_dropped() {
    let plan = plan(&[
        "[compression]\nkind = \"quantize8\"\nparameters = true\nerror-feedback = true",
        "[sweep.axes]\ncompression.kind = [\"none\", \"truncate16\"]",
        "[[strategy]]\nkind = \"ps-sync\"",
        "[[strategy]]\nkind = \"d-sync\"",
        "[[strategy]]\nname = \"half\"\nkind = \"d-sync\"\ncompression = \"fp16\"",
    ]);
    let coded = |codec, parameters, error_feedback| Compression::Coded { codec, parameters, error_feedback };
    let arms: Vec<_> = plan.cells.iter().map(|cell| (cell.label.as_str(), cell.spec.compression)).collect();
    assert_eq!(
        arms,
        [
            ("ps-sync compression=none", Compression::None),
            ("ps-sync compression=truncate16", coded(Codec::Truncate16, true, true)),
            ("d-sync compression=none", Compression::None),
            ("d-sync compression=truncate16", coded(Codec::Truncate16, false, true)),
            ("half", coded(Codec::Fp16, false, true)),
        ]
    );
}

/// The key decides the code, and its default leaves the run what it was.
#[test]
fn one_range_for_a_gradient_is_a_code_of_its_own() {
    let codec = |range: &str| {
        let arm = format!("[[strategy]]\nkind = \"d-sync\"\ncompression = {{ kind = \"quantize8\"{range} }}");
        match plan(&[&arm]).cells[0].spec.compression {
            Compression::Coded { codec, parameters: false, error_feedback: false } => codec,
            other => panic!("{other:?}"),
        }
    };
    let expected = [Codec::Quantize8, Codec::Quantize8, Codec::Quantize8Gradient];
    assert_eq!(["", ", range = \"chunk\"", ", range = \"gradient\""].map(codec), expected);
    let written = |codec| serde_json::to_string(&codec).expect("JSON");
    assert_eq!(expected.map(written), ["\"quantize8\"", "\"quantize8\"", "\"quantize8-gradient\""]);
    assert!(expected.iter().all(|codec| codec.name() == "quantize8"));
}

#[test]
fn what_every_optimizer_can() {
    let schedule = |text: &str| {
        let recipe = format!(
            "[train]\nglobal-batch = 100\nepochs = 2\naccumulate = 3\noptimizer.clip = 2.5\nlr-schedule = {text}"
        );
        let train = plan(&[&recipe]).cells[0].spec.train.clone();
        assert_eq!((train.accumulate, train.optimizer.clip), (3, Some(2.5)));
        train.schedule
    };
    let milestones = schedule("{ kind = \"milestones\", at = [\"1 epoch\", \"70 steps\"], factor = 0.1 }");
    let at = vec![Extent::Epochs(1.0), Extent::Steps(70)];
    assert_eq!(milestones.shape, LrShape::Milestones { at, factor: 0.1 });
    let cosine = schedule(
        "{ kind = \"cosine\", floor = \"5%\", scale = \"linear\", reference-batch = 25, warmup = \"1 epoch\" }",
    );
    let scale = LrScale::Linear { reference_batch: 25 };
    assert_eq!((cosine.shape, cosine.scale), (LrShape::Cosine { floor: 0.05 }, scale));
    assert_eq!((scale.factor(100), LrScale::None.factor(100)), (4.0, 1.0));
}

#[test]
fn optimizers_have_defaults_of_their_own() {
    let optimizer = |text: &str| {
        let recipe = format!("[train]\nglobal-batch = 100\nepochs = 2\noptimizer = {text}");
        plan(&[&recipe]).cells[0].spec.train.optimizer
    };
    let adamw = |beta1, beta2, epsilon| UpdateRule::Adamw { beta1, beta2, epsilon };
    let sgd = OptimizerSettings::sgd(0.1);
    let usual = OptimizerSettings { lr: 0.001, weight_decay: 0.01, rule: adamw(0.9, 0.999, 1e-8), ..sgd };
    assert_eq!(optimizer("\"sgd\""), sgd);
    assert_eq!(optimizer("\"adamw\""), usual);
    let given = "{ kind = \"adamw\", lr = 0.5, beta1 = 0.5, beta2 = 0.75, epsilon = 0.125, weight-decay = 0.0, clip = 2.0 }";
    let rule = adamw(0.5, 0.75, 0.125);
    assert_eq!(optimizer(given), OptimizerSettings { lr: 0.5, clip: Some(2.0), rule, ..sgd });
    let nesterov = "{ kind = \"sgd\", momentum = 0.5, nesterov = true, weight-decay = 0.25 }";
    let rule = UpdateRule::Nesterov;
    assert_eq!(optimizer(nesterov), OptimizerSettings { momentum: 0.5, weight_decay: 0.25, rule, ..sgd });
    let lars = optimizer("{ kind = \"lars\", lr = 5.0, momentum = 0.9 }");
    let rule = UpdateRule::Lars { trust: 0.001 };
    assert_eq!(lars, OptimizerSettings { lr: 5.0, momentum: 0.9, rule, ..sgd });
}

/// Each strategy takes every optimizer, or none but plain SGD.
#[test]
fn every_strategy_says_which_optimizers_act_in_it() {
    let optimizers =
        ["{ kind = \"sgd\", momentum = 0.9, nesterov = true }", "\"adamw\"", "{ kind = \"lars\", lr = 5.0 }"];
    for kind in StrategyKind::ALL.iter().copied().filter(|kind| *kind != StrategyKind::Custom) {
        for optimizer in optimizers {
            let train = format!("[train]\nglobal-batch = 100\nepochs = 2\noptimizer = {optimizer}");
            let planned = Desk::with(&recipe(&[&train, &format!("[[strategy]]\nkind = \"{kind}\"")])).plan();
            // Methods without momentum have none to look along, either.
            let momentum = optimizer.contains("nesterov") && kind == StrategyKind::AsyncSgd;
            assert_eq!(planned.is_ok(), kind.own_rule().is_none() && !momentum, "{kind}, {optimizer}");
        }
    }
}

/// Linear scaling is in the batch: with a batch of each worker it is their number, whatever that batch is.
#[test]
fn a_rate_for_the_batch_of_one_worker_is_scaled_by_their_number() {
    let plan = plan(&[
        "[train]\nper-worker-batch = 24\nepochs = 2\nlr-schedule.scale = \"linear\"",
        "[sweep.axes]\nnodes.workers = [1, 2, 4]",
    ]);
    for cell in &plan.cells {
        let train = &cell.spec.train;
        assert_eq!(train.schedule.scale, LrScale::Linear { reference_batch: 24 });
        assert_eq!(train.schedule.scale.factor(train.global_batch), f64::from(cell.spec.cluster.workers()));
    }
}

#[test]
fn what_is_drawn_and_how_is_part_of_a_run() {
    let plan = plan(&[
        "[sweep.axes]\nmodel.init = [\"pytorch\", \"xavier\", \"kaiming\"]\ndataset.sampling = [\"permutation\", \"with-replacement\"]",
        "[strategy]\nkind = \"d-sync\"",
    ]);
    let drawn: Vec<_> = plan
        .cells
        .iter()
        .map(|cell| (cell.spec.model.layered().unwrap().init, cell.spec.dataset.sampling))
        .collect();
    let once = Sampling::Permutation;
    let again = Sampling::WithReplacement;
    assert_eq!(
        drawn,
        [
            (Init::Pytorch, once),
            (Init::Pytorch, again),
            (Init::Xavier, once),
            (Init::Xavier, again),
            (Init::Kaiming, once),
            (Init::Kaiming, again)
        ]
    );
    let hashes: BTreeSet<&str> = plan.cells.iter().map(|cell| cell.config_hash.as_str()).collect();
    assert_eq!(hashes.len(), 6);
}

/// 0.9 / workers, as the authors of elastic averaging take it, and so is what `plan --full` plans to.
#[test]
fn elastic_methods_have_a_moving_rate_where_none_is_given() {
    for kind in ["easgd-original", "easgd-async", "measgd-async", "easgd-hogwild", "easgd-sync", "eamsgd"] {
        let strategy = format!("[[strategy]]\nkind = \"{kind}\"");
        let plan = plan(&["[sweep.axes]\nnodes.workers = [1, 2, 4]", &strategy]);
        assert_eq!(plan.warnings, []);
        for cell in &plan.cells {
            let (Strategy::EasgdOriginal { moving_rate: rate, .. }
            | Strategy::EasgdAsync { moving_rate: rate, .. }
            | Strategy::MeasgdAsync { moving_rate: rate, .. }
            | Strategy::EasgdHogwild { moving_rate: rate, .. }
            | Strategy::EasgdSync { moving_rate: rate, .. }
            | Strategy::Eamsgd { moving_rate: rate, .. }) = cell.spec.strategy
            else {
                panic!("{kind}");
            };
            let workers = cell.spec.cluster.workers() as usize;
            assert_eq!(rate.at(0.1, workers).to_bits(), (0.9 / workers as f32).to_bits(), "{kind}");
        }
        assert!(plan.expanded.contains("# moving-rate: 0.9 / workers"), "{}", plan.expanded);
        assert_eq!(planned(&Desk::with(&plan.expanded)).cells, plan.cells);
        let given = self::plan(&[&format!("{strategy}\nrho = 1.0")]);
        assert!(!given.expanded.contains("# moving-rate"), "{}", given.expanded);
    }
}

/// R210 begins one step later, or at the end where a fall would come.
#[test]
fn a_schedule_that_ends_with_the_training_is_no_warning() {
    let warned = |schedule: &str| {
        let train = format!("[train]\nglobal-batch = 100\nsteps = 20\nlr-schedule = {{ {schedule} }}");
        plan(&[&train]).warnings.iter().any(|warning| warning.code == "R210")
    };
    for (schedule, late) in [
        ("warmup = \"20 steps\"", false),
        ("warmup = \"21 steps\"", true),
        ("kind = \"step\", every = \"19 steps\"", false),
        ("kind = \"step\", every = \"20 steps\"", true),
        ("kind = \"milestones\", at = [\"5 steps\", \"19 steps\"]", false),
        ("kind = \"milestones\", at = [\"5 steps\", \"20 steps\"]", true),
    ] {
        assert_eq!(warned(schedule), late, "{schedule}");
    }
}

#[test]
fn everything_that_is_written_arrives() {
    let plan = plan(&[
        "[dataset]\nkind = \"cifar100\"\npath = \"data/cifar\"\nvalidation = \"10%\"\npartition = { kind = \"dirichlet\", alpha = 0.5 }",
        "[model]\nkind = \"cifar-cnn\"",
        "[train]\nper-worker-batch = 16\nsteps = 30\nevaluate = \"10 steps\"\noptimizer = { lr = 0.2, momentum = 0.9, weight-decay = 1e-4 }\n\
         lr-schedule = { kind = \"step\", every = \"2 epochs\", factor = 0.1, warmup = \"5 steps\" }\n\
         target = { metric = \"validation-loss\", at-most = 0.5, after = \"90s\", stop = true }",
        "[communication]\ncollective = \"star\"\nreduce-order = \"ring\"\nschedule = \"single\"",
        "[measure]\ntrace = { first-steps = 3, every = 0 }\nweight-hash = \"step\"",
        "[limits]\nrun-timeout = \"20min\"\nretries = 2\nmax-runs = 7",
        "[report]\nmin-effect = 0.1\nmin-quality = \"3%\"\nconfidence = 0.9\nredact = [\"hosts\"]",
    ]);
    let spec = &plan.cells[1].spec;
    assert_eq!(spec.dataset.source, Source::Cifar100 { path: "/desk/data/cifar".into() });
    assert_eq!(spec.dataset.partition, Partition::Dirichlet { alpha: 0.5 });
    assert_eq!(spec.dataset.validation, 0.1);
    assert_eq!((spec.train.global_batch, spec.train.length), (64, Extent::Steps(30)));
    assert_eq!(spec.train.schedule.shape, LrShape::Step { every: Extent::Epochs(2.0), factor: 0.1 });
    assert_eq!(spec.train.schedule.warmup, Extent::Steps(5));
    let target = spec.train.target.expect("a target");
    assert_eq!((target.metric, target.threshold, target.stop), (Metric::ValidationLoss, 0.5, true));
    assert_eq!(target.after, Some(Duration::from_secs(90)));
    assert_eq!(spec.communication.collective, Collective::Star);
    assert!(spec.measure.hash_every_step);
    assert_eq!(plan.limits.run_timeout, Some(Duration::from_mins(20)));
    assert_eq!(plan.report.redact, [recipe::Redaction::Hosts]);
    assert_eq!([plan.report.min_effect, plan.report.min_quality, plan.report.confidence], [0.1, 0.03, 0.9]);
}

#[test]
fn workers_fill_the_slots_and_servers_come_after_them() {
    let plan = plan(&["[nodes]\nuse = [\"local*3\"]\nworkers = 2"]);
    let roles = |cell: usize| {
        plan.cells[cell].spec.cluster.placements.iter().map(|placement| placement.role).collect::<Vec<_>>()
    };
    assert_eq!(roles(0), [Role::Worker, Role::Worker, Role::Server]);
    assert_eq!(roles(1), [Role::Worker, Role::Worker]);
    assert_eq!(plan.cells[0].spec.cluster.nodes[0].slots, 3);
}

#[test]
fn local_has_one_slot_per_core() {
    let plan = plan(&["[nodes]\nuse = \"local\""]);
    assert_eq!(plan.cells[1].spec.cluster.workers(), MACHINE.cores);
}

#[test]
fn every_collective_can_be_chosen_by_its_name_or_with_its_keys() {
    let sweep = "[sweep.axes]\ncommunication.collective = [\"ring\", \"pipelined-ring\", \"tree\", \"recursive-doubling\", \
                 \"halving-doubling\", \"star\", { kind = \"hierarchical\", group-size = 2 }, { kind = \"pipelined-ring\", segments = 9 }]";
    let plan = plan(&["[[strategy]]\nkind = \"d-sync\"", "[nodes]\nuse = [\"local*4\"]", sweep]);
    let collectives: Vec<Collective> =
        plan.cells.iter().map(|cell| cell.spec.communication.collective).collect();
    assert_eq!(
        collectives,
        [
            Collective::Ring,
            Collective::PipelinedRing { segments: 4 },
            Collective::Tree,
            Collective::RecursiveDoubling,
            Collective::HalvingDoubling,
            Collective::Star,
            Collective::Hierarchical { group_size: Some(2) },
            Collective::PipelinedRing { segments: 9 },
        ]
    );
    let kinds: Vec<&str> = collectives.iter().map(|collective| collective.kind().name()).collect();
    assert_eq!(plan.cells[7].label, "d-sync collective=pipelined-ring(segments=9)");
    assert_eq!(kinds[6], "hierarchical");
}

#[test]
fn a_transport_is_part_of_an_arm_and_sockets_change_no_hash() {
    let of = |settings: &str| {
        let plan = plan(&[settings, "[[strategy]]\nkind = \"d-sync\""]);
        let cell = &plan.cells[0];
        (cell.spec.communication.transport, cell.config_hash.clone())
    };
    let by = |name: &str| of(&format!("[communication]\ntransport = \"{name}\""));
    let plain = of("[communication]\ncollective = \"ring\"");
    assert_eq!(plain.0, PayloadPath::Zeromq);
    assert_eq!(by("zeromq"), plain);
    let shared = by("shared-memory");
    assert_eq!(shared.0, PayloadPath::SharedMemory);
    assert_ne!(shared.1, plain.1);
    assert_eq!(by("auto"), shared, "an arm is what `auto` stands for");
    let slow = |name: &str| {
        of(&format!("[network]\nbandwidth = \"1Gbit/s\"\n[communication]\ntransport = \"{name}\"")).0
    };
    assert_eq!((slow("auto"), slow("shared-memory")), (PayloadPath::Zeromq, PayloadPath::SharedMemory));
}

#[test]
fn a_hash_changes_with_what_reaches_a_worker_and_with_nothing_else() {
    let hash = |overrides: &[&str]| {
        let desk =
            Desk::with(&recipe(&["[train]\nglobal-batch = 96\nepochs = 2\ntarget = { at-least = 0.9 }"]));
        let plan = desk
            .plan_with(overrides)
            .unwrap_or_else(|problems| panic!("{}", problems.render(recipe::Colours::None, 100)));
        plan.cells[1].config_hash.clone()
    };
    let base = hash(&[]);
    for same in [
        "name=other",
        "question=why",
        "report.min-effect=0.2",
        "report.confidence=0.9",
        "repeats.count=2",
        "repeats.order=block",
        "limits.retries=3",
        "limits.run-timeout=1h",
        "limits.max-runs=3",
        "strategy.d-sync.baseline=true",
        "strategy.d-sync.name=other",
        "train.epochs=2.0",
        "measure.samples=false",
        "model.kind=mnist-mlp",
        "report.redact=[\"hosts\"]",
    ] {
        assert_eq!(hash(&[same]), base, "{same}");
    }
    let mut seen = BTreeSet::from([base]);
    for other in [
        "model.kind=softmax",
        "dataset.train=4000",
        "dataset.test=900",
        "dataset.seed=2",
        "dataset.partition=sharded",
        "dataset.validation=0.1",
        "train.global-batch=48",
        "train.epochs=3",
        "train.optimizer.lr=0.2",
        "train.optimizer.momentum=0.5",
        "train.optimizer.weight-decay=0.1",
        "train.lr-schedule.warmup=1 epoch",
        "train.evaluate=2 epochs",
        "train.target.at-least=0.8",
        "train.target.stop=true",
        "nodes.workers=2",
        "communication.collective=star",
        "communication.reduce-order=rank",
        "measure.weight-hash=step",
        "measure.trace.every=10",
    ] {
        assert!(seen.insert(hash(&[other])), "{other}");
    }
}

/// Servers of a source that exchanges with one worker at a time do so, and the full recipe says it; where a kind has
/// no lock, or no server, there is nothing to choose.
#[test]
fn how_many_workers_a_server_serves_is_that_of_the_source_unless_it_is_said() {
    use recipe::Serve::{All, One};
    let rate = "moving-rate = 0.1";
    let desk = |kind: &str, more: &str| {
        Desk::with(&recipe(&[&format!("[[strategy]]\nkind = \"{kind}\"\n{more}\n")]))
    };
    for (kind, more, usual) in [
        ("async-sgd", "", One),
        ("async-msgd", "", One),
        ("easgd-async", rate, One),
        ("measgd-async", rate, One),
        ("eamsgd", "", All),
    ] {
        let usually = planned(&desk(kind, more));
        assert_eq!(usually.cells[0].spec.strategy.serve(), Some(usual), "{kind}");
        let said = if usual == One { "serve = \"one\"" } else { "serve = \"all\"" };
        assert!(usually.expanded.contains(said), "{kind}:\n{}", usually.expanded);
        for (said, serve) in [("one", One), ("all", All)] {
            let plan = planned(&desk(kind, &format!("{more}\nserve = \"{said}\"")));
            assert_eq!(plan.cells[0].spec.strategy.serve(), Some(serve), "{kind}");
            let same = plan.cells[0].config_hash == usually.cells[0].config_hash;
            assert_eq!(same, serve == usual, "{kind}: another way to serve is another run");
        }
    }
    for (kind, more) in
        [("hogwild-sgd", ""), ("easgd-hogwild", rate), ("easgd-original", rate), ("ps-sync", "")]
    {
        planned(&desk(kind, more));
        assert!(desk(kind, &format!("{more}\nserve = \"one\"")).plan().is_err(), "{kind}");
    }
}
