//! Bytes of what travels, by its compression.

use crate::spec::compression::{Codec, Compression};
use crate::spec::placed_layer::{MatrixShape, Parameter};

/// Bytes of a 32-bit float, of a position, of a scale and of a number of elements.
const WORD: usize = 4;

/// How many of `elements` elements a share of them is: rounded up, but for what the product's own rounding has added.
pub fn share_of(ratio: f64, elements: usize) -> usize {
    let exact = ratio * elements as f64;
    let slack = 1e-12 * elements as f64;
    ((exact - slack).ceil().max(0.0) as usize).min(elements)
}

impl Codec {
    /// Bytes in which `elements` values travel that are encoded together; for a projection, those of one list. `None` of
    /// factors, which need the shapes of the weights, and of a codec of another crate.
    pub fn packet_bytes(self, elements: usize) -> Option<usize> {
        let buckets = |bucket: u32| elements.div_ceil(bucket.max(1) as usize);
        Some(match self {
            Self::Truncate16 | Self::Fp16 | Self::Bf16 => 2 * elements,
            Self::Quantize8 | Self::Quantize8Gradient => WORD + elements,
            Self::TopK { ratio } => WORD + 2 * WORD * share_of(ratio, elements),
            Self::RandomK { ratio } => WORD * share_of(ratio, elements),
            Self::Sign => 2 * WORD + elements.div_ceil(8),
            Self::Terngrad { bucket } => WORD + WORD * buckets(bucket) + elements.div_ceil(5),
            Self::Qsgd { levels, bucket } => {
                let bits = u64::from(2 * levels.max(1) + 1).next_power_of_two().ilog2() as usize;
                WORD + WORD * buckets(bucket) + (elements * bits).div_ceil(8)
            }
            Self::Powersgd { .. } | Self::Custom => return None,
        })
    }

    /// Bytes of a gradient of these tensors that is encoded as one: before a collective divides it among ranks, which adds a few bytes of
    /// scales. `None` of a codec of another crate.
    pub fn gradient_bytes<'a>(self, tensors: impl IntoIterator<Item = &'a Parameter>) -> Option<usize> {
        match self {
            Self::Powersgd { rank } => {
                let elements = tensors.into_iter().map(|tensor| factor_elements(tensor, rank as usize));
                Some(WORD * elements.sum::<usize>())
            }
            other => other.packet_bytes(tensors.into_iter().map(Parameter::size).sum()),
        }
    }
}

/// Elements of the two factors of a matrix, or of a tensor that is not larger than they would be.
fn factor_elements(tensor: &Parameter, rank: usize) -> usize {
    let whole = tensor.size();
    let factored = |matrix: MatrixShape| whole.min(rank.max(1) * (matrix.rows + matrix.columns));
    tensor.matrix().map_or(whole, factored)
}

impl Compression {
    /// Bytes of a gradient of these tensors in one message.
    pub fn gradient_bytes<'a>(&self, tensors: impl IntoIterator<Item = &'a Parameter>) -> Option<usize> {
        match self {
            Self::None => Some(WORD * tensors.into_iter().map(Parameter::size).sum::<usize>()),
            Self::Coded { codec, .. } => codec.gradient_bytes(tensors),
        }
    }

    /// Bytes of `elements` weights in one message, where a model travels.
    pub fn weight_bytes(&self, elements: usize) -> Option<usize> {
        match self {
            Self::None | Self::Coded { parameters: false, .. } => Some(WORD * elements),
            Self::Coded { codec, parameters: true, .. } => codec.packet_bytes(elements),
        }
    }

    /// All-reduces that one gradient takes: a projection to two factors needs the first one's sum for the second.
    pub fn sums_of_gradient(&self) -> usize {
        match self {
            Self::Coded { codec: Codec::Powersgd { .. }, .. } => 2,
            Self::None | Self::Coded { .. } => 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor(shape: &[usize]) -> Parameter {
        Parameter { name: String::new(), shape: shape.to_vec() }
    }

    #[test]
    fn factors_are_two_thin_matrices_unless_the_matrix_is_smaller() {
        let codec = Codec::Powersgd { rank: 2 };
        let tensors = [tensor(&[100, 30]), tensor(&[100]), tensor(&[8, 3, 3, 3]), tensor(&[2, 3])];
        assert_eq!(codec.gradient_bytes(&tensors), Some(4 * (2 * 130 + 100 + 2 * 35 + 6)));
        assert_eq!(codec.packet_bytes(3), None);
    }

    #[test]
    fn weights_are_coded_where_they_are_asked_to_be() {
        let coded = |parameters| Compression::Coded { codec: Codec::Fp16, parameters, error_feedback: false };
        assert_eq!(coded(false).weight_bytes(10), Some(40));
        assert_eq!(coded(true).weight_bytes(10), Some(20));
        assert_eq!(Compression::None.gradient_bytes(&[tensor(&[3, 4])]), Some(48));
    }
}
