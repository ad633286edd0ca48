"""Tests of M307: constant outputs, and outputs that differ little or for good reason."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from nbdebug.rules.examples import minimal_setup, network, points, regressor
from nbdebug.setup import Setup
from tests.rules.model.networks import dead_network, zero_head_network
from tests.rules.rule_findings import checkup_findings, setup_builder

X, Y = points()
IMAGES = torch.randn(64, 1, 6, 6, generator=torch.Generator().manual_seed(3))


class PostprocessedNetwork(nn.Module):
    """A network with a function applied to its output."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.inner, self.function = network(3), function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self.inner(x))


def segmenter(bias: float) -> nn.Module:
    first = nn.Conv2d(1, 4, 3, padding=1)
    nn.init.constant_(first.bias, bias)
    return nn.Sequential(first, nn.ReLU(), nn.Conv2d(4, 3, 1))


def fading_network() -> nn.Module:
    """A deep network whose signal only its normalization by the batch keeps up."""
    model = nn.Sequential(*[layer for _ in range(9) for layer in (nn.Linear(4, 4, bias=False), nn.BatchNorm1d(4))])
    for layer in model[::2]:
        nn.init.normal_(layer.weight, std=0.02)
    return nn.Sequential(model, nn.Linear(4, 3))


def sample_loss(logits: Tensor, y: Tensor) -> Tensor:
    return nn.functional.cross_entropy(logits.mean((2, 3)), y)


FAULTS: dict[str, Callable[[], Setup]] = {
    "softmax over one unit": lambda: regressor(nn.Softmax(1)),
    "dead units": setup_builder(dead_network()),
    "times zero": setup_builder(PostprocessedNetwork(lambda h: h * 0.0 + h.numel())),
    "clamped, bf16": setup_builder(PostprocessedNetwork(lambda h: h.clamp(9, 10)).bfloat16(), X.bfloat16()),
    "segmentation": setup_builder(segmenter(-90.0), IMAGES, loss_fn=sample_loss),
}


@pytest.mark.parametrize("name", FAULTS)
def test_constant_output_for_all_samples_is_error(name: str) -> None:
    (finding,) = checkup_findings(FAULTS[name](), "M307")
    assert finding.severity == "error"
    assert finding.evidence["samples"] == 16


HEALTHY: dict[str, Callable[[], Setup]] = {
    "zero-initialized head": setup_builder(zero_head_network()),
    "small differences": setup_builder(PostprocessedNetwork(lambda h: 100 + h / 100)),
    "segmentation": setup_builder(segmenter(0.0), IMAGES, loss_fn=sample_loss),
    "new batch norms": setup_builder(fading_network()),
    "batch norm": setup_builder(nn.Sequential(network(3), nn.BatchNorm1d(3))),
    "identical samples": setup_builder(network(3), X[:1].expand(64, 4).clone()),
    "log-softmax": setup_builder(PostprocessedNetwork(lambda h: h.log_softmax(1)), loss_fn=nn.NLLLoss()),
}


CAUSES = {
    "dead units": "All inputs of relu lie between ",
    "times zero": "This line multiplies the values by zeros.",
    "softmax over one unit": "softmax runs over an axis of length 1",
    "fading": "From layer to layer, the differences between samples become smaller",
}
FADING = {"fading": setup_builder(PostprocessedNetwork(lambda h: 300 + h / 3000))}


@pytest.mark.parametrize("name", CAUSES)
def test_constant_output_says_how_the_differences_are_lost(name: str) -> None:
    (finding,) = checkup_findings((FAULTS | FADING)[name](), "M307")
    assert finding.cause.startswith(CAUSES[name])


@pytest.mark.parametrize("name", HEALTHY)
def test_constant_output_ignores_sound_models(name: str) -> None:
    assert checkup_findings(HEALTHY[name](), "M307") == []


LOCATIONS = {
    "softmax over one unit": (lambda: regressor(nn.Softmax(1)), "3"),
    "dead units": (setup_builder(dead_network()), "1"),
    "layer norm over one unit": (lambda: regressor(nn.LayerNorm(1)), "3"),
}


@pytest.mark.parametrize("name", LOCATIONS)
def test_constant_output_points_to_module_that_equalizes_samples(name: str) -> None:
    build, module = LOCATIONS[name]
    (finding,) = checkup_findings(build(), "M307")
    assert finding.where.module == module
    assert all(finding.where.module == module for finding in checkup_findings(build(), "M306"))


class PooledSteps(nn.Module):
    """A weighted mean of steps, whose weights are scored by ``scorer``."""

    def __init__(self, scorer: nn.Module) -> None:
        super().__init__()
        self.scorer, self.head = scorer, nn.Linear(1, 3)

    def forward(self, x: Tensor) -> Tensor:
        steps = x[:, :, None]
        scores: Tensor = self.head((self.scorer(steps).softmax(1) * steps).sum(1))
        return scores


@pytest.mark.parametrize(
    ("scorer", "is_constant"),
    [
        (nn.Sequential(nn.Linear(1, 1), nn.LayerNorm(1)), True),
        (nn.Sequential(nn.Linear(1, 4), nn.LayerNorm(4), nn.Linear(4, 1)), False),
        (nn.Sequential(nn.Linear(1, 1), nn.Tanh()), False),
    ],
    ids=["single value", "four values", "none"],
)
def test_constant_output_of_normalization_names_the_layer(scorer: nn.Module, is_constant: bool) -> None:
    findings = checkup_findings(minimal_setup(PooledSteps(scorer), *points(), nn.CrossEntropyLoss()), "M307")
    assert [finding.where.module for finding in findings] == (["scorer.1"] if is_constant else [])
