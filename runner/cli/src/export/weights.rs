//! Models as safetensors: the length of the header (u64, little endian), the header in JSON, then the tensors' bytes.
//!
//! A snapshot of a run is its weights as little-endian 32-bit floats, one after another, in the order of the
//! model's parameters: exactly what the format puts behind its head. So a head is all that has to be made, and
//! size is no matter. Frozen weights, which all snapshots of a run share, follow from a file of their own. Source: the
//! description of the format (Hugging Face, safetensors 0.x).

use super::unwritable;
use crate::exit::{Exit, Failure};
use recipe::{LayeredModel, Model};
use record::FROZEN;
use serde::Serialize;
use serde::ser::SerializeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use store::KeptModel;

/// Bytes of a weight.
const FLOAT: usize = 4;
/// The head is padded to a multiple of this, so that tensors begin where their values may be read in place.
const ALIGNMENT: usize = 8;

/// Writes a snapshot of a run to `file`.
pub(crate) fn write(
    model: &Model,
    kept: &KeptModel,
    about: &[(&str, String)],
    file: &Path,
) -> Result<(), Failure> {
    let unreadable = |error: &io::Error| {
        Failure::new(Exit::Internal, format!("{} cannot be read: {error}", kept.path.display()))
    };
    let mut weights = File::open(&kept.path).map_err(|error| unreadable(&error))?;
    let found = weights.metadata().map_err(|error| unreadable(&error))?.len();
    let expected = model.parameter_count() * FLOAT;
    if found != expected as u64 {
        let path = kept.path.display();
        let what = format!("{path} has {found} bytes; the model's weights take {expected}");
        return Err(
            Failure::new(Exit::Store, what).cure("the file was cut or changed; run it again with --fresh")
        );
    }
    let frozen = frozen(model, &kept.path)?;
    let mut out = BufWriter::new(File::create(file).map_err(|error| unwritable(file, &error))?);
    let copied = out.write_all(&head(model, about)).and_then(|()| io::copy(&mut weights, &mut out));
    let all = copied.and_then(|_| out.write_all(&frozen));
    all.and_then(|()| out.flush()).map_err(|error| unwritable(file, &error))
}

/// The weights that are not trained, from the file beside a snapshot.
fn frozen(model: &Model, snapshot: &Path) -> Result<Vec<u8>, Failure> {
    let expected = model.drawn_frozen_weights() * FLOAT;
    if expected == 0 {
        return Ok(Vec::new());
    }
    let path = frozen_file(snapshot);
    let bytes = std::fs::read(&path).map_err(|error| {
        let what = format!("{}, the weights that are not trained, cannot be read: {error}", path.display());
        Failure::new(Exit::Store, what).cure("run it again with --fresh")
    })?;
    if bytes.len() != expected {
        let path = path.display();
        let found = bytes.len();
        let what = format!("{path} has {found} bytes; the weights that are not trained take {expected}");
        return Err(
            Failure::new(Exit::Store, what).cure("the file was cut or changed; run it again with --fresh")
        );
    }
    Ok(bytes)
}

/// The file of them in the attempt of a snapshot, or in another of its run: they are the same, and an attempt that was continued
/// before it evaluated a model has none.
fn frozen_file(snapshot: &Path) -> PathBuf {
    let attempt = snapshot.parent().and_then(Path::parent).unwrap_or(snapshot);
    let attempts = std::fs::read_dir(attempt.parent().unwrap_or(attempt)).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> =
        attempts.map(|other| other.path().join(FROZEN)).filter(|file| file.exists()).collect();
    files.sort();
    let own = attempt.join(FROZEN);
    if own.exists() { own } else { files.pop().unwrap_or(own) }
}

/// Everything before the tensors' bytes.
fn head(model: &Model, about: &[(&str, String)]) -> Vec<u8> {
    let mut json = serde_json::to_vec(&Head { model, about })
        .unwrap_or_else(|error| unreachable!("names and numbers are plain data: {error}"));
    json.resize(json.len().next_multiple_of(ALIGNMENT), b' ');
    [&(json.len() as u64).to_le_bytes()[..], &json].concat()
}

