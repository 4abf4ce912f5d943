//! Problems of pictures.

use super::{Code, code};

pub(super) const IMAGES: &[Code] = &[
    code(
        "R190",
        "pictures that cannot be used",
        "With `dataset.kind = \"image-folder\"`, `dataset.path` is a folder with train/CLASS/ and test/CLASS/ (or val/CLASS/), in which \
         pictures lie whose names end with .jpg, .jpeg or .png. The classes are the folders in train, numbered by the order of \
         their names; each has a picture at least, and there are two at least. Test pictures may lack classes, and have no \
         others. Each picture is examined once, before the first run: a file that is no picture, is cut off, or announces more \
         than 67,108,864 pixels is refused.",
    ),
    code(
        "R191",
        "a square wider than the picture",
        "Each picture is scaled until its shorter side has `dataset.resize` pixels, and a square of `dataset.crop` pixels is cut out of it.",
    ),
    code(
        "R192",
        "pictures on several machines",
        "`nodes.copy-data` copies single files. A folder of pictures has thousands in folders of classes: bring it to each machine \
         yourself. A machine whose pictures are others than those of this one is refused before a run.",
    ),
    code(
        "R193",
        "data that are no images",
        "`dataset.augment` cuts images at another place and exchanges their sides. A row of numbers or a window of a text has neither: \
         the changed sample would be another one.",
    ),
    code(
        "R194",
        "five of few classes",
        "A top-5 accuracy is the share of samples whose class is among the five with the highest scores. It is measured of data with \
         more than ten classes: of ten, five are half, and windows of a text (`text-lines`) have none.",
    ),
];
