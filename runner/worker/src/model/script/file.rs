//! TorchScript files: loaded, checked against their description, and called.

use crate::model::ModelError;
use crate::model::flat::View;
use crate::model::script::moments::RunningMoments;
use recipe::{FileLayer, ModelFile, Parameter, hex};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::path::Path;
use sysinfo::System;
use tch::{Kind, TchError, Tensor};
use torch_native::{Mode, ScriptModule};

/// The bytes of a file, and their SHA-256 in hexadecimal.
pub(super) struct Contents {
    pub(super) bytes: Vec<u8>,
    pub(super) sha256: String,
}

impl Contents {
    pub(super) fn read(file: &Path) -> Result<Self, ModelError> {
        let unreadable = |reason: String| ModelError::Unreadable { file: file.into(), reason };
        let described = std::fs::metadata(file).map_err(|error| unreadable(error.to_string()))?;
        if !described.is_file() {
            return Err(unreadable("it is not a regular file".to_owned()));
        }
        check_size(described.len()).map_err(unreadable)?;
        let bytes = std::fs::read(file).map_err(|error| unreadable(error.to_string()))?;
        let sha256 = hex(&Sha256::digest(&bytes));
        Ok(Self { bytes, sha256 })
    }

    /// The module in the file.
    pub(super) fn module(&self, file: &Path, mode: Mode) -> Result<ScriptModule, ModelError> {
        run_as_written();
        let mut module = ScriptModule::read(&self.bytes)
            .map_err(|error| ModelError::NotTorchScript { file: file.into(), reason: reason(&error) })?;
        let set = module.set_mode(mode);
        set.map_err(|error| ModelError::Script { file: file.into(), reason: reason(&error) })?;
        Ok(module)
    }
}

/// The largest number of bytes that are read: all weights that a model can have, which are 32-bit floats, and the code.
const MOST_BYTES: u64 = (1 << 34) + (1 << 26);

/// Copies that loading takes at most: the bytes of the file twice, and the tensors in them.
const COPIES: u64 = 3;

/// Refuses a file that memory has no room for.
fn check_size(bytes: u64) -> Result<(), String> {
    if bytes > MOST_BYTES {
        return Err(format!("it has {bytes} bytes; at most {MOST_BYTES} are read"));
    }
    let mut system = System::new().map_err(|error| error.to_string())?;
    system.refresh_memory();
    let taken = bytes * COPIES;
    let available = system.available_memory();
    if taken > available {
        return Err(format!(
            "loading its {bytes} bytes takes {taken} bytes of memory, and {available} are free"
        ));
    }
    Ok(())
}

/// Operations of this thread's scripts run as they are written: an optimised graph would give other bits after its first calls, in
/// which it is profiled. libtorch keeps the setting for each thread.
pub(super) fn run_as_written() {
    tch::jit::set_graph_executor_optimize(false);
}

/// A module with the tensors that its description lists.
pub(super) struct Script {
    module: ScriptModule,
    /// Of each layer, in the order of the flat vector.
    tensors: Vec<Vec<Tensor>>,
    /// Of its batch norms.
    pub(super) moments: RunningMoments,
}

impl Script {
    /// Loads what `described` was described from, onto a GPU if one is given.
    ///
    /// # Errors
    /// The file is gone, has changed, or does not have these tensors.
    pub(super) fn load(described: &ModelFile, mode: Mode, gpu: Option<u32>) -> Result<Self, ModelError> {
        let ModelFile { file, layout } = described;
        let contents = Contents::read(file)?;
        if contents.sha256 != layout.sha256 {
            let found = contents.sha256;
            let expected = layout.sha256.clone();
            return Err(ModelError::Changed { file: file.clone(), found, expected });
        }
        let mut module = contents.module(file, mode)?;
        if let Some(gpu) = gpu {
            module.move_to_gpu(gpu).map_err(|error| ModelError::gpu(gpu, &error))?;
        }
        let failed = |error: TchError| ModelError::Script { file: file.clone(), reason: reason(&error) };
        let mut named: BTreeMap<String, Tensor> = module.parameters().map_err(failed)?.into_iter().collect();
        let mut tensors = Vec::with_capacity(layout.layers.len());
        for layer in &layout.layers {
            let own = layer.parameters.iter().map(|described| taken(&mut named, described, file));
            tensors.push(own.collect::<Result<Vec<Tensor>, ModelError>>()?);
        }
        // Tensors that are not listed stay as they are in the file.
        for frozen in named.into_values() {
            let _ = frozen.f_set_requires_grad(false).map_err(failed)?;
        }
        let moments = RunningMoments::of(&module).map_err(failed)?;
        Ok(Self { module, tensors, moments })
    }

