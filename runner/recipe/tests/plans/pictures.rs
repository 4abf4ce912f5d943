//! Folders of pictures, and images that change each time they are met.

use crate::desk::Desk;
use crate::problems::check;
use recipe::{Augmentation, PictureProfile, Plan, Problems, Shape, Source};

const RECIPE: &str = r#"
schema = 1
question = "Which?"
[model]
kind = "resnet18"
[dataset]
kind = "image-folder"
path = "photos"
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
fn the_model_is_placed_on_the_square() {
    let plan = planned("", "").unwrap();
    let spec = &plan.cells[0].spec;
    let pictures = PictureProfile { train: 900, test: 100, classes: 20, resize: 256, crop: 224 };
    assert_eq!(spec.dataset.source, Source::ImageFolder { path: "/desk/photos".into(), pictures });
    let model = spec.model.layered().unwrap();
    assert_eq!((model.input, model.classes), (Shape::Image(3, 224, 224), 20));
    let small = planned("path = \"photos\"", "path = \"photos\"\nresize = 40\ncrop = 32").unwrap();
    assert_eq!(small.cells[0].spec.model.layered().unwrap().input, Shape::Image(3, 32, 32));
}

#[test]
fn pictures_that_cannot_be_are_refused() {
    assert_eq!(refused("path = \"photos\"", "path = \"none\""), ["R190 /desk/none is missing"]);
    let no_path = refused("path = \"photos\"\n", "");
    assert!(no_path.len() == 1 && no_path[0].starts_with("R010 "), "{no_path:?}");
    let wide = "R191 no square of 224 pixels lies in a picture whose shorter side has 200";
    assert_eq!(refused("path = \"photos\"", "path = \"photos\"\nresize = 200"), [wide]);
    let few = refused("global-batch = 30", "global-batch = 1000");
    assert_eq!(few, ["R111 a global batch of 1000 is more than the 900 training samples"]);
    let copied = refused("use = [\"local*2\"]", "use = [\"local*1\", \"lab1*1\"]\ncopy-data = true");
    assert_eq!(copied, ["R192 a folder of pictures is not copied to other machines"]);
    assert!(planned("use = [\"local*2\"]", "use = [\"local*1\", \"lab1*1\"]").is_ok());
}

#[test]
fn images_change_as_the_recipe_says() {
    let augment = |line: &str| {
        let plan = planned("path = \"photos\"", &format!("path = \"photos\"\n{line}")).unwrap();
        plan.cells[0].spec.dataset.augment
    };
    assert_eq!(augment(""), Augmentation::NONE);
    assert_eq!(augment("augment = [\"flip\"]"), Augmentation { crop: false, flip: true });
    let both = Augmentation { crop: true, flip: true };
    assert_eq!(augment("augment = [\"flip\", \"crop\"]"), both);
    assert_eq!(augment("augment = \"flip\""), Augmentation { crop: false, flip: true });
    let axis = planned("[repeats]", "[sweep.axes]\ndataset.augment = [[], [\"crop\"]]\n[repeats]").unwrap();
    let crops: Vec<bool> = axis.cells.iter().map(|cell| cell.spec.dataset.augment.crop).collect();
    assert_eq!(crops, [false, true]);
    let labels: Vec<&str> = axis.cells.iter().map(|cell| cell.condition.as_str()).collect();
    assert_eq!(labels, ["augment=none", "augment=crop"]);
}

#[test]
fn a_list_of_names_can_be_mistyped() {
    let told = |line: &str| {
        let problems = planned("path = \"photos\"", &format!("path = \"photos\"\n{line}")).unwrap_err();
        let [problem] = problems.list.as_slice() else { panic!("{problems}") };
        (problem.title.clone(), problem.cure.clone().unwrap_or_default())
    };
    let (title, cure) = told("augment = [\"crop\", \"crop\"]");
    assert_eq!((title.as_str(), cure.as_str()), ("`dataset.augment` has `crop` twice", "drop one of them"));
    let (title, cure) = told("augment = \"crop,flip\"");
    assert_eq!(title, "unknown augment `crop,flip`");
    assert_eq!(cure, "several names are a list: '[\"crop\", \"flip\"]', in quotes in a shell");
}

#[test]
fn a_square_that_is_too_small_for_a_model_is_told_with_what_fits() {
    let small = RECIPE.replace("path = \"photos\"", "path = \"photos\"\nresize = 40\ncrop = 32");
    let problems = Desk::with(&small.replace("resnet18", "alexnet")).plan().unwrap_err();
    let [problem] = problems.list.as_slice() else { panic!("{problems}") };
    assert_eq!(
        problem.title,
        "`alexnet` does not fit, in its max-pool3: a window of 3 does not fit a side of 1"
    );
    let cure = problem.cure.clone().unwrap();
    assert!(cure.starts_with("set `dataset.crop`, and with it `dataset.resize`, to 63 or more, or take a model that fits, as `softmax`, "), "{cure}");
    assert!(cure.contains("`resnet20`") && !cure.contains("`alexnet`") && !cure.contains("`gpt`"), "{cure}");
}

