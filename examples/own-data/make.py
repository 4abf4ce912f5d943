"""Writes the four arrays of this folder, and the same as safetensors: three spirals in the plane, with noise.

    python make.py

Your own data goes the same way: features as float32 or float64 of shape [samples, values], or as uint8 of shape
[samples, channels, rows, columns]; labels as integers from 0 on, one for each sample. Which of the two
forms you take makes no difference: recipes say `kind = "npy"` or `kind = "safetensors"`.
"""

import numpy as np
from safetensors.numpy import save_file

CLASSES = 3


def spirals(samples, seed):
    random = np.random.default_rng(seed)
    labels = np.arange(samples) % CLASSES
    radius = np.sqrt(random.uniform(0.02, 1.0, samples))
    angle = 2 * np.pi * labels / CLASSES + 3.5 * radius + random.normal(0.0, 0.15, samples)
    points = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
    return points.astype(np.float32), labels.astype(np.uint8)


for name, samples, seed in [("train", 1500, 1), ("test", 600, 2)]:
    features, labels = spirals(samples, seed)
    np.save(f"{name}_x.npy", features)
    np.save(f"{name}_y.npy", labels)
    save_file({"x": features, "y": labels}, f"{name}.safetensors")
