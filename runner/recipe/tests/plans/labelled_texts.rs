//! Labelled texts and the models for them: shapes and weights by their formulas, and refused combinations.

use crate::desk::Desk;
use recipe::{
    LabelledTextForm, LabelledTextProfile, LabelledTextSize, ModelPartition, Partition, Plan, Problems,
    Shape, Source, TextTokens,
};

const RECIPE: &str = r#"
schema = 1
question = "Which?"
[model]
kind = "text-cnn"
[dataset]
kind = "text"
path = "news"
header = false
vocabulary = 5000
context = 40
partition = "dirichlet"
[train]
global-batch = 20
epochs = 2
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
    Desk::with(&text).plan()
}

fn refused(line: &str, other: &str) -> Vec<String> {
    let problems = planned(line, other).expect_err("it is refused");
    problems.list.iter().map(|problem| format!("{} {}", problem.code, problem.title)).collect()
}

#[test]
fn the_model_is_placed_on_the_texts() {
    let plan = planned("", "").unwrap();
    let spec = &plan.cells[0].spec;
    let texts = LabelledTextProfile {
        form: LabelledTextForm { header: false, unit: TextTokens::Words, most: 5000 },
        context: 40,
        size: LabelledTextSize { train: 1000, test: 100, classes: 4, vocabulary: 5002 },
    };
    assert_eq!(spec.dataset.source, Source::Text { path: "/desk/news".into(), texts });
    assert_eq!(spec.dataset.partition, Partition::Dirichlet { alpha: 0.3 }, "texts have classes");
    let model = spec.model.layered().unwrap();
    assert_eq!((model.input, model.classes), (Shape::Tokens(40, 5002), 4));
    assert_eq!(spec.model.parameter_count(), 5002 * 300 + 100 * 12 * 300 + 300 + 300 * 4 + 4);
    let top: Vec<&str> = model.layers.iter().map(|layer| layer.name.as_str()).collect();
    assert_eq!(top, ["embedding1", "branches1", "dropout1", "linear1"]);
    // Sums over 3, 4 and 5 words, a rectifier, and the largest value of each map.
    let maps = |window: u64| 100 * (41 - window) * (2 * 300 * window + 1 + 1);
    assert_eq!(model.layers[1].flops, maps(3) + maps(4) + maps(5));
    assert_eq!(model.layers[0].flops, 40 * 300);
    // Values that each filter, its rectifier and its largest values keep, and these again where they are joined.
    assert_eq!(model.layers[1].activations(true), 100 * (2 * (38 + 37 + 36) + 3) + 300);
    let whole = ModelPartition::of(&spec.model, 2, 0.0);
    assert_eq!(whole.parts(), 2, "its linear layer can be split, branches stay whole");
    assert!(plan.expanded.contains("tokens = \"words\"") && plan.expanded.contains("dropout = 0.5"));
}

#[test]
fn what_a_recipe_says_decides_how_texts_are_read() {
    let form = |line, other| match &planned(line, other).unwrap().cells[0].spec.dataset.source {
        Source::Text { texts, .. } => (texts.form, texts.size.train),
        other => panic!("{other:?}"),
    };
    let words = LabelledTextForm { header: false, unit: TextTokens::Words, most: 5000 };
    assert_eq!(form("header = false", "header = true"), (LabelledTextForm { header: true, ..words }, 999));
    let bytes = LabelledTextForm { unit: TextTokens::Bytes, most: 256, ..words };
    assert_eq!(form("vocabulary = 5000", "vocabulary = 256\ntokens = \"bytes\""), (bytes, 1000));
    assert_eq!(form("vocabulary = 5000\n", "").0.most, 20_000);
}

