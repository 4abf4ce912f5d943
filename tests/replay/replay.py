#!/usr/bin/env python3
"""Repeats an exported run of linear and relu layers on MNIST-like files, and compares the final weights.

    bakeoff run recipe.toml --set measure.samples=true
    bakeoff export last --format safetensors -o weights
    python3 tests/replay/replay.py weights/RUN data/mnist

Plain Python without packages, so that nothing of any framework is in between: slow, but a small model takes
seconds. Nothing runs this by itself; `tests/tests/commands/export.rs` does the same in Rust. Prints the largest difference of
two weights; 1e-5 is what 32 bits leave after some hundred steps.
"""

import csv
import gzip
import json
import math
import struct
import sys
from pathlib import Path


def tensors(path):
    """A safetensors file as {name: (shape, values)}."""
    data = Path(path).read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    head, body = json.loads(data[8 : 8 + size]), data[8 + size :]
    head.pop("__metadata__", None)
    found = {}
    for name, entry in head.items():
        begin, end = entry["data_offsets"]
        found[name] = (entry["shape"], list(struct.unpack(f"<{(end - begin) // 4}f", body[begin:end])))
    return found


def idx(folder, name, head):
    """The bytes of an IDX file behind its head, plain or gzip."""
    plain, packed = Path(folder, name), Path(folder, name + ".gz")
    data = plain.read_bytes() if plain.is_file() else gzip.decompress(packed.read_bytes())
    return data[head:]


def steps(folder):
    """[(rate, sample ids of all ranks)] by step."""
    used = {}
    with open(Path(folder, "samples.csv")) as table:
        for row in csv.DictReader(table):
            used.setdefault(int(row["step"]), []).append(int(row["sample_id"]))
    with open(Path(folder, "rates.csv")) as table:
        return [(float(row["rate"]), used[int(row["step"])]) for row in csv.DictReader(table)]


def gradient(layers, weights, inputs, label):
    """The gradient of one sample's cross-entropy, as {name: values}, layer by layer backwards."""
    trail = [inputs]
    for kind, name in layers:
        x = trail[-1]
        if kind == "relu":
            trail.append([max(value, 0.0) for value in x])
        elif kind == "linear":
            w, b = weights[name + ".weight"], weights[name + ".bias"]
            rows = range(len(b))
            trail.append([b[r] + sum(map(float.__mul__, w[r * len(x) : (r + 1) * len(x)], x)) for r in rows])
    top = max(trail[-1])
    powers = [math.exp(score - top) for score in trail[-1]]
    error = [power / sum(powers) - (place == label) for place, power in enumerate(powers)]
    found = {}
    for (kind, name), x in zip(reversed(layers), reversed(trail[:-1])):
        if kind == "relu":
            error = [e if value > 0 else 0.0 for e, value in zip(error, x)]
        elif kind == "linear":
            w = weights[name + ".weight"]
            found[name + ".bias"] = error
            found[name + ".weight"] = [e * value for e in error for value in x]
            error = [sum(error[r] * w[r * len(x) + c] for r in range(len(error))) for c in range(len(x))]
    return found


def replay(folder, data):
    spec = json.loads(Path(folder, "run.json").read_text())["spec"]
    layers = [(layer["layer"]["kind"], layer["name"]) for layer in spec["model"]["layers"]]
    layers = [layer for layer in layers if layer[0] != "flatten"]
    if any(kind not in ("linear", "relu") for kind, _ in layers):
        sys.exit("this script knows linear and relu layers only")
    sgd = spec["train"]["optimizer"]
    pixels, labels = idx(data, "train-images-idx3-ubyte", 16), idx(data, "train-labels-idx1-ubyte", 8)
    size = len(pixels) // len(labels)
    mean = sum(pixels) / len(pixels)
    deviation = math.sqrt(sum(value * value for value in pixels) / len(pixels) - mean * mean)
    weights = {name: values for name, (_, values) in tensors(Path(folder, "initial.safetensors")).items()}
    velocity = {name: [0.0] * len(values) for name, values in weights.items()}
    for rate, samples in steps(folder):
        total = {name: [0.0] * len(values) for name, values in weights.items()}
        for sample in samples:
            image = pixels[sample * size : (sample + 1) * size]
            own = gradient(layers, weights, [(value - mean) / deviation for value in image], labels[sample])
            for name, values in own.items():
                total[name] = [t + value / len(samples) for t, value in zip(total[name], values)]
        for name, w in weights.items():
            v = [
                sgd["momentum"] * old + g + sgd["weight_decay"] * value
                for old, g, value in zip(velocity[name], total[name], w)
            ]
            velocity[name] = v
            weights[name] = [value - rate * step for value, step in zip(w, v)]
    final = {name: values for name, (_, values) in tensors(Path(folder, "final.safetensors")).items()}
    return max(abs(a - b) for name in final for a, b in zip(final[name], weights[name]))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    print(f"largest difference: {replay(sys.argv[1], sys.argv[2]):.3g}")
