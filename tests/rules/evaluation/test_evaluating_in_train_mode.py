"""E701 and its mirror T613: layers that a mode should switch and does not."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.debugger import Debugger
from nbdebug.finding import Finding
from nbdebug.rules.examples import minimal_setup, points

X, Y = points()


class Layered(nn.Module):
    """A network with something in its middle that may look at the network."""

    def __init__(self, middle: Callable[[Layered, Tensor], Tensor], *kept: Any) -> None:
        super().__init__()
        self.body, self.head, self.middle, self.kept = nn.Linear(4, 8), nn.Linear(8, 3), middle, kept
        self.norm, self.rate = nn.BatchNorm1d(8), 0.3

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.middle(self, torch.relu(self.body(x))))


class Stubborn(nn.Dropout):
    def train(self, mode: bool = True) -> Stubborn:
        return self


class FrozenNorm(nn.BatchNorm1d):
    def train(self, mode: bool = True) -> FrozenNorm:
        return super().train(False)


def said(model: nn.Module, code: str) -> list[Finding]:
    report = Debugger.of(minimal_setup(model, X, Y, nn.CrossEntropyLoss())).checkup(select=["E701", "T613"])
    assert not report.not_checked
    return [one for one in report if one.code == code]


def attention(rate: Callable[[Layered], float]) -> Callable[[Layered, Tensor], Tensor]:
    def attend(self: Layered, x: Tensor) -> Tensor:
        x = x.unsqueeze(1)
        return F.scaled_dot_product_attention(x, x, x, dropout_p=rate(self)).squeeze(1)

    return attend


def norm(self: Layered, x: Tensor, training: bool | None = None) -> Tensor:
    on = self.training if training is None else training
    return F.batch_norm(x, self.norm.running_mean, self.norm.running_var, training=on)


ALWAYS_ON: dict[str, tuple[Callable[[Layered, Tensor], Tensor], tuple[Any, ...], str]] = {
    "functional dropout": (lambda self, x: F.dropout(x, p=0.5), (), "F.dropout(x, p=0.5)"),
    "in place": (lambda self, x: F.dropout(x, 0.5, True, True), (), "F.dropout(x, 0.5, True"),
    "torch.dropout": (lambda self, x: torch.dropout(x, 0.5, True), (), "torch.dropout(x"),
    "alpha dropout": (lambda self, x: F.alpha_dropout(x, 0.2, True), (), "F.alpha_dropout"),
    "in bfloat16": (lambda self, x: F.dropout(x.bfloat16(), 0.5).float(), (), "F.dropout(x.bfloat16()"),
    "dropout made in forward": (lambda self, x: nn.Dropout(0.5)(x), (), "nn.Dropout(0.5)(x)"),
    "dropout in a tuple": (lambda self, x: self.kept[0](x), (nn.Dropout(0.5),), "self.kept[0](x)"),
    "attention": (attention(lambda self: self.rate), (), "dropout_p="),
    "batch statistics": (partial(norm, training=True), (), "F.batch_norm"),
}


@pytest.mark.parametrize("name", ALWAYS_ON)
def test_what_eval_mode_leaves_on_is_found_at_its_line(name: str) -> None:
    middle, kept, line = ALWAYS_ON[name]
    (one,) = said(Layered(middle, *kept), "E701")
    assert one.severity == "error"
    assert line in (one.where.source or "")


class MonteCarlo(nn.Dropout):
    def forward(self, x: Tensor) -> Tensor:
        return F.dropout(x, self.p, training=True)


def stale(self: Layered, x: Tensor) -> Tensor:
    on = True
    return F.dropout(x, 0.5, training=on)


MEANT: dict[str, Callable[[], nn.Module]] = {
    "a call": lambda: Layered(lambda self, x: F.dropout(x, 0.5, training=True)),
    "alpha dropout": lambda: Layered(lambda self, x: F.alpha_dropout(x, 0.2, training=True)),
    "a layer": lambda: nn.Sequential(nn.Linear(4, 8), MonteCarlo(0.5), nn.Linear(8, 3)),
}


@pytest.mark.parametrize("name", MEANT)
def test_dropout_that_is_turned_on_by_name_is_a_note(name: str) -> None:
    assert [one.severity for one in said(MEANT[name](), "E701")] == ["note"]


def test_a_mode_that_is_handed_on_and_wrong_is_an_error() -> None:
    assert [one.severity for one in said(Layered(stale), "E701")] == ["error"]


def test_a_module_that_refuses_the_mode_is_found() -> None:
    (one,) = said(nn.Sequential(nn.Linear(4, 8), Stubborn(0.5), nn.Linear(8, 3)), "E701")
    assert one.where.module == "1"
    assert "overridden" in one.cause


ALWAYS_OFF: dict[str, Callable[[Layered, Tensor], Tensor]] = {
    "functional dropout": lambda self, x: F.dropout(x, 0.5, False),
    "by keyword": lambda self, x: F.dropout(x, 0.5, training=False),
    "torch.dropout": lambda self, x: torch.dropout(x, 0.5, False),
    "batch normalization": partial(norm, training=False),
}


@pytest.mark.parametrize("name", ALWAYS_OFF)
def test_what_train_mode_leaves_off_is_a_warning(name: str) -> None:
    assert [one.severity for one in said(Layered(ALWAYS_OFF[name]), "T613")] == ["warning"]


HEALTHY: dict[str, Callable[[], nn.Module]] = {
    "told the mode": lambda: Layered(lambda self, x: F.dropout(x, 0.5, self.training)),
    "told by keyword": lambda: Layered(lambda self, x: F.dropout(x, 0.5, training=self.training)),
    "attention, told": lambda: Layered(attention(lambda self: self.rate if self.training else 0.0)),
    "attention without dropout": lambda: Layered(attention(lambda self: 0.0)),
    "batch normalization, told": lambda: Layered(norm),
    "modules": lambda: nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 3)),
    "statistics of the batch on purpose": lambda: nn.Sequential(
        nn.BatchNorm1d(4, track_running_stats=False), nn.Linear(4, 3)
    ),
    "frozen statistics": lambda: nn.Sequential(nn.Linear(4, 8), FrozenNorm(8), nn.Linear(8, 3)),
    "dropout of rate zero": lambda: Layered(lambda self, x: F.dropout(x, 0.0)),
    "encoder": lambda: nn.Sequential(
        nn.Unflatten(1, (1, 4)),
        nn.TransformerEncoderLayer(4, 2, 8, 0.3, batch_first=True),
        nn.Flatten(),
        nn.Linear(4, 3),
    ),
}


@pytest.mark.parametrize("name", HEALTHY)
def test_what_follows_the_mode_draws_nothing(name: str) -> None:
    assert said(HEALTHY[name](), "E701") + said(HEALTHY[name](), "T613") == []


def test_a_sample_drawn_in_every_mode_is_a_note() -> None:
    model = Layered(lambda self, x: x + torch.randn_like(x))
    assert [one.severity for one in said(model, "E701")] == ["note"]


def test_a_model_handed_over_in_eval_mode_is_a_note() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 3)).eval()
    assert [one.severity for one in said(model, "T613")] == ["note"]
    assert not model.training
