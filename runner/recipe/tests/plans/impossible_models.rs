//! The problems of layers that do not fit, and of models that cannot be trained in groups, on texts, or from a file.

use crate::problems::check;

#[test]
fn impossible_groups() {
    let gmp = |more: &str| format!("[[strategy]]\nkind = \"gmp\"\n{more}");
    check(
        "impossible_groups",
        &[
            ("uneven groups", &[&gmp("mp = 2"), "[nodes]\nworkers = 3\nuse = [\"local*4\"]"]),
            ("a group larger than the run", &[&gmp("mp = 8")]),
            ("too low a ratio", &[&gmp("mp = 2\nleast-ccr = 1e6")]),
            (
                "a norm of parts",
                &[
                    &gmp("mp = 2"),
                    "[train]\nglobal-batch = 100\nepochs = 2\noptimizer = { kind = \"sgd\", lr = 0.1, clip = 1.0 }",
                ],
            ),
            ("micro-batches", &[&gmp("mp = 2"), "[train]\nglobal-batch = 100\nepochs = 2\naccumulate = 2"]),
            ("a projection", &[&gmp("mp = 2\ncompression = { kind = \"powersgd\", error-feedback = true }")]),
            ("one range", &[&gmp("mp = 2\ncompression = { kind = \"quantize8\", range = \"gradient\" }")]),
            ("a code for weights", &[&gmp("average-every = 4\ncompression = \"fp16\"")]),
            (
                "a code for weights, on purpose",
                &[&gmp("average-every = 4\ncompression = { kind = \"fp16\", parameters = true }")],
            ),
            ("a code where one group splits everything", &[&gmp("mp = 4\ncompression = \"fp16\"")]),
            (
                "convolutions only",
                &[
                    &gmp("mp = 2"),
                    "[model]\nkind = \"sequential\"\nlayers = [{ kind = \"conv\", outputs = 10, kernel = 28 }, { kind = \"flatten\" }]",
                ],
            ),
            ("a loss below the split layers", &[&gmp("mp = 2"), &with_head("linear")]),
            ("frozen layers below the split ones", &[&gmp("mp = 2"), "[model]\nkind = \"cifar100-convex\""]),
            ("frozen batch norm above split layers", &[&gmp("mp = 2"), &frozen_norm()]),
            ("keys of another strategy", &["[[strategy]]\nkind = \"d-sync\"\nmp = 2"]),
        ],
    );
}

#[test]
fn impossible_model_files() {
    let model = |more: &str| format!("[model]\nkind = \"torchscript\"\n{more}");
    check(
        "impossible_model_files",
        &[
            ("no file is named", &[&model("")]),
            ("no file", &[&model("file = \"net.pt\"")]),
            ("too few classes", &[&model("file = \"9.pt\"")]),
            (
                "one row for each worker",
                &[
                    &model("file = \"two-rows/10.pt\""),
                    "[train]\nglobal-batch = 4\nepochs = 1",
                    "[nodes]\nuse = [\"local*4\"]",
                ],
            ),
            ("drawn weights", &[&model("file = \"10.pt\"\ninit = \"xavier\"")]),
            ("layers beside a file", &[&model("file = \"10.pt\"\nlayers = [\"flatten\"]")]),
            ("a file for layers", &["[model]\nkind = \"softmax\"\nfile = \"10.pt\""]),
            ("other machines", &[&model("file = \"10.pt\""), "[nodes]\nuse = [\"lab1*2\"]"]),
            ("groups", &[&model("file = \"10.pt\""), "[[strategy]]\nkind = \"gmp\"\nmp = 2"]),
        ],
    );
}

/// Layers for the drawn data with an auxiliary head that ends with `last`, and layers of 10 classes behind it.
fn with_head(last: &str) -> String {
    sequential(&[
        "{ kind = \"conv\", outputs = 4, kernel = 3 }",
        &format!(
            "{{ kind = \"auxiliary-head\", layers = [\"flatten\", {{ kind = \"{last}\", outputs = 10 }}] }}"
        ),
        "\"flatten\"",
        LINEAR,
    ])
}

