"""M313: biases that a batch normalization cancels, and biases that count."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.debugger import Debugger
from nbdebug.finding import Finding
from nbdebug.rules.programs import points, program

X, Y = points()
IMAGES = torch.rand(64, 1, 6, 6)


def found(model: nn.Module, x: Tensor = X) -> list[Finding]:
    report = Debugger.of(program(model, x, Y, nn.CrossEntropyLoss())).checkup(select=["M313"])
    return [one for one in report if one.code == "M313"]


def rows(*middle: nn.Module, bias: bool = True) -> nn.Module:
    return nn.Sequential(nn.Linear(4, 8, bias=bias), *middle, nn.Linear(8, 3))


def images(bias: bool, norm: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 4, 3, bias=bias), norm, nn.Flatten(), nn.Linear(64, 3))


class ByHand(nn.Module):
    """Functional normalization; with ``also`` the layer is used beside it."""

    def __init__(self, also: bool) -> None:
        super().__init__()
        self.body, self.head, self.also = nn.Linear(4, 8), nn.Linear(8, 3), also

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.body(x)
        normal = F.batch_norm(hidden, None, None, training=True)
        return self.head(normal + hidden if self.also else normal)


@pytest.mark.parametrize(
    ("model", "x", "name"),
    [
        (rows(nn.BatchNorm1d(8)), X, "0.bias"),
        (images(True, nn.BatchNorm2d(4)), IMAGES, "0.bias"),
        (images(True, nn.BatchNorm2d(4)).to(memory_format=torch.channels_last), IMAGES, "0.bias"),
        (ByHand(also=False), X, "body.bias"),
    ],
)
def test_a_canceled_bias_is_a_note(model: nn.Module, x: Tensor, name: str) -> None:
    (one,) = found(model, x)
    assert one.severity == "note"
    assert one.evidence["parameters"] == [name]


@pytest.mark.parametrize(
    ("model", "x"),
    [
        (rows(nn.BatchNorm1d(8), bias=False), X),
        (rows(nn.ReLU(), nn.BatchNorm1d(8)), X),
        (rows(nn.LayerNorm(8)), X),
        (rows(nn.BatchNorm1d(8).eval()), X),
        (images(False, nn.BatchNorm2d(4)), IMAGES),
        (images(True, nn.GroupNorm(2, 4)), IMAGES),
        (ByHand(also=True), X),
    ],
)
def test_a_bias_that_counts_draws_nothing(model: nn.Module, x: Tensor) -> None:
    assert found(model, x) == []
