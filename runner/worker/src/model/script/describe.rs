//! A TorchScript file as the driver needs to know it: its layers and tensors, found by running it once on made-up examples.

use super::file::{Contents, call, own, reason};
use super::moments::RunningMoments;
use crate::model::ModelError;
use crate::model::tensors::dimensions;
use recipe::{FileLayer, ModelLayout, Parameter, Shape};
use std::collections::BTreeMap;
use std::path::Path;
use tch::{Device, Kind, TchError, Tensor};
use torch_native::{Mode, ScriptModule, kept_bytes};

/// Examples of a trial. More than one, so that a model which forgets the rows is found.
const ROWS: i64 = 3;
/// All of a module.
const FORWARD: &str = "forward";
/// Names behind the last stage that are looked for: who counts from 1, or leaves one out.
const STAGES_LOOKED_FOR: usize = 2;

/// Describes the model in `file`, which takes examples of the shape `input`.
///
/// # Errors
/// The file is no TorchScript module, cannot take such examples, or cannot be trained layer by layer.
pub fn describe(file: &Path, input: Shape) -> Result<ModelLayout, ModelError> {
    let contents = Contents::read(file)?;
    let module = contents.module(file, Mode::Training)?;
    let trial = Trial { file, module };
    trial.check_hooks()?;
    match trial.layout(&contents, input, trial.callees()?) {
        // A sequence is cut where that does no harm: what it does between its modules, or shares, is no error.
        Err(_) if trial.module.is_sequential() && trial.module.has_method(FORWARD) => {
            trial.layout(&contents, input, vec![Callee::method(FORWARD.to_owned())])
        }
        described => described,
    }
}

struct Trial<'a> {
    file: &'a Path,
    module: ScriptModule,
}

/// Code that a layer calls: a method of the module, or modules inside one after the other.
struct Callee {
    name: String,
    children: Vec<String>,
}

impl Callee {
    fn method(name: String) -> Self {
        Self { name, children: Vec::new() }
    }
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

    /// The layout by these layers, if they can be trained.
    fn layout(
        &self,
        contents: &Contents,
        input: Shape,
        callees: Vec<Callee>,
    ) -> Result<ModelLayout, ModelError> {
        let layers = self.layers(input, callees)?;
        let classes = layers.last().map_or(0, |found| found.width);
        self.check_each_tensor(&layers)?;
        self.check_scores(contents, input, &layers)?;
        let needs_two_rows = self.needs_two_rows(input, &layers)?;
        let frozen = self.frozen()?;
        let layers = layers.into_iter().map(|found| found.layer).collect();
        let sha256 = contents.sha256.clone();
        Ok(ModelLayout { sha256, input, classes, layers, frozen, needs_two_rows })
    }

    /// Whether it can be trained on two examples and not on one, as with a batch norm of a flat vector.
    fn needs_two_rows(&self, input: Shape, layers: &[Found]) -> Result<bool, ModelError> {
        let one = examples(input).and_then(|x| x.f_narrow(0, 0, 1)).map_err(|error| self.failed(&error))?;
        Ok(scores(&self.module, layers, &one).is_err())
    }

    /// Layers are methods: what Python runs around a call of the module would be left out.
    fn check_hooks(&self) -> Result<(), ModelError> {
        if self.module.has_hooks() {
            return Err(self.unsuited(
                "it has a forward hook, which runs in Python's calls only; write it into `forward`"
                    .to_owned(),
            ));
        }
        Ok(())
    }

    /// Stages if it has some, else the modules of a sequence, else all of it.
    fn callees(&self) -> Result<Vec<Callee>, ModelError> {
        let stage = |number: usize| format!("stage{number}");
        let is_stage = |number: &usize| self.module.has_method(&stage(*number));
        let mut next = 0;
        while is_stage(&next) {
            next += 1;
        }
        // It would be left out without a word.
        if let Some(behind) = (next + 1..=next + STAGES_LOOKED_FOR).find(is_stage) {
            return Err(self.unsuited(format!(
                "it has `stage{behind}` and no `stage{next}`; the stages are `stage0`, `stage1` and so on, without a gap"
            )));
        }
        if next > 0 {
            return Ok((0..next).map(stage).map(Callee::method).collect());
        }
        if self.module.is_sequential() {
            return self.sequence().map_err(|error| self.failed(&error));
        }
        if self.module.has_method(FORWARD) {
            return Ok(vec![Callee::method(FORWARD.to_owned())]);
        }
        Err(self.unsuited("it has neither a method `forward` nor `stage0`".to_owned()))
    }

