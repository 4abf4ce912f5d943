//! A user's own data: a folder with the four NumPy arrays `train_x.npy`, `train_y.npy`, `test_x.npy` and `test_y.npy` (or
//! `train.safetensors` and `test.safetensors`), a text, or a folder with labelled texts, `train.csv` and `test.csv`.
//!
//! [`describe`] reads headers and labels, for the driver, which checks recipes; [`load`] reads all, for workers. Both judge a
//! folder by the same rules; [`Text::read`] is for both, and so are [`survey_labelled_texts`] and [`load_labelled_texts`]. Files are
//! strangers' files: no number in one is believed before it was compared with the length of the file, and nothing in one is ever
//! evaluated.

mod element;
mod error;
mod file;
mod folder;
mod header;
mod labelled_text;
mod tensors;
mod text;
mod values;

pub use element::Element;
pub use error::{ArrayError, ArrayFault, ArrayHome, ArrayRole};
pub use folder::{LabelledArrays, LabelledFeatures, describe, describe_safetensors, load, load_safetensors};
pub use header::{ArrayHeader, HeaderFault, IndexOrder, parse_header};
pub use labelled_text::{
    LONGEST_CSV, LONGEST_LABEL, LONGEST_RECORD, LabelledTextError, LabelledTextFault, LabelledTextSurvey,
    LabelledTexts, LabelledTokens, MOST_TOKENS, labelled_text_size, load_labelled_texts,
    survey_labelled_texts,
};
pub use text::{LARGEST_ALPHABET, LONGEST_TEXT, Text, TextError, TextFault};
pub use values::Features;