#[test]
fn what_cannot_be_learned_from_is_refused() {
    let missing = "R184 /desk/none/train.csv is missing";
    assert_eq!(refused("path = \"news\"", "path = \"none\""), [missing]);
    let one = |line, title: &str| {
        let told = refused(line, "");
        assert!(told.len() == 1 && told[0].starts_with(title), "{told:?}");
    };
    one("path = \"news\"\n", "R010 `dataset.path` is missing: your own texts are in a folder of yours");
    one("header = false\n", "R010 `dataset.header` is missing: nothing in a file says");
    let few = refused("global-batch = 20", "global-batch = 1001");
    assert_eq!(few, ["R111 a global batch of 1001 is more than the 1000 training samples"]);
    let other = refused("kind = \"text\"", "kind = \"synthetic\"");
    assert!(other.iter().any(|told| told.contains("header")), "{other:?}");
}

#[test]
fn what_does_not_fit_the_texts_is_refused() {
    let fit = "R109 layer 2 of the model does not fit: ";
    let window = "R109 `text-cnn` does not fit, in its branches1: layer 1 of its branch 3: a window of 5 does not fit a side of 4";
    assert_eq!(refused("context = 40", "context = 4"), [window]);
    let short = planned("context = 40", "context = 4").unwrap_err();
    assert_eq!(short.list[0].cure.as_deref(), Some("set `dataset.context` to 5 or more"));
    let sequential =
        |layers: &str| refused("kind = \"text-cnn\"", &format!("kind = \"sequential\"\nlayers = [{layers}]"));
    let embedding = "{ kind = \"embedding\", width = 8, positions = false }";
    assert_eq!(
        sequential(&format!("{embedding}, \"global-avg-pool\"")),
        [format!("{fit}it takes an image, not 40 positions of 8 values")]
    );
    assert_eq!(
        sequential(&format!("{embedding}, {{ kind = \"branches\", branches = [[\"relu\"]] }}")),
        [format!("{fit}its branch 1 gives 40 positions of 8 values, not an image or a flat vector")]
    );
    let flat = "[\"global-max-pool\"]";
    let rows = |rows: &str| format!("{embedding}, {{ kind = \"branches\", branches = [{flat}, {rows}] }}");
    assert_eq!(
        sequential(&rows("[\"relu\"]")),
        [format!("{fit}its branch 2 gives 40 positions of 8 values, those before it flat vectors")]
    );
    let scores = "R109 layer 2 of the model does not fit: the last layer gives a flat vector of 8, but the data has 4 classes: end with a `linear` \
                  layer of 4 outputs";
    assert_eq!(sequential(&format!("{embedding}, \"global-max-pool\"")), [scores]);
    let script = refused("kind = \"text-cnn\"", "kind = \"torchscript\"\nfile = \"9.pt\"");
    assert_eq!(script, ["R183 a model file takes numbers, and a text has tokens"]);
    let next = refused("kind = \"text-cnn\"", "kind = \"gpt\"");
    assert!(
        next[0].contains("the last layer gives 40 positions of 5002 values, but the data has 4 classes"),
        "{next:?}"
    );
    let next = planned("kind = \"text-cnn\"", "kind = \"gpt\"").unwrap_err();
    assert_eq!(next.list[0].cure.as_deref(), Some("take `text-cnn`, which fits"));
}

#[test]
fn layers_of_ones_own_have_the_shapes_of_pytorch() {
    let layers = "[{ kind = \"embedding\", width = 6 }, { kind = \"text-conv\", outputs = 5, kernel = 4, stride = 3, padding = 2 }, \
                  \"relu\", \"global-max-pool\", { kind = \"linear\", outputs = 4 }]";
    let plan = planned("kind = \"text-cnn\"", &format!("kind = \"sequential\"\nlayers = {layers}")).unwrap();
    let model = plan.cells[0].spec.model.layered().unwrap();
    // (40 + 2 * 2 - 4) / 3 + 1, rounded down.
    assert_eq!(model.layers[1].output, Shape::Sequence(14, 5));
    assert_eq!(model.layers[3].output, Shape::Flat(5));
    let shapes: Vec<&[usize]> =
        model.layers.iter().flat_map(|layer| &layer.parameters).map(|own| &own.shape[..]).collect();
    assert_eq!(shapes, [&[5002, 6][..], &[40, 6], &[5, 6, 4], &[5], &[4, 5], &[4]]);
}
