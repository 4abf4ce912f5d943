"""The layers of a model in PyTorch, in one process with one thread of computation: `python layers.py MODEL STEPS` prints a line
for each layer with weights, together with those up to the next one: the medians of its forward pass and of its backward
pass, in microseconds. Each such section is differentiated by itself, from a leaf to a given gradient. A further line is about the
whole model, differentiated as one graph, and, if it takes images, another one about the same with channels last."""

import statistics
import sys
import time

import torch
from torch import nn

from training import MODELS

WARM_UP = 3


def sections(net):
    """Groups of modules; each but the first begins with one that has weights."""
    groups = []
    for module in net:
        if not groups or (list(module.parameters()) and any(list(other.parameters()) for other in groups[-1])):
            groups.append([])
        groups[-1].append(module)
    return [nn.Sequential(*group) for group in groups]


def passes(parts, x, labels):
    """The seconds of one step in each part: forward, backward."""
    forward, backward, passed = [], [], []
    for number, part in enumerate(parts):
        x = x.detach().requires_grad_(number > 0)
        begin = time.perf_counter()
        y = part(x)
        forward.append(time.perf_counter() - begin)
        passed.append((x, y))
        x = y
    scores = x.detach().requires_grad_(True)
    nn.functional.cross_entropy(scores, labels).backward()
    gradient = scores.grad
    for x, y in reversed(passed):
        begin = time.perf_counter()
        y.backward(gradient)
        backward.append(time.perf_counter() - begin)
        gradient = x.grad
    return list(zip(forward, reversed(backward)))


def measure(parts, x, labels, steps):
    """The medians in each part, in microseconds: forward, backward."""
    measured = []
    for step in range(WARM_UP + steps):
        for part in parts:
            part.zero_grad()
        measured.append(passes(parts, x, labels))
    return [[statistics.median(times) * 1e6 for times in zip(*part)] for part in zip(*measured[WARM_UP:])]


def main(model, steps):
    torch.set_num_threads(1)
    torch.set_num_interop_threads(1)
    torch.manual_seed(1)
    net, shape = MODELS[model](nn)
    x, labels = torch.randn(*shape), torch.randint(0, 10, shape[:1])
    for number, (forward, backward) in enumerate(measure(sections(net), x, labels, steps)):
        print(f"layers torch number={number} forward={forward:.1f} backward={backward:.1f}", flush=True)
    graphs = {"contiguous": torch.contiguous_format}
    if x.dim() == 4:
        graphs["channels-last"] = torch.channels_last
    for name, memory_format in graphs.items():
        if x.dim() == 4:
            net, x = net.to(memory_format=memory_format), x.to(memory_format=memory_format)
        ((forward, backward),) = measure([net], x, labels, steps)
        print(f"layers torch graph={name} forward={forward:.1f} backward={backward:.1f}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
