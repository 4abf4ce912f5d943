//! GoogLeNet (Szegedy et al., "Going Deeper with Convolutions", 2015, arXiv 1409.4842, table 1 and section 5), without batch norm,
//! as the paper has it. Pools round up, as table 1 demands: 112 to 56 with a window of 3. The norms have Caffe's settings.

use crate::Layer;

/// Table 1: 1x1; 3x3 and 5x5, each behind its reduction; the projection behind the pool.
struct Inception {
    plain: usize,
    three: [usize; 2],
    five: [usize; 2],
    pooled: usize,
}

const fn inception(plain: usize, three: [usize; 2], five: [usize; 2], pooled: usize) -> Inception {
    Inception { plain, three, five, pooled }
}

const THIRD: [Inception; 2] =
    [inception(64, [96, 128], [16, 32], 32), inception(128, [128, 192], [32, 96], 64)];
const FOURTH: [Inception; 5] = [
    inception(192, [96, 208], [16, 48], 64),
    inception(160, [112, 224], [24, 64], 64),
    inception(128, [128, 256], [24, 64], 64),
    inception(112, [144, 288], [32, 64], 64),
    inception(256, [160, 320], [32, 128], 128),
];
const FIFTH: [Inception; 2] =
    [inception(256, [160, 320], [32, 128], 128), inception(384, [192, 384], [48, 128], 128)];

/// Modules of the fourth stage that have an auxiliary head behind them: 4a and 4d.
const HEADS: [usize; 2] = [0, 3];
/// Section 5: "their loss gets added to the total loss of the network with a discount weight".
const DISCOUNT: f32 = 0.3;

const NORM: Layer = Layer::LocalResponseNorm { size: 5, alpha: 1e-4, beta: 0.75, k: 1.0 };
const POOL: Layer = Layer::MaxPool { kernel: 3, stride: 2, padding: 0, ceil: true };

pub(super) fn layers(classes: usize) -> Vec<Layer> {
    let mut layers = convolution(64, 7, 2).to_vec();
    layers.extend([POOL, NORM]);
    layers.extend(convolution(64, 1, 1));
    layers.extend(convolution(192, 3, 1));
    layers.extend([NORM, POOL]);
    layers.extend(THIRD.iter().map(module));
    layers.push(POOL);
    for (number, sizes) in FOURTH.iter().enumerate() {
        layers.push(module(sizes));
        layers.extend(HEADS.contains(&number).then(|| head(classes)));
    }
    layers.push(POOL);
    layers.extend(FIFTH.iter().map(module));
    layers.extend([Layer::GlobalAvgPool, Layer::Dropout { rate: 0.4 }, Layer::Linear { outputs: classes }]);
    layers
}

fn convolution(outputs: usize, kernel: usize, stride: usize) -> [Layer; 2] {
    [Layer::Conv { outputs, kernel, stride, padding: kernel / 2, bias: true, groups: 1 }, Layer::Relu]
}

fn module(sizes: &Inception) -> Layer {
    let behind = |[reduction, outputs]: [usize; 2], kernel| {
        [convolution(reduction, 1, 1), convolution(outputs, kernel, 1)].concat()
    };
    let pool = Layer::MaxPool { kernel: 3, stride: 1, padding: 1, ceil: false };
    let mut pooled = vec![pool];
    pooled.extend(convolution(sizes.pooled, 1, 1));
    Layer::Branches {
        branches: vec![
            convolution(sizes.plain, 1, 1).to_vec(),
            behind(sizes.three, 3),
            behind(sizes.five, 5),
            pooled,
        ],
    }
}

/// Section 5: a mean over windows of 5 with a stride of 3, 128 kernels of 1, a hidden layer of 1024, dropout of 0.7.
fn head(classes: usize) -> Layer {
    let mut layers = vec![Layer::AvgPool { kernel: 5, stride: 3, padding: 0, ceil: false }];
    layers.extend(convolution(128, 1, 1));
    layers.extend([
        Layer::Flatten,
        Layer::Linear { outputs: 1024 },
        Layer::Relu,
        Layer::Dropout { rate: 0.7 },
        Layer::Linear { outputs: classes },
    ]);
    Layer::AuxiliaryHead { layers, weight: DISCOUNT }
}
