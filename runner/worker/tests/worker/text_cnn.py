"""The numbers of PyTorch in `text_cnn.rs`: `python3 text_cnn.py`."""

from collections import Counter

import torch
from torch import nn
from torch.nn import functional as F

CONTEXT = 7


class TextCnn(nn.Module):
    """Kim, 2014, in PyTorch's own layers."""

    def __init__(self, vocabulary, width, classes):
        super().__init__()
        self.vectors = nn.Embedding(vocabulary, width)
        self.filters = nn.ModuleList(nn.Conv1d(width, 100, window) for window in (3, 4, 5))
        self.linear = nn.Linear(300, classes)

    def forward(self, x):
        x = self.vectors(x).transpose(1, 2)
        return self.linear(torch.cat([F.relu(maps(x)).max(dim=2).values for maps in self.filters], dim=1))


def drawn_texts(count):
    """Texts of up to nine words of seven, each with one of three labels."""
    state, texts = 1, []

    def draw(below):
        nonlocal state
        state = (state * 1664525 + 1013904223) % 2**32
        return (state >> 16) % below

    for _ in range(count):
        label = draw(3)
        texts.append((label, [draw(7) for _ in range(1 + draw(9))]))
    return texts


def weight(place):
    """A 32-bit number in [-0.4, 0.4). Scattered: on a lattice two windows could have the same maximum but for rounding."""
    bits = (place * 2654435761 + 12345) % 2**32
    bits ^= bits >> 15
    bits = bits * 2246822519 % 2**32
    return (bits >> 8) / 2**24 * 0.8 - 0.4


def fixed(model):
    place = 0
    with torch.no_grad():
        for parameter in model.parameters():
            values = torch.tensor([weight(place + at) for at in range(parameter.numel())], dtype=torch.float32)
            parameter.copy_(values.double().reshape(parameter.shape))
            place += parameter.numel()


texts = drawn_texts(60)
counts = Counter(word for _, words in texts for word in words)
ranks = sorted(range(7), key=lambda word: (-counts[word], word))
rows = [[ranks.index(word) + 2 for word in words][:CONTEXT] for _, words in texts]
tokens = torch.tensor([row + [0] * (CONTEXT - len(row)) for row in rows])
labels = torch.tensor([label for label, _ in texts])

model = TextCnn(9, 6, 3).double()
fixed(model)
chosen = torch.tensor([4, 0, 7, 9, 13])
scores = model(tokens[chosen])
loss = F.cross_entropy(scores, labels[chosen])
loss.backward()
print("TOKENS of text 4", tokens[4].tolist(), "label", labels[4].item())
print("LOSS", f"{loss.item():.10f}")
print("SCORES", [f"{value:.8f}" for value in scores[-1].tolist()])
for name, parameter in model.named_parameters():
    slope = parameter.grad.flatten()
    numbers = ((torch.arange(slope.numel(), dtype=torch.float64) * 53 + 7) % 97) / 97
    print(f"    [{slope.norm().item():.9f}, {(slope * numbers).sum().item():.9f}], // {name}")
model.zero_grad()
fixed(model)
rule = torch.optim.SGD(model.parameters(), lr=0.05)
for step in range(10):
    chosen = torch.tensor([(3 * step + place) % 60 for place in range(5)])
    rule.zero_grad()
    loss = F.cross_entropy(model(tokens[chosen]), labels[chosen])
    loss.backward()
    rule.step()
    print(f"    {loss.item():.8f},")
