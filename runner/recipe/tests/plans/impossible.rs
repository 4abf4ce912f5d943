//! The problems of recipes whose parts cannot work together.

use crate::problems::check;

#[test]
fn impossible_pairs() {
    check(
        "impossible_pairs",
        &[
            ("too many workers", &["[sweep.axes]\nnodes.workers = [2, 8]\ntrain.optimizer.lr = [0.1, 0.2]"]),
            ("too small a batch", &["[sweep.axes]\ntrain.global-batch = [2, 100]"]),
            ("too large a batch", &["[dataset]\ntrain = 50"]),
            ("more pieces than samples", &["[train]\nglobal-batch = 100\nepochs = 1\naccumulate = 5000"]),
            (
                "two baselines",
                &[
                    "[[strategy]]\nkind = \"ps-sync\"\nbaseline = true",
                    "[[strategy]]\nkind = \"d-sync\"\nbaseline = true",
                ],
            ),
            (
                "a baseline of two arms",
                &[
                    "[[strategy]]\nkind = \"d-sync\"\nbaseline = true",
                    "[sweep.axes]\ncommunication.collective = [\"ring\", \"star\"]",
                ],
            ),
            (
                "equal names",
                &[
                    "[[strategy]]\nkind = \"d-sync\"",
                    "[[strategy]]\nkind = \"d-sync\"\ncommunication.collective = \"star\"",
                ],
            ),
            (
                "equal arms",
                &["[[strategy]]\nkind = \"d-sync\"", "[[strategy]]\nkind = \"d-sync\"\nname = \"other\""],
            ),
            (
                "equal arms under several conditions",
                &[
                    "[communication]\ncollective = \"star\"",
                    "[sweep.axes]\ncommunication.reduce-order = [\"ring\", \"rank\"]\nnodes.workers = [1, 2]",
                ],
            ),
            ("equal cells", &["[sweep.axes]\ntrain.optimizer.lr = [0.1, 0.10]"]),
            ("no effect", &["[[strategy]]\nkind = \"ps-sync\"\ncommunication.collective = \"star\""]),
            (
                "rank order up a tree",
                &[
                    "[communication]\nreduce-order = \"rank\"",
                    "[sweep.axes]\ncommunication.collective = [\"ring\", \"tree\", \"star\"]",
                ],
            ),
            ("one machine", &["[communication]\ncollective = \"hierarchical\""]),
            (
                "one group",
                &[
                    "[communication]\ncollective = { kind = \"hierarchical\", group-size = 2 }",
                    "[sweep.axes]\nnodes.workers = [1, 2, 4]",
                ],
            ),
            (
                "a key of another collective",
                &["[communication]\ncollective = { kind = \"tree\", segments = 2 }"],
            ),
            (
                "no effect either",
                &[
                    "[[strategy]]\nkind = \"ps-sync\"\ncommunication.collective = { kind = \"pipelined-ring\", segments = 2 }",
                ],
            ),
            ("too few seeds", &["[repeats]\ncount = 3\nseeds = [1, 2]"]),
            ("equal seeds", &["[repeats]\ncount = 2\nseeds = [1, 1]"]),
        ],
    );
}

