//! Settings that are wrong together with others.

use super::{Code, code};

pub(super) const PAIRS: &[Code] = &[
    code(
        "R101",
        "a global batch smaller than the workers",
        "Each worker takes its share of the global batch in every step; some would have nothing to do.",
    ),
    code(
        "R102",
        "two baselines",
        "The other arms are compared with one arm; only one strategy can have `baseline = true`.",
    ),
    code(
        "R103",
        "a baseline that is several arms",
        "An axis multiplies the strategy that is the baseline. Write the arm that the others are compared with \
         as a [[strategy]] of its own.",
    ),
    code(
        "R104",
        "two cells that are the same",
        "Equal settings and seeds give equal runs, which are run once. Usually an axis varies something that \
         makes no difference for a strategy.",
    ),
    code("R105", "two strategies with one name", "Arms are told apart by the strategies' names."),
    code(
        "R106",
        "too few seeds, or equal ones",
        "Each repeat has a seed of its own, the same in every arm. `seeds = { from = 42 }` never runs out.",
    ),
    code(
        "R164",
        "an emulated step on a GPU",
        "`[compute]` shares the length of a step out among the layers by the time that a processor takes for each, which says nothing of a \
         GPU.",
    ),
    code(
        "R199",
        "no repeats to add until it is decided",
        "`repeats.at-most` is how often a cell is run at most while its comparison is open; `repeats.count` is how often every cell is run first.",
    ),
    code(
        "R185",
        "a search that cannot be made",
        "`[search]` lets each arm choose among its settings by short trainings, judged on samples that are held out, and continues with the best. \
         That takes axes or draws under `train.optimizer` or `train.lr-schedule`, `dataset.validation`, more settings than the rungs leave \
         out, and a training that is long enough to be divided.",
    ),
    code(
        "R107",
        "workers that do not fit",
        "`nodes.use` says how many workers fit on the machines; `nodes.workers` asks for more.",
    ),
    code(
        "R108",
        "a target that cannot be measured",
        "Validation metrics are measured on samples that are held out of the training set: \
         `dataset.validation` says how many.",
    ),
    code(
        "R109",
        "a layer that does not fit",
        "Each layer takes what the one before it gives; the first takes the data set's examples, and the last \
         gives one score per class. Put `flatten` between images and linear layers.",
    ),
    code(
        "R111",
        "too little data",
        "A batch, or a validation split, needs more samples than the data set has.",
    ),
    code(
        "R112",
        "a target the wrong way round",
        "Accuracies are to be reached from below (`at-least`), losses from above (`at-most`).",
    ),
    code(
        "R114",
        "a setting without effect",
        "The strategy has no use for the setting: a parameter server does not all-reduce, and adds in rank order or \
         as gradients come; neighbours of gossip do not either. So with an entry of `nodes.slow` that slows nothing down, and with a \
         `nodes.currency` of no price.",
    ),
    code("R117", "no strategy", "A recipe compares strategies; it needs at least one `[[strategy]]`."),
    code(
        "R118",
        "momentum where the method has none",
        "Asynchronous SGD and Hogwild are defined without momentum; with a velocity on the server the method is \
         `async-msgd`. Elastic averaging is defined without momentum as well; with velocities on the workers, which the \
         pull to the centre does not touch, it is `measgd-async` or `eamsgd`.",
    ),
    code(
        "R119",
        "a warm-up that never ends",
        "`pipe-sgd` trains as `d-sync` for its warm-up; where that is all of the training, nothing is pipelined.",
    ),
    code(
        "R120",
        "a norm of which every server has a part",
        "Clipping scales a gradient by its norm. Of the mean gradient that several servers of `ps-sync` share, none \
         knows it; one server does, and so do the workers of `d-sync` and those whose gradients are applied one by \
         one. `lars` needs the norms of whole matrices, of weights and of gradients; servers divide matrices anywhere.",
    ),
    code(
        "R121",
        "a link that is slow by chance",
        "`nodes.slow` can slow a rank's computing down in some steps only, by `probability`. A link's bandwidth \
         does not change during a run.",
    ),
    code(
        "R122",
        "parts of a step that are not the whole",
        "With `compute.split.kind = \"given\"` the shares of forward pass, backward pass and update add up to 1.",
    ),
    code(
        "R123",
        "a slow rank that is not there",
        "`nodes.slow` names a rank that the run does not have, more random workers than there are, or servers where no \
         arm has any.",
    ),
    code(
        "R124",
        "a slow link without a network",
        "`nodes.slow.link` divides the bandwidth of a rank's emulated card; without `[network]` there is none.",
    ),
    code(
        "R125",
        "a straggler among more workers than cores",
        "A rank is to be slow on purpose, while all others are slowed down as well because they share cores. With \
         `[compute]` a step takes a stated time, and the comparison is honest.",
    ),
    code(
        "R126",
        "an emulated network between machines",
        "An emulated card holds a message until the moment at which it would have arrived, by one clock. Machines have \
         a clock each, and a network between them whose time would come on top.",
    ),
    code(
        "R127",
        "an all-reduce that cannot add in rank order",
        "`reduce-order = \"rank\"` adds every element from rank 0 on, one rank after the other. A `ring` can do so \
         by sending each chunk straight to its owner; `star` and `all-gather` do so always. The other collectives add partial sums to each \
         other: that is what makes them fast, and another order.",
    ),
    code(
        "R128",
        "a hierarchy of one group",
        "A hierarchical all-reduce adds inside each group first, then between groups; with one group there is no \
         second part, and it is a `tree`. Groups are the machines, or `group-size` ranks each.",
    ),
    code(
        "R129",
        "memory that machines cannot share",
        "With `communication.transport = \"shared-memory\"` packets lie in memory that all ranks map, so that all of them run on one \
         machine. `auto` shares memory there, and takes ZeroMQ between machines.",
    ),
    code(
        "R130",
        "a code with nothing to code",
        "Codes are for gradients. Weights are less tolerant of coding errors (Li et al., Pipe-SGD, section 3.2): they \
         are coded with `compression.parameters = true` only, which needs a strategy that sends any. A strategy that \
         sends nothing else takes no other code, and no error feedback: there is no next gradient to add to.",
    ),
    code(
        "R131",
        "a graph without two parts",
        "In `ad-psgd` an active worker asks and a passive one replies, so that no workers wait in a circle: the edges of \
         the graph join even with odd ranks. The hops of the exponential graphs, 1 and 2^i + 1 for i > 0, are odd; around an odd \
         number of workers they join equal parities. In `exponential` even ranks send and odd ones receive in `d-psgd`, \
         too. A ring of an odd number becomes a path, and `complete` joins \
         every even rank with every odd one.",
    ),
    code(
        "R132",
        "a centre that overshoots",
        "In an elastic step of moving rate a (rate * rho, or `moving-rate`) the centre goes a of the way to a worker. \
         Beyond a = 1 it goes further than to the worker itself. In `easgd-sync` the ways to all p workers are added \
         up, so that p * a is at most 1 (Zhang, Choromanska and LeCun, NIPS 2015, section 2, beta = p * a). The \
         learning rate counts that the schedule begins with.",
    ),
    code(
        "R133",
        "a centre that learns nothing",
        "Workers of `easgd-async`, `measgd-async`, `easgd-hogwild` and `eamsgd` exchange with the centre before their \
         first step and then after each `period` of their own. With a period as long as the training the centre stays \
         what it was at the beginning, and it is the centre that the run is judged by.",
    ),
    code(
        "R134",
        "a custom strategy or codec without a name or with unreadable settings",
        "`kind = \"custom\"` trains with a strategy of another crate, or encodes with a codec of another crate. `custom` is \
         the name under which a `bakeoff-worker` that you build registers it, and `settings` are its numbers, each as `name \
         = number`. Which numbers it needs, only its own code knows: a missing one ends the run at its start.",
    ),
    code(
        "R135",
        "a slow momentum that never acts",
        "The outer optimizer of `slowmo` takes a step after each `period` steps, and one at the end. Its momentum begins at \
         zero and has a direction after the first of them: where that is the only one, `slow-momentum` changes nothing.",
    ),
    code(
        "R136",
        "groups that do not come out even",
        "In `gmp` each group of `mp` workers holds one model together, and groups hold the same parts: the workers are a multiple \
         of `mp`. An axis over both needs a `[[sweep.exclude]]` for the pairs that do not divide.",
    ),
    code(
        "R137",
        "a model that cannot be split",
        "A group of `gmp` splits linear layers: each worker holds some of their outputs. A layer is split that has at least `mp` \
         outputs and a ratio of computation to communication above `least-ccr`, and after which nothing but rectifiers and \
         dropout follows before the next linear layer. Convolutions and pools never are.",
    ),
    code(
        "R138",
        "a norm of parts",
        "The norm of a gradient is that of all layers together, and each worker of a group has the gradient of its own part. \
         So with the norms of matrices, which `lars` divides by: of a split layer no worker has all.",
    ),
    code(
        "R139",
        "rounds and micro-batches",
        "A group of `gmp` passes its batches through the split layers in rounds. `train.accumulate` would divide the batch a second \
         time.",
    ),
    code(
        "R140",
        "a code of a whole gradient that is split",
        "`powersgd` and `random-k` project the gradient of the whole model by the same map on all ranks, and with `compression.range = \
         \"gradient\"` all ranks agree on one range. Workers of a group hold different parts of the model.",
    ),
    code(
        "R141",
        "a code for averages of weights",
        "With `average-every`, workers of `gmp` update their own weights and average them now and then: no gradient travels between \
         groups. Activations and their gradients within a group are never coded.",
    ),
    code(
        "R143",
        "a model file that cannot be trained",
        "A TorchScript file is run once when the recipe is checked, on made-up examples of the data's shape: each of its methods `stage0`, \
         `stage1` and so on (or each module of an `nn.Sequential`, or `forward` alone) takes rows of 32-bit floats to rows of them, has weights of its own that a gradient reaches, \
         and lets the gradient pass to the stage below. Each weight that asks for a gradient gets one, and has one name. Nothing but weights and \
         the running statistics of batch norms may change in training, and in `eval()` each example is scored by itself: what else a model \
         remembers stays on its rank, and no strategy averages it.",
    ),
    code(
        "R198",
        "a model file and a batch of one sample",
        "When the recipe is checked, a model file is run in training mode on three made-up examples and on one. One that takes three and fails on \
         one has a batch norm of a flat vector, or the like, which has no variance then.",
    ),
    code(
        "R144",
        "a model file and other machines",
        "A model file is read where `bakeoff` runs, and is not sent to other machines.",
    ),
    code(
        "R149",
        "batch norm above split layers",
        "Below the layers that a group of `gmp` splits, each worker computes its own batch, and batch norm takes mean and variance \
         from that. Above, the group works on rows of all its workers in rounds: their mean and variance would depend on \
         `scheme`, and one round would not know those of the next.",
    ),
    code(
        "R151",
        "a code that partial sums do not survive",
        "`top-k`, `sign`, `terngrad` and `qsgd` lose much, and are not linear: a sum of what was decoded is no code. \
         Most all-reduces add partial sums on their way and would code each anew. An `all-gather` codes each gradient \
         once; `star`, and `ring` with `reduce-order = \"rank\"`, code each gradient once and the sum once.",
    ),
    code(
        "R152",
        "a projection without an all-reduce",
        "`random-k` and `powersgd` are linear: all ranks project their gradients alike, and an all-reduce adds the \
         projections. It needs a strategy that all-reduces gradients: `d-sync` or `pipe-sgd`.",
    ),
    code(
        "R153",
        "error feedback that never settles",
        "Error feedback adds the coding error of this gradient to the next one. Where a code's noise can be larger than the \
         coded vector, the remembered error can grow from step to step. Such codes are right on average and need no memory \
         (Karimireddy et al., ICML 2019, needs a contraction).",
    ),
    code(
        "R154",
        "a matrix in pieces",
        "`powersgd` factors the gradients of all matrices of weights together. `gradient-segments` cuts gradients anywhere, and \
         `communication.schedule` sends layers one after the other.",
    ),
    code(
        "R155",
        "nothing to factor",
        "Two factors of rank r of a matrix with m rows and n columns have r (m + n) elements. Where these are no fewer than \
         the m n of the matrix, it travels as it is; a model all of whose matrices do so is not compressed at all.",
    ),
    code(
        "R156",
        "one range without an all-reduce",
        "`compression.range = \"gradient\"` is agreed on by an all-reduce before each gradient. Gradients to a server, and models \
         that are averaged, travel by themselves: each has the range of its own largest element, which is `chunk`.",
    ),
    code(
        "R157",
        "one range for a gradient in pieces",
        "With `gradient-segments` or a schedule by layers the first piece leaves while the backward pass computes the others, so that the largest \
         element is not known. A range of each piece would be what `chunk` does.",
    ),
    code(
        "R158",
        "too many workers for one range",
        "With `compression.range = \"gradient\"` a step is a (127 - p)th of the sum of the p workers' largest elements: the other \
         p steps are for rounding on the way. Error feedback remembers up to half a step for each worker (and for each \
         partner in `recursive-doubling`), which widens the next range; where m memories make that half of m / (127 - p) of it, \
         1 or more, it would grow without end.",
    ),
    code(
        "R161",
        "an optimizer that does not act",
        "Some methods are a rule of their own for how a gradient changes the weights: the velocity of `async-msgd`, the additions of \
         `hogwild-sgd`, and the elastic methods, in which the step and the pull to the centre are one rule. They take the \
         rate, the weight decay and, where they have one, the momentum of `sgd`.",
    ),
    code(
        "R162",
        "a look ahead without momentum",
        "Nesterov's step goes where the momentum will lead to. Without momentum it is the step of plain SGD.",
    ),
    code(
        "R171",
        "a gradient that is divided twice",
        "`communication.schedule` divides gradients at the ends of layers, `gradient-segments` of `pipe-sgd` into equal pieces. A \
         gradient travels by one of the two.",
    ),
    code(
        "R172",
        "a norm that is known too late",
        "The norm of a gradient is that of all layers together. With a schedule by layers, a parameter server updates and returns the \
         last layers while the first ones are still computed. `d-sync` clips when all layers have arrived.",
    ),
    code(
        "R173",
        "a schedule of gradients that never travel",
        "With `average-every`, workers of `gmp` update their own weights and average them after a step. `communication.schedule` says which \
         gradients travel while others are computed.",
    ),
    code(
        "R197",
        "a plan for weights that wait for nothing",
        "`merged` and `merged-exact` decide which gradients travel together, from when the backward pass has each of them. `easgd-sync` exchanges \
         weights, all of which are there when a step begins: `single` sends them in one message (the packed layers of You, Buluc and \
         Demmel, SC 2017, section 5.2), `per-layer` and `fixed` in several.",
    ),
    code(
        "R174",
        "servers without work",
        "Workers of `gmp` average by an all-reduce among themselves, unless `averaged-by` says that servers add for them.",
    ),
    code(
        "R175",
        "auxiliary heads in groups",
        "An `auxiliary-head` adds a loss of its own in the middle of a model. A group of `gmp` takes the loss of a round, of rows of all \
         its workers, and divides gradients by the rows of rounds; a loss of one worker's batch has no place among them.",
    ),
    code(
        "R176",
        "frozen layers of a whole group",
        "Rows of a batch travel to the group in front of the first layer that is split. Frozen layers below the first weights would lie behind \
         that, so that each worker computed them for the rows of all. Only layers that are trained are divided.",
    ),
    code(
        "R180",
        "a text that cannot be learned from",
        "`dataset.kind = \"text-lines\"` cuts a file into windows of `dataset.context` tokens. The file must be there, be at most 256 MiB \
         long, and hold two windows at least: one to train on and one to test with. Characters need UTF-8, and at most 65,536 \
         different ones; `tokens = \"bytes\"` takes any file.",
    ),
    code(
        "R181",
        "a perplexity of classes",
        "Perplexity is exp of the mean loss per token of a text. Models that tell classes apart are judged by accuracy or loss.",
    ),
    code(
        "R182",
        "classes of a text",
        "`partition.kind = \"dirichlet\"` spreads classes unevenly over the workers. The samples of `text-lines` are windows of a text, \
         with a target at each position and no class. `sharded` gives each worker windows of its own.",
    ),
    code(
        "R183",
        "a model file and a text",
        "A TorchScript file takes numbers and gives one row of class scores for each example. A text needs scores of all tokens at each \
         position: take `gpt`, or list the layers of a `sequential` model. The same holds for texts with labels, whose models begin with \
         an embedding.",
    ),
    code(
        "R184",
        "labelled texts that cannot be learned from",
        "With `dataset.kind = \"text\"`, `dataset.path` is a folder with train.csv and test.csv: the label in the first column, any word \
         or number, and the text in the others, of which each record has the same number. Texts with commas, quotes or line breaks stand in \
         double quotes, and a quote inside of them is written twice. The files are UTF-8 (with `tokens = \"bytes\"` only labels must be), \
         without NUL, with at most 1 MiB in a record and 2 GiB in a file. train.csv has at least two different labels, \
         and test.csv none that train.csv does not have. `header` says whether the first line names the columns.",
    ),
    code(
        "R195",
        "a perplexity below one",
        "Perplexity is the exponential of the mean loss per token, and a loss is never below 0.",
    ),
    code(
        "R196",
        "empty pieces of a batch",
        "With `train.accumulate` each worker computes its share of the global batch in pieces, of at least one sample each.",
    ),
];
