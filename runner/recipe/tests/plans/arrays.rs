//! A user's own arrays: their shape, classes and numbers are known when the recipe is planned.

use crate::desk::Desk;
use recipe::{
    ArrayProblem, ArrayProfile, ArrayValues, DatasetFiles, Extent, Plan, Problems, SampleFiles, Shape, Source,
};
use std::path::Path;

const RECIPE: &str = r#"
schema = 1
question = "Which?"
[model]
kind = "sequential"
layers = [{ kind = "linear", outputs = 7 }, { kind = "relu" }, { kind = "linear", outputs = 30 }]
[dataset]
kind = "npy"
path = "mine"
[train]
global-batch = 30
epochs = 2
[nodes]
use = ["local*2"]
[[strategy]]
kind = "d-sync"
[repeats]
count = 1
"#;

const FLAT: ArrayProfile =
    ArrayProfile { train: 90, test: 12, classes: 30, shape: Shape::Flat(5), values: ArrayValues::Floats };

fn planned(text: &str, arrays: ArrayProfile) -> Result<Plan, Problems> {
    Desk::with(text).with_arrays("mine", Ok(arrays)).plan()
}

fn codes(problems: &Problems) -> Vec<(&str, &str)> {
    problems.list.iter().map(|problem| (problem.code.as_str(), problem.title.as_str())).collect()
}

#[test]
fn the_model_is_placed_on_the_arrays() {
    let plan = planned(RECIPE, FLAT).unwrap();
    let spec = &plan.cells[0].spec;
    assert_eq!(spec.dataset.source, Source::Npy { path: "/desk/mine".into(), arrays: FLAT });
    let model = spec.model.layered().unwrap();
    assert_eq!((model.input, model.classes), (Shape::Flat(5), 30));
    assert_eq!(model.layers[0].parameters[0].shape, [7, 5]);
    assert_eq!(spec.model.parameter_count(), 7 * 5 + 7 + 30 * 7 + 30);
    assert!(plan.warnings.is_empty(), "{:?}", plan.warnings);

    // A named model has as many outputs as there are classes.
    let softmax = RECIPE.replace("kind = \"sequential\"\n", "kind = \"softmax\"\n");
    let own = softmax.lines().filter(|line| !line.starts_with("layers"));
    let softmax = own.collect::<Vec<_>>().join("\n");
    let images = ArrayProfile { shape: Shape::Image(2, 4, 3), classes: 3, ..FLAT };
    let plan = planned(&softmax, images).unwrap();
    assert_eq!(plan.cells[0].spec.model.parameter_count(), 24 * 3 + 3);
}

#[test]
fn tensors_are_arrays_in_other_files() {
    let text = RECIPE.replace("kind = \"npy\"", "kind = \"safetensors\"");
    let arrays = planned(RECIPE, FLAT).unwrap();
    let tensors = planned(&text, FLAT).unwrap();
    let source = &tensors.cells[0].spec.dataset.source;
    assert_eq!(*source, Source::Safetensors { path: "/desk/mine".into(), arrays: FLAT });
    assert_eq!(tensors.cells[0].spec.model, arrays.cells[0].spec.model);
    assert_eq!((source.training_samples(), source.test_samples()), (Some(90), 12));
    assert_eq!(source.files(), SampleFiles::Folder(Path::new("/desk/mine"), DatasetFiles::TENSORS));
}

#[test]
fn a_model_that_does_not_fit_is_refused() {
    let problems = planned(RECIPE, ArrayProfile { classes: 29, ..FLAT }).unwrap_err();
    let told = "layer 3 of the model does not fit: the last layer gives a flat vector of 30, but the data has 29 classes: end with a \
                `linear` layer of 29 outputs";
    assert_eq!(codes(&problems), [("R109", told)]);
    let problems = planned(RECIPE, ArrayProfile { shape: Shape::Image(1, 5, 5), ..FLAT }).unwrap_err();
    assert!(codes(&problems)[0].1.contains("put `flatten` before it"), "{problems:?}");
}