#[test]
fn impossible_codes() {
    check(
        "impossible_codes",
        &[
            (
                "an axis that brings codes of gradients to weights",
                &[
                    "[[strategy]]\nkind = \"local-sgd\"\ncompression = { parameters = true }",
                    "[sweep.axes]\ncompression.kind = [\"fp16\", \"top-k\", \"random-k\"]",
                ],
            ),
            (
                "partial sums",
                &["[[strategy]]\nkind = \"d-sync\"\ncompression = { kind = \"terngrad\", bucket = 8 }"],
            ),
            (
                "partial sums in one arm of several",
                &[
                    "[[strategy]]\nkind = \"d-sync\"\ncompression = { kind = \"sign\", error-feedback = true }",
                    "[sweep.axes]\ncommunication.collective = [\"all-gather\", \"star\", \"tree\"]",
                ],
            ),
            (
                "no all-reduce",
                &["[[strategy]]\nkind = \"ps-sync\"\ncompression = { kind = \"random-k\", ratio = 0.1 }"],
            ),
            (
                "a memory that grows",
                &[
                    "[[strategy]]\nkind = \"ps-sync\"\ncompression = { kind = \"qsgd\", levels = 1, error-feedback = true }",
                ],
            ),
            (
                "a matrix in pieces",
                &["[[strategy]]\nkind = \"pipe-sgd\"\ngradient-segments = 4\n\
                     compression = { kind = \"powersgd\", error-feedback = true }"],
            ),
            (
                "factors as large",
                &["[[strategy]]\nkind = \"d-sync\"\n\
                     compression = { kind = \"powersgd\", rank = 500, error-feedback = true }"],
            ),
            ("bias", &["[[strategy]]\nkind = \"ps-sync\"\ncompression = \"top-k\""]),
            ("weights only", &["[[strategy]]\nkind = \"local-sgd\"\ncompression = \"top-k\""]),
            (
                "weights on purpose",
                &["[[strategy]]\nkind = \"ps-sync\"\ncompression = { kind = \"sign\", parameters = true }"],
            ),
            (
                "no share",
                &["[[strategy]]\nkind = \"ps-sync\"\ncompression = { kind = \"top-k\", ratio = 0 }"],
            ),
        ],
    );
}

#[test]
fn impossible_schedules() {
    let arm = |kind: &str, rest: &str| format!("[[strategy]]\nkind = \"{kind}\"\n{rest}");
    let merged = "communication.schedule = \"merged\"";
    let with = |kind: &str, rest: &str| arm(kind, &format!("{merged}\n{rest}"));
    check(
        "impossible_schedules",
        &[
            ("an unknown one", &["[communication]\nschedule = \"merge\""]),
            ("a size without a unit", &["[communication]\nschedule = { kind = \"fixed\", size = 25 }"]),
            ("a size of nothing", &["[communication]\nschedule = { kind = \"fixed\", size = \"0B\" }"]),
            (
                "a size of another rule",
                &["[communication]\nschedule = { kind = \"merged\", size = \"1MB\" }"],
            ),
            ("gossip", &[&with("ad-psgd", "")]),
            ("weights only", &[&with("local-sgd", "")]),
            ("weights that wait for nothing", &[&with("easgd-sync", "moving-rate = 0.1")]),
            ("divided twice", &[&with("pipe-sgd", "gradient-segments = 4")]),
            (
                "a norm of layers",
                &["[train.optimizer]\nclip = 1.0", &with("ps-sync", ""), &with("d-sync", "")],
            ),
            (
                "factors of a whole",
                &[&with("d-sync", "compression = { kind = \"powersgd\", error-feedback = true }")],
            ),
            (
                "a range of a whole",
                &[&with("d-sync", "compression = { kind = \"quantize8\", range = \"gradient\" }")],
            ),
            ("no plan", &["[train]\nglobal-batch = 100\nsteps = 8", &with("d-sync", "")]),
            ("no plan in an epoch", &["[train]\nglobal-batch = 2000\nepochs = 1", &with("d-sync", "")]),
            ("a plan for servers", &[&with("ps-sync", "")]),
            ("a paper's name", &["[communication]\nschedule = \"wfbp\""]),
            ("averages of groups", &[&with("gmp", "average-every = 5")]),
            ("servers of workers that average", &[&arm("gmp", "servers = 2")]),
            (
                "a collective of servers",
                &[&arm("gmp", "averaged-by = \"servers\"\ncommunication.collective = \"tree\"")],
            ),
        ],
    );
}

