//! Texts and the models for them: shapes and weights by their formulas, and refused combinations.

use crate::desk::Desk;
use recipe::{Init, Metric, ModelPartition, Plan, Problems, Shape, Source, TextProfile, TextTokens};

const RECIPE: &str = r#"
schema = 1
question = "Which?"
[model]
kind = "gpt"
depth = 3
heads = 4
width = 32
[dataset]
kind = "text-lines"
path = "long.txt"
context = 50
test-share = 0.25
[train]
global-batch = 30
epochs = 2
target = { metric = "test-perplexity", at-most = 8.0 }
[nodes]
use = ["local*2"]
[[strategy]]
kind = "d-sync"
[repeats]
count = 1
"#;

/// The recipe with one line in place of another.
fn planned(line: &str, other: &str) -> Result<Plan, Problems> {
    let text = RECIPE.replace(line, other);
    assert!(line == other || text != RECIPE, "{line}");
    Desk::with(&text).and("short.txt", "abcabcabcab").plan()
}

fn refused(line: &str, other: &str) -> Vec<String> {
    let problems = planned(line, other).unwrap_err();
    problems.list.iter().map(|problem| format!("{} {}", problem.code, problem.title)).collect()
}

#[test]
fn a_perplexity_of_held_out_windows_is_a_target() {
    let plan = planned("context = 50", "context = 50\nvalidation = 0.1");
    let metric = |plan: &Plan| plan.cells[0].spec.train.target.map(|target| target.metric);
    assert_eq!(metric(&plan.unwrap()), Some(Metric::TestPerplexity));
    let text = RECIPE.replace("context = 50", "context = 50\nvalidation = 0.1");
    let plan = Desk::with(&text.replace("test-perplexity", "validation-perplexity")).plan().unwrap();
    assert_eq!(metric(&plan), Some(Metric::ValidationPerplexity));
}

#[test]
fn the_model_is_placed_on_the_windows() {
    let plan = planned("", "").unwrap();
    let spec = &plan.cells[0].spec;
    // 99,999 targets are 1,999 windows of 50.
    let text = TextProfile {
        unit: TextTokens::Bytes,
        context: 50,
        tokens: 100_000,
        vocabulary: 96,
        train: 1499,
        test: 500,
    };
    assert_eq!(spec.dataset.source, Source::TextLines { path: "/desk/long.txt".into(), text });
    let model = spec.model.layered().unwrap();
    assert_eq!((model.input, model.classes, model.init), (Shape::Tokens(50, 96), 96, Init::Gpt2));
    let vocabulary = 96;
    let positions = 50;
    let width = 32;
    let depth = 3;
    let weights =
        vocabulary * width + positions * width + depth * (12 * width * width + 13 * width) + 2 * width;
    assert_eq!(spec.model.parameter_count(), weights);
    assert_eq!(model.layers.last().unwrap().output, Shape::Sequence(50, 96));
    // Of a block: four maps of its width twice, scores and sums over 50 positions, a softmax of 4 heads, two norms, a hidden layer
    // with GELU, and two sums.
    let block = 50
        * (24 * width * width
            + 4 * 50 * width
            + 3 * 50 * 4 / width * width
            + 10 * width
            + 4 * width
            + 2 * width);
    let found = model.layers[1].flops;
    assert!(found.abs_diff(block as u64) <= 50 * width as u64, "{found}, {block}");
    assert_eq!(spec.train.target.unwrap().metric, Metric::TestPerplexity);
    let whole = ModelPartition::of(&spec.model, 2, 0.0);
    assert_eq!((whole.parts(), whole.split()), (1, 0..0), "blocks stay whole");
}

#[test]
fn a_usual_way_to_draw_weights_depends_on_the_model() {
    let init = |line, other| planned(line, other).unwrap().cells[0].spec.model.layered().unwrap().init;
    assert_eq!(init("width = 32", "width = 32\ninit = \"xavier\""), Init::Xavier);
    assert!(planned("", "").unwrap().expanded.contains("init = \"gpt2\""));
}

#[test]
fn dropout_lies_behind_the_embedding_and_before_each_sum() {
    let plan = planned("width = 32", "width = 32\ndropout = 0.25").unwrap();
    let model = plan.cells[0].spec.model.layered().unwrap();
    let top: Vec<&str> = model.layers.iter().map(|layer| layer.name.as_str()).collect();
    assert_eq!(top, ["embedding1", "dropout1", "block1", "block2", "block3", "layer-norm1", "tied-head1"]);
    let ends = model.layers[2].paths.branch.iter().map(|residual| residual.paths.branch.last().unwrap());
    let ends: Vec<&str> = ends.map(|layer| layer.name.as_str()).collect();
    assert_eq!(ends, ["block1.residual1.dropout1", "block1.residual2.dropout1"]);
    assert_eq!(
        plan.cells[0].spec.model.parameter_count(),
        planned("", "").unwrap().cells[0].spec.model.parameter_count()
    );
}

