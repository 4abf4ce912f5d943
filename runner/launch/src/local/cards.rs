//! The graphics cards of this machine, as NVIDIA's driver lists them.

use std::fs;
use std::path::Path;

/// A folder for each card, whose file `information` has a line with its model.
const LISTED: &str = "/proc/driver/nvidia/gpus";
/// Windows passes cards into its Linux without listing them.
const OF_WINDOWS: &str = "/dev/dxg";

/// The models of the cards; `None` where they are not listed although there may be some.
pub(super) fn cards() -> Option<Vec<String>> {
    let listed = listed(Path::new(LISTED));
    let unknown = listed.is_empty() && Path::new(OF_WINDOWS).exists();
    (!unknown).then_some(listed)
}

fn listed(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut folders: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    folders.sort();
    let model = |path: &std::path::PathBuf| {
        let text = fs::read_to_string(path.join("information")).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("Model:"));
        line.map_or_else(|| "NVIDIA".to_owned(), |model| model.trim().to_owned())
    };
    folders.iter().map(model).collect()
}

/// The cards in words, equal ones together: `2 NVIDIA A100, NVIDIA T4`; empty where there is none.
pub(super) fn words(cards: &[String]) -> String {
    let mut parts: Vec<(&str, usize)> = Vec::new();
    for card in cards {
        match parts.iter_mut().find(|part| part.0 == card) {
            Some(part) => part.1 += 1,
            None => parts.push((card, 1)),
        }
    }
    let part = |part: &(&str, usize)| match part.1 {
        1 => part.0.to_owned(),
        more => format!("{more} {}", part.0),
    };
    parts.iter().map(part).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cards_are_read_in_their_order() {
        let folder = tempfile::tempdir().unwrap();
        let files = [("0000:01:00.0", "Model: \t\t NVIDIA A100\nIRQ: 4\n"), ("0000:00:06.0", "IRQ: 4\n")];
        for (name, text) in files {
            fs::create_dir(folder.path().join(name)).unwrap();
            fs::write(folder.path().join(name).join("information"), text).unwrap();
        }
        assert_eq!(listed(folder.path()), ["NVIDIA", "NVIDIA A100"]);
        assert!(listed(Path::new("/nowhere")).is_empty());
    }

    #[test]
    fn equal_cards_are_counted() {
        let words = |cards: &[&str]| words(&cards.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!((words(&[]), words(&["a"])), (String::new(), "a".to_owned()));
        assert_eq!(words(&["a", "b", "a"]), "2 a, b");
    }
}