/// A split layer, and behind the next one frozen batch norm.
fn frozen_norm() -> String {
    let hidden = "{ kind = \"linear\", outputs = 16 }";
    sequential(&["\"flatten\"", hidden, hidden, "{ kind = \"frozen\", layers = [\"batch-norm\"] }", LINEAR])
}

#[test]
fn impossible_frozen_layers_and_heads() {
    let frozen =
        |layers: &str| sequential(&[&format!("{{ kind = \"frozen\", layers = [{layers}] }}"), LINEAR]);
    let alone = sequential(&[&format!("{{ kind = \"frozen\", layers = [\"flatten\", {LINEAR}] }}")]);
    let head = |layers: &str| {
        let head = format!("{{ kind = \"auxiliary-head\", {layers} }}");
        sequential(&["\"flatten\"", &head, LINEAR])
    };
    let within = "{ kind = \"frozen\", layers = [\"flatten\"] }";
    check(
        "impossible_frozen_layers_and_heads",
        &[
            ("nothing to freeze", &[&frozen("\"flatten\"")]),
            ("no layers", &[&frozen("")]),
            ("all is frozen", &[&alone]),
            ("frozen in frozen", &[&frozen(within)]),
            (
                "a head among frozen layers",
                &[&frozen("{ kind = \"auxiliary-head\", layers = [\"flatten\"] }")],
            ),
            ("a misfit inside", &[&frozen("{ kind = \"conv\", outputs = 4, kernel = 29 }")]),
            ("other scores", &[&head("layers = [{ kind = \"linear\", outputs = 9 }]")]),
            ("an empty head", &[&head("layers = []")]),
            ("a head without layers", &[&head("weight = 0.3")]),
            ("a head that counts nothing", &[&head(&format!("layers = [{LINEAR}], weight = 0.0"))]),
        ],
    );
}

const LINEAR: &str = "{ kind = \"linear\", outputs = 10 }";

fn sequential(layers: &[&str]) -> String {
    format!("[model]\nkind = \"sequential\"\nlayers = [{}]", layers.join(", "))
}

#[test]
fn impossible_layers() {
    let block = |branch: &str, shortcut: &str| {
        sequential(&[
            &format!("{{ kind = \"residual\", branch = [{branch}], shortcut = [{shortcut}] }}"),
            "\"flatten\"",
            LINEAR,
        ])
    };
    let halved = "{ kind = \"conv\", outputs = 4, kernel = 3, stride = 2, padding = 1 }";
    let no_branch = sequential(&["\"residual\"", "\"flatten\"", LINEAR]);
    let flat_pool = sequential(&["\"flatten\"", "\"global-avg-pool\""]);
    let wide_border =
        sequential(&["{ kind = \"max-pool\", kernel = 3, padding = 2 }", "\"flatten\"", LINEAR]);
    let wide_mean = sequential(&["{ kind = \"avg-pool\", kernel = 3, padding = 2 }", "\"flatten\"", LINEAR]);
    let branches = |rows: &str| {
        sequential(&[&format!("{{ kind = \"branches\", branches = [{rows}] }}"), "\"flatten\"", LINEAR])
    };
    let grouped = |groups: &str| {
        sequential(&[
            &format!("{{ kind = \"conv\", outputs = 4, kernel = 3, {groups} }}"),
            "\"flatten\"",
            LINEAR,
        ])
    };
    check(
        "impossible_layers",
        &[
            ("ways of different shapes", &[&block(halved, "")]),
            (
                "two shapes that were both written",
                &[&block(halved, "{ kind = \"conv\", outputs = 4, kernel = 1 }")],
            ),
            ("a block in a block", &[&block("{ kind = \"residual\", branch = [\"relu\"] }", "")]),
            ("an empty branch", &[&block("", "")]),
            ("no branch", &[&no_branch]),
            ("layers that are no list", &[&sequential(&["{ kind = \"residual\", branch = \"relu\" }"])]),
            ("an unknown layer in a branch", &[&block("\"rellu\"", "")]),
            ("a key of another layer in a branch", &[&block("{ kind = \"relu\", bias = false }", "")]),
            ("a pool of a flat vector", &[&flat_pool]),
            ("a border wider than the window", &[&wide_border]),
            ("a border of zeros wider than the window", &[&wide_mean]),
            ("groups that do not divide the channels", &[&grouped("groups = 2")]),
            (
                "branches of different sides",
                &[&branches("[\"relu\"], [{ kind = \"conv\", outputs = 4, kernel = 3 }]")],
            ),
            ("a flat branch before an image", &[&branches("[\"flatten\"], [\"relu\"]")]),
            ("no branches", &[&branches("")]),
            ("branches that are no lists", &[&branches("\"relu\"")]),
            ("a block in a branch", &[&branches("[{ kind = \"branches\", branches = [[\"relu\"]] }]")]),
            ("no key of branches", &[&sequential(&["\"branches\"", "\"flatten\"", LINEAR])]),
            ("no group", &[&grouped("groups = 0")]),
            (
                "a response over a flat vector",
                &[&sequential(&["\"flatten\"", "\"local-response-norm\"", LINEAR])],
            ),
            (
                "a response without an end",
                &[&sequential(&["{ kind = \"local-response-norm\", k = 0.0 }", "\"flatten\"", LINEAR])],
            ),
        ],
    );
}

