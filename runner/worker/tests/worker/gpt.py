"""The numbers of PyTorch in `texts.rs`: `python3 gpt.py`. With a path, trains the model of `recipes/models/gpt.toml` on a text."""

import math
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln1 = nn.LayerNorm(width)
        self.inward = nn.Linear(width, 3 * width)
        self.outward = nn.Linear(width, width)
        self.ln2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        n, t, c = x.shape
        q, k, v = self.inward(self.ln1(x)).split(c, dim=2)
        q, k, v = (part.view(n, t, self.heads, c // self.heads).transpose(1, 2) for part in (q, k, v))
        scores = q @ k.transpose(-2, -1) / math.sqrt(c // self.heads)
        later = torch.ones(t, t, dtype=torch.bool).triu(1)
        weights = scores.masked_fill(later, float("-inf")).softmax(-1)
        x = x + self.outward((weights @ v).transpose(1, 2).reshape(n, t, c))
        return x + self.down(F.gelu(self.up(self.ln2(x))))


class Gpt(nn.Module):
    def __init__(self, vocabulary, context, width, heads, depth):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(depth))
        self.ln = nn.LayerNorm(width)

    def forward(self, x):
        x = self.tokens(x) + self.positions.weight[: x.shape[1]]
        for block in self.blocks:
            x = block(x)
        return F.linear(self.ln(x), self.tokens.weight)

    def loss(self, x, y):
        return F.cross_entropy(self(x).flatten(0, 1), y.flatten())


def drawn_text(length, alphabet):
    state, text = 1, []
    for _ in range(length):
        state = (state * 1664525 + 1013904223) % 2**32
        text.append((state >> 24) % alphabet)
    return text


def fixed(model):
    place = 0
    with torch.no_grad():
        for parameter in model.parameters():
            numbers = torch.arange(place, place + parameter.numel(), dtype=torch.float64)
            values = ((numbers * 37 + 11) % 101) / 101 * 0.8 - 0.4
            parameter.copy_(values.reshape(parameter.shape))
            place += parameter.numel()


def stored():
    text = torch.tensor(drawn_text(200, 7))
    torch.manual_seed(0)
    model = Gpt(7, 5, 8, 2, 2).double()
    fixed(model)
    x, y = cut(text, 5, torch.tensor([4, 0, 7, 9, 13]))
    loss = model.loss(x, y)
    loss.backward()
    print("LOSS", f"{loss.item():.10f}")
    scores = model(x).detach().flatten(0, 1)
    print("SCORES of the last position", [f"{value:.8f}" for value in scores[-1].tolist()])
    print("GRADIENTS")
    for parameter in model.parameters():
        gradient = parameter.grad.flatten()
        numbers = torch.arange(gradient.numel(), dtype=torch.float64)
        dot = (gradient * (((numbers * 53 + 7) % 97) / 97)).sum()
        print(f"    [{gradient.norm().item():.9f}, {dot.item():.9f}],")
    model = Gpt(7, 5, 8, 2, 2)
    fixed(model)
    adamw = torch.optim.AdamW(model.parameters(), lr=0.01, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)
    losses = []
    for step in range(20):
        x, y = cut(text, 5, torch.tensor([(3 * step + k) % 35 for k in range(5)]))
        adamw.zero_grad()
        loss = model.loss(x, y)
        loss.backward()
        adamw.step()
        losses.append(f"{loss.item():.7f}")
    print("ADAMW", ", ".join(losses))


def train(path, steps, batch=32, context=64, width=64, heads=4, depth=2, lr=1e-3):
    text = torch.tensor(list(open(path, "rb").read()))
    count = (len(text) - 1) // context
    test = round(count * 0.1)
    for seed in range(3):
        torch.manual_seed(seed)
        torch.set_num_threads(1)
        model = Gpt(256, context, width, heads, depth)
        for name, parameter in model.named_parameters():
            if "ln" in name:
                continue
            if name.endswith("bias"):
                nn.init.zeros_(parameter)
            else:
                last = "outward" in name or "down" in name
                nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * depth) if last else 0.02)
        adamw = torch.optim.AdamW(model.parameters(), lr=lr, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0)
        begun, step = time.time(), 0
        while step < steps:
            for part in torch.randperm(count - test).split(batch):
                x, y = cut(text, context, part)
                adamw.zero_grad()
                model.loss(x, y).backward()
                adamw.step()
                step += 1
                if step == steps:
                    break
        with torch.no_grad():
            parts = torch.arange(count - test, count).split(64)
            total = sum(model.loss(*cut(text, context, part)).item() * len(part) for part in parts)
        print("seed", seed, "test loss", total / test, f"{time.time() - begun:.1f} s")


def cut(text, context, which):
    places = which.unsqueeze(1) * context + torch.arange(context)
    return text[places], text[places + 1]


if __name__ == "__main__":
    train(sys.argv[1], int(sys.argv[2])) if len(sys.argv) > 2 else stored()
