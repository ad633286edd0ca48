"""G416: gradients that end on the way, and gradients that only begin at zero."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.debugger import Debugger
from nbdebug.finding import Finding
from nbdebug.rules.examples import classifier, minimal_setup, network, points
from nbdebug.setup import Setup
from tests.rules.healthy_models import Adapter, AlternatingHeads

X, Y = points()


class Hidden(nn.Module):
    """A network that changes its hidden layer in some way."""

    def __init__(self, change: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.body, self.head, self.change = nn.Linear(4, 8), nn.Linear(8, 3), change

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.change(self.body(x)))


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner, self.last, self.head = nn.Linear(4, 8), nn.Linear(8, 4), nn.Linear(4, 3)
        nn.init.zeros_(self.last.weight)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(x + self.last(torch.relu(self.inner(x))))


def of(model: nn.Module, loss: Callable[[Tensor, Tensor], Tensor] = F.cross_entropy) -> Setup:
    return minimal_setup(model, X, Y, loss)


def found(setup: Setup) -> list[Finding]:
    return [one for one in Debugger.of(setup).checkup(select=["G416"]) if one.code == "G416"]


def margin(output: Tensor, target: Tensor) -> Tensor:
    return F.relu(output.abs().sum(1) - 1e6).mean()


FAULTS: dict[str, tuple[Callable[[Tensor], Tensor], str]] = {
    "all units off": (lambda h: F.relu(h - 100.0), "F.relu(h - 100.0)"),
    "clamped": (lambda h: (h + 50).clamp(0, 1), "clamp(0, 1)"),
    "rounded": (torch.round, ""),
    "hard signs": (torch.sign, ""),
    "all dropped": (lambda h: F.dropout(h, 1.0), "F.dropout(h, 1.0)"),
    "times zero": (lambda h: h * torch.zeros(8), "torch.zeros(8)"),
    "softmax over one value": (lambda h: h.unsqueeze(-1).softmax(-1).squeeze(-1), "softmax(-1)"),
    "saturated in bfloat16": (lambda h: torch.sigmoid(h.bfloat16() + 200).float(), "torch.sigmoid"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_the_line_where_the_gradient_ends_is_named(name: str) -> None:
    change, line = FAULTS[name]
    torch.manual_seed(0)
    (one,) = found(of(Hidden(change)))
    assert one.severity == "error"
    assert one.evidence["parameters"] == ["body.weight", "body.bias"]
    assert line in (one.where.source or "")


def test_a_dropout_module_of_rate_one_is_found() -> None:
    (one,) = found(of(nn.Sequential(nn.Linear(4, 8), nn.Dropout(1.0), nn.Linear(8, 3))))
    assert one.where.module == "1"


HEALTHY: dict[str, Callable[[], Setup]] = {
    "residual branch of zero": lambda: of(Residual()),
    "low-rank adapter": lambda: of(Adapter()),
    "heads in turns": lambda: minimal_setup(AlternatingHeads(), X, torch.randn(64, 1), nn.MSELoss()),
    "many units off": lambda: of(Hidden(lambda h: F.relu(h - 1.0))),
    "heavy dropout": lambda: of(Hidden(lambda h: F.dropout(h, 0.8))),
    "straight through": lambda: of(Hidden(lambda h: h + (h.round() - h).detach())),
    "bias in front of a normalization": lambda: of(
        nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))
    ),
    "plain": classifier,
}


@pytest.mark.parametrize("name", HEALTHY)
def test_gradients_that_flow_sooner_or_later_draw_nothing(name: str) -> None:
    torch.manual_seed(0)
    assert found(HEALTHY[name]()) == []


def test_a_margin_that_all_samples_keep_is_a_note() -> None:
    assert {one.severity for one in found(of(network(3), margin))} == {"note"}