    /// The modules of a sequence: each that has weights, with those without that follow it; the first also with those before it.
    fn sequence(&self) -> Result<Vec<Callee>, TchError> {
        let named = self.module.parameters()?;
        let trained = |child: &str| {
            let of_child = |name: &str| name.strip_prefix(child).is_some_and(|rest| rest.starts_with('.'));
            named.iter().any(|(name, tensor)| tensor.requires_grad() && of_child(name))
        };
        let mut groups: Vec<Vec<String>> = vec![Vec::new()];
        let mut begun = false;
        for child in self.module.children()? {
            let has_weights = trained(&child);
            if has_weights && begun {
                groups.push(Vec::new());
            }
            begun |= has_weights;
            if let Some(group) = groups.last_mut() {
                group.push(child);
            }
        }
        Ok(groups.into_iter().map(|children| Callee { name: together(&children), children }).collect())
    }

    fn layers(&self, input: Shape, callees: Vec<Callee>) -> Result<Vec<Found>, ModelError> {
        let mut x = examples(input).map_err(|error| self.failed(&error))?;
        let mut found = Vec::new();
        for callee in callees {
            let place = if found.is_empty() { LayerPosition::Lowest } else { LayerPosition::AboveOthers };
            let (layer, y) = self.layer(callee, &x, place)?;
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

    /// Runs a layer, and finds the tensors that it is trained by.
    fn layer(&self, callee: Callee, x: &Tensor, place: LayerPosition) -> Result<(Found, Tensor), ModelError> {
        let Callee { name, children } = callee;
        let failed = |error: TchError| self.failed(&error);
        let x = x
            .f_detach()
            .and_then(|x| x.f_set_requires_grad(place == LayerPosition::AboveOthers))
            .map_err(failed)?;
        let own = own(&x).map_err(failed)?;
        let (y, kept) = kept_bytes(|| call(&self.module, &name, &children, &own));
        let y = y.map_err(failed)?;
        let size = y.size();
        // Types that the bindings do not know are an error.
        let kind = y.f_kind().map_err(failed)?;
        if size.first() != Some(&ROWS) || kind != Kind::Float {
            return Err(self.unsuited(format!(
                "`{name}` makes a tensor of {size:?} {kind:?} of {ROWS} examples; a row of 32-bit floats for each is wanted"
            )));
        }
        let parameters = self.trained(&name, &x, &y, place)?;
        let width = y.numel() / ROWS as usize;
        let kept = (kept as usize / size_of::<f32>()).div_ceil(ROWS as usize);
        let layer = FileLayer { name, children, parameters, activations: width, kept, flops: 0 };
        Ok((Found { layer, width }, y.f_detach().map_err(failed)?))
    }

    /// Values of the tensors that ask for no gradient.
    fn frozen(&self) -> Result<usize, ModelError> {
        let named = self.module.parameters().map_err(|error| self.failed(&error))?;
        Ok(named.iter().filter(|(_, tensor)| !tensor.requires_grad()).map(|(_, tensor)| tensor.numel()).sum())
    }

    fn trained(
        &self,
        name: &str,
        x: &Tensor,
        y: &Tensor,
        place: LayerPosition,
    ) -> Result<Vec<Parameter>, ModelError> {
        let first = place == LayerPosition::Lowest;
        let failed = |error: TchError| self.failed(&error);
        let named = self.module.parameters().map_err(failed)?;
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
            let kind = tensor.f_kind().map_err(failed)?;
            if kind != Kind::Float {
                return Err(
                    self.unsuited(format!("its tensor `{name}` is {kind:?}; weights are 32-bit floats"))
                );
            }
            if tensor.numel() == 0 {
                return Err(self.unsuited(format!("its tensor `{name}` has no values; leave it out")));
            }
            let shape = tensor.size().iter().map(|side| *side as usize).collect();
            parameters.push(Parameter { name: name.clone(), shape });
        }
        if parameters.is_empty() {
            let rest =
                if name == "forward" { "there is nothing to train" } else { "join it with another stage" };
            return Err(self.unsuited(format!("`{name}` has no weights that are trained; {rest}")));
        }
        if !first && !gradients.get(named.len()).is_some_and(Tensor::defined) {
            return Err(self.unsuited(format!(
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
        let mut places: BTreeMap<usize, (usize, String)> = BTreeMap::new();
        for (name, tensor) in self.module.parameters().map_err(|error| self.failed(&error))? {
            if !tensor.requires_grad() {
                continue;
            }
            if !users.contains_key(name.as_str()) {
                return Err(self.unsuited(format!(
                    "no gradient reaches `{name}`; let each call use it, or freeze it by `requires_grad_(False)`"
                )));
            }
            if !tensor.is_contiguous() {
                return Err(self
                    .unsuited(format!("the values of `{name}` do not lie in a row; take `.contiguous()`")));
            }
            let begin = tensor.data_ptr() as usize;
            let end = begin + tensor.numel() * size_of::<f32>();
            let before = places.range(..end).next_back().filter(|(_, (other_end, _))| *other_end > begin);
            if let Some((_, (_, other))) = before {
                return Err(self.unsuited(format!(
                    "`{other}` and `{name}` are one tensor; name it once, as in `F.linear(x, self.embedding.weight)`"
                )));
            }
            places.insert(begin, (end, name));
        }
        Ok(())
    }

    /// A model that has seen examples in training must behave as before with the same weights and moments, since what else it remembers
    /// stays on its rank and no strategy averages it; each example must be scored by itself, since batches are cut anywhere; and stages
    /// must be what `forward` is, which gets the weights back.
    fn check_scores(&self, contents: &Contents, input: Shape, layers: &[Found]) -> Result<(), ModelError> {
        let mut module = contents.module(self.file, Mode::Evaluation)?;
        let failed = |error: TchError| self.failed(&error);
        let moments = RunningMoments::of(&module).map_err(failed)?;
        let x = examples(input).map_err(failed)?;
        let scored = |module: &ScriptModule, x: &Tensor| scores(module, layers, x).map_err(failed);
        let before = scored(&module, &x)?;
        module.set_mode(Mode::Training).map_err(failed)?;
        let trained = scored(&module, &x)?;
        let other = x.f_mul_scalar(0.5).and_then(|x| x.f_add_scalar(0.25)).map_err(failed)?;
        let _ = scored(&module, &other)?;
        if !equal(&trained, &scored(&module, &x)?).map_err(failed)? {
            return Err(self.unsuited(REMEMBERS.to_owned()));
        }
        module.set_mode(Mode::Evaluation).map_err(failed)?;
        moments.restore().map_err(failed)?;
        if !equal(&before, &scored(&module, &x)?).map_err(failed)? {
            return Err(self.unsuited(REMEMBERS.to_owned()));
        }
        let alone = (0..ROWS).map(|row| scores(&module, layers, &x.f_narrow(0, row, 1)?));
        let alone = alone.collect::<Result<Vec<Tensor>, TchError>>().map_err(|error| {
            self.unsuited(format!("an example cannot be scored without others: {}; {CURE}", reason(&error)))
        })?;
        if !Tensor::f_cat(&alone, 0).and_then(|alone| close(&before, &alone)).map_err(failed)? {
            let told = "the scores of an example depend on the others of its batch";
            return Err(self.unsuited(format!("{told}; {CURE}")));
        }
        self.check_forward(&module, &x, &before)
    }

    /// A module of stages alone needs no `forward`.
    fn check_forward(&self, module: &ScriptModule, x: &Tensor, by_stages: &Tensor) -> Result<(), ModelError> {
        if !module.has_method(FORWARD) {
            return Ok(());
        }
        let own = x.f_mul_scalar(1.0).map_err(|error| self.failed(&error))?;
        tch::manual_seed(0);
        let whole = module.call(None, FORWARD, &own).map_err(|error| self.failed(&error))?;
        match close(&whole, by_stages) {
            Ok(true) => Ok(()),
            Ok(false) | Err(_) => {
                Err(self.unsuited("`forward` is not its stages one after the other".to_owned()))
            }
        }
    }
}

/// The name of a layer of these modules.
fn together(children: &[String]) -> String {
    match children {
        [first, _, _, .., last] => format!("{first}..{last}"),
        few => few.join("+"),
    }
}

/// A NaN equals itself.
const NAN_EQUALS_NAN: bool = true;
const CURE: &str =
    "take norms with running statistics, or `nn.GroupNorm`, and `torch.jit.script`: a trace keeps its mode";
const REMEMBERS: &str =
    "it changes more in training than its weights and the running statistics of batch norms";

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
enum LayerPosition {
    Lowest,
    AboveOthers,
}

/// The scores of a copy of `x`, which layers may change.
fn scores(module: &ScriptModule, layers: &[Found], x: &Tensor) -> Result<Tensor, TchError> {
    tch::no_grad(|| {
        // Random numbers are the same each time.
        tch::manual_seed(0);
        let mut y = x.f_mul_scalar(1.0)?;
        for Found { layer, .. } in layers {
            y = call(module, &layer.name, &layer.children, &y)?;
        }
        Ok(y)
    })
}

/// Made-up examples from 0 to 1, the same each time: logarithms, and numbers of tokens, can be taken of them.
fn examples(input: Shape) -> Result<Tensor, TchError> {
    tch::manual_seed(0);
    Tensor::f_rand(dimensions(ROWS, input), (Kind::Float, Device::Cpu))
}
