"""The layers of a model in PyTorch, in one process with one thread of computation: `python layers.py MODEL STEPS` prints a line
for each layer with weights, together with those up to the next one: the medians of its forward pass and of its backward
pass, in microseconds. Each such section is differentiated by itself, from a leaf to a given gradient."""

import statistics
import sys
import time

from training import MODELS

WARM_UP = 3


def sections(nn, net):
    """Groups of modules; each but the first begins with one that has weights."""
    groups = []
    for module in net:
        if not groups or (list(module.parameters()) and any(list(other.parameters()) for other in groups[-1])):
            groups.append([])
        groups[-1].append(module)
    return [nn.Sequential(*group) for group in groups]


def main(model, steps):
    import torch

    torch.set_num_threads(1)
    torch.set_num_interop_threads(1)
    torch.manual_seed(1)
    net, shape = MODELS[model](torch.nn)
    parts = sections(torch.nn, net)
    first, labels = torch.randn(*shape), torch.randint(0, 10, shape[:1])
    times = [([], []) for _ in parts]
    for step in range(WARM_UP + steps):
        net.zero_grad()
        x, passed = first, []
        for number, part in enumerate(parts):
            x = x.detach().requires_grad_(number > 0)
            begin = time.perf_counter()
            y = part(x)
            times[number][0].append(time.perf_counter() - begin)
            passed.append((x, y))
            x = y
        scores = x.detach().requires_grad_(True)
        torch.nn.functional.cross_entropy(scores, labels).backward()
        gradient = scores.grad
        for number in reversed(range(len(parts))):
            x, y = passed[number]
            begin = time.perf_counter()
            y.backward(gradient)
            times[number][1].append(time.perf_counter() - begin)
            gradient = x.grad
    for number, (forward, backward) in enumerate(times):
        forward, backward = (statistics.median(values[WARM_UP:]) * 1e6 for values in (forward, backward))
        print(f"layers torch number={number} forward={forward:.1f} backward={backward:.1f}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
