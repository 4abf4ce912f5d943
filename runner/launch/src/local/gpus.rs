//! The GPUs of this machine, as NVIDIA's driver lists them and a queue of jobs leaves them.

use crate::node_facts::VISIBLE_GPUS;
use std::fs;
use std::path::Path;

/// A folder for each GPU, whose file `information` has a line with its model.
const LISTED: &str = "/proc/driver/nvidia/gpus";
/// Devices of GPUs that nothing lists: of containers without the driver's folder, of Tegra, and of Windows.
const UNLISTED: [&str; 3] = ["/dev/nvidiactl", "/dev/nvhost-gpu", "/dev/dxg"];

/// The models of the GPUs that a process may use; `None` where they are not listed although there may be some.
pub(super) fn gpus() -> Option<Vec<String>> {
    let listed = listed(Path::new(LISTED));
    if listed.is_empty() && UNLISTED.iter().any(|device| Path::new(device).exists()) {
        return None;
    }
    Some(match std::env::var(VISIBLE_GPUS) {
        Ok(names) => visible(&listed, &names),
        Err(_) => listed,
    })
}

/// Those of the GPUs that are named, in the order of the names. What follows a name that is none does not count, as CUDA has it.
fn visible(listed: &[String], names: &str) -> Vec<String> {
    let gpu = |name: &str| match name.trim() {
        // A number of its own, or of a part of a GPU.
        unique if unique.starts_with("GPU-") || unique.starts_with("MIG-") => Some("NVIDIA".to_owned()),
        number => listed.get(number.parse::<usize>().ok()?).cloned(),
    };
    names.split(',').map_while(gpu).collect()
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

/// The GPUs in words, equal ones together: `2 NVIDIA A100, NVIDIA T4`; empty where there is none.
pub(super) fn words(gpus: &[String]) -> String {
    let mut parts: Vec<(&str, usize)> = Vec::new();
    for gpu in gpus {
        match parts.iter_mut().find(|part| part.0 == gpu) {
            Some(part) => part.1 += 1,
            None => parts.push((gpu, 1)),
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
    fn gpus_are_read_in_their_order() {
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
    fn a_queue_leaves_some_of_the_gpus() {
        let listed = ["a".to_owned(), "b".to_owned()];
        let left = |names: &str| visible(&listed, names).join(" ");
        assert_eq!((left("1"), left("1,0"), left(" 0 , 1 ")), ("b".into(), "b a".into(), "a b".into()));
        assert_eq!((left(""), left("-1"), left("0,7,1")), (String::new(), String::new(), "a".into()));
        assert_eq!(left("GPU-8932f937,1"), "NVIDIA b");
    }

    #[test]
    fn equal_gpus_are_counted() {
        let words = |gpus: &[&str]| words(&gpus.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!((words(&[]), words(&["a"])), (String::new(), "a".to_owned()));
        assert_eq!(words(&["a", "b", "a"]), "2 a, b");
    }
}
