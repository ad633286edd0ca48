"""Models and losses with one mistake each."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.rules.examples import network


class ModelWithTail(nn.Module):
    """A model followed by a function."""

    def __init__(self, inner: nn.Module, tail: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.inner, self.tail = inner, tail

    def forward(self, x: Tensor) -> Tensor:
        return self.tail(self.inner(x))


class DetachedBody(nn.Module):
    """A body whose output passes through a function without a gradient."""

    def __init__(self, detach: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.body, self.head, self.detach = nn.Linear(4, 8), nn.Linear(8, 3), detach

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.detach(self.body(x)))


class UnusedLayer(nn.Module):
    """A layer that the forward pass does not call."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.spare = network(3), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x)


class NoGradModel(nn.Module):
    """A model that runs under no_grad."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = network(3)

    @torch.no_grad()
    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x)


def tagger(tail: bool = True) -> nn.Module:
    """Probabilities or logits of three tags for each frame."""
    return nn.Sequential(nn.Linear(4, 3), nn.Softmax(dim=-1) if tail else nn.Identity())


def segmenter() -> nn.Module:
    """Probabilities of two classes for each pixel."""
    return nn.Sequential(nn.Conv2d(2, 2, 3, padding=1), nn.Softmax(dim=1))


def oversized_head() -> nn.Module:
    """A network whose head weights are twenty times too large."""
    model = network(3)
    with torch.no_grad():
        model[2].weight.mul_(20)
    return model


def relu_under_no_grad(hidden: Tensor) -> Tensor:
    with torch.no_grad():
        return torch.relu(hidden)


def softmax_in_loss(output: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(F.softmax(output, dim=1), target)


def token_cross_entropy(output: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(output.reshape(-1, output.shape[-1]), target.reshape(-1))


def scaled_bce_with_logits(output: Tensor, target: Tensor) -> Tensor:
    return 2 * F.binary_cross_entropy_with_logits(output, target)


def squared_error(output: Tensor, target: Tensor) -> Tensor:
    return ((output - target) ** 2).mean()


def absolute_error(output: Tensor, target: Tensor) -> Tensor:
    return target.sub(output).abs().mean()


def mean_of_items(output: Tensor, target: Tensor) -> Tensor:
    rows = [F.cross_entropy(o, t).item() for o, t in zip(output, target, strict=True)]
    return torch.tensor(sum(rows) / len(rows))


def detached_loss(output: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(output, target).detach()


def numpy_loss(output: Tensor, target: Tensor) -> Tensor:
    probabilities = output.softmax(1).detach().numpy()
    return torch.tensor(-probabilities[range(len(target)), target.numpy()].mean())


def accuracy_loss(output: Tensor, target: Tensor) -> Tensor:
    return (output.argmax(1) != target).float().mean()


def loss_of_new_tensor(output: Tensor, target: Tensor) -> Tensor:
    output = torch.tensor(output, requires_grad=True)
    return F.cross_entropy(output, target)


def wrapped_cross_entropy(output: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(output, target) + 0.0
