//! A user's own pictures: a folder with `train/CLASS/*.jpg` and `test/CLASS/*.jpg`, PNG or JPEG.
//!
//! [`PictureFolder::list`] reads the names, which is what a recipe is checked by; [`digest()`] reads every byte once and remembers
//! it; [`Picture::read`] decodes one file, and [`Picture::window`] cuts a square out of the scaled picture. Files are
//! strangers' files: what a header announces is compared with a bound before anything is allocated, and nothing panics.
//!
//! Pictures are decoded by the crates `png` and `zune-jpeg`, which are pure Rust and fuzzed; a crate over all formats would bring
//! colour management that nothing here uses. Grey pictures have three equal channels, alpha is left out, 16 bits become 8,
//! and a camera's orientation is not looked at: all as in torchvision's `ImageFolder`.

mod container;
mod decode;
mod digest;
mod encode;
mod error;
mod folder;
mod resample;

pub use container::{MOST_PIXELS, PictureFormat, PictureHeader, examine};
pub use decode::{LONGEST_FILE, Picture};
pub use digest::{decode_all, digest};
pub use error::{PictureError, PictureFault};
pub use folder::{PictureFolder, PictureSplit};
pub use resample::{Offset, scaled_sides};
