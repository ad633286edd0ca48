"""Tests of L214 and L213 on terms of several layers of which only the last one reaches the loss."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.debugger import Debugger
from nbdebug.finding import Finding

WIDTH = 6


class Gate(nn.Module):
    """A layer with experts, which returns a penalty beside its output."""

    def __init__(self) -> None:
        super().__init__()
        self.choose, self.work = nn.Linear(WIDTH, 3), nn.Linear(WIDTH, 3 * WIDTH)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        weights = self.choose(x).softmax(1)
        mixed = (self.work(x).view(-1, 3, WIDTH) * weights[:, :, None]).sum(1)
        return torch.tanh(mixed), 3 * weights.mean(0).square().sum()

    def with_total(self, x: Tensor, total: Tensor) -> tuple[Tensor, Tensor]:
        x, penalty = self(x)
        return x, total + penalty


class Named(nn.Module):
    """The same as a dictionary."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = Gate()

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        hidden, penalty = self.gate(x)
        return {"penalty": penalty, "hidden": hidden}


class Rated(nn.Module):
    """A layer with a rating of its own, as for deep supervision."""

    def __init__(self) -> None:
        super().__init__()
        self.work, self.rate = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 2)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        hidden = torch.tanh(self.work(x))
        return hidden, self.rate(hidden)


class Network(nn.Module):
    """Three layers of one class, a head, and the way in which they are called."""

    def __init__(self, layer: type[nn.Module], call: Callable[[Any, Tensor], Any]) -> None:
        super().__init__()
        self.layers, self.head, self.call = nn.ModuleList(layer() for _ in range(3)), nn.Linear(WIDTH, 2), call

    def forward(self, x: Tensor) -> Any:
        return self.call(self, x)


def overwritten(net: Network, x: Tensor) -> tuple[Tensor, Tensor]:
    for layer in net.layers:
        x, cost = layer(x)  # here
    return net.head(x), cost


def unrolled(net: Network, x: Tensor) -> tuple[Tensor, Tensor]:
    x, _ = net.layers[0](x)
    x, cost = net.layers[1](x)
    hidden, cost = net.layers[2](x)  # here
    return net.head(hidden), cost


def shared(net: Network, x: Tensor) -> tuple[Tensor, Tensor]:
    result = {"hidden": x}
    for _ in range(4):
        result = net.layers[0](result["hidden"])  # here
    return net.head(result["hidden"]), result["penalty"]


def side_by_side(net: Network, x: Tensor) -> tuple[Tensor, Tensor]:
    hidden = torch.zeros_like(x)
    for layer in net.layers:
        part, cost = layer(x)  # here
        hidden = hidden + part
    return net.head(hidden), cost


def summed(net: Network, x: Tensor) -> tuple[Tensor, Tensor]:
    total = torch.zeros(())
    for layer in net.layers:
        x, cost = layer(x)
        total = total + cost
    return net.head(x), total


def passed_on(net: Network, x: Tensor) -> tuple[Tensor, Tensor]:
    total = torch.zeros(())
    for layer in net.layers:
        assert isinstance(layer, Gate)
        x, total = layer.with_total(x, total)
    return net.head(x), total


def unused(net: Network, x: Tensor) -> tuple[Tensor, Tensor]:
    for layer in net.layers:
        x, _ = layer(x)
    return net.head(x), torch.zeros(())


def last_rating(net: Network, x: Tensor) -> tuple[Tensor, Tensor]:
    for layer in net.layers:
        x, rating = layer(x)
    return rating, torch.zeros(())


def last_score(net: Network, x: Tensor) -> tuple[Tensor, Tensor]:
    """A score without a bound, as that of a critic."""
    for layer in net.layers:
        x, rating = layer(x)
    return rating, rating.mean()


def last_state(net: Network, x: Tensor) -> tuple[Tensor, Tensor]:
    for layer in net.layers:
        x, state = layer(x)
    return net.head(x) + state.exp(), torch.zeros(())


def loss_of(output: tuple[Tensor, Tensor], target: Tensor) -> Tensor:
    return F.cross_entropy(output[0], target) + 0.1 * output[1]


