"""Tests of the errors of the overfit test for invalid options and setups."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.exceptions import SetupError
from nbdebug.rules.examples import classifier, minimal_setup, network, points
from nbdebug.setup import Setup
from nbdebug.tools.overfit import overfit
from tests.tools.failing_model import FailingModel


@pytest.mark.parametrize(
    ("options", "message"),
    [
        *(({"examples": examples}, "expected a whole number from 2 to 64") for examples in (1, 65, 2.0, True)),
        *(({"steps": steps}, "expected a whole number from 2 to 300") for steps in (1, 301)),
    ],
)
def test_overfit_invalid_option_raises_setup_error(options: dict[str, Any], message: str) -> None:
    with pytest.raises(SetupError, match=message):
        overfit(classifier(), **options)


def test_overfit_error_in_step_names_step() -> None:
    with pytest.raises(SetupError, match=r"RuntimeError in step \d+ of the overfit test.*out of luck.*expected"):
        overfit(minimal_setup(FailingModel(network(3), at=10), *points(), nn.CrossEntropyLoss()))


def test_overfit_takes_the_mean_of_the_losses_of_the_samples() -> None:
    assert overfit(classifier(loss_fn=nn.CrossEntropyLoss(reduction="none"))).verdict == overfit(classifier()).verdict


def test_overfit_targets_of_wrong_length_raise_setup_error() -> None:
    def collate_without_last_target(samples: list[Any]) -> Any:
        return torch.stack([x for x, _ in samples]), torch.stack([y for _, y in samples])[:-1]

    loader = DataLoader(TensorDataset(*points()), batch_size=16, collate_fn=collate_without_last_target)
    with pytest.raises(SetupError, match=r"first pass of the overfit test.*batch_size"):
        overfit(Setup(network(3), loader, loss_fn=nn.CrossEntropyLoss()))


def test_overfit_batch_norm_accepts_two_examples_and_rejects_one() -> None:
    setup = classifier(nn.BatchNorm1d(3))
    assert overfit(setup, examples=2).verdict in ("pass", "cannot tell")
    x, y = points()
    with pytest.raises(SetupError, match="more than one sample for batch normalization"):
        overfit(minimal_setup(network(3, nn.BatchNorm1d(3)), x[:1], y[:1], nn.CrossEntropyLoss()))
