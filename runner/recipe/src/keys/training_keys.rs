//! The keys of learning: data set, training, machines and emulation. The model is described by `model_keys.rs`, arms by
//! `arm_keys.rs`.

use crate::keys::key::{Ends, Key, Kind, Least, Range, Usual};
use crate::spec::family::Family;
use crate::{
    AugmentKind, CardShare, DatasetKind, LrScaleKind, LrShapeKind, OptimizerKind, PartitionKind, Sampling,
    SplitKind, TargetMetric, TextTokens, Tunnel,
};

/// Far above the smallest number in single precision, in which updates are computed.
const EPSILON: Range = Range::new(1e-12, 1.0, Ends::Closed);

pub(crate) const KEYS: &[Key] = &[
    Key::new("dataset", Kind::Table, "The data set, and how its samples are dealt to the workers."),
    Key::new("dataset.kind", Kind::Choice(DatasetKind::CHOICES), "Which data.").default("\"synthetic\""),
    Key::new(
        "dataset.path",
        Kind::Path,
        "The folder with the data set's files; relative to the recipe (on the command line: to the current \
         folder). By default where `bakeoff data fetch` puts them: in BAKEOFF_DATA, else in `data`; of `npy`, `safetensors`, \
         `image-folder` and `text`, whose files are your own, it has no default. Of `text-lines` it is the file itself.",
    )
    .of(&[
        DatasetKind::Mnist.name(),
        DatasetKind::FashionMnist.name(),
        DatasetKind::Cifar10.name(),
        DatasetKind::Cifar100.name(),
        DatasetKind::ImageFolder.name(),
        DatasetKind::Npy.name(),
        DatasetKind::Safetensors.name(),
        DatasetKind::TextLines.name(),
        DatasetKind::Text.name(),
    ])
    .example("\"data/mnist\""),
    Key::new("dataset.train", Kind::Whole(1, 10_000_000), "Training samples to draw.")
        .of(&[DatasetKind::Synthetic.name()])
        .default("5000"),
    Key::new("dataset.test", Kind::Whole(1, 10_000_000), "Test samples to draw.")
        .of(&[DatasetKind::Synthetic.name()])
        .default("1000"),
    Key::new(
        "dataset.seed",
        Kind::Whole(0, i64::MAX as u64),
        "Seed of the drawing; the runs' own seeds do not change the data.",
    )
    .of(&[DatasetKind::Synthetic.name()])
    .default("1"),
    Key::new(
        "dataset.resize",
        Kind::Whole(8, 4096),
        "Pixels of the shorter side, to which each picture is scaled before the square of `crop` is cut out.",
    )
    .of(&[DatasetKind::ImageFolder.name()])
    .default("256"),
    Key::new(
        "dataset.crop",
        Kind::Whole(8, 4096),
        "Pixels of each side of the square that a model sees; from the middle of the picture, unless `augment` moves it. At most `resize`.",
    )
    .of(&[DatasetKind::ImageFolder.name()])
    .default("224"),
    Key::new(
        "dataset.context",
        Kind::Whole(2, 65_536),
        "Tokens of a sample: of `text-lines` a window of the text, of `text` the first ones of each text. Shorter texts are padded at \
         their end.",
    )
    .of(&[DatasetKind::TextLines.name(), DatasetKind::Text.name()])
    .default("64"),
    Key::new("dataset.tokens", Kind::Choice(TextTokens::CHOICES), "The unit of text that a token stands for.")
        .of(&[DatasetKind::TextLines.name(), DatasetKind::Text.name()])
        .default("\"bytes\"")
        .usual(&[Usual { kind: DatasetKind::Text.name(), toml: "\"words\"" }]),
    Key::new(
        "dataset.vocabulary",
        Kind::Whole(1, 1_000_000),
        "Tokens of train.csv that have a number of their own, from 2 on: the most frequent ones, of equally frequent ones the first in \
         byte order. 0 is padding, 1 is whatever else there is.",
    )
    .of(&[DatasetKind::Text.name()])
    .default("20000"),
    Key::new(
        "dataset.header",
        Kind::Flag,
        "Whether the first line of train.csv and of test.csv names their columns. It has no default: nothing in a file tells a name \
         from a label.",
    )
    .of(&[DatasetKind::Text.name()])
    .example("false"),
    Key::new(
        "dataset.test-share",
        Kind::Share(Range::INSIDE_ONE),
        "Share of the text, at its end, that nothing is trained on; at least one window.",
    )
    .of(&[DatasetKind::TextLines.name()])
    .default("0.1"),
    Key::new("dataset.partition", Kind::Table, "Which samples each worker sees."),
    Key::new("dataset.partition.kind", Kind::Choice(PartitionKind::CHOICES), "How samples are dealt.")
        .default("\"shared\""),
    Key::new(
        "dataset.partition.alpha",
        Kind::Number(Range::POSITIVE),
        "Concentration of the Dirichlet distribution: small values give each worker few classes.",
    )
    .of(&[PartitionKind::Dirichlet.name()])
    .default("0.3"),
    Key::new(
        "dataset.augment",
        Kind::ChoiceList(AugmentKind::CHOICES),
        "How images are changed at random when they are trained on, keyed by seed, epoch and sample: within an epoch a sample is changed \
         in one way, on whichever worker. Evaluations see them as they are.",
    )
    .default("[]")
    .example("[\"crop\", \"flip\"]"),
    Key::new("dataset.sampling", Kind::Choice(Sampling::CHOICES), "How a pass over the samples is drawn.")
        .default("\"permutation\""),
    Key::new(
        "dataset.validation",
        Kind::Share(Range::BELOW_ONE),
        "Share of the training set that is held out; learning rates are chosen on it, never on the test set.",
    )
    .default("0.0")
    .example("0.1"),
    Key::new("train", Kind::Table, "Length, steps and evaluations of the training."),
    Key::new(
        "train.global-batch",
        Kind::Whole(1, 1 << 24),
        "Samples per step of all workers together; this or `per-worker-batch`.",
    )
    .example("100"),
    Key::new(
        "train.per-worker-batch",
        Kind::Whole(1, 1 << 24),
        "Samples per step of each worker; this or `global-batch`.",
    )
    .example("25"),
    Key::new(
        "train.epochs",
        Kind::Number(Range { least: 0.0, most: 1e6, ends: Ends::Open }),
        "Passes over the training set, of all workers together; this or `steps`.",
    )
    .example("5"),
    Key::new(
        "train.steps",
        Kind::Whole(1, 1_000_000_000_000),
        "Steps of all workers together, each of one global batch; the last of an epoch takes the samples that are \
         left. Workers at their own pace use as many samples as these steps do. This or `epochs`.",
    )
    .example("2000"),
    Key::new("train.optimizer", Kind::Table, "How gradients become steps."),
    Key::new("train.optimizer.kind", Kind::Choice(OptimizerKind::CHOICES), "Which rule.").default("\"sgd\""),
    Key::new(
        "train.optimizer.lr",
        Kind::Number(Range::POSITIVE),
        "Learning rate. That of `lars` is far larger than that of `sgd`, as `trust` multiplies it, and has no default.",
    )
    .default("0.1")
    // That of PyTorch.
    .usual(&[Usual { kind: OptimizerKind::Adamw.name(), toml: "0.001" }]),
    Key::new("train.optimizer.momentum", Kind::Number(Range::BELOW_ONE), "Momentum; 0 for none.")
        .of(&[OptimizerKind::Sgd.name(), OptimizerKind::Lars.name()])
        .default("0.0"),
    Key::new(
        "train.optimizer.nesterov",
        Kind::Flag,
        "Whether the step is one with the momentum of the next step (Nesterov), in PyTorch's form: rate (g + momentum v) in \
         place of rate v. Needs `momentum`.",
    )
    .of(&[OptimizerKind::Sgd.name()])
    .default("false"),
    Key::new(
        "train.optimizer.weight-decay",
        Kind::Number(Range::AT_LEAST_ZERO),
        "Weight decay; 0 for none. `adamw` takes rate * decay * w from the weights beside its step; of `lars` it is for \
         matrices only, not for biases.",
    )
    .default("0.0")
    // That of PyTorch.
    .usual(&[Usual { kind: OptimizerKind::Adamw.name(), toml: "0.01" }]),
    Key::new(
        "train.optimizer.beta1",
        Kind::Number(Range::BELOW_ONE),
        "Share of the old moving mean of gradients in the new one.",
    )
    .of(&[OptimizerKind::Adamw.name()])
    .default("0.9"),
    Key::new(
        "train.optimizer.beta2",
        Kind::Number(Range::BELOW_ONE),
        "Share of the old moving mean of squared gradients in the new one.",
    )
    .of(&[OptimizerKind::Adamw.name()])
    .default("0.999"),
    Key::new(
        "train.optimizer.epsilon",
        Kind::Number(EPSILON),
        "Added to the root of the mean of squared gradients, so that small ones are not divided by zero.",
    )
    .of(&[OptimizerKind::Adamw.name()])
    .default("1e-8"),
    Key::new(
        "train.optimizer.trust",
        Kind::Number(Range::POSITIVE),
        "Length of the step of each matrix of weights at rate 1 and without momentum, as a share of the matrix's length.",
    )
    .of(&[OptimizerKind::Lars.name()])
    .default("0.001"),
    Key::new(
        "train.optimizer.clip",
        Kind::Number(Range::POSITIVE),
        "Longest gradient (its Euclidean norm over all weights): a longer one is scaled down to it before it is \
         used. Without it nothing is clipped. `lars` divides by the norms of gradients and has no use for it.",
    )
    .of(&[OptimizerKind::Sgd.name(), OptimizerKind::Adamw.name()])
    .example("1.0"),
    Key::new(
        "train.accumulate",
        Kind::Whole(1, 65_536),
        "Pieces in which each worker computes its share of the batch, one after the other; their gradients are \
         averaged over the samples before anything is exchanged.",
    )
    .default("1"),
    Key::new("train.lr-schedule", Kind::Table, "How the learning rate changes with the samples consumed."),
    Key::new("train.lr-schedule.kind", Kind::Choice(LrShapeKind::CHOICES), "The shape.").default("\"constant\""),
    Key::new("train.lr-schedule.every", Kind::Extent(Least::Something), "How often the rate changes.")
        .of(&[LrShapeKind::Step.name()])
        .example("\"25 epochs\""),
    Key::new("train.lr-schedule.at", Kind::Extents, "Where the rate changes, from the start of training.")
        .of(&[LrShapeKind::Milestones.name()])
        .example("[\"10 epochs\", \"15 epochs\"]"),
    Key::new("train.lr-schedule.factor", Kind::Number(Range::POSITIVE), "The rate is multiplied by this.")
        .of(&[LrShapeKind::Step.name(), LrShapeKind::Milestones.name()])
        .default("0.5"),
    Key::new("train.lr-schedule.floor", Kind::Share(Range::UP_TO_ONE), "Share of the rate that is left at the end.")
        .of(&[LrShapeKind::Cosine.name()])
        .default("0.0"),
    Key::new(
        "train.lr-schedule.warmup",
        Kind::Extent(Least::Nothing),
        "Over this much the rate has a factor that rises linearly to one, which its last step has. The fall of `step`, `milestones` or \
         `cosine` continues meanwhile, from the first step of the run. The step that begins \
         after s samples takes the part (s + B) / warm-up of the way, B being the global batch, so that the first is one \
         step above the start: above zero, or with `scale = \"linear\"` above the rate of the reference batch.",
    )
    .default("\"0 epochs\"")
    .example("\"1 epoch\""),
    Key::new("train.lr-schedule.scale", Kind::Choice(LrScaleKind::CHOICES), "Whether the rate grows with the batch.")
        .default("\"none\""),
    Key::new(
        "train.lr-schedule.reference-batch",
        Kind::Whole(1, 1 << 24),
        "The global batch that `train.optimizer.lr` is right for: with `scale = \"linear\"` the rate is multiplied by \
         the global batch divided by this. By default `train.per-worker-batch`, so that the factor is the number of \
         workers; with `train.global-batch` it has no default.",
    )
    .example("32"),
    Key::new(
        "train.evaluate",
        Kind::Extent(Least::Something),
        "How often the model is evaluated; the initial and the final one always are, unless the run is stopped \
         early. Evaluation never counts as training time. Where models differ, a run is judged by the centre of elastic \
         averaging, by the mean of all workers of gossip, and else by rank 0.",
    )
    .default("\"1 epoch\""),
    Key::new("train.checkpoint", Kind::Extent(Least::Something), "How often all ranks save their state; `run` continues there.")
        .example("\"500 steps\""),
    Key::new("train.target", Kind::Table, "The value that a run has to reach; time to target is the main result."),
    Key::new("train.target.metric", Kind::Choice(TargetMetric::CHOICES), "The metric.").default("\"test-accuracy\""),
    Key::new("train.target.at-least", Kind::Share(Range::UP_TO_ONE), "The accuracy to reach, 0 to 1.").example("0.97"),
    Key::new("train.target.at-most", Kind::Number(Range::AT_LEAST_ZERO), "The loss or perplexity to reach.").example("0.3"),
    Key::new("train.target.after", Kind::Duration, "Reached later than this, it counts as missed.")
        .example("\"15min\""),
    Key::new("train.target.stop", Kind::Flag, "Whether a run ends when it reaches the target.")
        .default("false"),
    Key::new("nodes", Kind::Table, "The machines."),
    Key::new(
        "nodes.use",
        Kind::TextList,
        "Machines and how many workers fit on each: `local*4`, `lab1*2`, `user@lab[01-08]:22*4`, `group:fast` of the inventory, \
         `hostfile:hosts.txt`, `slurm` inside of an allocation or with `run --submit slurm`. `local` alone has one slot per core; another machine has one \
         slot, and is reached through your own `ssh`.",
    )
    .default("[\"local\"]")
    .example("[\"local*4\"]"),
    Key::new("nodes.workers", Kind::Whole(1, 65_536), "How many workers train; by default as many as fit.")
        .example("4"),
    Key::new(
        "nodes.threads",
        Kind::Whole(1, 4096),
        "Threads that each worker computes with. By default the cores that the servers leave, divided by the \
         workers: the same for all arms of a condition, decided by the arm with the most ranks, excluded arms \
         included. A run that stops at its target keeps one core free for the evaluator. The bits of the results \
         depend on the number of threads.",
    )
    .example("2"),
    Key::new(
        "nodes.device",
        Kind::Text,
        "The device that workers compute on: `cpu`; `cuda`, where each worker of a machine takes a GPU of its own, the first `cuda:0`; \
         or `cuda:0`, which all of a machine share. The inventory's `device` of a machine comes first. Weights and gradients are \
         exchanged from the host's memory, and the phase `copy` is the time that they take between it and the GPU, and of copies within \
         it. GPUs compute in 32 bits with algorithms whose sums have one order; their bits are not those of processors.",
    )
    .default("\"cpu\"")
    .example("\"cuda\""),
    Key::new(
        "nodes.server",
        Kind::Text,
        "The machine for a parameter server, for strategies that need one; by default the first of `nodes.use`. It takes no worker's slot.",
    )
    .example("\"local\""),
    Key::new(
        "nodes.tunnel",
        Kind::Choice(Tunnel::CHOICES),
        "How bytes travel between ranks of different machines.",
    )
    .default("\"none\""),
    Key::new(
        "nodes.ports",
        Kind::Text,
        "The ports at which machines listen for each other, one for each; by default the system chooses.",
    )
    .example("\"7000-7100\""),
    Key::new("nodes.copy-data", Kind::Flag, "Whether data sets are copied to machines that lack them.")
        .default("false"),
    Key::new(
        "nodes.inventory",
        Kind::Path,
        "A TOML file with a table for each machine: host, user, port, slots, cores, address, data, worker, libtorch, \
         device, environment, price, groups.",
    )
    .example("\"nodes.toml\""),
    Key::new(
        "nodes.price",
        Kind::Number(Range::PRICE),
        "The price of an hour of a machine, whatever part of it a run uses; of a machine to which the inventory gives a `price`, that \
         one. The page then says what it costs to reach the target. It changes no run: with another price all results are taken over.",
    )
    .example("2.5")
    .sweep(),
    Key::new("nodes.currency", Kind::Text, "The currency of prices, as pages write it.").example("\"EUR\"").sweep(),
    Key::new(
        "nodes.slow",
        Kind::Slow,
        "Ranks that are slowed down on purpose. The factors of several entries about one rank multiply.",
    )
    .default("[]")
    .example("[{ rank = 3, compute = 4.0 }]"),
    Key::new("nodes.slow.rank", Kind::Whole(0, 65_535), "Which rank; this, `random` or `servers`.")
        .example("3")
        .sweep(),
    Key::new("nodes.slow.random", Kind::Whole(1, 65_536), "Number of workers to slow down, drawn by the run's seed.")
        .example("1")
        .sweep(),
    Key::new(
        "nodes.slow.servers",
        Kind::Flag,
        "Every server, whichever rank it is; arms without servers have nothing that is slow.",
    )
    .example("true")
    .sweep(),
    Key::new(
        "nodes.slow.compute",
        Kind::Number(Range::AT_LEAST_ONE),
        "Factor by which every compute phase takes longer.",
    )
    .default("1.0")
    .example("4.0")
    .sweep(),
    Key::new(
        "nodes.slow.link",
        Kind::Number(Range::AT_LEAST_ONE),
        "The bandwidth of the rank's card is divided by this; needs `[network]`.",
    )
    .default("1.0")
    .example("10.0")
    .sweep(),
    Key::new(
        "nodes.slow.probability",
        Kind::Number(Range::INSIDE_ONE),
        "Probability that a step is slowed down at all, drawn for each step by the run's seed; without it all are.",
    )
    .example("0.1")
    .sweep(),
    Key::new(
        "network",
        Kind::Table,
        "An emulated network between the ranks, in user space: cards that serialise what they carry, in both \
         directions at once. Reports say so.",
    ),
    Key::new("network.bandwidth", Kind::Bandwidth, "Of each card, in each direction.").example("\"1Gbit/s\""),
    Key::new("network.latency", Kind::Duration, "One way, for each message; none by default.")
        .example("\"50us\""),
    Key::new("network.share", Kind::Choice(CardShare::CHOICES), "Who has a card.").default("\"rank\""),
    Key::new(
        "compute",
        Kind::Table,
        "An emulated step time: the computing of a step takes this long, whatever the machine takes, so that more \
         ranks than cores give honest times. Reports say so, and whether the real arithmetic fitted inside.",
    ),
    Key::new("compute.step-time", Kind::Duration, "Of forward pass, backward pass and update together.")
        .example("\"20ms\""),
    Key::new("compute.split", Kind::Table, "Which part of the step time each takes."),
    Key::new("compute.split.kind", Kind::Choice(SplitKind::CHOICES), "How it is split.").default("\"measured\""),
    Key::new("compute.split.forward", Kind::Share(Range::UP_TO_ONE), "The forward pass and the loss.")
        .of(&[SplitKind::Given.name()])
        .default("0.3"),
    Key::new("compute.split.backward", Kind::Share(Range::UP_TO_ONE), "The backward pass.")
        .of(&[SplitKind::Given.name()])
        .default("0.6"),
    Key::new("compute.split.update", Kind::Share(Range::UP_TO_ONE), "The update of the whole model.")
        .of(&[SplitKind::Given.name()])
        .default("0.1"),
];
