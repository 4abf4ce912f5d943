//! Checks before the start whether the model files of a plan are what their layouts describe.

use crate::digest::digest;
use crate::{Concern, ConcernLevel};
use recipe::{Model, ModelFile, RunSpec};
use std::collections::BTreeSet;
use std::path::Path;

/// Reads each model file of these runs once and compares its digest with that of its layout. Returns a refusal for each file
/// that cannot be read or that differs; none for models of layers.
pub fn check_model_files(specs: &[&RunSpec]) -> Vec<Concern> {
    let files = specs.iter().filter_map(|spec| match &spec.model {
        Model::File(ModelFile { file, layout }) => Some((file.as_path(), layout.sha256.as_str())),
        Model::Layers(_) => None,
    });
    // Two layouts of one file that differ in the digest cannot both be right, so each is checked.
    let files: BTreeSet<(&Path, &str)> = files.collect();
    files.into_iter().filter_map(|(file, expected)| concern(file, expected)).collect()
}

fn concern(file: &Path, expected: &str) -> Option<Concern> {
    let path = file.display();
    let what = match digest(file) {
        Ok(found) if found == expected => return None,
        Ok(found) => {
            format!(
                "the model file {path} has changed since it was described: its SHA-256 is {found}, and was {expected}"
            )
        }
        Err(error) => format!("the model file {path} cannot be read: {error}"),
    };
    let cure = "give the command again, which describes the file anew, or put the file back".to_owned();
    Some(Concern { severity: ConcernLevel::Refusal, what, cure })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::spec;
    use recipe::{FileLayer, ModelLayout, Parameter, Shape};
    use std::fs;

    /// SHA-256 of `abc`: FIPS 180-2, appendix B.1.
    const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    fn trains(file: &Path, sha256: &str) -> RunSpec {
        let layer = FileLayer {
            name: "fc".into(),
            children: Vec::new(),
            parameters: vec![Parameter { name: "fc.weight".into(), shape: vec![10, 784] }],
            activations: 1 << 20,
            kept: 0,
            flops: 15_680,
        };
        let layout = ModelLayout {
            sha256: sha256.into(),
            input: Shape::Image(1, 28, 28),
            classes: 10,
            layers: vec![layer],
            frozen: 0,
            needs_two_rows: false,
        };
        RunSpec { model: Model::File(ModelFile { file: file.into(), layout }), ..spec(2) }
    }

    #[test]
    fn a_file_of_another_digest_is_refused_with_both_digests_and_the_cure() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("net.pt");
        fs::write(&file, "abc").unwrap();
        let described = trains(&file, ABC);
        assert_eq!(check_model_files(&[&described, &described, &spec(4)]), []);
        fs::write(&file, "abd").unwrap();
        let concerns = check_model_files(&[&described, &described, &spec(4)]);
        let [Concern { severity: ConcernLevel::Refusal, what, cure }] = &concerns[..] else {
            panic!("{concerns:?}")
        };
        let found = digest(&file).unwrap();
        let path = file.display();
        assert_eq!(
            *what,
            format!(
                "the model file {path} has changed since it was described: its SHA-256 is {found}, and was {ABC}"
            )
        );
        assert!(cure.contains("the command again"), "{cure}");
        fs::remove_file(&file).unwrap();
        let gone = check_model_files(&[&described]);
        assert!(gone[0].what.contains("cannot be read: No such file"), "{gone:?}");
    }

    #[test]
    fn the_layout_of_a_file_decides_the_memory_that_a_run_needs() {
        let free = |memory| crate::FreeResources { cores: 64, memory, disk: 1 << 40, gpus: None };
        let spec = trains(Path::new("net.pt"), ABC);
        let concerns = crate::preflight(
            &[&spec],
            crate::Free { here: free(1), of: &|_| None },
            &crate::Inventory::default(),
        );
        // 64 of a batch on two workers: 32 x 2 x 4 bytes x 2^20 activations.
        assert!(concerns[0].what.contains("256 MiB of activations"), "{concerns:?}");
    }
}
