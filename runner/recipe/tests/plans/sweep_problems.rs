//! The problems of wrong axes, draws and inclusions.

use crate::desk::Desk;
use crate::problems::{check, recipe};

#[test]
fn repeats_until_decided() {
    check(
        "repeats_until_decided",
        &[
            ("no more repeats", &["[repeats]\ncount = 3\nat-most = 3"]),
            ("too few seeds for all looks", &["[repeats]\ncount = 2\nat-most = 3\nseeds = [1, 2]"]),
            (
                "repeats of one arm until decided",
                &["[[strategy]]\nkind = \"d-sync\"", "[repeats]\nat-most = 24"],
            ),
            ("one repeat at first", &["[repeats]\ncount = 1\nat-most = 3"]),
        ],
    );
}

#[test]
fn sweeps_of_draws_and_points() {
    check(
        "sweeps_of_draws_and_points",
        &[
            ("random, of nothing", &["[[sweep.random]]\ndraws = 4"]),
            (
                "random, without a number",
                &["[[sweep.random]]\ntrain.optimizer.lr = { uniform = [0.1, 1.0] }"],
            ),
            (
                "random, wrong",
                &[
                    "[[sweep.random]]\ndraws = 1\nseed = -1\ntrain.optimizer.lr = { log-uniform = [0.0, 1.0] }\ntrain.optimizer.momentum = { uniform = [0.9, 0.1] }\ntrain.epochs = { integers = [1.5, 3] }\ntrain.accumulate = { choice = [1] }\nnodes.workers = [2, 4]\ndataset.seed = 7",
                ],
            ),
            (
                "random, no ranges",
                &[
                    "[[sweep.random]]\ndraws = 4\ntrain.optimizer.lr = { uniform = 1, choice = [1, 2] }\ndataset.seed = { integers = 5 }\ntrain.optimizer.momentum = { uniform = [0.1] }",
                ],
            ),
            (
                "random, of an unknown key",
                &["[[sweep.random]]\ndraws = 4\ntrain.optimizer.rate = { uniform = [0.1, 1.0] }"],
            ),
            (
                "random, of wrong values",
                &["[[sweep.random]]\ndraws = 4\ntrain.optimizer.momentum = { uniform = [2.0, 3.0] }"],
            ),
            (
                "random, mistyped",
                &["[[sweep.random]]\ndraws = 4\ntrain.optimizer.lr = { loguniform = [0.1, 1.0] }"],
            ),
            (
                "include, again",
                &["[sweep.axes]\nnodes.workers = [1, 2]", "[[sweep.include]]\nnodes.workers = 2"],
            ),
            ("random, too many", &["[[sweep.random]]\ndraws = 5\nnodes.workers = { integers = [1, 4] }"]),
            ("include, without axes", &["[[sweep.include]]\nnodes.workers = 4"]),
            (
                "include, incomplete",
                &[
                    "[sweep.axes]\nnodes.workers = [1, 2]\ntrain.optimizer.lr = [0.1, 0.2]",
                    "[[sweep.include]]\nnodes.workers = 4\ntrain.epochs = 2",
                ],
            ),
            (
                "include, wrong",
                &[
                    "[sweep.axes]\nnodes.workers = [1, 2]",
                    "[[sweep.include]]\nnodes.workers = \"many\"",
                    "[[sweep.include]]\nnodes.workers = 2",
                ],
            ),
        ],
    );
}

#[test]
fn sweeps() {
    check(
        "sweeps",
        &[
            ("one value", &["[sweep.axes]\ntrain.optimizer.lr = [0.1]"]),
            ("no list", &["[sweep.axes]\ntrain.optimizer.lr = 0.1"]),
            ("unknown key", &["[sweep.axes]\ntrain.optimizer.learning-rate = [0.1, 0.2]"]),
            (
                "unknown strategy",
                &["[sweep.axes]\nstrategy.dsync.communication.collective = [\"ring\", \"star\"]"],
            ),
            ("wrong value", &["[sweep.axes]\ntrain.optimizer.lr = [0.1, \"fast\"]"]),
            ("not a cell's", &["[sweep.axes]\nrepeats.count = [1, 2]"]),
            ("a table", &["[sweep.axes]\ntrain = [1, 2]"]),
            ("later", &["[sweep.axes]\nmeasure.predict = [true, false]"]),
            (
                "lockstep, unequal",
                &["[[sweep.zip]]\ntrain.global-batch = [100, 200]\ntrain.epochs = [1, 2, 3]"],
            ),
            (
                "lockstep, mixed",
                &["[[sweep.zip]]\ntrain.epochs = [1, 2]\ncommunication.collective = [\"ring\", \"star\"]"],
            ),
            (
                "twice",
                &[
                    "[sweep.axes]\ntrain.epochs = [1, 2]",
                    "[[sweep.zip]]\ntrain.epochs = [1, 2]\ntrain.optimizer.lr = [0.1, 0.2]",
                ],
            ),
            (
                "too large",
                &[
                    "[sweep.axes]\ntrain.optimizer.lr = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]\ntrain.optimizer.momentum = [0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]\ntrain.optimizer.weight-decay = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]\ndataset.seed = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]\ndataset.train = [1000, 2000, 3000, 4000, 5000, 6000, 7000]",
                ],
            ),
            ("an unknown table", &["[sweep]\naxis = 1"]),
            (
                "conditions",
                &[
                    "[[sweep.exclude]]\nwhen = \"workers = 4 and\"",
                    "[[sweep.exclude]]\nwhen = \"compression.knd == 'none'\"",
                    "[[sweep.exclude]]\nwhen = \"collective == 'rng'\"",
                    "[[sweep.exclude]]\nwhen = \"collective > 'ring'\"",
                    "[[sweep.exclude]]\nwhen = \"(workers == 4\"",
                    "[[sweep.exclude]]\nwhen = \"strategy == 'd-sync\"",
                    "[[sweep.exclude]]\nwhen = \"kind == 'none'\"",
                    "[[sweep.exclude]]\nwhen = \"seed == 1\"",
                    "[[sweep.exclude]]\nwhen = \"collective == \\\"rng\\\"\"",
                    "[[sweep.exclude]]\nreason = \"none\"",
                ],
            ),
            ("excludes nothing", &["[[sweep.exclude]]\nwhen = \"workers > 4\""]),
        ],
    );
}

#[test]
fn the_command_line_does_not_settle_what_moves_in_lockstep() {
    let desk =
        Desk::with(&recipe(&["[[sweep.zip]]\ntrain.epochs = [1, 2]\ntrain.optimizer.lr = [0.1, 0.2]"]));
    let problems = desk.plan_with(&["train.epochs=3"]).expect_err("an axis and a value");
    assert_eq!(problems.list[0].code, "R035");
}
