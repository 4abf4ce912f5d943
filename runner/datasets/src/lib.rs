//! Public data sets: where they are published, what their files must be, and how they come to a folder.
//!
//! The only crate that speaks HTTP. What lies in a folder at the end was checked, byte for byte, against digests
//! that others published; nothing that a server sends can write anywhere else, or more than is known beforehand.

mod catalogue;
mod digest;
mod download;
mod error;
mod fetch;
mod http;
mod lock;
mod progress;
mod receipt;
mod source;
mod tar;
mod unpack;
mod verify;

pub use catalogue::{Archive, CIFAR_10, CIFAR_100, FASHION_MNIST, KnownFile, MNIST, Packing, PublicDataSet};
pub use error::{FetchError, Refusal};
pub use fetch::{Errand, Fetched, fetch};
pub use http::Patience;
pub use progress::FetchProgress;
pub use source::DownloadSource;
pub use verify::{FileState, Finding, verify};
