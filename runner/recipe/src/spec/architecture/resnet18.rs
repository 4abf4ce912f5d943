//! The residual network for ImageNet with 18 layers. It takes images of any size from 1 x 1 on; those of 32 x 32 are 1 x 1 behind
//! its last group.
//!
//! Source: He, Zhang, Ren and Sun, "Deep Residual Learning for Image Recognition", 2016 (arXiv 1512.03385), table 1, with the
//! projections of option B.

use super::basic_block::groups;
use crate::Layer;

pub(super) fn layers(classes: usize) -> Vec<Layer> {
    let mut layers = vec![
        Layer::Conv { outputs: 64, kernel: 7, stride: 2, padding: 3, bias: false, groups: 1 },
        Layer::BatchNorm,
        Layer::Relu,
        Layer::MaxPool { kernel: 3, stride: 2, padding: 1, ceil: false },
    ];
    layers.extend(groups(64, &[64, 128, 256, 512], 2));
    layers.extend([Layer::GlobalAvgPool, Layer::Linear { outputs: classes }]);
    layers
}

#[cfg(test)]
mod tests {
    use super::layers;
    use crate::spec::architecture::place;
    use crate::{DatasetProfile, Model, ModelKind, Shape};

    #[test]
    fn on_imagenet_it_has_11_7_million_weights_and_3_6_billion_operations() {
        let data = DatasetProfile::of_classes(Shape::Image(3, 224, 224), 1000);
        let (model, misfit) = place(ModelKind::Resnet18, &layers(1000), data);
        assert_eq!(misfit, None);
        let last = model.layers.len() - 2;
        assert_eq!(model.layers[3].output, Shape::Image(64, 56, 56), "table 1");
        assert_eq!(model.layers[last].input, Shape::Image(512, 7, 7), "table 1");
        let model = Model::from(model);
        assert_eq!(model.parameter_count(), 11_689_512);
        // The table has 1.8 billion multiply-adds.
        assert!((3_600_000_000..3_700_000_000).contains(&model.flops()), "{}", model.flops());
    }
}
