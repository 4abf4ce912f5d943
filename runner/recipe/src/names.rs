//! The names that keys take, and whether they can be chosen in this version.

use crate::key::Choice;

pub(crate) const MODELS: &[Choice] = &[
    Choice::now("softmax", "One linear layer from the input to the classes: convex."),
    Choice::now("mnist-mlp", "Two hidden layers of 500: 784-500-500-10 on 28 x 28 images."),
    Choice::now("lenet", "Two convolutions of 20 and 50 channels, each pooled, and a hidden layer of 500."),
    Choice::now(
        "cifar-cnn",
        "Three convolutions of 32, 32 and 64 channels, each pooled, and two linear layers.",
    ),
    Choice::now("sequential", "The layers that `model.layers` lists."),
];

pub(crate) const INITS: &[Choice] = &[
    Choice::now(
        "pytorch",
        "PyTorch's default: weights and biases uniform between -1 / sqrt(n) and 1 / sqrt(n), n being the inputs of an \
         output.",
    ),
    Choice::now(
        "xavier",
        "Caffe's filler of that name: weights uniform between -sqrt(3 / n) and sqrt(3 / n), biases 0.",
    ),
    Choice::now(
        "kaiming",
        "He et al., 2015: weights uniform between -sqrt(6 / n) and sqrt(6 / n), biases 0.",
    ),
];

pub(crate) const LAYERS: &[Choice] = &[
    Choice::now("linear", "y = W x + b, on a flat vector."),
    Choice::now("conv", "Convolution with a square kernel and bias, on an image."),
    Choice::now("max-pool", "The largest value of each square window."),
    Choice::now("avg-pool", "The mean of each square window."),
    Choice::now("relu", "max(x, 0)."),
    Choice::now("dropout", "Sets values to zero at random while training."),
    Choice::now("flatten", "An image becomes a flat vector."),
];

pub(crate) const DATASETS: &[Choice] = &[
    Choice::now("synthetic", "Drawn glyphs of ten classes, 28 x 28 grey; built in, nothing to download."),
    Choice::now("mnist", "Handwritten digits, 28 x 28 grey, ten classes: the four IDX files."),
    Choice::now(
        "fashion-mnist",
        "Pictures of clothes in the form of MNIST, ten classes: the four IDX files.",
    ),
    Choice::now("cifar10", "Photographs, 32 x 32 in colour, ten classes: the binary batches."),
    Choice::now("cifar100", "Photographs, 32 x 32 in colour, a hundred classes: the binary files."),
    Choice::later("image-folder", "One folder of images per class."),
    Choice::later("text", "Lines of text with a label."),
];

pub(crate) const PARTITIONS: &[Choice] = &[
    Choice::now("shared", "One pass over all samples per epoch, dealt to the workers by position."),
    Choice::now("sharded", "Each worker keeps one fixed part."),
    Choice::now("dirichlet", "Fixed parts in which the classes are unevenly spread."),
];

pub(crate) const KEPT_MODELS: &[Choice] = &[
    Choice::now("judged", "The one that the run is judged by."),
    Choice::now("all", "That of every rank besides, where workers train models of their own."),
];

pub(crate) const SAMPLINGS: &[Choice] = &[
    Choice::now("permutation", "Each sample once per pass, in an order of its own each time."),
    Choice::now(
        "with-replacement",
        "Each sample of a pass is drawn from all of them, or from all of the worker's own part, whatever was drawn before; a \
         pass is as long as otherwise.",
    ),
];

pub(crate) const OPTIMIZERS: &[Choice] =
    &[Choice::now("sgd", "Stochastic gradient descent: g += decay w; v = momentum v + g; w -= rate v.")];

pub(crate) const LR_SCHEDULES: &[Choice] = &[
    Choice::now("constant", "The rate stays."),
    Choice::now("step", "The rate is multiplied by `factor` each time `every` has passed."),
    Choice::now("milestones", "The rate is multiplied by `factor` at each point of `at`."),
    Choice::now("cosine", "The rate falls along half a cosine, to `floor` at the end of training."),
];

pub(crate) const LR_SCALES: &[Choice] = &[
    Choice::now("none", "The rate is as written, for any number of workers."),
    Choice::now(
        "linear",
        "The rate is multiplied by the global batch divided by `reference-batch` (Goyal et al., 2017).",
    ),
];

pub(crate) const METRICS: &[Choice] = &[
    Choice::now("test-accuracy", "Share of the test set that is classified right."),
    Choice::now("test-loss", "Mean loss over the test set, in nats per sample."),
    Choice::now("validation-accuracy", "Share of the held-out samples that is classified right."),
    Choice::now("validation-loss", "Mean loss over the held-out samples, in nats per sample."),
];

