//! Weights that are not trained: drawn once, as initial weights are, and held beside the flat vector.

use super::initial::initial_weights_of;
use recipe::{Layer, LayeredModel, PlacedLayer};
use std::collections::BTreeMap;
use strategies::Vector;
use tch::{Device, TchError, Tensor};

/// The tensors of a model's frozen layers, by place.
pub(super) struct Frozen(BTreeMap<usize, Vec<Tensor>>);

impl Frozen {
    /// Draws them from the run's seed.
    pub(super) fn draw(model: &LayeredModel, seed: u64) -> Result<Self, TchError> {
        let frozen = model.layers.iter().enumerate().filter(|(_, placed)| is_frozen(placed));
        let drawn = frozen.map(|(place, placed)| {
            let values = initial_weights_of(model, place, seed);
            Ok((place, tensors(placed, &values)?))
        });
        drawn.collect::<Result<_, TchError>>().map(Self)
    }

    /// Moves them to a device.
    pub(super) fn move_to(&mut self, device: Device) -> Result<(), TchError> {
        for tensor in self.0.values_mut().flatten() {
            *tensor = tensor.f_to(device)?;
        }
        Ok(())
    }

    /// Those of the layer at a place; none of a layer that is trained.
    pub(super) fn at(&self, place: usize) -> &[Tensor] {
        self.0.get(&place).map_or(&[], Vec::as_slice)
    }
}

/// The values of all frozen weights of a model, from the input to the scores.
pub(super) fn values(model: &LayeredModel, seed: u64) -> Vector {
    let frozen = (0..model.layers.len()).filter(|place| is_frozen(&model.layers[*place]));
    Vector::from(frozen.flat_map(|place| initial_weights_of(model, place, seed)).collect::<Vec<f32>>())
}

fn is_frozen(placed: &PlacedLayer) -> bool {
    matches!(placed.layer, Layer::Frozen { .. })
}

fn tensors(placed: &PlacedLayer, mut values: &[f32]) -> Result<Vec<Tensor>, TchError> {
    let mut tensors = Vec::new();
    for parameter in placed.operands() {
        let (own, rest) = values.split_at_checked(parameter.size()).ok_or_else(|| {
            TchError::Shape(format!("{} frozen weights are too few for {}", values.len(), parameter.name))
        })?;
        let shape: Vec<i64> = parameter.shape.iter().map(|side| *side as i64).collect();
        tensors.push(Tensor::f_from_slice(own)?.f_reshape(&shape)?);
        values = rest;
    }
    Ok(tensors)
}
