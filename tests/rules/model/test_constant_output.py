"""M307 in many styles, and models whose answers only look alike."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from nbdebug.rules.examples import network, points, regressor
from nbdebug.setup import Setup
from tests.rules.rule_findings import checkup_findings, setup_builder

X, Y = points()
IMAGES = torch.randn(64, 1, 6, 6, generator=torch.Generator().manual_seed(3))


class Then(nn.Module):
    """A network with a function behind it."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.inner, self.function = network(3), function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self.inner(x))


def resting() -> nn.Module:
    model = network(3)
    nn.init.constant_(model[0].bias, -50.0)
    return model


def segmenter(bias: float) -> nn.Module:
    first = nn.Conv2d(1, 4, 3, padding=1)
    nn.init.constant_(first.bias, bias)
    return nn.Sequential(first, nn.ReLU(), nn.Conv2d(4, 3, 1))


def from_zero() -> nn.Module:
    model = network(3)
    nn.init.zeros_(model[2].weight)
    return model


def by_sample(logits: Tensor, y: Tensor) -> Tensor:
    return nn.functional.cross_entropy(logits.mean((2, 3)), y)


FAULTS: dict[str, Callable[[], Setup]] = {
    "one unit": lambda: regressor(nn.Softmax(1)),
    "units at rest": setup_builder(resting()),
    "counted": setup_builder(Then(lambda h: h * 0.0 + h.numel())),
    "clamped, bf16": setup_builder(Then(lambda h: h.clamp(9, 10)).bfloat16(), X.bfloat16()),
    "segmentation": setup_builder(segmenter(-90.0), IMAGES, loss_fn=by_sample),
}


@pytest.mark.parametrize("name", FAULTS)
def test_one_answer_for_all_is_found(name: str) -> None:
    (found,) = checkup_findings(FAULTS[name](), "M307")
    assert found.severity == "error"
    assert found.evidence["samples"] == 16


QUIET: dict[str, Callable[[], Setup]] = {
    "head from zero": setup_builder(from_zero()),
    "small differences": setup_builder(Then(lambda h: 100 + h / 100)),
    "segmentation": setup_builder(segmenter(0.0), IMAGES, loss_fn=by_sample),
    "batch norm": setup_builder(nn.Sequential(network(3), nn.BatchNorm1d(3))),
    "same samples": setup_builder(network(3), X[:1].expand(64, 4).clone()),
    "log-softmax": setup_builder(Then(lambda h: h.log_softmax(1)), loss_fn=nn.NLLLoss()),
}


@pytest.mark.parametrize("name", QUIET)
def test_answers_that_differ_are_left_alone(name: str) -> None:
    assert checkup_findings(QUIET[name](), "M307") == []


PLACES = {
    "one unit": (lambda: regressor(nn.Softmax(1)), "3"),
    "units at rest": (setup_builder(resting()), "1"),
    "a normalization over one unit": (lambda: regressor(nn.LayerNorm(1)), "3"),
}


@pytest.mark.parametrize("name", PLACES)
def test_the_place_is_where_samples_become_alike(name: str) -> None:
    build, module = PLACES[name]
    (found,) = checkup_findings(build(), "M307")
    assert found.where.module == module
    assert all(one.where.module == module for one in checkup_findings(build(), "M306"))
