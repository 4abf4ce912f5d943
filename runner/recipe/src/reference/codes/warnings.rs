//! Settings that work, and may be mistakes.

use super::{Code, code};

pub(super) const WARNINGS: &[Code] = &[
    code(
        "R201",
        "more workers than cores",
        "Workers that share a core slow each other down, so that step times measure the operating system's \
         scheduler; with `[compute]` a step takes a stated time. Accuracies and weights are not touched. A worker with \
         several threads (`nodes.threads`) takes a core for each; a server that adds while its workers wait is not counted.",
    ),
    code(
        "R202",
        "an exclusion that excludes nothing",
        "No cell meets the condition; perhaps a value has changed since.",
    ),
    code("R203", "missing data", "The data set's folder is not there; runs would fail when they read it."),
    code(
        "R206",
        "a centre that follows the last worker",
        "When p workers have exchanged once, one after the other at moving rate a, (1 - a)^p of the old centre is left, and \
         the last worker counts (1 - a)^(1 - p) times as much as the first: at p * a = 1 that is a third, and nearly three \
         times. The method's authors take p * a = 0.9 (Zhang, Choromanska and LeCun, NIPS 2015).",
    ),
    code(
        "R207",
        "a centre that is seldom visited",
        "Elastic workers get the steps up to their next exchange one exchange ahead, and what they do after the last one \
         never reaches the centre. Where the training is no longer than two periods, that is much of it.",
    ),
    code(
        "R208",
        "a strategy without checkpoints",
        "A run is continued from a moment between two steps of all ranks, at which nothing is on its way. Where each worker \
         steps by itself there is no such moment, and what came next would depend on the clock: such a run begins again. So does \
         one with a strategy or a codec of another crate, whose memory is not known here.",
    ),
    code(
        "R209",
        "a checkpoint that never comes",
        "A run that ends early before its first checkpoint begins again, as it would without the key. Each checkpoint costs a \
         copy of the ranks' state, and in `pipe-sgd` the wait for the gradients on their way: 20 to 100 in a run are plenty.",
    ),
    code(
        "R210",
        "a rate that does not get there",
        "A warm-up that is longer than the training leaves the rate below the one that is written, and a fall behind its end never comes. \
         Lengths in epochs are of the training samples that are not held out.",
    ),
    code(
        "R211",
        "a batch norm of single values",
        "Batch norm subtracts the mean of a channel over the samples that a worker sees at once, and over the places of an image. Where that is \
         one value, its result is 0 whatever comes in, and no gradient passes it. PyTorch refuses such a batch.",
    ),
    code(
        "R212",
        "more classes than samples",
        "The classes of arrays are the numbers from 0 to the largest label. One label that is none, such as 1000000, makes as many \
         classes, and the last layer as many rows, most of which no sample trains. `bakeoff data describe FOLDER` says how many \
         classes have a sample.",
    ),
    code(
        "R213",
        "repeats until decided of one strategy",
        "`repeats.at-most` adds runs to arms whose comparison with the baseline is open. One arm has none.",
    ),
    code(
        "R214",
        "a search with a crowded last rung",
        "From the last rung of `[search]` one setting is promoted, however many there are: with more than `search.factor` of them, a single short \
         training decides between many. More rungs leave fewer.",
    ),
    code(
        "R215",
        "a rate that falls after a rung",
        "Rungs of `[search]` train for a part of the length, and a schedule keeps its milestones: where all of them come later, a setting is \
         judged by the rate that it begins with, and one that is too high for the end may be given up or promoted for the wrong reason.",
    ),
    code(
        "R231",
        "a schedule without a plan",
        "`merged` and `merged-exact` measure the first 8 steps, layer by layer and message by message, and then decide once which \
         layers travel together. Until then gradients travel after the backward pass.",
    ),
    code(
        "R232",
        "a plan for servers",
        "The servers of `ps-sync` send whole weights to one worker after the other, so that workers begin the next step one after the other, and \
         the gradient of one travels up while the weights of another travel down. In buckets all workers go up and down together. The \
         backward pass can hide less than that. By the model of `bakeoff predict`, which shows both, a plan is a few percent quicker than \
         `single` for most of 3,000 random models and networks, but 5 to 30 % slower for one of fifty.",
    ),
    code(
        "R251",
        "a biased code without a memory",
        "`top-k`, `sign` and `powersgd` lose the same parts of gradients that point the same way, step after step, and \
         can fail to converge (Karimireddy et al., ICML 2019, section 3). Error feedback makes it good.",
    ),
    code(
        "R252",
        "a code for a group that splits everything",
        "Where all workers are one group of `gmp` and each layer is split, each worker alone holds its weights, and no gradient is \
         averaged. Activations and their gradients within a group are never coded.",
    ),
];
