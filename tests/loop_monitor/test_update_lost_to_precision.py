"""O517 in a run: steps that weights in few bits round away."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.loop_monitor.parameter_updates import UpdateSample
from nbdebug.rules.examples import network, points
from nbdebug.setup import Setup
from tests.loop_monitor.asking import batches, seen, watched


def half(rate: float, kind: Any = torch.optim.Adam, dtype: torch.dtype = torch.bfloat16) -> Setup:
    x, y = points()
    model = network(3).to(dtype)
    loader = DataLoader(TensorDataset(x.to(dtype), y), batch_size=16)
    return Setup(model, loader, loss_fn=nn.CrossEntropyLoss(), optimizers=(kind(model.parameters(), lr=rate),))


def plain(setup: Setup) -> None:
    for x, y in batches(setup):
        setup.optimizers[0].zero_grad()
        setup.loss_fn(setup.model(x), y).backward()
        setup.optimizers[0].step()


def test_small_steps_in_bfloat16() -> None:
    (found,) = (one for one in watched(plain, half(1e-5)) if one.code == "O517")
    assert found.severity == "error"
    assert found.where.parameter in ("0.weight", "2.weight")
    assert "over 9 inspected steps" in found.message


@pytest.mark.parametrize("setup", [half(3e-2), half(1e-5, dtype=torch.float32), half(0.5, torch.optim.SGD)])
def test_steps_that_are_kept_are_quiet(setup: Setup) -> None:
    assert not [one for one in watched(plain, setup) if one.code == "O517"]


def test_what_moves_is_counted_exactly() -> None:
    setup = half(1e-3)
    before = {name: p.detach().clone() for name, p in setup.model.named_parameters()}
    optimizer, (x, y) = setup.optimizers[0], next(iter(setup.train_loader))

    def one_step(setup: Setup) -> None:
        setup.loss_fn(setup.model(x), y).backward()
        optimizer.step()

    for name, looks in seen(one_step, setup).rounded_updates.items():
        p = setup.model.get_parameter(name)
        asked = p.grad != 0
        assert looks == (UpdateSample(1e-3, int(asked.sum()), int((asked & (p != before[name])).sum())),)


def test_a_copy_in_full_precision_that_is_stepped_is_quiet() -> None:
    setup = half(1e-5)
    master = copy.deepcopy(setup.model).float()
    setup.optimizers = (torch.optim.Adam(master.parameters(), lr=1e-5),)

    def train(setup: Setup) -> None:
        for x, y in batches(setup):
            setup.loss_fn(setup.model(x), y).backward()
            with torch.no_grad():
                for low, full in zip(setup.model.parameters(), master.parameters(), strict=True):
                    full.grad, low.grad = low.grad.float(), None
                setup.optimizers[0].step()
                for low, full in zip(setup.model.parameters(), master.parameters(), strict=True):
                    low.copy_(full)

    assert "O517" not in [one.code for one in watched(train, setup)]
