//! A layer that libtorch records by itself, on copies of its weights, which are small beside the work, and differentiates.

use super::down::Down;
use super::flat::View;
use super::memory_format::MemoryFormat;
use super::tensors::split_mut;
use recipe::PlacedLayer;
use tch::{TchError, Tensor};

/// Recorded operations of a forward pass: leaves of an automatic differentiation, and the result.
pub(super) struct Recording {
    /// The layer's input, a leaf.
    input: Tensor,
    /// Copies of the layer's weights.
    operands: Vec<Tensor>,
    /// The layer's result, with the recorded operations.
    result: Tensor,
}

impl Recording {
    /// Records what `compute` makes of the input and the operands; it must change neither. The result is handed out with the
    /// memory of what was recorded, which may be overwritten unless `compute` ends with an operation that looks at its own
    /// result again.
    pub(super) fn of(
        x: &Tensor,
        operands: &[View<'_>],
        compute: impl FnOnce(&Tensor, &[&Tensor]) -> Result<Tensor, TchError>,
    ) -> Result<(Tensor, Self), TchError> {
        let leaf = |tensor: Tensor| tensor.f_set_requires_grad(true);
        let input = leaf(x.f_detach()?)?;
        // The copy comes before the format, which may leave what it is given where it is: no view is recorded.
        let format = MemoryFormat::found_in(x);
        let copies = operands.iter().map(|operand| leaf(format.give(operand.f_detach_copy()?)?));
        let operands = copies.collect::<Result<Vec<_>, _>>()?;
        let leaves: Vec<&Tensor> = operands.iter().collect();
        let result = tch::with_grad(|| compute(&input, &leaves))?;
        Ok((result.f_detach()?, Self { input, operands, result }))
    }

    /// The layer's input and its result.
    pub(super) fn ends(&self) -> [&Tensor; 2] {
        [&self.input, &self.result]
    }

    /// Takes the gradient `gy` of the result back to the operands and, where it is wanted, to the input.
    pub(super) fn backward(&self, layer: &PlacedLayer, down: Down<'_>) -> Result<Option<Tensor>, TchError> {
        let Down { gy, gradient, wants_input, .. } = down;
        let mut leaves: Vec<&Tensor> = self.operands.iter().collect();
        leaves.extend(wants_input.then_some(&self.input));
        if leaves.is_empty() {
            return Ok(None);
        }
        let mut gradients = torch_native::gradients(&self.result, gy, &leaves)?.into_iter();
        for mut memory in split_mut(layer, gradient)? {
            memory.fill_from(&gradients.next().ok_or_else(|| missing(layer))?)?;
        }
        Ok(gradients.next())
    }
}

fn missing(layer: &PlacedLayer) -> TchError {
    TchError::Torch(format!("{} has no gradient", layer.name))
}