    /// The values of all tensors, in the order of the flat vector.
    pub(super) fn values(&self) -> Result<Vec<f32>, TchError> {
        let mut values = Vec::new();
        for tensor in self.tensors.iter().flatten() {
            let begin = values.len();
            values.resize(begin + tensor.numel(), 0.0);
            tensor.f_detach()?.f_contiguous()?.f_copy_data(&mut values[begin..], tensor.numel())?;
        }
        Ok(values)
    }

    /// Writes a layer's weights over its tensors.
    pub(super) fn set(&mut self, layer: usize, weights: &[f32]) -> Result<(), TchError> {
        let mut begin = 0;
        for tensor in &mut self.tensors[layer] {
            let end = begin + tensor.numel();
            let Some(own) = weights.get(begin..end) else {
                return Err(TchError::Shape(format!("{} weights are too few for the layer", weights.len())));
            };
            let values = View::new(own, &tensor.size())?;
            tch::no_grad(|| tensor.f_copy_(&values))?;
            begin = end;
        }
        Ok(())
    }

    /// The tensors of a layer.
    pub(super) fn tensors(&self, layer: usize) -> &[Tensor] {
        &self.tensors[layer]
    }

    /// The result of a layer for the tensor `x`.
    pub(super) fn call(&self, layer: &FileLayer, x: &Tensor) -> Result<Tensor, TchError> {
        run_as_written();
        call(&self.module, &layer.name, &layer.children, x)
    }

    /// Whether batch norms normalise by the batch, and write its moments down.
    pub(super) fn set_mode_of_moments(&mut self, mode: Mode) -> Result<(), TchError> {
        self.module.set_mode_of_moments(mode)
    }
}

/// Calls a method, or modules inside one after the other, with one tensor.
pub(super) fn call(
    module: &ScriptModule,
    method: &str,
    children: &[String],
    x: &Tensor,
) -> Result<Tensor, TchError> {
    let Some((first, rest)) = children.split_first() else { return module.call(None, method, x) };
    let first = module.call(Some(first), "forward", x)?;
    rest.iter().try_fold(first, |x, child| module.call(Some(child), "forward", &x))
}

/// A tensor that a method may change in place, as `nn.ReLU(inplace=True)` does: a leaf of recorded operations cannot be
/// changed, and a tensor that the layer below has made is still needed there.
pub(super) fn own(input: &Tensor) -> Result<Tensor, TchError> {
    // A recorded copy, bit for bit.
    if input.requires_grad() { input.f_mul_scalar(1.0) } else { Ok(input.shallow_clone()) }
}

fn taken(
    named: &mut BTreeMap<String, Tensor>,
    described: &Parameter,
    file: &Path,
) -> Result<Tensor, ModelError> {
    let shape: Vec<i64> = described.shape.iter().map(|side| *side as i64).collect();
    let fits = |tensor: &Tensor| tensor.size() == shape && tensor.kind() == Kind::Float;
    named.remove(&described.name).filter(fits).ok_or_else(|| ModelError::Tensor {
        file: file.into(),
        name: described.name.clone(),
        shape: described.shape.clone(),
    })
}

/// The line of an error of libtorch that says what was wrong: its interpreter puts a trace of the script before it, and ends with
/// `RuntimeError: ...`, or with the exception that the script raises.
pub(super) fn reason(error: &TchError) -> String {
    let text = error.to_string();
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let told = lines.clone().rev().find_map(|line| line.split_once("Error: ").map(|(_, rest)| rest));
    told.or_else(|| lines.next()).unwrap_or("libtorch gave no reason").chars().take(300).collect()
}
