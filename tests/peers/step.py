"""A step of SGD in PyTorch, in one process with one thread of computation: `python step.py FILE STEPS` builds the model that FILE
describes (what `step RECIPE describe` prints) from modules of `torch.nn`, and prints the medians of a step in microseconds."""

import json
import statistics
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

WARM_UP = 2


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.inward, self.outward = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        n, t, c = x.shape
        q, k, v = (
            part.view(n, t, self.heads, c // self.heads).transpose(1, 2) for part in self.inward(x).split(c, dim=2)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.outward(y.transpose(1, 2).reshape(n, t, c))


class Embedding(nn.Module):
    def __init__(self, vocabulary, length, width, positions):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), None
        if positions:
            self.positions = nn.Embedding(length, width)

    def forward(self, x):
        x = self.tokens(x.long())
        return x if self.positions is None else x + self.positions.weight


class TextConv(nn.Conv1d):
    def forward(self, x):
        return super().forward(x.transpose(1, 2)).transpose(1, 2)


class GlobalMaxPool(nn.Module):
    def forward(self, x):
        return x.amax(1) if x.dim() == 3 else x.amax((2, 3))


class Residual(nn.Module):
    def __init__(self, branch, shortcut):
        super().__init__()
        self.branch, self.shortcut = branch, shortcut

    def forward(self, x):
        return self.branch(x) + self.shortcut(x)


class Branches(nn.Module):
    def __init__(self, rows):
        super().__init__()
        self.rows = nn.ModuleList(rows)

    def forward(self, x):
        return torch.cat([row(x) for row in self.rows], 1)


def of_kind(placed):
    layer, paths = placed["layer"], placed.get("paths", {})
    ((shape, sides),) = placed["input"].items()
    first = sides if isinstance(sides, int) else sides[0]
    width = sides[1] if shape == "sequence" else first
    pool = lambda: (layer["kernel"], layer["stride"], layer.get("padding", 0))
    ceil = layer.get("ceil", False)
    made = {
        "linear": lambda: nn.Linear(width, layer["outputs"]),
        "conv": lambda: nn.Conv2d(
            first,
            layer["outputs"],
            *pool(),
            groups=layer.get("groups", 1),
            bias=layer.get("bias", True),
        ),
        "max-pool": lambda: nn.MaxPool2d(*pool(), ceil_mode=ceil),
        "avg-pool": lambda: nn.AvgPool2d(*pool(), ceil_mode=ceil),
        "global-avg-pool": lambda: nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten()),
        "batch-norm": lambda: (nn.BatchNorm2d if shape == "image" else nn.BatchNorm1d)(first, track_running_stats=False),
        "local-response-norm": lambda: nn.LocalResponseNorm(layer["size"], layer["alpha"], layer["beta"], layer["k"]),
        "residual": lambda: Residual(row(paths["branch"]), row(paths["shortcut"])),
        "branches": lambda: Branches([row(layers) for layers in paths["rows"]]),
        "block": lambda: row(paths["branch"]),
        "frozen": lambda: row(paths["branch"]).requires_grad_(False),
        "auxiliary-head": lambda: row(paths["branch"]),
        "relu": lambda: nn.ReLU(inplace=True),
        "gelu": nn.GELU,
        "embedding": lambda: Embedding(sides[1], sides[0], layer["width"], layer.get("positions", True)),
        "text-conv": lambda: TextConv(width, layer["outputs"], *pool()),
        "global-max-pool": GlobalMaxPool,
        "layer-norm": lambda: nn.LayerNorm(width),
        "attention": lambda: Attention(width, layer["heads"]),
        "tied-head": nn.Identity,
        "dropout": lambda: nn.Dropout(layer["rate"]),
        "flatten": nn.Flatten,
    }
    return made[layer["kind"]]()


def row(layers):
    return nn.Sequential(*(of_kind(placed) for placed in layers))


class Model(nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.described = layers
        self.layers = row(layers)

    def loss(self, x, labels):
        score = lambda scores: F.cross_entropy(scores.flatten(0, -2), labels.flatten())
        loss = 0.0
        if self.described[0]["layer"]["kind"] == "linear":
            x = x.flatten(1)
        for placed, module in zip(self.described, self.layers):
            kind = placed["layer"]["kind"]
            if kind == "auxiliary-head":
                loss = loss + placed["layer"]["weight"] * score(module(x))
            elif kind == "tied-head":
                x = F.linear(x, self.layers[0].tokens.weight)
            elif kind == "linear" and x.dim() == 4:
                x = module(x.flatten(1))
            else:
                x = module(x)
        return loss + score(x)


def examples(model, samples):
    ((shape, sides),) = model["input"].items()
    if shape == "tokens":
        drawn = torch.randint(0, sides[1], (samples, sides[0]))
        if model["layers"][-1]["layer"]["kind"] == "tied-head":
            return drawn, torch.randint(0, sides[1], (samples, sides[0]))
        return drawn, torch.randint(0, model["classes"], (samples,))
    sides = [sides] if isinstance(sides, int) else sides
    return torch.randn(samples, *sides), torch.randint(0, model["classes"], (samples,))


def main(file, steps):
    torch.set_num_threads(1)
    torch.set_num_interop_threads(1)
    torch.manual_seed(1)
    with open(file, encoding="utf-8") as described:
        described = json.load(described)
    x, labels = examples(described["model"], described["samples"])
    model = Model(described["model"]["layers"])
    trained = [weights for weights in model.parameters() if weights.requires_grad]
    optimizer = torch.optim.SGD(trained, lr=0.01)
    times = []
    for step in range(WARM_UP + steps):
        optimizer.zero_grad()
        begin = time.perf_counter()
        loss = model.loss(x, labels)
        middle = time.perf_counter()
        loss.backward()
        end = time.perf_counter()
        optimizer.step()
        last = time.perf_counter()
        times.append((last - begin, middle - begin, end - middle, last - end))
    step, forward, backward, update = (statistics.median_high(values) * 1e6 for values in zip(*times[WARM_UP:]))
    print(f"step torch us={step:.1f} forward={forward:.1f} backward={backward:.1f} update={update:.1f}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