pub(crate) const STRATEGIES: &[Choice] = &[
    Choice::now("ps-sync", "Synchronous parameter server: gradients up, weights down, one update per step."),
    Choice::now("d-sync", "Decentralised synchronous SGD: an all-reduce of the gradients in every step."),
    Choice::now(
        "async-sgd",
        "Asynchronous parameter server: gradients up, weights down, first come, first served. Each of p workers' gradients is an \
         update of its own, of B / p samples at the full rate: at one rate the weights move p times as far per sample as with \
         `d-sync`, so that `lr` / p is where to begin.",
    ),
    Choice::now(
        "async-msgd",
        "Asynchronous parameter server with momentum on the server: at one rate the weights of p workers move p times as far per \
         sample as with `d-sync` and momentum.",
    ),
    Choice::now(
        "hogwild-sgd",
        "Asynchronous parameter server without locks: gradients are added element by element. As with `async-sgd`, the weights of \
         p workers move p times as far per sample as with `d-sync` at one rate.",
    ),
    Choice::now("pipe-sgd", "All-reduce in a pipeline: communication overlaps the next steps."),
    Choice::now(
        "easgd-original",
        "Elastic averaging, round robin: one worker after the other computes and exchanges with the centre. Like all elastic \
         methods it is judged by the centre, with rank 0 beside it.",
    ),
    Choice::now(
        "easgd-async",
        "Elastic averaging, first come, first served: its master exchanges with one worker at a time (`serve`).",
    ),
    Choice::now(
        "measgd-async",
        "Elastic averaging, first come, first served, with momentum on the workers: at 0.9 it moves ten times as far, so that \
         the rate has to be smaller.",
    ),
    Choice::now(
        "easgd-hogwild",
        "Elastic averaging without locks: all workers exchange with the centre at once, element by element.",
    ),
    Choice::now(
        "easgd-sync",
        "Elastic averaging of all workers at once, in three variants that give the same weights.",
    ),
    Choice::now(
        "eamsgd",
        "`measgd-async` with gradients taken ahead of the weights (`look-ahead`), a moving rate of 0.9 / workers unless another is \
         given, and servers that serve all workers at once.",
    ),
    Choice::now(
        "d-psgd",
        "Gossip: each worker averages with its neighbours in every step. Like all gossip it is judged by the mean of all \
         workers' models, with rank 0 beside it.",
    ),
    Choice::now(
        "ad-psgd",
        "Gossip without waiting: workers of even number ask, those of odd number answer, and the two average.",
    ),
    Choice::now("sgp", "Gossip over a directed graph: stochastic gradient push."),
    Choice::now(
        "local-sgd",
        "Local steps, and an average of all models now and then. It is judged by rank 0, and the models are compared.",
    ),
    Choice::later("gmp", "Groups that split large layers among them, and data parallelism between groups."),
    Choice::setting(
        "wfbp",
        "Wait-free backpropagation. Its schedule is not in this version.",
        "`kind = \"d-sync\"` with `communication.schedule = \"per-layer\"`",
    ),
    Choice::setting(
        "mg-wfbp",
        "Merged-gradient wait-free backpropagation. Its schedule is not in this version.",
        "`kind = \"d-sync\"` with `communication.schedule = \"merged\"`",
    ),
    Choice::setting("allreduce-sgd", "SGD with an all-reduce.", "`kind = \"d-sync\"`"),
    Choice::setting(
        "sync-sgd",
        "Synchronous SGD.",
        "`kind = \"d-sync\"`, or `kind = \"ps-sync\"` with a server",
    ),
    Choice::setting(
        "sync-easgd1",
        "Synchronous elastic averaging, first variant.",
        "`kind = \"easgd-sync\"` with `variant = 1`",
    ),
    Choice::setting(
        "sync-easgd2",
        "Synchronous elastic averaging, second variant.",
        "`kind = \"easgd-sync\"` with `variant = 2`",
    ),
    Choice::setting(
        "sync-easgd3",
        "Synchronous elastic averaging, third variant.",
        "`kind = \"easgd-sync\"` with `variant = 3`",
    ),
];

pub(crate) const TOPOLOGIES: &[Choice] = &[
    Choice::now(
        "ring",
        "The two ranks beside each; where `ad-psgd` has an odd number of workers, a path: the last edge is dropped.",
    ),
    Choice::now(
        "exponential",
        "The paper's: each even rank has the ranks 1, 3, 5, 9, ... further round the ring, about log n of them; for an even \
         number of workers.",
    ),
    Choice::now(
        "exponential-wide",
        "The ranks 1, 3, 5, 9, ... further round the ring and back, for every rank: up to 12 workers, and with 16, everybody \
         with a number of the other parity. With `ad-psgd` for an even number of workers.",
    ),
    Choice::now("complete", "Everybody; with `ad-psgd` everybody with a number of the other parity."),
];

pub(crate) const MIX_ORDERS: &[Choice] = &[
    Choice::now("mix-then-step", "x <- W x - rate g(x): models travel while gradients are computed."),
    Choice::now("step-then-mix", "x <- W (x - rate g(x)): models travel after the step."),
];

pub(crate) const SERVES: &[Choice] = &[
    Choice::now(
        "one",
        "One worker at a time, from its request to the end of the answer; the others wait in the order of their requests. A \
         worker asks and is granted before its vector travels, and says when it has the answer.",
    ),
    Choice::now(
        "all",
        "All at once: vectors of several workers share the server's card, and only the arithmetic waits for a lock.",
    ),
];

