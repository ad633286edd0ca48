"""Tests of the errors of range tests for invalid options and setups."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.debugger import Debugger
from nbdebug.exceptions import SetupError
from nbdebug.rules.examples import classifier, minimal_setup, network, points
from nbdebug.setup import Setup
from tests.preserve.fingerprint import fingerprint
from tests.tools.lr_range.setups import run_lr_range, step_fn_with_error


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"steps": 9}, "steps is 9; expected a whole number from 10"),
        ({"steps": 20.0}, "steps is 20.0; expected a whole number"),
        ({"seeds": 0}, "seeds is 0; expected a whole number from 1 to 20"),
        ({"seeds": True}, "seeds is True"),
        ({"accumulate": 0}, "accumulate is 0"),
        ({"mode": "log"}, "mode is 'log'; expected one of exp, linear"),
        ({"groups": "ratio"}, "groups is 'ratio'; expected one of scale, same"),
        ({"start": 1.0, "end": 1.0}, "start is 1; expected less than end"),
        ({"start": 1.0, "end": 0.1}, "start is 1; expected less than end"),
        ({"start": 0}, "start is 0; expected more than 0 in mode 'exp'"),
        ({"start": -1e-3}, "start is -0.001; expected a number of at least 0"),
        ({"end": float("nan")}, "end is nan; expected a number"),
        ({"end": "10"}, "end is '10'; expected a number"),
        ({"max_norm": 0.0}, "max_norm is 0.0; expected more than 0"),
        ({"val": True}, "val is True and val_loader is None"),
        ({"optimizer": "adam"}, "optimizer is a str; expected a torch.optim.Optimizer"),
    ],
)
def test_lr_range_invalid_option_raises_setup_error(options: dict[str, Any], message: str) -> None:
    with pytest.raises(SetupError, match=message):
        run_lr_range(classifier(), **options)


def test_lr_range_linear_mode_can_start_at_zero() -> None:
    assert run_lr_range(classifier(), start=0.0, end=0.1, mode="linear", steps=10).sweeps[0].values[0] == 0.0


def test_momentum_range_end_of_one_raises_setup_error() -> None:
    with pytest.raises(SetupError, match="end is 1; expected a momentum below 1"):
        Debugger.of(classifier()).momentum_range(end=1.0)


def test_range_test_of_optimizer_without_the_quantity_raises_setup_error() -> None:
    model = network(3)
    setup = minimal_setup(model, *points(), nn.CrossEntropyLoss(), optimizers=(torch.optim.Rprop(model.parameters()),))
    with pytest.raises(SetupError, match="optimizer is Rprop, which has no weight_decay"):
        Debugger.of(setup).weight_decay_range()
    with pytest.raises(SetupError, match="which has no momentum"):
        Debugger.of(setup).momentum_range()


def test_lr_range_frozen_model_raises_setup_error() -> None:
    setup = classifier(optimizers=())
    setup.model.requires_grad_(False)
    with pytest.raises(SetupError, match="no parameter that requires a gradient"):
        run_lr_range(setup)


def test_lr_range_empty_loader_raises_setup_error() -> None:
    model = network(3)
    setup = Setup(model, [], loss_fn=nn.CrossEntropyLoss(), optimizers=(torch.optim.SGD(model.parameters(), 0.1),))
    with pytest.raises(SetupError, match="train_loader is empty; expected at least one batch"):
        run_lr_range(setup)


@pytest.mark.parametrize("step", [0, 7, 31])
def test_lr_range_error_in_step_names_step_and_restores_state(step: int) -> None:
    setup = classifier()
    before = fingerprint(setup.model, setup.optimizers[0])
    setup.step_fn = step_fn_with_error(setup, step, RuntimeError("out of luck"))
    with pytest.raises(SetupError, match=rf"RuntimeError in step {step} of the range test.*out of luck.*expected"):
        run_lr_range(setup, end=1e-3)
    before.check()


class DatasetWithBrokenSample(TensorDataset):
    """Raises OSError at sample 40."""

    def __getitem__(self, index: int) -> Any:
        if index == 40:
            raise OSError("no such file")
        return super().__getitem__(index)


def test_lr_range_loader_error_names_batch() -> None:
    setup = classifier()
    setup.train_loader = DataLoader(DatasetWithBrokenSample(*points()), batch_size=16)
    with pytest.raises(SetupError, match="train_loader raised OSError in batch 2: no such file; expected a batch"):
        run_lr_range(setup)


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        (lambda output: output.sum().detach(), "the loss has no gradient; expected one"),
        (lambda _: 3.0, "expected a scalar tensor"),
        (lambda _: None, "expected a scalar tensor"),
    ],
    ids=["detached", "number", "none"],
)
def test_lr_range_invalid_loss_raises_setup_error(loss: Callable[[Tensor], Any], message: str) -> None:
    setup = classifier()
    setup.step_fn = lambda batch: loss(setup.model(batch[0]))
    with pytest.raises(SetupError, match=message):
        run_lr_range(setup)
