//! A TorchScript file as the driver needs to know it: its layers and tensors, found by running it once on made-up examples.

use super::file::{Contents, Mode, reason};
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
    trial.check_each_used_once(&layers)?;
    trial.check_stateless(&contents, input)?;
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
        let y = self.module.method_ts(name, &[&x]).map_err(|error| {
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

    fn check_each_used_once(&self, layers: &[Found]) -> Result<(), ModelError> {
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
        Ok(())
    }

    /// A model that has seen examples in training must score as before with the same weights: what else it remembers stays on
    /// its rank, and no strategy averages it.
    fn check_stateless(&self, contents: &Contents, input: Shape) -> Result<(), ModelError> {
        let mut module = contents.module(self.file, Mode::Evaluation)?;
        let compare = || -> Result<bool, TchError> {
            let x = examples(input)?;
            let before = scores(&module, &x)?;
            module.f_set_train()?;
            let _ = scores(&module, &x.f_mul_scalar(2.0)?.f_add_scalar(1.0)?)?;
            module.f_set_eval()?;
            before.f_equal(&scores(&module, &x)?)
        };
        let same = tch::no_grad(compare).map_err(|error| self.failed(&error))?;
        if same {
            return Ok(());
        }
        Err(self.unsuited(
            "it changes more than its weights in training, as batch normalisation does; take `nn.GroupNorm`, or batch \
             normalisation with `track_running_stats=False`"
                .to_owned(),
        ))
    }
}

/// Why there is no layer.
enum Missed {
    NoMethod,
    Failed(ModelError),
}

fn scores(module: &CModule, x: &Tensor) -> Result<Tensor, TchError> {
    let mut y = x.shallow_clone();
    for number in 0..MOST_STAGES {
        match module.method_ts(&format!("stage{number}"), &[&y]) {
            Ok(next) => y = next,
            Err(_) if number == 0 => return module.forward_ts(&[x]),
            Err(_) => break,
        }
    }
    Ok(y)
}

/// Made-up examples, the same each time.
fn examples(input: Shape) -> Result<Tensor, TchError> {
    tch::manual_seed(0);
    Tensor::f_randn(dimensions(ROWS, input), (Kind::Float, Device::Cpu))
}