#[test]
fn impossible_ranges() {
    let one = "compression = { kind = \"quantize8\", range = \"gradient\" }";
    let remembering = "compression = { kind = \"quantize8\", range = \"gradient\", error-feedback = true }";
    let workers = |count: u32| format!("[nodes]\nuse = [\"local*{count}\"]");
    let batch = "[train]\nglobal-batch = 1000\nepochs = 2\n";
    let arm = |kind: &str, compression: &str| format!("[[strategy]]\nkind = \"{kind}\"\n{compression}");
    check(
        "impossible_ranges",
        &[
            ("another code", &[&arm("d-sync", "compression = { kind = \"fp16\", range = \"gradient\" }")]),
            (
                "an unknown one",
                &[&arm("d-sync", "compression = { kind = \"quantize8\", range = \"layer\" }")],
            ),
            ("a server", &[&arm("ps-sync", one)]),
            ("said for all arms", &["[compression]\nkind = \"quantize8\"\nrange = \"gradient\""]),
            (
                "weights on purpose",
                &[&arm(
                    "local-sgd",
                    "compression = { kind = \"quantize8\", range = \"gradient\", parameters = true }",
                )],
            ),
            ("neighbours", &[&arm("d-psgd", one)]),
            ("pieces", &[&arm("pipe-sgd", &format!("gradient-segments = 4\n{one}"))]),
            ("no steps left", &[batch, &workers(127), &arm("d-sync", one)]),
            ("a memory that grows", &[batch, &workers(85), &arm("d-sync", remembering)]),
            (
                "many memories that grow",
                &[
                    batch,
                    &workers(33),
                    &arm(
                        "d-sync",
                        &format!("communication.collective = \"recursive-doubling\"\n{remembering}"),
                    ),
                ],
            ),
        ],
    );
}

#[test]
fn impossible_strategies() {
    check(
        "impossible_strategies",
        &[
            (
                "momentum for a method without",
                &[
                    "[train]\nglobal-batch = 100\nepochs = 1\noptimizer = { kind = \"sgd\", lr = 0.1, momentum = 0.9 }",
                    "[[strategy]]\nkind = \"hogwild-sgd\"",
                    "[[strategy]]\nkind = \"async-msgd\"",
                ],
            ),
            (
                "a warm-up of more epochs than steps",
                &[
                    "[train]\nglobal-batch = 100\nsteps = 20",
                    "[[strategy]]\nkind = \"pipe-sgd\"\nwarmup-epochs = 1",
                ],
            ),
            (
                "an endless warm-up",
                &[
                    "[[strategy]]\nkind = \"pipe-sgd\"\nwarmup-epochs = 5",
                    "[sweep.axes]\ntrain.epochs = [5, 10]",
                ],
            ),
            (
                "a norm in parts",
                &[
                    "[train]\nglobal-batch = 100\nepochs = 1\noptimizer = { kind = \"sgd\", clip = 1.0 }",
                    "[[strategy]]\nkind = \"ps-sync\"\nservers = 2",
                    "[[strategy]]\nkind = \"async-sgd\"\nservers = 2",
                ],
            ),
            (
                "keys of another strategy",
                &[
                    "[[strategy]]\nkind = \"pipe-sgd\"\nservers = 2",
                    "[[strategy]]\nkind = \"ps-sync\"\ndepth = 2",
                ],
            ),
            ("no collective", &["[[strategy]]\nkind = \"async-sgd\"\ncommunication.collective = \"star\""]),
            ("no all-reduce", &["[[strategy]]\nkind = \"sgp\"\ncommunication.collective = \"tree\""]),
            (
                "a graph without two parts",
                &[
                    "[nodes]\nuse = [\"local*4\"]\nworkers = 3",
                    "[[strategy]]\nkind = \"ad-psgd\"\ntopology = \"exponential\"",
                ],
            ),
        ],
    );
}

