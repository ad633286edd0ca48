"""What the tiny-batch test says to arguments and programs that it cannot use."""

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
from tests.tools.failing import Failing


@pytest.mark.parametrize("examples", [1, 65, 2.0, True])
def test_the_number_of_examples_is_bounded(examples: Any) -> None:
    with pytest.raises(SetupError, match="expected a whole number from 2 to 64"):
        overfit(classifier(), examples=examples)


@pytest.mark.parametrize("steps", [1, 301])
def test_the_number_of_steps_is_bounded(steps: int) -> None:
    with pytest.raises(SetupError, match="expected a whole number from 2 to 300"):
        overfit(classifier(), steps=steps)


def test_a_model_that_raises_midway_is_told_with_its_step_and_line() -> None:
    with pytest.raises(SetupError, match=r"RuntimeError in step \d+ of the overfit test.*out of luck.*expected"):
        overfit(minimal_setup(Failing(network(3), at=10), *points(), nn.CrossEntropyLoss()))


def test_a_loss_that_is_a_vector_is_refused() -> None:
    with pytest.raises(SetupError, match="expected a scalar"):
        overfit(classifier(loss_fn=nn.CrossEntropyLoss(reduction="none")))


def test_targets_of_wrong_length_are_refused() -> None:
    def shortened(samples: list[Any]) -> Any:
        return torch.stack([x for x, _ in samples]), torch.stack([y for _, y in samples])[:-1]

    loader = DataLoader(TensorDataset(*points()), batch_size=16, collate_fn=shortened)
    with pytest.raises(SetupError, match=r"first pass of the overfit test.*batch_size"):
        overfit(Setup(network(3), loader, loss_fn=nn.CrossEntropyLoss()))


def test_batch_normalization_of_two_examples_works_and_of_one_is_refused() -> None:
    setup = classifier(nn.BatchNorm1d(3))
    assert overfit(setup, examples=2).verdict in ("pass", "cannot tell")
    x, y = points()
    with pytest.raises(SetupError, match="more than one sample for batch normalization"):
        overfit(minimal_setup(network(3, nn.BatchNorm1d(3)), x[:1], y[:1], nn.CrossEntropyLoss()))
