"""Models and losses with one mistake each."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.rules.examples import network


class Softmaxed(nn.Module):
    """A classifier with something behind its head."""

    def __init__(self, tail: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.inner, self.tail = network(3), tail

    def forward(self, x: Tensor) -> Tensor:
        return self.tail(self.inner(x))


class Scored(nn.Module):
    """One number for each sample, in a row, with something behind it."""

    def __init__(self, tail: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.inner, self.tail = network(1), tail

    def forward(self, x: Tensor) -> Tensor:
        return self.tail(self.inner(x).squeeze(-1))


class Cut(nn.Module):
    """A hidden layer passed through something that cuts its gradient off."""

    def __init__(self, cut: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.body, self.head, self.cut = nn.Linear(4, 8), nn.Linear(8, 3), cut

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.cut(self.body(x)))


class Unused(nn.Module):
    """A layer that no forward pass calls."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.spare = network(3), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x)


class WithoutGradients(nn.Module):
    """Runs all of itself under no_grad."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = network(3)

    @torch.no_grad()
    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x)


def tagger(tail: bool = True) -> nn.Module:
    """Scores of three tags for each frame."""
    return nn.Sequential(nn.Linear(4, 3), nn.Softmax(dim=-1) if tail else nn.Identity())


def segmenter() -> nn.Module:
    """Scores of two classes for each pixel."""
    return nn.Sequential(nn.Conv2d(2, 2, 3, padding=1), nn.Softmax(dim=1))


def angry() -> nn.Module:
    """A head that starts with weights ten times too large."""
    model = network(3)
    with torch.no_grad():
        model[2].weight.mul_(20)
    return model


def under_no_grad(hidden: Tensor) -> Tensor:
    with torch.no_grad():
        return torch.relu(hidden)


def softmax_in_loss(output: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(F.softmax(output, dim=1), target)


def loss_by_token(output: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(output.reshape(-1, output.shape[-1]), target.reshape(-1))


def with_logits(output: Tensor, target: Tensor) -> Tensor:
    return 2 * F.binary_cross_entropy_with_logits(output, target)


def squared(output: Tensor, target: Tensor) -> Tensor:
    return ((output - target) ** 2).mean()


def absolute(output: Tensor, target: Tensor) -> Tensor:
    return target.sub(output).abs().mean()


def by_items(output: Tensor, target: Tensor) -> Tensor:
    rows = [F.cross_entropy(o, t).item() for o, t in zip(output, target, strict=True)]
    return torch.tensor(sum(rows) / len(rows))


def detached_loss(output: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(output, target).detach()


def numpy_loss(output: Tensor, target: Tensor) -> Tensor:
    probabilities = output.softmax(1).detach().numpy()
    return torch.tensor(-probabilities[range(len(target)), target.numpy()].mean())


def accuracy_loss(output: Tensor, target: Tensor) -> Tensor:
    return (output.argmax(1) != target).float().mean()


def fresh_tensor(output: Tensor, target: Tensor) -> Tensor:
    output = torch.tensor(output, requires_grad=True)
    return F.cross_entropy(output, target)


def wrapped(output: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(output, target) + 0.0


class Headed(nn.Module):
    """A model with something behind its head."""

    def __init__(self, inner: nn.Module, tail: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.inner, self.tail = inner, tail

    def forward(self, x: Tensor) -> Tensor:
        return self.tail(self.inner(x))
