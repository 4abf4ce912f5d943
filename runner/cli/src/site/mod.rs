//! A static site as files, written into a folder or onto a branch of a repository.

pub(crate) mod branch;
pub(crate) mod folder;
mod manifest;

/// A file of a site.
#[derive(Debug)]
pub(crate) struct SiteFile {
    /// Relative to the site, with `/`.
    pub(crate) path: String,
    pub(crate) text: String,
}
