"""M308: two linear layers in a row are found; the projections of an attention are not."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.rules.examples import minimal_setup
from nbdebug.setup import Setup
from tests.rules.rule_findings import rule_findings

X, Y = torch.randn(32, 6, 8, generator=torch.Generator().manual_seed(0)), torch.arange(32) % 3
Read = Callable[[Tensor, Tensor, Tensor], Tensor]


class Reader(nn.Module):
    """An attention by hand, whose output projection the head reads."""

    def __init__(self, read: Read) -> None:
        super().__init__()
        self.qkv, self.out, self.head, self.read = nn.Linear(8, 24), nn.Linear(8, 8), nn.Linear(8, 3), read

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.out(self.read(*self.qkv(x).chunk(3, -1)))[:, 0])


class Projected(nn.Module):
    """Features that are brought to the width of torch's own attention."""

    def __init__(self) -> None:
        super().__init__()
        self.width, self.attend = nn.Linear(8, 16), nn.MultiheadAttention(16, 2, batch_first=True)
        self.head = nn.Linear(16, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.width(x)
        return self.head(self.attend(x, x, x)[0][:, -1])


def of(model: nn.Module) -> Setup:
    return minimal_setup(model, X, Y, nn.CrossEntropyLoss())


HEALTHY: dict[str, Callable[[], nn.Module]] = {
    "attention by hand": lambda: Reader(lambda q, k, v: F.softmax(q @ k.transpose(1, 2) / 3, -1) @ v),
    "torch's attention of products": lambda: Reader(F.scaled_dot_product_attention),
    "torch's attention": Projected,
    "linear attention": lambda: Reader(lambda q, k, v: q.softmax(-1) @ (k.softmax(1).transpose(1, 2) @ v)),
}


@pytest.mark.parametrize("name", HEALTHY)
def test_projections_of_an_attention_are_left_alone(name: str) -> None:
    assert rule_findings(of(HEALTHY[name]()), "M308") == []


FAULTY: dict[str, Callable[[], nn.Module]] = {
    "two layers": lambda: nn.Sequential(nn.Flatten(), nn.Linear(48, 16), nn.Linear(16, 3)),
    "with dropout between": lambda: nn.Sequential(nn.Flatten(), nn.Linear(48, 16), nn.Dropout(0.1), nn.Linear(16, 3)),
    "after an attention": lambda: Reader(
        lambda q, k, v: F.linear(F.relu(F.softmax(q @ k.transpose(1, 2), -1) @ v), torch.eye(8))
    ),
}


@pytest.mark.parametrize("name", FAULTY)
def test_layers_with_nothing_between_are_found(name: str) -> None:
    (one,) = rule_findings(of(FAULTY[name]()), "M308")
    assert one.severity == "warning"
