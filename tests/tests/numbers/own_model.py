"""The numbers of PyTorch in `own_model.rs`: `python3 own_model.py`. Two workers hold half of forty samples each, and take all of them in each step;
which ones is what the sampler of this project draws for `partition = "sharded"` and the seed of the test."""

from pathlib import Path

import torch
from torch.nn import functional as F

ROOT = Path(__file__).resolve().parents[2]
STEPS = 20
FIRST = [2, 6, 7, 9, 11, 12, 13, 14, 18, 19, 20, 22, 23, 24, 26, 28, 30, 31, 32, 37]
SHARDS = [FIRST, [sample for sample in range(40) if sample not in FIRST]]

place = torch.arange(40 * 784, dtype=torch.int64)
X = ((place * 2654435761 % 2**32 >> 8).double() / 2**24).reshape(40, 1, 28, 28)
Y = torch.arange(40) * 7 % 10


def load(file, kind=torch.float64):
    model = torch.jit.load(str(ROOT / file)).to(kind)
    model.train()
    return model


def gradient(model, weights, samples):
    with torch.no_grad():
        for own, value in zip(model.parameters(), weights):
            own.copy_(value)
    model.zero_grad()
    loss = F.cross_entropy(model(X[samples]), Y[samples])
    loss.backward()
    return loss.item(), [own.grad.clone() for own in model.parameters()]


def show(name, losses):
    print(f"const {name}: [f64; {len(losses)}] = [{', '.join(f'{loss:.6f}' for loss in losses)}];")


def all_reduced(file, parts, rate=0.1, momentum=0.9):
    """Gradients of parts are averaged, and each takes the same step."""
    model = load(file)
    weights = [own.detach().clone() for own in model.parameters()]
    velocity = [torch.zeros_like(own) for own in weights]
    losses = []
    for _ in range(STEPS):
        found = [gradient(model, weights, part) for part in parts]
        losses.append(sum(loss for loss, _ in found) / len(parts))
        mean = [sum(own) / len(parts) for own in zip(*(slopes for _, slopes in found))]
        velocity = [momentum * v + g for v, g in zip(velocity, mean)]
        weights = [w - rate * v for w, v in zip(weights, velocity)]
    return losses, weights


def elastic(file, rate=0.1, moving_rate=0.25):
    """Sync EASGD: each worker and the centre are drawn to each other, all from where they were before the step."""
    model = load(file)
    centre = [own.detach().clone() for own in model.parameters()]
    workers = [[own.clone() for own in centre] for _ in SHARDS]
    losses = []
    for _ in range(STEPS):
        found = [gradient(model, own, shard) for own, shard in zip(workers, SHARDS)]
        losses.append(sum(loss for loss, _ in found) / 2)
        pulls = [[moving_rate * (w - c) for w, c in zip(own, centre)] for own in workers]
        workers = [
            [w - rate * g - p for w, g, p in zip(own, slopes, pull)]
            for own, (_, slopes), pull in zip(workers, found, pulls)
        ]
        centre = [c + sum(own) for c, own in zip(centre, zip(*pulls))]
    return losses


def gossip(file, rate=0.1):
    """D-PSGD of two neighbours: the mean of both, less the gradient of the worker's own model before."""
    model = load(file)
    workers = [[own.detach().clone() for own in model.parameters()] for _ in SHARDS]
    losses = []
    for _ in range(STEPS):
        found = [gradient(model, own, shard) for own, shard in zip(workers, SHARDS)]
        losses.append(sum(loss for loss, _ in found) / 2)
        mean = [(a + b) / 2 for a, b in zip(*workers)]
        workers = [[m - rate * g for m, g in zip(mean, slopes)] for _, slopes in found]
    return losses


def judged(file, weights, momentum):
    """The loss of all samples with the moments of all samples, as `update_bn` finds them for norms that training changes."""
    model = load(file)
    buffers = dict(model.named_buffers())
    norms = [name.removesuffix("num_batches_tracked") for name in buffers if name.endswith("num_batches_tracked")]
    moments = [buffers[norm + moment] for norm in norms for moment in ("running_mean", "running_var")]
    with torch.no_grad():
        for own, value in zip(model.parameters(), weights):
            own.copy_(value)
        for buffer in [*moments, *(buffers[norm + "num_batches_tracked"] for norm in norms)]:
            buffer.zero_()
        model(X)
        for buffer in moments:
            buffer /= momentum
        model.eval()
        return F.cross_entropy(model(X), Y).item()


if __name__ == "__main__":
    example = "examples/own-model/model.pt"
    show("LOSSES", all_reduced(example, [list(range(40))])[0])
    show("ELASTIC", elastic(example))
    show("GOSSIP", gossip(example))
    scripts = "runner/worker/tests/scripts/"
    for name, file, momentum in (("NORMED", "sequence.pt", 1.0), ("NESTED", "nested.pt", 0.1)):
        losses, weights = all_reduced(scripts + file, SHARDS)
        show(name, losses)
        print(f"const {name}_JUDGED: f64 = {judged(scripts + file, weights, momentum):.6f};")