#[test]
fn what_a_text_cannot_be_is_refused() {
    assert_eq!(refused("path = \"long.txt\"", "path = \"none.txt\""), ["R180 /desk/none.txt is missing"]);
    let short = "R180 the text has 11 tokens, and two windows of 50 with the token behind them take 101";
    assert_eq!(refused("path = \"long.txt\"", "path = \"short.txt\""), [short]);
    let no_path = refused("path = \"long.txt\"\n", "");
    assert!(no_path[0].starts_with("R010 "), "{no_path:?}");
    let spread = "R182 the windows of a text have no classes that could be spread unevenly";
    assert_eq!(refused("context = 50", "context = 50\npartition = \"dirichlet\""), [spread]);
    let few = refused("global-batch = 30", "global-batch = 1500");
    assert_eq!(few, ["R111 a global batch of 1500 is more than the 1499 training samples"]);
}

#[test]
fn what_does_not_fit_a_text_is_refused() {
    let heads = refused("heads = 4", "heads = 5");
    let told = "R109 `gpt` does not fit, in its block1: layer 1 of its block: layer 2 of its branch: 32 values cannot be divided \
                into 5 heads of equal width: take `heads` that divide it";
    assert_eq!(heads, [told]);
    let model = "[model]\nkind = \"gpt\"\ndepth = 3\nheads = 4\nwidth = 32\n";
    let sequential =
        |layers: &str| refused(model, &format!("[model]\nkind = \"sequential\"\nlayers = [{layers}]\n"));
    let one = |layers: &str, told: &str| assert_eq!(sequential(layers), [format!("R109 {told}")]);
    let embedding = "{ kind = \"embedding\", width = 8 }";
    one(
        "\"relu\"",
        "layer 1 of the model does not fit: it takes numbers, not 50 tokens of a vocabulary of 96: put `embedding` before it",
    );
    one(
        embedding,
        "layer 1 of the model does not fit: the last layer gives 50 positions of 8 values, but each position of a text has 96 \
         tokens that may come next: end with `tied-head`, or with a `linear` layer of 96 outputs",
    );
    one(
        &format!("{embedding}, \"batch-norm\""),
        "layer 2 of the model does not fit: it takes an image or a flat vector, not 50 \
         positions of 8 values: `layer-norm` is for texts",
    );
    one(
        &format!("{embedding}, {{ kind = \"linear\", outputs = 4 }}, \"tied-head\""),
        "layer 3 of the model does not fit: a tied head \
         takes positions of 8 values, the width of the embedding, not 50 positions of 4 values",
    );
    one(
        &format!("{embedding}, {{ kind = \"block\", layers = [\"tied-head\"] }}"),
        "layer 2 of the model does not fit: layer 1 of its \
         block: it lies in no block: the embedding is the model's first layer, the tied head its last",
    );
    one(
        &format!("{embedding}, {embedding}"),
        "layer 2 of the model does not fit: an embedding takes the tokens of a text, not 50 \
         positions of 8 values: it is the first layer, with `dataset.kind = \"text-lines\"` or `\"text\"`",
    );
    one(
        &format!("{embedding}, {{ kind = \"conv\", outputs = 4, kernel = 3 }}"),
        "layer 2 of the model does not fit: it takes an image, \
         not 50 positions of 8 values",
    );
    // A vocabulary of eight makes scores as wide as vectors.
    let linear = format!("{embedding}, {{ kind = \"linear\", outputs = 96 }}");
    let fits = planned(model, &format!("[model]\nkind = \"sequential\"\nlayers = [{linear}]\n")).unwrap();
    assert_eq!(fits.cells[0].spec.model.parameter_count(), 96 * 8 + 50 * 8 + 96 * 8 + 96);
}

/// Each of two workers has fifteen samples of thirty.
#[test]
fn each_piece_of_a_batch_has_a_sample() {
    let whole = "global-batch = 30\naccumulate = 15";
    assert_eq!(planned("global-batch = 30", whole).unwrap().cells[0].spec.train.accumulate, 15);
    let told = refused("global-batch = 30", &whole.replace("15", "16"));
    assert_eq!(told, ["R196 16 pieces of a share of 15 samples: some would be empty"]);
}

#[test]
fn images_have_no_tokens_and_no_perplexity() {
    let text = "kind = \"text-lines\"\npath = \"long.txt\"\ncontext = 50\ntest-share = 0.25\n";
    let told = refused(text, "kind = \"synthetic\"\n");
    assert!(told[1].starts_with("R181 test-perplexity is that of a text"), "{told:?}");
    assert!(
        told[0].contains("an embedding takes the tokens of a text, not an image of 1 x 28 x 28"),
        "{told:?}"
    );
    planned("at-most = 8.0", "at-most = 1.0").unwrap();
    let told = refused("at-most = 8.0", "at-most = 0.9");
    assert_eq!(told, ["R195 a test-perplexity is never below 1"]);
    let file = "[model]\nkind = \"gpt\"\ndepth = 3\nheads = 4\nwidth = 32\n";
    let told = refused(file, "[model]\nkind = \"torchscript\"\nfile = \"9.pt\"\n");
    assert_eq!(told, ["R183 a model file scores classes, and a text has tokens that come next"]);
    let told = refused("kind = \"d-sync\"", "kind = \"gmp\"\nmp = 2");
    assert!(told[0].starts_with("R137 no layer of the model can be split"), "{told:?}");
}
