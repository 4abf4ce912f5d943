"""Writes the TorchScript files of the tests of `tests/worker/scripts.rs` beside itself (PyTorch 2.11)."""

from pathlib import Path

import torch
from torch import nn

HERE = Path(__file__).parent


def pooled():
    return [nn.AvgPool2d(7), nn.Flatten()]


class Dropping(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(*pooled(), nn.Linear(16, 12), nn.Dropout(0.5), nn.Linear(12, 10))

    def forward(self, x):
        return self.net(x)


class Normed(nn.Module):
    """Its norm keeps running statistics."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(*pooled(), nn.BatchNorm1d(16), nn.Linear(16, 10))

    def forward(self, x):
        return self.net(x)


class Forgetful(nn.Module):
    """Its norm keeps nothing, and looks at the whole batch."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(*pooled(), nn.BatchNorm1d(16, track_running_stats=False), nn.Linear(16, 10))

    def forward(self, x):
        return self.net(x)


class Experts(nn.Module):
    """The second expert is never asked."""

    def __init__(self):
        super().__init__()
        self.pool = nn.Sequential(*pooled())
        self.one = nn.Linear(16, 10)
        self.two = nn.Linear(16, 10)

    def forward(self, x):
        y = self.pool(x)
        if y.sum().item() > 1e9:
            return self.two(y)
        return self.one(y)


class Tied(nn.Module):
    """Two modules with one weight."""

    def __init__(self):
        super().__init__()
        self.pool = nn.Sequential(*pooled())
        self.one = nn.Linear(16, 16)
        self.two = nn.Linear(16, 16)
        self.two.weight = self.one.weight
        self.top = nn.Linear(16, 10)

    def forward(self, x):
        return self.top(self.two(self.one(self.pool(x))))


class Tokens(nn.Module):
    """Numbers of tokens as floats, of which the model changes its own copy, and a logarithm."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(4, 3)
        self.top = nn.Linear(3 * 16, 10)

    def forward(self, x):
        tokens = x.mul_(1.0).flatten(1)[:, :16]
        scores = self.top(self.embedding(tokens.clamp(0, 3).long()).flatten(1))
        return scores + torch.log1p(tokens.sum(1, keepdim=True).abs())


class Frozen(nn.Module):
    """Only the last layer is trained."""

    def __init__(self):
        super().__init__()
        self.below = nn.Sequential(*pooled(), nn.Linear(16, 12), nn.ReLU())
        self.below.requires_grad_(False)
        self.top = nn.Linear(12, 10)

    def forward(self, x):
        return self.top(self.below(x))


class Shared(nn.Module):
    def __init__(self):
        super().__init__()
        self.pool = nn.Sequential(*pooled())
        self.square = nn.Linear(16, 16)
        self.top = nn.Linear(16, 10)

    @torch.jit.export
    def stage0(self, x):
        return self.square(self.pool(x))

    @torch.jit.export
    def stage1(self, x):
        return self.top(self.square(x))


class Blocked(nn.Module):
    """No gradient passes the second stage."""

    def __init__(self):
        super().__init__()
        self.below = nn.Sequential(*pooled(), nn.Linear(16, 16))
        self.top = nn.Linear(16, 10)

    @torch.jit.export
    def stage0(self, x):
        return self.below(x)

    @torch.jit.export
    def stage1(self, x):
        return self.top(x.round().detach())


class InPlace(nn.Module):
    """Changes what comes to its second stage."""

    def __init__(self):
        super().__init__()
        self.below = nn.Sequential(*pooled(), nn.Linear(16, 16), nn.Sigmoid())
        self.top = nn.Linear(16, 10)

    @torch.jit.export
    def stage0(self, x):
        return self.below(x)

    @torch.jit.export
    def stage1(self, x):
        return self.top(x.mul_(2.0))


class Different(nn.Module):
    """Its `forward` has a rectifier that its stages do not have."""

    def __init__(self):
        super().__init__()
        self.below = nn.Sequential(*pooled(), nn.Linear(16, 16))
        self.top = nn.Linear(16, 10)

    @torch.jit.export
    def stage0(self, x):
        return self.below(x)

    @torch.jit.export
    def stage1(self, x):
        return self.top(x)

    def forward(self, x):
        return self.stage1(torch.relu(self.stage0(x)))


class Counting(nn.Module):
    """Counts its calls in training, and uses the count there only."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(*pooled(), nn.Linear(16, 10))
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        if self.training:
            self.calls.add_(1.0)
            return self.net(x) / self.calls
        return self.net(x)


class Rowless(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(*pooled(), nn.Linear(16, 10))

    def forward(self, x):
        return self.net(x).mean(0)


class Talking(Rowless):
    """Prints in each call, more than a buffer holds, so that what comes next begins within a line."""

    def forward(self, x):
        print("rows:", x.size(0), x)
        return self.net(x)


class Weightless(nn.Module):
    @torch.jit.export
    def stage0(self, x):
        return x.flatten(1)


class Doubled(Rowless):
    def forward(self, x):
        return self.net(x.double())


class Nameless(nn.Module):
    @torch.jit.export
    def scores(self, x):
        return x


class FromOne(nn.Module):
    """Counts its stages from 1."""

    def __init__(self):
        super().__init__()
        self.below = nn.Sequential(*pooled(), nn.Linear(16, 16))
        self.top = nn.Linear(16, 10)

    @torch.jit.export
    def stage1(self, x):
        return self.below(x)

    @torch.jit.export
    def stage2(self, x):
        return self.top(x)

    def forward(self, x):
        return self.top(self.below(x))


class Gap(nn.Module):
    """Has no `stage1`."""

    def __init__(self):
        super().__init__()
        self.below = nn.Sequential(*pooled(), nn.Linear(16, 10))

    @torch.jit.export
    def stage0(self, x):
        return self.below(x)

    @torch.jit.export
    def stage2(self, x):
        return x * 2.0


def sequence():
    """Of two layers without weights in front, and a norm whose running statistics are means over all batches."""
    return nn.Sequential(*pooled(), nn.Linear(16, 12), nn.BatchNorm1d(12, momentum=None), nn.ReLU(), nn.Linear(12, 10))


class FrozenNorm(nn.Module):
    """Keeps the statistics that it has, as those of detection models do."""

    def __init__(self):
        super().__init__()
        self.register_buffer("running_mean", torch.linspace(0.3, 0.7, 16))
        self.register_buffer("running_var", torch.linspace(0.001, 0.004, 16))

    def forward(self, x):
        return (x - self.running_mean) / (self.running_var + 1e-5).sqrt()


def nested():
    """Sequences within a sequence, whose classes have names of their own in the file, and a norm below another."""
    below = nn.Sequential(*pooled(), FrozenNorm())
    hidden = nn.Sequential(nn.Linear(16, 12), nn.BatchNorm1d(12, momentum=0.1), nn.ReLU())
    return nn.Sequential(below, hidden, nn.Linear(12, 10))


class Strange(Rowless):
    """Its scores have a type that few programs know."""

    def forward(self, x):
        return self.net(x).to(torch.uint16)


class Fold(nn.Module):
    """Rows of one image become rows of their own."""

    def forward(self, x):
        return x.reshape(-1, 8)


class Unfold(nn.Module):
    def forward(self, x):
        return x.reshape(-1, 10)


def folded():
    """A sequence that cannot be cut: between its modules, a row is no example."""
    return nn.Sequential(*pooled(), Fold(), nn.Linear(8, 5), nn.ReLU(), nn.Linear(5, 5), Unfold())


def triple(module, input: tuple[torch.Tensor], output: torch.Tensor) -> torch.Tensor:
    return output * 3.0


def hooked():
    """What Python runs around a call is no part of `forward`."""
    model = nn.Sequential(*pooled(), nn.Linear(16, 10))
    model.register_forward_hook(triple)
    return model


class Overlapping(nn.Module):
    """Two weights that share a part of their memory."""

    def __init__(self):
        super().__init__()
        self.pool = nn.Sequential(*pooled())
        values = torch.randn(17 * 10)
        self.one = nn.Parameter(values[:160].view(10, 16))
        self.two = nn.Parameter(values[10:].view(10, 16))

    def forward(self, x):
        x = self.pool(x)
        return x @ self.one.t() + x @ self.two.t()


def save(name, module, double=False):
    torch.jit.script(module.double() if double else module).save(str(HERE / f"{name}.pt"))


if __name__ == "__main__":
    torch.manual_seed(1)
    save("dropout", Dropping())
    save("batch-norm", Normed())
    save("forgetful", Forgetful())
    save("experts", Experts())
    save("tied", Tied())
    save("tokens", Tokens())
    save("frozen", Frozen())
    save("shared", Shared())
    save("blocked", Blocked())
    save("in-place", InPlace())
    save("different", Different())
    save("counting", Counting())
    save("talking", Talking())
    save("weightless", Weightless())
    save("rowless", Rowless())
    save("doubled", Doubled(), double=True)
    save("nameless", Nameless())
    save("from-one", FromOne())
    save("gap", Gap())
    save("sequence", sequence())
    save("nested", nested())
    save("strange", Strange())
    save("folded", folded())
    save("hooked", hooked())
    save("overlapping", Overlapping())
