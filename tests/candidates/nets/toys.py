"""Modules for the tests: good ones, and ones that couple rows in every way known."""

import torch
from torch import nn


class Small(nn.Module):
    """Two layers; shapes fixed by its own arguments."""

    def __init__(self, n_features_in=4, n_outputs=2, width=5, dropout=0.0):
        super().__init__()
        self.first = nn.Linear(n_features_in, width)
        self.drop = nn.Dropout(dropout)
        self.last = nn.Linear(width, n_outputs)

    def forward(self, x):
        return self.last(self.drop(torch.tanh(self.first(x))))


class WithLayer(nn.Module):
    """A layer of the caller's choice between two linear ones."""

    def __init__(self, layer=nn.Identity, n_features_in=4, n_outputs=2, width=6):
        super().__init__()
        self.first = nn.Linear(n_features_in, width)
        self.layer = layer()
        self.last = nn.Linear(width, n_outputs)

    def forward(self, x):
        return self.last(self.layer(self.first(x)))


class Frozen(Small):
    """One weight does not learn."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.first.weight.requires_grad_(False)


class Unused(Small):
    """A parameter that forward never touches."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.spare = nn.Linear(2, 2)


class Centred(nn.Module):
    """Subtracts the mean of the batch: rows meet in the output."""

    def forward(self, x):
        return x - x.mean(0)


class MovingAverage(nn.Module):
    """Keeps a moving average in a buffer."""

    def __init__(self):
        super().__init__()
        self.register_buffer("average", torch.zeros(6))

    def forward(self, x):
        if self.training:
            self.average.mul_(0.9).add_(0.1 * x.detach().mean(0))
        return x - self.average


class Remembers(nn.Module):
    """Keeps the last batch in a plain attribute and uses it."""

    def forward(self, x):
        last = getattr(self, "last", None)
        self.last = x.detach().mean()
        return x if last is None else x + last


class RandomPlain(nn.Module):
    """Random numbers that are neither parameter nor buffer."""

    def __init__(self):
        super().__init__()
        self.numbers = torch.randn(6)

    def forward(self, x):
        return x * self.numbers


class Reseeds(nn.Module):
    """Fixes torch's global seed in every forward."""

    def forward(self, x):
        torch.manual_seed(0)
        return x


class Caches(Small):
    """Keeps every batch it has seen."""

    def forward(self, x):
        self.cache = x.detach().clone()
        return super().forward(x)


class Raises(Small):
    """Raises for rows whose first entry is large."""

    def forward(self, x):
        if bool((x[:, 0] > 100).any()):
            raise ValueError("a row with a large first entry")
        return super().forward(x)


class Square(Small):
    """Grows without bound, so that large rows have infinite gradients."""

    def forward(self, x):
        return self.last(self.first(x) ** 2)


class TwoInputs(nn.Module):
    """Takes a dict of two arrays."""

    def __init__(self, n_outputs=2):
        super().__init__()
        self.table = nn.Linear(3, n_outputs)
        self.words = nn.Embedding(7, n_outputs)

    def forward(self, table, word):
        return self.table(table) + self.words(word).mean(1)


class Words(nn.Module):
    """An embedding of whole numbers."""

    def __init__(self, n_outputs=2):
        super().__init__()
        self.embed = nn.Embedding(7, 5)
        self.last = nn.Linear(5, n_outputs)

    def forward(self, x):
        return self.last(self.embed(x).mean(1))


class Images(nn.Module):
    """A small convolutional net for rows of 64 numbers or images of 8 x 8."""

    def __init__(self, n_outputs=3):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3)
        self.norm = nn.GroupNorm(2, 4)
        self.last = nn.Linear(4 * 36, n_outputs)

    def forward(self, x):
        x = torch.tanh(self.norm(self.conv(x.reshape(-1, 1, 8, 8))))
        return self.last(x.flatten(1))


class Positions(nn.Module):
    """A linear layer applied to several positions of a row."""

    def __init__(self, n_outputs=2):
        super().__init__()
        self.each = nn.Linear(3, 4)
        self.last = nn.Linear(4, n_outputs)

    def forward(self, x):
        return self.last(torch.tanh(self.each(x)).mean(1))


class MeanLoss(nn.Module):
    """Ignores reduction='none': one number for the batch, repeated."""

    def __init__(self, reduction="mean"):
        super().__init__()

    def forward(self, outputs, targets):
        losses = nn.functional.cross_entropy(outputs, targets, reduction="none")
        return losses.mean().expand(len(targets))


class WeightedMean(nn.Module):
    """Divides by the weights of the batch, as a weighted mean loss does."""

    def __init__(self, reduction="mean"):
        super().__init__()
        self.register_buffer("weight", torch.tensor([0.1, 10.0]))

    def forward(self, outputs, targets):
        losses = nn.functional.cross_entropy(outputs, targets, weight=self.weight, reduction="none")
        return losses / self.weight[targets].sum()


class Extra(Small):
    """State that is neither parameter nor buffer in the state dict."""

    def get_extra_state(self):
        return {"version": 1}

    def set_extra_state(self, state):
        pass


class Fleeting(Small):
    """Random features in a buffer that the state dict leaves out."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.register_buffer("mixed", torch.randn(4, 4), persistent=False)

    def forward(self, x):
        return super().forward(x @ self.mixed)


class Encoded(nn.Module):
    """Takes a module among its arguments."""

    def __init__(self, encoder):
        super().__init__()
        self.encoder, self.last = encoder, nn.Linear(4, 2)

    def forward(self, x):
        return self.last(torch.tanh(self.encoder(x)))


class InPlace(Small):
    """Works on its input in place."""

    def forward(self, x):
        x.mul_(2.0).clamp_(-3, 3)
        return super().forward(x)


class Counts(nn.Module):
    """Holds a frozen parameter of whole numbers before all others."""

    def __init__(self):
        super().__init__()
        self.code = nn.Parameter(torch.ones(3, dtype=torch.int64), requires_grad=False)
        self.last = nn.Linear(4, 2)

    def forward(self, x):
        return self.last(x) + self.code.sum()