#[test]
fn epochs_are_known_in_steps_and_samples() {
    let few = RECIPE.replace("outputs = 30", "outputs = 3");
    let few = planned(&few, ArrayProfile { train: 29, classes: 3, ..FLAT }).unwrap_err();
    assert_eq!(codes(&few), [("R111", "a global batch of 30 is more than the 29 training samples")]);
    assert!(few.list[0].cure.as_deref().unwrap().ends_with("give more samples"));
    let held = RECIPE.replace("path =", "validation = 0.7\npath =");
    assert_eq!(codes(&planned(&held, FLAT).unwrap_err())[0].0, "R111");
    // 90 samples in batches of 30, twice: a period of six steps is all of the training.
    let slow = RECIPE.replace("kind = \"d-sync\"", "kind = \"slowmo\"\nperiod = 6");
    let told = "the slow momentum has no effect: a period of 6 steps in a training of 6";
    assert_eq!(codes(&planned(&slow, FLAT).unwrap_err()), [("R135", told)]);
    let shorter = planned(&slow.replace("period = 6", "period = 5"), FLAT).unwrap();
    assert_eq!(shorter.cells[0].spec.train.length, Extent::Epochs(2.0));
}

#[test]
fn everything_that_is_wrong_with_the_arrays_is_said_once_and_nothing_follows_from_it() {
    let problem = |file: &str, cure: &str| ArrayProblem {
        reason: format!("/desk/mine/{file} has label -1 at [3]"),
        cure: cure.into(),
    };
    let arrays = Err(vec![problem("train_y.npy", "number them"), problem("test_y.npy", "number these")]);
    let swept = format!("{RECIPE}[sweep.axes]\ntrain.global-batch = [10, 20, 4000]\n");
    let text = swept.replace("epochs = 2", "epochs = 2\nevaluate = \"1 parsec\"");
    let problems = Desk::with(&text).with_arrays("mine", arrays.clone()).plan().unwrap_err();
    let mut found: Vec<&str> = problems.list.iter().map(|problem| problem.code.as_str()).collect();
    found.sort_unstable();
    assert_eq!(found, ["R015", "R023", "R023"], "{:?}", codes(&problems));
    let of = |title: &str| problems.list.iter().find(|problem| problem.title.contains(title)).unwrap();
    assert_eq!(of("train_y").cure.as_deref(), Some("number them"));
    assert_eq!(of("test_y").places[0].line, 9, "{:?}", of("test_y").places);
    let alone = Desk::with(&swept).with_arrays("mine", arrays).plan().unwrap_err();
    insta::assert_snapshot!("arrays", alone.render(recipe::Colours::None, 100));
    let missing = Desk::with(RECIPE).plan().unwrap_err();
    assert_eq!(codes(&missing), [("R023", "/desk/mine/train_x.npy is missing")]);
}

#[test]
fn a_folder_must_be_named() {
    let problems = Desk::with(&RECIPE.replace("path = \"mine\"\n", "")).plan().unwrap_err();
    let told = "`dataset.path` is missing: your own arrays are in a folder of yours";
    assert_eq!(codes(&problems), [("R010", told)]);
}

#[test]
fn the_expanded_recipe_plans_to_the_same_runs() {
    let plan = planned(RECIPE, FLAT).unwrap();
    let again = planned(&plan.expanded, FLAT).unwrap();
    assert_eq!(plan.cells[0].config_hash, again.cells[0].config_hash);
    let other = planned(RECIPE, ArrayProfile { test: 13, ..FLAT }).unwrap();
    assert_ne!(plan.cells[0].config_hash, other.cells[0].config_hash);
}

/// A label that is none makes as many classes.
#[test]
fn more_classes_than_samples_are_warned_of() {
    let plan = |classes| {
        planned(
            &RECIPE.replace("outputs = 30", &format!("outputs = {classes}")),
            ArrayProfile { classes, ..FLAT },
        )
    };
    assert!(plan(90).unwrap().warnings.is_empty());
    let warnings = plan(91).unwrap().warnings;
    assert_eq!(warnings.iter().map(|warning| warning.code.as_str()).collect::<Vec<_>>(), ["R212"]);
    let problems = recipe::Problems { list: warnings };
    insta::assert_snapshot!("more_classes", problems.render(recipe::Colours::None, 100));
}