/// The head's JSON: an entry for each parameter, in the order of the weights.
struct Head<'a> {
    model: &'a Model,
    about: &'a [(&'a str, String)],
}

/// Where a tensor lies.
#[derive(Serialize)]
struct TensorHeader<'a> {
    dtype: &'static str,
    shape: &'a [usize],
    data_offsets: [usize; 2],
}

impl Serialize for Head<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        let about: std::collections::BTreeMap<&str, &str> =
            self.about.iter().map(|(name, value)| (*name, value.as_str())).collect();
        map.serialize_entry("__metadata__", &about)?;
        let mut at = 0;
        let frozen = self.model.layered().map(LayeredModel::frozen_tensors).unwrap_or_default();
        for parameter in self.model.tensors().chain(frozen) {
            let end = at + parameter.size() * FLOAT;
            let entry = TensorHeader { dtype: "F32", shape: &parameter.shape, data_offsets: [at, end] };
            map.serialize_entry(&parameter.name, &entry)?;
            at = end;
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use recipe::{Layer, ModelKind, Parameter, PlacedLayer, Shape};
    use record::{Nanos, Rank};
    use safetensors::SafeTensors;

    fn model() -> Model {
        let parameter = |name: &str, shape: &[usize]| Parameter { name: name.into(), shape: shape.into() };
        let layer = |name: &str, parameters| PlacedLayer {
            name: name.into(),
            layer: Layer::Relu,
            input: Shape::Flat(2),
            output: Shape::Flat(3),
            parameters,
            flops: 0,
            paths: recipe::Paths::default(),
        };
        Model::Layers(LayeredModel {
            kind: ModelKind::Sequential,
            input: Shape::Flat(2),
            classes: 3,
            init: recipe::Init::Pytorch,
            layers: vec![
                layer("conv1", vec![parameter("conv1.weight", &[3, 1, 1, 2]), parameter("conv1.bias", &[3])]),
                layer("relu1", vec![]),
                layer("linear1", vec![parameter("linear1.weight", &[1, 2])]),
            ],
        })
    }

    fn kept(path: &Path) -> KeptModel {
        let model = "rank 0".to_owned();
        KeptModel {
            path: path.into(),
            rank: Rank(0),
            model,
            step: 0,
            samples: 0,
            at: Nanos(0),
            last: false,
            ended: false,
        }
    }

    #[test]
    fn another_program_reads_names_shapes_and_every_bit() {
        let folder = tempfile::tempdir().unwrap();
        let raw = folder.path().join("step-0.f32");
        let file = folder.path().join("initial.safetensors");
        let mut values: Vec<f32> = (0..11).map(|place| place as f32 / 3.0).collect();
        (values[4], values[5]) = (f32::NAN, -0.0);
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        std::fs::write(&raw, &bytes).unwrap();
        write(&model(), &kept(&raw), &[("step", "0".into()), ("model", "rank \"0\"".into())], &file).unwrap();
        let written = std::fs::read(&file).unwrap();
        assert_eq!((written.len() - bytes.len()) % ALIGNMENT, 0);
        let (_, about) = SafeTensors::read_metadata(&written).unwrap();
        assert_eq!(about.metadata().as_ref().unwrap()["model"], "rank \"0\"");
        let read = SafeTensors::deserialize(&written).unwrap();
        assert_eq!(read.len(), 3);
        for (name, shape, span) in [
            ("conv1.weight", &[3, 1, 1, 2][..], 0..24),
            ("conv1.bias", &[3], 24..36),
            ("linear1.weight", &[1, 2], 36..44),
        ] {
            let tensor = read.tensor(name).unwrap();
            assert_eq!((tensor.shape(), tensor.data()), (shape, &bytes[span]), "{name}");
        }
    }

    #[test]
    fn a_file_of_another_length_is_refused_and_nothing_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let raw = folder.path().join("step-0.f32");
        let file = folder.path().join("initial.safetensors");
        std::fs::write(&raw, [0; 43]).unwrap();
        let Err(Failure::Fault { error, .. }) = write(&model(), &kept(&raw), &[], &file) else {
            panic!("written")
        };
        assert!(error.to_string().ends_with("has 43 bytes; the model's weights take 44"), "{error}");
        assert!(!file.exists());
    }
}
