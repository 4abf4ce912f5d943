"""A model of one's own: `python model.py` writes model.pt, and `bakeoff run recipe.toml` trains it."""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, 8, 5, stride=2), nn.ReLU(), nn.MaxPool2d(2))
        self.hidden = nn.Sequential(nn.Flatten(), nn.Linear(288, 24), nn.ReLU())
        self.scores = nn.Linear(24, 10)

    # Each stage is a layer of its own: its gradient can travel while those of the stages below are computed. Without
    # stages, `forward` is one layer.
    @torch.jit.export
    def stage0(self, x):
        return self.features(x)

    @torch.jit.export
    def stage1(self, x):
        return self.hidden(x)

    @torch.jit.export
    def stage2(self, x):
        return self.scores(x)

    def forward(self, x):
        return self.stage2(self.stage1(self.stage0(x)))


if __name__ == "__main__":
    torch.manual_seed(1)
    torch.jit.script(Net()).save("model.pt")