#[test]
fn five_of_few_classes_are_no_target() {
    let target = "[train.target]\nmetric = \"test-top-5-accuracy\"\nat-least = 0.9\n[nodes]";
    let plan = planned("[nodes]", target).unwrap();
    let wanted = plan.cells[0].spec.train.target.unwrap();
    assert_eq!((wanted.metric, wanted.threshold), (recipe::Metric::TestTop5Accuracy, 0.9));
    let held_out = target.replace("test-top-5-accuracy", "validation-top-5-accuracy");
    let problems = planned("[nodes]", &held_out).unwrap_err();
    assert_eq!(problems.list[0].title, "validation-top-5-accuracy cannot be measured: nothing is held out");
    let few =
        RECIPE.replace("image-folder\"\npath = \"photos\"", "synthetic\"").replace("resnet18", "softmax");
    let problems = Desk::with(&few.replace("[nodes]", target)).plan().unwrap_err();
    let told: Vec<String> =
        problems.list.iter().map(|problem| format!("{} {}", problem.code, problem.title)).collect();
    assert_eq!(
        told,
        ["R194 test-top-5-accuracy is that of data with more than 10 classes, and these have 10 classes"]
    );
}

#[test]
fn what_is_no_image_does_not_change() {
    let data = "kind = \"image-folder\"\npath = \"photos\"\n";
    let model = RECIPE.replace("resnet18", "softmax");
    let arrays = recipe::ArrayProfile {
        train: 90,
        test: 12,
        classes: 3,
        shape: Shape::Flat(5),
        values: recipe::ArrayValues::Floats,
    };
    let flat = model.replace(data, "kind = \"npy\"\npath = \"mine\"\naugment = [\"crop\"]\n");
    let problems = Desk::with(&flat).with_arrays("mine", Ok(arrays)).plan().unwrap_err();
    let told: Vec<&str> = problems.list.iter().map(|problem| problem.code.as_str()).collect();
    assert_eq!(told, ["R193"]);
    let images = recipe::ArrayProfile { shape: Shape::Image(1, 4, 4), ..arrays };
    assert!(Desk::with(&flat).with_arrays("mine", Ok(images)).plan().is_ok());
    let grey = "kind = \"synthetic\"\naugment = [\"crop\", \"flip\"]\n";
    assert!(Desk::with(&model.replace(data, grey)).plan().is_ok());
    let misspelt = refused(data, "kind = \"synthetic\"\naugment = [\"mirror\"]\n");
    assert_eq!(misspelt.len(), 1);
}

/// A run's identity is a digest of its stored form: a field newer than a stored run is left out where it changes nothing.
#[test]
fn data_that_do_not_change_are_stored_as_they_were() {
    let keys = |augment: &str| {
        let planned = planned("path = \"photos\"", &format!("path = \"photos\"\naugment = {augment}"));
        let spec = planned.expect("a plan").cells[0].spec.clone();
        let stored = serde_json::to_value(&spec.dataset).expect("plain data");
        let again: recipe::Dataset = serde_json::from_value(stored.clone()).expect("the same");
        assert_eq!(again, spec.dataset);
        stored.as_object().expect("a table").keys().cloned().collect::<Vec<_>>()
    };
    let old = ["partition", "sampling", "source", "validation"];
    assert_eq!(keys("[]"), old);
    assert!(keys("[\"flip\"]").contains(&"augment".to_owned()));
}

#[test]
fn impossible_pictures() {
    let photos = |more: &str| format!("[dataset]\nkind = \"image-folder\"\npath = \"photos\"\n{more}");
    let model = "[model]\nkind = \"resnet18\"";
    check(
        "impossible_pictures",
        &[
            ("a folder that is not there", &[model, "[dataset]\nkind = \"image-folder\"\npath = \"none\""]),
            ("no folder", &[model, "[dataset]\nkind = \"image-folder\""]),
            ("a square wider than the picture", &[model, &photos("resize = 100\ncrop = 101")]),
            ("copies", &[model, &photos(""), "[nodes]\nuse = [\"local*1\", \"lab1*1\"]\ncopy-data = true"]),
            (
                "windows of a text that are mirrored",
                &[
                    "[model]\nkind = \"gpt\"",
                    "[dataset]\nkind = \"text-lines\"\npath = \"long.txt\"\naugment = [\"flip\"]",
                ],
            ),
            ("a change that there is not", &[model, &photos("augment = [\"mirror\"]")]),
            ("five of ten classes", &["[train.target]\nmetric = \"test-top-5-accuracy\"\nat-least = 0.9"]),
            (
                "a model for larger images",
                &["[model]\nkind = \"alexnet\"", "[dataset]\nkind = \"synthetic\""],
            ),
        ],
    );
}
