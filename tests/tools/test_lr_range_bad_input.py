"""What the range test says to arguments and programs that it cannot use."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.debugger import Debugger
from nbdebug.exceptions import SetupError
from nbdebug.rules.examples import classifier, minimal_setup, network, points
from nbdebug.setup import Setup
from nbdebug.tools.lr_range import LrRange
from tests.preserve.fingerprint import fingerprint


def lr_range(setup: Setup, **asked: Any) -> LrRange:
    """The range test of a set-up."""
    return Debugger.of(setup).lr_range(**asked)


@pytest.mark.parametrize(
    ("asked", "said"),
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
def test_arguments_are_refused_with_what_is_expected(asked: dict[str, Any], said: str) -> None:
    with pytest.raises(SetupError, match=said):
        lr_range(classifier(), **asked)


def test_linear_may_start_at_zero() -> None:
    assert lr_range(classifier(), start=0.0, end=0.1, mode="linear", steps=10).sweeps[0].values[0] == 0.0


def test_a_momentum_of_one_is_refused() -> None:
    with pytest.raises(SetupError, match="end is 1; expected a momentum below 1"):
        Debugger.of(classifier()).momentum_range(end=1.0)


def test_an_optimizer_without_the_quantity_is_refused() -> None:
    model = network(3)
    setup = minimal_setup(model, *points(), nn.CrossEntropyLoss(), optimizers=(torch.optim.Rprop(model.parameters()),))
    with pytest.raises(SetupError, match="optimizer is Rprop, which has no weight_decay"):
        Debugger.of(setup).weight_decay_range()
    with pytest.raises(SetupError, match="which has no momentum"):
        Debugger.of(setup).momentum_range()


def test_nothing_to_train_is_refused() -> None:
    setup = classifier(optimizers=())
    setup.model.requires_grad_(False)
    with pytest.raises(SetupError, match="no parameter that requires a gradient"):
        lr_range(setup)


def test_an_empty_loader_is_refused() -> None:
    model = network(3)
    setup = Setup(model, [], loss_fn=nn.CrossEntropyLoss(), optimizers=(torch.optim.SGD(model.parameters(), 0.1),))
    with pytest.raises(SetupError, match="train_loader is empty; expected at least one batch"):
        lr_range(setup)


@pytest.mark.parametrize("step", [0, 7, 31])
def test_a_model_that_raises_is_told_with_its_step_and_nothing_is_left(step: int) -> None:
    setup = classifier()
    calls: list[int] = []
    before = fingerprint(setup.model, setup.optimizers[0])

    def step_fn(batch: Any) -> Tensor:
        calls.append(1)
        if len(calls) == step + 1:
            raise RuntimeError("out of luck")
        return nn.functional.cross_entropy(setup.model(batch[0]), batch[1])

    setup.step_fn = step_fn
    with pytest.raises(SetupError, match=rf"RuntimeError in step {step} of the range test.*out of luck.*expected"):
        lr_range(setup, end=1e-3)
    before.check()


class Broken(TensorDataset):
    """Raises at one of its samples."""

    def __getitem__(self, index: int) -> Any:
        if index == 40:
            raise OSError("no such file")
        return super().__getitem__(index)


def test_a_loader_that_raises_is_told_with_its_batch() -> None:
    setup = classifier()
    setup.train_loader = DataLoader(Broken(*points()), batch_size=16)
    with pytest.raises(SetupError, match="train_loader raised OSError in batch 2: no such file; expected a batch"):
        lr_range(setup)


def test_a_loss_without_a_gradient_is_refused() -> None:
    setup = classifier()
    setup.step_fn = lambda batch: setup.model(batch[0]).sum().detach()
    with pytest.raises(SetupError, match="the loss has no gradient; expected one"):
        lr_range(setup)


@pytest.mark.parametrize("value", [3.0, None])
def test_a_loss_that_is_no_tensor_is_refused(value: Any) -> None:
    setup = classifier()
    setup.step_fn = lambda _: value
    with pytest.raises(SetupError, match="expected a scalar tensor"):
        lr_range(setup)