#[test]
fn impossible_custom_strategies() {
    check(
        "impossible_custom_strategies",
        &[
            (
                "a custom strategy without a name, one with a number that is none, and one as it should be",
                &[
                    "[[strategy]]\nkind = \"custom\"",
                    "[[strategy]]\nname = \"wrong\"\nkind = \"custom\"\ncustom = \"lazy-sgd\"\nsettings = [\"period = four\"]",
                    "[[strategy]]\nname = \"right\"\nkind = \"custom\"\ncustom = \"lazy-sgd\"\nsettings = [\"period = 4\"]",
                ],
            ),
            (
                "a custom codec without a name, one with a setting that is given twice, and one in a ring",
                &[
                    "[[strategy]]\nname = \"a\"\nkind = \"ps-sync\"\ncompression = \"custom\"",
                    "[[strategy]]\nname = \"b\"\nkind = \"ps-sync\"\ncompression = { kind = \"custom\", custom = \"mine\", settings = [\"a = 1\", \"a = 2\"] }",
                    "[[strategy]]\nname = \"c\"\nkind = \"d-sync\"\ncompression = { kind = \"custom\", custom = \"mine\" }",
                ],
            ),
            (
                "settings of a custom strategy for another",
                &["[[strategy]]\nkind = \"d-sync\"\nsettings = [\"period = 4\"]"],
            ),
        ],
    );
}

#[test]
fn impossible_elastic_strategies() {
    check(
        "impossible_elastic_strategies",
        &[
            (
                "momentum for an elastic method without",
                &[
                    "[train]\nglobal-batch = 100\nepochs = 1\noptimizer = { kind = \"sgd\", lr = 0.1, momentum = 0.9 }",
                    "[[strategy]]\nkind = \"easgd-sync\"\nmoving-rate = 0.1",
                    "[[strategy]]\nkind = \"measgd-async\"\nmoving-rate = 0.1",
                ],
            ),
            (
                "a pull that two keys tell",
                &["[[strategy]]\nkind = \"easgd-original\"\nrho = 1.0\nmoving-rate = 0.1"],
            ),
            (
                "a centre that overshoots",
                &[
                    "[nodes]\nuse = [\"local*4\"]",
                    "[[strategy]]\nkind = \"easgd-sync\"\nmoving-rate = 0.3",
                    "[[strategy]]\nkind = \"easgd-async\"\nrho = 11.0",
                    "[[strategy]]\nkind = \"easgd-hogwild\"\nmoving-rate = 0.3",
                    "[[strategy]]\nkind = \"eamsgd\"\nmoving-rate = 0.25",
                ],
            ),
            (
                "periods as long as the training, and nearly",
                &[
                    "[train]\nglobal-batch = 100\nsteps = 20",
                    "[[strategy]]\nkind = \"eamsgd\"\nperiod = 20",
                    "[[strategy]]\nkind = \"easgd-async\"\nmoving-rate = 0.1\nperiod = 11",
                    "[[strategy]]\nkind = \"easgd-hogwild\"\nmoving-rate = 0.1\nperiod = 10",
                    "[[strategy]]\nkind = \"measgd-async\"\nmoving-rate = 0.1\nperiod = 9",
                ],
            ),
            (
                "periods of an outer optimizer as long as the training, shorter, and without a momentum",
                &[
                    "[train]\nglobal-batch = 100\nsteps = 20",
                    "[[strategy]]\nname = \"once\"\nkind = \"slowmo\"\nperiod = 20",
                    "[[strategy]]\nname = \"twice\"\nkind = \"slowmo\"\nperiod = 19",
                    "[[strategy]]\nname = \"without\"\nkind = \"slowmo\"\nperiod = 20\nslow-momentum = 0.0",
                ],
            ),
            (
                "an elastic method's foreign keys",
                &[
                    "[[strategy]]\nkind = \"easgd-sync\"\nmoving-rate = 0.1\nservers = 2",
                    "[[strategy]]\nkind = \"easgd-async\"\nmoving-rate = 0.1\nstaleness-bound = 2",
                    "[[strategy]]\nkind = \"measgd-async\"\nmoving-rate = 0.1\ncommunication.collective = \"tree\"\ncompression = \"fp16\"",
                ],
            ),
        ],
    );
}

