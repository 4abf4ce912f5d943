//! Where archives come from.

use std::path::PathBuf;

/// Where archives come from: each has the published files under their own names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DownloadSource {
    /// The address of a folder.
    Web(String),
    /// A folder of this machine.
    Folder(PathBuf),
}

impl DownloadSource {
    /// An address if it looks like one, else a folder.
    pub fn read(text: &str) -> Self {
        match text.split_once("://") {
            Some(("http" | "https", _)) => Self::Web(text.trim_end_matches('/').to_owned()),
            Some(("file", path)) => Self::Folder(path.into()),
            _ => Self::Folder(text.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_folders_are_told_apart() {
        assert_eq!(DownloadSource::read("http://a/b/"), DownloadSource::Web("http://a/b".into()));
        assert_eq!(DownloadSource::read("https://a"), DownloadSource::Web("https://a".into()));
        assert_eq!(DownloadSource::read("file:///a"), DownloadSource::Folder("/a".into()));
        assert_eq!(DownloadSource::read("../a"), DownloadSource::Folder("../a".into()));
    }
}