pub(crate) const AVERAGINGS: &[Choice] = &[
    Choice::now(
        "each-step",
        "At most once per gradient of the worker that asks, as soon as it is there; steps that end during an exchange share \
         the next one.",
    ),
    Choice::now("continuous", "Again and again, whether there is a new gradient or not."),
];

pub(crate) const COLLECTIVES: &[Choice] = &[
    Choice::now("ring", "Scatter-reduce and all-gather around a ring: every link is used all the time."),
    Choice::now("pipelined-ring", "A ring whose chunks travel in segments: sums overlap with transfers."),
    Choice::now("tree", "Up and down a binomial tree: few messages in a row, each of everything."),
    Choice::now(
        "recursive-doubling",
        "Everything between partners at doubling distances: the fewest in a row.",
    ),
    Choice::now(
        "halving-doubling",
        "Halves, quarters, ... between partners, and back: a ring's bytes, fewer in a row.",
    ),
    Choice::now("star", "Everything to the first rank and back."),
    Choice::now("all-gather", "Everything from everyone to everyone: a code loses nothing of a sum."),
    Choice::now("hierarchical", "A tree inside each group of ranks, then a tree between the groups."),
];

pub(crate) const SCHEDULES: &[Choice] = &[
    Choice::now("single", "All layers in one message after the backward pass."),
    Choice::later("per-layer", "Each layer as soon as its gradient is there (WFBP)."),
    Choice::later("merged", "Neighbouring layers merged by the rule of MG-WFBP."),
    Choice::later("merged-exact", "Neighbouring layers merged optimally."),
    Choice::later("fixed", "Messages of a given size."),
];

pub(crate) const REDUCE_ORDERS: &[Choice] = &[
    Choice::now("ring", "The collective's own order; all ranks still end with the same bits."),
    Choice::now("rank", "Rank 0 first."),
];

pub(crate) const COMPRESSIONS: &[Choice] = &[
    Choice::now("none", "32-bit floats as they are."),
    Choice::now("truncate16", "The upper 16 bits of each float: rounds towards zero."),
    Choice::now(
        "quantize8",
        "8 bits per value, as multiples of a 127th of the largest that travels with it.",
    ),
    Choice::now("fp16", "Half precision, rounded: 10 bits of fraction, from 2^-24 to 65504."),
    Choice::now(
        "bf16",
        "The upper 16 bits of each float, rounded: 7 bits of fraction, the range of 32 bits.",
    ),
    Choice::now(
        "top-k",
        "The largest values as they are, with their positions, 8 bytes each; of the others nothing.",
    ),
    Choice::now(
        "random-k",
        "Values at positions that all ranks draw alike: only these are all-reduced. With error feedback they stay as they are; \
         without they are scaled to be right on average, which at 1 % is a hundred times.",
    ),
    Choice::now("sign", "1 bit per value: its sign, times the mean magnitude of all."),
    Choice::now("terngrad", "1.6 bits per value: -1, 0 or 1 times the largest of its bucket, by chance."),
    Choice::now("qsgd", "A few bits per value: a level of the length of its bucket, rounded by chance."),
    Choice::now(
        "powersgd",
        "Two thin factors of each matrix of weights are all-reduced; what is no larger than its factors goes as it is.",
    ),
];

pub(crate) const RANGES: &[Choice] = &[
    Choice::now("chunk", "The largest magnitude of what travels together: of each chunk, anew on each hop."),
    Choice::now(
        "gradient",
        "One for the whole gradient and all its partial sums, as in Li et al., NeurIPS 2018: before each gradient the workers \
         all-reduce the largest magnitudes, exactly; a step is a (127 - p)th of their sum, so that no partial sum is clipped.",
    ),
];

pub(crate) const SHARES: &[Choice] = &[
    Choice::now("rank", "Each rank has a card of its own."),
    Choice::later("node", "The ranks of a machine share its card, and do not need it among themselves."),
];

pub(crate) const SPLITS: &[Choice] = &[
    Choice::now("measured", "As one pass over a batch takes processor time before the run starts."),
    Choice::now("given", "By the shares that the recipe gives; over the layers by their arithmetic."),
];

pub(crate) const ORDERS: &[Choice] = &[
    Choice::now(
        "interleave",
        "One repeat of every cell, then the next: drift of the machine touches all arms alike.",
    ),
    Choice::now("block", "All repeats of a cell, then the next cell."),
    Choice::now("shuffle", "An order drawn from the first seed."),
];

pub(crate) const WEIGHT_HASHES: &[Choice] = &[
    Choice::now("evaluation", "At every evaluation."),
    Choice::now("step", "After every step: slower, for debugging."),
];

pub(crate) const REDACTIONS: &[Choice] = &[
    Choice::now("hosts", "Names of machines."),
    Choice::now("users", "Names of users."),
    Choice::now("paths", "Paths of files."),
];
