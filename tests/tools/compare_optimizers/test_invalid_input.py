"""Tests of the errors of the optimizer comparison for invalid arguments and setups."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from nbdebug.exceptions import SetupError
from nbdebug.rules.examples import classifier, minimal_setup, network, points
from nbdebug.tools.compare_optimizers import compare_optimizers
from tests.tools.failing_model import FailingModel


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"optimizers": "Adamant"}, "optimizer is 'Adamant'; expected one of yours, SGD"),
        ({"optimizers": 3}, "optimizer is an int; expected a name, a class"),
        ({"optimizers": []}, "there are 0 candidates; expected 1 to 24"),
        ({"optimizers": ["SGD", "sgd"]}, "two candidates are named 'SGD'"),
        ({"optimizers": [lambda p: 3]}, "custom returned an int; expected a torch.optim.Optimizer"),
        ({"optimizers": [lambda: 3]}, "custom raised TypeError"),
        ({"optimizers": [torch.optim.SGD([torch.zeros(1, requires_grad=True)])]}, "has no parameter of the model"),
        ({"schedules": "sawtooth"}, "schedule is 'sawtooth'; expected one of all, constant"),
        ({"schedules": 3}, "schedule is an int; expected a name or a function"),
        ({"schedules": []}, "schedules has 0 entries"),
        ({"optimizers": ["SGD"], "rates": {"Adam": 0.1}}, "rates contain 'Adam'; expected one of SGD"),
        ({"optimizers": ["SGD"], "rates": {"SGD": -1}}, "the rate of SGD is -1; expected a number above 0"),
        ({"steps": 5}, "steps is 5; expected a whole number from 10"),
        ({"seeds": 0}, "seeds is 0; expected a whole number from 1"),
        ({"max_norm": -1.0}, "max_norm is -1.0; expected more than 0"),
    ],
)
def test_compare_optimizers_invalid_argument_raises_setup_error(options: dict[str, Any], message: str) -> None:
    with pytest.raises(SetupError, match=message):
        compare_optimizers(classifier(), **options)


def test_compare_optimizers_yours_without_optimizer_raises_setup_error() -> None:
    with pytest.raises(SetupError, match="no optimizer is set; expected one"):
        compare_optimizers(classifier(optimizers=()), "yours")


def test_compare_optimizers_frozen_model_raises_setup_error() -> None:
    model = network(3).requires_grad_(False)
    with pytest.raises(SetupError, match="no parameter that requires a gradient"):
        compare_optimizers(minimal_setup(model, *points(), nn.CrossEntropyLoss(), optimizers=()), "SGD")


def test_compare_optimizers_error_in_step_names_step_and_candidate() -> None:
    setup = minimal_setup(FailingModel(network(3), at=50), *points(), nn.CrossEntropyLoss())
    with pytest.raises(SetupError, match=r"RuntimeError in step \d+ of the comparison, with your Adam: out of luck"):
        compare_optimizers(setup, "yours", steps=60, seeds=1)
