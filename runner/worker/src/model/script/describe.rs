//! A TorchScript file as the driver needs to know it: its layers and tensors, found by running it once on made-up examples.

use super::file::{Contents, Mode, own, reason};
use crate::model::ModelError;
use crate::model::tensors::dimensions;
use recipe::{FileLayer, ModelLayout, Parameter, Shape};
use std::collections::BTreeMap;
use std::path::Path;
use tch::{CModule, Device, Kind, TchError, Tensor};

/// Examples of a trial. More than one, so that a model which forgets the rows is found.
const ROWS: i64 = 3;
/// Stages of a module, at most: a name that never ends must.
const MOST_STAGES: usize = 10_000;

/// Describes the model in `file`, which takes examples of the shape `input`.
///
/// # Errors
/// The file is no TorchScript module, cannot take such examples, or cannot be trained layer by layer.
pub fn describe(file: &Path, input: Shape) -> Result<ModelLayout, ModelError> {
    let contents = Contents::read(file)?;
    let module = contents.module(file, Mode::Training)?;
    let trial = Trial { file, module };
    let layers = trial.layers(input)?;
    let classes = layers.last().map_or(0, |found| found.width);
    trial.check_each_tensor(&layers)?;
    trial.check_scores(&contents, input, &layers)?;
    let layers = layers.into_iter().map(|found| found.layer).collect();
    Ok(ModelLayout { sha256: contents.sha256, input, classes, layers })
}

struct Trial<'a> {
    file: &'a Path,
    module: CModule,
}

/// A layer that was run.
struct Found {
    layer: FileLayer,
    /// Values of a row that come out.
    width: usize,
}