def of_layers(
    layer: type[nn.Module], call: Callable[[Any, Tensor], Any], loss_fn: Callable[..., Tensor] = loss_of
) -> list[Finding]:
    torch.manual_seed(0)
    x = torch.randn(64, WIDTH)
    loader = DataLoader(TensorDataset(x, (x[:, 0] > 0).long()), 16)
    report = Debugger(Network(layer, call), loader, loss_fn=loss_fn).checkup()
    return [finding for finding in report if finding.code == "L214"]


@pytest.mark.parametrize(
    ("layer", "call", "lost", "variable"),
    [
        (Gate, overwritten, 2, "cost"),
        (Gate, unrolled, 2, "cost"),
        (Named, shared, 3, ""),
        (Gate, side_by_side, 2, "cost"),
    ],
)
def test_terms_of_earlier_layers_that_are_lost_are_reported(
    layer: type[nn.Module], call: Callable[[Any, Tensor], Any], lost: int, variable: str
) -> None:
    (finding,) = of_layers(layer, call)
    assert finding.severity == "warning"
    assert "# here" in str(finding.where.source)
    assert f"those of the other {lost}" in finding.message
    assert finding.evidence["slope"] == pytest.approx(0.1)
    assert f"total + {variable or 'term'}" in finding.fix


def of_first_sample(output: tuple[Tensor, Tensor], target: Tensor) -> Tensor:
    return F.cross_entropy(output[0][:3], target[:3]) + 0.1 * output[1]


def of_graph(output: tuple[Tensor, Tensor], target: Tensor) -> Tensor:
    """A loss that takes no other outputs than those of the model."""
    assert output[0].grad_fn is not None
    return loss_of(output, target)


@pytest.mark.parametrize(("loss_fn", "ignored"), [(of_first_sample, 1), (of_graph, 0)])
def test_lost_terms_hide_no_other_findings(loss_fn: Callable[..., Tensor], ignored: int) -> None:
    findings = of_layers(Gate, overwritten, loss_fn)
    messages = [finding.message for finding in findings]
    assert sum("reaches the loss from the last of 3 calls" in message for message in messages) == 1
    assert sum("inspected samples" in message for message in messages) == ignored
    assert len(findings) == 1 + ignored


@pytest.mark.parametrize(
    ("layer", "call"),
    [
        (Gate, summed), (Gate, passed_on), (Gate, unused), (Rated, last_rating), (Rated, last_score),
        (Rated, last_state), (Rated, unused),
    ],
)  # fmt: skip
def test_outputs_that_are_rightly_unused_are_not_reported(
    layer: type[nn.Module], call: Callable[[Any, Tensor], Any]
) -> None:
    assert of_layers(layer, call) == []


class Stretch(nn.Module):
    """A map of a flow, with its logarithmic scales."""

    def __init__(self, size: float) -> None:
        super().__init__()
        self.log_scale, self.shift = nn.Parameter(torch.full((2,), size)), nn.Parameter(torch.zeros(2))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x * self.log_scale.exp() + self.shift, self.log_scale.expand_as(x)


class Flow(nn.Module):
    """A density of concentrated points."""

    def __init__(self, *, adds: bool) -> None:
        super().__init__()
        self.maps, self.adds = nn.ModuleList(map(Stretch, (-3.0, 0.0, 3.0))), adds

    def forward(self, x: Tensor) -> Tensor:
        volume = torch.zeros(len(x))
        for stretch in self.maps:
            x, scales = stretch(x)  # here
            volume = scales.sum(1) + (volume if self.adds else 0.0)
        return volume - 0.5 * x.square().sum(1) - math.log(2 * math.pi)


def negative_mean(density: Tensor, _: Tensor) -> Tensor:
    return -density.mean()


@pytest.mark.parametrize("adds", [False, True])
def test_volume_of_the_last_map_is_the_cause_of_a_loss_without_a_bound(adds: bool) -> None:
    torch.manual_seed(0)
    points = 0.01 * torch.randn(64, 2)
    loader = DataLoader(TensorDataset(points, points), 16)
    findings = list(Debugger(Flow(adds=adds), loader, loss_fn=negative_mean).checkup())
    of_layers = [finding for finding in findings if finding.code in ("L213", "L214") and "Stretch" in finding.message]
    assert {finding.code for finding in of_layers} == (set() if adds else {"L213", "L214"})
    for finding in of_layers:
        assert "# here" in str(finding.where.source)
        assert "total + scales" in finding.fix or finding.code == "L214"
