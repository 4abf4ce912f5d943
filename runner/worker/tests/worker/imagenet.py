"""The numbers of PyTorch in `imagenet.rs`: `python3 imagenet.py`. Dropout is left out; all in 64 bits."""

import torch
from torch.nn import functional as F

IMAGES = 2
LABELS = torch.tensor([999, 3])


def hashed(count, number):
    """Values of a tensor, uniform between -1 and 1: 32 bits of a product."""
    place = torch.arange(count, dtype=torch.int64)
    mixed = ((place + 1) * 2654435761 + number * 40503) % 2**32
    mixed = ((mixed >> 15) ^ mixed) * 2246822519 % 2**32
    return mixed.double() / 2**31 - 1


class Weights:
    """Draws the tensors of one layer after another, and remembers which belong together."""

    kind = torch.float64

    def __init__(self):
        self.tensors, self.layers = [], []

    def layer(self):
        self.layers.append(len(self.tensors))

    def __call__(self, *shape):
        fan = 1
        for side in shape[1:]:
            fan *= side
        count = shape[0] * fan
        scale = (6 / fan) ** 0.5 if len(shape) > 1 else 0.1
        # What a worker holds has 32 bits.
        values = (hashed(count, len(self.tensors)) * scale).float().to(self.kind)
        self.tensors.append(values.reshape(shape).requires_grad_())
        return self.tensors[-1]

    def conv(self, x, outputs, kernel, **more):
        groups = more.get("groups", 1)
        weight = self(outputs, x.shape[1] // groups, kernel, kernel)
        return F.conv2d(x, weight, self(outputs), **more)

    def linear(self, x, outputs):
        weight = self(outputs, x.shape[1])
        return F.linear(x, weight, self(outputs))


def googlenet(x, weights):
    def conv(x, outputs, kernel, stride=1):
        return F.relu(weights.conv(x, outputs, kernel, stride=stride, padding=kernel // 2))

    def module(x, one, reduce3, three, reduce5, five, pooled):
        weights.layer()
        a = conv(x, one, 1)
        b = conv(conv(x, reduce3, 1), three, 3)
        c = conv(conv(x, reduce5, 1), five, 5)
        d = conv(F.max_pool2d(x, 3, 1, 1), pooled, 1)
        return torch.cat([a, b, c, d], 1)

    def head(x):
        weights.layer()
        x = conv(F.avg_pool2d(x, 5, 3), 128, 1).flatten(1)
        return weights.linear(F.relu(weights.linear(x, 1024)), 1000)

    def pool(x):
        return F.max_pool2d(x, 3, 2, ceil_mode=True)

    weights.layer()
    x = F.local_response_norm(pool(conv(x, 64, 7, 2)), 5)
    weights.layer()
    x = conv(x, 64, 1)
    weights.layer()
    x = pool(F.local_response_norm(conv(x, 192, 3), 5))
    x = module(x, 64, 96, 128, 16, 32, 32)
    x = pool(module(x, 128, 128, 192, 32, 96, 64))
    x = module(x, 192, 96, 208, 16, 48, 64)
    first = head(x)
    x = module(x, 160, 112, 224, 24, 64, 64)
    x = module(x, 128, 128, 256, 24, 64, 64)
    x = module(x, 112, 144, 288, 32, 64, 64)
    second = head(x)
    x = pool(module(x, 256, 160, 320, 32, 128, 128))
    x = module(x, 256, 160, 320, 32, 128, 128)
    x = module(x, 384, 192, 384, 48, 128, 128)
    weights.layer()
    return [(1.0, weights.linear(x.mean((2, 3)), 1000)), (0.3, first), (0.3, second)]


def alexnet(x, weights):
    def norm(x):
        return F.max_pool2d(F.local_response_norm(x, 5, 5e-4, 0.75, 2.0), 3, 2)

    def conv(x, *sizes, **more):
        weights.layer()
        return F.relu(weights.conv(x, *sizes, **more))

    def linear(x, outputs):
        weights.layer()
        return weights.linear(x, outputs)

    x = norm(conv(x, 96, 11, stride=4, padding=2))
    x = norm(conv(x, 256, 5, padding=2, groups=2))
    x = conv(x, 384, 3, padding=1)
    x = conv(x, 384, 3, padding=1, groups=2)
    x = F.max_pool2d(conv(x, 256, 3, padding=1, groups=2), 3, 2).flatten(1)
    x = F.relu(linear(F.relu(linear(x, 4096)), 4096))
    return [(1.0, linear(x, 1000))]


def show(name, network):
    weights = Weights()
    x = hashed(IMAGES * 3 * 224 * 224, 1000).float().double().reshape(IMAGES, 3, 224, 224)
    ends = network(x, weights)
    loss = sum(factor * F.cross_entropy(scores, LABELS) for factor, scores in ends)
    loss.backward()
    print(name, "evaluated", f"{F.cross_entropy(ends[0][1], LABELS).item():.9f}", "loss", f"{loss.item():.9f}")
    bounds = weights.layers + [len(weights.tensors)]
    for begin, end in zip(bounds, bounds[1:]):
        gradient = torch.cat([tensor.grad.flatten() for tensor in weights.tensors[begin:end]])
        along = (gradient * hashed(len(gradient), 7)).sum().item()
        print(f"    ({gradient.norm().item():.9e}, {along:.9e}),")


if __name__ == "__main__":
    show("googlenet", googlenet)
    show("alexnet", alexnet)
