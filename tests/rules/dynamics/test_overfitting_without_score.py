"""Tests of T609 for outputs without a score: the labels that the loss prefers tell whether the model got worse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding
from nbdebug.measurements.label_choices import LabelChoices
from nbdebug.rule_engine.rule_registry import find_rule
from nbdebug.setup import Setup
from tests.loss_curves.synthetic_records import falling_loss, make_record

ROWS = 300


class Scores(nn.Module):
    """Outputs of any form, as a function of the input."""

    def __init__(self, make: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.make, self.scale = make, nn.Parameter(torch.ones(1))

    def forward(self, x: Tensor) -> Any:
        return self.make(self.scale * x)


def pairs(x: Tensor) -> tuple[Tensor, Tensor]:
    """Two embeddings at a distance of 0.1 for a negative value, and of 0.9 for others."""
    distance = torch.where(x < 0, 0.1, 0.9)
    return torch.zeros_like(distance), distance


def contrastive(output: tuple[Tensor, Tensor], same: Tensor) -> Tensor:
    distance = (output[0] - output[1]).abs()[:, 0]
    return (same * distance**2 + (1 - same) * F.relu(1 - distance) ** 2).mean()


def hinge(output: Tensor, sign: Tensor) -> Tensor:
    return F.relu(1 - output[:, 0] * sign).sum()


def focal(output: dict[str, Tensor], label: Tensor) -> Tensor:
    losses = F.cross_entropy(output["logits"], label, reduction="none")
    return ((1 - (-losses).exp()) ** 2 * losses).mean()


def in_batch(output: tuple[Tensor, Tensor], same: Tensor) -> Tensor:
    """Compares each sample with all others of the batch."""
    distance = (output[0] - output[1])[:, 0]
    return ((distance[:, None] - distance) * same[:, None] * (1 - same) + 1).relu().mean()


def logits(x: Tensor) -> dict[str, Tensor]:
    return {"logits": torch.cat([x, -x], 1)}


def bins(x: Tensor) -> Tensor:
    return -10 * (x - torch.tensor([-1.0, 0.0, 1.0])).abs()


# The model, the loss, and the label of each value.
LOSSES: dict[str, tuple[nn.Module, Any, Callable[[Tensor], Tensor]]] = {
    "contrastive pairs": (Scores(pairs), contrastive, lambda x: (x < 0).float()),
    "hinge of signs": (Scores(lambda x: 2 * x), hinge, torch.sign),
    "focal loss of a dictionary": (Scores(logits), focal, lambda x: (x < 0).long()),
    "margin of three classes": (Scores(bins), nn.MultiMarginLoss(), lambda x: x.round().long() + 1),
    "margin of pairs of scores": (
        Scores(lambda x: (x[:, 0], -x[:, 0])),
        lambda output, sign: nn.MarginRankingLoss(margin=0.5)(*output, sign),
        torch.sign,
    ),
}


def findings(name: str, wrong: float, val: list[float]) -> list[Finding]:
    """Return the findings on a run with these validation losses, of a model that gets a share of labels wrong."""
    model, loss_fn, label = LOSSES[name]
    generator = torch.Generator().manual_seed(0)
    x = torch.where(torch.rand(ROWS, 1, generator=generator) < 0.5, -1.0, 1.0)
    y = label(x[:, 0])
    first = torch.arange(ROWS) < round(wrong * ROWS)
    return report(model, loss_fn, x.where(~first[:, None], -x), y, val)


def report(model: nn.Module, loss_fn: Any, x: Tensor, y: Tensor, val: list[float]) -> list[Finding]:
    loader = DataLoader(TensorDataset(x, y), 50)
    setup = Setup(model, loader, loader, loss_fn=loss_fn)
    evals = {"sample_train_loss": np.geomspace(2.3, 0.05, len(val)), "sample_val_loss": val}
    unavailable = NotChecked("only the record is known")
    measurements = {
        "record": make_record(falling_loss(2.3, 0.05), evals=evals),
        "policy_gradient": unavailable,
        "has_signed_weights": unavailable,
        "label_choices": LabelChoices(setup),
    }
    return [*find_rule("T609")(measurements)]


SMALL, LARGE = [2.3, 0.3, 0.35, 0.42, 0.48, 0.5], [2.3, 0.6, 0.9, 1.3, 1.7, 1.9]


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize(("wrong", "val"), [(0.01, SMALL), (0.01, LARGE), (0.04, SMALL)])
def test_rise_of_a_loss_that_still_prefers_the_labels_is_quiet(name: str, wrong: float, val: list[float]) -> None:
    assert findings(name, wrong, val) == []


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize(("wrong", "val"), [(0.15, SMALL), (0.15, LARGE), (0.04, LARGE)])
def test_rise_of_a_loss_that_prefers_other_labels_is_overfitting(name: str, wrong: float, val: list[float]) -> None:
    assert [finding.severity for finding in findings(name, wrong, val)] == ["warning"]


@pytest.mark.parametrize("name", ["loss of the whole batch", "numbers", "loss without labels", "few rows"])
def test_rise_of_a_loss_without_a_choice_of_labels_is_overfitting(name: str) -> None:
    x = torch.randn(ROWS, 1, generator=torch.Generator().manual_seed(0))
    programs: dict[str, tuple[nn.Module, Any, Tensor, Tensor]] = {
        "loss of the whole batch": (Scores(pairs), in_batch, x, (x[:, 0] < 0).float()),
        "numbers": (Scores(lambda values: (values, values)), lambda output, y: (output[0] - y).abs().mean(), x, x),
        "loss without labels": (
            Scores(lambda values: values),
            lambda output, _: output.square().mean(),
            x,
            (x < 0).long(),
        ),
        "few rows": (Scores(pairs), contrastive, x[:40], (x[:40, 0] < 0).float()),
    }
    assert [finding.severity for finding in report(*programs[name], SMALL)] == ["warning"]


# The losses of fixed samples of both splits; the zero of these losses is no level.
SIGNED_RUNS: dict[str, tuple[list[float], list[float]]] = {
    "negative cosine": ([0.005, -0.7, -0.84, -0.87, -0.88, -0.885], [0.004, -0.7, -0.83, -0.8661, -0.860, -0.858]),
    "negative cosine from below zero": (
        [-0.1, -0.7, -0.85, -0.9, -0.93, -0.96],
        [-0.1, -0.7, -0.8, -0.79, -0.77, -0.76],
    ),
    "negative overlap": ([-0.2, -0.7, -0.8, -0.9, -0.95, -0.97], [-0.2, -0.7, -0.78, -0.76, -0.75, -0.74]),
    "density": ([9.2, 0.4, -1.1, -2.0, -2.4, -2.9], [9.1, 0.5, -0.9, -0.6, -0.3, -0.1]),
    "signal to distortion in decibels": ([12.0, -5.0, -9.0, -10.0, -11.0, -12.0], [12.0, -5.0, -8.9, -8.7, -8.4, -8.1]),
    "both keep up": ([0.0, -0.5, -0.8, -0.85, -0.9, -0.9], [0.0, -0.5, -0.8, -0.7, -0.6, -0.85]),
}
SIGNED_FAULTS: dict[str, tuple[list[float], list[float]]] = {
    "negative cosine": ([0.005, -0.7, -0.84, -0.9, -0.95, -0.99], [0.004, -0.6, -0.7, -0.62, -0.55, -0.5]),
    "negative cosine from below zero": ([-0.1, -0.7, -0.85, -0.9, -0.95, -0.99], [-0.1, -0.6, -0.7, -0.6, -0.5, -0.45]),
    "negative overlap": ([-0.2, -0.7, -0.8, -0.9, -0.95, -0.97], [-0.2, -0.6, -0.65, -0.55, -0.5, -0.45]),
    "density": ([1.4, 0.4, -1.1, -2.0, -2.4, -2.9], [1.4, 0.5, -0.9, -0.4, 0.1, 0.4]),
    "signal to distortion in decibels": ([12.0, -5.0, -9.0, -12.0, -15.0, -20.0], [12.0, -4.0, -7.0, -5.0, -3.0, -2.0]),
    "two measurements": ([0.0, -0.6, -0.95], [0.0, -0.5, -0.1]),
}


def signed_findings(train: list[float], val: list[float]) -> list[Finding]:
    evals = {"sample_train_loss": train, "sample_val_loss": val}
    record = make_record(np.linspace(train[0], train[-1], 300), evals=evals, chance=None)
    unavailable = NotChecked("only the record is known")
    others = dict.fromkeys(("policy_gradient", "has_signed_weights", "label_choices"), unavailable)
    return [*find_rule("T609")({"record": record, **others})]


@pytest.mark.parametrize("name", SIGNED_RUNS)
def test_small_rise_of_a_loss_with_negative_values_is_quiet(name: str) -> None:
    assert signed_findings(*SIGNED_RUNS[name]) == []


@pytest.mark.parametrize("name", SIGNED_FAULTS)
def test_rise_of_a_loss_with_negative_values_by_a_tenth_of_its_fall_is_overfitting(name: str) -> None:
    assert [finding.severity for finding in signed_findings(*SIGNED_FAULTS[name])] == ["warning"]


def test_measuring_the_choices_leaves_the_setup_as_it_was() -> None:
    model, loss_fn, label = LOSSES["contrastive pairs"]
    x = torch.randn(ROWS, 1, generator=torch.Generator().manual_seed(0))
    loader = DataLoader(TensorDataset(x, label(x[:, 0])), 50, shuffle=True)
    model.train()
    state = torch.get_rng_state()
    assert LabelChoices(Setup(model, loader, loader, loss_fn=loss_fn)).accuracy() == 1.0
    assert model.training
    assert torch.equal(torch.get_rng_state(), state)
