//! What is said about models that cannot be trained in groups, or from a file.

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
            ("drawn weights", &[&model("file = \"10.pt\"\ninit = \"xavier\"")]),
            ("layers beside a file", &[&model("file = \"10.pt\"\nlayers = [\"flatten\"]")]),
            ("a file for layers", &["[model]\nkind = \"softmax\"\nfile = \"10.pt\""]),
            ("other machines", &[&model("file = \"10.pt\""), "[nodes]\nuse = [\"lab1*2\"]"]),
            ("groups", &[&model("file = \"10.pt\""), "[[strategy]]\nkind = \"gmp\"\nmp = 2"]),
        ],
    );
}