/// Groups of `gmp` with batch norm where they split the model, or above.
#[test]
fn impossible_batch_norm() {
    let gmp = "[[strategy]]\nkind = \"gmp\"\nmp = 2";
    check(
        "impossible_batch_norm",
        &[
            (
                "of single values",
                &[
                    gmp,
                    "[train]\nglobal-batch = 4\nepochs = 1",
                    &sequential(&["\"flatten\"", LINEAR, "\"batch-norm\"", LINEAR]),
                ],
            ),
            ("above split layers", &[gmp, &sequential(&["\"flatten\"", LINEAR, "\"batch-norm\"", LINEAR])]),
            (
                "in a block above split layers",
                &[
                    gmp,
                    &sequential(&[
                        "\"flatten\"",
                        LINEAR,
                        "{ kind = \"residual\", branch = [\"batch-norm\"] }",
                        LINEAR,
                    ]),
                ],
            ),
        ],
    );
}

/// Texts, and what they are not.
#[test]
fn impossible_texts() {
    let text = |more: &str| format!("[dataset]\nkind = \"text-lines\"\npath = \"long.txt\"{more}");
    let gpt = "[model]\nkind = \"gpt\"";
    let perplexity =
        "[train]\nglobal-batch = 100\nepochs = 1\ntarget = { metric = \"test-perplexity\", at-most = 9.0 }";
    check(
        "impossible_texts",
        &[
            ("a file that is not there", &[gpt, "[dataset]\nkind = \"text-lines\"\npath = \"none.txt\""]),
            ("no file", &[gpt, "[dataset]\nkind = \"text-lines\""]),
            ("too short for two windows", &[gpt, &text("\ncontext = 65536")]),
            ("classes of a text", &[gpt, &text("\npartition = \"dirichlet\"")]),
            ("a perplexity of classes", &[perplexity]),
            ("too low a perplexity", &[&perplexity.replace("9.0", "0.5")]),
            ("a model file", &["[model]\nkind = \"torchscript\"\nfile = \"96.pt\"", &text("")]),
            (
                "labels that are not there",
                &[
                    "[model]\nkind = \"text-cnn\"",
                    "[dataset]\nkind = \"text\"\npath = \"none\"\nheader = false",
                ],
            ),
            ("no header and no path", &["[model]\nkind = \"text-cnn\"", "[dataset]\nkind = \"text\""]),
            ("a model for images", &[&text("")]),
            ("a model for texts", &[gpt]),
            ("heads that do not divide the width", &["[model]\nkind = \"gpt\"\nheads = 5", &text("")]),
        ],
    );
}