#[test]
fn impossible_training() {
    check(
        "impossible_training",
        &[
            (
                "nothing held out",
                &[
                    "[train]\nglobal-batch = 100\nepochs = 1\ntarget = { metric = \"validation-accuracy\", at-least = 0.9 }",
                ],
            ),
            (
                "target the wrong way round",
                &[
                    "[train]\nglobal-batch = 100\nepochs = 1\ntarget = { metric = \"test-loss\", at-least = 0.9 }",
                ],
            ),
            (
                "target without a value",
                &["[train]\nglobal-batch = 100\nepochs = 1\ntarget = { stop = true }"],
            ),
            ("step without a length", &["[train]\nglobal-batch = 100\nepochs = 1\nlr-schedule = \"step\""]),
            (
                "layers that do not fit",
                &[
                    "[model]\nkind = \"sequential\"\nlayers = [\n  { kind = \"conv\", outputs = 8, kernel = 5 },\n  { kind = \"linear\", outputs = 10 },\n]",
                ],
            ),
            (
                "too large a window",
                &["[model]\nkind = \"sequential\"\nlayers = [{ kind = \"max-pool\", kernel = 29 }]"],
            ),
            (
                "too few scores",
                &[
                    "[model]\nkind = \"sequential\"\nlayers = [\"flatten\", { kind = \"linear\", outputs = 9 }]",
                ],
            ),
            ("more workers than cores", &["[nodes]\nuse = [\"local*8\"]"]),
            ("more threads than cores", &["[nodes]\nuse = [\"local*2\"]\nthreads = 3"]),
            (
                "a rate for no batch",
                &["[train]\nglobal-batch = 100\nepochs = 1\nlr-schedule = { scale = \"linear\" }"],
            ),
            (
                "a batch for no rate",
                &["[train]\nglobal-batch = 100\nepochs = 1\nlr-schedule = { reference-batch = 32 }"],
            ),
            ("no data", &["[dataset]\nkind = \"mnist\"\npath = \"elsewhere\""]),
        ],
    );
}

#[test]
fn impossible_optimizers() {
    let train = |optimizer: &str| format!("[train]\nglobal-batch = 100\nepochs = 2\noptimizer = {optimizer}");
    let arm = |kind: &str, more: &str| format!("[[strategy]]\nkind = \"{kind}\"\n{more}");
    let adamw = train("\"adamw\"");
    let lars = train("{ kind = \"lars\", lr = 5.0 }");
    let ahead = train("{ kind = \"sgd\", momentum = 0.9, nesterov = true }");
    check(
        "impossible_optimizers",
        &[
            (
                "keys of another",
                &[&train("{ kind = \"adamw\", momentum = 0.9, nesterov = true, trust = 0.1 }")],
            ),
            ("keys of sgd alone", &[&train("{ kind = \"lars\", lr = 1.0, clip = 1.0, beta1 = 0.5 }")]),
            ("no optimizer", &[&train("\"adam\"")]),
            ("values", &[&train("{ kind = \"adamw\", beta1 = 1.0, beta2 = -0.5, epsilon = 0.0 }")]),
            ("no usual rate", &[&train("\"lars\"")]),
            ("nothing to look along", &[&train("{ kind = \"sgd\", nesterov = true }")]),
            ("a velocity of the method", &[&adamw, &arm("async-msgd", "")]),
            ("no lock", &[&adamw, &arm("hogwild-sgd", "")]),
            ("elastic", &[&lars, &arm("easgd-async", "moving-rate = 0.1")]),
            ("elastic velocities", &[&ahead, &arm("measgd-async", "moving-rate = 0.1")]),
            ("matrices on several servers", &[&lars, &arm("ps-sync", "servers = 2")]),
            ("matrices on servers without order", &[&lars, &arm("async-sgd", "servers = 3")]),
            ("split matrices", &[&lars, &arm("gmp", "mp = 2")]),
        ],
    );
}
