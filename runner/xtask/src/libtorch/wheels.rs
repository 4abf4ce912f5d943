//! libtorch out of the official Python packages: 544 MB to download instead of PyTorch's several gigabytes.
//!
//! The package for Python holds the C++ headers and the CPU library too. That library imports a few functions of two
//! small CUDA libraries, for its profiler; they come from their own packages. No GPU library is kept, so nothing links
//! against one.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::python::Wanted;
use super::{layout, python};
use crate::checksum;

/// One Python package in one exact build.
struct Wheel {
    package: &'static str,
    file: &'static str,
    platform: &'static str,
    /// SHA-256 of the file, as the package index publishes it.
    digest: &'static str,
    megabytes: u32,
    wanted: Wanted,
}

/// The version of each CUDA library is the one that the first package names as its dependency.
const WHEELS: [Wheel; 3] = [
    Wheel {
        package: "torch==2.11.0",
        file: "torch-2.11.0-cp311-cp311-manylinux_2_28_x86_64.whl",
        platform: "manylinux_2_28_x86_64",
        digest: "7aa2f9bbc6d4595ba72138026b2074be1233186150e9292865e04b7a63b8c67a",
        megabytes: 531,
        wanted: &[
            ("torch/include/", "include/"),
            ("torch/lib/libtorch_cpu.so", "lib/libtorch_cpu.so"),
            ("torch/lib/libc10.so", "lib/libc10.so"),
            ("torch/lib/libgomp.so.1", "lib/libgomp.so.1"),
        ],
    },
    Wheel {
        package: "nvidia-cuda-runtime==13.0.96",
        file: "nvidia_cuda_runtime-13.0.96-py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64.whl",
        platform: "manylinux2014_x86_64",
        digest: "7f82250d7782aa23b6cfe765ecc7db554bd3c2870c43f3d1821f1d18aebf0548",
        megabytes: 2,
        wanted: &[("nvidia/cu13/lib/libcudart.so.13", "lib/libcudart.so.13")],
    },
    Wheel {
        package: "nvidia-cuda-cupti==13.0.85",
        file: "nvidia_cuda_cupti-13.0.85-py3-none-manylinux_2_25_x86_64.whl",
        platform: "manylinux_2_25_x86_64",
        digest: "4eb01c08e859bf924d222250d2e8f8b8ff6d3db4721288cf35d14252a4d933c8",
        megabytes: 11,
        wanted: &[("nvidia/cu13/lib/libcupti.so.13", "lib/libcupti.so.13")],
    },
];

/// Fills `partial` from the packages.
pub(super) fn bring(partial: &Path) -> Result<()> {
    let downloads = python::downloads(partial)?;
    for wheel in &WHEELS {
        let path = obtain(&downloads.join(wheel.file), wheel, || {
            python::download_package(partial, wheel.package, wheel.platform)
        })?;
        println!("  unpacking {}", wheel.file);
        python::unpack(&path, partial, wheel.wanted)?;
    }
    layout::complete(partial, &format!("{}+cpu", layout::VERSION))
}

/// A file whose digest is right: one that is already there, else a download, else one more download.
fn obtain(path: &Path, wheel: &Wheel, mut download: impl FnMut() -> Result<()>) -> Result<PathBuf> {
    if path.exists() && is_sound(path, wheel)? {
        return Ok(path.to_owned());
    }
    for attempt in ["downloading", "downloading once more:"] {
        println!("  {attempt} {} ({} MB)", wheel.package, wheel.megabytes);
        match download() {
            Ok(()) if path.exists() => {
                if is_sound(path, wheel)? {
                    return Ok(path.to_owned());
                }
            }
            Ok(()) => bail!("pip brought another file than {}", wheel.file),
            Err(error) => println!("  {error:#}"),
        }
    }
    bail!("{} could not be downloaded intact, twice", wheel.package)
}

/// Whether the file has the right digest; one that has not is deleted.
fn is_sound(path: &Path, wheel: &Wheel) -> Result<bool> {
    let digest = checksum::sha256(path)?;
    if digest == wheel.digest {
        return Ok(true);
    }
    println!("  {} is broken: its SHA-256 is {digest}, not {}; deleting it", wheel.file, wheel.digest);
    fs::remove_file(path).with_context(|| format!("cannot remove {}", path.display()))?;
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// FIPS 180-2, appendix B: the digest of "abc".
    const ABC: Wheel = Wheel {
        package: "abc==1",
        file: "abc-1.whl",
        platform: "any",
        digest: "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
        megabytes: 0,
        wanted: &[],
    };

    /// Downloads the contents in turn (`None` is a download that fails) and says how many were asked for.
    fn obtained(present: Option<&str>, downloads: &[Option<&str>]) -> (Result<PathBuf>, usize) {
        let scratch = tempfile::tempdir().expect("a folder");
        let path = scratch.path().join(ABC.file);
        if let Some(content) = present {
            fs::write(&path, content).expect("written");
        }
        let mut asked = 0;
        let result = obtain(&path, &ABC, || {
            let content = downloads[asked];
            asked += 1;
            content.map(|content| fs::write(&path, content).expect("written")).context("no network")
        });
        assert_eq!(result.is_ok(), path.exists(), "a broken wheel does not stay");
        (result, asked)
    }

    #[test]
    fn a_broken_download_is_repeated_once() {
        for (present, downloads, succeeds, expected) in [
            (Some("abc"), &[][..], true, 0),
            (None, &[Some("abc")][..], true, 1),
            (Some("ab"), &[Some("abc")][..], true, 1),
            (None, &[Some("ab"), Some("abc")][..], true, 2),
            (None, &[None, Some("abc")][..], true, 2),
            (Some("ab"), &[Some("a"), Some("abc")][..], true, 2),
            (None, &[Some("ab"), Some("ab")][..], false, 2),
            (None, &[None, None][..], false, 2),
        ] {
            let (result, asked) = obtained(present, downloads);
            assert_eq!((result.is_ok(), asked), (succeeds, expected), "{present:?}, {downloads:?}");
        }
    }

    #[test]
    fn digests_are_whole() {
        for wheel in &WHEELS {
            assert_eq!(wheel.digest.len(), 64, "{}", wheel.file);
            assert!(wheel.file.contains(wheel.platform), "{}", wheel.file);
        }
    }
}