impl Trial<'_> {
    fn failed(&self, error: &TchError) -> ModelError {
        ModelError::Script { file: self.file.into(), reason: reason(error) }
    }

    fn unsuited(&self, reason: String) -> ModelError {
        ModelError::Unsuited { file: self.file.into(), reason }
    }

    fn layers(&self, input: Shape) -> Result<Vec<Found>, ModelError> {
        let mut x = examples(input).map_err(|error| self.failed(&error))?;
        let mut found = Vec::new();
        while found.len() < MOST_STAGES {
            let name = format!("stage{}", found.len());
            match self.layer(&name, &x, found.is_empty()) {
                Ok((layer, y)) => {
                    found.push(layer);
                    x = y;
                }
                Err(Missed::NoMethod) => break,
                Err(Missed::Failed(error)) => return Err(error),
            }
        }
        if found.is_empty() {
            let (layer, y) = match self.layer("forward", &x, true) {
                Ok(found) => found,
                Err(Missed::NoMethod) => {
                    return Err(self.unsuited("it has neither a method `forward` nor `stage0`".to_owned()));
                }
                Err(Missed::Failed(error)) => return Err(error),
            };
            found.push(layer);
            x = y;
        }
        match x.size().as_slice() {
            [ROWS, classes] if *classes > 0 => Ok(found),
            other => Err(self.unsuited(format!(
                "of {ROWS} examples it makes a tensor of {other:?}; class scores are {ROWS} rows of one score per class"
            ))),
        }
    }

    /// Runs a method, and finds the tensors that it is trained by.
    fn layer(&self, name: &str, x: &Tensor, first: bool) -> Result<(Found, Tensor), Missed> {
        let failed = |error: TchError| Missed::Failed(self.failed(&error));
        let x = x.f_detach().and_then(|x| x.f_set_requires_grad(!first)).map_err(failed)?;
        let own = own(&x).map_err(failed)?;
        let y = self.module.method_ts(name, &[&own]).map_err(|error| {
            if error.to_string().contains(&format!("Method '{name}' is not defined")) {
                return Missed::NoMethod;
            }
            failed(error)
        })?;
        if y.size().first() != Some(&ROWS) || y.kind() != Kind::Float {
            let (size, kind) = (y.size(), y.kind());
            return Err(Missed::Failed(self.unsuited(format!(
                "`{name}` makes a tensor of {size:?} {kind:?} of {ROWS} examples; a row of 32-bit floats for each is wanted"
            ))));
        }
        let parameters = self.trained(name, &x, &y, first)?;
        let width = y.numel() / ROWS as usize;
        let layer = FileLayer { name: name.to_owned(), parameters, activations: width, flops: 0 };
        Ok((Found { layer, width }, y.f_detach().map_err(failed)?))
    }

    fn trained(&self, name: &str, x: &Tensor, y: &Tensor, first: bool) -> Result<Vec<Parameter>, Missed> {
        let failed = |error: TchError| Missed::Failed(self.failed(&error));
        let unsuited = |reason: String| Missed::Failed(self.unsuited(reason));
        let named = self.module.named_parameters().map_err(failed)?;
        let named: Vec<(String, Tensor)> =
            named.into_iter().filter(|(_, tensor)| tensor.requires_grad()).collect();
        let mut leaves: Vec<&Tensor> = named.iter().map(|(_, tensor)| tensor).collect();
        leaves.extend((!first).then_some(x));
        let gradients = if y.requires_grad() && !leaves.is_empty() {
            let sum = y.f_sum(Kind::Float).map_err(failed)?;
            Tensor::f_run_backward(&[sum], &leaves, false, false).map_err(failed)?
        } else {
            Vec::new()
        };
        let reached = |place: usize| gradients.get(place).is_some_and(Tensor::defined);
        let mut parameters = Vec::new();
        for (place, (name, tensor)) in named.iter().enumerate().filter(|(place, _)| reached(*place)) {
            if tensor.kind() != Kind::Float || tensor.device() != Device::Cpu || tensor.numel() == 0 {
                let kind = tensor.kind();
                return Err(unsuited(format!("its tensor `{name}` is {kind:?}; weights are 32-bit floats")));
            }
            debug_assert!(place < leaves.len());
            let shape = tensor.size().iter().map(|side| *side as usize).collect();
            parameters.push(Parameter { name: name.clone(), shape });
        }
        if parameters.is_empty() {
            let rest =
                if name == "forward" { "there is nothing to train" } else { "join it with another stage" };
            return Err(unsuited(format!("`{name}` has no weights that are trained; {rest}")));
        }
        if !first && !reached(named.len()) {
            return Err(unsuited(format!(
                "no gradient passes `{name}`, so that the stages below it learn nothing"
            )));
        }
        Ok(parameters)
    }

    /// Each tensor that asks for a gradient is trained by one layer, under one name.
    fn check_each_tensor(&self, layers: &[Found]) -> Result<(), ModelError> {
        let mut users: BTreeMap<&str, &str> = BTreeMap::new();
        for Found { layer, .. } in layers {
            for parameter in &layer.parameters {
                if let Some(other) = users.insert(&parameter.name, &layer.name) {
                    return Err(self.unsuited(format!(
                        "`{}` is used by `{other}` and by `{}`; put what shares weights into one stage",
                        parameter.name, layer.name
                    )));
                }
            }
        }
        let mut places: BTreeMap<usize, String> = BTreeMap::new();
        for (name, tensor) in self.module.named_parameters().map_err(|error| self.failed(&error))? {
            if !tensor.requires_grad() {
                continue;
            }
            if !users.contains_key(name.as_str()) {
                return Err(self.unsuited(format!(
                    "no gradient reaches `{name}`; let each call use it, or freeze it by `requires_grad_(False)`"
                )));
            }
            if let Some(other) = places.insert(tensor.data_ptr() as usize, name.clone()) {
                return Err(self.unsuited(format!(
                    "`{other}` and `{name}` are one tensor; name it once, as in `F.linear(x, self.embedding.weight)`"
                )));
            }
        }
        Ok(())
    }

    /// A model that has seen examples in training must score as before with the same weights, since what else it remembers stays on
    /// its rank and no strategy averages it; and each example must be scored by itself, since batches are cut anywhere.
    fn check_scores(&self, contents: &Contents, input: Shape, layers: &[Found]) -> Result<(), ModelError> {
        let mut module = contents.module(self.file, Mode::Evaluation)?;
        let names: Vec<&str> = layers.iter().map(|found| found.layer.name.as_str()).collect();
        let judge = || -> Result<(bool, bool), TchError> {
            let x = examples(input)?;
            let before = scores(&module, &names, &x)?;
            module.f_set_train()?;
            let _ = scores(&module, &names, &x.f_mul_scalar(0.5)?.f_add_scalar(0.25)?)?;
            module.f_set_eval()?;
            let same = before.f_allclose(&scores(&module, &names, &x)?, 0.0, 0.0, true)?;
            let mut alone = Vec::new();
            for row in 0..ROWS {
                alone.push(scores(&module, &names, &x.f_narrow(0, row, 1)?)?);
            }
            let alone = Tensor::f_cat(&alone, 0)?;
            Ok((same, before.f_allclose(&alone, 1e-3, 1e-4, true)?))
        };
        match tch::no_grad(judge) {
            Ok((true, true)) => Ok(()),
            Ok((false, _)) => Err(self.unsuited(
                "it changes more than its weights in training, as batch normalisation does, or scores at random; take \
                 `nn.GroupNorm`"
                    .to_owned(),
            )),
            Ok((true, false)) => Err(self.unsuited(
                "the scores of an example depend on the others of its batch, as with batch normalisation; take \
                 `nn.GroupNorm`"
                    .to_owned(),
            )),
            Err(error) => Err(self.failed(&error)),
        }
    }
}

/// Why there is no layer.
enum Missed {
    NoMethod,
    Failed(ModelError),
}

/// What a module makes of a copy of `x`, which its methods may change.
fn scores(module: &CModule, methods: &[&str], x: &Tensor) -> Result<Tensor, TchError> {
    let mut y = x.f_mul_scalar(1.0)?;
    for method in methods {
        y = module.method_ts(method, &[&y])?;
    }
    Ok(y)
}

/// Made-up examples from 0 to 1, the same each time: logarithms, and numbers of tokens, can be taken of them.
fn examples(input: Shape) -> Result<Tensor, TchError> {
    tch::manual_seed(0);
    Tensor::f_rand(dimensions(ROWS, input), (Kind::Float, Device::Cpu))
}
