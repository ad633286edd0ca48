"""M306 in many styles, and inputs that matter although it does not show at first sight."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from nbdebug.rules.examples import network, points
from nbdebug.setup import Setup
from tests.rules.rule_findings import checkup_findings, setup_builder

X, Y = points()
TOKENS = torch.randint(1, 11, (64, 7), generator=torch.Generator().manual_seed(1))
CE = nn.CrossEntropyLoss()


class By(nn.Module):
    """A linear head on a function of the inputs."""

    def __init__(self, function: Callable[..., Tensor], width: int = 4) -> None:
        super().__init__()
        self.function, self.head = function, nn.Linear(width, 3)
        self.embed, self.gate = nn.Embedding(11, 4), nn.Parameter(torch.zeros(4))

    def forward(self, x: Tensor, other: Tensor | None = None) -> Tensor:
        return self.head(self.function(self, x, other))


def pairs(function: Callable[..., Tensor], other: Tensor, named: bool = False) -> Callable[[], Setup]:
    def build() -> Setup:
        parts = [{"x": X[i : i + 16], "other": other[i : i + 16], "labels": Y[i : i + 16]} for i in range(0, 64, 16)]
        return Setup(By(function), parts if named else [tuple(p.values()) for p in parts], loss_fn=CE)

    return build


def resting() -> nn.Module:
    model = network(3)
    nn.init.constant_(model[0].bias, -50.0)
    return model


def started_at_zero() -> nn.Module:
    model = network(3)
    nn.init.zeros_(model[2].weight)
    return model


def first_only(self: By, x: Tensor, other: Any) -> Tensor:
    return x


def both(self: By, x: Tensor, other: Tensor) -> Tensor:
    return x + other


def gated(self: By, x: Tensor, other: Tensor) -> Tensor:
    return x + self.gate * other


def in_training(self: By, x: Tensor, other: Tensor) -> Tensor:
    return x + other if self.training else x


def masked(self: By, x: Tensor, other: Tensor) -> Tensor:
    return x * other.float().unsqueeze(1)


def made_anew(self: By, x: Tensor, other: Any) -> Tensor:
    return torch.ones_like(x)


def tokens_overwritten(self: By, x: Tensor, other: Any) -> Tensor:
    return self.embed(torch.zeros_like(x)).mean(1)


FAULTS: dict[str, tuple[Callable[[], Setup], str]] = {
    "one of two": (pairs(first_only, X.cos()), "error"),
    "one of two, dict": (pairs(first_only, X.cos(), named=True), "error"),
    "table of integers": (pairs(first_only, TOKENS), "warning"),
    "made anew": (setup_builder(By(made_anew)), "error"),
    "tokens overwritten": (setup_builder(By(tokens_overwritten), TOKENS), "error"),
    "all units rest": (setup_builder(resting()), "error"),
    "bf16": (setup_builder(By(made_anew).bfloat16(), X.bfloat16()), "error"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_what_is_ignored_is_found(name: str) -> None:
    build, severity = FAULTS[name]
    (found,) = checkup_findings(build(), "M306")
    assert found.severity == severity


def test_an_argument_is_called_by_its_name() -> None:
    (found,) = checkup_findings(pairs(first_only, X.cos())(), "M306")
    assert "'other'" in found.message
    assert "def forward" in (found.where.source or "")


QUIET: dict[str, Callable[[], Setup]] = {
    "head from zero": setup_builder(started_at_zero()),
    "gate from zero": pairs(gated, X.cos()),
    "in training alone": pairs(in_training, X.cos()),
    "mask of ones": pairs(masked, torch.ones(64, dtype=torch.bool)),
    "mask": pairs(masked, Y > 0),
    "both": pairs(both, X.cos()),
    "bag of tokens": setup_builder(nn.Sequential(nn.EmbeddingBag(11, 3)), TOKENS),
    "sign alone": setup_builder(By(lambda self, x, other: x.sign())),
}


@pytest.mark.parametrize("name", QUIET)
def test_inputs_that_matter_are_left_alone(name: str) -> None:
    assert checkup_findings(QUIET[name](), "M306") == []


def test_an_index_for_each_sample_is_a_note() -> None:
    assert [one.severity for one in checkup_findings(pairs(first_only, torch.arange(64))(), "M306")] == ["note"]


class Layer(nn.Module):
    def __init__(self, uses: bool) -> None:
        super().__init__()
        self.uses, self.body = uses, nn.Linear(4, 4)

    def forward(self, x: Tensor, other: Tensor) -> Tensor:
        return self.body(x) + other if self.uses else self.body(x)


class Handing(nn.Module):
    """Hands both inputs on, and may drop what it gets for the second."""

    def __init__(self, layer_uses: bool, kept: bool) -> None:
        super().__init__()
        self.layer, self.kept, self.head = Layer(layer_uses), kept, nn.Linear(4, 3)

    def forward(self, x: Tensor, other: Tensor) -> Tensor:
        both = self.layer(x, other)
        return self.head(both if self.kept else x)


@pytest.mark.parametrize(("model", "module"), [(Handing(False, True), "layer"), (Handing(True, False), None)])
def test_the_module_that_leaves_its_input_alone_is_named(model: nn.Module, module: str | None) -> None:
    parts = [(X[i : i + 16], X[i : i + 16].cos(), Y[i : i + 16]) for i in range(0, 64, 16)]
    (one,) = checkup_findings(Setup(model, parts, loss_fn=CE), "M306")
    assert one.where.module == module
    assert "def forward(self, x: Tensor, other: Tensor)" in (one.where.source or "")
