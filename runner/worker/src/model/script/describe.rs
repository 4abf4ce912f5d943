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
            let place = if found.is_empty() { Place::Lowest } else { Place::AboveOthers };
            match self.layer(&name, &x, place) {
                Ok((layer, y)) => {
                    found.push(layer);
                    x = y;
                }
                Err(Missed::NoMethod) => break,
                Err(Missed::Failed(error)) => return Err(error),
            }
        }
        if found.is_empty() {
            let (layer, y) = match self.layer("forward", &x, Place::Lowest) {
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
    fn layer(&self, name: &str, x: &Tensor, place: Place) -> Result<(Found, Tensor), Missed> {
        let failed = |error: TchError| Missed::Failed(self.failed(&error));
        let x =
            x.f_detach().and_then(|x| x.f_set_requires_grad(place == Place::AboveOthers)).map_err(failed)?;
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
        let parameters = self.trained(name, &x, &y, place)?;
        let width = y.numel() / ROWS as usize;
        let layer = FileLayer { name: name.to_owned(), parameters, activations: width, flops: 0 };
        Ok((Found { layer, width }, y.f_detach().map_err(failed)?))
    }

    fn trained(&self, name: &str, x: &Tensor, y: &Tensor, place: Place) -> Result<Vec<Parameter>, Missed> {
        let first = place == Place::Lowest;
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
        let mut parameters = Vec::new();
        let trained = named.iter().zip(&gradients).filter(|(_, gradient)| gradient.defined());
        for ((name, tensor), _) in trained {
            if tensor.kind() != Kind::Float {
                let kind = tensor.kind();
                return Err(unsuited(format!("its tensor `{name}` is {kind:?}; weights are 32-bit floats")));
            }
            if tensor.numel() == 0 {
                return Err(unsuited(format!("its tensor `{name}` has no values; leave it out")));
            }
            let shape = tensor.size().iter().map(|side| *side as usize).collect();
            parameters.push(Parameter { name: name.clone(), shape });
        }
        if parameters.is_empty() {
            let rest =
                if name == "forward" { "there is nothing to train" } else { "join it with another stage" };
            return Err(unsuited(format!("`{name}` has no weights that are trained; {rest}")));
        }
        if !first && !gradients.get(named.len()).is_some_and(Tensor::defined) {
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

    /// A model that has seen examples in training must behave as before with the same weights, since what else it remembers stays on
    /// its rank and no strategy averages it; each example must be scored by itself, since batches are cut anywhere; and stages must be
    /// what `forward` is, which gets the weights back.
    fn check_scores(&self, contents: &Contents, input: Shape, layers: &[Found]) -> Result<(), ModelError> {
        let mut module = contents.module(self.file, Mode::Evaluation)?;
        let names: Vec<&str> = layers.iter().map(|found| found.layer.name.as_str()).collect();
        let failed = |error: TchError| self.failed(&error);
        let x = examples(input).map_err(failed)?;
        let scored = |module: &CModule, x: &Tensor| scores(module, &names, x).map_err(failed);
        let before = scored(&module, &x)?;
        module.f_set_train().map_err(failed)?;
        let trained = scored(&module, &x)?;
        let other = x.f_mul_scalar(0.5).and_then(|x| x.f_add_scalar(0.25)).map_err(failed)?;
        let _ = scored(&module, &other)?;
        if !equal(&trained, &scored(&module, &x)?).map_err(failed)? {
            return Err(self.unsuited(REMEMBERS.to_owned()));
        }
        module.f_set_eval().map_err(failed)?;
        if !equal(&before, &scored(&module, &x)?).map_err(failed)? {
            return Err(self.unsuited(REMEMBERS.to_owned()));
        }
        let alone = (0..ROWS).map(|row| scores(&module, &names, &x.f_narrow(0, row, 1)?));
        let alone = alone.collect::<Result<Vec<Tensor>, TchError>>().map_err(|error| {
            self.unsuited(format!("an example cannot be scored without others: {}; {CURE}", reason(&error)))
        })?;
        if !Tensor::f_cat(&alone, 0).and_then(|alone| close(&before, &alone)).map_err(failed)? {
            let told =
                "the scores of an example depend on the others of its batch, as with batch normalisation";
            return Err(self.unsuited(format!("{told}; {CURE}")));
        }
        self.check_forward(&module, &x, &before)
    }

    /// A module of stages alone needs no `forward`.
    fn check_forward(&self, module: &CModule, x: &Tensor, by_stages: &Tensor) -> Result<(), ModelError> {
        let own = x.f_mul_scalar(1.0).map_err(|error| self.failed(&error))?;
        tch::manual_seed(0);
        match module.forward_ts(&[own]) {
            Err(error) if error.to_string().contains("Method 'forward' is not defined") => Ok(()),
            Err(error) => Err(self.failed(&error)),
            Ok(whole) => match close(&whole, by_stages) {
                Ok(true) => Ok(()),
                _ => Err(self.unsuited("`forward` is not its stages one after the other".to_owned())),
            },
        }
    }
}

/// What is no number equals itself.
const NAN_EQUALS_NAN: bool = true;
const CURE: &str = "take `nn.GroupNorm`";
const REMEMBERS: &str =
    "it changes more than its weights in training, as batch normalisation does; take `nn.GroupNorm`";

/// Whether two tensors have the same values.
fn equal(one: &Tensor, other: &Tensor) -> Result<bool, TchError> {
    one.f_allclose(other, 0.0, 0.0, NAN_EQUALS_NAN)
}

/// Whether two tensors have the same values but for rounding.
fn close(one: &Tensor, other: &Tensor) -> Result<bool, TchError> {
    Ok(one.size() == other.size() && one.f_allclose(other, 1e-3, 1e-4, NAN_EQUALS_NAN)?)
}

/// Where a layer is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Lowest,
    AboveOthers,
}

/// Why there is no layer.
enum Missed {
    NoMethod,
    Failed(ModelError),
}

/// What a module makes of a copy of `x`, which its methods may change.
fn scores(module: &CModule, methods: &[&str], x: &Tensor) -> Result<Tensor, TchError> {
    tch::no_grad(|| {
        // What is random is the same each time.
        tch::manual_seed(0);
        let mut y = x.f_mul_scalar(1.0)?;
        for method in methods {
            y = module.method_ts(method, &[&y])?;
        }
        Ok(y)
    })
}

/// Made-up examples from 0 to 1, the same each time: logarithms, and numbers of tokens, can be taken of them.
fn examples(input: Shape) -> Result<Tensor, TchError> {
    tch::manual_seed(0);
    Tensor::f_rand(dimensions(ROWS, input), (Kind::Float, Device::Cpu))
}
