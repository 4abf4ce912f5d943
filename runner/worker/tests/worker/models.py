"""The numbers of PyTorch in `models.rs`: `python3 models.py FILE...`, each of which is a model of layers on images of 3 x 32 x 32 with 10
classes as `step RECIPE describe` of `runner/worker/examples/step.rs` prints it. Dropout is left out; all in 64 bits."""

import json
import sys
from pathlib import Path

import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parents[4] / "tests/peers"))

from imagenet import hashed
from step import Model

IMAGES, SIDES, LABELS = 4, (3, 32, 32), torch.tensor([9, 3, 0, 1])


def fixed(number, weights):
    """The weights of a tensor; those of what only scales are near 1."""
    sides = weights.shape
    fan = weights[0].numel()
    scale = (6 / fan) ** 0.5 if len(sides) > 1 else 0.1
    return (hashed(weights.numel(), number) * scale).float().double().reshape(sides)


def main(file):
    described = json.loads(Path(file).read_text(encoding="utf-8"))["model"]
    model = Model(described["layers"]).double()
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    tensors = list(model.parameters())
    norms = [module.weight for module in model.modules() if isinstance(module, (nn.BatchNorm1d, nn.BatchNorm2d))]
    with torch.no_grad():
        for number, weights in enumerate(tensors):
            weights.copy_(fixed(number, weights))
            if any(weights is other for other in norms):
                weights += 1
    x = hashed(IMAGES * 3 * 32 * 32, 1000).float().double().reshape(IMAGES, *SIDES)
    loss = model.loss(x, LABELS)
    loss.backward()
    layers = [list(layer.parameters()) for layer in model.layers if list(layer.parameters())]
    parts = [layers[0], layers[-1], tensors]
    print(f"    (ModelKind::{described['kind'].title().replace('-', '')}, {loss.item():.9f}, [")
    for part in parts:
        gradient = torch.cat([weights.grad.flatten() for weights in part])
        along = (gradient * hashed(len(gradient), 7)).sum().item()
        print(f"        ({gradient.norm().item():.6f}, {along:.6f}),")
    print("    ]),")


if __name__ == "__main__":
    for name in sys.argv[1:]:
        main(name)
